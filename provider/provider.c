/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.c - the door: what libfabric finds when it loads this library, and what this library
 * finds in libfabric.
 *
 * Owns the one fi_provider, the optional functions of the core (log, parameters, version) and the
 * Thole options that users gave as FI_THOLE_<NAME>. Nothing of libfabric is linked: MPIs are loaded
 * in ways that hide its symbols from us, and a core may lack any of these. What is not found is
 * done without.
 *
 * Everything here is set once, in fi_prov_ini, which the core calls before anything else and from
 * one thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "provider.h"

struct fi_provider prov_provider = {
	.version = FI_VERSION(THOLE_VERSION_MAJOR, THOLE_VERSION_MINOR),
	.fi_version = PROV_API_VERSION,
	.name = "thole",
	.getinfo = prov_getinfo,
	.fabric = prov_fabric_open,
};

static struct {
	uint32_t (*version)(void);
	int (*log_enabled)(const struct fi_provider *provider, enum fi_log_level level,
			   enum fi_log_subsys subsystem);
	void (*log)(const struct fi_provider *provider, enum fi_log_level level,
		    enum fi_log_subsys subsystem, const char *function, int line,
		    const char *format, ...);
	int (*param_define)(const struct fi_provider *provider, const char *name,
			    enum fi_param_type type, const char *help, ...);
	int (*param_get)(struct fi_provider *provider, const char *name, void *value);
} core;

static char *options[PROV_OPTIONS_MAX + 1];
static size_t option_count;
static bool progress_thread, native;

/* dlsym returns a data pointer; this is how POSIX says to make a function pointer of it. */
static void core_symbol(void *library, const char *name, void *function_p)
{
	*(void **)function_p = dlsym(library, name);
}

static void core_find(void)
{
	void *library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *scope = library ? library : RTLD_DEFAULT;

	core_symbol(scope, "fi_version", &core.version);
	core_symbol(scope, "fi_log_enabled", &core.log_enabled);
	core_symbol(scope, "fi_log", &core.log);
	core_symbol(scope, "fi_param_define", &core.param_define);
	core_symbol(scope, "fi_param_get", &core.param_get);
	if (library)
		dlclose(library); /* the core that called us stays by itself */
}

uint32_t prov_core_version(void)
{
	return core.version ? core.version() : FI_VERSION(1, 0);
}

void prov_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *function, int line,
	      const char *format, ...)
{
	int saved = errno;
	char text[512];
	va_list arguments;

	if (!core.log || !core.log_enabled || !core.log_enabled(&prov_provider, level, subsystem))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	core.log(&prov_provider, level, subsystem, function, line, "%s\n", text);
	errno = saved;
}

static bool text_true(const char *text)
{
	return text && (!strcmp(text, "1") || !strcasecmp(text, "yes") ||
			!strcasecmp(text, "true") || !strcasecmp(text, "on"));
}

static void option_keep(const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 2;
	char *text;

	if (option_count == PROV_OPTIONS_MAX)
		return;
	text = malloc(size);
	if (!text)
		return;
	snprintf(text, size, "%s=%s", name, value);
	options[option_count++] = text;
}

/* The progress thread is the domain's own where there is one (thread.c), because it has to take the
 * domain's lock; so Thole's is turned off. */
static void option_take(const struct thole_option_info *info, const char *value)
{
	if (!strcmp(info->name, "codec"))
		native = !strcasecmp(value ? value : info->value, "native");
	if (strcmp(info->name, "progress_thread")) {
		if (value)
			option_keep(info->name, value);
		return;
	}
	progress_thread = text_true(value ? value : info->value);
	option_keep(info->name, "off");
}

static void options_read(void)
{
	struct thole_option_info info;

	if (option_count)
		return; /* the core was unloaded and loaded again, and this library stayed */
	for (unsigned i = 0; !thole_option_info(i, &info); i++) {
		char *value = NULL;

		if (core.param_define)
			core.param_define(&prov_provider, info.name, FI_PARAM_STRING,
					  "%s (default: %s)", info.help, info.fallback);
		if (core.param_get && core.param_get(&prov_provider, info.name, &value))
			value = NULL;
		option_take(&info, value);
	}
}

/* Frames of other codecs carry tagged messages and nothing else, which is less than an endpoint here
 * has to offer. */
bool prov_option_native(void)
{
	return native;
}

/* For thole_endpoint_open: "name=value" strings ended by NULL. */
const char *const *prov_options(void)
{
	return (const char *const *)options;
}

bool prov_option_thread(void)
{
	return progress_thread;
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
	core_find();
	options_read();
	/* A core refuses a provider that is older than what the application asks for. */
	if (prov_core_version() > prov_provider.fi_version)
		prov_provider.fi_version = prov_core_version();
	return &prov_provider;
}
