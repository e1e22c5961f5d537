/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/port.h"

#include <dirent.h>
#include <endian.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"

#ifdef THOLE_HAVE_VERBS
#include "transport/verbs/ibverbs.h"
#include "transport/verbs/iwarp.h"

enum {
	/* What a card uses (card_setup_default) and no more: the completion queue has room for all of it, and counts as
	 * locked memory, as the shared receive queue does. */
	QUEUES_MAX = 32,    /* of an endpoint: those that are used seldom make room */
	WORKS_MAX = 128,    /* posted to a queue; a power of two, as fewer are */
	RECEIVES_MAX = 512, /* of all queues together, with those that strict credit has beside (setup_beside) */
	SEGMENTS_MAX = 8,
	GID_WANTED = 9,     /* the best rank, of the first of those that are wanted */
	GIDS_WANTED = 2,
	READS_MAX = 16,     /* of a queue at a time: what cards have */
	PARTITION_FULL = 0x8000, /* the bit of a partition's key that says so */
	VENDOR_SIW = 0x626d74, /* of the kernel's iWARP, which says so */
};

/* Of works, which are counted in 32 bits and lie in a ring. */
static uint32_t power_of_two(uint32_t most)
{
	return most ? 1u << (31 - __builtin_clz(most)) : 0;
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Bytes in a microsecond, of the codes that ports have for a lane's speed and for how many lanes there are. */
static uint32_t port_rate(const struct ibv_port_attr *attr)
{
	static const struct {
		uint8_t code;
		uint32_t rate; /* of a lane */
	} speeds[] = {{1, 250}, {2, 500}, {4, 1000}, {8, 1250}, {16, 1704}, {32, 3125}, {64, 6250}, {128, 12500}};
	static const uint8_t lanes[] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};
	uint32_t rate = 0;

	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
		if (speeds[i].code == attr->active_speed)
			rate = speeds[i].rate;
	return attr->active_width < sizeof(lanes) ? rate * lanes[attr->active_width] : 0;
}

/* What may be locked in memory by this process. */
static uint64_t port_lockable(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
	struct rlimit limit;

	if ((syscall(SYS_capget, &header, sets) == 0 && sets[0].effective >> CAP_IPC_LOCK & 1) ||
	    getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

static void port_limits(struct port *port, const struct ibv_device_attr *device, const struct ibv_odp_caps *paging,
			const struct ibv_port_attr *attr)
{
	bool iwarp = port->kind == PORT_IWARP;
	uint32_t paged = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	uint32_t receives = least(RECEIVES_MAX, (uint64_t)device->max_srq_wr);
	uint32_t works = power_of_two(least(WORKS_MAX, (uint64_t)device->max_qp_wr));
	uint32_t entries = (uint32_t)device->max_cqe > receives ? (uint32_t)device->max_cqe - receives : 0;

	port->limits = (struct nic_limits){
		.can = NIC_CAN_READ | (iwarp ? NIC_LATE : NIC_CAN_IMM | NIC_CAN_WAIT),
		.queues = least(least(QUEUES_MAX, (uint64_t)device->max_qp), entries / (works ? works : 1)),
		.works = works,
		.reads = least(READS_MAX, (uint64_t)device->max_qp_init_rd_atom),
		.receives = receives,
		.segments = least(SEGMENTS_MAX, (uint64_t)device->max_sge),
		.mtu = port->mtu,
		.length_max = attr->max_msg_sz,
		.registered_max = port_lockable(),
		.rate = port->software ? 0 : port_rate(attr), /* what that says of itself is made up */
	};
	if (device->atomic_cap != IBV_ATOMIC_NONE && !iwarp)
		port->limits.can |= NIC_CAN_ATOMIC;
	port->paging = paging->general_caps & IBV_ODP_SUPPORT &&
		       (paging->per_transport_caps.rc_odp_caps & paged) == paged;
	/* Soft-RoCE's copy from and to the beginning of a page, wherever in it the bytes are: from Linux 6.15 to 7.3 at
	 * least (rxe_odp_mr_copy). */
	port_page(port, !port->software);
	port->reads = (uint8_t)least(READS_MAX, (uint64_t)device->max_qp_rd_atom);
	/* siw lets a read that waits for others hold up its answers to the peer's, who may wait for these */
	if (iwarp && port->software) {
		port->limits.reads = least(WORKS_MAX, (uint64_t)device->max_qp_init_rd_atom);
		port->reads = (uint8_t)least(WORKS_MAX, (uint64_t)device->max_qp_rd_atom);
	}
}

/* An IP address as a GID is one; false: it is none. */
static bool address_as_gid(const struct sockaddr *address, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (address->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
	} else if (address->sa_family == AF_INET) {
		memset(gid + 10, 0xff, 2);
		memcpy(gid + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
	} else {
		return false;
	}
	return true;
}

/* The network interface of an iWARP adapter, where the kernel does not say it (before Linux 6.5): the one with that
 * Ethernet address, which is the GID. 0: none. */
static uint32_t interface_of_gid(const struct ifaddrs *all, const uint8_t gid[16])
{
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		const struct sockaddr_ll *link = (const void *)one->ifa_addr;

		if (link && link->sll_family == AF_PACKET && link->sll_halen == 6 &&
		    memcmp(link->sll_addr, gid, 6) == 0)
			return (uint32_t)link->sll_ifindex;
	}
	return 0;
}

/* How good an address a GID is: one that is wanted (NULL: none), of an IPv4 address that is routed, of an IPv6 one, of
 * a link, of the older kind. */
static int gid_rank(const struct ibv_gid_entry *entry, const uint8_t *const wanted[GIDS_WANTED])
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff}, link[2] = {0xfe, 0x80};
	bool newer = entry->gid_type != IBV_GID_TYPE_ROCE_V1;

	for (int i = 0; newer && i < GIDS_WANTED; i++)
		if (wanted[i] && memcmp(entry->gid.raw, wanted[i], sizeof(entry->gid.raw)) == 0)
			return GID_WANTED - i;
	if (memcmp(entry->gid.raw, ipv4, sizeof(ipv4)) == 0)
		return newer ? 6 : 3;
	return (newer ? 4 : 1) + (memcmp(entry->gid.raw, link, sizeof(link)) != 0);
}

/* The best IP address of an iWARP adapter's network interface. */
static void port_address_ip(const struct ibv_gid_entry *entry, const uint8_t *const wanted[GIDS_WANTED],
			    struct port *port)
{
	struct ifaddrs *all = NULL;
	char name[IF_NAMESIZE];
	int best = 0;

	if (getifaddrs(&all) != 0)
		return;
	port->interface = entry->ndev_ifindex ? entry->ndev_ifindex : interface_of_gid(all, entry->gid.raw);
	for (const struct ifaddrs *one = if_indextoname(port->interface, name) ? all : NULL; one; one = one->ifa_next) {
		struct ibv_gid_entry place = {.gid_type = IBV_GID_TYPE_ROCE_V2}; /* ranked as such */

		if (strcmp(one->ifa_name, name) != 0 || !one->ifa_addr ||
		    !address_as_gid(one->ifa_addr, place.gid.raw) || gid_rank(&place, wanted) <= best)
			continue;
		best = gid_rank(&place, wanted);
		port->wanted = best == GID_WANTED;
		port->kind = PORT_IWARP;
		memcpy(port->gid, place.gid.raw, sizeof(port->gid));
	}
	freeifaddrs(all);
}

/* The best address that it has; of InfiniBand the first one, by which others are not found but told apart. */
static void port_address(const struct ibverbs *verbs, struct ibv_context *context, const struct ibv_port_attr *attr,
			 const uint8_t *const wanted[GIDS_WANTED], struct port *port)
{
	int best = 0;

	for (int i = 0; i < attr->gid_tbl_len && i <= UINT8_MAX; i++) { /* queue pairs know no others */
		struct ibv_gid_entry entry;

		if (verbs->query_gid_ex(context, port->number, (uint32_t)i, &entry, 0, sizeof(entry)) != 0 ||
		    (context->device->transport_type != IBV_TRANSPORT_IWARP && gid_rank(&entry, wanted) <= best))
			continue;
		if (context->device->transport_type == IBV_TRANSPORT_IWARP) {
			port_address_ip(&entry, wanted, port);
			return;
		}
		best = gid_rank(&entry, wanted);
		port->wanted = best == GID_WANTED;
		memcpy(port->gid, entry.gid.raw, sizeof(port->gid));
		port->gid_index = (uint32_t)i;
		port->interface = entry.ndev_ifindex;
		port->kind = entry.gid_type == IBV_GID_TYPE_IB        ? PORT_INFINIBAND
			     : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? PORT_ROCE1
								      : PORT_ROCE2;
		if (port->kind == PORT_INFINIBAND)
			return;
	}
}

/* Of InfiniBand: of the partitions that the port is in, the first that it is a full member of. Limited members, which
 * hosts mostly are of the default one where there are others, do not reach each other. */
static void port_partition(const struct ibverbs *verbs, struct ibv_context *context, const struct ibv_port_attr *attr,
			   struct port *port)
{
	uint16_t key;

	if (port->kind != PORT_INFINIBAND)
		return;
	for (int i = 0; i < attr->pkey_tbl_len; i++)
		if (verbs->query_pkey(context, port->number, i, &key) == 0 && be16toh(key) & PARTITION_FULL) {
			port->partition = (uint16_t)i;
			return;
		}
	port->limited = true;
}

bool port_renew(const struct ibverbs *verbs, struct ibv_context *context, const uint8_t asked[16], struct port *port)
{
	const uint8_t *const wanted[GIDS_WANTED] = {asked, port->gid};
	struct port now = {.number = port->number};
	struct ibv_port_attr attr;

	if (ibverbs_port(verbs, context, port->number, &attr) != 0)
		return false;
	port_address(verbs, context, &attr, wanted, &now);
	if (now.kind == PORT_NONE)
		return false;
	now.global = attr.flags & IBV_QPF_GRH_REQUIRED;
	port_partition(verbs, context, &attr, &now);
	if (attr.lid == port->lid && now.kind == port->kind && now.gid_index == port->gid_index &&
	    now.global == port->global && now.partition == port->partition &&
	    memcmp(now.gid, port->gid, sizeof(now.gid)) == 0)
		return false;
	port->lid = attr.lid;
	port->kind = now.kind;
	port->global = now.global;
	port->partition = now.partition;
	port->gid_index = now.gid_index;
	port->interface = now.interface;
	memcpy(port->gid, now.gid, sizeof(port->gid));
	return true;
}

/* False: it is none of an adapter's. */
static bool port_read(const struct ibverbs *verbs, struct ibv_context *context, const char *name, uint8_t number,
		      const uint8_t *asked, struct port *port)
{
	const uint8_t *const wanted[GIDS_WANTED] = {asked};
	struct ibv_device_attr device;
	struct ibv_odp_caps paging;
	struct ibv_port_attr attr;

	if (ibverbs_device(verbs, context, &device, &paging) != 0 || number > device.phys_port_cnt ||
	    ibverbs_port(verbs, context, number, &attr) != 0)
		return false;
	*port = (struct port){.number = number, .active = attr.state == IBV_PORT_ACTIVE, .lid = attr.lid,
			      .global = attr.flags & IBV_QPF_GRH_REQUIRED};
	snprintf(port->device, sizeof(port->device), "%s", name);
	/* an adapter of no vendor is one that the kernel plays */
	port->software = device.vendor_id == 0 || device.vendor_id == 0xffffff || device.vendor_id == VENDOR_SIW;
	port->mtu_code = (uint8_t)attr.active_mtu;
	port->mtu = 128u << attr.active_mtu;
	port->mtu_max = 128u << attr.max_mtu;
	port_address(verbs, context, &attr, wanted, port);
	port_partition(verbs, context, &attr, port);
	port->orphaned = port->kind == PORT_IWARP && !iwarp_is_here();
	port_limits(port, &device, &paging, &attr);
	return true;
}

/* Add the ports of one adapter. Others than these are no adapters for this (usNIC). */
static int port_add(const struct ibverbs *verbs, struct ibv_device *device, const uint8_t *wanted,
		    struct port **list, uint32_t *count)
{
	struct ibv_context *context;
	uint32_t capacity = *count;
	struct port port;
	int error = 0;

	if (device->transport_type != IBV_TRANSPORT_IB && device->transport_type != IBV_TRANSPORT_IWARP)
		return 0;
	context = verbs->open_device(device);
	if (!context)
		return 0; /* it is there, but not for us: /dev/infiniband may be forbidden */
	for (uint8_t number = 1;
	     !error && port_read(verbs, context, verbs->get_device_name(device), number, wanted, &port); number++) {
		struct port *longer = array_reserve(*list, &capacity, *count + 1, sizeof(**list));

		if (!longer) {
			error = error_set(THOLE_ERR_MEMORY, "no memory for the list of adapters");
			break;
		}
		*list = longer;
		longer[(*count)++] = port;
	}
	verbs->close_device(context);
	return error;
}

static int port_list_all(const uint8_t *wanted, struct port **list_p, uint32_t *count_p)
{
	const struct ibverbs *verbs = ibverbs_load();
	struct ibv_device **devices;
	int error = 0;

	if (!verbs)
		return THOLE_ERR_UNSUPPORTED;
	devices = verbs->get_device_list(NULL);
	for (int i = 0; devices && devices[i] && !error; i++)
		error = port_add(verbs, devices[i], wanted, list_p, count_p);
	if (devices)
		verbs->free_device_list(devices);
	return error;
}

int port_open(const struct port *port, struct nic **nic_p)
{
	return nic_verbs_open(port, nic_p);
}

#else

static int port_list_all(const uint8_t *wanted, struct port **list_p, uint32_t *count_p)
{
	(void)wanted, (void)list_p, (void)count_p;
	return error_set(THOLE_ERR_UNSUPPORTED,
			 "this Thole was built without adapters for remote DMA: build it where "
			 "<infiniband/verbs.h> is (Debian: libibverbs-dev; Fedora: rdma-core-devel)");
}

int port_open(const struct port *port, struct nic **nic_p)
{
	(void)port, (void)nic_p;
	return THOLE_ERR_UNSUPPORTED; /* there is none to be opened */
}

#endif

int port_list(const uint8_t wanted[16], struct port **list_p, unsigned *count_p)
{
	uint32_t count = 0;
	int error;

	*list_p = NULL;
	error = port_list_all(wanted, list_p, &count);
	if (error) {
		free(*list_p);
		*list_p = NULL;
	}
	*count_p = error ? 0 : count;
	return error;
}

/* Where the kernel knows of no adapter, libibverbs is not even loaded: that takes longer than all else of opening. */
static bool port_is_any(void)
{
	DIR *folder = opendir("/sys/class/infiniband");
	const struct dirent *entry = NULL;

	while (folder && (entry = readdir(folder)) && entry->d_name[0] == '.')
		;
	if (folder)
		closedir(folder);
	return entry;
}

static bool port_is_better(const struct port *port, const struct port *than)
{
	return port->wanted != than->wanted ? port->wanted : port->limits.rate > than->limits.rate;
}

int port_choose(const char *device, const uint8_t wanted[16], bool software, struct port *port_p)
{
	const struct port *best = NULL;
	struct port *list;
	unsigned count, inactive = 0, played = 0;
	int error;

	if (!port_is_any())
		return error_set(THOLE_ERR_NOT_FOUND, "this host has no adapter for remote DMA%s%s",
				 *device ? " called " : "", device);
	error = port_list(wanted, &list, &count);
	if (error)
		return error;
	for (unsigned i = 0; i < count; i++) {
		if (*device ? strcmp(list[i].device, device) != 0 : list[i].software && !software) {
			played += *device == '\0';
			continue;
		}
		inactive += !list[i].active;
		if (list[i].active && list[i].kind != PORT_NONE && !list[i].orphaned && list[i].limits.queues > 0 &&
		    (!best || port_is_better(&list[i], best)))
			best = &list[i];
	}
	if (best)
		*port_p = *best;
	free(list);
	if (best)
		return 0;
	if (played > 0 && inactive == 0)
		return error_set(THOLE_ERR_NOT_FOUND,
				 "the only adapters for remote DMA are played by processors, which is slower than the "
				 "network: they are used where the options verbs=required or verbs_device say so");
	return error_set(THOLE_ERR_NOT_FOUND,
			 "there is no port of an adapter for remote DMA%s%s that could be used; %u are not active: "
			 "thole info adapters lists all",
			 *device ? " called " : "", device, inactive);
}
