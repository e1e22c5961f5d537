/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of adapters for remote DMA by a Thole that was built without the header of libibverbs; and which page
 * faults are used. */
#include "transport/verbs/port.h"

#include <dirent.h>
#include <string.h>

#include "base/error.h"
#include "unit.h"

static char folder[] = "/";

/* Where the kernel lists its adapters. */
DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);

DIR *__wrap_opendir(const char *path)
{
	return __real_opendir(strcmp(path, "/sys/class/infiniband") == 0 ? folder : path);
}

static void test_none_is_listed(void **state)
{
	struct port *list = (struct port *)(void *)folder;
	unsigned count = 1;

	(void)state;
	assert_int_equal(port_list(NULL, &list, &count), THOLE_ERR_UNSUPPORTED);
	assert_non_null(strstr(thole_detail(), "<infiniband/verbs.h>"));
	assert_true(!list && count == 0);
}

/* There may be adapters all the same. */
static void test_none_is_chosen(void **state)
{
	struct port port = {.number = 7};
	struct nic *nic;

	(void)state;
	assert_int_equal(port_choose("", NULL, true, &port), THOLE_ERR_UNSUPPORTED);
	assert_non_null(strstr(thole_detail(), "libibverbs-dev"));
	assert_int_equal(port.number, 7);
	assert_int_equal(port_open(&port, &nic), THOLE_ERR_UNSUPPORTED);
}

/* Page faults are used of an adapter that has them, where they are to be. */
static void test_paging(void **state)
{
	struct port port = {.paging = true, .limits.can = NIC_CAN_READ};

	(void)state;
	port_page(&port, true);
	assert_int_equal(port.limits.can, NIC_CAN_READ | NIC_CAN_PAGE_FAULT);
	port_page(&port, false);
	assert_int_equal(port.limits.can, NIC_CAN_READ);
	port.paging = false;
	port_page(&port, true);
	assert_int_equal(port.limits.can, NIC_CAN_READ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none_is_listed),
		cmocka_unit_test(test_none_is_chosen),
		cmocka_unit_test(test_paging),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
