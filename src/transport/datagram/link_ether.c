/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_ether: the frames of link_raw.c by the driver (/dev/thole), so without CAP_NET_RAW. They come in through places
 * that the driver shares with us, so that a poll costs no system call, and are handed on from there without a copy;
 * they go out through others, a burst a call.
 *
 * Owns the binding of the endpoint's descriptor to an interface, and what it maps. The driver writes and checks all
 * heads, and keeps what is not for this endpoint out. Invariant: a place for a frame in is ours from when its stamp is
 * its number until we say that it was read, and places are taken in their order; those for frames out are ours whenever
 * no call is under way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/endian.h"
#include "base/error.h"
#include "memory/driver.h"
#include "transport/datagram/alarm.h"
#include "transport/datagram/links.h"
#include "transport/datagram/mover_driver.h"

enum { ETHER_PATH = sizeof(((struct thole_driver_frame *)NULL)->path) };

_Static_assert((int)LINK_RAW_ETHERTYPE == (int)THOLE_DRIVER_ETHERTYPE &&
		       (int)LINK_RAW_ETHERTYPE_MXOE == (int)THOLE_DRIVER_ETHERTYPE_MXOE,
	       "the driver takes the frames of raw links");

struct link_ether {
	struct link link;
	struct driver *driver;
	struct alarm alarm;
	struct thole_driver_bind bind; /* as the driver has answered it */
	uint8_t *mapped;
	struct thole_driver_ether *shared; /* that */
	uint8_t *in, *out;             /* places, in it */
	uint32_t read;                 /* frames that have come, ever */
	uint32_t overflows, lost, too_long; /* of what the driver counts, how much has been told */
	struct path narrow;            /* where a frame was to go that was too long, */
	bool shrunk;                   /* which the engine is told from receive alone */
	bool bound;
};

static struct link_ether *ether_of(struct link *link)
{
	return (struct link_ether *)link;
}

/* ---- Send ------------------------------------------------------------------------------------------ */

/* How many of some frames have places of their own, which are filled then. Those that have none are too long. */
static unsigned write_places(const struct link_ether *ether, const struct frame_out *frames, unsigned count)
{
	unsigned i;

	for (i = 0; i < count && i < ether->bind.places_out; i++) {
		struct thole_driver_frame *place = (void *)(ether->out + (size_t)i * ether->bind.place);
		uint32_t length = frames[i].head_length + frames[i].body_length;
		uint8_t *at = place->data;

		place->length = (uint16_t)length;
		memcpy(place->path, frames[i].to->bytes, ETHER_PATH);
		if (length > ether->bind.place - sizeof(*place)) {
			place->length = UINT16_MAX; /* the driver counts it */
			continue;
		}
		memcpy(at, frames[i].head, frames[i].head_length);
		at += frames[i].head_length;
		for (unsigned part = 0; part < frames[i].body_count; part++) {
			memcpy(at, frames[i].body[part].iov_base, frames[i].body[part].iov_len);
			at += frames[i].body[part].iov_len;
		}
	}
	return i;
}

/* What the driver has counted since: frames that found no room here, and frames that could not be sent. */
static void link_ether_check(struct link_ether *ether)
{
	struct link *link = &ether->link;
	uint64_t least = (uint64_t)ether->bind.places_in * ether->bind.place / 4;
	uint32_t overflows = load_relaxed(&ether->shared->overflows);
	uint32_t lost = load_relaxed(&ether->shared->lost), too_long = load_relaxed(&ether->shared->too_long);

	if (overflows != ether->overflows) {
		link->counters[COUNTER_LINK_OVERFLOWS] += overflows - ether->overflows;
		link->room -= link->room > least ? link->room / 4 : 0;
	}
	link->counters[COUNTER_LINK_LOST] += (lost - ether->lost) + (too_long - ether->too_long);
	ether->overflows = overflows;
	ether->lost = lost;
	ether->too_long = too_long;
}

static uint32_t link_ether_frame_max(struct link *link, const struct path *to)
{
	uint32_t max = load_relaxed(&ether_of(link)->shared->frame_max);

	(void)to;
	return max < ENGINE_FRAME_MAX ? max : ENGINE_FRAME_MAX;
}

/* The interface takes no frames as long as one of these any more. Where they went to several peers, the last one's
 * connection is told; the others' are by their next frame that is too long. */
static void shrunk(struct link_ether *ether, const struct frame_out *frames, unsigned count)
{
	uint32_t max = link_ether_frame_max(&ether->link, NULL);

	for (unsigned i = 0; i < count; i++)
		if (frames[i].head_length + frames[i].body_length > max) {
			ether->narrow = *frames[i].to;
			ether->shrunk = true;
		}
}

static unsigned link_ether_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct link_ether *ether = ether_of(link);
	uint32_t too_long = ether->too_long;
	unsigned taken = 0;

	while (taken < count) {
		unsigned some = write_places(ether, frames + taken, count - taken);
		int sent = driver_call(ether->driver, THOLE_DRIVER_SEND, (void *)(uintptr_t)(some << 16));

		if (sent < 0) { /* the interface has gone */
			link->counters[COUNTER_LINK_LOST] += count - taken;
			return count;
		}
		taken += (unsigned)sent;
		if ((unsigned)sent < some)
			break;
	}
	if (load_relaxed(&ether->shared->lost) != ether->lost || load_relaxed(&ether->shared->too_long) != too_long) {
		link_ether_check(ether);
		if (ether->too_long != too_long)
			shrunk(ether, frames, taken);
	}
	return taken;
}

/* ---- Receive --------------------------------------------------------------------------------------- */

/* The acquire has its partner in the driver, which fills the place before it sets the stamp. */
static const struct thole_driver_frame *next_frame(const struct link_ether *ether)
{
	const struct thole_driver_frame *place =
		(void *)(ether->in + (size_t)(ether->read & (ether->bind.places_in - 1)) * ether->bind.place);

	return load_acquire(&place->stamp) == ether->read + 1 ? place : NULL;
}

static unsigned link_ether_receive(struct link *link, unsigned budget)
{
	struct link_ether *ether = ether_of(link);
	const struct thole_driver_frame *frame;
	unsigned frames;

	if (ether->alarm.set)
		alarm_clear(&ether->alarm, &ether->driver->fd, 1);
	for (frames = 0; frames < budget && (frame = next_frame(ether)); frames++) {
		struct path from = {{0}};

		memcpy(from.bytes, frame->path, ETHER_PATH);
		engine_frame(link->engine, link, &from, frame->data, frame->length);
		/* the driver reads it before it fills the place again */
		store_release(&ether->shared->read, ++ether->read);
	}
	if (frames == 0 && load_relaxed(&ether->shared->overflows) != ether->overflows)
		link_ether_check(ether);
	if (ether->shrunk) {
		ether->shrunk = false;
		engine_shrink(link->engine, link, &ether->narrow, link_ether_frame_max(link, NULL));
	}
	return frames;
}

static bool link_ether_ready(struct link *link)
{
	struct link_ether *ether = ether_of(link);

	link_ether_check(ether);
	return ether->shrunk || alarm_set(&ether->alarm, &ether->driver->fd, 1) != ALARM_SET;
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static void link_ether_close(struct link *link)
{
	struct link_ether *ether = ether_of(link);

	mover_driver_close(link);
	if (ether->bound)
		driver_call(ether->driver, THOLE_DRIVER_UNBIND, NULL);
	if (ether->mapped)
		munmap(ether->mapped, ether->bind.bytes);
	alarm_close(&ether->alarm);
	free(ether);
}

static const struct link_calls link_ether_calls = {
	.name = "driver",
	.kind = &kind_ethernet,
	.rank = {[LINK_RECORDS] = 15, [LINK_BULK] = 25, [LINK_CONNECT] = 25},
	.counter = COUNTER_FRAMES_DRIVER,
	.send = link_ether_send,
	.receive = link_ether_receive,
	.cheap = true,
	.ready = link_ether_ready,
	.frame_max = link_ether_frame_max,
	.close = link_ether_close,
};

static int bind_to(struct link_ether *ether)
{
	void *mapped;
	int status = driver_call(ether->driver, THOLE_DRIVER_BIND, &ether->bind);

	if (status == -EPROTONOSUPPORT)
		return error_set(THOLE_ERR_ADDRESS,
				 "the driver carries native frames of the EtherType %u alone: set the option "
				 "ethertype to that, or link to raw or udp",
				 LINK_RAW_ETHERTYPE);
	if (status < 0)
		return driver_error(status, "cannot bind to it by the driver");
	ether->bound = true;
	mapped = mmap(NULL, ether->bind.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ether->driver->fd,
		      THOLE_DRIVER_AT_ETHER);
	if (mapped == MAP_FAILED)
		return error_set(THOLE_ERR_SYSTEM, "cannot map the driver's %llu bytes for frames: %m",
				 (unsigned long long)ether->bind.bytes);
	ether->mapped = mapped;
	ether->shared = mapped;
	ether->in = ether->mapped + THOLE_DRIVER_FRAMES_AT;
	ether->out = ether->in + (size_t)ether->bind.places_in * ether->bind.place;
	ether->link.room = (uint64_t)ether->bind.places_in * ether->bind.place;
	return 0;
}

int link_ether_open(struct engine *engine, struct driver *driver, const struct interface *interface, uint16_t ethertype,
		    uint32_t endpoint, uint64_t *counters, struct link **link_p)
{
	struct link_ether *ether;
	int error;

	*link_p = NULL;
	if (!interface->ethernet || interface->loopback)
		return error_set(THOLE_ERR_ADDRESS,
				 "the interface %s carries no Ethernet frames, which the link driver needs: choose "
				 "another%s",
				 interface->name, ethertype == LINK_RAW_ETHERTYPE_MXOE ? "" : ", or link=udp");
	ether = calloc(1, sizeof(*ether));
	if (!ether)
		return error_set(THOLE_ERR_MEMORY, "no memory for a link by the driver");
	ether->link = (struct link){.calls = &link_ether_calls, .engine = engine, .interface = interface->index,
				    .fd = {-1, -1}, .counters = counters, .ethertype = ethertype};
	ether->driver = driver;
	ether->alarm.fd = -1;
	ether->bind = (struct thole_driver_bind){
		.interface = interface->index, .ethertype = ethertype, .endpoint = endpoint};
	memcpy(ether->link.own.bytes, interface->mac, INTERFACE_MAC);
	if (ethertype != LINK_RAW_ETHERTYPE_MXOE)
		store_be32(ether->link.own.bytes + INTERFACE_MAC, endpoint);
	error = bind_to(ether);
	if (!error)
		error = alarm_open(&ether->alarm);
	ether->link.fd[0] = ether->alarm.fd;
	if (error) {
		error_prefix(error, "interface %s: ", interface->name);
		link_ether_close(&ether->link);
		return error;
	}
	*link_p = &ether->link;
	return 0;
}

static void ether_name_peer(const struct link *link, const struct mover_peer *peer,
			    struct thole_driver_connection *wanted)
{
	bool jumbo = link->engine->codec == &codec_mxoe_jumbo;

	memcpy(wanted->address, peer->records->bytes, INTERFACE_MAC);
	wanted->index = peer->number;
	wanted->codec = jumbo ? THOLE_DRIVER_CODEC_MXOE_JUMBO : THOLE_DRIVER_CODEC_MXOE;
}

void link_ether_move(struct link *link, struct transport_owner *owner)
{
	mover_driver_open(link, owner, ether_name_peer);
}
