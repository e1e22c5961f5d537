/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both codecs: native against bytes written down by hand and against itself; mxoe against what real hosts wrote
 * (test/data/captures). Frames lie at the end of their memory, so that the sanitizers see a byte read too many.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "thole.h"
#include "transport/datagram/scatter.h"
#include "transport/datagram/wire/codec.h"

static const struct codec *const codecs[] = {&codec_native, &codec_mxoe, &codec_mxoe_jumbo};

enum { CODECS = sizeof(codecs) / sizeof(codecs[0]), FRAME_MAX = 9000 };

/* ---- Frames ------------------------------------------------------------------------------------- */

struct frame {
	uint8_t *bytes;
	size_t length;
};

static struct frame frame_copy(const void *bytes, size_t length)
{
	struct frame frame = {malloc(length ? length : 1), length};

	assert_non_null(frame.bytes);
	if (length)
		memcpy(frame.bytes, bytes, length);
	return frame;
}

/* A packet as its frame, with `padding` zeros behind. */
static struct frame frame_encode(const struct codec *codec, const struct packet *packet, size_t padding)
{
	static uint8_t bytes[PACKET_HEAD_MAX + FRAME_MAX + 64];
	size_t length;

	memset(bytes, 0xa5, sizeof(bytes));
	length = codec->encode(packet, bytes);
	assert_in_range(length, 1, PACKET_HEAD_MAX);
	for (size_t i = length; i < PACKET_HEAD_MAX; i++)
		assert_true(bytes[i] == 0xa5 || bytes[i] == 0); /* cleared perhaps, but not written */
	if (packet->payload)
		memcpy(bytes + length, packet->payload, packet->length);
	length += packet->payload ? packet->length : 0;
	memset(bytes + length, 0, padding);
	return frame_copy(bytes, length + padding);
}

static void frame_free(struct frame *frame)
{
	free(frame->bytes);
}

/* ---- Comparison --------------------------------------------------------------------------------- */

static void same_message(const struct packet *one, const struct packet *other)
{
	const struct packet_message *a = &one->message, *b = &other->message;

	assert_int_equal(a->record.kind, b->record.kind);
	assert_int_equal(a->record.flags, b->record.flags);
	assert_int_equal(a->record.tag, b->record.tag);
	assert_int_equal(a->record.imm, b->record.imm);
	assert_int_equal(a->record.length, b->record.length);
	if (a->record.length == RECORD_EXTERNAL) {
		assert_int_equal(a->record.bytes, b->record.bytes);
		assert_memory_equal(a->record.arg, b->record.arg, sizeof(a->record.arg));
	}
	assert_int_equal(a->total, b->total);
	assert_int_equal(a->fragment, b->fragment);
	assert_int_equal(a->fragment_log, b->fragment_log);
	assert_int_equal(a->medium, b->medium);
	assert_int_equal(a->checksum, b->checksum);
}

static void same_connect(const struct packet_connect *a, const struct packet_connect *b)
{
	assert_int_equal(a->host, b->host);
	assert_int_equal(a->endpoint, b->endpoint);
	assert_memory_equal(a->network, b->network, PACKET_NETWORK);
	assert_int_equal(a->target, b->target);
	assert_int_equal(a->session, b->session);
	assert_int_equal(a->echo, b->echo);
	assert_int_equal(a->proof, b->proof);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->next, b->next);
	assert_int_equal(a->seen, b->seen);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->bulk_port, b->bulk_port);
	assert_int_equal(a->ethertype, b->ethertype);
	assert_memory_equal(a->mac, b->mac, sizeof(a->mac));
	assert_int_equal(a->attempt, b->attempt);
	assert_int_equal(a->status, b->status);
}

static void same_pull(const struct packet_pull *a, const struct packet_pull *b)
{
	assert_int_equal(a->window, b->window);
	assert_int_equal(a->transfer, b->transfer);
	assert_int_equal(a->total, b->total);
	assert_int_equal(a->offset, b->offset);
	assert_int_equal(a->wanted, b->wanted);
	assert_int_equal(a->length, b->length);
	assert_int_equal(a->frame, b->frame);
	assert_int_equal(a->frame_index, b->frame_index);
	assert_int_equal(a->frame_offset, b->frame_offset);
}

static void same_rest(const struct packet *a, const struct packet *b)
{
	if (a->type == PACKET_DATA) {
		assert_int_equal(a->data.transfer, b->data.transfer);
		assert_int_equal(a->data.offset, b->data.offset);
		assert_int_equal(a->data.frame, b->data.frame);
	} else if (a->type == PACKET_NACK) {
		assert_int_equal(a->nack.reason, b->nack.reason);
		assert_int_equal(a->nack.driver, b->nack.driver);
		assert_int_equal(a->nack.transfer, b->nack.transfer);
		assert_int_equal(a->nack.refused, b->nack.refused);
		assert_int_equal(a->nack.proof, b->nack.proof);
		assert_int_equal(a->nack.index, b->nack.index);
	} else if (a->type == PACKET_ACK) {
		assert_int_equal(a->acked.held, b->acked.held);
		assert_int_equal(a->acked.number, b->acked.number);
		assert_int_equal(a->acked.send, b->acked.send);
		assert_int_equal(a->acked.session, b->acked.session);
		assert_int_equal(a->acked.resent, b->acked.resent);
	} else if (a->type >= PACKET_QUERY) {
		assert_int_equal(a->host.index, b->host.index);
		assert_int_equal(a->host.magic, b->host.magic);
		assert_int_equal(a->host.mac, b->host.mac);
		assert_int_equal(a->host.serial, b->host.serial);
		assert_int_equal(a->host.name_length, b->host.name_length);
		assert_memory_equal(a->host.name, b->host.name, PACKET_NAME_MAX);
	}
}

static void same(const struct packet *a, const struct packet *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->peer_index, b->peer_index);
	assert_int_equal(a->credit, b->credit);
	assert_int_equal(a->to, b->to);
	assert_int_equal(a->from, b->from);
	assert_int_equal(a->session, b->session);
	assert_int_equal(a->sequence, b->sequence);
	assert_int_equal(a->ack, b->ack);
	assert_int_equal(a->length, b->length);
	if (a->length)
		assert_memory_equal(a->payload, b->payload, a->length);
	if (a->type == PACKET_RECORD)
		same_message(a, b);
	else if (a->type == PACKET_CONNECT || a->type == PACKET_ACCEPT)
		same_connect(&a->connect, &b->connect);
	else if (a->type == PACKET_PULL)
		same_pull(&a->pull, &b->pull);
	else
		same_rest(a, b);
}

/* A packet becomes a frame and the frame that packet, padded or not. */
static void there_and_back(const struct codec *codec, const struct packet *packet, size_t padding)
{
	struct frame frame = frame_encode(codec, packet, padding);
	struct packet back;

	assert_int_equal(codec->decode(&back, frame.bytes, frame.length), 0);
	same(packet, &back);
	frame_free(&frame);
}

/* ---- Native packets ------------------------------------------------------------------------------- */

static uint8_t payload[FRAME_MAX];

/* A native packet of any type with any fields. */
static void native_front(struct packet *packet, uint8_t type, uint64_t *random)
{
	*packet = (struct packet){.type = type};
	packet->flags = (uint8_t)((random_below(random, 8) & ~(uint32_t)PACKET_CHECKSUM) |
				  (random_below(random, 2) ? PACKET_ASIDE : 0));
	if (type != PACKET_CONNECT && type != PACKET_ACCEPT)
		packet->flags |= (const uint8_t[]){0, PACKET_TAGGED, PACKET_SEALED}[random_below(random, 3)];
	packet->to = (uint32_t)random_next(random);
	packet->session = random_next(random);
	if (type == PACKET_RECORD || type == PACKET_ACK || type == PACKET_PULL || type == PACKET_CLOSE) {
		packet->ack = (uint32_t)random_next(random);
		packet->credit = (uint16_t)random_next(random);
	}
	if (type == PACKET_RECORD || type == PACKET_ACK)
		packet->sequence = (uint32_t)random_next(random);
	if (type == PACKET_RECORD || type == PACKET_DATA) {
		packet->payload = payload;
		packet->length = random_below(random, 2) ? random_below(random, 100)
							 : random_below(random, FRAME_MAX + 1);
	}
}

static void native_record(struct packet *packet, uint64_t *random)
{
	struct record *record = &packet->message.record;
	bool args = random_below(random, 2);

	record->kind = (uint8_t)(1 + random_below(random, RECORD_MESSAGE_KINDS - 1));
	record->flags = (uint8_t)random_below(random, 128);
	record->length = (uint16_t)packet->length;
	if (record->kind == RECORD_PIECE)
		return;
	record->tag = random_next(random);
	if (record->kind != RECORD_EAGER || (record->flags & RECORD_IMM))
		record->imm = random_next(random);
	if (!args)
		return;
	record->length = RECORD_EXTERNAL;
	record->bytes = packet->length;
	for (int i = 0; i < RECORD_ARGS; i++)
		record->arg[i] = random_next(random);
}

static void native_connect(struct packet_connect *connect, uint64_t *random)
{
	connect->host = random_next(random);
	connect->endpoint = random_next(random);
	connect->target = random_next(random);
	connect->session = random_next(random);
	connect->proof = random_next(random);
	connect->index = (uint32_t)random_next(random);
	connect->next = (uint32_t)random_next(random);
	connect->seen = (uint16_t)random_next(random);
	connect->size = (uint16_t)random_next(random);
	connect->bulk_port = (uint16_t)random_next(random);
	connect->ethertype = (uint16_t)random_next(random);
	connect->attempt = (uint8_t)random_next(random);
	connect->status = (uint8_t)random_next(random);
	for (int i = 0; i < PACKET_NETWORK; i++)
		connect->network[i] = (uint8_t)random_next(random);
	for (int i = 0; i < 6; i++)
		connect->mac[i] = (uint8_t)random_next(random);
}

static void native_pull(struct packet_pull *pull, uint64_t *random)
{
	pull->window = random_next(random);
	pull->transfer = random_next(random) >> (64 - PACKET_TRANSFER_BITS);
	pull->frame = 1 + random_below(random, UINT16_MAX);
	pull->wanted = random_below(random, 2) ? random_next(random) : 0;
	pull->length = 1 + random_below(random, pull->wanted ? pull->frame * PACKET_FRAMES_MAX : UINT32_MAX);
	pull->offset = random_next(random) % (THOLE_LENGTH_MAX - pull->length + 1);
}

static void native_packet(struct packet *packet, uint8_t type, uint64_t *random)
{
	native_front(packet, type, random);
	switch (type) {
	case PACKET_RECORD:
		native_record(packet, random);
		break;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		native_connect(&packet->connect, random);
		break;
	case PACKET_PULL:
		native_pull(&packet->pull, random);
		break;
	case PACKET_DATA:
		packet->data.transfer = random_next(random) >> (64 - PACKET_TRANSFER_BITS);
		packet->data.offset = random_next(random) % (THOLE_LENGTH_MAX - FRAME_MAX);
		break;
	case PACKET_NACK:
		packet->nack.reason = (uint8_t)(1 + random_below(random, NACK_BAD_WINDOW));
		packet->nack.transfer = random_next(random) >> (64 - PACKET_TRANSFER_BITS);
		packet->session = packet->nack.refused = random_next(random);
		packet->nack.proof = random_next(random);
		break;
	case PACKET_ACK:
		packet->acked.held = random_next(random);
		break;
	default:
		break;
	}
}

static int payload_fill(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (int i = 0; i < FRAME_MAX; i++)
		payload[i] = (uint8_t)(1 + random_below(&random, 255)); /* no zeros: padding would look like them */
	return 0;
}

/* ---- Native ------------------------------------------------------------------------------------- */

static void native__there_and_back(void **state)
{
	uint64_t random = 2;
	struct packet packet;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint8_t type = (uint8_t)(PACKET_CONNECT + random_below(&random, PACKET_CLOSE));

		native_packet(&packet, type, &random);
		there_and_back(&codec_native, &packet, 0);
	}
}

/* What is written of a piece by the one before is what it is by itself. Those that came as one are a run up to the
 * first that says something else, or another number or counter than the next. */
static void native__pieces_follow(void **state)
{
	static const uint8_t flags[] = {0, PACKET_TAGGED, PACKET_SEALED};
	static const unsigned other[] = {0, 1, 2, 3, 4, 15, 20, 23, 24, 28, 30, 31, 32, 39};
	uint64_t random = 5;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		unsigned guard = packet_guard_bytes(flags[i % 3]), wrong = 1 + random_below(&random, 4);
		uint8_t frames[5 * 1500], head[PACKET_HEAD_MAX];
		struct packet packet = {.type = PACKET_RECORD, .flags = flags[i % 3], .payload = payload};
		size_t size, length, all;

		packet.to = (uint32_t)random_next(&random);
		packet.session = random_next(&random);
		packet.sequence = (uint32_t)random_next(&random);
		packet.ack = (uint32_t)random_next(&random);
		packet.credit = (uint16_t)random_next(&random);
		packet.length = 64 + random_below(&random, 1000);
		packet.message.record.kind = RECORD_PIECE;
		memset(frames, 0, sizeof(frames));
		size = codec_native.encode(&packet, frames);
		length = size + packet.length;
		for (unsigned k = 1; k < 5; k++) {
			uint8_t *frame = frames + k * length;

			packet.sequence++;
			assert_int_equal(codec_native.encode(&packet, head), size);
			codec_native.encode_next(frame, frame - length, size, packet.sequence);
			assert_memory_equal(frame, head, size);
		}
		for (unsigned k = 1; guard && k < 5; k++)
			store_be64(frames + k * length + PACKET_FRONT, k);
		all = 5 * length - random_below(&random, 20);
		assert_int_equal(codec_native.run(frames, length, all, 40), 4);
		assert_int_equal(codec_native.run(frames, length, 4 * length + size + 40, 40), 3);
		assert_int_equal(codec_native.run(frames, length, 2 * length, 40), 1);
		assert_int_equal(codec_native.run(frames, length, length, 40), 0);
		frames[wrong * length + other[random_below(&random, guard ? 14 : 12)]] ^=
			(uint8_t)(1 + random_below(&random, 255));
		assert_int_equal(codec_native.run(frames, length, all, 40), wrong - 1);
	}
}

/* The second of two frames, of which the first is there: written by that one, and read by it, as it is by itself. A
 * shorter one than any may be is not. */
static void follows(uint8_t frames[2][1500], const struct packet *second, size_t size, uint64_t number, size_t length,
		    struct packet *back, struct packet *decoded)
{
	uint8_t head[PACKET_HEAD_MAX];

	assert_int_equal(codec_native.encode(second, head), size);
	codec_native.encode_next(frames[1], frames[0], size, number);
	assert_memory_equal(frames[1], head, size);
	assert_int_equal(codec_native.decode(back, frames[0], size + second->length), 0);
	assert_true(codec_native.decode_next(back, frames[0], frames[1], length));
	assert_int_equal(codec_native.decode(decoded, frames[1], length), 0);
	same(decoded, back);
	assert_false(codec_native.decode_next(back, frames[0], frames[1], 63));
}

/* What is written, and read, of DATA by the frame before is what it is by itself: its offset is the number; another
 * transfer, or one that ends beyond all messages, is none. */
static void native__data_follow(void **state)
{
	static const uint8_t flags[] = {0, PACKET_TAGGED, PACKET_SEALED};
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		uint8_t frames[2][1500];
		struct packet packet = {.type = PACKET_DATA, .flags = flags[i % 3], .payload = payload}, back, decoded;
		size_t size, length;

		packet.to = (uint32_t)random_next(&random);
		packet.session = random_next(&random);
		packet.data.transfer = random_next(&random) >> (64 - PACKET_TRANSFER_BITS);
		packet.data.offset = random_next(&random) % (THOLE_LENGTH_MAX - 4096);
		packet.length = 64 + random_below(&random, 1000);
		memset(frames, 0, sizeof(frames));
		size = codec_native.encode(&packet, frames[0]);
		packet.data.offset += packet.length;
		length = size + packet.length - random_below(&random, 30);
		follows(frames, &packet, size, packet.data.offset, length, &back, &decoded);
		codec_native.encode_next(frames[1], frames[0], size, THOLE_LENGTH_MAX - 1);
		assert_false(codec_native.decode_next(&back, frames[0], frames[1], length));
		same(&decoded, &back);
		packet.data.transfer ^= UINT64_C(1) << random_below(&random, PACKET_TRANSFER_BITS);
		codec_native.encode(&packet, frames[1]);
		assert_false(codec_native.decode_next(&back, frames[0], frames[1], length));
		same(&decoded, &back);
	}
}

/* A network card pads to 60 bytes; that is no payload, whatever the type and length. */
static void native__padded(void **state)
{
	uint64_t random = 3;
	struct packet packet;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint8_t type = (uint8_t)(PACKET_CONNECT + random_below(&random, PACKET_CLOSE));
		struct frame frame;
		struct packet back;
		size_t length;
		bool unset;

		native_packet(&packet, type, &random);
		if (packet.payload)
			packet.length = random_below(&random, 30);
		if (type == PACKET_RECORD && packet.message.record.length != RECORD_EXTERNAL)
			packet.message.record.length = (uint16_t)packet.length;
		if (type == PACKET_RECORD && packet.message.record.length == RECORD_EXTERNAL)
			packet.message.record.bytes = packet.length;
		frame = frame_encode(&codec_native, &packet, 0);
		length = frame.length;
		frame_free(&frame);
		frame = frame_encode(&codec_native, &packet, length < 46 ? 46 - length : 0);
		codec_native.seal(frame.bytes, length, NULL, 0);
		assert_true(codec_native.intact(frame.bytes, frame.length, &unset));
		assert_false(unset);
		assert_int_equal(codec_native.decode(&back, frame.bytes, frame.length), 0);
		packet.flags |= PACKET_CHECKSUM;
		same(&packet, &back);
		frame_free(&frame);
	}
}

/* CONNECT is padded to find out what fits. */
static void native__connect_padded(void **state)
{
	uint64_t random = 4;
	struct packet packet;

	(void)state;
	for (size_t padding = 0; padding < 64; padding++) {
		native_packet(&packet, PACKET_CONNECT, &random);
		there_and_back(&codec_native, &packet, padding);
	}
}

/* The bytes of docs/PROTOCOL.md, so that a change of both directions at once is seen. */
static void native__bytes(void **state)
{
	static const uint8_t eager[] = {
		3, 3, 42, 4, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0, 0, 0, 0,
		0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 0x51, 0x52, 1, 2,
		0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 'h', 'i',
	};
	static const uint8_t pull[] = {
		5, 3, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0, 0, 0, 0,
		0, 0, 0, 0, 0x41, 0x42, 0x43, 0x44, 0x51, 0x52, 0x05, 0xa0,
		1, 2, 3, 4, 5, 6, 7, 8, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x12,
		0x34, 0x56, 0x78, 0x9a, 0, 0, 0x16, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x0f,
	};
	static const uint8_t tagged[] = { /* room for a counter and a tag, behind the front */
		4, 3, 56, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0, 0, 0, 0,
		0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 0x51, 0x52, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88,
	};
	struct packet packet = {.type = PACKET_RECORD, .flags = PACKET_ANSWER, .to = 0x11121314,
				.session = UINT64_C(0x2122232425262728), .sequence = 0x31323334, .ack = 0x41424344,
				.credit = 0x5152, .payload = (const uint8_t *)"hi", .length = 2,
				.message.record = {.kind = RECORD_EAGER, .flags = RECORD_PLAIN, .length = 2,
						   .tag = UINT64_C(0x6162636465666768)}};
	struct frame frame = frame_encode(&codec_native, &packet, 0);

	(void)state;
	assert_int_equal(frame.length, sizeof(eager));
	assert_memory_equal(frame.bytes, eager, sizeof(eager));
	frame_free(&frame);
	packet.type = PACKET_PULL;
	packet.flags = 0;
	packet.length = 0;
	packet.pull = (struct packet_pull){.window = UINT64_C(0x0102030405060708),
					   .transfer = UINT64_C(0x71727374757677),
					   .frame = 1440,
					   .length = 5760,
					   .offset = UINT64_C(0x123456789a),
					   .wanted = 0xf};
	frame = frame_encode(&codec_native, &packet, 0);
	assert_int_equal(frame.length, sizeof(pull));
	assert_memory_equal(frame.bytes, pull, sizeof(pull));
	frame_free(&frame);
	packet.type = PACKET_ACK;
	packet.flags = PACKET_TAGGED;
	packet.acked = (struct packet_ack){.held = UINT64_C(0x8182838485868788)};
	frame = frame_encode(&codec_native, &packet, 0);
	assert_int_equal(frame.length, sizeof(tagged));
	assert_memory_equal(frame.bytes, tagged, sizeof(tagged));
	frame_free(&frame);
}

/* Heads are as long as the layout says: it is a promise between versions. */
static void native__lengths(void **state)
{
	static const struct {
		uint8_t type;
		size_t length;
	} known[] = {{PACKET_ACK, 40},   {PACKET_PULL, 64},  {PACKET_DATA, 32},   {PACKET_NACK, 40},
		     {PACKET_CLOSE, 32}, {PACKET_CONNECT, 112}, {PACKET_ACCEPT, 112}};
	struct packet packet = {.type = PACKET_RECORD};
	uint8_t head[PACKET_HEAD_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		packet = (struct packet){.type = known[i].type};
		assert_int_equal(codec_native.encode(&packet, head), known[i].length);
		packet.flags = PACKET_TAGGED;
		assert_int_equal(codec_native.encode(&packet, head),
				 known[i].length + (known[i].length < 112 ? 16 : 0));
		packet.flags = PACKET_SEALED;
		assert_int_equal(codec_native.encode(&packet, head),
				 known[i].length + (known[i].length < 112 ? 24 : 0));
	}
	packet = (struct packet){.type = PACKET_RECORD, .message.record = {.kind = RECORD_EAGER}};
	assert_int_equal(codec_native.encode(&packet, head), 40);
	packet.message.record.flags = RECORD_IMM;
	assert_int_equal(codec_native.encode(&packet, head), 48);
	packet.message.record.length = RECORD_EXTERNAL;
	assert_int_equal(codec_native.encode(&packet, head), codec_native.record_head);
	packet.message.record.kind = RECORD_PIECE;
	assert_int_equal(codec_native.encode(&packet, head), codec_native.piece_head);
	assert_int_equal(codec_native.data_head + PACKET_GUARD_MAX, SCATTER_HEAD);
	for (unsigned type = 0; type < 256; type++) {
		packet = (struct packet){.type = (uint8_t)type};
		if (type == PACKET_NONE || type > PACKET_CLOSE)
			assert_int_equal(codec_native.encode(&packet, head), 0);
	}
}

/* A frame that ends early is refused where the head ends early, and the payload is shorter where that does. */
static void native__cut(void **state)
{
	uint64_t random = 5;
	struct packet packet, back;

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct frame frame;
		size_t head;

		native_packet(&packet, (uint8_t)(PACKET_CONNECT + i % PACKET_CLOSE), &random);
		if (packet.payload)
			packet.length = 100 + packet.length % 100;
		if (packet.type == PACKET_RECORD && packet.message.record.length != RECORD_EXTERNAL)
			packet.message.record.length = (uint16_t)packet.length;
		frame = frame_encode(&codec_native, &packet, 0);
		head = frame.length - packet.length;
		for (size_t length = 0; length < frame.length; length++) {
			struct frame cut = frame_copy(frame.bytes, length);
			bool unset;

			codec_native.intact(cut.bytes, cut.length, &unset);
			if (length < head) {
				assert_int_equal(codec_native.decode(&back, cut.bytes, cut.length), THOLE_ERR_PROTOCOL);
			} else {
				assert_int_equal(codec_native.decode(&back, cut.bytes, cut.length), 0);
				assert_int_equal(back.length, length - head);
			}
			frame_free(&cut);
		}
		frame_free(&frame);
	}
}

static void refused(const struct codec *codec, struct frame *frame, size_t at, uint8_t value)
{
	struct packet packet;
	uint8_t before = frame->bytes[at];

	frame->bytes[at] = value;
	assert_int_equal(codec->decode(&packet, frame->bytes, frame->length), THOLE_ERR_PROTOCOL);
	frame->bytes[at] = before;
	assert_int_equal(codec->decode(&packet, frame->bytes, frame->length), 0);
}

static void refused_at_all(const struct codec *codec, const struct packet *packet)
{
	struct frame frame = frame_encode(codec, packet, 0);
	struct packet back;

	assert_int_equal(codec->decode(&back, frame.bytes, frame.length), THOLE_ERR_PROTOCOL);
	frame_free(&frame);
}

/* What no correct peer writes. */
static void native__refused(void **state)
{
	uint64_t random = 6;
	struct packet packet;
	struct frame frame;

	(void)state;
	native_packet(&packet, PACKET_CONNECT, &random);
	frame = frame_encode(&codec_native, &packet, 0);
	refused(&codec_native, &frame, 0, PACKET_NONE);
	for (unsigned type = PACKET_QUERY; type < 256; type++)
		refused(&codec_native, &frame, 0, (uint8_t)type);
	for (unsigned version = 0; version < 256; version++)
		if (version != 3)
			refused(&codec_native, &frame, 1, (uint8_t)version);
	for (unsigned flags = PACKET_TAGGED; flags < 256; flags++)
		if (flags & ~(unsigned)(PACKET_ASIDE | PACKET_ANSWER | PACKET_BACKPRESSURE | PACKET_CHECKSUM))
			refused(&codec_native, &frame, 3, (uint8_t)flags);
	refused(&codec_native, &frame, 2, 111); /* says that it is shorter than a CONNECT */
	refused(&codec_native, &frame, 2, 1);
	frame_free(&frame);

	native_packet(&packet, PACKET_NACK, &random);
	frame = frame_encode(&codec_native, &packet, 0);
	refused(&codec_native, &frame, 20, NACK_NONE);
	refused(&codec_native, &frame, 20, NACK_BAD_WINDOW + 1);
	frame_free(&frame);

	packet = (struct packet){.type = PACKET_RECORD, .message.record = {.kind = RECORD_PIECE}};
	packet.payload = payload;
	packet.length = 90;
	frame = frame_encode(&codec_native, &packet, 0);
	for (unsigned kind = RECORD_MESSAGE_KINDS; kind < 256; kind++)
		refused(&codec_native, &frame, 30, (uint8_t)kind);
	refused(&codec_native, &frame, 30, RECORD_NONE);
	refused(&codec_native, &frame, 31, 0x80); /* a piece with args */
	frame_free(&frame);
}

/* Pulls without frames, of more than there are bits for, without bytes, or beyond the longest message; data beyond
 * it. */
static void native__bounds(void **state)
{
	static const struct packet_pull pulls[] = {
		{.frame = 0, .length = 100},
		{.frame = 1000, .length = 0},
		{.frame = 1000, .length = 1000 * PACKET_FRAMES_MAX + 1, .wanted = 1},
		{.frame = 1000, .length = 100, .offset = THOLE_LENGTH_MAX - 99},
		{.frame = 1000, .length = 100, .offset = THOLE_LENGTH_MAX - 1},
	};
	struct packet packet = {.type = PACKET_PULL};

	(void)state;
	for (size_t i = 0; i < sizeof(pulls) / sizeof(pulls[0]); i++) {
		packet.pull = pulls[i];
		refused_at_all(&codec_native, &packet);
	}
	packet.pull = (struct packet_pull){.frame = 1000, .length = 1000 * PACKET_FRAMES_MAX, .wanted = 1,
					   .offset = THOLE_LENGTH_MAX - 1000 * PACKET_FRAMES_MAX};
	there_and_back(&codec_native, &packet, 0);
	packet.pull = (struct packet_pull){.frame = 1, .length = UINT32_MAX, .offset = THOLE_LENGTH_MAX - UINT32_MAX};
	there_and_back(&codec_native, &packet, 0);
	packet = (struct packet){.type = PACKET_DATA, .payload = payload, .length = 100};
	packet.data.offset = THOLE_LENGTH_MAX - 100;
	there_and_back(&codec_native, &packet, 0);
	packet.data.offset++;
	refused_at_all(&codec_native, &packet);
}

static void native__sealed(void **state)
{
	uint64_t random = 7;
	struct packet packet, back;
	struct iovec parts[2] = {{payload, 33}, {payload + 33, 67}};
	struct frame frame, split;
	bool unset;

	(void)state;
	native_packet(&packet, PACKET_DATA, &random);
	packet.flags = PACKET_BACKPRESSURE | PACKET_SEALED;
	packet.length = 100;
	frame = frame_encode(&codec_native, &packet, 0);
	split = frame_encode(&codec_native, &packet, 0);
	assert_true(codec_native.intact(frame.bytes, frame.length, &unset));
	assert_true(unset);
	codec_native.seal(frame.bytes, frame.length, NULL, 0);
	codec_native.seal(split.bytes, SCATTER_HEAD, parts, 2);
	assert_memory_equal(frame.bytes, split.bytes, frame.length);
	assert_true(codec_native.intact(frame.bytes, frame.length, &unset));
	assert_false(unset);
	assert_int_equal(codec_native.decode(&back, frame.bytes, frame.length), 0);
	assert_int_equal(back.flags, PACKET_BACKPRESSURE | PACKET_SEALED | PACKET_CHECKSUM);
	for (size_t bit = 0; bit < 8 * frame.length; bit++) {
		bool intact;

		frame.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		intact = codec_native.intact(frame.bytes, frame.length, &unset);
		assert_true(!intact || unset);
		assert_int_equal(unset, bit == 8 * 3); /* the flag itself */
		frame.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t length = 0; length < frame.length; length++)
		assert_false(codec_native.intact(frame.bytes, length, &unset));
	frame_free(&frame);
	frame_free(&split);
}

static void native__restamped(void **state)
{
	uint64_t random = 8;
	struct packet packet, back;
	struct frame frame;
	bool unset;

	(void)state;
	native_packet(&packet, PACKET_RECORD, &random);
	packet.flags = PACKET_TAGGED;
	frame = frame_encode(&codec_native, &packet, 0);
	codec_native.seal(frame.bytes, frame.length, NULL, 0);
	codec_native.restamp(frame.bytes, 1, frame.length, 0xfffffffe, 77, PACKET_ANSWER);
	assert_false(codec_native.intact(frame.bytes, frame.length, &unset));
	codec_native.seal(frame.bytes, frame.length, NULL, 0);
	assert_true(codec_native.intact(frame.bytes, frame.length, &unset));
	assert_int_equal(codec_native.decode(&back, frame.bytes, frame.length), 0);
	packet.ack = 0xfffffffe;
	packet.credit = 77;
	/* the flags are those given, and what the frame has */
	packet.flags = PACKET_ANSWER | PACKET_TAGGED | PACKET_CHECKSUM;
	same(&packet, &back);
	frame_free(&frame);
}

/* ---- mxoe, by what real hosts wrote ---------------------------------------------------------------- */

static const struct codec *codec_of(const struct capture *capture)
{
	return capture->jumbo ? &codec_mxoe_jumbo : &codec_mxoe;
}

static void load(struct capture *capture, unsigned which)
{
	if (!capture_load(capture, &capture_files[which], TEST_DATA "/captures"))
		fail_msg("%s: no capture", capture_files[which].name);
}

static bool zeros(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Frame 171 of the probes: 33 bytes in a class that ends at 32, and fewer in the frame. Open-MX drops it as well. */
static bool is_unlawful(const struct capture *capture, const struct capture_frame *frame)
{
	return capture->seed == 4 && frame->number == 171;
}

static void captures__there_and_back(void **state)
{
	unsigned types[PACKET_TYPES] = {0}, frames = 0;

	(void)state;
	for (unsigned which = 0; which < CAPTURE_FILES; which++) {
		struct capture capture;

		load(&capture, which);
		for (unsigned i = 0; i < capture.count; i++) {
			const struct capture_frame *caught = &capture.frames[i];
			struct frame frame = frame_copy(caught->bytes + CAPTURE_ETHERNET,
							caught->length - CAPTURE_ETHERNET), again;
			struct packet packet, back;
			int rc = codec_of(&capture)->decode(&packet, frame.bytes, frame.length);

			if (is_unlawful(&capture, caught)) {
				assert_int_equal(rc, THOLE_ERR_PROTOCOL);
				frame_free(&frame);
				continue;
			}
			if (rc != 0)
				fail_msg("%s frame %u is refused", capture_files[which].name, caught->number);
			again = frame_encode(codec_of(&capture), &packet, 0);
			if (again.length > frame.length || memcmp(again.bytes, frame.bytes, again.length) != 0 ||
			    !zeros(frame.bytes + again.length, frame.length - again.length))
				fail_msg("%s frame %u differs", capture_files[which].name, caught->number);
			/* Padding is what Ethernet asks for, but a host's reply is longer than that by its name. */
			if (packet.type == PACKET_REPLY)
				assert_int_equal(frame.length, 46 + packet.host.name_length);
			else
				assert_true(frame.length == again.length || frame.length == 46);
			assert_int_equal(codec_of(&capture)->decode(&back, again.bytes, again.length), 0);
			same(&packet, &back);
			types[packet.type]++;
			frames++;
			frame_free(&frame);
			frame_free(&again);
		}
		capture_free(&capture);
	}
	assert_int_equal(frames, 1939);
	for (unsigned type = PACKET_CONNECT; type < PACKET_TYPES; type++)
		if (type != PACKET_CLOSE)
			assert_true(types[type] > 0);
}

/* Payloads are what the captures' rule says, in messages that their match information names. */
static void captures__payloads(void **state)
{
	(void)state;
	for (unsigned which = 0; which < CAPTURE_FILES; which++) {
		struct capture capture;

		load(&capture, which);
		for (unsigned i = 0; i < capture.count; i++) {
			const struct capture_frame *caught = &capture.frames[i];
			const struct codec *codec = codec_of(&capture);
			struct packet packet;
			uint32_t message, offset;

			if (codec->decode(&packet, caught->bytes + CAPTURE_ETHERNET,
					  caught->length - CAPTURE_ETHERNET) != 0)
				continue;
			if (packet.type != PACKET_RECORD || packet.message.record.tag >> 48 != 0xc0de || !packet.length)
				continue;
			message = capture_message(packet.message.record.tag);
			offset = packet.message.fragment * codec->fragment;
			if (message == 0) /* the first one tells the hosts' programs what to do */
				continue;
			for (uint32_t k = 0; k < packet.length; k++)
				assert_int_equal(packet.payload[k], capture_byte(capture.seed, message, offset + k));
		}
		capture_free(&capture);
	}
}

static void caught_decode(const struct capture *capture, unsigned number, struct packet *packet)
{
	const struct capture_frame *frame = &capture->frames[number - 1];

	assert_int_equal(codec_of(capture)->decode(packet, frame->bytes + CAPTURE_ETHERNET,
						   frame->length - CAPTURE_ETHERNET), 0);
}

/* Every field of one frame of each type, as read off the bytes by hand. */
static void captures__fields(void **state)
{
	struct capture capture;
	struct packet packet;
	struct window window;

	(void)state;
	load(&capture, 1);
	caught_decode(&capture, 1, &packet);
	assert_int_equal(packet.type, PACKET_HELLO);
	assert_int_equal(packet.host.mac, UINT64_C(0x525400123401));
	assert_int_equal(packet.host.serial, 0x232b829e);
	caught_decode(&capture, 3, &packet);
	assert_int_equal(packet.type, PACKET_QUERY);
	assert_int_equal(packet.host.index, 3);
	assert_int_equal(packet.host.magic, 0x13052008);
	caught_decode(&capture, 5, &packet);
	assert_int_equal(packet.type, PACKET_REPLY);
	assert_int_equal(packet.host.index, 2);
	assert_int_equal(packet.host.name_length, 7);
	assert_memory_equal(packet.host.name, "omx1:0\0", 7);
	caught_decode(&capture, 11, &packet);
	assert_int_equal(packet.type, PACKET_CONNECT);
	assert_int_equal(packet.peer_index, 3);
	assert_int_equal(packet.to, 9);
	assert_int_equal(packet.from, 2);
	assert_int_equal(packet.connect.index, 2);
	assert_int_equal(packet.connect.session, 0x2f14ab0b);
	assert_int_equal(packet.connect.proof, 0x0c0ffee5);
	assert_int_equal(packet.connect.next, 1);
	caught_decode(&capture, 12, &packet);
	assert_int_equal(packet.type, PACKET_NACK);
	assert_int_equal(packet.nack.reason, NACK_CLOSED);
	assert_int_equal(packet.from, 9);
	assert_int_equal(packet.to, 2);
	assert_int_equal(packet.nack.index, 2);
	assert_false(packet.nack.driver);
	caught_decode(&capture, 16, &packet);
	assert_int_equal(packet.type, PACKET_ACCEPT);
	assert_int_equal(packet.connect.echo, 0x2f14ab0b);
	assert_int_equal(packet.connect.session, 0xe61cf7a1);
	assert_int_equal(packet.connect.status, CONNECT_BAD_KEY);
	caught_decode(&capture, 17, &packet);
	assert_int_equal(packet.connect.attempt, 1);
	caught_decode(&capture, 41, &packet);
	assert_int_equal(packet.type, PACKET_RECORD);
	assert_int_equal(packet.message.record.kind, RECORD_EAGER);
	assert_int_equal(packet.message.record.tag, UINT64_C(0xc0de001400000020));
	assert_int_equal(packet.message.record.length, 32);
	assert_int_equal(packet.message.checksum, 0xffff);
	assert_int_equal(packet.sequence, 10);
	assert_int_equal(packet.ack, 12);
	assert_int_equal(packet.session, 0x2f14ab0b);
	caught_decode(&capture, 78, &packet);
	assert_int_equal(packet.message.record.kind, RECORD_EAGER);
	assert_int_equal(packet.message.record.flags, RECORD_MORE);
	assert_int_equal(packet.message.record.length, RECORD_EXTERNAL);
	assert_int_equal(packet.message.record.arg[0], 20000);
	assert_int_equal(packet.message.total, 20000);
	assert_int_equal(packet.message.fragment_log, 12);
	assert_int_equal(packet.length, 4096);
	caught_decode(&capture, 79, &packet);
	assert_int_equal(packet.message.record.kind, RECORD_PIECE);
	assert_int_equal(packet.message.record.length, 4096);
	assert_int_equal(packet.message.fragment, 1);
	assert_true(packet.message.medium);
	caught_decode(&capture, 120, &packet);
	assert_int_equal(packet.type, PACKET_PULL);
	assert_int_equal(packet.pull.total, 32769);
	assert_int_equal(packet.pull.window, 23 << 8);
	assert_int_equal(packet.pull.transfer, UINT64_C(0x0000002321071982));
	assert_int_equal(packet.pull.frame_index, 8);
	assert_int_equal(packet.pull.length, 1);
	assert_int_equal(packet.pull.offset, 32768);
	caught_decode(&capture, 129, &packet);
	assert_int_equal(packet.type, PACKET_DATA);
	assert_int_equal(packet.data.frame, 8);
	assert_int_equal(packet.data.offset, 32768);
	assert_int_equal(packet.data.transfer, UINT64_C(0x0000002321071982));
	assert_int_equal(packet.length, 1);
	caught_decode(&capture, 130, &packet);
	assert_int_equal(packet.message.record.kind, RECORD_FINISH);
	assert_int_equal(packet.message.record.tag, 23 << 8);
	assert_int_equal(packet.message.total, 32769);
	assert_int_equal(packet.sequence, 0x20);
	assert_int_equal(packet.ack, 0x20);
	caught_decode(&capture, 132, &packet);
	assert_int_equal(packet.message.record.kind, RECORD_RTS);
	window_load(&window, &packet.message.record);
	assert_int_equal(window.length, 65536);
	assert_int_equal(window.id, 24 << 8);
	caught_decode(&capture, 556, &packet);
	assert_int_equal(packet.type, PACKET_NACK);
	assert_true(packet.nack.driver);
	assert_int_equal(packet.nack.reason, NACK_CLOSED);
	assert_int_equal(packet.to, 1);
	assert_int_equal(packet.nack.transfer, UINT64_C(0x01c0002321071981));
	capture_free(&capture);
	load(&capture, 4);
	caught_decode(&capture, 40, &packet);
	assert_int_equal(packet.type, PACKET_ACK);
	assert_int_equal(packet.session, 0x4991fefd);
	assert_int_equal(packet.ack, 5);
	assert_int_equal(packet.acked.number, 1);
	assert_int_equal(packet.acked.send, 5);
	assert_int_equal(packet.acked.session, 0x4991fefd);
	capture_free(&capture);
	load(&capture, 3);
	caught_decode(&capture, 172, &packet);
	assert_int_equal(packet.pull.window, 85 | 24 << 8);
	assert_int_equal(packet.pull.length, 65536);
	assert_int_equal(packet.pull.transfer, UINT64_C(0x0000777721071981));
	capture_free(&capture);
}

/* A frame that is cut anywhere before its last byte of meaning is refused, and nothing is read behind it. */
static void captures__cut(void **state)
{
	struct capture capture;

	(void)state;
	for (unsigned which = 0; which < 2; which++) {
		load(&capture, which);
		for (unsigned i = 0; i < capture.count; i++) {
			const struct codec *codec = codec_of(&capture);
			const uint8_t *bytes = capture.frames[i].bytes + CAPTURE_ETHERNET;
			size_t whole = capture.frames[i].length - CAPTURE_ETHERNET, means;
			struct packet packet;
			uint8_t head[PACKET_HEAD_MAX];

			assert_int_equal(codec->decode(&packet, bytes, whole), 0);
			means = codec->encode(&packet, head) + packet.length;
			if (packet.type == PACKET_HELLO)
				means = 2 + 28; /* nothing follows its serial number */
			for (size_t length = 0; length < means; length += 1 + length / 64) {
				struct frame cut = frame_copy(bytes, length);

				assert_int_equal(codec->decode(&packet, cut.bytes, cut.length), THOLE_ERR_PROTOCOL);
				frame_free(&cut);
			}
		}
		capture_free(&capture);
	}
}

/* Sent again, a message has the acknowledgement of now. */
static void captures__restamped(void **state)
{
	struct capture capture;
	unsigned stamped = 0;

	(void)state;
	for (unsigned which = 0; which < 2; which++) {
		load(&capture, which);
		for (unsigned i = 0; i < capture.count; i++) {
			const struct codec *codec = codec_of(&capture);
			uint8_t *bytes = capture.frames[i].bytes + CAPTURE_ETHERNET;
			size_t length = capture.frames[i].length - CAPTURE_ETHERNET;
			struct packet packet, back;

			assert_int_equal(codec->decode(&packet, bytes, length), 0);
			codec->restamp(bytes, 1, 0, 0x1234, 9, 0);
			assert_int_equal(codec->decode(&back, bytes, length), 0);
			if (packet.type == PACKET_RECORD) {
				assert_int_equal(back.ack, 0x1234);
				packet.ack = back.ack;
				stamped++;
			}
			same(&packet, &back);
		}
		capture_free(&capture);
	}
	assert_true(stamped > 200);
}

/* ---- mxoe, by its bounds ------------------------------------------------------------------------- */

static const struct codec *const modes[] = {&codec_mxoe, &codec_mxoe_jumbo};

/* The class of a message follows from its length. */
static void mxoe__classes(void **state)
{
	static const struct {
		uint32_t length;
		uint8_t type;
		size_t head;
	} known[] = {{0, 37, 26}, {32, 37, 26}, {33, 38, 26}, {128, 38, 26}, {129, 39, 34}, {4096, 39, 34}};
	struct packet packet = {.type = PACKET_RECORD, .message.record = {.kind = RECORD_EAGER, .tag = 5}};
	uint8_t head[PACKET_HEAD_MAX];

	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			packet.length = known[i].length;
			assert_int_equal(modes[mode]->encode(&packet, head), known[i].head);
			assert_int_equal(head[2], known[i].type);
		}
		packet.length = modes[mode]->fragment + 1;
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
		packet.length = 1;
		packet.message.medium = true;
		assert_int_equal(modes[mode]->encode(&packet, head), 34);
		assert_int_equal(head[2], 39);
		packet.message.medium = false;
		packet.message.total = modes[mode]->eager_max + 1;
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
		packet.message.total = 0;
	}
}

/* A message of every class in all its fragments. */
static void mxoe__fragments(void **state)
{
	static const uint32_t totals[] = {0, 1, 4095, 4096, 4097, 8192, 8193, 20000, 32767, 32768};

	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		const struct codec *codec = modes[mode];

		for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
			uint32_t offset = 0, fragment = 0;

			do {
				struct packet packet = {.type = PACKET_RECORD, .to = 3, .from = 4, .peer_index = 5,
							.session = 6, .sequence = 0xc007, .ack = 0x8008};
				struct packet_message *message = &packet.message;
				uint32_t left = totals[i] - offset;

				packet.length = left < codec->fragment ? left : codec->fragment;
				packet.payload = payload;
				*message = (struct packet_message){.medium = true, .total = totals[i],
								   .fragment = (uint8_t)fragment,
								   .fragment_log = codec == &codec_mxoe ? 12 : 0};
				message->record.kind = fragment ? RECORD_PIECE : RECORD_EAGER;
				message->record.tag = 99;
				message->record.length = (uint16_t)packet.length;
				if (fragment == 0 && packet.length < totals[i]) {
					message->record.length = RECORD_EXTERNAL;
					message->record.flags = RECORD_MORE;
					message->record.bytes = packet.length;
					message->record.arg[0] = totals[i];
				}
				there_and_back(codec, &packet, 20);
				offset += packet.length;
				fragment++;
			} while (offset < totals[i]);
			assert_true(fragment <= codec->fragments_max);
		}
	}
}

/* Fragments that do not lie where they must, or are not as long as they must be. */
static void mxoe__fragments_refused(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		const struct codec *codec = modes[mode];
		struct packet packet = {.type = PACKET_RECORD, .payload = payload, .length = 100,
					.message = {.medium = true, .fragment = 1, .total = codec->fragment + 100,
						    .record = {.kind = RECORD_PIECE}}};
		struct frame frame = frame_encode(codec, &packet, codec->fragment);
		size_t low = 2 + (codec == &codec_mxoe ? 5 : 7);

		refused(codec, &frame, 2 + 26, 0);   /* a first fragment that is too short */
		refused(codec, &frame, 2 + 26, 2);   /* one behind the end */
		refused(codec, &frame, 2 + 26, 255);
		refused(codec, &frame, 2 + 25, 99);  /* shorter, longer than the rest */
		refused(codec, &frame, 2 + 25, 101);
		refused(codec, &frame, low, 101);    /* a message longer, shorter than its end says */
		refused(codec, &frame, low, 99);
		refused(codec, &frame, low - 1, 0xff);
		if (codec == &codec_mxoe)
			refused(codec, &frame, 2 + 27, 11); /* another size of fragments */
		frame_free(&frame);

		/* A second fragment where the first was all. */
		packet.message.total = codec->fragment;
		packet.length = 0;
		refused_at_all(codec, &packet);
		/* The first of a message that is too long for mediums. */
		packet.message = (struct packet_message){.medium = true, .total = codec->eager_max,
							 .record = {.kind = RECORD_EAGER}};
		packet.length = codec->fragment;
		frame = frame_encode(codec, &packet, 0);
		refused(codec, &frame, low, 1);
		frame_free(&frame);
	}
}

static void mxoe__pulls(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		const struct codec *codec = modes[mode];
		struct packet packet = {.type = PACKET_PULL, .to = 1, .from = 2, .session = 77};
		struct packet_pull *pull = &packet.pull;
		uint32_t block = codec->block_frames * codec->data;

		/* The window begins 1000 bytes into a frame, so the first block begins there and is shorter. */
		*pull = (struct packet_pull){.window = 7 | 8 << 8 | 1000 << 16,
					     .transfer = UINT64_C(0x1122334455667788),
					     .total = 1000000, .frame_offset = 1000, .length = block - 1000};
		there_and_back(codec, &packet, 0);
		*pull = (struct packet_pull){.window = 7 | 8 << 8 | 1000 << 16,
					     .transfer = UINT64_C(0x1122334455667788),
					     .total = 1000000, .frame_index = codec->block_frames, .length = block,
					     .offset = block - 1000};
		there_and_back(codec, &packet, 0);
		*pull = (struct packet_pull){.total = UINT32_MAX, .frame_index = UINT32_MAX / codec->data,
					     .offset = UINT32_MAX / codec->data * (uint64_t)codec->data, .length = 1};
		there_and_back(codec, &packet, 0);
	}
}

/* Of which mode a frame is shows where the modes differ, whatever else it says. */
static void mxoe__of_the_other_mode(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		const struct codec *codec = modes[mode], *other = modes[!mode];
		struct packet medium = {.type = PACKET_RECORD, .to = 1, .from = 2, .session = 77, .payload = payload,
					.message = {.medium = true, .record = {.kind = RECORD_EAGER}}};
		struct packet pull = {.type = PACKET_PULL, .to = 1, .from = 2, .session = 77};
		struct packet found;
		struct frame frame;

		for (uint32_t length = 129; length <= codec->fragment; length += 257) {
			medium.length = length;
			medium.message.total = length;
			frame = frame_encode(codec, &medium, 0);
			assert_false(codec->foreign(&found, frame.bytes, frame.length));
			assert_int_not_equal(other->decode(&found, frame.bytes, frame.length), 0);
			assert_true(other->foreign(&found, frame.bytes, frame.length));
			assert_int_equal(found.type, PACKET_RECORD);
			assert_int_equal(found.from, 2);
			assert_int_equal(found.session, 77);
			frame_free(&frame);
		}
		for (uint64_t window = 0; window < 0x10000; window += 0xff) { /* the last asks whether we are there */
			pull.pull = (struct packet_pull){.window = window, .transfer = UINT64_C(0x1122334421071981),
							 .total = 5000, .length = 5000};
			frame = frame_encode(codec, &pull, 46);
			assert_int_not_equal(other->decode(&found, frame.bytes, frame.length), 0);
			assert_true(other->foreign(&found, frame.bytes, frame.length));
			assert_int_equal(found.type, PACKET_PULL);
			assert_int_equal(found.session, 77);
			frame_free(&frame);
		}
	}
}

static void pull_refused(const struct codec *codec, const struct packet_pull *pull)
{
	struct packet packet = {.type = PACKET_PULL, .pull = *pull};

	refused_at_all(codec, &packet);
}

static void mxoe__pulls_refused(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		const struct codec *codec = modes[mode];
		struct packet packet = {.type = PACKET_PULL, .pull = {.total = 100, .length = 1}};
		struct frame frame;
		uint8_t head[PACKET_HEAD_MAX];

		pull_refused(codec, &(struct packet_pull){.total = 100, .length = 0});
		pull_refused(codec, &(struct packet_pull){.total = 100, .length = 101});
		pull_refused(codec, &(struct packet_pull){.total = 100, .length = 100, .frame_offset = 1});
		pull_refused(codec, &(struct packet_pull){.total = 100, .length = 1, .frame_index = 1});
		pull_refused(codec, &(struct packet_pull){.total = 100, .length = 1, .frame_index = UINT32_MAX});
		/* before the message's first byte */
		pull_refused(codec, &(struct packet_pull){.total = 100, .length = 1, .window = 1 << 16});
		pull_refused(codec,
			     &(struct packet_pull){.total = UINT32_MAX, .length = 1, .frame_offset = codec->data});
		if (codec == &codec_mxoe_jumbo) {
			pull_refused(codec, &(struct packet_pull){.total = UINT32_MAX,
								  .length = PACKET_FRAMES_MAX * codec->data + 1});
			frame = frame_encode(codec, &packet, 0);
			refused(codec, &frame, 2 + 14, 1); /* a window's id of more than eight bits */
			frame_free(&frame);
		} else {
			packet.pull.length = UINT16_MAX + 1;
			assert_int_equal(codec->encode(&packet, head), 0);
			packet.pull.length = 1;
		}
		packet.pull.total = (uint64_t)UINT32_MAX + 1;
		assert_int_equal(codec->encode(&packet, head), 0);
	}
}

/* What the format has no field for is not written at all. */
static void mxoe__cannot(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		struct packet packet = {.type = PACKET_RECORD};
		struct window window = {.length = (uint64_t)UINT32_MAX + 1, .count = 1};
		uint8_t head[PACKET_HEAD_MAX];

		for (unsigned kind = 0; kind < 256; kind++) {
			packet.message.record.kind = (uint8_t)kind;
			if (kind != RECORD_EAGER && kind != RECORD_PIECE && kind != RECORD_RTS && kind != RECORD_FINISH)
				assert_int_equal(modes[mode]->encode(&packet, head), 0);
		}
		packet.message.record.kind = RECORD_RTS;
		window_store(&window, &packet.message.record);
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
		packet = (struct packet){.type = PACKET_DATA, .data.offset = (uint64_t)UINT32_MAX + 1};
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
		packet = (struct packet){.type = PACKET_DATA, .length = modes[mode]->data + 1};
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
		packet = (struct packet){.type = PACKET_REPLY, .host.name_length = PACKET_NAME_MAX + 1};
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
		packet = (struct packet){.type = PACKET_CLOSE};
		assert_int_equal(modes[mode]->encode(&packet, head), 0);
	}
}

static void mxoe__refused(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		const struct codec *codec = modes[mode];
		struct packet packet = {.type = PACKET_NACK, .nack.reason = NACK_CLOSED};
		struct frame frame = frame_encode(codec, &packet, 0);

		refused(codec, &frame, 2 + 3, NACK_NONE);
		refused(codec, &frame, 2 + 3, NACK_BAD_WINDOW + 1);
		refused(codec, &frame, 2, 0);
		refused(codec, &frame, 2, 2);
		for (unsigned type = 46; type < 256; type++)
			refused(codec, &frame, 2, (uint8_t)type);
		frame_free(&frame);

		packet = (struct packet){.type = PACKET_CONNECT};
		frame = frame_encode(codec, &packet, 0);
		refused(codec, &frame, 2 + 26, 2); /* neither request nor reply */
		frame_free(&frame);

		packet = (struct packet){.type = PACKET_ACK};
		frame = frame_encode(codec, &packet, 0);
		refused(codec, &frame, 2 + 12, 0x54); /* another type of library data */
		frame_free(&frame);

		packet = (struct packet){.type = PACKET_RECORD, .payload = payload, .length = 32,
					 .message.record = {.kind = RECORD_EAGER}};
		frame = frame_encode(codec, &packet, 200);
		refused(codec, &frame, 2 + 5, 33); /* longer than its class, though the frame has the bytes */
		refused(codec, &frame, 2 + 4, 1);
		frame_free(&frame);

		packet.length = 128;
		frame = frame_encode(codec, &packet, 200);
		refused(codec, &frame, 2 + 5, 129);
		frame_free(&frame);

		packet = (struct packet){.type = PACKET_REPLY, .host.name_length = PACKET_NAME_MAX};
		frame = frame_encode(codec, &packet, 20);
		refused(codec, &frame, 2 + 1, PACKET_NAME_MAX + 1);
		frame_free(&frame);

		packet = (struct packet){.type = PACKET_DATA, .payload = payload, .length = codec->data};
		frame = frame_encode(codec, &packet, 10);
		refused(codec, &frame, 2 + 3, (uint8_t)(codec->data + 1)); /* more than a frame of a pull has */
		frame_free(&frame);
	}
}

/* ---- All of them --------------------------------------------------------------------------------- */

/* Heads promised by the limits are the longest that there are. */
static void limits__heads(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CODECS; i++) {
		const struct codec *codec = codecs[i];

		assert_true(codec->record_head <= PACKET_HEAD_MAX && codec->piece_head <= codec->record_head);
		assert_true(codec->block_frames >= 1 && codec->block_frames <= PACKET_FRAMES_MAX);
		assert_true(codec->fragments_max == 1 || codec->fragment * codec->fragments_max == codec->eager_max);
		assert_true(codec->unacked_max < UINT64_C(1) << (codec->sequence_bits - 1));
		assert_int_equal(!codec->seal, !codec->intact);
	}
}

/* Any bytes: decoded or refused, but read within their bounds; what decodes can be written, and that decodes to the
 * same. */
static void any_bytes__stable(void **state)
{
	static uint8_t bytes[300];
	uint64_t random = 9;
	unsigned decoded = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		const struct codec *codec = codecs[i % CODECS];
		size_t length = random_below(&random, sizeof(bytes) + 1);
		struct frame frame, again;
		struct packet packet, back;

		for (size_t k = 0; k < length; k++)
			bytes[k] = random_below(&random, 3) ? 0 : (uint8_t)random_next(&random);
		if (codec == &codec_native) {
			bytes[0] = (uint8_t)random_below(&random, PACKET_TYPES);
			bytes[1] = 1;
			bytes[3] = (uint8_t)random_below(&random, 8);
		} else {
			bytes[2] = (uint8_t)(35 + random_below(&random, 11));
		}
		frame = frame_copy(bytes, length);
		if (codec->decode(&packet, frame.bytes, frame.length) == 0) {
			assert_true(!packet.payload || (packet.payload >= frame.bytes &&
							packet.payload + packet.length <= frame.bytes + frame.length));
			packet.flags &= (uint8_t)~PACKET_CHECKSUM;
			again = frame_encode(codec, &packet, 0);
			assert_int_equal(codec->decode(&back, again.bytes, again.length), 0);
			same(&packet, &back);
			frame_free(&again);
			decoded++;
		}
		frame_free(&frame);
	}
	assert_true(decoded > 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(native__there_and_back),
		cmocka_unit_test(native__padded),
		cmocka_unit_test(native__pieces_follow),
		cmocka_unit_test(native__data_follow),
		cmocka_unit_test(native__connect_padded),
		cmocka_unit_test(native__bytes),
		cmocka_unit_test(native__lengths),
		cmocka_unit_test(native__cut),
		cmocka_unit_test(native__refused),
		cmocka_unit_test(native__bounds),
		cmocka_unit_test(native__sealed),
		cmocka_unit_test(native__restamped),
		cmocka_unit_test(captures__there_and_back),
		cmocka_unit_test(captures__payloads),
		cmocka_unit_test(captures__fields),
		cmocka_unit_test(captures__cut),
		cmocka_unit_test(captures__restamped),
		cmocka_unit_test(mxoe__classes),
		cmocka_unit_test(mxoe__fragments),
		cmocka_unit_test(mxoe__fragments_refused),
		cmocka_unit_test(mxoe__pulls),
		cmocka_unit_test(mxoe__of_the_other_mode),
		cmocka_unit_test(mxoe__pulls_refused),
		cmocka_unit_test(mxoe__cannot),
		cmocka_unit_test(mxoe__refused),
		cmocka_unit_test(limits__heads),
		cmocka_unit_test(any_bytes__stable),
	};

	return cmocka_run_group_tests(tests, payload_fill, NULL);
}
