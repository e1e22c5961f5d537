/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait: what a process does with its core while it waits: spin, yield, sleep.
 *
 * With a core for each process, spinning is best, and yielding gives the core to strangers, if to anybody. With fewer,
 * whoever spins keeps the awaited process from running. It is so where the launcher says that there are more ranks
 * than cores, and where a peer was last seen on this very core. Then a waiting process yields often, but not at once:
 * where the awaited process does run, its answer comes within some hundred polls. If the caller yields by itself, as
 * MPIs do, nothing is yielded here.
 *
 * Callers that wait by calling progress in a loop may do costly things between two calls (MPICH yields). So one that
 * was seen to gain by it is answered "nothing" only after some more polls (patience.h); and one whose core others took
 * sleeps in the call (contention.h). All others are answered at once.
 */
#include <sched.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/thread.h"
#include "endpoint/sleep.h"
#include "endpoint/turn.h"

enum {
	YIELD_POLLS = 100,      /* polls of rings between two yields where the core is shared */
	WAIT_OTHERS = 16,       /* polls of a call that waits, between which other threads have their turn */
};

/* Whether others have had this thread's core since it was asked last, and since the yield after that. Where another
 * thread was asked last, that is not known. */
static bool endpoint_was_away(struct endpoint *whole)
{
	bool known = whole->switches == 0 || pthread_equal(whole->switches_of, pthread_self());
	uint64_t before = whole->switches;
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) != 0)
		return false;
	whole->switches_of = pthread_self();
	whole->switches = (uint64_t)usage.ru_nivcsw; /* sched_yield counts as one, if others run then */
	return known && whole->switches > before;
}

/* Give the core away, unless the caller has done so: it would be back from each of two yields after everybody else's
 * turn. The time afterwards. */
static uint64_t endpoint_yield(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);

	if (endpoint->base.options.yield == OPTION_YIELD_AUTO && endpoint_was_away(whole))
		return clock_now_ns();
	endpoint_unlock(endpoint);
	sched_yield();
	endpoint_lock(endpoint);
	whole->switches++;
	endpoint_count(endpoint, COUNTER_YIELDS);
	return clock_now_ns();
}

/* Whether others of this job wait for this core. */
static bool endpoint_shares(const struct thole_endpoint *endpoint)
{
	return endpoint->base.oversubscribed || endpoint->base.core_shared;
}

/* How long a poll takes now, in polls of rings. */
static uint32_t endpoint_poll_weight(const struct thole_endpoint *endpoint)
{
	uint32_t weight = 1;

	for (int i = 0; i < TRANSPORTS; i++)
		if (transport_is_polled(&endpoint->base, i) && transports[i]->weight > weight)
			weight = transports[i]->weight;
	return weight;
}

static bool endpoint_should_yield(const struct thole_endpoint *endpoint)
{
	if (endpoint->base.options.yield != OPTION_YIELD_AUTO)
		return endpoint->base.options.yield == OPTION_YIELD_ALWAYS;
	return endpoint_shares(endpoint) &&
	       endpoint_of(endpoint)->idle % (YIELD_POLLS / endpoint_poll_weight(endpoint)) == 0;
}

/* What the kernel says of this thread. A switch away from a thread that could have gone on counts as involuntary for
 * it, also one that sched_yield caused. */
static bool thread_usage(struct contention_usage *usage)
{
	struct rusage rusage;

	if (getrusage(RUSAGE_THREAD, &rusage) != 0)
		return false;
	*usage = (struct contention_usage){.run_ns = clock_thread_ns(),
					   .taken = (uint64_t)rusage.ru_nivcsw,
					   .left = (uint64_t)rusage.ru_nvcsw,
					   .thread = pthread_self()};
	return true;
}

/* How often the other threads of the process have lost or left their cores. A switch of this one between the two looks
 * counts as theirs: too rare to come CONTENTION_OTHERS times in a row. */
static uint64_t others_switches(void)
{
	struct rusage all, own;

	if (getrusage(RUSAGE_SELF, &all) != 0 || getrusage(RUSAGE_THREAD, &own) != 0)
		return 0;
	return (uint64_t)(all.ru_nvcsw - own.ru_nvcsw) + (uint64_t)(all.ru_nivcsw - own.ru_nivcsw);
}

/* Whether this thread and peers that are awake are as many as want a core of this machine: then those who want one are
 * they. Where nobody knows they are not. */
static bool endpoint_among_peers(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;
	uint32_t runnable = host_runnable(), others = runnable - 1;

	if (runnable == 0)
		return false;
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->awake)
			others -= transports[i]->awake(owner, others);
	return others == 0;
}

/* The caller was away for long: because others had the core? */
static void endpoint_was_absent(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct contention_usage usage;

	if (endpoint->base.options.yield != OPTION_YIELD_AUTO || !thread_usage(&usage))
		return;
	usage.among_peers = contention_asks(&endpoint_of(endpoint)->contention, now_ns, &usage) &&
			    endpoint_among_peers(endpoint);
	contention_judge(&endpoint_of(endpoint)->contention, now_ns, &usage, endpoint_of(endpoint)->calls);
}

/* There are no sleeps any more, the last being over or too old. */
static void endpoint_awake(struct thole_endpoint *endpoint)
{
	struct contention_usage usage;

	if (thread_usage(&usage))
		contention_awake(&endpoint_of(endpoint)->contention, &usage);
}

/* Whether sleeps that were bought are too old, be it since their caller can take none: then there are none any more. */
static bool endpoint_forgets(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct contention *contention = &endpoint_of(endpoint)->contention;

	if (!contention_sleeps(contention) ||
	    !contention_expires(contention, now_ns, endpoint_of(endpoint)->calls))
		return false;
	endpoint_awake(endpoint);
	return true;
}

/* Counted once something has come by it: Open MPI opens one for windows in each process, and few programs have any. */
static void endpoint_count_used(struct endpoint *whole)
{
	if (whole->used || whole->calls == 0)
		return;
	whole->used = true;
	add_relaxed(&thole_endpoints_used, 1);
}

/* Whether no endpoint of this process is used but this one, if it is. */
static bool endpoint_is_only_one(const struct endpoint *whole)
{
	return load_relaxed(&thole_endpoints_used) == (uint32_t)whole->used;
}

/* A poll has found nothing. sleeps: and its caller sleeps in it, in place of yielding. */
static void endpoint_idle(struct thole_endpoint *endpoint, bool sleeps)
{
	struct endpoint *whole = endpoint_of(endpoint);
	bool yields;
	uint64_t now_ns;

	if (__builtin_expect(endpoint->base.simulated, 0))
		return;
	whole->idle++;
	whole->idle_calls++;
	yields = !sleeps && endpoint_should_yield(endpoint);
	if (!yields && !cadence_is_due(&whole->cadence))
		return;
	now_ns = yields ? endpoint_yield(endpoint) : clock_now_ns();
	cadence_read(&whole->cadence, now_ns, whole->calls);
	if (endpoint->base.resting && cadence_looks(&whole->cadence, now_ns))
		endpoint->base.polled |= endpoint->base.resting;
	endpoint_count_used(whole);
	/* Who has several polls each of them, and sleeps for none of the others. */
	if (yields && endpoint->base.options.yield == OPTION_YIELD_AUTO && endpoint_is_only_one(whole))
		contention_yielded(&whole->contention, now_ns, cadence_waited(&whole->cadence), whole->calls);
	if (contention_absent(&whole->contention, now_ns))
		endpoint_was_absent(endpoint, now_ns);
	else
		endpoint_forgets(endpoint, now_ns);
	if (cadence_maintains(&whole->cadence, endpoint_shares(endpoint)))
		endpoint_maintain(endpoint, now_ns);
}

int endpoint_progress(struct thole_endpoint *endpoint)
{
	int n = endpoint_poll(endpoint);

	if (n == 0)
		endpoint_idle(endpoint, false);
	return n;
}

/* Polling again delays a caller that waits for something else: for another endpoint, where none of ours is under way,
 * or, after something has come and nothing new was started, for what follows in its own program. Open MPI 4 asks until
 * there is nothing before it goes on with what it got. */
static bool endpoint_awaits(struct thole_endpoint *endpoint)
{
	uint32_t live = endpoint->requests.live;
	bool same = live == endpoint_of(endpoint)->found_live;

	endpoint_of(endpoint)->found_live = UINT32_MAX;
	return live > endpoint->multi_posted && !same;
}

/* Other threads have their turn between two polls. */
static int endpoint_poll_anew(struct thole_endpoint *endpoint)
{
	endpoint_unlock(endpoint);
	cpu_pause();
	endpoint_lock(endpoint);
	return endpoint_progress(endpoint);
}

/* A poll that goes to the network as well counts for several. */
static int endpoint_poll_again(struct thole_endpoint *endpoint, uint32_t most)
{
	struct patience *patience = &endpoint_of(endpoint)->patience;
	uint64_t now_ns = clock_now_ns();
	uint32_t polls = patience_polls(patience, now_ns, most), made = 0;
	int n = 0;

	for (; made < polls && n == 0; made += endpoint_poll_weight(endpoint))
		n = endpoint_poll_anew(endpoint);
	if (n > 0)
		patience_paid(patience, now_ns, made);
	else
		patience_told(patience, made ? clock_now_ns() : now_ns, made);
	return n;
}

/* Whether the newest receive waits for a peer of this host that was last seen on another core. Then both may be
 * running, and the answer comes in less time than others of this core need for one turn. */
static bool endpoint_awaits_elsewhere(const struct thole_endpoint *endpoint)
{
	for (int i = 0; i < MATCH_QUEUES; i++) {
		const struct match *match = &endpoint->match[i];
		const struct match_receive *last = container_of(match->receives.prev, struct match_receive, posted);

		if (!list_empty(&match->receives) && last->source != MATCH_ANY) {
			const struct transport_peer *peer = &endpoint->peers[last->source]->base;

			return peer->transport == transports[TRANSPORT_SHM] && !peer->core_shared;
		}
	}
	return false;
}

/* ---- Callers that poll ------------------------------------------------------------------------------ */

/* One of the sleeps. Returns as a poll. */
static int endpoint_doze(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct contention *contention = &endpoint_of(endpoint)->contention;
	bool last = contention_slept(contention, endpoint_of(endpoint)->calls);
	bool alone = endpoint_is_only_one(endpoint_of(endpoint));
	int n;

	endpoint_sleep(endpoint, now_ns, now_ns + (alone ? CONTENTION_SLEEP_NS : CONTENTION_SLEEP_BESIDE_NS));
	n = endpoint_poll(endpoint);
	if (n == 0 &&
	    contention_slept_in_vain(contention, clock_now_ns(), endpoint_of(endpoint)->calls, others_switches()))
		last = true;
	if (last)
		endpoint_awake(endpoint);
	return n;
}

/* Whether its caller waits, as it does who computes nothing between two polls. Asked before an idle poll does anything
 * that takes time of its own, as maintenance of many peers does. */
static bool endpoint_caller_waits(const struct thole_endpoint *endpoint)
{
	const struct contention *contention = &endpoint_of(endpoint)->contention;

	return contention_is_back(contention, clock_now_ns()) || contention_waits(contention, clock_thread_ns());
}

/* A caller outside that polls while others want its core: if it waits, look for a while, then sleep, as it would in a
 * call that waits. */
static int endpoint_give_way(struct thole_endpoint *endpoint, bool waits)
{
	struct contention *contention = &endpoint_of(endpoint)->contention;
	uint64_t start_ns = clock_now_ns(), now_ns = start_ns;
	int n = 0;

	if (endpoint_forgets(endpoint, start_ns))
		return 0;
	if (waits) {
		while (n == 0 && now_ns - start_ns < CONTENTION_SPIN_NS) {
			cpu_pause();
			n = endpoint_poll(endpoint);
			now_ns = clock_now_ns();
		}
		if (n == 0)
			n = endpoint_doze(endpoint, now_ns);
	} else if (contention_computed(contention, start_ns, endpoint_of(endpoint)->calls)) {
		endpoint_awake(endpoint);
		return 0;
	}
	contention_answered(contention, clock_now_ns());
	if (n == 0)
		contention_told(contention, clock_thread_ns());
	return n;
}

/* How many polls come before the next one whose number is a multiple, at most so many. */
static uint32_t polls_before(uint32_t most, uint32_t polls, uint32_t multiple)
{
	uint32_t before = multiple - 1 - polls % multiple;

	return before < most ? before : most;
}

/* How many of the next polls that find nothing are to be counted, and no more: until one yields, or reads the clock.
 * Whether cores are shared may change meanwhile, and is seen then. */
static uint32_t endpoint_plain(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	uint32_t plain;

	if (endpoint->base.options.yield == OPTION_YIELD_ALWAYS || contention_sleeps(&whole->contention))
		return 0;
	plain = whole->cadence.left;
	if (endpoint_shares(endpoint))
		plain = polls_before(plain, whole->idle, YIELD_POLLS / endpoint_poll_weight(endpoint));
	plain = patience_rest(&whole->patience, plain);
	cadence_skip(&whole->cadence, plain);
	return plain;
}

/* A poll for a caller outside, which perhaps waits in a loop of its own, has found nothing. */
__attribute__((noinline)) static int endpoint_found_nothing(struct thole_endpoint *endpoint)
{
	bool shared = endpoint_shares(endpoint) && !endpoint_awaits_elsewhere(endpoint);
	uint64_t most = shared ? endpoint->base.options.look_again_shared : endpoint->base.options.look_again;
	bool sleeps = contention_sleeps(&endpoint_of(endpoint)->contention) && endpoint_awaits(endpoint);
	bool waits = sleeps && endpoint_caller_waits(endpoint);

	endpoint_idle(endpoint, sleeps); /* in any case: connections are made here */
	if (__builtin_expect(sleeps, 0))
		return endpoint_give_way(endpoint, waits);
	if (__builtin_expect(contention_sleeps(&endpoint_of(endpoint)->contention), 0))
		return 0;
	if (!patience_rests(&endpoint_of(endpoint)->patience) && endpoint_awaits(endpoint) && most > 0)
		return endpoint_poll_again(endpoint, (uint32_t)most);
	endpoint_of(endpoint)->plain = endpoint_plain(endpoint);
	return 0;
}

/* Inlined with nothing in it that calls for registers to be saved in each poll. What comes is seen half a poll late on
 * average, so one that finds nothing is short. */
static inline int endpoint_progress_outside(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	int n = endpoint_poll(endpoint);

	if (n == 0 && whole->plain > 0) {
		whole->plain--;
		whole->idle++;
		whole->idle_calls++;
		return 0;
	}
	if (n == 0 && !endpoint->base.simulated)
		n = endpoint_found_nothing(endpoint);
	if (n > 0)
		endpoint_of(endpoint)->found_live = endpoint->requests.live;
	return n;
}

int thole_progress(struct thole_endpoint *endpoint)
{
	int n;

	endpoint_lock(endpoint);
	n = endpoint_progress_outside(endpoint);
	endpoint_leave(endpoint);
	return n;
}

/* ---- Calls that wait ------------------------------------------------------------------------------- */

static uint64_t deadline_of(uint64_t now_ns, int64_t timeout_ns)
{
	return timeout_ns < 0 ? UINT64_MAX : now_ns + (uint64_t)timeout_ns;
}

/* Between the turns of a call that waits other threads have theirs. */
static void endpoint_let_others(struct thole_endpoint *endpoint, uint32_t turn, int cancellable)
{
	if (!endpoint->safe || turn % WAIT_OTHERS != 0)
		return;
	endpoint_leave(endpoint);
	cpu_pause();
	thread_test(cancellable);
	endpoint_lock(endpoint);
}

/* Wait until done(arg) or the timeout. Lock held. */
static int endpoint_wait_turns(struct thole_endpoint *endpoint, bool (*done)(void *arg), void *arg, int64_t timeout_ns,
			       int cancellable)
{
	const struct cadence *cadence = &endpoint_of(endpoint)->cadence;
	uint64_t start_ns = 0, deadline_ns = 0, seen_ns = cadence->read_ns, now_ns;

	for (uint32_t turn = 1;; turn++) {
		int n = endpoint_progress(endpoint);

		if (done(arg))
			return 0;
		endpoint_let_others(endpoint, turn, cancellable);
		if (timeout_ns != 0 && cadence->read_ns == seen_ns && turn % CADENCE_POLLS_MAX != 0)
			continue; /* the clock is read now and then only */
		now_ns = clock_now_ns();
		seen_ns = cadence->read_ns;
		if (deadline_ns == 0)
			deadline_ns = deadline_of(now_ns, timeout_ns);
		if (now_ns >= deadline_ns)
			return THOLE_ERR_TIMEOUT;
		if (start_ns == 0 || n > 0)
			start_ns = now_ns;
		else if (now_ns - start_ns >= endpoint->base.options.spin)
			endpoint_sleep(endpoint, now_ns, deadline_ns);
	}
}

/* The same. Of one that is not shared no lock could be left behind. */
static int endpoint_wait(struct thole_endpoint *endpoint, bool (*done)(void *arg), void *arg, int64_t timeout_ns)
{
	int cancellable = 0, error;

	if (done(arg))
		return 0;
	if (endpoint->safe)
		cancellable = thread_keep();
	error = endpoint_wait_turns(endpoint, done, arg, timeout_ns, cancellable);
	if (endpoint->safe)
		thread_release(cancellable);
	return error;
}

static bool request_is_done(void *arg)
{
	return ((struct thole_request *)arg)->state == REQUEST_DONE;
}

int thole_wait(struct thole_endpoint *endpoint, struct thole_request *handle, int64_t timeout_ns,
	       struct thole_completion *completion_p)
{
	int error;

	endpoint_lock(endpoint);
	error = endpoint_wait(endpoint, request_is_done, handle, timeout_ns);
	endpoint_leave(endpoint);
	if (!error)
		thole_test(endpoint, handle, completion_p); /* done: collects it */
	return error;
}

struct wait_any {
	struct thole_request **requests;
	size_t count, index;
};

static bool any_is_done(void *arg)
{
	struct wait_any *any = arg;

	for (any->index = 0; any->index < any->count; any->index++)
		if (any->requests[any->index] && request_is_done(any->requests[any->index]))
			return true;
	return false;
}

int thole_wait_any(struct thole_endpoint *endpoint, struct thole_request **requests, size_t count,
		   int64_t timeout_ns, size_t *index_p, struct thole_completion *completion_p)
{
	struct wait_any any = {requests, count, 0};
	size_t present = 0;
	int error;

	for (size_t i = 0; i < count; i++)
		present += requests[i] != NULL;
	if (present == 0)
		return error_set(THOLE_ERR_ARGUMENT, "all %zu requests are NULL", count);
	endpoint_lock(endpoint);
	error = endpoint_wait(endpoint, any_is_done, &any, timeout_ns);
	endpoint_leave(endpoint);
	if (error)
		return error;
	*index_p = any.index;
	thole_test(endpoint, requests[any.index], completion_p);
	requests[any.index] = NULL;
	return 0;
}

int thole_sleep(struct thole_endpoint *endpoint, int64_t timeout_ns)
{
	uint64_t start_ns = clock_now_ns(), deadline_ns = deadline_of(start_ns, timeout_ns), now_ns = start_ns;
	int n, cancellable = 0;
	uint32_t turn = 1;

	pthread_testcancel();
	if (endpoint->safe)
		cancellable = thread_keep();
	endpoint_lock(endpoint);
	while ((n = endpoint_progress(endpoint)) == 0 && now_ns - start_ns < endpoint->base.options.spin &&
	       now_ns < deadline_ns) {
		endpoint_let_others(endpoint, turn++, cancellable);
		now_ns = clock_now_ns();
	}
	if (n == 0 && now_ns < deadline_ns)
		endpoint_sleep(endpoint, now_ns, deadline_ns);
	if (n == 0)
		n = endpoint_progress(endpoint);
	endpoint_leave(endpoint);
	if (endpoint->safe)
		thread_release(cancellable);
	return n > 0 || clock_now_ns() < deadline_ns ? 0 : THOLE_ERR_TIMEOUT;
}
