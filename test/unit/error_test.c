/* SPDX-License-Identifier: BSD-3-Clause */
/* Error phrases and details. */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static void strerror__each_code_has_a_phrase_of_its_own(void **state)
{
	(void)state;
	for (int one = 0; one < THOLE_ERR_COUNT; one++) {
		assert_non_null(thole_strerror(-one));
		assert_true(strlen(thole_strerror(-one)) > 3);
		for (int other = 0; other < one; other++)
			assert_string_not_equal(thole_strerror(-one), thole_strerror(-other));
	}
}

static void strerror__any_other_number(void **state)
{
	(void)state;
	assert_string_equal(thole_strerror(-THOLE_ERR_COUNT), "unknown error");
	assert_string_equal(thole_strerror(INT_MIN), "unknown error");
	assert_string_equal(thole_strerror(INT_MAX), thole_strerror(0));
}

static void version__is_that_of_the_header(void **state)
{
	char expected[32];

	(void)state;
	snprintf(expected, sizeof(expected), "%d.%d.%d", THOLE_VERSION_MAJOR, THOLE_VERSION_MINOR,
		 THOLE_VERSION_PATCH);
	assert_string_equal(thole_version(), expected);
}

static void set__code_returned_and_errno_kept(void **state)
{
	(void)state;
	errno = ENOENT;
	assert_int_equal(error_set(THOLE_ERR_SYSTEM, "open %s: %m", "x"), THOLE_ERR_SYSTEM);
	assert_int_equal(errno, ENOENT);
	assert_string_equal(thole_detail(), "open x: No such file or directory");
	/* The old sentence may be part of the new one. */
	assert_int_equal(error_set(THOLE_ERR_PEER, "peer 3: %s", thole_detail()), THOLE_ERR_PEER);
	assert_string_equal(thole_detail(), "peer 3: open x: No such file or directory");
	assert_int_equal(error_prefix(THOLE_ERR_BUSY, "line %d: ", 7), THOLE_ERR_BUSY);
	assert_string_equal(thole_detail(), "line 7: peer 3: open x: No such file or directory");
}

static void set__long_sentences_are_cut(void **state)
{
	char text[2 * ERROR_DETAIL_MAX];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	error_set(THOLE_ERR_MEMORY, "%s", text);
	assert_int_equal(strlen(thole_detail()), ERROR_DETAIL_MAX - 1);
	error_prefix(THOLE_ERR_MEMORY, "before: ");
	assert_int_equal(strlen(thole_detail()), ERROR_DETAIL_MAX - 1);
	assert_memory_equal(thole_detail(), "before: aaaa", 12);
	error_prefix(THOLE_ERR_MEMORY, "%s", text);
	assert_int_equal(strlen(thole_detail()), ERROR_DETAIL_MAX - 1);
	error_set(THOLE_ERR_MEMORY, "short");
	assert_string_equal(thole_detail(), "short");
}

static void *other_thread(void *arg)
{
	const char **detail_p = arg;

	*detail_p = thole_detail()[0] == '\0' ? "empty" : "not empty";
	error_set(THOLE_ERR_MEMORY, "of the other thread");
	return NULL;
}

static void detail__each_thread_has_its_own(void **state)
{
	const char *detail = NULL;
	pthread_t thread;

	(void)state;
	error_set(THOLE_ERR_MEMORY, "of this thread");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &detail), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(detail, "empty");
	assert_string_equal(thole_detail(), "of this thread");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strerror__each_code_has_a_phrase_of_its_own),
		cmocka_unit_test(strerror__any_other_number),
		cmocka_unit_test(version__is_that_of_the_header),
		cmocka_unit_test(set__code_returned_and_errno_kept),
		cmocka_unit_test(set__long_sentences_are_cut),
		cmocka_unit_test(detail__each_thread_has_its_own),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
