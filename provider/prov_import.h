/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_import.h - a function that a library calls is another one from now on.
 *
 * The library's table of imports is written, as the dynamic linker would have done for a library that was preloaded.
 * Nobody else's calls are touched, and the sanitizers' ways are not, in which preloading is. The function stays for as
 * long as the process runs; so its own library does, too (-z nodelete).
 */
#ifndef PROV_IMPORT_H
#define PROV_IMPORT_H

/* In the libraries of this process whose file names begin with `library`. How many places there were; 0 where they do
 * not call it by a table, or the processor's tables are not known here. */
int prov_import_set(const char *library, const char *name, void (*function)(void));

#endif
