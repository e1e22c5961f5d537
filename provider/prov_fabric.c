/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_fabric.h"

#include <stdlib.h>
#include <strings.h>

#include "front/caretaker.h"
#include "prov_atomic.h"
#include "prov_av.h"
#include "prov_core.h"
#include "prov_counter.h"
#include "prov_cq.h"
#include "prov_ep.h"
#include "prov_eq.h"
#include "prov_option.h"
#include "prov_poll.h"
#include "prov_region.h"
#include "prov_stub.h"
#include "prov_thread.h"
#include "prov_users.h"

struct prov_fabric {
	struct fid_fabric fid;
	struct prov_users users; /* domains and event queues that are open */
};

/* ---- Domains --------------------------------------------------------------------------------- */

static int prov_fabric_domain_close(struct fid *fid)
{
	struct prov_domain *domain = container_of(fid, struct prov_domain, fid.fid);

	if (prov_domain_is_used(domain))
		return -FI_EBUSY;
	caretaker_remove(&domain->charge);
	prov_thread_stop(domain->thread);
	if (domain->eq)
		prov_users_drop(&domain->eq->users);
	prov_users_drop(&domain->fabric->users);
	free(domain->charge.endpoints);
	free(domain);
	return 0;
}

static int prov_fabric_domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_domain *domain = container_of(fid, struct prov_domain, fid.fid);

	(void)flags; /* registrations are never asynchronous, so FI_REG_MR has nothing to report */
	if (other->fclass != FI_CLASS_EQ || domain->eq)
		return -FI_EINVAL;
	domain->eq = container_of(other, struct prov_eq, fid.fid);
	prov_users_add(&domain->eq->users);
	return 0;
}

static int prov_fabric_domain_scalable(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
				       void *context)
{
	(void)domain, (void)info, (void)sep, (void)context;
	return -FI_ENOSYS;
}

static int prov_fabric_domain_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
				  void *context)
{
	(void)domain, (void)attr, (void)stx, (void)context;
	return -FI_ENOSYS;
}

static int prov_fabric_domain_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx, void *context)
{
	(void)domain, (void)attr, (void)rx, (void)context;
	return -FI_ENOSYS;
}

static int prov_fabric_domain_collective(struct fid_domain *domain, enum fi_collective_op op,
					 struct fi_collective_attr *attr, uint64_t flags)
{
	(void)domain, (void)op, (void)attr, (void)flags;
	return -FI_ENOSYS;
}

static int prov_fabric_domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
					uint64_t flags, void *context)
{
	return flags ? -FI_EBADFLAGS : prov_ep_open(domain, info, ep, context);
}

struct fi_ops prov_fabric_domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_fabric_domain_close,
	.bind = prov_fabric_domain_bind,
	.control = prov_stub_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = prov_av_open,
	.cq_open = prov_cq_open,
	.endpoint = prov_ep_open,
	.scalable_ep = prov_fabric_domain_scalable,
	.cntr_open = prov_counter_open,
	.poll_open = prov_poll_open,
	.stx_ctx = prov_fabric_domain_stx,
	.srx_ctx = prov_fabric_domain_srx,
	.query_atomic = prov_atomic_query,
	.query_collective = prov_fabric_domain_collective,
	.endpoint2 = prov_fabric_domain_endpoint2,
};

static int prov_fabric_domain_start(struct prov_domain *domain, const struct fi_domain_attr *attr)
{
	bool automatic = attr->data_progress == FI_PROGRESS_AUTO || prov_option_thread();
	int error;

	domain->charge.safe = attr->threading != FI_THREAD_DOMAIN || automatic;
	error = automatic ? prov_thread_start(domain, &domain->thread) : 0;
	if (!error)
		caretaker_add(&domain->charge, !automatic);
	return error;
}

static int prov_fabric_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p,
				   void *context)
{
	struct prov_domain *domain;
	int error;

	/* Of what fi_getinfo returns the core tells nobody but the log, and takes another provider. */
	if (prov_option_lost()) {
		PROV_WARN(FI_LOG_CORE, "an option found no memory as this library was loaded");
		return -FI_ENOMEM;
	}
	domain = calloc(1, sizeof *domain);
	if (!domain)
		return -FI_ENOMEM;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &prov_fabric_domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &prov_region_ops;
	domain->fabric = container_of(fabric, struct prov_fabric, fid);
	domain->api_version = fabric->api_version;
	list_init(&domain->regions);
	list_init(&domain->watches);
	domain->rma_event = info->caps & FI_RMA_EVENT;
	error = prov_fabric_domain_start(domain, info->domain_attr);
	if (error) {
		free(domain);
		return error;
	}
	prov_users_add(&domain->fabric->users);
	*domain_p = &domain->fid;
	return 0;
}

/* ---- Fabrics --------------------------------------------------------------------------------- */

static struct prov_fabric *prov_fabric_of(struct fid *fid)
{
	return container_of(fid, struct prov_fabric, fid.fid);
}

static int prov_fabric_close(struct fid *fid)
{
	struct prov_fabric *fabric = prov_fabric_of(fid);

	if (prov_users_any(&fabric->users))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static int prov_fabric_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
	(void)fabric, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static int prov_fabric_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
	(void)fabric, (void)attr, (void)waitset;
	return -FI_ENOSYS;
}

static int prov_fabric_fid_trywait(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return prov_cq_trywait(container_of(fid, struct prov_cq, fid.fid));
	case FI_CLASS_CNTR:
		return prov_counter_trywait(container_of(fid, struct prov_counter, fid.fid));
	case FI_CLASS_EQ:
		return prov_eq_trywait(container_of(fid, struct prov_eq, fid.fid));
	default:
		return -FI_EINVAL;
	}
}

/* 0: the descriptors of all of them may now be polled; -FI_EAGAIN: there is something already. */
static int prov_fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++) {
		int error = prov_fabric_fid_trywait(fids[i]);

		if (error)
			return error;
	}
	return 0;
}

static int prov_fabric_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context)
{
	return prov_eq_open(&container_of(fabric, struct prov_fabric, fid)->users, attr, eq_p, context);
}

static int prov_fabric_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p,
			       uint64_t flags, void *context)
{
	return flags ? -FI_EBADFLAGS : prov_fabric_domain_open(fabric, info, domain_p, context);
}

struct fi_ops prov_fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_fabric_close,
	.bind = prov_stub_bind,
	.control = prov_stub_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = prov_fabric_domain_open,
	.passive_ep = prov_fabric_passive,
	.eq_open = prov_fabric_eq,
	.wait_open = prov_fabric_wait_open,
	.trywait = prov_fabric_trywait,
	.domain2 = prov_fabric_domain2,
};

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
	struct prov_fabric *fabric;

	if (attr->name && strcasecmp(attr->name, prov_core_provider.name))
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
