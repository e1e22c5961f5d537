/* SPDX-License-Identifier: BSD-3-Clause */
/* MX's initialisation, error handlers and words. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mx_endpoint.h"
#include "mx_request.h"
#include "mx_error.h"
#include "mx_library.h"

static struct {
	char sentence[MXI_SENTENCE_MAX];
	mx_return_t code;
	int calls;
} told;

static mx_return_t tell(char *str, mx_return_t ret)
{
	snprintf(told.sentence, sizeof(told.sentence), "%s", str);
	told.code = ret;
	told.calls++;
	return MX_NO_MATCH; /* another than the error: what a handler returns counts */
}

static int setup(void **state)
{
	(void)state;
	memset(&told, 0, sizeof(told));
	mx_set_error_handler(tell);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (mxi_library_initialized())
		mx_finalize();
	mx_set_error_handler(NULL);
	return 0;
}

static void init__twice_is_told_without_a_handler(void **state)
{
	(void)state;
	assert_false(mxi_library_initialized());
	assert_int_equal(mx_init(), MX_SUCCESS);
	assert_true(mxi_library_initialized());
	assert_int_equal(mx_init(), MX_ALREADY_INITIALIZED);
	assert_true(mxi_library_initialized());
	assert_int_equal(told.calls, 0);
	assert_int_equal(mx_finalize(), MX_SUCCESS);
	assert_false(mxi_library_initialized());
	assert_int_equal(mx_finalize(), MX_NO_MATCH);
	assert_int_equal(told.code, MX_NOT_INITIALIZED);
	assert_int_equal(mx_init(), MX_SUCCESS);
}

static void init__checks_the_major_version(void **state)
{
	(void)state;
	assert_int_equal(mx__init_api(0x201), MX_NO_MATCH);
	assert_int_equal(told.code, MX_BAD_LIB_VERSION);
	assert_non_null(strstr(told.sentence, "0x201"));
	assert_int_equal(mx__init_api(0x400), MX_NO_MATCH);
	assert_int_equal(mx__init_api(-1), MX_NO_MATCH);
	assert_false(mxi_library_initialized());
	assert_int_equal(mx__init_api(0x300), MX_SUCCESS);
	assert_int_equal(told.calls, 3);
}

static void error__goes_to_the_handler_in_charge(void **state)
{
	static struct mx_endpoint without, with = {.error_handler = NULL};

	(void)state;
	with.error_handler = MX_ERRORS_RETURN;
	assert_int_equal(mxi_error(NULL, MX_BUSY, "board %d", 5), MX_NO_MATCH);
	assert_string_equal(told.sentence, "board 5");
	assert_int_equal(told.code, MX_BUSY);
	assert_int_equal(mxi_error(mxi_endpoint_handler(&without), MX_TIMEOUT, "x"), MX_NO_MATCH);
	assert_int_equal(told.code, MX_TIMEOUT);
	assert_int_equal(mxi_error(mxi_endpoint_handler(&with), MX_NO_PERM, "x"), MX_NO_PERM);
	assert_int_equal(mxi_error(NULL, MX_SUCCESS, "x"), MX_SUCCESS);
	assert_int_equal(told.calls, 2);
}

static void error__cuts_long_sentences(void **state)
{
	char word[2 * MXI_SENTENCE_MAX];

	(void)state;
	memset(word, 'w', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	mxi_error(NULL, MX_FAILURE, "%s", word);
	assert_int_equal(strlen(told.sentence), MXI_SENTENCE_MAX - 1);
}

static void set_error_handler__returns_the_former(void **state)
{
	(void)state;
	assert_ptr_equal(mx_set_error_handler(MX_ERRORS_RETURN), tell);
	assert_ptr_equal(mx_set_error_handler(NULL), MX_ERRORS_RETURN);
	assert_ptr_equal(mx_set_error_handler(tell), MX_ERRORS_ARE_FATAL);
	assert_true(MX_ERRORS_RETURN != MX_ERRORS_ARE_FATAL);
}

/* In a child whose stderr is a pipe. */
static void fatal__prints_and_exits(void **state)
{
	char text[256] = "";
	int pipes[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(pipes[1], STDERR_FILENO);
		mx_set_error_handler(NULL);
		mxi_error(NULL, MX_BOARD_UNKNOWN, "opening %s", "it");
		_exit(0);
	}
	close(pipes[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
	close(pipes[0]);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	assert_string_equal(text, "MX: opening it: no such board\n");
}

static void *open_and_close(void *arg)
{
	for (;;) {
		mx_endpoint_t endpoint;

		if (mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0, NULL, 0, &endpoint) == MX_SUCCESS)
			mx_close_endpoint(endpoint);
	}
	return arg;
}

static void look(struct mx_endpoint *endpoint, void *arg)
{
	(void)endpoint;
	(void)arg;
	usleep(1000);
}

/* Who opens and closes has to wait for that. */
static void *look_at_all(void *arg)
{
	for (;;) {
		mxi_endpoint_each(look, NULL);
		usleep(1000);
	}
	return arg;
}

/* As if by a program whose threads go on meanwhile. */
_Noreturn static void exit_amid(unsigned endpoints)
{
	static void *(*const runs[])(void *) = {open_and_close, open_and_close, look_at_all};
	mx_endpoint_t endpoint;
	pthread_t thread;

	alarm(60); /* where it waits for ever */
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, runs[i], NULL) != 0)
			_exit(2);
	for (unsigned i = 0; i < endpoints; i++)
		if (mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0, NULL, 0, &endpoint) != MX_SUCCESS)
			_exit(3);
	exit(0);
}

/* A program may end while its threads open endpoints, and close some. */
static void exit__while_threads_use_endpoints(void **state)
{
	enum { CHILDREN = 20 };

	(void)state;
	setenv("THOLE_NETWORK", "off", 1);
	assert_int_equal(mx_init(), MX_SUCCESS);
	fflush(NULL);
	for (unsigned i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0)
			exit_amid(i % 8);
		assert_int_equal(child_status(child), 0);
	}
	unsetenv("THOLE_NETWORK");
}

static void words__exist_for_every_code(void **state)
{
	(void)state;
	for (int i = MX_SUCCESS; i <= MX_NOT_SUPPORTED_WITH_CONTEXT_ID; i++) {
		assert_non_null(mx_strerror((mx_return_t)i));
		assert_string_not_equal(mx_strerror((mx_return_t)i), mx_strerror((mx_return_t)-1));
		for (int k = MX_SUCCESS; k < i; k++)
			assert_string_not_equal(mx_strerror((mx_return_t)i), mx_strerror((mx_return_t)k));
	}
	for (int i = MX_STATUS_SUCCESS; i <= MX_STATUS_NO_RESOURCES; i++) {
		assert_non_null(mx_strstatus((mx_status_code_t)i));
		assert_string_not_equal(mx_strstatus((mx_status_code_t)i), mx_strstatus((mx_status_code_t)-1));
	}
	assert_string_equal(mx_strerror((mx_return_t)44), mx_strerror((mx_return_t)-1));
	assert_string_equal(mx_strstatus((mx_status_code_t)17), mx_strstatus((mx_status_code_t)-1));
}

#define with_handler(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_handler(init__twice_is_told_without_a_handler),
		with_handler(init__checks_the_major_version),
		with_handler(error__goes_to_the_handler_in_charge),
		with_handler(error__cuts_long_sentences),
		with_handler(set_error_handler__returns_the_former),
		with_handler(fatal__prints_and_exits),
		with_handler(exit__while_threads_use_endpoints),
		with_handler(words__exist_for_every_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
