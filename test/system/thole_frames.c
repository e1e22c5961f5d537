/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_frames: frames as a pcap file on standard output, for the test of the dissector. The codecs of the library
 * write them, so that both cannot differ. test/data/frames has the same as they were once and have to stay.
 *
 *     thole-frames             native frames of every type; what is in which frame is in test_dissector.py too
 *     thole-frames every       of each codec every packet, with every field that it has, and no two bytes alike
 */
#include <stdio.h>
#include <string.h>

#include "base/endian.h"
#include "thole.h"
#include "transport/datagram/guard.h"

enum { ETHERNET = 14, IPV4 = 20, UDP = 8, ETHERNET_MIN = 60, ETHERTYPE = 0x88b5, ETHERTYPE_MXOE = 0x86df };
enum { PORT_RECORDS = 40001, PORT_BULK = 40002, PORT_PEER = 50001 };

static uint32_t clock_us; /* of the capture: each frame comes a little later */

static void pcap_head(void)
{
	const uint32_t head[6] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535 + ETHERNET, 1};

	fwrite(head, sizeof(head), 1, stdout);
}

static void pcap_frame(const uint8_t *bytes, size_t length)
{
	const uint32_t head[4] = {1, clock_us += 100, (uint32_t)length, (uint32_t)length};

	fwrite(head, sizeof(head), 1, stdout);
	fwrite(bytes, length, 1, stdout);
}

static void ethernet(uint8_t *bytes, uint16_t type, bool back)
{
	static const uint8_t here[6] = {2, 0, 0, 0, 0, 1}, there[6] = {2, 0, 0, 0, 0, 2};

	memcpy(bytes, back ? here : there, 6);
	memcpy(bytes + 6, back ? there : here, 6);
	store_be16(bytes + 12, type);
}

/* A packet of UDP over IPv4, as a capture at the sender shows it: no checksums yet. */
static void write_udp(const uint8_t *payload, size_t length, uint16_t from, uint16_t to, bool back)
{
	static uint8_t bytes[ETHERNET + 65535];
	uint8_t *ip = bytes + ETHERNET, *udp = ip + IPV4;

	memset(bytes, 0, ETHERNET + IPV4 + UDP);
	ethernet(bytes, 0x0800, back);
	ip[0] = 0x45;
	store_be16(ip + 2, (uint16_t)(IPV4 + UDP + length));
	ip[8] = 64;
	ip[9] = 17;
	store_be32(ip + 12, back ? 0x0a000002 : 0x0a000001);
	store_be32(ip + 16, back ? 0x0a000001 : 0x0a000002);
	store_be16(udp, from);
	store_be16(udp + 2, to);
	store_be16(udp + 4, (uint16_t)(UDP + length));
	memcpy(udp + UDP, payload, length);
	pcap_frame(bytes, ETHERNET + IPV4 + UDP + length);
}

/* A raw frame as it arrives, padded. */
static void write_raw(const uint8_t *frame, size_t length, uint16_t ethertype)
{
	uint8_t bytes[2000] = {0};

	ethernet(bytes, ethertype, false);
	memcpy(bytes + ETHERNET, frame, length);
	pcap_frame(bytes, ETHERNET + length < ETHERNET_MIN ? ETHERNET_MIN : ETHERNET + length);
}

static size_t encode(const struct packet *packet, uint8_t *frame)
{
	size_t head = codec_native.encode(packet, frame);

	if (packet->length)
		memcpy(frame + head, packet->payload, packet->length);
	return head + packet->length;
}

static void send_udp(const struct packet *packet)
{
	uint8_t frame[2000] = {0};
	size_t length = encode(packet, frame);

	/* A CONNECT is as long as it says. */
	if (packet->type == PACKET_CONNECT || packet->type == PACKET_ACCEPT)
		length = packet->connect.size;
	write_udp(frame, length, PORT_RECORDS, PORT_PEER, packet->type == PACKET_ACCEPT);
}

static struct packet front(uint8_t type)
{
	return (struct packet){.type = type,
			       .to = 7,
			       .session = UINT64_C(0x1122334455667788),
			       .sequence = 1000,
			       .ack = 2000,
			       .credit = 30};
}

static void connects(void)
{
	struct packet packet = front(PACKET_CONNECT);

	packet.to = PACKET_TO_NONE;
	packet.session = 0;
	packet.connect = (struct packet_connect){
		.host = UINT64_C(0xa1a2a3a4a5a6a7a8),
		.endpoint = UINT64_C(0xb1b2b3b4b5b6b7b8),
		.network = {1, 0, 0x9c, 0x41, 10, 0, 0, 1, 2, 0, 0, 0, 0, 1},
		.target = UINT64_C(0xc1c2c3c4c5c6c7c8),
		.session = UINT64_C(0xd1d2d3d4d5d6d7d8),
		.proof = UINT64_C(0xe1e2e3e4e5e6e7e8),
		.index = 3,
		.next = 1000,
		.size = 1472,
		.bulk_port = PORT_BULK,
		.ethertype = ETHERTYPE,
		.mac = {2, 0, 0, 0, 0, 1},
		.attempt = 1,
	};
	send_udp(&packet);
	packet.type = PACKET_ACCEPT;
	packet.connect.seen = 1472;
	packet.connect.size = 112;
	packet.connect.status = CONNECT_BAD_KEY;
	send_udp(&packet);
}

static void records(void)
{
	static const uint8_t payload[100] = "Hello";
	struct packet packet = front(PACKET_RECORD);

	packet.flags = PACKET_BACKPRESSURE | PACKET_ANSWER;
	packet.payload = payload;
	packet.length = 5;
	packet.message.record = (struct record){.kind = RECORD_EAGER, .flags = RECORD_PLAIN, .tag = 77, .length = 5};
	send_udp(&packet);
	packet.flags = 0;
	packet.sequence++;
	packet.message.record = (struct record){.kind = RECORD_RTS, .flags = RECORD_IMM | RECORD_STREAM, .tag = 78,
						.imm = 79, .length = RECORD_EXTERNAL, .arg = {80, 81, 82, 83}};
	packet.length = 0;
	send_udp(&packet);
	packet.sequence++;
	packet.length = 100;
	packet.message.record = (struct record){.kind = RECORD_PIECE};
	send_udp(&packet);
	packet.ack++; /* the same again, with what is known since */
	send_udp(&packet);
}

static void others(void)
{
	struct packet packet = front(PACKET_ACK);

	packet.acked.held = 5;
	send_udp(&packet);
	packet = front(PACKET_PULL);
	packet.pull = (struct packet_pull){.window = 0x77, .transfer = 0x99, .offset = 123456789012, .length = 5760,
					   .frame = 1440, .wanted = 0xa};
	send_udp(&packet);
	send_udp(&packet);
	packet = front(PACKET_NACK);
	packet.nack.reason = NACK_BAD_WINDOW;
	packet.nack.transfer = 0x99;
	packet.nack.refused = UINT64_C(0xd1d2d3d4d5d6d7d8);
	packet.nack.proof = UINT64_C(0xf1f2f3f4f5f6f7f8);
	send_udp(&packet);
	packet = front(PACKET_CLOSE);
	send_udp(&packet);
}

/* Five frames in one packet, as the kernel gets them; then one of them alone, again. */
static void bulk(void)
{
	static uint8_t bytes[65535], payload[1440];
	struct packet packet = front(PACKET_DATA);
	size_t at = 0;

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)i;
	packet.payload = payload;
	packet.data.transfer = 0x99;
	for (unsigned i = 0; i < 5; i++) {
		packet.length = i < 4 ? sizeof(payload) : 7;
		packet.data.offset = 1440 * (uint64_t)i;
		at += encode(&packet, bytes + at);
	}
	write_udp(bytes, at, PORT_BULK, PORT_PEER, true);
	packet.length = sizeof(payload);
	packet.data.offset = 2880;
	write_udp(bytes, encode(&packet, bytes), PORT_BULK, PORT_PEER, true);
}

static void raw(void)
{
	struct packet packet = front(PACKET_RECORD);
	uint8_t frame[2000];
	size_t length;

	packet.sequence = 5000;
	packet.payload = (const uint8_t *)"ab";
	packet.message.record = (struct record){.kind = RECORD_EAGER};
	write_raw(frame, encode(&packet, frame), ETHERTYPE); /* no payload, but padding */
	packet.sequence++;
	packet.length = 2;
	length = encode(&packet, frame);
	codec_native.seal(frame, length, NULL, 0);
	write_raw(frame, length, ETHERTYPE);
	packet.sequence++;
	length = encode(&packet, frame);
	codec_native.seal(frame, length, NULL, 0);
	frame[length - 1] ^= 1;
	write_raw(frame, length, ETHERTYPE);
	frame[0] = 99;
	write_raw(frame, length, ETHERTYPE);
}

/* With counters and tags, short and long. */
static void tagged(void)
{
	struct guard_end own = {1, 2, 3}, peer = {4, 5, 6};
	struct packet packet = front(PACKET_ACK);
	struct guard guard;
	uint8_t frame[2000];
	size_t length;

	guard_begin(&guard, GUARD_HEADS, 7, &own, &peer, NULL);
	packet.flags = PACKET_TAGGED | PACKET_ANSWER;
	packet.acked.held = 9;
	length = encode(&packet, frame);
	guard_stamp(&guard, &codec_native, &(struct frame_out){.head = frame, .head_length = (uint32_t)length}, 1);
	write_udp(frame, length, PORT_RECORDS, PORT_PEER, false);
	packet = front(PACKET_RECORD);
	packet.flags = PACKET_SEALED; /* what tag it is, nobody can see */
	packet.sequence = 1100;
	packet.payload = (const uint8_t *)"Hello";
	packet.length = 5;
	packet.message.record = (struct record){.kind = RECORD_EAGER, .tag = 77, .length = 5};
	write_udp(frame, encode(&packet, frame), PORT_RECORDS, PORT_PEER, false);
}

/* What is not ours: a version that does not exist, a name service's question. */
static void strangers(void)
{
	struct packet packet = front(PACKET_ACK);
	uint8_t question[40] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5, 't', 'h', 'o', 'l', 'e', 0, 0, 1, 0, 1};
	uint8_t frame[100];
	size_t length = encode(&packet, frame);

	frame[1] = 1;
	write_udp(frame, length, 40100, 50100, false);
	write_udp(question, sizeof(question), 40101, 50101, false);
}

/* ---- Every field ---------------------------------------------------------------------------------- */

/* The next bytes, none of them 0 and no two in a row alike. Compilers take initializers in the order in which they
 * stand. */
static uint64_t some(unsigned bytes)
{
	static uint8_t next;
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++) {
		next = next == 0xef ? 1 : (uint8_t)(next + 1);
		value = value << 8 | next;
	}
	return value;
}

static struct packet some_front(uint8_t type)
{
	struct packet packet = {.type = type};

	packet.to = (uint32_t)some(4);
	packet.session = some(8);
	packet.sequence = (uint32_t)some(4);
	packet.ack = (uint32_t)some(4);
	packet.credit = (uint16_t)some(2);
	return packet;
}

static void native_every_connect(uint8_t type)
{
	struct packet packet = some_front(type);
	struct packet_connect *connect = &packet.connect;

	*connect = (struct packet_connect){.host = some(8),
					   .endpoint = some(8),
					   .target = some(8),
					   .session = some(8),
					   .proof = some(8),
					   .index = (uint32_t)some(4),
					   .next = (uint32_t)some(4),
					   .seen = (uint16_t)some(2),
					   .size = 112,
					   .bulk_port = (uint16_t)some(2),
					   .ethertype = (uint16_t)some(2),
					   .attempt = (uint8_t)some(1),
					   .status = CONNECT_NO_GUARD,
					   .integrity = 2,
					   .checksum = 1};
	for (unsigned i = 0; i < sizeof(connect->network); i++)
		connect->network[i] = (uint8_t)some(1);
	for (unsigned i = 0; i < sizeof(connect->mac); i++)
		connect->mac[i] = (uint8_t)some(1);
	for (unsigned i = 0; i < sizeof(connect->later); i++)
		connect->later[i] = (uint8_t)some(1);
	send_udp(&packet);
}

static void native_every_record(struct record record, uint8_t flags)
{
	struct packet packet = some_front(PACKET_RECORD);

	packet.flags = flags;
	packet.payload = (const uint8_t *)"Hello";
	packet.length = 5;
	packet.message.record = record;
	packet.message.record.tag = some(8);
	packet.message.record.imm = some(8);
	for (unsigned i = 0; i < RECORD_ARGS; i++)
		packet.message.record.arg[i] = some(8);
	send_udp(&packet);
}

static void native_every_record_kind(void)
{
	for (uint8_t kind = RECORD_EAGER; kind <= RECORD_REPLY; kind++)
		native_every_record((struct record){.kind = kind, .length = kind == RECORD_PIECE ? 5 : RECORD_EXTERNAL,
						    .flags = RECORD_IMM | RECORD_SYNC | RECORD_WINDOW | RECORD_STREAM},
				    PACKET_BACKPRESSURE);
	for (uint8_t kind = RECORD_EAGER; kind <= RECORD_REPLY; kind++)
		native_every_record(
			(struct record){.kind = kind, .length = 5, .flags = RECORD_PLAIN | RECORD_MORE | RECORD_NOTIFY},
			PACKET_ANSWER);
}

/* With counter and tag, those that nobody looks behind. */
static void native_every_other(uint8_t flags)
{
	struct packet packet = some_front(PACKET_ACK);

	packet.flags = flags;
	packet.acked.held = some(8);
	send_udp(&packet);
	packet = some_front(PACKET_PULL);
	packet.flags = (uint8_t)(flags | PACKET_ASIDE);
	packet.pull = (struct packet_pull){.window = some(8),
					   .transfer = some(7),
					   .offset = some(5),
					   .length = (uint32_t)some(3),
					   .frame = (uint16_t)(some(2) | 0x8000),
					   .wanted = some(8)};
	packet.pull.length %= 64 * packet.pull.frame;
	send_udp(&packet);
	packet = some_front(PACKET_DATA);
	packet.flags = flags;
	packet.data.transfer = some(7);
	packet.data.offset = some(5);
	packet.payload = (const uint8_t *)"Hello, world, how are you today";
	packet.length = 31;
	send_udp(&packet);
	packet = some_front(PACKET_NACK);
	packet.flags = flags;
	packet.nack.reason = NACK_BAD_WINDOW;
	packet.nack.transfer = some(8);
	packet.nack.refused = some(8);
	packet.nack.proof = some(8);
	send_udp(&packet);
	packet = some_front(PACKET_CLOSE);
	packet.flags = flags;
	send_udp(&packet);
}

static void native_every(void)
{
	native_every_connect(PACKET_CONNECT);
	native_every_connect(PACKET_ACCEPT);
	native_every_record_kind();
	native_every_other(0);
	native_every_other(PACKET_TAGGED);
	native_every_other(PACKET_SEALED | PACKET_ANSWER);
}

static void mxoe_write(const struct codec *codec, struct packet *packet)
{
	uint8_t frame[2000] = {0};
	size_t head;

	packet->peer_index = (uint16_t)some(2);
	packet->generation = (uint8_t)some(1);
	packet->to = (uint8_t)some(1);
	packet->from = (uint8_t)some(1);
	head = codec->encode(packet, frame);
	if (packet->length)
		memcpy(frame + head, packet->payload, packet->length);
	write_raw(frame, head + packet->length, ETHERTYPE_MXOE);
}

/* One of each class: tiny, small, medium in two fragments, rendezvous, notify. */
static void mxoe_every_record(const struct codec *codec)
{
	static const uint8_t payload[100] = "Hello";
	const struct window window = {.length = some(4), .count = 1, .id = some(4)};
	struct packet packet = some_front(PACKET_RECORD);

	packet.payload = payload;
	packet.message.checksum = (uint16_t)some(2);
	packet.message.record = (struct record){.kind = RECORD_EAGER, .tag = some(8)};
	for (packet.length = 5; packet.length <= 90; packet.length += 85) {
		packet.message.total = packet.length;
		mxoe_write(codec, &packet);
	}
	packet.message.total = codec->fragment + 77;
	packet.message.fragment = 1;
	packet.message.record.kind = RECORD_PIECE;
	packet.length = 77;
	mxoe_write(codec, &packet);
	packet.length = 0;
	packet.message.record.kind = RECORD_RTS;
	window_store(&window, &packet.message.record);
	packet.message.record.tag = some(8);
	mxoe_write(codec, &packet);
	packet.message.record.kind = RECORD_FINISH;
	packet.message.record.tag = some(2);
	packet.message.total = some(4);
	mxoe_write(codec, &packet);
}

static void mxoe_every_connect(const struct codec *codec)
{
	struct packet packet = some_front(PACKET_CONNECT);

	packet.connect = (struct packet_connect){.session = some(4),
						 .echo = some(4),
						 .proof = some(4),
						 .index = (uint16_t)some(2),
						 .next = (uint16_t)some(2),
						 .attempt = (uint8_t)some(1),
						 .status = CONNECT_BAD_KEY};
	mxoe_write(codec, &packet);
	packet.type = PACKET_ACCEPT;
	mxoe_write(codec, &packet);
	packet = some_front(PACKET_ACK);
	packet.acked = (struct packet_ack){.number = (uint32_t)some(4), .send = (uint16_t)some(2), .session = some(4),
					   .resent = (uint8_t)some(1)};
	mxoe_write(codec, &packet);
}

static void mxoe_every_bulk(const struct codec *codec)
{
	struct packet packet = some_front(PACKET_PULL);
	uint64_t transfer = some(4) << 32 | 0x21071982;

	/* a block that ends in what is pulled: */
	packet.pull = (struct packet_pull){.total = 0xfafbfcfd,
					   .window = some(4),
					   .transfer = transfer,
					   .frame_index = 0x50607,
					   .length = codec == &codec_mxoe ? 0xe1e2 : 0x71727,
					   .frame_offset = (uint16_t)(some(2) % codec->data)};
	mxoe_write(codec, &packet);
	packet = some_front(PACKET_DATA);
	packet.data = (struct packet_data){.transfer = transfer, .offset = some(4), .frame = (uint8_t)some(1)};
	packet.payload = (const uint8_t *)"Hello";
	packet.length = 5;
	mxoe_write(codec, &packet);
	for (unsigned driver = 0; driver < 2; driver++) {
		packet = some_front(PACKET_NACK);
		packet.nack = (struct packet_nack){.reason = NACK_CLOSED, .driver = driver, .transfer = transfer,
						   .index = (uint16_t)some(2)};
		mxoe_write(codec, &packet);
	}
}

static void mxoe_every_host(const struct codec *codec)
{
	struct packet packet = some_front(PACKET_QUERY);

	packet.host = (struct packet_host){.index = (uint16_t)some(2), .magic = (uint32_t)some(4), .mac = some(6),
					   .serial = (uint32_t)some(4), .name_length = 7, .name = "host:0"};
	mxoe_write(codec, &packet);
	packet.type = PACKET_REPLY;
	mxoe_write(codec, &packet);
	packet.type = PACKET_HELLO;
	mxoe_write(codec, &packet);
}

static void mxoe_every(const struct codec *codec)
{
	mxoe_every_record(codec);
	mxoe_every_connect(codec);
	mxoe_every_bulk(codec);
	mxoe_every_host(codec);
}

static void native_sample(void)
{
	connects();  /* 1, 2 */
	records();   /* 3 to 6 */
	others();    /* 7 to 11 */
	bulk();      /* 12, 13 */
	raw();       /* 14 to 17 */
	strangers(); /* 18, 19 */
	tagged();    /* 20, 21 */
}

int main(int argc, char **argv)
{
	pcap_head();
	if (argc == 2 && strcmp(argv[1], "every") == 0) {
		native_every();
		mxoe_every(&codec_mxoe);
		mxoe_every(&codec_mxoe_jumbo);
	} else {
		native_sample();
	}
	return fflush(stdout) ? 1 : 0;
}
