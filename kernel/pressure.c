// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "pressure.h"

#include <linux/shrinker.h>

#include "compat.h"

static LIST_HEAD(order); /* of all, least recently used first; each holder has one of its own */
static DEFINE_SPINLOCK(order_lock);
static unsigned long pinned; /* pages of those in it */
static struct shrinker *shrinker;

void pressure_used(struct pages *pages, u64 more)
{
	if (pages->flags & THOLE_DRIVER_KEEP)
		return;
	spin_lock_bh(&order_lock);
	pinned += more;
	list_move_tail(&pages->order, &order);
	list_move_tail(&pages->own, &pages->holder->order);
	spin_unlock_bh(&order_lock);
}

void pressure_gone(struct pages *pages, u64 pins)
{
	if (pages->flags & THOLE_DRIVER_KEEP)
		return;
	spin_lock_bh(&order_lock);
	pinned -= pins;
	list_del_init(&pages->order);
	list_del_init(&pages->own);
	spin_unlock_bh(&order_lock);
}

/* The first one behind one that stayed in the order, or of all; with a reference. That of the one before is given
 * back. Passes over those alone that are being freed: softirqs wait for the lock. */
static struct pages *pressure_next(struct holder *holder, struct pages *before)
{
	struct list_head *head = holder ? &holder->order : &order, *node = head;
	struct pages *pages, *found = NULL;

	spin_lock_bh(&order_lock);
	if (before && !list_empty(&before->order))
		node = holder ? &before->own : &before->order;
	for (node = node->next; !found && node != head; node = node->next) {
		pages = holder ? list_entry(node, struct pages, own) : list_entry(node, struct pages, order);
		if (kref_get_unless_zero(&pages->references))
			found = pages;
	}
	spin_unlock_bh(&order_lock);
	if (before)
		pages_put(before);
	return found;
}

u64 pressure_relieve(struct holder *holder, u64 wanted)
{
	struct pages *pages = NULL;
	u64 freed = 0;

	while (freed < wanted && (pages = pressure_next(holder, pages))) {
		u64 yielded = pages_yield(pages);
		struct thole_driver_shared *shared = pages->holder->shared;
		u64 *counter = holder ? &shared->yielded : &shared->reclaimed;

		spin_lock_bh(&pages->holder->lock);
		*counter += yielded;
		spin_unlock_bh(&pages->holder->lock);
		freed += yielded;
	}
	if (pages)
		pages_put(pages);
	return freed;
}

static unsigned long pressure_count(struct shrinker *this, struct shrink_control *control)
{
	unsigned long count = READ_ONCE(pinned);

	return count ? count : SHRINK_EMPTY;
}

static unsigned long pressure_scan(struct shrinker *this, struct shrink_control *control)
{
	u64 freed = pressure_relieve(NULL, control->nr_to_scan);

	return freed ? freed : SHRINK_STOP;
}

int pressure_start(void)
{
	shrinker = compat_shrinker(pressure_count, pressure_scan);
	return shrinker ? 0 : -ENOMEM;
}

void pressure_stop(void)
{
	compat_shrinker_free(shrinker);
}
