/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "transport/datagram/guard.h"

#include <string.h>

#include "base/endian.h"
#include "base/siphash.h"

enum {
	GUARD_LABEL = 0x47,                          /* what no packet's type is: proofs of those have the same key */
	SHORTS_BEHIND = PACKET_FRONT + PACKET_COUNTER + PACKET_TAG_SHORT, /* where a frame goes on behind its tag */
	GUARD_TEXT = CODEC_FRONT + GUARD_WHOLE,      /* of a short tag, at most */
#ifdef __KERNEL__
	SHORTS_MAX = 8,                              /* short tags that are made at once: its stack is small */
#else
	SHORTS_MAX = 64,                             /* short tags that are made at once */
#endif
};

_Static_assert((int)SHORTS_BEHIND == (int)CODEC_FRONT, "a frame with its length in place of the tag is its text");

/* ---- Keys ------------------------------------------------------------------------------------------- */

static void way_begin(struct guard_way *way, enum guard_mode mode, uint64_t job_key, const struct guard_end *from,
		      const struct guard_end *to)
{
	uint64_t words[] = {0, from->host, from->endpoint, from->session, to->host, to->endpoint, to->session};
	uint8_t text[sizeof(words)];

	for (unsigned half = 0; half < 2; half++) {
		words[0] = (uint64_t)GUARD_LABEL << 56 | (uint64_t)mode << 8 | half;
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			store_be64(text + 8 * i, words[i]);
		way->secret[half] = siphash((const uint64_t[2]){job_key, 0}, text, sizeof(text));
	}
	way->epoch = UINT64_MAX;
	way->context = NULL;
}

static uint64_t way_word(const struct guard_way *way, uint64_t epoch, uint64_t which)
{
	uint8_t text[16];

	store_be64(text, epoch);
	store_be64(text + 8, which);
	return siphash(way->secret, text, sizeof(text));
}

static void way_end(struct guard_way *way, const struct mac *mac)
{
	if (way->context)
		mac->close(way->context);
	way->context = NULL;
}

/* The keys of an epoch, in `way` from now on. */
static void way_turn(struct guard_way *way, const struct mac *mac, uint64_t epoch)
{
	if (way->epoch == epoch)
		return;
	way_end(way, mac);
	way->epoch = epoch;
	way->key[0] = way_word(way, epoch, 0);
	way->key[1] = way_word(way, epoch, 1);
}

static void *way_context(struct guard_way *way, const struct mac *mac)
{
	uint8_t key[GUARD_KEY];

	if (way->context)
		return way->context;
	store_be64(key, way_word(way, way->epoch, 2));
	store_be64(key + 8, way_word(way, way->epoch, 3));
	way->context = mac->open(key);
	return way->context;
}

void guard_begin(struct guard *guard, enum guard_mode mode, uint64_t job_key, const struct guard_end *own,
		 const struct guard_end *peer, const struct mac *mac)
{
	*guard = (struct guard){.mac = mode == GUARD_FULL ? mac : NULL, .mode = (uint8_t)mode};
	way_begin(&guard->out, mode, job_key, own, peer);
	way_begin(&guard->in, mode, job_key, peer, own);
}

void guard_follow(struct guard *guard, uint64_t epoch)
{
	if (guard->in.epoch == UINT64_MAX || guard->in.epoch < epoch)
		way_turn(&guard->in, guard->mac, epoch);
}

void guard_end(struct guard *guard)
{
	way_end(&guard->out, guard->mac);
	way_end(&guard->in, guard->mac);
}

/* ---- Tags -------------------------------------------------------------------------------------------- */

unsigned guard_flags(const struct guard *guard, unsigned type, size_t length)
{
	bool carries = type == PACKET_DATA || type == PACKET_RECORD;

	if (guard->mode == GUARD_FULL && carries && (type == PACKET_DATA || length > GUARD_WHOLE - GUARD_HEAD))
		return PACKET_SEALED;
	return PACKET_TAGGED;
}

unsigned guard_bytes(const struct guard *guard)
{
	if (!guard)
		return 0;
	return packet_guard_bytes(guard->mode == GUARD_FULL ? PACKET_SEALED : PACKET_TAGGED);
}

static size_t parts_length(const struct iovec *parts, size_t count)
{
	size_t length = 0;

	for (size_t i = 0; i < count; i++)
		length += parts[i].iov_len;
	return length;
}

/* Whether a short tag covers all of a frame. */
static bool short_is_whole(unsigned type, size_t length)
{
	return type != PACKET_DATA && length <= GUARD_WHOLE;
}

/* Short tags over texts of one length, to be made or to be compared with those that are there. The text is the frame
 * itself, up to where the tag covers, with its length in place of the tag. */
struct shorts {
	const struct guard_way *way;
	bool make;
	size_t count, length;
	uint8_t *frames[SHORTS_MAX];
	uint64_t was[SHORTS_MAX]; /* what is in the tags' places */
};

static uint8_t *short_place(uint8_t *frame)
{
	return frame + PACKET_FRONT + PACKET_COUNTER;
}

static void shorts_begin(struct shorts *shorts, const struct guard_way *way, bool make)
{
	shorts->way = way;
	shorts->make = make;
	shorts->count = 0;
}

/* Returns whether all tags that were compared are right, and then in their places. In a time that says nothing. */
static bool shorts_end(struct shorts *shorts)
{
	uint64_t right[SHORTS_MAX], difference = 0;

	siphash_many(shorts->way->key, (const uint8_t *const *)shorts->frames, shorts->count, shorts->length, right);
	for (size_t i = 0; i < shorts->count; i++) {
		store_be64(short_place(shorts->frames[i]), shorts->make ? right[i] : shorts->was[i]);
		difference |= shorts->was[i] ^ right[i];
	}
	shorts->count = 0;
	return shorts->make || difference == 0;
}

/* How much of a frame is covered; all of that is in its first part. */
static size_t short_covers(const struct codec *codec, const uint8_t *frame, size_t length)
{
	if (short_is_whole(codec->type(frame), length))
		return length;
	return codec->bulk(frame) ? (size_t)SHORTS_BEHIND : (size_t)GUARD_HEAD;
}

/* At once, of one frame. The text of one with a checksum is a copy. Returns as shorts_end. */
static bool short_single(const struct guard_way *way, bool make, const struct codec *codec, uint8_t *frame,
			 size_t length)
{
	uint64_t was = load_be64(short_place(frame)), right;
	size_t end = short_covers(codec, frame, length);
	uint8_t copy[GUARD_TEXT];

	if (codec->flags(frame) & PACKET_CHECKSUM) {
		codec->front(frame, length, copy);
		memcpy(copy + SHORTS_BEHIND, frame + SHORTS_BEHIND, end - SHORTS_BEHIND);
		right = siphash(way->key, copy, end);
	} else {
		store_be64(short_place(frame), length);
		right = siphash(way->key, frame, end);
	}
	store_be64(short_place(frame), make ? right : was);
	return make || was == right;
}

/* Of frames so many bytes from each other, each as long, of the same kind and with the same flags. Returns as
 * shorts_end, of those before. */
static bool shorts_add(struct shorts *shorts, const struct codec *codec, uint8_t *frame, size_t length, size_t stride,
		       unsigned count)
{
	bool copied = codec->flags(frame) & PACKET_CHECKSUM, right = true;
	size_t end = short_covers(codec, frame, length);

	for (; copied && count > 0; count--, frame += stride)
		right &= short_single(shorts->way, shorts->make, codec, frame, length);
	while (count > 0) {
		size_t at = shorts->count, until;

		if (at > 0 && (end != shorts->length || at == SHORTS_MAX)) {
			right &= shorts_end(shorts);
			at = 0;
		}
		until = at + count < SHORTS_MAX ? at + count : (size_t)SHORTS_MAX;
		count -= (unsigned)(until - at);
		for (; at < until; at++, frame += stride) {
			shorts->was[at] = load_be64(short_place(frame));
			shorts->frames[at] = frame;
			store_be64(short_place(frame), length);
		}
		shorts->length = end;
		shorts->count = until;
	}
	return right;
}

static bool tag_long(struct guard_way *way, const struct mac *mac, const struct codec *codec, uint64_t counter,
		     const struct iovec *parts, size_t count, size_t length, uint8_t tag[PACKET_TAG_LONG])
{
	size_t behind = PACKET_FRONT + PACKET_GUARD_MAX;
	void *context = way_context(way, mac);
	struct iovec all[1 + GUARD_PARTS];
	uint8_t front[CODEC_FRONT];

	if (!context || count > GUARD_PARTS)
		return false;
	codec->front(parts[0].iov_base, length, front);
	all[0] = (struct iovec){front, sizeof(front)};
	memcpy(all + 1, parts, count * sizeof(*parts));
	all[1].iov_base = (uint8_t *)parts[0].iov_base + behind;
	all[1].iov_len -= behind;
	return mac->tag(context, counter, all, 1 + count, tag);
}

/* Of one frame, whose counter is in it. */
static bool stamp_long(struct guard *guard, const struct codec *codec, const struct frame_out *frame, uint64_t counter,
		       uint8_t *head)
{
	struct iovec all[1 + GUARD_PARTS] = {{head, frame->head_length}};

	if (frame->body_count >= GUARD_PARTS)
		return false;
	if (frame->body_count > 0)
		memcpy(all + 1, frame->body, frame->body_count * sizeof(*frame->body));
	return tag_long(&guard->out, guard->mac, codec, counter, all, 1u + frame->body_count,
			frame->head_length + frame->body_length, head + PACKET_FRONT + PACKET_COUNTER);
}

/* The first of so many counters that nobody has used. */
static uint64_t guard_draw(struct guard *guard, unsigned count)
{
	if (guard->shared)
		return __atomic_fetch_add(guard->shared, count, __ATOMIC_RELAXED) + 1;
	guard->counter += count;
	return guard->counter - count + 1;
}

/* How many of these frames are as long as the first, lie behind each other, have a key of one epoch and are covered as
 * far: of a run, the first alone may be the beginning of a record. */
static unsigned stamp_run(const struct codec *codec, const struct frame_out *frames, unsigned count, uint64_t counter)
{
	unsigned run = frames->behind < count ? frames->behind : count; /* the last of a run may be shorter */

	return run > 1 && codec->bulk(frames[0].head) == codec->bulk(frames[1].head) &&
			       (counter + run - 1) >> GUARD_EPOCH_BITS == counter >> GUARD_EPOCH_BITS
		       ? run
		       : 1;
}

bool guard_stamp(struct guard *guard, const struct codec *codec, const struct frame_out *frames, unsigned count)
{
	uint64_t counter = guard_draw(guard, count);
	struct shorts shorts;
	bool made = true;

	if (count == 1 && counter >> GUARD_EPOCH_BITS == guard->out.epoch &&
	    !(codec->flags(frames->head) & PACKET_SEALED)) { /* as most are: by itself */
		uint8_t *head = (uint8_t *)(uintptr_t)frames->head;

		store_be64(head + PACKET_FRONT, counter);
		return short_single(&guard->out, true, codec, head, frames->head_length + frames->body_length);
	}
	shorts_begin(&shorts, &guard->out, true);
	for (unsigned run; count > 0; frames += run, count -= run, counter += run) {
		uint8_t *head = (uint8_t *)(uintptr_t)frames->head; /* it is ours to write */
		size_t length = frames->head_length;

		run = stamp_run(codec, frames, count, counter);
		if (counter >> GUARD_EPOCH_BITS != guard->out.epoch) {
			shorts_end(&shorts); /* with the key that was */
			way_turn(&guard->out, guard->mac, counter >> GUARD_EPOCH_BITS);
		}
		for (unsigned i = 0; i < run; i++)
			store_be64(head + i * length + PACKET_FRONT, counter + i);
		if (!(codec->flags(head) & PACKET_SEALED))
			shorts_add(&shorts, codec, head, length + frames->body_length, length, run);
		else
			for (unsigned i = 0; i < run; i++)
				made &= stamp_long(guard, codec, &frames[i], counter + i, head + i * length);
	}
	shorts_end(&shorts);
	return made;
}

/* ---- What was seen ------------------------------------------------------------------------------------- */

static struct guard_window *window_of(struct guard *guard, const struct guard_frame *frame)
{
	return &guard->windows[frame->type == PACKET_DATA];
}

static bool window_is_new(const struct guard_window *window, uint64_t counter)
{
	if (counter > window->newest)
		return true;
	return window->newest / 64 - counter / 64 < GUARD_WINDOW / 64 &&
	       !(window->seen[counter / 64 % (GUARD_WINDOW / 64)] >> counter % 64 & 1);
}

/* Of a counter, and so many behind it. */
static void window_see(struct guard_window *window, uint64_t counter, uint64_t behind)
{
	uint64_t words = GUARD_WINDOW / 64, from = window->newest / 64, newest = counter + behind, to = newest / 64;

	if (to > from + words)
		from = to - words;
	while (from < to) /* what these words said is too old now */
		window->seen[++from % words] = 0;
	for (uint64_t left = behind + 1, some; left > 0; left -= some, counter += some) { /* those of a word at once */
		some = 64 - counter % 64 < left ? 64 - counter % 64 : left;
		window->seen[counter / 64 % words] |= UINT64_MAX >> (64 - some) << counter % 64;
	}
	if (newest > window->newest)
		window->newest = newest;
}

void guard_seen(struct guard *guard, const struct guard_frame *frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t newest = frames[i].counter + frames[i].behind;

		window_see(window_of(guard, &frames[i]), frames[i].counter, frames[i].behind);
		if (newest >> GUARD_EPOCH_BITS > guard->in.epoch)
			way_turn(&guard->in, guard->mac, newest >> GUARD_EPOCH_BITS);
	}
}

/* ---- What has come ------------------------------------------------------------------------------------------ */

/* Equal, in a time that says nothing. */
static bool tags_are_equal(const uint8_t *a, const uint8_t *b, size_t length)
{
	uint8_t difference = 0;

	for (size_t i = 0; i < length; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

/* Whether a frame has the tag that a key makes; a short one is added to those that are compared later, if there are
 * any. */
static bool frame_is_right(struct guard_way *way, const struct mac *mac, const struct codec *codec,
			   const struct guard_frame *frame, size_t length, struct shorts *shorts)
{
	uint8_t *head = frame->parts[0].iov_base, right[PACKET_TAG_LONG];

	if (!(frame->flags & PACKET_SEALED))
		return shorts ? shorts_add(shorts, codec, head, length, 0, 1)
			      : short_single(way, false, codec, head, length);
	return tag_long(way, mac, codec, frame->counter, frame->parts, frame->count, length, right) &&
	       tags_are_equal(head + PACKET_FRONT + PACKET_COUNTER, right, PACKET_TAG_LONG);
}

/* Whether a frame has the tag of an epoch that is not this one. */
static bool frame_is_right_then(const struct guard *guard, const struct codec *codec, const struct guard_frame *frame,
				size_t length)
{
	struct guard_way other = guard->in;
	bool right;

	other.context = NULL;
	way_turn(&other, guard->mac, frame->counter >> GUARD_EPOCH_BITS);
	right = frame_is_right(&other, guard->mac, codec, frame, length, NULL);
	way_end(&other, guard->mac);
	return right;
}

/* Whether a frame has the kind of tag that it needs. */
static bool tag_is_due(const struct guard *guard, const struct guard_frame *frame, size_t length)
{
	if (frame->flags & PACKET_SEALED)
		return guard->mode == GUARD_FULL;
	return (frame->flags & PACKET_TAGGED) && (guard->mode == GUARD_HEADS || short_is_whole(frame->type, length));
}

static enum guard_verdict frame_check(struct guard *guard, const struct codec *codec, const struct guard_frame *frame,
				      struct shorts *shorts)
{
	uint64_t epoch = frame->counter >> GUARD_EPOCH_BITS;
	size_t length = parts_length(frame->parts, frame->count);
	bool right;

	if (!tag_is_due(guard, frame, length))
		return GUARD_FORGED;
	if (frame->counter == 0 || !window_is_new(window_of(guard, frame), frame->counter))
		return GUARD_REPLAYED;
	if (epoch == guard->in.epoch)
		right = frame_is_right(&guard->in, guard->mac, codec, frame, length, shorts);
	else
		right = epoch <= guard->in.epoch + 1 && epoch + 1 >= guard->in.epoch &&
			frame_is_right_then(guard, codec, frame, length);
	return right ? GUARD_FINE : GUARD_FORGED;
}

/* Whether the frames of a run, of so many bytes, have short tags of this epoch, and newer counters than all: then only
 * the tags are to be compared. */
static bool run_is_plain(const struct guard *guard, const struct guard_frame *run, size_t length)
{
	return !(run->flags & PACKET_SEALED) && tag_is_due(guard, run, length) && tag_is_due(guard, run, run->last) &&
	       run->counter > guard->windows[run->type == PACKET_DATA].newest &&
	       run->counter >> GUARD_EPOCH_BITS == guard->in.epoch &&
	       (run->counter + run->behind) >> GUARD_EPOCH_BITS == guard->in.epoch;
}

/* Each frame of a run by itself. What of it is not in its first part is not looked at, but counts for its length. */
static enum guard_verdict run_check_each(struct guard *guard, const struct codec *codec, const struct guard_frame *run,
					 size_t length, struct shorts *shorts)
{
	size_t stride = run->stride ? run->stride : length;
	enum guard_verdict verdict = GUARD_FINE;
	struct iovec parts[2] = {run->parts[0], {NULL, length - run->parts[0].iov_len}};
	struct guard_frame frame = *run;

	frame.parts = parts;
	for (unsigned i = 0; i <= run->behind && verdict == GUARD_FINE; i++, frame.counter++) {
		if (i == run->behind)
			parts[run->count - 1].iov_len -= length - run->last;
		verdict = frame_check(guard, codec, &frame, shorts);
		parts[0].iov_base = (uint8_t *)parts[0].iov_base + stride;
	}
	return verdict;
}

static enum guard_verdict run_check(struct guard *guard, const struct codec *codec, const struct guard_frame *run,
				    struct shorts *shorts)
{
	size_t length = parts_length(run->parts, run->count), stride = run->stride ? run->stride : length;
	uint8_t *first = run->parts[0].iov_base;
	bool right;

	if (!run_is_plain(guard, run, length))
		return run_check_each(guard, codec, run, length, shorts);
	right = shorts_add(shorts, codec, first, length, stride, run->behind);
	right &= shorts_add(shorts, codec, first + run->behind * stride, run->last, stride, 1);
	return right ? GUARD_FINE : GUARD_FORGED;
}

enum guard_verdict guard_check(struct guard *guard, const struct codec *codec, const struct guard_frame *frames,
			       unsigned count)
{
	enum guard_verdict verdict = GUARD_FINE;
	struct shorts shorts;

	if (guard->in.epoch == UINT64_MAX)
		way_turn(&guard->in, guard->mac, 0);
	if (count == 1 && frames->behind == 0)
		return frame_check(guard, codec, frames, NULL);
	shorts_begin(&shorts, &guard->in, false);
	for (unsigned i = 0; i < count && verdict == GUARD_FINE; i++)
		verdict = frames[i].behind ? run_check(guard, codec, &frames[i], &shorts)
					   : frame_check(guard, codec, &frames[i], &shorts);
	if (!shorts_end(&shorts) && verdict == GUARD_FINE)
		verdict = GUARD_FORGED;
	return verdict;
}
