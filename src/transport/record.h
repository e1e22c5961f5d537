/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * record: the unit of the records service - small, reliable, in order, one source. One cache line in memory,
 * with a payload that is inside it where it fits. What kinds mean is in message.c; kinds from
 * RECORD_TRANSPORT on belong to the transports and never reach the message layer.
 *
 * Whatever a record says was written by a peer: it is copied out of shared memory once, then checked.
 */
#ifndef THOLE_TRANSPORT_RECORD_H
#define THOLE_TRANSPORT_RECORD_H

#include <stdint.h>

enum record_kind {
	RECORD_NONE,
	RECORD_EAGER,    /* a message with its data: tag, imm; args only with MORE or SYNC */
	RECORD_PIECE,    /* more data of the record before it: nothing but payload */
	RECORD_RTS,      /* a message whose data is to be fetched: tag, imm, window */
	/* the owner's window `tag` is no longer needed (or: its SYNC send matched); imm: see finish_pack */
	RECORD_FINISH,
	RECORD_PUT,      /* tag: key; arg 3: offset; window, or data with arg 0 length and arg 2 id */
	RECORD_GET,      /* tag: key; arg 0: length, arg 2: id, arg 3: offset; imm: not 0 in attach.c's */
	RECORD_ATOMIC,   /* tag: key; imm: operation, type, count; arg 0: length, arg 2: id, arg 3: offset */
	RECORD_REPLY,    /* ends the peer's request `tag`; imm: status; its data as payload or as a window */
	/* between two adapters for remote DMA, by a connection that is there without them: tag: which word; imm and
	 * payload by that (verbs.c). It may come between the pieces of a message */
	RECORD_CARD,
	RECORD_MESSAGE_KINDS,
	RECORD_TRANSPORT = 24, /* transports' own from here */
	/* make this access, if you come to it: tag: key; imm: its number; arg 0: length; arg 1: not 0: a put, of the
	 * payload; arg 3: offset */
	RECORD_ACCESS = 24,
	RECORD_ACCESSED,       /* tag: its number; imm: status; payload: what was to be got */
	RECORD_BULK = 32,      /* those of bulk */
	/* push me window `tag` from arg 0 on, arg 1 bytes in pieces of arg 2, as transfer imm; arg 3: into this place
	 * and size (upper half) of my segment, 0: into yours */
	RECORD_BULK_PULL = 32,
	RECORD_BULK_DATA,      /* bytes at offset imm of transfer tag; no payload: it failed, or its place is left */
	RECORD_BULK_OFFER,     /* help: copy window `tag` into what imm's shared offer describes */
	RECORD_REGION,         /* may I reach region `tag` without you? */
	/* yes: it is at arg 0, arg 1 bytes long; arg 2: your way in (door.c); arg 3: the accesses that it allows, 0:
	 * no; imm: segment.withdrawals then, or all ones: there is no such region, or it is not to be reached now */
	RECORD_REGION_IS,
};

enum record_flags {
	RECORD_IMM = 1 << 0,    /* imm holds the user's immediate data */
	RECORD_PLAIN = 1 << 1,  /* for the queue of plain messages */
	RECORD_SYNC = 1 << 2,   /* the sender waits for FINISH with arg 2 */
	RECORD_MORE = 1 << 3,   /* arg 0 is the whole length, and pieces follow */
	RECORD_WINDOW = 1 << 4, /* args 0 to 2 are a window to fetch */
	RECORD_UNASKED = RECORD_WINDOW, /* RTS, which has a window in any case: its data might have come unasked */
	RECORD_NOTIFY = 1 << 5, /* put: make a completion at the target; RTS: its sender waits for no receive */
	RECORD_ARRIVED = RECORD_SYNC | RECORD_NOTIFY, /* of one record: FINISH when it is here, matched or not */
	RECORD_STREAM = 1 << 6, /* the transport's: nothing was received since the message before, */
	RECORD_CROSSED = 1 << 7, /* or it probably crosses one of the receiver's */
	RECORD_PACE = RECORD_STREAM | RECORD_CROSSED,
};

enum {
	RECORD_INLINE_MAX = 40,    /* bytes of payload inside the record */
	RECORD_EXTERNAL = 0xffff,  /* length: payload (if any) is elsewhere, args are valid */
	RECORD_ARGS = 4,
};

/* Classes of lengths by powers of two: up to 2^class. */
enum { LENGTH_CLASS_MIN = 6 }; /* of lengths that do not fit a record */

static inline uint32_t length_class(uint64_t length)
{
	return length > 1 ? 64u - (uint32_t)__builtin_clzll(length - 1) : 0;
}

/* A FINISH's imm: how the fetch has ended, and how many bytes it has taken. Fewer than the RTS said need a reason:
 * THOLE_ERR_TRUNCATED, where the receiver has no room for more, or what went wrong. */
static inline uint64_t finish_pack(int status, uint64_t bytes)
{
	return (uint64_t)(uint8_t)-status | bytes << 8;
}

static inline int finish_status(uint64_t imm)
{
	return -(int)(imm & 0xff);
}

static inline uint64_t finish_bytes(uint64_t imm)
{
	return imm >> 8;
}

struct record {
	uint16_t stamp;  /* the transport's: says when the record is whole */
	uint16_t credit; /* the transport's: how much of the other direction is consumed */
	uint8_t kind;    /* enum record_kind; written by the sender, dispatches at the receiver */
	uint8_t flags;   /* enum record_flags */
	uint16_t length; /* bytes of payload, in here as far as they fit; or RECORD_EXTERNAL */
	uint64_t tag;    /* by kind */
	uint64_t imm;    /* by kind */
	union {
		uint8_t payload[RECORD_INLINE_MAX];
		struct {
			uint32_t place;  /* the transport's: where the payload is */
			uint32_t bytes;  /* how long it is; 0: none */
			uint64_t arg[RECORD_ARGS];
		};
	};
};

_Static_assert(sizeof(struct record) == 64, "a record is one cache line");

/*
 * A window on its owner's memory, as records carry it: args 0 to 2. Its owner keeps it valid until FINISH or REPLY
 * for its id. count and length share a word: THOLE_LENGTH_MAX leaves the upper bits free.
 */
struct window {
	uint64_t length;  /* bytes */
	uint32_t count;   /* segments */
	uint64_t address; /* of the data where count is 1, else of the owner's array of struct iovec */
	uint64_t id;      /* the owner's request */
};

enum { WINDOW_COUNT_SHIFT = 48 };

static inline void window_store(const struct window *window, struct record *record)
{
	record->arg[0] = window->length | (uint64_t)window->count << WINDOW_COUNT_SHIFT;
	record->arg[1] = window->address;
	record->arg[2] = window->id;
}

static inline void window_load(struct window *window, const struct record *record)
{
	window->length = record->arg[0] & (((uint64_t)1 << WINDOW_COUNT_SHIFT) - 1);
	window->count = (uint32_t)(record->arg[0] >> WINDOW_COUNT_SHIFT);
	window->address = record->arg[1];
	window->id = record->arg[2];
}

#endif
