/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_door.c - what libfabric finds when it loads this library. Everything that is set once is set
 * in fi_prov_ini, which the core calls before anything else and from one thread.
 */
#include "prov_core.h"
#include "prov_fabric.h"
#include "prov_info.h"
#include "prov_option.h"

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
	prov_core_find();
	prov_option_read();
	prov_core_provider.getinfo = prov_info_get;
	prov_core_provider.fabric = prov_fabric_open;
	/* A core refuses a provider that is older than what the application asks for. */
	if (prov_core_version() > prov_core_provider.fi_version)
		prov_core_provider.fi_version = prov_core_version();
	return &prov_core_provider;
}
