/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver: the library's side of /dev/thole (kernel/thole_driver.h, docs/DRIVER.md).
 *
 * Owns a descriptor of the device, the page that it shows, and what its errors mean. Does not own regions, whose ids
 * are their makers' until they forget them or the driver is closed, nor views of others'; nor what is pinned when. Not
 * pure, unlike the rest of src/memory, and not compiled into the driver.
 *
 * Always: either both the descriptor and the page are there, of this library's version of the interface, or neither.
 * Calls may be made by any thread, but for open and close. In a forked child the descriptor is closed, and the page is
 * not mapped.
 */
#ifndef THOLE_MEMORY_DRIVER_H
#define THOLE_MEMORY_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/forked.h"
#include "memory/cache.h"
#include "thole_driver.h"

struct driver {
	int fd;
	const struct thole_driver_shared *shared;
	struct forked forked; /* of fd */
};

/* Open the device. Errors, each with its reason and remedy: NOT_FOUND (there is none), ACCESS (not for this user),
 * UNSUPPORTED (of another version), MEMORY, SYSTEM. Then all is as it was, and driver has no descriptor. */
int driver_open(struct driver *driver);
/* Forget all regions, and close; also what could not be opened. */
void driver_close(struct driver *driver);

/* One of the calls of thole_driver.h. Returns what it returns, 0 or more; or a negative errno, and sets no sentence. */
int driver_call(const struct driver *driver, unsigned long command, void *argument);
/* What a negative errno of a call means: an error of thole.h, with a sentence that begins with what was tried. */
int driver_error(int status, const char *what);

/* Make a region of up to THOLE_DRIVER_SEGMENTS segments, of which none is empty. flags: THOLE_DRIVER_WRITE and
 * THOLE_DRIVER_WATCH. Touches no memory. Errors: ARGUMENT, FAULT (not the process's addresses), MEMORY, AGAIN
 * (THOLE_DRIVER_REGIONS are there). */
int driver_declare(const struct driver *driver, const struct iovec *segments, size_t count, uint32_t flags,
		   uint32_t *id_p);
/* Unpin it, and take its id back. */
void driver_forget(const struct driver *driver, uint32_t id);

/* Pin the region's first bytes, and say what is pinned then; flags: THOLE_DRIVER_BACKGROUND. 0 bytes: only say.
 * Errors: NOT_FOUND (no such region), ARGUMENT (it has fewer), FAULT (no such memory), MEMORY (RLIMIT_MEMLOCK), AGAIN
 * (the mapping goes on changing). */
int driver_pin(const struct driver *driver, uint32_t id, uint64_t bytes, uint32_t flags,
	       struct thole_driver_pin *state_p);
/* Copy between a region, through its pins, and other memory. flags: THOLE_DRIVER_INTO. Errors: as driver_pin. */
int driver_copy(const struct driver *driver, uint32_t id, uint64_t offset, void *memory, uint64_t length,
		uint32_t flags);

/* A region that another process has offered, where it is mapped. */
struct driver_view {
	const struct thole_driver_view *head; /* where the mapping begins; NULL: there is none */
	uint64_t mapped;                      /* bytes of all of it */
	char *memory;                         /* the region in it, */
	uint64_t length;                      /* and its bytes */
};

/* Map what number, flags and key of `offered` name. Errors, without a sentence: ACCESS (nobody offers that, or not to
 * this user), MEMORY, SYSTEM (no descriptor is left). */
int driver_view_make(const struct driver *driver, const struct thole_driver_attach *offered,
		     struct driver_view *view_p);
void driver_view_end(struct driver_view *view);

/* Whether all that was read from it before was its owner's memory. (The driver says so before it shows other pages.) */
static inline bool driver_view_is_whole(const struct driver_view *view)
{
	fence_read(); /* another thread's load of another page may have been the one that faulted */
	return !load_relaxed(&view->head->lost) && !load_relaxed(&view->head->ended);
}

/* Changes whenever what is known of a region's memory may have become wrong: its pins went, or it was forgotten. */
static inline const uint32_t *driver_word(const struct driver *driver, uint32_t id)
{
	return driver->shared->generations + id;
}

/* Regions of a driver, which is arg, for a cache; handle is the id. They are right for good, whatever happens to the
 * mapping, since the driver pins what is mapped when they are used. */
extern const struct cache_registrar driver_registrar;

#endif
