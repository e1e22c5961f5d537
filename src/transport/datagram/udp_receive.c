/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_receive: packets and errors from the kernel to the engine. Records are copied once more by the engine, where
 * they have to; bulk data lands where the engine foresees it.
 */
#include <time.h> /* which the next one needs */
#include <linux/errqueue.h>
#include <linux/sock_diag.h>

#include "base/clock.h"
#include "transport/datagram/udp.h"

/* ---- What comes beside packets --------------------------------------------------------------------- */

/* The length of the frames in a packet. */
static size_t read_segment(struct msghdr *message, size_t bytes)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		int size;

		if (header->cmsg_level != IPPROTO_UDP || header->cmsg_type != UDP_GRO)
			continue;
		memcpy(&size, CMSG_DATA(header), sizeof(size));
		if (size > 0 && (size_t)size < bytes)
			return (size_t)size;
	}
	return bytes;
}

/* What the kernel says of a socket's buffers. */
static bool read_memory(const struct link_udp *udp, unsigned index, uint32_t memory[SK_MEMINFO_VARS])
{
	socklen_t size = SK_MEMINFO_VARS * sizeof(*memory);

	return udp->fd[index] >= 0 && getsockopt(udp->fd[index], SOL_SOCKET, SO_MEMINFO, memory, &size) == 0 &&
	       size == SK_MEMINFO_VARS * sizeof(*memory);
}

uint64_t udp_waiting(const struct link_udp *udp, unsigned index)
{
	uint32_t memory[SK_MEMINFO_VARS];

	return read_memory(udp, index, memory) ? memory[SK_MEMINFO_RMEM_ALLOC] / UDP_PACKET_LEAST : 0;
}

/* Packets that found no room: count them, and for bulk give out less credit. */
void udp_check(struct link_udp *udp, unsigned index)
{
	struct udp_socket *socket = &udp->sockets[index];
	uint64_t less = udp->link.room - udp->link.room / 4;
	uint32_t memory[SK_MEMINFO_VARS];

	if (!read_memory(udp, index, memory) || memory[SK_MEMINFO_DROPS] == socket->overflows)
		return;
	udp_count(udp, COUNTER_LINK_OVERFLOWS, memory[SK_MEMINFO_DROPS] - socket->overflows);
	socket->overflows = memory[SK_MEMINFO_DROPS];
	if (socket->channel == CHANNEL_BULK)
		udp->link.room = less > udp->room_min ? less : udp->room_min;
}

/* ---- Errors ---------------------------------------------------------------------------------------- */

static void take_report(struct link_udp *udp, const struct sock_extended_err *report, const struct path *to)
{
	struct link *link = &udp->link;

	if (report->ee_origin == SO_EE_ORIGIN_LOCAL) /* the send has told it too */
		return;
	if (report->ee_errno == EMSGSIZE && report->ee_info > udp->headers)
		engine_shrink(link->engine, link, to, report->ee_info - udp->headers);
	else if (report->ee_errno == ECONNREFUSED)
		engine_refused(link->engine, link, to);
	else
		udp_count(udp, COUNTER_LINK_UNREACHABLE, 1);
}

/* Tell the engine what the network says about frames that were sent. */
static void take_errors(struct link_udp *udp, unsigned index)
{
	char control[UDP_CONTROL] __attribute__((aligned(8)));
	union socket_address name;
	struct path to;

	udp->sockets[index].errors = false;
	for (unsigned i = 0; i < UDP_ERRORS_MAX; i++) {
		struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_control = control,
					 .msg_controllen = sizeof(control)};

		name.any.sa_family = AF_UNSPEC;
		if (recvmsg(udp->fd[index], &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		interface_path(&name, &to);
		for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
			if ((header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR) ||
			    (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR))
				take_report(udp, (const void *)CMSG_DATA(header), &to);
	}
	udp->sockets[index].errors = true; /* there may be more */
}

static void take_too_long(struct link_udp *udp)
{
	struct link *link = &udp->link;
	uint32_t max = link->calls->frame_max(link, &udp->narrow);

	udp->too_long = false;
	if (max > 0) /* else there is no way at all, however long */
		engine_shrink(link->engine, link, &udp->narrow, max);
}

/* Nothing was received, perhaps because of an error of a frame that was sent: the kernel tells that first, though
 * packets wait. Whether another try is worth it. */
static bool receive_failed(struct link_udp *udp, unsigned index)
{
	if (errno == EAGAIN)
		return false;
	if (errno != EINTR)
		udp->sockets[index].errors = true;
	return true;
}

/* ---- Packets --------------------------------------------------------------------------------------- */

/* The sender's path: what the kernel says, or the one that a lane is connected to. */
static void read_sender(const struct udp_socket *socket, const union socket_address *name,
			struct path *from)
{
	if (socket->connected)
		*from = socket->peer;
	else
		interface_path(name, from);
}

static unsigned hand_over(struct link_udp *udp, struct udp_socket *socket, unsigned i, size_t bytes)
{
	struct msghdr *message = &udp->in.messages[i].msg_hdr;
	size_t segment = read_segment(message, bytes);
	struct path from;

	socket->packets++;
	if (message->msg_flags & MSG_TRUNC) {
		udp_count(udp, COUNTER_LINK_TRUNCATED, 1);
		return 0;
	}
	read_sender(socket, &udp->in.names[i], &from);
	if (engine_frames(udp->link.engine, &udp->link, &from, udp->in.buffers[i], bytes, segment))
		udp_lane_vote(udp, socket->channel, &from);
	return segment ? (unsigned)((bytes + segment - 1) / segment) : 0;
}

/* One packet at a time while they come singly, more at once while there are more. */
static unsigned receive_records(struct link_udp *udp, unsigned index)
{
	struct udp_socket *socket = &udp->sockets[index];
	struct incoming *in = &udp->in;
	unsigned frames = 0;
	int received;

	for (unsigned i = 0; i < udp->batch; i++) {
		struct msghdr *message = &in->messages[i].msg_hdr;

		message->msg_name = socket->connected ? NULL : &in->names[i];
		message->msg_namelen = socket->connected ? 0 : sizeof(in->names[i]);
		message->msg_controllen = sizeof(in->control[i]);
	}
	if (udp->batch == 1 || socket->holds) {
		ssize_t bytes = udp_hold_receive(udp, index, &in->messages[0].msg_hdr);

		in->messages[0].msg_len = (unsigned)bytes;
		received = bytes < 0 ? -1 : 1;
	} else {
		received = recvmmsg(udp->fd[index], in->messages, udp->batch, MSG_DONTWAIT, NULL);
	}
	if (received < 0) {
		udp->batch = 1;
		receive_failed(udp, index);
		return 0;
	}
	for (int i = 0; i < received; i++)
		frames += hand_over(udp, socket, (unsigned)i, in->messages[i].msg_len);
	udp_hold_heed(udp, index, in->messages[received - 1].msg_len); /* of several none is held */
	udp->batch = (unsigned)received < udp->batch || socket->holds ? 1 : 2 * udp->batch;
	if (udp->batch > UDP_BATCH_MAX)
		udp->batch = UDP_BATCH_MAX;
	return frames;
}

/* Whether nothing came because the kernel may not write to a place that was foreseen: another try goes past all of
 * these. The kernel counts that packet among those that found no room, if it has not kept it. */
static bool receive_spares(struct link_udp *udp, struct udp_socket *socket)
{
	struct scatter *scatter = &udp->scatter;

	if (errno != EFAULT || scatter->whole)
		return false;
	socket->overflows += !socket->holds;
	udp_count(udp, COUNTER_LINK_COPIED, 1);
	scatter_spare(scatter);
	return true;
}

static unsigned receive_bulk(struct link_udp *udp, unsigned index, unsigned budget)
{
	char control[UDP_CONTROL] __attribute__((aligned(8)));
	struct udp_socket *socket = &udp->sockets[index];
	struct scatter *scatter = &udp->scatter;
	struct link *link = &udp->link;
	union socket_address name;
	unsigned frames = 0;
	struct path from;

	for (unsigned packets = 0; packets < budget && frames < budget; packets++) {
		uint64_t start_ns = scatter_measures(scatter) ? clock_now_ns() : 0;
		struct msghdr message = {.msg_name = socket->connected ? NULL : &name,
					 .msg_namelen = socket->connected ? 0 : sizeof(name),
					 .msg_control = control, .msg_controllen = sizeof(control)};
		struct iovec spill = {scatter->spill, sizeof(scatter->spill)};
		ssize_t bytes;

		scatter_foresee(link->engine, scatter);
		message.msg_iov = scatter->whole ? &spill : scatter->iov;
		message.msg_iovlen = scatter->whole ? 1 : scatter->count;
		bytes = udp_hold_receive(udp, index, &message);
		if (bytes < 0 && receive_spares(udp, socket))
			continue;
		if (bytes < 0) {
			udp->bulk_waits |= receive_failed(udp, index);
			break;
		}
		udp_hold_heed(udp, index, (size_t)bytes);
		read_sender(socket, &name, &from);
		socket->packets++;
		scatter->known = false;
		if (message.msg_flags & MSG_TRUNC)
			udp_count(udp, COUNTER_LINK_TRUNCATED, 1);
		else if (bytes > 0)
			frames += scatter_arrived(link->engine, link, &from, scatter, (size_t)bytes,
						read_segment(&message, (size_t)bytes));
		if (bytes > 0)
			scatter_took(scatter, (size_t)bytes, start_ns ? clock_now_ns() - start_ns : 0);
		if (scatter->known)
			udp_lane_vote(udp, socket->channel, &from);
	}
	return frames;
}

/* ---- Polling ---------------------------------------------------------------------------------------- */

static unsigned receive_from(struct link_udp *udp, unsigned index, unsigned budget)
{
	return udp->sockets[index].channel == CHANNEL_BULK ? receive_bulk(udp, index, budget)
							   : receive_records(udp, index);
}

unsigned udp_drain(struct link_udp *udp, unsigned index, unsigned polls)
{
	unsigned all = 0, frames = 1;

	for (unsigned i = 0; i < polls && frames > 0; i++, all += frames)
		frames = receive_from(udp, index, ENGINE_RECEIVE_BUDGET);
	return all;
}

/* What the network says of frames that were sent comes after what was received: a peer that has closed, and whose host
 * says so, may have sent its last messages before. */
static unsigned udp_heed_errors(struct link_udp *udp)
{
	unsigned frames = 0;

	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		if (udp->fd[i] >= 0)
			frames += udp_drain(udp, i, UDP_HEED_POLLS);
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		if (udp->sockets[i].errors && udp->fd[i] >= 0)
			take_errors(udp, i);
	return frames;
}

/* Who has a lane is heard at each poll, all others at some, and when nobody has looked for long (trip.h). After a
 * lane's opening, what came before it comes first (and no more: whoever goes on sending to the other socket cannot hold
 * up the lane), then what came to it before it was connected, whoever sent that. */
static unsigned udp_poll(struct link_udp *udp, unsigned channel, unsigned budget)
{
	unsigned lane = UDP_LANES + channel, frames = 0;

	udp_lane_update(udp, channel);
	if (udp->fd[lane] < 0)
		return receive_from(udp, channel, budget);
	if (!udp->sockets[lane].fresh) {
		frames = receive_from(udp, lane, budget);
		udp->sockets[lane].connected |= frames == 0;
	}
	if (udp->sockets[lane].fresh || trip_is_first(&udp->link.away) || udp->polls % LANE_OTHERS_POLLS == 0) {
		unsigned others = receive_from(udp, channel, budget);

		udp->sockets[lane].fresh &=
			others > 0 && udp->sockets[channel].packets < udp->sockets[lane].fresh_until;
		frames += others;
	}
	return frames;
}

/* Now and then: what was lost. */
static void udp_poll_all(struct link_udp *udp)
{
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		udp_check(udp, i);
}

unsigned udp_receive(struct link *link, unsigned budget)
{
	struct link_udp *udp = udp_of(link);
	bool bulk = udp->bulk_waits, errors = false;
	unsigned frames;

	if (udp->alarm.set)
		alarm_clear(&udp->alarm, udp->fd, UDP_SOCKETS + 1);
	frames = udp_poll(udp, CHANNEL_RECORDS, budget);
	if (bulk || link->engine->blocks.outstanding > 0 || udp->polls % UDP_IDLE_POLLS == 0) {
		udp->bulk_waits = false;
		frames += udp_poll(udp, CHANNEL_BULK, budget);
	}
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		errors |= udp->sockets[i].errors && udp->fd[i] >= 0;
	if (errors)
		frames += udp_heed_errors(udp);
	if (udp->too_long)
		take_too_long(udp);
	if (++udp->polls % UDP_AROUND_POLLS == 0)
		udp_poll_all(udp);
	return frames;
}
