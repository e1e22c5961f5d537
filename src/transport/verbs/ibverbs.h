/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibverbs: libibverbs, loaded when it is first asked for. Programs and hosts without it work as ever: nothing of it is
 * linked, and its inline functions go through the tables of what it has opened. It is never unloaded.
 *
 * Only where meson found its header (option verbs); nobody else includes that.
 */
#ifndef THOLE_TRANSPORT_VERBS_IBVERBS_H
#define THOLE_TRANSPORT_VERBS_IBVERBS_H

#include <infiniband/verbs.h>

#undef ibv_reg_mr
#undef ibv_query_port

/* ROW(what it is called here, its symbol): all of rdma-core 32, without which there is no way to know a GID's type. */
#define IBVERBS_TABLE(ROW) \
	ROW(get_device_list, ibv_get_device_list) \
	ROW(free_device_list, ibv_free_device_list) \
	ROW(get_device_name, ibv_get_device_name) \
	ROW(open_device, ibv_open_device) \
	ROW(close_device, ibv_close_device) \
	ROW(query_device, ibv_query_device) \
	ROW(query_port, ibv_query_port) \
	ROW(query_gid_ex, _ibv_query_gid_ex) \
	ROW(query_pkey, ibv_query_pkey) \
	ROW(alloc_pd, ibv_alloc_pd) \
	ROW(dealloc_pd, ibv_dealloc_pd) \
	ROW(reg_mr, ibv_reg_mr) \
	ROW(dereg_mr, ibv_dereg_mr) \
	ROW(create_comp_channel, ibv_create_comp_channel) \
	ROW(destroy_comp_channel, ibv_destroy_comp_channel) \
	ROW(create_cq, ibv_create_cq) \
	ROW(destroy_cq, ibv_destroy_cq) \
	ROW(get_cq_event, ibv_get_cq_event) \
	ROW(ack_cq_events, ibv_ack_cq_events) \
	ROW(create_srq, ibv_create_srq) \
	ROW(destroy_srq, ibv_destroy_srq) \
	ROW(create_qp, ibv_create_qp) \
	ROW(modify_qp, ibv_modify_qp) \
	ROW(destroy_qp, ibv_destroy_qp) \
	ROW(get_async_event, ibv_get_async_event) \
	ROW(ack_async_event, ibv_ack_async_event) \
	ROW(wc_status_str, ibv_wc_status_str) \
	ROW(fork_init, ibv_fork_init)

struct ibverbs {
#define IBVERBS_FIELD(name, symbol) __typeof__(symbol) *name;
	IBVERBS_TABLE(IBVERBS_FIELD)
#undef IBVERBS_FIELD
	/* Newer: whether the bytes of a work arrive in order. NULL: it does not say. */
	int (*query_qp_data_in_order)(struct ibv_qp *pair, enum ibv_wr_opcode opcode, uint32_t flags);
};

/* NULL: it is not here; says why by error_set. */
const struct ibverbs *ibverbs_load(void);
/* The whole of what the port has, or an errno. */
int ibverbs_port(const struct ibverbs *verbs, struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr_p);
/* The device's attributes, and what it can do of paging on demand; 0 or an errno. */
int ibverbs_device(const struct ibverbs *verbs, struct ibv_context *context, struct ibv_device_attr *attr_p,
		   struct ibv_odp_caps *paging_p);

#endif
