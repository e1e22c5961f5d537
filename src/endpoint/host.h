/* SPDX-License-Identifier: BSD-3-Clause */
/* host: what this host is, and what its kernel permits to this process. */
#ifndef THOLE_ENDPOINT_HOST_H
#define THOLE_ENDPOINT_HOST_H

#include <stdint.h>

/* Equal for processes that can reach each other's Unix sockets: of one boot of a kernel and one network namespace. */
uint64_t host_id(void);

#endif
