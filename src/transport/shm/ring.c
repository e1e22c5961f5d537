/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: records from one process to one other. A slot is a cache line whose stamp, written last, says that it is whole,
 * and of which lap: a short message costs its consumer one line. A payload that does not fit takes the next slot too,
 * but for its stamp. Where one lies that does not fit there is place.c's to say.
 */
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "transport/shm/shm.h"

/* A record's head, its first eight bytes, as a word: where parts begin, of so many bits. */
#define RECORD_AT(offset, bits) \
	(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 64 - 8 * (int)(offset) - (bits) : 8 * (int)(offset))
enum {
	RECORD_AT_STAMP = RECORD_AT(0, 16),
	RECORD_AT_CREDIT = RECORD_AT(2, 16),
	RECORD_AT_KIND = RECORD_AT(4, 8),
	RECORD_AT_FLAGS = RECORD_AT(5, 8),
	RECORD_AT_LENGTH = RECORD_AT(6, 16),
};
#undef RECORD_AT

static inline uint64_t record_head(uint16_t stamp, uint16_t credit, uint8_t kind, uint8_t flags, uint16_t length)
{
	return (uint64_t)stamp << RECORD_AT_STAMP | (uint64_t)credit << RECORD_AT_CREDIT |
	       (uint64_t)kind << RECORD_AT_KIND | (uint64_t)flags << RECORD_AT_FLAGS |
	       (uint64_t)length << RECORD_AT_LENGTH;
}

/* ---- Producing ------------------------------------------------------------------------------------ */

/* The producer is told with the next record what was handled, and so has the memory of it back. */
static void ring_tell(struct ring_in *ring)
{
	ring->credited = ring->handled;
	ring->bytes = 0;
	ring->run_start = ring->run_end = 0;
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

/* A message, or a piece of one, by which those that cross are told. */
static inline bool ring_is_long(const struct record *record, uint64_t length)
{
	return (record->flags & RECORD_MORE) ||
	       (record->kind <= RECORD_RTS && !ring_is_short(record, (uint32_t)length));
}

/* What goes to the peer next is in a stream, or in a dialogue. */
static inline void ring_pace(struct transport_peer *peer, enum pace pace)
{
	shm_link(peer)->streaming = pace_streams(pace);
	peer->rendezvous_row = (uint8_t)pace;
}

/* How what goes next to a peer that something has come from is taken. */
static inline enum pace ring_answer_pace(const struct shm_peer *link)
{
	if (link->crossed_several)
		return PACE_STREAM_CROSSED;
	if (link->turns_long)
		return PACE_STREAM;
	return link->crossed ? PACE_CROSSED : PACE_DIALOGUE;
}

/* And what follows a message to it: of a row that is longer than others nothing crosses the last ones. Where messages
 * cross one by one, the one that this one will cross may have come already, before the last one went. */
static inline enum pace ring_row_pace(const struct shm_peer *link)
{
	if (link->crossed_several && link->turn < 2 * link->turn_before)
		return PACE_STREAM_CROSSED;
	return link->crossed && link->turn == 1 ? PACE_CROSSED : PACE_STREAM;
}

static inline uint8_t ring_stays(uint8_t stays, bool crossed)
{
	return crossed ? CROSSED_STAYS : stays > 0 ? stays - 1 : 0;
}

/* A message has come, so what goes next is an answer. If many followed the last one, many will follow this one, and it
 * is the first of a stream: in a dialogue's way it would be learnt to take as long as those behind it. */
static inline void ring_turn(struct transport_peer *peer, bool is_long)
{
	struct shm_peer *link = shm_link(peer);

	if (link->turn == 0)
		return; /* it was one before */
	link->turns_long = link->turn >= TURN_LONG;
	link->turns_several = link->turn > 1;
	link->turn_before = link->turn;
	link->turn = 0;
	if (__builtin_expect(link->crossed > 0, 0) && !is_long) { /* no short one is taken to */
		link->crossed = ring_stays(link->crossed, false);
		link->crossed_several = ring_stays(link->crossed_several, false);
	}
	ring_pace(peer, ring_answer_pace(link));
}

/* Whether its reader had no more than a part of a message as it wrote a record by which `unhandled` slots were. */
static inline bool ring_is_untaken(const struct shm_peer *link, const struct sent_long *sent, uint16_t unhandled)
{
	return sent->asked ? !sent->taken : unhandled > link->out.produced - sent->end;
}

/* The last record of a long message says what of ours its sender had not handled as it wrote that, and so does an RTS.
 * A credit says less than that, where the answer borrows. */
static void ring_cross(struct transport_peer *peer, const struct record *record)
{
	struct shm_peer *link = shm_link(peer);
	uint64_t handled = record->kind == RECORD_PIECE ? record->imm : record->credit;
	uint16_t unhandled = (uint16_t)(link->out.produced - handled);

	link->crossed = ring_stays(link->crossed, ring_is_untaken(link, &link->longs[0], unhandled));
	link->crossed_several = ring_stays(link->crossed_several, ring_is_untaken(link, &link->longs[1], unhandled));
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
		shm_of(peer->owner)->sends++;
		link->longs[1] = link->longs[0];
		link->longs[0] = (struct sent_long){.asked = record->kind == RECORD_RTS, .window = record->arg[2]};
		if (record->kind == RECORD_RTS)
			life_tell(peer); /* who may read this process's memory now */
	} else if (!link->in_pieces) {
		return; /* an answer's */
	}
	link->in_pieces = more;
	link->longs[0].end = link->out.produced;
	if (more)
		return;
	link->turn++;
	ring_pace(peer, ring_row_pace(link));
}

/* What goes next is in a stream with a message once the whole of that is out: in a dialogue all its pieces are such as
 * a dialogue has. */
static inline void ring_sent(struct transport_peer *peer, const struct record *record, uint64_t sent,
			     const struct vector *payload)
{
	struct shm_peer *link = shm_link(peer);

	if (__builtin_expect(ring_is_long(record, sent), 0)) {
		ring_sent_piece(peer, record, sent, record->kind == RECORD_RTS ? sent : payload->length);
		return;
	}
	link->sent = 0;
	link->in_pieces = false;
	link->turn++;
	ring_pace(peer, ring_row_pace(link));
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

/* The second slot of a record. Its stamp is written like any other's, so that what a later lap finds there is no
 * accident. */
static void ring_span(struct ring_out *ring, const struct vector *payload, uint64_t offset, uint32_t length)
{
	struct record *slot = ring_slot(ring->segment, ring->produced + 1);

	vector_read(payload, offset, (char *)slot + SPAN_HEAD, length);
	store_relaxed(&slot->stamp, ring_stamp(ring->produced + 1));
}

/* A record is out. In a stream the next lines are taken from their reader before they are written, those of short
 * payloads too; without that each store waits until the line is here, and those behind it too. In a dialogue the reader
 * is looking at them, and gets what was written faster from a cache that both cores share than from this core's. */
static inline void ring_lines(struct shm_peer *link, uint64_t slot, uint32_t slots, const char *payload,
			      uint32_t length, uint64_t whole)
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
	if (whole <= DEMOTE_MAX)
		for (uint32_t i = 0; i < length; i += 64)
			line_demote(payload + i);
}

/* Another time: the consumer is to hear of what is there already. */
__attribute__((noinline)) static int ring_stalled(struct transport_peer *peer)
{
	transport_count(peer->owner, COUNTER_RING_STALLS);
	ring_attend(peer, shm_link(peer)->out.segment);
	return THOLE_ERR_AGAIN;
}

/* Whether there is room for so many slots, or some can be had. */
static inline bool ring_reserve(struct ring_out *ring, uint32_t slots)
{
	return __builtin_expect(ring->produced - ring->reclaimed + slots <= RING_SLOTS, 1) ||
	       ring_make_room(ring, slots);
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

	if (!ring_reserve(ring, slots))
		return ring_stalled(peer);
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
	slot->flags |= pace_flags((enum pace)peer->rendezvous_row);
	if (link->turns_several && ring_is_short(record, length))
		slot->flags |= RECORD_STREAM;
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
	ring_lines(link, ring->produced - slots, slots, outside, outside ? length : 0, outside ? payload->length : 0);
	if (record_is_message(record->kind) || record->kind == RECORD_PIECE)
		ring_sent(peer, record, offset + length, payload);
	ring_attend(peer, segment);
	return 0;
}

/* There is no room in the ring, or no ring yet. */
__attribute__((noinline)) static int ring_push_short_later(struct transport_peer *peer, uint8_t flags, uint64_t tag,
							   uint64_t imm, const void *buffer, uint32_t length)
{
	struct shm_peer *link = shm_link(peer);

	if (!link->connected)
		return THOLE_ERR_AGAIN;
	if (!ring_reserve(&link->out, ring_slots(length)))
		return ring_stalled(peer);
	return ring_push_short(peer, flags, tag, imm, buffer, length);
}

/* The head of a short message last, as one word, and what follows. `outside` is where its payload lies, if not in its
 * slots. */
__attribute__((always_inline)) static inline int ring_push_head(struct transport_peer *peer, struct record *slot,
								uint8_t flags, uint16_t length, uint32_t slots,
								const char *outside, uint32_t bytes)
{
	struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &link->out;
	uint64_t first = ring->produced;

	flags |= pace_flags((enum pace)peer->rendezvous_row);
	if (link->turns_several)
		flags |= RECORD_STREAM;
	ring_tell(&link->in);
	/* Pairs with the acquire in ring_ready, as in ring_push. */
	store_release((uint64_t *)(void *)slot, record_head(ring_stamp(first), (uint16_t)link->in.credited,
							     RECORD_EAGER, flags, length));
	ring->produced = first + slots;
	ring_lines(link, first, slots, outside, bytes, bytes);
	link->turn++;
	ring_pace(peer, ring_row_pace(link));
	ring_attend(peer, ring->segment);
	return 0;
}

/* As ring_push, from the user's memory to the slot. It calls nothing but what is rare, so that the compiler keeps all
 * of it in registers. */
__attribute__((always_inline)) static inline int ring_push_slots(struct transport_peer *peer, uint8_t flags,
								 uint64_t tag, uint64_t imm, const void *buffer,
								 uint32_t length, uint32_t slots)
{
	struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &link->out;
	uint64_t first = ring->produced;
	struct record *slot;

	if (__builtin_expect(!link->connected || first - ring->reclaimed + slots > RING_SLOTS, 0))
		return ring_push_short_later(peer, flags, tag, imm, buffer, length);
	slot = ring_slot(ring->segment, first);
	slot->tag = tag;
	slot->imm = imm;
	if (slots == 1) {
		bytes_copy_few(slot->payload, buffer, length);
	} else {
		struct record *second = ring_slot(ring->segment, first + 1);

		memcpy(slot->payload, buffer, RECORD_INLINE_MAX);
		bytes_copy_few((char *)second + SPAN_HEAD, (const char *)buffer + RECORD_INLINE_MAX,
			       length - RECORD_INLINE_MAX);
		store_relaxed(&second->stamp, ring_stamp(first + 1));
	}
	return ring_push_head(peer, slot, flags, (uint16_t)length, slots, NULL, 0);
}

/* As ring_push, from the user's memory to an area. */
__attribute__((noinline)) static int ring_push_beside(struct transport_peer *peer, uint8_t flags, uint64_t tag,
						      uint64_t imm, const void *buffer, uint32_t length)
{
	const struct iovec segment = {(void *)(uintptr_t)buffer, length};
	struct shm_peer *link = shm_link(peer);
	struct ring_out *ring = &link->out;
	struct record *slot;
	char *outside = NULL;
	uint32_t at;

	if (!link->connected)
		return THOLE_ERR_AGAIN;
	if (ring->produced - ring->reclaimed < RING_SLOTS)
		outside = ring_place_short(link, length, &at);
	if (!outside)
		return ring_push(peer, &(struct record){.kind = RECORD_EAGER, .flags = flags, .tag = tag, .imm = imm},
				 &(struct vector){&segment, 1, length}, 0, length);
	slot = ring_slot(ring->segment, ring->produced);
	slot->tag = tag;
	slot->imm = imm;
	slot->place = at;
	slot->bytes = length;
	memcpy(outside, buffer, length);
	return ring_push_head(peer, slot, flags, RECORD_EXTERNAL, 1, outside, length);
}

__attribute__((noinline)) static int ring_push_two(struct transport_peer *peer, uint8_t flags, uint64_t tag,
						   uint64_t imm, const void *buffer, uint32_t length)
{
	return ring_push_slots(peer, flags, tag, imm, buffer, length, 2);
}

__attribute__((noinline)) static int ring_push_one(struct transport_peer *peer, uint8_t flags, uint64_t tag,
						   uint64_t imm, const void *buffer, uint32_t length)
{
	return ring_push_slots(peer, flags, tag, imm, buffer, length, 1);
}

int ring_push_short(struct transport_peer *peer, uint8_t flags, uint64_t tag, uint64_t imm, const void *buffer,
		    uint32_t length)
{
	if (length > SPAN_MAX)
		return ring_push_beside(peer, flags, tag, imm, buffer, length);
	if (length > RECORD_INLINE_MAX)
		return ring_push_two(peer, flags, tag, imm, buffer, length);
	return ring_push_one(peer, flags, tag, imm, buffer, length);
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
	uint64_t place = place_at(record->place), size = lent ? back->size : ring->size;
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

/* A record's private copy, since the producer could still write to the slot; and the payload of one in two slots. They
 * are stored in the parts in which the payload is loaded next, sixteen bytes at a time from its front: a load of what
 * two stores made waits until these are out of the processor's store buffer. */
struct record_copy {
	struct record record;
	uint64_t span[SPAN_MAX / 8];
};

typedef uint64_t __attribute__((may_alias)) copy_word;
typedef uint64_t copy_pair __attribute__((vector_size(16), aligned(8), may_alias));

_Static_assert(offsetof(struct record, payload) == 3 * 8 && RECORD_INLINE_MAX == 5 * 8 && SPAN_MAX == 12 * 8,
	       "the parts of a copy");

static inline void copy_two(copy_word *to, const copy_word *from)
{
	*(copy_pair *)to = *(const copy_pair *)from;
}

/* Of which the head is known. */
static inline void slot_take(struct record *record, const struct record *slot, uint64_t head)
{
	copy_word *to = (copy_word *)(void *)record;
	const copy_word *from = (const copy_word *)(const void *)slot;

	to[0] = head;
	copy_two(to + 1, from + 1);
	copy_two(to + 3, from + 3);
	copy_two(to + 5, from + 5);
	to[7] = from[7];
}

static inline uint64_t slot_head(const struct record *slot)
{
	return load_relaxed((const copy_word *)(const void *)slot);
}

static inline const void *ring_join(struct ring_in *ring, struct record_copy *copy, const struct record *slot)
{
	const copy_word *first = (const copy_word *)(const void *)slot->payload;
	const copy_word *second = (const copy_word *)(const void *)ring_slot(ring->segment, ring->next);
	copy_word *to = copy->span;

	prefetch_read(ring_slot(ring->segment, ring->next + AHEAD));
	ring->next++;
	copy_two(to, first);
	copy_two(to + 2, first + 2);
	*(copy_pair *)(to + 4) = (copy_pair){first[4], second[1]};
	copy_two(to + 6, second + 2);
	copy_two(to + 8, second + 4);
	copy_two(to + 10, second + 6);
	return copy->span;
}

/* Such lines had better not stay in this core's cache, where the producer would have to fetch them from for the next
 * lap. */
static void ring_pass_once(const char *payload, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += 64)
		prefetch_once(payload + i);
}

/* One that is not in a stream, and whose sender has handled all that was sent to it. */
static inline bool ring_is_dialogue(const struct ring_in *ring, const struct record *record)
{
	return !(record->flags & RECORD_STREAM) && record->credit == (uint16_t)shm_link(ring->peer)->out.produced;
}

/* Lines that will be read once it is known where to. */
static void ring_ask_early(const char *payload, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += 64)
		prefetch_read(payload + i);
}

/* The payload of a record that has none of it in its slots; NULL: no correct producer writes that. */
__attribute__((noinline)) static const void *ring_payload_outside(struct ring_in *ring, const struct record *record,
								  uint32_t *length_p)
{
	const void *payload;

	if (record->length != RECORD_EXTERNAL)
		return NULL;
	*length_p = record->bytes;
	if (record->bytes == 0)
		return record->payload;
	payload = ring_payload(ring, record);
	if (payload && record->place & (uint32_t)PLACE_ONCE)
		ring_pass_once(payload, record->bytes);
	else if (payload && record->bytes <= EARLY_MAX && ring_is_dialogue(ring, record))
		ring_ask_early(payload, record->bytes);
	return payload;
}

static void ring_finished(struct shm_peer *link, uint64_t window)
{
	for (int i = 0; i < 2; i++)
		link->longs[i].taken |= link->longs[i].window == window;
}

static void ring_deliver(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	if (record->kind == RECORD_RTS)
		ring_cross(peer, record);
	else if (record->kind == RECORD_FINISH)
		ring_finished(shm_link(peer), record->tag);
	peer->owner->up->delivered(peer, record, payload, length);
}

/* All records but short messages. */
__attribute__((noinline)) static void ring_dispatch(struct ring_in *ring, const struct record *record,
						    const void *payload, uint32_t length)
{
	struct transport_peer *peer = ring->peer;

	if (record_is_message(record->kind))
		ring_turn(peer, ring_is_long(record, length));
	if (!payload)
		transport_count(peer->owner, COUNTER_BAD_RECORDS);
	else if (record->kind >= RECORD_TRANSPORT)
		bulk_arrived(peer, record, payload, length);
	else if ((record->flags & RECORD_MORE) || record->kind == RECORD_PIECE || length > PIECE_OVERLAP)
		ring_timed(ring, record, payload, length);
	else
		ring_deliver(peer, record, payload, length);
}

/* Note a handled payload as memory to borrow (ring_borrow). */
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

/* A payload in an area was handled. What lies nowhere is no memory to write an answer to. Pieces of bulk are waited
 * for wherever they lie. */
static void ring_handled_outside(struct ring_in *ring, const struct record *record, uint32_t length)
{
	bool bulk = record->kind >= RECORD_BULK, lent = record->place & (uint32_t)PLACE_LENT;

	if (bulk || !lent)
		ring->bytes += length;
	if (length && !bulk && !lent)
		ring_lendable(ring, place_at(record->place), length);
}

/* A record is handled. Only now its credit holds: what the record gives back may be what its payload lay in. */
static inline void ring_handled(struct ring_in *ring, struct ring_out *back, uint16_t credit)
{
	ring->handled = ring->next;
	ring_heard(back, back->consumed + (uint16_t)(credit - (uint16_t)back->consumed));
}

/* A message of which nothing is learnt. One of some KiB is copied in one of two ways, if it is in no stream, so that
 * its lines are this side's to write next. */
static inline void ring_deliver_short(struct transport_peer *peer, const struct record *record, const void *payload,
				      uint32_t length)
{
	struct transport_owner *owner = peer->owner;
	struct takes *takes = &shm_of(owner)->takes;

	if (length <= BYTES_STEP || (record->flags & RECORD_STREAM)) {
		owner->up->delivered(peer, record, payload, length);
		return;
	}
	if (takes_times(takes))
		takes_time(takes, clock_now_ns());
	owner->taking = takes->now;
	owner->up->delivered(peer, record, payload, length);
	owner->taking = false;
}

/* All but short messages in their slots. Whether the poll ends with it. */
__attribute__((noinline)) static bool ring_handle_other(struct ring_in *ring, const struct record *slot, uint64_t head)
{
	struct record_copy copy;
	const struct record *record = &copy.record;
	const void *payload = record->payload;
	struct transport_peer *peer = ring->peer;
	uint32_t length;
	bool ended;

	slot_take(&copy.record, slot, head);
	ring->next++; /* first, so that what is handled now cannot be handled twice */
	length = record->length;
	if (length > SPAN_MAX)
		payload = ring_payload_outside(ring, record, &length);
	else if (length > RECORD_INLINE_MAX)
		payload = ring_join(ring, &copy, slot);
	if (payload && ring_is_short(record, length)) {
		ring_turn(peer, false);
		ring_deliver_short(peer, record, payload, length);
		ring->ended = !(record->flags & RECORD_STREAM);
	} else {
		ring_dispatch(ring, record, payload, length);
	}
	if (record->length == RECORD_EXTERNAL && payload)
		ring_handled_outside(ring, record, length);
	ring_handled(ring, &shm_link(peer)->out, record->credit);
	ended = ring->ended;
	ring->ended = false;
	return ended;
}

/* A message of which all is in its slots, as nearly all are, with nothing that is not needed for it. */
static inline bool ring_handle(struct ring_in *ring, const struct record *slot, uint64_t head)
{
	const uint64_t parts = (uint64_t)UINT8_MAX << RECORD_AT_KIND | (uint64_t)RECORD_MORE << RECORD_AT_FLAGS;
	uint16_t length = (uint16_t)(head >> RECORD_AT_LENGTH);
	struct record_copy copy;
	struct transport_peer *peer = ring->peer;
	const void *payload = copy.record.payload;

	if (__builtin_expect((head & parts) != (uint64_t)RECORD_EAGER << RECORD_AT_KIND || length > SPAN_MAX, 0))
		return ring_handle_other(ring, slot, head);
	slot_take(&copy.record, slot, head);
	ring->next++; /* first, as there */
	if (length > RECORD_INLINE_MAX)
		payload = ring_join(ring, &copy, slot);
	ring_turn(peer, false);
	peer->owner->up->delivered(peer, &copy.record, payload, length);
	ring_handled(ring, &shm_link(peer)->out, (uint16_t)(head >> RECORD_AT_CREDIT));
	return !(head >> RECORD_AT_FLAGS & RECORD_STREAM);
}

/* Whether the producer should have its memory back. */
static inline bool ring_is_due(const struct ring_in *ring)
{
	if (__builtin_expect(ring->bytes < PUBLISH_BYTES, 1))
		return false;
	return ring->tries == 0 || ring->run_start == ring->run_end || ring->bytes > PUBLISH_BYTES_LENT ||
	       ring->bytes > ring->half; /* the other half is the producer's */
}

/* One more vote, by how long a line took that the reader of answers polls, and then took when it was here. */
uint8_t ring_voted(uint8_t far, uint64_t away_ns, uint64_t here_ns)
{
	if (away_ns > here_ns + FAR_NS)
		return far < FAR_VOTES_MAX ? far + 1 : far;
	return far > 0 ? far - 1 : far;
}

/* Where the reader of answers is changes seldom. */
__attribute__((noinline)) static void ring_vote(struct ring_out *back)
{
	struct record *slot = ring_slot(back->segment, back->produced);
	uint64_t start_ns = clock_now_ns(), away_ns;

	swap_acquire_release(&slot->imm, 0); /* not over before the line is here, as a store would be */
	away_ns = clock_now_ns() - start_ns;
	start_ns += away_ns;
	swap_acquire_release(&slot->imm, 0);
	back->far = ring_voted(back->far, away_ns, clock_now_ns() - start_ns);
	back->foreseen = 0;
}

/* A short message is here that is not in a stream, and whose sender has handled all that was sent to it, so an answer
 * like it may follow. Where the peer is far, its slots are taken from it, who has read them in the lap before and may
 * poll them already, while the message is still being handled: else the first store of the answer waits for that. From
 * one that is near they come soon, and back to it as soon, before the answer is written. What the slot says is only
 * guessed by. */
static inline void ring_foresee(const struct ring_in *ring, uint64_t head)
{
	const uint64_t parts = (uint64_t)UINT8_MAX << RECORD_AT_KIND | (uint64_t)UINT16_MAX << RECORD_AT_CREDIT |
			       (uint64_t)(RECORD_STREAM | RECORD_MORE) << RECORD_AT_FLAGS;
	struct ring_out *back = &shm_link(ring->peer)->out;

	if ((head & parts) != record_head(0, (uint16_t)back->produced, RECORD_EAGER, 0, 0) || !back->segment)
		return;
	if (__builtin_expect(++back->foreseen == FORESEEN_VOTE, 0))
		ring_vote(back);
	if (back->far < FAR_VOTES)
		return;
	prefetch_write(ring_slot(back->segment, back->produced));
	if (ring_slots((uint16_t)(head >> RECORD_AT_LENGTH)) > 1)
		prefetch_write(ring_slot(back->segment, back->produced + 1));
}

/* With a message that is not in a stream the poll ends, or with its last piece. If both sides send at once, the next
 * one may be here already, and would be taken before its receive is posted and the program's own next one is sent. From
 * then on the two would not copy at the same time any more, but wait for each other. In a stream a poll ends with a
 * long message, the like of which has no receive yet: the next one would be copied twice. */
int ring_take(struct ring_in *ring)
{
	const struct record *slot = ring_slot(ring->segment, ring->next);
	uint64_t head = slot_head(slot);
	bool ended;
	int n = 0;

	ring_foresee(ring, head);
	for (;;) {
		ended = ring_handle(ring, slot, head);
		if (ring->handled - ring->credited >= PUBLISH_SLOTS || ring_is_due(ring))
			ring_publish(ring);
		if (++n == RING_BURST || ended || !ring_ready(ring))
			break;
		slot = ring_slot(ring->segment, ring->next);
		head = slot_head(slot);
		prefetch_read(ring_slot(ring->segment, ring->next + AHEAD));
	}
	ring->polls = 0;
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
