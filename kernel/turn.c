// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "turn.h"

#include "compat.h"

enum {
	PAUSE_NS = 50000,        /* the first, and any while something is to be had; */
	PAUSE_MAX_NS = 100000000 /* else twice as long each time, up to this */
};

/* Under the lock, for a line that somebody waits in. */
static void line_pause(struct line *line)
{
	hrtimer_start(&line->pause, ns_to_ktime(line->pause_ns), HRTIMER_MODE_REL_SOFT);
}

/* The first one tries, and after another pause the next. */
static enum hrtimer_restart line_resume(struct hrtimer *timer)
{
	struct line *line = container_of(timer, struct line, pause);
	struct turn *turn;

	spin_lock_bh(&line->lock);
	turn = list_first_entry_or_null(&line->waiting, struct turn, waiting);
	if (turn) {
		list_del_init(&turn->waiting);
		queue_work(turn->workers, &turn->work);
	}
	WRITE_ONCE(line->pause_ns, min_t(u32, 2 * line->pause_ns, PAUSE_MAX_NS));
	if (!list_empty(&line->waiting))
		line_pause(line);
	spin_unlock_bh(&line->lock);
	return HRTIMER_NORESTART;
}

void line_init(struct line *line)
{
	spin_lock_init(&line->lock);
	INIT_LIST_HEAD(&line->waiting);
	line->pause_ns = PAUSE_NS;
	compat_timer(&line->pause, line_resume, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

void line_fini(struct line *line)
{
	WARN_ON(!list_empty(&line->waiting));
	hrtimer_cancel(&line->pause);
}

/* A pause that is short already is not begun anew: it would never be over. */
void line_move(struct line *line)
{
	if (READ_ONCE(line->pause_ns) == PAUSE_NS)
		return;
	spin_lock_bh(&line->lock);
	if (line->pause_ns != PAUSE_NS) {
		WRITE_ONCE(line->pause_ns, PAUSE_NS);
		if (!list_empty(&line->waiting))
			line_pause(line);
	}
	spin_unlock_bh(&line->lock);
}

void turn_init(struct turn *turn, struct line *line, struct workqueue_struct *workers, work_func_t function)
{
	*turn = (struct turn){.workers = workers, .line = line};
	INIT_WORK(&turn->work, function);
	INIT_LIST_HEAD(&turn->waiting);
}

/* All that is queued is so under the lock. */
bool turn_queue(struct turn *turn)
{
	bool queued;

	spin_lock_bh(&turn->line->lock);
	queued = !turn->over && list_empty(&turn->waiting) && queue_work(turn->workers, &turn->work);
	spin_unlock_bh(&turn->line->lock);
	return queued;
}

bool turn_wait(struct turn *turn)
{
	struct line *line = turn->line;
	bool waits;

	spin_lock_bh(&line->lock);
	waits = !turn->over && list_empty(&turn->waiting) && !work_pending(&turn->work);
	if (waits && list_empty(&line->waiting))
		line_pause(line);
	if (waits)
		list_add_tail(&turn->waiting, &line->waiting);
	spin_unlock_bh(&line->lock);
	return waits;
}

static bool turn_leave(struct turn *turn, bool over)
{
	bool waited;

	spin_lock_bh(&turn->line->lock);
	turn->over |= over;
	waited = !list_empty(&turn->waiting);
	list_del_init(&turn->waiting);
	spin_unlock_bh(&turn->line->lock);
	return waited;
}

bool turn_take(struct turn *turn)
{
	return turn_leave(turn, false);
}

bool turn_end(struct turn *turn)
{
	return turn_leave(turn, true);
}

bool turn_end_sync(struct turn *turn)
{
	bool waited = turn_end(turn);

	return cancel_work_sync(&turn->work) || waited;
}
