/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * records: numbers, slots, credit.
 *
 * A record may be sent while its number is below what the peer has granted, and a slot is free. Its slot is free again
 * when the peer has said that it was handled, and the adapter does not read it any more. After a queue was made anew,
 * all that the peer does not have go again, in order; what comes twice is dropped by its number.
 *
 * What was handled and granted is said in each head; a note, which has no number, says it where no record goes: when
 * three quarters of what may come have come, when the sender asks for it (HEAD_SOON: its slots are few before that, its
 * queue is wanted for another peer, or it closes), or after CARD_OWED. A note costs both sides as much as a record.
 * Each head says, too, whether there is backpressure. When that changes, who sends hears of it after his next record;
 * who sends nothing need not, and a note to him would need a receive that strict credit does not count.
 */
#include <string.h>

#include "transport/verbs/card.h"

/* What stands in front of a payload at most. */
enum { RECORD_FRONT = sizeof(struct head) + sizeof(struct record) + sizeof(struct lent_there) };

/* A number from its low half, near one that is known. */
static uint64_t number_near(uint64_t known, uint32_t low)
{
	return known + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)known);
}

/* What stands in front of the payload. */
static uint32_t head_bytes(const struct head *head)
{
	if (head->flags & HEAD_SHORT)
		return sizeof(struct head_short);
	return (uint32_t)(sizeof(struct head) + (head->flags & HEAD_RECORD ? sizeof(struct record) : 0) +
			  (head->flags & HEAD_LENT ? sizeof(struct lent_there) : 0));
}

uint32_t records_piece_max(const struct card *card)
{
	return card->setup.slot - CARD_FRONT - RECORD_FRONT;
}

uint32_t records_promise(struct pair *pair)
{
	uint32_t share = pair->card->share;

	if (pair->promised < pair->expected + share)
		pair->promised = pair->expected + share;
	return share;
}

/* So many were handled, and up to this one may be sent. */
static void records_grant(struct pair *pair, uint64_t handled, uint64_t granted)
{
	pair->granted = granted;
	pair->few_at = granted - (granted - handled) / 4;
}

/* How many records are worth a note to who may send so many, before he has to wait. */
static uint64_t share_worth(uint64_t share)
{
	return share - (share < 8 ? share > 0 : share / 4);
}

/* Say in a head what was handled, and whether there is backpressure. */
static void records_stamp(struct pair *pair, struct head *head)
{
	pair->told_share = records_promise(pair);
	pair->tell_at = pair->expected + share_worth(pair->told_share);
	head->handled = (uint32_t)pair->expected;
	head->granted = (uint32_t)(pair->expected + pair->told_share);
	head->flags &= (uint16_t)~HEAD_BACKPRESSURE;
	if (pair->card->owner->backpressure)
		head->flags |= HEAD_BACKPRESSURE;
	pair->owed_ns = UINT64_MAX;
}

uint64_t records_first(const struct pair *pair)
{
	struct list_node *node = list_first(&pair->sent);

	return node ? container_of(node, struct send_slot, node)->number : pair->next;
}

/* Slots are few: its sender is to look whether there are more. Returns whether to have the peer say at once what it has
 * handled: all that it was asked for is told of, and it does not say so by itself. */
static bool slot_asks(struct pair *pair, const struct send_slot *slot)
{
	uint64_t first = records_first(pair);

	pair->card->owner->tight = true;
	return first >= pair->asked && slot->number - first < share_worth(pair->granted - first);
}

void records_anew(struct pair *pair)
{
	pair->like_out = UINT64_MAX;
	pair->front_in.head.flags = 0;
}

/* Whether the peer can make up what stands in front of the payload from what the record before it had. */
static bool slot_is_like(const struct pair *pair, const struct send_slot *slot)
{
	const struct head_short *front = (const void *)slot->bytes, *before = &pair->front_out;

	return slot->number == pair->like_out && front->tag == before->tag && front->imm == before->imm &&
	       (front->head.flags & ~HEAD_SOON) == before->head.flags && pair->told_share <= WORD_GRANTED_MAX;
}

/* It was posted: the next one may be like it. */
static void slot_front(struct pair *pair, const struct send_slot *slot, bool like)
{
	const struct head_short *front = (const void *)slot->bytes;

	if (!(front->head.flags & HEAD_SHORT))
		return; /* and the next one's number is not that of like_out */
	pair->like_out = slot->number + 1;
	if (like)
		return;
	pair->front_out = *front;
	pair->front_out.head.flags &= (uint16_t)~HEAD_SOON;
}

/* Whether without its front it is less than a head, with the word behind it. */
static bool slot_is_tiny(const struct send_slot *slot)
{
	return slot->length - sizeof(struct head_short) < sizeof(struct head) - sizeof(uint32_t);
}

/* Without the front, and with the word that says what that would: what is tiny costs less with it behind the payload
 * than beside it. */
static inline void slot_shorten(const struct pair *pair, const struct send_slot *slot, struct nic_segment *segment,
			 struct nic_work *work)
{
	const struct head *head = (const void *)slot->bytes;
	uint32_t word = (head->handled & UINT16_MAX) | pair->told_share << WORD_GRANTED |
			(uint32_t)!!(head->flags & HEAD_SOON) << WORD_SOON;

	segment->address = slot->bytes + sizeof(struct head_short);
	segment->length -= (uint32_t)sizeof(struct head_short);
	if (slot_is_tiny(slot)) {
		memcpy(slot->bytes + slot->length, &word, sizeof(word));
		segment->length += (uint32_t)sizeof(word);
		return;
	}
	work->count = segment->length > 0;
	work->flags |= NIC_POST_IMM;
	work->imm = word;
}

/* An adapter that has the bytes needs the slot no more, and nobody waits for the end of its work. */
static inline __attribute__((always_inline)) int slot_post(struct pair *pair, struct send_slot *slot)
{
	struct card *card = pair->card;
	struct head *head = (struct head *)(void *)slot->bytes;
	struct nic_segment segment = {slot->bytes, slot->length, card->registered.local_key};
	struct nic_work work = {.operation = NIC_SEND, .count = 1, .segments = &segment};
	bool like, has;
	int status;

	records_stamp(pair, head);
	if (slot->number >= pair->few_at || pair->works >= card->works_few)
		card->owner->tight = true;
	if (slot->slots->count < slot->slots->few && slot_asks(pair, slot)) {
		head->flags |= HEAD_SOON;
		pair->asked = slot->number + 1;
	}
	like = (slot_is_tiny(slot) || card->nic->limits.can & NIC_CAN_IMM) && slot_is_like(pair, slot);
	if (like)
		slot_shorten(pair, slot, &segment, &work);
	has = segment.length <= card->nic->limits.inline_max;
	work.id = has ? work_id(WORK_NOTE, 0) : work_id(WORK_SLOT, slot->index);
	if (has)
		work.flags |= NIC_POST_INLINE | NIC_POST_SILENT;
	status = pair_post(pair, &work);
	slot->flying = !status && !has;
	if (status == 0)
		slot_front(pair, slot, like);
	return status;
}

static void slot_put(struct send_slot *slot)
{
	slot->handled = false;
	list_push_front(&slot->slots->free, &slot->node);
	slot->slots->count++;
}

void records_ended(struct card *card, uint32_t index)
{
	struct send_slot *slot = &card->slots[index];

	slot->flying = false;
	if (slot->handled)
		slot_put(slot);
}

void records_handled(struct pair *pair, uint64_t handled)
{
	struct list_node *node;

	while ((node = list_first(&pair->sent))) {
		struct send_slot *slot = container_of(node, struct send_slot, node);

		if (slot->number >= handled)
			return;
		list_remove(node);
		slot->handled = true;
		if (!slot->flying)
			slot_put(slot);
	}
}

void records_release(struct pair *pair)
{
	records_handled(pair, UINT64_MAX);
}

static bool record_has_window(const struct record *record)
{
	return record->kind == RECORD_RTS || (record->kind < RECORD_MESSAGE_KINDS && record->flags & RECORD_WINDOW);
}

static bool record_is_short(const struct record *record)
{
	return record->kind == RECORD_EAGER && record->length != RECORD_EXTERNAL &&
	       !(record->flags & ~(RECORD_IMM | RECORD_PLAIN));
}

/* As struct head_short. The payload may be in the record. Returns where it ends. */
static uint8_t *slot_write_short(struct pair *pair, struct send_slot *slot, const struct record *record,
				 const struct vector *payload, uint64_t offset, uint32_t length)
{
	struct head_short *at = (void *)slot->bytes;
	uint8_t *to = slot->bytes + sizeof(*at);

	at->head = (struct head){
		.number = (uint32_t)pair->next,
		.flags = (uint16_t)(HEAD_RECORD | HEAD_SHORT | record->flags << HEAD_RECORD_FLAGS),
		.length = (uint16_t)(length ? length : record->length),
	};
	at->tag = record->tag;
	at->imm = record->imm;
	if (length > 0)
		card_copy_out(pair->card, payload, offset, to, length, length);
	else if (record->length > 0)
		bytes_copy(to, record->payload, record->length);
	return to + at->head.length;
}

/* Write head and record into a slot, as they are, and the payload behind them. Returns where it ends. */
__attribute__((noinline)) static uint8_t *slot_write_whole(struct pair *pair, struct send_slot *slot,
							   const struct record *record, const struct vector *payload,
							   uint64_t offset, uint32_t length)
{
	struct head head = {.number = (uint32_t)pair->next, .flags = HEAD_RECORD, .length = (uint16_t)length};
	struct record *copy = (struct record *)(void *)(slot->bytes + sizeof(head));
	struct lent_there there;
	uint8_t *at = slot->bytes + sizeof(head) + sizeof(*copy);

	*copy = *record;
	if (record_has_window(record) && bulk_verbs_offer(pair, copy, &there)) {
		memcpy(at, &there, sizeof(there));
		at += sizeof(there);
		head.flags |= HEAD_LENT;
	}
	if (length > 0 && copy->length != RECORD_EXTERNAL && !(record->flags & RECORD_MORE))
		memset(copy->payload, 0, sizeof(copy->payload)); /* it has no arguments */
	if (length > 0 || record->flags & RECORD_MORE)
		copy->length = RECORD_EXTERNAL;
	if (length > 0)
		card_copy_out(pair->card, payload, offset, at, length, length);
	memcpy(slot->bytes, &head, sizeof(head));
	return at + length;
}

/* Slots that have room for a record: the small ones, if it has there. */
static struct slots *slots_for(struct card *card, const struct record *record, uint32_t length, bool brief)
{
	uint32_t bytes = brief ? (uint32_t)sizeof(struct head_short) + (length ? length : record->length)
			       : RECORD_FRONT + length;

	return bytes <= card->small_most ? &card->small : &card->large;
}

static void slot_write(struct pair *pair, struct send_slot *slot, const struct record *record,
		       const struct vector *payload, uint64_t offset, uint32_t length, bool brief)
{
	const uint8_t *end = brief ? slot_write_short(pair, slot, record, payload, offset, length)
				   : slot_write_whole(pair, slot, record, payload, offset, length);

	slot->length = (uint32_t)(end - slot->bytes);
	slot->number = pair->next++;
}

/* The peer is to be told what was handled, by then at the latest. */
static void records_owe(struct pair *pair, uint64_t when_ns)
{
	if (when_ns >= pair->owed_ns)
		return;
	pair->owed_ns = when_ns;
	card_wake(pair->card, when_ns);
}

/* A head was not posted: what it was to ask is not asked, and what it was to say, if anything was owed, a note says. */
static void head_unsaid(struct pair *pair, const struct head *head, uint64_t owed_ns)
{
	if (head->flags & HEAD_SOON)
		pair->asked = records_first(pair);
	if (owed_ns != UINT64_MAX)
		records_owe(pair, pair->card->now_ns);
}

/* One that was not posted. */
__attribute__((noinline)) static void slot_take_back(struct pair *pair, struct send_slot *slot, uint64_t owed_ns)
{
	list_remove(&slot->node);
	slot_put(slot);
	pair->next--;
	head_unsaid(pair, (const void *)slot->bytes, owed_ns);
}

int records_push(struct pair *pair, const struct record *record, const struct vector *payload, uint64_t offset,
		 uint32_t length)
{
	struct card *card = pair->card;
	bool brief = record_is_short(record);
	struct slots *slots = slots_for(card, record, length, brief);
	struct list_node *node = list_first(&slots->free);
	struct send_slot *slot;
	uint64_t owed_ns;

	if (pair->state != PAIR_OPEN) {
		pair_want(pair);
		return THOLE_ERR_AGAIN;
	}
	if (pair->next >= pair->granted || !node || pair->again || !pair_has_room(pair)) {
		transport_count(card->owner, COUNTER_RING_STALLS);
		return THOLE_ERR_AGAIN;
	}
	slot = container_of(node, struct send_slot, node);
	list_remove(node);
	slots->count--;
	slot_write(pair, slot, record, payload, offset, length, brief);
	list_push_back(&pair->sent, &slot->node);
	owed_ns = pair->owed_ns;
	if (slot_post(pair, slot) == THOLE_ERR_AGAIN) { /* else, where it fails, it goes by the next queue */
		slot_take_back(pair, slot, owed_ns);
		return THOLE_ERR_AGAIN;
	}
	pair_alive(pair);
	card_wake(card, pair->alive_ns + CARD_PROBE_TOLD);
	return 0;
}

bool records_say(struct pair *pair, const struct record *record)
{
	return records_push(pair, record, NULL, 0, 0) == 0;
}

void records_again(struct pair *pair, uint64_t expected, uint32_t share)
{
	bool gap = expected > pair->next;

	records_handled(pair, gap ? pair->next : expected);
	if (pair->granted < expected + share)
		records_grant(pair, expected, expected + share);
	for (struct list_node *node = list_first(&pair->sent); node; node = list_next(&pair->sent, node)) {
		struct send_slot *slot = container_of(node, struct send_slot, node);

		if (slot->number < pair->again_at)
			continue; /* this queue has it: who posts it twice is told twice that it does not fly */
		if (slot_post(pair, slot) != 0)
			return;
		pair->again_at = slot->number + 1;
	}
	pair->again = false;
}

static void note_post(struct pair *pair, uint16_t flags)
{
	struct head head = {.number = (uint32_t)pair->next, .flags = flags};
	struct nic_segment segment = {&head, sizeof(head), 0};
	struct nic_work work = {.operation = NIC_SEND, .flags = NIC_POST_INLINE | NIC_POST_SILENT, .count = 1,
				.segments = &segment, .id = work_id(WORK_NOTE, 0)};
	uint64_t owed_ns = pair->owed_ns;

	records_stamp(pair, &head);
	if (pair_post(pair, &work) == THOLE_ERR_AGAIN) /* else, where it fails, the queue is broken, and says so */
		head_unsaid(pair, &head, owed_ns);
}

void records_tell(struct pair *pair)
{
	if (pair->state != PAIR_OPEN) {
		pair->owed_ns = UINT64_MAX; /* the next queue begins with it */
		return;
	}
	if (!pair_has_room(pair))
		return;
	transport_count(pair->card->owner, COUNTER_ACKS_SENT);
	note_post(pair, 0);
}

void records_tell_chunk(struct pair *pair)
{
	note_post(pair, HEAD_CHUNK);
}

bool records_drained(const struct pair *pair)
{
	return list_empty(&pair->sent) && pair->owed_ns == UINT64_MAX;
}

void records_hasten(struct pair *pair)
{
	if (pair->owed_ns != UINT64_MAX)
		records_owe(pair, pair->card->now_ns);
	if (!list_empty(&pair->sent) && pair->asked < pair->next && pair->state == PAIR_OPEN && !pair->again &&
	    pair_has_room(pair) && records_first(pair) >= pair->asked) {
		pair->asked = pair->next;
		note_post(pair, HEAD_SOON);
	}
}

void records_press(struct pair *pair)
{
	pair->tell_at = 0;
}

static bool head_is_good(const struct pair *pair, const struct head *head, uint32_t length)
{
	const uint16_t whole = HEAD_RECORD | HEAD_LENT | HEAD_SOON, briefly = HEAD_RECORD | HEAD_SHORT,
		       may = HEAD_SOON | (RECORD_IMM | RECORD_PLAIN) << HEAD_RECORD_FLAGS,
		       flags = head->flags & (uint16_t)~HEAD_BACKPRESSURE;

	return length >= sizeof(*head) &&
	       (flags == HEAD_CHUNK || !(flags & ~whole) || (flags & ~may) == briefly) &&
	       head_bytes(head) + head->length == length && (head->flags & HEAD_RECORD || head->length == 0) &&
	       number_near(pair->next, head->handled) <= pair->next;
}

/* What came as a struct head_short, as a record, which ends where the payload begins or has all of it. */
static const struct record *record_of_short(uint8_t *bytes, const struct head *head)
{
	struct record *record = (void *)(bytes + sizeof(struct head_short) - offsetof(struct record, payload));

	record->kind = RECORD_EAGER;
	record->flags = (uint8_t)(head->flags >> HEAD_RECORD_FLAGS);
	record->length = head->length <= RECORD_INLINE_MAX ? head->length : RECORD_EXTERNAL;
	return record;
}

/* Words come by the connection alone: one within a word could have another within it, as deep as a peer likes. */
static bool record_is_good(const struct head *head, const struct record *record)
{
	return record->kind != RECORD_CARD &&
	       (record->length == RECORD_EXTERNAL || (record->length <= RECORD_INLINE_MAX && head->length == 0));
}

static inline void record_deliver_short(struct transport_peer *peer, const struct head *head, uint8_t *bytes)
{
	peer->owner->up->delivered(peer, record_of_short(bytes, head), bytes + sizeof(struct head_short), head->length);
}

/* queue: it has come by the queue that is there now. Of another one neither what it lends is of use, nor are records of
 * transfers, which went with that. */
static void record_deliver(struct pair *pair, const struct head *head, uint8_t *bytes, bool queue)
{
	struct transport_peer *peer = pair->peer;
	const uint8_t *at = bytes + sizeof(*head) + sizeof(struct record);
	const struct record *record = (const void *)(bytes + sizeof(*head)); /* slots are aligned */
	struct lent_there there;

	if (head->flags & HEAD_SHORT) {
		record_deliver_short(peer, head, bytes);
		return;
	}
	if (!record_is_good(head, record)) {
		transport_bad(peer);
		return;
	}
	if (head->flags & HEAD_LENT) {
		memcpy(&there, at, sizeof(there));
		at += sizeof(there);
		if (queue)
			bulk_verbs_offered(pair, record->arg[2], &there);
	}
	if (record->kind >= RECORD_BULK) {
		if (queue)
			bulk_verbs_record(pair, record);
	} else {
		peer->owner->up->delivered(peer, record,
					   record->length == RECORD_EXTERNAL ? (const void *)at : record->payload,
					   record->length == RECORD_EXTERNAL ? head->length : record->length);
	}
}

/* Whether it is the next one, which it is then no more. */
static inline bool record_is_next(struct pair *pair, uint32_t low)
{
	uint64_t number = number_near(pair->expected, low);

	if (number != pair->expected) { /* it came by the queue before */
		if (number > pair->expected)
			transport_bad(pair->peer);
		return false;
	}
	pair->expected++;
	if (!pair->heard) {
		pair->heard = true;
		pair_count(pair);
	}
	if (pair->expected >= pair->tell_at)
		records_owe(pair, pair->card->now_ns);
	else if (pair->owed_ns == UINT64_MAX)
		records_owe(pair, pair->card->now_ns + CARD_OWED);
	if (pair->ending)
		card_attend(pair);
	return true;
}

/* Its bytes, which have a good head. */
static void record_take(struct pair *pair, uint8_t *bytes)
{
	struct head head;

	memcpy(&head, bytes, sizeof(head));
	if (record_is_next(pair, head.number))
		record_deliver(pair, &head, bytes, true);
}

/* Whether a record by the queue waits for those that went by the connection before. Those of transfers go by the queue
 * alone, but keep their places. */
static bool record_waits(const struct pair *pair, const struct head *head, const uint8_t *bytes)
{
	const struct record *record = (const void *)(bytes + sizeof(*head));

	return pair->held || (pair->behind && (head->flags & HEAD_SHORT || record->kind < RECORD_BULK));
}

/* Whether one that waits is to be kept: it is not here yet, and may have been sent. All peers share the receives that
 * such are kept in. */
static bool record_keeps(struct pair *pair, const struct head *head)
{
	uint64_t number = number_near(pair->expected, head->number);

	if (number < pair->expected || (pair->held && number < pair->held_next))
		return false;
	if (number >= pair->promised) {
		transport_bad(pair->peer);
		return false;
	}
	pair->held_next = number + 1;
	return true;
}

/* Something has come by the queue, and says of the other direction what heads do. */
static inline void records_told(struct pair *pair, uint64_t handled, uint64_t granted, unsigned flags)
{
	pair->proven = true;
	pair->rts_only = flags & HEAD_BACKPRESSURE;
	pair_alive(pair);
	if (!list_empty(&pair->sent))
		records_handled(pair, handled);
	if (granted > pair->granted && granted <= pair->next + UINT16_MAX)
		records_grant(pair, handled, granted);
	if (flags & HEAD_SOON)
		records_owe(pair, pair->card->now_ns);
}

bool records_front(struct pair *pair, uint8_t *bytes, uint32_t payload, uint32_t word)
{
	struct head_short *front = &pair->front_in;
	uint64_t handled = pair->next + (uint64_t)(int64_t)(int16_t)(uint16_t)(word - (uint32_t)pair->next);

	if (!front->head.flags || payload > UINT16_MAX || handled > pair->next) {
		transport_bad(pair->peer);
		return true;
	}
	front->head.number++;
	front->head.length = (uint16_t)payload;
	memcpy(bytes, front, sizeof(*front));
	records_told(pair, handled, handled + (word >> WORD_GRANTED & WORD_GRANTED_MAX),
		     (front->head.flags & HEAD_BACKPRESSURE) | (word >> WORD_SOON ? HEAD_SOON : 0));
	if (pair->held || pair->behind)
		return !record_keeps(pair, &front->head);
	if (record_is_next(pair, front->head.number))
		record_deliver_short(pair->peer, &front->head, bytes);
	return true;
}

bool records_arrived(struct pair *pair, uint8_t *bytes, uint32_t length)
{
	struct head head = {0};

	memcpy(&head, bytes, length < sizeof(head) ? length : sizeof(head));
	if (!head_is_good(pair, &head, length)) {
		transport_bad(pair->peer);
		return true;
	}
	records_told(pair, number_near(pair->next, head.handled), number_near(pair->granted, head.granted),
		     head.flags);
	if (head.flags & HEAD_CHUNK) {
		pair->arrived++;
		card_attend(pair);
	}
	if (!(head.flags & HEAD_RECORD))
		return true;
	if (head.flags & HEAD_SHORT) {
		memcpy(&pair->front_in, bytes, sizeof(pair->front_in));
		pair->front_in.head.flags &= (uint16_t)~HEAD_SOON;
	}
	if (record_waits(pair, &head, bytes))
		return !record_keeps(pair, &head);
	record_take(pair, bytes);
	return true;
}

/* Those that are held go, and come again. */
static void held_break(struct pair *pair)
{
	if (pair->state == PAIR_STOPPING)
		return;
	transport_count(pair->card->owner, COUNTER_QUEUES_CLOSED);
	pair_break(pair);
}

/* Of all receives a quarter is held by nobody: one peer alone may fill the rest, by what it is granted, and several
 * together take none from others. Who holds most has its records come again. */
static void held_bound(struct card *card)
{
	struct pair *most = NULL;

	if (card->held_count <= card->setup.receives / 4 * 3)
		return;
	for (struct list_node *node = list_first(&card->list); node; node = list_next(&card->list, node)) {
		struct pair *pair = container_of(node, struct pair, node);

		if (!most || pair->held_count > most->held_count)
			most = pair;
	}
	held_break(most);
}

/* Who polls seldom would look at a network that rests too late for the word. */
static void held_look(struct card *card)
{
	card->owner->word_awaited = true;
	if (card->owner->state[TRANSPORT_DATAGRAM])
		transport_set_polled(card->owner, TRANSPORT_DATAGRAM, true);
}

void records_hold(struct pair *pair, uint32_t receive)
{
	struct card *card = pair->card;

	card->held[receive] = 0;
	if (pair->held) {
		card->held[pair->held_last - 1] = receive + 1;
	} else {
		pair->held = receive + 1;
		pair->held_end_ns = 0;
		card_attend(pair);
	}
	pair->held_last = receive + 1;
	pair->held_count++;
	if (card->held_count++ == 0)
		held_look(card);
	card_wake(card, pair->alive_ns + CARD_PROBE_TOLD);
	held_bound(card);
}

uint64_t records_hold_ns(const struct pair *pair)
{
	return pair->held && pair->held_end_ns && pair->state == PAIR_OPEN ? pair->held_end_ns : UINT64_MAX;
}

/* Who has computed for long finds what came meanwhile, by the connection too: the time begins with the first look, and
 * of it counts what is between two looks. */
void records_hold_turn(struct pair *pair)
{
	uint64_t now_ns = pair->card->now_ns;

	if (!pair->held || (pair->held_end_ns && records_hold_ns(pair) > now_ns))
		return;
	pair->held_looks = pair->held_end_ns ? (uint8_t)(pair->held_looks + 1) : 0;
	pair->held_end_ns = now_ns + CARD_HOLDS;
	if (pair->held_looks >= CARD_HOLD_LOOKS)
		held_break(pair);
}

/* Take the first one of those that are held off. */
static uint32_t held_first(struct pair *pair)
{
	uint32_t receive = pair->held - 1;

	pair->held = pair->card->held[receive];
	pair->held_count--;
	if (--pair->card->held_count == 0)
		pair->card->owner->word_awaited = false;
	return receive;
}

void records_follow(struct pair *pair)
{
	pair->behind = false;
	while (pair->held) {
		uint32_t receive = held_first(pair);

		uint8_t *slot = card_received_at(pair->card, receive);
		uint32_t at;

		memcpy(&at, slot, sizeof(at));
		record_take(pair, slot + at); /* if the pair dies by that, none is held */
		card_receive(pair->card, receive);
	}
}

void records_forget(struct pair *pair)
{
	while (pair->held)
		card_receive(pair->card, held_first(pair));
}

void records_repeated(struct pair *pair, uint8_t *bytes, uint32_t length)
{
	struct head head = {0};

	memcpy(&head, bytes, length < sizeof(head) ? length : sizeof(head));
	if (!head_is_good(pair, &head, length) || !(head.flags & HEAD_RECORD)) {
		transport_bad(pair->peer);
		return;
	}
	if (number_near(pair->expected, head.number) != pair->expected)
		return; /* it had come by the queue */
	pair->expected++;
	record_deliver(pair, &head, bytes, false);
}
