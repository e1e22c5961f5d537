/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI matching: which message goes to which receive.
 *
 * Owns the order of posted receives and of unexpected messages, and the indexes over them. Does
 * not own the entries: a receive is embedded in a request, a message in an unexpected entry, and
 * neither may move or change its tag, mask or source while it is here. Pure: no clock, no system
 * call, no thread; memory is asked for only when an index grows, and everything stays right when
 * it is refused.
 *
 * A message (source, tag) and a receive (source or MATCH_ANY, tag, mask) match if the sources
 * agree and the tags agree in the bits of the mask. A message goes to the receive that was posted
 * first of all that match; a receive gets the message that arrived first of all that match.
 *
 * How it stays both short and flat. All entries are in lists in order, and a search first looks
 * at the oldest entry, which is it in most programs, then at the others if they are few. Only a
 * search that fails so in a long list uses an index. Receives that have the same mask and the
 * same kind of source (one, or any) form a class; in a class, a receive and a message match if
 * they have the same key, (tag & mask, source if it counts), so each class has a hash table from
 * keys to the entries with that key in order.
 *   - Receives enter the table of their class when an arrival first looks at an index after they
 *     were posted: those that are indexed are the front of the list, those that are not its end.
 *     An arrival compares the candidates of all classes by posting order.
 *   - Messages enter the table of each class that searches have been using since there were last
 *     no messages.
 *   - Receives beyond the number of classes, or without memory, go to one list that is searched
 *     in order. A class without receives serves the next mask. A message class serves the next
 *     mask when searches for masks without a class have cost as much as building an index would.
 */
#ifndef MATCH_MATCH_H
#define MATCH_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define MATCH_ANY UINT32_MAX /* any source */

enum {
	MATCH_CLASSES = 8, /* MPI needs 4: a tag or any tag, from one source or any */
	MATCH_SHORT = 8    /* a list up to this long is scanned: that costs less than an index */
};

/* A posted receive. The poster fills tag, mask and source; the rest is match's. One cache line. */
struct match_receive {
	struct list_node posted; /* all receives, in order of posting */
	struct list_node same;   /* those with the same key, or those without a class */
	uint64_t tag;
	uint64_t mask;  /* the bits of the tag that count */
	uint64_t order; /* number in order of posting */
	uint32_t source;
	uint32_t home; /* the class it is in, MATCH_HOME_LIST or MATCH_HOME_NONE */
};

/* An unexpected message. Who stores it fills tag and source; the rest is match's. */
struct match_message {
	struct list_node arrived; /* all messages, in order of arrival */
	uint64_t tag;
	uint32_t source;
	struct list_node same[MATCH_CLASSES]; /* in each active class: those with the same key */
};

enum {
	MATCH_HOME_LIST = MATCH_CLASSES, /* the list of receives without a class */
	MATCH_HOME_NONE                  /* not indexed yet */
};

/* One key, and the first of the entries that have it: its "same" node, whose ring has the others
 * in order. */
struct match_slot {
	uint64_t tag;            /* the bits that count */
	struct list_node *first; /* NULL: a free slot */
	uint32_t source;         /* or MATCH_ANY, in a class where it does not count */
	uint32_t hash;
};

/* Open addressing, linear probing, no tombstones. */
struct match_table {
	struct match_slot *slots; /* NULL while size is 0 */
	struct match_slot *hint;  /* the slot found last, or NULL: likely to be emptied next */
	uint32_t size;            /* a power of two, or 0 */
	uint32_t keys;            /* slots in use */
};

struct match_class {
	uint64_t mask;
	uint64_t used; /* message classes: when it was last searched */
	bool any;      /* the source does not count */
	struct match_table table;
};

struct match {
	struct list_node receives;   /* posted receives, oldest first */
	struct list_node *unindexed; /* the first of them that is in no index, or the list's head */
	uint64_t orders;             /* numbers given out to receives */
	uint32_t receive_count;
	uint32_t message_count;
	struct list_node messages;       /* unexpected messages, oldest first */
	uint32_t message_classes_active; /* bit i: class i has all messages in its table */
	uint32_t receive_classes_top;    /* classes from here on have never had receives */
	struct list_node unclassed;      /* receives without a class, oldest first */
	uint64_t salt;     /* of the hashes, so that a peer cannot choose tags that collide */
	uint64_t factor;   /* of the hashes, odd, made from the salt */
	uint64_t searches; /* of messages by index */
	uint64_t debt;     /* entries that searches without a message class have compared */
	bool refused;      /* memory was refused: retry only when debt says so */
	uint64_t compared;  /* entries compared by searches, beyond the oldest */
	uint64_t probed;   /* slots of tables that searches read */
	struct match_class receive_classes[MATCH_CLASSES];
	struct match_class message_classes[MATCH_CLASSES];
};

/* Allocates nothing. Returns 0. */
int match_init(struct match *match);

/* Frees the indexes. Entries that are still here are left alone. */
void match_fini(struct match *match);

/* Salt the hashes with a number that peers do not know. Only while there are no entries. */
void match_salt(struct match *match, uint64_t salt);

/* The out of line parts of the functions below. */
struct match_receive *match_arrive_search(struct match *match, uint32_t source, uint64_t tag);
struct match_message *match_find_search(struct match *match, uint32_t source, uint64_t tag,
					uint64_t mask);
void match_receive_unindex(struct match *match, struct match_receive *receive);
void match_message_index(struct match *match, struct match_message *message);
void match_message_unindex(struct match *match, struct match_message *message);

static inline bool match_agrees(uint32_t source, uint64_t tag, uint32_t want_source,
				uint64_t want_tag, uint64_t mask)
{
	return ((tag ^ want_tag) & mask) == 0 &&
	       (want_source == source || want_source == MATCH_ANY);
}

/* ---- Posted receives ----------------------------------------------------------------------- */

/* Append a posted receive. */
static inline void match_post(struct match *match, struct match_receive *receive)
{
	receive->order = match->orders++;
	receive->home = MATCH_HOME_NONE;
	list_push_back(&match->receives, &receive->posted);
	if (match->unindexed == &match->receives)
		match->unindexed = &receive->posted;
	match->receive_count++;
}

/* Take a posted receive out whose home is MATCH_HOME_NONE. */
static inline void match_withdraw_unindexed(struct match *match, struct match_receive *receive)
{
	if (match->unindexed == &receive->posted)
		match->unindexed = receive->posted.next;
	list_unlink(&receive->posted);
	match->receive_count--;
}

/* Take a posted receive out, because it is canceled, or used up after match_arrive_peek. */
static inline void match_withdraw(struct match *match, struct match_receive *receive)
{
	if (__builtin_expect(receive->home != MATCH_HOME_NONE, 0))
		match_receive_unindex(match, receive);
	match_withdraw_unindexed(match, receive);
}

/* The oldest posted receive, if it matches a message, left in place; or NULL. */
static inline struct match_receive *match_arrive_oldest(const struct match *match, uint32_t source,
							uint64_t tag)
{
	struct match_receive *receive =
		container_of(match->receives.next, struct match_receive, posted);

	if (match->receive_count == 0)
		return NULL;
	return match_agrees(source, tag, receive->source, receive->tag, receive->mask) ? receive
										       : NULL;
}

/* The oldest posted receive that matches a message, left in place; or NULL. */
static inline struct match_receive *match_arrive_peek(struct match *match, uint32_t source,
						      uint64_t tag)
{
	struct match_receive *receive = match_arrive_oldest(match, source, tag);

	if (__builtin_expect(receive || match->receive_count <= 1, 1))
		return receive;
	return match_arrive_search(match, source, tag);
}

/* The same, taken out. */
static inline struct match_receive *match_arrive(struct match *match, uint32_t source, uint64_t tag)
{
	struct match_receive *receive = match_arrive_peek(match, source, tag);

	if (receive)
		match_withdraw(match, receive);
	return receive;
}

/* The posted receive after one in order, the first after NULL; NULL after the last. To withdraw
 * one while walking, get the next one before. */
static inline struct match_receive *match_receive_next(const struct match *match,
						       const struct match_receive *receive)
{
	struct list_node *node =
		list_next(&match->receives, receive ? &receive->posted : &match->receives);

	return node ? container_of(node, struct match_receive, posted) : NULL;
}

/* ---- Unexpected messages ------------------------------------------------------------------- */

/* Append an unexpected message. */
static inline void match_store(struct match *match, struct match_message *message)
{
	list_push_back(&match->messages, &message->arrived);
	match->message_count++;
	if (__builtin_expect(match->message_classes_active != 0, 0))
		match_message_index(match, message);
}

/* Take an unexpected message out. */
static inline void match_take(struct match *match, struct match_message *message)
{
	if (__builtin_expect(match->message_classes_active != 0, 0))
		match_message_unindex(match, message);
	list_unlink(&message->arrived);
	match->message_count--;
}

/* The oldest unexpected message that a receive with this source (or MATCH_ANY), tag and mask
 * matches, left in place; or NULL. */
static inline struct match_message *match_find(struct match *match, uint32_t source, uint64_t tag,
					       uint64_t mask)
{
	struct match_message *message;

	if (__builtin_expect(match->message_count == 0, 1))
		return NULL;
	message = container_of(match->messages.next, struct match_message, arrived);
	if (match_agrees(message->source, message->tag, source, tag, mask))
		return message;
	if (match->message_count == 1)
		return NULL;
	return match_find_search(match, source, tag, mask);
}

#endif /* MATCH_MATCH_H */
