/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_info.h - answers fi_getinfo: what the provider can do, cut down to what was asked for.
 *
 * One entry at most: a reliable datagram endpoint. Whatever a hint asks for beyond it is answered
 * with -FI_ENODATA, never with a promise.
 */
#ifndef PROV_INFO_H
#define PROV_INFO_H

#include "prov_compat.h"

int prov_info_get(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info_p);
/* As fi_freeinfo, which frees each part with free(). NULL: nothing. */
void prov_info_free(struct fi_info *info);

#endif /* PROV_INFO_H */
