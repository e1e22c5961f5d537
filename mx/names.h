/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names - which host and board has which NIC id, and which IP address leads there.
 *
 * Owns the file of hosts (option mx_hosts) and the table of what other hosts have told of themselves. The file wins: what is
 * heard never replaces what it says. This host's own boards are in neither (board.h).
 *
 * Lines of the file are "MAC IP NAME", as in "02:83:00:00:00:01 10.83.0.1 host1:0"; what follows # is a comment. IP is "-" for
 * a board that is reached by frames of MXoE only. A name without ":NUMBER" is that of board 0. A line that is none of this is
 * skipped. The file is read again when it has changed. Any thread may call anything.
 */
#ifndef MX_NAMES_H
#define MX_NAMES_H

#include <stddef.h>

#include "board.h"

enum {
	MXI_KNOWN_MAX = 4096, /* boards of other hosts, in the file and in the table each: more than a cluster of this kind has */
};

/* A board of another host. */
struct mxi_known {
	uint64_t nic_id;
	char address[MXI_ADDRESS_MAX];  /* "": frames of MXoE only */
	char name[MX_MAX_HOSTNAME_LEN]; /* "host:0" */
	bool heard;                     /* it told so itself; else the file says it */
};

/* The NIC id of "host:1", or of "host", which is its board 0; MX_HOST_NOT_FOUND. The name of a NIC id; MX_NIC_NOT_FOUND. What
 * neither this host nor the file nor the table knows is asked for on the network, for at most 300 ms; with frames of MXoE a name
 * for 1.3 s on each board. Failures have a sentence (error_set). */
mx_return_t mxi_name_to_nic(const char *name, uint64_t *nic_id_p);
mx_return_t mxi_nic_to_name(uint64_t nic_id, char name[MX_MAX_HOSTNAME_LEN]);

/* What is known of a board of another host without asking. */
bool mxi_known_find(uint64_t nic_id, struct mxi_known *known_p);

/* Fill the first of all known ones, those of the file first. Returns how many there are. */
unsigned mxi_known_list(struct mxi_known *list, unsigned room);

/* Another host has told this of its board. Where the table is full it replaces what was heard first. */
void mxi_known_heard(uint64_t nic_id, const char *name, const char *address);

/* Read one line of the file. Returns 1 and fills *known_p, 0 for one that says nothing, or THOLE_ERR_ARGUMENT with a sentence
 * for one that is wrong. The line is written to. */
int mxi_hosts_line(char *line, struct mxi_known *known_p);

/* The sentence on the first wrong line of the file as it was last read, or on why it could not be; "" if nothing was wrong. */
void mxi_hosts_trouble(char *text, size_t size);

#endif /* MX_NAMES_H */
