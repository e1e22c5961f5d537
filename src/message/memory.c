/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: what a program says of memory itself: declared regions, and locks on ranges of addresses.
 *
 * Owns these, and their regions of the driver where the endpoint has that. Does not own what is pinned, which only the
 * driver knows; nor regions that peers may access (remote.c), of which each has a declared one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "memory/area.h"
#include "memory/driver.h"
#include "message/state.h"

/* ---- Regions -------------------------------------------------------------------------------------- */

static int segments_check(const struct iovec *segments, size_t count)
{
	if (count == 0 || count > THOLE_DECLARE_MAX)
		return error_set(THOLE_ERR_ARGUMENT, "a region of memory has %zu segments, not 1 to %d", count,
				 THOLE_DECLARE_MAX);
	for (size_t i = 0; i < count; i++)
		if (segments[i].iov_len == 0 || segments[i].iov_len > UINTPTR_MAX - (uintptr_t)segments[i].iov_base)
			return error_set(THOLE_ERR_ARGUMENT,
					 "segment %zu of a region of memory, %zu bytes at %p, is %s", i,
					 segments[i].iov_len, segments[i].iov_base,
					 segments[i].iov_len ? "longer than the address space" : "empty");
	return 0;
}

int memory_declare(struct thole_endpoint *endpoint, const struct iovec *segments, size_t count, unsigned access,
		   struct thole_memory **memory_p)
{
	bool written = access & (THOLE_ACCESS_PUT | THOLE_ACCESS_ATOMIC);
	struct transport_owner *owner = &endpoint->base;
	struct thole_memory *memory = calloc(1, sizeof(*memory));
	int error = 0;

	if (!memory)
		return error_set(THOLE_ERR_MEMORY, "no memory for another region");
	for (size_t i = 0; i < count; i++)
		memory->length += segments[i].iov_len;
	if (owner->driver)
		error = driver_declare(owner->driver, segments, count, written ? THOLE_DRIVER_WRITE : 0, &memory->id);
	if (!error && memory->id && !declared_add(&owner->declared, segments, count, memory->id, written)) {
		driver_forget(owner->driver, memory->id);
		error = error_set(THOLE_ERR_MEMORY, "no memory for another region of %zu segments", count);
	}
	if (error) {
		free(memory);
		return error;
	}
	list_push_back(&endpoint->memories, &memory->node);
	*memory_p = memory;
	return 0;
}

void memory_forget(struct thole_endpoint *endpoint, struct thole_memory *memory)
{
	if (memory->id) {
		declared_remove(&endpoint->base.declared, memory->id);
		driver_forget(endpoint->base.driver, memory->id);
	}
	list_remove(&memory->node);
	free(memory);
}

int thole_declare(struct thole_endpoint *endpoint, const struct iovec *segments, size_t count, unsigned access,
		  struct thole_memory **memory_p)
{
	int error = segments_check(segments, count);

	if (error)
		return error;
	endpoint_lock(endpoint);
	error = memory_declare(endpoint, segments, count, access, memory_p);
	endpoint_unlock(endpoint);
	return error;
}

void thole_forget(struct thole_endpoint *endpoint, struct thole_memory *memory)
{
	if (!memory)
		return;
	endpoint_lock(endpoint);
	memory_forget(endpoint, memory);
	endpoint_unlock(endpoint);
}

/* ---- Locks ---------------------------------------------------------------------------------------- */

/* A range that is locked, however often. */
struct memory_lock {
	struct list_node node;
	uint64_t address, length, count;
	uint32_t id; /* of its region; 0: there is no driver */
};

/* All of an endpoint. */
struct memory_locks {
	struct list_node list;
	struct area_table areas; /* how often each byte is locked */
};

static struct memory_locks *locks_of(struct thole_endpoint *endpoint)
{
	if (!endpoint->locks) {
		endpoint->locks = calloc(1, sizeof(*endpoint->locks));
		if (endpoint->locks)
			list_init(&endpoint->locks->list);
	}
	return endpoint->locks;
}

static struct memory_lock *lock_find(struct memory_locks *locks, uint64_t address, uint64_t length)
{
	struct list_node *node;

	for (node = locks->list.next; node != &locks->list; node = node->next) {
		struct memory_lock *lock = container_of(node, struct memory_lock, node);

		if (lock->address == address && lock->length == length)
			return lock;
	}
	return NULL;
}

/* Pin a range: to be written to, or if it must not be, to be read. */
static int lock_pin(const struct driver *driver, struct memory_lock *lock)
{
	struct iovec segment = {(void *)(uintptr_t)lock->address, lock->length};
	uint32_t flags = THOLE_DRIVER_KEEP | THOLE_DRIVER_WRITE;
	struct thole_driver_pin pin;
	int error;

	if (lock->id)
		return driver_pin(driver, lock->id, lock->length, 0, &pin);
	do {
		error = driver_declare(driver, &segment, 1, flags, &lock->id);
		if (error)
			return error;
		error = driver_pin(driver, lock->id, lock->length, 0, &pin);
		if (error) {
			driver_forget(driver, lock->id);
			lock->id = 0;
		}
		flags ^= THOLE_DRIVER_WRITE;
	} while (error == THOLE_ERR_FAULT && !(flags & THOLE_DRIVER_WRITE));
	return error;
}

/* Room for one more lock in the table of areas. */
static bool areas_reserve(struct area_table *table, uint64_t first, uint64_t end)
{
	uint32_t more, room;
	uint64_t fresh;
	struct area *areas;

	area_foresee(table, first, end, &more, &fresh);
	if (table->room - table->count >= more)
		return true;
	room = 2 * table->room + more;
	areas = malloc(room * sizeof(*areas));
	if (areas)
		free(area_enlarge(table, areas, room));
	return areas != NULL;
}

static int memory_lock(struct thole_endpoint *endpoint, uint64_t address, uint64_t length)
{
	struct memory_locks *locks = locks_of(endpoint);
	struct memory_lock *lock;
	int error = 0;

	if (!locks || !areas_reserve(&locks->areas, address, address + length))
		return error_set(THOLE_ERR_MEMORY, "no memory for another lock");
	lock = lock_find(locks, address, length);
	if (!lock) {
		lock = calloc(1, sizeof(*lock));
		if (!lock)
			return error_set(THOLE_ERR_MEMORY, "no memory for another lock");
		lock->address = address;
		lock->length = length;
		list_push_back(&locks->list, &lock->node);
	}
	if (endpoint->base.driver)
		error = lock_pin(endpoint->base.driver, lock);
	if (!error) {
		lock->count++;
		(void)area_lock(&locks->areas, address, address + length); /* there is room */
	} else if (lock->count == 0) {
		list_remove(&lock->node);
		free(lock);
	}
	return error;
}

static void memory_unlock(struct thole_endpoint *endpoint, struct memory_lock *lock)
{
	(void)area_unlock(&endpoint->locks->areas, lock->address, lock->address + lock->length);
	if (--lock->count)
		return;
	if (lock->id)
		driver_forget(endpoint->base.driver, lock->id);
	list_remove(&lock->node);
	free(lock);
}

int thole_lock(struct thole_endpoint *endpoint, void *address, size_t length)
{
	struct iovec segment = {address, length};
	int error = segments_check(&segment, 1);

	if (error)
		return error;
	endpoint_lock(endpoint);
	error = memory_lock(endpoint, (uintptr_t)address, length);
	endpoint_unlock(endpoint);
	return error;
}

int thole_unlock(struct thole_endpoint *endpoint, void *address, size_t length)
{
	struct memory_lock *lock;
	int error = 0;

	endpoint_lock(endpoint);
	lock = endpoint->locks ? lock_find(endpoint->locks, (uintptr_t)address, length) : NULL;
	if (lock)
		memory_unlock(endpoint, lock);
	else
		error = error_set(THOLE_ERR_NOT_FOUND, "no lock was taken of exactly %zu bytes at %p", length, address);
	endpoint_unlock(endpoint);
	return error;
}

/* ---- What is so now ------------------------------------------------------------------------------- */

/* Of all regions of the endpoint, the library's own too. */
static void memory_sum(const struct thole_endpoint *endpoint, struct thole_memory_info *info_p)
{
	const struct driver *driver = endpoint->base.driver;

	*info_p = (struct thole_memory_info){.driver = driver != NULL};
	if (endpoint->locks)
		info_p->locked = endpoint->locks->areas.locked;
	for (struct list_node *node = endpoint->memories.next; node != &endpoint->memories; node = node->next)
		info_p->length += container_of(node, struct thole_memory, node)->length;
	if (driver) {
		info_p->pinned = driver->shared->locked;
		info_p->invalidations = driver->shared->invalidations;
	}
}

static int memory_describe(const struct thole_endpoint *endpoint, const struct thole_memory *memory,
			   struct thole_memory_info *info_p)
{
	struct thole_driver_pin pin;
	int error;

	*info_p = (struct thole_memory_info){.length = memory->length, .driver = memory->id != 0};
	if (!memory->id)
		return 0;
	error = driver_pin(endpoint->base.driver, memory->id, 0, 0, &pin);
	if (error)
		return error;
	info_p->pages = pin.pages;
	info_p->pinned = pin.pinned;
	info_p->invalidations = pin.generation;
	return 0;
}

int thole_memory_info(struct thole_endpoint *endpoint, const struct thole_memory *memory,
		      struct thole_memory_info *info_p)
{
	int error = 0;

	endpoint_lock(endpoint);
	if (memory)
		error = memory_describe(endpoint, memory, info_p);
	else
		memory_sum(endpoint, info_p);
	endpoint_unlock(endpoint);
	return error;
}

static void locks_fini(struct thole_endpoint *endpoint)
{
	struct list_node *node;

	if (!endpoint->locks)
		return;
	while ((node = list_first(&endpoint->locks->list))) {
		struct memory_lock *lock = container_of(node, struct memory_lock, node);

		list_remove(node);
		if (lock->id)
			driver_forget(endpoint->base.driver, lock->id);
		free(lock);
	}
	free(endpoint->locks->areas.areas);
	free(endpoint->locks);
}

void memory_fini(struct thole_endpoint *endpoint)
{
	struct list_node *node;

	while ((node = list_first(&endpoint->memories)))
		memory_forget(endpoint, container_of(node, struct thole_memory, node));
	locks_fini(endpoint);
	declared_fini(&endpoint->base.declared);
}
