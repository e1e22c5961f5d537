/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_core.c - the core of libfabric that has loaded this library, see prov_core.h.
 */
#include "prov_core.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "thole.h"

struct fi_provider prov_core_provider = {
	.version = FI_VERSION(THOLE_VERSION_MAJOR, THOLE_VERSION_MINOR),
	.fi_version = PROV_API_VERSION,
	.name = "thole",
};

static struct {
	uint32_t (*version)(void); /* each NULL where the core lacks it */
	int (*log_enabled)(const struct fi_provider *provider, enum fi_log_level level, enum fi_log_subsys subsystem);
	void (*log)(const struct fi_provider *provider, enum fi_log_level level, enum fi_log_subsys subsystem,
		    const char *function, int line, const char *format, ...);
	int (*param_define)(const struct fi_provider *provider, const char *name, enum fi_param_type type,
			    const char *help, ...);
	int (*param_get)(struct fi_provider *provider, const char *name, void *value);
} core;

/* dlsym returns a data pointer; this is how POSIX says to make a function pointer of it. */
static void prov_core_symbol(void *library, const char *name, void *function_p)
{
	*(void **)function_p = dlsym(library, name);
}

void prov_core_find(void)
{
	void *library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *scope = library ? library : RTLD_DEFAULT;

	prov_core_symbol(scope, "fi_version", &core.version);
	prov_core_symbol(scope, "fi_log_enabled", &core.log_enabled);
	prov_core_symbol(scope, "fi_log", &core.log);
	prov_core_symbol(scope, "fi_param_define", &core.param_define);
	prov_core_symbol(scope, "fi_param_get", &core.param_get);
	if (library)
		dlclose(library); /* the core that called us stays by itself */
}

uint32_t prov_core_version(void)
{
	return core.version ? core.version() : FI_VERSION(1, 0);
}

void prov_core_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *function, int line,
		   const char *format, ...)
{
	int saved = errno;
	char text[512];
	va_list arguments;

	if (!core.log || !core.log_enabled || !core.log_enabled(&prov_core_provider, level, subsystem))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	core.log(&prov_core_provider, level, subsystem, function, line, "%s\n", text);
	errno = saved;
}

char *prov_core_param(const char *name, const char *help, const char *fallback)
{
	char *value = NULL;

	if (core.param_define)
		core.param_define(&prov_core_provider, name, FI_PARAM_STRING, "%s (default: %s)", help, fallback);
	if (!core.param_get || core.param_get(&prov_core_provider, name, &value))
		return NULL;
	return value;
}
