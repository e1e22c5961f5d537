/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_option.h - Thole's options, which users of libfabric give as FI_THOLE_<NAME>. Read once,
 * when the library is loaded.
 */
#ifndef PROV_OPTION_H
#define PROV_OPTION_H

#include <stdbool.h>

#include "thole.h"

void prov_option_read(void);

/* Whether one of them found no memory: endpoints would be without what its user asked for, integrity perhaps. */
bool prov_option_lost(void);

/* For thole_endpoint_open: "name=value" strings ended by NULL. */
const char *const *prov_option_strings(void);

/* Whether domains make progress by themselves: Thole's option progress_thread. */
bool prov_option_thread(void);

/* Whether frames are Thole's own. Those of other codecs carry tagged messages and nothing else,
 * which is less than an endpoint here has to offer. */
bool prov_option_native(void);

#endif /* PROV_OPTION_H */
