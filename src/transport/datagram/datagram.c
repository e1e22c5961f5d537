/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/datagram.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/links.h"
#include "transport/datagram/mac.h"

enum {
	/* fruitless polls of a link that costs a system call, after which it is polled seldom, */
	RECENT_POLLS = 64,
	IDLE_POLLS = 16,        /* once in so many, where memory is polled in between, */
	ALONE_POLLS = 4,        /* or nothing is: a poll in vain that does not look is short */
	QUIET_POLLS = 4096,     /* after which a network beside rings rests: some 100 us */
	QUIET_QUEUE_POLLS = 16, /* and one beside adapters */
	CLOCK_POLLS = 16,       /* fruitless polls between two readings of the clock */
	BUSY_SLEEP_NS = 100000, /* longest sleep while a link has no room, which wakes nobody when it has */
	WATCH_TURNS = 4,        /* checks in one peer_timeout of the peers that receives wait for */
	NETWORK_POLLS = 16,     /* polls of rings that take as long as one of the network */
	MXOE_ENDPOINTS = 256,   /* numbers of endpoints on one interface */
};

static void datagram_time(struct datagram *datagram)
{
	datagram->engine.now_ns = datagram->owner->simulated ? datagram->owner->now_ns : clock_now_ns();
}

/* From the kernel. It is never out of it: small requests are always served. */
static void datagram_random(void *arg, void *bytes, size_t length)
{
	(void)arg;
	while (getrandom(bytes, length, 0) != (ssize_t)length)
		;
}

/* ---- Opening -------------------------------------------------------------------------------------- */

/* Something has come or gone: more may come. */
static void datagram_stir(struct datagram *datagram)
{
	datagram->quiet = 0;
	transport_set_polled(datagram->owner, TRANSPORT_DATAGRAM, true);
}

/* Anything at a link: it is polled in the next progress call, and as there may be more, in those after it. */
static void datagram_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	(void)now_ns;
	(void)owner;
	container_of(watcher, struct datagram, watcher)->fruitless = 0;
	datagram_stir(container_of(watcher, struct datagram, watcher));
}

/* Without connections nobody polls the links, so they have to make their descriptors readable; unless there is
 * something already. */
static void datagram_rest(struct datagram *datagram)
{
	struct engine *engine = &datagram->engine;
	/* some have to say now and then that they are here */
	bool something = engine->naming->deadline(engine) != UINT64_MAX;

	for (unsigned i = 0; i < engine->link_count && !something; i++)
		something |= engine->links[i]->calls->ready(engine->links[i]);
	transport_set_polled(datagram->owner, TRANSPORT_DATAGRAM, something);
}

static struct datagram *datagram_new(struct transport_owner *owner, const struct codec *codec)
{
	struct datagram *datagram = calloc(1, sizeof(*datagram));

	if (!datagram)
		return NULL;
	if (engine_init(&datagram->engine, owner, codec) != 0) {
		free(datagram);
		return NULL;
	}
	datagram->owner = owner;
	datagram->watcher.ready = datagram_ready;
	datagram->number_fd = -1;
	datagram->engine.random = datagram_random;
	datagram->engine.mac = mac_libcrypto;
	owner->state[TRANSPORT_DATAGRAM] = datagram;
	datagram_time(datagram);
	return datagram;
}

/* Whether the driver may move bulk: nothing is to be done frame by frame. */
static bool datagram_moves(const struct transport_owner *owner)
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
	if (datagram_moves(datagram->owner))
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
 * ends us. */
static int datagram_mxoe_number(struct datagram *datagram, uint8_t *number_p)
{
	uint64_t wanted = datagram->owner->options.number;
	unsigned number = wanted < MXOE_ENDPOINTS ? (unsigned)wanted : 0;
	unsigned end = wanted < MXOE_ENDPOINTS ? number + 1 : MXOE_ENDPOINTS;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;

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
	int error = datagram_mxoe_number(datagram, &number);

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

static int ethernet_by_driver(struct datagram *datagram, uint16_t ethertype, uint32_t number, struct link **link_p)
{
	struct transport_owner *owner = datagram->owner;
	int error = link_ether_open(&datagram->engine, owner->driver, &datagram->interface, ethertype, number,
				    owner->counters, link_p);

	if (!error && ethertype == LINK_RAW_ETHERTYPE_MXOE && datagram_moves(owner))
		link_ether_move(*link_p, owner);
	return error;
}

/* Raw frames by a packet socket; by the driver where that is asked for, or where packet sockets are not permitted, or
 * where it moves bulk by them. */
static int ethernet_open(struct datagram *datagram, uint16_t ethertype, uint32_t number, struct link **link_p)
{
	const struct transport_owner *owner = datagram->owner;
	enum option_link option = (enum option_link)owner->options.link;
	bool moves = ethertype == LINK_RAW_ETHERTYPE_MXOE && datagram_moves(owner);
	int error = THOLE_ERR_ACCESS;

	if (option == OPTION_LINK_DRIVER && !owner->driver)
		return error_set(THOLE_ERR_UNSUPPORTED, "the option link is driver, and the driver is not in use here: "
							"see thole info, or set link to auto");
	if (option == OPTION_LINK_AUTO && moves && ethernet_by_driver(datagram, ethertype, number, link_p) == 0)
		return 0;
	if (option != OPTION_LINK_DRIVER)
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

static int datagram_add(struct datagram *datagram, const struct datagram_link *row)
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

static void datagram_add_later(struct datagram *datagram)
{
	unsigned later = datagram->later;

	if (!later)
		return;
	datagram->later = 0;
	for (unsigned i = 0; later >> i; i++) {
		int error = later >> i & 1 ? datagram_add(datagram, &datagram_links[i]) : 0;

		if (error && error != datagram_links[i].unpermitted)
			transport_count(datagram->owner, COUNTER_LINK_FALLBACKS);
	}
}

/* Whether the option link names it, alone or with all others. */
static bool datagram_link_is_asked(const struct datagram_link *row, enum option_link option)
{
	return row->asked >> option & 1;
}

static int datagram_add_links(struct datagram *datagram)
{
	enum option_link option = (enum option_link)datagram->owner->options.link;
	bool native = datagram->owner->options.codec == OPTION_CODEC_NATIVE;
	int error = interface_choose(datagram->owner->options.interface, &datagram->interface);

	for (unsigned i = 0; i < DATAGRAM_LINKS && !error; i++)
		if (!native && !datagram_links[i].mxoe && datagram_link_is_asked(&datagram_links[i], option))
			error = error_set(THOLE_ERR_ARGUMENT,
					  "frames of the codec mxoe go over raw links only: set the option link "
					  "to raw, driver or auto");
	for (unsigned i = 0; i < DATAGRAM_LINKS && !error; i++) {
		const struct datagram_link *row = &datagram_links[i];

		if ((!native && !row->mxoe) || !(option == OPTION_LINK_AUTO || datagram_link_is_asked(row, option)))
			continue;
		if (!native || option != OPTION_LINK_AUTO || !row->later)
			error = datagram_add(datagram, row);
		else if (row->can(&datagram->interface))
			datagram->later |= 1u << i;
	}
	return error;
}

static void datagram_close(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;

	engine_fini(engine);
	for (unsigned i = 0; i < engine->link_count; i++)
		engine->links[i]->calls->close(engine->links[i]);
	forked_remove(&datagram->forked);
	forked_close(&datagram->number_fd);
	free(datagram);
	owner->state[TRANSPORT_DATAGRAM] = NULL;
	transport_set_polled(owner, TRANSPORT_DATAGRAM, false);
}

/* Whether the integrity that is asked for can be had. */
static int datagram_integrity(const struct options *options)
{
	bool full = options->integrity == OPTION_INTEGRITY_FULL;
	const char *asked = full ? "full" : "head";

	if (options->integrity == OPTION_INTEGRITY_AUTO || options->integrity == OPTION_INTEGRITY_OFF)
		return 0;
	if (options->codec != OPTION_CODEC_NATIVE)
		return error_set(THOLE_ERR_ARGUMENT,
				 "frames of the codec mxoe have no place for a tag, so the option integrity cannot "
				 "be %s: set it to off, or the codec to native",
				 asked);
	if (options->job_key == 0)
		return error_set(THOLE_ERR_ARGUMENT,
				 "the option integrity=%s needs a key that all of the job know: start it by "
				 "thole run, which makes one, or set the option job_key",
				 asked);
	if (full && !mac_libcrypto())
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "the option integrity=full needs OpenSSL's libcrypto.so.3 (%s): install it "
				 "(Debian: libssl3; Fedora: openssl-libs), or set it to head",
				 mac_trouble());
	return 0;
}

static int datagram_wanted(const struct options *options, enum transport_need *need_p)
{
	bool native = options->codec == OPTION_CODEC_NATIVE;

	if (!native && options->network == OPTION_NETWORK_OFF)
		return error_set(THOLE_ERR_ARGUMENT,
				 "the option codec says what frames on the network look like, and the option "
				 "network is off: set codec to native, or network to auto");
	*need_p = options->network == OPTION_NETWORK_OFF ? TRANSPORT_UNWANTED
		  : options->network == OPTION_NETWORK_ON || !native ? TRANSPORT_REQUIRED
								     : TRANSPORT_WELCOME;
	return 0;
}

/* mxoe shows its key to everybody, and its peers expect none unless told: the user's own is not for that. */
static int datagram_read_key(struct options *options)
{
	return options->codec == OPTION_CODEC_NATIVE ? options_key(options) : 0;
}

static int datagram_open(struct transport_owner *owner)
{
	static const struct codec *const codecs[] = {
		[OPTION_CODEC_NATIVE] = &codec_native,
		[OPTION_CODEC_MXOE] = &codec_mxoe,
		[OPTION_CODEC_MXOE_JUMBO] = &codec_mxoe_jumbo,
	};
	struct datagram *datagram;
	int error = datagram_read_key(&owner->options);

	if (!error)
		error = datagram_integrity(&owner->options);
	if (error)
		return error;
	datagram = datagram_new(owner, codecs[owner->options.codec]);
	if (!datagram)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint's network");
	error = datagram_add_links(datagram);
	if (error) {
		datagram_close(owner);
		memset(owner->parts.network, 0, sizeof(owner->parts.network));
		return error;
	}
	datagram_rest(datagram);
	return 0;
}

int datagram_attach(struct transport_owner *owner, const struct codec *codec, struct link *const *links, unsigned count,
		    void (*random)(void *arg, void *bytes, size_t length), void *random_arg)
{
	struct datagram *datagram = datagram_new(owner, codec);

	if (!datagram)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint's network");
	datagram->engine.random = random;
	datagram->engine.random_arg = random_arg;
	for (unsigned i = 0; i < count; i++) {
		links[i]->engine = &datagram->engine;
		links[i]->counters = owner->counters;
		engine_add_link(&datagram->engine, links[i]);
	}
	transport_set_polled(owner, TRANSPORT_DATAGRAM, true);
	return 0;
}

/* ---- Records and bulk: the engine's ----------------------------------------------------------------- */

/* Whether an address has a network part that this endpoint's links can reach. */
static bool datagram_reaches(const struct transport_owner *owner, const struct address_parts *parts)
{
	return parts->network[0] != ADDRESS_NONE && parts->network[0] == owner->parts.network[0];
}

static struct engine *engine_of(const struct transport_peer *peer)
{
	return &datagram_of(peer->owner)->engine;
}

static int datagram_connect(struct transport_peer *peer)
{
	struct datagram *datagram = datagram_of(peer->owner);
	int error;

	datagram_add_later(datagram);
	datagram_time(datagram);
	error = handshake_connect(&datagram->engine, peer);
	if (!error)
		transport_set_polled(peer->owner, TRANSPORT_DATAGRAM, true);
	return error;
}

static bool datagram_connected(struct transport_peer *peer)
{
	return handshake_connected(peer);
}

static int datagram_key(struct transport_peer *peer, uint64_t key)
{
	datagram_time(datagram_of(peer->owner));
	return engine_of(peer)->naming->rekey(engine_of(peer), peer, key);
}

static int datagram_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
			 uint64_t offset, uint32_t length)
{
	return transmit_push(engine_of(peer), peer, record, payload, offset, length);
}

static uint32_t datagram_piece_max(struct transport_peer *peer, uint64_t left)
{
	return engine_piece_max(engine_of(peer), peer, left);
}

static uint64_t datagram_eager_max(struct transport_peer *peer)
{
	return engine_eager_max(engine_of(peer), peer);
}

static void datagram_limits(struct transport_peer *peer, struct transport_limits *limits_p)
{
	const struct codec *codec = engine_of(peer)->codec;

	limits_p->messages_only = codec->messages_only;
	if (codec->length_max < limits_p->length_max)
		limits_p->length_max = codec->length_max;
}

static void datagram_disconnect(struct transport_peer *peer)
{
	connection_disconnect(engine_of(peer), peer);
}

static void datagram_backpressure(struct transport_owner *owner)
{
	engine_backpressure(&datagram_of(owner)->engine);
}

static void datagram_fetch(struct transport_fetch *fetch)
{
	pull_fetch(engine_of(fetch->peer), fetch);
}

/* Whichever way the word of that has come: a mover has it no longer. */
static void datagram_window_end(struct transport_peer *peer, uint64_t id)
{
	struct connection *connection = connection_of(peer);

	if (connection && connection->handover)
		handover_withdraw(connection, id);
}

/* What peers that are named by numbers know this endpoint by. */
static void datagram_info_own(const struct transport_owner *owner, struct thole_peer_info *info_p)
{
	info_p->session = datagram_of(owner)->engine.session;
}

static void datagram_info(struct transport_peer *peer, struct thole_peer_info *info_p)
{
	const struct connection *connection = connection_of(peer);
	struct engine *engine = engine_of(peer);

	if (!connection || connection->state == CONNECTION_NEW)
		return;
	info_p->frames_sent = connection->out.frames_sent;
	info_p->retransmitted = connection->out.frames_resent;
	info_p->rtt_ns = connection->out.trip.smoothed_ns;
	info_p->session = engine->session ? (uint32_t)connection->peer_session : 0;
	if (connection->state == CONNECTION_CONNECTING) {
		info_p->state = "connecting";
		return;
	}
	info_p->state = "connected";
	info_p->records = engine->links[connection->routes.use[LINK_RECORDS]]->calls->name;
	info_p->bulk = engine->links[connection->routes.use[LINK_BULK]]->calls->name;
	info_p->frame_max = connection->routes.frame;
}

/* ---- Running ---------------------------------------------------------------------------------------- */

/* To poll a link that is not cheap costs a system call. It is polled each time while something comes there or is to
 * come, and else more often where there is nothing else to poll: no peers in shared memory, no link in memory. */
static bool datagram_is_due(const struct datagram *datagram)
{
	const struct engine *engine = &datagram->engine;
	bool alone = datagram->owner->locals == 0 && engine->link_count == 1;
	uint32_t seldom = alone ? ALONE_POLLS : IDLE_POLLS; /* powers of two */

	return datagram->owner->resting || engine->blocks.outstanding > 0 || datagram->fruitless < RECENT_POLLS ||
	       (datagram->polls & (seldom - 1)) == 0;
}

static bool datagram_looks(const struct datagram *datagram, const struct link *link, bool due)
{
	if (!link->calls->cheap)
		return due;
	return !link->calls->waiting || link->calls->waiting(link) || datagram->polls % IDLE_POLLS == 0;
}

static unsigned datagram_receive(struct datagram *datagram, struct link *link)
{
	unsigned n;

	datagram_time(datagram);
	n = link->calls->receive(link, ENGINE_RECEIVE_BUDGET);
	if (!link->calls->cheap)
		datagram->fruitless = n ? 0 : datagram->fruitless + 1;
	return n;
}

static uint64_t datagram_watch_turn(const struct datagram *datagram)
{
	return datagram->owner->options.peer_timeout / WATCH_TURNS + 1;
}

/* When to check the peers that only receives wait for; UINT64_MAX: there are none. */
static uint64_t datagram_watch_ns(const struct datagram *datagram)
{
	const struct transport_owner *owner = datagram->owner;

	return datagram->engine.open > 0 && owner->up->receiving(owner) ? datagram->watch_ns : UINT64_MAX;
}

/* How often a network that brought nothing is polled before it rests. Beside rings it is polled seldom then: what comes
 * by them would wait for each vain look. So is one whose peers all go by adapters, sooner: by it come words now and
 * then. */
static uint32_t datagram_rests_after(const struct transport_owner *owner, const struct engine *engine)
{
	if (owner->queues > 0 && owner->queues >= engine->open)
		return QUIET_QUEUE_POLLS;
	return owner->locals > 0 ? QUIET_POLLS : UINT32_MAX;
}

static void datagram_quieten(struct datagram *datagram)
{
	const struct engine *engine = &datagram->engine;
	const struct transport_owner *owner = datagram->owner;

	if (++datagram->quiet >= datagram_rests_after(owner, engine) && !owner->simulated &&
	    engine->blocks.outstanding == 0 && !engine_busy(engine))
		transport_rest(datagram->owner, TRANSPORT_DATAGRAM);
}

static int datagram_progress(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;
	bool due = datagram_is_due(datagram), looked = false;
	unsigned n = 0;

	datagram_add_later(datagram);
	engine_hurry(engine);
	for (unsigned i = 0; i < engine->link_count; i++) {
		if (datagram_looks(datagram, engine->links[i], due)) {
			n += datagram_receive(datagram, engine->links[i]);
			looked = true;
		}
	}
	n += handover_poll(engine);
	if (datagram->polls++ % CLOCK_POLLS == 0 && !looked) {
		datagram_time(datagram);
		looked = true;
	}
	if (n > 0)
		datagram_stir(datagram);
	else
		datagram_quieten(datagram);
	if (!looked && n == 0) /* no time has passed */
		return 0;
	if (datagram->watch_ns <= engine->now_ns) {
		silence_receives(engine);
		datagram->watch_ns = engine->now_ns + datagram_watch_turn(datagram);
	}
	if (engine_deadline(engine) <= engine->now_ns)
		n += engine_expire(engine);
	return (int)n;
}

static int datagram_transmit(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;
	unsigned sent = 0;

	if (engine_busy(engine) || !list_empty(&engine->blocks.fetching)) {
		datagram_stir(datagram);
		datagram_time(datagram);
		sent = engine_transmit(engine);
	}
	if (!owner->simulated && engine->open == 0 && transport_is_polled(owner, TRANSPORT_DATAGRAM))
		datagram_rest(datagram);
	return (int)sent;
}

static bool datagram_drained(const struct transport_owner *owner)
{
	return engine_drained(&datagram_of(owner)->engine);
}

static bool datagram_moves_alone(const struct transport_owner *owner)
{
	return handover_moves(&datagram_of(owner)->engine);
}

static void datagram_watch(struct transport_peer *peer)
{
	struct connection *connection = connection_of(peer);

	if (connection && connection->state == CONNECTION_OPEN && connection->silence.checked_ns == 0)
		connection_wake(connection, connection->engine->now_ns); /* silence_check sees what is pending */
}

static void datagram_notify_close(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);

	datagram_time(datagram);
	handshake_close(&datagram->engine);
}

/* What arrives makes a descriptor readable in any case; the engine's timers do not. */
static uint64_t datagram_arm(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;
	uint64_t deadline_ns = engine_deadline(engine), watch_ns = datagram_watch_ns(datagram), longest = UINT64_MAX;

	datagram_time(datagram);
	if (watch_ns < deadline_ns)
		deadline_ns = watch_ns;
	if (deadline_ns != UINT64_MAX)
		longest = deadline_ns > engine->now_ns ? deadline_ns - engine->now_ns : 0;
	if (longest > BUSY_SLEEP_NS && engine_busy(engine))
		longest = BUSY_SLEEP_NS;
	for (unsigned i = 0; i < engine->link_count; i++)
		if (engine->links[i]->calls->ready(engine->links[i]))
			return 0;
	return longest;
}

static uint64_t datagram_deadline(const struct transport_owner *owner)
{
	const struct engine *engine = &datagram_of(owner)->engine;
	uint64_t deadline_ns = engine_deadline(engine), retry_ns = owner->now_ns + BUSY_SLEEP_NS;
	uint64_t watch_ns = datagram_watch_ns(datagram_of(owner));

	if (watch_ns < deadline_ns)
		deadline_ns = watch_ns;
	return engine_busy(engine) && retry_ns < deadline_ns ? retry_ns : deadline_ns;
}

const struct transport datagram_transport = {
	.name = "network",
	.carried = COUNTER_NETWORK_MESSAGES,
	.option = "network",
	.weight = NETWORK_POLLS,
	.wanted = datagram_wanted,
	.open = datagram_open,
	.close = datagram_close,
	.drained = datagram_drained,
	.moves_alone = datagram_moves_alone,
	.watch = datagram_watch,
	.notify_close = datagram_notify_close,
	.info_own = datagram_info_own,
	.reaches = datagram_reaches,
	.connect = datagram_connect,
	.push = datagram_push,
	.piece_max = datagram_piece_max,
	.connected = datagram_connected,
	.key = datagram_key,
	.transmit = datagram_transmit,
	.eager_max = datagram_eager_max,
	.limits = datagram_limits,
	.info = datagram_info,
	.disconnect = datagram_disconnect,
	.backpressure = datagram_backpressure,
	.fetch = datagram_fetch,
	.window_end = datagram_window_end,
	.progress = datagram_progress,
	.deadline = datagram_deadline,
	.arm = datagram_arm,
};
