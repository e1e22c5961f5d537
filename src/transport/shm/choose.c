/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose: which way the data of a message takes - through the ring, or by a copy between the two memories.
 *
 * Which is faster depends on the machine, on how far apart the two cores are just now, and on whether messages
 * follow each other (a stream) or answer each other (a dialogue). So the receiver times both ways for each class of
 * lengths and each of the two, a few times at first and again now and then, and takes the one that was faster.
 * Reading the clock twice takes a fifth of what 16 KiB take, so once both ways are known few messages are timed.
 *
 * Through the ring means: sent without being asked (eager) up to option eager_max, above it asked for. What is
 * sent without being asked is the sender's choice, so the receiver tells it, in its segment: a bit for each class
 * of which it wants an RTS (rendezvous classes). All bits together are backpressure (owner->backpressure).
 */
#include "base/clock.h"
#include "transport/shm/shm.h"

enum {
	TRIES = 4,               /* of each way in a class, before choosing */
	RETRY_SOON = 8,          /* messages between two trials of the other way, for the first */
	RETRY_SOON_TRIALS = 4,   /* so many, since early measurements are of cold memory, */
	RETRY = 128,             /* and from then on, but more where a trial would take more than */
	TRIAL_SHARE_SOON = 16,   /* one part in so many of the time at first, */
	TRIAL_SHARE = 128,       /* and then, up to */
	RETRY_MOST = 64,         /* times as many */
	ROW = 32,                /* messages of a trial, where they fill a pipeline, */
	/* or go to and fro by the same lines; half of them find these as the other way left them, and say nothing; */
	ROW_DIALOGUE = 16,
	ROW_CLASS_MAX = 18,      /* it is so with messages up to 256 KiB; */
	ROW_LONG = 8,            /* of longer ones that cross, the way is chosen while others are under way */
	TIMED = 16,              /* messages of a dialogue of which one is timed, of those by the way that is taken; */
	TIMED_ROW = 8,           /* of those that go in rows, runs, */
	RUN = 16,                /* of so many: the first of several bears what all have taken, */
	RUN_LONG = 4,            /* and the first of two that are under way at once more than the second; */
	TRIES_RUNS = 2,          /* these are tried so often */
	GAP_MOST_NS = 4000,      /* what passes before such a message is a part of it, up to so much for each that */
	GAP_MOST_SHARE = 8,      /* was sent, and one ns for so many bytes; longer, it is the program's */
	EAGER_CLASS_MIN = 14,    /* shorter messages are always eager: over 8 KiB, */
	EAGER_CLASS_MIN_OWN = 12, /* but those to this endpoint, of which two copies are spared by one: over 2 KiB */
};

/* Messages of a trial. */
static inline uint32_t row_length(enum pace pace, uint32_t class)
{
	if (class > ROW_CLASS_MAX)
		return pace_crosses(pace) ? ROW_LONG : 1;
	return pace == PACE_DIALOGUE ? ROW_DIALOGUE : ROW;
}

/* Messages whose mean is one sample. */
static inline uint32_t run_length(enum pace pace, uint32_t class)
{
	if (class > ROW_CLASS_MAX)
		return pace_crosses(pace) ? RUN_LONG : 1;
	return pace == PACE_DIALOGUE ? 1 : RUN;
}

static inline uint32_t cost_tries(enum pace pace, uint32_t class)
{
	return run_length(pace, class) > 1 ? TRIES_RUNS : TRIES;
}

/* Messages between two trials of a way that was seen to take other_ns where best_ns are possible. */
static uint64_t cost_interval(const struct costs *costs, uint32_t length, uint64_t best_ns, uint64_t other_ns)
{
	uint64_t scale = (length + 1) / 2;
	bool soon = costs->choices <= scale * RETRY_SOON * RETRY_SOON_TRIALS;
	uint64_t least = scale * (soon ? RETRY_SOON : RETRY), most = least * RETRY_MOST;
	uint64_t wanted = length * (soon ? TRIAL_SHARE_SOON : TRIAL_SHARE) * (other_ns - best_ns) / (best_ns + 1);

	return wanted < least ? least : wanted > most ? most : wanted;
}

static inline enum cost_way cost_other(enum cost_way way)
{
	return way == COST_RING ? COST_COPY : COST_RING;
}

/* Whether the way that is taken has become so much quicker, since the other one was last known, that what is known of
 * that may be of the same past: of pages that nobody had touched, or of a busy machine. Getting slower is no reason,
 * as the other way is the better one soon. */
static bool cost_is_of_the_past(const struct cost *best, const struct cost *other)
{
	return 3 * best->mean_ns < 2 * other->beside_ns;
}

/* The way that the next message should take. */
static enum cost_way cost_next(struct costs *costs, enum pace pace, uint32_t class)
{
	const struct cost *ring = &costs->ways[COST_RING], *copy = &costs->ways[COST_COPY];
	uint32_t tries = cost_tries(pace, class), length = row_length(pace, class);
	enum cost_way best, other;

	if (ring->samples < tries)
		return COST_RING;
	if (copy->samples < tries)
		return COST_COPY;
	if (costs->trial > 0) {
		costs->trial--;
		return costs->tried;
	}
	best = copy->mean_ns < ring->mean_ns ? COST_COPY : COST_RING;
	other = cost_other(best);
	costs->choices++;
	if (++costs->waited < cost_interval(costs, length, costs->ways[best].mean_ns, costs->ways[other].mean_ns) &&
	    !cost_is_of_the_past(&costs->ways[best], &costs->ways[other]))
		return best;
	costs->waited = 0;
	costs->trial = length - 1;
	costs->tried = other;
	/* One trial for what is of the past, even if none of its messages is timed. */
	costs->ways[other].beside_ns = costs->ways[best].mean_ns;
	return other;
}

/* A moving mean, which falls sooner than it rises: a long delay is somebody else's more often than the way's, or of
 * cold memory, and counts for little. The best would be no measure, since where transfers overlap one may have been
 * finished by another's time. */
static void cost_learn(struct costs *costs, enum pace pace, uint32_t class, enum cost_way way, uint64_t took_ns)
{
	struct cost *cost = &costs->ways[way];
	uint64_t most_ns = 2 * cost->mean_ns;
	uint32_t run = run_length(pace, class);

	if (costs->row <= row_length(pace, class) / 2)
		return;
	costs->run_ns = costs->run == 0 ? took_ns : costs->run_ns + took_ns;
	if (++costs->run < run)
		return;
	costs->run = 0;
	took_ns = costs->run_ns / run;
	if (cost->samples < 2)
		cost->mean_ns = took_ns; /* the first one met cold memory, and is forgotten */
	else if (took_ns < cost->mean_ns)
		cost->mean_ns = (cost->mean_ns + took_ns) / 2;
	else
		cost->mean_ns = (7 * cost->mean_ns + (took_ns < most_ns ? took_ns : most_ns)) / 8;
	cost->beside_ns = costs->ways[cost_other(way)].mean_ns;
	if (cost->samples < cost_tries(pace, class))
		cost->samples++;
}

/* Most messages of a dialogue that come by the ring, which is the faster way, are neither timed nor before a trial of
 * the other one. They are counted now, and nothing is asked of them. */
static void cost_rest(struct costs *costs, enum pace pace, uint32_t class)
{
	const struct cost *ring = &costs->ways[COST_RING], *copy = &costs->ways[COST_COPY];
	uint32_t tries = cost_tries(pace, class), plain = TIMED - 1 - costs->row % TIMED;
	uint64_t left;

	if (ring->samples < tries || copy->samples < tries || costs->trial > 0 || copy->mean_ns < ring->mean_ns)
		return;
	left = cost_interval(costs, row_length(pace, class), ring->mean_ns, copy->mean_ns) - costs->waited;
	if (plain >= left)
		plain = left > 0 ? (uint32_t)left - 1 : 0;
	costs->plain = plain;
	costs->row += plain;
	costs->choices += plain;
	costs->waited += plain;
}

/* ---- Telling senders ------------------------------------------------------------------------------- */

/* Of messages that cross both have to take the same way: who copies a message out of the other's memory while that
 * waits for pieces, or has copied some in, learns what a mixture takes, by which each way looks slow to who is alone
 * with it. So it is where they answer each other: the ring is fast if both use the same lines. So one of the two
 * learns, and the other wants what that wants; of dialogues once that knows. */
static inline bool choose_leads(const struct transport_peer *peer)
{
	return peer->owner->parts.endpoint < peer->parts.endpoint;
}

static uint32_t class_bit(uint32_t class)
{
	uint32_t bit = class > LENGTH_CLASS_MIN ? class - LENGTH_CLASS_MIN : 0;

	return (uint32_t)1 << (bit < 31 ? bit : 31);
}

static uint32_t eager_bits(const struct transport_peer *peer)
{
	return 2 * class_bit(length_class(peer->owner->options.eager_max)) - 1;
}

/* The classes of which this side wants what the peer wants. */
static uint32_t choose_led(struct transport_peer *peer, enum pace pace)
{
	const struct segment *segment = shm_link(peer)->out.segment;

	if (choose_leads(peer) || pace == PACE_STREAM || peer->owner->options.bulk != OPTION_BULK_AUTO)
		return 0;
	if (pace_crosses(pace))
		return UINT32_MAX;
	return segment ? load_relaxed(&segment->learnt_classes) & eager_bits(peer) : 0;
}

/* The classes of which a peer's next messages are to begin with an RTS; or of longer ones, where they cross, those
 * that are to be copied. */
static uint32_t choose_wanted(struct transport_peer *peer, enum pace pace)
{
	const struct shm_peer *link = shm_link(peer);
	uint32_t wanted, led;

	if (peer->owner->backpressure)
		return UINT32_MAX;
	if (transport_is_own(peer) && peer->owner->options.bulk == OPTION_BULK_AUTO)
		return ~(class_bit(EAGER_CLASS_MIN_OWN) - 1);
	led = choose_led(peer, pace);
	wanted = shm_of(peer->owner)->rendezvous_classes[pace] & ~led;
	if (led && link->out.segment)
		wanted |= load_relaxed(&link->out.segment->rendezvous_classes[pace]) & led;
	/* Without permission nothing may be copied that the peer would send at once. */
	return link->one_copy == ONE_COPY_YES ? wanted : wanted & ~eager_bits(peer);
}

void choose_tell(struct transport_peer *peer)
{
	const struct shm_peer *link = shm_link(peer);

	if (!link || !link->in.segment)
		return;
	for (int pace = 0; pace < PACES; pace++) {
		uint32_t wanted = choose_wanted(peer, (enum pace)pace);

		if (load_relaxed(&link->in.segment->rendezvous_classes[pace]) != wanted)
			store_relaxed(&link->in.segment->rendezvous_classes[pace], wanted);
	}
	if (load_relaxed(&link->in.segment->learnt_classes) != shm_of(peer->owner)->learnt_classes)
		store_relaxed(&link->in.segment->learnt_classes, shm_of(peer->owner)->learnt_classes);
}

void choose_tell_all(struct transport_owner *owner)
{
	const struct shm *shm = shm_of(owner);

	for (uint32_t i = 0; i < shm->in_count; i++)
		choose_tell(shm->in[i].ring->peer);
}

/* A message of a class of which the peer is told came by one way: which should the next one take? */
static void choose_told_next(struct transport_owner *owner, enum pace pace, enum cost_way way, uint32_t class)
{
	struct shm *shm = shm_of(owner);
	struct costs *costs = &shm->costs[pace][class];
	uint32_t bit = class_bit(class), learnt;
	bool rendezvous;

	if (costs->trial > 0 && way != costs->tried)
		return; /* it was under way before the trial */
	rendezvous = cost_next(costs, pace, class) == COST_COPY;
	learnt = pace == PACE_DIALOGUE && costs->choices > 0 ? shm->learnt_classes | bit : shm->learnt_classes;
	if (rendezvous == ((shm->rendezvous_classes[pace] & bit) != 0) && learnt == shm->learnt_classes)
		return;
	shm->rendezvous_classes[pace] = (shm->rendezvous_classes[pace] & ~bit) | (rendezvous ? bit : 0);
	shm->learnt_classes = learnt;
	choose_tell_all(owner);
}

/* What a peer that leads wants now is what this side wants. */
static void choose_follow(struct transport_peer *peer, enum pace pace)
{
	struct shm_peer *link = shm_link(peer);
	const struct segment *segment = link->out.segment;
	uint32_t wants = segment ? load_relaxed(&segment->rendezvous_classes[pace]) : 0;
	uint32_t learnt = segment ? load_relaxed(&segment->learnt_classes) : 0;

	if ((link->led_wants[pace] == wants && link->led_learnt == learnt) || !copy_allowed(peer))
		return;
	link->led_wants[pace] = wants;
	link->led_learnt = learnt;
	choose_tell(peer);
}

/* Whether such messages are learnt from, by this side. */
static bool choose_learns(struct transport_peer *peer, enum pace pace, uint64_t length)
{
	if (peer->owner->options.bulk != OPTION_BULK_AUTO || transport_is_own(peer))
		return false;
	if (!(choose_led(peer, pace) & class_bit(length_class(length))))
		return true;
	choose_follow(peer, pace);
	return false;
}

/* What is known of such messages; up to eager_max nobody knows before where they come from, and of those that cross the
 * two sides may see that differently. */
static struct costs *choose_costs(struct transport_peer *peer, enum pace pace, uint64_t length, bool direct)
{
	struct shm *shm = shm_of(peer->owner);

	return direct && length > peer->owner->options.eager_max && !pace_crosses(pace)
		       ? &shm->direct_costs[pace][length_class(length)]
		       : &shm->costs[pace][length_class(length)];
}

/* Whether of the messages that take this way the one that is the `row`th in a row is to be timed. */
static bool cost_is_due(const struct costs *costs, enum pace pace, uint32_t class, enum cost_way way, uint32_t row)
{
	const struct cost *ring = &costs->ways[COST_RING], *copy = &costs->ways[COST_COPY];

	if (ring->samples < cost_tries(pace, class) || copy->samples < cost_tries(pace, class) ||
	    way != (copy->mean_ns < ring->mean_ns ? COST_COPY : COST_RING))
		return true;
	if (pace == PACE_DIALOGUE)
		return row % TIMED == 0;
	return class > ROW_CLASS_MAX || (row - 1) / RUN % TIMED_ROW == 1;
}

static bool choose_is_due(struct transport_peer *peer, enum pace pace, enum cost_way way, uint64_t length, bool direct)
{
	uint32_t class = length_class(length);
	const struct costs *costs = choose_costs(peer, pace, length, direct);

	return choose_learns(peer, pace, length) && cost_is_due(costs, pace, class, way, costs->row + 1);
}

/* The next message's time begins now, unless it comes later and is a dialogue's. */
static void choose_placed(struct shm *shm, uint64_t now_ns)
{
	shm->placed_ns = now_ns;
	shm->sends = 0;
}

/* What a message took that began at start_ns. This side has one core, whoever its messages come from: what passes
 * between those of several peers is a part of what they take, too. */
static uint64_t choose_took(struct shm *shm, enum pace pace, enum cost_way way, uint64_t length, uint64_t start_ns)
{
	uint64_t now_ns = clock_now_ns(), took_ns = now_ns - start_ns, last_ns = shm->placed_ns;
	uint64_t sends = shm->sends > 1 ? shm->sends : 1;
	uint64_t gap_ns = start_ns > last_ns ? start_ns - last_ns : 0;
	uint64_t most_ns = sends * (GAP_MOST_NS + length / GAP_MOST_SHARE);

	choose_placed(shm, now_ns);
	/* Where another was under way, what this one added to it; */
	if (start_ns < last_ns)
		return now_ns - last_ns;
	if (pace == PACE_DIALOGUE)
		return took_ns;
	/* in a stream the time until it began, too, if it is not long: then it is the sender's; */
	if (pace == PACE_STREAM)
		return gap_ns < took_ns ? took_ns + gap_ns : took_ns;
	/* where messages cross this side sends its own in it; if it is the program's, nobody sees that. */
	return gap_ns > most_ns ? most_ns + (way == COST_RING ? 2 * took_ns : took_ns) : took_ns + gap_ns;
}

/* A message that began at start_ns, 0 if it is not timed, is in its place. */
static void choose_learn(struct transport_peer *peer, enum pace pace, enum cost_way way, uint64_t length, bool direct,
			 uint64_t start_ns)
{
	struct transport_owner *owner = peer->owner;
	uint32_t class = length_class(length);
	struct costs *costs = choose_costs(peer, pace, length, direct);
	uint64_t took_ns = start_ns ? choose_took(shm_of(owner), pace, way, length, start_ns) : 0;

	costs->plain = 0;
	costs->row = way == costs->last ? costs->row + 1 : 1;
	costs->run = costs->row == 1 ? 0 : costs->run;
	costs->last = way;
	if (!start_ns && pace != PACE_DIALOGUE && cost_is_due(costs, pace, class, way, costs->row + 1))
		choose_placed(shm_of(owner), clock_now_ns());
	/* Neither is all that a dialogue's cost. Nobody saw the sender copy the first piece in, which takes both sides
	 * about the same; and beside a copy without the kernel RTS and FINISH count. */
	if (length <= owner->options.eager_max && pace == PACE_DIALOGUE && way == COST_RING)
		took_ns += took_ns * shm_link(peer)->sample.piece / length;
	else if (length <= owner->options.eager_max && pace == PACE_DIALOGUE && direct)
		took_ns += took_ns / 3;
	if (start_ns)
		cost_learn(costs, pace, class, way, took_ns);
	if (class >= EAGER_CLASS_MIN && (length <= owner->options.eager_max || pace_crosses(pace)))
		choose_told_next(owner, pace, way, class);
	if (class >= EAGER_CLASS_MIN && length <= owner->options.eager_max && pace == PACE_DIALOGUE && way == COST_RING)
		cost_rest(costs, pace, class);
}

/* ---- Fetches ---------------------------------------------------------------------------------------- */

/* Of messages that cross each side has its own to copy. Who waits for this core copies nothing meanwhile, and whoever
 * loses its own amid a block is waited for. */
static bool choose_alone(const struct transport_peer *peer, enum pace pace)
{
	return pace_crosses(pace) || peer->core_shared || peer->owner->oversubscribed;
}

enum bulk_method choose_fetch(struct transport_peer *peer, uint64_t length, enum pace pace, bool direct)
{
	const struct transport_owner *owner = peer->owner;
	enum bulk_method copy = direct ? BULK_DIRECT : choose_alone(peer, pace) ? BULK_ONE_COPY : BULK_COOPERATIVE;
	uint32_t class = length_class(length);

	if (owner->options.bulk == OPTION_BULK_RING)
		return BULK_RING;
	if (owner->options.bulk == OPTION_BULK_DIRECT && direct)
		return BULK_DIRECT;
	if (!copy_allowed(peer) && !(direct && owner->options.bulk == OPTION_BULK_AUTO))
		return BULK_RING;
	if (owner->options.bulk == OPTION_BULK_ONE_COPY)
		return BULK_ONE_COPY;
	if (owner->options.bulk != OPTION_BULK_AUTO)
		return BULK_COOPERATIVE;
	/* What could have come through the ring at once came as an RTS so that it goes the other way. */
	if (length <= owner->options.eager_max)
		return copy;
	if (pace_crosses(pace))
		return choose_wanted(peer, pace) & class_bit(class) ? copy : BULK_RING;
	return cost_next(choose_costs(peer, pace, length, direct), pace, class) == COST_RING ? BULK_RING : copy;
}

bool choose_fetch_is_due(struct transport_peer *peer, enum bulk_method method, uint64_t length, enum pace pace,
			 bool direct)
{
	return choose_is_due(peer, pace, method == BULK_RING ? COST_RING : COST_COPY, length, direct);
}

void choose_fetched(struct transport_peer *peer, enum bulk_method method, uint64_t length, enum pace pace, bool direct,
		    uint64_t start_ns)
{
	if (choose_learns(peer, pace, length))
		choose_learn(peer, pace, method == BULK_RING ? COST_RING : COST_COPY, length, direct, start_ns);
}

/* ---- Eager messages ----------------------------------------------------------------------------------- */

/* What its first record is about to bring; `late`: more than that had arrived before anybody polled. */
void choose_eager_begin(struct transport_peer *peer, const struct record *record, uint32_t length, bool late)
{
	struct eager_sample *sample = &shm_link(peer)->sample;
	enum pace pace = pace_of(record->flags);
	uint64_t whole = record->flags & RECORD_MORE ? record->arg[0] : length;
	struct costs *costs;

	sample->length = 0;
	if (!choose_learns(peer, pace, whole) || whole < length || whole > peer->owner->options.eager_max ||
	    length_class(whole) < EAGER_CLASS_MIN || !copy_allowed(peer))
		return;
	costs = choose_costs(peer, pace, whole, false);
	if (costs->plain > 0) {
		costs->plain--;
		return;
	}
	if (late && pace == PACE_DIALOGUE) { /* nothing to learn, but a trial must not wait for ever */
		choose_told_next(peer->owner, pace, COST_RING, length_class(whole));
		return;
	}
	*sample = (struct eager_sample){
		.length = (uint32_t)whole, .piece = length, .left = (uint32_t)whole - length, .pace = pace};
	if (choose_is_due(peer, pace, COST_RING, whole, false))
		sample->start_ns = clock_now_ns();
}

/* Another piece has been copied, or, with length 0, the only one. */
void choose_eager_piece(struct transport_peer *peer, uint32_t length)
{
	struct eager_sample *sample = &shm_link(peer)->sample;

	if (sample->length == 0)
		return;
	sample->left = length < sample->left ? sample->left - length : 0;
	if (sample->left > 0)
		return;
	choose_learn(peer, sample->pace, COST_RING, sample->length, false, sample->start_ns);
	sample->length = 0;
}
