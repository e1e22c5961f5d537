// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/slab.h>

struct mover_window {
	u64 name, offset, length;
	struct pages *pages;
};

enum {
	SERVE_TURNS = 64,              /* of a worker, before those of others that wait for one */
	SERVE_PAUSE_NS = 50000,        /* for room in the socket's buffer; */
	SERVE_PAUSE_MAX_NS = 100000000 /* twice as long each time, while there is none */
};

/* ---- Windows --------------------------------------------------------------------------------- */

/* Its place is made first, which may sleep: a worker, which has the lock alone, may end others meanwhile. */
static int mover_serve_enter(struct mover *mover, struct mover_connection *connection, struct mover_window *window)
{
	int status = READ_ONCE(mover->windows) < THOLE_DRIVER_WINDOWS ? 0 : -ENOSPC;

	if (!status && xa_load(&connection->windows, window->name))
		status = -EEXIST;
	if (!status)
		status = xa_reserve_bh(&connection->windows, window->name, GFP_KERNEL_ACCOUNT);
	if (status)
		return status;
	mover_lock(mover);
	xa_store(&connection->windows, window->name, window, GFP_ATOMIC);
	WRITE_ONCE(mover->windows, mover->windows + 1);
	mover_unlock(mover);
	return 0;
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
	mover->pause_ns = 0;
	mover_serve_next(connection, status || answer->done == answer->length);
	return 0;
}

/* It cannot be pinned, so nobody can read it here: the program may still. By its name there may be another one by now,
 * which stays, unless it needs the same. Under the lock. */
static void mover_serve_lose(struct mover *mover, const struct serve_want *want, int status)
{
	struct thole_driver_lost lost = {.status = status, .connection = want->connection};
	struct mover_connection *connection = mover_find(mover, want->connection);
	struct mover_window *window = connection ? xa_load(&connection->windows, want->window) : NULL;

	if (!window || window->pages != want->pages || window->offset + window->length < want->bytes)
		return;
	mover_serve_leave(connection, window);
	events_tell(&mover->holder->events, THOLE_DRIVER_EVENT_LOST, want->window, &lost, sizeof(lost));
}

/* Its pages are not to be had now: another connection has its turn. Under the lock. */
static void mover_serve_pass_over(struct mover *mover, u32 id)
{
	struct mover_connection *connection = mover_find(mover, id);

	if (connection && connection->waiting)
		mover_serve_next(connection, false);
}

/* Pin what is wanted, or let the window go. Returns 0, or PAGES_LATER. */
static int mover_serve_pin(struct mover *mover, const struct serve_want *want)
{
	int status = pages_pin(want->pages, want->bytes, want->soon);

	if (status) {
		mover_lock(mover);
		if (status == PAGES_LATER)
			mover_serve_pass_over(mover, want->connection);
		else
			mover_serve_lose(mover, want, status);
		mover_unlock(mover);
	}
	pages_put(want->pages);
	return status == PAGES_LATER ? status : 0;
}

/* Whether it is our turn: packets of a peer leave in their order where one sends them. A worker that waits for what its
 * turns need gives way: what has come since may be there. */
static bool mover_serve_claim(struct mover *mover)
{
	bool claimed;

	mover_lock(mover);
	claimed = !list_empty(&mover->serving) && (!mover->busy || turn_take(&mover->turn));
	mover->busy |= claimed;
	mover_unlock(mover);
	return claimed;
}

/* The claim ends, under the lock: whoever adds something later, claims anew, and did not wait for room. */
static void mover_serve_rest(struct mover *mover)
{
	mover->busy = false;
	mover->pause_ns = 0;
}

/* The claim ends with -ENOENT. */
static int mover_serve_turn(struct mover *mover, struct serve_want *want)
{
	int status;

	mover_lock(mover);
	status = mover_serve_packet(mover, want);
	if (status == -ENOENT)
		mover_serve_rest(mover);
	mover_unlock(mover);
	return status;
}

enum hrtimer_restart mover_serve_resume(struct hrtimer *timer)
{
	turn_queue(&container_of(timer, struct mover, pause)->turn);
	return HRTIMER_NORESTART;
}

/* Without a worker: they are all users', and packets may not leave for hours. */
static void mover_serve_pause(struct mover *mover)
{
	mover->pause_ns = clamp_t(u32, 2 * mover->pause_ns, SERVE_PAUSE_NS, SERVE_PAUSE_MAX_NS);
	hrtimer_start(&mover->pause, ns_to_ktime(mover->pause_ns), HRTIMER_MODE_REL_SOFT);
}

/* A worker goes on, if anything waits still; later, if there was no room (-ENOBUFS), or no memory was to be had. Said
 * under the lock: once all connections have ended, which may be amid this, nobody queues it any more. */
static void mover_serve_pass(struct mover *mover, int status)
{
	mover_lock(mover);
	if (list_empty(&mover->serving))
		mover_serve_rest(mover);
	else if (status == -ENOBUFS)
		mover_serve_pause(mover);
	else if (status == PAGES_LATER)
		turn_wait(&mover->turn);
	else
		turn_queue(&mover->turn);
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
		mover_serve_pass(mover, status);
}

/* Those whose pages are not to be had are passed over, until that is so of one for the second time. */
void mover_serve_work(struct work_struct *work)
{
	struct mover *mover = container_of(work, struct mover, turn.work);
	u32 i, passed = 0; /* the first connection that was passed over since a packet was made; 0: none */
	struct serve_want want;
	int status = 0;

	for (i = 0; !status && i < SERVE_TURNS; i++) {
		status = mover_serve_turn(mover, &want);
		if (!status)
			passed = 0;
		if (status == -EAGAIN)
			status = mover_serve_pin(mover, &want);
		if (status == PAGES_LATER && passed != want.connection) {
			passed = passed ? passed : want.connection;
			status = 0;
		}
		cond_resched();
	}
	if (status != -ENOENT)
		mover_serve_pass(mover, !status && passed ? PAGES_LATER : status);
}
