/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole-machine-costs [ROUNDS]: what this machine's processor and kernel take for what the papers' machines did, as
 * JSON: for `make papers`, which gives it to the programs of the simulator (lab/costs.py). Nanoseconds; rates are bytes
 * in a microsecond; the best of the rounds. It needs no privilege and no driver.
 *
 *   pin, unpin   a region, and each page of it: buffers that are registered with io_uring and given back, whose pages
 *                the kernel pins, and lists, as an adapter's driver does
 *   copy         of something that is so long, by what cache it is in
 *   call         of the kernel
 *   wake         a datagram of 64 bytes to a process that sleeps, until that has it
 *   move         process_vm_writev in one piece; and what more it takes for a piece of a page, whose memory is apart at
 *                the other side, at this one too, and not aligned
 */
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	PAGE = 4096,
	PAGES = 1024,            /* of a large region; RLIMIT_MEMLOCK is 8 MiB where nobody has changed it */
	LENGTH = PAGES * PAGE,
	SMALL = 64,              /* bytes: a message of an SCI mailbox */
	TRIPS = 200,
	CALLS = 10000,
	LEVELS = 4,              /* three caches, and memory */
	COPY_NS = 2000000,       /* a round of copies takes so long, or one copy */
	MOVES = 5,               /* in a round: they are short */
	ODD = 8,                 /* bytes that pieces are apart from their pages */
};

static unsigned rounds = 20;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void least(double *best, double value)
{
	if (*best == 0 || value < *best)
		*best = value;
}

static double since(uint64_t start_ns)
{
	return (double)(clock_now_ns() - start_ns);
}

/* Touched, in pages of their own. */
static char *memory_new(size_t length)
{
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	madvise(memory, length, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses */
	memset(memory, 1, length);
	return memory;
}

/* ---- Pins ------------------------------------------------------------------------------------------- */

static void pin_time(int ring, char *memory, size_t length, double *pin, double *unpin)
{
	struct iovec segment = {memory, length};

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start_ns = clock_now_ns();

		if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &segment, 1) < 0)
			fail("io_uring_register, which pins pages");
		least(pin, since(start_ns));
		start_ns = clock_now_ns();
		if (syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0) < 0)
			fail("io_uring_register, which unpins pages");
		least(unpin, since(start_ns));
	}
}

/* By a line through one page and many. */
static void pin_say(const char *name, double one, double all)
{
	double page = (all - one) / (PAGES - 1);

	printf(" \"%s_ns\": %.0f, \"%s_page_ns\": %.3f,\n", name, one > page ? one - page : 0, name, page);
}

static void pins(char *memory)
{
	struct io_uring_params params = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	double pin[2] = {0}, unpin[2] = {0};

	if (ring < 0)
		fail("io_uring_setup, without which no page can be pinned here");
	pin_time(ring, memory, PAGE, &pin[0], &unpin[0]);
	pin_time(ring, memory, LENGTH, &pin[1], &unpin[1]);
	pin_say("pin", pin[0], pin[1]);
	pin_say("unpin", unpin[0], unpin[1]);
	close(ring);
}

/* ---- Copies ----------------------------------------------------------------------------------------- */

static double copy_rate(char *to, char *from, size_t length)
{
	double best = 0;

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start_ns = clock_now_ns(), copies = 0;

		do {
			memcpy(to, from, length);
			__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
			copies++;
		} while (since(start_ns) < COPY_NS);
		least(&best, since(start_ns) / (double)copies);
	}
	return (double)length * 1000 / best;
}

/* A line of what the kernel says of a cache; it is empty where it says nothing. */
static void cache_line_of(int index, const char *name, char line[16])
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
	file = fopen(path, "r");
	if (!file || !fgets(line, 16, file))
		line[0] = 0;
	if (file)
		fclose(file);
}

/* Bytes of the cache of this level that has data; where the kernel does not say, what is usual. */
static size_t cache_bytes(int level, size_t usual)
{
	char line[16];

	for (int index = 0; index < 8; index++) {
		cache_line_of(index, "level", line);
		if (atoi(line) != level)
			continue;
		cache_line_of(index, "type", line);
		if (line[0] == 'I')
			continue;
		cache_line_of(index, "size", line); /* in KiB, with a K */
		return atoi(line) > 0 ? (size_t)atoi(line) << 10 : usual;
	}
	return usual;
}

/* Source and destination fit into a cache up to half of it, and surely at a quarter. */
static void copies(void)
{
	size_t caches[LEVELS - 1] = {cache_bytes(1, 32 << 10), cache_bytes(2, 1 << 20), cache_bytes(3, 32 << 20)};
	size_t most = 4 * caches[LEVELS - 2];
	char *memory = memory_new(2 * most);

	printf(" \"copy\": [");
	for (int i = 0; i < LEVELS - 1; i++)
		printf("[%zu, %.0f], ", caches[i] / 2, copy_rate(memory + most, memory, caches[i] / 4));
	printf("[0, %.0f]],\n", copy_rate(memory + most, memory, most));
	munmap(memory, 2 * most);
}

/* ---- Calls and messages ----------------------------------------------------------------------------- */

static void calls(void)
{
	double best = 0;

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start_ns = clock_now_ns();

		for (int n = 0; n < CALLS; n++)
			syscall(SYS_getppid);
		least(&best, since(start_ns) / CALLS);
	}
	printf(" \"call_ns\": %.0f,\n", best);
}

/* A socket that has its number from the kernel. */
static int wake_socket(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (struct sockaddr *)address, length) != 0 ||
	    getsockname(fd, (struct sockaddr *)address, &length) != 0)
		fail("a socket for datagrams");
	return fd;
}

static void wake_answer(int fd)
{
	char message[SMALL];

	for (;;)
		if (recv(fd, message, SMALL, 0) != SMALL || send(fd, message, SMALL, 0) != SMALL)
			_exit(1);
}

static void on_processor(int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)number, &set);
	sched_setaffinity(0, sizeof(set), &set); /* where it is not allowed, anywhere */
}

static void wakes(void)
{
	struct sockaddr_in here, there;
	int own = wake_socket(&here), other = wake_socket(&there);
	char message[SMALL] = {0};
	double best = 0;
	pid_t child;

	if (connect(own, (struct sockaddr *)&there, sizeof(there)) != 0 ||
	    connect(other, (struct sockaddr *)&here, sizeof(here)) != 0)
		fail("connect");
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		on_processor(1);
		wake_answer(other);
	}
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start_ns = clock_now_ns();

		for (int n = 0; n < TRIPS; n++)
			if (send(own, message, SMALL, 0) != SMALL || recv(own, message, SMALL, 0) != SMALL)
				fail("a datagram");
		least(&best, since(start_ns) / (2.0 * TRIPS));
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(own);
	close(other);
	printf(" \"wake_ns\": %.0f,\n", best);
}

/* ---- Moves ------------------------------------------------------------------------------------------ */

struct move {
	struct iovec local[PAGES], remote[PAGES];
	unsigned count;
	size_t length;
	double best;             /* ns */
};

static void move_once(struct move *move)
{
	uint64_t start_ns = clock_now_ns();
	ssize_t done = process_vm_writev(getpid(), move->local, move->count, move->remote, move->count, 0);

	if (done != (ssize_t)move->length)
		fail("process_vm_writev");
	least(&move->best, since(start_ns));
}

static void shuffle(unsigned *order, unsigned count)
{
	uint32_t state = 1;

	for (unsigned i = 0; i < count; i++)
		order[i] = i;
	for (unsigned i = count - 1; i > 0; i--) {
		unsigned other, was = order[i];

		state = state * 1664525 + 1013904223;
		other = (state >> 8) % (i + 1);
		order[i] = order[other];
		order[other] = was;
	}
}

/* A piece a page; each side's in order, or anywhere. */
static void move_pages(struct move *move, char *from, char *to, const unsigned *from_order, const unsigned *to_order)
{
	move->count = PAGES;
	move->length = LENGTH;
	for (unsigned i = 0; i < PAGES; i++) {
		move->local[i] = (struct iovec){from + (size_t)PAGE * (from_order ? from_order[i] : i), PAGE};
		move->remote[i] = (struct iovec){to + (size_t)PAGE * (to_order ? to_order[i] : i), PAGE};
	}
}

/* Two pieces a page, which ends elsewhere on this side than on the other; pages lie anywhere on both. */
static void move_odd(struct move *move, char *from, char *to, const unsigned *from_order, const unsigned *to_order)
{
	move->count = PAGES;
	move->length = LENGTH / 2;
	for (unsigned i = 0; i < PAGES; i += 2) {
		char *first = from + (size_t)PAGE * from_order[i / 2];
		char *second = from + (size_t)PAGE * from_order[i / 2 + 1];
		char *page = to + (size_t)PAGE * to_order[i / 2];

		move->local[i] = (struct iovec){first + ODD, PAGE - ODD};
		move->remote[i] = (struct iovec){page, PAGE - ODD};
		move->local[i + 1] = (struct iovec){second, ODD};
		move->remote[i + 1] = (struct iovec){page + PAGE - ODD, ODD};
	}
}

/* What each piece takes beyond that. */
static double more(const struct move *move, double than)
{
	return move->best > than ? (move->best - than) / move->count : 0;
}

/* In turns, so that all have their share of the machine's better moments. */
static void moves(char *from, char *to)
{
	static struct move whole, apart, both, odd;
	unsigned from_order[PAGES], to_order[PAGES];
	double byte, block, scattered, unaligned;

	shuffle(to_order, PAGES);
	shuffle(from_order, PAGES);
	whole = (struct move){.local = {{from, LENGTH}}, .remote = {{to, LENGTH}}, .count = 1, .length = LENGTH};
	move_pages(&apart, from, to, NULL, to_order);
	move_pages(&both, from, to, from_order, to_order);
	move_odd(&odd, from, to, from_order, to_order);
	for (unsigned i = 0; i < MOVES * rounds; i++) {
		move_once(&whole);
		move_once(&apart);
		move_once(&both);
		move_once(&odd);
	}
	byte = whole.best / LENGTH;
	block = more(&apart, whole.best);
	scattered = more(&both, apart.best);
	unaligned = more(&odd, byte * (double)odd.length) - block - scattered;
	printf(" \"move\": %.0f, \"block_ns\": %.0f, \"scattered_ns\": %.0f, \"unaligned_ns\": %.0f\n", 1000 / byte,
	       block, scattered, unaligned > 0 ? unaligned : 0);
}

int main(int argc, char **argv)
{
	char *from = memory_new(LENGTH), *to = memory_new(LENGTH);

	if (argc > 1)
		rounds = (unsigned)atoi(argv[1]);
	if (rounds < 1)
		return 2;
	on_processor(0);
	printf("{\n");
	pins(from);
	copies();
	calls();
	wakes();
	moves(from, to);
	printf("}\n");
	return 0;
}
