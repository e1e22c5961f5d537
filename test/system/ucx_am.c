/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs of UCX rely on in active messages, rule by rule, between two workers of one process and to oneself: all
 * lengths and datatypes, with headers and without, their order, handlers that keep data, and that messages with tags
 * and active ones never meet. It is written against UCX's interface alone; `foreign` as its argument leaves out what is
 * ours alone.
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>

enum {
	PLAIN = 3, /* numbers of handlers */
	HEADED = 700,
	NOBODY = 9,
	LARGE = 3 << 20,
	MANY = 3000,
	PIECES = 3,
	PATIENCE = 100000000,
	SHORT = 16 << 10, /* what ours sends as one message */
	HEADER = 8 << 10,
	THREADS = 3,
};

static bool ours;
static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h there, back, self;
static unsigned char *out;

/* What handlers saw. */
static int told, sent;
static bool keeps, releases, inside;
static void *told_data;
static size_t told_length;
static unsigned char header_seen[HEADER];
static size_t header_seen_length;
static unsigned next_in_order;
static int answers;

#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(bool condition, const char *text, int line)
{
	if (condition)
		return;
	fprintf(stderr, "ucx_am.c:%d: %s\n", line, text);
	exit(1);
}

static void progress(void)
{
	ucp_worker_progress(workers[0]);
	ucp_worker_progress(workers[1]);
}

static void until(const int *count, int wanted)
{
	for (int i = 0; *count < wanted; i++) {
		CHECK(i < PATIENCE);
		progress();
	}
	CHECK(*count == wanted);
}

static void until_told_at(ucp_worker_h worker, int wanted)
{
	for (int i = 0; told < wanted; i++) {
		CHECK(i < PATIENCE / 10);
		ucp_worker_progress(worker);
		progress();
	}
}

static ucs_status_t finish(ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_STATUS(request);
	for (int i = 0; (status = ucp_request_check_status(request)) == UCS_INPROGRESS; i++) {
		CHECK(i < PATIENCE);
		progress();
	}
	ucp_request_free(request);
	return status;
}

static void on_sent(void *request, ucs_status_t status)
{
	CHECK(status == UCS_OK);
	ucp_request_free(request);
	sent++;
}

static bool is_filled(const unsigned char *data, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (data[i] != (unsigned char)(seed + i * 7 + i / 251))
			return false;
	return true;
}

static void fill(unsigned char *data, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (unsigned char)(seed + i * 7 + i / 251);
}

static ucs_status_t saw(ucp_worker_h worker, void *data, size_t length)
{
	CHECK(!inside);
	inside = true;
	CHECK(is_filled(data, length, (unsigned)length));
	told_data = data;
	told_length = length;
	if (releases)
		ucp_am_data_release(worker, data);
	inside = false;
	told++;
	return keeps || releases ? UCS_INPROGRESS : UCS_OK;
}

static ucs_status_t on_plain(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags)
{
	CHECK(arg == &told && !reply);
	CHECK(!(keeps || releases) || flags & UCP_CB_PARAM_FLAG_DATA);
	return saw(workers[1], data, length);
}

static ucs_status_t on_headed(void *arg, const void *header, size_t header_length, void *data, size_t length,
			      const ucp_am_recv_param_t *param)
{
	CHECK(arg == &sent);
	CHECK(!(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP));
	CHECK(header_length <= HEADER && (header || !header_length));
	/* Of an empty message, too, the handler has UCP_AM_FLAG_PERSISTENT_DATA. */
	CHECK(param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV));
	header_seen_length = header_length;
	memcpy(header_seen, header ? header : header_seen, header_length);
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) { /* UCX's own */
		told_data = data;
		told_length = length;
		told++;
		return UCS_OK;
	}
	return saw(workers[1], data, length);
}

static ucp_ep_h connect_to(ucp_worker_h from, ucp_worker_h to)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	ucp_ep_h endpoint;
	size_t length;

	CHECK(ucp_worker_get_address(to, &address, &length) == UCS_OK);
	params.address = address;
	CHECK(ucp_ep_create(from, &params, &endpoint) == UCS_OK);
	ucp_worker_release_address(to, address);
	return endpoint;
}

static void set_handlers(ucp_worker_h worker)
{
	ucp_am_handler_param_t headed = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
		.id = HEADED,
		.cb = on_headed,
		.arg = &sent,
		.flags = UCP_AM_FLAG_PERSISTENT_DATA | UCP_AM_FLAG_WHOLE_MSG,
	};

	CHECK(ucp_worker_set_am_handler(worker, PLAIN, on_plain, &told, UCP_AM_FLAG_WHOLE_MSG) == UCS_OK);
	CHECK(ucp_worker_set_am_recv_handler(worker, &headed) == UCS_OK);
}

static void open_all(ucs_thread_mode_t thread_mode)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
			       .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA};
	ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					     .thread_mode = thread_mode};
	ucp_config_t *config;

	CHECK(ucp_config_read(NULL, NULL, &config) == UCS_OK);
	CHECK(ucp_init(&params, config, &context) == UCS_OK);
	ucp_config_release(config);
	for (int i = 0; i < 2; i++)
		CHECK(ucp_worker_create(context, &worker_params, &workers[i]) == UCS_OK);
	there = connect_to(workers[0], workers[1]);
	back = connect_to(workers[1], workers[0]);
	self = connect_to(workers[1], workers[1]);
	set_handlers(workers[1]);
	told = sent = 0;
}

static void close_all(void)
{
	ucs_status_ptr_t requests[] = {ucp_disconnect_nb(there), ucp_disconnect_nb(back), ucp_disconnect_nb(self)};

	for (int i = 0; i < 3; i++)
		CHECK(finish(requests[i]) == UCS_OK);
	for (int i = 0; i < 2; i++)
		ucp_worker_destroy(workers[i]);
	ucp_cleanup(context);
}

/* ---- What there is --------------------------------------------------------------------------------- */

static void test_features(void)
{
	static const uint64_t refused[] = {
		UCP_FEATURE_TAG | UCP_FEATURE_RMA, UCP_FEATURE_AM | UCP_FEATURE_RMA, UCP_FEATURE_RMA,
		UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_AMO64,
		UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM,
	};
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t worker_params = {.field_mask = 0};
	ucp_context_h tags;
	ucp_worker_h worker;
	ucp_ep_h endpoint;

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		params.features = refused[i];
		CHECK(ucp_init(&params, NULL, &tags) == UCS_ERR_UNSUPPORTED);
	}
	params.features = UCP_FEATURE_TAG;
	CHECK(ucp_init(&params, NULL, &tags) == UCS_OK);
	CHECK(ucp_worker_create(tags, &worker_params, &worker) == UCS_OK);
	CHECK(ucp_worker_set_am_handler(worker, PLAIN, on_plain, NULL, 0) == UCS_ERR_UNSUPPORTED);
	endpoint = connect_to(worker, worker);
	CHECK(UCS_PTR_STATUS(ucp_am_send_nb(endpoint, PLAIN, out, 1, ucp_dt_make_contig(1), on_sent, 0)) ==
	      UCS_ERR_UNSUPPORTED);
	ucp_worker_destroy(worker);
	ucp_cleanup(tags);
}

static void on_failure(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
	(void)arg;
	(void)endpoint;
	(void)status;
}

/* Programs are told in time: of remote memory, so that they go another way, and of what would meet active messages. */
static void test_refused(void)
{
	const ucp_mem_map_params_t memory = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = out, .length = 100};
	ucp_request_param_t reply = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY};
	const ucp_request_param_t none = {.op_attr_mask = 0};
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler.cb = on_failure,
	};
	ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
	ucp_address_t *address;
	ucp_ep_h endpoint;
	ucp_mem_h handle;
	size_t length;

	CHECK(ucp_mem_map(context, &memory, &handle) == UCS_ERR_UNSUPPORTED);
	CHECK(UCS_PTR_STATUS(ucp_am_send_nbx(there, HEADED, NULL, 0, out, 1, &reply)) == UCS_ERR_UNSUPPORTED);
	CHECK(ucp_worker_query(workers[0], &attributes) == UCS_OK && attributes.max_am_header == HEADER);
	CHECK(UCS_PTR_STATUS(ucp_am_send_nbx(there, HEADED, out, HEADER + 1, out, 1, &none)) == UCS_ERR_INVALID_PARAM);
	CHECK(UCS_PTR_STATUS(ucp_am_send_nbx(there, 1 << 16, out, 0, out, 1, &none)) == UCS_ERR_INVALID_PARAM);
	CHECK(ucp_worker_get_address(workers[1], &address, &length) == UCS_OK);
	params.address = address;
	CHECK(ucp_ep_create(workers[0], &params, &endpoint) == UCS_ERR_UNSUPPORTED);
	ucp_worker_release_address(workers[1], address);
	CHECK(UCS_PTR_STATUS(ucp_am_recv_data_nbx(workers[1], out, out, 1, &none)) == UCS_ERR_INVALID_PARAM);
}

/* ---- Lengths, datatypes, headers ------------------------------------------------------------------- */

static const size_t lengths[] = {0, 1, 100, 1024, 1025, 4096,
				 SHORT - HEADER, SHORT - 1, SHORT, SHORT + 1, 100000, LARGE};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void test_lengths(ucp_ep_h endpoint)
{
	for (int i = 0; i < LENGTHS; i++) {
		int before = told, begun = sent;
		ucs_status_ptr_t request;

		fill(out, lengths[i], (unsigned)lengths[i]);
		request = ucp_am_send_nb(endpoint, PLAIN, out, lengths[i], ucp_dt_make_contig(1), on_sent, 0);
		CHECK(!UCS_PTR_IS_ERR(request));
		until(&told, before + 1);
		until(&sent, begun + (request != NULL));
		CHECK(told_length == lengths[i]);
	}
}

static void test_pieces(void)
{
	for (int i = 0; i < LENGTHS; i++) {
		size_t third = lengths[i] / 3;
		ucp_dt_iov_t pieces[PIECES] = {{out, third}, {out + third, 0}, {out + third, lengths[i] - third}};
		int before = told, begun = sent;
		ucs_status_ptr_t request;

		fill(out, lengths[i], (unsigned)lengths[i]);
		request = ucp_am_send_nb(there, PLAIN, pieces, PIECES, ucp_dt_make_iov(), on_sent, 0);
		CHECK(!UCS_PTR_IS_ERR(request));
		until(&told, before + 1);
		until(&sent, begun + (request != NULL));
		CHECK(told_length == lengths[i]);
	}
}

static void test_headers(void)
{
	static const size_t headers[] = {0, 1, 8, 1017, HEADER};
	static unsigned char header[HEADER];

	for (int i = 0; i < LENGTHS * 5; i++) {
		size_t length = lengths[i / 5], header_length = headers[i % 5];
		ucp_dt_iov_t pieces[] = {{out, length / 2}, {out + length / 2, length - length / 2}};
		ucp_request_param_t param = {
			.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | (i % 2 ? UCP_OP_ATTR_FIELD_DATATYPE : 0),
			.flags = UCP_AM_SEND_FLAG_EAGER,
			.datatype = ucp_dt_make_iov(),
		};
		int before = told;

		fill(out, length, (unsigned)length);
		fill(header, header_length, (unsigned)i);
		CHECK(finish(ucp_am_send_nbx(there, HEADED, header, header_length, i % 2 ? (void *)pieces : out,
					     i % 2 ? 2 : length, &param)) == UCS_OK);
		until(&told, before + 1);
		CHECK(told_length == length && header_seen_length == header_length);
		CHECK(is_filled(header_seen, header_length, (unsigned)i));
	}
}

/* ---- Many ------------------------------------------------------------------------------------------ */

static ucs_status_t on_numbered(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags)
{
	unsigned number;

	(void)arg;
	(void)reply;
	(void)flags;
	memcpy(&number, data, sizeof number);
	CHECK(!__atomic_exchange_n(&inside, true, __ATOMIC_ACQUIRE));
	if (number % 16 == 0)
		sched_yield(); /* another thread may try */
	CHECK(number == next_in_order);
	CHECK(is_filled((unsigned char *)data + sizeof number, length - sizeof number, number));
	next_in_order++;
	__atomic_store_n(&inside, false, __ATOMIC_RELEASE);
	__atomic_fetch_add(&told, 1, __ATOMIC_RELEASE); /* partner: run */
	return UCS_OK;
}

/* Short and long ones in the order in which they were sent, also where the receiver makes no progress meanwhile; and a
 * receive for any tag takes none of them. */
static void test_order(void)
{
	unsigned char tagged = 0;
	const ucp_request_param_t none = {.op_attr_mask = 0};
	ucs_status_ptr_t receive = ucp_tag_recv_nbx(workers[1], &tagged, 1, 0, 0, &none);
	int begun = sent, wanted = 0, before = told;

	CHECK(UCS_PTR_IS_PTR(receive));
	CHECK(ucp_worker_set_am_handler(workers[1], PLAIN, on_numbered, NULL, 0) == UCS_OK);
	next_in_order = 0;
	for (unsigned i = 0; i < MANY; i++) {
		static unsigned char *kept[MANY];
		size_t length = sizeof i + (i % 97 == 5 ? 70000 : i % 13 == 1 ? SHORT : i % 50);

		kept[i] = malloc(length);
		CHECK(kept[i]);
		memcpy(kept[i], &i, sizeof i);
		fill(kept[i] + sizeof i, length - sizeof i, i);
		wanted += ucp_am_send_nb(there, PLAIN, kept[i], length, ucp_dt_make_contig(1), on_sent, 0) != NULL;
		if (i % 500 == 499)
			ucp_worker_progress(workers[0]);
		if (i == MANY - 1) {
			until(&told, before + MANY);
			until(&sent, begun + wanted);
			for (unsigned j = 0; j < MANY; j++)
				free(kept[j]);
		}
	}
	CHECK(ucp_request_check_status(receive) == UCS_INPROGRESS);
	tagged = 7;
	CHECK(finish(ucp_tag_send_nbx(there, &(unsigned char){42}, 1, 5, &none)) == UCS_OK);
	CHECK(finish(receive) == UCS_OK && tagged == 42);
	set_handlers(workers[1]);
}

/* Long ones of two senders at once: each gets its own data. */
static void test_two_senders(void)
{
	unsigned char *mine = malloc(LARGE), *others = malloc(LARGE);
	int before = told, begun = sent, wanted = 0;

	CHECK(mine && others);
	fill(mine, LARGE, (unsigned)(2 * SHORT));
	fill(others, LARGE, (unsigned)(3 * SHORT));
	for (int i = 0; i < 100; i++) {
		wanted += ucp_am_send_nb(there, PLAIN, mine, 2 * SHORT, ucp_dt_make_contig(1), on_sent, 0) != NULL;
		wanted += ucp_am_send_nb(self, PLAIN, others, 3 * SHORT, ucp_dt_make_contig(1), on_sent, 0) != NULL;
	}
	until(&told, before + 200);
	until(&sent, begun + wanted);
	free(mine);
	free(others);
}

static ucs_status_t on_question(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags)
{
	ucs_status_ptr_t request;

	(void)reply;
	(void)flags;
	request = ucp_am_send_nb(arg, PLAIN, data, length, ucp_dt_make_contig(1), on_sent, 0);
	CHECK(!UCS_PTR_IS_ERR(request));
	for (int i = 0; request && sent < answers + 1 && i < PATIENCE; i++)
		progress(); /* no handler is called meanwhile */
	answers = sent;
	return UCS_OK;
}

/* A handler sends, and makes progress. */
static void test_answers(void)
{
	answers = sent;
	CHECK(ucp_worker_set_am_handler(workers[0], NOBODY, on_question, there, 0) == UCS_OK);
	for (int i = 0; i < LENGTHS - 1; i++) {
		int before = told;

		fill(out, lengths[i], (unsigned)lengths[i]);
		CHECK(ucp_am_send_nb(back, NOBODY, out, lengths[i], ucp_dt_make_contig(1), on_sent, 0) != out);
		until(&told, before + 1);
		CHECK(told_length == lengths[i]);
	}
	for (int i = 0; i < 1000; i++)
		progress();
}

/* What nobody is there for is dropped, and those behind it arrive. */
static void test_nobody(void)
{
	static const unsigned numbers[] = {NOBODY, HEADED + 1, UINT16_MAX};
	int before = told;

	for (int i = 0; i < 3; i++) {
		CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nb(there, (uint16_t)numbers[i], out, 10, ucp_dt_make_contig(1),
						     on_sent, 0)));
		fill(out, 10, 10);
		CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nb(there, PLAIN, out, 10, ucp_dt_make_contig(1), on_sent, 0)));
	}
	until(&told, before + 3);
}

/* ---- Alignment ------------------------------------------------------------------------------------- */

static uintptr_t aligned_to;

static ucs_status_t on_aligned(void *arg, const void *header, size_t header_length, void *data, size_t length,
			       const ucp_am_recv_param_t *param)
{
	(void)arg;
	CHECK(is_filled(header, header_length, 3));
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		length = 0; /* UCX's own hands over no data */
	CHECK(is_filled(data, length, (unsigned)length));
	if (length > 0 && (ours || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA)) /* UCX's own aligns no others */
		CHECK((uintptr_t)data % aligned_to == 0);
	told++;
	return UCS_OK;
}

/* Data lies as the worker was told that it should, whatever the header's length. */
static void test_alignment(void)
{
	static const size_t alignments[] = {0, 1, 8, 64, 256, 4096}, headers[] = {0, 1, 5, 64, 100, HEADER};
	static const size_t none[] = {3, 96};
	ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT};
	const ucp_am_handler_param_t handler = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
		.id = HEADED,
		.cb = on_aligned,
	};
	static unsigned char header[HEADER];
	ucp_worker_h worker;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		params.am_alignment = none[i];
		CHECK(ucp_worker_create(context, &params, &worker) == UCS_ERR_INVALID_PARAM);
	}
	fill(header, HEADER, 3);
	for (size_t i = ours ? 0 : 1; i < sizeof alignments / sizeof *alignments; i++) { /* UCX 1.13 divides by 0 */
		const ucp_request_param_t plain = {.op_attr_mask = 0};
		ucp_ep_h endpoint;

		params.am_alignment = alignments[i];
		aligned_to = alignments[i] ? alignments[i] : 1;
		CHECK(ucp_worker_create(context, &params, &worker) == UCS_OK);
		CHECK(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK);
		endpoint = connect_to(workers[0], worker);
		for (size_t j = 0; j < LENGTHS * sizeof headers / sizeof *headers; j++) {
			size_t length = lengths[j % LENGTHS];
			int before = told;
			ucs_status_ptr_t request;

			fill(out, length, (unsigned)length);
			request = ucp_am_send_nbx(endpoint, HEADED, header, headers[j / LENGTHS], out, length, &plain);
			CHECK(!UCS_PTR_IS_ERR(request));
			until_told_at(worker, before + 1);
			while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
				progress();
				ucp_worker_progress(worker);
			}
			CHECK(finish(request) == UCS_OK);
		}
		ucp_ep_close_nb(endpoint, UCP_EP_CLOSE_MODE_FORCE);
		ucp_worker_destroy(worker);
	}
}

/* ---- What is taken back ---------------------------------------------------------------------------- */

enum { LONG = 1 << 20, TOO_MANY = 1 << 14 };

static void send_short(ucp_ep_h endpoint)
{
	fill(out, 100, 100);
	CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nb(endpoint, PLAIN, out, 100, ucp_dt_make_contig(1), on_sent, 0)));
}

/* A long one behind so many short ones, taken back by itself or with its endpoint: it comes as a whole or not at all,
 * and what is behind it comes, whoever has sent it. Returns whether it did not come. */
static bool take_back(int short_ones, bool closes)
{
	const ucp_request_param_t none = {.op_attr_mask = 0};
	const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
	ucp_worker_params_t single = {.field_mask = 0};
	static unsigned char data[LONG];
	ucp_ep_h endpoint, beside, itself;
	ucs_status_ptr_t request;
	ucp_worker_h worker;
	ucs_status_t status;
	int before = told;

	CHECK(ucp_worker_create(context, &single, &worker) == UCS_OK);
	set_handlers(worker);
	endpoint = connect_to(workers[0], worker);
	beside = connect_to(workers[0], worker);
	itself = connect_to(worker, worker);
	send_short(beside);
	send_short(itself);
	until_told_at(worker, before + 2);
	for (int i = 0; i < short_ones; i++)
		send_short(beside);
	fill(data, LONG, LONG);
	request = ucp_am_send_nbx(endpoint, PLAIN, NULL, 0, data, LONG, &none);
	CHECK(UCS_PTR_IS_PTR(request));
	if (closes)
		CHECK(finish(ucp_ep_close_nbx(endpoint, &force)) == UCS_OK);
	else
		ucp_request_cancel(workers[0], request);
	status = ucp_request_check_status(request);
	CHECK(status == UCS_ERR_CANCELED || status == UCS_INPROGRESS);
	until_told_at(worker, before + 2 + short_ones + (status == UCS_INPROGRESS));
	for (int i = 0; i < 100; i++) {
		progress();
		ucp_worker_progress(worker);
	}
	send_short(itself);
	until_told_at(worker, before + 3 + short_ones + (status == UCS_INPROGRESS));
	send_short(beside);
	until_told_at(worker, before + 4 + short_ones + (status == UCS_INPROGRESS));
	CHECK(finish(request) == (status == UCS_INPROGRESS ? UCS_OK : UCS_ERR_CANCELED));
	if (!closes)
		CHECK(finish(ucp_ep_close_nbx(endpoint, &force)) == UCS_OK);
	CHECK(finish(ucp_ep_close_nbx(beside, &force)) == UCS_OK);
	ucp_worker_destroy(worker);
	return status != UCS_INPROGRESS;
}

/* There is room for all of it, for its beginning alone, or for none of it. */
static void test_taken_back(void)
{
	for (int closes = 0; closes < 2; closes++) {
		int room = 0, short_ones;

		while (!take_back(room, closes))
			CHECK((room += 16) < TOO_MANY);
		for (short_ones = room > 16 ? room - 16 : 0; short_ones < room; short_ones++)
			take_back(short_ones, closes);
	}
}

/* ---- Data that stays ------------------------------------------------------------------------------- */

static void test_kept(void)
{
	const ucp_request_param_t none = {.op_attr_mask = 0};
	size_t length = 0;
	ucp_request_param_t pieces = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_RECV_INFO,
		.datatype = ucp_dt_make_iov(),
		.recv_info.length = &length,
	};
	unsigned char *in = malloc(LARGE);
	struct mallinfo2 before, after;
	void *data[3 * LENGTHS];

	CHECK(in);
	keeps = true;
	for (int i = 0; i < 3 * LENGTHS; i++) {
		int came = told;

		fill(out, lengths[i / 3], (unsigned)lengths[i / 3]);
		CHECK(finish(ucp_am_send_nbx(there, HEADED, out, 5, out, lengths[i / 3], &none)) == UCS_OK);
		until(&told, came + 1);
		data[i] = told_data;
	}
	keeps = false;
	for (int i = 0; i < LENGTHS; i++) {
		ucp_dt_iov_t two[] = {{in, lengths[i] / 3}, {in + lengths[i] / 3, lengths[i] - lengths[i] / 3}};

		CHECK(is_filled(data[3 * i], lengths[i], (unsigned)lengths[i]));
		ucp_am_data_release(workers[1], data[3 * i]);
		memset(in, 0, lengths[i]);
		CHECK(finish(ucp_am_recv_data_nbx(workers[1], data[3 * i + 1], two, 2, &pieces)) == UCS_OK);
		CHECK(length == lengths[i] && is_filled(in, lengths[i], (unsigned)lengths[i]));
		if (lengths[i] > 0)
			CHECK(finish(ucp_am_recv_data_nbx(workers[1], data[3 * i + 2], in, lengths[i] - 1, &none)) ==
			      UCS_ERR_MESSAGE_TRUNCATED);
	}
	free(in);
	before = mallinfo2();
	releases = true;
	test_lengths(there);
	releases = false;
	after = mallinfo2();
	CHECK(after.hblkhd + after.uordblks < before.hblkhd + before.uordblks + LARGE);
}

static void *received;
static ucs_status_t received_status;
static size_t received_length;

static void on_received(void *request, ucs_status_t status, size_t length, void *data)
{
	CHECK(data == &told && ucp_request_check_status(request) == status);
	received = request;
	received_status = status;
	received_length = length;
}

/* What is not to end in its call has a request, of the worker's or of the program's, and a callback. */
static void test_kept_later(void)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.recv_am = on_received,
		.user_data = &told,
	};
	const ucp_request_param_t none = {.op_attr_mask = 0};
	unsigned char in[100];

	for (int i = 0; i < 4; i++) {
		size_t room = i == 3 ? sizeof in - 1 : sizeof in;
		void *own = i == 1 ? ucp_request_alloc(workers[1]) : NULL;
		ucs_status_ptr_t request;
		int before = told;

		keeps = true;
		fill(out, sizeof in, sizeof in);
		CHECK(finish(ucp_am_send_nbx(there, HEADED, NULL, 0, out, sizeof in, &none)) == UCS_OK);
		until(&told, before + 1);
		keeps = false;
		if (own) {
			param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
			param.request = own;
		} else {
			param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_REQUEST;
		}
		if (i == 2)
			param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_CALLBACK;
		else
			param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK;
		memset(in, 0, sizeof in);
		received = NULL;
		request = ucp_am_recv_data_nbx(workers[1], told_data, in, room, &param);
		CHECK(UCS_PTR_IS_PTR(request) && (!own || request == own));
		CHECK(ucp_request_check_status(request) == (room < sizeof in ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK));
		CHECK(received == (i == 2 ? NULL : request) && (i == 3 || is_filled(in, room, sizeof in)));
		CHECK(i == 2 || (received_status == ucp_request_check_status(request)));
		CHECK(i >= 2 || received_length == sizeof in);
		ucp_request_free(request);
		if (!ours)
			continue;
		request = ucp_am_recv_data_nbx(workers[1], told_data, in, room, &param); /* it is the worker's again */
		CHECK(UCS_PTR_STATUS(request) == UCS_ERR_INVALID_PARAM);
	}
}

/* Some of each kind are there when the worker goes. */
static void leave_some(void)
{
	keeps = true;
	for (int i = 0; i < 3; i++) {
		int before = told;

		fill(out, lengths[i], (unsigned)lengths[i]);
		CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nb(there, PLAIN, out, lengths[i], ucp_dt_make_contig(1), on_sent,
						     0)));
		until(&told, before + 1);
	}
	keeps = false;
	for (int i = 0; i < 4; i++)
		CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nb(there, PLAIN, out, i % 2 ? 20 : SHORT, ucp_dt_make_contig(1),
						     on_sent, 0)));
}

/* ---- Threads --------------------------------------------------------------------------------------- */

static void *run(void *unused)
{
	(void)unused;
	for (int i = 0; __atomic_load_n(&told, __ATOMIC_ACQUIRE) < MANY; i++) {
		CHECK(i < PATIENCE);
		progress();
	}
	return NULL;
}

/* Handlers are called one at a time, in order, whoever makes progress. */
static void test_threads(void)
{
	pthread_t threads[THREADS];
	const ucp_request_param_t none = {.op_attr_mask = 0};

	told = 0;
	next_in_order = 0;
	CHECK(ucp_worker_set_am_handler(workers[1], PLAIN, on_numbered, NULL, 0) == UCS_OK);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run, NULL) == 0);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned char message[60];
		ucs_status_ptr_t request;
		ucs_status_t status;

		memcpy(message, &i, sizeof i);
		fill(message + sizeof i, sizeof message - sizeof i, i);
		request = ucp_am_send_nbx(there, PLAIN, NULL, 0, message, sizeof message, &none);
		CHECK(!UCS_PTR_IS_ERR(request));
		while (request && (status = ucp_request_check_status(request)) == UCS_INPROGRESS)
			ucp_worker_progress(workers[0]);
		if (request)
			ucp_request_free(request);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(next_in_order == MANY);
	set_handlers(workers[1]);
}

static void test_all(ucs_thread_mode_t thread_mode)
{
	open_all(thread_mode);
	if (ours)
		test_refused();
	test_lengths(there);
	test_lengths(self);
	test_pieces();
	test_headers();
	test_order();
	test_two_senders();
	test_alignment();
	test_answers();
	if (ours) {
		test_taken_back();
		test_nobody(); /* UCX 1.13 reads behind its handlers */
		test_kept();
	}
	test_kept_later();
	if (thread_mode == UCS_THREAD_MODE_MULTI && ours) /* UCX's own has no handler of the one kind for the other */
		test_threads();
	if (ours)
		leave_some();
	close_all();
}

int main(int count, char **words)
{
	ours = count < 2 || strcmp(words[1], "foreign");
	out = calloc(1, LARGE);
	CHECK(out);
	if (ours)
		test_features();
	test_all(UCS_THREAD_MODE_MULTI);
	test_all(UCS_THREAD_MODE_SERIALIZED);
	test_all(UCS_THREAD_MODE_SINGLE);
	free(out);
	puts("ok");
	return 0;
}
