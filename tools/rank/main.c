/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole-rank: what `thole run --check` puts before the program of each rank. It starts the program, waits for it, and
 * says in lines on its standard error whether it used Thole and how much; launchers carry these to `thole run` from
 * any host. It does nothing else: input, output, signals and exit status are the program's. A program that has become a
 * daemon goes on in a process that it left: that one is waited for as well.
 *
 * A line is [thole TOKEN name=value ... why=TEXT], written at once. Its state is one of: refused (the program is not
 * started), started, began (it has an endpoint), ended, without (it ended and never had one). What a rank counted is
 * in memory that this process made, so that it is there however the rank ends; one that is killed together with its
 * rank has said that it began.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "endpoint/report.h"
#include "evidence.h"
#include "thole.h"

enum {
	LINE_MAX_BYTES = 2048,    /* below PIPE_BUF, so that no other writer's text comes between */
	LOOK_FIRST_NS = 10000000, /* between looks for an endpoint: from a short program's start */
	LOOK_LAST_NS = 1000000000,
	ORPHAN_LOOKS = 30, /* of that length, for an endpoint in what the program has left running */
	LIFE_LEAST_NS = 300000000, /* of ours: launchers lose what a rank said that ends while they start others */
	STATUS_REFUSED = 1,
	STATUS_CANNOT_RUN = 127
};

struct rank {
	const char *token;
	char **expected, **program;
	struct report *report;
	struct evidence evidence, at_opening; /* the announcer's */
	struct timespec begun;
	pid_t process;
	bool grouped; /* the launcher made a process group of its own for its ranks */
	pthread_t announcer;
	_Atomic bool ended;
};

/* Which rank this is, and of how many, as launchers tell; those that start the servers of others come last. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK",
					 "JSM_NAMESPACE_RANK", "PALS_RANKID", "SLURM_PROCID", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE",
					 "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", NULL};
static const enum counter shown[] = {COUNTER_SHM_MESSAGES, COUNTER_SHM_BYTES, COUNTER_VERBS_MESSAGES,
				     COUNTER_VERBS_BYTES, COUNTER_VERBS_OVER, COUNTER_NETWORK_MESSAGES,
				     COUNTER_NETWORK_BYTES, COUNTER_FRAMES_SENT, COUNTER_FRAMES_RAW,
				     COUNTER_FRAMES_DRIVER};

/* ---- Saying ----------------------------------------------------------------------------------- */

static const char *first_of(const char *const *names)
{
	for (; *names; names++)
		if (getenv(*names))
			return getenv(*names);
	return "";
}

static void rank_say(const struct rank *rank, const char *state, const char *more, const char *why)
{
	char line[LINE_MAX_BYTES], host[256] = "";
	int length;

	gethostname(host, sizeof(host) - 1);
	length = snprintf(line, sizeof(line) - 2, "[thole %s rank=%.20s of=%.20s host=%.64s state=%s%s why=%s",
			  rank->token, first_of(rank_names), first_of(size_names), host, state, more, why);
	if (length > (int)sizeof(line) - 3)
		length = (int)sizeof(line) - 3;
	for (char *mark = line; (mark = strpbrk(mark, "]\n")); mark++)
		*mark = ' ';
	memcpy(line + length, "]\n", 2);
	/* The program, which has it too, may have made it one that does not wait. */
	while (write(STDERR_FILENO, line, (size_t)length + 2) < 0 && (errno == EINTR || errno == EAGAIN))
		poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
}

static struct timespec time_after(struct timespec time, long ns)
{
	time.tv_sec += (time.tv_nsec + ns) / 1000000000;
	time.tv_nsec = (time.tv_nsec + ns) % 1000000000;
	return time;
}

/* And then no more. Hydra ends by SIGPIPE if a rank has ended before it is through with starting it, and what it said
 * is lost. */
static void rank_say_last(const struct rank *rank, const char *state, const char *more, const char *why)
{
	struct timespec least = time_after(rank->begun, LIFE_LEAST_NS);

	rank_say(rank, state, more, why);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &least, NULL);
}

/* What of its endpoints has failed first, or that they were not what was meant; "": nothing. The program, which writes
 * it, may be any. */
static const char *rank_trouble(const struct rank *rank)
{
	static char text[REASON_MAX];

	if (rank->report->troubled)
		snprintf(text, sizeof(text), "%.*s", REPORT_REASON_MAX - 1, rank->report->trouble);
	else if (*rank->at_opening.ucx)
		evidence_ucx(&rank->at_opening, text);
	return text;
}

static void rank_say_end(const struct rank *rank)
{
	char more[512], reason[REASON_MAX];
	uint32_t places = rank->report->joined < REPORT_PLACES ? rank->report->joined : REPORT_PLACES;
	int length = snprintf(more, sizeof(more), " endpoints=%u", rank->report->opened);

	if (!rank->report->opened) {
		evidence_reason(&rank->evidence, rank->report, rank->program[0], reason);
		rank_say_last(rank, "without", "", reason);
		return;
	}
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		struct thole_counter_info info;
		uint64_t sum = 0;

		thole_counter_info(shown[i], &info);
		for (uint32_t place = 0; place < places; place++)
			sum += rank->report->places[place][shown[i]];
		length += snprintf(more + length, sizeof(more) - (size_t)length, " %s=%llu", info.name,
				   (unsigned long long)sum);
	}
	rank_say_last(rank, "ended", more, rank_trouble(rank));
}

/* ---- The program ------------------------------------------------------------------------------ */

/* Where endpoints of the program count: memory of ours, that they find by a name which is gone with us, or where they
 * may not look, by the descriptor itself, which the program inherits. */
static int report_make(struct rank *rank)
{
	int fd = memfd_create("thole-rank", MFD_ALLOW_SEALING);
	char path[64];

	if (fd < 0 || !limits_file(sizeof(*rank->report)) || ftruncate(fd, sizeof(*rank->report)) != 0 ||
	    limits_allocate(fd, 0, sizeof(*rank->report)) != 0 || /* else the program's first count may be SIGBUS */
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return -1;
	rank->report = mmap(NULL, sizeof(*rank->report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rank->report == MAP_FAILED)
		return -1;
	report_init(rank->report);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	/* The second is for programs with capabilities, whose endpoints read no other. */
	return setenv("THOLE_REPORT", path, 1) != 0 || setenv("FI_THOLE_REPORT", path, 1) != 0 ? -1 : 0;
}

/* Why there is none, as errno says, and what to do. */
static void report_reason(int error, char reason[REASON_MAX])
{
	char remedy[LIMITS_REMEDY_MAX];

	snprintf(reason, REASON_MAX, "it has no memory file to count in: %s%s", strerror(error),
		 limits_remedy(error, remedy));
}

/* In the child: it does not return. Where there is no such program, errno goes into the pipe. */
static _Noreturn void program_run(char **program, const sigset_t *mask, int said)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* launchers may kill only the process that they know */
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(program[0], program);
	if (write(said, &errno, sizeof(errno)) < 0)
		perror(program[0]);
	_exit(STATUS_CANNOT_RUN);
}

/* Start the program: 0, or an errno and why it does not run. */
static int program_start(struct rank *rank, const sigset_t *mask, char reason[REASON_MAX])
{
	char remedy[LIMITS_REMEDY_MAX];
	int said[2], error = 0;

	if (pipe2(said, O_CLOEXEC) != 0 || (rank->process = fork()) < 0) {
		error = errno;
		snprintf(reason, REASON_MAX, "there is no process for it: %s%s", strerror(error),
			 limits_remedy(error, remedy));
		return error;
	}
	if (rank->process == 0)
		program_run(rank->program, mask, said[1]);
	close(said[1]);
	while (read(said[0], &error, sizeof(error)) < 0 && errno == EINTR)
		;
	close(said[0]);
	if (error)
		program_reason(rank->program[0], error, reason);
	return error;
}

/* The program alone reads our input and holds our output open. */
static void descriptors_leave(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
}

/* Say at once that there is an endpoint, or why there is none, and what of it has failed: the next moment may be the
 * last. */
static void *announce(void *argument)
{
	struct rank *rank = argument;
	const struct report *report = rank->report;
	bool opened = false, refused = false;
	char reason[REASON_MAX];

	for (;;) {
		uint32_t news = report->news;

		if (!opened && report->opened) {
			opened = true;
			rank_say(rank, "began", "", "");
			evidence_take(&rank->at_opening, rank->process);
		}
		if (opened && report->troubled) {
			rank_say(rank, "began", "", rank_trouble(rank));
			return NULL;
		}
		if (!opened && !refused && report->refused) {
			refused = true;
			evidence_reason(&rank->at_opening, report, rank->program[0], reason);
			rank_say(rank, "without", "", reason);
		}
		if (rank->ended)
			return NULL;
		report_wait(rank->report, news);
	}
}

/* It may be just about to wait: until it is gone, wake it. */
static void announce_end(struct rank *rank)
{
	struct timespec until;

	rank->ended = true;
	if (!rank->announcer)
		return;
	do {
		report_tell(rank->report);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until = time_after(until, LOOK_FIRST_NS);
	} while (pthread_clockjoin_np(rank->announcer, NULL, CLOCK_MONOTONIC, &until) != 0);
}

/* Whether the program has got a signal of ours as well, being in the same group: terminals signal groups, and so do
 * launchers that make one for their ranks. A second one could mean something else to it. */
static bool signal_is_everyones(const struct rank *rank, const siginfo_t *info)
{
	return rank->grouped || info->si_code == SI_KERNEL;
}

/* Whether the program has ended: its status. What it has left running, and what has ended since, is ours. */
static bool program_reap(const struct rank *rank, int *status_p)
{
	pid_t ended;
	int status;

	while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
		if (ended != rank->process)
			continue;
		*status_p = status;
		return true;
	}
	return false;
}

/* Until the program has ended: its status. Signals that were meant for it are handed on. */
static int program_wait(struct rank *rank, const sigset_t *signals)
{
	struct timespec pause = {0, LOOK_FIRST_NS};
	siginfo_t info;
	int status;

	for (;;) {
		int number = sigtimedwait(signals, &info, rank->report->opened ? NULL : &pause);

		if (program_reap(rank, &status))
			return status;
		if (number > 0 && number != SIGCHLD && !signal_is_everyones(rank, &info))
			kill(rank->process, number);
		if (number > 0 || rank->report->opened)
			continue;
		evidence_take(&rank->evidence, rank->process);
		pause.tv_nsec = 2 * pause.tv_nsec;
		if (pause.tv_nsec >= LOOK_LAST_NS)
			pause = (struct timespec){LOOK_LAST_NS / 1000000000, 0};
	}
}

/* A program that has become a daemon ends at once, and one that it has left is the rank: until there are none, or a
 * signal comes. Others that are left have no endpoint. */
static void orphans_wait(const struct rank *rank, const sigset_t *signals)
{
	const struct timespec pause = {LOOK_LAST_NS / 1000000000, 0};

	for (int looks = 0; rank->report->opened || looks < ORPHAN_LOOKS;) {
		pid_t ended = waitpid(-1, NULL, WNOHANG);
		int number;

		if (ended > 0)
			continue;
		if (ended < 0)
			return;
		number = sigtimedwait(signals, NULL, &pause);
		if (number > 0 && number != SIGCHLD)
			return;
		looks += number < 0;
	}
}

/* As the program ended, so do we. */
static int status_repeat(int status)
{
	sigset_t none;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int rank_run(struct rank *rank)
{
	char reason[REASON_MAX];
	sigset_t signals, before;
	int status;

	sigfillset(&signals);
	for (const int *stop = (const int[]){SIGTSTP, SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS, SIGFPE, SIGILL, 0}; *stop;
	     stop++)
		sigdelset(&signals, *stop);
	signal(SIGCHLD, SIG_DFL); /* who ignores it hears of no end */
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* what the program leaves is handed to us */
	sigprocmask(SIG_BLOCK, &signals, &before);
	rank->grouped = getpgrp() != getpgid(getppid());
	if (program_start(rank, &before, reason) != 0) {
		rank_say_last(rank, "refused", "", reason);
		return STATUS_CANNOT_RUN;
	}
	descriptors_leave();
	rank_say(rank, "started", "", "");
	if (pthread_create(&rank->announcer, NULL, announce, rank) != 0)
		rank->announcer = 0;
	status = program_wait(rank, &signals);
	if (!rank->report->opened && status == 0)
		orphans_wait(rank, &signals);
	announce_end(rank);
	rank_say_end(rank);
	return status_repeat(status);
}

/* ---- Arguments -------------------------------------------------------------------------------- */

static const char ucx_argument[] = "--ucx=";

static int usage(void)
{
	fputs("usage: thole-rank TOKEN [--ucx=FOLDER[:FOLDER]...] [NAME | NAME=VALUE] ... -- program ...\n"
	      "`thole run --check` starts this on each rank; it says on standard error what went over Thole.\n",
	      stderr);
	return 2;
}

int main(int count, char **words)
{
	struct rank rank = {.token = count > 1 ? words[1] : NULL, .expected = words + 2};
	char reason[REASON_MAX];
	int end = 2;

	clock_gettime(CLOCK_MONOTONIC, &rank.begun);
	while (end < count && strcmp(words[end], "--") != 0)
		end++;
	if (end + 1 >= count)
		return usage();
	words[end] = NULL;
	rank.program = words + end + 1;
	if (*rank.expected && strncmp(*rank.expected, ucx_argument, sizeof(ucx_argument) - 1) == 0)
		rank.evidence.folders = rank.at_opening.folders = *rank.expected++ + sizeof(ucx_argument) - 1;
	if (!environment_is_whole(rank.expected, rank.evidence.folders, reason)) {
		rank_say_last(&rank, "refused", "", reason);
		return STATUS_REFUSED;
	}
	if (report_make(&rank) != 0) {
		report_reason(errno, reason);
		rank_say_last(&rank, "refused", "", reason);
		return STATUS_REFUSED;
	}
	return rank_run(&rank);
}
