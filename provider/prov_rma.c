/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_rma.h"

#include "prov_endpoint.h"
#include "prov_error.h"
#include "prov_flags.h"

/* One operation, whichever call it came by. */
struct rma {
	const struct iovec *iov; /* the memory here */
	size_t count;            /* pieces of it */
	fi_addr_t peer;          /* whose memory it is */
	uint64_t offset, key;    /* the memory there, in bytes from its region's start */
	uint64_t data;           /* immediate */
	unsigned flags;          /* Thole's */
	void *context;           /* the program's */
};

static ssize_t prov_rma_write(struct fid_ep *fid, const struct rma *rma)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	int error;

	if (rma->count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	prov_domain_lock(endpoint->domain);
	error = thole_put(endpoint->thole, prov_map_get(endpoint->peers, rma->peer), rma->iov, rma->count, rma->key,
			  rma->offset, rma->data, rma->flags, rma->context, NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

static ssize_t prov_rma_read(struct fid_ep *fid, const struct rma *rma)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	int error;

	if (rma->count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	prov_domain_lock(endpoint->domain);
	error = thole_get(endpoint->thole, prov_map_get(endpoint->peers, rma->peer), rma->iov, rma->count, rma->key,
			  rma->offset, rma->flags, rma->context, NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

static unsigned prov_rma_flags_of(struct fid_ep *fid, unsigned operation, uint64_t flags)
{
	return prov_flags_send(prov_endpoint_of(fid), operation, flags);
}

static unsigned prov_rma_flags_default(struct fid_ep *fid, unsigned operation)
{
	return prov_rma_flags_of(fid, operation, prov_endpoint_of(fid)->tx_flags);
}

/* A call with a struct fi_msg_rma; 0 or an error. */
static int prov_rma_from_message(struct fid_ep *fid, const struct fi_msg_rma *message, unsigned operation,
				 uint64_t flags, struct rma *rma)
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
		.flags = prov_rma_flags_of(fid, operation, flags),
		.context = message->context,
	};
	return 0;
}

/* One piece of memory here. */
static struct iovec prov_rma_segment(const void *buffer, size_t length)
{
	return (struct iovec){.iov_base = (void *)(uintptr_t)buffer, .iov_len = length};
}

static ssize_t prov_rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
			      uint64_t offset, uint64_t key, void *context)
{
	struct rma rma = {.iov = iov,
			  .count = count,
			  .peer = from,
			  .offset = offset,
			  .key = key,
			  .flags = prov_rma_flags_default(ep, THOLE_OP_GET) & ~(unsigned)THOLE_INJECT,
			  .context = context};

	(void)desc;
	return prov_rma_read(ep, &rma);
}

static ssize_t prov_rma_read_one(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from,
				 uint64_t offset, uint64_t key, void *context)
{
	struct iovec segment = prov_rma_segment(buffer, length);

	(void)desc;
	return prov_rma_readv(ep, &segment, NULL, 1, from, offset, key, context);
}

static ssize_t prov_rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
	struct rma rma;
	int error = prov_rma_from_message(ep, message, THOLE_OP_GET, flags & ~FI_INJECT & ~FI_REMOTE_CQ_DATA, &rma);

	return error ? error : prov_rma_read(ep, &rma);
}

static ssize_t prov_rma_inject_one(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data, fi_addr_t to,
				   uint64_t offset, uint64_t key, unsigned imm)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(ep);
	struct iovec segment = prov_rma_segment(buffer, length);
	struct rma rma = {.iov = &segment,
			  .count = 1,
			  .peer = to,
			  .offset = offset,
			  .key = key,
			  .data = data,
			  .flags = THOLE_INJECT | imm | prov_endpoint_silence(endpoint, THOLE_OP_PUT, 0)};

	return length > PROV_INJECT_MAX ? -FI_EINVAL : prov_rma_write(ep, &rma);
}

static ssize_t prov_rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
			       uint64_t offset, uint64_t key, void *context)
{
	struct rma rma = {.iov = iov,
			  .count = count,
			  .peer = to,
			  .offset = offset,
			  .key = key,
			  .flags = prov_rma_flags_default(ep, THOLE_OP_PUT),
			  .context = context};

	(void)desc;
	return prov_rma_write(ep, &rma);
}

static ssize_t prov_rma_write_one(struct fid_ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t to,
				  uint64_t offset, uint64_t key, void *context)
{
	struct iovec segment = prov_rma_segment(buffer, length);

	(void)desc;
	return prov_rma_writev(ep, &segment, NULL, 1, to, offset, key, context);
}

static ssize_t prov_rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
	struct rma rma;
	int error = prov_rma_from_message(ep, message, THOLE_OP_PUT, flags, &rma);

	return error ? error : prov_rma_write(ep, &rma);
}

static ssize_t prov_rma_inject(struct fid_ep *ep, const void *buffer, size_t length, fi_addr_t to, uint64_t offset,
			       uint64_t key)
{
	return prov_rma_inject_one(ep, buffer, length, 0, to, offset, key, 0);
}

static ssize_t prov_rma_writedata(struct fid_ep *ep, const void *buffer, size_t length, void *desc, uint64_t data,
				  fi_addr_t to, uint64_t offset, uint64_t key, void *context)
{
	struct iovec segment = prov_rma_segment(buffer, length);
	struct rma rma = {.iov = &segment,
			  .count = 1,
			  .peer = to,
			  .offset = offset,
			  .key = key,
			  .data = data,
			  .flags = prov_rma_flags_default(ep, THOLE_OP_PUT) | THOLE_IMM,
			  .context = context};

	(void)desc;
	return prov_rma_write(ep, &rma);
}

static ssize_t prov_rma_injectdata(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data, fi_addr_t to,
				   uint64_t offset, uint64_t key)
{
	return prov_rma_inject_one(ep, buffer, length, data, to, offset, key, THOLE_IMM);
}

struct fi_ops_rma prov_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = prov_rma_read_one,
	.readv = prov_rma_readv,
	.readmsg = prov_rma_readmsg,
	.write = prov_rma_write_one,
	.writev = prov_rma_writev,
	.writemsg = prov_rma_writemsg,
	.inject = prov_rma_inject,
	.writedata = prov_rma_writedata,
	.injectdata = prov_rma_injectdata,
};
