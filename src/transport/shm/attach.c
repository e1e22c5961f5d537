/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: memory of a peer that this process has mapped: where an address of the peer's is here.
 *
 * Owns the mappings of arenas, and how they come to be: who is about to move large messages from or into an arena of
 * its own (base/arena.h) hands the peer its descriptor over their connection, once an arena. All other memory is lent
 * by the driver, where there is one (lend.c). Does not own when mappings are used (fetch.c, serve.c, choose.c).
 *
 * What always holds: a mapping shows what its owner has at that address as long as the arena is not retired, which
 * each use looks at. A window that was announced before stays what it was, since no peer writes to a retired arena but
 * those who had begun to; these look again afterwards. A mapping is only as long as it was needed for, can be written
 * from the first write on, and is in no child.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blocks.h"
#include "base/discard.h"
#include "transport/shm/shm.h"

enum {
	ATTACHMENTS = 4,         /* arenas of one peer: the newest ones */
	MAPPED_MIN = 2 << 20,    /* bytes mapped at first */
	HEADER = ARENA_GRANULE,  /* bytes before the first block */
};

#define ANNOUNCEMENT_MAGIC UINT64_C(0x74686f6c65617431) /* "tholeat1" */

struct announcement {
	uint64_t magic;
	uint64_t base; /* in the sender's address space */
	uint64_t size;
};

/* Who could not take what he was told asks for it once he can. */
#define AGAIN_MAGIC UINT64_C(0x74686f6c65616731) /* "tholeag1" */

struct again {
	uint64_t magic;
	uint64_t what; /* UNHEARD_* */
};

struct attachment {
	char *memory;    /* NULL: free */
	uint64_t mapped; /* bytes from its beginning */
	uint64_t base, size; /* the peer's */
	bool writable;
};

/* ---- Telling --------------------------------------------------------------------------------------- */

void attach_tell(struct transport_peer *peer, const struct vector *vector, bool write)
{
	struct shm_peer *link = shm_link(peer);
	struct announcement announcement;
	struct arena_place place;

	if (vector->count != 1 || !link->connected || !peer->owner->options.one_copy)
		return;
	if (!arena_is_near(vector->segments->iov_base) ||
	    !blocks()->find(vector->segments->iov_base, vector->segments->iov_len, &place)) {
		lend_tell(peer, vector, write);
		return;
	}
	if (place.number == link->told || !own_file_is(&place.file))
		return;
	announcement = (struct announcement){ANNOUNCEMENT_MAGIC, place.base, place.size};
	if (connect_send(link->watch_out.fd, &announcement, sizeof(announcement), place.file.fd))
		link->told = place.number; /* else the socket is full, and the next message tells */
}

void attach_forget_told(struct shm_peer *link)
{
	link->told = 0;
	link->life_told = false;
	if (link->views)
		memset(link->views->told, 0, sizeof(link->views->told));
}

/* ---- Being told ------------------------------------------------------------------------------------ */

static struct arena_header *attachment_header(const struct attachment *attachment)
{
	return (struct arena_header *)attachment->memory;
}

static void attachment_end(struct attachment *attachment)
{
	if (attachment->memory)
		munmap(attachment->memory, attachment->mapped);
	*attachment = (struct attachment){0};
}

/* Whether a descriptor is a memfd as announced. */
static bool descriptor_fits(int fd, const struct announcement *announcement)
{
	struct stat status;

	return segment_is_safe(fd) && fstat(fd, &status) == 0 && (uint64_t)status.st_size == announcement->size &&
	       announcement->size >= MAPPED_MIN && announcement->size <= ARENA_SIZE_MAX &&
	       announcement->base <= UINT64_MAX - announcement->size;
}

static bool attachment_make(struct shm_peer *link, struct attachment *attachment,
			    const struct announcement *announcement, int fd)
{
	void *memory = mmap(NULL, MAPPED_MIN, PROT_READ, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED) {
		link->unheard |= UNHEARD_ARENA;
		return false;
	}
	madvise(memory, MAPPED_MIN, MADV_DONTFORK);
	*attachment = (struct attachment){.memory = memory, .mapped = MAPPED_MIN, .base = announcement->base,
					  .size = announcement->size};
	if (attachment_header(attachment)->magic == ARENA_MAGIC &&
	    attachment_header(attachment)->version == ARENA_VERSION)
		return true;
	attachment_end(attachment);
	return false;
}

/* The newest is the first. */
static void attachment_add(struct shm_peer *link, const struct attachment *attachment)
{
	attachment_end(&link->attachments[ATTACHMENTS - 1]);
	memmove(link->attachments + 1, link->attachments, (ATTACHMENTS - 1) * sizeof(*link->attachments));
	link->attachments[0] = *attachment;
}

/* Whether a peer has told of an arena. Its descriptor is lost where this process could have none just then. */
static bool arena_arrived(struct transport_peer *peer, const void *message, size_t size, int fd)
{
	struct shm_peer *link = shm_link(peer);
	struct announcement announcement;
	struct attachment attachment = {0};

	if (size != sizeof(announcement))
		return false;
	memcpy(&announcement, message, sizeof(announcement));
	if (announcement.magic != ANNOUNCEMENT_MAGIC)
		return false;
	if (!link->attachments)
		link->attachments = calloc(ATTACHMENTS, sizeof(*link->attachments));
	if (fd < 0 || !link->attachments) {
		link->unheard |= UNHEARD_ARENA;
	} else if (!peer->gone && !arena_may_signal() && descriptor_fits(fd, &announcement) &&
		   attachment_make(link, &attachment, &announcement, fd)) {
		attachment_add(link, &attachment);
	}
	transport_count(peer->owner, attachment.memory ? COUNTER_ATTACHED : COUNTER_ATTACH_REFUSED);
	return true;
}

/* Whether the peer asks to be told again. */
static bool again_arrived(struct shm_peer *link, const void *message, size_t size)
{
	struct again again;

	if (size != sizeof(again))
		return false;
	memcpy(&again, message, sizeof(again));
	if (again.magic != AGAIN_MAGIC)
		return false;
	if (again.what & UNHEARD_ARENA)
		link->told = 0;
	if (again.what & UNHEARD_LIFE)
		link->life_told = false;
	return true;
}

void attach_arrived(struct transport_peer *peer, const void *message, size_t size, int fd)
{
	if (fd < 0 && size <= 1)
		return; /* a wake-up */
	if (!life_arrived(peer, message, size, fd) && !again_arrived(shm_link(peer), message, size) &&
	    !arena_arrived(peer, message, size, fd)) {
		if (fd < 0)
			lend_arrived(peer, message, size);
		else
			transport_count(peer->owner, COUNTER_ATTACH_REFUSED);
	}
	if (fd >= 0)
		discard_received(&fd, 1);
}

/* Whether what was told in vain would find a descriptor and a place now. */
static bool attach_has_room(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	void *place = mmap(NULL, MAPPED_MIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy >= 0)
		close(copy);
	if (place != MAP_FAILED)
		munmap(place, MAPPED_MIN);
	return copy >= 0 && place != MAP_FAILED;
}

void attach_review(struct shm_peer *link)
{
	const struct again again = {AGAIN_MAGIC, link->unheard};

	for (int i = 0; link->attachments && i < ATTACHMENTS; i++)
		if (link->attachments[i].memory && load_relaxed(&attachment_header(&link->attachments[i])->retired))
			attachment_end(&link->attachments[i]);
	lend_review(link->views);
	if (link->unheard && attach_has_room(link->watch_in.fd) &&
	    connect_send(link->watch_in.fd, &again, sizeof(again), -1))
		link->unheard = 0;
}

void attach_release(struct shm_peer *link)
{
	lend_release(link->views);
	link->views = NULL;
	for (int i = 0; link->attachments && i < ATTACHMENTS; i++)
		attachment_end(&link->attachments[i]);
	free(link->attachments);
	link->attachments = NULL;
}

/* ---- Finding --------------------------------------------------------------------------------------- */

/* Whether it has all of that. What its owner has mapped behind its end is something else, though it may grow there. All
 * that is looked at was stored before the message that named the address. */
static bool attachment_has(const struct attachment *attachment, uint64_t address, uint64_t length)
{
	uint64_t at = address - attachment->base, end;

	if (!attachment->memory || at >= attachment->size)
		return false;
	end = load_relaxed(&attachment_header(attachment)->end);
	if (end > attachment->size)
		end = attachment->size;
	return at < end && length <= end - at &&
	       !altered_has(&attachment_header(attachment)->altered, at / ARENA_GRANULE,
			    (at + length + ARENA_GRANULE - 1) / ARENA_GRANULE);
}

static struct attachment *attachment_of(struct shm_peer *link, uint64_t address, uint64_t length)
{
	for (int i = 0; link->attachments && i < ATTACHMENTS; i++)
		if (attachment_has(&link->attachments[i], address, length))
			return &link->attachments[i];
	return NULL;
}

/* Map it up to `end`, and twice as much each time, so that it seldom happens. */
static bool attachment_grow(struct attachment *attachment, uint64_t end)
{
	uint64_t length = attachment->mapped;
	void *memory;

	while (length < end)
		length *= 2;
	if (length > attachment->size)
		length = attachment->size;
	memory = mremap(attachment->memory, attachment->mapped, length, MREMAP_MAYMOVE);
	if (memory == MAP_FAILED)
		return false;
	attachment->memory = memory;
	attachment->mapped = length;
	return true;
}

void *attach_find(struct transport_peer *peer, uint64_t address, uint64_t length, bool write)
{
	struct attachment *attachment = attachment_of(shm_link(peer), address, length);
	uint64_t at;

	if (!peer->owner->options.one_copy)
		return NULL;
	if (!attachment)
		return lend_find(shm_link(peer)->views, address, length, write);
	at = address - attachment->base;
	if (load_acquire(&attachment_header(attachment)->retired)) { /* pairs with the fence in arena_retire */
		attachment_end(attachment);
		return NULL;
	}
	if (at < HEADER)
		return NULL;
	if ((at + length > attachment->mapped && !attachment_grow(attachment, at + length)) ||
	    (write && !attachment->writable &&
	     mprotect(attachment->memory, attachment->mapped, PROT_READ | PROT_WRITE) != 0)) {
		transport_count(peer->owner, COUNTER_ATTACH_REFUSED);
		return NULL;
	}
	attachment->writable |= write;
	return attachment->memory + at;
}

bool attach_is_current(struct transport_peer *peer, uint64_t address, uint64_t length, bool write, const void *place)
{
	const struct attachment *attachment;

	if (write)
		fence_full(); /* pairs with those in arena_retire and arena_alter */
	attachment = attachment_of(shm_link(peer), address, length);
	if (!attachment)
		return lend_find(shm_link(peer)->views, address, length, write) == place; /* or by another view */
	/* No peer writes to what has been retired. */
	return !write || !load_relaxed(&attachment_header(attachment)->retired);
}
