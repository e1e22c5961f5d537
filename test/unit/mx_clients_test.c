/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of those who asked: found by address, replaced, bounded, and whole where there is no memory. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_clients.h"

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

static int add(struct mxi_clients *clients, unsigned number, uint32_t session)
{
	struct thole_address address = address_of(number);
	struct mxi_identity identity = {number, number % 256, session};

	return mxi_clients_add(clients, &address, &identity);
}

/* Its session, 0: not there. */
static uint32_t session_of(const struct mxi_clients *clients, unsigned number)
{
	struct thole_address address = address_of(number);
	struct mxi_identity identity;

	if (!mxi_clients_find(clients, &address, &identity))
		return 0;
	assert_true(identity.nic_id == number && identity.endpoint_id == number % 256);
	return identity.session;
}

static void clients__are_found_and_replaced(void **state)
{
	struct mxi_clients clients;

	(void)state;
	mxi_clients_open(&clients);
	assert_int_equal(session_of(&clients, 1), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(add(&clients, i, i + 1), 0);
	assert_int_equal(add(&clients, 500, 7), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(session_of(&clients, i), i == 500 ? 7 : i + 1);
	assert_int_equal(clients.count, 1000);
	assert_int_equal(session_of(&clients, 1000), 0);
	mxi_clients_close(&clients);
	assert_int_equal(session_of(&clients, 1), 0);
}

static void clients__are_bounded_and_forget_the_first(void **state)
{
	struct mxi_clients clients;
	unsigned more = MXI_CLIENTS_MAX + MXI_CLIENTS_MAX / 2;

	(void)state;
	mxi_clients_open(&clients);
	for (unsigned i = 0; i < more; i++)
		assert_int_equal(add(&clients, i, i + 1), 0);
	for (unsigned i = 0; i < more; i++)
		assert_int_equal(session_of(&clients, i), i < more - MXI_CLIENTS_MAX ? 0 : i + 1);
	mxi_clients_close(&clients);
}

static void clients__stay_where_memory_is_refused(void **state)
{
	struct mxi_clients clients;
	unsigned count = 0;

	(void)state;
	mxi_clients_open(&clients);
	assert_int_equal(add(&clients, count++, 1), 0);
	refuse = true;
	while (add(&clients, count, 1) == 0)
		count++;
	refuse = false;
	assert_in_range(count, 1, 1000);
	assert_int_equal(session_of(&clients, count), 0);
	assert_int_equal(add(&clients, count, 1), 0);
	for (unsigned i = 0; i <= count; i++)
		assert_int_equal(session_of(&clients, i), 1);
	mxi_clients_close(&clients);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients__are_found_and_replaced),
		cmocka_unit_test(clients__are_bounded_and_forget_the_first),
		cmocka_unit_test(clients__stay_where_memory_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
