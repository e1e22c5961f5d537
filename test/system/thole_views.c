/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_views: ranks of a host that map each other's memory by the driver.
 *
 *   thole_views CASE [SEED [MESSAGES]]      without an argument: prints the cases, one a line
 *
 * Needs /dev/thole, so guests run it (test/vm). Nothing here depends on how long something takes.
 */
#include <signal.h>
#include <sys/syscall.h>

#include "ranks.h"

enum { LIMIT_S = 250, SLOTS = 4, SLOT = 2 << 20 };

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
	const char *const options[] = {"driver=required", "network=off", bulk, "eager_max=64k",
				       "cooperative_block=64k", more, NULL};
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
	const size_t page = (size_t)getpagesize();
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
		CHECK(madvise(slot + next(state) % (SLOT / page) * page, page, MADV_DONTNEED) == 0);
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

/* ---- thole_attach ----------------------------------------------------------------------------------- */

enum { KEY_READ = 7, KEY_WRITE, KEY_PLAIN, KEY_NONE };

static int attach(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key, uint64_t offset, size_t length,
		  int write, unsigned char **memory_p)
{
	struct thole_completion completion;
	struct thole_request *request;
	int status = thole_attach(endpoint, peer, key, offset, length, write, NULL, &request);

	if (status)
		return status;
	CHECK_EQUAL(thole_wait(endpoint, request, -1, &completion), 0);
	CHECK_EQUAL(completion.operation, THOLE_OP_ATTACH);
	CHECK_EQUAL(completion.length, completion.status ? 0 : length);
	*memory_p = completion.buffer;
	return completion.status;
}

static void expose(struct thole_endpoint *endpoint, char *base, size_t length, unsigned access, uint64_t key,
		   struct thole_region **region_p)
{
	CHECK_EQUAL(thole_expose(endpoint, base, length, access, key, NULL, region_p), 0);
}

static void attach_owner(struct thole_endpoint *endpoint)
{
	struct thole_region *read, *written, *plain;
	char *slot = slot_new();

	ranks_fill(1, 0, slot, SLOT);
	expose(endpoint, slot + 100, SLOT - 200, THOLE_ACCESS_ATTACH | THOLE_ACCESS_GET, KEY_READ, &read);
	expose(endpoint, slot, SLOT, THOLE_ACCESS_ATTACH | THOLE_ACCESS_GET | THOLE_ACCESS_PUT, KEY_WRITE, &written);
	expose(endpoint, slot, SLOT, THOLE_ACCESS_GET | THOLE_ACCESS_PUT, KEY_PLAIN, &plain);
	ranks_barrier(endpoint); /* exposed */
	ranks_barrier(endpoint); /* the peer has stored */
	CHECK_EQUAL(ranks_compare(2, 0, slot + 5000, 100000), 100000);
	CHECK_EQUAL(ranks_compare(1, 105000, slot + 105000, SLOT - 105000), SLOT - 105000);
	CHECK(mmap(slot, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == slot);
	ranks_fill(3, 0, slot, SLOT);
	ranks_barrier(endpoint); /* other memory */
	ranks_barrier(endpoint); /* the peer has seen it */
	thole_unexpose(endpoint, written);
	ranks_barrier(endpoint); /* no more */
	ranks_barrier(endpoint); /* the peer has stored into nothing */
	CHECK_EQUAL(ranks_compare(3, 0, slot, SLOT), SLOT);
	thole_unexpose(endpoint, plain);
}

static void attach_user(struct thole_endpoint *endpoint, uint32_t peer)
{
	unsigned char *read, *written, *other, *part;

	ranks_barrier(endpoint);
	CHECK_EQUAL(attach(endpoint, peer, KEY_NONE, 0, 8, 0, &other), THOLE_ERR_KEY);
	CHECK_EQUAL(attach(endpoint, peer, KEY_PLAIN, 0, 8, 0, &other), THOLE_ERR_ACCESS);
	CHECK_EQUAL(attach(endpoint, peer, KEY_READ, 0, 8, 1, &other), THOLE_ERR_ACCESS);
	CHECK_EQUAL(attach(endpoint, peer, KEY_READ, SLOT - 207, 8, 0, &other), THOLE_ERR_RANGE);
	CHECK_EQUAL(attach(endpoint, peer, KEY_READ, 0, 0, 0, &other), THOLE_ERR_ARGUMENT);
	CHECK_EQUAL(attach(endpoint, peer, KEY_READ, 0, SLOT - 200, 0, &read), 0);
	CHECK_EQUAL(ranks_compare(1, 100, read, SLOT - 200), SLOT - 200);
	CHECK_EQUAL(attach(endpoint, peer, KEY_WRITE, 0, SLOT, 1, &written), 0);
	CHECK_EQUAL(attach(endpoint, peer, KEY_WRITE, 5000, 100000, 1, &part), 0);
	ranks_fill(2, 0, part, 100000);
	CHECK_EQUAL(ranks_compare(2, 0, written + 5000, 100000), 100000);
	CHECK_EQUAL(ranks_compare(2, 0, read + 4900, 100000), 100000);
	thole_detach(endpoint, part);
	thole_detach(endpoint, part + 1); /* is none */
	ranks_barrier(endpoint);
	ranks_barrier(endpoint);
	CHECK_EQUAL(ranks_compare(3, 100, read, SLOT - 200), SLOT - 200);
	CHECK_EQUAL(ranks_compare(3, 0, written, SLOT), SLOT);
	CHECK(thole_attached(endpoint, read) && thole_attached(endpoint, written) && !thole_attached(endpoint, part));
	ranks_barrier(endpoint);
	ranks_barrier(endpoint);
	CHECK(thole_attached(endpoint, read) && !thole_attached(endpoint, written));
	memset(written, 0xee, SLOT);
	CHECK_EQUAL(attach(endpoint, peer, KEY_WRITE, 0, 8, 0, &other), THOLE_ERR_KEY);
	ranks_barrier(endpoint);
}

/* Regions of a peer as memory. The owner's endpoint closes first. */
static void attached(int rank)
{
	struct thole_endpoint *endpoint = endpoint_open(NULL);
	uint32_t peers[RANKS_MAX];
	unsigned char *read = NULL;

	ranks_meet(endpoint, peers);
	if (rank == 0) {
		attach_owner(endpoint);
	} else {
		attach_user(endpoint, peers[0]);
		CHECK_EQUAL(attach(endpoint, peers[0], KEY_READ, 1, 1000, 0, &read), 0);
		CHECK_EQUAL(ranks_compare(3, 101, read, 1000), 1000);
	}
	ranks_barrier(endpoint);
	if (rank == 0)
		thole_endpoint_close(endpoint);
	ranks_barrier(rank ? endpoint : NULL);
	if (rank == 1) {
		CHECK(!thole_attached(endpoint, read) && read[0] == 0); /* nobody dies of it */
		CHECK(attach(endpoint, peers[0], KEY_READ, 0, 8, 0, &read) < 0);
		thole_endpoint_close(endpoint);
	}
}

/* The owner unmaps one of two regions, and then is killed. */
static void revoked(int rank)
{
	struct thole_endpoint *endpoint = endpoint_open(NULL);
	uint32_t peers[RANKS_MAX];
	struct thole_region *region;
	unsigned char *views[2];
	char *slots[2];

	ranks_meet(endpoint, peers);
	for (uint64_t i = 0; rank == 0 && i < 2; i++) {
		slots[i] = slot_new();
		ranks_fill(i, 0, slots[i], SLOT);
		expose(endpoint, slots[i], SLOT, THOLE_ACCESS_ATTACH | THOLE_ACCESS_GET | THOLE_ACCESS_PUT,
		       KEY_READ + i, &region);
	}
	ranks_barrier(endpoint);
	for (uint64_t i = 0; rank == 1 && i < 2; i++) {
		CHECK_EQUAL(attach(endpoint, peers[0], KEY_READ + i, 0, SLOT, 1, &views[i]), 0);
		CHECK_EQUAL(ranks_compare(i, 0, views[i], SLOT), SLOT);
	}
	ranks_barrier(endpoint);
	if (rank == 0)
		CHECK(munmap(slots[0], SLOT) == 0);
	ranks_barrier(endpoint);
	if (rank == 1) {
		memset(views[0], 0xee, SLOT); /* reaches nothing */
		CHECK(!thole_attached(endpoint, views[0]));
		CHECK_EQUAL(ranks_compare(1, 0, views[1], SLOT), SLOT);
		CHECK(thole_attached(endpoint, views[1]));
	}
	ranks_barrier(endpoint);
	if (rank == 0)
		raise(SIGKILL);
	while (thole_attached(endpoint, views[1]))
		usleep(1000);
	memset(views[1], 0xee, SLOT); /* nobody dies of it */
	thole_endpoint_close(endpoint);
}

/* Without the driver there is a sentence. */
static void missing(int rank)
{
	const char *const options[] = {"driver=off", "network=off", NULL};
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;
	uint32_t peers[RANKS_MAX];
	unsigned char *memory;

	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	ranks_meet(endpoint, peers);
	CHECK_EQUAL(attach(endpoint, peers[1 - rank], 1, 0, 8, 0, &memory), THOLE_ERR_UNSUPPORTED);
	CHECK(strstr(thole_detail(), "thole info") != NULL);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static const struct {
	const char *name;
	ranks_body *body;
	uint32_t killed; /* a bit for each rank that is */
} cases[] = {{"buffers", buffers, 0},   {"learnt", learnt, 0},   {"few", few, 0},        {"hidden", hidden, 0},
	     {"attached", attached, 0}, {"revoked", revoked, 1}, {"missing", missing, 0}};

int main(int argc, char **argv)
{
	pid_t pids[2];

	if (argc > 2)
		seed = ranks_number("SEED", argv[2], 0);
	if (argc > 3)
		messages = ranks_number("MESSAGES", argv[3], 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc < 2)
			printf("%s\n", cases[i].name);
		if (argc < 2 || strcmp(cases[i].name, argv[1]) != 0)
			continue;
		ranks_start(pids, 2, LIMIT_S, cases[i].body);
		return ranks_wait(pids, 2, cases[i].killed);
	}
	return argc < 2 ? 0 : 2;
}
