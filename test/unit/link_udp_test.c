/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP link over the loopback, its system calls failing where a test says so: how frames are gathered, and what
 * becomes of them. What needs two hosts is in test/system/thole_links.c.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "barrier.h"
#include "base/endian.h"
#include "memory/driver.h"
#include "transport/datagram/scatter.h"
#include "transport/datagram/links.h"
#include "transport/datagram/udp.h"

enum { CALLS_MAX = 64, PARTS = 40, HOLD = 50000 };

static struct transport_owner owner;
static struct engine engine = {.owner = &owner};
static struct interface interface;
static struct link *link_under_test, *other;
static const struct path *sender; /* whom frames are to come from; NULL: anybody */
static bool known;                /* frames are of open connections */
static uint64_t counters[COUNTER_COUNT];

/* Each call that sends: its frames' length (0: not told, so one frame), bytes, and the error that it returned. */
static struct call {
	uint16_t segment;
	size_t parts, bytes;
	int error;
	bool named; /* it says to whom */
} calls[CALLS_MAX];
static unsigned call_count;
static int errors[CALLS_MAX]; /* for the next calls, in order; 0: none */
static unsigned error_count, error_at;

static struct frame_seen {
	size_t length;
	uint8_t first;
	bool intact;
	struct path from;
} seen[256];
static unsigned seen_count;
static unsigned refusals, shrinks;
static uint32_t shrunk_to;

/* ---- The kernel ------------------------------------------------------------------------------------ */

static bool fails(const struct msghdr *message, size_t length, const void *name)
{
	struct cmsghdr *header = message ? CMSG_FIRSTHDR(message) : NULL;
	struct call *call = &calls[call_count++ % CALLS_MAX];

	*call = (struct call){.bytes = length, .parts = message ? message->msg_iovlen : 1, .named = name != NULL};
	for (size_t i = 0; message && i < message->msg_iovlen; i++)
		call->bytes += message->msg_iov[i].iov_len;
	if (header) {
		assert_int_equal(header->cmsg_level, IPPROTO_UDP);
		assert_int_equal(header->cmsg_type, UDP_SEGMENT);
		memcpy(&call->segment, CMSG_DATA(header), sizeof(call->segment));
	}
	if (error_at < error_count)
		call->error = errors[error_at++];
	errno = call->error;
	return call->error != 0;
}

ssize_t __real_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	return fails(NULL, length, to) ? -1 : __real_sendto(fd, bytes, length, flags, to, size);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return fails(message, 0, message->msg_name) ? -1 : __real_sendmsg(fd, message, flags);
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (__wrap_sendmsg(fd, &messages[i].msg_hdr, flags) < 0)
			break;
	return i > 0 ? (int)i : -1;
}

static int watches = -1; /* sockets that the kernel still watches; -1: any number */

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	if (what == EPOLL_CTL_ADD && watches >= 0 && watches-- == 0) {
		watches = 0;
		errno = ENOSPC;
		return -1;
	}
	return __real_epoll_ctl(epoll, what, fd, event);
}

static void (*before_connect)(void); /* what happens while a lane is being opened */

int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
	void (*call)(void) = before_connect;

	before_connect = NULL;
	if (call)
		call();
	return __real_connect(fd, to, size);
}

static struct driver kernel_driver = {.fd = -1};
static unsigned sockets_asked; /* how often the driver was to take one, which it refuses */

int __real_ioctl(int fd, unsigned long command, void *argument);
int __wrap_ioctl(int fd, unsigned long command, void *argument);
int __wrap_ioctl(int fd, unsigned long command, void *argument)
{
	const struct thole_driver_socket *taken = argument;

	if (fd != kernel_driver.fd)
		return __real_ioctl(fd, command, argument);
	assert_int_equal(command, THOLE_DRIVER_SOCKET);
	assert_int_equal(taken->channel, CHANNEL_RECORDS);
	sockets_asked++;
	errno = ENOMEM;
	return -1;
}

/* ---- The engine ------------------------------------------------------------------------------------ */

static uint8_t byte_of(size_t length, size_t at)
{
	return (uint8_t)(length * 7 + at * 3 + 1);
}

bool engine_frame(struct engine *e, struct link *link, const struct path *from, const uint8_t *frame, size_t length)
{
	struct frame_seen *one = &seen[seen_count++ % 256];

	assert_ptr_equal(e, &engine);
	assert_true(link == link_under_test || link == other);
	if (sender)
		assert_memory_equal(from, sender, sizeof(*from));
	*one = (struct frame_seen){.length = length, .first = frame[0], .intact = true, .from = *from};
	for (size_t i = 1; i < length; i++)
		one->intact &= frame[i] == byte_of(length, i);
	return known;
}

bool engine_frames(struct engine *e, struct link *link, const struct path *from, const uint8_t *frames, size_t length,
		   size_t segment)
{
	for (size_t at = 0; at < length; at += segment)
		engine_frame(e, link, from, frames + at, length - at < segment ? length - at : segment);
	return known;
}

static struct iovec foreseen; /* where the next frames of bulk belong */

void scatter_foresee(struct engine *e, struct scatter *scatter)
{
	(void)e;
	scatter->frames = 0;
	scatter->count = 0;
	if (foreseen.iov_len > 0)
		scatter->iov[scatter->count++] = foreseen;
	scatter->iov[scatter->count++] = (struct iovec){scatter->spill, SCATTER_SPILL};
}

void scatter_took(struct scatter *scatter, size_t bytes, uint64_t ns)
{
	(void)scatter;
	(void)bytes;
	(void)ns;
}

unsigned scatter_arrived(struct engine *e, struct link *link, const struct path *from, struct scatter *scatter,
			 size_t bytes, size_t segment)
{
	struct path records = *from;

	memcpy(records.bytes + 16, link->own.bytes + 16, 2);
	assert_int_equal(load_be16(from->bytes + 16), link->bulk_port); /* bulk is sent from the bulk socket */
	for (size_t at = 0; at < bytes; at += segment)
		scatter->known |= engine_frame(e, link, &records, scatter->spill + at,
					       bytes - at < segment ? bytes - at : segment);
	return (unsigned)((bytes + segment - 1) / segment);
}

void engine_refused(struct engine *e, struct link *link, const struct path *to)
{
	(void)e, (void)link, (void)to;
	refusals++;
}

void engine_shrink(struct engine *e, struct link *link, const struct path *to, uint32_t frame_max)
{
	(void)e, (void)link, (void)to;
	shrinks++;
	shrunk_to = frame_max;
}

/* ---- Frames ---------------------------------------------------------------------------------------- */

static uint8_t bytes[128][ENGINE_FRAME_MAX];
static struct iovec parts[128][PARTS];
static struct frame_out frames[128];
static struct path own, bulk;

/* A frame to ourselves; in `count` parts if that is more than 1. */
static void frame_set(unsigned i, uint32_t length, unsigned count)
{
	uint32_t piece = length / (count ? count : 1);

	bytes[i][0] = (uint8_t)i;
	for (uint32_t at = 1; at < length; at++)
		bytes[i][at] = byte_of(length, at);
	frames[i] = (struct frame_out){.to = &own, .head = bytes[i], .head_length = length, .known = known};
	if (count < 2)
		return;
	frames[i].head_length = piece;
	frames[i].body = parts[i];
	frames[i].body_count = (uint16_t)(count - 1);
	frames[i].body_length = length - piece;
	for (unsigned j = 1; j < count; j++)
		parts[i][j - 1] = (struct iovec){bytes[i] + j * piece, j + 1 < count ? piece : length - j * piece};
}

static void expect_errors(const int *list, unsigned count)
{
	memcpy(errors, list, count * sizeof(*list));
	error_count = count;
	error_at = 0;
}

static unsigned post(unsigned count)
{
	call_count = 0;
	return link_under_test->calls->send(link_under_test, frames, count);
}

static void collect(void)
{
	seen_count = 0;
	engine.blocks.outstanding = 1;
	for (unsigned i = 0; i < 200; i++)
		link_under_test->calls->receive(link_under_test, 64);
}

/* These frames came, each as it was sent. */
static void check_seen(unsigned first, unsigned count)
{
	assert_int_equal(seen_count, count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(seen[i].first, first + i);
		assert_int_equal(seen[i].length, frames[first + i].head_length + frames[first + i].body_length);
		assert_true(seen[i].intact);
	}
}

static void open_it(void)
{
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &link_under_test), 0);
	own = bulk = link_under_test->own;
	sender = &own;
	known = true;
	other = NULL;
	store_be16(bulk.bytes + 16, link_under_test->bulk_port);
}

static int set_up(void **state)
{
	(void)state;
	memset(counters, 0, sizeof(counters));
	owner.options.net_hold = HOLD;
	error_count = error_at = refusals = shrinks = 0;
	assert_int_equal(interface_choose("127.0.0.1", &interface), 0);
	open_it();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	link_under_test->calls->close(link_under_test);
	return 0;
}

/* ---- Sending --------------------------------------------------------------------------------------- */

static void send__same_length_goes_together(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		frame_set(i, i < 9 ? 700 : 100, 3);
	assert_int_equal(post(10), 10);
	assert_int_equal(call_count, 1);
	assert_int_equal(calls[0].segment, 700);
	assert_int_equal(calls[0].bytes, 9 * 700 + 100);
	collect();
	check_seen(0, 10);
}

/* What lies behind each other in memory is one part for the kernel, and still as many frames. */
static void send__neighbours_are_one_part(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		frame_set(i, 700, 1);
		if (i < 5)
			frames[i].head = memcpy(bytes[6] + i * 700, bytes[i], 700);
	}
	assert_int_equal(post(5), 5);
	assert_int_equal(call_count, 1);
	assert_int_equal(calls[0].parts, 1);
	assert_int_equal(calls[0].segment, 700);
	assert_int_equal(calls[0].bytes, 5 * 700);
	assert_int_equal(post(6), 6); /* the last one is elsewhere */
	assert_int_equal(calls[0].parts, 2);
	assert_int_equal(calls[0].bytes, 6 * 700);
	collect();
	assert_int_equal(seen_count, 11);
	for (unsigned i = 0; i < 11; i++) {
		assert_int_equal(seen[i].first, i % 5 + (i == 10 ? 5 : 0));
		assert_int_equal(seen[i].length, 700);
		assert_true(seen[i].intact);
	}
}

static void send__a_shorter_one_ends_a_packet(void **state)
{
	static const uint32_t lengths[] = {500, 500, 400, 400, 300, 600, 600};

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		frame_set(i, lengths[i], 1);
	assert_int_equal(post(7), 7);
	assert_int_equal(call_count, 3);
	assert_int_equal(calls[0].bytes, 1400);
	assert_int_equal(calls[1].bytes, 700);
	assert_int_equal(calls[2].bytes, 1200);
	collect();
	check_seen(0, 7);
}

/* It is to show that frames as long as it pass. */
static void send__a_probe_is_a_packet(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++)
		frame_set(i, i < 4 ? 500 : 400, 1);
	frames[1].probe = frames[2].probe = frames[4].probe = true;
	assert_int_equal(post(5), 5);
	assert_int_equal(call_count, 5);
	collect();
	check_seen(0, 5);
}

static void send__no_more_than_a_packet_holds(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 64; i++)
		frame_set(i, 1472, 2);
	assert_int_equal(post(64), 64);
	assert_int_equal(call_count, 2);
	assert_int_equal(calls[0].bytes, 44 * 1472);
	assert_int_equal(calls[1].bytes, 20 * 1472);
	collect();
	check_seen(0, 64);
	for (unsigned i = 0; i < 100; i++)
		frame_set(i, 10, 1);
	assert_int_equal(post(100), 100);
	assert_int_equal(calls[0].bytes, 640);
	assert_int_equal(calls[1].bytes, 360);
	collect();
	check_seen(0, 100);
}

static void send__other_places_and_channels_are_apart(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		frame_set(i, 200, 1);
		if (i >= 3) {
			frames[i].to = &bulk;
			frames[i].channel = CHANNEL_BULK;
		}
	}
	assert_int_equal(post(6), 6);
	assert_int_equal(call_count, 2);
	assert_int_equal(calls[0].bytes, 600);
	assert_int_equal(calls[1].bytes, 600);
	collect();
	check_seen(0, 6);
}

static void send__many_parts_are_copied_together(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++)
		frame_set(i, 1000, i == 2 ? PARTS : 16);
	assert_int_equal(post(5), 5);
	assert_int_equal(call_count, 3);
	collect();
	check_seen(0, 5);
}

/* Memory that the kernel may not read, and its owner may. None of such frames is lost, nor of those beside them. */
static void send__from_memory_under_a_barrier(void **state)
{
	enum { FRAMES = 8, LENGTH = 1000, HALF = LENGTH / 2 };
	uint8_t *memory = barrier_open(FRAMES * (size_t)getpagesize());

	(void)state;
	for (unsigned i = 0; i < FRAMES; i++) {
		frame_set(i, LENGTH, 2);
		if (i % 4 < 2)
			parts[i]->iov_base = memcpy(memory + i * barrier.page, bytes[i] + HALF, HALF);
	}
	barrier_raise(PROT_NONE);
	assert_int_equal(post(FRAMES), FRAMES);
	assert_int_equal(barrier.touched, FRAMES / 2);
	collect();
	check_seen(0, FRAMES);
	assert_int_equal(counters[COUNTER_LINK_LOST], 0);
	assert_in_range(counters[COUNTER_LINK_COPIED], 1, FRAMES);
	barrier_close();
}

/* Memory that is not there: a peer may get of a region with holes. Its frame is lost, and none beside it; but nobody
 * else reads there either. */
static void send__from_memory_that_is_not_there(void **state)
{
	enum { FRAMES = 4, LENGTH = 1000 };
	uint8_t *memory = barrier_open(1);

	(void)state;
	barrier_close();
	for (unsigned i = 0; i < FRAMES; i++) {
		frame_set(i, LENGTH, 2);
		if (i == FRAMES - 1)
			parts[i]->iov_base = memory;
	}
	assert_int_equal(post(FRAMES), FRAMES);
	collect();
	check_seen(0, FRAMES - 1);
	assert_int_equal(counters[COUNTER_LINK_LOST], 1);
	assert_int_equal(counters[COUNTER_LINK_COPIED], 0);
}

/* Bulk for memory that the kernel may not write: one packet is lost with the first try, which is none that found no
 * room, and no other. */
static void receive__into_memory_under_a_barrier(void **state)
{
	struct link_udp *udp = udp_of(link_under_test);

	(void)state;
	foreseen.iov_base = barrier_open(1);
	foreseen.iov_len = barrier.bytes;
	barrier_raise(PROT_READ);
	for (unsigned i = 0; i < 5; i++) {
		frame_set(i, 1000 + i, 1); /* longer each time: none goes with another */
		frames[i].to = &bulk;
		frames[i].channel = CHANNEL_BULK;
	}
	assert_int_equal(post(5), 5);
	collect();
	check_seen(1, 4);
	assert_int_equal(barrier.touched, 0);
	udp_check(udp, CHANNEL_BULK);
	assert_int_equal(counters[COUNTER_LINK_OVERFLOWS], 0);
	assert_int_equal(counters[COUNTER_LINK_COPIED], 1);
	barrier_close();
	foreseen.iov_len = 0;
}

/* ---- Trouble --------------------------------------------------------------------------------------- */

static void trouble__no_room(void **state)
{
	static const int list[] = {0, 0, EAGAIN, EAGAIN};

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		frame_set(i, 100 + 100 * i, 1); /* longer each time: none goes with another */
	expect_errors(list, 4);
	assert_int_equal(post(6), 2);
	collect();
	check_seen(0, 2);
	expect_errors(&list[2], 1);
	assert_int_equal(post(6), 0);
	assert_int_equal(counters[COUNTER_LINK_LOST], 0);
}

static void trouble__queue_full(void **state)
{
	static const int list[] = {ENOBUFS};

	(void)state;
	frame_set(0, 100, 1);
	expect_errors(list, 1);
	assert_int_equal(post(1), 0);
	assert_int_equal(post(1), 1);
}

static void trouble__interrupted(void **state)
{
	static const int list[] = {EINTR, EINTR, EINTR};

	(void)state;
	frame_set(0, 100, 1);
	expect_errors(list, 3);
	assert_int_equal(post(1), 1);
	collect();
	check_seen(0, 1);
}

/* An earlier frame's error is told with this one, which goes at the second try. */
static void trouble__of_an_earlier_frame(void **state)
{
	static const int list[] = {ECONNREFUSED};

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		frame_set(i, 100, 1);
	expect_errors(list, 1);
	assert_int_equal(post(3), 3);
	assert_int_equal(call_count, 2);
	collect();
	check_seen(0, 3);
	assert_int_equal(counters[COUNTER_LINK_LOST], 0);
}

static void trouble__no_route(void **state)
{
	static const int list[] = {ENETUNREACH, ENETUNREACH, ENETUNREACH, ENETUNREACH};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		frame_set(i, i < 3 ? 100 : 200, 1);
	expect_errors(list, 4);
	assert_int_equal(post(4), 4);
	assert_int_equal(counters[COUNTER_LINK_LOST], 4);
	assert_int_equal(post(4), 4);
	collect();
	check_seen(0, 4);
}

/* The interface cannot segment: frames go singly, now and later. */
static void trouble__segments_refused(void **state)
{
	static const int list[] = {EIO};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		frame_set(i, 100, 2);
	expect_errors(list, 1);
	assert_int_equal(post(4), 4);
	assert_int_equal(call_count, 5);
	assert_int_equal(calls[0].segment, 100);
	assert_int_equal(calls[1].segment, 0);
	collect();
	check_seen(0, 4);
	assert_int_equal(counters[COUNTER_LINK_SEPARATED], 1);
	assert_int_equal(post(4), 4);
	assert_int_equal(call_count, 4);
	collect();
	check_seen(0, 4);
	assert_int_equal(counters[COUNTER_LINK_LOST], 0);
}

/* One packet is refused for its length: its frames are tried singly, and those that are too long go as fragments of
 * IP. */
static void trouble__too_long(void **state)
{
	static const int list[] = {EMSGSIZE, EMSGSIZE, 0, EMSGSIZE, 0, 0};

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		frame_set(i, i < 2 ? 1400 : 600, 2);
	expect_errors(list, 6);
	assert_int_equal(post(3), 3);
	assert_int_equal(call_count, 6);
	assert_int_equal(counters[COUNTER_LINK_LOST], 0);
	collect();
	check_seen(0, 3);
	assert_int_equal(shrinks, 1);
	assert_int_equal(shrunk_to, link_under_test->calls->frame_max(link_under_test, &own));
	assert_int_equal(post(3), 3); /* together again */
	assert_int_equal(call_count, 1);
}

/* Where not even that is possible they are lost. */
static void trouble__too_long_for_fragments(void **state)
{
	static const int list[] = {EMSGSIZE, EMSGSIZE, EMSGSIZE, 0};

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		frame_set(i, i < 1 ? 1400 : 600, 2);
	expect_errors(list, 4);
	assert_int_equal(post(2), 2);
	assert_int_equal(counters[COUNTER_LINK_LOST], 1);
	collect();
	check_seen(1, 1);
}

/* What is to show that frames of its length pass does not go as fragments, which pass anywhere. */
static void trouble__too_long_for_a_probe(void **state)
{
	static const int list[] = {EMSGSIZE, 0, 0};

	(void)state;
	frame_set(0, 1400, 1);
	frames[0].probe = true;
	frame_set(1, 600, 1);
	expect_errors(list, 3);
	assert_int_equal(post(2), 2);
	assert_int_equal(call_count, 2);
	assert_int_equal(counters[COUNTER_LINK_LOST], 1);
	collect();
	check_seen(1, 1);
	frames[0].probe = false;
}

/* Where no socket can be had to ask for the route, frames are as long as the interface takes. */
static void frames__without_a_descriptor(void **state)
{
	uint32_t max = link_under_test->calls->frame_max(link_under_test, &own), without;
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	without = link_under_test->calls->frame_max(link_under_test, &own);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(without, max);
}

static void refused__told_from_receive_only(void **state)
{
	struct path nobody = own;

	(void)state;
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &other), 0);
	nobody = other->own;
	other->calls->close(other);
	frame_set(0, 100, 1);
	frames[0].to = &nobody;
	assert_int_equal(post(1), 1);
	assert_int_equal(post(1), 1);
	assert_int_equal(refusals, 0);
	collect();
	assert_int_equal(refusals, 2);
	assert_int_equal(seen_count, 0);
	assert_false(link_under_test->calls->ready(link_under_test));
}

/* ---- Lanes ----------------------------------------------------------------------------------------- */

/* One frame to a place, by a link. Returns whether the packet had to say to whom. */
static bool post_from(struct link *link, const struct path *to, unsigned channel)
{
	frame_set(0, 100, 1);
	frames[0].to = to;
	frames[0].channel = (uint8_t)channel;
	call_count = 0;
	assert_int_equal(link->calls->send(link, frames, 1), 1);
	return calls[0].named;
}

/* Who is talked to alone gets a lane; others are heard beside it, by their names. */
static void lane__for_a_favourite(void **state)
{
	struct path path;

	(void)state;
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &other), 0);
	path = other->own;
	for (unsigned i = 0; i < 40; i++) {
		bool named = post_from(link_under_test, &path, CHANNEL_RECORDS);

		assert_true(named || i >= 32);
		assert_true(!named || i <= 32);
		link_under_test->calls->receive(link_under_test, 64);
	}
	for (unsigned i = 0; i < 8; i++) {
		assert_true(post_from(link_under_test, &own, CHANNEL_RECORDS)); /* to itself, beside the lane */
		collect();
		check_seen(0, 1);
		assert_false(post_from(link_under_test, &path, CHANNEL_RECORDS));
	}
	sender = &path; /* the lane's peer answers */
	post_from(other, &own, CHANNEL_RECORDS);
	collect();
	check_seen(0, 1);
	sender = &own; /* and has had what came by the lane */
	seen_count = 0;
	for (unsigned i = 0; i < 200; i++)
		other->calls->receive(other, 64);
	assert_int_equal(seen_count, 48);
	other->calls->close(other);
}

/* Another one takes its place; then nobody does. */
static void lane__changes_with_the_favourite(void **state)
{
	struct path path;
	unsigned named = 0;

	(void)state;
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &other), 0);
	path = other->own;
	for (unsigned i = 0; i < 100; i++) {
		named += post_from(link_under_test, &path, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	assert_int_equal(named, 32);
	store_be16(path.bytes + 16, other->bulk_port);
	for (unsigned i = 0; i < 100; i++) {
		named += post_from(link_under_test, &path, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	assert_int_equal(named, 32 + 64); /* the votes for the first are used up, then its own are counted */
	named = 0;
	for (unsigned i = 0; i < 200; i++) {
		named += post_from(link_under_test, i % 2 ? &path : &other->own, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	assert_true(named > 90);
	other->calls->close(other);
}

static const struct udp_socket *lane_of_records(void)
{
	return &udp_of(link_under_test)->sockets[UDP_LANES + CHANNEL_RECORDS];
}

/* A lane to itself. */
static void lane_to_itself(void)
{
	for (unsigned i = 0; i < 40; i++) {
		post_from(link_under_test, &own, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	assert_false(post_from(link_under_test, &own, CHANNEL_RECORDS));
	collect();
}

/* Send frames to itself that are a long packet. */
static void post_long(void)
{
	for (unsigned i = 0; i < 20; i++)
		frame_set(i, 1000, 1);
	assert_int_equal(post(20), 20);
}

/* Send a burst of frames so long each to itself, which is one packet, that is told this of its frames' length. */
static void post_told(unsigned count, uint32_t length, uint16_t told)
{
	for (unsigned i = 0; i < count; i++)
		frame_set(i, length, 1);
	call_count = 0;
	assert_int_equal(post(count), count);
	assert_int_equal(calls[call_count - 1].segment, told);
	collect();
	check_seen(0, count);
}

/* A lane remembers how long frames are, the longest that packets of several had. */
static void lane__remembers_frames(void **state)
{
	(void)state;
	post_told(4, 500, 500);
	lane_to_itself();
	post_told(4, 500, 0);
	post_told(4, 500, 0);
	post_told(4, 400, 400);
	post_told(1, 300, 0);
	post_told(1, 900, 0); /* one frame as well */
	assert_int_equal(lane_of_records()->segment, 500);
	post_told(4, 1000, 0);
	post_told(4, 500, 500);
	post_told(1, 900, 0);
	assert_int_equal(lane_of_records()->segment, 1000);
}

/* Nothing is remembered in the middle of a burst, of which a packet before was told nothing. */
static void lane__remembers_no_later_frames(void **state)
{
	(void)state;
	lane_to_itself();
	post_told(3, 500, 0);
	for (unsigned i = 0; i < 6; i++)
		frame_set(i, i < 3 ? 500 : 1000, 1);
	call_count = 0;
	assert_int_equal(post(6), 6);
	assert_int_equal(call_count, 2);
	assert_int_equal(calls[0].segment, 0);
	assert_int_equal(calls[1].segment, 1000);
	collect();
	check_seen(0, 6);
	assert_int_equal(lane_of_records()->segment, 500);
}

/* It may be why a lane refuses packets. Then each is told, and nothing is lost for it. */
static void lane__forgets_frames(void **state)
{
	static const int list[] = {EIO, EINVAL, EOPNOTSUPP, EMSGSIZE};

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(list) / sizeof(*list); i++) {
		tear_down(NULL);
		set_up(NULL);
		lane_to_itself();
		post_told(4, 500, 0);
		expect_errors(&list[i / 2], 1);
		post_told(i % 2 ? 4 : 1, 500, i % 2 ? 500 : 0);
		assert_int_equal(call_count, 2);
		assert_int_equal(lane_of_records()->segment, 0);
		post_told(4, 1000, 1000);
		post_told(1, 1200, 0);
		assert_int_equal(counters[COUNTER_LINK_SEPARATED], 0);
		assert_int_equal(counters[COUNTER_LINK_LOST], 0);
	}
}

/* Long packets stay where they are for a while after they were read, and are read once; so are those behind them. */
static void lane__holds_what_was_read(void **state)
{
	(void)state;
	lane_to_itself();
	assert_false(lane_of_records()->holds);
	for (unsigned round = 0; round < 50; round++) {
		post_long();
		if (round % 10 == 0)
			post_long(); /* two at a time */
		collect();
		assert_int_equal(seen_count, round % 10 ? 20 : 40);
		seen_count = 20;
		check_seen(0, 20);
		assert_true(lane_of_records()->holds);
		assert_in_range(lane_of_records()->held_bytes, round ? 20000 : 0, HOLD);
		assert_int_equal(lane_of_records()->held_bytes, 20000 * lane_of_records()->held);
	}
	assert_false(link_under_test->calls->ready(link_under_test)); /* nothing that was read keeps anybody awake */
	assert_false(lane_of_records()->holds);
	assert_int_equal(lane_of_records()->held, 0);
	post_long();
	collect();
	check_seen(0, 20);
	post_long();
	collect();
	assert_int_equal(lane_of_records()->held, 1);
	post_long();
	assert_true(link_under_test->calls->ready(link_under_test)); /* what was not read does, and is not lost */
	assert_int_equal(lane_of_records()->held, 0);
	collect();
	check_seen(0, 20);
}

/* Of bulk less stays. */
static void lane__holds_less_of_bulk(void **state)
{
	const struct udp_socket *lane = &udp_of(link_under_test)->sockets[UDP_LANES + CHANNEL_BULK];

	(void)state;
	udp_of(link_under_test)->hold = HOLD * UDP_HOLD_BULK;
	for (unsigned i = 0; i < 40; i++) {
		post_from(link_under_test, &bulk, CHANNEL_BULK);
		collect();
	}
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 20; i++) {
			frame_set(i, 1000, 1);
			frames[i].channel = CHANNEL_BULK;
			frames[i].to = &bulk;
		}
		assert_int_equal(post(20), 20);
		collect();
		check_seen(0, 20);
		assert_in_range(lane->held_bytes, round ? 20000 : 0, HOLD);
	}
	assert_true(lane->holds);
	assert_int_equal(link_under_test->cached, udp_of(link_under_test)->cached); /* and more may be under way */
	assert_false(link_under_test->calls->ready(link_under_test));
	assert_int_equal(link_under_test->cached, 0);
}

/* Of those that come several at a time none is held; the next ones are. */
static void lane__holds_amid_others(void **state)
{
	(void)state;
	lane_to_itself();
	for (unsigned shorts = 0; shorts < 8; shorts++) { /* so many at a time as come after them */
		for (unsigned i = 0; i < shorts; i++)
			post_from(link_under_test, &own, CHANNEL_RECORDS);
		for (unsigned i = 0; i < 5; i++)
			post_long();
		collect();
		assert_int_equal(seen_count, shorts + 5 * 20);
		assert_true(lane_of_records()->holds);
		assert_false(link_under_test->calls->ready(link_under_test));
		assert_int_equal(lane_of_records()->held, 0);
		post_long();
		collect();
		check_seen(0, 20);
		assert_false(link_under_test->calls->ready(link_under_test));
	}
}

/* Where they get short, they are taken out as they come. */
static void lane__holds_no_short_ones(void **state)
{
	(void)state;
	lane_to_itself();
	for (unsigned i = 0; i < 2; i++) {
		post_long();
		collect();
	}
	assert_int_equal(lane_of_records()->held, 1);
	for (unsigned i = 0; i < 3 * UDP_HOLD_SHORTS; i++) {
		post_from(link_under_test, &own, CHANNEL_RECORDS);
		collect();
		check_seen(0, 1);
	}
	assert_false(lane_of_records()->holds);
	assert_int_equal(lane_of_records()->held, 0);
}

/* Nor are any held where packets are an adapter's. */
static void lane__holds_nothing_of_an_adapter(void **state)
{
	(void)state;
	tear_down(NULL);
	assert_int_equal(interface_choose("127.0.0.1", &interface), 0);
	interface.inside = false;
	open_it();
	lane_to_itself();
	for (unsigned i = 0; i < 4; i++) {
		post_long();
		collect();
		check_seen(0, 20);
	}
	assert_false(lane_of_records()->holds);
}

/* A lane that does not work is given up. */
static void lane__breaks(void **state)
{
	static const int list[] = {ENETUNREACH, ENETUNREACH};

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		post_from(link_under_test, &own, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	assert_false(post_from(link_under_test, &own, CHANNEL_RECORDS));
	collect();
	expect_errors(list, 2);
	assert_false(post_from(link_under_test, &own, CHANNEL_RECORDS));
	assert_int_equal(counters[COUNTER_LINK_LOST], 1);
	collect();
	assert_int_equal(seen_count, 0);
	assert_true(post_from(link_under_test, &own, CHANNEL_RECORDS));
	collect();
	check_seen(0, 1);
}

/* A lane that the driver cannot have, which has the link's other sockets, is none: what the driver fetches would come
 * to the program. */
static void lane__not_past_the_driver(void **state)
{
	(void)state;
	udp_of(link_under_test)->driver = &kernel_driver;
	for (unsigned i = 0; i < 100; i++) {
		assert_true(post_from(link_under_test, &own, CHANNEL_RECORDS));
		collect();
		check_seen(0, 1);
	}
	assert_int_equal(sockets_asked, 1); /* there is no other try */
	assert_true(udp_of(link_under_test)->fd[UDP_LANES + CHANNEL_RECORDS] < 0);
	udp_of(link_under_test)->driver = NULL;
}

/* What came before a lane is heard before what comes by it. */
static void keeps_the_order(unsigned channel)
{
	for (unsigned i = 0; i < 120; i++) {
		frame_set(i, 100 + i, 1);
		frames[i].channel = (uint8_t)channel;
		frames[i].to = channel == CHANNEL_BULK ? &bulk : &own;
	}
	seen_count = 0;
	engine.blocks.outstanding = 1;
	assert_int_equal(post(60), 60);
	assert_int_equal(link_under_test->calls->receive(link_under_test, 1), 1);
	assert_int_equal(link_under_test->calls->send(link_under_test, frames + 60, 60), 60);
	for (unsigned i = 0; i < 200; i++)
		link_under_test->calls->receive(link_under_test, 64);
	check_seen(0, 120);
	assert_false(post_from(link_under_test, channel == CHANNEL_BULK ? &bulk : &own, channel)); /* there is one */
	collect();
}

static void lane__keeps_the_order(void **state)
{
	(void)state;
	keeps_the_order(CHANNEL_RECORDS);
	keeps_the_order(CHANNEL_BULK);
}

/* What waits in a lane is heard before it is closed. */
static void lane__ends(void **state)
{
	struct path path;

	(void)state;
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &other), 0);
	path = other->own;
	for (unsigned i = 0; i < 40; i++)
		post_from(link_under_test, &own, CHANNEL_RECORDS);
	collect();
	assert_false(post_from(link_under_test, &own, CHANNEL_RECORDS));
	for (unsigned i = 0; i < 40; i++)
		post_from(link_under_test, &path, CHANNEL_RECORDS);
	collect();
	check_seen(0, 1);
	assert_true(post_from(link_under_test, &own, CHANNEL_RECORDS));
	other->calls->close(other);
}

static unsigned strangers;

/* From several ports, since the kernel chooses the socket by them. */
static void strangers_send(void)
{
	enum { STRANGERS = 16 };
	struct path from;

	for (strangers = 0; strangers < STRANGERS; strangers++) {
		struct link *link;

		assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &link), 0);
		from = link->own;
		frame_set(1, load_be16(from.bytes + 16) % 1000 + 200, 1);
		assert_int_equal(link->calls->send(link, &frames[1], 1), 1);
		link->calls->close(link);
	}
}

/* A socket that is not connected yet gets others' packets too. */
static void lane__is_not_taken_for_its_peer_too_early(void **state)
{
	unsigned found = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		post_from(link_under_test, &own, CHANNEL_RECORDS);
	before_connect = strangers_send;
	sender = NULL;
	collect();
	assert_null(before_connect);
	assert_int_equal(seen_count, 40 + strangers);
	for (unsigned i = 0; i < seen_count; i++) {
		bool stranger = memcmp(&seen[i].from, &own, sizeof(own)) != 0;

		assert_int_equal(seen[i].length, stranger ? load_be16(seen[i].from.bytes + 16) % 1000 + 200 : 100);
		found += stranger;
	}
	assert_int_equal(found, strangers);
}

/* Packets of strangers, and answers to them, neither open a lane nor close one. */
static void lane__strangers_have_no_vote(void **state)
{
	struct path path;

	(void)state;
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &other), 0);
	path = other->own;
	known = false;
	for (unsigned channel = 0; channel < CHANNELS; channel++) {
		for (unsigned i = 0; i < 200; i++) {
			assert_true(post_from(link_under_test, channel == CHANNEL_BULK ? &bulk : &own, channel));
			collect();
			check_seen(0, 1);
		}
	}
	known = true;
	for (unsigned i = 0; i < 33; i++) {
		post_from(link_under_test, &path, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	known = false;
	for (unsigned i = 0; i < 200; i++) {
		post_from(link_under_test, &own, CHANNEL_RECORDS);
		collect();
		check_seen(0, 1);
	}
	known = true;
	assert_false(post_from(link_under_test, &path, CHANNEL_RECORDS)); /* it is still there */
	other->calls->close(other);
}

/* Whoever goes on sending to the other socket does not keep a new lane from being heard. */
static void lane__is_heard_beside_strangers(void **state)
{
	struct link *stranger;

	(void)state;
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &other), 0);
	assert_int_equal(link_udp_open(&engine, &interface, 1, counters, &stranger), 0);
	for (unsigned i = 0; i < 40; i++)
		post_from(link_under_test, &other->own, CHANNEL_RECORDS);
	known = false;
	sender = NULL;
	for (unsigned i = 0; i < 20; i++)
		post_from(stranger, &own, CHANNEL_RECORDS);
	link_under_test->calls->receive(link_under_test, 64);
	frame_set(1, 77, 1);
	frames[1].to = &own;
	assert_int_equal(other->calls->send(other, &frames[1], 1), 1);
	seen_count = 0;
	for (unsigned i = 0; i < 100 && (seen_count == 0 || seen[(seen_count - 1) % 256].length != 77); i++) {
		for (unsigned j = 0; j < 16; j++)
			post_from(stranger, &own, CHANNEL_RECORDS);
		link_under_test->calls->receive(link_under_test, 64);
	}
	assert_int_equal(seen[(seen_count - 1) % 256].length, 77);
	stranger->calls->close(stranger);
	other->calls->close(other);
}

/* ---- The rest -------------------------------------------------------------------------------------- */

static void ready__only_if_something_waits(void **state)
{
	(void)state;
	assert_false(link_under_test->calls->ready(link_under_test));
	frame_set(0, 100, 1);
	post(1);
	assert_true(link_under_test->calls->ready(link_under_test));
	collect();
	assert_false(link_under_test->calls->ready(link_under_test));
}

/* What was not asked for is fetched too, or it would keep the owner from sleeping. */
/* Where the kernel watches no more sockets nobody may sleep, nor by those that it watches. */
static void ready__where_no_socket_is_watched(void **state)
{
	(void)state;
	for (watches = 1; watches >= 0; watches--) {
		int left = watches;

		assert_true(link_under_test->calls->ready(link_under_test));
		assert_true(link_under_test->calls->ready(link_under_test));
		link_under_test->calls->receive(link_under_test, 1);
		watches = left;
	}
	assert_false(link_under_test->calls->ready(link_under_test));
}

static void ready__unexpected_bulk(void **state)
{
	(void)state;
	frame_set(0, 100, 1);
	frames[0].to = &bulk;
	frames[0].channel = CHANNEL_BULK;
	post(1);
	engine.blocks.outstanding = 0;
	seen_count = 0;
	assert_true(link_under_test->calls->ready(link_under_test));
	assert_int_equal(link_under_test->calls->receive(link_under_test, 64), 1);
	check_seen(0, 1);
	assert_false(link_under_test->calls->ready(link_under_test));
}

static void open__without_an_address(void **state)
{
	struct interface none = interface;
	struct link *link;

	(void)state;
	none.has_ipv4 = none.has_ipv6 = false;
	assert_int_equal(link_udp_open(&engine, &none, 1, counters, &link), THOLE_ERR_ADDRESS);
	assert_null(link);
	assert_non_null(strstr(thole_detail(), none.name));
	assert_int_equal(link_raw_open(&engine, &interface, LINK_RAW_ETHERTYPE, 1, counters, &link), THOLE_ERR_ADDRESS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(send__same_length_goes_together),
		TEST(send__neighbours_are_one_part),
		TEST(send__a_shorter_one_ends_a_packet),
		TEST(send__a_probe_is_a_packet),
		TEST(send__no_more_than_a_packet_holds),
		TEST(send__other_places_and_channels_are_apart),
		TEST(send__many_parts_are_copied_together),
		TEST(send__from_memory_under_a_barrier),
		TEST(send__from_memory_that_is_not_there),
		TEST(receive__into_memory_under_a_barrier),
		TEST(trouble__no_room),
		TEST(trouble__queue_full),
		TEST(trouble__interrupted),
		TEST(trouble__of_an_earlier_frame),
		TEST(trouble__no_route),
		TEST(trouble__segments_refused),
		TEST(trouble__too_long),
		TEST(trouble__too_long_for_fragments),
		TEST(trouble__too_long_for_a_probe),
		TEST(frames__without_a_descriptor),
		TEST(refused__told_from_receive_only),
		TEST(lane__for_a_favourite),
		TEST(lane__not_past_the_driver),
		TEST(lane__changes_with_the_favourite),
		TEST(lane__remembers_frames),
		TEST(lane__remembers_no_later_frames),
		TEST(lane__forgets_frames),
		TEST(lane__holds_what_was_read),
		TEST(lane__holds_less_of_bulk),
		TEST(lane__holds_amid_others),
		TEST(lane__holds_no_short_ones),
		TEST(lane__holds_nothing_of_an_adapter),
		TEST(lane__breaks),
		TEST(lane__keeps_the_order),
		TEST(lane__ends),
		TEST(lane__is_not_taken_for_its_peer_too_early),
		TEST(lane__strangers_have_no_vote),
		TEST(lane__is_heard_beside_strangers),
		TEST(ready__only_if_something_waits),
		TEST(ready__where_no_socket_is_watched),
		TEST(ready__unexpected_bulk),
		TEST(open__without_an_address),
	};

	return cmocka_run_group_tests_name("link_udp", tests, NULL, NULL);
}
