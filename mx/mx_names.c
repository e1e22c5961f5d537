/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_names.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "mx_board.h"
#include "mx_known.h"
#include "mx_nic.h"
#include "mx_notice.h"
#include "mx_place.h"
#include "mx_post.h"
#include "mx_setting.h"
#include "thole.h"

/* Longer than a host takes to answer, short enough for a typing error. */
static const uint64_t search_ns = 300000000;
/* Until it is asked again; doubled each time. */
static const uint64_t search_first_ns = 20000000;
/* Longer than a host with MXoE is silent. */
static const uint64_t hello_ns = 1300000000;

enum {
	LATE_MAX = 64, /* datagrams that are taken of a socket when the time is over; a question has few answers */
};

/* What is looked for: an id, or a name where that is 0. What was found has both. */
struct wanted {
	uint64_t nic_id;
	char name[MX_MAX_HOSTNAME_LEN];
};

/* "host" means board 0. */
static bool mxi_names_wanted_name(struct wanted *wanted, const char *name)
{
	const char *number = strrchr(name, ':') ? "" : ":0";

	wanted->nic_id = 0;
	return *name && snprintf(wanted->name, sizeof(wanted->name), "%s%s", name, number) < (int)sizeof(wanted->name);
}

static bool mxi_names_wanted_is(const struct wanted *wanted, uint64_t nic_id, const char *name)
{
	return wanted->nic_id ? wanted->nic_id == nic_id : strcasecmp(wanted->name, name) == 0;
}

static void mxi_names_wanted_found(struct wanted *wanted, uint64_t nic_id, const char *name)
{
	wanted->nic_id = nic_id;
	snprintf(wanted->name, sizeof(wanted->name), "%s", name);
}

/* ---- Here and in the tables ------------------------------------------------------------------ */

static bool mxi_names_among_boards(struct wanted *wanted, const struct mxi_board *boards, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (mxi_names_wanted_is(wanted, boards[i].nic_id, boards[i].name)) {
			mxi_names_wanted_found(wanted, boards[i].nic_id, boards[i].name);
			return true;
		}
	return false;
}

static mx_return_t mxi_names_among_known(struct wanted *wanted)
{
	unsigned room = mxi_known_list(NULL, 0), count = 0;
	struct mxi_known *list = room ? calloc(room, sizeof(*list)) : NULL;
	bool found = false;

	if (room && !list)
		return (mx_return_t)error_set(MX_NO_RESOURCES, "no memory for a list of the boards that are known");
	if (list)
		count = mxi_known_list(list, room);
	for (unsigned i = 0; i < count && i < room && !found; i++) {
		found = mxi_names_wanted_is(wanted, list[i].nic_id, list[i].name);
		if (found)
			mxi_names_wanted_found(wanted, list[i].nic_id, list[i].name);
	}
	free(list);
	return found ? MX_SUCCESS : MX_NIC_NOT_FOUND;
}

/* ---- On the network -------------------------------------------------------------------------- */

struct search {
	struct mxi_place group;                /* where the question goes */
	struct mxi_notice question;            /* a FIND */
	struct pollfd sockets[MXI_BOARDS_MAX]; /* one for each board that has a network */
	unsigned count;                        /* of sockets */
};

/* MX_NO_RESOURCES, with a sentence: a board's network cannot be asked just now; those of others can. */
static mx_return_t mxi_names_search_open(struct search *search, const struct wanted *wanted,
					 const struct mxi_settings *settings, const struct mxi_board *boards,
					 unsigned count)
{
	mx_return_t code = MX_SUCCESS;

	search->count = 0;
	search->question = (struct mxi_notice){.type = MXI_NOTICE_FIND, .nic_id = wanted->nic_id};
	if (!wanted->nic_id)
		strcpy(search->question.name, wanted->name);
	mxi_place_group(&search->group, settings);
	for (unsigned i = 0; i < count; i++) {
		int fd = boards[i].loopback ? -1 : mxi_post_udp(&boards[i], 0);

		if (fd >= 0)
			search->sockets[search->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
		else if (!boards[i].loopback && limits_caused(errno))
			code = (mx_return_t)error_set(MX_NO_RESOURCES, "cannot ask the network of %s: %m",
						      boards[i].interface);
	}
	return code;
}

static void mxi_names_search_ask(struct search *search)
{
	for (unsigned i = 0; i < search->count; i++)
		mxi_post_send(search->sockets[i].fd, &search->group, &search->question);
	search->question.attempt++;
}

/* One datagram, or one error that some datagram has met. */
static bool mxi_names_search_receive(int fd, struct wanted *wanted)
{
	struct mxi_notice notice;
	struct mxi_place from;
	char address[MXI_ADDRESS_MAX];

	if (mxi_post_receive(fd, &notice, &from) != MXI_POST_NOTICE) {
		mxi_post_refused(fd, &notice);
		return false;
	}
	if (notice.type != MXI_NOTICE_HERE || !mxi_names_wanted_is(wanted, notice.from.nic_id, notice.from_name))
		return false;
	mxi_place_text(&from, address);
	mxi_known_heard(notice.from.nic_id, notice.from_name, address);
	mxi_names_wanted_found(wanted, notice.from.nic_id, notice.from_name);
	return true;
}

/* Take what comes until the time, and what is here then: who had no core meanwhile may have his answer. */
static bool mxi_names_search_listen(struct search *search, struct wanted *wanted, uint64_t until_ns)
{
	unsigned late = 0;
	bool some = true;

	while ((some || late == 0) && late < LATE_MAX) {
		uint64_t now = clock_now_ns();
		struct timespec left = {.tv_nsec = now < until_ns ? (long)(until_ns - now) : 0};

		late += left.tv_nsec == 0;
		some = ppoll(search->sockets, search->count, &left, NULL) > 0;
		for (unsigned i = 0; i < search->count && some; i++)
			if (search->sockets[i].revents && mxi_names_search_receive(search->sockets[i].fd, wanted))
				return true;
	}
	return false;
}

static mx_return_t mxi_names_search_run(struct wanted *wanted, const struct mxi_settings *settings,
					const struct mxi_board *boards, unsigned count)
{
	struct search search;
	uint64_t now = clock_now_ns(), end = now + search_ns, pause = search_first_ns;
	bool found = false;
	mx_return_t code = mxi_names_search_open(&search, wanted, settings, boards, count);

	for (; search.count > 0 && now < end && !found; now += pause, pause *= 2) {
		mxi_names_search_ask(&search);
		found = mxi_names_search_listen(&search, wanted, now + pause < end ? now + pause : end);
	}
	for (unsigned i = 0; i < search.count; i++)
		close(search.sockets[i].fd);
	return found ? MX_SUCCESS : code ? code : MX_NIC_NOT_FOUND;
}

/* ---- By frames of MXoE ----------------------------------------------------------------------- */

/* Hosts with Open-MX answer those alone. Who is named by a MAC is asked at once; the others say
 * once a second that they are there. */
static mx_return_t mxi_names_search_frames(struct wanted *wanted, const struct mxi_board *board)
{
	struct thole_mxoe_host host;
	char mac[MXI_NIC_TEXT_MAX];
	uint64_t id = wanted->nic_id;
	int found;

	mxi_nic_text(id, mac);
	found = thole_mxoe_hosts(board->interface, id ? mac : wanted->name, id ? search_ns : hello_ns, &host, 1);
	if (found == THOLE_ERR_MEMORY || found == THOLE_ERR_SYSTEM)
		return MX_NO_RESOURCES;
	if (found < 1 || !mxi_nic_parse(host.mac, &id))
		return MX_NIC_NOT_FOUND;
	mxi_known_heard(id, host.name, "");
	mxi_names_wanted_found(wanted, id, host.name);
	return MX_SUCCESS;
}

static mx_return_t mxi_names_search_boards(struct wanted *wanted, const struct mxi_board *boards, unsigned count)
{
	mx_return_t code = MX_NIC_NOT_FOUND, one;

	for (unsigned i = 0; i < count && code != MX_SUCCESS; i++) {
		one = boards[i].loopback ? MX_NIC_NOT_FOUND : mxi_names_search_frames(wanted, &boards[i]);
		if (one != MX_NIC_NOT_FOUND)
			code = one;
	}
	return code;
}

/* Wherever it may be known, the nearest first. MX_NO_RESOURCES, with a sentence: not everybody could be asked. */
static mx_return_t mxi_names_look_up(struct wanted *wanted)
{
	struct mxi_board boards[MXI_BOARDS_MAX];
	struct mxi_settings settings;
	unsigned count;
	mx_return_t code = mxi_board_list(boards, MXI_BOARDS_MAX, &count);

	if (code)
		return code;
	if (mxi_names_among_boards(wanted, boards, count))
		return MX_SUCCESS;
	code = mxi_names_among_known(wanted);
	if (code != MX_NIC_NOT_FOUND)
		return code;
	(void)mxi_setting_load(&settings);
	if (settings.mxoe)
		return mxi_names_search_boards(wanted, boards, count);
	return settings.group.s_addr != 0 ? mxi_names_search_run(wanted, &settings, boards, count) : code;
}

mx_return_t mxi_names_to_nic(const char *name, uint64_t *nic_id_p)
{
	struct wanted wanted;
	mx_return_t code = mxi_names_wanted_name(&wanted, name) ? mxi_names_look_up(&wanted) : MX_NIC_NOT_FOUND;

	if (code == MX_NIC_NOT_FOUND)
		return (mx_return_t)error_set(MX_HOST_NOT_FOUND,
					      "no board is named \"%.80s\": neither here, nor in the file of the "
					      "option mx_hosts, and no host says so",
					      name);
	if (!code)
		*nic_id_p = wanted.nic_id;
	return code;
}

mx_return_t mxi_names_of_nic(uint64_t nic_id, char name[MX_MAX_HOSTNAME_LEN])
{
	struct wanted wanted = {.nic_id = nic_id};
	mx_return_t code = nic_id ? mxi_names_look_up(&wanted) : MX_NIC_NOT_FOUND;

	if (code == MX_NIC_NOT_FOUND)
		return (mx_return_t)error_set(code,
					      "no board has the NIC id %012llx: neither here, nor in the file of the "
					      "option mx_hosts, and no host says so",
					      (unsigned long long)nic_id);
	if (!code)
		strcpy(name, wanted.name);
	return code;
}
