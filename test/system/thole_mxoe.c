/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_mxoe: endpoints that speak mxoe over real raw links, between two namespaces.
 *
 *   thole_mxoe CASE mxoe|mxoe-jumbo [OPTION=VALUE]...
 *
 *   cases: messages, wrap, restart, killed, neighbours, numbers, hosts, keys, board, short-mtu
 *
 * Everything but `killed` and `board` is in one process, which makes progress for all endpoints in turn. Status 77: no
 * right to make namespaces.
 */
#include "link_pair.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "base/random.h"
#include "thole.h"

enum {
	MESSAGES = 400,          /* each way */
	AHEAD = 24,              /* receives posted, and sends under way */
	LENGTH_MAX = 1500000,
	ENDPOINTS_MAX = 3,
	OPTIONS_MAX = 12,
	PATIENCE_SECONDS = 30,
};

static struct {
	const char *codec;
	char **more;
	int more_count;
	struct thole_endpoint *endpoints[ENDPOINTS_MAX];
	unsigned count;
	uint64_t state;
} test;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fprintf(stderr, " (%s)\n", thole_detail());
	exit(1);
}

/* With options beside those of all tests, or NULL. */
static int open_with(unsigned side, const char *const *extra, struct thole_endpoint **endpoint_p)
{
	char codec[64];
	const char *options[OPTIONS_MAX] = {"shm=off", "network=on", "job_key=4711", "close_timeout=10ms", codec, NULL};
	struct thole_endpoint_attr attr = {.options = options};
	int error, count = 5;

	snprintf(codec, sizeof(codec), "codec=%s", test.codec);
	for (int i = 0; extra && extra[i]; i++)
		options[count++] = extra[i];
	for (int i = 0; i < test.more_count && count < OPTIONS_MAX - 1; i++)
		options[count++] = test.more[i];
	pair_enter(side);
	error = thole_endpoint_open(&attr, endpoint_p);
	if (!error)
		test.endpoints[test.count++] = *endpoint_p;
	return error;
}

static struct thole_endpoint *must_open_with(unsigned side, const char *const *extra)
{
	struct thole_endpoint *endpoint;

	if (open_with(side, extra, &endpoint) != 0)
		fail("no endpoint on side %u", side);
	return endpoint;
}

static struct thole_endpoint *must_open(unsigned side)
{
	return must_open_with(side, NULL);
}

static void close_endpoint(struct thole_endpoint *endpoint)
{
	for (unsigned i = 0; i < test.count; i++)
		if (test.endpoints[i] == endpoint)
			test.endpoints[i] = test.endpoints[--test.count];
	thole_endpoint_close(endpoint);
}

static uint32_t peer_of(struct thole_endpoint *endpoint, struct thole_endpoint *other)
{
	struct thole_address address;
	uint32_t peer;

	thole_endpoint_address(other, &address);
	if (thole_peer(endpoint, &address, &peer) != 0)
		fail("no peer");
	return peer;
}

/* Until the request has ended, or for too long. */
static int finish(struct thole_endpoint *endpoint, struct thole_request *request, struct thole_completion *completion_p)
{
	time_t end = time(NULL) + PATIENCE_SECONDS;

	while (!thole_test(endpoint, request, completion_p)) {
		for (unsigned i = 0; i < test.count; i++)
			thole_progress(test.endpoints[i]);
		if (time(NULL) > end)
			fail("it takes too long");
	}
	return completion_p->status;
}

static uint8_t byte_of(uint64_t tag, uint64_t i)
{
	return (uint8_t)((i * UINT64_C(0x9e3779b1) + tag * UINT64_C(0x85ebca6b)) >> 16);
}

static int send_one(struct thole_endpoint *endpoint, uint32_t peer, uint64_t tag, uint64_t length, unsigned flags,
		    uint8_t *buffer, struct thole_request **request_p)
{
	for (uint64_t i = 0; i < length; i++)
		buffer[i] = byte_of(tag, i);
	return thole_send(endpoint, peer, buffer, length, tag, 0, flags, NULL, request_p);
}

static void check_one(const struct thole_completion *completion, uint64_t tag, uint64_t length, const uint8_t *buffer)
{
	if (completion->status || completion->tag != tag || completion->message_length != length)
		fail("message %llu: status %d, length %llu, not %llu", (unsigned long long)tag, completion->status,
		     (unsigned long long)completion->message_length, (unsigned long long)length);
	for (uint64_t i = 0; i < length; i++)
		if (buffer[i] != byte_of(tag, i))
			fail("message %llu of %llu bytes is altered at %llu", (unsigned long long)tag,
			     (unsigned long long)length, (unsigned long long)i);
}

static void exchange(struct thole_endpoint *from, struct thole_endpoint *to, uint64_t tag, uint64_t length)
{
	uint8_t *out = malloc(length + 1), *in = malloc(length + 1);
	struct thole_request *send, *receive;
	struct thole_completion completion;

	if (thole_recv(to, THOLE_ANY, in, length + 1, tag, ~UINT64_C(0), 0, NULL, &receive) != 0 ||
	    send_one(from, peer_of(from, to), tag, length, 0, out, &send) != 0)
		fail("message %llu cannot be started", (unsigned long long)tag);
	finish(to, receive, &completion);
	check_one(&completion, tag, length, in);
	if (finish(from, send, &completion) != 0)
		fail("the send of message %llu ends with %d", (unsigned long long)tag, completion.status);
	free(out);
	free(in);
}

/* ---- Messages of all lengths, both ways ------------------------------------------------------------------ */

struct transfer {
	struct thole_request *request;
	uint8_t *buffer;
	uint64_t length;
};

static uint64_t random_length(void)
{
	static const uint64_t classes[] = {1, 33, 129, 4097, 8193, 32769, 70000, LENGTH_MAX};

	return random_next(&test.state) % classes[random_next(&test.state) % 8];
}

static void messages(void)
{
	struct thole_endpoint *ends[2] = {must_open(0), must_open(1)};
	static struct transfer sends[2][MESSAGES], receives[2][MESSAGES];
	uint32_t peers[2] = {peer_of(ends[0], ends[1]), peer_of(ends[1], ends[0])};
	unsigned sent[2] = {0}, posted[2] = {0};
	struct thole_completion completion;
	uint64_t bytes = 0;

	for (unsigned side = 0; side < 2; side++)
		for (unsigned i = 0; i < MESSAGES; i++)
			sends[side][i].length = random_length();
	for (unsigned i = 0; i < MESSAGES; i++) {
		for (unsigned side = 0; side < 2; side++) {
			for (; posted[side] < MESSAGES && posted[side] < i + AHEAD; posted[side]++) {
				struct transfer *receive = &receives[side][posted[side]];

				receive->buffer = malloc(LENGTH_MAX);
				/* Any source and tag: in the order in which they were sent. */
				if (thole_recv(ends[side], THOLE_ANY, receive->buffer, LENGTH_MAX, 0, 0, 0, NULL,
					       &receive->request) != 0)
					fail("a receive cannot be posted");
			}
			for (; sent[side] < MESSAGES && sent[side] < i + 2 * AHEAD; sent[side]++) {
				struct transfer *send = &sends[side][sent[side]];
				unsigned flags = random_next(&test.state) % 8 == 0 ? THOLE_SYNC : 0;

				send->buffer = malloc(send->length + 1);
				if (send_one(ends[side], peers[side], sent[side], send->length, flags, send->buffer,
					     &send->request) != 0)
					fail("a send cannot be started");
			}
		}
		for (unsigned side = 0; side < 2; side++) {
			finish(ends[side], receives[side][i].request, &completion);
			check_one(&completion, i, sends[!side][i].length, receives[side][i].buffer);
			bytes += completion.length;
			free(receives[side][i].buffer);
		}
	}
	for (unsigned side = 0; side < 2; side++)
		for (unsigned i = 0; i < MESSAGES; i++) {
			if (finish(ends[side], sends[side][i].request, &completion) != 0)
				fail("send %u ends with %d", i, completion.status);
			free(sends[side][i].buffer);
		}
	printf("%u messages each way, %llu bytes\n", MESSAGES, (unsigned long long)bytes);
}

/* ---- More messages than there are numbers of them, and of windows -------------------------------------------- */

enum { WRAP_MESSAGES = 40000, WRAP_BURST = 100, WRAP_SYNC = 8 };

static void wrap(void)
{
	struct thole_endpoint *a = must_open(0), *b = must_open(1);
	uint32_t peer = peer_of(a, b);
	struct thole_request *sends[WRAP_BURST], *receives[WRAP_BURST];
	static uint64_t in[WRAP_BURST], out[WRAP_BURST];
	struct thole_completion completion;

	for (uint64_t first = 0; first < WRAP_MESSAGES; first += WRAP_BURST) {
		for (uint64_t i = 0; i < WRAP_BURST; i++) {
			out[i] = first + i;
			if (thole_recv(b, THOLE_ANY, &in[i], 8, 0, 0, 0, NULL, &receives[i]) != 0 ||
			    thole_send(a, peer, &out[i], 8, 7, 0, i % WRAP_SYNC ? 0 : THOLE_SYNC, NULL, &sends[i]) != 0)
				fail("message %llu cannot be started", (unsigned long long)(first + i));
		}
		for (uint64_t i = 0; i < WRAP_BURST; i++)
			if (finish(b, receives[i], &completion) != 0 || in[i] != first + i ||
			    finish(a, sends[i], &completion) != 0)
				fail("message %llu: status %d, number %llu", (unsigned long long)(first + i),
				     completion.status, (unsigned long long)in[i]);
	}
}

/* ---- An endpoint whose number somebody else gets ----------------------------------------------------------- */

static void restart(void)
{
	struct thole_endpoint *a = must_open(0), *b = must_open(1);
	struct thole_completion completion;
	struct thole_request *request;
	uint8_t byte;
	uint32_t old;

	exchange(a, b, 1, 100000);
	exchange(b, a, 2, 10);
	old = peer_of(a, b);
	close_endpoint(b);
	b = must_open(1); /* has the number of the one before */
	if (send_one(a, old, 3, 1, THOLE_SYNC, &byte, &request) != 0 ||
	    finish(a, request, &completion) != THOLE_ERR_PEER)
		fail("what goes to the old endpoint ends with %d", completion.status);
	if (peer_of(a, b) == old)
		fail("the new endpoint is taken for the old one");
	exchange(a, b, 4, 100000);
	exchange(b, a, 5, 100000);
	close_endpoint(a);
	a = must_open(0);
	/* b has not heard of it. */
	if (send_one(b, peer_of(b, a), 6, 1, THOLE_SYNC, &byte, &request) != 0 ||
	    finish(b, request, &completion) != THOLE_ERR_PEER)
		fail("what goes to the one before ends with %d", completion.status);
	exchange(b, a, 7, 10);
}

/* ---- A process that is killed amid large messages --------------------------------------------------------------- */

enum { KILLED_ROUNDS = 4, KILLED_EACH = 3, KILLED_HELLO = 99 };

/* The first is there long before the others. */
static const uint64_t killed_length[KILLED_EACH] = {200000, 8 << 20, 8 << 20};

/* It has large messages on their way from and to the other side, until it is killed. */
static void killed_process(const struct thole_address *to)
{
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	uint32_t peer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	test.count = 0; /* its parent's */
	endpoint = must_open(1);
	if (thole_peer(endpoint, to, &peer) != 0 ||
	    thole_send(endpoint, peer, NULL, 0, KILLED_HELLO, 0, THOLE_QUIET, NULL, NULL) != 0)
		fail("it cannot speak");
	for (uint64_t tag = 0; tag < KILLED_EACH; tag++)
		if (thole_recv(endpoint, peer, malloc(killed_length[tag]), killed_length[tag], tag, ~UINT64_C(0), 0,
			       NULL, &request) != 0 ||
		    send_one(endpoint, peer, tag, killed_length[tag], 0, malloc(killed_length[tag]), &request) != 0)
			fail("message %u cannot be started", (unsigned)tag);
	for (;;)
		thole_progress(endpoint);
}

static uint32_t killed_peer(struct thole_endpoint *endpoint)
{
	struct thole_completion completion;
	struct thole_request *request;

	if (thole_recv(endpoint, THOLE_ANY, NULL, 0, KILLED_HELLO, ~UINT64_C(0), 0, NULL, &request) != 0 ||
	    finish(endpoint, request, &completion) != 0)
		fail("it does not speak");
	return completion.peer;
}

/* Its first message is here, of the others a part. */
static void killed_once(struct thole_endpoint *a, pid_t child, bool replaced)
{
	struct transfer out[KILLED_EACH], in[KILLED_EACH];
	struct thole_completion completion;
	struct thole_endpoint *b = NULL;
	uint32_t peer = killed_peer(a);
	unsigned errors = 0;

	for (uint64_t tag = 0; tag < KILLED_EACH; tag++) {
		out[tag].length = in[tag].length = killed_length[tag];
		out[tag].buffer = malloc(out[tag].length);
		in[tag].buffer = malloc(in[tag].length);
		if (thole_recv(a, peer, in[tag].buffer, in[tag].length, tag, ~UINT64_C(0), 0, NULL, &in[tag].request) !=
			    0 ||
		    send_one(a, peer, tag, out[tag].length, 0, out[tag].buffer, &out[tag].request) != 0)
			fail("message %u cannot be started", (unsigned)tag);
	}
	finish(a, in[0].request, &completion);
	check_one(&completion, 0, in[0].length, in[0].buffer);
	if (kill(child, SIGKILL) != 0 || waitpid(child, NULL, 0) != child)
		fail("no child");
	if (replaced)
		b = must_open(1); /* under the same number, of which a hears that it is another's now */
	for (uint64_t tag = 0; tag < KILLED_EACH; tag++) {
		errors += finish(a, out[tag].request, &completion) == THOLE_ERR_PEER;
		if (tag > 0 && finish(a, in[tag].request, &completion) == 0)
			check_one(&completion, tag, in[tag].length, in[tag].buffer);
		errors += tag > 0 && completion.status == THOLE_ERR_PEER;
		free(out[tag].buffer);
		free(in[tag].buffer);
	}
	if (errors == 0)
		fail("nothing was on its way");
	if (b) {
		exchange(b, a, 1, killed_length[1]);
		exchange(a, b, 2, killed_length[1]);
		close_endpoint(b);
	}
}

/* Everything that is on its way ends, in an error where it was not there yet; whoever comes in its place is served. */
static void killed(void)
{
	static const char *const options[] = {"peer_timeout=5s", NULL};
	struct thole_endpoint *a = must_open_with(0, options);
	struct thole_address address;

	thole_endpoint_address(a, &address);
	for (unsigned round = 0; round < KILLED_ROUNDS; round++) {
		pid_t child = fork();

		if (child < 0)
			fail("no process");
		if (child == 0)
			killed_process(&address);
		killed_once(a, child, round % 2 == 0);
	}
}

/* ---- Several endpoints at one interface ---------------------------------------------------------------------- */

static void neighbours(void)
{
	struct thole_endpoint *a = must_open(0), *b = must_open(1), *second = must_open(1);
	struct thole_completion completion;
	struct thole_request *request;
	uint8_t byte;
	uint32_t peer;

	exchange(a, b, 1, 200000);
	exchange(a, second, 2, 200000);
	exchange(second, a, 3, 200000);
	exchange(b, a, 4, 10);
	/* Whoever is still there says that the other one is not. */
	peer = peer_of(a, second);
	close_endpoint(second);
	pair_enter(1);
	if (send_one(a, peer, 5, 1, THOLE_SYNC, &byte, &request) != 0 ||
	    finish(a, request, &completion) != THOLE_ERR_PEER)
		fail("what goes to the closed endpoint ends with %d", completion.status);
	exchange(a, b, 6, 200000);
}

/* Nobody who asks for these frames is left with shared memory alone, and no word of it. */
static void must_not_open(const char *const *options, int expected, const char *because)
{
	struct thole_endpoint *endpoint;
	int error = open_with(0, options, &endpoint);

	if (error != expected || !strstr(thole_detail(), because))
		fail("it opens, or fails for another reason than the %s: %d", because, error);
}

static void short_mtu(void)
{
	static const char *const local[] = {"shm=on", "network=auto", NULL},
				 *const off[] = {"shm=on", "network=off", NULL},
				 *const shorter[] = {"shm=on", "network=auto", "mtu=4000", NULL};

	must_not_open(NULL, THOLE_ERR_ADDRESS, "MTU");
	must_not_open(local, THOLE_ERR_ADDRESS, "MTU");
	must_not_open(off, THOLE_ERR_ARGUMENT, "network");
	pair_enter(0);
	pair_run("ip link set %s mtu 9000", pair_devices[0]);
	must_not_open(shorter, THOLE_ERR_ADDRESS, "option mtu");
	must_open_with(0, local);
}

/* ---- Names: of endpoints, and of hosts ------------------------------------------------------------------------ */

static void must_be(const char *what, const char *text, const char *expected)
{
	if (strcmp(text, expected) != 0)
		fail("%s is \"%s\", not \"%s\"", what, text, expected);
}

static void must_be_named(struct thole_endpoint *endpoint, const char *expected)
{
	struct thole_address address;

	thole_endpoint_address(endpoint, &address);
	must_be("the address", address.text, expected);
}

enum { ETHERTYPE = 0x86df, QUERY = 3, REPLY = 4, NAME_AT = 14 + 2 + 16 };

/* Ask the host of the other side what it is called, as a host with MX would. */
static void host_name(char *name, size_t size)
{
	static const uint8_t query[60] = {2,
					  0,
					  0,
					  0,
					  0x98,
					  2,
					  2,
					  0,
					  0,
					  0,
					  0x98,
					  1,
					  ETHERTYPE >> 8,
					  ETHERTYPE & 0xff,
					  0,
					  0,
					  QUERY,
					  [16 + 8] = 0x13,
					  0x05,
					  0x20,
					  0x08};
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE)};
	time_t end = time(NULL) + PATIENCE_SECONDS;
	uint8_t frame[1514];
	int fd;

	pair_enter(0);
	at.sll_ifindex = (int)if_nametoindex(pair_devices[0]);
	fd = socket(AF_PACKET, SOCK_RAW, htons(ETHERTYPE));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    write(fd, query, sizeof(query)) != sizeof(query))
		fail("no frame can be sent: %m");
	for (;;) {
		ssize_t length = recv(fd, frame, sizeof(frame), MSG_DONTWAIT);
		size_t named = length > NAME_AT ? frame[17] : 0;

		if (length > NAME_AT && frame[16] == REPLY && NAME_AT + named <= (size_t)length && named > 0 &&
		    named < size) {
			/* As hosts with Open-MX do: the last byte is to be a NUL. */
			memcpy(name, frame + NAME_AT, named);
			name[named - 1] = '\0';
			close(fd);
			return;
		}
		for (unsigned i = 0; i < test.count; i++)
			thole_progress(test.endpoints[i]);
		if (time(NULL) > end)
			fail("no host says its name");
	}
}

static void numbers(void)
{
	static const char *const three[] = {"number=3", NULL}, *const board[] = {"number=255", "board_name=elsewhere:1",
										 NULL};
	struct thole_endpoint *a = must_open(0), *b = must_open_with(1, three), *c = must_open(1), *none;
	char name[128], own[64] = "";
	int error;

	must_be_named(a, "mxoe:02:00:00:00:98:01/0");
	must_be_named(b, "mxoe:02:00:00:00:98:02/3");
	must_be_named(c, "mxoe:02:00:00:00:98:02/0");
	error = open_with(1, three, &none);
	if (error != THOLE_ERR_BUSY || !strstr(thole_detail(), "number"))
		fail("a number that is taken: %d", error);
	exchange(a, b, 1, 10000);
	exchange(c, a, 2, 10000);
	gethostname(own, sizeof(own) - 3);
	host_name(name, sizeof(name));
	must_be("the host", name, strcat(own, ":0"));
	close_endpoint(b);
	close_endpoint(c);
	b = must_open_with(1, board);
	must_be_named(b, "mxoe:02:00:00:00:98:02/255");
	host_name(name, sizeof(name));
	must_be("the host", name, "elsewhere:1");
	close_endpoint(b);
	must_be_named(must_open_with(1, three), "mxoe:02:00:00:00:98:02/3");
}

/* ---- Who is there ----------------------------------------------------------------------------------------------- */

static int ask_hosts(const char *wanted, uint64_t wait_ns, struct thole_mxoe_host *host)
{
	pair_enter(0);
	*host = (struct thole_mxoe_host){.name = "nobody"};
	return thole_mxoe_hosts(pair_devices[0], wanted, wait_ns, host, 1);
}

static void must_answer(const char *wanted, uint64_t wait_ns, const char *name)
{
	time_t end = time(NULL) + PATIENCE_SECONDS;
	struct thole_mxoe_host host;
	int count;

	do /* who says so once a second may be late */
		count = ask_hosts(wanted, wait_ns, &host);
	while (count == 0 && time(NULL) < end);
	if (count != 1)
		fail("%s does not answer, or more than it", wanted ? wanted : "the host");
	must_be("the host", host.name, name);
	must_be("its MAC", host.mac, "02:00:00:00:98:02");
	if (host.trip_ns == 0 || host.trip_ns > wait_ns)
		fail("it answers after %llu ns", (unsigned long long)host.trip_ns);
}

/* As they say themselves, while a program computes; whoever asks has no endpoint. */
static void hosts(void)
{
	static const char *const named[] = {"board_name=v\tm:0", "progress_thread=on", NULL};
	const uint64_t long_ns = UINT64_C(30000000000), turn_ns = 1300000000, short_ns = 50000000;
	struct thole_endpoint *endpoint = must_open_with(1, named), *other = must_open_with(1, named);
	struct thole_mxoe_host host;

	must_answer("02:00:00:00:98:02", long_ns, "v?m:0");
	must_answer("V?M:0", long_ns, "v?m:0");
	must_answer("V?M:0", UINT64_MAX, "v?m:0"); /* however long that is */
	must_answer(NULL, turn_ns, "v?m:0"); /* once, though two endpoints say it */
	if (ask_hosts("02:00:00:00:98:03", short_ns, &host) != 0 || ask_hosts("elsewhere:0", short_ns, &host) != 0)
		fail("somebody answers for nobody");
	if (thole_mxoe_hosts("lo", NULL, short_ns, &host, 1) != THOLE_ERR_ADDRESS ||
	    !strstr(thole_detail(), "Ethernet"))
		fail("the loopback has hosts, or another reason not to");
	close_endpoint(endpoint);
	close_endpoint(other);
	if (ask_hosts("02:00:00:00:98:02", short_ns, &host) != 0)
		fail("a host answers after its last endpoint");
}

/* ---- Keys ------------------------------------------------------------------------------------------------------- */

static int connect_to(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key)
{
	struct thole_completion completion;
	struct thole_request *request;
	int error = thole_connect(endpoint, peer, key, NULL, &request);

	return error ? error : finish(endpoint, request, &completion);
}

static uint32_t peer_named(struct thole_endpoint *endpoint, const char *text)
{
	struct thole_address address = {{0}};
	uint32_t peer;

	memcpy(address.text, text, strlen(text));
	if (thole_peer(endpoint, &address, &peer) != 0)
		fail("no peer %s", text);
	return peer;
}

static struct thole_peer_info info_of(struct thole_endpoint *endpoint, uint32_t peer)
{
	struct thole_peer_info info;

	if (thole_peer_info(endpoint, peer, &info) != 0)
		fail("nothing is known of peer %u", peer);
	return info;
}

static void keys(void)
{
	static const char *const other[] = {"job_key=0x100000005", NULL};
	struct thole_endpoint *a = must_open(0), *b = must_open_with(1, other);
	uint32_t peer = peer_of(a, b);
	struct thole_request *request;
	struct thole_address address;

	if (connect_to(a, peer, 4711) != THOLE_ERR_ACCESS)
		fail("a wrong key is taken");
	must_be("the reason", info_of(a, peer).reason, "refused");
	if (peer_of(a, b) == peer)
		fail("who was refused cannot try again");
	peer = peer_of(a, b);
	if (connect_to(a, peer, 5) != 0)
		fail("the right key is not taken");
	exchange(a, b, 1, 100000);
	exchange(b, a, 2, 100000);
	if (thole_peer_address(b, peer_of(b, a), &address) != 0)
		fail("no address");
	must_be("the peer", address.text, "mxoe:02:00:00:00:98:01/0");
	if (info_of(a, peer).session == 0 || info_of(a, peer).session != info_of(b, peer_of(b, b)).session)
		fail("the session is %u, and not %u", info_of(a, peer).session, info_of(b, peer_of(b, b)).session);
	if (connect_to(b, peer_of(b, a), 4711) != 0)
		fail("the key of the one who came is not taken");
	/* Its host says that nobody has this number. */
	peer = peer_named(a, "mxoe:02:00:00:00:98:02/77");
	if (connect_to(a, peer, 5) != THOLE_ERR_PEER)
		fail("somebody answers for nobody");
	must_be("the reason", info_of(a, peer).reason, "ended");
	/* Nobody says anything: it is given up, or it ends with the endpoint. */
	peer = peer_named(a, "mxoe:02:00:00:00:98:77/0");
	if (thole_connect(a, peer, 5, &test, NULL) != 0 || thole_cancel_context(a, &test) != 1 ||
	    thole_connect(a, peer, 5, NULL, &request) != 0)
		fail("a connect cannot be given up");
}

/* ---- Two processes at one interface --------------------------------------------------------------------- */

enum { BOARD_ROUNDS = 20 };

static void tell(int pipe)
{
	if (write(pipe, "", 1) != 1)
		fail("nobody waits");
}

static void await(int pipe)
{
	char byte;

	if (read(pipe, &byte, 1) != 1)
		fail("the other process has ended");
}

/* A process that speaks first, says so, is answered, says so, and waits for its end. */
static void board_process(uint64_t round, int out)
{
	static const char *const options[] = {"shm=on", "number=1", NULL};
	struct thole_endpoint *endpoint;
	struct thole_completion completion;
	struct thole_request *request;
	uint64_t answer = 0;
	uint32_t peer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	test.count = 0; /* its parent's */
	endpoint = must_open_with(0, options);
	must_be_named(endpoint, "mxoe:02:00:00:00:98:01/1");
	peer = peer_named(endpoint, "mxoe:02:00:00:00:98:01/0");
	if (connect_to(endpoint, peer, 0) != 0 ||
	    thole_recv(endpoint, peer, &answer, 8, 2, UINT64_MAX, 0, NULL, &request) != 0 ||
	    thole_send(endpoint, peer, &round, 8, 1, 0, THOLE_QUIET, NULL, NULL) != 0)
		fail("round %u: nothing can be said", (unsigned)round);
	tell(out);
	if (finish(endpoint, request, &completion) != 0 || answer != round + 1)
		fail("round %u: the answer is %u", (unsigned)round, (unsigned)answer);
	tell(out);
	for (;;)
		pause();
}

/* Whoever comes in the place of one that was killed is another peer, though that end was not yet noticed. */
static void board(void)
{
	static const char *const options[] = {"shm=on", "number=0", NULL};
	struct thole_endpoint *endpoint = must_open_with(0, options);
	struct thole_completion completion;
	struct thole_request *request;
	struct thole_address address;
	uint32_t former = THOLE_ANY;
	for (uint64_t round = 0; round < BOARD_ROUNDS; round++) {
		uint64_t in = 0, out = round + 1;
		int pipes[2];
		pid_t child;

		if (pipe(pipes) != 0 || (child = fork()) < 0)
			fail("no process");
		if (child == 0)
			board_process(round, pipes[1]);
		close(pipes[1]);
		await(pipes[0]); /* so the end of the one before and the first word of this one are seen together */
		if (thole_recv(endpoint, THOLE_ANY, &in, 8, 1, UINT64_MAX, 0, NULL, &request) != 0 ||
		    finish(endpoint, request, &completion) != 0 || in != round)
			fail("round %u: %u came", (unsigned)round, (unsigned)in);
		if (completion.peer == former)
			fail("it is taken for the one before");
		former = completion.peer;
		if (thole_peer_address(endpoint, former, &address) != 0)
			fail("no address");
		must_be("the peer", address.text, "mxoe:02:00:00:00:98:01/1");
		if (connect_to(endpoint, former, 0) != 0)
			fail("no connection");
		must_be("its way", info_of(endpoint, former).transport, "shm");
		must_be("its records' way", info_of(endpoint, former).records, "ring");
		if (thole_send(endpoint, former, &out, 8, 2, 0, THOLE_QUIET, NULL, NULL) != 0)
			fail("no answer can be given");
		await(pipes[0]);
		close(pipes[0]);
		kill(child, SIGKILL);
		if (waitpid(child, NULL, 0) != child)
			fail("no child");
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (argc > 2) {
		test.codec = argv[2];
		test.more = argv + 3;
		test.more_count = argc - 3;
	}
	pair_make(strcmp(what, "short-mtu") == 0 ? 1500 : 9000);
	if (strcmp(what, "messages") == 0)
		messages();
	else if (strcmp(what, "wrap") == 0)
		wrap();
	else if (strcmp(what, "restart") == 0)
		restart();
	else if (strcmp(what, "killed") == 0)
		killed();
	else if (strcmp(what, "neighbours") == 0)
		neighbours();
	else if (strcmp(what, "numbers") == 0)
		numbers();
	else if (strcmp(what, "hosts") == 0)
		hosts();
	else if (strcmp(what, "keys") == 0)
		keys();
	else if (strcmp(what, "board") == 0)
		board();
	else if (strcmp(what, "short-mtu") == 0)
		short_mtu();
	else
		return 2;
	while (test.count)
		close_endpoint(test.endpoints[0]);
	printf("ok\n");
	return 0;
}
