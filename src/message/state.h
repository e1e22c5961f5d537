/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state: what the message layer has of an endpoint - requests, peers, regions, completions - and the functions that
 * its files call on each other for it. Everything here is used with the endpoint's lock held.
 *
 * A request is in exactly one place, named by its state; POSTED ones are in a match queue, BACKLOG ones on their
 * peer's backlog, CONNECTING, WAITING and STREAMING ones on their peer's pending list, DONE ones on the endpoint's
 * done list, QUEUED ones on its queue; FETCHING ones belong to the transport, CLAIMED ones to an unexpected message.
 * Parts of THOLE_MULTI receives are on their peer's parts as well, BEHIND ones on that alone.
 */
#ifndef THOLE_MESSAGE_STATE_H
#define THOLE_MESSAGE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/spare.h"
#include "match/match.h"
#include "thole_driver.h"
#include "transport/transport.h"

enum request_state {
	REQUEST_FREE,
	REQUEST_POSTED,    /* a receive that has not matched */
	REQUEST_BACKLOG,   /* not yet wholly handed to the transport */
	REQUEST_CONNECTING, /* until its peer is connected */
	REQUEST_WAITING,   /* for a FINISH or REPLY */
	REQUEST_STREAMING, /* its data is arriving in pieces */
	REQUEST_FETCHING,  /* bulk is at work */
	REQUEST_ACCESSING, /* a put or get by the transport alone is */
	REQUEST_CLAIMED,   /* a receive that waits for the rest of an unexpected message */
	REQUEST_PARENT,    /* a THOLE_MULTI receive that is used up, with parts under way */
	REQUEST_BEHIND,    /* a part of one that is complete, and is reported after those before it from its peer */
	REQUEST_DONE,      /* complete, its handle not yet tested */
	REQUEST_QUEUED     /* complete, for thole_poll */
};

/* A request, and also an outgoing control record (operation 0), and a peer's access to a region here. What a short
 * receive uses is in the first three lines, and what request_make clears is side by side. */
struct thole_request {
	union {
		struct match_receive match; /* POSTED */
		struct list_node part_node; /* a part of a MULTI receive: among its peer's parts */
	};
	struct thole_endpoint *endpoint;
	struct peer *peer;             /* NULL while a receive from any source is posted */
	struct vector vector;          /* the local data */
	struct iovec segment;          /* the vector's only segment, where it has one */
	void *context;
	uint64_t tag, imm;
	uint64_t offset;               /* bytes handed to, or arrived from, the transport */
	uint64_t payload;              /* bytes of the vector that go out with the record */
	uint64_t message_length;
	struct thole_request *parent;  /* of a part of a MULTI receive */
	uint32_t flags;                /* THOLE_* */
	uint32_t generation;           /* makes ids of reused requests differ */
	int32_t status;
	uint32_t parts;                /* a MULTI receive's children under way */
	uint8_t operation;             /* enum thole_operation, or 0 */
	uint8_t state;
	bool handle;                   /* somebody holds a thole_request for it */
	bool head_sent;
	bool answered;                 /* the peer has answered, and status is the answer, before all is handed over */
	bool retired;                  /* a MULTI receive that takes no more messages */
	bool notify;                   /* a peer's access that makes a completion here */
	uint8_t pace;                  /* what of RECORD_PACE a receive's message came with */
	uint8_t queue;                 /* which of the endpoint's match queues */
	struct list_node node;         /* by state */
	struct iovec *owned_segments;  /* the copied vector where it has more; NULL while it is free */
	void *owned_data;              /* the copy that THOLE_INJECT had to make, or memory that stands in for */
	const struct thole_layout *layout; /* this, of a receive; likewise, and only then */
	uint64_t remote_id;            /* the peer's request that a REPLY is owed to */
	struct iovec result;           /* of an atomic: where the former values go */
	struct record record;          /* what goes out first */
	union {
		struct transport_fetch fetch;   /* FETCHING */
		struct transport_access access; /* ACCESSING */
		uint64_t found[8];              /* an answer's data, where it is short */
	};
};

/* A message that arrived before its receive. */
struct thole_message {
	struct match_message match;
	struct record record;
	struct peer *peer;
	uint8_t *data;             /* its payload; the record's own where it is short */
	uint64_t length, arrived;  /* bytes, and how many are here */
	struct thole_request *claimant; /* a receive that took it before it was whole */
	uint8_t queue;
	bool screened;             /* thole_screen_next has handed it out */
	bool dropped;              /* nobody wants the rest */
	int32_t status;
	struct list_node node;     /* while it waits to be screened */
	struct list_node asking_node; /* an RTS's, perhaps */
};

/* A request's operation, beside enum thole_operation: the fetch of an unexpected message, its context. */
enum { OPERATION_UNEXPECTED = THOLE_OP_ATTACH + 1 };

/* Where the pieces that follow a peer's last record go. */
struct stream {
	struct thole_request *request;
	struct thole_message *unexpected;
	uint64_t left;             /* bytes still to come; with neither of the above they are thrown away */
};

struct peer {
	struct transport_peer base; /* what transports know of it */
	struct thole_endpoint *endpoint;
	uint32_t backlog_count;
	uint32_t screened;         /* its share of the endpoint's */
	struct transport_limits limits;
	struct list_node backlog;  /* outgoing requests, in order */
	struct list_node backlogged_node;
	struct list_node pending;  /* requests that wait for this peer */
	struct list_node parts;    /* parts of MULTI receives that its messages go to, in order of these */
	struct stream stream;
	struct hash_node by_id;    /* ids are random but with MXoE, where they begin with the same bits on all hosts */
	bool wanting;              /* something was wanting to answer it, and that was told */
	uint64_t wanting_ns;       /* since when something is wanting to answer it; 0: nobody looked yet */
};

struct memory_locks;

/* Memory that was declared (message/memory.c). */
struct thole_memory {
	struct list_node node;
	uint64_t length;
	uint32_t id; /* of the driver's region; 0: there is no driver */
};

struct thole_region {
	struct hash_node by_key;
	struct thole_memory *memory; /* declared for it; NULL: it is too large for that */
	struct thole_endpoint *endpoint;
	char *base;
	uint64_t length;
	unsigned access;
	void *context;
	struct thole_driver_offer offer; /* by which peers attach it; number 0: nobody has asked yet */
};

/* Whether messages without a receive are screened: the caller sees them first. */
enum screening {
	SCREENING_OFF,
	SCREENING_ON,
	SCREENING_ENDS, /* it is turned off, and messages that are handed out must come back first */
};

enum {
	MATCH_TAGGED,
	MATCH_PLAIN,
	MATCH_QUEUES,
	REQUESTS_MAX = 1 << 24, /* bounds the pool: an id's index fits in it */
	ENDPOINT_REASON_MAX = 256, /* bytes of the sentence why a transport is not open */
};

/* An endpoint, but for what opens it and lets it wait: those are around it (struct endpoint). What thole.h's handles
 * point to. */
struct thole_endpoint {
	struct transport_owner base; /* what transports know of it */
	struct match match[MATCH_QUEUES];
	struct pool requests, unexpected;
	struct spares spares;        /* for data of unexpected messages, and copies of what is sent */
	struct peer **peers;
	struct list_node backlogged; /* peers with a backlog, to be tried; */
	struct list_node stalled;    /* those that are known to have no room */
	struct list_node done;       /* complete requests whose handles are not tested */
	struct list_node queue;      /* complete requests for thole_poll */
	thole_complete_fn *complete;
	void *complete_arg;
	uint32_t peer_count, peer_capacity;
	uint32_t multi_posted;       /* THOLE_MULTI receives that are posted */
	uint32_t fetching;           /* requests that are FETCHING */
	/* messages to be screened or handed out for it; while there are any, arrivals join them */
	uint32_t screened;
	bool corked;                 /* a transmit follows anyway, at the end of this progress call */
	bool loop_awaits;            /* an event loop may sleep until something is complete */
	bool safe;                   /* take the lock */
	bool awaits;                 /* perhaps a receive names a peer that is not connected: peer_reach_awaited */
	bool unanswered;             /* perhaps a peer's backlog has answers, and it is not connected */
	uint8_t screening;           /* enum screening */
	struct lock lock;            /* protects the whole endpoint; no other lock is taken with it held */

	struct list_node asking;     /* unexpected messages at their senders that might have come unasked */
	struct list_node screen;     /* messages to be screened, in order of arrival */
	uint32_t screen_out;         /* those that are handed out for it */

	struct list_node memories;   /* declared ones */
	struct list_node attached;   /* regions of peers that are mapped */
	struct memory_locks *locks;  /* NULL: none was ever taken */

	char absent[TRANSPORTS][ENDPOINT_REASON_MAX]; /* why a transport is not open */
	struct hash_table peers_by_id; /* searched only to resolve an address */
	struct hash_table regions;     /* by their keys: a put's look-up */
};

static inline struct peer *peer_of(const struct transport_peer *base)
{
	return container_of(base, struct peer, base);
}

static inline struct thole_endpoint *endpoint_of_owner(const struct transport_owner *base)
{
	return container_of(base, struct thole_endpoint, base);
}

/* Requests (message/request.c) */
/* A request, where the pool has a free one. */
static inline struct thole_request *request_make(struct thole_endpoint *endpoint, enum thole_operation operation,
						 void *context, unsigned flags)
{
	struct thole_request *request = pool_get_free(&endpoint->requests);

	request->endpoint = endpoint;
	request->peer = NULL;
	request->vector = (struct vector){&request->segment, 1, 0};
	request->context = context;
	request->tag = request->imm = 0;
	request->offset = request->payload = request->message_length = 0;
	request->flags = flags;
	request->generation++;
	request->parts = 0;
	request->operation = (uint8_t)operation;
	request->state = REQUEST_BACKLOG;
	request->handle = request->head_sent = request->retired = request->notify = request->answered = false;
	request->pace = 0;
	request->status = 0;
	request->parent = NULL;
	return request;
}

/* The same; NULL at the pool's bound, or without memory. */
static inline struct thole_request *request_new(struct thole_endpoint *endpoint, enum thole_operation operation,
						void *context, unsigned flags)
{
	if (__builtin_expect(!endpoint->requests.free, 0) && pool_grow(&endpoint->requests) != 0)
		return NULL;
	return request_make(endpoint, operation, context, flags);
}

/* Describe the local data; the segments are copied, their data is not. */
int request_set_segments(struct thole_request *request, const struct iovec *segments, size_t count);

static inline int request_set_vector(struct thole_request *request, const struct iovec *segments, size_t count)
{
	if (count != 1)
		return request_set_segments(request, segments, count);
	request->segment = *segments;
	request->vector.length = segments->iov_len;
	return 0;
}

/* The same of what the program's functions read or write. Errors: ARGUMENT. */
int request_set_layout(struct thole_request *request, const struct thole_layout *layout);

/* Copy the data itself, so that the caller has its buffer back (THOLE_INJECT). */
int request_own_data(struct thole_request *request);
uint64_t request_id(const struct thole_request *request);
/* The request behind an id that `peer` sent, if it is one that waits for this peer; else NULL. */
struct thole_request *request_find(struct peer *peer, uint64_t id);
void request_free_owned(struct thole_request *request);
void request_describe(const struct thole_request *request, struct thole_completion *completion_p);

/* One that owns no memory. */
static inline void request_put(struct thole_endpoint *endpoint, struct thole_request *request)
{
	request->state = REQUEST_FREE;
	pool_put(&endpoint->requests, request);
}

static inline void request_free(struct thole_request *request)
{
	if (__builtin_expect(request->owned_segments || request->owned_data, 0))
		request_free_owned(request);
	request_put(request->endpoint, request);
}

/* Take a complete request off its list: describe it, if that is wanted, and free it. */
static inline void request_collect(struct thole_request *request, struct thole_completion *completion_p)
{
	list_remove(&request->node);
	if (completion_p)
		request_describe(request, completion_p);
	request_free(request);
}

/* End a request: deliver its completion by the way that was asked for. */
void request_complete(struct thole_request *request, int status);
/* End a receive that gets no message any more: out of its queue, if it is posted; a THOLE_MULTI buffer with the last
 * of its parts. */
void request_give_up(struct thole_request *receive, int status);
/* A completion without a request. Where it is not handed to `complete` one has to be free for it. */
void endpoint_complete(struct thole_endpoint *endpoint, const struct thole_completion *completion);

/* Peers (message/peer.c) */
int peer_by_address(struct thole_endpoint *endpoint, const struct thole_address *address, struct peer **peer_p);
/* Put a request at the end of its peer's backlog, or take it out. */
void peer_backlog(struct thole_request *request);
void peer_backlog_remove(struct thole_request *request);
int peer_backlog_push(struct thole_endpoint *endpoint);
/* A peer that was stalled has room again. */
void peer_ready(struct peer *peer);
/* What connect began has ended: the upcall connected. */
void peer_connected(struct peer *peer, int status);
/* The peer is gone for good, and nothing more of it will arrive. */
void peer_lost(struct peer *peer, int status);
/* Connect to the peers that posted receives name, so that those end with them. Returns whether to try again, since
 * there was no room for some. */
bool peer_reach_awaited(struct thole_endpoint *endpoint);
/* Why a peer is gone: the status, and a sentence (thole_detail). */
int peer_gone(const struct peer *peer);
/* The same to who wants something that it might have left. */
int peer_gone_empty(const struct peer *peer);
/* End the receives that wait for a peer which is gone; or one, which is in no queue. */
void peer_fail_receives(struct peer *peer);
void peer_fail_receive(struct peer *peer, struct thole_request *request);

static inline struct peer *endpoint_peer(struct thole_endpoint *endpoint, uint32_t index)
{
	return index < endpoint->peer_count ? endpoint->peers[index] : NULL;
}

static inline void endpoint_count(struct thole_endpoint *endpoint, enum counter counter)
{
	transport_count(&endpoint->base, counter);
}

/* Something of so many bytes was started to a peer. */
static inline void endpoint_carry(struct thole_endpoint *endpoint, const struct peer *peer, uint64_t length)
{
	uint64_t *carried = &endpoint->base.counters[peer->base.carried];

	carried[0]++;
	fence_compiler(); /* or it makes a vector of the two, for twice the instructions */
	carried[1] += length;
}

/* Memory (message/memory.c); with the lock held. Segments are not checked. */
int memory_declare(struct thole_endpoint *endpoint, const struct iovec *segments, size_t count, unsigned access,
		   struct thole_memory **memory_p);
void memory_forget(struct thole_endpoint *endpoint, struct thole_memory *memory);
/* Forget all, and the locks. */
void memory_fini(struct thole_endpoint *endpoint);
/* Unmap all regions of peers. */
void attach_fini(struct thole_endpoint *endpoint);

/* Locking (THOLE_THREAD_SAFE) */
static inline void endpoint_lock(struct thole_endpoint *endpoint)
{
	if (endpoint->safe)
		lock_take(&endpoint->lock);
}

static inline void endpoint_unlock(struct thole_endpoint *endpoint)
{
	if (endpoint->safe)
		lock_leave(&endpoint->lock);
}

#endif
