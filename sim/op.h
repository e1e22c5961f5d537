/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op: one operation from its start to its end, for traffic.c, which says what is started; others have traffic.h.
 */
#ifndef THOLE_SIM_OP_H
#define THOLE_SIM_OP_H

#include "traffic.h"

enum {
	SEGMENTS_MAX = 9,
	UNTOUCHED = 0xa5, /* each byte of a buffer that nothing has come into */
};

/* The bytes of a message by its number. */
void pattern_write(uint8_t *to, uint64_t number, uint64_t length);
uint8_t pattern_byte_at(uint64_t number, uint64_t at);
/* The first word that is not of this message, or `length`. `from` is a multiple of 8. */
uint64_t pattern_compare(const uint8_t *bytes, uint64_t number, uint64_t from, uint64_t length);

/* Whether `process` may truly say that it has lost the other. */
bool traffic_excused(const struct process *process, const struct process *other);

struct op *op_new(struct process *by, enum op_kind kind, struct process *peer, uint64_t capacity);
/* What the library answered to its start: it is under way, has ended, or was refused. */
void op_started(struct op *op, int error);
void op_end(struct op *op, int status);
/* A completion that the library reported. */
void traffic_completion(struct process *process, const struct thole_completion *completion);

/* Of two messages from one source, a receive that accepts both and got the later one was posted after the one that got
 * the earlier. */
void check_order(const struct op *message);
void check_imm(const struct op *op, unsigned flags, uint64_t imm, unsigned got_flags, uint64_t got);
/* The message that a completion is about. */
struct op *message_of(struct op *receive, uint64_t tag);

struct thole_request **handle_wanted(struct op *op, bool handle);
uint32_t handle_of(struct process *process, const struct process *other);
/* Cut a buffer into segments at random. */
size_t cut_segments(struct op *op, struct iovec segments[SEGMENTS_MAX], bool cut);
struct op *traffic_message_start(struct process *process, struct process *to, uint64_t length, uint32_t tag,
				 unsigned flags, bool handle, bool vector);
struct op *receive_start(struct process *process, struct process *from, uint64_t capacity, uint32_t tag, uint64_t mask,
			 unsigned flags, bool handle, bool vector);

#endif
