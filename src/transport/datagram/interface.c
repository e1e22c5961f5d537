/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface: see interface.h. Nothing here sends a packet: routes are asked of the kernel by connecting a UDP socket.
 */
#include "transport/datagram/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* what an IPv4 address has in front of it */

bool interface_is_ipv4(const uint8_t address[INTERFACE_ADDRESS])
{
	return memcmp(address, mapped, sizeof(mapped)) == 0;
}

/* Which goes no further than the next router, and by IPv4 perhaps to somebody else's of the same number. */
static bool is_link_local(const uint8_t address[INTERFACE_ADDRESS])
{
	return interface_is_ipv4(address) ? address[sizeof(mapped)] == 169 && address[sizeof(mapped) + 1] == 254
					  : address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/* ---- Addresses ------------------------------------------------------------------------------------ */

socklen_t interface_sockaddr(const struct path *path, uint32_t interface, union socket_address *address)
{
	if (interface_is_ipv4(path->bytes)) {
		address->ipv4 = (struct sockaddr_in){.sin_family = AF_INET};
		memcpy(&address->ipv4.sin_addr, path->bytes + sizeof(mapped), 4);
		memcpy(&address->ipv4.sin_port, path->bytes + INTERFACE_ADDRESS, 2);
		return sizeof(address->ipv4);
	}
	address->ipv6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
	memcpy(&address->ipv6.sin6_addr, path->bytes, INTERFACE_ADDRESS);
	memcpy(&address->ipv6.sin6_port, path->bytes + INTERFACE_ADDRESS, 2);
	address->ipv6.sin6_scope_id = is_link_local(path->bytes) ? interface : 0;
	return sizeof(address->ipv6);
}

void interface_path(const union socket_address *address, struct path *path)
{
	memset(path, 0, sizeof(*path));
	if (address->any.sa_family == AF_INET) {
		memcpy(path->bytes, mapped, sizeof(mapped));
		memcpy(path->bytes + sizeof(mapped), &address->ipv4.sin_addr, 4);
		memcpy(path->bytes + INTERFACE_ADDRESS, &address->ipv4.sin_port, 2);
	} else if (address->any.sa_family == AF_INET6) {
		memcpy(path->bytes, &address->ipv6.sin6_addr, INTERFACE_ADDRESS);
		memcpy(path->bytes + INTERFACE_ADDRESS, &address->ipv6.sin6_port, 2);
	}
}

/* ---- The state of addresses ------------------------------------------------------------------------ */

/* What the kernel says of an IPv6 address beside its being there. */
struct state {
	uint8_t address[INTERFACE_ADDRESS];
	char name[IF_NAMESIZE];
	unsigned flags;
};

struct states {
	struct state *all;
	unsigned count;
};

static bool parse_state(const char *line, struct state *state)
{
	char address[2 * INTERFACE_ADDRESS + 1];

	if (sscanf(line, "%32s %*x %*x %*x %x %15s", address, &state->flags, state->name) != 3)
		return false;
	for (unsigned i = 0; i < INTERFACE_ADDRESS; i++) {
		unsigned byte;

		if (sscanf(address + 2 * i, "%2x", &byte) != 1)
			return false;
		state->address[i] = (uint8_t)byte;
	}
	return true;
}

/* Of all IPv6 addresses; where the kernel does not say it, of none. */
static void states_read(struct states *states)
{
	FILE *file = fopen("/proc/thread-self/net/if_inet6", "re");
	char line[128];

	*states = (struct states){0};
	while (file && fgets(line, sizeof(line), file)) {
		struct state *more = realloc(states->all, (states->count + 1) * sizeof(*more));

		if (!more)
			break;
		states->all = more;
		states->count += parse_state(line, &more[states->count]);
	}
	if (file)
		fclose(file);
}

enum { MERIT_LASTS = 1, MERIT_STAYS = 2, MERIT_ROUTED = 4, MERIT_OURS = 8 };

/* How well an IPv6 address would do, more being better. Somebody else has it already, or the kernel still asks whether
 * anybody has: then no socket can be bound to it. A link-local one goes no further than the next router, a deprecated
 * one is on its way out, and a temporary one ends after a day. */
static uint8_t address_merit(const struct states *states, const char *name, const uint8_t address[INTERFACE_ADDRESS])
{
	unsigned flags = 0;

	for (unsigned i = 0; i < states->count; i++)
		if (memcmp(states->all[i].address, address, INTERFACE_ADDRESS) == 0 &&
		    strncmp(states->all[i].name, name, IF_NAMESIZE) == 0)
			flags = states->all[i].flags;
	if (flags & IFA_F_OPTIMISTIC) /* it may be used meanwhile */
		flags &= ~(unsigned)IFA_F_TENTATIVE;
	return (uint8_t)(1 + (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) ? 0 : MERIT_OURS) +
			 (is_link_local(address) ? 0 : MERIT_ROUTED) + (flags & IFA_F_DEPRECATED ? 0 : MERIT_STAYS) +
			 (flags & IFA_F_TEMPORARY ? 0 : MERIT_LASTS));
}

/* ---- The list -------------------------------------------------------------------------------------- */

/* The interface that an address is of: of an IPv4 address the C library says the label, which may have more behind it,
 * as in eth0:1. */
static const char *device_name(const struct ifaddrs *one, char name[IF_NAMESIZE])
{
	snprintf(name, IF_NAMESIZE, "%.*s", (int)strcspn(one->ifa_name, ":"), one->ifa_name);
	return name;
}

static struct interface *entry(struct interface *list, unsigned *count, const char name[IF_NAMESIZE])
{
	for (unsigned i = 0; i < *count; i++)
		if (strncmp(list[i].name, name, IF_NAMESIZE) == 0)
			return &list[i];
	memset(&list[*count], 0, sizeof(*list));
	strcpy(list[*count].name, name);
	return &list[(*count)++];
}

static void add_address(struct interface *interface, const struct sockaddr *address, const struct states *states)
{
	const struct sockaddr_ll *link = (const void *)address;
	struct path path;
	uint8_t merit;

	if (address->sa_family == AF_PACKET) {
		interface->ethernet = link->sll_hatype == ARPHRD_ETHER && link->sll_halen == INTERFACE_MAC;
		if (interface->ethernet)
			memcpy(interface->mac, link->sll_addr, INTERFACE_MAC);
		return;
	}
	interface_path((const void *)address, &path);
	if (address->sa_family == AF_INET &&
	    (!interface->has_ipv4 || (is_link_local(interface->ipv4) && !is_link_local(path.bytes)))) {
		memcpy(interface->ipv4, path.bytes, INTERFACE_ADDRESS);
		interface->has_ipv4 = true;
	} else if (address->sa_family == AF_INET6) {
		merit = address_merit(states, interface->name, path.bytes);
		if (merit <= interface->ipv6_merit)
			return;
		memcpy(interface->ipv6, path.bytes, INTERFACE_ADDRESS);
		interface->ipv6_merit = merit;
		interface->has_ipv6 = true;
	}
}

/* An IPv4 address that the host gave itself yields to an IPv6 one that others reach. Who names an interface may mean
 * hosts that are linked by such addresses alone. */
static void prefer_family(struct interface *interface)
{
	static const uint8_t reached = MERIT_OURS | MERIT_ROUTED;

	if (interface->has_ipv4 && is_link_local(interface->ipv4) && interface->ipv6_merit > reached)
		interface->has_ipv4 = false;
}

static void add_device(struct interface *interface, int fd)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {0};

	interface->index = if_nametoindex(interface->name);
	memcpy(request.ifr_name, interface->name, IF_NAMESIZE);
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		interface->mtu = (uint32_t)request.ifr_mtu;
	request.ifr_data = (char *)&driver;
	interface->inside = interface->loopback ||
			    (ioctl(fd, SIOCETHTOOL, &request) == 0 && strcmp(driver.driver, "veth") == 0);
}

/* To ask the kernel about interfaces; -1: there is none, and errno says why. */
static int socket_of_ip(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 ? fd : socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

int interface_list(struct interface **list_p, unsigned *count_p)
{
	struct ifaddrs *all, *one;
	unsigned count = 0, bound = 1;
	struct interface *list;
	char name[IF_NAMESIZE];
	struct states states;
	char remedy[LIMITS_REMEDY_MAX];
	int fd = socket_of_ip();

	*list_p = NULL;
	*count_p = 0;
	if ((fd < 0 && limits_caused(errno)) || getifaddrs(&all) != 0) {
		error_set(THOLE_ERR_SYSTEM, "cannot list the network interfaces: %m%s", limits_remedy(errno, remedy));
		if (fd >= 0)
			close(fd);
		return THOLE_ERR_SYSTEM;
	}
	states_read(&states);
	for (one = all; one; one = one->ifa_next)
		bound++;
	list = malloc(bound * sizeof(*list));
	for (one = all; list && one; one = one->ifa_next) {
		struct interface *interface = entry(list, &count, device_name(one, name));

		interface->up = one->ifa_flags & IFF_UP;
		interface->running = one->ifa_flags & IFF_RUNNING;
		interface->loopback = one->ifa_flags & IFF_LOOPBACK;
		if (one->ifa_addr)
			add_address(interface, one->ifa_addr, &states);
	}
	for (unsigned i = 0; i < count && fd >= 0; i++)
		add_device(&list[i], fd);
	freeifaddrs(all);
	free(states.all);
	if (fd >= 0)
		close(fd);
	if (!list)
		return error_set(THOLE_ERR_MEMORY, "no memory for the list of network interfaces");
	*list_p = list;
	*count_p = count;
	return 0;
}

/* ---- Choosing -------------------------------------------------------------------------------------- */

bool interface_can_udp(const struct interface *interface)
{
	return interface->up && (interface->has_ipv4 || interface->has_ipv6);
}

bool interface_can_raw(const struct interface *interface)
{
	return interface->up && interface->ethernet && !interface->loopback;
}

/* The kernel asks the same of a raw socket of IP as of a packet socket, and the end of the latter takes it 10 ms. */
bool interface_raw_permitted(void)
{
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool parse_address(const char *text, uint8_t address[INTERFACE_ADDRESS])
{
	memcpy(address, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, address + sizeof(mapped)) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

static struct interface *by_name(struct interface *list, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (strncmp(list[i].name, name, IF_NAMESIZE) == 0)
			return &list[i];
	return NULL;
}

static bool is_address(const struct sockaddr *own, const uint8_t address[INTERFACE_ADDRESS])
{
	struct path path;

	if (!own || (own->sa_family != AF_INET && own->sa_family != AF_INET6))
		return false;
	interface_path((const void *)own, &path);
	return memcmp(path.bytes, address, INTERFACE_ADDRESS) == 0;
}

/* An interface may have more addresses than the two that a list says of it. Of several with this one, one that packets
 * can go out by. */
static struct interface *by_address(struct interface *list, unsigned count, const uint8_t address[INTERFACE_ADDRESS])
{
	struct interface *found = NULL;
	struct ifaddrs *all, *one;
	char name[IF_NAMESIZE];

	if (getifaddrs(&all) != 0)
		return NULL;
	for (one = all; one && !(found && interface_can_udp(found) && !found->loopback); one = one->ifa_next) {
		struct interface *next =
			is_address(one->ifa_addr, address) ? by_name(list, count, device_name(one, name)) : NULL;

		found = next ? next : found;
	}
	freeifaddrs(all);
	return found;
}

/* 127.0.0.0/8 and ::1, which no other host reaches. */
static bool is_loopback(const uint8_t address[INTERFACE_ADDRESS])
{
	static const uint8_t one[INTERFACE_ADDRESS] = {[INTERFACE_ADDRESS - 1] = 1};

	return interface_is_ipv4(address) ? address[sizeof(mapped)] == 127 : memcmp(address, one, sizeof(one)) == 0;
}

/* An interface is used by this address of it alone. */
static void use_by(struct interface *interface, const uint8_t address[INTERFACE_ADDRESS])
{
	interface->has_ipv4 = interface_is_ipv4(address);
	memcpy(interface->has_ipv4 ? interface->ipv4 : interface->ipv6, address, INTERFACE_ADDRESS);
	interface->inside &= !interface->loopback || is_loopback(address);
}

/* The address that has this label. */
static bool parse_label(const char *text, uint8_t address[INTERFACE_ADDRESS])
{
	struct ifaddrs *all, *one;
	struct path path;

	if (!strchr(text, ':') || getifaddrs(&all) != 0)
		return false;
	for (one = all; one && strcmp(one->ifa_name, text) != 0; one = one->ifa_next)
		;
	if (one) {
		interface_path((const void *)one->ifa_addr, &path); /* the kernel gives others no label */
		memcpy(address, path.bytes, INTERFACE_ADDRESS);
	}
	freeifaddrs(all);
	return one != NULL;
}

/* As a user has named it. An address is the one that the interface is to be used by, and so its family. */
static const struct interface *by_option(struct interface *list, unsigned count, const char *name)
{
	uint8_t address[INTERFACE_ADDRESS];
	struct interface *found;

	if (!parse_address(name, address) && !parse_label(name, address))
		return by_name(list, count, name);
	found = by_address(list, count, address);
	if (found)
		use_by(found, address);
	return found;
}

/* The one whose address packets to there get, and that address. NULL: none, or one that no other host reaches. */
static struct interface *by_route(struct interface *list, unsigned count, const char *there,
				  uint8_t source[INTERFACE_ADDRESS])
{
	uint8_t address[INTERFACE_ADDRESS];
	struct interface *found;

	parse_address(there, address);
	if (interface_route(address, NULL, 0, source, NULL) != 0 || is_loopback(source))
		return NULL;
	found = by_address(list, count, source);
	return found && interface_can_udp(found) ? found : NULL;
}

/* As IPv6 routes say. The kernel's source is the one to use, unless a better one is there: what it prefers may be a
 * temporary one. */
static struct interface *by_ipv6_route(struct interface *list, unsigned count)
{
	uint8_t source[INTERFACE_ADDRESS];
	struct interface *found = by_route(list, count, "2001:db8::1", source);
	struct states states;

	if (!found)
		return NULL;
	states_read(&states);
	if (found->loopback)
		use_by(found, source);
	else if (address_merit(&states, found->name, source) == found->ipv6_merit)
		memcpy(found->ipv6, source, INTERFACE_ADDRESS);
	free(states.all);
	return found;
}

/* The one whose address packets to the world outside (to addresses of nobody, for documentation) get, with that
 * address: peers of other networks answer to no other. Where interfaces have none of their own, as between routers that
 * all of a host's ports lead to, the loopback has the host's, which others reach. An IPv4 address that goes no further
 * than the next router is the last choice: where a host reaches IPv4 by translation alone, others have the same. */
static const struct interface *by_default_route(struct interface *list, unsigned count)
{
	uint8_t source[INTERFACE_ADDRESS];
	struct interface *found = by_route(list, count, "192.0.2.1", source), *other = NULL;

	if (!found || is_link_local(source))
		other = by_ipv6_route(list, count);
	if (other && (!found || !is_link_local(other->ipv6)))
		return other;
	if (found)
		use_by(found, source);
	return found;
}

/* How well an interface would do, more being better. */
static unsigned merit(const struct interface *interface)
{
	if (!interface_can_udp(interface))
		return interface_can_raw(interface) && interface->running ? 1 : 0;
	if (interface->loopback)
		return 2;
	return 3u + (interface->running ? 4u : 0) + (interface->ethernet ? 2u : 0) + (interface->has_ipv4 ? 1u : 0);
}

static const struct interface *by_merit(const struct interface *list, unsigned count)
{
	const struct interface *best = NULL;

	for (unsigned i = 0; i < count; i++)
		if (merit(&list[i]) > (best ? merit(best) : 0))
			best = &list[i];
	return best;
}

/* The names that there are, for an error. */
static const char *names(const struct interface *list, unsigned count, char *text, size_t size)
{
	size_t length = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < count && length + IF_NAMESIZE + 2 < size; i++) {
		memcpy(text + length, length ? ", " : "", length ? 2 : 0);
		length += length ? 2 : 0;
		strcpy(text + length, list[i].name);
		length += strlen(list[i].name);
	}
	return text;
}

int interface_choose(const char *name, struct interface *interface)
{
	const struct interface *found;
	struct interface *list;
	char text[256];
	unsigned count;
	int error = interface_list(&list, &count);

	if (error)
		return error;
	if (name && *name) {
		found = by_option(list, count, name);
	} else {
		for (unsigned i = 0; i < count; i++)
			prefer_family(&list[i]);
		found = by_default_route(list, count);
		if (!found)
			found = by_merit(list, count);
	}
	if (found)
		*interface = *found;
	else if (name && *name)
		error = error_set(THOLE_ERR_NOT_FOUND,
				  "no network interface has the name or address \"%.64s\"; there are: %s", name,
				  names(list, count, text, sizeof(text)));
	else
		error = error_set(THOLE_ERR_NOT_FOUND, "no network interface is up and has an address; there are: %s",
				  names(list, count, text, sizeof(text)));
	free(list);
	return error;
}

/* ---- Routes ---------------------------------------------------------------------------------------- */

static uint32_t socket_mtu(int fd, int family)
{
	int mtu = 0;
	socklen_t size = sizeof(mtu);

	if (family == AF_INET)
		getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &size);
	else
		getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &size);
	return mtu > 0 ? (uint32_t)mtu : 0;
}

bool interface_bind(int fd, const uint8_t own[INTERFACE_ADDRESS], uint32_t interface)
{
	struct path path = {{0}};
	union socket_address name;
	socklen_t size;
	int on = 1;

	memcpy(path.bytes, own, INTERFACE_ADDRESS);
	size = interface_sockaddr(&path, interface, &name);
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return bind(fd, &name.any, size) == 0;
}

int interface_route(const uint8_t address[INTERFACE_ADDRESS], const uint8_t *own, uint32_t interface, uint8_t *source,
		    uint32_t *mtu_p)
{
	struct path path = {.bytes = {[INTERFACE_ADDRESS + 1] = 9}}; /* some port: 0 is not allowed everywhere */
	union socket_address name;
	char remedy[LIMITS_REMEDY_MAX];
	socklen_t size;
	int fd, error = 0;

	memcpy(path.bytes, address, INTERFACE_ADDRESS);
	size = interface_sockaddr(&path, interface, &name);
	fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot make a UDP socket: %m%s", limits_remedy(errno, remedy));
	if (own)
		interface_bind(fd, own, interface); /* else it is no route that we could use */
	if (connect(fd, &name.any, size) != 0) {
		error = error_set(THOLE_ERR_ADDRESS, "there is no route to the address: %m");
	} else if (getsockname(fd, &name.any, &size) != 0) {
		error = error_set(THOLE_ERR_SYSTEM, "cannot ask for the source address of a route: %m");
	} else {
		interface_path(&name, &path);
		if (source)
			memcpy(source, path.bytes, INTERFACE_ADDRESS);
		if (mtu_p)
			*mtu_p = socket_mtu(fd, name.any.sa_family);
	}
	close(fd);
	return error;
}
