/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors: each of Thole's has a word of libfabric's. */
#include "unit.h"

#include <string.h>

#include "prov_error.h"
#include "thole.h"

static void error__has_a_word(void **state)
{
	(void)state;
	for (int status = -THOLE_ERR_COUNT + 1; status < 0; status++) {
		assert_true(prov_error_of(status) > 0 && prov_error_of(status) != FI_EOTHER);
		assert_int_equal(prov_error_result(status), -prov_error_of(status));
	}
	assert_int_equal(prov_error_of(0), 0);
	assert_int_equal(prov_error_of(-THOLE_ERR_COUNT), FI_EOTHER);
	assert_int_equal(prov_error_of(THOLE_ERR_AGAIN), FI_EAGAIN); /* programs try again */
	assert_int_equal(prov_error_of(THOLE_ERR_TRUNCATED), FI_ETRUNC);
	assert_int_equal(prov_error_of(THOLE_ERR_CANCELED), FI_ECANCELED);
	assert_int_equal(prov_error_result(1), 0);
}

/* MPIs take FI_ECANCELED for a cancel of theirs. */
static void entry__of_a_peer_that_has_closed(void **state)
{
	(void)state;
	assert_int_equal(prov_error_entry(FI_MSG | FI_RMA, THOLE_ERR_CLOSED), FI_ECANCELED);
	assert_int_equal(prov_error_entry(FI_MSG | FI_TAGGED, THOLE_ERR_CLOSED), FI_ECONNRESET);
	assert_int_equal(prov_error_entry(FI_MSG, THOLE_ERR_PEER), FI_ECONNRESET);
	assert_int_equal(prov_error_entry(FI_TAGGED, THOLE_ERR_CANCELED), FI_ECANCELED);
}

/* Returned, and copied as far as there is room. */
static void text__is_copied(void **state)
{
	char all[64] = "", some[4] = "", none = 'x';
	const char *text = prov_error_text(THOLE_ERR_PEER, all, sizeof(all));

	(void)state;
	assert_string_equal(text, thole_strerror(THOLE_ERR_PEER));
	assert_string_equal(all, text);
	assert_ptr_equal(prov_error_text(THOLE_ERR_PEER, some, sizeof(some)), text);
	assert_int_equal(strlen(some), 3);
	assert_memory_equal(some, text, 3);
	prov_error_text(THOLE_ERR_PEER, &none, 0);
	prov_error_text(THOLE_ERR_PEER, NULL, 1);
	assert_int_equal(none, 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error__has_a_word),
		cmocka_unit_test(entry__of_a_peer_that_has_closed),
		cmocka_unit_test(text__is_copied),
	};

	return cmocka_run_group_tests_name("prov_error", tests, NULL, NULL);
}
