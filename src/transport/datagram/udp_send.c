/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_send: bursts of frames to the kernel, as few packets as can be. The engine is not called from here: what a send
 * learns of errors waits until the next receive. Every frame that is taken was sent or is counted as lost.
 */
#include "base/clock.h"
#include "base/maps.h"
#include "transport/datagram/typical.h"
#include "transport/datagram/udp.h"

static uint32_t frame_length(const struct frame_out *frame)
{
	return frame->head_length + frame->body_length;
}

/* Behind what is there; as one piece with that, where it lies behind it too. */
static void append(struct msghdr *message, const void *bytes, size_t length)
{
	struct iovec *last = message->msg_iovlen > 0 ? &message->msg_iov[message->msg_iovlen - 1] : NULL;

	if (last && (const char *)last->iov_base + last->iov_len == bytes) {
		last->iov_len += length;
		return;
	}
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

static bool udp_scattered(const struct frame_out *frame)
{
	return frame->body_count >= UDP_PARTS_MAX;
}

/* How many of these frames lie behind each other as a run, so that they are one part. */
static unsigned run_of(const struct frame_out *frames, unsigned count)
{
	return frames[0].behind < count ? frames[0].behind + 1u : count;
}

/* How many of these frames the kernel may carry as one packet: all as long as the first, but the last may be
 * shorter. */
static unsigned group(const struct link_udp *udp, const struct frame_out *frames, unsigned count)
{
	uint32_t length = frame_length(&frames[0]), total = length;
	unsigned n = 1;

	if (!udp->segmenting || length == 0 || frames[0].probe || udp_scattered(&frames[0]))
		return 1;
	count = count < UDP_SEGMENTS_MAX ? count : UDP_SEGMENTS_MAX;
	if (frames[0].behind > 0) { /* all but the last are as long for certain */
		unsigned run = run_of(frames, count), most = BATCH_MAX / length;

		n = run < most ? run : most;
		n -= n > 1;
		total = n * length;
	}
	while (n < count && frames[n].channel == frames[0].channel && path_equal(frames[n].to, frames[0].to) &&
	       !frames[n].probe && !udp_scattered(&frames[n])) {
		uint32_t next = frame_length(&frames[n]);

		if (next > length || next == 0 || total + next > BATCH_MAX)
			break;
		total += next;
		n++;
		if (next < length)
			break;
	}
	return n;
}

/* The frames of a packet, a run as one part. */
static void append_frames(struct msghdr *message, const struct frame_out *frames, unsigned count)
{
	for (unsigned run; count > 0; frames += run, count -= run) {
		run = run_of(frames, count);
		if (run > 1)
			append(message, frames[0].head,
			       (run - 1) * frames[0].head_length + (size_t)frames[run - 1].head_length);
		else
			append_frame(message, frames);
	}
}

/* Frames are so long from now on. A packet that need not say so itself takes the kernel a tenth of a microsecond
 * less. */
static void segment_remember(struct link_udp *udp, unsigned index, uint32_t length)
{
	struct udp_socket *socket = &udp->sockets[index];
	int size = (int)length;

	if (setsockopt(udp->fd[index], IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) == 0)
		socket->segment = (uint16_t)length;
	else
		socket->forgets = true;
}

/* What it remembers may be why a lane has refused a packet, be it of one frame. Returns whether it did remember. */
static bool segment_forget(struct link_udp *udp, struct udp_socket *socket)
{
	unsigned index = (unsigned)(socket - udp->sockets);
	int error = errno;

	if (socket->segment == 0)
		return false;
	segment_remember(udp, index, 0);
	socket->segment = 0;
	socket->forgets = true;
	errno = error;
	return true;
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

/* Tell the kernel that a message is `count` frames of so many bytes. A lane remembers the longest that it had, as
 * nearly all are: of what is as long, or is one frame that is no longer, nothing is told. That has to stay true of all
 * of a burst, so only its first message is a reason to remember. */
static void segment_tell(struct link_udp *udp, unsigned index, unsigned message, unsigned count, uint32_t length)
{
	struct udp_socket *socket = &udp->sockets[index];

	if (message == 0 && count > 1 && length > socket->segment && index >= UDP_LANES && !socket->forgets &&
	    !udp->driver)
		segment_remember(udp, index, length);
	if (count > 1 ? length != socket->segment : socket->segment > 0 && length > socket->segment)
		segment_size(&udp->out.messages[message].msg_hdr, udp->out.control[message], count > 1 ? length : 0);
}

/* Where a message goes: a lane knows that already. */
static void address(struct link_udp *udp, unsigned socket, unsigned message, const struct frame_out *frame)
{
	struct msghdr *header = &udp->out.messages[message].msg_hdr;

	if (frame->known)
		udp_lane_vote(udp, frame->channel, frame->to);
	if (socket >= UDP_LANES)
		return;
	header->msg_name = &udp->out.names[message];
	header->msg_namelen = interface_sockaddr(frame->to, udp->link.interface, &udp->out.names[message]);
}

enum gathering {
	GATHER_PACKETS,  /* as many frames in one as can be */
	GATHER_FRAMES,   /* one a frame */
	GATHER_COPIES,   /* the same, and each of memory of our own */
};

/* Gather frames that leave through the first one's socket into messages. Returns how many messages. */
static unsigned udp_gather(struct link_udp *udp, unsigned socket, const struct frame_out *frames, unsigned count,
			   enum gathering how)
{
	struct outgoing *out = &udp->out;
	struct iovec *part = out->parts;
	unsigned at = 0, messages = 0;
	bool alone = false;

	count = count < ENGINE_BURST ? count : ENGINE_BURST;
	while (at < count && !alone && udp_lane_for(udp, frames[at].channel, frames[at].to) == socket) {
		unsigned n = how == GATHER_PACKETS ? group(udp, &frames[at], count - at) : 1;
		struct msghdr *message = &out->messages[messages].msg_hdr;

		alone = how == GATHER_COPIES || udp_scattered(&frames[at]);
		if (alone && at > 0)
			break;
		*message = (struct msghdr){.msg_iov = part};
		address(udp, socket, messages, &frames[at]);
		segment_tell(udp, socket, messages, n, frame_length(&frames[at]));
		if (alone)
			append_together(udp, message, &frames[at]);
		else
			append_frames(message, &frames[at], n);
		part += message->msg_iovlen;
		at += n;
		out->frames[messages++] = (uint8_t)n;
	}
	return messages;
}

/* Returns how many messages went, or -1. */
static int udp_dispatch(struct link_udp *udp, int fd, unsigned messages)
{
	struct msghdr *first = &udp->out.messages[0].msg_hdr;
	ssize_t sent;

	if (messages > 1)
		return sendmmsg(fd, udp->out.messages, messages, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (first->msg_iovlen == 1 && first->msg_controllen == 0)
		sent = sendto(fd, first->msg_iov->iov_base, first->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL,
			      first->msg_name, first->msg_namelen);
	else
		sent = sendmsg(fd, first, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent < 0 ? -1 : 1;
}

/* How long packets take, now and then. What takes the time of a long one is its bytes then, here and where it is read;
 * so the receiver of two that are halves has one to read while it waits for the other. */
static int udp_dispatch_timed(struct link_udp *udp, unsigned socket, unsigned messages)
{
	unsigned frames = udp->out.frames[0];
	bool many = frames >= UDP_TIMED_MANY;
	uint64_t start_ns;
	int sent;

	if (socket < UDP_LANES || messages > 1 || frames == 1 || (frames > UDP_TIMED_FEW && !many) ||
	    ++udp->untimed[many] < UDP_TIMED_TURNS)
		return udp_dispatch(udp, udp->fd[socket], messages);
	udp->untimed[many] = 0;
	start_ns = clock_now_ns();
	sent = udp_dispatch(udp, udp->fd[socket], messages);
	if (sent == 1)
		typical_learn(&udp->typical[many], clock_now_ns() - start_ns);
	udp->link.halves = udp->typical[0] > 0 && udp->typical[1] > UDP_TIMED_TIMES * (uint64_t)udp->typical[0] / 4;
	return sent;
}

/* A frame that was cut when the path was wider has to go as it is: as fragments of IP. */
static bool send_fragmented(struct link_udp *udp, int fd)
{
	int level = udp->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	int name = udp->family == AF_INET ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER;
	int strict = udp->family == AF_INET ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;
	int never = udp->family == AF_INET ? IP_PMTUDISC_DONT : IPV6_PMTUDISC_DONT;
	bool sent;

	if (setsockopt(fd, level, name, &never, sizeof(never)) != 0)
		return false;
	sent = udp_dispatch(udp, fd, 1) == 1;
	setsockopt(fd, level, name, &strict, sizeof(strict));
	return sent;
}

enum trouble {
	TROUBLE_FULL,      /* no room: later */
	TROUBLE_AGAIN,     /* at once */
	TROUBLE_SEPARATE,  /* as one datagram a frame */
	TROUBLE_COPY,      /* the same, and copied first */
	TROUBLE_LOST,
};

/* Whether there is any memory where they are to be read, though the kernel could not read it. */
static bool frames_are_mapped(const struct frame_out *frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!maps_have(frames[i].body, frames[i].body_count))
			return false;
	return true;
}

/* The first message, which begins with this frame, was not sent: what now? tried: it is not the first time. */
static enum trouble trouble(struct link_udp *udp, struct udp_socket *socket, const struct frame_out *frame,
			    enum gathering how, bool tried)
{
	switch (errno) {
	case EFAULT: /* its owner may read it: memory under a handler of SIGSEGV's, say */
		if (how != GATHER_COPIES && frames_are_mapped(frame, udp->out.frames[0])) {
			udp_count(udp, COUNTER_LINK_COPIED, 1);
			return TROUBLE_COPY;
		}
		return udp->out.frames[0] > 1 ? TROUBLE_SEPARATE : TROUBLE_LOST;
	case EAGAIN:
	case ENOBUFS: /* a queue of the interface is full, and has dropped the packet */
	case ENOMEM:
		return TROUBLE_FULL;
	case EINTR:
		return TROUBLE_AGAIN;
	case EIO: /* the interface computes no checksums, which segmenting needs */
	case EOPNOTSUPP:
		if (udp->out.frames[0] > 1 && socket->segment == 0)
			udp->segmenting = false;
		/* fall through */
	case EINVAL:
	case EMSGSIZE:
		if (segment_forget(udp, socket))
			return TROUBLE_AGAIN;
		if (udp->out.frames[0] > 1) {
			udp_count(udp, COUNTER_LINK_SEPARATED, 1);
			return TROUBLE_SEPARATE;
		}
		socket->errors = true; /* it is in the queue as well */
		udp->too_long = true;
		udp->narrow = *frame->to;
		return TROUBLE_LOST;
	default: /* perhaps an answer to an earlier frame, told with this one */
		socket->errors = true;
		socket->broken |= tried && socket->connected;
		return tried ? TROUBLE_LOST : TROUBLE_AGAIN;
	}
}

unsigned udp_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct link_udp *udp = udp_of(link);
	unsigned taken = 0, separate = 0; /* frames before this one go one by one, */
	enum gathering apart = GATHER_FRAMES; /* in this way */
	bool tried = false;

	while (taken < count) {
		enum gathering how = taken < separate ? apart : GATHER_PACKETS;
		unsigned bound = taken < separate ? separate - taken : count - taken;
		unsigned socket = udp_lane_for(udp, frames[taken].channel, frames[taken].to);
		unsigned messages = udp_gather(udp, socket, &frames[taken], bound, how);
		int sent = udp_dispatch_timed(udp, socket, messages);
		enum trouble reason;

		for (int i = 0; i < sent; i++)
			taken += udp->out.frames[i];
		if (sent >= 0) {
			tried = false;
			continue;
		}
		reason = trouble(udp, &udp->sockets[socket], &frames[taken], how, tried);
		switch (reason) {
		case TROUBLE_FULL:
			return taken;
		case TROUBLE_AGAIN:
			tried = errno != EINTR;
			continue;
		case TROUBLE_SEPARATE:
		case TROUBLE_COPY:
			apart = reason == TROUBLE_COPY ? GATHER_COPIES : GATHER_FRAMES;
			separate = taken + udp->out.frames[0];
			continue;
		case TROUBLE_LOST:
			if (!udp->too_long || frames[taken].probe || !send_fragmented(udp, udp->fd[socket]))
				udp_count(udp, COUNTER_LINK_LOST, udp->out.frames[0]);
			taken += udp->out.frames[0];
			tried = false;
		}
	}
	return taken;
}

