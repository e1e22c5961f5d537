/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_hold: packets that were read stay in their socket for a while. The kernel makes the next packet of the pages of
 * the last one that was freed; so each copy into one waits for lines that another core had last. If some have to be
 * freed before these are, the pages come around when that core's cache has let them go. That is so between hosts that
 * are namespaces of one machine, whose cores make packets for each other; an adapter makes them of memory of its own.
 *
 * A lane that long packets come by is read by MSG_PEEK, from an offset that goes on with each packet (SO_PEEK_OFF);
 * what was read is taken out by receives of nothing, the oldest first.
 *
 * Invariants: the `held` oldest packets of a socket have been read, and no other; only a lane holds any, while `holds`.
 * Nobody sleeps on a socket with such packets, which always is readable.
 */
#include "transport/datagram/udp.h"

/* From which on a socket is read where it is; -1: it is not. What comes in single frames takes far more memory than
 * long packets of it, so only of bulk that comes in these much may be under way. */
static bool hold_offset(struct link_udp *udp, unsigned index, int offset)
{
	if (setsockopt(udp->fd[index], SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)) != 0)
		return false;
	if (udp->sockets[index].channel == CHANNEL_BULK)
		udp->link.cached = offset < 0 ? 0 : udp->cached;
	return true;
}

/* Take the oldest packet out. False: not now. */
static bool hold_drop(struct link_udp *udp, unsigned index)
{
	struct udp_socket *socket = &udp->sockets[index];
	ssize_t bytes = recv(udp->fd[index], NULL, 0, MSG_DONTWAIT | MSG_TRUNC);

	if (bytes < 0) { /* an error of a frame that was sent, which the kernel tells first */
		socket->errors |= errno != EAGAIN && errno != EINTR;
		return false;
	}
	socket->held--;
	socket->held_bytes -= (size_t)bytes < socket->held_bytes ? (uint32_t)bytes : socket->held_bytes;
	return true;
}

/* more: while packets come, a few more may stay until there is time. */
static bool hold_is_full(const struct link_udp *udp, const struct udp_socket *socket, bool more)
{
	uint64_t bytes = socket->channel == CHANNEL_BULK ? udp->hold / UDP_HOLD_BULK : udp->hold;

	if (more)
		bytes += bytes / 4;
	return socket->held > 0 && (socket->held_bytes > bytes || socket->held > UDP_HOLD_PACKETS);
}

void udp_hold_end(struct link_udp *udp, unsigned index)
{
	struct udp_socket *socket = &udp->sockets[index];

	if (!socket->holds)
		return;
	for (unsigned tries = 0; socket->held > 0 && tries < UDP_HOLD_TRIES;)
		tries += !hold_drop(udp, index);
	if (socket->held == 0)
		socket->holds = !hold_offset(udp, index, -1);
}

void udp_hold_heed(struct link_udp *udp, unsigned index, size_t bytes)
{
	struct udp_socket *socket = &udp->sockets[index];

	if (!socket->holds) {
		if (index >= UDP_LANES && bytes >= UDP_HOLD_LONG && udp->hold > 0 && !udp->driver) {
			socket->holds = hold_offset(udp, index, 0);
			socket->held = socket->held_bytes = socket->shorts = 0;
		}
		return;
	}
	socket->held++;
	socket->held_bytes += (uint32_t)bytes;
	socket->shorts = bytes >= UDP_HOLD_LONG ? 0 : socket->shorts + 1;
	if (socket->shorts > UDP_HOLD_SHORTS)
		udp_hold_end(udp, index);
	else if (hold_is_full(udp, socket, true))
		hold_drop(udp, index);
}

ssize_t udp_hold_receive(struct link_udp *udp, unsigned index, struct msghdr *message)
{
	bool holds = udp->sockets[index].holds;
	ssize_t bytes = recvmsg(udp->fd[index], message, MSG_DONTWAIT | (holds ? MSG_PEEK : 0));

	if (holds && bytes < 0 && errno == EAGAIN && hold_is_full(udp, &udp->sockets[index], false)) {
		hold_drop(udp, index);
		errno = EAGAIN;
	}
	return bytes;
}
