/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_refuse: the kernel refuses process_vm_readv and process_vm_writev - from the start, or from any moment on.
 *
 * A seccomp filter, as containers have it, is installed by one rank or both: before the endpoints are opened, between
 * transfers, or while large ones are under way, half copied. Everything must arrive unaltered all the same,
 * and the counters must say what happened.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "ranks.h"

enum { RANKS = 2, MESSAGES = 3, KEY = 3, LIMIT_S = 60 };
#define LENGTH ((size_t)3 << 20)

enum moment { BEFORE, BETWEEN, DURING, NEVER };

struct scenario {
	enum moment moment;
	int who;    /* a bit for each rank */
	int error;
	bool vectors;
	const char *bulk;
};

static struct scenario scenario;

static void refuse(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)scenario.error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static bool mine(int self)
{
	return scenario.who >> self & 1;
}

struct transfer {
	struct thole_request *requests[2 * MESSAGES + 2];
	uint8_t *out[MESSAGES], *in[MESSAGES], *put, *got;
};

static void segments_of(uint8_t *bytes, struct iovec *segments, size_t count)
{
	size_t piece = LENGTH / count;

	for (size_t i = 0; i < count; i++)
		segments[i] = (struct iovec){bytes + i * piece, i + 1 == count ? LENGTH - i * piece : piece};
}

/* All at once in both directions. */
static void transfer_start(struct thole_endpoint *endpoint, uint32_t peer, struct transfer *transfer, uint64_t round,
			   int self)
{
	struct thole_request **request = transfer->requests;
	size_t count = scenario.vectors ? 100 : 1;
	struct iovec segments[300];

	for (int i = 0; i < MESSAGES; i++) {
		memset(transfer->in[i], 0, LENGTH);
		segments_of(transfer->in[i], segments, scenario.vectors ? 300 : 1);
		CHECK_EQUAL(thole_recvv(endpoint, peer, segments, scenario.vectors ? 300 : 1, (uint64_t)i, ~UINT64_C(0),
					0, NULL, request++),
			    0);
	}
	for (int i = 0; i < MESSAGES; i++) {
		ranks_fill(round << 8 | (uint64_t)self << 4 | (uint64_t)i, 0, transfer->out[i], LENGTH);
		segments_of(transfer->out[i], segments, count);
		CHECK_EQUAL(thole_sendv(endpoint, peer, segments, count, (uint64_t)i, 0, 0, NULL, request++), 0);
	}
	ranks_fill(round << 8 | 0xa0 | (uint64_t)self, 0, transfer->put, LENGTH);
	segments_of(transfer->put, segments, count);
	CHECK_EQUAL(thole_put(endpoint, peer, segments, count, KEY, (uint64_t)self * LENGTH, 0, 0, NULL, request++), 0);
	memset(transfer->got, 0, LENGTH);
	segments_of(transfer->got, segments, count);
	CHECK_EQUAL(thole_get(endpoint, peer, segments, count, KEY, 2 * LENGTH, 0, NULL, request++), 0);
}

static void transfer_finish(struct thole_endpoint *endpoint, struct transfer *transfer, uint64_t round, int self)
{
	int other = 1 - self;

	for (int i = 0; i < 2 * MESSAGES + 2; i++) {
		struct thole_completion completion;

		CHECK_EQUAL(thole_wait(endpoint, transfer->requests[i], -1, &completion), 0);
		CHECK_EQUAL(completion.status, 0);
		if (i < MESSAGES)
			CHECK_EQUAL(completion.length, LENGTH);
	}
	for (int i = 0; i < MESSAGES; i++)
		CHECK_EQUAL(ranks_compare(round << 8 | (uint64_t)other << 4 | (uint64_t)i, 0, transfer->in[i], LENGTH),
			    LENGTH);
	CHECK_EQUAL(ranks_compare(0x600d + (uint64_t)other, 0, transfer->got, LENGTH), LENGTH);
}

static void body(int self)
{
	const char *const options[] = {scenario.bulk, "cooperative_block=64k", "eager_max=8k", NULL};
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;
	struct thole_region *region;
	struct transfer transfer;
	uint64_t refused, fallbacks;
	uint32_t peers[RANKS];
	uint8_t *exposed = malloc(3 * LENGTH);

	for (int i = 0; i < MESSAGES; i++) {
		transfer.out[i] = malloc(LENGTH);
		transfer.in[i] = malloc(LENGTH);
	}
	transfer.put = malloc(LENGTH);
	transfer.got = malloc(LENGTH);
	ranks_fill(0x600d + (uint64_t)self, 0, exposed + 2 * LENGTH, LENGTH);
	if (scenario.moment == BEFORE && mine(self))
		refuse();
	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	CHECK_EQUAL(
		thole_expose(endpoint, exposed, 3 * LENGTH, THOLE_ACCESS_PUT | THOLE_ACCESS_GET, KEY, NULL, &region),
		0);
	ranks_meet(endpoint, peers);
	for (uint64_t round = 0; round < 4; round++) {
		if (scenario.moment == BETWEEN && round == 2 && mine(self))
			refuse();
		transfer_start(endpoint, peers[1 - self], &transfer, round, self);
		if (scenario.moment == DURING && round == 2 && mine(self)) {
			/* Some blocks of some megabytes are copied by now, not all. */
			for (int i = 0; i < 5; i++)
				thole_progress(endpoint);
			refuse();
		}
		transfer_finish(endpoint, &transfer, round, self);
		ranks_barrier(endpoint); /* the other's put is complete */
		CHECK_EQUAL(ranks_compare(round << 8 | 0xa0 | (uint64_t)(1 - self), 0,
					  exposed + (size_t)(1 - self) * LENGTH, LENGTH),
			    LENGTH);
		ranks_barrier(endpoint);
	}
	refused = ranks_counter(endpoint, "one_copy_refused");
	fallbacks = ranks_counter(endpoint, "bulk_fallbacks");
	if (scenario.moment == NEVER) {
		CHECK_EQUAL(refused, 0);
		CHECK_EQUAL(fallbacks, 0);
	} else if (mine(self)) {
		/* Left to itself, it may have found the ring faster and never ask the kernel again. */
		CHECK(refused > 0 || (scenario.moment != BEFORE && strcmp(scenario.bulk, "bulk=auto") == 0));
		CHECK(scenario.moment != BEFORE || fallbacks == 0);
		/* What was to be fetched directly had begun. */
		if (scenario.moment == DURING && strcmp(scenario.bulk, "bulk=one-copy") == 0)
			CHECK(fallbacks > 0);
		CHECK(ranks_counter(endpoint, "bulk_ring") + fallbacks > 0);
	} else {
		CHECK_EQUAL(fallbacks, 0);
	}
	CHECK_EQUAL(ranks_counter(endpoint, "bad_records"), 0);
	CHECK_EQUAL(ranks_counter(endpoint, "peers_gone"), 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

int main(void)
{
	static const char *const bulks[] = {"bulk=one-copy", "bulk=cooperative", "bulk=auto"};
	int failures = 0;

	for (int moment = BEFORE; moment <= NEVER && !failures; moment++) {
		for (int who = 1; who <= 3 && !failures; who++) {
			for (int bulk = 0; bulk < 3 && !failures; bulk++) {
				if (moment == NEVER && who > 1)
					continue;
				scenario = (struct scenario){.moment = (enum moment)moment,
							     .who = moment == NEVER ? 0 : who,
							     .error = (who + bulk) % 2 ? EPERM : ENOSYS,
							     .vectors = (who + bulk + moment) % 2,
							     .bulk = bulks[bulk]};
				failures = ranks_run(RANKS, LIMIT_S, body);
				if (failures)
					fprintf(stderr, "moment %d, who %d, %s\n", moment, who, bulks[bulk]);
			}
		}
	}
	return failures != 0;
}
