/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect: how a segment gets from its producer to its consumer, how either learns that the other is gone, and how a
 * sleeper is woken.
 *
 * Each endpoint listens on an abstract Unix socket whose name follows from its id. A producer connects and sends one
 * greeting with the segment's descriptor; the kernel says who it is, and only processes of the same user are
 * taken. The connection then stays: its end is the end of the peer, and a byte on it is a wake-up. A pidfd beside it
 * sees the end of a process whose children still hold its sockets, as those of the bare system call do.
 *
 * A connection is one direction's. Two endpoints that connect to each other at the same time just have both.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/discard.h"
#include "base/limits.h"
#include "base/siphash.h"
#include "base/user.h"
#include "transport/shm/shm.h"

enum {
	GREETING_NS_MAX = 1000000000, /* a connection that says nothing for so long is closed */
	EVENT_BURST = 64,             /* wake-ups, or connections, taken at a time: their sender cannot hold us */
	/* after too many descriptors were under way nobody is greeted for so long, or up to twice that; */
	HELD_NS = 2000000,
	HELD_DOUBLED = 4,             /* twice as long, and so on, each time that this is so again, at most so often */
	ASK_NS = 100000000,           /* between two looks whether somebody is there who cannot be connected to; */
	ASK_DOUBLED = 5,              /* as HELD_DOUBLED */
	ANEW_MAX = 4,                 /* connections to one peer that are made anew because it let go of one unread */
};

#define GREETING_MAGIC 0x74686f6c65686931u /* "tholehi1" */

/* How greetings of all versions begin. By itself it says whom the greeted one takes: none of another version. */
struct greeting_head {
	uint64_t magic;
	uint32_t version;
	uint32_t unused;
};

struct greeting {
	struct greeting_head head;
	struct thole_address from;
	uint64_t to;             /* the endpoint that is meant */
	uint64_t cookie_address; /* in the greeter's memory */
	uint64_t cookie;
};

/* Names are there for everybody to read (/proc/net/unix), and over the network an id is half of what it takes to
 * connect. So the name is a digest with the id as its key: who has not got the address cannot tell the one from the
 * other. */
socklen_t connect_name(uint64_t endpoint, struct sockaddr_un *name)
{
	static const char what[] = "thole shm listener";
	uint64_t digest = siphash((const uint64_t[2]){endpoint, SEGMENT_MAGIC}, what, sizeof(what));
	int length;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "thole/%016llx", (unsigned long long)digest);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void connect_event(struct transport_owner *owner, struct watch *watch, uint64_t now_ns);

static void watch_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	connect_event(owner, container_of(watcher, struct watch, watcher), now_ns);
}

/* From now on it is this one that hears of its descriptor, which no forked child keeps. */
static int watch_control(struct transport_owner *owner, struct watch *watch, int command)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = &watch->watcher};

	watch->watcher.ready = watch_ready;
	if (epoll_ctl(owner->wait_fd, command, watch->fd, &event) != 0)
		return -1;
	forked_add(&watch->forked, &watch->fd, 1);
	return 0;
}

static int watch_add(struct transport_owner *owner, struct watch *watch)
{
	return watch_control(owner, watch, EPOLL_CTL_ADD);
}

/* Out of epoll by itself, too: a thread of discard.c may have the descriptor for a moment longer. Returns it, which the
 * caller closes; -1: there is none. */
static int watch_take(struct transport_owner *owner, struct watch *watch)
{
	int fd = watch->fd;

	if (fd >= 0)
		epoll_ctl(owner->wait_fd, EPOLL_CTL_DEL, fd, NULL);
	watch->fd = -1;
	forked_remove(&watch->forked);
	watch->forked = (struct forked){0};
	return fd;
}

static void watch_close(struct transport_owner *owner, struct watch *watch)
{
	int fd = watch_take(owner, watch);

	if (fd < 0)
		return;
	if (watch->kind == WATCH_PROCESS)
		close(fd);
	else
		discard_socket(fd);
}

/* Whose process is at the other end: this one's user's, or of who it was when it opened its endpoint. A listener keeps
 * the user that made it, whoever its process is by now. */
static int socket_credentials(const struct shm *shm, int fd, pid_t *pid_p)
{
	struct ucred credentials;
	socklen_t size = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
	    (!user_is_same(credentials.uid, geteuid(), credentials.pid, fd) &&
	     !user_is_same(credentials.uid, shm->opened_by, credentials.pid, fd)))
		return THOLE_ERR_ACCESS;
	*pid_p = credentials.pid;
	return 0;
}

/* Watch the peer's process too, where that is possible. False: there is none, whoever holds its sockets. */
static bool process_watch(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	int fd;

	if (link->watch_process.fd >= 0 || link->pid <= 0 || link->pid == getpid())
		return true;
	fd = (int)syscall(SYS_pidfd_open, link->pid, 0);
	if (fd < 0 && errno == ESRCH)
		return false;
	link->watch_process = (struct watch){.kind = WATCH_PROCESS, .peer = peer, .fd = limits_descriptor(fd)};
	if (link->watch_process.fd >= 0 && watch_add(peer->owner, &link->watch_process) != 0)
		watch_close(peer->owner, &link->watch_process);
	return true;
}

static void process_ended(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	link->ended = true;
	watch_close(peer->owner, &link->watch_process);
	connect_ending(peer);
}

static int connect_socket(void)
{
	return limits_descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* ---- The consumer's side -------------------------------------------------------------------------- */

/* One that is kept, so that there is a place where all others are taken. */
static void spare_make(struct shm *shm)
{
	if (shm->spare_fd < 0) /* else something that was done in its place has made it anew */
		shm->spare_fd = limits_own(eventfd(0, EFD_CLOEXEC));
}

static void spare_give(struct shm *shm)
{
	if (shm->spare_fd >= 0)
		close(shm->spare_fd);
	shm->spare_fd = -1;
}

int connect_open(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	struct sockaddr_un name;
	socklen_t length = connect_name(owner->parts.endpoint, &name);
	char remedy[LIMITS_REMEDY_MAX];
	int fd = connect_socket();

	shm->opened_by = geteuid();
	shm->spare_fd = -1;
	spare_make(shm);
	list_init(&shm->greetings);
	shm->listener = (struct watch){.kind = WATCH_LISTENER, .fd = fd};
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    watch_add(owner, &shm->listener) != 0) {
		error_set(THOLE_ERR_SYSTEM, "cannot listen on a Unix socket: %m%s", limits_remedy(errno, remedy));
		connect_close(owner);
		return THOLE_ERR_SYSTEM;
	}
	return 0;
}

static void greeting_end(struct shm *shm, struct watch *watch, bool refused)
{
	if (refused) {
		transport_count(shm->owner, COUNTER_REFUSED);
		watch_close(shm->owner, watch);
	}
	list_remove(&watch->node);
	shm->greeting_count--;
	forked_remove(&watch->forked);
	free(watch);
}

/* Take all who wait at a listener that is shut, and let them go: closed along with it, they would be so in a way that
 * can wait. Whether that is all of them. */
static bool listener_drain(int listener)
{
	int waiting[EVENT_BURST], count, error;

	do {
		for (count = 0; count < EVENT_BURST; count++) {
			waiting[count] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (waiting[count] < 0)
				break;
		}
		error = errno;
		discard_sockets(waiting, (unsigned)count);
	} while (count == EVENT_BURST);
	return error == EAGAIN || error == EINVAL;
}

static void listener_close(struct transport_owner *owner)
{
	int fd = watch_take(owner, &shm_of(owner)->listener);

	if (fd < 0)
		return;
	shutdown(fd, SHUT_RD);
	if (listener_drain(fd))
		close(fd);
	else
		discard_received(&fd, 1);
}

void connect_close(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);

	listener_close(owner);
	spare_give(shm);
	while (!list_empty(&shm->greetings)) {
		struct watch *watch = container_of(list_first(&shm->greetings), struct watch, node);

		watch_close(owner, watch);
		greeting_end(shm, watch, false);
	}
}

/* Whose greeting is there. It stays, and so does its descriptor. NULL: nobody's whom this transport reaches. */
static struct transport_peer *greeting_look(struct transport_owner *owner, int fd)
{
	struct greeting greeting;
	struct transport_peer *peer;

	if (recv(fd, &greeting, sizeof(greeting), MSG_PEEK | MSG_DONTWAIT) != sizeof(greeting) ||
	    greeting.head.magic != GREETING_MAGIC || greeting.head.version != SEGMENT_VERSION ||
	    greeting.to != owner->parts.endpoint || owner->up->peer(owner, &greeting.from, &peer) != 0)
		return NULL;
	return peer->transport == &shm_transport ? peer : NULL;
}

/* A greeting that cannot be taken: its sender has sent messages with it that nobody will see, and learns no more than
 * the end of the connection. Who waits for them here is not to wait for ever either. */
static void greeting_lost(struct transport_peer *peer, pid_t pid)
{
	struct shm_peer *link;

	if (!peer || peer->gone)
		return;
	link = shm_peer_get(peer);
	if (!link)
		peer->owner->up->lost(peer, THOLE_ERR_PEER); /* there is nothing to be ended */
	else if (!link->in.segment && (!link->connected || link->pid == pid))
		connect_ending(peer);
}

/* No descriptor is left for who waits at the listener, and already believes to be connected: he learns that he is not,
 * rather than wait for ever. */
static void connect_turn_away(struct transport_owner *owner, int reason)
{
	struct shm *shm = shm_of(owner);
	char remedy[LIMITS_REMEDY_MAX];
	pid_t pid = 0;
	int fd;

	spare_give(shm);
	fd = accept4(shm->listener.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0) {
		transport_count(owner, COUNTER_REFUSED);
		if (socket_credentials(shm, fd, &pid) == 0)
			greeting_lost(greeting_look(owner, fd), pid);
		discard_socket(fd);
		errno = reason;
		error_set(THOLE_ERR_SYSTEM, "a process that connects is turned away: %m%s",
			  limits_remedy(reason, remedy));
		transport_trouble(owner);
	}
	spare_make(shm);
}

/* No connection will ever be taken: the kernel refuses the call itself (seccomp). Who waits at the listener, and who
 * comes later, learns it as it would of a process that has ended. */
static void connect_refuse_all(struct transport_owner *owner)
{
	transport_count(owner, COUNTER_REFUSED);
	error_set(THOLE_ERR_SYSTEM, "processes that connect are not let in: %m");
	transport_trouble(owner);
	listener_close(owner);
}

/* Take up to EVENT_BURST connections that wait at the listener, and their greetings. Returns how many there were. */
static int connect_accept(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);
	int count = 0, refused[EVENT_BURST];
	unsigned refused_count = 0;

	for (; count < EVENT_BURST && shm->greeting_count < GREETINGS_MAX; count++) {
		int fd = limits_descriptor(accept4(shm->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		struct watch *watch = NULL;
		pid_t pid = 0;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE)
				connect_turn_away(owner, errno);
			else if (errno == ENOSYS || errno == EPERM || errno == EACCES)
				connect_refuse_all(owner);
			break;
		}
		if (socket_credentials(shm, fd, &pid) == 0) {
			watch = malloc(sizeof(*watch));
			if (!watch)
				greeting_lost(greeting_look(owner, fd), pid);
		}
		if (!watch) {
			transport_count(owner, COUNTER_REFUSED);
			refused[refused_count++] = fd;
			continue;
		}
		*watch = (struct watch){.kind = WATCH_GREETING, .fd = fd, .pid = pid, .since_ns = now_ns};
		list_push_back(&shm->greetings, &watch->node);
		shm->greeting_count++;
		if (watch_add(owner, watch) != 0) {
			greeting_lost(greeting_look(owner, fd), pid);
			greeting_end(shm, watch, true);
		} else {
			connect_event(owner, watch, now_ns); /* it is usually there already */
		}
	}
	discard_sockets(refused, refused_count);
	return count;
}

void connect_accept_all(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);

	for (struct list_node *node = list_first(&shm->greetings), *next; node; node = next) {
		next = list_next(&shm->greetings, node);
		connect_event(owner, container_of(node, struct watch, node), now_ns);
	}
	for (int i = 0; i < SOMAXCONN && connect_accept(owner, now_ns) == EVENT_BURST; i += EVENT_BURST)
		;
}

enum { NO_DESCRIPTOR = -1, LOST_DESCRIPTOR = -2 };

/* Receive a message, and the one descriptor that may come with it: NO_DESCRIPTOR where there is none, or are several;
 * LOST_DESCRIPTOR where the kernel did not give them all to this process. */
static ssize_t socket_receive(int socket, void *message, size_t length, int *fd_p)
{
	union {
		char bytes[CMSG_SPACE(DISCARD_RIGHTS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec data = {message, length};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	ssize_t size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *rights = size >= 0 ? CMSG_FIRSTHDR(&header) : NULL;
	unsigned count;
	int fds[DISCARD_RIGHTS_MAX];

	*fd_p = size >= 0 && header.msg_flags & MSG_CTRUNC ? LOST_DESCRIPTOR : NO_DESCRIPTOR;
	if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS)
		return size;
	count = (unsigned)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(rights), count * sizeof(int));
	if (count == 1 && *fd_p == NO_DESCRIPTOR)
		*fd_p = limits_own(fds[0]);
	else
		discard_received(fds, count);
	return size;
}

/* Receive the greeting and its descriptor, which may be lost. 0, AGAIN, or PROTOCOL. */
static int greeting_receive(int socket, struct greeting *greeting, int *fd_p)
{
	ssize_t size = socket_receive(socket, greeting, sizeof(*greeting), fd_p);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return THOLE_ERR_AGAIN;
	if (size == sizeof(*greeting) && *fd_p != NO_DESCRIPTOR)
		return 0;
	if (*fd_p >= 0)
		discard_received(fd_p, 1);
	return THOLE_ERR_PROTOCOL;
}

static int ring_in_add(struct shm *shm, struct ring_in *ring)
{
	struct ring_watch *in = array_reserve(shm->in, &shm->in_capacity, shm->in_count + 1, sizeof(*in));

	if (!in)
		return THOLE_ERR_MEMORY;
	shm->in = in;
	shm->in[shm->in_count++].ring = ring;
	shm->owner->locals = shm->in_count;
	for (uint32_t i = 0; i < shm->in_count && shm->in_count > 1; i++)
		shm_watch(shm, i); /* while it was alone, the first did not keep this up */
	return 0;
}

/* Mark who is of the same process as another one. */
static void greeting_compare(const struct shm *shm, struct shm_peer *link)
{
	for (uint32_t i = 0; i < shm->in_count; i++) {
		struct shm_peer *other = shm_link(shm->in[i].ring->peer);

		if (other != link && other->pid == link->pid)
			other->beside = link->beside = true;
	}
}

/* What others took as soon as it was free, or what came is not for this process. */
static int greeting_has_lost(const struct transport_owner *owner)
{
	char remedy[LIMITS_REMEDY_MAX];

	error_set(THOLE_ERR_SYSTEM,
		  "a process that connects is turned away: the descriptor of its memory was not let in, since too many "
		  "files are open%s, or a security module forbids it; then shm=off for all",
		  limits_remedy(EMFILE, remedy));
	transport_trouble(owner);
	return THOLE_ERR_SYSTEM;
}

/* Take a connection whose greeting is here. */
static int greeting_take(struct transport_owner *owner, struct watch *watch, const struct greeting *greeting, int fd)
{
	struct shm *shm = shm_of(owner);
	struct shm_peer *link;
	struct transport_peer *peer;
	int error;

	if (greeting->head.magic != GREETING_MAGIC || greeting->head.version != SEGMENT_VERSION ||
	    greeting->to != owner->parts.endpoint)
		return THOLE_ERR_PROTOCOL;
	error = owner->up->peer(owner, &greeting->from, &peer);
	if (error)
		return error;
	if (peer->transport != &shm_transport || peer->gone)
		return THOLE_ERR_PROTOCOL;
	link = shm_peer_get(peer);
	if (!link) {
		greeting_lost(peer, watch->pid);
		return THOLE_ERR_MEMORY;
	}
	if (link->in.segment)
		return THOLE_ERR_PROTOCOL;
	if (link->connected && link->pid != watch->pid) /* the kernel knows who listens at this address */
		return THOLE_ERR_PROTOCOL;
	error = fd == LOST_DESCRIPTOR ? greeting_has_lost(owner) : segment_accept(&link->in, fd);
	if (error == THOLE_ERR_MEMORY || error == THOLE_ERR_SYSTEM)
		greeting_lost(peer, watch->pid);
	if (error)
		return error;
	link->in.peer = peer;
	error = ring_in_add(shm, &link->in);
	link->watch_in = (struct watch){.kind = WATCH_IN, .fd = watch->fd, .peer = peer};
	if (!error && watch_control(owner, &link->watch_in, EPOLL_CTL_MOD) != 0) {
		owner->locals = --shm->in_count;
		error = THOLE_ERR_SYSTEM;
	}
	if (error) {
		link->watch_in.fd = -1;
		segment_release_in(&link->in);
		greeting_lost(peer, watch->pid);
		return error;
	}
	link->pid = watch->pid;
	greeting_compare(shm, link);
	link->cookie_address = greeting->cookie_address;
	link->cookie = greeting->cookie;
	link->in.segment->cookie_address = (uintptr_t)shm->cookie;
	link->in.segment->cookie = *shm->cookie;
	choose_tell(peer);
	store_release(&link->in.segment->accepted, 1); /* pairs with the acquire in copy_allowed */
	if (!process_watch(peer))
		process_ended(peer);
	transport_count(owner, COUNTER_ACCEPTS);
	return 0;
}

/* Where addresses are given again (mxoe), somebody may greet before the end of the one who had his is seen. The
 * greeting stays where it is until then, or until it has waited for too long. */
static bool greeting_is_early(struct transport_owner *owner, const struct watch *watch)
{
	struct transport_peer *peer = NULL;
	const struct shm_peer *link;

	if (owner->parts.network[0] == ADDRESS_MXOE)
		peer = greeting_look(owner, watch->fd);
	link = peer ? shm_link(peer) : NULL;
	return link && (link->in.segment || (link->connected && link->pid != watch->pid));
}

/* Another Thole's greeting may be longer or shorter, but begins in the same way. Its sender, whose connection ends, is
 * told, too. */
static void greeting_tell_version(const struct transport_owner *owner, int socket, const struct greeting_head *head)
{
	static const struct greeting_head ours = {.magic = GREETING_MAGIC, .version = SEGMENT_VERSION};

	if (head->magic != GREETING_MAGIC || head->version == SEGMENT_VERSION)
		return;
	connect_send(socket, &ours, sizeof(ours), -1);
	error_set(THOLE_ERR_PROTOCOL,
		  "a process with another version of Thole is not let in (its shared memory is of version %u, ours of "
		  "%d): all processes of a host need the same Thole",
		  head->version, SEGMENT_VERSION);
	transport_trouble(owner);
}

/* Whether that is all that was to be heard of it. What comes with a greeting has the spare descriptor's place, if no
 * other is left, until it is mapped. */
static bool connect_greeting(struct transport_owner *owner, struct watch *watch)
{
	struct shm *shm = shm_of(owner);
	struct greeting greeting = {0};
	int fd, error;

	if (greeting_is_early(owner, watch))
		return false;
	spare_give(shm);
	error = greeting_receive(watch->fd, &greeting, &fd);
	greeting_tell_version(owner, watch->fd, &greeting.head);
	if (!error) {
		error = greeting_take(owner, watch, &greeting, fd);
		if (fd >= 0)
			discard_received(&fd, 1);
	}
	spare_make(shm);
	if (error == THOLE_ERR_AGAIN)
		return false;
	greeting_end(shm, watch, error != 0);
	return true;
}

/* Close connections that never said who they are, nor have by now: whoever has takes the end of his connection for that
 * of this process. Some may be younger than now_ns: who connects is also let in between (connect_failed). */
void connect_expire(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);
	struct list_node *node = list_first(&shm->greetings);

	while (node) {
		struct watch *watch = container_of(node, struct watch, node);

		node = list_next(&shm->greetings, node);
		if (now_ns > watch->since_ns + GREETING_NS_MAX && !connect_greeting(owner, watch))
			greeting_end(shm, watch, true);
	}
}

/* ---- The producer's side -------------------------------------------------------------------------- */

bool connect_send(int socket, const void *message, size_t size, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec data = {(void *)(uintptr_t)message, size};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	if (fd < 0)
		header.msg_controllen = 0;
	return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static int greeting_send(struct transport_peer *peer, int socket, int fd)
{
	struct transport_owner *owner = peer->owner;
	struct shm *shm = shm_of(owner);
	struct greeting greeting = {
		.head = {.magic = GREETING_MAGIC, .version = SEGMENT_VERSION},
		.from = owner->address,
		.to = peer->parts.endpoint,
		.cookie_address = (uintptr_t)shm->cookie,
		.cookie = *shm->cookie,
	};

	return connect_send(socket, &greeting, sizeof(greeting), fd) ? 0 : THOLE_ERR_PEER;
}

/* Something is wanting here, of which the peer is none the worse. */
static int connect_wants(const struct transport_peer *peer)
{
	char remedy[LIMITS_REMEDY_MAX];

	return error_set(THOLE_ERR_SYSTEM, "cannot connect to %s: %m%s", peer->address.text,
			 limits_remedy(errno, remedy));
}

/* Whether another connection to the peer may be made because it did not wait for the greeting on one. */
static bool connect_may_anew(struct shm_peer *link)
{
	return link->anew++ < ANEW_MAX;
}

/* The greeting was refused. Of a user's descriptors only so many may be sent and not yet received (RLIMIT_NOFILE): it
 * goes as soon as others have read theirs, and until then nobody's does. Who has waited for it for too long has closed
 * the connection: then by another one. */
static int greeting_refused(struct transport_peer *peer)
{
	int reason = errno;

	if (reason == ETOOMANYREFS) {
		struct shm *shm = shm_of(peer->owner);
		uint64_t now_ns = clock_now_ns(), held_ns = (uint64_t)HELD_NS << shm->held_times;

		/* not all at once */
		shm->held_ns = now_ns + held_ns + (now_ns ^ peer->owner->parts.endpoint) % held_ns;
		shm->held_times += shm->held_times < HELD_DOUBLED;
		return THOLE_ERR_AGAIN;
	}
	if (reason == EPIPE && connect_may_anew(shm_link(peer)))
		return THOLE_ERR_AGAIN;
	if (limits_caused(reason))
		return connect_wants(peer);
	return error_set(THOLE_ERR_PEER, "the connection to %s broke: %m", peer->address.text);
}

/* There may be somebody, but a security module or a filter lets nobody through. */
static int connect_forbidden(const struct transport_peer *peer)
{
	return error_set(THOLE_ERR_PEER,
			 "cannot connect to %s: %m; where that is forbidden, shm=off for all goes over the network",
			 peer->address.text);
}

static int connect_stranger(const struct transport_peer *peer)
{
	return error_set(THOLE_ERR_PEER, "%s belongs to another user%s; shm=off for all goes over the network",
			 peer->address.text,
			 user_is_several(geteuid())
				 ? ", or to this one in another PID namespace: they cannot be told apart, since the "
				   "user namespace has no number for this user alone"
				 : "");
}

static int connect_nobody(const struct transport_peer *peer)
{
	return error_set(THOLE_ERR_PEER,
			 "no process answers for %s: it has ended, or is of another network namespace, or of a machine "
			 "that began as a copy of this one: then give each a name of its own by the option host",
			 peer->address.text);
}

/* Connect to the peer's listener and greet it. It is watched before it is greeted: who has the greeting, and sees this
 * connection end, takes this process to be gone. */
static int connect_greet(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	struct sockaddr_un name;
	socklen_t length = connect_name(peer->parts.endpoint, &name);
	int error;

	if (connect(link->watch_out.fd, (struct sockaddr *)&name, length) != 0) {
		if (errno == EAGAIN || errno == EINTR)
			return THOLE_ERR_AGAIN;
		if (errno == ECONNREFUSED)
			return connect_nobody(peer);
		return limits_caused(errno) ? connect_wants(peer) : connect_forbidden(peer);
	}
	error = socket_credentials(shm_of(peer->owner), link->watch_out.fd, &link->pid);
	if (error)
		return connect_stranger(peer);
	if (watch_add(peer->owner, &link->watch_out) != 0)
		return connect_wants(peer);
	if (greeting_send(peer, link->watch_out.fd, link->out.fd) != 0)
		return greeting_refused(peer);
	if (!process_watch(peer))
		return connect_nobody(peer);
	shm_of(peer->owner)->held_times = 0;
	link->connected = true;
	peer->rendezvous_classes = link->out.segment->rendezvous_classes;
	transport_count(peer->owner, COUNTER_CONNECTS);
	return 0;
}

/* 0; AGAIN while the peer's listener is full, or the greeting cannot go; PEER if there is nobody; SYSTEM where
 * something is wanting here. Each try has a connection of its own: one that says nothing until the next would have a
 * place at the peer that others need, for whose greetings this one may be waiting. */
static int connect_try(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	int error;

	link->watch_out = (struct watch){.kind = WATCH_OUT, .peer = peer, .fd = connect_socket()};
	if (link->watch_out.fd < 0)
		return connect_wants(peer);
	error = connect_greet(peer);
	if (error)
		watch_close(peer->owner, &link->watch_out);
	if (error == THOLE_ERR_AGAIN)
		transport_count(peer->owner, COUNTER_CONNECTS_AGAIN);
	return error;
}

/* It is tried again (connect_retry). */
static void connect_later(struct transport_peer *peer)
{
	shm_link(peer)->connecting = true;
	shm_link(peer)->wanting = false;
	shm_of(peer->owner)->connecting++;
}

/* What is wanting here may last, and no call of the program's is under way that could say so. */
static void connect_tell_want(struct transport_peer *peer)
{
	if (!shm_link(peer)->wanting)
		transport_trouble(peer->owner);
	shm_link(peer)->wanting = true;
}

static void connect_undo(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	link->connected = false;
	peer->rendezvous_classes = NULL; /* it was in the segment */
	watch_close(peer->owner, &link->watch_out);
	segment_release_out(peer->owner, &link->out);
}

/* Nobody answers for the peer. What it wrote before it ended comes first, and so does a greeting that was not read:
 * then 0, and it is lost once all that is handled. */
static int connect_failed(struct transport_peer *peer, int error)
{
	struct transport_owner *owner = peer->owner;
	struct shm_peer *link = shm_link(peer);

	if (!link->in.segment) /* so this is no answer to a record, and rings may be added */
		connect_accept_all(owner, clock_now_ns());
	if (link->in.segment && ring_ready(&link->in)) {
		connect_ending(peer);
		return 0;
	}
	if (link->in.segment)
		error = shm_end_status(link);
	connect_undo(peer);
	owner->up->lost(peer, error);
	return error;
}

/* Whether nobody answers for the peer. Where something is wanting to connect to it that can be asked all the same, by
 * the spare descriptor: whoever waits for the dead would go on as long as it is wanting. Seldom, and ever more so: who
 * lives is woken by it, and has one more connection at its listener, where there is room for so many. */
static bool connect_finds_nobody(struct transport_peer *peer)
{
	struct shm *shm = shm_of(peer->owner);
	struct shm_peer *link = shm_link(peer);
	struct sockaddr_un name;
	socklen_t length = connect_name(peer->parts.endpoint, &name);
	uint64_t now_ns = clock_now_ns();
	bool nobody;
	int fd;

	if (now_ns < link->ask_ns)
		return false;
	link->ask_ns = now_ns + ((uint64_t)ASK_NS << link->asked_times);
	if (link->asked_times < ASK_DOUBLED)
		link->asked_times++;
	spare_give(shm);
	fd = connect_socket();
	nobody = fd >= 0 && connect(fd, (struct sockaddr *)&name, length) != 0 && errno == ECONNREFUSED;
	if (fd >= 0)
		discard_socket(fd);
	spare_make(shm);
	return nobody;
}

int connect_peer(struct transport_peer *peer)
{
	struct transport_owner *owner = peer->owner;
	struct shm_peer *link = shm_peer_get(peer);
	int error, fd;

	if (!link)
		return error_set(THOLE_ERR_MEMORY, "no memory for another peer");
	error = segment_create(owner, &link->out, &fd);
	if (!error)
		error = clock_now_ns() < shm_of(owner)->held_ns ? THOLE_ERR_AGAIN : connect_try(peer);
	if (error == THOLE_ERR_AGAIN) {
		connect_later(peer);
		return 0;
	}
	if (error && error != THOLE_ERR_PEER && connect_finds_nobody(peer))
		error = connect_nobody(peer);
	if (error && error != THOLE_ERR_PEER) {
		connect_undo(peer);
		return error;
	}
	return error ? connect_failed(peer, error) : 0;
}

/* Peers whose listeners were full, or that something was wanting for, or who let go of a greeting. */
void connect_retry(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);

	for (struct list_node *node = list_first(&shm->links); node && shm->connecting > 0 && now_ns >= shm->held_ns;
	     node = list_next(&shm->links, node)) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);
		int error;

		if (!link->connecting || link->ending)
			continue;
		error = connect_try(link->peer);
		if (error == THOLE_ERR_SYSTEM && connect_finds_nobody(link->peer))
			error = connect_nobody(link->peer);
		if (error == THOLE_ERR_SYSTEM)
			connect_tell_want(link->peer);
		if (shm->held_ns > now_ns) { /* another one is the first next time */
			list_remove(node);
			list_push_back(&shm->links, node);
			break;
		}
		if (error == THOLE_ERR_AGAIN || error == THOLE_ERR_SYSTEM)
			continue;
		link->connecting = false;
		shm->connecting--;
		if (error)
			connect_failed(link->peer, error);
		else
			owner->up->connected(link->peer, 0);
	}
}

void connect_wake(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (!link->connected || swap_acquire_release(&link->out.segment->wake, 0) == 0)
		return;
	transport_count(peer->owner, COUNTER_WAKES_SENT);
	/* A full socket has wake-ups enough in it; a broken one is seen by its watch. */
	(void)!send(link->watch_out.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- Events, and the end -------------------------------------------------------------------------- */

void connect_ending(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	/* Level-triggered events of a closed connection would keep the descriptor ready for ever. */
	watch_close(peer->owner, &link->watch_in);
	watch_close(peer->owner, &link->watch_out);
	if (link->ending || peer->gone)
		return;
	link->ending = true;
	shm_of(peer->owner)->ending++;
}

/* Of a process of another PID namespace no id is known here. It closes its connections after its last call. */
static bool connection_lasts(const struct shm_peer *link)
{
	struct pollfd sockets[] = {{.fd = link->watch_in.fd, .events = POLLRDHUP},
				   {.fd = link->watch_out.fd, .events = POLLRDHUP}};

	return poll(sockets, 2, 0) <= 0;
}

bool connect_lives(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	struct pollfd process = {.fd = link->watch_process.fd, .events = POLLIN};
	int error;

	if (link->ended || (process.fd >= 0 && poll(&process, 1, 0) > 0))
		return false;
	if (link->pid <= 0)
		return connection_lasts(link);
	/* Exec waits for the end of all other threads before memory is exchanged. A process whose first thread has
	 * ended has others, perhaps, and looks like none (ESRCH); a pidfd knows better. */
	error = copy_known(link);
	return error != ESTALE && (error != ESRCH || process.fd >= 0);
}

/* The greeted one has another Thole, and does not let us in (greeting_tell_version). */
static void greeting_unheard(struct transport_peer *peer, const void *message, size_t size)
{
	struct greeting_head theirs;

	if (size != sizeof(theirs))
		return;
	memcpy(&theirs, message, sizeof(theirs));
	if (theirs.magic != GREETING_MAGIC || shm_link(peer)->foreign)
		return;
	shm_link(peer)->foreign = true;
	error_set(THOLE_ERR_PROTOCOL,
		  "%s has another version of Thole (its shared memory is of version %u, ours of %d): all processes of "
		  "a host need the same Thole",
		  peer->address.text, theirs.version, SEGMENT_VERSION);
	transport_trouble(peer->owner);
}

/* Swallow wake-ups, and take what is told with a descriptor; false at the end of the connection. Where the peer has
 * closed it with something of ours unread, the kernel says so before what it wrote last. */
static bool connect_drain(struct transport_peer *peer, int socket)
{
	char message[64];
	ssize_t size = 1;
	int fd;

	for (int i = 0; i < EVENT_BURST && (size > 0 || (size < 0 && errno == ECONNRESET)); i++) {
		size = socket_receive(socket, message, sizeof(message), &fd);
		if (size > 0 && fd < 0)
			greeting_unheard(peer, message, (size_t)size);
		attach_arrived(peer, message, size > 0 ? (size_t)size : 0, fd);
	}
	return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Our connection has ended before the peer had the segment. One that goes on has let go of the greeting, since it came
 * too late: it is greeted anew, and the segment has all that it is to see. Where nobody answers any more, that says so.
 * An address that is given again may be another's by now. */
static bool connect_anew(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (!link->connected || link->ending || link->foreign || link->out.fd < 0 ||
	    load_relaxed(&link->out.segment->accepted) || peer->parts.network[0] == ADDRESS_MXOE ||
	    !connect_may_anew(link))
		return false;
	transport_count(peer->owner, COUNTER_CONNECTS_AGAIN);
	watch_close(peer->owner, &link->watch_out);
	attach_forget_told(link); /* it was behind the greeting */
	connect_later(peer);
	return true;
}

static void connection_ended(struct transport_peer *peer, const struct watch *watch)
{
	struct shm_peer *link = shm_link(peer);

	if (watch->kind == WATCH_OUT && connect_anew(peer))
		return;
	link->ended |= link->pid <= 0; /* as connection_lasts: its sockets are closed here now */
	connect_ending(peer);
}

static void connect_event(struct transport_owner *owner, struct watch *watch, uint64_t now_ns)
{
	switch (watch->kind) {
	case WATCH_LISTENER:
		connect_accept(owner, now_ns);
		break;
	case WATCH_GREETING:
		connect_greeting(owner, watch);
		break;
	case WATCH_PROCESS:
		process_ended(watch->peer);
		break;
	default:
		if (watch->fd >= 0 && !connect_drain(watch->peer, watch->fd))
			connection_ended(watch->peer, watch);
	}
}

void connect_release(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	watch_close(peer->owner, &link->watch_in);
	watch_close(peer->owner, &link->watch_out);
	watch_close(peer->owner, &link->watch_process);
}
