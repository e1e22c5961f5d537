/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair_costs listen|HOST WAY SIZE COUNT [OPTION=VALUE...]: what a message costs in instructions, for guests whose clock
 * goes by the instruction (instructions.h). Two processes, in one guest or in two, send SIZE bytes to and fro COUNT
 * times, and that some times: the best counts. WAY is "thole" with these options, or "tcp", a socket. Whoever waits
 * sleeps, and what the processor does when nobody wants it is not counted. Each prints the instructions of its guest,
 * by a message: "busy NUMBER"; of two inside one guest the one that listens knows them.
 */
#include <netdb.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../test/vm/need.h"
#include "instructions.h"
#include "thole.h"

enum { WARM = 8, ROUNDS = 4, OPTIONS_MAX = 16 };

static const char port[] = "7472";
static struct thole_endpoint *endpoint;
static uint32_t peer;
static int control; /* the connection by which both meet, and TCP's bytes go */
static char *buffer;
static size_t size;
static double each_ns; /* how long an instruction takes here */
static uint64_t *idle; /* turns of idle's loop, of two instructions each */

/* Runs when nobody else wants the processor, and counts instructions in the place of its sleep: the clock goes by
 * instructions alone then, where it would leap otherwise. */
static void idle_begin(const char *host)
{
	struct sched_param none = {0};
	pid_t parent = getpid();

	idle = mmap(NULL, sizeof(*idle), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(idle != MAP_FAILED);
	if (strncmp(host, "127.", 4) == 0 || fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || sched_setscheduler(0, SCHED_IDLE, &none) != 0)
		_exit(1);
	for (;;)
#if defined(__x86_64__)
		__asm__ volatile("incq %0" : "+m"(*idle)); /* and a jump */
#else
		__atomic_store_n(idle, *idle + 1, __ATOMIC_RELAXED);
#endif
}

struct moment {
	double all, idle; /* instructions of this guest so far */
};

static struct moment moment_now(void)
{
	return (struct moment){(double)clock_now_ns() / each_ns, 2.0 * (double)__atomic_load_n(idle, __ATOMIC_RELAXED)};
}

/* Of those that have run since then, what was neither idle nor, of so much beside idle, the timer's. */
static double busy_since(const struct moment *start, double timer)
{
	struct moment now = moment_now();

	return now.all - start->all - (now.idle - start->idle) * (1 + timer);
}

/* What the timer's interrupts take beside an instruction of idle's: nothing else happens now. */
static double timer_share(void)
{
	struct moment start = moment_now(), now;

	usleep(100000);
	now = moment_now();
	return now.idle > start.idle ? (now.all - start.all) / (now.idle - start.idle) - 1 : 0;
}

static void put_all(const void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = write(control, (const char *)bytes + done, length - done);

		NEED(n > 0);
		done += (size_t)n;
	}
}

static void get_all(void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = read(control, (char *)bytes + done, length - done);

		NEED(n > 0);
		done += (size_t)n;
	}
}

/* Both are here. */
static void meet(bool first)
{
	char byte = 1;

	if (first)
		put_all(&byte, 1);
	get_all(&byte, 1);
	if (!first)
		put_all(&byte, 1);
}

static void join(const char *host)
{
	bool listens = strcmp(host, "listen") == 0;
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
	int yes = 1, tries = 0;

	NEED(getaddrinfo(listens ? NULL : host, port, &hints, &found) == 0);
	for (;; close(control), usleep(100000)) {
		control = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(control, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		if ((listens ? bind : connect)(control, found->ai_addr, found->ai_addrlen) == 0)
			break;
		NEED(++tries < 600);
	}
	freeaddrinfo(found);
	if (listens) {
		int listener = control;

		NEED(listen(listener, 1) == 0);
		control = accept(listener, NULL, NULL);
		close(listener);
	}
	NEED(setsockopt(control, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0);
}

static void open_with(char **options)
{
	const char *strings[OPTIONS_MAX + 3] = {"spin=0", "job_key=4711"}; /* two guests have no user in common */
	struct thole_endpoint_attr attr = {.options = strings};
	struct thole_address own, other;

	for (int i = 0; options[i] && i < OPTIONS_MAX; i++)
		strings[i + 2] = options[i];
	NEED(thole_endpoint_open(&attr, &endpoint) == 0);
	thole_endpoint_address(endpoint, &own);
	put_all(&own, sizeof(own));
	get_all(&other, sizeof(other));
	NEED(thole_peer(endpoint, &other, &peer) == 0);
}

static void one_way(bool sends)
{
	struct thole_completion done = {0};
	struct thole_request *request;

	if (!endpoint && sends) {
		put_all(buffer, size);
	} else if (!endpoint) {
		get_all(buffer, size);
	} else {
		if (sends)
			NEED(thole_send(endpoint, peer, buffer, size, 1, 0, 0, NULL, &request) == 0);
		else
			NEED(thole_recv(endpoint, peer, buffer, size, 1, UINT64_MAX, 0, NULL, &request) == 0);
		NEED(thole_wait(endpoint, request, -1, &done) == 0 && done.status == 0);
	}
}

static void to_and_fro(bool first, long count)
{
	for (long i = 0; i < 2 * count; i++)
		one_way((i % 2 == 0) == first);
}

/* 0: it is none, or not more than that. */
static long number_of(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	return *end || number < 0 ? 0 : number;
}

static bool arguments_are_good(int argc, char **argv)
{
	bool tcp = argc > 2 && strcmp(argv[2], "tcp") == 0;

	return argc >= 5 && argc <= 5 + (tcp ? 0 : OPTIONS_MAX) && (tcp || strcmp(argv[2], "thole") == 0) &&
	       number_of(argv[3]) > 0 && number_of(argv[4]) > 0;
}

int main(int argc, char **argv)
{
	bool first = argc > 1 && strcmp(argv[1], "listen") != 0;
	struct moment start;
	double timer, least = 0;
	long count;

	if (!arguments_are_good(argc, argv)) {
		printf("usage: %s listen|HOST thole SIZE COUNT [OPTION=VALUE...]\n"
		       "       %s listen|HOST tcp SIZE COUNT\n", argv[0], argv[0]);
		return 2;
	}
	each_ns = instructions_each_ns();
	size = (size_t)number_of(argv[3]);
	count = number_of(argv[4]);
	buffer = calloc(1, size);
	NEED(buffer);
	idle_begin(argv[1]);
	join(argv[1]);
	if (strcmp(argv[2], "thole") == 0)
		open_with(argv + 5);
	to_and_fro(first, WARM);
	meet(first);
	timer = timer_share();
	for (int round = 0; round < ROUNDS; round++) {
		double busy;

		meet(first);
		start = moment_now();
		to_and_fro(first, count);
		busy = busy_since(&start, timer) / (double)(2 * count);
		least = round == 0 || busy < least ? busy : least;
	}
	printf("busy %.0f\n", least);
	meet(first);
	if (endpoint)
		thole_endpoint_close(endpoint);
	return 0;
}
