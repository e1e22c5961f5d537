/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport: what a way between two endpoints offers the message layer - two services and no third:
 *   records  small, reliable, in order, per peer
 *   bulk     fetch a window of a peer into this memory
 * and the few calls by which an endpoint runs it. A transport is complete when it offers both.
 * An endpoint has up to two: shm for processes of its host, datagram for all others; which one is chosen when a peer is made
 * (endpoint/peer.c).
 * It calls back message_arrived, message_fetched, peer_connected and peer_lost (message/message.h, endpoint/endpoint.h).
 */
#ifndef THOLE_TRANSPORT_TRANSPORT_H
#define THOLE_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vector.h"
#include "transport/record.h"

struct thole_endpoint;
struct thole_peer_info;
struct peer;
struct request;

/* Who is called when a descriptor of endpoint->wait_fd is ready: the event's data.ptr. Whoever watches one has it as the first
 * member of a struct of its own. */
struct watcher {
	void (*ready)(struct thole_endpoint *endpoint, struct watcher *watcher, uint64_t now_ns);
};

/* What a peer can be sent, where that is less than thole.h offers. */
struct transport_limits {
	uint64_t length_max; /* bytes of a message */
	bool messages_only;  /* no put, get, atomics, immediate data or plain messages */
};

/* Calls that say what NULL means may be NULL. */
struct transport {
	const char *name;
	uint32_t carried; /* enum counter: of what was started to its peers; its bytes are the next */

	/* Per endpoint: open, close (sends nothing more). open fills in its share of endpoint->parts. */
	int (*open)(struct thole_endpoint *endpoint);
	/* Before memory goes back to its users, and close follows: nobody reaches into it any more. May wait. NULL: nobody does. */
	void (*withdraw)(struct thole_endpoint *endpoint);
	void (*close)(struct thole_endpoint *endpoint);
	/* Whether whatever was pushed has reached its peers, but those that are gone. NULL: it has, once pushed. */
	bool (*drained)(struct thole_endpoint *endpoint);
	/* Tell all peers that the endpoint ends: once, before close. NULL: they see it. */
	void (*farewell)(struct thole_endpoint *endpoint);

	/* Records. connect is called once before the first push and may finish later (push says AGAIN until then).
	 * push hands over a record with `length` bytes at `offset` of the payload vector, at most piece_max of them:
	 * 0, or AGAIN with nothing handed over, or PEER. */
	int (*connect)(struct peer *peer);
	int (*push)(struct peer *peer, const struct record *record, const struct vector *payload,
		    uint64_t offset, uint32_t length);
	uint32_t (*piece_max)(struct peer *peer);
	/* Whether what connect began has succeeded; if not yet, peer_connected says so later, or peer_lost. */
	bool (*connected)(struct peer *peer);
	/* Before connect, or to have it tried anew: the key that the peer wants to hear. NULL: none. Errors: MEMORY. */
	int (*key)(struct peer *peer, uint64_t key);
	/* What was pushed and asked for goes out now: once after a burst. Returns how much of it has. NULL: it is out. */
	int (*flush)(struct thole_endpoint *endpoint);
	/* Longest message that may be pushed unasked now, if less than the option eager_max. NULL: any. */
	uint64_t (*eager_max)(struct peer *peer);
	/* What there is less of for this peer. NULL: nothing. Asked once, when the peer is made. */
	void (*limits)(struct peer *peer, struct transport_limits *limits_p);
	/* How the peer is reached: all but what thole_peer_info knows by itself. */
	void (*info)(struct peer *peer, struct thole_peer_info *info_p);
	/* Forget what belongs to a peer that is gone. */
	void (*disconnect)(struct peer *peer);
	/* Tell all senders that endpoint->holding has changed: while it is set they announce instead of sending data
	 * that they were not asked for. */
	void (*hold)(struct thole_endpoint *endpoint);

	/* Bulk: fetch request->window's first request->vector.length bytes; ends with message_fetched, perhaps before
	 * returning. */
	void (*fetch)(struct request *request);

	/* Progress: handle what has arrived and continue bulk; the number of events. */
	int (*progress)(struct thole_endpoint *endpoint);
	/* Now and then, with the time: connections, deaths, stalled transfers. NULL: progress does it. */
	void (*maintain)(struct thole_endpoint *endpoint, uint64_t now_ns);
	/* Before sleeping: after arm, whatever arrives makes endpoint->wait_fd readable; returns the longest sleep
	 * in ns that is allowed, 0 if there is work already. */
	uint64_t (*arm)(struct thole_endpoint *endpoint);
	/* After it. NULL: nothing is to be undone. */
	void (*disarm)(struct thole_endpoint *endpoint);
};

extern const struct transport shm_transport, datagram_transport;

#endif
