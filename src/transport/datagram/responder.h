/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * responder: answers for a process that computes. Its endpoints are asked by datagrams whether the process lives, and
 * one thread of the process answers for all of them, with a proof that only who knows the job key can make. So no
 * answer comes from a child that holds copies of the sockets, from whoever took the port of one that has died, or from
 * a process that is stopped.
 *
 * Beside that the endpoint listens on the records' TCP port, where the host's kernel answers by itself: that the port
 * is there, or not. Whoever fills that queue hides no more than this. What the thread cannot take, since the process
 * has no descriptor left, waits in the queue, and has its answer by then: the thread looks again after each rest.
 *
 * Owns the thread, and for each endpoint two sockets. The thread is there as long as there is an endpoint; it sleeps
 * unless somebody asks, but for a look once a second whether it should end, and works a bounded part of the time
 * whoever does what: the kernel drops datagrams that are no questions of this job.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_RESPONDER_H
#define THOLE_TRANSPORT_DATAGRAM_RESPONDER_H

#include "base/forked.h"
#include "transport/datagram/interface.h"

enum responder_limits {
	RESPONDER_BACKLOG = 4096,      /* connections that wait to be let go: one for each that asks the host */
	RESPONDER_ACCEPTS = 8,         /* of them let go at a time, */
	RESPONDER_ANSWERS = 64,        /* and questions answered, */
	/* after which the thread rests: a few percent of a core is all that a flood can take */
	RESPONDER_PAUSE_NS = 5000000,
};

/* Both are big-endian words. A question: the endpoint's token, a number of the questioner's, 0. An answer: that
 * number, the proof. So an answer is shorter than its question. */
enum question_format { QUESTION_BYTES = 24, ANSWER_BYTES = 16, QUESTION_NUMBER_AT = 8, ANSWER_PROOF_AT = 8 };

enum responder_sockets { RESPONDER_QUESTIONS, RESPONDER_LISTENER, RESPONDER_SOCKETS };

struct responder {
	struct list_node node;
	struct forked forked;
	int fds[RESPONDER_SOCKETS];
	uint64_t key, endpoint;
	bool running; /* the thread answers for it */
};

/* Answer for an endpoint with its records at this path. Returns 0, or THOLE_ERR_BUSY if one of its ports is taken;
 * errors: MEMORY, SYSTEM. */
int responder_open(struct responder *responder, uint32_t interface, const struct path *own, uint64_t key,
		   uint64_t endpoint);
/* Also of one that failed to open, or is all zeros. */
void responder_close(struct responder *responder);

/* Where questions go that are about the process with its records here: next door, so that its address tells it. */
void responder_path(const struct path *records, struct path *questions);
/* What a question and an answer prove their sender knows: 0 is the token of an endpoint's questions, other numbers
 * are of answers. */
uint64_t responder_proof(uint64_t key, uint64_t endpoint, uint64_t number);

#endif
