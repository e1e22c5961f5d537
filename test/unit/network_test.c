/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user is told of the network: the interfaces of this machine, whatever they are, and the rows of capabilities.
 */
#include "unit.h"

#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/address.h"
#include "thole.h"

/* The table is the kernel's: all its interfaces are there, once, and what is said of them is possible. */
static void interfaces__are_the_kernels(void **state)
{
	struct if_nameindex *all = if_nameindex();
	struct thole_interface_info info;
	unsigned count = 0, expected = 0;
	bool loopback = false, chosen = false;

	(void)state;
	assert_non_null(all);
	while (all[expected].if_index)
		expected++;
	for (; thole_interface_info(count, &info) == 0; count++) {
		unsigned found = 0;

		for (unsigned i = 0; i < expected; i++)
			found += strcmp(all[i].if_name, info.name) == 0;
		assert_int_equal(found, 1);
		assert_true(strcmp(info.links, "") == 0 || strcmp(info.links, "udp") == 0 ||
			    strcmp(info.links, "raw") == 0 || strcmp(info.links, "udp,raw") == 0);
		assert_true(info.mac[0] == '\0' || strlen(info.mac) == 17);
		if (strstr(info.links, "udp"))
			assert_true(info.address[0] != '\0' && info.mtu >= 576);
		else
			assert_true(info.better[0] != '\0'); /* how to change that */
		assert_true(info.better[0] == '\0' || info.better[strlen(info.better) - 1] != '\n');
		assert_false(chosen && info.chosen);
		chosen |= info.chosen;
		if (strcmp(info.name, "lo") == 0 && info.up) {
			assert_string_equal(info.address, "127.0.0.1");
			assert_string_equal(info.links, "udp");
			loopback = true;
		}
	}
	assert_int_equal(count, expected);
	assert_true(loopback);
	assert_true(chosen);
	assert_int_equal(thole_interface_info(count, &info), THOLE_ERR_NOT_FOUND);
	if_freenameindex(all);
}

static unsigned mallocs, refused_at; /* of the library, and which of them is refused; 0: none */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
	return ++mallocs == refused_at ? NULL : __real_malloc(size);
}

/* Which one is in use is not another where memory is short: it is said, or that it cannot be. */
static void interfaces__without_memory(void **state)
{
	struct thole_interface_info info;

	(void)state;
	for (unsigned i = 0; refused_at = 0, thole_interface_info(i, &info) == 0; i++) {
		int chosen = info.chosen;

		do {
			mallocs = 0;
			refused_at++;
			if (thole_interface_info(i, &info) == 0)
				assert_int_equal(info.chosen, chosen);
		} while (mallocs >= refused_at);
	}
}

static void capabilities__of_the_network(void **state)
{
	static const char *const names[] = {"raw_frames", "udp_segmentation", "udp_receive_offload", "receive_buffers"};
	struct thole_capability capability;
	unsigned found = 0;

	(void)state;
	for (unsigned i = 0; thole_capability(i, &capability) == 0; i++) {
		assert_true(strlen(capability.use) > 10);
		/* what is in the way, and what to do */
		assert_true(capability.available ? 1 : strlen(capability.why) > 10);
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			found += strcmp(names[k], capability.name) == 0;
	}
	assert_int_equal(found, sizeof(names) / sizeof(names[0]));
}

static void host__is_the_same_here_only(void **state)
{
	struct thole_endpoint *endpoint;
	struct thole_address address;
	struct address_parts parts;

	(void)state;
	assert_true(thole_host_id() != 0 && thole_host_id() == thole_host_id());
	assert_int_equal(thole_endpoint_open(NULL, &endpoint), 0);
	thole_endpoint_address(endpoint, &address);
	assert_int_equal(address_parse(&address, &parts), 0);
	assert_true(parts.host == thole_host_id()); /* neighbours share memory */
	thole_endpoint_close(endpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces__are_the_kernels),
		cmocka_unit_test(interfaces__without_memory),
		cmocka_unit_test(capabilities__of_the_network),
		cmocka_unit_test(host__is_the_same_here_only),
	};

	return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
