/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_udp: frames as UDP datagrams, one a frame. The kernel carries up to 64 KiB of them at a time where it can: frames of a
 * burst that follow each other to the same place are one packet until they leave (UDP_SEGMENT), and what belongs together
 * comes in as one again (UDP_GRO). Bulk data lands where the engine foresees it, in one copy.
 *
 * Owns two sockets (records and bulk), the buffers for records, and the questions after silent peers (liveness.h).
 * Invariants: frames are sent in their order within a channel. The engine is called from receive alone: what a send learns of
 * errors waits in the socket's error queue until then. Every frame that send returns as taken was sent or is counted as lost.
 */
#include <errno.h>
#include <time.h> /* which the next one needs */
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/endian.h"
#include "base/error.h"
#include "transport/datagram/links.h"
#include "transport/datagram/liveness.h"

enum udp_limits {
	UDP_PACKET_MAX = 65507,       /* bytes of a datagram, and of one that is segmented later */
	UDP_SEGMENTS_MAX = 64,        /* frames in one: the kernel's bound */
	UDP_PARTS_MAX = 16,           /* iovecs of a frame; one that has more is copied together first */
	UDP_BATCH_MAX = 8,            /* packets of records that are taken from the kernel at once */
	UDP_BUFFER = 65536,           /* bytes for each */
	UDP_SOCKET_BYTES = 4 << 20,   /* asked for each way; the kernel doubles it for its own overhead */
	UDP_PORT_TRIES = 64,          /* for a port that is free for UDP and TCP */
	UDP_ERRORS_MAX = 16,          /* reports taken at a time: they come from the network */
	UDP_IDLE_LOOKS = 64,          /* one look in so many at the bulk socket while nothing is expected there */
	UDP_ACCEPT_LOOKS = 4096,      /* the same for who asks after us */
	UDP_CONTROL = 256,            /* bytes of what the kernel says beside a packet */
	IPV4_HEADERS = 20 + 8,
	IPV6_HEADERS = 40 + 8,
};

/* A burst on its way to the kernel: frames gathered into messages. */
struct outgoing {
	struct mmsghdr messages[ENGINE_BURST];
	uint8_t frames[ENGINE_BURST];          /* that each message has */
	union socket_address names[ENGINE_BURST];
	struct iovec parts[ENGINE_BURST * UDP_PARTS_MAX];
	char control[ENGINE_BURST][CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
	uint8_t together[ENGINE_FRAME_MAX];    /* a frame in too many parts */
};

struct incoming {
	struct mmsghdr messages[UDP_BATCH_MAX];
	union socket_address names[UDP_BATCH_MAX];
	struct iovec parts[UDP_BATCH_MAX];
	char control[UDP_BATCH_MAX][UDP_CONTROL] __attribute__((aligned(8)));
	uint8_t buffers[UDP_BATCH_MAX][UDP_BUFFER];
};

struct link_udp {
	struct link link;
	int family;
	uint32_t headers;                /* bytes of IP and UDP in front of a frame */
	bool segmenting;                 /* the kernel takes UDP_SEGMENT */
	bool errors[CHANNELS];           /* reports wait in the error queue */
	bool bulk_waits;                 /* ready() has seen something */
	bool too_long;                   /* a frame did not fit the path any more: */
	struct path narrow;              /* this one */
	unsigned batch;                  /* packets asked for at the next look */
	unsigned looks;
	uint32_t overflows[CHANNELS];    /* the kernel's count of packets that found no room */
	uint64_t room_min;
	struct liveness liveness;
	struct outgoing out;
	struct incoming in;
	struct landing landing;
};

static struct link_udp *udp_of(struct link *link)
{
	return (struct link_udp *)link;
}

static void udp_count(struct link_udp *udp, enum counter counter, uint64_t count)
{
	udp->link.counters[counter] += count;
}

/* ---- Send ------------------------------------------------------------------------------------------ */

static uint32_t frame_length(const struct frame_out *frame)
{
	return frame->head_length + frame->body_length;
}

static void append(struct msghdr *message, const void *bytes, size_t length)
{
	message->msg_iov[message->msg_iovlen++] = (struct iovec){(void *)(uintptr_t)bytes, length};
}

static void append_frame(struct msghdr *message, const struct frame_out *frame)
{
	append(message, frame->head, frame->head_length);
	for (unsigned i = 0; i < frame->body_count; i++)
		append(message, frame->body[i].iov_base, frame->body[i].iov_len);
}

/* A frame in more parts than we pass on. It is alone in its batch. */
static void append_together(struct link_udp *udp, struct msghdr *message, const struct frame_out *frame)
{
	uint8_t *at = udp->out.together;

	memcpy(at, frame->head, frame->head_length);
	at += frame->head_length;
	for (unsigned i = 0; i < frame->body_count; i++) {
		memcpy(at, frame->body[i].iov_base, frame->body[i].iov_len);
		at += frame->body[i].iov_len;
	}
	append(message, udp->out.together, frame_length(frame));
}

static bool scattered(const struct frame_out *frame)
{
	return frame->body_count >= UDP_PARTS_MAX;
}

static bool same_path(const struct frame_out *one, const struct frame_out *other)
{
	return one->to == other->to || memcmp(one->to, other->to, sizeof(*one->to)) == 0;
}

/* How many of these frames the kernel may carry as one packet: all as long as the first, but the last may be shorter. */
static unsigned group(const struct link_udp *udp, const struct frame_out *frames, unsigned count)
{
	uint32_t length = frame_length(&frames[0]), total = length;
	unsigned n = 1;

	if (!udp->segmenting || length == 0 || scattered(&frames[0]))
		return 1;
	while (n < count && n < UDP_SEGMENTS_MAX && frames[n].channel == frames[0].channel &&
	       same_path(&frames[n], &frames[0]) && !scattered(&frames[n])) {
		uint32_t next = frame_length(&frames[n]);

		if (next > length || next == 0 || total + next > UDP_PACKET_MAX)
			break;
		total += next;
		n++;
		if (next < length)
			break;
	}
	return n;
}

static void segment_size(struct msghdr *message, char *control, uint32_t length)
{
	uint16_t size = (uint16_t)length;
	struct cmsghdr *header;

	message->msg_control = control;
	message->msg_controllen = CMSG_SPACE(sizeof(size));
	header = CMSG_FIRSTHDR(message);
	header->cmsg_level = IPPROTO_UDP;
	header->cmsg_type = UDP_SEGMENT;
	header->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(header), &size, sizeof(size));
}

/* Gather frames of the first one's channel into messages, whole ones or (together == false) one a frame. Returns how many
 * messages. */
static unsigned gather(struct link_udp *udp, const struct frame_out *frames, unsigned count, bool together)
{
	struct outgoing *out = &udp->out;
	struct iovec *part = out->parts;
	unsigned at = 0, messages = 0;

	count = count < ENGINE_BURST ? count : ENGINE_BURST;
	while (at < count && frames[at].channel == frames[0].channel && (at == 0 || !scattered(&frames[at]))) {
		unsigned n = together ? group(udp, &frames[at], count - at) : 1;
		struct msghdr *message = &out->messages[messages].msg_hdr;

		*message = (struct msghdr){.msg_name = &out->names[messages], .msg_iov = part};
		message->msg_namelen = interface_sockaddr(frames[at].to, udp->link.interface, &out->names[messages]);
		if (n > 1)
			segment_size(message, out->control[messages], frame_length(&frames[at]));
		if (scattered(&frames[at]))
			append_together(udp, message, &frames[at]);
		else
			for (unsigned i = 0; i < n; i++)
				append_frame(message, &frames[at + i]);
		part += message->msg_iovlen;
		at += n;
		out->frames[messages++] = (uint8_t)n;
		if (scattered(&frames[at - n]))
			break;
	}
	return messages;
}

/* Returns how many messages went, or -1. */
static int dispatch(struct link_udp *udp, int fd, unsigned messages)
{
	struct msghdr *first = &udp->out.messages[0].msg_hdr;
	ssize_t sent;

	if (messages > 1)
		return sendmmsg(fd, udp->out.messages, messages, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (first->msg_iovlen == 1)
		sent = sendto(fd, first->msg_iov->iov_base, first->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL,
			      first->msg_name, first->msg_namelen);
	else
		sent = sendmsg(fd, first, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent < 0 ? -1 : 1;
}

enum trouble {
	TROUBLE_FULL,      /* no room: later */
	TROUBLE_AGAIN,     /* at once */
	TROUBLE_SEPARATE,  /* as one datagram a frame */
	TROUBLE_LOST,
};

/* The first message, which begins with this frame, was not sent: what now? tried: it is not the first time. */
static enum trouble trouble(struct link_udp *udp, const struct frame_out *frame, bool tried)
{
	switch (errno) {
	case EAGAIN:
	case ENOBUFS: /* a queue of the interface is full, and has dropped the packet */
	case ENOMEM:
		return TROUBLE_FULL;
	case EINTR:
		return TROUBLE_AGAIN;
	case EIO: /* the interface computes no checksums, which segmenting needs */
	case EOPNOTSUPP:
		if (udp->out.frames[0] > 1)
			udp->segmenting = false;
		/* fall through */
	case EINVAL:
	case EMSGSIZE:
		if (udp->out.frames[0] > 1) {
			udp_count(udp, COUNTER_LINK_SEPARATED, 1);
			return TROUBLE_SEPARATE;
		}
		udp->errors[frame->channel] = true; /* it is in the queue as well */
		udp->too_long = true;
		udp->narrow = *frame->to;
		return TROUBLE_LOST;
	default: /* perhaps an answer to an earlier frame, told with this one */
		udp->errors[frame->channel] = true;
		return tried ? TROUBLE_LOST : TROUBLE_AGAIN;
	}
}

static unsigned udp_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct link_udp *udp = udp_of(link);
	unsigned taken = 0, separate = 0; /* frames before this one go one by one */
	bool tried = false;

	while (taken < count) {
		bool together = taken >= separate;
		unsigned bound = together ? count - taken : separate - taken;
		unsigned messages = gather(udp, &frames[taken], bound, together);
		int sent = dispatch(udp, link->fd[frames[taken].channel], messages);

		for (int i = 0; i < sent; i++)
			taken += udp->out.frames[i];
		if (sent >= 0) {
			tried = false;
			continue;
		}
		switch (trouble(udp, &frames[taken], tried)) {
		case TROUBLE_FULL:
			return taken;
		case TROUBLE_AGAIN:
			tried = errno != EINTR;
			continue;
		case TROUBLE_SEPARATE:
			separate = taken + udp->out.frames[0];
			continue;
		case TROUBLE_LOST:
			taken += udp->out.frames[0];
			udp_count(udp, COUNTER_LINK_LOST, udp->out.frames[0]);
			tried = false;
		}
	}
	return taken;
}

/* ---- Receive --------------------------------------------------------------------------------------- */

/* There was no room for packets: give out less credit. */
static void overflowed(struct link_udp *udp, unsigned channel, uint32_t overflows)
{
	uint64_t less = udp->link.room - udp->link.room / 4;

	udp_count(udp, COUNTER_LINK_OVERFLOWS, overflows - udp->overflows[channel]);
	udp->overflows[channel] = overflows;
	if (channel == CHANNEL_BULK)
		udp->link.room = less > udp->room_min ? less : udp->room_min;
}

/* What came beside a packet: the length of its frames, and whether others were lost before it. */
static size_t read_control(struct link_udp *udp, unsigned channel, struct msghdr *message, size_t bytes)
{
	size_t segment = bytes;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
			int size;

			memcpy(&size, CMSG_DATA(header), sizeof(size));
			if (size > 0 && (size_t)size < bytes)
				segment = (size_t)size;
		} else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL) {
			uint32_t overflows;

			memcpy(&overflows, CMSG_DATA(header), sizeof(overflows));
			if (overflows != udp->overflows[channel])
				overflowed(udp, channel, overflows);
		}
	}
	return segment;
}

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
static void take_errors(struct link_udp *udp, unsigned channel)
{
	char control[UDP_CONTROL] __attribute__((aligned(8)));
	union socket_address name;
	struct path to;

	udp->errors[channel] = false;
	for (unsigned i = 0; i < UDP_ERRORS_MAX; i++) {
		struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_control = control,
					 .msg_controllen = sizeof(control)};

		name.any.sa_family = AF_UNSPEC;
		if (recvmsg(udp->link.fd[channel], &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		interface_path(&name, &to);
		for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
			if ((header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR) ||
			    (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR))
				take_report(udp, (const void *)CMSG_DATA(header), &to);
	}
	udp->errors[channel] = true; /* there may be more */
}

/* Nothing was received. Whether that was an error's doing, so that another try is worth it. */
static bool receive_failed(struct link_udp *udp, unsigned channel)
{
	if (errno == EAGAIN)
		return false;
	if (errno == EINTR)
		return true;
	take_errors(udp, channel);
	return true;
}

static unsigned hand_over(struct link_udp *udp, unsigned i, size_t bytes)
{
	struct msghdr *message = &udp->in.messages[i].msg_hdr;
	size_t segment = read_control(udp, CHANNEL_RECORDS, message, bytes);
	struct path from;
	unsigned frames = 0;

	if (message->msg_flags & MSG_TRUNC) {
		udp_count(udp, COUNTER_LINK_TRUNCATED, 1);
		return 0;
	}
	interface_path(&udp->in.names[i], &from);
	for (size_t at = 0; at < bytes; at += segment, frames++)
		engine_frame(udp->link.engine, &udp->link, &from, udp->in.buffers[i] + at,
			     bytes - at < segment ? bytes - at : segment);
	return frames;
}

/* One packet at a time while they come singly, more at once while there are more. */
static unsigned receive_records(struct link_udp *udp)
{
	struct incoming *in = &udp->in;
	unsigned frames = 0;
	int received;

	for (unsigned i = 0; i < udp->batch; i++) {
		in->messages[i].msg_hdr.msg_namelen = sizeof(in->names[i]);
		in->messages[i].msg_hdr.msg_controllen = sizeof(in->control[i]);
	}
	if (udp->batch == 1) {
		ssize_t bytes = recvmsg(udp->link.fd[CHANNEL_RECORDS], &in->messages[0].msg_hdr, MSG_DONTWAIT);

		in->messages[0].msg_len = (unsigned)bytes;
		received = bytes < 0 ? -1 : 1;
	} else {
		received = recvmmsg(udp->link.fd[CHANNEL_RECORDS], in->messages, udp->batch, MSG_DONTWAIT, NULL);
	}
	if (received < 0) {
		udp->batch = 1;
		receive_failed(udp, CHANNEL_RECORDS);
		return 0;
	}
	for (int i = 0; i < received; i++)
		frames += hand_over(udp, (unsigned)i, in->messages[i].msg_len);
	udp->batch = (unsigned)received < udp->batch ? 1 : 2 * udp->batch;
	if (udp->batch > UDP_BATCH_MAX)
		udp->batch = UDP_BATCH_MAX;
	return frames;
}

static unsigned receive_bulk(struct link_udp *udp, unsigned budget)
{
	char control[UDP_CONTROL] __attribute__((aligned(8)));
	struct link *link = &udp->link;
	union socket_address name;
	unsigned frames = 0;
	struct path from;

	udp->bulk_waits = false;
	while (frames < budget) {
		struct landing *landing = &udp->landing;
		struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = landing->iov,
					 .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t bytes;

		engine_landing(link->engine, landing);
		message.msg_iovlen = landing->count;
		bytes = recvmsg(link->fd[CHANNEL_BULK], &message, MSG_DONTWAIT);
		if (bytes < 0) {
			if (receive_failed(udp, CHANNEL_BULK))
				udp->bulk_waits = true;
			break;
		}
		interface_path(&name, &from);
		if (message.msg_flags & MSG_TRUNC)
			udp_count(udp, COUNTER_LINK_TRUNCATED, 1);
		else if (bytes > 0)
			frames += engine_landed(link->engine, link, &from, landing, (size_t)bytes,
						read_control(udp, CHANNEL_BULK, &message, (size_t)bytes));
	}
	return frames;
}

static void take_too_long(struct link_udp *udp)
{
	struct link *link = &udp->link;

	udp->too_long = false;
	engine_shrink(link->engine, link, &udp->narrow, link->calls->frame_max(link, &udp->narrow));
}

static unsigned udp_receive(struct link *link, unsigned budget)
{
	struct link_udp *udp = udp_of(link);
	unsigned frames = receive_records(udp);

	udp->looks++;
	if (link->engine->outstanding > 0 || udp->bulk_waits || udp->looks % UDP_IDLE_LOOKS == 0)
		frames += receive_bulk(udp, budget);
	for (unsigned i = 0; i < CHANNELS; i++)
		if (udp->errors[i])
			take_errors(udp, i);
	if (udp->too_long)
		take_too_long(udp);
	if (udp->looks % UDP_ACCEPT_LOOKS == 0)
		liveness_accept(&udp->liveness);
	return frames;
}

static bool udp_ready(struct link *link)
{
	struct link_udp *udp = udp_of(link);
	struct pollfd looks[CHANNELS + 1] = {{.fd = udp->liveness.listener, .events = POLLIN}};
	bool ready = false;

	for (unsigned i = 0; i < CHANNELS; i++)
		looks[i + 1] = (struct pollfd){.fd = link->fd[i], .events = POLLIN};
	if (poll(looks, CHANNELS + 1, 0) <= 0)
		return false;
	if (looks[0].revents)
		liveness_accept(&udp->liveness);
	for (unsigned i = 0; i < CHANNELS; i++) {
		udp->errors[i] |= (looks[i + 1].revents & POLLERR) != 0;
		ready |= looks[i + 1].revents != 0;
	}
	udp->bulk_waits |= looks[CHANNEL_BULK + 1].revents != 0;
	return ready;
}

/* ---- Paths ----------------------------------------------------------------------------------------- */

static uint32_t udp_frame_max(struct link *link, const struct path *to)
{
	struct link_udp *udp = udp_of(link);
	uint32_t mtu;

	if (interface_is_ipv4(to->bytes) != (udp->family == AF_INET) ||
	    interface_route(to->bytes, link->interface, NULL, &mtu) != 0 || mtu <= udp->headers)
		return 0;
	mtu -= udp->headers;
	return mtu < ENGINE_FRAME_MAX ? mtu : ENGINE_FRAME_MAX;
}

static enum link_fate udp_fate(struct link *link, const struct path *to)
{
	return liveness_ask(&udp_of(link)->liveness, to, link->engine->now_ns);
}

static void udp_fate_end(struct link *link, const struct path *to)
{
	liveness_forget(&udp_of(link)->liveness, to);
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static void udp_close(struct link *link)
{
	struct link_udp *udp = udp_of(link);

	for (unsigned i = 0; i < CHANNELS; i++)
		if (link->fd[i] >= 0)
			close(link->fd[i]);
	liveness_close(&udp->liveness);
	free(udp);
}

static const struct link_calls udp_calls = {
	.name = "udp",
	.send = udp_send,
	.receive = udp_receive,
	.ready = udp_ready,
	.frame_max = udp_frame_max,
	.fate = udp_fate,
	.fate_end = udp_fate_end,
	.close = udp_close,
};

/* As much as is wished if we may exceed the system's bound, else as much as that. Returns what the kernel gives. */
static uint64_t buffer_size(int fd, int force, int usual)
{
	int wish = UDP_SOCKET_BYTES, got = 0;
	socklen_t size = sizeof(got);

	if (setsockopt(fd, SOL_SOCKET, force, &wish, sizeof(wish)) != 0)
		setsockopt(fd, SOL_SOCKET, usual, &wish, sizeof(wish));
	getsockopt(fd, SOL_SOCKET, usual, &got, &size);
	return (uint64_t)got;
}

/* No fragments: the path has to carry frames as they are, or to tell how long they may be. */
static void set_options(struct link_udp *udp, int fd)
{
	int on = 1, level = udp->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	int strict = udp->family == AF_INET ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;

	setsockopt(fd, level, udp->family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &on, sizeof(on));
	setsockopt(fd, level, udp->family == AF_INET ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &strict, sizeof(strict));
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
}

/* Bind a socket to the address of `own` and its port, 0: any; which one comes back in it. */
static int open_socket(struct link_udp *udp, struct path *own, int *fd_p)
{
	union socket_address name;
	socklen_t size = interface_sockaddr(own, udp->link.interface, &name);
	int fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*fd_p = fd;
	if (fd < 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot make a UDP socket: %m");
	if (bind(fd, &name.any, size) != 0 || getsockname(fd, &name.any, &size) != 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot bind a UDP socket to the interface's address: %m");
	interface_path(&name, own);
	set_options(udp, fd);
	return 0;
}

/* The records' socket, on a port that TCP has free too. */
static int open_records(struct link_udp *udp)
{
	struct link *link = &udp->link;

	for (unsigned i = 0; i < UDP_PORT_TRIES; i++) {
		int error = open_socket(udp, &link->own, &link->fd[CHANNEL_RECORDS]);

		if (!error)
			error = liveness_open(&udp->liveness, link->interface, &link->own);
		if (error != THOLE_ERR_BUSY)
			return error;
		close(link->fd[CHANNEL_RECORDS]);
		link->fd[CHANNEL_RECORDS] = -1;
		memset(link->own.bytes + INTERFACE_ADDRESS, 0, 2);
	}
	return error_set(THOLE_ERR_SYSTEM, "found no port that is free for both UDP and TCP in %u tries: too many are in use "
			 "(sysctl net.ipv4.ip_local_port_range)", (unsigned)UDP_PORT_TRIES);
}

static int open_sockets(struct link_udp *udp)
{
	struct link *link = &udp->link;
	int size = 0, error = open_records(udp);
	socklen_t length = sizeof(size);
	struct path bulk = link->own;
	uint64_t bytes;

	memset(bulk.bytes + INTERFACE_ADDRESS, 0, 2);
	if (!error)
		error = open_socket(udp, &bulk, &link->fd[CHANNEL_BULK]);
	if (error)
		return error;
	link->bulk_port = load_be16(bulk.bytes + INTERFACE_ADDRESS);
	for (unsigned i = 0; i < CHANNELS; i++) {
		buffer_size(link->fd[i], SO_SNDBUFFORCE, SO_SNDBUF);
		bytes = buffer_size(link->fd[i], SO_RCVBUFFORCE, SO_RCVBUF);
	}
	/* The kernel counts its overhead too: half is safe for what arrives in large packets or in full buffers of an
	 * interface, an eighth for anything. */
	link->room = bytes / 2;
	udp->room_min = bytes / 8;
	udp->segmenting = getsockopt(link->fd[CHANNEL_RECORDS], IPPROTO_UDP, UDP_SEGMENT, &size, &length) == 0;
	return 0;
}

static void prepare(struct link_udp *udp)
{
	for (unsigned i = 0; i < UDP_BATCH_MAX; i++) {
		udp->in.parts[i] = (struct iovec){udp->in.buffers[i], UDP_BUFFER};
		udp->in.messages[i].msg_hdr = (struct msghdr){.msg_name = &udp->in.names[i], .msg_iov = &udp->in.parts[i],
							      .msg_iovlen = 1, .msg_control = udp->in.control[i]};
	}
	udp->batch = 1;
}

int link_udp_open(struct engine *engine, const struct interface *interface, uint64_t *counters, struct link **link_p)
{
	struct link_udp *udp;
	int error;

	*link_p = NULL;
	if (!interface->has_ipv4 && !interface->has_ipv6)
		return error_set(THOLE_ERR_ADDRESS, "the interface %s has no IP address, which UDP needs: give it one "
				 "(ip address add ... dev %s), or choose another", interface->name, interface->name);
	udp = calloc(1, sizeof(*udp));
	if (!udp)
		return error_set(THOLE_ERR_MEMORY, "no memory for a UDP link");
	udp->link = (struct link){.calls = &udp_calls, .engine = engine, .interface = interface->index,
				  .fd = {-1, -1}, .counters = counters};
	udp->liveness.listener = -1;
	udp->family = interface->has_ipv4 ? AF_INET : AF_INET6;
	udp->headers = udp->family == AF_INET ? IPV4_HEADERS : IPV6_HEADERS;
	memcpy(udp->link.own.bytes, interface->has_ipv4 ? interface->ipv4 : interface->ipv6, INTERFACE_ADDRESS);
	prepare(udp);
	error = open_sockets(udp);
	if (error) {
		error_prefix(error, "interface %s: ", interface->name);
		udp_close(&udp->link);
		return error;
	}
	*link_p = &udp->link;
	return 0;
}
