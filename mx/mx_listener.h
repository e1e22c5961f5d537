/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_listener - the thread by which the directory hears: it sleeps in the kernel until a descriptor
 * has something or the alarm goes off, and calls back.
 *
 * Owns the thread and what it sleeps on, not the descriptors that it watches. All calls are made,
 * and all callbacks called, with the mutex of whom it listens for.
 */
#ifndef MX_LISTENER_H
#define MX_LISTENER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct mxi_listener {
	/* Set before it is started; the descriptors -1. */
	pthread_mutex_t *mutex;
	void (*attend)(int fd, uint32_t events); /* a descriptor that is watched has these of epoll's */
	void (*alarm)(void);                     /* it has gone off */

	pthread_t thread;
	bool running, ending;   /* the thread is there; it is to end */
	int epoll_fd, timer_fd; /* what it sleeps on; -1: no thread */
	uint64_t alarm_ns;      /* when the alarm goes off; UINT64_MAX: never */
};

/* THOLE_ERR_SYSTEM, with a sentence. */
int mxi_listener_start(struct mxi_listener *listener);

/* Lets go of the mutex meanwhile, with `ending` set: the thread may want it once more. */
void mxi_listener_stop(struct mxi_listener *listener);

/* In a forked child, which has no such thread. */
void mxi_listener_forget(struct mxi_listener *listener);

/* From now on, as long as it runs. Returns 0, or -1 and errno. */
int mxi_listener_watch(struct mxi_listener *listener, int fd);
/* No longer; -1 is ignored, as is all where it does not run. */
void mxi_listener_unwatch(struct mxi_listener *listener, int fd);

/* The alarm at this time (UINT64_MAX: never); or at this time at the latest. */
void mxi_listener_alarm(struct mxi_listener *listener, uint64_t when_ns);
void mxi_listener_alarm_by(struct mxi_listener *listener, uint64_t when_ns);

#endif /* MX_LISTENER_H */
