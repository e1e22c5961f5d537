/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of those who asked: found by address, replaced, bounded, and whole where there is no memory. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_askers.h"

static bool refuse; /* memory */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
	return refuse ? NULL : __real_malloc(size);
}

static struct thole_address address_of(unsigned number)
{
	struct thole_address address = {0};

	snprintf(address.text, sizeof(address.text), "t1-%u", number);
	return address;
}

static int add(struct mxi_askers *askers, unsigned number, uint32_t session)
{
	struct thole_address address = address_of(number);
	struct mxi_identity identity = {number, number % 256, session};

	return mxi_askers_add(askers, &address, &identity);
}

/* Its session, 0: not there. */
static uint32_t session_of(const struct mxi_askers *askers, unsigned number)
{
	struct thole_address address = address_of(number);
	struct mxi_identity identity;

	if (!mxi_askers_find(askers, &address, &identity))
		return 0;
	assert_true(identity.nic_id == number && identity.endpoint_id == number % 256);
	return identity.session;
}

static void askers__are_found_and_replaced(void **state)
{
	struct mxi_askers askers;

	(void)state;
	mxi_askers_open(&askers);
	assert_int_equal(session_of(&askers, 1), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(add(&askers, i, i + 1), 0);
	assert_int_equal(add(&askers, 500, 7), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(session_of(&askers, i), i == 500 ? 7 : i + 1);
	assert_int_equal(askers.count, 1000);
	assert_int_equal(session_of(&askers, 1000), 0);
	mxi_askers_close(&askers);
	assert_int_equal(session_of(&askers, 1), 0);
}

static void askers__are_bounded_and_forget_the_first(void **state)
{
	struct mxi_askers askers;
	unsigned more = MXI_ASKERS_MAX + MXI_ASKERS_MAX / 2;

	(void)state;
	mxi_askers_open(&askers);
	for (unsigned i = 0; i < more; i++)
		assert_int_equal(add(&askers, i, i + 1), 0);
	for (unsigned i = 0; i < more; i++)
		assert_int_equal(session_of(&askers, i), i < more - MXI_ASKERS_MAX ? 0 : i + 1);
	mxi_askers_close(&askers);
}

static void askers__stay_where_memory_is_refused(void **state)
{
	struct mxi_askers askers;
	unsigned count = 0;

	(void)state;
	mxi_askers_open(&askers);
	assert_int_equal(add(&askers, count++, 1), 0);
	refuse = true;
	while (add(&askers, count, 1) == 0)
		count++;
	refuse = false;
	assert_in_range(count, 1, 1000);
	assert_int_equal(session_of(&askers, count), 0);
	assert_int_equal(add(&askers, count, 1), 0);
	for (unsigned i = 0; i <= count; i++)
		assert_int_equal(session_of(&askers, i), 1);
	mxi_askers_close(&askers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(askers__are_found_and_replaced),
		cmocka_unit_test(askers__are_bounded_and_forget_the_first),
		cmocka_unit_test(askers__stay_where_memory_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
