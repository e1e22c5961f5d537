// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/delay.h>
#include <linux/slab.h>

struct mover_window {
	u64 name, offset, length;
	struct pages *pages;
};

enum {
	SERVE_WAIT_US = 50 /* for room in the socket's buffer */
};

/* ---- Windows --------------------------------------------------------------------------------- */

static int mover_serve_enter(struct mover *mover, struct mover_connection *connection, struct mover_window *window)
{
	int status = mover->windows < THOLE_DRIVER_WINDOWS ? 0 : -ENOSPC;

	if (!status)
		status = xa_insert_bh(&connection->windows, window->name, window, GFP_KERNEL_ACCOUNT);
	if (!status)
		WRITE_ONCE(mover->windows, mover->windows + 1);
	return status == -EBUSY ? -EEXIST : status;
}

int mover_serve_window(struct mover *mover, const struct thole_driver_window *wanted, struct pages *pages)
{
	struct mover_connection *connection;
	struct mover_window *window;
	int status = -ENOENT;

	if (!region_holds(&pages->region, wanted->offset, wanted->length))
		return -EINVAL;
	window = kmalloc(sizeof(*window), GFP_KERNEL_ACCOUNT);
	if (!window)
		return -ENOMEM;
	*window = (struct mover_window){wanted->window, wanted->offset, wanted->length, pages};
	kref_get(&pages->references); /* once it is found, it may be ended, and the region forgotten */
	mutex_lock(&mover->calls);
	connection = mover_find(mover, wanted->connection);
	if (connection)
		status = mover_serve_enter(mover, connection, window);
	mutex_unlock(&mover->calls);
	if (status) {
		pages_put(pages);
		kfree(window);
	}
	return status;
}

/* PULLs that wait for a window end with it: by its name another one, of other bytes, may follow. */
static void mover_serve_drop(struct mover_connection *connection, u64 name)
{
	struct answer *answers = connection->answers;
	u32 i, kept = 0, first = connection->first;

	for (i = 0; i < connection->waiting; i++)
		if (answers[(first + i) % MOVER_ANSWERS].window != name)
			answers[(first + kept++) % MOVER_ANSWERS] = answers[(first + i) % MOVER_ANSWERS];
	connection->waiting = kept;
	if (!kept)
		list_del_init(&connection->serving);
}

/* Under the lock. */
static void mover_serve_leave(struct mover_connection *connection, struct mover_window *window)
{
	mover_serve_drop(connection, window->name);
	xa_erase(&connection->windows, window->name);
	WRITE_ONCE(connection->mover->windows, connection->mover->windows - 1);
	pages_put(window->pages);
	kfree(window);
}

int mover_serve_end(struct mover *mover, const struct thole_driver_name *name)
{
	struct mover_connection *connection;
	struct mover_window *window = NULL;

	mutex_lock(&mover->calls);
	mover_lock(mover);
	connection = mover_find(mover, name->connection);
	if (connection)
		window = xa_load(&connection->windows, name->name);
	if (window)
		mover_serve_leave(connection, window);
	mover_unlock(mover);
	mutex_unlock(&mover->calls);
	return window ? 0 : -ENOENT;
}

void mover_serve_forget(struct mover_connection *connection)
{
	struct mover_window *window;
	unsigned long name;

	xa_for_each(&connection->windows, name, window)
		mover_serve_leave(connection, window);
}

/* It cannot be pinned, so nobody can read it here: the program may still. */
static void mover_serve_lose(struct mover_connection *connection, u64 name, int status)
{
	struct thole_driver_lost lost = {.status = status, .connection = connection->id};
	struct mover_window *window = xa_load(&connection->windows, name);

	if (!window)
		return;
	mover_serve_leave(connection, window);
	events_tell(&connection->mover->holder->events, THOLE_DRIVER_EVENT_LOST, name, &lost, sizeof(lost));
}

/* ---- PULLs ----------------------------------------------------------------------------------- */

static bool mover_serve_is_known(const struct mover_connection *connection, const struct packet_pull *pull)
{
	u32 i;

	for (i = 0; i < connection->waiting; i++)
		if (answer_covers(&connection->answers[(connection->first + i) % MOVER_ANSWERS], pull))
			return true;
	return false;
}

int mover_serve_pull(struct mover_connection *connection, const struct packet *packet)
{
	struct mover *mover = connection->mover;
	struct thole_driver_shared *shared = mover->holder->shared;
	const struct packet_pull *pull = &packet->pull;
	struct mover_window *window = xa_load(&connection->windows, pull->window);
	u32 head = connection->head;
	int status = 0;

	if (!window)
		return -ENOENT;
	if (!answer_is_right(pull, window->length, (MOVER_FRAME_LEAST - head) & ~7u, connection->frame_max - head))
		mover_count(mover, &shared->malformed, 1);
	else if (mover_serve_is_known(connection, pull))
		mover_count(mover, &shared->duplicate, 1);
	else if (connection->waiting == MOVER_ANSWERS)
		status = -ENOBUFS;
	else
		answer_begin(&connection->answers[(connection->first + connection->waiting++) % MOVER_ANSWERS], pull);
	if (connection->waiting && list_empty(&connection->serving))
		list_add_tail(&connection->serving, &mover->serving);
	if (status)
		mover_count(mover, &shared->full, 1);
	return status;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* What has to be pinned for the next one. */
struct serve_want {
	struct pages *pages; /* with a reference */
	u64 bytes, soon;     /* from its front; soon: all of the window */
	u64 window;
	u32 connection;
};

/* The oldest of a connection's is over; another connection has its turn. */
static void mover_serve_next(struct mover_connection *connection, bool over)
{
	if (over) {
		connection->first = (connection->first + 1) % MOVER_ANSWERS;
		connection->waiting--;
	}
	if (connection->waiting)
		list_move_tail(&connection->serving, &connection->mover->serving);
	else
		list_del_init(&connection->serving);
}

/* Make one packet. Returns 0, or why there is none: -ENOENT, nothing waits; -EAGAIN, it has to be pinned; -ENOBUFS.
 * Under the lock. */
static int mover_serve_packet(struct mover *mover, struct serve_want *want)
{
	struct mover_connection *connection =
		list_first_entry_or_null(&mover->serving, struct mover_connection, serving);
	struct mover_window *window;
	struct answer *answer;
	u64 start, bytes;
	int status = 0;
	bool ready;

	if (!connection)
		return -ENOENT;
	if (!mover_send_room(mover, CHANNEL_BULK))
		return -ENOBUFS;
	answer = &connection->answers[connection->first];
	window = xa_load(&connection->windows, answer->window); /* it is there (mover_serve_drop) */
	start = window->offset + answer->offset + answer->done;
	bytes = min_t(u64, answer->length - answer->done, BATCH_MAX);
	read_lock_bh(&window->pages->lock);
	ready = pages_ready(window->pages, start, bytes);
	if (ready)
		status = mover->kind->data(connection, answer, window->pages, window->offset);
	read_unlock_bh(&window->pages->lock);
	if (!ready) {
		kref_get(&window->pages->references);
		*want = (struct serve_want){window->pages, start + bytes, window->offset + window->length, window->name,
					    connection->id};
		return -EAGAIN;
	}
	if (status)
		mover_count(mover, &mover->holder->shared->full, 1);
	mover_serve_next(connection, status || answer->done == answer->length);
	return 0;
}

/* Pin what is wanted, or let the window go. */
static void mover_serve_pin(struct mover *mover, const struct serve_want *want)
{
	int status = pages_pin(want->pages, want->bytes, want->soon);
	struct mover_connection *connection;

	pages_put(want->pages);
	if (!status)
		return;
	mutex_lock(&mover->calls);
	mover_lock(mover);
	connection = mover_find(mover, want->connection);
	if (connection)
		mover_serve_lose(connection, want->window, status);
	mover_unlock(mover);
	mutex_unlock(&mover->calls);
}

/* Whether it is our turn: packets of a peer leave in their order where one sends them. */
static bool mover_serve_claim(struct mover *mover)
{
	bool claimed;

	mover_lock(mover);
	claimed = !mover->busy && !list_empty(&mover->serving);
	mover->busy |= claimed;
	mover_unlock(mover);
	return claimed;
}

/* The claim ends with -ENOENT, under the lock: whoever adds something later, claims anew. */
static int mover_serve_turn(struct mover *mover, struct serve_want *want)
{
	int status;

	mover_lock(mover);
	status = mover_serve_packet(mover, want);
	if (status == -ENOENT)
		mover->busy = false;
	mover_unlock(mover);
	return status;
}

/* A worker goes on, if anything waits still. Said under the lock: once all connections have ended, which may be amid
 * this, nobody queues it any more. */
static void mover_serve_pass(struct mover *mover)
{
	mover_lock(mover);
	if (list_empty(&mover->serving))
		mover->busy = false;
	else
		mover_queue(&mover->work);
	mover_unlock(mover);
}

void mover_serve_some(struct mover *mover)
{
	struct serve_want want;
	int status = 0;
	u32 i;

	if (!mover_serve_claim(mover))
		return;
	for (i = 0; !status && i < MOVER_SOFTIRQ; i++)
		status = mover_serve_turn(mover, &want);
	if (status == -EAGAIN)
		pages_put(want.pages);
	if (status != -ENOENT)
		mover_serve_pass(mover);
}

void mover_serve_work(struct work_struct *work)
{
	struct mover *mover = container_of(work, struct mover, work);
	struct serve_want want;
	int status = 0;

	while (status != -ENOENT) {
		status = mover_serve_turn(mover, &want);
		if (status == -EAGAIN)
			mover_serve_pin(mover, &want);
		else if (status == -ENOBUFS)
			usleep_range(SERVE_WAIT_US, 2 * SERVE_WAIT_US);
		cond_resched();
	}
}
