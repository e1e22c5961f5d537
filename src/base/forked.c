/* SPDX-License-Identifier: BSD-3-Clause */
/* forked: see forked.h. What runs in a child calls nothing that may not be called there: close, and stores. */
#include "base/forked.h"

#include <unistd.h>

#include "base/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sigset_t signals; /* of who has the lock */
static struct list_node all = {&all, &all};

static void forked_lock(void)
{
	thread_lock(&lock, &signals);
}

static void forked_unlock(void)
{
	thread_unlock(&lock, &signals);
}

static void forked_child(void)
{
	struct list_node *node;

	while ((node = list_first(&all))) {
		struct forked *forked = container_of(node, struct forked, node);

		for (unsigned i = 0; i < forked->count; i++)
			forked_close(&forked->fds[i]);
		list_remove(node);
	}
	forked_unlock();
}

/* Not with the first descriptor: a child that is made while its lock is held, and before its handlers are known, would
 * find it taken for ever. Those who take it inside locks of their own are registered after this. */
__attribute__((constructor(FORKED_FIRST))) static void forked_begin(void)
{
	pthread_atfork(forked_lock, forked_unlock, forked_child);
}

void forked_add(struct forked *forked, int *fds, unsigned count)
{
	forked_lock();
	forked->fds = fds;
	forked->count = count;
	list_push_back(&all, &forked->node);
	forked_unlock();
}

void forked_remove(struct forked *forked)
{
	if (!forked->fds)
		return;
	forked_lock();
	list_remove(&forked->node);
	forked_unlock();
}

void forked_close(int *fd)
{
	int closing = *fd;

	*fd = -1;
	if (closing >= 0)
		close(closing);
}
