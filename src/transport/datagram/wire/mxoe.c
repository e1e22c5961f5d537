/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mxoe: the codec of hosts with MX or Open-MX, in both its modes. MX mode has payloads of 4096 bytes and is what MX speaks;
 * jumbo mode, which only Open-MX has, fills frames of 9000 bytes. Owns the offsets below; docs/PROTOCOL.md draws them. Pure.
 *
 * Invariants. All numbers are big-endian; a frame is the peer index and then a body. Fields that nobody looks at are
 * written as 0 and skipped when reading, but for the checksum of messages, which is kept as found. Whatever decodes fits
 * its message: a fragment is where its number says and as long as it must be, a block ends within what is pulled.
 *
 * A message's class is not in the packet but follows from its length: tiny, small, medium; `medium` asks for that one where
 * a shorter would do.
 */
#include <string.h>

#include "base/endian.h"
#include "thole.h"
#include "transport/datagram/wire/codec.h"

enum mxoe_type {
	MXOE_RAW = 1,
	MXOE_QUERY = 3,
	MXOE_REPLY = 4,
	MXOE_TRUC = 35, /* an acknowledgement by itself */
	MXOE_CONNECT = 36,
	MXOE_TINY = 37,
	MXOE_SMALL = 38,
	MXOE_MEDIUM = 39,
	MXOE_RENDEZVOUS = 40,
	MXOE_PULL = 41,
	MXOE_PULL_REPLY = 42,
	MXOE_NOTIFY = 43,
	MXOE_NACK_LIBRARY = 44,
	MXOE_NACK_DRIVER = 45,
};

enum {
	MXOE_HEAD = 2, /* bytes before the body */
	MXOE_TINY_MAX = 32,
	MXOE_SMALL_MAX = 128,
	MXOE_MEDIUM_MAX = 32 << 10,
	MXOE_CONNECT_DATA = 16, /* what connects and trucs say of their own length */
	MXOE_ACK_DATA = 16,
	MXOE_ACK_TYPE = 0x55,
	MXOE_RENDEZVOUS_DATA = 8,
	MX_PAYLOAD = 4096, /* of fragments and of frames of pulls */
	JUMBO_FRAGMENT = 8192,
	JUMBO_FRAME = 9000 - 14 - 2 - 16, /* less the Ethernet header, the peer index and a pull reply's body */
};

/* What differs between the modes. */
struct mode {
	bool jumbo;           /* fields of 32 bits where MX mode has 8 or 16 */
	uint8_t fragment_log; /* as written in each fragment */
	uint32_t fragment;    /* bytes of each but the last */
	uint32_t frame;       /* bytes of each frame of a pull but the last; the unit of the frame index */
};

static const struct mode mode_mx = {.jumbo = false, .fragment_log = 12, .fragment = MX_PAYLOAD, .frame = MX_PAYLOAD};
static const struct mode mode_jumbo = {.jumbo = true, .fragment = JUMBO_FRAGMENT, .frame = JUMBO_FRAME};

/* Offsets in a body. Of everything that goes to an endpoint, but nacks: */
enum {
	BODY_TYPE_AT = 0,       /* u8, enum mxoe_type */
	BODY_TO_AT = 1,         /* u8: endpoint */
	BODY_FROM_AT = 2,       /* u8: endpoint */
	BODY_GENERATION_AT = 3, /* u8: of the source endpoint */
};
enum { /* tiny and small; the front of medium and rendezvous */
	MESSAGE_BYTES_AT = 4,     /* u16 */
	MESSAGE_CHECKSUM_AT = 6,  /* u16 */
	MESSAGE_SEQUENCE_AT = 8,  /* u16 */
	MESSAGE_ACK_AT = 10,      /* u16 */
	MESSAGE_MATCH_AT = 12,    /* u64 */
	MESSAGE_SESSION_AT = 20,  /* u32 */
	MESSAGE_LENGTH = 24,
};
enum {
	MEDIUM_TOTAL_AT = 4,     /* u16; jumbo: u32 */
	MEDIUM_BYTES_AT = 24,    /* u16: of this fragment */
	MEDIUM_FRAGMENT_AT = 26, /* u8 */
	MEDIUM_LOG_AT = 27,      /* u8: of the fragment size; jumbo: 0 */
	MEDIUM_CHECKSUM_AT = 28, /* u16 */
	MEDIUM_LENGTH = 32,
};
enum {
	RENDEZVOUS_TOTAL_AT = 24,    /* u32 */
	RENDEZVOUS_WINDOW_AT = 28,   /* u8 */
	RENDEZVOUS_SEQUENCE_AT = 29, /* u8 */
	RENDEZVOUS_OFFSET_AT = 30,   /* u16 */
	RENDEZVOUS_LENGTH = 32,
};
enum { /* both modes */
	PULL_SESSION_AT = 4, /* u32 */
	PULL_TOTAL_AT = 8,   /* u32 */
};
enum {
	PULL_MX_WINDOW_AT = 12,       /* u8 */
	PULL_MX_SEQUENCE_AT = 13,     /* u8 */
	PULL_MX_OFFSET_AT = 14,       /* u16 */
	PULL_MX_HANDLE_AT = 16,       /* u32 handle, u32 magic */
	PULL_MX_FRAME_OFFSET_AT = 24, /* u16 */
	PULL_MX_BYTES_AT = 26,        /* u16 */
	PULL_MX_FRAME_AT = 28,        /* u32 */
	PULL_MX_LENGTH = 32,
};
enum {
	PULL_JUMBO_WINDOW_AT = 12,       /* u32 */
	PULL_JUMBO_SEQUENCE_AT = 16,     /* u8 */
	PULL_JUMBO_OFFSET_AT = 20,       /* u32 */
	PULL_JUMBO_HANDLE_AT = 24,       /* u32 handle, u32 magic */
	PULL_JUMBO_FRAME_OFFSET_AT = 32, /* u32 */
	PULL_JUMBO_BYTES_AT = 36,        /* u32 */
	PULL_JUMBO_FRAME_AT = 40,        /* u32 */
	PULL_JUMBO_LENGTH = 44,
};
enum { /* pull reply */
	DATA_FRAME_AT = 1,  /* u8: frame index modulo 256 */
	DATA_BYTES_AT = 2,  /* u16 */
	DATA_OFFSET_AT = 4, /* u32 */
	DATA_HANDLE_AT = 8, /* u32 handle, u32 magic */
	DATA_LENGTH = 16,
};
enum {
	NOTIFY_SESSION_AT = 4,      /* u32 */
	NOTIFY_TOTAL_AT = 8,        /* u32 */
	NOTIFY_WINDOW_AT = 12,      /* u8 */
	NOTIFY_SEQUENCE_AT = 13,    /* u8: the window's */
	NOTIFY_NUMBER_AT = 18,      /* u16: the message's */
	NOTIFY_ACK_AT = 20,         /* u16 */
	NOTIFY_LENGTH = 24,
};
enum {
	CONNECT_DATA_AT = 4,      /* u8 */
	CONNECT_SEQUENCE_AT = 8,  /* u16 */
	CONNECT_INDEX_AT = 10,    /* u16 */
	CONNECT_SESSION_AT = 16,  /* u32: the requester's */
	CONNECT_SECOND_AT = 20,   /* u32: application key; in a reply the replier's session */
	CONNECT_NEXT_AT = 24,     /* u16 */
	CONNECT_IS_REPLY_AT = 26, /* u8 */
	CONNECT_ATTEMPT_AT = 27,  /* u8 */
	CONNECT_STATUS_AT = 28,   /* u8 */
	CONNECT_LENGTH = 32,
};
enum {
	TRUC_DATA_AT = 4,    /* u8 */
	TRUC_SESSION_AT = 8, /* u32 */
	TRUC_TYPE_AT = 12,   /* u8 */
	TRUC_ACK_AT = 14,    /* u16 */
	TRUC_SECOND_AT = 16, /* u32: the session again */
	TRUC_NUMBER_AT = 20, /* u32 */
	TRUC_SEND_AT = 24,   /* u16 */
	TRUC_RESENT_AT = 26, /* u8 */
	TRUC_LENGTH = 28,
};
enum {
	NACK_ENDPOINT_AT = 1,   /* u8: that sent it; a driver's: that pulled, so the destination */
	NACK_GENERATION_AT = 2, /* u8 */
	NACK_REASON_AT = 3,     /* u8 */
	NACK_HANDLE_AT = 8,     /* driver: u32 handle, u32 magic */
	NACK_TO_AT = 9,         /* library: u8 */
	NACK_INDEX_AT = 10,     /* library: u16 */
	NACK_SEQUENCE_AT = 12,  /* library: u16 */
	NACK_LENGTH = 16,
};
enum { /* host query and reply */
	HOST_NAME_LENGTH_AT = 1, /* u8 */
	HOST_INDEX_AT = 2,       /* u16 */
	HOST_MAGIC_AT = 8,       /* u32 */
	HOST_LENGTH = 16,        /* then the name */
};
enum { /* raw */
	HELLO_MAC_AT = 16,    /* u64 */
	HELLO_SERIAL_AT = 24, /* u32 */
	HELLO_LENGTH = 48,
};

_Static_assert(MXOE_HEAD + HOST_LENGTH + PACKET_NAME_MAX <= PACKET_HEAD_MAX, "heads fit");

/* A window's id in a packet holds all three numbers that name it. */
static uint64_t window_pack(uint32_t id, uint8_t sequence, uint32_t offset)
{
	return id | (uint32_t)sequence << 8 | (uint64_t)offset << 16;
}

static uint8_t window_sequence(uint64_t window)
{
	return (uint8_t)(window >> 8);
}

/* ---- Encode ------------------------------------------------------------------------------------- */

static void encode_front(const struct packet *packet, uint8_t *body, uint8_t type)
{
	body[BODY_TYPE_AT] = type;
	body[BODY_TO_AT] = (uint8_t)packet->to;
	body[BODY_FROM_AT] = (uint8_t)packet->from;
	body[BODY_GENERATION_AT] = packet->generation;
}

static void encode_message(const struct packet *packet, uint8_t *body, uint8_t type, uint32_t bytes)
{
	encode_front(packet, body, type);
	store_be16(body + MESSAGE_BYTES_AT, (uint16_t)bytes);
	store_be16(body + MESSAGE_CHECKSUM_AT, packet->message.checksum);
	store_be16(body + MESSAGE_SEQUENCE_AT, (uint16_t)packet->sequence);
	store_be16(body + MESSAGE_ACK_AT, (uint16_t)packet->ack);
	store_be64(body + MESSAGE_MATCH_AT, packet->message.record.tag);
	store_be32(body + MESSAGE_SESSION_AT, (uint32_t)packet->session);
}

static size_t encode_medium(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	const struct packet_message *message = &packet->message;
	uint32_t total = message->total ? (uint32_t)message->total : packet->length;

	if (message->total > MXOE_MEDIUM_MAX || packet->length > mode->fragment)
		return 0;
	encode_message(packet, body, MXOE_MEDIUM, total);
	if (mode->jumbo)
		store_be32(body + MEDIUM_TOTAL_AT, total);
	else
		store_be16(body + MESSAGE_CHECKSUM_AT, 0);
	store_be16(body + MEDIUM_BYTES_AT, (uint16_t)packet->length);
	body[MEDIUM_FRAGMENT_AT] = message->fragment;
	body[MEDIUM_LOG_AT] = mode->fragment_log;
	store_be16(body + MEDIUM_CHECKSUM_AT, message->checksum);
	return MEDIUM_LENGTH;
}

static size_t encode_eager(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	if (packet->message.medium || packet->message.total > MXOE_SMALL_MAX || packet->length > MXOE_SMALL_MAX)
		return encode_medium(packet, body, mode);
	encode_message(packet, body, packet->length > MXOE_TINY_MAX ? MXOE_SMALL : MXOE_TINY, packet->length);
	return MESSAGE_LENGTH;
}

static size_t encode_announce(const struct packet *packet, uint8_t *body)
{
	struct window window;

	window_load(&window, &packet->message.record);
	if (window.length > UINT32_MAX)
		return 0;
	encode_message(packet, body, MXOE_RENDEZVOUS, MXOE_RENDEZVOUS_DATA);
	store_be32(body + RENDEZVOUS_TOTAL_AT, (uint32_t)window.length);
	body[RENDEZVOUS_WINDOW_AT] = (uint8_t)window.id;
	body[RENDEZVOUS_SEQUENCE_AT] = window_sequence(window.id);
	store_be16(body + RENDEZVOUS_OFFSET_AT, (uint16_t)(window.id >> 16));
	return RENDEZVOUS_LENGTH;
}

static size_t encode_finish(const struct packet *packet, uint8_t *body)
{
	uint64_t window = packet->message.record.tag;

	encode_front(packet, body, MXOE_NOTIFY);
	store_be32(body + NOTIFY_SESSION_AT, (uint32_t)packet->session);
	store_be32(body + NOTIFY_TOTAL_AT, (uint32_t)packet->message.total);
	body[NOTIFY_WINDOW_AT] = (uint8_t)window;
	body[NOTIFY_SEQUENCE_AT] = window_sequence(window);
	store_be16(body + NOTIFY_NUMBER_AT, (uint16_t)packet->sequence);
	store_be16(body + NOTIFY_ACK_AT, (uint16_t)packet->ack);
	return NOTIFY_LENGTH;
}

static size_t encode_record(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	switch (packet->message.record.kind) {
	case RECORD_EAGER:
		return encode_eager(packet, body, mode);
	case RECORD_PIECE:
		return encode_medium(packet, body, mode);
	case RECORD_ANNOUNCE:
		return encode_announce(packet, body);
	case RECORD_FINISH:
		return encode_finish(packet, body);
	default:
		return 0;
	}
}

static size_t encode_connect(const struct packet *packet, uint8_t *body)
{
	const struct packet_connect *connect = &packet->connect;
	bool reply = packet->type == PACKET_ACCEPT;

	encode_front(packet, body, MXOE_CONNECT);
	body[CONNECT_DATA_AT] = MXOE_CONNECT_DATA;
	store_be16(body + CONNECT_SEQUENCE_AT, (uint16_t)packet->sequence);
	store_be16(body + CONNECT_INDEX_AT, (uint16_t)connect->index);
	store_be32(body + CONNECT_SESSION_AT, (uint32_t)(reply ? connect->echo : connect->session));
	store_be32(body + CONNECT_SECOND_AT, (uint32_t)(reply ? connect->session : connect->proof));
	store_be16(body + CONNECT_NEXT_AT, (uint16_t)connect->next);
	body[CONNECT_IS_REPLY_AT] = reply;
	body[CONNECT_ATTEMPT_AT] = connect->attempt;
	body[CONNECT_STATUS_AT] = reply ? connect->status : 0;
	return CONNECT_LENGTH;
}

static size_t encode_ack(const struct packet *packet, uint8_t *body)
{
	const struct packet_ack *acked = &packet->acked;

	encode_front(packet, body, MXOE_TRUC);
	body[TRUC_DATA_AT] = MXOE_ACK_DATA;
	store_be32(body + TRUC_SESSION_AT, (uint32_t)packet->session);
	body[TRUC_TYPE_AT] = MXOE_ACK_TYPE;
	store_be16(body + TRUC_ACK_AT, (uint16_t)packet->ack);
	store_be32(body + TRUC_SECOND_AT, (uint32_t)acked->session);
	store_be32(body + TRUC_NUMBER_AT, acked->number);
	store_be16(body + TRUC_SEND_AT, (uint16_t)acked->send);
	body[TRUC_RESENT_AT] = acked->resent;
	return TRUC_LENGTH;
}

static size_t encode_pull_mx(const struct packet_pull *pull, uint8_t *body)
{
	if (pull->frame_offset > UINT16_MAX || pull->length > UINT16_MAX)
		return 0;
	body[PULL_MX_WINDOW_AT] = (uint8_t)pull->window;
	body[PULL_MX_SEQUENCE_AT] = window_sequence(pull->window);
	store_be16(body + PULL_MX_OFFSET_AT, (uint16_t)(pull->window >> 16));
	store_be64(body + PULL_MX_HANDLE_AT, pull->transfer);
	store_be16(body + PULL_MX_FRAME_OFFSET_AT, (uint16_t)pull->frame_offset);
	store_be16(body + PULL_MX_BYTES_AT, (uint16_t)pull->length);
	store_be32(body + PULL_MX_FRAME_AT, pull->frame_index);
	return PULL_MX_LENGTH;
}

static size_t encode_pull_jumbo(const struct packet_pull *pull, uint8_t *body)
{
	store_be32(body + PULL_JUMBO_WINDOW_AT, (uint8_t)pull->window);
	body[PULL_JUMBO_SEQUENCE_AT] = window_sequence(pull->window);
	store_be32(body + PULL_JUMBO_OFFSET_AT, (uint32_t)(pull->window >> 16));
	store_be64(body + PULL_JUMBO_HANDLE_AT, pull->transfer);
	store_be32(body + PULL_JUMBO_FRAME_OFFSET_AT, pull->frame_offset);
	store_be32(body + PULL_JUMBO_BYTES_AT, pull->length);
	store_be32(body + PULL_JUMBO_FRAME_AT, pull->frame_index);
	return PULL_JUMBO_LENGTH;
}

static size_t encode_pull(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	const struct packet_pull *pull = &packet->pull;

	if (pull->total > UINT32_MAX)
		return 0;
	encode_front(packet, body, MXOE_PULL);
	store_be32(body + PULL_SESSION_AT, (uint32_t)packet->session);
	store_be32(body + PULL_TOTAL_AT, (uint32_t)pull->total);
	return mode->jumbo ? encode_pull_jumbo(pull, body) : encode_pull_mx(pull, body);
}

static size_t encode_data(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	if (packet->data.offset > UINT32_MAX || packet->length > mode->frame)
		return 0;
	body[BODY_TYPE_AT] = MXOE_PULL_REPLY;
	body[DATA_FRAME_AT] = packet->data.frame;
	store_be16(body + DATA_BYTES_AT, (uint16_t)packet->length);
	store_be32(body + DATA_OFFSET_AT, (uint32_t)packet->data.offset);
	store_be64(body + DATA_HANDLE_AT, packet->data.transfer);
	return DATA_LENGTH;
}

static size_t encode_nack(const struct packet *packet, uint8_t *body)
{
	const struct packet_nack *nack = &packet->nack;

	body[BODY_TYPE_AT] = nack->driver ? MXOE_NACK_DRIVER : MXOE_NACK_LIBRARY;
	body[NACK_ENDPOINT_AT] = (uint8_t)(nack->driver ? packet->to : packet->from);
	body[NACK_GENERATION_AT] = packet->generation;
	body[NACK_REASON_AT] = nack->reason;
	if (nack->driver) {
		store_be64(body + NACK_HANDLE_AT, nack->transfer);
		return NACK_LENGTH;
	}
	body[NACK_TO_AT] = (uint8_t)packet->to;
	store_be16(body + NACK_INDEX_AT, (uint16_t)nack->index);
	store_be16(body + NACK_SEQUENCE_AT, (uint16_t)packet->sequence);
	return NACK_LENGTH;
}

static size_t encode_host(const struct packet *packet, uint8_t *body)
{
	const struct packet_host *host = &packet->host;
	uint8_t name_length = packet->type == PACKET_REPLY ? host->name_length : 0;

	if (name_length > PACKET_NAME_MAX)
		return 0;
	body[BODY_TYPE_AT] = packet->type == PACKET_REPLY ? MXOE_REPLY : MXOE_QUERY;
	body[HOST_NAME_LENGTH_AT] = name_length;
	store_be16(body + HOST_INDEX_AT, (uint16_t)host->index);
	store_be32(body + HOST_MAGIC_AT, host->magic);
	memcpy(body + HOST_LENGTH, host->name, name_length);
	return HOST_LENGTH + (size_t)name_length;
}

static size_t encode_hello(const struct packet *packet, uint8_t *body)
{
	body[BODY_TYPE_AT] = MXOE_RAW;
	store_be64(body + HELLO_MAC_AT, packet->host.mac);
	store_be32(body + HELLO_SERIAL_AT, packet->host.serial);
	return HELLO_LENGTH;
}

static size_t encode_body(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	switch (packet->type) {
	case PACKET_RECORD:
		return encode_record(packet, body, mode);
	case PACKET_DATA:
		return encode_data(packet, body, mode);
	case PACKET_PULL:
		return encode_pull(packet, body, mode);
	case PACKET_ACK:
		return encode_ack(packet, body);
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		return encode_connect(packet, body);
	case PACKET_NACK:
		return encode_nack(packet, body);
	case PACKET_QUERY:
	case PACKET_REPLY:
		return encode_host(packet, body);
	case PACKET_HELLO:
		return encode_hello(packet, body);
	default:
		return 0;
	}
}

static size_t mxoe_encode(const struct packet *packet, uint8_t *head, const struct mode *mode)
{
	size_t length;

	memset(head, 0, MXOE_HEAD + HELLO_LENGTH); /* the longest with gaps */
	store_be16(head, packet->peer_index);
	length = encode_body(packet, head + MXOE_HEAD, mode);
	return length ? MXOE_HEAD + length : 0;
}

static size_t mxoe_encode_mx(const struct packet *packet, uint8_t *head)
{
	return mxoe_encode(packet, head, &mode_mx);
}

static size_t mxoe_encode_jumbo(const struct packet *packet, uint8_t *head)
{
	return mxoe_encode(packet, head, &mode_jumbo);
}

/* ---- Decode ------------------------------------------------------------------------------------- */

static void decode_front(struct packet *packet, uint8_t type, const uint8_t *body)
{
	packet->type = type;
	packet->to = body[BODY_TO_AT];
	packet->from = body[BODY_FROM_AT];
	packet->generation = body[BODY_GENERATION_AT];
}

static void decode_message(struct packet *packet, uint8_t kind, const uint8_t *body)
{
	decode_front(packet, PACKET_RECORD, body);
	packet->message.record.kind = kind;
	packet->message.record.tag = load_be64(body + MESSAGE_MATCH_AT);
	packet->message.checksum = load_be16(body + MESSAGE_CHECKSUM_AT);
	packet->sequence = load_be16(body + MESSAGE_SEQUENCE_AT);
	packet->ack = load_be16(body + MESSAGE_ACK_AT);
	packet->session = load_be32(body + MESSAGE_SESSION_AT);
}

/* The payload of a frame whose head says its length. */
static int decode_payload(struct packet *packet, const uint8_t *body, size_t head, size_t length, uint32_t payload)
{
	if (length < head || length - head < payload)
		return THOLE_ERR_PROTOCOL;
	packet->payload = body + head;
	packet->length = payload;
	return 0;
}

static int decode_short(struct packet *packet, const uint8_t *body, size_t length, uint32_t max)
{
	uint32_t bytes;

	if (length < MESSAGE_LENGTH)
		return THOLE_ERR_PROTOCOL;
	decode_message(packet, RECORD_EAGER, body);
	bytes = load_be16(body + MESSAGE_BYTES_AT);
	packet->message.total = bytes;
	packet->message.record.length = (uint16_t)bytes;
	return bytes > max ? THOLE_ERR_PROTOCOL : decode_payload(packet, body, MESSAGE_LENGTH, length, bytes);
}

/* The first of several fragments is a record with more to come, the further ones are pieces. */
static void decode_fragment(struct packet *packet)
{
	struct record *record = &packet->message.record;

	record->length = (uint16_t)packet->length;
	if (packet->message.fragment > 0) {
		record->kind = RECORD_PIECE;
	} else if (packet->message.total > packet->length) {
		record->flags = RECORD_MORE;
		record->length = RECORD_EXTERNAL;
		record->bytes = packet->length;
		record->arg[0] = packet->message.total;
	}
}

static int decode_medium(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	struct packet_message *message = &packet->message;
	uint32_t total, bytes, offset;

	if (length < MEDIUM_LENGTH)
		return THOLE_ERR_PROTOCOL;
	decode_message(packet, RECORD_EAGER, body);
	total = mode->jumbo ? load_be32(body + MEDIUM_TOTAL_AT) : load_be16(body + MEDIUM_TOTAL_AT);
	bytes = load_be16(body + MEDIUM_BYTES_AT);
	message->medium = true;
	message->total = total;
	message->fragment = body[MEDIUM_FRAGMENT_AT];
	message->fragment_log = mode->jumbo ? 0 : body[MEDIUM_LOG_AT];
	message->checksum = load_be16(body + MEDIUM_CHECKSUM_AT);
	offset = message->fragment * mode->fragment;
	if (total > MXOE_MEDIUM_MAX || message->fragment_log != mode->fragment_log || offset > total ||
	    (offset == total && message->fragment > 0) ||
	    bytes != (total - offset < mode->fragment ? total - offset : mode->fragment))
		return THOLE_ERR_PROTOCOL;
	if (decode_payload(packet, body, MEDIUM_LENGTH, length, bytes) != 0)
		return THOLE_ERR_PROTOCOL;
	decode_fragment(packet);
	return 0;
}

static int decode_rendezvous(struct packet *packet, const uint8_t *body, size_t length)
{
	struct window window = {.count = 1};

	if (length < RENDEZVOUS_LENGTH)
		return THOLE_ERR_PROTOCOL;
	decode_message(packet, RECORD_ANNOUNCE, body);
	window.length = load_be32(body + RENDEZVOUS_TOTAL_AT);
	window.id = window_pack(body[RENDEZVOUS_WINDOW_AT], body[RENDEZVOUS_SEQUENCE_AT],
				load_be16(body + RENDEZVOUS_OFFSET_AT));
	window_store(&window, &packet->message.record);
	packet->message.record.length = RECORD_EXTERNAL;
	packet->message.total = window.length;
	return 0;
}

static int decode_notify(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < NOTIFY_LENGTH)
		return THOLE_ERR_PROTOCOL;
	decode_front(packet, PACKET_RECORD, body);
	packet->message.record.kind = RECORD_FINISH;
	packet->message.record.tag = window_pack(body[NOTIFY_WINDOW_AT], body[NOTIFY_SEQUENCE_AT], 0);
	packet->message.total = load_be32(body + NOTIFY_TOTAL_AT);
	packet->session = load_be32(body + NOTIFY_SESSION_AT);
	packet->sequence = load_be16(body + NOTIFY_NUMBER_AT);
	packet->ack = load_be16(body + NOTIFY_ACK_AT);
	return 0;
}

static int decode_connect(struct packet *packet, const uint8_t *body, size_t length)
{
	struct packet_connect *connect = &packet->connect;
	uint32_t first, second;
	bool reply;

	if (length < CONNECT_LENGTH || body[CONNECT_IS_REPLY_AT] > 1)
		return THOLE_ERR_PROTOCOL;
	reply = body[CONNECT_IS_REPLY_AT];
	first = load_be32(body + CONNECT_SESSION_AT);
	second = load_be32(body + CONNECT_SECOND_AT);
	decode_front(packet, reply ? PACKET_ACCEPT : PACKET_CONNECT, body);
	packet->sequence = load_be16(body + CONNECT_SEQUENCE_AT);
	connect->index = load_be16(body + CONNECT_INDEX_AT);
	connect->session = reply ? second : first;
	connect->echo = reply ? first : 0;
	connect->proof = reply ? 0 : second;
	connect->next = load_be16(body + CONNECT_NEXT_AT);
	connect->attempt = body[CONNECT_ATTEMPT_AT];
	connect->status = reply ? body[CONNECT_STATUS_AT] : 0;
	return 0;
}

static int decode_truc(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < TRUC_LENGTH || body[TRUC_TYPE_AT] != MXOE_ACK_TYPE)
		return THOLE_ERR_PROTOCOL;
	decode_front(packet, PACKET_ACK, body);
	packet->session = load_be32(body + TRUC_SESSION_AT);
	packet->ack = load_be16(body + TRUC_ACK_AT);
	packet->acked.session = load_be32(body + TRUC_SECOND_AT);
	packet->acked.number = load_be32(body + TRUC_NUMBER_AT);
	packet->acked.send = load_be16(body + TRUC_SEND_AT);
	packet->acked.resent = body[TRUC_RESENT_AT];
	return 0;
}

static int decode_pull_mx(struct packet_pull *pull, const uint8_t *body, size_t length)
{
	if (length < PULL_MX_LENGTH)
		return THOLE_ERR_PROTOCOL;
	pull->window = window_pack(body[PULL_MX_WINDOW_AT], body[PULL_MX_SEQUENCE_AT],
				   load_be16(body + PULL_MX_OFFSET_AT));
	pull->transfer = load_be64(body + PULL_MX_HANDLE_AT);
	pull->frame_offset = load_be16(body + PULL_MX_FRAME_OFFSET_AT);
	pull->length = load_be16(body + PULL_MX_BYTES_AT);
	pull->frame_index = load_be32(body + PULL_MX_FRAME_AT);
	return 0;
}

static int decode_pull_jumbo(struct packet_pull *pull, const uint8_t *body, size_t length)
{
	uint32_t id;

	if (length < PULL_JUMBO_LENGTH)
		return THOLE_ERR_PROTOCOL;
	id = load_be32(body + PULL_JUMBO_WINDOW_AT);
	if (id > UINT8_MAX) /* a rendezvous has eight bits for it */
		return THOLE_ERR_PROTOCOL;
	pull->window = window_pack(id, body[PULL_JUMBO_SEQUENCE_AT], load_be32(body + PULL_JUMBO_OFFSET_AT));
	pull->transfer = load_be64(body + PULL_JUMBO_HANDLE_AT);
	pull->frame_offset = load_be32(body + PULL_JUMBO_FRAME_OFFSET_AT);
	pull->length = load_be32(body + PULL_JUMBO_BYTES_AT);
	pull->frame_index = load_be32(body + PULL_JUMBO_FRAME_AT);
	return 0;
}

/* Where a block begins in the message, and whether it ends there too and has no more frames than a block may have. */
static int pull_place(struct packet_pull *pull, const struct mode *mode)
{
	uint64_t at = (uint64_t)pull->frame_index * mode->frame + pull->frame_offset, shift = pull->window >> 16;

	if (pull->length == 0 || at < shift || pull->frame_offset >= mode->frame ||
	    (uint64_t)pull->frame_offset + pull->length > (uint64_t)PACKET_FRAMES_MAX * mode->frame)
		return THOLE_ERR_PROTOCOL;
	pull->offset = at - shift;
	return pull->offset > pull->total || pull->length > pull->total - pull->offset ? THOLE_ERR_PROTOCOL : 0;
}

static int decode_pull(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	int rc = mode->jumbo ? decode_pull_jumbo(&packet->pull, body, length)
			     : decode_pull_mx(&packet->pull, body, length);

	if (rc != 0)
		return rc;
	decode_front(packet, PACKET_PULL, body);
	packet->session = load_be32(body + PULL_SESSION_AT);
	packet->pull.total = load_be32(body + PULL_TOTAL_AT);
	return pull_place(&packet->pull, mode);
}

static int decode_data(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	uint32_t bytes;

	if (length < DATA_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->type = PACKET_DATA;
	packet->data.frame = body[DATA_FRAME_AT];
	packet->data.offset = load_be32(body + DATA_OFFSET_AT);
	packet->data.transfer = load_be64(body + DATA_HANDLE_AT);
	bytes = load_be16(body + DATA_BYTES_AT);
	return bytes > mode->frame ? THOLE_ERR_PROTOCOL : decode_payload(packet, body, DATA_LENGTH, length, bytes);
}

static int decode_nack(struct packet *packet, const uint8_t *body, size_t length, bool driver)
{
	struct packet_nack *nack = &packet->nack;

	if (length < NACK_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->type = PACKET_NACK;
	packet->generation = body[NACK_GENERATION_AT];
	nack->driver = driver;
	nack->reason = body[NACK_REASON_AT];
	if (driver) {
		packet->to = body[NACK_ENDPOINT_AT];
		nack->transfer = load_be64(body + NACK_HANDLE_AT);
	} else {
		packet->from = body[NACK_ENDPOINT_AT];
		packet->to = body[NACK_TO_AT];
		packet->sequence = load_be16(body + NACK_SEQUENCE_AT);
		nack->index = load_be16(body + NACK_INDEX_AT);
	}
	return nack->reason == NACK_NONE || nack->reason > NACK_BAD_WINDOW ? THOLE_ERR_PROTOCOL : 0;
}

static int decode_host(struct packet *packet, const uint8_t *body, size_t length, uint8_t type)
{
	struct packet_host *host = &packet->host;
	size_t name_length;

	if (length < HOST_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->type = type;
	host->index = load_be16(body + HOST_INDEX_AT);
	host->magic = load_be32(body + HOST_MAGIC_AT);
	name_length = type == PACKET_REPLY ? body[HOST_NAME_LENGTH_AT] : 0;
	if (name_length > PACKET_NAME_MAX || length - HOST_LENGTH < name_length)
		return THOLE_ERR_PROTOCOL;
	host->name_length = (uint8_t)name_length;
	memcpy(host->name, body + HOST_LENGTH, name_length);
	return 0;
}

static int decode_hello(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < HELLO_SERIAL_AT + 4) /* what follows is padding in all but name */
		return THOLE_ERR_PROTOCOL;
	packet->type = PACKET_HELLO;
	packet->host.mac = load_be64(body + HELLO_MAC_AT);
	packet->host.serial = load_be32(body + HELLO_SERIAL_AT);
	return 0;
}

static int decode_body(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	switch (body[BODY_TYPE_AT]) {
	case MXOE_RAW:
		return decode_hello(packet, body, length);
	case MXOE_QUERY:
		return decode_host(packet, body, length, PACKET_QUERY);
	case MXOE_REPLY:
		return decode_host(packet, body, length, PACKET_REPLY);
	case MXOE_TRUC:
		return decode_truc(packet, body, length);
	case MXOE_CONNECT:
		return decode_connect(packet, body, length);
	case MXOE_TINY:
		return decode_short(packet, body, length, MXOE_TINY_MAX);
	case MXOE_SMALL:
		return decode_short(packet, body, length, MXOE_SMALL_MAX);
	case MXOE_MEDIUM:
		return decode_medium(packet, body, length, mode);
	case MXOE_RENDEZVOUS:
		return decode_rendezvous(packet, body, length);
	case MXOE_PULL:
		return decode_pull(packet, body, length, mode);
	case MXOE_PULL_REPLY:
		return decode_data(packet, body, length, mode);
	case MXOE_NOTIFY:
		return decode_notify(packet, body, length);
	case MXOE_NACK_LIBRARY:
		return decode_nack(packet, body, length, false);
	case MXOE_NACK_DRIVER:
		return decode_nack(packet, body, length, true);
	default:
		return THOLE_ERR_PROTOCOL;
	}
}

static int mxoe_decode(struct packet *packet, const uint8_t *frame, size_t length, const struct mode *mode)
{
	*packet = (struct packet){0};
	if (length <= MXOE_HEAD)
		return THOLE_ERR_PROTOCOL;
	packet->peer_index = load_be16(frame);
	return decode_body(packet, frame + MXOE_HEAD, length - MXOE_HEAD, mode);
}

static int mxoe_decode_mx(struct packet *packet, const uint8_t *frame, size_t length)
{
	return mxoe_decode(packet, frame, length, &mode_mx);
}

static int mxoe_decode_jumbo(struct packet *packet, const uint8_t *frame, size_t length)
{
	return mxoe_decode(packet, frame, length, &mode_jumbo);
}

/* ---- Frames that are encoded already -------------------------------------------------------------- */

/* A connect has no acknowledgement. */
static void mxoe_restamp(uint8_t *frame, uint32_t ack, uint16_t credit, uint8_t flags)
{
	(void)flags;
	uint8_t *body = frame + MXOE_HEAD, type = body[BODY_TYPE_AT];

	(void)credit;
	if (type == MXOE_NOTIFY)
		store_be16(body + NOTIFY_ACK_AT, (uint16_t)ack);
	else if (type >= MXOE_TINY && type <= MXOE_RENDEZVOUS)
		store_be16(body + MESSAGE_ACK_AT, (uint16_t)ack);
}

/* What both modes have in common. A receiver holds 255 messages ahead; half of the sequence numbers less one may be
 * unacknowledged; what is lost goes again after half a second, a pull after one. Connects always have the number 0. */
#define MXOE_LIMITS                                                                                                    \
	.sequence_bits = 14, .ahead_max = 255, .unacked_max = 8191, .ack_every = 4, .ack_delay_ns = 8000000,           \
	.eager_max = MXOE_MEDIUM_MAX, .messages_only = true, .blocks_max = 4,                                          \
	.windows_max = 256, .length_max = UINT32_MAX,                                                                  \
	.resend_ns = 500000000, .pull_ns = 1000000000, .record_head = MXOE_HEAD + MEDIUM_LENGTH,                       \
	.piece_head = MXOE_HEAD + MEDIUM_LENGTH, .data_head = MXOE_HEAD + DATA_LENGTH, .restamp = mxoe_restamp

const struct codec codec_mxoe = {
	.name = "mxoe",
	MXOE_LIMITS,
	.fragment = MX_PAYLOAD,
	.fragments_max = 8,
	.data = MX_PAYLOAD,
	.block_frames = 8,
	.encode = mxoe_encode_mx,
	.decode = mxoe_decode_mx,
};

const struct codec codec_mxoe_jumbo = {
	.name = "mxoe-jumbo",
	MXOE_LIMITS,
	.fragment = JUMBO_FRAGMENT,
	.fragments_max = 4,
	.data = JUMBO_FRAME,
	.block_frames = 32,
	.encode = mxoe_encode_jumbo,
	.decode = mxoe_decode_jumbo,
};
