/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: what they may ask for, and what UCX's log says of one that is refused. */
#include "unit.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

static bool has_libucs = true;
static ucs_global_opts_t settings;
static char logged[512];
static ucs_log_level_t logs = UCS_LOG_LEVEL_WARN; /* at this level */

static void write_line(const char *file, unsigned line, const char *function, ucs_log_level_t level,
		       ucs_log_component_config_t *component, const char *format, ...)
{
	va_list words;

	(void)file;
	(void)line;
	(void)function;
	assert_int_equal(level, logs);
	assert_ptr_equal(component, &settings.log_component);
	va_start(words, format);
	vsnprintf(logged, sizeof logged, format, words);
	va_end(words);
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
	void (*dispatch)(const char *, unsigned, const char *, ucs_log_level_t, ucs_log_component_config_t *,
			 const char *, ...) = write_line;

	if (!strcmp(name, "ucs_log_dispatch"))
		return has_libucs ? *(void **)&dispatch : NULL;
	if (!strcmp(name, "ucs_global_opts"))
		return has_libucs ? &settings : NULL;
	return __real_dlsym(handle, name);
}

static ucs_status_t init(uint64_t features, ucp_context_h *context_p)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};

	logged[0] = '\0';
	return ucp_init(&params, NULL, context_p);
}

static void refused_context_is_told_of(void **state)
{
	ucp_context_h context;

	(void)state;
	settings.log_component.log_level = UCS_LOG_LEVEL_WARN;
	assert_int_equal(init(UCP_FEATURE_RMA | UCP_FEATURE_AMO64, &context), UCS_ERR_UNSUPPORTED);
	assert_non_null(strstr(logged, "features 0xa "));
	assert_non_null(strstr(logged, "--through libfabric"));
	settings.log_component.log_level = UCS_LOG_LEVEL_ERROR;
	assert_int_equal(init(UCP_FEATURE_RMA, &context), UCS_ERR_UNSUPPORTED);
	assert_string_equal(logged, "");
	settings.log_component.log_level = UCS_LOG_LEVEL_WARN;
	has_libucs = false;
	assert_int_equal(init(UCP_FEATURE_RMA, &context), UCS_ERR_UNSUPPORTED);
	assert_string_equal(logged, "");
	has_libucs = true;
}

static void context_that_suits_is_not_told_of(void **state)
{
	const uint64_t suit[] = {UCP_FEATURE_TAG, UCP_FEATURE_AM, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA};
	ucp_context_h context;

	(void)state;
	settings.log_component.log_level = UCS_LOG_LEVEL_WARN;
	for (size_t i = 0; i < sizeof suit / sizeof *suit; i++) {
		assert_int_equal(init(suit[i], &context), UCS_OK);
		assert_string_equal(logged, "");
		ucp_cleanup(context);
	}
}

/* Memory that a context asked for, as MPICH's does, which goes on without, is no warning. */
static void memory_that_is_not_mapped_is_told_of(void **state)
{
	const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH, .length = 1};
	ucp_context_h context;
	ucp_mem_h memory;

	(void)state;
	settings.log_component.log_level = UCS_LOG_LEVEL_WARN;
	assert_int_equal(init(UCP_FEATURE_TAG, &context), UCS_OK);
	assert_int_equal(ucp_mem_map(context, &params, &memory), UCS_ERR_UNSUPPORTED);
	assert_non_null(strstr(logged, "--through libfabric"));
	ucp_cleanup(context);
	assert_int_equal(init(UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA, &context), UCS_OK);
	assert_int_equal(ucp_mem_map(context, &params, &memory), UCS_ERR_UNSUPPORTED);
	assert_string_equal(logged, "");
	settings.log_component.log_level = logs = UCS_LOG_LEVEL_INFO;
	assert_int_equal(ucp_mem_map(context, &params, &memory), UCS_ERR_UNSUPPORTED);
	assert_non_null(strstr(logged, "--through libfabric"));
	logs = UCS_LOG_LEVEL_WARN;
	ucp_cleanup(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_context_is_told_of),
		cmocka_unit_test(context_that_suits_is_not_told_of),
		cmocka_unit_test(memory_that_is_not_mapped_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
