/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness: see liveness.h. A host that dies answers no more, so a connection is believed only while its keep-alives
 * are answered; one that its other side closes was looked at there, and is made anew after a while.
 */
#include "transport/datagram/liveness.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/endian.h"
#include "base/limits.h"
#include "transport/datagram/responder.h"

enum { ANSWERS_MAX = 16 }; /* datagrams looked at in a turn: others may send too */

/* Close at once and leave no trace in the kernel: there is nothing under way. */
static void stream_close(struct question *question)
{
	struct linger linger = {.l_onoff = 1};

	if (question->stream < 0)
		return;
	setsockopt(question->stream, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(question->stream);
	question->stream = -1;
	question->made = false;
}

/* ---- Questions ------------------------------------------------------------------------------------- */

static void question_end(struct liveness *liveness, struct question *question)
{
	stream_close(question);
	close(question->datagram);
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

/* Connected to it, what others send does not get in, and the host's refusal does. Each time anew: there may be no
 * way there now. */
static bool question_connect(const struct liveness *liveness, const struct question *question)
{
	union socket_address name;
	struct path where;
	socklen_t size;

	responder_path(&question->to, &where);
	size = interface_sockaddr(&where, liveness->interface, &name);
	return connect(question->datagram, &name.any, size) == 0;
}

/* A socket of our own for each. */
static struct question *question_begin(struct liveness *liveness, const struct path *to, uint64_t key,
				       uint64_t endpoint, uint64_t now_ns)
{
	struct question *question = question_place(liveness, now_ns);
	int family = interface_is_ipv4(to->bytes) ? AF_INET : AF_INET6;
	int fd = question ? limits_own(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) : -1;

	if (fd < 0)
		return NULL;
	interface_bind(fd, liveness->own, liveness->interface);
	*question = (struct question){.to = *to, .endpoint = endpoint, .key = key, .since_ns = now_ns, .datagram = fd,
				      .stream = -1};
	while (question->number == 0)
		if (getrandom(&question->number, sizeof(question->number), 0) != sizeof(question->number))
			question->number = 0;
	liveness->count++;
	return question;
}

/* ---- The process ----------------------------------------------------------------------------------- */

static bool is_answer(const struct question *question, const uint8_t *bytes, ssize_t length)
{
	return length == ANSWER_BYTES && load_be64(bytes) == question->number &&
	       load_be64(bytes + ANSWER_PROOF_AT) ==
		       responder_proof(question->key, question->endpoint, question->number);
}

static enum link_liveness ask_process(const struct liveness *liveness, struct question *question, uint64_t now_ns)
{
	uint8_t bytes[QUESTION_BYTES] = {0};

	for (unsigned i = 0; i < ANSWERS_MAX; i++) {
		ssize_t length = recv(question->datagram, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (length < 0 && errno == ECONNREFUSED)
			return LINK_GONE;
		if (length < 0)
			break;
		if (is_answer(question, bytes, length))
			return LINK_ALIVE;
	}
	if (question->asked_ns && now_ns - question->asked_ns < QUESTION_AGAIN_NS)
		return LINK_UNKNOWN;
	memset(bytes, 0, sizeof(bytes));
	store_be64(bytes, responder_proof(question->key, question->endpoint, 0));
	store_be64(bytes + QUESTION_NUMBER_AT, question->number);
	question->asked_ns = now_ns;
	if (!question_connect(liveness, question))
		return LINK_UNKNOWN;
	return send(question->datagram, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED
		       ? LINK_GONE
		       : LINK_UNKNOWN;
}

/* ---- Its host -------------------------------------------------------------------------------------- */

static void keep_alive(int fd)
{
	static const int on = 1, seconds = 1, probes = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static enum link_liveness liveness_dial(struct liveness *liveness, struct question *question, uint64_t now_ns)
{
	union socket_address name;
	socklen_t size = interface_sockaddr(&question->to, liveness->interface, &name);
	bool refused;

	question->stream = limits_own(socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (question->stream < 0)
		return LINK_UNASKED;
	question->dialled_ns = now_ns;
	keep_alive(question->stream);
	interface_bind(question->stream, liveness->own, liveness->interface);
	if (connect(question->stream, &name.any, size) == 0 || errno == EINPROGRESS)
		return LINK_UNKNOWN; /* for now */
	refused = errno == ECONNREFUSED;
	stream_close(question);
	return refused ? LINK_GONE : LINK_UNKNOWN;
}

/* A connection is made: is its host still there? */
static bool stream_is_fresh(const struct question *question)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	return getsockopt(question->stream, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	       info.tcpi_last_ack_recv < QUESTION_FRESH_MS;
}

/* What has become of the connection. */
static enum link_liveness stream_poll(struct question *question, uint64_t now_ns)
{
	struct pollfd query = {.fd = question->stream, .events = POLLIN | POLLOUT};
	socklen_t size = sizeof(int);
	int error = 0;

	if (poll(&query, 1, 0) <= 0)
		return LINK_UNKNOWN;
	getsockopt(question->stream, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error == ECONNREFUSED && !question->made) {
		stream_close(question);
		return LINK_GONE;
	}
	if (error == 0 && query.revents == POLLOUT) {
		question->made = true;
		if (stream_is_fresh(question))
			question->held_ns = now_ns;
	} else {
		if (error == 0 || error == ECONNRESET) /* it was made, and has been let go */
			question->held_ns = now_ns;
		stream_close(question);
	}
	return LINK_UNKNOWN;
}

static enum link_liveness ask_host(struct liveness *liveness, struct question *question, uint64_t now_ns)
{
	enum link_liveness verdict = LINK_UNKNOWN;

	if (now_ns == question->since_ns)
		return LINK_UNKNOWN; /* the process has not had time to answer */
	if (question->stream < 0 && (!question->dialled_ns || now_ns - question->dialled_ns >= QUESTION_DIAL_NS))
		verdict = liveness_dial(liveness, question, now_ns);
	if (question->stream >= 0)
		verdict = stream_poll(question, now_ns);
	if (verdict == LINK_UNKNOWN && question->held_ns &&
	    now_ns - question->held_ns < QUESTION_FRESH_MS * UINT64_C(1000000))
		verdict = LINK_HELD;
	return verdict;
}

/* ---------------------------------------------------------------------------------------------------- */

enum link_liveness liveness_ask(struct liveness *liveness, const struct path *to, uint64_t key, uint64_t endpoint,
				uint64_t now_ns)
{
	struct question *question = question_find(liveness, to);
	enum link_liveness verdict;

	if (!question)
		question = question_begin(liveness, to, key, endpoint, now_ns);
	if (!question)
		return LINK_UNASKED;
	verdict = ask_process(liveness, question, now_ns);
	if (verdict == LINK_UNKNOWN)
		verdict = ask_host(liveness, question, now_ns);
	if (verdict == LINK_ALIVE || verdict == LINK_GONE)
		question_end(liveness, question);
	return verdict;
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
}
