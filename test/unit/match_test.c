/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching against a model that looks at everything in order, and the cost of searching long
 * queues.
 *
 * calloc is replaced (by the linker's --wrap) so that memory can be refused to the indexes.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "match/match.h"

enum { MODEL_MAX = 4096, LONG_QUEUE = 10000 };

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static uint64_t refusals;    /* the state of the random numbers that decide */
static unsigned refuse_of_8; /* how many of 8 calls of calloc are refused */
static unsigned asked;       /* calls of calloc */

void *__wrap_calloc(size_t count, size_t size)
{
	asked++;
	if (refuse_of_8 && random_below(&refusals, 8) < refuse_of_8)
		return NULL;
	return __real_calloc(count, size);
}

/* ---- The model ----------------------------------------------------------------------------- */

/* Both queues again, as arrays in order. */
struct model {
	struct match match;
	struct match_receive *receives[MODEL_MAX];
	struct match_message *messages[MODEL_MAX];
	unsigned receive_count, message_count;
};

/* How a random sequence is shaped. */
struct shape {
	unsigned masks;     /* different masks */
	unsigned mask;      /* the first of them */
	unsigned tags;      /* different tags */
	unsigned sources;   /* different sources */
	unsigned any_of_8;  /* receives from any source */
	unsigned surplus;   /* steps out of 64 that are for the leading queue anyway */
	bool receives_lead; /* which of the queues the surplus is in */
};

static const uint64_t masks[] = {
	UINT64_MAX,
	UINT64_MAX >> 2,
	0,
	UINT64_C(0xffff0000),
	UINT64_C(0x0000ffff),
	UINT64_C(0xff),
	UINT64_C(0xf0f0f0f0f0f0f0f0),
	1,
	2,
	3,
	UINT64_C(0x8000000000000001),
	UINT64_C(0xf),
	UINT64_C(0x0fffffffffffffff),
	UINT64_C(0x30),
};
enum { MASKS = sizeof(masks) / sizeof(masks[0]) };

static uint64_t random_tag(uint64_t *random, const struct shape *shape)
{
	uint64_t tag = random_below(random, shape->tags);

	/* Differences in low, middle and high bits, so that each mask hides some. */
	return tag | (tag & 7) << 16 | (tag & 3) << 62;
}

static uint32_t random_source(uint64_t *random, const struct shape *shape)
{
	return random_below(random, 8) < shape->any_of_8 ? MATCH_ANY
						       : random_below(random, shape->sources);
}

static bool matches(const struct match_message *message, uint32_t source, uint64_t tag,
		    uint64_t mask)
{
	return (message->tag & mask) == (tag & mask) &&
	       (source == MATCH_ANY || source == message->source);
}

/* Filled with rubbish: who posts or stores an entry fills what the header says, and no more. */
static void *entry_new(size_t size)
{
	void *entry = malloc(size);

	assert_non_null(entry);
	return memset(entry, 0xee, size);
}

static void receive_forget(struct model *model, unsigned at)
{
	free(model->receives[at]);
	model->receive_count--;
	memmove(&model->receives[at], &model->receives[at + 1],
		(model->receive_count - at) * sizeof(model->receives[0]));
}

static void message_forget(struct model *model, unsigned at)
{
	free(model->messages[at]);
	model->message_count--;
	memmove(&model->messages[at], &model->messages[at + 1],
		(model->message_count - at) * sizeof(model->messages[0]));
}

/* The unexpected message after one in order, the first after NULL; NULL after the last. */
static struct match_message *message_next(const struct match *match, const struct match_message *message)
{
	struct list_node *node = list_next(&match->messages, message ? &message->arrived : &match->messages);

	return node ? container_of(node, struct match_message, arrived) : NULL;
}

/* Both have the same entries in the same order. */
static void queues_compare(struct model *model)
{
	struct match_receive *receive = NULL;
	struct match_message *message = NULL;

	assert_int_equal(model->match.receive_count, model->receive_count);
	assert_int_equal(model->match.message_count, model->message_count);
	for (unsigned i = 0; i < model->receive_count; i++) {
		receive = match_receive_next(&model->match, receive);
		assert_ptr_equal(receive, model->receives[i]);
	}
	assert_null(match_receive_next(&model->match, receive));
	for (unsigned i = 0; i < model->message_count; i++) {
		message = message_next(&model->match, message);
		assert_ptr_equal(message, model->messages[i]);
	}
	assert_null(message_next(&model->match, message));
}

/* A message arrives: to the oldest receive that matches, else it is stored. */
static void step_arrive(struct model *model, uint64_t *random, const struct shape *shape)
{
	struct match_message *message = entry_new(sizeof(*message));
	unsigned at = 0;

	message->tag = random_tag(random, shape);
	message->source = random_below(random, shape->sources);
	while (at < model->receive_count &&
	       !matches(message, model->receives[at]->source, model->receives[at]->tag,
			model->receives[at]->mask))
		at++;
	if (at == model->receive_count) {
		assert_null(match_arrive_peek(&model->match, message->source, message->tag));
		assert_null(match_arrive(&model->match, message->source, message->tag));
		match_store(&model->match, message);
		model->messages[model->message_count++] = message;
		return;
	}
	/* Now and then as for a multi-receive buffer, which stays. */
	assert_ptr_equal(match_arrive_peek(&model->match, message->source, message->tag),
			 model->receives[at]);
	if (random_below(random, 4) != 0) {
		assert_ptr_equal(match_arrive(&model->match, message->source, message->tag),
				 model->receives[at]);
		receive_forget(model, at);
	}
	free(message);
}

/* A receive gets the oldest message that matches, else it is posted. */
static void step_receive(struct model *model, uint64_t *random, const struct shape *shape)
{
	uint32_t source = random_source(random, shape);
	uint64_t mask = masks[(shape->mask + random_below(random, shape->masks)) % MASKS];
	uint64_t tag = random_tag(random, shape);
	struct match_receive *receive;
	unsigned at = 0;

	while (at < model->message_count && !matches(model->messages[at], source, tag, mask))
		at++;
	if (at < model->message_count) {
		assert_ptr_equal(match_find(&model->match, source, tag, mask), model->messages[at]);
		/* Now and then it only probes. */
		if (random_below(random, 4) != 0) {
			match_take(&model->match, model->messages[at]);
			message_forget(model, at);
		}
		return;
	}
	assert_null(match_find(&model->match, source, tag, mask));
	receive = entry_new(sizeof(*receive));
	receive->source = source;
	receive->tag = tag;
	receive->mask = mask;
	match_post(&model->match, receive);
	model->receives[model->receive_count++] = receive;
}

static void step_withdraw(struct model *model, uint64_t *random)
{
	unsigned at;

	if (model->receive_count == 0)
		return;
	at = random_below(random, model->receive_count);
	match_withdraw(&model->match, model->receives[at]);
	receive_forget(model, at);
}

static void step_take(struct model *model, uint64_t *random)
{
	unsigned at;

	if (model->message_count == 0)
		return;
	at = random_below(random, model->message_count);
	match_take(&model->match, model->messages[at]);
	message_forget(model, at);
}

static void step(struct model *model, uint64_t *random, const struct shape *shape)
{
	unsigned lead = random_below(random, 64) < shape->surplus;

	if (random_below(random, 16) == 0) {
		if (random_below(random, 2))
			step_withdraw(model, random);
		else
			step_take(model, random);
	} else if (lead ? shape->receives_lead : random_below(random, 2)) {
		step_receive(model, random, shape);
	} else {
		step_arrive(model, random, shape);
	}
}

static void model_empty(struct model *model, uint64_t *random)
{
	while (model->receive_count || model->message_count) {
		step_withdraw(model, random);
		step_take(model, random);
	}
	queues_compare(model);
}

/* One sequence, with the queues emptied twice on the way so that classes find other uses. */
static void sequence_run(uint64_t seed, unsigned refuse)
{
	static struct model model;
	uint64_t random = seed;
	struct shape shape;

	match_init(&model.match);
	match_salt(&model.match, seed);
	refusals = seed;
	for (unsigned part = 0; part < 3; part++) {
		shape = (struct shape){
			.masks = 1 + random_below(&random, MASKS),
			.mask = random_below(&random, MASKS),
			.tags = 1 + random_below(&random, random_below(&random, 2) ? 8 : 2000),
			.sources = 1 + random_below(&random, 6),
			.any_of_8 = random_below(&random, 6),
			.surplus = random_below(&random, 64),
			.receives_lead = random_below(&random, 2),
		};
		refuse_of_8 = refuse;
		for (unsigned i = 0; i < 700; i++) {
			step(&model, &random, &shape);
			if (i % 64 == 0)
				queues_compare(&model);
		}
		queues_compare(&model);
		model_empty(&model, &random);
		refuse_of_8 = 0;
	}
	match_fini(&model.match);
}

/* The seed under way, for seed_print; UINT64_MAX between sequences. */
static uint64_t seed_now = UINT64_MAX;

static int seed_print(void **state)
{
	(void)state;
	refuse_of_8 = 0;
	if (seed_now != UINT64_MAX)
		print_error("failed with seed %llu; MATCH_SEED=%llu runs that alone\n",
			    (unsigned long long)seed_now, (unsigned long long)seed_now);
	seed_now = UINT64_MAX;
	return 0;
}

static void sequences_run(uint64_t first, unsigned count, unsigned refuse)
{
	const char *only = getenv("MATCH_SEED");

	for (uint64_t seed = first; seed < first + count; seed++) {
		if (only && strtoull(only, NULL, 0) != seed)
			continue;
		seed_now = seed;
		sequence_run(seed, refuse);
		seed_now = UINT64_MAX;
	}
}

static void match__random_sequences_agree_with_the_model(void **state)
{
	(void)state;
	sequences_run(1, 300, 0);
}

static void match__memory_refused_now_and_then(void **state)
{
	(void)state;
	sequences_run(1001, 100, 4);
}

static void match__memory_always_refused(void **state)
{
	(void)state;
	sequences_run(2001, 30, 8);
}

/* ---- Order, case by case ------------------------------------------------------------------- */

/* A match, and entries for the tests below. */
struct fixture {
	struct match match;
	struct match_receive receives[LONG_QUEUE];
	struct match_message messages[LONG_QUEUE];
	uint32_t naming[LONG_QUEUE];
};

static int fixture_make(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	return fixture ? match_init(&fixture->match) : -1;
}

static int fixture_free(void **state)
{
	struct fixture *fixture = *state;

	match_fini(&fixture->match);
	free(fixture);
	return seed_print(state);
}

static struct match_receive *post(struct fixture *fixture, unsigned at, uint32_t source,
				  uint64_t tag, uint64_t mask)
{
	struct match_receive *receive = &fixture->receives[at];

	receive->source = source;
	receive->tag = tag;
	receive->mask = mask;
	match_post(&fixture->match, receive);
	return receive;
}

static struct match_message *store(struct fixture *fixture, unsigned at, uint32_t source,
				   uint64_t tag)
{
	struct match_message *message = &fixture->messages[at];

	message->source = source;
	message->tag = tag;
	match_store(&fixture->match, message);
	return message;
}

static void arrive__wildcard_posted_first_wins(void **state)
{
	struct fixture *f = *state;
	struct match_receive *any, *exact, *tagless;

	/* Enough others before them that the index is used. */
	for (unsigned i = 0; i < 2 * MATCH_SHORT; i++)
		post(f, i, 9, 1000 + i, UINT64_MAX);
	any = post(f, 100, MATCH_ANY, 5, UINT64_MAX);
	exact = post(f, 101, 3, 5, UINT64_MAX);
	tagless = post(f, 102, 3, 0, 0);
	assert_ptr_equal(match_arrive(&f->match, 3, 5), any);
	assert_ptr_equal(match_arrive(&f->match, 3, 5), exact);
	assert_ptr_equal(match_arrive_peek(&f->match, 3, 5), tagless);
	assert_ptr_equal(match_arrive(&f->match, 3, 5), tagless);
	assert_null(match_arrive(&f->match, 3, 5));
	assert_int_equal(f->match.receive_count, 2 * MATCH_SHORT);
}

static void arrive__source_zero_and_tag_extremes(void **state)
{
	struct fixture *f = *state;
	struct match_receive *receive = post(f, 0, 0, UINT64_MAX, UINT64_MAX);

	assert_null(match_arrive(&f->match, 1, UINT64_MAX));
	assert_null(match_arrive(&f->match, 0, UINT64_MAX - 1));
	assert_null(match_arrive(&f->match, 0, UINT64_MAX >> 1));
	assert_ptr_equal(match_arrive(&f->match, 0, UINT64_MAX), receive);
	assert_null(match_arrive(&f->match, 0, UINT64_MAX));
}

static void withdraw__in_the_middle_of_one_key(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 100; i++)
		post(f, i, 1, i < 20 ? 1 : 2, UINT64_MAX);
	/* The first of tag 2, so that it is indexed; then its oldest, one in the middle and its
	 * newest go. */
	assert_ptr_equal(match_arrive(&f->match, 1, 2), &f->receives[20]);
	match_withdraw(&f->match, &f->receives[21]);
	match_withdraw(&f->match, &f->receives[50]);
	match_withdraw(&f->match, &f->receives[99]);
	/* And one that no index has. */
	post(f, 100, 1, 2, UINT64_MAX);
	post(f, 101, 1, 2, UINT64_MAX);
	match_withdraw(&f->match, &f->receives[100]);
	for (unsigned i = 22; i < 99; i++)
		if (i != 50)
			assert_ptr_equal(match_arrive(&f->match, 1, 2), &f->receives[i]);
	assert_ptr_equal(match_arrive(&f->match, 1, 2), &f->receives[101]);
	assert_null(match_arrive(&f->match, 1, 2));
	assert_int_equal(f->match.receive_count, 20);
}

static void next__current_entry_may_go(void **state)
{
	struct fixture *f = *state;
	struct match_receive *next;
	unsigned seen = 0;

	for (unsigned i = 0; i < 50; i++)
		post(f, i, i % 5, i, UINT64_MAX);
	assert_null(match_arrive(&f->match, 7, 7));
	for (struct match_receive *receive = match_receive_next(&f->match, NULL); receive;
	     receive = next) {
		next = match_receive_next(&f->match, receive);
		assert_ptr_equal(receive, &f->receives[seen++]);
		if (receive->source == 3) /* as when peer 3 has died */
			match_withdraw(&f->match, receive);
	}
	assert_int_equal(seen, 50);
	assert_int_equal(f->match.receive_count, 40);
	assert_null(match_arrive(&f->match, 3, 3));
	assert_ptr_equal(match_arrive(&f->match, 4, 4), &f->receives[4]);
}

/* ---- Cost ---------------------------------------------------------------------------------- */

/* What one search of a queue of one costs: the comparison with its only entry. */
enum { COST_OF_ONE = 1 };

static void naming_shuffle(struct fixture *f, uint64_t seed)
{
	for (uint32_t i = 0; i < LONG_QUEUE; i++)
		f->naming[i] = i;
	for (uint32_t i = LONG_QUEUE - 1; i > 0; i--) {
		uint32_t at = random_below(&seed, i + 1);
		uint32_t number = f->naming[at];

		f->naming[at] = f->naming[i];
		f->naming[i] = number;
	}
}

/* Comparisons of LONG_QUEUE searches, each of which looked at the oldest entry too: at most twice
 * that of one entry; and few slots of tables. */
static void cost_check(const struct match *match)
{
	assert_in_range(match->compared + LONG_QUEUE, 0, 2 * COST_OF_ONE * LONG_QUEUE);
	assert_in_range(match->probed, 0, 2 * LONG_QUEUE);
}

static void cost_reset(struct match *match)
{
	match->compared = 0;
	match->probed = 0;
}

/* Entry number i differs from the others either in its tag or in its source. */
static uint32_t source_at(uint32_t number, bool tags_differ)
{
	return tags_differ ? 1 : number;
}

static uint64_t tag_at(uint32_t number, bool tags_differ)
{
	return tags_differ ? (uint64_t)number << 4 : 4;
}

static void receives_cost(struct fixture *f, bool any, bool tags_differ)
{
	naming_shuffle(f, 7);
	for (uint32_t i = 0; i < LONG_QUEUE; i++)
		post(f, i, any ? MATCH_ANY : source_at(i, tags_differ), tag_at(i, tags_differ) + 1,
		     ~UINT64_C(3));
	assert_null(match_arrive(&f->match, LONG_QUEUE, UINT64_MAX)); /* indexes all */
	cost_reset(&f->match);
	for (uint32_t i = 0; i < LONG_QUEUE; i++) {
		uint32_t number = f->naming[i];
		uint32_t source = source_at(number, tags_differ);
		uint64_t tag = tag_at(number, tags_differ) | (i & 3); /* two bits are masked out */
		struct match_receive *receive = match_arrive(&f->match, source, tag);

		assert_ptr_equal(receive, &f->receives[number]);
		/* Posted again, so that the queue stays long. */
		match_post(&f->match, receive);
	}
	cost_check(&f->match);
}

static void cost__10000_receives_of_different_tags(void **state)
{
	receives_cost(*state, false, true);
}

static void cost__10000_receives_of_different_tags_from_any(void **state)
{
	receives_cost(*state, true, true);
}

static void cost__10000_receives_of_different_sources(void **state)
{
	receives_cost(*state, false, false);
}

static void messages_cost(struct fixture *f, bool any, bool tags_differ)
{
	naming_shuffle(f, 8);
	for (uint32_t i = 0; i < LONG_QUEUE; i++)
		store(f, i, source_at(i, tags_differ), tag_at(i, tags_differ) + 1);
	cost_reset(&f->match);
	for (uint32_t i = 0; i < LONG_QUEUE; i++) {
		uint32_t number = f->naming[i];
		uint32_t source = any ? MATCH_ANY : source_at(number, tags_differ);
		uint64_t tag = tag_at(number, tags_differ) | (i & 3);
		struct match_message *message = match_find(&f->match, source, tag, ~UINT64_C(3));

		assert_ptr_equal(message, &f->messages[number]);
		if (i == 0)
			cost_reset(&f->match); /* the first search made the index */
		match_take(&f->match, message);
		match_store(&f->match, message);
	}
	cost_check(&f->match);
}

static void cost__10000_messages_of_different_tags(void **state)
{
	messages_cost(*state, false, true);
}

static void cost__10000_messages_of_different_tags_from_any(void **state)
{
	messages_cost(*state, true, true);
}

static void cost__10000_messages_of_different_sources(void **state)
{
	messages_cost(*state, false, false);
}

/* Wherever in the tag the bits are by which they differ; and in tables that are as full as they become. */
static void cost__whichever_bits_of_the_tags_differ(void **state)
{
	enum { COUNT = 4000, BITS = 12 };
	struct fixture *f = *state;

	for (unsigned shift = 0; shift <= 64 - BITS; shift++) {
		for (uint32_t i = 0; i < COUNT; i++)
			post(f, i, 1, (uint64_t)i << shift, UINT64_MAX);
		assert_null(match_arrive(&f->match, 2, 0)); /* indexes all */
		cost_reset(&f->match);
		for (uint32_t i = COUNT; i-- > 0;)
			assert_ptr_equal(match_arrive_peek(&f->match, 1, (uint64_t)i << shift), &f->receives[i]);
		assert_in_range(f->match.probed, 0, 3 * COUNT);
		match_fini(&f->match);
	}
}

static void cost__one_entry_behind_9999_of_another_key(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < LONG_QUEUE; i++) {
		post(f, i, 1, i < LONG_QUEUE - 1 ? 1 : 2, UINT64_MAX);
		store(f, i, 1, i < LONG_QUEUE - 1 ? 3 : 4);
	}
	match_arrive_peek(&f->match, 1, 5);
	match_find(&f->match, 1, 5, UINT64_MAX);
	cost_reset(&f->match);
	assert_ptr_equal(match_arrive_peek(&f->match, 1, 2), &f->receives[LONG_QUEUE - 1]);
	assert_ptr_equal(match_find(&f->match, 1, 4, UINT64_MAX), &f->messages[LONG_QUEUE - 1]);
	assert_int_equal(f->match.compared, 2);
}

/* ---- Classes ------------------------------------------------------------------------------- */

static uint64_t mask_at(unsigned i)
{
	return UINT64_MAX << i;
}

/* Post count receives of as many masks, then have them indexed. */
static void masks_post(struct fixture *f, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
		post(f, i, 1, UINT64_C(1) << 40 | (uint64_t)i << 32, mask_at(i));
	assert_null(match_arrive(&f->match, 2, 0));
}

static void classes__more_masks_than_classes(void **state)
{
	struct fixture *f = *state;
	unsigned count = MATCH_CLASSES + 4;

	masks_post(f, 0, count);
	for (unsigned i = 0; i < count; i++) {
		if (i < MATCH_CLASSES)
			assert_in_range(f->receives[i].home, 0, MATCH_CLASSES - 1);
		else
			assert_int_equal(f->receives[i].home, MATCH_HOME_LIST);
	}
	/* Of one with a class and a later one without, the first posted is taken, and the other
	 * way round. */
	post(f, 100, 1, UINT64_C(1) << 40 | (uint64_t)(count - 1) << 32, mask_at(0));
	assert_ptr_equal(
		match_arrive(&f->match, 1, UINT64_C(1) << 40 | (uint64_t)(count - 1) << 32),
		&f->receives[count - 1]);
	assert_ptr_equal(
		match_arrive(&f->match, 1, UINT64_C(1) << 40 | (uint64_t)(count - 1) << 32),
		&f->receives[100]);
	post(f, 101, 1, UINT64_C(1) << 40, mask_at(MATCH_CLASSES));
	assert_ptr_equal(match_arrive(&f->match, 1, UINT64_C(1) << 40), &f->receives[0]);
	assert_ptr_equal(match_arrive(&f->match, 1, UINT64_C(1) << 40), &f->receives[101]);
}

static void classes__empty_ones_serve_other_masks(void **state)
{
	struct fixture *f = *state;

	masks_post(f, 0, MATCH_CLASSES + 4);
	for (unsigned i = 0; i < MATCH_CLASSES; i++)
		match_withdraw(&f->match, &f->receives[i]);
	for (unsigned i = 0; i < MATCH_SHORT; i++) /* keeps the queue long enough for the index */
		post(f, 200 + i, 3, i, mask_at(20));
	masks_post(f, 21, MATCH_CLASSES - 1);
	for (unsigned i = 21; i < 21 + MATCH_CLASSES - 1; i++) {
		assert_in_range(f->receives[i].home, 0, MATCH_CLASSES - 1);
		assert_ptr_equal(match_arrive(&f->match, 1, UINT64_C(1) << 40 | (uint64_t)i << 32),
				 &f->receives[i]);
	}
	for (unsigned i = MATCH_CLASSES; i < MATCH_CLASSES + 4; i++)
		assert_ptr_equal(match_arrive(&f->match, 1, UINT64_C(1) << 40 | (uint64_t)i << 32),
				 &f->receives[i]);
}

static bool message_class_exists(const struct match *match, uint64_t mask)
{
	for (unsigned i = 0; i < MATCH_CLASSES; i++)
		if ((match->message_classes_active >> i & 1) &&
		    match->message_classes[i].mask == mask)
			return true;
	return false;
}

static void classes__searches_beyond_them_pay_for_an_index(void **state)
{
	struct fixture *f = *state;
	uint64_t wanted = UINT64_C(99) << 32;
	unsigned searches = 0;

	for (unsigned i = 0; i < 100; i++)
		store(f, i, 1, (uint64_t)i << 32);
	for (unsigned i = 0; i < MATCH_CLASSES; i++)
		assert_ptr_equal(match_find(&f->match, 1, wanted, mask_at(i)), &f->messages[99]);
	assert_int_equal(f->match.message_classes_active, (1 << MATCH_CLASSES) - 1);
	/* The ninth mask scans at first, then gets the class that was not used for longest: mask
	 * 1's. */
	assert_ptr_equal(match_find(&f->match, 1, wanted, mask_at(0)), &f->messages[99]);
	assert_ptr_equal(match_find(&f->match, 1, wanted, mask_at(30)), &f->messages[99]);
	assert_false(message_class_exists(&f->match, mask_at(30)));
	while (!message_class_exists(&f->match, mask_at(30)) && searches++ < 100)
		assert_ptr_equal(match_find(&f->match, 1, wanted, mask_at(30)), &f->messages[99]);
	assert_in_range(searches, 2, 20);
	assert_false(message_class_exists(&f->match, mask_at(1)));
	assert_true(message_class_exists(&f->match, mask_at(0)));
	cost_reset(&f->match);
	assert_ptr_equal(match_find(&f->match, 1, wanted, mask_at(30)), &f->messages[99]);
	assert_int_equal(f->match.compared, 1);
	/* With the last message the indexes go. */
	for (unsigned i = 0; i < 100; i++)
		match_take(&f->match, &f->messages[i]);
	assert_int_equal(f->match.message_classes_active, 0);
	assert_null(match_find(&f->match, 1, wanted, mask_at(0)));
}

/* Of more masks than there are classes, all searched for in turn, each takes another's class now and then, when that is
 * paid for; and the tables do not grow by it. */
static void classes__taken_from_each_other(void **state)
{
	enum { COUNT = 100, MASKS_IN_TURN = MATCH_CLASSES + 1, ROUNDS = 1000 };
	struct fixture *f = *state;
	unsigned made = 0;

	for (unsigned i = 0; i < COUNT; i++)
		store(f, i, 1, (uint64_t)i << 32);
	for (unsigned i = 0; i < ROUNDS * MASKS_IN_TURN; i++) {
		uint64_t mask = mask_at(i % MASKS_IN_TURN);
		bool had = message_class_exists(&f->match, mask);

		assert_ptr_equal(match_find(&f->match, 1, (uint64_t)(COUNT - 1) << 32, mask), &f->messages[COUNT - 1]);
		made += !had && message_class_exists(&f->match, mask);
	}
	assert_in_range(made, ROUNDS / 16, ROUNDS / 4);
	for (unsigned i = 0; i < MATCH_CLASSES; i++)
		assert_in_range(f->match.message_classes[i].table.size, 1, 4 * COUNT);
}

/* The tables are full at their first size, and all that goes beyond is still found. */
static void memory__refused_when_a_table_is_full(void **state)
{
	enum { COUNT = 300, OTHERS = 20, SEARCHES = 400 };
	struct fixture *f = *state;

	for (unsigned i = 0; i < OTHERS; i++) {
		post(f, i, 1, i, UINT64_MAX);
		store(f, i, 2, i);
	}
	assert_null(match_arrive(&f->match, 1, 1000));
	assert_null(match_find(&f->match, 2, 1000, UINT64_MAX));
	refuse_of_8 = 8;
	for (unsigned i = OTHERS; i < COUNT; i++) {
		post(f, i, 1, i, UINT64_MAX);
		store(f, i, 2, i);
	}
	for (unsigned i = COUNT; i-- > 0;) {
		assert_null(match_arrive(&f->match, 1, 1000 + i));
		assert_ptr_equal(match_arrive(&f->match, 1, i), &f->receives[i]);
		assert_null(match_find(&f->match, 2, 1000 + i, UINT64_MAX));
		assert_ptr_equal(match_find(&f->match, 2, i, UINT64_MAX), &f->messages[i]);
		match_take(&f->match, &f->messages[i]);
	}
	/* An index is not tried again at each search. */
	for (unsigned i = 0; i < COUNT; i++)
		store(f, i, 2, i);
	asked = 0;
	for (unsigned i = 0; i < SEARCHES; i++)
		assert_ptr_equal(match_find(&f->match, 2, COUNT - 1, UINT64_MAX), &f->messages[COUNT - 1]);
	assert_in_range(asked, SEARCHES / 16, SEARCHES * 16);
	/* With memory again, the index comes back. */
	refuse_of_8 = 0;
	for (unsigned searches = 0; f->match.message_classes_active == 0; searches++) {
		assert_in_range(searches, 0, 20);
		assert_ptr_equal(match_find(&f->match, 2, COUNT - 1, UINT64_MAX),
				 &f->messages[COUNT - 1]);
	}
	assert_ptr_equal(match_find(&f->match, 2, 77, UINT64_MAX), &f->messages[77]);
	/* And another mask has one of its own at once. */
	assert_ptr_equal(match_find(&f->match, 2, 76, mask_at(2)), &f->messages[76]);
	assert_true(message_class_exists(&f->match, mask_at(2)));
}

/* So many keys that some have the same hash: with one tag and many sources, or the other way
 * round. */
static void hashes__equal_ones_of_different_keys(void **state)
{
	enum { COUNT = 300000 };
	struct match_receive *receives = calloc(COUNT, sizeof(*receives));
	struct match match;

	(void)state;
	assert_non_null(receives);
	for (int tags_differ = 0; tags_differ < 2; tags_differ++) {
		uint64_t random = 3;

		match_init(&match);
		for (uint32_t i = 0; i < COUNT; i++) {
			receives[i].source = tags_differ ? 0 : i;
			receives[i].tag = tags_differ ? random_next(&random) : 12345;
			receives[i].mask = UINT64_MAX;
			match_post(&match, &receives[i]);
		}
		for (uint32_t i = COUNT; i-- > 0;)
			assert_ptr_equal(match_arrive(&match, receives[i].source, receives[i].tag),
					 &receives[i]);
		match_fini(&match);
	}
	free(receives);
}

static void post__order_numbers_rise(void **state)
{
	struct fixture *f = *state;

	post(f, 0, 1, 1, UINT64_MAX);
	post(f, 1, 1, 1, UINT64_MAX);
	assert_true(f->receives[0].order < f->receives[1].order);
}

int main(void)
{
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_make, fixture_free)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(match__random_sequences_agree_with_the_model, seed_print),
		cmocka_unit_test_teardown(match__memory_refused_now_and_then, seed_print),
		cmocka_unit_test_teardown(match__memory_always_refused, seed_print),
		WITH_FIXTURE(post__order_numbers_rise),
		WITH_FIXTURE(arrive__wildcard_posted_first_wins),
		WITH_FIXTURE(arrive__source_zero_and_tag_extremes),
		WITH_FIXTURE(withdraw__in_the_middle_of_one_key),
		WITH_FIXTURE(next__current_entry_may_go),
		WITH_FIXTURE(cost__10000_receives_of_different_tags),
		WITH_FIXTURE(cost__10000_receives_of_different_tags_from_any),
		WITH_FIXTURE(cost__10000_receives_of_different_sources),
		WITH_FIXTURE(cost__10000_messages_of_different_tags),
		WITH_FIXTURE(cost__10000_messages_of_different_tags_from_any),
		WITH_FIXTURE(cost__10000_messages_of_different_sources),
		WITH_FIXTURE(cost__whichever_bits_of_the_tags_differ),
		WITH_FIXTURE(cost__one_entry_behind_9999_of_another_key),
		WITH_FIXTURE(classes__more_masks_than_classes),
		WITH_FIXTURE(classes__empty_ones_serve_other_masks),
		WITH_FIXTURE(classes__searches_beyond_them_pay_for_an_index),
		WITH_FIXTURE(classes__taken_from_each_other),
		WITH_FIXTURE(memory__refused_when_a_table_is_full),
		cmocka_unit_test(hashes__equal_ones_of_different_keys),
	};

	return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}
