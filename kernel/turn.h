/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * turn: what a worker does with a process's memory: now, or later.
 *
 * Workers are all users', and whoever has a lock of a process's may wait with it held, for as long as a file system of
 * the user's likes (mmap_lock), or as the process is kept from running (pages.pinning). So a worker only tries such a
 * lock. Where it is taken the work ends, and waits in the line of its holder, without a worker. After a pause the first
 * in the line has its turn again, and if that is in vain goes to the end; pauses get twice as long each time, up to a
 * bound, until something was to be had. So what waits costs one try a pause, however much waits.
 *
 * Owns when work is queued. Does not own its memory: what is queued or waits has a reference of its own, and who takes
 * a turn out of either has that.
 *
 * Locks: line.lock, a spinlock, softirqs off; innermost. Invariant: what is in the line is not queued.
 */
#ifndef THOLE_KERNEL_TURN_H
#define THOLE_KERNEL_TURN_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/* A holder's. */
struct line {
	spinlock_t lock;
	struct list_head waiting; /* turns */
	struct hrtimer pause;
	u32 pause_ns; /* how long the next one is */
};

struct turn {
	struct work_struct work;
	struct workqueue_struct *workers;
	struct line *line;
	struct list_head waiting; /* line.waiting; alone: it does not */
	bool over;
};

void line_init(struct line *line);
/* Nobody is in it. */
void line_fini(struct line *line);
/* Something was to be had: who waits tries soon. */
void line_move(struct line *line);

void turn_init(struct turn *turn, struct line *line, struct workqueue_struct *workers, work_func_t function);

/* A worker's turn. Returns false if one is to come in any case, or it is over. */
bool turn_queue(struct turn *turn);

/* The same, for a worker whose turn was in vain: later. */
bool turn_wait(struct turn *turn);

/* Its waiting ends. Returns whether it did: then who asks has the turn. */
bool turn_take(struct turn *turn);

/* No turn any more, but one that has begun or is queued. Returns as turn_take does. */
bool turn_end(struct turn *turn);

/* Nor those, once this returns; so it sleeps. Returns whether there would have been one. */
bool turn_end_sync(struct turn *turn);

#endif
