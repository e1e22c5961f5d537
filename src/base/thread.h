/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: how threads of our own are started in somebody else's program. */
#ifndef THOLE_BASE_THREAD_H
#define THOLE_BASE_THREAD_H

#include <pthread.h>

/* Start one that takes no signals, which are for the program's threads, and has a small stack. Returns 0 or an
 * errno. */
int thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *arg), void *arg);

#endif
