/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entries by which this process's endpoints are found, the thread that listens for them, and what it answers.
 *
 * An entry's sockets are bound by the claim and read once it is published, so who asks in between waits and is not refused.
 * Every process of a host hears the questions where a board is; one of them, which the kernel tells apart by a name that it
 * alone has, answers. Where that one is stopped, and so says nothing, the others answer when the question is repeated.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/thread.h"
#include "directory_internal.h"
#include "names.h"

enum {
	EVENTS = 16,            /* sockets attended to before others may have the mutex */
	BURST = 64,             /* datagrams taken of one of them meanwhile */
	SPEAKER_ATTEMPTS = 2,   /* so often a question is left to the speaker */
};

struct mxi_directory mxi_directory = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.entries = {&mxi_directory.entries, &mxi_directory.entries},
	.queries = {&mxi_directory.queries, &mxi_directory.queries},
	.epoll_fd = -1,
	.timer_fd = -1,
	.group_fd = -1,
	.speaker_fd = -1,
};

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static const struct mxi_board *own_board(uint64_t nic_id)
{
	for (unsigned i = 0; i < mxi_directory.boards_count; i++)
		if (mxi_directory.boards[i].nic_id == nic_id)
			return &mxi_directory.boards[i];
	return NULL;
}

bool mxi_directory_own(uint64_t nic_id)
{
	return own_board(nic_id) != NULL;
}

/* ---- Time ------------------------------------------------------------------------------------------ */

void mxi_directory_alarm(uint64_t when_ns)
{
	struct itimerspec time = {.it_value = {0}}; /* never */

	mxi_directory.alarm_ns = when_ns;
	if (when_ns != UINT64_MAX) {
		time.it_value.tv_sec = (time_t)(when_ns / 1000000000);
		time.it_value.tv_nsec = (long)(when_ns % 1000000000);
	}
	timerfd_settime(mxi_directory.timer_fd, TFD_TIMER_ABSTIME, &time, NULL);
}

void mxi_directory_alarm_by(uint64_t when_ns)
{
	if (when_ns < mxi_directory.alarm_ns)
		mxi_directory_alarm(when_ns);
}

/* ---- Questions for our entries --------------------------------------------------------------------- */

static void answer_connect(struct mxi_entry *entry, int fd, const struct mxi_notice *question, const struct mxi_place *from)
{
	struct mxi_notice answer = {.type = MXI_NOTICE_ANSWER, .token = question->token, .status = MX_STATUS_BAD_KEY};

	if (question->nic_id != entry->nic_id || question->endpoint_id != entry->endpoint_id)
		return; /* that board was at this address once, and will be looked for elsewhere */
	if (question->key == entry->key) {
		if (mxi_askers_add(&entry->askers, &question->address, &question->from) != 0)
			return; /* he asks again */
		answer.status = MX_STATUS_SUCCESS;
		answer.from.session = entry->session;
		answer.address = entry->address;
	}
	mxi_post_send(fd, from, &answer); /* or he asks again */
}

static uint16_t counters_count(void)
{
	struct thole_counter_info info;
	uint16_t count = 0;

	while (count < MXI_NOTICE_COUNTERS_MAX && thole_counter_info(count, &info) == 0)
		count++;
	return count;
}

/* Lets go of the mutex. The entry stays, but may no longer be among the others. */
static void answer_status(struct mxi_entry *entry, const struct mxi_notice *question, const struct mxi_place *from)
{
	struct mxi_notice answer = {
		.type = MXI_NOTICE_STATUS_ANSWER,
		.token = question->token,
		.from = {entry->nic_id, entry->endpoint_id, entry->session},
		.pid = (uint32_t)getpid(),
		.dropped = mxi_directory.dropped,
		.address = entry->address,
	};

	snprintf(answer.command, sizeof(answer.command), "%s", program_invocation_short_name);
	if (entry->counters) {
		entry->counting = true;
		pthread_mutex_unlock(&mxi_directory.mutex);
		answer.count = counters_count();
		entry->counters(entry, answer.counters, answer.count);
		pthread_mutex_lock(&mxi_directory.mutex);
		entry->counting = false;
		pthread_cond_broadcast(&mxi_directory.changed);
	}
	mxi_post_send(entry->unix_fd, from, &answer);
}

/* ---- Questions for our host ------------------------------------------------------------------------ */

static void heard(const struct mxi_notice *notice, const struct mxi_place *from)
{
	char address[MXI_ADDRESS_MAX];

	if (notice->from.nic_id == 0 || mxi_directory_own(notice->from.nic_id))
		return;
	mxi_place_text(from, address);
	mxi_known_heard(notice->from.nic_id, notice->from_name, address);
	mxi_queries_found(notice->from.nic_id);
}

static bool is_wanted(const struct mxi_board *board, const struct mxi_notice *question)
{
	if (question->nic_id)
		return board->nic_id == question->nic_id;
	return question->name[0] == '\0' || strcasecmp(board->name, question->name) == 0;
}

/* Whoever gets the name first is it, until he ends. */
static bool is_speaker(void)
{
	struct mxi_place place;

	if (mxi_directory.speaker_fd < 0) {
		mxi_place_speaker(&place);
		mxi_directory.speaker_fd = mxi_post_local(&place);
	}
	return mxi_directory.speaker_fd >= 0;
}

static void notice_here(struct mxi_notice *notice, const struct mxi_board *board)
{
	*notice = (struct mxi_notice){.type = MXI_NOTICE_HERE, .from = {.nic_id = board->nic_id}};
	memcpy(notice->from_name, board->name, sizeof(notice->from_name));
}

static void answer_find(const struct mxi_notice *question, const struct mxi_place *from)
{
	struct mxi_notice answer;

	for (unsigned i = 0; i < mxi_directory.boards_count; i++) {
		const struct mxi_board *board = &mxi_directory.boards[i];

		if (!is_wanted(board, question) || (question->attempt < SPEAKER_ATTEMPTS && !is_speaker()))
			continue;
		notice_here(&answer, board);
		mxi_post_send_as(mxi_directory.group_fd, board, from, &answer);
	}
}

/* ---- The thread ------------------------------------------------------------------------------------ */

/* False: the entry is to be looked at no further now. */
static bool entry_notice(struct mxi_entry *entry, int fd, const struct mxi_notice *notice, const struct mxi_place *from)
{
	bool local = fd == entry->unix_fd;

	if (notice->type == MXI_NOTICE_CONNECT) {
		answer_connect(entry, fd, notice, from);
	} else if (notice->type == MXI_NOTICE_ANSWER) {
		mxi_queries_answered(notice);
	} else if (notice->type == MXI_NOTICE_HERE && !local) {
		heard(notice, from);
	} else if (notice->type == MXI_NOTICE_STATUS && local) {
		answer_status(entry, notice, from);
		return false;
	} else {
		mxi_directory.dropped++;
	}
	return true;
}

static void entry_attend(struct mxi_entry *entry, int fd)
{
	enum mxi_post_got got = MXI_POST_NOISE;
	struct mxi_notice notice;
	struct mxi_place from;

	for (unsigned i = 0; i < BURST && got != MXI_POST_NOTHING; i++) {
		got = mxi_post_receive(fd, &notice, &from);
		if (got == MXI_POST_NOTICE && !entry_notice(entry, fd, &notice, &from))
			return;
		mxi_directory.dropped += got == MXI_POST_NOISE;
	}
}

static void entry_attend_errors(int fd)
{
	enum mxi_post_got got = MXI_POST_NOISE;
	struct mxi_notice notice;

	for (unsigned i = 0; i < BURST && got != MXI_POST_NOTHING; i++) {
		got = mxi_post_refused(fd, &notice);
		if (got == MXI_POST_NOTICE)
			mxi_queries_refused(&notice);
	}
}

static void group_attend(void)
{
	enum mxi_post_got got = MXI_POST_NOISE;
	struct mxi_notice notice;
	struct mxi_place from;

	for (unsigned i = 0; i < BURST && got != MXI_POST_NOTHING; i++) {
		got = mxi_post_receive(mxi_directory.group_fd, &notice, &from);
		if (got == MXI_POST_NOTICE && (notice.type == MXI_NOTICE_FIND || notice.type == MXI_NOTICE_HERE)) {
			heard(&notice, &from);
			if (notice.type == MXI_NOTICE_FIND)
				answer_find(&notice, &from);
		} else {
			mxi_directory.dropped += got != MXI_POST_NOTHING;
		}
	}
}

static void timer_attend(void)
{
	uint64_t times;

	if (read(mxi_directory.timer_fd, &times, sizeof(times)) == sizeof(times))
		mxi_queries_run();
}

/* By its descriptor, since an entry may be withdrawn between the event and now. */
static struct mxi_entry *entry_of(int fd)
{
	struct list_node *node = list_first(&mxi_directory.entries);

	for (; node; node = list_next(&mxi_directory.entries, node)) {
		struct mxi_entry *entry = container_of(node, struct mxi_entry, node);

		if (entry->published && (entry->unix_fd == fd || entry->udp_fd == fd))
			return entry;
	}
	return NULL;
}

static void attend(int fd, uint32_t events)
{
	struct mxi_entry *entry = entry_of(fd);

	if (fd == mxi_directory.timer_fd)
		timer_attend();
	else if (fd == mxi_directory.group_fd)
		group_attend();
	else if (entry) {
		if (events & EPOLLERR)
			entry_attend_errors(fd);
		entry_attend(entry, fd);
	}
}

static void *directory_thread(void *arg)
{
	struct epoll_event events[EVENTS];
	bool ending = false;

	(void)arg;
	while (!ending) {
		int count = epoll_wait(mxi_directory.epoll_fd, events, EVENTS, -1);

		pthread_mutex_lock(&mxi_directory.mutex);
		ending = mxi_directory.ending;
		for (int i = 0; i < count && !ending; i++)
			attend(events[i].data.fd, events[i].events);
		pthread_mutex_unlock(&mxi_directory.mutex);
	}
	return NULL;
}

/* ---- Its life -------------------------------------------------------------------------------------- */

static int watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(mxi_directory.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch(int fd)
{
	if (fd >= 0 && mxi_directory.epoll_fd >= 0)
		epoll_ctl(mxi_directory.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Closing alone would leave it watched as long as a child that is being forked has it too. */
static void unwatch_close(int *fd)
{
	unwatch(*fd);
	fd_close(fd);
}

static void thread_fds_close(void)
{
	fd_close(&mxi_directory.epoll_fd);
	fd_close(&mxi_directory.timer_fd);
	fd_close(&mxi_directory.group_fd);
	fd_close(&mxi_directory.speaker_fd);
}

static void group_join(void)
{
	for (unsigned i = 0; i < mxi_directory.boards_count && mxi_directory.group_fd >= 0; i++)
		if (!mxi_directory.boards[i].loopback)
			mxi_post_join(mxi_directory.group_fd, &mxi_directory.settings, &mxi_directory.boards[i]);
}

/* Without a group hosts are found by the file of hosts alone, which is no failure. */
static void group_open(void)
{
	if (mxi_directory.settings.group.s_addr != 0)
		mxi_directory.group_fd = mxi_post_group(&mxi_directory.settings);
	if (mxi_directory.group_fd >= 0 && watch(mxi_directory.group_fd) != 0)
		fd_close(&mxi_directory.group_fd);
	group_join();
}

static mx_return_t listener_start(void)
{
	mxi_directory.alarm_ns = UINT64_MAX;
	mxi_directory.ending = false;
	mxi_directory.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	mxi_directory.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (mxi_directory.epoll_fd >= 0 && mxi_directory.timer_fd >= 0 && watch(mxi_directory.timer_fd) == 0) {
		group_open();
		errno = thread_start(&mxi_directory.thread, "thole-mx", directory_thread, NULL);
		if (errno == 0) {
			mxi_directory.running = true;
			return MX_SUCCESS;
		}
	}
	error_set(THOLE_ERR_SYSTEM, "cannot start the thread by which MX endpoints are found: %m");
	thread_fds_close();
	return MX_NO_RESOURCES;
}

/* With the mutex, which it lets go of meanwhile: the thread may want it once more. */
static void thread_stop(void)
{
	mxi_directory.ending = true;
	mxi_directory_alarm(1); /* long ago */
	pthread_mutex_unlock(&mxi_directory.mutex);
	pthread_join(mxi_directory.thread, NULL);
	pthread_mutex_lock(&mxi_directory.mutex);
	thread_fds_close();
	mxi_directory.running = mxi_directory.ending = false;
	pthread_cond_broadcast(&mxi_directory.changed);
}

/* ---- Forks ----------------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&mxi_directory.mutex);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&mxi_directory.mutex);
}

static void entry_close(struct mxi_entry *entry)
{
	list_remove(&entry->node);
	entry->claimed = entry->published = false;
	unwatch_close(&entry->unix_fd);
	unwatch_close(&entry->udp_fd);
	mxi_askers_close(&entry->askers);
}

/* The names are the parent's: a child that kept the sockets would keep them bound. Nor has it the thread. */
static void fork_child(void)
{
	static const pthread_cond_t nobody_waits = PTHREAD_COND_INITIALIZER;
	struct list_node *node;

	fd_close(&mxi_directory.epoll_fd); /* first: what it watches is the parent's choice */
	while ((node = list_first(&mxi_directory.entries)))
		entry_close(container_of(node, struct mxi_entry, node));
	while ((node = list_first(&mxi_directory.queries)))
		list_remove(node);
	thread_fds_close();
	mxi_directory.running = mxi_directory.ending = false;
	mxi_directory.changed = nobody_waits;
	pthread_mutex_unlock(&mxi_directory.mutex);
}

static void forks_register(void)
{
	/* The lock that is taken inside of ours is registered before, since forks take the last one first. */
	mxi_known_list(NULL, 0);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- Entries --------------------------------------------------------------------------------------- */

static mx_return_t bind_local(struct mxi_entry *entry)
{
	struct mxi_place place;

	mxi_place_endpoint(&place, entry->nic_id, entry->endpoint_id);
	entry->unix_fd = mxi_post_local(&place);
	if (entry->unix_fd >= 0)
		return MX_SUCCESS;
	if (errno == EADDRINUSE) {
		error_set(THOLE_ERR_BUSY, "endpoint %u of board %u is open already on this host; MX_ANY_ENDPOINT takes a free one",
			  entry->endpoint_id, entry->board.number);
		return MX_BUSY;
	}
	error_set(THOLE_ERR_SYSTEM, "cannot bind the Unix socket %s: %m", place.local.sun_path + 1);
	return MX_NO_RESOURCES;
}

/* Where there is no network, this host is all that can ask. */
static mx_return_t bind_network(struct mxi_entry *entry)
{
	uint16_t port = (uint16_t)(mxi_directory.settings.port + 1 + entry->endpoint_id);

	if (!mxi_directory.settings.network || entry->board.loopback || entry->board.address[0] == '\0')
		return MX_SUCCESS;
	entry->udp_fd = mxi_post_udp(&entry->board, port);
	if (entry->udp_fd >= 0 || errno != EADDRINUSE)
		return MX_SUCCESS;
	error_set(THOLE_ERR_BUSY, "UDP port %u of %s, by which other hosts find endpoint %u, is another program's; the option "
		  "mx_port moves all of them, and has to be the same on all hosts", port, entry->board.address, entry->endpoint_id);
	return MX_NO_RESOURCES;
}

/* The world as it is now: settings with the first entry, boards with each. */
static mx_return_t look_around(void)
{
	if (list_empty(&mxi_directory.entries) && mxi_settings_load(&mxi_directory.settings) != 0)
		return MX_NO_RESOURCES;
	mxi_directory.boards_count = mxi_board_list(mxi_directory.boards, MXI_BOARDS_MAX);
	group_join();
	return MX_SUCCESS;
}

static mx_return_t entry_claim(struct mxi_entry *entry)
{
	mx_return_t code = look_around();

	if (code == MX_SUCCESS)
		code = bind_local(entry);
	if (code == MX_SUCCESS)
		code = bind_network(entry);
	if (code == MX_SUCCESS) {
		list_push_back(&mxi_directory.entries, &entry->node);
		entry->claimed = true;
	} else {
		fd_close(&entry->unix_fd);
	}
	return code;
}

mx_return_t mxi_directory_claim(struct mxi_entry *entry, const struct mxi_board *board, uint32_t endpoint_id)
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
		error_set(THOLE_ERR_ARGUMENT, "endpoint %u: numbers are from 0 to %d", endpoint_id, MXI_ENDPOINT_ID_MAX);
		return MX_BAD_ENDPOINT_ID;
	}
	pthread_once(&once, forks_register);
	pthread_mutex_lock(&mxi_directory.mutex);
	code = entry_claim(entry);
	pthread_mutex_unlock(&mxi_directory.mutex);
	return code;
}

/* So that tables of other hosts know us before they ask. */
static void announce(const struct mxi_entry *entry)
{
	struct mxi_notice notice;
	struct mxi_place group;

	if (entry->udp_fd < 0 || mxi_directory.settings.group.s_addr == 0)
		return;
	notice_here(&notice, &entry->board);
	mxi_place_group(&group, &mxi_directory.settings);
	mxi_post_send(entry->udp_fd, &group, &notice);
}

static mx_return_t entry_publish(struct mxi_entry *entry)
{
	mx_return_t code = mxi_directory.running ? MX_SUCCESS : listener_start();

	if (code != MX_SUCCESS)
		return code;
	entry->published = true;
	if (watch(entry->unix_fd) != 0 || (entry->udp_fd >= 0 && watch(entry->udp_fd) != 0)) {
		error_set(THOLE_ERR_SYSTEM, "cannot watch the sockets of endpoint %u: %m", entry->endpoint_id);
		return MX_NO_RESOURCES; /* the withdrawal, which is the caller's, ends the thread */
	}
	announce(entry);
	return MX_SUCCESS;
}

mx_return_t mxi_directory_publish(struct mxi_entry *entry)
{
	mx_return_t code;

	pthread_mutex_lock(&mxi_directory.mutex);
	while (mxi_directory.ending)
		pthread_cond_wait(&mxi_directory.changed, &mxi_directory.mutex);
	code = entry_publish(entry);
	pthread_mutex_unlock(&mxi_directory.mutex);
	return code;
}

static bool any_published(void)
{
	struct list_node *node = list_first(&mxi_directory.entries);

	while (node && !container_of(node, struct mxi_entry, node)->published)
		node = list_next(&mxi_directory.entries, node);
	return node != NULL;
}

/* Nothing begins for it any more, and what the thread does for it has ended. */
static void entry_retire(struct mxi_entry *entry)
{
	list_remove(&entry->node);
	while (entry->counting)
		pthread_cond_wait(&mxi_directory.changed, &mxi_directory.mutex);
	unwatch(entry->unix_fd);
	unwatch(entry->udp_fd);
}

void mxi_directory_retire(struct mxi_entry *entry)
{
	pthread_mutex_lock(&mxi_directory.mutex);
	if (entry->claimed)
		entry_retire(entry);
	pthread_mutex_unlock(&mxi_directory.mutex);
}

void mxi_directory_withdraw(struct mxi_entry *entry)
{
	pthread_mutex_lock(&mxi_directory.mutex);
	if (entry->claimed) {
		entry_retire(entry);
		entry_close(entry);
		if (mxi_directory.running && !mxi_directory.ending && !any_published())
			thread_stop();
	}
	pthread_mutex_unlock(&mxi_directory.mutex);
}

bool mxi_directory_who(struct mxi_entry *entry, const struct thole_address *address, struct mxi_identity *identity_p)
{
	bool found;

	pthread_mutex_lock(&mxi_directory.mutex);
	found = mxi_askers_find(&entry->askers, address, identity_p);
	pthread_mutex_unlock(&mxi_directory.mutex);
	return found;
}
