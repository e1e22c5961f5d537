/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_verbs: a port of an adapter as a struct nic. Owns the queues of one endpoint: what was posted to each and has not
 * ended, which receives are out, what came and nobody has asked for yet, and how a queue ends. Does not own what was
 * opened before there were queues (context.c), nor how their pairs are set up and named (qp.c; by ties, iwarp.c).
 *
 * A completion that says of an error has no valid opcode. So each queue keeps what was posted to it in a ring, in
 * order, and a completion's wr_id says which entry it is; receives have a table of their own, and RECEIVE_MARK in
 * wr_id. Works of a queue end in order: an entry that is done says so for the silent ones before it. What siw tells of
 * before a read in front of it is done waits for that.
 *
 * A queue ends in three steps, all but the first in poll: the pair goes to the error state, which flushes what was
 * posted and is not done; when all that has come, but for what is silent, since nothing says whether any of that was
 * done, and what came until the adapter has said that it takes no more receives (or has had STOP_NS for that, since not
 * all say it), the pair is destroyed, from when on no peer reaches memory through it; what is in the completion queue
 * then is the last of it.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/list.h"
#include "transport/verbs/qp.h"

enum {
	BATCH = 32,             /* completions taken from the library at once */
	EVENTS_MAX = 16,        /* that nobody has asked for; with one more they are joined */
	REPORT_EACH = 32,       /* of silent works one is reported, so that places in the ring come back */
	STOP_NS = 20000000,     /* for an adapter to say that a pair takes no more receives, */
	FLUSH_NS = 200000000,   /* and for it to flush what was posted: then it is destroyed as it is */
	TIE_S = 15,             /* longest that the kernel waits for who was asked to be tied to */
};

#define RECEIVE_MARK (UINT64_C(1) << 63)

enum queue_state { QUEUE_NEW, QUEUE_CONNECTING, QUEUE_CONNECTED, QUEUE_BROKEN, QUEUE_STOPPING, QUEUE_STOPPED };

/* What was posted. */
struct posted {
	uint64_t id;
	uint8_t operation;
	bool silent;
	bool done;                  /* the adapter has told of it */
	int32_t status;             /* then */
};

struct nic_queue {
	struct nic_verbs *verbs;
	struct hash_node by_pair;   /* by its pair's number */
	struct list_node node;      /* while it is stopping */
	struct list_node untold;    /* while there is something to be reported: */
	bool news;                  /* NIC_CONNECTED or NIC_BROKEN, as its state is, behind works that are done */
	struct ibv_qp *pair;        /* NULL: destroyed */
	struct iwarp_tie *tie;      /* NULL: it is no iWARP adapter's */
	uint32_t pair_number;
	uint32_t number;            /* the owner's */
	uint32_t own_sequence;      /* of our first packet */
	uint32_t posted, ended;     /* works; the ring's places are these modulo its size, a power of two */
	uint32_t told;              /* the adapter has told of the one before this, and of none behind it */
	uint32_t unreported;        /* silent works since the last one that will be reported */
	uint64_t stop_ns;           /* when it began to stop */
	uint8_t state;              /* enum queue_state */
	bool last_receive;          /* the adapter takes no more receives for it */
	struct posted ring[];       /* limits.works */
};

struct nic_verbs {
	struct nic nic;
	struct context context;
	struct hash_table queues;   /* also stopped ones, until they are freed */
	struct list_node stopping, untold;
	uint64_t *receive_ids;      /* limits.receives of them */
	uint32_t *receive_free;
	uint32_t receive_free_count;
	struct nic_completion *to;  /* where the next completion goes, */
	struct nic_completion *to_end; /* before this */
	uint32_t came;              /* since something was due that waits for all completions before it */
	uint32_t entries;           /* of the completion queue: more were not there */
	/* those that nobody has asked for: first..end */
	struct nic_completion ready[2 * BATCH];
	unsigned ready_first, ready_end;
	uint8_t events[EVENTS_MAX]; /* enum nic_event */
	unsigned event_count;
	bool gone;                  /* the device is */
};

static struct nic_verbs *nic_verbs_of(struct nic *nic)
{
	return container_of(nic, struct nic_verbs, nic);
}

/* ---- What is reported without being asked for ---------------------------------------------------------- */

/* So many that nobody has asked for that they become one, behind which is how the port is now. */
static void events_join(struct nic_verbs *verbs)
{
	uint8_t port = NIC_EVENT_NONE;

	for (unsigned i = 0; i < verbs->event_count; i++)
		if (verbs->events[i] == NIC_EVENT_DOWN || verbs->events[i] == NIC_EVENT_UP)
			port = verbs->events[i];
	verbs->events[0] = NIC_EVENT_LOST;
	verbs->events[1] = port;
	verbs->event_count = port == NIC_EVENT_NONE ? 1 : 2;
}

static void event_push(struct nic_verbs *verbs, enum nic_event event)
{
	if (verbs->gone && event != NIC_EVENT_GONE)
		return; /* that was the last one */
	if (verbs->event_count == EVENTS_MAX)
		events_join(verbs);
	verbs->events[verbs->event_count++] = (uint8_t)event;
}

/* The device is gone, or as good as that. */
static void nic_verbs_lose(struct nic_verbs *verbs)
{
	if (verbs->gone)
		return;
	verbs->gone = true;
	context_unwatch(&verbs->context);
	event_push(verbs, NIC_EVENT_GONE);
}

/* The owner is told by poll. */
static void queue_tell(struct nic_queue *queue, enum queue_state state)
{
	queue->state = (uint8_t)state;
	queue->news = true;
	queue->verbs->came = 0;
	if (list_empty(&queue->untold))
		list_push_back(&queue->verbs->untold, &queue->untold);
}

/* ---- Queues --------------------------------------------------------------------------------------------- */

static struct nic_queue *queue_find(const struct nic_verbs *verbs, uint32_t pair_number)
{
	struct hash_node *node = hash_table_find(&verbs->queues, pair_number);

	return node ? container_of(node, struct nic_queue, by_pair) : NULL;
}

/* What it is that an adapter gives no pair for: there is no room, also by the bound of a group of processes, or another
 * reason. */
static int pair_error(int reason)
{
	return reason == ENOMEM || reason == EAGAIN || reason == ENOSPC || reason == EMFILE ? THOLE_ERR_MEMORY
											    : THOLE_ERR_SYSTEM;
}

static int nic_verbs_queue_new(struct nic *nic, uint32_t number, struct nic_queue **queue_p, struct nic_name *name_p)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	struct nic_queue *queue;
	int error = 0;

	if (verbs->queues.count >= nic->limits.queues)
		return THOLE_ERR_AGAIN;
	if (!hash_table_reserve(&verbs->queues))
		return THOLE_ERR_MEMORY;
	queue = calloc(1, sizeof(*queue) + nic->limits.works * sizeof(*queue->ring));
	if (!queue)
		return THOLE_ERR_MEMORY;
	queue->verbs = verbs;
	queue->number = number;
	list_init(&queue->node);
	list_init(&queue->untold);
	queue->pair = qp_new(&verbs->context, queue);
	if (!queue->pair) {
		error = pair_error(errno);
		error_set(error, "the adapter %s gives no queue pair beside %u: %m", nic->device, verbs->queues.count);
		free(queue);
		return error;
	}
	queue->pair_number = queue->pair->qp_num;
	if (queue_find(verbs, queue->pair_number)) { /* of one that was destroyed, which may have completions still */
		qp_destroy(&verbs->context, queue->pair);
		free(queue);
		return THOLE_ERR_AGAIN;
	}
	if (verbs->context.iwarp)
		error = iwarp_tie_new(verbs->context.iwarp, queue->pair_number, queue, &queue->tie, name_p);
	if (error) {
		qp_destroy(&verbs->context, queue->pair);
		free(queue);
		return error;
	}
	if (getrandom(&queue->own_sequence, sizeof(queue->own_sequence), 0) != sizeof(queue->own_sequence))
		queue->own_sequence = queue->pair_number;
	queue->own_sequence &= 0xffffff;
	hash_table_add(&verbs->queues, &queue->by_pair, queue->pair_number);
	if (!queue->tie)
		qp_name(&verbs->context, queue->pair, queue->own_sequence, name_p);
	*queue_p = queue;
	return 0;
}

static int nic_verbs_queue_connect(struct nic_queue *queue, const struct nic_name *peer)
{
	int error;

	if (queue->tie) {
		queue->state = QUEUE_CONNECTING;
		return iwarp_tie_connect(queue->tie, peer);
	}
	error = qp_connect(&queue->verbs->context, queue->pair, queue->own_sequence, peer);
	if (!error)
		queue->state = QUEUE_CONNECTED;
	else if (queue->pair->state == IBV_QPS_RTR)
		queue->state = QUEUE_BROKEN; /* it may have received something */
	return error;
}

static void nic_verbs_queue_stop(struct nic_queue *queue)
{
	if (queue->state >= QUEUE_STOPPING)
		return;
	queue->last_receive |= queue->state == QUEUE_NEW; /* it never took one */
	list_remove(&queue->untold);
	queue->news = false;
	qp_stop(&queue->verbs->context, queue->pair); /* also where that fails it ends */
	if (queue->tie)
		iwarp_tie_stop(queue->tie);
	queue->state = QUEUE_STOPPING;
	queue->stop_ns = clock_now_ns();
	list_push_back(&queue->verbs->stopping, &queue->node);
}

static void nic_verbs_queue_free(struct nic_queue *queue)
{
	struct nic_verbs *verbs = queue->verbs;

	hash_table_remove(&verbs->queues, &queue->by_pair);
	list_remove(&queue->untold);
	free(queue);
}

/* ---- Works ---------------------------------------------------------------------------------------------- */

static const struct {
	enum ibv_wr_opcode plain, with_imm;
} opcodes[] = {
	[NIC_SEND] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM},
	[NIC_WRITE] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM},
	[NIC_READ] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_READ},
	[NIC_FETCH_ADD] = {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD},
	[NIC_COMPARE_SWAP] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP},
};

static void work_remote(const struct nic_work *work, struct ibv_send_wr *wr)
{
	if (work->operation < NIC_FETCH_ADD) {
		wr->wr.rdma.remote_addr = work->remote_address;
		wr->wr.rdma.rkey = work->remote_key;
		return;
	}
	wr->wr.atomic.remote_addr = work->remote_address;
	wr->wr.atomic.rkey = work->remote_key;
	wr->wr.atomic.compare_add = work->operation == NIC_FETCH_ADD ? work->operand : work->compare;
	wr->wr.atomic.swap = work->operand;
}

static int nic_verbs_post(struct nic_queue *queue, const struct nic_work *work)
{
	const struct nic_limits *limits = &queue->verbs->nic.limits;
	struct ibv_sge places[16];
	struct ibv_send_wr wr, *bad; /* what no opcode of ours looks at is left as it is */
	struct posted *posted = &queue->ring[queue->posted % limits->works];
	bool silent = work->flags & NIC_POST_SILENT;
	int error;

	if (queue->state != QUEUE_CONNECTED)
		return THOLE_ERR_PEER;
	if (queue->posted - queue->ended == limits->works)
		return THOLE_ERR_AGAIN;
	for (uint32_t i = 0; i < work->count; i++)
		places[i] = (struct ibv_sge){(uintptr_t)work->segments[i].address, work->segments[i].length,
					     work->segments[i].key};
	wr.wr_id = (uint64_t)queue->pair_number << 32 | queue->posted;
	wr.next = NULL;
	wr.sg_list = places;
	wr.num_sge = (int)work->count;
	wr.send_flags = 0;
	wr.opcode = work->flags & NIC_POST_IMM ? opcodes[work->operation].with_imm : opcodes[work->operation].plain;
	wr.imm_data = htobe32(work->imm);
	if (work->operation != NIC_SEND)
		work_remote(work, &wr);
	if (work->flags & NIC_POST_INLINE)
		wr.send_flags |= IBV_SEND_INLINE;
	if (!silent || queue->unreported + 1 == REPORT_EACH || queue->unreported + 1 >= limits->works / 2)
		wr.send_flags |= IBV_SEND_SIGNALED;
	error = queue->pair->context->ops.post_send(queue->pair, &wr, &bad);
	if (error)
		return error == ENOMEM ? THOLE_ERR_AGAIN : THOLE_ERR_SYSTEM;
	*posted = (struct posted){.id = work->id, .operation = work->operation, .silent = silent};
	queue->posted++;
	queue->unreported = wr.send_flags & IBV_SEND_SIGNALED ? 0 : queue->unreported + 1;
	return 0;
}

static unsigned nic_verbs_post_receives(struct nic *nic, const struct nic_segment *segments, const uint64_t *ids,
					unsigned count)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	struct ibv_sge places[NIC_RECEIVES_MAX];
	struct ibv_recv_wr works[NIC_RECEIVES_MAX], *bad = works;

	if (count > verbs->receive_free_count)
		count = verbs->receive_free_count;
	if (count == 0)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		uint32_t index = verbs->receive_free[verbs->receive_free_count - 1 - i];

		places[i] = (struct ibv_sge){(uintptr_t)segments[i].address, segments[i].length, segments[i].key};
		works[i] = (struct ibv_recv_wr){.wr_id = RECEIVE_MARK | index, .sg_list = &places[i], .num_sge = 1,
						.next = i + 1 < count ? &works[i + 1] : NULL};
		verbs->receive_ids[index] = ids[i];
	}
	if (verbs->context.receives->context->ops.post_srq_recv(verbs->context.receives, works, &bad) != 0)
		count = (unsigned)(bad - works); /* those before it were taken */
	verbs->receive_free_count -= count;
	return count;
}

/* ---- Completions ---------------------------------------------------------------------------------------- */

static int status_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return THOLE_ERR_CANCELED;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return THOLE_ERR_PEER;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return THOLE_ERR_ACCESS;
	default:
		return THOLE_ERR_SYSTEM;
	}
}

/* What comes from now on is kept until somebody asks for it; nothing is kept yet. */
static void ready_begin(struct nic_verbs *verbs)
{
	verbs->ready_first = 0;
	verbs->to = verbs->ready;
	verbs->to_end = verbs->ready + BATCH;
}

static void ready_end(struct nic_verbs *verbs)
{
	verbs->ready_end = (unsigned)(verbs->to - verbs->ready);
}

static struct posted *work_at(struct nic_queue *queue, uint32_t number)
{
	return &queue->ring[number % queue->verbs->nic.limits.works];
}

/* The oldest works of a queue that have ended, as far as there is room: the rest is told later. */
static void works_end(struct nic_queue *queue)
{
	struct nic_verbs *verbs = queue->verbs;

	for (; queue->ended != queue->posted; queue->ended++) {
		const struct posted *posted = work_at(queue, queue->ended);
		bool over = posted->silent && (int32_t)(queue->told - queue->ended) > 0;

		if (!posted->done && !over)
			return;
		if (posted->silent && posted->status == 0)
			continue;
		if (verbs->to == verbs->to_end) {
			if (list_empty(&queue->untold))
				list_push_back(&verbs->untold, &queue->untold);
			return;
		}
		*verbs->to++ = (struct nic_completion){.operation = posted->operation, .status = posted->status,
						       .queue = queue->number, .id = posted->id};
	}
}

static void sent(struct nic_verbs *verbs, const struct ibv_wc *wc)
{
	struct nic_queue *queue = queue_find(verbs, (uint32_t)(wc->wr_id >> 32));
	uint32_t number = (uint32_t)wc->wr_id;

	if (!queue || number - queue->ended >= queue->posted - queue->ended)
		return; /* of a pair that was destroyed */
	work_at(queue, number)->done = true;
	work_at(queue, number)->status = status_of(wc->status);
	if ((int32_t)(number + 1 - queue->told) > 0)
		queue->told = number + 1;
	works_end(queue);
	if (wc->status != IBV_WC_SUCCESS && queue->state == QUEUE_CONNECTED)
		queue->state = QUEUE_BROKEN;
}

static void received(struct nic_verbs *verbs, const struct ibv_wc *wc)
{
	struct nic_queue *queue = queue_find(verbs, wc->qp_num);
	uint32_t index = (uint32_t)wc->wr_id;
	bool good = wc->status == IBV_WC_SUCCESS;
	enum nic_operation operation = NIC_RECEIVE;

	if (good && queue && queue->state == QUEUE_CONNECTING)
		queue->state = QUEUE_CONNECTED; /* who may speak first has */
	verbs->receive_free[verbs->receive_free_count++] = index;
	if (good && wc->wc_flags & IBV_WC_WITH_IMM)
		operation = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? NIC_RECEIVE_IMM : NIC_RECEIVE_WORD;
	*verbs->to++ = (struct nic_completion){.operation = (uint8_t)operation,
					       .status = status_of(wc->status),
					       .queue = queue ? queue->number : UINT32_MAX,
					       .length = good ? wc->byte_len : 0,
					       .imm = operation == NIC_RECEIVE ? 0 : be32toh(wc->imm_data),
					       .id = verbs->receive_ids[index]};
}

/* Take at most so many from the library, for which there is room. Returns how many. */
static inline __attribute__((always_inline)) unsigned completions_take(struct nic_verbs *verbs, unsigned max)
{
	struct nic_completion *end = verbs->to + max;
	struct ibv_wc wc[BATCH];
	struct ibv_cq *queue = verbs->context.completions;
	int n = queue->context->ops.poll_cq(queue, (int)(max < BATCH ? max : BATCH), wc);

	for (int i = 0; i < n; i++) {
		verbs->to_end = end - (n - 1 - i); /* each of those behind it has room for its own */
		if (wc[i].wr_id & RECEIVE_MARK)
			received(verbs, &wc[i]);
		else
			sent(verbs, &wc[i]);
	}
	if (n < 0)
		nic_verbs_lose(verbs);
	return n > 0 ? (unsigned)n : 0;
}

/* ---- Events --------------------------------------------------------------------------------------------- */

static void event_of_pair(const struct ibv_async_event *event)
{
	struct nic_queue *queue = event->element.qp->qp_context;

	if (!queue)
		return;
	if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		queue->last_receive = true;
		queue->verbs->came = 0; /* those that it has are there, and come first */
	} else if (queue->state == QUEUE_CONNECTED || queue->state == QUEUE_CONNECTING) {
		queue_tell(queue, QUEUE_BROKEN);
	}
}

/* Who told peers of an address that the port has no more has them told of the new one, by new queues. */
static void address_renew(struct nic_verbs *verbs)
{
	if (context_renew(&verbs->context))
		event_push(verbs, NIC_EVENT_LOST);
}

static void event_take(struct nic_verbs *verbs, const struct ibv_async_event *event)
{
	bool ours = event->element.port_num == verbs->context.port.number;

	switch (event->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		event_of_pair(event);
		break;
	case IBV_EVENT_PORT_ERR:
		if (ours)
			event_push(verbs, NIC_EVENT_DOWN);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		if (ours) {
			address_renew(verbs);
			event_push(verbs, NIC_EVENT_UP);
		}
		break;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		if (ours)
			address_renew(verbs);
		break;
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR: /* nothing comes by these any more, by whatever queue */
	case IBV_EVENT_SRQ_ERR:
		nic_verbs_lose(verbs);
		break;
	default:
		break;
	}
}

/* What has happened to ties. */
static void ties_read(struct nic_verbs *verbs)
{
	enum iwarp_news news;
	void *owner;

	while ((news = iwarp_next(verbs->context.iwarp, &owner)) != IWARP_NOTHING) {
		struct nic_queue *queue = owner;

		if (news == IWARP_GONE)
			nic_verbs_lose(verbs);
		else if (news == IWARP_BROKEN && queue->state < QUEUE_BROKEN)
			queue_tell(queue, QUEUE_BROKEN);
		else if (news == IWARP_CONNECTED && queue->state == QUEUE_CONNECTING)
			queue_tell(queue, QUEUE_CONNECTED);
	}
}

static void events_read(struct nic_verbs *verbs)
{
	struct ibv_async_event event;

	if (verbs->context.iwarp)
		ties_read(verbs);
	while (verbs->context.verbs->get_async_event(verbs->context.device, &event) == 0) {
		event_take(verbs, &event);
		verbs->context.verbs->ack_async_event(&event);
	}
}

static enum nic_event nic_verbs_event(struct nic *nic)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	enum nic_event event;

	events_read(verbs);
	if (verbs->event_count == 0)
		return NIC_EVENT_NONE;
	event = verbs->events[0];
	memmove(verbs->events, verbs->events + 1, --verbs->event_count);
	return event;
}

/* ---- The end of queues, and what poll gives --------------------------------------------------------------- */

/* How long the kernel may still hold up a stopping pair, until it says that its tie is over; 0: it does not. */
static uint64_t queue_tied_ns(const struct nic_queue *queue, uint64_t now_ns)
{
	const uint64_t most_ns = TIE_S * UINT64_C(1000000000), waited_ns = now_ns - queue->stop_ns;

	if (queue->verbs->gone || !queue->tie || iwarp_tie_is_over(queue->tie) || waited_ns >= most_ns)
		return 0;
	return most_ns - waited_ns;
}

/* Whether nothing more is to be heard of a stopping pair's works: nothing ever is of silent ones that were done, and
 * nobody waits for what is flushed of others. */
static bool works_are_told(struct nic_queue *queue)
{
	for (uint32_t i = queue->ended; i != queue->posted; i++)
		if (!work_at(queue, i)->silent && !work_at(queue, i)->done)
			return false;
	return true;
}

/* Whether a stopping pair has nothing more to say. */
static bool queue_is_flushed(struct nic_queue *queue, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - queue->stop_ns;

	if (queue->verbs->gone)
		return true;
	if (queue_tied_ns(queue, now_ns) > 0)
		return false;
	if (waited_ns > FLUSH_NS)
		return true;
	return works_are_told(queue) && (queue->last_receive || waited_ns > STOP_NS);
}

/* Works that could not be told of; then what ties and events have said of queues, once all that has come by these is
 * told. */
static void queues_tell(struct nic_verbs *verbs)
{
	struct list_node *node;

	while (verbs->to < verbs->to_end && (node = list_first(&verbs->untold))) {
		struct nic_queue *queue = container_of(node, struct nic_queue, untold);
		bool broken = queue->state != QUEUE_CONNECTED;

		list_remove(node);
		works_end(queue);
		if (!list_empty(node) || !queue->news)
			continue;
		if (verbs->to == verbs->to_end) {
			list_push_back(&verbs->untold, node);
			return;
		}
		queue->news = false;
		*verbs->to++ = (struct nic_completion){.operation = broken ? NIC_BROKEN : NIC_CONNECTED,
						       .status = broken ? THOLE_ERR_PEER : 0,
						       .queue = queue->number};
	}
}

/* The completion queue is empty: go on with the first queue that stops. Its last completions need room for all of its
 * works, so they come as there is some. One that waits for its adapter, or for seconds for the kernel, lets others go
 * first. */
static void queue_end(struct nic_verbs *verbs)
{
	struct nic_queue *queue = container_of(list_first(&verbs->stopping), struct nic_queue, node);

	works_end(queue);
	if (queue->pair) {
		bool last = queue->last_receive;

		events_read(verbs);
		if (queue->last_receive != last)
			return; /* what it has received up to that comes first */
		if (!queue_is_flushed(queue, clock_now_ns())) {
			list_remove(&queue->node);
			list_push_back(&verbs->stopping, &queue->node);
			return;
		}
		iwarp_tie_free(queue->tie); /* it holds the pair */
		queue->tie = NULL;
		if (!qp_destroy(&verbs->context, queue->pair))
			nic_verbs_lose(verbs); /* in the error state, as far as one can tell */
		queue->pair = NULL;
		verbs->came = 0;
		return; /* what it has left in the completion queue comes first */
	}
	for (uint32_t i = queue->ended; i != queue->posted; i++) {
		struct posted *posted = work_at(queue, i);

		if (!posted->done)
			posted->status = THOLE_ERR_CANCELED;
		posted->done = true;
	}
	works_end(queue);
	if (queue->ended != queue->posted)
		return;
	list_remove(&queue->node);
	queue->state = QUEUE_STOPPED;
	*verbs->to++ = (struct nic_completion){.operation = NIC_STOPPED, .queue = queue->number};
}

/* Whether there is more to look at than completions. */
static bool nic_verbs_is_due(const struct nic_verbs *verbs)
{
	return !list_empty(&verbs->stopping) || !list_empty(&verbs->untold) ||
	       (verbs->context.iwarp && iwarp_is_due(verbs->context.iwarp));
}

/* Whether it is its turn after so many completions: those were all, or the ones that were there before it. Else it
 * would wait for ever where others come faster than they are taken. */
static bool nic_verbs_turns(struct nic_verbs *verbs, unsigned completions)
{
	verbs->came += completions;
	if (completions > 0 && verbs->came < verbs->entries)
		return false;
	verbs->came = 0;
	return true;
}

/* What nobody has asked for yet, and what is due where there are no completions. */
__attribute__((noinline)) static unsigned nic_verbs_poll_rest(struct nic_verbs *verbs,
							      struct nic_completion *completions, unsigned max)
{
	unsigned n;

	if (verbs->ready_first == verbs->ready_end) {
		if (verbs->context.iwarp && iwarp_is_due(verbs->context.iwarp))
			ties_read(verbs);
		ready_begin(verbs);
		queues_tell(verbs);
		if (!list_empty(&verbs->stopping))
			queue_end(verbs);
		ready_end(verbs);
	}
	n = verbs->ready_end - verbs->ready_first;
	if (n > max)
		n = max;
	memcpy(completions, verbs->ready + verbs->ready_first, n * sizeof(*completions));
	verbs->ready_first += n;
	return n;
}

static unsigned nic_verbs_poll(struct nic *nic, struct nic_completion *completions, unsigned max)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	unsigned n = 0;

	if (verbs->ready_first == verbs->ready_end) {
		unsigned taken;

		verbs->to = completions;
		taken = completions_take(verbs, max);
		n = (unsigned)(verbs->to - completions);
		if (!nic_verbs_is_due(verbs) || !nic_verbs_turns(verbs, taken))
			return n;
	}
	return n + nic_verbs_poll_rest(verbs, completions + n, max - n);
}

/* Have the next completion told of. False: it cannot be. */
static bool completions_arm(struct nic_verbs *verbs)
{
	struct ibv_cq *queue;
	void *context;
	unsigned told = 0;

	while (verbs->context.verbs->get_cq_event(verbs->context.channel, &queue, &context) == 0)
		told++;
	if (told)
		verbs->context.verbs->ack_cq_events(verbs->context.completions, told);
	return verbs->context.completions->context->ops.req_notify_cq(verbs->context.completions, 0) == 0;
}

/* Queues that stop are waited for by polling, but for those that the kernel holds up. */
static uint64_t stopping_longest(const struct nic_verbs *verbs)
{
	uint64_t longest = UINT64_MAX;

	for (struct list_node *node = list_first(&verbs->stopping); node; node = list_next(&verbs->stopping, node)) {
		uint64_t its_ns = queue_tied_ns(container_of(node, struct nic_queue, node), clock_now_ns());

		longest = its_ns < longest ? its_ns : longest;
	}
	return longest;
}

static uint64_t nic_verbs_arm(struct nic *nic)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);

	if (!verbs->gone && !completions_arm(verbs))
		return 0;
	if (verbs->ready_first == verbs->ready_end) {
		ready_begin(verbs);
		(void)completions_take(verbs, BATCH);
		ready_end(verbs);
	}
	if (verbs->ready_first != verbs->ready_end || verbs->event_count > 0 || !list_empty(&verbs->untold))
		return 0;
	return stopping_longest(verbs);
}

static uint64_t nic_verbs_now_ns(struct nic *nic)
{
	(void)nic;
	return clock_now_ns();
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

static int nic_verbs_register(struct nic *nic, void *base, size_t length, unsigned access, struct nic_memory *memory_p)
{
	return context_register(&nic_verbs_of(nic)->context, base, length, access, memory_p);
}

static void nic_verbs_deregister(struct nic *nic, struct nic_memory *memory)
{
	context_deregister(&nic_verbs_of(nic)->context, memory);
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static void nic_verbs_close(struct nic *nic)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);

	context_close(&verbs->context);
	hash_table_fini(&verbs->queues);
	free(verbs->receive_ids);
	free(verbs->receive_free);
	free(verbs);
}

static const struct nic_calls nic_verbs_calls = {
	.name = "verbs",
	.close = nic_verbs_close,
	.register_memory = nic_verbs_register,
	.deregister = nic_verbs_deregister,
	.queue_new = nic_verbs_queue_new,
	.queue_connect = nic_verbs_queue_connect,
	.queue_stop = nic_verbs_queue_stop,
	.queue_free = nic_verbs_queue_free,
	.post = nic_verbs_post,
	.post_receives = nic_verbs_post_receives,
	.poll = nic_verbs_poll,
	.arm = nic_verbs_arm,
	.event = nic_verbs_event,
	.now_ns = nic_verbs_now_ns,
};

static int receives_room(struct nic_verbs *verbs)
{
	uint32_t receives = verbs->context.port.limits.receives;

	verbs->receive_ids = calloc(receives, sizeof(*verbs->receive_ids));
	verbs->receive_free = calloc(receives, sizeof(*verbs->receive_free));
	if (!verbs->receive_ids || !verbs->receive_free)
		return -1;
	for (uint32_t i = 0; i < receives; i++)
		verbs->receive_free[verbs->receive_free_count++] = i;
	return 0;
}

int nic_verbs_open(const struct port *port, struct nic **nic_p)
{
	struct nic_verbs *verbs = calloc(1, sizeof(*verbs));
	int error;

	if (!verbs)
		return error_set(THOLE_ERR_MEMORY, "no memory for an adapter");
	list_init(&verbs->stopping);
	list_init(&verbs->untold);
	error = context_open(&verbs->context, port);
	if (!error && (!qp_probe(&verbs->context) || receives_room(verbs) != 0))
		error = context_refused(&verbs->context);
	if (error) {
		nic_verbs_close(&verbs->nic);
		return error;
	}
	verbs->nic.calls = &nic_verbs_calls;
	verbs->nic.limits = verbs->context.port.limits;
	verbs->entries = verbs->nic.limits.receives + verbs->nic.limits.queues * verbs->nic.limits.works;
	memcpy(verbs->nic.device, port->device, sizeof(verbs->nic.device));
	verbs->nic.fd = verbs->context.fd;
	*nic_p = &verbs->nic;
	return 0;
}
