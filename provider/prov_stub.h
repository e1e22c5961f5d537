/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_stub.h - the answers that all kinds of objects share for what they cannot do: -FI_ENOSYS.
 * libfabric calls through its tables without looking, so no slot of a table may be empty.
 */
#ifndef PROV_STUB_H
#define PROV_STUB_H

#include "prov_compat.h"

int prov_stub_bind(struct fid *fid, struct fid *other, uint64_t flags);
int prov_stub_control(struct fid *fid, int command, void *arg);
int prov_stub_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int prov_stub_tostr(const struct fid *fid, char *text, size_t length);
int prov_stub_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

#endif /* PROV_STUB_H */
