/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * codec: any bytes as a frame of each codec. Whatever they are: nothing is read behind them, and either they are
 * refused, or the packet keeps what the engine relies on and can be written again, as a frame that decodes to the same.
 *
 * The first bytes say which codec, whether the type is made a lawful one, and how much of the rest is the frame.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "transport/datagram/wire/codec.h"
#include "thole.h"

enum { FRAME_MAX = 9216 };

static const struct codec *const codecs[] = {&codec_native, &codec_mxoe, &codec_mxoe_jumbo};

/* The last byte of a frame is the last of its memory, so that the sanitizer sees a byte read too many. */
static uint8_t *frame_copy(const uint8_t *bytes, size_t length)
{
	uint8_t *frame = malloc(length ? length : 1);

	MUST(frame);
	if (length)
		memcpy(frame, bytes, length);
	return frame;
}

/* Most random bytes are no version and no type; with these, most of them get further. */
static void frame_mend(const struct codec *codec, uint8_t *frame, size_t length)
{
	if (length < 4)
		return;
	if (codec == &codec_native) {
		frame[0] = (uint8_t)(PACKET_CONNECT + frame[0] % PACKET_CLOSE);
		frame[1] = 2;
		frame[2] &= 63;
		frame[3] &= 63;
	} else {
		frame[2] = frame[2] < 30 ? (uint8_t)(1 + frame[2] % 4) : (uint8_t)(35 + frame[2] % 11);
	}
}

/* What the engine relies on without looking again. */
static void packet_check(const struct codec *codec, const struct packet *packet)
{
	const struct packet_message *message = &packet->message;
	const struct packet_pull *pull = &packet->pull;

	MUST(packet->type > PACKET_NONE && packet->type < PACKET_TYPES);
	if (packet->type == PACKET_RECORD) {
		MUST(message->record.kind > RECORD_NONE && message->record.kind < RECORD_MESSAGE_KINDS);
		MUST(message->record.length == RECORD_EXTERNAL ? message->record.bytes == packet->length
							       : message->record.length == packet->length);
		MUST(codec->fragments_max == 1 || message->fragment < codec->fragments_max);
		if (message->medium)
			MUST(message->total <= codec->eager_max &&
			     message->fragment * codec->fragment + packet->length <= message->total);
	} else if (packet->type == PACKET_PULL) {
		MUST(pull->length > 0 && pull->offset + pull->length <= codec->length_max);
		MUST(codec->selective || pull->offset + pull->length <= pull->total);
		MUST((codec->selective && !pull->wanted) ||
		     pull->length <= (uint64_t)PACKET_FRAMES_MAX * (codec->data ? codec->data : pull->frame));
	} else if (packet->type == PACKET_DATA) {
		MUST(packet->data.offset <= codec->length_max);
		MUST(!codec->data || packet->length <= codec->data);
	} else if (packet->type == PACKET_NACK) {
		MUST(packet->nack.reason > NACK_NONE && packet->nack.reason <= NACK_BAD_WINDOW);
	} else if (packet->type == PACKET_REPLY) {
		MUST(packet->host.name_length <= PACKET_NAME_MAX);
	}
}

static size_t frame_encode(const struct codec *codec, const struct packet *packet, uint8_t *frame)
{
	size_t head = codec->encode(packet, frame);

	MUST(head > 0 && head <= PACKET_HEAD_MAX);
	if (packet->length)
		memcpy(frame + head, packet->payload, packet->length);
	return head + packet->length;
}

/* Written, read and written again, the bytes are the same; so are they sealed and padded. */
static void packet_again(const struct codec *codec, const struct packet *packet)
{
	static uint8_t once[PACKET_HEAD_MAX + FRAME_MAX], twice[PACKET_HEAD_MAX + FRAME_MAX];
	struct packet plain = *packet, back;
	size_t length;
	uint8_t *frame;
	bool unset;

	plain.flags &= (uint8_t)~PACKET_CHECKSUM;
	length = frame_encode(codec, &plain, once);
	frame = frame_copy(once, length);
	MUST(codec->decode(&back, frame, length) == 0);
	packet_check(codec, &back);
	MUST(back.type == packet->type && back.length == packet->length);
	MUST(frame_encode(codec, &back, twice) == length && memcmp(once, twice, length) == 0);
	if (codec->seal) {
		codec->seal(frame, length, NULL, 0);
		MUST(codec->intact(frame, length, &unset) && !unset);
		MUST(codec->decode(&back, frame, length) == 0 && (back.flags & PACKET_CHECKSUM));
	}
	if (packet->type == PACKET_RECORD) {
		codec->restamp(frame, 1, 0, 77, 88, 0);
		MUST(codec->decode(&back, frame, length) == 0 && back.ack == 77);
	}
	free(frame);
}

void fuzz_run(const uint8_t *data, size_t size)
{
	const struct codec *codec;
	struct packet packet;
	size_t length;
	uint8_t *frame;
	bool unset;

	if (size < 3 || size - 3 > FRAME_MAX)
		return;
	codec = codecs[data[0] % 3];
	length = (data[0] & 8) ? size - 3 : (size_t)(data[1] | data[2] << 8) % (size - 2);
	frame = frame_copy(data + 3, length);
	if (data[0] & 4)
		frame_mend(codec, frame, length);
	if (codec->intact)
		codec->intact(frame, length, &unset);
	if (codec->decode(&packet, frame, length) == 0) {
		MUST(!packet.payload || (packet.payload >= frame && packet.payload + packet.length <= frame + length));
		MUST(packet.payload || packet.length == 0);
		packet_check(codec, &packet);
		packet_again(codec, &packet);
	} else if (codec->foreign(&packet, frame, length)) {
		MUST(packet.type > PACKET_NONE && packet.type <= PACKET_CLOSE);
	}
	free(frame);
}
