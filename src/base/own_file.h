/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own_file: a descriptor, and which file it was when it was opened. A program may close all descriptors that it did not
 * open itself (closefrom), and open files of its own, which have their numbers then: so a number is nothing to trust.
 */
#ifndef BASE_OWN_FILE_H
#define BASE_OWN_FILE_H

#include <stdbool.h>
#include <sys/types.h>

struct own_file {
	int fd; /* -1: none */
	dev_t device;
	ino_t inode;
};

/* From now on it is this descriptor. False: it is none. */
bool own_file_begin(struct own_file *file, int fd);
/* Whether a descriptor is what it was: not closed, nor another file's now. A system call. */
bool own_file_is(const struct own_file *file);

#endif
