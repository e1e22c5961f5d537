/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_udp: frames as UDP datagrams, one a frame. The kernel carries up to 64 KiB of them at a time where it can:
 * frames of a burst that follow each other to the same place are one packet until they leave (UDP_SEGMENT), and what
 * belongs together comes in as one again (UDP_GRO). Bulk data lands where the engine foresees it, in one copy.
 *
 * Owns a socket for records and one for bulk, lanes beside them (udp_lane.c), the buffers for records, and the
 * questions after silent peers (liveness.h) and after us (responder.h). Invariants: frames are sent in their order
 * within a channel, as long as a lane neither comes nor goes. The engine is called from receive alone: what a send
 * learns of errors waits until then.
 */
#include <poll.h>
#include <stdlib.h>

#include "base/endian.h"
#include "base/limits.h"
#include "transport/datagram/udp.h"

enum { IPV4_HEADERS = 20 + 8, IPV6_HEADERS = 40 + 8 };

/* ---- Waiting ---------------------------------------------------------------------------------------- */

static bool udp_ready(struct link *link)
{
	struct link_udp *udp = udp_of(link);
	struct pollfd polls[UDP_SOCKETS];
	enum alarm_state state;
	bool ready = false;

	for (unsigned i = UDP_LANES; i < UDP_SOCKETS; i++)
		udp_hold_end(udp, i);
	state = alarm_set(&udp->alarm, udp->fd, UDP_SOCKETS + 1);
	if (state != ALARM_RINGS)
		return state == ALARM_REFUSED;
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		polls[i] = (struct pollfd){.fd = udp->fd[i], .events = POLLIN};
	poll(polls, UDP_SOCKETS, 0);
	for (unsigned i = 0; i < UDP_SOCKETS; i++) {
		udp->sockets[i].errors |= (polls[i].revents & POLLERR) != 0;
		udp->bulk_waits |= polls[i].revents != 0 && udp->sockets[i].channel == CHANNEL_BULK;
		ready |= polls[i].revents != 0;
	}
	return ready;
}

/* ---- Paths ----------------------------------------------------------------------------------------- */

static uint32_t udp_frame_max(struct link *link, const struct path *to)
{
	struct link_udp *udp = udp_of(link);
	uint32_t mtu = udp->mtu; /* unless there is a descriptor to ask with: what arrives of it is seen */
	int error;

	if (interface_is_ipv4(to->bytes) != (udp->family == AF_INET))
		return 0;
	error = interface_route(to->bytes, link->own.bytes, link->interface, NULL, &mtu);
	if ((error && error != THOLE_ERR_SYSTEM) || mtu <= udp->headers)
		return 0;
	mtu -= udp->headers;
	return mtu < ENGINE_FRAME_MAX ? mtu : ENGINE_FRAME_MAX;
}

static enum link_liveness udp_liveness(struct link *link, const struct path *to, uint64_t endpoint)
{
	return liveness_ask(&udp_of(link)->liveness, to, link->engine->key, endpoint, link->engine->now_ns);
}

static void udp_liveness_end(struct link *link, const struct path *to)
{
	liveness_forget(&udp_of(link)->liveness, to);
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static void udp_close(struct link *link)
{
	struct link_udp *udp = udp_of(link);

	udp_driver_close(udp);
	forked_remove(&udp->forked);
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		udp_socket_close(udp, i);
	responder_close(&udp->responder);
	alarm_close(&udp->alarm);
	liveness_close(&udp->liveness);
	free(udp);
}

static const struct link_calls udp_calls = {
	.name = "udp",
	.kind = &kind_ip,
	.rank = {[LINK_RECORDS] = 20, [LINK_BULK] = 10, [LINK_CONNECT] = 10},
	.send = udp_send,
	.receive = udp_receive,
	.ready = udp_ready,
	.frame_max = udp_frame_max,
	.liveness = udp_liveness,
	.liveness_end = udp_liveness_end,
	.close = udp_close,
};

/* As much as we ask for if we may exceed the system's bound, else as much as that. */
static void buffer_size(int fd, int force, int usual)
{
	int bytes = UDP_SOCKET_BYTES;

	if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, usual, &bytes, sizeof(bytes));
}

/* No fragments: the path has to carry frames as they are, or to tell how long they may be. */
static void set_options(struct link_udp *udp, int fd)
{
	int on = 1, level = udp->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	int strict = udp->family == AF_INET ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;

	setsockopt(fd, level, udp->family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &on, sizeof(on));
	setsockopt(fd, level, udp->family == AF_INET ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &strict, sizeof(strict));
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
}

void udp_share(struct link_udp *udp, unsigned index, bool shared)
{
	int on = shared;

	setsockopt(udp->fd[index], SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
}

void udp_socket_close(struct link_udp *udp, unsigned index)
{
	forked_close(&udp->fd[index]);
}

int udp_socket_open(struct link_udp *udp, unsigned index, struct path *own, bool shared)
{
	union socket_address name;
	socklen_t size = interface_sockaddr(own, udp->link.interface, &name);
	int fd = limits_own(socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	struct udp_socket *socket = &udp->sockets[index];
	char remedy[LIMITS_REMEDY_MAX];

	udp->fd[index] = fd;
	socket->channel = (uint8_t)(index % CHANNELS);
	socket->connected = socket->errors = socket->broken = socket->fresh = socket->holds = false;
	socket->forgets = false;
	socket->segment = 0;
	socket->overflows = 0;
	socket->packets = 0;
	if (fd < 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot make a UDP socket: %m%s", limits_remedy(errno, remedy));
	set_options(udp, fd);
	if (shared)
		udp_share(udp, index, true);
	buffer_size(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	buffer_size(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	if (bind(fd, &name.any, size) != 0 || getsockname(fd, &name.any, &size) != 0)
		return error_set(THOLE_ERR_SYSTEM, "cannot bind a UDP socket to the interface's address: %m");
	interface_path(&name, own);
	return 0;
}

/* The records' socket, on a port where peers can ask after us. */
static int open_records(struct link_udp *udp, uint64_t endpoint)
{
	struct link *link = &udp->link;

	for (unsigned i = 0; i < UDP_PORT_TRIES; i++) {
		int error = udp_socket_open(udp, CHANNEL_RECORDS, &link->own, false);

		if (!error)
			error = responder_open(&udp->responder, link->interface, &link->own, link->engine->key,
					       endpoint);
		if (error != THOLE_ERR_BUSY)
			return error;
		udp_socket_close(udp, CHANNEL_RECORDS);
		memset(link->own.bytes + INTERFACE_ADDRESS, 0, 2);
	}
	return error_set(
		THOLE_ERR_SYSTEM,
		"found no port that is free for UDP and TCP, with the next one, in %u tries: too many are in use "
		"(sysctl net.ipv4.ip_local_port_range)",
		(unsigned)UDP_PORT_TRIES);
}

static int open_sockets(struct link_udp *udp, uint64_t endpoint)
{
	struct link *link = &udp->link;
	int value = 0, error = open_records(udp, endpoint);
	struct path bulk = link->own;
	socklen_t size = sizeof(value);
	long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);

	memset(bulk.bytes + INTERFACE_ADDRESS, 0, 2);
	if (!error)
		error = udp_socket_open(udp, CHANNEL_BULK, &bulk, false);
	if (!error)
		error = alarm_open(&udp->alarm);
	if (error)
		return error;
	link->fd[0] = udp->alarm.fd;
	link->bulk_port = load_be16(bulk.bytes + INTERFACE_ADDRESS);
	udp->segmenting = getsockopt(udp->fd[CHANNEL_RECORDS], IPPROTO_UDP, UDP_SEGMENT, &value, &size) == 0;
	/* The kernel counts its overhead too: half is safe for what arrives in large packets or in full buffers of an
	 * interface, an eighth for anything. */
	getsockopt(udp->fd[CHANNEL_BULK], SOL_SOCKET, SO_RCVBUF, &value, &size);
	link->room = (uint64_t)value / 2;
	udp->room_min = (uint64_t)value / 8;
	if (udp->hold > (uint64_t)value / 4)
		udp->hold = 0; /* what is on its way needs the buffer */
	if (cache > 0)
		udp->cached = (uint64_t)cache / 2;
	return 0;
}

static void prepare(struct link_udp *udp)
{
	for (unsigned i = 0; i < UDP_BATCH_MAX; i++) {
		udp->in.parts[i] = (struct iovec){udp->in.buffers[i], UDP_BUFFER};
		udp->in.messages[i].msg_hdr = (struct msghdr){.msg_iov = &udp->in.parts[i], .msg_iovlen = 1,
							      .msg_control = udp->in.control[i]};
	}
	udp->batch = 1;
}

int link_udp_open(struct engine *engine, const struct interface *interface, uint64_t endpoint, uint64_t *counters,
		  struct link **link_p)
{
	struct link_udp *udp;
	int error;

	*link_p = NULL;
	if (!interface->has_ipv4 && !interface->has_ipv6)
		return error_set(THOLE_ERR_ADDRESS, "the interface %s has no IP address, which UDP needs: give it one "
				 "(ip address add ... dev %s), or choose another", interface->name, interface->name);
	udp = calloc(1, sizeof(*udp));
	if (!udp)
		return error_set(THOLE_ERR_MEMORY, "no memory for a UDP link");
	udp->link = (struct link){.calls = &udp_calls, .engine = engine, .interface = interface->index,
				  .fd = {-1, -1}, .counters = counters};
	udp->liveness.interface = interface->index;
	udp->liveness.own = udp->link.own.bytes;
	udp->alarm.fd = -1;
	for (unsigned i = 0; i <= UDP_SOCKETS; i++)
		udp->fd[i] = -1;
	forked_add(&udp->forked, udp->fd, UDP_SOCKETS);
	udp->family = interface->has_ipv4 ? AF_INET : AF_INET6;
	udp->headers = udp->family == AF_INET ? IPV4_HEADERS : IPV6_HEADERS;
	udp->mtu = interface->mtu;
	memcpy(udp->link.own.bytes, interface->has_ipv4 ? interface->ipv4 : interface->ipv6, INTERFACE_ADDRESS);
	if (interface->inside) /* an adapter's packets are made of its own memory */
		udp->hold = engine->owner->options.net_hold;
	prepare(udp);
	error = open_sockets(udp, endpoint);
	if (error) {
		error_prefix(error, "interface %s: ", interface->name);
		udp_close(&udp->link);
		return error;
	}
	*link_p = &udp->link;
	return 0;
}

void link_udp_move(struct link *link, struct transport_owner *owner)
{
	udp_driver_open(udp_of(link), owner);
}
