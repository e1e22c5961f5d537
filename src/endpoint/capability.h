/* SPDX-License-Identifier: BSD-3-Clause */
/* capability: what this host's kernel permits to this process (thole_capability). */
#ifndef THOLE_ENDPOINT_CAPABILITY_H
#define THOLE_ENDPOINT_CAPABILITY_H

#include <stddef.h>

/* Its rows about the network (network.c): 1, or 0 with the reason in `why`. */
int probe_raw(char *why, size_t size);
int probe_udp_segment(char *why, size_t size);
int probe_udp_gro(char *why, size_t size);
int probe_receive_buffer(char *why, size_t size);

#endif
