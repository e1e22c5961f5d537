/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of many peers: among how many an address is looked for, and that each keeps its handle.
 *
 * calloc is replaced (by the linker's --wrap) so that memory can be refused to the table of chains.
 */
#include "pair.h"

#include "message/state.h"

/* An address is looked for among few however many there are; twice that here would be an accident of the numbers. */
enum { MANY = 5000, FEW = 16, HOSTS = 2000 };

static bool refusing; /* more than one of anything */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	return refusing && count > 1 ? NULL : __real_calloc(count, size);
}

static struct thole_endpoint *alone(void)
{
	static const char *const options[] = {"network=off", NULL};

	return pair_endpoint(NULL, NULL, options);
}

static struct thole_address random_address(uint64_t *seed)
{
	struct address_parts parts = {.host = random_next(seed), .endpoint = random_next(seed)};
	struct thole_address address;

	address_format(&parts, &address);
	return address;
}

static struct thole_address mxoe_address(uint32_t host)
{
	const uint8_t mac[6] = {2, 0, 0, 0, (uint8_t)(host >> 8), (uint8_t)host};
	struct address_parts parts;
	struct thole_address address;

	address_mxoe(mac, 0, &parts);
	address_format(&parts, &address);
	return address;
}

static uint32_t handle_of(struct thole_endpoint *endpoint, const struct thole_address *address)
{
	uint32_t handle;

	assert_int_equal(thole_peer(endpoint, address, &handle), 0);
	return handle;
}

/* Peers in all chains, and in the longest one. */
static uint32_t chains_count(const struct thole_endpoint *endpoint, uint32_t *longest_p)
{
	uint32_t all = 0;

	*longest_p = 0;
	for (uint32_t i = 0; i < endpoint->peers_by_id.chain_count; i++) {
		uint32_t length = 0;

		for (const struct hash_node *node = endpoint->peers_by_id.chains[i]; node; node = node->next)
			length++;
		all += length;
		*longest_p = length > *longest_p ? length : *longest_p;
	}
	return all;
}

static void addresses__are_looked_for_among_few(void **state)
{
	struct thole_endpoint *endpoint = alone();
	uint64_t seed = 1;
	uint32_t longest;

	(void)state;
	for (uint32_t i = 0; i < MANY; i++) {
		struct thole_address address = random_address(&seed);

		assert_int_equal(handle_of(endpoint, &address), i);
	}
	assert_int_equal(chains_count(endpoint, &longest), MANY);
	assert_in_range(longest, 1, FEW);
	seed = 1;
	for (uint32_t i = 0; i < MANY; i++) {
		struct thole_address address = random_address(&seed);

		assert_int_equal(handle_of(endpoint, &address), i);
	}
	thole_endpoint_close(endpoint);
}

/* Those of MXoE are no random numbers: first endpoints of hosts whose MACs follow each other. */
static void addresses__of_mxoe(void **state)
{
	struct thole_endpoint *endpoint = alone();
	uint32_t longest;

	(void)state;
	for (uint32_t i = 0; i < HOSTS; i++) {
		struct thole_address address = mxoe_address(i);

		assert_int_equal(handle_of(endpoint, &address), i);
	}
	assert_int_equal(chains_count(endpoint, &longest), HOSTS);
	assert_in_range(longest, 1, FEW);
	thole_endpoint_close(endpoint);
}

/* Endpoints of two hosts may have one number, by accident or by somebody's will. */
static void addresses__of_one_number(void **state)
{
	struct thole_endpoint *endpoint = alone();
	struct thole_address addresses[2];

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		struct address_parts parts = {.host = i, .endpoint = 7};

		address_format(&parts, &addresses[i]);
		assert_int_equal(handle_of(endpoint, &addresses[i]), i);
	}
	assert_int_equal(handle_of(endpoint, &addresses[0]), 0);
	assert_int_equal(handle_of(endpoint, &addresses[1]), 1);
	thole_endpoint_close(endpoint);
}

/* Where there is no memory for more chains, those that are there do; without any, it is said. */
static void addresses__without_memory(void **state)
{
	struct thole_endpoint *endpoint = alone();
	uint64_t seed = 2;
	struct thole_address first = random_address(&seed), address;
	uint32_t handle, longest;

	(void)state;
	refusing = true;
	assert_int_equal(thole_peer(endpoint, &first, &handle), THOLE_ERR_MEMORY);
	refusing = false;
	assert_int_equal(handle_of(endpoint, &first), 0);
	refusing = true;
	for (uint32_t i = 1; i < MANY; i++) {
		address = random_address(&seed);
		assert_int_equal(handle_of(endpoint, &address), i);
	}
	assert_int_equal(endpoint->peers_by_id.chain_count, HASH_CHAINS);
	assert_int_equal(handle_of(endpoint, &first), 0);
	assert_int_equal(chains_count(endpoint, &longest), MANY);
	refusing = false;
	thole_endpoint_close(endpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses__are_looked_for_among_few),
		cmocka_unit_test(addresses__of_mxoe),
		cmocka_unit_test(addresses__of_one_number),
		cmocka_unit_test(addresses__without_memory),
	};

	return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
