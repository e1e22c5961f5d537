/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_option.c - Thole's options as libfabric's users give them, see prov_option.h.
 */
#include "prov_option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "prov_core.h"
#include "thole.h"

enum { OPTIONS_MAX = 64 }; /* Thole options that can be given as FI_THOLE_*; more than there are */

static char *options[OPTIONS_MAX + 1];
static size_t option_count;
static bool progress_thread, native;
static bool lost; /* an option, for want of memory */

static bool prov_option_text_true(const char *text)
{
	return text &&
	       (!strcmp(text, "1") || !strcasecmp(text, "yes") || !strcasecmp(text, "true") || !strcasecmp(text, "on"));
}

static void prov_option_keep(const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 2;
	char *text;

	text = option_count < OPTIONS_MAX ? malloc(size) : NULL;
	if (!text) {
		lost = true;
		return;
	}
	snprintf(text, size, "%s=%s", name, value);
	options[option_count++] = text;
}

/* The progress thread is the domain's own where there is one (thread.c), because it has to take the
 * domain's lock; so Thole's is turned off. */
static void prov_option_take(const struct thole_option_info *info, const char *value)
{
	if (!strcmp(info->name, "codec"))
		native = !strcasecmp(value ? value : info->value, "native");
	if (strcmp(info->name, "progress_thread")) {
		if (value)
			prov_option_keep(info->name, value);
		return;
	}
	progress_thread = prov_option_text_true(value ? value : info->value);
	prov_option_keep(info->name, "off");
}

void prov_option_read(void)
{
	struct thole_option_info info;

	if (option_count)
		return; /* the core was unloaded and loaded again, and this library stayed */
	for (unsigned i = 0; !thole_option_info(i, &info); i++)
		prov_option_take(&info, prov_core_param(info.name, info.help, info.fallback));
}

bool prov_option_lost(void)
{
	return lost;
}

bool prov_option_native(void)
{
	return native;
}

const char *const *prov_option_strings(void)
{
	return (const char *const *)options;
}

bool prov_option_thread(void)
{
	return progress_thread;
}
