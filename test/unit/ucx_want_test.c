/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Want of memory or descriptors, at any call, as programs of UCX's meet it: two workers are opened, talk in every way,
 * and close, again and again, and each time another of the calls by which the front end, or Thole below it, asks for
 * something is refused. A call of the program's that fails by it is made again.
 *
 * Whatever it is: no crash, what fails says so, every request ends, every handler is called, what ended well is right,
 * and nothing is left over. Where one side has lost the other, which Thole does for want of some things, requests end
 * all the same.
 */
#include "unit.h"

#include <time.h>
#include <ucp/api/ucp.h>

#include "descriptors.h"
#include "mappings.h"
#include "pair.h"
#include "ucx_state.h"
#include "want.h"

enum {
	LIMIT_S = 60,   /* until something is taken to hang */
	LONG = 100000,  /* bytes of the longest message: not eager */
	PIECES = 2000,  /* more than Thole takes at once */
	HEADER = 5000,  /* bytes of the longest header, which does not fit on the stack */
	NUMBER = 3,     /* the handler's */
	TRIES = 16,     /* of a call, until it is taken to be refused for good */
};

static struct talk {
	ucp_context_h context;
	ucp_worker_h workers[2]; /* from the first to the second */
	ucp_ep_h ep;
	ucp_datatype_t packed;   /* LONG bytes, by the functions below; 0: none yet */
	unsigned tries;          /* of the call that is made */
	uint64_t handled;        /* bytes that handlers have had, */
	unsigned calls;          /* and their calls, */
	unsigned owed;           /* of so many */
	bool wrong;              /* one had other bytes */
	time_t end;
} talk;

static uint8_t from[LONG], to[LONG];

static void right(bool is, const char *what)
{
	if (!is)
		fail_msg("%s: %s was refused, the %llu. call (%s)", what, want.what, (unsigned long long)want.first,
			 thole_detail());
}

/* One side has lost the other. */
static bool talk_is_lost(void)
{
	bool was = want.off, lost = false;

	want.off = true;
	for (int i = 0; i < 2; i++)
		lost |= talk.workers[i] && pair_counter(talk.workers[i]->thole, "peers_gone") > 0;
	want.off = was;
	return lost;
}

/* Whether a call that ended so is to be made again. */
static bool fails(ucs_status_t status)
{
	if (status == UCS_OK || status == UCS_INPROGRESS || talk_is_lost()) {
		talk.tries = 0;
		return false;
	}
	right(want.what, "it fails, and nothing was refused");
	right(++talk.tries < TRIES, "it fails again and again");
	return true;
}

/* The same of a call that may have begun a request. */
static bool fails_to_begin(ucs_status_ptr_t request)
{
	return fails(UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request));
}

static void progress(const char *what)
{
	ucp_worker_progress(talk.workers[0]);
	ucp_worker_progress(talk.workers[1]);
	right(time(NULL) < talk.end, what);
}

/* ---- Datatypes and handlers ----------------------------------------------------------------------------------- */

static void *packs(void *context, const void *buffer, size_t count)
{
	(void)context;
	(void)count;
	return (void *)(uintptr_t)buffer;
}

static void *unpacks(void *context, void *buffer, size_t count)
{
	(void)context;
	(void)count;
	return buffer;
}

static size_t packs_bytes(void *state)
{
	(void)state;
	return LONG;
}

static size_t pack(void *state, size_t offset, void *at, size_t room)
{
	memcpy(at, (const uint8_t *)state + offset, room);
	return room;
}

static ucs_status_t unpack(void *state, size_t offset, const void *at, size_t length)
{
	memcpy((uint8_t *)state + offset, at, length);
	return UCS_OK;
}

static void packed(void *state)
{
	(void)state;
}

static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
			    const ucp_am_recv_param_t *param)
{
	(void)arg;
	(void)param;
	talk.calls++;
	talk.handled += length;
	talk.wrong |= memcmp(data, from, length) != 0 || (header_length && memcmp(header, from, header_length) != 0);
	return UCS_OK;
}

/* ---- What is said ---------------------------------------------------------------------------------------------- */

/* A request, or NULL or an error at once: how it ends. */
static ucs_status_t ends(ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_STATUS(request);
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		progress("a request has not ended");
	ucp_request_free(request);
	return status;
}

/* A message with a tag, its receive posted before or after. */
static void say(size_t count, ucp_datatype_t datatype, void *out, void *in, size_t length, bool late, bool sync)
{
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = datatype};
	ucs_status_ptr_t receive = NULL, send;
	ucs_status_t sent, received;

	memset(to, 0, sizeof to);
	do {
		if (!late)
			receive = ucp_tag_recv_nbx(talk.workers[1], in, count, 1, UINT64_MAX, &param);
	} while (!late && fails_to_begin(receive));
	do {
		send = sync ? ucp_tag_send_sync_nbx(talk.ep, out, count, 1, &param)
			    : ucp_tag_send_nbx(talk.ep, out, count, 1, &param);
	} while (fails_to_begin(send));
	for (int i = 0; late && i < 20; i++)
		progress("progress");
	while (late && fails_to_begin(receive = ucp_tag_recv_nbx(talk.workers[1], in, count, 1, UINT64_MAX, &param)))
		;
	while (UCS_PTR_IS_PTR(receive) && !ucp_request_is_completed(receive) && !talk_is_lost())
		progress("a receive has not ended");
	if (UCS_PTR_IS_PTR(receive))
		ucp_request_cancel(talk.workers[1], receive); /* of any peer, it waits where this one is lost */
	sent = ends(send);
	received = ends(receive);
	right(talk_is_lost() || (sent == UCS_OK && received == UCS_OK), "a message failed");
	right(received != UCS_OK || memcmp(from, to, length) == 0, "a message is not right");
}

static void say_to_handler(size_t header_length, size_t length)
{
	const ucp_request_param_t none = {.op_attr_mask = 0};
	ucs_status_ptr_t send;

	do {
		send = ucp_am_send_nbx(talk.ep, NUMBER, from, header_length, from, length, &none);
	} while (fails_to_begin(send));
	talk.owed++;
	while (talk.calls < talk.owed && !talk_is_lost())
		progress("a handler is not called");
	right(ends(send) == UCS_OK || talk_is_lost(), "an active message failed");
	right(!talk.wrong, "an active message is not right");
}

static void say_all(void)
{
	static ucp_dt_iov_t out[PIECES], in[PIECES];

	for (int i = 0; i < PIECES; i++) {
		out[i] = (ucp_dt_iov_t){from + i * 40, 40};
		in[i] = (ucp_dt_iov_t){to + i * 40, 40};
	}
	for (int i = 0; i < 4; i++) {
		const bool late = i % 2, sync = i / 2;

		say(8, ucp_dt_make_contig(1), from, to, 8, late, sync);
		say(LONG, ucp_dt_make_contig(1), from, to, LONG, late, sync);
		say(1, talk.packed, from, to, LONG, late, sync);
		say(PIECES, ucp_dt_make_iov(), out, in, (size_t)PIECES * 40, late, sync);
	}
	for (size_t length = 1; length <= LONG; length *= 10) {
		say_to_handler(0, length);
		say_to_handler(HEADER, length);
	}
}

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

static void talk_open(void)
{
	static const ucp_generic_dt_ops_t operations = {packs, unpacks, packs_bytes, pack, unpack, packed};
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				     .features = UCP_FEATURE_TAG | UCP_FEATURE_AM};
	const ucp_worker_params_t single = {.field_mask = 0};
	const ucp_am_handler_param_t handles = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
		.id = NUMBER, .cb = handler};
	ucp_ep_params_t peer = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	size_t length;

	talk = (struct talk){.end = time(NULL) + LIMIT_S};
	while (fails(ucp_init(&params, NULL, &talk.context)))
		;
	for (int i = 0; i < 2; i++)
		while (fails(ucp_worker_create(talk.context, &single, &talk.workers[i])))
			;
	while (fails(ucp_worker_set_am_recv_handler(talk.workers[1], &handles)))
		;
	while (fails(ucp_dt_create_generic(&operations, NULL, &talk.packed)))
		;
	while (fails(ucp_worker_get_address(talk.workers[1], &address, &length)))
		;
	peer.address = address;
	while (fails(ucp_ep_create(talk.workers[0], &peer, &talk.ep)))
		;
	ucp_worker_release_address(talk.workers[1], address);
}

static void talk_close(void)
{
	const ucp_request_param_t none = {.op_attr_mask = 0};
	ucs_status_ptr_t flush;

	do {
		flush = ucp_worker_flush_nbx(talk.workers[0], &none);
	} while (fails_to_begin(flush));
	ends(flush);
	ends(ucp_ep_close_nbx(talk.ep, &none));
	ucp_dt_destroy(talk.packed);
	for (int i = 0; i < 2; i++)
		ucp_worker_destroy(talk.workers[i]);
	ucp_cleanup(talk.context);
}

static void talk_all(uint64_t first, uint64_t row)
{
	want.count = 0;
	want.first = first;
	want.last = first + row - 1;
	want.what = NULL;
	talk_open();
	say_all();
	talk_close();
}

static void want_all(uint64_t row)
{
	int before;
	uint32_t live;

	talk_all(UINT64_MAX - row, row); /* what stays for good is there */
	before = descriptors_open();
	live = want.live;
	for (uint64_t first = 1;; first++) {
		talk_all(first, row);
		if (want.live != live || descriptors_open() != before || mappings_of("memfd:thole (") != 0)
			fail_msg("%d blocks, %d descriptors, %d mappings are left: %s was refused, the %llu. call",
				 (int)(want.live - live), descriptors_open() - before, mappings_of("memfd:thole ("),
				 want.what, (unsigned long long)first);
		if (!want.what)
			break;
	}
}

static void want__of_one(void **state)
{
	(void)state;
	want_all(1);
}

static void want__of_some(void **state)
{
	(void)state;
	want_all(4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(want__of_one),
		cmocka_unit_test(want__of_some),
	};

	for (size_t i = 0; i < sizeof from; i++)
		from[i] = pair_byte(1, i);
	setenv("THOLE_NETWORK", "off", 1);
	setenv("THOLE_CLOSE_TIMEOUT", "1ms", 1);
	setenv("THOLE_PEER_TIMEOUT", "5s", 1);
	return cmocka_run_group_tests_name("ucx_want", tests, NULL, NULL);
}
