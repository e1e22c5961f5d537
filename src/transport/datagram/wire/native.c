/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native: the codec of our own peers. Owns the offsets below; docs/PROTOCOL.md draws them. Pure.
 *
 * Invariants. All numbers are big-endian and, but for those of a place, lie on offsets that are multiples of their size. DATA's
 * head is no longer than a landing's (link.h). A frame that is shorter than Ethernet's minimum says how long it is (HEAD_SHORT_AT), since network
 * cards pad it; so no payload grows on the way, and the checksum does not cover padding. Where there are a counter and a tag they
 * are behind the first PACKET_FRONT bytes, and the offsets below that are not less than that move by their length.
 */
#include <string.h>

#include "base/endian.h"
#include "thole.h"
#include "transport/datagram/landing.h"
#include "transport/datagram/wire/codec.h"
#include "transport/datagram/wire/crc32c.h"

enum {
	NATIVE_VERSION = 2,
	NATIVE_SHORT = 64, /* frames below this say how long they are; Ethernet pads below 46 */
	NATIVE_FLAGS = PACKET_CHECKSUM | PACKET_HOLD | PACKET_ANSWER | PACKET_TAGGED | PACKET_SEALED | PACKET_ASIDE,
	NATIVE_KEPT_FLAGS = PACKET_CHECKSUM | PACKET_TAGGED | PACKET_SEALED, /* whoever sends a frame again */
	NATIVE_ARGS = 0x80, /* in the record's flags: args follow */
};

/* Offsets. Of every packet: */
enum {
	HEAD_TYPE_AT = 0,      /* u8, enum packet_type */
	HEAD_VERSION_AT = 1,   /* u8 */
	HEAD_SHORT_AT = 2,     /* u8: what comes behind so many bytes is padding; 0: nothing is */
	HEAD_FLAGS_AT = 3,     /* u8, enum packet_flags */
	HEAD_TO_AT = 4,        /* u32 */
	HEAD_SESSION_AT = 8,   /* u64 */
	HEAD_CHECKSUM_AT = 16, /* u32: CRC32C of the frame with this field 0; 0 without PACKET_CHECKSUM */
	HEAD_LENGTH = 20,
	HEAD_COUNTER_AT = 32,  /* u64: with a tag; then the tag */
	HEAD_ACK_AT = 24,      /* u32: RECORD, ACK, PULL, CLOSE */
	HEAD_CREDIT_AT = 28,   /* u16: the same */
};
enum {
	RECORD_SEQUENCE_AT = 20, /* u32 */
	RECORD_KIND_AT = 30,     /* u8 */
	RECORD_FLAGS_AT = 31,    /* u8: enum record_flags, NATIVE_ARGS */
	RECORD_TAG_AT = 32,      /* u64, but for PIECE; then imm, then args, each where it is carried */
	RECORD_PIECE_LENGTH = 32,
	RECORD_LENGTH_MAX = RECORD_TAG_AT + 8 + 8 + 8 * RECORD_ARGS,
};
enum {
	ACK_SEQUENCE_AT = 20, /* u32 */
	ACK_HELD_AT = 32,     /* u64 */
	ACK_LENGTH = 40,
};
enum {
	PULL_FRAME_AT = 30,    /* u16 */
	PULL_WINDOW_AT = 32,   /* u64 */
	PULL_TRANSFER_AT = 40, /* 7 bytes, */
	PULL_OFFSET_AT = 47,   /* 5 bytes: a place */
	PULL_BYTES_AT = 52,    /* u32 */
	PULL_WANTED_AT = 56,   /* u64 */
	PULL_LENGTH = 64,
};
enum {
	DATA_TRANSFER_AT = 20, /* 7 bytes, */
	DATA_OFFSET_AT = 27,   /* 5 bytes: a place */
	DATA_LENGTH = 32,
};
enum {
	NACK_REASON_AT = 20,   /* u8; in the head's session is the one that is refused */
	NACK_TRANSFER_AT = 24, /* u64 */
	NACK_PROOF_AT = 32,    /* u64 */
	NACK_LENGTH = 40,
};
enum {
	CLOSE_SEQUENCE_AT = 20, /* u32: behind the last record */
	CLOSE_LENGTH = 32,
};
enum { /* CONNECT and ACCEPT */
	CONNECT_INDEX_AT = 20,      /* u32 */
	CONNECT_SESSION_AT = 24,    /* u64 */
	CONNECT_TARGET_AT = 32,     /* u64 */
	CONNECT_PROOF_AT = 40,      /* u64 */
	CONNECT_HOST_AT = 48,       /* u64 */
	CONNECT_ENDPOINT_AT = 56,   /* u64 */
	CONNECT_ADDRESS_AT = 64,    /* PACKET_NETWORK bytes */
	CONNECT_NEXT_AT = 84,       /* u32 */
	CONNECT_SEEN_AT = 88,       /* u16 */
	CONNECT_SIZE_AT = 90,       /* u16 */
	CONNECT_BULK_PORT_AT = 92,  /* u16 */
	CONNECT_ATTEMPT_AT = 94,    /* u8 */
	CONNECT_STATUS_AT = 95,     /* u8 */
	CONNECT_MAC_AT = 96,        /* 6 bytes */
	CONNECT_ETHERTYPE_AT = 102, /* u16 */
	CONNECT_INTEGRITY_AT = 104, /* u8, enum guard_mode */
	CONNECT_LATER_AT = 105,     /* 7 bytes: 0 */
	CONNECT_LENGTH = 112,       /* then padding */
};

_Static_assert((int)DATA_LENGTH + (int)PACKET_GUARD_MAX == (int)LANDING_HEAD, "payload lands behind the head");
_Static_assert((int)HEAD_COUNTER_AT == (int)PACKET_FRONT, "it is behind the front");
_Static_assert((int)RECORD_LENGTH_MAX + (int)PACKET_GUARD_MAX <= (int)PACKET_HEAD_MAX, "heads fit with a tag");
_Static_assert((int)CONNECT_LENGTH <= (int)PACKET_HEAD_MAX, "heads fit");

static bool record_has_imm(unsigned kind, unsigned flags)
{
	return kind != RECORD_EAGER || (flags & RECORD_IMM);
}

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

/* ---- Encode ------------------------------------------------------------------------------------- */

/* In each of these `rest` is where the frame would begin for what is behind the front, and the length is without a tag. */
static size_t encode_record(const struct packet *packet, uint8_t *head, uint8_t *rest)
{
	const struct record *record = &packet->message.record;
	bool args = record->length == RECORD_EXTERNAL && record->kind != RECORD_PIECE;
	uint8_t *at = rest + RECORD_TAG_AT;

	store_be32(head + RECORD_SEQUENCE_AT, packet->sequence);
	head[RECORD_KIND_AT] = record->kind;
	head[RECORD_FLAGS_AT] = (uint8_t)((record->flags & ~NATIVE_ARGS) | (args ? NATIVE_ARGS : 0));
	if (record->kind == RECORD_PIECE)
		return RECORD_PIECE_LENGTH;
	store_be64(at, record->tag);
	at += 8;
	if (record_has_imm(record->kind, record->flags)) {
		store_be64(at, record->imm);
		at += 8;
	}
	for (int i = 0; args && i < RECORD_ARGS; i++, at += 8)
		store_be64(at, record->arg[i]);
	return (size_t)(at - rest);
}

static size_t encode_pull(const struct packet *packet, uint8_t *head, uint8_t *rest)
{
	const struct packet_pull *pull = &packet->pull;

	store_be16(head + PULL_FRAME_AT, (uint16_t)pull->frame);
	store_be64(rest + PULL_WINDOW_AT, pull->window);
	place_store(rest + PULL_TRANSFER_AT, pull->transfer, pull->offset);
	store_be32(rest + PULL_BYTES_AT, pull->length);
	store_be64(rest + PULL_WANTED_AT, pull->wanted);
	return PULL_LENGTH;
}

static size_t encode_connect(const struct packet *packet, uint8_t *head)
{
	const struct packet_connect *connect = &packet->connect;

	store_be32(head + CONNECT_INDEX_AT, connect->index);
	store_be64(head + CONNECT_SESSION_AT, connect->session);
	store_be64(head + CONNECT_TARGET_AT, connect->target);
	store_be64(head + CONNECT_PROOF_AT, connect->proof);
	store_be64(head + CONNECT_HOST_AT, connect->host);
	store_be64(head + CONNECT_ENDPOINT_AT, connect->endpoint);
	memcpy(head + CONNECT_ADDRESS_AT, connect->network, PACKET_NETWORK);
	store_be32(head + CONNECT_NEXT_AT, connect->next);
	store_be16(head + CONNECT_SEEN_AT, connect->seen);
	store_be16(head + CONNECT_SIZE_AT, connect->size);
	store_be16(head + CONNECT_BULK_PORT_AT, connect->bulk_port);
	head[CONNECT_ATTEMPT_AT] = connect->attempt;
	head[CONNECT_STATUS_AT] = connect->status;
	memcpy(head + CONNECT_MAC_AT, connect->mac, sizeof(connect->mac));
	store_be16(head + CONNECT_ETHERTYPE_AT, connect->ethertype);
	head[CONNECT_INTEGRITY_AT] = connect->integrity;
	memset(head + CONNECT_LATER_AT, 0, CONNECT_LENGTH - CONNECT_LATER_AT);
	return CONNECT_LENGTH;
}

static size_t encode_body(const struct packet *packet, uint8_t *head, uint8_t *rest)
{
	switch (packet->type) {
	case PACKET_RECORD:
		return encode_record(packet, head, rest);
	case PACKET_DATA:
		place_store(head + DATA_TRANSFER_AT, packet->data.transfer, packet->data.offset);
		return DATA_LENGTH;
	case PACKET_ACK:
		store_be32(head + ACK_SEQUENCE_AT, packet->sequence);
		store_be64(rest + ACK_HELD_AT, packet->acked.held);
		return ACK_LENGTH;
	case PACKET_PULL:
		return encode_pull(packet, head, rest);
	case PACKET_NACK:
		head[NACK_REASON_AT] = packet->nack.reason;
		store_be64(head + NACK_TRANSFER_AT, packet->nack.transfer);
		store_be64(rest + NACK_PROOF_AT, packet->nack.proof);
		return NACK_LENGTH;
	case PACKET_CLOSE:
		store_be32(head + CLOSE_SEQUENCE_AT, packet->sequence);
		return CLOSE_LENGTH;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		return encode_connect(packet, head);
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
	length = encode_body(packet, head, head + guard);
	if (length == 0)
		return 0;
	length += guard;
	whole = length + (carries ? packet->length : 0);
	head[HEAD_TYPE_AT] = packet->type;
	head[HEAD_VERSION_AT] = NATIVE_VERSION;
	head[HEAD_SHORT_AT] = whole < NATIVE_SHORT ? (uint8_t)whole : 0;
	head[HEAD_FLAGS_AT] = packet->flags & (NATIVE_FLAGS & ~PACKET_CHECKSUM);
	if (!guard)
		head[HEAD_FLAGS_AT] &= (uint8_t)~(PACKET_TAGGED | PACKET_SEALED);
	store_be32(head + HEAD_TO_AT, packet->to);
	store_be64(head + HEAD_SESSION_AT, packet->type == PACKET_NACK ? packet->nack.refused : packet->session);
	if (type_acks(packet->type)) {
		store_be32(head + HEAD_ACK_AT, packet->ack);
		store_be16(head + HEAD_CREDIT_AT, packet->credit);
	}
	return length;
}

/* ---- Decode ------------------------------------------------------------------------------------- */

static void decode_payload(struct packet *packet, const uint8_t *frame, size_t head, size_t length)
{
	packet->payload = frame + head;
	packet->length = (uint32_t)(length - head);
}

/* In each of these `rest` is where the frame would begin for what is behind the front, and the length is without a tag. */
static int decode_record(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	struct record *record = &packet->message.record;
	const uint8_t *at = rest + RECORD_TAG_AT;
	bool args, imm;
	size_t head;

	if (length < RECORD_PIECE_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->sequence = load_be32(frame + RECORD_SEQUENCE_AT);
	record->kind = frame[RECORD_KIND_AT];
	record->flags = frame[RECORD_FLAGS_AT] & (uint8_t)~NATIVE_ARGS;
	args = frame[RECORD_FLAGS_AT] & NATIVE_ARGS;
	imm = record_has_imm(record->kind, record->flags);
	head = record->kind == RECORD_PIECE ? (size_t)RECORD_PIECE_LENGTH
					    : (size_t)(RECORD_TAG_AT + 8 + 8 * imm + 8 * RECORD_ARGS * args);
	if (record->kind == RECORD_NONE || record->kind >= RECORD_MESSAGE_KINDS || length < head ||
	    length - head >= RECORD_EXTERNAL || (record->kind == RECORD_PIECE && args))
		return THOLE_ERR_PROTOCOL;
	decode_payload(packet, rest, head, length);
	record->length = args ? (uint16_t)RECORD_EXTERNAL : (uint16_t)packet->length;
	if (record->kind == RECORD_PIECE)
		return 0;
	record->tag = load_be64(at);
	at += 8;
	if (imm) {
		record->imm = load_be64(at);
		at += 8;
	}
	if (args)
		record->bytes = packet->length;
	for (int i = 0; args && i < RECORD_ARGS; i++, at += 8)
		record->arg[i] = load_be64(at);
	return 0;
}

static int decode_pull(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	struct packet_pull *pull = &packet->pull;

	if (length < PULL_LENGTH)
		return THOLE_ERR_PROTOCOL;
	pull->frame = load_be16(frame + PULL_FRAME_AT);
	pull->window = load_be64(rest + PULL_WINDOW_AT);
	place_load(rest + PULL_TRANSFER_AT, &pull->transfer, &pull->offset);
	pull->length = load_be32(rest + PULL_BYTES_AT);
	pull->wanted = load_be64(rest + PULL_WANTED_AT);
	/* What follows computes with these: there are frames, few enough where each has a bit, and they end in a message of
	 * lawful length. */
	if (pull->frame == 0 || pull->length == 0 ||
	    (pull->wanted && pull->length > (uint64_t)pull->frame * PACKET_FRAMES_MAX) ||
	    pull->length > THOLE_LENGTH_MAX - pull->offset)
		return THOLE_ERR_PROTOCOL;
	return 0;
}

static int decode_data(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	if (length < DATA_LENGTH)
		return THOLE_ERR_PROTOCOL;
	place_load(frame + DATA_TRANSFER_AT, &packet->data.transfer, &packet->data.offset);
	if (length - DATA_LENGTH > THOLE_LENGTH_MAX - packet->data.offset)
		return THOLE_ERR_PROTOCOL;
	decode_payload(packet, rest, DATA_LENGTH, length);
	return 0;
}

static int decode_nack(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	if (length < NACK_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->nack.reason = frame[NACK_REASON_AT];
	packet->nack.transfer = load_be64(frame + NACK_TRANSFER_AT);
	packet->nack.refused = load_be64(frame + HEAD_SESSION_AT);
	packet->nack.proof = load_be64(rest + NACK_PROOF_AT);
	return packet->nack.reason == NACK_NONE || packet->nack.reason > NACK_BAD_WINDOW ? THOLE_ERR_PROTOCOL : 0;
}

static int decode_connect(struct packet *packet, const uint8_t *frame, size_t length)
{
	struct packet_connect *connect = &packet->connect;

	if (length < CONNECT_LENGTH)
		return THOLE_ERR_PROTOCOL;
	connect->index = load_be32(frame + CONNECT_INDEX_AT);
	connect->session = load_be64(frame + CONNECT_SESSION_AT);
	connect->target = load_be64(frame + CONNECT_TARGET_AT);
	connect->proof = load_be64(frame + CONNECT_PROOF_AT);
	connect->host = load_be64(frame + CONNECT_HOST_AT);
	connect->endpoint = load_be64(frame + CONNECT_ENDPOINT_AT);
	memcpy(connect->network, frame + CONNECT_ADDRESS_AT, PACKET_NETWORK);
	connect->next = load_be32(frame + CONNECT_NEXT_AT);
	connect->seen = load_be16(frame + CONNECT_SEEN_AT);
	connect->size = load_be16(frame + CONNECT_SIZE_AT);
	connect->bulk_port = load_be16(frame + CONNECT_BULK_PORT_AT);
	connect->attempt = frame[CONNECT_ATTEMPT_AT];
	connect->status = frame[CONNECT_STATUS_AT];
	memcpy(connect->mac, frame + CONNECT_MAC_AT, sizeof(connect->mac));
	connect->ethertype = load_be16(frame + CONNECT_ETHERTYPE_AT);
	connect->integrity = frame[CONNECT_INTEGRITY_AT];
	return 0;
}

static int decode_body(struct packet *packet, const uint8_t *frame, const uint8_t *rest, size_t length)
{
	switch (packet->type) {
	case PACKET_RECORD:
		return decode_record(packet, frame, rest, length);
	case PACKET_DATA:
		return decode_data(packet, frame, rest, length);
	case PACKET_ACK:
		if (length < ACK_LENGTH)
			return THOLE_ERR_PROTOCOL;
		packet->sequence = load_be32(frame + ACK_SEQUENCE_AT);
		packet->acked.held = load_be64(rest + ACK_HELD_AT);
		return 0;
	case PACKET_PULL:
		return decode_pull(packet, frame, rest, length);
	case PACKET_NACK:
		return decode_nack(packet, frame, rest, length);
	case PACKET_CLOSE:
		if (length < CLOSE_LENGTH)
			return THOLE_ERR_PROTOCOL;
		packet->sequence = load_be32(frame + CLOSE_SEQUENCE_AT);
		return 0;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		return decode_connect(packet, frame, length);
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

	return !(flags & ~(unsigned)NATIVE_FLAGS) && (guard == 0 || type_is_guarded(type)) &&
	       guard != (PACKET_TAGGED | PACKET_SEALED);
}

static int native_decode(struct packet *packet, const uint8_t *frame, size_t length)
{
	unsigned guard;
	int rc;

	*packet = (struct packet){0};
	if (length < HEAD_LENGTH || frame[HEAD_VERSION_AT] != NATIVE_VERSION || frame[HEAD_SHORT_AT] >= NATIVE_SHORT ||
	    !flags_are_lawful(frame[HEAD_TYPE_AT], frame[HEAD_FLAGS_AT]))
		return THOLE_ERR_PROTOCOL;
	length = native_length(frame, length);
	guard = packet_guard_bytes(frame[HEAD_FLAGS_AT]);
	if (length < PACKET_FRONT + guard)
		return THOLE_ERR_PROTOCOL;
	packet->type = frame[HEAD_TYPE_AT];
	packet->flags = frame[HEAD_FLAGS_AT];
	packet->to = load_be32(frame + HEAD_TO_AT);
	packet->session = load_be64(frame + HEAD_SESSION_AT);
	if (guard)
		packet->counter = load_be64(frame + HEAD_COUNTER_AT);
	rc = decode_body(packet, frame, frame + guard, length - guard);
	if (rc == 0 && type_acks(packet->type)) {
		packet->ack = load_be32(frame + HEAD_ACK_AT);
		packet->credit = load_be16(frame + HEAD_CREDIT_AT);
	}
	return rc;
}

/* ---- Frames that are encoded already -------------------------------------------------------------- */

static void native_restamp(uint8_t *frame, uint32_t ack, uint16_t credit, uint8_t flags)
{
	frame[HEAD_FLAGS_AT] = (uint8_t)((frame[HEAD_FLAGS_AT] & NATIVE_KEPT_FLAGS) |
					 (flags & NATIVE_FLAGS & ~NATIVE_KEPT_FLAGS));
	store_be32(frame + HEAD_ACK_AT, ack);
	store_be16(frame + HEAD_CREDIT_AT, credit);
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
	if (length < HEAD_LENGTH || *unset_p)
		return *unset_p;
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

const struct codec codec_native = {
	.name = "native",
	.sequence_bits = 32,
	.ahead_max = 256,
	.unacked_max = 256,
	.ack_every = 32,
	.ack_delay_ns = 100000,
	.fragment = 0,
	.fragments_max = 1,
	.eager_max = 64 << 10,
	.selective = true,
	.credited = true,
	.indexed = true,
	.data = 0,
	.block_frames = PACKET_FRAMES_MAX,
	.blocks_max = 0,
	.length_max = THOLE_LENGTH_MAX,
	.resend_ns = 0,
	.pull_ns = 0,
	.record_head = RECORD_LENGTH_MAX,
	.piece_head = RECORD_PIECE_LENGTH,
	.data_head = DATA_LENGTH,
	.nack = NACK_LENGTH,
	.encode = native_encode,
	.decode = native_decode,
	.restamp = native_restamp,
	.seal = native_seal,
	.intact = native_intact,
	.front = native_front,
	.type = native_type,
	.flags = native_flags,
	.unpadded = native_length,
};
