/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets that the kernel makes without the target's process: when they do, how many go in one call, what is
 * refused, and that nobody is in a region that is exposed no more.
 *
 * process_vm_readv, process_vm_writev and nanosleep are counted, and something can happen in the middle of the former.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "endpoint/turn.h"
#include "pair.h"
#include "process_vm.h"

enum { REGION = 300000, KEY = 7, TURNS = 300, WINDOWS = 64, WINDOW = 4096 };

static const char *const local_only[] = {"network=off", "one_copy=on", "look_again=0", NULL};

static struct {
	int reads, writes;
	int error;             /* that calls come to */
	void (*before)(void);  /* once */
	void (*amid)(void);    /* once, when the first word is written and nothing else */
	bool faults;           /* nothing but the first word is written: once */
} kernel;

static struct {
	struct pair pair;
	uint8_t memory[REGION];
	struct thole_region *region;
} target;

static void kernel_call(int *count)
{
	void (*happens)(void) = kernel.before;

	++*count;
	kernel.before = NULL;
	if (happens)
		happens();
	errno = kernel.error;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	if (local_count == 1 && local->iov_len == sizeof(uint64_t)) /* a cookie */
		return __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
	kernel_call(&kernel.reads);
	return kernel.error ? -1 : __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	void (*happens)(void) = kernel.amid;

	kernel_call(&kernel.writes);
	kernel.amid = NULL;
	if (happens) {
		assert_int_equal(__real_process_vm_writev(pid, local, 1, remote, 1, flags), sizeof(uint64_t));
		happens();
	}
	if (kernel.faults) {
		kernel.faults = false;
		return __real_process_vm_writev(pid, local, 1, remote, 1, flags);
	}
	return kernel.error ? -1 : __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

static struct transport_peer *peer_of_a(void)
{
	return &target.pair.a->peers[target.pair.a_to_b]->base;
}

static void expose(unsigned access)
{
	assert_int_equal(thole_expose(target.pair.b, target.memory, REGION, access, KEY, NULL, &target.region), 0);
}

static struct thole_request *start(bool put, void *bytes, size_t length, uint64_t offset, unsigned flags)
{
	struct thole_request *request;
	struct iovec segment = {bytes, length};

	assert_int_equal((put ? thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, offset, 0, flags, NULL,
					  &request)
			      : thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY, offset, flags, NULL,
					  &request)),
			 0);
	return request;
}

/* With the target's help, where it is needed. */
static int finish(struct thole_request *request)
{
	return pair_finish(&target.pair, target.pair.a, request, NULL);
}

/* Without, within some turns. */
static bool is_made(struct thole_request *request, int *status_p)
{
	struct thole_completion completion;

	for (int turn = 0; turn < TURNS; turn++)
		if (thole_test(target.pair.a, request, &completion)) {
			*status_p = completion.status;
			return true;
		}
	return false;
}

static void make(bool put, void *bytes, size_t length, uint64_t offset, unsigned flags)
{
	int status = -1;

	assert_true(is_made(start(put, bytes, length, offset, flags), &status));
	assert_int_equal(status, 0);
}

static uint64_t shm_puts(void)
{
	return pair_counter(target.pair.a, "shm_puts");
}

/* Both know each other, and a the region, if it may. */
static void know(void)
{
	uint64_t word = 0;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(finish(start(false, &word, sizeof(word), 0, 0)), 0);
		pair_progress(&target.pair, 10);
	}
}

static void target_meet(const char *const *options)
{
	memset(&kernel, 0, sizeof(kernel));
	memset(target.memory, 0, REGION);
	pair_open(&target.pair, options);
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	know();
	kernel.reads = kernel.writes = 0;
}

/* Where a has seen that b does not come to what it is asked for. */
static void target_open(const char *const *options)
{
	uint64_t word;

	target_meet(options);
	make(false, &word, sizeof(word), 0, 0);
	kernel.reads = 0;
}

static void access__needs_no_help(void **state)
{
	static const size_t lengths[] = {1, 8, 4096, 16384, 100000, REGION};

	(void)state;
	target_open(local_only);
	for (uint64_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint8_t *bytes = pair_filled(i, lengths[i]), *back = calloc(1, lengths[i]);
		uint64_t offset = REGION - lengths[i];

		make(true, bytes, lengths[i], offset, 0);
		pair_check(i, target.memory + offset, lengths[i]);
		make(false, back, lengths[i], offset, 0);
		pair_check(i, back, lengths[i]);
		assert_int_equal(shm_puts(), i + 1);
		free(bytes);
		free(back);
	}
	pair_close(&target.pair);
}

/* Short ones a target that polls makes. */
static void access__is_asked_for(void **state)
{
	uint8_t *bytes = pair_filled(3, 2048), back[2048];

	(void)state;
	target_meet(local_only);
	for (size_t length = 1; length <= 2048; length += length < 100 ? 1 : 487) {
		struct thole_request *request;

		request = start(true, bytes, length, length, 0);
		thole_progress(target.pair.a);
		assert_int_equal(finish(request), 0);
		assert_memory_equal(target.memory + length, bytes, length);
		memset(back, 0, sizeof(back));
		assert_int_equal(finish(start(false, back, length, length, 0)), 0);
		assert_memory_equal(back, bytes, length);
	}
	assert_int_equal(kernel.reads + kernel.writes, 0);
	assert_int_equal(shm_puts(), 0);
	free(bytes);
	pair_close(&target.pair);
}

/* A record whose access was taken back changes nothing any more, and then the target is asked again. */
static void access__is_taken_back(void **state)
{
	uint64_t first = 1, second = 2;
	int status;

	(void)state;
	target_meet(local_only);
	assert_true(is_made(start(true, &first, sizeof(first), 0, 0), &status));
	assert_int_equal(kernel.writes, 1);
	make(true, &second, sizeof(second), 0, 0);
	assert_int_equal(kernel.writes, 2);
	pair_idle(&target.pair);
	assert_int_equal(target.memory[0], 2);
	assert_int_equal(finish(start(true, &first, sizeof(first), 8, 0)), 0);
	assert_int_equal(target.memory[8], 1);
	assert_int_equal(kernel.writes, 2);
	pair_close(&target.pair);
}

/* What a target was asked to make ends with it. */
static void access__is_asked_of_one_who_ends(void **state)
{
	struct thole_request *requests[2];
	uint64_t words[2] = {1, 2};
	int status = 0;

	(void)state;
	target_meet(local_only);
	for (int i = 0; i < 2; i++)
		requests[i] = start(i == 0, &words[i], sizeof(words[i]), 8 * (uint64_t)i, 0);
	assert_int_equal(shm_link(peer_of_a())->asked_count, 2);
	peer_lost(endpoint_peer(target.pair.a, target.pair.a_to_b), THOLE_ERR_PEER);
	for (int i = 0; i < 2; i++) {
		assert_true(is_made(requests[i], &status));
		assert_int_equal(status, THOLE_ERR_PEER);
	}
	assert_int_equal(words[1], 2);
	pair_close(&target.pair);
}

/* Who waits for it and sleeps does not poll so often. */
static void access__is_taken_back_before_sleep(void **state)
{
	uint64_t word = 5;
	struct thole_request *request;

	(void)state;
	target_meet(local_only);
	request = start(true, &word, sizeof(word), 0, 0);
	assert_int_equal(thole_arm(target.pair.a), THOLE_ERR_AGAIN);
	thole_progress(target.pair.a);
	assert_int_equal(target.memory[0], 5);
	assert_int_equal(finish(request), 0);
	pair_close(&target.pair);
}

static void access__of_ourselves(void **state)
{
	struct thole_region *region;
	uint64_t word = 5, back = 0, memory[2] = {0};
	struct thole_request *request;
	uint32_t self;

	(void)state;
	target_meet(local_only);
	self = pair_peer(target.pair.a, target.pair.a);
	assert_int_equal(thole_expose(target.pair.a, memory, sizeof(memory), THOLE_ACCESS_PUT | THOLE_ACCESS_GET, 30,
				      NULL, &region),
			 0);
	for (int i = 0; i < 5; i++) {
		word++;
		assert_int_equal(thole_put(target.pair.a, self, &(struct iovec){&word, 8}, 1, 30, 8, 0, 0, NULL,
					   &request),
				 0);
		assert_int_equal(finish(request), 0);
		assert_int_equal(memory[1], word);
		assert_int_equal(thole_get(target.pair.a, self, &(struct iovec){&back, 8}, 1, 30, 8, 0, NULL,
					   &request),
				 0);
		assert_int_equal(finish(request), 0);
		assert_int_equal(back, word);
	}
	thole_unexpose(target.pair.a, region);
	pair_close(&target.pair);
}

/* One that the target has claimed is waited for. */
static void access__is_not_taken_back(void **state)
{
	uint64_t word = 5, *asked;
	struct thole_request *request;
	int status;

	(void)state;
	target_meet(local_only);
	request = start(true, &word, sizeof(word), 0, 0);
	asked = &shm_link(peer_of_a())->out.segment->asked[shm_link(peer_of_a())->asked_number % ASKED];
	*asked |= 1;
	assert_false(is_made(request, &status));
	*asked &= ~UINT64_C(1);
	assert_int_equal(finish(request), 0);
	assert_int_equal(kernel.writes, 0);
	pair_close(&target.pair);
}

/* The target comes to some of them, and no more. */
static void access__is_taken_back_in_part(void **state)
{
	struct thole_request *requests[20];
	uint64_t words[20];
	int status;

	(void)state;
	target_meet(local_only);
	for (uint64_t round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 20; i++) {
			words[i] = 100 * round + i;
			requests[i] = start(true, &words[i], sizeof(words[i]), i * 8, 0);
			if (i == 7 && round != 2)
				thole_progress(target.pair.b);
		}
		for (uint64_t i = 0; i < 20; i++) {
			assert_true(is_made(requests[i], &status));
			assert_int_equal(status, 0);
		}
		assert_memory_equal(target.memory, words, sizeof(words));
		assert_int_equal(kernel.writes, 2 * (round + 1)); /* four found no word, and those taken back */
		memset(target.memory, 0, sizeof(words));
		pair_idle(&target.pair);
		assert_int_equal(target.memory[0], 0); /* nothing is made twice */
	}
	pair_close(&target.pair);
}

/* The region has ended between the question and the look at it. */
static void access__is_asked_for_in_vain(void **state)
{
	struct thole_request *request;
	uint64_t word = 5;

	(void)state;
	target_meet(local_only);
	request = start(true, &word, sizeof(word), 0, 0);
	thole_unexpose(target.pair.b, target.region);
	assert_int_equal(finish(request), THOLE_ERR_KEY);
	assert_int_equal(target.memory[0], 0);
	pair_close(&target.pair);
}

/* A record as no correct peer writes it. */
static void ask(uint64_t key, bool put, uint64_t offset, uint64_t length, uint32_t payload)
{
	static const uint8_t bytes[4096] = {9, 9, 9, 9, 9, 9, 9, 9};
	const struct iovec segment = {(void *)(uintptr_t)bytes, sizeof(bytes)};
	struct record record = {.kind = RECORD_ACCESS, .length = RECORD_EXTERNAL, .tag = key, .imm = 1000};

	record.arg[0] = length;
	record.arg[1] = put;
	record.arg[3] = offset;
	shm_link(peer_of_a())->out.segment->asked[1000 % ASKED] = 1000 << 2;
	assert_int_equal(ring_push(peer_of_a(), &record, &(struct vector){&segment, 1, sizeof(bytes)}, 0, payload), 0);
	thole_progress(target.pair.b);
	thole_progress(target.pair.a);
}

/* What a peer asks for is looked at as if it were not known to know better. */
static void asked__is_not_allowed(void **state)
{
	static uint8_t bytes[64], other[64];
	struct thole_region *region;
	uint64_t bad;

	(void)state;
	target_meet(local_only);
	assert_int_equal(thole_expose(target.pair.b, bytes, 32, THOLE_ACCESS_PUT, 20, NULL, &region), 0);
	assert_int_equal(thole_expose(target.pair.b, other, 64, THOLE_ACCESS_GET, 21, NULL, &region), 0);
	ask(20, true, 8, 8, 8);
	assert_int_equal(bytes[8], 9); /* this is */
	ask(20, true, 28, 8, 8);
	ask(20, true, UINT64_MAX - 3, 8, 8);
	ask(21, true, 0, 8, 8);
	ask(22, true, 0, 8, 8);
	for (int i = 0; i < 64; i++)
		assert_true(other[i] == 0 && (i / 8 == 1 || bytes[i] == 0));
	assert_int_equal(pair_counter(target.pair.b, "bad_records"), 0);
	bad = 0;
	for (int i = 0; i < 3; i++) {
		ask(20, i != 2, 0, i == 0 ? 16 : i == 1 ? 4096 : 8, i == 1 ? 4096 : 8); /* lengths that do not fit */
		assert_int_equal(pair_counter(target.pair.b, "bad_records"), ++bad);
	}
	assert_int_equal(bytes[0], 0);
	pair_close(&target.pair);
}

/* An answer of another length is none. */
static void asked__is_answered_with_another_length(void **state)
{
	struct transport_peer *peer;
	struct thole_request *request;
	uint64_t word = 0, value = 3;
	const struct iovec segment = {&value, sizeof(value)};
	struct record record = {.kind = RECORD_ACCESSED};
	uint64_t bad;

	(void)state;
	target_meet(local_only);
	peer = &target.pair.b->peers[target.pair.b_to_a]->base;
	request = start(false, &word, sizeof(word), 0, 0);
	record.tag = shm_link(peer_of_a())->asked_number;
	assert_int_equal(ring_push(peer, &record, &(struct vector){&segment, 1, 8}, 0, 4), 0);
	thole_progress(target.pair.a);
	assert_int_equal(pair_counter(target.pair.a, "bad_records"), 1);
	assert_int_equal(finish(request), 0);
	assert_int_equal(word, 0);

	/* Nor is one to an older question, of which the number stood in the same place. */
	bad = pair_counter(target.pair.a, "bad_records");
	request = start(false, &word, sizeof(word), 0, 0);
	record.tag = shm_link(peer_of_a())->asked_number - ASKED;
	assert_int_equal(ring_push(peer, &record, &(struct vector){&segment, 1, 8}, 0, 8), 0);
	thole_progress(target.pair.a);
	assert_int_equal(pair_counter(target.pair.a, "bad_records"), bad + 1);
	assert_int_equal(finish(request), 0);
	assert_int_equal(word, 0);
	pair_close(&target.pair);
}

/* Small ones share a call; what is put with INJECT is the caller's again at once. */
static void access__several_in_a_call(void **state)
{
	struct thole_request *requests[40];
	uint64_t word;
	int status;

	(void)state;
	target_open(local_only);
	for (uint64_t i = 0; i < 40; i++) {
		word = i + 1;
		requests[i] = start(true, &word, sizeof(word), i * 8, THOLE_INJECT);
	}
	assert_int_equal(kernel.writes, 1); /* a row is full */
	for (uint64_t i = 0; i < 40; i++) {
		assert_true(is_made(requests[i], &status));
		assert_int_equal(status, 0);
		memcpy(&word, target.memory + i * 8, sizeof(word));
		assert_int_equal(word, i + 1);
	}
	assert_int_equal(kernel.writes, 2);
	/* a get behind a put is in another call, and finds what was put */
	word = 77;
	requests[0] = start(true, &word, sizeof(word), 0, 0);
	requests[1] = start(false, &word, sizeof(word), 8, 0);
	assert_true(is_made(requests[0], &status) && is_made(requests[1], &status));
	assert_int_equal(word, 2);
	assert_int_equal(target.memory[0], 77);
	assert_int_equal(kernel.writes, 3);
	assert_int_equal(kernel.reads, 1);
	pair_close(&target.pair);
}

/* The target says what is wrong. */
static void access__range_and_kind(void **state)
{
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	assert_int_equal(finish(start(true, &word, sizeof(word), REGION - 7, 0)), THOLE_ERR_RANGE);
	assert_int_equal(finish(start(false, &word, sizeof(word), UINT64_MAX - 3, 0)), THOLE_ERR_RANGE);
	thole_unexpose(target.pair.b, target.region);
	expose(THOLE_ACCESS_GET);
	know();
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), THOLE_ERR_ACCESS);
	make(false, &word, sizeof(word), 0, 0);
	assert_int_equal(kernel.writes, 0);
	pair_close(&target.pair);
}

/* A key that nothing has says nothing of others. */
static void access__of_no_region(void **state)
{
	struct thole_request *request;
	uint64_t word = 5;
	struct iovec segment = {&word, sizeof(word)};

	(void)state;
	target_open(local_only);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, KEY + 1, 0, 0, 0, NULL,
					   &request),
				 0);
		assert_int_equal(finish(request), THOLE_ERR_KEY);
		pair_progress(&target.pair, 10);
	}
	make(true, &word, sizeof(word), 0, 0);
	pair_close(&target.pair);
}

/* Each its own region, with keys behind KEY. Of more bytes than the target would be asked for. */
static void windows_expose(struct thole_region **regions)
{
	for (unsigned i = 0; i < WINDOWS; i++)
		assert_int_equal(thole_expose(target.pair.b, target.memory + i * WINDOW, WINDOW, THOLE_ACCESS_PUT,
					      KEY + 1 + i, NULL, &regions[i]),
				 0);
}

static void window_put(unsigned window)
{
	static const uint8_t bytes[WINDOW];
	const struct iovec segment = {(void *)(uintptr_t)bytes, WINDOW};
	struct thole_request *request;

	assert_int_equal(thole_put(target.pair.a, target.pair.a_to_b, &segment, 1, KEY + 1 + window, 0, 0, 0, NULL,
				   &request),
			 0);
	assert_int_equal(finish(request), 0);
	pair_progress(&target.pair, 10);
}

static struct grant *window_grant(unsigned window)
{
	return grants_find(&shm_link(peer_of_a())->grants, KEY + 1 + window);
}

/* However many windows are used in turn, all are known from their second use on. */
static void access__windows_in_turn(void **state)
{
	struct thole_region *regions[WINDOWS];
	const struct pool *exports;
	uint64_t before;
	uint32_t live;

	(void)state;
	target_open(local_only);
	exports = &shm_of(&target.pair.b->base)->export_pool;
	windows_expose(regions);
	for (unsigned i = 0; i < WINDOWS; i++)
		window_put(i);
	before = shm_puts();
	for (unsigned i = 0; i < 2 * WINDOWS; i++)
		window_put(i % WINDOWS);
	assert_int_equal(shm_puts() - before, 2 * WINDOWS);
	/* Those that end are known no more, and all others are once they were asked for again. */
	for (unsigned i = 0; i < WINDOWS; i += 2)
		thole_unexpose(target.pair.b, regions[i]);
	for (unsigned i = 1; i < WINDOWS; i += 2)
		window_put(i);
	before = shm_puts();
	for (unsigned i = 1; i < WINDOWS; i += 2)
		window_put(i);
	assert_int_equal(shm_puts() - before, WINDOWS / 2);
	assert_null(window_grant(0));
	/* One of a key that had another is noted anew. */
	live = exports->live;
	assert_int_equal(thole_expose(target.pair.b, target.memory, WINDOW, THOLE_ACCESS_PUT, KEY + 1, NULL,
				      &regions[0]),
			 0);
	window_put(0);
	assert_int_equal(exports->live, live + 1);
	window_put(0);
	assert_int_equal(shm_puts() - before, WINDOWS / 2 + 1);
	pair_close(&target.pair);
}

/* Who has no room to note that a region is known says so once, and not at each access, until there is some. */
static void access__target_knows_no_more(void **state)
{
	struct thole_region *regions[WINDOWS];
	struct grant *grant;
	struct pool *pool;
	uint64_t before;

	(void)state;
	target_open(local_only);
	windows_expose(regions);
	pool = &shm_of(&target.pair.b->base)->export_pool;
	pool->bound = pool->capacity;
	for (unsigned i = 0; i < WINDOWS; i++)
		window_put(i);
	assert_int_equal(pool->live, pool->bound);
	grant = window_grant(WINDOWS - 1);
	assert_non_null(grant);
	assert_true(grant->told && !grant->access);
	before = shm_puts();
	window_put(WINDOWS - 1);
	assert_int_equal(shm_puts(), before);
	assert_ptr_equal(window_grant(WINDOWS - 1), grant);
	thole_unexpose(target.pair.b, regions[0]);
	for (int i = 0; i < 2; i++)
		window_put(WINDOWS - 1);
	assert_int_equal(shm_puts(), before + 1);
	pair_close(&target.pair);
}

/* Of a region with a notice for each access its owner has to know. */
static void access__not_of_what_is_to_be_noticed(void **state)
{
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	thole_unexpose(target.pair.b, target.region);
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_NOTIFY);
	know();
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), 0);
	assert_int_equal(shm_puts(), 0);
	/* one without */
	thole_unexpose(target.pair.b, target.region);
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	know();
	make(true, &word, sizeof(word), 0, 0);
	pair_close(&target.pair);
}

static void access__ways_that_are_off(void **state)
{
	static const char *const none[] = {"network=off", "one_copy=off", NULL};
	static const char *const ring[] = {"network=off", "bulk=ring", NULL};
	uint64_t word = 5;

	(void)state;
	for (int i = 0; i < 2; i++) {
		target_meet(i ? ring : none);
		assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), 0);
		assert_int_equal(kernel.reads + kernel.writes, 0);
		pair_close(&target.pair);
	}
}

/* Whoever sleeps is woken, since no descriptor shows that it is to be made. */
static void access__beside_a_sleeper(void **state)
{
	struct thole_request *request;
	uint64_t word = 5;
	int status = -1;

	(void)state;
	target_open(local_only);
	for (int i = 0; i < 2; i++) {
		while (thole_arm(target.pair.a) != 0)
			thole_progress(target.pair.a);
		assert_false(pair_readable(target.pair.a));
		request = start(true, &word, sizeof(word), 0, 0);
		assert_true(pair_readable(target.pair.a));
		assert_true(is_made(request, &status));
		assert_int_equal(status, 0);
		assert_int_equal(shm_puts(), i + 1);
	}
	while (thole_arm(target.pair.a) != 0)
		thole_progress(target.pair.a);
	assert_false(pair_readable(target.pair.a));
	pair_close(&target.pair);
}

/* Under the same key there is other memory, or nothing. */
static void unexpose__is_known_at_once(void **state)
{
	static uint8_t other[64];
	struct thole_region *region;
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	thole_unexpose(target.pair.b, target.region);
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), THOLE_ERR_KEY);
	assert_int_equal(target.memory[0], 0);
	assert_int_equal(thole_expose(target.pair.b, other, sizeof(other), THOLE_ACCESS_PUT | THOLE_ACCESS_GET, KEY,
				      NULL, &region),
			 0);
	know();
	make(true, &word, sizeof(word), 8, 0);
	assert_true(other[8] == 5 && target.memory[8] == 0);
	pair_close(&target.pair);
}

/* Begun before the region's end, and made after it. */
static void unexpose__what_was_put_off(void **state)
{
	struct thole_request *request;
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	request = start(true, &word, sizeof(word), 0, 0);
	thole_unexpose(target.pair.b, target.region);
	assert_int_equal(finish(request), THOLE_ERR_KEY);
	assert_int_equal(target.memory[0], 0);
	pair_close(&target.pair);
}

static struct {
	uint64_t took_ns;
	int pauses;
} unexposed;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	unexposed.pauses++;
	return __real_nanosleep(time, left);
}

static void unexpose_now(void)
{
	uint64_t start_ns = clock_now_ns();

	unexposed.pauses = 0;
	thole_unexpose(target.pair.b, target.region);
	unexposed.took_ns = clock_now_ns() - start_ns;
}

/* Until nobody could be in. */
static void unexpose_waited(void)
{
	assert_in_range(unexposed.took_ns, 60000000, UINT64_MAX);
}

/* In a call that has not written yet, and does not come to it as its process is stopped: the door is shut. */
static void unexpose__of_one_who_stands_before_the_door(void **state)
{
	static uint8_t many[4096] = {7};
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	kernel.before = unexpose_now;
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), THOLE_ERR_KEY);
	assert_int_equal(kernel.writes, 1);
	unexpose_waited();
	assert_int_equal(target.memory[0], 0);
	/* it has gone, and comes to another region as before */
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	know();
	make(true, many, sizeof(many), 0, 0);
	assert_int_equal(kernel.writes, 2);
	assert_int_equal(shm_puts(), 1);
	assert_memory_equal(target.memory, many, sizeof(many));
	pair_close(&target.pair);
}

static struct shm_peer *link_of_b(void)
{
	return shm_link(&target.pair.b->peers[target.pair.b_to_a]->base);
}

/* That b's region is to be reached is asked before a goes in, and answered while it stands there. */
static void unexpose_and_answer(void)
{
	const struct record question = {.kind = RECORD_REGION, .length = RECORD_EXTERNAL, .tag = KEY};

	unexpose_now();
	expose(THOLE_ACCESS_PUT);
	assert_int_equal(ring_push(peer_of_a(), &question, NULL, 0, 0), 0);
	thole_progress(target.pair.b);
}

/* While anybody may still stand before it, a door that was shut is not opened for anything else. */
static void unexpose__keeps_the_door_shut_meanwhile(void **state)
{
	static uint8_t many[4096] = {7};
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	kernel.before = unexpose_and_answer;
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), 0);
	assert_int_equal(kernel.writes, 1);
	assert_int_equal(shm_puts(), 0); /* not by the door */
	assert_int_not_equal(link_of_b()->shut_ns, 0);
	link_of_b()->offers_used = 1; /* somebody helps with a message */
	for (int i = 0; i < 2; i++)
		assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), 0);
	assert_int_equal(kernel.writes, 1);
	link_of_b()->offers_used = 0;
	assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), 0); /* it asks again */
	pair_progress(&target.pair, 10);
	assert_int_equal(link_of_b()->shut_ns, 0);
	make(true, many, sizeof(many), 0, 0);
	assert_int_equal(kernel.writes, 2);
	assert_int_equal(shm_puts(), 1);
	assert_int_equal(target.memory[0], 7);
	kernel.before = unexpose_and_answer; /* late again */
	assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), 0);
	kernel.before = NULL;
	for (int i = 0; i < 3; i++)
		assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), 0);
	pair_progress(&target.pair, 10);
	assert_int_not_equal(link_of_b()->shut_ns, 0); /* for a second */
	link_of_b()->shut_ns -= UINT64_C(1000000000);
	assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), 0);
	pair_progress(&target.pair, 10);
	assert_int_equal(link_of_b()->shut_ns, 0);
	pair_close(&target.pair);
}

static void unexpose_and_write(void)
{
	thole_unexpose(target.pair.b, target.region);
	memset(target.memory, 0xee, REGION);
}

/* Nobody can keep it from reading what its user has written since. But that is not what it gets. */
static void unexpose__of_one_who_reads_late(void **state)
{
	static uint8_t bytes[20000];

	(void)state;
	target_open(local_only);
	kernel.before = unexpose_and_write;
	assert_int_equal(finish(start(false, bytes, sizeof(bytes), 0, 0)), THOLE_ERR_KEY);
	assert_null(kernel.before);
	pair_close(&target.pair);
}

static void message_goes(uint64_t tag)
{
	uint8_t *bytes = pair_filled(tag, REGION), *back = calloc(1, REGION);
	struct thole_request *receive;

	assert_int_equal(thole_recv(target.pair.b, target.pair.b_to_a, back, REGION, tag, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(target.pair.a, target.pair.a_to_b, bytes, REGION, tag, 0, 0, NULL, NULL), 0);
	assert_int_equal(pair_finish(&target.pair, target.pair.b, receive, NULL), 0);
	pair_check(tag, back, REGION);
	pair_progress(&target.pair, 10);
	free(bytes);
	free(back);
}

/* Who is shut out may not write, but what it sends still comes; and with its help, once it has gone. */
static void unexpose__leaves_a_way_for_messages(void **state)
{
	static const char *const cooperative[] = {"network=off", "one_copy=on", "look_again=0", "bulk=cooperative",
						  NULL};
	uint64_t word = 5;

	(void)state;
	target_open(cooperative);
	kernel.before = unexpose_now;
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), THOLE_ERR_KEY);
	unexpose_waited();
	link_of_b()->in.segment->accessing = ACCESSING_PUT;
	message_goes(3);
	assert_int_equal(pair_counter(target.pair.b, "bulk_cooperative"), 0);
	link_of_b()->in.segment->accessing = ACCESSING_NONE;
	message_goes(4);
	assert_int_equal(pair_counter(target.pair.b, "bulk_cooperative"), 1);
	pair_close(&target.pair);
}

/* Who has passed the door, and finds that the memory behind it cannot be written, is out again: if it were stopped
 * before its next put, that would not be told from a copy which has to be waited for. */
static void unexpose__of_one_whose_put_has_faulted(void **state)
{
	static uint8_t many[20000] = {7};

	(void)state;
	target_open(local_only);
	kernel.faults = true;
	assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), 0);
	assert_int_equal(shm_puts(), 0);
	assert_false(door_is_passed(link_of_b(), DOOR_ACCESS));
	know();
	kernel.before = unexpose_now;
	assert_int_equal(finish(start(true, many, sizeof(many), 0, 0)), THOLE_ERR_KEY);
	assert_null(kernel.before);
	pair_close(&target.pair);
}

/* Another region of b's, which a knows, in memory that peers map. */
static struct {
	void *memory;
	struct thole_region *region;
} other;

static void other_open(void)
{
	uint64_t word;
	struct iovec segment = {&word, sizeof(word)};
	struct thole_request *request;

	assert_int_equal(thole_alloc(REGION, &other.memory), 0);
	memset(other.memory, 1, REGION);
	assert_int_equal(thole_expose(target.pair.b, other.memory, REGION, THOLE_ACCESS_GET, KEY + 1, NULL,
				      &other.region),
			 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(thole_get(target.pair.a, target.pair.a_to_b, &segment, 1, KEY + 1, 0, 0, NULL,
					   &request),
				 0);
		assert_int_equal(finish(request), 0);
		pair_progress(&target.pair, 10);
	}
	kernel.reads = kernel.writes = 0;
}

/* Nothing is taken from anybody for its end. */
static void other_close(void)
{
	struct arena_place place;

	assert_true(arena_find(other.memory, REGION, &place));
	thole_free(other.memory);
}

static void *other_end(void *unused)
{
	(void)unused;
	thole_unexpose(target.pair.b, other.region);
	return NULL;
}

static pthread_t other_ends;

/* Until it has been waited for long. */
static void other_ends_meanwhile(void)
{
	const struct segment *segment = link_of_b()->in.segment;
	uint64_t withdrawals = load_acquire(&segment->withdrawals);

	assert_int_equal(pthread_create(&other_ends, NULL, other_end, NULL), 0);
	while (load_acquire(&segment->withdrawals) == withdrawals)
		clock_sleep(1000000);
	clock_sleep(60000000);
}

/* A put that has begun is the kernel's to end: nothing is shut for it, and nobody takes it for one that stands. */
static void unexpose__amid_a_long_put_elsewhere(void **state)
{
	static uint8_t many[20000] = {7};

	(void)state;
	target_open(local_only);
	other_open();
	kernel.amid = other_ends_meanwhile;
	make(true, many, sizeof(many), 0, 0);
	assert_int_equal(pthread_join(other_ends, NULL), 0);
	assert_int_equal(shm_puts(), 1);
	assert_int_equal(target.memory[0], 7);
	other_close();
	pair_close(&target.pair);
}

static void other_ends_at_once(void)
{
	other_end(NULL);
	assert_int_equal(link_of_b()->shut_ns, 0);
}

/* Who reads can do no harm, and is shut out of nothing. */
static void unexpose__amid_a_long_get_elsewhere(void **state)
{
	static uint8_t many[20000];

	(void)state;
	target_open(local_only);
	other_open();
	kernel.before = other_ends_at_once;
	assert_int_equal(finish(start(false, many, sizeof(many), 0, 0)), 0);
	assert_null(kernel.before);
	/* it has its time again when it puts */
	know();
	assert_int_equal(link_of_b()->leave_ns, 0);
	other_close();
	pair_close(&target.pair);
}

/* A process of another PID namespace has no id here. It lives all the same, until its connection ends. */
static void unexpose__of_one_without_a_pid(void **state)
{
	struct transport_peer *peer;
	struct watch *watch;
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	peer = &target.pair.b->peers[target.pair.b_to_a]->base;
	watch = &shm_link(peer)->watch_in;
	shm_link(peer)->pid = 0;
	kernel.before = unexpose_now;
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), THOLE_ERR_KEY);
	unexpose_waited();
	assert_int_equal(target.memory[0], 0);
	assert_true(connect_lives(peer));
	thole_endpoint_close(target.pair.a);
	assert_false(connect_lives(peer));
	while (watch->fd >= 0) /* it is seen */
		watch->watcher.ready(peer->owner, &watch->watcher, clock_now_ns());
	assert_false(connect_lives(peer));
	thole_endpoint_close(target.pair.b);
}

static void unexpose__does_not_wait_for_nobody(void **state)
{
	(void)state;
	target_open(local_only);
	unexpose_now();
	assert_int_equal(unexposed.pauses, 0);
	pair_close(&target.pair);
}

/* The kernel refuses after all: by records, and not again. */
static void access__refused(void **state)
{
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	kernel.error = EPERM;
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), 0);
	assert_int_equal(target.memory[0], 5);
	know();
	assert_int_equal(finish(start(true, &word, sizeof(word), 8, 0)), 0);
	assert_int_equal(kernel.writes, 1);
	pair_close(&target.pair);
}

/* Of one that the kernel has refused it is known that its target has ended before it is done again: thole_tend, or
 * another thread, looks at that first. */
static void access__refused_by_one_who_has_ended(void **state)
{
	static uint8_t many[20000];
	struct thole_request *request;
	int status = 0;

	(void)state;
	target_open(local_only);
	kernel.error = ESRCH;
	request = start(true, many, sizeof(many), 0, 0);
	assert_int_equal(kernel.writes, 1);
	peer_lost(endpoint_peer(target.pair.a, target.pair.a_to_b), THOLE_ERR_PEER);
	assert_true(is_made(request, &status));
	assert_int_equal(status, THOLE_ERR_PEER);
	pair_close(&target.pair);
}

/* What was put off is not made any more, and nobody is told that it was. */
static void access__put_off_to_one_who_ends(void **state)
{
	struct thole_request *requests[2];
	uint64_t word = 5;
	int status = 0;

	(void)state;
	target_open(local_only);
	for (uint64_t i = 0; i < 2; i++)
		requests[i] = start(true, &word, sizeof(word), 8 * i, 0);
	assert_int_equal(shm_link(peer_of_a())->asked_count, 0);
	assert_false(list_empty(&shm_of(&target.pair.a->base)->accessing));
	peer_lost(endpoint_peer(target.pair.a, target.pair.a_to_b), THOLE_ERR_PEER);
	endpoint_maintain(target.pair.a, clock_now_ns());
	assert_non_null(shm_link(peer_of_a())); /* they are to be told of */
	for (int i = 0; i < 2; i++) {
		assert_true(is_made(requests[i], &status));
		assert_int_equal(status, THOLE_ERR_PEER);
	}
	assert_int_equal(target.memory[0], 0);
	endpoint_maintain(target.pair.a, clock_now_ns());
	assert_null(shm_link(peer_of_a()));
	pair_close(&target.pair);
}

static void access__of_one_who_closes(void **state)
{
	struct thole_completion completion;
	struct thole_request *request;
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	request = start(true, &word, sizeof(word), 0, 0);
	thole_endpoint_close(target.pair.b);
	assert_int_equal(thole_wait(target.pair.a, request, -1, &completion), 0);
	assert_int_equal(completion.status, THOLE_ERR_CLOSED);
	assert_int_equal(target.memory[0], 0);
	thole_endpoint_close(target.pair.a);
}

/* Its program computes: who looks after it sees to it. */
static void access__is_tended(void **state)
{
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	assert_int_equal(thole_tend(target.pair.a), 0);
	start(true, &word, sizeof(word), 0, 0);
	assert_int_equal(target.memory[0], 0);
	assert_int_equal(thole_tend(target.pair.a), 0);
	assert_int_equal(target.memory[0], 5);
	pair_close(&target.pair);
}

/* What was put off is made as its endpoint closes. */
static void close__makes_what_was_begun(void **state)
{
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	start(true, &word, sizeof(word), 0, 0);
	thole_endpoint_close(target.pair.a);
	assert_int_equal(target.memory[0], 5);
	thole_endpoint_close(target.pair.b);
}

/* The target's program computes, and has told its origin of no region: who looks after it sees to that, and comes soon
 * again where there was something. */
static void access__of_a_region_that_nobody_knows_is_tended(void **state)
{
	struct thole_completion completion;
	struct thole_request *request;
	uint64_t word = 5;
	int looks = 0, soon = 0;

	(void)state;
	pair_open(&target.pair, local_only);
	memset(target.memory, 0, REGION);
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	request = start(true, &word, sizeof(word), 0, 0);
	for (; !thole_test(target.pair.a, request, &completion) && looks < TURNS; looks++)
		soon += thole_tend(target.pair.b) == 1;
	assert_in_range(looks, 1, TURNS - 1);
	assert_in_range(soon, 1, looks);
	assert_int_equal(completion.status, 0);
	assert_int_equal(target.memory[0], 5);
	for (looks = 0; thole_tend(target.pair.b) && looks < TURNS; looks++) /* until nothing comes */
		;
	assert_in_range(looks, 0, TURNS - 1);
	pair_close(&target.pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(access__needs_no_help),
		cmocka_unit_test(access__is_asked_for),
		cmocka_unit_test(access__is_taken_back),
		cmocka_unit_test(access__is_asked_of_one_who_ends),
		cmocka_unit_test(access__is_taken_back_in_part),
		cmocka_unit_test(access__is_not_taken_back),
		cmocka_unit_test(access__is_taken_back_before_sleep),
		cmocka_unit_test(access__of_ourselves),
		cmocka_unit_test(access__is_asked_for_in_vain),
		cmocka_unit_test(asked__is_not_allowed),
		cmocka_unit_test(asked__is_answered_with_another_length),
		cmocka_unit_test(access__several_in_a_call),
		cmocka_unit_test(access__range_and_kind),
		cmocka_unit_test(access__of_no_region),
		cmocka_unit_test(access__windows_in_turn),
		cmocka_unit_test(access__target_knows_no_more),
		cmocka_unit_test(access__not_of_what_is_to_be_noticed),
		cmocka_unit_test(access__ways_that_are_off),
		cmocka_unit_test(access__beside_a_sleeper),
		cmocka_unit_test(unexpose__is_known_at_once),
		cmocka_unit_test(unexpose__what_was_put_off),
		cmocka_unit_test(unexpose__of_one_who_stands_before_the_door),
		cmocka_unit_test(unexpose__keeps_the_door_shut_meanwhile),
		cmocka_unit_test(unexpose__leaves_a_way_for_messages),
		cmocka_unit_test(unexpose__of_one_whose_put_has_faulted),
		cmocka_unit_test(unexpose__amid_a_long_put_elsewhere),
		cmocka_unit_test(unexpose__amid_a_long_get_elsewhere),
		cmocka_unit_test(unexpose__of_one_who_reads_late),
		cmocka_unit_test(unexpose__of_one_without_a_pid),
		cmocka_unit_test(unexpose__does_not_wait_for_nobody),
		cmocka_unit_test(access__refused),
		cmocka_unit_test(access__refused_by_one_who_has_ended),
		cmocka_unit_test(access__put_off_to_one_who_ends),
		cmocka_unit_test(access__of_one_who_closes),
		cmocka_unit_test(access__is_tended),
		cmocka_unit_test(access__of_a_region_that_nobody_knows_is_tended),
		cmocka_unit_test(close__makes_what_was_begun),
	};

	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
