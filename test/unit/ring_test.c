/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings: records in order with their payloads, laps and stamps, areas that fill up and drain, and what a producer that
 * is not correct may write. The records here are messages without a receive, so that they are found by probing.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "message/message.h"
#include "pair.h"

static const char *const small_options[] = {"bulk_ring=64k", "unexpected_max=1g", "look_again=0", NULL};

static struct ring_out *out_of(struct pair *pair)
{
	return &shm_link(&pair->a->peers[pair->a_to_b]->base)->out;
}

static struct ring_in *in_of(struct pair *pair)
{
	return &shm_link(&pair->b->peers[pair->b_to_a]->base)->in;
}

/* Both segments are there. */
static void connect_both(struct pair *pair)
{
	struct thole_request *requests[4];
	char bytes[2], got[2];

	memset(bytes, 1, sizeof(bytes));
	assert_int_equal(thole_recv(pair->b, pair->b_to_a, &got[0], 1, 0, 0, 0, NULL, &requests[0]), 0);
	assert_int_equal(thole_recv(pair->a, pair->a_to_b, &got[1], 1, 0, 0, 0, NULL, &requests[1]), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, &bytes[0], 1, 0, 0, 0, NULL, &requests[2]), 0);
	assert_int_equal(thole_send(pair->b, pair->b_to_a, &bytes[1], 1, 0, 0, 0, NULL, &requests[3]), 0);
	assert_int_equal(pair_finish(pair, pair->b, requests[0], NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, requests[1], NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, requests[2], NULL), 0);
	assert_int_equal(pair_finish(pair, pair->b, requests[3], NULL), 0);
}

/* What a peer lends is taken once nothing of the last time is in use any more: else its pieces would be written over,
 * and the books of both be mixed. */
static void lease__only_of_what_is_free(void **state)
{
	struct pair pair;
	struct shm_peer *link;
	struct area *lent;

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	link = shm_link(&pair.a->peers[pair.a_to_b]->base);
	lent = &link->out.areas[AREA_LENT];
	assert_true(ring_lease(link, SEGMENT_BASE, 4096));
	assert_ptr_equal(lent->base, (char *)link->in.segment + SEGMENT_BASE);
	lent->live = 1;
	assert_false(ring_lease(link, SEGMENT_BASE + 4096, 4096));
	assert_ptr_equal(lent->base, (char *)link->in.segment + SEGMENT_BASE);
	lent->live = 0;
	assert_true(ring_lease(link, SEGMENT_BASE + 4096, 4096));
	pair_close(&pair);
}

/* Many laps of random lengths both ways, with the consumer lagging behind by a random number of records. */
static void push__records_and_payloads_in_order(void **state)
{
	enum { MESSAGES = 30000 };
	struct pair pair;
	struct thole_endpoint *ends[2];
	uint32_t peers[2];
	uint64_t random = 1, sent[2] = {0}, got[2] = {0}, stalls = 0;
	static uint8_t bytes[8192], to[8192];

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	ends[0] = pair.a, ends[1] = pair.b;
	peers[0] = pair.a_to_b, peers[1] = pair.b_to_a;
	while (got[0] < MESSAGES || got[1] < MESSAGES) {
		int from = (int)random_below(&random, 2);

		if (random_below(&random, 3) && sent[from] < MESSAGES) {
			for (uint32_t n = random_below(&random, 40); n > 0 && sent[from] < MESSAGES; n--) {
				uint64_t id = sent[from] << 1 | (uint64_t)from;
				size_t length = (sent[from] * 7919) % (sent[from] % 5 ? 200 : sizeof(bytes));

				for (size_t i = 0; i < length; i++)
					bytes[i] = pair_byte(id, i);
				assert_int_equal(thole_send(ends[from], peers[from], bytes, length, 1, sent[from],
							    THOLE_IMM | THOLE_QUIET | THOLE_INJECT, NULL, NULL),
						 0);
				sent[from]++;
			}
		} else {
			struct thole_completion completion;

			for (uint32_t n = random_below(&random, 50); n > 0; n--) {
				struct thole_message *message;
				struct thole_request *request;
				struct iovec segment = {to, sizeof(to)};

				if (!thole_message_probe(ends[1 - from], peers[1 - from], 1, ~UINT64_C(0), 0,
							 &completion, &message))
					break;
				assert_int_equal(completion.imm, got[from]);
				assert_int_equal(
					thole_message_recv(ends[1 - from], message, &segment, 1, 0, NULL, &request), 0);
				assert_int_equal(pair_finish(&pair, ends[1 - from], request, &completion), 0);
				assert_int_equal(completion.length,
						 (got[from] * 7919) % (got[from] % 5 ? 200 : sizeof(bytes)));
				pair_check(got[from] << 1 | (uint64_t)from, to, completion.length);
				got[from]++;
			}
		}
	}
	stalls = pair_counter(pair.a, "ring_stalls") + pair_counter(pair.b, "ring_stalls");
	assert_true(stalls > 0);
	assert_int_equal(pair_counter(pair.a, "bad_records") + pair_counter(pair.b, "bad_records"), 0);
	assert_int_equal(pair_counter(pair.a, "large_areas"), 1);
	pair_close(&pair);
}

/* A message in pieces leaves within its call, without a request, where it is sure to find room: in a dialogue. */
static void push__pieces_at_once(void **state)
{
	enum { LONG = 100000, MANY = 100 };
	static const char *const options[] = {"network=off", "bulk=ring", NULL};
	static uint8_t in[LONG];
	void *out[MANY];
	struct thole_completion done;
	struct thole_request *request;
	struct transport_peer *answer;
	unsigned sent = 0;
	struct area *large;
	struct pair pair;
	uint32_t size;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	for (unsigned i = 0; i < MANY; i++)
		out[i] = pair_filled(i, LONG);
	for (unsigned i = 0; i < 20; i++) {
		struct thole_endpoint *from = i % 2 ? pair.b : pair.a, *to = i % 2 ? pair.a : pair.b;
		uint32_t there = i % 2 ? pair.b_to_a : pair.a_to_b, back = i % 2 ? pair.a_to_b : pair.b_to_a;
		unsigned flags = i < 4 ? 0 : THOLE_OR_NOT; /* its area is made by then */

		assert_int_equal(thole_recv(to, back, in, LONG, 3, UINT64_MAX, 0, NULL, &request), 0);
		assert_int_equal(thole_send(from, there, out[i], LONG, 3, 0, flags | THOLE_QUIET | THOLE_INJECT, NULL,
					    NULL),
				 0);
		assert_int_equal(pair_finish(&pair, to, request, &done), 0);
		pair_check(i, in, LONG);
		if (i != 10)
			continue;
		answer = &pair.b->peers[pair.b_to_a]->base;
		large = &shm_link(answer)->out.areas[AREA_LARGE];
		size = large->size;
		assert_true(ring_fits(answer, LONG));
		large->size = 0; /* the system refused it: all may borrow, but in hundreds of pieces */
		shm_link(answer)->out.refused[AREA_LARGE] = true;
		assert_false(ring_fits(answer, LONG));
		shm_link(answer)->out.refused[AREA_LARGE] = false;
		large->size = size;
	}
	/* One that follows another is not sure to, and is refused as a whole. */
	while (thole_send(pair.a, pair.a_to_b, out[sent], LONG, 3, 0, THOLE_OR_NOT | THOLE_QUIET, NULL, NULL) == 0)
		assert_true(++sent < MANY);
	assert_in_range(sent, 1, 4);
	for (unsigned i = 0; i < sent; i++) {
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, LONG, 3, UINT64_MAX, 0, NULL, &request), 0);
		assert_int_equal(pair_finish(&pair, pair.b, request, &done), 0);
		pair_check(i, in, LONG);
	}
	for (unsigned i = 0; i < MANY; i++)
		free(out[i]);
	pair_close(&pair);
}

/* While the consumer takes nothing, no more fits than there are slots, or bytes; then all of it drains and fits
 * again. */
static void push__full_of_slots_and_full_of_bytes(void **state)
{
	static const size_t lengths[] = {0, 40, 41, SPAN_MAX, SPAN_MAX + 1, 1000, 1024, 1025, 4000, 8192};
	static uint8_t bytes[8192];
	struct pair pair;

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	for (int turn = 0; turn < 40; turn++) {
		size_t length = lengths[turn % 10];
		struct ring_out *out = out_of(&pair);
		uint64_t pushed = 0, live;
		struct thole_completion completion;

		while (!pair.a->peers[pair.a_to_b]->backlog_count) {
			assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, length, 1, 0, THOLE_QUIET, NULL, NULL),
					 0);
			pushed++;
		}
		pushed--;
		assert_true(pushed <= RING_SLOTS);
		/* One may have been on its way. */
		assert_true(pushed >= (length <= 40 ? RING_SLOTS - 1 : length <= SPAN_MAX ? RING_SLOTS / 2 - 1 : 5));
		live = 0;
		for (int area = 0; area < AREAS; area++)
			live += out->areas[area].live;
		assert_int_equal(live, length > SPAN_MAX ? pushed : 0); /* nothing is lent: nobody asked for anything */
		for (int i = 0;
		     i < PAIR_TURNS_MAX && (out->consumed < out->produced || pair.a->peers[pair.a_to_b]->backlog_count);
		     i++) {
			pair_progress(&pair, 20);
			thole_probe(pair.b, THOLE_ANY, 1, ~UINT64_C(0), THOLE_DISCARD, &completion);
			ring_has_room(out, RING_SLOTS); /* looks */
		}
		assert_int_equal(out->consumed, out->produced);
		while (thole_probe(pair.b, THOLE_ANY, 1, ~UINT64_C(0), THOLE_DISCARD, &completion))
			;
		for (int area = 0; area < AREAS; area++)
			assert_int_equal(out->areas[area].live, 0);
	}
	pair_close(&pair);
}

static void stamp__differs_from_lap_to_lap(void **state)
{
	(void)state;
	for (uint64_t slot = 0; slot < 70000ull * RING_SLOTS; slot += RING_SLOTS - 1) {
		assert_int_not_equal(ring_stamp(slot), ring_stamp(slot + RING_SLOTS));
		assert_int_equal(ring_stamp(slot), ring_stamp(slot / RING_SLOTS * RING_SLOTS));
	}
	assert_int_not_equal(ring_stamp(0), 0); /* a new segment is all zeros */
}

/* Write a record as a producer does, whatever is in it. */
static void forge(struct pair *pair, const struct record *record)
{
	struct ring_out *out = out_of(pair);
	struct record *slot = &out->segment->slots[out->produced % RING_SLOTS];

	*slot = *record;
	slot->credit = (uint16_t)shm_link(&pair->a->peers[pair->a_to_b]->base)->in.next;
	store_release(&slot->stamp, ring_stamp(out->produced));
	out->produced++;
}

/* However often a peer asks for a window, or offers to have it written, it is one thing to do: else one could use up
 * what all have. */
static void pull__again_and_again_of_one_window(void **state)
{
	enum { LENGTH = 1 << 20, TIMES = 1000 };
	static char from[LENGTH];
	struct record record = {.kind = RECORD_BULK_PULL, .length = RECORD_EXTERNAL, .place = SEGMENT_BASE};
	struct thole_request *send;
	struct pair pair;
	struct shm *shm;

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	shm = shm_of(&pair.b->base);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, from, LENGTH, 0, 0, 0, NULL, &send), 0);
	record.tag = request_id(send);
	for (unsigned i = 0; i < TIMES; i++) {
		record.kind = i % 2 ? RECORD_BULK_OFFER : RECORD_BULK_PULL;
		record.imm = i % 2 ? UINT64_C(1) << 32 : i; /* an offer that was taken back, or a pull */
		record.arg[0] = i % 2 ? LENGTH : 0;
		record.arg[1] = i % 2 ? (uintptr_t)from : LENGTH;
		record.arg[2] = 4096;
		forge(&pair, &record);
		thole_progress(pair.b);
		assert_in_range(shm->serves.live, 0, 1);
	}
	pair_close(&pair);
}

/* Payloads that are not in an area: counted, skipped, and nothing of them is remembered as memory of use. */
static void poll__payload_anywhere(void **state)
{
	static const uint32_t places[] = {0,
					  1,
					  64,
					  192,
					  offsetof(struct segment, small) - 1,
					  offsetof(struct segment, small),
					  SEGMENT_BASE,
					  SEGMENT_BASE + 65536 - 64,
					  SEGMENT_BASE + 65536,
					  0x10000000,
					  0x7fffffc0,
					  0x80000000,
					  0x80000040,
					  0xffffffc0,
					  UINT32_MAX};
	static const uint32_t lengths[] = {1,          64,         65,         8192,       65536,      1 << 20,
					   0x7fffffff, 0x80000000, 0x80000040, 0x80000080, 0xffffff00, UINT32_MAX};
	struct pair pair;
	uint64_t random = 1;
	static uint8_t bytes[8192];

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	for (int i = 0; i < 4000; i++) {
		struct record record = {.kind = RECORD_EAGER, .tag = 9, .length = RECORD_EXTERNAL};
		struct thole_completion completion;

		record.place = places[random_below(&random, 15)];
		record.bytes = random_below(&random, 3) ? lengths[random_below(&random, 12)]
						       : 0u - (record.place & 0x7fffffffu) + random_below(&random, 100);
		if (i % 4 == 0) { /* a question, whose memory is lent to its answer, which is not seen for now */
			assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 1000, 9, 0, THOLE_QUIET, NULL, NULL),
					 0);
			thole_progress(pair.b);
			assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, 900, 1, 0, THOLE_QUIET, NULL, NULL), 0);
		}
		forge(&pair, &record);
		if (i % 16 == 7) /* not by name */
			forge(&pair, &(struct record){.kind = RECORD_EAGER, .tag = 9, .length = SPAN_MAX + 1});
		thole_progress(pair.b); /* no more: memory is lent only for so many looks */
		/* What the other side sends now must not go where a record said. */
		assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, 41 + random_below(&random, 8000), 1, 0,
					    THOLE_QUIET, NULL, NULL),
				 0);
		while (thole_probe(pair.b, THOLE_ANY, 9, ~UINT64_C(0), THOLE_DISCARD, &completion))
			;
		for (int k = 0; k < 5; k++)
			thole_progress(pair.a);
		while (thole_probe(pair.a, THOLE_ANY, 0, 0, THOLE_DISCARD, &completion))
			;
	}
	assert_true(pair_counter(pair.b, "bad_records") > 1000);
	pair_close(&pair);
}

/* A payload in slots is no longer than they are. */
static void poll__payload_longer_than_its_slots(void **state)
{
	static const uint16_t lengths[] = {SPAN_MAX + 1, SPAN_MAX + 64, RECORD_EXTERNAL - 1};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct thole_completion completion;
		struct pair pair;

		pair_open(&pair, small_options);
		connect_both(&pair);
		forge(&pair, &(struct record){.kind = RECORD_EAGER, .tag = 9, .length = lengths[i]});
		forge(&pair, &(struct record){.kind = RECORD_EAGER, .tag = 9, .length = lengths[i]});
		pair_progress(&pair, 20);
		assert_true(pair_counter(pair.b, "bad_records") > 0);
		assert_int_equal(thole_probe(pair.b, THOLE_ANY, 9, ~UINT64_C(0), 0, &completion), 0);
		pair_close(&pair);
	}
}

/* The question's memory, which the answer lies in, is not given back to the asker before it has handled the answer: it
 * would write the next question there. */
/* Send `length` bytes from a to b; how many slots that took. */
static uint64_t slots_of(struct pair *pair, uint64_t id, size_t length)
{
	uint64_t before = out_of(pair)->produced;
	void *out = pair_filled(id, length), *in = malloc(length);
	struct thole_request *send, *receive;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, length, id, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, out, length, id, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(pair, pair->b, receive, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, send, NULL), 0);
	pair_check(id, in, length);
	free(out);
	free(in);
	return out_of(pair)->produced - before;
}

/* In a dialogue the pieces of a message get longer, so that its receiver begins soon, and shorter again, so that both
 * copies overlap; what follows it is a stream. */
static void pieces__of_dialogues_and_streams(void **state)
{
	static const uint32_t kilobytes[][5] = {{12}, {8, 8}, {12, 12}, {12, 20}, {12, 16, 12}, {12, 16, 20, 16}};
	static const char *const options[] = {"bulk=ring", "eager_max=64k", "look_again=0", NULL};
	struct pair pair, back;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	for (uint64_t turn = 0; turn < sizeof(kilobytes) / sizeof(kilobytes[0]); turn++) {
		unsigned pieces = 0, length = 0;

		for (; kilobytes[turn][pieces] > 0; pieces++)
			length += kilobytes[turn][pieces] * 1024;
		assert_int_equal(slots_of(&back, 10 * turn + 1, length), pieces);
		assert_int_equal(slots_of(&pair, 10 * turn + 2, length), pieces);
		for (unsigned i = 0; i < pieces; i++)
			assert_int_equal(ring_slot(out_of(&pair)->segment, out_of(&pair)->produced - pieces + i)->bytes,
					 kilobytes[turn][i] * 1024);
		assert_int_equal(slots_of(&pair, 10 * turn + 3, 65536), 65536 / PIECE_STREAM);
		assert_int_equal(slots_of(&pair, 10 * turn + 4, 100), 1);
	}
	pair_close(&pair);
}

static void publish__not_while_memory_is_lent(void **state)
{
	struct pair pair;
	struct ring_in *in;
	struct ring_out *back;
	static uint8_t bytes[1000];
	uint64_t published, handled;

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	pair_progress(&pair, 20);
	in = in_of(&pair);
	back = &shm_link(in->peer)->out;
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	thole_progress(pair.b);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	assert_true(ring_slot(back->segment, back->produced - 1)->place & (uint32_t)PLACE_LENT);
	published = in->segment->consumed;
	handled = in->handled;
	for (int i = 0; i < 5 * PUBLISH_POLLS; i++)
		thole_progress(pair.b);
	assert_int_equal(in->segment->consumed, published);
	for (int i = 0; i < 5 * PUBLISH_POLLS; i++)
		thole_progress(pair.a);
	for (int i = 0; i < 5 * PUBLISH_POLLS; i++)
		thole_progress(pair.b);
	assert_int_equal(in->segment->consumed, handled);
	pair_close(&pair);
}

/* An answer lies in memory of the asker, who looks at nothing and sends on: he has that memory and his slots back when
 * he finds no room, since then he looks, and so handles the answer. */
static void push__asker_never_looks(void **state)
{
	enum { MESSAGES = 4 * RING_SLOTS };
	static uint8_t bytes[1000], there[1000];
	struct thole_request *receive;
	struct pair pair;

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	pair_progress(&pair, 20);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	thole_progress(pair.b);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	assert_true(shm_link(in_of(&pair)->peer)->out.lent_until > 0);
	for (int i = 0; i < MESSAGES; i++) {
		bool done = false;

		assert_int_equal(thole_recv(pair.b, pair.b_to_a, there, sizeof(there), 2, UINT64_MAX, 0, NULL,
					    &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 10, 2, 0, THOLE_INJECT | THOLE_QUIET, NULL,
					    NULL), 0);
		for (int turn = 0; turn < 100 * PUBLISH_POLLS && !done; turn++)
			done = thole_test(pair.b, receive, NULL);
		assert_true(done);
	}
	pair_close(&pair);
}

/* A piece of a message of 64 KiB, by itself. */
static void push_half(struct pair *pair, const char *bytes, bool first)
{
	const struct record head = {
		.kind = RECORD_EAGER, .flags = RECORD_MORE, .length = RECORD_EXTERNAL, .tag = 9, .arg = {65536}};
	const struct record piece = {.kind = RECORD_PIECE, .length = RECORD_EXTERNAL};
	struct iovec segment = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = 65536};
	struct vector payload = {.segments = &segment, .count = 1, .length = 65536};

	assert_int_equal(ring_push(&pair->a->peers[pair->a_to_b]->base, first ? &head : &piece, &payload,
				   first ? 0 : 32768, 32768),
			 0);
}

/* Bytes of the last message, of 64 KiB, that lie in memory that it borrows. */
static uint32_t lent_pieces(const struct ring_out *out)
{
	uint32_t bytes = 0, lent = 0;

	for (uint64_t slot = out->produced; bytes < 65536;) {
		const struct record *record = ring_slot(out->segment, --slot);

		bytes += record->bytes;
		lent += record->place & (uint32_t)PLACE_LENT ? record->bytes : 0;
	}
	return lent;
}

/* While a message of a dialogue comes in pieces, the memory of those that are here is held, so that the answer borrows
 * all of it, but not for ever: the other side may need it. */
static void publish__not_amid_a_message(void **state)
{
	static const char *const options[] = {"bulk=ring", "eager_max=64k", "look_again=0", NULL};
	struct pair pair, back;
	struct ring_in *in;
	struct ring_out *answers;
	char *bytes = pair_filled(3, 65536), *got = malloc(65536);

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	in = in_of(&pair);
	answers = out_of(&back);
	for (int late = 0; late < 2; late++) {
		struct thole_request *receive;
		uint64_t consumed;
		uint32_t place;

		slots_of(&pair, 1, 65536);
		slots_of(&back, 2, 65536);
		pair_progress(&pair, 5 * PUBLISH_POLLS);
		consumed = in->segment->consumed;
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, got, 65536, 9, UINT64_MAX, 0, NULL, &receive), 0);
		push_half(&pair, bytes, true);
		for (int i = 0; i < (late ? 2 * PUBLISH_POLLS_AMID : 5 * PUBLISH_POLLS); i++)
			thole_progress(pair.b);
		assert_int_equal(in->segment->consumed > consumed, late);
		push_half(&pair, bytes, false);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		pair_check(3, got, 65536);
		assert_int_equal(in->run_end - in->run_start, late ? 32768 : 65536);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, 65536, 1, 0, THOLE_QUIET, NULL, NULL), 0);
		place = ring_slot(answers->segment, answers->produced - 1)->place;
		assert_int_equal((place & (uint32_t)PLACE_LENT) != 0, !late);
		/* All of it or nothing. */
		assert_int_equal(lent_pieces(answers), late ? 0 : 65536);
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, got, 65536, 1, UINT64_MAX, 0, NULL, &receive), 0);
		assert_int_equal(pair_finish(&pair, pair.a, receive, NULL), 0);
	}
	free(bytes);
	free(got);
	pair_close(&pair);
}

/* Both send and then receive. */
struct crossing {
	struct thole_endpoint *ends[2];
	uint32_t peers[2];
	struct thole_request *sends[2], *receives[2];
	char *out[2], *in[2];
};

static void crossing_send(struct crossing *crossing, int side, uint64_t id)
{
	for (size_t i = 0; i < 65536; i++)
		crossing->out[side][i] = (char)pair_byte(id << 1 | (uint64_t)side, i);
	assert_int_equal(thole_recv(crossing->ends[side], crossing->peers[side], crossing->in[side], 65536, id,
				    UINT64_MAX, 0, NULL, &crossing->receives[side]),
			 0);
	assert_int_equal(thole_send(crossing->ends[side], crossing->peers[side], crossing->out[side], 65536, id, 0, 0,
				    NULL, &crossing->sends[side]),
			 0);
}

static void crossing_finish(struct crossing *crossing, int side, uint64_t id)
{
	struct thole_completion completion;

	for (int i = 0; !thole_test(crossing->ends[side], crossing->receives[side], &completion); i++)
		assert_true(i < 100);
	pair_check(id << 1 | (uint64_t)(1 - side), crossing->in[side], 65536);
	assert_int_equal(thole_test(crossing->ends[side], crossing->sends[side], &completion), 1);
}

/* Where messages cross, each is written by the side that has just read there. At first only one side sends, whose
 * message the other's is an answer to, or none does. */
static void crossed__each_writes_what_it_read(void **state)
{
	static const char *const options[] = {"bulk=ring", "look_again=0", NULL};

	(void)state;
	for (int even = 0; even < 2; even++) {
		struct pair pair, back;
		struct crossing crossing;

		pair_open(&pair, options);
		connect_both(&pair);
		back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
		crossing = (struct crossing){.ends = {pair.a, pair.b}, .peers = {pair.a_to_b, pair.b_to_a}};
		for (int i = 0; i < 2; i++) {
			crossing.out[i] = malloc(65536);
			crossing.in[i] = malloc(65536);
		}
		if (!even)
			slots_of(&pair, 1, 65536);
		for (uint64_t id = 0; id < 40; id++) {
			crossing_send(&crossing, 0, id);
			crossing_send(&crossing, 1, id);
			crossing_finish(&crossing, 0, id);
			crossing_finish(&crossing, 1, id);
			if (id < 2)
				continue;
			if (even) { /* both in their own memory, or both in the other's */
				assert_int_equal(lent_pieces(out_of(&pair)), id % 2 ? 0 : 65536);
				assert_int_equal(lent_pieces(out_of(&back)), id % 2 ? 0 : 65536);
			} else {
				assert_int_equal(lent_pieces(out_of(&pair)), 0);
				assert_int_equal(lent_pieces(out_of(&back)), 65536);
			}
			assert_true(out_of(&pair)->areas[AREA_LARGE].head <= 3 * 65536);
		}
		for (int i = 0; i < 2; i++) {
			free(crossing.out[i]);
			free(crossing.in[i]);
		}
		pair_close(&pair);
	}
}

/* Payloads that go to and fro are what ballots on copies are about (takes.h), and not those of a stream. */
static void takes__of_dialogues_alone(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	enum { LENGTH = 4096, EXCHANGES = 40, ROW = 8 };
	static uint8_t out[LENGTH], in[ROW][LENGTH];
	struct thole_request *requests[ROW];
	struct thole_completion done;
	struct takes *takes;
	struct pair pair;
	uint32_t before;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	takes = &shm_of(&pair.b->base)->takes;
	takes->left = TAKES_REST;
	for (unsigned way = 0; way < 2; way++) {
		takes->now = shm_of(&pair.a->base)->takes.now = way; /* all of it arrives by both */
		before = takes->left;
		for (unsigned i = 0; i < 2 * EXCHANGES; i++) {
			struct thole_endpoint *from = i % 2 ? pair.b : pair.a, *to = i % 2 ? pair.a : pair.b;
			uint32_t there = i % 2 ? pair.b_to_a : pair.a_to_b, back = i % 2 ? pair.a_to_b : pair.b_to_a;

			memset(out, (int)(i + way), LENGTH);
			assert_int_equal(thole_recv(to, back, in[0], LENGTH, 3, UINT64_MAX, 0, NULL, &requests[0]), 0);
			assert_int_equal(thole_send(from, there, out, LENGTH, 3, 0, THOLE_QUIET | THOLE_INJECT, NULL,
						    NULL),
					 0);
			assert_int_equal(pair_finish(&pair, to, requests[0], &done), 0);
			assert_memory_equal(in[0], out, LENGTH);
		}
		assert_int_equal(before - takes->left, EXCHANGES);
	}
	before = takes->left;
	for (unsigned i = 0; i < ROW; i++) {
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in[i], LENGTH, 3, UINT64_MAX, 0, NULL, &requests[i]),
				 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, out, LENGTH, 3, 0, THOLE_QUIET | THOLE_INJECT, NULL,
					    NULL),
				 0);
	}
	for (unsigned i = 0; i < ROW; i++)
		assert_int_equal(pair_finish(&pair, pair.b, requests[i], &done), 0);
	assert_in_range(before - takes->left, 0, 1); /* the first one is not known to be */
	assert_false(pair.b->base.taking);
	pair_close(&pair);
}

/* Messages that cross go in longer pieces, each of which costs both sides something: who copies one out has written its
 * own before. In a dialogue, also one of messages that would be one such piece, they are as before. */
static void crossed__goes_in_longer_pieces(void **state)
{
	static const char *const options[] = {"bulk=ring", "look_again=0", NULL};
	struct crossing crossing;
	struct pair pair, back;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	crossing = (struct crossing){.ends = {pair.a, pair.b}, .peers = {pair.a_to_b, pair.b_to_a}};
	for (int i = 0; i < 2; i++) {
		crossing.out[i] = malloc(65536);
		crossing.in[i] = malloc(65536);
	}
	for (size_t length = 16384; length <= 65536; length *= 4) {
		for (uint64_t id = 1; id < 9; id++) {
			uint64_t before[2] = {out_of(&pair)->produced, out_of(&back)->produced};

			crossing_send(&crossing, 0, id);
			crossing_send(&crossing, 1, id);
			for (int side = 0; id > 1 && side < 2; side++)
				assert_int_equal(out_of(side ? &back : &pair)->produced - before[side],
						 65536 / PIECE_STREAM);
			crossing_finish(&crossing, 0, id);
			crossing_finish(&crossing, 1, id);
		}
		slots_of(&pair, 10, length);
		for (uint64_t id = 11; id < 16 + 2 * CROSSED_STAYS; id++) {
			unsigned pieces = length == 16384 ? 2 : 4;
			uint64_t there = slots_of(&back, 2 * id, length), here = slots_of(&pair, 2 * id + 1, length);

			if (id < 14 + CROSSED_STAYS)
				continue; /* what is borrowed of more than is needed is not yet known to be an answer */
			assert_int_equal(there, pieces);
			assert_int_equal(here, pieces);
		}
	}
	for (int i = 0; i < 2; i++) {
		free(crossing.out[i]);
		free(crossing.in[i]);
	}
	pair_close(&pair);
}

/* Where several messages cross, both sides stream, from the first message of a window on. One alone each is a dialogue
 * again. */
static void crossed__windows_are_streams(void **state)
{
	static const char *const options[] = {"bulk=ring", "look_again=0", NULL};
	enum { WINDOW = 3, LENGTH = 65536 };
	struct thole_request *receives[2][WINDOW], *sends[2][WINDOW];
	struct thole_completion completion;
	char *to = malloc(2 * WINDOW * LENGTH);
	struct pair pair, back;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	for (int round = 0; round < 20; round++) {
		int window = round < 8 ? WINDOW : 1;
		uint64_t before[2] = {out_of(&pair)->produced, out_of(&back)->produced};

		for (int i = 0; i < 2 * window; i++) {
			const struct pair *way = i < window ? &pair : &back;
			int side = i < window ? 0 : 1, k = i % window;

			assert_int_equal(thole_recv(way->a, way->a_to_b, to + i * LENGTH, LENGTH, 7, UINT64_MAX, 0,
						    NULL, &receives[side][k]), 0);
			assert_int_equal(thole_send(way->a, way->a_to_b, to, LENGTH, 7, 0, 0, NULL, &sends[side][k]),
					 0);
		}
		for (int side = 0; side < 2; side++) {
			const struct ring_out *out = out_of(side ? &back : &pair);
			bool stream = ring_slot(out->segment, before[side])->flags & RECORD_STREAM;

			if (round > 1 && (round < 8 || round > 8 + CROSSED_STAYS))
				assert_int_equal(stream, round < 8);
		}
		for (int i = 0; i < 2 * window; i++) {
			const struct pair *way = i < window ? &pair : &back;

			for (int n = 0; !thole_test(way->a, receives[i / window][i % window], &completion); n++) {
				assert_true(n < 1000);
				thole_progress(way->b);
			}
			assert_int_equal(completion.status, 0);
		}
		for (int i = 0; i < 2 * window; i++)
			assert_int_equal(thole_test((i < window ? &pair : &back)->a, sends[i / window][i % window],
						    &completion), 1);
	}
	free(to);
	pair_close(&pair);
}

/* A poll ends with a message, since its receiver answers, but not in a stream, where it ends with the last one that has
 * a receive. */
static void take__ends_with_a_message(void **state)
{
	static const char *const options[] = {"bulk=ring", "look_again=0", NULL};
	struct thole_completion completion;
	struct thole_request *receives[4];
	char *bytes = pair_filled(1, 65536), *to = malloc(4 * 65536);
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	pair_progress(&pair, 20);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to + i * 65536, 65536, 1, UINT64_MAX, 0, NULL,
					    &receives[i]), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 65536, 1, 0, THOLE_QUIET, NULL, NULL), 0);
	}
	for (int i = 0; i < 2; i++) /* these have no receive yet */
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 65536, 1, 0, THOLE_QUIET, NULL, NULL), 0);
	thole_progress(pair.b);
	assert_true(in_of(&pair)->next < out_of(&pair)->produced);
	assert_int_equal(out_of(&pair)->produced - in_of(&pair)->next, 5 * 65536 / PIECE_STREAM);
	thole_progress(pair.b);
	assert_int_equal(out_of(&pair)->produced - in_of(&pair)->next, 2 * 65536 / PIECE_STREAM);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(thole_test(pair.b, receives[i], &completion), 1);
		pair_check(1, to + i * 65536, 65536);
	}
	for (int left = 1; left >= 0; left--) { /* unexpected, and one a poll */
		thole_progress(pair.b);
		assert_int_equal(out_of(&pair)->produced - in_of(&pair)->next, left * 65536 / PIECE_STREAM);
	}
	free(bytes);
	free(to);
	pair_close(&pair);
}

/* So it does with a short one, wherever its payload lies: both sides may send at once, and the next one be here
 * already, for which no receive is posted yet. In a stream it goes on. */
static void take__ends_with_a_short_message(void **state)
{
	static const char *const options[] = {"look_again=0", NULL};
	static const uint32_t lengths[] = {0, 8, RECORD_INLINE_MAX + 1, SPAN_MAX + 1, 512, PIECE_OVERLAP};
	enum { MESSAGES = 4 };
	char to[PIECE_OVERLAP], *bytes = pair_filled(1, sizeof(to));
	struct thole_completion completion;
	struct thole_request *receive;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	for (uint32_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t length = lengths[i / 2], each = ring_slots(length > SPAN_MAX ? RECORD_EXTERNAL : length);
		bool stream = i % 2;

		for (int side = 0; side < 2; side++) { /* the last time they were not several */
			assert_int_equal(thole_send(side ? pair.b : pair.a, side ? pair.b_to_a : pair.a_to_b, bytes, 8,
						    2, 0, THOLE_QUIET, NULL, NULL), 0);
			pair_progress(&pair, 20);
		}
		for (uint32_t n = 0; n < MESSAGES; n++) {
			assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, length, 1, 0, THOLE_QUIET, NULL, NULL),
					 0);
			if (stream)
				continue;
			assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, 8, 2, 0, THOLE_QUIET, NULL, NULL), 0);
			thole_progress(pair.a);
		}
		for (uint32_t n = 0; n < MESSAGES; n++) {
			uint64_t left = out_of(&pair)->produced - in_of(&pair)->next;

			assert_int_equal(left, n > 0 && stream ? 0 : (MESSAGES - n) * each);
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, sizeof(to), 1, UINT64_MAX, 0, NULL,
						    &receive), 0);
			thole_progress(pair.b);
			if (stream && n == 0)
				thole_progress(pair.b); /* its first one was an answer */
			assert_int_equal(thole_test(pair.b, receive, &completion), 1);
			pair_check(1, to, length);
		}
		assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, 8, 2, 0, THOLE_QUIET, NULL, NULL), 0);
		pair_progress(&pair, 20);
	}
	free(bytes);
	pair_close(&pair);
}

static void send_short_ones(struct pair *pair, bool back, int count)
{
	char bytes[SPAN_MAX] = {0};

	for (int i = 0; i < count; i++)
		assert_int_equal(thole_send(back ? pair->b : pair->a, back ? pair->b_to_a : pair->a_to_b, bytes,
					    sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	pair_progress(pair, 20);
}

/* What was learnt of a row of messages holds until the next row, however many come the other way in between. */
static void turn__begins_with_the_first_answer(void **state)
{
	static const char *const options[] = {"look_again=0", NULL};
	const struct shm_peer *link;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	link = shm_link(&pair.a->peers[pair.a_to_b]->base);
	send_short_ones(&pair, true, 1);
	send_short_ones(&pair, false, TURN_LONG);
	send_short_ones(&pair, true, 3);
	assert_true(link->turns_several && link->turns_long && link->streaming);
	send_short_ones(&pair, false, 1);
	send_short_ones(&pair, true, 3);
	assert_false(link->turns_several || link->turns_long || link->streaming);
	pair_close(&pair);
}

static uint8_t last_pace(struct pair *pair)
{
	const struct ring_out *out = out_of(pair);

	return ring_slot(out->segment, out->produced - ring_slots(SPAN_MAX))->flags & RECORD_PACE;
}

/* Where messages crossed and none comes any more, those that go are taken to cross for a while only; and where only
 * short ones come, for a few of these. */
static void crossed__is_forgotten(void **state)
{
	static const char *const options[] = {"look_again=0", NULL};
	struct shm_peer *link;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	send_short_ones(&pair, true, 1);
	link = shm_link(&pair.a->peers[pair.a_to_b]->base);
	link->crossed = link->crossed_several = CROSSED_STAYS;
	link->turn_before = 5;
	for (int i = 0; i < 12; i++) {
		send_short_ones(&pair, false, 1);
		if (i > 0)
			assert_int_equal(last_pace(&pair), i < 10 ? RECORD_PACE : RECORD_STREAM);
	}
	for (int i = 0; i < CROSSED_STAYS; i++) {
		assert_int_equal(link->crossed, CROSSED_STAYS - i);
		send_short_ones(&pair, true, 3);
		send_short_ones(&pair, false, 2);
		assert_int_equal(last_pace(&pair), i + 1 < CROSSED_STAYS ? RECORD_PACE : RECORD_STREAM);
	}
	assert_int_equal(link->crossed + link->crossed_several, 0);
	pair_close(&pair);
}

/* Of which lengths the consumer wants an RTS is said for dialogues and streams apart. */
static void classes__of_dialogues_and_streams(void **state)
{
	static const char *const options[] = {"look_again=0", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	send_short_ones(&pair, false, 1);
	send_short_ones(&pair, true, 1);
	store_relaxed(&out_of(&pair)->segment->rendezvous_classes[PACE_STREAM], (uint32_t)UINT32_MAX);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 0);
	send_short_ones(&pair, false, 1);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 0);
	send_short_ones(&pair, false, 1);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 1);
	pair_close(&pair);
}

/* Whoever reads answers is far by most of the last votes. */
static void far__by_votes(void **state)
{
	uint8_t far = 0;

	(void)state;
	for (int i = 0; i < 10; i++)
		far = ring_voted(far, 100 + FAR_NS, 100);
	assert_int_equal(far, 0);
	for (int i = 1; i <= 10; i++) {
		far = ring_voted(far, 101 + FAR_NS, 100);
		assert_int_equal(far >= FAR_VOTES, i >= FAR_VOTES);
	}
	for (int i = FAR_VOTES_MAX - 1; i > -10; i--) {
		far = ring_voted(far, 100, 100);
		assert_int_equal(far >= FAR_VOTES, i >= FAR_VOTES);
	}
}

/* In a dialogue that is asked now and then: who runs on this core is near. And it does no harm to what is sent. */
static void far__asked_in_a_dialogue(void **state)
{
	static const char *const options[] = {"look_again=0", NULL};
	struct thole_request *receive;
	char asks, got;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	connect_both(&pair);
	shm_link(&pair.b->peers[pair.b_to_a]->base)->out.far = FAR_VOTES_MAX;
	for (int i = 0; i < 8 * FORESEEN_VOTE; i++) {
		struct thole_endpoint *from = i % 2 ? pair.b : pair.a, *to = i % 2 ? pair.a : pair.b;

		asks = (char)i;
		assert_int_equal(thole_recv(to, THOLE_ANY, &got, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(from, i % 2 ? pair.b_to_a : pair.a_to_b, &asks, 1, 0, 0, 0, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, to, receive, NULL), 0);
		assert_int_equal(got, asks);
	}
	assert_in_range(shm_link(&pair.b->peers[pair.b_to_a]->base)->out.far, 0, FAR_VOTES - 1);
	pair_close(&pair);
}

static struct pair *answered;
static uint64_t consumed_inside;

static void look_inside(void *arg, const struct thole_completion *completion)
{
	(void)arg;
	if (completion->operation == THOLE_OP_RECEIVE)
		consumed_inside = out_of(answered)->consumed;
}

/* The answer's record gives its memory back by its credit: only once it is handled, since it is read from there. */
static void credit__counts_when_the_record_is_handled(void **state)
{
	struct pair pair;
	static uint8_t bytes[1024], to[2][1024];
	uint64_t asked;

	(void)state;
	answered = &pair;
	pair.a = pair_endpoint(look_inside, NULL, small_options);
	pair.b = pair_endpoint(NULL, NULL, small_options);
	pair.a_to_b = pair_peer(pair.a, pair.b);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	connect_both(&pair);
	pair_progress(&pair, 20);
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, to[0], sizeof(to[0]), 1, 0, 0, NULL, NULL), 0);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, to[1], sizeof(to[1]), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	asked = out_of(&pair)->produced;
	thole_progress(pair.b);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL), 0);
	consumed_inside = UINT64_MAX;
	while (consumed_inside == UINT64_MAX)
		thole_progress(pair.a);
	assert_true(consumed_inside < asked);
	assert_int_equal(out_of(&pair)->consumed, asked);
	pair_close(&pair);
}

/* A consumer that says it is further than it can be stalls itself. */
static void reclaim__more_than_was_produced(void **state)
{
	struct pair pair;
	static uint8_t bytes[4096];

	(void)state;
	pair_open(&pair, small_options);
	connect_both(&pair);
	for (int i = 0; i < 10; i++)
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, sizeof(bytes), 1, 0, THOLE_QUIET, NULL, NULL),
				 0);
	{
		struct ring_out *out = out_of(&pair);
		struct ring_in *in = in_of(&pair);
		const uint64_t lies[] = {UINT64_MAX, UINT64_C(1) << 63, 1000, out->produced + 1};
		uint64_t consumed = out->consumed;

		assert_ptr_not_equal(out->segment, in->segment); /* one memory, mapped twice */
		for (int i = 0; i < 4; i++) {
			in->segment->consumed = lies[i];
			assert_true(ring_has_room(out, 0));
			assert_int_equal(out->consumed, consumed);
			assert_int_equal(out->areas[AREA_LARGE].live, 10);
		}
	}
	pair_close(&pair);
}

/* ---- Streams that walk ------------------------------------------------------------------------------ */

enum { STRIDE = 8192 };

/* One message one way, which is received. */
static void one_message(struct pair *pair, uint64_t id, size_t length, bool back)
{
	struct thole_endpoint *from = back ? pair->b : pair->a, *to = back ? pair->a : pair->b;
	uint8_t *sent = pair_filled(id, length), *got = calloc(1, length);
	struct thole_request *request;

	assert_int_equal(thole_recv(to, back ? pair->a_to_b : pair->b_to_a, got, length, 3, 0, 0, NULL, &request), 0);
	assert_int_equal(thole_send(from, back ? pair->b_to_a : pair->a_to_b, sent, length, 3, 0, THOLE_QUIET, NULL,
				    NULL), 0);
	assert_int_equal(pair_finish(pair, to, request, NULL), 0);
	pair_check(id, got, length);
	free(sent);
	free(got);
}

static void stride_message(struct pair *pair, uint64_t id, bool back)
{
	one_message(pair, id, STRIDE, back);
}

/* Walking is what is to be tried next of such messages. */
static struct passage *passage_before_walking(struct ring_out *out)
{
	struct passage *passage = &out->passages[passage_class(STRIDE)];

	*passage = (struct passage){.looks = true, .way = PASSAGE_STAYS, .timing = true, .bytes = STRIDE};
	passage->count = PASSAGE_SAMPLES - 1;
	passage->rest = PASSAGE_FIRST;
	return passage;
}

/* A stream goes through all of the longer area, over and over, though it is empty in between; a dialogue and a stream
 * of other copies do not. */
static void walk__through_the_longer_area(void **state)
{
	enum { LAP = 4 * 512 * 1024 / STRIDE };
	struct passage *passage;
	struct ring_out *out;
	struct pair pair;

	(void)state;
	pair_open(&pair, (const char *const[]){"look_again=0", NULL});
	connect_both(&pair);
	out = out_of(&pair);
	for (uint64_t i = 0; i < 20; i++) {
		stride_message(&pair, i, false);
		assert_true(out->areas[AREA_LARGE].head <= AREA_REUSE + STRIDE);
	}
	passage = passage_before_walking(out);
	passage->start_ns = clock_now_ns(); /* a fast line: past the caches is not tried */
	passage->bytes = 1ull << 40;
	stride_message(&pair, 20, false);
	assert_int_equal(passage->way, PASSAGE_WALKS);
	assert_int_equal(passage->left, LAP);
	assert_int_equal(shm_of(&pair.a->base)->walks, 1);
	for (uint64_t i = 0; i < 2 * LAP + 10; i++) {
		passage->left = UINT32_MAX;
		passage->way = i > LAP ? PASSAGE_WALKS_ONCE : PASSAGE_WALKS;
		stride_message(&pair, 21 + i, false);
		assert_int_equal(out->areas[AREA_WALK].head, (i % LAP + 1) * STRIDE);
		assert_int_equal((ring_slot(out->segment, out->produced - 1)->place & (uint32_t)PLACE_ONCE) != 0,
				 i > LAP);
	}
	for (uint64_t i = 0; i < 10; i++) {
		stride_message(&pair, i, true);
		stride_message(&pair, i, false);
	}
	/* The first one was a stream's, for all that was known. */
	assert_int_equal(out->areas[AREA_WALK].head, 11 * STRIDE);
	assert_int_equal(pair_counter(pair.a, "bad_records") + pair_counter(pair.b, "bad_records"), 0);
	pair_close(&pair);
}

/* Where there is no memory for it, or too many peers have one, streams stay where they were. */
static void walk__refused(void **state)
{
	(void)state;
	for (int full = 0; full < 2; full++) {
		struct passage *passage;
		struct ring_out *out;
		struct pair pair;

		pair_open(&pair, (const char *const[]){"look_again=0", NULL});
		connect_both(&pair);
		out = out_of(&pair);
		stride_message(&pair, 1, false);
		stride_message(&pair, 2, false);
		if (full) {
			close(out->fd);
			out->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		} else {
			shm_of(&pair.a->base)->walks = WALKS_MAX;
		}
		passage = passage_before_walking(out);
		passage->start_ns = clock_now_ns();
		passage->bytes = 1ull << 40;
		for (uint64_t i = 0; i < 20; i++)
			stride_message(&pair, i, false);
		assert_int_equal(out->areas[AREA_WALK].size, 0);
		assert_int_equal(passage->way, PASSAGE_STAYS);
		assert_int_equal(passage->rest, PASSAGE_REST_MIN);
		assert_true(out->areas[AREA_LARGE].head <= AREA_REUSE + STRIDE);
		pair_close(&pair);
	}
}

/* What a stream does is learnt, and nothing of a dialogue or of short messages. What goes past the caches is there
 * whole. */
static void passage__of_streams(void **state)
{
	enum { SHORTEST = SMALL_PAYLOAD_MAX + 1 };
	struct passage *passage;
	struct ring_out *out;
	struct pair pair;
	uint32_t left = 0;

	(void)state;
	pair_open(&pair, (const char *const[]){"look_again=0", NULL});
	connect_both(&pair);
	out = out_of(&pair);
	passage = &out->passages[0];
	for (uint64_t i = 0; i < 50; i++)
		one_message(&pair, i, SHORTEST, false);
	assert_int_equal(passage->rest, PASSAGE_FIRST);
	assert_in_range(passage->left, PASSAGE_FIRST - 50, PASSAGE_FIRST - 40);
	for (uint64_t i = 0; i < 30; i++) {
		one_message(&pair, i, 8, true); /* too short to lend its memory */
		left = i < 2 ? passage->left : left; /* until it is known for a dialogue */
		one_message(&pair, i, SHORTEST, false);
	}
	assert_int_equal(passage->left, left);
	for (uint64_t i = 0; i < 30; i++)
		one_message(&pair, i, SHORTEST - 1, false);
	assert_int_equal(passage->left, left);
	for (uint32_t i = 0; i < PASSAGE_CLASSES - 1; i++)
		out->passages[i] = (struct passage){.way = PASSAGE_PAST, .left = UINT32_MAX, .rest = PASSAGE_REST_MIN};
	for (uint64_t i = 0; i < 200; i++)
		one_message(&pair, i, SHORTEST + i * (STRIDE - SHORTEST) / 199, false);
	left = 0;
	for (uint32_t i = 0; i < PASSAGE_CLASSES - 1; i++)
		left += UINT32_MAX - out->passages[i].left;
	assert_int_equal(left, 200);
	assert_int_equal(pair_counter(pair.a, "bad_records") + pair_counter(pair.b, "bad_records"), 0);
	pair_close(&pair);
}

/* ---- Several rings ---------------------------------------------------------------------------------- */

enum { OTHERS = 21 };

/* One endpoint, and others that are connected to it. */
struct hub {
	struct thole_endpoint *hub, *others[OTHERS];
	uint32_t to_hub[OTHERS];
	uint64_t sent[OTHERS], got[OTHERS];
};

static void hub_say(struct hub *hub, int other)
{
	static uint8_t bytes[3000];
	uint64_t number = hub->sent[other]++, id = number << 8 | (uint64_t)other;
	size_t length = number * 7919 % (number % 4 ? 120 : sizeof(bytes));

	for (size_t i = 0; i < length; i++)
		bytes[i] = pair_byte(id, i);
	assert_int_equal(thole_send(hub->others[other], hub->to_hub[other], bytes, length, (uint64_t)other, number,
				    THOLE_IMM | THOLE_QUIET | THOLE_INJECT, NULL, NULL), 0);
}

/* One poll of the hub's, and what it has found. Returns how many messages. */
static int hub_hear(struct hub *hub)
{
	struct thole_completion completion;
	struct thole_message *message;
	struct thole_request *request;
	uint8_t to[3000];
	struct iovec segment = {to, sizeof(to)};
	int n = 0;

	thole_progress(hub->hub);
	while (receive_find(hub->hub, THOLE_ANY, 0, 0, 0)) {
		assert_int_equal(thole_message_probe(hub->hub, THOLE_ANY, 0, 0, 0, &completion, &message), 1);
		assert_int_equal(completion.imm, hub->got[completion.tag]);
		assert_int_equal(thole_message_recv(hub->hub, message, &segment, 1, 0, NULL, &request), 0);
		while (!thole_test(hub->hub, request, &completion))
			thole_progress(hub->others[completion.tag]);
		pair_check(hub->got[completion.tag]++ << 8 | completion.tag, to, completion.length);
		n++;
	}
	return n;
}

static void hub_open(struct hub *hub)
{
	*hub = (struct hub){.hub = pair_endpoint(NULL, NULL, small_options)};
	for (int i = 0; i < OTHERS; i++) {
		hub->others[i] = pair_endpoint(NULL, NULL, small_options);
		hub->to_hub[i] = pair_peer(hub->others[i], hub->hub);
		hub_say(hub, i);
		for (int turn = 0; hub->got[i] < hub->sent[i]; turn++) {
			assert_true(turn < PAIR_TURNS_MAX);
			thole_progress(hub->others[i]);
			hub_hear(hub);
		}
	}
}

static void hub_close(struct hub *hub)
{
	for (int i = 0; i < OTHERS; i++)
		thole_endpoint_close(hub->others[i]);
	thole_endpoint_close(hub->hub);
}

static void several__in_order(void **state)
{
	struct hub hub;
	uint64_t random = 3;
	int left = 40000;

	(void)state;
	hub_open(&hub);
	while (left > 0) {
		int other = (int)random_below(&random, OTHERS);

		for (uint32_t n = random_below(&random, 90); n > 0; n--)
			hub_say(&hub, other);
		for (uint32_t n = random_below(&random, 8); n > 0; n--)
			left -= hub_hear(&hub);
		thole_progress(hub.others[random_below(&random, OTHERS)]);
	}
	for (int i = 0; i < OTHERS; i++)
		for (int turn = 0; hub.got[i] < hub.sent[i]; turn++) {
			assert_true(turn < PAIR_TURNS_MAX);
			thole_progress(hub.others[i]);
			hub_hear(&hub);
		}
	for (int i = 0; i < 2 * PUBLISH_POLLS; i++) /* all producers are told */
		thole_progress(hub.hub);
	for (int i = 0; i < OTHERS; i++) {
		struct ring_out *out = &shm_link(&hub.others[i]->peers[hub.to_hub[i]]->base)->out;

		assert_int_equal(out->segment->consumed, out->produced);
	}
	hub_close(&hub);
}

/* One poll finds what is there, wherever that is and whatever was there before. */
static void several__all_are_polled(void **state)
{
	struct hub hub;

	(void)state;
	hub_open(&hub);
	for (int first = 0; first < OTHERS; first++) {
		for (int other = 0; other < OTHERS; other++) {
			hub_say(&hub, first);
			assert_int_equal(hub_hear(&hub), 1);
			hub_say(&hub, other);
			assert_int_equal(hub_hear(&hub), 1);
		}
	}
	hub_close(&hub);
}

/* Who always has something does not keep the others from being heard. */
static void several__all_have_their_turn(void **state)
{
	struct hub hub;

	(void)state;
	hub_open(&hub);
	for (int other = 1; other < OTHERS; other++) {
		int polls = 0;

		hub_say(&hub, 0);
		hub_hear(&hub);
		hub_say(&hub, other);
		for (; hub.got[other] < hub.sent[other]; polls++) {
			hub_say(&hub, 0);
			hub_hear(&hub);
		}
		assert_true(polls <= (OTHERS + RINGS_ROW) / RINGS_ROW + 1);
	}
	hub_close(&hub);
}

/* The others stay whole when some end, also those that were to be told something yet. */
static void several__some_end(void **state)
{
	struct hub hub;
	struct shm *shm;

	(void)state;
	hub_open(&hub);
	shm = shm_of(&hub.hub->base);
	for (int gone = OTHERS - 1; gone > 0; gone -= 2) {
		hub_say(&hub, gone);
		hub_hear(&hub);
		thole_endpoint_close(hub.others[gone]);
		while (shm->in_count > (uint32_t)(OTHERS - (OTHERS + 1 - gone) / 2)) {
			for (uint32_t i = 0; i < shm->in_count; i++)
				shm->in[i].ring->polls = 0; /* it is told late */
			hub_hear(&hub);
		}
		hub.others[gone] = NULL;
		for (int i = 0; i < OTHERS; i++) {
			if (!hub.others[i])
				continue;
			hub_say(&hub, i);
			assert_int_equal(hub_hear(&hub), 1);
		}
	}
	hub_close(&hub);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pull__again_and_again_of_one_window),
		cmocka_unit_test(lease__only_of_what_is_free),
		cmocka_unit_test(push__records_and_payloads_in_order),
		cmocka_unit_test(push__pieces_at_once),
		cmocka_unit_test(push__full_of_slots_and_full_of_bytes),
		cmocka_unit_test(stamp__differs_from_lap_to_lap),
		cmocka_unit_test(poll__payload_anywhere),
		cmocka_unit_test(poll__payload_longer_than_its_slots),
		cmocka_unit_test(pieces__of_dialogues_and_streams),
		cmocka_unit_test(publish__not_while_memory_is_lent),
		cmocka_unit_test(push__asker_never_looks),
		cmocka_unit_test(publish__not_amid_a_message),
		cmocka_unit_test(takes__of_dialogues_alone),
		cmocka_unit_test(crossed__each_writes_what_it_read),
		cmocka_unit_test(crossed__goes_in_longer_pieces),
		cmocka_unit_test(crossed__windows_are_streams),
		cmocka_unit_test(crossed__is_forgotten),
		cmocka_unit_test(take__ends_with_a_message),
		cmocka_unit_test(take__ends_with_a_short_message),
		cmocka_unit_test(turn__begins_with_the_first_answer),
		cmocka_unit_test(classes__of_dialogues_and_streams),
		cmocka_unit_test(far__by_votes),
		cmocka_unit_test(far__asked_in_a_dialogue),
		cmocka_unit_test(credit__counts_when_the_record_is_handled),
		cmocka_unit_test(reclaim__more_than_was_produced),
		cmocka_unit_test(walk__through_the_longer_area),
		cmocka_unit_test(walk__refused),
		cmocka_unit_test(passage__of_streams),
		cmocka_unit_test(several__in_order),
		cmocka_unit_test(several__all_are_polled),
		cmocka_unit_test(several__all_have_their_turn),
		cmocka_unit_test(several__some_end),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
