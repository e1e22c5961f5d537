/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/verbs.h"

enum { VERBS_POLLS = 2 }; /* polls of rings that take as long as one of a completion queue */

static int verbs_wanted(const struct options *options, enum transport_need *need_p)
{
	(void)options;
	*need_p = TRANSPORT_UNWANTED;
	return 0;
}

static int verbs_open(struct transport_owner *owner)
{
	(void)owner;
	return error_set(THOLE_ERR_UNSUPPORTED, "adapters for remote DMA are not opened yet");
}

int verbs_attach(struct transport_owner *owner, struct nic *nic, const struct card_setup *setup,
		 const struct card_carrier *carrier, void *carrier_arg)
{
	struct card_setup usual;
	int error;

	card_setup_default(&usual);
	error = card_open(owner, nic, setup ? setup : &usual, carrier, carrier_arg);
	transport_set_polled(owner, TRANSPORT_VERBS, !error);
	return error;
}

static void verbs_end(struct transport_owner *owner)
{
	card_close(card_of(owner));
	transport_set_polled(owner, TRANSPORT_VERBS, false);
}

static bool verbs_drained(struct transport_owner *owner)
{
	return card_drained(card_of(owner));
}

static void verbs_notify_close(struct transport_owner *owner)
{
	struct card *card = card_of(owner);

	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node))
		pair_end(container_of(node, struct pair, node));
}

/* Whose address says nothing of adapters is found out when a queue is wanted. */
static bool verbs_reaches(const struct transport_owner *owner, const struct address_parts *parts)
{
	return parts->network[0] != ADDRESS_NONE && parts->network[0] == owner->parts.network[0];
}

static int verbs_connect(struct transport_peer *peer)
{
	struct pair *pair = pair_get(peer);

	if (!pair)
		return error_set(THOLE_ERR_MEMORY, "no memory for another peer");
	pair_want(pair);
	return 0;
}

static bool verbs_connected(struct transport_peer *peer)
{
	return pair_of(peer)->told;
}

static int verbs_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
		      uint64_t offset, uint32_t length)
{
	return pair_of(peer) ? records_push(pair_of(peer), record, payload, offset, length) : THOLE_ERR_AGAIN;
}

static uint32_t verbs_piece_max(struct transport_peer *peer, uint64_t left)
{
	(void)left;
	return records_piece_max(card_of(peer->owner));
}

/* What is longer is fetched, without a copy into a slot. */
static uint64_t verbs_eager_max(struct transport_peer *peer)
{
	return peer->owner->backpressure ? 0 : records_piece_max(card_of(peer->owner));
}

static void verbs_backpressure(struct transport_owner *owner)
{
	(void)owner;
}

static void verbs_disconnect(struct transport_peer *peer)
{
	if (pair_of(peer))
		pair_disconnect(pair_of(peer));
}

static void verbs_info(struct transport_peer *peer, struct thole_peer_info *info_p)
{
	const struct pair *pair = pair_of(peer);

	if (!pair)
		return;
	info_p->state = pair->told ? "connected" : "connecting"; /* its queue may be closed meanwhile */
	info_p->records = info_p->bulk = card_of(peer->owner)->nic->device;
}

static int verbs_progress(struct transport_owner *owner)
{
	return card_progress(card_of(owner));
}

static int verbs_transmit(struct transport_owner *owner)
{
	return card_transmit(card_of(owner));
}

static uint64_t verbs_deadline(const struct transport_owner *owner)
{
	return card_deadline(card_of(owner));
}

static uint64_t verbs_sleep(struct transport_owner *owner)
{
	struct card *card = card_of(owner);
	uint64_t deadline_ns = card_deadline(card), now_ns = card->nic->calls->now_ns(card->nic);

	if (card->nic->calls->arm(card->nic) || deadline_ns <= now_ns)
		return 0;
	return deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns - now_ns;
}

const struct transport verbs_transport = {
	.name = "verbs",
	.carried = COUNTER_VERBS_MESSAGES,
	.weight = VERBS_POLLS,
	.wanted = verbs_wanted,
	.open = verbs_open,
	.close = verbs_end,
	.drained = verbs_drained,
	.notify_close = verbs_notify_close,
	.reaches = verbs_reaches,
	.connect = verbs_connect,
	.push = verbs_push,
	.piece_max = verbs_piece_max,
	.connected = verbs_connected,
	.transmit = verbs_transmit,
	.eager_max = verbs_eager_max,
	.info = verbs_info,
	.disconnect = verbs_disconnect,
	.backpressure = verbs_backpressure,
	.fetch = bulk_verbs_fetch,
	.progress = verbs_progress,
	.deadline = verbs_deadline,
	.arm = verbs_sleep,
};
