/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions, and put, get and atomics between two endpoints: data, refusals, notices, pieces and windows, and what is
 * said of them where memory is wanting. */
#include "pair.h"

enum { REGION = 400000, KEY = 7, GUARD = 64 };

static const char *const no_options[] = {NULL};
/* A ring smaller than a put that goes in pieces. */
static const char *const small_ring[] = {"bulk_ring=64k", "eager_max=1m", NULL};

static const char *const cooperative[] = {"one_copy=off", NULL};
static const char *const network[] = {"shm=off", "job_key=1", "interface=lo", NULL};

static const size_t lengths[] = {0, 1, 8, 40, 41, 1024, 5000, 8192, 8193, 65536, 65537, 300000};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

struct target {
	struct pair pair;
	uint8_t memory[GUARD + REGION + GUARD];
	struct thole_region *region;
};

static struct target target;

static void target_open(const char *const *options, unsigned access)
{
	pair_open(&target.pair, options);
	memset(target.memory, 0xcc, sizeof(target.memory));
	assert_int_equal(
		thole_expose(target.pair.b, target.memory + GUARD, REGION, access, KEY, &target, &target.region), 0);
}

static void target_close(void)
{
	for (int i = 0; i < GUARD; i++)
		assert_true(target.memory[i] == 0xcc && target.memory[GUARD + REGION + i] == 0xcc);
	pair_close(&target.pair);
}

/* A vector of `count` segments over contiguous bytes. */
static size_t cut(uint8_t *bytes, size_t length, size_t count, struct iovec *segments)
{
	for (size_t i = 0; i < count; i++)
		segments[i] = (struct iovec){bytes + length / count * i, i + 1 == count ? length - length / count * i
										 : length / count};
	return count;
}

static int put(uint8_t *bytes, size_t length, size_t count, uint64_t key, uint64_t offset, unsigned flags)
{
	struct thole_request *request;
	struct iovec segments[16];

	assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, segments, cut(bytes, length, count, segments),
				   key, offset, 5, flags, NULL, &request),
			 0);
	if (flags & THOLE_INJECT)
		memset(bytes, 0, length);
	return pair_finish(&target.pair, target.pair.a, request, NULL);
}

static int get(uint8_t *bytes, size_t length, size_t count, uint64_t key, uint64_t offset)
{
	struct thole_request *request;
	struct iovec segments[16];

	assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, segments, cut(bytes, length, count, segments),
				   key, offset, 0, NULL, &request),
			 0);
	return pair_finish(&target.pair, target.pair.a, request, NULL);
}

static void put_get_case(const char *const *options)
{
	target_open(options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	for (uint64_t i = 0; i < 3 * LENGTHS; i++) {
		size_t length = lengths[i % LENGTHS], count = i / LENGTHS == 0 ? 1 : 7;
		uint64_t offset = i % 2 ? REGION - length : 13;
		uint8_t *bytes = pair_filled(i, length), *back = calloc(1, length + 1);

		assert_int_equal(put(bytes, length, count, KEY, offset, i / LENGTHS == 2 ? THOLE_INJECT : 0), 0);
		pair_check(i, target.memory + GUARD + offset, length);
		assert_int_equal(get(back, length, i % 2 ? 1 : 5, KEY, offset), 0);
		pair_check(i, back, length);
		assert_int_equal(back[length], 0);
		free(bytes);
		free(back);
	}
	assert_int_equal(pair_counter(target.pair.b, "remote_errors"), 0);
	assert_int_equal(pair_counter(target.pair.a, "bad_records") + pair_counter(target.pair.b, "bad_records"), 0);
	target_close();
}

static void put_get__every_length_and_shape(void **state)
{
	(void)state;
	put_get_case(no_options);
	put_get_case(small_ring);
	put_get_case((const char *const[]){"bulk=ring", "eager_max=0", NULL});
	put_get_case((const char *const[]){"bulk=one-copy", "eager_max=40", NULL});
	put_get_case((const char *const[]){"bulk=cooperative", "cooperative_block=4k", "eager_max=40", NULL});
}

/* Refused at the first piece, while others are still to be pushed; and messages behind it are not touched. */
static void put_get__key_range_and_access(void **state)
{
	static const char *const *const options[] = {no_options, small_ring};
	static uint8_t bytes[REGION];
	uint64_t errors = 0;

	(void)state;
	for (int variant = 0; variant < 2; variant++) {
		struct thole_region *read_only;

		errors = 0;
		target_open(options[variant], THOLE_ACCESS_PUT);
		assert_int_equal(
			thole_expose(target.pair.b, target.memory + GUARD, 100, THOLE_ACCESS_GET, 8, NULL, &read_only),
			0);
		for (int i = 0; i < LENGTHS; i++) {
			size_t length = lengths[i];
			char got = 0, byte = 1;
			struct thole_request *receive;

			assert_int_equal(put(bytes, length, 1, 99, 0, 0), THOLE_ERR_KEY);
			assert_int_equal(put(bytes, length, 3, KEY, REGION - length + 1, 0), THOLE_ERR_RANGE);
			assert_int_equal(put(bytes, length, 1, KEY, UINT64_MAX - 1, 0), THOLE_ERR_RANGE);
			assert_int_equal(put(bytes, length, 2, 8, 0, 0), THOLE_ERR_ACCESS);
			assert_int_equal(get(bytes, length, 1, 99, 0), THOLE_ERR_KEY);
			assert_int_equal(get(bytes, length, 1, 8, UINT64_MAX), THOLE_ERR_RANGE);
			assert_int_equal(get(bytes, length, 1, KEY, 0), THOLE_ERR_ACCESS);
			errors += 7;
			/* The stream is where it should be. */
			assert_int_equal(thole_recv(target.pair.b, THOLE_ANY, &got, 1, 0, 0, 0, NULL, &receive), 0);
			assert_int_equal(
				thole_send(target.pair.a, target.pair.a_to_b, &byte, 1, 0, 0, THOLE_QUIET, NULL, NULL),
				0);
			assert_int_equal(pair_finish(&target.pair, target.pair.b, receive, NULL), 0);
			assert_int_equal(got, 1);
		}
		assert_int_equal(pair_counter(target.pair.b, "remote_errors"), errors);
		assert_int_equal(
			pair_counter(target.pair.a, "bad_records") + pair_counter(target.pair.b, "bad_records"), 0);
		for (int i = 0; i < REGION; i++)
			assert_int_equal(target.memory[GUARD + i], 0xcc);
		target_close();
	}
}

static void expose__keys_are_unique_and_free_again(void **state)
{
	struct thole_region *region;
	uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};

	(void)state;
	target_open(no_options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	assert_int_equal(thole_expose(target.pair.b, bytes, 8, THOLE_ACCESS_PUT, KEY, NULL, &region), THOLE_ERR_KEY);
	assert_int_equal(thole_expose(target.pair.b, bytes, 8, THOLE_ACCESS_ATTACH << 1, KEY + 1, NULL, &region),
			 THOLE_ERR_ARGUMENT);
	for (uint64_t key = 1000; key < 3000; key++) /* more than there are chains */
		assert_int_equal(thole_expose(target.pair.b, target.memory + GUARD + key, 8, THOLE_ACCESS_PUT,
					      key << 20, NULL, &region),
				 0);
	assert_int_equal(put(bytes, 8, 1, UINT64_C(2222) << 20, 0, 0), 0);
	assert_memory_equal(target.memory + GUARD + 2222, bytes, 8);
	thole_unexpose(target.pair.b, target.region);
	assert_int_equal(put(bytes, 8, 1, KEY, 0, 0), THOLE_ERR_KEY);
	assert_int_equal(
		thole_expose(target.pair.b, target.memory + GUARD, REGION, THOLE_ACCESS_PUT, KEY, NULL, &target.region),
		0);
	assert_int_equal(put(bytes, 8, 1, KEY, 0, 0), 0);
	target_close();
}

/* The whole address space: offsets are addresses. */
static void expose__everything(void **state)
{
	struct thole_region *region;
	uint8_t here[100], bytes[100], back[100];

	(void)state;
	target_open(no_options, THOLE_ACCESS_PUT);
	assert_int_equal(
		thole_expose(target.pair.b, NULL, SIZE_MAX, THOLE_ACCESS_PUT | THOLE_ACCESS_GET, 70, NULL, &region), 0);
	for (int i = 0; i < 100; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(put(bytes, 100, 1, 70, (uintptr_t)here, 0), 0);
	assert_memory_equal(here, bytes, 100);
	assert_int_equal(get(back, 100, 3, 70, (uintptr_t)here), 0);
	assert_memory_equal(back, bytes, 100);
	target_close();
}

/* Completions at the target: for immediate data, and for each access to a region that wants them. */
static void notice__put_with_imm_and_notify_regions(void **state)
{
	static uint8_t bytes[REGION];
	struct thole_completion completion;
	struct thole_region *quiet;

	(void)state;
	target_open(no_options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC | THOLE_NOTIFY);
	assert_int_equal(thole_expose(target.pair.b, target.memory + GUARD, REGION, THOLE_ACCESS_PUT, 8, bytes, &quiet),
			 0);
	for (int i = 0; i < LENGTHS; i++) {
		size_t length = lengths[i];
		uint64_t one = 1;
		struct thole_request *request;

		assert_int_equal(put(bytes, length, 1, 8, 10, 0), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 0);
		assert_int_equal(put(bytes, length, 1, 8, 10, THOLE_IMM), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 1);
		assert_int_equal(completion.operation, THOLE_OP_REMOTE_PUT);
		assert_int_equal(completion.imm, 5);
		assert_true(completion.flags & THOLE_IMM);
		assert_int_equal(completion.tag, 8);
		assert_int_equal(completion.length, length);
		assert_ptr_equal(completion.context, bytes);
		assert_ptr_equal(completion.buffer, target.memory + GUARD + 10);
		assert_int_equal(completion.peer, target.pair.b_to_a);
		assert_int_equal(put(bytes, length, 1, KEY, 0, 0), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 1);
		assert_int_equal(completion.operation, THOLE_OP_REMOTE_PUT);
		assert_false(completion.flags & THOLE_IMM);
		assert_int_equal(get(bytes, length, 1, KEY, 0), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 1);
		assert_int_equal(completion.operation, THOLE_OP_REMOTE_GET);
		assert_ptr_equal(completion.context, &target);
		assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b,
					      &(struct thole_atomic){.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1,
								     .operand = &one, .key = KEY, .offset = 8},
					      0, NULL, &request),
				 0);
		assert_int_equal(pair_finish(&target.pair, target.pair.a, request, NULL), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 1);
		assert_int_equal(completion.operation, THOLE_OP_REMOTE_ATOMIC);
		assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b,
					      &(struct thole_atomic){.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1,
								     .operand = &one, .result = &one, .key = KEY,
								     .offset = 8},
					      0, NULL, &request),
				 0);
		assert_int_equal(pair_finish(&target.pair, target.pair.a, request, NULL), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 1);
		assert_int_equal(completion.operation, THOLE_OP_REMOTE_ATOMIC_FETCH);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 0);
	}
	target_close();
}

/* Who is told that a region was read may write to it: what the get brings is what was there before. Of one whose peer
 * has not fetched it yet nobody is told, nor if that fails. */
static void notice__of_a_get_when_it_is_read(void **state)
{
	static const char *const *const ways[] = {no_options, small_ring, cooperative, network};

	(void)state;
	for (int i = 0; i < 4 * LENGTHS; i++) {
		size_t length = lengths[i % LENGTHS];
		uint8_t *back = calloc(1, length + 1);
		struct iovec segment = {back, length};
		struct thole_completion completion;
		struct thole_request *request;
		bool ended = false;
		int told = 0;

		target_open(ways[i / LENGTHS], THOLE_ACCESS_GET | THOLE_NOTIFY);
		assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, NULL, &request),
				 0);
		for (int turn = 0; turn < PAIR_TURNS_MAX && !(told && ended); turn++) {
			if (told)
				thole_progress(target.pair.b);
			else if ((told = thole_poll(target.pair.b, &completion, 1)))
				memset(target.memory + GUARD, 0xdd, REGION);
			ended = ended || thole_test(target.pair.a, request, NULL);
		}
		assert_true(told && ended);
		assert_int_equal(completion.operation, THOLE_OP_REMOTE_GET);
		assert_int_equal(completion.tag, KEY);
		assert_int_equal(completion.length, length);
		assert_ptr_equal(completion.context, &target);
		assert_ptr_equal(completion.buffer, target.memory + GUARD);
		for (size_t byte = 0; byte < length; byte++)
			assert_int_equal(back[byte], 0xcc);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 0);
		target_close();
		free(back);
	}
}

static void notice__of_no_get_that_was_not_read(void **state)
{
	static uint8_t back[REGION];
	struct iovec segment = {back, REGION};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct record finish = {.kind = RECORD_FINISH, .imm = finish_pack(THOLE_ERR_FAULT, 0)};
		struct thole_completion completion;
		struct thole_request *request;
		struct transport_peer *peer;
		struct list_node *node;

		target_open(no_options, THOLE_ACCESS_GET | THOLE_NOTIFY);
		peer = &endpoint_peer(target.pair.b, target.pair.b_to_a)->base;
		assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, NULL, &request),
				 0);
		while (!(node = list_first(&endpoint_peer(target.pair.b, target.pair.b_to_a)->pending)))
			thole_progress(target.pair.b);
		finish.tag = request_id(container_of(node, struct thole_request, node));
		if (i)
			target.pair.b->base.up->delivered(peer, &finish, NULL, 0);
		else
			peer_lost(endpoint_peer(target.pair.b, target.pair.b_to_a), THOLE_ERR_PEER);
		assert_int_equal(pair_counter(target.pair.b, "bad_records"), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 0);
		target_close();
	}
}

/* Nobody hears of a context whose region has ended, not even under another region's key. */
static void notice__of_a_region_that_has_ended(void **state)
{
	static uint8_t bytes[REGION] = {1};
	struct iovec segment = {bytes, REGION};

	(void)state;
	for (int again = 0; again < 2; again++) {
		struct thole_completion completion;
		struct thole_request *request;
		struct thole_region *other;

		target_open(small_ring, THOLE_ACCESS_PUT | THOLE_NOTIFY);
		assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 5, THOLE_IMM, NULL,
					   &request),
				 0);
		while (target.memory[GUARD] != 1)
			thole_progress(target.pair.b);
		assert_int_equal(target.memory[GUARD + REGION - 1], 0xcc);
		thole_unexpose(target.pair.b, target.region);
		if (again)
			assert_int_equal(
				thole_expose(target.pair.b, bytes, 8, THOLE_ACCESS_PUT, KEY, bytes, &other), 0);
		assert_int_equal(pair_finish(&target.pair, target.pair.a, request, NULL), 0);
		assert_int_equal(thole_poll(target.pair.b, &completion, 1), 1);
		assert_true(completion.operation == THOLE_OP_REMOTE_PUT && completion.flags & THOLE_IMM);
		assert_null(completion.context);
		target_close();
	}
}

/* ---- Atomics --------------------------------------------------------------------------------------- */

static int atomic(const struct thole_atomic *atomic, struct thole_completion *completion_p)
{
	struct thole_request *request;

	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b, atomic, 0, NULL, &request), 0);
	return pair_finish(&target.pair, target.pair.a, request, completion_p);
}

static void atomic__operates_and_fetches(void **state)
{
	enum { COUNT = THOLE_ATOMIC_BYTES_MAX / 8 };
	static uint64_t operand[COUNT], compare[COUNT], result[COUNT];
	uint64_t *cells;

	(void)state;
	for (int variant = 0; variant < 2; variant++) {
		target_open(variant ? small_ring : no_options,
			    THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC);
		cells = (uint64_t *)(void *)(target.memory + GUARD + 32);
		assert_int_equal((uintptr_t)cells % 8, 0);
		for (int count = 1; count <= COUNT;
		     count = count * 3 + 1 < COUNT || count == COUNT ? count * 3 + 1 : COUNT) {
			for (int i = 0; i < count; i++) {
				cells[i] = (uint64_t)i;
				operand[i] = 1000;
				compare[i] = i % 2 ? 1000 + (uint64_t)i : 5000000;
			}
			assert_int_equal(atomic(&(struct thole_atomic){.op = THOLE_SUM,
								       .type = THOLE_UINT64,
								       .count = (size_t)count,
								       .operand = operand,
								       .result = result,
								       .key = KEY,
								       .offset = 32},
						NULL),
					 0);
			for (int i = 0; i < count; i++)
				assert_true(result[i] == (uint64_t)i && cells[i] == 1000 + (uint64_t)i);
			assert_int_equal(atomic(&(struct thole_atomic){.op = THOLE_CSWAP,
								       .type = THOLE_UINT64,
								       .count = (size_t)count,
								       .operand = operand,
								       .compare = compare,
								       .result = result,
								       .key = KEY,
								       .offset = 32},
						NULL),
					 0);
			for (int i = 0; i < count; i++)
				assert_true(result[i] == 1000 + (uint64_t)i &&
					    cells[i] == (i % 2 ? 1000 : 1000 + (uint64_t)i));
			memset(result, 0, sizeof(result));
			assert_int_equal(atomic(&(struct thole_atomic){.op = THOLE_READ,
								       .type = THOLE_UINT64,
								       .count = (size_t)count,
								       .result = result,
								       .key = KEY,
								       .offset = 32},
						NULL),
					 0);
			assert_memory_equal(result, cells, (size_t)count * 8);
		}
		target_close();
	}
}

static void atomic__refused(void **state)
{
	struct thole_request *request;
	struct thole_region *region;
	uint64_t one = 1, result = 9;
	struct thole_atomic sum = {
		.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1, .operand = &one, .key = KEY, .offset = 32};
	struct thole_atomic wrong;

	(void)state;
	target_open(no_options, THOLE_ACCESS_ATOMIC | THOLE_ACCESS_PUT);
	assert_int_equal(thole_expose(target.pair.b, target.memory + GUARD, REGION, THOLE_ACCESS_PUT | THOLE_ACCESS_GET,
				      8, NULL, &region),
			 0);
	wrong = sum, wrong.key = 99;
	assert_int_equal(atomic(&wrong, NULL), THOLE_ERR_KEY);
	wrong = sum, wrong.key = 8;
	assert_int_equal(atomic(&wrong, NULL), THOLE_ERR_ACCESS);
	wrong = sum, wrong.result = &result; /* reading is not allowed */
	assert_int_equal(atomic(&wrong, NULL), THOLE_ERR_ACCESS);
	wrong = sum, wrong.offset = REGION - 7;
	assert_int_equal(atomic(&wrong, NULL), THOLE_ERR_RANGE);
	wrong = sum, wrong.offset = 33;
	assert_int_equal(atomic(&wrong, NULL), THOLE_ERR_ARGUMENT);
	wrong = sum, wrong.op = THOLE_BOR, wrong.type = THOLE_DOUBLE;
	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b, &wrong, 0, NULL, &request),
			 THOLE_ERR_UNSUPPORTED);
	wrong = sum, wrong.count = THOLE_ATOMIC_BYTES_MAX / 8 + 1;
	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b, &wrong, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	wrong = sum, wrong.operand = NULL;
	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b, &wrong, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(result, 9);
	for (int i = 0; i < REGION; i++)
		assert_int_equal(target.memory[GUARD + i], 0xcc);
	assert_int_equal(atomic(&sum, NULL), 0);
	target_close();
}

/* What was refused has moved nothing. */
static void put_get__refused_has_no_length(void **state)
{
	static uint8_t bytes[100];
	struct iovec segment = {bytes, sizeof(bytes)};
	struct thole_completion completion;
	struct thole_request *request;

	(void)state;
	target_open(no_options, THOLE_ACCESS_PUT);
	assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, 99, 0, 0, 0, NULL, &request), 0);
	assert_int_equal(pair_finish(&target.pair, target.pair.a, request, &completion), THOLE_ERR_KEY);
	assert_int_equal(completion.length, 0);
	assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, NULL, &request), 0);
	assert_int_equal(pair_finish(&target.pair, target.pair.a, request, &completion), THOLE_ERR_ACCESS);
	assert_int_equal(completion.length, 0);
	target_close();
}

/* ---- Want of memory ------------------------------------------------------------------------------------------ */

static bool wanting; /* there is memory for so many blocks more, and then for none */
static unsigned blocks_left;

void *__real_memalign(size_t alignment, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool block_refused(void)
{
	if (!wanting)
		return false;
	if (blocks_left == 0)
		return true;
	blocks_left--;
	return false;
}

void *__wrap_memalign(size_t alignment, size_t size)
{
	return block_refused() ? NULL : __real_memalign(alignment, size);
}

void *__wrap_malloc(size_t size)
{
	return block_refused() ? NULL : __real_malloc(size);
}

/* Receives that nothing comes for, until so many requests are left. */
static void requests_leave(struct thole_endpoint *endpoint, uint32_t left)
{
	static uint8_t byte;

	for (uint64_t tag = UINT64_MAX; endpoint->requests.capacity - endpoint->requests.live > left; tag--)
		assert_int_equal(thole_recv(endpoint, THOLE_ANY, &byte, 1, tag, ~UINT64_C(0), 0, NULL, NULL), 0);
}

static void ring_fill(struct thole_endpoint *from, uint32_t to)
{
	while (thole_send(from, to, "", 1, 0, 0, THOLE_QUIET | THOLE_OR_NOT, NULL, NULL) == 0)
		;
}

enum access { ACCESS_PUT, ACCESS_PUT_IMM, ACCESS_GET, ACCESS_SUM, ACCESS_FETCH, ACCESS_FETCH_LONG, ACCESSES };

/* One of so many bytes; the region has KEY where its owner is told of all of them, and KEY + 1 where it is not. */
static struct thole_request *access_start(enum access access, struct iovec *memory)
{
	static uint64_t operands[THOLE_ATOMIC_BYTES_MAX / 8], former[THOLE_ATOMIC_BYTES_MAX / 8];
	struct thole_atomic sum = {.op = THOLE_SUM, .type = THOLE_UINT64, .operand = operands, .key = KEY,
				   .count = access == ACCESS_FETCH_LONG ? THOLE_ATOMIC_BYTES_MAX / 8 : 1,
				   .result = access == ACCESS_SUM ? NULL : former};
	bool imm = access == ACCESS_PUT_IMM;
	struct thole_request *request = NULL;
	int error;

	operands[0] = 1;
	if (access == ACCESS_GET)
		error = thole_get(target.pair.a, target.pair.a_to_b, memory, 1, KEY, 0, 0, NULL, &request);
	else if (access <= ACCESS_PUT_IMM)
		error = thole_put(target.pair.a, target.pair.a_to_b, memory, 1, imm ? KEY + 1 : KEY, 0, 5,
				  imm ? THOLE_IMM : 0, NULL, &request);
	else
		error = thole_atomic(target.pair.a, target.pair.a_to_b, &sum, 0, NULL, &request);
	assert_int_equal(error, 0);
	return request;
}

static void told_case(enum access access, uint32_t left, bool full)
{
	uint8_t bytes[8] = {0}, before[8];
	struct iovec memory = {bytes, sizeof(bytes)};
	struct thole_completion notice;
	struct thole_request *request;
	struct thole_region *quiet;
	bool done, told, lost;
	int status;

	target_open(no_options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC | THOLE_NOTIFY);
	assert_int_equal(thole_expose(target.pair.b, target.memory + GUARD, REGION, THOLE_ACCESS_PUT, KEY + 1, NULL,
				      &quiet),
			 0);
	assert_int_equal(put(bytes, 1, 1, KEY, 8, 0), 0);
	assert_int_equal(thole_poll(target.pair.b, &notice, 1), 1);
	if (full)
		ring_fill(target.pair.b, target.pair.b_to_a);
	requests_leave(target.pair.b, left);
	memcpy(before, target.memory + GUARD, sizeof(before));
	request = access_start(access, &memory);
	wanting = true;
	for (int i = 0; i < 100; i++)
		thole_progress(target.pair.b);
	wanting = false;
	status = pair_finish(&target.pair, target.pair.a, request, NULL);
	done = access == ACCESS_GET ? !status : memcmp(before, target.memory + GUARD, sizeof(before)) != 0;
	told = thole_poll(target.pair.b, &notice, 1) == 1;
	lost = pair_counter(target.pair.b, "peers_gone") > 0; /* then its origin knows that nobody knows */
	if ((lost ? !status : done != !status) || told != done || (lost && !full))
		fail_msg("access %d, %u requests left, %s: status %d, done %d, told %d", (int)access, left,
			 full ? "no room" : "room", status, done, told);
	if (left > 2 && !full)
		assert_int_equal(status, access == ACCESS_FETCH_LONG ? THOLE_ERR_MEMORY : 0);
	target_close();
}

/* Who has no memory to say so does nothing: whoever asks again would have it done twice. And what is done is told to
 * both, unless one is lost to the other. */
static void told__both_sides_if_it_is_done(void **state)
{
	(void)state;
	for (int access = 0; access < ACCESSES; access++)
		for (uint32_t left = 0; left < 4; left++)
			for (int full = 0; full < 2; full++)
				told_case((enum access)access, left, full);
}

/* To ask for what it takes may end the peer. */
static void lost_case(bool get, unsigned blocks)
{
	static uint8_t bytes[8];
	struct iovec memory = {bytes, sizeof(bytes)};
	struct thole_request *request = NULL;
	uint8_t back[8];
	int error;

	target_open(no_options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	assert_int_equal(put(bytes, 0, 1, KEY, 0, THOLE_IMM), 0); /* they are connected */
	ring_fill(target.pair.a, target.pair.a_to_b);
	requests_leave(target.pair.a, 1);
	blocks_left = blocks;
	wanting = true;
	memory.iov_base = get ? back : bytes;
	error = get ? thole_get(target.pair.a, target.pair.a_to_b, &memory, 1, KEY, 0, 0, NULL, &request)
		    : thole_put(target.pair.a, target.pair.a_to_b, &memory, 1, KEY, 0, 0, 0, NULL, &request);
	wanting = false;
	if (error) {
		assert_int_equal(error, THOLE_ERR_MEMORY);
		assert_null(request);
		assert_int_equal(target.pair.a->requests.capacity - target.pair.a->requests.live, 1);
		assert_int_equal(pair_counter(target.pair.a, "peers_gone"), 1);
	} else {
		assert_int_equal(pair_finish(&target.pair, target.pair.a, request, NULL), 0);
	}
	assert_int_equal(error != 0, blocks == 1);
	target_close();
}

static void lost__while_it_is_asked(void **state)
{
	(void)state;
	for (unsigned blocks = 0; blocks < 4; blocks++) {
		lost_case(false, blocks);
		lost_case(true, blocks);
	}
}

/* Who is refused has no handle either. */
static void refused__has_no_handle(void **state)
{
	uint64_t one = 1, former;
	const struct thole_atomic sum = {.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1, .operand = &one,
					 .result = &former, .key = KEY};
	struct thole_request *request = NULL;

	(void)state;
	target_open(no_options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC);
	assert_int_equal(atomic(&sum, NULL), 0);
	ring_fill(target.pair.a, target.pair.a_to_b);
	blocks_left = 0;
	wanting = true; /* for a copy of the operand */
	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b, &sum, 0, NULL, &request), THOLE_ERR_MEMORY);
	wanting = false;
	assert_null(request);
	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b, &sum, 0, NULL, &request), 0);
	assert_int_equal(pair_finish(&target.pair, target.pair.a, request, NULL), 0);
	target_close();
}

/* ---- Records that no correct peer sends -------------------------------------------------------------------------- */

static const uint8_t payload[64];

static void arrives(struct thole_endpoint *at, uint32_t from, const struct record *record, uint32_t length)
{
	at->base.up->delivered(&endpoint_peer(at, from)->base, record, payload, length);
}

/* Operands are as many as the operation has, no more and no fewer: what lies behind them is not theirs. */
static void atomic__of_operands_that_cannot_be(void **state)
{
	static const struct {
		enum thole_atomic_op op;
		uint32_t bytes;
		bool good;
	} cases[] = {
		{THOLE_SUM, 32, true},    {THOLE_SUM, 31, false},   {THOLE_SUM, 8, false},   {THOLE_SUM, 0, false},
		{THOLE_SUM, 64, false},   {THOLE_CSWAP, 64, true},  {THOLE_CSWAP, 32, false}, {THOLE_READ, 0, true},
		{THOLE_READ, 32, false},
	};

	(void)state;
	target_open(no_options, THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bad = pair_counter(target.pair.b, "bad_records");
		struct record record = {.kind = RECORD_ATOMIC, .length = RECORD_EXTERNAL, .tag = KEY,
					.imm = (uint64_t)cases[i].op | (uint64_t)THOLE_UINT64 << 8 | (uint64_t)4 << 32,
					.arg[0] = cases[i].bytes};

		arrives(target.pair.b, target.pair.b_to_a, &record, cases[i].bytes);
		assert_int_equal(pair_counter(target.pair.b, "bad_records"), bad + !cases[i].good);
	}
	target_close();
}

/* How a get of 16 bytes ends that is answered so. */
static int answered(const struct record *answer, uint32_t length)
{
	static uint8_t to[16 + GUARD];
	struct record record = *answer;
	struct thole_request *request;
	struct thole_completion completion;

	memset(to, 0xcc, sizeof(to));
	assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &(struct iovec){to, 16}, 1, KEY, 0, 0, NULL,
				   &request),
			 0);
	record.kind = RECORD_REPLY;
	record.tag = request_id(request);
	arrives(target.pair.a, target.pair.a_to_b, &record, length);
	assert_int_equal(thole_test(target.pair.a, request, &completion), 1);
	for (int i = 16; i < 16 + GUARD; i++)
		assert_int_equal(to[i], 0xcc);
	return completion.status;
}

static void get__is_answered_with_another_length(void **state)
{
	struct record record = {.length = RECORD_EXTERNAL};

	(void)state;
	target_open(no_options, THOLE_ACCESS_GET);
	assert_int_equal(answered(&record, 16), 0);
	assert_int_equal(answered(&record, 0), THOLE_ERR_PROTOCOL);
	assert_int_equal(answered(&record, 15), THOLE_ERR_PROTOCOL);
	assert_int_equal(answered(&record, 17), THOLE_ERR_PROTOCOL);
	record.flags = RECORD_MORE;
	record.arg[0] = 17;
	assert_int_equal(answered(&record, 8), THOLE_ERR_PROTOCOL);
	record.arg[0] = 16;
	assert_int_equal(answered(&record, 17), THOLE_ERR_PROTOCOL);
	record.flags = RECORD_WINDOW;
	window_store(&(struct window){.length = 15, .count = 1}, &record);
	assert_int_equal(answered(&record, 0), THOLE_ERR_PROTOCOL);
	window_store(&(struct window){.length = 16, .count = 2}, &record);
	assert_int_equal(answered(&record, 0), THOLE_ERR_PROTOCOL);
	assert_int_equal(pair_counter(target.pair.a, "bad_records"), 7);
	target_close();
}

/* Each answer ends what it answers: a get is not over with the word that a message was taken, nor a message with an
 * answer to a get. */
static void answer__of_another_kind_ends_nothing(void **state)
{
	static uint8_t bytes[16], large[REGION];
	struct iovec segment = {bytes, sizeof(bytes)};
	struct transport_peer *peer;
	struct thole_request *request;
	struct record record;

	(void)state;
	target_open(no_options, THOLE_ACCESS_GET);
	peer = &endpoint_peer(target.pair.a, target.pair.a_to_b)->base;
	assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, NULL, &request), 0);
	record = (struct record){.kind = RECORD_FINISH, .tag = request_id(request)};
	target.pair.a->base.up->delivered(peer, &record, NULL, 0);
	assert_int_equal(pair_counter(target.pair.a, "bad_records"), 1);
	assert_int_equal(thole_test(target.pair.a, request, NULL), 0);
	assert_int_equal(pair_finish(&target.pair, target.pair.a, request, NULL), 0);

	assert_int_equal(thole_send(target.pair.a, target.pair.a_to_b, large, REGION, 1, 0, 0, NULL, &request), 0);
	record = (struct record){.kind = RECORD_REPLY, .tag = request_id(request)};
	target.pair.a->base.up->delivered(peer, &record, NULL, 0);
	assert_int_equal(pair_counter(target.pair.a, "bad_records"), 2);
	assert_int_equal(thole_test(target.pair.a, request, NULL), 0);
	target_close();
}

/* Whatever was under way ends with the peer. */
static void gone__pending_operations_end(void **state)
{
	static uint8_t bytes[REGION];
	struct thole_request *requests[4];
	struct iovec segment = {bytes, REGION};
	uint64_t one = 1, result;
	int driver; /* one that nobody asks before the answer is here */

	(void)state;
	target_open(small_ring, THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC);
	assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, 0, NULL, &requests[0]),
			 0);
	assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, NULL, &requests[1]), 0);
	assert_int_equal(thole_atomic(target.pair.a, target.pair.a_to_b,
				      &(struct thole_atomic){.op = THOLE_SUM,
							     .type = THOLE_UINT64,
							     .count = 1,
							     .operand = &one,
							     .result = &result,
							     .key = KEY,
							     .offset = 32},
				      0, NULL, &requests[2]),
			 0);
	target.pair.a->base.driver = (struct driver *)(void *)&driver;
	assert_int_equal(thole_attach(target.pair.a, target.pair.a_to_b, KEY, 0, 64, 0, NULL, &requests[3]), 0);
	target.pair.a->base.driver = NULL;
	for (int i = 0; i < 50; i++)
		thole_progress(target.pair.b);
	thole_endpoint_close(target.pair.b);
	for (int i = 0; i < 4; i++) {
		struct thole_completion completion;

		assert_int_equal(thole_wait(target.pair.a, requests[i], -1, &completion), 0);
		assert_int_equal(completion.status, THOLE_ERR_CLOSED);
	}
	assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, 0, 0, 0, NULL, &requests[0]),
			 THOLE_ERR_CLOSED);
	assert_int_equal(pair_counter(target.pair.a, "peers_gone"), 1);
	thole_endpoint_close(target.pair.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get__every_length_and_shape),
		cmocka_unit_test(put_get__key_range_and_access),
		cmocka_unit_test(expose__keys_are_unique_and_free_again),
		cmocka_unit_test(expose__everything),
		cmocka_unit_test(notice__put_with_imm_and_notify_regions),
		cmocka_unit_test(notice__of_a_get_when_it_is_read),
		cmocka_unit_test(notice__of_no_get_that_was_not_read),
		cmocka_unit_test(notice__of_a_region_that_has_ended),
		cmocka_unit_test(atomic__operates_and_fetches),
		cmocka_unit_test(atomic__refused),
		cmocka_unit_test(put_get__refused_has_no_length),
		cmocka_unit_test(told__both_sides_if_it_is_done),
		cmocka_unit_test(lost__while_it_is_asked),
		cmocka_unit_test(refused__has_no_handle),
		cmocka_unit_test(atomic__of_operands_that_cannot_be),
		cmocka_unit_test(get__is_answered_with_another_length),
		cmocka_unit_test(answer__of_another_kind_ends_nothing),
		cmocka_unit_test(gone__pending_operations_end),
	};

	return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
