/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api_mx.c - messages through MX, as programs written for it send and receive them: mx_isend and mx_irecv, and mx_test
 * until it is done.
 *
 * The library is loaded when it is wanted, by its path, and reached through a table of pointers, as a program that is
 * linked with it reaches it. So thole-perf needs no search path, and any library with this interface can be measured.
 * One rank a process: what belongs to it stands here.
 */
#include "perf.h"

#include <ctype.h>
#include <dlfcn.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_extensions.h"
#include "myriexpress.h"

enum {
	KEY = 0x74706572,      /* of both endpoints: nobody else's are to be connected to by accident */
	SPINS_PER_LOOK = 4096, /* tests between two looks at the clock, and at whether the other rank has given up */
	VARIABLE_MAX = 64,     /* bytes of an option's environment variable */
};

static struct {
	__typeof__(mx__init_api) *init_api;
	__typeof__(mx_finalize) *finalize;
	__typeof__(mx_set_error_handler) *set_error_handler;
	__typeof__(mx_strerror) *strerror;
	__typeof__(mx_strstatus) *strstatus;
	__typeof__(mx_open_endpoint) *open_endpoint;
	__typeof__(mx_close_endpoint) *close_endpoint;
	__typeof__(mx_get_endpoint_addr) *get_endpoint_addr;
	__typeof__(mx_decompose_endpoint_addr) *decompose_endpoint_addr;
	__typeof__(mx_connect) *connect;
	__typeof__(mx_isend) *isend;
	__typeof__(mx_irecv) *irecv;
	__typeof__(mx_test) *test;
	__typeof__(mx_progress) *progress;
} mx;

static const struct symbol {
	const char *name;
	void **place;
} symbols[] = {
	{ "mx__init_api", (void **)&mx.init_api },
	{ "mx_finalize", (void **)&mx.finalize },
	{ "mx_set_error_handler", (void **)&mx.set_error_handler },
	{ "mx_strerror", (void **)&mx.strerror },
	{ "mx_strstatus", (void **)&mx.strstatus },
	{ "mx_open_endpoint", (void **)&mx.open_endpoint },
	{ "mx_close_endpoint", (void **)&mx.close_endpoint },
	{ "mx_get_endpoint_addr", (void **)&mx.get_endpoint_addr },
	{ "mx_decompose_endpoint_addr", (void **)&mx.decompose_endpoint_addr },
	{ "mx_connect", (void **)&mx.connect },
	{ "mx_isend", (void **)&mx.isend },
	{ "mx_irecv", (void **)&mx.irecv },
	{ "mx_test", (void **)&mx.test },
	{ "mx_progress", (void **)&mx.progress },
};

struct ticket {
	mx_request_t request;
};

static bool initialized;
static mx_endpoint_t endpoint;
static mx_endpoint_addr_t other;
static char sentence[640]; /* of the last error */

/* ---- Errors ---------------------------------------------------------------------------------- */

static mx_return_t error_keep(char *text, mx_return_t code)
{
	snprintf(sentence, sizeof sentence, "%s", text);
	return code;
}

static int complain(const struct perf_rank *rank, const char *what, uint64_t size, mx_return_t code)
{
	char why[896];

	snprintf(why, sizeof why, "%s%s%s", mx.strerror(code), *sentence ? ": " : "", sentence);
	return perf_complain_text(rank, what, size, why);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static int loop_send_start(struct perf_rank *rank, uint64_t size, uint64_t tag, struct ticket *ticket)
{
	mx_segment_t segment = { rank->out_buffer, (uint32_t)size };
	mx_return_t code = mx.isend(endpoint, &segment, 1, other, tag, NULL, &ticket->request);

	return code ? complain(rank, "mx_isend", size, code) : 0;
}

static int loop_recv_start(struct perf_rank *rank, uint64_t size, uint64_t tag, struct ticket *ticket)
{
	mx_segment_t segment = { rank->in_buffer, (uint32_t)size };
	mx_return_t code = mx.irecv(endpoint, &segment, 1, tag, MX_MATCH_MASK_NONE, NULL, &ticket->request);

	return code ? complain(rank, "mx_irecv", size, code) : 0;
}

/* One step of waiting for a message. Returns -1 where it is in vain. */
static int wait_step(struct perf_rank *rank, const char *what, uint64_t size, uint64_t *spins, uint64_t *begin)
{
	if (perf_relax(rank, spins) < 0)
		return -1;
	if (*spins % SPINS_PER_LOOK)
		return 0;
	if (rank->other && perf_left(rank))
		return -1;
	if (*begin == 0)
		*begin = perf_now_ns();
	else if (perf_now_ns() - *begin > perf_patience(rank))
		return perf_complain_text(rank, what, size, thole_strerror(THOLE_ERR_TIMEOUT));
	return 0;
}

static int loop_finish(struct perf_rank *rank, struct ticket *ticket, const char *what, uint64_t size)
{
	uint64_t spins = 0, begin = 0;
	mx_status_t status;

	for (;;) {
		uint32_t done = 0;
		mx_return_t code = mx.test(endpoint, &ticket->request, &status, &done);

		if (code)
			return complain(rank, what, size, code);
		if (done)
			break;
		if (wait_step(rank, what, size, &spins, &begin) < 0)
			return -1;
	}
	if (status.code != MX_STATUS_SUCCESS)
		return perf_complain_text(rank, what, size, mx.strstatus(status.code));
	if (status.xfer_length != size)
		return perf_complain_text(rank, what, size, thole_strerror(THOLE_ERR_TRUNCATED));
	return 0;
}

static int loop_send_whole(struct perf_rank *rank, uint64_t size, uint64_t tag)
{
	struct ticket ticket;

	return loop_send_start(rank, size, tag, &ticket) < 0 ? -1 : loop_finish(rank, &ticket, "a send", size);
}

#include "loops.h"

/* ---- Opening --------------------------------------------------------------------------------- */

static int api_mx_load(const struct perf_rank *rank)
{
	const char *path = rank->plan->mx_library;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	char why[512];

	if (!library)
		return perf_complain_text(rank, "loading libmyriexpress, for messages", rank->plan->size_max,
					  dlerror());
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		*symbols[i].place = dlsym(library, symbols[i].name);
		if (*symbols[i].place)
			continue;
		snprintf(why, sizeof why, "%s has no %s", path, symbols[i].name);
		return perf_complain_text(rank, "loading libmyriexpress, for messages", rank->plan->size_max, why);
	}
	return 0;
}

/* MX has no way to be given Thole's options but the environment. */
static void options_hand_on(const struct perf_plan *plan)
{
	for (size_t i = 0; plan->options[i]; i++) {
		const char *sign = strchr(plan->options[i], '=');
		char variable[VARIABLE_MAX];
		int length;

		if (!sign)
			continue;
		length = snprintf(variable, sizeof variable, "THOLE_%.*s", (int)(sign - plan->options[i]),
				  plan->options[i]);
		if (length >= (int)sizeof variable)
			continue;
		for (char *c = variable; *c; c++)
			*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
		setenv(variable, sign + 1, 1);
	}
}

/* Where an endpoint of MX is, as it crosses to the other rank: big-endian. */
struct place {
	uint64_t nic_id, endpoint_id;
};

static mx_return_t place_own(struct place *place)
{
	uint32_t endpoint_id;
	mx_endpoint_addr_t own;
	uint64_t nic_id;
	mx_return_t code = mx.get_endpoint_addr(endpoint, &own);

	if (!code)
		code = mx.decompose_endpoint_addr(own, &nic_id, &endpoint_id);
	if (!code)
		*place = (struct place){ htobe64(nic_id), htobe64(endpoint_id) };
	return code;
}

static int find_other(struct perf_rank *rank)
{
	uint64_t patience_ms = (rank->other ? rank->plan->connect_ns : rank->plan->patience_ns) / 1000000;
	struct place mine, theirs;
	mx_return_t code = place_own(&mine);

	if (code)
		return complain(rank, "mx_decompose_endpoint_addr, for messages", rank->plan->size_max, code);
	if (perf_swap(rank, &mine, &theirs, sizeof mine) < 0)
		return -1;
	code = mx.connect(endpoint, be64toh(theirs.nic_id), (uint32_t)be64toh(theirs.endpoint_id), KEY,
			  patience_ms ? (uint32_t)patience_ms : 1, &other);
	return code ? complain(rank, "mx_connect, for messages", rank->plan->size_max, code) : 0;
}

static int api_mx_open(struct perf_rank *rank)
{
	uint64_t size_max = rank->plan->size_max;
	mx_return_t code;

	if (size_max > UINT32_MAX)
		return perf_complain_text(rank, "a message", size_max, "MX's have less than 4 GiB");
	options_hand_on(rank->plan);
	if (api_mx_load(rank) < 0)
		return -1;
	mx.set_error_handler(error_keep);
	code = mx.init_api(MX_API);
	if (code)
		return complain(rank, "mx_init, for messages", size_max, code);
	initialized = true;
	code = mx.open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint);
	if (code)
		return complain(rank, "mx_open_endpoint, for messages", size_max, code);
	return find_other(rank);
}

static void api_mx_close(struct perf_rank *rank)
{
	(void)rank;
	if (endpoint)
		mx.close_endpoint(endpoint);
	if (initialized)
		mx.finalize();
	endpoint = NULL;
	initialized = false;
}

static void api_mx_progress(const struct perf_rank *rank)
{
	(void)rank;
	if (endpoint)
		mx.progress(endpoint);
}

const struct perf_api perf_api_mx = {
	.name = "mx",
	.open = api_mx_open,
	.close = api_mx_close,
	.progress = api_mx_progress,
	.verify = loop_verify,
	.latency = loop_latency,
	.bandwidth = loop_bandwidth,
};
