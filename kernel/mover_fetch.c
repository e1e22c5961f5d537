// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/slab.h>

#include "mover_read.h"

/* Over: not in its connection any more, and in mover.over until its end was told. */
struct mover_fetch {
	struct kref references; /* of its connection or mover.over, and of its work */
	struct block_fetch wanted;
	struct mover_connection *connection; /* NULL: over */
	struct mover *mover;
	struct pages *pages;
	u64 window, transfer;
	u64 offset, region_offset;
	struct work_struct work; /* pins */
	struct list_head node;   /* mover.over */
	struct event event;
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static void mover_fetch_free(struct kref *references)
{
	struct mover_fetch *fetch = container_of(references, struct mover_fetch, references);

	atomic_dec(&fetch->mover->fetches);
	pages_put(fetch->pages);
	mover_put(fetch->mover);
	kfree(fetch);
}

static void mover_fetch_put(struct mover_fetch *fetch)
{
	kref_put(&fetch->references, mover_fetch_free);
}

/* Take it out of its connection, which had a reference: now it is the caller's. Under the lock. */
static void mover_fetch_leave(struct mover_fetch *fetch)
{
	struct mover_connection *connection = fetch->connection;

	xa_erase(&connection->fetches, fetch->transfer);
	block_fetch_end(&fetch->wanted);
	fetch->connection = NULL;
}

/* It is over, and the program is told. */
static void mover_fetch_over(struct mover_fetch *fetch, int status)
{
	struct thole_driver_fetched fetched = {
		.status = status, .connection = fetch->connection->id, .transfer = fetch->transfer};
	struct mover *mover = fetch->mover;

	mover_fetch_leave(fetch);
	list_add_tail(&fetch->node, &mover->over);
	events_post(&mover->holder->events, &fetch->event, &fetched, sizeof(fetched));
}

void mover_fetch_reap(struct mover *mover, bool all)
{
	struct mover_fetch *fetch, *next;
	LIST_HEAD(told);

	mover_lock(mover);
	list_for_each_entry_safe(fetch, next, &mover->over, node) {
		if (all || list_empty_careful(&fetch->event.waiting))
			list_move_tail(&fetch->node, &told);
	}
	mover_unlock(mover);
	list_for_each_entry_safe(fetch, next, &told, node) {
		events_withdraw(&mover->holder->events, &fetch->event);
		mover_fetch_put(fetch);
	}
}

/* ---- Pins ------------------------------------------------------------------------------------ */

/* Pin all of it, so far as it is not. */
static void mover_fetch_work(struct work_struct *work)
{
	struct mover_fetch *fetch = container_of(work, struct mover_fetch, work);
	int status = pages_pin(fetch->pages, fetch->region_offset + fetch->wanted.length);

	mover_lock(fetch->mover);
	if (status && fetch->connection)
		mover_fetch_over(fetch, status);
	mover_unlock(fetch->mover);
	mover_fetch_put(fetch);
}

static void mover_fetch_pin(struct mover_fetch *fetch)
{
	if (work_pending(&fetch->work))
		return;
	kref_get(&fetch->references);
	if (!mover_queue(&fetch->work))
		kref_put(&fetch->references, mover_fetch_free);
}

/* ---- What is asked for: for block.c, under the lock ------------------------------------------------ */

static struct block *mover_fetch_block_get(struct block_peer *peer)
{
	struct mover_connection *connection = container_of(peer, struct mover_connection, peer);
	u32 i;

	if (!connection->free)
		return NULL;
	i = __ffs64(connection->free);
	connection->free &= ~BIT_ULL(i);
	return &connection->blocks[i];
}

static void mover_fetch_block_put(struct block_peer *peer, struct block *block)
{
	struct mover_connection *connection = container_of(peer, struct mover_connection, peer);

	connection->free |= BIT_ULL(block - connection->blocks);
}

static void mover_fetch_pull(struct block_fetch *wanted, const struct block_pull *pull)
{
	struct mover_fetch *fetch = container_of(wanted, struct mover_fetch, wanted);
	struct mover_connection *connection = fetch->connection;
	struct thole_driver_shared *shared = fetch->mover->holder->shared;
	struct packet packet = {
		.type = PACKET_PULL,
		.ack = READ_ONCE(connection->way->ack),
		.credit = READ_ONCE(connection->way->credit),
		.pull =
			{
				.window = fetch->window,
				.transfer = fetch->transfer,
				.offset = fetch->offset + pull->offset,
				.wanted = pull->wanted,
				.length = pull->length,
				.frame = wanted->frame,
				.total = wanted->length,
			},
	};

	mover_send_packet(connection, &packet, CHANNEL_RECORDS);
	mover_count(fetch->mover, pull->tries ? &shared->asked_again : &shared->asked, 1);
}

static const struct block_calls fetch_calls = {
	.get = mover_fetch_block_get,
	.put = mover_fetch_block_put,
	.pull = mover_fetch_pull,
};

void mover_fetch_init(struct mover *mover)
{
	const struct block_rules rules = {
		.frames_max = codec_native.block_frames,
		.blocks_max = codec_native.blocks_max,
		.pull_blocks = codec_native.pull_blocks,
		.selective = true,
	};

	block_init(&mover->blocks, &rules, &fetch_calls);
	mover->blocks.outstanding_max = WINDOW_AUTO;
}

void mover_fetch_ask(struct mover *mover)
{
	block_ask(&mover->blocks, ktime_get_ns());
}

void mover_fetch_late(struct mover *mover)
{
	struct mover_connection *connection, *next;
	u64 now_ns = ktime_get_ns();

	list_for_each_entry_safe(connection, next, &mover->expecting, expecting) {
		if (xa_empty(&connection->fetches))
			list_del_init(&connection->expecting);
		else if (connection->peer.timeout_ns && connection->peer.timeout_ns <= now_ns)
			block_expire(&connection->peer, now_ns);
	}
	block_ask(&mover->blocks, now_ns);
}

/* ---- What comes: under the lock -------------------------------------------------------------------- */

/* The rest of a frame goes where it belongs. */
static bool mover_fetch_land(struct mover_fetch *fetch, struct mover_reader *reader, u64 offset, u32 length)
{
	u32 done = 0;
	bool landed;

	read_lock_bh(&fetch->pages->lock);
	landed = pages_ready(fetch->pages, offset, length);
	while (landed && done < length) {
		struct region_piece piece;
		struct page *page = pages_at(fetch->pages, offset + done, length - done, &piece);

		landed = mover_read_page(reader, page, piece.within, piece.length);
		done += piece.length;
	}
	if (landed)
		pages_write(fetch->pages);
	read_unlock_bh(&fetch->pages->lock);
	return landed;
}

static void mover_fetch_take(struct mover_fetch *fetch, const struct packet *packet, struct mover_reader *reader,
			     u64 now_ns)
{
	struct mover *mover = fetch->mover;
	struct thole_driver_shared *shared = mover->holder->shared;
	u64 offset = packet->data.offset - fetch->offset; /* below it: far beyond */
	enum block_verdict verdict;
	struct block *block;
	u32 index;

	block = block_find(&fetch->wanted, offset, packet->length, &index, &verdict);
	if (!block) {
		mover_count(mover, verdict == BLOCK_DUPLICATE ? &shared->duplicate : &shared->malformed, 1);
		return;
	}
	if (!mover_fetch_land(fetch, reader, fetch->region_offset + offset, packet->length)) {
		mover_count(mover, &shared->overlap_miss, 1);
		mover_fetch_pin(fetch);
		return;
	}
	mover_count(mover, &shared->received, 1);
	mover_count(mover, &shared->received_bytes, packet->length);
	if (block_received(block, index, now_ns))
		mover_fetch_over(fetch, 0);
}

/* The frames of a packet, and the fetch that the last of them was for: mostly the next one's, too. */
struct fetch_run {
	struct mover *mover;
	struct mover_reader reader;
	struct mover_fetch *fetch; /* or NULL */
	u32 index;                 /* of its connection */
	u64 now_ns;
};

/* The fetch that a frame is for, if it is one of ours; under the lock, which is held for the whole run. */
static struct mover_fetch *mover_fetch_of(struct fetch_run *run, const struct packet *packet)
{
	struct mover_fetch *fetch = run->fetch;
	struct mover_connection *connection;

	if (fetch && fetch->connection && run->index == packet->to && fetch->transfer == packet->data.transfer)
		return fetch;
	connection = xa_load(&run->mover->indexes, packet->to);
	run->index = packet->to;
	run->fetch = connection ? xa_load(&connection->fetches, packet->data.transfer) : NULL;
	return run->fetch;
}

/* Whether a frame is for a fetch here. One that is, but not as it should be, is dropped. */
static bool mover_fetch_frame(struct fetch_run *run, u8 *head, u32 length)
{
	struct mover_connection *connection;
	struct mover_fetch *fetch;
	struct packet packet;
	u32 guard;

	if (length < PACKET_FRONT || codec_native.type(head) != PACKET_DATA)
		return false;
	guard = packet_guard_bytes(codec_native.flags(head));
	if (guard > MOVER_HEAD - PACKET_FRONT || !mover_read(&run->reader, head + PACKET_FRONT, guard) ||
	    codec_native.decode(&packet, head, length) || packet.flags & (PACKET_SEALED | PACKET_CHECKSUM))
		return false;
	fetch = mover_fetch_of(run, &packet);
	if (!fetch || fetch->connection->session != packet.session)
		return false;
	connection = fetch->connection;
	if (mover_admit(connection, &packet, head, PACKET_FRONT + guard, codec_native.unpadded(head, length))) {
		connection->way->heard++;
		mover_fetch_take(fetch, &packet, &run->reader, run->now_ns);
	}
	return true;
}

bool mover_fetch_arrived(struct mover *mover, struct sk_buff *skb)
{
	struct fetch_run run = {.mover = mover};
	bool others = false;
	u8 head[MOVER_HEAD];
	u32 length;

	mover_read_begin(&run.reader, skb);
	mover_lock(mover);
	run.now_ns = ktime_get_ns();
	while ((length = mover_read_frame(&run.reader, head, PACKET_FRONT)))
		others |= !mover_fetch_frame(&run, head, length);
	mover_read_end(&run.reader);
	mover_count(mover, &mover->holder->shared->packets, 1);
	block_ask(&mover->blocks, run.now_ns);
	mover_unlock(mover);
	return others;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Its place is made first, which may sleep: whoever can find it finds it begun. */
static int mover_fetch_enter(struct mover *mover, struct mover_connection *connection, struct mover_fetch *fetch)
{
	int status = atomic_read(&mover->fetches) <= THOLE_DRIVER_FETCHES ? 0 : -ENOSPC;

	if (!status && xa_load(&connection->fetches, fetch->transfer))
		status = -EEXIST;
	if (!status)
		status = xa_reserve_bh(&connection->fetches, fetch->transfer, GFP_KERNEL_ACCOUNT);
	if (status)
		return status;
	fetch->connection = connection;
	fetch->wanted.head = connection->tagged ? MOVER_HEAD : PACKET_FRONT;
	mover_lock(mover);
	block_fetch_begin(&fetch->wanted, &connection->peer);
	xa_store(&connection->fetches, fetch->transfer, fetch, GFP_ATOMIC); /* its place is there */
	if (list_empty(&connection->expecting))
		list_add_tail(&connection->expecting, &mover->expecting);
	mover_fetch_pin(fetch);
	mover_fetch_ask(mover);
	mover_unlock(mover);
	return 0;
}

static int mover_fetch_check(const struct thole_driver_fetch *wanted, const struct pages *pages)
{
	if (!wanted->length || wanted->reserved || wanted->transfer >> PACKET_TRANSFER_BITS ||
	    wanted->length > THOLE_LENGTH_MAX || wanted->offset > THOLE_LENGTH_MAX - wanted->length ||
	    wanted->frame < MOVER_FRAME_LEAST / 2 || wanted->frame > U16_MAX - MOVER_HEAD ||
	    !region_holds(&pages->region, wanted->region_offset, wanted->length))
		return -EINVAL;
	return pages->flags & THOLE_DRIVER_WRITE ? 0 : -EACCES;
}

int mover_fetch_begin(struct mover *mover, const struct thole_driver_fetch *wanted, struct pages *pages)
{
	struct mover_connection *connection;
	int status = mover_fetch_check(wanted, pages);
	struct mover_fetch *fetch;

	if (status)
		return status;
	fetch = kzalloc(sizeof(*fetch), GFP_KERNEL_ACCOUNT);
	if (!fetch)
		return -ENOMEM;
	kref_init(&fetch->references);
	kref_get(&pages->references);
	mover_get(mover);
	atomic_inc(&mover->fetches);
	fetch->mover = mover;
	fetch->pages = pages;
	fetch->window = wanted->window;
	fetch->transfer = wanted->transfer;
	fetch->offset = wanted->offset;
	fetch->region_offset = wanted->region_offset;
	fetch->wanted.length = wanted->length;
	fetch->wanted.frame = wanted->frame;
	INIT_WORK(&fetch->work, mover_fetch_work);
	event_init(&fetch->event, THOLE_DRIVER_EVENT_FETCHED, wanted->cookie);
	mover_fetch_reap(mover, false);
	mutex_lock(&mover->calls);
	connection = mover_find(mover, wanted->connection);
	status = connection ? mover_fetch_enter(mover, connection, fetch) : -ENOENT;
	mutex_unlock(&mover->calls);
	if (status)
		mover_fetch_put(fetch);
	return status;
}

int mover_fetch_end(struct mover *mover, const struct thole_driver_name *name)
{
	struct mover_connection *connection;
	struct mover_fetch *fetch = NULL;

	mutex_lock(&mover->calls);
	mover_lock(mover);
	connection = mover_find(mover, name->connection);
	if (connection)
		fetch = xa_load(&connection->fetches, name->name);
	if (fetch)
		mover_fetch_leave(fetch);
	mover_fetch_ask(mover);
	mover_unlock(mover);
	mutex_unlock(&mover->calls);
	if (fetch)
		mover_fetch_put(fetch);
	return fetch ? 0 : -ENOENT;
}

void mover_fetch_forget(struct mover_connection *connection)
{
	struct mover_fetch *fetch;
	unsigned long transfer;

	xa_for_each(&connection->fetches, transfer, fetch) {
		mover_fetch_leave(fetch);
		mover_fetch_put(fetch);
	}
}
