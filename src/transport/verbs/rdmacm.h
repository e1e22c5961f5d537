/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdmacm: librdmacm, loaded when an iWARP adapter is first met. Programs and hosts without it work as ever, by other
 * adapters too. It is never unloaded.
 *
 * Only where meson found its header; nobody else includes that.
 */
#ifndef THOLE_TRANSPORT_VERBS_RDMACM_H
#define THOLE_TRANSPORT_VERBS_RDMACM_H

#include <rdma/rdma_cma.h>

/* ROW(what it is called here, its symbol) */
#define RDMACM_TABLE(ROW) \
	ROW(create_event_channel, rdma_create_event_channel) \
	ROW(destroy_event_channel, rdma_destroy_event_channel) \
	ROW(create_id, rdma_create_id) \
	ROW(destroy_id, rdma_destroy_id) \
	ROW(bind_addr, rdma_bind_addr) \
	ROW(listen, rdma_listen) \
	ROW(get_src_port, rdma_get_src_port) \
	ROW(resolve_addr, rdma_resolve_addr) \
	ROW(resolve_route, rdma_resolve_route) \
	ROW(connect, rdma_connect) \
	ROW(accept, rdma_accept) \
	ROW(reject, rdma_reject) \
	ROW(get_cm_event, rdma_get_cm_event) \
	ROW(ack_cm_event, rdma_ack_cm_event)

struct rdmacm {
#define RDMACM_FIELD(name, symbol) __typeof__(symbol) *name;
	RDMACM_TABLE(RDMACM_FIELD)
#undef RDMACM_FIELD
};

/* NULL: it is not here; says why by error_set. */
const struct rdmacm *rdmacm_load(void);

#endif
