/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_ways: two endpoints in two network namespaces with both links between them, of which one stops in the middle
 * of transfers.
 *
 *   thole_ways CASE [driver]      without an argument: prints the cases, one a line
 *
 * Both are in one process, which makes progress for them in turn. Status 77: no right to make namespaces or to send
 * raw frames; with "driver" these are sent by it.
 */
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "link_pair.h"
#include "thole.h"

enum { LENGTH = 4 << 20, LIMIT_S = 60 };

#define CHECK(what)                                                                                            \
	do {                                                                                                   \
		if (!(what)) {                                                                                 \
			fprintf(stderr, "%s:%d: %s (last detail: %s)\n", __FILE__, __LINE__, #what, thole_detail()); \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

static struct side {
	struct thole_endpoint *endpoint;
	uint32_t peer;
	struct thole_request *send, *receive;
	unsigned char *out, *in;
} sides[2];

static const char *small = "raw"; /* the way of small messages */

/* What is not permitted from now on is done by the driver. */
static void without_raw(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	CHECK(syscall(SYS_capget, &header, data) == 0);
	data[0].effective &= ~(1u << CAP_NET_RAW);
	data[0].permitted &= ~(1u << CAP_NET_RAW);
	CHECK(syscall(SYS_capset, &header, data) == 0);
	small = "driver";
}

static void open_side(unsigned i)
{
	const char *const options[] = {"shm=off", "network=on", "link=both", "peer_timeout=3s", "job_key=4711", NULL};
	struct thole_endpoint_attr attr = {.options = options};

	pair_enter(i);
	if (thole_endpoint_open(&attr, &sides[i].endpoint) == THOLE_ERR_ACCESS)
		exit(PAIR_SKIP);
	CHECK(sides[i].endpoint);
	sides[i].out = malloc(LENGTH);
	sides[i].in = malloc(LENGTH);
	CHECK(sides[i].out && sides[i].in);
	for (unsigned at = 0; at < LENGTH; at++)
		sides[i].out[at] = (unsigned char)(at * 31 >> 3 ^ at >> 11 ^ i);
}

static void progress(void)
{
	for (unsigned i = 0; i < 2; i++) {
		pair_enter(i);
		thole_progress(sides[i].endpoint);
	}
}

static void begin(size_t length)
{
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = &sides[i];

		pair_enter(i);
		memset(side->in, 0, length);
		CHECK(thole_recv(side->endpoint, side->peer, side->in, length, 1, ~UINT64_C(0), 0, NULL,
				 &side->receive) == 0);
		CHECK(thole_send(side->endpoint, side->peer, side->out, length, 1, 0, 0, NULL, &side->send) == 0);
	}
}

/* Each call in the endpoint's own namespace: it may open sockets. */
static void finish(unsigned i, struct thole_request *request)
{
	struct thole_completion completion;
	time_t end = time(NULL) + LIMIT_S;

	for (pair_enter(i); !thole_test(sides[i].endpoint, request, &completion); pair_enter(i)) {
		CHECK(time(NULL) < end);
		progress();
	}
	CHECK(completion.status == 0);
}

static void end(size_t length)
{
	for (unsigned i = 0; i < 2; i++) {
		finish(i, sides[i].send);
		finish(i, sides[i].receive);
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK(memcmp(sides[i].in, sides[1 - i].out, length) == 0);
}

static void is_by(unsigned first, const char *records, const char *bulk)
{
	struct thole_peer_info info;
	time_t limit = time(NULL) + LIMIT_S;

	for (unsigned i = first; i < 2; i++)
		do {
			CHECK(time(NULL) < limit);
			progress();
			CHECK(thole_peer_info(sides[i].endpoint, sides[i].peer, &info) == 0);
		} while (strcmp(info.records, records) != 0 || strcmp(info.bulk, bulk) != 0);
}

/* The kernels drop UDP on its way out. */
static void blackhole(void)
{
	for (unsigned i = 0; i < 2; i++) {
		pair_enter(i);
		pair_run("ip route replace blackhole 10.98.0.%u/32", 2 - i);
	}
}

static void unblackhole(void)
{
	for (unsigned i = 0; i < 2; i++) {
		pair_enter(i);
		pair_run("ip route del blackhole 10.98.0.%u/32", 2 - i);
	}
}

static void blackhole_one_way(void)
{
	pair_enter(0);
	pair_run("ip route replace blackhole 10.98.0.2/32");
}

static void unblackhole_one_way(void)
{
	pair_enter(0);
	pair_run("ip route del blackhole 10.98.0.2/32");
}

/* One of them has no IP address any more. */
static void no_address(void)
{
	pair_enter(1);
	pair_run("ip address del 10.98.0.2/24 dev %s", pair_devices[1]);
}

static void address_again(void)
{
	pair_enter(1);
	pair_run("ip address add 10.98.0.2/24 dev %s", pair_devices[1]);
}

static const struct {
	const char *name;
	void (*stop)(void), (*go_on)(void);
} cases[] = {
	{"blackhole", blackhole, unblackhole},
	{"blackhole-one-way", blackhole_one_way, unblackhole_one_way},
	{"no-address", no_address, address_again},
};

static void run(void (*stop)(void), void (*go_on)(void), bool driver)
{
	struct thole_address address;

	pair_make(1500);
	if (driver)
		without_raw();
	for (unsigned i = 0; i < 2; i++)
		open_side(i);
	for (unsigned i = 0; i < 2; i++) {
		thole_endpoint_address(sides[1 - i].endpoint, &address);
		CHECK(thole_peer(sides[i].endpoint, &address, &sides[i].peer) == 0);
	}
	begin(LENGTH);
	end(LENGTH);
	is_by(0, small, "udp");
	begin(LENGTH);
	stop();
	end(LENGTH);
	is_by(1, small, small); /* it hears no data by UDP in any of the cases */
	begin(30000);
	end(30000);
	go_on();
	is_by(0, small, "udp");
	begin(LENGTH);
	end(LENGTH);
	for (unsigned i = 0; i < 2; i++) {
		pair_enter(i);
		thole_endpoint_close(sides[i].endpoint);
	}
}

int main(int count, char **arguments)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (count < 2)
			puts(cases[i].name);
		else if (strcmp(arguments[1], cases[i].name) == 0)
			return run(cases[i].stop, cases[i].go_on, count > 2 && strcmp(arguments[2], "driver") == 0), 0;
	return count < 2 ? 0 : 2;
}
