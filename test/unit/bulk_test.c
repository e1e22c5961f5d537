/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk: each way of fetching, and a kernel that begins to refuse at any call.
 *
 * process_vm_readv and process_vm_writev are replaced (by the linker's --wrap): from a given call on they fail with a
 * given errno, or copy less than they were asked for.
 */
#include <errno.h>

#include "pair.h"

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);

enum { LENGTH = 1000000, ALWAYS = 1 << 30 };

static struct {
	int reads, writes;   /* calls that still succeed */
	int error;           /* of the others */
	size_t part;         /* bytes copied by one call at most; 0: all */
	int calls;
} kernel;

static int kernel_open(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.reads = kernel.writes = ALWAYS;
	return 0;
}

/* At most `part` bytes of the first segment, so that calls end in the middle of anything. */
static ssize_t kernel_copy(bool write, pid_t pid, const struct iovec *local, unsigned long local_count,
			   const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	int *left = write ? &kernel.writes : &kernel.reads;
	struct iovec one;

	kernel.calls++;
	if ((*left)-- <= 0) {
		errno = kernel.error;
		return -1;
	}
	if (kernel.part && local->iov_len > kernel.part) {
		one = (struct iovec){local->iov_base, kernel.part};
		local = &one;
		local_count = 1;
	}
	return write ? __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags)
		     : __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	return kernel_copy(false, pid, local, local_count, remote, remote_count, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	return kernel_copy(true, pid, local, local_count, remote, remote_count, flags);
}

/* A message of LENGTH bytes in segments from a to b; both take turns as `order` says: a bit a turn. */
static void transfer(struct pair *pair, uint64_t id, size_t send_count, size_t receive_count, uint32_t order, int expected)
{
	uint8_t *from = pair_filled(id, LENGTH), *to = calloc(1, LENGTH);
	struct iovec out[64], in[64];
	struct thole_request *send, *receive;
	struct thole_completion completion;
	bool received = false;

	for (size_t i = 0; i < send_count; i++)
		out[i] = (struct iovec){from + LENGTH / send_count * i,
					i + 1 == send_count ? LENGTH - LENGTH / send_count * i : LENGTH / send_count};
	for (size_t i = 0; i < receive_count; i++)
		in[i] = (struct iovec){to + LENGTH / receive_count * i,
				       i + 1 == receive_count ? LENGTH - LENGTH / receive_count * i : LENGTH / receive_count};
	assert_int_equal(thole_recvv(pair->b, pair->b_to_a, in, receive_count, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_sendv(pair->a, pair->a_to_b, out, send_count, 1, 0, 0, NULL, &send), 0);
	for (int turn = 0; turn < PAIR_TURNS_MAX && !received; turn++) {
		if (order >> turn % 32 & 1)
			thole_progress(pair->a);
		else
			received = thole_test(pair->b, receive, &completion);
	}
	assert_true(received);
	assert_int_equal(completion.status, expected);
	if (expected == 0)
		pair_check(id, to, LENGTH);
	pair_finish(pair, pair->a, send, NULL);
	free(from);
	free(to);
}

static void fetch__each_way_and_shape(void **state)
{
	static const char *const bulks[] = {"bulk=ring", "bulk=one-copy", "bulk=cooperative", "bulk=auto"};

	(void)state;
	for (int i = 0; i < 4 * 4 * 3; i++) {
		const char *const options[] = {bulks[i % 4], "cooperative_block=16k", "look_again=0", NULL};
		static const size_t counts[] = {1, 2, 64, 63};
		static const uint32_t orders[] = {0xaaaaaaaa, 0x11111111, 0xfffffffe};
		struct pair pair;

		kernel.part = i % 3 ? 5000 : 0;
		pair_open(&pair, options);
		for (int k = 0; k < 3; k++)
			transfer(&pair, (uint64_t)i, counts[i / 4 % 4], counts[(i / 4 + k) % 4], orders[i / 16], 0);
		assert_int_equal(pair_counter(pair.b, "bulk_bytes"), 3 * LENGTH);
		assert_int_equal(pair_counter(pair.b, "bulk_fallbacks"), 0);
		pair_close(&pair);
	}
	assert_true(kernel.calls > 0);
}

/* Refusals begin at each call in turn: of the receiver, of the sender, of both. */
static void refused__at_any_call(void **state)
{
	static const char *const bulks[] = {"bulk=one-copy", "bulk=cooperative"};
	int fallbacks = 0, helped = 0;

	(void)state;
	for (int i = 0; i < 2 * 3 * 40; i++) {
		const char *const options[] = {bulks[i % 2], "cooperative_block=16k", "look_again=0", NULL};
		static const uint32_t orders[] = {0xaaaaaaaa, 0x11111111, 0x77777777, 0xfefefefe};
		int who = i / 2 % 3, call = i / 6;
		struct pair pair;

		kernel_open(NULL);
		kernel.error = call % 2 ? EPERM : ENOSYS;
		kernel.part = call % 3 ? 0 : 5000;
		pair_open(&pair, options);
		transfer(&pair, 1, 1, 1, orders[call % 4], 0); /* all is connected and permitted */
		kernel.reads = who == 1 ? ALWAYS : call;
		kernel.writes = who == 0 ? ALWAYS : call;
		for (uint64_t k = 2; k < 5; k++)
			transfer(&pair, k, k == 3 ? 40 : 1, k == 4 ? 40 : 1, orders[call % 4], 0);
		if (kernel.reads < 0) { /* it came to that */
			assert_int_equal(pair_counter(pair.b, "one_copy_refused"), 1);
			fallbacks += (int)pair_counter(pair.b, "bulk_fallbacks");
		} else {
			assert_int_equal(pair_counter(pair.b, "bulk_fallbacks"), 0);
		}
		helped += (int)pair_counter(pair.a, "bulk_blocks_helped");
		assert_int_equal(pair_counter(pair.a, "bad_records") + pair_counter(pair.b, "bad_records"), 0);
		pair_close(&pair);
	}
	assert_true(fallbacks >= 40);
	assert_true(helped > 0);
}

/* Refused from the first look on: nobody tries again. */
static void refused__before_anything(void **state)
{
	struct pair pair;

	(void)state;
	kernel.reads = kernel.writes = 0;
	kernel.error = EPERM;
	pair_open(&pair, (const char *const[]){"bulk=cooperative", NULL});
	for (uint64_t i = 0; i < 5; i++)
		transfer(&pair, i, 1, 1, 0xaaaaaaaa, 0);
	assert_int_equal(pair_counter(pair.b, "one_copy_refused"), 1);
	assert_int_equal(pair_counter(pair.b, "bulk_ring"), 5);
	assert_int_equal(pair_counter(pair.b, "bulk_fallbacks"), 0);
	assert_true(kernel.calls <= 2);
	pair_close(&pair);
}

/* A sender does not come to pushing, is taken over, the kernel refuses after some blocks, and now it comes: what it pushes
 * of the first request is for nobody. */
static void taken_over__then_refused(void **state)
{
	(void)state;
	for (int blocks = 1; blocks < 12; blocks += 3) {
		const char *const options[] = {"bulk=auto", "cooperative_block=16k", "look_again=0", "bulk_ring=64k", NULL};
		uint8_t *from = pair_filled(3, LENGTH), *to = calloc(1, LENGTH);
		struct thole_request *send, *receive;
		struct pair pair;

		kernel_open(NULL);
		kernel.error = EPERM;
		pair_open(&pair, options);
		/* The first fetch of its size goes through the ring. */
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
		for (int i = 0; i < PAIR_TURNS_MAX && !pair_counter(pair.b, "bulk_ring"); i++)
			thole_progress(pair.b);
		assert_int_equal(pair_counter(pair.b, "bulk_ring"), 1);
		for (int i = 0; i < 40; i++) /* it begins, and stops as the ring is full */
			thole_progress(pair.a);
		while (!pair_counter(pair.b, "bulk_taken_over")) { /* which takes a while, however fast we are */
			kernel.reads = ALWAYS;
			thole_progress(pair.b);
		}
		kernel.reads = blocks;
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_counter(pair.b, "bulk_fallbacks"), 1);
		pair_check(3, to, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		transfer(&pair, 4, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(pair_counter(pair.b, "bad_records"), 0);
		pair_close(&pair);
		free(from);
		free(to);
	}
}

/* The sender's buffer is not memory: an error that names it, and the next message is fine. */
static void fault__in_the_senders_buffer(void **state)
{
	static const char *const bulks[] = {"bulk=one-copy", "bulk=cooperative"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *const options[] = {bulks[i], "cooperative_block=16k", "look_again=0", NULL};
		struct thole_request *send, *receive;
		struct thole_completion completion;
		uint8_t *to = calloc(1, LENGTH);
		struct pair pair;

		pair_open(&pair, options);
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, (void *)4096, LENGTH, 1, 0, 0, NULL, &send), 0);
		for (int turn = 0; turn < 3; turn++) /* the sender's own fault is the receiver's to find: it does not help */
			thole_progress(pair.b);
		assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), THOLE_ERR_FAULT);
		assert_int_equal(pair_finish(&pair, pair.a, send, &completion), THOLE_ERR_FAULT);
		transfer(&pair, 2, 1, 1, 0xaaaaaaaa, 0);
		pair_close(&pair);
		free(to);
	}
}

/* Closing with fetches and serves of many segments under way leaves nothing (the address sanitizer looks). */
static void close__in_the_middle(void **state)
{
	static const char *const bulks[] = {"bulk=ring", "bulk=one-copy", "bulk=cooperative"};

	(void)state;
	for (int i = 0; i < 6; i++) {
		const char *const options[] = {bulks[i % 3], "cooperative_block=16k", "look_again=0", "close_timeout=1ms", NULL};
		uint8_t *from = pair_filled(1, LENGTH), *to = calloc(1, LENGTH);
		struct iovec out[2] = {{from, 1000}, {from + 1000, LENGTH - 1000}}, in[2] = {{to, 500}, {to + 500, LENGTH - 500}};
		struct pair pair;

		pair_open(&pair, options);
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(thole_recvv(pair.b, pair.b_to_a, in, 2, 1, 0, 0, NULL, NULL), 0);
		assert_int_equal(thole_sendv(pair.a, pair.a_to_b, out, 2, 1, 0, 0, NULL, NULL), 0);
		pair_progress(&pair, 5);
		if (i / 3)
			thole_endpoint_close(pair.b);
		thole_endpoint_close(pair.a);
		if (!(i / 3)) {
			struct thole_completion completion;

			while (thole_poll(pair.b, &completion, 1) == 0)
				;
			if (completion.status == 0) /* some ways are fast */
				pair_check(1, to, LENGTH);
			else
				assert_int_equal(completion.status, THOLE_ERR_PEER);
			thole_endpoint_close(pair.b);
		}
		free(from);
		free(to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(fetch__each_way_and_shape, kernel_open),
		cmocka_unit_test_setup(refused__at_any_call, kernel_open),
		cmocka_unit_test_setup(refused__before_anything, kernel_open),
		cmocka_unit_test_setup(taken_over__then_refused, kernel_open),
		cmocka_unit_test_setup(fault__in_the_senders_buffer, kernel_open),
		cmocka_unit_test_setup(close__in_the_middle, kernel_open),
	};

	return cmocka_run_group_tests_name("bulk", tests, NULL, NULL);
}
