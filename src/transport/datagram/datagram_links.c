/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datagram_links: which links an endpoint opens, when, and how it is named by them: its address on the network, and
 * with mxoe its number, which is held by the name of a socket. Owns struct datagram's interface, number and what is
 * opened later. Does not own what a link does (link_*.c), nor when links are polled (datagram.c).
 */
#include "transport/datagram/datagram.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/host.h"
#include "base/limits.h"
#include "transport/datagram/links.h"
#include "transport/datagram/naming.h"

enum {
	MXOE_ENDPOINTS = 256,  /* numbers of endpoints on one interface */
	/* processes of the job on this host, at most, for a packet socket that nobody has asked for: each costs every
	 * raw frame to this host 0.1 us, and over UDP a frame takes 1.9 us longer */
	RAW_RANKS_MAX = 16,
};

/* ---- UDP -------------------------------------------------------------------------------------------- */

/* Whether the driver may move bulk: nothing is to be done frame by frame. */
static bool bulk_may_move(const struct transport_owner *owner)
{
	const struct options *options = &owner->options;

	return owner->driver && options->pin != OPTION_PIN_NEVER && !options->checksum && !options->inject_loss &&
	       options->integrity != OPTION_INTEGRITY_FULL;
}

static int udp_link(struct datagram *datagram, struct link **link_p)
{
	uint8_t *network = datagram->owner->parts.network;
	int error = link_udp_open(&datagram->engine, &datagram->interface, datagram->owner->parts.endpoint,
				  datagram->owner->counters, link_p);
	struct link *link = *link_p;

	if (error)
		return error;
	if (bulk_may_move(datagram->owner))
		link_udp_move(link, datagram->owner);
	memcpy(network + 2, link->own.bytes + 16, 2);
	if (interface_is_ipv4(link->own.bytes)) {
		network[0] = ADDRESS_IPV4;
		memcpy(network + 4, link->own.bytes + 12, 4);
		if (datagram->interface.ethernet)
			memcpy(network + 8, datagram->interface.mac, INTERFACE_MAC);
	} else {
		network[0] = ADDRESS_IPV6;
		memcpy(network + 4, link->own.bytes, 16);
	}
	return 0;
}

/* ---- How an endpoint is named with mxoe --------------------------------------------------------------- */

static socklen_t mxoe_name(const struct datagram *datagram, unsigned number, struct sockaddr_un *name)
{
	int length;

	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "thole/mxoe/%u/%u", datagram->interface.index,
			  number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Why there is no number, as errno says. */
static int mxoe_no_number(const struct datagram *datagram)
{
	uint64_t number = datagram->owner->options.number;

	if (errno != EADDRINUSE)
		return error_set(THOLE_ERR_SYSTEM, "cannot hold a number of an mxoe endpoint: %m");
	if (number == MXOE_ENDPOINTS)
		return error_set(THOLE_ERR_BUSY, "all %d numbers of mxoe endpoints on the interface %s are taken",
				 MXOE_ENDPOINTS, datagram->interface.name);
	return error_set(THOLE_ERR_BUSY,
			 "another mxoe endpoint on the interface %s has the number %u: give one that is free by "
			 "the option number, or %d for any",
			 datagram->interface.name, (unsigned)number, MXOE_ENDPOINTS);
}

/* A number that no other endpoint of this interface has: the name of a socket, which the kernel gives back whatever
 * ends us. Nobody can send to it: what waits in it would be closed along with it, which can take long
 * (base/discard.h). */
static int mxoe_number(struct datagram *datagram, uint8_t *number_p)
{
	uint64_t wanted = datagram->owner->options.number;
	unsigned number = wanted < MXOE_ENDPOINTS ? (unsigned)wanted : 0;
	unsigned end = wanted < MXOE_ENDPOINTS ? number + 1 : MXOE_ENDPOINTS;
	int fd = limits_own(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), error;

	if (fd >= 0)
		shutdown(fd, SHUT_RD);
	for (bool more = fd >= 0; more; number++) {
		struct sockaddr_un name;
		socklen_t length = mxoe_name(datagram, number, &name);

		if (bind(fd, (struct sockaddr *)&name, length) == 0) {
			datagram->number_fd = fd;
			forked_add(&datagram->forked, &datagram->number_fd, 1);
			*number_p = (uint8_t)number;
			return 0;
		}
		more = errno == EADDRINUSE && number + 1 < end;
	}
	error = mxoe_no_number(datagram);
	if (fd >= 0)
		close(fd);
	return error;
}

/* Whether any process has the endpoint of this number here. */
static bool mxoe_is_open(void *arg, uint8_t number)
{
	struct sockaddr_un name;
	socklen_t length = mxoe_name(arg, number, &name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool open = fd < 0 || connect(fd, (struct sockaddr *)&name, length) == 0;

	if (fd >= 0)
		close(fd);
	return open;
}

/* What the interface is called: a host's name and the number of the interface there, as MX has it. */
static void mxoe_board_name(const struct options *options, char name[PACKET_NAME_MAX])
{
	char host[PACKET_NAME_MAX - 4];

	if (*options->board_name) {
		snprintf(name, PACKET_NAME_MAX, "%.*s", PACKET_NAME_MAX - 1, options->board_name);
		return;
	}
	if (gethostname(host, sizeof(host)) != 0)
		host[0] = '\0';
	host[sizeof(host) - 1] = '\0';
	snprintf(name, PACKET_NAME_MAX, "%s:0", host);
}

/* The endpoint is named by its interface and number. */
static int mxoe_identify(struct datagram *datagram)
{
	struct address_parts *parts = &datagram->owner->parts;
	char name[PACKET_NAME_MAX];
	uint8_t number = 0;
	int error = mxoe_number(datagram, &number);

	if (error)
		return error;
	mxoe_board_name(&datagram->owner->options, name);
	naming_mxoe_name(&datagram->engine, number, name, (uint32_t)host_id(), mxoe_is_open, datagram);
	address_mxoe(datagram->interface.mac, number, parts);
	return 0;
}

/* Its frames have the lengths that they have. */
static int mxoe_fits(const struct datagram *datagram, struct link *link)
{
	const struct codec *codec = datagram->engine.codec;
	uint32_t bulk = codec->data_head + codec->data, record = codec->record_head + codec->fragment;
	uint32_t least = bulk > record ? bulk : record;
	uint64_t option = datagram->owner->options.mtu;
	const char *other = codec == &codec_mxoe_jumbo ? ", or set the option codec to mxoe, where all hosts do" : "";

	if (option > 0 && option < least)
		return error_set(THOLE_ERR_ADDRESS,
				 "frames of the codec %s need an MTU of %u, and the option mtu says %u: set it "
				 "to 0%s",
				 codec->name, least, (unsigned)option, other);
	if (link->calls->frame_max(link, &link->own) >= least)
		return 0;
	return error_set(THOLE_ERR_ADDRESS,
			 "frames of the codec %s need an MTU of %u, and the interface %s has %u: \"ip link set "
			 "%s mtu %u\", there and wherever the frames go%s",
			 codec->name, least, datagram->interface.name, datagram->interface.mtu,
			 datagram->interface.name, least, other);
}

/* ---- Raw frames ------------------------------------------------------------------------------------- */

static int ethernet_by_driver(struct datagram *datagram, uint16_t ethertype, uint32_t number, struct link **link_p)
{
	struct transport_owner *owner = datagram->owner;
	int error = link_ether_open(&datagram->engine, owner->driver, &datagram->interface, ethertype, number,
				    owner->counters, link_p);

	if (!error && ethertype == LINK_RAW_ETHERTYPE_MXOE && bulk_may_move(owner))
		link_ether_move(*link_p, owner);
	return error;
}

/* The kernel shows a raw frame to all packet sockets of its EtherType on the interface, one after the other, whoever it
 * is for. Frames of MXoE have no other way. */
static bool raw_is_crowded(const struct options *options)
{
	return options->link == OPTION_LINK_AUTO && options->codec == OPTION_CODEC_NATIVE &&
	       options->local_ranks > RAW_RANKS_MAX;
}

/* Raw frames by a packet socket; by the driver where that is asked for, or where packet sockets are not permitted or
 * too many, or where it moves bulk by them. */
static int ethernet_open(struct datagram *datagram, uint16_t ethertype, uint32_t number, struct link **link_p)
{
	const struct transport_owner *owner = datagram->owner;
	enum option_link option = (enum option_link)owner->options.link;
	bool moves = ethertype == LINK_RAW_ETHERTYPE_MXOE && bulk_may_move(owner);
	int error = THOLE_ERR_ACCESS;

	if (option == OPTION_LINK_DRIVER && !owner->driver)
		return error_set(THOLE_ERR_UNSUPPORTED, "the option link is driver, and the driver is not in use here: "
							"see thole info, or set link to auto");
	if (option == OPTION_LINK_AUTO && moves && ethernet_by_driver(datagram, ethertype, number, link_p) == 0)
		return 0;
	if (raw_is_crowded(&owner->options))
		error = error_set(THOLE_ERR_ACCESS, "raw frames take longer than UDP with more than %d processes on a "
				  "host, and there are %u: for raw frames, set the option link to raw or both",
				  RAW_RANKS_MAX, (unsigned)owner->options.local_ranks);
	else if (option != OPTION_LINK_DRIVER)
		error = link_raw_open(&datagram->engine, &datagram->interface, ethertype, number,
				      datagram->owner->counters, link_p);
	if (error != THOLE_ERR_ACCESS || option == OPTION_LINK_RAW || !owner->driver)
		return error;
	return ethernet_by_driver(datagram, ethertype, number, link_p);
}

static int ethernet_link(struct datagram *datagram, struct link **link_p)
{
	const struct options *options = &datagram->owner->options;
	struct address_parts *parts = &datagram->owner->parts;
	bool mxoe = options->codec != OPTION_CODEC_NATIVE;
	int error = mxoe ? mxoe_identify(datagram) : 0;

	if (!error && mxoe)
		error = ethernet_open(datagram, LINK_RAW_ETHERTYPE_MXOE, parts->network[4], link_p);
	else if (!error)
		error = ethernet_open(datagram, (uint16_t)options->ethertype, (uint32_t)parts->endpoint, link_p);
	if (!error && mxoe) {
		error = mxoe_fits(datagram, *link_p);
		if (error)
			(*link_p)->calls->close(*link_p);
	}
	if (error)
		return error;
	if (parts->network[0] == ADDRESS_NONE) {
		parts->network[0] = ADDRESS_ETHERNET;
		memcpy(parts->network + 8, datagram->interface.mac, INTERFACE_MAC);
	}
	return 0;
}

/* ---- Which links ---------------------------------------------------------------------------------- */

/*
 * The real links, in the order in which they are opened: a further one is its file and a row here. What it is good
 * for, how its ends are named and what counts its frames are in its calls (link.h).
 *
 * Many endpoints never talk to another host, and the end of a packet socket takes the kernel long. So where nobody has
 * asked for a link that is `later` it is opened, if that is permitted, at the first word to or from a peer. Without it
 * everything goes over the others.
 */
static const struct datagram_link {
	unsigned asked; /* the values of the option link that want this one, a bit each; auto wants all that can be */
	int (*open)(struct datagram *datagram, struct link **link_p); /* it also tells our address how peers reach it */
	bool (*can)(const struct interface *interface);               /* whether a `later` one is worth a try */
	/* what opening says without the privilege it needs, which is no fault if nobody has asked for it; 0: needs
	 * none */
	int unpermitted;
	bool later;      /* unasked it is opened when a peer is known, and not at once */
	bool mxoe;       /* it carries frames of those codecs too; there it is opened at once */
} datagram_links[] = {
	{.asked = 1u << OPTION_LINK_UDP | 1u << OPTION_LINK_BOTH, .open = udp_link},
	{.asked = 1u << OPTION_LINK_RAW | 1u << OPTION_LINK_BOTH | 1u << OPTION_LINK_DRIVER,
	 .open = ethernet_link,
	 .can = interface_can_raw,
	 .unpermitted = THOLE_ERR_ACCESS,
	 .later = true,
	 .mxoe = true},
};

enum { DATAGRAM_LINKS = sizeof(datagram_links) / sizeof(*datagram_links) };

_Static_assert((int)DATAGRAM_LINKS <= (int)ENGINE_LINKS_MAX, "the engine has room for all links");

static int link_watch(struct datagram *datagram, struct link *link)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &datagram->watcher};

	for (int channel = 0; channel < CHANNELS; channel++)
		if (link->fd[channel] >= 0 &&
		    epoll_ctl(datagram->owner->wait_fd, EPOLL_CTL_ADD, link->fd[channel], &event) != 0)
			return error_set(THOLE_ERR_SYSTEM, "cannot watch the link %s: %m", link->calls->name);
	return 0;
}

static int link_add(struct datagram *datagram, const struct datagram_link *row)
{
	struct link *link;
	int error = row->open(datagram, &link);

	if (error)
		return error;
	error = link_watch(datagram, link);
	if (error)
		link->calls->close(link);
	else
		engine_add_link(&datagram->engine, link);
	return error;
}

void datagram_links_later(struct datagram *datagram)
{
	unsigned later = datagram->later;

	if (!later)
		return;
	datagram->later = 0;
	for (unsigned i = 0; later >> i; i++) {
		int error = later >> i & 1 ? link_add(datagram, &datagram_links[i]) : 0;

		if (error && error != datagram_links[i].unpermitted)
			transport_count(datagram->owner, COUNTER_LINK_FALLBACKS);
	}
}

/* Whether the option link names it, alone or with all others. */
static bool link_is_asked(const struct datagram_link *row, enum option_link option)
{
	return row->asked >> option & 1;
}

int datagram_links_open(struct datagram *datagram)
{
	enum option_link option = (enum option_link)datagram->owner->options.link;
	bool native = datagram->owner->options.codec == OPTION_CODEC_NATIVE;
	int error = interface_choose(datagram->owner->options.interface, &datagram->interface);

	for (unsigned i = 0; i < DATAGRAM_LINKS && !error; i++)
		if (!native && !datagram_links[i].mxoe && link_is_asked(&datagram_links[i], option))
			error = error_set(THOLE_ERR_ARGUMENT,
					  "frames of the codec mxoe go over raw links only: set the option link "
					  "to raw, driver or auto");
	for (unsigned i = 0; i < DATAGRAM_LINKS && !error; i++) {
		const struct datagram_link *row = &datagram_links[i];

		if ((!native && !row->mxoe) || !(option == OPTION_LINK_AUTO || link_is_asked(row, option)))
			continue;
		if (!native || option != OPTION_LINK_AUTO || !row->later)
			error = link_add(datagram, row);
		else if (row->can(&datagram->interface))
			datagram->later |= 1u << i;
	}
	return error;
}

void datagram_links_close(struct datagram *datagram)
{
	struct engine *engine = &datagram->engine;

	for (unsigned i = 0; i < engine->link_count; i++)
		engine->links[i]->calls->close(engine->links[i]);
	forked_remove(&datagram->forked);
	forked_close(&datagram->number_fd);
}
