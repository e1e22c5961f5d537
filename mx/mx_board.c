/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_board.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "mx_nic.h"
#include "thole.h"

enum {
	LOOPBACK_MTU = 65536, /* where the loopback is switched off and does not tell */
	SPEED_10G = 10000,    /* Mb/s, as the kernel says it */
	ATTRIBUTE_MAX = 32,   /* bytes of a number in sysfs as text */
	LOCAL_ID_BYTE = 0x02, /* of a made id, the first: a MAC's "locally administered" */
	LOCAL_ID_BITS = 40,   /* below it, which say which host */
};

/* ---- Without any interface ------------------------------------------------------------------- */

/* The same for all processes of this boot and network namespace, and most likely no other
 * host's. */
static uint64_t mxi_board_local_id(void)
{
	uint64_t host = thole_host_id();

	host ^= host >> LOCAL_ID_BITS;
	return (uint64_t)LOCAL_ID_BYTE << LOCAL_ID_BITS | (host & ((UINT64_C(1) << LOCAL_ID_BITS) - 1));
}

static bool mxi_board_is_loopback(const struct thole_interface_info *info)
{
	return strncmp(info->address, "127.", 4) == 0 || strcmp(info->address, "::1") == 0;
}

/* info: the loopback; NULL: there is none, or it is switched off. */
static struct mxi_board mxi_board_loopback(const struct thole_interface_info *info)
{
	struct mxi_board board = {.nic_id = mxi_board_local_id(), .loopback = true};

	board.mtu = info ? info->mtu : LOOPBACK_MTU;
	snprintf(board.interface, sizeof(board.interface), "%s", info ? info->name : "lo");
	return board;
}

/* ---- Interfaces ------------------------------------------------------------------------------ */

struct collection {
	/* in the order of their numbers, once mxi_board_chosen_first has run */
	struct mxi_board boards[MXI_BOARDS_MAX];
	unsigned count;
	unsigned chosen;           /* which of them is to be number 0 */
	struct mxi_board loopback; /* in their place, where there are none; NIC id 0: not seen yet */
};

static struct mxi_board *mxi_board_collection_find(struct collection *collection, uint64_t nic_id)
{
	for (unsigned i = 0; i < collection->count; i++)
		if (collection->boards[i].nic_id == nic_id)
			return &collection->boards[i];
	return NULL;
}

static void mxi_board_collect(struct collection *collection, const struct thole_interface_info *info)
{
	struct mxi_board *board;
	uint64_t nic_id;

	if (collection->loopback.nic_id == 0 && mxi_board_is_loopback(info))
		collection->loopback = mxi_board_loopback(info);
	if (!info->up || !mxi_nic_parse(info->mac, &nic_id) || nic_id == 0)
		return;
	board = mxi_board_collection_find(collection, nic_id);
	if (board && !info->chosen && (board->address[0] != '\0' || info->address[0] == '\0'))
		return; /* the former is as good a way to this MAC */
	if (!board && collection->count == MXI_BOARDS_MAX)
		return;
	if (!board)
		board = &collection->boards[collection->count++];
	if (info->chosen)
		collection->chosen = (unsigned)(board - collection->boards);
	*board = (struct mxi_board){.nic_id = nic_id, .mtu = info->mtu};
	snprintf(board->interface, sizeof(board->interface), "%s", info->name);
	snprintf(board->address, sizeof(board->address), "%s", info->address);
}

static void mxi_board_chosen_first(struct collection *collection)
{
	struct mxi_board chosen = collection->boards[collection->chosen];

	memmove(&collection->boards[1], &collection->boards[0], collection->chosen * sizeof(chosen));
	collection->boards[0] = chosen;
}

static void mxi_board_number_boards(struct collection *collection)
{
	char host[65] = ""; /* HOST_NAME_MAX of Linux, and a NUL */
	char wanted[256];

	if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
		strcpy(host, "localhost");
	for (unsigned i = 0; i < collection->count; i++) {
		collection->boards[i].number = i;
		snprintf(collection->boards[i].name, MX_MAX_HOSTNAME_LEN, "%s:%u", host, i);
	}
	if (thole_option_get(NULL, "board_name", wanted, sizeof(wanted)) == 0 && *wanted)
		snprintf(collection->boards[0].name, MX_MAX_HOSTNAME_LEN, "%.*s%s", MX_MAX_HOSTNAME_LEN - 3, wanted,
			 strchr(wanted, ':') ? "" : ":0");
}

/* A list that ends early is none: an endpoint would be opened on a board that it is not meant for. */
static mx_return_t mxi_board_collect_all(struct collection *collection)
{
	struct thole_interface_info info;
	unsigned seen = 0;
	int error;

	collection->count = collection->chosen = 0;
	collection->loopback.nic_id = 0;
	while ((error = thole_interface_info(seen, &info)) == 0) {
		mxi_board_collect(collection, &info);
		seen++;
	}
	if (error != THOLE_ERR_NOT_FOUND)
		return MX_NO_RESOURCES;
	if (collection->count == 0)
		collection->boards[collection->count++] =
			collection->loopback.nic_id ? collection->loopback : mxi_board_loopback(NULL);
	mxi_board_chosen_first(collection);
	mxi_board_number_boards(collection);
	return MX_SUCCESS;
}

mx_return_t mxi_board_list(struct mxi_board *boards, unsigned room, unsigned *count_p)
{
	struct collection collection;
	mx_return_t code = mxi_board_collect_all(&collection);

	if (code)
		return code;
	for (unsigned i = 0; i < collection.count && i < room; i++)
		boards[i] = collection.boards[i];
	*count_p = collection.count;
	return MX_SUCCESS;
}

mx_return_t mxi_board_get(uint32_t number, struct mxi_board *board_p)
{
	struct collection collection;
	mx_return_t code = mxi_board_collect_all(&collection);

	if (code)
		return code;
	if (number >= collection.count)
		return (mx_return_t)error_set(MX_BOARD_UNKNOWN, "there is no board %" PRIu32 ": this host has %u",
					      number, collection.count);
	*board_p = collection.boards[number];
	return MX_SUCCESS;
}

mx_return_t mxi_board_find(uint64_t nic_id, struct mxi_board *board_p)
{
	struct collection collection;
	const struct mxi_board *board;
	mx_return_t code = mxi_board_collect_all(&collection);

	if (code)
		return code;
	board = mxi_board_collection_find(&collection, nic_id);
	if (!board)
		return (mx_return_t)error_set(MX_BOARD_UNKNOWN, "no board of this host has the NIC id %012" PRIx64,
					      nic_id);
	*board_p = *board;
	return MX_SUCCESS;
}

/* ---- What the kernel knows of them ----------------------------------------------------------- */

long mxi_board_attribute(const struct mxi_board *board, const char *name, long unknown)
{
	char path[64 + MXI_INTERFACE_MAX], text[ATTRIBUTE_MAX], *end;
	ssize_t length;
	long value;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", board->interface, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return unknown;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return unknown;
	text[length] = '\0';
	value = strtol(text, &end, 10);
	return end == text ? unknown : value;
}

mx_line_speed_t mxi_board_speed(const struct mxi_board *board)
{
	return mxi_board_attribute(board, "speed", 0) >= SPEED_10G ? MX_SPEED_10G : MX_SPEED_OPEN_MX;
}
