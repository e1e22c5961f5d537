/* SPDX-License-Identifier: BSD-3-Clause */
/* host: what this host is, and what its kernel permits to this process. */
#ifndef THOLE_ENDPOINT_HOST_H
#define THOLE_ENDPOINT_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Equal for processes that can reach each other's Unix sockets: of one boot of a kernel and one network namespace. */
uint64_t host_id(void);
/* The same of a host that its user has named. */
uint64_t host_named(const char *name);

/* Rows of thole_capability about the network (network.c): 1, or 0 with the reason in `why`. */
int probe_raw(char *why, size_t size);
int probe_udp_segment(char *why, size_t size);
int probe_udp_gro(char *why, size_t size);
int probe_receive_buffer(char *why, size_t size);

#endif
