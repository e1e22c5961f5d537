/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_driver: the driver in the kernel has the UDP link's sockets, so that it moves bulk (mover_driver.c).
 *
 * Owns which sockets it has. Invariant: while the link has a mover, they are all the driver's.
 */
#include "base/endian.h"
#include "transport/datagram/mover_driver.h"
#include "transport/datagram/udp.h"

static int take_socket(const struct link_udp *udp, unsigned index)
{
	struct thole_driver_socket wanted = {.fd = udp->fd[index], .channel = udp->sockets[index].channel};

	return driver_call(udp->driver, THOLE_DRIVER_SOCKET, &wanted);
}

int udp_driver_socket(const struct link_udp *udp, unsigned index)
{
	return udp->driver && take_socket(udp, index) < 0 ? THOLE_ERR_SYSTEM : 0;
}

static void udp_name_peer(const struct link *link, const struct mover_peer *peer,
			  struct thole_driver_connection *wanted)
{
	(void)link;
	memcpy(wanted->address, peer->records->bytes, sizeof(wanted->address));
	wanted->records_port = load_be16(peer->records->bytes + INTERFACE_ADDRESS);
	wanted->bulk_port = load_be16(peer->bulk->bytes + INTERFACE_ADDRESS);
}

void udp_driver_open(struct link_udp *udp, struct transport_owner *owner)
{
	bool taken = true;

	udp->driver = owner->driver;
	for (unsigned i = 0; i < UDP_SOCKETS && taken; i++)
		taken = udp->fd[i] < 0 || take_socket(udp, i) >= 0;
	if (taken && mover_driver_open(&udp->link, owner, udp_name_peer) == 0)
		udp->fd[UDP_SOCKETS] = udp->driver->fd;
	else
		udp_driver_close(udp);
}

void udp_driver_close(struct link_udp *udp)
{
	if (!udp->driver)
		return;
	udp->fd[UDP_SOCKETS] = -1;
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		if (udp->fd[i] >= 0)
			driver_call(udp->driver, THOLE_DRIVER_SOCKET_BACK, (void *)(intptr_t)udp->fd[i]);
	udp->driver = NULL;
	mover_driver_close(&udp->link);
}
