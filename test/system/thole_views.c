/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_views: ranks of a host that map each other's memory by the driver.
 *
 *   thole_views CASE [SEED [MESSAGES]]      without an argument: prints the cases, one a line
 *
 * Needs /dev/thole, so guests run it (test/vm). Nothing here depends on how long something takes.
 */
#include <sys/syscall.h>

#include "ranks.h"

enum { LIMIT_S = 250, SLOTS = 4, SLOT = 2 << 20, PAGE = 4096 };

static uint64_t seed = 1, messages = 100;
static const char *bulk = "bulk=direct";

static uint64_t next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static struct thole_endpoint *endpoint_open(const char *more)
{
	const char *const options[] = {"driver=required", "network=off", bulk, "cooperative_block=64k", more, NULL};
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;

	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	return endpoint;
}

static char *slot_new(void)
{
	char *slot = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(slot != MAP_FAILED);
	return slot;
}

/* What a program does with a buffer between two messages. */
static void slot_change(char **slot_p, uint64_t *state)
{
	char *slot = *slot_p;
	pid_t child;

	switch (next(state) % 16) {
	case 0:
		CHECK(munmap(slot, SLOT) == 0);
		*slot_p = slot_new();
		break;
	case 1:
		CHECK(mmap(slot, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == slot);
		break;
	case 2:
		CHECK(madvise(slot + next(state) % (SLOT / PAGE) * PAGE, PAGE, MADV_DONTNEED) == 0);
		break;
	case 3:
		CHECK(mprotect(slot, SLOT, PROT_READ) == 0 && mprotect(slot, SLOT, PROT_READ | PROT_WRITE) == 0);
		break;
	case 4:
		(void)madvise(slot, SLOT, next(state) & 1 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		break;
	case 5:
		child = fork();
		if (child == 0) {
			memset(slot, 0xee, SLOT); /* nobody sees that */
			_exit(0);
		}
		CHECK(child > 0 && waitpid(child, NULL, 0) == child);
		break;
	default:
		break;
	}
}

/* Messages in turn, from and into buffers that are remapped, given back and forked in between. */
static void exchange(int rank, struct thole_endpoint *endpoint, const uint32_t *peers)
{
	uint64_t state = seed * 100 + (uint64_t)rank;
	char *slots[SLOTS];

	for (int i = 0; i < SLOTS; i++)
		slots[i] = slot_new();
	for (uint64_t i = 0; i < messages; i++) {
		/* Few lengths and places, so that buffers are used again. */
		size_t length = (size_t)(i % 3 + 1) * 100000 * (i % 7 == 0 ? 6 : 1), at = i % 5 == 0 ? 8 : 0;
		char **slot = &slots[next(&state) % SLOTS];
		struct thole_request *request;

		slot_change(slot, &state);
		if ((int)(i & 1) == rank) {
			ranks_fill(i, 0, *slot + at, length);
			CHECK_EQUAL(thole_send(endpoint, peers[1 - rank], *slot + at, length, i, 0, 0, NULL, &request),
				    0);
			CHECK_EQUAL(ranks_finish(endpoint, request), 0);
			CHECK_EQUAL(ranks_compare(i, 0, *slot + at, length), length);
			memset(*slot + at, 0x55, length); /* it is the sender's again */
		} else {
			CHECK_EQUAL(thole_recv(endpoint, peers[1 - rank], *slot + at, length, i, 0, 0, NULL, &request),
				    0);
			CHECK_EQUAL(ranks_finish(endpoint, request), 0);
			CHECK_EQUAL(ranks_compare(i, 0, *slot + at, length), length);
		}
	}
}

static void buffers_of(int rank, const char *more, bool direct)
{
	struct thole_endpoint *endpoint = endpoint_open(more);
	uint32_t peers[RANKS_MAX];

	ranks_meet(endpoint, peers);
	exchange(rank, endpoint, peers);
	ranks_barrier(endpoint);
	printf("rank %d: attached %llu, refused %llu, direct %llu, fallbacks %llu, by the other %llu\n", rank,
	       (unsigned long long)ranks_counter(endpoint, "attached"),
	       (unsigned long long)ranks_counter(endpoint, "attach_refused"),
	       (unsigned long long)ranks_counter(endpoint, "bulk_direct"),
	       (unsigned long long)ranks_counter(endpoint, "bulk_fallbacks"),
	       (unsigned long long)ranks_counter(endpoint, "bulk_blocks_direct"));
	CHECK(!direct || (ranks_counter(endpoint, "attached") > 0 && ranks_counter(endpoint, "bulk_direct") > 0));
	CHECK(more || ranks_counter(endpoint, "attach_refused") == 0); /* with few, what was told may be taken back */
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static void buffers(int rank)
{
	buffers_of(rank, NULL, true);
}

/* What is learnt is another matter than what is right. */
static void learnt(int rank)
{
	bulk = "bulk=auto";
	buffers_of(rank, NULL, false);
}

/* So few are kept that all the time some are taken back. */
static void few(int rank)
{
	buffers_of(rank, "pin_cache=2", false);
}

/* A process that nobody may reach into by process_vm_readv. */
static void hidden(int rank)
{
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	buffers_of(rank, NULL, true);
}

static const struct {
	const char *name;
	ranks_body *body;
} cases[] = {{"buffers", buffers}, {"learnt", learnt}, {"few", few}, {"hidden", hidden}};

int main(int argc, char **argv)
{
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		messages = strtoull(argv[3], NULL, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc < 2)
			printf("%s\n", cases[i].name);
		else if (strcmp(cases[i].name, argv[1]) == 0)
			return ranks_run(2, LIMIT_S, cases[i].body);
	}
	return argc < 2 ? 0 : 2;
}
