/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets that the kernel makes without the target's process: when they do, how many go in one call, what is
 * refused, and that nobody is in a region that is exposed no more.
 *
 * process_vm_readv and process_vm_writev are counted, and something can happen in the middle of one.
 */
#include <errno.h>

#include "base/clock.h"
#include "pair.h"

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);

enum { REGION = 300000, KEY = 7 };

static const char *const local_only[] = {"network=off", "one_copy=on", NULL};

static struct {
	int reads, writes;
	int error;             /* that calls come to */
	void (*before)(void);  /* once */
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
	kernel_call(&kernel.writes);
	return kernel.error ? -1 : __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
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

/* Without. */
static bool is_made(struct thole_request *request, int *status_p)
{
	struct thole_completion completion;

	thole_progress(target.pair.a);
	if (!thole_test(target.pair.a, request, &completion))
		return false;
	*status_p = completion.status;
	return true;
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

static void target_open(const char *const *options)
{
	memset(&kernel, 0, sizeof(kernel));
	memset(target.memory, 0, REGION);
	pair_open(&target.pair, options);
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	know();
	kernel.reads = kernel.writes = 0;
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
		target_open(i ? ring : none);
		assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), 0);
		assert_int_equal(kernel.reads + kernel.writes, 0);
		pair_close(&target.pair);
	}
}

/* Nobody would wake who sleeps already. */
static void access__not_beside_a_sleeper(void **state)
{
	struct thole_request *request;
	uint64_t word = 5;
	int status;

	(void)state;
	target_open(local_only);
	while (thole_arm(target.pair.a) != 0)
		thole_progress(target.pair.a);
	request = start(true, &word, sizeof(word), 0, 0);
	assert_false(is_made(request, &status));
	assert_int_equal(finish(request), 0);
	assert_int_equal(shm_puts(), 0);
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

static bool unexposed_in_time;

static void unexpose_now(void)
{
	uint64_t start_ns = clock_now_ns();

	thole_unexpose(target.pair.b, target.region);
	unexposed_in_time = clock_now_ns() - start_ns < 60000000; /* it did not wait until nobody can be in */
}

/* In a call that has not written yet, and does not come to it as its process is stopped: the door is shut. */
static void unexpose__of_one_who_stands_before_the_door(void **state)
{
	uint64_t word = 5;

	(void)state;
	target_open(local_only);
	kernel.before = unexpose_now;
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), THOLE_ERR_KEY);
	assert_int_equal(kernel.writes, 1);
	assert_false(unexposed_in_time);
	assert_int_equal(target.memory[0], 0);
	/* it is not trusted with another region */
	expose(THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	know();
	assert_int_equal(finish(start(true, &word, sizeof(word), 0, 0)), 0);
	assert_int_equal(kernel.writes, 1);
	pair_close(&target.pair);
}

static void unexpose__does_not_wait_for_nobody(void **state)
{
	(void)state;
	target_open(local_only);
	unexpose_now();
	assert_true(unexposed_in_time);
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(access__needs_no_help),
		cmocka_unit_test(access__several_in_a_call),
		cmocka_unit_test(access__range_and_kind),
		cmocka_unit_test(access__of_no_region),
		cmocka_unit_test(access__not_of_what_is_to_be_noticed),
		cmocka_unit_test(access__ways_that_are_off),
		cmocka_unit_test(access__not_beside_a_sleeper),
		cmocka_unit_test(unexpose__is_known_at_once),
		cmocka_unit_test(unexpose__what_was_put_off),
		cmocka_unit_test(unexpose__of_one_who_stands_before_the_door),
		cmocka_unit_test(unexpose__does_not_wait_for_nobody),
		cmocka_unit_test(access__refused),
		cmocka_unit_test(access__of_one_who_closes),
		cmocka_unit_test(access__is_tended),
		cmocka_unit_test(close__makes_what_was_begun),
	};

	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
