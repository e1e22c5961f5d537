/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs: remote DMA between hosts, as endpoints see it: a card beside the connections of the datagram transport.
 *
 * A peer of this transport has a connection of the datagram transport from the beginning to its end. By that it is
 * found, greeted and known, by that its death and its end are seen, and by that the two ends of a pair tell each other
 * their queues (RECORD_CARD). Each side decides by itself which way its records go:
 *
 *     WAY_NETWORK   by the connection: at first, and where adapters do not reach each other
 *     WAY_QUEUE     by the queue: from when on it is open, and something has come by it. The last word by the
 *                   connection is WORD_QUEUE: until that is there, the peer holds back what comes by the queue. So
 *                   nothing is overtaken, and what was pushed is under way, also if its sender looks at nothing again
 *     WAY_OVER      back, because the queue is not to be had any more: nothing goes until the queue has stopped; then
 *                   all records that the peer may not have go again by the connection, each in a RECORD_CARD
 *
 * Records of a queue have numbers that go on from one queue to the next; so what comes twice, by the queue and by the
 * connection, is dropped, and nothing comes out of order. Fetches that a queue leaves behind begin anew by the
 * connection, once nothing of the queue touches memory any more.
 *
 * In the simulator there may be a card alone, without connections: then the way is the queue always.
 */
#include "transport/verbs/verbs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "memory/driver.h"
#include "transport/verbs/port.h"

enum {
	VERBS_POLLS = 2,            /* polls of rings that take as long as one of a completion queue */
	WORD_RECORD_MAX = 1 << 16,  /* bytes of a slot */
	WORD_MAX = 384,             /* bytes of a RECORD_CARD: a frame on any path has room for it */
	FAILS_MOST = 3,             /* queues in a row that break with nothing done: the next one would, too */
};

/* Nanoseconds. */
enum {
	APART_NS = 300000000,       /* without a queue a pair goes over */
	LOOK_NS = 20000000,         /* between two looks whether one does; of more time only twice as much counts */
};

#define TRY_NS_LEAST UINT64_C(500000000) /* until a queue is tried again that was not to be had, doubling, */
#define TRY_NS_MOST UINT64_C(64000000000)

/* Tags of RECORD_CARD. */
enum verbs_word {
	WORD_HELLO,                 /* a struct hello */
	WORD_OVER,                  /* I go over to the connection: stop the queue */
	WORD_QUEUE,                 /* from now on by the queue: what is held follows */
	WORD_RECORD,                /* bytes from (imm >> 32) on of imm's lower 32 bits in all: as they are in a slot */
};

static bool verbs_alone(const struct transport_owner *owner)
{
	return !owner->state[TRANSPORT_DATAGRAM];
}

/* A peer's pair, from its first use on. NULL without memory. */
static struct pair *verbs_pair(struct transport_peer *peer)
{
	struct pair *pair = pair_of(peer);

	if (pair)
		return pair;
	pair = pair_get(peer);
	if (!pair)
		return NULL;
	transport_set_polled(peer->owner, TRANSPORT_VERBS, true);
	return pair;
}

/* By the connection: it may rest beside queues. */
static int network_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
			uint64_t offset, uint32_t length)
{
	transport_set_polled(peer->owner, TRANSPORT_DATAGRAM, true);
	return datagram_transport.push(peer, record, payload, offset, length);
}

static void network_fetch(struct transport_fetch *fetch)
{
	transport_set_polled(fetch->peer->owner, TRANSPORT_DATAGRAM, true);
	datagram_transport.fetch(fetch);
}

/* ---- Words ------------------------------------------------------------------------------------------ */

static int word_push(struct transport_peer *peer, uint64_t tag, uint64_t imm, const void *bytes, uint32_t length)
{
	struct record record = {.kind = RECORD_CARD, .length = (uint16_t)length, .tag = tag, .imm = imm};
	struct iovec segment = {(void *)(uintptr_t)bytes, length};
	struct vector vector = {&segment, 1, length};
	bool stalled = peer->stalled;
	int error;

	if (length > 0)
		record.length = RECORD_EXTERNAL;
	error = network_push(peer, &record, &vector, 0, length);
	peer->stalled = stalled; /* words are tried again by themselves; the backlog waits for room as it did */
	return error;
}

/* Of hellos only the newest counts: what finds no room is said when there is some. */
static void verbs_say(void *arg, struct transport_peer *peer, const uint8_t *bytes, uint32_t length)
{
	struct pair *pair = pair_of(peer);

	(void)arg;
	pair->unsaid = 0;
	if (peer->gone || !datagram_transport.connected(peer) ||
	    word_push(peer, WORD_HELLO, 0, bytes, length) == 0)
		return;
	memmove(pair->hello, bytes, length);
	pair->unsaid = (uint8_t)length;
}

/* ---- Memory ----------------------------------------------------------------------------------------- */

static const uint32_t *verbs_watch(void *arg, uint64_t address, uint64_t length, uint64_t *id_p)
{
	struct transport_owner *owner = arg;
	struct iovec segment = {(void *)(uintptr_t)address, length};
	uint32_t id;

	if (!owner->driver || driver_declare(owner->driver, &segment, 1, THOLE_DRIVER_WATCH, &id) != 0)
		return NULL;
	*id_p = id;
	return driver_word(owner->driver, id);
}

static void verbs_unwatch(void *arg, uint64_t id)
{
	struct transport_owner *owner = arg;

	driver_forget(owner->driver, (uint32_t)id);
}

/* ---- Which way -------------------------------------------------------------------------------------- */

static void way_set(struct pair *pair, enum pair_way way)
{
	pair->way = (uint8_t)way;
	pair_count(pair);
	pair->apart_ns = 0;
	pair->peer->carried = way == WAY_QUEUE ? COUNTER_VERBS_MESSAGES : COUNTER_NETWORK_MESSAGES;
}

/* The next try is later and later, until one succeeds. */
static void way_put_off(struct pair *pair)
{
	pair->gap_try_ns = pair->gap_try_ns ? 2 * pair->gap_try_ns : TRY_NS_LEAST;
	if (pair->gap_try_ns > TRY_NS_MOST)
		pair->gap_try_ns = TRY_NS_MOST;
	pair->try_ns = pair->card->now_ns + pair->gap_try_ns;
}

/* The queue is gone, and with it all that touched memory: what was under way begins anew by the connection. */
static void over_stopped(struct pair *pair)
{
	struct transport_fetch *job;

	while ((job = bulk_verbs_take(pair)))
		network_fetch(job);
	bulk_verbs_lost(pair);
	pair->over_at = 0;
	card_attend(pair);
}

/* From now on by the connection. Whose records go there anyway still has to tell the peer not to use the queue. */
static void over_begin(struct pair *pair)
{
	if (pair->way == WAY_OVER || (pair->way == WAY_NETWORK && !pair->queue && list_empty(&pair->sent)))
		return;
	if (pair->way == WAY_QUEUE)
		transport_count(pair->card->owner, COUNTER_VERBS_OVER);
	pair_count_broken(pair);
	way_set(pair, WAY_OVER);
	way_put_off(pair);
	pair->over_told = false;
	pair_give_up(pair);
	if (!pair->queue)
		over_stopped(pair);
}

/* One record that the peer may not have. False: there is no room. */
static bool over_record(struct pair *pair, const struct send_slot *slot)
{
	uint32_t piece;

	for (; pair->over_at < slot->length; pair->over_at += piece) {
		piece = slot->length - pair->over_at < WORD_MAX ? slot->length - pair->over_at : (uint32_t)WORD_MAX;
		if (word_push(pair->peer, WORD_RECORD, (uint64_t)pair->over_at << 32 | slot->length,
			      slot->bytes + pair->over_at, piece) != 0)
			return false;
	}
	pair->over_at = 0;
	return true;
}

/* Once its queue has stopped. */
static void over_turn(struct pair *pair)
{
	struct list_node *node;

	if (pair->queue)
		return;
	if (!pair->over_told && word_push(pair->peer, WORD_OVER, 0, NULL, 0) != 0)
		return;
	pair->over_told = true;
	while ((node = list_first(&pair->sent))) {
		const struct send_slot *slot = container_of(node, struct send_slot, node);

		if (!over_record(pair, slot))
			return;
		records_handled(pair, slot->number + 1);
	}
	way_set(pair, WAY_NETWORK);
}

/* Whether records may go by the queue from now on. */
static bool way_is_open(struct pair *pair)
{
	struct card *card = pair->card;

	if (pair->state == PAIR_IDLE && !card->down && !card->gone && card->now_ns >= pair->try_ns &&
	    datagram_transport.connected(pair->peer)) {
		way_put_off(pair);
		pair_want(pair);
	}
	return pair->state == PAIR_OPEN && pair->proven && !card->down;
}

/* Whether its queue is as it should be: there, or not needed. */
static bool way_is_whole(const struct pair *pair)
{
	if (pair->state == PAIR_OPEN)
		return pair->proven || pair->way == WAY_NETWORK;
	return pair->state == PAIR_IDLE && (pair->way == WAY_NETWORK || !pair_is_needed(pair));
}

/* No queue, until it is tried again. Whose records go by the connection may have said something by it all the same, as
 * of a region: what the peer may not have would ask for the next queue again and again. */
static void way_leave(struct pair *pair)
{
	if (pair->way == WAY_QUEUE || !list_empty(&pair->sent))
		over_begin(pair);
	else
		pair_give_up(pair);
}

/* A queue that is to be had was not for too long. */
static void way_is_apart(struct pair *pair)
{
	way_leave(pair);
	pair->apart_ns = 0;
}

/* A queue that is to be had and is not: for how long already? passed_ns: since the last look. */
static void way_look(struct pair *pair, uint64_t passed_ns)
{
	struct card *card = pair->card;

	if (pair->unsaid)
		verbs_say(NULL, pair->peer, pair->hello, pair->unsaid);
	if (pair->way == WAY_OVER) {
		over_turn(pair);
	} else if (!verbs_alone(card->owner)) {
		if (way_is_whole(pair))
			pair->apart_ns = 0;
		else if (pair->apart_ns == 0)
			pair->apart_ns = 1;
		else if ((pair->apart_ns += passed_ns) > APART_NS)
			way_is_apart(pair);
	}
}

/* The hello of who was asked waits by the connection while this process makes no call: that time does not count. */
__attribute__((noinline)) static void ways_look(struct card *card)
{
	uint64_t passed_ns = card->now_ns - card->look_ns + LOOK_NS;

	if (passed_ns > 2 * LOOK_NS)
		passed_ns = 2 * LOOK_NS;
	card->look_ns = card->now_ns + LOOK_NS;
	card->told = true; /* who never sleeps hears of events so */
	for (uint32_t i = 0; i < card->pair_count; i++)
		if (card->pairs[i] && !card->pairs[i]->dead)
			way_look(card->pairs[i], passed_ns);
}

/* The port is down, or the device is gone. */
static void verbs_event(void *arg, struct card *card, enum nic_event event)
{
	(void)arg;
	if (event != NIC_EVENT_LOST)
		card->down = card->gone || event == NIC_EVENT_DOWN;
	for (uint32_t i = 0; i < card->pair_count; i++) {
		struct pair *pair = card->pairs[i];

		if (!pair || pair->dead)
			continue;
		if (card->down)
			over_begin(pair);
		else
			pair->try_ns = 0;
	}
}

/* Its queue has stopped. Returns whether it is to stay so. */
static bool verbs_stopped(void *arg, struct pair *pair)
{
	(void)arg;
	if (pair->failed && pair->fails >= FAILS_MOST)
		over_begin(pair);
	if (pair->way != WAY_OVER)
		return false;
	over_stopped(pair);
	over_turn(pair);
	return true;
}

static const struct card_carrier carrier_watched = {
	.say = verbs_say,
	.watch = verbs_watch,
	.unwatch = verbs_unwatch,
	.event = verbs_event,
	.stopped = verbs_stopped,
};

const struct card_carrier verbs_carrier = {
	.say = verbs_say,
	.event = verbs_event,
	.stopped = verbs_stopped,
};

/* A record that was sent by the queue, and again by the connection. */
static void word_record(struct pair *pair, const struct record *word, const uint8_t *bytes, uint32_t length)
{
	uint32_t at = (uint32_t)(word->imm >> 32), whole = (uint32_t)word->imm;
	uint8_t *gathered;

	if (at == 0 && !pair->gathered && whole <= WORD_RECORD_MAX) {
		pair->gathered_to = 0;
		pair->gathered_whole = whole;
		/* as in a slot, where a record that ends with its payload has room for all of one */
		pair->gathered = calloc(1, sizeof(struct head) + sizeof(struct record) + whole);
		if (!pair->gathered) {
			pair->card->owner->up->lost(pair->peer, THOLE_ERR_MEMORY);
			return;
		}
	}
	if (!pair->gathered || whole != pair->gathered_whole || at != pair->gathered_to || length > whole - at) {
		transport_bad(pair->peer);
		return;
	}
	memcpy(pair->gathered + at, bytes, length);
	pair->gathered_to = at + length;
	if (pair->gathered_to < whole)
		return;
	gathered = pair->gathered;
	pair->gathered = NULL;
	records_repeated(pair, gathered, whole);
	free(gathered);
}

static void verbs_word(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct pair *pair = verbs_pair(peer);

	if (!pair || pair->dead)
		return;
	switch (record->tag & 0xff) {
	case WORD_HELLO:
		/* no queue before all has gone over, nor where it would be of no use */
		if (!pair->card->gone && !pair->card->down && pair->way != WAY_OVER)
			pair_heard(peer, payload, length);
		break;
	case WORD_QUEUE:
		records_follow(pair);
		break;
	case WORD_OVER:
		pair->behind = true;
		bulk_verbs_offers_end(pair);
		way_leave(pair);
		break;
	case WORD_RECORD:
		word_record(pair, record, payload, length);
		break;
	default:
		transport_bad(peer);
	}
}

/* ---- Opening ---------------------------------------------------------------------------------------- */

static int verbs_wanted(const struct options *options, enum transport_need *need_p)
{
	static const enum transport_need needs[] = {
		[OPTION_VERBS_AUTO] = TRANSPORT_WELCOME,
		[OPTION_VERBS_OFF] = TRANSPORT_UNWANTED,
		[OPTION_VERBS_REQUIRED] = TRANSPORT_REQUIRED,
	};
	bool required = options->verbs == OPTION_VERBS_REQUIRED;

	*need_p = needs[options->verbs];
	if (options->codec == OPTION_CODEC_NATIVE && options->network != OPTION_NETWORK_OFF &&
	    options->integrity != OPTION_INTEGRITY_HEAD && options->integrity != OPTION_INTEGRITY_FULL)
		return 0;
	*need_p = TRANSPORT_UNWANTED;
	return required ? error_set(THOLE_ERR_ARGUMENT,
				    "the option verbs=required needs the network, too (options network=on and "
				    "codec=native), and has no tags (option integrity=auto or off)")
			: 0;
}

static void verbs_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	(void)watcher, (void)now_ns;
	card_of(owner)->told = true;
	transport_set_polled(owner, TRANSPORT_VERBS, true);
}

static int verbs_observe(struct transport_owner *owner)
{
	struct card *card = card_of(owner);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &card->watcher};

	card->watcher.ready = verbs_ready;
	if (epoll_ctl(owner->wait_fd, EPOLL_CTL_ADD, card->nic->fd, &event) == 0)
		return 0;
	return error_set(THOLE_ERR_SYSTEM, "cannot watch the adapter %s: %m", card->nic->device);
}

/* Our own address as adapters have it: of IPv4 in that of IPv6. */
static void verbs_address(const struct address_parts *parts, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (parts->network[0] == ADDRESS_IPV6) {
		memcpy(gid, parts->network + 4, 16);
	} else if (parts->network[0] == ADDRESS_IPV4) {
		memset(gid + 10, 0xff, 2);
		memcpy(gid + 12, parts->network + 4, 4);
	}
}

static int verbs_open(struct transport_owner *owner)
{
	bool required = owner->options.verbs == OPTION_VERBS_REQUIRED;
	struct card_setup setup;
	struct port port;
	struct nic *nic;
	uint8_t gid[16];
	int error;

	verbs_address(&owner->parts, gid);
	error = port_choose(owner->options.verbs_device, gid, required, &port);
	if (!error && owner->options.verbs_paging != OPTION_VERBS_PAGING_AUTO)
		port_page(&port, owner->options.verbs_paging == OPTION_VERBS_PAGING_ON);
	if (!error)
		error = port_open(&port, &nic);
	if (error)
		return required ? error_prefix(error, "option verbs=required: ") : error;
	card_setup_default(&setup);
	error = card_open(owner, nic, &setup, owner->driver ? &carrier_watched : &verbs_carrier, owner);
	if (error)
		return error;
	error = verbs_observe(owner);
	if (error) {
		card_close(card_of(owner));
		return error;
	}
	owner->parts.network[1] |= ADDRESS_CARD;
	return 0;
}

int verbs_attach(struct transport_owner *owner, struct nic *nic, const struct card_setup *setup,
		 const struct card_carrier *carriers, void *carrier_arg)
{
	struct card_setup usual;
	int error;

	card_setup_default(&usual);
	error = card_open(owner, nic, setup ? setup : &usual, carriers, carrier_arg);
	transport_set_polled(owner, TRANSPORT_VERBS, !error);
	return error;
}

static void verbs_close(struct transport_owner *owner)
{
	card_close(card_of(owner));
	transport_set_polled(owner, TRANSPORT_VERBS, false);
}

static bool verbs_drained(const struct transport_owner *owner)
{
	return card_drained(card_of(owner));
}

static bool verbs_delivers(const struct transport_owner *owner)
{
	return card_delivers(card_of(owner));
}

static void verbs_hasten(struct transport_owner *owner)
{
	card_hasten(card_of(owner));
}

/* By the connection peers hear of the end of ours. */
static void verbs_notify_close(struct transport_owner *owner)
{
	struct card *card = card_of(owner);

	if (!verbs_alone(owner))
		return;
	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node))
		pair_end(container_of(node, struct pair, node));
}

/* ---- Peers ------------------------------------------------------------------------------------------ */

static bool verbs_reaches(const struct transport_owner *owner, const struct address_parts *parts)
{
	if (verbs_alone(owner))
		return parts->network[0] != ADDRESS_NONE && parts->network[0] == owner->parts.network[0];
	return parts->network[1] & ADDRESS_CARD && datagram_transport.reaches(owner, parts);
}

static int verbs_connect(struct transport_peer *peer)
{
	struct pair *pair = verbs_pair(peer);

	if (!pair)
		return error_set(THOLE_ERR_MEMORY, "no memory for another peer");
	if (!verbs_alone(peer->owner))
		return datagram_transport.connect(peer);
	pair_want(pair);
	return 0;
}

static bool verbs_connected(struct transport_peer *peer)
{
	if (!verbs_alone(peer->owner))
		return datagram_transport.connected(peer);
	return pair_of(peer)->state == PAIR_OPEN || pair_of(peer)->told;
}

static bool verbs_watched(struct transport_peer *peer)
{
	return !verbs_alone(peer->owner) && datagram_transport.watched(peer);
}

static int push_by_way(struct pair *pair, const struct record *record, const struct vector *payload, uint64_t offset,
		       uint32_t length)
{
	struct transport_peer *peer = pair->peer;
	int error;

	if (pair->way == WAY_NETWORK && record->kind < RECORD_BULK && !way_is_open(pair))
		return network_push(peer, record, payload, offset, length);
	if (pair->way == WAY_OVER)
		return record->kind < RECORD_BULK ? THOLE_ERR_AGAIN : 0;
	if (pair->way == WAY_NETWORK) {
		if (record->kind >= RECORD_BULK) /* of a transfer of the queue: it ends with that */
			return pair->state == PAIR_OPEN ? records_push(pair, record, payload, offset, length) : 0;
		error = word_push(peer, WORD_QUEUE, 0, NULL, 0);
		if (error)
			return error;
		if (pair->fails < FAILS_MOST) /* else it may open as those did */
			pair->gap_try_ns = 0;
		way_set(pair, WAY_QUEUE);
	}
	return records_push(pair, record, payload, offset, length);
}

/* Whether its sender waits for an answer, also when the peer has said that the record was handled. */
static bool record_is_answered(const struct record *record)
{
	return record->kind == RECORD_EAGER ? record->flags & RECORD_SYNC
					    : record->kind >= RECORD_RTS && record->kind < RECORD_MESSAGE_KINDS &&
						      record->kind != RECORD_FINISH;
}

/* What is no plain message by the queue. */
__attribute__((noinline)) static int verbs_push_other(struct transport_peer *peer, const struct record *record,
						      const struct vector *payload, uint64_t offset, uint32_t length)
{
	struct pair *pair = verbs_pair(peer);
	int error;

	if (!pair)
		return THOLE_ERR_AGAIN;
	/* whom this tells that memory was mapped anew finds no registration of the old one */
	if (!list_empty(&pair->card->exports))
		access_turn(pair->card);
	error = push_by_way(pair, record, payload, offset, length);
	if (!error && pair->way == WAY_QUEUE && !verbs_alone(peer->owner) && record_is_answered(record))
		datagram_transport.watch(peer);
	if (!error && (record->kind == RECORD_FINISH || record->kind == RECORD_REPLY))
		bulk_verbs_offer_end(pair, record->tag); /* whichever way it goes */
	return error;
}

static int verbs_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
		      uint64_t offset, uint32_t length)
{
	struct pair *pair = pair_of(peer);

	if (pair && pair->way == WAY_QUEUE && record->kind == RECORD_EAGER && !(record->flags & RECORD_SYNC) &&
	    list_empty(&pair->card->exports))
		return records_push(pair, record, payload, offset, length);
	return verbs_push_other(peer, record, payload, offset, length);
}

static void verbs_window_end(struct transport_peer *peer, uint64_t id)
{
	if (pair_of(peer))
		bulk_verbs_window_end(pair_of(peer), id);
	if (!verbs_alone(peer->owner))
		datagram_transport.window_end(peer, id); /* of which it may have told before there was a queue */
}

static void verbs_region_end(struct transport_owner *owner, uint64_t key)
{
	access_region_end(card_of(owner), key);
}

static bool verbs_by_queue(const struct transport_peer *peer)
{
	return pair_of(peer) && pair_of(peer)->way == WAY_QUEUE;
}

static uint32_t verbs_piece_max(struct transport_peer *peer, uint64_t left)
{
	uint32_t most = records_piece_max(card_of(peer->owner));
	uint32_t network;

	if (verbs_by_queue(peer))
		return most;
	/* the way may be the queue when it is pushed */
	network = datagram_transport.piece_max(peer, left);
	return network < most ? network : most;
}

static uint32_t verbs_record_max(struct transport_peer *peer)
{
	uint32_t most = records_piece_max(card_of(peer->owner)), network;

	if (verbs_by_queue(peer))
		return most;
	network = datagram_transport.record_max(peer); /* as above */
	return network < most ? network : most;
}

/* What is longer is fetched, without a copy into a slot. */
static uint64_t verbs_eager_max(struct transport_peer *peer)
{
	uint64_t most = peer->owner->options.eager_max, piece;

	if (verbs_by_queue(peer)) {
		piece = pair_of(peer)->rts_only ? 0 : records_piece_max(card_of(peer->owner));
		return piece < most ? piece : most;
	}
	return datagram_transport.eager_max(peer);
}

static void verbs_limits(struct transport_peer *peer, struct transport_limits *limits_p)
{
	if (!verbs_alone(peer->owner))
		datagram_transport.limits(peer, limits_p);
}

static void verbs_backpressure(struct transport_owner *owner)
{
	struct card *card = card_of(owner);

	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node))
		records_press(container_of(node, struct pair, node));
}

static void verbs_disconnect(struct transport_peer *peer)
{
	if (pair_of(peer))
		pair_disconnect(pair_of(peer));
	if (!verbs_alone(peer->owner))
		datagram_transport.disconnect(peer);
}

static void verbs_info(struct transport_peer *peer, struct thole_peer_info *info_p)
{
	const struct pair *pair = pair_of(peer);

	if (!verbs_alone(peer->owner))
		datagram_transport.info(peer, info_p);
	else if (pair)
		info_p->state = verbs_connected(peer) ? "connected" : "connecting";
	if (verbs_by_queue(peer))
		info_p->records = info_p->bulk = "verbs";
}

/* By the queue only what was told by it. */
static void verbs_fetch(struct transport_fetch *fetch)
{
	if (verbs_by_queue(fetch->peer) && (fetch->window.address || verbs_alone(fetch->peer->owner)))
		bulk_verbs_fetch(fetch);
	else
		network_fetch(fetch);
}

static bool verbs_access(struct transport_access *access)
{
	return !access->inject && verbs_by_queue(access->peer) && access_begin(pair_of(access->peer), access);
}

/* ---- Running ---------------------------------------------------------------------------------------- */

__attribute__((noinline)) static void ways_go_over(struct card *card)
{
	for (struct list_node *node = list_first(&card->due), *next; node; node = next) {
		struct pair *pair = container_of(node, struct pair, due);

		next = list_next(&card->due, node);
		if (!pair->dead && pair->way == WAY_OVER)
			over_turn(pair);
	}
}

static int verbs_progress(struct transport_owner *owner)
{
	struct card *card = card_of(owner);
	int n = card_progress(card);

	if (card->now_ns >= card->look_ns)
		ways_look(card);
	if (!list_empty(&card->due))
		ways_go_over(card);
	return n;
}

/* Time has passed, and what time brings may be due. */
static void verbs_maintain(struct transport_owner *owner, uint64_t now_ns)
{
	(void)now_ns;
	card_of(owner)->polls = CARD_CLOCK_POLLS;
}

static int verbs_transmit(struct transport_owner *owner)
{
	return list_empty(&card_of(owner)->due) ? 0 : card_transmit(card_of(owner));
}

/* Pairs that are apart, or go over, are looked at now and then. */
static uint64_t verbs_look_ns(const struct card *card)
{
	if (verbs_alone(card->owner))
		return UINT64_MAX;
	for (uint32_t i = 0; i < card->pair_count; i++) {
		const struct pair *pair = card->pairs[i];

		if (pair && !pair->dead && (pair->unsaid || pair->way == WAY_OVER || !way_is_whole(pair)))
			return LOOK_NS;
	}
	return UINT64_MAX;
}

static uint64_t verbs_deadline(const struct transport_owner *owner)
{
	const struct card *card = card_of(owner);
	uint64_t deadline_ns = card_deadline(card);

	if (card->look_ns < deadline_ns && verbs_look_ns(card) != UINT64_MAX)
		deadline_ns = card->look_ns;
	return deadline_ns;
}

static uint64_t verbs_arm(struct transport_owner *owner)
{
	struct card *card = card_of(owner);
	uint64_t deadline_ns = card_deadline(card), now_ns = card->nic->calls->now_ns(card->nic);
	uint64_t longest = card->nic->calls->arm(card->nic), look_ns;

	if (longest == 0 || deadline_ns <= now_ns)
		return 0;
	look_ns = verbs_look_ns(card);
	longest = look_ns < longest ? look_ns : longest;
	return deadline_ns - now_ns < longest ? deadline_ns - now_ns : longest;
}

const struct transport verbs_transport = {
	.name = "verbs",
	.option = "verbs",
	.carried = COUNTER_NETWORK_MESSAGES, /* until its way is the queue */
	.beside_last = true,
	.weight = VERBS_POLLS,
	.wanted = verbs_wanted,
	.open = verbs_open,
	.close = verbs_close,
	.drained = verbs_drained,
	.delivers = verbs_delivers,
	.hasten = verbs_hasten,
	.notify_close = verbs_notify_close,
	.watched = verbs_watched,
	.reaches = verbs_reaches,
	.connect = verbs_connect,
	.push = verbs_push,
	.piece_max = verbs_piece_max,
	.record_max = verbs_record_max,
	.connected = verbs_connected,
	.transmit = verbs_transmit,
	.eager_max = verbs_eager_max,
	.limits = verbs_limits,
	.info = verbs_info,
	.disconnect = verbs_disconnect,
	.backpressure = verbs_backpressure,
	.word = verbs_word,
	.fetch = verbs_fetch,
	.window_end = verbs_window_end,
	.access = verbs_access,
	.region_end = verbs_region_end,
	.progress = verbs_progress,
	.maintain = verbs_maintain,
	.deadline = verbs_deadline,
	.arm = verbs_arm,
};
