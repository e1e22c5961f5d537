/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/discard.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"

enum {
	DISCARD_ROW = 64,     /* descriptors that one thread takes */
	DISCARD_UNREAD = 256, /* messages of one socket that are looked at: behind these may be what is looked for */
};

/* What the two threads of one call say to each other. */
struct discard {
	sem_t apart;  /* the other one has a table of its own, or cannot have one */
	sem_t closed; /* this one has none of the descriptors any more */
	int highest;  /* of them */
};

static void discard_wait(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0) /* a signal */
		;
}

/* Filters that containers have refuse the one or the other. */
static void *discard_run(void *arg)
{
	struct discard *discard = arg;

	if (syscall(SYS_close_range, discard->highest + 1, ~0u, CLOSE_RANGE_UNSHARE) != 0)
		(void)unshare(CLONE_FILES); /* where neither is to be had, who asked closes them last */
	sem_post(&discard->apart);
	discard_wait(&discard->closed);
	return NULL;
}

static void discard_close(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

static void discard_apart(const int *fds, unsigned count)
{
	struct discard discard = {.highest = -1};
	pthread_t thread;

	if (count == 0)
		return;
	for (unsigned i = 0; i < count; i++)
		discard.highest = fds[i] > discard.highest ? fds[i] : discard.highest;
	sem_init(&discard.apart, 0, 0);
	sem_init(&discard.closed, 0, 0);
	if (thread_start(&thread, "thole-discard", discard_run, &discard) == 0) {
		discard_wait(&discard.apart);
		discard_close(fds, count);
		sem_post(&discard.closed);
		pthread_join(thread, NULL);
	} else {
		discard_close(fds, count);
	}
	sem_destroy(&discard.apart);
	sem_destroy(&discard.closed);
}

/* Whether a message waits that brings descriptors. Nothing more comes or goes from here on, whoever has a copy of this
 * socket: the other side sees its end. With each message its sender is told, for which there is room, and so an end is
 * no message without bytes; for more there is none. */
static bool discard_is_charged(int fd)
{
	static const int on = 1;

	shutdown(fd, SHUT_RDWR);
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
		return true;
	for (int i = 0; i < DISCARD_UNREAD; i++) {
		union {
			char bytes[CMSG_SPACE(sizeof(struct ucred))];
			struct cmsghdr align;
		} control;
		struct msghdr header = {.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};

		if (recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT) < 0)
			return false;
		if (header.msg_flags & MSG_CTRUNC)
			return true;
		if (header.msg_controllen == 0)
			return false;
		(void)!recv(fd, NULL, 0, MSG_DONTWAIT);
	}
	return true;
}

static bool discard_is_file(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

/* Those that may wait by a thread, which uses our stack: who is cancelled is so afterwards. The others at once. */
static void discard_some(const int *fds, unsigned count, bool received)
{
	int held[DISCARD_ROW], cancellable = thread_keep();
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++) {
		if (received ? discard_is_file(fds[i]) : !discard_is_charged(fds[i])) {
			close(fds[i]);
			continue;
		}
		held[kept++] = fds[i];
		if (kept == DISCARD_ROW) {
			discard_apart(held, kept);
			kept = 0;
		}
	}
	discard_apart(held, kept);
	thread_release(cancellable);
}

void discard_sockets(const int *fds, unsigned count)
{
	discard_some(fds, count, false);
}

void discard_received(const int *fds, unsigned count)
{
	discard_some(fds, count, true);
}
