/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_stub.h"

int prov_stub_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)other, (void)flags;
	return -FI_ENOSYS;
}

int prov_stub_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int prov_stub_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

int prov_stub_tostr(const struct fid *fid, char *text, size_t length)
{
	(void)fid, (void)text, (void)length;
	return -FI_ENOSYS;
}

int prov_stub_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}
