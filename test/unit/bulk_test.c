/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk: each way of fetching, a kernel that begins to refuse at any call, and ends in the middle: whose memory is it
 * then?
 *
 * process_vm_readv and process_vm_writev are replaced (by the linker's --wrap): from a given call on they fail with a
 * given errno, copy less than they were asked for, or have something happen just before or after they copy data.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "barrier.h"
#include "mappings.h"
#include "pair.h"
#include "process_vm.h"

enum { LENGTH = 1000000, ALWAYS = 1 << 30, COPY_SEGMENTS_MAX = SEGMENTS_A_CALL + 2 };

static struct {
	int reads, writes;   /* calls that still succeed */
	int error;           /* of the others */
	size_t part;         /* bytes of data copied by one call at most; 0: all */
	int calls, words;    /* those that copy data and begin with a word */
	void (*before[2])(void), (*after[2])(void); /* a call that copies data: of reading, of writing; once */
	void (*within)(void); /* one of writing, behind all but its last segment: they are copied in order; once */
} kernel;

static int kernel_open(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.reads = kernel.writes = ALWAYS;
	return 0;
}

/* A word alone is no data. */
static bool kernel_is_data(const struct iovec *local, unsigned long local_count)
{
	return local_count > 1 || local->iov_len > sizeof(uint64_t);
}

static void kernel_happens(void (**what)(void), bool data)
{
	void (*happens)(void) = data ? *what : NULL;

	if (happens) {
		*what = NULL;
		happens();
	}
}

static ssize_t kernel_write_in_two(pid_t pid, const struct iovec *local, unsigned long local_count,
				   const struct iovec *remote, unsigned long remote_count)
{
	ssize_t size = __real_process_vm_writev(pid, local, local_count - 1, remote, remote_count - 1, 0), last;
	void (*within)(void) = kernel.within;

	kernel.within = NULL;
	within();
	last = __real_process_vm_writev(pid, &local[local_count - 1], 1, &remote[remote_count - 1], 1, 0);
	return last > 0 ? size + last : size;
}

/* At most `part` bytes of the first segment behind the word that goes with each call, so that calls end in the middle
 * of anything. */
/* The first segments, a word if there is one and then `part` bytes. Returns how many. */
static unsigned long kernel_part(const struct iovec *local, unsigned long count, struct iovec *some)
{
	size_t left = kernel.part + (local->iov_len == sizeof(uint64_t) ? sizeof(uint64_t) : 0);
	unsigned long i;

	assert_in_range(count, 1, COPY_SEGMENTS_MAX);
	for (i = 0; i < count && left > 0; i++) {
		some[i] = (struct iovec){local[i].iov_base, local[i].iov_len < left ? local[i].iov_len : left};
		left -= some[i].iov_len;
	}
	return i;
}

static ssize_t kernel_copy(bool write, pid_t pid, const struct iovec *local, unsigned long local_count,
			   const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	int *left = write ? &kernel.writes : &kernel.reads;
	struct iovec some[COPY_SEGMENTS_MAX];
	ssize_t size;

	kernel.calls++;
	if ((*left)-- <= 0) {
		errno = kernel.error;
		return -1;
	}
	if (kernel.part) {
		local_count = kernel_part(local, local_count, some);
		local = some;
	}
	if (write && kernel.within)
		return kernel_write_in_two(pid, local, local_count, remote, remote_count);
	kernel.words += kernel_is_data(local, local_count) && local->iov_len == sizeof(uint64_t);
	kernel_happens(&kernel.before[write], kernel_is_data(local, local_count));
	size = write ? __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags)
		     : __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
	kernel_happens(&kernel.after[write], kernel_is_data(local, local_count));
	return size;
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
static void transfer(struct pair *pair, uint64_t id, size_t send_count, size_t receive_count, uint32_t order,
		     int expected)
{
	uint8_t *from = pair_filled(id, LENGTH), *to = calloc(1, LENGTH);
	struct iovec out[64], in[64];
	struct thole_request *send, *receive;

	for (size_t i = 0; i < send_count; i++)
		out[i] = (struct iovec){from + LENGTH / send_count * i,
					i + 1 == send_count ? LENGTH - LENGTH / send_count * i : LENGTH / send_count};
	for (size_t i = 0; i < receive_count; i++)
		in[i] = (struct iovec){to + LENGTH / receive_count * i, i + 1 == receive_count
										? LENGTH - LENGTH / receive_count * i
										: LENGTH / receive_count};
	assert_int_equal(thole_recvv(pair->b, pair->b_to_a, in, receive_count, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_sendv(pair->a, pair->a_to_b, out, send_count, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_take_turns(pair, receive, order), expected);
	if (expected == 0)
		pair_check(id, to, LENGTH);
	pair_finish(pair, pair->a, send, NULL);
	/* Nothing of it is left. */
	assert_int_equal(shm_link(&endpoint_peer(pair->b, pair->b_to_a)->base)->offers_used, 0);
	assert_int_equal(pair->a->requests.live + pair->b->requests.live, 0);
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

enum { ROW = 12 };

/* A row of short messages whose receives are posted. How many arrived. */
static int row_goes(struct pair *pair, uint64_t id)
{
	struct thole_request *sends[ROW], *receives[ROW];
	uint8_t *from[ROW], *to[ROW];
	int arrived = 0;

	for (size_t i = 0; i < ROW; i++) {
		size_t length = 4096 * (1 + i % 7) + i;

		from[i] = pair_filled(id + i, length);
		to[i] = calloc(1, length + 1);
		assert_int_equal(thole_recv(pair->b, pair->b_to_a, to[i], length + 1, i, UINT64_MAX, 0, NULL,
					    &receives[i]), 0);
		assert_int_equal(thole_send(pair->a, pair->a_to_b, from[i], length, i, 0, 0, NULL, &sends[i]), 0);
	}
	for (size_t i = 0; i < ROW; i++) {
		int status = pair_finish(pair, pair->b, receives[i], NULL);

		pair_finish(pair, pair->a, sends[i], NULL);
		assert_true(status == 0 || status == THOLE_ERR_PEER);
		if (status == 0)
			pair_check(id + i, to[i], 4096 * (1 + i % 7) + i);
		assert_int_equal(to[i][4096 * (1 + i % 7) + i], 0);
		arrived += status == 0;
		free(from[i]);
		free(to[i]);
	}
	assert_int_equal(pair->a->requests.live + pair->b->requests.live, 0);
	return arrived;
}

/* Short messages that follow each other are read several in one call; where that copies less than it was asked for, or
 * is refused from some call on, all come just the same. */
static void several__are_read_in_one_call(void **state)
{
	static const char *const options[] = {"bulk=one-copy", "eager_max=1k", "look_again=0", NULL};
	static const size_t parts[] = {0, 100, 4096, 4097, 20000, 60000};

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct pair pair;

		kernel_open(NULL);
		kernel.part = parts[i];
		pair_open(&pair, options);
		assert_int_equal(row_goes(&pair, 100), ROW);
		kernel.calls = 0;
		assert_int_equal(row_goes(&pair, 200), ROW);
		assert_int_equal(pair_counter(pair.b, "bulk_one_copy"), 2 * ROW);
		if (!kernel.part)
			assert_in_range(kernel.calls, 1, 3);
		pair_close(&pair);
	}
	for (int call = 0; call < 6; call++) {
		struct pair pair;

		kernel_open(NULL);
		kernel.error = EPERM;
		kernel.part = call % 2 ? 30000 : 0;
		pair_open(&pair, options);
		assert_int_equal(row_goes(&pair, 300), ROW);
		kernel.reads = call;
		for (int k = 0; k < 4; k++)
			assert_int_equal(row_goes(&pair, 400), ROW);
		assert_true(pair_counter(pair.b, "bulk_fallbacks") > 0);
		assert_in_range(pair_counter(pair.b, "one_copy_refused"), 1, ROW); /* those that had begun */
		pair_close(&pair);
	}
}

static struct pair *row_pair;

static void row_change_cookie(void)
{
	++*shm_of(&row_pair->a->base)->cookie;
}

/* What several were read from is somebody else's memory by now. */
static void several__with_another_cookie(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, (const char *const[]){"bulk=one-copy", "eager_max=1k", "look_again=0", NULL});
	row_pair = &pair;
	assert_int_equal(row_goes(&pair, 100), ROW);
	kernel.before[0] = row_change_cookie;
	assert_int_equal(row_goes(&pair, 200), 0);
	pair_close(&pair);
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

/* A sender does not come to pushing, is taken over, the kernel refuses after some blocks, and now it comes: what it
 * pushes of the first request is for nobody. */
static void taken_over__then_refused(void **state)
{
	(void)state;
	for (int blocks = 1; blocks < 12; blocks += 3) {
		const char *const options[] = {"bulk=auto", "cooperative_block=16k", "look_again=0", "bulk_ring=64k",
					       NULL};
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

/* ---- Memory lent for pieces ------------------------------------------------------------------------------ */

static struct pair turned(const struct pair *pair)
{
	return (struct pair){.a = pair->b, .b = pair->a, .a_to_b = pair->b_to_a, .b_to_a = pair->a_to_b};
}

static struct ring_out *out_of(const struct pair *pair)
{
	return &shm_link(&endpoint_peer(pair->a, pair->a_to_b)->base)->out;
}

/* Of the pieces among the last records from a to b those that are in the sender's segment, or in the receiver's. */
static int pieces(const struct pair *pair, bool lent)
{
	const struct ring_out *out = out_of(pair);
	int count = 0;

	for (uint64_t slot = out->produced - 30; slot < out->produced; slot++) {
		const struct record *record = ring_slot(out->segment, slot);

		count += record->kind == RECORD_BULK_DATA && !(record->place & (uint32_t)PLACE_LENT) == !lent;
	}
	return count;
}

/* So that what comes next is in a stream, and not an answer. */
static void say(struct pair *pair)
{
	struct thole_request *send, *receive;
	char byte = 1, got;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, &got, 1, 2, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, &byte, 1, 2, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(pair, pair->b, receive, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, send, NULL), 0);
}

/* An answer's pieces go where the question's were, whoever asks. In a stream nothing is lent. */
static void lent__in_a_dialogue(void **state)
{
	const char *const options[] = {"bulk=ring", "look_again=0", NULL};
	struct pair pair, back;

	(void)state;
	pair_open(&pair, options);
	back = turned(&pair);
	for (uint64_t turn = 0; turn < 3; turn++) {
		transfer(&pair, 2 * turn, 1, 1, 0xaaaaaaaa, 0);
		assert_true(pieces(&pair, false) > 20 && pieces(&pair, true) == 0);
		transfer(&back, 2 * turn + 1, 1, 1, 0xaaaaaaaa, 0);
		assert_true(pieces(&back, false) == 0 && pieces(&back, true) > 20);
		assert_false(out_of(&pair)->bulk_lent);
	}
	transfer(&pair, 7, 1, 1, 0xaaaaaaaa, 0);
	say(&back);
	transfer(&back, 8, 1, 1, 0xaaaaaaaa, 0);
	assert_true(pieces(&back, false) > 20 && pieces(&back, true) == 0);
	transfer(&pair, 9, 1, 1, 0xaaaaaaaa, 0);
	assert_true(pieces(&pair, false) == 0 && pieces(&pair, true) > 20);
	transfer(&back, 10, 1, 1, 0xaaaaaaaa, 0);
	assert_true(pieces(&back, false) == 0 && pieces(&back, true) > 20);
	transfer(&pair, 11, 1, 1, 0xaaaaaaaa, 0);
	assert_true(pieces(&pair, false) > 20 && pieces(&pair, true) == 0); /* b's was last written by a */
	assert_int_equal(pair_counter(pair.a, "bad_records") + pair_counter(pair.b, "bad_records"), 0);
	pair_close(&pair);
}

/* Where long messages cross, all that there is room for is written before the other's is read, and each lies where its
 * sender has just read. */
static void crossed__is_written_before_it_is_read(void **state)
{
	const char *const options[] = {"bulk=ring", "look_again=0", NULL};
	struct pair pair, back;

	(void)state;
	pair_open(&pair, options);
	back = turned(&pair);
	for (uint64_t turn = 0; turn < 6; turn++) {
		uint8_t *from[2], *to[2];
		struct thole_request *sends[2], *receives[2];
		uint64_t most = 0; /* pushed in one poll */

		for (int i = 0; i < 2; i++) {
			const struct pair *side = i ? &back : &pair;

			from[i] = pair_filled(2 * turn + (uint64_t)i, LENGTH);
			to[i] = calloc(1, LENGTH);
			assert_int_equal(
				thole_recv(side->a, side->a_to_b, to[i], LENGTH, 1, 0, 0, NULL, &receives[i]), 0);
			assert_int_equal(
				thole_send(side->a, side->a_to_b, from[i], LENGTH, 1, 0, 0, NULL, &sends[i]), 0);
		}
		for (int i = 0; i < 8; i++) {
			const struct pair *side = i % 2 ? &back : &pair;
			uint64_t before = out_of(side)->produced;

			thole_progress(side->a);
			if (out_of(side)->produced - before > most)
				most = out_of(side)->produced - before;
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(pair_finish(&pair, i ? pair.b : pair.a, receives[i], NULL), 0);
			assert_int_equal(pair_finish(&pair, i ? pair.b : pair.a, sends[i], NULL), 0);
			pair_check(2 * turn + 1 - (uint64_t)i, to[i], LENGTH);
			assert_true(turn == 0 || most > LENGTH / (32 << 10));
			assert_true(pieces(i ? &back : &pair, turn % 2) > 20);
			assert_int_equal(pieces(i ? &back : &pair, turn % 2 == 0), 0);
			free(from[i]);
			free(to[i]);
		}
	}
	pair_close(&pair);
}

/* A sender that was lent memory is taken over: the memory comes back once it has nothing more to write, whether its
 * send has ended by then or the kernel refuses, so that it goes on with what nobody waits for. */
static void lent__comes_back(void **state)
{
	const char *const options[] = {"bulk=auto", "cooperative_block=16k", "look_again=0",
				       "bulk_ring=256k", NULL}; /* shorter than the message */

	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		uint8_t *from = pair_filled(3, LENGTH), *to = calloc(1, LENGTH);
		struct thole_request *send, *receive;
		struct pair pair, back;
		struct ring_in *in;

		kernel_open(NULL);
		kernel.error = EPERM;
		pair_open(&pair, options);
		back = turned(&pair);
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, from, LENGTH, 1, 0, 0, NULL, &send), 0);
		while (!pair_counter(pair.a, "bulk_ring"))
			thole_progress(pair.a);
		assert_true(out_of(&pair)->bulk_lent);
		for (int i = 0; i < 4; i++)
			thole_progress(pair.b);
		in = &shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)->in;
		thole_progress(pair.a);
		assert_int_equal(in->published, in->handled); /* the sender may need the memory */
		while (!pair_counter(pair.a, "bulk_taken_over"))
			thole_progress(pair.a);
		assert_true(out_of(&pair)->bulk_lent);
		kernel.reads = refused ? 2 : ALWAYS;
		while (!refused && shm_fetches(shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)))
			thole_progress(pair.a); /* alone */
		assert_int_equal(pair_finish(&pair, pair.a, receive, NULL), 0);
		pair_check(3, to, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.b, send, NULL), 0);
		pair_progress(&pair, 20);
		assert_false(out_of(&pair)->bulk_lent);
		assert_int_equal(shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)->pulling, 0);
		kernel.reads = ALWAYS;
		transfer(&pair, 4, 1, 1, 0xaaaaaaaa, 0);
		transfer(&back, 5, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(pair_counter(pair.a, "bad_records") + pair_counter(pair.b, "bad_records"), 0);
		pair_close(&pair);
		free(from);
		free(to);
	}
}

/* While the peer has it, nothing else is pushed there: a second message has its pieces elsewhere. */
static void lent__is_not_written_by_its_owner(void **state)
{
	const char *const options[] = {"bulk=ring", "look_again=0", NULL};
	const size_t length[] = {4 * LENGTH, LENGTH}; /* the first takes several polls */
	uint8_t *from[2], *to[2];
	struct thole_request *send[2], *receive[2];
	struct ring_out *out;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
	out = out_of(&pair);
	for (int i = 0; i < 2; i++) { /* b to a first, a to b beside it */
		from[i] = pair_filled((uint64_t)i, length[i]);
		to[i] = calloc(1, length[i]);
	}
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, to[0], length[0], 1, 0, 0, NULL, &receive[0]), 0);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, from[0], length[0], 1, 0, 0, NULL, &send[0]), 0);
	while (!out->bulk_lent)
		thole_progress(pair.a);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, to[1], length[1], 1, 0, 0, NULL, &receive[1]), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from[1], length[1], 1, 0, 0, NULL, &send[1]), 0);
	for (int i = 0; i < PAIR_TURNS_MAX && out->bulk_lent; i++) {
		assert_int_equal(out->areas[AREA_BULK].live, 0);
		pair_progress(&pair, 1);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pair_finish(&pair, i ? pair.b : pair.a, receive[i], NULL), 0);
		assert_int_equal(pair_finish(&pair, i ? pair.a : pair.b, send[i], NULL), 0);
		pair_check((uint64_t)i, to[i], length[i]);
		free(from[i]);
		free(to[i]);
	}
	pair_close(&pair);
}

/* What is lent has to be a place for payloads, and pieces have to have a length. */
static void lent__anywhere(void **state)
{
	static const uint64_t places[] = {1,
					  64,
					  offsetof(struct segment, small) - 64,
					  SEGMENT_BASE + 32,
					  SEGMENT_BASE + 3584 * 1024 - 4096,
					  UINT32_MAX - 63,
					  SEGMENT_BASE,
					  SEGMENT_BASE};
	static const uint64_t sizes[] = {8192, 8192, 8192, 8192, 8192, 8192, 1, 255};
	enum { PLACES = sizeof(places) / sizeof(places[0]) };
	struct pair pair;

	(void)state;
	pair_open(&pair, (const char *const[]){"look_again=0", NULL});
	transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
	for (uint64_t i = 0; i <= PLACES; i++) {
		struct record pull = {.kind = RECORD_BULK_PULL, .length = RECORD_EXTERNAL, .tag = 1};
		struct transport_peer *peer = &endpoint_peer(pair.b, pair.b_to_a)->base;

		pull.arg[1] = 100;
		pull.arg[2] = i < PLACES ? 100 : 0;
		pull.arg[3] = i < PLACES ? places[i] | sizes[i] << 32 : 0;
		peer->owner->up->control(peer, &pull);
		pair_progress(&pair, 10);
		assert_int_equal(pair_counter(pair.a, "bad_records"), i + 1);
	}
	pair_close(&pair);
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
		/* the sender's own fault is the receiver's to find: it does not help */
		for (int turn = 0; turn < 3; turn++)
			thole_progress(pair.b);
		assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), THOLE_ERR_FAULT);
		assert_int_equal(pair_finish(&pair, pair.a, send, &completion), THOLE_ERR_FAULT);
		transfer(&pair, 2, 1, 1, 0xaaaaaaaa, 0);
		pair_close(&pair);
		free(to);
	}
}

/* The same of the receiver's. */
static void fault__in_the_receivers_buffer(void **state)
{
	static const char *const bulks[] = {"bulk=one-copy", "bulk=cooperative"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *const options[] = {bulks[i], "cooperative_block=16k", "look_again=0", NULL};
		uint8_t *from = pair_filled(1, LENGTH);
		struct thole_request *send, *receive;
		struct pair pair;

		pair_open(&pair, options);
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, (void *)4096, LENGTH, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), THOLE_ERR_FAULT);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), THOLE_ERR_FAULT);
		transfer(&pair, 2, 1, 1, 0xaaaaaaaa, 0);
		pair_close(&pair);
		free(from);
	}
}

/* What the kernel cannot copy, and its owner can, comes by the ring, whichever side it is of, and whatever shape the
 * message has. All of it is touched by its owner. */
static void fault__of_memory_that_its_owner_can_use(void **state)
{
	static const char *const bulks[] = {"bulk=one-copy", "bulk=cooperative", "bulk=ring"};

	(void)state;
	for (int i = 0; i < 3 * 2 * 2; i++) {
		const char *const options[] = {bulks[i % 3], "cooperative_block=16k", "look_again=0", NULL};
		uint8_t *guarded = barrier_open(LENGTH), *plain = pair_filled(1, LENGTH);
		bool receives = i / 3 % 2;
		uint8_t *from = receives ? plain : guarded, *to = receives ? guarded : plain;
		size_t parts = i < 6 ? 1 : 2;
		struct iovec out[2] = {{from, LENGTH}, {from + LENGTH / 2, LENGTH - LENGTH / 2}},
			     in[2] = {{to, LENGTH}, {to + LENGTH / 2, LENGTH - LENGTH / 2}};
		struct thole_request *send, *receive;
		struct pair pair;

		kernel_open(NULL);
		if (parts > 1)
			out[0].iov_len = in[0].iov_len = LENGTH / 2;
		pair_open(&pair, options);
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		memcpy(guarded, plain, LENGTH);
		memset(to, 0, LENGTH);
		barrier_raise(receives ? PROT_READ : PROT_NONE);
		assert_int_equal(thole_recvv(pair.b, pair.b_to_a, in, parts, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_sendv(pair.a, pair.a_to_b, out, parts, 1, 0, 0, NULL, &send), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		assert_int_equal(barrier.touched, barrier.bytes / barrier.page);
		pair_check(1, to, LENGTH);
		transfer(&pair, 2, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(pair_counter(pair.b, "one_copy_refused"), 0);
		assert_int_equal(pair_counter(pair.b, "bulk_fallbacks"), i % 3 < 2);
		pair_close(&pair);
		barrier_close();
		free(plain);
	}
}

/* A get out of such memory, and a put into it: long ones, and such as the kernel makes. */
static void fault__of_a_region(void **state)
{
	enum { SHORT = 8192, KEY = 30 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		bool put = i % 2;
		size_t length = i / 2 ? SHORT : LENGTH;
		uint8_t *memory = barrier_open(length), *own = pair_filled(1, length);
		struct thole_request *request;
		struct thole_region *region;
		struct pair pair;

		kernel_open(NULL);
		pair_open(&pair, (const char *const[]){"bulk=one-copy", "look_again=0", NULL});
		memcpy(memory, own, length);
		assert_int_equal(thole_expose(pair.b, memory, length, THOLE_ACCESS_PUT | THOLE_ACCESS_GET, KEY,
					      NULL, &region), 0);
		for (int turn = 0; turn < 3; turn++) { /* by the last its grant is known */
			struct iovec part = {own, length};

			if (put)
				memset(own, turn + 1, length);
			else
				memset(own, 0, length);
			barrier_raise(put ? PROT_READ : PROT_NONE);
			if (put)
				assert_int_equal(thole_put(pair.a, pair.a_to_b, &part, 1, KEY, 0, 0, 0, NULL,
							   &request), 0);
			else
				assert_int_equal(thole_get(pair.a, pair.a_to_b, &part, 1, KEY, 0, 0, NULL, &request),
						 0);
			assert_int_equal(pair_finish(&pair, pair.a, request, NULL), 0);
			if (put)
				assert_memory_equal(memory, own, length);
			else
				pair_check(1, own, length);
		}
		assert_int_equal(pair_counter(pair.b, "one_copy_refused"), 0);
		thole_unexpose(pair.b, region);
		pair_close(&pair);
		barrier_close();
		free(own);
	}
}

/* The kernel has no memory for a copy: the ring has the rest, and it is not tried again while the sender is late. */
static void memory__of_the_kernel(void **state)
{
	(void)state;
	for (int call = 0; call < 12; call++) {
		const char *const options[] = {"bulk=one-copy", "cooperative_block=16k", "look_again=0", NULL};
		uint8_t *from = pair_filled(3, LENGTH), *to = calloc(1, LENGTH);
		struct thole_request *send, *receive;
		struct pair pair;
		uint64_t start_ns;
		int calls;

		kernel_open(NULL);
		kernel.error = ENOMEM;
		pair_open(&pair, options);
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
		kernel.reads = call;
		for (int i = 0; i < PAIR_TURNS_MAX && !pair_counter(pair.b, "bulk_fallbacks"); i++)
			thole_progress(pair.b);
		assert_int_equal(pair_counter(pair.b, "bulk_fallbacks"), 1);
		calls = kernel.calls;
		start_ns = clock_now_ns();
		while (clock_now_ns() - start_ns < 2000000)
			thole_progress(pair.b);
		assert_int_equal(kernel.calls, calls);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		pair_check(3, to, LENGTH);
		assert_int_equal(pair_counter(pair.b, "bulk_taken_over"), 0);
		pair_close(&pair);
		free(from);
		free(to);
	}
}

/* Who has no memory to serve a pull says so, and lives. */
static void memory__of_the_sender(void **state)
{
	uint8_t *from = pair_filled(2, LENGTH), *to = calloc(1, LENGTH);
	struct thole_request *send, *receive;
	struct pool *serves;
	struct pair pair;
	uint32_t bound;

	(void)state;
	pair_open(&pair, (const char *const[]){"bulk=ring", "look_again=0", NULL});
	serves = &shm_of(&pair.a->base)->serves;
	bound = serves->bound;
	serves->bound = 0;
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), THOLE_ERR_MEMORY);
	assert_int_equal(pair_finish(&pair, pair.a, send, NULL), THOLE_ERR_MEMORY);
	serves->bound = bound;
	transfer(&pair, 3, 1, 1, 0xaaaaaaaa, 0);
	pair_close(&pair);
	free(from);
	free(to);
}

/* Closing with fetches and serves of many segments under way leaves nothing (the address sanitizer looks). */
static void close__in_the_middle(void **state)
{
	static const char *const bulks[] = {"bulk=ring", "bulk=one-copy", "bulk=cooperative"};

	(void)state;
	for (int i = 0; i < 6; i++) {
		const char *const options[] = {bulks[i % 3], "cooperative_block=16k", "look_again=0",
					       "close_timeout=1ms", NULL};
		uint8_t *from = pair_filled(1, LENGTH), *to = calloc(1, LENGTH);
		struct iovec out[2] = {{from, 1000}, {from + 1000, LENGTH - 1000}},
			     in[2] = {{to, 500}, {to + 500, LENGTH - 500}};
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
				assert_int_equal(completion.status, THOLE_ERR_CLOSED);
			thole_endpoint_close(pair.b);
		}
		free(from);
		free(to);
	}
}

/* ---- Records that no correct peer sends ----------------------------------------------------------------- */

/* A fetch of b's that has asked for its data, of which a has sent nothing yet. */
static struct {
	struct pair pair;
	struct thole_request *send, *receive;
	uint8_t *from, *to;
	uint64_t id;
} asked;

static void asked_open(void)
{
	pair_open(&asked.pair, (const char *const[]){"bulk=ring", "look_again=0", NULL});
	transfer(&asked.pair, 1, 1, 1, 0xaaaaaaaa, 0);
	asked.from = pair_filled(2, LENGTH);
	asked.to = calloc(1, LENGTH);
	asked.id = UINT64_C(2) << 32; /* the second use of the first */
	assert_int_equal(
		thole_recv(asked.pair.b, asked.pair.b_to_a, asked.to, LENGTH, 1, 0, 0, NULL, &asked.receive), 0);
	assert_int_equal(
		thole_send(asked.pair.a, asked.pair.a_to_b, asked.from, LENGTH, 1, 0, 0, NULL, &asked.send), 0);
	while (shm_link(&endpoint_peer(asked.pair.b, asked.pair.b_to_a)->base)->pulling == 0)
		thole_progress(asked.pair.b);
}

static void asked_close(int expected)
{
	assert_int_equal(pair_finish(&asked.pair, asked.pair.b, asked.receive, NULL), expected);
	if (!expected)
		pair_check(2, asked.to, LENGTH);
	pair_finish(&asked.pair, asked.pair.a, asked.send, NULL);
	pair_close(&asked.pair);
	free(asked.from);
	free(asked.to);
}

static void data_arrives(struct transport_peer *peer, uint64_t id, uint64_t offset, uint32_t length)
{
	static const uint8_t wrong[100];
	struct record record = {.kind = RECORD_BULK_DATA, .length = RECORD_EXTERNAL, .tag = id, .imm = offset};

	bulk_arrived(peer, &record, wrong, length);
}

static void data__of_another_fetch_or_peer(void **state)
{
	struct thole_request *connected;
	struct thole_endpoint *other;
	struct transport_peer *peer;

	(void)state;
	asked_open();
	peer = &endpoint_peer(asked.pair.b, asked.pair.b_to_a)->base;
	data_arrives(peer, UINT64_C(1) << 32, 0, 100); /* of the fetch before */
	data_arrives(peer, asked.id + 1, 0, 100);
	other = pair_endpoint(NULL, NULL, (const char *const[]){"look_again=0", NULL});
	assert_int_equal(thole_connect(other, pair_peer(other, asked.pair.b), 0, NULL, &connected), 0);
	while (!shm_link(&endpoint_peer(asked.pair.b, pair_peer(asked.pair.b, other))->base))
		thole_progress(asked.pair.b);
	data_arrives(&endpoint_peer(asked.pair.b, pair_peer(asked.pair.b, other))->base, asked.id, 0, 100);
	assert_int_equal(pair_counter(asked.pair.b, "bad_records"), 0);
	asked_close(0);
	thole_endpoint_close(other);
}

/* In order, and no more than was asked for. */
static void data__of_another_place(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
	} cases[] = {{1, 100}, {LENGTH, 1}, {UINT64_MAX, 100}, {0, LENGTH + 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		asked_open();
		data_arrives(&endpoint_peer(asked.pair.b, asked.pair.b_to_a)->base, asked.id, cases[i].offset,
			     cases[i].length);
		assert_int_equal(pair_counter(asked.pair.b, "bad_records"), 1);
		asked_close(THOLE_ERR_PROTOCOL);
	}
}

/* A window that a has announced; b has no receive for it. Whether a serves what such a record asks for. */
static bool serves(struct pair *pair, const struct record *like, struct thole_request *send)
{
	struct record record = *like;
	struct pool *pool = &shm_of(&pair->a->base)->serves;
	bool serves;

	record.length = RECORD_EXTERNAL;
	record.tag = request_id(send);
	bulk_arrived(&endpoint_peer(pair->a, pair->a_to_b)->base, &record, NULL, 0);
	serves = pool->live > 0;
	for (int i = 0; i < PAIR_TURNS_MAX && pool->live > 0; i++)
		pair_progress(pair, 1);
	assert_int_equal(pool->live, 0);
	return serves;
}

static void window__is_all_that_is_served(void **state)
{
	static const struct {
		uint64_t offset, length;
		bool good;
	} pulls[] = {
		{0, LENGTH, true},      {LENGTH - 1, 1, true}, {0, LENGTH + 1, false}, {1, LENGTH, false},
		{LENGTH, 1, false},     {LENGTH + 1, 1, false}, {0, 0, false},         {UINT64_MAX, 1, false},
		{1, UINT64_MAX, false},
	};
	static const struct {
		uint64_t index, count, length, block;
		bool good, bad;
	} offers[] = {
		{0, 1, LENGTH, 65536, true, false},
		{OFFERS - 1, 1, LENGTH, 65536, true, false},
		{OFFERS, 1, LENGTH, 65536, false, true},
		{255, 1, LENGTH, 65536, false, true},
		{0, 0, LENGTH, 65536, false, true},
		{0, THOLE_SEGMENTS_MAX + 1, LENGTH, 65536, false, true},
		{0, 1, LENGTH, 0, false, true},
		{0, 1, UINT64_MAX, 1, false, true},
		{0, 1, LENGTH + 1, 65536, false, false},
		{0, 1, 0, 65536, false, false},
	};
	uint8_t *from = pair_filled(2, LENGTH);
	struct thole_request *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, (const char *const[]){"bulk=cooperative", "look_again=0", NULL});
	transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
	for (size_t i = 0; i < sizeof(pulls) / sizeof(pulls[0]); i++)
		assert_int_equal(serves(&pair, &(struct record){.kind = RECORD_BULK_PULL, .imm = 77,
								.arg = {pulls[i].offset, pulls[i].length, 65536}},
					send),
				 pulls[i].good);
	for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		struct record offer = {.kind = RECORD_BULK_OFFER,
				       .imm = offers[i].index | UINT64_C(0xabcdef) << 8 | offers[i].count << 32,
				       .arg = {offers[i].length, (uintptr_t)from, offers[i].block}};
		uint64_t bad = pair_counter(pair.a, "bad_records");

		assert_int_equal(serves(&pair, &offer, send), offers[i].good);
		assert_int_equal(pair_counter(pair.a, "bad_records"), bad + offers[i].bad);
	}
	pair_close(&pair);
	free(from);
}

/* All requests of an endpoint are in use, and there may be no more. Returns those that were free. */
static struct pool_tail *requests_withhold(struct thole_endpoint *endpoint)
{
	struct pool_tail *free_ones = endpoint->requests.free;

	endpoint->requests.free = NULL;
	endpoint->requests.bound = endpoint->requests.capacity;
	return free_ones;
}

/* A receiver lends a place for the pieces of a window, and asks again, or needs none any more: what it lent goes back.
 * Where there is no memory for that the peer is lost, and the serve has ended just once. */
static void serve__of_a_peer_that_is_lost_by_it(void **state)
{
	uint8_t *from = pair_filled(2, LENGTH);

	(void)state;
	for (int again = 0; again < 2; again++) {
		struct record pull = {.kind = RECORD_BULK_PULL, .length = RECORD_EXTERNAL, .imm = 77,
				      .arg = {0, LENGTH, 65536, SEGMENT_BASE | UINT64_C(8192) << 32}};
		struct thole_request *send;
		struct transport_peer *peer;
		struct pool_tail *free_ones;
		struct pool *pool;
		struct pair pair;

		pair_open(&pair, (const char *const[]){"bulk=ring", "look_again=0", NULL});
		transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
		peer = &endpoint_peer(pair.a, pair.a_to_b)->base;
		pool = &shm_of(&pair.a->base)->serves;
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
		while (thole_send(pair.a, pair.a_to_b, "", 1, 5, 0, THOLE_QUIET | THOLE_OR_NOT, NULL, NULL) == 0)
			;
		pull.tag = request_id(send);
		bulk_arrived(peer, &pull, NULL, 0);
		assert_int_equal(pool->live, 1);
		assert_int_equal(pair_counter(pair.a, "bad_records"), 0);
		free_ones = requests_withhold(pair.a);
		if (again)
			bulk_arrived(peer, &pull, NULL, 0);
		else
			pair.b->base.up->control(&endpoint_peer(pair.b, pair.b_to_a)->base,
						 &(struct record){.kind = RECORD_FINISH, .tag = pull.tag});
		for (int i = 0; i < PAIR_TURNS_MAX && !peer->gone; i++)
			thole_progress(pair.a);
		assert_true(peer->gone);
		assert_int_equal(peer->gone_status, THOLE_ERR_MEMORY);
		assert_int_equal(pool->live, 0);
		assert_false(pool->free && pool->free->next_free == pool->free);
		assert_true(list_empty(&shm_of(&pair.a->base)->active));
		assert_null(pair.a->requests.free);
		pair.a->requests.free = free_ones;
		pair_close(&pair);
	}
	free(from);
}

/* The owner's segments are fewer bytes than it has announced. */
static void window__of_fewer_bytes_than_it_says(void **state)
{
	static uint8_t bytes[200];
	static struct iovec segments[2] = {{bytes, 100}, {bytes + 100, 100}};
	struct record record = {.kind = RECORD_RTS, .length = RECORD_EXTERNAL, .tag = 1};
	struct thole_request *receive;
	uint8_t *to = calloc(1, LENGTH);
	struct pair pair;

	(void)state;
	pair_open(&pair, (const char *const[]){"bulk=one-copy", "look_again=0", NULL});
	transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
	window_store(&(struct window){.length = LENGTH, .count = 2, .address = (uintptr_t)segments}, &record);
	pair.b->base.up->delivered(&endpoint_peer(pair.b, pair.b_to_a)->base, &record, NULL, 0);
	assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), THOLE_ERR_FAULT);
	pair_close(&pair);
	free(to);
}

/* ---- Whose memory it is when a fetch ends in the middle ------------------------------------------------- */

enum { REACH_LENGTH = 1 << 20 };

static const char *const reach_options[] = {
	"bulk=cooperative", "cooperative_block=256k", "look_again=0", "close_timeout=1ms", "network=off", NULL};

/* A message from a to b whose blocks are offered; a has looked at nothing yet. */
static struct reach {
	struct pair pair;
	uint8_t *from, *to, *seen;
	struct thole_request *send, *receive;
	const uint64_t *claim; /* of the transfer's offer, in the segment */
} reach;

static void reach_open(void)
{
	kernel_open(NULL);
	pair_open(&reach.pair, reach_options);
	transfer(&reach.pair, 1, 1, 1, 0xaaaaaaaa, 0);
	reach.from = pair_filled(2, REACH_LENGTH);
	reach.to = calloc(1, REACH_LENGTH);
	reach.seen = malloc(REACH_LENGTH);
	assert_int_equal(
		thole_recv(reach.pair.b, reach.pair.b_to_a, reach.to, REACH_LENGTH, 1, 0, 0, NULL, &reach.receive), 0);
	assert_int_equal(
		thole_send(reach.pair.a, reach.pair.a_to_b, reach.from, REACH_LENGTH, 1, 0, 0, NULL, &reach.send), 0);
	while (pair_counter(reach.pair.b, "bulk_cooperative") < 2)
		thole_progress(reach.pair.b);
	reach.claim = &shm_link(&endpoint_peer(reach.pair.b, reach.pair.b_to_a)->base)->in.segment->offers[0].claim;
}

static void reach_close(void)
{
	free(reach.from);
	free(reach.to);
	free(reach.seen);
}

/* From here on the memory is the user's. */
static void reach_see(void)
{
	memcpy(reach.seen, reach.to, REACH_LENGTH);
}

static void reach_check(void)
{
	assert_memory_equal(reach.seen, reach.to, REACH_LENGTH);
}

/* The endpoint may be closing in another thread. */
static bool reach_is_withdrawn(void)
{
	uint64_t word = load_acquire(reach.claim);

	return (word & 0xfffff) + (word >> 20 & 0xfffff) >= 8; /* all blocks are somebody's */
}

static int closed;

static void *closer(void *arg)
{
	(void)arg;
	thole_endpoint_close(reach.pair.b);
	reach_see();
	store_release(&closed, 1);
	return NULL;
}

static pthread_t closing;

/* The sender has claimed a block, and the receiver closes. */
static void close_beside(void)
{
	assert_int_equal(pthread_create(&closing, NULL, closer, NULL), 0);
	while (!load_acquire(&closed) && !reach_is_withdrawn())
		sched_yield();
	assert_false(load_acquire(&closed));
}

static void close__waits_for_what_is_claimed(void **state)
{
	(void)state;
	for (int after = 0; after < 2; after++) {
		reach_open();
		assert_int_equal(thole_option_set(reach.pair.b, "close_timeout", "3600s"), 0);
		closed = 0;
		(after ? kernel.after : kernel.before)[1] = close_beside;
		thole_progress(reach.pair.a);
		assert_int_equal(pthread_join(closing, NULL), 0);
		reach_check();
		thole_endpoint_close(reach.pair.a);
		reach_close();
	}
}

static void close_before(void)
{
	thole_endpoint_close(reach.pair.b);
	reach_see();
}

/* Whoever has claimed a block does not come to it for longer than close_timeout: he does not get in any more. */
static void close__shuts_out_who_does_not_come(void **state)
{
	(void)state;
	reach_open();
	kernel.before[1] = close_before;
	thole_progress(reach.pair.a);
	assert_null(kernel.before[1]);
	reach_check();
	thole_endpoint_close(reach.pair.a);
	reach_close();
}

/* The peer is lost for a reason of ours while it lives and writes. */
static void lose(void)
{
	struct thole_completion completion;

	assert_int_equal(thole_option_set(reach.pair.b, "close_timeout", "3600s"), 0);
	peer_lost(endpoint_peer(reach.pair.b, reach.pair.b_to_a), THOLE_ERR_MEMORY);
	for (int i = 0; i < 100; i++)
		assert_int_equal(thole_test(reach.pair.b, reach.receive, &completion), 0);
}

static void lost__waits_for_what_is_claimed(void **state)
{
	struct thole_completion completion;

	(void)state;
	reach_open();
	kernel.before[1] = lose;
	thole_progress(reach.pair.a);
	assert_null(kernel.before[1]);
	assert_int_equal(thole_test(reach.pair.b, reach.receive, &completion), 1);
	assert_int_equal(completion.status, THOLE_ERR_MEMORY);
	reach_see();
	for (int i = 0; i < 1000; i++)
		thole_progress(reach.pair.a);
	reach_check();
	/* And nothing is left of it. */
	pair_idle(&reach.pair);
	assert_null(shm_link(&endpoint_peer(reach.pair.b, reach.pair.b_to_a)->base));
	pair_close(&reach.pair);
	reach_close();
}

/* The same of a message that goes into a buffer for many: that is its user's again after its last message, and not
 * before. */
static int lost_ends, lost_parts;

static void lost_collect(void *arg, const struct thole_completion *completion)
{
	(void)arg;
	lost_parts++;
	lost_ends += (completion->flags & THOLE_MULTI_END) != 0;
}

static void lose_many(void)
{
	assert_int_equal(thole_option_set(reach.pair.b, "close_timeout", "3600s"), 0);
	peer_lost(endpoint_peer(reach.pair.b, reach.pair.b_to_a), THOLE_ERR_MEMORY);
	for (int i = 0; i < 100; i++)
		thole_progress(reach.pair.b);
	assert_int_equal(lost_ends, 0);
}

static void lost__with_a_buffer_for_many(void **state)
{
	(void)state;
	lost_ends = lost_parts = 0;
	reach.pair.a = pair_endpoint(NULL, NULL, reach_options);
	reach.pair.b = pair_endpoint(lost_collect, NULL, reach_options);
	reach.pair.a_to_b = pair_peer(reach.pair.a, reach.pair.b);
	reach.pair.b_to_a = pair_peer(reach.pair.b, reach.pair.a);
	kernel_open(NULL);
	transfer(&reach.pair, 1, 1, 1, 0xaaaaaaaa, 0);
	reach.from = pair_filled(2, REACH_LENGTH);
	reach.to = calloc(2, REACH_LENGTH);
	reach.seen = NULL;
	assert_int_equal(thole_recv(reach.pair.b, reach.pair.b_to_a, reach.to, 2 * (size_t)REACH_LENGTH, 1, 0,
				    THOLE_MULTI, NULL, NULL),
			 0);
	assert_int_equal(
		thole_send(reach.pair.a, reach.pair.a_to_b, reach.from, REACH_LENGTH, 1, 0, 0, NULL, &reach.send), 0);
	while (pair_counter(reach.pair.b, "bulk_cooperative") < 2)
		thole_progress(reach.pair.b);
	kernel.before[1] = lose_many;
	thole_progress(reach.pair.a);
	assert_null(kernel.before[1]);
	for (int i = 0; i < 100; i++)
		thole_progress(reach.pair.b);
	assert_int_equal(lost_ends, 1);
	assert_int_equal(lost_parts, 1);
	assert_int_equal(reach.pair.b->requests.live, 0);
	pair_close(&reach.pair);
	reach_close();
}

/* An offer's slot is used again while a sender still has its former use in mind: the new one's blocks are not his. */
static void claim__of_a_former_offer(void **state)
{
	struct offer *offer;
	uint64_t word;

	(void)state;
	reach_open();
	offer = &shm_link(&endpoint_peer(reach.pair.b, reach.pair.b_to_a)->base)->in.segment->offers[0];
	word = offer->claim + (UINT64_C(1) << 40); /* the sequence number */
	offer->claim = word;
	reach_see();
	for (int i = 0; i < 100; i++)
		thole_progress(reach.pair.a);
	assert_int_equal(offer->claim, word);
	reach_check();
	pair_close(&reach.pair);
	reach_close();
}

/* A sender that claims more blocks than there are has claimed none: nobody waits for it. */
static void claim__of_more_than_there_are(void **state)
{
	struct offer *offer;

	(void)state;
	reach_open();
	offer = &shm_link(&endpoint_peer(reach.pair.b, reach.pair.b_to_a)->base)->in.segment->offers[0];
	offer->claim |= UINT64_C(100) << 20;
	for (int i = 0; i < PAIR_TURNS_MAX && !thole_test(reach.pair.b, reach.receive, NULL); i++)
		;
	pair_check(2, reach.to, REACH_LENGTH);
	pair_close(&reach.pair);
	reach_close();
}

static struct shm_peer door_link;

static void door_shut_within(void)
{
	assert_true(door_is_passed(&door_link, 3));
	assert_false(door_is_passed(&door_link, 2));
	door_shut(&door_link, 1);
	assert_true(door_is_passed(&door_link, 3));
}

/* Shut, nobody gets in; whoever is in is seen, and seen to go out, also where it is stopped as it leaves the kernel.
 * Nothing else comes to where a door was shut. */
static void door__shuts(void **state)
{
	static uint8_t from[100], to[100];
	struct iovec here = {from, sizeof(from)}, there = {to, sizeof(to)};
	struct vector local = {&here, 1, sizeof(from)}, remote = {&there, 1, sizeof(to)};
	struct shm_peer *link = &door_link;
	uint64_t calls = 0, door = door_open(link, 3);
	long page = sysconf(_SC_PAGESIZE);

	(void)state;
	link->pid = getpid();
	kernel_open(NULL);
	memset(from, 7, sizeof(from));
	assert_int_equal(copy_write(link, door, &calls, &local, &remote, 0, 40), 0);
	assert_int_equal(to[39], 7);
	assert_int_equal(to[40], 0);
	assert_false(door_is_passed(link, 3));
	kernel.within = door_shut_within;
	assert_int_equal(copy_write(link, door, &calls, &local, &remote, 40, 10), 0);
	assert_int_equal(to[49], 7);
	assert_false(door_is_passed(link, 3));
	assert_int_equal(copy_write(link, door, &calls, &local, &remote, 50, 50), EFAULT);
	assert_int_equal(to[50], 0);
	door_close(link);
	assert_int_equal(copy_write(link, door, &calls, &local, &remote, 50, 50), EFAULT);
	assert_int_equal(to[50], 0);
	assert_int_equal(msync((void *)(uintptr_t)(door & ~(uint64_t)(page - 1)), (size_t)page, MS_ASYNC), 0);
}

/* There may be no further mapping just then, and nobody would hear that the door is open. */
static void door__needs_no_mapping_to_shut(void **state)
{
	static struct shm_peer link;
	uint64_t door = door_open(&link, 0);
	int before = mappings_of("-");

	(void)state;
	door_shut(&link, 1);
	assert_true(door && before > 0);
	assert_int_equal(mappings_of("-"), before);
}

/* A forked child is another process with the same addresses: who comes to have the parent's pid must not be it. */
static void door__is_not_inherited(void **state)
{
	static struct shm_peer link;
	long page = sysconf(_SC_PAGESIZE);
	void *pages[] = {door_page(), (void *)(uintptr_t)(door_open(&link, 0) & ~(uint64_t)(page - 1))};
	pid_t child;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(msync(pages[i], (size_t)page, MS_ASYNC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit((msync(pages[0], (size_t)page, MS_ASYNC) == 0) + (msync(pages[1], (size_t)page, MS_ASYNC) == 0));
	assert_int_equal(child_status(child), 0);
	door_page_free(pages[0]);
	door_close(&link);
}

/* The peer's cookie is another one, as where its address has come to be somebody else's. */
static void change_cookie(void)
{
	++*shm_of(&reach.pair.a->base)->cookie;
}

static void read__with_another_cookie(void **state)
{
	struct thole_completion completion;

	(void)state;
	reach_open();
	kernel.before[0] = change_cookie;
	while (!thole_test(reach.pair.b, reach.receive, &completion))
		;
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	pair_close(&reach.pair);
	reach_close();
}

/* The sender takes the receiver for lost, and its memory back, while that is being read. */
/* A peer may say in its greeting, after it was seen where its cookie is, that it has none. */
static void read__of_a_peer_without_a_cookie(void **state)
{
	(void)state;
	for (int several = 0; several < 2; several++) {
		struct shm_peer *link;
		struct pair pair;

		pair_open(&pair, (const char *const[]){"bulk=one-copy", "eager_max=1k", "look_again=0", NULL});
		assert_int_equal(row_goes(&pair, 100), ROW);
		link = shm_link(&endpoint_peer(pair.b, pair.b_to_a)->base);
		while (!link->life)
			pair_idle(&pair);
		life_release(link);
		link->cookie_address = link->cookie = 0;
		if (several)
			assert_int_equal(row_goes(&pair, 200), 0);
		else
			transfer(&pair, 1, 1, 1, 0xaaaaaaaa, THOLE_ERR_PEER);
		pair_close(&pair);
	}
}

static void lose_receiver(void)
{
	peer_lost(endpoint_peer(reach.pair.a, reach.pair.a_to_b), THOLE_ERR_MEMORY);
	memset(reach.from, 0, REACH_LENGTH);
}

static void read__of_a_send_that_has_ended(void **state)
{
	struct thole_completion completion;

	(void)state;
	reach_open();
	kernel.before[0] = lose_receiver;
	while (!thole_test(reach.pair.b, reach.receive, &completion))
		;
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	pair_close(&reach.pair);
	reach_close();
}

/* The sender closes just before its memory is read: it may be anything by then. */
static void close_sender(void)
{
	thole_endpoint_close(reach.pair.a);
	memset(reach.from, 0, REACH_LENGTH);
}

static void close_sender_late(void)
{
	memset(reach.from, 0, REACH_LENGTH);
	thole_endpoint_close(reach.pair.a);
}

static void read__of_a_sender_that_closes(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		struct thole_completion completion;

		reach_open();
		(late ? kernel.after : kernel.before)[0] = late ? close_sender_late : close_sender;
		while (!thole_test(reach.pair.b, reach.receive, &completion))
			;
		assert_int_equal(completion.status, THOLE_ERR_CLOSED);
		thole_endpoint_close(reach.pair.b);
		reach_close();
	}
}

/* ---- Processes that stop, or run another program ------------------------------------------------------------- */

enum { OTHER_BYTE = 0x5a };

/* Where both programs have a buffer: behind programs, and where all sanitizers leave room. */
#define OTHER_PLACE ((uint8_t *)UINT64_C(0x567000000000))

/* A pair in two processes. The child plays its part and ends with 0 where all is as it should be. */
static struct other {
	pid_t child;
	int to_child[2], to_parent[2];
	uint8_t *bytes;
	bool after;
} other;

static uint8_t *other_map(uint8_t byte)
{
	uint8_t *bytes = mmap(OTHER_PLACE, REACH_LENGTH, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_equal(bytes, OTHER_PLACE);
	memset(bytes, byte, REACH_LENGTH);
	return bytes;
}

/* One address goes each way. */
static void other_meet(int in, int out, struct thole_endpoint **endpoint_p, uint32_t *peer_p)
{
	struct thole_address address;

	*endpoint_p = pair_endpoint(NULL, NULL, reach_options);
	thole_endpoint_address(*endpoint_p, &address);
	assert_int_equal(write(out, &address, sizeof(address)), sizeof(address));
	assert_int_equal(read(in, &address, sizeof(address)), sizeof(address));
	assert_int_equal(thole_peer(*endpoint_p, &address, peer_p), 0);
}

static void other_open(void (*child)(void))
{
	kernel_open(NULL);
	assert_int_equal(pipe(other.to_child) | pipe(other.to_parent), 0);
	other.child = fork();
	assert_true(other.child >= 0);
	if (other.child == 0) {
		close(other.to_child[1]); /* so that it does not outlive us */
		child();
		_exit(0);
	}
}

static void other_close(int expected)
{
	int status;

	close(other.to_child[1]);
	assert_int_equal(waitpid(other.child, &status, 0), other.child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), expected);
	close(other.to_child[0]);
	close(other.to_parent[0]);
	close(other.to_parent[1]);
}

static void other_say(int fd)
{
	assert_int_equal(write(fd, "", 1), 1);
}

static void other_hear(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
}

static void stop_here(void)
{
	raise(SIGSTOP);
}

/* A sender that stops between its claim and its copy, or just after the copy, and goes on much later. */
static void stopping_child(void)
{
	uint8_t *from = pair_filled(2, REACH_LENGTH);
	struct thole_endpoint *endpoint;
	uint32_t peer;

	(other.after ? kernel.after : kernel.before)[1] = stop_here;
	other_meet(other.to_child[0], other.to_parent[1], &endpoint, &peer);
	thole_send(endpoint, peer, from, REACH_LENGTH, 1, 0, 0, NULL, NULL);
	while (kernel.before[1] || kernel.after[1])
		thole_progress(endpoint);
	other_say(other.to_parent[1]);
	for (struct pollfd end = {.fd = other.to_child[0], .events = POLLIN}; poll(&end, 1, 0) == 0;)
		thole_progress(endpoint);
	_exit(0);
}

static void stopped__does_not_hold_up_closing(void **state)
{
	(void)state;
	for (int after = 0; after < 2; after++) {
		uint8_t *to = calloc(1, REACH_LENGTH), *seen = malloc(REACH_LENGTH);
		struct thole_endpoint *endpoint;
		uint32_t peer;
		int status;

		other.after = after;
		other_open(stopping_child);
		other_meet(other.to_parent[0], other.to_child[1], &endpoint, &peer);
		assert_int_equal(thole_recv(endpoint, peer, to, REACH_LENGTH, 1, 0, 0, NULL, NULL), 0);
		while (waitpid(other.child, &status, WUNTRACED | WNOHANG) == 0)
			if (!pair_counter(endpoint, "bulk_cooperative"))
				thole_progress(endpoint); /* and then leaves it to the sender */
		assert_true(WIFSTOPPED(status));
		thole_endpoint_close(endpoint);
		memcpy(seen, to, REACH_LENGTH);
		kill(other.child, SIGCONT);
		other_hear(other.to_parent[0]);
		assert_memory_equal(seen, to, REACH_LENGTH);
		other_close(0);
		free(to);
		free(seen);
	}
}

/* Run this test's program again, as another, with its own data where the buffer was. A child of its own keeps the
 * sockets. */
static void become_other(void)
{
	char in[16], out[16];

	if (fork() == 0)
		_exit((int)read(other.to_child[0], in, 1)); /* until the parent is through */
	snprintf(in, sizeof(in), "%d", other.to_child[0]);
	snprintf(out, sizeof(out), "%d", other.to_parent[1]);
	execl("/proc/self/exe", "bulk_test", "other", in, out, (char *)NULL);
	_exit(100);
}

/* The other program: it says that it is there, waits, and looks at its memory. */
static int other_program(int in, int out)
{
	uint8_t *bytes = other_map(OTHER_BYTE);
	char byte;

	(void)!write(out, "", 1);
	(void)!read(in, &byte, 1); /* to the end */
	for (int i = 0; i < REACH_LENGTH; i++)
		if (bytes[i] != OTHER_BYTE)
			return 1;
	return 0;
}

static void exec_there(void)
{
	other_say(other.to_child[1]);
	other_hear(other.to_parent[0]);
}

/* The sender announces, and runs another program when it is told. */
static void sending_child(void)
{
	uint8_t *from = other_map(1);
	struct thole_endpoint *endpoint;
	uint32_t peer;

	other_meet(other.to_child[0], other.to_parent[1], &endpoint, &peer);
	thole_send(endpoint, peer, from, REACH_LENGTH, 1, 0, 0, NULL, NULL);
	other_hear(other.to_child[0]);
	become_other();
}

/* Of a peer, once that has told by what it is known to go on. */
static struct shm_peer *told_link(struct thole_endpoint *endpoint, uint32_t peer)
{
	struct shm_peer *link;

	while (!(link = shm_link(&endpoint_peer(endpoint, peer)->base)) || !link->life)
		thole_progress(endpoint);
	return link;
}

static void exec_of_a_sender_that_is_read(bool alive)
{
	uint8_t *to = calloc(1, REACH_LENGTH);
	struct thole_completion completion;
	struct thole_endpoint *endpoint;
	struct thole_request *receive;
	uint32_t peer;

	other_open(sending_child);
	other_meet(other.to_parent[0], other.to_child[1], &endpoint, &peer);
	if (alive)
		assert_true(life_goes_on(told_link(endpoint, peer)));
	kernel.before[0] = exec_there;
	assert_int_equal(thole_recv(endpoint, peer, to, REACH_LENGTH, 1, 0, 0, NULL, &receive), 0);
	/* though its sockets are open in its child */
	assert_int_equal(thole_wait(endpoint, receive, -1, &completion), 0);
	assert_null(kernel.before[0]);
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	while (!endpoint_peer(endpoint, peer)->base.gone) /* and it is known to have ended */
		thole_progress(endpoint);
	thole_endpoint_close(endpoint);
	other_close(0);
	free(to);
}

/* Also where it is known to go on just before its memory is read. */
static void exec__of_a_sender_that_is_read(void **state)
{
	(void)state;
	exec_of_a_sender_that_is_read(false);
	exec_of_a_sender_that_is_read(true);
}

static struct thole_endpoint *told_endpoint;
static uint32_t told_peer;

static void *tell(void *from)
{
	thole_send(told_endpoint, told_peer, from, REACH_LENGTH, 1, 0, 0, NULL, NULL);
	return NULL;
}

/* The thread that announces ends, and the process does not. */
static void child_of_two_threads(void)
{
	uint8_t *from = pair_filled(3, REACH_LENGTH);
	pthread_t thread;

	other_meet(other.to_child[0], other.to_parent[1], &told_endpoint, &told_peer);
	if (pthread_create(&thread, NULL, tell, from) != 0 || pthread_join(thread, NULL) != 0)
		_exit(1);
	other_say(other.to_parent[1]);
	other_hear(other.to_child[0]);
}

static void life__of_a_thread_that_ends(void **state)
{
	uint8_t *to = calloc(1, REACH_LENGTH);
	struct thole_completion completion;
	struct thole_endpoint *endpoint;
	struct thole_request *receive;
	struct shm_peer *link;
	uint32_t peer;

	(void)state;
	other_open(child_of_two_threads);
	other_meet(other.to_parent[0], other.to_child[1], &endpoint, &peer);
	other_hear(other.to_parent[0]);
	link = told_link(endpoint, peer);
	assert_false(life_goes_on(link));
	assert_int_equal(thole_recv(endpoint, peer, to, REACH_LENGTH, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_wait(endpoint, receive, -1, &completion), 0);
	assert_int_equal(completion.status, 0);
	assert_true(kernel.words > 0);
	pair_check(3, to, REACH_LENGTH);
	thole_endpoint_close(endpoint);
	other_say(other.to_child[1]);
	other_close(0);
	free(to);
}

/* Who has another's page cannot write to it, by whatever descriptor. */
static void life__is_not_written_by_others(void **state)
{
	struct shm_peer *link;
	char path[64];
	struct pair pair;
	uintptr_t from;
	int map_files, fd;

	(void)state;
	pair_open(&pair, (const char *const[]){"bulk=one-copy", "eager_max=1k", "look_again=0", NULL});
	assert_int_equal(row_goes(&pair, 100), ROW);
	link = shm_link(&pair.b->peers[pair.b_to_a]->base);
	while (!life_goes_on(link))
		pair_idle(&pair);
	from = (uintptr_t)link->life_page;
	map_files = open("/proc/self/map_files", O_RDONLY | O_DIRECTORY);
	assert_true(map_files >= 0);
	snprintf(path, sizeof(path), "%lx-%lx", from, from + (uintptr_t)getpagesize());
	fd = openat(map_files, path, O_RDWR);
	close(map_files);
	if (fd < 0) {
		pair_close(&pair);
		print_message("skipped: opening what is mapped needs CAP_CHECKPOINT_RESTORE\n");
		skip();
	}
	assert_int_equal(pwrite(fd, "", 1, 0), -1);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_not_equal(mprotect((void *)from, 4096, PROT_READ | PROT_WRITE), 0);
	close(fd);
	pair_close(&pair);
}

enum { LIFE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL };

/* A page of a peer's, of so many bytes, with these seals, whose word is said to be there; with -1 a plain file, which
 * has no seals. */
static int page_of(size_t size, int seals, uint64_t word_at)
{
	char name[] = "/tmp/thole-page-XXXXXX";
	int fd = seals < 0 ? mkstemp(name) : memfd_create("page of a peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	if (seals < 0)
		unlink(name);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(pwrite(fd, &word_at, sizeof(word_at), 0), sizeof(word_at));
	if (seals > 0)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* How many such are mapped. */
static int pages_mapped(void)
{
	return mappings_of("page of a peer") + mappings_of("thole-page-");
}

/* Whether the page that a announces to b, several times, is looked at. */
static bool page_is_looked_at(const char *option, const uint64_t *message, size_t size, int fd)
{
	struct shm_peer *link;
	struct pair pair;
	bool looks;

	pair_open(&pair, (const char *const[]){option, NULL});
	say(&pair);
	link = shm_link(&pair.a->peers[pair.a_to_b]->base);
	for (int i = 0; i < 3; i++)
		assert_true(connect_send(link->watch_out.fd, message, size, fd));
	pair_progress(&pair, 5000);
	link = shm_link(&pair.b->peers[pair.b_to_a]->base);
	looks = link->life != NULL;
	assert_int_equal(pages_mapped(), looks);
	assert_false(life_goes_on(link)); /* the word is 0 */
	pair_close(&pair);
	assert_int_equal(pages_mapped(), 0);
	return looks;
}

/* Only a page whose word lies in it and which cannot be cut short, or get holes, is looked at. */
static void life__page_is_checked(void **state)
{
	static const struct {
		size_t size;
		int seals;
		uint64_t word_at;
		bool good;
	} pages[] = {
		{4096, -1, 8, false},
		{4096, 0, 8, false},
		{4096, LIFE_SEALS & ~F_SEAL_SHRINK, 8, false},
		{4096, LIFE_SEALS & ~F_SEAL_FUTURE_WRITE, 8, false},
		{4096, LIFE_SEALS & ~F_SEAL_SEAL, 8, false},
		{2048, LIFE_SEALS, 8, false},
		{8192, LIFE_SEALS, 8, false},
		{4096, LIFE_SEALS, 6, false},
		{4096, LIFE_SEALS, 4096, false},
		{4096, LIFE_SEALS, UINT64_MAX - 3, false},
		{4096, LIFE_SEALS, 8, true},
		{4096, LIFE_SEALS, 4092, true},
	};
	const uint64_t message[] = {UINT64_C(0x74686f6c656c6631), 0}, another = message[0] ^ 1;
	char path[32];
	int fd, reads;

	(void)state;
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		fd = page_of(pages[i].size, pages[i].seals, pages[i].word_at);
		assert_true(page_is_looked_at("one_copy=on", message, 8, fd) == pages[i].good);
		close(fd);
	}
	fd = page_of(4096, LIFE_SEALS, 8);
	assert_false(page_is_looked_at("one_copy=off", message, 8, fd));
	assert_false(page_is_looked_at("one_copy=on", &another, 8, fd));
	assert_false(page_is_looked_at("one_copy=on", message, 16, fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reads = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(reads >= 0);
	assert_false(page_is_looked_at("one_copy=on", message, 8, reads)); /* its holes would stay */
	close(reads);
	assert_true(page_is_looked_at("one_copy=on", message, 8, fd));
	close(fd);
}

static void bare_child(void)
{
	uint8_t *from = pair_filled(4, REACH_LENGTH);
	struct thole_endpoint *endpoint;
	uint32_t peer;

	other_meet(other.to_child[0], other.to_parent[1], &endpoint, &peer);
	thole_send(endpoint, peer, from, REACH_LENGTH, 1, 0, 0, NULL, NULL);
	other_hear(other.to_child[0]);
}

/* In a child that is made by the bare system call, the kernel knows of no mutex that its only thread holds: it would
 * not say that it has ended. And the page of its parent is not there. */
static void life__not_in_a_bare_child(void **state)
{
	uint8_t *to = calloc(1, REACH_LENGTH);
	struct thole_completion completion;
	struct thole_endpoint *endpoint;
	struct thole_request *receive;
	struct pair pair;
	uint32_t peer;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it knows of no such child */
#endif
	pair_open(&pair, (const char *const[]){"bulk=one-copy", "eager_max=1k", NULL}); /* this process has a page */
	assert_int_equal(row_goes(&pair, 100), ROW);
	pair_close(&pair);
	kernel_open(NULL);
	assert_int_equal(pipe(other.to_child) | pipe(other.to_parent), 0);
	other.child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	assert_true(other.child >= 0);
	if (other.child == 0) {
		close(other.to_child[1]);
		bare_child();
		_exit(0);
	}
	other_meet(other.to_parent[0], other.to_child[1], &endpoint, &peer);
	assert_int_equal(thole_recv(endpoint, peer, to, REACH_LENGTH, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_wait(endpoint, receive, 10000000000, &completion), 0);
	assert_int_equal(completion.status, 0);
	pair_check(4, to, REACH_LENGTH);
	for (int i = 0; i < 5000; i++)
		thole_progress(endpoint);
	assert_null(shm_link(&endpoint_peer(endpoint, peer)->base)->life);
	thole_endpoint_close(endpoint);
	other_say(other.to_child[1]);
	other_close(0);
	free(to);
}

static uint32_t life_word;

static void life_ends(void)
{
	life_word |= FUTEX_OWNER_DIED;
}

static void life_ends_with_another_cookie(void)
{
	life_ends();
	row_change_cookie();
}

/* Of who is known to go on, no cookie is read; where that ends while data is read, the cookie tells whose it was. */
static void life__spares_the_cookie(void **state)
{
	static const char *const options[] = {"bulk=one-copy", "eager_max=1k", "look_again=0", NULL};
	struct shm_peer *link;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	row_pair = &pair;
	assert_int_equal(row_goes(&pair, 100), ROW);
	link = shm_link(&pair.b->peers[pair.b_to_a]->base);
	while (!life_goes_on(link))
		pair_idle(&pair);
	kernel.words = 0;
	for (int i = 0; i < 6; i++) { /* in part, too */
		kernel.part = i % 3 ? 30000 : 0;
		assert_int_equal(row_goes(&pair, 200), ROW);
	}
	transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
	transfer(&pair, 2, 40, 63, 0xaaaaaaaa, 0);
	assert_int_equal(kernel.words, 0);
	kernel.part = 0;
	link->life = &life_word;
	for (int several = 0; several < 2; several++) {
		life_word = 1;
		kernel.before[0] = life_ends;
		if (several)
			assert_int_equal(row_goes(&pair, 300), ROW);
		else
			transfer(&pair, 3, 1, 1, 0xaaaaaaaa, 0);
		assert_true(kernel.words > 0);
	}
	life_word = 1;
	kernel.before[0] = life_ends_with_another_cookie;
	assert_int_equal(row_goes(&pair, 400), 0);
	pair_close(&pair);
}

static void life__with_another_cookie(void **state)
{
	struct pair pair;

	(void)state;
	/* one read */
	pair_open(&pair, (const char *const[]){"bulk=one-copy", "cooperative_block=1m", "look_again=0", NULL});
	row_pair = &pair;
	transfer(&pair, 1, 1, 1, 0xaaaaaaaa, 0);
	shm_link(&pair.b->peers[pair.b_to_a]->base)->life = &life_word;
	life_word = 1;
	kernel.before[0] = life_ends_with_another_cookie;
	transfer(&pair, 2, 1, 1, 0xaaaaaaaa, THOLE_ERR_PEER);
	pair_close(&pair);
}

/* The receiver offers, and runs another program when it is told. */
static void receiving_child(void)
{
	uint8_t *to = other_map(1);
	struct thole_endpoint *endpoint;
	uint32_t peer;

	other_meet(other.to_child[0], other.to_parent[1], &endpoint, &peer);
	thole_recv(endpoint, peer, to, REACH_LENGTH, 1, 0, 0, NULL, NULL);
	while (!pair_counter(endpoint, "bulk_cooperative"))
		thole_progress(endpoint);
	other_hear(other.to_child[0]);
	become_other();
}

static void exec__of_a_receiver_that_is_written(void **state)
{
	uint8_t *from = pair_filled(2, REACH_LENGTH);
	struct thole_endpoint *endpoint;
	uint32_t peer;

	(void)state;
	other_open(receiving_child);
	other_meet(other.to_parent[0], other.to_child[1], &endpoint, &peer);
	kernel.before[1] = exec_there;
	assert_int_equal(thole_send(endpoint, peer, from, REACH_LENGTH, 1, 0, 0, NULL, NULL), 0);
	while (kernel.before[1])
		thole_progress(endpoint);
	assert_int_equal(pair_counter(endpoint, "bulk_blocks_helped"), 0);
	assert_int_equal(pair_counter(endpoint, "one_copy_refused"), 0);
	other_close(0);
	thole_endpoint_close(endpoint);
	free(from);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(fetch__each_way_and_shape, kernel_open),
		cmocka_unit_test_setup(several__are_read_in_one_call, kernel_open),
		cmocka_unit_test_setup(several__with_another_cookie, kernel_open),
		cmocka_unit_test_setup(life__spares_the_cookie, kernel_open),
		cmocka_unit_test_setup(life__is_not_written_by_others, kernel_open),
		cmocka_unit_test_setup(life__with_another_cookie, kernel_open),
		cmocka_unit_test_setup(life__of_a_thread_that_ends, kernel_open),
		cmocka_unit_test_setup(life__not_in_a_bare_child, kernel_open),
		cmocka_unit_test_setup(life__page_is_checked, kernel_open),
		cmocka_unit_test_setup(refused__at_any_call, kernel_open),
		cmocka_unit_test_setup(refused__before_anything, kernel_open),
		cmocka_unit_test_setup(taken_over__then_refused, kernel_open),
		cmocka_unit_test_setup(lent__in_a_dialogue, kernel_open),
		cmocka_unit_test_setup(crossed__is_written_before_it_is_read, kernel_open),
		cmocka_unit_test_setup(lent__comes_back, kernel_open),
		cmocka_unit_test_setup(lent__is_not_written_by_its_owner, kernel_open),
		cmocka_unit_test_setup(lent__anywhere, kernel_open),
		cmocka_unit_test_setup(fault__in_the_senders_buffer, kernel_open),
		cmocka_unit_test_setup(fault__in_the_receivers_buffer, kernel_open),
		cmocka_unit_test_setup(fault__of_memory_that_its_owner_can_use, kernel_open),
		cmocka_unit_test_setup(fault__of_a_region, kernel_open),
		cmocka_unit_test_setup(memory__of_the_kernel, kernel_open),
		cmocka_unit_test_setup(memory__of_the_sender, kernel_open),
		cmocka_unit_test_setup(close__in_the_middle, kernel_open),
		cmocka_unit_test(close__waits_for_what_is_claimed),
		cmocka_unit_test(close__shuts_out_who_does_not_come),
		cmocka_unit_test(lost__waits_for_what_is_claimed),
		cmocka_unit_test(lost__with_a_buffer_for_many),
		cmocka_unit_test(claim__of_a_former_offer),
		cmocka_unit_test(claim__of_more_than_there_are),
		cmocka_unit_test(data__of_another_fetch_or_peer),
		cmocka_unit_test(data__of_another_place),
		cmocka_unit_test(window__is_all_that_is_served),
		cmocka_unit_test(serve__of_a_peer_that_is_lost_by_it),
		cmocka_unit_test(window__of_fewer_bytes_than_it_says),
		cmocka_unit_test(door__shuts),
		cmocka_unit_test(door__needs_no_mapping_to_shut),
		cmocka_unit_test(door__is_not_inherited),
		cmocka_unit_test(read__with_another_cookie),
		cmocka_unit_test_setup(read__of_a_peer_without_a_cookie, kernel_open),
		cmocka_unit_test(read__of_a_send_that_has_ended),
		cmocka_unit_test(read__of_a_sender_that_closes),
		cmocka_unit_test(stopped__does_not_hold_up_closing),
		cmocka_unit_test(exec__of_a_sender_that_is_read),
		cmocka_unit_test(exec__of_a_receiver_that_is_written),
	};

	if (argc == 4 && strcmp(argv[1], "other") == 0)
		return other_program(atoi(argv[2]), atoi(argv[3]));

	return cmocka_run_group_tests_name("bulk", tests, NULL, NULL);
}
