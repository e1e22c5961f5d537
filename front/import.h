/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * import.h - a function that MPICH's library calls is another one from now on.
 *
 * The library's table of imports is written, as the dynamic linker would have done for a library that was preloaded.
 * Nobody else's calls are touched, and the sanitizers' ways are not, in which preloading is. The function stays for as
 * long as the process runs; so its own library does, too (-z nodelete).
 */
#ifndef FRONT_IMPORT_H
#define FRONT_IMPORT_H

/* Where this process has the library. How many places there were; 0 where the function is not called by a table, or the
 * processor's tables are not known here; -1: the kernel has refused to have one written, which stays. Open MPI, whose
 * library has another name, is left alone: its parts may free what another part allocated. Intel's has MPICH's name,
 * and all that is said here holds for it. */
int import_set(const char *name, void (*function)(void));

#endif
