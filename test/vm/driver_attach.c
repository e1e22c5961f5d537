/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Views of regions (kernel/attach.c): what a peer loads and stores is what the owner has there at the time, however
 * the owner's mapping changes; and where there is nothing the peer lives, and is told.
 *
 *     thole-driver-attach [CASE...]      as root; each case in a process of its own, most of them twice: with the view
 *                                        in another process, and in the owner itself
 *     thole-driver-attach --hold         attach a region of its own, say so, and stay
 *     thole-driver-attach --race SECONDS SEED
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "driver.h"
#include "stuck.h"

enum { PAGES = 300 };

#define LENGTH (PAGES * PAGE)

/* A view, where it is mapped. */
struct view {
	const volatile struct thole_driver_view *head;
	unsigned char *memory;
	size_t mapped;
};

/* What a peer is asked to do with its view. */
enum what { ATTACH, SAME, ZERO, FILL, LOST, ENDED, BYE };

struct request {
	enum what what;
	unsigned salt;
	size_t at, length;
	struct thole_driver_attach attach;
};

struct bed {
	struct driver driver;
	unsigned char *memory;
	size_t length;
	uint32_t id;
	struct thole_driver_offer offer;
	int peer;         /* the socket of who has the view; -1: it is here */
	pid_t child;
	struct view view; /* then */
};

static bool here; /* views are in the owner */

static unsigned char contents(size_t at, unsigned salt)
{
	return (unsigned char)(at * 7 + at / PAGE * 13 + salt);
}

static void fill(volatile unsigned char *memory, size_t at, size_t length, unsigned salt)
{
	for (size_t i = at; i < at + length; i++)
		memory[i] = contents(i, salt);
}

static bool is_same(const volatile unsigned char *memory, size_t at, size_t length, unsigned salt)
{
	for (size_t i = at; i < at + length; i++)
		if (memory[i] != contents(i, salt))
			return false;
	return true;
}

static bool is_zero(const volatile unsigned char *memory, size_t at, size_t length)
{
	for (size_t i = at; i < at + length; i++)
		if (memory[i] != 0)
			return false;
	return true;
}

static int wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

/* ---- Calls ------------------------------------------------------------------------------------- */

static int offer(const struct driver *driver, uint32_t id, struct thole_driver_offer *offer_p)
{
	*offer_p = (struct thole_driver_offer){.id = id};
	return ioctl(driver->fd, THOLE_DRIVER_OFFER, offer_p) == 0 ? 0 : -errno;
}

static int withdraw(const struct driver *driver, uint32_t id)
{
	return ioctl(driver->fd, THOLE_DRIVER_WITHDRAW, (unsigned long)id) == 0 ? 0 : -errno;
}

static struct thole_driver_attach ticket(const struct thole_driver_offer *told, uint32_t flags)
{
	return (struct thole_driver_attach){
		.number = told->number, .flags = flags, .key = {told->key[0], told->key[1]}};
}

/* The descriptor, or a negative errno. */
static int attach(const struct driver *driver, struct thole_driver_attach *request)
{
	return ioctl(driver->fd, THOLE_DRIVER_ATTACH, request) == 0 ? request->fd : -errno;
}

static struct view view_map(const struct thole_driver_attach *attached)
{
	size_t mapped = (attached->offset + attached->length + PAGE - 1) & ~(size_t)(PAGE - 1);
	int protection = attached->flags & THOLE_DRIVER_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	char *memory = mmap(NULL, mapped, protection, MAP_SHARED, attached->fd, 0);

	CHECK(memory != MAP_FAILED);
	CHECK(close(attached->fd) == 0);
	return (struct view){(const void *)memory, (unsigned char *)memory + attached->offset, mapped};
}

static struct view view_new(const struct driver *driver, struct thole_driver_attach attached)
{
	CHECK(attach(driver, &attached) >= 0);
	return view_map(&attached);
}

/* ---- Peers ------------------------------------------------------------------------------------- */

static int view_do(struct view *view, const struct driver *driver, const struct request *request)
{
	switch (request->what) {
	case ATTACH:
		*view = view_new(driver, request->attach);
		return 1;
	case SAME:
		return is_same(view->memory, request->at, request->length, request->salt);
	case ZERO:
		return is_zero(view->memory, request->at, request->length);
	case FILL:
		fill(view->memory, request->at, request->length, request->salt);
		return 1;
	case LOST:
		return (int)view->head->lost;
	case ENDED:
		return (int)view->head->ended;
	default:
		return munmap((void *)(uintptr_t)view->head, view->mapped) == 0;
	}
}

static void peer_serve(int socket)
{
	struct driver driver = driver_open();
	struct request request;
	struct view view = {0};

	while (read(socket, &request, sizeof(request)) == sizeof(request)) {
		int answer = view_do(&view, &driver, &request);

		CHECK(write(socket, &answer, sizeof(answer)) == sizeof(answer));
	}
	_exit(0);
}

static int peer_ask(struct bed *bed, struct request request)
{
	int answer;

	if (bed->peer < 0)
		return view_do(&bed->view, &bed->driver, &request);
	CHECK(write(bed->peer, &request, sizeof(request)) == sizeof(request));
	CHECK(read(bed->peer, &answer, sizeof(answer)) == sizeof(answer));
	return answer;
}

static bool peer_same(struct bed *bed, size_t at, size_t length, unsigned salt)
{
	return peer_ask(bed, (struct request){.what = SAME, .at = at, .length = length, .salt = salt});
}

static bool peer_zero(struct bed *bed, size_t at, size_t length)
{
	return peer_ask(bed, (struct request){.what = ZERO, .at = at, .length = length});
}

static void peer_fill(struct bed *bed, size_t at, size_t length, unsigned salt)
{
	CHECK(peer_ask(bed, (struct request){.what = FILL, .at = at, .length = length, .salt = salt}));
}

static bool peer_lost(struct bed *bed)
{
	return peer_ask(bed, (struct request){.what = LOST});
}

static bool peer_ended(struct bed *bed)
{
	return peer_ask(bed, (struct request){.what = ENDED});
}

static struct bed bed_before(void)
{
	struct bed bed = {.peer = -1};
	int sockets[2];

	if (!here) {
		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
		bed.child = fork();
		CHECK(bed.child >= 0);
		if (bed.child == 0) {
			close(sockets[0]);
			peer_serve(sockets[1]);
		}
		close(sockets[1]);
		bed.peer = sockets[0];
	}
	return bed;
}

static struct bed bed_flags(struct bed bed, unsigned char *memory, size_t length, uint32_t flags)
{
	bed.driver = driver_open();
	bed.memory = memory;
	bed.length = length;
	bed.id = declare(&bed.driver, memory, length, flags);
	CHECK(bed.id != 0 && offer(&bed.driver, bed.id, &bed.offer) == 0);
	CHECK(peer_ask(&bed, (struct request){.what = ATTACH, .attach = ticket(&bed.offer, flags)}));
	return bed;
}

static struct bed bed_new(void)
{
	unsigned char *memory = memory_new(LENGTH);
	struct bed bed = bed_flags(bed_before(), memory, LENGTH, THOLE_DRIVER_WRITE);

	fill(memory, 0, LENGTH, 1);
	return bed;
}

/* Both ways: what the one writes the other reads. */
static void same(struct bed *bed, size_t at, size_t length)
{
	fill(bed->memory, at, length, 21);
	CHECK(peer_same(bed, at, length, 21));
	peer_fill(bed, at, length, 22);
	CHECK(is_same(bed->memory, at, length, 22));
	CHECK(!peer_lost(bed));
	CHECK(pages_pinned() == 0);
}

/* ---- Mappings ---------------------------------------------------------------------------------- */

static void case_plain(void)
{
	struct bed bed = bed_new();

	CHECK(peer_same(&bed, 0, LENGTH, 1));
	same(&bed, 0, LENGTH);
	same(&bed, 5, 100);
	CHECK(!peer_ended(&bed));
	CHECK(peer_ask(&bed, (struct request){.what = BYE}));
	CHECK(forget(&bed.driver, bed.id) == 0);
	CHECK(is_same(bed.memory, 105, LENGTH - 105, 22));
}

/* A region that neither begins nor ends with a page. */
static void case_odd(void)
{
	unsigned char *memory = memory_new(LENGTH);
	struct bed bed = bed_flags(bed_before(), memory + 777, 3 * PAGE, THOLE_DRIVER_WRITE);

	same(&bed, 0, 3 * PAGE);
	CHECK(bed.memory[-1] == 0 && bed.memory[3 * PAGE] == 0);
}

/* Memory that nobody has touched. */
static void case_untouched(void)
{
	struct bed bed = bed_flags(bed_before(), memory_new(LENGTH), LENGTH, THOLE_DRIVER_WRITE);

	peer_fill(&bed, 0, LENGTH, 3);
	CHECK(is_same(bed.memory, 0, LENGTH, 3));
}

/* For reading: pages of zeros, of a file and of a child's are others once the owner writes. */
static void case_reading(void)
{
	int fd = memfd_create("file", 0);
	unsigned char *memory = memory_new(LENGTH), byte = 9;
	struct bed bed = bed_flags(bed_before(), memory, LENGTH, 0);

	CHECK(peer_zero(&bed, 0, LENGTH));
	fill(memory, 0, LENGTH, 4);
	CHECK(peer_same(&bed, 0, LENGTH, 4));
	CHECK(ftruncate(fd, (off_t)LENGTH) == 0 && pwrite(fd, &byte, 1, (off_t)PAGE) == 1);
	CHECK(mmap(memory, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == memory);
	CHECK(peer_zero(&bed, 0, PAGE) && !peer_zero(&bed, PAGE, 1));
	fill(memory, 0, LENGTH, 5);
	CHECK(peer_same(&bed, 0, LENGTH, 5) && !peer_lost(&bed));
	CHECK(pread(fd, &byte, 1, (off_t)PAGE) == 1 && byte == 9);
}

static void munmap_seen(struct bed *bed)
{
	same(bed, 0, LENGTH);
	CHECK(munmap(bed->memory, LENGTH) == 0);
	CHECK(!peer_lost(bed)); /* of what nobody touches nothing is lost */
	CHECK(peer_zero(bed, PAGE, 2 * PAGE));
	CHECK(peer_lost(bed) && !peer_ended(bed));
	peer_fill(bed, 0, LENGTH, 6); /* nobody dies of it */
	CHECK(peer_lost(bed));
}

static void case_munmap(void)
{
	struct bed bed = bed_new();

	munmap_seen(&bed);
}

static void case_again(void)
{
	struct bed bed = bed_new();
	int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	same(&bed, 0, LENGTH);
	CHECK(munmap(bed.memory, LENGTH) == 0);
	CHECK(mmap(bed.memory, LENGTH, protection, flags, -1, 0) == bed.memory);
	CHECK(peer_zero(&bed, 0, LENGTH));
	same(&bed, 0, LENGTH);
	CHECK(mmap(bed.memory + 7 * PAGE, PAGE, protection, flags, -1, 0) == bed.memory + 7 * PAGE);
	CHECK(peer_zero(&bed, 7 * PAGE, PAGE) && peer_same(&bed, 0, 7 * PAGE, 22));
	CHECK(peer_same(&bed, 8 * PAGE, LENGTH - 8 * PAGE, 22));
	same(&bed, 0, LENGTH);
}

static void case_mremap(void)
{
	struct bed bed = bed_new();
	unsigned char *place = memory_new(LENGTH);

	same(&bed, 0, LENGTH);
	CHECK(mremap(bed.memory, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
	peer_fill(&bed, 0, LENGTH, 7);
	CHECK(peer_lost(&bed) && is_same(place, 0, LENGTH, 22)); /* what moved is not in the region */
}

static void dontneed_seen(struct bed *bed)
{
	same(bed, 0, LENGTH);
	CHECK(madvise(bed->memory + PAGE, 3 * PAGE, MADV_DONTNEED) == 0);
	CHECK(peer_zero(bed, PAGE, 3 * PAGE) && peer_same(bed, 0, PAGE, 22));
	CHECK(peer_same(bed, 4 * PAGE, LENGTH - 4 * PAGE, 22));
	same(bed, 0, LENGTH);
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
	struct bed bed = bed_before();

	if (!tags_allow())
		return;
	bed = bed_flags(bed, with_tag(memory), LENGTH, THOLE_DRIVER_WRITE);
	bed.memory = memory;
	dontneed_seen(&bed);
	munmap_seen(&bed);
}

static void case_mprotect(void)
{
	struct bed bed = bed_new();

	same(&bed, 0, LENGTH);
	CHECK(mprotect(bed.memory, PAGE, PROT_READ) == 0);
	peer_fill(&bed, 0, PAGE, 8);
	CHECK(peer_lost(&bed) && is_same(bed.memory, 0, PAGE, 22));
	CHECK(peer_same(&bed, PAGE, LENGTH - PAGE, 22));
}

static void case_huge(void)
{
	struct bed bed = bed_before();
	unsigned char *memory = memory_new(HUGE);

	CHECK(madvise(memory, HUGE, MADV_HUGEPAGE) == 0);
	fill(memory, 0, HUGE, 1);
	bed = bed_flags(bed, memory, HUGE, THOLE_DRIVER_WRITE);
	CHECK(peer_same(&bed, 0, HUGE, 1));
	same(&bed, 0, HUGE);
	CHECK(madvise(memory + 77 * PAGE, PAGE, MADV_DONTNEED) == 0); /* split */
	CHECK(peer_zero(&bed, 77 * PAGE, PAGE) && peer_same(&bed, 0, 77 * PAGE, 22));
	same(&bed, 0, HUGE);
	(void)madvise(memory, HUGE, 25); /* MADV_COLLAPSE: one again */
	CHECK(peer_same(&bed, 0, HUGE, 22));
	same(&bed, 0, HUGE);
}

static void case_file(void)
{
	struct bed bed = bed_before();
	int fd = memfd_create("region", 0);
	unsigned char *memory, byte;

	CHECK(fd >= 0 && ftruncate(fd, (off_t)LENGTH) == 0);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	bed = bed_flags(bed, memory, LENGTH, THOLE_DRIVER_WRITE);
	same(&bed, 0, LENGTH);
	CHECK(pread(fd, &byte, 1, (off_t)PAGE) == 1 && byte == contents(PAGE, 22));
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)PAGE, 7 * (off_t)PAGE) == 0);
	CHECK(peer_zero(&bed, PAGE, 7 * PAGE));
	same(&bed, 0, LENGTH);
	CHECK(ftruncate(fd, 100 * (off_t)PAGE) == 0);
	CHECK(peer_same(&bed, 0, 100 * PAGE, 22) && !peer_lost(&bed));
	CHECK(peer_zero(&bed, 100 * PAGE, PAGE) && peer_lost(&bed));
}

/* ---- Processes --------------------------------------------------------------------------------- */

/* The owner forks: views stay the owner's, and neither sees what the other writes. */
static void case_fork(void)
{
	struct bed bed = bed_new();
	int go[2];
	pid_t child;
	char c;

	CHECK(pipe(go) == 0);
	same(&bed, 0, LENGTH);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct thole_driver_offer other;

		close(go[1]);
		memset(bed.memory, 0xcc, 50 * PAGE); /* the child first here, the parent there, the peer at the end */
		CHECK(read(go[0], &c, 1) == 1);
		CHECK(is_same(bed.memory, 50 * PAGE, LENGTH - 50 * PAGE, 22));
		CHECK(offer(&bed.driver, bed.id, &other) == -EPERM && withdraw(&bed.driver, bed.id) == -EPERM);
		_exit(0);
	}
	CHECK(peer_same(&bed, 0, LENGTH, 22));
	fill(bed.memory, 50 * PAGE, 50 * PAGE, 9);
	CHECK(peer_same(&bed, 50 * PAGE, 50 * PAGE, 9));
	peer_fill(&bed, 100 * PAGE, LENGTH - 100 * PAGE, 10);
	CHECK(is_same(bed.memory, 100 * PAGE, LENGTH - 100 * PAGE, 10));
	CHECK(write(go[1], "g", 1) == 1 && wait_for(child) == 0);
	CHECK(peer_same(&bed, 0, 50 * PAGE, 22));
	same(&bed, 0, LENGTH);
}

/* Who has a view forks: the child has none, and cannot be given one. */
static void case_fork_peer(void)
{
	struct bed bed = {.peer = -1, .driver = driver_open()};
	pid_t child;

	bed = bed_flags(bed, memory_new(LENGTH), LENGTH, THOLE_DRIVER_WRITE);
	same(&bed, 0, LENGTH);
	CHECK(madvise((void *)(uintptr_t)bed.view.head, bed.view.mapped, MADV_DOFORK) < 0 && errno == EINVAL);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct rlimit none = {0};

		setrlimit(RLIMIT_CORE, &none);
		bed.view.memory[0] = 1;
		_exit(0);
	}
	CHECK(WTERMSIG(wait_for(child)) == SIGSEGV);
	same(&bed, 0, LENGTH);
}

/* An owner that comes to an end in some way: what is seen afterwards is nothing, and nobody dies. */
static void owner_ends(void (*end)(void))
{
	int sockets[2];
	struct thole_driver_offer told;
	struct thole_driver_attach request;
	struct driver driver = driver_open();
	struct view view;
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct driver own = driver_open();
		unsigned char *memory = memory_new(LENGTH);

		CHECK(fcntl(own.fd, F_SETFD, FD_CLOEXEC) == 0);
		fill(memory, 0, LENGTH, 1);
		CHECK(offer(&own, declare(&own, memory, LENGTH, THOLE_DRIVER_WRITE), &told) == 0);
		CHECK(write(sockets[1], &told, sizeof(told)) == sizeof(told));
		CHECK(read(sockets[1], &told, sizeof(told)) == sizeof(told));
		end();
		_exit(1);
	}
	CHECK(read(sockets[0], &told, sizeof(told)) == sizeof(told));
	view = view_new(&driver, ticket(&told, THOLE_DRIVER_WRITE));
	CHECK(is_same(view.memory, 0, 200 * PAGE, 1));
	CHECK(write(sockets[0], &told, sizeof(told)) == sizeof(told));
	(void)wait_for(child);
	CHECK(is_zero(view.memory, 0, LENGTH) && view.head->lost && view.head->ended);
	fill(view.memory, 0, LENGTH, 2);
	request = ticket(&told, 0);
	CHECK(attach(&driver, &request) == -EACCES);
}

static void end_exit(void)
{
	_exit(0);
}

static void end_kill(void)
{
	raise(SIGKILL);
}

static void end_exec(void)
{
	execl("/bin/true", "true", NULL);
}

static void case_exit(void)
{
	owner_ends(end_exit);
}

static void case_kill(void)
{
	owner_ends(end_kill);
}

static void case_exec(void)
{
	owner_ends(end_exec);
}

/* Peers that are killed while they touch. */
static void case_kill_peer(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH);
	uint32_t id = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
	struct thole_driver_offer told;

	CHECK(offer(&driver, id, &told) == 0);
	for (unsigned i = 0; i < 10; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0) {
			struct driver own = driver_open();

			for (;;) {
				struct view view = view_new(&own, ticket(&told, THOLE_DRIVER_WRITE));

				fill(view.memory, 0, LENGTH, i);
				CHECK(munmap((void *)(uintptr_t)view.head, view.mapped) == 0);
			}
		}
		for (unsigned j = 0; j < 10 + i; j++) {
			CHECK(usleep(3000) == 0);
			CHECK(madvise(memory + j * PAGE, 100 * PAGE, MADV_DONTNEED) == 0);
		}
		CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(wait_for(child)));
	}
	CHECK(forget(&driver, id) == 0);
}

/* ---- Memory that comes and goes ------------------------------------------------------------------ */

static void case_swap(void)
{
	struct bed bed = bed_new();

	for (int i = 0; i < 3; i++) {
		CHECK(pages_out(bed.memory, LENGTH) > LENGTH / PAGE / 2);
		CHECK(peer_same(&bed, 0, LENGTH, i ? 22 : 1));
		peer_fill(&bed, 0, LENGTH, 11);
		CHECK(pages_out(bed.memory, LENGTH) > LENGTH / PAGE / 2);
		CHECK(is_same(bed.memory, 0, LENGTH, 11)); /* the owner has not touched it since */
		same(&bed, 0, LENGTH);
	}
}

static void *userfault_answer(void *argument)
{
	unsigned char page[PAGE_MAX];
	struct uffd_msg message;
	int fd = *(int *)argument;

	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		struct uffdio_copy answer = {.dst = at, .src = (uintptr_t)page, .len = PAGE};

		memset(page, 77, PAGE);
		CHECK(ioctl(fd, UFFDIO_COPY, &answer) == 0);
	}
	return NULL;
}

static void case_userfault(void)
{
	unsigned char *memory = memory_new(LENGTH);
	struct bed bed = bed_flags(bed_before(), memory, LENGTH, THOLE_DRIVER_WRITE);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {
		.range = {.start = (uintptr_t)memory, .len = LENGTH},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	pthread_t thread;

	CHECK(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0);
	CHECK(pthread_create(&thread, NULL, userfault_answer, &fd) == 0);
	CHECK(!peer_zero(&bed, 0, PAGE) && !peer_lost(&bed));
	CHECK(memory[0] == 77);
	same(&bed, 0, LENGTH);
}

/* Whoever touches what a file system does not answer for waits without any lock of the owner's, who goes on mapping. */
static void case_stuck(void)
{
	struct request request = {.what = SAME, .length = 1};
	struct bed bed = bed_before();
	int answer;

	bed = bed_flags(bed, stuck_map(), STUCK * PAGE, 0);
	CHECK(write(bed.peer, &request, sizeof(request)) == sizeof(request));
	stuck_wait();
	usleep(100000); /* it waits for that now */
	alarm(20);
	CHECK(munmap(memory_new(LENGTH), LENGTH) == 0);
	alarm(0);
	stuck_refuse();
	CHECK(read(bed.peer, &answer, sizeof(answer)) == sizeof(answer));
	CHECK(peer_lost(&bed));
}

/* ---- Changes beside each other ------------------------------------------------------------------ */

/* A view that takes a while to take away: of pages of zeros, which cost nothing, but for the last ones. */
enum { LONG_PAGES = 32768, LONG_LAST = 4 };

#define LONG (LONG_PAGES * PAGE)
#define LONG_FRONT ((LONG_PAGES - LONG_LAST) * PAGE)

struct beside {
	struct driver driver;
	unsigned char *memory;
	uint32_t id;
	struct view view;
	bool withdraws;
	volatile bool going;
};

static void *beside_change(void *argument)
{
	struct beside *beside = argument;

	beside->going = true;
	if (beside->withdraws)
		CHECK(withdraw(&beside->driver, beside->id) == 0);
	else
		CHECK(madvise(beside->memory, LONG, MADV_DONTNEED) == 0);
	return NULL;
}

/* While one thread's change takes the view away, another one gives the last pages back: when that is done nobody sees
 * them any more, though the first is still in front of them. */
static void beside_once(bool withdraws, unsigned later_us)
{
	struct beside beside = {.driver = driver_open(), .memory = memory_new(LONG), .withdraws = withdraws};
	struct thole_driver_offer told;
	pthread_t thread;

	CHECK(madvise(beside.memory, LONG, 22) == 0); /* MADV_POPULATE_READ */
	memset(beside.memory + LONG_FRONT, 0x5a, LONG_LAST * PAGE);
	beside.id = declare(&beside.driver, beside.memory, LONG, 0);
	CHECK(beside.id && offer(&beside.driver, beside.id, &told) == 0);
	beside.view = view_new(&beside.driver, ticket(&told, 0));
	for (size_t at = 0; at < LONG; at += PAGE)
		CHECK(beside.view.memory[at] == (at < LONG_FRONT ? 0 : 0x5a));
	CHECK(pthread_create(&thread, NULL, beside_change, &beside) == 0);
	while (withdraws ? !beside.view.head->ended : !beside.going)
		sched_yield();
	CHECK(usleep(later_us) == 0);
	CHECK(madvise(beside.memory + LONG_FRONT, LONG_LAST * PAGE, MADV_DONTNEED) == 0);
	CHECK(is_zero(beside.view.memory, LONG_FRONT, LONG_LAST * PAGE));
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(munmap((void *)(uintptr_t)beside.view.head, beside.view.mapped) == 0);
	CHECK(munmap(beside.memory, LONG) == 0 && close(beside.driver.fd) == 0);
}

static void case_beside(void)
{
	for (unsigned i = 0; i < 3; i++) {
		beside_once(true, 0);
		beside_once(false, i * 1000);
	}
}

/* ---- Who may ------------------------------------------------------------------------------------ */

static void case_withdraw(void)
{
	struct bed bed = bed_new();
	struct thole_driver_offer old = bed.offer;
	struct thole_driver_attach request = ticket(&old, 0);

	same(&bed, 0, LENGTH);
	CHECK(offer(&bed.driver, bed.id, &bed.offer) == -EEXIST);
	CHECK(withdraw(&bed.driver, bed.id) == 0 && withdraw(&bed.driver, bed.id) == -ENOENT);
	CHECK(peer_ended(&bed) && !peer_lost(&bed));
	peer_fill(&bed, 0, LENGTH, 12);
	CHECK(peer_lost(&bed) && is_same(bed.memory, 0, LENGTH, 22));
	CHECK(attach(&bed.driver, &request) == -EACCES);
	CHECK(offer(&bed.driver, bed.id, &bed.offer) == 0 && bed.offer.key[0] != old.key[0]);
	CHECK(peer_ask(&bed, (struct request){.what = BYE}));
	CHECK(peer_ask(&bed, (struct request){.what = ATTACH, .attach = ticket(&bed.offer, THOLE_DRIVER_WRITE)}));
	same(&bed, 0, LENGTH);
	CHECK(forget(&bed.driver, bed.id) == 0 && peer_ended(&bed));
	CHECK(!peer_same(&bed, 0, PAGE, 22) && peer_lost(&bed));
	CHECK(offer(&bed.driver, bed.id, &bed.offer) == -ENOENT);
}

static void case_keys(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH);
	struct thole_driver_segment two[] = {{(uintptr_t)memory, PAGE}, {(uintptr_t)memory + 2 * PAGE, PAGE}};
	uint32_t id = declare(&driver, memory, LENGTH, 0), vector = declare_vector(&driver, two, 2, 0);
	struct thole_driver_offer told;
	struct thole_driver_attach request;

	CHECK(id && vector && offer(&driver, vector, &told) == -EINVAL);
	CHECK(offer(&driver, id, &told) == 0 && (told.key[0] || told.key[1]));
	request = ticket(&told, THOLE_DRIVER_WRITE); /* it is for reading */
	CHECK(attach(&driver, &request) == -EACCES);
	request = ticket(&told, 2);
	CHECK(attach(&driver, &request) == -EINVAL);
	for (int bit = 0; bit < 128; bit++) {
		request = ticket(&told, 0);
		request.key[bit / 64] ^= UINT64_C(1) << bit % 64;
		CHECK(attach(&driver, &request) == -EACCES);
	}
	request = ticket(&told, 0);
	request.number++;
	CHECK(attach(&driver, &request) == -EACCES);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_ATTACH, NULL) < 0 && errno == EFAULT);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_OFFER, NULL) < 0 && errno == EFAULT);
	CHECK(withdraw(&driver, 4711) == -ENOENT);
}

/* Run something as a child that is another user, or in a user namespace of its own. */
static int as_child(void (*become)(void), const struct thole_driver_offer *told)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		struct thole_driver_attach request = ticket(told, 0);
		struct driver driver;

		become();
		driver = driver_open();
		_exit(attach(&driver, &request) < 0 ? errno : 0);
	}
	return WEXITSTATUS(wait_for(child));
}

static void become_other(void)
{
	const struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};

	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
}

static void become_namespace(void)
{
	CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
}

/* Only the same user: also the one who is it in another user namespace, where it may have another name. */
static void case_users(void)
{
	struct driver driver = driver_open();
	struct thole_driver_offer told;

	CHECK(offer(&driver, declare(&driver, memory_new(LENGTH), LENGTH, 0), &told) == 0);
	CHECK(as_child(become_other, &told) == EACCES);
	CHECK(as_child(become_namespace, &told) == 0);
}

/* Nothing is pinned, so no limit is in the way. */
static void case_limit(void)
{
	struct bed bed;

	become_other();
	bed = bed_new();
	same(&bed, 0, LENGTH);
}

/* ---- Views as mappings ---------------------------------------------------------------------------- */

/* Why a child cannot map what its parent has attached; 0: it can. */
static int child_maps(int fd)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0)
		_exit(mmap(NULL, LENGTH + PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? errno : 0);
	return WEXITSTATUS(wait_for(child));
}

static void case_mapping(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH);
	uint32_t id = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
	struct thole_driver_offer told;
	struct thole_driver_attach request;
	struct iovec to, from;
	char *view;
	int fd;

	CHECK(offer(&driver, id, &told) == 0);
	request = ticket(&told, 0);
	fd = attach(&driver, &request);
	CHECK(fd >= 0 && request.offset == PAGE && request.length == LENGTH);
	CHECK(mmap(NULL, LENGTH + PAGE, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, (off_t)PAGE) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, LENGTH + 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, LENGTH + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
	CHECK(mmap(NULL, LENGTH + PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(child_maps(fd) == EPERM);
	view = mmap(NULL, LENGTH + PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	CHECK(view != MAP_FAILED && close(fd) == 0);
	memory[0] = 5;
	CHECK(view[PAGE] == 5);
	CHECK(mprotect(view, LENGTH + PAGE, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
	CHECK(mprotect(view, LENGTH + PAGE, PROT_READ | PROT_EXEC) < 0 && errno == EACCES);
	CHECK(munmap(view + PAGE, PAGE) < 0 && errno == EINVAL);
	CHECK(mprotect(view, PAGE, PROT_NONE) < 0 && errno == EINVAL);
	CHECK(mremap(view, LENGTH + PAGE, LENGTH + 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK(madvise(view, LENGTH + PAGE, MADV_DONTNEED) < 0);
	view = mremap(view, LENGTH + PAGE, LENGTH + PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory_new(LENGTH + PAGE));
	CHECK(view != MAP_FAILED && view[PAGE] == 5);
	CHECK(madvise(memory, PAGE, MADV_DONTNEED) == 0 && view[PAGE] == 0);
	to = (struct iovec){memory, 1};
	from = (struct iovec){view + PAGE, 1};
	CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0 && errno == EFAULT); /* no page to take hold of */
	CHECK(mprotect(view, LENGTH + PAGE, PROT_NONE) == 0 && mprotect(view, LENGTH + PAGE, PROT_READ) == 0);
	memory[1] = 6;
	CHECK(view[PAGE + 1] == 6);
	CHECK(munmap(view, LENGTH + PAGE) == 0);
}

/* A region that lies half over a view: of the view nothing can be had, and a change of what the view shows does not
 * reach further. */
static void case_chain(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(LENGTH), *place = memory_new(3 * LENGTH);
	struct thole_driver_offer told, further;
	struct thole_driver_attach request;
	struct thole_driver_pin answer;
	struct view view;
	uint32_t id;

	CHECK(offer(&driver, declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE), &told) == 0);
	request = ticket(&told, THOLE_DRIVER_WRITE);
	CHECK(attach(&driver, &request) >= 0);
	CHECK(mmap(place + LENGTH, LENGTH + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, request.fd, 0) ==
	      place + LENGTH);
	fill(memory, 0, LENGTH, 1);
	CHECK(is_same(place + LENGTH + PAGE, 0, LENGTH, 1));
	id = declare(&driver, place, 2 * LENGTH, THOLE_DRIVER_WRITE);
	CHECK(id && offer(&driver, id, &further) == 0);
	CHECK(pin(&driver, id, 2 * LENGTH, 0, &answer) == -EFAULT);
	view = view_new(&driver, ticket(&further, THOLE_DRIVER_WRITE));
	fill(view.memory, 0, LENGTH, 13);
	CHECK(is_same(place, 0, LENGTH, 13) && !view.head->lost);
	CHECK(is_zero(view.memory, LENGTH + PAGE, PAGE) && view.head->lost);
	for (int i = 0; i < 20; i++) {
		CHECK(madvise(memory, LENGTH, MADV_DONTNEED) == 0);
		CHECK(is_zero(place + LENGTH + PAGE, 0, LENGTH));
		CHECK(is_same(view.memory, 0, LENGTH, 13));
	}
}

static void case_many(void)
{
	struct driver driver = driver_open();
	unsigned char *memory = memory_new(PAGE);
	struct thole_driver_offer told;
	unsigned views = 0;

	*memory = 3;
	for (unsigned i = 1; i < 1000; i++) {
		uint32_t id = declare(&driver, memory, PAGE, 0);

		CHECK(id && offer(&driver, id, &told) == 0);
		if (i % 10 == 0) {
			struct view view = view_new(&driver, ticket(&told, 0));

			CHECK(view.memory[0] == 3);
			views++;
		}
	}
	CHECK(views == 99);
}

/* ---- Races ------------------------------------------------------------------------------------- */

/* Two processes that have attached each other's memory. Words of the first half of each are its owner's to write, of
 * the second its peer's; each says whose it is and where. Whatever is mapped and unmapped meanwhile, a word is one of
 * these or 0, and nobody waits for ever. */
enum { RACE_PAGES = 128, RACERS = 2 };

#define RACE (RACE_PAGES * PAGE)

struct race {
	struct thole_driver_offer offers[RACERS];
	volatile unsigned ready;
	volatile bool stop;
	uint64_t touched[RACERS], lost[RACERS], changed[RACERS];
};

static struct race *race;
static struct driver race_driver;
static unsigned char *race_memory;
static unsigned racer;
static uint64_t race_seed;

static uint64_t next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static uint64_t word_of(unsigned owner, size_t at)
{
	return UINT64_C(0x7468000000000000) | (uint64_t)owner << 32 | at;
}

/* Views that come and go. */
static void *race_touch(void *argument)
{
	uint64_t state = race_seed + (uintptr_t)argument, touched = 0;
	unsigned other = 1 - racer;

	while (!race->stop) {
		struct view view = view_new(&race_driver, ticket(&race->offers[other], THOLE_DRIVER_WRITE));

		/* What is lost lies all in one page, so there a word is anything. */
		for (unsigned i = 0; i < 3000 && !race->stop && !view.head->lost; i++) {
			size_t at = next(&state) % RACE & ~(size_t)7;
			volatile uint64_t *word = (volatile uint64_t *)(view.memory + at);

			if (at >= RACE / 2) {
				*word = word_of(racer, at);
			} else {
				uint64_t seen = *word;

				CHECK(seen == 0 || seen == word_of(other, at) || view.head->lost);
			}
			touched++;
		}
		__atomic_add_fetch(&race->lost[racer], view.head->lost, __ATOMIC_RELAXED);
		CHECK(munmap((void *)(uintptr_t)view.head, view.mapped) == 0);
	}
	__atomic_add_fetch(&race->touched[racer], touched, __ATOMIC_RELAXED);
	return NULL;
}

static void race_change(uint64_t *state)
{
	unsigned char *at = race_memory + next(state) % RACE_PAGES * PAGE;
	size_t length = (1 + next(state) % 8) * PAGE;
	int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	pid_t child;

	if (at + length > race_memory + RACE)
		return;
	switch (next(state) % 10) {
	case 0:
		CHECK(mmap(at, length, protection, flags, -1, 0) == at);
		break;
	case 1:
		CHECK(mprotect(at, length, PROT_READ) == 0 && mprotect(at, length, protection) == 0);
		break;
	case 2:
		CHECK(mmap(at, length, PROT_NONE, flags, -1, 0) == at);
		CHECK(mmap(at, length, protection, flags, -1, 0) == at);
		break;
	case 3:
		(void)madvise(at, length, MADV_PAGEOUT);
		break;
	case 4:
		if (next(state) % 16)
			break;
		child = fork();
		if (child == 0)
			_exit(0);
		CHECK(child > 0 && wait_for(child) == 0);
		break;
	case 5:
		(void)madvise(race_memory, RACE, next(state) & 1 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		(void)madvise(race_memory, RACE, 25);
		break;
	default:
		(void)madvise(at, length, MADV_DONTNEED);
	}
}

static void *race_own(void *argument)
{
	uint64_t state = race_seed + 1000 + (uintptr_t)argument, changed = 0;

	while (!race->stop) {
		size_t at = next(&state) % RACE & ~(size_t)7;
		volatile uint64_t *word = (volatile uint64_t *)(race_memory + at);

		if ((uintptr_t)argument == 0 && next(&state) % 4 == 0) {
			race_change(&state);
			changed++;
		} else if ((uintptr_t)argument != 0 && at < RACE / 2) {
			/* Where a change makes it readable only for a moment, this is the one who may not write. */
			struct iovec from = {&(uint64_t){word_of(racer, at)}, 8}, to = {(void *)(uintptr_t)word, 8};

			(void)process_vm_writev(getpid(), &from, 1, &to, 1, 0);
		} else if ((uintptr_t)argument == 0) {
			uint64_t seen = *word;

			CHECK(seen == 0 || seen == word_of(at < RACE / 2 ? racer : 1 - racer, at));
		}
	}
	race->changed[racer] += changed;
	return NULL;
}

static void race_run(void)
{
	pthread_t threads[4];

	race_driver = driver_open();
	race_memory = memory_new(RACE);
	CHECK(offer(&race_driver, declare(&race_driver, race_memory, RACE, THOLE_DRIVER_WRITE), &race->offers[racer]) ==
	      0);
	__atomic_add_fetch(&race->ready, 1, __ATOMIC_SEQ_CST);
	while (race->ready < RACERS && !race->stop)
		sched_yield();
	for (uintptr_t i = 0; i < 2; i++) {
		CHECK(pthread_create(&threads[i], NULL, race_touch, (void *)i) == 0);
		CHECK(pthread_create(&threads[2 + i], NULL, race_own, (void *)i) == 0);
	}
	for (unsigned i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(pages_pinned() == 0);
	_exit(0);
}

static int race_main(unsigned seconds, uint64_t seed)
{
	pid_t children[RACERS];
	int failed = 0;

	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(race != MAP_FAILED);
	for (racer = 0; racer < RACERS; racer++) {
		race_seed = seed * 10000 + racer * 100;
		children[racer] = fork();
		CHECK(children[racer] >= 0);
		if (children[racer] == 0)
			race_run();
	}
	for (unsigned i = 0; i < seconds * 10 && !failed; i++) {
		CHECK(usleep(100000) == 0);
		for (unsigned j = 0; j < RACERS; j++)
			failed |= waitpid(children[j], NULL, WNOHANG) != 0; /* its check has said why */
	}
	race->stop = true;
	for (unsigned j = 0; j < RACERS && !failed; j++)
		failed |= wait_for(children[j]) != 0;
	for (unsigned j = 0; j < RACERS; j++) {
		printf("touched %llu changed %llu lost %llu\n", (unsigned long long)race->touched[j],
		       (unsigned long long)race->changed[j], (unsigned long long)race->lost[j]);
		failed |= race->touched[j] == 0 || race->changed[j] == 0;
	}
	return failed;
}

/* ---- Running ----------------------------------------------------------------------------------- */

static int hold(void)
{
	struct bed bed = {.peer = -1};

	bed = bed_flags(bed, memory_new(LENGTH), LENGTH, THOLE_DRIVER_WRITE);
	same(&bed, 0, LENGTH);
	CHECK(munmap((void *)(uintptr_t)bed.driver.shared, sizeof(*bed.driver.shared)) == 0);
	CHECK(close(bed.driver.fd) == 0 && bed.view.head->ended);
	printf("held\n"); /* by the view alone */
	fflush(stdout);
	pause();
	return 0;
}

#define CASE(name, twice) {#name, case_##name, twice}
static const struct {
	const char *name;
	void (*run)(void);
	bool twice;
} cases[] = {
	CASE(plain, true), CASE(odd, true), CASE(untouched, true), CASE(reading, true), CASE(munmap, true),
	CASE(again, true), CASE(mremap, true), CASE(dontneed, true), CASE(tagged, true), CASE(mprotect, true),
	CASE(huge, true), CASE(file, true), CASE(fork, true), CASE(fork_peer, false), CASE(exit, false),
	CASE(kill, false), CASE(exec, false), CASE(kill_peer, false), CASE(swap, true), CASE(userfault, true),
	CASE(stuck, false), CASE(beside, false), CASE(withdraw, true), CASE(keys, false), CASE(users, false),
	CASE(limit, true), CASE(mapping, false), CASE(chain, false), CASE(many, false),
};

static bool wanted(const char *name, int argc, char **argv)
{
	bool named = argc == 1;

	for (int i = 1; i < argc; i++)
		named = named || strcmp(argv[i], name) == 0;
	return named;
}

/* In a process of its own. */
static bool run(unsigned number)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		cases[number].run();
		_exit(0);
	}
	if (wait_for(child) == 0)
		return true;
	printf("%s failed, views %s\n", cases[number].name, here ? "in the owner" : "in a peer");
	return false;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 2 && strcmp(argv[1], "--hold") == 0)
		return hold();
	if (argc == 4 && strcmp(argv[1], "--race") == 0)
		return race_main((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 0));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool good;

		if (!wanted(cases[i].name, argc, argv))
			continue;
		here = false;
		good = run(i);
		here = true;
		good = good && (!cases[i].twice || run(i));
		failed |= !good;
		if (good)
			printf("%s\n", cases[i].name);
	}
	return failed;
}
