/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_name.h"

#include <string.h>

#include "prov_address.h"
#include "prov_endpoint.h"
#include "thole.h"

static int prov_name_get(fid_t fid, void *bytes, size_t *length_p)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);
	size_t room = *length_p;
	struct prov_address address;
	struct thole_address whole;

	*length_p = sizeof address;
	if (room < sizeof address || !bytes)
		return -FI_ETOOSMALL;
	thole_endpoint_address(endpoint->thole, &whole);
	if (!prov_address_of(&whole, &address))
		return -FI_EOTHER;
	memcpy(bytes, &address, sizeof address);
	return 0;
}

static int prov_name_set(fid_t fid, void *bytes, size_t length)
{
	(void)fid, (void)bytes, (void)length;
	return -FI_ENOSYS;
}

static int prov_name_peer_get(struct fid_ep *ep, void *bytes, size_t *length_p)
{
	(void)ep, (void)bytes, (void)length_p;
	return -FI_ENOSYS;
}

static int prov_name_peer_connect(struct fid_ep *ep, const void *bytes, const void *param, size_t length)
{
	(void)ep, (void)bytes, (void)param, (void)length;
	return -FI_ENOSYS;
}

static int prov_name_peer_listen(struct fid_pep *pep)
{
	(void)pep;
	return -FI_ENOSYS;
}

static int prov_name_peer_accept(struct fid_ep *ep, const void *param, size_t length)
{
	(void)ep, (void)param, (void)length;
	return -FI_ENOSYS;
}

static int prov_name_peer_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t length)
{
	(void)pep, (void)handle, (void)param, (void)length;
	return -FI_ENOSYS;
}

static int prov_name_peer_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep, (void)flags;
	return -FI_ENOSYS;
}

static int prov_name_peer_join(struct fid_ep *ep, const void *bytes, uint64_t flags, struct fid_mc **mc, void *context)
{
	(void)ep, (void)bytes, (void)flags, (void)mc, (void)context;
	return -FI_ENOSYS;
}

struct fi_ops_cm prov_name_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = prov_name_set,
	.getname = prov_name_get,
	.getpeer = prov_name_peer_get,
	.connect = prov_name_peer_connect,
	.listen = prov_name_peer_listen,
	.accept = prov_name_peer_accept,
	.reject = prov_name_peer_reject,
	.shutdown = prov_name_peer_shutdown,
	.join = prov_name_peer_join,
};
