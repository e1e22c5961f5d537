/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_log.h"

#include <dlfcn.h>
#include <stddef.h>
#include <ucs/debug/log_def.h>

/* What stands first of all settings of libucs: its level. All that we read of it. */
_Static_assert(offsetof(ucs_global_opts_t, log_component) == 0, "every version has it there");

static struct {
	ucs_log_component_config_t *component; /* both NULL where libucs is not loaded, or lacks one */
	void (*dispatch)(const char *file, unsigned line, const char *function, ucs_log_level_t level,
			 ucs_log_component_config_t *component, const char *format, ...);
} core;

void ucx_log_find(void)
{
	/* dlsym returns a data pointer; this is how POSIX says to make a function pointer of it. */
	*(void **)&core.dispatch = dlsym(RTLD_DEFAULT, "ucs_log_dispatch");
	core.component = dlsym(RTLD_DEFAULT, "ucs_global_opts");
}

static void ucx_log_line(ucs_log_level_t level, const char *line)
{
	if (core.dispatch && core.component && level <= core.component->log_level)
		core.dispatch("thole", 0, "thole", level, core.component, "%s", line);
}

void ucx_log_info(const char *line)
{
	ucx_log_line(UCS_LOG_LEVEL_INFO, line);
}

void ucx_log_warn(const char *line)
{
	ucx_log_line(UCS_LOG_LEVEL_WARN, line);
}
