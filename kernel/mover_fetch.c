// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <linux/udp.h>

/* Over: not in its connection any more, and in mover.over until its end was told. */
struct mover_fetch {
	struct kref references; /* of its connection or mover.over, and of its turn */
	struct block_fetch wanted;
	struct mover_connection *connection; /* NULL: over */
	struct mover *mover;
	struct pages *pages;
	u64 window, transfer;
	u64 offset, region_offset;
	struct turn turn;      /* pins */
	struct list_head node; /* mover.over */
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
	if (turn_end(&fetch->turn))
		mover_fetch_put(fetch); /* not the last one */
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
	struct mover_fetch *fetch = container_of(work, struct mover_fetch, turn.work);
	u64 end = fetch->region_offset + fetch->wanted.length;
	int status = pages_pin(fetch->pages, end, end);
	bool waits = false;

	mover_lock(fetch->mover);
	if (status == PAGES_LATER)
		waits = turn_wait(&fetch->turn);
	else if (status && fetch->connection)
		mover_fetch_over(fetch, status);
	else if (fetch->connection)
		block_welcome(&fetch->wanted, ktime_get_ns());
	mover_unlock(fetch->mover);
	if (!waits)
		mover_fetch_put(fetch);
}

static void mover_fetch_pin(struct mover_fetch *fetch)
{
	if (work_pending(&fetch->turn.work))
		return;
	kref_get(&fetch->references);
	if (!turn_queue(&fetch->turn))
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
				.total = fetch->offset + wanted->length,
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
	const struct block_rules rules = block_rules(mover->kind->codec);

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

/* A packet, and the fetch that a run of its frames is for. */
struct arrival {
	struct mover *mover;
	struct mover_reader reader; /* at the last frame that was looked at */
	struct mover_fetch *fetch;  /* or NULL; mostly the next one's, too */
	u32 index;                  /* of its connection */
	u64 now_ns;
	bool others; /* there are frames that are not for us */
};

/* Payloads of frames of a run go where they belong, one behind the other. */
static bool arrival_copy(struct arrival *arrival, u32 first, u32 end, u64 offset, u64 length)
{
	const struct pages *pages = arrival->fetch->pages;
	struct mover_run *run = &arrival->mover->run;
	struct region_piece piece = {0};
	struct page *page = NULL;
	u32 i, left, some;

	for (i = first; i < end; i++) {
		if (!mover_read_over(&run->places[i], run->head))
			return false;
		for (left = run->length[i]; left; left -= some) {
			if (!piece.length)
				page = pages_at(pages, offset, length, &piece);
			some = min(left, piece.length);
			if (!mover_read_page(&run->places[i], page, piece.within, some))
				return false;
			piece.within += some;
			piece.length -= some;
			offset += some;
			length -= some;
		}
	}
	return true;
}

/* The same, if there is memory for all of them; else for the first alone: pins come from the front. *end_p and
 * *length_p become what that was. */
static bool arrival_land(struct arrival *arrival, u32 first, u32 *end_p, u64 *length_p)
{
	const struct mover_run *run = &arrival->mover->run;
	struct mover_fetch *fetch = arrival->fetch;
	u64 offset = fetch->region_offset + run->offset[first];
	bool landed;

	read_lock(&fetch->pages->lock); /* softirqs are off */
	landed = pages_ready(fetch->pages, offset, *length_p);
	if (!landed && *end_p > first + 1) {
		*end_p = first + 1;
		*length_p = run->length[first];
		landed = pages_ready(fetch->pages, offset, *length_p);
	}
	if (landed) {
		landed = arrival_copy(arrival, first, *end_p, offset, *length_p);
		pages_write(fetch->pages);
	}
	read_unlock(&fetch->pages->lock);
	return landed;
}

/* Where the frames of a run end that are missing frames of one block, one behind the other, from this one on, and how
 * many bytes they have. */
static u32 run_together(const struct mover_run *run, const struct block *block, u32 index, u32 first, u32 end,
			u64 *length_p)
{
	u32 i, length;
	u64 sum = run->length[first];

	for (i = first + 1; i < end && block->missing >> ++index & 1; i++) {
		if (run->offset[i] != block_frame(block, index, &length) || run->length[i] != length)
			break;
		sum += length;
	}
	*length_p = sum;
	return i;
}

/* Frames of a run from this one on, which are right: at least one. Returns the first that was not looked at. */
static u32 arrival_take_some(struct arrival *arrival, u32 first, u32 end)
{
	struct thole_driver_shared *shared = arrival->mover->holder->shared;
	const struct mover_run *run = &arrival->mover->run;
	struct mover_fetch *fetch = arrival->fetch;
	enum block_verdict verdict;
	struct block *block;
	u32 index;
	u64 length;

	block = block_find(&fetch->wanted, run->offset[first], run->length[first], &index, &verdict);
	if (!block) {
		mover_count(arrival->mover, verdict == BLOCK_DUPLICATE ? &shared->duplicate : &shared->malformed, 1);
		return first + 1;
	}
	end = run_together(run, block, index, first, end, &length);
	if (!arrival_land(arrival, first, &end, &length)) {
		mover_count(arrival->mover, &shared->overlap_miss, 1);
		block->refused = true;
		mover_fetch_pin(fetch);
		return end;
	}
	mover_count(arrival->mover, &shared->received, end - first);
	mover_count(arrival->mover, &shared->received_bytes, length);
	if (block_received(block, index, end - first, NULL, arrival->now_ns))
		mover_fetch_over(fetch, 0);
	return end;
}

/* Frames of a run whose tags are right. Those behind the end of the fetch are nobody's here. */
static void arrival_take(struct arrival *arrival, u32 first, u32 end)
{
	struct mover_fetch *fetch = arrival->fetch;

	if (fetch->connection)
		fetch->connection->way->heard += end - first;
	while (first < end && fetch->connection)
		first = arrival_take_some(arrival, first, end);
	arrival->others |= first < end;
}

/* Whether frames of a run have right tags: those whose counters follow each other are as one, where they are as long,
 * but for the last of them. */
static bool arrival_admit(struct mover_connection *connection, struct mover_run *run, u32 first, u32 end)
{
	u32 i, count = 0;

	if (!connection->tagged)
		return true;
	for (; first < end; first = i, count++) {
		for (i = first + 1; i < end && run->counter[i] == run->counter[i - 1] + 1; i++)
			if (run->length[i - 1] != run->length[first])
				break;
		run->parts[count][0] = (struct iovec){run->heads[first], run->head};
		run->parts[count][1] = (struct iovec){NULL, run->length[first]};
		run->judged[count] = (struct guard_frame){
			.counter = run->counter[first],
			.parts = run->parts[count],
			.count = 2,
			.type = PACKET_DATA,
			.flags = run->flags,
			.behind = i - 1 - first,
			.last = run->head + run->length[i - 1],
			.stride = MOVER_HEAD,
		};
	}
	return mover_admit(connection, run->judged, count);
}

/* A run. What is not right in it is looked for frame by frame, and dropped. */
static void arrival_judge(struct arrival *arrival)
{
	struct mover_connection *connection = arrival->fetch->connection;
	struct mover_run *run = &arrival->mover->run;
	u32 i;

	if (arrival_admit(connection, run, 0, run->count)) {
		arrival_take(arrival, 0, run->count);
		return;
	}
	for (i = 0; i < run->count; i++) {
		if (run->count > 1 && arrival_admit(connection, run, i, i + 1))
			arrival_take(arrival, i, i + 1);
		else
			mover_count(arrival->mover, &arrival->mover->holder->shared->forged, 1);
	}
}

/* The fetch that a frame of DATA is for, if it is one of ours; under the lock, which is held for the whole packet. */
static struct mover_fetch *arrival_find(struct arrival *arrival, const struct packet *packet)
{
	struct mover_fetch *fetch = arrival->fetch;
	struct mover_connection *connection;

	if (!fetch || !fetch->connection || arrival->index != packet->to ||
	    fetch->transfer != packet->data.transfer) {
		connection = mover_find_peer(arrival->mover, &mover_native, packet->to, packet->session);
		fetch = connection ? xa_load(&connection->fetches, packet->data.transfer) : NULL;
		arrival->index = packet->to;
		arrival->fetch = fetch;
	}
	return fetch && fetch->connection->session == packet->session ? fetch : NULL;
}

/* A frame joins the run. */
static void arrival_add(struct arrival *arrival, const struct packet *packet)
{
	struct mover_run *run = &arrival->mover->run;
	u32 i = run->count++;

	run->places[i] = arrival->reader;
	run->counter[i] = packet->counter;
	run->offset[i] = packet->data.offset - arrival->fetch->offset;
	run->length[i] = packet->length;
}

/* The first frame of a run; false: it is not for a fetch here. */
static bool arrival_first(struct arrival *arrival, struct packet *packet, u32 length)
{
	struct mover_run *run = &arrival->mover->run;
	const u8 *head = run->heads[0];

	if (length < PACKET_FRONT || codec_native.type(head) != PACKET_DATA ||
	    codec_native.decode(packet, head, length) || packet->flags & (PACKET_SEALED | PACKET_CHECKSUM) ||
	    !arrival_find(arrival, packet))
		return false;
	run->head = PACKET_FRONT + packet_guard_bytes(packet->flags);
	run->flags = packet->flags;
	arrival_add(arrival, packet);
	return true;
}

/* Look at the next frame's front, of so many bytes. Returns its length; 0: there is none. */
static u32 arrival_next(struct arrival *arrival, u32 front)
{
	struct mover_run *run = &arrival->mover->run;
	u32 length = mover_read_next(&arrival->reader);

	return length && mover_read_front(&arrival->reader, run->heads[run->count], front) ? length : 0;
}

/* The next run of a packet, or a frame that is not ours. False: there is none. */
static bool arrival_gather(struct arrival *arrival)
{
	struct mover_run *run = &arrival->mover->run;
	struct packet packet;
	u64 counter;
	u32 length;

	run->count = 0;
	length = arrival_next(arrival, MOVER_HEAD);
	if (!length)
		return false;
	if (!arrival_first(arrival, &packet, length))
		return true;
	while (run->count < MOVER_RUN) {
		counter = packet.counter;
		length = arrival_next(arrival, run->head);
		if (!length)
			break;
		if (!codec_native.decode_next(&packet, run->heads[run->count - 1], run->heads[run->count], length) ||
		    (packet.flags & PACKET_TAGGED && packet.counter <= counter)) {
			arrival->reader = run->places[run->count - 1];
			break;
		}
		arrival_add(arrival, &packet);
	}
	return true;
}

bool mover_fetch_arrived(struct mover *mover, struct sk_buff *skb)
{
	struct arrival arrival = {.mover = mover};

	mover_read_begin(&arrival.reader, skb, sizeof(struct udphdr));
	mover_lock(mover);
	arrival.now_ns = ktime_get_ns();
	while (arrival_gather(&arrival)) {
		if (mover->run.count)
			arrival_judge(&arrival);
		else
			arrival.others = true;
	}
	mover_count(mover, &mover->holder->shared->packets, 1);
	block_ask(&mover->blocks, arrival.now_ns);
	mover_unlock(mover);
	return arrival.others;
}

/* The fetch that a pull of a host's is for. Few are fetched from at a time. */
static struct mover_fetch *frame_find(struct mover *mover, const u8 *from, u64 transfer)
{
	struct mover_connection *connection;
	struct mover_fetch *fetch;

	list_for_each_entry(connection, &mover->expecting, expecting) {
		if (!ether_addr_equal(connection->mac, from))
			continue;
		fetch = xa_load(&connection->fetches, transfer);
		if (fetch)
			return fetch;
	}
	return NULL;
}

bool mover_fetch_frame(struct mover *mover, struct sk_buff *skb, const u8 *from)
{
	struct arrival arrival = {.mover = mover};
	struct mover_run *run = &mover->run;
	struct packet packet;
	u32 length;

	mover_read_begin(&arrival.reader, skb, 0);
	mover_lock(mover);
	arrival.now_ns = ktime_get_ns();
	run->count = 0;
	length = arrival_next(&arrival, MOVER_HEAD);
	if (length && mover_mxoe_is_data(mover, run->heads[0], length) &&
	    mover->kind->codec->decode(&packet, run->heads[0], length) == 0)
		arrival.fetch = frame_find(mover, from, packet.data.transfer);
	if (arrival.fetch) {
		run->head = arrival.fetch->connection->head;
		arrival_add(&arrival, &packet);
		mover_count(mover, &mover->holder->shared->packets, 1);
		arrival_take(&arrival, 0, run->count);
		block_ask(&mover->blocks, arrival.now_ns);
	}
	mover_unlock(mover);
	return arrival.fetch;
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
	fetch->wanted.head = connection->head;
	fetch->wanted.place = (fetch->window >> 16) + fetch->offset; /* of MXoE's windows */
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
	if (!wanted->length || wanted->reserved || wanted->length > THOLE_LENGTH_MAX ||
	    wanted->offset > THOLE_LENGTH_MAX - wanted->length ||
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
	mover_turn_init(mover, &fetch->turn, mover_fetch_work);
	event_init(&fetch->event, THOLE_DRIVER_EVENT_FETCHED, wanted->cookie);
	mover_fetch_reap(mover, false);
	mutex_lock(&mover->calls);
	connection = mover_find(mover, wanted->connection);
	if (!connection)
		status = -ENOENT;
	else if (!mover->kind->fits(connection, wanted))
		status = -EINVAL;
	else
		status = mover_fetch_enter(mover, connection, fetch);
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
