/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_atomic.h"

#include <stdlib.h>
#include <string.h>

#include "prov_endpoint.h"
#include "prov_error.h"
#include "prov_flags.h"
#include "thole.h"

_Static_assert((int)FI_INT8 == (int)THOLE_INT8 && (int)FI_UINT64 == (int)THOLE_UINT64 &&
		       (int)FI_DOUBLE == (int)THOLE_DOUBLE &&
		       (int)FI_LONG_DOUBLE_COMPLEX == (int)THOLE_LONG_DOUBLE_COMPLEX &&
		       (int)FI_UINT128 == (int)THOLE_UINT128,
	       "types have the same numbers");
_Static_assert((int)FI_MIN == (int)THOLE_MIN && (int)FI_BXOR == (int)THOLE_BXOR &&
		       (int)FI_ATOMIC_READ == (int)THOLE_READ && (int)FI_ATOMIC_WRITE == (int)THOLE_WRITE &&
		       (int)FI_CSWAP == (int)THOLE_CSWAP && (int)FI_MSWAP == (int)THOLE_MSWAP,
	       "operations have the same numbers");

/* Elements in up to so many places. */
struct parts {
	const struct fi_ioc *ioc; /* the places; NULL: none */
	size_t count;
};

/* One operation, whichever call it came by. */
struct atomic {
	struct parts operand, compare, result; /* without elements: it has none */
	fi_addr_t peer;                        /* whose memory it is */
	uint64_t offset, key;                  /* the memory there, in bytes from its region's start */
	enum fi_datatype type;
	enum fi_op op;
	unsigned flags; /* Thole's */
	void *context;  /* the program's */
};

/* A result on its way to several places, and the user's context in the meantime. */
struct prov_scatter {
	struct list_node node;                       /* of its endpoint's */
	void *context;                               /* the program's */
	size_t count;                                /* of parts */
	size_t size;                                 /* bytes of an element */
	struct fi_ioc parts[PROV_SEGMENTS_MAX];      /* where it goes */
	unsigned char bytes[THOLE_ATOMIC_BYTES_MAX]; /* the result, in one piece */
};

void *prov_atomic_scatter(void *wrapped, bool failed)
{
	struct prov_scatter *scatter = wrapped;
	const unsigned char *from = scatter->bytes;
	void *context = scatter->context;

	for (size_t i = 0; i < scatter->count && !failed; i++) {
		size_t bytes = scatter->parts[i].count * scatter->size;

		memcpy(scatter->parts[i].addr, from, bytes);
		from += bytes;
	}
	list_remove(&scatter->node);
	free(scatter);
	return context;
}

void prov_atomic_drop(struct prov_endpoint *endpoint)
{
	struct list_node *node;

	while ((node = list_first(&endpoint->scatters))) {
		list_remove(node);
		free(container_of(node, struct prov_scatter, node));
	}
}

static size_t prov_atomic_parts_elements(const struct parts *parts)
{
	size_t elements = 0;

	for (size_t i = 0; i < parts->count; i++)
		elements += parts->ioc[i].count;
	return elements;
}

/* The elements in one piece: where they are, or gathered into room, which has
 * THOLE_ATOMIC_BYTES_MAX. */
static const void *prov_atomic_parts_gather(const struct parts *parts, size_t size, unsigned char *room)
{
	unsigned char *to = room;

	if (!parts->count)
		return NULL;
	if (parts->count == 1)
		return parts->ioc->addr;
	for (size_t i = 0; i < parts->count; i++) {
		memcpy(to, parts->ioc[i].addr, parts->ioc[i].count * size);
		to += parts->ioc[i].count * size;
	}
	return room;
}

static struct prov_scatter *prov_atomic_scatter_new(const struct atomic *atomic, size_t size)
{
	struct prov_scatter *scatter = malloc(sizeof *scatter);

	if (!scatter)
		return NULL;
	scatter->context = atomic->context;
	scatter->count = atomic->result.count;
	scatter->size = size;
	memcpy(scatter->parts, atomic->result.ioc, atomic->result.count * sizeof scatter->parts[0]);
	return scatter;
}

/* The result goes to one place, so the user's context can go along as it is. */
static int prov_atomic_direct(struct prov_endpoint *endpoint, uint32_t peer, const struct atomic *atomic,
			      struct thole_atomic *operation)
{
	operation->result = atomic->result.count ? atomic->result.ioc->addr : NULL;
	return thole_atomic(endpoint->thole, peer, operation, atomic->flags, atomic->context, NULL);
}

static int prov_atomic_scattered(struct prov_endpoint *endpoint, uint32_t peer, const struct atomic *atomic,
				 struct thole_atomic *operation, size_t size)
{
	struct prov_scatter *scatter = prov_atomic_scatter_new(atomic, size);
	unsigned flags = atomic->flags | PROV_WRAPPED;
	int error;

	if (!scatter)
		return THOLE_ERR_MEMORY;
	if (flags & THOLE_QUIET) /* the end has to be reported, to us */
		flags = (flags & ~(unsigned)THOLE_QUIET) | PROV_SILENT;
	operation->result = scatter->bytes;
	list_push_back(&endpoint->scatters, &scatter->node);
	error = thole_atomic(endpoint->thole, peer, operation, flags, scatter, NULL);
	if (error)
		prov_atomic_scatter(scatter, true);
	return error;
}

static int prov_atomic_start(struct prov_endpoint *endpoint, const struct atomic *atomic, size_t size, size_t elements)
{
	unsigned char operand[THOLE_ATOMIC_BYTES_MAX], compare[THOLE_ATOMIC_BYTES_MAX];
	uint32_t peer = prov_map_get(endpoint->peers, atomic->peer);
	struct thole_atomic operation = {
		.op = (enum thole_atomic_op)atomic->op,
		.type = (enum thole_type)atomic->type,
		.count = elements,
		.operand =
			atomic->op == FI_ATOMIC_READ ? NULL : prov_atomic_parts_gather(&atomic->operand, size, operand),
		.compare = prov_atomic_parts_gather(&atomic->compare, size, compare),
		.key = atomic->key,
		.offset = atomic->offset,
	};

	if (atomic->result.count > 1)
		return prov_atomic_scattered(endpoint, peer, atomic, &operation, size);
	return prov_atomic_direct(endpoint, peer, atomic, &operation);
}

/* Bytes of an element, or 0 if there is no such operation. */
static size_t prov_atomic_element_size(enum fi_datatype type, enum fi_op op)
{
	if ((unsigned)type >= THOLE_TYPE_COUNT || (unsigned)op >= THOLE_ATOMIC_OP_COUNT)
		return 0;
	return thole_atomic_size((enum thole_atomic_op)op, (enum thole_type)type);
}

static bool prov_atomic_is_compare(enum fi_op op)
{
	return op >= FI_CSWAP && op <= FI_MSWAP;
}

/* Bytes of an element of an operation in its family; 0 if there is none. */
static size_t prov_atomic_family_size(enum fi_datatype type, enum fi_op op, uint64_t family)
{
	if (prov_atomic_is_compare(op) != !!(family & FI_COMPARE_ATOMIC))
		return 0;
	if (op == FI_ATOMIC_READ && !(family & FI_FETCH_ATOMIC))
		return 0;
	return prov_atomic_element_size(type, op);
}

static ssize_t prov_atomic_run(struct fid_ep *fid, const struct atomic *atomic)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	uint64_t family = atomic->compare.count ? FI_COMPARE_ATOMIC : atomic->result.count ? FI_FETCH_ATOMIC : 0;
	size_t size = prov_atomic_family_size(atomic->type, atomic->op, family);
	/* A read has no operand; its result says how much. */
	size_t elements = prov_atomic_parts_elements(atomic->op == FI_ATOMIC_READ ? &atomic->result : &atomic->operand);
	int error;

	if (!size)
		return -FI_EOPNOTSUPP;
	if (!elements || elements > THOLE_ATOMIC_BYTES_MAX / size || atomic->operand.count > PROV_SEGMENTS_MAX ||
	    atomic->result.count > PROV_SEGMENTS_MAX || atomic->compare.count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	if ((atomic->result.count && prov_atomic_parts_elements(&atomic->result) != elements) ||
	    (atomic->compare.count && prov_atomic_parts_elements(&atomic->compare) != elements))
		return -FI_EINVAL;
	prov_domain_lock(endpoint->domain);
	error = prov_atomic_start(endpoint, atomic, size, elements);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

/* ---- Putting parameters in order ------------------------------------------------------------------------ */

static unsigned prov_atomic_flags_of(struct fid_ep *ep, bool fetches, uint64_t flags)
{
	return prov_flags_send(prov_endpoint_of(ep), fetches ? THOLE_OP_ATOMIC_FETCH : THOLE_OP_ATOMIC,
			       flags & ~FI_REMOTE_CQ_DATA);
}

static unsigned prov_atomic_flags_default(struct fid_ep *ep, bool fetches)
{
	return prov_atomic_flags_of(ep, fetches, prov_endpoint_of(ep)->tx_flags);
}

static struct parts prov_atomic_parts_of(const struct fi_ioc *ioc, size_t count)
{
	return (struct parts){.ioc = ioc, .count = count};
}

static ssize_t prov_atomic_message(struct fid_ep *ep, const struct fi_msg_atomic *message, struct parts compare,
				   struct parts result, uint64_t flags)
{
	if (message->rma_iov_count != 1)
		return -FI_EINVAL;
	return prov_atomic_run(ep,
			       &(struct atomic){.operand = prov_atomic_parts_of(message->msg_iov, message->iov_count),
						.compare = compare,
						.result = result,
						.peer = message->addr,
						.offset = message->rma_iov->addr,
						.key = message->rma_iov->key,
						.type = message->datatype,
						.op = message->op,
						.flags = prov_atomic_flags_of(ep, result.count != 0, flags),
						.context = message->context});
}

static const struct parts nothing;

static ssize_t prov_atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t to,
				  uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	struct atomic atomic = {.operand = prov_atomic_parts_of(iov, count),
				.peer = to,
				.offset = offset,
				.key = key,
				.type = type,
				.op = op,
				.flags = prov_atomic_flags_default(ep, false),
				.context = context};

	(void)desc;
	return prov_atomic_run(ep, &atomic);
}

static ssize_t prov_atomic_write(struct fid_ep *ep, const void *buffer, size_t count, void *desc, fi_addr_t to,
				 uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buffer, .count = count};

	(void)desc;
	return prov_atomic_writev(ep, &ioc, NULL, 1, to, offset, key, type, op, context);
}

static ssize_t prov_atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *message, uint64_t flags)
{
	return prov_atomic_message(ep, message, nothing, nothing, flags);
}

static ssize_t prov_atomic_inject(struct fid_ep *ep, const void *buffer, size_t count, fi_addr_t to, uint64_t offset,
				  uint64_t key, enum fi_datatype type, enum fi_op op)
{
	struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buffer, .count = count};
	unsigned flags = THOLE_INJECT | prov_endpoint_silence(prov_endpoint_of(ep), THOLE_OP_ATOMIC, 0);
	struct atomic atomic = {.operand = prov_atomic_parts_of(&ioc, 1),
				.peer = to,
				.offset = offset,
				.key = key,
				.type = type,
				.op = op,
				.flags = flags};

	return prov_atomic_run(ep, &atomic);
}

static ssize_t prov_atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				      const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				      struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t to,
				      uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op,
				      void *context)
{
	struct atomic atomic = {.operand = prov_atomic_parts_of(iov, count),
				.compare = prov_atomic_parts_of(comparev, compare_count),
				.result = prov_atomic_parts_of(resultv, result_count),
				.peer = to,
				.offset = offset,
				.key = key,
				.type = type,
				.op = op,
				.flags = prov_atomic_flags_default(ep, true),
				.context = context};

	(void)desc, (void)compare_desc, (void)result_desc;
	return prov_atomic_run(ep, &atomic);
}

static ssize_t prov_atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				      struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t to,
				      uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op,
				      void *context)
{
	return prov_atomic_compwritev(ep, iov, desc, count, NULL, NULL, 0, resultv, result_desc, result_count, to,
				      offset, key, type, op, context);
}

static ssize_t prov_atomic_readwrite(struct fid_ep *ep, const void *buffer, size_t count, void *desc, void *result,
				     void *result_desc, fi_addr_t to, uint64_t offset, uint64_t key,
				     enum fi_datatype type, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buffer, .count = count};
	struct fi_ioc into = {.addr = result, .count = count};

	(void)desc, (void)result_desc;
	return prov_atomic_readwritev(ep, &ioc, NULL, 1, &into, NULL, 1, to, offset, key, type, op, context);
}

static ssize_t prov_atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *message, struct fi_ioc *resultv,
					void **result_desc, size_t result_count, uint64_t flags)
{
	(void)result_desc;
	return prov_atomic_message(ep, message, nothing, prov_atomic_parts_of(resultv, result_count), flags);
}

static ssize_t prov_atomic_compwrite(struct fid_ep *ep, const void *buffer, size_t count, void *desc,
				     const void *compare, void *compare_desc, void *result, void *result_desc,
				     fi_addr_t to, uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op,
				     void *context)
{
	struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buffer, .count = count};
	struct fi_ioc with = {.addr = (void *)(uintptr_t)compare, .count = count};
	struct fi_ioc into = {.addr = result, .count = count};

	(void)desc, (void)compare_desc, (void)result_desc;
	return prov_atomic_compwritev(ep, &ioc, NULL, 1, &with, NULL, 1, &into, NULL, 1, to, offset, key, type, op,
				      context);
}

static ssize_t prov_atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *message,
					const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
					struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)
{
	(void)compare_desc, (void)result_desc;
	return prov_atomic_message(ep, message, prov_atomic_parts_of(comparev, compare_count),
				   prov_atomic_parts_of(resultv, result_count), flags);
}

/* ---- Which there are ------------------------------------------------------------------------------------ */

int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
		      uint64_t flags)
{
	size_t size;

	(void)domain;
	if (!attr || (flags & FI_FETCH_ATOMIC && flags & FI_COMPARE_ATOMIC))
		return -FI_EINVAL;
	size = prov_atomic_family_size(type, op, flags);
	if (!size)
		return -FI_EOPNOTSUPP;
	attr->size = size;
	attr->count = THOLE_ATOMIC_BYTES_MAX / size;
	return 0;
}

static int prov_atomic_valid(enum fi_datatype type, enum fi_op op, uint64_t family, size_t *count_p)
{
	struct fi_atomic_attr attr;
	int error = prov_atomic_query(NULL, type, op, &attr, family);

	if (!error && count_p)
		*count_p = attr.count;
	return error;
}

static int prov_atomic_write_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count_p)
{
	(void)ep;
	return prov_atomic_valid(type, op, 0, count_p);
}

static int prov_atomic_readwrite_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count_p)
{
	(void)ep;
	return prov_atomic_valid(type, op, FI_FETCH_ATOMIC, count_p);
}

static int prov_atomic_compwrite_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count_p)
{
	(void)ep;
	return prov_atomic_valid(type, op, FI_COMPARE_ATOMIC, count_p);
}

struct fi_ops_atomic prov_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = prov_atomic_write,
	.writev = prov_atomic_writev,
	.writemsg = prov_atomic_writemsg,
	.inject = prov_atomic_inject,
	.readwrite = prov_atomic_readwrite,
	.readwritev = prov_atomic_readwritev,
	.readwritemsg = prov_atomic_readwritemsg,
	.compwrite = prov_atomic_compwrite,
	.compwritev = prov_atomic_compwritev,
	.compwritemsg = prov_atomic_compwritemsg,
	.writevalid = prov_atomic_write_valid,
	.readwritevalid = prov_atomic_readwrite_valid,
	.compwritevalid = prov_atomic_compwrite_valid,
};
