/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A doubly linked list whose links are inside its members.
 *
 * Owns nothing: neither members nor memory. The list is a ring through its head, so no operation
 * has a special case for the ends. A node is in one list at a time; after list_remove it is
 * alone, and removing it again does nothing.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *next;
	struct list_node *prev;
};

/* The struct that has node as its member. */
#define container_of(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* An empty list, or a node that is in none. */
static inline void list_init(struct list_node *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list_node *head)
{
	return head->next == head;
}

/* The oldest member's node, or NULL. */
static inline struct list_node *list_first(const struct list_node *head)
{
	return head->next == head ? NULL : head->next;
}

/* The node after one in the list, or NULL after the last. */
static inline struct list_node *list_next(const struct list_node *head,
					  const struct list_node *node)
{
	return node->next == head ? NULL : node->next;
}

static inline void list_push_back(struct list_node *head, struct list_node *node)
{
	struct list_node *last = head->prev;

	node->next = head;
	node->prev = last;
	last->next = node;
	head->prev = node;
}

static inline void list_push_front(struct list_node *head, struct list_node *node)
{
	list_push_back(head->next, node);
}

/* Take a node out without making it a list of its own, for one that is about to be linked or
 * freed. */
static inline void list_unlink(struct list_node *node)
{
	struct list_node *next = node->next;
	struct list_node *prev = node->prev;

	next->prev = prev;
	prev->next = next;
}

static inline void list_remove(struct list_node *node)
{
	list_unlink(node);
	list_init(node);
}

#endif /* BASE_LIST_H */
