/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags: whatever is changed anywhere in a frame is noticed, whoever has another key makes none, and no frame is taken
 * twice. Then the same of whole endpoints, whose frames this test has in its hands.
 */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "transport/datagram/connection.h"
#include "transport/datagram/mac.h"
#include "wire.h"

enum {
	PAYLOAD = 1000,
	SMALL = 20,
	KEY = 4711,
	CHECKSUM_AT = 16,
	CHECKSUM_BYTES = 4,
	FLAGS_AT = 3,
	PIECE = PACKET_TYPES, /* of frames to be made: a RECORD that is more of the one before */
};

static const struct guard_end one_end = {1, 11, 111}, other_end = {2, 22, 222};

struct two {
	struct guard one, other;
};

static void two_begin(struct two *two, enum guard_mode mode)
{
	guard_begin(&two->one, mode, KEY, &one_end, &other_end, mac_libcrypto());
	guard_begin(&two->other, mode, KEY, &other_end, &one_end, mac_libcrypto());
}

static void two_end(struct two *two)
{
	guard_end(&two->one);
	guard_end(&two->other);
}

static uint8_t payload[PAYLOAD];

/* A frame of a type with so much payload, where it has one; with its tag. Returns its length. */
static size_t frame_make(struct guard *guard, uint8_t type, uint32_t length, uint8_t *frame)
{
	struct packet packet = {.type = type, .to = 3, .session = 815, .payload = payload, .length = length};
	size_t head;

	if (type == PIECE)
		packet.type = PACKET_RECORD;
	else if (type != PACKET_RECORD && type != PACKET_DATA)
		packet.length = 0;
	if (packet.type == PACKET_RECORD)
		packet.message.record = (struct record){.kind = type == PIECE ? RECORD_PIECE : RECORD_EAGER, .tag = 5};
	if (type == PACKET_PULL)
		packet.pull = (struct packet_pull){.frame = 1000, .length = 4000};
	if (type == PACKET_NACK)
		packet.nack.reason = NACK_BAD_WINDOW;
	packet.flags = (uint8_t)guard_flags(guard, packet.type, packet.length);
	head = codec_native.encode(&packet, frame);
	memcpy(frame + head, payload, packet.length);
	assert_true(guard_stamp(guard, &codec_native,
				&(struct frame_out){.head = frame,
						    .head_length = (uint32_t)head,
						    .body = &(struct iovec){frame + head, packet.length},
						    .body_length = packet.length,
						    .body_count = packet.length > 0},
				1));
	return head + packet.length;
}

static enum guard_verdict frame_judge(struct guard *guard, const uint8_t *frame, size_t length, bool take)
{
	struct iovec all = {(void *)(uintptr_t)frame, 0};
	enum guard_verdict verdict;
	struct guard_frame judged;
	struct packet packet;

	if (codec_native.decode(&packet, frame, length) != 0)
		return GUARD_FORGED;
	all.iov_len = codec_native.unpadded(frame, length);
	judged = guard_frame(&packet, &all, 1);
	verdict = guard_check(guard, &codec_native, &judged, 1);
	if (take && verdict == GUARD_FINE)
		guard_seen(guard, &judged, 1);
	return verdict;
}

/* How many bytes of a frame of a type, with so much payload, no tag over heads covers. */
static size_t frame_open(uint8_t type, size_t length, size_t payload_length)
{
	if (type == PACKET_DATA)
		return payload_length;
	if (length <= GUARD_WHOLE)
		return 0;
	return type == PIECE ? payload_length : length - GUARD_HEAD;
}

/* Whether any bit of the frame may be another one without that being noticed: how many bytes have such. */
static size_t frame_uncovered(struct guard *guard, uint8_t *frame, size_t length)
{
	size_t uncovered = 0;

	for (size_t at = 0; at < length; at++) {
		unsigned fine = 0;

		if (at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_BYTES)
			continue; /* they say the checksum, which is made last */
		for (unsigned bit = at == FLAGS_AT; bit < 8; bit++) {
			frame[at] ^= (uint8_t)(1u << bit);
			fine += frame_judge(guard, frame, length, false) == GUARD_FINE;
			frame[at] ^= (uint8_t)(1u << bit);
		}
		uncovered += fine > 0;
	}
	return uncovered;
}

static bool mode_is_here(enum guard_mode mode)
{
	return mode != GUARD_FULL || mac_libcrypto();
}

static void tag__covers_every_bit(void **state)
{
	static const uint32_t lengths[] = {0, SMALL, PAYLOAD};

	(void)state;
	for (enum guard_mode mode = GUARD_HEADS; mode < GUARD_MODES && mode_is_here(mode); mode++)
		for (uint8_t type = PACKET_RECORD; type <= PIECE; type = type == PACKET_CLOSE ? PIECE : type + 1)
			for (int i = 0; i < 3; i++) {
				uint8_t frame[PACKET_HEAD_MAX + PAYLOAD];
				struct two two;
				size_t length, uncovered;

				two_begin(&two, mode);
				length = frame_make(&two.one, type, lengths[i], frame);
				assert_int_equal(frame_judge(&two.other, frame, length, false), GUARD_FINE);
				uncovered = frame_uncovered(&two.other, frame, length);
				assert_int_equal(uncovered,
						 mode == GUARD_HEADS ? frame_open(type, length, lengths[i]) : 0);
				assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_FINE);
				assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_REPLAYED);
				two_end(&two);
			}
}

/* Shorter or longer than it was made, or without its tag. */
static void tag__covers_the_length(void **state)
{
	(void)state;
	for (enum guard_mode mode = GUARD_HEADS; mode < GUARD_MODES && mode_is_here(mode); mode++) {
		uint8_t frame[PACKET_HEAD_MAX + PAYLOAD + 1] = {0};
		struct two two;
		size_t length;

		two_begin(&two, mode);
		length = frame_make(&two.one, PACKET_DATA, PAYLOAD, frame);
		assert_int_equal(frame_judge(&two.other, frame, length - 1, true), GUARD_FORGED);
		assert_int_equal(frame_judge(&two.other, frame, length + 1, true), GUARD_FORGED);
		assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_FINE);
		two_end(&two);
	}
}

/* A frame with less of a tag than is agreed on proves nothing. */
static void tag__is_the_one_that_is_due(void **state)
{
	uint8_t frame[PACKET_HEAD_MAX + PAYLOAD];
	struct packet packet = {.type = PACKET_CLOSE, .session = 815};
	struct two weak, strong;
	size_t length;

	(void)state;
	two_begin(&weak, GUARD_HEADS);
	length = codec_native.encode(&packet, frame);
	assert_int_equal(frame_judge(&weak.other, frame, length, true), GUARD_FORGED);
	if (mode_is_here(GUARD_FULL)) {
		two_begin(&strong, GUARD_FULL);
		strong.one.mode = GUARD_HEADS; /* keys are the right ones, but payload is not covered */
		length = frame_make(&strong.one, PACKET_DATA, PAYLOAD, frame);
		assert_int_equal(frame_judge(&strong.other, frame, length, true), GUARD_FORGED);
		length = frame_make(&strong.one, PACKET_RECORD, PAYLOAD, frame);
		assert_int_equal(frame_judge(&strong.other, frame, length, true), GUARD_FORGED);
		length = frame_make(&strong.one, PACKET_RECORD, SMALL, frame); /* all of this one is */
		assert_int_equal(frame_judge(&strong.other, frame, length, true), GUARD_FINE);
		two_end(&strong);
	}
	two_end(&weak);
}

enum { RUN = 20, RUN_LAST = PAYLOAD / 2 };

/* Frames of a type behind each other, the last one shorter; as one. */
static struct guard_frame run_make(struct guard *guard, uint8_t type, uint8_t *frames, struct iovec *first)
{
	struct guard_frame run;
	struct packet packet;

	*first = (struct iovec){frames, frame_make(guard, type, PAYLOAD, frames)};
	assert_int_equal(codec_native.decode(&packet, frames, first->iov_len), 0);
	run = guard_frame(&packet, first, 1);
	run.behind = RUN - 1;
	for (size_t i = 1; i < RUN; i++)
		run.last = (uint32_t)frame_make(guard, type, i < RUN - 1 ? PAYLOAD : RUN_LAST,
						frames + i * first->iov_len);
	return run;
}

/* Whatever is altered in any frame of a run, the whole is forged. */
static void run_is_covered(struct guard *guard, const struct guard_frame *run, uint8_t *frames)
{
	assert_int_equal(guard_check(guard, &codec_native, run, 1), GUARD_FINE);
	for (size_t i = 0; i < RUN; i++)
		for (size_t at = 0; at < GUARD_HEAD; at++) {
			uint8_t *byte = frames + i * run->parts[0].iov_len + at;

			if (at < FLAGS_AT + 1 || (at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_BYTES))
				continue; /* who finds runs compares these */
			if (codec_native.bulk(frames) && at >= run->parts[0].iov_len - PAYLOAD)
				continue;
			*byte ^= 0x10;
			assert_int_equal(guard_check(guard, &codec_native, run, 1), GUARD_FORGED);
			*byte ^= 0x10;
		}
}

/* Frames that lie behind each other are judged as one: where all are newer than what came, and where they are late. */
static void tag__of_each_frame_of_a_run(void **state)
{
	static const uint8_t types[] = {PACKET_RECORD, PACKET_DATA, PIECE};

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		static uint8_t frames[RUN * (PACKET_HEAD_MAX + PAYLOAD)], later[PACKET_HEAD_MAX + PAYLOAD];
		struct guard_frame run;
		struct iovec first;
		struct two two;

		two_begin(&two, GUARD_HEADS);
		run = run_make(&two.one, types[i], frames, &first);
		run_is_covered(&two.other, &run, frames);
		assert_int_equal(frame_judge(&two.other, later, frame_make(&two.one, types[i], PAYLOAD, later), true),
				 GUARD_FINE);
		run_is_covered(&two.other, &run, frames);
		guard_seen(&two.other, &run, 1);
		assert_int_equal(guard_check(&two.other, &codec_native, &run, 1), GUARD_REPLAYED);
		for (size_t k = 0; k < RUN; k++)
			assert_int_equal(frame_judge(&two.other, frames + k * first.iov_len,
						     k < RUN - 1 ? first.iov_len : run.last, false), GUARD_REPLAYED);
		two_end(&two);
	}
}

static void key__of_somebody_else(void **state)
{
	const struct guard_end ends[] = {{9, 11, 111}, {1, 9, 111}, {1, 11, 9}, other_end};
	uint8_t frame[PACKET_HEAD_MAX + PAYLOAD];
	struct guard guard, other;
	size_t length;

	(void)state;
	guard_begin(&other, GUARD_HEADS, KEY, &other_end, &one_end, NULL);
	guard_begin(&guard, GUARD_HEADS, KEY + 1, &one_end, &other_end, NULL);
	length = frame_make(&guard, PACKET_ACK, 0, frame);
	assert_int_equal(frame_judge(&other, frame, length, true), GUARD_FORGED);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		guard_begin(&guard, GUARD_HEADS, KEY, &ends[i], &other_end, NULL);
		length = frame_make(&guard, PACKET_ACK, 0, frame);
		assert_int_equal(frame_judge(&other, frame, length, true), GUARD_FORGED);
	}
	guard_begin(&guard, GUARD_FULL, KEY, &one_end, &other_end, NULL); /* agreed on something else */
	length = frame_make(&guard, PACKET_ACK, 0, frame);
	assert_int_equal(frame_judge(&other, frame, length, true), GUARD_FORGED);
	length = frame_make(&other, PACKET_ACK, 0, frame); /* its own, thrown back */
	assert_int_equal(frame_judge(&other, frame, length, true), GUARD_FORGED);
}

/* In any order: each once, and none that is older than the window. */
static void window__takes_each_once(void **state)
{
	enum { FRAMES = 3 * GUARD_WINDOW, BACK = 3 * GUARD_WINDOW / 2 };
	static uint8_t frames[FRAMES][64];
	static bool taken[FRAMES];
	uint64_t random = 5;
	size_t lengths[FRAMES], newest = 0, late = 0;
	struct two two;

	(void)state;
	two_begin(&two, GUARD_HEADS);
	for (size_t i = 0; i < FRAMES; i++)
		lengths[i] = frame_make(&two.one, PACKET_ACK, 0, frames[i]);
	for (size_t turn = 0; turn < 8 * FRAMES; turn++) {
		size_t top = turn / 8 + 100 < FRAMES ? turn / 8 + 100 : FRAMES;
		size_t back = top < BACK ? top : BACK, at = top - 1 - random_below(&random, (uint32_t)back);
		enum guard_verdict verdict = frame_judge(&two.other, frames[at], lengths[at], true);

		if (taken[at])
			assert_int_equal(verdict, GUARD_REPLAYED);
		else if (at > newest || newest - at < GUARD_WINDOW - 64)
			assert_int_equal(verdict, GUARD_FINE);
		else if (newest - at >= GUARD_WINDOW)
			assert_int_equal(verdict, GUARD_REPLAYED);
		taken[at] |= verdict == GUARD_FINE;
		late += verdict == GUARD_REPLAYED && !taken[at];
		if (at > newest)
			newest = at;
	}
	assert_true(late > 0);
	two_end(&two);
}

/* DATA has a window of its own: it waits in another socket. */
static void window__of_data(void **state)
{
	uint8_t data[PACKET_HEAD_MAX + PAYLOAD], frame[PACKET_HEAD_MAX];
	struct two two;
	size_t length;

	(void)state;
	two_begin(&two, GUARD_HEADS);
	length = frame_make(&two.one, PACKET_DATA, PAYLOAD, data);
	for (int i = 0; i < 2 * GUARD_WINDOW; i++)
		assert_int_equal(frame_judge(&two.other, frame, frame_make(&two.one, PACKET_ACK, 0, frame), true),
				 GUARD_FINE);
	assert_int_equal(frame_judge(&two.other, data, length, true), GUARD_FINE);
	assert_int_equal(frame_judge(&two.other, data, length, true), GUARD_REPLAYED);
	two_end(&two);
}

enum { MANY = 100, WHOLE = PACKET_HEAD_MAX + PAYLOAD };

/* The n-th frame of a burst, without a tag: of several types and lengths, and many of one length in a row. */
static void burst_frame(struct guard *guard, unsigned n, uint8_t *bytes, struct frame_out *frame_p,
			struct packet *packet_p)
{
	static const uint32_t lengths[] = {SMALL, PAYLOAD, 0};
	uint8_t type = n < MANY - 20 ? PACKET_DATA : n % 4 ? PACKET_RECORD : PACKET_ACK;
	struct packet packet = {.type = type, .to = 3, .session = 815, .data.offset = n, .payload = payload,
				.length = n < MANY - 20 ? PAYLOAD - n / 70 : lengths[n % 3]};

	if (type == PACKET_RECORD)
		packet.message.record = (struct record){.kind = RECORD_EAGER, .tag = n};
	if (type == PACKET_ACK)
		packet.length = 0;
	packet.flags = (uint8_t)guard_flags(guard, type, packet.length);
	*frame_p = (struct frame_out){.head = bytes, .head_length = (uint32_t)codec_native.encode(&packet, bytes)};
	memcpy(bytes + frame_p->head_length, payload, packet.length);
	frame_p->head_length += packet.length;
	*packet_p = packet;
}

static enum guard_verdict burst_judge(struct guard *guard, uint8_t frames[MANY][WHOLE], const struct frame_out *sent,
				      bool take)
{
	struct guard_frame judged[MANY];
	struct iovec parts[MANY];
	enum guard_verdict verdict;

	for (unsigned i = 0; i < MANY; i++) {
		struct packet packet;

		assert_int_equal(codec_native.decode(&packet, frames[i], sent[i].head_length), 0);
		parts[i] = (struct iovec){frames[i], sent[i].head_length};
		judged[i] = guard_frame(&packet, &parts[i], 1);
	}
	verdict = guard_check(guard, &codec_native, judged, MANY);
	if (take)
		guard_seen(guard, judged, MANY);
	return verdict;
}

/* Frames that are stamped and judged together are as they are one by one, also where a key ends between them. */
static void burst__is_as_one_by_one(void **state)
{
	static uint8_t frames[MANY][WHOLE], alone[WHOLE];

	(void)state;
	for (enum guard_mode mode = GUARD_HEADS; mode < GUARD_MODES && mode_is_here(mode); mode++) {
		struct frame_out sent[MANY];
		struct packet packet;
		struct two two, same;

		two_begin(&two, mode);
		two_begin(&same, mode);
		two.one.counter = same.one.counter = (UINT64_C(1) << GUARD_EPOCH_BITS) - MANY / 2;
		for (unsigned i = 0; i < MANY; i++)
			burst_frame(&two.one, i, frames[i], &sent[i], &packet);
		assert_true(guard_stamp(&two.one, &codec_native, sent, MANY));
		for (unsigned i = 0; i < MANY; i++) {
			struct frame_out one;

			burst_frame(&same.one, i, alone, &one, &packet);
			assert_true(guard_stamp(&same.one, &codec_native, &one, 1));
			assert_int_equal(one.head_length, sent[i].head_length);
			assert_memory_equal(frames[i], alone, one.head_length);
		}
		assert_int_equal(burst_judge(&two.other, frames, sent, false), GUARD_FINE);
		for (unsigned i = 0; i < MANY; i++) {
			uint8_t *tag = frames[i] + PACKET_FRONT + PACKET_COUNTER + i % PACKET_TAG_SHORT;

			*tag ^= (uint8_t)(1u << i % 8);
			assert_int_equal(burst_judge(&two.other, frames, sent, false), GUARD_FORGED);
			*tag ^= (uint8_t)(1u << i % 8);
		}
		assert_int_equal(burst_judge(&two.other, frames, sent, true), GUARD_FINE);
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(frame_judge(&two.other, frames[i], sent[i].head_length, false),
					 GUARD_REPLAYED);
		two_end(&two);
		two_end(&same);
	}
}

/* The same of frames that lie behind each other, wherever in the run the key ends. */
static void burst__of_a_run_is_as_one_by_one(void **state)
{
	static uint8_t frames[RUN * WHOLE], alone[WHOLE];

	(void)state;
	for (unsigned before = 0; before <= RUN; before++) {
		struct frame_out sent[RUN], one;
		struct packet packet;
		struct two two, same;
		size_t length = 0;

		two_begin(&two, GUARD_HEADS);
		two_begin(&same, GUARD_HEADS);
		two.one.counter = same.one.counter = (UINT64_C(1) << GUARD_EPOCH_BITS) - 1 - before;
		for (unsigned i = 0; i < RUN; i++) {
			burst_frame(&two.one, i, frames + i * length, &sent[i], &packet);
			length = sent[i].head_length;
			sent[i].behind = (uint16_t)(RUN - 1 - i);
		}
		assert_true(guard_stamp(&two.one, &codec_native, sent, RUN));
		for (unsigned i = 0; i < RUN; i++) {
			burst_frame(&same.one, i, alone, &one, &packet);
			assert_true(guard_stamp(&same.one, &codec_native, &one, 1));
			assert_int_equal(one.head_length, length);
			assert_memory_equal(frames + i * length, alone, length);
		}
		two_end(&two);
		two_end(&same);
	}
}

/* The n-th frame of a long record, without a tag: all are as long, though the first has the longer head. */
static struct frame_out record_frame(unsigned n, uint8_t *bytes)
{
	struct packet packet = {.type = PACKET_RECORD, .sequence = n, .session = 815, .flags = PACKET_TAGGED,
				.payload = payload, .length = PAYLOAD / 2};
	uint32_t head;

	packet.message.record = (struct record){.kind = n == 0 ? RECORD_EAGER : RECORD_PIECE, .tag = 5};
	head = (uint32_t)codec_native.encode(&packet, bytes);
	memcpy(bytes + head, payload, PAYLOAD - head);
	return (struct frame_out){.head = bytes, .head_length = PAYLOAD, .behind = (uint16_t)(RUN - 1 - n)};
}

/* Of a run the first may be the beginning of the record, of which more is covered than of its pieces. */
static void burst__of_a_record_is_as_one_by_one(void **state)
{
	static uint8_t frames[RUN * PAYLOAD], alone[PAYLOAD];
	struct frame_out sent[RUN], one;
	struct two two, same;

	(void)state;
	two_begin(&two, GUARD_HEADS);
	two_begin(&same, GUARD_HEADS);
	for (unsigned i = 0; i < RUN; i++)
		sent[i] = record_frame(i, frames + (size_t)i * PAYLOAD);
	assert_true(guard_stamp(&two.one, &codec_native, sent, RUN));
	for (unsigned i = 0; i < RUN; i++) {
		one = record_frame(i, alone);
		one.behind = 0;
		assert_true(guard_stamp(&same.one, &codec_native, &one, 1));
		assert_memory_equal(frames + (size_t)i * PAYLOAD, alone, PAYLOAD);
		assert_int_equal(frame_judge(&two.other, alone, PAYLOAD, true), GUARD_FINE);
	}
	two_end(&two);
	two_end(&same);
}

/* After 2^32 frames there is another key; what is late of the one before is still known. */
static void epoch__has_a_key_of_its_own(void **state)
{
	uint8_t before[PACKET_HEAD_MAX + PAYLOAD], frame[PACKET_HEAD_MAX + PAYLOAD];
	size_t length, late;

	(void)state;
	for (enum guard_mode mode = GUARD_HEADS; mode < GUARD_MODES && mode_is_here(mode); mode++) {
		struct two two;
		uint64_t key;

		two_begin(&two, mode);
		two.one.counter = UINT64_C(0xfffffff0);
		late = frame_make(&two.one, PACKET_DATA, PAYLOAD, before);
		key = two.one.out.key[0];
		for (int i = 0; i < 40; i++) {
			length = frame_make(&two.one, PACKET_DATA, PAYLOAD, frame);
			assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_FINE);
			assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_REPLAYED);
		}
		assert_true(two.one.counter >> GUARD_EPOCH_BITS == 1 && two.one.out.key[0] != key);
		assert_int_equal(frame_judge(&two.other, before, late, true), GUARD_FINE);
		two.one.counter = UINT64_C(0x300000000); /* nobody has sent so much since */
		length = frame_make(&two.one, PACKET_DATA, PAYLOAD, frame);
		assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_FORGED);
		two_end(&two);
	}
}

/* Frames that lie behind each other may have the keys of two epochs. */
static void epoch__ends_amid_a_run(void **state)
{
	static uint8_t frames[RUN * (PACKET_HEAD_MAX + PAYLOAD)];

	(void)state;
	for (unsigned before = 1; before < RUN; before++) {
		struct guard_frame run;
		struct iovec first;
		struct two two;

		two_begin(&two, GUARD_HEADS);
		two.one.counter = (UINT64_C(1) << GUARD_EPOCH_BITS) - 1 - before;
		run = run_make(&two.one, PACKET_DATA, frames, &first);
		run_is_covered(&two.other, &run, frames);
		guard_seen(&two.other, &run, 1);
		assert_int_equal(guard_epoch(&two.other), 1);
		assert_int_equal(guard_check(&two.other, &codec_native, &run, 1), GUARD_REPLAYED);
		two_end(&two);
	}
}

/* A counter comes once, and none is 0. */
static void counter__is_not_0(void **state)
{
	uint8_t frame[PACKET_HEAD_MAX];
	struct two two;
	size_t length;

	(void)state;
	two_begin(&two, GUARD_HEADS);
	two.one.counter = UINT64_MAX;
	length = frame_make(&two.one, PACKET_ACK, 0, frame);
	assert_true(two.one.counter == 0);
	assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_REPLAYED);
	length = frame_make(&two.one, PACKET_ACK, 0, frame);
	assert_int_equal(frame_judge(&two.other, frame, length, true), GUARD_FINE);
	two_end(&two);
}

/* A frame, or the last of a run, may have the last counter of all: behind it are none, and nothing goes round. */
static void counter__may_be_the_last(void **state)
{
	static uint8_t frames[RUN * (PACKET_HEAD_MAX + PAYLOAD)];
	struct guard_frame run;
	struct iovec first;
	struct two two;
	size_t length;

	(void)state;
	alarm(60); /* where it does */
	two_begin(&two, GUARD_HEADS);
	guard_follow(&two.other, UINT64_MAX >> GUARD_EPOCH_BITS);
	two.one.counter = UINT64_MAX - 1;
	length = frame_make(&two.one, PACKET_ACK, 0, frames);
	assert_true(two.one.counter == UINT64_MAX);
	assert_int_equal(frame_judge(&two.other, frames, length, true), GUARD_FINE);
	assert_int_equal(frame_judge(&two.other, frames, length, true), GUARD_REPLAYED);
	two.one.counter = UINT64_MAX - RUN;
	run = run_make(&two.one, PACKET_DATA, frames, &first);
	assert_int_equal(guard_check(&two.other, &codec_native, &run, 1), GUARD_FINE);
	guard_seen(&two.other, &run, 1);
	for (size_t i = 0; i < RUN; i++)
		assert_int_equal(frame_judge(&two.other, frames + i * first.iov_len,
					     i < RUN - 1 ? first.iov_len : run.last, false), GUARD_REPLAYED);
	two.one.counter = UINT64_MAX - RUN + 5; /* further than there are counters */
	run = run_make(&two.one, PACKET_DATA, frames, &first);
	assert_int_equal(guard_check(&two.other, &codec_native, &run, 1), GUARD_REPLAYED);
	two_end(&two);
	alarm(0);
}

/* Who was not sent frames for long hears from somebody else how far they are, or nearly; and is never put back. */
static void epoch__is_followed(void **state)
{
	enum { EPOCH = 7 };
	uint8_t frame[PACKET_HEAD_MAX + PAYLOAD];

	(void)state;
	for (uint64_t told = EPOCH - 2; told <= EPOCH + 2; told++) {
		bool near = told >= EPOCH - 1 && told <= EPOCH + 1;
		struct two two;
		size_t length;

		two_begin(&two, GUARD_HEADS);
		two.one.counter = (uint64_t)EPOCH << GUARD_EPOCH_BITS;
		guard_follow(&two.other, 1);
		guard_follow(&two.other, told);
		assert_int_equal(guard_epoch(&two.other), told);
		guard_follow(&two.other, told - 1);
		length = frame_make(&two.one, PACKET_DATA, PAYLOAD, frame);
		assert_int_equal(frame_judge(&two.other, frame, length, true), near ? GUARD_FINE : GUARD_FORGED);
		assert_int_equal(guard_epoch(&two.other), told < EPOCH && near ? EPOCH : told);
		two_end(&two);
	}
}

/* As the definition of GCM has it, its first two test cases. */
static void mac__is_gcm(void **state)
{
	static const uint8_t zeros[GUARD_KEY], right[] = {0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61,
							  0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7, 0x45, 0x5a};
	const struct mac *mac = mac_libcrypto();
	uint8_t tag[PACKET_TAG_LONG], whole[PACKET_TAG_LONG];
	uint8_t bytes[100];
	void *context;

	(void)state;
	if (!mac)
		skip();
	context = mac->open(zeros);
	assert_non_null(context);
	assert_true(mac->tag(context, 0, NULL, 0, tag));
	assert_memory_equal(tag, right, sizeof(right));
	memset(bytes, 7, sizeof(bytes));
	assert_true(mac->tag(context, 1, &(struct iovec){bytes, 100}, 1, whole));
	assert_true(mac->tag(context, 1, (struct iovec[]){{bytes, 33}, {bytes + 33, 0}, {bytes + 33, 67}}, 3, tag));
	assert_memory_equal(tag, whole, sizeof(tag));
	assert_true(mac->tag(context, 2, &(struct iovec){bytes, 100}, 1, tag));
	assert_memory_not_equal(tag, whole, sizeof(tag));
	mac->close(context);
}

enum { NOT_HERE = 77 };

static void *kept_context;
static uint8_t kept_tag[PACKET_TAG_LONG];

/* After libcrypto has cleared away, which does so sooner than what was registered before it was used. */
static void mac_at_exit(void)
{
	static const uint8_t zeros[GUARD_KEY];
	const struct mac *mac = mac_libcrypto();
	uint8_t tags[2][PACKET_TAG_LONG];
	void *context = mac->open(zeros);

	if (!context || !mac->tag(context, 1, NULL, 0, tags[0]) || !mac->tag(kept_context, 1, NULL, 0, tags[1]))
		_exit(1);
	mac->close(context);
	mac->close(kept_context);
	for (int i = 0; i < 2; i++)
		if (memcmp(tags[i], kept_tag, sizeof(kept_tag)) != 0)
			_exit(2);
	_exit(0);
}

/* Who exits may still send, also to somebody new. Before anything else in this program uses libcrypto. */
static void mac__works_at_exit(void **state)
{
	static const uint8_t zeros[GUARD_KEY];
	const struct mac *mac;
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the next test, here */
		atexit(mac_at_exit);
		mac = mac_libcrypto();
		if (!mac)
			_exit(NOT_HERE);
		kept_context = mac->open(zeros);
		if (!kept_context || !mac->tag(kept_context, 1, NULL, 0, kept_tag))
			_exit(3);
		exit(4);
	}
	status = child_status(child);
	if (status == NOT_HERE << 8)
		skip();
	assert_int_equal(status, 0);
}

/* ---- Whole endpoints -------------------------------------------------------------------------------------- */

static struct wire wires[2];

static void pair_talk(struct pair *pair, uint64_t *now_ns, uint64_t id, size_t length)
{
	struct thole_request *send, *receive;
	void *out = pair_filled(id, length), *in = malloc(length);

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, length, id, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, out, length, id, 0, 0, NULL, &send), 0);
	assert_int_equal(wired_finish(pair, now_ns, pair->b, receive), 0);
	assert_int_equal(wired_finish(pair, now_ns, pair->a, send), 0);
	pair_check(id, in, length);
	free(out);
	free(in);
}

static struct connection *connection_at(struct thole_endpoint *endpoint, uint32_t peer)
{
	return endpoint_peer(endpoint, peer)->base.link;
}

/* What a connection is, in a word; drops are counted elsewhere. */
static uint64_t connection_hash(const struct connection *connection)
{
	const uint8_t *bytes = (const uint8_t *)connection;
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < sizeof(*connection); i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	bytes = (const uint8_t *)connection->guard->windows;
	for (size_t i = 0; i < sizeof(connection->guard->windows); i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	return hash;
}

static void b_gets(struct pair *pair, const uint8_t *frame, size_t length)
{
	engine_frame(&datagram_of(&pair->b->base)->engine, &wires[1].link, &wires[0].link.own, frame, length);
}

/* A frame of a's connection, with any bit another one, and then twice: b does as if it had never come. */
static void forge(struct pair *pair, uint8_t type)
{
	struct connection *from = connection_at(pair->a, pair->a_to_b), *to = connection_at(pair->b, pair->b_to_a);
	uint8_t frame[PACKET_HEAD_MAX] = {0};
	uint64_t before = connection_hash(to), drops = pair_counter(pair->b, "dropped_forged");
	struct packet packet;
	size_t length;

	connection_packet(from, &packet, (enum packet_type)type);
	packet.ack = from->in.next;
	packet.sequence = from->out.next;
	packet.credit = 64;
	packet.flags |= PACKET_ANSWER;
	packet.message = (struct packet_message){.record = {.kind = RECORD_EAGER, .tag = 99}};
	if (type == PACKET_PULL)
		packet.pull = (struct packet_pull){.frame = 1000, .length = 4000};
	if (type == PACKET_NACK)
		packet.nack = (struct packet_nack){.reason = NACK_CLOSED, .refused = from->peer_session};
	length = codec_native.encode(&packet, frame);
	guard_stamp(from->guard, &codec_native, &(struct frame_out){.head = frame, .head_length = (uint32_t)length}, 1);
	for (size_t bit = 0; bit < 8 * length; bit++) {
		if (bit == 8 * FLAGS_AT || (bit >= 8 * CHECKSUM_AT && bit < 8 * (CHECKSUM_AT + CHECKSUM_BYTES)))
			continue; /* the checksum's */
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		b_gets(pair, frame, length);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (connection_hash(to) != before)
			fail_msg("a packet of type %u whose bit %zu is wrong was heeded", type, bit);
	}
	assert_true(pair_counter(pair->b, "dropped_forged") > drops);
	if (type == PACKET_CLOSE) /* the true one would end it */
		return;
	b_gets(pair, frame, length);
	assert_int_not_equal(connection_hash(to), before);
	before = connection_hash(to);
	drops = pair_counter(pair->b, "dropped_replayed");
	b_gets(pair, frame, length);
	assert_int_equal(connection_hash(to), before);
	assert_int_equal(pair_counter(pair->b, "dropped_replayed"), drops + 1);
}

static void frames__that_are_forged_do_nothing(void **state)
{
	static const uint8_t types[] = {PACKET_ACK, PACKET_PULL, PACKET_DATA, PACKET_NACK, PACKET_CLOSE, PACKET_RECORD};
	static const char *const options[] = {"job_key=7", NULL};
	uint64_t now_ns = 1000000000;
	struct pair pair;

	(void)state;
	wired_open(&pair, wires, &codec_native, options, options);
	pair_talk(&pair, &now_ns, 1, 50000);
	for (size_t i = 0; i < sizeof(types); i++)
		forge(&pair, types[i]);
	assert_int_equal(connection_at(pair.b, pair.b_to_a)->state, CONNECTION_OPEN);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* What waits for b, as one: its bytes, and how many frames of which length. */
static size_t train_take(uint8_t *train, size_t *segment_p, unsigned *count_p)
{
	struct wire *wire = &wires[1];
	size_t length = 0;

	*segment_p = wire->lengths[wire->head % 256];
	for (*count_p = 0; wire->head != wire->tail; wire->head++, ++*count_p) {
		memcpy(train + length, wire->frames[wire->head % 256], wire->lengths[wire->head % 256]);
		length += wire->lengths[wire->head % 256];
	}
	return length;
}

static bool b_gets_train(struct pair *pair, const uint8_t *train, size_t length, size_t segment)
{
	return engine_frames(&datagram_of(&pair->b->base)->engine, &wires[1].link, &wires[0].link.own, train, length,
			     segment);
}

/* A message of many frames with one of them forged (or none, if that is beyond the last). */
static void train_forge(struct pair *pair, uint64_t *now_ns, unsigned wrong)
{
	static uint8_t train[65536], in[20000];
	uint64_t forged = pair_counter(pair->b, "dropped_forged"), id = 2 + wrong;
	uint64_t replayed = pair_counter(pair->b, "dropped_replayed");
	struct thole_request *send, *receive;
	void *out = pair_filled(id, sizeof(in));
	size_t length, segment;
	unsigned count;
	bool whole;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, sizeof(in), id, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, out, sizeof(in), id, 0, 0, NULL, &send), 0);
	length = train_take(train, &segment, &count);
	assert_true(count > 10);
	whole = wrong >= count;
	if (!whole)
		train[wrong * segment + PACKET_FRONT]++; /* its counter */
	assert_true(b_gets_train(pair, train, length, segment));
	assert_int_equal(pair_counter(pair->b, "dropped_forged"), forged + !whole);
	if (!whole)
		train[wrong * segment + PACKET_FRONT]--;
	b_gets_train(pair, train, length, segment);
	assert_int_equal(pair_counter(pair->b, "dropped_replayed"), replayed + count - !whole);
	assert_int_equal(wired_finish(pair, now_ns, pair->b, receive), 0);
	assert_int_equal(wired_finish(pair, now_ns, pair->a, send), 0);
	pair_check(id, in, sizeof(in));
	free(out);
	for (int i = 0; i < 100; i++, *now_ns += 100000) {
		endpoint_advance(pair->a, *now_ns);
		endpoint_advance(pair->b, *now_ns);
	}
}

/* Frames of a message that come as one, with one that is forged, are taken but for that; and none of them twice. */
static void together__all_but_the_forged_are_taken(void **state)
{
	static const char *const options[] = {"job_key=7", NULL};
	uint64_t now_ns = 1000000000;
	struct pair pair;

	(void)state;
	wired_open(&pair, wires, &codec_native, options, options);
	pair_talk(&pair, &now_ns, 1, 50000);
	for (unsigned wrong = 0; wrong <= 20; wrong++)
		train_forge(&pair, &now_ns, wrong);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* A frame that is there twice in what comes as one is taken once. */
static void together__each_is_taken_once(void **state)
{
	static const char *const options[] = {"job_key=7", NULL};
	uint8_t train[4 * PACKET_HEAD_MAX];
	uint64_t now_ns = 1000000000, replayed;
	size_t length, segment;
	struct pair pair;
	unsigned count;

	(void)state;
	wired_open(&pair, wires, &codec_native, options, options);
	pair_talk(&pair, &now_ns, 1, 50000);
	replayed = pair_counter(pair.b, "dropped_replayed");
	assert_int_equal(thole_send(pair.a, pair.a_to_b, "x", 1, 2, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	length = train_take(train, &segment, &count);
	assert_int_equal(count, 1);
	memcpy(train + length, train, length);
	b_gets_train(&pair, train, 2 * length, segment);
	assert_int_equal(pair_counter(pair.b, "dropped_replayed"), replayed + 1);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* What each asks for, and what they agree on. */
static void modes__the_stricter_one_counts(void **state)
{
	static const char *const names[] = {"integrity=off", "integrity=head", "integrity=full"};

	(void)state;
	for (unsigned i = 0; i < 9; i++) {
		const char *const a[] = {"job_key=7", names[i / 3], NULL}, *const b[] = {"job_key=7", names[i % 3],
											 NULL};
		unsigned mode = i / 3 > i % 3 ? i / 3 : i % 3;
		uint64_t now_ns = 1000000000;
		struct pair pair;

		if (!mode_is_here((enum guard_mode)mode))
			continue;
		wired_open(&pair, wires, &codec_native, a, b);
		pair_talk(&pair, &now_ns, i, 100000);
		for (int side = 0; side < 2; side++) {
			const struct guard *guard =
				connection_at(side ? pair.b : pair.a, side ? pair.b_to_a : pair.a_to_b)->guard;

			assert_int_equal(guard ? guard->mode : GUARD_OFF, mode);
		}
		assert_int_equal(pair_counter(pair.a, "dropped_forged") + pair_counter(pair.b, "dropped_forged"), 0);
		endpoint_vanish(pair.a);
		endpoint_vanish(pair.b);
	}
}

static const struct mac *no_mac(void)
{
	return NULL;
}

/* What was said for people, oldest first. */
static char troubles[4][512];
static unsigned trouble_count;

static void trouble(const struct transport_owner *owner)
{
	(void)owner;
	assert_true(trouble_count < 4);
	snprintf(troubles[trouble_count++], sizeof(troubles[0]), "%s", thole_detail());
}

static void trouble_check(const char *sentence, const char *part)
{
	if (!strstr(sentence, part))
		fail_msg("\"%s\" is not in \"%s\"", part, sentence);
}

/* One side has no library for what the other one wants: that is said on both, whoever begins, and no less is agreed
 * on. */
static void modes__full_cannot_be_had(void **state)
{
	static const char *const full[] = {"job_key=7", "integrity=full", NULL}, *const plain[] = {"job_key=7", NULL};
	static const char *const sentences[2][2] = {
		{"needs OpenSSL's libcrypto.so.3 here", "has no OpenSSL's libcrypto.so.3"},
		{"needs OpenSSL's libcrypto.so.3 here"}, /* a's, of b's ACCEPT */
	};

	(void)state;
	if (!mode_is_here(GUARD_FULL))
		skip();
	for (int who = 0; who < 2; who++) {
		uint64_t now_ns = 1000000000;
		struct thole_request *send;
		struct pair pair;

		wired_open(&pair, wires, &codec_native, who ? plain : full, who ? full : plain);
		datagram_of(&(who ? pair.a : pair.b)->base)->engine.mac = no_mac;
		pair.a->base.trouble = pair.b->base.trouble = trouble;
		trouble_count = 0;
		assert_int_equal(thole_send(pair.a, pair.a_to_b, "", 1, 0, 0, 0, NULL, &send), 0);
		assert_int_equal(wired_finish(&pair, &now_ns, pair.a, send), THOLE_ERR_UNSUPPORTED);
		/* b says it of each CONNECT */
		assert_true(trouble_count > 0);
		trouble_check(troubles[0], sentences[who][0]);
		trouble_check(troubles[trouble_count - 1], sentences[who][!who]);
		trouble_check(thole_detail(), sentences[who][!who]);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, "", 1, 0, 0, 0, NULL, &send), THOLE_ERR_UNSUPPORTED);
		trouble_check(thole_detail(), "its integrity");
		endpoint_vanish(pair.a);
		endpoint_vanish(pair.b);
	}
}

/* Somebody in the middle makes less of what they ask for. */
static void modes__cannot_be_lowered(void **state)
{
	static const char *const options[] = {"job_key=7", NULL};
	const struct guard *before;
	struct connection *connection;
	struct packet packet;
	struct pair pair;

	(void)state;
	wired_open(&pair, wires, &codec_native, options, options);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, NULL), 0);
	endpoint_advance(pair.a, 1000000000);
	assert_int_equal(codec_native.decode(&packet, wires[1].frames[0], wires[1].lengths[0]), 0);
	assert_int_equal(packet.connect.integrity, GUARD_HEADS);
	for (size_t bit = 0; bit < 8 * 112; bit++) { /* nor anything else of it */
		if (bit == 8 * FLAGS_AT || (bit >= 8 * CHECKSUM_AT && bit < 8 * (CHECKSUM_AT + CHECKSUM_BYTES)))
			continue;
		wires[1].frames[0][bit / 8] ^= (uint8_t)(1u << bit % 8);
		b_gets(&pair, wires[1].frames[0], wires[1].lengths[0]);
		wires[1].frames[0][bit / 8] ^= (uint8_t)(1u << bit % 8);
		connection = connection_at(pair.b, pair.b_to_a);
		if (connection && connection->peer_session)
			fail_msg("a CONNECT whose bit %zu is wrong was heeded", bit);
	}
	b_gets(&pair, wires[1].frames[0], wires[1].lengths[0]);
	connection = connection_at(pair.b, pair.b_to_a);
	assert_int_equal(connection->guard->mode, GUARD_HEADS);
	before = connection->guard;
	b_gets(&pair, wires[1].frames[0], wires[1].lengths[0]); /* again: what was seen stays seen */
	assert_ptr_equal(connection->guard, before);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* Of a NACK, too, it has to be known who says it. */
static void nack__of_anybody(void **state)
{
	static const char *const options[] = {"job_key=7", NULL};
	uint64_t now_ns = 1000000000;
	struct connection *connection;
	struct packet packet = {.type = PACKET_NACK, .to = PACKET_TO_NONE};
	uint8_t frame[PACKET_HEAD_MAX];
	struct link elsewhere;
	struct pair pair;
	size_t length;

	(void)state;
	wired_open(&pair, wires, &codec_native, options, options);
	pair_talk(&pair, &now_ns, 1, 100);
	elsewhere = wires[0].link;
	elsewhere.own.bytes[15] ^= 0x40;
	connection = connection_at(pair.b, pair.b_to_a);
	for (uint8_t reason = NACK_BAD_ENDPOINT; reason <= NACK_BAD_WINDOW; reason++)
		for (int which = 0; which < 2; which++) {
			packet.nack =
				(struct packet_nack){.reason = reason,
						     .proof = 12345,
						     .refused = which ? connection->session : connection->peer_session};
			length = codec_native.encode(&packet, frame);
			b_gets(&pair, frame, length);
			assert_int_equal(connection->state, CONNECTION_OPEN);
		}
	/* The true one: b's frame comes to a, which knows nothing of it any more. */
	wires[0].head = wires[0].tail;
	packet = (struct packet){.type = PACKET_RECORD, .session = connection->peer_session};
	naming_native.refuse(&datagram_of(&pair.a->base)->engine, &wires[0].link, &wires[1].link.own, &packet,
			     NACK_BAD_SESSION);
	endpoint_advance(pair.a, now_ns);
	/* Nor is it another one's word, or one about something else. */
	assert_int_equal(codec_native.decode(&packet, wires[1].frames[wires[1].head % 256],
					     wires[1].lengths[wires[1].head % 256]), 0);
	assert_int_equal(packet.type, PACKET_NACK);
	packet.nack.transfer++;
	b_gets(&pair, frame, codec_native.encode(&packet, frame));
	packet.nack.transfer--;
	assert_int_equal(connection->state, CONNECTION_OPEN);
	naming_native.refuse(&datagram_of(&pair.a->base)->engine, &elsewhere, &wires[1].link.own,
			     &(struct packet){.type = PACKET_RECORD, .session = connection->peer_session},
			     NACK_BAD_SESSION);
	endpoint_advance(pair.a, now_ns);
	b_gets(&pair, wires[1].frames[(wires[1].tail - 1) % 256], wires[1].lengths[(wires[1].tail - 1) % 256]);
	assert_int_equal(connection->state, CONNECTION_OPEN);
	endpoint_advance(pair.b, now_ns);
	assert_int_equal(connection->state, CONNECTION_DEAD);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}


/* Whatever both have in mind for so long, they have time for. */
static void pair_run(struct pair *pair, uint64_t *now_ns, uint64_t ns)
{
	for (uint64_t end_ns = *now_ns + ns; *now_ns < end_ns; *now_ns += 1000000) {
		endpoint_advance(pair->b, *now_ns);
		endpoint_advance(pair->a, *now_ns);
	}
}

/* Connected, and somebody has seen a's first CONNECT. Returns the bytes of that. */
static size_t pair_overheard(struct pair *pair, uint64_t *now_ns, uint8_t *connect)
{
	static const char *const options[] = {"job_key=7", NULL};
	size_t length;

	*now_ns = 1000000000;
	wired_open(pair, wires, &codec_native, options, options);
	assert_int_equal(thole_connect(pair->a, pair->a_to_b, 0, NULL, NULL), 0);
	endpoint_advance(pair->a, *now_ns);
	length = wires[1].lengths[0];
	memcpy(connect, wires[1].frames[0], length);
	assert_int_equal(connect[0], PACKET_CONNECT);
	pair_talk(pair, now_ns, 1, 50000);
	pair_run(pair, now_ns, 10000000);
	return length;
}

/* Who lives says of none of its sessions, nor of those of its peers, that it is not there, whoever asks. */
static void nack__of_a_session_that_lives(void **state)
{
	uint8_t connect[ENGINE_FRAME_MAX], frame[PACKET_HEAD_MAX] = {0};
	struct packet asked, record = {.type = PACKET_RECORD, .to = 77, .message.record.kind = RECORD_EAGER};
	struct connection *connection;
	uint64_t now_ns;
	struct pair pair;
	size_t length;

	(void)state;
	pair_overheard(&pair, &now_ns, connect);
	connection = connection_at(pair.a, pair.a_to_b);
	/* a CONNECT of a's session to some endpoint else; as it was, its proof is another one's */
	assert_int_equal(codec_native.decode(&asked, connect, 112), 0);
	asked.connect.target ^= 1;
	b_gets(&pair, frame, codec_native.encode(&asked, frame));
	endpoint_advance(pair.b, now_ns);
	assert_int_equal(codec_native.decode(&asked, wires[0].frames[wires[0].head % 256],
					     wires[0].lengths[wires[0].head % 256]), 0);
	assert_int_equal(asked.type, PACKET_NACK);
	assert_int_equal(asked.nack.proof, 0);
	pair_run(&pair, &now_ns, 10000000);
	assert_int_equal(connection->state, CONNECTION_OPEN);
	/* frames of b's session and of a's that name no connection of b */
	for (int whose = 0; whose < 2; whose++) {
		record.session = whose ? connection->session : connection->peer_session;
		length = codec_native.encode(&record, frame);
		b_gets(&pair, frame, length);
		pair_run(&pair, &now_ns, 10000000);
		assert_int_equal(connection->state, CONNECTION_OPEN);
	}
	/* one of a session that b does not have is answered */
	record.session = 4711;
	assert_int_equal(wires[0].head, wires[0].tail);
	b_gets(&pair, frame, codec_native.encode(&record, frame));
	endpoint_advance(pair.b, now_ns);
	assert_int_equal(wires[0].tail - wires[0].head, 1);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* The proof of a CONNECT does not cover the zeros behind it: who has seen one may send it again with more. It shows no
 * more than it says. */
static void connect__with_more_zeros(void **state)
{
	uint8_t connect[ENGINE_FRAME_MAX] = {0};
	struct connection *connection;
	struct packet answer;
	uint16_t frame_in;
	uint64_t now_ns;
	struct pair pair;
	size_t length;

	(void)state;
	length = pair_overheard(&pair, &now_ns, connect);
	connection = connection_at(pair.b, pair.b_to_a);
	frame_in = connection->route[0].frame_in;
	assert_int_equal(frame_in, length);
	b_gets(&pair, connect, sizeof(connect));
	endpoint_advance(pair.b, now_ns);
	assert_int_equal(codec_native.decode(&answer, wires[0].frames[wires[0].head % 256],
					     wires[0].lengths[wires[0].head % 256]), 0);
	assert_int_equal(answer.type, PACKET_ACCEPT);
	assert_int_equal(answer.connect.seen, length);
	assert_int_equal(connection->route[0].frame_in, frame_in);
	pair_talk(&pair, &now_ns, 2, 1000000);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* An ACCEPT that was heard before shows no life: who sends it again and again keeps no peer alive that is silent. */
static void accept__again_is_no_sign_of_life(void **state)
{
	static const char *const options[] = {"job_key=7", NULL};
	uint64_t now_ns = 1000000000, end_ns;
	struct thole_request *send;
	uint8_t accept[112] = {0};
	struct pair pair;

	(void)state;
	wired_open(&pair, wires, &codec_native, options, options);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, NULL), 0);
	endpoint_advance(pair.a, now_ns);
	endpoint_advance(pair.b, now_ns);
	for (unsigned i = wires[0].head; i != wires[0].tail; i++)
		if (wires[0].frames[i % 256][0] == PACKET_ACCEPT)
			memcpy(accept, wires[0].frames[i % 256], sizeof(accept));
	assert_int_equal(accept[0], PACKET_ACCEPT);
	pair_talk(&pair, &now_ns, 1, 100);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, "x", 1, 2, 0, THOLE_SYNC, NULL, &send), 0);
	for (end_ns = now_ns + 60000000000; now_ns < end_ns; now_ns += 100000000) {
		endpoint_advance(pair.a, now_ns);
		wires[0].head = wires[0].tail;
		wires[1].head = wires[1].tail;
		engine_frame(&datagram_of(&pair.a->base)->engine, &wires[0].link, &wires[1].link.own, accept,
			     sizeof(accept));
	}
	assert_int_equal(connection_at(pair.a, pair.a_to_b)->state, CONNECTION_DEAD);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* An endpoint that has answered is the one that is meant, whatever is said by another link. */
static void nack__bad_endpoint_of_one_that_answered(void **state)
{
	uint8_t connect[ENGINE_FRAME_MAX];
	struct packet asked;
	uint64_t now_ns;
	struct pair pair;

	(void)state;
	pair_overheard(&pair, &now_ns, connect);
	assert_int_equal(codec_native.decode(&asked, connect, 112), 0);
	naming_native.refuse(&datagram_of(&pair.b->base)->engine, &wires[1].link, &wires[0].link.own, &asked,
			     NACK_BAD_ENDPOINT);
	pair_run(&pair, &now_ns, 10000000);
	assert_int_equal(connection_at(pair.a, pair.a_to_b)->state, CONNECTION_OPEN);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mac__works_at_exit),
		cmocka_unit_test(tag__covers_every_bit),
		cmocka_unit_test(tag__covers_the_length),
		cmocka_unit_test(tag__is_the_one_that_is_due),
		cmocka_unit_test(tag__of_each_frame_of_a_run),
		cmocka_unit_test(key__of_somebody_else),
		cmocka_unit_test(window__takes_each_once),
		cmocka_unit_test(window__of_data),
		cmocka_unit_test(burst__is_as_one_by_one),
		cmocka_unit_test(burst__of_a_run_is_as_one_by_one),
		cmocka_unit_test(burst__of_a_record_is_as_one_by_one),
		cmocka_unit_test(epoch__has_a_key_of_its_own),
		cmocka_unit_test(epoch__ends_amid_a_run),
		cmocka_unit_test(epoch__is_followed),
		cmocka_unit_test(counter__is_not_0),
		cmocka_unit_test(counter__may_be_the_last),
		cmocka_unit_test(mac__is_gcm),
		cmocka_unit_test(frames__that_are_forged_do_nothing),
		cmocka_unit_test(together__all_but_the_forged_are_taken),
		cmocka_unit_test(together__each_is_taken_once),
		cmocka_unit_test(modes__the_stricter_one_counts),
		cmocka_unit_test(modes__full_cannot_be_had),
		cmocka_unit_test(modes__cannot_be_lowered),
		cmocka_unit_test(nack__of_anybody),
		cmocka_unit_test(nack__of_a_session_that_lives),
		cmocka_unit_test(nack__bad_endpoint_of_one_that_answered),
		cmocka_unit_test(connect__with_more_zeros),
		cmocka_unit_test(accept__again_is_no_sign_of_life),
	};

	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
