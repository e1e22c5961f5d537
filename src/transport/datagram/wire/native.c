/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * native: the codec of our own peers. What is where in a frame is in native.fields, of which native_fields.h is made:
 * *_AT and
 * *_LENGTH, *_store and *_load. Here is what decides: which packets there are, how long they are, which are lawful.
 * Pure.
 *
 * Invariants. All numbers are big-endian and, but for those of a place, lie on offsets that are multiples of their
 * size. DATA's head is no longer than SCATTER_HEAD (scatter.h). A frame shorter than Ethernet's minimum says how long
 * it is (HEAD_SHORT_AT), since network cards pad it; so no payload grows on the way, and the checksum does not cover
 * padding. Where there are a counter and a tag they are behind the first PACKET_FRONT bytes, and the offsets
 * below that are not less than that move by their length.
 */
#include <string.h>

#include "base/endian.h"
#include "thole.h"
#include "transport/datagram/wire/codec.h"
#include "transport/datagram/wire/crc32c.h"

/* A place: 7 bytes say which transfer, and 5 the offset in its window. */
enum { PLACE_OFFSET_BITS = 96 - PACKET_TRANSFER_BITS };

_Static_assert(THOLE_LENGTH_MAX <= UINT64_C(1) << PLACE_OFFSET_BITS, "what is not empty begins below");

static void place_store(uint8_t *at, uint64_t transfer, uint64_t offset)
{
	store_be32(at, (uint32_t)(transfer >> 24));
	store_be64(at + 4, transfer << PLACE_OFFSET_BITS | offset);
}

static void place_load(const uint8_t *at, uint64_t *transfer_p, uint64_t *offset_p)
{
	uint64_t low = load_be64(at + 4);

	*transfer_p = (uint64_t)load_be32(at) << 24 | low >> PLACE_OFFSET_BITS;
	*offset_p = low & ((UINT64_C(1) << PLACE_OFFSET_BITS) - 1);
}

/* The offset alone. */
static void place_move(uint8_t *at, uint64_t offset)
{
	uint64_t transfer = load_be64(at + 4) >> PLACE_OFFSET_BITS;

	store_be64(at + 4, transfer << PLACE_OFFSET_BITS | offset);
}

#include "transport/datagram/wire/native_fields.h" /* which has a use for places */

enum {
	NATIVE_SHORT = 64, /* frames below this say how long they are; Ethernet pads below 46 */
	NATIVE_KEPT_FLAGS = PACKET_CHECKSUM | PACKET_TAGGED | PACKET_SEALED, /* whoever sends a frame again */
};

_Static_assert((int)TAGGED_COUNTER_AT == (int)PACKET_FRONT, "it is behind the front");
_Static_assert((int)RECORD_FIRST_LENGTH_MAX + (int)PACKET_GUARD_MAX <= (int)PACKET_HEAD_MAX, "heads fit with a tag");
_Static_assert((int)CONNECT_LENGTH <= (int)PACKET_HEAD_MAX, "heads fit");
_Static_assert((int)RECORD_CARD + 1 == (int)RECORD_MESSAGE_KINDS, "every kind of the message layer is described");

/* ---- Encode ------------------------------------------------------------------------------------- */

/* In each of these `rest` is where the frame would begin for what is behind the front, and the length is without a
 * tag. */
static size_t native_encode_record(const struct packet *packet, uint8_t *head, uint8_t *rest)
{
	const struct record *record = &packet->message.record;
	bool args = record->length == RECORD_EXTERNAL && record->kind != RECORD_PIECE;

	head[RECORD_FLAGS_AT] = (uint8_t)((record->flags & ~NATIVE_ARGS) | (args ? NATIVE_ARGS : 0));
	record_store(packet, head);
	return record->kind == RECORD_PIECE ? (size_t)RECORD_PIECE_LENGTH : record_first_store(packet, head, rest);
}

static size_t native_encode_body(const struct packet *packet, uint8_t *head, uint8_t *rest)
{
	switch (packet->type) {
	case PACKET_RECORD:
		return native_encode_record(packet, head, rest);
	case PACKET_DATA:
		data_store(packet, head);
		return DATA_LENGTH;
	case PACKET_ACK:
		ack_store(packet, head, rest);
		return ACK_LENGTH;
	case PACKET_PULL:
		pull_store(packet, head, rest);
		return PULL_LENGTH;
	case PACKET_NACK:
		nack_store(packet, head, rest);
		return NACK_LENGTH;
	case PACKET_CLOSE:
		close_store(packet, head);
		return CLOSE_LENGTH;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		connect_store(packet, head, rest);
		return CONNECT_LENGTH;
	default:
		return 0;
	}
}

static bool type_acks(unsigned type)
{
	return type == PACKET_RECORD || type == PACKET_ACK || type == PACKET_PULL || type == PACKET_CLOSE;
}

/* CONNECT and ACCEPT have a proof instead. */
static bool type_is_guarded(unsigned type)
{
	return type != PACKET_CONNECT && type != PACKET_ACCEPT;
}

static size_t native_encode(const struct packet *packet, uint8_t *head)
{
	bool carries = packet->type == PACKET_RECORD || packet->type == PACKET_DATA;
	unsigned guard = type_is_guarded(packet->type) ? packet_guard_bytes(packet->flags) : 0;
	size_t length, whole;

	memset(head, 0, PACKET_FRONT + guard); /* beyond it no head has gaps */
	head_store(packet, head);
	length = native_encode_body(packet, head, head + guard);
	if (length == 0)
		return 0;
	length += guard;
	whole = length + (carries ? packet->length : 0);
	head[HEAD_TYPE_AT] = packet->type;
	head[HEAD_SHORT_AT] = whole < NATIVE_SHORT ? (uint8_t)whole : 0;
	head[HEAD_FLAGS_AT] = packet->flags & (HEAD_FLAGS_BITS & ~PACKET_CHECKSUM);
	if (!guard)
		head[HEAD_FLAGS_AT] &= (uint8_t)~(PACKET_TAGGED | PACKET_SEALED);
	if (type_acks(packet->type))
		acked_store(packet, head);
	return length;
}

/* ---- Decode ------------------------------------------------------------------------------------- */

static void native_decode_payload(struct packet *packet, const uint8_t *frame, size_t head, size_t length)
{
	packet->payload = frame + head;
	packet->length = (uint32_t)(length - head);
}

/* In each of these `rest` is where the frame would begin for what is behind the front, and the length is without a
 * tag. */
static int native_decode_record(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	struct record *record = &packet->message.record;
	bool args;
	size_t head;

	if (length < RECORD_LENGTH)
		return THOLE_ERR_PROTOCOL;
	args = frame[RECORD_FLAGS_AT] & NATIVE_ARGS;
	record_load(packet, frame);
	record->flags = (uint8_t)(frame[RECORD_FLAGS_AT] & ~NATIVE_ARGS);
	head = record->kind == RECORD_PIECE ? (size_t)RECORD_PIECE_LENGTH : record_first_length(frame);
	if (record->kind == RECORD_NONE || record->kind >= RECORD_MESSAGE_KINDS || length < head ||
	    length - head >= RECORD_EXTERNAL || (record->kind == RECORD_PIECE && args))
		return THOLE_ERR_PROTOCOL;
	native_decode_payload(packet, rest, head, length);
	record->length = args ? (uint16_t)RECORD_EXTERNAL : (uint16_t)packet->length;
	if (args)
		record->bytes = packet->length;
	if (record->kind != RECORD_PIECE)
		record_first_load(packet, frame, rest);
	return 0;
}

static int native_decode_pull(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	const struct packet_pull *pull = &packet->pull;

	if (length < PULL_LENGTH)
		return THOLE_ERR_PROTOCOL;
	pull_load(packet, frame, rest);
	/* What follows computes with these: there are frames, few enough where each has a bit, and they end in a
	 * message of lawful length. */
	if (pull->frame == 0 || pull->length == 0 ||
	    (pull->wanted && pull->length > (uint64_t)pull->frame * PACKET_FRAMES_MAX) ||
	    pull->length > THOLE_LENGTH_MAX - pull->offset)
		return THOLE_ERR_PROTOCOL;
	return 0;
}

static int native_decode_data(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	if (length < DATA_LENGTH)
		return THOLE_ERR_PROTOCOL;
	data_load(packet, frame);
	if (length - DATA_LENGTH > THOLE_LENGTH_MAX - packet->data.offset)
		return THOLE_ERR_PROTOCOL;
	native_decode_payload(packet, rest, DATA_LENGTH, length);
	return 0;
}

static int native_decode_nack(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	if (length < NACK_LENGTH)
		return THOLE_ERR_PROTOCOL;
	nack_load(packet, frame, rest);
	return packet->nack.reason == NACK_NONE || packet->nack.reason > NACK_BAD_WINDOW ? THOLE_ERR_PROTOCOL : 0;
}

static int native_decode_body(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	switch (packet->type) {
	case PACKET_RECORD:
		return native_decode_record(packet, frame, rest, length);
	case PACKET_DATA:
		return native_decode_data(packet, frame, rest, length);
	case PACKET_ACK:
		if (length < ACK_LENGTH)
			return THOLE_ERR_PROTOCOL;
		ack_load(packet, frame, rest);
		return 0;
	case PACKET_PULL:
		return native_decode_pull(packet, frame, rest, length);
	case PACKET_NACK:
		return native_decode_nack(packet, frame, rest, length);
	case PACKET_CLOSE:
		if (length < CLOSE_LENGTH)
			return THOLE_ERR_PROTOCOL;
		close_load(packet, frame);
		return 0;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		if (length < CONNECT_LENGTH)
			return THOLE_ERR_PROTOCOL;
		connect_load(packet, frame, rest);
		return 0;
	default:
		return THOLE_ERR_PROTOCOL;
	}
}

/* Bytes of a frame without its padding. */
static size_t native_length(const uint8_t *frame, size_t length)
{
	size_t said = frame[HEAD_SHORT_AT];

	return said && said < length ? said : length;
}

/* Whether the flags say of a frame what is possible. */
static bool flags_are_lawful(unsigned type, unsigned flags)
{
	unsigned guard = flags & (PACKET_TAGGED | PACKET_SEALED);

	return !(flags & ~(unsigned)HEAD_FLAGS_BITS) && (guard == 0 || type_is_guarded(type)) &&
	       guard != (PACKET_TAGGED | PACKET_SEALED);
}

static int native_decode(struct packet *packet, const uint8_t *frame, size_t length)
{
	unsigned guard;
	int rc;

	*packet = (struct packet){0};
	if (length < HEAD_LENGTH || frame[HEAD_VERSION_AT] != HEAD_VERSION_IS || frame[HEAD_SHORT_AT] >= NATIVE_SHORT ||
	    !flags_are_lawful(frame[HEAD_TYPE_AT], frame[HEAD_FLAGS_AT]))
		return THOLE_ERR_PROTOCOL;
	length = native_length(frame, length);
	guard = packet_guard_bytes(frame[HEAD_FLAGS_AT]);
	if (length < PACKET_FRONT + guard)
		return THOLE_ERR_PROTOCOL;
	packet->type = frame[HEAD_TYPE_AT];
	packet->flags = frame[HEAD_FLAGS_AT];
	head_load(packet, frame);
	if (guard)
		tagged_load(packet, frame);
	rc = native_decode_body(packet, frame, frame + guard, length - guard);
	if (rc == 0 && type_acks(packet->type))
		acked_load(packet, frame);
	return rc;
}

/* Type and version are where they are in all versions. */
static bool native_foreign(struct packet *packet, const uint8_t *frame, size_t length)
{
	if (length < HEAD_LENGTH || frame[HEAD_VERSION_AT] == HEAD_VERSION_IS || frame[HEAD_VERSION_AT] == 0)
		return false;
	*packet = (struct packet){.type = frame[HEAD_TYPE_AT]};
	return packet->type >= PACKET_CONNECT && packet->type <= PACKET_CLOSE;
}

/* ---- Frames that follow each other --------------------------------------------------------------- */

_Static_assert((int)RECORD_PIECE_LENGTH == (int)DATA_LENGTH, "heads of both have one length");
_Static_assert((int)DATA_LENGTH == (int)PACKET_FRONT, "which a tag ends");

static bool native_decode_next(struct packet *packet, const uint8_t *before, const uint8_t *frame, size_t length)
{
	size_t head = DATA_LENGTH + packet_guard_bytes(packet->flags);
	uint64_t transfer, offset;

	if (before[HEAD_TYPE_AT] != PACKET_DATA || before[HEAD_SHORT_AT] != 0 || length < NATIVE_SHORT ||
	    memcmp(before, frame, HEAD_CHECKSUM_AT) != 0)
		return false;
	place_load(frame + DATA_TRANSFER_AT, &transfer, &offset);
	if (transfer != packet->data.transfer || length - head > THOLE_LENGTH_MAX - offset)
		return false;
	packet->data.offset = offset;
	if (head > DATA_LENGTH)
		tagged_load(packet, frame);
	native_decode_payload(packet, frame, head, length);
	return true;
}

/* All that is in front of the number, and behind it up to the counter, is the same. */
static uint32_t native_run(const uint8_t *first, size_t length, size_t all, size_t least)
{
	size_t guard = packet_guard_bytes(first[HEAD_FLAGS_AT]), head = RECORD_PIECE_LENGTH + guard;
	uint32_t sequence = load_be32(first + RECORD_SEQUENCE_AT), count = 0;
	uint64_t counter = guard ? load_be64(first + TAGGED_COUNTER_AT) : 0;

	if (first[HEAD_SHORT_AT] != 0 || length - head >= RECORD_EXTERNAL)
		return 0;
	for (size_t left = all - length; left > 0; left -= length, count++) {
		const uint8_t *frame = first + (count + 1) * length;

		if (left < length)
			length = left;
		if (length < NATIVE_SHORT || length <= head + least || memcmp(first, frame, HEAD_CHECKSUM_AT) != 0 ||
		    memcmp(first + ACKED_ACK_AT, frame + ACKED_ACK_AT, RECORD_LENGTH - ACKED_ACK_AT) != 0 ||
		    load_be32(frame + RECORD_SEQUENCE_AT) != sequence + count + 1 ||
		    (guard && load_be64(frame + TAGGED_COUNTER_AT) != counter + count + 1))
			break;
	}
	return count;
}

static void native_encode_next(uint8_t *head, const uint8_t *before, size_t length, uint64_t number)
{
	if (length == PACKET_FRONT + PACKET_COUNTER + PACKET_TAG_SHORT) /* of most, so that it is done without a call */
		memcpy(head, before, PACKET_FRONT + PACKET_COUNTER + PACKET_TAG_SHORT);
	else if (length == PACKET_FRONT)
		memcpy(head, before, PACKET_FRONT);
	else
		memcpy(head, before, length);
	if (head[HEAD_TYPE_AT] == PACKET_DATA)
		place_move(head + DATA_TRANSFER_AT, number);
	else
		store_be32(head + RECORD_SEQUENCE_AT, (uint32_t)number);
}

/* ---- Frames that are encoded already -------------------------------------------------------------- */

static void native_restamp(uint8_t *frames, size_t count, size_t length, uint32_t ack, uint16_t credit, uint8_t flags)
{
	for (uint8_t *frame = frames; count > 0; count--, frame += length) {
		frame[HEAD_FLAGS_AT] = (uint8_t)((frame[HEAD_FLAGS_AT] & NATIVE_KEPT_FLAGS) |
						 (flags & HEAD_FLAGS_BITS & ~NATIVE_KEPT_FLAGS));
		store_be32(frame + ACKED_ACK_AT, ack);
		store_be16(frame + ACKED_CREDIT_AT, credit);
	}
}

static void native_seal(uint8_t *head, size_t head_length, const struct iovec *parts, size_t count)
{
	uint32_t sum;

	head[HEAD_FLAGS_AT] |= PACKET_CHECKSUM;
	store_be32(head + HEAD_CHECKSUM_AT, 0);
	sum = crc32c(0, head, head_length);
	for (size_t i = 0; i < count; i++)
		sum = crc32c(sum, parts[i].iov_base, parts[i].iov_len);
	store_be32(head + HEAD_CHECKSUM_AT, sum);
}

static bool native_intact(const uint8_t *frame, size_t length, bool *unset_p)
{
	uint8_t head[HEAD_LENGTH];
	uint32_t sum;

	*unset_p = length >= HEAD_LENGTH && !(frame[HEAD_FLAGS_AT] & PACKET_CHECKSUM);
	if (length < HEAD_LENGTH)
		return false;
	if (*unset_p)
		return load_be32(frame + HEAD_CHECKSUM_AT) == 0; /* else the flag is what was changed */
	length = native_length(frame, length);
	if (length < HEAD_LENGTH)
		return false;
	memcpy(head, frame, HEAD_LENGTH);
	store_be32(head + HEAD_CHECKSUM_AT, 0);
	sum = crc32c(crc32c(0, head, HEAD_LENGTH), frame + HEAD_LENGTH, length - HEAD_LENGTH);
	return sum == load_be32(frame + HEAD_CHECKSUM_AT);
}

static void native_front(const uint8_t *frame, uint64_t length, uint8_t text[CODEC_FRONT])
{
	memcpy(text, frame, PACKET_FRONT + PACKET_COUNTER);
	text[HEAD_FLAGS_AT] &= (uint8_t)~PACKET_CHECKSUM;
	memset(text + HEAD_CHECKSUM_AT, 0, HEAD_LENGTH - HEAD_CHECKSUM_AT);
	store_be64(text + PACKET_FRONT + PACKET_COUNTER, length);
}

static uint8_t native_type(const uint8_t *frame)
{
	return frame[HEAD_TYPE_AT];
}

static uint8_t native_flags(const uint8_t *frame)
{
	return frame[HEAD_FLAGS_AT];
}

static bool native_bulk(const uint8_t *frame)
{
	return frame[HEAD_TYPE_AT] == PACKET_DATA ||
	       (frame[HEAD_TYPE_AT] == PACKET_RECORD && frame[RECORD_KIND_AT] == RECORD_PIECE);
}

const struct codec codec_native = {
	.name = "native",
	.sequence_bits = 32,
	.ahead_max = 256,
	.unacked_max = 256,
	.ack_every = 128,
	.ack_delay_ns = 100000,
	.fragment = UINT32_MAX,
	.fragments_max = 1,
	.eager_max = 1 << 20,
	.selective = true,
	.credit_first = 64,
	.credit_unsaid = 1,
	.backpressure = true,
	.indexed = true,
	.data = 0,
	.block_frames = PACKET_FRAMES_MAX,
	.blocks_max = UINT32_MAX,
	.pull_blocks = UINT32_MAX,
	.length_max = THOLE_LENGTH_MAX,
	.resend_ns = 0,
	.pull_ns = 0,
	.record_head = RECORD_FIRST_LENGTH_MAX,
	.piece_head = RECORD_PIECE_LENGTH,
	.data_head = DATA_LENGTH,
	.nack = NACK_LENGTH,
	.encode = native_encode,
	.decode = native_decode,
	.foreign = native_foreign,
	.decode_next = native_decode_next,
	.run = native_run,
	.encode_next = native_encode_next,
	.restamp = native_restamp,
	.seal = native_seal,
	.intact = native_intact,
	.front = native_front,
	.type = native_type,
	.flags = native_flags,
	.bulk = native_bulk,
	.unpadded = native_length,
};
