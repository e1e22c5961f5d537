/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * responder: see responder.h. The lock is held while sockets are looked at, so that none is closed under the thread.
 *
 * A program may close descriptors that it has not opened (closefrom), and have files of its own there. So the thread is
 * ended by a flag, which it looks at from time to time, and woken by what only those two descriptors take that have
 * been registered with each other: nothing is written to the one or read from the other.
 */
#include "transport/datagram/responder.h"

#include <errno.h>
#include <linux/filter.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/endian.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/registered.h"
#include "base/siphash.h"
#include "base/thread.h"

enum {
	EVENTS = 16,
	UDP_HEAD = 8,
	LOOK_MS = 1000, /* of who cannot be woken any more: its descriptors are closed */
};

/* The thread, and what it sleeps on. */
struct service {
	pthread_t thread;
	struct forked forked;
	int fds[2]; /* epoll; an eventfd that is always readable, in which epoll takes an interest when it should end */
	bool ending;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sigset_t signals; /* of who has it, but for the thread */
static struct list_node responders = {&responders, &responders};
static struct service *service;

/* ---- Proof ----------------------------------------------------------------------------------------- */

uint64_t responder_proof(uint64_t key, uint64_t endpoint, uint64_t number)
{
	uint8_t text[16];

	store_be64(text, endpoint);
	store_be64(text + 8, number);
	return siphash((const uint64_t[2]){key, 0x7468657265}, text, sizeof(text));
}

void responder_path(const struct path *records, struct path *questions)
{
	*questions = *records;
	questions->bytes[INTERFACE_ADDRESS + 1] ^= 1;
}

/* ---- Answering ------------------------------------------------------------------------------------- */

static void answer(const struct responder *responder)
{
	int fd = responder->fds[RESPONDER_QUESTIONS];
	uint8_t bytes[QUESTION_BYTES];

	for (unsigned i = 0; i < RESPONDER_ANSWERS; i++) {
		union socket_address from;
		socklen_t size = sizeof(from);
		ssize_t length = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT, &from.any, &size);
		uint64_t number = load_be64(bytes + QUESTION_NUMBER_AT);

		if (length < 0)
			return;
		if (length != QUESTION_BYTES || number == 0)
			continue;
		store_be64(bytes, number);
		store_be64(bytes + ANSWER_PROOF_AT, responder_proof(responder->key, responder->endpoint, number));
		sendto(fd, bytes, ANSWER_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL, &from.any, size);
	}
}

/* Whoever connects has his answer with that. A reset leaves no trace in the kernel: there is nothing under way. */
static void let_go(const struct responder *responder)
{
	struct linger linger = {.l_onoff = 1};

	for (unsigned i = 0; i < RESPONDER_ACCEPTS; i++) {
		int fd = accept4(responder->fds[RESPONDER_LISTENER], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(fd);
	}
}

/* Whether its descriptors are what they were: then it wakes by the one from now on, or not. */
static bool service_wakes(const struct service *own, bool wakes)
{
	return registered_for(load_relaxed(&own->fds[0]), load_relaxed(&own->fds[1]),
			      (struct epoll_event){.events = wakes ? EPOLLIN : 0});
}

/* They are not: what has their numbers is somebody else's. */
static void service_forget(struct service *own)
{
	for (unsigned i = 0; i < 2; i++)
		store_relaxed(&own->fds[i], -1);
}

static bool service_ends(const struct service *own)
{
	return load_acquire(&own->ending); /* partner: service_end */
}

/* Returns whether the thread should go on. */
static bool service_turn(const struct service *own)
{
	struct epoll_event events[EVENTS];
	struct list_node *node;
	int count;

	if (!service_wakes(own, false) || service_ends(own)) /* in this order: it may be said now, too */
		return false;
	count = epoll_wait(load_relaxed(&own->fds[0]), events, EVENTS, LOOK_MS);
	if (service_ends(own))
		return false;
	if (count <= 0)
		return count == 0 || errno == EINTR;
	pthread_mutex_lock(&lock);
	for (node = list_first(&responders); node; node = list_next(&responders, node)) {
		answer(container_of(node, struct responder, node));
		let_go(container_of(node, struct responder, node));
	}
	pthread_mutex_unlock(&lock);
	clock_sleep(RESPONDER_PAUSE_NS);
	return true;
}

static void *service_run(void *arg)
{
	while (service_turn(arg))
		;
	return NULL;
}

/* ---- The thread ------------------------------------------------------------------------------------ */

static void before_fork(void)
{
	thread_lock(&lock, &signals);
}

static void after_fork(void)
{
	thread_unlock(&lock, &signals);
}

/* The child has no thread, and what it inherits answers for nobody; forked has closed it. It may open endpoints of
 * its own. */
static void in_child(void)
{
	struct list_node *node;

	while ((node = list_first(&responders))) {
		list_remove(node);
		container_of(node, struct responder, node)->running = false;
	}
	service = NULL;
	thread_unlock(&lock, &signals);
}

__attribute__((constructor)) static void service_begin(void) /* see forked.h */
{
	pthread_atfork(before_fork, after_fork, in_child);
}

static void service_free(struct service *own)
{
	forked_remove(&own->forked);
	forked_close(&own->fds[0]);
	forked_close(&own->fds[1]);
	free(own);
}

static struct service *service_new(void)
{
	struct epoll_event event = {.events = 0};
	struct service *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	own->fds[0] = limits_own(epoll_create1(EPOLL_CLOEXEC));
	own->fds[1] = limits_own(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	forked_add(&own->forked, own->fds, 2);
	if (own->fds[0] < 0 || own->fds[1] < 0 || epoll_ctl(own->fds[0], EPOLL_CTL_ADD, own->fds[1], &event) != 0 ||
	    (errno = thread_start(&own->thread, "thole-here", service_run, own)) != 0) {
		service_free(own);
		return NULL;
	}
	return own;
}

/* With the lock: the thread, which is nobody's any more, if nobody needs it. */
static struct service *service_idle(void)
{
	struct service *idle = list_empty(&responders) ? service : NULL;

	if (idle)
		service = NULL;
	return idle;
}

/* With the lock, and a responder to come: the thread, if it is of no use any more. Those that it had went along with
 * its descriptors: they answer no more, and close nothing. */
static struct service *service_lost(void)
{
	struct service *lost = service && !service_wakes(service, false) ? service : NULL;
	struct list_node *node;

	if (!lost)
		return NULL;
	while ((node = list_first(&responders))) {
		struct responder *responder = container_of(node, struct responder, node);

		list_remove(node);
		responder->running = false;
		for (unsigned i = 0; i < RESPONDER_SOCKETS; i++)
			responder->fds[i] = -1;
	}
	service_forget(lost);
	service = NULL;
	return lost;
}

/* Without the lock. With the last responder the thread ends. errno stays. */
static void service_end(struct service *ending)
{
	int error = errno;

	if (!ending)
		return;
	store_release(&ending->ending, true); /* partner: service_ends */
	if (!service_wakes(ending, true))     /* it looks by itself, soon */
		service_forget(ending);
	pthread_join(ending->thread, NULL);
	service_free(ending);
	errno = error;
}

static bool service_add(struct responder *responder)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct service *ending, *lost;
	bool added;

	thread_lock(&lock, &signals);
	lost = service_lost();
	if (!service)
		service = service_new();
	added = service && epoll_ctl(service->fds[0], EPOLL_CTL_ADD, responder->fds[0], &event) == 0 &&
		epoll_ctl(service->fds[0], EPOLL_CTL_ADD, responder->fds[1], &event) == 0;
	if (added)
		list_push_back(&responders, &responder->node);
	responder->running = added;
	ending = service_idle();
	thread_unlock(&lock, &signals);
	service_end(lost);
	service_end(ending);
	return added;
}

static void service_remove(struct responder *responder)
{
	struct service *ending;

	thread_lock(&lock, &signals);
	list_remove(&responder->node);
	for (unsigned i = 0; i < RESPONDER_SOCKETS && service; i++)
		epoll_ctl(service->fds[0], EPOLL_CTL_DEL, responder->fds[i], NULL);
	ending = service_idle();
	thread_unlock(&lock, &signals);
	service_end(ending);
}

/* ---- Opening --------------------------------------------------------------------------------------- */

/* What is no question with this endpoint's token does not get in: a stranger's flood fills no buffer and wakes
 * nobody. */
static int filter_questions(int fd, uint64_t token)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UDP_HEAD + QUESTION_BYTES, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, UDP_HEAD),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(token >> 32), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, UDP_HEAD + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)token, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* One of the sockets, bound. Returns 0 or an errno. */
static int socket_bind(int *fd_p, int type, const struct path *path, uint32_t interface)
{
	union socket_address name;
	socklen_t size = interface_sockaddr(path, interface, &name);

	*fd_p = limits_own(socket(name.any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	return *fd_p >= 0 && bind(*fd_p, &name.any, size) == 0 ? 0 : errno;
}

static int sockets_open(struct responder *responder, uint32_t interface, const struct path *own)
{
	struct path questions;
	int error;

	responder_path(own, &questions);
	error = socket_bind(&responder->fds[RESPONDER_QUESTIONS], SOCK_DGRAM, &questions, interface);
	if (!error && filter_questions(responder->fds[RESPONDER_QUESTIONS],
				       responder_proof(responder->key, responder->endpoint, 0)) != 0)
		error = errno;
	if (!error)
		error = socket_bind(&responder->fds[RESPONDER_LISTENER], SOCK_STREAM, own, interface);
	if (!error && listen(responder->fds[RESPONDER_LISTENER], RESPONDER_BACKLOG) != 0)
		error = errno;
	return error;
}

int responder_open(struct responder *responder, uint32_t interface, const struct path *own, uint64_t key,
		   uint64_t endpoint)
{
	char remedy[LIMITS_REMEDY_MAX];
	int error;

	*responder = (struct responder){.fds = {-1, -1}, .key = key, .endpoint = endpoint};
	list_init(&responder->node);
	forked_add(&responder->forked, responder->fds, RESPONDER_SOCKETS);
	error = sockets_open(responder, interface, own);
	if (!error && service_add(responder))
		return 0;
	if (!error)
		error_set(THOLE_ERR_SYSTEM,
			  "cannot start the thread that answers for this process while it computes: %m%s",
			  limits_remedy(errno, remedy));
	errno = error;
	if (error)
		error_set(THOLE_ERR_SYSTEM, "cannot open the ports where peers ask whether this process lives: %m%s",
			  limits_remedy(error, remedy));
	responder_close(responder);
	/* or next door is a privileged one */
	return error == EADDRINUSE || error == EACCES ? THOLE_ERR_BUSY : THOLE_ERR_SYSTEM;
}

void responder_close(struct responder *responder)
{
	if (responder->running)
		service_remove(responder);
	responder->running = false;
	forked_remove(&responder->forked);
	for (unsigned i = 0; i < RESPONDER_SOCKETS && responder->forked.fds; i++)
		forked_close(&responder->fds[i]);
}
