/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_frames: native frames of every type as a pcap file on standard output, for the test of the dissector. The codec
 * of the library writes them, so that both cannot differ. What is in which frame is in test_dissector.py too.
 */
#include <stdio.h>
#include <string.h>

#include "base/endian.h"
#include "thole.h"
#include "transport/datagram/guard.h"

enum { ETHERNET = 14, IPV4 = 20, UDP = 8, ETHERNET_MIN = 60, ETHERTYPE = 0x88b5 };
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
static void write_raw(const uint8_t *frame, size_t length)
{
	uint8_t bytes[2000] = {0};

	ethernet(bytes, ETHERTYPE, false);
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
	return (struct packet){.type = type, .to = 7, .session = UINT64_C(0x1122334455667788), .sequence = 1000, .ack = 2000,
			       .credit = 30};
}

static void connects(void)
{
	struct packet packet = front(PACKET_CONNECT);

	packet.to = PACKET_TO_NONE;
	packet.session = 0;
	packet.connect = (struct packet_connect){
		.host = UINT64_C(0xa1a2a3a4a5a6a7a8), .endpoint = UINT64_C(0xb1b2b3b4b5b6b7b8),
		.network = {1, 0, 0x9c, 0x41, 10, 0, 0, 1, 2, 0, 0, 0, 0, 1}, .target = UINT64_C(0xc1c2c3c4c5c6c7c8),
		.session = UINT64_C(0xd1d2d3d4d5d6d7d8), .proof = UINT64_C(0xe1e2e3e4e5e6e7e8), .index = 3, .next = 1000,
		.size = 1472, .bulk_port = PORT_BULK, .ethertype = ETHERTYPE, .mac = {2, 0, 0, 0, 0, 1}, .attempt = 1,
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

	packet.flags = PACKET_HOLD | PACKET_ANSWER;
	packet.payload = payload;
	packet.length = 5;
	packet.message.record = (struct record){.kind = RECORD_EAGER, .flags = RECORD_PLAIN, .tag = 77, .length = 5};
	send_udp(&packet);
	packet.flags = 0;
	packet.sequence++;
	packet.message.record = (struct record){.kind = RECORD_ANNOUNCE, .flags = RECORD_IMM | RECORD_STREAM, .tag = 78,
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
	write_raw(frame, encode(&packet, frame)); /* no payload, but padding */
	packet.sequence++;
	packet.length = 2;
	length = encode(&packet, frame);
	codec_native.seal(frame, length, NULL, 0);
	write_raw(frame, length);
	packet.sequence++;
	length = encode(&packet, frame);
	codec_native.seal(frame, length, NULL, 0);
	frame[length - 1] ^= 1;
	write_raw(frame, length);
	frame[0] = 99;
	write_raw(frame, length);
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
	guard_stamp(&guard, &codec_native, frame, length, NULL, 0);
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

int main(void)
{
	pcap_head();
	connects();  /* 1, 2 */
	records();   /* 3 to 6 */
	others();    /* 7 to 11 */
	bulk();      /* 12, 13 */
	raw();       /* 14 to 17 */
	strangers(); /* 18, 19 */
	tagged();    /* 20, 21 */
	return fflush(stdout) ? 1 : 0;
}
