// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "events.h"

#include <linux/mm.h>
#include <linux/string.h>

void events_init(struct events *events)
{
	*events = (struct events){0};
	spin_lock_init(&events->lock);
	INIT_LIST_HEAD(&events->waiting);
	init_waitqueue_head(&events->sleepers);
}

void events_fini(struct events *events)
{
	WARN_ON(!list_empty(&events->waiting));
	mapped_free(&events->mapped);
}

static int events_make(struct events *events)
{
	struct thole_driver_events *shared;
	struct mapped mapped;
	int status = mapped_new(&mapped, sizeof(*events->shared));

	if (status)
		return status;
	spin_lock_bh(&events->lock);
	if (!events->shared) {
		swap(events->mapped, mapped);
		shared = events->mapped.at;
		events->ring = (struct ring){.read = &shared->read,
					     .places = shared->events,
					     .bytes = sizeof(*shared->events),
					     .count = THOLE_DRIVER_EVENTS};
		smp_store_release(&events->shared, shared);
	}
	spin_unlock_bh(&events->lock);
	mapped_free(&mapped); /* nothing, or somebody else was quicker */
	return 0;
}

int events_mmap(struct events *events, struct vm_area_struct *vma)
{
	int status = smp_load_acquire(&events->shared) ? 0 : events_make(events);

	return status ? status : mapped_show(&events->mapped, vma);
}

/* Under the lock. Returns whether there was room. */
static bool events_write(struct events *events, const struct thole_driver_event *body, const void *data, u16 length)
{
	struct thole_driver_event *place = ring_next(&events->ring);

	if (!place)
		return false;
	place->kind = body->kind;
	place->length = length;
	place->cookie = body->cookie;
	memcpy(place->data, data, length);
	ring_filled(&events->ring, &place->stamp);
	return true;
}

/* Under the lock. Returns whether any did. */
static bool events_move(struct events *events)
{
	u32 before = events->waiting_count;

	while (events->waiting_count) {
		struct event *event = list_first_entry(&events->waiting, struct event, waiting);

		if (!events_write(events, &event->body, event->body.data, event->body.length))
			break;
		list_del_init(&event->waiting);
		events->waiting_count--;
	}
	if (events->waiting_count != before)
		WRITE_ONCE(events->shared->waiting, events->waiting_count);
	return events->waiting_count != before;
}

/* Under the lock. */
static void events_wait(struct events *events, struct event *event, const void *data, u16 length)
{
	memcpy(event->body.data, data, length);
	event->body.length = length;
	if (!list_empty(&event->waiting))
		return;
	list_add_tail(&event->waiting, &events->waiting);
	WRITE_ONCE(events->shared->waiting, ++events->waiting_count);
	WRITE_ONCE(events->shared->delayed, events->shared->delayed + 1);
}

void events_post(struct events *events, struct event *event, const void *data, u16 length)
{
	if (WARN_ON_ONCE(length > THOLE_DRIVER_EVENT_DATA) || !READ_ONCE(events->shared))
		return;
	spin_lock_bh(&events->lock);
	if (events->waiting_count)
		events_move(events);
	if (events->waiting_count || !events_write(events, &event->body, data, length)) {
		events_wait(events, event, data, length);
		/* Pairs with the fence of who reads: it may have read all before it could see that something waits. */
		smp_mb();
		events_move(events);
	}
	spin_unlock_bh(&events->lock);
	events_wake(events);
}

void events_withdraw(struct events *events, struct event *event)
{
	spin_lock_bh(&events->lock);
	if (!list_empty(&event->waiting)) {
		list_del_init(&event->waiting);
		WRITE_ONCE(events->shared->waiting, --events->waiting_count);
	}
	spin_unlock_bh(&events->lock);
}

bool events_tell(struct events *events, enum thole_driver_kind kind, u64 cookie, const void *data, u16 length)
{
	struct thole_driver_event body = {.kind = kind, .cookie = cookie};
	bool told;

	if (WARN_ON_ONCE(length > THOLE_DRIVER_EVENT_DATA) || !READ_ONCE(events->shared))
		return false;
	spin_lock_bh(&events->lock);
	if (events->waiting_count)
		events_move(events);
	told = !events->waiting_count && events_write(events, &body, data, length);
	if (!told)
		WRITE_ONCE(events->shared->untold, events->shared->untold + 1);
	spin_unlock_bh(&events->lock);
	events_wake(events);
	return told;
}

void events_flush(struct events *events)
{
	bool moved = false;

	spin_lock_bh(&events->lock);
	if (events->waiting_count)
		moved = events_move(events);
	spin_unlock_bh(&events->lock);
	if (moved)
		events_wake(events);
}

__poll_t events_poll(struct events *events, struct file *file, poll_table *table)
{
	bool any = false;

	poll_wait(file, &events->sleepers, table);
	smp_mb(); /* who writes an event now sees us, or we see it */
	spin_lock_bh(&events->lock);
	if (events->waiting_count)
		events_move(events);
	if (events->shared)
		any = ring_unread(&events->ring);
	spin_unlock_bh(&events->lock);
	return any ? EPOLLIN | EPOLLRDNORM : 0;
}
