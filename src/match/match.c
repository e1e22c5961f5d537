/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The indexes of match.h: classes of masks, and their tables.
 *
 * Nothing here runs while the oldest entry is the right one, or while the lists are short but for
 * a scan.
 */
#include "match/match.h"

#include <stdlib.h>
#include <string.h>

enum {
	TABLE_SIZE_FIRST = 64,
	BUILD_COST = 8 /* indexing an entry costs about what comparing this many does */
};
#define TABLE_SIZE_MAX (UINT32_C(1) << 31)

/* ---- Tables -------------------------------------------------------------------------------- */

/* The halves of one long product folded: whichever bits of the tags differ, one of the halves has
 * spread them to all of the hash. */
static inline uint32_t key_hash(const struct match *match, uint64_t tag, uint32_t source)
{
	uint64_t key = tag ^ match->salt ^ source * UINT64_C(0xd6e8feb86659fd93);
	unsigned __int128 product = (unsigned __int128)key * match->factor;

	return (uint32_t)((uint64_t)product >> 32 ^ (uint64_t)(product >> 64));
}

static inline bool slot_has(const struct match_slot *slot, uint32_t hash, uint64_t tag,
			    uint32_t source)
{
	return slot->hash == hash && slot->tag == tag && slot->source == source;
}

static struct match_slot *table_find(struct match *match, struct match_table *table, uint64_t tag,
				     uint32_t source)
{
	uint32_t hash = key_hash(match, tag, source);
	uint32_t last = table->size - 1;

	if (table->keys == 0)
		return NULL;
	for (uint32_t at = hash & last; table->slots[at].first; at = (at + 1) & last) {
		struct match_slot *slot = &table->slots[at];

		match->probed++;
		if (slot_has(slot, hash, tag, source)) {
			table->hint = slot;
			return slot;
		}
	}
	return NULL;
}

/* The first free slot for a hash; there is one. */
static struct match_slot *slots_free(struct match_slot *slots, uint32_t size, uint32_t hash)
{
	uint32_t at = hash & (size - 1);

	while (slots[at].first)
		at = (at + 1) & (size - 1);
	return &slots[at];
}

/* Double the table, or leave it as it is where memory is refused. */
static void table_grow(struct match_table *table)
{
	uint32_t size = table->size ? table->size * 2 : TABLE_SIZE_FIRST;
	struct match_slot *slots;

	if (table->size == TABLE_SIZE_MAX)
		return;
	slots = calloc(size, sizeof(*slots));
	if (!slots)
		return;
	for (uint32_t i = 0; i < table->size; i++) {
		const struct match_slot *slot = &table->slots[i];

		if (slot->first)
			*slots_free(slots, size, slot->hash) = *slot;
	}
	free(table->slots);
	table->slots = slots;
	table->size = size;
	table->hint = NULL;
}

/* Append an entry to those with its key. Returns false if there is no room and no memory for
 * more. */
static bool table_insert(struct match *match, struct match_table *table, uint64_t tag,
			 uint32_t source, struct list_node *node)
{
	uint32_t hash = key_hash(match, tag, source);
	struct match_slot *slot;
	uint32_t last, at;

	/* Half empty, since what probing costs is branches that nobody can predict. */
	if (table->keys >= table->size / 2)
		table_grow(table);
	if (table->size == 0)
		return false;
	last = table->size - 1;
	for (at = hash & last; table->slots[at].first; at = (at + 1) & last) {
		if (!slot_has(&table->slots[at], hash, tag, source))
			continue;
		/* In a ring, before the first is behind the last. */
		list_push_back(table->slots[at].first, node);
		return true;
	}
	/* At least one slot stays free, so that probing ends. */
	if (table->keys + 1 >= table->size)
		return false;
	slot = &table->slots[at];
	slot->tag = tag;
	slot->first = node;
	slot->source = source;
	slot->hash = hash;
	table->keys++;
	list_init(node);
	return true;
}

/* Free a slot, and move slots behind it up so that none is cut off from where its probing begins.
 */
static void slot_clear(struct match_table *table, struct match_slot *slot)
{
	uint32_t last = table->size - 1;
	uint32_t hole = (uint32_t)(slot - table->slots);

	for (uint32_t at = (hole + 1) & last; table->slots[at].first; at = (at + 1) & last) {
		uint32_t home = table->slots[at].hash & last;

		/* It may move into the hole unless its home is after the hole. */
		if (((at - home) & last) < ((at - hole) & last))
			continue;
		table->slots[hole] = table->slots[at];
		hole = at;
	}
	table->slots[hole].first = NULL;
	table->keys--;
}

static void table_remove(struct match *match, struct match_table *table, uint64_t tag,
			 uint32_t source, struct list_node *node)
{
	struct match_slot *slot = table->hint;

	/* A node is the first of no slot but its own. */
	if (!slot || slot->first != node)
		slot = table_find(match, table, tag, source);
	if (node->next == node) {
		slot_clear(table, slot);
		return;
	}
	if (slot->first == node)
		slot->first = node->next;
	list_unlink(node);
}

static void table_clear(struct match_table *table)
{
	if (table->keys)
		memset(table->slots, 0, table->size * sizeof(*table->slots));
	table->keys = 0;
}

/* ---- Posted receives ----------------------------------------------------------------------- */

static bool class_serves(const struct match_class *class, uint64_t mask, bool any)
{
	return class->mask == mask && class->any == any;
}

/* The class that a receive belongs to, made from one without receives if need be; NULL if all are
 * taken. */
static struct match_class *receive_class(struct match *match, uint64_t mask, bool any)
{
	struct match_class *spare = NULL;

	for (uint32_t i = 0; i < match->receive_classes_top; i++) {
		struct match_class *class = &match->receive_classes[i];

		if (class_serves(class, mask, any))
			return class;
		if (class->table.keys == 0 && !spare)
			spare = class;
	}
	if (!spare && match->receive_classes_top < MATCH_CLASSES)
		spare = &match->receive_classes[match->receive_classes_top++];
	if (spare) {
		spare->mask = mask;
		spare->any = any;
	}
	return spare;
}

static void receive_index(struct match *match, struct match_receive *receive)
{
	struct match_class *class =
		receive_class(match, receive->mask, receive->source == MATCH_ANY);

	if (class && table_insert(match, &class->table, receive->tag & receive->mask,
				  receive->source, &receive->same)) {
		receive->home = (uint32_t)(class - match->receive_classes);
	} else {
		list_push_back(&match->unclassed, &receive->same);
		receive->home = MATCH_HOME_LIST;
	}
}

/* Index the receives that were posted since this was last done. */
static void receives_index(struct match *match)
{
	struct list_node *node = match->unindexed;

	for (; node != &match->receives; node = node->next)
		receive_index(match, container_of(node, struct match_receive, posted));
	match->unindexed = node;
}

void match_receive_unindex(struct match *match, struct match_receive *receive)
{
	if (receive->home == MATCH_HOME_LIST)
		list_unlink(&receive->same);
	else
		table_remove(match, &match->receive_classes[receive->home].table,
			     receive->tag & receive->mask, receive->source, &receive->same);
}

static struct match_receive *receives_scan(struct match *match, uint32_t source, uint64_t tag)
{
	struct list_node *node = match->receives.next->next;

	for (; node != &match->receives; node = node->next) {
		struct match_receive *receive = container_of(node, struct match_receive, posted);

		match->compared++;
		if (match_agrees(source, tag, receive->source, receive->tag, receive->mask))
			return receive;
	}
	return NULL;
}

/* The oldest receive without a class that matches and is older than another one (NULL: than
 * none), else that one. */
static struct match_receive *unclassed_scan(struct match *match, uint32_t source, uint64_t tag,
					    struct match_receive *other)
{
	struct list_node *node = match->unclassed.next;

	for (; node != &match->unclassed; node = node->next) {
		struct match_receive *receive = container_of(node, struct match_receive, same);

		if (other && other->order < receive->order)
			break;
		match->compared++;
		if (match_agrees(source, tag, receive->source, receive->tag, receive->mask))
			return receive;
	}
	return other;
}

struct match_receive *match_arrive_search(struct match *match, uint32_t source, uint64_t tag)
{
	struct match_receive *oldest = NULL;

	if (match->receive_count <= MATCH_SHORT)
		return receives_scan(match, source, tag);
	receives_index(match);
	for (uint32_t i = 0; i < match->receive_classes_top; i++) {
		struct match_class *class = &match->receive_classes[i];
		struct match_slot *slot = table_find(match, &class->table, tag & class->mask,
						     class->any ? MATCH_ANY : source);
		struct match_receive *receive;

		if (!slot)
			continue;
		receive = container_of(slot->first, struct match_receive, same);
		match->compared++;
		if (!oldest || receive->order < oldest->order)
			oldest = receive;
	}
	return unclassed_scan(match, source, tag, oldest);
}

/* ---- Unexpected messages ------------------------------------------------------------------- */

/* The lowest class of a set of them, taken out of the set. */
static inline uint32_t classes_next(uint32_t *classes)
{
	uint32_t number = (uint32_t)__builtin_ctz(*classes);

	*classes &= *classes - 1;
	return number;
}

static uint32_t message_key_source(const struct match_class *class,
				   const struct match_message *message)
{
	return class->any ? MATCH_ANY : message->source;
}

static bool message_class_insert(struct match *match, uint32_t number,
				 struct match_message *message)
{
	struct match_class *class = &match->message_classes[number];

	return table_insert(match, &class->table, message->tag & class->mask,
			    message_key_source(class, message), &message->same[number]);
}

/* The class has no entry for any message any more. */
static void message_class_drop(struct match *match, uint32_t number)
{
	table_clear(&match->message_classes[number].table);
	match->message_classes_active &= ~(1U << number);
}

void match_message_index(struct match *match, struct match_message *message)
{
	for (uint32_t classes = match->message_classes_active; classes;) {
		uint32_t number = classes_next(&classes);

		if (!message_class_insert(match, number, message)) {
			message_class_drop(match, number);
			match->refused = true;
		}
	}
}

void match_message_unindex(struct match *match, struct match_message *message)
{
	for (uint32_t classes = match->message_classes_active; classes;) {
		uint32_t number = classes_next(&classes);
		struct match_class *class = &match->message_classes[number];

		table_remove(match, &class->table, message->tag & class->mask,
			     message_key_source(class, message), &message->same[number]);
	}
	/* With the last message gone, the next ones need no index until a search wants it. */
	if (match->message_count == 1)
		match->message_classes_active = 0;
}

/* A class for a mask that has none: one that is not active, else the one that was not searched
 * for longest; but that, and a new attempt after memory was refused, only when it is worth
 * building an index again. MATCH_CLASSES if not. */
static uint32_t message_class_spare(struct match *match)
{
	bool worth = match->debt / BUILD_COST >= match->message_count;
	uint32_t active = match->message_classes_active;
	uint32_t spare = 0;

	for (uint32_t i = 0; i < MATCH_CLASSES && (active >> spare & 1); i++)
		if (!(active >> i & 1) ||
		    match->message_classes[i].used < match->message_classes[spare].used)
			spare = i;
	if (((active >> spare & 1) || match->refused) && !worth)
		return MATCH_CLASSES;
	if (active >> spare & 1)
		message_class_drop(match, spare);
	match->debt = 0;
	return spare;
}

/* Make a class for a mask, with all messages in it. MATCH_CLASSES where that is not worth it, or
 * memory is refused. */
static uint32_t message_class_make(struct match *match, uint64_t mask, bool any)
{
	uint32_t number = message_class_spare(match);
	struct list_node *node = match->messages.next;

	if (number == MATCH_CLASSES)
		return MATCH_CLASSES;
	match->message_classes[number].mask = mask;
	match->message_classes[number].any = any;
	match->message_classes_active |= 1U << number;
	match->refused = false;
	for (; node != &match->messages; node = node->next) {
		if (!message_class_insert(match, number,
					  container_of(node, struct match_message, arrived))) {
			message_class_drop(match, number);
			match->refused = true;
			return MATCH_CLASSES;
		}
	}
	return number;
}

/* The class that has the messages for such searches, or MATCH_CLASSES. */
static uint32_t message_class(struct match *match, uint64_t mask, bool any)
{
	for (uint32_t classes = match->message_classes_active; classes;) {
		uint32_t number = classes_next(&classes);

		if (class_serves(&match->message_classes[number], mask, any))
			return number;
	}
	return message_class_make(match, mask, any);
}

static struct match_message *messages_scan(struct match *match, uint32_t source, uint64_t tag,
					   uint64_t mask)
{
	struct list_node *node = match->messages.next->next;

	for (; node != &match->messages; node = node->next) {
		struct match_message *message = container_of(node, struct match_message, arrived);

		match->compared++;
		if (match_agrees(message->source, message->tag, source, tag, mask))
			return message;
	}
	return NULL;
}

struct match_message *match_find_search(struct match *match, uint32_t source, uint64_t tag,
					uint64_t mask)
{
	struct match_message *message;
	struct match_class *class;
	struct match_slot *slot;
	uint32_t number;

	if (match->message_count <= MATCH_SHORT)
		return messages_scan(match, source, tag, mask);
	number = message_class(match, mask, source == MATCH_ANY);
	if (number == MATCH_CLASSES) {
		uint64_t before = match->compared;

		message = messages_scan(match, source, tag, mask);
		match->debt += match->compared - before;
		return message;
	}
	class = &match->message_classes[number];
	class->used = ++match->searches;
	slot = table_find(match, &class->table, tag & mask, source);
	if (!slot)
		return NULL;
	match->compared++;
	return container_of(slot->first - number, struct match_message, same);
}

/* ---- The whole ----------------------------------------------------------------------------- */

int match_init(struct match *match)
{
	memset(match, 0, sizeof(*match));
	list_init(&match->receives);
	list_init(&match->messages);
	list_init(&match->unclassed);
	match->unindexed = &match->receives;
	match_salt(match, 0);
	return 0;
}

void match_fini(struct match *match)
{
	for (uint32_t i = 0; i < MATCH_CLASSES; i++) {
		free(match->receive_classes[i].table.slots);
		free(match->message_classes[i].table.slots);
	}
	match_init(match);
}

void match_salt(struct match *match, uint64_t salt)
{
	match->salt = salt;
	match->factor = (salt << 1) ^ UINT64_C(0x9e3779b97f4a7c15);
}
