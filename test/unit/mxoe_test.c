/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine among hosts with Open-MX: it takes the place of one endpoint of a capture, and hears what that one heard,
 * at the same times. What its application did follows from what it sent. Frames that name something which the engine
 * has chosen itself (windows, handles of pulls) are made to name that.
 *
 * Two things are checked. What the engine says is judged by what the other host would have taken: a model of its
 * rules, not the bytes of the capture. And all messages that were sent to it arrive, with their bytes, in order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/endian.h"
#include "capture.h"
#include "endpoint/endpoint.h"
#include "message/message.h"
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/datagram.h"

enum {
	KEY = 0xc0ffee5,
	NAMING = 256,
	/* endpoints of the other host: the captures have few, whose numbers differ modulo this */
	PARTNERS = 32,
	SEQUENCES = 1 << 14,
	MESSAGES_MAX = 256,     /* of one partner, each way */
	FRAGMENTS_MAX = 8,
	WINDOWS_MAX = 64,
	BLOCKS_MAX = 32,        /* of a pull */
	BLOCKS_OUT = 4,
	PULLS_MAX = 128,
	RECEIVES = 3,           /* posted at a time; further messages are unexpected */
	LENGTH_MAX = 1 << 20,
	LEAST_AGAIN_NS = 400000000, /* nothing goes again sooner */
	ACK_LATEST_NS = 16000000,
	ACK_AT_ONCE = 4,
};

/* What goes one way. */
struct said {
	uint64_t tag;
	uint32_t length;
	uint8_t *bytes;
	bool offered, over;
	uint8_t window, sequence; /* of an RTS, as the capture has them */
	uint16_t own_window;      /* and the engine, of its own */
};

/* A window of a partner's, and what has been pulled of it. */
struct window_of {
	uint8_t window, sequence;
	uint32_t length;
	bool open, refused;
	uint64_t transfer;        /* the engine's latest handle and magic, */
	uint32_t asked;           /* bytes asked for in new blocks */
	uint64_t blocks[BLOCKS_MAX]; /* frames of each block that have come */
};

struct transfer_of {
	uint64_t transfer;        /* a PULL's of the capture */
	uint8_t number, window, sequence;
	uint32_t from, length;    /* a script's PULL: what it asks for, for the answers */
	uint16_t next;            /* frame of it that comes next */
	uint32_t frame_index, frame_offset;
	struct said *message;
};

/* An endpoint of the other host. */
struct partner {
	bool known, lost, silent; /* silent: it takes nothing, so nobody need acknowledge it or be heard */
	uint32_t session;
	uint16_t index;           /* that frames to it must have in their head */
	/* from it to the engine */
	uint16_t next, epoch_in;
	uint8_t have[SEQUENCES];  /* fragments of each message ahead, */
	struct said *waiting[SEQUENCES];
	uint32_t unacked;
	uint64_t unacked_ns;
	bool ack_now;
	struct said in[MESSAGES_MAX];
	unsigned in_count, in_seen; /* in_seen: acknowledgements can be as far */
	/* from the engine to it */
	bool opened;
	uint16_t out_base, out_next, out_acked, epoch;
	uint8_t fragment;
	uint64_t sent_ns[SEQUENCES];
	uint32_t ack_number;
	struct said out[MESSAGES_MAX];
	unsigned out_count, out_said;
	struct window_of windows[WINDOWS_MAX];
	unsigned window_count;
	/* of the capture */
	uint32_t last_seen;       /* sequence of the last new message to it */
	uint32_t seen_session;
	bool asked;               /* the application has begun to connect */
};

static struct play {
	struct capture capture;
	unsigned side;
	uint8_t number;
	uint32_t session;
	const struct codec *codec;
	struct link link;
	struct path other;
	struct thole_endpoint *endpoint;
	struct partner *partners;
	struct transfer_of pulls[PULLS_MAX];   /* of this side, in the capture */
	struct transfer_of serves[PULLS_MAX];  /* of the script */
	unsigned pull_count, serve_count;
	const struct capture_frame *arriving;
	uint8_t frame[CAPTURE_FRAME_MAX];
	uint64_t now_ns;
	uint8_t *buffers[RECEIVES];
	bool naming_here[NAMING];
	uint8_t lot;              /* what is drawn, */
	unsigned draws;           /* and how often something was */
	/* what came out since the last frame went in */
	unsigned acks, nacks, replies, accepts;
	uint8_t nack_reason;
	bool nack_driver;
	uint16_t head_index;
	unsigned delivered, refused, sent_messages, sent_bulk;
} play;

static const uint8_t *body_of(const struct capture_frame *frame)
{
	return frame->bytes + CAPTURE_ETHERNET + 2;
}

static struct partner *partner(uint32_t number)
{
	assert_true(number < NAMING);
	return &play.partners[number % PARTNERS];
}

/* ---- What the engine says, judged ------------------------------------------------------------------------ */

static void judge_head(const struct packet *packet, const struct partner *to)
{
	assert_int_equal(packet->from, play.number);
	assert_int_equal(packet->generation, 0);
	assert_true(to->known);
	assert_int_equal(packet->session, to->session);
	assert_int_equal(packet->peer_index, to->index);
}

/* An acknowledgement rides along: of all that has arrived in order, and no more. */
static void judge_ack(const struct packet *packet, struct partner *to)
{
	assert_int_equal(packet->ack, to->next | to->epoch_in);
	to->unacked = 0;
	to->ack_now = false;
}

static struct window_of *window_of(struct partner *from, uint8_t window, uint8_t sequence)
{
	for (unsigned i = from->window_count; i-- > 0;)
		if (from->windows[i].window == window && from->windows[i].sequence == sequence)
			return &from->windows[i];
	return NULL;
}

static uint32_t mxoe_block_bytes(void)
{
	return play.codec->block_frames * play.codec->data;
}

/* Blocks that are asked for and not all there. */
static unsigned blocks_out(const struct window_of *window)
{
	unsigned out = 0;

	for (uint32_t i = 0; i * mxoe_block_bytes() < window->asked; i++) {
		uint32_t most = mxoe_block_bytes(), left = window->length - i * most, bytes = left < most ? left : most;
		uint32_t frames = (bytes + play.codec->data - 1) / play.codec->data;

		out += window->blocks[i] != (UINT64_C(1) << frames) - 1;
	}
	return out;
}

static void judge_finish(const struct packet *packet, struct partner *to)
{
	uint64_t id = packet->message.record.tag;
	struct window_of *window = window_of(to, (uint8_t)id, (uint8_t)(id >> 8));

	assert_non_null(window);
	assert_true(window->open);
	window->open = false;
	if (window->refused) {
		assert_int_equal(packet->message.total, 0);
		return;
	}
	assert_int_equal(packet->message.total, window->length);
	assert_int_equal(window->asked, window->length);
	assert_int_equal(blocks_out(window), 0);
}

/* The next message that the application has sent to this partner. */
static struct said *next_said(struct partner *to)
{
	assert_true(to->out_said < to->out_count);
	return &to->out[to->out_said];
}

static void judge_data_message(const struct packet *packet, struct partner *to)
{
	struct said *said = next_said(to);
	uint32_t offset = to->fragment * play.codec->fragment;

	assert_false(said->offered);
	assert_int_equal(packet->message.record.tag, said->tag);
	assert_int_equal(packet->message.total, said->length);
	assert_int_equal(packet->message.medium, said->length > 128);
	assert_int_equal(packet->message.fragment, to->fragment);
	assert_true(offset + packet->length <= said->length);
	assert_memory_equal(packet->payload, said->bytes + offset, packet->length);
	if (offset + packet->length < said->length) {
		assert_int_equal(packet->length, play.codec->fragment);
		to->fragment++;
		return;
	}
	to->fragment = 0;
	to->out_said++;
	to->out_next = (uint16_t)((to->out_next + 1) % SEQUENCES);
}

static void judge_rts(const struct packet *packet, struct partner *to)
{
	struct said *said = next_said(to);
	struct window window;

	window_load(&window, &packet->message.record);
	assert_true(said->offered);
	assert_int_equal(packet->message.record.tag, said->tag);
	assert_int_equal(window.length, said->length);
	assert_int_equal(window.id >> 16, 0);
	for (unsigned i = 0; i < to->out_said; i++) /* no two windows are open under one id */
		assert_true(!to->out[i].offered || to->out[i].over || to->out[i].own_window != (uint16_t)window.id);
	said->own_window = (uint16_t)window.id;
	to->out_said++;
	to->out_next = (uint16_t)((to->out_next + 1) % SEQUENCES);
}

static void judge_record(const struct packet *packet, struct partner *to)
{
	uint16_t number = packet->sequence % SEQUENCES;

	judge_head(packet, to);
	judge_ack(packet, to);
	assert_true(to->opened);
	assert_int_equal(packet->sequence - number, to->epoch);
	if (number != to->out_next) {
		uint32_t before = (uint32_t)(to->out_next - number) % SEQUENCES;

		assert_in_range(before, 1, (to->out_next - to->out_base) % SEQUENCES);
		assert_true(packet->message.fragment > 0 || play.now_ns - to->sent_ns[number] >= LEAST_AGAIN_NS);
		to->sent_ns[number] = play.now_ns;
		return;
	}
	to->sent_ns[number] = play.now_ns;
	if (packet->message.record.kind == RECORD_FINISH) {
		judge_finish(packet, to);
		to->out_next = (uint16_t)((to->out_next + 1) % SEQUENCES);
		return;
	}
	play.sent_messages += to->fragment == 0;
	if (packet->message.record.kind == RECORD_RTS)
		judge_rts(packet, to);
	else
		judge_data_message(packet, to);
}

static void judge_truc(const struct packet *packet, struct partner *to)
{
	judge_head(packet, to);
	judge_ack(packet, to);
	assert_int_equal(packet->acked.session, to->session);
	assert_int_equal(packet->acked.send, packet->ack);
	assert_int_equal(packet->acked.number, ++to->ack_number);
	play.acks++;
}

static void judge_pull(const struct packet *packet, struct partner *to)
{
	const struct packet_pull *pull = &packet->pull;
	struct window_of *window = window_of(to, (uint8_t)pull->window, (uint8_t)(pull->window >> 8));

	judge_head(packet, to);
	assert_int_equal(pull->transfer & UINT32_MAX, UINT32_C(0x21071980) ^ play.number);
	if (!window && pull->window == 0xffff)
		return; /* it only asks whether somebody is there */
	assert_non_null(window);
	assert_true(window->open);
	assert_int_equal(pull->total, window->length);
	assert_int_equal(pull->frame_offset, 0);
	/* New blocks are whole, and of others that part is asked for again in which something is missing. */
	assert_true(pull->length > 0 && pull->length <= mxoe_block_bytes());
	if (pull->offset == window->asked) {
		assert_int_equal(pull->offset % mxoe_block_bytes(), 0);
		assert_true(pull->length == mxoe_block_bytes() || pull->offset + pull->length == window->length);
	} else {
		assert_int_equal(pull->offset % play.codec->data, 0);
		assert_int_equal(pull->offset / mxoe_block_bytes(),
				 (pull->offset + pull->length - 1) / mxoe_block_bytes());
	}
	assert_true(!window->transfer || window->transfer == pull->transfer);
	window->transfer = pull->transfer;
	if (pull->offset == window->asked)
		window->asked += pull->length;
	else
		assert_true(pull->offset < window->asked);
	assert_in_range(blocks_out(window), 1, BLOCKS_OUT);
}

static void judge_data(const struct packet *packet)
{
	for (unsigned i = play.serve_count; i-- > 0;) {
		struct transfer_of *serve = &play.serves[i];
		uint64_t at = (uint64_t)serve->frame_index * play.codec->data + serve->frame_offset;

		if (serve->transfer != packet->data.transfer || packet->data.offset < serve->from ||
		    packet->data.offset + packet->length > serve->from + serve->length)
			continue;
		at += packet->data.offset - serve->from;
		assert_int_equal(packet->data.frame, at / play.codec->data % 256);
		assert_true(at % play.codec->data == 0 || packet->data.offset == serve->from);
		assert_memory_equal(packet->payload, serve->message->bytes + packet->data.offset, packet->length);
		play.sent_bulk++;
		return;
	}
	fail_msg("data that nobody has asked for");
}

static void judge_connect(const struct packet *packet)
{
	struct partner *to = partner(packet->to);

	assert_int_equal(packet->from, play.number);
	assert_int_equal(packet->connect.session, play.session);
	assert_int_equal(packet->connect.next, to->next | to->epoch_in);
	assert_int_equal(packet->sequence, 0);
	if (packet->type == PACKET_CONNECT) {
		assert_int_equal(packet->connect.proof, KEY);
		return;
	}
	assert_int_equal(packet->connect.echo, to->session);
	assert_int_equal(packet->peer_index, to->index);
	play.accepts += packet->connect.status == CONNECT_OK;
}

static void judge(const struct path *to, const uint8_t *bytes, size_t length)
{
	struct packet packet;

	assert_int_equal(play.codec->decode(&packet, bytes, length), 0);
	play.head_index = packet.peer_index;
	if (packet.type == PACKET_HELLO) {
		assert_int_equal(to->bytes[0], 0xff);
		assert_int_equal(packet.host.mac, UINT64_C(0x525400123400) | play.side);
		return;
	}
	if (memcmp(to, &play.other, sizeof(*to)) != 0)
		return; /* to a host that the captured ones did not listen to */
	switch (packet.type) {
	case PACKET_QUERY:
		return;
	case PACKET_REPLY:
		assert_int_equal(packet.host.magic, 0x13052008);
		/* the NUL counts: hosts write one over the last byte */
		assert_int_equal(packet.host.name_length, sizeof("host1:0"));
		assert_memory_equal(packet.host.name, "host1:0", sizeof("host1:0"));
		play.replies++;
		return;
	case PACKET_CONNECT:
	case PACKET_ACCEPT:
		judge_connect(&packet);
		return;
	case PACKET_DATA:
		judge_data(&packet);
		return;
	case PACKET_NACK:
		play.nacks++;
		assert_true(packet.nack.driver || packet.nack.index == packet.peer_index);
		play.nack_reason = packet.nack.reason;
		play.nack_driver = packet.nack.driver;
		return;
	case PACKET_RECORD:
		judge_record(&packet, partner(packet.to));
		return;
	case PACKET_ACK:
		judge_truc(&packet, partner(packet.to));
		return;
	default:
		assert_int_equal(packet.type, PACKET_PULL);
		judge_pull(&packet, partner(packet.to));
	}
}

/* ---- The link -------------------------------------------------------------------------------------------- */

static unsigned send_frames(struct link *link, const struct frame_out *frames, unsigned count)
{
	static uint8_t bytes[ENGINE_FRAME_MAX];

	(void)link;
	for (unsigned i = 0; i < count; i++) {
		size_t at = frames[i].head_length;

		memcpy(bytes, frames[i].head, at);
		for (unsigned k = 0; k < frames[i].body_count; k++) {
			memcpy(bytes + at, frames[i].body[k].iov_base, frames[i].body[k].iov_len);
			at += frames[i].body[k].iov_len;
		}
		judge(frames[i].to, bytes, at);
	}
	return count;
}

static unsigned receive_frames(struct link *link, unsigned budget)
{
	struct path from = {{0}};
	size_t length;

	(void)budget;
	if (!play.arriving)
		return 0;
	length = play.arriving->length - CAPTURE_ETHERNET;
	memcpy(from.bytes, play.arriving->bytes + 6, 6);
	play.arriving = NULL;
	engine_frame(link->engine, link, &from, play.frame + CAPTURE_ETHERNET, length);
	return 1;
}

static bool nothing_ready(struct link *link)
{
	(void)link;
	return false;
}

static uint32_t frame_max(struct link *link, const struct path *to)
{
	(void)link;
	(void)to;
	return 9000;
}

static void nothing_to_close(struct link *link)
{
	(void)link;
}

static const struct link_calls calls = {
	.name = "script", .send = send_frames, .receive = receive_frames, .cheap = true, .ready = nothing_ready,
	.kind = &kind_ethernet,
	.rank = {1, 1, 1},
	.frame_max = frame_max, .close = nothing_to_close,
};

/* ---- The script: what arrives ---------------------------------------------------------------------------- */

/* A message is whole, and all before it are there. */
static void model_advance(struct partner *from)
{
	while (from->waiting[from->next]) {
		assert_true(from->in_count < MESSAGES_MAX);
		if (from->waiting[from->next]->tag != UINT64_MAX)
			from->in[from->in_count++] = *from->waiting[from->next];
		free(from->waiting[from->next]);
		from->waiting[from->next] = NULL;
		from->have[from->next] = 0;
		from->next = (uint16_t)((from->next + 1) % SEQUENCES);
		if (from->unacked++ == 0)
			from->unacked_ns = play.now_ns;
	}
}

/* What a right receiver makes of a message: held, taken, known, or not wanted. */
static void model_message(struct partner *from, const struct packet *packet)
{
	uint32_t number = packet->sequence % SEQUENCES, ahead = (number - from->next) % SEQUENCES;
	const struct record *record = &packet->message.record;
	unsigned fragments = 1;
	struct said said = {.tag = record->tag, .length = (uint32_t)packet->message.total};

	if (packet->sequence - number != from->epoch_in || !from->known || from->lost ||
	    packet->session != play.session)
		return;
	if (ahead >= SEQUENCES / 2) {
		from->ack_now = true;
		return;
	}
	if (ahead > 255 || from->waiting[number])
		return;
	if (packet->message.medium && said.length > 0)
		fragments = (said.length + play.codec->fragment - 1) / play.codec->fragment;
	if (from->have[number] >> packet->message.fragment & 1) {
		from->ack_now |= ahead == 0;
		return;
	}
	from->have[number] |= (uint8_t)(1u << packet->message.fragment);
	if (from->have[number] != (1u << fragments) - 1)
		return;
	if (record->kind == RECORD_FINISH)
		said.tag = UINT64_MAX;
	if (record->kind == RECORD_RTS) {
		said.offered = true;
		said.window = (uint8_t)record->arg[2];
		said.sequence = (uint8_t)(record->arg[2] >> 8);
		assert_true(from->window_count < WINDOWS_MAX);
		from->windows[from->window_count++] = (struct window_of){
			.window = said.window, .sequence = said.sequence, .length = said.length, .open = true,
		};
	}
	from->waiting[number] = malloc(sizeof(said));
	*from->waiting[number] = said;
	model_advance(from);
}

static void model_connect(struct partner *from, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;

	from->index = (uint16_t)connect->index;
	if (packet->type == PACKET_CONNECT) {
		/* Another one lives there now, or the one who does has given up on us. */
		if (from->known && (from->session != connect->session ||
				    (from->opened && from->epoch != connect->next - connect->next % SEQUENCES))) {
			struct partner *fresh = calloc(1, sizeof(*fresh));

			fresh->index = from->index;
			fresh->next = 1;
			if (from->session == connect->session)
				fresh->epoch_in = (uint16_t)(from->epoch_in + SEQUENCES);
			*from = *fresh;
			free(fresh);
		}
		from->session = (uint32_t)connect->session;
		if (connect->proof != KEY)
			return;
		from->known = true;
	} else if (connect->status != CONNECT_OK || connect->echo != play.session || !(from->asked || from->known)) {
		return;
	} else {
		from->known = true;
		from->session = (uint32_t)connect->session;
	}
	/* In a request it can be of a session before this one. */
	if (from->opened || (packet->type == PACKET_CONNECT && connect->next != 1))
		return;
	from->opened = true;
	from->out_base = from->out_next = from->out_acked = connect->next % SEQUENCES;
	from->epoch = (uint16_t)(connect->next - from->out_base);
}

static void model_acknowledged(struct partner *from, const struct packet *packet)
{
	uint32_t more = (packet->ack - from->out_acked) % SEQUENCES;

	if (packet->session == play.session && more <= (uint32_t)(from->out_next - from->out_acked) % SEQUENCES)
		from->out_acked = (uint16_t)(packet->ack % SEQUENCES);
}

/* Whether a refusal is of something that is under way. */
static bool model_refused(const struct partner *from, const struct packet *packet)
{
	uint32_t out = (uint32_t)(from->out_next - from->out_acked) % SEQUENCES;

	return from->opened ? (packet->sequence - from->out_acked) % SEQUENCES < out
			    : from->asked && packet->sequence == 0;
}

static struct transfer_of *pull_of(uint64_t transfer)
{
	for (unsigned i = play.pull_count; i-- > 0;)
		if (play.pulls[i].transfer == transfer)
			return &play.pulls[i];
	return NULL;
}

/* Data, or a refusal of it, for a pull of the capture: it was for some window; now for the engine's pull of that. */
static struct window_of *script_pulled(uint8_t *transfer, struct partner **from_p)
{
	struct transfer_of *pull = pull_of(load_be64(transfer));
	struct window_of *window = pull ? window_of(partner(pull->number), pull->window, pull->sequence) : NULL;

	if (!window || !window->transfer)
		return NULL;
	*from_p = partner(pull->number);
	store_be64(transfer, window->transfer);
	return window;
}

/* A window of this side, as the capture and as the engine name it. */
static struct said *script_window(struct partner *from, uint8_t *window, uint8_t *sequence)
{
	for (unsigned i = from->out_said; i-- > 0;) {
		struct said *said = &from->out[i];

		if (!said->offered || said->window != *window || said->sequence != *sequence)
			continue;
		*window = (uint8_t)said->own_window;
		*sequence = (uint8_t)(said->own_window >> 8);
		return said;
	}
	return NULL;
}

/* A PULL of the script, and who is to answer it; NULL: nobody can. */
static void script_pull(struct partner *from, uint8_t *body)
{
	bool jumbo = play.capture.jumbo;
	struct said *said = script_window(from, body + (jumbo ? 15 : 12), body + (jumbo ? 16 : 13));
	struct packet packet;

	assert_int_equal(play.codec->decode(&packet, body - 2, 60 - CAPTURE_ETHERNET), 0);
	if (!said || said->over || play.serve_count == PULLS_MAX)
		return;
	play.serves[play.serve_count++] = (struct transfer_of){
		.transfer = packet.pull.transfer, .from = (uint32_t)packet.pull.offset, .length = packet.pull.length,
		.frame_index = packet.pull.frame_index, .frame_offset = packet.pull.frame_offset, .message = said,
	};
}

/* A frame that arrives: made to fit, and noted in the model. */
static void script_frame(void)
{
	uint8_t *body = play.frame + CAPTURE_ETHERNET + 2;
	struct window_of *window = NULL;
	struct partner *from = NULL;
	struct packet packet;

	if (body[0] == 42 || body[0] == 45)
		window = script_pulled(body + 8, &from);
	else if (body[0] == 41 && body[1] == play.number)
		script_pull(partner(body[2]), body);
	else if (body[0] == 43 && body[1] == play.number) {
		struct said *said = script_window(partner(body[2]), body + 12, body + 13);

		if (said)
			said->over = true;
	}
	if (play.codec->decode(&packet, play.frame + CAPTURE_ETHERNET, play.arriving->length - CAPTURE_ETHERNET) != 0 ||
	    (packet.type != PACKET_DATA && packet.type != PACKET_QUERY && packet.type != PACKET_REPLY &&
	     packet.to != play.number) || play.arriving->from == 0)
		return;
	if (packet.type == PACKET_DATA && window)
		window->blocks[packet.data.offset / mxoe_block_bytes()] |=
			UINT64_C(1) << packet.data.offset % mxoe_block_bytes() / play.codec->data;
	else if (packet.type == PACKET_RECORD || packet.type == PACKET_ACK)
		model_acknowledged(partner(packet.from), &packet);
	if (packet.type == PACKET_RECORD)
		model_message(partner(packet.from), &packet);
	else if (packet.type == PACKET_CONNECT || packet.type == PACKET_ACCEPT)
		model_connect(partner(packet.from), &packet);
	else if (packet.type == PACKET_NACK && packet.nack.driver && window && packet.nack.reason != NACK_BAD_WINDOW)
		from->lost = true;
	else if (packet.type == PACKET_NACK && !packet.nack.driver)
		partner(packet.from)->lost |= model_refused(partner(packet.from), &packet);
	else if (packet.type == PACKET_QUERY || packet.type == PACKET_REPLY)
		for (unsigned i = 0; i < PARTNERS; i++)
			partner(i)->index = (uint16_t)packet.host.index;
}

/* ---- The application: what this side of the capture did ------------------------------------------------- */

/* Whether the CONNECT in this frame leads to something. */
static bool connect_succeeds(unsigned at, uint8_t number)
{
	for (unsigned i = at + 1; i < play.capture.count; i++) {
		const struct capture_frame *frame = &play.capture.frames[i];
		const uint8_t *body = body_of(frame);

		if (frame->dropped || frame->from == play.side || frame->from == 0)
			continue;
		if (body[0] == 44 && body[1] == number && body[9] == play.number)
			return false;
		if (body[0] == 36 && body[2] == number && body[1] == play.number && body[26] == 1)
			return body[28] == 0;
	}
	return false;
}

static uint32_t handle_of(uint8_t number)
{
	struct address_parts parts;
	struct thole_address address;
	uint32_t handle;

	address_mxoe(play.other.bytes, number, &parts);
	address_format(&parts, &address);
	assert_int_equal(thole_peer(play.endpoint, &address, &handle), 0);
	return handle;
}

static void application_sends(const uint8_t *body, struct partner *to)
{
	struct said *said = &to->out[to->out_count];
	unsigned flags = 0;
	int error;

	assert_true(to->out_count < MESSAGES_MAX);
	*said = (struct said){.tag = load_be64(body + 12), .length = load_be16(body + 4)};
	if (body[0] == CAPTURE_MEDIUM && play.capture.jumbo)
		said->length = load_be32(body + 4);
	if (body[0] == CAPTURE_RENDEZVOUS) {
		said->length = load_be32(body + 24);
		said->offered = true;
		said->window = body[28];
		said->sequence = body[29];
		flags = said->length <= play.codec->eager_max ? THOLE_SYNC : 0;
	}
	said->bytes = malloc(said->length + 1);
	capture_fill(said->bytes, said->length, play.capture.seed, capture_message(said->tag), 0);
	if (body[0] != CAPTURE_RENDEZVOUS && said->length <= 128)
		memcpy(said->bytes, body + 24, said->length);
	to->out_count++;
	error = thole_send(play.endpoint, handle_of(body[1]), said->bytes, said->length, said->tag, 0,
			   flags | THOLE_QUIET, NULL, NULL);
	if (error == THOLE_ERR_PEER)
		to->out_count--; /* it is known to be gone */
	else
		assert_int_equal(error, 0);
}

static void application_step(const struct capture_frame *frame, unsigned at)
{
	const uint8_t *body = body_of(frame);
	struct partner *to = partner(body[1]);
	struct peer *peer;

	if (body[2] != play.number)
		return;
	if (body[0] == 36 && body[26] == 0 && !to->asked && connect_succeeds(at, body[1])) {
		to->asked = true;
		peer = endpoint_peer(play.endpoint, handle_of(body[1]));
		assert_int_equal(message_reach(peer), 0);
	} else if (body[0] == 41 && play.pull_count < PULLS_MAX) {
		bool jumbo = play.capture.jumbo;

		play.pulls[play.pull_count++] = (struct transfer_of){
			.transfer = load_be64(body + (jumbo ? 24 : 16)), .number = body[1],
			.window = body[jumbo ? 15 : 12], .sequence = body[jumbo ? 16 : 13],
		};
	} else if ((body[0] >= 37 && body[0] <= 40) && load_be32(body + 20) == to->session && to->known && !to->lost) {
		uint32_t number = load_be16(body + 8);

		if (to->seen_session == to->session && (number - to->last_seen) % SEQUENCES - 1 >= SEQUENCES / 2)
			return; /* again, or a further fragment */
		to->last_seen = number;
		to->seen_session = to->session;
		application_sends(body, to);
	} else if (body[0] == 43 && load_be32(body + 4) == to->session) { /* has a number too */
		to->last_seen = load_be16(body + 18);
		to->seen_session = to->session;
	}
}

static void receive_post(unsigned slot)
{
	assert_int_equal(thole_recv(play.endpoint, THOLE_ANY, play.buffers[slot], LENGTH_MAX, 0, 0, 0,
				    (void *)(uintptr_t)(slot + 1), NULL), 0);
}

/* A message has arrived: the next one of its sender that was sent with its data, or any that was sent as an RTS. */
static void received(void *arg, const struct thole_completion *completion)
{
	unsigned slot = (unsigned)(uintptr_t)completion->context - 1;
	const uint8_t *bytes = play.buffers[slot];
	struct partner *from;
	struct said *said = NULL;

	(void)arg;
	assert_int_equal(completion->operation, THOLE_OP_RECEIVE);
	from = partner(endpoint_peer(play.endpoint, completion->peer)->base.parts.network[4]);
	for (unsigned i = 0; i < from->in_count && !said; i++)
		if (!from->in[i].over && (from->in[i].tag == completion->tag || !from->in[i].offered))
			said = &from->in[i];
	assert_non_null(said);
	said->over = true;
	assert_int_equal(completion->tag, said->tag);
	assert_int_equal(completion->message_length, said->length);
	if (completion->status) {
		assert_true(said->offered && from->lost);
		play.refused++;
	} else {
		for (uint32_t i = 0; completion->tag >> 48 == 0xc0de && i < said->length; i++)
			assert_int_equal(bytes[i], capture_byte(play.capture.seed, capture_message(said->tag), i));
		play.delivered++;
	}
	receive_post(slot);
}

/* ---- A play ---------------------------------------------------------------------------------------------- */

/* The session, which is drawn first, is the one that the captured endpoint drew, since the script has it. */
static void draw(void *arg, void *bytes, size_t length)
{
	(void)arg;
	memset(bytes, play.lot, length);
	if (play.draws++ > 0)
		return;
	assert_int_equal(length, sizeof(play.session));
	memcpy(bytes, &play.session, sizeof(play.session));
}

static bool is_here(void *arg, uint8_t number)
{
	(void)arg;
	return play.naming_here[number];
}

static void learn_side(void)
{
	for (unsigned i = 0; i < play.capture.count; i++) {
		const struct capture_frame *frame = &play.capture.frames[i];
		const uint8_t *body = body_of(frame);

		if (frame->from != play.side || (body[0] != 36 && (body[0] < 37 || body[0] > 41)))
			continue;
		play.naming_here[body[2]] = true;
		if (body[0] == 36 && body[2] == play.number && play.session == 0)
			play.session = load_be32(body + (body[26] ? 20 : 16));
	}
	assert_int_not_equal(play.session, 0);
}

static uint8_t next_lot;

static void play_open(const char *name, unsigned side, uint8_t number)
{
	struct thole_endpoint_attr attr = {.complete = received};
	struct link *links[] = {&play.link};
	struct address_parts parts;
	struct options options;
	unsigned which = 0;
	uint8_t mac[6] = {0x52, 0x54, 0, 0x12, 0x34, (uint8_t)side};

	while (strcmp(capture_files[which].name, name) != 0)
		which++;
	play = (struct play){.side = side, .number = number, .now_ns = 1000000000, .lot = next_lot};
	assert_true(capture_load(&play.capture, &capture_files[which], TEST_DATA "/captures"));
	play.codec = play.capture.jumbo ? &codec_mxoe_jumbo : &codec_mxoe;
	play.partners = calloc(PARTNERS, sizeof(struct partner));
	for (unsigned i = 0; i < PARTNERS; i++)
		partner(i)->next = 1;
	for (unsigned i = 0; i < RECEIVES; i++)
		play.buffers[i] = malloc(LENGTH_MAX);
	learn_side();
	memcpy(play.other.bytes, mac, 5);
	play.other.bytes[5] = (uint8_t)(3 - side);
	play.link = (struct link){.calls = &calls, .ethertype = 0x86df, .room = 4 << 20, .fd = {-1, -1}};
	memcpy(play.link.own.bytes, mac, 6);
	assert_int_equal(options_defaults(&options, NULL), 0);
	options.job_key = KEY;
	address_mxoe(mac, number, &parts);
	assert_int_equal(endpoint_create(&attr, &options, &parts, 1, &play.endpoint), 0);
	play.endpoint->base.now_ns = play.now_ns;
	assert_int_equal(datagram_attach(&play.endpoint->base, play.codec, links, 1, draw, NULL), 0);
	naming_mxoe_name(&datagram_of(&play.endpoint->base)->engine, number, "host1:0", 1, is_here, NULL);
	for (unsigned i = 0; i < RECEIVES; i++)
		receive_post(i);
}

static void play_close(void)
{
	endpoint_vanish(play.endpoint);
	for (unsigned i = 0; i < PARTNERS; i++) {
		for (unsigned k = 0; k < partner(i)->out_count; k++)
			free(partner(i)->out[k].bytes);
		for (unsigned k = 0; k < SEQUENCES; k++)
			free(partner(i)->waiting[k]);
	}
	for (unsigned i = 0; i < RECEIVES; i++)
		free(play.buffers[i]);
	free(play.partners);
	capture_free(&play.capture);
}

static void step(void)
{
	for (unsigned turn = 0; turn < 16; turn++)
		if (endpoint_advance(play.endpoint, play.now_ns) == 0)
			break;
}

/* What must have been acknowledged by now. */
static void judge_promptness(void)
{
	for (unsigned i = 0; i < PARTNERS; i++) {
		const struct partner *from = partner(i);

		if (!from->known || from->lost || from->silent)
			continue;
		assert_false(from->ack_now);
		assert_true(from->unacked < ACK_AT_ONCE);
		assert_true(from->unacked == 0 || play.now_ns - from->unacked_ns <= ACK_LATEST_NS);
	}
}

static void play_until(uint64_t ns)
{
	uint64_t next_ns;

	while ((next_ns = endpoint_deadline(play.endpoint)) <= ns) {
		play.now_ns = next_ns > play.now_ns ? next_ns : play.now_ns + 1;
		step();
		judge_promptness();
	}
	play.now_ns = ns;
}

/* One frame of the capture: it arrives, or makes the application do what it shows; unless it was put in, so that
 * nobody did it. */
static void play_frame(unsigned at, bool put_in)
{
	const struct capture_frame *frame = &play.capture.frames[at];

	play_until(1000000000 + frame->time_ns);
	play.acks = play.nacks = play.replies = play.accepts = 0;
	if (frame->from == play.side && !put_in) {
		application_step(frame, at);
	} else if (frame->from != play.side && !frame->dropped &&
		   (frame->broadcast || frame->bytes[5] == (uint8_t)play.side)) {
		play.arriving = frame;
		memcpy(play.frame, frame->bytes, frame->length);
		script_frame();
	}
	step();
	judge_promptness();
}

static unsigned messages_in(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PARTNERS; i++)
		for (unsigned k = 0; k < partner(i)->in_count; k++)
			n += !partner(i)->in[k].over;
	return n;
}

/* Everything that a partner sent has arrived, and the engine has said all that its application wanted it to. */
static void judge_end(void)
{
	assert_int_equal(messages_in(), 0);
	for (unsigned i = 0; i < PARTNERS; i++)
		if (!partner(i)->lost)
			assert_int_equal(partner(i)->out_said, partner(i)->out_count);
}

static void play_all(void)
{
	for (unsigned i = 0; i < play.capture.count; i++)
		play_frame(i, false);
	judge_end();
}

/* ---- Tests ----------------------------------------------------------------------------------------------- */

struct whole {
	const char *name;
	unsigned side;
	uint8_t number;
	unsigned delivered, refused, sent;
};

static void play_whole(void **state)
{
	const struct whole *whole = *state;

	play_open(whole->name, whole->side, whole->number);
	play_all();
	assert_int_equal(play.delivered, whole->delivered);
	assert_int_equal(play.refused, whole->refused);
	assert_int_equal(play.sent_messages, whole->sent);
	play_close();
}

#define WHOLE(test, file, host, number, delivered, refused, sent) \
	static struct whole test##_play = {file, host, number, delivered, refused, sent}; \
	static void test(void **state) \
	{ \
		(void)state; \
		void *whole = &test##_play; \
		play_whole(&whole); \
	}

WHOLE(jumbo__as_the_client, "openmx-jumbo", 1, 2, 53, 0, 67)
WHOLE(jumbo__as_the_server, "openmx-jumbo", 2, 1, 72, 2, 53)
WHOLE(mx__as_the_client, "openmx-mxwire", 1, 2, 53, 0, 67)
WHOLE(mx__as_the_server, "openmx-mxwire", 2, 1, 72, 2, 53)
WHOLE(lossy__as_the_client, "lossy-jumbo", 1, 2, 108, 0, 137)
WHOLE(lossy__as_the_server, "lossy-jumbo", 2, 1, 136, 0, 108)
WHOLE(extra__as_the_client, "extra-jumbo", 1, 2, 3, 0, 26)
WHOLE(extra__as_the_server, "extra-jumbo", 2, 1, 40, 0, 3)

/* ---- Frames that no correct peer writes ------------------------------------------------------------------ */

/* A host finds out by our MAC which index it has given us: of who is refused we may know nothing, and a wrong one
 * names somebody else. */
enum { ANY_INDEX = 0xffff };

enum answer { ANSWER_NOTHING, ANSWER_ACK, ANSWER_NACK, ANSWER_DRIVER_NACK, ANSWER_ACCEPT, ANSWER_REPLY, ANSWER_ANY };

/* What each frame of probes-jumbo.probes is answered with. Where Open-MX minds the index in a frame's head and we do
 * not, we answer what it answers for the right one; and we know no list of hosts. */
static const struct probe {
	unsigned frame, side;
	enum answer answer;
	uint8_t reason;
	uint16_t index;           /* in the answer's head; 0: whatever */
} probes[] = {
	{147, 2, ANSWER_ACK, 0, 2},           /* a duplicate */
	{151, 2, ANSWER_ACK, 0, 2},           /* with other indices */
	{152, 2, ANSWER_ACK, 0, 2},
	{153, 2, ANSWER_ACK, 0, 2},
	{154, 2, ANSWER_ACK, 0, 2},           /* not padded */
	{156, 2, ANSWER_NACK, NACK_BAD_SESSION, ANY_INDEX},
	{160, 2, ANSWER_NACK, NACK_BAD_SESSION, ANY_INDEX},
	{161, 2, ANSWER_NACK, NACK_CLOSED, ANY_INDEX}, /* to endpoints that are not there */
	{163, 2, ANSWER_NACK, NACK_CLOSED, ANY_INDEX},
	{165, 2, ANSWER_NOTHING, 0, 0},       /* too far ahead */
	{166, 2, ANSWER_NOTHING, 0, 0},       /* of another epoch */
	{167, 2, ANSWER_ACK, 0, 2},           /* a duplicate with a checksum, */
	{169, 2, ANSWER_ACK, 0, 2},           /* and with an acknowledgement that is too high */
	{171, 2, ANSWER_NOTHING, 0, 0},       /* longer than tiny */
	{172, 1, ANSWER_DRIVER_NACK, NACK_BAD_WINDOW, ANY_INDEX},
	{174, 1, ANSWER_DRIVER_NACK, NACK_BAD_WINDOW, ANY_INDEX},
	{176, 1, ANSWER_DRIVER_NACK, NACK_BAD_WINDOW, ANY_INDEX}, /* one that was there */
	{178, 1, ANSWER_DRIVER_NACK, NACK_BAD_SESSION, ANY_INDEX},
	{180, 1, ANSWER_DRIVER_NACK, NACK_CLOSED, ANY_INDEX},
	{182, 1, ANSWER_DRIVER_NACK, NACK_BAD_WINDOW, ANY_INDEX},
	{183, 1, ANSWER_DRIVER_NACK, NACK_BAD_WINDOW, ANY_INDEX},
	{184, 2, ANSWER_ANY, 0, 0},           /* from a host that has not said that it is there */
	{185, 2, ANSWER_ACCEPT, 0, 0},
	{188, 2, ANSWER_ACCEPT, 0, 0},
	{191, 2, ANSWER_ANY, 0, 0},
	{192, 2, ANSWER_REPLY, 0, 0},         /* a host says that its index is another; */
	{194, 2, ANSWER_ACK, 0, 0x1234},      /* and from then on it is */
	{196, 2, ANSWER_REPLY, 0, 0},
	{198, 2, ANSWER_ACK, 0, 2},
};

static void judge_probe(const struct probe *probe)
{
	unsigned all = play.acks + play.nacks + play.accepts + play.replies;

	if (probe->answer == ANSWER_ANY)
		return;
	assert_int_equal(all, probe->answer != ANSWER_NOTHING);
	assert_int_equal(play.acks, probe->answer == ANSWER_ACK);
	assert_int_equal(play.accepts, probe->answer == ANSWER_ACCEPT);
	assert_int_equal(play.replies, probe->answer == ANSWER_REPLY);
	assert_int_equal(play.nacks, probe->answer == ANSWER_NACK || probe->answer == ANSWER_DRIVER_NACK);
	if (play.nacks) {
		assert_int_equal(play.nack_driver, probe->answer == ANSWER_DRIVER_NACK);
		assert_int_equal(play.nack_reason, probe->reason);
	}
	if (probe->index)
		assert_int_equal(play.head_index, probe->index);
}

static void play_probes(unsigned side, uint8_t number, unsigned expected)
{
	const struct probe *probe = probes, *end = probes + sizeof(probes) / sizeof(probes[0]);
	unsigned judged = 0;

	play_open("probes-jumbo", side, number);
	for (unsigned i = 0; i < play.capture.count; i++) {
		bool put_in = probe < end && probe->frame == i + 1;

		play_frame(i, put_in);
		if (put_in && probe->side == side) {
			judge_probe(probe);
			judged++;
		}
		probe += put_in;
	}
	judge_end();
	assert_int_equal(judged, expected);
	play_close();
}

static void probes__to_the_client(void **state)
{
	(void)state;
	play_probes(1, 2, 7);
}

static void probes__to_the_server(void **state)
{
	(void)state;
	play_probes(2, 1, 22);
}

/* ---- Hosts that have given up ---------------------------------------------------------------------------- */

/* Host 1 gives up before it is heard, and numbers what it expects from another epoch on: first it says 0x70f1, then,
 * when it answers, 0x4001. The second is right (host 2, which believed the first, was never heard). */
static void blocked__another_epoch(void **state)
{
	(void)state;
	play_open("blocked-jumbo", 2, 1);
	for (unsigned i = 27; i < 46; i++)
		play_frame(i, false);
	assert_int_equal(play.endpoint->base.counters[COUNTER_PEERS_GONE], 0);
	assert_int_equal(partner(2)->epoch, 0x4000);
	assert_int_equal(partner(2)->out_base, 1);
	assert_int_equal(partner(2)->out_said, 1);
	assert_int_equal(play.delivered, 2);
	play_close();
}

/* Had it been heard before, what it gave up is lost to it, and so it is to us; then it is there anew. */
static void blocked__given_up(void **state)
{
	(void)state;
	play_open("blocked-jumbo", 2, 1);
	for (unsigned i = 0; i < 46; i++)
		play_frame(i, false);
	assert_int_equal(play.endpoint->base.counters[COUNTER_PEERS_GONE], 1);
	assert_int_equal(partner(2)->epoch, 0x4000);
	assert_int_equal(partner(2)->out_said, 1);
	assert_int_equal(partner(2)->epoch_in, 0x4000); /* which the captured host, not being told, does not know */
	assert_int_equal(play.delivered, 0);
	play_close();
}

/* It does not acknowledge that either. After our patience it is lost, and then what it sends is refused. */
static void blocked__lost(void **state)
{
	(void)state;
	play_open("blocked-jumbo", 2, 1);
	for (unsigned i = 27; i < 49; i++)
		play_frame(i, false);
	assert_false(endpoint_peer(play.endpoint, handle_of(2))->base.gone);
	play.partners[2].lost = true;
	play_frame(49, false);
	assert_int_equal(play.nacks, 1);
	assert_int_equal(play.nack_reason, NACK_CLOSED);
	assert_int_equal(play.endpoint->base.counters[COUNTER_PEERS_GONE], 1);
	play_close();
}

/* As host 1: nobody answers until the link is there again; what comes in an epoch that we have not asked for is not
 * ours. */
static void blocked__as_the_client(void **state)
{
	(void)state;
	play_open("blocked-jumbo", 1, 2);
	for (unsigned i = 0; i < 49; i++)
		play_frame(i, false);
	assert_int_equal(partner(1)->out_said, 2);
	assert_int_equal(play.delivered, 0);
	assert_int_equal(partner(1)->next, 1);
	play_close();
}

/* What a codec has no packet for takes no memory of the burst, which is there for so many frames and no more. */
static void burst__of_packets_that_there_are_not(void **state)
{
	struct packet packet = {.type = PACKET_CLOSE};
	struct engine *engine;
	uint32_t used;

	(void)state;
	play_open("blocked-jumbo", 2, 1);
	engine = &datagram_of(&play.endpoint->base)->engine;
	used = engine->burst->used;
	burst_post(engine, 0, &play.other, &packet, 0);
	assert_int_equal(engine->burst->used, used);
	assert_int_equal(engine->burst->count, 0);
	play_close();
}

/* ---- Windows that begin within a page ------------------------------------------------------------------ */

enum { PAGE_OFFSET = 1000, PAGE_LENGTH = 100000, PAGE_WINDOWS = 300 };

/* A frame that the partner 2 writes, in MX mode. Without Ethernet's head. */
static void arrives(const uint8_t *frame, size_t length)
{
	struct engine *engine = &datagram_of(&play.endpoint->base)->engine;

	engine_frame(engine, &play.link, &play.other, frame, length);
	step();
}

static size_t partner_frame(const struct packet *packet, uint8_t *frame)
{
	size_t length = play.codec->encode(packet, frame);

	assert_true(length > 0);
	if (packet->payload)
		memcpy(frame + length, packet->payload, packet->length);
	return length + packet->length;
}

/* What the engine has asked for, and what it was sent; nothing else is looked at. */
static struct page_pull {
	struct packet_pull pulls[8];
	unsigned count;
	uint8_t bytes[PAGE_LENGTH];
	unsigned frames, finishes, rts, acks, nacks;
	uint64_t window, windows[PAGE_WINDOWS];
	uint8_t sequences[64];
	uint8_t nack_reason;
	struct packet_nack nack;  /* the last, */
	struct packet_host reply; /* and the last that says our name */
	uint16_t head_index;      /* of the last record, */
	uint32_t sequence;        /* and its number */
	struct packet_connect accept;
} page;

static unsigned page_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	static uint8_t bytes[ENGINE_FRAME_MAX];
	struct packet packet;

	(void)link;
	for (unsigned i = 0; i < count; i++) {
		size_t at = frames[i].head_length;

		memcpy(bytes, frames[i].head, at);
		for (unsigned k = 0; k < frames[i].body_count; at += frames[i].body[k].iov_len, k++)
			memcpy(bytes + at, frames[i].body[k].iov_base, frames[i].body[k].iov_len);
		assert_int_equal(play.codec->decode(&packet, bytes, at), 0);
		if (packet.type == PACKET_PULL && packet.pull.window != 0xffff) {
			assert_true(page.count < 8);
			page.pulls[page.count++] = packet.pull;
		} else if (packet.type == PACKET_DATA) {
			assert_true(packet.data.offset + packet.length <= PAGE_LENGTH && page.frames < 64);
			memcpy(page.bytes + packet.data.offset, packet.payload, packet.length);
			page.sequences[page.frames++] = packet.data.frame;
		} else if (packet.type == PACKET_RECORD && packet.message.record.kind == RECORD_RTS) {
			assert_true(page.rts < PAGE_WINDOWS);
			page.window = page.windows[page.rts++] = packet.message.record.arg[2];
		} else if (packet.type == PACKET_NACK) {
			page.nacks++;
			page.nack_reason = packet.nack.reason;
			page.nack = packet.nack;
		} else if (packet.type == PACKET_REPLY) {
			page.reply = packet.host;
		} else if (packet.type == PACKET_ACCEPT) {
			page.accept = packet.connect;
		}
		page.acks += packet.type == PACKET_ACK;
		if (packet.type == PACKET_RECORD) {
			page.head_index = packet.peer_index;
			page.sequence = packet.sequence;
		}
		page.finishes += packet.type == PACKET_RECORD && packet.message.record.kind == RECORD_FINISH;
	}
	return count;
}

static void page_open(void)
{
	static struct link_calls page_calls;

	play_open("openmx-mxwire", 2, 1);
	for (unsigned i = 0; i < 22; i++) /* both have connected */
		play_frame(i, false);
	assert_true(partner(2)->opened);
	page_calls = calls;
	page_calls.send = page_send;
	play.link.calls = &page_calls;
	page = (struct page_pull){.count = 0};
}

/* The first block is shorter, so that the frames of the others, and its own after the first, end where the sender's
 * pages do. */
static void pages__pulled(void **state)
{
	struct packet packet = {.type = PACKET_RECORD, .to = 1, .from = 2};
	struct said *said;
	struct window window = {.length = PAGE_LENGTH, .count = 1, .id = 5 | 9 << 8 | PAGE_OFFSET << 16};
	uint8_t frame[ENGINE_FRAME_MAX], payload[4096];
	uint64_t asked = 0;

	(void)state;
	page_open();
	packet.session = play.session;
	packet.ack = 1;
	packet.message.record =
		(struct record){.kind = RECORD_RTS, .tag = UINT64_C(0xc0de) << 48 | UINT64_C(999) << 32};
	packet.sequence = partner(2)->next;
	said = &partner(2)->in[partner(2)->in_count++];
	*said = (struct said){.tag = packet.message.record.tag, .length = PAGE_LENGTH, .offered = true};
	window_store(&window, &packet.message.record);
	arrives(frame, partner_frame(&packet, frame));
	for (unsigned i = 0; i < page.count; i++) {
		const struct packet_pull *pull = &page.pulls[i];
		uint64_t place = asked + PAGE_OFFSET;

		assert_int_equal(pull->window, window.id);
		assert_int_equal(pull->offset, asked);
		assert_int_equal(pull->frame_index, place / 4096);
		assert_int_equal(pull->frame_offset, place % 4096);
		assert_int_equal(pull->frame_offset, i == 0 ? PAGE_OFFSET : 0);
		assert_int_equal(pull->length, asked + pull->length == PAGE_LENGTH ? pull->length
										    : 8 * 4096 - pull->frame_offset);
		for (uint32_t at = 0, n = 0, length; at < pull->length; at += length, n++) {
			struct packet data = {.type = PACKET_DATA};

			length = 4096 - (n == 0 ? pull->frame_offset : 0);
			length = length < pull->length - at ? length : pull->length - at;
			data.data = (struct packet_data){.transfer = pull->transfer, .offset = pull->offset + at,
							 .frame = (uint8_t)(pull->frame_index + n)};
			capture_fill(payload, length, play.capture.seed, 999, (uint32_t)(pull->offset + at));
			data.payload = payload;
			data.length = length;
			arrives(frame, partner_frame(&data, frame));
		}
		asked += pull->length;
	}
	assert_int_equal(asked, PAGE_LENGTH);
	assert_int_equal(page.finishes, 1);
	assert_true(said->over);
	play_close();
}

/* A puller may begin within a frame, too. */
static void pages__served(void **state)
{
	struct packet packet = {.type = PACKET_PULL, .to = 1, .from = 2};
	uint8_t frame[ENGINE_FRAME_MAX], *bytes = malloc(PAGE_LENGTH);

	(void)state;
	page_open();
	capture_fill(bytes, PAGE_LENGTH, play.capture.seed, 7, 0);
	assert_int_equal(thole_send(play.endpoint, handle_of(2), bytes, PAGE_LENGTH, 7, 0, THOLE_QUIET, NULL, NULL), 0);
	step();
	packet.session = play.session;
	packet.pull = (struct packet_pull){
		.window = page.window, .transfer = 0x1234500021071982, .total = PAGE_LENGTH, .frame_index = 3,
		.frame_offset = PAGE_OFFSET, .length = 20000,
	};
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(page.frames, 6);
	for (unsigned i = 0; i < page.frames; i++)
		assert_int_equal(page.sequences[i], 3 + i);
	assert_memory_equal(page.bytes + 3 * 4096 + PAGE_OFFSET, bytes + 3 * 4096 + PAGE_OFFSET, 20000);
	assert_int_equal(page.bytes[3 * 4096 + PAGE_OFFSET - 1], 0);
	assert_int_equal(page.bytes[3 * 4096 + PAGE_OFFSET + 20000], 0);
	/* A place in a page that the window does not have: ours all begin at the front of one. */
	packet.pull.window |= 1 << 16;
	play.link.calls = &calls;
	play.nacks = 0;
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(play.nacks, 1);
	assert_int_equal(play.nack_reason, NACK_BAD_WINDOW);
	free(bytes);
	play_close();
}

/* ---- What a process before this one had here ---------------------------------------------------------------- */

/* The first window and the first pull of an endpoint that has drawn this. */
static void first_names(uint8_t lot, uint64_t *window_p, uint32_t *handle_p)
{
	struct packet packet = {.type = PACKET_RECORD, .to = 1, .from = 2, .ack = 1};
	struct window window = {.length = PAGE_LENGTH, .count = 1, .id = 5 | 9 << 8};
	uint8_t frame[ENGINE_FRAME_MAX], *bytes = calloc(1, PAGE_LENGTH);

	next_lot = lot;
	page_open();
	next_lot = 0;
	assert_int_equal(thole_send(play.endpoint, handle_of(2), bytes, PAGE_LENGTH, 7, 0, THOLE_QUIET, NULL, NULL), 0);
	step();
	packet.session = play.session;
	packet.sequence = partner(2)->next;
	packet.message.record = (struct record){.kind = RECORD_RTS};
	window_store(&window, &packet.message.record);
	arrives(frame, partner_frame(&packet, frame));
	assert_true(page.count > 0);
	*window_p = page.window;
	*handle_p = (uint32_t)(page.pulls[0].transfer >> 32);
	play.endpoint->complete = NULL; /* the pull is nobody's */
	play_close();
	free(bytes);
}

/* A NOTIFY or data for the one that was killed must not be taken for our own: nothing of either begins where it
 * began. */
static void former__other_names(void **state)
{
	uint64_t windows[2];
	uint32_t handles[2];

	(void)state;
	first_names(0x11, &windows[0], &handles[0]);
	first_names(0xe7, &windows[1], &handles[1]);
	assert_int_not_equal((uint8_t)windows[0], (uint8_t)windows[1]);
	assert_int_not_equal((uint8_t)(windows[0] >> 8), (uint8_t)(windows[1] >> 8));
	assert_int_not_equal(handles[0], handles[1]);
}

static struct thole_completion sent; /* the last that has ended */

static void send_ended(void *arg, const struct thole_completion *completion)
{
	(void)arg;
	sent = *completion;
}

/* How a send ends that the receiver says to have taken so much of. */
static int32_t finished(uint64_t window_change, uint32_t bytes)
{
	struct packet packet = {.type = PACKET_RECORD, .to = 1, .from = 2, .ack = 2};
	uint8_t frame[ENGINE_FRAME_MAX], *data = calloc(1, PAGE_LENGTH);

	page_open();
	play.endpoint->complete = send_ended;
	sent = (struct thole_completion){.status = 1};
	assert_int_equal(thole_send(play.endpoint, handle_of(2), data, PAGE_LENGTH, 7, 0, 0, NULL, NULL), 0);
	step();
	packet.session = play.session;
	packet.sequence = partner(2)->next;
	packet.message.record = (struct record){.kind = RECORD_FINISH, .tag = page.window ^ window_change};
	packet.message.total = bytes;
	arrives(frame, partner_frame(&packet, frame));
	play.endpoint->complete = NULL;
	play_close();
	free(data);
	return sent.status;
}

static void former__notify(void **state)
{
	(void)state;
	assert_int_equal(finished(0, PAGE_LENGTH), 0);
	assert_int_equal(sent.length, PAGE_LENGTH);
	/* After a NACK hosts say 0; where their receive was shorter, how much of it they took. */
	assert_int_equal(finished(0, 0), THOLE_ERR_TRUNCATED);
	assert_int_equal(sent.length, 0);
	assert_int_equal(sent.message_length, PAGE_LENGTH);
	assert_int_equal(finished(0, PAGE_LENGTH - 1), THOLE_ERR_TRUNCATED);
	assert_int_equal(sent.length, PAGE_LENGTH - 1);
	assert_int_equal(finished(0, PAGE_LENGTH + 1), THOLE_ERR_PROTOCOL);
	/* Another window, or another use of this one. */
	assert_int_equal(finished(1, PAGE_LENGTH), 1);
	assert_int_equal(finished(1 << 8, PAGE_LENGTH), 1);
}

enum { OTHER_NUMBER = 9, OTHER_SESSION = 0x51, OTHER_KEY = 0x77, LIVES = 1000 };

/* ---- What is not meant for us, or of another time ------------------------------------------------------------- */

static struct packet partner_says(enum packet_type type)
{
	return (struct packet){.type = (uint8_t)type, .to = 1, .from = 2, .session = play.session, .ack = 1};
}

static void partner_sends(const struct packet *packet)
{
	uint8_t frame[ENGINE_FRAME_MAX];

	arrives(frame, partner_frame(packet, frame));
}

/* Its next record: a message of this byte. */
static struct packet partner_message(const uint8_t *byte)
{
	struct packet packet = partner_says(PACKET_RECORD);

	packet.sequence = partner(2)->next++;
	packet.message.record = (struct record){.kind = RECORD_EAGER, .tag = 7};
	packet.message.total = packet.length = 1;
	packet.payload = byte;
	return packet;
}

/* As page_open, for a send of ours that waits; whose number is page.sequence. */
static void stray_open(unsigned flags)
{
	page_open();
	play.endpoint->complete = send_ended;
	sent = (struct thole_completion){.status = 1};
	assert_int_equal(thole_send(play.endpoint, handle_of(2), "x", 1, 7, 0, flags, NULL, NULL), 0);
	step();
	assert_true(page.sequence > 0);
}

static void stray_close(void)
{
	play.endpoint->complete = NULL;
	play_close();
}

static bool partner_is_gone(void)
{
	return play.endpoint->base.counters[COUNTER_PEERS_GONE] > 0;
}

/* Connections among which a frame's is looked for, and peers among which an address's is. */
static unsigned connections_of_the_host(void)
{
	struct engine *engine = &datagram_of(&play.endpoint->base)->engine;
	struct connection *connection = connection_by_path(engine, &play.link, &play.other);
	unsigned count = 0;

	for (; connection; connection = connection_next_by_path(connection, &play.link, &play.other))
		count++;
	return count;
}

static unsigned peers_of_the_number(void)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < play.endpoint->peers_by_id.chain_count; i++)
		for (struct hash_node *node = play.endpoint->peers_by_id.chains[i]; node; node = node->next)
			count += container_of(node, struct peer, by_id)->base.parts.network[4] == OTHER_NUMBER;
	return count;
}

/* An endpoint ends and begins again, and that a thousand times. Nobody looks through all of them. */
static void former__are_in_nobodys_way(void **state)
{
	struct packet packet = {.type = PACKET_CONNECT, .to = 1, .from = OTHER_NUMBER};
	unsigned others;

	(void)state;
	page_open();
	others = connections_of_the_host();
	for (uint32_t i = 0; i < LIVES; i++) {
		packet.connect = (struct packet_connect){.session = OTHER_SESSION + i, .proof = KEY,
							 .next = 1, .attempt = (uint8_t)i, .index = 4};
		partner_sends(&packet);
		assert_int_equal(page.accept.echo, OTHER_SESSION + i);
		assert_int_equal(play.endpoint->base.counters[COUNTER_PEERS_GONE], i);
		assert_int_equal(connections_of_the_host(), others + 1 + (i > 0)); /* the one before is told so */
		assert_int_equal(peers_of_the_number(), 1);
	}
	play_close();
}

/* What asks for nothing is not refused, and of the rest only so much. */
static void stray__refusals_are_few(void **state)
{
	struct packet ack = partner_says(PACKET_ACK), message;

	(void)state;
	stray_open(0);
	ack.session = ack.acked.session = play.session + 1;
	partner_sends(&ack);
	assert_int_equal(page.nacks, 0);
	message = partner_message((const uint8_t *)"y");
	message.session++;
	partner_sends(&message);
	partner_sends(&message);
	assert_int_equal(page.nacks, 1);
	assert_int_equal(page.nack_reason, NACK_BAD_SESSION);
	play.now_ns += NACK_NS;
	step();
	partner_sends(&message);
	assert_int_equal(page.nacks, 2);
	stray_close();
}

/* Another process answers for an endpoint that it has. */
static void stray__another_number(void **state)
{
	struct packet message;

	(void)state;
	stray_open(0);
	message = partner_message((const uint8_t *)"y");
	play.naming_here[9] = true;
	message.to = 9;
	partner_sends(&message);
	assert_int_equal(page.nacks, 0);
	message.to = 10;
	partner_sends(&message);
	assert_int_equal(page.nacks, 1);
	assert_int_equal(page.nack_reason, NACK_CLOSED);
	stray_close();
}

static void stray__nacks(void **state)
{
	struct packet nack = partner_says(PACKET_NACK);

	(void)state;
	stray_open(0);
	nack.nack.reason = NACK_BAD_WINDOW; /* messages have none */
	nack.sequence = page.sequence;
	partner_sends(&nack);
	nack.nack.reason = NACK_CLOSED;
	nack.sequence = 0;                  /* a CONNECT's, which was answered */
	partner_sends(&nack);
	nack.sequence = page.sequence + 1;  /* what was not sent yet */
	partner_sends(&nack);
	nack.sequence = page.sequence | 0x4000;
	partner_sends(&nack);
	assert_false(partner_is_gone());
	nack.sequence = page.sequence;
	partner_sends(&nack);
	assert_true(partner_is_gone());
	stray_close();
}

static void stray__acks(void **state)
{
	struct engine *engine;
	struct packet ack = partner_says(PACKET_ACK);

	(void)state;
	stray_open(0);
	engine = &datagram_of(&play.endpoint->base)->engine;
	ack.session = ack.acked.session = play.session;
	ack.ack = (page.sequence + 1) | 0x4000;
	partner_sends(&ack);
	ack.ack = page.sequence + 2;
	partner_sends(&ack);
	assert_false(engine_drained(engine));
	ack.ack = page.sequence + 1;
	partner_sends(&ack);
	assert_true(engine_drained(engine));
	stray_close();
}

/* Data has no session: whose it is say the magic and who sends it. */
static void stray__data(void **state)
{
	struct packet data = {.type = PACKET_DATA}, rendezvous_classes;
	struct window window = {.length = 5, .count = 1, .id = 5 | 9 << 8};
	struct engine *engine;
	uint8_t frame[ENGINE_FRAME_MAX];
	struct path other;

	(void)state;
	stray_open(0);
	engine = &datagram_of(&play.endpoint->base)->engine;
	rendezvous_classes = partner_message(NULL);
	rendezvous_classes.message.record.kind = RECORD_RTS;
	rendezvous_classes.message.total = rendezvous_classes.length = 0;
	window_store(&window, &rendezvous_classes.message.record);
	partner_sends(&rendezvous_classes);
	assert_int_equal(page.count, 1);
	data.data.transfer = page.pulls[0].transfer ^ 1; /* the neighbour's */
	data.payload = (const uint8_t *)"wrong";
	data.length = 5;
	partner_sends(&data);
	data.data.transfer = page.pulls[0].transfer ^ UINT64_C(1) << 40;
	partner_sends(&data);
	data.data.transfer = page.pulls[0].transfer;
	other = play.other;
	other.bytes[5] ^= 0x40;
	engine_frame(engine, &play.link, &other, frame, partner_frame(&data, frame));
	assert_int_equal(page.finishes, 0);
	data.payload = (const uint8_t *)"right";
	partner_sends(&data);
	assert_int_equal(page.finishes, 1);
	assert_int_equal(sent.length, 5);
	assert_memory_equal(sent.buffer, "right", 5);
	stray_close();
}

/* What one of a host's endpoints says is not about another's message. */
static void stray__notify(void **state)
{
	struct packet connect = partner_says(PACKET_CONNECT), finish = partner_says(PACKET_RECORD);

	(void)state;
	stray_open(THOLE_SYNC);
	assert_int_equal(page.rts, 1);
	connect.from = 3;
	connect.connect = (struct packet_connect){.session = 0x33, .proof = KEY, .next = 1, .index = 4};
	partner_sends(&connect);
	assert_int_equal(page.accept.status, CONNECT_OK);
	finish.from = 3;
	finish.sequence = 1;
	finish.message.record = (struct record){.kind = RECORD_FINISH, .tag = page.window};
	finish.message.total = 1;
	partner_sends(&finish);
	assert_int_equal(sent.status, 1);
	finish.from = 2;
	finish.sequence = partner(2)->next;
	partner_sends(&finish);
	assert_int_equal(sent.status, 0);
	stray_close();
}

/* A wrong key is told how far we are with that endpoint's session, which it may still be heard in, and not with
 * another one. */
static void stray__wrong_key(void **state)
{
	struct packet connect = partner_says(PACKET_CONNECT), message;
	uint32_t next;

	(void)state;
	stray_open(0);
	message = partner_message((const uint8_t *)"y");
	partner_sends(&message);
	next = partner(2)->next;
	assert_true(next > 1);
	connect.connect =
		(struct packet_connect){.session = partner(2)->session, .proof = OTHER_KEY, .next = 1, .index = 4};
	partner_sends(&connect);
	assert_int_equal(page.accept.status, CONNECT_BAD_KEY);
	assert_int_equal(page.accept.next, next);
	connect.connect.session++;
	partner_sends(&connect);
	assert_int_equal(page.accept.status, CONNECT_BAD_KEY);
	assert_int_equal(page.accept.next, 1);
	assert_false(partner_is_gone());
	stray_close();
}

/* While too much lies here, what is new and not awaited is not taken; but what it acknowledges is, and what came
 * before is said again. */
static void stray__held_off(void **state)
{
	struct packet first, second;
	struct engine *engine;

	(void)state;
	stray_open(0);
	engine = &datagram_of(&play.endpoint->base)->engine;
	first = partner_message((const uint8_t *)"y");
	partner_sends(&first);
	play.endpoint->base.backpressure = true;
	play.endpoint->screened = 1; /* so nothing is awaited */
	page.acks = 0;
	second = partner_message((const uint8_t *)"z");
	second.ack = page.sequence + 1;
	partner_sends(&second);
	assert_int_equal(play.endpoint->base.counters[COUNTER_DROPPED_FULL], 1);
	assert_true(engine_drained(engine));
	assert_int_equal(page.acks, 0);
	partner_sends(&first);
	assert_int_equal(page.acks, 1);
	play.endpoint->base.backpressure = false;
	play.endpoint->screened = 0;
	partner_sends(&second);
	assert_int_equal(sent.operation, THOLE_OP_RECEIVE);
	assert_memory_equal(sent.buffer, "z", 1);
	stray_close();
}

/* A host's answer says how it numbers us, too. */
static void stray__reply(void **state)
{
	struct packet reply = {.type = PACKET_REPLY, .host = {.index = 0x77, .magic = 0x13052008}};

	(void)state;
	stray_open(0);
	partner_sends(&reply);
	assert_int_equal(thole_send(play.endpoint, handle_of(2), "x", 1, 7, 0, 0, NULL, NULL), 0);
	step();
	assert_int_equal(page.head_index, 0x77);
	stray_close();
}

/* Who asks a host for its name gets his own magic back, and no more of the name than hosts have room for. */
static void stray__query(void **state)
{
	enum { BEYOND = 20 };
	struct packet query = {.type = PACKET_QUERY, .host = {.index = 77, .magic = MXOE_QUERY_MAGIC ^ 0x123}};
	char name[PACKET_NAME_MAX + BEYOND + 1] = {0};

	(void)state;
	for (size_t length = PACKET_NAME_MAX - 2; length < PACKET_NAME_MAX + BEYOND; length++) {
		size_t most = length < PACKET_NAME_MAX - 1 ? length : PACKET_NAME_MAX - 1;

		stray_open(0);
		memset(name, 'n', length);
		name[length] = '\0';
		naming_mxoe_name(&datagram_of(&play.endpoint->base)->engine, 1, name, 0, is_here, NULL);
		partner_sends(&query);
		assert_int_equal(page.reply.magic, query.host.magic);
		assert_int_equal(page.reply.name_length, most + 1); /* with the NUL */
		assert_memory_equal(page.reply.name, name, most);
		assert_int_equal(page.reply.name[most], '\0');
		stray_close();
	}
}

/* A window that is not there is refused by the name of the transfer, so that who pulls need not wait for it. */
static void stray__pull(void **state)
{
	struct packet pull = partner_says(PACKET_PULL);

	(void)state;
	stray_open(0);
	pull.pull = (struct packet_pull){.window = 5 | 9 << 8, .transfer = 0x1234500021071982, .total = 9, .length = 9};
	partner_sends(&pull);
	assert_int_equal(page.nacks, 1);
	assert_int_equal(page.nack.reason, NACK_BAD_WINDOW);
	assert_true(page.nack.driver);
	assert_true(page.nack.transfer == pull.pull.transfer);
	assert_int_equal(page.frames, 0);
	stray_close();
}

/* A host that refuses the window that nobody has is there. */
static void stray__window_of_nobody(void **state)
{
	struct packet nack = partner_says(PACKET_NACK);
	struct connection *connection;
	struct engine *engine;

	(void)state;
	stray_open(0);
	engine = &datagram_of(&play.endpoint->base)->engine;
	connection = connection_of(&endpoint_peer(play.endpoint, handle_of(2))->base);
	play.now_ns += 1000;
	engine->now_ns = play.now_ns;
	assert_true(connection->silence.heard_ns < play.now_ns);
	nack.nack = (struct packet_nack){.driver = true, .reason = NACK_BAD_WINDOW,
					 .transfer = engine->naming->transfer(engine, connection->index)};
	partner_sends(&nack);
	assert_true(connection->silence.heard_ns == play.now_ns);
	assert_false(partner_is_gone());
	nack.nack.reason = NACK_CLOSED;
	partner_sends(&nack);
	assert_true(partner_is_gone());
	stray_close();
}

/* There are 256, and none is used again before its send has ended, whether anybody has looked at that or not; then
 * under another number. */
static void windows_case(unsigned flags, bool handles)
{
	struct packet ack = partner_says(PACKET_ACK), finish = partner_says(PACKET_RECORD);
	struct thole_request *handle;
	bool used[256] = {false};

	next_lot = 0xfe; /* so that each has the sequence 0xff */
	stray_open(THOLE_SYNC);
	play.endpoint->complete = NULL;
	next_lot = 0;
	for (unsigned i = 1; i < 258; i++)
		assert_int_equal(thole_send(play.endpoint, handle_of(2), "x", 1, 7, 0, THOLE_SYNC | flags, NULL,
					    handles ? &handle : NULL),
				 0);
	step();
	ack.ack = page.sequence + 1; /* a host holds 255 */
	ack.acked.session = play.session;
	partner_sends(&ack);
	assert_int_equal(page.rts, 256);
	for (unsigned i = 0; i < 256; i++) {
		assert_false(used[page.windows[i] & 0xff]);
		assert_int_not_equal(page.windows[i], 0xffff); /* the window that nobody has */
		used[page.windows[i] & 0xff] = true;
	}
	finish.sequence = partner(2)->next;
	finish.ack = page.sequence + 1;
	finish.message.record = (struct record){.kind = RECORD_FINISH, .tag = page.windows[3]};
	finish.message.total = 1;
	partner_sends(&finish);
	assert_int_equal(page.rts, 257);
	assert_int_equal(page.window & 0xff, page.windows[3] & 0xff);
	assert_int_not_equal(page.window, page.windows[3]);
	stray_close();
}

static void windows__all_in_use(void **state)
{
	(void)state;
	windows_case(THOLE_QUIET, false);
	windows_case(0, false);
	windows_case(0, true);
}

/* ---- What a mover has ---------------------------------------------------------------------------------------- */

/* What a mover was told, and the end that it has to report. */
static struct told {
	struct mover_peer peer;
	struct path records;
	struct mover_fetch fetch;
	struct mover_way way;
	const struct vector *memory;
	uint64_t window, withdrawn, cancelled;
	unsigned connects, offers, fetches;
	bool over;
	int status; /* of the end */
} told;

static int told_connect(struct mover *mover, const struct mover_peer *peer, uint32_t *id_p, struct mover_way **way_p)
{
	(void)mover;
	told.peer = *peer;
	told.records = *peer->records;
	told.connects++;
	*id_p = 3;
	*way_p = &told.way;
	return 0;
}

static void told_disconnect(struct mover *mover, uint32_t connection)
{
	(void)mover;
	assert_int_equal(connection, 3);
}

static int told_offer(struct mover *mover, uint32_t connection, uint64_t window, const struct vector *memory)
{
	(void)mover;
	assert_int_equal(connection, 3);
	told.window = window;
	told.memory = memory;
	told.offers++;
	return 0;
}

static void told_withdraw(struct mover *mover, uint32_t connection, uint64_t window)
{
	(void)mover;
	assert_int_equal(connection, 3);
	told.withdrawn = window;
}

static int told_fetch(struct mover *mover, const struct mover_fetch *fetch)
{
	(void)mover;
	told.fetch = *fetch;
	told.fetches++;
	return 0;
}

static void told_cancel(struct mover *mover, uint32_t connection, uint64_t transfer)
{
	(void)mover;
	(void)connection;
	told.cancelled = transfer;
}

static unsigned told_poll(struct mover *mover, const struct mover_reports *reports, struct engine *engine)
{
	(void)mover;
	if (!told.over)
		return 0;
	told.over = false;
	reports->fetched(engine, told.fetch.id, told.status);
	return 1;
}

static struct mover *told_mover(void)
{
	static const struct mover_calls told_calls = {
		.connect = told_connect,
		.disconnect = told_disconnect,
		.offer = told_offer,
		.withdraw = told_withdraw,
		.fetch = told_fetch,
		.cancel = told_cancel,
		.poll = told_poll,
	};
	static struct mover mover = {.calls = &told_calls, .least = 1, .keeps = true};

	told = (struct told){.offers = 0};
	return &mover;
}

static void told_open(void)
{
	page_open();
	play.link.mover = told_mover();
}

/* Whether something is handed over or not: so that it can answer who asks whether we are there. */
static void moved__known_when_open(void **state)
{
	(void)state;
	play_open("openmx-mxwire", 2, 1);
	play.link.mover = told_mover();
	for (unsigned i = 0; i < 22; i++)
		play_frame(i, false);
	assert_true(partner(2)->opened);
	assert_int_equal(told.connects, 1);
	assert_int_equal(told.peer.peer_session, partner(2)->session);
	assert_int_equal(told.way.host_index, partner(2)->index);
	play_close();
}

static void partner_offers(uint32_t length)
{
	struct packet rts = partner_message(NULL);
	struct window window = {.length = length, .count = 1, .id = 5 | 9 << 8 | PAGE_OFFSET << 16};

	rts.message.record.kind = RECORD_RTS;
	rts.message.total = rts.length = 0;
	window_store(&window, &rts.message.record);
	partner_sends(&rts);
}

/* It gets the names that are in frames, and reports by ours. Hosts' indices may change meanwhile. */
static void moved__fetch(void **state)
{
	struct packet nack = {.type = PACKET_NACK, .nack = {.driver = true, .reason = NACK_BAD_WINDOW}};
	struct packet query = {.type = PACKET_QUERY, .host = {.index = 77, .magic = MXOE_QUERY_MAGIC}};

	(void)state;
	told_open();
	play.endpoint->complete = send_ended;
	partner_offers(50000);
	assert_int_equal(told.fetches, 1);
	assert_int_equal(page.count, 0);
	assert_int_equal(told.peer.number, 1);
	assert_int_equal(told.peer.peer_index, 2);
	assert_int_equal(told.peer.session, play.session);
	assert_int_equal(told.peer.peer_session, partner(2)->session);
	assert_memory_equal(&told.records, &play.other, sizeof(struct path));
	assert_int_equal(told.way.host_index, partner(2)->index);
	assert_int_equal(told.fetch.window, 5 | 9 << 8 | PAGE_OFFSET << 16);
	assert_int_equal(told.fetch.transfer & 0xff, (0x80 ^ 1));
	assert_int_equal(told.fetch.frame, 4096);
	partner_sends(&query);
	assert_int_equal(told.way.host_index, 77);
	told.over = true;
	step();
	assert_int_equal(page.finishes, 1);
	assert_int_equal(sent.message_length, 50000);
	partner_offers(50000); /* refused */
	assert_int_equal(told.fetches, 2);
	nack.to = 1;
	nack.nack.transfer = told.fetch.transfer;
	partner_sends(&nack);
	assert_int_equal(told.cancelled, told.fetch.transfer);
	assert_int_equal(sent.status, THOLE_ERR_PROTOCOL);
	partner_offers(50000); /* the mover cannot have the memory: the engine asks, by another name */
	assert_int_equal(told.fetches, 3);
	told.over = true;
	told.status = -ENOMEM;
	step();
	assert_true(page.count > 0);
	assert_int_not_equal(page.pulls[0].transfer, told.fetch.transfer);
	stray_close();
}

/* A PULL that arrives is one that the mover does not answer; the mover's own say that the peer is there. */
static void moved__window(void **state)
{
	struct packet packet = partner_says(PACKET_PULL), finish = partner_says(PACKET_RECORD);
	uint8_t *bytes = calloc(1, PAGE_LENGTH);
	const struct connection *connection;

	(void)state;
	told_open();
	play.endpoint->complete = send_ended;
	assert_int_equal(thole_send(play.endpoint, handle_of(2), bytes, PAGE_LENGTH, 7, 0, THOLE_SYNC, NULL, NULL), 0);
	step();
	assert_int_equal(told.offers, 1);
	assert_int_equal(told.window, page.window);
	assert_int_equal(told.memory->length, PAGE_LENGTH);
	packet.pull = (struct packet_pull){
		.window = page.window, .transfer = 0x1234500021071982, .total = PAGE_LENGTH, .length = 20000};
	partner_sends(&packet);
	assert_int_equal(page.frames, 5);
	connection = connection_of(&endpoint_peer(play.endpoint, handle_of(2))->base);
	told.way.heard++;
	play.now_ns += 2 * HANDOVER_LOOK_NS;
	step();
	assert_true(connection->silence.heard_ns + HANDOVER_LOOK_NS > play.now_ns);
	finish.sequence = partner(2)->next;
	finish.message.record = (struct record){.kind = RECORD_FINISH, .tag = page.window};
	finish.message.total = PAGE_LENGTH;
	partner_sends(&finish);
	assert_int_equal(told.withdrawn, page.window);
	assert_int_equal(sent.status, 0);
	free(bytes);
	stray_close();
}

/* ---- Keys, and what becomes of a connect ------------------------------------------------------------------ */

/* What the engine has said last: one CONNECT or ACCEPT, and how often. */
static struct connect_said {
	struct packet packet;
	unsigned connects, accepts, records;
	uint8_t attempt;                     /* of the last CONNECT */
	uint32_t sequence;                   /* of the last record */
	uint32_t next;                       /* in the last ACCEPT */
} connect_said;

static unsigned connect_send_frames(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct packet packet;

	(void)link;
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(play.codec->decode(&packet, frames[i].head, frames[i].head_length), 0);
		if (packet.type == PACKET_RECORD) {
			connect_said.records++;
			connect_said.sequence = packet.sequence;
		}
		if (packet.type != PACKET_CONNECT && packet.type != PACKET_ACCEPT)
			continue;
		if (packet.type == PACKET_CONNECT)
			connect_said.attempt = packet.connect.attempt;
		else
			connect_said.next = packet.connect.next;
		connect_said.packet = packet;
		connect_said.connects += packet.type == PACKET_CONNECT;
		connect_said.accepts += packet.type == PACKET_ACCEPT;
	}
	return count;
}

static int32_t connect_status;

static void connect_ended(void *arg, const struct thole_completion *completion)
{
	(void)arg;
	assert_int_equal(completion->operation, THOLE_OP_CONNECT);
	assert_ptr_equal(completion->context, &connect_status);
	assert_int_equal(connect_status, 1); /* once */
	connect_status = completion->status;
}

/* An endpoint that knows nobody yet, and asks the other host's endpoint 9 for a connection with a key. */
static uint32_t connect_open(uint64_t key)
{
	static struct link_calls connect_calls;
	uint32_t handle;

	play_open("openmx-mxwire", 2, 1);
	connect_calls = calls;
	connect_calls.send = connect_send_frames;
	play.link.calls = &connect_calls;
	play.endpoint->complete = connect_ended;
	connect_said = (struct connect_said){.connects = 0};
	connect_status = 1;
	handle = handle_of(OTHER_NUMBER);
	assert_int_equal(thole_connect(play.endpoint, handle, key, &connect_status, NULL), 0);
	step();
	assert_int_equal(connect_said.connects, 1);
	assert_int_equal(connect_said.packet.connect.proof, (uint32_t)key);
	assert_int_equal(connect_status, 1);
	return handle;
}

static void connect_answer_next(uint8_t attempt, uint8_t status, uint32_t next)
{
	struct packet packet = {.type = PACKET_ACCEPT, .to = 1, .from = OTHER_NUMBER};
	uint8_t frame[ENGINE_FRAME_MAX];

	packet.connect = (struct packet_connect){.echo = play.session,
						 .session = OTHER_SESSION,
						 .next = next,
						 .attempt = attempt,
						 .status = status,
						 .index = 4};
	arrives(frame, partner_frame(&packet, frame));
}

static void connect_answer(uint8_t attempt, uint8_t status)
{
	connect_answer_next(attempt, status, 1);
}

static void connect__right_key(void **state)
{
	struct thole_peer_info info;
	uint32_t handle = connect_open(UINT64_C(0xabc00000000) | OTHER_KEY);

	(void)state;
	play.session++; /* an answer to whoever was here before */
	connect_answer(connect_said.packet.connect.attempt, CONNECT_OK);
	play.session--;
	assert_int_equal(connect_status, 1);
	connect_answer(connect_said.packet.connect.attempt, CONNECT_OK);
	assert_int_equal(connect_status, 0);
	assert_int_equal(thole_peer_info(play.endpoint, handle, &info), 0);
	assert_string_equal(info.state, "connected");
	assert_int_equal(info.session, OTHER_SESSION);
	connect_status = 1;
	assert_int_equal(thole_connect(play.endpoint, handle, KEY, &connect_status, NULL), 0);
	step();
	assert_int_equal(connect_status, 0); /* it is in, and asked no more */
	assert_int_equal(connect_said.connects, 1);
	play_close();
}

/* A repetition is the same connect; another one has another number, and only its own refusal counts. */
static void connect__wrong_key(void **state)
{
	uint32_t handle = connect_open(OTHER_KEY), again;
	uint8_t first = connect_said.packet.connect.attempt;
	struct thole_peer_info info;

	(void)state;
	play_until(play.now_ns + 1000000000);
	assert_true(connect_said.connects > 2);
	assert_int_equal(connect_said.packet.connect.attempt, first);
	connect_answer((uint8_t)(first + 1), CONNECT_BAD_KEY);
	assert_int_equal(connect_status, 1);
	connect_answer(first, CONNECT_BAD_KEY);
	assert_int_equal(connect_status, THOLE_ERR_ACCESS);
	assert_int_equal(thole_peer_info(play.endpoint, handle, &info), 0);
	assert_string_equal(info.reason, "refused");
	again = handle_of(OTHER_NUMBER);
	assert_int_not_equal(again, handle);
	connect_status = 1;
	assert_int_equal(thole_connect(play.endpoint, again, KEY, &connect_status, NULL), 0);
	step();
	assert_int_equal(connect_said.packet.connect.proof, KEY);
	assert_int_not_equal(connect_said.packet.connect.attempt, first);
	connect_answer(first, CONNECT_BAD_KEY);
	assert_int_equal(connect_status, 1);
	connect_answer(connect_said.packet.connect.attempt, CONNECT_OK);
	assert_int_equal(connect_status, 0);
	play_close();
}

/* Whoever has connected to us takes our frames, whatever it says to our key. */
static void connect__wrong_key_of_who_connected(void **state)
{
	struct packet packet = {.type = PACKET_CONNECT, .to = 1, .from = OTHER_NUMBER};
	uint32_t handle = connect_open(OTHER_KEY);

	(void)state;
	packet.connect =
		(struct packet_connect){.session = OTHER_SESSION, .proof = KEY, .next = 1, .attempt = 2, .index = 4};
	partner_sends(&packet);
	connect_answer(connect_said.attempt, CONNECT_BAD_KEY);
	assert_int_equal(connect_status, THOLE_ERR_ACCESS);
	assert_false(endpoint_peer(play.endpoint, handle)->base.gone);
	assert_int_equal(thole_send(play.endpoint, handle, "x", 1, 7, 0, THOLE_QUIET, NULL, NULL), 0);
	step();
	assert_int_equal(connect_said.records, 1);
	play_close();
}

/* Who asks again with the key that is being asked with asks nothing new; with another key it begins anew. */
static void connect__another_key_amid(void **state)
{
	uint32_t handle = connect_open(KEY);
	const struct connection *connection = connection_of(&endpoint_peer(play.endpoint, handle)->base);
	uint8_t first = connect_said.attempt;

	(void)state;
	play_until(play.now_ns + 1000000000);
	connect_said.connects = 0;
	assert_true(connection->handshake.attempt > 2);
	assert_int_equal(thole_cancel_context(play.endpoint, &connect_status), 1);
	connect_status = 1;
	assert_int_equal(thole_connect(play.endpoint, handle, KEY, &connect_status, NULL), 0);
	step();
	assert_int_equal(connect_said.connects, 0);
	assert_int_equal(thole_cancel_context(play.endpoint, &connect_status), 1);
	connect_status = 1;
	assert_int_equal(thole_connect(play.endpoint, handle, OTHER_KEY, &connect_status, NULL), 0);
	step();
	assert_int_equal(connect_said.connects, 1);
	assert_int_equal(connect_said.packet.connect.proof, OTHER_KEY);
	assert_int_not_equal(connect_said.attempt, first);
	assert_int_equal(connection->handshake.attempt, 1); /* the next one comes soon */
	connect_answer(connect_said.attempt, CONNECT_OK);
	assert_int_equal(connect_status, 0);
	play_close();
}

/* Who meets an endpoint again that he has lost asks as he was let in before. */
static void connect__as_before(void **state)
{
	struct packet nack = {.type = PACKET_NACK, .to = 1, .from = OTHER_NUMBER, .nack = {.reason = NACK_CLOSED}};
	uint32_t handle = connect_open(OTHER_KEY);

	(void)state;
	connect_answer(connect_said.attempt, CONNECT_OK);
	assert_int_equal(connect_status, 0);
	play.endpoint->complete = send_ended;
	assert_int_equal(thole_send(play.endpoint, handle, "x", 1, 7, 0, 0, NULL, NULL), 0);
	step();
	nack.sequence = connect_said.sequence;
	partner_sends(&nack);
	assert_true(endpoint_peer(play.endpoint, handle)->base.gone);
	connect_said.connects = 0;
	assert_int_equal(thole_send(play.endpoint, handle_of(OTHER_NUMBER), "x", 1, 7, 0, 0, NULL, NULL), 0);
	step();
	assert_int_equal(connect_said.connects, 1);
	assert_int_equal(connect_said.packet.connect.proof, OTHER_KEY);
	assert_int_equal(connect_said.packet.peer_index, 4);
	stray_close();
}

/* PULLs acknowledge nothing: what stands there for an acknowledgement is 0, which may be what comes next. */
static void connect__pull_amid_wrapping(void **state)
{
	struct packet pull = {.type = PACKET_PULL, .to = 1, .from = OTHER_NUMBER};
	uint32_t handle = connect_open(KEY);
	struct engine *engine = &datagram_of(&play.endpoint->base)->engine;

	(void)state;
	connect_answer_next(connect_said.attempt, CONNECT_OK, SEQUENCES - 1);
	play.endpoint->complete = send_ended;
	assert_int_equal(thole_send(play.endpoint, handle, "x", 1, 7, 0, 0, NULL, NULL), 0);
	step();
	assert_int_equal(connect_said.sequence, SEQUENCES - 1);
	pull.session = play.session;
	pull.pull = (struct packet_pull){.window = 0xffff, .transfer = 0x1234500021071982, .total = 1, .length = 1};
	partner_sends(&pull);
	assert_false(engine_drained(engine));
	stray_close();
}

static void connect_refused_by_nack(enum nack_reason reason)
{
	struct packet packet = {.type = PACKET_NACK, .to = 1, .from = OTHER_NUMBER, .sequence = 0};
	uint32_t handle = connect_open(KEY);
	uint8_t frame[ENGINE_FRAME_MAX];
	struct thole_peer_info info;

	packet.nack.reason = (uint8_t)reason;
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(connect_status, THOLE_ERR_PEER);
	assert_int_equal(thole_peer_info(play.endpoint, handle, &info), 0);
	assert_string_equal(info.reason, "ended");
	play_close();
}

static void connect__no_such_endpoint(void **state)
{
	(void)state;
	connect_refused_by_nack(NACK_BAD_ENDPOINT);
	connect_refused_by_nack(NACK_CLOSED);
}

/* After that it is nobody's; the peer may answer or not. */
static void connect__canceled(void **state)
{
	uint32_t handle = connect_open(KEY);

	(void)state;
	assert_int_equal(thole_cancel_context(play.endpoint, &connect_status), 1);
	assert_int_equal(connect_status, THOLE_ERR_CANCELED);
	connect_status = 0;
	connect_answer(connect_said.packet.connect.attempt, CONNECT_OK);
	assert_false(endpoint_peer(play.endpoint, handle)->base.gone);
	play_close();
}

/* Who connects to us with another key is told so, and nothing is made for it. While there is no memory nothing is
 * said: MX has no word for that, and asks again. */
static void connect__to_us(void **state)
{
	struct packet packet = {.type = PACKET_CONNECT, .to = 1, .from = OTHER_NUMBER + 1};
	uint8_t frame[ENGINE_FRAME_MAX];
	struct pool *connections, full;
	uint32_t peers;

	(void)state;
	connect_open(KEY);
	peers = play.endpoint->peer_count;
	packet.connect =
		(struct packet_connect){.session = 0x99, .proof = OTHER_KEY, .next = 1, .attempt = 33, .index = 4};
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(connect_said.accepts, 1);
	assert_int_equal(connect_said.packet.connect.status, CONNECT_BAD_KEY);
	assert_int_equal(connect_said.packet.connect.attempt, 33);
	assert_int_equal(connect_said.packet.connect.echo, 0x99);
	assert_int_equal(connect_said.packet.connect.session, play.session);
	assert_int_equal(play.endpoint->peer_count, peers);
	packet.connect.proof = KEY;
	connections = &datagram_of(&play.endpoint->base)->engine.connections;
	full = *connections;
	connections->free = NULL;
	connections->bound = connections->capacity;
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(connect_said.accepts, 1);
	*connections = full;
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(connect_said.accepts, 2);
	assert_int_equal(play.endpoint->peer_count, peers + 1);
	play_close();
}

/* A host that knew a process before us still says what it expected of that one. It starts afresh when it sees our
 * session, and its answer says so. */
static void connect__next_of_another_time(void **state)
{
	struct packet packet = {.type = PACKET_CONNECT, .to = 1, .from = OTHER_NUMBER};
	uint8_t frame[ENGINE_FRAME_MAX];
	uint32_t handle = connect_open(KEY);

	(void)state;
	packet.connect =
		(struct packet_connect){.session = OTHER_SESSION, .proof = KEY, .next = 0x3b, .attempt = 2, .index = 4};
	arrives(frame, partner_frame(&packet, frame));
	assert_int_equal(connect_said.accepts, 1);
	assert_int_equal(thole_send(play.endpoint, handle, "x", 1, 7, 0, THOLE_QUIET, NULL, NULL), 0);
	step();
	assert_int_equal(connect_said.records, 0);
	connect_answer(connect_said.attempt, CONNECT_OK);
	assert_int_equal(connect_status, 0);
	step();
	assert_int_equal(connect_said.records, 1);
	assert_int_equal(connect_said.sequence, 1);
	play_close();
}

/* A host that gives up on us again and again comes back to the epoch that it began with; and so do we. */
static void connect__epochs_wrap(void **state)
{
	struct packet packet = {.type = PACKET_CONNECT, .to = 1, .from = OTHER_NUMBER}, message;

	(void)state;
	connect_open(KEY);
	message = partner_message((const uint8_t *)"y");
	message.from = OTHER_NUMBER;
	connect_answer(connect_said.attempt, CONNECT_OK);
	for (uint32_t i = 1; i < 6; i++) {
		uint32_t next = (i << 14 & 0xffff) | 1;

		packet.connect =
			(struct packet_connect){.session = OTHER_SESSION, .proof = KEY, .next = next, .index = 4};
		connect_said.accepts = 0;
		play.endpoint->complete = send_ended;
		partner_sends(&packet);
		assert_int_equal(connect_said.accepts, 1);
		assert_int_equal(play.endpoint->base.counters[COUNTER_PEERS_GONE], i);
		assert_int_equal(connect_said.next, next); /* both have counted as far */
		connect_answer_next(connect_said.attempt, CONNECT_OK, next);
		assert_int_equal(
			thole_send(play.endpoint, handle_of(OTHER_NUMBER), "x", 1, 7, 0, THOLE_QUIET, NULL, NULL), 0);
		step();
		assert_int_equal(connect_said.sequence, next);
		message.sequence = next;
		sent = (struct thole_completion){.status = 1};
		partner_sends(&message);
		assert_int_equal(sent.operation, THOLE_OP_RECEIVE);
		receive_post(0);
	}
	play_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jumbo__as_the_client),
		cmocka_unit_test(jumbo__as_the_server),
		cmocka_unit_test(mx__as_the_client),
		cmocka_unit_test(mx__as_the_server),
		cmocka_unit_test(lossy__as_the_client),
		cmocka_unit_test(lossy__as_the_server),
		cmocka_unit_test(extra__as_the_client),
		cmocka_unit_test(extra__as_the_server),
		cmocka_unit_test(probes__to_the_client),
		cmocka_unit_test(probes__to_the_server),
		cmocka_unit_test(blocked__another_epoch),
		cmocka_unit_test(blocked__given_up),
		cmocka_unit_test(blocked__lost),
		cmocka_unit_test(blocked__as_the_client),
		cmocka_unit_test(burst__of_packets_that_there_are_not),
		cmocka_unit_test(pages__pulled),
		cmocka_unit_test(pages__served),
		cmocka_unit_test(moved__known_when_open),
		cmocka_unit_test(moved__fetch),
		cmocka_unit_test(moved__window),
		cmocka_unit_test(former__other_names),
		cmocka_unit_test(former__notify),
		cmocka_unit_test(former__are_in_nobodys_way),
		cmocka_unit_test(stray__refusals_are_few),
		cmocka_unit_test(stray__another_number),
		cmocka_unit_test(stray__nacks),
		cmocka_unit_test(stray__acks),
		cmocka_unit_test(stray__data),
		cmocka_unit_test(stray__notify),
		cmocka_unit_test(stray__wrong_key),
		cmocka_unit_test(stray__held_off),
		cmocka_unit_test(stray__reply),
		cmocka_unit_test(stray__query),
		cmocka_unit_test(stray__pull),
		cmocka_unit_test(stray__window_of_nobody),
		cmocka_unit_test(windows__all_in_use),
		cmocka_unit_test(connect__next_of_another_time),
		cmocka_unit_test(connect__epochs_wrap),
		cmocka_unit_test(connect__right_key),
		cmocka_unit_test(connect__wrong_key),
		cmocka_unit_test(connect__wrong_key_of_who_connected),
		cmocka_unit_test(connect__another_key_amid),
		cmocka_unit_test(connect__as_before),
		cmocka_unit_test(connect__pull_amid_wrapping),
		cmocka_unit_test(connect__no_such_endpoint),
		cmocka_unit_test(connect__canceled),
		cmocka_unit_test(connect__to_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
