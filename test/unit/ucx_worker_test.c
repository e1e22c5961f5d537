/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: how a worker's progress looks at its endpoint, by whether other threads may want its lock; and that what is
 * asked for as a request comes back. */
#include "unit.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ucp/api/ucp.h>

#include "base/blocks.h"
#include "front/yield.h"
#include "thole.h"
#include "ucx_endpoint.h"
#include "ucx_flush.h"

enum {
	CHILD_LIMIT_S = 20, /* until it is taken to hang */
	BOUNCED = 32 << 10, /* bytes of a message that is packed, */
	BOUNCED_LONG = 1 << 20,   /* and of one whose bounce buffer peers map */
	UNPACKED = 10,      /* what a state becomes by that; by its end one more */
};

static unsigned progresses, polls, yields;

int __real_thole_progress(struct thole_endpoint *endpoint);
int __wrap_thole_progress(struct thole_endpoint *endpoint);
int __real_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count);
int __wrap_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count);

int __wrap_thole_progress(struct thole_endpoint *endpoint)
{
	progresses++;
	return __real_thole_progress(endpoint);
}

int __wrap_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count)
{
	polls++;
	return __real_thole_poll(endpoint, completions, count);
}

int __real_thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p);
int __wrap_thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p);

static bool withholds;     /* receives, */
static int withheld;       /* so many, */
static int withholds_with; /* and says this */

int __wrap_thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p)
{
	if (!withholds)
		return __real_thole_recv(endpoint, source, buffer, length, tag, mask, flags, context, request_p);
	withheld++;
	return withholds_with;
}

int yields_lazy(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	yields++;
	return 0;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static bool no_thread;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return no_thread ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static ucp_worker_h worker_open(ucp_context_h *context_p, ucs_thread_mode_t mode)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	const ucp_worker_params_t how = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = mode};
	ucp_worker_h worker;

	assert_int_equal(ucp_init(&params, NULL, context_p), UCS_OK);
	assert_int_equal(ucp_worker_create(*context_p, &how, &worker), UCS_OK);
	return worker;
}

static void worker_progresses(ucs_thread_mode_t mode)
{
	ucp_context_h context;
	ucp_worker_h worker;

	progresses = polls = 0;
	worker = worker_open(&context, mode);
	do /* the caretaker may have the lock just then */
		assert_int_equal(ucp_worker_progress(worker), 0);
	while (progresses + polls == 0);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static void progress__may_wait_where_one_thread_comes(void **state)
{
	(void)state;
	worker_progresses(UCS_THREAD_MODE_SINGLE);
	assert_int_equal(progresses, 1);
	assert_int_equal(polls, 0);
}

/* It would hold the lock meanwhile. */
static void progress__looks_once_where_several_may_come(void **state)
{
	(void)state;
	worker_progresses(UCS_THREAD_MODE_MULTI);
	assert_int_equal(progresses, 0);
	assert_int_equal(polls, 1);
}

/* Where there is no thread as a worker is opened, its next endpoint asks for it again. */
static void caretaker__comes_with_an_endpoint(void **state)
{
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	ucp_context_h context;
	ucp_worker_h worker;
	size_t length;
	ucp_ep_h ep;

	(void)state;
	if (!biased_prepare())
		skip(); /* membarrier is refused here */
	setenv("THOLE_NETWORK", "off", 1); /* which has threads of its own */
	no_thread = true;
	worker = worker_open(&context, UCS_THREAD_MODE_SINGLE);
	no_thread = false;
	unsetenv("THOLE_NETWORK");
	assert_false(worker->charge.tended);
	assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(worker, &to, &ep), UCS_OK);
	assert_true(worker->charge.tended);
	ucp_worker_release_address(worker, address);
	ucp_ep_destroy(ep);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* What ucp_request_alloc gave is the worker's again, though its operation took it for the program's. */
static void alloc__is_given_back(void **state)
{
	ucp_context_h context;
	ucp_worker_h worker;
	void *request;
	char byte;

	(void)state;
	worker = worker_open(&context, UCS_THREAD_MODE_SINGLE);
	request = ucp_request_alloc(worker);
	assert_non_null(request);
	assert_int_equal(ucp_tag_recv_nbr(worker, &byte, 1, ucp_dt_make_contig(1), 1, UINT64_MAX, request), UCS_OK);
	ucp_request_cancel(worker, request);
	assert_int_equal(ucp_request_check_status(request), UCS_ERR_CANCELED);
	ucp_request_free(request);
	assert_ptr_equal(ucp_request_alloc(worker), request);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static int failures;
static ucs_status_t failed_with;

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg;
	(void)ep;
	failures++;
	failed_with = status;
}

/* Nothing leads to a peer on another host where the network is off. Its endpoint's program hears so, and a send that
 * fails in its call leaves a request of the program's ended, so that it may be asked, and given back. */
static void send__fails_in_its_call(void **state)
{
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
					    UCP_EP_PARAM_FIELD_ERR_HANDLER,
			      .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {.cb = on_failure}};
	struct thole_address elsewhere;
	ucp_address_t *address;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep, quiet, mxoe;
	void *request;
	size_t length;

	(void)state;
	setenv("THOLE_NETWORK", "off", 1);
	worker = worker_open(&context, UCS_THREAD_MODE_SINGLE);
	unsetenv("THOLE_NETWORK");
	assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
	memcpy(&elsewhere, address, sizeof elsewhere);
	elsewhere.text[4] = elsewhere.text[4] == 'x' ? 'y' : 'x'; /* of its host */
	to.address = (ucp_address_t *)(void *)&elsewhere;
	assert_int_equal(ucp_ep_create(worker, &to, &ep), UCS_OK);
	assert_int_equal(failures, 0); /* from progress */
	ucp_worker_progress(worker);
	assert_int_equal(failures, 1);
	assert_int_equal(failed_with, UCS_ERR_INVALID_ADDR);
	to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
	assert_int_equal(ucp_ep_create(worker, &to, &quiet), UCS_OK);
	request = ucp_request_alloc(worker);
	assert_non_null(request);
	assert_int_equal(ucp_tag_send_nbr(quiet, "", 1, ucp_dt_make_contig(1), 1, request), UCS_ERR_INVALID_ADDR);
	assert_int_equal(ucp_request_check_status(request), UCS_ERR_INVALID_ADDR);
	ucp_request_free(request);
	assert_ptr_equal(ucp_request_alloc(worker), request);
	assert_int_equal(UCS_PTR_STATUS(ucp_tag_send_nbx(ep, "", 1, 1, &(ucp_request_param_t){0})),
			 UCS_ERR_INVALID_ADDR);
	ucp_worker_progress(worker);
	assert_int_equal(failures, 1);
	/* One of MXoE's is looked for by its first send. */
	thole_mxoe_address((const uint8_t[6]){2, 0, 0, 0, 0, 1}, 1, &elsewhere);
	to.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
	assert_int_equal(ucp_ep_create(worker, &to, &mxoe), UCS_OK);
	ucp_worker_progress(worker);
	assert_int_equal(failures, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(UCS_PTR_STATUS(ucp_tag_send_nbx(mxoe, "", 1, 1, &(ucp_request_param_t){0})),
				 UCS_ERR_INVALID_ADDR);
		ucp_worker_progress(worker);
		assert_int_equal(failures, 2);
	}
	ucp_ep_destroy(mxoe);
	ucp_ep_destroy(ep);
	ucp_ep_destroy(quiet);
	ucp_worker_release_address(worker, address);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* A worker, and how it makes endpoints of its own that tell of their loss. */
struct watching {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_address_t *address;
	ucp_ep_params_t to;
};

static void watching_open(struct watching *own)
{
	size_t length;

	own->worker = worker_open(&own->context, UCS_THREAD_MODE_SINGLE);
	assert_int_equal(ucp_worker_get_address(own->worker, &own->address, &length), UCS_OK);
	own->to = (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
				    .address = own->address,
				    .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {.cb = on_failure}};
}

static void watching_close(struct watching *own)
{
	ucp_worker_release_address(own->worker, own->address);
	ucp_worker_destroy(own->worker);
	ucp_cleanup(own->context);
}

/* However a peer is lost, its endpoint's program hears so, once, and flushes say it. A message, which no program for
 * this interface sends there, is none, and what goes on is watched on. */
static void loss__of_any_kind_is_told(void **state)
{
	static const struct {
		ucs_status_t status;
		bool lost, watched;
	} cases[] = {
		{UCS_ERR_UNSUPPORTED, true, false}, {UCS_ERR_NO_MEMORY, true, false},
		{UCS_ERR_IO_ERROR, true, false},    {UCS_ERR_CONNECTION_RESET, true, false},
		{UCS_OK, false, true},              {UCS_ERR_MESSAGE_TRUNCATED, false, true},
		{UCS_ERR_CANCELED, false, false},
	};
	struct watching own;

	(void)state;
	watching_open(&own);
	withholds = true;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		ucs_status_ptr_t flushed;
		ucp_ep_h ep;

		failures = withheld = 0;
		assert_int_equal(ucp_ep_create(own.worker, &own.to, &ep), UCS_OK);
		assert_int_equal(withheld, 1);
		ep->watch.status = cases[i].status;
		ucx_endpoint_watched(&ep->watch);
		for (int turn = 0; turn < 3; turn++)
			ucp_worker_progress(own.worker);
		assert_int_equal(failures, cases[i].lost);
		flushed = ucp_ep_flush_nbx(ep, &(ucp_request_param_t){0});
		assert_int_equal(UCS_PTR_STATUS(flushed), cases[i].lost ? cases[i].status : UCS_OK);
		assert_true(!cases[i].lost || failed_with == cases[i].status);
		assert_int_equal(withheld, 1 + cases[i].watched);
		assert_int_equal(ep->watching, cases[i].watched);
		ucp_ep_destroy(ep);
	}
	withholds = false;
	watching_close(&own);
}

/* Memory that ends when an endpoint is to be watched on is no loss of its peer: it is tried again. */
static void watch__goes_on_when_there_is_memory(void **state)
{
	struct watching own;
	ucp_ep_h ep;

	(void)state;
	watching_open(&own);
	for (int i = 0; i < 3; i++) { /* in the end there is memory, the peer is gone, or the program closes first */
		withholds = true;
		failures = withheld = withholds_with = 0;
		assert_int_equal(ucp_ep_create(own.worker, &own.to, &ep), UCS_OK);
		ep->watch.status = UCS_OK;
		ucx_endpoint_watched(&ep->watch);
		withholds_with = THOLE_ERR_MEMORY;
		for (int turn = 0; turn < 3; turn++)
			ucp_worker_progress(own.worker);
		assert_int_equal(withheld, 4);
		assert_int_equal(failures, 0);
		assert_null(ucp_ep_flush_nbx(ep, &(ucp_request_param_t){0}));
		withholds_with = i == 1 ? THOLE_ERR_PEER : 0;
		if (i == 2)
			ucp_ep_destroy(ep);
		for (int turn = 0; turn < 3; turn++)
			ucp_worker_progress(own.worker);
		assert_int_equal(withheld, 4 + (i < 2));
		assert_int_equal(failures, i == 1);
		withholds = false;
		if (i < 2) {
			assert_int_equal(ep->watching, i == 0);
			ucp_ep_destroy(ep);
		}
	}
	withholds_with = 0;
	watching_close(&own);
}

/* A receive with the program's request that does not begin says so in its call. */
static void receive__fails_in_its_call(void **state)
{
	const ucp_datatype_t strided = UCP_DATATYPE_STRIDED;
	ucp_context_h context;
	ucp_worker_h worker;
	void *request;
	char byte;

	(void)state;
	worker = worker_open(&context, UCS_THREAD_MODE_SINGLE);
	request = ucp_request_alloc(worker);
	assert_int_equal(ucp_tag_recv_nbr(worker, &byte, 1, strided, 1, UINT64_MAX, request), UCS_ERR_UNSUPPORTED);
	assert_int_equal(ucp_request_check_status(request), UCS_ERR_UNSUPPORTED);
	ucp_request_free(request);
	assert_ptr_equal(ucp_request_alloc(worker), request);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* A send goes on that needs no receive, and one that does. */
static void sends_begin(struct ucx_request *request, ucp_ep_h ep, uint32_t flags)
{
	*request = (struct ucx_request){.flags = UCX_OURS | UCX_SEND | flags, .worker = ep->worker};
	ucx_flush_sending(request, ep);
}

/* What was sent after a flush does not count for it, nor what another endpoint has sent for an endpoint's, nor what
 * waits for its receive. They end in any order. */
static void flush__of_what_was_sent_before(void **state)
{
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	struct ucx_request before, beside, behind[3], asked;
	void *of_worker, *of_endpoint;
	ucp_address_t *address;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep, other;
	size_t length;

	(void)state;
	worker = worker_open(&context, UCS_THREAD_MODE_SINGLE);
	assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(worker, &to, &ep), UCS_OK);
	assert_int_equal(ucp_ep_create(worker, &to, &other), UCS_OK);
	sends_begin(&asked, ep, 0);
	assert_null(ucp_worker_flush_nb(worker, 0, NULL));
	sends_begin(&before, ep, UCX_UNASKED);
	sends_begin(&beside, other, UCX_UNASKED);
	of_worker = ucp_worker_flush_nb(worker, 0, NULL);
	of_endpoint = ucp_ep_flush_nb(ep, 0, NULL);
	assert_true(UCS_PTR_IS_PTR(of_worker) && UCS_PTR_IS_PTR(of_endpoint));
	for (int i = 0; i < 3; i++) {
		sends_begin(&behind[i], ep, UCX_UNASKED);
		ucx_flush_sent(&behind[i]);
	}
	ucx_flush_sent(&beside);
	ucp_worker_progress(worker);
	assert_false(ucp_request_is_completed(of_worker));
	assert_false(ucp_request_is_completed(of_endpoint));
	ucx_flush_sent(&before);
	ucp_worker_progress(worker);
	assert_true(ucp_request_is_completed(of_worker) && ucp_request_is_completed(of_endpoint));
	ucx_flush_sent(&asked);
	ucp_request_free(of_worker);
	ucp_request_free(of_endpoint);
	ucp_worker_release_address(worker, address);
	ucp_ep_destroy(ep);
	ucp_ep_destroy(other);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* Another thread is amid a call, and a send is under way, when the child is made: there neither ever goes on. */
static void close__in_a_child_waits_for_nothing(void **state)
{
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	struct ucx_request before;
	ucp_address_t *address;
	ucp_context_h context;
	ucp_worker_h worker;
	size_t length;
	pid_t child;
	ucp_ep_h ep;

	(void)state;
	worker = worker_open(&context, UCS_THREAD_MODE_MULTI);
	assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(worker, &to, &ep), UCS_OK);
	sends_begin(&before, ep, UCX_UNASKED);
	charge_enter(&worker->charge);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		alarm(CHILD_LIMIT_S);
		if (ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH))
			_exit(1);
		ucp_worker_destroy(worker);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
	charge_leave(&worker->charge);
	ucx_flush_sent(&before);
	ucp_worker_release_address(worker, address);
	ucp_ep_destroy(ep);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static void *worker_waits(void *arg)
{
	ucp_worker_progress(arg);
	return arg;
}

/* How many of a hundred calls of an MPI library are made by us. */
static unsigned yields_made(void)
{
	unsigned before = yields;

	for (int i = 0; i < 100; i++)
		assert_int_equal(yields_lazy(), 0);
	return yields - before;
}

/* Once a second thread waits by its progress they are all made: it may wait for a lock of the library's. */
static void yields__are_a_workers_to_make(void **state)
{
	ucp_context_h context;
	ucp_worker_h worker;
	pthread_t thread;

	(void)state;
	setenv("THOLE_MPI_YIELD", "spare", 1);
	setenv("THOLE_LOCAL_RANKS", "100000", 1); /* more than cores: there is always one that has a use for them */
	worker = worker_open(&context, UCS_THREAD_MODE_MULTI);
	assert_int_equal(yields_made(), 100);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	unsetenv("THOLE_LOCAL_RANKS");
	worker = worker_open(&context, UCS_THREAD_MODE_MULTI);
	unsetenv("THOLE_MPI_YIELD");
	ucp_worker_progress(worker);
	assert_in_range(yields_made(), 1, 99);
	assert_int_equal(pthread_create(&thread, NULL, worker_waits, worker), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(yields_made(), 100);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* The library's next yield would keep it from that. */
static void progress__says_that_it_has_found(void **state)
{
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_request_param_t param = {0};
	ucp_address_t *address;
	ucp_context_h contexts[2];
	ucp_worker_h worker, peer;
	void *receive, *send;
	size_t length;
	ucp_ep_h ep;
	char byte;

	(void)state;
	assert_true(yield_spared); /* since the test before */
	worker = worker_open(&contexts[0], UCS_THREAD_MODE_SINGLE);
	peer = worker_open(&contexts[1], UCS_THREAD_MODE_SINGLE);
	assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(peer, &to, &ep), UCS_OK);
	ucp_worker_release_address(worker, address);
	receive = ucp_tag_recv_nbx(worker, &byte, 1, 3, UINT64_MAX, &param);
	assert_true(UCS_PTR_IS_PTR(receive));
	yield_found = false;
	ucp_worker_progress(worker);
	assert_false(yield_found);
	send = ucp_tag_send_nbx(ep, "", 1, 3, &param);
	assert_false(UCS_PTR_IS_ERR(send));
	while (!ucp_request_is_completed(receive)) {
		ucp_worker_progress(peer);
		yield_found = false;
		ucp_worker_progress(worker);
	}
	assert_true(yield_found);
	ucp_request_free(receive);
	if (send)
		ucp_request_free(send);
	ucp_worker_destroy(peer);
	ucp_worker_destroy(worker);
	ucp_cleanup(contexts[1]);
	ucp_cleanup(contexts[0]);
}

static size_t bounced = BOUNCED;

static size_t state_size(void *shape)
{
	(void)shape;
	return bounced;
}

static void *state_of_room(void *context, void *buffer, size_t count)
{
	(void)context;
	(void)count;
	return buffer;
}

static void *state_of_data(void *context, const void *buffer, size_t count)
{
	return state_of_room(context, (void *)(uintptr_t)buffer, count);
}

static size_t state_pack(void *state, size_t offset, void *to, size_t room)
{
	(void)state;
	(void)offset;
	memset(to, 1, room);
	return room;
}

static ucs_status_t state_unpack(void *state, size_t offset, const void *from, size_t length)
{
	(void)offset;
	(void)from;
	(void)length;
	*(int *)state += UNPACKED;
	return UCS_OK;
}

static void state_finish(void *state)
{
	++*(int *)state;
}

static size_t memory_used(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* A message from a worker to itself. */
static void bounces_once(ucp_worker_h worker, ucp_ep_h ep, const ucp_request_param_t *param)
{
	int received = 0, sent = 0;
	void *receive = ucp_tag_recv_nbx(worker, &received, 1, 3, UINT64_MAX, param);
	void *send = ucp_tag_send_nbx(ep, &sent, 1, 3, param);

	while (!ucp_request_is_completed(receive) || (send && !ucp_request_is_completed(send)))
		ucp_worker_progress(worker);
	assert_int_equal(received, UNPACKED + 1);
	ucp_request_free(receive);
	if (send)
		ucp_request_free(send);
}

/* The bounce buffers of two receives and two sends. Long ones lie where peers may map them. */
static void under_way(ucp_worker_h worker, const void *blocks_of[4])
{
	struct list_node *node = list_first(&worker->bounces);

	for (int i = 0; i < 4; i++, node = node->next) {
		blocks_of[i] = container_of(node, struct ucx_bounce, node);
		assert_int_equal(blocks()->length(blocks_of[i]) > 0, bounced == BOUNCED_LONG);
	}
	assert_ptr_equal(node, &worker->bounces);
}

/* What a worker holds for requests under way goes with it, whether these are its own or the program's, and what has
 * ended before does not go again. */
static void bounces_go_with_their_worker(size_t length_of_each)
{
	static const ucp_generic_dt_ops_t operations = {state_of_data, state_of_room, state_size,
							state_pack,    state_unpack,  state_finish};
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	_Alignas(16) static unsigned char memory[3][1024];
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE};
	int finished[2] = {0}, sent = 0;
	size_t before = 0, length;

	bounced = length_of_each;
	assert_int_equal(ucp_dt_create_generic(&operations, NULL, &param.datatype), UCS_OK);
	for (int round = 0; round < 3; round++) {
		ucp_address_t *address;
		ucp_context_h context;
		ucp_worker_h worker = worker_open(&context, UCS_THREAD_MODE_SINGLE);
		const void *blocks_of[4];
		ucp_ep_h ep;

		assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
		to.address = address;
		assert_int_equal(ucp_ep_create(worker, &to, &ep), UCS_OK);
		param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
		bounces_once(worker, ep, &param);
		memset(finished, 0, sizeof finished);
		for (int i = 0; i < 2; i++) { /* the second one in memory of the program's */
			param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | (i ? UCP_OP_ATTR_FIELD_REQUEST : 0u);
			param.request = &memory[i][sizeof(struct ucx_request)];
			assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(worker, &finished[i], 1, 2, UINT64_MAX, &param)));
			param.request = &memory[2][sizeof(struct ucx_request)];
			assert_true(UCS_PTR_IS_PTR(ucp_tag_send_sync_nbx(ep, &sent, 1, 1, &param)));
		}
		ucp_worker_release_address(worker, address);
		under_way(worker, blocks_of);
		ucp_worker_destroy(worker);
		ucp_cleanup(context);
		for (int i = 0; i < 4; i++)
			assert_int_equal(blocks()->length(blocks_of[i]), 0);
		assert_int_equal(finished[0], 1);
		assert_int_equal(finished[1], 1);
		if (round == 1)
			before = memory_used();
	}
	assert_in_range(memory_used(), 0, before + BOUNCED / 2);
	ucp_dt_destroy(param.datatype);
}

static void destroy__gives_bounces_back(void **state)
{
	(void)state;
	bounces_go_with_their_worker(BOUNCED);
	bounces_go_with_their_worker(BOUNCED_LONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress__may_wait_where_one_thread_comes),
		cmocka_unit_test(progress__looks_once_where_several_may_come),
		cmocka_unit_test(caretaker__comes_with_an_endpoint),
		cmocka_unit_test(alloc__is_given_back),
		cmocka_unit_test(send__fails_in_its_call),
		cmocka_unit_test(loss__of_any_kind_is_told),
		cmocka_unit_test(watch__goes_on_when_there_is_memory),
		cmocka_unit_test(receive__fails_in_its_call),
		cmocka_unit_test(flush__of_what_was_sent_before),
		cmocka_unit_test(close__in_a_child_waits_for_nothing),
		cmocka_unit_test(destroy__gives_bounces_back),
		cmocka_unit_test(yields__are_a_workers_to_make),
		cmocka_unit_test(progress__says_that_it_has_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
