/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint: opening and closing, its options and counters. */
#include "endpoint/endpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "endpoint/host.h"
#include "message/message.h"

static int endpoint_identify(struct thole_endpoint *endpoint)
{
	if (getrandom(&endpoint->parts.endpoint, sizeof(endpoint->parts.endpoint), 0) !=
	    sizeof(endpoint->parts.endpoint))
		return error_set(THOLE_ERR_SYSTEM, "getrandom failed: %m");
	endpoint->parts.host = host_id();
	address_format(&endpoint->parts, &endpoint->address);
	return 0;
}

static void endpoint_free(struct thole_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->peer_count; i++)
		free(endpoint->peers[i]);
	free(endpoint->peers);
	for (int i = 0; i < REGION_BUCKETS; i++) {
		while (endpoint->region_buckets[i]) {
			struct thole_region *region = endpoint->region_buckets[i];

			endpoint->region_buckets[i] = region->hash_next;
			free(region);
		}
	}
	for (int queue = 0; queue < MATCH_QUEUES; queue++)
		match_fini(&endpoint->match[queue]);
	pool_fini(&endpoint->requests);
	pool_fini(&endpoint->unexpected);
	if (endpoint->wait_fd >= 0)
		close(endpoint->wait_fd);
	free(endpoint);
}

int thole_endpoint_open(const struct thole_endpoint_attr *attr, struct thole_endpoint **endpoint_p)
{
	static const struct thole_endpoint_attr defaults;
	struct thole_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	uint64_t salt = 0;
	int error;

	if (!endpoint)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint");
	if (!attr)
		attr = &defaults;
	endpoint->wait_fd = -1;
	endpoint->complete = attr->complete;
	endpoint->complete_arg = attr->complete_arg;
	list_init(&endpoint->backlogged);
	list_init(&endpoint->done);
	list_init(&endpoint->queue);
	for (int queue = 0; queue < MATCH_QUEUES; queue++)
		match_init(&endpoint->match[queue]);
	pool_init(&endpoint->requests, sizeof(struct request), 64, REQUESTS_MAX);
	pool_init(&endpoint->unexpected, sizeof(struct unexpected), 64, REQUESTS_MAX);
	error = options_load(&endpoint->options, attr->options);
	if (!error)
		error = endpoint_identify(endpoint);
	if (error)
		goto fail;
	if (getrandom(&salt, sizeof(salt), 0) == sizeof(salt))
		for (int queue = 0; queue < MATCH_QUEUES; queue++)
			match_salt(&endpoint->match[queue], salt);
	endpoint->crowded = endpoint->options.local_ranks > (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	endpoint->safe = attr->threads == THOLE_THREAD_SAFE || endpoint->options.progress_thread;
	endpoint->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (endpoint->wait_fd < 0) {
		error = error_set(THOLE_ERR_SYSTEM, "epoll_create1 failed: %m");
		goto fail;
	}
	error = shm_transport.open(endpoint);
	if (!error && endpoint->options.progress_thread)
		error = progress_thread_start(endpoint);
	if (error) {
		shm_transport.close(endpoint);
		goto fail;
	}
	*endpoint_p = endpoint;
	return 0;
fail:
	endpoint_free(endpoint);
	return error;
}

/* Peers must get what was reported complete; progress that long. */
static void endpoint_flush(struct thole_endpoint *endpoint)
{
	uint64_t start_ns = clock_now_ns();

	while (!list_empty(&endpoint->backlogged) &&
	       clock_now_ns() - start_ns < endpoint->options.close_timeout)
		endpoint_progress(endpoint);
}

/* In a match queue or out of it, what was held for them is ours. */
static void endpoint_drop_unexpected(struct thole_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->unexpected.capacity; i++) {
		struct unexpected *unexpected = pool_at(&endpoint->unexpected, i);

		if (pool_is_live(&endpoint->unexpected, unexpected))
			unexpected_free(endpoint, unexpected);
	}
}

/* Requests that are still live own memory of theirs. */
static void endpoint_drop_requests(struct thole_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->requests.capacity; i++) {
		struct request *request = pool_at(&endpoint->requests, i);

		if (pool_is_live(&endpoint->requests, request)) {
			free(request->owned_segments);
			free(request->owned_data);
		}
	}
}

void thole_endpoint_close(struct thole_endpoint *endpoint)
{
	if (!endpoint)
		return;
	progress_thread_stop(endpoint);
	endpoint_lock(endpoint);
	endpoint_flush(endpoint);
	endpoint->holding = false; /* nobody is left to be told */
	endpoint_drop_unexpected(endpoint);
	endpoint_drop_requests(endpoint);
	shm_transport.close(endpoint);
	endpoint_unlock(endpoint);
	endpoint_free(endpoint);
}

void thole_endpoint_address(const struct thole_endpoint *endpoint, struct thole_address *address_p)
{
	*address_p = endpoint->address;
}

int thole_option_get(struct thole_endpoint *endpoint, const char *name, char *value, size_t size)
{
	int error;

	endpoint_lock(endpoint);
	error = options_get_text(&endpoint->options, name, value, size);
	endpoint_unlock(endpoint);
	return error;
}

int thole_option_set(struct thole_endpoint *endpoint, const char *name, const char *value)
{
	int error;

	endpoint_lock(endpoint);
	error = options_set(&endpoint->options, name, value, true);
	endpoint_unlock(endpoint);
	return error;
}

int thole_counters(struct thole_endpoint *endpoint, uint64_t *values, size_t count)
{
	endpoint_lock(endpoint);
	memcpy(values, endpoint->counters, (count < COUNTER_COUNT ? count : COUNTER_COUNT) * sizeof(*values));
	endpoint_unlock(endpoint);
	return COUNTER_COUNT;
}
