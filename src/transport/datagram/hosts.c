/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts: who speaks mxoe on an interface, and what such a host calls its board there. No endpoint is needed for that,
 * nor is one disturbed: what we say here is what every endpoint of this host says.
 *
 * A host answers only whom it knows, so we say first that we are there. It is heard of by its own such word (each
 * second), by its question for our name, or we are told its MAC. Then it is asked, until it answers. Owns a packet
 * socket for the time of a call.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <linux/if_ether.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "thole.h"
#include "transport/datagram/links.h"

enum {
	SEEN_MAX = 4096,          /* hosts: more than an Ethernet segment has */
	AGAIN_NS = 100000000,     /* who has not answered is asked again */
	LATE_MAX = 1024,          /* frames that are taken when the time is over: more than a socket's buffer holds */
	FRAME_LEAST = ETH_ZLEN - ETH_HLEN,
};

/* A host that was heard of, or is looked for. */
struct seen {
	uint8_t mac[ETH_ALEN];
	bool answered;
	uint64_t asked_ns;
};

struct search {
	int fd;
	struct sockaddr_ll to;
	struct interface interface;
	bool one;                 /* only this MAC, the first that was seen; */
	const char *name;         /* or only this name; or NULL */
	struct seen *seen;
	unsigned seen_count;
	struct thole_mxoe_host *hosts;
	unsigned room, count;     /* count: that have answered */
	bool found;               /* the one that was looked for */
};

/* ---- Saying --------------------------------------------------------------------------------------- */

/* What cannot be sent now is sent again. */
static void hosts_say(struct search *search, const uint8_t *mac, const struct packet *packet)
{
	uint8_t frame[PACKET_HEAD_MAX] = {0};
	size_t length = codec_mxoe.encode(packet, frame); /* hosts say such things in both modes alike */
	ssize_t sent;

	memcpy(search->to.sll_addr, mac, ETH_ALEN);
	sent = sendto(search->fd, frame, length > FRAME_LEAST ? length : FRAME_LEAST, MSG_DONTWAIT,
		      (struct sockaddr *)&search->to, sizeof(search->to));
	(void)sent;
}

static void say_hello(struct search *search)
{
	static const uint8_t everybody[ETH_ALEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct packet packet = {.type = PACKET_HELLO, .host.serial = (uint32_t)host_id()};

	for (int i = 0; i < ETH_ALEN; i++)
		packet.host.mac = packet.host.mac << 8 | search->interface.mac[i];
	hosts_say(search, everybody, &packet);
}

static void ask(struct search *search, struct seen *seen)
{
	struct packet packet = {.type = PACKET_QUERY, .host = {.index = MXOE_HOST_INDEX, .magic = MXOE_QUERY_MAGIC}};

	seen->asked_ns = clock_now_ns();
	hosts_say(search, seen->mac, &packet);
}

static struct seen *see(struct search *search, const uint8_t *mac)
{
	struct seen *seen = search->seen;

	for (unsigned i = 0; i < search->seen_count; i++, seen++)
		if (memcmp(seen->mac, mac, ETH_ALEN) == 0)
			return seen;
	if (search->one || search->seen_count == SEEN_MAX)
		return NULL;
	search->seen_count++;
	memcpy(seen->mac, mac, ETH_ALEN);
	ask(search, seen);
	return seen;
}

/* ---- Hearing -------------------------------------------------------------------------------------- */

/* What somebody has written, made fit for a terminal. */
static void name_take(char *name, const struct packet_host *host)
{
	unsigned length = 0;

	for (; length < host->name_length && length < PACKET_NAME_MAX - 1u && host->name[length]; length++)
		name[length] = isprint((unsigned char)host->name[length]) ? host->name[length] : '?';
	name[length] = '\0';
}

static void answered(struct search *search, struct seen *seen, const struct packet_host *host)
{
	struct thole_mxoe_host found = {.trip_ns = clock_now_ns() - seen->asked_ns};
	const uint8_t *mac = seen->mac;

	if (seen->answered || seen->asked_ns == 0)
		return;
	seen->answered = true;
	snprintf(found.mac, sizeof(found.mac), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		 mac[5]);
	name_take(found.name, host);
	if (search->name && strcasecmp(search->name, found.name) != 0)
		return;
	search->found = search->one || search->name;
	if (search->count < search->room)
		search->hosts[search->count] = found;
	search->count++;
}

static void hear(struct search *search)
{
	uint8_t frame[ETH_DATA_LEN];
	struct sockaddr_ll from = {0};
	socklen_t size = sizeof(from);
	ssize_t length =
		recvfrom(search->fd, frame, sizeof(frame), MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&from, &size);
	struct packet packet;
	struct seen *seen;

	if (length <= 0 || length > (ssize_t)sizeof(frame) || from.sll_pkttype > PACKET_BROADCAST ||
	    codec_mxoe.decode(&packet, frame, (size_t)length) != 0)
		return;
	if (packet.type != PACKET_HELLO && packet.type != PACKET_QUERY && packet.type != PACKET_REPLY)
		return;
	seen = see(search, from.sll_addr);
	if (seen && packet.type == PACKET_REPLY && packet.host.magic == MXOE_QUERY_MAGIC)
		answered(search, seen, &packet.host);
}

/* And what is here when the time is over: who had no core meanwhile may have his answer. */
static void listen_until(struct search *search, uint64_t until_ns)
{
	unsigned late = 0;
	bool some = true;

	while (!search->found && (some || late == 0) && late < LATE_MAX) {
		struct pollfd one = {.fd = search->fd, .events = POLLIN};
		uint64_t now_ns = clock_now_ns(), left_ns = now_ns < until_ns ? until_ns - now_ns : 0;
		struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000),
					.tv_nsec = (long)(left_ns % 1000000000)};

		late += left_ns == 0;
		some = ppoll(&one, 1, &left, NULL) > 0;
		if (some)
			hear(search);
	}
}

static void search_run(struct search *search, uint64_t wait_ns)
{
	uint64_t now_ns = clock_now_ns(), end_ns = wait_ns < UINT64_MAX - now_ns ? now_ns + wait_ns : UINT64_MAX;

	for (; now_ns < end_ns && !search->found; now_ns = clock_now_ns()) {
		say_hello(search);
		for (unsigned i = 0; i < search->seen_count; i++)
			if (!search->seen[i].answered)
				ask(search, &search->seen[i]);
		listen_until(search, now_ns + AGAIN_NS < end_ns ? now_ns + AGAIN_NS : end_ns);
	}
}

/* ---- The call ------------------------------------------------------------------------------------- */

/* A MAC, as "02:00:00:00:00:01", or else a name. */
static void search_for(struct search *search, const char *wanted)
{
	unsigned mac[ETH_ALEN];
	int end = 0;

	if (!wanted || !*wanted)
		return;
	if (sscanf(wanted, "%2x:%2x:%2x:%2x:%2x:%2x%n", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5], &end) !=
		    ETH_ALEN ||
	    wanted[end]) {
		search->name = wanted;
		return;
	}
	for (int i = 0; i < ETH_ALEN; i++)
		search->seen[0].mac[i] = (uint8_t)mac[i];
	search->seen_count = 1;
	search->one = true;
}

static int search_open(struct search *search, const char *interface)
{
	int error = interface_choose(interface, &search->interface);

	if (!error && !interface_can_raw(&search->interface))
		error = error_set(THOLE_ERR_ADDRESS,
				  "the interface %s carries no Ethernet frames, so nobody speaks mxoe there",
				  search->interface.name);
	if (!error)
		error = link_raw_socket(SOCK_DGRAM, false, &search->fd);
	if (error)
		return error;
	search->to = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_protocol = htons(LINK_RAW_ETHERTYPE_MXOE),
					  .sll_ifindex = (int)search->interface.index, .sll_halen = ETH_ALEN};
	if (bind(search->fd, (struct sockaddr *)&search->to, sizeof(search->to)) != 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot bind a packet socket to the interface %s: %m",
				 search->interface.name);
	return 0;
}

int thole_mxoe_hosts(const char *interface, const char *wanted, uint64_t wait_ns, struct thole_mxoe_host *hosts,
		     unsigned room)
{
	struct search search = {.fd = -1, .hosts = hosts, .room = room, .seen = calloc(SEEN_MAX, sizeof(struct seen))};
	int error;

	if (!search.seen)
		return error_set(THOLE_ERR_MEMORY, "no memory to look for hosts");
	error = search_open(&search, interface);
	if (!error) {
		search_for(&search, wanted);
		search_run(&search, wait_ns);
	}
	if (search.fd >= 0)
		close(search.fd);
	free(search.seen);
	return error ? error : (int)search.count;
}
