/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_lane: a connected socket for the peer that a channel talks to most. It has the port of the channel's socket, so
 * the peer sees no difference; it saves about a fifth of a small message's time.
 *
 * Who that is, packets vote on: one for the favourite strengthens it, one for another weakens it, until another takes
 * its place. A lane is opened for a clear favourite and closed with its reign, so that where many peers talk alike
 * nobody pays for polling a lane. Strangers' packets have no vote, nor have answers to them: whoever could have
 * lanes opened and closed could slow us down.
 */
#include "transport/datagram/udp.h"

void udp_lane_vote(struct link_udp *udp, unsigned channel, const struct path *peer)
{
	struct udp_socket *socket = &udp->sockets[channel];

	if (path_equal(peer, &socket->favourite)) {
		socket->votes += socket->votes < LANE_VOTES;
	} else if (socket->votes > 0) {
		socket->votes--;
	} else {
		socket->favourite = *peer;
		socket->votes = 1;
	}
}

unsigned udp_lane_for(const struct link_udp *udp, unsigned channel, const struct path *peer)
{
	unsigned lane = UDP_LANES + channel;

	return udp->fd[lane] >= 0 && path_equal(peer, &udp->sockets[lane].peer) ? lane : channel;
}

static void lane_close(struct link_udp *udp, unsigned channel)
{
	unsigned lane = UDP_LANES + channel;

	if (udp->fd[lane] < 0)
		return;
	(void)udp_drain(udp, lane, UDP_DRAIN_POLLS);
	udp_check(udp, lane);
	udp_socket_close(udp, lane);
}

/* Connect a second socket of the channel's port to the peer. Both agree to share the port only until then. Meanwhile
 * the kernel gives some senders' packets to the one and some to the other; they are taken by their senders' names (see
 * udp_poll). */
static int lane_open(struct link_udp *udp, unsigned channel, const struct path *peer)
{
	unsigned lane = UDP_LANES + channel;
	struct path own = udp->link.own;
	union socket_address name;
	socklen_t size = interface_sockaddr(peer, udp->link.interface, &name);
	int error;

	if (channel == CHANNEL_BULK)
		store_be16(own.bytes + INTERFACE_ADDRESS, udp->link.bulk_port);
	udp_share(udp, channel, true);
	error = udp_socket_open(udp, lane, &own, true);
	if (!error && connect(udp->fd[lane], &name.any, size) != 0)
		error = THOLE_ERR_SYSTEM;
	if (!error)
		error = udp_driver_socket(udp, lane); /* else what the driver fetches came here, past it */
	udp_share(udp, channel, false);
	if (error) {
		lane_close(udp, channel);
		return error;
	}
	udp_share(udp, lane, false);
	udp->sockets[lane].peer = *peer;
	udp->sockets[lane].fresh = true;
	udp->sockets[lane].fresh_until = udp->sockets[channel].packets + udp_waiting(udp, channel);
	return 0;
}

void udp_lane_update(struct link_udp *udp, unsigned channel)
{
	struct udp_socket *socket = &udp->sockets[channel], *lane = &udp->sockets[UDP_LANES + channel];

	if (udp->fd[UDP_LANES + channel] >= 0) {
		if (!lane->broken && path_equal(&lane->peer, &socket->favourite))
			return;
		socket->votes = lane->broken ? 0 : socket->votes;
		lane_close(udp, channel);
	}
	if (socket->votes == LANE_VOTES && !socket->broken)
		socket->broken = lane_open(udp, channel, &socket->favourite) != 0; /* it goes without: no other try */
}
