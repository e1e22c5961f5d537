/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/rdmacm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static struct rdmacm manager;
static char absence[256];

static void rdmacm_find(void)
{
	void *handle = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
	static const struct {
		const char *name;
		size_t offset;
	} symbols[] = {
#define RDMACM_SYMBOL(name, symbol) {#symbol, offsetof(struct rdmacm, name)},
		RDMACM_TABLE(RDMACM_SYMBOL)
#undef RDMACM_SYMBOL
	};
	bool whole = handle;

	for (size_t i = 0; whole && i < sizeof(symbols) / sizeof(*symbols); i++) {
		void *found = dlsym(handle, symbols[i].name);

		memcpy((char *)&manager + symbols[i].offset, &found, sizeof(found));
		whole = found;
	}
	if (!whole) {
		const char *reason = dlerror();

		snprintf(absence, sizeof(absence), "%s", reason ? reason : "it is not whole");
	}
}

const struct rdmacm *rdmacm_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, rdmacm_find);
	if (*absence == '\0')
		return &manager;
	error_set(THOLE_ERR_UNSUPPORTED,
		  "iWARP adapters need rdma-core's librdmacm.so.1 (%s): install it (Debian: librdmacm1; Fedora: "
		  "librdmacm)",
		  absence);
	return NULL;
}
