/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport: what a way between two endpoints offers the message layer - two services and no third:
 *   records  small, reliable, in order, per peer
 *   bulk     fetch a window of a peer into this memory
 * and the few calls by which an endpoint runs it. A transport is complete when it offers both.
 * It calls back message_arrived, message_fetched and peer_lost (message/message.h, endpoint/peer.h).
 */
#ifndef THOLE_TRANSPORT_TRANSPORT_H
#define THOLE_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vector.h"
#include "message/record.h"

struct thole_endpoint;
struct peer;
struct request;

struct transport {
	const char *name;

	/* Per endpoint: open, close (sends nothing more), and the host and endpoint part of its address. */
	int (*open)(struct thole_endpoint *endpoint);
	void (*close)(struct thole_endpoint *endpoint);

	/* Records. connect is called once before the first push and may finish later (push says AGAIN until then).
	 * push hands over a record with `length` bytes at `offset` of the payload vector, at most piece_max of them:
	 * 0, or AGAIN with nothing handed over, or PEER. */
	int (*connect)(struct peer *peer);
	int (*push)(struct peer *peer, const struct record *record, const struct vector *payload,
		    uint64_t offset, uint32_t length);
	uint32_t (*piece_max)(struct peer *peer);
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
	/* Now and then, with the time: connections, deaths, stalled transfers. */
	void (*maintain)(struct thole_endpoint *endpoint, uint64_t now_ns);
	/* Before sleeping: after arm, whatever arrives makes endpoint->wait_fd readable; returns the longest sleep
	 * in ns that is allowed, 0 if there is work already. */
	uint64_t (*arm)(struct thole_endpoint *endpoint);
	void (*disarm)(struct thole_endpoint *endpoint);
};

extern const struct transport shm_transport;

#endif
