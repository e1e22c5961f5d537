/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/ibverbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static struct ibverbs library;
static char trouble[256];

static void ibverbs_find(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	static const struct {
		const char *name;
		size_t offset;
	} symbols[] = {
#define IBVERBS_SYMBOL(name, symbol) {#symbol, offsetof(struct ibverbs, name)},
		IBVERBS_TABLE(IBVERBS_SYMBOL)
#undef IBVERBS_SYMBOL
	};

	for (size_t i = 0; handle && i < sizeof(symbols) / sizeof(*symbols); i++) {
		void *found = dlsym(handle, symbols[i].name);

		memcpy((char *)&library + symbols[i].offset, &found, sizeof(found));
		if (!found)
			handle = NULL;
	}
	if (!handle) {
		const char *reason = dlerror();

		snprintf(trouble, sizeof(trouble), "%s", reason ? reason : "it is older than version 32");
		return;
	}
	*(void **)&library.query_qp_data_in_order = dlsym(handle, "ibv_query_qp_data_in_order");
	/* On kernels that do not copy registered pages at a fork, it keeps them out of children. */
	library.fork_init();
}

const struct ibverbs *ibverbs_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, ibverbs_find);
	if (*trouble == '\0')
		return &library;
	error_set(THOLE_ERR_UNSUPPORTED,
		  "adapters for remote DMA need rdma-core's libibverbs.so.1, version 32 or newer (%s): install it "
		  "(Debian: libibverbs1 and ibverbs-providers; Fedora: libibverbs)",
		  trouble);
	return NULL;
}

int ibverbs_port(const struct ibverbs *verbs, struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr_p)
{
	struct verbs_context *wide = verbs_get_ctx_op(context, query_port);

	memset(attr_p, 0, sizeof(*attr_p));
	if (wide)
		return wide->query_port(context, port, attr_p, sizeof(*attr_p));
	return verbs->query_port(context, port, (struct _compat_ibv_port_attr *)attr_p);
}

int ibverbs_device(const struct ibverbs *verbs, struct ibv_context *context, struct ibv_device_attr *attr_p,
		   struct ibv_odp_caps *paging_p)
{
	struct verbs_context *wide = verbs_get_ctx_op(context, query_device_ex);
	struct ibv_device_attr_ex all = {.comp_mask = 0};
	int error = wide ? wide->query_device_ex(context, NULL, &all, sizeof(all)) : EOPNOTSUPP;

	if (error == EOPNOTSUPP || error == ENOSYS) {
		memset(&all, 0, sizeof(all));
		error = verbs->query_device(context, &all.orig_attr);
	}
	*attr_p = all.orig_attr;
	*paging_p = all.odp_caps;
	return error;
}
