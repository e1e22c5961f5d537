/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_connect: that it ends, once and truly, in shared memory, over the network and with the keys of mxoe; how it is
 * given up, and what is said of peers then.
 *
 * getsockopt and sendmsg are replaced (by the linker's --wrap): the one may say that the other side is of another user,
 * the other keeps what an endpoint greets with, which this test then sends in its own way. So are epoll_ctl and socket,
 * which may find no room, and connect and memfd_create, which a filter may refuse.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/discard.h"
#include "endpoint/turn.h"
#include "wire.h"

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_epoll_ctl(int epoll, int command, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int command, int fd, struct epoll_event *event);
int __real_connect(int fd, const struct sockaddr *name, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *name, socklen_t size);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

#define NETWORK_A "host=a", "interface=lo", "link=udp", "close_timeout=10ms"
#define NETWORK_B "host=b", "interface=lo", "link=udp", "close_timeout=10ms"

enum { KEY_A = 5, KEY_B = 7, FOREIGN = 9 };

static const char *const key_a[] = {"job_key=5", NULL}, *const key_b[] = {"job_key=7", NULL};
static const char *const network_a[] = {NETWORK_A, NULL}, *const network_b[] = {NETWORK_B, NULL};

static struct thole_peer_info info_of(struct thole_endpoint *endpoint, uint32_t peer)
{
	struct thole_peer_info info;

	assert_int_equal(thole_peer_info(endpoint, peer, &info), 0);
	return info;
}

static struct thole_request *must_connect(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key)
{
	struct thole_request *request;

	assert_int_equal(thole_connect(endpoint, peer, key, NULL, &request), 0);
	return request;
}

/* ---- In shared memory ---------------------------------------------------------------------------------------- */

static void shm__connects(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static int context;
	struct thole_completion completion;
	struct thole_request *request;
	struct pair pair;
	uint32_t own;

	(void)state;
	pair_open(&pair, options);
	assert_string_equal(info_of(pair.a, pair.a_to_b).state, "new");
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, FOREIGN, &context, &request), 0);
	assert_int_equal(pair_finish(&pair, pair.a, request, &completion), 0);
	assert_int_equal(completion.operation, THOLE_OP_CONNECT);
	assert_ptr_equal(completion.context, &context);
	assert_int_equal(completion.peer, pair.a_to_b);
	assert_int_equal(completion.length, 0);
	assert_string_equal(info_of(pair.a, pair.a_to_b).state, "connected");
	assert_int_equal(info_of(pair.a, pair.a_to_b).session, 0);
	/* Again, to itself, and without a handle. */
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
	own = pair_peer(pair.a, pair.a);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, own, 0), NULL), 0);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, &context, NULL), 0);
	assert_int_equal(thole_poll(pair.a, &completion, 1), 1);
	assert_int_equal(completion.operation, THOLE_OP_CONNECT);
	assert_int_equal(completion.status, 0);
	pair_close(&pair);
}

/* What other users can read of an endpoint does not tell its id. */
static void shm__names_tell_no_id(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct sockaddr_un name;
	char line[512], id[32];
	struct pair pair;
	bool found = false;
	FILE *sockets;

	(void)state;
	pair_open(&pair, options);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)pair.a->base.parts.endpoint);
	connect_name(pair.a->base.parts.endpoint, &name);
	assert_null(strstr(name.sun_path + 1, id));
	sockets = fopen("/proc/net/unix", "r");
	assert_non_null(sockets);
	while (fgets(line, sizeof(line), sockets)) {
		assert_null(strstr(line, id));
		found |= strstr(line, name.sun_path + 1) != NULL;
	}
	assert_true(found);
	fclose(sockets);
	pair_close(&pair);
}

static void shm__nobody_is_there(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *request;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b + 1, 0, NULL, &request), THOLE_ERR_NOT_FOUND);
	thole_endpoint_close(pair.b);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request), THOLE_ERR_PEER);
	assert_non_null(strstr(thole_detail(), "the option host"));
	assert_string_equal(info_of(pair.a, pair.a_to_b).state, "gone");
	assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "ended");
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request), THOLE_ERR_PEER);
	thole_endpoint_close(pair.a);
}

/* What a filter or a security module refuses: local connections, files in memory (both: an errno). */
static struct {
	int connects, memory;
} forbidden;

/* What must not be connected to is not taken to have ended. */
static void shm__connections_are_forbidden(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static const int reasons[] = {EACCES, EPERM};
	struct thole_request *request;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;

		pair_open(&pair, options);
		forbidden.connects = reasons[i];
		assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request), THOLE_ERR_PEER);
		forbidden.connects = 0;
		assert_null(strstr(thole_detail(), "has ended"));
		assert_non_null(strstr(thole_detail(), strerror(reasons[i])));
		assert_non_null(strstr(thole_detail(), "shm=off"));
		pair_close(&pair);
	}
}

static struct {
	int sleeps;
	int64_t seconds;
	bool told; /* the loss, by then */
	int signals; /* that end a sleep 2 s before it is over */
	struct peer *peer;
} launcher;

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
	launcher.sleeps++;
	launcher.seconds = pause->tv_sec;
	launcher.told = launcher.peer && launcher.peer->base.gone;
	if (launcher.signals == 0)
		return 0;
	launcher.signals--;
	if (left)
		left->tv_sec = 2;
	errno = EINTR;
	return -1;
}

/* A launcher of ours hears of it first: once, and only where a process has died. */
static void launcher__may_end_the_job_first(void **state)
{
	static const char *const launched[] = {"network=off", "local_ranks=1", "launcher_grace=7s", NULL};
	static const char *const alone[] = {"network=off", "local_ranks=0", "launcher_grace=7s", NULL};
	static const char *const hasty[] = {"network=off", "local_ranks=1", "launcher_grace=0", NULL};
	static const struct {
		const char *const *options;
		int status, sleeps;
	} cases[] = {
		{launched, THOLE_ERR_PEER, 1},
		{launched, THOLE_ERR_CLOSED, 0},
		{launched, THOLE_ERR_ACCESS, 0},
		{alone, THOLE_ERR_PEER, 0},
		{hasty, THOLE_ERR_PEER, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair pair;

		pair_open(&pair, cases[i].options);
		launcher.sleeps = 0;
		launcher.peer = endpoint_peer(pair.a, pair.a_to_b);
		peer_lost(launcher.peer, cases[i].status);
		assert_int_equal(launcher.sleeps, cases[i].sleeps);
		assert_true(launcher.peer->base.gone);
		if (launcher.sleeps) {
			assert_int_equal(launcher.seconds, 7);
			assert_false(launcher.told);
		}
		pair_close(&pair);
	}
}

/* Signals that the program handles do not end its time. */
static void launcher__has_its_time(void **state)
{
	static const char *const options[] = {"network=off", "local_ranks=1", "launcher_grace=7s", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	launcher.sleeps = 0;
	launcher.signals = 1;
	launcher.peer = endpoint_peer(pair.a, pair.a_to_b);
	peer_lost(launcher.peer, THOLE_ERR_PEER);
	assert_int_equal(launcher.sleeps, 2);
	assert_int_equal(launcher.seconds, 2);
	assert_false(launcher.told);
	pair_close(&pair);
}

/* How long that is may be said later, */
static void launcher__is_given_time_later(void **state)
{
	static const char *const options[] = {"network=off", "local_ranks=1", "launcher_grace=0", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	launcher.sleeps = 0;
	launcher.peer = endpoint_peer(pair.a, pair.a_to_b);
	peer_lost(endpoint_peer(pair.a, pair_peer(pair.a, pair.a)), THOLE_ERR_PEER);
	assert_int_equal(launcher.sleeps, 0);
	assert_int_equal(thole_option_set(pair.a, "launcher_grace", "7s"), 0);
	peer_lost(launcher.peer, THOLE_ERR_PEER);
	assert_int_equal(launcher.sleeps, 1);
	assert_int_equal(launcher.seconds, 7);
	pair_close(&pair);
}

/* and who closes has nobody to tell. */
static void launcher__of_who_closes(void **state)
{
	static const char *const options[] = {"network=off", "local_ranks=1", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < 1000; i++) /* more than a ring holds */
		assert_int_equal(thole_send(pair.a, pair.a_to_b, "", 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	launcher.sleeps = 0;
	launcher.peer = NULL;
	endpoint_vanish(pair.b);
	thole_endpoint_close(pair.a);
	assert_int_equal(launcher.sleeps, 0);
}

static void launcher__of_who_has_ended_before(void **state)
{
	static const char *const options[] = {"network=off", "local_ranks=1", NULL};
	struct thole_request *request;
	struct pair pair, other;

	(void)state;
	pair_open(&pair, options);
	pair_open(&other, options);
	launcher.sleeps = 0;
	launcher.peer = endpoint_peer(pair.a, pair.a_to_b);
	thole_endpoint_close(pair.b);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request), THOLE_ERR_PEER);
	assert_int_equal(launcher.sleeps, 1);
	peer_lost(endpoint_peer(pair.a, pair_peer(pair.a, other.b)), THOLE_ERR_PEER);
	assert_int_equal(launcher.sleeps, 1);
	thole_endpoint_close(pair.a);
	pair_close(&other);
}

/* What an endpoint greets with: bytes, and a descriptor of its segment. */
static struct greeted {
	bool keep, foreign; /* a greeting is kept, and not sent; the other side of a socket is of another user */
	bool other;         /* a greeting is sent as by another version of Thole */
	int refused;        /* so many are not sent, since too many descriptors of the user's are under way, */
	int reason;         /* or for this */
	uint64_t bytes[32];
	size_t length;
	int fd;
} greeted;

/* What there is no room for, how often something was refused, and how often somebody's listener was connected to. */
static struct {
	bool watches, sockets, local; /* local: sockets of that kind alone */
	int refused, asked;
} wanting;

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	int error = __real_getsockopt(fd, level, name, value, size);

	if (error == 0 && level == SOL_SOCKET && name == SO_PEERCRED && greeted.foreign)
		((struct ucred *)value)->uid++;
	return error;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	int sent;

	if (greeted.refused > 0 && message->msg_control) {
		greeted.refused--;
		wanting.refused++;
		errno = greeted.reason ? greeted.reason : ETOOMANYREFS;
		return -1;
	}
	if (greeted.other && message->msg_control)
		((uint64_t *)message->msg_iov[0].iov_base)[1] ^= 1;
	if (!greeted.keep || !message->msg_control)
		return __real_sendmsg(fd, message, flags);
	greeted.length = message->msg_iov[0].iov_len;
	assert_true(greeted.length <= sizeof(greeted.bytes));
	memcpy(greeted.bytes, message->msg_iov[0].iov_base, greeted.length);
	memcpy(&sent, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof(sent));
	greeted.fd = dup(sent);
	return (ssize_t)greeted.length;
}

int __wrap_epoll_ctl(int epoll, int command, int fd, struct epoll_event *event)
{
	if (!wanting.watches || command != EPOLL_CTL_ADD)
		return __real_epoll_ctl(epoll, command, fd, event);
	wanting.refused++;
	errno = ENOSPC;
	return -1;
}

int __wrap_connect(int fd, const struct sockaddr *name, socklen_t size)
{
	wanting.asked += name->sa_family == AF_UNIX;
	if (!forbidden.connects || name->sa_family != AF_UNIX)
		return __real_connect(fd, name, size);
	errno = forbidden.connects;
	return -1;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (!forbidden.memory)
		return __real_memfd_create(name, flags);
	wanting.refused++;
	errno = forbidden.memory;
	return -1;
}

int __wrap_socket(int domain, int type, int protocol)
{
	if (!wanting.sockets && !(wanting.local && domain == AF_UNIX))
		return __real_socket(domain, type, protocol);
	wanting.refused++;
	errno = EMFILE;
	return -1;
}

static int nothing_forbidden(void **state)
{
	(void)state;
	forbidden.connects = forbidden.memory = 0;
	return 0;
}

/* A socket to who listens for b. */
static int greet_connect(const struct pair *pair)
{
	struct sockaddr_un name;
	socklen_t length = connect_name(pair->b->base.parts.endpoint, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&name, length), 0);
	return fd;
}

/* Send b what a has greeted with. */
static void greet_send(int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec data = {greeted.bytes, greeted.length};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &greeted.fd, sizeof(int));
	assert_int_equal(__real_sendmsg(fd, &message, 0), greeted.length);
}

/* The same by a socket that this returns. */
static int greet(const struct pair *pair)
{
	int fd = greet_connect(pair);

	greet_send(fd);
	return fd;
}

/* A pair of which a has greeted b, who does not know of it. */
static void greet_open(struct pair *pair)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *request;

	pair_open(pair, options);
	greeted = (struct greeted){.keep = true};
	assert_int_equal(thole_connect(pair->a, pair->a_to_b, 0, NULL, &request), 0);
	greeted.keep = false;
	assert_true(greeted.length > 0);
}

static void greet_close(struct pair *pair, int fd)
{
	close(fd);
	close(greeted.fd);
	pair_close(pair);
}

static const struct segment *greet_segment(const struct pair *pair)
{
	const struct shm_peer *link = shm_link(&endpoint_peer(pair->b, pair->b_to_a)->base);

	return link ? link->in.segment : NULL;
}

/* What a has greeted with lets its sender in, or does not. (a itself, who says nothing, may be refused meanwhile.) */
static void greet_works(struct pair *pair, bool expected)
{
	uint64_t refused = pair_counter(pair->b, "refused");
	int fd = greet(pair);

	for (int i = 0; i < PAIR_TURNS_MAX && !greet_segment(pair); i++) {
		if (!expected && pair_counter(pair->b, "refused") > refused)
			break;
		thole_progress(pair->b);
	}
	assert_true((greet_segment(pair) != NULL) == expected);
	close(fd);
}

static char told[256]; /* of what has failed for good, or is wanting, */
static int tellings;   /* and how often that was said */

static void note_trouble(const struct transport_owner *owner)
{
	(void)owner;
	tellings++;
	snprintf(told, sizeof(told), "%s", thole_detail());
}

/* Who has another Thole is told apart from other strangers, whatever the length of what it greets with. */
static void greeting__of_another_version(void **state)
{
	struct pair pair;

	(void)state;
	greet_open(&pair);
	pair.b->base.trouble = note_trouble;
	greeted.bytes[0] ^= 1; /* magic */
	greeted.bytes[1] ^= 1; /* version */
	greet_works(&pair, false);
	assert_string_equal(told, "");
	greeted.bytes[0] ^= 1;
	for (int i = 0; i < 2; i++) {
		greet_works(&pair, false);
		assert_non_null(strstr(told, "another version of Thole"));
		told[0] = 0;
		greeted.length -= 8;
	}
	greeted.bytes[1] ^= 1;
	greet_works(&pair, false);
	assert_string_equal(told, "");
	pair.b->base.trouble = NULL;
	greet_close(&pair, -1);
}

/* Who has another Thole is lost by that, and knows it. In the second round it has sent a descriptor, too, which nobody
 * reads. */
static void greeting__to_another_version(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *request, *late;
	struct pair pair;

	(void)state;
	for (int more = 0; more < 2; more++) {
		pair_open(&pair, options);
		pair.a->base.trouble = note_trouble;
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, NULL, 0, 1, 0, 0, NULL, &request), 0);
		greeted = (struct greeted){.other = true};
		assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, NULL), 0);
		greeted.other = false;
		if (more)
			connect_send(shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)->watch_out.fd, "", 1, 0);
		assert_int_equal(pair_finish(&pair, pair.a, request, NULL), THOLE_ERR_PROTOCOL);
		assert_non_null(strstr(told, "another version of Thole"));
		told[0] = 0;
		assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 0, 0, 0, NULL, &late), THOLE_ERR_PROTOCOL);
		assert_non_null(strstr(thole_detail(), "another version of Thole"));
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, NULL, 0, 1, 0, 0, NULL, &late), THOLE_ERR_PROTOCOL);
		assert_non_null(strstr(thole_detail(), "another version of Thole"));
		pair.a->base.trouble = NULL;
		pair_close(&pair);
	}
}

/* Any word of a greeting that is another one makes it somebody else's, but those behind the name of who is meant, which
 * say where a page is. */
static void greeting__is_checked(void **state)
{
	struct pair pair;

	(void)state;
	greet_open(&pair);
	greeted.bytes[0] ^= 1; /* magic */
	greet_works(&pair, false);
	greeted.bytes[0] ^= 1;
	greeted.bytes[1] ^= 1; /* version */
	greet_works(&pair, false);
	greeted.bytes[1] ^= 1;
	greeted.bytes[greeted.length / 8 - 3] ^= 1; /* who is meant */
	greet_works(&pair, false);
	greeted.bytes[greeted.length / 8 - 3] ^= 1;
	greeted.length -= 8;
	greet_works(&pair, false);
	greeted.length += 8;
	greeted.foreign = true;
	greet_works(&pair, false);
	greeted.foreign = false;
	greet_works(&pair, true);
	greet_close(&pair, -1);
}

/* A listener is of who opened it, also if its process has another user by now. */
static void greeting__of_who_it_was(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *request;

	(void)state;
	for (int was = 0; was < 2; was++) {
		struct pair pair;

		pair_open(&pair, options);
		greeted.foreign = true;
		if (was) {
			shm_of(&pair.a->base)->opened_by = shm_of(&pair.b->base)->opened_by = geteuid() + 1;
			assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
		} else {
			assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request), THOLE_ERR_PEER);
			assert_non_null(strstr(thole_detail(), "another user"));
			assert_non_null(strstr(thole_detail(), "shm=off"));
		}
		greeted.foreign = false;
		pair_close(&pair);
	}
}

/* ---- Descriptors that wait in close ---------------------------------------------------------------------------- */

enum { LINGER_S = 3600, DESCRIPTORS_MAX = 4 };

/* A TCP connection of which one end takes no more bytes, so that the last close of the other waits for it. */
struct lingering {
	int listener, socket;
};

static struct lingering lingering_open(void)
{
	static const char bytes[1 << 16];
	struct linger linger = {1, LINGER_S};
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(name);
	struct lingering made = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
				 socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	assert_int_equal(bind(made.listener, (struct sockaddr *)&name, size), 0);
	assert_int_equal(listen(made.listener, 1), 0);
	assert_int_equal(getsockname(made.listener, (struct sockaddr *)&name, &size), 0);
	assert_int_equal(connect(made.socket, (struct sockaddr *)&name, size), 0);
	while (send(made.socket, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(made.socket, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return made;
}

/* It goes with a message of so many bytes, as the last of so many, and is nowhere else: who has less room has the
 * kernel close it. */
static void lingering_send(struct lingering *lingering, int fd, size_t length, unsigned count)
{
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec data = {greeted.bytes, length};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header = &control.align;

	assert_true(count <= DESCRIPTORS_MAX);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	for (unsigned i = 0; i < count; i++)
		memcpy(CMSG_DATA(header) + i * sizeof(int), i + 1 < count ? &lingering->listener : &lingering->socket,
		       sizeof(int));
	assert_int_equal(__real_sendmsg(fd, &message, 0), length);
	close(lingering->socket);
}

static void turn_until_refused(const struct pair *pair, uint64_t refused)
{
	for (int i = 0; i < PAIR_TURNS_MAX && pair_counter(pair->b, "refused") <= refused; i++)
		thole_progress(pair->b);
	assert_true(pair_counter(pair->b, "refused") > refused);
}

/* Whoever is turned away, whatever his user, may have sent a descriptor whose last close waits for as long as he likes:
 * nobody waits with it. */
static void descriptors__of_who_is_turned_away(void **state)
{
	struct pair pair;

	(void)state;
	greet_open(&pair);
	for (int i = 0; i < 6; i++) {
		struct lingering lingering = lingering_open();
		uint64_t refused = pair_counter(pair.b, "refused");
		int fd = greet_connect(&pair);

		greeted.foreign = i < 3;
		if (i % 3 == 1)
			assert_int_equal(send(fd, "", 0, 0), 0); /* which reads as an end does */
		lingering_send(&lingering, fd, i % 3 == 2 ? 0 : greeted.length, 1 + (unsigned)i % 4);
		turn_until_refused(&pair, refused);
		close(fd);
		close(lingering.listener);
	}
	greeted.foreign = false;
	greet_works(&pair, true);
	greet_close(&pair, -1);
}

/* Nor with what a peer sends that is connected, read or not. */
static void descriptors__of_a_peer(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct lingering lingering;
	struct pair pair;
	int fd;

	(void)state;
	for (int unread = 0; unread < 2; unread++) {
		uint64_t refused;

		pair_open(&pair, options);
		assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.b, must_connect(pair.b, pair.b_to_a, 0), NULL), 0);
		for (int i = 0; i < 20000; i++)
			thole_progress(pair.b);
		fd = shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)->watch_out.fd;
		refused = pair_counter(pair.b, "attach_refused");
		lingering = lingering_open();
		if (unread)
			assert_int_equal(send(fd, "", 0, 0), 0);
		lingering_send(&lingering, fd, 24, unread ? 4 : 1);
		for (int i = 0; i < PAIR_TURNS_MAX && !unread && pair_counter(pair.b, "attach_refused") == refused; i++)
			thole_progress(pair.b);
		assert_int_equal(pair_counter(pair.b, "attach_refused"), refused + !unread);
		pair_close(&pair);
		close(lingering.listener);
	}
}

/* Nor with what those sent who wait as the endpoint closes. */
static void descriptors__of_who_waits_at_the_end(void **state)
{
	struct lingering lingering = lingering_open();
	struct pair pair;
	int fd;

	(void)state;
	greet_open(&pair);
	fd = greet_connect(&pair);
	lingering_send(&lingering, fd, 8, 1);
	connect_close(&pair.b->base);
	assert_int_equal(shm_of(&pair.b->base)->listener.fd, -1);
	close(lingering.listener);
	greet_close(&pair, fd);
}

static void *discards_as_it_is_cancelled(void *arg)
{
	const struct lingering *lingering = arg;

	pthread_cancel(pthread_self());
	discard_received(&lingering->socket, 1);
	return NULL;
}

/* Who is cancelled meanwhile leaves neither the descriptor open nor a thread that looks for him. */
static void descriptors__of_who_is_cancelled(void **state)
{
	struct lingering lingering = lingering_open();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, discards_as_it_is_cancelled, &lingering), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fcntl(lingering.socket, F_GETFD), -1);
	close(lingering.listener);
}

/* One ring from each peer, as long as it lives. */
static void greeting__comes_once(void **state)
{
	const struct segment *segment;
	struct pair pair;
	int fd[2];

	(void)state;
	greet_open(&pair);
	fd[0] = greet(&pair);
	while (!greet_segment(&pair))
		thole_progress(pair.b);
	segment = greet_segment(&pair);
	fd[1] = greet(&pair);
	for (int i = 0; i < 20000; i++)
		thole_progress(pair.b);
	assert_ptr_equal(greet_segment(&pair), segment);
	assert_int_equal(pair_counter(pair.b, "accepts"), 1);
	close(fd[0]);
	greet_close(&pair, fd[1]);
}

/* The kernel knows who listens at a's address: another process, which has come by a's greeting, is not a. */
static void greeting__of_another_process(void **state)
{
	struct pair pair;
	pid_t child;

	(void)state;
	greet_open(&pair);
	assert_int_equal(pair_finish(&pair, pair.b, must_connect(pair.b, pair.b_to_a, 0), NULL), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		greet(&pair);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
	for (int i = 0; i < 20000; i++)
		thole_progress(pair.b);
	assert_null(greet_segment(&pair));
	greet_works(&pair, true);
	greet_close(&pair, -1);
}

/* Who says nothing is let go after a while. */
static void greeting__does_not_come(void **state)
{
	struct pair pair;
	struct shm *shm;
	int fd;

	(void)state;
	greet_open(&pair);
	shm = shm_of(&pair.b->base);
	fd = greet_connect(&pair);
	connect_accept_all(&pair.b->base, 5);
	assert_int_equal(shm->greeting_count, 2); /* a has said nothing either */
	connect_expire(&pair.b->base, 4); /* it came after the caller had read the clock */
	assert_int_equal(shm->greeting_count, 2);
	connect_expire(&pair.b->base, 500000000);
	assert_int_equal(shm->greeting_count, 2);
	connect_expire(&pair.b->base, UINT64_C(2000000000));
	assert_int_equal(shm->greeting_count, 0);
	assert_int_equal(pair_counter(pair.b, "refused"), 2);
	greet_close(&pair, fd);
}

/* Who has greeted late, but before that was looked for, takes himself to be connected, and is. */
static void greeting__comes_at_the_last_moment(void **state)
{
	struct pair pair;
	struct shm *shm;
	int fd;

	(void)state;
	greet_open(&pair);
	shm = shm_of(&pair.b->base);
	fd = greet_connect(&pair);
	connect_accept_all(&pair.b->base, 5);
	greet_send(fd);
	connect_expire(&pair.b->base, UINT64_C(2000000000));
	assert_int_equal(shm->greeting_count, 0);
	assert_non_null(greet_segment(&pair));
	assert_int_equal(pair_counter(pair.b, "accepts"), 1);
	greet_close(&pair, fd);
}

/* Let go of whoever waits at b's listener, having read his greeting or not. */
static bool greeting_let_go(const struct pair *pair, bool reads)
{
	int fd = accept4(shm_of(&pair->b->base)->listener.fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	if (reads)
		assert_true(recv(fd, &(char){0}, 1, 0) == 1);
	close(fd);
	return true;
}

/* Who has greeted, and then sees the end of the connection, greets again, where the other side has not got the segment
 * and goes on: nothing that was sent is lost. That is tried some times. */
static void greeting__was_not_read(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	enum { TIMES = 2, SENDS = 3 };

	(void)state;
	for (int reads = 0; reads < 2; reads++) {
		struct thole_request *request, *receive;
		struct thole_completion completion;
		struct pair pair;
		uint8_t byte = 0;
		int times = 0;

		pair_open(&pair, options);
		for (uint8_t i = 0; i < SENDS; i++) {
			assert_int_equal(thole_send(pair.a, pair.a_to_b, &i, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
			while (i < TIMES && !greeting_let_go(&pair, reads))
				thole_progress(pair.a);
		}
		for (uint8_t i = 0; i < SENDS; i++) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive), 0);
			assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
			assert_int_equal(byte, i);
		}
		assert_int_equal(pair_counter(pair.a, "connects_again"), TIMES);
		assert_int_equal(pair_counter(pair.a, "connects"), TIMES + 1);
		assert_int_equal(shm_of(&pair.a->base)->connecting, 0);
		pair_close(&pair);
		pair_open(&pair, options);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_SYNC, NULL, &request), 0);
		while (!thole_test(pair.a, request, &completion)) {
			times += greeting_let_go(&pair, reads);
			assert_true(times < 100);
		}
		assert_int_equal(completion.status, THOLE_ERR_PEER);
		assert_true(times > TIMES);
		pair_close(&pair);
	}
}

/* Who was held between the connection and the greeting finds it closed, and makes another one, some times. */
static void greeting__finds_the_connection_closed(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *request;
	struct pair pair;

	(void)state;
	for (int ends = 0; ends < 2; ends++) {
		pair_open(&pair, options);
		greeted = (struct greeted){.refused = ends ? INT_MAX : 2, .reason = EPIPE};
		request = must_connect(pair.a, pair.a_to_b, 0);
		assert_int_equal(pair_finish(&pair, pair.a, request, NULL), ends ? THOLE_ERR_PEER : 0);
		greeted = (struct greeted){0};
		pair_close(&pair);
	}
}

/* Who cannot greet has no place among those whose greetings are awaited, which others need. While too many descriptors
 * are under way nobody is connected to. */
static void greeting__that_cannot_go_takes_no_place(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *request;
	struct pair pair;
	struct shm *shm;
	const struct list_node *first;
	uint64_t start_ns;

	(void)state;
	for (int row = 0; row < 2; row++) {
		pair_open(&pair, options);
		shm = shm_of(&pair.a->base);
		greeted = (struct greeted){.refused = INT_MAX};
		start_ns = clock_now_ns();
		request = must_connect(pair.a, pair.a_to_b, 0);
		assert_true(shm->held_ns > start_ns);
		greeted.reason = row ? ENOBUFS : 0;
		wanting.refused = 0;
		while (wanting.refused < 3)
			pair_progress(&pair, 1);
		shm->held_ns = UINT64_MAX;
		connect_accept_all(&pair.b->base, 5);
		assert_int_equal(shm_of(&pair.b->base)->greeting_count, 0);
		wanting.refused = 0;
		assert_int_equal(thole_connect(pair.a, pair_peer(pair.a, pair.a), 0, NULL, NULL), 0);
		pair_progress(&pair, 20000);
		assert_int_equal(wanting.refused, 0);
		assert_int_equal(shm->connecting, 2);
		assert_int_equal(shm->held_times, row ? 1 : 4);
		first = list_first(&shm->links);
		shm->held_ns = 0;
		while (wanting.refused < 1) /* the next try is another's, but where it is not held */
			pair_progress(&pair, 1);
		assert_int_equal(list_first(&shm->links) == first, row);
		shm->held_ns = 0;
		greeted = (struct greeted){0};
		assert_int_equal(pair_finish(&pair, pair.a, request, NULL), 0);
		assert_int_equal(shm->connecting, 0);
		assert_int_equal(shm->held_times, 0);
		pair_close(&pair);
	}
}

/* A user's descriptors that are sent and not received are bounded: whoever comes to that goes on once others have read
 * theirs, also where the other side does not wait for a greeting any more. */
static void greeting__waits_for_descriptors_under_way(void **state)
{
	static const char *const options[] = {"network=off", NULL};

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct thole_request *request, *receive, *connecting;
		struct pair pair;
		char byte = 7;

		pair_open(&pair, options);
		greeted = (struct greeted){.refused = late ? INT_MAX : 3};
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &(char){5}, 1, 0, 0, 0, NULL, &request), 0);
		connecting = must_connect(pair.a, pair.a_to_b, 0);
		assert_int_equal(thole_test(pair.a, connecting, NULL), 0);
		while (late && pair_counter(pair.b, "refused") == 0)
			pair_progress(&pair, 1);
		greeted.refused = late ? 0 : greeted.refused;
		while (greeted.refused > 0 || clock_now_ns() < shm_of(&pair.a->base)->held_ns)
			pair_progress(&pair, 1);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(byte, 5);
		assert_int_equal(pair_finish(&pair, pair.a, request, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, connecting, NULL), 0);
		assert_int_equal(shm_of(&pair.a->base)->connecting, 0);
		assert_int_equal(greeted.refused, 0);
		pair_close(&pair);
	}
}

/* So does who was held up before it greeted, for longer than the other side waits, now and then; but one that is always
 * hung up on is not for ever at it. */
static void greeting__comes_too_late(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static const struct {
		int times, status;
	} rows[] = {{1, 0}, {3, 0}, {INT_MAX, THOLE_ERR_PEER}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct thole_request *receive = NULL, *connecting;
		struct pair pair;
		char byte = 7, five = 5;

		pair_open(&pair, options);
		greeted = (struct greeted){.refused = rows[i].times, .reason = EPIPE};
		if (rows[i].status == 0)
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		connecting = must_connect(pair.a, pair.a_to_b, 0);
		if (receive)
			assert_int_equal(thole_send(pair.a, pair.a_to_b, &five, 1, 0, 0, 0, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, connecting, NULL), rows[i].status);
		if (receive) {
			assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
			assert_int_equal(byte, 5);
			assert_int_equal(greeted.refused, 0);
		}
		assert_int_equal(shm_of(&pair.a->base)->connecting, 0);
		greeted.refused = 0;
		pair_close(&pair);
	}
}

/* What an endpoint that closes leaves undone ends otherwise than what one leaves that dies; a greeting that it had not
 * read yet makes no difference. */
static void shm__closed_is_not_dead(void **state)
{
	static const char *const options[] = {"network=off", NULL};

	(void)state;
	for (int row = 0; row < 4; row++) {
		bool dies = row & 1, known = row & 2;
		int expected = dies ? THOLE_ERR_PEER : THOLE_ERR_CLOSED;
		struct thole_request *receive;
		struct thole_completion completion;
		struct pair pair;
		char byte = 1;

		pair_open(&pair, options);
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), 0);
		if (known)
			pair_idle(&pair);
		if (dies)
			endpoint_vanish(pair.b);
		else
			thole_endpoint_close(pair.b);
		assert_int_equal(thole_wait(pair.a, receive, -1, &completion), 0);
		assert_int_equal(completion.status, expected);
		assert_string_equal(info_of(pair.a, pair.a_to_b).reason, dies ? "ended" : "closed");
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, NULL), expected);
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), expected);
		thole_endpoint_close(pair.a);
	}
}

/* A receive alone waits for a peer that nobody has said a word to: if that has ended, before or since, so does the
 * receive, of who polls and of who sleeps; and if it lives, it is heard. But of an address that is no more than a place
 * the one who is meant may yet come there. */
static void shm__nobody_is_awaited(void **state)
{
	static const char *const options[] = {"network=off", "peer_timeout=100ms", "spin=0", NULL};
	enum { LIVES = 4, TIME_NS = 1000000000 };
	struct pair pair = {.a = pair_endpoint(NULL, NULL, options)};

	(void)state;
	for (int i = 0; i < 7; i++) {
		bool polls = i & 1, since = i & 2, polled = false;
		struct thole_request *receive;
		struct thole_completion completion;
		char byte = 1;

		pair.b = pair_endpoint(NULL, NULL, options);
		pair.a_to_b = pair_peer(pair.a, pair.b);
		pair.b_to_a = pair_peer(pair.b, pair.a);
		if (i < LIVES && !since)
			endpoint_vanish(pair.b);
		if (i > LIVES + 1)
			endpoint_peer(pair.a, pair.a_to_b)->base.parts.network[0] = ADDRESS_MXOE;
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		if (i < LIVES && since)
			endpoint_vanish(pair.b);
		if (i > LIVES + 1) {
			assert_int_equal(thole_wait(pair.a, receive, TIME_NS / 10, NULL), THOLE_ERR_TIMEOUT);
			assert_false(endpoint_peer(pair.a, pair.a_to_b)->base.connected);
		}
		while (i == LIVES && !endpoint_peer(pair.a, pair.a_to_b)->base.connected)
			thole_progress(pair.a);
		if (i >= LIVES)
			assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
		while (polls && !(polled = thole_test(pair.a, receive, &completion)))
			;
		if (!polled)
			assert_int_equal(thole_wait(pair.a, receive, 20 * (int64_t)TIME_NS, &completion), 0);
		assert_int_equal(completion.status, i < LIVES ? THOLE_ERR_PEER : 0);
		if (i >= LIVES)
			thole_endpoint_close(pair.b);
	}
	thole_endpoint_close(pair.a);
}

/* But the end of who has connected to us is seen: no ring goes back there for that. */
static void shm__who_is_heard_is_not_connected_to(void **state)
{
	static const char *const options[] = {"network=off", "peer_timeout=100ms", "spin=0", NULL};

	(void)state;
	for (int polls = 0; polls < 2; polls++) {
		bool polled = false;
		struct thole_request *receive;
		struct thole_completion completion;
		struct pair pair;
		char byte = 1;

		pair_open(&pair, options);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
			if (i == 0)
				assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
			if (i == 0)
				assert_int_equal(pair_finish(&pair, pair.a, receive, NULL), 0);
		}
		while (pair.a->awaits)
			thole_progress(pair.a);
		assert_int_equal(pair_counter(pair.a, "connects"), 0);
		assert_null(shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)->out.segment);
		endpoint_vanish(pair.b);
		while (polls && !(polled = thole_test(pair.a, receive, &completion)))
			;
		if (!polled)
			assert_int_equal(thole_wait(pair.a, receive, -1, &completion), 0);
		assert_int_equal(completion.status, THOLE_ERR_PEER);
		thole_endpoint_close(pair.a);
	}
}

/* What is wanting here is no end of who lives: a receive that names it looks for it again, and so does a greeting that
 * waits, which is told once; an operation says so. */
static void shm__want_is_nobodys_end(void **state)
{
	static const char *const options[] = {"network=off", "peer_timeout=100ms", NULL};
	enum { WATCHES, MEMORY, LATE_WATCHES, LATE_MEMORY, LATE_SOCKETS, WANTS };

	(void)state;
	for (int want = 0; want < WANTS; want++) {
		bool late = want >= LATE_WATCHES;
		struct thole_request *receive, *connecting = NULL;
		struct pair pair;
		char byte = 1;

		pair_open(&pair, options);
		greeted = (struct greeted){.refused = late ? INT_MAX : 0};
		if (late)
			connecting = must_connect(pair.a, pair.a_to_b, 0);
		while (want == LATE_SOCKETS && pair_counter(pair.b, "refused") == 0)
			pair_progress(&pair, 1);
		greeted = (struct greeted){.refused = want == MEMORY || want == LATE_MEMORY ? INT_MAX : 0,
					   .reason = want == MEMORY ? ENOMEM : ENOBUFS};
		pair.a->base.trouble = note_trouble;
		told[0] = 0;
		tellings = wanting.refused = 0;
		wanting.watches = want == WATCHES || want == LATE_WATCHES;
		wanting.sockets = want == LATE_SOCKETS;
		if (!late)
			assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, NULL), THOLE_ERR_SYSTEM);
		assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		while (wanting.refused < 3) {
			thole_progress(pair.a);
			assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "");
		}
		pair.a->base.trouble = NULL;
		assert_non_null(strstr(told, "cannot connect to "));
		if (late)
			assert_int_equal(tellings, 1);
		else
			assert_null(shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base)->out.segment);
		wanting.watches = wanting.sockets = false;
		greeted.refused = 0;
		while (!endpoint_peer(pair.a, pair.a_to_b)->base.connected)
			thole_progress(pair.a);
		if (late)
			assert_int_equal(pair_finish(&pair, pair.a, connecting, NULL), 0);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, receive, NULL), 0);
		pair_close(&pair);
	}
}

/* An answer, for which its sender has to connect, waits while something is wanting there; so do those behind it. It is
 * told once, an operation says so, and whoever is to be answered is lost only where that lasts for as long as he may be
 * silent. */
static void shm__want_delays_answers(void **state)
{
	static const char *const patient[] = {"network=off", "one_copy=off", NULL};
	static const char *const hasty[] = {"network=off", "one_copy=off", "peer_timeout=100ms", NULL};
	enum { GET_KEY = 9, SEND, SEND_BEHIND, GET, REQUESTS };

	(void)state;
	for (int lasts = 0; lasts < 2; lasts++) {
		struct thole_request *requests[REQUESTS] = {0}, *receives[2];
		uint64_t got = 0, region = 77, in[2];
		struct thole_region *exposed;
		struct peer *a_at_b;
		struct pair pair;

		pair_open(&pair, lasts ? hasty : patient);
		a_at_b = endpoint_peer(pair.b, pair.b_to_a);
		pair.b->base.trouble = note_trouble;
		tellings = wanting.refused = 0;
		assert_int_equal(
			thole_expose(pair.b, &region, sizeof(region), THOLE_ACCESS_GET, GET_KEY, NULL, &exposed), 0);
		assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
		while (pair_counter(pair.b, "accepts") == 0)
			thole_progress(pair.b);
		wanting.sockets = true;
		for (int i = 0; i < 2; i++) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, &in[i], 8, 1, 0, 0, NULL, &receives[i]), 0);
			assert_int_equal(thole_send(pair.a, pair.a_to_b, &region, 8, 1, 0, THOLE_SYNC, NULL,
						    &requests[SEND + i]), 0);
		}
		assert_int_equal(thole_get(pair.a, pair.a_to_b, &(struct iovec){&got, 8}, 1, GET_KEY, 0, 0, NULL,
					   &requests[GET]), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_finish(&pair, pair.b, receives[i], NULL), 0);
		while (wanting.refused < 3 || (lasts && !a_at_b->base.gone))
			pair_progress(&pair, 1);
		assert_int_equal(tellings, 1);
		assert_non_null(strstr(told, "cannot connect to "));
		assert_string_equal(info_of(pair.b, pair.b_to_a).reason, lasts ? "failed" : "");
		if (!lasts)
			assert_int_equal(thole_send(pair.b, pair.b_to_a, "", 0, 2, 0, 0, NULL, NULL), THOLE_ERR_SYSTEM);
		wanting.sockets = false;
		for (int i = SEND; i <= GET; i++)
			assert_int_equal(pair_finish(&pair, pair.a, requests[i], NULL), lasts ? THOLE_ERR_PEER : 0);
		assert_int_equal(got, lasts ? 0 : 77);
		pair.b->base.trouble = NULL;
		pair_close(&pair);
	}
}

/* So does the end of a long message, which is fetched meanwhile where that takes no word. */
static void shm__want_delays_long_messages(void **state)
{
	static const char *const ways[][3] = {{"network=off", "one_copy=off"}, {"network=off", "bulk=one-copy"},
					      {"network=off", "bulk=cooperative"}};
	enum { LENGTH = 1 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		uint64_t *from = pair_filled(1, LENGTH), *to = calloc(1, LENGTH);
		struct thole_request *send, *receive;
		struct pair pair;

		pair_open(&pair, ways[i]);
		pair.b->base.trouble = note_trouble;
		assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
		while (pair_counter(pair.b, "accepts") == 0)
			thole_progress(pair.b);
		tellings = wanting.refused = 0;
		wanting.sockets = true;
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
		while (wanting.refused < 3)
			pair_progress(&pair, 1);
		wanting.sockets = false;
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		assert_memory_equal(from, to, LENGTH);
		assert_int_equal(tellings, 1);
		pair.b->base.trouble = NULL;
		pair_close(&pair);
		free(from);
		free(to);
	}
}

/* Each look whether somebody is there still leaves a connection at his listener, and wakes him. */
static void shm__want_asks_seldom(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	enum { TRIES = 20 };
	struct thole_request *receive, *send;
	uint64_t start_ns, took_ns, number = 7;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
	while (pair_counter(pair.b, "accepts") == 0)
		thole_progress(pair.b);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, &number, 8, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &number, 8, 1, 0, THOLE_SYNC, NULL, &send), 0);
	start_ns = clock_now_ns();
	wanting.refused = wanting.asked = 0;
	forbidden.memory = EMFILE;
	while (wanting.refused < TRIES)
		pair_progress(&pair, 1);
	took_ns = clock_now_ns() - start_ns;
	assert_in_range(wanting.asked, 1, 1 + took_ns / 100000000);
	assert_in_range(wanting.refused, TRIES, 2 + took_ns / 1000000);
	forbidden.memory = 0;
	assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
	pair_close(&pair);
}

/* Answers that wait are tried again also by who sleeps without shared memory, and in simulated time. */
static void network__want_bounds_sleep(void **state)
{
	static const char *const options[] = {"shm=off", "interface=lo", "link=udp", NULL};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	enum { MOST_NS = 1000000 };

	(void)state;
	assert_true(endpoint_arm(endpoint) > MOST_NS);
	endpoint_disarm(endpoint);
	endpoint->unanswered = true;
	assert_in_range(endpoint_arm(endpoint), 1, MOST_NS);
	endpoint_disarm(endpoint);
	assert_true(endpoint_deadline(endpoint) <= clock_now_ns() + MOST_NS);
	endpoint_advance(endpoint, clock_now_ns() + MOST_NS);
	assert_false(endpoint->unanswered); /* there are none any more */
	thole_endpoint_close(endpoint);
}

static int nothing_wanting(void **state)
{
	(void)state;
	wanting.sockets = wanting.local = false;
	forbidden.memory = 0;
	return 0;
}

enum { WORDS = 100 };

/* a says so much to b, of which b handles a part or has not even read the greeting, and is gone. */
static void words_say(struct pair *pair, bool known, bool sync, bool dies)
{
	static const char *const options[] = {"network=off", NULL};

	pair_open(pair, options);
	for (uint8_t i = 0; i < WORDS; i++)
		assert_int_equal(thole_send(pair->a, pair->a_to_b, &i, 1, 0, 0, sync ? THOLE_SYNC : 0, NULL, NULL), 0);
	if (known)
		for (int i = 0; i < 200 && pair_counter(pair->b, "accepts") == 0; i++)
			thole_progress(pair->b);
	if (dies)
		endpoint_vanish(pair->a);
	else
		thole_endpoint_close(pair->a);
}

/* What arrived comes before its sender's end, also where it is seen because an answer to it finds nobody. */
static void shm__last_words_before_the_end(void **state)
{
	(void)state;
	for (int row = 0; row < 16; row++) {
		bool known = row & 1, sync = row & 2, dies = row & 4, answers = row & 8;
		int expected = dies ? THOLE_ERR_PEER : THOLE_ERR_CLOSED;
		struct thole_request *answer = NULL, *receive;
		struct thole_completion completion;
		struct pair pair;
		uint8_t byte = 0;

		words_say(&pair, known, sync, dies);
		if (answers)
			assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &answer), 0);
		for (int i = 0; i < WORDS; i++) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive), 0);
			assert_int_equal(thole_wait(pair.b, receive, -1, &completion), 0);
			assert_int_equal(completion.status, 0);
			assert_int_equal(byte, i);
		}
		if (answers) {
			assert_int_equal(thole_wait(pair.b, answer, -1, &completion), 0);
			assert_int_equal(completion.status, expected);
		}
		completion.status = thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive);
		if (completion.status == 0)
			assert_int_equal(thole_wait(pair.b, receive, -1, &completion), 0);
		assert_int_equal(completion.status, expected);
		assert_int_equal(pair_counter(pair.b, "bad_records"), 0);
		thole_endpoint_close(pair.b);
	}
}

enum { MANY = 160 }; /* more than are let in by one look at the listener, and the next */

/* The same where many answer for the first time, and end, while the one they answer computes. */
static void shm__last_words_of_many(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_endpoint *a = pair_endpoint(NULL, NULL, options), *others[MANY];
	struct thole_request *receives[MANY];
	uint8_t bytes[MANY] = {0};

	(void)state;
	for (int i = 0; i < MANY; i++) {
		uint8_t byte = (uint8_t)i;

		others[i] = pair_endpoint(NULL, NULL, options);
		assert_int_equal(thole_send(a, pair_peer(a, others[i]), &byte, 1, 0, 0, 0, NULL, NULL), 0);
		assert_int_equal(thole_recv(a, THOLE_ANY, &bytes[i], 1, 0, 0, 0, NULL, &receives[i]), 0);
	}
	for (int i = 0; i < MANY; i++) {
		struct thole_request *task;
		uint8_t byte;

		assert_int_equal(thole_recv(others[i], THOLE_ANY, &byte, 1, 0, 0, 0, NULL, &task), 0);
		assert_int_equal(thole_wait(others[i], task, -1, NULL), 0);
		assert_int_equal(thole_send(others[i], pair_peer(others[i], a), &byte, 1, 0, 0, 0, NULL, NULL), 0);
		thole_endpoint_close(others[i]);
	}
	for (int i = 0; i < MANY; i++) {
		struct thole_completion completion;

		assert_int_equal(thole_wait(a, receives[i], INT64_C(10000000000), &completion), 0);
		assert_int_equal(completion.status, 0);
	}
	thole_endpoint_close(a);
}

/* A child that lives on. By the bare system call: it has all that its parent had open. */
static pid_t child_that_lives(int *end_p)
{
	int end[2];
	pid_t child;

	assert_int_equal(pipe(end), 0);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	assert_true(child >= 0);
	if (child == 0) {
		close(end[1]);
		(void)!read(end[0], &(char){0}, 1);
		_exit(0);
	}
	close(end[0]);
	*end_p = end[1];
	return child;
}

static void shm__closed_beside_a_child(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_completion completion;
	struct thole_request *receive;
	struct pair pair;
	pid_t child;
	int end;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(pair_finish(&pair, pair.b, must_connect(pair.b, pair.b_to_a, 0), NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
	pair_idle(&pair);
	child = child_that_lives(&end);
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, &(char){0}, 1, 0, 0, 0, NULL, &receive), 0);
	thole_endpoint_close(pair.a);
	assert_int_equal(thole_wait(pair.b, receive, INT64_C(10000000000), &completion), 0);
	assert_int_equal(completion.status, THOLE_ERR_CLOSED);
	close(end);
	assert_int_equal(child_status(child), 0);
	thole_endpoint_close(pair.b);
}

/* A forked child does not have its parent's sockets: of two that have them nobody could tell which one lives. */
static void shm__sockets_are_no_childs(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	const struct shm_peer *to, *from;
	struct pair pair;
	int fds[4];
	pid_t child;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
	pair_idle(&pair);
	to = shm_link(&endpoint_peer(pair.a, pair.a_to_b)->base);
	from = shm_link(&endpoint_peer(pair.b, pair.b_to_a)->base);
	fds[0] = shm_of(&pair.a->base)->listener.fd;
	fds[1] = shm_of(&pair.b->base)->listener.fd;
	fds[2] = to->watch_out.fd;
	fds[3] = from->watch_in.fd;
	for (unsigned i = 0; i < 4; i++)
		assert_int_not_equal(fcntl(fds[i], F_GETFD), -1);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		for (int i = 0; i < 4; i++)
			if (fcntl(fds[i], F_GETFD) != -1)
				_exit(1 + i);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_not_equal(fcntl(fds[i], F_GETFD), -1);
	pair_close(&pair);
}

/* One that is made by the bare system call has them, so who connects to the dead finds its listener. */
static void shm__dead_beside_a_child(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_completion completion;
	struct thole_endpoint *endpoint;
	struct thole_address address;
	struct thole_request *receive;
	int said[2], stay[2];
	uint32_t peer;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(said), 0);
	assert_int_equal(pipe(stay), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		endpoint = pair_endpoint(NULL, NULL, options);
		thole_endpoint_address(endpoint, &address);
		close(stay[1]);
		if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0)
			(void)!read(stay[0], &peer, 1);
		else
			(void)!write(said[1], &address, sizeof(address));
		_exit(0);
	}
	close(stay[0]);
	assert_int_equal(read(said[0], &address, sizeof(address)), sizeof(address));
	assert_int_equal(child_status(child), 0);

	endpoint = pair_endpoint(NULL, NULL, options);
	assert_int_equal(thole_peer(endpoint, &address, &peer), 0);
	assert_int_equal(thole_recv(endpoint, peer, &(char){0}, 1, 0, 0, 0, NULL, &receive), 0);
	completion.status = thole_send(endpoint, peer, &(char){0}, 1, 0, 0, 0, NULL, NULL);
	assert_true(completion.status == 0 || completion.status == THOLE_ERR_PEER);
	assert_int_equal(thole_wait(endpoint, receive, INT64_C(10000000000), &completion), 0);
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	thole_endpoint_close(endpoint);
	close(stay[1]);
	close(said[0]);
	close(said[1]);
}

/* ---- Over the network ---------------------------------------------------------------------------------------- */

static void network_open(struct pair *pair, const char *const *a, const char *const *b)
{
	pair->a = pair_endpoint(NULL, NULL, a);
	pair->b = pair_endpoint(NULL, NULL, b);
	pair->a_to_b = pair_peer(pair->a, pair->b);
	pair->b_to_a = pair_peer(pair->b, pair->a);
}

static void network__connects(void **state)
{
	struct thole_request *requests[3];
	struct pair pair;

	(void)state;
	network_open(&pair, network_a, network_b);
	for (int i = 0; i < 3; i++)
		requests[i] = must_connect(pair.a, pair.a_to_b, FOREIGN); /* which is nothing to the native codec */
	assert_string_equal(info_of(pair.a, pair.a_to_b).state, "connecting");
	for (int i = 0; i < 3; i++)
		assert_int_equal(pair_finish(&pair, pair.a, requests[i], NULL), 0);
	assert_string_equal(info_of(pair.a, pair.a_to_b).state, "connected");
	assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "");
	assert_int_equal(info_of(pair.a, pair.a_to_b).session, 0);
	/* it is, from both sides */
	assert_int_equal(thole_test(pair.b, must_connect(pair.b, pair.b_to_a, 0), NULL), 1);
	pair_close(&pair);
}

/* Where there is no shared memory for one of them, or both, it is as with shm=off. Without a network, too, nobody could
 * be reached; and what passes is no reason to do without. */
static void network__instead_of_shared_memory(void **state)
{
	static const char *const local[] = {"network=off", NULL}, *const both[] = {"interface=lo", "link=udp", NULL};
	static const int reasons[] = {EPERM, EACCES, ENOSYS};
	struct thole_endpoint_attr attr = {.options = local};
	struct thole_endpoint *endpoint;
	struct pair pair;
	uint64_t in, out = 7;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct thole_request *receive;

		forbidden.memory = reasons[i];
		wanting.refused = 0;
		assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_UNSUPPORTED);
		assert_int_equal(wanting.refused, 1);
		assert_non_null(strstr(thole_detail(), "memfd_create"));
		pair.a = pair_endpoint(NULL, NULL, both);
		forbidden.memory = i < 2 ? 0 : forbidden.memory;
		pair.b = pair_endpoint(NULL, NULL, both);
		pair.a_to_b = pair_peer(pair.a, pair.b);
		pair.b_to_a = pair_peer(pair.b, pair.a);
		assert_string_equal(info_of(pair.a, pair.a_to_b).transport, "network");
		assert_string_equal(info_of(pair.b, pair.b_to_a).transport, "network");
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, &in, 8, 1, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &out, 8, 1, 0, 0, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		assert_int_equal(in, out);
		pair_close(&pair);
	}
	forbidden.memory = EMFILE;
	endpoint = pair_endpoint(NULL, NULL, both);
	forbidden.memory = 0;
	assert_true(endpoint->base.state[TRANSPORT_SHM] != NULL);
	thole_endpoint_close(endpoint);
	wanting.local = true;
	attr.options = both;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_SYSTEM);
	assert_non_null(strstr(thole_detail(), "Unix socket"));
}

static void network__refused(void **state)
{
	static const char *const a[] = {NETWORK_A, "job_key=1", NULL}, *const b[] = {NETWORK_B, "job_key=2", NULL};
	struct thole_request *request;
	struct pair pair;

	(void)state;
	network_open(&pair, a, b);
	request = must_connect(pair.a, pair.a_to_b, 2);
	assert_int_equal(pair_finish(&pair, pair.a, request, NULL), THOLE_ERR_ACCESS);
	assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "refused");
	for (int again = 0; again < 2; again++) { /* whoever sees it end is told the remedy, and who tries later */
		assert_non_null(strstr(thole_detail(), "option job_key"));
		assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 0, 0, 0, NULL, &request), THOLE_ERR_ACCESS);
	}
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, NULL, 0, 0, 0, 0, NULL, &request), THOLE_ERR_ACCESS);
	assert_non_null(strstr(thole_detail(), "option job_key"));
	pair_close(&pair);
}

/* Nothing is said of keys: both have the user's. One that does without has to say so. */
static void network__of_one_user(void **state)
{
	static const char *const none[] = {NETWORK_B, "job_key=none", NULL};
	struct pair pair;

	(void)state;
	network_open(&pair, network_a, network_b);
	assert_true(pair.a->base.options.job_key != 0 && pair.a->base.options.job_key == pair.b->base.options.job_key);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
	pair_close(&pair);
	network_open(&pair, network_a, none);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), THOLE_ERR_ACCESS);
	pair_close(&pair);
}

/* A user whose key cannot be had: his processes talk inside the host; who wants the network is told why not. */
static void network__without_a_home(void **state)
{
	static const char *const plain[] = {"network=auto", NULL}, *const needed[] = {NETWORK_A, "network=on", NULL};
	char *config = strdup(getenv("XDG_CONFIG_HOME"));
	struct thole_endpoint_attr attr = {.options = needed};
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	struct pair pair;

	(void)state;
	setenv("XDG_CONFIG_HOME", "/proc/nowhere", 1);
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_SYSTEM);
	assert_non_null(strstr(thole_detail(), "/proc/nowhere/thole/job_key"));
	network_open(&pair, plain, plain);
	assert_int_equal(pair_finish(&pair, pair.a, must_connect(pair.a, pair.a_to_b, 0), NULL), 0);
	assert_string_equal(info_of(pair.a, pair.a_to_b).transport, "shm");
	setenv("XDG_CONFIG_HOME", config, 1);
	endpoint = pair_endpoint(NULL, NULL, network_b);
	assert_int_equal(thole_connect(pair.a, pair_peer(pair.a, endpoint), 0, NULL, &request), THOLE_ERR_ADDRESS);
	assert_non_null(strstr(thole_detail(), "job key"));
	thole_endpoint_close(endpoint);
	pair_close(&pair);
	free(config);
}

static void network__nowhere(void **state)
{
	static const char *const nowhere[] = {"network=off", "host=c", NULL};
	struct thole_request *request;
	struct pair pair;

	(void)state;
	network_open(&pair, network_a, nowhere);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, &request), THOLE_ERR_ADDRESS);
	pair_close(&pair);
}

static void network__canceled(void **state)
{
	static int first, second;
	struct thole_completion completions[2];
	struct thole_request *frame, *given_up;
	struct pair pair;

	(void)state;
	network_open(&pair, network_a, network_b);
	frame = must_connect(pair.a, pair.a_to_b, 0);
	given_up = must_connect(pair.a, pair.a_to_b, 0);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, &first, NULL), 0);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, &second, NULL), 0);
	assert_int_equal(thole_cancel(pair.a, given_up), 1);
	assert_int_equal(thole_cancel_context(pair.a, &second), 1);
	assert_int_equal(thole_cancel_context(pair.a, &second), 0);
	assert_int_equal(pair_finish(&pair, pair.a, given_up, NULL), THOLE_ERR_CANCELED);
	assert_int_equal(pair_finish(&pair, pair.a, frame, NULL), 0);
	assert_int_equal(thole_poll(pair.a, completions, 2), 2);
	assert_ptr_equal(completions[0].context, &second);
	assert_int_equal(completions[0].status, THOLE_ERR_CANCELED);
	assert_ptr_equal(completions[1].context, &first);
	assert_int_equal(completions[1].status, 0);
	assert_int_equal(thole_cancel_context(pair.a, &first), 0);
	pair_close(&pair);
}

/* Nobody answers while it closes; what is not complete goes with the endpoint. */
static void network__closed_meanwhile(void **state)
{
	struct pair pair;

	(void)state;
	network_open(&pair, network_a, network_b);
	must_connect(pair.a, pair.a_to_b, 0);
	assert_int_equal(thole_connect(pair.a, pair.a_to_b, 0, NULL, NULL), 0);
	pair_close(&pair);
}

/* ---- The keys of mxoe ---------------------------------------------------------------------------------------- */

static struct wire wires[2];
static uint64_t now_ns;

static void keys_open(struct pair *pair)
{
	now_ns = 1000000000;
	wired_open(pair, wires, &codec_mxoe, key_a, key_b);
}

static void keys_close(struct pair *pair)
{
	endpoint_vanish(pair->a);
	endpoint_vanish(pair->b);
}

static int keys_connect(struct pair *pair, struct thole_endpoint *endpoint, uint32_t peer, uint64_t key)
{
	return wired_finish(pair, &now_ns, endpoint, must_connect(endpoint, peer, key));
}

static void keys_message(struct pair *pair, struct thole_endpoint *from, uint32_t to)
{
	struct thole_endpoint *other = from == pair->a ? pair->b : pair->a;
	struct thole_request *send, *receive;
	uint64_t in = 0, out = now_ns;

	assert_int_equal(thole_recv(other, THOLE_ANY, &in, 8, 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(from, to, &out, 8, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(wired_finish(pair, &now_ns, other, receive), 0);
	assert_int_equal(wired_finish(pair, &now_ns, from, send), 0);
	assert_int_equal(in, out);
}

/* Both are idle until this time has passed. */
static void keys_settle(struct pair *pair, uint64_t ns)
{
	for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += 1000000)
		while (endpoint_advance(pair->a, now_ns) + endpoint_advance(pair->b, now_ns) > 0)
			;
}

static void keys__right(void **state)
{
	struct thole_address address;
	struct thole_request *more[2];
	struct pair pair;

	(void)state;
	keys_open(&pair);
	assert_int_equal(info_of(pair.a, pair.a_to_b).session, 0);
	more[0] = must_connect(pair.a, pair.a_to_b, KEY_B);
	more[1] = must_connect(pair.a, pair.a_to_b, KEY_B | UINT64_C(1) << 32); /* the low half counts */
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wired_finish(&pair, &now_ns, pair.a, more[i]), 0);
	assert_int_equal(thole_peer_address(pair.a, pair.a_to_b, &address), 0);
	assert_string_equal(address.text, "mxoe:02:00:00:00:00:01/1");
	assert_int_equal(thole_peer_address(pair.b, pair.b_to_a, &address), 0);
	assert_string_equal(address.text, "mxoe:02:00:00:00:00:00/0");
	/* Each knows the other's session, and its own. */
	assert_int_not_equal(info_of(pair.a, pair.a_to_b).session, 0);
	assert_int_equal(info_of(pair.a, pair.a_to_b).session, info_of(pair.b, pair_peer(pair.b, pair.b)).session);
	assert_int_equal(info_of(pair.b, pair.b_to_a).session, info_of(pair.a, pair_peer(pair.a, pair.a)).session);
	assert_int_not_equal(info_of(pair.a, pair.a_to_b).session, info_of(pair.b, pair.b_to_a).session);
	keys_message(&pair, pair.a, pair.a_to_b);
	keys_close(&pair);
}

/* A pull of mode `codec` comes to b, for such an endpoint and session. */
static void other_mode_pulls(struct pair *pair, const struct codec *codec, uint32_t number, uint32_t session)
{
	struct packet packet = {.type = PACKET_PULL, .to = number, .session = session};
	uint8_t frame[PACKET_HEAD_MAX];

	packet.pull = (struct packet_pull){.window = MXOE_WINDOW_NONE, .total = 1, .length = 1};
	engine_frame(&datagram_of(&pair->b->base)->engine, &wires[1].link, &wires[0].link.own, frame,
		     codec->encode(&packet, frame));
}

/* The two modes of MXoE agree on how one connects, and on short messages. Who gets any other says why nothing more
 * comes of it, and has its sender know that there is no connection. */
static void keys__of_the_other_mode(void **state)
{
	enum { MEDIUM = 5000, LONG = 200000 };
	static char out[LONG], in[LONG];

	(void)state;
	for (int i = 0; i < 4; i++) {
		const struct codec *a = i % 2 ? &codec_mxoe : &codec_mxoe_jumbo;
		const struct codec *b = i % 2 ? &codec_mxoe_jumbo : &codec_mxoe;
		bool pulled = i / 2;
		size_t length = pulled ? LONG : MEDIUM;
		const struct transport_peer *to, *from;
		struct thole_request *send;
		struct pair pair;
		uint32_t session;
		int status;

		now_ns = 1000000000;
		wired_open_each(&pair, wires, a, b, key_a, key_b);
		to = &endpoint_peer(pair.a, pair.a_to_b)->base;
		from = &endpoint_peer(pair.b, pair.b_to_a)->base;
		assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
		keys_message(&pair, pair.a, pair.a_to_b);
		session = datagram_of(&pair.b->base)->engine.session;
		other_mode_pulls(&pair, a, 1, session + 1); /* of who knows nothing */
		other_mode_pulls(&pair, a, 2, session);
		assert_false(from->gone);
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, in, LONG, 1, UINT64_MAX, 0, NULL, NULL), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, out, length, 1, 0, 0, NULL, &send), 0);
		status = wired_finish(&pair, &now_ns, pair.a, send);
		assert_int_equal(status, pulled ? THOLE_ERR_UNSUPPORTED : 0);
		keys_settle(&pair, 10000000);
		assert_int_equal(to->gone_status, pulled ? THOLE_ERR_UNSUPPORTED : THOLE_ERR_PEER);
		assert_int_equal(from->gone_status, pulled ? THOLE_ERR_PEER : THOLE_ERR_UNSUPPORTED);
		assert_non_null(strstr(thole_detail(), "codec=mxoe"));
		keys_close(&pair);
	}
}

/* b wants to hear 7, and a 5. Who is connected to may answer, whatever it thinks that the other side wants to hear. */
static void keys__of_each_its_own(void **state)
{
	struct thole_request *send, *receive;
	uint64_t in = 0, out = 1;
	struct pair pair;

	(void)state;
	keys_open(&pair);
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
	keys_settle(&pair, 2000000000);
	assert_int_equal(pair_counter(pair.a, "dropped_stranger"), 1); /* b has tried with 7, and no more */
	assert_string_equal(info_of(pair.b, pair.b_to_a).state, "connected");
	keys_message(&pair, pair.b, pair.b_to_a);
	keys_message(&pair, pair.a, pair.a_to_b);
	/* A connect of its own is refused, and leaves all as it is; then it is granted. */
	assert_int_equal(keys_connect(&pair, pair.b, pair.b_to_a, FOREIGN), THOLE_ERR_ACCESS);
	assert_string_equal(info_of(pair.b, pair.b_to_a).state, "connected");
	keys_message(&pair, pair.b, pair.b_to_a);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &out, 8, 2, 0, THOLE_SYNC, NULL, &send), 0);
	keys_settle(&pair, 20000000);
	assert_int_equal(keys_connect(&pair, pair.b, pair.b_to_a, KEY_A), 0);
	assert_int_equal(keys_connect(&pair, pair.b, pair.b_to_a, KEY_A), 0);
	assert_int_equal(thole_test(pair.b, send, NULL), 0); /* that waits for something else */
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, &in, 8, 2, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.b, send), 0);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, receive), 0);
	keys_message(&pair, pair.b, pair.b_to_a);
	keys_settle(&pair, UINT64_C(20000000000)); /* nobody is missed */
	assert_int_equal(pair_counter(pair.a, "peers_gone") + pair_counter(pair.b, "peers_gone"), 0);
	keys_close(&pair);
}

static void keys__wrong(void **state)
{
	struct pair pair;
	uint32_t again;

	(void)state;
	keys_open(&pair);
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, FOREIGN), THOLE_ERR_ACCESS);
	assert_string_equal(info_of(pair.a, pair.a_to_b).state, "gone");
	assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "refused");
	/* Nothing has happened at b. */
	assert_string_equal(info_of(pair.b, pair.b_to_a).state, "new");
	assert_int_equal(pair.b->peer_count, 1);
	assert_int_equal(pair_counter(pair.b, "accepts"), 0);
	again = pair_peer(pair.a, pair.b);
	assert_int_not_equal(again, pair.a_to_b);
	assert_int_equal(keys_connect(&pair, pair.a, again, KEY_B), 0);
	keys_message(&pair, pair.a, again);
	keys_message(&pair, pair.b, pair.b_to_a);
	keys_close(&pair);
}

/* The refusal of one connect comes again, late: it is not of the next one. */
static void keys__late_refusal(void **state)
{
	static struct wire seen;
	struct thole_request *request;
	struct pair pair;
	uint32_t again;

	(void)state;
	keys_open(&pair);
	request = must_connect(pair.a, pair.a_to_b, FOREIGN);
	while (wires[0].head == wires[0].tail)
		endpoint_advance(pair.b, now_ns);
	while (endpoint_advance(pair.b, now_ns) > 0)
		;
	seen = wires[0];
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, request), THOLE_ERR_ACCESS);
	again = pair_peer(pair.a, pair.b);
	request = must_connect(pair.a, again, KEY_B);
	assert_int_equal(wires[0].head, wires[0].tail);
	seen.link = wires[0].link;
	wires[0] = seen;
	assert_true(endpoint_advance(pair.a, now_ns) > 0); /* hears what it has heard already */
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, request), 0);
	keys_close(&pair);
}

/* Another key before the first is answered: the last one counts, for all who wait. */
static void keys__another_meanwhile(void **state)
{
	struct thole_request *request;
	struct pair pair;

	(void)state;
	keys_open(&pair);
	request = must_connect(pair.a, pair.a_to_b, FOREIGN);
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, request), 0);
	keys_close(&pair);
}

/* Who comes in the place of one that had taken a key is told the same. */
static void keys__stay_with_the_place(void **state)
{
	struct pair pair;

	(void)state;
	keys_open(&pair);
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
	keys_message(&pair, pair.a, pair.a_to_b);
	peer_lost(endpoint_peer(pair.a, pair.a_to_b), THOLE_ERR_PEER);
	endpoint_vanish(pair.b);
	pair.b = wired_endpoint(&wires[1], 1, &codec_mxoe, key_b); /* draws another session */
	pair.a_to_b = pair_peer(pair.a, pair.b);
	keys_message(&pair, pair.a, pair.a_to_b);
	keys_close(&pair);
}

/* a gives up on b and meets it again, so it wants to see numbers of another epoch; that it refuses b's key does not
 * keep this from b. */
static void keys__refused_in_another_epoch(void **state)
{
	struct pair pair;

	(void)state;
	keys_open(&pair);
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
	keys_message(&pair, pair.a, pair.a_to_b);
	keys_message(&pair, pair.b, pair.b_to_a);
	peer_lost(endpoint_peer(pair.a, pair.a_to_b), THOLE_ERR_PEER);
	pair.a_to_b = pair_peer(pair.a, pair.b);
	assert_int_equal(keys_connect(&pair, pair.a, pair.a_to_b, KEY_B), 0);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	keys_message(&pair, pair.b, pair.b_to_a);
	keys_message(&pair, pair.a, pair.a_to_b);
	keys_close(&pair);
}

static void keys__silence(void **state)
{
	struct thole_request *request;
	struct pair pair;
	uint64_t start_ns;

	(void)state;
	keys_open(&pair);
	request = must_connect(pair.a, pair.a_to_b, KEY_B);
	for (start_ns = now_ns; !thole_test(pair.a, request, NULL); now_ns = endpoint_deadline(pair.a)) {
		endpoint_advance(pair.a, now_ns);
		wires[1].head = wires[1].tail; /* b hears nothing */
		assert_true(now_ns - start_ns < UINT64_C(60000000000));
	}
	assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "silent");
	assert_int_equal(pair_counter(pair.a, "peers_silent"), 1);
	keys_close(&pair);
}

/* Given up, it is tried on, and the peer is connected in the end. */
static void keys__canceled(void **state)
{
	static const struct thole_address elsewhere = {"mxoe:02:00:00:00:00:63/1"};
	struct thole_request *request;
	struct pair pair;
	uint32_t peer;

	(void)state;
	keys_open(&pair);
	request = must_connect(pair.a, pair.a_to_b, KEY_B);
	assert_int_equal(thole_cancel(pair.a, request), 1);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, request), THOLE_ERR_CANCELED);
	keys_message(&pair, pair.a, pair.a_to_b);
	/* And closing while one is under way. */
	endpoint_vanish(pair.b);
	assert_int_equal(thole_peer(pair.a, &elsewhere, &peer), 0);
	must_connect(pair.a, peer, KEY_A);
	thole_endpoint_close(pair.a);
}

/* ---- Many that come and go ------------------------------------------------------------------------------------- */

enum { CLIENTS = 20 };

static unsigned links_of(struct thole_endpoint *server)
{
	unsigned count = 0;

	for (struct list_node *node = list_first(&shm_of(&server->base)->links); node;
	     node = list_next(&shm_of(&server->base)->links, node))
		count++;
	return count;
}

/* A server has no work with clients that have ended, and keeps of them no more than their handles. */
static void shm__who_has_ended_is_forgotten(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct pair pair = {.a = pair_endpoint(NULL, NULL, options)};

	(void)state;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		uint8_t byte = 0;

		pair.b = pair_endpoint(NULL, NULL, options);
		pair.b_to_a = pair_peer(pair.b, pair.a);
		pair.a_to_b = pair_peer(pair.a, pair.b);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
		pair_idle(&pair);
		assert_string_equal(info_of(pair.a, pair.a_to_b).state, "connected");
		assert_int_equal(links_of(pair.a), 1);
		thole_endpoint_close(pair.b);
		for (int turn = 0; shm_link(&pair.a->peers[pair.a_to_b]->base); turn++) {
			assert_true(turn < PAIR_TURNS_MAX);
			thole_progress(pair.a);
		}
		assert_int_equal(links_of(pair.a), 0);
		assert_string_equal(info_of(pair.a, pair.a_to_b).reason, "closed");
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL),
				 THOLE_ERR_CLOSED);
	}
	thole_endpoint_close(pair.a);
}

int main(void)
{
	char config[64] = "/tmp/thole-connect-XXXXXX";
	int failed;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm__connects),
		cmocka_unit_test(shm__names_tell_no_id),
		cmocka_unit_test(shm__nobody_is_there),
		cmocka_unit_test_teardown(shm__connections_are_forbidden, nothing_forbidden),
		cmocka_unit_test(launcher__may_end_the_job_first),
		cmocka_unit_test(launcher__has_its_time),
		cmocka_unit_test(launcher__is_given_time_later),
		cmocka_unit_test(launcher__of_who_closes),
		cmocka_unit_test(launcher__of_who_has_ended_before),
		cmocka_unit_test(greeting__is_checked),
		cmocka_unit_test(greeting__of_another_version),
		cmocka_unit_test(greeting__to_another_version),
		cmocka_unit_test(greeting__of_who_it_was),
		cmocka_unit_test(descriptors__of_who_is_turned_away),
		cmocka_unit_test(descriptors__of_a_peer),
		cmocka_unit_test(descriptors__of_who_waits_at_the_end),
		cmocka_unit_test(descriptors__of_who_is_cancelled),
		cmocka_unit_test(greeting__comes_once),
		cmocka_unit_test(greeting__of_another_process),
		cmocka_unit_test(greeting__does_not_come),
		cmocka_unit_test(greeting__comes_at_the_last_moment),
		cmocka_unit_test(greeting__was_not_read),
		cmocka_unit_test(greeting__finds_the_connection_closed),
		cmocka_unit_test(greeting__that_cannot_go_takes_no_place),
		cmocka_unit_test(greeting__waits_for_descriptors_under_way),
		cmocka_unit_test(greeting__comes_too_late),
		cmocka_unit_test(shm__closed_is_not_dead),
		cmocka_unit_test(shm__who_has_ended_is_forgotten),
		cmocka_unit_test(shm__nobody_is_awaited),
		cmocka_unit_test(shm__who_is_heard_is_not_connected_to),
		cmocka_unit_test(shm__want_is_nobodys_end),
		cmocka_unit_test_teardown(shm__want_delays_answers, nothing_wanting),
		cmocka_unit_test_teardown(shm__want_delays_long_messages, nothing_wanting),
		cmocka_unit_test_teardown(shm__want_asks_seldom, nothing_wanting),
		cmocka_unit_test(network__want_bounds_sleep),
		cmocka_unit_test(shm__last_words_before_the_end),
		cmocka_unit_test(shm__last_words_of_many),
		cmocka_unit_test(shm__closed_beside_a_child),
		cmocka_unit_test(shm__sockets_are_no_childs),
		cmocka_unit_test(shm__dead_beside_a_child),
		cmocka_unit_test(network__connects),
		cmocka_unit_test_teardown(network__instead_of_shared_memory, nothing_wanting),
		cmocka_unit_test(network__refused),
		cmocka_unit_test(network__of_one_user),
		cmocka_unit_test(network__without_a_home),
		cmocka_unit_test(network__nowhere),
		cmocka_unit_test(network__canceled),
		cmocka_unit_test(network__closed_meanwhile),
		cmocka_unit_test(keys__right),
		cmocka_unit_test(keys__of_the_other_mode),
		cmocka_unit_test(keys__of_each_its_own),
		cmocka_unit_test(keys__wrong),
		cmocka_unit_test(keys__late_refusal),
		cmocka_unit_test(keys__another_meanwhile),
		cmocka_unit_test(keys__stay_with_the_place),
		cmocka_unit_test(keys__refused_in_another_epoch),
		cmocka_unit_test(keys__silence),
		cmocka_unit_test(keys__canceled),
	};

	setenv("THOLE_OPTIONS_FILE", "", 1);
	if (!mkdtemp(config))
		return 1;
	setenv("XDG_CONFIG_HOME", config, 1);
	failed = cmocka_run_group_tests_name("connect", tests, NULL, NULL);
	strcat(config, "/thole/job_key");
	(void)unlink(config);
	for (int i = 0; i < 2; i++) {
		*strrchr(config, '/') = '\0';
		(void)rmdir(config);
	}
	return failed;
}
