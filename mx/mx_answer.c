/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_answer.h"

#include <string.h>
#include <strings.h>

#include "mx_post.h"

enum { SPEAKER_ATTEMPTS = 2 }; /* so often a question is left to the speaker */

void mxi_answer_connect(struct mxi_entry *entry, int fd, const struct mxi_notice *question,
			const struct mxi_place *from)
{
	struct mxi_notice answer = {.type = MXI_NOTICE_ANSWER, .token = question->token, .status = MX_STATUS_BAD_KEY};

	if (question->nic_id != entry->nic_id || question->endpoint_id != entry->endpoint_id)
		return; /* that board was at this address once, and will be looked for elsewhere */
	if (question->key == entry->key) {
		if (mxi_clients_add(&entry->clients, &question->address, &question->from) != 0)
			return; /* he asks again */
		answer.status = MX_STATUS_SUCCESS;
		answer.from.session = entry->session;
		answer.address = entry->address;
	}
	mxi_post_send(fd, from, &answer); /* or he asks again */
}

static bool mxi_answer_is_wanted(const struct mxi_board *board, const struct mxi_notice *question)
{
	if (question->nic_id)
		return board->nic_id == question->nic_id;
	return question->name[0] == '\0' || strcasecmp(board->name, question->name) == 0;
}

/* Whoever gets the name first is it, until he ends. */
static bool mxi_answer_is_speaker(int *speaker_fd)
{
	struct mxi_place place;

	if (*speaker_fd < 0) {
		mxi_place_speaker(&place);
		*speaker_fd = mxi_post_claim(&place);
	}
	return *speaker_fd >= 0;
}

static void mxi_answer_notice_here(struct mxi_notice *notice, const struct mxi_board *board)
{
	*notice = (struct mxi_notice){.type = MXI_NOTICE_HERE, .from = {.nic_id = board->nic_id}};
	memcpy(notice->from_name, board->name, sizeof(notice->from_name));
}

void mxi_answer_find(const struct mxi_world *world, int group_fd, int *speaker_fd, const struct mxi_notice *question,
		     const struct mxi_place *from)
{
	struct mxi_notice answer;

	for (unsigned i = 0; i < world->count && i < MXI_BOARDS_MAX; i++) {
		const struct mxi_board *board = &world->boards[i];

		if (!mxi_answer_is_wanted(board, question) ||
		    (question->attempt < SPEAKER_ATTEMPTS && !mxi_answer_is_speaker(speaker_fd)))
			continue;
		mxi_answer_notice_here(&answer, board);
		mxi_post_send_as(group_fd, board, from, &answer);
	}
}

void mxi_answer_unasked(const struct mxi_entry *entry, const struct mxi_settings *settings)
{
	struct mxi_notice notice;
	struct mxi_place group;

	if (entry->udp_fd < 0 || settings->group.s_addr == 0)
		return;
	mxi_answer_notice_here(&notice, &entry->board);
	mxi_place_group(&group, settings);
	mxi_post_send(entry->udp_fd, &group, &notice);
}
