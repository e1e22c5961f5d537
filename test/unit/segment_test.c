/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: what a consumer accepts of a descriptor that anybody may have sent, what growing costs, and what a
 * producer says of itself there.
 *
 * Two functions are replaced (by the linker's --wrap): syscall may refuse membarrier, as a filter does to one process
 * and not to another; fallocate may be that of a kernel before 6.10, in a process with a timer.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "descriptors.h"
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

/* A pair that sends little has four pages; the rest is allocated by the first larger payload, before it is touched. */
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
	assert_int_equal(allocated(copy), SEGMENT_BASE);
	assert_int_equal(ring.areas[AREA_LARGE].size, 0);
	segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
	assert_int_equal(ring.areas[AREA_LARGE].size, 65536);
	assert_int_equal(allocated(copy), SIZE);
	assert_int_equal(ring.fd, -1); /* not needed any more */
	segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
	assert_int_equal(pair_counter(endpoint, "large_areas"), 1);
	memset(ring.areas[AREA_LARGE].base, 1, 65536);
	segment_release_out(&ring);
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
		assert_int_equal(allocated(copy), SEGMENT_BASE + (small ? 0 : 520 * 1024));
		assert_int_equal(ring.areas[AREA_LARGE].size, 0);
		assert_true(ring.fd >= 0);
		segment_enlarge(&endpoint->base, &ring, AREA_LARGE);
		assert_int_equal(ring.areas[AREA_LARGE].size, large);
		assert_int_equal(ring.fd < 0, small);
		segment_enlarge(&endpoint->base, &ring, AREA_WALK);
		assert_int_equal(ring.areas[AREA_WALK].size, small ? 0 : 4 * large);
		assert_int_equal(allocated(copy), ring.size);
		assert_int_equal(ring.fd, -1);
		if (!small) {
			assert_ptr_equal(ring.areas[AREA_BULK].base, ring.areas[AREA_LARGE].base + large);
			assert_ptr_equal(ring.areas[AREA_WALK].base, ring.areas[AREA_BULK].base + 2 * large);
			assert_ptr_equal(ring.areas[AREA_WALK].base + ring.areas[AREA_WALK].size,
					 (char *)ring.segment + ring.size);
			memset(ring.areas[AREA_BULK].base, 2, 6 * large);
		}
		segment_release_out(&ring);
		close(copy);
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
	segment_release_out(&ring);
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
		cmocka_unit_test(sleep__where_a_producer_has_no_membarrier),
		cmocka_unit_test(fork__leaves_segments_behind),
	};

	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
