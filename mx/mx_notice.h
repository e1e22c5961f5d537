/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_notice - the datagrams of the directory: what they look like, and nothing of who sends them
 * where.
 *
 * Every number is big-endian and without padding. A text is a byte with its length, then as many
 * characters, each visible ASCII (a command's may be any but NUL). Nothing follows the last field.
 *
 *   all            u32 magic 0x544d5844 "TMXD", u8 version 1, u8 type, u16 bytes of the whole
 *                  datagram
 *   FIND           u64 NIC id of the asker's board or 0, text its name or "", u64 NIC id that is
 *                  looked for or 0: by name, text that name or "" (neither: every board is),
 *                  u8 attempt, counted from 0
 *   HERE           u64 NIC id of a board, text its name; it is reached at the address that this
 *                  comes from
 *   CONNECT        u64 token, u64 asker's NIC id, u32 its endpoint id, u32 its session, text its
 *                  Thole address, u64 NIC id asked for, u32 endpoint id, u32 key
 *   ANSWER         u64 token of the question, u32 mx_status_code_t, u32 session, text Thole
 *                  address or "" where refused
 *   STATUS         u64 token
 *   STATUS_ANSWER  u64 token of the question, u64 NIC id, u32 endpoint id, u32 session,
 *                  u32 process id, text command, text Thole address, u32 datagrams that the process
 *                  could not understand, u16 count, as many u64: the counters of
 *                  thole_counter_info, in its order
 *
 * FIND and HERE are for UDP, STATUS and STATUS_ANSWER for Unix sockets, the others for both.
 */
#ifndef MX_NOTICE_H
#define MX_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mx_clients.h"
#include "myriexpress.h"

enum mxi_notice_type {
	MXI_NOTICE_FIND = 1,
	MXI_NOTICE_HERE,
	MXI_NOTICE_CONNECT,
	MXI_NOTICE_ANSWER,
	MXI_NOTICE_STATUS,
	MXI_NOTICE_STATUS_ANSWER,
};

enum {
	MXI_NOTICE_MAGIC = 0x544d5844,
	MXI_NOTICE_VERSION = 1,
	MXI_NOTICE_COUNTERS_MAX = 256, /* some times as many as there are */
	MXI_NOTICE_COMMAND_MAX = 16,   /* as in /proc/PID/comm, its NUL included */
	MXI_NOTICE_BYTES_MAX = 2560,   /* a STATUS_ANSWER; what leaves the host is below 300 */
};

/* All fields of all types; a type has its own only, the others are zero. */
struct mxi_notice {
	enum mxi_notice_type type;
	uint64_t token;                             /* of a question, repeated by its answer */
	struct mxi_identity from;                   /* who sends it, as far as the type says */
	char from_name[MX_MAX_HOSTNAME_LEN];        /* of the sender's board */
	struct thole_address address;               /* of the sender */
	uint64_t nic_id;                            /* who is meant */
	uint32_t endpoint_id, key;                  /* of who is meant */
	char name[MX_MAX_HOSTNAME_LEN];             /* of the board that is meant; "": by nic_id */
	uint8_t attempt;                            /* how often it was asked before */
	uint32_t status;                            /* mx_status_code_t */
	uint32_t pid, dropped;                      /* the process; datagrams that it could not understand */
	char command[MXI_NOTICE_COMMAND_MAX];       /* the name of its program */
	uint16_t count;                             /* of counters */
	uint64_t counters[MXI_NOTICE_COUNTERS_MAX]; /* as thole_counter_info has them */
};

/* Returns the datagram's length; 0 if the notice is none that can be said. */
size_t mxi_notice_encode(const struct mxi_notice *notice, uint8_t bytes[MXI_NOTICE_BYTES_MAX]);

/* False: it is no datagram of ours. *notice is changed in any case. */
bool mxi_notice_decode(const uint8_t *bytes, size_t length, struct mxi_notice *notice);

#endif /* MX_NOTICE_H */
