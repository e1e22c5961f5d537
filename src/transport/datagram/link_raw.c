/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_raw: frames as Ethernet frames of their own type, past the IP stack. They come in through a ring of memory that
 * the kernel shares with us, so that a poll costs no system call, and are handed on from there without a copy.
 *
 * Owns two packet sockets, one for each direction (the sender's receives nothing), and the ring. A filter in the
 * kernel keeps what is not for this endpoint out of it. Invariants: a slot of the ring is ours from when the kernel
 * sets its status until we give it back, and slots are taken in their order. VLAN tags are no part of what we see:
 * frames of a VLAN come from the interface of that VLAN. A forked child keeps a copy of the ring, and with that the
 * sockets, which is why nothing closes them there: they hold no port, and nobody is told that they are there.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/endian.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/maps.h"
#include "transport/datagram/alarm.h"
#include "transport/datagram/links.h"

enum raw_limits {
	RAW_RING_BYTES = 2 << 20,    /* of the ring, but no fewer than: */
	RAW_SLOTS_MIN = 512,         /* frames, of whatever length */
	RAW_BLOCK = 64 << 10,        /* bytes of the ring that are contiguous in the kernel */
	RAW_SEND_BYTES = 4 << 20,    /* asked for; the kernel doubles it for its own overhead */
	RAW_PARTS_MAX = 16,          /* iovecs of a frame; one that has more is copied together first */
	/* frames up to this length are copied together too: one part costs the kernel less */
	RAW_SMALL = 256,
	RAW_CHECK_POLLS = 256,       /* receives between two checks of the socket's errors and losses */
	RAW_FRAME_MIN = ETH_ZLEN,    /* Ethernet's, without its checksum */
	RAW_HEAD_MAX = ETH_HLEN + LINK_RAW_HEAD,
	RAW_BUFFER = RAW_HEAD_MAX + ENGINE_FRAME_MAX,
};

struct raw_out {
	struct mmsghdr messages[ENGINE_BURST];
	struct iovec parts[ENGINE_BURST * RAW_PARTS_MAX];
	uint8_t heads[ENGINE_BURST][RAW_SMALL]; /* head of the frame, or all of a short one */
	uint8_t together[RAW_BUFFER];           /* a frame in too many parts */
};

struct link_raw {
	struct link link;
	int send_fd, receive_fd;
	struct alarm alarm;
	bool native;              /* LINK_RAW_HEAD is there, and names */
	uint32_t endpoint;        /* us */
	uint32_t head;            /* bytes in front of a frame */
	uint8_t ethernet[ETH_HLEN]; /* the head of all that we send, but for the destination */
	uint8_t *ring;
	size_t ring_bytes;
	uint32_t slot_bytes, slots_a_block, slot_count;
	uint32_t slot;            /* the next one to be filled, */
	struct tpacket2_hdr *next; /* which is here */
	unsigned polls;
	bool too_long;            /* a frame did not fit the interface any more: */
	struct path to;           /* the one to here */
	struct ifreq request;     /* with the interface's name */
	struct raw_out out;
};

static struct link_raw *raw_of(struct link *link)
{
	return (struct link_raw *)link;
}

/* ---- Send ------------------------------------------------------------------------------------------ */

/* Everything in front of a frame. Returns its length. */
static size_t write_head(const struct link_raw *raw, const struct frame_out *frame, uint32_t length, uint8_t *head)
{
	memcpy(head, raw->ethernet, ETH_HLEN);
	memcpy(head, frame->to->bytes, ETH_ALEN);
	if (!raw->native)
		return ETH_HLEN;
	head += ETH_HLEN;
	memcpy(head, frame->to->bytes + ETH_ALEN, 4);
	store_be32(head + 4, raw->endpoint);
	store_be16(head + 8, (uint16_t)length);
	store_be16(head + 10, 0);
	return RAW_HEAD_MAX;
}

/* The frame behind its head, as one. Returns the length, with Ethernet's padding. */
static size_t write_frame(const struct link_raw *raw, const struct frame_out *frame, uint32_t length, uint8_t *bytes)
{
	size_t at = write_head(raw, frame, length, bytes);

	memcpy(bytes + at, frame->head, frame->head_length);
	at += frame->head_length;
	for (unsigned i = 0; i < frame->body_count; i++) {
		memcpy(bytes + at, frame->body[i].iov_base, frame->body[i].iov_len);
		at += frame->body[i].iov_len;
	}
	if (at < RAW_FRAME_MIN) {
		memset(bytes + at, 0, RAW_FRAME_MIN - at);
		at = RAW_FRAME_MIN;
	}
	return at;
}

static unsigned write_parts(struct link_raw *raw, const struct frame_out *frame, uint32_t length, uint8_t *head,
			    struct iovec *parts)
{
	unsigned count = 0;

	parts[count++] = (struct iovec){head, write_head(raw, frame, length, head)};
	parts[count++] = (struct iovec){(void *)(uintptr_t)frame->head, frame->head_length};
	for (unsigned i = 0; i < frame->body_count; i++)
		parts[count++] = frame->body[i];
	return count;
}

static bool raw_scattered(const struct frame_out *frame)
{
	return frame->body_count > RAW_PARTS_MAX - 2;
}

/* Frames as messages for the kernel, up to one that is in too many parts, which comes alone. copied: so does the first,
 * whatever it is. Returns how many. */
static unsigned raw_gather(struct link_raw *raw, const struct frame_out *frames, unsigned count, bool copied)
{
	struct raw_out *out = &raw->out;
	struct iovec *part = out->parts;
	unsigned i;

	for (i = 0; i < count && i < ENGINE_BURST; i++) {
		uint32_t length = frames[i].head_length + frames[i].body_length;
		bool together = copied || raw_scattered(&frames[i]);
		unsigned parts = 1;

		if (together && i > 0)
			break;
		if (raw->head + length <= RAW_SMALL)
			*part = (struct iovec){out->heads[i], write_frame(raw, &frames[i], length, out->heads[i])};
		else if (together)
			*part = (struct iovec){out->together, write_frame(raw, &frames[i], length, out->together)};
		else
			parts = write_parts(raw, &frames[i], length, out->heads[i], part);
		out->messages[i].msg_hdr = (struct msghdr){.msg_iov = part, .msg_iovlen = parts};
		part += parts;
		if (together)
			return 1;
	}
	return i;
}

static int raw_dispatch(struct link_raw *raw, unsigned messages)
{
	struct msghdr *first = &raw->out.messages[0].msg_hdr;
	ssize_t sent;

	if (messages > 1)
		return sendmmsg(raw->send_fd, raw->out.messages, messages, MSG_DONTWAIT);
	if (first->msg_iovlen == 1)
		sent = send(raw->send_fd, first->msg_iov->iov_base, first->msg_iov->iov_len, MSG_DONTWAIT);
	else
		sent = sendmsg(raw->send_fd, first, MSG_DONTWAIT);
	return sent < 0 ? -1 : 1;
}

/* A frame is taken for lost. Where the interface is down (ENETDOWN, ENXIO) it may come back, and the engine sends
 * again. */
static void lost(struct link_raw *raw, const struct frame_out *frame)
{
	if (errno == EMSGSIZE) {
		raw->too_long = true;
		raw->to = *frame->to;
	}
	raw->link.counters[COUNTER_LINK_LOST]++;
}

static unsigned raw_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct link_raw *raw = raw_of(link);
	unsigned taken = 0;
	bool copied = false;

	while (taken < count) {
		int sent = raw_dispatch(raw, raw_gather(raw, &frames[taken], count - taken, copied));

		if (sent > 0)
			taken += (unsigned)sent;
		else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
			break;
		else if (errno == EFAULT && !copied && maps_have(frames[taken].body, frames[taken].body_count)) {
			/* Its owner may read it: memory under a handler of SIGSEGV's, say. */
			raw->link.counters[COUNTER_LINK_COPIED]++;
			copied = true;
			continue;
		} else if (errno != EINTR)
			lost(raw, &frames[taken++]);
		copied = false;
	}
	return taken;
}

/* ---- Receive --------------------------------------------------------------------------------------- */

static struct tpacket2_hdr *slot_of(const struct link_raw *raw, uint32_t slot)
{
	return (void *)(raw->ring + (size_t)(slot / raw->slots_a_block) * RAW_BLOCK +
			(size_t)(slot % raw->slots_a_block) * raw->slot_bytes);
}

/* The acquire has its partner in the kernel, which fills the slot before it sets the status. */
static bool slot_filled(const struct link_raw *raw)
{
	return load_acquire(&raw->next->tp_status) & TP_STATUS_USER;
}

static bool raw_waiting(const struct link *link)
{
	return slot_filled((const struct link_raw *)link);
}

static void take_frame(struct link_raw *raw, const struct tpacket2_hdr *slot)
{
	const uint8_t *ethernet = (const uint8_t *)slot + slot->tp_mac, *frame = ethernet + raw->head;
	struct path from = {{0}};
	uint32_t length = slot->tp_len - raw->head;

	if (slot->tp_snaplen < slot->tp_len) {
		raw->link.counters[COUNTER_LINK_TRUNCATED]++;
		return;
	}
	if (slot->tp_len < raw->head || (raw->native && load_be16(ethernet + ETH_HLEN + 8) > length)) {
		raw->link.counters[COUNTER_DROPPED_MALFORMED]++;
		return;
	}
	memcpy(from.bytes, ethernet + ETH_ALEN, ETH_ALEN);
	if (raw->native) {
		memcpy(from.bytes + ETH_ALEN, ethernet + ETH_HLEN + 4, 4);
		length = load_be16(ethernet + ETH_HLEN + 8);
	}
	engine_frame(raw->link.engine, &raw->link, &from, frame, length);
}

/* Errors, which are told once (an interface that goes down), and frames that found the ring full. */
static void check(struct link_raw *raw)
{
	struct link *link = &raw->link;
	struct tpacket_stats stats = {0};
	uint64_t least = (uint64_t)raw->slot_count * raw->slot_bytes / 4;
	socklen_t size = sizeof(stats);
	int error;

	raw->polls = 0;
	if (getsockopt(raw->receive_fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0 && stats.tp_drops > 0) {
		link->counters[COUNTER_LINK_OVERFLOWS] += stats.tp_drops;
		link->room -= link->room > least ? link->room / 4 : 0;
	}
	size = sizeof(error);
	getsockopt(raw->receive_fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (raw->too_long) {
		raw->too_long = false;
		engine_shrink(link->engine, link, &raw->to, link->calls->frame_max(link, &raw->to));
	}
}

static unsigned raw_receive(struct link *link, unsigned budget)
{
	struct link_raw *raw = raw_of(link);
	unsigned frames;

	if (raw->alarm.set)
		alarm_clear(&raw->alarm, &raw->receive_fd, 1);
	for (frames = 0; frames < budget && slot_filled(raw); frames++) {
		struct tpacket2_hdr *slot = raw->next;

		take_frame(raw, slot);
		/* the kernel reads it before it fills the slot again */
		store_release(&slot->tp_status, TP_STATUS_KERNEL);
		raw->slot = raw->slot + 1 < raw->slot_count ? raw->slot + 1 : 0;
		raw->next = slot_of(raw, raw->slot);
	}
	if (++raw->polls >= RAW_CHECK_POLLS || raw->too_long)
		check(raw);
	return frames;
}

static bool raw_ready(struct link *link)
{
	struct link_raw *raw = raw_of(link);

	check(raw); /* an error that nobody fetches would keep the owner from sleeping */
	return alarm_set(&raw->alarm, &raw->receive_fd, 1) != ALARM_SET;
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static uint32_t raw_frame_max(struct link *link, const struct path *to)
{
	struct link_raw *raw = raw_of(link);
	uint32_t mtu, head = raw->head - ETH_HLEN;

	(void)to;
	if (ioctl(raw->send_fd, SIOCGIFMTU, &raw->request) != 0 || raw->request.ifr_mtu <= (int)head)
		return 0;
	mtu = (uint32_t)raw->request.ifr_mtu - head;
	return mtu < ENGINE_FRAME_MAX ? mtu : ENGINE_FRAME_MAX;
}

static void raw_close(struct link *link)
{
	struct link_raw *raw = raw_of(link);

	if (raw->ring)
		munmap(raw->ring, raw->ring_bytes);
	if (raw->receive_fd >= 0)
		close(raw->receive_fd);
	if (raw->send_fd >= 0)
		close(raw->send_fd);
	alarm_close(&raw->alarm);
	free(raw);
}

static const struct link_calls raw_calls = {
	.name = "raw",
	.kind = &kind_ethernet,
	.rank = {[LINK_RECORDS] = 10, [LINK_BULK] = 20, [LINK_CONNECT] = 20},
	.counter = COUNTER_FRAMES_RAW,
	.send = raw_send,
	.receive = raw_receive,
	.cheap = true,
	.waiting = raw_waiting,
	.ready = raw_ready,
	.frame_max = raw_frame_max,
	.close = raw_close,
};

static int attach(int fd, const struct sock_filter *filter, size_t count)
{
	struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)(uintptr_t)filter};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot attach a filter to a packet socket: %m");
	return 0;
}

/* The EtherType is sorted out by binding to it; the rest by this: to us, or for mxoe to everybody; and to this
 * endpoint. */
static int set_filter(const struct link_raw *raw, int fd)
{
	const struct sock_filter native[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ETH_HLEN),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, raw->endpoint, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_filter mxoe[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, PACKET_BROADCAST, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};

	return raw->native ? attach(fd, native, sizeof(native) / sizeof(native[0]))
			   : attach(fd, mxoe, sizeof(mxoe) / sizeof(mxoe[0]));
}

/* Version 2 hands each frame on at once; version 3 waits until blocks are full. */
static int make_ring(struct link_raw *raw, int fd, uint32_t mtu)
{
	/* Where the kernel puts the payload. */
	uint32_t before = (sizeof(struct tpacket2_hdr) + sizeof(struct sockaddr_ll) + 16 + 15) / 16 * 16;
	uint32_t blocks = RAW_RING_BYTES / RAW_BLOCK;
	struct tpacket_req request;
	int version = TPACKET_V2;

	raw->slot_bytes = (before + mtu + 63) / 64 * 64;
	if (raw->slot_bytes > RAW_BLOCK)
		return error_set(THOLE_ERR_ADDRESS, "its MTU of %u is more than raw frames can have", mtu);
	raw->slots_a_block = RAW_BLOCK / raw->slot_bytes;
	while (blocks * raw->slots_a_block < RAW_SLOTS_MIN)
		blocks++;
	raw->slot_count = blocks * raw->slots_a_block;
	raw->ring_bytes = (size_t)blocks * RAW_BLOCK;
	request = (struct tpacket_req){.tp_block_size = RAW_BLOCK,
				       .tp_block_nr = blocks,
				       .tp_frame_size = raw->slot_bytes,
				       .tp_frame_nr = raw->slot_count};
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) != 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot make a receive ring of %zu bytes: %m", raw->ring_bytes);
	raw->ring = mmap(NULL, raw->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (raw->ring == MAP_FAILED) {
		raw->ring = NULL;
		return error_set(THOLE_ERR_SYSTEM, "cannot map a receive ring of %zu bytes: %m", raw->ring_bytes);
	}
	raw->next = slot_of(raw, 0);
	raw->link.room = (uint64_t)raw->slot_count * mtu;
	return 0;
}

int link_raw_socket(int type, bool native, int *fd_p)
{
	/* protocol 0: nothing comes until it is bound */
	*fd_p = limits_own(socket(AF_PACKET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (*fd_p >= 0)
		return 0;
	if (errno == EPERM || errno == EACCES)
		return error_set(THOLE_ERR_ACCESS, "raw Ethernet frames need the capability CAP_NET_RAW: run "
				 "\"setcap cap_net_raw+ep PROGRAM\" as root, or run as root%s",
				 native ? ", or do without by link=udp" : "");
	return error_set(THOLE_ERR_SYSTEM, "cannot make a packet socket: %m");
}

static int bind_socket(const struct link_raw *raw, int fd, uint16_t ethertype)
{
	struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_protocol = htons(ethertype),
				   .sll_ifindex = (int)raw->link.interface};

	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot bind a packet socket: %m");
	return 0;
}

static int open_sender(struct link_raw *raw)
{
	int on = 1, bytes = RAW_SEND_BYTES, error = link_raw_socket(SOCK_RAW, raw->native, &raw->send_fd);

	if (error)
		return error;
	setsockopt(raw->send_fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)); /* faster; it goes without */
	if (setsockopt(raw->send_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(raw->send_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return bind_socket(raw, raw->send_fd, 0);
}

static int open_receiver(struct link_raw *raw, uint32_t mtu, uint16_t ethertype)
{
	int *fd_p = &raw->receive_fd, error = link_raw_socket(SOCK_RAW, raw->native, fd_p);

	if (!error)
		error = set_filter(raw, *fd_p);
	if (!error)
		error = make_ring(raw, *fd_p, mtu);
	return error ? error : bind_socket(raw, *fd_p, ethertype);
}

int link_raw_open(struct engine *engine, const struct interface *interface, uint16_t ethertype, uint32_t endpoint,
		  uint64_t *counters, struct link **link_p)
{
	struct link_raw *raw;
	int error;

	*link_p = NULL;
	if (!interface->ethernet || interface->loopback)
		return error_set(THOLE_ERR_ADDRESS, "the interface %s carries no Ethernet frames, so it has no raw "
				 "link: choose another%s", interface->name,
				 ethertype == LINK_RAW_ETHERTYPE_MXOE ? "" : ", or link=udp");
	raw = calloc(1, sizeof(*raw));
	if (!raw)
		return error_set(THOLE_ERR_MEMORY, "no memory for a raw link");
	raw->link = (struct link){.calls = &raw_calls, .engine = engine, .interface = interface->index, .fd = {-1, -1},
				  .counters = counters};
	raw->send_fd = raw->receive_fd = raw->alarm.fd = -1;
	raw->native = ethertype != LINK_RAW_ETHERTYPE_MXOE;
	raw->endpoint = endpoint;
	raw->head = raw->native ? RAW_HEAD_MAX : ETH_HLEN;
	memcpy(raw->request.ifr_name, interface->name, IF_NAMESIZE);
	memcpy(raw->ethernet + ETH_ALEN, interface->mac, ETH_ALEN);
	store_be16(raw->ethernet + 2 * ETH_ALEN, ethertype);
	raw->link.ethertype = ethertype;
	memcpy(raw->link.own.bytes, interface->mac, ETH_ALEN);
	if (raw->native)
		store_be32(raw->link.own.bytes + ETH_ALEN, endpoint);
	error = open_sender(raw);
	if (!error)
		error = open_receiver(raw, interface->mtu, ethertype);
	if (!error)
		error = alarm_open(&raw->alarm);
	raw->link.fd[0] = raw->alarm.fd;
	if (error) {
		error_prefix(error, "interface %s: ", interface->name);
		raw_close(&raw->link);
		return error;
	}
	*link_p = &raw->link;
	return 0;
}
