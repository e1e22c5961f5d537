/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: records from one process to one other. A slot is a cache line whose stamp, written last, says that it is whole,
 * and of which lap: a short message costs its consumer one line. A payload that does not fit takes the next slot too,
 * but for its stamp; one that does not fit there lies in an area, and is free again when its slot is.
 */
#include <string.h>

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

/* The consumer says that it is through with this many slots. Their memory is taken back when it is needed. */
static inline void ring_heard(struct ring_out *ring, uint64_t consumed)
{
	if (consumed - ring->consumed > ring->produced - ring->consumed)
		return; /* no correct consumer says that: it stalls itself */
	ring->consumed = consumed;
}

static void ring_take_back(struct ring_out *ring)
{
	for (; ring->reclaimed < ring->consumed; ring->reclaimed++) {
		struct placement *placed = &ring->placed[ring->reclaimed % RING_SLOTS];

		if (placed->area < AREAS) {
			ring->areas[placed->area].tail = placed->end;
			ring->areas[placed->area].live--;
		}
	}
}

/* Ask how far the consumer is: costs a cache miss where it has moved. */
static void ring_reclaim(struct ring_out *ring)
{
	/* Pairs with the release in ring_publish: what was read from the areas has been read. */
	ring_heard(ring, load_acquire(&ring->segment->consumed));
	ring_take_back(ring);
}

/* The out of line part of ring_push's look for room. */
__attribute__((noinline)) static bool ring_make_room(struct ring_out *ring, uint32_t slots)
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

static void ring_tell(struct ring_in *ring)
{
	ring->credited = ring->handled;
	ring->bytes = 0;
	ring->run_start = ring->run_end = 0;
}

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

/* Note a handled payload as memory to borrow. */
static void ring_lendable(struct ring_in *ring, uint32_t place, uint32_t length)
{
	uint32_t end = (place + length + 63) & ~63u;

	ring->unanswered = true;
	if (place % 64 != 0 || end > ring->size)
		return; /* not as ring_place does it */
	if (place != ring->run_end || ring->run_start == ring->run_end)
		ring->run_start = place;
	ring->run_end = end;
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

	return (char *)segment + (place & ~(uint32_t)PLACE_LENT);
}

/* Of a stream of such payloads is learnt where they go best. */
static inline bool ring_walks(const struct shm_peer *link, uint32_t length)
{
	return link->streaming && length > SMALL_PAYLOAD_MAX;
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
static int ring_place(struct transport_peer *peer, bool bulk, uint32_t length, uint64_t enough,
		      struct placement *placed, uint32_t *at_p)
{
	struct ring_out *ring = &shm_link(peer)->out;
	bool walks = !bulk && ring_walks(shm_link(peer), length) && ring->walk.state != WALK_LOOKS;
	uint32_t bytes = (length + 63) & ~63u, first, last;

	ring_take_back(ring);
	if ((length > SMALL_PAYLOAD_MAX || ring->small_stalls >= SMALL_STALLS) && !ring->areas[AREA_LARGE].size)
		segment_enlarge(peer->owner, ring, AREA_LARGE);
	ring_areas(ring, bulk, walks, length, &first, &last);
	for (int turn = 0; turn < 2; turn++) {
		for (uint32_t i = first; i <= last; i++) {
			struct area *area = &ring->areas[i];
			int64_t at;

			/* A look now and then: if the area has drained, it starts again at its front, which is warm.
			 * A stream, whose consumer lags behind, is better off with all of the area. */
			if (turn == 0 && !walks && area->head % AREA_REUSE < bytes && area->head >= AREA_REUSE)
				ring_reclaim(ring);
			at = area->size ? area_take(area, bytes, walks, enough) : -1;
			if (at >= 0) {
				*placed = (struct placement){.area = i, .end = area->head};
				*at_p = ring_at(shm_link(peer), area->base + at, i == AREA_LENT);
				return 0;
			}
		}
		ring_reclaim(ring);
	}
	ring->small_stalls++;
	return THOLE_ERR_AGAIN;
}

/* Records that are a part of what a program does, and not an answer of the protocol. */
static inline bool record_is_message(uint8_t kind)
{
	return kind <= RECORD_RTS || (kind >= RECORD_PUT && kind <= RECORD_ATOMIC);
}

/* A message of which nothing is learnt, and so also the first one of several is in a stream. */
static inline bool ring_is_short(const struct record *record, uint32_t length)
{
	return record->kind == RECORD_EAGER && !(record->flags & RECORD_MORE) && length <= PIECE_OVERLAP;
}

/* What goes to the peer next is in a stream, or in a dialogue. */
static inline void ring_pace(struct transport_peer *peer, enum pace pace)
{
	struct shm_peer *link = shm_link(peer);

	link->streaming = pace == PACE_STREAM;
	if (link->out.segment)
		peer->rendezvous_classes = &link->out.segment->rendezvous_classes[pace];
}

/* How what goes next to a peer that something has come from is taken. */
static inline enum pace ring_answer_pace(const struct shm_peer *link)
{
	if (link->turns_long || link->crossed_several)
		return PACE_STREAM;
	return link->crossed ? PACE_CROSSED : PACE_DIALOGUE;
}

/* A message has come, so what goes next is an answer. If many followed the last one, many will follow this one, and it
 * is the first of a stream: in a dialogue's way it would be learnt to take as long as those behind it. */
static inline void ring_turn(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (link->turn > 0) {
		link->turns_long = link->turn >= TURN_LONG;
		link->turns_several = link->turn > 1;
	}
	link->turn = 0;
	ring_pace(peer, ring_answer_pace(link));
}

/* The last record of a long message says what of ours its sender had not handled as it wrote that, and so does an RTS.
 * A credit says less than that, where the answer borrows. */
static void ring_cross(struct transport_peer *peer, const struct record *record)
{
	struct shm_peer *link = shm_link(peer);
	uint64_t handled = record->kind == RECORD_PIECE ? record->imm : record->credit;
	uint16_t unhandled = (uint16_t)(link->out.produced - handled);

	link->crossed = unhandled > 0;
	if (record->kind != RECORD_RTS) /* behind which other records than messages may be unhandled */
		link->crossed_several = unhandled > link->out.produced - link->begun;
	if (link->turn == 0)
		ring_pace(peer, ring_answer_pace(link));
}

/* A piece of a message, or of an answer, is out. */
__attribute__((noinline)) static void ring_sent_piece(struct transport_peer *peer, const struct record *record,
						      uint64_t sent, uint64_t whole)
{
	struct shm_peer *link = shm_link(peer);
	bool more = sent < whole;

	link->sent = more ? sent : 0;
	if (record->kind != RECORD_PIECE) {
		link->in_pieces = true;
		link->begun = link->out.produced - 1;
	} else if (link->in_pieces) {
		link->in_pieces = more;
	} else {
		return; /* an answer's */
	}
	if (link->in_pieces)
		return;
	link->turn++;
	ring_pace(peer, PACE_STREAM);
}

/* What goes next is in a stream with a message once the whole of that is out: in a dialogue all its pieces are such as
 * a dialogue has. */
static inline void ring_sent(struct transport_peer *peer, const struct record *record, uint64_t sent,
			     const struct vector *payload)
{
	struct shm_peer *link = shm_link(peer);

	if (__builtin_expect((record->flags & RECORD_MORE) || record->kind == RECORD_PIECE, 0)) {
		ring_sent_piece(peer, record, sent, payload->length);
		return;
	}
	link->sent = 0;
	link->in_pieces = false;
	link->turn++;
	ring_pace(peer, PACE_STREAM);
}

/* After a record: does the consumer sleep? */
static inline void ring_attend(struct transport_peer *peer, const struct segment *segment)
{
	/* A sleeper sets wake, then has all processes fence (membarrier), then polls the ring: so either it sees
	 * the record, or this sees its wake, without a fence here. */
	fence_compiler();
	if (__builtin_expect(load_relaxed(&segment->wake) != 0, 0))
		connect_wake(peer);
}

/* Copy a record into its slot: its head, and so many words of its payload or arguments. By words, as they were written:
 * a wider load would have to wait until those stores are out of the processor's store buffer, and so are all before
 * them, to lines that the reader still has. */
static inline void slot_fill(struct record *slot, const struct record *record, uint16_t length, uint32_t words)
{
	typedef uint64_t __attribute__((may_alias)) word;
	const word *from = (const word *)(const void *)record->payload;
	word *to = (word *)(void *)slot->payload;

	slot->kind = load_relaxed(&record->kind);
	slot->flags = load_relaxed(&record->flags);
	slot->length = length;
	slot->tag = load_relaxed(&record->tag);
	slot->imm = load_relaxed(&record->imm);
	for (uint32_t i = 0; i < words; i++)
		to[i] = load_relaxed(&from[i]);
}

/* A payload into its place. In a stream that was last read by the other side some time ago; in a dialogue the place is
 * this core's (ring_borrow). */
static inline void ring_copy(const struct shm_peer *link, const struct vector *payload, uint64_t offset, void *to,
			     uint32_t length)
{
	if (link->streaming && length >= BYTES_OVER_MIN && payload->count == 1)
		bytes_copy_over(to, (const char *)payload->segments->iov_base + offset, length);
	else
		vector_read(payload, offset, to, length);
}

/* Whether this payload goes past the caches. Of a stream of such messages is learnt whether they had better. */
static bool ring_bypasses(struct shm_peer *link, const struct vector *payload, uint32_t length, uint32_t at)
{
	struct ring_out *ring = &link->out;

	if (!BYTES_CAN_PASS || !link->streaming || length < BYPASS_MIN || length > BYPASS_MAX)
		return false;
	if (payload->count != 1 || payload->length != length || (at & (uint32_t)PLACE_LENT) ||
	    ring->walk.state != WALK_LOOKS)
		return false;
	if (bypass_is_due(&ring->bypass, length))
		bypass_note(&ring->bypass, clock_now_ns(), link->turn, length);
	return bypass_goes(&ring->bypass);
}

/* The longer area is made where it may be worth it. */
static void ring_walk(struct transport_peer *peer, uint32_t length)
{
	struct shm *shm = shm_of(peer->owner);
	struct ring_out *ring = &shm_link(peer)->out;

	if (!ring->areas[AREA_WALK].size && shm->walks < WALKS_MAX) {
		segment_enlarge(peer->owner, ring, AREA_WALK);
		shm->walks += ring->areas[AREA_WALK].size > 0;
	}
	if (ring->areas[AREA_WALK].size) /* pages are touched first, then lines are everywhere */
		walk_try(&ring->walk, 2 * ring->areas[AREA_WALK].size / length + 1);
	else
		walk_rest(&ring->walk);
}

__attribute__((noinline)) static void ring_copy_timed(struct transport_peer *peer, const struct vector *payload,
						      uint64_t offset, void *to, uint32_t length)
{
	struct shm_peer *link = shm_link(peer);
	uint64_t before_ns = clock_now_ns(), start_ns = clock_now_ns(), clock_ns = start_ns - before_ns, took_ns;

	ring_copy(link, payload, offset, to, length);
	took_ns = clock_now_ns() - start_ns;
	took_ns -= clock_ns < took_ns ? clock_ns : took_ns;
	if (walk_note(&link->out.walk, took_ns * 64000 / length))
		ring_walk(peer, length);
}

/* The second slot of a record. Its stamp is written like any other's, so that what a later lap finds there is no
 * accident. */
static void ring_span(struct ring_out *ring, const struct vector *payload, uint64_t offset, uint32_t length)
{
	struct record *slot = ring_slot(ring->segment, ring->produced + 1);

	ring->placed[(ring->produced + 1) % RING_SLOTS].area = AREAS;
	vector_read(payload, offset, (char *)slot + SPAN_HEAD, length);
	store_relaxed(&slot->stamp, ring_stamp(ring->produced + 1));
}

/* A record is out. In a stream the next lines are taken from their reader before they are written, those of short
 * payloads too; without that each store waits until the line is here, and those behind it too. In a dialogue the reader
 * is looking at them, and gets what was written faster from a cache that both cores share than from this core's. */
static inline void ring_lines(struct shm_peer *link, uint64_t slot, uint32_t slots, const char *payload,
			      uint32_t length)
{
	struct segment *segment = link->out.segment;

	if (link->streaming) {
		for (uint32_t i = 0; i < slots; i++)
			prefetch_write(ring_slot(segment, slot + AHEAD + i));
		if (length <= ASK_MAX)
			for (uint32_t i = 0; i < length; i += 64)
				prefetch_write(payload + AHEAD * ((length + 63) & ~63u) + i);
		return;
	}
	for (uint32_t i = 0; i < slots; i++)
		line_demote(ring_slot(segment, slot + i));
	if (length <= DEMOTE_MAX)
		for (uint32_t i = 0; i < length; i += 64)
			line_demote(payload + i);
}

/* A record whose payload lies in an area, into its slot: where the payload is now; NULL if there is no room for it. */
__attribute__((noinline)) static const char *ring_fill_outside(struct transport_peer *peer, const struct record *record,
							       const struct vector *payload, uint64_t offset,
							       uint32_t length)
{
	struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &link->out;
	struct record *slot = ring_slot(ring->segment, ring->produced);
	bool bulk = record->kind >= RECORD_BULK;
	/* In a dialogue a message goes where the one before the last was, if it can. */
	uint64_t enough = offset == 0 && !bulk && !link->streaming ? payload->length : UINT64_MAX;
	uint32_t at;
	char *outside;

	if ((bulk || !ring_borrow(ring, &link->in, offset, payload->length, length, &at)) &&
	    ring_place(peer, bulk, length, enough, &ring->placed[ring->produced % RING_SLOTS], &at) != 0)
		return NULL;
	slot_fill(slot, record, RECORD_EXTERNAL, RECORD_INLINE_MAX / 8);
	slot->place = at;
	slot->bytes = length;
	outside = ring_memory(link, at);
	if (!bulk && ring_bypasses(link, payload, length, at))
		bytes_copy_past(outside, (const char *)payload->segments->iov_base + offset, length);
	else if (!bulk && ring_walks(link, length) && length >= WALK_TIMED_MIN && !(at & (uint32_t)PLACE_LENT) &&
	    walk_is_due(&ring->walk))
		ring_copy_timed(peer, payload, offset, outside, length);
	else
		ring_copy(link, payload, offset, outside, length);
	return outside;
}

/* Another time: the consumer is to hear of what is there already. */
__attribute__((noinline)) static int ring_stalled(struct transport_peer *peer)
{
	transport_count(peer->owner, COUNTER_RING_STALLS);
	ring_attend(peer, shm_link(peer)->out.segment);
	return THOLE_ERR_AGAIN;
}

int ring_push(struct transport_peer *peer, const struct record *record, const struct vector *payload, uint64_t offset,
	      uint32_t length)
{
	struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &link->out;
	struct segment *segment = ring->segment;
	struct record *slot = ring_slot(segment, ring->produced);
	bool external = record->length == RECORD_EXTERNAL || length > SPAN_MAX;
	uint32_t slots = external ? 1 : ring_slots(length);
	const char *outside = NULL; /* payload in an area */

	if (__builtin_expect(ring->produced - ring->reclaimed + slots > RING_SLOTS, 0) && !ring_make_room(ring, slots))
		return ring_stalled(peer);
	ring->placed[ring->produced % RING_SLOTS].area = AREAS;
	if (length == 0) {
		slot_fill(slot, record, record->length,
			  record->length == RECORD_EXTERNAL ? RECORD_INLINE_MAX / 8 : (record->length + 7u) / 8);
	} else if (!external) {
		slot_fill(slot, record, (uint16_t)length, 0);
		if (slots > 1)
			ring_span(ring, payload, offset + RECORD_INLINE_MAX, length - RECORD_INLINE_MAX);
		vector_read(payload, offset, slot->payload, slots > 1 ? RECORD_INLINE_MAX : length);
	} else {
		outside = ring_fill_outside(peer, record, payload, offset, length);
		if (!outside)
			return ring_stalled(peer);
	}
	if (link->streaming || (link->turns_several && ring_is_short(record, length)))
		slot->flags |= RECORD_STREAM;
	else if (link->crossed)
		slot->flags |= RECORD_CROSSED;
	/* An answer tells the asker that its question is consumed, so that its payloads start again at the front of
	 * their area, in lines that are warm; but for what the next piece may still borrow. */
	if (!outside || ring->lent_until != ring->produced + 1 || link->in.run_start == link->in.run_end)
		ring_tell(&link->in);
	slot->credit = (uint16_t)link->in.credited;
	if (record->kind == RECORD_PIECE)
		slot->imm = link->in.handled; /* ring_cross */
	/* Pairs with the acquire in ring_ready: whoever sees the stamp sees the record and its payload. */
	store_release(&slot->stamp, ring_stamp(ring->produced));
	ring->produced += slots;
	ring_lines(link, ring->produced - slots, slots, outside, outside ? length : 0);
	if (record_is_message(record->kind) || record->kind == RECORD_PIECE)
		ring_sent(peer, record, offset + length, payload);
	ring_attend(peer, segment);
	return 0;
}

/* ---- Consuming ------------------------------------------------------------------------------------ */

/* Whether an answer that is not handled yet lies in memory of this ring. What the other side says of it does not wait
 * for anything, while what it has consumed may wait for the same here. */
static bool ring_is_lent(const struct ring_out *back)
{
	return back->consumed < back->lent_until && load_acquire(&back->segment->handled) < back->lent_until;
}

static void ring_publish(struct ring_in *ring)
{
	/* Pairs with the acquire above: the payloads have been read. */
	store_release(&ring->segment->handled, ring->handled);
	if (ring_is_lent(&shm_link(ring->peer)->out))
		return;
	if (ring->tries > 0 && ring->bytes >= PUBLISH_BYTES)
		ring->tries--; /* it was held for nothing */
	ring_tell(ring);
	ring->published = ring->handled;
	/* Pairs with the acquire in ring_reclaim. */
	store_release(&ring->segment->consumed, ring->published);
}

/* The payload of a record, or NULL if it lies nowhere. */
static const void *ring_payload(const struct ring_in *ring, const struct record *record)
{
	const struct ring_out *back = &shm_link(ring->peer)->out;
	bool lent = record->place & (uint32_t)PLACE_LENT;
	uint64_t place = record->place & ~(uint32_t)PLACE_LENT, size = lent ? back->size : ring->size;
	const struct segment *segment = lent ? back->segment : ring->segment;

	if (!segment || place < offsetof(struct segment, small) || place > size || record->bytes > size - place)
		return NULL;
	return (const char *)segment + place;
}

/* Of eager messages that might come by another way: how long they take is what choosing is about. */
static void ring_timed(struct ring_in *ring, const struct record *record, const void *payload, uint32_t length)
{
	struct transport_peer *peer = ring->peer;
	bool piece = record->kind == RECORD_PIECE && peer->owner->up->placing(peer), more;

	if (record->kind != RECORD_PIECE) {
		ring->alone = !(record->flags & RECORD_STREAM);
		ring->tag = record->tag;
		ring->left = record->kind != RECORD_EAGER ? UINT64_MAX : /* no poll ends with it */
			     record->flags & RECORD_MORE ? record->arg[0] : length;
	}
	ring->left -= length < ring->left ? length : ring->left;
	if (record->kind == RECORD_EAGER && record->length == RECORD_EXTERNAL)
		choose_eager_begin(peer, record, length, ring_ready(ring));
	peer->owner->up->delivered(peer, record, payload, length);
	more = peer->owner->up->placing(peer);
	if (record->kind == RECORD_PIECE)
		choose_eager_piece(peer, length);
	else if (record->kind == RECORD_EAGER && !(record->flags & RECORD_MORE))
		choose_eager_piece(peer, 0);
	else if (!more)
		shm_link(peer)->sample.length = 0; /* unexpected: not in place yet */
	if (ring->left == 0)
		ring->ended = ring->alone ? piece : !peer->owner->up->expected(peer, ring->tag);
	if (!more)
		ring_cross(peer, record);
}

/* A record's private copy, since the producer could still write to the slot. */
struct record_copy {
	struct record record;
	char more[SPAN_MAX - RECORD_INLINE_MAX];
};

/* What walks is soon not wanted any more: its lines had better not stay in this core's cache, where the producer would
 * have to fetch them from for the next lap. */
static inline void ring_pass(const struct ring_in *ring, const struct record *record, const char *payload)
{
	bool walks = record->place >= ring->walk_from && !(record->place & (uint32_t)PLACE_LENT);

	if (__builtin_expect(!walks || record->bytes > WALK_NEARLY || !payload, 1))
		return;
	for (uint32_t i = 0; i < record->bytes; i += 64)
		prefetch_once(payload + i);
}

/* The payload of a record that has not all of it in its slot; NULL: no correct producer writes that. */
__attribute__((noinline)) static const void *ring_gather(struct ring_in *ring, struct record_copy *copy,
							 uint32_t *length_p)
{
	const struct record *record = &copy->record;
	const void *payload;

	*length_p = record->length;
	if (record->length == RECORD_EXTERNAL) {
		*length_p = record->bytes;
		if (record->bytes == 0)
			return record->payload;
		payload = ring_payload(ring, record);
		ring_pass(ring, record, payload);
		return payload;
	}
	if (record->length > SPAN_MAX)
		return NULL;
	prefetch_read(ring_slot(ring->segment, ring->next + AHEAD));
	memcpy(copy->more, (const char *)ring_slot(ring->segment, ring->next) + SPAN_HEAD, sizeof(copy->more));
	ring->next++;
	return (const char *)copy + offsetof(struct record, payload);
}

static void ring_deliver(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	if (record->kind == RECORD_RTS)
		ring_cross(peer, record);
	peer->owner->up->delivered(peer, record, payload, length);
}

/* All records but short messages. */
__attribute__((noinline)) static void ring_dispatch(struct ring_in *ring, const struct record *record,
						    const void *payload, uint32_t length)
{
	struct transport_peer *peer = ring->peer;

	if (record_is_message(record->kind))
		ring_turn(peer);
	if (!payload)
		transport_count(peer->owner, COUNTER_BAD_RECORDS);
	else if (record->kind >= RECORD_BULK)
		bulk_arrived(peer, record, payload, length);
	else if ((record->flags & RECORD_MORE) || record->kind == RECORD_PIECE || length > PIECE_OVERLAP)
		ring_timed(ring, record, payload, length);
	else
		ring_deliver(peer, record, payload, length);
}

/* A payload in an area was handled. What lies nowhere is no memory to write an answer to. Pieces of bulk are waited
 * for wherever they lie. */
static void ring_handled_outside(struct ring_in *ring, const struct record *record, uint32_t length)
{
	bool bulk = record->kind >= RECORD_BULK, lent = record->place & (uint32_t)PLACE_LENT;

	if (bulk || !lent)
		ring->bytes += length;
	if (length && !bulk && !lent)
		ring_lendable(ring, record->place, length);
}

static inline void ring_handle(struct ring_in *ring, const struct record *slot)
{
	struct record_copy copy;
	const struct record *record = &copy.record;
	const void *payload = record->payload;
	struct transport_peer *peer = ring->peer;
	struct ring_out *back = &shm_link(peer)->out;
	uint32_t length;

	copy.record = *slot;
	ring->next++; /* first, so that what is handled now cannot be handled twice */
	length = record->length;
	if (length > RECORD_INLINE_MAX)
		payload = ring_gather(ring, &copy, &length);
	if (__builtin_expect(payload && ring_is_short(record, length), 1)) {
		ring_turn(peer);
		peer->owner->up->delivered(peer, record, payload, length);
		ring->ended = !(record->flags & RECORD_STREAM);
	} else {
		ring_dispatch(ring, record, payload, length);
	}
	ring->handled = ring->next;
	if (record->length == RECORD_EXTERNAL && payload)
		ring_handled_outside(ring, record, length);
	/* Only now: what the record gives back may be what its payload lay in. */
	ring_heard(back, back->consumed + (uint16_t)(record->credit - (uint16_t)back->consumed));
}

/* Whether the producer should have its memory back. */
static inline bool ring_is_due(const struct ring_in *ring)
{
	if (__builtin_expect(ring->bytes < PUBLISH_BYTES, 1))
		return false;
	return ring->tries == 0 || ring->run_start == ring->run_end || ring->bytes > PUBLISH_BYTES_LENT ||
	       ring->bytes > ring->half; /* the other half is the producer's */
}

/* With a message that is not in a stream the poll ends, or with its last piece. If both sides send at once, the next
 * one may be here already, and would be taken before its receive is posted and the program's own next one is sent. From
 * then on the two would not copy at the same time any more, but wait for each other. In a stream a poll ends with a
 * long message, the like of which has no receive yet: the next one would be copied twice. */
int ring_take(struct ring_in *ring)
{
	int n = 0;

	while (ring_ready(ring)) {
		if (n > 0)
			prefetch_read(ring_slot(ring->segment, ring->next + AHEAD));
		ring_handle(ring, ring_slot(ring->segment, ring->next));
		ring->polls = 0;
		if (ring->handled - ring->credited >= PUBLISH_SLOTS || ring_is_due(ring))
			ring_publish(ring);
		if (++n == RING_BURST || ring->ended)
			break;
	}
	ring->ended = false;
	return n;
}

/* In a dialogue what has come of a message is held until its next piece is here: the answer is to borrow all of it. If
 * it borrowed a part, the rest of it would go to lines that have to be fetched back, and the next question's too, for
 * which both sides would wait longer, and tell each other again. */
static bool ring_is_held(const struct ring_in *ring)
{
	return ring->tries > 0 && ring->run_start != ring->run_end && ring->peer->owner->up->placing(ring->peer);
}

void ring_publish_late(struct ring_in *ring)
{
	if (++ring->polls < PUBLISH_POLLS)
		return;
	if (ring->polls == PUBLISH_POLLS)
		ring->held = ring_is_held(ring);
	if (!ring->held || ring->polls >= PUBLISH_POLLS_AMID)
		ring_publish(ring);
}
