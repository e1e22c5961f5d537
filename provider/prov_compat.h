/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_compat.h - what differs between the libfabric headers 1.17 and 2.x, in one place.
 *
 * The provider is compiled against whatever headers the system has and is loaded by whatever core
 * the MPI brings, so the two need not be of one version. Constants that a header deprecates or does
 * not have yet get a name of ours here; their values are libfabric's binary interface and cannot
 * change. No other file of the provider has an #if.
 */
#ifndef PROV_COMPAT_H
#define PROV_COMPAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h" /* first: libfabric has a container_of for those who have none */

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

enum {
	/* mr_mode before libfabric 1.5: a whole mode, not a set of bits. */
	PROV_MR_BASIC = 1,
	PROV_MR_SCALABLE = 2,
	/* Endpoint options that came after 1.17. */
	PROV_OPT_CUDA_API_PERMITTED = 10,
	PROV_OPT_SHARED_MEMORY_PERMITTED = 11,
	PROV_OPT_MAX_MSG_SIZE = 12,
	PROV_OPT_MAX_ATOMIC_SIZE = 15,
	PROV_OPT_INJECT_MSG_SIZE = 16,
	PROV_OPT_INJECT_ATOMIC_SIZE = 19,
	/* Counting bytes instead of operations; came with 2.x. */
	PROV_CNTR_EVENTS_BYTES = 1,
	/* A newer core copies its own, longer structures out of what a provider returns. */
	PROV_SLACK_BYTES = 256
};

/* The provider's own kinds of address and protocol: bit 31 marks a private value. */
#define PROV_ADDR_FORMAT 0x80007401U
#define PROV_PROTOCOL    0x80007401U

/* A registration of a file descriptor's memory instead of an address. */
#define PROV_MR_DMABUF (1ULL << 40)

/* Any tag layout: alternating bits say that each single bit is a field of its own. */
#define PROV_TAG_FORMAT 0xaaaaaaaaaaaaaaaaULL

/* What the newest core known asks for, and what this provider implements. */
#define PROV_API_VERSION FI_VERSION(2, 5)

/* Bytes of an error entry that every version of it has. */
#define PROV_ERROR_ENTRY_BYTES (offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t))

#endif /* PROV_COMPAT_H */
