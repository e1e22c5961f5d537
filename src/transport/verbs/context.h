/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: a port of an adapter, opened. Owns what libibverbs has for one endpoint before there is any queue pair, from
 * the device to the completion queue and the shared receive queue; memory that is registered there; and the one
 * descriptor that says that there is something to look at. Does not own queue pairs (qp.c), nor know what is posted
 * and what comes (nic_verbs.c): nothing here is called for a message.
 *
 * It does not move while it is open: what a forked child closes is listed in it.
 */
#ifndef THOLE_TRANSPORT_VERBS_CONTEXT_H
#define THOLE_TRANSPORT_VERBS_CONTEXT_H

#include "base/forked.h"
#include "transport/verbs/ibverbs.h"
#include "transport/verbs/iwarp.h"
#include "transport/verbs/port.h"

enum { CONTEXT_FDS = 5 };

struct context {
	const struct ibverbs *verbs;
	struct port port;           /* as it is now: context_renew */
	uint8_t asked[16];          /* the GID that it was opened by, which is taken again when it comes again */
	struct ibv_context *device;
	struct ibv_pd *domain;
	struct ibv_comp_channel *channel;
	struct ibv_cq *completions;
	struct ibv_srq *receives;
	struct iwarp *iwarp;        /* NULL: it is none */
	int fd;                     /* readable at the next completion or event, once completions are armed */
	int fds[CONTEXT_FDS];       /* for forked; the first is fd */
	struct forked forked;
};

/* context_close is to follow, also where this fails. Errors: UNSUPPORTED (no libibverbs here; says so), ACCESS, MEMORY,
 * SYSTEM. */
int context_open(struct context *context, const struct port *port);
/* No queue pair is there, and no registered memory. */
void context_close(struct context *context);
/* Why it cannot be used, as errno says. */
int context_refused(const struct context *context);
/* The device is gone, and what tells of it tells of nothing any more but that, for ever: fd is not readable again. */
void context_unwatch(struct context *context);
/* Whether the port has another address than it had, by which peers are to know it from now on. */
bool context_renew(struct context *context);

/* As struct nic_calls has them. */
int context_register(struct context *context, void *base, size_t length, unsigned access, struct nic_memory *memory_p);
void context_deregister(struct context *context, struct nic_memory *memory);

#endif
