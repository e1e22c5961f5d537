/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness: see liveness.h. A host that dies answers no more, so a connection is believed only while its keep-alives are
 * answered; one that its other side closes may just have been looked at there, and is asked anew.
 */
#include "transport/datagram/liveness.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static int tcp_socket(int family)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Close at once and leave no trace in the kernel: there is nothing under way. */
static void tcp_reset(int fd)
{
	struct linger linger = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

/* ---- Being asked ----------------------------------------------------------------------------------- */

int liveness_open(struct liveness *liveness, uint32_t interface, const struct path *own)
{
	union socket_address name;
	socklen_t size = interface_sockaddr(own, interface, &name);
	int fd = tcp_socket(name.any.sa_family);

	liveness->listener = fd;
	liveness->interface = interface;
	liveness->count = liveness->next = 0;
	if (fd >= 0 && bind(fd, &name.any, size) == 0 && listen(fd, LIVENESS_BACKLOG) == 0)
		return 0;
	if (fd >= 0 && errno == EADDRINUSE) {
		liveness_close(liveness);
		return THOLE_ERR_BUSY;
	}
	error_set(THOLE_ERR_SYSTEM, "cannot listen on a TCP port: %m");
	liveness_close(liveness);
	return THOLE_ERR_SYSTEM;
}

void liveness_accept(struct liveness *liveness)
{
	for (unsigned i = 0; i < LIVENESS_ACCEPT_BURST; i++) {
		int fd = accept4(liveness->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		tcp_reset(fd);
	}
}

/* ---- Asking ---------------------------------------------------------------------------------------- */

static void question_end(struct liveness *liveness, struct question *question)
{
	tcp_reset(question->fd);
	*question = liveness->questions[--liveness->count];
}

static struct question *question_find(struct liveness *liveness, const struct path *to)
{
	for (unsigned i = 0; i < liveness->count; i++)
		if (memcmp(&liveness->questions[i].to, to, sizeof(*to)) == 0)
			return &liveness->questions[i];
	return NULL;
}

/* Room for one more question, if need be in the place of one that has had its time. */
static struct question *question_place(struct liveness *liveness, uint64_t now_ns)
{
	if (liveness->count == QUESTIONS_MAX) {
		struct question *oldest = &liveness->questions[liveness->next++ % QUESTIONS_MAX];

		if (now_ns - oldest->since_ns < QUESTION_NS_MIN)
			return NULL;
		question_end(liveness, oldest);
	}
	return &liveness->questions[liveness->count];
}

static void keep_alive(int fd)
{
	static const int on = 1, seconds = 1, probes = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static enum link_fate question_begin(struct liveness *liveness, const struct path *to, uint64_t now_ns)
{
	struct question *question = question_place(liveness, now_ns);
	union socket_address name;
	socklen_t size = interface_sockaddr(to, liveness->interface, &name);
	int fd = question ? tcp_socket(name.any.sa_family) : -1;
	bool connected;

	if (fd < 0)
		return LINK_UNKNOWN;
	keep_alive(fd);
	connected = connect(fd, &name.any, size) == 0;
	if (!connected && errno != EINPROGRESS) {
		enum link_fate fate = errno == ECONNREFUSED ? LINK_GONE : LINK_UNKNOWN;

		close(fd);
		return fate;
	}
	*question = (struct question){.to = *to, .since_ns = now_ns, .fd = fd, .answered = connected};
	liveness->count++;
	return connected ? LINK_ALIVE : LINK_UNKNOWN;
}

/* A connection was made: is its host still there? */
static enum link_fate question_fresh(const struct question *question)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(question->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
		return LINK_UNKNOWN;
	return info.tcpi_last_ack_recv < QUESTION_FRESH_MS ? LINK_ALIVE : LINK_UNKNOWN;
}

enum link_fate liveness_ask(struct liveness *liveness, const struct path *to, uint64_t now_ns)
{
	struct question *question = question_find(liveness, to);
	struct pollfd look;
	int error = 0;
	socklen_t size = sizeof(error);

	if (!question)
		return question_begin(liveness, to, now_ns);
	look = (struct pollfd){.fd = question->fd, .events = POLLIN | POLLOUT};
	if (poll(&look, 1, 0) <= 0)
		return LINK_UNKNOWN;
	getsockopt(question->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error == 0 && look.revents == POLLOUT) {
		question->answered = true;
		return question_fresh(question);
	}
	/* Refused at the first try, or once more after the connection has ended, which may have other reasons. */
	if (error == ECONNREFUSED && !question->answered) {
		question_end(liveness, question);
		return LINK_GONE;
	}
	question_end(liveness, question);
	return question_begin(liveness, to, now_ns);
}

void liveness_forget(struct liveness *liveness, const struct path *to)
{
	struct question *question = question_find(liveness, to);

	if (question)
		question_end(liveness, question);
}

void liveness_close(struct liveness *liveness)
{
	while (liveness->count > 0)
		question_end(liveness, &liveness->questions[0]);
	if (liveness->listener >= 0)
		close(liveness->listener);
	liveness->listener = -1;
}
