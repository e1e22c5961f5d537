/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place: payloads that do not fit into their records' slots. One lies in an area of the producer's, or in memory that
 * the consumer lends; when its slot is free again, so is its place. How records go is ring.c's.
 */
#include "base/atomic.h"
#include "base/clock.h"
#include "transport/shm/shm.h"

/* ---- Areas: private to the producer --------------------------------------------------------------- */

/* A place for `bytes` (a multiple of a line), or -1: behind the last one, or at the front, where there is no room
 * behind it or more than `enough` is free. Where nothing is live it is at the front, whose lines are warm; onward: not
 * there either, since the lines that were used last are not the best. Invariant: while anything is live, head != tail.
 */
static int64_t area_take(struct area *area, uint32_t bytes, bool onward, uint64_t enough)
{
	uint32_t at;

	if (area->live == 0) {
		if (!onward || area->size - area->head < bytes)
			area->head = 0;
		area->tail = area->head;
	}
	if (area->live == 0 || area->head > area->tail) {
		if (area->live > 0 && area->tail > enough)
			at = 0;
		else if (area->size - area->head >= bytes)
			at = area->head;
		else if (area->tail > bytes)
			at = 0;
		else
			return -1;
	} else {
		if (area->tail - area->head <= bytes)
			return -1;
		at = area->head;
	}
	area->head = at + bytes;
	area->live++;
	return at;
}

/* A look now and then: if the area has drained, it starts again at its front, which is warm. A stream, whose consumer
 * lags behind, is better off with all of the area. */
static inline bool area_wants_look(const struct area *area, uint32_t bytes)
{
	return area->head % AREA_REUSE < bytes && area->head >= AREA_REUSE;
}

/* The payload of the next record was given a place in an area. */
static inline void ring_put_outside(struct ring_out *ring, uint32_t area)
{
	ring->placed[ring->produced % RING_SLOTS] =
		(struct placement){.area = area + 1, .end = ring->areas[area].head};
	ring->outside++;
}

static void ring_take_back(struct ring_out *ring)
{
	for (; ring->outside > 0 && ring->reclaimed < ring->consumed; ring->reclaimed++) {
		struct placement *placed = &ring->placed[ring->reclaimed % RING_SLOTS];

		if (placed->area > 0) {
			ring->areas[placed->area - 1].tail = placed->end;
			ring->areas[placed->area - 1].live--;
			ring->outside--;
			placed->area = 0;
		}
	}
	ring->reclaimed = ring->consumed;
}

/* Ask how far the consumer is: costs a cache miss where it has moved. */
static void ring_reclaim(struct ring_out *ring)
{
	/* Pairs with the release in ring_publish: what was read from the areas has been read. */
	ring_heard(ring, load_acquire(&ring->segment->consumed));
	ring_take_back(ring);
}

bool ring_make_room(struct ring_out *ring, uint32_t slots)
{
	ring_take_back(ring);
	if (ring->produced - ring->reclaimed + slots > RING_SLOTS)
		ring_reclaim(ring);
	return ring->produced - ring->reclaimed + slots <= RING_SLOTS;
}

bool ring_has_room(struct ring_out *ring, uint32_t reserve)
{
	if (ring->produced - ring->consumed + reserve < RING_SLOTS)
		return true;
	ring_reclaim(ring);
	return ring->produced - ring->consumed + reserve < RING_SLOTS;
}

uint32_t ring_piece_max(struct ring_out *ring)
{
	const struct area *large = &ring->areas[AREA_LARGE];

	return large->size ? large->size / 4 : ring->refused[AREA_LARGE] ? ring->areas[AREA_SMALL].size / 4 : 1u << 16;
}

/* ---- Lending ---------------------------------------------------------------------------------------
 *
 * A payload that was just read is in this core's cache, and its lines are this core's to write, while lines of the
 * own area have to be fetched back from the reader of their last use. So an answer's payload goes where
 * the question's was, in the segment of the other direction, and each line crosses once for two messages.
 *
 * The memory is the consumer's from the time it has handled the question until the producer learns that it has. So
 * only payloads may be borrowed of which the producer was told nothing (`credited`), and while an answer that borrowed
 * is not handled nothing is published (`lent_until`). A credit in a record is applied only after the record is
 * handled, so the answer that borrows last carries it. */

/* A place in the other direction's segment for what begins, or goes on, at offset of a payload of `whole` bytes, if
 * there is one for all of it: if a part of each message borrowed, no area would ever be empty, and start again at its
 * front. */
static bool ring_borrow(struct ring_out *ring, struct ring_in *back, uint64_t offset, uint64_t whole, uint32_t length,
			uint32_t *at_p)
{
	uint32_t bytes = (length + 63) & ~63u;

	if (back->unanswered)
		back->tries = LEND_TRIES;
	back->unanswered = false;
	if (offset == 0)
		back->borrowed = back->run_end - back->run_start >= whole;
	if (!back->borrowed || back->run_end - back->run_start < bytes)
		return false;
	*at_p = back->run_start | (uint32_t)PLACE_LENT;
	back->run_start += bytes;
	ring->lent_until = ring->produced + 1;
	return true;
}

/* ---- Bulk ------------------------------------------------------------------------------------------
 *
 * The same for messages that go through the ring in pieces, which are more than a consumer could hold back: who asks
 * for an answer lends its AREA_BULK for it, where the question's pieces were. So in a dialogue both directions use one
 * area of one segment. The question's sender has it back when it has the last piece. */

bool ring_lend(struct ring_out *ring, uint32_t *place_p, uint32_t *size_p)
{
	const struct area *bulk = &ring->areas[AREA_BULK];

	if (!bulk->size || !ring->bulk_own || ring->bulk_lent)
		return false;
	if (bulk->live > 0)
		ring_reclaim(ring);
	if (bulk->live > 0)
		return false;
	*place_p = (uint32_t)(bulk->base - (char *)ring->segment);
	*size_p = bulk->size;
	ring->bulk_own = false;
	ring->bulk_lent = true;
	return true;
}

bool ring_lease(struct shm_peer *link, uint32_t place, uint32_t size)
{
	struct area *lent = &link->out.areas[AREA_LENT];

	if (lent->live > 0)
		ring_reclaim(&link->out);
	if (lent->live > 0)
		return false;
	*lent = (struct area){.base = (char *)link->in.segment + place, .size = size};
	return true;
}

void ring_bulk(struct transport_peer *peer, bool leased)
{
	struct ring_out *ring = &shm_link(peer)->out;

	if (leased) {
		ring->bulk = AREA_LENT;
		return;
	}
	segment_enlarge(peer->owner, ring, AREA_BULK);
	if (ring->areas[AREA_BULK].size && !ring->bulk_lent) {
		ring->bulk = AREA_BULK;
		ring->bulk_own = true;
		return;
	}
	segment_enlarge(peer->owner, ring, AREA_LARGE);
	ring->bulk = ring->areas[AREA_LARGE].size ? AREA_LARGE : AREA_SMALL;
}

static inline uint32_t ring_at(const struct shm_peer *link, const char *memory, bool lent)
{
	const struct segment *segment = lent ? link->in.segment : link->out.segment;

	return (uint32_t)(memory - (const char *)segment) | (lent ? (uint32_t)PLACE_LENT : 0);
}

static inline char *ring_memory(const struct shm_peer *link, uint32_t place)
{
	struct segment *segment = place & (uint32_t)PLACE_LENT ? link->in.segment : link->out.segment;

	return (char *)segment + place_at(place);
}

/* The areas that a payload may lie in, [*first_p, *last_p]. */
static void ring_areas(const struct ring_out *ring, bool bulk, bool walks, uint32_t length, uint32_t *first_p,
		       uint32_t *last_p)
{
	if (bulk || walks) {
		*first_p = *last_p = bulk ? ring->bulk : AREA_WALK;
		return;
	}
	*first_p = length > SMALL_PAYLOAD_MAX && ring->areas[AREA_LARGE].size ? AREA_LARGE : AREA_SMALL;
	*last_p = AREA_LARGE;
}

/* Put a payload into an area, at its front if more than `enough` is free there. *at_p is in the segment of this
 * direction, with PLACE_LENT in the other's. */
static int ring_place(struct transport_peer *peer, bool bulk, bool walks, uint32_t length, uint64_t enough,
		      uint32_t *at_p)
{
	struct ring_out *ring = &shm_link(peer)->out;
	uint32_t bytes = (length + 63) & ~63u, first, last;

	ring_take_back(ring);
	if ((length > SMALL_PAYLOAD_MAX || ring->small_stalls >= SMALL_STALLS) && !ring->areas[AREA_LARGE].size)
		segment_enlarge(peer->owner, ring, AREA_LARGE);
	ring_areas(ring, bulk, walks, length, &first, &last);
	for (int turn = 0; turn < 2; turn++) {
		for (uint32_t i = first; i <= last; i++) {
			struct area *area = &ring->areas[i];
			int64_t at;

			if (turn == 0 && !walks && area_wants_look(area, bytes))
				ring_reclaim(ring);
			at = area->size ? area_take(area, bytes, walks, enough) : -1;
			if (at >= 0) {
				ring_put_outside(ring, i);
				*at_p = ring_at(shm_link(peer), area->base + at, i == AREA_LENT);
				return 0;
			}
		}
		ring_reclaim(ring);
	}
	ring->small_stalls++;
	return THOLE_ERR_AGAIN;
}

/* As ring_borrow and ring_place. It looks nowhere but in the areas, so nothing is learnt by its failure. */
char *ring_place_short(struct shm_peer *link, uint32_t length, uint32_t *at_p)
{
	struct ring_out *ring = &link->out;
	uint32_t bytes = (length + 63) & ~63u, i = AREA_SMALL;
	struct area *area = &ring->areas[AREA_SMALL];
	int64_t at;

	if (link->in.unanswered || link->in.run_start != link->in.run_end)
		return NULL; /* there may be something to borrow */
	if (ring->reclaimed != ring->consumed)
		ring_take_back(ring);
	at = area_take(area, bytes, false, UINT64_MAX);
	if (at < 0) {
		area = &ring->areas[i = AREA_LARGE];
		if (!area->size || area_wants_look(area, bytes))
			return NULL;
		at = area_take(area, bytes, false, UINT64_MAX);
		if (at < 0)
			return NULL;
	}
	ring_put_outside(ring, i);
	*at_p = (uint32_t)(area->base + at - (char *)ring->segment);
	return area->base + at;
}

/* All of it borrows, or goes to the front of an area that is empty. Where the areas are small, pieces would be shorter
 * than a dialogue's: more of them than is counted here, and of lengths that leave gaps. */
bool ring_fits(struct transport_peer *peer, uint64_t length)
{
	const struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &shm_link(peer)->out;
	const struct area *large = &ring->areas[AREA_LARGE];

	if (!link->connected || link->streaming || link->crossed || ring_piece_max(ring) < PIECE_MOST + PIECE_MORE)
		return false;
	ring_take_back(ring);
	if (ring->produced - ring->reclaimed + length / PIECE_OVERLAP + 1 > RING_SLOTS)
		return false;
	return link->in.run_end - link->in.run_start >= length || (large->live == 0 && large->size >= length + 64);
}

/* ---- Payloads ------------------------------------------------------------------------------------- */

/* A payload into its place. In a stream that was last read by the other side some time ago; in a dialogue the place is
 * this core's (ring_borrow), and where ballots find that faster both copies go by vectors (takes.h). */
static inline void ring_copy(struct transport_peer *peer, const struct vector *payload, uint64_t offset, void *to,
			     uint32_t length)
{
	const struct shm_peer *link = shm_link(peer);

	if (link->streaming && length >= BYTES_OVER_MIN && payload->count == 1)
		bytes_copy_over(to, (const char *)payload->segments->iov_base + offset, length);
	else if (shm_of(peer->owner)->takes.now && length > BYTES_STEP && length <= BYTES_TAKE_MAX &&
		 payload->count == 1)
		bytes_take(to, (const char *)payload->segments->iov_base + offset, length);
	else
		vector_read(payload, offset, to, length);
}

/* The longer area is made where it may be worth it. Whether it is there. */
static bool ring_walk(struct transport_peer *peer)
{
	struct shm *shm = shm_of(peer->owner);
	struct ring_out *ring = &shm_link(peer)->out;

	if (!ring->areas[AREA_WALK].size && shm->walks < WALKS_MAX)
		segment_enlarge(peer->owner, ring, AREA_WALK);
	return ring->areas[AREA_WALK].size > 0;
}

/* The ways that such payloads may take. */
static uint32_t passage_ways(const struct vector *payload)
{
	uint32_t ways = 1u << PASSAGE_STAYS | 1u << PASSAGE_WALKS;

	if (BYTES_CAN_PASS && payload->length <= PASSAGE_PAST_MAX)
		ways |= 1u << PASSAGE_PAST;
	if (payload->length <= PASSAGE_ONCE_MAX)
		ways |= 1u << PASSAGE_WALKS_ONCE;
	return ways;
}

__attribute__((noinline)) static void ring_note(struct transport_peer *peer, struct passage *passage,
						const struct vector *payload, uint32_t length)
{
	if (!passage_note(passage, clock_now_ns(), length, passage_ways(payload)) || !passage_walks(passage->way))
		return;
	if (ring_walk(peer)) /* pages are touched first */
		passage_settle(passage, shm_link(peer)->out.areas[AREA_WALK].size / length);
	else
		passage_refuse(passage);
}

/* What is learnt of a stream of such payloads. */
static inline struct passage *ring_passage(struct shm_peer *link, const struct vector *payload, uint32_t length)
{
	if (!link->streaming || length <= SMALL_PAYLOAD_MAX || payload->count != 1)
		return NULL;
	return &link->out.passages[passage_class(payload->length)];
}

_Static_assert(SHORT_END <= (int)BYTES_OVER_MIN && SHORT_END <= (int)BYTES_STEP && SHORT_END <= SMALL_PAYLOAD_MAX,
	       "short messages are copied in one way, and choose between no areas");

const char *ring_fill_outside(struct transport_peer *peer, const struct record *record, const struct vector *payload,
			      uint64_t offset, uint32_t length)
{
	struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &link->out;
	struct record *slot = ring_slot(ring->segment, ring->produced);
	bool bulk = record->kind >= RECORD_BULK;
	struct passage *passage = bulk ? NULL : ring_passage(link, payload, length);
	enum passage_way way = passage ? passage->way : PASSAGE_STAYS;
	/* In a dialogue a message goes where the one before the last was, if it can. */
	uint64_t enough = offset == 0 && !bulk && !link->streaming ? payload->length : UINT64_MAX;
	uint32_t at;
	char *outside;

	if (bulk || !ring_borrow(ring, &link->in, offset, payload->length, length, &at)) {
		if (ring_place(peer, bulk, passage_walks(way), length, enough, &at) != 0)
			return NULL;
	} else {
		passage = NULL; /* it lies in lines of this core */
		way = PASSAGE_STAYS;
	}
	slot_fill(slot, record, RECORD_EXTERNAL, RECORD_INLINE_MAX / 8);
	slot->place = at | (way == PASSAGE_WALKS_ONCE ? (uint32_t)PLACE_ONCE : 0);
	slot->bytes = length;
	outside = ring_memory(link, at);
	if (passage && passage_is_due(passage, length))
		ring_note(peer, passage, payload, length);
	if (way == PASSAGE_PAST)
		bytes_copy_past(outside, (const char *)payload->segments->iov_base + offset, length);
	else
		ring_copy(peer, payload, offset, outside, length);
	return outside;
}
