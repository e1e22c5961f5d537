/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated SCI adapters: page lists, control blocks, the translation table, and that bytes go where they belong. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "sci.h"

enum { HOST_A, HOST_B };

static struct sci sci;
static struct sci_segment local, target;
static struct sci_remote remote;

static void open_pair(const struct sci_model *model, bool user, uint32_t local_offset, uint32_t remote_offset,
		      uint64_t length)
{
	sci_init(&sci, model, 7);
	assert_true(sci_segment_new(&sci, HOST_A, user, local_offset, length, &local));
	assert_true(sci_segment_new(&sci, HOST_B, user, remote_offset, length, &target));
	sci_prepare(&sci, HOST_A, &local);
	sci_prepare(&sci, HOST_B, &target);
	sci_connect(&sci, HOST_B, &target, &remote);
}

static void close_pair(void)
{
	sci_disconnect(&sci, HOST_B, &remote);
	sci_release(&sci, HOST_A, &local);
	sci_release(&sci, HOST_B, &target);
	assert_int_equal(sci.hosts[HOST_A].locks.locked + sci.hosts[HOST_B].locks.locked, 0);
	sci_segment_free(&sci, HOST_A, &local);
	sci_segment_free(&sci, HOST_B, &target);
	for (int host = 0; host < 2; host++) {
		assert_null(memchr(sci.hosts[host].taken, 1, sci.model.pages));
		for (uint32_t i = 0; i < sci.model.table_entries; i++)
			assert_int_equal(sci.hosts[host].table[i] + sci.hosts[host].table_users[i], 0);
	}
	sci_fini(&sci);
}

static void addresses__are_what_they_were(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (uint32_t count = 1; count <= SCI_ACKI_ADDRESSES; count++) {
		uint32_t before[SCI_ACKI_ADDRESSES], after[SCI_ACKI_ADDRESSES];
		uint8_t bytes[SCI_ACKI_ADDRESSES * SCI_ADDRESS_BITS / 8];

		for (uint32_t i = 0; i < count; i++)
			before[i] = (uint32_t)random_next(&random) & ((1u << SCI_ADDRESS_BITS) - 1);
		before[count - 1] = (1u << SCI_ADDRESS_BITS) - 1;
		sci_pack(before, count, bytes);
		sci_unpack(bytes, count, after);
		assert_memory_equal(before, after, count * sizeof(*before));
	}
}

/* Table I of the paper: within 1.5% of its times. */
static void connect__takes_messages(void **state)
{
	static const uint32_t messages[] = {0, 0, 0, 1, 2, 4, 8};
	static const uint64_t times_us[] = {389, 389, 399, 484, 600, 813, 1280};

	(void)state;
	for (uint32_t i = 0; i < 7; i++) {
		uint64_t before_ns, took_ns;

		open_pair(&sci_paper, true, 0, 0, (uint64_t)SCI_PAGE << i);
		assert_int_equal(sci.messages, messages[i]);
		sci_disconnect(&sci, HOST_B, &remote);
		before_ns = sci.now_ns;
		sci_connect(&sci, HOST_B, &target, &remote);
		took_ns = sci.now_ns - before_ns;
		assert_in_range(took_ns, times_us[i] * 985, times_us[i] * 1015);
		close_pair();
	}
	open_pair(&sci_paper, true, 0, 8, 4 * SCI_PAGE); /* in a fifth page */
	assert_int_equal(sci.messages, 1);
	close_pair();
	open_pair(&sci_paper, false, 0, 0, 64 * SCI_PAGE);
	assert_int_equal(sci.messages, 0);
	close_pair();
}

static void fill(uint8_t *bytes, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_next(&seed);
}

/* Every byte of the target is what is expected: `moved` from `at` on, else what it was. */
static void compare(const uint8_t *was, const uint8_t *moved, uint64_t at, uint64_t length)
{
	uint8_t *seen = malloc(target.length);

	sci_read(&sci, HOST_B, &target, 0, seen, target.length);
	assert_memory_equal(seen, was, at);
	assert_memory_equal(seen + at, moved, length);
	assert_memory_equal(seen + at + length, was + at + length, target.length - at - length);
	free(seen);
}

static void dma__moves_what_it_is_told(void **state)
{
	enum { LENGTH = 5 * SCI_PAGE };
	static uint8_t from[LENGTH], was[LENGTH];
	static const struct {
		uint32_t local, remote, blocks;
	} cases[] = {{0, 0, 4}, {8, 8, 5}, {2048, 0, 8}, {8, 0, 8}, {0, 8, 8}, {4088, 8, 9}};

	(void)state;
	fill(from, LENGTH, 1);
	fill(was, LENGTH, 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_pair(&sci_paper, true, cases[i].local, cases[i].remote, LENGTH);
		sci_write(&sci, HOST_A, &local, 0, from, LENGTH);
		sci_write(&sci, HOST_B, &target, 0, was, LENGTH);
		assert_int_equal(sci_dma(&sci, HOST_B, &local, 0, &remote, 0, 4 * SCI_PAGE), cases[i].blocks);
		assert_true(cases[i].blocks <= (4 + 1) * 2);
		compare(was, from, 0, 4 * SCI_PAGE);
		assert_int_equal(sci_dma(&sci, HOST_B, &local, 16, &remote, 4096, 24), 1);
		memcpy(was, from, 4 * SCI_PAGE);
		compare(was, from + 16, 4096, 24);
		close_pair();
	}
}

static void dma__refuses_what_it_cannot(void **state)
{
	static const uint8_t nothing[SCI_PAGE];

	(void)state;
	open_pair(&sci_paper, true, 8, 0, SCI_PAGE);
	assert_int_equal(sci_dma(&sci, HOST_B, &local, 8, &remote, 0, SCI_PAGE), 0);
	assert_int_equal(sci_dma(&sci, HOST_B, &local, 0, &remote, 8, SCI_PAGE), 0);
	assert_int_equal(sci_dma(&sci, HOST_B, &local, 4, &remote, 0, 8), 0);
	assert_int_equal(sci_dma(&sci, HOST_B, &local, 0, &remote, UINT64_MAX - 7, 16), 0);
	sci_release(&sci, HOST_A, &local);
	assert_int_equal(sci_dma(&sci, HOST_B, &local, 0, &remote, 0, 8), 0);
	compare(nothing, nothing, 0, 0);
	close_pair();
}

/* One control block where both sides are one piece, or where lists tell of runs. */
static void dma__takes_long_runs(void **state)
{
	struct sci_model runs = sci_paper;

	(void)state;
	open_pair(&sci_paper, false, 0, 0, 64 * SCI_PAGE);
	assert_int_equal(sci_dma(&sci, HOST_B, &local, 0, &remote, 0, 64 * SCI_PAGE), 1);
	close_pair();
	runs.run = 512;
	runs.list_runs = true;
	open_pair(&runs, true, 0, 0, 1024 * SCI_PAGE);
	assert_int_equal(sci.messages, 0);
	assert_true(sci_dma(&sci, HOST_B, &local, 0, &remote, 0, 1024 * SCI_PAGE) <= 2);
	close_pair();
}

static void window__shows_the_segment(void **state)
{
	enum { LENGTH = 3 * SCI_PAGE + 100 };
	static uint8_t bytes[LENGTH], seen[LENGTH];
	struct sci_model wide = sci_paper;

	(void)state;
	wide.table_granule = 16 * SCI_PAGE;
	fill(bytes, LENGTH, 3);
	for (int i = 0; i < 2; i++) {
		open_pair(i ? &wide : &sci_paper, true, 0, 40, LENGTH);
		assert_false(sci_store(&sci, HOST_B, &remote, 0, bytes, 8)); /* not mapped */
		assert_true(sci_map(&sci, HOST_B, &remote));
		assert_true(sci_store(&sci, HOST_B, &remote, 0, bytes, LENGTH));
		sci_read(&sci, HOST_B, &target, 0, seen, LENGTH);
		assert_memory_equal(seen, bytes, LENGTH);
		memset(seen, 0, LENGTH);
		assert_true(sci_load(&sci, HOST_B, &remote, 5000, seen, 3000));
		assert_memory_equal(seen, bytes + 5000, 3000);
		assert_false(sci_store(&sci, HOST_B, &remote, LENGTH - 4, bytes, 8));
		assert_false(sci_load(&sci, HOST_B, &remote, LENGTH - 4, seen, 8));
		close_pair();
	}
}

/* 4096 entries of a page each are 16 MB, as the paper says; what does not fit leaves nothing behind. */
static void window__has_a_bound(void **state)
{
	enum { MOST = 4096 };
	struct sci_segment more;
	struct sci_remote one;

	(void)state;
	open_pair(&sci_paper, true, 0, 0, (uint64_t)MOST * SCI_PAGE);
	assert_true(sci_segment_new(&sci, HOST_B, true, 0, 2 * SCI_PAGE, &more));
	sci_connect(&sci, HOST_B, &more, &one);
	assert_true(sci_map(&sci, HOST_B, &remote));
	assert_false(sci_map(&sci, HOST_B, &one));
	sci_unmap(&sci, HOST_B, &remote);
	assert_true(sci_map(&sci, HOST_B, &one));
	assert_false(sci_map(&sci, HOST_B, &remote));
	sci_disconnect(&sci, HOST_B, &one);
	assert_true(sci_map(&sci, HOST_B, &remote));
	sci_segment_free(&sci, HOST_B, &more);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses__are_what_they_were),
		cmocka_unit_test(connect__takes_messages),
		cmocka_unit_test(dma__moves_what_it_is_told),
		cmocka_unit_test(dma__refuses_what_it_cannot),
		cmocka_unit_test(dma__takes_long_runs),
		cmocka_unit_test(window__shows_the_segment),
		cmocka_unit_test(window__has_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
