/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - reads from and writes to peers' regions, addressed by offset from a region's start.
 *
 * One function for each direction; libfabric's table only puts parameters in order. An end is
 * reported when the data is in the peer's memory, which is the strongest that libfabric knows
 * (FI_DELIVERY_COMPLETE), so every weaker wish is met.
 */
#include "provider.h"

/* One operation, whichever call it came by. */
struct rma {
	const struct iovec *iov;
	size_t count;
	fi_addr_t peer;
	uint64_t offset, key, data;
	unsigned flags;
	void *context;
};

static ssize_t rma_write(struct fid_ep *fid, const struct rma *rma)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	int error;

	if (rma->count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	prov_domain_lock(endpoint->domain);
	error = thole_put(endpoint->thole, prov_map_get(endpoint->peers, rma->peer), rma->iov,
			  rma->count, rma->key, rma->offset, rma->data, rma->flags, rma->context,
			  NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_result(error);
}

static ssize_t rma_read(struct fid_ep *fid, const struct rma *rma)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	int error;

	if (rma->count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	prov_domain_lock(endpoint->domain);
	error = thole_get(endpoint->thole, prov_map_get(endpoint->peers, rma->peer), rma->iov,
			  rma->count, rma->key, rma->offset, rma->flags, rma->context, NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_result(error);
}

static unsigned flags_of(struct fid_ep *fid, unsigned operation, uint64_t flags)
{
	return prov_flags_send(prov_endpoint_of(fid), operation, flags);
}

static unsigned flags_default(struct fid_ep *fid, unsigned operation)
{
	return flags_of(fid, operation, prov_endpoint_of(fid)->tx_flags);
}

/* A call with a struct fi_msg_rma; 0 or an error. */
static int rma_from_message(struct fid_ep *fid, const struct fi_msg_rma *message,
			    unsigned operation, uint64_t flags, struct rma *rma)
{
	if (message->rma_iov_count != 1)
		return -FI_EINVAL;
	*rma = (struct rma){
		.iov = message->msg_iov,
		.count = message->iov_count,
		.peer = message->addr,
		.offset = message->rma_iov->addr,
		.key = message->rma_iov->key,
		.data = message->data,
		.flags = flags_of(fid, operation, flags),
		.context = message->context,
	};
	return 0;
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, uint64_t offset, uint64_t key, void *context)
{
	struct rma rma = {.iov = iov,
			  .count = count,
			  .peer = from,
			  .offset = offset,
			  .key = key,
			  .flags = flags_default(ep, THOLE_OP_GET) & ~(unsigned)THOLE_INJECT,
			  .context = context};

	(void)desc;
	return rma_read(ep, &rma);
}

static ssize_t rma_read_one(struct fid_ep *ep, void *buffer, size_t length, void *desc,
			    fi_addr_t from, uint64_t offset, uint64_t key, void *context)
{
	struct iovec segment = {.iov_base = buffer, .iov_len = length};

	(void)desc;
	return rma_readv(ep, &segment, NULL, 1, from, offset, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
	struct rma rma;
	int error = rma_from_message(ep, message, THOLE_OP_GET,
				     flags & ~FI_INJECT & ~FI_REMOTE_CQ_DATA, &rma);

	return error ? error : rma_read(ep, &rma);
}

static ssize_t rma_put(struct fid_ep *ep, const struct iovec *iov, size_t count, uint64_t data,
		       fi_addr_t to, uint64_t offset, uint64_t key, unsigned flags, void *context)
{
	struct rma rma = {.iov = iov,
			  .count = count,
			  .peer = to,
			  .offset = offset,
			  .key = key,
			  .data = data,
			  .flags = flags,
			  .context = context};

	return rma_write(ep, &rma);
}

static ssize_t rma_put_one(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data,
			   fi_addr_t to, uint64_t offset, uint64_t key, unsigned flags,
			   void *context)
{
	struct iovec segment = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = length};

	return rma_put(ep, &segment, 1, data, to, offset, key, flags, context);
}

static ssize_t rma_inject_one(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data,
			      fi_addr_t to, uint64_t offset, uint64_t key, unsigned imm)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(ep);
	bool counted = endpoint->sinks[THOLE_OP_PUT * 2].counter;
	unsigned flags =
		THOLE_INJECT | imm | (counted ? (unsigned)PROV_SILENT : (unsigned)THOLE_QUIET);

	if (length > PROV_INJECT_MAX)
		return -FI_EINVAL;
	return rma_put_one(ep, buffer, length, data, to, offset, key, flags, NULL);
}

static ssize_t rma_write_one(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
			     fi_addr_t to, uint64_t offset, uint64_t key, void *context)
{
	(void)desc;
	return rma_put_one(ep, buffer, length, 0, to, offset, key, flags_default(ep, THOLE_OP_PUT),
			   context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t to, uint64_t offset, uint64_t key, void *context)
{
	(void)desc;
	return rma_put(ep, iov, count, 0, to, offset, key, flags_default(ep, THOLE_OP_PUT),
		       context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
	struct rma rma;
	int error = rma_from_message(ep, message, THOLE_OP_PUT, flags, &rma);

	return error ? error : rma_write(ep, &rma);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buffer, size_t length, fi_addr_t to,
			  uint64_t offset, uint64_t key)
{
	return rma_inject_one(ep, buffer, length, 0, to, offset, key, 0);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
			     uint64_t data, fi_addr_t to, uint64_t offset, uint64_t key,
			     void *context)
{
	(void)desc;
	return rma_put_one(ep, buffer, length, data, to, offset, key,
			   flags_default(ep, THOLE_OP_PUT) | THOLE_IMM, context);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data,
			      fi_addr_t to, uint64_t offset, uint64_t key)
{
	return rma_inject_one(ep, buffer, length, data, to, offset, key, THOLE_IMM);
}

struct fi_ops_rma prov_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read_one,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write_one,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
