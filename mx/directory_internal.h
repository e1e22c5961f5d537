/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory_internal - what directory.c (entries, the thread, answers) and query.c (questions of our own) share. Everything here
 * is under the directory's mutex, which is never held while a peer, a program or another lock than that of known.c is waited
 * for.
 */
#ifndef MX_DIRECTORY_INTERNAL_H
#define MX_DIRECTORY_INTERNAL_H

#include <pthread.h>

#include "directory.h"
#include "notice.h"
#include "post.h"
#include "setting.h"

struct mxi_directory {
	pthread_mutex_t mutex;
	pthread_cond_t changed;       /* the thread has ended, or a call of counters */
	struct list_node entries;     /* claimed */
	struct list_node queries;     /* under way */
	struct mxi_settings settings; /* as when the first of the entries was claimed */
	struct mxi_board boards[MXI_BOARDS_MAX]; /* as when the last of them was */
	unsigned boards_count;

	/* While the thread runs: as long as an entry is published. */
	pthread_t thread;
	bool running, ending;
	int epoll_fd, timer_fd;
	int group_fd;                 /* -1: no multicast */
	int speaker_fd;               /* -1: somebody else speaks for this host */
	uint64_t alarm_ns;            /* when the timer goes off; UINT64_MAX: never */
	uint32_t dropped;             /* datagrams that were not understood */
};
extern struct mxi_directory mxi_directory;

/* ---- directory.c ---- */

bool mxi_directory_own(uint64_t nic_id);

/* The thread looks at the queries at this time (UINT64_MAX: not of itself); or at this time at the latest. */
void mxi_directory_alarm(uint64_t when_ns);
void mxi_directory_alarm_by(uint64_t when_ns);

/* ---- query.c ---- */

/* Ask again, give up: what is due. Sets the alarm for the rest. */
void mxi_queries_run(void);

/* An ANSWER has come, or a CONNECT has come back. */
void mxi_queries_answered(const struct mxi_notice *notice);
void mxi_queries_refused(const struct mxi_notice *notice);

/* Where a board is has become known. */
void mxi_queries_found(uint64_t nic_id);

#endif /* MX_DIRECTORY_INTERNAL_H */
