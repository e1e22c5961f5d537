/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * events: what the kernel tells a program, in a ring that the program maps and reads without a call.
 *
 * Owns the ring (struct thole_driver_events), events that wait for room in it, and who sleeps until there are some.
 * Does not own what events mean: whoever posts one has its kind in thole_driver.h.
 *
 * There are two ways. events_post is for what must not be lost: the event's memory is part of what it tells of, so
 * there are never more than there are such things, and one that finds no room waits. events_tell is for what the
 * program finds out anyway, or can be told again: it needs no memory, and is counted where it finds no room.
 *
 * Invariants. Events are seen in the order in which they were posted; one that is posted again while it waits keeps
 * its place, and tells the newest. Of the ring the kernel reads only how far the program has read, once, and any number
 * may be there: it says how much is free, and a wrong one costs its writer events. Any context but hard interrupts; the
 * lock is the innermost of all.
 */
#ifndef THOLE_KERNEL_EVENTS_H
#define THOLE_KERNEL_EVENTS_H

#include <linux/list.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "mapped.h"
#include "ring.h"
#include "thole_driver.h"

struct events {
	struct thole_driver_events *shared; /* NULL: nobody has mapped it yet, and nothing is told */
	struct mapped mapped;
	spinlock_t lock; /* all below */
	struct ring ring;
	u32 waiting_count;
	struct list_head waiting;
	wait_queue_head_t sleepers;
};

/* Part of what it tells of. */
struct event {
	struct list_head waiting; /* empty: it does not */
	struct thole_driver_event body;
};

void events_init(struct events *events);
void events_fini(struct events *events);

/* Show the ring, which is made the first time. */
int events_mmap(struct events *events, struct vm_area_struct *vma);

static inline void event_init(struct event *event, enum thole_driver_kind kind, u64 cookie)
{
	INIT_LIST_HEAD(&event->waiting);
	event->body.kind = kind;
	event->body.cookie = cookie;
}

/* Tell this, at once or when there is room. Of one event at a time. At most THOLE_DRIVER_EVENT_DATA bytes. */
void events_post(struct events *events, struct event *event, const void *data, u16 length);

/* Before an event's memory goes: it waits no longer. */
void events_withdraw(struct events *events, struct event *event);

/* Tell this, if there is room. */
bool events_tell(struct events *events, enum thole_driver_kind kind, u64 cookie, const void *data, u16 length);

/* There is something for who sleeps in poll; called where it has been written already. */
static inline void events_wake(struct events *events)
{
	if (wq_has_sleeper(&events->sleepers))
		wake_up_interruptible_poll(&events->sleepers, EPOLLIN | EPOLLRDNORM);
}

/* Events that wait come into the ring, as far as there is room. */
void events_flush(struct events *events);

__poll_t events_poll(struct events *events, struct file *file, poll_table *table);

#endif
