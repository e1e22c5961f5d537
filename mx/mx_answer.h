/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_answer - what the directory answers: to those who look for an endpoint, and to those who look
 * for a board.
 *
 * Every process of a host hears the questions where a board is; one of them, which the kernel tells
 * apart by a name that it alone has, answers: the speaker. Where that one is stopped, and so says
 * nothing, the others answer when the question is repeated.
 */
#ifndef MX_ANSWER_H
#define MX_ANSWER_H

#include "mx_entry.h"
#include "mx_notice.h"
#include "mx_place.h"
#include "mx_world.h"

/* A CONNECT that came to this descriptor of an entry. */
void mxi_answer_connect(struct mxi_entry *entry, int fd, const struct mxi_notice *question,
			const struct mxi_place *from);

/* A FIND. *speaker_fd is the speaker's name, -1 while somebody else has it. */
void mxi_answer_find(const struct mxi_world *world, int group_fd, int *speaker_fd, const struct mxi_notice *question,
		     const struct mxi_place *from);

/* Say where an entry's board is, so that tables of other hosts know it before they ask. */
void mxi_answer_unasked(const struct mxi_entry *entry, const struct mxi_settings *settings);

#endif /* MX_ANSWER_H */
