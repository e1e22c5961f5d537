/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_verbs: a port of an adapter as a struct nic: one completion queue, one shared receive queue, and a reliable
 * connected queue pair for each queue. Owns all of libibverbs' objects of one endpoint.
 *
 * A completion that says of an error has no valid opcode. So each queue keeps what was posted to it in a ring, in
 * order, and a completion's wr_id says which entry it is; receives have a table of their own, and RECEIVE_MARK in
 * wr_id. Works of a queue end in order: an entry that is done says so for the silent ones before it. What siw tells of
 * before a read in front of it is done waits for that.
 *
 * A queue ends in three steps, all but the first in poll: the pair goes to the error state, which flushes what was
 * posted; when all that has come, and the adapter has said that it takes no more receives (or has had STOP_NS for
 * that, since not all say it), the pair is destroyed, from when on no peer reaches memory through it; what is in the
 * completion queue then is the last of it.
 *
 * Connecting takes as long as the kernel takes to find the peer's Ethernet address: nothing, where it has just been
 * spoken to, as it has by who told us its name. Pairs of an iWARP adapter are connected by ties (iwarp.c).
 */
#include "transport/verbs/port.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/endian.h"
#include "base/error.h"
#include "base/forked.h"
#include "base/list.h"
#include "transport/verbs/ibverbs.h"
#include "transport/verbs/iwarp.h"

enum {
	NAME_VERSION = 1,
	BUCKETS = 256,          /* of queues by their pairs' numbers */
	BATCH = 32,             /* completions taken from the library at once */
	EVENTS_MAX = 16,        /* that nobody has asked for; one more is NIC_EVENT_LOST */
	REPORT_EACH = 32,       /* of silent works one is reported, so that places in the ring come back */
	STOP_NS = 20000000,     /* for an adapter to say that a pair takes no more receives, */
	FLUSH_NS = 200000000,   /* and for it to flush what was posted: then it is destroyed as it is */
	TIE_S = 15,            /* longest that the kernel waits for who was asked to be tied to */
	/* an answer is waited for 4.096 us x 2^14 = 67 ms, seven times: half a second */
	ANSWER_TIME = 14,
	ANSWER_TRIES = 7,
	ROOM_TIME = 12,         /* 0.64 ms until a peer without a receive is tried again, for ever */
	ROOM_TRIES = 7,
	HOPS = 64,
	FDS = 5,
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
	struct nic_queue *next;     /* of its bucket */
	struct list_node node;      /* while it is stopping */
	struct list_node untold;    /* while there is something to be reported: */
	bool news;                  /* NIC_CONNECTED or NIC_BROKEN, as its state is, behind works that are done */
	struct ibv_qp *pair;        /* NULL: destroyed */
	struct iwarp_tie *tie;     /* NULL: it is no iWARP adapter's */
	uint32_t pair_number;
	uint32_t number;            /* the owner's */
	uint32_t own_sequence;      /* of our first packet */
	uint32_t posted, ended;     /* works; the ring's places are these modulo its size */
	uint32_t told;              /* the adapter has told of the one before this, and of none behind it */
	uint32_t unreported;        /* silent works since the last one that will be reported */
	uint64_t stop_ns;           /* when it began to stop */
	uint8_t state;              /* enum queue_state */
	bool last_receive;          /* the adapter takes no more receives for it */
	struct posted ring[];       /* limits.works */
};

struct nic_verbs {
	struct nic nic;
	const struct ibverbs *verbs;
	struct port port;
	struct ibv_context *context;
	struct ibv_pd *domain;
	struct ibv_comp_channel *channel;
	struct ibv_cq *completions;
	struct ibv_srq *receives;
	struct iwarp *iwarp;        /* NULL: it is none */
	struct nic_queue *buckets[BUCKETS];
	struct list_node stopping, untold;
	uint32_t queues;
	uint64_t *receive_ids;      /* limits.receives of them */
	uint32_t *receive_free;
	uint32_t receive_free_count;
	struct nic_completion *to;  /* where the next completion goes, */
	struct nic_completion *to_end; /* before this */
	/* those that nobody has asked for: first..end */
	struct nic_completion ready[2 * BATCH];
	unsigned ready_first, ready_end;
	uint8_t events[EVENTS_MAX]; /* enum nic_event */
	unsigned event_count;
	bool gone;                  /* the device is */
	int fds[FDS];               /* for forked; the first is nic.fd */
	struct forked forked;
};

static struct nic_verbs *nic_verbs_of(struct nic *nic)
{
	return container_of(nic, struct nic_verbs, nic);
}

/* ---- What is reported without being asked for ---------------------------------------------------------- */

static void event_push(struct nic_verbs *verbs, enum nic_event event)
{
	if (verbs->event_count < EVENTS_MAX)
		verbs->events[verbs->event_count++] = (uint8_t)event;
	else if (verbs->events[EVENTS_MAX - 1] != NIC_EVENT_GONE)
		verbs->events[EVENTS_MAX - 1] = verbs->gone ? NIC_EVENT_GONE : NIC_EVENT_LOST;
}

/* The device is gone, or as good as that. */
static void nic_verbs_lose(struct nic_verbs *verbs)
{
	if (verbs->gone)
		return;
	verbs->gone = true;
	event_push(verbs, NIC_EVENT_GONE);
}

/* The owner is told by poll. */
static void queue_tell(struct nic_queue *queue, enum queue_state state)
{
	queue->state = (uint8_t)state;
	queue->news = true;
	if (list_empty(&queue->untold))
		list_push_back(&queue->verbs->untold, &queue->untold);
}

/* ---- Names ---------------------------------------------------------------------------------------------- */

enum name_layout {
	NAME_AT_KIND = 1,
	NAME_AT_MTU = 2,
	NAME_AT_READS = 3,
	NAME_AT_LID = 4,
	NAME_AT_PAIR = 8,
	NAME_AT_SEQUENCE = 12,
	NAME_AT_GID = 16,
	NAME_BYTES = 32,
};

_Static_assert((int)NAME_BYTES <= (int)NIC_NAME_MAX, "a name fits");

static void name_store(const struct nic_queue *queue, struct nic_name *name_p)
{
	const struct port *port = &queue->verbs->port;
	uint8_t *bytes = name_p->bytes;

	memset(name_p, 0, sizeof(*name_p));
	name_p->length = NAME_BYTES;
	bytes[0] = NAME_VERSION;
	bytes[NAME_AT_KIND] = port->kind;
	bytes[NAME_AT_MTU] = port->mtu_code;
	bytes[NAME_AT_READS] = port->reads;
	store_be16(bytes + NAME_AT_LID, port->lid);
	store_be32(bytes + NAME_AT_PAIR, queue->pair_number);
	store_be32(bytes + NAME_AT_SEQUENCE, queue->own_sequence);
	memcpy(bytes + NAME_AT_GID, port->gid, sizeof(port->gid));
}

/* Whether a port of that name can be reached from ours: of a subnet with InfiniBand, which addresses by its GIDs' first
 * half and its LIDs; else by IP, of the same version. */
static bool name_is_reachable(const struct port *port, const struct nic_name *name)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *gid = name->bytes + NAME_AT_GID;

	if (name->length != NAME_BYTES || name->bytes[0] != NAME_VERSION || name->bytes[NAME_AT_KIND] != port->kind ||
	    name->bytes[NAME_AT_MTU] < IBV_MTU_256 || name->bytes[NAME_AT_MTU] > IBV_MTU_4096)
		return false;
	if (port->kind == PORT_INFINIBAND)
		return memcmp(gid, port->gid, 8) == 0 && load_be16(name->bytes + NAME_AT_LID) != 0;
	return (memcmp(gid, ipv4, sizeof(ipv4)) == 0) == (memcmp(port->gid, ipv4, sizeof(ipv4)) == 0);
}

/* ---- Pairs ---------------------------------------------------------------------------------------------- */

static struct nic_queue **queue_bucket(struct nic_verbs *verbs, uint32_t pair_number)
{
	return &verbs->buckets[pair_number % BUCKETS];
}

static struct nic_queue *queue_find(struct nic_verbs *verbs, uint32_t pair_number)
{
	struct nic_queue *queue = *queue_bucket(verbs, pair_number);

	while (queue && queue->pair_number != pair_number)
		queue = queue->next;
	return queue;
}

static struct ibv_qp *pair_new(struct nic_verbs *verbs, uint32_t inline_max, struct nic_queue *queue)
{
	struct ibv_qp_init_attr wanted = {
		.qp_context = queue,
		.send_cq = verbs->completions,
		.recv_cq = verbs->completions,
		.srq = verbs->receives,
		.cap = {.max_send_wr = verbs->nic.limits.works,
			.max_send_sge = verbs->nic.limits.segments,
			.max_inline_data = inline_max},
		.qp_type = IBV_QPT_RC,
	};

	return verbs->verbs->create_qp(verbs->domain, &wanted);
}

/* False: the adapter may go on to reach memory through it. */
static bool pair_destroy(struct nic_verbs *verbs, struct ibv_qp *pair)
{
	return !pair || verbs->verbs->destroy_qp(pair) == 0;
}

/* Returns 0 or an errno, which not all libraries leave in errno, too. */
static int pair_modify(const struct nic_verbs *verbs, struct ibv_qp *pair, struct ibv_qp_attr *attr, int mask)
{
	int error = verbs->verbs->modify_qp(pair, attr, mask);

	if (error)
		errno = error;
	return error;
}

static int pair_begin(struct nic_verbs *verbs, struct ibv_qp *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = verbs->port.number,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (verbs->nic.limits.can & NIC_CAN_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0),
	};

	return pair_modify(verbs, pair, &attr,
			   IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
				   (verbs->port.kind == PORT_IWARP ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT));
}

/* It takes what the peer sends, */
static int pair_listen(struct nic_queue *queue, const struct nic_name *peer)
{
	const struct port *port = &queue->verbs->port;
	uint8_t mtu = peer->bytes[NAME_AT_MTU];
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu < port->mtu_code ? mtu : port->mtu_code,
		.dest_qp_num = load_be32(peer->bytes + NAME_AT_PAIR),
		.rq_psn = load_be32(peer->bytes + NAME_AT_SEQUENCE),
		.max_dest_rd_atomic = port->reads,
		.min_rnr_timer = ROOM_TIME,
		.ah_attr = {.port_num = port->number,
			    .dlid = load_be16(peer->bytes + NAME_AT_LID),
			    .is_global = port->kind != PORT_INFINIBAND,
			    .grh = {.sgid_index = (uint8_t)port->gid_index, .hop_limit = HOPS}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->bytes + NAME_AT_GID, sizeof(port->gid));
	return pair_modify(queue->verbs, queue->pair, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* and sends. */
static int pair_speak(struct nic_queue *queue, const struct nic_name *peer)
{
	uint32_t reads = queue->verbs->nic.limits.reads;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = queue->own_sequence,
		.max_rd_atomic = (uint8_t)(peer->bytes[NAME_AT_READS] < reads ? peer->bytes[NAME_AT_READS] : reads),
		.timeout = ANSWER_TIME,
		.retry_cnt = ANSWER_TRIES,
		.rnr_retry = ROOM_TRIES,
	};

	return pair_modify(queue->verbs, queue->pair, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
}

/* ---- Queues --------------------------------------------------------------------------------------------- */

static int nic_verbs_queue_new(struct nic *nic, uint32_t number, struct nic_queue **queue_p, struct nic_name *name_p)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	struct nic_queue *queue;
	int error;

	if (verbs->queues >= nic->limits.queues)
		return THOLE_ERR_AGAIN;
	queue = calloc(1, sizeof(*queue) + nic->limits.works * sizeof(*queue->ring));
	if (!queue)
		return THOLE_ERR_MEMORY;
	queue->verbs = verbs;
	queue->number = number;
	list_init(&queue->node);
	list_init(&queue->untold);
	queue->pair = pair_new(verbs, nic->limits.inline_max, queue);
	if (!queue->pair || pair_begin(verbs, queue->pair) != 0) {
		error = errno == ENOMEM ? THOLE_ERR_MEMORY : THOLE_ERR_SYSTEM;
		error_set(error, "the adapter %s gives no queue pair beside %u: %m", nic->device, verbs->queues);
		pair_destroy(verbs, queue->pair);
		free(queue);
		return error;
	}
	queue->pair_number = queue->pair->qp_num;
	if (queue_find(verbs, queue->pair_number)) { /* of one that was destroyed, which may have completions still */
		pair_destroy(verbs, queue->pair);
		free(queue);
		return THOLE_ERR_AGAIN;
	}
	error = verbs->iwarp ? iwarp_tie_new(verbs->iwarp, queue->pair_number, queue, &queue->tie, name_p) : 0;
	if (error) {
		pair_destroy(verbs, queue->pair);
		free(queue);
		return error;
	}
	if (getrandom(&queue->own_sequence, sizeof(queue->own_sequence), 0) != sizeof(queue->own_sequence))
		queue->own_sequence = queue->pair_number;
	queue->own_sequence &= 0xffffff;
	queue->next = *queue_bucket(verbs, queue->pair_number);
	*queue_bucket(verbs, queue->pair_number) = queue;
	verbs->queues++;
	if (!queue->tie)
		name_store(queue, name_p);
	*queue_p = queue;
	return 0;
}

static int nic_verbs_queue_connect(struct nic_queue *queue, const struct nic_name *peer)
{
	const struct port *port = &queue->verbs->port;

	if (queue->tie) {
		queue->state = QUEUE_CONNECTING;
		return iwarp_tie_connect(queue->tie, peer);
	}
	if (!name_is_reachable(port, peer))
		return error_set(THOLE_ERR_ADDRESS, "the adapter %s and the peer's are of different kinds or networks",
				 port->device);
	if (pair_listen(queue, peer) != 0 || pair_speak(queue, peer) != 0)
		return error_set(errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ENODATA ||
						 errno == ETIMEDOUT || errno == EINVAL
					 ? THOLE_ERR_ADDRESS
					 : THOLE_ERR_SYSTEM,
				 "the adapter %s does not connect to the peer's: %m", port->device);
	queue->state = QUEUE_CONNECTED;
	return 0;
}

static void nic_verbs_queue_stop(struct nic_queue *queue)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (queue->state >= QUEUE_STOPPING)
		return;
	queue->last_receive = queue->state == QUEUE_NEW; /* it never took one */
	list_remove(&queue->untold);
	queue->news = false;
	/* if it fails the device is gone, or the pair: either way it ends */
	(void)pair_modify(queue->verbs, queue->pair, &attr, IBV_QP_STATE);
	if (queue->tie)
		iwarp_tie_stop(queue->tie);
	queue->state = QUEUE_STOPPING;
	queue->stop_ns = clock_now_ns();
	list_push_back(&queue->verbs->stopping, &queue->node);
}

static void nic_verbs_queue_free(struct nic_queue *queue)
{
	struct nic_verbs *verbs = queue->verbs;
	struct nic_queue **place = queue_bucket(verbs, queue->pair_number);

	while (*place != queue)
		place = &(*place)->next;
	*place = queue->next;
	list_remove(&queue->untold);
	verbs->queues--;
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
	if (verbs->receives->context->ops.post_srq_recv(verbs->receives, works, &bad) != 0)
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
	*verbs->to++ = (struct nic_completion){.operation = operation,
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
	int n = verbs->completions->context->ops.poll_cq(verbs->completions, (int)(max < BATCH ? max : BATCH), wc);

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
	if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
		queue->last_receive = true;
	else if (queue->state == QUEUE_CONNECTED || queue->state == QUEUE_CONNECTING)
		queue_tell(queue, QUEUE_BROKEN);
}

/* Who told peers of an address that the port has no more has them told of the new one, by new queues. */
static void address_renew(struct nic_verbs *verbs)
{
	if (!port_renew(verbs->verbs, verbs->context, &verbs->port))
		return;
	if (verbs->iwarp)
		(void)iwarp_move(verbs->iwarp, verbs->port.gid); /* else there are no new queues */
	event_push(verbs, NIC_EVENT_LOST);
}

static void event_take(struct nic_verbs *verbs, const struct ibv_async_event *event)
{
	bool ours = event->element.port_num == verbs->port.number;

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

	while ((news = iwarp_next(verbs->iwarp, &owner)) != IWARP_NOTHING) {
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

	if (verbs->iwarp)
		ties_read(verbs);
	while (verbs->verbs->get_async_event(verbs->context, &event) == 0) {
		event_take(verbs, &event);
		verbs->verbs->ack_async_event(&event);
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

/* Whether a stopping pair has nothing more to say. */
static bool queue_is_flushed(const struct nic_queue *queue, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - queue->stop_ns;

	if (queue->verbs->gone)
		return true;
	if (queue->tie && !iwarp_tie_is_over(queue->tie) && waited_ns < TIE_S * UINT64_C(1000000000))
		return false;
	if (waited_ns > FLUSH_NS)
		return true;
	return queue->posted == queue->ended && (queue->last_receive || waited_ns > STOP_NS);
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
 * works, so they come as there is some. */
static void queue_end(struct nic_verbs *verbs)
{
	struct nic_queue *queue = container_of(list_first(&verbs->stopping), struct nic_queue, node);

	works_end(queue);
	if (queue->pair) {
		events_read(verbs);
		if (!queue_is_flushed(queue, clock_now_ns()))
			return;
		iwarp_tie_free(queue->tie); /* it holds the pair */
		queue->tie = NULL;
		if (!pair_destroy(verbs, queue->pair))
			nic_verbs_lose(verbs); /* in the error state, as far as one can tell */
		queue->pair = NULL;
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
	       (verbs->iwarp && iwarp_is_due(verbs->iwarp));
}

/* What nobody has asked for yet, and what is due where there are no completions. */
__attribute__((noinline)) static unsigned nic_verbs_poll_rest(struct nic_verbs *verbs,
							      struct nic_completion *completions, unsigned max)
{
	unsigned n;

	if (verbs->ready_first == verbs->ready_end) {
		if (verbs->iwarp && iwarp_is_due(verbs->iwarp))
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

	if (verbs->ready_first == verbs->ready_end) {
		verbs->to = completions;
		if (completions_take(verbs, max) > 0 || !nic_verbs_is_due(verbs))
			return (unsigned)(verbs->to - completions);
	}
	return nic_verbs_poll_rest(verbs, completions, max);
}

static bool nic_verbs_arm(struct nic *nic)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	struct ibv_cq *queue;
	void *context;
	unsigned told = 0;

	while (verbs->verbs->get_cq_event(verbs->channel, &queue, &context) == 0)
		told++;
	if (told)
		verbs->verbs->ack_cq_events(verbs->completions, told);
	if (verbs->completions->context->ops.req_notify_cq(verbs->completions, 0) != 0)
		return true;
	if (verbs->ready_first == verbs->ready_end) {
		ready_begin(verbs);
		(void)completions_take(verbs, BATCH);
		ready_end(verbs);
	}
	/* queues that stop are waited for by polling */
	return verbs->ready_first != verbs->ready_end || verbs->event_count > 0 || !list_empty(&verbs->stopping) ||
	       !list_empty(&verbs->untold);
}

static uint64_t nic_verbs_now_ns(struct nic *nic)
{
	(void)nic;
	return clock_now_ns();
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

static int memory_error(const struct nic *nic, size_t length)
{
	struct rlimit limit = {0};

	if (errno == EFAULT || errno == EINVAL)
		return error_set(THOLE_ERR_ARGUMENT, "%zu bytes cannot be registered with the adapter %s: %m", length,
				 nic->device);
	if (errno != ENOMEM)
		return error_set(THOLE_ERR_SYSTEM, "the adapter %s does not register %zu bytes: %m", nic->device,
				 length);
	getrlimit(RLIMIT_MEMLOCK, &limit);
	return error_set(THOLE_ERR_MEMORY,
			 "the adapter %s has no room for %zu bytes more, or they pass the limit of locked memory, "
			 "%llu bytes: raise it (ulimit -l unlimited; for services LimitMEMLOCK=infinity)",
			 nic->device, length, (unsigned long long)limit.rlim_cur);
}

static int nic_verbs_register(struct nic *nic, void *base, size_t length, unsigned access, struct nic_memory *memory_p)
{
	static const struct {
		unsigned ours;
		int theirs;
	} rights[] = {{NIC_ACCESS_WRITE, IBV_ACCESS_LOCAL_WRITE},
		      {NIC_ACCESS_PEER_READ, IBV_ACCESS_REMOTE_READ},
		      {NIC_ACCESS_PEER_WRITE, IBV_ACCESS_REMOTE_WRITE},
		      {NIC_ACCESS_PEER_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC},
		      {NIC_ACCESS_PAGED, IBV_ACCESS_ON_DEMAND}};
	struct nic_verbs *verbs = nic_verbs_of(nic);
	struct ibv_mr *region;
	int theirs = 0;

	for (size_t i = 0; i < sizeof(rights) / sizeof(*rights); i++)
		if (access & rights[i].ours)
			theirs |= rights[i].theirs;
	if (verbs->port.kind == PORT_IWARP && access & NIC_ACCESS_WRITE)
		theirs |= IBV_ACCESS_REMOTE_WRITE; /* what a read brings is, for such adapters, written by the peer */
	region = verbs->verbs->reg_mr(verbs->domain, base, length, theirs);
	if (!region)
		return memory_error(nic, length);
	*memory_p = (struct nic_memory){region, (uintptr_t)base, length, region->lkey, region->rkey};
	return 0;
}

static void nic_verbs_deregister(struct nic *nic, struct nic_memory *memory)
{
	(void)nic_verbs_of(nic)->verbs->dereg_mr(memory->handle);
	memory->handle = NULL;
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static void nic_verbs_close(struct nic *nic)
{
	struct nic_verbs *verbs = nic_verbs_of(nic);
	const struct ibverbs *library = verbs->verbs;

	forked_remove(&verbs->forked);
	iwarp_close(verbs->iwarp);
	if (verbs->receives)
		library->destroy_srq(verbs->receives);
	if (verbs->completions)
		library->destroy_cq(verbs->completions);
	if (verbs->channel)
		library->destroy_comp_channel(verbs->channel);
	if (verbs->domain)
		library->dealloc_pd(verbs->domain);
	if (verbs->context)
		library->close_device(verbs->context);
	if (nic->fd >= 0)
		close(nic->fd);
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

static struct ibv_context *nic_verbs_device(const struct ibverbs *library, const char *name)
{
	struct ibv_device **devices = library->get_device_list(NULL);
	struct ibv_context *context = NULL;

	errno = ENODEV;
	for (int i = 0; devices && devices[i] && !context; i++)
		if (strcmp(library->get_device_name(devices[i]), name) == 0)
			context = library->open_device(devices[i]);
	if (devices) {
		int reason = errno;

		library->free_device_list(devices);
		errno = reason;
	}
	return context;
}

/* What tells of completions and events, as one descriptor. */
static int nic_verbs_watch(struct nic_verbs *verbs)
{
	int fds[] = {verbs->channel->fd, verbs->context->async_fd, verbs->iwarp ? iwarp_fd(verbs->iwarp) : -1};

	verbs->nic.fd = epoll_create1(EPOLL_CLOEXEC);
	if (verbs->nic.fd < 0)
		return -1;
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		struct epoll_event event = {.events = EPOLLIN};

		verbs->fds[1 + i] = fds[i];
		if (fds[i] < 0)
			continue;
		if (fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK) != 0 ||
		    epoll_ctl(verbs->nic.fd, EPOLL_CTL_ADD, fds[i], &event) != 0)
			return -1;
	}
	verbs->fds[0] = verbs->nic.fd;
	verbs->fds[4] = verbs->context->cmd_fd;
	forked_add(&verbs->forked, verbs->fds, FDS);
	return 0;
}

static int nic_verbs_queues(struct nic_verbs *verbs)
{
	const struct ibverbs *library = verbs->verbs;
	const struct nic_limits *limits = &verbs->nic.limits;
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = limits->receives, .max_sge = 1}};
	int entries = (int)(limits->receives + limits->queues * limits->works);

	verbs->domain = library->alloc_pd(verbs->context);
	verbs->channel = library->create_comp_channel(verbs->context);
	if (!verbs->domain || !verbs->channel)
		return -1;
	verbs->completions = library->create_cq(verbs->context, entries, NULL, verbs->channel, 0);
	verbs->receives = library->create_srq(verbs->domain, &shared);
	return verbs->completions && verbs->receives ? nic_verbs_watch(verbs) : -1;
}

/* How much a work can carry inside only a pair knows; and whether there are pairs at all. */
static int nic_verbs_try(struct nic_verbs *verbs)
{
	static const uint32_t sizes[] = {512, 256, 188, 128, 64, 0};
	struct ibv_qp *pair = NULL;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !pair; i++) {
		pair = pair_new(verbs, sizes[i], NULL);
		verbs->nic.limits.inline_max = sizes[i];
	}
	if (!pair)
		return -1;
	if (pair_begin(verbs, pair) == 0 && verbs->verbs->query_qp_data_in_order &&
	    verbs->verbs->query_qp_data_in_order(pair, IBV_WR_RDMA_WRITE, 0) == 1)
		verbs->nic.limits.can |= NIC_ORDERED;
	pair_destroy(verbs, pair);
	return 0;
}

static int receives_room(struct nic_verbs *verbs)
{
	uint32_t receives = verbs->nic.limits.receives;

	verbs->receive_ids = calloc(receives, sizeof(*verbs->receive_ids));
	verbs->receive_free = calloc(receives, sizeof(*verbs->receive_free));
	if (!verbs->receive_ids || !verbs->receive_free)
		return -1;
	for (uint32_t i = 0; i < receives; i++)
		verbs->receive_free[verbs->receive_free_count++] = i;
	return 0;
}

static int nic_verbs_iwarp(struct nic_verbs *verbs)
{
	const struct port *port = &verbs->port;
	struct iwarp_setup setup = {.device = verbs->nic.device, .reads = (uint8_t)port->limits.reads,
				    .peer_reads = port->reads};

	memcpy(setup.address, port->gid, sizeof(setup.address));
	return iwarp_open(&setup, &verbs->iwarp);
}

int nic_verbs_open(const struct port *port, struct nic **nic_p)
{
	const struct ibverbs *library = ibverbs_load();
	struct nic_verbs *verbs = library ? calloc(1, sizeof(*verbs)) : NULL;
	int error;

	if (!library)
		return THOLE_ERR_UNSUPPORTED;
	if (!verbs)
		return error_set(THOLE_ERR_MEMORY, "no memory for an adapter");
	verbs->verbs = library;
	verbs->port = *port;
	verbs->nic.calls = &nic_verbs_calls;
	verbs->nic.limits = port->limits;
	memcpy(verbs->nic.device, port->device, sizeof(verbs->nic.device));
	verbs->nic.fd = -1;
	list_init(&verbs->stopping);
	list_init(&verbs->untold);
	error = port->kind == PORT_IWARP ? nic_verbs_iwarp(verbs) : 0;
	if (error) {
		nic_verbs_close(&verbs->nic);
		return error;
	}
	verbs->context = nic_verbs_device(library, port->device);
	if (verbs->context && nic_verbs_queues(verbs) == 0 && nic_verbs_try(verbs) == 0 && receives_room(verbs) == 0) {
		*nic_p = &verbs->nic;
		return 0;
	}
	error = errno == ENOMEM ? THOLE_ERR_MEMORY : errno == EACCES || errno == EPERM ? THOLE_ERR_ACCESS
										      : THOLE_ERR_SYSTEM;
	error_set(error, "the adapter %s cannot be used: %m%s", port->device,
		  error == THOLE_ERR_MEMORY ? "; it may be the limit of locked memory (ulimit -l)" : "");
	nic_verbs_close(&verbs->nic);
	return error;
}
