/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_region.h"

#include <stdlib.h>
#include <string.h>

#include "prov_error.h"
#include "prov_stub.h"

static struct prov_region *prov_region_of(struct fid *fid)
{
	return container_of(fid, struct prov_region, fid.fid);
}

static int prov_region_expose(struct prov_region *region, struct thole_endpoint *endpoint, size_t slot)
{
	if (!region->access)
		return 0;
	if (slot >= region->exposed_count) {
		size_t count = slot + 4;
		struct thole_region **exposed = realloc(region->exposed, count * sizeof *exposed);

		if (!exposed)
			return -FI_ENOMEM;
		memset(exposed + region->exposed_count, 0, (count - region->exposed_count) * sizeof *exposed);
		region->exposed = exposed;
		region->exposed_count = count;
	}
	return prov_error_result(thole_expose(endpoint, region->base, region->length, region->access, region->fid.key,
					      region, &region->exposed[slot]));
}

static void prov_region_unexpose(struct prov_region *region, struct thole_endpoint *endpoint, size_t slot)
{
	if (slot >= region->exposed_count || !region->exposed[slot])
		return;
	thole_unexpose(endpoint, region->exposed[slot]);
	region->exposed[slot] = NULL;
}

/* A region's counter is fed by every endpoint of the domain. */
static int prov_region_watch(struct prov_region *region, struct thole_endpoint *endpoint)
{
	return region->counter ? prov_watch_add(&region->counter->watch, endpoint) : 0;
}

static struct prov_region *prov_region_next(const struct prov_domain *domain, const struct prov_region *region)
{
	struct list_node *node = region ? list_next(&domain->regions, &region->node) : list_first(&domain->regions);

	return node ? container_of(node, struct prov_region, node) : NULL;
}

int prov_region_expose_all(struct prov_domain *domain, struct thole_endpoint *endpoint, size_t slot)
{
	struct prov_region *region = NULL;

	while ((region = prov_region_next(domain, region))) {
		int error = prov_region_expose(region, endpoint, slot);

		if (!error)
			error = prov_region_watch(region, endpoint);
		if (error)
			return error;
	}
	return 0;
}

void prov_region_unexpose_all(struct prov_domain *domain, struct thole_endpoint *endpoint, size_t slot)
{
	struct prov_region *region = NULL;

	while ((region = prov_region_next(domain, region)))
		prov_region_unexpose(region, endpoint, slot);
}

static void prov_region_withdraw(struct prov_region *region)
{
	struct prov_domain *domain = region->domain;

	for (size_t slot = 0; slot < domain->charge.endpoint_count; slot++)
		if (domain->charge.endpoints[slot])
			prov_region_unexpose(region, domain->charge.endpoints[slot], slot);
	list_unlink(&region->node);
	domain->users--;
}

static int prov_region_close(struct fid *fid)
{
	struct prov_region *region = prov_region_of(fid);
	struct prov_domain *domain = region->domain;

	prov_domain_lock(domain);
	prov_region_withdraw(region);
	if (region->counter)
		region->counter->users--;
	prov_domain_unlock(domain);
	free(region->exposed);
	free(region);
	return 0;
}

static int prov_region_bind_counter(struct prov_region *region, struct prov_counter *counter)
{
	struct prov_domain *domain = region->domain;
	int error = 0;

	region->counter = counter;
	counter->users++;
	for (size_t slot = 0; slot < domain->charge.endpoint_count && !error; slot++)
		if (domain->charge.endpoints[slot])
			error = prov_region_watch(region, domain->charge.endpoints[slot]);
	if (error) {
		region->counter = NULL;
		counter->users--;
	}
	return error;
}

/* Binding to an endpoint (FI_MR_ENDPOINT) says nothing new: the region is exposed everywhere. A
 * counter counts what peers write to it. */
static int prov_region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_region *region = prov_region_of(fid);
	int error;

	if (other->fclass == FI_CLASS_EP)
		return 0;
	if (other->fclass != FI_CLASS_CNTR || !(flags & FI_REMOTE_WRITE) || !region->domain->rma_event ||
	    region->counter)
		return -FI_EINVAL;
	prov_domain_lock(region->domain);
	error = prov_region_bind_counter(region, container_of(other, struct prov_counter, fid.fid));
	prov_domain_unlock(region->domain);
	return error;
}

static int prov_region_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)arg;
	/* Nothing is pinned, so a mapping that changed needs no refreshing. */
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops region_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_region_close,
	.bind = prov_region_bind,
	.control = prov_region_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static unsigned prov_region_access(const struct prov_domain *domain, uint64_t access)
{
	unsigned thole = 0;

	if (access & FI_REMOTE_READ)
		thole |= THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC;
	if (access & FI_REMOTE_WRITE)
		thole |= THOLE_ACCESS_PUT | THOLE_ACCESS_ATOMIC;
	if (thole && domain->rma_event)
		thole |= THOLE_NOTIFY;
	return thole;
}

/* Thole refuses a key twice. Where there is no endpoint to refuse it, look here. */
static bool prov_region_key_taken(const struct prov_domain *domain, uint64_t key)
{
	const struct prov_region *region = NULL;

	for (size_t slot = 0; slot < domain->charge.endpoint_count; slot++)
		if (domain->charge.endpoints[slot])
			return false;
	while ((region = prov_region_next(domain, region)))
		if (region->access && region->fid.key == key)
			return true;
	return false;
}

/* With the lock. */
static int prov_region_expose_everywhere(struct prov_region *region)
{
	struct prov_domain *domain = region->domain;
	int error = 0;

	if (region->access && prov_region_key_taken(domain, region->fid.key))
		return -FI_ENOKEY;
	list_push_front(&domain->regions, &region->node);
	domain->users++;
	for (size_t slot = 0; slot < domain->charge.endpoint_count && !error; slot++)
		if (domain->charge.endpoints[slot])
			error = prov_region_expose(region, domain->charge.endpoints[slot], slot);
	if (error)
		prov_region_withdraw(region);
	return error;
}

static int prov_region_publish(struct prov_region *region)
{
	int error;

	prov_domain_lock(region->domain);
	error = prov_region_expose_everywhere(region);
	prov_domain_unlock(region->domain);
	return error;
}

static int prov_region_open(struct prov_domain *domain, const struct iovec *segment, uint64_t access, uint64_t key,
			    struct fid_mr **mr_p, void *context)
{
	struct prov_region *region = calloc(1, sizeof *region);
	int error;

	if (!region)
		return -FI_ENOMEM;
	region->fid.fid.fclass = FI_CLASS_MR;
	region->fid.fid.context = context;
	region->fid.fid.ops = &region_fid_ops;
	region->fid.mem_desc = region;
	region->fid.key = key;
	region->domain = domain;
	region->base = segment->iov_base;
	region->length = segment->iov_len;
	region->access = prov_region_access(domain, access);
	error = prov_region_publish(region);
	if (error) {
		free(region->exposed);
		free(region);
		return error;
	}
	*mr_p = &region->fid;
	return 0;
}

static int prov_region_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
			    uint64_t key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
	if (fid->fclass != FI_CLASS_DOMAIN || count != 1 || offset || (flags & PROV_MR_DMABUF))
		return -FI_EINVAL;
	return prov_region_open(container_of(fid, struct prov_domain, fid.fid), iov, access, key, mr_p, context);
}

static int prov_region_reg(struct fid *fid, const void *buffer, size_t length, uint64_t access, uint64_t offset,
			   uint64_t key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
	struct iovec segment = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = length};

	return prov_region_regv(fid, &segment, 1, access, offset, key, flags, mr_p, context);
}

static int prov_region_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
	return prov_region_regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key,
				flags, mr_p, attr->context);
}

struct fi_ops_mr prov_region_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = prov_region_reg,
	.regv = prov_region_regv,
	.regattr = prov_region_regattr,
};
