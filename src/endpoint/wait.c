/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait: progress, and what a waiting process does with its core: spin, yield, sleep.
 *
 * With a core for each process, spinning is best, and yielding gives the core to strangers, if to anybody. With fewer,
 * whoever spins keeps the awaited process from running. It is so where the launcher says that there are more ranks
 * than cores, and where a peer was last seen on this very core. Then a waiting process yields often, but not at once:
 * where the awaited process does run, its answer comes within some hundred polls.
 *
 * Callers that wait by calling progress in a loop may do costly things between two calls (MPICH yields). So one that
 * was seen to gain by it is answered "nothing" only after some more polls (patience.h); and one whose core others took
 * sleeps in the call (contention.h). All others are answered at once.
 *
 * Transports are polled in order of preference, in each progress call those that ask for it (transport_set_polled):
 * shared memory always, the network only while there are connections. Without, what comes there is seen by maintenance.
 * Those that rest (transport_rest) are polled once in some hundred calls, and at each maintenance.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/attendance.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/thread.h"
#include "endpoint/endpoint.h"
#include "message/message.h"

enum {
	YIELD_POLLS = 100,      /* polls of rings between two yields where the core is shared */
	MAINTAIN_NS = 20000,    /* between two maintenances while idle, */
	MAINTAIN_SHARED_NS = 100000, /* and where others of this job wait for the core: most of that time is theirs */
	MAINTAIN_POLL = 16,     /* idle calls between two readings of the clock */
	TEND_POLLS = 64,        /* of one thole_tend, or turn of the progress thread: others wait for no more */
	MAINTAIN_CALLS = 1024,  /* busy calls between two maintenances */
	ABSENCE_POLLS = 32,     /* idle calls, in a row or not, between two looks whether the core was lost */
	REST_POLLS = 1024,      /* idle calls between two polls of transports that rest, */
	REST_CALLS = 64,        /* or so many busy ones */
	QUIET_NS = 50000,       /* polls find nothing for so long, and unexpected messages are fetched */
	ARM_NS_MIN = 1000000,   /* sleeps shorter than this are not worth a timer in somebody else's event loop */
	EVENTS = 32,            /* of one epoll_wait, */
	EVENT_TURNS = 16,       /* of which there are so many at most: who always has something to say cannot hold us */
	BESIDE_THREAD_NS = 50000, /* a sleep beside the progress thread, */
	BESIDE_LOOP_NS = 1000000, /* and of that beside an event loop that sleeps; */
	BESIDE_LOOP_LOOKS = 10, /* looks at which the descriptor is readable and nobody came: he does not sleep */
	THREADS_SLEEP_NS = 1000000, /* longest sleep beside other threads: one may take what another is waiting for */
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

static void endpoint_maintain(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct transport_owner *owner = &endpoint->base;

	endpoint_of(endpoint)->maintained_ns = now_ns;
	if (!list_empty(&endpoint->asking))
		endpoint_quiet(endpoint, now_ns);
	owner->polled |= owner->resting;
	endpoint_events(endpoint, now_ns);
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->maintain)
			transports[i]->maintain(owner, now_ns);
}

/* Before sleeping: the longest sleep of all transports. */
static uint64_t endpoint_arm(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;
	uint64_t longest = UINT64_MAX;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i)) {
		uint64_t most = transports[i]->arm(owner);

		longest = most < longest ? most : longest;
	}
	if (endpoint_is_asked(endpoint) && longest > QUIET_NS)
		longest = QUIET_NS;
	return longest;
}

static void endpoint_disarm(struct thole_endpoint *endpoint)
{
	struct transport_owner *owner = &endpoint->base;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->disarm)
			transports[i]->disarm(owner);
}

/* Give the core away; the time afterwards. */
static uint64_t endpoint_yield(struct thole_endpoint *endpoint)
{
	endpoint_unlock(endpoint);
	sched_yield();
	endpoint_lock(endpoint);
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
					   .left = (uint64_t)rusage.ru_nvcsw};
	return true;
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
	usage.among_peers = endpoint_among_peers(endpoint);
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

/* A poll has found nothing. sleeps: and its caller sleeps in it, in place of yielding. */
static void endpoint_idle(struct thole_endpoint *endpoint, bool sleeps)
{
	uint64_t now_ns;

	if (__builtin_expect(endpoint->base.simulated, 0))
		return;
	endpoint_of(endpoint)->idle++;
	if (++endpoint_of(endpoint)->idle_calls % REST_POLLS == 0)
		endpoint->base.polled |= endpoint->base.resting;
	if (!sleeps && endpoint_should_yield(endpoint)) {
		now_ns = endpoint_yield(endpoint);
		/* Who has several polls each of them, and sleeps for none of the others. */
		if (endpoint->base.options.yield == OPTION_YIELD_AUTO && load_relaxed(&endpoints_open) == 1)
			contention_yielded(&endpoint_of(endpoint)->contention, now_ns, endpoint_of(endpoint)->calls);
	} else if (endpoint_of(endpoint)->idle % MAINTAIN_POLL == 0 ||
		 endpoint_of(endpoint)->idle_calls % ABSENCE_POLLS == 0)
		now_ns = clock_now_ns();
	else
		return;
	if (contention_absent(&endpoint_of(endpoint)->contention, now_ns))
		endpoint_was_absent(endpoint, now_ns);
	else
		endpoint_forgets(endpoint, now_ns);
	if (now_ns - endpoint_of(endpoint)->maintained_ns >
	    (uint64_t)(endpoint_shares(endpoint) ? MAINTAIN_SHARED_NS : MAINTAIN_NS))
		endpoint_maintain(endpoint, now_ns);
}

/* Among busy calls. */
__attribute__((noinline)) static void endpoint_now_and_then(struct thole_endpoint *endpoint)
{
	endpoint->base.polled |= endpoint->base.resting;
	if (endpoint_of(endpoint)->calls % MAINTAIN_CALLS == 0)
		endpoint_maintain(endpoint, clock_now_ns());
}

/* Progress without waiting; nothing is done about finding nothing. Mostly the first transport alone is polled. */
static inline int endpoint_poll(struct thole_endpoint *endpoint)
{
	int n;

	if (__builtin_expect(endpoint->base.polled != 1u << 0, 0)) {
		n = message_poll(endpoint);
	} else {
		n = transports[0]->progress(&endpoint->base);
		if (!list_empty(&endpoint->backlogged))
			n += peer_backlog_push(endpoint);
	}
	if (n > 0) {
		endpoint_of(endpoint)->idle = 0;
		if (++endpoint_of(endpoint)->calls % REST_CALLS == 0 && !endpoint->base.simulated)
			endpoint_now_and_then(endpoint);
	}
	return n;
}

int endpoint_advance(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	int n;

	endpoint_lock(endpoint);
	endpoint->base.now_ns = now_ns;
	n = endpoint_poll(endpoint);
	endpoint_unlock(endpoint);
	return n;
}

uint64_t endpoint_deadline(const struct thole_endpoint *endpoint)
{
	const struct transport_owner *owner = &endpoint->base;
	uint64_t first_ns = UINT64_MAX;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i)) {
		uint64_t deadline_ns = transports[i]->deadline ? transports[i]->deadline(owner) : UINT64_MAX;

		first_ns = deadline_ns < first_ns ? deadline_ns : first_ns;
	}
	return first_ns;
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

/* ---- Sleeping -------------------------------------------------------------------------------------- */

int thole_fd(struct thole_endpoint *endpoint)
{
	return endpoint->base.wait_fd;
}

static void timer_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	uint64_t count;

	(void)owner, (void)now_ns;
	(void)!read(container_of(watcher, struct endpoint, timer)->timer_fd, &count, sizeof(count));
}

/* Make wait_fd readable after so long. False if that cannot be done. */
static bool endpoint_timer(struct thole_endpoint *endpoint, uint64_t longest_ns)
{
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(longest_ns / 1000000000u),
					       .tv_nsec = (long)(longest_ns % 1000000000u)}};

	if (endpoint_of(endpoint)->timer_fd < 0) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &endpoint_of(endpoint)->timer};
		int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

		endpoint_of(endpoint)->timer.ready = timer_ready;
		if (fd < 0)
			return false;
		if (epoll_ctl(endpoint->base.wait_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
			close(fd);
			return false;
		}
		endpoint_of(endpoint)->timer_fd = fd;
	}
	return timerfd_settime(endpoint_of(endpoint)->timer_fd, 0, &when, NULL) == 0;
}

/* Another number after each progress; not 0, but for one of 2^32. */
static uint32_t endpoint_turns(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->calls + endpoint_of(endpoint)->idle_calls + 1;
}

/* Whether an event loop sleeps on thole_fd, or is about to: who makes progress in its place does not wake it. */
static bool endpoint_is_armed(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->armed_at == endpoint_turns(endpoint);
}

/* Another number after operations that a peer has to hear of. */
static uint64_t endpoint_starts(const struct thole_endpoint *endpoint)
{
	const uint64_t *counters = endpoint->base.counters;

	return counters[COUNTER_SENT_EAGER] + counters[COUNTER_SENT_RENDEZVOUS] + counters[COUNTER_PUTS] +
	       counters[COUNTER_GETS] + counters[COUNTER_ATOMICS];
}

/* Whether any was started since thole_arm: what these wait for is not what the descriptor was armed for. */
static bool endpoint_has_started(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->armed_starts != endpoint_starts(endpoint);
}

int thole_arm(struct thole_endpoint *endpoint)
{
	uint64_t longest;

	endpoint_lock(endpoint);
	longest = endpoint_arm(endpoint);
	if (endpoint_of(endpoint)->beside)
		longest = 0; /* what that came to is not known to the caller */
	endpoint_of(endpoint)->beside = false;
	/* A sleep that has to end in time cannot be left to somebody else's event loop, but for a timer of ours in
	 * it. */
	if (longest != UINT64_MAX && (longest < ARM_NS_MIN || !endpoint_timer(endpoint, longest))) {
		endpoint_disarm(endpoint);
		endpoint_progress(endpoint);
		longest = 0;
	}
	endpoint_of(endpoint)->armed_at = longest > 0 ? endpoint_turns(endpoint) : 0;
	endpoint_of(endpoint)->armed_starts = endpoint_starts(endpoint);
	endpoint_unlock(endpoint);
	return longest > 0 ? 0 : THOLE_ERR_AGAIN;
}

/* Sleep until the descriptor is readable, at most so long. The call has no function before glibc 2.35, so it goes by
 * its number; where the kernel (before 5.11) or a container's filter has no such call, ppoll does the same for 0.2 us
 * more. */
static void descriptor_sleep(int fd, uint64_t longest_ns)
{
	const int64_t kernel_time[2] = {(int64_t)(longest_ns / 1000000000u), (int64_t)(longest_ns % 1000000000u)};
	const struct timespec timeout = {.tv_sec = (time_t)kernel_time[0], .tv_nsec = (long)kernel_time[1]};
	bool endless = longest_ns > INT64_MAX / 2;
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	struct epoll_event event;

	if (syscall(SYS_epoll_pwait2, fd, &event, 1, endless ? NULL : kernel_time, NULL, 0) < 0 &&
	    (errno == ENOSYS || errno == EPERM))
		ppoll(&polled, 1, endless ? NULL : &timeout, NULL);
}

/* Sleep until something arrives or the deadline; the lock is held on entry and exit. */
static void endpoint_sleep(struct thole_endpoint *endpoint, uint64_t now_ns, uint64_t deadline_ns)
{
	uint64_t longest = endpoint_arm(endpoint);

	if (endpoint->safe && longest > THREADS_SLEEP_NS)
		longest = THREADS_SLEEP_NS;
	if (longest > 0 && endpoint_of(endpoint)->thread == NULL) {
		if (deadline_ns - now_ns < longest)
			longest = deadline_ns - now_ns;
		endpoint_count(endpoint, COUNTER_SLEEPS);
		endpoint_unlock(endpoint);
		descriptor_sleep(endpoint->base.wait_fd, longest);
		endpoint_lock(endpoint);
	} else if (longest > 0) {
		/* The progress thread sleeps on the same descriptor, and what it handles does not end this sleep. */
		endpoint_unlock(endpoint);
		clock_sleep(BESIDE_THREAD_NS);
		endpoint_lock(endpoint);
	}
	endpoint_disarm(endpoint);
	endpoint_maintain(endpoint, clock_now_ns());
}

/* ---- Callers that poll ------------------------------------------------------------------------------ */

/* A caller outside that polls while others want its core: if it waits, as it does who computes nothing between two
 * polls, look for a while, then sleep, as it would in a call that waits. */
static int endpoint_give_way(struct thole_endpoint *endpoint)
{
	struct contention *contention = &endpoint_of(endpoint)->contention;
	uint64_t start_ns = clock_now_ns(), now_ns = start_ns;
	int n = 0;

	if (endpoint_forgets(endpoint, start_ns))
		return 0;
	if (contention_is_back(contention, start_ns) || contention_waits(contention, clock_thread_ns())) {
		while (n == 0 && now_ns - start_ns < CONTENTION_SPIN_NS) {
			cpu_pause();
			n = endpoint_poll(endpoint);
			now_ns = clock_now_ns();
		}
		if (n == 0) {
			bool last = contention_slept(contention, endpoint_of(endpoint)->calls);

			endpoint_sleep(endpoint, now_ns, now_ns + CONTENTION_SLEEP_NS);
			if (last)
				endpoint_awake(endpoint);
			n = endpoint_poll(endpoint);
		}
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
	uint32_t plain = polls_before(MAINTAIN_POLL, whole->idle, MAINTAIN_POLL);

	if (endpoint->base.options.yield == OPTION_YIELD_ALWAYS || contention_sleeps(&whole->contention))
		return 0;
	plain = polls_before(plain, whole->idle_calls, ABSENCE_POLLS);
	if (endpoint_shares(endpoint))
		plain = polls_before(plain, whole->idle, YIELD_POLLS / endpoint_poll_weight(endpoint));
	return patience_rest(&whole->patience, plain);
}

/* A poll for a caller outside, which perhaps waits in a loop of its own, has found nothing. */
__attribute__((noinline)) static int endpoint_found_nothing(struct thole_endpoint *endpoint)
{
	bool shared = endpoint_shares(endpoint) && !endpoint_awaits_elsewhere(endpoint);
	uint64_t most = shared ? endpoint->base.options.look_again_shared : endpoint->base.options.look_again;
	bool sleeps = contention_sleeps(&endpoint_of(endpoint)->contention) && endpoint_awaits(endpoint);

	endpoint_idle(endpoint, sleeps); /* in any case: connections are made here */
	if (__builtin_expect(sleeps, 0))
		return endpoint_give_way(endpoint);
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
	endpoint_unlock(endpoint);
	return n;
}

static bool endpoint_is_tended(const struct thole_endpoint *endpoint)
{
	return !endpoint_drained(endpoint) || endpoint_moves_alone(endpoint);
}

/* What thole_tend says of it. */
static int endpoint_tending(const struct thole_endpoint *endpoint)
{
	if (!endpoint_is_tended(endpoint))
		return 0;
	return endpoint_delivers(endpoint) && !endpoint_moves_alone(endpoint) ? 2 : 1;
}

/* A turn in place of the program, also where it has armed: if it sleeps all the same, the descriptor is readable.
 * Returns whether something was found. */
static bool endpoint_replace(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	bool armed = endpoint_is_armed(endpoint);
	uint32_t calls = whole->calls;

	endpoint_maintain(endpoint, clock_now_ns());
	for (int i = 0; i < TEND_POLLS && endpoint_poll(endpoint) > 0; i++)
		;
	if (armed) {
		whole->beside = true;
		endpoint_arm(endpoint);
		whole->armed_at = endpoint_timer(endpoint, 1) ? endpoint_turns(endpoint) : 0;
	}
	return whole->calls != calls;
}

int thole_tend(struct thole_endpoint *endpoint)
{
	int tending;

	endpoint_lock(endpoint);
	tending = endpoint_tending(endpoint);
	if (tending && (!endpoint_is_armed(endpoint) || endpoint_has_started(endpoint)) && !endpoint->base.simulated) {
		endpoint_replace(endpoint);
		tending = endpoint_tending(endpoint);
	}
	endpoint_unlock(endpoint);
	return tending;
}

/* ---- Calls that wait ------------------------------------------------------------------------------- */

static uint64_t deadline_of(uint64_t now_ns, int64_t timeout_ns)
{
	return timeout_ns < 0 || (uint64_t)timeout_ns > UINT64_MAX / 2 - now_ns ? UINT64_MAX
									   : now_ns + (uint64_t)timeout_ns;
}

/* Wait until done(arg) or the timeout. Lock held. */
static int endpoint_wait(struct thole_endpoint *endpoint, bool (*done)(void *arg), void *arg, int64_t timeout_ns)
{
	uint64_t start_ns = 0, deadline_ns = 0, now_ns;

	if (done(arg))
		return 0;
	for (uint32_t turn = 0;; turn++) {
		int n = endpoint_progress(endpoint);

		if (done(arg))
			return 0;
		if (turn % 16 != 0 && timeout_ns != 0)
			continue; /* the clock is read now and then only */
		if (endpoint->safe) { /* let other threads in */
			endpoint_unlock(endpoint);
			cpu_pause();
			endpoint_lock(endpoint);
		}
		now_ns = clock_now_ns();
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
	endpoint_unlock(endpoint);
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
	endpoint_unlock(endpoint);
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
	int n;

	endpoint_lock(endpoint);
	while ((n = endpoint_progress(endpoint)) == 0 && now_ns - start_ns < endpoint->base.options.spin &&
	       now_ns < deadline_ns)
		now_ns = clock_now_ns();
	if (n == 0 && now_ns < deadline_ns)
		endpoint_sleep(endpoint, now_ns, deadline_ns);
	if (n == 0)
		n = endpoint_progress(endpoint);
	endpoint_unlock(endpoint);
	return n > 0 || clock_now_ns() < deadline_ns ? 0 : THOLE_ERR_TIMEOUT;
}

/* ---- The progress thread --------------------------------------------------------------------------- */

struct progress_thread {
	pthread_t id;
	struct thole_endpoint *endpoint;
	struct attendance attendance; /* the program's */
	uint32_t turns; /* of endpoint_turns, those that the thread has made */
	uint32_t armed_at; /* the endpoint's, at the last look, */
	uint32_t looks;    /* and at how many that was so and its descriptor readable */
	int stop;
};

enum { THREAD_SLEEP_NS_MAX = 10000000 }; /* bounds how long closing waits for the thread */

/* Sleep for a while if the program polls, as long as it has a core for that. */
static bool progress_naps(struct progress_thread *thread)
{
	struct thole_endpoint *endpoint = thread->endpoint;
	uint32_t polls;
	uint64_t nap_ns;

	if (endpoint->base.oversubscribed)
		return false;
	endpoint_lock(endpoint);
	polls = endpoint_turns(endpoint) - thread->turns;
	endpoint_unlock(endpoint);
	nap_ns = attendance_nap(&thread->attendance, polls, clock_now_ns());
	if (nap_ns > 0)
		clock_sleep(nap_ns);
	return nap_ns > 0;
}

/* Whether who has armed sleeps, or is about to. Else it was woken by something else, and computes. */
static bool progress_is_attended(struct progress_thread *thread)
{
	struct thole_endpoint *endpoint = thread->endpoint;
	struct pollfd polled = {.fd = endpoint->base.wait_fd, .events = POLLIN};

	if (endpoint_has_started(endpoint))
		return false;
	if (thread->armed_at != endpoint_of(endpoint)->armed_at)
		thread->looks = 0;
	thread->armed_at = endpoint_of(endpoint)->armed_at;
	if (thread->looks < BESIDE_LOOP_LOOKS && poll(&polled, 1, 0) == 1)
		thread->looks++;
	return thread->looks < BESIDE_LOOP_LOOKS;
}

static void *progress_run(void *arg)
{
	struct progress_thread *thread = arg;
	struct thole_endpoint *endpoint = thread->endpoint;

	while (!load_acquire(&thread->stop)) {
		uint64_t longest;
		uint32_t turns;
		bool found = false;
		int n = 1;

		if (progress_naps(thread))
			continue;
		endpoint_lock(endpoint);
		if (endpoint_is_armed(endpoint)) {
			turns = endpoint_turns(endpoint);
			if (!progress_is_attended(thread)) {
				found = endpoint_replace(endpoint);
				thread->armed_at = endpoint_of(endpoint)->armed_at;
			}
			thread->turns += endpoint_turns(endpoint) - turns;
			endpoint_unlock(endpoint);
			clock_sleep(found ? BESIDE_THREAD_NS : BESIDE_LOOP_NS);
			continue;
		}
		endpoint_of(endpoint)->beside = true;
		turns = endpoint_turns(endpoint);
		for (int i = 0; i < TEND_POLLS && n > 0; i++)
			n = endpoint_progress(endpoint);
		thread->turns += endpoint_turns(endpoint) - turns;
		if (n > 0) {
			endpoint_unlock(endpoint);
			continue;
		}
		longest = endpoint_arm(endpoint);
		endpoint_unlock(endpoint);
		if (longest > THREAD_SLEEP_NS_MAX)
			longest = THREAD_SLEEP_NS_MAX;
		if (longest > 0)
			descriptor_sleep(endpoint->base.wait_fd, longest);
		endpoint_lock(endpoint);
		if (!endpoint_is_armed(endpoint)) { /* else it has armed since */
			endpoint_of(endpoint)->beside = true;
			endpoint_disarm(endpoint);
			endpoint_maintain(endpoint, clock_now_ns());
		}
		endpoint_unlock(endpoint);
	}
	return NULL;
}

int progress_thread_start(struct thole_endpoint *endpoint)
{
	struct progress_thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		return error_set(THOLE_ERR_MEMORY, "no memory for the progress thread");
	thread->endpoint = endpoint;
	endpoint_of(endpoint)->thread = thread;
	errno = thread_start(&thread->id, "thole-progress", progress_run, thread);
	if (errno) {
		free(thread);
		endpoint_of(endpoint)->thread = NULL;
		return error_set(THOLE_ERR_SYSTEM, "cannot start the progress thread: %m");
	}
	return 0;
}

void progress_thread_stop(struct thole_endpoint *endpoint)
{
	if (!endpoint_of(endpoint)->thread)
		return;
	store_release(&endpoint_of(endpoint)->thread->stop, 1);
	pthread_join(endpoint_of(endpoint)->thread->id, NULL);
	free(endpoint_of(endpoint)->thread);
	endpoint_of(endpoint)->thread = NULL;
}
