/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/card.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum {
	CARD_SLOTS = 128, CARD_RECEIVES = 256, CARD_SLOT = 8192, CARD_BAY = 65536, CARD_BAYS = 16, CARD_QUEUES = 32,
	CARD_SMALL_SLOTS = 256,
	CARD_LEAST = 4,             /* slots, receives and bays: with fewer it is of no use */
	CARD_BAY_LEAST = 8192,
	CARD_KEPT = 256,
	CARD_PAGE = 4096,
	CARD_EMPTY = 16,            /* of the receives this part may be empty and not posted */
	/* notes of a queue that are under way beside those for our records: the first one, one that asks, one that we
	 * asked for; and how many receives it has with as few records as are of use */
	CARD_STRICT_NOTES = 3,
	CARD_STRICT_LEAST = CARD_STRICT_NOTES + 2,
};

void card_setup_default(struct card_setup *setup)
{
	*setup = (struct card_setup){
		.slots = CARD_SLOTS, .small = CARD_SMALL_SLOTS, .receives = CARD_RECEIVES, .slot = CARD_SLOT,
		.bay = CARD_BAY, .bays = CARD_BAYS, .queues = CARD_QUEUES, .registrations = CARD_KEPT,
	};
}

/* ---- Opening -------------------------------------------------------------------------------------- */

static uint64_t setup_bytes(const struct card_setup *setup)
{
	return (uint64_t)(setup->slots + setup->receives) * setup->slot + 2 * (uint64_t)setup->bays * setup->bay;
}

/* Less of everything; false: it is as little as can be. */
static bool setup_halve(struct card_setup *setup)
{
	if (setup->slots / 2 < CARD_LEAST)
		return false;
	setup->slots /= 2;
	setup->small /= 2;
	setup->receives /= 2;
	if (setup->bays / 2 >= CARD_LEAST)
		setup->bays /= 2;
	else if (setup->bay / 2 >= CARD_BAY_LEAST)
		setup->bay /= 2;
	if (setup->queues > setup->receives / 2)
		setup->queues = setup->receives / 2;
	return true;
}

/* Peers write to the landing, and to nothing else. */
static int card_register_arenas(struct card *card, uint64_t bytes)
{
	struct nic *nic = card->nic;
	uint64_t landing = (uint64_t)card->setup.bays * card->setup.bay;
	int error;

	error = nic->calls->register_memory(nic, card->memory, bytes - landing, NIC_ACCESS_WRITE, &card->registered);
	if (error)
		return error;
	error = nic->calls->register_memory(nic, card->memory + bytes - landing, landing,
					    NIC_ACCESS_WRITE | NIC_ACCESS_PEER_WRITE, &card->registered_landing);
	if (error)
		nic->calls->deregister(nic, &card->registered);
	return error;
}

/* Whether a send that finds no receive is tried again by its adapter. */
static bool card_waits(const struct card *card)
{
	return card->nic->limits.can & NIC_CAN_WAIT;
}

/* Where no receive may be missing, some are there beside those that peers are granted records for: for those that are
 * empty, for a note for each record of ours, and for one for each chunk. */
static void setup_beside(struct card *card)
{
	struct card_setup *setup = &card->setup;
	uint32_t most = card->nic->limits.receives;

	if (card_waits(card))
		return;
	setup->small = 0; /* each slot takes one of them */
	card->beside = setup->slots + setup->bays + NIC_RECEIVES_MAX;
	if (most > card->beside && setup->receives > most - card->beside)
		setup->receives = most - card->beside;
	if (setup->receives < CARD_STRICT_LEAST)
		setup->receives = CARD_STRICT_LEAST;
	if (setup->queues > setup->receives / CARD_STRICT_LEAST)
		setup->queues = setup->receives / CARD_STRICT_LEAST;
	setup->receives += card->beside;
}

static int card_register(struct card *card)
{
	int error;

	do {
		uint64_t bytes;

		setup_beside(card);
		bytes = setup_bytes(&card->setup);
		card->memory = memalign(CARD_PAGE, (bytes + CARD_PAGE - 1) / CARD_PAGE * CARD_PAGE);
		if (!card->memory)
			return error_set(THOLE_ERR_MEMORY, "no memory for an adapter's buffers");
		memset(card->memory, 0, bytes); /* flags of chunks are not 0 */
		error = card_register_arenas(card, bytes);
		if (!error)
			return 0;
		free(card->memory);
		card->memory = NULL;
		card->setup.receives -= card->beside;
	} while (setup_halve(&card->setup));
	return error;
}

/* Post what is empty, the latest first. What the adapter refuses stays, and is tried again soon. */
static void card_refill(struct card *card)
{
	struct nic_segment segments[NIC_RECEIVES_MAX];

	while (card->empty_count > 0 && !card->gone) {
		unsigned n = card->empty_count < NIC_RECEIVES_MAX ? card->empty_count : NIC_RECEIVES_MAX, taken;
		uint64_t *ids = card->empty + card->empty_count - n;

		for (unsigned i = 0; i < n; i++)
			segments[i] = (struct nic_segment){card_received_at(card, (uint32_t)ids[i]) + CARD_FRONT,
							   card->setup.slot - CARD_FRONT, card->registered.local_key};
		taken = card->nic->calls->post_receives(card->nic, segments, ids, n);
		card->empty_count -= taken;
		if (taken < n) {
			memmove(ids, ids + taken, (n - taken) * sizeof(*ids));
			card_wake(card, card->now_ns + CARD_REFUSED);
			return;
		}
	}
}

/* Receives that were filled are posted again, several at a time. */
void card_receive(struct card *card, uint32_t index)
{
	card->empty[card->empty_count++] = index;
	if (card->empty_count >= card->empty_most)
		card_refill(card);
}

static void slots_lay_out(struct slots *slots, uint32_t count)
{
	list_init(&slots->free);
	slots->count = count;
	slots->few = count / 4;
}

static void slot_lay_out(struct card *card, struct slots *slots, uint8_t *bytes, uint32_t index)
{
	struct send_slot *slot = &card->slots[index];

	*slot = (struct send_slot){.slots = slots, .bytes = bytes, .index = index};
	list_push_back(&slots->free, &slot->node);
}

static void card_lay_out_slots(struct card *card)
{
	const struct card_setup *setup = &card->setup;
	uint32_t most = card->nic->limits.inline_max;

	slots_lay_out(&card->large, setup->slots);
	slots_lay_out(&card->small, setup->small);
	for (uint32_t i = 0; i < setup->slots; i++)
		slot_lay_out(card, &card->large, card->memory + (uint64_t)i * setup->slot, i);
	for (uint32_t i = 0; i < setup->small; i++)
		slot_lay_out(card, &card->small, card->small_memory + (uint64_t)i * CARD_SMALL, setup->slots + i);
	if (setup->small > 0)
		card->small_most = most < CARD_SMALL ? most : CARD_SMALL;
}

static int card_lay_out(struct card *card)
{
	const struct card_setup *setup = &card->setup;
	uint8_t *bays = card->memory + (uint64_t)(setup->slots + setup->receives) * setup->slot;

	card->slots = calloc(setup->slots + setup->small, sizeof(*card->slots));
	card->small_memory = calloc(setup->small + 1, CARD_SMALL);
	card->bays = calloc(setup->bays, sizeof(*card->bays));
	card->landing_used = calloc(setup->bays, 1);
	card->held = calloc(setup->receives, sizeof(*card->held));
	card->empty = calloc(setup->receives, sizeof(*card->empty));
	if (!card->slots || !card->small_memory || !card->bays || !card->landing_used || !card->held || !card->empty)
		return error_set(THOLE_ERR_MEMORY, "no memory for an adapter's buffers");
	card->empty_most = setup->receives / CARD_EMPTY < NIC_RECEIVES_MAX ? setup->receives / CARD_EMPTY
									  : NIC_RECEIVES_MAX;
	card->landing = bays + (uint64_t)setup->bays * setup->bay;
	card->landing_free = setup->bays;
	card_lay_out_slots(card);
	for (uint32_t i = 0; i < setup->bays; i++) {
		card->bays[i] = (struct bay){.bytes = bays + (uint64_t)i * setup->bay, .index = i};
		list_push_back(&card->free_bays, &card->bays[i].node);
	}
	for (uint32_t i = 0; i < setup->receives; i++)
		card->empty[card->empty_count++] = i;
	card_refill(card);
	card_count_queues(card, 0);
	return 0;
}

static void card_free(struct card *card)
{
	if (card->registered_landing.handle)
		card->nic->calls->deregister(card->nic, &card->registered_landing);
	if (card->registered.handle)
		card->nic->calls->deregister(card->nic, &card->registered);
	bulk_verbs_close(card);
	access_close(card);
	card->nic->calls->close(card->nic);
	card->owner->state[TRANSPORT_VERBS] = NULL;
	free(card->pairs);
	free(card->slots);
	free(card->small_memory);
	free(card->bays);
	free(card->landing_used);
	free(card->held);
	free(card->empty);
	free(card->memory);
	free(card);
}

int card_open(struct transport_owner *owner, struct nic *nic, const struct card_setup *setup,
	      const struct card_carrier *carrier, void *carrier_arg)
{
	struct card *card = calloc(1, sizeof(*card));
	int error = card ? 0 : error_set(THOLE_ERR_MEMORY, "no memory for an adapter");

	if (card && nic->limits.inline_max < sizeof(struct head)) /* notes have no memory that they are sent from */
		error = error_set(THOLE_ERR_UNSUPPORTED, "the adapter %s takes %u bytes inline; %zu are needed",
				  nic->device, nic->limits.inline_max, sizeof(struct head));
	if (error) {
		nic->calls->close(nic);
		free(card);
		return error;
	}
	*card = (struct card){.owner = owner, .nic = nic, .setup = *setup, .carrier = carrier,
			      .carrier_arg = carrier_arg, .next_id = 1, .timer_ns = UINT64_MAX};
	list_init(&card->free_bays);
	list_init(&card->early);
	list_init(&card->list);
	list_init(&card->due);
	list_init(&card->hungry);
	access_open(card);
	if (card->setup.queues > nic->limits.queues)
		card->setup.queues = nic->limits.queues;
	if (card->setup.receives > nic->limits.receives)
		card->setup.receives = nic->limits.receives;
	card->works_most = nic->limits.works / 4 * 3;
	card->works_few = card->works_most / 4 * 3;
	card->silent_most = nic->limits.works / 4 < CARD_SILENT ? nic->limits.works / 4 : CARD_SILENT;
	owner->state[TRANSPORT_VERBS] = card;
	choose_init(&card->choose, nic->limits.latency_ns, nic->limits.rate);
	error = bulk_verbs_open(card);
	if (!error)
		error = card_register(card);
	if (!error)
		error = card_lay_out(card);
	if (error) {
		card_free(card);
		return error;
	}
	return 0;
}

/* Of half of the receives an equal part for each queue that is there, and at least that of as many as may be; for one
 * alone three quarters, since there are few notes and chunks beside its records. What was granted stays so when there
 * are more: then a send may find no receive, and its adapter tries it again. If it does not, each of as many as may be
 * has the same part, beside receives for notes, so that none is ever missing. */
void card_count_queues(struct card *card, uint32_t queues)
{
	const struct card_setup *setup = &card->setup;
	uint32_t parts = queues > 0 ? 2 * queues : 2;

	card->queue_count = queues;
	if (!card_waits(card)) {
		card->share = (setup->receives - card->beside) / setup->queues - CARD_STRICT_NOTES;
		return;
	}
	card->share = setup->receives / (parts < setup->queues ? parts : setup->queues);
	if (queues <= 1 && card->share < setup->receives / 4 * 3)
		card->share = setup->receives / 4 * 3;
	if (card->share < 2)
		card->share = 2;
}

/* ---- Memory ----------------------------------------------------------------------------------------- */

/* Of what the adapter follows by page faults: it stays. */
static const uint32_t paged_word;
#define PAGED_ID UINT64_MAX

const uint32_t *card_watch(struct card *card, uint64_t address, uint64_t length, unsigned *access, uint64_t *id_p)
{
	const uint32_t *word = NULL;

	if (card->carrier->watch)
		word = card->carrier->watch(card->carrier_arg, address, length, id_p);
	if (word || !(card->nic->limits.can & NIC_CAN_PAGE_FAULT))
		return word;
	*id_p = PAGED_ID;
	*access |= NIC_ACCESS_PAGED;
	return &paged_word;
}

void card_unwatch(struct card *card, uint64_t id)
{
	if (id != PAGED_ID)
		card->carrier->unwatch(card->carrier_arg, id);
}

/* ---- Completions ---------------------------------------------------------------------------------- */

/* False: it is to be held, and where it begins is kept at the beginning of its slot. */
static bool card_record(struct card *card, struct pair *pair, const struct nic_completion *completion)
{
	uint8_t *slot = card_received_at(card, (uint32_t)completion->id);
	uint32_t at = CARD_FRONT, length = completion->length, word = completion->imm;
	bool bare = completion->operation == NIC_RECEIVE_WORD, done; /* the front is not here */

	if (!bare && length < sizeof(struct head) && length >= sizeof(word)) {
		bare = true;
		length -= (uint32_t)sizeof(word);
		memcpy(&word, slot + at + length, sizeof(word));
	}
	if (bare) {
		at -= (uint32_t)sizeof(struct head_short);
		done = records_front(pair, slot + at, length, word);
	} else {
		done = records_arrived(pair, slot + at, length);
	}
	if (!done)
		memcpy(slot, &at, sizeof(at));
	return done;
}

static void card_received(struct card *card, struct pair *pair, const struct nic_completion *completion)
{
	uint32_t index = (uint32_t)completion->id;

	if (completion->status == 0 && pair && !pair->dead && completion->operation != NIC_RECEIVE_IMM) {
		if (!card_record(card, pair, completion)) {
			records_hold(pair, index);
			return;
		}
	} else if (completion->status == 0 && pair && !pair->dead) {
		pair->arrived++;
		pair_alive(pair);
		card_attend(pair);
	}
	card_receive(card, index);
}

/* By the word of a completion. One that was open because our adapter had connected it, and by which the peer has said
 * nothing, has perhaps only not been connected: that may have given up waiting. Where the ends see each other's, that
 * of a peer that closes ends as one that breaks, and the word of its closing may come later. */
static void card_queue_fails(struct pair *pair)
{
	if (pair->proven || !(pair->card->nic->limits.can & NIC_LATE))
		pair_fails(pair);
	else
		pair_break(pair);
}

/* What is not said of a work. */
static void card_queue_says(struct pair *pair, enum nic_operation what)
{
	if (what == NIC_CONNECTED)
		pair_tied(pair);
	else if (what == NIC_BROKEN)
		card_queue_fails(pair);
	else
		pair_stopped(pair);
}

static void card_completed(struct card *card, const struct nic_completion *completion)
{
	struct pair *pair = completion->queue < card->pair_count ? card->pairs[completion->queue] : NULL;
	uint32_t index = (uint32_t)completion->id;

	if (completion->operation >= NIC_RECEIVE && completion->operation <= NIC_RECEIVE_WORD) {
		card_received(card, pair, completion);
		return;
	}
	if (!pair)
		return;
	card_attend(pair);
	if (completion->operation >= NIC_CONNECTED) {
		card_queue_says(pair, completion->operation);
		return;
	}
	pair_work_ended(pair, completion->id);
	switch (completion->id >> 56) {
	case WORK_SLOT:
		records_ended(card, index);
		break;
	case WORK_BAY:
		pipeline_bay_ended(card, index);
		break;
	case WORK_READ:
		bulk_verbs_read_ended(card, index, completion->status);
		break;
	case WORK_ACCESS:
		access_ended(card, index, completion->status);
		break;
	default:
		break;
	}
	if (completion->status)
		card_queue_fails(pair);
}

static void card_time(struct card *card)
{
	card->now_ns = card->owner->simulated ? card->owner->now_ns : card->nic->calls->now_ns(card->nic);
}

static inline unsigned card_poll(struct card *card)
{
	struct nic_completion completions[CARD_COMPLETIONS];
	unsigned total = 0, n;

	do {
		n = card->nic->calls->poll(card->nic, completions, CARD_COMPLETIONS);
		for (unsigned i = 0; i < n; i++)
			card_completed(card, &completions[i]);
		total += n;
	} while (n == CARD_COMPLETIONS && total < CARD_BUDGET);
	card->owner->unread = total >= CARD_BUDGET;
	return total;
}

static void card_events(struct card *card)
{
	enum nic_event event;

	if (!card->told && !card->owner->simulated) /* asking is a system call */
		return;
	card->told = false;
	while ((event = card->nic->calls->event(card->nic)) != NIC_EVENT_NONE) {
		if (event == NIC_EVENT_GONE)
			card->gone = true;
		if (card->carrier->event)
			card->carrier->event(card->carrier_arg, card, event);
		if (event != NIC_EVENT_GONE && event != NIC_EVENT_LOST)
			continue;
		for (uint32_t i = 0; i < card->pair_count; i++)
			if (card->pairs[i])
				pair_break(card->pairs[i]);
	}
}

/* ---- Running -------------------------------------------------------------------------------------- */

void card_attend(struct pair *pair)
{
	if (!list_empty(&pair->due))
		return;
	list_push_back(&pair->card->due, &pair->due);
	if (!pair->card->turns)
		transport_rouse(pair->card->owner, 0);
}

/* The next turn begins with this pair, the order being what it was. */
static void card_turn_from(struct card *card, struct pair *pair)
{
	struct list_node *node;

	while ((node = list_first(&card->due)) != &pair->due) {
		list_remove(node);
		list_push_back(&card->due, node);
	}
}

/* Each pair that is due once. Returns whether any of them did something. Bays of staging go round: the first that found
 * none is the first one of the next turn. */
static int card_turn(struct card *card)
{
	struct list_node *last = card->due.prev, *node;
	struct pair *starved = NULL;
	int n = 0;
	bool more = !list_empty(&card->due);

	while (more) {
		struct pair *pair;

		node = list_first(&card->due);
		if (!node)
			break;
		more = node != last;
		pair = container_of(node, struct pair, due);
		list_remove(&pair->due);
		pair->starved = false;
		if (!pair->dead) {
			pair_turn(pair);
			n += !pair->dead && bulk_verbs_turn(pair);
		}
		if (pair->dead && !pair->queue && list_empty(&pair->fetches)) {
			pair->peer->pair = NULL;
			pair_free(pair);
		} else if (!pair->dead && pair_is_busy(pair)) {
			card_attend(pair);
			if (pair->starved && !starved)
				starved = pair;
		} else if (!pair->dead) {
			card_wake(card, pair_deadline(pair));
		}
	}
	if (starved)
		card_turn_from(card, starved);
	return n;
}

/* Pairs whose time has come are due. */
static void card_timer(struct card *card)
{
	card->timer_ns = UINT64_MAX;
	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		struct pair *pair = container_of(node, struct pair, node);
		uint64_t deadline_ns = pair->dead ? UINT64_MAX : pair_deadline(pair);

		if (deadline_ns <= card->now_ns)
			card_attend(pair);
		else
			card_wake(card, deadline_ns);
	}
}

/* Whether nothing but time could give this card something to do, and little has passed since the clock was read. */
static bool card_rests(struct card *card)
{
	return list_empty(&card->due) && list_empty(&card->hungry) && card->timer_ns > card->now_ns &&
	       ++card->polls < CARD_CLOCK_POLLS;
}

/* What is due beside completions. */
__attribute__((noinline)) static int card_go_on(struct card *card)
{
	int n;

	card->polls = 0;
	card_time(card);
	card_events(card);
	if (card->timer_ns <= card->now_ns)
		card_timer(card);
	if (card->empty_count > 0 && card->empty_count >= card->empty_most)
		card_refill(card);
	n = card_turn(card);
	access_turn(card);
	bulk_verbs_feed(card);
	return n;
}

int card_progress(struct card *card)
{
	bool exact = card->owner->simulated; /* its clock costs nothing */
	int n;

	card->turns = true;
	if (exact)
		card_time(card);
	n = (int)card_poll(card);
	if (exact || !card_rests(card))
		n += card_go_on(card);
	card->turns = false;
	return n;
}

int card_transmit(struct card *card)
{
	int n = 0;

	for (struct list_node *node = list_first(&card->due); node; node = list_next(&card->due, node)) {
		struct pair *pair = container_of(node, struct pair, due);

		if (pair->early && !pair->dead) {
			pipeline_early(pair);
			n++;
		}
	}
	return n;
}

uint64_t card_deadline(const struct card *card)
{
	uint64_t deadline_ns = card->timer_ns;

	for (struct list_node *node = list_first(&card->due); node; node = list_next(&card->due, node)) {
		uint64_t its_ns = pair_deadline(container_of(node, struct pair, due));

		if (its_ns < deadline_ns)
			deadline_ns = its_ns;
	}
	return deadline_ns;
}

bool card_drained(const struct card *card)
{
	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		const struct pair *pair = container_of(node, struct pair, node);

		if (!pair->dead && !records_drained(pair))
			return false;
	}
	return true;
}

bool card_delivers(const struct card *card)
{
	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		const struct pair *pair = container_of(node, struct pair, node);

		if (!pair->dead && pair->state != PAIR_OPEN && !list_empty(&pair->sent))
			return false;
	}
	return list_empty(&card->due);
}

void card_hasten(struct card *card)
{
	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		struct pair *pair = container_of(node, struct pair, node);

		if (!pair->dead)
			records_hasten(pair);
	}
}

void card_close(struct card *card)
{
	struct nic_completion completions[CARD_COMPLETIONS];
	struct list_node *node;

	card->closing = true;
	for (node = list_first(&card->list); node; node = list_next(&card->list, node))
		pair_disconnect(container_of(node, struct pair, node));
	while (card->queue_count > 0) { /* nothing touches memory any more when they have stopped */
		unsigned n = card->nic->calls->poll(card->nic, completions, CARD_COMPLETIONS);

		for (unsigned i = 0; i < n; i++)
			card_completed(card, &completions[i]);
		if (n == 0 && card->owner->simulated)
			break;
	}
	while ((node = list_first(&card->list))) {
		struct pair *pair = container_of(node, struct pair, node);

		pair->peer->pair = NULL;
		pair_free(pair);
	}
	card_free(card);
}

/* ---- Copies --------------------------------------------------------------------------------------- */

/* What is learnt of copies is of use for chunks: of what fits a slot there are none, and reading the clock takes as
 * long as sending it. */
static bool copy_is_timed(const struct card *card, size_t length, uint64_t whole)
{
	return length >= PLAN_DATA && whole > card->setup.slot;
}

static void card_copied(struct card *card, uint64_t bytes, uint64_t whole, uint64_t start_ns)
{
	if (card->nic->calls->copied)
		card->nic->calls->copied(card->nic, bytes, whole);
	if (copy_is_timed(card, bytes, whole))
		choose_copied(&card->choose, bytes, whole, card->nic->calls->now_ns(card->nic) - start_ns);
}

static uint64_t copy_start(struct card *card, size_t length, uint64_t whole)
{
	return copy_is_timed(card, length, whole) ? card->nic->calls->now_ns(card->nic) : 0;
}

void card_copy_out(struct card *card, const struct vector *vector, uint64_t offset, void *to, size_t length,
		   uint64_t whole)
{
	uint64_t start_ns = copy_start(card, length, whole);

	vector_read(vector, offset, to, length);
	card_copied(card, length, whole, start_ns);
}

void card_copy_in(struct card *card, const struct vector *vector, uint64_t offset, const void *from, size_t length,
		  uint64_t whole)
{
	uint64_t start_ns = copy_start(card, length, whole);

	vector_write(vector, offset, from, length);
	card_copied(card, length, whole, start_ns);
}
