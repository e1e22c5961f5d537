/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX's calls for what Thole does not do by this interface: remote memory, atomics, streams, waking, listening.
 * Programs hear so from ucp_init or ucp_mem_map, before they call the others; but a library that is bound to all names
 * at once has to find them.
 *
 * They are here by name alone, without UCX's header: each takes what it takes and returns the same word, as a status
 * or as a pointer that is one.
 */
#include <stdint.h>

enum { UNSUPPORTED = -22 }; /* UCS_ERR_UNSUPPORTED */

intptr_t ucx_refused(void);

intptr_t ucx_refused(void)
{
	return UNSUPPORTED;
}

#define REFUSED(name) intptr_t name(void) __attribute__((alias("ucx_refused"), visibility("default")));
REFUSED(ucp_atomic_add32)
REFUSED(ucp_atomic_add64)
REFUSED(ucp_atomic_cswap32)
REFUSED(ucp_atomic_cswap64)
REFUSED(ucp_atomic_fadd32)
REFUSED(ucp_atomic_fadd64)
REFUSED(ucp_atomic_fetch_nb)
REFUSED(ucp_atomic_op_nbx)
REFUSED(ucp_atomic_post)
REFUSED(ucp_atomic_swap32)
REFUSED(ucp_atomic_swap64)
REFUSED(ucp_conn_request_query)
REFUSED(ucp_device_counter_init)
REFUSED(ucp_device_counter_read)
REFUSED(ucp_device_mem_list_create)
REFUSED(ucp_device_mem_list_release)
REFUSED(ucp_dt_query)
REFUSED(ucp_ep_evaluate_perf)
REFUSED(ucp_ep_modify_nb)
REFUSED(ucp_ep_rkey_unpack)
REFUSED(ucp_get)
REFUSED(ucp_get_nb)
REFUSED(ucp_get_nbi)
REFUSED(ucp_get_nbx)
REFUSED(ucp_listener_create)
REFUSED(ucp_listener_destroy)
REFUSED(ucp_listener_query)
REFUSED(ucp_listener_reject)
REFUSED(ucp_mem_advise)
REFUSED(ucp_mem_print_info)
REFUSED(ucp_mem_query)
REFUSED(ucp_mem_unmap)
REFUSED(ucp_memh_buffer_release)
REFUSED(ucp_memh_pack)
REFUSED(ucp_put)
REFUSED(ucp_put_nb)
REFUSED(ucp_put_nbi)
REFUSED(ucp_put_nbx)
REFUSED(ucp_rkey_buffer_release)
REFUSED(ucp_rkey_compare)
REFUSED(ucp_rkey_destroy)
REFUSED(ucp_rkey_pack)
REFUSED(ucp_rkey_ptr)
REFUSED(ucp_stream_data_release)
REFUSED(ucp_stream_recv_data_nb)
REFUSED(ucp_stream_recv_nb)
REFUSED(ucp_stream_recv_nbx)
REFUSED(ucp_stream_recv_request_test)
REFUSED(ucp_stream_send_nb)
REFUSED(ucp_stream_send_nbx)
REFUSED(ucp_stream_worker_poll)
REFUSED(ucp_worker_address_query)
REFUSED(ucp_worker_arm)
REFUSED(ucp_worker_get_efd)
REFUSED(ucp_worker_signal)
REFUSED(ucp_worker_wait)
REFUSED(ucp_worker_wait_mem)
