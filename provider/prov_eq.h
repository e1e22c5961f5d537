/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_eq.h - event queues: a list of events that insertions into address vectors and users
 * themselves (fi_eq_write) put in.
 *
 * Everything that could be asynchronous is done at once here, so an event queue only ever carries
 * words. It has a lock of its own, which is taken last, because it may be shared by domains. An
 * error event stops reads until fi_eq_readerr takes it.
 */
#ifndef PROV_EQ_H
#define PROV_EQ_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/wake.h"
#include "prov_compat.h"
#include "prov_users.h"

struct prov_eq {
	struct fid_eq fid;
	struct prov_users *fabric; /* those of the fabric that it was opened in */
	struct lock lock;          /* protects the list */
	struct list_node events;   /* oldest first; its own */
	struct wake wake;          /* raised while the list has something */
	enum fi_wait_obj wait_obj; /* how programs may wait */
	struct prov_users users;   /* address vectors, domains and endpoints that it is bound to */
};

int prov_eq_open(struct prov_users *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context);

struct prov_event;

/* An event with so much data, before what it is to tell of is done; NULL: no memory. */
struct prov_event *prov_eq_event(size_t size);
/* Enter it, and a copy of the data. It is the queue's from then on. */
void prov_eq_enter(struct prov_eq *eq, struct prov_event *event, uint32_t number, const void *data);

/* Both at once. -FI_ENOMEM. */
int prov_eq_post(struct prov_eq *eq, uint32_t number, const void *data, size_t size);
int prov_eq_post_error(struct prov_eq *eq, const struct fi_eq_err_entry *error);

/* 0: its descriptor may be polled; -FI_EAGAIN: there is something already. */
int prov_eq_trywait(struct prov_eq *eq);

#endif /* PROV_EQ_H */
