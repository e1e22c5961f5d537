/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory inside a host: claims, questions and answers within a process and between two, the end of both, noise.
 *
 * The entries are on board 0, whatever that is; the network is off. Between hosts: test/system/mx_find.c.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <sys/wait.h>

#include "mx_actor.h"
#include "mx_notice.h"
#include "mx_place.h"
#include "mx_post.h"

enum {
	ID = 201,         /* of this process's entry, */
	OTHER_ID = 202,   /* of another one, here or in the actor, */
	FREE_ID = 203,    /* of none */
	KEY = 4711,
	NOISES = 20000,
};
#define FOREIGN_NIC UINT64_C(0x02fffffffff1)

static struct actor actor;
static uint64_t nic;

/* In a namespace of its own where that is permitted, so that no other program has the numbers. The actor is forked
 * while this process has no thread. */
static int group_setup(void **state)
{
	struct mxi_board board;

	(void)state;
	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		print_message("not in a network namespace of its own: numbers %d to %d are taken for free\n", ID,
			      ID + 3);
	setenv("THOLE_OPTIONS_FILE", "", 1);
	setenv("THOLE_NETWORK", "off", 1);
	setenv("THOLE_MX_HOSTS", "/nonexistent/hosts", 1);
	actor_start(&actor, NULL, 0);
	if (mxi_board_get(0, &board) != MX_SUCCESS)
		return -1;
	nic = board.nic_id;
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	return actor_end(&actor);
}

static void open_entry(struct mxi_entry *entry, unsigned id)
{
	assert_int_equal(actor_open(entry, id, KEY), MX_SUCCESS);
}

static struct mxi_query asked(struct mxi_entry *entry, uint64_t nic_id, unsigned id, unsigned key,
			      unsigned milliseconds)
{
	struct mxi_query query = {.nic_id = nic_id,
				  .endpoint_id = id,
				  .key = key,
				  .deadline_ns = milliseconds == 0 ? UINT64_MAX
								   : clock_now_ns() + milliseconds * UINT64_C(1000000)};

	actor_ask(entry, &query);
	return query;
}

/* Threads of this process with the directory's name. */
static unsigned threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned count = 0;
	struct dirent *task;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file))
			count += strcmp(name, "thole-mx\n") == 0;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return count;
}

/* The kernel shows a thread for a while after it has ended. */
static void await_no_thread(void)
{
	while (threads() > 0)
		usleep(1000);
}

/* ---- Claims ---------------------------------------------------------------------------------------- */

static void claim__is_one_processs_at_a_time(void **state)
{
	struct mxi_entry entry, again;
	struct mxi_board board;

	(void)state;
	assert_int_equal(mxi_board_get(0, &board), MX_SUCCESS);
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_SUCCESS);
	assert_int_equal(mxi_directory_claim(&again, &board, ID), MX_BUSY);
	assert_non_null(strstr(thole_detail(), "endpoint 201"));
	assert_string_equal(actor_tell(&actor, "claim %d", ID), "20"); /* MX_BUSY */
	mxi_directory_withdraw(&again); /* nothing to it */
	assert_string_equal(actor_tell(&actor, "claim %d", ID), "20");
	mxi_directory_withdraw(&entry);
	mxi_directory_withdraw(&entry);
	assert_string_equal(actor_tell(&actor, "claim %d", ID), "0");
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_BUSY);
	actor_tell(&actor, "close");
	assert_int_equal(mxi_directory_claim(&entry, &board, 256), MX_BAD_ENDPOINT_ID);
}

/* A UDP socket of the loopback, which is up from then on. */
static int loopback_bind(uint16_t port)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ifreq request = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
	request.ifr_flags |= IFF_UP;
	(void)ioctl(fd, SIOCSIFFLAGS, &request); /* or it is up, and not ours */
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

/* Whoever wants any number goes on to the next. */
static void claim__of_a_number_whose_port_is_taken(void **state)
{
	struct mxi_board board = {.nic_id = FOREIGN_NIC, .interface = "lo", .address = "127.0.0.1"};
	struct mxi_entry entry;
	int fd;

	(void)state;
	setenv("THOLE_NETWORK", "auto", 1);
	fd = loopback_bind(7480 + 1 + ID); /* the option mx_port */
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_BUSY);
	assert_non_null(strstr(thole_detail(), "mx_port"));
	assert_int_equal(mxi_directory_claim(&entry, &board, ID + 1), MX_SUCCESS);
	assert_true(entry.udp_fd >= 0);
	mxi_directory_withdraw(&entry);
	close(fd);
	setenv("THOLE_NETWORK", "off", 1);
}

static int refused_family;    /* sockets of this kind; 0: none */
static int watches_left = -1; /* that may be added; -1: any number */

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);

int __wrap_socket(int family, int type, int protocol)
{
	if (family != refused_family)
		return __real_socket(family, type, protocol);
	errno = EMFILE;
	return -1;
}

int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	if (what != EPOLL_CTL_ADD || watches_left < 0 || watches_left-- > 0)
		return __real_epoll_ctl(epoll, what, fd, event);
	errno = ENOSPC;
	return -1;
}

/* It would be one that no other host finds as long as it is open, or that finds none. */
static void claim__without_descriptors(void **state)
{
	struct mxi_board board = {.nic_id = FOREIGN_NIC, .interface = "lo", .address = "127.0.0.1"};
	struct mxi_entry entry;

	(void)state;
	setenv("THOLE_NETWORK", "auto", 1);
	refused_family = AF_INET;
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_NO_RESOURCES);
	assert_non_null(strstr(thole_detail(), "UDP port"));
	refused_family = 0;
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_SUCCESS);
	assert_true(entry.udp_fd >= 0);
	refused_family = AF_INET;
	assert_int_equal(mxi_directory_publish(&entry), MX_NO_RESOURCES);
	assert_non_null(strstr(thole_detail(), "mx_group"));
	refused_family = 0;
	mxi_directory_withdraw(&entry);
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_SUCCESS);
	watches_left = 1; /* the timer's */
	assert_int_equal(mxi_directory_publish(&entry), MX_NO_RESOURCES);
	watches_left = 0; /* the thread is there by now */
	assert_int_equal(mxi_directory_publish(&entry), MX_NO_RESOURCES);
	assert_non_null(strstr(thole_detail(), "mx_group"));
	watches_left = -1;
	assert_int_equal(mxi_directory_publish(&entry), MX_SUCCESS);
	mxi_directory_withdraw(&entry);
	await_no_thread();
	setenv("THOLE_NETWORK", "off", 1);
}

static void claim__ends_with_its_process(void **state)
{
	struct actor victim;
	struct mxi_entry entry;

	(void)state;
	actor_start(&victim, NULL, 0);
	assert_string_equal(actor_tell(&victim, "open %d %d", OTHER_ID, KEY), "0");
	assert_int_equal(actor_open(&entry, OTHER_ID, KEY), MX_BUSY);
	assert_true(WIFSIGNALED(actor_kill(&victim)));
	open_entry(&entry, OTHER_ID);
	actor_close(&entry);
}

/* The child has no entry, and what it does harms none of the parent's. */
static void claim__is_not_inherited(void **state)
{
	struct mxi_entry entry, childs;
	struct mxi_board board;
	pid_t pid;
	int ends[2];
	char byte;

	(void)state;
	open_entry(&entry, ID);
	assert_int_equal(mxi_board_get(0, &board), MX_SUCCESS);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		mxi_directory_withdraw(&entry);
		_exit(mxi_directory_claim(&childs, &board, ID) == MX_BUSY &&
				      mxi_directory_claim(&childs, &board, OTHER_ID) == MX_SUCCESS
			      ? 0
			      : 1);
	}
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(asked(&entry, nic, ID, KEY, 0).status, MX_STATUS_SUCCESS);

	assert_int_equal(pipe(ends), 0);
	pid = fork(); /* one that lives on does not keep the name */
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ends[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	assert_int_equal(read(ends[0], &byte, 1), 1); /* it has left fork */
	actor_close(&entry);
	open_entry(&entry, ID);
	actor_close(&entry);
	kill(pid, SIGKILL);
	child_status(pid);
	close(ends[0]);
	close(ends[1]);
}

static void thread__is_there_while_an_entry_is(void **state)
{
	struct mxi_entry one, two;

	(void)state;
	await_no_thread();
	open_entry(&one, ID);
	open_entry(&two, OTHER_ID);
	assert_int_equal(threads(), 1);
	actor_close(&one);
	assert_int_equal(threads(), 1);
	actor_close(&two);
	await_no_thread();
}

static void *open_and_close(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 50; i++) {
		struct mxi_entry entry;

		if (actor_open(&entry, id, KEY) != MX_SUCCESS ||
		    asked(&entry, nic, id, KEY, 0).status != MX_STATUS_SUCCESS)
			return arg;
		actor_close(&entry);
	}
	return NULL;
}

/* It ends also where it cannot be woken: a program that closes what it did not open closes its endpoints all the
 * same. */
static void thread__ends_without_descriptors(void **state)
{
	enum { LIMIT_S = 20 };
	struct mxi_entry entry;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it permits no threads in a child of several */
#endif
	if ((child = fork()) == 0) {
		alarm(LIMIT_S);
		open_entry(&entry, ID);
		closefrom(3);
		mxi_directory_withdraw(&entry);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
}

static void entries__come_and_go_in_threads(void **state)
{
	pthread_t others[4];
	void *result;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&others[i], NULL, open_and_close, (void *)(uintptr_t)(ID + i)), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(others[i], &result), 0);
		assert_null(result);
	}
	await_no_thread();
}

/* ---- Questions ------------------------------------------------------------------------------------- */

static void question__is_answered_within_a_process(void **state)
{
	struct mxi_entry one, two;
	struct mxi_query query;

	(void)state;
	open_entry(&one, ID);
	open_entry(&two, OTHER_ID);
	query = asked(&one, nic, OTHER_ID, KEY, 0);
	assert_int_equal(query.status, MX_STATUS_SUCCESS);
	assert_memory_equal(&query.address, &two.address, sizeof(two.address));
	assert_int_equal(query.session, two.session);
	query = asked(&one, nic, ID, KEY, 0); /* itself */
	assert_int_equal(query.status, MX_STATUS_SUCCESS);
	assert_memory_equal(&query.address, &one.address, sizeof(one.address));
	actor_close(&one);
	actor_close(&two);
}

static void question__is_answered_by_another_process(void **state)
{
	char address[THOLE_ADDRESS_MAX], line[ACTOR_LINE];
	struct mxi_identity identity;
	struct thole_address actors = {0};
	struct mxi_entry entry;
	struct mxi_query query;

	(void)state;
	open_entry(&entry, ID);
	assert_string_equal(actor_tell(&actor, "open %d %d", OTHER_ID, KEY + 1), "0");
	snprintf(address, sizeof(address), "actor-%d-%d", (int)actor.pid, OTHER_ID);
	strcpy(actors.text, address);

	query = asked(&entry, nic, OTHER_ID, KEY + 1, 0);
	assert_int_equal(query.status, MX_STATUS_SUCCESS);
	assert_string_equal(query.address.text, address);
	assert_int_equal(query.session, actor.pid);
	snprintf(line, sizeof(line), "%012llx %d %u", (unsigned long long)nic, ID, entry.session);
	assert_string_equal(actor_tell(&actor, "who %s", entry.address.text), line);

	assert_false(mxi_directory_who(&entry, &actors, &identity)); /* it has not asked yet */
	snprintf(line, sizeof(line), "0 %u %s", entry.session, entry.address.text);
	assert_string_equal(actor_tell(&actor, "ask %llx %d %d 60000", (unsigned long long)nic, ID, KEY), line);
	assert_true(mxi_directory_who(&entry, &actors, &identity));
	assert_true(identity.nic_id == nic && identity.endpoint_id == OTHER_ID &&
		    identity.session == (uint32_t)actor.pid);
	actor_tell(&actor, "close");
	actor_close(&entry);
}

static void question__with_a_wrong_key_is_refused(void **state)
{
	struct mxi_entry one, two;
	struct mxi_identity identity;
	struct mxi_query query;

	(void)state;
	open_entry(&one, ID);
	open_entry(&two, OTHER_ID);
	query = asked(&one, nic, OTHER_ID, KEY + 1, 0);
	assert_int_equal(query.status, MX_STATUS_BAD_KEY);
	assert_string_equal(query.address.text, "");
	assert_false(mxi_directory_who(&two, &one.address, &identity));
	assert_int_equal(asked(&one, nic, OTHER_ID, KEY, 0).status, MX_STATUS_SUCCESS);
	assert_true(mxi_directory_who(&two, &one.address, &identity));
	assert_false(mxi_directory_who(&two, &two.address, &identity));
	actor_close(&one);
	actor_close(&two);
}

static void question__for_a_closed_endpoint_ends_at_once(void **state)
{
	struct mxi_entry one, two;

	(void)state;
	open_entry(&one, ID);
	assert_int_equal(asked(&one, nic, FREE_ID, KEY, 0).status, MX_STATUS_ENDPOINT_CLOSED);
	assert_int_equal(asked(&one, nic, 256, KEY, 0).status, MX_STATUS_BAD_ENDPOINT);
	open_entry(&two, OTHER_ID);
	assert_int_equal(asked(&one, nic, OTHER_ID, KEY, 0).status, MX_STATUS_SUCCESS);
	actor_close(&two);
	assert_int_equal(asked(&one, nic, OTHER_ID, KEY, 0).status, MX_STATUS_ENDPOINT_CLOSED);
	actor_close(&one);
}

/* One that is being opened is waited for; one that ends instead is closed. */
static void question__waits_for_an_endpoint_that_is_opening(void **state)
{
	struct mxi_entry one, two;
	struct mxi_board board;
	struct mxi_query query = {.from = &one, .nic_id = nic, .endpoint_id = OTHER_ID, .deadline_ns = UINT64_MAX};

	(void)state;
	assert_int_equal(mxi_board_get(0, &board), MX_SUCCESS);
	open_entry(&one, ID);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(mxi_directory_claim(&two, &board, OTHER_ID), MX_SUCCESS);
		mxi_directory_ask(&query);
		assert_int_equal(load_acquire(&query.done), 0); /* partner: the directory */
		strcpy(two.address.text, "late");
		if (round == 0)
			assert_int_equal(mxi_directory_publish(&two), MX_SUCCESS);
		else
			mxi_directory_withdraw(&two);
		while (!load_acquire(&query.done)) /* the same */
			usleep(1000);
		assert_int_equal(query.status, round == 0 ? MX_STATUS_SUCCESS : MX_STATUS_ENDPOINT_CLOSED);
		mxi_directory_withdraw(&two);
	}
	actor_close(&one);
}

static void question__ends_at_its_deadline(void **state)
{
	struct mxi_entry one, two;
	struct mxi_board board;

	(void)state;
	assert_int_equal(mxi_board_get(0, &board), MX_SUCCESS);
	open_entry(&one, ID);
	assert_int_equal(asked(&one, FOREIGN_NIC, ID, KEY, 50).status, MX_STATUS_ENDPOINT_UNKNOWN);
	assert_int_equal(mxi_directory_claim(&two, &board, OTHER_ID), MX_SUCCESS); /* it is there, and silent */
	assert_int_equal(asked(&one, nic, OTHER_ID, KEY, 50).status, MX_STATUS_ENDPOINT_UNREACHABLE);
	mxi_directory_withdraw(&two);
	actor_close(&one);
}

static void question__can_be_canceled(void **state)
{
	struct mxi_entry entry;
	struct mxi_query query = {.from = &entry, .nic_id = FOREIGN_NIC, .deadline_ns = UINT64_MAX}, done;

	(void)state;
	open_entry(&entry, ID);
	mxi_directory_ask(&query);
	assert_true(mxi_directory_cancel(&query));
	assert_int_equal(query.done, 0);
	memset(&query, 0xa5, sizeof(query)); /* nobody minds */
	done = asked(&entry, nic, ID, KEY, 0);
	assert_false(mxi_directory_cancel(&done));
	assert_int_equal(asked(&entry, FOREIGN_NIC, ID, KEY, 50).status, MX_STATUS_ENDPOINT_UNKNOWN);
	actor_close(&entry);
}

static void questions__of_many_are_answered(void **state)
{
	enum { MANY = 300 };
	static struct mxi_query queries[MANY];
	struct mxi_entry entry;

	(void)state;
	open_entry(&entry, ID);
	for (unsigned i = 0; i < MANY; i++) {
		queries[i] = (struct mxi_query){.from = &entry, .nic_id = nic, .endpoint_id = i % 2 ? ID : FREE_ID,
						.key = KEY + i % 4 / 2, .deadline_ns = UINT64_MAX};
		mxi_directory_ask(&queries[i]);
	}
	for (unsigned i = 0; i < MANY; i++) {
		while (!load_acquire(&queries[i].done)) /* partner: the directory */
			usleep(1000);
		assert_int_equal(queries[i].status, i % 2 == 0      ? MX_STATUS_ENDPOINT_CLOSED
						    : i % 4 / 2 == 0 ? MX_STATUS_SUCCESS
								     : MX_STATUS_BAD_KEY);
	}
	while (load_acquire(&entry.answers) != MANY) /* partner: the directory, after the last of them */
		usleep(1000);
	actor_close(&entry);
}

/* ---- STATUS, and noise ----------------------------------------------------------------------------- */

static int stranger_socket(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name.sun_family)) == 0); /* any name */
	return fd;
}

static void counters_fill(struct mxi_entry *entry, uint64_t *values, size_t count)
{
	(void)entry;
	for (size_t i = 0; i < count; i++)
		values[i] = 100 + i;
}

static struct mxi_notice status_of(unsigned id)
{
	struct mxi_notice notice = {.type = MXI_NOTICE_STATUS, .token = 42};
	struct pollfd look = {.fd = stranger_socket(), .events = POLLIN};
	struct mxi_place place;

	mxi_place_endpoint(&place, nic, id);
	assert_int_equal(mxi_post_send(look.fd, &place, &notice), 0);
	poll(&look, 1, -1);
	assert_int_equal(mxi_post_receive(look.fd, &notice, &place), MXI_POST_NOTICE);
	assert_int_equal(notice.type, MXI_NOTICE_STATUS_ANSWER);
	assert_true(notice.token == 42);
	close(look.fd);
	return notice;
}

/* A TCP socket whose last close would wait for an hour, since the other end takes no more bytes. */
static int lingering_socket(int *listener_p)
{
	static const char bytes[1 << 16];
	struct linger linger = {1, 3600};
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*listener_p = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*listener_p, (struct sockaddr *)&name, size), 0);
	assert_int_equal(listen(*listener_p, 1), 0);
	assert_int_equal(getsockname(*listener_p, (struct sockaddr *)&name, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&name, size), 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

/* Send a byte to a place, with a descriptor. Returns 0 or an errno. */
static int place_send(const struct mxi_place *place, int descriptor)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec data = {"x", 1};
	struct msghdr message = {.msg_name = (void *)(uintptr_t)&place->any, .msg_namelen = place->size,
				 .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = &control.align;
	int fd = stranger_socket(), error;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
	error = sendmsg(fd, &message, MSG_DONTWAIT) < 0 ? errno : 0;
	close(fd);
	return error;
}

/* Descriptors that are sent to an endpoint's name do not hold up who reads the message. Who only holds a name gets
 * none. */
static void noise__with_descriptors(void **state)
{
	struct mxi_place place;
	struct mxi_entry entry;
	int listener, descriptor = lingering_socket(&listener), fd, error;

	(void)state;
	open_entry(&entry, ID);
	mxi_place_endpoint(&place, nic, ID);
	error = place_send(&place, descriptor); /* Linux may refuse it, from 6.16 on */
	if (error)
		assert_int_equal(error, EPERM);
	mxi_place_endpoint(&place, nic, OTHER_ID);
	fd = mxi_post_claim(&place);
	assert_true(fd >= 0);
	assert_int_equal(mxi_post_claim(&place), -1);
	assert_int_equal(place_send(&place, descriptor), EPIPE);
	close(fd);
	if (error) /* it is here alone */
		setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
	close(descriptor);
	(void)status_of(ID);
	actor_close(&entry);
	close(listener);
}

static void status__is_told_to_anyone(void **state)
{
	struct thole_counter_info info;
	struct mxi_board board;
	struct mxi_entry entry;
	struct mxi_notice notice;

	(void)state;
	open_entry(&entry, ID);
	notice = status_of(ID);
	assert_int_equal(notice.count, 0);
	actor_close(&entry);
	assert_int_equal(mxi_board_get(0, &board), MX_SUCCESS);
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_SUCCESS);
	strcpy(entry.address.text, "counted");
	entry.session = 77;
	entry.counters = counters_fill;
	assert_int_equal(mxi_directory_publish(&entry), MX_SUCCESS);
	notice = status_of(ID);
	assert_true(notice.pid == (uint32_t)getpid() && notice.from.nic_id == nic && notice.from.endpoint_id == ID);
	assert_int_equal(notice.from.session, entry.session);
	assert_string_equal(notice.address.text, entry.address.text);
	assert_int_equal(strncmp(notice.command, program_invocation_short_name, sizeof(notice.command) - 1), 0);
	assert_true(notice.count > 0 && notice.counters[notice.count - 1] == 100u + notice.count - 1);
	assert_int_equal(thole_counter_info(notice.count, &info), THOLE_ERR_NOT_FOUND);
	actor_close(&entry);
}

/* Another user asks for the status of an endpoint, and for the address. */
static int other_user(unsigned id)
{
	struct mxi_notice notices[] = {
		{.type = MXI_NOTICE_STATUS, .token = 42},
		{.type = MXI_NOTICE_CONNECT, .token = 43, .from = {1, 2, 3}, .nic_id = nic, .endpoint_id = id},
	};
	struct mxi_place place;
	int fd;

	if (setuid(65534) != 0)
		return -1;
	fd = stranger_socket();
	mxi_place_endpoint(&place, nic, id);
	for (int i = 0; i < 2; i++)
		if (mxi_post_send(fd, &place, &notices[i]) != 0)
			return -1;
	return fd;
}

static void other_users_are_not_answered(void **state)
{
	int to_child[2], to_parent[2], status;
	struct mxi_notice notice;
	struct mxi_entry entry;
	uint32_t dropped;
	char byte = 0;

	(void)state;
	if (geteuid() != 0)
		skip();
	open_entry(&entry, ID);
	dropped = status_of(ID).dropped;
	assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
	if (fork() == 0) {
		int fd = other_user(ID);

		(void)!write(to_parent[1], &byte, 1);
		(void)!read(to_child[0], &byte, 1); /* until it was all looked at */
		_exit(fd < 0 || recv(fd, &byte, 1, MSG_DONTWAIT) >= 0);
	}
	assert_int_equal(read(to_parent[0], &byte, 1), 1);
	notice = status_of(ID); /* which is asked behind them */
	assert_int_equal(notice.dropped, dropped + 2);
	assert_int_equal(write(to_child[1], &byte, 1), 1);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++)
		close(to_child[i]), close(to_parent[i]);
	actor_close(&entry);
}

/* To user uid, in a user namespace that has a number for nobody: all users are called the same there. */
static bool become_unmapped(uid_t uid)
{
	return setuid(uid) == 0 && unshare(CLONE_NEWUSER) == 0;
}

/* What a process of user 1000 gets of one of user uid, if both are called the same: an enum mxi_post_got. */
static int unmapped_post(uid_t uid)
{
	struct mxi_notice notice = {.type = MXI_NOTICE_STATUS, .token = 42};
	struct mxi_place place;
	int ready[2], got;
	pid_t child;
	char byte = 0;

	mxi_place_endpoint(&place, nic, ID);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		struct pollfd look = {.fd = become_unmapped(1000) ? mxi_post_local(&place) : -1, .events = POLLIN};

		(void)!write(ready[1], &byte, 1);
		_exit(look.fd >= 0 && poll(&look, 1, 10000) == 1 ? (int)mxi_post_receive(look.fd, &notice, &place)
								  : MXI_POST_NOTHING);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	if (fork() == 0) {
		got = become_unmapped(uid) ? mxi_post_send(stranger_socket(), &place, &notice) : -1;
		(void)!read(ready[0], &byte, 1); /* until it was looked at */
		_exit(got != 0);
	}
	assert_int_equal(waitpid(child, &got, 0), child);
	assert_int_equal(write(ready[1], &byte, 1), 1);
	assert_true(wait(&child) > 0);
	close(ready[0]), close(ready[1]);
	return WEXITSTATUS(got);
}

/* The kernel's number for a sender does not say which user he is, if it has none for any. */
static void other_users_without_a_number(void **state)
{
	(void)state;
	if (geteuid() != 0 || unmapped_post(1000) == MXI_POST_NOTHING)
		skip();
	assert_int_equal(unmapped_post(1000), MXI_POST_NOTICE);
	assert_int_equal(unmapped_post(1001), MXI_POST_NOISE);
}

static int counting, counted;

static void counters_slow(struct mxi_entry *entry, uint64_t *values, size_t count)
{
	(void)entry, (void)values, (void)count;
	store_release(&counting, 1); /* partner: the test */
	usleep(50000);
	store_release(&counted, 1); /* the same */
}

/* An entry is its endpoint's again only when nobody counts for it any more. */
static void status__is_waited_for_by_the_end(void **state)
{
	struct mxi_notice notice = {.type = MXI_NOTICE_STATUS};
	struct mxi_board board;
	struct mxi_entry entry, other;
	struct mxi_place place;
	int fd = stranger_socket();

	(void)state;
	assert_int_equal(mxi_board_get(0, &board), MX_SUCCESS);
	open_entry(&other, OTHER_ID); /* else the end would wait for the thread */
	assert_int_equal(mxi_directory_claim(&entry, &board, ID), MX_SUCCESS);
	entry.counters = counters_slow;
	assert_int_equal(mxi_directory_publish(&entry), MX_SUCCESS);
	mxi_place_endpoint(&place, nic, ID);
	assert_int_equal(mxi_post_send(fd, &place, &notice), 0);
	while (!load_acquire(&counting)) /* partner: counters_slow */
		usleep(100);
	mxi_directory_withdraw(&entry);
	assert_int_equal(load_acquire(&counted), 1); /* the same */
	actor_close(&other);
	close(fd);
}

/* Seeds, mutated, and pure chance: none of it answers a question or stops the directory. */
static void noise__is_dropped(void **state)
{
	const struct mxi_notice seeds[] = {
		{.type = MXI_NOTICE_FIND, .name = "host2:1"},
		{.type = MXI_NOTICE_HERE, .from = {.nic_id = FOREIGN_NIC}, .from_name = "host2:0"},
		{.type = MXI_NOTICE_CONNECT,
		 .from = {nic, ID, 1},
		 .address = {"x"},
		 .nic_id = nic,
		 .endpoint_id = ID,
		 .key = KEY},
		{.type = MXI_NOTICE_ANSWER, .token = 5, .status = MX_STATUS_SUCCESS, .address = {"x"}},
		{.type = MXI_NOTICE_STATUS_ANSWER, .count = 3},
	};
	int fd = stranger_socket();
	uint64_t seed = 1;
	uint8_t bytes[MXI_NOTICE_BYTES_MAX + 100];
	struct mxi_entry entry;
	struct mxi_query query = {.from = &entry, .nic_id = FOREIGN_NIC, .deadline_ns = UINT64_MAX};
	struct mxi_known known;
	struct mxi_place place;

	(void)state;
	open_entry(&entry, ID);
	mxi_directory_ask(&query);
	mxi_place_endpoint(&place, nic, ID);
	for (unsigned i = 0; i < NOISES; i++) {
		size_t length = mxi_notice_encode(&seeds[random_below(&seed, 5)], bytes);

		if (random_below(&seed, 8) == 0)
			length = random_below(&seed, sizeof(bytes));
		for (uint32_t times = random_below(&seed, 5); times > 0 && length > 0; times--)
			bytes[random_below(&seed, (uint32_t)length)] = (uint8_t)random_next(&seed);
		sendto(fd, bytes, length, 0, &place.any, place.size); /* blocks where the directory is behind */
		while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0)
			; /* answers to what was understood */
	}
	assert_in_range(status_of(ID).dropped, NOISES / 10, UINT32_MAX);
	assert_false(mxi_known_find(FOREIGN_NIC, &known)); /* inside a host nobody says where others are */
	assert_int_equal(asked(&entry, nic, ID, KEY, 0).status, MX_STATUS_SUCCESS);
	assert_true(mxi_directory_cancel(&query));
	actor_close(&entry);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claim__is_one_processs_at_a_time),
		cmocka_unit_test(claim__of_a_number_whose_port_is_taken),
		cmocka_unit_test(claim__without_descriptors),
		cmocka_unit_test(claim__ends_with_its_process),
		cmocka_unit_test(claim__is_not_inherited),
		cmocka_unit_test(thread__is_there_while_an_entry_is),
		cmocka_unit_test(thread__ends_without_descriptors),
		cmocka_unit_test(entries__come_and_go_in_threads),
		cmocka_unit_test(question__is_answered_within_a_process),
		cmocka_unit_test(question__is_answered_by_another_process),
		cmocka_unit_test(question__with_a_wrong_key_is_refused),
		cmocka_unit_test(question__for_a_closed_endpoint_ends_at_once),
		cmocka_unit_test(question__waits_for_an_endpoint_that_is_opening),
		cmocka_unit_test(question__ends_at_its_deadline),
		cmocka_unit_test(question__can_be_canceled),
		cmocka_unit_test(questions__of_many_are_answered),
		cmocka_unit_test(noise__with_descriptors),
		cmocka_unit_test(status__is_told_to_anyone),
		cmocka_unit_test(other_users_are_not_answered),
		cmocka_unit_test(other_users_without_a_number),
		cmocka_unit_test(status__is_waited_for_by_the_end),
		cmocka_unit_test(noise__is_dropped),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
