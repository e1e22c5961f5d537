/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_names - between names and NIC ids, of boards here and of other hosts. What is not known is
 * asked for on all boards' networks, by sockets of the call's own: this needs no open endpoint. Any
 * thread may call anything.
 */
#ifndef MX_NAMES_H
#define MX_NAMES_H

#include <stdint.h>

#include "myriexpress.h"

/* The NIC id of "host:1", or of "host", which is its board 0; MX_HOST_NOT_FOUND. The name of a NIC
 * id; MX_NIC_NOT_FOUND. What neither this host nor the file nor the table knows is asked for on the
 * network, for at most 300 ms; with frames of MXoE a name for 1.3 s on each board. MX_NO_RESOURCES:
 * not found, but not everybody could be asked. Failures have a sentence (error_set). */
mx_return_t mxi_names_to_nic(const char *name, uint64_t *nic_id_p);
mx_return_t mxi_names_of_nic(uint64_t nic_id, char name[MX_MAX_HOSTNAME_LEN]);

#endif /* MX_NAMES_H */
