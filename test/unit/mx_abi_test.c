/* SPDX-License-Identifier: BSD-3-Clause */
/* MX's headers: what binaries of MX 1.2 have compiled in. The numbers are written out: they must never change. */
#include "unit.h"

#include <string.h>

#include "mx_extensions.h"
#include "mx_internals/mx__driver_interface.h"
#include "mx_internals/mx__fops.h"
#include "mx_io.h"
#include "mx_raw.h"
#include "myriexpress.h"

/* Compiles only if each function has MX's type. */
#define HAS_TYPE(function, ...)                                                                                        \
	_Static_assert(__builtin_types_compatible_p(__typeof__(function), __VA_ARGS__), #function)
HAS_TYPE(mx__init_api, mx_return_t(int));
HAS_TYPE(mx_finalize, mx_return_t(void));
HAS_TYPE(mx_set_error_handler, mx_error_handler_t(mx_error_handler_t));
HAS_TYPE(mx_open_endpoint, mx_return_t(uint32_t, uint32_t, uint32_t, mx_param_t *, uint32_t, mx_endpoint_t *));
HAS_TYPE(mx_close_endpoint, mx_return_t(mx_endpoint_t));
HAS_TYPE(mx_wakeup, mx_return_t(mx_endpoint_t));
HAS_TYPE(mx_disable_progression, mx_return_t(mx_endpoint_t));
HAS_TYPE(mx_reenable_progression, mx_return_t(mx_endpoint_t));
HAS_TYPE(mx_progress, mx_return_t(mx_endpoint_t));
HAS_TYPE(mx_isend,
	 mx_return_t(mx_endpoint_t, mx_segment_t *, uint32_t, mx_endpoint_addr_t, uint64_t, void *, mx_request_t *));
HAS_TYPE(mx_issend,
	 mx_return_t(mx_endpoint_t, mx_segment_t *, uint32_t, mx_endpoint_addr_t, uint64_t, void *, mx_request_t *));
HAS_TYPE(mx_irecv, mx_return_t(mx_endpoint_t, mx_segment_t *, uint32_t, uint64_t, uint64_t, void *, mx_request_t *));
HAS_TYPE(mx_cancel, mx_return_t(mx_endpoint_t, mx_request_t *, uint32_t *));
HAS_TYPE(mx_ipeek, mx_return_t(mx_endpoint_t, mx_request_t *, uint32_t *));
HAS_TYPE(mx_ibuffered, mx_return_t(mx_endpoint_t, mx_request_t *, uint32_t *));
HAS_TYPE(mx_test, mx_return_t(mx_endpoint_t, mx_request_t *, mx_status_t *, uint32_t *));
HAS_TYPE(mx_wait, mx_return_t(mx_endpoint_t, mx_request_t *, uint32_t, mx_status_t *, uint32_t *));
HAS_TYPE(mx_test_any, mx_return_t(mx_endpoint_t, uint64_t, uint64_t, mx_status_t *, uint32_t *));
HAS_TYPE(mx_iprobe, mx_return_t(mx_endpoint_t, uint64_t, uint64_t, mx_status_t *, uint32_t *));
HAS_TYPE(mx_wait_any, mx_return_t(mx_endpoint_t, uint32_t, uint64_t, uint64_t, mx_status_t *, uint32_t *));
HAS_TYPE(mx_probe, mx_return_t(mx_endpoint_t, uint32_t, uint64_t, uint64_t, mx_status_t *, uint32_t *));
HAS_TYPE(mx_peek, mx_return_t(mx_endpoint_t, uint32_t, mx_request_t *, uint32_t *));
HAS_TYPE(mx_buffered, mx_return_t(mx_endpoint_t, mx_request_t *, uint32_t, uint32_t *));
HAS_TYPE(mx_context, mx_return_t(mx_request_t *, void **));
HAS_TYPE(mx_get_info, mx_return_t(mx_endpoint_t, mx_get_info_key_t, void *, uint32_t, void *, uint32_t));
HAS_TYPE(mx_hostname_to_nic_id, mx_return_t(char *, uint64_t *));
HAS_TYPE(mx_nic_id_to_hostname, mx_return_t(uint64_t, char *));
HAS_TYPE(mx_board_number_to_nic_id, mx_return_t(uint32_t, uint64_t *));
HAS_TYPE(mx_nic_id_to_board_number, mx_return_t(uint64_t, uint32_t *));
HAS_TYPE(mx_connect, mx_return_t(mx_endpoint_t, uint64_t, uint32_t, uint32_t, uint32_t, mx_endpoint_addr_t *));
HAS_TYPE(mx_decompose_endpoint_addr, mx_return_t(mx_endpoint_addr_t, uint64_t *, uint32_t *));
HAS_TYPE(mx_get_endpoint_addr, mx_return_t(mx_endpoint_t, mx_endpoint_addr_t *));
HAS_TYPE(mx_strerror, const char *(mx_return_t));
HAS_TYPE(mx_strstatus, const char *(mx_status_code_t));
HAS_TYPE(mx_register_unexp_callback, mx_return_t(mx_endpoint_t, mx_matching_callback_t, void *));
HAS_TYPE(mx_iput, mx_return_t(mx_endpoint_t, void *, uint32_t, mx_endpoint_addr_t, uint64_t, void *, mx_request_t *));
HAS_TYPE(mx_iget, mx_return_t(mx_endpoint_t, void *, uint32_t, mx_endpoint_addr_t, uint64_t, void *, mx_request_t *));
HAS_TYPE(mx_iconnect, mx_return_t(mx_endpoint_t, uint64_t, uint32_t, uint32_t, uint64_t, void *, mx_request_t *));
HAS_TYPE(mx_disconnect, mx_return_t(mx_endpoint_t, mx_endpoint_addr_t));
HAS_TYPE(mx_register_unexp_handler, mx_return_t(mx_endpoint_t, mx_unexp_handler_t, void *));
HAS_TYPE(mx_forget, mx_return_t(mx_endpoint_t, mx_request_t *));
HAS_TYPE(mx_set_endpoint_addr_context, mx_return_t(mx_endpoint_addr_t, void *));
HAS_TYPE(mx_get_endpoint_addr_context, mx_return_t(mx_endpoint_addr_t, void **));
HAS_TYPE(mx_set_request_timeout, mx_return_t(mx_endpoint_t, mx_request_t, uint32_t));
HAS_TYPE(mx_decompose_endpoint_addr2, mx_return_t(mx_endpoint_addr_t, uint64_t *, uint32_t *, uint32_t *));
HAS_TYPE(mx__get_mapper_state, mx_return_t(mx_endpt_handle_t, mx_mapper_state_t *));
HAS_TYPE(mx_open_board, mx_return_t(int, mx_endpt_handle_t *));
HAS_TYPE(mx__regcache_clean, int(void *, size_t));
HAS_TYPE(mx_raw_handle, mx_endpt_handle_t(mx_raw_endpoint_t));
HAS_TYPE(mx_raw_open_endpoint, mx_return_t(uint32_t, mx_param_t *, uint32_t, mx_raw_endpoint_t *));
HAS_TYPE(mx_raw_close_endpoint, mx_return_t(mx_raw_endpoint_t));
HAS_TYPE(mx_raw_set_route_begin, mx_return_t(mx_raw_endpoint_t));
HAS_TYPE(mx_raw_set_route_end, mx_return_t(mx_raw_endpoint_t));
HAS_TYPE(mx_raw_send, mx_return_t(mx_raw_endpoint_t, uint32_t, void *, uint32_t, void *, uint32_t, void *));
HAS_TYPE(mx_raw_next_event,
	 mx_return_t(mx_raw_endpoint_t, uint32_t *, void **, void *, uint32_t *, uint32_t, mx_raw_status_t *));
HAS_TYPE(mx_raw_set_route_mag,
	 mx_return_t(mx_raw_endpoint_t, uint64_t, void *, uint32_t, uint32_t, uint32_t, mx_host_type_t, uint32_t));
HAS_TYPE(mx_raw_set_route,
	 mx_return_t(mx_raw_endpoint_t, uint64_t, void *, uint32_t, uint32_t, uint32_t, mx_host_type_t));
HAS_TYPE(mx_raw_clear_routes, mx_return_t(mx_raw_endpoint_t, uint64_t, uint32_t));
HAS_TYPE(mx_raw_remove_peer, mx_return_t(mx_raw_endpoint_t, uint64_t));
HAS_TYPE(mx_raw_set_map_version, mx_return_t(mx_raw_endpoint_t, uint32_t, uint64_t, uint32_t, uint32_t, uint32_t));
HAS_TYPE(mx_raw_num_ports, mx_return_t(mx_raw_endpoint_t, uint32_t *));
HAS_TYPE(mx_raw_line_speed, mx_return_t(mx_raw_endpoint_t, mx_line_speed_t *));
HAS_TYPE(mx_raw_set_hostname, mx_return_t(mx_raw_endpoint_t, char *));
HAS_TYPE(mx_raw_set_peer_name, mx_return_t(mx_raw_endpoint_t, uint64_t, char *));
HAS_TYPE(mx_raw_set_nic_reply_info, mx_return_t(mx_raw_endpoint_t, void *, uint32_t));

struct constant {
	const char *name;
	long long value, is;
};

#define IS(value, name) {#name, value, (long long)(name)}

static const struct constant constants[] = {
	IS(0x301, MX_API),
	IS(128, MX_MAX_STR_LEN),
	IS(80, MX_MAX_HOSTNAME_LEN),
	IS(256, MX_MAX_SEGMENTS),
	IS(16, MX_SIZEOF_ADDR),
	IS(16, MX_CONTEXT_ID_BITS_MAX),
	IS(0, MX_INFINITE),
	IS(0xffffffff, MX_ANY_NIC),
	IS(0xffffffff, MX_ANY_ENDPOINT),
	IS(-1, MX_MATCH_MASK_NONE),
	IS(1, MX_HAS_ICONNECT_V2),

	IS(0, MX_SUCCESS),
	IS(1, MX_BAD_BAD_BAD),
	IS(2, MX_FAILURE),
	IS(3, MX_ALREADY_INITIALIZED),
	IS(4, MX_NOT_INITIALIZED),
	IS(5, MX_NO_DEV),
	IS(6, MX_NO_DRIVER),
	IS(7, MX_NO_PERM),
	IS(8, MX_BOARD_UNKNOWN),
	IS(9, MX_BAD_ENDPOINT),
	IS(10, MX_BAD_SEG_LIST),
	IS(11, MX_BAD_SEG_MEM),
	IS(12, MX_BAD_SEG_CNT),
	IS(13, MX_BAD_REQUEST),
	IS(14, MX_BAD_MATCH_MASK),
	IS(15, MX_NO_RESOURCES),
	IS(16, MX_BAD_ADDR_LIST),
	IS(17, MX_BAD_ADDR_COUNT),
	IS(18, MX_BAD_ROOT),
	IS(19, MX_NOT_COMPLETED),
	IS(20, MX_BUSY),
	IS(21, MX_BAD_INFO_KEY),
	IS(22, MX_BAD_INFO_VAL),
	IS(23, MX_BAD_NIC),
	IS(24, MX_BAD_PARAM_LIST),
	IS(25, MX_BAD_PARAM_NAME),
	IS(26, MX_BAD_PARAM_VAL),
	IS(27, MX_BAD_HOSTNAME_ARGS),
	IS(28, MX_HOST_NOT_FOUND),
	IS(29, MX_REQUEST_PENDING),
	IS(30, MX_TIMEOUT),
	IS(31, MX_NO_MATCH),
	IS(32, MX_BAD_ENDPOINT_ID),
	IS(33, MX_CONNECTION_FAILED),
	IS(34, MX_BAD_CONNECTION_KEY),
	IS(35, MX_BAD_INFO_LENGTH),
	IS(36, MX_NIC_NOT_FOUND),
	IS(37, MX_BAD_KERNEL_VERSION),
	IS(38, MX_BAD_LIB_VERSION),
	IS(39, MX_NIC_DEAD),
	IS(40, MX_CANCEL_NOT_SUPPORTED),
	IS(41, MX_CLOSE_IN_HANDLER),
	IS(42, MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK),
	IS(43, MX_NOT_SUPPORTED_WITH_CONTEXT_ID),

	IS(0, MX_STATUS_SUCCESS),
	IS(1, MX_STATUS_PENDING),
	IS(2, MX_STATUS_BUFFERED),
	IS(3, MX_STATUS_REJECTED),
	IS(4, MX_STATUS_TIMEOUT),
	IS(5, MX_STATUS_TRUNCATED),
	IS(6, MX_STATUS_CANCELLED),
	IS(7, MX_STATUS_ENDPOINT_UNKNOWN),
	IS(8, MX_STATUS_ENDPOINT_CLOSED),
	IS(9, MX_STATUS_ENDPOINT_UNREACHABLE),
	IS(10, MX_STATUS_BAD_SESSION),
	IS(11, MX_STATUS_BAD_KEY),
	IS(12, MX_STATUS_BAD_ENDPOINT),
	IS(13, MX_STATUS_BAD_RDMAWIN),
	IS(14, MX_STATUS_ABORTED),
	IS(15, MX_STATUS_EVENTQ_FULL),
	IS(16, MX_STATUS_NO_RESOURCES),

	IS(0, MX_PARAM_ERROR_HANDLER),
	IS(1, MX_PARAM_UNEXP_QUEUE_MAX),
	IS(2, MX_PARAM_CONTEXT_ID),
	IS(0, MX_RECV_CONTINUE),
	IS(1, MX_RECV_FINISHED),
	IS(0, MX_NET_MYRI),
	IS(1, MX_NET_ETHER),
	IS(0, MX_SPEED_2G),
	IS(1, MX_SPEED_10G),
	IS(2, MX_SPEED_OPEN_MX),

	IS(1, MX_NIC_COUNT),
	IS(2, MX_NIC_IDS),
	IS(3, MX_MAX_NATIVE_ENDPOINTS),
	IS(4, MX_NATIVE_REQUESTS),
	IS(5, MX_COUNTERS_COUNT),
	IS(6, MX_COUNTERS_LABELS),
	IS(7, MX_COUNTERS_VALUES),
	IS(8, MX_PRODUCT_CODE),
	IS(9, MX_PART_NUMBER),
	IS(10, MX_SERIAL_NUMBER),
	IS(11, MX_PORT_COUNT),
	IS(12, MX_PIO_SEND_MAX),
	IS(13, MX_COPY_SEND_MAX),
	IS(14, MX_NUMA_NODE),
	IS(15, MX_NET_TYPE),
	IS(16, MX_LINE_SPEED),

	IS(-1, MX__INVALID_HANDLE),
	IS(1, MX_RAW_POLL_SUPPORTED),
	IS(1, MX_SET_ROUTE_TAKES_MAGID),
	IS(1, MX_HAS_RAW_LINE_SPEED),
	IS(1, MX_HAS_RAW_SET_NIC_REPLY_INFO),
	IS(0, MX_RAW_NO_EVENT),
	IS(1, MX_RAW_SEND_COMPLETE),
	IS(2, MX_RAW_RECV_COMPLETE),
	IS(10, MX_DEAD_RECOVERABLE_SRAM_PARITY_ERROR),
	IS(11, MX_DEAD_SRAM_PARITY_ERROR),
	IS(12, MX_DEAD_WATCHDOG_TIMEOUT),
	IS(13, MX_DEAD_COMMAND_TIMEOUT),
	IS(14, MX_DEAD_ENDPOINT_CLOSE_TIMEOUT),
	IS(15, MX_DEAD_ROUTE_UPDATE_TIMEOUT),
	IS(16, MX_DEAD_PCI_PARITY_ERROR),
	IS(17, MX_DEAD_PCI_MASTER_ABORT),
	IS(1, MX_HOST_GM),
	IS(2, MX_HOST_XM),
	IS(3, MX_HOST_MX),
	IS(4, MX_HOST_MXvM),
};

static const struct constant layouts[] = {
	IS(4, sizeof(mx_return_t)),
	IS(4, sizeof(mx_status_code_t)),
	IS(4, sizeof(mx_param_key_t)),
	IS(4, sizeof(mx_get_info_key_t)),
	IS(4, sizeof(mx_unexp_handler_action_t)),
	IS(4, sizeof(mx_line_speed_t)),
	IS(4, sizeof(enum mx_net_type)),
	IS(4, sizeof(mx_endpt_handle_t)),
	IS(4, sizeof(mx_raw_status_t)),
	IS(4, sizeof(mx_host_type_t)),

	IS(16, sizeof(mx_endpoint_addr_t)),
	IS(8, _Alignof(mx_endpoint_addr_t)),
	IS(0, offsetof(mx_endpoint_addr_t, stuff)),

	IS(0, offsetof(mx_mapper_state_t, board_number)),
	IS(4, offsetof(mx_mapper_state_t, mapper_mac)),
	IS(10, offsetof(mx_mapper_state_t, iport)),
	IS(12, offsetof(mx_mapper_state_t, map_version)),
	IS(16, offsetof(mx_mapper_state_t, num_hosts)),
	IS(20, offsetof(mx_mapper_state_t, network_configured)),
	IS(24, offsetof(mx_mapper_state_t, routes_valid)),
	IS(28, offsetof(mx_mapper_state_t, level)),
	IS(32, offsetof(mx_mapper_state_t, flags)),
	IS(36, sizeof(mx_mapper_state_t)),

	IS(0, offsetof(mx_status_t, code)),
	IS(8, offsetof(mx_status_t, source)),
	IS(24, offsetof(mx_status_t, match_info)),
	IS(32, offsetof(mx_status_t, msg_length)),
	IS(36, offsetof(mx_status_t, xfer_length)),
	IS(40, offsetof(mx_status_t, context)),
};

/* With pointers of 8 bytes. */
static const struct constant layouts_64[] = {
	IS(8, sizeof(mx_endpoint_t)),
	IS(8, sizeof(mx_request_t)),
	IS(8, sizeof(mx_raw_endpoint_t)),
	IS(8, sizeof(mx_error_handler_t)),
	IS(48, sizeof(mx_status_t)),
	IS(0, offsetof(mx_segment_t, segment_ptr)),
	IS(8, offsetof(mx_segment_t, segment_length)),
	IS(16, sizeof(mx_segment_t)),
	IS(0, offsetof(mx_param_t, key)),
	IS(8, offsetof(mx_param_t, val)),
	IS(8, offsetof(mx_param_t, val.error_handler)),
	IS(8, offsetof(mx_param_t, val.unexp_queue_max)),
	IS(8, offsetof(mx_param_t, val.context_id.bits)),
	IS(9, offsetof(mx_param_t, val.context_id.shift)),
	IS(16, sizeof(mx_param_t)),
};

#define check(list) check_list((list), sizeof(list) / sizeof(*(list)))

static void check_list(const struct constant *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i].is != list[i].value)
			fail_msg("%s is %lld, not %lld", list[i].name, list[i].is, list[i].value);
	}
}

static void constants__are_those_of_mx(void **state)
{
	(void)state;
	check(constants);
}

static void layouts__are_those_of_mx(void **state)
{
	(void)state;
	check(layouts);
	if (sizeof(void *) == 8)
		check(layouts_64);
}

static void macros__halve_numbers(void **state)
{
	uint64_t nic_id = UINT64_C(0x0060dd47abcd);
	uint32_t narrow = 7;

	(void)state;
	assert_int_equal(MX_U32(nic_id), 0x60);
	assert_int_equal(MX_L32(nic_id), 0xdd47abcd);
	assert_int_equal(MX_U32(narrow), 0);
	assert_int_equal(MX_L32(narrow), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants__are_those_of_mx),
		cmocka_unit_test(layouts__are_those_of_mx),
		cmocka_unit_test(macros__halve_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
