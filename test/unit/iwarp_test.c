/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of an iWARP adapter over a librdmacm that is made up: who asks whom, and what strangers get. */
#include "transport/verbs/iwarp.h"

#include <dlfcn.h>
#include <fcntl.h>

#include "rdmacm_fake.h"
#include "thole.h"

enum { TOKEN_AT = 4, TOKEN = 16, ADDRESS_AT = 20, REQUEST = 33 };

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
	(void)flags;
	assert_string_equal(name, "librdmacm.so.1");
	return &cm;
}

void *__wrap_dlsym(void *handle, const char *name)
{
	assert_ptr_equal(handle, &cm);
	return cm_symbol(name);
}

static struct ibv_device devices[2] = {{.name = "fake0"}, {.name = "fake1"}};
static struct ibv_context contexts[2] = {{.device = &devices[0]}, {.device = &devices[1]}};
static struct iwarp *iwarp;
static struct iwarp_tie *tie;
static struct nic_name name, peer;
static int owner;
static const uint8_t address[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

static int open_one(void)
{
	struct iwarp_setup setup = {.device = "fake0", .reads = 16, .peer_reads = 8};

	memcpy(setup.address, address, sizeof(address));
	return iwarp_open(&setup, &iwarp);
}

static int begin(void **state)
{
	(void)state;
	memset(&cm, 0, sizeof(cm));
	cm.found = &contexts[0];
	assert_int_equal(open_one(), 0);
	assert_int_equal(iwarp_tie_new(iwarp, 77, &owner, &tie, &name), 0);
	peer = name;
	return 0;
}

static int end(void **state)
{
	(void)state;
	iwarp_tie_free(tie);
	iwarp_close(iwarp);
	assert_int_equal(cm.ids, 0);
	assert_int_equal(cm.channel.fd, -1);
	return 0;
}

/* The peer's name has the higher token, or the lower one. */
static void peer_is(bool higher)
{
	memset(peer.bytes + TOKEN_AT, higher ? 0xff : 0, TOKEN);
	peer.bytes[ADDRESS_AT + 15] = 2;
}

static void request_set(uint8_t request[REQUEST], const struct nic_name *to, const struct nic_name *from)
{
	request[0] = 1;
	memcpy(request + 1, to->bytes + TOKEN_AT, TOKEN);
	memcpy(request + 1 + TOKEN, from->bytes + TOKEN_AT, TOKEN);
}

static enum iwarp_news next(void)
{
	void *whose;
	enum iwarp_news news = iwarp_next(iwarp, &whose);

	assert_ptr_equal(whose, news == IWARP_CONNECTED || news == IWARP_BROKEN ? &owner : NULL);
	return news;
}

/* The link is connected as far as the peer has been asked. */
static void ask(void)
{
	peer_is(true);
	assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
	cm_say(RDMA_CM_EVENT_ADDR_RESOLVED, cm.id);
	cm_say(RDMA_CM_EVENT_ROUTE_RESOLVED, cm.id);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.connects, 1);
}

/* Of the lower token: it asks, where the peer listens, by both tokens; and is told when it may speak. */
static void test_asks(void **state)
{
	uint8_t request[REQUEST];

	(void)state;
	assert_true(fcntl(iwarp_fd(iwarp), F_GETFL) & O_NONBLOCK);
	assert_false(iwarp_is_due(iwarp));
	ask();
	assert_true(iwarp_is_due(iwarp));
	assert_int_equal(ntohs(cm.to.sin_port), 4711);
	assert_int_equal(ntohl(cm.to.sin_addr.s_addr), 0x0a000002);
	assert_int_equal(ntohl(cm.from.sin_addr.s_addr), 0x0a000001);
	request_set(request, &peer, &name);
	assert_memory_equal(cm.said, request, REQUEST);
	assert_int_equal(cm.param.qp_num, 77);
	assert_int_equal(cm.param.initiator_depth, 16);
	assert_int_equal(cm.param.responder_resources, 8);
	cm_say(RDMA_CM_EVENT_ESTABLISHED, cm.id);
	assert_int_equal(next(), IWARP_CONNECTED);
	assert_false(iwarp_is_due(iwarp));
	cm_say(RDMA_CM_EVENT_DISCONNECTED, cm.id);
	cm_say(RDMA_CM_EVENT_DISCONNECTED, cm.id);
	assert_int_equal(next(), IWARP_BROKEN);
	assert_int_equal(next(), IWARP_NOTHING);
}

/* Of the higher one: it is asked, and not told that it may speak. Its reads are no more than either has room for. */
static void test_answers(void **state)
{
	uint8_t request[REQUEST];

	(void)state;
	peer_is(false);
	assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
	assert_int_equal(cm.resolves, 0);
	assert_true(iwarp_is_due(iwarp));
	request_set(request, &name, &peer);
	cm_ask(request, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.accepts, 1);
	assert_int_equal(cm.param.qp_num, 77);
	assert_int_equal(cm.param.initiator_depth, 16);
	assert_int_equal(cm.param.responder_resources, 3);
	assert_false(iwarp_tie_is_over(tie));
	cm_say(RDMA_CM_EVENT_ESTABLISHED, cm.id);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_true(iwarp_tie_is_over(tie));
	assert_false(iwarp_is_due(iwarp));
}

/* Who does not know a token of ours is refused at once, and nothing of him stays; so is who comes second. */
static void test_strangers(void **state)
{
	uint8_t request[REQUEST], wrong[REQUEST], later[REQUEST];
	int before = cm.ids;

	(void)state;
	request_set(request, &name, &peer);
	request_set(wrong, &name, &peer);
	request_set(later, &name, &peer);
	wrong[1 + TOKEN - 1] ^= 1;
	later[0] = 2;
	cm_ask(NULL, 0);
	cm_ask(request, REQUEST - 1);
	cm_ask(wrong, REQUEST);
	cm_ask(later, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.rejects, 4);
	assert_int_equal(cm.ids, before);
	cm_ask(request, REQUEST); /* waits */
	cm_ask(request, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.rejects, 5);
	assert_int_equal(cm.ids, before + 1);
	assert_int_equal(cm.accepts, 0);
}

/* A flood of them is looked at in parts: what else there is to do is done between. */
static void test_flood(void **state)
{
	int before = cm.ids;

	(void)state;
	for (int i = 0; i < 100; i++)
		cm_ask(NULL, 0);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_in_range(cm.rejects, 1, 50);
	for (int i = 0; i < 10; i++)
		assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.rejects, 100);
	assert_int_equal(cm.ids, before);
}

/* Who asks before we heard of him waits; and is refused if it was another one that we hear of. */
static void test_early(void **state)
{
	uint8_t request[REQUEST], other[REQUEST];

	(void)state;
	peer_is(false);
	request_set(request, &name, &peer);
	request_set(other, &name, &name);
	cm_ask(other, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.accepts + cm.rejects, 0);
	assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
	assert_int_equal(cm.accepts, 0);
	assert_int_equal(cm.rejects, 1);
	cm_ask(other, REQUEST);
	cm_ask(request, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.accepts, 1);
	assert_int_equal(cm.rejects, 2);
}

static void test_early__right(void **state)
{
	uint8_t request[REQUEST];

	(void)state;
	peer_is(false);
	request_set(request, &name, &peer);
	cm_say(RDMA_CM_EVENT_DISCONNECTED, cm_ask(request, REQUEST)); /* and is gone: the next one may ask */
	cm.events[cm.count - 1].id->context = NULL;
	cm_ask(request, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.rejects, 0);
	assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
	assert_int_equal(cm.accepts, 1);
	assert_int_equal(cm.resolves, 0);
}

/* Whatever fails says so once. */
static void test_failures(void **state)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED};

	(void)state;
	peer_is(true);
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
		cm_say(types[i], cm.id);
		assert_int_equal(next(), IWARP_BROKEN);
		assert_int_equal(next(), IWARP_NOTHING);
		assert_false(iwarp_is_due(iwarp));
		iwarp_tie_free(tie);
		assert_int_equal(iwarp_tie_new(iwarp, 77, &owner, &tie, &name), 0);
	}
	cm.connect_error = ECONNREFUSED;
	assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
	cm_say(RDMA_CM_EVENT_ROUTE_RESOLVED, cm.id);
	assert_int_equal(next(), IWARP_BROKEN);
	assert_true(iwarp_tie_is_over(tie));
}

static void test_failures__at_once(void **state)
{
	struct nic_name foreign;

	(void)state;
	peer_is(true);
	foreign = peer;
	foreign.bytes[1] = 3;
	assert_int_equal(iwarp_tie_connect(tie, &foreign), THOLE_ERR_ADDRESS);
	assert_int_equal(iwarp_tie_connect(tie, &name), THOLE_ERR_ADDRESS); /* itself */
	cm.resolve_error = ENODEV;
	assert_int_equal(iwarp_tie_connect(tie, &peer), THOLE_ERR_SYSTEM);
	assert_non_null(strstr(thole_detail(), strerror(ENODEV)));
}

/* An address that leads to another adapter, of which the pair is not. */
static void test_other_adapter(void **state)
{
	(void)state;
	peer_is(true);
	cm.found = &contexts[1];
	assert_int_equal(iwarp_tie_connect(tie, &peer), 0);
	cm_say(RDMA_CM_EVENT_ADDR_RESOLVED, cm.id);
	assert_int_equal(next(), IWARP_BROKEN);
	assert_int_equal(cm.routes, 0);
}

/* Nobody is told of a link that was stopped, and what the kernel is at is waited for. */
static void test_stop(void **state)
{
	int before = cm.ids;

	(void)state;
	ask();
	iwarp_tie_stop(tie);
	assert_false(iwarp_tie_is_over(tie));
	cm_say(RDMA_CM_EVENT_ESTABLISHED, cm.id);
	assert_int_equal(next(), IWARP_NOTHING);
	assert_true(iwarp_tie_is_over(tie));
	iwarp_tie_free(tie);
	assert_int_equal(cm.ids, before);
	assert_int_equal(iwarp_tie_new(iwarp, 77, &owner, &tie, &name), 0);
}

static void test_stop__early(void **state)
{
	uint8_t request[REQUEST];
	int before = cm.ids;

	(void)state;
	request_set(request, &name, &peer);
	cm_ask(request, REQUEST);
	assert_int_equal(next(), IWARP_NOTHING);
	iwarp_tie_stop(tie);
	assert_int_equal(cm.rejects, 1);
	assert_int_equal(cm.ids, before);
	assert_true(iwarp_tie_is_over(tie));
	cm_ask(request, REQUEST); /* it has no link any more */
	assert_int_equal(next(), IWARP_NOTHING);
	assert_int_equal(cm.rejects, 2);
}

/* The device goes when nobody listens by it any more. */
static void test_removal(void **state)
{
	struct iwarp_tie *other;

	(void)state;
	cm_say(RDMA_CM_EVENT_DEVICE_REMOVAL, cm.id);
	assert_int_equal(next(), IWARP_GONE);
	assert_int_equal(cm.ids, 0);
	assert_int_equal(iwarp_tie_new(iwarp, 78, &owner, &other, &name), THOLE_ERR_SYSTEM);
}

/* Ports that TCP has are none of rdma_cm's: another one is tried, but not for ever; nor for what has another reason. */
static void test_listen(void **state)
{
	uint8_t moved[16];
	struct iwarp *first = iwarp;

	(void)state;
	memcpy(moved, address, sizeof(moved));
	moved[15] = 9;
	cm.bind_errors = 3;
	cm.bind_errno = EADDRINUSE;
	assert_int_equal(iwarp_move(iwarp, moved), 0);
	iwarp_tie_free(tie);
	assert_int_equal(iwarp_tie_new(iwarp, 77, &owner, &tie, &name), 0);
	assert_int_equal(name.bytes[ADDRESS_AT + 15], 9);
	cm.bind_errors = 1000;
	assert_int_equal(iwarp_move(iwarp, moved), THOLE_ERR_SYSTEM);
	assert_in_range(cm.bind_errors, 900, 999);
	cm.bind_errors = 1000;
	cm.bind_errno = EACCES;
	assert_int_equal(open_one(), THOLE_ERR_SYSTEM);
	assert_int_equal(cm.bind_errors, 999);
	cm.bind_errors = 0;
	cm.found = &contexts[1];
	assert_int_equal(open_one(), THOLE_ERR_SYSTEM);
	iwarp = first;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		CASE(test_asks), CASE(test_answers), CASE(test_strangers), CASE(test_flood), CASE(test_early),
		CASE(test_early__right), CASE(test_failures), CASE(test_failures__at_once), CASE(test_other_adapter),
		CASE(test_stop), CASE(test_stop__early), CASE(test_removal), CASE(test_listen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
