/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/qp.h"

#include <errno.h>
#include <string.h>

#include "base/endian.h"
#include "base/error.h"

enum {
	NAME_VERSION = 1,
	/* an answer is waited for 4.096 us x 2^14 = 67 ms, seven times: half a second */
	ANSWER_TIME = 14,
	ANSWER_TRIES = 7,
	ROOM_TIME = 12,         /* 0.64 ms until a peer without a receive is tried again, for ever */
	ROOM_TRIES = 7,
	HOPS = 64,
};

/* ---- Names ---------------------------------------------------------------------------------------------- */

enum name_layout {
	NAME_AT_KIND = 1,
	NAME_AT_MTU = 2,
	NAME_AT_READS = 3,
	NAME_AT_LID = 4,
	NAME_AT_FLAGS = 6,      /* enum name_flags */
	NAME_AT_PAIR = 8,
	NAME_AT_SEQUENCE = 12,
	NAME_AT_GID = 16,
	NAME_BYTES = 32,
};

enum name_flags { NAME_GLOBAL = 1 }; /* struct port's */

_Static_assert((int)NAME_BYTES <= (int)NIC_NAME_MAX, "a name fits");

void qp_name(const struct context *context, const struct ibv_qp *qp, uint32_t sequence, struct nic_name *name_p)
{
	const struct port *port = &context->port;
	uint8_t *bytes = name_p->bytes;

	memset(name_p, 0, sizeof(*name_p));
	name_p->length = NAME_BYTES;
	bytes[0] = NAME_VERSION;
	bytes[NAME_AT_KIND] = port->kind;
	bytes[NAME_AT_MTU] = port->mtu_code;
	bytes[NAME_AT_READS] = port->reads;
	store_be16(bytes + NAME_AT_LID, port->lid);
	bytes[NAME_AT_FLAGS] = port->global ? NAME_GLOBAL : 0;
	store_be32(bytes + NAME_AT_PAIR, qp->qp_num);
	store_be32(bytes + NAME_AT_SEQUENCE, sequence);
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

/* ---- States --------------------------------------------------------------------------------------------- */

/* Returns 0 or an errno, which not all libraries leave in errno, too. */
static int qp_modify(const struct context *context, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = context->verbs->modify_qp(qp, attr, mask);

	if (error)
		errno = error;
	return error;
}

/* inline_p: bytes that it is to take inline, and then that it does: not all libraries refuse what they do not have. */
static struct ibv_qp *qp_make(const struct context *context, uint32_t *inline_p, void *owner)
{
	struct ibv_qp_init_attr wanted = {
		.qp_context = owner,
		.send_cq = context->completions,
		.recv_cq = context->completions,
		.srq = context->receives,
		.cap = {.max_send_wr = context->port.limits.works,
			.max_send_sge = context->port.limits.segments,
			.max_inline_data = *inline_p},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = context->verbs->create_qp(context->domain, &wanted);

	if (wanted.cap.max_inline_data < *inline_p)
		*inline_p = wanted.cap.max_inline_data;
	return qp;
}

static int qp_begin(const struct context *context, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = context->port.partition,
		.port_num = context->port.number,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (context->port.limits.can & NIC_CAN_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0),
	};

	return qp_modify(context, qp, &attr,
			 IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
				 (context->port.kind == PORT_IWARP ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT));
}

/* It takes what the peer sends, */
static int qp_listen(const struct context *context, struct ibv_qp *qp, const struct nic_name *peer)
{
	const struct port *port = &context->port;
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
			    .is_global = port->kind != PORT_INFINIBAND || port->global ||
					 peer->bytes[NAME_AT_FLAGS] & NAME_GLOBAL,
			    .grh = {.sgid_index = (uint8_t)port->gid_index, .hop_limit = HOPS}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->bytes + NAME_AT_GID, sizeof(port->gid));
	return qp_modify(context, qp, &attr,
			 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* and sends. */
static int qp_speak(const struct context *context, struct ibv_qp *qp, uint32_t sequence, const struct nic_name *peer)
{
	uint32_t reads = context->port.limits.reads;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sequence,
		.max_rd_atomic = (uint8_t)(peer->bytes[NAME_AT_READS] < reads ? peer->bytes[NAME_AT_READS] : reads),
		.timeout = ANSWER_TIME,
		.retry_cnt = ANSWER_TRIES,
		.rnr_retry = ROOM_TRIES,
	};

	return qp_modify(context, qp, &attr,
			 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
				 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
}

/* ---- What their owner asks for ---------------------------------------------------------------------------- */

bool qp_probe(struct context *context)
{
	static const uint32_t sizes[] = {512, 256, 188, 128, 64, 0};
	struct ibv_qp *qp = NULL;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !qp; i++) {
		context->port.limits.inline_max = sizes[i];
		qp = qp_make(context, &context->port.limits.inline_max, NULL);
	}
	if (!qp)
		return false;
	if (qp_begin(context, qp) == 0 && context->verbs->query_qp_data_in_order &&
	    context->verbs->query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1)
		context->port.limits.can |= NIC_ORDERED;
	qp_destroy(context, qp);
	return true;
}

struct ibv_qp *qp_new(const struct context *context, void *owner)
{
	uint32_t inline_max = context->port.limits.inline_max;
	struct ibv_qp *qp = qp_make(context, &inline_max, owner);
	int reason;

	if (!qp || qp_begin(context, qp) == 0)
		return qp;
	reason = errno;
	qp_destroy(context, qp);
	errno = reason;
	return NULL;
}

bool qp_destroy(const struct context *context, struct ibv_qp *qp)
{
	return !qp || context->verbs->destroy_qp(qp) == 0;
}

int qp_connect(const struct context *context, struct ibv_qp *qp, uint32_t sequence, const struct nic_name *peer)
{
	const struct port *port = &context->port;

	if (!name_is_reachable(port, peer))
		return error_set(THOLE_ERR_ADDRESS, "the adapter %s and the peer's are of different kinds or networks",
				 port->device);
	if (qp_listen(context, qp, peer) == 0 && qp_speak(context, qp, sequence, peer) == 0)
		return 0;
	return error_set(errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ENODATA || errno == ETIMEDOUT ||
					 errno == EINVAL
				 ? THOLE_ERR_ADDRESS
				 : THOLE_ERR_SYSTEM,
			 "the adapter %s does not connect to the peer's: %m", port->device);
}

void qp_stop(const struct context *context, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)qp_modify(context, qp, &attr, IBV_QP_STATE);
}
