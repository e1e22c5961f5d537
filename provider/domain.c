/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * domain.c - opens and closes domains. A domain owns the lock, says whether it is needed, and lists
 * the endpoints and regions that have to know of each other.
 */
#include <stdlib.h>

#include "provider.h"

static int domain_close(struct fid *fid)
{
	struct prov_domain *domain = prov_of(fid, struct prov_domain, fid.fid);

	if (domain->users)
		return -FI_EBUSY;
	prov_thread_stop(domain->thread);
	if (domain->eq)
		atomic_fetch_sub(&domain->eq->users, 1);
	atomic_fetch_sub(&domain->fabric->users, 1);
	free(domain->endpoints);
	free(domain);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_domain *domain = prov_of(fid, struct prov_domain, fid.fid);

	(void)flags; /* registrations are never asynchronous, so FI_REG_MR has nothing to report */
	if (other->fclass != FI_CLASS_EQ || domain->eq)
		return -FI_EINVAL;
	domain->eq = prov_of(other, struct prov_eq, fid.fid);
	atomic_fetch_add(&domain->eq->users, 1);
	return 0;
}

static int domain_scalable(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			   void *context)
{
	(void)domain, (void)info, (void)sep, (void)context;
	return -FI_ENOSYS;
}

static int domain_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
		      void *context)
{
	(void)domain, (void)attr, (void)stx, (void)context;
	return -FI_ENOSYS;
}

static int domain_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx,
		      void *context)
{
	(void)domain, (void)attr, (void)rx, (void)context;
	return -FI_ENOSYS;
}

static int domain_collective(struct fid_domain *domain, enum fi_collective_op op,
			     struct fi_collective_attr *attr, uint64_t flags)
{
	(void)domain, (void)op, (void)attr, (void)flags;
	return -FI_ENOSYS;
}

static int domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			    uint64_t flags, void *context)
{
	return flags ? -FI_EBADFLAGS : prov_endpoint_open(domain, info, ep, context);
}

struct fi_ops prov_domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = prov_stub_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = prov_av_open,
	.cq_open = prov_cq_open,
	.endpoint = prov_endpoint_open,
	.scalable_ep = domain_scalable,
	.cntr_open = prov_counter_open,
	.poll_open = prov_poll_open,
	.stx_ctx = domain_stx,
	.srx_ctx = domain_srx,
	.query_atomic = prov_atomic_query,
	.query_collective = domain_collective,
	.endpoint2 = domain_endpoint2,
};

static int domain_start(struct prov_domain *domain, const struct fi_domain_attr *attr)
{
	bool automatic = attr->data_progress == FI_PROGRESS_AUTO || prov_option_thread();

	domain->safe = attr->threading != FI_THREAD_DOMAIN || automatic;
	return automatic ? prov_thread_start(domain, &domain->thread) : 0;
}

int prov_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p,
		     void *context)
{
	struct prov_domain *domain = calloc(1, sizeof *domain);
	int error;

	if (!domain)
		return -FI_ENOMEM;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &prov_domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &prov_region_ops;
	domain->fabric = prov_of(fabric, struct prov_fabric, fid);
	domain->rma_event = info->caps & FI_RMA_EVENT;
	error = domain_start(domain, info->domain_attr);
	if (error) {
		free(domain);
		return error;
	}
	atomic_fetch_add(&domain->fabric->users, 1);
	*domain_p = &domain->fid;
	return 0;
}
