/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing: that the faster way is found and taken, for dialogues and streams apart, that a change of the machine is
 * noticed, and that senders do what they are told. The clock is the test's.
 */
#include <time.h>

#include "pair.h"

enum { LENGTH = 20000, CLASS = 15, PIECE = 8192, ROW_DIALOGUE = 16 };

static uint64_t now_ns = 1000000;
static int looks; /* at the clock */
static uint64_t look_ns = 1; /* that each of them takes */
static uint64_t ring_gap_ns, copy_gap_ns; /* before a message by the one way and the other */
static const uint64_t program_ns = 10000000; /* what passes where a program does something else between two messages */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	now_ns += look_ns;
	looks++;
	*time = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000u), .tv_nsec = (long)(now_ns % 1000000000u)};
	return 0;
}

static void connect_both(struct pair *pair, const char *const *options)
{
	char byte = 1, got;

	ring_gap_ns = copy_gap_ns = program_ns;
	look_ns = 10000; /* in which maintenance connects them */
	pair_open(pair, options);
	if (pair->a->base.parts.endpoint < pair->b->base.parts.endpoint) /* b is to learn of what crosses */
		*pair = (struct pair){.a = pair->b, .b = pair->a, .a_to_b = pair->b_to_a, .b_to_a = pair->a_to_b};
	for (int i = 0; i < 2; i++) {
		struct thole_endpoint *from = i ? pair->b : pair->a, *to = i ? pair->a : pair->b;
		struct thole_request *send, *receive;

		assert_int_equal(thole_recv(to, THOLE_ANY, &got, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(from, i ? pair->b_to_a : pair->a_to_b, &byte, 1, 0, 0, 0, NULL, &send), 0);
		assert_int_equal(pair_finish(pair, to, receive, NULL), 0);
		assert_int_equal(pair_finish(pair, from, send, NULL), 0);
	}
	look_ns = 1;
	assert_true(copy_allowed(&pair->b->peers[pair->b_to_a]->base));
}

/* Of which classes b, which receives from a, wants an RTS; and the same as a reads it. */
static bool offered(const struct pair *pair, enum pace pace)
{
	const struct segment *in = shm_link(&pair->b->peers[pair->b_to_a]->base)->in.segment;
	const struct segment *out = shm_link(&pair->a->peers[pair->a_to_b]->base)->out.segment;

	assert_int_equal(in->rendezvous_classes[pace], out->rendezvous_classes[pace]);
	return in->rendezvous_classes[pace] >> (CLASS - LENGTH_CLASS_MIN) & 1;
}

/* A message as the transport reports it, by the way that was asked for. Returns whether that was the copy. */
static bool message(const struct pair *pair, enum pace pace, uint64_t ring_ns, uint64_t copy_ns)
{
	struct record record = {.kind = RECORD_EAGER, .flags = RECORD_MORE, .length = RECORD_EXTERNAL, .arg = {LENGTH}};
	struct transport_peer *peer = &pair->b->peers[pair->b_to_a]->base;
	bool copy = offered(pair, pace);
	enum bulk_method method;

	now_ns += copy ? copy_gap_ns : ring_gap_ns; /* since the last one */
	if (copy) {
		uint64_t start_ns = now_ns;

		method = pace_crosses(pace) ? BULK_ONE_COPY : BULK_COOPERATIVE;
		assert_int_equal(choose_fetch(peer, LENGTH, pace, false), method);
		now_ns += copy_ns;
		choose_fetched(peer, method, LENGTH, pace, false, start_ns);
		return true;
	}
	record.flags |= pace_flags(pace);
	choose_eager_begin(peer, &record, PIECE, false);
	now_ns += ring_ns / 2;
	choose_eager_piece(peer, PIECE);
	now_ns += ring_ns / 2;
	choose_eager_piece(peer, LENGTH - 2 * PIECE);
	return false;
}

static int messages(const struct pair *pair, int count, enum pace pace, uint64_t ring_ns, uint64_t copy_ns)
{
	int copies = 0;

	for (int i = 0; i < count; i++)
		copies += message(pair, pace, ring_ns, copy_ns);
	return copies;
}

static void learn__the_faster_way_by_pace(void **state)
{
	struct pair pair;
	int copies[PACES];

	(void)state;
	connect_both(&pair, NULL);
	for (int pace = 0; pace < PACES; pace++)
		assert_false(offered(&pair, (enum pace)pace));
	copies[PACE_DIALOGUE] = messages(&pair, 400, PACE_DIALOGUE, 5000, 3000);
	copies[PACE_STREAM] = messages(&pair, 800, PACE_STREAM, 3000, 5000);
	copies[PACE_CROSSED] = messages(&pair, 800, PACE_CROSSED, 3000, 5000);
	copies[PACE_STREAM_CROSSED] = messages(&pair, 800, PACE_STREAM_CROSSED, 3000, 7000);
	assert_in_range(copies[PACE_DIALOGUE], 320, 400 - 4);
	assert_in_range(copies[PACE_STREAM], 32, 250);
	assert_in_range(copies[PACE_CROSSED], 550, 800); /* 3000 is one copy of two that each side makes */
	assert_in_range(copies[PACE_STREAM_CROSSED], 32, 250);
	assert_true(offered(&pair, PACE_DIALOGUE));
	assert_false(offered(&pair, PACE_STREAM));
	pair_close(&pair);
}

/* What a way takes is also what passes before its messages, where they cross: this side copies its own in then. */
static void learn__what_passes_between_messages(void **state)
{
	static const enum pace paces[] = {PACE_CROSSED, PACE_STREAM_CROSSED};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;

		connect_both(&pair, NULL);
		for (int turn = 0; turn < 2; turn++) {
			bool ring = turn == 0;

			ring_gap_ns = ring ? 100 : 3000;
			copy_gap_ns = ring ? 3000 : 100;
			messages(&pair, 8000, paces[i], 1000, 1000);
			assert_in_range(messages(&pair, 2000, paces[i], 1000, 1000), ring ? 0 : 1800,
					ring ? 200 : 2000);
		}
		pair_close(&pair);
	}
}

/* Who has sent many before he looks has copied all of these in: that is what the ring takes, and not the program. */
static void learn__what_passes_before_the_first_of_many(void **state)
{
	enum { MANY = 15, COPY_IN_NS = 6000 };
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	for (int i = 0; i < 200 * MANY; i++) {
		bool first = i % MANY == 0;

		if (first)
			shm_of(&pair.b->base)->sends = MANY;
		ring_gap_ns = first ? MANY * COPY_IN_NS : 10;
		copy_gap_ns = first ? MANY * 100 : 10;
		message(&pair, PACE_CROSSED, 1000, 4000);
		if (i < MANY) /* these are all timed */
			assert_int_equal(shm_of(&pair.b->base)->sends, 0);
	}
	ring_gap_ns = copy_gap_ns = 10;
	assert_in_range(messages(&pair, 200, PACE_CROSSED, 1000, 4000), 150, 200);
	pair_close(&pair);
}

/* Once each, whether in pieces or asked for; short ones are not. */
static void sends__of_long_messages_are_counted(void **state)
{
	static uint8_t from[LENGTH], to[LENGTH];
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	for (int i = 0; i < 3; i++) {
		uint32_t before = shm_of(&pair.a->base)->sends;
		struct thole_request *send, *receive;

		pair.b->base.backpressure = i == 1;
		choose_tell_all(&pair.b->base);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, i < 2 ? LENGTH : 8, 0, 0, 0, NULL, &send), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		assert_int_equal(shm_of(&pair.a->base)->sends - before, i < 2);
	}
	pair_close(&pair);
}

/* The first messages by another way say nothing: they find all as the one before has left it. */
static void learn__not_of_the_first_in_a_row(void **state)
{
	struct pair pair;
	int ring = 0, copies = 0;

	(void)state;
	connect_both(&pair, NULL);
	for (int i = 0; i < 20000; i++) {
		bool copy = message(&pair, PACE_DIALOGUE, ring < ROW_DIALOGUE / 2 ? 9000 : 2000, 3000);

		ring = copy ? 0 : ring + 1;
		copies += i >= 10000 && copy;
	}
	assert_in_range(copies, 0, 400);
	pair_close(&pair);
}

/* Of four that are read at once the first bears all, and the others nothing. */
static void learn__of_rows_that_are_in_place_at_once(void **state)
{
	struct transport_peer *peer;
	struct pair pair;
	int copies = 0;

	(void)state;
	connect_both(&pair, NULL);
	peer = &pair.b->peers[pair.b_to_a]->base;
	ring_gap_ns = 10;
	for (int i = 0; i < 2000; i++) {
		uint64_t start_ns = now_ns;

		if (!offered(&pair, PACE_STREAM)) {
			message(&pair, PACE_STREAM, 1000, 0);
			continue;
		}
		now_ns += 8000;
		for (int k = 0; k < 4; k++)
			choose_fetched(peer, BULK_COOPERATIVE, LENGTH, PACE_STREAM, false, start_ns);
		copies += 4;
	}
	assert_in_range(copies, 32, 400);
	pair_close(&pair);
}

static void learn__a_change_is_noticed(void **state)
{
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	for (int turn = 0; turn < 6; turn++) {
		uint64_t ring_ns = turn % 2 ? 2000 : 6000;

		messages(&pair, 3000, PACE_DIALOGUE, ring_ns, 4000);
		assert_in_range(messages(&pair, 256, PACE_DIALOGUE, ring_ns, 4000), turn % 2 ? 0 : 240,
				turn % 2 ? 16 : 256);
	}
	pair_close(&pair);
}

/* For a while all takes many times as long, as where a program sends pages that nobody has touched. What was learnt of
 * the slower way then is nothing to wait for once the other one is as quick as before; and what varies only is no
 * reason to try it time and again. */
static void learn__what_is_of_the_past(void **state)
{
	struct pair pair;

	(void)state;
	for (int pace = 0; pace < PACES; pace++)
		for (int turn = 0; turn < 2; turn++) {
			uint64_t ring_ns = turn ? 16000 : 8000, copy_ns = turn ? 8000 : 16000;

			if (pace_crosses((enum pace)pace) && !turn) /* what passes by the ring is one copy of two */
				copy_ns *= 2;
			connect_both(&pair, NULL);
			ring_gap_ns = copy_gap_ns = pace == PACE_DIALOGUE ? program_ns : 10;
			messages(&pair, 2000, (enum pace)pace, ring_ns, copy_ns);
			messages(&pair, 700, (enum pace)pace, 50000, 50000);
			messages(&pair, 700, (enum pace)pace, ring_ns, copy_ns);
			assert_in_range(messages(&pair, 256, (enum pace)pace, ring_ns, copy_ns), turn ? 200 : 0,
					turn ? 256 : 56);
			pair_close(&pair);
		}
	connect_both(&pair, NULL);
	messages(&pair, 2000, PACE_DIALOGUE, 8000, 40000);
	for (int i = 0, copies = 0; i < 100; i++) {
		copies += messages(&pair, 100, PACE_DIALOGUE, i % 2 ? 8000 : 16000, 40000);
		assert_in_range(copies, 0, 200);
	}
	pair_close(&pair);
}

/* Once both ways are known the clock is read for few messages; in a stream for the end of the one before, too. */
/* What took long once, since somebody else had the core, says little of the way. */
static void learn__of_one_delay_little(void **state)
{
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	ring_gap_ns = copy_gap_ns = 10;
	messages(&pair, 8000, PACE_STREAM, 1000, 1300);
	for (int i = 0; i < 200; i++) { /* one run of eight is timed */
		messages(&pair, 128, PACE_STREAM, i % 10 ? 1000 : 3000, 1300);
		assert_false(i % 10 == 1 && offered(&pair, PACE_STREAM));
	}
	pair_close(&pair);
}

static void learn__few_messages_are_timed(void **state)
{
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	messages(&pair, 2000, PACE_DIALOGUE, 3000, 5000);
	looks = 0;
	messages(&pair, 128, PACE_DIALOGUE, 3000, 5000);
	assert_in_range(looks, 2 * 8 - 2, 2 * 8 + 8);
	messages(&pair, 8000, PACE_STREAM, 3000, 5000);
	looks = 0;
	messages(&pair, 128 * 100, PACE_STREAM, 3000, 5000); /* 16 of 128, and what trials take */
	assert_in_range(looks, 33 * 95, 33 * 150);
	pair_close(&pair);
}

/* The dearer the other way, the more seldom it is tried; of two that are about the same, once in 128 messages. */
static void learn__trials_are_a_small_part(void **state)
{
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	messages(&pair, 4000, PACE_DIALOGUE, 1000, 11000);
	assert_in_range(messages(&pair, 20000, PACE_DIALOGUE, 1000, 11000), 8, 40);
	ring_gap_ns = copy_gap_ns = 10;
	assert_in_range(messages(&pair, 1000, PACE_STREAM_CROSSED, 1000, 11000), 32, 64); /* to know it, and no more */
	messages(&pair, 4000, PACE_STREAM, 1000, 1100);
	assert_in_range(messages(&pair, 20480, PACE_STREAM, 1000, 1100), 32 * 8, 32 * 11);
	pair_close(&pair);
}

/* Once a dialogue's way is known most of its messages cost nothing but a look. */
static void learn__of_few_in_a_dialogue(void **state)
{
	struct record record = {.kind = RECORD_EAGER, .length = RECORD_EXTERNAL};
	struct transport_peer *peer;
	unsigned judged = 0, copies = 0;
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	peer = &pair.b->peers[pair.b_to_a]->base;
	messages(&pair, 4000, PACE_DIALOGUE, 1000, 5000);
	for (unsigned i = 0; i < 1600; i++) {
		if (offered(&pair, PACE_DIALOGUE)) {
			copies++;
			message(&pair, PACE_DIALOGUE, 1000, 5000);
			continue;
		}
		choose_eager_begin(peer, &record, LENGTH, false);
		judged += shm_link(peer)->sample.length > 0;
		now_ns += 1000;
		choose_eager_piece(peer, 0);
	}
	assert_in_range(judged, (1600 - copies) / 16, (1600 - copies) / 12);
	pair_close(&pair);
}

/* In a stream a message is one record up to 32 KiB, and counts for choosing all the same. */
static void learn__of_single_records(void **state)
{
	struct record record = {.kind = RECORD_EAGER, .flags = RECORD_STREAM, .length = RECORD_EXTERNAL};
	struct transport_peer *peer;
	struct pair pair;
	uint32_t row;

	(void)state;
	connect_both(&pair, NULL);
	peer = &pair.b->peers[pair.b_to_a]->base;
	for (row = 0; row < 100 && !offered(&pair, PACE_STREAM); row++) {
		choose_eager_begin(peer, &record, LENGTH, false);
		now_ns += 1000;
		choose_eager_piece(peer, 0);
	}
	assert_in_range(row, 32, 64); /* it has been tried often enough: now the other way */
	pair_close(&pair);
}

/* A message that had arrived before anybody looked says nothing of what its way takes. */
static void learn__not_of_late_or_foreign_ones(void **state)
{
	struct record record = {.kind = RECORD_EAGER, .flags = RECORD_MORE, .length = RECORD_EXTERNAL};
	static const uint64_t lengths[] = {0, 100, PIECE, (256 << 10) + 1, UINT32_MAX, UINT64_MAX};
	struct pair pair;
	struct transport_peer *peer;

	(void)state;
	connect_both(&pair, NULL);
	peer = &pair.b->peers[pair.b_to_a]->base;
	for (int i = 0; i < 6; i++) {
		record.arg[0] = lengths[i];
		choose_eager_begin(peer, &record, PIECE, false);
		assert_int_equal(shm_link(peer)->sample.length, 0);
	}
	record.arg[0] = LENGTH;
	choose_eager_begin(peer, &record, PIECE, true);
	assert_int_equal(shm_link(peer)->sample.length, 0);
	choose_eager_begin(peer, &record, PIECE, false);
	assert_int_equal(shm_link(peer)->sample.left, LENGTH - PIECE);
	choose_eager_piece(peer, UINT32_MAX); /* more than is left */
	assert_int_equal(shm_link(peer)->sample.length, 0);
	pair_close(&pair);
}

/* A look at the ring ends even if its message comes late. */
static void learn__late_polls_end(void **state)
{
	struct record record = {.kind = RECORD_EAGER, .flags = RECORD_MORE, .length = RECORD_EXTERNAL, .arg = {LENGTH}};
	struct pair pair;
	int late = 0;

	(void)state;
	connect_both(&pair, NULL);
	messages(&pair, 200, PACE_DIALOGUE, 5000, 3000);
	for (int i = 0; i < 20000; i++) {
		if (offered(&pair, PACE_DIALOGUE)) {
			message(&pair, PACE_DIALOGUE, 5000, 3000);
			continue;
		}
		choose_eager_begin(&pair.b->peers[pair.b_to_a]->base, &record, PIECE, true);
		late++;
	}
	assert_in_range(late, 1, 20 * ROW_DIALOGUE);
	pair_close(&pair);
}

/* Beyond eager_max, too; and there without a right to read the peer's memory, where it is mapped. */
static void learn__long_ones_that_cross_for_both(void **state)
{
	const uint64_t length = 1 << 20;
	struct pair pair;
	struct transport_peer *leader, *follower;

	(void)state;
	connect_both(&pair, NULL);
	leader = &pair.b->peers[pair.b_to_a]->base;
	follower = &pair.a->peers[pair.a_to_b]->base;
	for (int refused = 0; refused < 2; refused++) {
		for (int turn = 0; turn < 2; turn++) {
			uint64_t took_ns[] = {turn ? 1000000 : 9000000, 4000000};
			int copies = 0;

			for (int i = 0; i < 8000; i++) {
				enum bulk_method way = choose_fetch(leader, length, PACE_CROSSED, refused);
				uint64_t start_ns = now_ns += 100000;

				now_ns += took_ns[way != BULK_RING];
				choose_fetched(leader, way, length, PACE_CROSSED, refused, start_ns);
				copies += i >= 4000 && way != BULK_RING;
				choose_fetched(follower, way, length, PACE_CROSSED, refused, start_ns);
				assert_int_equal(choose_fetch(follower, length, PACE_CROSSED, refused),
						 choose_fetch(leader, length, PACE_CROSSED, refused));
			}
			assert_in_range(copies, turn ? 1 : 3600, turn ? 400 : 3999);
		}
		shm_link(leader)->one_copy = shm_link(follower)->one_copy = ONE_COPY_NO;
	}
	assert_int_equal(choose_fetch(leader, length, PACE_CROSSED, false), BULK_RING);
	pair_close(&pair);
}

/* Of two that are under way at once the way is chosen before either is in its place, and what the second adds is less
 * than what it takes. */
static void learn__long_ones_that_cross_two_at_a_time(void **state)
{
	const uint64_t length = 1 << 20;
	struct transport_peer *peer;
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	peer = &pair.b->peers[pair.b_to_a]->base;
	for (int turn = 0; turn < 4; turn++) {
		uint64_t ring_ns[] = {turn % 2 ? 100000 : 230000, turn % 2 ? 30000 : 80000};
		int copies = 0;

		for (int i = 0; i < 4000; i++) {
			enum bulk_method ways[2];
			uint64_t start_ns = now_ns += 1000;

			for (int k = 0; k < 2; k++)
				ways[k] = choose_fetch(peer, length, PACE_STREAM_CROSSED, false);
			for (int k = 0; k < 2; k++) {
				now_ns += ways[k] == BULK_RING ? ring_ns[k] : 115000;
				choose_fetched(peer, ways[k], length, PACE_STREAM_CROSSED, false, start_ns);
				copies += i >= 2000 && ways[k] != BULK_RING;
			}
		}
		assert_in_range(copies, turn % 2 ? 4 : 3600, turn % 2 ? 400 : 3996);
	}
	pair_close(&pair);
}

/* Where messages cross both sides take the way that one of them has learnt. */
static void learn__for_both_where_messages_cross(void **state)
{
	struct pair pair, back;

	(void)state;
	connect_both(&pair, NULL);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	messages(&back, 400, PACE_CROSSED, 9000, 1000); /* whatever the other sees */
	assert_false(offered(&back, PACE_CROSSED));
	for (int turn = 0; turn < 4; turn++) {
		uint64_t ring_ns = turn % 2 ? 1000 : 9000;
		int mixed = 0;

		messages(&pair, 8000, PACE_CROSSED, ring_ns, 4000);
		for (int i = 0; i < 4000; i++) {
			bool copy = message(&pair, PACE_CROSSED, ring_ns, 4000);

			mixed += message(&back, PACE_CROSSED, 1000, 9000) != copy;
		}
		assert_int_equal(offered(&pair, PACE_CROSSED), offered(&back, PACE_CROSSED));
		assert_in_range(mixed, 0, 6); /* the first of a trial, and the first behind it */
		assert_in_range(messages(&pair, 256, PACE_CROSSED, ring_ns, 4000), turn % 2 ? 0 : 200,
				turn % 2 ? 32 : 256);
	}
	shm_link(&pair.a->peers[pair.a_to_b]->base)->one_copy = ONE_COPY_NO; /* what one side cannot it does not want */
	choose_tell_all(&pair.a->base);
	assert_false(offered(&back, PACE_CROSSED));
	pair_close(&pair);
}

/* Also where they answer each other, once that one knows; the lengths of which it does not, each learns for itself. */
static void learn__for_both_in_a_dialogue(void **state)
{
	struct pair pair, back;

	(void)state;
	connect_both(&pair, NULL);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	messages(&back, 400, PACE_DIALOGUE, 9000, 1000);
	assert_true(offered(&back, PACE_DIALOGUE));
	for (int turn = 0; turn < 4; turn++) {
		uint64_t ring_ns = turn % 2 ? 9000 : 1000;
		int mixed = 0;

		for (int i = 0; i < 20100; i++) {
			bool copy = message(&pair, PACE_DIALOGUE, ring_ns, 4000);

			mixed += message(&back, PACE_DIALOGUE, 10000 - ring_ns, 4000) != copy && i >= 10000;
		}
		assert_in_range(mixed, 0, 20);
		assert_int_equal(offered(&pair, PACE_DIALOGUE), turn % 2);
		assert_int_equal(offered(&back, PACE_DIALOGUE), turn % 2);
	}
	pair_close(&pair);
}

/* A message that begins with an RTS says that it crosses as one does that does not. */
static void send__says_that_it_crosses(void **state)
{
	static uint8_t from[LENGTH], to[2][LENGTH];

	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		struct pair pair, back;

		connect_both(&pair, NULL);
		back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
		pair.a->base.backpressure = pair.b->base.backpressure = asked;
		choose_tell_all(&pair.a->base);
		choose_tell_all(&pair.b->base);
		for (int turn = 0; turn < 16; turn++) {
			struct thole_request *sends[2], *receives[2];
			bool cross = turn < 8;

			for (int i = 0; i < 2; i++) {
				const struct pair *way = i ? &back : &pair;
				struct ring_out *out = &shm_link(&way->a->peers[way->a_to_b]->base)->out;
				const struct record *record = ring_slot(out->segment, out->produced);

				assert_int_equal(thole_recv(way->b, way->b_to_a, to[i], LENGTH, 0, 0, 0, NULL,
							    &receives[i]), 0);
				assert_int_equal(thole_send(way->a, way->a_to_b, from, LENGTH, 0, 0, 0, NULL,
							    &sends[i]), 0);
				assert_int_equal(record->kind, asked ? RECORD_RTS : RECORD_EAGER);
				if (turn % 8 > CROSSED_STAYS)
					assert_int_equal(record->flags & RECORD_PACE, cross ? RECORD_CROSSED : 0);
				if (!cross)
					assert_int_equal(pair_finish(&pair, way->b, receives[i], NULL), 0);
			}
			for (int i = 0; i < 2; i++) {
				if (cross)
					assert_int_equal(pair_finish(&pair, i ? pair.a : pair.b, receives[i], NULL), 0);
				assert_int_equal(pair_finish(&pair, i ? pair.b : pair.a, sends[i], NULL), 0);
			}
		}
		pair_close(&pair);
	}
}

/* A message that begins with an RTS is taken when it is fetched, not when the RTS is seen. */
static void send__crosses_what_is_not_fetched(void **state)
{
	static uint8_t from[LENGTH], to[2][LENGTH];
	struct thole_request *sends[2], *receives[2];
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	pair.a->base.backpressure = pair.b->base.backpressure = true;
	choose_tell_all(&pair.a->base);
	choose_tell_all(&pair.b->base);
	for (int turn = 0; turn < 2; turn++) {
		const struct shm_peer *link = shm_link(&pair.a->peers[pair.a_to_b]->base);

		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 0, 0, 0, NULL, &sends[0]), 0);
		if (turn == 0) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, to[0], LENGTH, 0, 0, 0, NULL, &receives[0]),
					 0);
			assert_int_equal(pair_finish(&pair, pair.b, receives[0], NULL), 0);
		}
		pair_progress(&pair, 20);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, from, LENGTH, 0, 0, 0, NULL, &sends[1]), 0);
		pair_progress(&pair, 20);
		assert_int_equal(link->crossed, turn == 0 ? 0 : CROSSED_STAYS);
		if (turn == 1) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, to[0], LENGTH, 0, 0, 0, NULL, &receives[0]),
					 0);
			assert_int_equal(pair_finish(&pair, pair.b, receives[0], NULL), 0);
		}
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, to[1], LENGTH, 0, 0, 0, NULL, &receives[1]), 0);
		assert_int_equal(pair_finish(&pair, pair.a, receives[1], NULL), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_finish(&pair, i ? pair.b : pair.a, sends[i], NULL), 0);
	}
	pair_close(&pair);
}

static uint64_t rendezvous(struct pair *pair)
{
	uint64_t before = pair_counter(pair->a, "sent_rendezvous");
	struct thole_request *send, *receive;
	void *from = pair_filled(7, LENGTH), *to = malloc(LENGTH);

	assert_int_equal(thole_recv(pair->b, THOLE_ANY, to, LENGTH, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, from, LENGTH, 0, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(pair, pair->b, receive, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, send, NULL), 0);
	pair_check(7, to, LENGTH);
	free(from);
	free(to);
	return pair_counter(pair->a, "sent_rendezvous") - before;
}

static void send__as_the_receiver_wants_it(void **state)
{
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	assert_int_equal(rendezvous(&pair), 0);
	for (int pace = PACE_DIALOGUE; pace <= PACE_STREAM; pace++) {
		messages(&pair, 400, (enum pace)pace, 5000, 3000);
		while (!offered(&pair, (enum pace)pace)) /* not in a trial of the other way */
			message(&pair, (enum pace)pace, 5000, 3000);
	}
	rendezvous(&pair); /* the sender looks after it has sent */
	assert_int_equal(rendezvous(&pair), 1);
	/* Where the kernel refuses, an RTS is no use any more. */
	shm_link(&pair.b->peers[pair.b_to_a]->base)->one_copy = ONE_COPY_NO;
	choose_tell_all(&pair.b->base);
	rendezvous(&pair);
	assert_int_equal(rendezvous(&pair), 0);
	/* Under backpressure a receiver wants an RTS of all of them all the same. */
	pair.b->base.backpressure = true;
	choose_tell_all(&pair.b->base);
	rendezvous(&pair);
	assert_int_equal(rendezvous(&pair), 1);
	pair.b->base.backpressure = false;
	pair_close(&pair);
}

/* Only the second of two messages without an answer between them is in a stream. */
static void send__says_whether_it_is_in_a_stream(void **state)
{
	static const size_t lengths[] = {SPAN_MAX + 1, 8192, LENGTH, 300000};
	static uint8_t bytes[300000];

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct ring_out *out;
		struct pair pair;
		int heads = 0;

		connect_both(&pair, NULL);
		out = &shm_link(&pair.a->peers[pair.a_to_b]->base)->out;
		for (int turn = 0; turn < 2; turn++) { /* the answer of connect_both was the last that a got */
			uint64_t slot = out->produced;

			for (int k = 0; k < 2; k++)
				assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, lengths[i], 0, 0, THOLE_QUIET,
							    NULL, NULL),
						 0);
			for (; slot < out->produced; slot++) {
				const struct record *record = ring_slot(out->segment, slot);

				if (record->kind != RECORD_EAGER && record->kind != RECORD_RTS)
					continue;
				if (record->kind == RECORD_EAGER && heads > 0) /* in larger pieces */
					assert_int_equal(record->bytes, lengths[i]);
				assert_int_equal((record->flags & RECORD_STREAM) != 0, heads++ > 0);
			}
		}
		assert_int_equal(heads, 4);
		pair_close(&pair);
	}
}

/* So many messages, and one back; whether the first was sent as in a stream. */
static bool turn(struct pair *pair, int count, size_t length)
{
	static uint8_t bytes[PIECE_OVERLAP + 1];
	struct ring_out *out = &shm_link(&pair->a->peers[pair->a_to_b]->base)->out;
	bool stream = false;

	for (int i = 0; i < count; i++) {
		uint64_t slot = out->produced;

		assert_int_equal(
			thole_send(pair->a, pair->a_to_b, bytes, length, 0, 0, THOLE_QUIET, NULL, NULL), 0);
		stream |= i == 0 && (ring_slot(out->segment, slot)->flags & RECORD_STREAM);
		thole_progress(pair->b);
	}
	assert_int_equal(thole_send(pair->b, pair->b_to_a, bytes, 1, 0, 0, THOLE_QUIET, NULL, NULL), 0);
	thole_progress(pair->a);
	return stream;
}

/* Where many follow each other each time, the first of them is not taken for one that waits for its answer; a short one
 * is not where some do, since nothing is learnt of it. */
static void send__knows_the_first_of_many(void **state)
{
	struct pair pair;

	(void)state;
	connect_both(&pair, NULL);
	assert_false(turn(&pair, TURN_LONG - 1, PIECE_OVERLAP + 1));
	assert_false(turn(&pair, TURN_LONG, PIECE_OVERLAP + 1));
	assert_true(turn(&pair, TURN_LONG, PIECE_OVERLAP + 1));
	assert_true(turn(&pair, 1, PIECE_OVERLAP + 1));
	assert_false(turn(&pair, 1, PIECE_OVERLAP + 1));
	for (size_t length = 8; length <= PIECE_OVERLAP; length *= 8) {
		assert_false(turn(&pair, 2, length));
		assert_true(turn(&pair, 1, length));
		assert_false(turn(&pair, 1, length));
	}
	pair_close(&pair);
}

/* A sender that waits for the receiver's core, or may, would copy nothing of a message meanwhile. */
static void fetch__alone_where_cores_are_shared(void **state)
{
	static const char *const options[] = {NULL};
	struct transport_peer *peer;
	struct pair pair;

	(void)state;
	connect_both(&pair, options);
	peer = &pair.b->peers[pair.b_to_a]->base;
	for (enum pace pace = PACE_DIALOGUE; pace < PACES; pace++) {
		peer->core_shared = pair.b->base.oversubscribed = false;
		assert_int_equal(choose_fetch(peer, LENGTH, pace, false),
				 pace_crosses(pace) ? BULK_ONE_COPY : BULK_COOPERATIVE);
		peer->core_shared = true;
		assert_int_equal(choose_fetch(peer, LENGTH, pace, false), BULK_ONE_COPY);
		assert_int_equal(choose_fetch(peer, LENGTH, pace, true), BULK_DIRECT);
		peer->core_shared = false;
		pair.b->base.oversubscribed = true;
		assert_int_equal(choose_fetch(peer, LENGTH, pace, false), BULK_ONE_COPY);
	}
	pair_close(&pair);
}

static void fixed_ways__are_not_learnt(void **state)
{
	static const char *const bulks[] = {"bulk=ring", "bulk=one-copy", "bulk=cooperative"};
	static const enum bulk_method methods[] = {BULK_RING, BULK_ONE_COPY, BULK_COOPERATIVE};

	(void)state;
	for (int i = 0; i < 3; i++) {
		const char *const options[] = {bulks[i], NULL};
		struct pair pair;

		connect_both(&pair, options);
		assert_int_equal(messages(&pair, 100, PACE_DIALOGUE, 5000, 3000), 0);
		assert_int_equal(choose_fetch(&pair.b->peers[pair.b_to_a]->base, 1 << 20, PACE_DIALOGUE, false),
				 methods[i]);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(learn__the_faster_way_by_pace),
		cmocka_unit_test(learn__what_passes_between_messages),
		cmocka_unit_test(learn__what_passes_before_the_first_of_many),
		cmocka_unit_test(sends__of_long_messages_are_counted),
		cmocka_unit_test(learn__not_of_the_first_in_a_row),
		cmocka_unit_test(learn__of_rows_that_are_in_place_at_once),
		cmocka_unit_test(learn__a_change_is_noticed),
		cmocka_unit_test(learn__what_is_of_the_past),
		cmocka_unit_test(learn__of_one_delay_little),
		cmocka_unit_test(learn__few_messages_are_timed),
		cmocka_unit_test(learn__trials_are_a_small_part),
		cmocka_unit_test(learn__of_single_records),
		cmocka_unit_test(learn__of_few_in_a_dialogue),
		cmocka_unit_test(learn__not_of_late_or_foreign_ones),
		cmocka_unit_test(learn__late_polls_end),
		cmocka_unit_test(learn__for_both_where_messages_cross),
		cmocka_unit_test(learn__for_both_in_a_dialogue),
		cmocka_unit_test(learn__long_ones_that_cross_for_both),
		cmocka_unit_test(learn__long_ones_that_cross_two_at_a_time),
		cmocka_unit_test(send__says_that_it_crosses),
		cmocka_unit_test(send__crosses_what_is_not_fetched),
		cmocka_unit_test(send__as_the_receiver_wants_it),
		cmocka_unit_test(send__says_whether_it_is_in_a_stream),
		cmocka_unit_test(send__knows_the_first_of_many),
		cmocka_unit_test(fetch__alone_where_cores_are_shared),
		cmocka_unit_test(fixed_ways__are_not_learnt),
	};

	return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
