/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every way in which memory can change below a region: the pins go or stay as they should, what is copied through the
 * region is what the program itself sees there, and nothing stays pinned.
 *
 *     thole-driver-events [CASE...]      as root; each case in a process of its own
 */
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "driver.h"
#include "stuck.h"

enum { PAGES = 300 };

#define LENGTH (PAGES * PAGE)

/* What cases start from: a region over memory with contents, pinned. */
struct bed {
	struct driver driver;
	unsigned char *memory;
	size_t length;
	uint32_t id;
	uint32_t generation;
};

static unsigned char contents(size_t at, unsigned salt)
{
	return (unsigned char)(at * 7 + at / PAGE * 13 + salt);
}

static void fill(unsigned char *memory, size_t length, unsigned salt)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = contents(i, salt);
}

static void pin_whole(struct bed *bed)
{
	struct thole_driver_pin answer;

	CHECK(pin(&bed->driver, bed->id, bed->length, 0, &answer) == 0);
	CHECK(answer.state == THOLE_DRIVER_PINNED && answer.pinned == answer.pages);
	CHECK(answer.pages == bed->length / PAGE);
	CHECK(pages_pinned() == answer.pages);
	bed->generation = bed->driver.shared->generations[bed->id];
}

static struct bed bed_over(unsigned char *memory, size_t length)
{
	struct bed bed = {.driver = driver_open(), .memory = memory, .length = length};
	struct thole_driver_pin answer;

	bed.id = declare(&bed.driver, memory, length, THOLE_DRIVER_WRITE);
	CHECK(bed.id != 0);
	CHECK(pin(&bed.driver, bed.id, 0, 0, &answer) == 0);
	CHECK(answer.state == THOLE_DRIVER_DECLARED && answer.pinned == 0);
	pin_whole(&bed);
	return bed;
}

static struct bed bed_new(void)
{
	unsigned char *memory = memory_new(LENGTH);

	fill(memory, LENGTH, 1);
	return bed_over(memory, LENGTH);
}

/* Have a worker pin, and wait for that: asleep in between, since whoever asks all the time has the region's lock most
 * of the time, which under PREEMPT_RT the worker waits for again and again. */
static void pin_in_background(const struct driver *driver, uint32_t id, uint64_t bytes)
{
	struct thole_driver_pin answer;

	CHECK(pin(driver, id, bytes, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	while (answer.state != THOLE_DRIVER_PINNED)
		CHECK(usleep(1000) == 0 && pin(driver, id, 0, 0, &answer) == 0);
}

/* The pins have gone, and that can be seen without a call. */
static void gone(const struct bed *bed)
{
	struct thole_driver_pin answer;

	CHECK(bed->driver.shared->generations[bed->id] != bed->generation);
	CHECK(bed->driver.shared->locked == 0);
	CHECK(bed->driver.shared->pins == bed->driver.shared->unpins);
	CHECK(pages_pinned() == 0);
	CHECK(pin(&bed->driver, bed->id, 0, 0, &answer) == 0);
	CHECK(answer.state == THOLE_DRIVER_INVALID && answer.pinned == 0);
}

static void stayed(const struct bed *bed)
{
	CHECK(bed->driver.shared->generations[bed->id] == bed->generation);
	CHECK(bed->driver.shared->unpins == 0);
	CHECK(pages_pinned() == bed->length / PAGE);
}

/* Both ways: what the region has is what the program sees. */
static void same(const struct bed *bed)
{
	unsigned char *other = memory_new(bed->length);

	CHECK(copy(&bed->driver, bed->id, 0, other, bed->length, 0) == 0);
	CHECK(memcmp(other, bed->memory, bed->length) == 0);
	fill(other, bed->length, 99);
	CHECK(copy(&bed->driver, bed->id, 5, other + 5, bed->length - 9, THOLE_DRIVER_INTO) == 0);
	for (size_t i = 5; i < bed->length - 4; i++)
		CHECK(bed->memory[i] == contents(i, 99));
	CHECK(munmap(other, bed->length) == 0);
}

static int use(const struct bed *bed)
{
	static unsigned char other[PAGES * PAGE_MAX];

	return copy(&bed->driver, bed->id, 0, other, LENGTH, 0);
}

/* ---- Mappings -------------------------------------------------------------------------------- */

static void munmap_seen(struct bed *bed)
{
	void *again;

	same(bed);
	CHECK(munmap(bed->memory, LENGTH) == 0);
	gone(bed);
	CHECK(use(bed) == -EFAULT); /* declared still, but there is nothing */
	CHECK(pages_pinned() == 0);
	again = mmap(bed->memory, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(again == bed->memory);
	fill(bed->memory, LENGTH, 2);
	same(bed);
}

static void case_munmap(void)
{
	struct bed bed = bed_new();

	munmap_seen(&bed);
}

static void case_munmap_part(void)
{
	struct bed bed = bed_new();
	unsigned char other[PAGE_MAX];

	CHECK(munmap(bed.memory + 200 * PAGE, PAGE) == 0);
	gone(&bed);
	CHECK(use(&bed) == -EFAULT);
	CHECK(copy(&bed.driver, bed.id, 10 * PAGE, other, PAGE, 0) == 0); /* what is in front is there */
	CHECK(memcmp(other, bed.memory + 10 * PAGE, PAGE) == 0);
}

static void case_mremap(void)
{
	struct bed bed = bed_new();
	unsigned char *place = memory_new(LENGTH), *at;

	at = mremap(bed.memory, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	CHECK(at == place);
	gone(&bed);
	CHECK(use(&bed) == -EFAULT);
	fill(place, LENGTH, 3);
	CHECK(mremap(place, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, bed.memory) == bed.memory);
	same(&bed);
}

static void dontneed_seen(struct bed *bed)
{
	CHECK(madvise(bed->memory + PAGE, 3 * PAGE, MADV_DONTNEED) == 0);
	gone(bed);
	CHECK(bed->memory[PAGE] == 0);
	same(bed);
}

static void case_dontneed(void)
{
	struct bed bed = bed_new();

	dontneed_seen(&bed);
}

/* Of memory that the driver was told by an address with a tag, as the kernel's own calls may be. */
static void case_tagged(void)
{
	unsigned char *memory = memory_new(LENGTH);
	struct bed bed;

	if (!tags_allow())
		return;
	fill(memory, LENGTH, 1);
	bed = bed_over(with_tag(memory), LENGTH);
	bed.memory = memory;
	dontneed_seen(&bed);
	bed.generation = bed.driver.shared->generations[bed.id];
	munmap_seen(&bed);
}

static void case_mprotect(void)
{
	struct bed bed = bed_new();

	CHECK(mprotect(bed.memory, LENGTH, PROT_READ) == 0);
	gone(&bed);
	CHECK(use(&bed) == -EFAULT); /* declared as one that is written to */
	CHECK(mprotect(bed.memory, LENGTH, PROT_READ | PROT_WRITE) == 0);
	same(&bed);
}

/* A huge page of which one small one goes. */
static void case_split(void)
{
	unsigned char *memory = memory_new(HUGE);
	struct bed bed;

	CHECK(madvise(memory, HUGE, MADV_HUGEPAGE) == 0);
	fill(memory, HUGE, 1);
	bed = bed_over(memory, HUGE);
	same(&bed);
	stayed(&bed);
	CHECK(madvise(memory + 77 * PAGE, PAGE, MADV_DONTNEED) == 0);
	gone(&bed);
	CHECK(memory[77 * PAGE] == 0);
	same(&bed);
}

/* Small pages become a huge one. */
static void case_collapse(void)
{
	unsigned char *memory = memory_new(HUGE);
	struct bed bed;

	fill(memory, HUGE, 1);
	bed = bed_over(memory, HUGE);
	CHECK(madvise(memory, HUGE, MADV_HUGEPAGE) == 0);
	(void)madvise(memory, HUGE, 25); /* MADV_COLLAPSE; it may find that pages are pinned */
	for (size_t i = 0; i < HUGE; i++)
		CHECK(memory[i] == contents(i, 1));
	same(&bed);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static struct bed bed_of_file(int *fd_p)
{
	unsigned char *memory;

	*fd_p = memfd_create("region", 0);
	CHECK(*fd_p >= 0 && ftruncate(*fd_p, (off_t)LENGTH) == 0);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, *fd_p, 0);
	CHECK(memory != MAP_FAILED);
	fill(memory, LENGTH, 1);
	return bed_over(memory, LENGTH);
}

static void case_hole(void)
{
	int fd;
	struct bed bed = bed_of_file(&fd);
	unsigned char byte;

	same(&bed);
	CHECK(pread(fd, &byte, 1, (off_t)PAGE) == 1 && byte == contents(PAGE, 99));
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)PAGE, 7 * (off_t)PAGE) == 0);
	gone(&bed);
	CHECK(bed.memory[PAGE] == 0);
	same(&bed);
	CHECK(pread(fd, &byte, 1, (off_t)PAGE) == 1 && byte == contents(PAGE, 99));
}

static void case_truncate(void)
{
	int fd;
	struct bed bed = bed_of_file(&fd);

	CHECK(ftruncate(fd, 100 * (off_t)PAGE) == 0);
	gone(&bed);
	CHECK(use(&bed) == -EFAULT);
	CHECK(ftruncate(fd, (off_t)LENGTH) == 0);
	CHECK(bed.memory[99 * PAGE] == contents(99 * PAGE, 1) && bed.memory[100 * PAGE] == 0);
	same(&bed);
}

/* Of a file that is written out, pages that were written through pins would be taken for clean, and so left out. */
static void case_writeback(void)
{
	char folder[] = "/tmp/thole-XXXXXX";
	struct driver driver = driver_open();
	struct thole_driver_pin answer;
	unsigned char *memory;
	uint32_t id;
	int fd;

	/* It is told of first writes, as a disk's is. */
	CHECK(mkdtemp(folder) && mount("none", folder, "ramfs", 0, NULL) == 0);
	CHECK(chdir(folder) == 0 && (fd = open("file", O_RDWR | O_CREAT, 0600)) >= 0 && chdir("/") == 0);
	CHECK(umount2(folder, MNT_DETACH) == 0 && rmdir(folder) == 0);
	CHECK(ftruncate(fd, (off_t)LENGTH) == 0);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	id = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(id && pin(&driver, id, LENGTH, 0, &answer) == -EFAULT);
	CHECK(pages_pinned() == 0);
	id = declare(&driver, memory, LENGTH, 0);
	CHECK(id && pin(&driver, id, LENGTH, 0, &answer) == 0 && answer.state == THOLE_DRIVER_PINNED);
}

/* ---- Processes ------------------------------------------------------------------------------- */

static int wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void cannot_map(const struct driver *driver, off_t at)
{
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, driver->fd, at) == MAP_FAILED && errno == EPERM);
}

/* The parent keeps its pages, whoever writes first. */
static void case_fork(void)
{
	struct bed bed = bed_new();
	pid_t child;
	int go[2];
	char c;

	CHECK(pipe(go) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct thole_driver_pin answer;

		close(go[1]);
		memset(bed.memory, 0xcc, 50 * PAGE); /* the child writes first here, the parent there */
		CHECK(read(go[0], &c, 1) == 1);
		for (size_t i = 50 * PAGE; i < LENGTH; i++)
			CHECK(bed.memory[i] == contents(i, 1)); /* the parent's writes and the region's are not seen */
		CHECK(pages_pinned() == 0);
		CHECK(pin(&bed.driver, bed.id, PAGE, 0, &answer) == -EPERM); /* not the child's */
		CHECK(use(&bed) == -EPERM && forget(&bed.driver, bed.id) == -EPERM);
		cannot_map(&bed.driver, THOLE_DRIVER_AT_SHARED);
		cannot_map(&bed.driver, THOLE_DRIVER_AT_EVENTS);
		cannot_map(&bed.driver, THOLE_DRIVER_AT_WAYS);
		_exit(0);
	}
	fill(bed.memory + 50 * PAGE, LENGTH - 50 * PAGE, 4);
	stayed(&bed);
	same(&bed);
	stayed(&bed);
	CHECK(bed.driver.shared->forks > 0);
	CHECK(write(go[1], "g", 1) == 1);
	CHECK(wait_for(child) == 0);
	same(&bed);
	stayed(&bed);
}

enum { SHARED_PAGES = 4096 };

#define SHARED (SHARED_PAGES * PAGE)

/* How many pages are pinned until all of a region are, beside a child that has them, too. */
static uint64_t pins_beside_child(const struct driver *driver, unsigned char *memory, uint32_t flags,
				  void (*have)(const struct driver *, uint32_t))
{
	uint64_t before = driver->shared->pins;
	uint32_t id = declare(driver, memory, SHARED, flags);
	pid_t child = fork();

	CHECK(id && child >= 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	have(driver, id);
	CHECK(pages_pinned() == SHARED_PAGES);
	CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(wait_for(child)));
	CHECK(forget(driver, id) == 0);
	return driver->shared->pins - before;
}

static void have_pinned(const struct driver *driver, uint32_t id)
{
	struct thole_driver_pin answer;

	CHECK(pin(driver, id, SHARED, 0, &answer) == 0);
}

static void have_in_background(const struct driver *driver, uint32_t id)
{
	pin_in_background(driver, id, SHARED);
}

static void have_copied(const struct driver *driver, uint32_t id)
{
	unsigned char *other = memory_new(SHARED);

	CHECK(copy(driver, id, 0, other, SHARED, 0) == 0 && other[SHARED - 1] == contents(SHARED - 1, 3));
	CHECK(munmap(other, SHARED) == 0);
}

/* Pages that a child has, too, and those of zeros that were only read, are copied when they are pinned. Each time that
 * takes all pins; and yet what is in front is not pinned again for each. */
static void case_shared(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(SHARED);

	for (size_t at = 0; at < SHARED; at += PAGE)
		CHECK(*(volatile unsigned char *)(memory + at) == 0);
	CHECK(pins_beside_child(&driver, memory, THOLE_DRIVER_WRITE, have_pinned) < 4 * SHARED_PAGES);
	fill(memory, SHARED, 1);
	CHECK(pins_beside_child(&driver, memory, THOLE_DRIVER_WRITE, have_pinned) < 4 * SHARED_PAGES);
	fill(memory, SHARED, 2);
	CHECK(pins_beside_child(&driver, memory, THOLE_DRIVER_WRITE, have_in_background) < 4 * SHARED_PAGES);
	fill(memory, SHARED, 3);
	CHECK(pins_beside_child(&driver, memory, 0, have_copied) < 4 * SHARED_PAGES);
}

/* A successor has the descriptor, but not the memory. */
static void case_exec(void)
{
	struct bed bed = bed_new();
	char text[16];

	CHECK(snprintf(text, sizeof(text), "%d", bed.driver.fd) > 0);
	execl("/proc/self/exe", "driver-events", "--inherited", text, NULL);
	CHECK(false);
}

static int inherited(const char *text)
{
	struct driver driver = {.fd = atoi(text)};
	struct thole_driver_pin answer;

	CHECK(pin(&driver, 1, PAGE, 0, &answer) == -EPERM);
	CHECK(pages_pinned() == 0);
	CHECK(close(driver.fd) == 0);
	return 0;
}

static void case_exit(void)
{
	struct bed bed = bed_new();

	same(&bed);
	stayed(&bed);
}

static void case_kill(void)
{
	for (unsigned i = 0; i < 20; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0) {
			struct bed bed = bed_new();

			for (;;) { /* killed while it pins, copies or unpins */
				same(&bed);
				CHECK(madvise(bed.memory, PAGE, MADV_DONTNEED) == 0);
			}
		}
		CHECK(usleep(20000 + 7000 * i) == 0);
		CHECK(kill(child, SIGKILL) == 0);
		CHECK(WIFSIGNALED(wait_for(child)));
	}
}

/* ---- Memory that is there when it is asked for ----------------------------------------------- */

/* A descriptor that is told when something wants memory which is not there yet. */
static int userfault_over(unsigned char *memory)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {
		.range = {.start = (uintptr_t)memory, .len = LENGTH},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	CHECK(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0);
	return fd;
}

/* Answers for each page that is asked for. */
static void *userfault_answer(void *argument)
{
	unsigned char page[PAGE_MAX];
	struct uffd_msg message;
	int fd = *(int *)argument;

	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		struct uffdio_copy answer = {.dst = at, .src = (uintptr_t)page, .len = PAGE};

		memset(page, (int)(at / PAGE % 251), PAGE);
		CHECK(ioctl(fd, UFFDIO_COPY, &answer) == 0);
	}
	return NULL;
}

/* Nobody answers; whoever waits can be killed. */
static void userfault_killed(void)
{
	struct thole_driver_pin answer;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		struct driver driver = driver_open();
		unsigned char *memory = memory_new(LENGTH);

		CHECK(userfault_over(memory) >= 0);
		(void)pin(&driver, declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE), LENGTH, 0, &answer);
		_exit(1);
	}
	CHECK(usleep(300000) == 0);
	CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(wait_for(child)));
}

static void case_userfault(void)
{
	struct bed bed = {.driver = driver_open(), .memory = memory_new(LENGTH), .length = LENGTH};
	int fd = userfault_over(bed.memory);
	struct thole_driver_pin answer;
	pthread_t thread;

	bed.id = declare(&bed.driver, bed.memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(pin(&bed.driver, bed.id, LENGTH, THOLE_DRIVER_BACKGROUND, &answer) == 0); /* waits for nobody */
	CHECK(usleep(100000) == 0);
	CHECK(forget(&bed.driver, bed.id) == 0);
	bed.id = declare(&bed.driver, bed.memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(pthread_create(&thread, NULL, userfault_answer, &fd) == 0);
	pin_whole(&bed);
	for (size_t i = 0; i < LENGTH; i += PAGE)
		CHECK(bed.memory[i] == ((uintptr_t)bed.memory + i) / PAGE % 251);
	same(&bed);
	userfault_killed();
}

/* A worker pins this. */
static void pinned_by_worker(const struct driver *driver, uint32_t id)
{
	struct thole_driver_pin answer;

	CHECK(pin(driver, id, 0, 0, &answer) == 0);
	for (unsigned i = 0; i < 1000 && answer.state != THOLE_DRIVER_PINNED; i++) {
		CHECK(usleep(20000) == 0);
		CHECK(pin(driver, id, 0, 0, &answer) == 0);
	}
	CHECK(answer.state == THOLE_DRIVER_PINNED);
}

/* Who waits for a file system that never answers does not keep others waiting. */
static void case_stuck(void)
{
	struct bed bed = {.driver = driver_open(), .memory = memory_new(LENGTH), .length = LENGTH};
	struct driver stuck = driver_open();
	unsigned char *file = stuck_map();
	struct thole_driver_pin answer;

	for (unsigned i = 0; i < STUCK; i++) {
		uint32_t id = declare(&stuck, file + i * PAGE, PAGE, 0);

		CHECK(id && pin(&stuck, id, PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	}
	bed.id = declare(&bed.driver, bed.memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(pin(&bed.driver, bed.id, LENGTH, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	pinned_by_worker(&bed.driver, bed.id);
}

/* Regions of whose memory nobody gets the lock: some are forgotten, some end with their descriptor, and the others are
 * pinned when it is free. */
static void locked_regions(struct stuck_lock *lock)
{
	struct driver driver = driver_open(), closed = {.fd = open("/dev/thole", O_RDWR)};
	unsigned char *memory = memory_new(STUCK * PAGE);
	uint32_t ids[STUCK], also = declare(&closed, memory, PAGE, 0);
	struct thole_driver_pin answer;

	for (unsigned i = 0; i < STUCK; i++)
		CHECK((ids[i] = declare(&driver, memory + i * PAGE, PAGE, THOLE_DRIVER_WRITE)) != 0);
	stuck_lock_take(lock);
	for (unsigned i = 0; i < STUCK; i++)
		CHECK(pin(&driver, ids[i], PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	CHECK(also && pin(&closed, also, PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	stuck_say(lock->other);
	stuck_hear(lock->other);
	for (unsigned i = 0; i < STUCK; i += 2)
		CHECK(forget(&driver, ids[i]) == 0);
	CHECK(close(closed.fd) == 0);
	stuck_say(lock->other);
	stuck_lock_over(lock);
	for (unsigned i = 1; i < STUCK; i += 2)
		pinned_by_worker(&driver, ids[i]);
	CHECK(pages_pinned() == STUCK / 2);
	_exit(0);
}

/* The same of whoever has a thread that holds the lock of its memory, and may be killed meanwhile. */
static void locked(bool killed)
{
	struct bed bed = {.driver = driver_open(), .memory = memory_new(LENGTH), .length = LENGTH};
	struct stuck_lock lock = stuck_lock_new();
	struct thole_driver_pin answer;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0)
		locked_regions(&lock);
	stuck_lock_give(&lock, child);
	stuck_hear(lock.mine);
	bed.id = declare(&bed.driver, bed.memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(pin(&bed.driver, bed.id, LENGTH, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	pinned_by_worker(&bed.driver, bed.id);
	stuck_say(lock.mine);
	stuck_hear(lock.mine);
	CHECK(!killed || kill(child, SIGKILL) == 0);
	stuck_refuse();
	CHECK(killed ? WIFSIGNALED(wait_for(child)) : wait_for(child) == 0);
}

static void case_locked(void)
{
	locked(false);
}

static void case_locked_killed(void)
{
	locked(true);
}

static void *pin_stuck(void *argument)
{
	const struct bed *bed = argument;
	struct thole_driver_pin answer;

	CHECK(pin(&bed->driver, bed->id, PAGE, 0, &answer) == -EFAULT);
	return NULL;
}

/* Nor does he keep workers waiting who would pin the same, nor who forgets it. */
static void case_stuck_call(void)
{
	struct bed bed = {.driver = driver_open(), .memory = stuck_map(), .length = PAGE};
	struct pollfd told = {.fd = bed.driver.fd, .events = POLLIN};
	struct thole_driver_pin answer;
	pthread_t thread;

	CHECK(mmap(NULL, sizeof(struct thole_driver_events), PROT_READ | PROT_WRITE, MAP_SHARED, bed.driver.fd,
		   THOLE_DRIVER_AT_EVENTS) != MAP_FAILED);
	bed.id = declare(&bed.driver, bed.memory, PAGE, 0);
	CHECK(bed.id && pthread_create(&thread, NULL, pin_stuck, &bed) == 0);
	stuck_wait();
	CHECK(usleep(100000) == 0); /* it waits for that now */
	CHECK(pin(&bed.driver, bed.id, PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	CHECK(poll(&told, 1, 20000) == 1);
	CHECK(forget(&bed.driver, bed.id) == 0);
	stuck_refuse();
	CHECK(pthread_join(thread, NULL) == 0 && pages_pinned() == 0);
}

/* ---- Memory under pressure ------------------------------------------------------------------- */

static void case_swap(void)
{
	struct bed bed = {.driver = driver_open(), .memory = memory_new(LENGTH), .length = LENGTH};
	uint64_t pages;

	fill(bed.memory, LENGTH, 1);
	bed.id = declare(&bed.driver, bed.memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(pages_out(bed.memory, LENGTH) > PAGES / 2); /* declared pages go like any */
	pin_whole(&bed);
	for (size_t i = 0; i < LENGTH; i++)
		CHECK(bed.memory[i] == contents(i, 1));
	fill(bed.memory, LENGTH, 2);
	pages = pages_out(bed.memory, LENGTH); /* pinned ones stay, or their pins go first */
	pins_shrink();
	CHECK(pages + pages_out(bed.memory, LENGTH) > PAGES / 2);
	for (size_t i = 0; i < LENGTH; i++)
		CHECK(bed.memory[i] == contents(i, 2));
	same(&bed);
}

static void case_shrink(void)
{
	struct bed bed = bed_new();
	struct thole_driver_pin answer;
	uint32_t keep;

	same(&bed);
	pins_shrink();
	gone(&bed);
	CHECK(bed.driver.shared->reclaimed == PAGES);
	same(&bed);
	keep = declare(&bed.driver, bed.memory, PAGE, THOLE_DRIVER_KEEP);
	CHECK(keep && pin(&bed.driver, keep, PAGE, 0, &answer) == 0);
	pins_shrink();
	CHECK(pages_pinned() == 1);
	CHECK(pin(&bed.driver, keep, 0, 0, &answer) == 0 && answer.state == THOLE_DRIVER_PINNED);
}

/* ---- Regions --------------------------------------------------------------------------------- */

static void case_vector(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH), other[3000], back[3000];
	struct thole_driver_segment segments[] = {
		{.address = (uintptr_t)memory + 100, .length = 1000},
		{.address = (uintptr_t)memory + 2000, .length = 500}, /* in the same page */
		{.address = (uintptr_t)memory + 10 * PAGE - 700, .length = 1500},
	};
	struct thole_driver_pin answer;
	uint32_t id = declare_vector(&driver, segments, 3, THOLE_DRIVER_WRITE);

	CHECK(id != 0);
	fill(other, sizeof(other), 5);
	CHECK(copy(&driver, id, 0, other, sizeof(other), THOLE_DRIVER_INTO) == 0);
	CHECK(memcmp(memory + 100, other, 1000) == 0 && memcmp(memory + 2000, other + 1000, 500) == 0);
	CHECK(memcmp(memory + 10 * PAGE - 700, other + 1500, 1500) == 0);
	CHECK(memory[99] == 0 && memory[1100] == 0 && memory[2500] == 0);
	CHECK(pin(&driver, id, 0, 0, &answer) == 0 && answer.pinned == 4 && answer.pages == 4);
	CHECK(pages_pinned() == 3 && driver.shared->locked == 3); /* one page twice counts once */
	CHECK(madvise(memory + 9 * PAGE, PAGE, MADV_DONTNEED) == 0); /* below the third only */
	CHECK(pages_pinned() == 0);
	CHECK(copy(&driver, id, 0, back, 1500, 0) == 0 && memcmp(back, other, 1500) == 0);
	CHECK(pin(&driver, id, 0, 0, &answer) == 0 && answer.state == THOLE_DRIVER_PINNING && answer.pinned == 2);
	CHECK(forget(&driver, id) == 0 && forget(&driver, id) == -ENOENT);
	CHECK(pages_pinned() == 0 && driver.shared->locked == 0);
}

static void case_overlapping(void)
{
	struct bed bed = bed_new();
	uint32_t inside = declare(&bed.driver, bed.memory + 10 * PAGE, 20 * PAGE, 0);
	uint32_t over = declare(&bed.driver, bed.memory - 5, 10, 0); /* what is in front need not be there */
	struct thole_driver_pin answer;

	CHECK(inside && over && pin(&bed.driver, inside, 20 * PAGE, 0, &answer) == 0);
	CHECK(pages_pinned() == PAGES);
	CHECK(forget(&bed.driver, bed.id) == 0);
	CHECK(pages_pinned() == 20);
	CHECK(copy(&bed.driver, inside, 0, bed.memory, PAGE, THOLE_DRIVER_INTO) == -EACCES);
	CHECK(forget(&bed.driver, inside) == 0);
	CHECK(pages_pinned() == 0);
}

static void case_background(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH);
	uint32_t id = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
	struct thole_driver_pin answer;

	pin_in_background(&driver, id, LENGTH);
	CHECK(pages_pinned() == PAGES);
	for (unsigned i = 0; i < 50; i++) { /* forgotten before, while and after it is pinned */
		CHECK(forget(&driver, id) == 0);
		id = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
		CHECK(id && pin(&driver, id, LENGTH, THOLE_DRIVER_BACKGROUND, &answer) == 0);
		CHECK(usleep(i * 50) == 0);
	}
	CHECK(forget(&driver, id) == 0 && driver.shared->locked == 0);
}

static struct thole_driver_events *events_of(const struct driver *driver)
{
	struct thole_driver_events *events = mmap(NULL, sizeof(*events), PROT_READ | PROT_WRITE, MAP_SHARED, driver->fd,
						  THOLE_DRIVER_AT_EVENTS);

	CHECK(events != MAP_FAILED);
	return events;
}

/* What became of what a worker was to pin, if that is over; event n. */
static bool was_pinned(const struct thole_driver_events *events, uint32_t n, struct thole_driver_pinned *pinned_p)
{
	const struct thole_driver_event *event = &events->events[n % THOLE_DRIVER_EVENTS];

	if (__atomic_load_n(&event->stamp, __ATOMIC_ACQUIRE) != n + 1)
		return false;
	CHECK(event->kind == THOLE_DRIVER_EVENT_PINNED);
	memcpy(pinned_p, event->data, sizeof(*pinned_p));
	return true;
}

/* A mapping that changes more often than all of it can be pinned, but not more often than a run: that ends, too. With
 * one processor, on which whoever changes it goes first. The region has the same memory many times, so that no machine
 * is fast enough to pin all of it in between. */
static void case_changing(void)
{
	enum { MANY = 8192, TIMES = 64, ENOUGH = 2000 };
	const struct sched_param first = {.sched_priority = 1};
	struct thole_driver_segment segments[TIMES];
	struct driver driver = driver_open();
	struct thole_driver_events *events = events_of(&driver);
	unsigned char *memory = memory_new((size_t)MANY * PAGE);
	struct thole_driver_pinned pinned;
	struct thole_driver_pin answer;
	uint32_t id;

	for (unsigned i = 0; i < TIMES; i++)
		segments[i] = (struct thole_driver_segment){(uintptr_t)memory, (uint64_t)MANY * PAGE};
	id = declare_vector(&driver, segments, TIMES, THOLE_DRIVER_WRITE);
	CHECK(sched_setscheduler(0, SCHED_FIFO, &first) == 0);
	memset(memory, 1, (size_t)MANY * PAGE);
	CHECK(pin(&driver, id, (uint64_t)TIMES * MANY * PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	while (!was_pinned(events, 0, &pinned)) {
		CHECK(driver.shared->invalidations + driver.shared->late < ENOUGH);
		CHECK(madvise(memory, PAGE, MADV_DONTNEED) == 0 && usleep(1000) == 0);
	}
	CHECK(pinned.status == -EAGAIN);
	CHECK(forget(&driver, id) == 0 && pages_pinned() == 0);
}

enum { CHASED = THOLE_DRIVER_SEGMENTS - 1 }; /* pages, each a run of its own, behind one that changes */

struct chase {
	struct driver driver;
	int fd;                /* tells of pages that are asked for */
	unsigned char *memory; /* those */
	unsigned char *change; /* the one in front of them */
	size_t furthest;       /* of the pages, the last one that was asked for to be pinned */
	bool over;
};

/* A page is asked for. If it is to be pinned, which it never was before, all pins go. Those behind it, which may have
 * been asked for ahead, are asked for again. */
static void chase_change(struct chase *chase, size_t page)
{
	size_t behind;

	if (chase->driver.shared->locked) {
		chase->furthest = page;
		CHECK(madvise(chase->change, PAGE, MADV_DONTNEED) == 0);
	}
	behind = chase->furthest + 1;
	CHECK(behind == CHASED ||
	      madvise(chase->memory + behind * PAGE, (CHASED - behind) * PAGE, MADV_DONTNEED) == 0);
}

static void *chase_answer(void *argument)
{
	static const unsigned char zeros[PAGE_MAX];
	struct chase *chase = argument;
	struct uffd_msg message;

	while (read(chase->fd, &message, sizeof(message)) == sizeof(message)) {
		uintptr_t at = message.arg.pagefault.address & ~(uintptr_t)(PAGE - 1);
		struct uffdio_copy answer = {.dst = at, .src = (uintptr_t)zeros, .len = PAGE};

		if (!__atomic_load_n(&chase->over, __ATOMIC_ACQUIRE))
			chase_change(chase, (at - (uintptr_t)chase->memory) / PAGE);
		CHECK(ioctl(chase->fd, UFFDIO_COPY, &answer) == 0);
	}
	return NULL;
}

/* A mapping that changes whenever pinning has got further than ever before: that ends, too, and not with the region. */
static void case_chased(void)
{
	struct chase chase = {.driver = driver_open(), .memory = memory_new(LENGTH), .change = memory_new(PAGE)};
	struct thole_driver_segment segments[CHASED + 1] = {{(uintptr_t)chase.change, PAGE}};
	struct thole_driver_pin answer;
	pthread_t thread;
	uint32_t id;

	for (size_t i = 0; i < CHASED; i++)
		segments[i + 1] = (struct thole_driver_segment){(uintptr_t)chase.memory + i * PAGE, PAGE};
	id = declare_vector(&chase.driver, segments, CHASED + 1, THOLE_DRIVER_WRITE);
	chase.fd = userfault_over(chase.memory);
	CHECK(id && pthread_create(&thread, NULL, chase_answer, &chase) == 0);
	CHECK(pin(&chase.driver, id, sizeof(segments) / sizeof(segments[0]) * PAGE, 0, &answer) == -EAGAIN);
	CHECK(chase.furthest > CHASED / 4); /* and not because a run was in vain too often */
	__atomic_store_n(&chase.over, true, __ATOMIC_RELEASE);
	CHECK(pin(&chase.driver, id, sizeof(segments) / sizeof(segments[0]) * PAGE, 0, &answer) == 0);
	CHECK(pages_pinned() == CHASED + 1);
}

static void write_text(const char *folder, const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* This process and what is made for it has so much memory from now on. */
static void limit_memory(const char *bytes)
{
	char folder[] = "/tmp/groups-XXXXXX", own[64];

	CHECK(mkdtemp(folder) != NULL && mount("groups", folder, "cgroup2", 0, NULL) == 0);
	write_text(folder, "cgroup.subtree_control", "+memory");
	snprintf(own, sizeof(own), "%s/limited-%d", folder, (int)getpid());
	CHECK(mkdir(own, 0700) == 0);
	write_text(own, "memory.max", bytes);
	write_text(own, "cgroup.procs", "0");
	CHECK(umount2(folder, MNT_DETACH) == 0);
}

/* What the driver notes of regions' pages is charged to who wants them, also where a worker is to pin them. */
static void case_charged(void)
{
	enum { REGIONS = 8 }; /* with lists of 32 MiB; there is room for one of them */
	struct thole_driver_pin answer;
	struct driver driver;
	unsigned made = 0;

	limit_memory("64M");
	driver = driver_open();
	for (unsigned i = 0; i < REGIONS; i++) {
		uint32_t id = declare(&driver, (void *)(UINT64_C(1) << 40), (size_t)THOLE_DRIVER_PAGES * PAGE, 0);
		int status = pin(&driver, id, 1, THOLE_DRIVER_BACKGROUND, &answer);

		CHECK(id && (status == 0 || status == -ENOMEM));
		made += status == 0;
		CHECK(pin(&driver, id, 1, 0, &answer) == (status ? status : -EFAULT)); /* nothing is there */
	}
	CHECK(made == 1);
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* A user without rights, with room for 64 pages. */
static void become_other(void)
{
	const struct rlimit limit = {.rlim_cur = 64 * PAGE, .rlim_max = 64 * PAGE};

	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
}

static void case_limit(void)
{
	unsigned char *memory = memory_new(LENGTH), other[PAGE_MAX];
	struct driver driver;
	struct thole_driver_pin answer;
	uint32_t ids[4];

	become_other();
	driver = driver_open();
	for (unsigned i = 0; i < 4; i++) {
		ids[i] = declare(&driver, memory + i * 40 * PAGE, 40 * PAGE, THOLE_DRIVER_WRITE);
		CHECK(ids[i] && pin(&driver, ids[i], 40 * PAGE, 0, &answer) == 0); /* the others give way */
		CHECK(pages_pinned() <= 64);
	}
	CHECK(driver.shared->yielded >= 3 * 40);
	for (unsigned i = 0; i < 4; i++)
		CHECK(copy(&driver, ids[i], 0, other, PAGE, 0) == 0);
	ids[0] = declare(&driver, memory, 65 * PAGE, THOLE_DRIVER_WRITE);
	CHECK(ids[0] && pin(&driver, ids[0], 65 * PAGE, 0, &answer) == -ENOMEM);
	CHECK(driver.shared->refused > 0);
	CHECK(pages_pinned() <= 64);
	ids[1] = declare(&driver, memory, 40 * PAGE, THOLE_DRIVER_KEEP);
	CHECK(ids[1] && pin(&driver, ids[1], 40 * PAGE, 0, &answer) == 0);
	CHECK(pin(&driver, ids[3], 40 * PAGE, 0, &answer) == -ENOMEM); /* this one does not give way */
	CHECK(pages_pinned() == 40);
}

/* Room for three of them: which one gives way to the fourth. None of another descriptor's does. */
static void case_order(void)
{
	static const uint32_t states[] = {THOLE_DRIVER_PINNED, THOLE_DRIVER_INVALID, THOLE_DRIVER_PINNED,
					  THOLE_DRIVER_PINNED};
	unsigned char *memory = memory_new(LENGTH), other[PAGE_MAX];
	struct driver driver, other_driver;
	struct thole_driver_pin answer;
	uint32_t ids[4], other_id;

	become_other();
	driver = driver_open();
	other_driver = driver_open();
	other_id = declare(&other_driver, memory + 100 * PAGE, 4 * PAGE, 0);
	CHECK(other_id && pin(&other_driver, other_id, 4 * PAGE, 0, &answer) == 0);
	for (unsigned i = 0; i < 4; i++) {
		ids[i] = declare(&driver, memory + i * 20 * PAGE, 20 * PAGE, THOLE_DRIVER_WRITE);
		CHECK(ids[i] && pin(&driver, ids[i], 20 * PAGE, 0, &answer) == 0);
		if (i == 2) { /* the first is used again, by which the second is who has waited for longest */
			CHECK(pages_pinned() == 64);
			CHECK(copy(&driver, ids[0], 0, other, PAGE, 0) == 0);
		}
	}
	CHECK(driver.shared->yielded == 20 && pages_pinned() == 64);
	for (unsigned i = 0; i < 4; i++) {
		CHECK(pin(&driver, ids[i], 0, 0, &answer) == 0);
		CHECK(answer.state == states[i]);
	}
	CHECK(pin(&other_driver, other_id, 0, 0, &answer) == 0 && answer.state == THOLE_DRIVER_PINNED);
}

static void case_arguments(void)
{
	struct bed bed = bed_new();
	struct thole_driver_segment segments[THOLE_DRIVER_SEGMENTS + 1] = {
		{.address = UINT64_MAX - PAGE, .length = PAGE},
	};
	struct thole_driver_pin answer;

	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, bed.driver.fd, 0) == MAP_FAILED && errno == EPERM);
	CHECK(mprotect((void *)(uintptr_t)bed.driver.shared, PAGE, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
	CHECK(mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, bed.driver.fd, 0) == MAP_FAILED);
	CHECK(declare_vector(&bed.driver, segments, 1, 0) == 0 && errno == EFAULT); /* the kernel's memory */
	CHECK(declare_vector(&bed.driver, NULL, 1, 0) == 0 && errno == EFAULT);
	CHECK(declare_vector(&bed.driver, segments, 0, 0) == 0 && errno == EINVAL);
	CHECK(declare_vector(&bed.driver, segments, THOLE_DRIVER_SEGMENTS + 1, 0) == 0 && errno == EINVAL);
	CHECK(declare(&bed.driver, bed.memory, 0, 0) == 0 && errno == EINVAL);
	CHECK(declare(&bed.driver, bed.memory, PAGE, 8) == 0 && errno == EINVAL);
	CHECK(declare(&bed.driver, (void *)PAGE, 4 * (size_t)THOLE_DRIVER_PAGES * PAGE, 0) == 0 && errno == EINVAL);
	CHECK(pin(&bed.driver, bed.id, LENGTH + 1, 0, &answer) == -EINVAL);
	CHECK(pin(&bed.driver, 0, 1, 0, &answer) == -ENOENT && pin(&bed.driver, UINT32_MAX, 1, 0, &answer) == -ENOENT);
	CHECK(copy(&bed.driver, bed.id, LENGTH, bed.memory, 1, 0) == -EINVAL);
	CHECK(copy(&bed.driver, bed.id, UINT64_MAX, bed.memory, 2, 0) == -EINVAL);
	CHECK(copy(&bed.driver, bed.id, 0, NULL, 10, 0) == -EFAULT);
	CHECK(ioctl(bed.driver.fd, _IO(0xE7, 99), 0) < 0 && errno == ENOTTY);
	stayed(&bed);
}

static void case_many(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(PAGE);
	unsigned count = 0;

	while (declare(&driver, memory + count % PAGE, 1, 0))
		count++;
	CHECK(errno == EBUSY && count == THOLE_DRIVER_REGIONS - 1);
	CHECK(forget(&driver, 17) == 0);
	CHECK(declare(&driver, memory, 1, 0) == 17);
}

/* Nothing is pinned, and yet the word tells of each change; but of a fork, after which a card's pins stay right. */
static void case_watch(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH);
	uint32_t id = declare(&driver, memory + PAGE, 2 * PAGE, THOLE_DRIVER_WATCH), seen;
	uint32_t plain = declare(&driver, memory + PAGE, 2 * PAGE, 0), unchanged = driver.shared->generations[plain];
	pid_t child;

	fill(memory, LENGTH, 1);
	seen = driver.shared->generations[id];
	CHECK(madvise(memory + 5 * PAGE, PAGE, MADV_DONTNEED) == 0);
	child = fork();
	if (child == 0)
		_exit(0);
	CHECK(wait_for(child) == 0);
	CHECK(driver.shared->generations[id] == seen);
	CHECK(madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED) == 0);
	CHECK(driver.shared->generations[id] != seen);
	seen = driver.shared->generations[id];
	CHECK(munmap(memory, LENGTH) == 0);
	CHECK(driver.shared->generations[id] != seen);
	CHECK(driver.shared->generations[plain] == unchanged && driver.shared->invalidations == 0);
	seen = driver.shared->generations[id];
	CHECK(forget(&driver, id) == 0);
	CHECK(driver.shared->generations[id] != seen);
}

#define CASE(name) {#name, case_##name}
static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	CASE(munmap), CASE(munmap_part), CASE(mremap), CASE(dontneed), CASE(tagged), CASE(mprotect), CASE(split),
	CASE(collapse), CASE(hole), CASE(truncate), CASE(writeback), CASE(fork), CASE(shared), CASE(exec), CASE(exit),
	CASE(kill), CASE(userfault), CASE(stuck), CASE(stuck_call), CASE(locked), CASE(locked_killed),
	CASE(swap), CASE(shrink), CASE(vector), CASE(overlapping), CASE(background), CASE(changing), CASE(chased),
	CASE(charged), CASE(limit), CASE(order), CASE(arguments), CASE(many), CASE(watch),
};

static bool wanted(const char *name, int argc, char **argv)
{
	bool named = argc == 1;

	for (int i = 1; i < argc; i++)
		named = named || strcmp(argv[i], name) == 0;
	return named;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 3 && strcmp(argv[1], "--inherited") == 0)
		return inherited(argv[2]);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pid_t child;

		if (!wanted(cases[i].name, argc, argv))
			continue;
		fflush(stdout);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			cases[i].run();
			_exit(0);
		}
		if (wait_for(child) != 0) {
			printf("%s failed\n", cases[i].name);
			failed++;
		} else {
			printf("%s\n", cases[i].name);
		}
	}
	return failed != 0;
}
