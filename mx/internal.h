/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal: what the files of the MX front end share: endpoints, peers, requests.
 *
 *   library.c    initialisation, error handlers, words for codes
 *   board.c      this host's boards                    names.c    names of boards, the hosts file
 *   directory.c  from (NIC id, endpoint id) to a Thole address, and keys
 *   endpoint.c   opening and closing                   peer.c     endpoint addresses
 *   connect.c    connecting and disconnecting          request.c  sends, receives, their end, cancel
 *   wait.c       progress, test, wait, peek, probe     progression.c   progress while the program is elsewhere
 *   info.c       mx_get_info, names and boards         raw.c           raw packets
 *
 * An MX endpoint is a Thole endpoint, opened for one thread, and a lock around both: one lock an operation is cheaper than two.
 * The lock is let go while a program's handler runs and while a thread sleeps, and never held while another is taken.
 *
 * A request has two owners. The program has it from posting until it takes the result, forgets or cancels it (`state`); Thole
 * has it as the context of an operation until its completion, or the directory until it has answered (`busy`). It is freed by the last of them, so a request that
 * has timed out, or whose peer was disconnected, is over for the program while Thole still works on it.
 *
 * mx/ uses thole.h and src/base, nothing else of the library.
 */
#ifndef MX_INTERNAL_H
#define MX_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "directory.h"
#include "mx_extensions.h"
#include "myriexpress.h"
#include "thole.h"

enum {
	MXI_ENDPOINTS = 256,     /* numbers of endpoints on one board: what fits MXoE's byte */
	MXI_COUNTERS_MAX = 256, /* some times as many as thole_counter_info has */
	MXI_REQUESTS_CHUNK = 64,
	MXI_REQUESTS_MAX = 1 << 30,
};

enum mxi_kind { MXI_SEND, MXI_RECEIVE, MXI_CONNECT };

enum mxi_state {
	MXI_PENDING, /* the program waits for it */
	MXI_DONE,    /* complete; among the done ones until the program takes it */
	MXI_LEFT,    /* the program has let go of it */
};

/* A peer as this endpoint knows it; an endpoint address of MX points here. Lives until the endpoint closes, since
 * programs keep addresses. */
struct mxi_peer {
	struct list_node node;       /* all of the endpoint */
	struct mx_endpoint *endpoint;
	uint64_t nic_id;
	uint32_t endpoint_id;
	uint32_t session;            /* tells it from others that had the same place */
	uint32_t handle;             /* Thole's */
	bool disconnected;           /* its address is no longer valid */
	bool connected;              /* MXoE: it has accepted the key */
	uint32_t key;
	void *context;               /* the program's */
};

union mx_request {
	struct {
		struct list_node done;       /* DONE: among all done ones; at the directory: among those that it works on */
		struct list_node same;       /* DONE, with context ids: among those of its context */
		mx_status_t status;          /* its source is filled in when the program takes it */
		struct mxi_peer *peer;       /* send, connect: the other side; NULL: not known (yet) */
		struct mxi_query *query;     /* connect that the directory works on */
		struct heap_node limit;      /* when it times out */
		uint32_t handle;             /* receive: Thole's of the source; THOLE_ANY: nothing has come */
		uint8_t kind;                /* enum mxi_kind */
		uint8_t state;               /* enum mxi_state */
		bool buffered;               /* send: its memory is not needed */
		bool busy;                   /* Thole, or the directory, will report its completion */
	};
};

struct mx_endpoint {
	struct lock lock;
	bool in_handler;             /* the program's handler runs: no progress */
	bool disabled;               /* the program has switched progress off */
	struct thole_endpoint *thole;
	struct pool requests;
	struct list_node done;       /* complete requests, oldest first */
	struct list_node *done_by_context; /* the same by context id; NULL: no context ids */
	uint64_t context_mask;       /* bits of the match info that are the context id */
	unsigned context_shift;
	struct mxi_peer **peers;     /* by Thole's handle; entries may be NULL */
	uint32_t peers_size;
	struct list_node all_peers;
	struct mxi_peer *self;

	mx_unexp_handler_t handler;
	void *handler_context;
	mx_matching_callback_t callback; /* of mx_register_unexp_callback, instead of a handler */
	bool screening;              /* there is either: Thole holds messages back that nobody expects */
	mx_error_handler_t error_handler; /* NULL: the process's */

	struct mxi_entry entry;      /* in the directory: our name and key */
	uint32_t board;
	pid_t owner;                 /* the process that has opened it; a forked child has a copy that is none */
	bool mxoe;                   /* between hosts by MXoE frames */
	uint32_t answers;            /* of the directory, that were looked at */
	struct list_node connecting; /* requests that the directory works on, by `done` */
	struct heap timed;           /* requests with a deadline, by `limit` */
	uint32_t timeout_ms;         /* of sends and connects that are started, 0: none */

	int wake_fd;                 /* an eventfd */
	uint32_t looks;              /* calls of mxi_progress */
	uint32_t looks_before;       /* when the progression thread last came by */
	bool leader_sleeps;          /* a thread sleeps on wake_fd and Thole's */
	bool leader_woken;           /* and wake_fd is readable, for it */
	unsigned followers;          /* threads that sleep until `events` changes */
	uint32_t events;             /* counts completions, and looks that found something; a futex */
	uint32_t wakeups;            /* calls of mx_wakeup */
	pthread_t handler_thread;    /* while in_handler */
	struct list_node node;       /* all endpoints of the process */
};

/* The list of done requests of the context that a match info says. Only with context ids. */
static inline struct list_node *mxi_done_of(const struct mx_endpoint *endpoint, uint64_t match_info)
{
	return &endpoint->done_by_context[(match_info & endpoint->context_mask) >> endpoint->context_shift];
}

/* ---- endpoint.c ---- */

/* The endpoints of this process, under a lock of their own, in no order. */
void mxi_endpoint_each(void (*visit)(struct mx_endpoint *endpoint, void *arg), void *arg);
/* Thole's counters of an endpoint, by any thread. */
void mxi_endpoint_counters(struct mx_endpoint *endpoint, uint64_t *values, size_t count);

/* ---- peer.c ---- */

static inline mx_endpoint_addr_t mxi_peer_address(const struct mxi_peer *peer)
{
	return peer ? (mx_endpoint_addr_t){{(uintptr_t)peer, peer->session}} : (mx_endpoint_addr_t){{0, 0}};
}

static inline struct mxi_peer *mxi_peer_at(mx_endpoint_addr_t address)
{
	return (struct mxi_peer *)(uintptr_t)address.stuff[0];
}

/* The peer of an address; NULL: it is none of this endpoint's, or was disconnected. */
static inline struct mxi_peer *mxi_peer_of(const struct mx_endpoint *endpoint, mx_endpoint_addr_t address)
{
	struct mxi_peer *peer = mxi_peer_at(address);

	return peer && peer->endpoint == endpoint && !peer->disconnected ? peer : NULL;
}

/* The out of line part of mxi_peer_by_handle. */
struct mxi_peer *mxi_peer_meet(struct mx_endpoint *endpoint, uint32_t handle);
/* The peer behind a handle of Thole's: one that we know, or one that has spoken first. NULL: no memory. */
static inline struct mxi_peer *mxi_peer_by_handle(struct mx_endpoint *endpoint, uint32_t handle)
{
	struct mxi_peer *peer = handle < endpoint->peers_size ? endpoint->peers[handle] : NULL;

	return __builtin_expect(peer && !peer->disconnected, 1) ? peer : mxi_peer_meet(endpoint, handle);
}

/* A peer that we connect to; session 0: not known yet. What was at this handle before is forgotten if it was another one. */
struct mxi_peer *mxi_peer_add(struct mx_endpoint *endpoint, uint32_t handle, uint64_t nic_id, uint32_t endpoint_id,
			      uint32_t session);
uint32_t mxi_peer_session(struct mx_endpoint *endpoint, uint32_t handle);
void mxi_peer_free_all(struct mx_endpoint *endpoint);

/* ---- request.c ---- */

/* One that is pending, its status filled in but for code and source. NULL: no memory. */
union mx_request *mxi_request_new(struct mx_endpoint *endpoint, enum mxi_kind kind, uint64_t match_info, void *context);
/* Complete: the program may take it. */
void mxi_request_finish(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code);
/* The program lets go of it: freed now, or by Thole's completion. */
void mxi_request_leave(struct mx_endpoint *endpoint, union mx_request *request);
/* The result of one that is done, to the program, which thereby lets go. */
void mxi_request_take(struct mx_endpoint *endpoint, union mx_request *request, mx_status_t *status_p);
/* Time it out after so long, 0: never. Errors: MX_NO_RESOURCES. */
mx_return_t mxi_request_limit(struct mx_endpoint *endpoint, union mx_request *request, uint32_t timeout_ms);
/* Time out whose time has come. */
void mxi_request_expire(struct mx_endpoint *endpoint, uint64_t now_ns);
/* The end of all sends and connects to a peer that is being disconnected. */
void mxi_request_end_of(struct mx_endpoint *endpoint, const struct mxi_peer *peer);
/* Thole's word for an end, as MX's. */
mx_status_code_t mxi_status_of(int error);
thole_complete_fn mxi_request_completed;

/* ---- connect.c ---- */

/* What the directory has answered. */
void mxi_connect_answers(struct mx_endpoint *endpoint);
/* Give up one that is under way; false: it is too late. */
bool mxi_connect_cancel(struct mx_endpoint *endpoint, union mx_request *request);
/* Thole's completion of one. */
void mxi_connect_completed(struct mx_endpoint *endpoint, union mx_request *request, int status);

/* ---- wait.c ---- */

/* What calls ask first: is there an endpoint, and a request; may one match so. */
mx_return_t mxi_request_check(struct mx_endpoint *endpoint, const char *call, const mx_request_t *request);
mx_return_t mxi_match_check(struct mx_endpoint *endpoint, const char *call, uint64_t match_info, uint64_t match_mask);
void mxi_progress(struct mx_endpoint *endpoint);
/* Whoever sleeps looks again. */
void mxi_wake(struct mx_endpoint *endpoint);
/* Something that others may wait for. */
static inline void mxi_happened(struct mx_endpoint *endpoint)
{
	endpoint->events++;
	if (__builtin_expect(endpoint->leader_sleeps || endpoint->followers > 0, 0))
		mxi_wake(endpoint);
}
/* Whether this thread is inside the endpoint's unexpected handler, where nothing can be waited for. */
bool mxi_is_handler(const struct mx_endpoint *endpoint);
/* Whether what is waited for is there. */
typedef bool mxi_done_fn(struct mx_endpoint *endpoint, void *arg);
/* Progress until done(arg), mx_wakeup or the timeout (ms, MX_INFINITE). Lock held; whether it is done. */
bool mxi_wait(struct mx_endpoint *endpoint, mxi_done_fn *done, void *arg, uint32_t timeout_ms);

/* ---- progression.c ---- */

/* An endpoint more, or one less, for the progression thread. Without the thread all works inside of calls alone. */
void mxi_progression_join(void);
void mxi_progression_leave(void);

#endif
