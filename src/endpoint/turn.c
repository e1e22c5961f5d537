/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/turn.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "endpoint/timer.h"

enum {
	MAINTAIN_CALLS = 1024,  /* busy calls between two maintenances */
	ANSWER_NS = 1000000,    /* between two tries to connect to those that are to be answered */
	QUIET_NS = 50000,       /* polls find nothing for so long, and unexpected messages are fetched */
	AWAIT_TURNS = 4,        /* looks for awaited peers in one peer_timeout */
	EVENTS = 32,            /* of one epoll_wait, */
	EVENT_TURNS = 16,       /* of which there are so many at most: who always has something to say cannot hold us */
};

static void endpoint_events(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct epoll_event events[EVENTS];
	int count = EVENTS;

	for (int turn = 0; turn < EVENT_TURNS && count == EVENTS; turn++) {
		count = epoll_wait(endpoint->base.wait_fd, events, EVENTS, 0);
		for (int i = 0; i < count; i++) {
			struct watcher *watcher = events[i].data.ptr;

			watcher->ready(&endpoint->base, watcher, now_ns);
		}
	}
}

/* Whether unexpected messages are to be fetched before they have a receive, if nothing comes for QUIET_NS. */
static bool endpoint_is_asked(const struct thole_endpoint *endpoint)
{
	return !list_empty(&endpoint->asking) && !endpoint->base.backpressure && !endpoint->fetching;
}

/* A program that sends before it receives, on both sides, goes on only where messages are taken without a receive, and
 * may rely on that up to some length, as its MPI has it. Whoever polls, waits for nothing that is under way and finds
 * nothing has time for it. */
static void endpoint_quiet(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct endpoint *whole = endpoint_of(endpoint);
	uint64_t seen = endpoint->base.counters[COUNTER_RECEIVED] + endpoint->base.counters[COUNTER_UNEXPECTED];

	if (whole->idle == 0 || whole->idle < whole->quiet_idle || seen != whole->quiet_seen ||
	    !endpoint_is_asked(endpoint)) {
		whole->quiet_ns = now_ns;
		whole->quiet_seen = seen;
	} else if (now_ns - whole->quiet_ns >= QUIET_NS) {
		unexpected_fetch_asking(endpoint);
	}
	whole->quiet_idle = whole->idle;
}

/* When to connect to those that only receives wait for: nobody hears of it if they have ended before. Not at once: most
 * will have sent by then. UINT64_MAX: there are none. */
static uint64_t endpoint_await_ns(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct endpoint *whole = endpoint_of(endpoint);

	if (!endpoint->awaits)
		return UINT64_MAX;
	if (whole->await_ns == 0)
		whole->await_ns = now_ns + endpoint->base.options.peer_timeout / AWAIT_TURNS + 1;
	return whole->await_ns;
}

/* How long until then. */
static uint64_t endpoint_await_left(struct thole_endpoint *endpoint)
{
	uint64_t now_ns, await_ns;

	if (!endpoint->awaits)
		return UINT64_MAX;
	now_ns = clock_now_ns();
	await_ns = endpoint_await_ns(endpoint, now_ns);
	return await_ns > now_ns ? await_ns - now_ns : 0;
}

static void endpoint_await(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	if (endpoint_await_ns(endpoint, now_ns) > now_ns)
		return;
	endpoint_of(endpoint)->await_ns = 0;
	endpoint->awaits = false; /* who is lost may have a receive posted */
	endpoint->awaits |= peer_reach_awaited(endpoint);
}

/* Connect to those again that are to be answered. */
static void endpoint_answer(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct endpoint *whole = endpoint_of(endpoint);

	if (!endpoint->unanswered || now_ns < whole->answer_ns)
		return;
	whole->answer_ns = now_ns + ANSWER_NS;
	message_reach_unanswered(endpoint, now_ns);
}

__thread bool turn_stands_in;

void endpoint_maintain(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct transport_owner *owner = &endpoint->base;

	endpoint_of(endpoint)->cadence.maintained_ns = now_ns;
	endpoint_of(endpoint)->cadence.looked_ns = now_ns;
	if (!list_empty(&endpoint->asking))
		endpoint_quiet(endpoint, now_ns);
	owner->polled |= owner->resting;
	owner->stood_in = turn_stands_in;
	endpoint_events(endpoint, now_ns);
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->maintain)
			transports[i]->maintain(owner, now_ns);
	endpoint_answer(endpoint, now_ns);
	endpoint_await(endpoint, now_ns);
}

uint64_t endpoint_arm(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;
	uint64_t longest = endpoint_await_left(endpoint);

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i)) {
		uint64_t most = transports[i]->arm(owner);

		longest = most < longest ? most : longest;
	}
	if (endpoint_is_asked(endpoint) && longest > QUIET_NS)
		longest = QUIET_NS;
	if (endpoint->unanswered && longest > ANSWER_NS)
		longest = ANSWER_NS;
	owner->rouse = endpoint_rouse;
	owner->asleep_until_ns = longest == 0 || longest == UINT64_MAX ? longest : clock_now_ns() + longest;
	return longest;
}

void endpoint_disarm(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;

	owner->asleep_until_ns = 0;
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->disarm)
			transports[i]->disarm(owner);
}

__attribute__((noinline)) void endpoint_now_and_then(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);

	if (whole->calls % MAINTAIN_CALLS == 0)
		endpoint_maintain(endpoint, clock_now_ns());
	else if (endpoint->base.resting && cadence_looks(&whole->cadence, clock_now_ns()))
		endpoint->base.polled |= endpoint->base.resting;
}

/* ---- The same in simulated time -------------------------------------------------------------------- */

int endpoint_advance(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	int n;

	endpoint_lock(endpoint);
	endpoint->base.now_ns = now_ns;
	endpoint_answer(endpoint, now_ns);
	endpoint_await(endpoint, now_ns);
	n = endpoint_poll(endpoint);
	endpoint_unlock(endpoint);
	return n;
}

uint64_t endpoint_deadline(const struct thole_endpoint *endpoint)
{
	const struct transport_owner *owner = &endpoint->base;
	uint64_t first_ns = endpoint->awaits ? endpoint_of(endpoint)->await_ns : UINT64_MAX;

	if (endpoint->unanswered && endpoint_of(endpoint)->answer_ns < first_ns)
		first_ns = endpoint_of(endpoint)->answer_ns;
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i)) {
		uint64_t deadline_ns = transports[i]->deadline ? transports[i]->deadline(owner) : UINT64_MAX;

		first_ns = deadline_ns < first_ns ? deadline_ns : first_ns;
	}
	return first_ns;
}
