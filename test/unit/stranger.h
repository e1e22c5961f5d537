/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stranger.h - one endpoint whose links are the test's: it says what it likes, and looks at what comes back.
 */
#ifndef UNIT_STRANGER_H
#define UNIT_STRANGER_H

#include "pair.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/datagram.h"
#include "transport/datagram/transmit_frame.h"

#define SECOND_NS UINT64_C(1000000000)

/* LANE: a third one, the best for DATA, which goes by UDP without it. */
enum { UDP, RAW, LINKS_USUAL, LANE = LINKS_USUAL, LINKS };
enum { ETHERTYPE = 0x88b5, JOB_KEY = 77, FRAME_SHORT = 256 };

/* A link that keeps the last frame, and counts bytes. */
struct sink {
	struct link link;
	uint8_t last[ENGINE_FRAME_MAX];
	size_t last_length;
	size_t longest;
	uint64_t bytes, frames;
	bool blind; /* it cannot say how long frames may be */
	/* what lies in its memory; each call to receive hands over one */
	struct {
		uint8_t bytes[FRAME_SHORT];
		size_t length;
	} in[2];
	unsigned in_count, in_taken;
};

struct host {
	struct sink sinks[LINKS];
	struct thole_endpoint *endpoint;
	struct engine *engine;
	uint64_t now_ns, bytes_in;
};

static inline size_t frame_flatten(const struct frame_out *frame, uint8_t *bytes)
{
	uint8_t *at = bytes;

	memcpy(at, frame->head, frame->head_length);
	at += frame->head_length;
	for (unsigned i = 0; i < frame->body_count; at += frame->body[i++].iov_len)
		memcpy(at, frame->body[i].iov_base, frame->body[i].iov_len);
	return (size_t)(at - bytes);
}

static inline unsigned sink_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct sink *sink = (struct sink *)link;

	for (unsigned i = 0; i < count; i++) {
		sink->last_length = frame_flatten(&frames[i], sink->last);
		if (sink->last_length > sink->longest)
			sink->longest = sink->last_length;
		sink->bytes += sink->last_length;
		sink->frames++;
	}
	return count;
}

static inline struct path host_path(unsigned link, uint8_t number)
{
	return link != RAW ? (struct path){{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = number, [16] = 1, [17] = 1}}
			   : (struct path){{2, 0, 0, 0, 0, number, 0, 0, 0, (uint8_t)(100 + number)}};
}

static inline unsigned sink_receive(struct link *link, unsigned budget)
{
	struct sink *sink = (struct sink *)link;
	struct path from = host_path(link->index, 2);

	(void)budget;
	if (sink->in_taken == sink->in_count)
		return 0;
	engine_frame(link->engine, link, &from, sink->in[sink->in_taken].bytes, sink->in[sink->in_taken].length);
	sink->in_taken++;
	return 1;
}

static inline bool sink_ready(struct link *link)
{
	(void)link;
	return false;
}

static inline uint32_t sink_frame_max(struct link *link, const struct path *to)
{
	(void)to;
	return ((const struct sink *)link)->blind ? 0 : ENGINE_FRAME_MAX;
}

static inline void sink_close(struct link *link)
{
	(void)link;
}

static const struct link_calls sink_calls[LINKS] = {[UDP] = {
	.name = "udp",
	.kind = &kind_ip,
	.rank = {[LINK_RECORDS] = 20, [LINK_BULK] = 10, [LINK_CONNECT] = 10},
	.send = sink_send,
	.receive = sink_receive,
	.ready = sink_ready,
	.frame_max = sink_frame_max,
	.close = sink_close,
}, [RAW] = {
	.name = "raw",
	.kind = &kind_ethernet,
	.rank = {[LINK_RECORDS] = 10, [LINK_BULK] = 20, [LINK_CONNECT] = 20},
	.send = sink_send,
	.receive = sink_receive,
	.cheap = true,
	.ready = sink_ready,
	.frame_max = sink_frame_max,
	.close = sink_close,
}, [LANE] = {
	.name = "lane",
	.kind = &kind_ip,
	.rank = {[LINK_RECORDS] = 30, [LINK_BULK] = 5},
	.send = sink_send,
	.receive = sink_receive,
	.ready = sink_ready,
	.frame_max = sink_frame_max,
	.close = sink_close,
}};

static inline void count_up(void *arg, void *bytes, size_t length)
{
	uint64_t *next = arg;

	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(++*next * 37);
}

static uint64_t random_state;

static inline void host_parts(uint8_t number, struct address_parts *parts)
{
	*parts = (struct address_parts){.host = number, .endpoint = 100u + number,
					.network = {ADDRESS_IPV4, 0, 1, 1, 10, 0, 0, number, 2, 0, 0, 0, 0, number}};
}

/* With so many of the links, from that one on. */
static inline struct host *host_open_some(uint64_t key, unsigned first, unsigned count)
{
	struct host *host = malloc(sizeof(*host));
	struct link *links[LINKS];
	struct thole_endpoint_attr attr = {0};
	struct address_parts parts;
	struct options options;

	assert_non_null(host);
	*host = (struct host){.now_ns = SECOND_NS};
	random_state = 1;
	for (unsigned i = first; i < first + count; i++) {
		host->sinks[i].link = (struct link){.calls = &sink_calls[i], .fd = {-1, -1}, .room = 1 << 20,
						    .own = host_path(i, 1), .ethertype = i == RAW ? ETHERTYPE : 0};
		links[i - first] = &host->sinks[i].link;
	}
	host_parts(1, &parts);
	assert_int_equal(options_defaults(&options, NULL), 0);
	options.job_key = key;
	assert_int_equal(endpoint_create(&attr, &options, &parts, 1, &host->endpoint), 0);
	assert_int_equal(datagram_attach(&host->endpoint->base, &codec_native, links, count, count_up, &random_state),
			 0);
	host->engine = &datagram_of(&host->endpoint->base)->engine;
	endpoint_advance(host->endpoint, host->now_ns);
	return host;
}

static inline struct host *host_open_links(uint64_t key, unsigned count)
{
	return host_open_some(key, 0, count);
}

static inline struct host *host_open(uint64_t key)
{
	return host_open_links(key, LINKS_USUAL);
}

static inline void host_close(struct host *host)
{
	endpoint_vanish(host->endpoint);
	free(host);
}

/* Whatever it has in mind, it has time for. */
static inline void host_run(struct host *host, uint64_t ns)
{
	uint64_t end_ns = host->now_ns + ns;

	for (;;) {
		uint64_t next_ns;

		while (endpoint_advance(host->endpoint, host->now_ns) > 0)
			;
		next_ns = endpoint_deadline(host->endpoint);
		if (next_ns > end_ns)
			break;
		host->now_ns = next_ns > host->now_ns ? next_ns : host->now_ns + 1;
	}
	host->now_ns = end_ns;
}

static inline uint64_t bytes_out(const struct host *host)
{
	return host->sinks[UDP].bytes + host->sinks[RAW].bytes + host->sinks[LANE].bytes;
}

/* A frame of `length` bytes, or as short as its packet is. */
static inline void stranger_says_from(struct host *host, unsigned link, uint8_t number, const struct packet *packet,
				      size_t length)
{
	struct path from = host_path(link, number);
	uint8_t frame[ENGINE_FRAME_MAX] = {0};
	size_t head = codec_native.encode(packet, frame) + packet->length;

	if (length < head)
		length = head;
	host->bytes_in += length;
	engine_frame(host->engine, &host->sinks[link].link, &from, frame, length);
}

static inline void stranger_says(struct host *host, unsigned link, const struct packet *packet, size_t length)
{
	stranger_says_from(host, link, 2, packet, length);
}

/* The same, but the frame waits in the link's memory until that is polled. */
static inline void stranger_leaves(struct host *host, unsigned link, const struct packet *packet)
{
	struct sink *sink = &host->sinks[link];
	size_t at = sink->in_count++;

	assert_true(at < sizeof(sink->in) / sizeof(*sink->in));
	sink->in[at].length = codec_native.encode(packet, sink->in[at].bytes) + packet->length;
	assert_true(sink->in[at].length <= FRAME_SHORT);
}

/* From where it says that it is, and that is somebody else. */
static inline void stranger_connect(struct packet *packet)
{
	struct address_parts parts;

	host_parts(2, &parts);
	*packet = (struct packet){.type = PACKET_CONNECT, .to = PACKET_TO_NONE};
	packet->connect.host = parts.host;
	packet->connect.endpoint = parts.endpoint;
	memcpy(packet->connect.network, parts.network, sizeof(parts.network));
	memcpy(packet->connect.mac, parts.network + 8, 6);
	packet->connect.ethertype = ETHERTYPE;
	packet->connect.target = 101;
	packet->connect.session = 4711;
	packet->connect.next = 1;
}

/* The last frame that was sent by a link. */
static inline void host_said(const struct host *host, unsigned link, struct packet *packet)
{
	assert_int_equal(codec_native.decode(packet, host->sinks[link].last, host->sinks[link].last_length), 0);
}

/* Its answer to our CONNECT or ACCEPT. */
static inline void stranger_accept(struct packet *packet, const struct packet *asked)
{
	stranger_connect(packet);
	packet->type = PACKET_ACCEPT;
	packet->to = asked->connect.index;
	packet->session = asked->connect.session;
	packet->connect.seen = ENGINE_FRAME_MAX;
	packet->connect.attempt = asked->connect.attempt;
}

/* A connection that the other side has asked for, and shown that it reads our answer. Returns how it names ours. */
static inline struct packet stranger_opens(struct host *host)
{
	struct packet packet, answer;

	stranger_connect(&packet);
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	host_said(host, UDP, &answer);
	assert_int_equal(answer.type, PACKET_ACCEPT);
	packet = (struct packet){
		.type = PACKET_ACK, .to = answer.connect.index, .session = answer.connect.session, .ack = 1};
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(connection_of(&endpoint_peer(host->endpoint, 0)->base)->state, CONNECTION_OPEN);
	return packet;
}

static inline uint64_t host_count(const struct host *host, enum counter counter)
{
	return host->endpoint->base.counters[counter];
}

static inline struct connection *host_connection(const struct host *host)
{
	return connection_of(&endpoint_peer(host->endpoint, 0)->base);
}

/* ---- A link that loses ------------------------------------------------------------------------------------- */

enum { WIDE = 60000, NARROW = 8, TRIP_NS = 50000 };

/* Messages arrive, as it seems by a repetition of all of their frames so long ago. Returns how many entries of the
 * sender's books these were. */
static inline unsigned stranger_repeated_all(struct host *host, struct connection *connection, struct packet *packet,
					     const size_t *lengths, unsigned count, uint64_t ago_ns)
{
	static const uint8_t bytes[WIDE];
	unsigned entries = 0;

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(thole_send(host->endpoint, 0, bytes, lengths[i], 0, 0, 0, NULL, NULL), 0);
	while (endpoint_advance(host->endpoint, ++host->now_ns) > 0)
		;
	for (struct list_node *node = list_first(&connection->out.unacked); node;
	     node = list_next(&connection->out.unacked, node), entries++) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		frame->resends = 1;
		frame->sent_ns = host->now_ns;
	}
	host->now_ns += ago_ns;
	host->engine->now_ns = host->now_ns;
	packet->ack = connection->out.next;
	stranger_says(host, RAW, packet, 0);
	assert_true(list_empty(&connection->out.unacked));
	return entries;
}

static inline void stranger_repeated(struct host *host, struct connection *connection, struct packet *packet,
				     size_t length, uint64_t ago_ns)
{
	stranger_repeated_all(host, connection, packet, &length, 1, ago_ns);
}

#endif
