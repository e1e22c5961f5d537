/* SPDX-License-Identifier: BSD-3-Clause */
/* Boards of interfaces that are made up: which they are, in which order, and that a list of interfaces which cannot be
 * had is not taken for one that ends. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "mx_board.h"
#include "mx_world.h"
#include "thole.h"

enum { NEVER = 99 };

static const struct thole_interface_info *interfaces;
static unsigned count, refused_at; /* of interfaces; which of them cannot be had, NEVER: none */

int __real_thole_interface_info(unsigned index, struct thole_interface_info *info_p);
int __wrap_thole_interface_info(unsigned index, struct thole_interface_info *info_p);

int __wrap_thole_interface_info(unsigned index, struct thole_interface_info *info_p)
{
	if (index == refused_at)
		return error_set(THOLE_ERR_SYSTEM, "refused");
	if (index >= count)
		return error_set(THOLE_ERR_NOT_FOUND, "there are no more");
	*info_p = interfaces[index];
	return 0;
}

#define LOOPBACK {.name = "lo0", .address = "127.0.0.1", .mac = "", .mtu = 1234, .up = 1}
#define ETHERNET(n, is_up, is_chosen) {.name = "eth" n, .address = "10.0.0." n, .mac = "02:00:00:00:00:0" n, \
	.mtu = 1500, .up = is_up, .chosen = is_chosen}

static const struct thole_interface_info two[] = {LOOPBACK, ETHERNET("1", 1, 0), ETHERNET("2", 1, 1)};
static const struct thole_interface_info none[] = {LOOPBACK, ETHERNET("1", 0, 0)};

static void there_are(const struct thole_interface_info *list, unsigned length)
{
	interfaces = list;
	count = length;
	refused_at = NEVER;
}

static void boards__are_interfaces_the_chosen_one_first(void **state)
{
	struct mxi_board boards[3], board;
	unsigned found;

	(void)state;
	there_are(two, 3);
	assert_int_equal(mxi_board_list(boards, 3, &found), MX_SUCCESS);
	assert_int_equal(found, 2);
	assert_string_equal(boards[0].interface, "eth2");
	assert_string_equal(boards[1].interface, "eth1");
	assert_true(boards[1].nic_id == 0x020000000001 && boards[1].number == 1 && !boards[1].loopback);
	assert_int_equal(mxi_board_get(2, &board), MX_BOARD_UNKNOWN);
	assert_non_null(strstr(thole_detail(), "no board 2: this host has 2"));
	assert_int_equal(mxi_board_find(7, &board), MX_BOARD_UNKNOWN);
	assert_non_null(strstr(thole_detail(), "000000000007"));
	assert_int_equal(mxi_board_find(0x020000000001, &board), MX_SUCCESS);
	assert_int_equal(board.number, 1);
}

static void boards__of_a_host_without_a_network(void **state)
{
	struct mxi_board with, without;

	(void)state;
	there_are(none, 2);
	assert_int_equal(mxi_board_get(0, &with), MX_SUCCESS);
	assert_true(with.loopback && with.nic_id != 0 && with.mtu == 1234);
	assert_string_equal(with.interface, "lo0");
	there_are(none, 0);
	assert_int_equal(mxi_board_get(0, &without), MX_SUCCESS);
	assert_true(without.loopback && without.nic_id == with.nic_id && without.mtu > 1234);
	assert_string_equal(without.interface, "lo");
}

/* Whichever it is: also the end, behind all that there are. */
static void boards__are_not_those_up_to_one_that_is_refused(void **state)
{
	struct mxi_board board = {.nic_id = 17};
	unsigned found = 17;

	(void)state;
	there_are(two, 3);
	for (refused_at = 0; refused_at <= count; refused_at++) {
		assert_int_equal(mxi_board_list(&board, 1, &found), MX_NO_RESOURCES);
		assert_int_equal(mxi_board_get(0, &board), MX_NO_RESOURCES);
		assert_int_equal(mxi_board_find(0x020000000001, &board), MX_NO_RESOURCES);
		assert_string_equal(thole_detail(), "refused");
	}
	assert_true(board.nic_id == 17 && found == 17);
}

/* It goes by what it saw last: its host's boards are no others' meanwhile. */
static void world__stays_where_boards_are_refused(void **state)
{
	struct mxi_world world = {.count = 0};

	(void)state;
	there_are(two, 3);
	assert_int_equal(mxi_world_look(&world, true), MX_SUCCESS);
	refused_at = 0;
	assert_int_equal(mxi_world_look(&world, false), MX_NO_RESOURCES);
	assert_int_equal(world.count, 2);
	assert_non_null(mxi_world_board(&world, 0x020000000001));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boards__are_interfaces_the_chosen_one_first),
		cmocka_unit_test(boards__of_a_host_without_a_network),
		cmocka_unit_test(boards__are_not_those_up_to_one_that_is_refused),
		cmocka_unit_test(world__stays_where_boards_are_refused),
	};

	return cmocka_run_group_tests_name("mx_board", tests, NULL, NULL);
}
