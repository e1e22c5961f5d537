/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - the outermost object: it holds domains and event queues and knows how many are open.
 */
#include <stdlib.h>
#include <strings.h>

#include "provider.h"

static struct prov_fabric *fabric_of(struct fid *fid)
{
	return prov_of(fid, struct prov_fabric, fid.fid);
}

static int fabric_close(struct fid *fid)
{
	struct prov_fabric *fabric = fabric_of(fid);

	if (atomic_load(&fabric->users))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static int fabric_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			  void *context)
{
	(void)fabric, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static int fabric_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			    struct fid_wait **waitset)
{
	(void)fabric, (void)attr, (void)waitset;
	return -FI_ENOSYS;
}

static int fabric_domain2(struct fid_fabric *fabric, struct fi_info *info,
			  struct fid_domain **domain_p, uint64_t flags, void *context)
{
	return flags ? -FI_EBADFLAGS : prov_domain_open(fabric, info, domain_p, context);
}

static int queue_trywait(struct prov_cq *cq)
{
	int error;

	prov_domain_lock(cq->domain);
	error = cq->head != cq->tail ? -FI_EAGAIN : prov_watch_arm(&cq->watch);
	prov_domain_unlock(cq->domain);
	return error;
}

static int counter_trywait(struct prov_counter *counter)
{
	int error;

	prov_domain_lock(counter->domain);
	error = prov_watch_arm(&counter->watch);
	prov_domain_unlock(counter->domain);
	return error;
}

static int fid_trywait(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return queue_trywait(prov_of(fid, struct prov_cq, fid.fid));
	case FI_CLASS_CNTR:
		return counter_trywait(prov_of(fid, struct prov_counter, fid.fid));
	case FI_CLASS_EQ:
		return prov_eq_trywait(prov_of(fid, struct prov_eq, fid.fid));
	default:
		return -FI_EINVAL;
	}
}

/* 0: the descriptors of all of them may now be polled; -FI_EAGAIN: there is something already. */
static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++) {
		int error = fid_trywait(fids[i]);

		if (error)
			return error;
	}
	return 0;
}

struct fi_ops prov_fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = prov_stub_bind,
	.control = prov_stub_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = prov_domain_open,
	.passive_ep = fabric_passive,
	.eq_open = prov_eq_open,
	.wait_open = fabric_wait_open,
	.trywait = fabric_trywait,
	.domain2 = fabric_domain2,
};

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
	struct prov_fabric *fabric;

	if (attr->name && strcasecmp(attr->name, prov_provider.name))
		return -FI_ENODATA;
	fabric = calloc(1, sizeof *fabric);
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &prov_fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = attr->api_version;
	*fabric_p = &fabric->fid;
	return 0;
}
