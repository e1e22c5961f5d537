/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * discard: the end of descriptors that others have chosen, and of Unix sockets that others may have sent such to.
 * Whoever closes the last one of a TCP socket waits for its peer, as long as its owner has set (SO_LINGER); and what
 * nobody has read from a Unix socket is closed with that, by whoever closes it. So by a descriptor under way another
 * user could hold a process for hours that but turns him away. A thread that ends does not wait: one closes them last,
 * in its exit, with a table of descriptors of its own.
 *
 * What waits in each close, as files of a file server that does not answer (FUSE), is waited for.
 */
#ifndef THOLE_BASE_DISCARD_H
#define THOLE_BASE_DISCARD_H

/* Close Unix sockets, whatever has been sent to them. They may be in no epoll any more. */
void discard_sockets(const int *fds, unsigned count);
static inline void discard_socket(int fd)
{
	discard_sockets(&fd, 1);
}

enum { DISCARD_RIGHTS_MAX = 253 }; /* descriptors of one message: what finds no room is closed in our name */

/* Close descriptors that came over a Unix socket, whatever they are. */
void discard_received(const int *fds, unsigned count);

#endif
