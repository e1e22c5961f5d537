/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter: what a user is told of this host's adapters for remote DMA - what each port can do, what would be faster and
 * how, and what registering memory takes. Nothing here is kept, and nothing is changed.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "endpoint/advice.h"
#include "transport/verbs/port.h"

enum {
	LOCKED_LEAST = 64 << 20, /* bytes: buffers of an endpoint, and some large messages */
	ETHERNET_MORE = 104,     /* bytes of a frame beside a RoCE packet's payload, at most */
	REGISTERING_TRIES = 8,
};

static const char driver_device[] = "/dev/thole";

/* The strings of one thole_adapter_info. */
struct description {
	char name[80];
	char address[INET6_ADDRSTRLEN];
	char can[64];
	struct advice better;
};

static void adapter_better(struct description *description, const struct port *port)
{
	char interface[IF_NAMESIZE] = "INTERFACE";

	if (!port->active)
		advise(&description->better, "its port is not active: check its cable and its switch%s",
		       port->kind == PORT_INFINIBAND ? ", and that a subnet manager runs"
						     : ", and that its network interface is up");
	if (port->kind == PORT_NONE)
		advise(&description->better, "it has no address: give its network interface an IP address");
	if (port->kind == PORT_ROCE1)
		advise(&description->better, "it has no address of RoCE v2: give its network interface an IP address");
	if (port->limited)
		advise(&description->better,
		       "it is a full member of no partition: it reaches no port that is none, either; the subnet "
		       "manager's configuration says which are");
	if (port->orphaned)
		advise(&description->better, "its connections need rdma-core's librdmacm.so.1, and Thole built with "
					     "its header: install it (Debian: librdmacm1; Fedora: librdmacm)");
	if (port->software)
		advise(&description->better,
		       "it is played by processors, and slower than the network without it: it is used only "
		       "with the options verbs=required or verbs_device=%s",
		       port->device);
	if (port->interface)
		if_indextoname(port->interface, interface);
	if (port->active && port->mtu < port->mtu_max && port->kind != PORT_INFINIBAND)
		advise(&description->better, "its packets have %u bytes and could have %u: ip link set %s mtu %u",
		       port->mtu, port->mtu_max, interface, port->mtu_max + ETHERNET_MORE);
	if (port->limits.registered_max < LOCKED_LEAST)
		advise(&description->better,
		       "only %llu bytes may be registered with it: raise the limit of locked memory (ulimit -l "
		       "unlimited; for services LimitMEMLOCK=infinity)",
		       (unsigned long long)port->limits.registered_max);
	if (!(port->limits.can & NIC_CAN_PAGE_FAULT) && access(driver_device, R_OK | W_OK) != 0)
		advise(&description->better,
		       "nobody tells when memory changes, so it is registered for each message, or copied: "
		       "load the kernel driver (thole driver)");
}

static void adapter_describe(struct description *description, const struct port *port)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	static const struct {
		uint32_t can;
		const char *name;
	} words[] = {{NIC_CAN_READ, "read"},
		     {NIC_CAN_ATOMIC, "atomic"},
		     {NIC_CAN_PAGE_FAULT, "paging"}};
	bool is_ipv4 = memcmp(port->gid, ipv4, sizeof(ipv4)) == 0;

	memset(description, 0, sizeof(*description));
	snprintf(description->name, sizeof(description->name), "%s/%u", port->device, port->number);
	if (port->kind != PORT_NONE)
		inet_ntop(is_ipv4 ? AF_INET : AF_INET6, port->gid + (is_ipv4 ? sizeof(ipv4) : 0), description->address,
			  sizeof(description->address));
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t length = strlen(description->can);

		if (port->limits.can & words[i].can)
			snprintf(description->can + length, sizeof(description->can) - length, "%s%s",
				 length ? "," : "", words[i].name);
	}
	adapter_better(description, port);
}

/* Port number index. Errors: as thole_adapter_info. */
static int adapter_port(unsigned index, struct port *port_p)
{
	struct port *list;
	unsigned count;
	int error = port_list(NULL, &list, &count);

	if (error)
		return error;
	if (index < count)
		*port_p = list[index];
	else
		error = error_set(THOLE_ERR_NOT_FOUND, "adapter's port number %u: there are %u", index, count);
	free(list);
	return error;
}

int thole_adapter_info(unsigned index, struct thole_adapter_info *info_p)
{
	static const char *const kinds[] = {
		[PORT_NONE] = "", [PORT_INFINIBAND] = "InfiniBand", [PORT_ROCE1] = "RoCE v1", [PORT_ROCE2] = "RoCE v2",
		[PORT_IWARP] = "iWARP"};
	static _Thread_local struct description description;
	struct port port;
	int error = adapter_port(index, &port);

	if (error)
		return error;
	adapter_describe(&description, &port);
	*info_p = (struct thole_adapter_info){
		.name = description.name,
		.kind = kinds[port.kind],
		.address = description.address,
		.can = description.can,
		.mtu = port.mtu,
		.rate = port.limits.rate * 8,
		.up = port.active,
		.software = port.software,
		.better = description.better.text,
	};
	return 0;
}

/* The best of some tries. */
static int adapter_try(struct nic *nic, void *base, size_t length, uint64_t *ns_p)
{
	*ns_p = UINT64_MAX;
	for (int i = 0; i < REGISTERING_TRIES; i++) {
		uint64_t start_ns = nic->calls->now_ns(nic), ns;
		struct nic_memory memory;
		int error = nic->calls->register_memory(nic, base, length, NIC_ACCESS_WRITE, &memory);

		if (error)
			return error;
		nic->calls->deregister(nic, &memory);
		ns = nic->calls->now_ns(nic) - start_ns;
		*ns_p = ns < *ns_p ? ns : *ns_p;
	}
	return 0;
}

int thole_adapter_registering(unsigned index, size_t length, uint64_t *ns_p)
{
	struct port port;
	struct nic *nic;
	void *base;
	int error = adapter_port(index, &port);

	if (error)
		return error;
	if (length == 0)
		return error_set(THOLE_ERR_ARGUMENT, "no bytes to register");
	error = port_open(&port, &nic);
	if (error)
		return error;
	base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (base == MAP_FAILED) {
		error = error_set(THOLE_ERR_MEMORY, "no memory for %zu bytes: %m", length);
	} else {
		error = adapter_try(nic, base, length, ns_p);
		munmap(base, length);
	}
	nic->calls->close(nic);
	return error;
}
