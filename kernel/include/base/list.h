/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/* The library's lists by the kernel's, whose names are partly the same: so that the pure parts are compiled as they
 * are, beside code that uses the kernel's. */
#ifndef THOLE_KERNEL_LIST_H
#define THOLE_KERNEL_LIST_H

#include <linux/container_of.h>
#include <linux/list.h>

#define list_node list_head
#define list_init(head) INIT_LIST_HEAD(head)
#define list_first(head) (list_empty(head) ? NULL : (head)->next)
#define list_next(head, node) ((node)->next == (head) ? NULL : (node)->next)
#define list_push_back(head, node) list_add_tail(node, head)
#define list_remove(node) list_del_init(node)

#endif
