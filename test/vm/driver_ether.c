/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of our own EtherTypes by /dev/thole, between the two ends of a veth pair: they arrive as they were sent, and
 * at whom they are to alone; nothing is sent in another's name; and an interface may go at any time.
 *
 *     thole-driver-ether [CASE...]     each case in a process of its own; those that are marked need root
 *     thole-driver-ether --flood N     as root: frames of all kinds of nonsense, N of them
 *     thole-driver-ether --reflect vb  as root: a mirror at the far end, until it is killed
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "driver.h"

enum { HEAD = 12, MXOE_PULL = 41, MXOE_REPLY = 42, MXOE_NACK = 44 };

static const char *const names[2] = {"va", "vb"};

struct end {
	struct driver driver;
	struct thole_driver_bind bind;
	unsigned char *mapped;
	struct thole_driver_ether *shared;
	uint32_t sent;
	uint8_t path[10]; /* it */
};

static int bind_to(const struct driver *driver, const char *interface, uint16_t ethertype, uint32_t endpoint,
		   struct thole_driver_bind *bind_p)
{
	*bind_p = (struct thole_driver_bind){
		.interface = if_nametoindex(interface), .ethertype = ethertype, .endpoint = endpoint};
	return ioctl(driver->fd, THOLE_DRIVER_BIND, bind_p) == 0 ? 0 : -errno;
}

static struct end end_new(const char *interface, uint16_t ethertype, uint32_t endpoint)
{
	struct end end = {.driver = driver_open()};
	uint32_t number = ethertype == THOLE_DRIVER_ETHERTYPE ? htonl(endpoint) : 0;

	CHECK(bind_to(&end.driver, interface, ethertype, endpoint, &end.bind) == 0);
	end.mapped = mmap(NULL, end.bind.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, end.driver.fd,
			  THOLE_DRIVER_AT_ETHER);
	CHECK(end.mapped != MAP_FAILED);
	end.shared = (void *)end.mapped;
	mac_of(interface, end.path);
	memcpy(end.path + MAC, &number, sizeof(number));
	return end;
}

static void end_free(struct end *end)
{
	CHECK(munmap(end->mapped, end->bind.bytes) == 0);
	CHECK(munmap((void *)(uintptr_t)end->driver.shared, sizeof(*end->driver.shared)) == 0);
	CHECK(close(end->driver.fd) == 0);
}

static struct thole_driver_frame *place_in(const struct end *end, uint32_t n)
{
	return (void *)(end->mapped + THOLE_DRIVER_FRAMES_AT + (size_t)(n % end->bind.places_in) * end->bind.place);
}

static struct thole_driver_frame *place_out(const struct end *end, uint32_t n)
{
	return (void *)(end->mapped + THOLE_DRIVER_FRAMES_AT + (size_t)end->bind.places_in * end->bind.place +
			(size_t)(n % end->bind.places_out) * end->bind.place);
}

static unsigned char contents(uint32_t n, size_t at)
{
	return (unsigned char)(n * 13 + at * 7 + at / 256);
}

static void write_frame(struct end *end, const uint8_t *to, uint16_t length)
{
	struct thole_driver_frame *frame = place_out(end, end->sent);

	frame->length = length;
	memcpy(frame->path, to, sizeof(frame->path));
	for (size_t i = 0; i < length && i < end->bind.place - sizeof(*frame); i++)
		frame->data[i] = contents(end->sent, i);
	end->sent++;
}

static int leave(struct end *end, uint32_t count)
{
	uint32_t first = (end->sent - count) % end->bind.places_out;
	int sent = ioctl(end->driver.fd, THOLE_DRIVER_SEND, (unsigned long)(first | count << 16));

	return sent < 0 ? -errno : sent;
}

static const struct thole_driver_frame *arrived(const struct end *end)
{
	const struct thole_driver_frame *frame = place_in(end, end->shared->read);

	return __atomic_load_n(&frame->stamp, __ATOMIC_ACQUIRE) == end->shared->read + 1 ? frame : NULL;
}

static void done(struct end *end)
{
	__atomic_store_n(&end->shared->read, end->shared->read + 1, __ATOMIC_RELEASE);
}

static const struct thole_driver_frame *await_at(const struct end *end, int line)
{
	struct pollfd poll_one = {.fd = end->driver.fd, .events = POLLIN};

	if (!arrived(end) && poll(&poll_one, 1, 60000) != 1)
		printf("from line %d:\n", line);
	CHECK(arrived(end) != NULL);
	return arrived(end);
}

#define await(end) await_at(end, __LINE__)

/* Nothing has come. What comes by veth does so before the call that sends it returns. */
static void nothing(const struct end *end)
{
	struct pollfd poll_one = {.fd = end->driver.fd, .events = POLLIN};

	CHECK(!arrived(end) && poll(&poll_one, 1, 0) == 0);
}

static void as_sent(const struct end *from, const struct thole_driver_frame *frame, uint32_t n, uint16_t length)
{
	CHECK(frame->length == length && memcmp(frame->path, from->path, sizeof(frame->path)) == 0);
	for (size_t i = 0; i < length; i++)
		CHECK(frame->data[i] == contents(n, i));
}

static void pass(struct end *from, struct end *to, uint16_t length)
{
	write_frame(from, to->path, length);
	CHECK(leave(from, 1) == 1);
	as_sent(from, await(to), from->sent - 1, length);
	done(to);
}

static void native_pair(struct end ends[2])
{
	for (unsigned i = 0; i < 2; i++)
		ends[i] = end_new(names[i], THOLE_DRIVER_ETHERTYPE, 0xabc00000 + i);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static void case_lengths(void)
{
	struct end ends[2];

	native_pair(ends);
	for (unsigned length = 0; length <= 1500 - HEAD; length++) {
		pass(&ends[0], &ends[1], (uint16_t)length);
		pass(&ends[1], &ends[0], (uint16_t)length);
	}
	nothing(&ends[0]);
	nothing(&ends[1]);
}

static void case_bursts(void)
{
	struct end ends[2];

	native_pair(ends);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < THOLE_DRIVER_FRAMES_OUT; i++)
			write_frame(&ends[0], ends[1].path, (uint16_t)(40 + i));
		CHECK(leave(&ends[0], THOLE_DRIVER_FRAMES_OUT) == THOLE_DRIVER_FRAMES_OUT);
		for (unsigned i = 0; i < THOLE_DRIVER_FRAMES_OUT; i++) {
			as_sent(&ends[0], await(&ends[1]), ends[0].sent - THOLE_DRIVER_FRAMES_OUT + i,
				(uint16_t)(40 + i));
			done(&ends[1]);
		}
	}
}

/* Who does not read loses what is new, and that is counted; then all goes on. */
static void case_full(void)
{
	const unsigned more = 100, all = THOLE_DRIVER_FRAMES_IN + more;
	struct end ends[2];

	native_pair(ends);
	for (unsigned i = 0; i < all; i++) {
		write_frame(&ends[0], ends[1].path, 64);
		CHECK(leave(&ends[0], 1) == 1);
	}
	CHECK(ends[1].shared->overflows == more);
	for (unsigned i = 0; i < THOLE_DRIVER_FRAMES_IN; i++) {
		as_sent(&ends[0], await(&ends[1]), i, 64);
		done(&ends[1]);
	}
	nothing(&ends[1]);
	pass(&ends[0], &ends[1], 64);
}

static void *send_later(void *argument)
{
	struct end *ends = argument;

	usleep(20000);
	write_frame(&ends[0], ends[1].path, 100);
	CHECK(leave(&ends[0], 1) == 1);
	return NULL;
}

static void case_sleep(void)
{
	struct end ends[2];

	native_pair(ends);
	for (unsigned i = 0; i < 20; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, send_later, ends) == 0);
		as_sent(&ends[0], await(&ends[1]), i, 100);
		done(&ends[1]);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

/* ---- Whose ----------------------------------------------------------------------------------- */

static void case_binding(void)
{
	struct end end = end_new("va", THOLE_DRIVER_ETHERTYPE, 1), other;
	struct thole_driver_bind bind;
	struct driver driver = driver_open();

	CHECK(bind_to(&end.driver, "vb", THOLE_DRIVER_ETHERTYPE, 2, &bind) == -EBUSY);
	CHECK(bind_to(&driver, "va", THOLE_DRIVER_ETHERTYPE, 1, &bind) == -EADDRINUSE);
	CHECK(bind_to(&driver, "va", 0x0800, 2, &bind) == -EPROTONOSUPPORT);
	CHECK(bind_to(&driver, "nothing", THOLE_DRIVER_ETHERTYPE, 2, &bind) == -ENODEV);
	CHECK(bind_to(&driver, "lo", THOLE_DRIVER_ETHERTYPE, 2, &bind) == -EADDRNOTAVAIL);
	CHECK(bind_to(&driver, "va", THOLE_DRIVER_ETHERTYPE_MXOE, 256, &bind) == -EINVAL);
	bind = (struct thole_driver_bind){.interface = if_nametoindex("va"), .ethertype = THOLE_DRIVER_ETHERTYPE,
					  .reserved = 1};
	CHECK(ioctl(driver.fd, THOLE_DRIVER_BIND, &bind) != 0 && errno == EINVAL);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_SEND, 1ul << 16) != 0 && errno == ENXIO);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_UNBIND) != 0 && errno == ENXIO);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, driver.fd, THOLE_DRIVER_AT_ETHER) == MAP_FAILED);
	CHECK(bind_to(&driver, "vb", THOLE_DRIVER_ETHERTYPE, 1, &bind) == 0); /* there it is free */
	CHECK(ioctl(driver.fd, THOLE_DRIVER_UNBIND) == 0);
	CHECK(bind_to(&driver, "va", THOLE_DRIVER_ETHERTYPE_MXOE, 1, &bind) == 0); /* of another type, too */
	CHECK(close(driver.fd) == 0);
	CHECK(ioctl(end.driver.fd, THOLE_DRIVER_UNBIND) == 0);
	other = end_new("va", THOLE_DRIVER_ETHERTYPE, 1); /* free again at once */
	end_free(&other);
}

static void case_stranger(void)
{
	struct end ends[2], other;
	uint8_t path[10];

	native_pair(ends);
	other = end_new("vb", THOLE_DRIVER_ETHERTYPE, 77);
	pass(&ends[0], &other, 40);
	nothing(&ends[1]);
	memcpy(path, ends[1].path, sizeof(path)); /* nobody's */
	path[9] ^= 64;
	write_frame(&ends[0], path, 40);
	CHECK(leave(&ends[0], 1) == 1);
	memcpy(path, ends[1].path, sizeof(path)); /* another host's */
	path[5] ^= 1;
	write_frame(&ends[0], path, 40);
	CHECK(leave(&ends[0], 1) == 1);
	CHECK(ends[0].shared->lost == 0);
	memset(path, 0xff, MAC); /* to everybody: not sent */
	write_frame(&ends[0], path, 40);
	CHECK(leave(&ends[0], 1) == 1 && ends[0].shared->lost == 1);
	nothing(&ends[1]);
	nothing(&other);
	pass(&ends[0], &ends[1], 40);
}

static void case_arguments(void)
{
	static const uint64_t wrong[] = {0, 1, 65ul << 16, UINT64_C(1) << 32 | 1 << 16, UINT64_MAX};
	struct end ends[2];

	native_pair(ends);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(ioctl(ends[0].driver.fd, THOLE_DRIVER_SEND, wrong[i]) != 0 && errno == EINVAL);
	write_frame(&ends[0], ends[1].path, 1500 - HEAD + 1);
	write_frame(&ends[0], ends[1].path, UINT16_MAX);
	CHECK(leave(&ends[0], 2) == 2 && ends[0].shared->too_long == 2);
	nothing(&ends[1]);
	/* any index of a first place is one of those that are there */
	write_frame(&ends[0], ends[1].path, 9);
	CHECK(ioctl(ends[0].driver.fd, THOLE_DRIVER_SEND, (ends[0].sent - 1 + 64 * 1000ul) | 1ul << 16) == 1);
	as_sent(&ends[0], await(&ends[1]), ends[0].sent - 1, 9);
}

/* A child may neither send nor bind; what it has mapped is shared, and that is all. */
static void case_child(void)
{
	struct end ends[2];
	int status;
	pid_t child;

	native_pair(ends);
	write_frame(&ends[0], ends[1].path, 40);
	child = fork();
	if (child == 0)
		_exit(leave(&ends[0], 1) == -EPERM ? 0 : 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	nothing(&ends[1]);
}

static void *descriptors_of_its_own(void *argument)
{
	CHECK(unshare(CLONE_FILES) == 0);
	return argument;
}

/* A thread that has descriptors of its own closes them when it ends, without memory then, and the process goes on. */
static void case_thread(void)
{
	struct end ends[2];
	pthread_t thread;
	int closed[2];
	char byte;

	native_pair(ends);
	CHECK(pipe(closed) == 0); /* behind the driver's descriptors, so closed after them */
	CHECK(pthread_create(&thread, NULL, descriptors_of_its_own, NULL) == 0 && pthread_join(thread, NULL) == 0);
	CHECK(close(closed[1]) == 0 && read(closed[0], &byte, 1) == 0);
	pass(&ends[0], &ends[1], 40);
	pass(&ends[1], &ends[0], 40);
}

/* ---- MXoE ------------------------------------------------------------------------------------ */

static void mxoe_frame(struct end *from, const struct end *to, const uint8_t *bytes, size_t count, uint16_t length)
{
	struct thole_driver_frame *frame;

	write_frame(from, to->path, length);
	frame = place_out(from, from->sent - 1);
	memcpy(frame->data, bytes, count);
	CHECK(leave(from, 1) == 1);
}

#define MXOE(from, to, length, ...) \
	mxoe_frame(from, to, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), length)

static void case_mxoe(void)
{
	struct end one = end_new("va", THOLE_DRIVER_ETHERTYPE_MXOE, 3);
	struct end two = end_new("vb", THOLE_DRIVER_ETHERTYPE_MXOE, 5);
	struct end three = end_new("vb", THOLE_DRIVER_ETHERTYPE_MXOE, 6);
	struct end all = two;
	uint32_t lost = 0;

	/* by the number of the destination */
	MXOE(&one, &two, 100, 0, 0, 37, 5, 3);
	CHECK(await(&two)->data[3] == 5 && memcmp(arrived(&two)->path, one.path, MAC) == 0);
	done(&two);
	nothing(&three);
	/* in another's name */
	MXOE(&one, &two, 100, 0, 0, 37, 5, 4);
	CHECK(one.shared->lost == ++lost);
	/* a pull's magic has to be its own, and what answers it goes by that */
	MXOE(&one, &two, 34, 0, 0, MXOE_PULL, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 9, 9,
	     0x80 ^ 4);
	CHECK(one.shared->lost == ++lost);
	MXOE(&one, &two, 34, 0, 0, MXOE_PULL, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 9, 9,
	     0x80 ^ 3);
	CHECK(await(&two)->length == 34);
	done(&two);
	MXOE(&one, &two, 50, 0, 0, MXOE_REPLY, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 9, 9, 0x80 ^ 6);
	CHECK(await(&three)->data[2] == MXOE_REPLY);
	done(&three);
	nothing(&two);
	/* refusals: for nobody's number everybody may speak, for another's only that */
	MXOE(&three, &one, 40, 0, 0, MXOE_NACK, 5, 0, 0, 0, 0, 0, 0, 0, 3);
	CHECK(three.shared->lost == 1);
	MXOE(&three, &one, 40, 0, 0, MXOE_NACK, 9, 0, 0, 0, 0, 0, 0, 0, 3);
	CHECK(await(&one)->data[3] == 9);
	done(&one);
	/* to a number that nobody has: one hears of it, and not what it was */
	MXOE(&one, &two, 200, 0, 0, 37, 99, 3);
	if (!arrived(&two))
		all = three;
	CHECK(await(&all)->length == 200 && arrived(&all)->data[33] == contents(one.sent - 1, 33));
	for (unsigned i = 34; i < 200; i++)
		CHECK(arrived(&all)->data[i] == 0);
	done(&all);
	nothing(&two);
	nothing(&three);
	/* of the host: to all, and to everybody */
	memset(two.path, 0xff, MAC);
	MXOE(&one, &two, 50, 0xff, 0xff, 1);
	CHECK(await(&two)->data[2] == 1 && await(&three)->data[2] == 1);
	MXOE(&one, &two, 50, 0xff, 0xff, 37, 5, 3);
	CHECK(one.shared->lost == ++lost);
	/* too short to be one */
	MXOE(&one, &three, 17, 0, 0, 37, 6, 3);
	CHECK(one.shared->lost == ++lost);
}

/* ---- Interfaces, as root --------------------------------------------------------------------- */

static void command(const char *text)
{
	if (system(text) != 0) {
		printf("failed: %s\n", text);
		fflush(stdout);
		_exit(1);
	}
}

static void case_down(void)
{
	struct end ends[2];

	native_pair(ends);
	command("ip link set va down");
	write_frame(&ends[0], ends[1].path, 40);
	CHECK(leave(&ends[0], 1) == 1 && ends[0].shared->lost == 1);
	command("ip link set va up");
	for (bool up = false; !up;) { /* it takes a moment until the carrier is there */
		write_frame(&ends[0], ends[1].path, 40);
		CHECK(leave(&ends[0], 1) == 1);
		up = arrived(&ends[1]) != NULL;
		usleep(1000);
	}
	CHECK(ends[0].shared->unbound == 0);
}

static void case_shrunk(void)
{
	struct end ends[2];

	native_pair(ends);
	command("ip link set va mtu 1000");
	write_frame(&ends[0], ends[1].path, 1000 - HEAD + 1);
	CHECK(leave(&ends[0], 1) == 1 && ends[0].shared->too_long == 1);
	pass(&ends[0], &ends[1], 1000 - HEAD);
	command("ip link set va mtu 4000 && ip link set vb mtu 4000");
	write_frame(&ends[0], ends[1].path, 1600); /* the interface would take it, but there is no such place */
	CHECK(leave(&ends[0], 1) == 1 && ends[0].shared->too_long == 2);
	command("ip link set va mtu 1500 && ip link set vb mtu 1500");
}

static void unbound(struct end *end, uint32_t interface)
{
	struct thole_driver_events *events = mmap(NULL, sizeof(*events), PROT_READ | PROT_WRITE, MAP_SHARED,
						  end->driver.fd, THOLE_DRIVER_AT_EVENTS);
	struct pollfd poll_one = {.fd = end->driver.fd, .events = POLLIN};

	CHECK(end->shared->unbound == 1);
	CHECK(poll(&poll_one, 1, 60000) == 1 && events->events[0].stamp == 1);
	CHECK(events->events[0].kind == THOLE_DRIVER_EVENT_UNBOUND && events->events[0].cookie == interface);
	CHECK(leave(end, 1) == -ENODEV);
	CHECK(ioctl(end->driver.fd, THOLE_DRIVER_UNBIND) == 0);
}

static void events_begin(struct end *end)
{
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, end->driver.fd, THOLE_DRIVER_AT_EVENTS) != MAP_FAILED);
}

static void make_pair(void)
{
	command("ip link add va type veth peer name vb && ip link set va up && ip link set vb up");
}

static void case_removed(void)
{
	struct end ends[2];
	uint32_t interface;

	native_pair(ends);
	events_begin(&ends[0]);
	interface = if_nametoindex("va");
	write_frame(&ends[0], ends[1].path, 40);
	command("ip link del va");
	unbound(&ends[0], interface);
	CHECK(ends[1].shared->unbound == 1);
	make_pair();
	CHECK(bind_to(&ends[0].driver, "va", THOLE_DRIVER_ETHERTYPE, 1, &ends[0].bind) == 0);
}

static void case_moved(void)
{
	struct end ends[2];
	uint32_t interface;

	native_pair(ends);
	events_begin(&ends[0]);
	interface = if_nametoindex("va");
	write_frame(&ends[0], ends[1].path, 40);
	command("ip netns add there && ip link set va netns there");
	unbound(&ends[0], interface);
	CHECK(ends[1].shared->unbound == 0);
	command("ip netns del there"); /* and the pair, in a while; drivers hear of it when its names are gone */
	for (unsigned i = 0; i < 60000 && !ends[1].shared->unbound; i++)
		usleep(1000);
	CHECK(ends[1].shared->unbound == 1);
	make_pair();
}

/* An interface of another namespace's cannot be had, whatever its index. */
static void case_elsewhere(void)
{
	uint32_t interface = if_nametoindex("va");
	struct thole_driver_bind bind = {.interface = interface, .ethertype = THOLE_DRIVER_ETHERTYPE, .endpoint = 4};
	struct driver driver = driver_open();

	CHECK(unshare(CLONE_NEWNET) == 0);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_BIND, &bind) != 0 && errno == ENODEV);
	command("ip link add va type veth peer name vb && ip link set va up && ip link set vb up");
	CHECK(bind_to(&driver, "va", THOLE_DRIVER_ETHERTYPE, 4, &bind) == 0);
}

enum { LARGE = 64 << 20, KILLED_PINS = 2000 /* more than processors keep to themselves of that number */ };

/* Killed while a worker pins its memory, which is not touched yet. Its number is free as soon as anybody can know that
 * it has ended, and the worker does not go on. */
static void case_killed(void)
{
	struct driver driver = driver_open();
	struct thole_driver_bind bind;
	uint64_t first, pins, before;
	int ready[2];
	pid_t child;
	char byte;

	CHECK(pipe(ready) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct end end = end_new("va", THOLE_DRIVER_ETHERTYPE_MXOE, 9);
		uint32_t region = declare(&end.driver, memory_new(LARGE), LARGE, THOLE_DRIVER_WRITE);
		struct thole_driver_pin answer;

		CHECK(region && pin(&end.driver, region, LARGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
		CHECK(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	first = pins = count_of_kernel("nr_foll_pin_acquired");
	CHECK(bind_to(&driver, "va", THOLE_DRIVER_ETHERTYPE_MXOE, 9, &bind) == 0);
	do {
		before = pins;
		usleep(100000);
		pins = count_of_kernel("nr_foll_pin_acquired");
	} while (pins > before);
	CHECK(pins - first < KILLED_PINS);
}

/* ---- Nonsense, as root ----------------------------------------------------------------------- */

static uint64_t next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* Almost right, and anything. */
static size_t nonsense(uint64_t *state, uint8_t *frame)
{
	bool mxoe = next(state) & 1;
	size_t length = ETH_HLEN + next(state) % (next(state) % 4 ? 64 : 1486);

	for (size_t i = 0; i < length; i++)
		frame[i] = (uint8_t)next(state);
	if (next(state) % 8)
		mac_of("vb", frame);
	else
		memset(frame, 0xff, MAC);
	frame[12] = mxoe ? 0x86 : 0x88;
	frame[13] = mxoe ? 0xdf : 0xb5;
	if (!mxoe && next(state) % 2)
		memcpy(frame + ETH_HLEN, "\xab\xc0\0\1", 4);
	if (!mxoe && next(state) % 2)
		memcpy(frame + ETH_HLEN + 8, "\0\x20", 2);
	if (mxoe && next(state) % 2)
		frame[ETH_HLEN + 2] = (uint8_t)(next(state) % 50);
	if (mxoe && next(state) % 2)
		frame[ETH_HLEN + 3] = (uint8_t)(next(state) % 8);
	return length;
}

static void flood(unsigned long count)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex("va"), .sll_halen = MAC};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	uint64_t state = count;

	CHECK(fd >= 0);
	for (unsigned long i = 0; i < count; i++) {
		uint8_t frame[1514];
		size_t length = nonsense(&state, frame);

		(void)sendto(fd, frame, length, 0, (struct sockaddr *)&to, sizeof(to));
	}
	close(fd);
}

/* All that comes at an interface goes back: so endpoints of the interface at the other end reach each other. */
static void reflect(const char *interface)
{
	struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
				   .sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), bytes = 64 << 20;
	uint8_t frame[9216];

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) == 0);
	for (;;) {
		struct sockaddr_ll from;
		socklen_t size = sizeof(from);
		ssize_t length = recvfrom(fd, frame, sizeof(frame), 0, (struct sockaddr *)&from, &size);

		if (length > 0 && from.sll_pkttype != PACKET_OUTGOING)
			(void)send(fd, frame, (size_t)length, 0);
	}
}

/* Among it, what is right still arrives; and what does arrive is not longer than its place. */
static void case_nonsense(void)
{
	struct end ends[2], mxoe = end_new("vb", THOLE_DRIVER_ETHERTYPE_MXOE, 5);
	unsigned strange = 0;

	native_pair(ends);
	for (unsigned round = 0; round < 200; round++) {
		flood(50 + round);
		for (unsigned i = 0; i < 2; i++) {
			struct end *end = i ? &mxoe : &ends[1];

			for (const struct thole_driver_frame *frame; (frame = arrived(end)); strange++) {
				CHECK(frame->length <= end->bind.place - sizeof(*frame));
				done(end);
			}
		}
		pass(&ends[0], &ends[1], (uint16_t)round);
	}
	CHECK(strange > 0 && ends[1].shared->overflows == 0);
}

/* ---- All ------------------------------------------------------------------------------------- */

static const struct driver_case cases[] = {
	{"lengths", case_lengths, false},     {"bursts", case_bursts, false},   {"full", case_full, false},
	{"sleep", case_sleep, false},         {"binding", case_binding, false}, {"stranger", case_stranger, false},
	{"arguments", case_arguments, false}, {"child", case_child, false},     {"thread", case_thread, false},
	{"mxoe", case_mxoe, false},
	{"down", case_down, true},            {"shrunk", case_shrunk, true},    {"removed", case_removed, true},
	{"moved", case_moved, true},          {"elsewhere", case_elsewhere, true}, {"killed", case_killed, true},
	{"nonsense", case_nonsense, true},
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--flood") == 0) {
		flood(strtoul(argv[2], NULL, 0));
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--reflect") == 0)
		reflect(argv[2]);
	cases_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	return 0;
}
