/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_flags.h"

unsigned prov_flags_send(const struct prov_endpoint *endpoint, unsigned operation, uint64_t flags)
{
	unsigned thole = 0;

	if (endpoint->tx_selective && !(flags & FI_COMPLETION))
		thole |= prov_endpoint_silence(endpoint, operation, 0);
	if (flags & FI_INJECT)
		thole |= THOLE_INJECT;
	if (flags & FI_REMOTE_CQ_DATA)
		thole |= THOLE_IMM;
	if ((flags & FI_MATCH_COMPLETE) && operation == THOLE_OP_SEND)
		thole |= THOLE_SYNC;
	if ((flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) && operation == THOLE_OP_SEND)
		thole |= THOLE_ARRIVED;
	return thole;
}

/* A used up FI_MULTI_RECV buffer makes an entry even where its messages do not, so it is never
 * THOLE_QUIET. */
unsigned prov_flags_recv(const struct prov_endpoint *endpoint, unsigned plain, uint64_t flags)
{
	unsigned thole = plain;

	if (flags & FI_MULTI_RECV)
		thole |= THOLE_MULTI;
	if (endpoint->rx_selective && !(flags & FI_COMPLETION))
		thole |= thole & THOLE_MULTI ? PROV_SILENT : prov_endpoint_silence(endpoint, THOLE_OP_RECEIVE, plain);
	return thole;
}

static const uint64_t sink_flags[PROV_SINKS / 2] = {
	[THOLE_OP_SEND] = FI_SEND,
	[THOLE_OP_RECEIVE] = FI_RECV,
	[THOLE_OP_PUT] = FI_RMA | FI_WRITE,
	[THOLE_OP_GET] = FI_RMA | FI_READ,
	[THOLE_OP_ATOMIC] = FI_ATOMIC | FI_WRITE,
	[THOLE_OP_ATOMIC_FETCH] = FI_ATOMIC | FI_READ,
	[THOLE_OP_REMOTE_PUT] = FI_RMA | FI_REMOTE_WRITE,
	[THOLE_OP_REMOTE_GET] = FI_RMA | FI_REMOTE_READ,
	[THOLE_OP_REMOTE_ATOMIC] = FI_ATOMIC | FI_REMOTE_WRITE,
	[THOLE_OP_REMOTE_ATOMIC_FETCH] = FI_ATOMIC | FI_REMOTE_READ,
};

static void prov_flags_sinks_settle(struct prov_endpoint *endpoint)
{
	for (unsigned operation = 0; operation < PROV_SINKS / 2; operation++) {
		bool message = operation == THOLE_OP_SEND || operation == THOLE_OP_RECEIVE;
		bool arrival = operation == THOLE_OP_RECEIVE || operation == THOLE_OP_REMOTE_PUT;

		for (unsigned plain = 0; plain < 2; plain++) {
			struct prov_sink *sink = prov_endpoint_sink(endpoint, operation, plain ? THOLE_PLAIN : 0);

			sink->flags = sink_flags[operation];
			if (message)
				sink->flags |= plain ? FI_MSG : FI_TAGGED;
			sink->imm_flag = arrival ? FI_REMOTE_CQ_DATA : 0;
		}
	}
}

void prov_flags_settle(struct prov_endpoint *endpoint)
{
	/* MPIs that put and get ask for it of all they do, and mean their puts: their sends would wait for a trip. */
	uint64_t meant = endpoint->caps & (FI_RMA | FI_ATOMIC) ? ~(FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE) : ~0ull;

	prov_flags_sinks_settle(endpoint);
	endpoint->inject_flags = THOLE_INJECT | prov_endpoint_silence(endpoint, THOLE_OP_SEND, 0);
	endpoint->send_flags = prov_flags_send(endpoint, THOLE_OP_SEND, endpoint->tx_flags & meant);
	endpoint->recv_flags = prov_flags_recv(endpoint, 0, endpoint->rx_flags & ~FI_MULTI_RECV);
	endpoint->plain_recv_flags = prov_flags_recv(endpoint, THOLE_PLAIN, endpoint->rx_flags);
	endpoint->directed = endpoint->caps & FI_DIRECTED_RECV;
	endpoint->wants_source = endpoint->caps & FI_SOURCE;
}
