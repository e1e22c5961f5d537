/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * mxoe: the codec of hosts with MX or Open-MX, in both its modes. MX mode has payloads of 4096 bytes and is what MX
 * speaks; jumbo mode, which only Open-MX has, fills frames of 9000 bytes. What is where in a body is in
 * mxoe.fields, of which mxoe_fields.h is made: *_AT and *_LENGTH, *_store and *_load. Here is what decides. Pure.
 *
 * Invariants. All numbers are big-endian; a frame is the peer index and then a body. Fields that nobody looks at are
 * written as 0 and skipped when reading, but for the checksum of messages, which is kept as found. Whatever decodes
 * fits its message: a fragment is where its number says and as long as it must be, a block ends within what is pulled.
 *
 * A message's class is not in the packet but follows from its length: tiny, small, medium; `medium` asks for that one
 * where a shorter would do.
 */
#include <string.h>

#include "base/endian.h"
#include "thole.h"
#include "transport/datagram/wire/codec.h"
#include "transport/datagram/wire/mxoe_fields.h"

enum {
	MXOE_TINY_MAX = 32,
	MXOE_SMALL_MAX = 128,
	MXOE_MEDIUM_MAX = 32 << 10,
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

_Static_assert((int)FRAME_LENGTH + (int)QUERY_LENGTH + (int)PACKET_NAME_MAX <= (int)PACKET_HEAD_MAX, "heads fit");

/* ---- Encode ------------------------------------------------------------------------------------- */

static void mxoe_encode_front(const struct packet *packet, uint8_t *body, uint8_t type)
{
	body[FRONT_TYPE_AT] = type;
	front_store(packet, body);
}

static void mxoe_encode_message(const struct packet *packet, uint8_t *body, uint8_t type, uint32_t bytes)
{
	mxoe_encode_front(packet, body, type);
	store_be16(body + MESSAGE_LENGTH_AT, (uint16_t)bytes);
	message_store(packet, body);
}

static size_t mxoe_encode_medium(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	const struct packet_message *message = &packet->message;
	uint32_t total = message->total ? (uint32_t)message->total : packet->length;

	if (message->total > MXOE_MEDIUM_MAX || packet->length > mode->fragment)
		return 0;
	mxoe_encode_message(packet, body, MXOE_MEDIUM, total);
	if (mode->jumbo)
		store_be32(body + MEDIUM_JUMBO_TOTAL_AT, total);
	else
		store_be16(body + MESSAGE_CHECKSUM_AT, 0);
	store_be16(body + MEDIUM_FRAGMENT_LENGTH_AT, (uint16_t)packet->length);
	body[MEDIUM_FRAGMENT_LOG_AT] = mode->fragment_log;
	medium_store(packet, body);
	return MEDIUM_LENGTH;
}

static size_t mxoe_encode_eager(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	if (packet->message.medium || packet->message.total > MXOE_SMALL_MAX || packet->length > MXOE_SMALL_MAX)
		return mxoe_encode_medium(packet, body, mode);
	mxoe_encode_message(packet, body, packet->length > MXOE_TINY_MAX ? MXOE_SMALL : MXOE_TINY, packet->length);
	return TINY_LENGTH;
}

static size_t mxoe_encode_rts(const struct packet *packet, uint8_t *body)
{
	struct window window;

	window_load(&window, &packet->message.record);
	if (window.length > UINT32_MAX)
		return 0;
	mxoe_encode_message(packet, body, MXOE_RENDEZVOUS, MXOE_RENDEZVOUS_DATA);
	store_be32(body + RENDEZVOUS_TOTAL_AT, (uint32_t)window.length);
	body[RENDEZVOUS_WINDOW_ID_AT] = (uint8_t)window.id;
	body[RENDEZVOUS_WINDOW_SEQUENCE_AT] = (uint8_t)(window.id >> 8);
	store_be16(body + RENDEZVOUS_WINDOW_OFFSET_AT, (uint16_t)(window.id >> 16));
	return RENDEZVOUS_LENGTH;
}

static size_t mxoe_encode_finish(const struct packet *packet, uint8_t *body)
{
	mxoe_encode_front(packet, body, MXOE_NOTIFY);
	notify_store(packet, body);
	return NOTIFY_LENGTH;
}

static size_t mxoe_encode_record(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	switch (packet->message.record.kind) {
	case RECORD_EAGER:
		return mxoe_encode_eager(packet, body, mode);
	case RECORD_PIECE:
		return mxoe_encode_medium(packet, body, mode);
	case RECORD_RTS:
		return mxoe_encode_rts(packet, body);
	case RECORD_FINISH:
		return mxoe_encode_finish(packet, body);
	default:
		return 0;
	}
}

static size_t mxoe_encode_connect(const struct packet *packet, uint8_t *body)
{
	const struct packet_connect *connect = &packet->connect;
	bool reply = packet->type == PACKET_ACCEPT;

	mxoe_encode_front(packet, body, MXOE_CONNECT);
	connect_store(packet, body);
	store_be32(body + CONNECT_SESSION_AT, (uint32_t)(reply ? connect->echo : connect->session));
	if (reply)
		store_be32(body + CONNECT_TARGET_AT, (uint32_t)connect->session);
	else
		store_be32(body + CONNECT_KEY_AT, (uint32_t)connect->proof);
	body[CONNECT_REPLY_AT] = reply;
	body[CONNECT_STATUS_AT] = reply ? connect->status : 0;
	return CONNECT_LENGTH;
}

static size_t mxoe_encode_ack(const struct packet *packet, uint8_t *body)
{
	mxoe_encode_front(packet, body, MXOE_TRUC);
	truc_store(packet, body);
	body[TRUC_TYPE_AT] = MXOE_ACK_TYPE;
	return TRUC_LENGTH;
}

static size_t mxoe_encode_pull(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	const struct packet_pull *pull = &packet->pull;

	if (pull->total > UINT32_MAX ||
	    (!mode->jumbo && (pull->frame_offset > UINT16_MAX || pull->length > UINT16_MAX)))
		return 0;
	mxoe_encode_front(packet, body, MXOE_PULL);
	pulled_store(packet, body);
	if (!mode->jumbo) {
		pull_store(packet, body);
		return PULL_LENGTH;
	}
	pull_jumbo_store(packet, body);
	store_be32(body + PULL_JUMBO_WINDOW_ID_AT, (uint8_t)pull->window); /* less than the field has room for */
	return PULL_JUMBO_LENGTH;
}

static size_t mxoe_encode_data(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	if (packet->data.offset > UINT32_MAX || packet->length > mode->frame)
		return 0;
	body[PULL_REPLY_TYPE_AT] = MXOE_PULL_REPLY;
	store_be16(body + PULL_REPLY_LENGTH_AT, (uint16_t)packet->length);
	pull_reply_store(packet, body);
	return PULL_REPLY_LENGTH;
}

static size_t mxoe_encode_nack(const struct packet *packet, uint8_t *body)
{
	if (packet->nack.driver) {
		body[NACK_DRIVER_TYPE_AT] = MXOE_NACK_DRIVER;
		nack_driver_store(packet, body);
		return NACK_DRIVER_LENGTH;
	}
	body[NACK_LIBRARY_TYPE_AT] = MXOE_NACK_LIBRARY;
	nack_library_store(packet, body);
	return NACK_LIBRARY_LENGTH;
}

static size_t mxoe_encode_host(const struct packet *packet, uint8_t *body)
{
	const struct packet_host *host = &packet->host;
	uint8_t name_length = packet->type == PACKET_REPLY ? host->name_length : 0;

	if (name_length > PACKET_NAME_MAX)
		return 0;
	body[QUERY_TYPE_AT] = packet->type == PACKET_REPLY ? MXOE_REPLY : MXOE_QUERY;
	body[QUERY_HOST_NAME_LENGTH_AT] = name_length;
	query_store(packet, body);
	memcpy(body + QUERY_LENGTH, host->name, name_length);
	return QUERY_LENGTH + (size_t)name_length;
}

static size_t mxoe_encode_hello(const struct packet *packet, uint8_t *body)
{
	body[RAW_TYPE_AT] = MXOE_RAW;
	raw_store(packet, body);
	return RAW_LENGTH;
}

static size_t mxoe_encode_body(const struct packet *packet, uint8_t *body, const struct mode *mode)
{
	switch (packet->type) {
	case PACKET_RECORD:
		return mxoe_encode_record(packet, body, mode);
	case PACKET_DATA:
		return mxoe_encode_data(packet, body, mode);
	case PACKET_PULL:
		return mxoe_encode_pull(packet, body, mode);
	case PACKET_ACK:
		return mxoe_encode_ack(packet, body);
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		return mxoe_encode_connect(packet, body);
	case PACKET_NACK:
		return mxoe_encode_nack(packet, body);
	case PACKET_QUERY:
	case PACKET_REPLY:
		return mxoe_encode_host(packet, body);
	case PACKET_HELLO:
		return mxoe_encode_hello(packet, body);
	default:
		return 0;
	}
}

static size_t mxoe_encode(const struct packet *packet, uint8_t *head, const struct mode *mode)
{
	size_t length;

	memset(head, 0, FRAME_LENGTH + RAW_LENGTH); /* the longest with gaps */
	frame_store(packet, head);
	length = mxoe_encode_body(packet, head + FRAME_LENGTH, mode);
	return length ? FRAME_LENGTH + length : 0;
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

static void mxoe_decode_front(struct packet *packet, uint8_t type, const uint8_t *body)
{
	packet->type = type;
	front_load(packet, body);
}

static void mxoe_decode_message(struct packet *packet, uint8_t kind, const uint8_t *body)
{
	mxoe_decode_front(packet, PACKET_RECORD, body);
	packet->message.record.kind = kind;
	message_load(packet, body);
}

/* The payload of a frame whose head says its length. */
static int mxoe_decode_payload(struct packet *packet, const uint8_t *body, size_t head, size_t length, uint32_t payload)
{
	if (length < head || length - head < payload)
		return THOLE_ERR_PROTOCOL;
	packet->payload = body + head;
	packet->length = payload;
	return 0;
}

static int mxoe_decode_short(struct packet *packet, const uint8_t *body, size_t length, uint32_t max)
{
	uint32_t bytes;

	if (length < TINY_LENGTH)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_message(packet, RECORD_EAGER, body);
	bytes = load_be16(body + MESSAGE_LENGTH_AT);
	packet->message.total = bytes;
	packet->message.record.length = (uint16_t)bytes;
	return bytes > max ? THOLE_ERR_PROTOCOL : mxoe_decode_payload(packet, body, TINY_LENGTH, length, bytes);
}

/* The first of several fragments is a record with more to come, the further ones are pieces. */
static void mxoe_decode_fragment(struct packet *packet)
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

static int mxoe_decode_medium(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	struct packet_message *message = &packet->message;
	uint32_t total, bytes, offset;

	if (length < MEDIUM_LENGTH)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_message(packet, RECORD_EAGER, body);
	medium_load(packet, body);
	total = mode->jumbo ? load_be32(body + MEDIUM_JUMBO_TOTAL_AT) : load_be16(body + MEDIUM_TOTAL_AT);
	bytes = load_be16(body + MEDIUM_FRAGMENT_LENGTH_AT);
	message->medium = true;
	message->total = total;
	message->fragment_log = mode->jumbo ? 0 : body[MEDIUM_FRAGMENT_LOG_AT];
	offset = message->fragment * mode->fragment;
	if (total > MXOE_MEDIUM_MAX || message->fragment_log != mode->fragment_log || offset > total ||
	    (offset == total && message->fragment > 0) ||
	    bytes != (total - offset < mode->fragment ? total - offset : mode->fragment))
		return THOLE_ERR_PROTOCOL;
	if (mxoe_decode_payload(packet, body, MEDIUM_LENGTH, length, bytes) != 0)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_fragment(packet);
	return 0;
}

static int mxoe_decode_rendezvous(struct packet *packet, const uint8_t *body, size_t length)
{
	struct window window = {.count = 1};

	if (length < RENDEZVOUS_LENGTH)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_message(packet, RECORD_RTS, body);
	window.length = load_be32(body + RENDEZVOUS_TOTAL_AT);
	window.id = body[RENDEZVOUS_WINDOW_ID_AT] | (uint32_t)body[RENDEZVOUS_WINDOW_SEQUENCE_AT] << 8 |
		    (uint64_t)load_be16(body + RENDEZVOUS_WINDOW_OFFSET_AT) << 16;
	window_store(&window, &packet->message.record);
	packet->message.record.length = RECORD_EXTERNAL;
	packet->message.total = window.length;
	return 0;
}

static int mxoe_decode_notify(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < NOTIFY_LENGTH)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_front(packet, PACKET_RECORD, body);
	packet->message.record.kind = RECORD_FINISH;
	notify_load(packet, body);
	return 0;
}

static int mxoe_decode_connect(struct packet *packet, const uint8_t *body, size_t length)
{
	struct packet_connect *connect = &packet->connect;

	if (length < CONNECT_LENGTH || body[CONNECT_REPLY_AT] > 1)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_front(packet, body[CONNECT_REPLY_AT] ? PACKET_ACCEPT : PACKET_CONNECT, body);
	connect_load(packet, body);
	if (packet->type == PACKET_ACCEPT) {
		connect->echo = load_be32(body + CONNECT_SESSION_AT);
		connect->session = load_be32(body + CONNECT_TARGET_AT);
		connect->status = body[CONNECT_STATUS_AT];
	} else {
		connect->session = load_be32(body + CONNECT_SESSION_AT);
		connect->proof = load_be32(body + CONNECT_KEY_AT);
	}
	return 0;
}

static int mxoe_decode_truc(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < TRUC_LENGTH || body[TRUC_TYPE_AT] != MXOE_ACK_TYPE)
		return THOLE_ERR_PROTOCOL;
	mxoe_decode_front(packet, PACKET_ACK, body);
	truc_load(packet, body);
	return 0;
}

static int mxoe_decode_pull_mx(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < PULL_LENGTH)
		return THOLE_ERR_PROTOCOL;
	pull_load(packet, body);
	return 0;
}

static int mxoe_decode_pull_jumbo(struct packet *packet, const uint8_t *body, size_t length)
{
	/* Of a window's id a rendezvous has eight bits. */
	if (length < PULL_JUMBO_LENGTH || load_be32(body + PULL_JUMBO_WINDOW_ID_AT) > UINT8_MAX)
		return THOLE_ERR_PROTOCOL;
	pull_jumbo_load(packet, body);
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

static int mxoe_decode_pull(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	int rc = mode->jumbo ? mxoe_decode_pull_jumbo(packet, body, length) : mxoe_decode_pull_mx(packet, body, length);

	if (rc != 0)
		return rc;
	mxoe_decode_front(packet, PACKET_PULL, body);
	pulled_load(packet, body);
	return pull_place(&packet->pull, mode);
}

static int mxoe_decode_data(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	uint32_t bytes;

	if (length < PULL_REPLY_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->type = PACKET_DATA;
	pull_reply_load(packet, body);
	bytes = load_be16(body + PULL_REPLY_LENGTH_AT);
	return bytes > mode->frame ? THOLE_ERR_PROTOCOL
				   : mxoe_decode_payload(packet, body, PULL_REPLY_LENGTH, length, bytes);
}

static int mxoe_decode_nack(struct packet *packet, const uint8_t *body, size_t length, bool driver)
{
	struct packet_nack *nack = &packet->nack;

	if (length < (driver ? NACK_DRIVER_LENGTH : NACK_LIBRARY_LENGTH))
		return THOLE_ERR_PROTOCOL;
	packet->type = PACKET_NACK;
	nack->driver = driver;
	if (driver)
		nack_driver_load(packet, body);
	else
		nack_library_load(packet, body);
	return nack->reason == NACK_NONE || nack->reason > NACK_BAD_WINDOW ? THOLE_ERR_PROTOCOL : 0;
}

static int mxoe_decode_host(struct packet *packet, const uint8_t *body, size_t length, uint8_t type)
{
	struct packet_host *host = &packet->host;
	size_t name_length;

	if (length < QUERY_LENGTH)
		return THOLE_ERR_PROTOCOL;
	packet->type = type;
	query_load(packet, body);
	name_length = type == PACKET_REPLY ? body[QUERY_HOST_NAME_LENGTH_AT] : 0;
	if (name_length > PACKET_NAME_MAX || length - QUERY_LENGTH < name_length)
		return THOLE_ERR_PROTOCOL;
	host->name_length = (uint8_t)name_length;
	memcpy(host->name, body + QUERY_LENGTH, name_length);
	return 0;
}

static int mxoe_decode_hello(struct packet *packet, const uint8_t *body, size_t length)
{
	if (length < RAW_HELLO_SERIAL_AT + 4) /* what follows is padding in all but name */
		return THOLE_ERR_PROTOCOL;
	packet->type = PACKET_HELLO;
	raw_load(packet, body);
	return 0;
}

static int mxoe_decode_body(struct packet *packet, const uint8_t *body, size_t length, const struct mode *mode)
{
	switch (body[FRONT_TYPE_AT]) {
	case MXOE_RAW:
		return mxoe_decode_hello(packet, body, length);
	case MXOE_QUERY:
		return mxoe_decode_host(packet, body, length, PACKET_QUERY);
	case MXOE_REPLY:
		return mxoe_decode_host(packet, body, length, PACKET_REPLY);
	case MXOE_TRUC:
		return mxoe_decode_truc(packet, body, length);
	case MXOE_CONNECT:
		return mxoe_decode_connect(packet, body, length);
	case MXOE_TINY:
		return mxoe_decode_short(packet, body, length, MXOE_TINY_MAX);
	case MXOE_SMALL:
		return mxoe_decode_short(packet, body, length, MXOE_SMALL_MAX);
	case MXOE_MEDIUM:
		return mxoe_decode_medium(packet, body, length, mode);
	case MXOE_RENDEZVOUS:
		return mxoe_decode_rendezvous(packet, body, length);
	case MXOE_PULL:
		return mxoe_decode_pull(packet, body, length, mode);
	case MXOE_PULL_REPLY:
		return mxoe_decode_data(packet, body, length, mode);
	case MXOE_NOTIFY:
		return mxoe_decode_notify(packet, body, length);
	case MXOE_NACK_LIBRARY:
		return mxoe_decode_nack(packet, body, length, false);
	case MXOE_NACK_DRIVER:
		return mxoe_decode_nack(packet, body, length, true);
	default:
		return THOLE_ERR_PROTOCOL;
	}
}

static int mxoe_decode(struct packet *packet, const uint8_t *frame, size_t length, const struct mode *mode)
{
	*packet = (struct packet){0};
	if (length <= FRAME_LENGTH)
		return THOLE_ERR_PROTOCOL;
	frame_load(packet, frame);
	return mxoe_decode_body(packet, frame + FRAME_LENGTH, length - FRAME_LENGTH, mode);
}

static int mxoe_decode_mx(struct packet *packet, const uint8_t *frame, size_t length)
{
	return mxoe_decode(packet, frame, length, &mode_mx);
}

static int mxoe_decode_jumbo(struct packet *packet, const uint8_t *frame, size_t length)
{
	return mxoe_decode(packet, frame, length, &mode_jumbo);
}

/* The modes differ in these, and no peer writes one that both decode. (DATA does not say which it is of.) */
static bool mxoe_other(struct packet *packet, const uint8_t *frame, size_t length, const struct mode *other)
{
	return mxoe_decode(packet, frame, length, other) == 0 &&
	       (packet->type == PACKET_PULL || (packet->type == PACKET_RECORD && packet->message.medium));
}

static bool mxoe_other_mx(struct packet *packet, const uint8_t *frame, size_t length)
{
	return mxoe_other(packet, frame, length, &mode_jumbo);
}

static bool mxoe_other_jumbo(struct packet *packet, const uint8_t *frame, size_t length)
{
	return mxoe_other(packet, frame, length, &mode_mx);
}

/* ---- Frames that are encoded already -------------------------------------------------------------- */

/* A connect has no acknowledgement. */
static void mxoe_restamp(uint8_t *frames, size_t count, size_t length, uint32_t ack, uint16_t credit, uint8_t flags)
{
	(void)credit;
	(void)flags;
	for (uint8_t *body = frames + FRAME_LENGTH; count > 0; count--, body += length) {
		uint8_t type = body[FRONT_TYPE_AT];

		if (type == MXOE_NOTIFY)
			store_be16(body + NOTIFY_ACK_AT, (uint16_t)ack);
		else if (type >= MXOE_TINY && type <= MXOE_RENDEZVOUS)
			store_be16(body + MESSAGE_ACK_AT, (uint16_t)ack);
	}
}

/* What both modes have in common. A receiver holds 255 messages ahead; half of the sequence numbers less one may be
 * unacknowledged; what is lost goes again after half a second, a pull after one. Connects always have the number 0. */
#define MXOE_LIMITS                                                                                                    \
	.sequence_bits = 14, .ahead_max = 255, .unacked_max = 8191, .ack_every = 4, .ack_delay_ns = 8000000,           \
	.credit_first = 0, .credit_unsaid = 255, .eager_max = MXOE_MEDIUM_MAX, .messages_only = true, .blocks_max = 4, \
	.pull_blocks = 1, .length_max = UINT32_MAX, .resend_ns = 500000000, .pull_ns = 1000000000,                     \
	.record_head = FRAME_LENGTH + MEDIUM_LENGTH, .piece_head = FRAME_LENGTH + MEDIUM_LENGTH,                       \
	.data_head = FRAME_LENGTH + PULL_REPLY_LENGTH, .restamp = mxoe_restamp

const struct codec codec_mxoe = {
	.name = "mxoe",
	MXOE_LIMITS,
	.fragment = MX_PAYLOAD,
	.fragments_max = 8,
	.data = MX_PAYLOAD,
	.block_frames = 8,
	.encode = mxoe_encode_mx,
	.decode = mxoe_decode_mx,
	.foreign = mxoe_other_mx,
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
	.foreign = mxoe_other_jumbo,
};
