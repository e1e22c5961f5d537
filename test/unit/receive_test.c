/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: truncation, buffers for many messages, probes, cancel, synchronous sends, and the bound on
 * what is held for messages that nobody has asked for.
 *
 * malloc is replaced (by the linker's --wrap) so that memory can be refused.
 */
#include "pair.h"

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
int __real_ring_push(struct peer *peer, const struct record *record, const struct vector *payload, uint64_t offset,
		     uint32_t length);
int __wrap_ring_push(struct peer *peer, const struct record *record, const struct vector *payload, uint64_t offset,
		     uint32_t length);

static size_t refuse_size; /* requests for so many bytes are refused; 0: none */

void *__wrap_malloc(size_t size)
{
	return refuse_size && size == refuse_size ? NULL : __real_malloc(size);
}

static const char *const no_options[] = {NULL};

/* Sizes on either side of each border between protocols. */
static const size_t sizes[] = {0, 1, 40, 41, 1024, 1025, 8192, 8193, 65536, 65537, 300000, 3000000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void recv__every_size_posted_and_unexpected(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, no_options);
	for (int i = 0; i < 4 * SIZES; i++) {
		size_t size = sizes[i % SIZES];
		bool posted = i / SIZES % 2, sync = i / SIZES / 2;
		char *from = pair_filled((uint64_t)i, size), *to = calloc(1, size + 1);
		struct thole_request *send, *receive;
		struct thole_completion completion = {0};

		if (posted)
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, size, 7, ~UINT64_C(0), 0, from, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, size, 7, 99, THOLE_IMM | (sync ? THOLE_SYNC : 0), to,
					    &send),
				 0);
		pair_progress(&pair, 5);
		if (!posted) {
			if (sync)
				assert_int_equal(thole_test(pair.a, send, NULL), 0);
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, size, 7, ~UINT64_C(0), 0, from, &receive), 0);
		}
		assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), 0);
		assert_int_equal(completion.length, size);
		assert_int_equal(completion.message_length, size);
		assert_int_equal(completion.tag, 7);
		assert_int_equal(completion.imm, 99);
		assert_true(completion.flags & THOLE_IMM);
		assert_ptr_equal(completion.context, from);
		assert_int_equal(completion.peer, pair.b_to_a);
		assert_int_equal(completion.operation, THOLE_OP_RECEIVE);
		pair_check((uint64_t)i, to, size);
		assert_int_equal(to[size], 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, &completion), 0);
		assert_ptr_equal(completion.context, to);
		assert_int_equal(completion.operation, THOLE_OP_SEND);
		free(from);
		free(to);
	}
	assert_int_equal(pair_counter(pair.b, "bad_records"), 0);
	assert_int_equal(pair_counter(pair.b, "unexpected_bytes"), 0);
	pair_close(&pair);
}

static void recv__longer_message_is_cut(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, no_options);
	for (int i = 0; i < 2 * SIZES; i++) {
		size_t size = sizes[i % SIZES], room = size / 2;
		char *from = pair_filled((uint64_t)i, size), *to = calloc(1, size + 1);
		struct thole_request *send, *receive;
		struct thole_completion completion;

		if (i >= SIZES)
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, room, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, size, 7, 0, 0, NULL, &send), 0);
		pair_progress(&pair, 5);
		if (i < SIZES)
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, room, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), size > room ? THOLE_ERR_TRUNCATED : 0);
		assert_int_equal(completion.length, room);
		assert_int_equal(completion.message_length, size);
		pair_check((uint64_t)i, to, room);
		for (size_t k = room; k <= size; k++)
			assert_int_equal(to[k], 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		free(from);
		free(to);
	}
	assert_int_equal(pair_counter(pair.b, "truncated"), 2 * (SIZES - 1));
	pair_close(&pair);
}

/* The answer to a synchronous send overtakes the rest of its pieces where the ring is smaller than the message. */
static void sync__matched_before_all_pieces_are_out(void **state)
{
	static const char *const options[] = {"bulk_ring=64k", "eager_max=1m", NULL};
	enum { LENGTH = 700000 };
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < 8; i++) {
		char *from = pair_filled((uint64_t)i, LENGTH), *to = calloc(1, LENGTH);
		struct thole_request *send, *receive;

		if (i % 2)
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, LENGTH, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 7, 0, THOLE_SYNC, NULL, &send), 0);
		if (i % 2 == 0) {
			thole_progress(pair.b); /* its front is here */
			thole_progress(pair.b);
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, LENGTH, 0, 0, 0, NULL, &receive), 0);
		}
		if (i < 4)
			thole_progress(pair.b); /* now, before the sender can push anything more */
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		pair_check((uint64_t)i, to, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		free(from);
		free(to);
	}
	assert_int_equal(pair_counter(pair.a, "bad_records"), 0);
	assert_true(pair_counter(pair.a, "backlogged") > 0);
	pair_close(&pair);
}

/* A sender may write over its payload as soon as any record tells it that the receiver is through with it. The replaced
 * ring_push is such a sender, as fast as one can be. */
static struct ring_out *scribbled; /* whose areas are written over when the next record is pushed, or NULL */

int __wrap_ring_push(struct peer *peer, const struct record *record, const struct vector *payload, uint64_t offset,
		     uint32_t length)
{
	if (scribbled && &shm_link(peer)->out != scribbled)
		for (int i = 0; i < AREAS && scribbled->areas[i].size; i++)
			memset(scribbled->areas[i].base, 0xee, scribbled->areas[i].size);
	return __real_ring_push(peer, record, payload, offset, length);
}

static void sync__answered_after_the_payload_was_copied(void **state)
{
	static const uint32_t lengths[] = { /* one piece each */ 41, 900, 4096, 8192};
	struct pair pair;

	(void)state;
	pair_open(&pair, no_options);
	for (uint64_t i = 0; i < 4; i++) {
		char *from = pair_filled(i, lengths[i]), *to = calloc(1, lengths[i]);
		struct thole_request *send, *receive;

		assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, lengths[i], 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, lengths[i], 7, 0, THOLE_SYNC, NULL, &send), 0);
		scribbled = &shm_link(pair.a->peers[pair.a_to_b])->out;
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		scribbled = NULL;
		pair_check(i, to, lengths[i]);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		free(from);
		free(to);
	}
	pair_close(&pair);
}

/* ---- Buffers for many messages -------------------------------------------------------------------- */

enum { PARTS_MAX = 64 };

struct collected {
	struct thole_completion completions[PARTS_MAX];
	int count;
};

static void collect(void *arg, const struct thole_completion *completion)
{
	struct collected *collected = arg;

	if (completion->operation != THOLE_OP_RECEIVE)
		return;
	assert_true(collected->count < PARTS_MAX);
	collected->completions[collected->count++] = *completion;
}

static void multi_case(bool posted_first, uint32_t length, int count, bool large)
{
	const char *const options[] = {"multi_min=100", large ? "eager_max=64" : "eager_max=64k", NULL};
	struct collected collected = {0};
	struct pair pair = {.a = pair_endpoint(NULL, NULL, options), .b = pair_endpoint(collect, &collected, options)};
	size_t room = (size_t)length * (size_t)count + 99; /* less than multi_min is left after the last */
	char *buffer = calloc(1, room), *bytes[PARTS_MAX];
	int ends = 0;

	pair.a_to_b = pair_peer(pair.a, pair.b);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	if (posted_first)
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, buffer, room, 5, ~UINT64_C(0), THOLE_MULTI, &pair, NULL), 0);
	for (int i = 0; i < count; i++) {
		bytes[i] = pair_filled((uint64_t)i, length);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes[i], length, 5, 0, THOLE_QUIET, NULL, NULL), 0);
	}
	pair_progress(&pair, 100);
	if (!posted_first)
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, buffer, room, 5, ~UINT64_C(0), THOLE_MULTI, &pair, NULL), 0);
	pair_progress(&pair, 2000);
	assert_int_equal(collected.count, count);
	for (int i = 0; i < count; i++) {
		const struct thole_completion *part = &collected.completions[i];
		long number = ((char *)part->buffer - buffer) / (long)length;

		assert_in_range(number, 0, count - 1);
		assert_int_equal(part->status, 0);
		assert_int_equal(part->length, length);
		assert_ptr_equal(part->context, &pair);
		assert_true(part->flags & THOLE_MULTI);
		pair_check((uint64_t)number, part->buffer, length);
		ends += (part->flags & THOLE_MULTI_END) != 0;
		if (part->flags & THOLE_MULTI_END)
			assert_int_equal(i, count - 1);
	}
	assert_int_equal(ends, 1);
	thole_endpoint_close(pair.a);
	thole_endpoint_close(pair.b);
	for (int i = 0; i < count; i++)
		free(bytes[i]);
	free(buffer);
}

static void multi__takes_messages_until_full(void **state)
{
	(void)state;
	for (int posted = 0; posted < 2; posted++) {
		multi_case(posted, 1, 5, false);
		multi_case(posted, 1000, 20, false);
		multi_case(posted, 30000, 10, false);
		multi_case(posted, 30000, 10, true);
		multi_case(posted, 500000, 6, true);
	}
}

static void multi__cancel_gives_the_buffer_back_once(void **state)
{
	struct collected collected = {0};
	struct pair pair = {.a = pair_endpoint(NULL, NULL, no_options), .b = pair_endpoint(collect, &collected, no_options)};
	char buffer[1000], byte = 3;

	(void)state;
	pair.a_to_b = pair_peer(pair.a, pair.b);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, buffer, sizeof(buffer), 5, 0, THOLE_MULTI, &pair, NULL), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 5, 0, THOLE_QUIET, NULL, NULL), 0);
	pair_progress(&pair, 100);
	assert_int_equal(collected.count, 1);
	assert_false(collected.completions[0].flags & THOLE_MULTI_END);
	assert_int_equal(thole_cancel_context(pair.b, &pair), 1);
	assert_int_equal(collected.count, 2);
	assert_int_equal(collected.completions[1].status, THOLE_ERR_CANCELED);
	assert_true(collected.completions[1].flags & THOLE_MULTI_END);
	assert_int_equal(thole_cancel_context(pair.b, &pair), 0);
	thole_endpoint_close(pair.a);
	thole_endpoint_close(pair.b);
}

static void multi__source_that_ends_gives_the_buffer_back(void **state)
{
	struct collected collected = {0};
	struct pair pair = {.a = pair_endpoint(NULL, NULL, no_options), .b = pair_endpoint(collect, &collected, no_options)};
	char buffer[1000], byte = 3;

	(void)state;
	pair.a_to_b = pair_peer(pair.a, pair.b);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, buffer, sizeof(buffer), 5, 0, THOLE_MULTI, &pair, NULL), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 5, 0, THOLE_QUIET, NULL, NULL), 0);
	thole_endpoint_close(pair.a);
	for (int i = 0; i < PAIR_TURNS_MAX && collected.count < 2; i++)
		thole_progress(pair.b);
	assert_int_equal(collected.count, 2);
	assert_int_equal(collected.completions[0].status, 0);
	assert_int_equal(collected.completions[1].status, THOLE_ERR_PEER);
	assert_true(collected.completions[1].flags & THOLE_MULTI_END);
	thole_endpoint_close(pair.b);
}

/* ---- Probes ---------------------------------------------------------------------------------------- */

static int probe_until(struct pair *pair, uint64_t tag, unsigned flags, struct thole_completion *completion_p)
{
	for (int i = 0; i < 10000; i++) {
		if (thole_probe(pair->b, THOLE_ANY, tag, ~UINT64_C(0), flags, completion_p))
			return 1;
		thole_progress(pair->a);
	}
	return 0;
}

static void probe__sees_and_leaves_or_drops(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, no_options);
	for (int i = 0; i < 2 * SIZES; i++) {
		size_t size = sizes[i % SIZES];
		bool discard = i >= SIZES;
		char *from = pair_filled((uint64_t)i, size), *to = malloc(size + 1);
		struct thole_request *send, *receive;
		struct thole_completion completion;

		assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, size, (uint64_t)i, 5, THOLE_IMM | THOLE_SYNC, NULL,
					    &send),
				 0);
		assert_int_equal(probe_until(&pair, (uint64_t)i, discard ? THOLE_DISCARD : 0, &completion), 1);
		assert_int_equal(completion.message_length, size);
		assert_int_equal(completion.tag, i);
		assert_int_equal(completion.imm, 5);
		assert_int_equal(completion.peer, pair.b_to_a);
		assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, THOLE_PLAIN, &completion), 0);
		if (!discard) {
			assert_int_equal(thole_test(pair.a, send, NULL), 0);
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, size, (uint64_t)i, ~UINT64_C(0), 0, NULL, &receive),
					 0);
			assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
			pair_check((uint64_t)i, to, size);
		}
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 0);
		free(from);
		free(to);
	}
	pair_progress(&pair, 100);
	assert_int_equal(pair_counter(pair.b, "unexpected_bytes"), 0);
	assert_int_equal(pair.b->unexpected.live, 0);
	pair_close(&pair);
}

static void message_probe__takes_it_out_of_matching(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, no_options);
	for (int i = 0; i < 2 * SIZES; i++) {
		size_t size = sizes[i % SIZES];
		char *from = pair_filled((uint64_t)i, size), *to = calloc(1, size + 1);
		struct iovec segments[2] = {{to, size / 3}, {to + size / 3, size - size / 3}};
		struct thole_message *message;
		struct thole_request *send, *receive;
		struct thole_completion completion;
		int found = 0;

		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, size, 1, 0, 0, NULL, &send), 0);
		for (int k = 0; k < 10000 && !found; k++) {
			found = thole_message_probe(pair.b, pair.b_to_a, 1, ~UINT64_C(0), 0, &completion, &message);
			thole_progress(pair.a);
		}
		assert_int_equal(found, 1);
		assert_int_equal(completion.message_length, size);
		assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 0);
		if (i < SIZES) {
			assert_int_equal(thole_message_recv(pair.b, message, segments, 2, 0, to, &receive), 0);
			assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), 0);
			assert_int_equal(completion.length, size);
			assert_ptr_equal(completion.context, to);
			pair_check((uint64_t)i, to, size);
		} else {
			assert_int_equal(thole_message_drop(pair.b, message), 0);
		}
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		free(from);
		free(to);
	}
	pair_progress(&pair, 100);
	assert_int_equal(pair_counter(pair.b, "unexpected_bytes"), 0);
	assert_int_equal(pair.b->unexpected.live, 0);
	pair_close(&pair);
}

/* Found by a probe while its pieces are still arriving, then closed without being received: nothing leaks (the
 * address sanitizer's build of this test says so). */
static void close__with_messages_of_every_kind_left(void **state)
{
	static const char *const options[] = {"bulk_ring=64k", "eager_max=1m", NULL};
	enum { LENGTH = 500000 };
	struct pair pair;
	char *from = pair_filled(0, LENGTH), *to = malloc(LENGTH);
	struct iovec segments[2] = {{from, 1000}, {from + 1000, LENGTH - 1000}};
	struct thole_completion completion;
	struct thole_message *message;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, 5000, 1, 0, 0, NULL, NULL), 0); /* probed */
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, 6000, 2, 0, 0, NULL, NULL), 0); /* left in the queue */
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 3, 0, 0, NULL, NULL), 0); /* claimed */
	for (int i = 0; i < 200; i++)
		thole_progress(pair.b);
	assert_int_equal(thole_message_probe(pair.b, THOLE_ANY, 1, ~UINT64_C(0), 0, &completion, &message), 1);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, LENGTH, 3, ~UINT64_C(0), 0, NULL, NULL), 0);
	assert_int_equal(thole_option_set(pair.a, "eager_max", "100"), 0);
	assert_int_equal(thole_sendv(pair.a, pair.a_to_b, segments, 2, 4, 0, THOLE_INJECT, NULL, NULL), 0);
	assert_int_equal(thole_sendv(pair.b, pair.b_to_a, segments, 2, 5, 0, 0, NULL, NULL), 0);
	assert_true(pair.b->unexpected.live >= 2);
	thole_endpoint_close(pair.b);
	thole_endpoint_close(pair.a);
	free(from);
	free(to);
}

/* ---- Cancel ---------------------------------------------------------------------------------------- */

static void cancel__receive_before_but_not_after_matching(void **state)
{
	struct pair pair;
	char byte = 1, got = 0;
	struct thole_request *receive, *send;
	struct thole_completion completion;

	(void)state;
	pair_open(&pair, no_options);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, &got, 1, 1, 0, 0, &pair, &receive), 0);
	assert_int_equal(thole_cancel(pair.b, receive), 1);
	assert_int_equal(thole_test(pair.b, receive, &completion), 1);
	assert_int_equal(completion.status, THOLE_ERR_CANCELED);
	assert_int_equal(completion.length, 0);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, &got, 1, 1, 0, 0, &pair, &receive), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 1, 0, 0, NULL, &send), 0);
	for (int i = 0; i < 1000; i++)
		thole_progress(pair.b);
	assert_int_equal(thole_cancel(pair.b, receive), 0);
	assert_int_equal(thole_test(pair.b, receive, &completion), 1);
	assert_int_equal(completion.status, 0);
	assert_int_equal(got, 1);
	assert_int_equal(thole_test(pair.a, send, NULL), 1);
	pair_close(&pair);
}

static void cancel__send_only_while_nothing_has_left(void **state)
{
	static const char *const options[] = {"bulk_ring=64k", "eager_max=64k", NULL};
	enum { LENGTH = 60000 };
	struct pair pair;
	char *from = pair_filled(0, LENGTH), *to = malloc(LENGTH);
	struct thole_request *sends[4], *receive;
	struct thole_completion completion;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < 4; i++)
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, (uint64_t)i, 0, 0, NULL, &sends[i]), 0);
	assert_int_equal(thole_cancel(pair.a, sends[0]), 0);
	assert_int_equal(thole_cancel(pair.a, sends[2]), 1);
	assert_int_equal(thole_test(pair.a, sends[2], &completion), 1);
	assert_int_equal(completion.status, THOLE_ERR_CANCELED);
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, LENGTH, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), 0);
		assert_int_equal(completion.tag, i);
		pair_check(0, to, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.a, sends[i], NULL), 0);
	}
	assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 0);
	free(from);
	free(to);
	pair_close(&pair);
}

/* ---- The bound ------------------------------------------------------------------------------------- */

static void unexpected__senders_announce_only_while_the_bound_holds(void **state)
{
	static const char *const options[] = {"unexpected_max=64k", NULL};
	enum { LENGTH = 10000, COUNT = 100 };
	struct pair pair;
	char *bytes[COUNT], *to = malloc(LENGTH);
	struct thole_request *sends[COUNT], *receive;
	uint64_t peak = 0, eager;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < COUNT; i++) {
		uint64_t held;

		bytes[i] = pair_filled((uint64_t)i, LENGTH);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes[i], LENGTH, 7, 0, 0, NULL, &sends[i]), 0);
		pair_progress(&pair, 50);
		held = pair_counter(pair.b, "unexpected_bytes");
		peak = held > peak ? held : peak;
	}
	assert_int_equal(pair_counter(pair.b, "unexpected_holds"), 1);
	assert_true(peak > 65536);
	assert_true(peak <= 65536 + 2 * LENGTH); /* one crosses it, one may be under way */
	assert_true(pair_counter(pair.a, "sent_rendezvous") >= COUNT - 9);
	for (int i = 0; i < COUNT; i++) { /* none overtook another */
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, LENGTH, 7, ~UINT64_C(0), 0, NULL, &receive), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		pair_check((uint64_t)i, to, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.a, sends[i], NULL), 0);
		free(bytes[i]);
	}
	assert_int_equal(pair_counter(pair.b, "unexpected_bytes"), 0);
	/* Free again: the first send learns it, the next ones use it. */
	eager = pair_counter(pair.a, "sent_eager");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, LENGTH, 7, ~UINT64_C(0), 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, to, LENGTH, 7, 0, 0, NULL, &sends[0]), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, sends[0], NULL), 0);
	}
	assert_true(pair_counter(pair.a, "sent_eager") >= eager + 2);
	free(to);
	pair_close(&pair);
}

/* Without memory for a message the peer is given up, and nothing that it sent later comes out of the gap. */
static void unexpected__no_memory_ends_the_peer_for_good(void **state)
{
	struct pair pair;
	char *from = pair_filled(0, 5000), byte = 1, got = 0;
	struct thole_completion completion;
	struct thole_request *receive;

	(void)state;
	pair_open(&pair, no_options);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 1, 0, 0, NULL, NULL), 0);
	pair_progress(&pair, 200);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, 5000, 2, 0, 0, NULL, NULL), 0);
	for (uint64_t tag = 3; tag < 10; tag++)
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, tag, 0, 0, NULL, NULL), 0);
	refuse_size = 5000;
	thole_progress(pair.b);
	refuse_size = 0;
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, &got, 1, 1, ~UINT64_C(0), 0, NULL, &receive), 0);
	assert_int_equal(pair_finish(&pair, pair.b, receive, &completion), 0); /* what came before the gap is good */
	assert_int_equal(got, 1);
	assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 0);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, &got, 1, 3, ~UINT64_C(0), 0, NULL, &receive), THOLE_ERR_PEER);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 1, 0, 0, NULL, NULL), THOLE_ERR_MEMORY);
	free(from);
	pair_close(&pair);
}

static void recv__arguments_out_of_range(void **state)
{
	static struct iovec segments[THOLE_SEGMENTS_MAX + 1];
	struct pair pair;
	struct thole_request *request;
	char byte;

	(void)state;
	pair_open(&pair, no_options);
	assert_int_equal(thole_recv(pair.b, 5, &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_NOT_FOUND);
	assert_int_equal(thole_recvv(pair.b, THOLE_ANY, segments, THOLE_SEGMENTS_MAX + 1, 0, 0, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_recvv(pair.b, THOLE_ANY, segments, 2, 0, 0, THOLE_MULTI, NULL, NULL), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, &byte, 1, 0, 0, THOLE_MULTI, NULL, &request), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_sendv(pair.a, pair.a_to_b, segments, THOLE_SEGMENTS_MAX + 1, 0, 0, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_send(pair.a, 9, &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_NOT_FOUND);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, THOLE_LENGTH_MAX + 1, 0, 0, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	assert_true(strlen(thole_detail()) > 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recv__every_size_posted_and_unexpected),
		cmocka_unit_test(recv__longer_message_is_cut),
		cmocka_unit_test(sync__matched_before_all_pieces_are_out),
		cmocka_unit_test(sync__answered_after_the_payload_was_copied),
		cmocka_unit_test(multi__takes_messages_until_full),
		cmocka_unit_test(multi__cancel_gives_the_buffer_back_once),
		cmocka_unit_test(multi__source_that_ends_gives_the_buffer_back),
		cmocka_unit_test(probe__sees_and_leaves_or_drops),
		cmocka_unit_test(message_probe__takes_it_out_of_matching),
		cmocka_unit_test(close__with_messages_of_every_kind_left),
		cmocka_unit_test(cancel__receive_before_but_not_after_matching),
		cmocka_unit_test(cancel__send_only_while_nothing_has_left),
		cmocka_unit_test(unexpected__senders_announce_only_while_the_bound_holds),
		cmocka_unit_test(unexpected__no_memory_ends_the_peer_for_good),
		cmocka_unit_test(recv__arguments_out_of_range),
	};

	return cmocka_run_group_tests_name("receive", tests, NULL, NULL);
}
