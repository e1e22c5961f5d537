/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network: what a user is told of this host's network - what the kernel permits there, which links each interface
 * gives, and what would be faster and how. Nothing here is kept, and nothing is changed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "endpoint/advice.h"
#include "endpoint/capability.h"
#include "memory/driver.h"
#include "transport/datagram/interface.h"

enum {
	RECEIVE_BYTES = 4 << 20, /* of a socket: some windows of bulk data of several senders at once */
	COALESCE_US_MAX = 10,    /* an interrupt that waits longer delays small messages by more than they take */
	JUMBO_MTU = 9000,
};

static const char raw_remedy[] =
	"CAP_NET_RAW is missing: as root, \"setpriv --reuid USER --regid USER --init-groups --inh-caps +net_raw "
	"--ambient-caps +net_raw COMMAND\", or \"setcap cap_net_raw+ep PROGRAM\" (which then takes no options from "
	"its environment); in a container --cap-add=NET_RAW";

/* ---- Capabilities (capability.c) ------------------------------------------------------------------------ */

int probe_raw(char *why, size_t size)
{
	if (interface_raw_permitted())
		return 1;
	snprintf(why, size, "%s", raw_remedy);
	return 0;
}

static int probe_udp_option(int option, const char *name, char *why, size_t size)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), value = option == UDP_SEGMENT ? 1400 : 1, set;

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		snprintf(why, size, "a UDP socket: %s; other hosts cannot be reached", strerror(errno));
		return 0;
	}
	set = setsockopt(fd, IPPROTO_UDP, option, &value, sizeof(value));
	if (set != 0)
		snprintf(why, size,
			 "%s: %s; it needs Linux 5.0, and without it large messages cost a system call a frame", name,
			 strerror(errno));
	close(fd);
	return set == 0;
}

int probe_udp_segment(char *why, size_t size)
{
	return probe_udp_option(UDP_SEGMENT, "UDP_SEGMENT", why, size);
}

int probe_udp_gro(char *why, size_t size)
{
	return probe_udp_option(UDP_GRO, "UDP_GRO", why, size);
}

int probe_receive_buffer(char *why, size_t size)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = RECEIVE_BYTES, got = 0;
	socklen_t length = sizeof(got);

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		snprintf(why, size, "a UDP socket: %s", strerror(errno));
		return 0;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &length);
	close(fd);
	if (got / 2 >= RECEIVE_BYTES) /* the kernel says twice what was asked for */
		return 1;
	snprintf(why, size, "sockets get %d bytes, which many senders at once overrun: sysctl -w net.core.rmem_max=%d",
		 got / 2, RECEIVE_BYTES);
	return 0;
}

/* ---- Interfaces ----------------------------------------------------------------------------------- */

/* The strings of one thole_interface_info. */
struct description {
	char name[IF_NAMESIZE];
	char address[INET6_ADDRSTRLEN];
	char mac[3 * INTERFACE_MAC];
	char links[32];
	struct advice better;
};

/* A question of ethtool; false: the interface does not answer. */
static bool interface_ask(const char *name, void *question)
{
	struct ifreq request = {.ifr_data = question};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), asked;

	memcpy(request.ifr_name, name, IF_NAMESIZE);
	asked = fd >= 0 ? ioctl(fd, SIOCETHTOOL, &request) : -1;
	if (fd >= 0)
		close(fd);
	return asked == 0;
}

/* How long the interface waits before it says that a frame has come, in microseconds; 0 if it does not tell. */
static uint32_t interface_coalescing(const char *name, bool *adaptive_p)
{
	struct ethtool_coalesce coalesce = {.cmd = ETHTOOL_GCOALESCE};
	bool told = interface_ask(name, &coalesce);

	*adaptive_p = told && coalesce.use_adaptive_rx_coalesce;
	return told ? coalesce.rx_coalesce_usecs : 0;
}

/* The number of queues, where which of them a UDP packet comes by depends on its addresses alone; otherwise 0. */
static unsigned interface_queues_by_host(const char *name)
{
	struct ethtool_rxnfc queues = {.cmd = ETHTOOL_GRXRINGS};
	struct ethtool_rxnfc hash = {.cmd = ETHTOOL_GRXFH, .flow_type = UDP_V4_FLOW};

	if (!interface_ask(name, &queues) || queues.data < 2 || !interface_ask(name, &hash))
		return 0;
	return hash.data != 0 && !(hash.data & (RXH_L4_B_0_1 | RXH_L4_B_2_3)) ? (unsigned)queues.data : 0;
}

/* Whether small messages can go by it where raw frames are not permitted. */
static bool driver_is_there(void)
{
	struct driver driver;
	bool there = driver_open(&driver) == 0;

	driver_close(&driver);
	return there;
}

static void describe_links(struct description *description, const struct interface *interface)
{
	bool udp = interface_can_udp(interface), raw = interface_can_raw(interface),
	     permitted = interface_raw_permitted();
	const char *ethernet = !raw ? "" : permitted ? "raw" : driver_is_there() ? "driver" : "";

	snprintf(description->links, sizeof(description->links), "%s%s%s", udp ? "udp" : "",
		 udp && *ethernet ? "," : "", ethernet);
	if (raw && !*ethernet)
		advise(&description->better, "small messages would take half the time over raw frames. %s",
		       raw_remedy);
	if (!interface->up)
		advise(&description->better, "it is switched off: ip link set %s up", interface->name);
	else if (!udp)
		advise(&description->better, "it has no IP address: ip address add ADDRESS/BITS dev %s",
		       interface->name);
}

static void describe_speed(struct description *description, const struct interface *interface)
{
	bool adaptive;
	uint32_t coalescing;
	unsigned queues;

	if (!interface->ethernet || interface->loopback || !interface->up)
		return;
	if (interface->mtu < JUMBO_MTU)
		advise(&description->better,
		       "its MTU is %u: where all of the network carries longer frames, large messages take less "
		       "time with ip link set %s mtu %d",
		       interface->mtu, interface->name, JUMBO_MTU);
	coalescing = interface_coalescing(interface->name, &adaptive);
	if (coalescing > COALESCE_US_MAX || adaptive)
		advise(&description->better,
		       "its interrupts wait %s%u us for more frames: ethtool -C %s adaptive-rx off rx-usecs %d",
		       adaptive ? "up to some time above " : "", coalescing, interface->name, COALESCE_US_MAX / 2);
	queues = interface_queues_by_host(interface->name);
	if (queues)
		advise(&description->better,
		       "all that one host sends comes by one of its %u queues, to one processor: ethtool -N %s "
		       "rx-flow-hash udp4 sdfn",
		       queues, interface->name);
}

static void describe(struct description *description, const struct interface *interface)
{
	const uint8_t *mac = interface->mac;

	memset(description, 0, sizeof(*description));
	memcpy(description->name, interface->name, sizeof(description->name));
	if (interface->has_ipv4)
		inet_ntop(AF_INET, interface->ipv4 + INTERFACE_ADDRESS - 4, description->address,
			  sizeof(description->address));
	else if (interface->has_ipv6)
		inet_ntop(AF_INET6, interface->ipv6, description->address, sizeof(description->address));
	if (interface->ethernet)
		snprintf(description->mac, sizeof(description->mac), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1],
			 mac[2], mac[3], mac[4], mac[5]);
	describe_links(description, interface);
	describe_speed(description, interface);
}

int thole_interface_info(unsigned index, struct thole_interface_info *info_p)
{
	static _Thread_local struct description description;
	struct interface *list, chosen;
	unsigned count;
	bool is_chosen;
	int error = interface_list(&list, &count), choice = 0;

	if (error)
		return error;
	if (index >= count)
		error = error_set(THOLE_ERR_NOT_FOUND, "interface number %u: there are %u", index, count);
	else
		choice = interface_choose(NULL, &chosen);
	if (choice && choice != THOLE_ERR_NOT_FOUND) /* else none would do, and none is chosen */
		error = choice;
	if (error) {
		free(list);
		return error;
	}
	is_chosen = !choice && chosen.index == list[index].index;
	describe(&description, is_chosen ? &chosen : &list[index]); /* which has the address in use */
	*info_p = (struct thole_interface_info){
		.name = description.name,
		.address = description.address,
		.mac = description.mac,
		.mtu = list[index].mtu,
		.up = list[index].up && list[index].running,
		.chosen = is_chosen,
		.links = description.links,
		.better = description.better.text,
	};
	free(list);
	return 0;
}
