/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An entry's sockets are bound by the claim and read once it is published, so who asks in between
 * waits and is not refused. The mutex is never held while a peer, a program or another lock than
 * that of mx_known.c is waited for.
 */
#include "mx_directory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "mx_answer.h"
#include "mx_known.h"
#include "mx_place.h"
#include "mx_post.h"
#include "mx_world.h"

enum {
	EVENTS = 16, /* sockets attended to before others may have the mutex */
	BURST = 64,  /* datagrams taken of one of them meanwhile */
};

static struct {
	pthread_mutex_t mutex;    /* of all that follows */
	pthread_cond_t changed;   /* the thread has ended, or a call of counters */
	struct list_node entries; /* claimed */
	struct list_node queries; /* under way */
	struct mxi_world world;   /* as the claims saw it */

	/* While the thread runs: as long as an entry is published. */
	pthread_t thread;
	bool running, ending;   /* the thread is there; it is to end */
	int epoll_fd, timer_fd; /* what it sleeps on; -1: no thread */
	int group_fd;           /* -1: no multicast */
	int speaker_fd;         /* -1: somebody else speaks for this host */
	uint64_t alarm_ns;      /* when the timer goes off; UINT64_MAX: never */
	uint32_t dropped;       /* datagrams that were not understood */
} directory = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.entries = {&directory.entries, &directory.entries},
	.queries = {&directory.queries, &directory.queries},
	.epoll_fd = -1,
	.timer_fd = -1,
	.group_fd = -1,
	.speaker_fd = -1,
};

static void mxi_directory_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void mxi_directory_alarm_set(uint64_t when_ns)
{
	struct itimerspec time = {.it_value = {0}}; /* never */

	directory.alarm_ns = when_ns;
	if (when_ns != UINT64_MAX) {
		time.it_value.tv_sec = (time_t)(when_ns / 1000000000);
		time.it_value.tv_nsec = (long)(when_ns % 1000000000);
	}
	timerfd_settime(directory.timer_fd, TFD_TIMER_ABSTIME, &time, NULL);
}

static void mxi_directory_alarm_by(uint64_t when_ns)
{
	if (when_ns < directory.alarm_ns)
		mxi_directory_alarm_set(when_ns);
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
static bool mxi_directory_entry_notice(struct mxi_entry *entry, int fd,
                                       const struct mxi_notice *notice,
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
		if (got == MXI_POST_NOTICE &&
		    !mxi_directory_entry_notice(entry, fd, &notice, &from))
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
		if (got == MXI_POST_NOTICE &&
		    (notice.type == MXI_NOTICE_FIND || notice.type == MXI_NOTICE_HERE)) {
			mxi_directory_heard(&notice, &from);
			if (notice.type == MXI_NOTICE_FIND)
				mxi_answer_find(&directory.world, directory.group_fd,
				                &directory.speaker_fd, &notice, &from);
		} else {
			directory.dropped += got != MXI_POST_NOTHING;
		}
	}
}

static void mxi_directory_timer_attend(void)
{
	uint64_t times;

	if (read(directory.timer_fd, &times, sizeof(times)) == sizeof(times))
		mxi_directory_alarm_set(mxi_query_run(&directory.queries, &directory.world));
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

	if (fd == directory.timer_fd)
		mxi_directory_timer_attend();
	else if (fd == directory.group_fd)
		mxi_directory_group_attend();
	else if (entry) {
		if (events & EPOLLERR)
			mxi_directory_entry_attend_errors(fd);
		mxi_directory_entry_attend(entry, fd);
	}
}

static void *mxi_directory_thread(void *arg)
{
	struct epoll_event events[EVENTS];
	bool ending = false;

	(void)arg;
	while (!ending) {
		int count = epoll_wait(directory.epoll_fd, events, EVENTS, -1);

		pthread_mutex_lock(&directory.mutex);
		ending = directory.ending;
		for (int i = 0; i < count && !ending; i++)
			mxi_directory_attend(events[i].data.fd, events[i].events);
		pthread_mutex_unlock(&directory.mutex);
	}
	return NULL;
}

/* ---- Its life -------------------------------------------------------------------------------- */

static int mxi_directory_watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(directory.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void mxi_directory_unwatch(int fd)
{
	if (fd >= 0 && directory.epoll_fd >= 0)
		epoll_ctl(directory.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Closing alone would leave it watched as long as a child that is being forked has it too. */
static void mxi_directory_unwatch_close(int *fd)
{
	mxi_directory_unwatch(*fd);
	mxi_directory_fd_close(fd);
}

static void mxi_directory_thread_fds_close(void)
{
	mxi_directory_fd_close(&directory.epoll_fd);
	mxi_directory_fd_close(&directory.timer_fd);
	mxi_directory_fd_close(&directory.group_fd);
	mxi_directory_fd_close(&directory.speaker_fd);
}

static void mxi_directory_group_join(void)
{
	for (unsigned i = 0; i < directory.world.count && directory.group_fd >= 0; i++)
		if (!directory.world.boards[i].loopback)
			mxi_post_join(directory.group_fd, &directory.world.settings,
			              &directory.world.boards[i]);
}

/* Without a group hosts are found by the file of hosts alone, which is no failure. */
static void mxi_directory_group_open(void)
{
	if (directory.world.settings.group.s_addr != 0)
		directory.group_fd = mxi_post_group(&directory.world.settings);
	if (directory.group_fd >= 0 && mxi_directory_watch(directory.group_fd) != 0)
		mxi_directory_fd_close(&directory.group_fd);
	mxi_directory_group_join();
}

static mx_return_t mxi_directory_listener_start(void)
{
	directory.alarm_ns = UINT64_MAX;
	directory.ending = false;
	directory.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	directory.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (directory.epoll_fd >= 0 && directory.timer_fd >= 0 &&
	    mxi_directory_watch(directory.timer_fd) == 0) {
		mxi_directory_group_open();
		errno = thread_start(&directory.thread, "thole-mx", mxi_directory_thread, NULL);
		if (errno == 0) {
			directory.running = true;
			return MX_SUCCESS;
		}
	}
	error_set(THOLE_ERR_SYSTEM, "cannot start the thread by which MX endpoints are found: %m");
	mxi_directory_thread_fds_close();
	return MX_NO_RESOURCES;
}

/* With the mutex, which it lets go of meanwhile: the thread may want it once more. */
static void mxi_directory_thread_stop(void)
{
	directory.ending = true;
	mxi_directory_alarm_set(1); /* long ago */
	pthread_mutex_unlock(&directory.mutex);
	pthread_join(directory.thread, NULL);
	pthread_mutex_lock(&directory.mutex);
	mxi_directory_thread_fds_close();
	directory.running = directory.ending = false;
	pthread_cond_broadcast(&directory.changed);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void mxi_directory_fork_prepare(void)
{
	pthread_mutex_lock(&directory.mutex);
}

static void mxi_directory_fork_parent(void)
{
	pthread_mutex_unlock(&directory.mutex);
}

static void mxi_directory_entry_close(struct mxi_entry *entry)
{
	list_remove(&entry->node);
	entry->claimed = entry->published = false;
	mxi_directory_unwatch_close(&entry->unix_fd);
	mxi_directory_unwatch_close(&entry->udp_fd);
	mxi_askers_close(&entry->askers);
}

/* The names are the parent's: a child that kept the sockets would keep them bound. Nor has it the
 * thread. */
static void mxi_directory_fork_child(void)
{
	static const pthread_cond_t nobody_waits = PTHREAD_COND_INITIALIZER;
	struct list_node *node;

	mxi_directory_fd_close(
		&directory.epoll_fd); /* first: what it watches is the parent's choice */
	while ((node = list_first(&directory.entries)))
		mxi_directory_entry_close(container_of(node, struct mxi_entry, node));
	while ((node = list_first(&directory.queries)))
		list_remove(node);
	mxi_directory_thread_fds_close();
	directory.running = directory.ending = false;
	directory.changed = nobody_waits;
	pthread_mutex_unlock(&directory.mutex);
}

static void mxi_directory_forks_register(void)
{
	/* The lock that is taken inside of ours is registered before, since forks take the last one
	 * first. */
	mxi_known_list(NULL, 0);
	pthread_atfork(mxi_directory_fork_prepare, mxi_directory_fork_parent,
	               mxi_directory_fork_child);
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

/* Where there is no network, this host is all that can ask. */
static mx_return_t mxi_directory_bind_network(struct mxi_entry *entry)
{
	uint16_t port = (uint16_t)(directory.world.settings.port + 1 + entry->endpoint_id);

	if (!directory.world.settings.network || entry->board.loopback ||
	    entry->board.address[0] == '\0')
		return MX_SUCCESS;
	entry->udp_fd = mxi_post_udp(&entry->board, port);
	if (entry->udp_fd >= 0 || errno != EADDRINUSE)
		return MX_SUCCESS;
	error_set(THOLE_ERR_BUSY,
	          "UDP port %u of %s, by which other hosts find endpoint %u, is another program's; "
	          "the option mx_port moves all of them, and has to be the same on all hosts",
	          port, entry->board.address, entry->endpoint_id);
	return MX_NO_RESOURCES;
}

/* Settings are those of the first entry. */
static mx_return_t mxi_directory_look_around(void)
{
	if (mxi_world_look(&directory.world, list_empty(&directory.entries)) != 0)
		return MX_NO_RESOURCES;
	mxi_directory_group_join();
	return MX_SUCCESS;
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

mx_return_t mxi_directory_claim(struct mxi_entry *entry, const struct mxi_board *board,
                                uint32_t endpoint_id)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	mx_return_t code;

	*entry = (struct mxi_entry){
		.nic_id = board->nic_id,
		.endpoint_id = endpoint_id,
		.wake_fd = -1,
		.board = *board,
		.unix_fd = -1,
		.udp_fd = -1,
	};
	list_init(&entry->node);
	mxi_askers_open(&entry->askers);
	if (endpoint_id > MXI_ENDPOINT_ID_MAX) {
		error_set(THOLE_ERR_ARGUMENT, "endpoint %u: numbers are from 0 to %d", endpoint_id,
		          MXI_ENDPOINT_ID_MAX);
		return MX_BAD_ENDPOINT_ID;
	}
	pthread_once(&once, mxi_directory_forks_register);
	pthread_mutex_lock(&directory.mutex);
	code = mxi_directory_entry_claim(entry);
	pthread_mutex_unlock(&directory.mutex);
	return code;
}

static mx_return_t mxi_directory_entry_publish(struct mxi_entry *entry)
{
	mx_return_t code = directory.running ? MX_SUCCESS : mxi_directory_listener_start();

	if (code != MX_SUCCESS)
		return code;
	entry->published = true;
	if (mxi_directory_watch(entry->unix_fd) != 0 ||
	    (entry->udp_fd >= 0 && mxi_directory_watch(entry->udp_fd) != 0)) {
		error_set(THOLE_ERR_SYSTEM, "cannot watch the sockets of endpoint %u: %m",
		          entry->endpoint_id);
		return MX_NO_RESOURCES; /* the withdrawal, which is the caller's, ends the thread */
	}
	mxi_answer_unasked(entry, &directory.world.settings);
	return MX_SUCCESS;
}

mx_return_t mxi_directory_publish(struct mxi_entry *entry)
{
	mx_return_t code;

	pthread_mutex_lock(&directory.mutex);
	while (directory.ending)
		pthread_cond_wait(&directory.changed, &directory.mutex);
	code = mxi_directory_entry_publish(entry);
	pthread_mutex_unlock(&directory.mutex);
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
	mxi_directory_unwatch(entry->unix_fd);
	mxi_directory_unwatch(entry->udp_fd);
}

void mxi_directory_retire(struct mxi_entry *entry)
{
	pthread_mutex_lock(&directory.mutex);
	if (entry->claimed)
		mxi_directory_entry_retire(entry);
	pthread_mutex_unlock(&directory.mutex);
}

void mxi_directory_withdraw(struct mxi_entry *entry)
{
	pthread_mutex_lock(&directory.mutex);
	if (entry->claimed) {
		mxi_directory_entry_retire(entry);
		mxi_directory_entry_close(entry);
		if (directory.running && !directory.ending && !mxi_directory_any_published())
			mxi_directory_thread_stop();
	}
	pthread_mutex_unlock(&directory.mutex);
}

bool mxi_directory_who(struct mxi_entry *entry, const struct thole_address *address,
                       struct mxi_identity *identity_p)
{
	bool found;

	pthread_mutex_lock(&directory.mutex);
	found = mxi_askers_find(&entry->askers, address, identity_p);
	pthread_mutex_unlock(&directory.mutex);
	return found;
}

/* ---- Questions of our own -------------------------------------------------------------------- */

void mxi_directory_ask(struct mxi_query *query)
{
	mxi_query_init(query);
	pthread_mutex_lock(&directory.mutex);
	mxi_directory_alarm_by(mxi_query_start(&directory.queries, query, &directory.world));
	pthread_mutex_unlock(&directory.mutex);
}

bool mxi_directory_cancel(struct mxi_query *query)
{
	bool canceled;

	pthread_mutex_lock(&directory.mutex);
	canceled = !query->done;
	if (canceled)
		list_remove(&query->node);
	pthread_mutex_unlock(&directory.mutex);
	return canceled;
}
