/* SPDX-License-Identifier: BSD-3-Clause */
/* Names: an endpoint's is its Thole address, in few bytes, whole or not at all. */
#include "prov_objects.h"

#include <stdio.h>
#include <string.h>

#include "prov_address.h"
#include "prov_endpoint.h"

static struct fid_ep *ep;

static int setup(void **state)
{
	(void)state;
	objects_open(&objects);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&ep->fid), 0);
	objects_close(&objects);
	return 0;
}

static void name__is_the_address(void **state)
{
	struct thole_address expected, whole;
	struct prov_address got;
	size_t length = sizeof got + 10;

	(void)state;
	memset(&got, 0xee, sizeof got);
	memset(&whole, 0xee, sizeof whole);
	thole_endpoint_address(prov_endpoint_of(ep)->thole, &expected);
	assert_int_equal(fi_getname(&ep->fid, &got, &length), 0);
	assert_int_equal(length, sizeof got);
	assert_true(length <= 48); /* LCI ends its program else */
	prov_address_whole(&got, &whole);
	assert_memory_equal(&whole, &expected, sizeof whole);
}

/* Thole's text, the bytes as text, and what is neither. */
static void name__is_read_from_text(void **state)
{
	struct thole_address expected, whole;
	struct prov_address got, own;
	char text[sizeof own + 1] = "", longer[sizeof(struct thole_address) + 10];

	(void)state;
	thole_endpoint_address(prov_endpoint_of(ep)->thole, &expected);
	assert_true(prov_address_of(&expected, &own));
	memcpy(text, &own, sizeof own);
	assert_true(prov_address_read(expected.text, &got));
	assert_memory_equal(&got, &own, sizeof own);
	assert_true(prov_address_read(text, &got));
	assert_memory_equal(&got, &own, sizeof own);
	snprintf(longer, sizeof longer, "x%s", text); /* its front would be another one's */
	assert_false(prov_address_read(longer, &got));
	snprintf(longer, sizeof longer, "%sxxxxxxxx", expected.text);
	assert_false(prov_address_read(longer, &got));
	assert_true(prov_address_read("mxoe:52:54:00:12:34:01/1", &got));
	prov_address_whole(&got, &whole);
	assert_string_equal(whole.text, "mxoe:52:54:00:12:34:01/1");
}

static void name__needs_room(void **state)
{
	unsigned char bytes[sizeof(struct prov_address)] = {0xee};
	size_t length = sizeof bytes - 1;

	(void)state;
	assert_int_equal(fi_getname(&ep->fid, bytes, &length), -FI_ETOOSMALL);
	assert_int_equal(length, sizeof bytes);
	assert_int_equal(bytes[0], 0xee);
	length = 0;
	assert_int_equal(fi_getname(&ep->fid, NULL, &length), -FI_ETOOSMALL);
	assert_int_equal(length, sizeof bytes);
}

static void connections__do_not_exist(void **state)
{
	size_t length = 0;

	(void)state;
	assert_int_equal(fi_setname(&ep->fid, NULL, 0), -FI_ENOSYS);
	assert_int_equal(fi_getpeer(ep, NULL, &length), -FI_ENOSYS);
	assert_int_equal(fi_connect(ep, NULL, NULL, 0), -FI_ENOSYS);
	assert_int_equal(fi_accept(ep, NULL, 0), -FI_ENOSYS);
	assert_int_equal(fi_shutdown(ep, 0), -FI_ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name__is_the_address),
		cmocka_unit_test(name__is_read_from_text),
		cmocka_unit_test(name__needs_room),
		cmocka_unit_test(connections__do_not_exist),
	};

	return cmocka_run_group_tests_name("prov_name", tests, setup, teardown);
}
