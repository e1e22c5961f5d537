/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_links: the real links between two network namespaces, with a stand-in for the engine that compares every byte.
 *
 *   thole_links CASE [MTU]      without an argument: prints the cases, one a line
 *
 * Each frame says its number and length, and its other bytes follow from these. Status 77: no right to make namespaces.
 * Nothing here depends on how long something takes; what never comes ends the test after LIMIT_S.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "link_pair.h"

#include "base/endian.h"
#include "memory/driver.h"
#include "transport/datagram/scatter.h"
#include "transport/datagram/links.h"

enum { LIMIT_S = 20, HEAD = 8, ROUNDS = 300, PARTS = 24 };

#define CHECK(what)                                                                                 \
	do {                                                                                        \
		if (!(what)) {                                                                      \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                  \
			exit(1);                                                                    \
		}                                                                                   \
	} while (0)

static struct host {
	struct engine engine; /* first, so that it tells the host */
	struct transport_owner owner;
	struct interface interface;
	struct driver driver;
	struct link *link;
	uint64_t counters[COUNTER_COUNT];
	uint32_t frames, next;      /* frames that came, number of the next one */
	bool gaps;                  /* frames may be missing */
	uint32_t refused, shrunk;   /* how often told */
	uint32_t frame_max;
	struct path told;
	uint32_t foreseen;          /* of a scatter list */
} hosts[2];

static uint64_t random_state = 1;

static uint32_t below(uint32_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % bound;
}

static struct host *host_of(struct engine *engine)
{
	return (struct host *)engine;
}

/* ---- Frames ---------------------------------------------------------------------------------------- */

static uint8_t byte_of(uint32_t number, uint32_t at)
{
	return (uint8_t)((number * 2654435761u + at * 40503u) >> 13);
}

static void fill(uint8_t *bytes, uint32_t number, uint32_t length)
{
	store_be32(bytes, number);
	store_be32(bytes + 4, length);
	for (uint32_t i = HEAD; i < length; i++)
		bytes[i] = byte_of(number, i);
}

static void check_frame(struct host *host, const uint8_t *bytes, size_t length)
{
	uint32_t number = load_be32(bytes);

	CHECK(length >= HEAD && load_be32(bytes + 4) == length);
	for (uint32_t i = HEAD; i < length; i++)
		CHECK(bytes[i] == byte_of(number, i));
	CHECK(host->gaps ? number >= host->next : number == host->next);
	host->next = number + 1;
	host->frames++;
}

/* ---- In the engine's place ------------------------------------------------------------------------- */

static void check_sender(const struct host *host, const struct link *link, const struct path *from)
{
	const struct link *sender = hosts[host == &hosts[0]].link;

	CHECK(link == host->link);
	CHECK(memcmp(from->bytes, sender->own.bytes, 16) == 0);
}

bool engine_frame(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frame,
		  size_t length)
{
	check_sender(host_of(engine), link, from);
	check_frame(host_of(engine), frame, length);
	return true;
}

bool engine_frames(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frames,
		   size_t length, size_t segment)
{
	bool known = false;

	for (size_t at = 0; at < length; at += segment)
		known |= engine_frame(engine, link, from, frames + at, length - at < segment ? length - at : segment);
	return known;
}

/* Parts of all kinds of lengths: a link knows nothing of what they mean. */
void scatter_foresee(struct engine *engine, struct scatter *scatter)
{
	static uint8_t memory[SCATTER_FRAMES][4096];

	scatter->frames = host_of(engine)->foreseen;
	scatter->count = 0;
	scatter->whole = scatter->frames % 2;
	for (unsigned i = 0; i < scatter->frames && !scatter->whole; i++) {
		scatter->iov[scatter->count++] = (struct iovec){scatter->heads[i], SCATTER_HEAD};
		scatter->iov[scatter->count++] = (struct iovec){memory[i], 1 + below(sizeof(memory[i]))};
	}
	scatter->iov[scatter->count++] = (struct iovec){scatter->spill, SCATTER_SPILL};
}

void scatter_took(struct scatter *scatter, size_t bytes, uint64_t ns)
{
	(void)scatter;
	(void)bytes;
	(void)ns;
}

unsigned scatter_arrived(struct engine *engine, struct link *link, const struct path *from, struct scatter *scatter,
		       size_t bytes, size_t segment)
{
	static uint8_t all[SCATTER_FRAMES * (SCATTER_HEAD + 4096) + SCATTER_SPILL];
	unsigned frames = 0;
	size_t at = 0;

	(void)from;
	CHECK(link == host_of(engine)->link);
	for (unsigned i = 0; i < scatter->count; i++) {
		memcpy(all + at, scatter->iov[i].iov_base, scatter->iov[i].iov_len);
		at += scatter->iov[i].iov_len;
	}
	scatter->known = true;
	CHECK(bytes > 0 && bytes <= at && segment > 0 && segment <= bytes);
	for (at = 0; at < bytes; at += segment, frames++)
		check_frame(host_of(engine), all + at, bytes - at < segment ? bytes - at : segment);
	return frames;
}

void engine_refused(struct engine *engine, struct link *link, const struct path *to)
{
	(void)link;
	host_of(engine)->refused++;
	host_of(engine)->told = *to;
}

void engine_shrink(struct engine *engine, struct link *link, const struct path *to, uint32_t frame_max)
{
	(void)link;
	host_of(engine)->shrunk++;
	host_of(engine)->frame_max = frame_max;
	host_of(engine)->told = *to;
}

/* ---- Links ----------------------------------------------------------------------------------------- */

enum kind { UDP, UDP6, RAW, DRIVER, MXOE };

static uint32_t endpoint_number(unsigned side)
{
	return 0xabcd1230 + side;
}

static int open_link(unsigned side, enum kind kind)
{
	struct host *host = &hosts[side];
	uint16_t ethertype = kind == MXOE ? LINK_RAW_ETHERTYPE_MXOE : LINK_RAW_ETHERTYPE;

	pair_enter(side);
	memset(&host->engine, 0, sizeof(host->engine));
	CHECK(interface_choose(pair_devices[side], &host->interface) == 0);
	host->engine.blocks.outstanding = 1;
	host->owner.options.net_hold = 1 << 20; /* as it comes */
	host->engine.owner = &host->owner;
	if (kind == DRIVER && driver_open(&host->driver) != 0) {
		printf("skipped: %s\n", thole_detail());
		exit(PAIR_SKIP);
	}
	if (kind == DRIVER)
		return link_ether_open(&host->engine, &host->driver, &host->interface, ethertype,
				       endpoint_number(side), host->counters, &host->link);
	if (kind >= RAW)
		return link_raw_open(&host->engine, &host->interface, ethertype, endpoint_number(side), host->counters,
				     &host->link);
	host->interface.has_ipv4 = kind == UDP;
	return link_udp_open(&host->engine, &host->interface, 1, host->counters, &host->link);
}

static void open_links(enum kind kind)
{
	for (unsigned side = 0; side < 2; side++)
		if (open_link(side, kind) != 0) {
			fprintf(stderr, "%s\n", thole_detail());
			exit(1);
		}
}

static void close_links(void)
{
	for (unsigned side = 0; side < 2; side++) {
		bool driver = strcmp(hosts[side].link->calls->name, "driver") == 0;

		hosts[side].link->calls->close(hosts[side].link);
		if (driver)
			driver_close(&hosts[side].driver);
	}
}

static unsigned receive(unsigned side)
{
	pair_enter(side);
	return hosts[side].link->calls->receive(hosts[side].link, 64);
}

static unsigned post(unsigned side, const struct frame_out *frames, unsigned count)
{
	pair_enter(side);
	return hosts[side].link->calls->send(hosts[side].link, frames, count);
}

static void nap(void)
{
	struct timespec time = {.tv_nsec = 1000000};

	nanosleep(&time, NULL);
}

/* Look until a word has at least a value. */
static void await(unsigned side, const uint32_t *word, uint32_t value)
{
	for (unsigned i = 0; *word < value; i++) {
		CHECK(i < LIMIT_S * 1000);
		if (receive(side) == 0)
			nap();
	}
}

/* Frames to side 1, out of one buffer. */
struct burst {
	uint8_t bytes[ENGINE_BURST][ENGINE_FRAME_MAX];
	struct iovec parts[ENGINE_BURST][PARTS];
	struct frame_out frames[ENGINE_BURST];
	struct path to;
};
static struct burst burst;

static void burst_frame(unsigned i, uint32_t number, uint32_t length, unsigned parts)
{
	uint32_t at;

	fill(burst.bytes[i], number, length);
	burst.frames[i] =
		(struct frame_out){.to = &burst.to, .head = burst.bytes[i], .head_length = length, .known = true};
	if (parts == 0 || length < HEAD + parts)
		return;
	at = burst.frames[i].head_length = HEAD + below(length - HEAD - parts + 1);
	burst.frames[i].body_length = length - at;
	burst.frames[i].body_count = (uint16_t)parts;
	burst.frames[i].body = burst.parts[i];
	for (unsigned j = 0; j < parts; j++) {
		uint32_t some = j + 1 < parts ? below((length - at) / (parts - j) + 1) : length - at;

		burst.parts[i][j] = (struct iovec){burst.bytes[i] + at, some};
		at += some;
	}
}

/* Send what was made, receiving all of it. */
static void burst_deliver(unsigned count, bool all)
{
	struct host *to = &hosts[1];
	uint32_t target = to->frames + count;

	for (unsigned sent = 0; sent < count;) {
		unsigned taken = post(0, burst.frames + sent, count - sent);

		sent += taken;
		receive(1);
	}
	if (all)
		await(1, &to->frames, target);
}

static uint32_t frame_max(void)
{
	uint32_t max;

	pair_enter(0);
	max = hosts[0].link->calls->frame_max(hosts[0].link, &hosts[1].link->own);
	CHECK(max > 500 && max <= ENGINE_FRAME_MAX);
	return max;
}

static enum link_liveness ask(const struct path *to)
{
	enum link_liveness verdict = LINK_UNKNOWN;

	pair_enter(0);
	for (unsigned i = 0; i < LIMIT_S * 1000 && verdict != LINK_ALIVE && verdict != LINK_GONE; i++) {
		hosts[0].engine.now_ns += 1000000;
		verdict = hosts[0].link->calls->liveness(hosts[0].link, to, 1);
		if (verdict != LINK_ALIVE && verdict != LINK_GONE)
			nap();
	}
	return verdict;
}

/* ---- Cases ----------------------------------------------------------------------------------------- */

/* Bursts of all shapes arrive whole and in order. */
static void all_shapes(uint8_t channel)
{
	uint32_t max = frame_max(), number = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned count = 1 + below(ENGINE_BURST), style = below(4), parts = below(3) ? below(3) : below(PARTS);
		uint32_t length = below(2) ? max : HEAD + below(max - HEAD + 1);

		for (unsigned i = 0; i < count; i++) {
			uint32_t mine = style == 0 ? HEAD + below(max - HEAD + 1)
				      : style == 1 && below(8) == 0 ? HEAD + below(length - HEAD + 1) : length;

			burst_frame(i, number++, mine, style == 2 && below(9) ? 0 : parts);
			burst.frames[i].channel = channel;
		}
		hosts[1].foreseen = below(SCATTER_FRAMES + 1);
		burst_deliver(count, true);
	}
	CHECK(hosts[1].frames == number && hosts[0].counters[COUNTER_LINK_LOST] == 0);
	CHECK(hosts[1].counters[COUNTER_LINK_OVERFLOWS] == 0 && hosts[1].counters[COUNTER_LINK_TRUNCATED] == 0);
}

static void shapes(enum kind kind)
{
	open_links(kind);
	burst.to = hosts[1].link->own;
	all_shapes(CHANNEL_RECORDS);
	close_links();
}

static void udp(void) { shapes(UDP); }
static void udp6(void) { shapes(UDP6); }
static void raw(void) { shapes(RAW); }
static void driver(void) { shapes(DRIVER); }

static void scatter(void)
{
	open_links(UDP);
	burst.to = hosts[1].link->own;
	store_be16(burst.to.bytes + 16, hosts[1].link->bulk_port);
	all_shapes(CHANNEL_BULK);
	close_links();
}

static uint32_t touched; /* pages that were PROT_NONE */

static void page_touched(int signal, siginfo_t *info, void *context)
{
	const uintptr_t page = (uintptr_t)getpagesize();

	(void)signal, (void)context;
	if (mprotect((void *)((uintptr_t)info->si_addr & ~(page - 1)), page, PROT_READ | PROT_WRITE) != 0)
		_exit(1);
	touched++;
}

/* No frame is lost that is of memory which the kernel may not read, and its owner may. */
static void barrier(enum kind kind)
{
	struct sigaction action = {.sa_sigaction = page_touched, .sa_flags = SA_SIGINFO};
	const uintptr_t page = (uintptr_t)getpagesize(), first = ((uintptr_t)burst.bytes + page - 1) & ~(page - 1);

	open_links(kind);
	burst.to = hosts[1].link->own;
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	for (unsigned i = 0; i < ENGINE_BURST; i++)
		burst_frame(i, i, frame_max(), i % 3);
	CHECK(mprotect((void *)first, (sizeof(burst.bytes) - page) & ~(page - 1), PROT_NONE) == 0);
	burst_deliver(ENGINE_BURST, true);
	CHECK(touched > 0 && hosts[0].counters[COUNTER_LINK_LOST] == 0);
	close_links();
}

static void udp_barrier(void) { barrier(UDP); }
static void raw_barrier(void) { barrier(RAW); }

/* With link-local addresses alone, which mean something at one interface only. */
static void udp_link_local(void)
{
	for (unsigned side = 0; side < 2; side++) {
		pair_enter(side);
		pair_run("ip address flush dev %s scope global", pair_devices[side]);
	}
	open_links(UDP6);
	CHECK(hosts[0].link->own.bytes[0] == 0xfe && hosts[0].link->own.bytes[1] == 0x80);
	burst.to = hosts[1].link->own;
	all_shapes(CHANNEL_RECORDS);
	CHECK(ask(&burst.to) == LINK_ALIVE);
	close_links();
}

static bool readable(const struct link *link, int timeout_ms)
{
	struct pollfd polls[CHANNELS];

	for (unsigned i = 0; i < CHANNELS; i++)
		polls[i] = (struct pollfd){.fd = link->fd[i], .events = POLLIN};
	return poll(polls, CHANNELS, timeout_ms) > 0;
}

/* Who has asked whether anything is there is woken by what comes then, until he looks. */
static void alarm_rings(enum kind kind, uint8_t channel)
{
	struct link *link;

	open_links(kind);
	link = hosts[1].link;
	burst.to = link->own;
	if (channel == CHANNEL_BULK)
		store_be16(burst.to.bytes + 16, link->bulk_port);
	for (uint32_t i = 0; i < 100; i += 2) {
		for (unsigned j = 0; j < 2; j++) {
			burst_frame(j, i + j, 100, 0);
			burst.frames[j].channel = channel;
		}
		CHECK(!link->calls->ready(link) && !readable(link, 0));
		CHECK(post(0, burst.frames, 1) == 1 && readable(link, LIMIT_S * 1000));
		CHECK(link->calls->ready(link));
		await(1, &hosts[1].frames, i + 1);
		CHECK(!readable(link, 0));
		CHECK(post(0, burst.frames + 1, 1) == 1 && !readable(link, 0));
		for (unsigned turn = 0; !link->calls->ready(link); turn++, nap())
			CHECK(turn < LIMIT_S * 1000);
		await(1, &hosts[1].frames, i + 2);
		receive(0); /* lanes come by the way */
	}
	close_links();
}

static void udp_alarm(void) { alarm_rings(UDP, CHANNEL_RECORDS); }
static void scatter_alarm(void) { alarm_rings(UDP, CHANNEL_BULK); }
static void raw_alarm(void) { alarm_rings(RAW, CHANNEL_RECORDS); }
static void driver_alarm(void) { alarm_rings(DRIVER, CHANNEL_RECORDS); }

/* Nobody looks: frames are lost and counted, less credit is given out, and then all is well again. */
static void full(enum kind kind, uint8_t channel)
{
	uint64_t room;
	uint32_t number = 0;

	open_links(kind);
	burst.to = hosts[1].link->own;
	if (channel == CHANNEL_BULK)
		store_be16(burst.to.bytes + 16, hosts[1].link->bulk_port);
	hosts[1].gaps = true;
	room = hosts[1].link->room;
	for (uint64_t bytes = 0; bytes < 4 * room; bytes += 64 * 500) {
		for (unsigned i = 0; i < 64; i++) {
			burst_frame(i, number++, 500 + i, 0); /* the kernel cannot put them together */
			burst.frames[i].channel = channel;
		}
		for (unsigned sent = 0; sent < 64;)
			sent += post(0, burst.frames + sent, 64 - sent);
	}
	for (unsigned i = 0; i < 5000; i++)
		receive(1);
	CHECK(hosts[1].frames < number);
	burst_frame(0, number, 100, 0);
	burst.frames[0].channel = channel;
	burst_deliver(1, true);
	for (unsigned i = 0; i < 5000; i++) /* the links look for losses now and then */
		receive(1);
	CHECK(hosts[1].counters[COUNTER_LINK_OVERFLOWS] == number + 1 - hosts[1].frames);
	CHECK(channel == CHANNEL_RECORDS && kind < RAW ? hosts[1].link->room == room : hosts[1].link->room < room);
	close_links();
}

static void udp_full(void) { full(UDP, CHANNEL_RECORDS); }
static void scatter_full(void) { full(UDP, CHANNEL_BULK); }
static void raw_full(void) { full(RAW, CHANNEL_RECORDS); }
static void driver_full(void) { full(DRIVER, CHANNEL_RECORDS); }

/* The interface goes down, frames are taken and lost, it comes back. */
static void down(enum kind kind, unsigned which)
{
	uint64_t lost;

	open_links(kind);
	burst.to = hosts[1].link->own;
	hosts[1].gaps = true;
	burst_frame(0, 1, 100, 0);
	burst_deliver(1, true);
	pair_enter(which);
	pair_run("ip link set %s down", pair_devices[which]);
	burst_frame(0, 2, 100, 0);
	for (unsigned sent = 0, i = 0; sent < 200 && i < 20000; i++) /* or there is no room */
		sent += post(0, burst.frames, 1);
	lost = hosts[0].counters[COUNTER_LINK_LOST];
	CHECK(which == 1 || lost > 0);
	for (unsigned side = 0; side < 2; side++) {
		pair_enter(side);
		for (unsigned i = 0; i < 3; i++)
			hosts[side].link->calls->ready(hosts[side].link), receive(side);
		CHECK(!hosts[side].link->calls->ready(hosts[side].link)); /* nothing keeps the owner from sleeping */
		CHECK(!readable(hosts[side].link, 0));
	}
	pair_enter(which);
	pair_run("ip link set %s up", pair_devices[which]);
	pair_run("ip neigh replace 10.98.0.%u lladdr 02:00:00:00:98:0%u dev %s nud permanent", 2 - which, 2 - which,
		 pair_devices[which]);
	for (uint32_t i = 3; hosts[1].next <= 3; i++) { /* until one gets through */
		CHECK(i < LIMIT_S * 1000);
		burst_frame(0, i, 100, 0);
		post(0, burst.frames, 1);
		receive(1);
		nap();
	}
	close_links();
}

static void udp_down(void) { down(UDP, 0); }
static void udp_peer_down(void) { down(UDP, 1); }
static void raw_down(void) { down(RAW, 0); }
static void raw_peer_down(void) { down(RAW, 1); }
static void driver_down(void) { down(DRIVER, 0); }
static void driver_peer_down(void) { down(DRIVER, 1); }

/* A port of side 1 that refuses frames of side 0, and that no other socket there can get, as a closed one's could: its
 * own hears nobody but itself. */
static int refusing_port(struct path *path)
{
	union socket_address name;
	socklen_t size;
	int fd;

	pair_enter(1);
	*path = hosts[1].link->own;
	store_be16(path->bytes + INTERFACE_ADDRESS, 0);
	size = interface_sockaddr(path, hosts[1].interface.index, &name);
	fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, &name.any, size) == 0 && getsockname(fd, &name.any, &size) == 0);
	CHECK(connect(fd, &name.any, size) == 0);
	interface_path(&name, path);
	return fd;
}

/* Nobody is at that port: the host says so, and it does not disturb frames to others. */
static void refused(enum kind kind)
{
	struct path nobody;
	int fd;

	open_links(kind);
	fd = refusing_port(&nobody);
	for (uint32_t i = 0; i < 3; i++) {
		burst.to = nobody;
		burst_frame(0, 7, 100, 0);
		CHECK(post(0, burst.frames, 1) == 1);
		burst.to = hosts[1].link->own;
		burst_frame(0, i, 100, 0);
		burst_deliver(1, true);
		await(0, &hosts[0].refused, i + 1);
		CHECK(memcmp(&hosts[0].told, &nobody, sizeof(nobody)) == 0);
	}
	CHECK(hosts[0].counters[COUNTER_LINK_LOST] == 0);
	close(fd);
	close_links();
}

static void udp_refused(void) { refused(UDP); }
static void udp6_refused(void) { refused(UDP6); }

/* A process that computes is alive, one that has ended is not, and a host that is silent is neither. */
static void verdict(enum kind kind)
{
	struct path peer, silent;
	struct link *link;

	open_links(kind);
	link = hosts[0].link;
	peer = hosts[1].link->own;
	CHECK(ask(&peer) == LINK_ALIVE);
	for (unsigned i = 0; i < 100; i++)
		CHECK(ask(&peer) == LINK_ALIVE);
	silent = peer;
	silent.bytes[15] = 77;
	for (unsigned i = 0; i < 10; i++) {
		pair_enter(0);
		CHECK(link->calls->liveness(link, &silent, 1) == LINK_UNKNOWN);
	}
	link->calls->liveness_end(link, &silent);
	hosts[1].link->calls->close(hosts[1].link);
	CHECK(ask(&peer) == LINK_GONE);
	CHECK(ask(&peer) == LINK_GONE);
	CHECK(open_link(1, kind) == 0);
	CHECK(ask(&hosts[1].link->own) == LINK_ALIVE);
	link->calls->liveness_end(link, &hosts[1].link->own);
	close_links();
}

/* A question that began while there was no way there is answered once there is one. */
static void liveness_later(void)
{
	const struct path *to;

	open_links(UDP);
	to = &hosts[1].link->own;
	pair_enter(0);
	pair_run("ip link set %s down", pair_devices[0]);
	for (unsigned i = 0; i < 10; i++) {
		hosts[0].engine.now_ns += 1000000;
		CHECK(hosts[0].link->calls->liveness(hosts[0].link, to, 1) == LINK_UNKNOWN);
	}
	pair_run("ip link set %s up", pair_devices[0]);
	pair_run("ip neigh replace 10.98.0.2 lladdr 02:00:00:00:98:02 dev %s nud permanent", pair_devices[0]);
	CHECK(ask(to) == LINK_ALIVE);
	close_links();
}

static void udp_liveness(void) { verdict(UDP); }
static void udp6_liveness(void) { verdict(UDP6); }

/* A host that several networks reach: where a packet goes depends on the address that it comes from, and no other has
 * any way there. */
static void routed_by_source(enum kind kind, const char *family, const char *own, const char *network)
{
	pair_enter(0);
	pair_run("ip %s rule add from %s lookup 98; ip %s route del %s dev %s", family, own, family, network,
		 pair_devices[0]);
	pair_run("ip %s route add %s dev %s mtu 1400 table 98", family, network, pair_devices[0]);
	open_links(kind);
	CHECK(frame_max() == (kind == UDP ? 1400 - 28 : 1400 - 48));
	CHECK(ask(&hosts[1].link->own) == LINK_ALIVE);
	close_links();
}

static void udp_routed(void) { routed_by_source(UDP, "-4", "10.98.0.1", "10.98.0.0/24"); }
static void udp6_routed(void) { routed_by_source(UDP6, "-6", "fd98::1", "fd98::/64"); }

/* More are asked after than there is room for: each gets its turn, beside as many that never answer. */
static void liveness_many(void)
{
	bool alive[600] = {false};
	unsigned left = 300;
	struct link *link;

	open_links(UDP);
	link = hosts[0].link;
	pair_enter(0);
	for (unsigned turn = 0; left > 0; turn++) {
		unsigned before = left;

		CHECK(turn < LIMIT_S * 100);
		hosts[0].engine.now_ns += 50000000;
		for (unsigned i = 0; i < 600; i++) {
			struct path to = hosts[1].link->own;

			to.bytes[18] = (uint8_t)(i >> 8); /* the same process under many names */
			to.bytes[19] = (uint8_t)i;
			if (i % 2)
				to.bytes[15] = 77; /* nobody is there */
			if (!alive[i] && link->calls->liveness(link, &to, 1) == LINK_ALIVE) {
				alive[i] = true;
				left--;
			}
		}
		if (left == before)
			nap(); /* who answers runs on another core, or on this one */
	}
	close_links();
}

/* The way becomes narrower: frames that are too long go as fragments of IP, or are lost where there is no IP; the
 * engine is told what fits, and that fits. */
static void shrink(enum kind kind)
{
	uint32_t max, head = kind == UDP ? 28 : kind == UDP6 ? 48 : kind == RAW || kind == DRIVER ? LINK_RAW_HEAD : 0;

	open_links(kind);
	burst.to = hosts[1].link->own;
	max = frame_max();
	CHECK(max == 1500 - head);
	pair_enter(0);
	pair_run("ip link set %s mtu 1300", pair_devices[0]);
	for (unsigned i = 0; i < 10; i++)
		burst_frame(i, i, max, 0);
	for (unsigned sent = 0; sent < 10;)
		sent += post(0, burst.frames + sent, 10 - sent);
	await(0, &hosts[0].shrunk, 1);
	CHECK(hosts[0].frame_max == 1300 - head && frame_max() == 1300 - head);
	CHECK(memcmp(&hosts[0].told, &burst.to, sizeof(burst.to)) == 0);
	if (kind >= RAW)
		CHECK(hosts[0].counters[COUNTER_LINK_LOST] == 10 && hosts[1].frames == 0);
	else
		await(1, &hosts[1].frames, 10);
	for (unsigned i = 0; i < 10; i++)
		burst_frame(i, hosts[1].next + i, hosts[0].frame_max, 0);
	burst_deliver(10, true);
	close_links();
}

static void udp_shrink(void) { shrink(UDP); }
static void udp6_shrink(void) { shrink(UDP6); }
static void raw_shrink(void) { shrink(RAW); }
static void driver_shrink(void) { shrink(DRIVER); }

/* Packets of other kinds, for others, and broken ones stay out. */
static void raw_filter(void)
{
	static const uint8_t own[6] = {2, 0, 0, 0, 0x98, 2}, other[6] = {2, 0, 0, 0, 0x98, 3};
	static const uint8_t all[6] = {255, 255, 255, 255, 255, 255};
	uint8_t bytes[200] = {0};
	struct sockaddr_ll name = {.sll_family = AF_PACKET};
	int fd;

	open_links(RAW);
	pair_enter(0);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	name.sll_ifindex = (int)hosts[0].interface.index;
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	for (unsigned kind = 0; kind < 6; kind++) {
		memcpy(bytes, kind == 0 ? other : kind == 1 ? all : own, 6);
		memcpy(bytes + 6, hosts[0].interface.mac, 6);
		store_be16(bytes + 12, kind == 2 ? 0x88b6 : LINK_RAW_ETHERTYPE);
		store_be32(bytes + 14, endpoint_number(kind == 3 ? 0 : 1));
		store_be32(bytes + 18, endpoint_number(0));
		store_be16(bytes + 22, kind == 4 ? 0xffff : kind == 5 ? 200 - 25 : 100);
		fill(bytes + 26, 0, 100);
		CHECK(send(fd, bytes, kind == 5 ? 200 : 26 + 100, 0) > 0);
	}
	CHECK(send(fd, bytes, 20, 0) == 20); /* shorter than our head */
	burst.to = hosts[1].link->own;
	burst_frame(0, 0, 100, 0);
	burst_deliver(1, true);
	CHECK(hosts[1].counters[COUNTER_DROPPED_MALFORMED] == 3);
	close(fd);
	close_links();
}

/* mxoe: broadcast is heard, and frames have no other head than Ethernet's. */
static void mxoe(void)
{
	open_links(MXOE);
	burst.to = hosts[1].link->own;
	CHECK(frame_max() == 1500);
	burst_frame(0, 0, 1500, 3);
	burst_deliver(1, true);
	memset(burst.to.bytes, 255, 6);
	burst_frame(0, 1, 100, 0);
	burst_deliver(1, true);
	CHECK(hosts[0].frames == 0);
	close_links();
}

/* Without the capability a raw link says what to do. */
static void raw_refused(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	CHECK(interface_raw_permitted());
	CHECK(open_link(0, RAW) == 0);
	hosts[0].link->calls->close(hosts[0].link);
	CHECK(syscall(SYS_capset, &header, data) == 0);
	CHECK(!interface_raw_permitted());
	/* of the other namespace */
	CHECK(interface_choose(pair_devices[1], &hosts[1].interface) == THOLE_ERR_NOT_FOUND);
	CHECK(link_raw_open(&hosts[0].engine, &hosts[0].interface, LINK_RAW_ETHERTYPE, 1, hosts[0].counters,
			    &hosts[0].link) == THOLE_ERR_ACCESS);
	CHECK(hosts[0].link == NULL && strstr(thole_detail(), pair_devices[0]) &&
	      strstr(thole_detail(), "setcap cap_net_raw"));
	CHECK(link_udp_open(&hosts[0].engine, &hosts[0].interface, 1, hosts[0].counters, &hosts[0].link) == 0);
	CHECK(hosts[0].link->room >= 65536); /* without privileges too */
	hosts[0].link->calls->close(hosts[0].link);
}

/* Interfaces and routes, as they are made here. */
static void interfaces(void)
{
	static const uint8_t peer[16] = {[10] = 255, [11] = 255, [12] = 10, [13] = 98, [15] = 2}, far[16] = {0x20, 1};
	struct interface one, *list;
	uint8_t source[16];
	unsigned count;
	uint32_t mtu;

	pair_enter(0);
	CHECK(interface_list(&list, &count) == 0 && count == 2);
	free(list);
	CHECK(interface_choose(NULL, &one) == 0 && strcmp(one.name, pair_devices[0]) == 0);
	CHECK(one.mtu == 1500 && one.ethernet && one.up && one.running && !one.loopback && one.inside && one.has_ipv4 &&
	      one.has_ipv6);
	CHECK(one.mac[0] == 2 && one.mac[5] == 1 && one.ipv4[15] == 1 && one.ipv6[0] == 0xfd && one.ipv6[15] == 1);
	CHECK(interface_can_udp(&one) && interface_can_raw(&one));
	CHECK(interface_choose("10.98.0.1", &one) == 0 && strcmp(one.name, pair_devices[0]) == 0);
	CHECK(one.has_ipv4);
	CHECK(interface_choose("fd98::1", &one) == 0 && strcmp(one.name, pair_devices[0]) == 0);
	CHECK(one.has_ipv6 && !one.has_ipv4); /* by that, and by no other */
	CHECK(interface_choose("10.98.0.2", &one) == THOLE_ERR_NOT_FOUND && strstr(thole_detail(), pair_devices[0]));
	CHECK(interface_choose("lo", &one) == 0 && one.loopback && !interface_can_raw(&one));
	CHECK(interface_route(peer, NULL, 0, source, &mtu) == 0 && mtu == 1500);
	CHECK(memcmp(source, peer, 15) == 0 && source[15] == 1);
	CHECK(interface_route(far, NULL, 0, source, &mtu) == THOLE_ERR_ADDRESS);
	pair_run("ip route add 10.98.0.2/32 dev %s mtu 1400", pair_devices[0]);
	CHECK(interface_route(peer, NULL, 0, NULL, &mtu) == 0 && mtu == 1400);
	/* The default route decides, where there is one, not the order. */
	pair_run("ip link add aaa type veth peer name aab; ip address add 10.97.0.1/24 dev aaa");
	pair_run("ip link set aab up; ip link set aaa up");
	pair_run("ip route add default via 10.97.0.9");
	CHECK(interface_choose("", &one) == 0 && strcmp(one.name, "aaa") == 0);
	pair_run("ip route replace default via 10.98.0.2");
	CHECK(interface_choose("", &one) == 0 && strcmp(one.name, pair_devices[0]) == 0);
	/* An interface has each of its addresses, not the first alone. */
	pair_run("ip address add 10.98.0.3/24 dev %s; ip address add fd98::3/64 dev %s nodad", pair_devices[0],
		 pair_devices[0]);
	CHECK(interface_choose("10.98.0.3", &one) == 0 && strcmp(one.name, pair_devices[0]) == 0 && one.ethernet);
	CHECK(one.ipv4[15] == 3);
	CHECK(interface_choose("10.98.0.1", &one) == 0 && one.ipv4[15] == 1);
	CHECK(interface_choose("fd98::1", &one) == 0 && one.ipv6[15] == 1);
	CHECK(interface_choose("fd98::3", &one) == 0 && one.ipv6[15] == 3);
	pair_run("ip address add 10.97.0.2/24 dev aaa; ip route replace default via 10.97.0.9 src 10.97.0.2");
	CHECK(interface_choose("", &one) == 0 && strcmp(one.name, "aaa") == 0 && one.ipv4[15] == 2);
	CHECK(interface_choose("aaa", &one) == 0 && one.ipv4[15] == 1);
	/* A host whose address is no interface's, whichever its packets go by. */
	pair_run("ip address add 10.96.0.1/32 dev lo; ip route replace default via 10.97.0.9 src 10.96.0.1");
	CHECK(interface_choose("", &one) == 0 && one.loopback && one.ipv4[13] == 96 && !one.inside);
	CHECK(interface_can_udp(&one) && !interface_can_raw(&one));
	CHECK(interface_choose("10.96.0.1", &one) == 0 && one.loopback && one.ipv4[13] == 96 && !one.inside);
	CHECK(interface_choose("lo", &one) == 0 && one.ipv4[12] == 127 && one.inside);
	pair_run("ip address del 10.96.0.1/32 dev lo; ip link set %s down; ip link del aaa", pair_devices[0]);
	CHECK(interface_choose("", &one) == 0 && one.loopback);
	CHECK(interface_choose(pair_devices[0], &one) == 0 && !one.up && !interface_can_udp(&one) &&
	      !interface_can_raw(&one));
}

static bool ipv6_is(unsigned last)
{
	struct interface one;

	CHECK(interface_choose(pair_devices[0], &one) == 0 && one.has_ipv6);
	return one.ipv6[0] == 0xfd && one.ipv6[15] == last;
}

/* Until the kernel says so of one. */
static void address_awaits(const char *word)
{
	pair_run("for i in $(seq 3000); do ip address show dev %s | grep -q %s && exit; sleep 0.01; done; exit 1",
		 pair_devices[0], word);
}

/* Of several IPv6 addresses, of which the kernel lists the newest first. */
static void addresses(void)
{
	pair_enter(0);
	CHECK(ipv6_is(1));
	pair_run("ip address add fd98::4/64 dev %s nodad", pair_devices[0]);
	CHECK(ipv6_is(4));
	pair_run("ip address add fd98::5/64 dev %s nodad preferred_lft 0", pair_devices[0]); /* deprecated */
	CHECK(ipv6_is(4));
	/* The other host has it: no socket can be bound to it. */
	pair_run("sysctl -qw net.ipv6.conf.%s.accept_dad=1 net.ipv6.conf.%s.dad_transmits=1", pair_devices[0],
		 pair_devices[0]);
	pair_run("ip address add fd98::2/64 dev %s", pair_devices[0]);
	CHECK(ipv6_is(4)); /* while it asks, */
	address_awaits("dadfailed");
	CHECK(ipv6_is(4)); /* and when it knows */
	pair_run("ip address del fd98::4/64 dev %s; ip address del fd98::1/64 dev %s", pair_devices[0],
		 pair_devices[0]);
	CHECK(ipv6_is(5));
	CHECK(open_link(0, UDP6) == 0);
	hosts[0].link->calls->close(hosts[0].link);
	/* Temporary ones, of those that routers tell. */
	pair_run("sysctl -qw net.ipv6.conf.%s.use_tempaddr=2", pair_devices[0]);
	pair_run("ip address add fd97::1/64 dev %s nodad mngtmpaddr", pair_devices[0]);
	address_awaits("temporary");
	CHECK(ipv6_is(1));
}

/* Of all that a host has: what the default route's packets come from, and not one that ends at the next router. */
static void addresses_routed(void)
{
	struct interface one;

	pair_enter(0);
	pair_run("ip address flush dev %s; ip address add 169.254.7.7/16 dev %s", pair_devices[0], pair_devices[0]);
	pair_run("ip address add fd98::1/64 dev %s nodad", pair_devices[0]);
	CHECK(interface_choose(pair_devices[0], &one) == 0 && one.has_ipv4); /* hosts may be linked by these alone */
	CHECK(interface_choose("169.254.7.7", &one) == 0 && one.has_ipv4 && one.ipv4[15] == 7); /* as the user says */
	pair_run("ip -6 route add default via fd98::2");
	CHECK(interface_choose("", &one) == 0 && !one.has_ipv4 && one.ipv6[15] == 1);
	pair_run("ip address add fd98::4/64 dev %s nodad; ip -6 route replace default via fd98::2 src fd98::1",
		 pair_devices[0]);
	CHECK(interface_choose("", &one) == 0 && one.ipv6[15] == 1);
	CHECK(interface_choose(pair_devices[0], &one) == 0 && one.ipv6[15] == 4); /* the newest */
	pair_run("ip address change fd98::1/64 dev %s preferred_lft 0", pair_devices[0]);
	CHECK(interface_choose("", &one) == 0 && one.ipv6[15] == 4);
	/* Another interface has a default route for this host alone, as where IPv4 is translated. */
	pair_run("ip link add aaa type veth peer name aab; ip address add 169.254.172.2/22 dev aaa");
	pair_run("ip link set aab up; ip link set aaa up; ip route add default via 169.254.172.1");
	CHECK(interface_choose("", &one) == 0 && strcmp(one.name, pair_devices[0]) == 0 && !one.has_ipv4);
	pair_run("ip -6 route del default");
	CHECK(interface_choose("", &one) == 0 && strcmp(one.name, "aaa") == 0 && one.ipv4[15] == 2);
	/* An address that is routed is one to use, though it is neither the first nor the default route's. */
	pair_run("ip link del aaa; ip address add 10.98.0.9/24 dev %s", pair_devices[0]);
	CHECK(interface_choose(pair_devices[0], &one) == 0 && one.has_ipv4 && one.ipv4[12] == 10);
	pair_run("ip -6 route add default via fd98::2");
	CHECK(interface_choose("", &one) == 0 && one.has_ipv4 && one.ipv4[12] == 10);
}

/* The kernel gives an IPv4 address a name of its own, if it is told one: the interface is the same. */
static void addresses_labelled(void)
{
	struct interface one, *list;
	unsigned count;

	pair_enter(0);
	pair_run("ip address del 10.98.0.1/24 dev %s; ip address add 10.98.0.1/24 dev %s label %s:1", pair_devices[0],
		 pair_devices[0], pair_devices[0]);
	CHECK(interface_list(&list, &count) == 0 && count == 2);
	free(list);
	CHECK(interface_choose(pair_devices[0], &one) == 0 && one.has_ipv4 && one.ethernet);
	pair_run("ip route add default via 10.98.0.2");
	CHECK(interface_choose("", &one) == 0 && strcmp(one.name, pair_devices[0]) == 0 && interface_can_raw(&one));
	pair_run("ip address add 10.98.0.4/24 dev %s label %s:2", pair_devices[0], pair_devices[0]);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(interface_choose(i ? "10.98.0.4" : "tholeA:2", &one) == 0 && one.ipv4[15] == 4);
		CHECK(strcmp(one.name, pair_devices[0]) == 0 && interface_can_raw(&one));
	}
	CHECK(interface_choose("tholeA:3", &one) == THOLE_ERR_NOT_FOUND);
}

static const struct {
	const char *name;
	void (*body)(void);
} cases[] = {
	{"udp", udp},
	{"udp6", udp6},
	{"raw", raw},
	{"driver", driver},
	{"driver-alarm", driver_alarm},
	{"driver-full", driver_full},
	{"driver-down", driver_down},
	{"driver-peer-down", driver_peer_down},
	{"driver-shrink", driver_shrink},
	{"mxoe", mxoe},
	{"udp-link-local", udp_link_local},
	{"udp-barrier", udp_barrier},
	{"raw-barrier", raw_barrier},
	{"scatter", scatter},
	{"udp-alarm", udp_alarm},
	{"scatter-alarm", scatter_alarm},
	{"raw-alarm", raw_alarm},
	{"udp-full", udp_full},
	{"scatter-full", scatter_full},
	{"raw-full", raw_full},
	{"udp-down", udp_down},
	{"udp-peer-down", udp_peer_down},
	{"raw-down", raw_down},
	{"raw-peer-down", raw_peer_down},
	{"udp-refused", udp_refused},
	{"udp6-refused", udp6_refused},
	{"udp-liveness", udp_liveness},
	{"udp6-liveness", udp6_liveness},
	{"liveness-many", liveness_many},
	{"liveness-later", liveness_later},
	{"udp-routed", udp_routed},
	{"udp6-routed", udp6_routed},
	{"udp-shrink", udp_shrink},
	{"udp6-shrink", udp6_shrink},
	{"raw-shrink", raw_shrink},
	{"raw-filter", raw_filter},
	{"raw-refused", raw_refused},
	{"interfaces", interfaces},
	{"addresses", addresses},
	{"addresses-routed", addresses_routed},
	{"addresses-labelled", addresses_labelled},
};

int main(int count, char **arguments)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (count < 2) {
			puts(cases[i].name);
		} else if (strcmp(arguments[1], cases[i].name) == 0) {
			pair_make(count > 2 ? (unsigned)atoi(arguments[2]) : 1500);
			cases[i].body();
			return 0;
		}
	}
	return count < 2 ? 0 : 2;
}
