/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk of MXoE by the driver, over a veth pair: what it says and takes, judged by a host at the other end that has no
 * driver but a packet socket. What is asked for comes in its place and what is exposed goes out, also where frames are
 * lost, memory goes away and interfaces end; what nobody who is right would send has no effect.
 *
 *     thole-driver-pull [CASE...]      as root; each case in a process of its own, with a pair of its own
 *     thole-driver-pull cost           the driver at both ends, in a guest whose clock goes by the instruction: prints
 *                                      a line "row NAME VALUE" for bench/driver.py, in instructions a byte
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "../../bench/instructions.h"
#include "driver.h"
#include "transport/datagram/wire/codec.h"

enum {
	OURS = 3, THEIRS = 5, /* endpoints */
	HOST_INDEX = 7,
	SESSION = 0x11111111, PEER_SESSION = 0x22222222,
	LENGTH = 300000,
	HALF = 2 << 20, /* of the region */
	PLACE = 1000, /* where the host's window begins in a page */
	WINDOW = 5 | 9 << 8,
	FRAME_MAX = 9200,
	WAIT_MS = 60000, /* a guest is slow */
	SOON_MS = 200,   /* what should not come */
};

/* It may be another thread of the kernel's that handles what was sent. */
#define AWAIT(condition) \
	do { \
		for (int ms = 0; ms < WAIT_MS && !(condition); ms++) \
			usleep(1000); \
		CHECK(condition); \
	} while (0)

#define MAGIC (UINT32_C(0x21071980) ^ OURS)

static struct test {
	const struct codec *codec;
	struct driver driver;
	struct thole_driver_bind bind;
	struct thole_driver_events *events;
	struct thole_driver_way *way;
	unsigned char *places;
	struct thole_driver_ether *ether;
	uint8_t mac[2][MAC];
	int host; /* its packet socket */
	uint32_t connection, region;
	unsigned char *memory;
	uint64_t transfers;
} test;

/* ---- The pair, and the host at its end -------------------------------------------------------- */

static void run(const char *command)
{
	if (system(command) != 0) {
		printf("failed: %s\n", command);
		fflush(stdout);
		_exit(1);
	}
}

static struct thole_driver_connection connection_to(unsigned number)
{
	struct thole_driver_connection wanted = {
		.session = SESSION,
		.peer_session = PEER_SESSION,
		.index = OURS,
		.peer_index = number,
		.frame_max = FRAME_MAX,
		.codec = test.codec == &codec_mxoe ? THOLE_DRIVER_CODEC_MXOE : THOLE_DRIVER_CODEC_MXOE_JUMBO,
	};

	memcpy(wanted.address, test.mac[1], MAC);
	return wanted;
}

static int connect_to(const struct thole_driver_connection *wanted, uint32_t *id_p)
{
	struct thole_driver_connection connection = *wanted;

	if (ioctl(test.driver.fd, THOLE_DRIVER_CONNECTION, &connection) != 0)
		return -errno;
	*id_p = connection.id;
	return 0;
}

static void *map(size_t bytes, off_t at)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, test.driver.fd, at);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static void pair_open(void)
{
	struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_protocol = htons(THOLE_DRIVER_ETHERTYPE_MXOE)};
	int bytes = 4 << 20; /* for some blocks */

	run("ip link add pa mtu 9200 type veth peer name pb mtu 9200 && ip link set pa up && ip link set pb up");
	mac_of("pa", test.mac[0]);
	mac_of("pb", test.mac[1]);
	test.host = socket(AF_PACKET, SOCK_RAW, 0);
	name.sll_ifindex = (int)if_nametoindex("pb");
	setsockopt(test.host, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	CHECK(test.host >= 0 && bind(test.host, (struct sockaddr *)&name, sizeof(name)) == 0);
}

/* With a connection to the host, at the pair that is there. */
static void endpoint_open(void)
{
	struct thole_driver_connection wanted;

	test.driver = driver_open();
	test.events = map(sizeof(*test.events), THOLE_DRIVER_AT_EVENTS);
	test.bind = (struct thole_driver_bind){.interface = if_nametoindex("pa"),
					       .ethertype = THOLE_DRIVER_ETHERTYPE_MXOE, .endpoint = OURS};
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_BIND, &test.bind) == 0);
	test.ether = map(test.bind.bytes, THOLE_DRIVER_AT_ETHER);
	test.places = (unsigned char *)test.ether + THOLE_DRIVER_FRAMES_AT;
	wanted = connection_to(THEIRS);
	CHECK(connect_to(&wanted, &test.connection) == 0);
	test.way = map(THOLE_DRIVER_CONNECTIONS * sizeof(*test.way), THOLE_DRIVER_AT_WAYS);
	test.way += test.connection;
	test.way->host_index = HOST_INDEX;
	test.memory = memory_new(2 * HALF);
	test.region = declare(&test.driver, test.memory, 2 * HALF, THOLE_DRIVER_WRITE);
	CHECK(test.region != 0);
}

static void test_open(const struct codec *codec)
{
	test.codec = codec;
	pair_open();
	endpoint_open();
}

/* All that keeps the descriptor open. */
static void driver_close(void)
{
	CHECK(munmap(test.events, sizeof(*test.events)) == 0 && munmap(test.ether, test.bind.bytes) == 0);
	CHECK(munmap(test.way - test.connection, THOLE_DRIVER_CONNECTIONS * sizeof(*test.way)) == 0);
	CHECK(munmap((void *)(uintptr_t)test.driver.shared, sizeof(*test.driver.shared)) == 0);
	CHECK(close(test.driver.fd) == 0);
	CHECK(pages_pinned() == 0);
}

static void test_close(void)
{
	driver_close();
	run("ip link del pa");
}

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

/* A frame of the host's, of so many bytes of what is encoded and then the payload. */
static void host_says(const uint8_t *bytes, size_t length)
{
	uint8_t frame[14 + FRAME_MAX] = {0};

	memcpy(frame, test.mac[0], MAC);
	memcpy(frame + MAC, test.mac[1], MAC);
	frame[12] = 0x86;
	frame[13] = 0xdf;
	memcpy(frame + 14, bytes, length);
	CHECK(send(test.host, frame, 14 + length, 0) == (ssize_t)(14 + length));
}

/* A frame that the driver has sent, and how long it is; 0: nothing in time. */
static size_t host_takes(uint8_t *bytes, int wait_ms)
{
	struct pollfd one = {.fd = test.host, .events = POLLIN};
	struct sockaddr_ll from;
	socklen_t size;
	ssize_t length;

	do {
		size = sizeof(from);
		if (poll(&one, 1, wait_ms) != 1)
			return 0;
		length = recvfrom(test.host, bytes, 14 + FRAME_MAX, 0, (struct sockaddr *)&from, &size);
	} while (length < 0 || from.sll_pkttype == PACKET_OUTGOING);
	CHECK(memcmp(bytes, test.mac[1], MAC) == 0 && memcmp(bytes + MAC, test.mac[0], MAC) == 0);
	return (size_t)length;
}

/* A PULL that was sent once more comes at times when its transfer is over, and another one has begun. */
static bool is_late(const struct packet *packet)
{
	return packet->type == PACKET_PULL && (uint32_t)packet->pull.transfer == MAGIC &&
	       packet->pull.transfer >> 32 < test.transfers;
}

/* What the driver has sent; false: nothing in time. */
static bool host_hears(struct packet *packet_p, uint8_t *bytes, int wait_ms)
{
	size_t length;

	do {
		length = host_takes(bytes, wait_ms);
		if (length == 0)
			return false;
		*packet_p = (struct packet){0};
		CHECK(test.codec->decode(packet_p, bytes + 14, length - 14) == 0);
	} while (is_late(packet_p));
	if (packet_p->type == PACKET_PULL)
		CHECK(length == 14 + (test.codec == &codec_mxoe ? 34 : 46));
	return true;
}

/* ---- Fetches ---------------------------------------------------------------------------------- */

static int fetch(uint64_t length)
{
	struct thole_driver_fetch wanted = {
		.window = WINDOW | PLACE << 16,
		.transfer = ++test.transfers << 32 | MAGIC,
		.length = length,
		.region_offset = PAGE - 5,
		.cookie = test.transfers,
		.connection = test.connection,
		.region = test.region,
		.frame = test.codec->data,
	};

	return ioctl(test.driver.fd, THOLE_DRIVER_FETCH, &wanted) == 0 ? 0 : -errno;
}

/* All of it is pinned, and who did that has ended. */
static void await_pins(void)
{
	AWAIT(test.driver.shared->locked >= (PAGE + LENGTH) / PAGE + 1);
	usleep(SOON_MS * 1000);
}

/* How it has ended; 1: it has not. */
static int fetched(int wait_ms)
{
	uint32_t read = test.events->read;
	const struct thole_driver_event *slot = &test.events->events[read % THOLE_DRIVER_EVENTS];
	struct pollfd one = {.fd = test.driver.fd, .events = POLLIN};
	struct thole_driver_fetched fetched;

	if (__atomic_load_n(&slot->stamp, __ATOMIC_ACQUIRE) != read + 1)
		poll(&one, 1, wait_ms);
	if (__atomic_load_n(&slot->stamp, __ATOMIC_ACQUIRE) != read + 1)
		return 1;
	CHECK(slot->kind == THOLE_DRIVER_EVENT_FETCHED && slot->cookie == test.transfers);
	memcpy(&fetched, slot->data, sizeof(fetched));
	CHECK(fetched.transfer == (test.transfers << 32 | MAGIC));
	__atomic_store_n(&test.events->read, read + 1, __ATOMIC_RELEASE);
	return fetched.status;
}

/* As hosts with MX have it, so that they take it. */
static void judge_pull(const struct packet *packet, uint64_t length)
{
	const struct packet_pull *pull = &packet->pull;
	uint64_t place = pull->offset + PLACE;

	CHECK(packet->type == PACKET_PULL && packet->peer_index == HOST_INDEX && packet->session == PEER_SESSION);
	CHECK(packet->to == THEIRS && packet->from == OURS && packet->generation == 0);
	CHECK(pull->window == (WINDOW | PLACE << 16) && pull->transfer == (test.transfers << 32 | MAGIC));
	CHECK(pull->total == length && pull->offset + pull->length <= length);
	CHECK(pull->frame_index == place / test.codec->data && pull->frame_offset == place % test.codec->data);
	CHECK(pull->frame_offset + pull->length <= test.codec->block_frames * test.codec->data);
}

static uint8_t reply_bytes[FRAME_MAX];

/* One frame that answers a PULL; its length. */
static size_t reply(const struct packet_pull *pull, uint32_t at, uint32_t number, uint32_t length)
{
	struct packet data = {.type = PACKET_DATA, .length = length};
	size_t head;

	data.data = (struct packet_data){.transfer = pull->transfer, .offset = pull->offset + at,
					 .frame = (uint8_t)(pull->frame_index + number)};
	head = test.codec->encode(&data, reply_bytes);
	for (uint32_t i = 0; i < length; i++)
		reply_bytes[head + i] = pattern(data.data.offset + i);
	return head + length;
}

/* All frames of a PULL, but each `lossy`th of all. */
static void answer(const struct packet_pull *pull, unsigned *count, unsigned lossy)
{
	uint32_t length, number = 0;

	for (uint32_t at = 0; at < pull->length; at += length, number++) {
		length = test.codec->data - (at ? 0 : pull->frame_offset);
		length = length < pull->length - at ? length : pull->length - at;
		length = (uint32_t)reply(pull, at, number, length);
		if (!lossy || ++*count % lossy)
			host_says(reply_bytes, length);
		length -= test.codec->data_head;
	}
}

/* Serve the fetch that was begun, until it is over. */
static void serve(uint64_t length, unsigned lossy)
{
	uint8_t bytes[14 + FRAME_MAX];
	struct packet packet;
	unsigned count = 0;
	int status;

	while ((status = fetched(0)) == 1) {
		if (!host_hears(&packet, bytes, 10))
			continue;
		judge_pull(&packet, length);
		answer(&packet.pull, &count, lossy);
	}
	CHECK(status == 0);
}

static void check_from(uint64_t from, uint64_t length)
{
	for (uint64_t i = from; i < length; i++)
		CHECK(test.memory[PAGE - 5 + i] == pattern(i));
	CHECK(test.memory[PAGE - 5 + length] == 0 && test.memory[PAGE - 6] == 0);
}

/* No frame that the driver took was the program's, too. */
static bool program_has(void)
{
	const struct thole_driver_frame *frame =
		(void *)(test.places + (size_t)(test.ether->read % test.bind.places_in) * test.bind.place);

	return __atomic_load_n(&frame->stamp, __ATOMIC_ACQUIRE) == test.ether->read + 1;
}

static void program_reads(void)
{
	__atomic_store_n(&test.ether->read, test.ether->read + 1, __ATOMIC_RELEASE);
}

static void fetch_one(const struct codec *codec)
{
	test_open(codec);
	CHECK(fetch(LENGTH) == 0);
	serve(LENGTH, 0);
	check_from(0, LENGTH);
	CHECK(!program_has() || test.driver.shared->asked_again); /* what comes once more may come behind the end */
	CHECK(test.driver.shared->received_bytes == LENGTH && test.way->heard > 0);
	memset(test.memory, 0, HALF);
	CHECK(fetch(7) == 0);
	serve(7, 0);
	check_from(0, 7);
	test_close();
}

static void case_fetch(void)
{
	fetch_one(&codec_mxoe);
}

static void case_jumbo(void)
{
	fetch_one(&codec_mxoe_jumbo);
}

/* All of it comes, though each 11th frame does not. */
static void case_lost(void)
{
	test_open(&codec_mxoe);
	CHECK(fetch(LENGTH) == 0);
	serve(LENGTH, 11);
	check_from(0, LENGTH);
	CHECK(test.driver.shared->asked_again > 0);
	test_close();
}

/* Frames come for memory that is another's by then: it is pinned, and they are asked for again. */
static void case_vanish(void)
{
	uint8_t bytes[14 + FRAME_MAX];
	struct packet packet;
	unsigned count = 0;

	test_open(&codec_mxoe);
	CHECK(fetch(LENGTH) == 0);
	CHECK(host_hears(&packet, bytes, WAIT_MS));
	await_pins();
	CHECK(madvise(test.memory, 2 * HALF, MADV_DONTNEED) == 0);
	answer(&packet.pull, &count, 0);
	serve(LENGTH, 0);
	check_from(0, LENGTH);
	CHECK(test.driver.shared->invalidations > 0 && test.driver.shared->overlap_miss > 0);
	CHECK(test.driver.shared->asked_again > 0);
	test_close();
}

static void program_has_no_less(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		AWAIT(program_has());
		program_reads();
	}
	CHECK(!program_has());
}

/* Answers that nobody asked for, or not so: the program's, or nobody's, and the fetch is none the worse. */
static void case_strange(void)
{
	uint8_t bytes[14 + FRAME_MAX], own[MAC];
	struct packet packet;
	struct packet_pull pull;
	uint64_t before;
	size_t length;

	test_open(&codec_mxoe);
	CHECK(fetch(LENGTH) == 0);
	CHECK(host_hears(&packet, bytes, WAIT_MS));
	await_pins(); /* so that nothing is refused for want of them */
	pull = packet.pull;
	pull.transfer += UINT64_C(1) << 32; /* a handle that is not there, and a magic that is another's */
	host_says(reply_bytes, reply(&pull, 0, 0, 3096));
	pull.transfer = packet.pull.transfer ^ UINT64_C(1) << 20;
	host_says(reply_bytes, reply(&pull, 0, 0, 3096));
	memcpy(own, test.mac[1], MAC);
	test.mac[1][5] ^= 1; /* from elsewhere */
	host_says(reply_bytes, reply(&packet.pull, 0, 0, 3096));
	memcpy(test.mac[1], own, MAC);
	program_has_no_less(3);
	CHECK(test.driver.shared->received == 0);
	/* It is for the fetch, but no frame of it: shorter, elsewhere, far behind, too long for what it says */
	before = test.driver.shared->malformed;
	host_says(reply_bytes, reply(&packet.pull, 0, 0, 3095));
	host_says(reply_bytes, reply(&packet.pull, 1, 0, 3096));
	pull = packet.pull;
	pull.offset = LENGTH - 1;
	host_says(reply_bytes, reply(&pull, 0, 0, 4096));
	AWAIT(test.driver.shared->malformed == before + 3);
	length = reply(&packet.pull, 0, 0, 3096);
	for (size_t n = 18; n < 200; n += 13)
		host_says(reply_bytes, n);
	host_says(reply_bytes, length - 1);
	program_has_no_less(15);
	CHECK(test.driver.shared->received == 0);
	CHECK(test.memory[PAGE - 5] == 0);
	answer(&packet.pull, &(unsigned){0}, 0);
	answer(&packet.pull, &(unsigned){0}, 0); /* and once more: they are here */
	AWAIT(test.driver.shared->duplicate > 0);
	serve(LENGTH, 0);
	check_from(0, LENGTH);
	before = test.driver.shared->received;
	host_says(reply_bytes, reply(&packet.pull, 0, 0, 3096)); /* it is over */
	AWAIT(program_has());
	CHECK(test.driver.shared->received == before);
	test_close();
}

/* ---- Windows ---------------------------------------------------------------------------------- */

static void expose(void)
{
	struct thole_driver_window window = {.window = WINDOW, .offset = HALF + 3, .length = LENGTH,
					     .connection = test.connection, .region = test.region};

	for (size_t i = 0; i < LENGTH; i++)
		test.memory[HALF + 3 + i] = pattern(i);
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_WINDOW, &window) == 0);
}

static struct packet pull_of(uint64_t at, uint32_t length)
{
	struct packet packet = {.type = PACKET_PULL, .to = OURS, .from = THEIRS, .session = SESSION};

	packet.pull = (struct packet_pull){.window = WINDOW, .transfer = 0x1234567821071985, .offset = at,
					   .total = LENGTH, .length = length, .frame = test.codec->data};
	packet_pull_place(&packet.pull);
	return packet;
}

static void say(const struct packet *packet)
{
	uint8_t bytes[PACKET_HEAD_MAX];

	host_says(bytes, test.codec->encode(packet, bytes));
}

/* What answers a PULL is as hosts with MX have it, in order. */
static void hear(const struct packet_pull *pull)
{
	uint32_t length, number = 0;
	uint8_t bytes[14 + FRAME_MAX];
	struct packet packet;

	for (uint32_t at = 0; at < pull->length; at += length, number++) {
		length = test.codec->data - (at ? 0 : pull->frame_offset);
		length = length < pull->length - at ? length : pull->length - at;
		CHECK(host_hears(&packet, bytes, WAIT_MS) && packet.type == PACKET_DATA);
		CHECK(packet.peer_index == 0 && packet.data.transfer == pull->transfer);
		CHECK(packet.data.frame == (uint8_t)(pull->frame_index + number));
		CHECK(packet.data.offset == pull->offset + at && packet.length == length);
		for (uint32_t i = 0; i < length; i++)
			CHECK(packet.payload[i] == pattern(packet.data.offset + i));
	}
}

static void serve_all(const struct codec *codec)
{
	uint32_t block = codec->block_frames * codec->data, length;
	struct packet pull;

	test_open(codec);
	expose();
	for (uint64_t at = 0; at < LENGTH; at += length) {
		length = block < LENGTH - at ? block : (uint32_t)(LENGTH - at);
		pull = pull_of(at, length);
		say(&pull);
		hear(&pull.pull);
	}
	pull = pull_of(12345, 20000); /* from within a frame on */
	say(&pull);
	hear(&pull.pull);
	CHECK(!program_has());
	CHECK(test.driver.shared->sent_bytes == LENGTH + 20000);
	CHECK(test.way->heard == (LENGTH + block - 1) / block + 1);
	test_close();
}

static void case_serve(void)
{
	serve_all(&codec_mxoe);
}

static void case_serve_jumbo(void)
{
	serve_all(&codec_mxoe_jumbo);
}

/* Whose PULL is not for a window here is the program's; what a window has not is answered by nobody. */
static void case_refused(void)
{
	uint8_t bytes[14 + FRAME_MAX], own[MAC];
	struct packet pull, packet;
	uint64_t malformed;

	test_open(&codec_mxoe);
	expose();
	pull = pull_of(0, 4096);
	pull.pull.window ^= 1 << 8; /* another use of it */
	say(&pull);
	pull = pull_of(0, 4096);
	pull.pull.window |= 1 << 16; /* a place in a page that ours have not */
	say(&pull);
	pull = pull_of(0, 4096);
	pull.session ^= 1;
	say(&pull);
	pull = pull_of(0, 4096);
	pull.from = THEIRS + 1;
	say(&pull);
	pull = pull_of(0, 4096);
	memcpy(own, test.mac[1], MAC);
	test.mac[1][5] ^= 1;
	say(&pull);
	memcpy(test.mac[1], own, MAC);
	program_has_no_less(5);
	malformed = test.driver.shared->malformed;
	pull = pull_of(LENGTH - 4096, 4097);
	pull.pull.total = LENGTH + 1;
	say(&pull);
	AWAIT(test.driver.shared->malformed == malformed + 1);
	CHECK(!host_hears(&packet, bytes, SOON_MS) && !program_has());
	/* memory that is no more: the program answers, and is told so */
	CHECK(munmap(test.memory + HALF, HALF) == 0);
	pull = pull_of(0, 4096);
	say(&pull);
	while (!test.events->events[0].stamp)
		poll(&(struct pollfd){.fd = test.driver.fd, .events = POLLIN}, 1, WAIT_MS);
	CHECK(test.events->events[0].kind == THOLE_DRIVER_EVENT_LOST && test.events->events[0].cookie == WINDOW);
	say(&pull);
	program_has_no_less(1);
	CHECK(test.driver.shared->sent == 0);
	test_close();
}

/* Whether we are there, which hosts with MX say whatever their programs do. */
static void case_asked(void)
{
	uint8_t bytes[14 + FRAME_MAX];
	struct packet pull, packet;

	test_open(&codec_mxoe);
	pull = pull_of(0, 1);
	pull.pull.window = MXOE_WINDOW_NONE;
	say(&pull);
	CHECK(host_hears(&packet, bytes, WAIT_MS) && packet.type == PACKET_NACK && packet.nack.driver);
	CHECK(packet.nack.reason == NACK_BAD_WINDOW && packet.nack.transfer == pull.pull.transfer);
	CHECK(packet.to == THEIRS && packet.peer_index == MXOE_INDEX_ANY && test.way->heard == 1);
	pull.session ^= 1;
	say(&pull);
	program_has_no_less(1);
	test_close();
}

/* ---- Ends -------------------------------------------------------------------------------------- */

static void ask_for_all(void)
{
	for (unsigned i = 0; i < 9; i++) {
		struct packet pull = pull_of(i * 32768, 32768);

		say(&pull);
	}
}

/* A window that may be fetched, and a fetch whose first PULL the host has heard. */
static void begin_both(struct packet *pull)
{
	uint8_t bytes[14 + FRAME_MAX];

	test_open(&codec_mxoe);
	expose();
	CHECK(fetch(LENGTH) == 0);
	CHECK(host_hears(pull, bytes, WAIT_MS));
}

/* Interfaces that go down amid a fetch lose frames; one that ends takes nothing with it. */
static void case_gone(void)
{
	struct thole_driver_name name;
	struct packet packet;

	begin_both(&packet);
	run("ip link set pa down && ip link set pa up");
	run("until [ $(cat /sys/class/net/pb/operstate) = up ]; do sleep 0.1; done");
	answer(&packet.pull, &(unsigned){0}, 0);
	serve(LENGTH, 0);
	check_from(0, LENGTH);
	CHECK(fetch(LENGTH) == 0);
	ask_for_all();
	run("ip link del pa");
	CHECK(test.ether->unbound == 1);
	name = (struct thole_driver_name){.name = test.transfers << 32 | MAGIC, .connection = test.connection};
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_FETCH_END, &name) == 0);
	CHECK(fetch(LENGTH) == 0); /* which nobody hears of */
	driver_close();
}

/* A descriptor that is closed amid both. */
static void case_closed(void)
{
	struct packet packet;

	begin_both(&packet);
	ask_for_all();
	driver_close();
	answer(&packet.pull, &(unsigned){0}, 0);
	run("ip link del pa");
}

/* Of all processes: how often the kernel has pinned a page, less how often it has let go of one. */
static uint64_t pins_held(void)
{
	return count_of_kernel("nr_foll_pin_acquired") - count_of_kernel("nr_foll_pin_released");
}

/* The same once it has been one number for two seconds: what the cases before have let go of is let go of where their
 * packets end. */
static uint64_t pins_settled(void)
{
	uint64_t held = pins_held();

	for (int ms = 0; ms < 2000; ms += 50) {
		uint64_t now;

		usleep(50000);
		now = pins_held();
		if (now != held)
			ms = 0;
		held = now;
	}
	return held;
}

/* A process with a window and a fetch, until it is killed. */
static void killed_process(void)
{
	endpoint_open();
	expose();
	CHECK(fetch(LENGTH) == 0);
	for (;;)
		pause();
}

/* What of its window is still under way comes as it was sent. */
static void hear_the_dead(void)
{
	uint8_t bytes[14 + FRAME_MAX];
	struct packet packet;

	while (host_hears(&packet, bytes, SOON_MS)) {
		CHECK(packet.type == PACKET_DATA || packet.type == PACKET_PULL);
		for (uint32_t i = 0; packet.type == PACKET_DATA && i < packet.length; i++)
			CHECK(packet.payload[i] == pattern(packet.data.offset + i));
	}
}

/* A process that is killed while its fetch is answered and its window is asked for: no page stays pinned, and the next
 * one under its number has nothing of it. */
static void killed_amid(const struct codec *codec)
{
	uint8_t bytes[14 + FRAME_MAX];
	struct packet packet;
	struct packet_pull pull;
	uint64_t before;
	pid_t child;

	test.codec = codec;
	pair_open();
	before = pins_settled();
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		killed_process();
	test.transfers = 1;
	CHECK(host_hears(&packet, bytes, WAIT_MS) && packet.type == PACKET_PULL);
	pull = packet.pull;
	ask_for_all();
	answer(&pull, &(unsigned){0}, 0);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	answer(&pull, &(unsigned){0}, 0);
	ask_for_all();
	hear_the_dead();
	AWAIT(pins_held() == before);
	endpoint_open();
	answer(&pull, &(unsigned){0}, 0);
	ask_for_all();
	AWAIT(program_has());
	CHECK(!host_hears(&packet, bytes, SOON_MS) && test.driver.shared->sent + test.driver.shared->received == 0);
	expose();
	packet = pull_of(0, 4096);
	say(&packet);
	hear(&packet.pull);
	CHECK(fetch(LENGTH) == 0);
	serve(LENGTH, 0);
	check_from(0, LENGTH);
	test_close();
	AWAIT(pins_held() == before);
}

static void case_killed(void)
{
	killed_amid(&codec_mxoe);
	killed_amid(&codec_mxoe_jumbo);
}

static void case_arguments(void)
{
	const struct thole_driver_connection right = (test_open(&codec_mxoe), connection_to(THEIRS + 1));
	struct thole_driver_connection wrong[9];
	struct thole_driver_fetch fetches = {.transfer = MAGIC, .length = 5, .connection = test.connection,
					     .region = test.region, .frame = 4095};
	uint32_t id;

	for (unsigned i = 0; i < 9; i++)
		wrong[i] = right;
	wrong[0].codec = THOLE_DRIVER_CODECS;
	wrong[1].session = UINT64_C(1) << 32;
	wrong[2].peer_index = 256;
	wrong[3].address[0] |= 1;
	wrong[4].address[6] = 1;
	wrong[5].frame_max = 4096;
	wrong[6].mode = 1;
	wrong[7].records_port = 1;
	wrong[8].peer_session = UINT64_C(1) << 32;
	for (unsigned i = 0; i < 9; i++)
		CHECK(connect_to(&wrong[i], &id) == -EINVAL);
	wrong[0] = right;
	wrong[0].index = OURS + 1;
	CHECK(connect_to(&wrong[0], &id) == -ENXIO);
	wrong[0] = connection_to(THEIRS);
	CHECK(connect_to(&wrong[0], &id) == -EEXIST);
	wrong[0] = right;
	wrong[0].codec = THOLE_DRIVER_CODEC_MXOE_JUMBO;
	CHECK(connect_to(&wrong[0], &id) == -EBUSY);
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_FETCH, &fetches) != 0 && errno == EINVAL);
	CHECK(connect_to(&right, &id) == 0);
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_CONNECTION_END, (unsigned long)id) == 0);
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_CONNECTION_END, (unsigned long)test.connection) == 0);
	CHECK(connect_to(&wrong[0], &id) == 0);
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_CONNECTION_END, (unsigned long)id) == 0);
	CHECK(ioctl(test.driver.fd, THOLE_DRIVER_UNBIND) == 0);
	CHECK(connect_to(&right, &id) == -ENXIO);
	test_close();
}

enum { COST_ROUNDS = 8 };

/* An endpoint at the host's place, which lets ours fetch. */
static void cost_serve(void)
{
	struct thole_driver_bind bind = {.interface = if_nametoindex("pb"), .endpoint = THEIRS,
					 .ethertype = THOLE_DRIVER_ETHERTYPE_MXOE};
	struct thole_driver_connection back = connection_to(OURS);
	struct thole_driver_window window = {.window = WINDOW | PLACE << 16, .offset = PLACE, .length = HALF};
	struct driver driver = driver_open();

	back.session = PEER_SESSION;
	back.peer_session = SESSION;
	back.index = THEIRS;
	memcpy(back.address, test.mac[0], MAC);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_BIND, &bind) == 0 && ioctl(driver.fd, THOLE_DRIVER_CONNECTION, &back) == 0);
	window.connection = back.id;
	window.region = declare(&driver, memory_new(2 * HALF), 2 * HALF, 0);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_WINDOW, &window) == 0);
}

/* What a byte costs both ends together, from pinned pages to pinned pages. */
static void cost(void)
{
	uint64_t start = 0, ns;

	test_open(&codec_mxoe);
	close(test.host);
	cost_serve();
	for (unsigned round = 0; round <= COST_ROUNDS; round++) {
		if (round == 1) /* all is pinned now */
			start = clock_now_ns();
		CHECK(fetch(HALF) == 0 && fetched(WAIT_MS) == 0);
	}
	ns = clock_now_ns() - start;
	printf("row bulk_driver_mxoe %.4f\n", (double)ns / instructions_each_ns() / ((double)COST_ROUNDS * HALF));
}

int main(int argc, char **argv)
{
	static const struct driver_case cases[] = {
		{"fetch", case_fetch, false},       {"jumbo", case_jumbo, false},
		{"lost", case_lost, false},         {"vanish", case_vanish, false},
		{"strange", case_strange, false},   {"serve", case_serve, false},
		{"serve_jumbo", case_serve_jumbo, false}, {"refused", case_refused, false},
		{"gone", case_gone, false},         {"closed", case_closed, false},
		{"killed", case_killed, false},     {"asked", case_asked, false},
		{"arguments", case_arguments, false},
	};

	if (argc == 2 && strcmp(argv[1], "cost") == 0)
		cost();
	else
		cases_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	return 0;
}
