/* SPDX-License-Identifier: BSD-3-Clause */
#include "frames.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "thole.h"

struct text {
	char *at;
	size_t left;
};

__attribute__((format(printf, 2, 3))) static void text_say(struct text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text->at, text->left, format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= text->left)
		length = text->left ? (int)text->left - 1 : 0;
	text->at += length;
	text->left -= (size_t)length;
}

static void say_record(struct text *text, const struct packet *packet)
{
	static const char *const kinds[RECORD_MESSAGE_KINDS] = {"none", "eager", "piece", "rts", "finish",
								"put", "get", "atomic", "reply", "card"};
	const struct record *record = &packet->message.record;

	text_say(text, " %u ack %u credit %u %s flags %x", packet->sequence, packet->ack, packet->credit,
		 record->kind < RECORD_MESSAGE_KINDS ? kinds[record->kind] : "?", record->flags);
	if (record->kind != RECORD_PIECE)
		text_say(text, " tag %llx", (unsigned long long)record->tag);
	if (record->length == RECORD_EXTERNAL && record->kind != RECORD_PIECE)
		text_say(text, " args %llx %llx %llx %llx", (unsigned long long)record->arg[0],
			 (unsigned long long)record->arg[1], (unsigned long long)record->arg[2],
			 (unsigned long long)record->arg[3]);
	text_say(text, " payload %u", packet->length);
}

static void say_connect(struct text *text, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;

	text_say(text, " session %llx index %u next %u attempt %u size %u seen %u status %u bulk %u",
		 (unsigned long long)connect->session, connect->index, connect->next, connect->attempt, connect->size,
		 connect->seen, connect->status, connect->bulk_port);
}

static void say_pull(struct text *text, const struct packet *packet)
{
	const struct packet_pull *pull = &packet->pull;

	text_say(text, " window %llx transfer %llx offset %llu length %u frames of %u wanted %llx ack %u credit %u",
		 (unsigned long long)pull->window, (unsigned long long)pull->transfer, (unsigned long long)pull->offset,
		 pull->length, pull->frame, (unsigned long long)pull->wanted, packet->ack, packet->credit);
}

void frame_text(const struct codec *codec, const uint8_t *frame, size_t length, char buffer[FRAME_TEXT_MAX])
{
	static const char *const names[PACKET_TYPES] = {"none", "CONNECT", "ACCEPT", "RECORD", "ACK", "PULL", "DATA",
							"NACK", "CLOSE", "QUERY", "REPLY", "HELLO"};
	struct text text = {buffer, FRAME_TEXT_MAX};
	struct packet packet;
	int error = codec->decode(&packet, frame, length);

	if (error) {
		text_say(&text, "%zu bytes that do not decode", length);
		return;
	}
	text_say(&text, "%s(%zu) to %u", packet.type < PACKET_TYPES ? names[packet.type] : "?", length, packet.to);
	switch (packet.type) {
	case PACKET_RECORD:
		say_record(&text, &packet);
		break;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		say_connect(&text, &packet);
		break;
	case PACKET_PULL:
		say_pull(&text, &packet);
		break;
	case PACKET_DATA:
		text_say(&text, " transfer %llx offset %llu payload %u", (unsigned long long)packet.data.transfer,
			 (unsigned long long)packet.data.offset, packet.length);
		break;
	case PACKET_ACK:
		text_say(&text, " %u credit %u next %u held %llx flags %x", packet.ack, packet.credit, packet.sequence,
			 (unsigned long long)packet.acked.held, packet.flags);
		break;
	case PACKET_NACK:
		text_say(&text, " reason %u refused %llx transfer %llx", packet.nack.reason,
			 (unsigned long long)packet.nack.refused, (unsigned long long)packet.nack.transfer);
		break;
	default:
		break;
	}
}
