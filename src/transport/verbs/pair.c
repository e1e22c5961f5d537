/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair: the queue to one peer, from the first wish for it to its end, again and again.
 *
 *     PAIR_IDLE --wanted--> PAIR_WAITING --room--> PAIR_ASKING --mate's word--> PAIR_OPEN
 *         ^                      ^                      |  broken, closed for     |
 *         |                      | still wanted         |  another, or the peer   |
 *         |                      |                      v  has a newer one        |
 *         +------- stopped ------+---------------- PAIR_STOPPING <----------------+
 *
 * Both sides do the same, whoever begins: make a queue, and say hello with its name, its number (round), and that of
 * the peer's that it is connected to (mate). Who hears of a queue that is newer than the one that his own is connected
 * to stops his own, and makes a new one for it; a queue that is connected to none is connected to the newest, unless
 * that one has another mate. It is open when the peer says that it is the mate of its queue, or anything comes by it;
 * of an adapter that connects later (NIC_LATE), when it says that it has, or anything comes. Hellos are said again
 * until then. So it does not matter which of them are lost, doubled or late.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "transport/verbs/card.h"

static const struct nic_calls *calls_of(const struct pair *pair)
{
	return pair->card->nic->calls;
}

struct pair *pair_get(struct transport_peer *peer)
{
	struct card *card = card_of(peer->owner);
	struct pair *pair = peer->pair, **pairs;
	uint32_t number = 0;

	if (pair)
		return pair;
	while (number < card->pair_count && card->pairs[number])
		number++;
	pairs = array_reserve(card->pairs, &card->pair_room, number + 1, sizeof(struct pair *));
	if (!pairs)
		return NULL;
	card->pairs = pairs;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	pair->peer = peer;
	pair->card = card;
	pair->number = number;
	pair->say_ns = pair->owed_ns = UINT64_MAX;
	pair->way = peer->owner->state[TRANSPORT_DATAGRAM] ? WAY_NETWORK : WAY_QUEUE;
	pair->told = pair->way == WAY_NETWORK; /* its connection tells who is connected */
	pair->behind = pair->way == WAY_NETWORK;
	list_init(&pair->sent);
	list_init(&pair->fetches);
	list_init(&pair->serves);
	list_init(&pair->lends);
	list_init(&pair->offers);
	grants_init(&pair->grants);
	list_init(&pair->accesses);
	list_init(&pair->due);
	list_push_back(&card->list, &pair->node);
	pairs[number] = pair;
	if (number == card->pair_count)
		card->pair_count++;
	peer->pair = pair;
	return pair;
}

void pair_free(struct pair *pair)
{
	struct card *card = pair->card;

	list_remove(&pair->node);
	list_remove(&pair->due);
	card->pairs[pair->number] = NULL;
	free(pair->gathered);
	grants_clear(&pair->grants, &card->grants); /* asked for since its queue broke */
	free(pair);
}

void pair_count(struct pair *pair)
{
	bool counted = !pair->dead && (pair->way == WAY_QUEUE || pair->heard);

	if (counted != pair->counted)
		pair->card->owner->queues += counted ? 1 : UINT32_MAX;
	pair->counted = counted;
}

void pair_count_broken(struct pair *pair)
{
	if (pair->failed)
		transport_count(pair->card->owner, COUNTER_QUEUES_BROKEN);
	pair->failed = false;
}

void pair_proved(struct pair *pair)
{
	struct card *card = pair->card;
	bool first = !pair->told;

	pair_count_broken(pair);
	pair->state = PAIR_OPEN;
	pair->open_ns = card->now_ns;
	pair->say_ns = UINT64_MAX;
	records_again(pair, pair->theirs.expected, pair->theirs.share);
	bulk_verbs_again(pair);
	records_tell(pair); /* so that the peer sees that it works */
	card_attend(pair);
	pair->told = true;
	if (first && pair->peer->connected)
		card->owner->up->connected(pair->peer, 0);
}

void pair_tied(struct pair *pair)
{
	if (pair->state == PAIR_ASKING && pair->connected)
		pair_alive(pair);
}

void pair_work_ended(struct pair *pair, uint64_t id)
{
	uint32_t ended = 1 + (id >> WORK_SILENT_SHIFT & WORK_SILENT);

	pair->works -= ended < pair->works ? ended : pair->works; /* silent ones that failed were counted alone */
}

/* ---- Hellos --------------------------------------------------------------------------------------- */

static void pair_say(struct pair *pair, uint8_t flags)
{
	struct card *card = pair->card;
	struct hello hello = {
		.flags = flags | (pair->state == PAIR_ASKING ? HELLO_ASKING : 0),
		.share = (uint16_t)records_promise(pair),
		.bays = (uint16_t)card->setup.bays,
		.round = pair->round,
		.mate = pair->connected ? pair->theirs.round : 0,
		.frame_max = card->setup.slot - CARD_FRONT,
		.bay = card->setup.bay,
		.landing_key = card->registered_landing.peer_key,
		.landing = (uintptr_t)card->landing,
		.expected = flags & HELLO_ENDED ? pair->next : pair->expected,
	};
	uint8_t bytes[HELLO_MAX];

	if (!flags)
		hello.name = pair->name;
	card->carrier->say(card->carrier_arg, pair->peer, bytes, hello_encode(&hello, bytes));
}

static void pair_say_again(struct pair *pair, bool soon)
{
	pair->gap_ns = soon ? CARD_HELLO_LEAST : 2 * pair->gap_ns;
	if (pair->gap_ns > CARD_HELLO_MOST)
		pair->gap_ns = CARD_HELLO_MOST;
	pair->say_ns = pair->card->now_ns + pair->gap_ns;
	card_attend(pair);
}

/* Connect the queue to the peer's newest, if neither is connected to another one. */
static void pair_connect(struct pair *pair)
{
	if (pair->connected || pair->theirs.name.length == 0 ||
	    (pair->theirs.mate && pair->theirs.mate != pair->round))
		return;
	if (calls_of(pair)->queue_connect(pair->queue, &pair->theirs.name) != 0) {
		pair->refused = true;
		pair_break(pair);
		return;
	}
	pair->connected = true;
	pair->tied = !(pair->card->nic->limits.can & NIC_LATE);
	pair->again = true;
	pair->again_at = 0;
}

/* ---- Queues --------------------------------------------------------------------------------------- */

/* Whether a queue that waits for its peer's gives way to one that a peer waits for. If none did, all could wait in a
 * ring; if each did, change their minds for ever. By an order of all endpoints, one of any ring does. */
static bool pair_gives_way(const struct pair *pair, const struct pair *wanting)
{
	return pair->state == PAIR_ASKING && !pair->connected && wanting->theirs.name.length > 0 &&
	       wanting->peer->parts.endpoint > pair->peer->parts.endpoint;
}

/* Whether its peer may have wanted it, and has had no time to use it. */
static bool pair_is_new(const struct pair *pair)
{
	return !pair->proven && pair->card->now_ns - pair->open_ns < CARD_HELD;
}

/* Close the least recently used queue, rather one that nobody needs: for another one. */
static void pair_crowd_out(struct card *card, const struct pair *wanting)
{
	bool patient = card->now_ns - wanting->since_ns < CARD_CROWDED;
	struct pair *victim = NULL;

	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		struct pair *pair = container_of(node, struct pair, node);

		if (pair->state == PAIR_STOPPING)
			return; /* there will be room */
		if (pair == wanting || (pair->state != PAIR_OPEN && !pair_gives_way(pair, wanting)))
			continue;
		if (pair->state == PAIR_OPEN && !pair_is_needed(pair) && !pair_is_new(pair)) {
			victim = pair;
			break;
		}
		records_hasten(pair); /* it may be needed for what was handled only */
		if (!victim && !(pair->state == PAIR_OPEN && card->now_ns - pair->open_ns < CARD_HELD))
			victim = pair;
	}
	if (!victim || (patient && (victim->state != PAIR_OPEN || pair_is_needed(victim))))
		return;
	transport_count(card->owner, COUNTER_QUEUES_CLOSED);
	pair_break(victim);
}

static int pair_queue_new(struct pair *pair)
{
	struct card *card = pair->card;

	if (card->gone)
		return THOLE_ERR_SYSTEM;
	if (card->queue_count >= card->setup.queues)
		return THOLE_ERR_AGAIN;
	return card->nic->calls->queue_new(card->nic, pair->number, &pair->queue, &pair->name);
}

static void pair_make(struct pair *pair)
{
	struct card *card = pair->card;
	int error;

	pair->refused = false;
	error = pair_queue_new(pair);
	if (error) {
		if (error == THOLE_ERR_AGAIN || error == THOLE_ERR_MEMORY) /* another one's room would be of use */
			pair_crowd_out(card, pair);
		pair->say_ns = card->now_ns + CARD_CROWDED / 4;
		card_attend(pair);
		return;
	}
	card_count_queues(card, card->queue_count + 1);
	transport_count(card->owner, COUNTER_QUEUES_MADE);
	pair->state = PAIR_ASKING;
	pair->connected = pair->tied = false;
	pair->proven = false;
	pair->wanted = false;
	pair->works = pair->silent = 0;
	records_anew(pair);
	pair->round++;
	pair_connect(pair);
	if (pair->state != PAIR_ASKING)
		return;
	pair_say(pair, 0);
	pair_say_again(pair, true);
}

/* There is room for a queue: rather for one whose peer has its own already, then for who waits longest; not for one
 * that waits since the last one was refused. */
static void pair_next(struct card *card)
{
	struct pair *best = NULL;

	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		struct pair *pair = container_of(node, struct pair, node);
		bool ready = pair->theirs.name.length > 0;

		if (pair->state == PAIR_WAITING && !pair->refused &&
		    (!best || ready > (best->theirs.name.length > 0) ||
		     (ready == (best->theirs.name.length > 0) && pair->since_ns < best->since_ns)))
			best = pair;
	}
	if (best)
		pair_make(best);
}

void pair_want(struct pair *pair)
{
	if (pair->state == PAIR_STOPPING)
		pair->wanted = true;
	if (pair->state != PAIR_IDLE || pair->dead)
		return;
	pair->state = PAIR_WAITING;
	pair->since_ns = pair->card->now_ns;
	if (!pair->refused) {
		pair_make(pair);
		return;
	}
	pair->say_ns = pair->card->now_ns + CARD_UNREACHED;
	card_attend(pair);
}

bool pair_is_needed(const struct pair *pair)
{
	return !list_empty(&pair->sent) || !list_empty(&pair->accesses) || bulk_verbs_busy(pair);
}

/* Whether it has yet to be told that the peer is connected. */
static bool pair_is_awaited(const struct pair *pair)
{
	return pair->peer->connected && !pair->told;
}

bool pair_is_busy(const struct pair *pair)
{
	return pair->early || pair->again || (pair->state == PAIR_OPEN ? bulk_verbs_busy(pair) : pair_is_needed(pair));
}

void pair_break(struct pair *pair)
{
	if (!pair->queue || pair->state == PAIR_STOPPING)
		return;
	pair->state = PAIR_STOPPING;
	pair->say_ns = UINT64_MAX;
	/* What it was connected to is of no use any more, and the peer has to know. What it only was to be connected to
	 * is as it was. */
	if (pair->connected && pair->tied)
		pair->theirs.name.length = 0;
	calls_of(pair)->queue_stop(pair->queue);
}

/* One that never was open has only not been connected. What one has done: where something of ours waits for it, records
 * that were handled; else also those that came. */
void pair_fails(struct pair *pair)
{
	uint64_t done = records_first(pair) + (pair_is_needed(pair) ? 0 : pair->expected);

	if (pair->state == PAIR_OPEN) {
		pair->fails = done == pair->fails_at ? pair->fails + 1 : 1;
		pair->fails_at = done;
		pair->failed = true;
	}
	pair_break(pair);
}

void pair_give_up(struct pair *pair)
{
	pair_break(pair);
	pair->theirs.name.length = 0;
	pair->wanted = pair->refused = false;
	if (pair->state != PAIR_WAITING)
		return;
	pair->state = PAIR_IDLE;
	pair->say_ns = UINT64_MAX;
}

void pair_stopped(struct pair *pair)
{
	calls_of(pair)->queue_free(pair->queue);
	pair->queue = NULL;
	card_count_queues(pair->card, pair->card->queue_count - 1);
	pair->works = pair->silent = 0;
	pair->connected = pair->heard = pair->again = false; /* the next one has to again when it is connected */
	pair->state = PAIR_IDLE;
	pair->owed_ns = UINT64_MAX;
	pair_count(pair);
	records_forget(pair);
	bulk_verbs_broken(pair);
	access_broken(pair);
	pair_next(pair->card);
	if (pair->dead || (pair->card->carrier->stopped && pair->card->carrier->stopped(pair->card->carrier_arg, pair)))
		return;
	if (pair->wanted || pair_is_needed(pair) || pair->theirs.name.length > 0 || pair_is_awaited(pair))
		pair_want(pair);
	if (pair->state != PAIR_ASKING)
		pair_say(pair, HELLO_CLOSED);
}

/* ---- What peers say ------------------------------------------------------------------------------- */

static void pair_heard_end(struct pair *pair, const struct hello *hello)
{
	if (pair->ending)
		return;
	pair->ending = true;
	pair->ended_at = hello->expected; /* what it has sent */
	pair->since_ns = pair->card->now_ns;
	card_attend(pair);
}

static void pair_heard_closed(struct pair *pair, const struct hello *hello)
{
	if (hello->round < pair->theirs.round)
		return;
	pair->theirs.round = hello->round;
	pair->theirs.name.length = 0;
	if (pair->connected)
		pair_break(pair);
}

/* A queue whose mate is not ours any more, or never was: of no use, and its peer has to know. */
static void pair_heard_widow(struct pair *pair)
{
	pair->theirs.name.length = 0;
	if (pair->state == PAIR_ASKING || pair->state == PAIR_OPEN)
		pair_say(pair, 0);
	else
		pair_say(pair, HELLO_CLOSED);
}

/* A queue of the peer's: the one that we know, or a newer one. */
static void pair_heard_queue(struct pair *pair, const struct hello *hello)
{
	bool newer = hello->round > pair->theirs.round, has = pair->queue && pair->state != PAIR_STOPPING;
	bool widow = hello->mate && (!has || hello->mate != pair->round);

	if (hello->round < pair->theirs.round)
		return;
	if (!newer && pair->theirs.name.length == 0)
		widow = true; /* its mate has failed here, or was closed */
	if (newer && has && pair->connected)
		pair_break(pair); /* it was connected to the one before */
	pair->theirs = *hello;
	if (widow) {
		pair_heard_widow(pair);
		return;
	}
	if (!pair->queue) {
		pair_want(pair);
		return;
	}
	if (pair->state == PAIR_STOPPING) {
		pair->wanted = true;
		return;
	}
	pair_connect(pair);
	if (pair->state != PAIR_ASKING && pair->state != PAIR_OPEN)
		return;
	if (hello->mate == pair->round && pair->tied)
		pair_alive(pair);
	if (hello->flags & HELLO_ASKING)
		pair_say(pair, 0);
}

/* For us this peer is gone, for good: it has to know. */
static void pair_refuse(struct transport_peer *peer)
{
	struct card *card = card_of(peer->owner);
	struct hello hello = {.flags = HELLO_LOST, .share = 1};
	uint8_t bytes[HELLO_MAX];

	card->carrier->say(card->carrier_arg, peer, bytes, hello_encode(&hello, bytes));
}

void pair_heard(struct transport_peer *peer, const uint8_t *bytes, uint32_t length)
{
	struct hello hello;
	struct pair *pair;

	if (!hello_decode(bytes, length, &hello)) {
		transport_bad(peer);
		return;
	}
	if (peer->gone) {
		if (!(hello.flags & (HELLO_ENDED | HELLO_LOST)))
			pair_refuse(peer);
		return;
	}
	pair = pair_get(peer);
	if (!pair || pair->dead)
		return;
	if (hello.flags & HELLO_LOST)
		peer->owner->up->lost(peer, THOLE_ERR_PEER); /* its reason was its own, such as no memory */
	else if (hello.flags & HELLO_ENDED)
		pair_heard_end(pair, &hello);
	else if (hello.flags & HELLO_CLOSED)
		pair_heard_closed(pair, &hello);
	else if (hello.bay >= PLAN_BLOCK && hello.bays > 0 && hello.share > 0 &&
		 hello.frame_max >= pair->card->setup.slot - CARD_FRONT)
		/* with less a long record would break the queue, each time anew */
		pair_heard_queue(pair, &hello);
	else
		transport_bad(peer);
}

/* Whether the queue is one still, where something is waited for and nothing is under way: its end may have been told by
 * a hello that was lost. So who died between what he sent by the queue and his word by the connection is noticed. */
static bool pair_probes(const struct pair *pair)
{
	return pair->state == PAIR_OPEN && pair->works == pair->silent && (pair_is_needed(pair) || pair->held);
}

static uint64_t pair_probe_ns(const struct pair *pair)
{
	bool told = list_empty(&pair->accesses) && !bulk_verbs_busy(pair);

	return pair_probes(pair) ? pair->alive_ns + (told ? CARD_PROBE_TOLD : CARD_PROBE) : UINT64_MAX;
}

static void pair_probe(struct pair *pair)
{
	struct nic_work work = {.operation = NIC_WRITE, .id = work_id(WORK_PROBE, 0)};

	if (pair_probe_ns(pair) > pair->card->now_ns)
		return;
	pair->alive_ns = pair->card->now_ns;
	pair_post(pair, &work);
}

/* ---- Time and ends -------------------------------------------------------------------------------- */

/* The peer's endpoint closes: gone when all that it sent is here, or cannot come any more. */
static bool pair_turn_ending(struct pair *pair)
{
	if (pair->expected < pair->ended_at && pair->queue &&
	    pair->card->now_ns - pair->since_ns < CARD_ENDED)
		return false;
	pair->card->owner->up->lost(pair->peer, THOLE_ERR_CLOSED);
	return true;
}

void pair_turn(struct pair *pair)
{
	struct card *card = pair->card;

	if (pair->ending && pair_turn_ending(pair))
		return;
	if (pair->state == PAIR_WAITING && pair->say_ns <= card->now_ns) {
		pair_make(pair);
	} else if (pair->state == PAIR_ASKING && pair->say_ns <= card->now_ns) {
		pair_say(pair, 0);
		pair_say_again(pair, false);
	}
	if (pair->again && pair->state == PAIR_OPEN)
		records_again(pair, pair->theirs.expected, pair->theirs.share);
	if (pair->owed_ns <= card->now_ns)
		records_tell(pair);
	records_hold_turn(pair);
	pair_probe(pair);
}

uint64_t pair_deadline(const struct pair *pair)
{
	uint64_t deadline_ns = pair->owed_ns < pair->say_ns ? pair->owed_ns : pair->say_ns, probe_ns;

	if (records_hold_ns(pair) < deadline_ns)
		deadline_ns = records_hold_ns(pair);
	if (pair->ending && pair->since_ns + CARD_ENDED < deadline_ns)
		deadline_ns = pair->since_ns + CARD_ENDED;
	probe_ns = pair_probe_ns(pair);
	return probe_ns < deadline_ns ? probe_ns : deadline_ns;
}

void pair_end(struct pair *pair)
{
	if (!pair->dead && pair->round + pair->theirs.round > 0)
		pair_say(pair, HELLO_ENDED);
}

void pair_disconnect(struct pair *pair)
{
	if (pair->dead)
		return;
	pair->dead = true;
	pair->ending = false;
	pair_count(pair);
	pair->say_ns = pair->owed_ns = UINT64_MAX;
	pair_give_up(pair);
	records_release(pair);
	records_forget(pair);
	bulk_verbs_lost(pair);
	card_attend(pair); /* it goes in the next turn */
}
