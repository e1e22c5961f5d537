/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy: one copy between two processes' memory, without the other's help. The kernel primitive that
 * MPICH-PM/CLUMP, section 4.1, had to add is process_vm_readv now. Of each call it is known whose memory it was: by
 * door.c, or, of what was read, by life.c.
 */
#include <errno.h>

#include "base/maps.h"
#include "transport/shm/shm.h"

/* A word that goes with a call: the call's first or last segment. */
struct copy_word {
	uint64_t value;
	uint64_t address; /* the peer's; 0: none */
};

enum { COPY_SEGMENTS = SEGMENTS_A_CALL + 2 };

struct copy_call {
	struct iovec here[COPY_SEGMENTS], there[COPY_SEGMENTS];
	size_t here_count, there_count;
	uint64_t length; /* of the data, without words */
};

static void call_word(struct copy_call *call, struct copy_word *word)
{
	if (!word->address)
		return;
	call->here[call->here_count++] = (struct iovec){&word->value, sizeof(word->value)};
	call->there[call->there_count++] = (struct iovec){(void *)(uintptr_t)word->address, sizeof(word->value)};
}

/* As much of the data as one call can take, the same length on both sides. */
static void call_data(struct copy_call *call, const struct vector *local, const struct vector *remote, uint64_t at,
		      uint64_t length)
{
	size_t words = call->there_count;
	uint64_t covered;

	call->there_count +=
		vector_slice(remote, at, length, call->there + call->there_count, SEGMENTS_A_CALL, &length);
	call->here_count += vector_slice(local, at, length, call->here + call->here_count, SEGMENTS_A_CALL, &covered);
	if (covered < length) {
		call->there_count = words;
		call->there_count += vector_slice(remote, at, covered, call->there + words, SEGMENTS_A_CALL, &length);
	}
	call->length = covered;
}

/* One call that may begin with `first` and end with `last`. How much of the data it has copied, or -1 and errno:
 * ESTALE where the first word's place is not there. */
static ssize_t copy_once(pid_t pid, bool write, struct copy_word *first, struct copy_word *last,
			 const struct vector *local, const struct vector *remote, uint64_t at, uint64_t length)
{
	struct copy_call call = {.length = 0};
	ssize_t size;

	call_word(&call, first);
	call_data(&call, local, remote, at, length);
	call_word(&call, last);
	size = write ? process_vm_writev(pid, call.here, call.here_count, call.there, call.there_count, 0)
		     : process_vm_readv(pid, call.here, call.here_count, call.there, call.there_count, 0);
	if (first->address) {
		if (size < (ssize_t)sizeof(first->value)) {
			errno = size < 0 && errno != EFAULT ? errno : ESTALE;
			return -1;
		}
		size -= (ssize_t)sizeof(first->value);
	}
	return size < (ssize_t)call.length ? size : (ssize_t)call.length;
}

/* Whether the cookie came along. A peer may say that it has none. */
static bool copy_is_proven(const struct shm_peer *link, const struct copy_word *cookie)
{
	return cookie->address && cookie->value == link->cookie;
}

int copy_read(const struct shm_peer *link, const struct vector *local, const struct vector *remote, uint64_t offset,
	      uint64_t length, uint64_t *done_p)
{
	struct copy_word none = {0};
	bool spared = true; /* the cookie: it will be known without whose memory was read */

	*done_p = 0;
	while (*done_p < length) {
		struct copy_word cookie = {.address = link->cookie_address};
		ssize_t size;

		spared = spared && life_goes_on(link);
		size = copy_once(link->pid, false, spared ? &none : &cookie, &none, local, remote, offset + *done_p,
				 length - *done_p);
		if (spared && !life_goes_on(link)) {
			spared = false; /* it is not known: again, with the cookie, whatever is said by now */
			continue;
		}
		if (size < 0)
			return errno;
		if (!spared && !copy_is_proven(link, &cookie))
			return ESTALE;
		if (size == 0)
			return EFAULT;
		*done_p += (uint64_t)size; /* a part: the next call tells why */
	}
	return 0;
}

uint64_t copy_read_several(const struct shm_peer *link, const struct copy_part *parts, size_t count)
{
	struct copy_word cookie = {.address = link->cookie_address};
	struct copy_call call = {.length = 0};
	bool spared = life_goes_on(link);
	ssize_t size;

	if (!spared)
		call_word(&call, &cookie);
	for (size_t i = 0; i < count && i < SEGMENTS_A_CALL; i++) {
		call.here[call.here_count++] = (struct iovec){parts[i].here, parts[i].length};
		call.there[call.there_count++] = (struct iovec){(void *)(uintptr_t)parts[i].there, parts[i].length};
	}
	size = process_vm_readv(link->pid, call.here, call.here_count, call.there, call.there_count, 0);
	if (spared)
		return size > 0 && life_goes_on(link) ? (uint64_t)size : 0;
	return size < (ssize_t)sizeof(cookie.value) || !copy_is_proven(link, &cookie)
		       ? 0
		       : (uint64_t)size - sizeof(cookie.value);
}

int copy_write(const struct shm_peer *link, uint64_t door, uint64_t *calls_p, const struct vector *local,
	       const struct vector *remote, uint64_t offset, uint64_t length)
{
	while (length > 0) {
		struct copy_word begun = {++*calls_p, door};
		struct copy_word ended = {*calls_p, door_way_out(door)};
		ssize_t size = copy_once(link->pid, true, &begun, &ended, local, remote, offset, length);

		if (size < 0 && errno != ESTALE)
			return errno;
		if (size == 0) /* it got in, and no further: else it would seem to be there from now on */
			copy_once(link->pid, true, &ended, &(struct copy_word){0}, local, remote, offset, 0);
		if (size <= 0)
			return EFAULT;
		offset += (uint64_t)size;
		length -= (uint64_t)size;
	}
	return 0;
}

int copy_known(const struct shm_peer *link)
{
	uint64_t seen = 0;
	int error = copy_from(link->pid, &seen, link->cookie_address, sizeof(seen));

	return error == EFAULT || (!error && seen != link->cookie) ? ESTALE : error;
}

int copy_from(pid_t pid, void *to, uint64_t address, size_t length)
{
	struct iovec here = {to, length}, there = {(void *)(uintptr_t)address, length};
	ssize_t size = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return size == (ssize_t)length ? 0 : size < 0 ? errno : EFAULT;
}

bool copy_is_mapped(const struct vector *vector, uint64_t offset, uint64_t length)
{
	while (length > 0) {
		struct iovec part;
		uint64_t covered;

		if (vector_slice(vector, offset, length, &part, 1, &covered) == 0 ||
		    !maps_have(&part, 1))
			return false;
		offset += covered;
		length -= covered;
	}
	return true;
}

void copy_refused(struct transport_peer *peer)
{
	if (shm_link(peer)->one_copy != ONE_COPY_NO)
		transport_count(peer->owner, COUNTER_ONE_COPY_REFUSED);
	shm_link(peer)->one_copy = ONE_COPY_NO;
	choose_tell(peer);
}

bool copy_allowed(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (!peer->owner->options.one_copy || link->one_copy == ONE_COPY_NO)
		return false;
	if (link->one_copy == ONE_COPY_YES)
		return true;
	if (!link->in.segment) {
		/* Its greeting did not come yet; what it wrote into our segment on accepting ours says the same. */
		if (!link->connected || !load_acquire(&link->out.segment->accepted))
			return false;
		link->cookie_address = link->out.segment->cookie_address;
		link->cookie = link->out.segment->cookie;
	}
	link->one_copy = link->pid > 0 && copy_known(link) == 0 ? ONE_COPY_YES : ONE_COPY_NO;
	if (link->one_copy == ONE_COPY_NO)
		transport_count(peer->owner, COUNTER_ONE_COPY_REFUSED);
	choose_tell(peer);
	return link->one_copy == ONE_COPY_YES;
}
