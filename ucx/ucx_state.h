/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_state.h - the structures: contexts, workers, the endpoints that a program has made of one, requests.
 *
 * A worker is one endpoint of Thole's, and each of its own endpoints a peer of that. The charge's lock guards all of
 * a worker. Programs' functions (callbacks, datatypes) run without it, since they may call us in turn.
 *
 * A request stands in front of the part that the program sees. It is the worker's, from its pool, or lies in memory of
 * the program's in front of the address that it gave. Those that the program does not see may be part of what they are
 * for. Thole's context of an operation is its request.
 */
#ifndef UCX_STATE_H
#define UCX_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/list.h"
#include "base/pool.h"
#include "front/charge.h"
#include "thole.h"
#include "ucx_datatype.h"

enum ucx_request_flags {
	UCX_STARTING = 1 << 0,  /* its call has not returned: what ends now is that call's to report */
	UCX_ENDED = 1 << 1,     /* status and info stand */
	UCX_FREED = 1 << 2,     /* the program wants it no more */
	UCX_OURS = 1 << 3,      /* of the pool */
	UCX_RECEIVE = 1 << 4,
	UCX_CALLBACK = 1 << 5,  /* there is one, */
	UCX_PLAIN = 1 << 6,     /* which takes no user_data */
	UCX_SEND = 1 << 7,      /* its endpoint stays for it */
	UCX_UNASKED = 1 << 8,   /* of a send: it needs no receive, so flushes wait for it */
	UCX_TELLING = 1 << 9,   /* of the pool, not the program's: its callback is being called */
	UCX_WATCH = 1 << 10,    /* a receive that ends when the endpoint's peer goes */
	UCX_AM = 1 << 11,       /* a receive of an active message, which is in no pool; or of the data of a kept one */
	UCX_AHEAD = 1 << 12,    /* a send: the beginning of a long active message, */
	UCX_FOLLOWS = 1 << 13,  /* or its data, which has to come if that has left */
};

struct ucx_request {
	uint32_t flags;
	ucs_status_t status;
	ucp_tag_recv_info_t info; /* of a receive */
	union {
		ucp_send_nbx_callback_t send;
		ucp_send_callback_t send_plain;
		ucp_tag_recv_nbx_callback_t receive;
		ucp_tag_recv_callback_t receive_plain;
		ucp_am_recv_data_nbx_callback_t data; /* with UCX_AM */
	} callback;
	void *user_data;
	struct ucp_worker *worker;
	union {
		struct ucx_request *next; /* in the worker's list of ended ones, or of flushes */
		struct list_node node;    /* of a send under way: of its endpoint's */
	};
	struct ucp_ep *endpoint;  /* of a send; of a flush, NULL: of all */
	uint64_t order;           /* of a send: flushes that began before it; of a flush, its number */
	union {
		uint64_t left;            /* of a flush: sends that it waits for */
		struct ucx_request *pair; /* with UCX_AHEAD or UCX_FOLLOWS: the other of the two; NULL: it has ended */
	};
	struct ucx_bounce *bounce; /* behind all, the program's part is aligned as memory of malloc's is */
};

_Static_assert(sizeof(struct ucx_request) % 16 == 0, "what stands behind a request is aligned to 16");

struct ucp_context {
	bool am;             /* there may be active messages, */
	bool memory;         /* and remote memory was asked for beside them */
	size_t request_size; /* bytes of the program's own behind each request */
	/* of that part, when a request is first made and when it goes for good; NULL: nothing is to be done */
	ucp_request_init_callback_t request_init;
	ucp_request_cleanup_callback_t request_cleanup;
	char name[UCP_ENTITY_NAME_MAX];
};

/* Active messages (ucx_am.h). */
struct ucx_am_queue {
	struct list_node arriving;  /* in the order in which they came, all of them here or not */
	struct list_node kept;      /* by the program, and the one whose handler is called, */
	struct ucx_am *telling;     /* this one */
	struct ucx_am *posted;      /* the receive of the next one, */
	struct ucx_am *ahead;       /* or the last of those that arrive, whose data is the next message of its peer */
	uint64_t wanting_ns;        /* since then there is no memory for that data; 0: there was */
	struct ucx_am *spare;       /* memory for a receive */
	unsigned char *together;    /* what a send puts together while it has the lock; NULL: nothing was so far */
	uint32_t waiting;           /* in `arriving` */
	size_t alignment;           /* of what is handed to handlers: bytes, a power of two */
	uint32_t handler_count;
	struct ucx_am_handler *handlers; /* by number */
};

struct ucp_worker {
	struct charge charge;
	struct thole_endpoint *thole;
	struct pool requests;
	struct ucx_request *ended;      /* that the program is to be called for, in the order in which they ended */
	struct ucx_request **ended_end; /* where the next one goes */
	struct ucx_request *flushes;    /* under way */
	struct list_node bounces;       /* of requests under way, wherever these lie */
	struct list_node calling;       /* callbacks of requests in the program's hands, if threads share this */
	uint64_t flush_count;           /* begun so far */
	uint64_t unasked;               /* sends under way that need no receive */
	uint64_t unasked_max;           /* bytes of the longest such */
	struct list_node endpoints;
	uint32_t owing;                 /* of these; see ucp_ep.owes */
	struct ucx_am_queue am;
	struct ucp_context *context;
	ucs_thread_mode_t thread_mode; /* as the program has it */
	bool parts;                    /* its datatypes may be packed and unpacked part by part, in any thread */
	char name[UCP_ENTITY_NAME_MAX];
};

struct ucp_ep {
	struct ucp_worker *worker;
	struct thole_endpoint *thole; /* the worker's */
	uint32_t peer;                /* Thole's handle */
	bool closed;                  /* by the program: it goes with its last send, */
	bool telling;                 /* and not while its error handler, or what watches on, is called, or waits, */
	bool watching;                /* or while `watch` is a receive, */
	bool owes;                    /* or the peer waits for data of an active message that does not come, and */
	uint64_t owed;                /* an empty one with this tag could not be sent instead */
	ucp_err_handler_t handler;    /* what to call when the peer goes, */
	struct ucx_request watch;     /* which ends this receive; while `telling`, it is what the call waits by */
	ucs_status_t failed;          /* what the handler was, or is to be, called with; UCS_OK: nothing */
	struct list_node sends;       /* under way, oldest first; */
	uint64_t unasked;             /* of these, those that need no receive */
	struct list_node node;        /* of the worker's */
	char name[UCP_ENTITY_NAME_MAX];
};

/* A name for a context, a worker or an endpoint: the program's, as far as it has room, or (NULL) one that no other of
 * this process has. */
static inline void ucx_state_name(char *name, const char *given, const void *owner)
{
	if (given)
		snprintf(name, UCP_ENTITY_NAME_MAX, "%s", given);
	else
		snprintf(name, UCP_ENTITY_NAME_MAX, "thole-%p", owner);
}

#endif /* UCX_STATE_H */
