/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * ether: small frames of Thole's own EtherTypes, past the IP stack, for programs that may not open packet sockets.
 *
 * Owns ports (an EtherType at an interface), the endpoints that are bound there, and their places for frames in and
 * out, which a program maps. Does not own what is in frames, but for what says whose they are.
 *
 * Invariants. A program sends frames of these EtherTypes alone, from the interface's own address and in its own
 * endpoint's name, and gets those alone that are to it. What mover.c moves of MXoE obeys the same. An endpoint is of
 * the network namespace in which it was bound: when its interface leaves that, or ends, it is bound to nothing any
 * more, and told so. Nothing is allocated for who sends here. No frame that is under way knows of an endpoint or of
 * this module.
 *
 * Frames come in softirq, under RCU; they take the endpoint's lock, under which there is no other. Binding and its end
 * are under RTNL. Endpoints and ports are freed after a grace period.
 */
#ifndef THOLE_KERNEL_ETHER_H
#define THOLE_KERNEL_ETHER_H

#include <linux/mm_types.h>
#include <linux/types.h>

#include "thole_driver.h"

struct ether_end;
struct mover;
struct sk_buff;

/* A mover's: one endpoint at most. */
struct ether {
	struct ether_end __rcu *end;
};

/* Bind a mover's endpoint, in the network namespace of the running process. */
int ether_bind(struct mover *mover, struct thole_driver_bind *bind);
int ether_unbind(struct ether *ether);

/* As THOLE_DRIVER_SEND says. */
long ether_send(struct ether *ether, unsigned long which);

/* Send a frame of the protocol that its packet says, as if the program had: in any context. The packet is taken. */
void ether_transmit(struct ether *ether, struct sk_buff *skb, const u8 *to);

/* Whether it is bound for this EtherType under this number, to an interface that takes frames so long. */
bool ether_is(struct ether *ether, u16 type, u32 number, u32 length);

int ether_mmap(struct ether *ether, struct vm_area_struct *vma);

/* Whether there are frames that have not been read. */
bool ether_ready(struct ether *ether);

int ether_start(void);
void ether_stop(void);

#endif
