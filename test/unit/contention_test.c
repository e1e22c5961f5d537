/* SPDX-License-Identifier: BSD-3-Clause */
/* Who sleeps though it polls: the rule by itself, with given times and losses, and an endpoint that is told by a clock
 * and a kernel of ours that others have its core. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/host.h"
#include "endpoint/contention.h"
#include "endpoint/endpoint.h"
#include "pair.h"

/* A thread, and what it has had of its core. */
struct thread {
	struct contention contention;
	struct contention_usage usage;
	uint64_t now_ns;
	uint32_t found;
};

static const struct thread stranger = {.now_ns = 1000000000, .usage = {.run_ns = 900000000, .taken = 7}};

/* So long a time, of which the thread had so much, and in which it lost its core, and left it, so often. */
static void thread_goes_on(struct thread *thread, uint64_t wall_ns, uint64_t run_ns, uint64_t taken, uint64_t left)
{
	thread->now_ns += wall_ns;
	thread->usage.run_ns += run_ns;
	thread->usage.taken += taken;
	thread->usage.left += left;
	if (contention_absent(&thread->contention, thread->now_ns))
		contention_judge(&thread->contention, thread->now_ns, &thread->usage, thread->found);
}

/* It polls in vain and yields, and is back after a slice of somebody else's. */
static void thread_loses(struct thread *thread)
{
	thread_goes_on(thread, 3000000, 2000, 1, 0);
}

static struct thread begun(void)
{
	struct thread thread = stranger;

	thread_goes_on(&thread, 3000000, 3000000, 0, 0);
	assert_false(contention_sleeps(&thread.contention));
	return thread;
}

/* The losses that buy nothing. */
static void thread_loses_freely(struct thread *thread)
{
	for (int i = 0; i < CONTENTION_FREE; i++) {
		thread_loses(thread);
		assert_false(contention_sleeps(&thread->contention));
	}
}

/* It takes its sleeps, each ended by what it waits for. Returns how many. */
static uint32_t sleeps(struct thread *thread)
{
	uint32_t slept = 0;

	for (; contention_sleeps(&thread->contention); slept++) {
		bool last = contention_slept(&thread->contention, ++thread->found);

		thread->usage.left++;
		if (last)
			contention_awake(&thread->contention, &thread->usage);
	}
	return slept;
}

static void loss__buys_sleeps(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
}

/* Short absences are not even asked about. */
static void loss__none_while_it_is_back_soon(void **state)
{
	struct thread thread = begun();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_false(contention_absent(&thread.contention, thread.now_ns + CONTENTION_ABSENCE_NS - 1));
		thread.now_ns += CONTENTION_ABSENCE_NS - 1;
	}
}

/* One that computes has had its core, and one that sleeps by itself was not bereft of it. */
static void loss__none_of_who_computes_or_sleeps(void **state)
{
	struct thread thread = begun();

	(void)state;
	for (int i = 0; i < 100; i++) {
		thread_goes_on(&thread, 3000000, 2900000, 1, 0);
		assert_false(contention_sleeps(&thread.contention));
		thread_goes_on(&thread, 3000000, 2000, 0, 1);
		assert_false(contention_sleeps(&thread.contention));
		thread_goes_on(&thread, 30000000, 2000, 20, 20);
		assert_false(contention_sleeps(&thread.contention));
	}
}

/* What a thread has had before its endpoint looked first says nothing of it. */
static void loss__none_before_the_first_look(void **state)
{
	struct thread thread = stranger;

	(void)state;
	thread.usage.run_ns = 1000; /* of all the time since the machine began */
	thread_loses(&thread);
	thread_loses_freely(&thread);
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
}

/* Losses that follow each other buy twice as many each time, within a bound; one more while it sleeps buys nothing. */
static void loss__again(void **state)
{
	struct thread thread = begun();
	uint32_t before = 0;

	(void)state;
	thread_loses_freely(&thread);
	for (int i = 0; i < 20; i++) {
		uint32_t slept;

		thread_loses(&thread);
		contention_slept(&thread.contention, thread.found);
		thread_loses(&thread);
		slept = 1 + sleeps(&thread);
		assert_int_equal(slept, i == 0 ? CONTENTION_SLEEPS_MIN
				 : 2 * before < CONTENTION_SLEEPS_MAX ? 2 * before : CONTENTION_SLEEPS_MAX);
		before = slept;
	}
	assert_int_equal(before, CONTENTION_SLEEPS_MAX);
}

/* Where much came since the last loss, sleeping would have cost more. */
static void loss__worth_it(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	for (int i = 0; i < 5; i++) {
		thread_loses(&thread);
		assert_true(sleeps(&thread) >= CONTENTION_SLEEPS_MIN);
	}
	for (int i = 0; i < 100; i++) {
		thread.found += CONTENTION_MANY;
		thread_loses(&thread);
		assert_false(contention_sleeps(&thread.contention));
	}
	thread.found += CONTENTION_MANY - 1;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
}

/* It loses its core while nobody but its peers wants one. */
static void thread_loses_to_peers(struct thread *thread)
{
	thread->usage.among_peers = true;
	thread_loses(thread);
	thread->usage.among_peers = false;
}

/* Those buy nothing, however many. */
static void loss__to_peers(void **state)
{
	struct thread thread = begun();

	(void)state;
	for (int i = 0; i < 100; i++) {
		thread_loses_to_peers(&thread);
		assert_false(contention_sleeps(&thread.contention));
	}
	thread_loses_freely(&thread);
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
}

/* What the kernel says of one thread says nothing of another that polls, too, nor does a sleep of one. */
static void loss__of_another_thread(void **state)
{
	struct thread thread = begun();
	struct contention_usage other;

	(void)state;
	for (int i = 0; i < 100; i++) {
		thread.usage.thread = (pthread_t)(i + 1);
		thread_loses(&thread);
		assert_false(contention_sleeps(&thread.contention));
	}
	assert_int_equal(thread.contention.losses, 0);
	thread_loses_freely(&thread);
	other = thread.usage;
	other.thread = 7;
	other.left += 1000;
	contention_awake(&thread.contention, &other);
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
}

/* Nor do they change what strangers' do. */
static void loss__to_peers_changes_nothing(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	thread_loses_to_peers(&thread);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
	thread.found += CONTENTION_MANY / 2;
	thread_loses_to_peers(&thread);
	assert_false(contention_sleeps(&thread.contention));
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), 2 * CONTENTION_SLEEPS_MIN);
	thread.found += CONTENTION_MANY / 2;
	thread_loses_to_peers(&thread);
	thread.found += CONTENTION_MANY / 2;
	thread_loses(&thread); /* much has come since strangers had it */
	assert_false(contention_sleeps(&thread.contention));
}

/* What was bought long ago says nothing of now. */
static void loss__is_forgotten(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	assert_false(contention_expires(&thread.contention, thread.now_ns + CONTENTION_AGE_NS - 1, thread.found));
	assert_true(contention_sleeps(&thread.contention));
	assert_true(contention_expires(&thread.contention, thread.now_ns + CONTENTION_AGE_NS, thread.found));
	assert_int_equal(sleeps(&thread), 0);
}

/* Who has waited for long sleeps until something is found, however often. */
static void wait__long(void **state)
{
	struct thread thread = begun();

	(void)state;
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS - 1, thread.found);
	assert_false(contention_sleeps(&thread.contention));
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	for (int i = 0; i < 100; i++) {
		assert_true(contention_sleeps(&thread.contention));
		thread.now_ns += (CONTENTION_AGE_NS - 1) / 100;
		assert_false(contention_expires(&thread.contention, thread.now_ns, thread.found));
		assert_false(contention_slept(&thread.contention, thread.found));
	}
	thread.found++;
	assert_true(contention_expires(&thread.contention, thread.now_ns, thread.found));
	assert_false(contention_sleeps(&thread.contention));
}

/* What strangers have bought stays as it is, and is theirs the next time, too. */
static void wait__long_beside_strangers(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	assert_int_equal(sleeps(&thread), CONTENTION_SLEEPS_MIN);
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	assert_true(contention_sleeps(&thread.contention));
	thread.found++;
	assert_true(contention_expires(&thread.contention, thread.now_ns, thread.found));
	thread_loses(&thread);
	assert_int_equal(sleeps(&thread), 2 * CONTENTION_SLEEPS_MIN);
}

/* Who computes between two looks, and has slept in one of them for nothing, has no sleeps for some time, whoever has
 * its core; but if it has found something since, it computes with that. */
static void vain__kept_it_from_computing(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	contention_slept(&thread.contention, thread.found);
	assert_false(contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, 0));
	assert_false(contention_computed(&thread.contention, thread.now_ns, thread.found + 1));
	assert_false(contention_computed(&thread.contention, thread.now_ns, thread.found));
	assert_true(contention_sleeps(&thread.contention));
	assert_false(contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, 0));
	assert_true(contention_computed(&thread.contention, thread.now_ns, thread.found));
	for (uint64_t end_ns = thread.now_ns + CONTENTION_DENIED_NS; thread.now_ns + 3000000 < end_ns;) {
		assert_false(contention_sleeps(&thread.contention));
		contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
		assert_false(contention_sleeps(&thread.contention));
		thread_loses(&thread);
	}
	assert_false(contention_sleeps(&thread.contention));
	thread.now_ns += 3000000;
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	assert_true(contention_sleeps(&thread.contention));
}

/* Between sleeps that are used up and those that are bought next it polls, and that is no computing. */
static void vain__before_others_were_bought(void **state)
{
	struct thread thread = begun();

	(void)state;
	thread_loses_freely(&thread);
	thread_loses(&thread);
	contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, 0);
	while (!contention_slept(&thread.contention, thread.found))
		;
	thread_loses(&thread);
	assert_false(contention_computed(&thread.contention, thread.now_ns, thread.found));
	assert_true(contention_sleeps(&thread.contention));
	contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, 0);
	assert_true(contention_expires(&thread.contention, thread.now_ns + CONTENTION_AGE_NS, thread.found));
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	assert_false(contention_computed(&thread.contention, thread.now_ns, thread.found));
	assert_true(contention_sleeps(&thread.contention));
}

/* Nor has one beside which other threads of its process have run in each of some sleeps that were in vain. */
static void vain__while_others_ran(void **state)
{
	struct thread thread = begun();
	uint64_t others = 5;

	(void)state;
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	for (int i = 0; i < 10 * CONTENTION_OTHERS; i++) { /* now and then */
		others += i % CONTENTION_OTHERS > 0;
		assert_false(contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, others));
	}
	for (int i = 0; i < 10 * CONTENTION_OTHERS; i++) { /* while something comes now and then */
		thread.found += i % CONTENTION_OTHERS == 0;
		assert_false(contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, ++others));
	}
	thread.found++;
	for (int i = 0; i < CONTENTION_OTHERS; i++)
		assert_false(contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, ++others));
	assert_true(contention_sleeps(&thread.contention));
	assert_true(contention_slept_in_vain(&thread.contention, thread.now_ns, thread.found, ++others));
	assert_false(contention_sleeps(&thread.contention));
	thread.now_ns += CONTENTION_DENIED_NS - 1;
	contention_yielded(&thread.contention, thread.now_ns, CONTENTION_LONG_NS, thread.found);
	assert_false(contention_sleeps(&thread.contention));
}

/* ---- An endpoint ------------------------------------------------------------------------------------------------- */

enum { SOME = 200, LONG = 1000 }; /* polls */

static uint64_t clock_ns, run_ns, computed_ns;
static uint64_t maintain_ns; /* that each maintenance takes */
static long taken, beside; /* beside: how often the process's other threads have left their cores, */
static long besides;       /* and how often more at the next look */
static unsigned asked; /* how often for what the thread has run, which is a system call */
static uint32_t runnable = LONG; /* that want a core of the machine */
static const struct thole_endpoint *sleeper;
static struct pair *answering; /* b sends a byte as soon as anybody looks at the clock */

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __real_getrusage(__rusage_who_t who, struct rusage *usage);
int __wrap_getrusage(__rusage_who_t who, struct rusage *usage);
uint32_t __real_host_runnable(void);
uint32_t __wrap_host_runnable(void);
int __real_epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

static char byte;

static void answer(void)
{
	struct pair *pair = answering;

	answering = NULL;
	if (pair)
		assert_int_equal(thole_send(pair->b, pair->b_to_a, &byte, 1, 0, 0, THOLE_QUIET, NULL, NULL), 0);
}

/* Each look at the clock takes 100 ns; the thread runs only where a test says so. */
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t ns = id == CLOCK_THREAD_CPUTIME_ID ? run_ns : clock_ns;

	if (clock_ns == 0)
		return __real_clock_gettime(id, now);
	clock_ns += 100;
	asked += id == CLOCK_THREAD_CPUTIME_ID;
	answer();
	*now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	return 0;
}

int __wrap_getrusage(__rusage_who_t who, struct rusage *usage)
{
	int error = __real_getrusage(who, usage);

	usage->ru_nivcsw = taken;
	usage->ru_nvcsw = sleeper ? 100 * (long)endpoint_of(sleeper)->own_counters[COUNTER_SLEEPS] : 0;
	if (who == RUSAGE_SELF)
		usage->ru_nvcsw += beside += besides;
	return error;
}

/* As maintenance does. */
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	clock_ns += clock_ns ? maintain_ns : 0;
	run_ns += maintain_ns;
	return __real_epoll_wait(fd, events, most, timeout);
}

static unsigned runnable_asked; /* how often */

uint32_t __wrap_host_runnable(void)
{
	runnable_asked++;
	return runnable;
}

/* How long the last sleep was to be at most, seconds and nanoseconds; it ends at once. */
static int64_t sleep_most[2];

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number != SYS_epoll_pwait2)
		return __real_syscall(number, a, b, c, d, e, f);
	memcpy(sleep_most, (const void *)d, sizeof sleep_most);
	return 0;
}

/* A poll by a caller whose core others had for 3 ms, and who has computed for so long. Whether it slept in it, by which
 * it has left its core more often than others take it. */
static bool poll_sleeps(struct thole_endpoint *endpoint)
{
	uint64_t before = endpoint_of(endpoint)->own_counters[COUNTER_SLEEPS];

	clock_ns = (clock_ns ? clock_ns : clock_now_ns()) + 3000000;
	run_ns += computed_ns;
	taken++;
	sleeper = endpoint;
	assert_int_equal(thole_progress(endpoint), 0);
	return endpoint_of(endpoint)->own_counters[COUNTER_SLEEPS] > before;
}

/* Of so many such polls, how many slept. */
static unsigned polls(struct thole_endpoint *endpoint, unsigned count)
{
	unsigned slept = 0;

	for (unsigned i = 0; i < count; i++)
		slept += poll_sleeps(endpoint);
	return slept;
}

/* With something found between any two, so that it never waits for long. */
static unsigned polls_with_success(struct thole_endpoint *endpoint, unsigned count)
{
	unsigned slept = 0;

	for (unsigned i = 0; i < count; i++) {
		slept += poll_sleeps(endpoint);
		endpoint_of(endpoint)->calls++;
	}
	return slept;
}

static struct thole_request *waiting_begin(struct pair *pair)
{
	struct thole_request *receive;

	assert_int_equal(thole_recv(pair->a, pair->a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	return receive;
}

static void waiting_end(struct pair *pair, struct thole_request *receive)
{
	struct thole_completion completion;

	clock_ns = 0;
	sleeper = NULL;
	assert_int_equal(thole_send(pair->b, pair->b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, receive, &completion), 0);
	pair_close(pair);
}

static void endpoint__sleeps(const char *yield, unsigned least, unsigned most)
{
	const char *const options[] = {"network=off", yield, NULL};
	struct thole_request *receive;
	struct pair pair;

	computed_ns = 1000;
	pair_open(&pair, options);
	assert_int_equal(polls(pair.a, LONG), 0); /* it waits for nothing */
	receive = waiting_begin(&pair);
	assert_in_range(polls(pair.a, LONG), least, most);
	computed_ns = 1000000;
	assert_int_equal(polls(pair.a, LONG), 0); /* it computes between two polls */
	waiting_end(&pair, receive);
}

static void endpoint__sleeps_while_others_have_its_core(void **state)
{
	(void)state;
	endpoint__sleeps("yield=auto", CONTENTION_SLEEPS_MIN, LONG);
}

/* A receive of a's from b. They are connected, and a takes b, which is awake, for a process of this pid. */
static struct shm_peer *neighbours_begin(struct pair *pair, pid_t pid, struct thole_request **receive_p)
{
	const char *const options[] = {"network=off", NULL};
	struct thole_completion done;
	struct shm_peer *neighbour;

	pair_open(pair, options);
	*receive_p = waiting_begin(pair);
	answering = pair;
	answer();
	assert_int_equal(pair_finish(pair, pair->a, *receive_p, &done), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(thole_recv(pair->b, pair->b_to_a, &byte, 1, 0, 0, 0, NULL, receive_p), 0);
	assert_int_equal(pair_finish(pair, pair->b, *receive_p, &done), 0);
	*receive_p = waiting_begin(pair);
	neighbour = shm_link(&pair->a->peers[pair->a_to_b]->base);
	neighbour->pid = pid;
	computed_ns = 1000;
	return neighbour;
}

static void neighbours_end(struct pair *pair, struct shm_peer *neighbour, struct thole_request *receive)
{
	neighbour->pid = getpid();
	runnable = LONG;
	waiting_end(pair, receive);
}

/* It sleeps not while only its peer wants a core, too; but if somebody else does, be it in the peer's place, or if
 * nobody knows. */
static void endpoint__sleeps_for_strangers_only(void **state)
{
	struct thole_request *receive;
	struct shm_peer *neighbour;
	struct pair pair;

	(void)state;
	neighbour = neighbours_begin(&pair, getppid(), &receive);
	for (runnable = 1; runnable <= 2; runnable++)
		assert_int_equal(polls_with_success(pair.a, LONG), 0);
	assert_int_equal(runnable, 3);
	assert_in_range(polls_with_success(pair.a, SOME), CONTENTION_SLEEPS_MIN, SOME);
	neighbours_end(&pair, neighbour, receive);

	neighbour = neighbours_begin(&pair, getppid(), &receive);
	runnable = 2;
	assert_int_equal(polls_with_success(pair.a, LONG), 0);
	store_relaxed(&neighbour->out.segment->wake, 1);
	assert_in_range(polls_with_success(pair.a, SOME), CONTENTION_SLEEPS_MIN, SOME);
	neighbours_end(&pair, neighbour, receive);

	neighbour = neighbours_begin(&pair, getppid(), &receive);
	runnable = 0;
	assert_in_range(polls_with_success(pair.a, SOME), CONTENTION_SLEEPS_MIN, SOME);
	neighbours_end(&pair, neighbour, receive);
}

/* It shares its core with others of its job, and looks, until it sleeps or has looked for so long: us. */
static unsigned looks_until_sleep(struct thole_endpoint *endpoint, unsigned most)
{
	uint64_t before = endpoint_of(endpoint)->own_counters[COUNTER_SLEEPS], start_ns = clock_ns;

	while (endpoint_of(endpoint)->own_counters[COUNTER_SLEEPS] == before && clock_ns < start_ns + 1000u * most) {
		clock_ns += computed_ns;
		run_ns += computed_ns;
		assert_int_equal(thole_progress(endpoint), 0);
	}
	return (unsigned)((clock_ns - start_ns) / 1000);
}

/* Where others of its job want its core it sleeps after having waited for long, until what it waits for has come; if it
 * is the only one of its process, as far as it knows. */
static void endpoint__sleeps_until_found(const char *yield, bool shared, uint32_t endpoints, bool expected)
{
	const char *const options[] = {"network=off", yield, NULL};
	unsigned enough = 20 * CONTENTION_LONG_NS / 1000;
	struct thole_request *receive;
	struct thole_completion done;
	struct pair pair;

	computed_ns = 1000;
	pair_open(&pair, options);
	assert_int_equal(thole_endpoints_used, endpoint_of(pair.a)->used + endpoint_of(pair.b)->used);
	endpoint_of(pair.a)->used = endpoint_of(pair.b)->used = true; /* as far as they are concerned it stays so */
	thole_endpoints_used = endpoints;
	pair.a->base.oversubscribed = shared;
	receive = waiting_begin(&pair);
	clock_ns = clock_now_ns();
	for (int i = 0; i < 2; i++) {
		if (expected) {
			assert_in_range(looks_until_sleep(pair.a, enough), CONTENTION_LONG_NS / 1000, enough - 1);
			for (int j = 0; j < 5; j++)
				assert_in_range(looks_until_sleep(pair.a, enough), 1, CONTENTION_LONG_NS / 2000);
		} else {
			assert_in_range(looks_until_sleep(pair.a, enough), enough, enough + 10);
		}
		answering = &pair;
		answer();
		assert_int_equal(pair_finish(&pair, pair.a, receive, &done), 0);
		receive = waiting_begin(&pair);
	}
	computed_ns = 100000; /* it waits no more, but looks now and then */
	assert_in_range(looks_until_sleep(pair.a, enough), enough, 2 * enough);
	thole_endpoints_used = 2;
	waiting_end(&pair, receive);
	assert_int_equal(thole_endpoints_used, 0);
}

/* One that shares its core, and waits for long: it sleeps from now on. */
static struct thole_request *patient_begin(struct pair *pair)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;

	computed_ns = 1000;
	pair_open(pair, options);
	endpoint_of(pair->a)->used = endpoint_of(pair->b)->used = true;
	thole_endpoints_used = 1;
	pair->a->base.oversubscribed = true;
	receive = waiting_begin(pair);
	clock_ns = clock_now_ns();
	looks_until_sleep(pair->a, 20 * CONTENTION_LONG_NS / 1000);
	assert_int_equal(endpoint_of(pair->a)->own_counters[COUNTER_SLEEPS], 1);
	return receive;
}

/* It looks twice between two tasks of 50 us, as MUMPS does: after a first time it is no more kept from the next. */
static void endpoint__looks_between_tasks(void **state)
{
	struct thole_request *receive;
	struct pair pair;

	(void)state;
	receive = patient_begin(&pair);
	for (uint64_t end_ns = clock_ns + CONTENTION_DENIED_NS; clock_ns < end_ns;) {
		clock_ns += 50000;
		run_ns += 50000;
		assert_int_equal(thole_progress(pair.a), 0);
		assert_int_equal(thole_progress(pair.a), 0);
	}
	assert_int_equal(endpoint_of(pair.a)->own_counters[COUNTER_SLEEPS], 1);
	thole_endpoints_used = 2;
	waiting_end(&pair, receive);
}

/* It does nothing between two polls but to lose its core for a while. What a poll then does by itself, which may be
 * maintenance of many peers, is no computing of its caller's. */
static void endpoint__takes_long_to_maintain(void **state)
{
	struct thole_request *receive;
	struct pair pair;

	(void)state;
	receive = patient_begin(&pair);
	maintain_ns = 2 * CONTENTION_WAITING_NS;
	for (int i = 0; i < SOME; i++) {
		clock_ns += 2 * CADENCE_MAINTAIN_NS;
		run_ns += 1000;
		assert_int_equal(thole_progress(pair.a), 0);
		assert_int_equal(endpoint_of(pair.a)->own_counters[COUNTER_SLEEPS], 2 + i);
	}
	maintain_ns = 0;
	thole_endpoints_used = 2;
	waiting_end(&pair, receive);
}

/* What it holds while it sleeps, others of its process want: they have it between two polls. */
static void endpoint__is_polled_with_a_lock(void **state)
{
	struct thole_request *receive;
	struct pair pair;
	uint64_t slept;

	(void)state;
	receive = patient_begin(&pair);
	besides = 1;
	for (uint64_t end_ns = clock_ns + CONTENTION_DENIED_NS / 2; clock_ns < end_ns; clock_ns += 1000)
		assert_int_equal(thole_progress(pair.a), 0);
	besides = 0;
	slept = endpoint_of(pair.a)->own_counters[COUNTER_SLEEPS];
	assert_in_range(slept, CONTENTION_OTHERS, CONTENTION_OTHERS + 2);
	thole_endpoints_used = 2;
	waiting_end(&pair, receive);
}

static void endpoint__sleeps_while_peers_take_long(void **state)
{
	(void)state;
	endpoint__sleeps_until_found("yield=auto", true, 1, true);
}

static void endpoint__is_not_the_only_one(void **state)
{
	(void)state;
	endpoint__sleeps_until_found("yield=auto", true, 2, false);
}

static void endpoint__has_its_core(void **state)
{
	(void)state;
	endpoint__sleeps_until_found("yield=auto", false, 1, false);
}

static void endpoint__yields_for_good(void **state)
{
	(void)state;
	endpoint__sleeps_until_found("yield=always", true, 1, false);
}

/* One by which nothing comes does not keep another one awake. */
static void endpoint__is_used_by_what_comes(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_endpoint *third;
	struct thole_completion done;
	struct thole_request *receive;
	struct pair pair;
	char in, out = 1;

	(void)state;
	third = pair_endpoint(NULL, NULL, options);
	pair_open(&pair, options);
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, &in, 1, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &out, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, receive, &done), 0);
	for (int i = 0; i < 1000; i++) {
		thole_progress(pair.a);
		thole_progress(third);
	}
	assert_true(endpoint_of(pair.a)->used);
	assert_false(endpoint_of(third)->used);
	assert_int_equal(thole_endpoints_used, 1 + endpoint_of(pair.b)->used);
	thole_endpoint_close(third);
	pair_close(&pair);
	assert_int_equal(thole_endpoints_used, 0);
}

/* Nor does one that something came by only while it was closed, */
static void endpoint__is_used_no_more(void **state)
{
	static const char *const options[] = {"network=off", "close_timeout=20ms", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < 1000; i++) /* more than a ring holds */
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	endpoint_of(pair.a)->calls++;
	assert_false(endpoint_of(pair.a)->used);
	thole_endpoint_close(pair.a);
	thole_endpoint_close(pair.b);
	assert_int_equal(thole_endpoints_used, 0);
}

/* nor one of the process that this one was forked from. */
static void endpoint__is_not_used_in_a_child(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	thole_endpoints_used = 3;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit((int)thole_endpoints_used);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(thole_endpoints_used, 3);
	thole_endpoints_used = 0;
}

/* Until the kernel is asked about this thread. */
static void *polls_here(void *arg)
{
	struct thole_endpoint *endpoint = arg;
	unsigned count = 0;

	do {
		poll_sleeps(endpoint);
		endpoint_of(endpoint)->calls++; /* it never waits for long */
		assert_in_range(++count, 0, LONG);
	} while (!pthread_equal(endpoint_of(endpoint)->contention.usage.thread, pthread_self()));
	return NULL;
}

/* Threads that poll by turns lose nothing, as far as is known. */
static void endpoint__is_polled_by_several(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct pair pair;
	pthread_t thread;
	uint32_t losses;

	(void)state;
	computed_ns = 1000;
	pair_open(&pair, options);
	receive = waiting_begin(&pair);
	while (endpoint_of(pair.a)->contention.losses == 0)
		polls_here(pair.a);
	losses = endpoint_of(pair.a)->contention.losses;
	assert_int_equal(pthread_create(&thread, NULL, polls_here, pair.a), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(endpoint_of(pair.a)->contention.losses, losses);
	waiting_end(&pair, receive);
}

static uint32_t awake(const struct thole_endpoint *endpoint, uint32_t most)
{
	return transports[TRANSPORT_SHM]->awake(&endpoint->base, most);
}

/* Who sleeps is not awake, nor is this process itself; another one counts once. */
static void awake__processes(void **state)
{
	struct thole_completion done;
	struct thole_request *receive;
	struct shm_peer *neighbour, *second;
	struct pair pair;
	uint32_t self;

	(void)state;
	neighbour = neighbours_begin(&pair, getpid(), &receive);
	assert_int_equal(awake(pair.a, LONG), 0);
	neighbour->pid = getppid();
	assert_int_equal(awake(pair.a, LONG), 1);
	assert_int_equal(awake(pair.a, 0), 0);
	assert_int_equal(thole_arm(pair.b), 0);
	assert_int_equal(awake(pair.a, LONG), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(awake(pair.a, LONG), 1); /* it was woken */

	neighbour->pid = getpid(); /* so that the next one is of the same process, as they come */
	self = pair_peer(pair.a, pair.a);
	assert_int_equal(thole_send(pair.a, self, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(thole_recv(pair.a, self, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(pair_finish(&pair, pair.a, receive, &done), 0);
	second = shm_link(&pair.a->peers[self]->base);
	assert_int_equal(awake(pair.a, LONG), 0);
	neighbour->pid = getppid();
	assert_int_equal(awake(pair.a, LONG), 1);
	second->pid = 1;
	assert_int_equal(awake(pair.a, LONG), 2);
	assert_int_equal(awake(pair.a, 1), 1);
	second->pid = neighbour->pid;
	assert_int_equal(awake(pair.a, LONG), 1);
	second->pid = neighbour->pid = 0; /* of namespaces that nobody sees into from here */
	assert_int_equal(awake(pair.a, LONG), 2);
	second->pid = neighbour->pid = getpid();
	pair_close(&pair);
}

/* Whether those who want a core are peers is looked at only where it matters: not if nobody has taken this one, nor
 * while there are sleeps. */
static void awake__only_after_a_loss(void **state)
{
	const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct pair pair;

	(void)state;
	computed_ns = 1000;
	pair_open(&pair, options);
	receive = waiting_begin(&pair);
	runnable_asked = 0;
	for (int i = 0; i < LONG; i++) {
		taken--; /* nobody takes it */
		poll_sleeps(pair.a);
	}
	assert_true(endpoint_of(pair.a)->contention.asked_ns > 0);
	assert_int_equal(runnable_asked, 0);
	while (!contention_sleeps(&endpoint_of(pair.a)->contention))
		poll_sleeps(pair.a);
	assert_true(runnable_asked > 0);
	runnable_asked = 0;
	while (contention_sleeps(&endpoint_of(pair.a)->contention)) {
		assert_int_equal(runnable_asked, 0);
		poll_sleeps(pair.a);
	}
	waiting_end(&pair, receive);
}

enum { COMPUTING = 5 }; /* processes */

/* Who computes wants a core, whether it has one or waits for one; and threads of the kernel sleep, at least. */
static void runnable__by_the_kernel(void **state)
{
	pid_t children[COMPUTING];
	struct sysinfo info;
	uint32_t most = 0, now = 0;

	(void)state;
	for (int i = 0; i < COMPUTING; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			alarm(60);
			for (;;)
				;
		}
	}
	for (int i = 0; i < 1000 && most < COMPUTING + 1; i++) { /* they are about to begin */
		usleep(1000);
		most = __real_host_runnable();
	}
	assert_in_range(most, COMPUTING + 1, 1000000);
	assert_int_equal(sysinfo(&info), 0);
	for (int i = 0; i < 100 && !(now > COMPUTING && now < info.procs); i++)
		now = __real_host_runnable(); /* who changes cores just then counts twice, or not at all */
	assert_in_range(now, COMPUTING + 1, info.procs - 1);
	for (int i = 0; i < COMPUTING; i++) {
		assert_int_equal(kill(children[i], SIGKILL), 0);
		assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
	}
}

static void endpoint__gives_nothing_away(void **state)
{
	(void)state;
	endpoint__sleeps("yield=never", 0, 0);
}

/* The sleeps that it takes here say nothing of its caller: the first loss after them counts. */
static void endpoint__sleeps_of_ours_do_not_count(void **state)
{
	const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct pair pair;
	unsigned awake = 0;

	(void)state;
	computed_ns = 1000;
	pair_open(&pair, options);
	receive = waiting_begin(&pair);
	while (!poll_sleeps(pair.a))
		assert_in_range(++awake, 0, LONG);
	while (poll_sleeps(pair.a))
		;
	for (awake = 1; !poll_sleeps(pair.a); awake++)
		assert_in_range(awake, 1, 16); /* once in so many polls the clock is read */
	waiting_end(&pair, receive);
}

/* Nor when they are too old to be taken. */
static void endpoint__forgets_sleeps(void **state)
{
	const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct pair pair;
	unsigned awake;

	(void)state;
	computed_ns = 1000;
	pair_open(&pair, options);
	receive = waiting_begin(&pair);
	while (!poll_sleeps(pair.a))
		;
	assert_true(contention_sleeps(&endpoint_of(pair.a)->contention));
	clock_ns += CONTENTION_AGE_NS;
	taken--; /* this time nobody takes it */
	assert_false(poll_sleeps(pair.a));
	assert_false(contention_sleeps(&endpoint_of(pair.a)->contention));
	for (awake = 1; !poll_sleeps(pair.a); awake++)
		assert_in_range(awake, 1, 16);
	waiting_end(&pair, receive);
}

/* While it sleeps nothing gets on at others of its process: not for long, then. */
static void endpoint__sleeps_shortly_beside_others(void **state)
{
	static const struct {
		uint32_t used;
		int64_t least_ns, most_ns;
	} cases[] = {
		{0, CONTENTION_SLEEP_BESIDE_NS + 1, CONTENTION_SLEEP_NS},
		{1, CONTENTION_SLEEP_BESIDE_NS / 2, CONTENTION_SLEEP_BESIDE_NS},
	};
	const char *const options[] = {"network=off", NULL};

	(void)state;
	computed_ns = 1000;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thole_request *receive;
		struct pair pair;

		pair_open(&pair, options);
		receive = waiting_begin(&pair);
		thole_endpoints_used += cases[i].used;
		while (!poll_sleeps(pair.a))
			;
		assert_int_equal(sleep_most[0], 0);
		assert_in_range(sleep_most[1], cases[i].least_ns, cases[i].most_ns);
		thole_endpoints_used -= cases[i].used;
		waiting_end(&pair, receive);
	}
}

/* One turn of others is enough: if the caller has yielded, Thole does not. That others ran by Thole's own yield says
 * nothing of the caller. */
static void endpoint__yields_for_who_does_not(void **state)
{
	const char *const options[] = {"network=off", NULL};
	const struct {
		int every;     /* so many polls others have had the core, */
		bool by_thole; /* and after each yield of Thole's */
		unsigned least, most;
	} cases[] = {
		{50, false, 0, 0},
		{50, true, 0, 0},
		{LONG, false, LONG / 100 - 2, LONG},
		{LONG, true, LONG / 100 - 2, LONG},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct thole_request *receive;
		uint64_t *yields, before;
		struct pair pair;

		pair_open(&pair, options);
		pair.a->base.oversubscribed = true;
		receive = waiting_begin(&pair);
		clock_ns = clock_now_ns();
		yields = &endpoint_of(pair.a)->own_counters[COUNTER_YIELDS];
		before = *yields;
		for (int poll = 0; poll < LONG; poll++) {
			uint64_t had = *yields;

			taken += poll % cases[i].every == 0;
			assert_int_equal(thole_poll(pair.a, NULL, 0), 0);
			taken += cases[i].by_thole && *yields > had;
		}
		assert_in_range(*yields - before, cases[i].least, cases[i].most);
		waiting_end(&pair, receive);
	}
}

/* Where no sleep is taken, since its caller's lock would be held meanwhile, it yields as before, and what was bought is
 * forgotten in time. */
static void endpoint__yields_where_it_cannot_sleep(void **state)
{
	const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct pair pair;
	uint64_t yields;

	(void)state;
	computed_ns = 1000;
	pair_open(&pair, options);
	pair.a->base.oversubscribed = true;
	receive = waiting_begin(&pair);
	sleeper = pair.a;
	clock_ns = clock_now_ns();
	for (int i = 0; !contention_sleeps(&endpoint_of(pair.a)->contention); i++, clock_ns += 3000000, taken++) {
		assert_in_range(i, 0, LONG);
		assert_int_equal(thole_poll(pair.a, NULL, 0), 0);
	}
	for (int i = 0; i < 100; i++) /* until a yield is due for which there is none, as others have had the core */
		assert_int_equal(thole_poll(pair.a, NULL, 0), 0);
	yields = endpoint_of(pair.a)->own_counters[COUNTER_YIELDS];
	for (int i = 0; i < LONG; i++)
		assert_int_equal(thole_poll(pair.a, NULL, 0), 0);
	assert_in_range(endpoint_of(pair.a)->own_counters[COUNTER_YIELDS] - yields, LONG / 100, LONG);
	assert_true(contention_sleeps(&endpoint_of(pair.a)->contention));
	assert_int_equal(endpoint_of(pair.a)->own_counters[COUNTER_SLEEPS], 0);
	clock_ns += CONTENTION_AGE_NS;
	pair.a->base.oversubscribed = false; /* else it has waited for long, which is another reason */
	for (int i = 0; i < LONG; i++)
		assert_int_equal(thole_poll(pair.a, NULL, 0), 0);
	assert_false(contention_sleeps(&endpoint_of(pair.a)->contention));
	waiting_end(&pair, receive);
}

/* As long as each answer comes while it looks, and it is back at once, it asks the kernel for nothing. */
static void endpoint__asks_nothing_while_answers_come(void **state)
{
	const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct thole_completion done;
	struct pair pair;
	unsigned before;

	(void)state;
	computed_ns = 1000;
	pair_open(&pair, options);
	receive = waiting_begin(&pair);
	answering = &pair;
	answer(); /* which connects them */
	assert_int_equal(pair_finish(&pair, pair.a, receive, &done), 0);
	receive = waiting_begin(&pair);
	while (!poll_sleeps(pair.a))
		;
	before = asked;
	for (int i = 0; i < LONG; i++) {
		assert_true(contention_sleeps(&endpoint_of(pair.a)->contention));
		answering = &pair;
		if (thole_progress(pair.a) == 0) /* perhaps the end of a round of reads */
			assert_int_equal(thole_progress(pair.a), 1);
		assert_int_equal(thole_test(pair.a, receive, &done), 1);
		receive = waiting_begin(&pair);
	}
	assert_in_range(asked - before, 0, 1); /* once about the absence before */
	waiting_end(&pair, receive);
}

/* How often maintenance comes to one that polls in vain once a microsecond of our clock, in so many of them. */
static unsigned maintenances(struct thole_endpoint *endpoint, bool shared, unsigned microseconds)
{
	unsigned count = 0;

	endpoint->base.oversubscribed = shared;
	for (unsigned i = 0; i < microseconds; i++) {
		uint64_t before_ns = endpoint_of(endpoint)->cadence.maintained_ns;

		clock_ns += 1000;
		assert_int_equal(thole_progress(endpoint), 0);
		count += endpoint_of(endpoint)->cadence.maintained_ns != before_ns;
	}
	return count;
}

/* One whose core others of its job wait for leaves them most of it: there maintenance is rarer. */
static void endpoint__maintains_less_where_cores_are_shared(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	const struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;

	(void)state;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	clock_ns = clock_now_ns();
	maintenances(endpoint, false, 100);
	assert_in_range(maintenances(endpoint, false, 2000), 40, 100);
	assert_in_range(maintenances(endpoint, true, 2000), 10, 20);
	clock_ns = 0;
	thole_endpoint_close(endpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss__buys_sleeps),
		cmocka_unit_test(loss__none_while_it_is_back_soon),
		cmocka_unit_test(loss__none_of_who_computes_or_sleeps),
		cmocka_unit_test(loss__none_before_the_first_look),
		cmocka_unit_test(loss__again),
		cmocka_unit_test(loss__worth_it),
		cmocka_unit_test(loss__to_peers),
		cmocka_unit_test(loss__to_peers_changes_nothing),
		cmocka_unit_test(loss__of_another_thread),
		cmocka_unit_test(wait__long),
		cmocka_unit_test(wait__long_beside_strangers),
		cmocka_unit_test(vain__kept_it_from_computing),
		cmocka_unit_test(vain__before_others_were_bought),
		cmocka_unit_test(vain__while_others_ran),
		cmocka_unit_test(loss__is_forgotten),
		cmocka_unit_test(endpoint__sleeps_while_others_have_its_core),
		cmocka_unit_test(endpoint__sleeps_of_ours_do_not_count),
		cmocka_unit_test(endpoint__forgets_sleeps),
		cmocka_unit_test(endpoint__sleeps_shortly_beside_others),
		cmocka_unit_test(endpoint__sleeps_for_strangers_only),
		cmocka_unit_test(endpoint__sleeps_while_peers_take_long),
		cmocka_unit_test(endpoint__looks_between_tasks),
		cmocka_unit_test(endpoint__takes_long_to_maintain),
		cmocka_unit_test(endpoint__is_polled_with_a_lock),
		cmocka_unit_test(endpoint__is_not_the_only_one),
		cmocka_unit_test(endpoint__is_polled_by_several),
		cmocka_unit_test(endpoint__is_used_by_what_comes),
		cmocka_unit_test(endpoint__is_used_no_more),
		cmocka_unit_test(endpoint__is_not_used_in_a_child),
		cmocka_unit_test(endpoint__has_its_core),
		cmocka_unit_test(endpoint__yields_for_good),
		cmocka_unit_test(awake__processes),
		cmocka_unit_test(awake__only_after_a_loss),
		cmocka_unit_test(runnable__by_the_kernel),
		cmocka_unit_test(endpoint__gives_nothing_away),
		cmocka_unit_test(endpoint__yields_for_who_does_not),
		cmocka_unit_test(endpoint__yields_where_it_cannot_sleep),
		cmocka_unit_test(endpoint__asks_nothing_while_answers_come),
		cmocka_unit_test(endpoint__maintains_less_where_cores_are_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
