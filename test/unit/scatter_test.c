/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DATA that lies in its place already when it is looked at first: what is not what was foreseen there is not taken,
 * whatever is wrong about it, and the place gets the right bytes in the end. With tags and without; and the same where
 * it is copied there once it was looked at.
 */
#include "unit.h"

#include <stdlib.h>

#include "transport/datagram/connection.h"
#include "transport/datagram/scatter.h"
#include "transport/datagram/mac.h"
#include "wire.h"

enum {
	FRAMES = 11,
	LEFT = 40,
	TYPE_AT = 0,
	VERSION_AT = 1,
	TO_AT = 7,
	SESSION_AT = 8,
	TRANSFER_AT = 20,
	OFFSET_AT = 31
};

static struct wire wires[2]; /* the inboxes of a and b */
static uint64_t now_ns;

struct frame {
	uint8_t bytes[2000];
	size_t length;
};

static bool whole; /* it comes in one piece, and is copied to its place later */

/* A window of FRAMES frames that b has asked for, and what a has sent of it. */
static struct {
	struct pair pair;
	struct thole_request *send, *receive;
	struct frame frames[FRAMES];
	uint8_t *out, *in;
	size_t length;
	enum guard_mode mode;
} one;

static struct engine *engine_b(void)
{
	return &datagram_of(&one.pair.b->base)->engine;
}

static void both(unsigned turns, uint64_t step_ns)
{
	for (unsigned i = 0; i < turns; i++, now_ns += step_ns) {
		endpoint_advance(one.pair.a, now_ns);
		endpoint_advance(one.pair.b, now_ns);
	}
}

/* Take a's DATA off the wire. */
static void frames_take(void)
{
	struct wire *wire = &wires[1];
	unsigned count = 0;

	for (; wire->head != wire->tail; wire->head++) {
		struct frame *frame = &one.frames[count];

		if (wire->frames[wire->head % 256][TYPE_AT] != PACKET_DATA)
			continue;
		assert_true(count++ < FRAMES);
		frame->length = wire->lengths[wire->head % 256];
		memcpy(frame->bytes, wire->frames[wire->head % 256], frame->length);
	}
	assert_int_equal(count, FRAMES);
}

static unsigned data_head(enum guard_mode mode)
{
	static const unsigned heads[] = {32, 48, 56};

	return heads[mode];
}

static void open_one(enum guard_mode mode)
{
	static const char *const names[] = {"integrity=off", "integrity=head", "integrity=full"};
	const char *const options[] = {"net_eager_max=0", "job_key=7", names[mode], NULL};

	now_ns = 1000000000;
	one.mode = mode;
	wired_open(&one.pair, wires, &codec_native, options, options);
	assert_int_equal(thole_send(one.pair.b, one.pair.b_to_a, "12345678", 8, 0, 0, THOLE_QUIET, NULL, NULL), 0);
	both(1000, 10000); /* the paths are measured */
	one.length = (FRAMES - 1) * ((1400 - data_head(mode)) & ~7u) + LEFT;
	one.out = pair_filled(mode, one.length);
	one.in = calloc(1, one.length);
	assert_int_equal(
		thole_recv(one.pair.b, one.pair.b_to_a, one.in, one.length, 9, UINT64_MAX, 0, NULL, &one.receive), 0);
	assert_int_equal(thole_send(one.pair.a, one.pair.a_to_b, one.out, one.length, 9, 0, 0, NULL, &one.send), 0);
	for (int i = 0; i < 100 && engine_b()->blocks.outstanding == 0; i++)
		both(1, 0);
	assert_int_equal(engine_b()->blocks.outstanding, one.length);
	for (int i = 0; i < 10; i++)
		endpoint_advance(one.pair.a, now_ns);
	frames_take();
}

static void close_one(void)
{
	endpoint_vanish(one.pair.a);
	endpoint_vanish(one.pair.b);
	free(one.in);
	free(one.out);
}

/* As the kernel does: `count` frames together, all but the last of them as long as the first, where it was told to
 * put them. */
static void land(const struct frame *frames, unsigned count)
{
	static struct scatter scatter;
	static uint8_t bytes[65536];
	size_t length = 0, at = 0;

	scatter.version = 0;
	scatter.most = 0;
	scatter.whole = whole;
	scatter_foresee(engine_b(), &scatter);
	for (unsigned i = 0; i < count; length += frames[i++].length)
		memcpy(bytes + length, frames[i].bytes, frames[i].length);
	for (unsigned i = 0; i < scatter.count && at < length; i++) {
		size_t part = length - at < scatter.iov[i].iov_len ? length - at : scatter.iov[i].iov_len;

		memcpy(scatter.iov[i].iov_base, bytes + at, part);
		at += part;
	}
	assert_int_equal(at, length);
	scatter_arrived(engine_b(), &wires[1].link, &wires[0].link.own, &scatter, length, frames[0].length);
}

static bool is_received(void)
{
	for (int i = 0; i < 5; i++)
		endpoint_advance(one.pair.b, now_ns);
	if (!thole_test(one.pair.b, one.receive, NULL))
		return false;
	assert_memory_equal(one.in, one.out, one.length);
	return true;
}

static bool mode_is_here(enum guard_mode mode)
{
	return mode != GUARD_FULL || mac_libcrypto();
}

static void scatter__all_in_their_places(void **state)
{
	(void)state;
	for (enum guard_mode mode = GUARD_OFF; mode < GUARD_MODES && mode_is_here(mode); mode++) {
		open_one(mode);
		land(one.frames, FRAMES - 1);
		assert_false(is_received());
		land(one.frames + FRAMES - 1, 1);
		assert_true(is_received());
		assert_int_equal(pair_counter(one.pair.b, "bulk_repairs"), 0);
		close_one();
	}
}

/* One frame of a batch with a byte another one: it alone is not taken, and the true one is, later. */
static void wrong(enum guard_mode mode, unsigned number, size_t at, const char *counter)
{
	struct frame right;

	open_one(mode);
	right = one.frames[number];
	one.frames[number].bytes[at] ^= 0x20;
	land(one.frames, FRAMES);
	assert_false(is_received());
	if (whole)
		assert_int_equal(one.in[number * (one.frames[0].length - data_head(mode))], 0);
	assert_int_equal(pair_counter(one.pair.b, counter), 1);
	assert_int_equal(pair_counter(one.pair.b, "bulk_repairs"), FRAMES);
	engine_frame(engine_b(), &wires[1].link, &wires[0].link.own, right.bytes, right.length);
	assert_true(is_received());
	close_one();
}

static void scatter__of_something_else(void **state)
{
	(void)state;
	for (enum guard_mode mode = GUARD_OFF; mode < GUARD_MODES && mode_is_here(mode); mode++)
		for (unsigned number = 0; number < FRAMES; number += 5) {
			const char *tagged = mode ? "dropped_forged" : NULL;

			wrong(mode, number, VERSION_AT, "dropped_malformed");
			wrong(mode, number, SESSION_AT, "dropped_session");
			wrong(mode, number, TO_AT, "dropped_session");
			wrong(mode, number, TRANSFER_AT, tagged ? tagged : "frames_duplicate");
			wrong(mode, number, OFFSET_AT, tagged ? tagged : "dropped_malformed");
			if (mode == GUARD_FULL)
				wrong(mode, number, one.frames[number].length - 1, tagged);
			if (tagged)
				wrong(mode, number, 40, tagged);
		}
}

/* Shorter, or longer, than it has to be there. */
static void scatter__of_another_length(void **state)
{
	(void)state;
	for (enum guard_mode mode = GUARD_OFF; mode < GUARD_MODES && mode_is_here(mode); mode++)
		for (int by = -8; by <= 8; by += 4) {
			struct frame other;

			if (by == 0)
				continue;
			open_one(mode);
			land(one.frames, FRAMES - 2);
			for (unsigned i = FRAMES - 2; i < FRAMES; i++) {
				uint64_t before =
					pair_counter(one.pair.b, mode ? "dropped_forged" : "dropped_malformed");

				other = one.frames[i];
				other.length = (size_t)((int)other.length + by);
				land(&other, 1);
				assert_int_equal(
					pair_counter(one.pair.b, mode ? "dropped_forged" : "dropped_malformed"),
					before + 1);
				engine_frame(engine_b(), &wires[1].link, &wires[0].link.own, other.bytes, other.length);
				assert_int_equal(
					pair_counter(one.pair.b, mode ? "dropped_forged" : "dropped_malformed"),
					before + 2);
			}
			assert_false(is_received());
			land(&one.frames[FRAMES - 2], 2);
			assert_true(is_received());
			close_one();
		}
}

/* Again, where others are awaited. */
static void scatter__twice(void **state)
{
	(void)state;
	for (enum guard_mode mode = GUARD_OFF; mode < GUARD_MODES && mode_is_here(mode); mode++) {
		const char *counter = mode ? "dropped_replayed" : "frames_duplicate";

		open_one(mode);
		land(one.frames, 4);
		assert_int_equal(pair_counter(one.pair.b, counter), 0);
		land(one.frames, 4);
		assert_int_equal(pair_counter(one.pair.b, counter), 4);
		land(one.frames + 4, FRAMES - 4);
		assert_true(is_received());
		close_one();
	}
}

/* One that was sent again has another counter than those around it: that is what is not taken again, and only
 * that. */
static void scatter__with_another_counter(void **state)
{
	struct frame_out again = {.head = one.frames[2].bytes};
	struct frame first;

	(void)state;
	open_one(GUARD_HEADS);
	first = one.frames[2];
	again.head_length = (uint32_t)first.length;
	assert_true(guard_stamp(connection_of(&endpoint_peer(one.pair.a, 0)->base)->guard, &codec_native, &again, 1));
	land(one.frames, 4);
	assert_int_equal(pair_counter(one.pair.b, "bulk_repairs"), 0);
	engine_frame(engine_b(), &wires[1].link, &wires[0].link.own, first.bytes, first.length);
	assert_int_equal(pair_counter(one.pair.b, "frames_duplicate"), 1);
	engine_frame(engine_b(), &wires[1].link, &wires[0].link.own, one.frames[2].bytes, first.length);
	assert_int_equal(pair_counter(one.pair.b, "dropped_replayed"), 1);
	land(one.frames + 4, FRAMES - 4);
	assert_true(is_received());
	assert_int_equal(pair_counter(one.pair.b, "bulk_repairs"), 0);
	close_one();
}

/* How many of so many long packets are read whole, where the two ways take so long. */
static unsigned wholes(struct scatter *scatter, unsigned packets, uint64_t parts_ns, uint64_t whole_ns)
{
	unsigned count = 0;

	for (unsigned i = 0; i < packets; i++) {
		count += scatter->whole;
		scatter_took(scatter, 62000, scatter->whole ? whole_ns : parts_ns);
	}
	return count;
}

static void scatter__the_quicker_way(void **state)
{
	static struct scatter scatter;
	uint32_t cost;

	(void)state;
	wholes(&scatter, 2 * SCATTER_TURNS, 8000, 6000);
	assert_int_equal(wholes(&scatter, SCATTER_TURNS, 8000, 6000), SCATTER_TURNS - SCATTER_TRIALS / 2);
	cost = scatter.cost[true];
	wholes(&scatter, SCATTER_TURNS, 8000, 600000); /* the core was somebody else's for a while */
	assert_in_range(scatter.cost[true], cost, cost + cost / 2);
	wholes(&scatter, 8 * SCATTER_TURNS, 5000, 6000);
	assert_int_equal(wholes(&scatter, SCATTER_TURNS, 5000, 6000), SCATTER_TRIALS / 2);
	scatter_took(&scatter, SCATTER_LONG - 1, 1); /* says nothing */
	assert_int_equal(scatter.turn, 0);
	assert_false(scatter_measures(&scatter));
	scatter_took(&scatter, 62000, 0);
	assert_int_equal(scatter.turn, 0);
	assert_true(scatter_measures(&scatter));
}

/* Where the kernel may not write, payload is copied, whichever way is quicker, until nothing is foreseen any more. */
static void scatter__spares_what_may_not_be_written(void **state)
{
	static struct scatter scatter;

	(void)state;
	open_one(GUARD_OFF);
	scatter_foresee(engine_b(), &scatter);
	assert_false(scatter.whole);
	scatter_spare(&scatter);
	scatter_foresee(engine_b(), &scatter);
	assert_ptr_equal(scatter.iov[0].iov_base, scatter.spill);
	assert_int_equal(wholes(&scatter, 4 * SCATTER_TURNS, 5000, 6000), 4 * SCATTER_TURNS);
	land(one.frames, FRAMES);
	assert_true(is_received());
	scatter_foresee(engine_b(), &scatter);
	wholes(&scatter, SCATTER_TURNS, 5000, 6000);
	assert_int_equal(wholes(&scatter, SCATTER_TURNS, 5000, 6000), SCATTER_TRIALS / 2);
	close_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scatter__all_in_their_places),
		cmocka_unit_test(scatter__of_something_else),
		cmocka_unit_test(scatter__of_another_length),
		cmocka_unit_test(scatter__twice),
		cmocka_unit_test(scatter__with_another_counter),
		cmocka_unit_test(scatter__the_quicker_way),
		cmocka_unit_test(scatter__spares_what_may_not_be_written),
	};
	int failed = cmocka_run_group_tests_name("scatter", tests, NULL, NULL);

	whole = true;
	return failed + cmocka_run_group_tests_name("scatter, whole", tests, NULL, NULL);
}
