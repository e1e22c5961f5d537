/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An entry's sockets are bound by the claim and read once it is published, so who asks in between
 * waits and is not refused. The mutex is never held while a peer, a program or another lock than
 * that of mx_known.c is waited for.
 */
#include "mx_directory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/thread.h"
#include "mx_answer.h"
#include "mx_known.h"
#include "mx_listener.h"
#include "mx_place.h"
#include "mx_post.h"
#include "mx_world.h"

enum {
	BURST = 64, /* datagrams taken of one socket before others are attended to */
};

static void mxi_directory_attend(int fd, uint32_t events);
static void mxi_directory_alarm(void);

static struct {
	pthread_mutex_t mutex;    /* of all that follows */
	sigset_t forking;         /* signals of who has it around a fork */
	pthread_cond_t changed;   /* the thread has ended, or a call of counters */
	struct list_node entries; /* claimed */
	struct list_node queries; /* under way */
	struct mxi_world world;   /* as the claims saw it */

	/* While the listener runs: as long as an entry is published. */
	struct mxi_listener listener;
	int group_fd;     /* -1: no multicast */
	int speaker_fd;   /* -1: somebody else speaks for this host */
	uint32_t dropped; /* datagrams that were not understood */
} directory = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.entries = {&directory.entries, &directory.entries},
	.queries = {&directory.queries, &directory.queries},
	.listener = {.mutex = &directory.mutex,
		     .attend = mxi_directory_attend,
		     .alarm = mxi_directory_alarm,
		     .epoll_fd = -1,
		     .timer_fd = -1},
	.group_fd = -1,
	.speaker_fd = -1,
};

static void mxi_directory_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- Questions for our entries --------------------------------------------------------------- */

/* Lets go of the mutex. The entry stays, but may no longer be among the others. */
static void mxi_directory_answer_status(struct mxi_entry *entry, const struct mxi_notice *question,
					const struct mxi_place *from)
{
	struct mxi_notice answer = {
		.type = MXI_NOTICE_STATUS_ANSWER,
		.token = question->token,
		.from = {entry->nic_id, entry->endpoint_id, entry->session},
		.pid = (uint32_t)getpid(),
		.dropped = directory.dropped,
		.address = entry->address,
	};

	snprintf(answer.command, sizeof(answer.command), "%s", program_invocation_short_name);
	if (entry->counters) {
		entry->counting = true;
		pthread_mutex_unlock(&directory.mutex);
		answer.count = (uint16_t)mxi_entry_counters_count();
		entry->counters(entry, answer.counters, answer.count);
		pthread_mutex_lock(&directory.mutex);
		entry->counting = false;
		pthread_cond_broadcast(&directory.changed);
	}
	mxi_post_send(entry->unix_fd, from, &answer);
}

/* ---- Questions for our host ------------------------------------------------------------------ */

static void mxi_directory_heard(const struct mxi_notice *notice, const struct mxi_place *from)
{
	char address[MXI_ADDRESS_MAX];

	if (notice->from.nic_id == 0 || mxi_world_board(&directory.world, notice->from.nic_id))
		return;
	mxi_place_text(from, address);
	mxi_known_heard(notice->from.nic_id, notice->from_name, address);
	mxi_query_found(&directory.queries, &directory.world, notice->from.nic_id);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* False: the entry is to be looked at no further now. */
static bool mxi_directory_entry_notice(struct mxi_entry *entry, int fd, const struct mxi_notice *notice,
				       const struct mxi_place *from)
{
	bool local = fd == entry->unix_fd;

	if (notice->type == MXI_NOTICE_CONNECT) {
		mxi_answer_connect(entry, fd, notice, from);
	} else if (notice->type == MXI_NOTICE_ANSWER) {
		mxi_query_answered(&directory.queries, notice);
	} else if (notice->type == MXI_NOTICE_HERE && !local) {
		mxi_directory_heard(notice, from);
	} else if (notice->type == MXI_NOTICE_STATUS && local) {
		mxi_directory_answer_status(entry, notice, from);
		return false;
	} else {
		directory.dropped++;
	}
	return true;
}

static void mxi_directory_entry_attend(struct mxi_entry *entry, int fd)
{
	enum mxi_post_got got = MXI_POST_NOISE;
	struct mxi_notice notice;
	struct mxi_place from;

	for (unsigned i = 0; i < BURST && got != MXI_POST_NOTHING; i++) {
		got = mxi_post_receive(fd, &notice, &from);
		if (got == MXI_POST_NOTICE && !mxi_directory_entry_notice(entry, fd, &notice, &from))
			return;
		directory.dropped += got == MXI_POST_NOISE;
	}
}

static void mxi_directory_entry_attend_errors(int fd)
{
	enum mxi_post_got got = MXI_POST_NOISE;
	struct mxi_notice notice;

	for (unsigned i = 0; i < BURST && got != MXI_POST_NOTHING; i++) {
		got = mxi_post_refused(fd, &notice);
		if (got == MXI_POST_NOTICE)
			mxi_query_refused(&directory.queries, &notice);
	}
}

static void mxi_directory_group_attend(void)
{
	enum mxi_post_got got = MXI_POST_NOISE;
	struct mxi_notice notice;
	struct mxi_place from;

	for (unsigned i = 0; i < BURST && got != MXI_POST_NOTHING; i++) {
		got = mxi_post_receive(directory.group_fd, &notice, &from);
		if (got == MXI_POST_NOTICE && (notice.type == MXI_NOTICE_FIND || notice.type == MXI_NOTICE_HERE)) {
			mxi_directory_heard(&notice, &from);
			if (notice.type == MXI_NOTICE_FIND)
				mxi_answer_find(&directory.world, directory.group_fd, &directory.speaker_fd, &notice,
						&from);
		} else {
			directory.dropped += got != MXI_POST_NOTHING;
		}
	}
}

static void mxi_directory_alarm(void)
{
	mxi_listener_alarm(&directory.listener, mxi_query_run(&directory.queries, &directory.world));
}

/* By its descriptor, since an entry may be withdrawn between the event and now. */
static struct mxi_entry *mxi_directory_entry_of(int fd)
{
	struct list_node *node = list_first(&directory.entries);

	for (; node; node = list_next(&directory.entries, node)) {
		struct mxi_entry *entry = container_of(node, struct mxi_entry, node);

		if (entry->published && (entry->unix_fd == fd || entry->udp_fd == fd))
			return entry;
	}
	return NULL;
}

static void mxi_directory_attend(int fd, uint32_t events)
{
	struct mxi_entry *entry = mxi_directory_entry_of(fd);

	if (fd == directory.group_fd) {
		mxi_directory_group_attend();
	} else if (entry) {
		if (events & EPOLLERR)
			mxi_directory_entry_attend_errors(fd);
		mxi_directory_entry_attend(entry, fd);
	}
}

/* ---- Its life -------------------------------------------------------------------------------- */

/* Closing alone would leave it watched as long as a child that is being forked has it too. */
static void mxi_directory_unwatch_close(int *fd)
{
	mxi_listener_unwatch(&directory.listener, *fd);
	mxi_directory_fd_close(fd);
}

static void mxi_directory_group_join(void)
{
	for (unsigned i = 0; i < directory.world.count && directory.group_fd >= 0; i++)
		if (!directory.world.boards[i].loopback)
			mxi_post_join(directory.group_fd, &directory.world.settings, &directory.world.boards[i]);
}

/* Without a group hosts are found by the file of hosts alone, which is no failure; but that there is none just now is,
 * since it would last as long as the listener. */
static mx_return_t mxi_directory_group_open(void)
{
	bool wanted = directory.world.settings.group.s_addr != 0;
	bool refused;

	if (directory.group_fd >= 0 || !wanted)
		return MX_SUCCESS;
	directory.group_fd = mxi_post_group(&directory.world.settings);
	refused = directory.group_fd < 0
			  ? limits_caused(errno)
			  : mxi_listener_watch(&directory.listener, directory.group_fd) != 0;
	if (refused) {
		error_set(THOLE_ERR_SYSTEM, "cannot listen to the group of the option mx_group: %m");
		mxi_directory_fd_close(&directory.group_fd);
		return MX_NO_RESOURCES;
	}
	mxi_directory_group_join();
	return MX_SUCCESS;
}

static mx_return_t mxi_directory_listen(void)
{
	if (!directory.listener.running && mxi_listener_start(&directory.listener) != 0)
		return MX_NO_RESOURCES;
	return mxi_directory_group_open();
}

/* With the mutex, which is let go of meanwhile. */
static void mxi_directory_fall_silent(void)
{
	mxi_listener_stop(&directory.listener);
	mxi_directory_fd_close(&directory.group_fd);
	mxi_directory_fd_close(&directory.speaker_fd);
	pthread_cond_broadcast(&directory.changed);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void mxi_directory_fork_prepare(void)
{
	thread_lock(&directory.mutex, &directory.forking);
}

static void mxi_directory_fork_parent(void)
{
	thread_unlock(&directory.mutex, &directory.forking);
}

static void mxi_directory_entry_close(struct mxi_entry *entry)
{
	list_remove(&entry->node);
	entry->claimed = entry->published = false;
	mxi_directory_unwatch_close(&entry->unix_fd);
	mxi_directory_unwatch_close(&entry->udp_fd);
	mxi_clients_close(&entry->clients);
}

/* The names are the parent's: a child that kept the sockets would keep them bound. Nor has it the
 * thread. */
static void mxi_directory_fork_child(void)
{
	static const pthread_cond_t nobody_waits = PTHREAD_COND_INITIALIZER;
	struct list_node *node;

	mxi_listener_forget(&directory.listener); /* first: what it watches is the parent's choice */
	while ((node = list_first(&directory.entries)))
		mxi_directory_entry_close(container_of(node, struct mxi_entry, node));
	while ((node = list_first(&directory.queries)))
		list_remove(node);
	mxi_directory_fd_close(&directory.group_fd);
	mxi_directory_fd_close(&directory.speaker_fd);
	directory.changed = nobody_waits;
	thread_unlock(&directory.mutex, &directory.forking);
}

/* As forked.h says, and behind mx_known.c, whose lock is taken inside of ours. */
__attribute__((constructor)) static void mxi_directory_begin(void)
{
	pthread_atfork(mxi_directory_fork_prepare, mxi_directory_fork_parent, mxi_directory_fork_child);
}

/* ---- Entries --------------------------------------------------------------------------------- */

static mx_return_t mxi_directory_bind_local(struct mxi_entry *entry)
{
	struct mxi_place place;

	mxi_place_endpoint(&place, entry->nic_id, entry->endpoint_id);
	entry->unix_fd = mxi_post_local(&place);
	if (entry->unix_fd >= 0)
		return MX_SUCCESS;
	if (errno == EADDRINUSE) {
		error_set(THOLE_ERR_BUSY,
			  "endpoint %u of board %u is open already on this host; MX_ANY_ENDPOINT "
			  "takes a free one",
			  entry->endpoint_id, entry->board.number);
		return MX_BUSY;
	}
	error_set(THOLE_ERR_SYSTEM, "cannot bind the Unix socket %s: %m", place.local.sun_path + 1);
	return MX_NO_RESOURCES;
}

/* Where there is no network, this host is all that can ask. Want is another matter: it would last as long as the
 * entry. */
static mx_return_t mxi_directory_bind_network(struct mxi_entry *entry)
{
	uint16_t port = (uint16_t)(directory.world.settings.port + 1 + entry->endpoint_id);

	if (!directory.world.settings.network || entry->board.loopback || entry->board.address[0] == '\0')
		return MX_SUCCESS;
	entry->udp_fd = mxi_post_udp(&entry->board, port);
	if (entry->udp_fd < 0 && limits_caused(errno)) {
		error_set(THOLE_ERR_SYSTEM, "cannot open UDP port %u of %s: %m", port, entry->board.address);
		return MX_NO_RESOURCES;
	}
	if (entry->udp_fd >= 0 || errno != EADDRINUSE)
		return MX_SUCCESS;
	error_set(THOLE_ERR_BUSY,
		  "UDP port %u of %s, by which other hosts find endpoint %u, is another program's; "
		  "the option mx_port moves all of them, and has to be the same on all hosts",
		  port, entry->board.address, entry->endpoint_id);
	return MX_BUSY; /* who wants any number may have the next */
}

/* Settings are those of the first entry. */
static mx_return_t mxi_directory_look_around(void)
{
	mx_return_t code = mxi_world_look(&directory.world, list_empty(&directory.entries));

	if (code == MX_SUCCESS)
		mxi_directory_group_join();
	return code;
}

static mx_return_t mxi_directory_entry_claim(struct mxi_entry *entry)
{
	mx_return_t code = mxi_directory_look_around();

	if (code == MX_SUCCESS)
		code = mxi_directory_bind_local(entry);
	if (code == MX_SUCCESS)
		code = mxi_directory_bind_network(entry);
	if (code == MX_SUCCESS) {
		list_push_back(&directory.entries, &entry->node);
		entry->claimed = true;
	} else {
		mxi_directory_fd_close(&entry->unix_fd);
	}
	return code;
}

mx_return_t mxi_directory_claim(struct mxi_entry *entry, const struct mxi_board *board, uint32_t endpoint_id)
{
	mx_return_t code;
	sigset_t signals;

	*entry = (struct mxi_entry){
		.nic_id = board->nic_id,
		.endpoint_id = endpoint_id,
		.board = *board,
		.unix_fd = -1,
		.udp_fd = -1,
	};
	list_init(&entry->node);
	mxi_clients_open(&entry->clients);
	if (endpoint_id > MXI_ENDPOINT_ID_MAX) {
		error_set(THOLE_ERR_ARGUMENT, "endpoint %u: numbers are from 0 to %d", endpoint_id,
			  MXI_ENDPOINT_ID_MAX);
		return MX_BAD_ENDPOINT_ID;
	}
	thread_lock(&directory.mutex, &signals);
	code = mxi_directory_entry_claim(entry);
	thread_unlock(&directory.mutex, &signals);
	return code;
}

static mx_return_t mxi_directory_entry_publish(struct mxi_entry *entry)
{
	mx_return_t code = mxi_directory_listen();

	if (code != MX_SUCCESS)
		return code;
	entry->published = true;
	if (mxi_listener_watch(&directory.listener, entry->unix_fd) != 0 ||
	    (entry->udp_fd >= 0 && mxi_listener_watch(&directory.listener, entry->udp_fd) != 0)) {
		error_set(THOLE_ERR_SYSTEM, "cannot watch the sockets of endpoint %u: %m", entry->endpoint_id);
		return MX_NO_RESOURCES; /* the withdrawal, which is the caller's, ends the thread */
	}
	mxi_answer_unasked(entry, &directory.world.settings);
	return MX_SUCCESS;
}

mx_return_t mxi_directory_publish(struct mxi_entry *entry)
{
	mx_return_t code;
	sigset_t signals;

	thread_lock(&directory.mutex, &signals);
	while (directory.listener.ending)
		pthread_cond_wait(&directory.changed, &directory.mutex);
	code = mxi_directory_entry_publish(entry);
	thread_unlock(&directory.mutex, &signals);
	return code;
}

static bool mxi_directory_any_published(void)
{
	struct list_node *node = list_first(&directory.entries);

	while (node && !container_of(node, struct mxi_entry, node)->published)
		node = list_next(&directory.entries, node);
	return node != NULL;
}

/* Nothing begins for it any more, and what the thread does for it has ended. */
static void mxi_directory_entry_retire(struct mxi_entry *entry)
{
	list_remove(&entry->node);
	while (entry->counting)
		pthread_cond_wait(&directory.changed, &directory.mutex);
	mxi_listener_unwatch(&directory.listener, entry->unix_fd);
	mxi_listener_unwatch(&directory.listener, entry->udp_fd);
}

void mxi_directory_retire(struct mxi_entry *entry)
{
	sigset_t signals;

	thread_lock(&directory.mutex, &signals);
	if (entry->claimed)
		mxi_directory_entry_retire(entry);
	thread_unlock(&directory.mutex, &signals);
}

void mxi_directory_withdraw(struct mxi_entry *entry)
{
	sigset_t signals;

	thread_lock(&directory.mutex, &signals);
	if (entry->claimed) {
		mxi_directory_entry_retire(entry);
		mxi_directory_entry_close(entry);
		if (directory.listener.running && !directory.listener.ending && !mxi_directory_any_published())
			mxi_directory_fall_silent();
	}
	thread_unlock(&directory.mutex, &signals);
}

bool mxi_directory_who(struct mxi_entry *entry, const struct thole_address *address, struct mxi_identity *identity_p)
{
	bool found;
	sigset_t signals;

	thread_lock(&directory.mutex, &signals);
	found = mxi_clients_find(&entry->clients, address, identity_p);
	thread_unlock(&directory.mutex, &signals);
	return found;
}

/* ---- Questions of our own -------------------------------------------------------------------- */

void mxi_directory_ask(struct mxi_query *query)
{
	sigset_t signals;

	mxi_query_init(query);
	thread_lock(&directory.mutex, &signals);
	mxi_listener_alarm_by(&directory.listener, mxi_query_start(&directory.queries, query, &directory.world));
	thread_unlock(&directory.mutex, &signals);
}

bool mxi_directory_cancel(struct mxi_query *query)
{
	bool canceled;
	sigset_t signals;

	thread_lock(&directory.mutex, &signals);
	canceled = !query->done;
	if (canceled)
		list_remove(&query->node);
	thread_unlock(&directory.mutex, &signals);
	return canceled;
}
