/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_open - endpoints of MX, opened (board, number, parameters, Thole's endpoint) and closed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "mx_board.h"
#include "mx_connecting.h"
#include "mx_directory.h"
#include "mx_ending.h"
#include "mx_endpoint.h"
#include "mx_error.h"
#include "mx_handler.h"
#include "mx_library.h"
#include "mx_progress.h"
#include "mx_request.h"
#include "mx_setting.h"
#include "mx_tick.h"

enum {
	UNEXPECTED_MIN = 65536, /* bytes that may be held at least; the option's bound */
	OPTIONS_MAX = 8,
	OPTION_TEXT_MAX = 64,
};

static void mxi_open_entry_counters(struct mxi_entry *entry, uint64_t *values, size_t count)
{
	mxi_endpoint_counters(container_of(entry, struct mx_endpoint, entry), values, count);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* What programs may say at opening. */
struct parameters {
	mx_error_handler_t error_handler;    /* NULL: the process's */
	uint32_t unexpected_max;             /* bytes; 0: as Thole has it */
	uint8_t context_bits, context_shift; /* 0 bits: no context ids */
};

static mx_return_t mxi_open_parameters_take(const mx_param_t *list, uint32_t count, struct parameters *parameters)
{
	if (count > 0 && !list)
		return mxi_error(NULL, MX_BAD_PARAM_LIST, "mx_open_endpoint: a list of %u parameters at NULL", count);
	for (uint32_t i = 0; i < count; i++) {
		switch (list[i].key) {
		case MX_PARAM_ERROR_HANDLER:
			parameters->error_handler = list[i].val.error_handler;
			break;
		case MX_PARAM_UNEXP_QUEUE_MAX:
			parameters->unexpected_max = list[i].val.unexp_queue_max;
			break;
		case MX_PARAM_CONTEXT_ID:
			parameters->context_bits = list[i].val.context_id.bits;
			parameters->context_shift = list[i].val.context_id.shift;
			break;
		default:
			return mxi_error(NULL, MX_BAD_PARAM_NAME,
					 "mx_open_endpoint: parameter %u has the key %d, which there is not", i,
					 (int)list[i].key);
		}
	}
	if (parameters->context_bits > MX_CONTEXT_ID_BITS_MAX ||
	    parameters->context_bits + parameters->context_shift > 64)
		return mxi_error(NULL, MX_BAD_PARAM_VAL,
				 "mx_open_endpoint: context ids of %u bits from bit %u on: %d bits within "
				 "64 are possible",
				 parameters->context_bits, parameters->context_shift, MX_CONTEXT_ID_BITS_MAX);
	return MX_SUCCESS;
}

static bool mxi_open_contexts_init(struct mx_endpoint *endpoint, const struct parameters *parameters)
{
	size_t count = (size_t)1 << parameters->context_bits;

	if (parameters->context_bits == 0)
		return true;
	endpoint->done_by_context = malloc(count * sizeof(*endpoint->done_by_context));
	if (!endpoint->done_by_context)
		return false;
	for (size_t i = 0; i < count; i++)
		list_init(&endpoint->done_by_context[i]);
	endpoint->context_shift = parameters->context_shift;
	endpoint->context_mask = (uint64_t)(count - 1) << parameters->context_shift;
	return true;
}

/* ---- The place: a board and a number --------------------------------------------------------- */

/* A number on one board: the one that is wanted, or the first that is free. */
static mx_return_t mxi_open_place_claim(struct mx_endpoint *endpoint, const struct mxi_board *board,
					uint32_t endpoint_id)
{
	mx_return_t code = MX_BUSY;

	if (endpoint_id != MX_ANY_ENDPOINT)
		return mxi_directory_claim(&endpoint->entry, board, endpoint_id);
	for (uint32_t i = 0; i <= MXI_ENDPOINT_ID_MAX && code == MX_BUSY; i++)
		code = mxi_directory_claim(&endpoint->entry, board, i);
	return code;
}

/* Boards are tried in order: the first is the one that Thole would use, so endpoints meet there
 * rather than being spread. */
static mx_return_t mxi_open_place_find(struct mx_endpoint *endpoint, uint32_t number, uint32_t endpoint_id,
				       struct mxi_board *board)
{
	bool any = number == MX_ANY_NIC;
	uint32_t i = any ? 0 : number;
	char busy[ERROR_DETAIL_MAX];
	mx_return_t code = mxi_board_get(i, board);

	while (code == MX_SUCCESS) {
		code = mxi_open_place_claim(endpoint, board, endpoint_id);
		if (code != MX_BUSY || !any)
			return code;
		error_save(busy);
		code = mxi_board_get(++i, board);
		if (code == MX_BOARD_UNKNOWN) {
			error_restore(busy);
			return MX_BUSY;
		}
	}
	return code;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static mx_return_t mxi_open_refused(void)
{
	return (mx_return_t)error_set(MX_NO_RESOURCES, "no memory for an endpoint");
}

/* As thole_endpoint_open takes them. */
struct option_list {
	char texts[OPTIONS_MAX][OPTION_TEXT_MAX + MX_MAX_HOSTNAME_LEN];
	const char *strings[OPTIONS_MAX + 1]; /* the texts, ended by NULL */
	unsigned count;
};

__attribute__((format(printf, 2, 3))) static void mxi_open_option_add(struct option_list *list, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(list->texts[list->count], sizeof(list->texts[0]), format, arguments);
	va_end(arguments);
	list->strings[list->count] = list->texts[list->count];
	list->count++;
}

static int mxi_open_thole_open(struct mx_endpoint *endpoint, const struct mxi_board *board,
			       const struct parameters *parameters)
{
	struct option_list options = {.count = 0};
	struct thole_endpoint_attr attr = {
		.threads = THOLE_THREAD_SINGLE,
		.options = options.strings,
		.complete = mxi_ending_completed,
		.complete_arg = endpoint,
	};
	int error;

	mxi_open_option_add(&options, "interface=%s", board->interface);
	mxi_open_option_add(&options, "sends_max=16m"); /* MX has no bound */
	if (parameters->unexpected_max)
		mxi_open_option_add(&options, "unexpected_max=%u",
				    parameters->unexpected_max < UNEXPECTED_MIN ? UNEXPECTED_MIN
										: parameters->unexpected_max);
	if (endpoint->mxoe) {
		mxi_open_option_add(&options, "number=%u", endpoint->entry.endpoint_id);
		mxi_open_option_add(&options, "board_name=%s", board->name);
		mxi_open_option_add(&options, "job_key=%u", endpoint->entry.key);
	}
	error = thole_endpoint_open(&attr, &endpoint->thole);
	endpoint->peers.thole = endpoint->thole;
	return error;
}

/* Meet ourselves, be found. */
static mx_return_t mxi_open_publish(struct mx_endpoint *endpoint)
{
	struct mxi_entry *entry = &endpoint->entry;
	struct thole_peer_info info;
	uint32_t handle;

	thole_endpoint_address(endpoint->thole, &entry->address);
	if (thole_peer(endpoint->thole, &entry->address, &handle) != 0)
		return MX_NO_RESOURCES;
	if (endpoint->mxoe && thole_peer_info(endpoint->thole, handle, &info) == 0)
		entry->session = info.session;
	while (entry->session == 0)
		if (getrandom(&entry->session, sizeof(entry->session), 0) != sizeof(entry->session))
			return (mx_return_t)error_set(MX_NO_RESOURCES, "cannot draw a session's number: %m");
	endpoint->self = mxi_peer_add(&endpoint->peers, handle, entry->nic_id, entry->endpoint_id, entry->session);
	entry->counters = mxi_open_entry_counters;
	return endpoint->self ? mxi_directory_publish(entry) : mxi_open_refused();
}

static void mxi_open_poll(struct mx_endpoint *endpoint, void *arg)
{
	(void)arg;
	if (!lock_try(&endpoint->lock))
		return; /* somebody is looking */
	mxi_progress_beside(endpoint);
	lock_leave(&endpoint->lock);
}

/* What was sent has to arrive. Where it goes may be another endpoint of this process, or one that waits for such a one:
 * so these have their turns. */
static void mxi_open_drain(struct mx_endpoint *endpoint)
{
	while (endpoint->thole && !thole_drain(endpoint->thole))
		mxi_endpoint_each(mxi_open_poll, NULL);
}

static void mxi_open_tear_down(struct mx_endpoint *endpoint)
{
	struct list_node *node;

	while ((node = list_first(&endpoint->connecting))) {
		union mx_request *request = container_of(node, union mx_request, done);

		if (!mxi_connecting_cancel(request))
			mxi_connecting_answers(endpoint);
	}
	mxi_directory_retire(&endpoint->entry);
	if (endpoint->screened.message)
		thole_message_drop(endpoint->thole, endpoint->screened.message);
	mxi_open_drain(endpoint);
	/* before the place is free: who takes it wants MXoE's number of it, too */
	thole_endpoint_close(endpoint->thole);
	mxi_directory_withdraw(&endpoint->entry);
	wake_close(&endpoint->wake);
	mxi_peer_free_all(&endpoint->peers);
	pool_fini(&endpoint->requests);
	heap_fini(&endpoint->timed);
	free(endpoint->done_by_context);
	free(endpoint);
}

static mx_return_t mxi_open_build(struct mx_endpoint *endpoint, uint32_t board_number, uint32_t endpoint_id,
				  uint32_t key, const struct parameters *parameters)
{
	struct mxi_board board;
	mx_return_t code;

	if (!mxi_open_contexts_init(endpoint, parameters))
		return mxi_open_refused();
	code = mxi_open_place_find(endpoint, board_number, endpoint_id, &board);
	if (code)
		return code;
	errno = -wake_open(&endpoint->wake);
	if (errno != 0)
		return (mx_return_t)error_set(MX_NO_RESOURCES, "cannot make descriptors that wake threads: %m");
	endpoint->board = board.number;
	endpoint->entry.key = key;
	endpoint->entry.wake = &endpoint->wake;
	switch (mxi_open_thole_open(endpoint, &board, parameters)) {
	case THOLE_OK:
		return mxi_open_publish(endpoint);
	case THOLE_ERR_BUSY:
		return MX_BUSY;
	case THOLE_ERR_ACCESS:
		return MX_NO_PERM;
	default:
		return MX_NO_RESOURCES;
	}
}

static struct mx_endpoint *mxi_open_endpoint_new(const struct parameters *parameters)
{
	struct mx_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	struct mxi_settings settings;

	if (!endpoint)
		return NULL;
	(void)mxi_setting_load(&settings); /* what is wrong with them the claim says */
	endpoint->error_handler = parameters->error_handler;
	endpoint->owner = getpid();
	endpoint->wake = WAKE_NONE;
	endpoint->mxoe = settings.mxoe;
	pool_init(&endpoint->requests, sizeof(union mx_request), MXI_REQUESTS_CHUNK, MXI_REQUESTS_MAX);
	list_init(&endpoint->done);
	list_init(&endpoint->connecting);
	list_init(&endpoint->peers.all);
	endpoint->peers.entry = &endpoint->entry;
	return endpoint;
}

mx_return_t mx_open_endpoint(uint32_t board_number, uint32_t endpoint_id, uint32_t endpoint_key,
			     mx_param_t *params_array, uint32_t params_count, mx_endpoint_t *endpoint_p)
{
	struct parameters parameters = {0};
	struct mx_endpoint *endpoint;
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_open_endpoint before mx_init");
	code = mxi_open_parameters_take(params_array, params_count, &parameters);
	if (code)
		return code;
	endpoint = mxi_open_endpoint_new(&parameters);
	code = endpoint ? mxi_open_build(endpoint, board_number, endpoint_id, endpoint_key, &parameters)
			: mxi_open_refused();
	if (!code)
		code = mxi_tick_join();
	if (code) {
		if (endpoint)
			mxi_open_tear_down(endpoint);
		return mxi_error(NULL, code, "mx_open_endpoint of number %d on board %d: %s", (int)endpoint_id,
				 (int)board_number, thole_detail());
	}
	mxi_endpoint_enlist(endpoint);
	*endpoint_p = endpoint;
	return MX_SUCCESS;
}

mx_return_t mx_close_endpoint(mx_endpoint_t endpoint)
{
	bool inside;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_close_endpoint without an endpoint");
	if (endpoint->owner != getpid()) /* a forked child's copy, amid whatever another thread did */
		return MX_SUCCESS;
	lock_take(&endpoint->lock);
	inside = mxi_handler_inside(endpoint);
	lock_leave(&endpoint->lock);
	if (inside)
		return mxi_error(mxi_endpoint_handler(endpoint), MX_CLOSE_IN_HANDLER,
				 "mx_close_endpoint in the endpoint's own unexpected handler");
	mxi_endpoint_delist(endpoint);
	mxi_tick_leave();
	mxi_open_tear_down(endpoint);
	return MX_SUCCESS;
}

mx_return_t mx_get_endpoint_addr(mx_endpoint_t endpoint, mx_endpoint_addr_t *endpoint_addr)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_get_endpoint_addr without an endpoint");
	*endpoint_addr = mxi_peer_address(endpoint->self);
	return MX_SUCCESS;
}
