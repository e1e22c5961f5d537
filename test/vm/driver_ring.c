/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of events: what is told arrives, once and in order; what finds no room waits, and nothing of it is lost;
 * who sleeps is woken; and whatever the program writes there harms only itself.
 *
 *     thole-driver-ring [CASE...]      each case in a process of its own
 */
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "driver.h"

enum { REGIONS = THOLE_DRIVER_REGIONS - 1, MORE = 2 * THOLE_DRIVER_EVENTS + 100 };

struct bed {
	struct driver driver;
	struct thole_driver_events *ring;
	unsigned char *memory;
};

static struct bed bed_new(void)
{
	struct bed bed = {.driver = driver_open(), .memory = memory_new(PAGE)};

	bed.memory[0] = 1;
	bed.ring = mmap(NULL, sizeof(*bed.ring), PROT_READ | PROT_WRITE, MAP_SHARED, bed.driver.fd,
			THOLE_DRIVER_AT_EVENTS);
	CHECK(bed.ring != MAP_FAILED && bed.ring->read == 0 && bed.ring->waiting == 0);
	return bed;
}

/* The next event, if there is one, as a program reads it. */
static bool next(struct bed *bed, struct thole_driver_event *event_p)
{
	uint32_t read = bed->ring->read;
	const struct thole_driver_event *slot = &bed->ring->events[read % THOLE_DRIVER_EVENTS];

	if (__atomic_load_n(&slot->stamp, __ATOMIC_ACQUIRE) != read + 1)
		return false;
	*event_p = *slot;
	__atomic_store_n(&bed->ring->read, read + 1, __ATOMIC_RELEASE);
	return true;
}

static uint32_t pin_later(struct bed *bed)
{
	uint32_t id = declare(&bed->driver, bed->memory, PAGE, THOLE_DRIVER_WRITE);
	struct thole_driver_pin answer;

	CHECK(id != 0 && pin(&bed->driver, id, PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	return id;
}

static void sleep_for_one(int fd)
{
	struct pollfd poll_one = {.fd = fd, .events = POLLIN};

	CHECK(poll(&poll_one, 1, 60000) == 1 && poll_one.revents == POLLIN);
}

static void pinned(const struct bed *bed, const struct thole_driver_event *event)
{
	struct thole_driver_pinned data;

	memcpy(&data, event->data, sizeof(data));
	CHECK(event->kind == THOLE_DRIVER_EVENT_PINNED && event->length == sizeof(data));
	CHECK(data.status == 0 && data.pinned == 1);
	CHECK(data.generation == bed->driver.shared->generations[event->cookie]);
}

/* All events until so many have come, each of a region of its own. Returns how often nothing was there. */
static unsigned read_all(struct bed *bed, unsigned count)
{
	static bool seen[THOLE_DRIVER_REGIONS];
	struct thole_driver_event event;
	unsigned slept = 0;

	memset(seen, 0, sizeof(seen));
	while (count > 0) {
		if (next(bed, &event)) {
			pinned(bed, &event);
			CHECK(event.cookie < THOLE_DRIVER_REGIONS && !seen[event.cookie]);
			seen[event.cookie] = true;
			count--;
		} else {
			slept++;
			sleep_for_one(bed->driver.fd);
		}
	}
	CHECK(!next(bed, &event) && bed->ring->waiting == 0);
	return slept;
}

static void case_told(void)
{
	struct bed bed = bed_new();
	struct thole_driver_event event;
	struct pollfd poll_one = {.fd = bed.driver.fd, .events = POLLIN};

	CHECK(poll(&poll_one, 1, 0) == 0);
	for (unsigned i = 0; i < 3 * THOLE_DRIVER_EVENTS; i++) { /* thrice round */
		uint32_t id = pin_later(&bed);

		sleep_for_one(bed.driver.fd);
		CHECK(next(&bed, &event) && event.cookie == id);
		pinned(&bed, &event);
		CHECK(forget(&bed.driver, id) == 0);
	}
	CHECK(poll(&poll_one, 1, 0) == 0 && bed.ring->delayed == 0 && bed.ring->untold == 0);
}

/* What failed is told, too. */
static void case_failed(void)
{
	struct bed bed = bed_new();
	struct thole_driver_pinned data;
	struct thole_driver_event event;
	uint32_t id;

	CHECK(munmap(bed.memory, PAGE) == 0);
	id = pin_later(&bed);
	sleep_for_one(bed.driver.fd);
	CHECK(next(&bed, &event) && event.cookie == id);
	memcpy(&data, event.data, sizeof(data));
	CHECK(data.status == -EFAULT && data.pinned == 0);
}

/* More than there is room for: the rest waits, and comes as soon as there is room. */
static void case_full(void)
{
	struct bed bed = bed_new();
	unsigned slept;

	for (unsigned i = 0; i < MORE; i++)
		pin_later(&bed);
	while (__atomic_load_n(&bed.ring->waiting, __ATOMIC_ACQUIRE) < MORE - THOLE_DRIVER_EVENTS)
		usleep(1000);
	CHECK(bed.ring->delayed == MORE - THOLE_DRIVER_EVENTS);
	slept = read_all(&bed, MORE);
	CHECK(slept == 2); /* poll brought what had waited: as often as the ring was empty */
}

/* The same by the call. One that is told of again while it waits keeps its place. */
static void case_room(void)
{
	struct bed bed = bed_new();
	struct thole_driver_event event;
	struct thole_driver_pin answer;
	uint32_t last;

	for (unsigned i = 0; i < THOLE_DRIVER_EVENTS; i++)
		pin_later(&bed);
	while (__atomic_load_n(&bed.ring->events[THOLE_DRIVER_EVENTS - 1].stamp, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	last = pin_later(&bed);
	while (__atomic_load_n(&bed.ring->waiting, __ATOMIC_ACQUIRE) < 1)
		usleep(1000);
	for (unsigned i = 0; i < 100; i++)
		CHECK(pin(&bed.driver, last, PAGE, THOLE_DRIVER_BACKGROUND, &answer) == 0);
	CHECK(bed.ring->waiting == 1 && bed.ring->delayed == 1);
	for (unsigned i = 0; i < THOLE_DRIVER_EVENTS; i++)
		CHECK(next(&bed, &event) && event.cookie != last);
	CHECK(ioctl(bed.driver.fd, THOLE_DRIVER_ROOM) == 0);
	CHECK(bed.ring->waiting == 0 && next(&bed, &event) && event.cookie == last);
	/* The worker may have told it once more, late, and again as it was asked to meanwhile: where one place was
	 * free, what waited took that, and the new one waited. */
	CHECK(forget(&bed.driver, last) == 0);
	CHECK(bed.ring->delayed >= 1 && bed.ring->delayed <= 3 && bed.ring->waiting == 0);
}

/* A region that is forgotten takes its event along. */
static void case_forgotten(void)
{
	struct bed bed = bed_new();
	struct thole_driver_event event;
	unsigned left = 0;

	for (unsigned i = 0; i < MORE; i++)
		pin_later(&bed);
	while (__atomic_load_n(&bed.ring->waiting, __ATOMIC_ACQUIRE) < MORE - THOLE_DRIVER_EVENTS)
		usleep(1000);
	for (uint32_t id = 1; id <= MORE; id++)
		CHECK(forget(&bed.driver, id) == 0);
	CHECK(bed.ring->waiting == 0);
	for (; next(&bed, &event); left++)
		;
	CHECK(left == THOLE_DRIVER_EVENTS);
}

static void *pin_after(void *argument)
{
	usleep(20000);
	pin_later(argument);
	return NULL;
}

/* Asleep in epoll when it comes. */
static void case_sleep(void)
{
	struct bed bed = bed_new();
	struct epoll_event watch = {.events = EPOLLIN}, got;
	int epoll_fd = epoll_create1(0);

	CHECK(epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bed.driver.fd, &watch) == 0);
	for (unsigned i = 0; i < 20; i++) {
		struct thole_driver_event event;
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, pin_after, &bed) == 0);
		CHECK(epoll_wait(epoll_fd, &got, 1, 60000) == 1);
		CHECK(next(&bed, &event) && !next(&bed, &event));
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

/* Nonsense in all of the ring while events come. */
static void case_nonsense(void)
{
	struct bed bed = bed_new();
	uint32_t state = 1, ids[64];

	for (unsigned i = 0; i < 200; i++) {
		uint32_t *words = (uint32_t *)bed.ring;

		for (unsigned n = 0; n < 64; n++) {
			ids[n] = pin_later(&bed);
			state = state * 1664525 + 1013904223;
			bed.ring->read = state;
			words[(state >> 7) % (sizeof(*bed.ring) / 4)] = state;
		}
		(void)ioctl(bed.driver.fd, THOLE_DRIVER_ROOM);
		for (unsigned n = 0; n < 64; n++)
			CHECK(forget(&bed.driver, ids[n]) == 0);
	}
	CHECK(pages_pinned() == 0);
}

/* Where things are shown and where not; a ring that nobody has mapped is told nothing. */
static void case_mapping(void)
{
	const uint64_t wrong[] = {PAGE, THOLE_DRIVER_AT_EVENTS - PAGE, THOLE_DRIVER_AT_EVENTS + PAGE,
					 UINT64_C(1) << 40};
	struct driver driver = driver_open();
	struct bed bed = {.driver = driver, .memory = memory_new(PAGE)};
	struct pollfd poll_one = {.fd = driver.fd, .events = POLLIN};
	size_t longer = sizeof(*bed.ring) + PAGE;

	pin_later(&bed);
	CHECK(ioctl(driver.fd, THOLE_DRIVER_ROOM) == 0 && poll(&poll_one, 1, 0) == 0);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, driver.fd, (off_t)wrong[i]) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, driver.fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, longer, PROT_READ, MAP_SHARED, driver.fd, THOLE_DRIVER_AT_EVENTS) == MAP_FAILED);
	bed.ring = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, driver.fd, THOLE_DRIVER_AT_EVENTS);
	CHECK(bed.ring != MAP_FAILED && mprotect(bed.ring, PAGE, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
	pin_later(&bed);
	CHECK(close(driver.fd) == 0); /* its event stays below the mapping */
}

/* ---- All ------------------------------------------------------------------------------------- */

static const struct driver_case cases[] = {
	{"told", case_told, false},
	{"failed", case_failed, false},
	{"full", case_full, false},
	{"room", case_room, false},
	{"forgotten", case_forgotten, false},
	{"sleep", case_sleep, false},
	{"nonsense", case_nonsense, false},
	{"mapping", case_mapping, false},
};

int main(int argc, char **argv)
{
	cases_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	return 0;
}
