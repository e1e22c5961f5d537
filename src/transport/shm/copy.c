/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy: one copy between two processes' memory, without the other's help. The kernel primitive that
 * MPICH-PM/CLUMP, section 4.1, had to add is process_vm_readv now.
 */
#include <errno.h>

#include "transport/shm/shm.h"

int copy_remote(pid_t pid, bool write, const struct vector *local, const struct vector *remote, uint64_t offset,
		uint64_t length, uint64_t *done_p)
{
	struct iovec here[SEGMENTS_A_CALL], there[SEGMENTS_A_CALL];

	*done_p = 0;
	while (*done_p < length) {
		uint64_t at = offset + *done_p, covered, covered_there;
		size_t n = vector_slice(local, at, length - *done_p, here, SEGMENTS_A_CALL, &covered);
		size_t m = vector_slice(remote, at, covered, there, SEGMENTS_A_CALL, &covered_there);
		ssize_t size = write ? process_vm_writev(pid, here, n, there, m, 0)
				     : process_vm_readv(pid, here, n, there, m, 0);

		if (size < 0)
			return errno;
		if (size == 0)
			return EFAULT;
		*done_p += (uint64_t)size; /* a part: the next call tells why */
	}
	return 0;
}

int copy_from(pid_t pid, void *to, uint64_t address, size_t length)
{
	struct iovec here = {to, length}, there = {(void *)(uintptr_t)address, length};
	ssize_t size = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return size == (ssize_t)length ? 0 : size < 0 ? errno : EFAULT;
}

void copy_refused(struct peer *peer)
{
	shm_link(peer)->one_copy = ONE_COPY_NO;
	choose_tell(peer);
}

bool copy_allowed(struct peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	uint64_t seen = 0;

	if (!peer->endpoint->options.one_copy || link->one_copy == ONE_COPY_NO)
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
	link->one_copy = link->pid > 0 && copy_from(link->pid, &seen, link->cookie_address, sizeof(seen)) == 0 &&
					 seen == link->cookie
				 ? ONE_COPY_YES
				 : ONE_COPY_NO;
	if (link->one_copy == ONE_COPY_NO)
		endpoint_count(peer->endpoint, COUNTER_ONE_COPY_REFUSED);
	choose_tell(peer);
	return link->one_copy == ONE_COPY_YES;
}
