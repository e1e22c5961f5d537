/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_poll.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/lock.h"
#include "prov_cq.h"
#include "prov_stub.h"

struct poll_member {
	struct fid *fid; /* a queue or a counter, the program's */
	uint64_t seen;   /* a counter's value when it was last reported */
};

/* It uses nothing of its domain, which may close before it: Chapel forgets the set that it has, where there are no wait
 * sets, and closes the domain. */
struct prov_poll {
	struct fid_poll fid;
	struct lock lock;            /* protects the members; the domain's is taken with it held */
	struct poll_member *members; /* its own; NULL: none yet */
	size_t count;
};

static struct prov_poll *prov_poll_of(struct fid_poll *fid)
{
	return container_of(fid, struct prov_poll, fid);
}

static bool prov_poll_queue_ready(struct prov_cq *cq)
{
	bool ready;

	prov_domain_lock(cq->domain);
	prov_domain_polled(cq->domain);
	if (cq->head == cq->tail)
		prov_watch_progress(&cq->watch);
	ready = cq->head != cq->tail;
	prov_domain_unlock(cq->domain);
	return ready;
}

static bool prov_poll_counter_ready(struct poll_member *member)
{
	struct fid_cntr *counter = container_of(member->fid, struct fid_cntr, fid);
	uint64_t now = fi_cntr_read(counter) + fi_cntr_readerr(counter);
	bool ready = now != member->seen;

	member->seen = now;
	return ready;
}

static int prov_poll_poll(struct fid_poll *fid, void **contexts, int count)
{
	struct prov_poll *set = prov_poll_of(fid);
	int found = 0;

	lock_take(&set->lock);
	for (size_t i = 0; i < set->count && found < count; i++) {
		struct poll_member *member = &set->members[i];
		bool ready = member->fid->fclass == FI_CLASS_CNTR
				     ? prov_poll_counter_ready(member)
				     : prov_poll_queue_ready(container_of(member->fid, struct prov_cq, fid.fid));

		if (ready)
			contexts[found++] = member->fid->context;
	}
	lock_leave(&set->lock);
	return found;
}

static int prov_poll_add(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
	struct prov_poll *set = prov_poll_of(fid);
	struct poll_member *members;

	if (flags || (member->fclass != FI_CLASS_CQ && member->fclass != FI_CLASS_CNTR))
		return -FI_EINVAL;
	lock_take(&set->lock);
	members = realloc(set->members, (set->count + 1) * sizeof *members);
	if (members) {
		set->members = members;
		members[set->count++] = (struct poll_member){.fid = member};
	}
	lock_leave(&set->lock);
	return members ? 0 : -FI_ENOMEM;
}

static int prov_poll_del(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
	struct prov_poll *set = prov_poll_of(fid);
	int error = -FI_EINVAL;

	(void)flags;
	lock_take(&set->lock);
	for (size_t i = 0; i < set->count && error; i++) {
		if (set->members[i].fid != member)
			continue;
		set->members[i] = set->members[--set->count];
		error = 0;
	}
	lock_leave(&set->lock);
	return error;
}

static struct fi_ops_poll poll_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = prov_poll_poll,
	.poll_add = prov_poll_add,
	.poll_del = prov_poll_del,
};

static int prov_poll_close(struct fid *fid)
{
	struct prov_poll *set = container_of(fid, struct prov_poll, fid.fid);

	free(set->members);
	free(set);
	return 0;
}

static struct fi_ops poll_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_poll_close,
	.bind = prov_stub_bind,
	.control = prov_stub_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll_p)
{
	struct prov_poll *set;

	(void)domain;
	if (attr && attr->flags)
		return -FI_EINVAL;
	set = calloc(1, sizeof *set);
	if (!set)
		return -FI_ENOMEM;
	set->fid.fid.fclass = FI_CLASS_POLL;
	set->fid.fid.ops = &poll_fid_ops;
	set->fid.ops = &poll_ops;
	*poll_p = &set->fid;
	return 0;
}
