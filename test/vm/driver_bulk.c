/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk by the driver, between two processes with a network of their own each, joined by a veth: what one exposes the
 * other fetches, byte for byte, whoever of them has the driver; while frames are lost, memory goes away,
 * sockets are closed and processes are killed; and what nobody who is right would send has no effect.
 *
 *     thole-driver-bulk MTU [CASE...]      each case in two processes of its own; no tags where MTU is negative
 *     thole-driver-bulk MTU amid [WHAT...] what happens to memory and processes amid a transfer, on either side
 *
 * The cases `cost` and `cost_udp`, which have to be named, are for a guest whose clock goes by the instruction: they
 * print lines "row NAME VALUE" for bench/driver.py, in instructions a byte.
 */
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../../bench/instructions.h"
#include "driver.h"
#include "stuck.h"
#include "transport/datagram/block.h"
#include "transport/datagram/guard.h"

enum {
	RECORDS_PORT = 4000,
	BULK_PORT = 4001,
	WINDOW = 7, /* a window's name */
	LENGTH = 3 << 19,
	HALF = LENGTH / 2,
	WAIT_MS = 60000, /* a guest is slow */
	SOON_MS = 300,   /* what should not come */
};

static unsigned mtu;
static bool tagged = true;

/* One of two processes. */
struct side {
	struct driver driver;
	struct thole_driver_events *ring;
	struct thole_driver_way *way;
	int sockets[CHANNELS];
	int other; /* to the other process */
	unsigned number;
	uint32_t frame; /* bytes of payload of a frame of DATA */
	uint32_t connection;
	uint64_t transfer;
	struct guard guard;
	unsigned char *memory;
	uint32_t region;
	uint64_t served; /* plain_serve: bytes of the window, so far */
};

/* ---- Both ends ------------------------------------------------------------------------------- */

static void run(const char *command)
{
	if (system(command) != 0) {
		printf("failed: %s\n", command);
		fflush(stdout);
		_exit(1);
	}
}

static void say(const struct side *side)
{
	CHECK(write(side->other, "", 1) == 1);
}

static void hear(const struct side *side)
{
	char byte;

	CHECK(read(side->other, &byte, 1) == 1);
}

static struct sockaddr_in address_of(unsigned number, unsigned channel)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	address.sin_port = htons(channel ? BULK_PORT : RECORDS_PORT);
	address.sin_addr.s_addr = htonl(0x0a090001 + number);
	return address;
}

static uint64_t session_of(unsigned number)
{
	return 0x1234567800000000 + number;
}

static int open_socket(unsigned number, unsigned channel)
{
	struct sockaddr_in address = address_of(number, channel);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, bytes = 4 << 20;

	CHECK(fd >= 0 && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

static unsigned char pattern(unsigned seed, size_t i)
{
	return (unsigned char)(seed + i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void fill(struct side *side, unsigned seed)
{
	for (size_t i = 0; i < LENGTH; i++)
		side->memory[i] = pattern(seed, i);
}

static void check(const struct side *side, size_t at, unsigned seed, size_t from, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (side->memory[at + i] != pattern(seed, from + i)) {
			printf("byte %zu of %zu at %zu differs\n", i, length, at);
			fflush(stdout);
			_exit(1);
		}
}

/* A network of one's own, of two interfaces that are one cable. */
static void join(struct side *side, pid_t peer)
{
	char command[400];

	if (side->number == 1) {
		hear(side);
		run("ip address add 10.9.0.2/24 dev ve1 && ip link set ve1 up && ip link set lo up");
		say(side);
		return;
	}
	hear(side);
	snprintf(command, sizeof(command),
		 "ip link set lo up && ip link add ve0 mtu %u type veth peer name ve1 mtu %u netns %d && "
		 "ip address add 10.9.0.1/24 dev ve0 && ip link set ve0 up",
		 mtu, mtu, (int)peer);
	run(command);
	say(side);
	hear(side);
}

static void side_open(struct side *side)
{
	struct guard_end own = {1, 2, session_of(side->number)}, peer = {1, 2, session_of(!side->number)};

	side->sockets[CHANNEL_RECORDS] = open_socket(side->number, CHANNEL_RECORDS);
	side->sockets[CHANNEL_BULK] = open_socket(side->number, CHANNEL_BULK);
	side->memory = memory_new(LENGTH);
	side->served = LENGTH;
	side->frame = (mtu - 28 - PACKET_FRONT - (tagged ? PACKET_COUNTER + PACKET_TAG_SHORT : 0)) & ~7u;
	guard_begin(&side->guard, GUARD_HEADS, 4711, &own, &peer, NULL);
}

static void take_sockets(struct side *side)
{
	for (unsigned i = 0; i < CHANNELS; i++) {
		struct thole_driver_socket socket = {.fd = side->sockets[i], .channel = i};

		CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == 0);
	}
}

static struct thole_driver_connection connection_to(const struct side *side)
{
	struct thole_driver_connection wanted = {
		.session = session_of(side->number),
		.peer_session = session_of(!side->number),
		.index = 10 + side->number,
		.peer_index = 10 + !side->number,
		.address = {[10] = 255, 255, 10, 9, 0, (unsigned char)(2 - side->number)},
		.records_port = RECORDS_PORT,
		.bulk_port = BULK_PORT,
		.frame_max = mtu - 28,
		.mode = tagged,
		.counter = side->guard.counter,
	};

	memcpy(wanted.out_secret, side->guard.out.secret, sizeof(wanted.out_secret));
	memcpy(wanted.in_secret, side->guard.in.secret, sizeof(wanted.in_secret));
	return wanted;
}

/* The driver's for sockets and peer; and a region. */
static void side_drive(struct side *side)
{
	struct thole_driver_connection wanted = connection_to(side);

	side->driver = driver_open();
	side->ring = mmap(NULL, sizeof(*side->ring), PROT_READ | PROT_WRITE, MAP_SHARED, side->driver.fd,
			  THOLE_DRIVER_AT_EVENTS);
	side->way = mmap(NULL, THOLE_DRIVER_CONNECTIONS * sizeof(*side->way), PROT_READ | PROT_WRITE, MAP_SHARED,
			 side->driver.fd, THOLE_DRIVER_AT_WAYS);
	CHECK(side->ring != MAP_FAILED && side->way != MAP_FAILED);
	take_sockets(side);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == 0);
	side->connection = wanted.id;
	side->way += wanted.id;
	side->region = declare(&side->driver, side->memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(side->region != 0);
}

static int expose(struct side *side, uint64_t name, uint64_t offset, uint64_t length)
{
	struct thole_driver_window window = {.window = name,
					     .offset = offset,
					     .length = length,
					     .connection = side->connection,
					     .region = side->region};

	return ioctl(side->driver.fd, THOLE_DRIVER_WINDOW, &window) == 0 ? 0 : -errno;
}

static int fetch(struct side *side, uint64_t name, uint64_t offset, uint64_t length, uint64_t to)
{
	struct thole_driver_fetch wanted = {.window = name,
					    .transfer = ++side->transfer,
					    .offset = offset,
					    .length = length,
					    .region_offset = to,
					    .cookie = 100 + side->transfer,
					    .connection = side->connection,
					    .region = side->region,
					    .frame = side->frame};

	return ioctl(side->driver.fd, THOLE_DRIVER_FETCH, &wanted) == 0 ? 0 : -errno;
}

static int end(struct side *side, unsigned long command, uint64_t name)
{
	struct thole_driver_name named = {.name = name, .connection = side->connection};

	return ioctl(side->driver.fd, command, &named) == 0 ? 0 : -errno;
}

static bool next_event(struct side *side, struct thole_driver_event *event_p, int wait_ms)
{
	uint32_t read = side->ring->read;
	const struct thole_driver_event *slot = &side->ring->events[read % THOLE_DRIVER_EVENTS];
	struct pollfd poll_one = {.fd = side->driver.fd, .events = POLLIN};

	if (__atomic_load_n(&slot->stamp, __ATOMIC_ACQUIRE) != read + 1 &&
	    (poll(&poll_one, 1, wait_ms) != 1 || __atomic_load_n(&slot->stamp, __ATOMIC_ACQUIRE) != read + 1))
		return false;
	*event_p = *slot;
	__atomic_store_n(&side->ring->read, read + 1, __ATOMIC_RELEASE);
	return true;
}

/* What has become of a fetch that is over; which one *event_p says. */
static struct thole_driver_fetched next_fetched(struct side *side, struct thole_driver_event *event_p)
{
	struct thole_driver_fetched answer;

	if (!next_event(side, event_p, WAIT_MS)) {
		const struct thole_driver_shared *shared = side->driver.shared;

		printf("no end: received %llu, asked %llu, again %llu, miss %llu, duplicate %llu, malformed %llu, "
		       "forged %llu, "
		       "full %llu\n",
		       shared->received, shared->asked, shared->asked_again, shared->overlap_miss, shared->duplicate,
		       shared->malformed, shared->forged, shared->full);
		fflush(stdout);
		_exit(1);
	}
	CHECK(event_p->kind == THOLE_DRIVER_EVENT_FETCHED);
	memcpy(&answer, event_p->data, sizeof(answer));
	CHECK(answer.connection == side->connection);
	return answer;
}

/* How the fetch that was begun last has ended. */
static int fetched(struct side *side)
{
	struct thole_driver_event event;
	struct thole_driver_fetched answer = next_fetched(side, &event);

	CHECK(event.cookie == 100 + side->transfer && answer.transfer == side->transfer);
	return answer.status;
}

static void fetch_right(struct side *side, uint64_t offset, uint64_t length, uint64_t to, unsigned seed)
{
	memset(side->memory, 0, LENGTH);
	CHECK(fetch(side, WINDOW, offset, length, to) == 0 && fetched(side) == 0);
	check(side, to, seed, offset, length);
	for (size_t i = 0; i < 64; i++)
		CHECK((to <= i || side->memory[to - i - 1] == 0) &&
		      (to + length + i >= LENGTH || side->memory[to + length + i] == 0));
}

/* ---- A peer without the driver ----------------------------------------------------------------- */

/* A frame, as it goes; returns its bytes. */
static size_t plain_frame(struct side *side, struct packet *packet, const void *payload, uint32_t length,
			  uint8_t *frame)
{
	size_t head;

	packet->to = 10 + !side->number;
	packet->session = session_of(!side->number);
	packet->flags = tagged ? PACKET_TAGGED : 0;
	packet->length = length;
	head = codec_native.encode(packet, frame);
	if (tagged) {
		struct frame_out out = {.head = frame, .head_length = (uint32_t)head, .body_length = length};

		CHECK(guard_stamp(&side->guard, &codec_native, &out, 1));
	}
	if (length)
		memcpy(frame + head, payload, length);
	return head + length;
}

static void plain_send(struct side *side, unsigned channel, struct packet *packet, const void *payload, uint32_t length)
{
	struct sockaddr_in to = address_of(!side->number, channel);
	uint8_t frame[10000];
	size_t bytes = plain_frame(side, packet, payload, length, frame);

	sendto(side->sockets[channel], frame, bytes, 0, (struct sockaddr *)&to, sizeof(to));
}

/* The next packet of a socket, as its frames; its length, 0: none. */
static size_t plain_packet(struct side *side, unsigned channel, uint8_t *bytes, size_t room, size_t *segment_p,
			   int wait_ms)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {bytes, room};
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct pollfd poll_one = {.fd = side->sockets[channel], .events = POLLIN};
	ssize_t length;

	if (poll(&poll_one, 1, wait_ms) != 1)
		return 0;
	length = recvmsg(side->sockets[channel], &message, 0);
	CHECK(length >= 0);
	*segment_p = (size_t)length;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
		if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
			int size;

			memcpy(&size, CMSG_DATA(header), sizeof(size));
			*segment_p = (size_t)size;
		}
	return (size_t)length;
}

static bool plain_admit(struct side *side, struct packet *packet, uint8_t *frame, size_t length)
{
	struct iovec all = {frame, length};
	struct guard_frame judged;

	if (codec_native.decode(packet, frame, length) != 0 || packet->session != session_of(side->number))
		return false;
	judged = guard_frame(packet, &all, 1);
	if (tagged && guard_check(&side->guard, &codec_native, &judged, 1) != GUARD_FINE)
		return false;
	if (tagged)
		guard_seen(&side->guard, &judged, 1);
	return true;
}

enum { PULLS_MAX = 32 };

/* PULLs that have come; of those for one block the newest alone, as hosts do: else who is slow is asked for more than
 * it can ever answer. */
static unsigned plain_pulls(struct side *side, struct packet *pulls)
{
	unsigned count = 0, i;
	uint8_t bytes[200];
	size_t segment, length;

	while (count < PULLS_MAX &&
	       (length = plain_packet(side, CHANNEL_RECORDS, bytes, sizeof(bytes), &segment, count ? 0 : 20)) > 0) {
		struct packet pull;

		if (!plain_admit(side, &pull, bytes, length))
			continue;
		CHECK(pull.type == PACKET_PULL && pull.pull.window == WINDOW);
		for (i = 0; i < count; i++)
			if (pulls[i].pull.transfer == pull.pull.transfer && pulls[i].pull.offset == pull.pull.offset)
				break;
		pulls[i] = pull;
		count += i == count;
	}
	return count;
}

/* Answer a PULL, but for every `lossy`th frame. */
static void plain_answer(struct side *side, const struct packet_pull *pull, unsigned lossy, unsigned *count_p)
{
	struct packet data = {.type = PACKET_DATA};

	for (uint32_t at = 0, i = 0; at < pull->length; at += pull->frame, i++) {
		uint32_t left = pull->length - at;

		if ((pull->wanted && !(pull->wanted >> i & 1)) || ++*count_p % lossy == 0)
			continue;
		if (pull->offset + at >= side->served)
			break;
		data.data.transfer = pull->transfer;
		data.data.offset = pull->offset + at;
		plain_send(side, CHANNEL_BULK, &data, side->memory + data.data.offset,
			   left < pull->frame ? left : pull->frame);
	}
}

/* Answer PULLs until the other side says that it is done; every `lossy`th frame and PULL is lost. */
static void plain_serve(struct side *side, unsigned lossy)
{
	struct pollfd done = {.fd = side->other, .events = POLLIN};
	struct packet pulls[PULLS_MAX];
	unsigned count = 0;

	while (poll(&done, 1, 0) == 0) {
		unsigned some = plain_pulls(side, pulls);

		for (unsigned i = 0; i < some; i++)
			if (++count % lossy)
				plain_answer(side, &pulls[i].pull, lossy, &count);
	}
}

/* Fetch by hand: blocks of a few frames, each until it is whole. */
static void plain_fetch(struct side *side, uint64_t offset, uint64_t length, unsigned lossy)
{
	static uint8_t bytes[65536];
	unsigned count = 0;

	for (uint64_t at = 0; at < length; at += 32ull * side->frame) {
		uint64_t left = length - at, block = left < 32ull * side->frame ? left : 32ull * side->frame;
		uint64_t missing = block_mask((uint32_t)((block + side->frame - 1) / side->frame));
		size_t segment, received;

		side->transfer++;
		while (missing) {
			struct packet pull = {.type = PACKET_PULL,
					      .credit = 64,
					      .pull = {.window = WINDOW,
						       .transfer = side->transfer,
						       .offset = offset + at,
						       .wanted = missing,
						       .length = (uint32_t)block,
						       .frame = side->frame}};
			uint64_t coming = missing, bit;

			plain_send(side, CHANNEL_RECORDS, &pull, NULL, 0);
			while (coming &&
			       (received = plain_packet(side, CHANNEL_BULK, bytes, sizeof(bytes), &segment, 500)))
				for (size_t from = 0; from < received; from += segment) {
					size_t frame = received - from < segment ? received - from : segment;
					struct packet data;

					if (!plain_admit(side, &data, bytes + from, frame)) {
						printf("a frame of DATA is not right\n");
						fflush(stdout);
						_exit(1);
					}
					if (data.data.transfer != side->transfer)
						continue;
					bit = UINT64_C(1) << (data.data.offset - offset - at) / side->frame;
					coming &= ~bit;
					if (lossy && ++count % lossy == 0)
						continue;
					memcpy(side->memory + data.data.offset, data.payload, data.length);
					missing &= ~bit;
				}
		}
	}
}

/* The report that there is nobody at a port of the other side. */
static void report_of(struct side *side, unsigned channel)
{
	struct sockaddr_in wanted = address_of(!side->number, channel), name = {0};
	union {
		char bytes[256];
		struct cmsghdr align;
	} control;
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	struct pollfd error = {.fd = side->sockets[channel]};
	const struct cmsghdr *header;

	/* Hosts say so seldom: about once a second after the first few. */
	for (unsigned i = 0; i < WAIT_MS / SOON_MS && poll(&error, 1, SOON_MS) == 0; i++)
		plain_send(side, channel, &(struct packet){.type = PACKET_ACK}, NULL, 0);
	CHECK(error.revents & POLLERR);
	CHECK(recvmsg(side->sockets[channel], &message, MSG_ERRQUEUE) >= 0);
	header = CMSG_FIRSTHDR(&message);
	CHECK(header && header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR);
	CHECK(((const struct sock_extended_err *)CMSG_DATA(header))->ee_errno == ECONNREFUSED);
	CHECK(name.sin_port == wanted.sin_port && name.sin_addr.s_addr == wanted.sin_addr.s_addr);
	while (recvmsg(side->sockets[channel], &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
		;
}

static int open_kind(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

/* ---- Cases: side 0 exposes, side 1 fetches ------------------------------------------------------- */

/* Lengths and places at random, driver to driver. */
static void case_both(struct side *side)
{
	static const struct {
		uint64_t offset, length, to;
	} parts[] = {{0, 1, 0},        {5, 63, 4090},           {100, 600, 1}, {4095, 4098, 17},
		     {0, 65536, 4096}, {12345, 1000000, 54321}, {0, LENGTH, 0}};

	side_drive(side);
	if (side->number == 0) {
		fill(side, 3);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0 && expose(side, WINDOW, 0, LENGTH) == -EEXIST);
		say(side);
		hear(side);
		CHECK(side->driver.shared->sent_bytes >= LENGTH && end(side, THOLE_DRIVER_WINDOW_END, WINDOW) == 0);
		CHECK(end(side, THOLE_DRIVER_WINDOW_END, WINDOW) == -ENOENT);
	} else {
		hear(side);
		for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
			fetch_right(side, parts[i].offset, parts[i].length, parts[i].to, 3);
		CHECK(side->driver.shared->received_bytes >= LENGTH && side->driver.shared->forged == 0 &&
		      side->driver.shared->malformed == 0);
		CHECK(side->driver.shared->received > 4 * side->driver.shared->packets); /* which come whole */
		say(side);
	}
}

/* How many times a processor was handed packets that came on another one. */
static uint64_t steered(void)
{
	FILE *file = fopen("/proc/net/softnet_stat", "r");
	uint64_t sum = 0;
	unsigned times;

	CHECK(file);
	while (fscanf(file, "%*x %*x %*x %*x %*x %*x %*x %*x %*x %x%*[^\n]", &times) == 1)
		sum += times;
	fclose(file);
	return sum;
}

/* Packets go to another processor than they come on (RPS): to each side one of its own. */
static void case_steered(struct side *side)
{
	uint64_t before = steered();
	char command[200];

	CHECK(unshare(CLONE_NEWNS) == 0);
	snprintf(command, sizeof(command),
		 "mount -t sysfs sys /sys && echo %u > /sys/class/net/ve%u/queues/rx-0/rps_cpus", 1U << side->number,
		 side->number);
	run(command);
	case_both(side);
	CHECK(steered() > before);
}

/* Of a connection that had many frames of which the driver saw none, before it is handed over and afterwards; and whose
 * keys change amid the transfer. */
static void case_epochs(struct side *side)
{
	side_drive(side);
	for (uint64_t epoch = 3; epoch <= 10; epoch += 7) {
		side->way->counter = ((epoch + 1) << GUARD_EPOCH_BITS) - 1000;
		side->way->epoch = epoch;
		if (side->number == 0) {
			fill(side, 6);
			CHECK(expose(side, epoch, 0, LENGTH) == 0);
			say(side);
			hear(side);
			CHECK(!tagged || side->way->counter >> GUARD_EPOCH_BITS == epoch + 1);
		} else {
			hear(side);
			memset(side->memory, 0, LENGTH);
			CHECK(fetch(side, epoch, 0, LENGTH, 0) == 0 && fetched(side) == 0);
			check(side, 0, 6, 0, LENGTH);
			CHECK(side->driver.shared->forged == 0);
			say(side);
		}
	}
}

/* A peer in user space that loses frames. */
static void case_plain_serve(struct side *side)
{
	if (side->number == 0) {
		fill(side, 9);
		say(side);
		plain_serve(side, 11);
	} else {
		side_drive(side);
		hear(side);
		fetch_right(side, 0, LENGTH / 2, 777, 9);
		fetch_right(side, 4097, 300000, 0, 9);
		CHECK(side->driver.shared->asked_again > 0);
		say(side);
	}
}

static void case_plain_fetch(struct side *side)
{
	if (side->number == 0) {
		side_drive(side);
		fill(side, 5);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		hear(side);
		/* PULLs are the sockets', too: they acknowledge. */
		CHECK(recv(side->sockets[CHANNEL_RECORDS], side->memory, 100, MSG_DONTWAIT) > 0);
	} else {
		hear(side);
		plain_fetch(side, 3, LENGTH / 2, 9);
		check(side, 3, 5, 3, LENGTH / 2);
		say(side);
	}
}

/* PULLs wait while their window ends, and less is exposed by its name: they are of what has ended. */
static void case_renamed(struct side *side)
{
	struct packet pull = {.type = PACKET_PULL,
			      .pull = {.window = WINDOW, .length = LENGTH, .frame = side->frame}};
	uint64_t sent;

	if (side->number == 0) {
		side_drive(side);
		fill(side, 5);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		for (unsigned i = 0; i < WAIT_MS && side->driver.shared->sent_bytes == 0; i++)
			usleep(1000);
		CHECK(end(side, THOLE_DRIVER_WINDOW_END, WINDOW) == 0 && expose(side, WINDOW, 0, PAGE) == 0);
		sent = side->driver.shared->sent_bytes;
		usleep(SOON_MS * 1000);
		CHECK(sent > 0 && side->driver.shared->sent_bytes == sent);
		say(side);
		hear(side);
	} else {
		hear(side);
		for (side->transfer = 1; side->transfer <= 32; side->transfer++) {
			pull.pull.transfer = side->transfer;
			plain_send(side, CHANNEL_RECORDS, &pull, NULL, 0);
		}
		hear(side);
		plain_fetch(side, 0, PAGE, 0);
		check(side, 0, 5, 0, PAGE);
		say(side);
	}
}

/* Switch an interface's offload. */
static void offload(struct side *side, const char *interface, uint32_t command, uint32_t value)
{
	struct {
		uint32_t command, value;
	} wanted = {command, value};
	struct ifreq request = {.ifr_data = (void *)&wanted};

	strcpy(request.ifr_name, interface);
	CHECK(ioctl(side->sockets[0], SIOCETHTOOL, &request) == 0);
}

/* Memory changes while frames of it are under way. Whoever sums up a packet by software wants it to stay as it is, and
 * has to be told that others may write there: then it is copied first. */
static void case_shared(struct side *side)
{
	struct packet pull = {.type = PACKET_PULL,
			      .pull = {.window = WINDOW, .transfer = 1, .length = side->frame, .frame = side->frame}};
	struct pollfd come = {.fd = side->sockets[CHANNEL_BULK], .events = POLLIN};
	uint8_t bytes[10000];
	struct packet data;
	size_t segment, length;

	if (side->number == 0) {
		offload(side, "ve0", 0x17 /* ETHTOOL_STXCSUM */, 0);
		side_drive(side);
		fill(side, 5);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		hear(side);
		fill(side, 6);
		say(side);
		hear(side);
		return;
	}
	hear(side);
	plain_send(side, CHANNEL_RECORDS, &pull, NULL, 0);
	CHECK(poll(&come, 1, WAIT_MS) == 1);
	say(side);
	hear(side);
	length = plain_packet(side, CHANNEL_BULK, bytes, sizeof(bytes), &segment, SOON_MS);
	CHECK(length > 0 && plain_admit(side, &data, bytes, length) && data.length == side->frame);
	memcpy(side->memory, data.payload, data.length);
	check(side, 0, 5, 0, data.length);
	say(side);
}

/* Cut into frames before they leave, one by one or put together again by the receiver. */
static void case_cut(struct side *side)
{
	if (side->number == 0)
		run("ip link set ve0 gso_max_segs 1");
	for (unsigned i = 0; i < 2; i++) {
		if (side->number == 1)
			offload(side, "ve1", 0x2c /* ETHTOOL_SGRO */, i);
		if (i == 0)
			side_drive(side);
		if (side->number == 0) {
			fill(side, 40 + i);
			if (i == 0)
				CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
			say(side);
			hear(side);
		} else {
			hear(side);
			fetch_right(side, 1, LENGTH / 2, 5, 40 + i);
			say(side);
		}
	}
}

/* The interface is down for a while. */
static void case_down(struct side *side)
{
	side_drive(side);
	if (side->number == 0) {
		fill(side, 8);
		run("ip link set ve0 down");
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		usleep(200000);
		run("ip link set ve0 up");
		hear(side);
	} else {
		hear(side);
		fetch_right(side, 0, LENGTH, 0, 8);
		say(side);
	}
}

/* Memory goes away where data is to come: while nothing comes yet, since the other side shows it later. */
static void case_gone(struct side *side)
{
	side_drive(side);
	if (side->number == 0) {
		fill(side, 2);
		hear(side);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		hear(side);
		return;
	}
	CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0 && !next_event(side, &(struct thole_driver_event){0}, SOON_MS));
	CHECK(munmap(side->memory + LENGTH / 2, PAGE) == 0);
	say(side);
	CHECK(fetched(side) == -EFAULT && pages_pinned() < LENGTH / PAGE);
	CHECK(end(side, THOLE_DRIVER_FETCH_END, side->transfer) == -ENOENT);
	/* Before it is gone, it is the other side's; and with other memory there, all is well. */
	CHECK(mmap(side->memory + LENGTH / 2, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0) != MAP_FAILED);
	fetch_right(side, 0, LENGTH, 0, 2);
	CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0 && forget(&side->driver, side->region) == 0);
	CHECK(fetched(side) == 0 || side->driver.shared->locked == 0);
	CHECK(pages_pinned() == 0);
	say(side);
}

/* Pages are taken and given while data comes and goes. */
static void case_vanish(struct side *side)
{
	side_drive(side);
	if (side->number == 0) {
		fill(side, 6);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		for (struct pollfd done = {.fd = side->other, .events = POLLIN}; poll(&done, 1, 60) == 0;) {
			pid_t child = fork();

			if (child == 0)
				_exit(0);
			CHECK(child > 0 && waitpid(child, NULL, 0) == child);
			/* pins go, and the data stays */
			CHECK(mprotect(side->memory, LENGTH, PROT_READ | PROT_WRITE | PROT_EXEC) == 0 &&
			      mprotect(side->memory, LENGTH, PROT_READ | PROT_WRITE) == 0);
		}
		hear(side);
	} else {
		hear(side);
		for (unsigned i = 0; i < 4; i++) {
			struct thole_driver_event event;

			CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0);
			for (;;) {
				CHECK(mprotect(side->memory, LENGTH, PROT_READ | PROT_WRITE | PROT_EXEC) == 0 &&
				      mprotect(side->memory, LENGTH, PROT_READ | PROT_WRITE) == 0);
				if (next_event(side, &event, 40))
					break;
			}
			CHECK(((struct thole_driver_fetched *)event.data)->status == 0);
			check(side, 0, 6, 0, LENGTH);
			memset(side->memory, 0, LENGTH);
		}
		CHECK(side->driver.shared->invalidations > 0);
		say(side);
	}
}

/* The owner's memory goes: it is told, PULLs are the program's, and the other side gives up. */
static void case_lost(struct side *side)
{
	struct thole_driver_event event;

	side_drive(side);
	if (side->number == 0) {
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0 && munmap(side->memory, PAGE) == 0);
		say(side);
		CHECK(next_event(side, &event, WAIT_MS) && event.kind == THOLE_DRIVER_EVENT_LOST &&
		      event.cookie == WINDOW);
		CHECK(end(side, THOLE_DRIVER_WINDOW_END, WINDOW) == -ENOENT && side->driver.shared->sent == 0);
		say(side);
		hear(side);
	} else {
		memset(side->memory, 0x55, LENGTH);
		hear(side);
		CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0);
		hear(side);
		CHECK(end(side, THOLE_DRIVER_FETCH_END, side->transfer) == 0);
		CHECK(!next_event(side, &event, SOON_MS) && side->memory[LENGTH - 1] == 0x55 &&
		      side->memory[0] == 0x55);
		say(side);
	}
}

/* Either side is killed in the middle; what is left of the other ends as ever. */
static void case_killed(struct side *side)
{
	for (unsigned victim = 0; victim < 2; victim++) {
		int ready[2];
		char byte;
		pid_t child;

		for (unsigned i = 0; i < CHANNELS && victim == 0; i++)
			close(side->sockets[i]);
		CHECK(pipe(ready) == 0);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) { /* which has the only sockets */
			struct side own = *side;

			side_open(&own);
			side_drive(&own);
			fill(&own, 1);
			CHECK(expose(&own, WINDOW, 0, LENGTH) == 0 && write(ready[1], "", 1) == 1);
			for (;;)
				if (fetch(&own, WINDOW, 0, LENGTH, 0) == 0 && side->number != victim)
					(void)next_event(&own, &(struct thole_driver_event){0}, 50);
		}
		CHECK(read(ready[0], &byte, 1) == 1);
		say(side);
		hear(side);
		usleep(side->number == victim ? 100000 : 400000);
		CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
		say(side);
		hear(side);
	}
}

/* What is not the driver's, or not any more, comes to the sockets. */
static void case_sockets(struct side *side)
{
	static uint8_t bytes[65536];
	struct packet data = {.type = PACKET_DATA, .data = {.transfer = 12345}};
	struct thole_driver_socket socket = {.fd = side->sockets[0]};
	size_t segment;

	if (side->number == 0) {
		hear(side);
		for (unsigned i = 0; i < 3; i++) {
			plain_send(side, CHANNEL_BULK, &data, side->memory, 500);
			plain_send(side, CHANNEL_RECORDS, &(struct packet){.type = PACKET_ACK}, NULL, 0);
			say(side);
			hear(side);
		}
		return;
	}
	side_drive(side);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == EBUSY);
	CHECK(expose(side, WINDOW, 0, LENGTH) == 0 && fetch(side, WINDOW, 0, 100, 0) == 0);
	for (unsigned i = 0; i < 3; i++) {
		say(side);
		hear(side);
		CHECK(plain_packet(side, CHANNEL_BULK, bytes, sizeof(bytes), &segment, WAIT_MS) ==
		      500u + 48u - !tagged * 16u);
		CHECK(plain_packet(side, CHANNEL_RECORDS, bytes, sizeof(bytes), &segment, WAIT_MS) ==
		      56u - !tagged * 16u);
		if (i == 0) {
			for (unsigned j = 0; j < CHANNELS; j++)
				CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET_BACK, side->sockets[j]) == 0);
			CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET_BACK, side->sockets[0]) == -1 &&
			      errno == ENOENT);
			take_sockets(side);
		} else {
			close(side->driver.fd);
		}
	}
	say(side);
}

/* A filter of a socket's own, which leaves so many bytes of each packet. */
static void filter(int fd, unsigned bytes)
{
	struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, bytes);
	struct sock_fprog program = {.len = 1, .filter = &code};

	CHECK(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0);
}

static void filter_no_more(int fd)
{
	int unused = 0;

	CHECK(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)) == 0);
}

/* So that nobody waits longer for an answer, since there was none so far. */
static void connect_anew(struct side *side)
{
	struct thole_driver_connection wanted = connection_to(side);

	wanted.counter = side->way->counter;
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION_END, side->connection) == 0);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == 0 && wanted.id == side->connection);
}

/* Until it has asked again so many times: what answers the first of these is here. */
static void wait_asked(const struct side *side, unsigned times)
{
	uint64_t before = side->driver.shared->asked_again;

	for (unsigned i = 0; i < WAIT_MS && side->driver.shared->asked_again < before + times; i++)
		usleep(1000);
	CHECK(side->driver.shared->asked_again >= before + times);
}

/* What filters keep from a socket has no effect: neither PULLs nor DATA; nor has what they cut off. */
static void case_filtered(struct side *side)
{
	static const unsigned cuts[] = {0, 1, 8, 20};
	struct thole_driver_event event;

	side_drive(side);
	if (side->number == 0) {
		fill(side, 3);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		filter(side->sockets[CHANNEL_RECORDS], 0);
		say(side);
		hear(side);
		CHECK(side->driver.shared->sent == 0);
		filter_no_more(side->sockets[CHANNEL_RECORDS]);
		say(side);
		for (unsigned i = 0; i < WAIT_MS && side->driver.shared->sent == 0; i++)
			usleep(1000);
		CHECK(side->driver.shared->sent != 0);
		say(side);
		hear(side);
	} else {
		filter(side->sockets[CHANNEL_BULK], 0);
		memset(side->memory, 0, LENGTH);
		hear(side);
		CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0);
		CHECK(!next_event(side, &event, SOON_MS) && side->driver.shared->asked != 0);
		say(side);
		hear(side);
		hear(side); /* it is pinned there: from now on all is answered at once */
		for (unsigned i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
			filter(side->sockets[CHANNEL_BULK], cuts[i]);
			connect_anew(side);
			CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0);
			wait_asked(side, 4);
			CHECK(!next_event(side, &event, 0) && side->driver.shared->received == 0);
		}
		filter_no_more(side->sockets[CHANNEL_BULK]);
		CHECK(fetched(side) == 0);
		check(side, 0, 3, 0, LENGTH);
		say(side);
	}
}

/* Nobody has the port any more: the program hears of it, whether it or the driver sends. */
static void case_icmp(struct side *side)
{
	int on = 1;

	if (side->number == 1) {
		for (unsigned i = 0; i < CHANNELS; i++)
			close(side->sockets[i]);
		say(side);
		hear(side);
		return;
	}
	hear(side);
	side_drive(side);
	for (unsigned i = 0; i < CHANNELS; i++)
		CHECK(setsockopt(side->sockets[i], IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) == 0);
	CHECK(fetch(side, WINDOW, 0, 100000, 0) == 0); /* its PULL */
	report_of(side, CHANNEL_RECORDS);
	CHECK(end(side, THOLE_DRIVER_FETCH_END, side->transfer) == 0);
	report_of(side, CHANNEL_BULK);
	for (unsigned i = 0; i < CHANNELS; i++)
		CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET_BACK, side->sockets[i]) == 0);
	report_of(side, CHANNEL_BULK);
	say(side);
}

enum { MIXED_FRAMES = 12, MIXED_WRONG = 2 };

/* A packet that is handed over whole, of frames that are right but for one amid them, one that is there twice, two in
 * the wrong order, and some that lack. */
static void mixed_packet(struct side *side, uint64_t transfer)
{
	static const unsigned numbers[] = {0, 1, MIXED_WRONG, 3, 4, 4, 6, 5, 7, MIXED_FRAMES - 1};
	struct sockaddr_in to = address_of(1, CHANNEL_BULK);
	static uint8_t bytes[65536];
	size_t length = 0, each = 0;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct packet data = {.type = PACKET_DATA,
				      .data = {.transfer = transfer, .offset = (uint64_t)numbers[i] * side->frame}};

		each = plain_frame(side, &data, side->memory + data.data.offset, side->frame, bytes + length);
		if (numbers[i] == MIXED_WRONG)
			bytes[length + (tagged ? PACKET_FRONT + PACKET_COUNTER : 8)] ^= 1; /* its tag, its session */
		length += each;
	}
	CHECK(setsockopt(side->sockets[CHANNEL_BULK], IPPROTO_UDP, UDP_SEGMENT, &(int){(int)each}, sizeof(int)) == 0);
	CHECK(sendto(side->sockets[CHANNEL_BULK], bytes, length, 0, (struct sockaddr *)&to, sizeof(to)) ==
	      (ssize_t)length);
	CHECK(setsockopt(side->sockets[CHANNEL_BULK], IPPROTO_UDP, UDP_SEGMENT, &(int){0}, sizeof(int)) == 0);
}

/* What was right of it is there, and just the rest is asked for. */
static void case_mixed(struct side *side)
{
	const struct thole_driver_shared *shared;
	struct thole_driver_pin all;
	struct packet pull = {0};
	uint8_t bytes[200];
	size_t segment;

	if (MIXED_FRAMES * (side->frame + 64) > BATCH_MAX) /* no packet has so many */
		return;
	if (side->number == 1) {
		side_drive(side);
		CHECK(pin(&side->driver, side->region, LENGTH, 0, &all) == 0); /* else it comes too early */
		hear(side);
		fetch_right(side, 0, (uint64_t)MIXED_FRAMES * side->frame, 4000, 9);
		shared = side->driver.shared;
		CHECK(shared->received == MIXED_FRAMES && shared->duplicate == 1 && shared->forged == (tagged ? 1 : 0));
		say(side);
		return;
	}
	fill(side, 9);
	say(side);
	while (pull.pull.wanted == 0) { /* at first all, perhaps more than once */
		size_t length = plain_packet(side, CHANNEL_RECORDS, bytes, sizeof(bytes), &segment, WAIT_MS);

		CHECK(length && plain_admit(side, &pull, bytes, length) && pull.type == PACKET_PULL);
		if (side->transfer++ == 0)
			mixed_packet(side, pull.pull.transfer);
	}
	CHECK(pull.pull.wanted == (1u << MIXED_WRONG | 7u << 8));
	plain_serve(side, UINT32_MAX);
}

/* What nobody sends who is right, to memory and sockets that it does not change. */
static void case_hostile(struct side *side)
{
	if (side->number == 1) {
		side_drive(side);
		memset(side->memory, 0x33, LENGTH);
		CHECK(fetch(side, WINDOW, 0, 100000, 0) == 0 && expose(side, WINDOW, 0, 10000) == 0);
		say(side);
		hear(side);
		for (size_t i = 0; i < LENGTH; i++)
			CHECK(side->memory[i] == 0x33);
		CHECK(side->driver.shared->received == 0 && side->driver.shared->sent == 0);
		CHECK(side->driver.shared->malformed > 0 && (!tagged || side->driver.shared->forged > 0));
		CHECK(!next_event(side, &(struct thole_driver_event){0}, 0));
		CHECK(end(side, THOLE_DRIVER_FETCH_END, side->transfer) == 0);
		say(side);
		hear(side);
		fetch_right(side, 0, LENGTH, 0, 1);
		say(side);
		return;
	}
	hear(side);
	fill(side, 1);
	for (unsigned i = 0; i < 400; i++) {
		struct packet data = {.type = PACKET_DATA, .data = {.transfer = 1, .offset = (uint64_t)i * 977}};
		struct packet pull = {.type = PACKET_PULL,
				      .pull = {.window = WINDOW, .transfer = i, .length = 10000, .frame = side->frame}};
		struct guard saved = side->guard;
		uint8_t junk[300];

		/* lengths and places that were not asked for */
		if (data.data.offset % side->frame)
			plain_send(side, CHANNEL_BULK, &data, side->memory, side->frame);
		data.data.offset = 100000 + i;
		plain_send(side, CHANNEL_BULK, &data, side->memory, i);
		/* windows that are not there, or end before; frames of no lawful length */
		pull.pull.window = i % 4 == 0 ? WINDOW + 1 : WINDOW;
		pull.pull.offset = i % 4 == 1 ? 1 : 0;
		pull.pull.length = i % 4 == 2 ? 10001 : 10000;
		pull.pull.frame = i % 4 == 3 ? i % 100 + 1 : side->frame;
		plain_send(side, CHANNEL_RECORDS, &pull, NULL, 0);
		for (size_t j = 0; j < sizeof(junk); j++)
			junk[j] = (uint8_t)rand();
		junk[0] = i & 1 ? PACKET_DATA : PACKET_PULL;
		junk[1] = 2;
		for (unsigned channel = 0; channel < CHANNELS; channel++) {
			struct sockaddr_in to = address_of(1, channel);

			sendto(side->sockets[channel], junk, 1 + (unsigned)rand() % sizeof(junk), 0,
			       (struct sockaddr *)&to, sizeof(to));
		}
		if (!tagged)
			continue;
		/* right but for their tags: made with another key; and counters that were there */
		side->guard.out.secret[0] ^= 1;
		side->guard.out.epoch = UINT64_MAX;
		data.data.offset = 0;
		plain_send(side, CHANNEL_BULK, &data, side->memory, side->frame);
		pull.pull =
			(struct packet_pull){.window = WINDOW, .transfer = i, .length = 10000, .frame = side->frame};
		plain_send(side, CHANNEL_RECORDS, &pull, NULL, 0);
		saved.counter = side->guard.counter;
		side->guard = saved;
	}
	usleep(100000);
	say(side);
	hear(side);
	side_drive(side);
	CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
	say(side);
	hear(side);
}

enum { SHORT_SEGMENTS = 256, SHORT_EACH = 1024 };

/* A vector of so short segments that a frame has more pieces than a packet may have which the kernel cuts. */
static void scattered_expose(struct side *side, uint64_t name, uint32_t segment)
{
	struct thole_driver_segment segments[SHORT_SEGMENTS];

	for (unsigned i = 0; i < SHORT_SEGMENTS; i++)
		segments[i] = (struct thole_driver_segment){
			(uintptr_t)side->memory + (SHORT_SEGMENTS - 1 - i) * SHORT_EACH, segment};
	side->region = declare_vector(&side->driver, segments, SHORT_SEGMENTS, 0);
	CHECK(side->region && expose(side, name, 0, (uint64_t)SHORT_SEGMENTS * segment) == 0);
}

static void case_scattered(struct side *side)
{
	/* many pieces; 17 and more, with the head one too many; 16 */
	const uint32_t lengths[] = {64, side->frame / 17 + 1, side->frame / 16};

	side_drive(side);
	if (side->number == 0) {
		run("ip link set ve0 gso_max_segs 1");
		fill(side, 4);
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			scattered_expose(side, i, lengths[i]);
		say(side);
		hear(side);
		return;
	}
	hear(side);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(side->memory, 0, LENGTH);
		CHECK(fetch(side, i, 0, (uint64_t)SHORT_SEGMENTS * lengths[i], 0) == 0 && fetched(side) == 0);
		for (unsigned j = 0; j < SHORT_SEGMENTS; j++)
			check(side, (size_t)j * lengths[i], 4, (SHORT_SEGMENTS - 1 - j) * SHORT_EACH, lengths[i]);
	}
	say(side);
}

enum { MARK = 77 };

/* A packet socket that gets the UDP that leaves this network without the mark. */
static int unmarked_open(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 5),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)SKF_AD_OFF + SKF_AD_MARK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 100),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = open_kind(AF_PACKET, SOCK_DGRAM);

	CHECK(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0);
	CHECK(bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	return fd;
}

/* What the driver sends by a socket has the mark that the program gave to that: filters and queues tell by it. */
static void case_marked(struct side *side)
{
	int unmarked = unmarked_open(), mark = MARK;
	char bytes[100];

	plain_send(side, CHANNEL_RECORDS, &(struct packet){.type = PACKET_ACK}, NULL, 0);
	CHECK(recv(unmarked, bytes, sizeof(bytes), 0) > 0);
	for (unsigned i = 0; i < CHANNELS; i++)
		CHECK(setsockopt(side->sockets[i], SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == 0);
	side_drive(side);
	if (side->number == 0) {
		fill(side, 3);
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		hear(side);
	} else {
		hear(side);
		fetch_right(side, 0, LENGTH, 0, 3);
		say(side);
	}
	CHECK(side->driver.shared->sent + side->driver.shared->asked > 0);
	CHECK(recv(unmarked, bytes, sizeof(bytes), MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

/* ---- Who waits does not keep others waiting ------------------------------------------------------ */

enum { HELD = 300, HELD_HOST = 77 }; /* more than the kernel has workers of a kind for; a host that nobody is */

/* Packets to a host that is not there wait to hear who it is. */
static void held_hold(void)
{
	run("echo 3600000 >/proc/sys/net/ipv4/neigh/ve0/retrans_time_ms");
	run("echo 1000000000 >/proc/sys/net/ipv4/neigh/ve0/unres_qlen_bytes");
}

static void held_pull(const struct side *held, uint32_t wanted)
{
	struct packet pull = {.type = PACKET_PULL, .to = 10, .session = session_of(0),
			      .pull = {.window = WINDOW, .length = wanted, .frame = held->frame}};
	struct sockaddr_in to;
	socklen_t length = sizeof(to);
	uint8_t frame[PACKET_HEAD_MAX];
	size_t bytes = codec_native.encode(&pull, frame);

	CHECK(getsockname(held->sockets[CHANNEL_RECORDS], (struct sockaddr *)&to, &length) == 0);
	CHECK(sendto(held->sockets[CHANNEL_RECORDS], frame, bytes, 0, (struct sockaddr *)&to, length) ==
	      (ssize_t)bytes);
}

/* A peer at that host; once a packet to it waits, there is no room for the next one. */
static void held_open(struct side *held)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = address_of(0, 0).sin_addr};
	struct thole_driver_connection wanted = connection_to(held);
	int least = 1;

	held->driver = driver_open();
	for (unsigned i = 0; i < CHANNELS; i++) {
		held->sockets[i] = open_kind(AF_INET, SOCK_DGRAM);
		CHECK(setsockopt(held->sockets[i], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) == 0);
		CHECK(bind(held->sockets[i], (struct sockaddr *)&any, sizeof(any)) == 0);
	}
	take_sockets(held);
	wanted.address[15] = HELD_HOST;
	wanted.mode = 0;
	CHECK(ioctl(held->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == 0);
	held->connection = wanted.id;
}

static void held_wait_sent(const struct side *held)
{
	for (unsigned i = 0; i < WAIT_MS && held->driver.shared->sent == 0; i++)
		usleep(1000);
	CHECK(held->driver.shared->sent > 0);
}

/* Of frames of many pieces each has a page of its own, as their heads together have: what is counted of the socket's
 * buffer is what they take. */
static void case_counted(struct side *side)
{
	enum { FRAMES = 10 };
	struct side held = *side;
	int counted;

	if (side->number == 1) {
		hear(side);
		return;
	}
	held_hold();
	held_open(&held);
	scattered_expose(&held, WINDOW, side->frame / 17 + 1);
	held_pull(&held, FRAMES * side->frame);
	held_wait_sent(&held);
	CHECK(ioctl(held.sockets[CHANNEL_BULK], SIOCOUTQ, &counted) == 0);
	CHECK(held.driver.shared->sent == FRAMES && counted >= (FRAMES + 1) * getpagesize());
	say(side);
}

/* In a process of its own. */
static void held_all(const struct side *side)
{
	static struct side held[HELD];
	struct rlimit files = {4 * HELD + 100, 4 * HELD + 100};

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	for (unsigned i = 0; i < HELD; i++) {
		held[i] = *side;
		held_open(held + i);
		held[i].region = declare(&held[i].driver, held[i].memory, LENGTH, 0);
		CHECK(held[i].region && expose(held + i, WINDOW, 0, LENGTH) == 0);
		held_pull(held + i, LENGTH);
	}
	for (unsigned i = 0; i < HELD; i++)
		held_wait_sent(held + i);
	say(side);
	pause();
}

/* Windows of many descriptors whose packets do not leave: others are served, and fetch. */
static void case_held(struct side *side)
{
	int ends[2];
	char byte;
	pid_t child;

	side_drive(side);
	fill(side, 3);
	if (side->number == 1) {
		hear(side);
		fetch_right(side, 0, LENGTH, 0, 3);
		say(side);
		return;
	}
	held_hold();
	run("echo 1 >/sys/kernel/rcu_expedited"); /* many sockets are given back */
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		side->other = ends[1];
		held_all(side);
	}
	close(ends[1]);
	CHECK(read(ends[0], &byte, 1) == 1);
	CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
	say(side);
	hear(side);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	run("echo 0 >/sys/kernel/rcu_expedited");
}

static int stuck_socket;
static struct driver *stuck_driver;
static pid_t stuck_caller;

static void *stuck_send(void *memory)
{
	struct sockaddr_in to = address_of(1, CHANNEL_BULK);

	CHECK(sendto(stuck_socket, memory, PAGE, MSG_MORE, (struct sockaddr *)&to, sizeof(to)) == -1 &&
	      errno == EFAULT);
	return NULL;
}

static void *stuck_call(void *unused)
{
	struct thole_driver_socket socket = {.fd = stuck_socket, .channel = CHANNEL_BULK};

	(void)unused;
	__atomic_store_n(&stuck_caller, gettid(), __ATOMIC_RELEASE);
	CHECK(ioctl(stuck_driver->fd, THOLE_DRIVER_SOCKET, &socket) == 0);
	return NULL;
}

/* Until that call waits. */
static void stuck_wait_call(void)
{
	pid_t thread;

	while (!(thread = __atomic_load_n(&stuck_caller, __ATOMIC_ACQUIRE)))
		usleep(1000);
	stuck_asleep(getpid(), thread);
}

/* A call of a descriptor waits for a socket's lock, whose owner sends what never comes. A worker that has lost a window
 * of that descriptor does not wait for it. */
static void case_stuck(struct side *side)
{
	struct thole_driver_event event;
	pthread_t sender, caller;
	bool told;

	if (side->number == 1) {
		side_drive(side);
		hear(side);
		CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0);
		hear(side);
		return;
	}
	side_drive(side);
	CHECK(expose(side, WINDOW, 0, LENGTH) == 0 && munmap(side->memory, PAGE) == 0);
	stuck_driver = &side->driver;
	stuck_socket = open_kind(AF_INET, SOCK_DGRAM);
	CHECK(bind(stuck_socket, (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET},
		   sizeof(struct sockaddr_in)) == 0);
	CHECK(pthread_create(&sender, NULL, stuck_send, stuck_map()) == 0);
	stuck_wait();
	CHECK(pthread_create(&caller, NULL, stuck_call, NULL) == 0);
	stuck_wait_call();
	say(side);
	told = next_event(side, &event, WAIT_MS);
	stuck_refuse();
	CHECK(pthread_join(sender, NULL) == 0 && pthread_join(caller, NULL) == 0);
	CHECK(told && event.kind == THOLE_DRIVER_EVENT_LOST && event.cookie == WINDOW);
	say(side);
}

/* In a process of its own: a message that nobody can receive any more is all that has this descriptor. */
static pid_t collected_leave(int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS}};
	struct iovec byte = {"", 1};
	struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	pid_t child = fork();
	int ends[2];

	CHECK(child >= 0);
	if (child > 0) {
		close(fd);
		return child;
	}
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	memcpy(CMSG_DATA(&control.head), (int[]){fd, ends[0]}, 2 * sizeof(int));
	CHECK(sendmsg(ends[1], &message, 0) == 1);
	_exit(0);
}

/* A descriptor ends that nobody closes, while its socket is locked: what ends after it in that way does not wait. */
static void case_collected(struct side *side)
{
	struct thole_driver_socket socket = {.channel = CHANNEL_BULK};
	struct pollfd end = {.events = POLLIN};
	int tries = 0, ends[2], fd;
	pid_t first, second;
	pthread_t sender;

	side_drive(side);
	if (side->number == 1)
		return;
	socket.fd = stuck_socket = open_kind(AF_INET, SOCK_DGRAM);
	CHECK(bind(stuck_socket, (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET},
		   sizeof(struct sockaddr_in)) == 0);
	fd = open("/dev/thole", O_RDWR);
	CHECK(fd >= 0 && ioctl(fd, THOLE_DRIVER_SOCKET, &socket) == 0 && pipe(ends) == 0);
	CHECK(pthread_create(&sender, NULL, stuck_send, stuck_map()) == 0);
	stuck_wait();
	first = collected_leave(fd);
	usleep(500000); /* it is to be the first one */
	second = collected_leave(ends[1]);
	end.fd = ends[0];
	end.revents = 0;
	CHECK(poll(&end, 1, WAIT_MS) == 1);
	stuck_refuse();
	CHECK(pthread_join(sender, NULL) == 0 && waitpid(first, NULL, 0) == first &&
	      waitpid(second, NULL, 0) == second);
	fd = open("/dev/thole", O_RDWR);
	while (ioctl(fd, THOLE_DRIVER_SOCKET, &socket) != 0) /* until the former one has let it go */
		CHECK(errno == EBUSY && tries++ < 1000 && usleep(10000) == 0);
	close(fd);
}

enum {
	OTHER = 8, /* names of further windows */
	THERE = 9,
	LOCKED_FETCHES = 600, /* more than the kernel has workers of a kind for */
	LOCKED_BYTES = 8, /* of each of these */
};

#define LOCKED (16 * PAGE) /* bytes of windows */

/* A second connection, to windows in a second region: the first half. */
static void locked_drive(struct side *side, struct side *more)
{
	struct thole_driver_connection wanted = connection_to(side);

	side_drive(side);
	*more = *side;
	wanted.index += 10;
	wanted.peer_index += 10;
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == 0);
	more->connection = wanted.id;
	more->region = declare(&side->driver, side->memory, HALF, THOLE_DRIVER_WRITE);
	CHECK(more->region != 0);
}

/* In a process of its own, of whose memory nobody gets the lock: one window is pinned before, another one is not, nor
 * is where its fetches go. Some of these are ended, and the others over when the lock is free. */
static void locked_all(struct side *side, struct stuck_lock *lock)
{
	struct thole_driver_pin pinned;
	struct side more;

	locked_drive(side, &more);
	fill(side, 3);
	CHECK(pin(&more.driver, more.region, HALF, 0, &pinned) == 0);
	CHECK(expose(side, WINDOW, 0, LOCKED) == 0 && expose(&more, THERE, 0, LOCKED) == 0);
	stuck_lock_take(lock);
	for (uint64_t i = 0; i < LOCKED_FETCHES; i++)
		CHECK(fetch(side, OTHER, i * LOCKED_BYTES, LOCKED_BYTES, HALF + i * LOCKED_BYTES) == 0);
	for (uint64_t i = 1; i <= LOCKED_FETCHES; i += 2)
		CHECK(end(side, THOLE_DRIVER_FETCH_END, i) == 0);
	stuck_say(lock->other);
	stuck_hear(lock->other);
	CHECK(side->driver.shared->locked == HALF / PAGE); /* it was held all the time */
	stuck_say(lock->other);
	stuck_lock_over(lock);
	for (uint64_t i = 0; i < LOCKED_FETCHES / 2; i++) {
		struct thole_driver_event event;
		struct thole_driver_fetched answer = next_fetched(side, &event);

		CHECK(answer.status == 0 && answer.transfer % 2 == 0);
	}
	for (uint64_t i = 1; i < LOCKED_FETCHES; i += 2)
		check(side, HALF + i * LOCKED_BYTES, 5, i * LOCKED_BYTES, LOCKED_BYTES);
	stuck_say(lock->other);
	stuck_hear(lock->other);
	_exit(0);
}

static void locked_fetch(struct side *side)
{
	struct side more;

	locked_drive(side, &more);
	for (size_t i = 0; i < HALF; i++)
		side->memory[HALF + i] = pattern(5, i);
	CHECK(expose(side, OTHER, HALF, HALF) == 0);
	say(side);
	hear(side);
	CHECK(fetch(side, WINDOW, 0, LOCKED, 0) == 0);
	more.transfer = side->transfer;
	CHECK(fetch(&more, THERE, 0, LOCKED, LOCKED) == 0 && fetched(&more) == 0);
	check(side, LOCKED, 3, 0, LOCKED);
	say(side);
	CHECK(fetched(side) == 0);
	check(side, 0, 3, 0, LOCKED);
	say(side);
	hear(side);
}

/* What needs memory of a process of which nobody gets the lock waits without a worker: what does not is served, and
 * others' fetches are. */
static void case_locked(struct side *side)
{
	struct stuck_lock lock;
	pid_t child;

	if (side->number == 1) {
		locked_fetch(side);
		return;
	}
	hear(side);
	lock = stuck_lock_new();
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		locked_all(side, &lock);
	stuck_lock_give(&lock, child);
	stuck_hear(lock.mine);
	say(side);
	hear(side);
	stuck_say(lock.mine);
	stuck_hear(lock.mine);
	stuck_refuse();
	stuck_hear(lock.mine);
	hear(side);
	say(side);
	stuck_say(lock.mine);
	CHECK(waitpid(child, &(int){0}, 0) == child);
}

enum { REUSED_ROUNDS = 1000 };

static uint32_t reused_region;
static bool reused_over;

static void *reused_expose(void *argument)
{
	struct side own = *(struct side *)argument;

	while (!__atomic_load_n(&reused_over, __ATOMIC_ACQUIRE)) {
		own.region = __atomic_load_n(&reused_region, __ATOMIC_ACQUIRE);
		(void)expose(&own, WINDOW, 0, LENGTH);
	}
	return NULL;
}

/* A window is ended, and its region forgotten, while it is made by others. */
static void case_reused(struct side *side)
{
	pthread_t threads[2];

	if (side->number == 1)
		return;
	side_drive(side);
	reused_region = side->region;
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, reused_expose, side) == 0);
	for (unsigned i = 0; i < REUSED_ROUNDS; i++) {
		while (end(side, THOLE_DRIVER_WINDOW_END, WINDOW) != 0)
			;
		CHECK(forget(&side->driver, reused_region) == 0);
		__atomic_store_n(&reused_region, declare(&side->driver, side->memory, LENGTH, 0), __ATOMIC_RELEASE);
		CHECK(reused_region);
	}
	__atomic_store_n(&reused_over, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* What the driver refuses. */
static void case_refused(struct side *side)
{
	struct thole_driver_socket socket = {.fd = -1};
	struct thole_driver_connection wanted = connection_to(side);
	struct sockaddr_in any = {.sin_family = AF_INET};
	uint32_t shut;

	side_drive(side);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == -1 && errno == EEXIST);
	wanted.index = 99;
	wanted.address[10] = 1;
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == -1 && errno == EAFNOSUPPORT);
	wanted.address[10] = 255;
	wanted.mode = GUARD_FULL;
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION, &wanted) == -1 && errno == EINVAL);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_CONNECTION_END, 77) == -1 && errno == ENOENT);

	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == EBADF);
	socket.fd = side->other;
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == ENOTSOCK);
	socket.fd = side->driver.fd;
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == ENOTSOCK);
	socket.fd = open_kind(AF_INET, SOCK_STREAM);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == ENOTSOCK);
	socket.fd = open_kind(AF_INET6, SOCK_DGRAM);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == EAFNOSUPPORT);
	socket.fd = open_kind(AF_INET, SOCK_DGRAM);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == EINVAL); /* no port */
	CHECK(seteuid(65534) == 0);
	socket.fd = open_kind(AF_INET, SOCK_DGRAM);
	CHECK(bind(socket.fd, (struct sockaddr *)&any, sizeof(any)) == 0 && seteuid(0) == 0);
	CHECK(ioctl(side->driver.fd, THOLE_DRIVER_SOCKET, &socket) == -1 && errno == EPERM);

	shut = declare(&side->driver, side->memory, LENGTH, 0);
	CHECK(fetch(side, 1, 0, 0, 0) == -EINVAL && fetch(side, 1, 0, LENGTH + 1, 0) == -EINVAL);
	CHECK(fetch(side, 1, 0, 2, LENGTH - 1) == -EINVAL && fetch(side, 1, UINT64_MAX - 3, 10, 0) == -EINVAL);
	CHECK(expose(side, 1, 1, LENGTH) == -EINVAL && expose(side, 1, UINT64_MAX, 2) == -EINVAL);
	side->region++;
	CHECK(side->region == shut && fetch(side, 1, 0, 10, 0) == -EACCES && expose(side, 1, 0, 10) == 0);
	side->region += 100;
	CHECK(fetch(side, 1, 0, 10, 0) == -ENOENT && expose(side, 2, 0, 10) == -ENOENT);
	side->region = 1;
	side->connection += 5;
	CHECK(fetch(side, 1, 0, 10, 0) == -ENOENT && expose(side, 2, 0, 10) == -ENOENT);
	CHECK(end(side, THOLE_DRIVER_WINDOW_END, 1) == -ENOENT && end(side, THOLE_DRIVER_FETCH_END, 1) == -ENOENT);
	side->connection -= 5;

	/* More than may be pinned: an event, not a call, says so. */
	CHECK(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){16 * PAGE, 16 * PAGE}) == 0 && seteuid(65534) == 0);
	CHECK(fetch(side, 1, 0, LENGTH, 0) == 0 && fetched(side) == -ENOMEM);
}

/* ---- Amid a transfer, of which half is there --------------------------------------------------- */

static void amid_dontneed(struct side *side)
{
	CHECK(madvise(side->memory, LENGTH, MADV_DONTNEED) == 0);
}

/* Pages that are pinned stay; so their pins go first, as under pressure, and a worker may be faster than we. */
static void amid_swap(struct side *side)
{
	uint64_t pages = 0;

	for (unsigned i = 0; i < WAIT_MS && pages < HALF / PAGE / 2; i++) {
		pins_shrink();
		pages += pages_out(side->memory, LENGTH);
	}
	CHECK(pages >= HALF / PAGE / 2);
}

static void amid_munmap(struct side *side)
{
	CHECK(munmap(side->memory + HALF, LENGTH - HALF) == 0);
}

static void amid_mremap(struct side *side)
{
	void *to = mremap(side->memory + HALF, LENGTH - HALF, LENGTH - HALF, MREMAP_MAYMOVE | MREMAP_FIXED,
			  memory_new(LENGTH));

	CHECK(to != MAP_FAILED);
}

/* The memory is a file's. */
static int amid_file = -1;

static void amid_map_file(struct side *side)
{
	amid_file = memfd_create("amid", MFD_CLOEXEC);
	CHECK(amid_file >= 0 && ftruncate(amid_file, LENGTH) == 0);
	CHECK(mmap(side->memory, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, amid_file, 0) ==
	      side->memory);
}

static void amid_truncate(struct side *side)
{
	(void)side;
	CHECK(ftruncate(amid_file, HALF) == 0);
}

static void amid_exit(struct side *side)
{
	(void)side;
	_exit(0);
}

static void amid_kill(struct side *side)
{
	(void)side;
	kill(getpid(), SIGKILL);
}

/* Which keeps the descriptor, but not the memory. */
static void amid_exec(struct side *side)
{
	(void)side;
	execl("/bin/sh", "sh", "-c", "sleep 0.5", (char *)NULL);
}

static const struct amid {
	const char *name;
	void (*happen)(struct side *);
	void (*before)(struct side *); /* what memory it needs */
	bool lost;                     /* the second half is gone */
	bool ends;                     /* the process does */
} *amid, amids[] = {
	{"dontneed", amid_dontneed, NULL, false, false},
	{"swap", amid_swap, NULL, false, false},
	{"munmap", amid_munmap, NULL, true, false},
	{"mremap", amid_mremap, NULL, true, false},
	{"truncate", amid_truncate, amid_map_file, true, false},
	{"exit", amid_exit, NULL, true, true},
	{"exec", amid_exec, NULL, true, true},
	{"kill", amid_kill, NULL, true, true},
};

/* Nothing is held: no page, and no packet of ours is under way. */
static void amid_check(struct side *side)
{
	int waiting = 1;

	CHECK(forget(&side->driver, side->region) == 0 && pages_pinned() == 0);
	for (unsigned i = 0; i < WAIT_MS && waiting; i++) {
		CHECK(ioctl(side->sockets[CHANNEL_BULK], SIOCOUTQ, &waiting) == 0);
		usleep(1000);
	}
	CHECK(waiting == 0);
}

/* In a child, which has the only sockets, where the process ends. Then all of it goes well anew. */
static bool amid_child(struct side *side)
{
	pid_t child;

	for (unsigned i = 0; i < CHANNELS; i++)
		close(side->sockets[i]);
	child = fork();
	CHECK(child >= 0);
	if (child > 0)
		CHECK(waitpid(child, NULL, 0) == child);
	side_open(side);
	side->guard.counter = child ? 1000000 : 0; /* none that were used */
	return child > 0;
}

static void amid_begin(struct side *side)
{
	if (amid->before)
		amid->before(side);
	side_drive(side);
}

/* Where data comes to. */
static void amid_fetch(struct side *side)
{
	uint64_t wanted = HALF;

	amid_begin(side);
	CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0);
	for (unsigned i = 0; i < WAIT_MS && side->driver.shared->received_bytes < wanted; i++)
		usleep(1000);
	CHECK(side->driver.shared->received_bytes >= wanted);
	if (amid->ends)
		say(side);
	amid->happen(side);
	say(side);
	CHECK(fetched(side) == (amid->lost ? -EFAULT : 0));
	if (amid->happen == amid_dontneed)
		CHECK(side->memory[0] == 0 && side->memory[HALF - 1500] == 0);
	else
		check(side, 0, 4, 0, HALF - 1500);
	if (!amid->lost)
		check(side, HALF + 1500, 4, HALF + 1500, LENGTH - HALF - 1500);
	amid_check(side);
}

static void case_amid_fetch(struct side *side)
{
	if (side->number == 0) {
		fill(side, 4);
		side->served = HALF;
		plain_serve(side, UINT32_MAX);
		hear(side);
		side->served = LENGTH;
		plain_serve(side, UINT32_MAX);
		return;
	}
	if (!amid->ends) {
		amid_fetch(side);
	} else if (amid_child(side)) {
		side_drive(side);
		fetch_right(side, 0, LENGTH, 0, 4);
		amid_check(side);
	} else {
		amid_fetch(side);
	}
	say(side);
}

/* Where data comes from. */
static void amid_serve(struct side *side)
{
	struct thole_driver_event event;

	amid_begin(side);
	fill(side, 5);
	CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
	say(side);
	hear(side);
	CHECK(side->driver.shared->sent_bytes >= HALF);
	if (amid->ends)
		say(side);
	amid->happen(side);
	if (amid->happen == amid_dontneed)
		fill(side, 5);
	say(side);
	if (amid->lost)
		CHECK(next_event(side, &event, WAIT_MS) && event.kind == THOLE_DRIVER_EVENT_LOST &&
		      event.cookie == WINDOW);
	say(side);
	hear(side);
	amid_check(side);
}

/* PULLs of what is gone, until the other side has noticed. */
static void amid_pull(struct side *side)
{
	struct packet pull = {.type = PACKET_PULL,
			      .pull = {.window = WINDOW, .offset = HALF, .length = 10 * side->frame,
				       .frame = side->frame}};
	struct pollfd told = {.fd = side->other, .events = POLLIN};
	uint8_t bytes[10000];
	size_t segment;

	pull.pull.transfer = ++side->transfer;
	do {
		plain_send(side, CHANNEL_RECORDS, &pull, NULL, 0);
	} while (poll(&told, 1, SOON_MS) == 0);
	CHECK(amid->ends || plain_packet(side, CHANNEL_BULK, bytes, sizeof(bytes), &segment, SOON_MS) == 0);
}

static void case_amid_serve(struct side *side)
{
	if (side->number == 0) {
		if (!amid->ends) {
			amid_serve(side);
		} else if (amid_child(side)) {
			side_drive(side);
			fill(side, 5);
			CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
			say(side);
			hear(side);
			amid_check(side);
		} else {
			amid_serve(side);
		}
		return;
	}
	hear(side);
	plain_fetch(side, 0, HALF, 0);
	check(side, 0, 5, 0, HALF);
	say(side);
	hear(side);
	if (amid->lost)
		amid_pull(side);
	hear(side);
	if (amid->ends)
		memset(side->memory, 0, LENGTH);
	if (!amid->lost || amid->ends) {
		plain_fetch(side, HALF, LENGTH - HALF, 0);
		check(side, HALF, 5, HALF, LENGTH - HALF);
	}
	say(side);
}

/* ---- Costs ----------------------------------------------------------------------------------- */

static void cost_row(const char *name, uint64_t start, double bytes)
{
	uint64_t ns = clock_now_ns() - start;

	printf("row %s%s_%u %.4f\n", name, tagged ? "" : "_plain", mtu, (double)ns / instructions_each_ns() / bytes);
	fflush(stdout);
}

enum { COST_ROUNDS = 8, COST_FRAMES = 44 };

/* What a byte costs both ends together, from pinned pages to pinned pages. */
static void case_cost(struct side *side)
{
	uint64_t start = 0;

	side_drive(side);
	memset(side->memory, 1, LENGTH);
	if (side->number == 0) {
		CHECK(expose(side, WINDOW, 0, LENGTH) == 0);
		say(side);
		hear(side);
		return;
	}
	hear(side);
	for (unsigned round = 0; round <= COST_ROUNDS; round++) {
		if (round == 1) /* all is pinned now */
			start = clock_now_ns();
		CHECK(fetch(side, WINDOW, 0, LENGTH, 0) == 0 && fetched(side) == 0);
	}
	cost_row("bulk_driver", start, (double)COST_ROUNDS * LENGTH);
	say(side);
}

/* The same by UDP with the kernel's segmentation, copied in and out by the program; each packet is asked for. */
static void case_cost_udp(struct side *side)
{
	uint32_t frame = mtu - 28, bytes = COST_FRAMES * frame, packets = COST_ROUNDS * (LENGTH / bytes);
	struct sockaddr_in to = address_of(1, CHANNEL_BULK);
	uint64_t start = clock_now_ns();
	size_t segment;

	memset(side->memory, 1, LENGTH);
	CHECK(setsockopt(side->sockets[CHANNEL_BULK], IPPROTO_UDP, UDP_SEGMENT, &(int){(int)frame}, sizeof(int)) == 0);
	for (uint32_t i = 0; i < packets; i++) {
		if (side->number == 1) {
			say(side);
			CHECK(plain_packet(side, CHANNEL_BULK, side->memory, 65536, &segment, WAIT_MS) == bytes);
			continue;
		}
		hear(side);
		CHECK(sendto(side->sockets[CHANNEL_BULK], side->memory, bytes, 0, (struct sockaddr *)&to, sizeof(to)) ==
		      (ssize_t)bytes);
	}
	if (side->number == 1)
		cost_row("bulk_udp", start, (double)packets * bytes);
}

static void (*const cases[])(struct side *) = {
	case_both, case_epochs, case_plain_serve, case_plain_fetch, case_renamed, case_shared, case_cut, case_down,
	case_gone, case_vanish, case_lost, case_killed, case_sockets, case_icmp, case_hostile, case_mixed,
	case_refused, case_steered, case_filtered, case_scattered, case_marked, case_counted, case_held, case_stuck,
	case_collected, case_locked, case_reused, case_cost, case_cost_udp,
};
static const char *const names[] = {
	"both", "epochs", "plain_serve", "plain_fetch", "renamed", "shared", "cut", "down", "gone", "vanish", "lost",
	"killed", "sockets", "icmp", "hostile", "mixed", "refused", "steered", "filtered", "scattered", "marked",
	"counted", "held", "stuck", "collected", "locked", "reused", "cost", "cost_udp",
};

/* ---- Two processes --------------------------------------------------------------------------- */

static int run_case(void (*what)(struct side *))
{
	struct side side = {.number = 0};
	int ends[2], status;
	pid_t peer;

	CHECK(unshare(CLONE_NEWNET) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	peer = fork();
	CHECK(peer >= 0);
	side.number = peer == 0;
	side.other = ends[side.number];
	close(ends[!side.number]);
	if (side.number == 1) {
		CHECK(unshare(CLONE_NEWNET) == 0);
		say(&side);
	}
	join(&side, peer);
	side_open(&side);
	what(&side);
	/* Each hears of the other's end before it goes. */
	if (side.number == 1)
		_exit(0);
	CHECK(waitpid(peer, &status, 0) == peer);
	return status == 0 ? 0 : 1;
}

static bool run_amid(const char *side, void (*what)(struct side *))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0)
		_exit(run_case(what));
	CHECK(waitpid(child, &status, 0) == child);
	printf("%s_%s%s\n", side, amid->name, status ? " FAILED" : "");
	fflush(stdout);
	return status == 0;
}

static int main_amid(int count, char **words)
{
	for (amid = amids; amid < amids + sizeof(amids) / sizeof(amids[0]); amid++) {
		bool wanted = count == 0;

		for (int i = 0; i < count; i++)
			wanted |= strcmp(words[i], amid->name) == 0;
		if (wanted && (!run_amid("fetch", case_amid_fetch) || !run_amid("serve", case_amid_serve)))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int status;

	CHECK(argc > 1);
	mtu = (unsigned)abs(atoi(argv[1]));
	tagged = argv[1][0] != '-';
	if (argc > 2 && strcmp(argv[2], "amid") == 0)
		return main_amid(argc - 3, argv + 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool wanted = argc == 2 && strncmp(names[i], "cost", 4) != 0;
		pid_t child;

		for (int j = 2; j < argc; j++)
			wanted |= strcmp(argv[j], names[i]) == 0;
		if (!wanted)
			continue;
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(run_case(cases[i]));
		CHECK(waitpid(child, &status, 0) == child);
		printf("%s%s\n", names[i], status ? " FAILED" : "");
		fflush(stdout);
		if (status)
			return 1;
	}
	return 0;
}
