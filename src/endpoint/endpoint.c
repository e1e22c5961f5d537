/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint: opening and closing, its options and counters. */
#include "endpoint/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/limits.h"
#include "endpoint/report.h"
#include "message/message.h"

/* thole_endpoints_used. The dynamic linker makes one of all symbols of this kind that a process has, even between
 * libraries that do not see each other; C has no word for it. */
__asm__(".pushsection .bss.thole_endpoints_used, \"aw\", %nobits\n"
	".balign 4\n"
	".type thole_endpoints_used, %gnu_unique_object\n"
	".size thole_endpoints_used, 4\n"
	"thole_endpoints_used:\n"
	".zero 4\n"
	".popsection\n");

static uint32_t generation; /* of this process: its ancestors' forks */

/* A child uses none of its parent's. */
static void endpoints_fork_child(void)
{
	store_relaxed(&thole_endpoints_used, 0);
	generation++;
}

__attribute__((constructor)) static void endpoints_begin(void)
{
	pthread_atfork(NULL, NULL, endpoints_fork_child);
}

bool endpoint_is_parents(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->generation != generation;
}

/* Without shared memory an endpoint is as good as alone on its host, and no peer will try. */
static void endpoint_identify(const struct options *options, struct address_parts *parts_p)
{
	parts_p->host = *options->host ? host_named(options->host) : host_id();
	if (!options->shm)
		parts_p->host ^= parts_p->endpoint;
}

static void endpoint_free(struct thole_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->peer_count; i++)
		free(endpoint->peers[i]);
	free(endpoint->peers);
	hash_table_fini(&endpoint->peers_by_id);
	attach_fini(endpoint);
	memory_fini(endpoint);
	for (uint32_t i = 0; i < endpoint->regions.chain_count; i++)
		for (struct hash_node *node = endpoint->regions.chains[i], *next; node; node = next) {
			next = node->next;
			free(container_of(node, struct thole_region, by_key));
		}
	hash_table_fini(&endpoint->regions);
	for (int queue = 0; queue < MATCH_QUEUES; queue++)
		match_fini(&endpoint->match[queue]);
	pool_fini(&endpoint->requests);
	pool_fini(&endpoint->unexpected);
	spare_fini(&endpoint->spares);
	if (endpoint_of(endpoint)->timer_fd >= 0)
		close(endpoint_of(endpoint)->timer_fd);
	if (endpoint->base.wait_fd >= 0)
		close(endpoint->base.wait_fd);
	if (endpoint->base.driver)
		driver_close(endpoint->base.driver);
	report_leave(endpoint_of(endpoint)->report);
	free(endpoint_of(endpoint));
}

int endpoint_create(const struct thole_endpoint_attr *attr, const struct options *options,
		    const struct address_parts *parts, uint64_t salt, struct thole_endpoint **endpoint_p)
{
	struct endpoint *whole = calloc(1, sizeof(*whole));
	struct thole_endpoint *endpoint = whole ? &whole->core : NULL;

	if (!endpoint)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint");
	whole->generation = generation;
	endpoint->base.up = &message_upcalls;
	endpoint->base.options = *options;
	endpoint->base.counters = endpoint_of(endpoint)->own_counters;
	endpoint->base.parts = *parts;
	address_format(&endpoint->base.parts, &endpoint->base.address);
	endpoint->base.wait_fd = endpoint_of(endpoint)->timer_fd = -1;
	endpoint->complete = attr->complete;
	endpoint->complete_arg = attr->complete_arg;
	list_init(&endpoint->backlogged);
	list_init(&endpoint->stalled);
	list_init(&endpoint->done);
	list_init(&endpoint->queue);
	list_init(&endpoint->asking);
	list_init(&endpoint->screen);
	list_init(&endpoint->memories);
	list_init(&endpoint->attached);
	pool_init(&endpoint->requests, sizeof(struct thole_request), 64, REQUESTS_MAX);
	pool_init(&endpoint->unexpected, sizeof(struct thole_message), 64, REQUESTS_MAX);
	for (int queue = 0; queue < MATCH_QUEUES; queue++) {
		match_init(&endpoint->match[queue]);
		match_salt(&endpoint->match[queue], salt);
	}
	endpoint->base.simulated = true;
	*endpoint_p = endpoint;
	return 0;
}

static int endpoint_all_off(void)
{
	char names[64] = "";
	int count = 0;

	for (int i = 0; i < TRANSPORTS; i++) {
		size_t length = strlen(names);

		if (!transports[i]->beside_last)
			snprintf(names + length, sizeof(names) - length, "%s%s", count++ ? " and " : "",
				 transports[i]->option);
	}
	return error_set(THOLE_ERR_ARGUMENT, "the options %s are %s off: no peer could be reached", names,
			 count == 2 ? "both" : "all");
}

/* Whether one that could not be opened is no reason to go without an endpoint. */
static bool transport_is_spared(enum transport_need need, int error)
{
	return need == TRANSPORT_WELCOME || (need == TRANSPORT_PERMITTED && error == THOLE_ERR_UNSUPPORTED);
}

/* Those that options want. Each may have a share in the address, which is whole for those that are opened after it.
 * What cannot be opened is done without, unless it has to be, or would be the only one. */
static int endpoint_open_transports(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;
	enum transport_need connects[TRANSPORTS];
	int error = 0, left = 0;

	for (int i = 0; i < TRANSPORTS && !error; i++) {
		error = transports[i]->wanted(&owner->options, &connects[i]);
		left += !error && connects[i] != TRANSPORT_UNWANTED && !transports[i]->beside_last;
	}
	if (!error && left == 0)
		error = endpoint_all_off();
	for (int i = TRANSPORTS; i-- > 0 && !error;) {
		char *absent = endpoint->absent[i];

		if (connects[i] == TRANSPORT_UNWANTED) {
			snprintf(absent, ENDPOINT_REASON_MAX, "the option %s is off", transports[i]->option);
			continue;
		}
		if (!transports[i]->beside_last || owner->state[TRANSPORTS - 1])
			error = transports[i]->open(owner);
		else /* for the reason of that one */
			error = error_set(THOLE_ERR_NOT_FOUND, "there is no network: %s",
					  endpoint->absent[TRANSPORTS - 1]);
		address_format(&owner->parts, &owner->address);
		if (error && transport_is_spared(connects[i], error) &&
		    (transports[i]->beside_last || --left > 0)) {
			snprintf(absent, ENDPOINT_REASON_MAX, "%s", thole_detail());
			error = 0;
		}
	}
	return error;
}

/* The kernel driver, as options say; transports find it when they open. */
static int endpoint_open_driver(struct endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->core.base;
	int error;

	if (owner->options.driver == OPTION_DRIVER_OFF)
		return 0;
	error = driver_open(&endpoint->driver);
	if (!error)
		owner->driver = &endpoint->driver;
	else if (owner->options.driver == OPTION_DRIVER_REQUIRED)
		return error_prefix(error, "option driver=required: ");
	return 0;
}

/* In this order: after the last one its name may be another's (mxoe). */
static void endpoint_close_transports(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		transports[i]->close(owner);
}

static void endpoint_trouble(const struct transport_owner *owner)
{
	report_trouble(endpoint_of(container_of(owner, struct thole_endpoint, base))->report, thole_detail());
}

/* A launcher that sees a process die ends the job, and says which one it was and how it died. Who hears of it sooner
 * has nothing to say but that a peer is gone, and ends the job by that. Once: a job that goes on is no launcher's to
 * end. Meanwhile nothing gets on here, whatever signals the program handles. */
static void endpoint_leave_to_launcher(struct transport_owner *owner)
{
	if (owner->options.launcher_grace == 0)
		return;
	owner->died = NULL;
	clock_sleep_through(owner->options.launcher_grace);
}

static int endpoint_open(const struct thole_endpoint_attr *attr, const struct options *options,
			 struct thole_endpoint **endpoint_p)
{
	struct address_parts parts = {0};
	struct thole_endpoint *endpoint;
	char remedy[LIMITS_REMEDY_MAX];
	uint64_t salt = 0;
	int error;

	if (getrandom(&parts.endpoint, sizeof(parts.endpoint), 0) != sizeof(parts.endpoint) ||
	    getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return error_set(THOLE_ERR_SYSTEM, "getrandom failed: %m");
	endpoint_identify(options, &parts);
	error = endpoint_create(attr, options, &parts, salt, &endpoint);
	if (error)
		return error;
	endpoint->base.simulated = false;
	endpoint_of(endpoint)->cadence.polls = CADENCE_POLLS_MIN;
	endpoint_of(endpoint)->patience.clock_ns = clock_cost_ns();
	endpoint->base.counters =
		report_join(options->report, endpoint_of(endpoint)->own_counters, &endpoint_of(endpoint)->report);
	endpoint->base.trouble = endpoint_of(endpoint)->report ? endpoint_trouble : NULL;
	if (options->local_ranks)
		endpoint->base.died = endpoint_leave_to_launcher;
	endpoint->base.oversubscribed = host_oversubscribed(options->local_ranks);
	endpoint->safe = attr->threads == THOLE_THREAD_SAFE || options->progress_thread;
	endpoint->base.wait_fd = limits_own(epoll_create1(EPOLL_CLOEXEC));
	if (endpoint->base.wait_fd < 0)
		error = error_set(THOLE_ERR_SYSTEM, "epoll_create1 failed: %m%s", limits_remedy(errno, remedy));
	else
		error = endpoint_open_driver(endpoint_of(endpoint));
	if (!error)
		error = endpoint_open_transports(endpoint);
	if (!error && options->progress_thread)
		error = progress_thread_start(endpoint);
	if (error) {
		endpoint_close_transports(endpoint);
		endpoint_free(endpoint);
		return error;
	}
	report_opened(endpoint_of(endpoint)->report);
	*endpoint_p = endpoint;
	return 0;
}

int thole_endpoint_open(const struct thole_endpoint_attr *attr, struct thole_endpoint **endpoint_p)
{
	static const struct thole_endpoint_attr defaults;
	char kept[ERROR_DETAIL_MAX];
	struct options options;
	int error;

	if (!attr)
		attr = &defaults;
	error_save(kept);
	bytes_learn();
	error = options_load(&options, attr->options);
	if (!error && attr->threads != THOLE_THREAD_SINGLE && attr->threads != THOLE_THREAD_SAFE)
		error = error_set(THOLE_ERR_ARGUMENT, "the attribute threads is %d, neither THOLE_THREAD_SINGLE nor "
				  "THOLE_THREAD_SAFE", (int)attr->threads);
	if (!error)
		error = endpoint_open(attr, &options, endpoint_p);
	if (error)
		report_failure(options.report, thole_detail());
	else
		error_restore(kept); /* what is done without */
	return error;
}

bool endpoint_drained(const struct thole_endpoint *endpoint)
{
	const struct transport_owner *owner = &endpoint->base;
	bool drained = list_empty(&endpoint->backlogged) && list_empty(&endpoint->stalled);

	for (int i = transport_next(owner, -1); i < TRANSPORTS && drained; i = transport_next(owner, i))
		drained = !transports[i]->drained || transports[i]->drained(owner);
	return drained;
}

bool endpoint_delivers(const struct thole_endpoint *endpoint)
{
	const struct transport_owner *owner = &endpoint->base;
	bool delivers = list_empty(&endpoint->backlogged) && list_empty(&endpoint->stalled);

	for (int i = transport_next(owner, -1); i < TRANSPORTS && delivers; i = transport_next(owner, i))
		delivers = !transports[i]->drained || transports[i]->drained(owner) ||
			   (transports[i]->delivers && transports[i]->delivers(owner));
	return delivers;
}

bool endpoint_moves_alone(const struct thole_endpoint *endpoint)
{
	const struct transport_owner *owner = &endpoint->base;
	bool alone = false;

	if (endpoint->requests.live <= endpoint->multi_posted) /* those are for what is not large */
		return false;
	for (int i = transport_next(owner, -1); i < TRANSPORTS && !alone; i = transport_next(owner, i))
		alone = transports[i]->moves_alone && transports[i]->moves_alone(owner);
	return alone;
}

void endpoint_hasten(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->hasten)
			transports[i]->hasten(owner);
}

bool endpoint_drain(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	uint64_t most_ns = endpoint->base.options.close_timeout, pause_ns = most_ns / DRAIN_PAUSES + 1;
	uint64_t now_ns = clock_now_ns(), since_ns = whole->drain_ns ? now_ns - whole->drain_ns : 0;

	whole->drained_ns += since_ns < pause_ns ? since_ns : pause_ns;
	whole->drain_ns = now_ns;
	if (endpoint_drained(endpoint) || whole->drained_ns >= most_ns)
		return true;
	endpoint_hasten(endpoint);
	endpoint_progress(endpoint);
	return false;
}

/* In a match queue or out of it, what was held for them is ours. */
static void endpoint_drop_unexpected(struct thole_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->unexpected.capacity; i++) {
		struct thole_message *unexpected = pool_at(&endpoint->unexpected, i);

		if (pool_is_live(&endpoint->unexpected, unexpected))
			unexpected_free(endpoint, unexpected);
	}
}

/* Requests that are still live own memory of theirs. */
static void endpoint_drop_requests(struct thole_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->requests.capacity; i++) {
		struct thole_request *request = pool_at(&endpoint->requests, i);

		if (pool_is_live(&endpoint->requests, request)) {
			free(request->owned_segments);
			spare_put(&endpoint->spares, request->owned_data);
		}
	}
}

static void endpoint_end(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;

	owner->backpressure = false; /* nobody is left to be told */
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->withdraw)
			transports[i]->withdraw(owner);
	endpoint_drop_unexpected(endpoint);
	endpoint_drop_requests(endpoint);
	endpoint_close_transports(endpoint);
	endpoint_unlock(endpoint);
	endpoint_free(endpoint);
}

static void endpoint_notify_close(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->notify_close)
			transports[i]->notify_close(owner);
}

void thole_endpoint_close(struct thole_endpoint *endpoint)
{
	if (!endpoint || endpoint_is_parents(endpoint))
		return;
	progress_thread_stop(endpoint);
	endpoint_lock(endpoint);
	endpoint->base.died = NULL; /* nobody is told any more */
	if (!endpoint->base.simulated) {
		while (!endpoint_drain(endpoint))
			;
		add_relaxed(&thole_endpoints_used, -(uint32_t)endpoint_of(endpoint)->used);
	}
	endpoint_notify_close(endpoint);
	endpoint_end(endpoint);
}

void endpoint_vanish(struct thole_endpoint *endpoint)
{
	endpoint_lock(endpoint);
	endpoint_end(endpoint);
}

void thole_endpoint_address(const struct thole_endpoint *endpoint, struct thole_address *address_p)
{
	*address_p = endpoint->base.address;
}

/* As an endpoint has them, or one that is opened now: of bad values somewhere the last good ones. */
static void options_copy(struct thole_endpoint *endpoint, struct options *options)
{
	if (!endpoint) {
		(void)options_load(options, NULL);
		return;
	}
	endpoint_lock(endpoint);
	*options = endpoint->base.options;
	endpoint_unlock(endpoint);
}

int thole_option_get(struct thole_endpoint *endpoint, const char *name, char *value, size_t size)
{
	struct options options;

	options_copy(endpoint, &options);
	return options_get_text(&options, name, value, size);
}

int thole_option_number(struct thole_endpoint *endpoint, const char *name, uint64_t *value_p)
{
	struct options options;

	options_copy(endpoint, &options);
	return options_get_number(&options, name, value_p);
}

int thole_option_set(struct thole_endpoint *endpoint, const char *name, const char *value)
{
	int error;

	endpoint_lock(endpoint);
	error = options_set(&endpoint->base.options, name, value, true);
	endpoint_unlock(endpoint);
	return error;
}

int thole_counters(struct thole_endpoint *endpoint, uint64_t *values, size_t count)
{
	endpoint_lock(endpoint);
	memcpy(values, endpoint->base.counters, (count < COUNTER_COUNT ? count : COUNTER_COUNT) * sizeof(*values));
	endpoint_unlock(endpoint);
	return COUNTER_COUNT;
}
