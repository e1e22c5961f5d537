/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions in memory that both sides have mapped: what counts as that, that accesses are plain copies then, and when the
 * mapping made for them ends.
 *
 * process_vm_readv and process_vm_writev are counted where they are of this test's region.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "mappings.h"
#include "pair.h"
#include "process_vm.h"

#define FILE_NAME "shared_test"

enum {
	LENGTH = 1 << 20,
	EDGE = 100, /* bytes before and behind the region */
	REGION = LENGTH - 2 * EDGE,
	KEY = 7,
	USES = 80,  /* accesses after which the region has been looked for */
	ACCESS = 5000, /* bytes of one, too long to be asked for */
};

static const char *const options[] = {"network=off", "one_copy=on", "look_again=0", NULL};

static struct {
	int fd;
	uint8_t *here, *there; /* all of it, twice */
} file;

static struct pair pair;
static struct thole_region *region;
static int kernel_calls;

static void count_call(const struct iovec *remote, unsigned long count)
{
	for (unsigned long i = 0; i < count; i++)
		kernel_calls += remote[i].iov_len == ACCESS;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	count_call(remote, remote_count);
	return __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	count_call(remote, remote_count);
	return __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

static void *map(int fd, int flags, size_t length, off_t offset)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, offset);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static int file_make(void **state)
{
	(void)state;
	file.fd = memfd_create(FILE_NAME, MFD_CLOEXEC);
	assert_true(file.fd >= 0);
	assert_int_equal(ftruncate(file.fd, LENGTH), 0);
	file.here = map(file.fd, MAP_SHARED, LENGTH, 0);
	file.there = map(file.fd, MAP_SHARED, LENGTH, 0);
	return 0;
}

static int file_end(void **state)
{
	(void)state;
	if (file.here)
		munmap(file.here, LENGTH);
	munmap(file.there, LENGTH);
	close(file.fd);
	return 0;
}

/* How often this process has mapped any of the file. */
static int mappings(void)
{
	return mappings_of(FILE_NAME " ");
}

/* ---- What counts as shared -------------------------------------------------------------------------- */

/* A process that has mapped what this one has now, until it is told to end. */
struct other {
	pid_t pid;
	int end;
};

static struct other other_start(void)
{
	struct other other;
	int end[2];

	assert_int_equal(pipe(end), 0);
	other.end = end[1];
	other.pid = fork();
	assert_true(other.pid >= 0);
	if (other.pid == 0) {
		char byte;

		close(end[1]);
		_exit(read(end[0], &byte, 1) == 0 && file.there[EDGE] == 3 ? 0 : 1);
	}
	close(end[0]);
	return other;
}

static void other_end(const struct other *other)
{
	file.here[EDGE] = 3;
	close(other->end);
	assert_int_equal(child_status(other->pid), 0);
}

static bool is_shared(const struct other *other, const uint8_t *address, size_t length, bool write)
{
	struct grant_mapping mapping = {0};
	bool shared = shared_map(other->pid, (uintptr_t)address, length, write, &mapping);
	const uint8_t *same;
	int left;

	if (!shared) {
		assert_null(mapping.mapping);
		return false;
	}
	same = file.here + (address - file.there);
	assert_memory_equal(mapping.memory, same, length);
	if (mapping.write) {
		mapping.memory[length - 1] ^= 0x55;
		assert_int_equal((uint8_t)mapping.memory[length - 1], same[length - 1]);
	}
	assert_true(mapping.write || !write);
	left = mappings();
	munmap(mapping.mapping, mapping.mapped);
	assert_int_equal(mappings(), left - 1);
	return true;
}

static void shared__any_part_of_it(void **state)
{
	struct other other = other_start();

	(void)state;
	for (int i = 0; i < LENGTH; i++)
		file.here[i] = (uint8_t)(i ^ i >> 8);
	assert_true(is_shared(&other, file.there, LENGTH, true));
	assert_true(is_shared(&other, file.there + EDGE, REGION, true));
	assert_true(is_shared(&other, file.there + getpagesize() - 1, 2, true));
	assert_true(is_shared(&other, file.there + LENGTH - 1, 1, true));
	assert_false(is_shared(&other, file.there + LENGTH - 1, 2, true));
	assert_false(is_shared(&other, file.there + EDGE, LENGTH, true));
	assert_false(is_shared(&other, file.there, 0, true));
	other_end(&other);
	assert_false(is_shared(&other, file.there, LENGTH, true)); /* there is no such process any more */
}

/* Here only what lies behind the first 64 KiB is mapped. */
static void shared__as_far_as_it_is_mapped_here(void **state)
{
	enum { BEFORE = 65536 };
	struct other other = other_start();
	uint8_t *part;

	(void)state;
	munmap(file.here, LENGTH);
	munmap(file.there, LENGTH);
	part = map(file.fd, MAP_SHARED, LENGTH - BEFORE, BEFORE);
	file.here = part - BEFORE;
	assert_true(is_shared(&other, file.there + BEFORE, LENGTH - BEFORE, true));
	assert_true(is_shared(&other, file.there + BEFORE + 300, 5000, true));
	assert_false(is_shared(&other, file.there + BEFORE - 1, 100, true));
	assert_false(is_shared(&other, file.there, 100, true));
	mprotect(part, LENGTH - BEFORE, PROT_READ);
	assert_false(is_shared(&other, file.there + BEFORE, 100, true));
	assert_true(is_shared(&other, file.there + BEFORE, 100, false));
	munmap(part, LENGTH - BEFORE);
	assert_false(is_shared(&other, file.there + BEFORE, 100, false));
	file.here = map(file.fd, MAP_SHARED, LENGTH, 0);
	file.there = map(file.fd, MAP_SHARED, LENGTH, 0);
	other_end(&other);
}

/* What its owner may not write, the kernel writes for nobody; nor is it written here, where the program may. */
static void shared__as_its_owner_may_use_it(void **state)
{
	struct other other;

	(void)state;
	mprotect(file.there, LENGTH / 2, PROT_READ);
	other = other_start();
	mprotect(file.there, LENGTH / 2, PROT_READ | PROT_WRITE);
	assert_false(is_shared(&other, file.there, 100, true));
	assert_true(is_shared(&other, file.there, 100, false));
	assert_true(is_shared(&other, file.there + LENGTH / 2, 100, true));
	other_end(&other);
}

/* Behind the end of a file there is no memory but a signal. */
static void shared__not_behind_the_end(void **state)
{
	struct other other = other_start();

	(void)state;
	assert_int_equal(ftruncate(file.fd, LENGTH / 2), 0);
	assert_false(is_shared(&other, file.there, LENGTH, true));
	assert_false(is_shared(&other, file.there + LENGTH / 2, 1, true));
	assert_true(is_shared(&other, file.there, LENGTH / 2, true));
	other_end(&other);
}

static void shared__not_what_is_not(void **state)
{
	FILE *disk = tmpfile();
	uint8_t *private = map(file.fd, MAP_PRIVATE, LENGTH, 0), *own = map(-1, MAP_PRIVATE | MAP_ANONYMOUS, LENGTH, 0);
	uint8_t *on_disk, *anonymous = map(-1, MAP_SHARED | MAP_ANONYMOUS, LENGTH, 0);
	uint8_t *near = (uint8_t *)((UINT64_C(1) << ARENA_PLACE_BITS) + (UINT64_C(1) << 30));
	struct grant_mapping mapping = {0};
	struct other other;

	(void)state;
	assert_non_null(disk);
	assert_int_equal(ftruncate(fileno(disk), LENGTH), 0);
	on_disk = map(fileno(disk), MAP_SHARED, LENGTH, 0);
	assert_ptr_equal(mmap(near, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file.fd, 0),
			 near);
	other = other_start();
	munmap(private, LENGTH); /* the file is shared here, but not there */
	assert_false(shared_map(other.pid, (uintptr_t)private, LENGTH, false, &mapping));
	assert_false(shared_map(other.pid, (uintptr_t)own, LENGTH, false, &mapping));
	assert_false(shared_map(other.pid, (uintptr_t)on_disk, LENGTH, false, &mapping));
	assert_false(shared_map(other.pid, (uintptr_t)near, LENGTH, false, &mapping)); /* as an arena */
	assert_true(shared_map(other.pid, (uintptr_t)anonymous, LENGTH, true, &mapping));
	anonymous[7] = 99;
	assert_int_equal(mapping.memory[7], 99);
	munmap(mapping.mapping, mapping.mapped);
	munmap(near, LENGTH);
	munmap(on_disk, LENGTH);
	munmap(own, LENGTH);
	munmap(anonymous, LENGTH);
	fclose(disk);
	other_end(&other);
}

/* ---- Puts and gets ---------------------------------------------------------------------------------- */

static void expose(void *base, unsigned access)
{
	assert_int_equal(thole_expose(pair.b, base, REGION, access, KEY, NULL, &region), 0);
}

/* With the target's help where it is needed: what is at an offset of the region, and what of the file it is. Each put
 * gives its memory back at once. */
static void make(bool put, uint64_t offset, uint64_t in_file, uint8_t value)
{
	uint8_t bytes[ACCESS];
	struct iovec segment = {bytes, ACCESS};
	struct thole_request *request;

	memset(bytes, put ? value : 0, ACCESS);
	if (!put)
		memset(file.there + in_file, value, ACCESS);
	assert_int_equal(
		(put ? thole_put(pair.a, pair.a_to_b, &segment, 1, KEY, offset, 0, THOLE_INJECT, NULL, &request)
		     : thole_get(pair.a, pair.a_to_b, &segment, 1, KEY, offset, 0, NULL, &request)),
		0);
	if (put)
		memset(bytes, 0xee, ACCESS);
	assert_int_equal(pair_finish(&pair, pair.a, request, NULL), 0);
	for (uint64_t i = 0; i < ACCESS; i += 7)
		assert_int_equal(put ? file.there[in_file + i] : bytes[i], value);
}

static void open_shared(void)
{
	pair_open(&pair, options);
	expose(file.there + EDGE, THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	for (int i = 0; i < USES; i++)
		make(i % 2, (uint64_t)i * ACCESS, EDGE + (uint64_t)i * ACCESS, (uint8_t)i);
	assert_true(kernel_calls > 0);
	kernel_calls = 0;
}

static void make_some(uint64_t in_file)
{
	for (int i = 1; i <= 10; i++) {
		uint64_t offset = (uint64_t)i * ((REGION - ACCESS) / 10);

		make(i % 2, offset, in_file + offset, (uint8_t)(i + 50));
	}
}

static void access__of_shared_memory(void **state)
{
	struct iovec segment = {file.here, ACCESS};
	struct thole_request *request;

	(void)state;
	open_shared();
	assert_int_equal(mappings(), 3);
	make_some(EDGE);
	assert_int_equal(kernel_calls, 0);
	munmap(file.here, LENGTH); /* the program's may end at any time */
	file.here = NULL;
	make_some(EDGE);
	assert_int_equal(kernel_calls, 0);
	segment.iov_base = file.there;
	assert_int_equal(
		thole_put(pair.a, pair.a_to_b, &segment, 1, KEY, REGION - ACCESS + 1, 0, 0, NULL, &request), 0);
	assert_int_equal(pair_finish(&pair, pair.a, request, NULL), THOLE_ERR_RANGE);
	assert_int_equal(mappings(), 2);
	pair_close(&pair);
	assert_int_equal(mappings(), 1);
}

/* Regions of so many, each used often enough to be mapped. */
static void use_many(unsigned count)
{
	struct iovec segment = {file.here, ACCESS};
	struct thole_region *regions[2 * GRANTS_MAPPED_MAX];
	struct thole_request *request;

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(thole_expose(pair.b, file.there + i * ACCESS, ACCESS, THOLE_ACCESS_GET, KEY + 1 + i,
					      NULL, &regions[i]),
				 0);
	for (unsigned i = 0; i < count * USES; i++) {
		assert_int_equal(thole_get(pair.a, pair.a_to_b, &segment, 1, KEY + 1 + i % count, 0, 0, NULL, &request),
				 0);
		assert_int_equal(pair_finish(&pair, pair.a, request, NULL), 0);
	}
	for (unsigned i = 0; i < count; i++)
		thole_unexpose(pair.b, regions[i]);
}

/* The kernel has only so many mappings for a process; all other regions are reached by its calls. */
static void access__of_many_regions(void **state)
{
	(void)state;
	pair_open(&pair, options);
	for (unsigned round = 1; round <= 2; round++) {
		use_many(GRANTS_MAPPED_MAX + 8);
		assert_int_equal(pair_counter(pair.a, "attached"), round * GRANTS_MAPPED_MAX);
		assert_true(kernel_calls > 8);
		kernel_calls = 0;
	}
	pair_close(&pair);
	assert_int_equal(mappings(), 2);
}

/* What was mapped for a region ends with it, whether or not another one is used. */
static void access__ends_with_its_region(void **state)
{
	(void)state;
	open_shared();
	assert_int_equal(mappings(), 3);
	thole_unexpose(pair.b, region);
	for (int i = 0; i < 1000000 && mappings() > 2; i++)
		pair_idle(&pair);
	assert_int_equal(mappings(), 2);
	expose(file.there + 2 * EDGE, THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	make_some(2 * EDGE);
	pair_close(&pair);
}

static void access__after_another_took_its_place(void **state)
{
	(void)state;
	open_shared();
	thole_unexpose(pair.b, region);
	expose(file.there + 2 * EDGE, THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	make_some(2 * EDGE);
	pair_close(&pair);
	assert_int_equal(mappings(), 2);
}

/* A child has what the program has. */
static void access__mapping_is_in_no_child(void **state)
{
	pid_t child;

	(void)state;
	open_shared();
	assert_int_equal(mappings(), 3);
	child = fork();
	if (child == 0)
		_exit(mappings() == 2 ? 0 : 1);
	assert_int_equal(child_status(child), 0);
	pair_close(&pair);
}

/* Memory that is its owner's alone is reached by the kernel as ever. */
static void access__of_private_memory(void **state)
{
	uint8_t *shared = file.there;

	(void)state;
	file.there = map(-1, MAP_PRIVATE | MAP_ANONYMOUS, LENGTH, 0);
	open_shared();
	make_some(EDGE);
	assert_int_equal(kernel_calls, 10);
	pair_close(&pair);
	munmap(file.there, LENGTH);
	file.there = shared;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shared__any_part_of_it, file_make, file_end),
		cmocka_unit_test_setup_teardown(shared__as_far_as_it_is_mapped_here, file_make, file_end),
		cmocka_unit_test_setup_teardown(shared__as_its_owner_may_use_it, file_make, file_end),
		cmocka_unit_test_setup_teardown(shared__not_behind_the_end, file_make, file_end),
		cmocka_unit_test_setup_teardown(shared__not_what_is_not, file_make, file_end),
		cmocka_unit_test_setup_teardown(access__of_shared_memory, file_make, file_end),
		cmocka_unit_test_setup_teardown(access__of_many_regions, file_make, file_end),
		cmocka_unit_test_setup_teardown(access__ends_with_its_region, file_make, file_end),
		cmocka_unit_test_setup_teardown(access__after_another_took_its_place, file_make, file_end),
		cmocka_unit_test_setup_teardown(access__mapping_is_in_no_child, file_make, file_end),
		cmocka_unit_test_setup_teardown(access__of_private_memory, file_make, file_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
