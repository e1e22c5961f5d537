/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/guard.h"

#include <string.h>

#include "base/endian.h"
#include "base/siphash.h"

enum {
	GUARD_LABEL = 0x47,                          /* what no packet's type is: proofs of those have the same key */
	GUARD_TEXT = CODEC_FRONT + GUARD_WHOLE,      /* of a short tag, at most */
};

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

/* SipHash over the front and what is behind the tag, up to where it covers. That all is in the first part. */
static uint64_t tag_short(const struct guard_way *way, const struct codec *codec, unsigned type, const struct iovec *parts,
			  size_t length)
{
	const uint8_t *frame = parts[0].iov_base;
	size_t behind = PACKET_FRONT + PACKET_COUNTER + PACKET_TAG_SHORT;
	size_t end = short_is_whole(type, length) ? length : type == PACKET_DATA ? behind : (size_t)GUARD_HEAD;
	uint8_t text[GUARD_TEXT];

	codec->front(frame, length, text);
	memcpy(text + CODEC_FRONT, frame + behind, end - behind);
	return siphash(way->key, text, CODEC_FRONT + end - behind);
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

bool guard_stamp(struct guard *guard, const struct codec *codec, uint8_t *head, size_t head_length,
		 const struct iovec *parts, size_t count)
{
	uint64_t counter = ++guard->counter;
	struct iovec all[1 + GUARD_PARTS] = {{head, head_length}};
	uint8_t *tag = head + PACKET_FRONT + PACKET_COUNTER;
	size_t length;

	if (count >= GUARD_PARTS)
		return false;
	if (count > 0)
		memcpy(all + 1, parts, count * sizeof(*parts));
	length = parts_length(all, 1 + count);
	store_be64(head + PACKET_FRONT, counter);
	way_turn(&guard->out, guard->mac, counter >> GUARD_EPOCH_BITS);
	if (codec->flags(head) & PACKET_SEALED)
		return tag_long(&guard->out, guard->mac, codec, counter, all, 1 + count, length, tag);
	store_be64(tag, tag_short(&guard->out, codec, codec->type(head), all, length));
	return true;
}

/* ---- What was seen ------------------------------------------------------------------------------------- */

static struct guard_window *window_of(struct guard *guard, const struct packet *packet)
{
	return &guard->windows[packet->type == PACKET_DATA];
}

static bool window_is_new(const struct guard_window *window, uint64_t counter)
{
	if (counter > window->newest)
		return true;
	return window->newest / 64 - counter / 64 < GUARD_WINDOW / 64 &&
	       !(window->seen[counter / 64 % (GUARD_WINDOW / 64)] >> counter % 64 & 1);
}

static void window_see(struct guard_window *window, uint64_t counter)
{
	uint64_t words = GUARD_WINDOW / 64, from = window->newest / 64, to = counter / 64;

	if (to > from + words)
		from = to - words;
	while (from < to) /* what these words said is too old now */
		window->seen[++from % words] = 0;
	window->seen[to % words] |= UINT64_C(1) << counter % 64;
	if (counter > window->newest)
		window->newest = counter;
}

void guard_seen(struct guard *guard, const struct packet *packet)
{
	window_see(window_of(guard, packet), packet->counter);
	if (packet->counter >> GUARD_EPOCH_BITS > guard->in.epoch)
		way_turn(&guard->in, guard->mac, packet->counter >> GUARD_EPOCH_BITS);
}

/* Equal, in a time that says nothing. */
static bool tags_are_equal(const uint8_t *a, const uint8_t *b, size_t length)
{
	uint8_t difference = 0;

	for (size_t i = 0; i < length; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

static bool tag_is_right(struct guard_way *way, const struct mac *mac, const struct codec *codec, const struct packet *packet,
			 const struct iovec *parts, size_t count, size_t length)
{
	const uint8_t *found = (const uint8_t *)parts[0].iov_base + PACKET_FRONT + PACKET_COUNTER;
	uint8_t right[PACKET_TAG_LONG];

	if (packet->flags & PACKET_SEALED)
		return tag_long(way, mac, codec, packet->counter, parts, count, length, right) &&
		       tags_are_equal(found, right, PACKET_TAG_LONG);
	store_be64(right, tag_short(way, codec, packet->type, parts, length));
	return tags_are_equal(found, right, PACKET_TAG_SHORT);
}

/* Whether a frame has the kind of tag that it needs. */
static bool tag_is_due(const struct guard *guard, const struct packet *packet, size_t length)
{
	if (packet->flags & PACKET_SEALED)
		return guard->mode == GUARD_FULL;
	return (packet->flags & PACKET_TAGGED) && (guard->mode == GUARD_HEADS || short_is_whole(packet->type, length));
}

enum guard_verdict guard_check(struct guard *guard, const struct codec *codec, const struct packet *packet,
			       const struct iovec *parts, size_t count)
{
	uint64_t epoch = packet->counter >> GUARD_EPOCH_BITS;
	size_t length = parts_length(parts, count);
	struct guard_way other;
	bool right;

	if (!tag_is_due(guard, packet, length))
		return GUARD_FORGED;
	if (packet->counter == 0 || !window_is_new(window_of(guard, packet), packet->counter))
		return GUARD_REPLAYED;
	if (guard->in.epoch == UINT64_MAX)
		way_turn(&guard->in, guard->mac, 0);
	if (epoch == guard->in.epoch)
		return tag_is_right(&guard->in, guard->mac, codec, packet, parts, count, length) ? GUARD_FINE : GUARD_FORGED;
	if (epoch > guard->in.epoch + 1 || epoch + 1 < guard->in.epoch)
		return GUARD_FORGED;
	other = guard->in;
	other.context = NULL;
	way_turn(&other, guard->mac, epoch);
	right = tag_is_right(&other, guard->mac, codec, packet, parts, count, length);
	way_end(&other, guard->mac);
	return right ? GUARD_FINE : GUARD_FORGED;
}
