/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: what a consumer accepts of a descriptor that anybody may have sent, what growing costs, and what a
 * producer says of itself there.
 *
 * Functions are replaced (by the linker's --wrap): syscall may refuse membarrier, as a filter does to one process and
 * not to another; fallocate may be that of a kernel before 6.10, in a process with a timer; what is opened may say how
 * much memory a control group may have; and getpagesize may say that pages are longer, where madvise has what it gets
 * looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/host.h"
#include "descriptors.h"
#include "groups.h"
#include "mappings.h"
#include "pair.h"

static const char *const options[] = {"bulk_ring=64k", NULL};

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW, SIZE = SEGMENT_BASE + 65536 };

static int file_make(off_t size, bool head, int seals)
{
	int fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (head) {
		struct segment *segment = mmap(NULL, SEGMENT_BASE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		assert_ptr_not_equal(segment, MAP_FAILED);
		segment->magic = SEGMENT_MAGIC;
		segment->version = SEGMENT_VERSION;
		munmap(segment, SEGMENT_BASE);
	}
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void accept_refuses(int fd)
{
	struct ring_in ring = {0};

	assert_true(segment_accept(&ring, fd) < 0);
	assert_null(ring.segment);
	close(fd);
}

/* Huge pages are kept for a file only until its owner punches a hole: then the next touch may find none. */
static void accept__no_huge_pages(void **state)
{
	struct ring_in ring = {0};
	int fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	(void)state;
	if (fd < 0)
		skip();
	assert_int_equal(ftruncate(fd, 64 << 20), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	assert_int_equal(segment_accept(&ring, fd), THOLE_ERR_PROTOCOL);
	assert_null(ring.segment);
	close(fd);
}

static void accept__only_what_cannot_change_its_size(void **state)
{
	struct ring_in ring = {0};
	int before = descriptors_open(), fd = file_make(SIZE, true, SEALS), pipes[2];

	(void)state;
	assert_int_equal(segment_accept(&ring, fd), 0);
	assert_int_equal(ring.size, SIZE);
	assert_int_equal(ring.next, 0);
	segment_release_in(&ring);
	assert_null(ring.segment);
	close(fd);
	accept_refuses(file_make(SIZE, true, 0));
	accept_refuses(file_make(SIZE, true, F_SEAL_GROW));
	accept_refuses(file_make(SIZE, true, F_SEAL_SHRINK));
	accept_refuses(file_make(SIZE, true, SEALS | F_SEAL_WRITE));
	accept_refuses(file_make(SIZE, false, SEALS)); /* no magic */
	accept_refuses(file_make(SEGMENT_BASE, true, SEALS)); /* too small to have an area */
	accept_refuses(file_make(0, false, SEALS));
	accept_refuses(file_make(SEGMENT_BASE + (113 << 20), true, SEALS));
	assert_int_equal(pipe(pipes), 0);
	close(pipes[1]);
	accept_refuses(pipes[0]);
	accept_refuses(open("/dev/zero", O_RDWR | O_CLOEXEC));
	accept_refuses(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	assert_int_equal(descriptors_open(), before);
}

static void accept__another_version(void **state)
{
	int fd = file_make(SIZE, true, 0);
	struct segment *segment = mmap(NULL, SEGMENT_BASE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	(void)state;
	segment->version++;
	munmap(segment, SEGMENT_BASE);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	accept_refuses(fd);
}

static void accept__where_it_begins(void **state)
{
	static const uint32_t firsts[] = {RING_SLOTS - 2, RING_SLOTS, UINT32_MAX};
	struct ring_in ring = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		int fd = file_make(SIZE, true, 0);
		struct segment *segment = mmap(NULL, SEGMENT_BASE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		segment->first = firsts[i];
		munmap(segment, SEGMENT_BASE);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
		if (firsts[i] >= RING_SLOTS) {
			accept_refuses(fd);
			continue;
		}
		assert_int_equal(segment_accept(&ring, fd), 0);
		assert_int_equal(ring.next, firsts[i]);
		segment_release_in(&ring);
		close(fd);
	}
}

/* Only reading is allowed to whoever sent it this way. */
static void accept__a_descriptor_without_write(void **state)
{
	int fd = file_make(SIZE, true, SEALS), reader;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(reader >= 0);
	accept_refuses(reader);
	close(fd);
}

static uint64_t allocated(int fd)
{
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

/* What a file of this size has, if all of it is allocated. */
static uint64_t whole_pages(uint64_t size)
{
	uint64_t page = (uint64_t)getpagesize();

	return (size + page - 1) / page * page;
}

/* A pair that sends little has 16 KiB, in whole pages; the rest is allocated by the first larger payload, before it is
 * touched. */
static void create__large_area_comes_when_it_is_needed(void **state)
{
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	struct ring_out ring;
	int fd, copy, seals;

	(void)state;
	assert_int_equal(segment_create(&endpoint->base, &ring, &fd), 0);
	copy = dup(fd);
	assert_int_equal(ring.size, SIZE);
	seals = fcntl(fd, F_GET_SEALS);
	assert_int_equal(seals & SEALS, SEALS);
	assert_true(seals & F_SEAL_SEAL);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(allocated(copy), whole_pages(SEGMENT_BASE));
	assert_int_equal(ring.areas[AREA_LARGE].size, 0);
	segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
	assert_int_equal(ring.areas[AREA_LARGE].size, 65536);
	assert_int_equal(allocated(copy), whole_pages(SIZE));
	assert_int_equal(ring.fd, -1); /* not needed any more */
	segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
	assert_int_equal(pair_counter(endpoint, "large_areas"), 1);
	memset(ring.areas[AREA_LARGE].base, 1, 65536);
	segment_release_out(&endpoint->base, &ring);
	close(copy);
	thole_endpoint_close(endpoint);
}

/* The areas for pieces of bulk and for streams that walk come by themselves, behind the large one. A ring that is too
 * small for them has none, and its consumer finds none. */
static void create__areas_for_bulk_and_streams(void **state)
{
	(void)state;
	for (int small = 0; small < 2; small++) {
		const char *const bulk_options[] = {small ? "bulk_ring=248k" : "bulk_ring=260k", NULL};
		struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, bulk_options);
		const uint64_t large = (small ? 248 : 260) * 1024;
		struct ring_out ring;
		struct ring_in in = {0};
		int fd, copy;

		assert_int_equal(segment_create(&endpoint->base, &ring, &fd), 0);
		copy = dup(fd);
		assert_int_equal(segment_accept(&in, copy), 0);
		assert_int_equal(in.half, large / 2);
		segment_release_in(&in);
		segment_enlarge(&endpoint->base, &ring, AREA_BULK);
		assert_int_equal(ring.areas[AREA_BULK].size, small ? 0 : 520 * 1024);
		assert_int_equal(allocated(copy), whole_pages(SEGMENT_BASE + (small ? 0 : 520 * 1024)));
		assert_int_equal(ring.areas[AREA_LARGE].size, 0);
		assert_true(ring.fd >= 0);
		segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
		assert_int_equal(ring.areas[AREA_LARGE].size, large);
		assert_int_equal(ring.fd < 0, small);
		segment_enlarge(&endpoint->base, &ring, AREA_WALK);
		assert_int_equal(ring.areas[AREA_WALK].size, small ? 0 : 4 * large);
		assert_int_equal(shm_of(&endpoint->base)->walks, !small);
		assert_int_equal(allocated(copy), whole_pages(ring.size));
		assert_int_equal(ring.fd, -1);
		if (!small) {
			assert_ptr_equal(ring.areas[AREA_BULK].base, ring.areas[AREA_LARGE].base + large);
			assert_ptr_equal(ring.areas[AREA_WALK].base, ring.areas[AREA_BULK].base + 2 * large);
			assert_ptr_equal(ring.areas[AREA_WALK].base + ring.areas[AREA_WALK].size,
					 (char *)ring.segment + ring.size);
			memset(ring.areas[AREA_BULK].base, 2, 6 * large);
		}
		segment_release_out(&endpoint->base, &ring);
		assert_int_equal(shm_of(&endpoint->base)->walks, 0);
		assert_int_equal(shm_of(&endpoint->base)->area_bytes, 0);
		close(copy);
		thole_endpoint_close(endpoint);
	}
}

int __real_getpagesize(void);
int __wrap_getpagesize(void);
int __real_madvise(void *memory, size_t length, int advice);
int __wrap_madvise(void *memory, size_t length, int advice);

static int page_said;          /* 0: the kernel's */
static struct iovec populated; /* last */

int __wrap_getpagesize(void)
{
	return page_said ? page_said : __real_getpagesize();
}

int __wrap_madvise(void *memory, size_t length, int advice)
{
#ifdef MADV_POPULATE_WRITE
	if (advice == MADV_POPULATE_WRITE)
		populated = (struct iovec){memory, length};
#endif
	return __real_madvise(memory, length, advice);
}

/* An area's faults all come at once, also where it begins within a page; and no page is had beyond its own. */
static void enlarge__whole_pages(void **state)
{
	static const char *const default_options[] = {"network=off", NULL};
	static const char *const odd_options[] = {"network=off", "bulk_ring=260k", NULL};
	static const uint32_t areas[] = {AREA_WALK, AREA_LARGE, AREA_BULK};
	const size_t pages[] = {(size_t)__real_getpagesize(), 65536};

	(void)state;
#ifndef MADV_POPULATE_WRITE
	skip();
#endif
	for (int i = 0; i < 4; i++) {
		struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, i % 2 ? odd_options : default_options);
		struct ring_out ring;
		int fd;

		assert_int_equal(segment_create(&endpoint->base, &ring, &fd), 0);
		for (int k = 0; k < 3; k++) {
			const struct area *area = &ring.areas[areas[k]];
			size_t from, before;

			populated = (struct iovec){0};
			page_said = (int)pages[i / 2];
			segment_enlarge(&endpoint->base, &ring, areas[k]);
			page_said = 0;
			assert_true(area->size > 0 && populated.iov_base);
			from = (size_t)((char *)populated.iov_base - (char *)ring.segment);
			before = (size_t)(area->base - (char *)populated.iov_base);
			assert_int_equal(from % pages[i / 2], 0);
			assert_in_range(before, 0, pages[i / 2] - 1);
			assert_int_equal(populated.iov_len, before + area->size);
		}
		segment_release_out(&endpoint->base, &ring);
		thole_endpoint_close(endpoint);
	}
}

/* Where no memory can be mapped that is what its caller is told, too. */
static void create__no_memory(void **state)
{
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	int before = descriptors_open(), fd;
	struct rlimit limit, none;
	struct ring_out ring;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_int_equal(segment_create(&endpoint->base, &ring, &fd), THOLE_ERR_MEMORY);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_non_null(strstr(thole_detail(), "cannot map a shared segment"));
	assert_int_equal(descriptors_open(), before);
	thole_endpoint_close(endpoint);
}

/* Without memory for it, payloads go through the small area. */
static void enlarge__refused(void **state)
{
	struct pair pair;
	uint8_t *from = pair_filled(1, 300000), *to = calloc(1, 300000);
	struct thole_request *send, *receive;
	struct ring_out *out;

	(void)state;
	pair_open(&pair, (const char *const[]){"bulk=ring", "bulk_ring=64k", NULL});
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, 1, 1, 0, THOLE_QUIET, NULL, NULL), 0);
	out = &shm_link(&pair.a->peers[pair.a_to_b]->base)->out;
	/* Nothing can be allocated in this one, as in a memory that is full. */
	close(out->fd);
	out->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++) {
		static const size_t lengths[] = {5000, 60000, 300000};

		assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, 300000, 2, ~UINT64_C(0), 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, lengths[i], 2, 0, 0, NULL, &send), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		pair_check(1, to, lengths[i]);
	}
	assert_int_equal(pair_counter(pair.a, "large_area_refused"), 1);
	assert_int_equal(pair_counter(pair.a, "large_areas"), 0);
	pair_close(&pair);
	free(from);
	free(to);
}

/* Bytes of its rings to others that are allocated. */
static uint64_t rings_allocated(struct thole_endpoint *endpoint)
{
	static unsigned char pages[1 << 16];
	const uint64_t size = (uint64_t)getpagesize();
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < endpoint->peer_count; i++) {
		const struct shm_peer *link = shm_link(&endpoint->peers[i]->base);

		if (!link || !link->out.segment)
			continue;
		assert_true(link->out.size / size < sizeof(pages));
		assert_int_equal(mincore(link->out.segment, link->out.size, pages), 0);
		for (uint64_t page = 0; page < whole_pages(link->out.size) / size; page++)
			bytes += size * (pages[page] & 1u);
	}
	return bytes;
}

enum { MANY = 24, LONG = 2048, SOME = 4 }; /* endpoints, bytes of a message, and large areas for so many of them */

/* Messages of one kind from each to each other, all at once. */
static void many_exchange(struct thole_endpoint **many, const uint8_t *bytes, uint64_t tag)
{
	static uint8_t in[MANY][MANY][LONG];
	struct thole_request *receives[MANY][MANY];

	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < MANY; k++) {
			uint32_t peer = pair_peer(many[i], many[k]);

			memset(in[i][k], 0, LONG);
			assert_int_equal(thole_recv(many[i], peer, in[i][k], LONG, tag, UINT64_MAX, 0, NULL,
						    &receives[i][k]), 0);
			assert_int_equal(thole_send(many[i], peer, bytes, LONG, tag, 0, THOLE_QUIET, NULL, NULL), 0);
		}
	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < MANY; k++) {
			struct thole_completion completion;

			while (!thole_test(many[i], receives[i][k], &completion))
				for (int l = 0; l < MANY; l++)
					thole_progress(many[l]);
			assert_int_equal(completion.status, 0);
			pair_check(1, in[i][k], LONG);
		}
}

/* What all peers' areas take together is bounded: who comes when nothing is left does without. */
static void enlarge__of_many(void **state)
{
	static const char *const some[] = {"network=off", "bulk_ring=256k", "bulk_rings_max=1m", NULL};
	const uint64_t ring = 256 * 1024;
	uint8_t *bytes = pair_filled(1, LONG);
	struct thole_endpoint *many[MANY];

	(void)state;
	for (int i = 0; i < MANY; i++)
		many[i] = pair_endpoint(NULL, NULL, some);
	for (uint64_t tag = 0; tag < 3; tag++)
		many_exchange(many, bytes, tag);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(pair_counter(many[i], "large_areas"), SOME);
		assert_true(pair_counter(many[i], "large_area_refused") > 0);
		assert_int_equal(shm_of(&many[i]->base)->area_bytes, SOME * ring);
		assert_int_equal(rings_allocated(many[i]), SOME * whole_pages(SEGMENT_BASE + ring) +
							   (MANY - SOME) * whole_pages(SEGMENT_BASE));
	}
	for (int i = 0; i < MANY; i++)
		thole_endpoint_close(many[i]);
	free(bytes);
}

/* An area that would be too much is not had, a shorter one is; and what an ended peer had goes to the next. */
static void enlarge__of_who_ended(void **state)
{
	static const char *const some[] = {"network=off", "bulk=ring", "bulk_ring=256k", "bulk_rings_max=300k", NULL};
	enum { BULK = 1 << 20 };
	uint8_t *from = pair_filled(1, BULK), *to = calloc(1, BULK);
	struct pair pair = {.a = pair_endpoint(NULL, NULL, some)};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct thole_request *receive;

		pair.b = pair_endpoint(NULL, NULL, some);
		pair.a_to_b = pair_peer(pair.a, pair.b);
		pair.b_to_a = pair_peer(pair.b, pair.a);
		memset(to, 0, BULK);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, BULK, 1, ~UINT64_C(0), 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, BULK, 1, 0, THOLE_QUIET, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		pair_check(1, to, BULK);
		assert_int_equal(shm_of(&pair.a->base)->area_bytes, 256 * 1024);
		assert_int_equal(shm_link(&pair.a->peers[pair.a_to_b]->base)->out.areas[AREA_LARGE].size, 256 * 1024);
		thole_endpoint_close(pair.b);
		while (shm_of(&pair.a->base)->area_bytes > 0)
			thole_progress(pair.a);
	}
	thole_endpoint_close(pair.a);
	free(from);
	free(to);
}

/* Where nobody says how much, all ranks of the host have a part of its memory, or of what a group that they are in, or
 * one above that, may have. */
static void enlarge__within_the_hosts_memory(void **state)
{
	static const struct group job[] = {{"/proc/self/cgroup", "1:cpu:/else\n0::/job/step\n"},
					   {"/sys/fs/cgroup/job/step/memory.max", "max\n"},
					   {"/sys/fs/cgroup/job/memory.max", "67108864\n"},
					   {NULL, NULL}};
	static const struct group container[] = {{"/proc/self/cgroup", "0::/\n"},
						 {"/sys/fs/cgroup/memory.max", "33554432\n"},
						 {NULL, NULL}};
	static const struct group none[] = {{NULL, NULL}};
	static const char *const ranks_16[] = {"network=off", "local_ranks=16", NULL};
	static const char *const alone[] = {"network=off", NULL};
	static const struct {
		const struct group *groups;
		const char *const *options;
		uint64_t bytes; /* that may be had: 0, much more than one needs */
	} cases[] = {
		{job, ranks_16, 1 << 20},
		{container, ranks_16, 512 << 10},
		{container, alone, 8 << 20},
		{none, alone, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thole_endpoint *endpoint;
		struct ring_out rings[80];
		uint32_t had = 0, made = 0;
		int fd;

		groups = cases[i].groups;
		endpoint = pair_endpoint(NULL, NULL, cases[i].options);
		assert_true(host_memory() >= 4 * cases[i].bytes);
		groups = none; /* who sends may have little stack, and does not ask again */
		for (; made < 80 && had == made; made++) {
			assert_int_equal(segment_create(&endpoint->base, &rings[made], &fd), 0);
			segment_enlarge(&endpoint->base, &rings[made], AREA_LARGE);
			had += rings[made].areas[AREA_LARGE].size > 0;
		}
		assert_int_equal(had * UINT64_C(512) << 10, cases[i].bytes ? cases[i].bytes : 80 * UINT64_C(512) << 10);
		while (made > 0)
			segment_release_out(&endpoint->base, &rings[--made]);
		assert_int_equal(shm_of(&endpoint->base)->area_bytes, 0);
		groups = NULL;
		thole_endpoint_close(endpoint);
	}
}

/* What the bound alone forbids is there once others have let go of theirs. */
static void enlarge__after_the_bound(void **state)
{
	static const char *const bounded[] = {"bulk_ring=64k", "bulk_rings_max=64k", "network=off", NULL};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, bounded);
	struct ring_out rings[2];
	int fd;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(segment_create(&endpoint->base, &rings[i], &fd), 0);
	for (int times = 0; times < 2; times++) {
		segment_enlarge(&endpoint->base, &rings[0], AREA_LARGE);
		segment_enlarge(&endpoint->base, &rings[1], AREA_LARGE);
	}
	assert_int_equal(rings[0].areas[AREA_LARGE].size, 65536);
	assert_int_equal(rings[1].areas[AREA_LARGE].size, 0);
	assert_int_equal(pair_counter(endpoint, "large_area_refused"), 1);
	segment_release_out(&endpoint->base, &rings[0]);
	segment_enlarge(&endpoint->base, &rings[1], AREA_LARGE);
	assert_int_equal(rings[1].areas[AREA_LARGE].size, 65536);
	assert_false(rings[1].refused[AREA_LARGE]);
	segment_release_out(&endpoint->base, &rings[1]);
	assert_int_equal(shm_of(&endpoint->base)->area_bytes, 0);
	thole_endpoint_close(endpoint);
}

int __real_fallocate64(int fd, int mode, off_t from, off_t length);
int __wrap_fallocate64(int fd, int mode, off_t from, off_t length);

static int timer_runs; /* and so many signals of the C library's own come meanwhile */

int __wrap_fallocate64(int fd, int mode, off_t from, off_t length)
{
	sigset_t blocked;

	if (timer_runs > 0) {
		pthread_sigmask(SIG_SETMASK, NULL, &blocked);
		assert_true(sigismember(&blocked, SIGPROF)); /* else it might fail each time */
		if (--timer_runs > 0) {
			errno = EINTR;
			return -1;
		}
	}
	return __real_fallocate64(fd, mode, from, length);
}

/* A program that has a timer, as those have who sample where it spends its time, reaches its peers, and has all of its
 * memory. */
static void create__beside_a_timer(void **state)
{
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	struct ring_in in = {0};
	struct ring_out ring;
	sigset_t blocked;
	int fd, copy;

	(void)state;
	timer_runs = 3;
	assert_int_equal(segment_create(&endpoint->base, &ring, &fd), 0);
	copy = dup(fd);
	timer_runs = 3;
	assert_int_equal(segment_accept(&in, copy), 0);
	timer_runs = 3;
	segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
	timer_runs = 0;
	assert_int_equal(ring.areas[AREA_LARGE].size, 65536);
	assert_int_equal(pair_counter(endpoint, "large_area_refused"), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	assert_false(sigismember(&blocked, SIGPROF));
	segment_release_in(&in);
	segment_release_out(&endpoint->base, &ring);
	close(copy);
	thole_endpoint_close(endpoint);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static bool membarrier_refused;

long __wrap_syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_membarrier && membarrier_refused) {
		errno = EPERM;
		return -1;
	}
	return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
			      arguments[5]);
}

static uint64_t sleep_of(struct thole_endpoint *endpoint)
{
	uint64_t longest = shm_transport.arm(&endpoint->base);

	shm_transport.disarm(&endpoint->base);
	return longest;
}

/* A sleeper relies on membarrier to reach all who may have to wake it. Where it is refused to one of a pair alone,
 * both look by themselves after a while. */
static void sleep__where_a_producer_has_no_membarrier(void **state)
{
	static const char *const plain[] = {"network=off", NULL};

	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		struct pair pair;

		membarrier_refused = refused;
		pair.a = pair_endpoint(NULL, NULL, plain);
		membarrier_refused = false;
		pair.b = pair_endpoint(NULL, NULL, plain);
		pair.a_to_b = pair_peer(pair.a, pair.b);
		pair.b_to_a = pair_peer(pair.b, pair.a);
		assert_true(shm_of(&pair.b->base)->membarrier);
		assert_int_equal(sleep_of(pair.b), UINT64_MAX);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, "", 1, 1, 0, THOLE_QUIET, NULL, NULL), 0);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, "", 1, 1, 0, THOLE_QUIET, NULL, NULL), 0);
		pair_idle(&pair);
		assert_int_equal(pair.a->base.locals + pair.b->base.locals, 2);
		if (refused) {
			assert_in_range(sleep_of(pair.a), 1, 1000000);
			assert_in_range(sleep_of(pair.b), 1, 1000000);
		} else {
			assert_int_equal(sleep_of(pair.a), UINT64_MAX);
			assert_int_equal(sleep_of(pair.b), UINT64_MAX);
		}
		pair_close(&pair);
	}
}

static int descriptor_of_ring(const struct pair *pair)
{
	return shm_link(&endpoint_peer(pair->a, pair->a_to_b)->base)->out.fd;
}

/* A child has nothing of a segment, so that the memory goes with its parent, and does no harm to it by closing. */
static void fork__leaves_segments_behind(void **state)
{
	struct thole_request *receive;
	struct pair pair;
	char byte = 1;
	pid_t child;
	int fd;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		if (i > 0)
			continue;
		fd = descriptor_of_ring(&pair);
		assert_true(fd >= 0);
		assert_true(mappings_of("/memfd:thole (") > 0);
		if ((child = fork()) == 0) {
			thole_endpoint_close(pair.a);
			_exit(mappings_of("/memfd:thole (") == 0 && fcntl(fd, F_GETFD) < 0 &&
			      descriptor_of_ring(&pair) < 0 ? 0 : 1);
		}
		assert_int_equal(child_status(child), 0);
	}
	pair_close(&pair);
	assert_int_equal(mappings_of("/memfd:thole ("), 0);
}

/* What its parent has to send is nothing that a child could wait for. */
static void fork__drains_nothing(void **state)
{
	struct thole_request *receive = NULL;
	struct pair pair;
	pid_t child;
	char byte = 1;
	int sent = 0;

	(void)state;
	pair_open(&pair, options);
	for (; list_empty(&pair.a->backlogged); sent++)
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	if ((child = fork()) == 0) {
		int over = thole_drain(pair.a);

		thole_endpoint_close(pair.a);
		_exit(over == 1 ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	for (int i = 0; i < sent; i++) {
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accept__only_what_cannot_change_its_size),
		cmocka_unit_test(accept__no_huge_pages),
		cmocka_unit_test(accept__another_version),
		cmocka_unit_test(accept__where_it_begins),
		cmocka_unit_test(accept__a_descriptor_without_write),
		cmocka_unit_test(create__large_area_comes_when_it_is_needed),
		cmocka_unit_test(create__areas_for_bulk_and_streams),
		cmocka_unit_test(create__no_memory),
		cmocka_unit_test(create__beside_a_timer),
		cmocka_unit_test(enlarge__refused),
		cmocka_unit_test(enlarge__of_many),
		cmocka_unit_test(enlarge__of_who_ended),
		cmocka_unit_test(enlarge__within_the_hosts_memory),
		cmocka_unit_test(enlarge__after_the_bound),
		cmocka_unit_test(sleep__where_a_producer_has_no_membarrier),
		cmocka_unit_test(fork__leaves_segments_behind),
		cmocka_unit_test(fork__drains_nothing),
		cmocka_unit_test(enlarge__whole_pages),
	};

	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
