/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c - memory regions: what peers may read and write, under keys that the user chooses.
 *
 * A region belongs to the domain, an exposure to one Thole endpoint; so a region is exposed on
 * every endpoint of the domain, on those too that are opened later. Regions that peers have no
 * access to are not exposed at all: Thole needs no registration of local buffers.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

static struct prov_region *region_of(struct fid *fid)
{
	return prov_of(fid, struct prov_region, fid.fid);
}

static int region_expose(struct prov_region *region, struct prov_endpoint *endpoint, size_t slot)
{
	if (!region->access)
		return 0;
	if (slot >= region->exposed_count) {
		size_t count = slot + 4;
		struct thole_region **exposed = realloc(region->exposed, count * sizeof *exposed);

		if (!exposed)
			return -FI_ENOMEM;
		memset(exposed + region->exposed_count, 0,
		       (count - region->exposed_count) * sizeof *exposed);
		region->exposed = exposed;
		region->exposed_count = count;
	}
	return prov_result(thole_expose(endpoint->thole, region->base, region->length,
					region->access, region->fid.key, region,
					&region->exposed[slot]));
}

static void region_unexpose(struct prov_region *region, struct prov_endpoint *endpoint, size_t slot)
{
	if (slot >= region->exposed_count || !region->exposed[slot])
		return;
	thole_unexpose(endpoint->thole, region->exposed[slot]);
	region->exposed[slot] = NULL;
}

/* A region's counter is fed by every endpoint of the domain. */
static int region_watch(struct prov_region *region, struct prov_endpoint *endpoint)
{
	return region->counter ? prov_watch_add(&region->counter->watch, endpoint) : 0;
}

/* A new endpoint in a slot: give it all regions of the domain. */
int prov_region_expose_all(struct prov_endpoint *endpoint, size_t slot)
{
	for (struct prov_region *region = endpoint->domain->regions; region;
	     region = region->next) {
		int error = region_expose(region, endpoint, slot);

		if (!error)
			error = region_watch(region, endpoint);
		if (error)
			return error;
	}
	return 0;
}

/* An endpoint leaves its slot; its exposures end with it. */
void prov_region_unexpose_all(struct prov_endpoint *endpoint, size_t slot)
{
	for (struct prov_region *region = endpoint->domain->regions; region; region = region->next)
		region_unexpose(region, endpoint, slot);
}

static void region_withdraw(struct prov_region *region)
{
	struct prov_domain *domain = region->domain;

	for (size_t slot = 0; slot < domain->endpoint_count; slot++)
		if (domain->endpoints[slot])
			region_unexpose(region, domain->endpoints[slot], slot);
	*region->link = region->next;
	if (region->next)
		region->next->link = region->link;
	domain->users--;
}

static int region_close(struct fid *fid)
{
	struct prov_region *region = region_of(fid);
	struct prov_domain *domain = region->domain;

	prov_domain_lock(domain);
	region_withdraw(region);
	if (region->counter)
		region->counter->users--;
	prov_domain_unlock(domain);
	free(region->exposed);
	free(region);
	return 0;
}

static int region_bind_counter(struct prov_region *region, struct prov_counter *counter)
{
	struct prov_domain *domain = region->domain;
	int error = 0;

	region->counter = counter;
	counter->users++;
	for (size_t slot = 0; slot < domain->endpoint_count && !error; slot++)
		if (domain->endpoints[slot])
			error = region_watch(region, domain->endpoints[slot]);
	return error;
}

/* Binding to an endpoint (FI_MR_ENDPOINT) says nothing new: the region is exposed everywhere. A
 * counter counts what peers write to it. */
static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_region *region = region_of(fid);
	int error;

	if (other->fclass == FI_CLASS_EP)
		return 0;
	if (other->fclass != FI_CLASS_CNTR || !(flags & FI_REMOTE_WRITE) ||
	    !region->domain->rma_event || region->counter)
		return -FI_EINVAL;
	prov_domain_lock(region->domain);
	error = region_bind_counter(region, prov_of(other, struct prov_counter, fid.fid));
	prov_domain_unlock(region->domain);
	return error;
}

static int region_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)arg;
	/* Nothing is pinned, so a mapping that changed needs no refreshing. */
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops region_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = region_close,
	.bind = region_bind,
	.control = region_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static unsigned region_access(const struct prov_domain *domain, uint64_t access)
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

static void region_enlist(struct prov_region *region)
{
	struct prov_domain *domain = region->domain;

	region->next = domain->regions;
	region->link = &domain->regions;
	if (region->next)
		region->next->link = &region->next;
	domain->regions = region;
	domain->users++;
}

static int region_publish(struct prov_region *region)
{
	struct prov_domain *domain = region->domain;
	int error = 0;

	prov_domain_lock(domain);
	region_enlist(region);
	for (size_t slot = 0; slot < domain->endpoint_count && !error; slot++)
		if (domain->endpoints[slot])
			error = region_expose(region, domain->endpoints[slot], slot);
	if (error)
		region_withdraw(region);
	prov_domain_unlock(domain);
	return error;
}

/* Thole refuses a key twice. Before there is an endpoint to refuse it, look here. */
static bool region_key_taken(struct prov_domain *domain, uint64_t key)
{
	if (domain->endpoint_count)
		return false;
	for (struct prov_region *region = domain->regions; region; region = region->next)
		if (region->access && region->fid.key == key)
			return true;
	return false;
}

static int region_open(struct prov_domain *domain, const struct iovec *segment, uint64_t access,
		       uint64_t key, struct fid_mr **mr_p, void *context)
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
	region->access = region_access(domain, access);
	error = region_publish(region);
	if (error) {
		free(region->exposed);
		free(region);
		return error;
	}
	*mr_p = &region->fid;
	return 0;
}

static int region_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		       uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr_p,
		       void *context)
{
	struct prov_domain *domain = prov_of(fid, struct prov_domain, fid.fid);
	bool taken;

	if (fid->fclass != FI_CLASS_DOMAIN || count != 1 || offset || (flags & PROV_MR_DMABUF))
		return -FI_EINVAL;
	prov_domain_lock(domain);
	taken = region_access(domain, access) && region_key_taken(domain, key);
	prov_domain_unlock(domain);
	return taken ? -FI_ENOKEY : region_open(domain, iov, access, key, mr_p, context);
}

static int region_reg(struct fid *fid, const void *buffer, size_t length, uint64_t access,
		      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr_p,
		      void *context)
{
	struct iovec segment = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = length};

	return region_regv(fid, &segment, 1, access, offset, key, flags, mr_p, context);
}

static int region_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
			  struct fid_mr **mr_p)
{
	return region_regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset,
			   attr->requested_key, flags, mr_p, attr->context);
}

struct fi_ops_mr prov_region_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = region_reg,
	.regv = region_regv,
	.regattr = region_regattr,
};
