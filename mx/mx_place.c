/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_place.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void mxi_place_local(struct mxi_place *place, const char *format, ...)
{
	size_t room = sizeof(place->local.sun_path) - 1;
	va_list arguments;
	int length;

	memset(place, 0, sizeof(*place));
	place->local.sun_family = AF_UNIX;
	va_start(arguments, format);
	length = vsnprintf(place->local.sun_path + 1, room, format, arguments); /* behind a NUL: no file */
	va_end(arguments);
	place->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

void mxi_place_endpoint(struct mxi_place *place, uint64_t nic_id, uint32_t endpoint_id)
{
	mxi_place_local(place, "thole/mx/%012llx/%u", (unsigned long long)nic_id, endpoint_id);
}

void mxi_place_raw(struct mxi_place *place, uint64_t nic_id)
{
	mxi_place_local(place, "thole/mx/%012llx/raw", (unsigned long long)nic_id);
}

void mxi_place_speaker(struct mxi_place *place)
{
	mxi_place_local(place, "thole/mx/speaker");
}

bool mxi_place_ip(struct mxi_place *place, const char *address, uint16_t port, const struct mxi_board *board)
{
	memset(place, 0, sizeof(*place));
	if (inet_pton(AF_INET, address, &place->ipv4.sin_addr) == 1) {
		place->ipv4.sin_family = AF_INET;
		place->ipv4.sin_port = htons(port);
		place->size = sizeof(place->ipv4);
		return true;
	}
	if (inet_pton(AF_INET6, address, &place->ipv6.sin6_addr) != 1)
		return false;
	place->ipv6.sin6_family = AF_INET6;
	place->ipv6.sin6_port = htons(port);
	if (IN6_IS_ADDR_LINKLOCAL(&place->ipv6.sin6_addr))
		place->ipv6.sin6_scope_id = if_nametoindex(board->interface);
	place->size = sizeof(place->ipv6);
	return true;
}

void mxi_place_group(struct mxi_place *place, const struct mxi_settings *settings)
{
	memset(place, 0, sizeof(*place));
	place->ipv4.sin_family = AF_INET;
	place->ipv4.sin_port = htons(settings->port);
	place->ipv4.sin_addr = settings->group;
	place->size = sizeof(place->ipv4);
}

void mxi_place_text(const struct mxi_place *place, char address[MXI_ADDRESS_MAX])
{
	address[0] = '\0';
	if (place->any.sa_family == AF_INET)
		inet_ntop(AF_INET, &place->ipv4.sin_addr, address, MXI_ADDRESS_MAX);
	else if (place->any.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &place->ipv6.sin6_addr, address, MXI_ADDRESS_MAX);
}
