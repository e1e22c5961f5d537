/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls to /dev/thole at random, likely ones and junk, from threads that share descriptors and memory, while others
 * change the memory below and write nonsense into the rings of events.
 *
 *     thole-driver-fuzz SEED CALLS
 */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include "driver.h"

enum { THREADS = 4, DRIVERS = 3, AREA = 96 * PAGE };

static struct driver drivers[DRIVERS];
static uint32_t *rings[DRIVERS]; /* of events; one is not mapped */
static unsigned char *area;
static unsigned long calls, seed;

static uint64_t next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static uint64_t below(uint64_t *state, uint64_t bound)
{
	return next(state) % bound;
}

/* Most are small, some are any number. */
static uint64_t number(uint64_t *state, uint64_t bound)
{
	return below(state, 16) ? below(state, bound) : next(state) >> below(state, 64);
}

static uint64_t address(uint64_t *state)
{
	return below(state, 16) ? (uintptr_t)area + below(state, AREA) : number(state, PAGE);
}

static void change(uint64_t *state)
{
	unsigned char *at = area + below(state, AREA / PAGE) * PAGE;
	size_t length = (1 + below(state, 4)) * PAGE;

	if (at + length > area + AREA)
		return;
	switch (below(state, 8)) {
	case 0:
		(void)mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 1:
		(void)mprotect(at, length, PROT_READ);
		break;
	case 2:
		/* As munmap, but nobody else's memory comes there. */
		(void)mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 3:
		(void)madvise(at, length, MADV_PAGEOUT);
		break;
	case 4:
		if (below(state, 16) == 0) {
			pid_t child = fork();

			if (child == 0)
				_exit(0);
			if (child > 0)
				(void)waitpid(child, NULL, 0);
		}
		break;
	default:
		(void)madvise(at, length, MADV_DONTNEED);
	}
}

/* What a program may write into the ring of its events. */
static void scribble(uint64_t *state)
{
	uint32_t *ring = rings[below(state, DRIVERS)];
	uint64_t words = sizeof(struct thole_driver_events) / sizeof(*ring);

	if (!ring)
		return;
	if (below(state, 2))
		ring[0] = (uint32_t)number(state, 4 * THOLE_DRIVER_EVENTS);
	else
		ring[below(state, words)] = (uint32_t)next(state);
}

/* What was offered last by any thread, and views of it at places of their own and over the area. */
static struct thole_driver_offer told;

static void view(uint64_t *state, const struct driver *driver, uint32_t id)
{
	struct thole_driver_attach request = {.number = told.number, .key = {told.key[0], told.key[1]}};
	struct thole_driver_offer offer = {.id = id};
	uint64_t length, sum = 0;
	int protection;
	char *memory;

	if (below(state, 4) == 0)
		(void)ioctl(driver->fd, THOLE_DRIVER_WITHDRAW, (unsigned long)id);
	if (ioctl(driver->fd, THOLE_DRIVER_OFFER, &offer) == 0)
		told = offer;
	request.flags = (uint32_t)below(state, 2);
	if (ioctl(driver->fd, THOLE_DRIVER_ATTACH, &request) != 0)
		return;
	protection = request.flags ? PROT_READ | PROT_WRITE : PROT_READ;
	length = (request.offset + request.length + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (below(state, 4) == 0 && length <= AREA)
		memory = mmap(area, length, PROT_READ, MAP_SHARED | MAP_FIXED, request.fd, 0);
	else
		memory = mmap(NULL, length, protection, MAP_SHARED, request.fd, 0);
	close(request.fd);
	if (memory == MAP_FAILED)
		return;
	for (int i = 0; i < 20 && (unsigned char *)memory != area; i++) { /* there others may map other things */
		volatile char *at = memory + below(state, length);

		sum += (uint64_t)*at;
		if (request.flags && at >= memory + PAGE)
			*at = (char)sum;
	}
	/* Whole, since a view cannot be cut; the area's own memory comes there again. */
	if ((unsigned char *)memory == area)
		(void)mmap(area, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else
		(void)munmap(memory, length);
}

static void call(uint64_t *state)
{
	const struct driver *driver = drivers + below(state, DRIVERS);
	uint32_t id = (uint32_t)number(state, 24), flags = (uint32_t)(below(state, 8) ? below(state, 8) : next(state));
	struct thole_driver_segment segments[4];
	struct thole_driver_pin answer;
	unsigned char junk[64];

	switch (below(state, 10)) {
	case 0:
		for (unsigned i = 0; i < 4; i++)
			segments[i] = (struct thole_driver_segment){address(state), number(state, 20 * PAGE)};
		(void)declare_vector(driver, segments, (uint32_t)number(state, 5), flags);
		break;
	case 1:
		(void)forget(driver, id);
		break;
	case 2:
	case 3:
		(void)pin(driver, id, number(state, 20 * PAGE), flags, &answer);
		break;
	case 4:
		for (unsigned i = 0; i < sizeof(junk); i++)
			junk[i] = (unsigned char)next(state);
		(void)ioctl(driver->fd, _IOC(below(state, 4), 0xE7, 16 * below(state, 4) + below(state, 7),
				       below(state, 64)), junk);
		break;
	case 5:
		scribble(state);
		(void)poll(&(struct pollfd){.fd = driver->fd, .events = POLLIN}, 1, 0);
		break;
	case 6:
		view(state, driver, id);
		break;
	default:
		(void)copy(driver, id, number(state, 20 * PAGE), (void *)(uintptr_t)address(state),
			   number(state, 3 * PAGE), flags);
	}
}

static void *work(void *argument)
{
	uint64_t state = seed * THREADS + (uintptr_t)argument;

	for (unsigned long i = 0; i < calls; i++) {
		if (below(&state, 8))
			call(&state);
		else
			change(&state);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	CHECK(argc == 3);
	seed = strtoul(argv[1], NULL, 0);
	calls = strtoul(argv[2], NULL, 0);
	area = memory_new(AREA);
	for (unsigned i = 0; i < DRIVERS; i++)
		drivers[i] = driver_open();
	for (unsigned i = 1; i < DRIVERS; i++) {
		rings[i] = mmap(NULL, sizeof(struct thole_driver_events), PROT_READ | PROT_WRITE, MAP_SHARED,
				drivers[i].fd, THOLE_DRIVER_AT_EVENTS);
		CHECK(rings[i] != MAP_FAILED);
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (unsigned i = 0; i < DRIVERS; i++) {
		for (uint32_t id = 1; id < THOLE_DRIVER_REGIONS; id++)
			(void)forget(&drivers[i], id);
		CHECK(drivers[i].shared->locked == 0 && drivers[i].shared->pins == drivers[i].shared->unpins);
	}
	CHECK(pages_pinned() == 0);
	for (unsigned i = 0; i < DRIVERS; i++) {
		const struct thole_driver_shared *shared = drivers[i].shared;

		printf("pins %llu invalidations %llu late %llu\n", (unsigned long long)shared->pins,
		       (unsigned long long)shared->invalidations, (unsigned long long)shared->late);
	}
	return 0;
}
