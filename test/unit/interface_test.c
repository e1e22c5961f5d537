/* SPDX-License-Identifier: BSD-3-Clause */
/* What every host has: a loopback. The rest is in test/system/thole_links.c. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "transport/datagram/interface.h"

static const struct path ipv4 = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1, [16] = 0x12, [17] = 0x34}};
static const struct path ipv6 = {{[15] = 1, [16] = 0x12, [17] = 0x34}};
static const struct path local = {{[0] = 0xfe, [1] = 0x80, [15] = 7, [17] = 9}};

static int refused; /* errno of a socket that is asked for; 0: there is one */

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);

int __wrap_socket(int family, int type, int protocol)
{
	if (refused) {
		errno = refused;
		return -1;
	}
	return __real_socket(family, type, protocol);
}

static void address__there_and_back(void **state)
{
	union socket_address name;
	struct path path;

	(void)state;
	assert_int_equal(interface_sockaddr(&ipv4, 5, &name), sizeof(struct sockaddr_in));
	assert_int_equal(name.any.sa_family, AF_INET);
	assert_int_equal(name.ipv4.sin_port, htons(0x1234));
	assert_int_equal(name.ipv4.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	interface_path(&name, &path);
	assert_memory_equal(&path, &ipv4, sizeof(path));
	assert_int_equal(interface_sockaddr(&ipv6, 5, &name), sizeof(struct sockaddr_in6));
	assert_int_equal(name.any.sa_family, AF_INET6);
	assert_int_equal(name.ipv6.sin6_port, htons(0x1234));
	assert_int_equal(name.ipv6.sin6_scope_id, 0);
	interface_path(&name, &path);
	assert_memory_equal(&path, &ipv6, sizeof(path));
}

static void address__link_local_means_the_interface(void **state)
{
	union socket_address name;

	(void)state;
	interface_sockaddr(&local, 5, &name);
	assert_int_equal(name.ipv6.sin6_scope_id, 5);
}

static void address__of_another_family(void **state)
{
	static const struct path none = {{0}};
	union socket_address name = {.any = {.sa_family = AF_UNIX}};
	struct path path;

	(void)state;
	interface_path(&name, &path);
	assert_memory_equal(&path, &none, sizeof(path));
}

static void list__has_a_loopback(void **state)
{
	struct interface *list;
	unsigned count, loopbacks = 0;

	(void)state;
	assert_int_equal(interface_list(&list, &count), 0);
	for (unsigned i = 0; i < count; i++) {
		assert_int_not_equal(list[i].index, 0);
		assert_int_not_equal(list[i].mtu, 0);
		loopbacks += list[i].loopback;
		assert_false(list[i].loopback && interface_can_raw(&list[i]));
	}
	assert_int_equal(loopbacks, 1);
	free(list);
}

static void choose__by_address(void **state)
{
	struct interface interface;

	(void)state;
	assert_int_equal(interface_choose("127.0.0.1", &interface), 0);
	assert_true(interface.loopback && interface.inside && interface.has_ipv4 && interface_can_udp(&interface));
	assert_memory_equal(interface.ipv4, ipv4.bytes, INTERFACE_ADDRESS);
}

static void choose__unknown_name(void **state)
{
	struct interface interface;

	(void)state;
	assert_int_equal(interface_choose("nosuch0", &interface), THOLE_ERR_NOT_FOUND);
	assert_non_null(strstr(thole_detail(), "nosuch0"));
	assert_non_null(strstr(thole_detail(), "lo"));
}

/* Where the host's packets go cannot be asked, which is no reason to take another interface. */
static void choose__short_of_descriptors(void **state)
{
	struct interface interface;
	struct rlimit before;

	(void)state;
	refused = EMFILE;
	assert_int_equal(interface_choose("", &interface), THOLE_ERR_SYSTEM);
	assert_non_null(strstr(thole_detail(), "ulimit -Hn"));
	assert_int_equal(interface_route(ipv4.bytes, NULL, 0, NULL, NULL), THOLE_ERR_SYSTEM);
	assert_non_null(strstr(thole_detail(), "ulimit -Hn"));
	refused = 0;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
	assert_int_equal(interface_choose("", &interface), THOLE_ERR_SYSTEM);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(strstr(thole_detail(), "ulimit -Hn"));
}

/* Who may have no such socket has no use for the route: what is left is as good as any. */
static void choose__without_sockets_of_ip(void **state)
{
	struct interface interface;

	(void)state;
	refused = EACCES;
	assert_int_equal(interface_choose("", &interface), 0);
	refused = 0;
}

static void route__to_this_host(void **state)
{
	uint8_t source[INTERFACE_ADDRESS];
	uint32_t mtu = 0;

	(void)state;
	assert_int_equal(interface_route(ipv4.bytes, NULL, 0, source, &mtu), 0);
	assert_memory_equal(source, ipv4.bytes, INTERFACE_ADDRESS);
	assert_true(mtu >= 576);
	assert_int_equal(interface_route(ipv4.bytes, NULL, 0, NULL, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address__there_and_back),
		cmocka_unit_test(address__link_local_means_the_interface),
		cmocka_unit_test(address__of_another_family),
		cmocka_unit_test(list__has_a_loopback),
		cmocka_unit_test(choose__by_address),
		cmocka_unit_test(choose__unknown_name),
		cmocka_unit_test(choose__short_of_descriptors),
		cmocka_unit_test(choose__without_sockets_of_ip),
		cmocka_unit_test(route__to_this_host),
	};

	return cmocka_run_group_tests_name("interface", tests, NULL, NULL);
}
