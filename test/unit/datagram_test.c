/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints over the network: which transport a peer gets, what is said where none leads to it, and running, sleeping
 * and closing with real sockets. Both ends are in this process and take themselves for different hosts; UDP over the
 * loopback is enough for all of it. What frames say is the engine's business, and tested with it.
 *
 * interface_can_raw and link_raw_open are replaced (by the linker's --wrap): whether a raw link would be opened.
 */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "barrier.h"
#include "base/clock.h"
#include "descriptors.h"
#include "wire.h"

enum { POLL_MS_MAX = 20000 }; /* after which something is taken to hang, */
#define FINISH_NS_MAX UINT64_C(60000000000) /* and a request */

/* One thread has both ends, so whoever closes first waits in vain for the other to acknowledge. */
#define HOST_A "host=a", "interface=lo", "link=udp", "close_timeout=10ms"
#define HOST_B "host=b", "interface=lo", "link=udp", "close_timeout=10ms"

static const char *const host_a[] = {HOST_A, NULL}, *const host_b[] = {HOST_B, NULL};

static void two_open(struct pair *pair, const char *const *options_a, const char *const *options_b)
{
	pair->a = pair_endpoint(NULL, NULL, options_a);
	pair->b = pair_endpoint(NULL, NULL, options_b);
	pair->a_to_b = pair_peer(pair->a, pair->b);
	pair->b_to_a = pair_peer(pair->b, pair->a);
}

/* As pair_finish, but that what is lost takes time and not turns. */
static int two_finish(struct pair *pair, struct thole_endpoint *endpoint, struct thole_request *request,
		      struct thole_completion *completion_p)
{
	struct thole_endpoint *other = endpoint == pair->a ? pair->b : pair->a;
	uint64_t start_ns = clock_now_ns();
	struct thole_completion completion;

	while (!thole_test(endpoint, request, &completion)) {
		thole_progress(other);
		if (clock_now_ns() - start_ns > FINISH_NS_MAX)
			fail_msg("a request did not complete");
	}
	if (completion_p)
		*completion_p = completion;
	return completion.status;
}

/* Send `length` bytes from a to b, and check them. */
static void two_exchange(struct pair *pair, uint64_t id, size_t length)
{
	struct thole_request *send, *receive;
	struct thole_completion completion;
	void *out = pair_filled(id, length), *in = malloc(length ? length : 1);

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, length, id, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, out, length, id, 0, 0, NULL, &send), 0);
	assert_int_equal(two_finish(pair, pair->b, receive, &completion), 0);
	assert_int_equal(completion.length, length);
	pair_check(id, in, length);
	assert_int_equal(two_finish(pair, pair->a, send, NULL), 0);
	free(out);
	free(in);
}

static const char *transport_of(struct thole_endpoint *endpoint, uint32_t peer)
{
	struct thole_peer_info info;

	assert_int_equal(thole_peer_info(endpoint, peer, &info), 0);
	return info.transport;
}

static void detail_check(const char *part)
{
	if (!strstr(thole_detail(), part))
		fail_msg("\"%s\" is not in \"%s\"", part, thole_detail());
}

/* ---- Which transport ------------------------------------------------------------------------------ */

static void choice__same_host(void **state)
{
	static const char *const options[] = {"host=a", "interface=lo", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_string_equal(transport_of(pair.a, pair.a_to_b), "shm");
	two_exchange(&pair, 1, 1000);
	assert_int_equal(pair_counter(pair.a, "frames_sent"), 0);
	pair_close(&pair);
}

static void choice__other_host(void **state)
{
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, host_b);
	assert_string_equal(transport_of(pair.a, pair.a_to_b), "network");
	assert_string_equal(transport_of(pair.b, pair.b_to_a), "network");
	two_exchange(&pair, 1, 1000);
	assert_true(pair_counter(pair.a, "frames_sent") > 0);
	pair_close(&pair);
}

/* Nobody tries shared memory with an endpoint that has none, though it is of the same host. */
static void choice__without_shm(void **state)
{
	static const char *const without[] = {"host=a",  "interface=lo",       "link=udp",
					      "shm=off", "close_timeout=10ms", NULL};
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, without);
	assert_string_equal(transport_of(pair.a, pair.a_to_b), "network");
	assert_string_equal(transport_of(pair.b, pair.b_to_a), "network");
	two_exchange(&pair, 1, 100000);
	pair_close(&pair);
}

/* To itself, over the network. */
static void choice__self_without_shm(void **state)
{
	static const char *const options[] = {"shm=off", "interface=lo", "link=udp", NULL};
	struct pair pair;

	(void)state;
	pair.a = pair.b = pair_endpoint(NULL, NULL, options);
	pair.a_to_b = pair.b_to_a = pair_peer(pair.a, pair.a);
	for (uint64_t length = 1; length < 1000000; length *= 7)
		two_exchange(&pair, length, length);
	thole_endpoint_close(pair.a);
}

static bool raw_counts; /* the loopback may have raw links, but that none is permitted: */
static unsigned raw_tried;

bool __real_interface_can_raw(const struct interface *interface);
bool __wrap_interface_can_raw(const struct interface *interface);
int __real_link_raw_open(struct engine *engine, const struct interface *interface, uint16_t ethertype,
			 uint32_t endpoint, uint64_t *counters, struct link **link_p);
int __wrap_link_raw_open(struct engine *engine, const struct interface *interface, uint16_t ethertype,
			 uint32_t endpoint, uint64_t *counters, struct link **link_p);

bool __wrap_interface_can_raw(const struct interface *interface)
{
	return raw_counts || __real_interface_can_raw(interface);
}

int __wrap_link_raw_open(struct engine *engine, const struct interface *interface, uint16_t ethertype,
			 uint32_t endpoint, uint64_t *counters, struct link **link_p)
{
	if (!raw_counts)
		return __real_link_raw_open(engine, interface, ethertype, endpoint, counters, link_p);
	raw_tried++;
	return THOLE_ERR_ACCESS;
}

/* How often one of so many processes tries to open a raw link, until it has sent something. */
static unsigned raw_tries(const char *ranks, const char *link)
{
	const char *const options[] = {"host=a", "interface=lo", "driver=off", "close_timeout=10ms", ranks, link, NULL};
	struct pair pair;

	raw_counts = true;
	raw_tried = 0;
	two_open(&pair, options, host_b);
	two_exchange(&pair, 1, 1000);
	assert_true(pair_counter(pair.a, "frames_sent") > 0);
	assert_int_equal(pair_counter(pair.a, "link_fallbacks"), 0);
	pair_close(&pair);
	raw_counts = false;
	return raw_tried;
}

/* What raw links cost grows with the processes of a host. */
static void choice__many_have_no_raw_links(void **state)
{
	(void)state;
	assert_int_equal(raw_tries("local_ranks=0", "link=auto"), 1);
	assert_int_equal(raw_tries("local_ranks=16", "link=auto"), 1);
	assert_int_equal(raw_tries("local_ranks=17", "link=auto"), 0);
}

/* Unless they are asked for, or there is nothing else. */
static void choice__many_that_ask_for_raw_links(void **state)
{
	static const char *const words[][2] = {{"link=raw", "codec=native"}, {"link=auto", "codec=mxoe"}};

	(void)state;
	raw_counts = true;
	for (unsigned i = 0; i < 2; i++) {
		const char *const options[] = {"interface=lo", "network=on", "driver=off", "local_ranks=17",
					       words[i][0], words[i][1], NULL};
		struct thole_endpoint_attr attr = {.options = options};
		struct thole_endpoint *endpoint;

		raw_tried = 0;
		assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_ACCESS);
		assert_int_equal(raw_tried, 1);
	}
	raw_counts = false;
}

static void nowhere__says_why(void **state)
{
	static const char *const off[] = {"host=a", "network=off", NULL};
	struct thole_request *request;
	struct thole_peer_info info;
	struct pair pair;
	char byte = 0;

	(void)state;
	two_open(&pair, off, host_b);
	assert_int_equal(thole_peer_info(pair.a, pair.a_to_b, &info), 0);
	assert_string_equal(info.transport, "none");
	assert_string_equal(info.state, "new");
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_ADDRESS);
	detail_check("option network is off");
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_ADDRESS);
	detail_check("no network address");
	/* Each time, and a receive from there is as good as any that nothing comes for. */
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_ADDRESS);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &request), 0);
	pair_idle(&pair);
	assert_int_equal(thole_cancel(pair.b, request), 1);
	pair_close(&pair);
}

/* Both have a network, but of two kinds. */
static void nowhere__of_another_kind(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	static const struct {
		uint8_t kind;
		const char *name, *remedy;
	} cases[] = {
		{ADDRESS_IPV6, "by IPv6, this endpoint by IPv4", "option interface that"},
		{ADDRESS_ETHERNET, "by Ethernet alone, this endpoint by IPv4", "the same option link"},
		{ADDRESS_MXOE, "by MXoE, this endpoint by IPv4", "the same option codec"},
		{77, "by what is not known here, this endpoint by IPv4", "give both"},
	};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, host_a);
	struct thole_request *request;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct address_parts parts = {.host = 1, .endpoint = 2, .network = {cases[i].kind}};
		struct thole_address address;
		uint32_t peer;

		if (cases[i].kind == ADDRESS_MXOE)
			address_mxoe(mac, 1, &parts);
		address_format(&parts, &address);
		assert_int_equal(thole_peer(endpoint, &address, &peer), 0);
		assert_int_equal(thole_connect(endpoint, peer, 0, NULL, &request), THOLE_ERR_ADDRESS);
		detail_check(cases[i].name);
		detail_check(cases[i].remedy);
	}
	thole_endpoint_close(endpoint);
}

static void info__there_is_no_such_peer(void **state)
{
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, host_a);
	struct thole_peer_info info;

	(void)state;
	assert_int_equal(thole_peer_info(endpoint, 0, &info), THOLE_ERR_NOT_FOUND);
	thole_endpoint_close(endpoint);
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static int open_with(const char *const *options)
{
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;
	int error = thole_endpoint_open(&attr, &endpoint);

	if (!error)
		thole_endpoint_close(endpoint);
	return error;
}

static void open__without_a_network(void **state)
{
	static const char *const automatic[] = {"interface=nonsense0", "host=a", NULL};
	static const char *const wanted[] = {"interface=nonsense0", "network=on", NULL};
	static const char *const needed[] = {"interface=nonsense0", "shm=off", NULL};
	static const char *const nothing[] = {"network=off", "shm=off", NULL};
	int before = descriptors_open();
	struct thole_request *request;
	struct pair pair;
	char byte = 0;

	(void)state;
	assert_int_equal(open_with(wanted), THOLE_ERR_NOT_FOUND);
	detail_check("nonsense0");
	assert_int_equal(open_with(needed), THOLE_ERR_NOT_FOUND);
	assert_int_equal(open_with(nothing), THOLE_ERR_ARGUMENT);
	detail_check("network");
	/* The default stays with shared memory, and remembers why. */
	two_open(&pair, automatic, host_b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_ADDRESS);
	detail_check("nonsense0");
	pair_close(&pair);
	pair_open(&pair, automatic);
	two_exchange(&pair, 3, 5000);
	pair_close(&pair);
	assert_int_equal(descriptors_open(), before);
}

static void open__mxoe_needs_raw_frames(void **state)
{
	static const char *const options[] = {"codec=mxoe", "link=udp", "network=on", NULL};

	(void)state;
	assert_int_equal(open_with(options), THOLE_ERR_ARGUMENT);
	detail_check("raw");
}

static void open__integrity_that_cannot_be_had(void **state)
{
	static const char *const keyless[] = {HOST_A, "network=on", "job_key=0", "integrity=head", NULL};
	static const char *const full[] = {HOST_A, "network=on", "job_key=0", "integrity=full", NULL};
	static const char *const mxoe[] = {"codec=mxoe", "network=on", "job_key=1", "integrity=head", NULL};
	static const char *const off[] = {HOST_A, "network=on", "job_key=0", "integrity=off", NULL};

	(void)state;
	assert_int_equal(open_with(keyless), THOLE_ERR_ARGUMENT);
	detail_check("integrity=head needs a key");
	assert_int_equal(open_with(full), THOLE_ERR_ARGUMENT);
	detail_check("job_key");
	assert_int_equal(open_with(mxoe), THOLE_ERR_ARGUMENT);
	detail_check("mxoe have no place for a tag");
	assert_int_equal(open_with(off), 0);
}

static void open__mtu_that_no_frame_has(void **state)
{
	static const char *const one[] = {HOST_A, "network=on", "mtu=1", NULL};
	static const char *const under[] = {HOST_A, "network=on", "mtu=547", NULL};
	static const char *const least[] = {HOST_A, "network=on", "mtu=548", NULL};
	static const char *const any[] = {HOST_A, "network=on", "mtu=0", NULL};

	(void)state;
	assert_int_equal(open_with(one), THOLE_ERR_ARGUMENT);
	detail_check("option mtu");
	assert_int_equal(open_with(under), THOLE_ERR_ARGUMENT);
	detail_check("548");
	assert_int_equal(open_with(least), 0);
	assert_int_equal(open_with(any), 0);
}

static void address__says_where(void **state)
{
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, host_a);
	struct address_parts parts;

	(void)state;
	assert_int_equal(address_parse(&endpoint->base.address, &parts), 0);
	assert_int_equal(parts.network[0], ADDRESS_IPV4);
	assert_int_equal(parts.network[1], 0);
	assert_true(parts.network[2] != 0 || parts.network[3] != 0);
	assert_memory_equal(parts.network + 4, "\x7f\0\0\x01", 4);
	assert_memory_equal(parts.network + 8, "\0\0\0\0\0\0\0\0\0\0\0\0", 12); /* no Ethernet */
	thole_endpoint_close(endpoint);
}

/* ---- What goes over it ------------------------------------------------------------------------------ */

static void exchange__all_lengths(void **state)
{
	static const size_t lengths[] = {0, 1, 8, 40, 41, 1400, 1473, 9000, 32768, 32769, 65536, 1000000, 5000000};
	struct thole_peer_info info;
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, host_b);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		two_exchange(&pair, i, lengths[i]);
	assert_int_equal(thole_peer_info(pair.a, pair.a_to_b, &info), 0);
	assert_string_equal(info.state, "connected");
	assert_string_equal(info.records, "udp");
	assert_string_equal(info.bulk, "udp");
	assert_true(info.rtt_ns > 0);
	assert_true(info.frames_sent > 0);
	assert_in_range(info.frame_max, ENGINE_FRAME_MIN, ENGINE_FRAME_MAX);
	assert_int_equal(pair_counter(pair.b, "received"), sizeof(lengths) / sizeof(lengths[0]));
	pair_close(&pair);
}

/* Who looks at nothing after what it sends has room for each message all the same: what the peer has acknowledged lies
 * in its socket, where it looks when it finds none. */
static void exchange__sender_never_looks(void **state)
{
	enum { MESSAGES = 1000, LENGTH = 2000 };
	void *out = pair_filled(1, LENGTH), *in = malloc(LENGTH);
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, host_b);
	two_exchange(&pair, 1, LENGTH);
	for (int i = 0; i < MESSAGES; i++) {
		uint64_t start_ns = clock_now_ns();
		struct thole_request *receive;

		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, LENGTH, 1, UINT64_MAX, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, out, LENGTH, 1, 0, THOLE_INJECT | THOLE_QUIET, NULL,
					    NULL), 0);
		while (!thole_test(pair.b, receive, NULL))
			assert_true(clock_now_ns() - start_ns < FINISH_NS_MAX / 10);
	}
	pair_check(1, in, LENGTH);
	free(out);
	free(in);
	pair_close(&pair);
}

static void exchange__net_eager_max_decides(void **state)
{
	static const char *const small[] = {HOST_A, "net_eager_max=1000", NULL};
	struct pair pair;

	(void)state;
	two_open(&pair, small, host_b);
	two_exchange(&pair, 1, 1000);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 0);
	two_exchange(&pair, 2, 1001);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 1);
	/* and eager_max, where it is less */
	assert_int_equal(thole_option_set(pair.a, "eager_max", "100"), 0);
	two_exchange(&pair, 3, 101);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 2);
	pair_close(&pair);
}

/* Nothing is on its way any more. */
static void two_settle(struct pair *pair)
{
	while (!endpoint_drained(pair->a) || !endpoint_drained(pair->b)) {
		thole_progress(pair->a);
		thole_progress(pair->b);
	}
}

/* By itself a message may be longer, but where less was asked for. */
static void exchange__net_eager_alone_decides(void **state)
{
	static const char *const alone[] = {HOST_A, "net_eager_alone=70000", NULL};
	struct pair pair;

	(void)state;
	two_open(&pair, alone, host_b);
	two_exchange(&pair, 0, 65536); /* until then frames are short, and few */
	two_settle(&pair);
	two_exchange(&pair, 1, 70000);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 0);
	two_settle(&pair);
	two_exchange(&pair, 2, 70001);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 1);
	two_settle(&pair);
	assert_int_equal(thole_option_set(pair.a, "net_eager_max", "65535"), 0);
	two_exchange(&pair, 3, 65536);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 2);
	pair_close(&pair);
}

/* The word that a transfer before it is done may still be under way: whoever was asked once is not asked for ever. */
static void exchange__net_eager_alone_after_a_transfer(void **state)
{
	static const char *const a[] = {HOST_A, "net_eager_alone=70000", NULL};
	static const char *const b[] = {HOST_B, "net_eager_alone=70000", NULL};
	static uint8_t out[70000], in[70000];
	struct thole_request *send[3], *receive[3];
	struct pair pair, back;

	(void)state;
	two_open(&pair, a, b);
	back = (struct pair){.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};
	two_exchange(&pair, 0, 65536);
	two_settle(&pair);
	two_exchange(&back, 1, 70001);
	assert_int_equal(pair_counter(pair.b, "sent_rendezvous"), 1);
	assert_false(endpoint_drained(pair.a));
	two_exchange(&pair, 2, 70000);
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 0);
	two_settle(&pair);
	/* Behind several it is asked for. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, sizeof(in), 3, UINT64_MAX, 0, NULL, &receive[i]),
				 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(thole_send(pair.a, pair.a_to_b, out, i < 2 ? 100 : 70000, 3, 0, 0, NULL, &send[i]), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(two_finish(&pair, pair.b, receive[i], NULL), 0);
		assert_int_equal(two_finish(&pair, pair.a, send[i], NULL), 0);
	}
	assert_int_equal(pair_counter(pair.a, "sent_rendezvous"), 1);
	pair_close(&pair);
}

static void exchange__put_get_atomic(void **state)
{
	static uint64_t memory[10000], here[10000];
	struct thole_region *region;
	struct thole_request *request;
	struct pair pair;
	uint64_t one = 1, former = 0;

	(void)state;
	two_open(&pair, host_a, host_b);
	memset(memory, 0, sizeof(memory));
	for (size_t i = 0; i < 10000; i++)
		here[i] = i * i;
	assert_int_equal(thole_expose(pair.b, memory, sizeof(memory),
				      THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, 5, NULL, &region), 0);
	assert_int_equal(
		thole_put(pair.a, pair.a_to_b, &(struct iovec){here, sizeof(here)}, 1, 5, 0, 0, 0, NULL, &request), 0);
	assert_int_equal(two_finish(&pair, pair.a, request, NULL), 0);
	assert_memory_equal(memory, here, sizeof(here));
	memset(here, 0, sizeof(here));
	assert_int_equal(
		thole_get(pair.a, pair.a_to_b, &(struct iovec){here, sizeof(here)}, 1, 5, 0, 0, NULL, &request), 0);
	assert_int_equal(two_finish(&pair, pair.a, request, NULL), 0);
	assert_memory_equal(here, memory, sizeof(here));
	assert_int_equal(thole_atomic(pair.a, pair.a_to_b,
				      &(struct thole_atomic){.op = THOLE_SUM,
							     .type = THOLE_UINT64,
							     .count = 1,
							     .operand = &one,
							     .result = &former,
							     .key = 5,
							     .offset = 80},
				      0, NULL, &request),
			 0);
	assert_int_equal(two_finish(&pair, pair.a, request, NULL), 0);
	assert_int_equal(former, 100);
	assert_int_equal(memory[10], 101);
	thole_unexpose(pair.b, region);
	pair_close(&pair);
}

/* A tenth of all frames is lost, each way, and nothing of what they carry. */
/* What the kernel may not write, its owner may: no message is lost by that, neither one of the same peer's whose frames
 * come along, nor is the peer. Again, when packets stay in a socket after they were read. */
static void exchange__into_memory_under_a_barrier(void **state)
{
	enum { LENGTH = 1000000, BEFORE = 60 };
	uint8_t *in = barrier_open(LENGTH), *other = malloc(LENGTH);
	void *out[2] = {pair_filled(1, LENGTH), pair_filled(2, LENGTH)};
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, host_b);
	for (uint64_t i = 0; i < 4 + BEFORE; i++) {
		struct thole_request *send[2], *receive[2];

		if (i >= 2 && i < 2 + BEFORE) {
			two_exchange(&pair, 3, 200000);
			continue;
		}
		barrier_raise(PROT_READ);
		memset(other, 0, LENGTH);
		for (uint64_t which = 0; which < 2; which++) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, which ? other : in, LENGTH, which, UINT64_MAX,
						    0, NULL, &receive[which]), 0);
			assert_int_equal(thole_send(pair.a, pair.a_to_b, out[which], LENGTH, which, 0, 0, NULL,
						    &send[which]), 0);
		}
		for (int which = 0; which < 2; which++) {
			assert_int_equal(two_finish(&pair, pair.b, receive[which], NULL), 0);
			assert_int_equal(two_finish(&pair, pair.a, send[which], NULL), 0);
		}
		assert_int_equal(barrier.touched, barrier.bytes / barrier.page);
		pair_check(1, in, LENGTH);
		pair_check(2, other, LENGTH);
	}
	pair_close(&pair);
	barrier_close();
	free(out[0]);
	free(out[1]);
	free(other);
}

static void exchange__frames_are_lost(void **state)
{
	static const char *const lossy_a[] = {HOST_A, "inject_loss=100", "inject_seed=3", NULL};
	static const char *const lossy_b[] = {HOST_B, "inject_loss=100", "inject_seed=4", NULL};
	struct pair pair;

	(void)state;
	two_open(&pair, lossy_a, lossy_b);
	for (uint64_t i = 0; i < 20; i++)
		two_exchange(&pair, i, i * i * 1000);
	/* the sender hears few frames, and which are lost depends on its number, too */
	for (uint64_t i = 20; i < 1000 && pair_counter(pair.a, "dropped_injected") == 0; i++)
		two_exchange(&pair, i, 8);
	assert_true(pair_counter(pair.b, "dropped_injected") > 0);
	assert_true(pair_counter(pair.a, "dropped_injected") > 0);
	pair_close(&pair);
}

/* A fifth of all frames is lost, each way. What a second is enough for, as the simulator shows, does not take
 * minutes here. */
static void exchange__every_fifth_frame_is_lost(void **state)
{
	static const char *const lossy_a[] = {HOST_A, "inject_loss=200", "inject_seed=5", NULL};
	static const char *const lossy_b[] = {HOST_B, "inject_loss=200", "inject_seed=6", NULL};
	struct pair pair;

	(void)state;
	two_open(&pair, lossy_a, lossy_b);
	two_exchange(&pair, 1, 8 << 20);
	for (uint64_t i = 0; i < 128; i++)
		two_exchange(&pair, i, 64 << 10);
	pair_close(&pair);
}

/* ---- Ends ------------------------------------------------------------------------------------------- */

static void end__peer_closes(void **state)
{
	struct thole_request *receive;
	struct thole_completion completion;
	struct thole_peer_info info;
	struct pair pair;
	char byte;

	(void)state;
	two_open(&pair, host_a, host_b);
	two_exchange(&pair, 1, 10);
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	thole_endpoint_close(pair.b);
	assert_int_equal(thole_wait(pair.a, receive, -1, &completion), 0);
	assert_int_equal(completion.status, THOLE_ERR_CLOSED);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), THOLE_ERR_CLOSED);
	assert_int_equal(thole_peer_info(pair.a, pair.a_to_b, &info), 0);
	assert_string_equal(info.state, "gone");
	assert_string_equal(info.transport, "network");
	thole_endpoint_close(pair.a);
}

/* What a peer has sent before it closed is received, though its host says meanwhile that it is gone. */
static void end__last_words(void **state)
{
	struct thole_request *receive;
	struct thole_completion completion;
	struct pair pair;
	char byte = 0, word = 42;

	(void)state;
	two_open(&pair, host_a, host_b);
	two_exchange(&pair, 1, 10);
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 7, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &word, 1, 7, 0, 0, NULL, NULL), 0);
	thole_endpoint_close(pair.b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &word, 1, 7, 0, 0, NULL, NULL), 0);
	assert_int_equal(thole_wait(pair.a, receive, -1, &completion), 0);
	assert_int_equal(completion.status, 0);
	assert_int_equal(byte, word);
	thole_endpoint_close(pair.a);
}

/* Nobody is at the address any more: its host says so. */
static void end__nobody_was_there(void **state)
{
	struct thole_request *send;
	struct thole_completion completion;
	struct pair pair;
	char byte = 1;

	(void)state;
	two_open(&pair, host_a, host_b);
	thole_endpoint_close(pair.b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &send), 0);
	assert_int_equal(thole_wait(pair.a, send, -1, &completion), 0);
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), THOLE_ERR_PEER);
	assert_non_null(strstr(thole_detail(), "no network but the loopback")); /* it has none */
	thole_endpoint_close(pair.a);
}

/* A receive alone waits for a peer that nobody has said a word to: if that has ended, before or since, so does the
 * receive, of who polls and of who sleeps; and if it lives, it is heard. */
static void end__nobody_is_awaited(void **state)
{
	static const char *const a[] = {HOST_A, "peer_timeout=200ms", "spin=0", NULL};
	enum { LIVES = 4 };

	(void)state;
	for (int i = 0; i < 6; i++) {
		bool polls = i < LIVES && i & 1, since = i & 2, polled = false;
		struct thole_request *receive;
		struct thole_completion completion;
		struct pair pair;
		char byte = 1;

		two_open(&pair, a, host_b);
		if (i < LIVES && !since)
			endpoint_vanish(pair.b);
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		if (i < LIVES && since)
			endpoint_vanish(pair.b);
		while (i >= LIVES && !endpoint_peer(pair.a, pair.a_to_b)->base.connected)
			thole_progress(pair.a);
		if (i >= LIVES)
			assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
		while (polls && !(polled = thole_test(pair.a, receive, &completion)))
			;
		if (i >= LIVES)
			two_finish(&pair, pair.a, receive, &completion);
		else if (!polled)
			assert_int_equal(thole_wait(pair.a, receive, FINISH_NS_MAX, &completion), 0);
		assert_int_equal(completion.status, i < LIVES ? THOLE_ERR_PEER : 0);
		thole_endpoint_close(pair.a);
		if (i >= LIVES)
			thole_endpoint_close(pair.b);
	}
}

/* But the end of who has connected to us is seen: nobody is connected to for that. */
static void end__who_is_heard_is_not_connected_to(void **state)
{
	static const char *const a[] = {HOST_A, "peer_timeout=200ms", "spin=0", NULL};
	struct thole_request *receive;
	struct thole_completion completion;
	struct pair pair;
	char byte = 1;

	(void)state;
	two_open(&pair, a, host_b);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		if (i > 0)
			break;
		assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
		two_finish(&pair, pair.a, receive, &completion);
	}
	while (pair.a->awaits)
		thole_progress(pair.a);
	assert_false(endpoint_peer(pair.a, pair.a_to_b)->base.connected);
	endpoint_vanish(pair.b);
	assert_int_equal(thole_wait(pair.a, receive, FINISH_NS_MAX, &completion), 0);
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	thole_endpoint_close(pair.a);
}

static void end__other_key(void **state)
{
	static const char *const key_a[] = {HOST_A, "job_key=1", NULL}, *const key_b[] = {HOST_B, "job_key=2", NULL};
	struct thole_request *send;
	struct pair pair;
	char byte = 1;

	(void)state;
	two_open(&pair, key_a, key_b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &send), 0);
	assert_int_equal(two_finish(&pair, pair.a, send, NULL), THOLE_ERR_ACCESS);
	assert_true(pair_counter(pair.b, "dropped_stranger") > 0);
	assert_int_equal(pair_counter(pair.b, "accepts"), 0);
	pair_close(&pair);
	two_open(&pair, key_a, (const char *const[]){HOST_B, "job_key=0x1", NULL});
	two_exchange(&pair, 1, 100);
	pair_close(&pair);
}

static void *close_thread(void *endpoint)
{
	thole_endpoint_close(endpoint);
	return NULL;
}

/* What was reported complete arrives, though its sender closes at once and frames are lost. */
static void close__delivers(void **state)
{
	static const char *const patient[] = {HOST_A, "inject_loss=100", "close_timeout=60s", NULL};
	enum { MESSAGES = 200 };
	struct thole_completion completion;
	uint32_t naming[MESSAGES];
	int received = 0;
	struct pair pair;
	pthread_t thread;

	(void)state;
	two_open(&pair, patient, host_b);
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, &naming[i], sizeof(naming[i]), 0, 0, 0, NULL, NULL),
				 0);
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &i, sizeof(i), 0, 0, THOLE_INJECT, NULL, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, close_thread, pair.a), 0);
	while (received < MESSAGES)
		if (thole_poll(pair.b, &completion, 1) == 1) {
			assert_int_equal(completion.status, 0);
			received++;
		}
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(naming[i], i);
	/* It waits for the last acknowledgements, so somebody has to be there. */
	while (pthread_tryjoin_np(thread, NULL) != 0)
		thole_progress(pair.b);
	thole_endpoint_close(pair.b);
}

static void close__leaves_no_descriptor(void **state)
{
	int before = descriptors_open();
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, host_b);
	two_exchange(&pair, 1, 100000);
	pair_close(&pair);
	assert_int_equal(descriptors_open(), before);
}

/* ---- Sleeping ---------------------------------------------------------------------------------------- */

/* Progress until the endpoint has nothing to do but to wait. */
static void arm(struct thole_endpoint *endpoint)
{
	int tries = 0;

	while (thole_arm(endpoint) == THOLE_ERR_AGAIN) {
		thole_progress(endpoint);
		assert_true(tries++ < 10000000);
	}
}

/* Two that know each other, and have nothing to do. */
static void two_rest(struct pair *pair)
{
	two_open(pair, host_a, host_b);
	two_exchange(pair, 1, 10);
	pair_idle(pair);
}

static void sleep__a_message_wakes(void **state)
{
	struct thole_request *receive;
	struct pair pair;
	char in = 0, out = 7;
	struct pollfd ready;

	(void)state;
	two_rest(&pair);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, &in, 1, 0, 0, 0, NULL, &receive), 0);
	arm(pair.b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &out, 1, 0, 0, 0, NULL, NULL), 0);
	ready = (struct pollfd){.fd = thole_fd(pair.b), .events = POLLIN};
	assert_int_equal(poll(&ready, 1, POLL_MS_MAX), 1);
	assert_int_equal(thole_wait(pair.b, receive, -1, NULL), 0);
	assert_int_equal(in, 7);
	pair_close(&pair);
}

/* Nothing is connected, and a receive waits: nothing has to be done until something comes, and that is seen. */
static void sleep__nothing_is_connected(void **state)
{
	struct thole_request *receive;
	struct pair pair;
	struct pollfd ready;
	char in = 0, out = 7;

	(void)state;
	two_open(&pair, host_a, host_b);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, &in, 1, 0, 0, 0, NULL, &receive), 0);
	arm(pair.b);
	ready = (struct pollfd){.fd = thole_fd(pair.b), .events = POLLIN};
	assert_int_equal(poll(&ready, 1, 0), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &out, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(poll(&ready, 1, POLL_MS_MAX), 1);
	assert_int_equal(two_finish(&pair, pair.b, receive, NULL), 0);
	assert_int_equal(in, 7);
	pair_close(&pair);
}

/* What another thread sends meanwhile goes out. */
static void sleep__a_send_wakes(void **state)
{
	struct pair pair;
	char byte = 7;

	(void)state;
	two_rest(&pair);
	for (int i = 0; i < 2; i++) {
		arm(pair.a);
		assert_false(pair_readable(pair.a));
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_QUIET, NULL, NULL), 0);
		assert_true(pair_readable(pair.a));
		pair_idle(&pair);
	}
	pair_close(&pair);
}

/* The peer says nothing, so what was sent to it has to be sent again: a timer in the descriptor sees to it. */
static void sleep__a_timer_wakes(void **state)
{
	struct pair pair;
	char byte = 7;

	(void)state;
	two_rest(&pair);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_QUIET, NULL, NULL), 0);
	while (pair_counter(pair.a, "frames_retransmitted") < 3) {
		struct pollfd ready = {.fd = thole_fd(pair.a), .events = POLLIN};

		if (thole_arm(pair.a) == 0)
			assert_int_equal(poll(&ready, 1, POLL_MS_MAX), 1);
		thole_progress(pair.a);
	}
	pair_close(&pair);
}

static int sleep_over;

static void *receive_thread(void *arg)
{
	struct pair *pair = arg;
	struct thole_request *receive;
	static char in[100000];

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, sizeof(in), 9, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_wait(pair->b, receive, -1, NULL), 0);
	pair_check(9, in, sizeof(in));
	while (!load_acquire(&sleep_over)) /* its last word may have been lost */
		thole_sleep(pair->b, 10000000);
	return NULL;
}

/* Both sides sleep in thole_wait, at once without spinning; nothing but what arrives and timers wakes them. */
static void sleep__both_wait(void **state)
{
	static const char *const a[] = {HOST_A, "spin=0", "inject_loss=50", NULL};
	static const char *const b[] = {HOST_B, "spin=0", "inject_loss=50", NULL};
	void *out = pair_filled(9, 100000);
	struct thole_request *send;
	pthread_t thread;
	struct pair pair;

	(void)state;
	two_open(&pair, a, b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, out, 100000, 9, 0, 0, NULL, &send), 0);
	/* While nobody is there; later there might always be something that it need not sleep for. */
	do
		assert_int_equal(thole_wait(pair.a, send, 1000000, NULL), THOLE_ERR_TIMEOUT);
	while (pair_counter(pair.a, "sleeps") == 0);
	assert_int_equal(pthread_create(&thread, NULL, receive_thread, &pair), 0);
	assert_int_equal(thole_wait(pair.a, send, -1, NULL), 0);
	store_release(&sleep_over, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pair_close(&pair);
	free(out);
}

/* ---- Rest ------------------------------------------------------------------------------------------- */

static void rest_begin(struct pair *pair)
{
	uint64_t start_ns = clock_now_ns();

	while (!pair->a->base.resting) {
		pair_idle(pair);
		if (clock_now_ns() - start_ns > FINISH_NS_MAX)
			fail_msg("a silent network does not rest");
	}
}

/* A network by which a word is awaited is looked at in each turn, though it rested, and however long it has brought
 * nothing: who polls seldom would find the word too late. */
static void rest__not_while_a_word_is_awaited(void **state)
{
	struct pair pair;
	char byte = 0;

	(void)state;
	two_open(&pair, host_a, host_b);
	two_exchange(&pair, 1, 10);
	pair.a->base.queues = 1;
	rest_begin(&pair);
	pair.a->base.word_awaited = true;
	transport_set_polled(&pair.a->base, TRANSPORT_DATAGRAM, true);
	for (int i = 0; i < 8; i++) {
		pair_progress(&pair, 1000);
		assert_int_equal(pair.a->base.resting, 0);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, THOLE_INJECT | THOLE_QUIET, NULL,
					    NULL), 0);
		thole_progress(pair.b);
		assert_true(thole_progress(pair.a) > 0);
	}
	pair.a->base.word_awaited = false;
	rest_begin(&pair);
	pair_close(&pair);
}

/* Beside rings a silent network is hardly polled, until something comes by it or is sent. */
static void rest__ends(void **state)
{
	struct thole_endpoint *local;
	struct pair pair, rings;
	char byte = 0;

	(void)state;
	two_open(&pair, host_a, host_b);
	two_exchange(&pair, 1, 10);
	pair_progress(&pair, 20000);
	assert_int_equal(pair.a->base.resting, 0); /* there is no ring */
	datagram_of(&pair.a->base)->quiet = INT32_MAX - 100; /* as after some minutes */
	pair_progress(&pair, 1000);
	assert_int_equal(pair.a->base.resting, 0);
	pair.a->base.queues = 1; /* its one peer goes by an adapter */
	rest_begin(&pair);
	/* looked at now: after a few polls that find nothing it rests again */
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	assert_int_equal(pair.a->base.resting, 0);
	pair.a->base.queues = 0;
	pair_progress(&pair, 20000);
	assert_int_equal(pair.a->base.resting, 0);
	local = pair_endpoint(NULL, NULL, host_a);
	rings = (struct pair){.a = local, .b = pair.a, .a_to_b = pair_peer(local, pair.a),
			      .b_to_a = pair_peer(pair.a, local)};
	two_exchange(&rings, 2, 10);
	for (unsigned turn = 0; turn < 3; turn++) {
		struct pair back = {.a = pair.b, .b = pair.a, .a_to_b = pair.b_to_a, .b_to_a = pair.a_to_b};

		rest_begin(&pair);
		two_exchange(&back, 10 + turn, 10);
		assert_int_equal(pair.a->base.resting, 0);
		rest_begin(&pair);
		two_exchange(&pair, 20 + turn, 100000);
		assert_int_equal(pair.a->base.resting, 0);
		rest_begin(&pair);
		two_exchange(&rings, 30 + turn, 100000);
	}
	thole_endpoint_close(local);
	pair_close(&pair);
}

static void thread__serves_the_network(void **state)
{
	static const char *const b[] = {HOST_B, "progress_thread=on", NULL};
	static uint64_t memory[4];
	struct thole_region *region;
	struct thole_request *request;
	uint64_t value = 77;
	struct pair pair;

	(void)state;
	two_open(&pair, host_a, b);
	assert_int_equal(thole_expose(pair.b, memory, sizeof(memory), THOLE_ACCESS_PUT, 5, NULL, &region), 0);
	assert_int_equal(thole_put(pair.a, pair.a_to_b, &(struct iovec){&value, 8}, 1, 5, 8, 0, 0, NULL, &request), 0);
	assert_int_equal(thole_wait(pair.a, request, -1, NULL), 0); /* nobody calls b */
	assert_int_equal(memory[1], 77);
	thole_unexpose(pair.b, region);
	pair_close(&pair);
}

/* ---- Without a system call ----------------------------------------------------------------------------- */

static void advance__runs_whole_endpoints(void **state)
{
	static struct wire wires[2];
	uint64_t now_ns = 1000000000, first_ns = 0;

	(void)state;
	for (int run = 0; run < 2; run++) { /* the same each time */
		struct thole_request *send, *receive;
		void *out = pair_filled(1, 50000), *in = malloc(50000);
		struct pair pair;

		now_ns = 1000000000;
		wired_open(&pair, wires, &codec_native, NULL, NULL);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, 50000, 1, UINT64_MAX, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, out, 50000, 1, 0, 0, NULL, &send), 0);
		assert_int_equal(wired_finish(&pair, &now_ns, pair.b, receive), 0);
		assert_int_equal(wired_finish(&pair, &now_ns, pair.a, send), 0);
		pair_check(1, in, 50000);
		while (!endpoint_drained(pair.a) || !endpoint_drained(pair.b)) {
			endpoint_advance(pair.a, now_ns);
			endpoint_advance(pair.b, now_ns += 1000);
		}
		if (run == 0)
			first_ns = now_ns;
		thole_endpoint_close(pair.a);
		assert_true(wires[0].closed);
		assert_true(wire_ready(&wires[1].link)); /* its last word */
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, 1, 1, UINT64_MAX, 0, NULL, &receive), 0);
		endpoint_advance(pair.b, now_ns);
		assert_int_equal(thole_test(pair.b, receive, NULL), 1);
		wires[0].tail = wires[0].head = 0;
		endpoint_vanish(pair.b);
		assert_true(wires[1].closed);
		assert_false(wire_ready(&wires[0].link));
		free(in);
		free(out);
	}
	assert_int_equal(now_ns, first_ns);
}

enum { FLAGS_AT = 3, CHECKSUM_AT = 16, PAYLOAD_AT = 100 };

/* A message from a to b whose last frame is altered on its way, by a bit or, at CHECKSUM_AT, as if it had none, and
 * comes again. */
static void altered_exchange(struct pair *pair, struct wire *b, uint64_t *now_ns, size_t at)
{
	enum { LENGTH = 3000 };
	uint8_t *last;
	uint64_t dropped = pair_counter(pair->b, "dropped_checksum");
	void *out = pair_filled(at, LENGTH), *in = malloc(LENGTH);
	struct thole_request *receive;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, LENGTH, 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, out, LENGTH, 1, 0, THOLE_QUIET, NULL, NULL), 0);
	endpoint_advance(pair->a, *now_ns);
	assert_true(wire_ready(&b->link));
	for (unsigned i = b->head; i != b->tail; i++)
		assert_true(codec_native.flags(b->frames[i % 256]) & PACKET_CHECKSUM);
	last = b->frames[(b->tail - 1) % 256];
	last[at == CHECKSUM_AT ? FLAGS_AT : at] ^= 1; /* PACKET_CHECKSUM */
	if (at == CHECKSUM_AT)
		memset(last + CHECKSUM_AT, 0, 4);
	assert_int_equal(wired_finish(pair, now_ns, pair->b, receive), 0);
	assert_int_equal(pair_counter(pair->b, "dropped_checksum"), dropped + 1);
	pair_check(at, in, LENGTH);
	free(in);
	free(out);
}

/* Checksums go both ways where one side wants them, and are looked at on both. */
static void advance__checksums_of_one_side(void **state)
{
	static const char *const on[] = {"checksum=on", NULL};
	static struct wire wires[2];

	(void)state;
	for (int who = 0; who < 2; who++) {
		uint64_t now_ns = 1000000000;
		struct thole_request *send;
		struct pair pair;

		wired_open(&pair, wires, &codec_native, who ? on : NULL, who ? NULL : on);
		assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &send), 0);
		assert_int_equal(wired_finish(&pair, &now_ns, pair.a, send), 0);
		altered_exchange(&pair, &wires[1], &now_ns, PAYLOAD_AT);
		altered_exchange(&pair, &wires[1], &now_ns, FLAGS_AT);
		if (!who) /* by who has the option */
			altered_exchange(&pair, &wires[1], &now_ns, CHECKSUM_AT);
		assert_int_equal(pair_counter(pair.a, "dropped_checksum"), 0);
		endpoint_vanish(pair.a);
		endpoint_vanish(pair.b);
	}
}

/* Nobody has them for another one's sake. */
static void advance__checksums_of_no_side(void **state)
{
	static struct wire wires[2];
	uint64_t now_ns = 1000000000;
	struct thole_request *send;
	struct pair pair;

	(void)state;
	wired_open(&pair, wires, &codec_native, NULL, NULL);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &send), 0);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, send), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, "", 1, 1, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	endpoint_advance(pair.a, now_ns);
	assert_true(wire_ready(&wires[1].link));
	assert_false(codec_native.flags(wires[1].frames[wires[1].head % 256]) & PACKET_CHECKSUM);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

static void limits__of_the_codec(void **state)
{
	static struct wire wires[2];
	struct thole_request *request;
	struct pair pair;
	char bytes[100] = {0};

	(void)state;
	wired_open(&pair, wires, &codec_mxoe, NULL, NULL);
	assert_int_equal(thole_put(pair.a, pair.a_to_b, &(struct iovec){bytes, 8}, 1, 5, 0, 0, 0, NULL, &request),
			 THOLE_ERR_UNSUPPORTED);
	detail_check("codec");
	assert_int_equal(thole_get(pair.a, pair.a_to_b, &(struct iovec){bytes, 8}, 1, 5, 0, 0, NULL, &request),
			 THOLE_ERR_UNSUPPORTED);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 8, 0, 1, THOLE_IMM, NULL, &request),
			 THOLE_ERR_UNSUPPORTED);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 100, 0, 0, THOLE_PLAIN, NULL, &request),
			 THOLE_ERR_UNSUPPORTED);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, codec_mxoe.length_max + 1, 0, 0, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choice__same_host),
		cmocka_unit_test(choice__other_host),
		cmocka_unit_test(choice__without_shm),
		cmocka_unit_test(choice__self_without_shm),
		cmocka_unit_test(choice__many_have_no_raw_links),
		cmocka_unit_test(choice__many_that_ask_for_raw_links),
		cmocka_unit_test(nowhere__says_why),
		cmocka_unit_test(nowhere__of_another_kind),
		cmocka_unit_test(info__there_is_no_such_peer),
		cmocka_unit_test(open__without_a_network),
		cmocka_unit_test(open__mxoe_needs_raw_frames),
		cmocka_unit_test(open__integrity_that_cannot_be_had),
		cmocka_unit_test(open__mtu_that_no_frame_has),
		cmocka_unit_test(address__says_where),
		cmocka_unit_test(exchange__all_lengths),
		cmocka_unit_test(exchange__sender_never_looks),
		cmocka_unit_test(exchange__net_eager_max_decides),
		cmocka_unit_test(exchange__net_eager_alone_decides),
		cmocka_unit_test(exchange__net_eager_alone_after_a_transfer),
		cmocka_unit_test(exchange__put_get_atomic),
		cmocka_unit_test(exchange__into_memory_under_a_barrier),
		cmocka_unit_test(exchange__frames_are_lost),
		cmocka_unit_test(exchange__every_fifth_frame_is_lost),
		cmocka_unit_test(end__peer_closes),
		cmocka_unit_test(end__last_words),
		cmocka_unit_test(end__nobody_was_there),
		cmocka_unit_test(end__nobody_is_awaited),
		cmocka_unit_test(end__who_is_heard_is_not_connected_to),
		cmocka_unit_test(end__other_key),
		cmocka_unit_test(close__delivers),
		cmocka_unit_test(close__leaves_no_descriptor),
		cmocka_unit_test(sleep__a_message_wakes),
		cmocka_unit_test(sleep__nothing_is_connected),
		cmocka_unit_test(sleep__a_send_wakes),
		cmocka_unit_test(sleep__a_timer_wakes),
		cmocka_unit_test(sleep__both_wait),
		cmocka_unit_test(rest__ends),
		cmocka_unit_test(rest__not_while_a_word_is_awaited),
		cmocka_unit_test(thread__serves_the_network),
		cmocka_unit_test(advance__runs_whole_endpoints),
		cmocka_unit_test(advance__checksums_of_one_side),
		cmocka_unit_test(advance__checksums_of_no_side),
		cmocka_unit_test(limits__of_the_codec),
	};

	setenv("THOLE_OPTIONS_FILE", "", 1);
	return cmocka_run_group_tests_name("datagram", tests, NULL, NULL);
}
