/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: how threads of our own are started in somebody else's program. */
#ifndef MX_THREAD_H
#define MX_THREAD_H

#include <pthread.h>

/* Start one that takes no signals, which are for the program's threads, and has a small stack. Returns 0 or an errno. */
int mxi_thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *arg));

#endif /* MX_THREAD_H */
