/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls to /dev/thole at random, likely ones and junk, from threads that share descriptors and memory, while others
 * change the memory below, write nonsense into the rings of events and the ways of connections, and close descriptors.
 *
 *     thole-driver-fuzz SEED CALLS
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "driver.h"
#include "transport/datagram/wire/codec.h"

enum { THREADS = 4, DRIVERS = 3, PORT = 4100, WINDOWS = 6, FRAME = 1000, FRAME_MXOE = 4096 };

#define AREA (96 * PAGE)
#define FRAMES (200 * PAGE)

static struct driver drivers[DRIVERS];
static uint32_t *rings[DRIVERS]; /* of events; one is not mapped */
static uint64_t *ways[DRIVERS];  /* of connections; one is not mapped */
static unsigned char *area;
static int sockets[2 * DRIVERS]; /* for records, then for bulk */
static unsigned long calls, seed;

static uint64_t next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static uint64_t below(uint64_t *state, uint64_t bound)
{
	return next(state) % bound;
}

/* Most are small, some are any number. */
static uint64_t number(uint64_t *state, uint64_t bound)
{
	return below(state, 16) ? below(state, bound) : next(state) >> below(state, 64);
}

static uint64_t address(uint64_t *state)
{
	return below(state, 16) ? (uintptr_t)area + below(state, AREA) : number(state, PAGE);
}

static void change(uint64_t *state)
{
	unsigned char *at = area + below(state, AREA / PAGE) * PAGE;
	size_t length = (1 + below(state, 4)) * PAGE;

	if (at + length > area + AREA)
		return;
	switch (below(state, 8)) {
	case 0:
		(void)mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 1:
		(void)mprotect(at, length, PROT_READ);
		break;
	case 2:
		/* As munmap, but nobody else's memory comes there. */
		(void)mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 3:
		(void)madvise(at, length, MADV_PAGEOUT);
		break;
	case 4:
		if (below(state, 16) == 0) {
			pid_t child = fork();

			if (child == 0)
				_exit(0);
			if (child > 0)
				(void)waitpid(child, NULL, 0);
		}
		break;
	default:
		(void)madvise(at, length, MADV_DONTNEED);
	}
}

/* What a program may write into the ring of its events, and to its ways. */
static void scribble(uint64_t *state)
{
	uint32_t *ring = rings[below(state, DRIVERS)];
	uint64_t words = sizeof(struct thole_driver_events) / sizeof(*ring), *way = ways[below(state, DRIVERS)];

	if (way)
		way[below(state, 8 * sizeof(struct thole_driver_way) / sizeof(*way))] = next(state);
	if (!ring)
		return;
	if (below(state, 2))
		ring[0] = (uint32_t)number(state, 4 * THOLE_DRIVER_EVENTS);
	else
		ring[below(state, words)] = (uint32_t)next(state);
}

/* What was offered last by any thread, and views of it at places of their own and over the area. */
static struct thole_driver_offer told;

static void view(uint64_t *state, const struct driver *driver, uint32_t id)
{
	struct thole_driver_attach request = {.number = told.number, .key = {told.key[0], told.key[1]}};
	struct thole_driver_offer offer = {.id = id};
	uint64_t length, sum = 0;
	int protection;
	char *memory;

	if (below(state, 4) == 0)
		(void)ioctl(driver->fd, THOLE_DRIVER_WITHDRAW, (unsigned long)id);
	if (ioctl(driver->fd, THOLE_DRIVER_OFFER, &offer) == 0)
		told = offer;
	request.flags = (uint32_t)below(state, 2);
	if (ioctl(driver->fd, THOLE_DRIVER_ATTACH, &request) != 0)
		return;
	protection = request.flags ? PROT_READ | PROT_WRITE : PROT_READ;
	length = (request.offset + request.length + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (below(state, 4) == 0 && length <= AREA)
		memory = mmap(area, length, PROT_READ, MAP_SHARED | MAP_FIXED, request.fd, 0);
	else
		memory = mmap(NULL, length, protection, MAP_SHARED, request.fd, 0);
	close(request.fd);
	if (memory == MAP_FAILED)
		return;
	for (int i = 0; i < 20 && (unsigned char *)memory != area; i++) { /* there others may map other things */
		volatile char *at = memory + below(state, length);

		sum += (uint64_t)*at;
		if (request.flags && at >= memory + PAGE)
			*at = (char)sum;
	}
	/* Whole, since a view cannot be cut; the area's own memory comes there again. */
	if ((unsigned char *)memory == area)
		(void)mmap(area, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else
		(void)munmap(memory, length);
}

/* ---- Bulk, among the drivers by the loopback interface --------------------------------------------- */

static struct sockaddr_in place(unsigned i)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + i)),
				    .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void open_socket(unsigned i)
{
	struct sockaddr_in name = place(i);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	(void)bind(fd, (struct sockaddr *)&name, sizeof(name));
	sockets[i] = fd;
}

static uint32_t index_of(uint64_t from, uint64_t to)
{
	return (uint32_t)(100 + 10 * from + to);
}

/* What a peer without tags may say; mostly. */
static void frame(uint64_t *state)
{
	uint64_t from = below(state, DRIVERS), to = below(state, DRIVERS);
	bool data = below(state, 2);
	struct sockaddr_in name = place((unsigned)(data ? DRIVERS + to : to));
	struct packet packet = {.type = data ? PACKET_DATA : PACKET_PULL, .to = index_of(to, from),
				.session = index_of(to, from)};
	uint8_t bytes[2000] = {0};
	size_t head;

	if (data) {
		packet.data.transfer = number(state, 64);
		packet.data.offset = below(state, 8) * FRAME;
		packet.length = FRAME;
	} else {
		packet.pull.window = number(state, WINDOWS);
		packet.pull.transfer = number(state, 64);
		packet.pull.offset = number(state, 4 * PAGE);
		packet.pull.length = (uint32_t)number(state, 20 * PAGE);
		packet.pull.frame = (uint32_t)number(state, 2000);
		packet.pull.wanted = below(state, 2) ? next(state) : 0;
	}
	head = codec_native.encode(&packet, bytes);
	if (below(state, 8) == 0)
		bytes[below(state, 64)] = (uint8_t)next(state);
	(void)sendto(sockets[0], bytes, data ? head + FRAME : head, 0, (struct sockaddr *)&name, sizeof(name));
}

static void hand_over(uint64_t *state, unsigned driver)
{
	unsigned i = (unsigned)below(state, 2 * DRIVERS);
	struct thole_driver_socket socket = {.fd = sockets[i], .channel = i / DRIVERS};

	if (below(state, 8))
		driver = i % DRIVERS;
	else
		socket.fd = (int)number(state, 20);
	switch (below(state, 8)) {
	case 0:
		(void)ioctl(drivers[driver].fd, THOLE_DRIVER_SOCKET_BACK, (unsigned long)socket.fd);
		break;
	case 1:
		close(sockets[i]);
		open_socket(i);
		break;
	default:
		(void)ioctl(drivers[driver].fd, THOLE_DRIVER_SOCKET, &socket);
	}
}

static void know(uint64_t *state, int fd, unsigned driver)
{
	unsigned peer = (unsigned)below(state, DRIVERS);
	struct thole_driver_connection wanted = {
		.session = index_of(driver, peer), .index = index_of(driver, peer),
		.peer_session = index_of(peer, driver), .peer_index = index_of(peer, driver),
		.address = {[10] = 255, 255, 127, 0, 0, 1}, .records_port = (uint16_t)(PORT + peer),
		.bulk_port = (uint16_t)(PORT + DRIVERS + peer), .frame_max = (uint32_t)(548 + number(state, 1000)),
		.mode = below(state, 16) == 0};

	if (below(state, 16) == 0)
		((unsigned char *)&wanted)[below(state, sizeof(wanted))] = (unsigned char)next(state);
	(void)ioctl(fd, THOLE_DRIVER_CONNECTION, &wanted);
}

/* A descriptor that is closed amid what it was handed. */
static void visit(uint64_t *state)
{
	unsigned i = (unsigned)below(state, DRIVERS);
	struct thole_driver_socket records = {.fd = sockets[i], .channel = 0};
	struct thole_driver_socket bulk = {.fd = sockets[DRIVERS + i], .channel = 1};
	struct thole_driver_window window = {.window = 1, .length = 4 * PAGE, .connection = 1};
	struct thole_driver_fetch fetch = {.window = 1, .transfer = 1, .length = 4 * PAGE, .connection = 1,
					   .frame = FRAME};
	struct driver own = {.fd = open("/dev/thole", O_RDWR)};

	if (own.fd < 0)
		return;
	window.region = fetch.region = declare(&own, area, 8 * PAGE, THOLE_DRIVER_WRITE);
	(void)ioctl(own.fd, THOLE_DRIVER_SOCKET, &records);
	(void)ioctl(own.fd, THOLE_DRIVER_SOCKET, &bulk);
	know(state, own.fd, i);
	(void)ioctl(own.fd, THOLE_DRIVER_WINDOW, &window);
	(void)ioctl(own.fd, THOLE_DRIVER_FETCH, &fetch);
	for (unsigned n = 0; n < 8; n++)
		frame(state);
	close(own.fd);
}

/* All of it right, of one region each: so calls at random begin, and come back to that, that bulk moves. */
static uint32_t agreed[DRIVERS];

static void agree(uint64_t *state)
{
	for (unsigned i = 0; i < DRIVERS; i++) {
		uint32_t region = declare(&drivers[i], area, AREA, THOLE_DRIVER_WRITE);

		if (region)
			agreed[i] = region;
		for (unsigned channel = 0; channel < 2; channel++) {
			struct thole_driver_socket socket = {.fd = sockets[channel * DRIVERS + i], .channel = channel};

			(void)ioctl(drivers[i].fd, THOLE_DRIVER_SOCKET, &socket);
		}
		for (unsigned n = 0; n < 16; n++)
			know(state, drivers[i].fd, i);
		for (uint32_t connection = 1; connection <= DRIVERS; connection++) {
			for (uint64_t name = 0; name < WINDOWS; name++) {
				struct thole_driver_window window = {.window = name, .length = 8 * PAGE,
								     .connection = connection, .region = region};

				(void)ioctl(drivers[i].fd, THOLE_DRIVER_WINDOW, &window);
			}
		}
	}
}

static void move(uint64_t *state, uint32_t id)
{
	unsigned driver = (unsigned)below(state, DRIVERS);
	uint32_t connection = (uint32_t)(1 + number(state, 3)), region = below(state, 4) ? agreed[driver] : id;
	struct thole_driver_window window = {.window = below(state, WINDOWS), .offset = number(state, 64),
					     .length = number(state, 8 * PAGE), .connection = connection,
					     .region = region};
	struct thole_driver_fetch fetch = {
		.window = number(state, WINDOWS), .transfer = number(state, 64), .offset = FRAME * below(state, 2),
		.length = number(state, 4 * PAGE), .region_offset = number(state, 64), .connection = connection,
		.region = region, .frame = below(state, 8) ? FRAME : (uint32_t)next(state)};
	struct thole_driver_name name = {.name = number(state, 64), .connection = connection};
	int fd = drivers[driver].fd;

	switch (below(state, 10)) {
	case 0:
		hand_over(state, driver);
		break;
	case 1:
		know(state, fd, driver);
		break;
	case 2:
		(void)ioctl(fd, below(state, 4) ? THOLE_DRIVER_FETCH_END : THOLE_DRIVER_WINDOW_END, &name);
		break;
	case 3:
		if (below(state, 8) == 0)
			(void)ioctl(fd, THOLE_DRIVER_CONNECTION_END, (unsigned long)connection);
		else if (below(state, 8) == 0)
			visit(state);
		else if (below(state, 16) == 0)
			agree(state);
		break;
	case 4:
	case 5:
		(void)ioctl(fd, THOLE_DRIVER_WINDOW, &window);
		break;
	case 6:
	case 7:
		(void)ioctl(fd, THOLE_DRIVER_FETCH, &fetch);
		break;
	default:
		frame(state);
	}
}

/* ---- Bulk of MXoE, between the ends of a veth pair (va, vb) where there is one ---------------------- */

enum { HOSTS = 2, HOST_NUMBER = 7 };

static const char *const ends[HOSTS] = {"va", "vb"};

static struct host {
	struct driver driver;
	uint8_t mac[MAC];
	int packets; /* a packet socket, by which the other one gets junk */
	uint32_t region;
} hosts[HOSTS];

static uint64_t host_transfer(uint64_t *state, unsigned own)
{
	return number(state, 32) << 32 | (UINT64_C(0x21071980) ^ (HOST_NUMBER + own));
}

static void host_bind(unsigned own)
{
	struct thole_driver_bind bind = {.interface = if_nametoindex(ends[own]),
					 .ethertype = THOLE_DRIVER_ETHERTYPE_MXOE, .endpoint = HOST_NUMBER + own};

	(void)ioctl(hosts[own].driver.fd, THOLE_DRIVER_BIND, &bind);
}

static void host_know(uint64_t *state, unsigned own)
{
	struct thole_driver_connection wanted = {.session = 50 + own, .peer_session = 50 + !own,
						 .index = HOST_NUMBER + own, .peer_index = HOST_NUMBER + !own,
						 .frame_max = 9000, .codec = THOLE_DRIVER_CODEC_MXOE};

	memcpy(wanted.address, hosts[!own].mac, MAC);
	if (below(state, 16) == 0)
		((unsigned char *)&wanted)[below(state, sizeof(wanted))] = (unsigned char)next(state);
	(void)ioctl(hosts[own].driver.fd, THOLE_DRIVER_CONNECTION, &wanted);
}

static void host_window(uint64_t *state, unsigned own)
{
	struct thole_driver_window window = {.window = below(state, WINDOWS), .offset = number(state, PAGE),
					     .length = number(state, 64 * PAGE), .connection = 1,
					     .region = hosts[own].region};

	(void)ioctl(hosts[own].driver.fd, THOLE_DRIVER_WINDOW, &window);
}

static void host_fetch(uint64_t *state, unsigned own)
{
	struct thole_driver_fetch fetch = {
		.window = below(state, WINDOWS) | (below(state, 4) ? 0 : number(state, PAGE) << 16),
		.transfer = host_transfer(state, own), .length = number(state, 64 * PAGE),
		.region_offset = number(state, 16 * PAGE), .connection = 1, .region = hosts[own].region,
		.frame = below(state, 8) ? FRAME_MXOE : (uint32_t)next(state)};

	(void)ioctl(hosts[own].driver.fd, THOLE_DRIVER_FETCH, &fetch);
}

/* What the other host may say, mostly. */
static void host_frame(uint64_t *state, unsigned to)
{
	bool data = below(state, 2);
	struct packet packet = {.type = data ? PACKET_DATA : PACKET_PULL, .to = HOST_NUMBER + to,
				.from = HOST_NUMBER + !to, .session = 50 + to};
	uint8_t bytes[14 + PACKET_HEAD_MAX + FRAME_MXOE] = {0};
	size_t length;

	if (data) {
		packet.data.transfer = host_transfer(state, to);
		packet.data.offset = below(state, 64) * FRAME_MXOE;
		packet.length = FRAME_MXOE;
	} else {
		packet.pull = (struct packet_pull){.window = number(state, WINDOWS), .transfer = next(state),
						   .total = number(state, 64 * PAGE), .frame = FRAME_MXOE,
						   .offset = number(state, 64 * PAGE),
						   .length = (uint32_t)below(state, 9 * PAGE)};
		packet_pull_place(&packet.pull);
	}
	memcpy(bytes, hosts[to].mac, MAC);
	memcpy(bytes + MAC, hosts[!to].mac, MAC);
	bytes[12] = 0x86;
	bytes[13] = 0xdf;
	length = 14 + codec_mxoe.encode(&packet, bytes + 14) + packet.length;
	if (below(state, 8) == 0)
		bytes[14 + below(state, 48)] = (uint8_t)next(state);
	if (below(state, 8) == 0)
		length = 14 + below(state, length - 13);
	(void)send(hosts[!to].packets, bytes, length, MSG_DONTWAIT);
}

/* Both know each other, and have windows. */
static void host_agree(uint64_t *state)
{
	for (unsigned own = 0; own < HOSTS; own++) {
		uint32_t region = declare(&hosts[own].driver, area, AREA, THOLE_DRIVER_WRITE);

		if (region)
			hosts[own].region = region;
		host_bind(own);
		for (unsigned n = 0; n < 4; n++)
			host_know(state, own);
		for (unsigned n = 0; n < 2 * WINDOWS; n++)
			host_window(state, own);
	}
}

static void host_move(uint64_t *state)
{
	unsigned own = (unsigned)below(state, HOSTS);
	struct thole_driver_name name = {.name = below(state, 2) ? below(state, WINDOWS) : host_transfer(state, own),
					 .connection = 1};
	int fd = hosts[own].driver.fd;

	switch (below(state, 10)) {
	case 0:
		host_know(state, own);
		break;
	case 1:
		(void)ioctl(fd, below(state, 2) ? THOLE_DRIVER_FETCH_END : THOLE_DRIVER_WINDOW_END, &name);
		break;
	case 2:
		if (below(state, 16) == 0)
			(void)ioctl(fd, THOLE_DRIVER_CONNECTION_END, 1ul);
		else if (below(state, 32) == 0)
			(void)ioctl(fd, THOLE_DRIVER_UNBIND);
		else if (below(state, 64) == 0)
			(void)forget(&hosts[own].driver, hosts[own].region);
		else if (below(state, 16) == 0)
			host_agree(state);
		break;
	case 3:
	case 4:
		host_window(state, own);
		break;
	case 5:
	case 6:
		host_fetch(state, own);
		break;
	default:
		host_frame(state, own);
	}
}

static void host_open(unsigned own)
{
	struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(ends[own])};

	mac_of(ends[own], hosts[own].mac);
	hosts[own].driver = driver_open();
	hosts[own].packets = socket(AF_PACKET, SOCK_RAW, 0);
	CHECK(bind(hosts[own].packets, (struct sockaddr *)&name, sizeof(name)) == 0);
}

/* ---- Frames of our own, over a veth pair (va, vb) where there is one ------------------------------- */

static void ethernet(uint64_t *state, const struct driver *driver)
{
	struct thole_driver_bind bind = {
		.interface = if_nametoindex(below(state, 2) ? "va" : "vb"),
		.ethertype = below(state, 2) ? THOLE_DRIVER_ETHERTYPE : THOLE_DRIVER_ETHERTYPE_MXOE,
		.endpoint = (uint32_t)number(state, 6),
	};
	uint32_t *words;

	if (below(state, 8) == 0)
		bind.interface = (uint32_t)number(state, 8);
	(void)ioctl(driver->fd, THOLE_DRIVER_BIND, &bind);
	words = mmap(NULL, FRAMES, PROT_READ | PROT_WRITE, MAP_SHARED, driver->fd, THOLE_DRIVER_AT_ETHER);
	for (unsigned i = 0; i < 2000 && words != MAP_FAILED; i++)
		words[below(state, FRAMES / sizeof(*words))] = (uint32_t)number(state, 2000);
	for (unsigned i = 0; i < 8; i++)
		(void)ioctl(driver->fd, THOLE_DRIVER_SEND, number(state, 64) | number(state, 65) << 16);
	if (words != MAP_FAILED)
		(void)munmap(words, FRAMES);
	if (below(state, 2))
		(void)ioctl(driver->fd, THOLE_DRIVER_UNBIND);
}

static void call(uint64_t *state)
{
	const struct driver *driver = drivers + below(state, DRIVERS);
	uint32_t id = (uint32_t)number(state, 24), flags = (uint32_t)(below(state, 8) ? below(state, 8) : next(state));
	struct thole_driver_segment segments[4];
	struct thole_driver_pin answer;
	unsigned char junk[64];

	switch (below(state, 16)) {
	case 0:
		for (unsigned i = 0; i < 4; i++)
			segments[i] = (struct thole_driver_segment){address(state), number(state, 20 * PAGE)};
		(void)declare_vector(driver, segments, (uint32_t)number(state, 5), flags);
		break;
	case 1:
		(void)forget(driver, id);
		break;
	case 2:
	case 3:
		(void)pin(driver, id, number(state, 20 * PAGE), flags, &answer);
		break;
	case 4:
		for (unsigned i = 0; i < sizeof(junk); i++)
			junk[i] = (unsigned char)next(state);
		(void)ioctl(driver->fd, _IOC(below(state, 4), 0xE7, 16 * below(state, 4) + below(state, 7),
				       below(state, 64)), junk);
		break;
	case 5:
		scribble(state);
		(void)poll(&(struct pollfd){.fd = driver->fd, .events = POLLIN}, 1, 0);
		break;
	case 6:
		view(state, driver, id);
		break;
	case 7:
		if (below(state, 4) == 0)
			ethernet(state, driver);
		else if (hosts[0].region)
			host_move(state);
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		move(state, id);
		break;
	default:
		(void)copy(driver, id, number(state, 20 * PAGE), (void *)(uintptr_t)address(state),
			   number(state, 3 * PAGE), flags);
	}
}

static void *work(void *argument)
{
	uint64_t state = seed * THREADS + (uintptr_t)argument;

	for (unsigned long i = 0; i < calls; i++) {
		if (below(&state, 8))
			call(&state);
		else
			change(&state);
	}
	return NULL;
}

static void report(const struct thole_driver_shared *shared)
{
	printf("pins %llu invalidations %llu late %llu sent %llu received %llu miss %llu\n",
	       (unsigned long long)shared->pins, (unsigned long long)shared->invalidations,
	       (unsigned long long)shared->late, (unsigned long long)shared->sent,
	       (unsigned long long)shared->received, (unsigned long long)shared->overlap_miss);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	CHECK(argc == 3);
	seed = strtoul(argv[1], NULL, 0);
	calls = strtoul(argv[2], NULL, 0);
	area = memory_new(AREA);
	for (unsigned i = 0; i < DRIVERS; i++)
		drivers[i] = driver_open();
	for (unsigned i = 1; i < DRIVERS; i++) {
		rings[i] = mmap(NULL, sizeof(struct thole_driver_events), PROT_READ | PROT_WRITE, MAP_SHARED,
				drivers[i].fd, THOLE_DRIVER_AT_EVENTS);
		ways[i] = mmap(NULL, THOLE_DRIVER_CONNECTIONS * sizeof(struct thole_driver_way), PROT_READ | PROT_WRITE,
			       MAP_SHARED, drivers[i].fd, THOLE_DRIVER_AT_WAYS);
		CHECK(rings[i] != MAP_FAILED && ways[i] != MAP_FAILED);
	}
	for (unsigned i = 0; i < 2 * DRIVERS; i++)
		open_socket(i);
	agree(&(uint64_t){seed});
	if (if_nametoindex("vb")) {
		for (unsigned own = 0; own < HOSTS; own++)
			host_open(own);
		host_agree(&(uint64_t){seed});
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (unsigned i = 0; i < DRIVERS; i++) {
		for (uint32_t id = 1; id < THOLE_DRIVER_REGIONS; id++)
			(void)forget(&drivers[i], id);
		CHECK(drivers[i].shared->locked == 0 && drivers[i].shared->pins == drivers[i].shared->unpins);
	}
	for (unsigned own = 0; own < HOSTS && hosts[0].region; own++) {
		const struct thole_driver_shared *shared = hosts[own].driver.shared;

		for (uint32_t id = 1; id < THOLE_DRIVER_REGIONS; id++)
			(void)forget(&hosts[own].driver, id);
		CHECK(shared->locked == 0 && shared->pins == shared->unpins);
		report(shared);
	}
	CHECK(pages_pinned() == 0);
	for (unsigned i = 0; i < DRIVERS; i++)
		report(drivers[i].shared);
	return 0;
}
