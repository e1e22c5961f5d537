/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_get_info and the names of boards, on whatever boards this host has. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "mx_endpoint.h"
#include "mx_request.h"
#include "message/state.h"
#include "transport/record.h"
#include "mx_internals/mx__driver_interface.h"

static uint32_t zero;

static mx_return_t ask_number(mx_get_info_key_t key, uint32_t *number_p)
{
	return mx_get_info(NULL, key, &zero, sizeof(zero), number_p, sizeof(*number_p));
}

static int setup(void **state)
{
	(void)state;
	mx_set_error_handler(MX_ERRORS_RETURN);
	return mx_init() != MX_SUCCESS;
}

static int teardown(void **state)
{
	(void)state;
	return mx_finalize() != MX_SUCCESS;
}

static void boards__agree_in_all_ways(void **state)
{
	uint32_t count = 0, number = 77;
	uint64_t *ids, nic_id = 0;

	(void)state;
	assert_int_equal(ask_number(MX_NIC_COUNT, &count), MX_SUCCESS);
	assert_true(count >= 1);
	ids = calloc(count + 1, sizeof(*ids));
	assert_non_null(ids);
	ids[count] = 1;
	assert_int_equal(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, count * 8), MX_BAD_INFO_LENGTH);
	assert_int_equal(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, (count + 1) * 8), MX_SUCCESS);
	assert_int_equal(ids[count], 0);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(mx_board_number_to_nic_id(i, &nic_id), MX_SUCCESS);
		assert_true(nic_id == ids[i] && nic_id != 0 && nic_id >> 48 == 0);
		assert_int_equal(mx_nic_id_to_board_number(ids[i], &number), MX_SUCCESS);
		assert_int_equal(number, i);
	}
	assert_int_equal(mx_board_number_to_nic_id(count, &nic_id), MX_BOARD_UNKNOWN);
	assert_int_equal(mx_nic_id_to_board_number(UINT64_C(1) << 48, &number), MX_BOARD_UNKNOWN);
	free(ids);
}

static void names__lead_there_and_back(void **state)
{
	char name[MX_MAX_HOSTNAME_LEN];
	uint64_t nic_id = 0, again = 0;

	(void)state;
	assert_int_equal(mx_board_number_to_nic_id(0, &nic_id), MX_SUCCESS);
	assert_int_equal(mx_nic_id_to_hostname(nic_id, name), MX_SUCCESS);
	assert_int_equal(mx_hostname_to_nic_id(name, &again), MX_SUCCESS);
	assert_true(again == nic_id);
	assert_int_equal(mx_hostname_to_nic_id(NULL, &again), MX_BAD_HOSTNAME_ARGS);
	assert_int_equal(mx_hostname_to_nic_id(name, NULL), MX_BAD_HOSTNAME_ARGS);
	assert_int_equal(mx_nic_id_to_hostname(nic_id, NULL), MX_BAD_HOSTNAME_ARGS);
}

static void texts__fit_or_are_refused(void **state)
{
	static const mx_get_info_key_t keys[] = {MX_PRODUCT_CODE, MX_PART_NUMBER, MX_SERIAL_NUMBER};
	char text[MX_MAX_STR_LEN];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		memset(text, 'x', sizeof(text));
		assert_int_equal(mx_get_info(NULL, keys[i], &zero, sizeof(zero), text, sizeof(text)), MX_SUCCESS);
		assert_in_range(strnlen(text, sizeof(text)), 1, sizeof(text) - 1);
		assert_int_equal(mx_get_info(NULL, keys[i], &zero, sizeof(zero), text, (uint32_t)strlen(text)),
				 MX_BAD_INFO_LENGTH);
	}
	assert_int_equal(strlen(text), 17); /* the last was the MAC */
}

static void numbers__are_those_of_thole(void **state)
{
	uint32_t number = 0;

	(void)state;
	assert_int_equal(ask_number(MX_MAX_NATIVE_ENDPOINTS, &number), MX_SUCCESS);
	assert_int_equal(number, MXI_ENDPOINTS);
	assert_int_equal(ask_number(MX_NATIVE_REQUESTS, &number), MX_SUCCESS);
	assert_int_equal(number, MXI_REQUESTS_MAX);
	assert_int_equal(number, REQUESTS_MAX); /* Thole's, which each of them takes one of */
	assert_int_equal(ask_number(MX_PORT_COUNT, &number), MX_SUCCESS);
	assert_int_equal(number, 1);
	assert_int_equal(ask_number(MX_PIO_SEND_MAX, &number), MX_SUCCESS);
	assert_int_equal(number, RECORD_INLINE_MAX);
	assert_int_equal(setenv("THOLE_EAGER_MAX", "12345", 1), 0);
	assert_int_equal(ask_number(MX_COPY_SEND_MAX, &number), MX_SUCCESS);
	assert_int_equal(number, 12345);
	unsetenv("THOLE_EAGER_MAX");
	assert_int_equal(ask_number(MX_NET_TYPE, &number), MX_SUCCESS);
	assert_int_equal(number, MX_NET_ETHER);
	assert_int_equal(ask_number(MX_LINE_SPEED, &number), MX_SUCCESS);
	assert_in_range(number, MX_SPEED_10G, MX_SPEED_OPEN_MX);
	assert_int_equal(ask_number(MX_NUMA_NODE, &number), MX_SUCCESS);
}

static void counters__have_labels_and_values(void **state)
{
	uint32_t count = 0, *values;
	char *labels;

	(void)state;
	assert_int_equal(ask_number(MX_COUNTERS_COUNT, &count), MX_SUCCESS);
	assert_true(count > 10);
	labels = malloc((size_t)count * MX_MAX_STR_LEN);
	values = malloc(count * sizeof(*values));
	assert_true(labels && values);
	memset(values, 0xff, count * sizeof(*values));
	assert_int_equal(mx_get_info(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, count * MX_MAX_STR_LEN - 1),
			 MX_BAD_INFO_LENGTH);
	assert_int_equal(mx_get_info(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, count * MX_MAX_STR_LEN), MX_SUCCESS);
	assert_string_equal(labels, "sent_eager");
	for (uint32_t i = 0; i < count; i++)
		assert_in_range(strlen(labels + i * MX_MAX_STR_LEN), 1, MX_MAX_STR_LEN - 1);
	assert_int_equal(mx_get_info(NULL, MX_COUNTERS_VALUES, &zero, 4, values, count * 4 - 1), MX_BAD_INFO_LENGTH);
	assert_int_equal(mx_get_info(NULL, MX_COUNTERS_VALUES, &zero, 4, values, count * 4), MX_SUCCESS);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(values[i], 0); /* this process has no endpoint */
	free(labels);
	free(values);
}

static void errors__say_what_is_wrong(void **state)
{
	uint32_t number = 0, beyond = 100000;
	uint8_t narrow = 0;

	(void)state;
	assert_int_equal(mx_get_info(NULL, (mx_get_info_key_t)0, NULL, 0, &number, 4), MX_BAD_INFO_KEY);
	assert_int_equal(mx_get_info(NULL, (mx_get_info_key_t)17, NULL, 0, &number, 4), MX_BAD_INFO_KEY);
	assert_int_equal(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, NULL, 4), MX_BAD_INFO_VAL);
	assert_int_equal(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &number, 3), MX_BAD_INFO_LENGTH);
	assert_int_equal(mx_get_info(NULL, MX_NET_TYPE, NULL, 4, &number, 4), MX_BAD_INFO_VAL);
	assert_int_equal(mx_get_info(NULL, MX_NET_TYPE, &zero, 2, &number, 4), MX_BAD_INFO_LENGTH);
	assert_int_equal(mx_get_info(NULL, MX_NET_TYPE, &beyond, 4, &number, 4), MX_BOARD_UNKNOWN);
	assert_int_equal(mx_get_info(NULL, MX_NET_TYPE, &narrow, 1, &number, 4), MX_SUCCESS);
}

static void mapper_state__is_the_same_everywhere(void **state)
{
	static const uint8_t nobody[6];
	mx_endpt_handle_t handle = MX__INVALID_HANDLE;
	mx_mapper_state_t mapper;

	(void)state;
	assert_int_equal(mx_open_board(0, &handle), MX_SUCCESS);
	memset(&mapper, 0xff, sizeof(mapper));
	assert_int_equal(mx__get_mapper_state(handle, &mapper), MX_SUCCESS);
	assert_int_equal(mapper.board_number, 0);
	assert_memory_equal(mapper.mapper_mac, nobody, 6);
	assert_true(mapper.network_configured && mapper.routes_valid);
	assert_int_equal(mx__get_mapper_state(handle, NULL), MX_BAD_INFO_VAL);
	assert_int_equal(mx__get_mapper_state(MX__INVALID_HANDLE, &mapper), MX_BOARD_UNKNOWN);
	assert_int_equal(mx_open_board(100000, &handle), MX_BOARD_UNKNOWN);
	assert_int_equal(mx_open_board(-1, &handle), MX_BOARD_UNKNOWN);
}

static void nothing__works_before_init(void **state)
{
	char name[MX_MAX_HOSTNAME_LEN] = "host:0";
	mx_mapper_state_t mapper;
	mx_endpt_handle_t handle;
	uint32_t number;
	uint64_t nic_id;

	(void)state;
	mx_set_error_handler(MX_ERRORS_RETURN);
	assert_int_equal(ask_number(MX_NIC_COUNT, &number), MX_NOT_INITIALIZED);
	assert_int_equal(mx_board_number_to_nic_id(0, &nic_id), MX_NOT_INITIALIZED);
	assert_int_equal(mx_nic_id_to_board_number(0, &number), MX_NOT_INITIALIZED);
	assert_int_equal(mx_hostname_to_nic_id(name, &nic_id), MX_NOT_INITIALIZED);
	assert_int_equal(mx_nic_id_to_hostname(0, name), MX_NOT_INITIALIZED);
	assert_int_equal(mx_open_board(0, &handle), MX_NOT_INITIALIZED);
	assert_int_equal(mx__get_mapper_state(0, &mapper), MX_NOT_INITIALIZED);
}

#define initialized(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		initialized(boards__agree_in_all_ways),
		initialized(names__lead_there_and_back),
		initialized(texts__fit_or_are_refused),
		initialized(numbers__are_those_of_thole),
		initialized(counters__have_labels_and_values),
		initialized(errors__say_what_is_wrong),
		initialized(mapper_state__is_the_same_everywhere),
		cmocka_unit_test(nothing__works_before_init),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
