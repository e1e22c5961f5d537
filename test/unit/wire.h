/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - two endpoints joined by links in memory: no system call, and a time that the test moves on.
 *
 * Frames stay on a wire until its end is advanced, so a test may look at them, lose them or have them come twice.
 */
#ifndef UNIT_WIRE_H
#define UNIT_WIRE_H

#include "pair.h"
#include "transport/datagram/datagram.h"
#include "transport/datagram/engine.h"

/* A link that keeps what is sent until it is asked for it. */
struct wire {
	struct link link;
	struct wire *to;
	uint8_t frames[256][ENGINE_FRAME_MAX];
	size_t lengths[256];
	unsigned head, tail;
	size_t widest; /* longer frames are lost on their way from here; 0: none */
	bool closed;
};

static inline unsigned wire_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct wire *to = ((struct wire *)link)->to;

	for (unsigned i = 0; i < count; i++) {
		unsigned at = to->tail % 256;
		uint8_t *bytes = to->frames[at];

		if (to->tail - to->head == 256)
			return i;
		if (to->to->widest > 0 && frames[i].head_length + frames[i].body_length > to->to->widest)
			continue;
		memcpy(bytes, frames[i].head, frames[i].head_length);
		bytes += frames[i].head_length;
		for (unsigned k = 0; k < frames[i].body_count; k++) {
			memcpy(bytes, frames[i].body[k].iov_base, frames[i].body[k].iov_len);
			bytes += frames[i].body[k].iov_len;
		}
		to->lengths[at] = (size_t)(bytes - to->frames[at]);
		to->tail++;
	}
	return count;
}

static inline unsigned wire_receive(struct link *link, unsigned budget)
{
	struct wire *wire = (struct wire *)link;
	unsigned n = 0;

	while (n < budget && wire->head != wire->tail) { /* frames of one length, and a last one, come as one */
		static uint8_t together[65536];
		size_t segment = wire->lengths[wire->head % 256], bytes = 0, length = segment;

		for (; n < budget && wire->head != wire->tail && length == segment; n++) {
			unsigned at = wire->head % 256;

			length = wire->lengths[at];
			if (length > segment || length == 0 || bytes + length > sizeof(together))
				break;
			memcpy(together + bytes, wire->frames[at], length);
			bytes += length;
			wire->head++;
		}
		engine_frames(link->engine, link, &wire->to->link.own, together, bytes, segment);
	}
	return n;
}

static inline bool wire_ready(struct link *link)
{
	return ((struct wire *)link)->head != ((struct wire *)link)->tail;
}

static inline uint32_t wire_frame_max(struct link *link, const struct path *to)
{
	(void)to;
	return link->ethertype ? 9000 : 1400; /* mxoe has lengths of its own */
}

static inline void wire_close(struct link *link)
{
	((struct wire *)link)->closed = true;
}

#define WIRE_CALLS(ends)                                                                                               \
	{.name = "wire", .kind = (ends), .rank = {1, 1, 1}, .send = wire_send, .receive = wire_receive, .cheap = true, \
	 .ready = wire_ready, .frame_max = wire_frame_max, .close = wire_close}

static const struct link_calls wire_calls = WIRE_CALLS(&kind_ip), ethernet_calls = WIRE_CALLS(&kind_ethernet);

static inline void count_up(void *arg, void *bytes, size_t length)
{
	uint8_t *next = arg;

	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = ++*next;
}

static uint8_t random_state[2];

static inline void wired_address(struct wire *wire, uint8_t number, bool indexed, struct address_parts *parts)
{
	uint8_t mac[6] = {2, 0, 0, 0, 0, number};

	if (indexed) {
		*parts = (struct address_parts){.host = number, .endpoint = 100u + number,
						.network = {ADDRESS_IPV4, 0, 1, 1, 10, 0, 0, number}};
		wire->link.own =
			(struct path){{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = number, [16] = 1, [17] = 1}};
		return;
	}
	address_mxoe(mac, number, parts);
	memcpy(wire->link.own.bytes, mac, sizeof(mac));
	wire->link.calls = &ethernet_calls;
	wire->link.ethertype = 0x86df;
}

static inline struct thole_endpoint *wired_endpoint(struct wire *wire, uint8_t number, const struct codec *codec,
						    const char *const *strings)
{
	static const struct link empty = {.calls = &wire_calls, .fd = {-1, -1}, .room = 1 << 20};
	struct link *links[] = {&wire->link};
	struct thole_endpoint_attr attr = {0};
	struct thole_endpoint *endpoint;
	struct address_parts parts;
	struct options options;

	wire->link = empty;
	wired_address(wire, number, codec->indexed, &parts);
	assert_int_equal(options_defaults(&options, strings), 0);
	assert_int_equal(endpoint_create(&attr, &options, &parts, 1, &endpoint), 0);
	assert_int_equal(datagram_attach(&endpoint->base, codec, links, 1, count_up, &random_state[number]), 0);
	return endpoint;
}

/* A codec, and options or NULL, of each. */
static inline void wired_open_each(struct pair *pair, struct wire wires[2], const struct codec *codec_a,
				   const struct codec *codec_b, const char *const *a, const char *const *b)
{
	memset(wires, 0, 2 * sizeof(*wires));
	random_state[0] = 0;
	random_state[1] = 1;
	wires[0].to = &wires[1];
	wires[1].to = &wires[0];
	pair->a = wired_endpoint(&wires[0], 0, codec_a, a);
	pair->b = wired_endpoint(&wires[1], 1, codec_b, b);
	pair->a_to_b = pair_peer(pair->a, pair->b);
	pair->b_to_a = pair_peer(pair->b, pair->a);
}

static inline void wired_open(struct pair *pair, struct wire wires[2], const struct codec *codec, const char *const *a,
			      const char *const *b)
{
	wired_open_each(pair, wires, codec, codec, a, b);
}

/* Advance both, and the time to the next deadline when nothing is left to do, until `request` of `of` is complete. */
static inline int wired_finish(struct pair *pair, uint64_t *now_ns, struct thole_endpoint *of,
			       struct thole_request *request)
{
	for (int i = 0; i < PAIR_TURNS_MAX; i++) {
		uint64_t a_ns, b_ns;
		struct thole_completion completion;

		if (endpoint_advance(pair->a, *now_ns) + endpoint_advance(pair->b, *now_ns) > 0)
			continue;
		if (thole_test(of, request, &completion))
			return completion.status;
		a_ns = endpoint_deadline(pair->a);
		b_ns = endpoint_deadline(pair->b);
		assert_true(a_ns != UINT64_MAX || b_ns != UINT64_MAX); /* somebody has to do something */
		*now_ns = a_ns < b_ns ? a_ns : b_ns;
	}
	fail_msg("a request did not complete");
	return 0;
}

#endif
