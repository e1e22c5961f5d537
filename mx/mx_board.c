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

static void mxi_board_loopback_board(struct mxi_board *board)
{
	struct thole_interface_info info;

	*board = (struct mxi_board){
		.nic_id = mxi_board_local_id(), .mtu = LOOPBACK_MTU, .interface = "lo", .loopback = true};
	for (unsigned i = 0; thole_interface_info(i, &info) == 0; i++) {
		if (!mxi_board_is_loopback(&info))
			continue;
		board->mtu = info.mtu;
		snprintf(board->interface, sizeof(board->interface), "%s", info.name);
		return;
	}
}

/* ---- Interfaces ------------------------------------------------------------------------------ */

struct collection {
	/* in the order of their numbers, once mxi_board_chosen_first has run */
	struct mxi_board boards[MXI_BOARDS_MAX];
	unsigned count;
	unsigned chosen; /* which of them is to be number 0 */
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

static void mxi_board_collect_all(struct collection *collection)
{
	struct thole_interface_info info;

	collection->count = collection->chosen = 0;
	for (unsigned i = 0; thole_interface_info(i, &info) == 0; i++)
		mxi_board_collect(collection, &info);
	if (collection->count == 0)
		mxi_board_loopback_board(&collection->boards[collection->count++]);
	mxi_board_chosen_first(collection);
	mxi_board_number_boards(collection);
}

unsigned mxi_board_list(struct mxi_board *boards, unsigned room)
{
	struct collection collection;

	mxi_board_collect_all(&collection);
	for (unsigned i = 0; i < collection.count && i < room; i++)
		boards[i] = collection.boards[i];
	return collection.count;
}

bool mxi_board_get(uint32_t number, struct mxi_board *board_p)
{
	struct collection collection;

	mxi_board_collect_all(&collection);
	if (number >= collection.count)
		return false;
	*board_p = collection.boards[number];
	return true;
}

mx_return_t mxi_board_unknown(uint32_t number)
{
	return (mx_return_t)error_set(MX_BOARD_UNKNOWN, "there is no board %" PRIu32 ": this host has %u", number,
				      mxi_board_list(NULL, 0));
}

bool mxi_board_find(uint64_t nic_id, struct mxi_board *board_p)
{
	struct collection collection;
	const struct mxi_board *board;

	mxi_board_collect_all(&collection);
	board = mxi_board_collection_find(&collection, nic_id);
	if (board)
		*board_p = *board;
	return board != NULL;
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
