/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a link's mover asks of /dev/thole, with a device of the test's own: what is handed over ends there before its
 * memory is given back, once, and by the call that it is; and what the device tells is reported.
 */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/datagram/mover_driver.h"

enum { THINGS = 8, PEER_INDEX = 77, LENGTH = 1 << 20 };

/* A window or a fetch that the device has. */
struct thing {
	uint64_t name;
	uint32_t connection, region; /* 0: there is none */
	bool fetch;
};

static struct {
	struct driver driver;
	struct thole_driver_events *events;
	uint32_t told;
	struct thing things[THINGS];
	bool declared[THOLE_DRIVER_REGIONS];
	unsigned declares, forgets, window_ends, fetch_ends, rooms, pins, background;
	uint64_t pinned_bytes; /* of the last call that waits */
	uint64_t declared_bytes; /* of the last one */
	int refuse;            /* an errno for windows and fetches */
	bool changes;          /* so does the mapping, while a call pins */
} device;

static struct link test_link;
static uint64_t counters[COUNTER_COUNT];
static struct transport_owner owner;
static char memory[2][LENGTH];

static unsigned device_has(bool fetch)
{
	unsigned n = 0;

	for (unsigned i = 0; i < THINGS; i++)
		n += device.things[i].region && device.things[i].fetch == fetch;
	return n;
}

static int device_add(uint64_t name, uint32_t connection, uint32_t region, bool fetch)
{
	assert_true(device.declared[region]);
	for (unsigned i = 0; i < THINGS; i++) {
		if (device.things[i].region)
			continue;
		device.things[i] = (struct thing){name, connection, region, fetch};
		return 0;
	}
	return ENOSPC;
}

static int device_end(const struct thole_driver_name *name, bool fetch)
{
	for (unsigned i = 0; i < THINGS; i++) {
		struct thing *thing = &device.things[i];

		if (!thing->region || thing->fetch != fetch || thing->name != name->name ||
		    thing->connection != name->connection)
			continue;
		*thing = (struct thing){0};
		return 0;
	}
	return ENOENT;
}

static void device_forget(uint32_t region)
{
	assert_true(device.declared[region]);
	device.declared[region] = false;
	device.forgets++;
	for (unsigned i = 0; i < THINGS; i++)
		assert_true(device.things[i].region != region); /* nobody reads or writes it any more */
}

static void device_end_connection(uint32_t connection)
{
	for (unsigned i = 0; i < THINGS; i++)
		if (device.things[i].connection == connection)
			device.things[i] = (struct thing){0};
}

static void device_declare(struct thole_driver_declare *declare)
{
	for (declare->id = 1; device.declared[declare->id]; declare->id++)
		;
	device.declared[declare->id] = true;
	device.declares++;
	device.declared_bytes = 0;
	for (uint32_t i = 0; i < declare->count; i++)
		device.declared_bytes +=
			((const struct thole_driver_segment *)(uintptr_t)declare->segments)[i].length;
}

/* What was known of a region is wrong now. The generation that a PIN answers is another one, of the region itself. */
static void device_turn(uint32_t region)
{
	uint32_t generation = device.driver.shared->generations[region] + 1;
	off_t at = (off_t)(offsetof(struct thole_driver_shared, generations) + region * sizeof(generation));

	assert_int_equal(pwrite(device.driver.fd, &generation, sizeof(generation), at), sizeof(generation));
}

static void device_pin(struct thole_driver_pin *pin)
{
	device.pins++;
	if (device.changes)
		device_turn(pin->id);
	device.background += pin->flags & THOLE_DRIVER_BACKGROUND;
	if (!(pin->flags & THOLE_DRIVER_BACKGROUND))
		device.pinned_bytes = pin->bytes;
	pin->state = pin->bytes >= LENGTH ? THOLE_DRIVER_PINNED : THOLE_DRIVER_PINNING;
	pin->generation = 0;
	pin->pages = LENGTH / 4096;
}

static int device_answer(unsigned long command, void *argument)
{
	const struct thole_driver_window *window = argument;
	const struct thole_driver_fetch *fetch = argument;

	switch (command) {
	case THOLE_DRIVER_CONNECTION:
		((struct thole_driver_connection *)argument)->id = 3;
		return 0;
	case THOLE_DRIVER_CONNECTION_END:
		device_end_connection((uint32_t)(uintptr_t)argument);
		return 0;
	case THOLE_DRIVER_DECLARE:
		device_declare(argument);
		return 0;
	case THOLE_DRIVER_FORGET:
		device_forget((uint32_t)(uintptr_t)argument);
		return 0;
	case THOLE_DRIVER_PIN:
		device_pin(argument);
		return 0;
	case THOLE_DRIVER_WINDOW:
		return device.refuse ? device.refuse
				     : device_add(window->window, window->connection, window->region, false);
	case THOLE_DRIVER_FETCH:
		return device.refuse ? device.refuse
				     : device_add(fetch->transfer, fetch->connection, fetch->region, true);
	case THOLE_DRIVER_WINDOW_END:
		device.window_ends++;
		return device_end(argument, false);
	case THOLE_DRIVER_FETCH_END:
		device.fetch_ends++;
		return device_end(argument, true);
	case THOLE_DRIVER_ROOM:
		device.rooms++;
		return 0;
	}
	return ENOTTY;
}

int __wrap_ioctl(int fd, unsigned long command, void *argument);
int __wrap_ioctl(int fd, unsigned long command, void *argument)
{
	assert_int_equal(fd, device.driver.fd);
	errno = device_answer(command, argument);
	return errno ? -1 : 0;
}

static void device_tell(uint16_t kind, uint64_t cookie, const void *data, size_t length)
{
	struct thole_driver_event *event = &device.events->events[device.told % THOLE_DRIVER_EVENTS];

	event->kind = kind;
	event->cookie = cookie;
	memcpy(event->data, data, length);
	event->stamp = ++device.told;
}

/* ---- The mover ------------------------------------------------------------------------------------------ */

static void name_peer(const struct link *link, const struct mover_peer *peer, struct thole_driver_connection *wanted)
{
	assert_ptr_equal(link, &test_link);
	wanted->records_port = (uint16_t)peer->number;
}

static int begin(void **state)
{
	off_t ways = THOLE_DRIVER_AT_WAYS + THOLE_DRIVER_CONNECTIONS * sizeof(struct thole_driver_way);
	void *shared;

	(void)state;
	memset(&device, 0, sizeof(device));
	memset(&owner, 0, sizeof(owner));
	device.driver.fd = memfd_create("device", MFD_CLOEXEC);
	assert_int_equal(ftruncate(device.driver.fd, ways), 0);
	shared = mmap(NULL, sizeof(*device.driver.shared), PROT_READ, MAP_SHARED, device.driver.fd, 0);
	device.driver.shared = shared;
	device.events = mmap(NULL, sizeof(*device.events), PROT_READ | PROT_WRITE, MAP_SHARED, device.driver.fd,
			     THOLE_DRIVER_AT_EVENTS);
	assert_true(shared != MAP_FAILED && device.events != MAP_FAILED);
	owner.counters = counters;
	owner.driver = &device.driver;
	owner.options.pin = OPTION_PIN_OVERLAPPED;
	owner.options.pin_first = 4096;
	owner.options.pin_cache = 2;
	assert_int_equal(mover_driver_open(&test_link, &owner, name_peer), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	mover_driver_close(&test_link);
	assert_null(test_link.mover);
	assert_int_equal(device.declares, device.forgets);
	munmap(device.events, sizeof(*device.events));
	munmap((void *)(uintptr_t)device.driver.shared, sizeof(*device.driver.shared));
	return close(device.driver.fd);
}

static uint32_t connect_peer(void)
{
	const struct mover_peer peer = {.index = PEER_INDEX, .session = 1, .peer_session = 2};
	struct mover_way *way;
	uint32_t id;

	assert_int_equal(test_link.mover->calls->connect(test_link.mover, &peer, &id, &way), 0);
	return id;
}

static const struct iovec one_segment[] = {{memory[0], LENGTH}};
static const struct iovec two_segments[] = {{memory[0], LENGTH / 2}, {memory[1], LENGTH / 2}};
static const struct vector whole = {one_segment, 1, LENGTH}, parts = {two_segments, 2, LENGTH};

static int offer(uint64_t window, const struct vector *vector)
{
	return test_link.mover->calls->offer(test_link.mover, 3, window, vector);
}

static int fetch(uint64_t transfer, const struct vector *vector)
{
	const struct mover_fetch wanted = {.into = vector, .transfer = transfer, .length = vector->length,
					   .id = transfer + 100, .connection = 3};

	return test_link.mover->calls->fetch(test_link.mover, &wanted);
}

static struct {
	uint64_t fetched, lost;
	uint32_t index;
	int status;
} reported;

static void report_fetched(struct engine *engine, uint64_t id, int status)
{
	(void)engine;
	reported.fetched = id;
	reported.status = status;
}

static void report_lost(struct engine *engine, uint32_t index, uint64_t window)
{
	(void)engine;
	reported.index = index;
	reported.lost = window;
}

static unsigned poll_reports(void)
{
	static const struct mover_reports reports = {report_fetched, report_lost};

	memset(&reported, 0, sizeof(reported));
	return test_link.mover->calls->poll(test_link.mover, &reports, NULL);
}

/* ---- Tests ---------------------------------------------------------------------------------------------- */

/* A window and a fetch may have one name: each ends by its own call. */
static void ends(void **state)
{
	const struct mover_calls *calls = test_link.mover->calls;

	(void)state;
	assert_int_equal(connect_peer(), 3);
	assert_int_equal(offer(5, &parts), 0);
	assert_int_equal(fetch(5, &parts), 0);
	assert_int_equal(device_has(false) + device_has(true), 2);
	calls->withdraw(test_link.mover, 3, 5);
	assert_int_equal(device_has(false), 0);
	assert_int_equal(device_has(true), 1);
	assert_int_equal(device.window_ends, 1);
	assert_int_equal(device.fetch_ends, 0);
	assert_int_equal(device.forgets, 1); /* a region of several segments is the transfer's own */
	assert_int_equal(offer(6, &whole), 0);
	calls->cancel(test_link.mover, 3, 5);
	assert_int_equal(device_has(true), 0);
	assert_int_equal(device.fetch_ends, 1);
	assert_int_equal(device.forgets, 2);
	calls->withdraw(test_link.mover, 3, 6);
	assert_int_equal(device_has(false), 0);
	assert_int_equal(device.window_ends, 2);
	assert_int_equal(device.forgets, 2); /* this one stays in the cache */
}

/* Of a receive that has room for more the driver has what the message is. */
static void no_more_than_comes(void **state)
{
	enum { MESSAGE = LENGTH / 2 + 5000 };
	const struct mover_fetch wanted = {.into = &parts, .transfer = 5, .length = MESSAGE, .id = 105,
					   .connection = 3};

	(void)state;
	connect_peer();
	owner.options.pin = OPTION_PIN_BEFORE;
	assert_int_equal(test_link.mover->calls->fetch(test_link.mover, &wanted), 0);
	assert_int_equal(device.declared_bytes, MESSAGE);
	assert_int_equal(device.pinned_bytes, MESSAGE);
	test_link.mover->calls->cancel(test_link.mover, 3, 5);
}

static void refused(void **state)
{
	(void)state;
	connect_peer();
	device.refuse = ENOSPC;
	assert_int_equal(offer(5, &parts), -ENOSPC);
	assert_int_equal(fetch(5, &parts), -ENOSPC);
	assert_int_equal(device.forgets, 2);
}

static void told(void **state)
{
	const struct thole_driver_fetched over = {.status = -EFAULT, .connection = 3, .transfer = 7};
	const struct thole_driver_lost lost = {.status = -ENOMEM, .connection = 3};

	(void)state;
	connect_peer();
	assert_int_equal(poll_reports(), 0);
	assert_int_equal(fetch(7, &parts), 0);
	device_end(&(struct thole_driver_name){.name = 7, .connection = 3}, true); /* it is over there */
	device_tell(THOLE_DRIVER_EVENT_FETCHED, 107, &over, sizeof(over));
	assert_int_equal(poll_reports(), 1);
	assert_int_equal(reported.fetched, 107);
	assert_int_equal(reported.status, -EFAULT);
	assert_int_equal(device.fetch_ends, 0);
	assert_int_equal(device.forgets, 1);
	device_tell(THOLE_DRIVER_EVENT_FETCHED, 107, &over, sizeof(over)); /* of nothing that is known */
	assert_int_equal(poll_reports(), 1);
	assert_int_equal(reported.fetched, 0);

	assert_int_equal(offer(8, &whole), 0);
	device_tell(THOLE_DRIVER_EVENT_LOST, 8, &lost, sizeof(lost));
	assert_int_equal(device.rooms, 0);
	device.events->waiting = 1;
	assert_int_equal(poll_reports(), 1);
	assert_int_equal(reported.lost, 8);
	assert_int_equal(reported.index, PEER_INDEX);
	assert_int_equal(device.rooms, 1);
	device_tell(THOLE_DRIVER_EVENT_LOST, 9, &lost, sizeof(lost)); /* the same */
	assert_int_equal(poll_reports(), 1);
	assert_int_equal(reported.lost, 0);
	test_link.mover->calls->withdraw(test_link.mover, 3, 8);
}

/* A connection that ends takes all with it, and what is left when the link closes goes then (`end`). */
static void connection_ends(void **state)
{
	(void)state;
	connect_peer();
	assert_int_equal(offer(5, &parts), 0);
	assert_int_equal(fetch(6, &parts), 0);
	test_link.mover->calls->disconnect(test_link.mover, 3);
	assert_int_equal(device_has(false) + device_has(true), 0);
	assert_int_equal(device.forgets, 2);
	connect_peer();
	assert_int_equal(fetch(7, &parts), 0);
	device_end_connection(3); /* as closing the descriptor does */
}

static void pins(void **state)
{
	const struct thole_driver_pinned done = {.pinned = LENGTH / 4096};

	(void)state;
	connect_peer();
	assert_int_equal(offer(5, &whole), 0);
	assert_int_equal(device.pinned_bytes, 4096);
	assert_int_equal(device.background, 1);
	device_tell(THOLE_DRIVER_EVENT_PINNED, 1, &done, sizeof(done));
	poll_reports();
	test_link.mover->calls->withdraw(test_link.mover, 3, 5);
	assert_int_equal(offer(6, &whole), 0); /* the same region, pinned still */
	assert_int_equal(device.declares, 1);
	assert_int_equal(device.pins, 2);
	test_link.mover->calls->withdraw(test_link.mover, 3, 6);
	owner.options.pin = OPTION_PIN_BEFORE;
	assert_int_equal(offer(7, &parts), 0);
	assert_int_equal(device.pinned_bytes, LENGTH);
	assert_int_equal(device.background, 1);
	test_link.mover->calls->withdraw(test_link.mover, 3, 7);
}

/* What a worker has pinned may be a part of the region, and may have gone before it tells: then all of it is not. */
static void pins__of_a_part(void **state)
{
	static const struct thole_driver_pinned done[] = {
		{.generation = 7, .pinned = LENGTH / 4096 - 1},
		{.generation = 7, .pinned = 0},
		{.generation = 7, .pinned = LENGTH / 4096},
	};

	(void)state;
	connect_peer();
	for (unsigned i = 0; i < 7; i++)
		device_turn(1);
	assert_int_equal(offer(5, &whole), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(device.pins, 2 * (i + 1));
		device_tell(THOLE_DRIVER_EVENT_PINNED, 1, &done[i], sizeof(done[i]));
		poll_reports();
		test_link.mover->calls->withdraw(test_link.mover, 3, 5);
		assert_int_equal(offer(5, &whole), 0);
	}
	assert_int_equal(device.pins, 6); /* now it is */
	assert_int_equal(device.declares, 1);
	test_link.mover->calls->withdraw(test_link.mover, 3, 5);
}

/* Of an id that was another region's before: what is pinned is known to be, until its mapping changes. */
static void pins__of_an_id_that_was_used(void **state)
{
	(void)state;
	connect_peer();
	owner.options.pin = OPTION_PIN_BEFORE;
	device_turn(1);
	device.changes = true;
	for (unsigned pins = 1; pins <= 4; pins++) {
		assert_int_equal(offer(5, &whole), 0);
		assert_int_equal(device.pins, pins < 3 ? pins : 3);
		test_link.mover->calls->withdraw(test_link.mover, 3, 5);
		device.changes = pins < 2;
	}
	device_turn(1);
	assert_int_equal(offer(5, &whole), 0);
	assert_int_equal(device.pins, 4);
	assert_int_equal(device.declares, 1);
	test_link.mover->calls->withdraw(test_link.mover, 3, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ends, begin, end),
		cmocka_unit_test_setup_teardown(no_more_than_comes, begin, end),
		cmocka_unit_test_setup_teardown(refused, begin, end),
		cmocka_unit_test_setup_teardown(told, begin, end),
		cmocka_unit_test_setup_teardown(connection_ends, begin, end),
		cmocka_unit_test_setup_teardown(pins, begin, end),
		cmocka_unit_test_setup_teardown(pins__of_a_part, begin, end),
		cmocka_unit_test_setup_teardown(pins__of_an_id_that_was_used, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
