/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the process: descriptors of many local peers have numbers that the program could not have had, and where
 * no more are permitted, or files may not be so long, there is an error that says so; no signal, and nobody waits for
 * ever. Each case is a child's, since a limit that was lowered stays so.
 */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "base/limits.h"

static const char *const local[] = {"network=off", NULL};

enum { SOFT = 64, HARD = 500 /* no power of 2 times the soft one */ };

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, thole_detail()); \
			_exit(1); \
		} \
	} while (0)

static void in_child(void (*test)(void))
{
	pid_t child = fork();

	if (child == 0) {
		test();
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
}

static void limit_set(__rlimit_resource_t what, rlim_t soft, rlim_t hard)
{
	MUST(setrlimit(what, &(struct rlimit){soft, hard}) == 0);
}

static rlim_t soft_limit(void)
{
	struct rlimit limit;

	MUST(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	return limit.rlim_cur;
}

/* Descriptors of the program's, until as many numbers are left. */
static void take_all_but(rlim_t limit, int left)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd < (int)limit - left - 1);
	MUST(fd >= 0);
}

static int send_number(struct thole_endpoint *endpoint, uint32_t peer)
{
	static const uint64_t number = 7;

	return thole_send(endpoint, peer, &number, sizeof(number), 1, 0, 0, NULL, NULL);
}

/* ---- Numbers of descriptors ------------------------------------------------------------------------ */

static void grow(void)
{
	int fd, last = -1;

	limit_set(RLIMIT_NOFILE, SOFT, HARD);
	MUST(limits_descriptor(-1) == -1);
	fd = limits_descriptor(open("/dev/null", O_RDONLY));
	MUST(fd >= 0 && fd < SOFT / 2 && soft_limit() == SOFT); /* few were taken: as it was */
	take_all_but(SOFT, SOFT / 4);
	while (last < HARD - 1) {
		errno = EDOM;
		fd = limits_descriptor(open("/dev/null", O_RDONLY));
		MUST(fd >= SOFT && fd > last && errno == EDOM);
		MUST(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		last = fd;
	}
	MUST(soft_limit() == HARD);
	/* All of those are taken; what is left are the program's. */
	fd = limits_descriptor(open("/dev/null", O_RDONLY));
	MUST(fd >= 0 && fd < SOFT);
}

static void descriptors__beyond_the_programs(void **state)
{
	(void)state;
	in_child(grow);
}

static void unnoticed(void)
{
	int fd;

	MUST(limits_unnoticed(-1) == -1);
	limit_set(RLIMIT_NOFILE, FD_SETSIZE, FD_SETSIZE);
	errno = EDOM;
	fd = limits_unnoticed(open("/dev/null", O_RDONLY));
	MUST(fd >= 0 && fd < FD_SETSIZE && errno == EDOM && soft_limit() == FD_SETSIZE);
}

static void unnoticed_high(void)
{
	int low, fd;

	limit_set(RLIMIT_NOFILE, 2 * FD_SETSIZE, 2 * FD_SETSIZE);
	low = open("/dev/null", O_RDONLY);
	fd = limits_unnoticed(low);
	MUST(fd >= FD_SETSIZE && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	MUST(fcntl(low, F_GETFD) == -1);
}

static void descriptors__nobody_notices(void **state)
{
	(void)state;
	in_child(unnoticed);
	in_child(unnoticed_high);
}

enum { STREAMS = 3 };

static int streams_closed(void)
{
	int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 2 * STREAMS);

	MUST(kept >= 0);
	for (int fd = 0; fd < STREAMS; fd++)
		close(fd);
	return kept;
}

/* Whether they are free still, and 2 is what is kept of it again. */
static bool streams_are_closed(int kept)
{
	bool closed = true;

	for (int fd = 0; fd < STREAMS; fd++)
		closed &= fcntl(fd, F_GETFD) == -1;
	MUST(dup2(kept, STDERR_FILENO) == STDERR_FILENO);
	return closed;
}

static void no_stream(void)
{
	int kept, fds[2 * STREAMS];

	limit_set(RLIMIT_NOFILE, FD_SETSIZE, FD_SETSIZE);
	MUST(limits_own(-1) == -1);
	fds[0] = open("/dev/null", O_RDONLY);
	MUST(limits_own(fds[0]) == fds[0]);
	kept = streams_closed();
	errno = EDOM;
	for (int i = 0; i < STREAMS; i++)
		fds[i] = limits_own(open("/dev/null", O_RDONLY));
	fds[STREAMS] = limits_unnoticed(open("/dev/null", O_RDONLY));
	fds[STREAMS + 1] = limits_descriptor(open("/dev/null", O_RDONLY));
	MUST(errno == EDOM && streams_are_closed(kept));
	for (int i = 0; i < STREAMS + 2; i++)
		MUST(fds[i] >= STREAMS && fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
	/* No other number is left: none. */
	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	take_all_but(SOFT, 0);
	close(0);
	MUST(limits_own(open("/dev/null", O_RDONLY)) == -1 && errno == EMFILE);
	MUST(fcntl(0, F_GETFD) == -1);
}

/* Two that have all that they open for each other, by each way. */
static void no_stream_of_endpoints(void)
{
	static const char *const network[] = {"shm=off", "interface=lo", "link=udp", NULL};
	const char *const *ways[] = {local, network};

	for (int i = 0; i < 2; i++) {
		int kept = streams_closed();
		struct thole_request *request;
		uint64_t number = 0;
		struct pair pair;
		bool slept;

		pair_open(&pair, ways[i]);
		slept = thole_fd(pair.a) >= STREAMS && thole_arm(pair.a) >= 0;
		MUST(send_number(pair.a, pair.a_to_b) == 0 && send_number(pair.b, pair.b_to_a) == 0);
		MUST(thole_recv(pair.b, pair.b_to_a, &number, sizeof(number), 0, 0, 0, NULL, &request) == 0);
		for (int turn = 0; turn < PAIR_TURNS_MAX && thole_test(pair.b, request, NULL) == 0; turn++)
			pair_progress(&pair, 1);
		MUST(streams_are_closed(kept));
		MUST(number == 7 && slept);
		pair_close(&pair);
	}
}

static void descriptors__are_no_streams(void **state)
{
	(void)state;
	in_child(no_stream);
	in_child(no_stream_of_endpoints);
}

static void no_growth(void)
{
	int fd;

	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	take_all_but(SOFT, 1);
	fd = limits_descriptor(open("/dev/null", O_RDONLY));
	MUST(fd == SOFT - 1 && soft_limit() == SOFT);
}

static void descriptors__as_the_hard_limit_permits(void **state)
{
	(void)state;
	in_child(no_growth);
}

/* ---- Peers -------------------------------------------------------------------------------------------- */

static void many_peers(void)
{
	struct thole_endpoint *endpoints[SOFT], *center;
	uint64_t number;

	limit_set(RLIMIT_NOFILE, 4096, 4096);
	center = pair_endpoint(NULL, NULL, local);
	for (int i = 0; i < SOFT; i++)
		endpoints[i] = pair_endpoint(NULL, NULL, local);
	/* Numbers as they are now, and half as many again: fewer than the connections take. */
	limit_set(RLIMIT_NOFILE, (rlim_t)open("/dev/null", O_RDONLY) * 3 / 2, 4096);
	for (int i = 0; i < SOFT; i++) {
		struct thole_request *request;

		MUST(send_number(center, pair_peer(center, endpoints[i])) == 0);
		MUST(thole_recv(endpoints[i], THOLE_ANY, &number, sizeof(number), 0, 0, 0, NULL, &request) == 0);
		for (int turn = 0; turn < PAIR_TURNS_MAX && thole_test(endpoints[i], request, NULL) == 0; turn++)
			thole_progress(center);
	}
	MUST(open("/dev/null", O_RDONLY) >= 0);
}

static void peers__more_than_the_soft_limit(void **state)
{
	(void)state;
	in_child(many_peers);
}

/* Whatever it is of an endpoint that finds none left says so. */
static void too_few_to_open(void)
{
	static const char *const everything[] = {"network=on", "progress_thread=on", NULL};
	struct thole_endpoint_attr attr = {.options = everything};
	struct thole_endpoint *endpoint = NULL;
	int refused = 0;

	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	take_all_but(SOFT, 0);
	for (int left = 0; left < SOFT / 2 && !endpoint; left++) {
		int error = thole_endpoint_open(&attr, &endpoint);

		if (error) {
			MUST(error == THOLE_ERR_SYSTEM && strstr(thole_detail(), "ulimit -Hn"));
			refused++;
		}
		close(SOFT - 1 - left);
	}
	MUST(endpoint && refused > 4);
	thole_endpoint_close(endpoint);
}

static void endpoint__finds_no_descriptor(void **state)
{
	(void)state;
	in_child(too_few_to_open);
}

static void no_peers(void)
{
	struct thole_completion done;
	struct thole_request *request;
	bool told = false, ended = false;
	struct pair pair;
	int number;

	pair_open(&pair, local);
	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	take_all_but(SOFT, 0);
	MUST(send_number(pair.a, pair.a_to_b) == THOLE_ERR_SYSTEM);
	MUST(strstr(thole_detail(), "ulimit -Hn"));
	close(SOFT - 1);
	MUST(send_number(pair.a, pair.a_to_b) == THOLE_ERR_SYSTEM);
	MUST(strstr(thole_detail(), "ulimit -Hn"));
	/* Two are enough for who begins. The other side has none for him, and says so by its end of the connection;
	 * what was sent until then it waits for no more. */
	close(SOFT - 1);
	close(SOFT - 2);
	MUST(thole_recv(pair.b, pair.b_to_a, &number, sizeof(number), 0, 0, 0, NULL, &request) == 0);
	MUST(send_number(pair.a, pair.a_to_b) == 0);
	for (int i = 0; i < PAIR_TURNS_MAX; i++) {
		struct thole_peer_info info;

		pair_progress(&pair, 1);
		MUST(thole_peer_info(pair.a, pair.a_to_b, &info) == 0);
		told |= strcmp(info.state, "gone") == 0;
		ended |= !ended && thole_test(pair.b, request, &done) == 1;
		if (told && ended) {
			MUST(done.status == THOLE_ERR_PEER);
			return;
		}
	}
	MUST(told && "it is told that it is not connected");
	MUST(ended && "who waits for it is told");
}

static void peers__no_more_than_the_hard_limit(void **state)
{
	(void)state;
	in_child(no_peers);
}

static char told[256];

static void note_trouble(const struct transport_owner *owner)
{
	(void)owner;
	snprintf(told, sizeof(told), "%s", thole_detail());
}

/* b has a descriptor for the connection, and the spare one for what comes with the greeting, or none: a's message. */
static void one_descriptor(bool spare)
{
	struct thole_completion done = {.status = THOLE_ERR_TIMEOUT};
	struct thole_request *request;
	struct pair pair;
	uint64_t number = 0;

	pair_open(&pair, local);
	pair.b->base.trouble = note_trouble;
	if (!spare) {
		close(shm_of(&pair.b->base)->spare_fd);
		shm_of(&pair.b->base)->spare_fd = -1;
	}
	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	take_all_but(SOFT, 3); /* two are a's */
	MUST(thole_recv(pair.b, pair.b_to_a, &number, sizeof(number), 0, 0, 0, NULL, &request) == 0);
	MUST(send_number(pair.a, pair.a_to_b) == 0);
	for (int i = 0; i < PAIR_TURNS_MAX && thole_test(pair.b, request, &done) == 0; i++)
		pair_progress(&pair, 1);
	MUST(done.status == (spare ? 0 : THOLE_ERR_PEER));
	MUST(number == (spare ? 7 : 0));
	MUST(shm_of(&pair.b->base)->spare_fd >= 0 || !spare);
}

static void one_and_the_spare(void)
{
	one_descriptor(true);
	MUST(told[0] == 0);
}

static void one_alone(void)
{
	one_descriptor(false);
	MUST(strstr(told, "ulimit -Hn"));
}

/* A greeting whose descriptor finds no place is read all the same. */
static void peers__by_the_last_descriptor(void **state)
{
	(void)state;
	in_child(one_and_the_spare);
	in_child(one_alone);
}

/* Who has ended is seen to have, though nothing is left to connect to him with. */
static void no_descriptor(void)
{
	static const char *const options[] = {"network=off", "peer_timeout=100ms", NULL};
	struct thole_completion done = {.status = 0};
	struct thole_request *request;
	struct pair pair;
	uint64_t number;

	pair_open(&pair, options);
	MUST(thole_recv(pair.a, pair.a_to_b, &number, sizeof(number), 0, 0, 0, NULL, &request) == 0);
	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	take_all_but(SOFT, 0);
	pair.a->base.trouble = note_trouble;
	while (!told[0])
		pair_progress(&pair, 1);
	MUST(thole_test(pair.a, request, NULL) == 0);
	thole_endpoint_close(pair.b);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	MUST(thole_wait(pair.a, request, INT64_C(10000000000), &done) == 0);
	MUST(done.status == THOLE_ERR_PEER);
	MUST(shm_of(&pair.a->base)->spare_fd >= 0);
}

/* Also where connecting to him had begun. */
static void no_descriptor_later(void)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_completion done = {.status = 0};
	struct thole_request *request;
	struct pair pair;

	pair_open(&pair, options);
	limit_set(RLIMIT_NOFILE, SOFT, SOFT);
	shm_of(&pair.a->base)->held_ns = UINT64_MAX;
	MUST(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request) == 0);
	take_all_but(SOFT, 0);
	thole_endpoint_close(pair.b);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	shm_of(&pair.a->base)->held_ns = 0;
	MUST(thole_wait(pair.a, request, INT64_C(10000000000), &done) == 0);
	MUST(done.status == THOLE_ERR_PEER);
	MUST(shm_of(&pair.a->base)->spare_fd >= 0);
}

static void peers__that_have_ended_are_seen(void **state)
{
	(void)state;
	in_child(no_descriptor);
	in_child(no_descriptor_later);
}

/* ---- Sizes of files ------------------------------------------------------------------------------------ */

static void short_files(void)
{
	struct pair pair;

	limit_set(RLIMIT_FSIZE, 4096, RLIM_INFINITY);
	MUST(limits_file(4096) && !limits_file(4097) && errno == EFBIG);
	pair_open(&pair, local);
	MUST(send_number(pair.a, pair.a_to_b) == THOLE_ERR_SYSTEM);
	MUST(strstr(thole_detail(), "ulimit -f"));
	limit_set(RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY);
	MUST(limits_file(UINT64_MAX));
	MUST(send_number(pair.a, pair.a_to_b) == 0);
	pair_close(&pair);
}

static void remedy__is_of_the_limit(void **state)
{
	char text[LIMITS_REMEDY_MAX];

	(void)state;
	assert_non_null(strstr(limits_remedy(EMFILE, text), "ulimit -Hn"));
	assert_non_null(strstr(limits_remedy(EFBIG, text), "ulimit -f"));
	assert_non_null(strstr(limits_remedy(EAGAIN, text), "pids.max"));
	assert_string_equal(limits_remedy(EPERM, text), "");
}

static void files__too_short_for_a_segment(void **state)
{
	(void)state;
	in_child(short_files);
}

/* Signals are blocked while the kernel allocates, and no longer: those that were blocked before, and no others. */
static void files__signals_as_before(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	sigset_t before, after;

	(void)state;
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	assert_int_equal(limits_allocate(fd, 0, 4096), 0);
	errno = 0;
	assert_int_equal(limits_allocate(-1, 0, 4096), -1);
	assert_int_equal(errno, EBADF);
	sigemptyset(&before);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
	for (int signal = 1; signal < 32; signal++)
		assert_int_equal(sigismember(&after, signal), signal == SIGUSR1);
	close(fd);
}

static volatile sig_atomic_t trapped;

static void trap(int signal)
{
	(void)signal;
	trapped++;
}

/* A sandbox that answers calls in a handler of the program's. */
static void trapped_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	int fd = memfd_create("test", MFD_CLOEXEC);

	MUST(signal(SIGSYS, trap) != SIG_ERR);
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	errno = 0;
	limits_allocate(fd, 0, 4096);
	MUST(trapped == 1);
}

static void files__calls_that_a_handler_answers(void **state)
{
	(void)state;
	in_child(trapped_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors__beyond_the_programs),
		cmocka_unit_test(descriptors__as_the_hard_limit_permits),
		cmocka_unit_test(descriptors__nobody_notices),
		cmocka_unit_test(descriptors__are_no_streams),
		cmocka_unit_test(peers__more_than_the_soft_limit),
		cmocka_unit_test(endpoint__finds_no_descriptor),
		cmocka_unit_test(peers__no_more_than_the_hard_limit),
		cmocka_unit_test(peers__by_the_last_descriptor),
		cmocka_unit_test(peers__that_have_ended_are_seen),
		cmocka_unit_test(files__too_short_for_a_segment),
		cmocka_unit_test(remedy__is_of_the_limit),
		cmocka_unit_test(files__signals_as_before),
		cmocka_unit_test(files__calls_that_a_handler_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
