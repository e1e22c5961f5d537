/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_known - what is known of other hosts' boards: the rows of the file of hosts (option mx_hosts),
 * and what was heard.
 *
 * Owns both tables, under one lock. The file wins: what is heard never replaces what it says. This
 * host's own boards are in neither (mx_board.h). That of the file is replaced as a whole, when the
 * file has changed: by that of a file that could be read, or by an empty one where there is no
 * file.
 *
 * Lines of the file are "MAC IP NAME", as in "02:83:00:00:00:01 10.83.0.1 host1:0"; what follows #
 * is a comment. IP is "-" for a board that is reached by frames of MXoE only. A name without
 * ":NUMBER" is that of board 0. A line that is none of this is skipped. Any thread may call
 * anything.
 */
#ifndef MX_KNOWN_H
#define MX_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mx_board.h"

enum {
	/* boards of other hosts, in the file and in the table each: more than a cluster of this kind has */
	MXI_KNOWN_MAX = 4096,
	/* of the constructor: before those whose locks are held when the one of this is taken (base/forked.h) */
	MXI_KNOWN_FIRST = 102,
};

/* A board of another host. */
struct mxi_known {
	uint64_t nic_id;                /* never 0 */
	char address[MXI_ADDRESS_MAX];  /* "": frames of MXoE only */
	char name[MX_MAX_HOSTNAME_LEN]; /* "host:0" */
	bool heard;                     /* it told so itself; else the file says it */
};

/* What is known of a board of another host without asking. */
bool mxi_known_find(uint64_t nic_id, struct mxi_known *known_p);

/* Fill the first of all known ones, those of the file first. Returns how many there are. */
unsigned mxi_known_list(struct mxi_known *list, unsigned room);

/* Another host has told this of its board. Where the table is full it replaces what was heard
 * first. */
void mxi_known_heard(uint64_t nic_id, const char *name, const char *address);

/* Read one line of the file. Returns 1 and fills *known_p, 0 for one that says nothing, or
 * THOLE_ERR_ARGUMENT with a sentence for one that is wrong. The line is written to. */
int mxi_known_line(char *line, struct mxi_known *known_p);

/* The sentence on the first wrong line of the file as it was last read, or on why it could not be;
 * "" if nothing was wrong. */
void mxi_known_trouble(char *text, size_t size);

#endif /* MX_KNOWN_H */
