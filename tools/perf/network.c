/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.c - thole-perf between two hosts: a listener, its clients, and the TCP connection that both ranks agree by.
 *
 * The client sends one line with its plan and a job key that it has just drawn; the listener answers "ok" or "no" with
 * a reason, in a line too. After that messages are a byte, that says what it is, and a body of known length. What is
 * measured never takes this connection, but for the ping-pong over TCP that stands beside it.
 *
 * Whoever can connect to a listener can make it send and receive messages: nothing else of it can be reached. Clients
 * choose sizes up to the listener's limit; its options are its own.
 */
#include "perf.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LINE_MAX_BYTES = 2048,  /* of a plan, and of its answer */
	BODY_MAX = 1024,        /* of a message; longer texts are cut off */
	SESSIONS_MAX = 8,       /* clients that are served at once; more wait to be accepted */
	HELLO_SECONDS = 10,     /* how long a client may take to say what it wants */
	LOOKS_PER_CLOCK = 256,  /* of a wait for a byte that is measured */
	REAP_MS = 1000,         /* how often a listener looks for sessions that have ended */
};

static const char greeting[] = "thole-perf 1";

__attribute__((format(printf, 1, 2))) static int network_trouble(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fputs("thole-perf: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	return -1;
}

/* What another host says, made fit for a terminal. */
static void text_clean(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = ' ';
}

/* ---- The control connection ------------------------------------------------------------------ */

static int send_all(int fd, const void *bytes, size_t length)
{
	for (size_t sent = 0; sent < length;) {
		ssize_t count = send(fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL);

		if (count < 0 && errno != EINTR)
			return -1;
		sent += count > 0 ? (size_t)count : 0;
	}
	return 0;
}

/* Something has failed on the connection: errno says what. */
static int network_lost(const struct perf_rank *rank)
{
	return network_trouble(errno == EAGAIN ? "%s is silent" : "%s has ended the connection", rank->other);
}

int perf_tell(const struct perf_rank *rank, enum perf_word word, const void *bytes, size_t length)
{
	char message[1 + BODY_MAX];

	if (length > sizeof message - 1)
		length = sizeof message - 1;
	message[0] = (char)word;
	if (length)
		memcpy(message + 1, bytes, length);
	if (send_all(rank->out, message, 1 + length) == 0)
		return 0;
	if (word != PERF_WORD_ERROR)
		network_lost(rank);
	return -1;
}

/* The other side has given up, and says why. */
static int network_reason(const struct perf_rank *rank)
{
	char text[BODY_MAX + 1];
	ssize_t length = recv(rank->in, text, sizeof text - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	text_clean(text);
	return network_trouble("%s says: %s", rank->other, length > 0 ? text : "(nothing)");
}

/* Read exactly length bytes, making progress meanwhile. */
static int hear_bytes(const struct perf_rank *rank, void *bytes, size_t length, uint64_t *spins)
{
	uint64_t begin = perf_now_ns();

	for (size_t got = 0; got < length;) {
		ssize_t count = recv(rank->in, (char *)bytes + got, length - got, MSG_DONTWAIT);

		if (count > 0) {
			got += (size_t)count;
			continue;
		}
		if (count == 0 || (errno != EAGAIN && errno != EINTR))
			return network_trouble("%s has ended the connection", rank->other);
		perf_progress(rank);
		if (perf_relax(rank, spins) < 0)
			return -1;
		if (perf_now_ns() - begin > 2 * rank->plan->patience_ns)
			return network_trouble("%s is silent", rank->other);
	}
	return 0;
}

int perf_hear(const struct perf_rank *rank, enum perf_word word, void *bytes, size_t length)
{
	uint64_t spins = 0;
	char got;

	if (hear_bytes(rank, &got, 1, &spins) < 0)
		return -1;
	if (got == PERF_WORD_ERROR)
		return network_reason(rank);
	if (got != (char)word)
		return network_trouble("%s has said something unexpected", rank->other);
	return length ? hear_bytes(rank, bytes, length, &spins) : 0;
}

bool perf_left(const struct perf_rank *rank)
{
	char word;
	ssize_t count = recv(rank->in, &word, 1, MSG_PEEK | MSG_DONTWAIT);

	if (count == 0)
		network_trouble("%s has ended the connection", rank->other);
	if (count > 0 && word == PERF_WORD_ERROR && recv(rank->in, &word, 1, 0) == 1)
		network_reason(rank);
	return count == 0 || (count > 0 && word == PERF_WORD_ERROR);
}

/* As for other waits, but the clock is read now and then only: what is measured here is short. */
static int ping_recv(const struct perf_rank *rank, size_t size)
{
	uint64_t spins = 0, silent = 0;

	for (size_t got = 0; got < size;) {
		ssize_t count = recv(rank->in, rank->in_buffer + got, size - got, MSG_DONTWAIT);

		if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
			return network_trouble("%s has ended the connection", rank->other);
		if (count > 0) {
			got += (size_t)count;
			silent = 0;
		}
		if (rank->in_buffer[0] == PERF_WORD_ERROR)
			return network_trouble("%s has given up", rank->other);
		if (count < 0 && perf_relax(rank, &spins) < 0)
			return -1;
		if (count < 0 && spins % LOOKS_PER_CLOCK == 0) {
			uint64_t now = perf_now_ns();

			silent = silent ? silent : now;
			if (now - silent > 2 * rank->plan->patience_ns)
				return network_trouble("%s is silent", rank->other);
		}
	}
	return 0;
}

int perf_tcp(struct perf_rank *rank, uint64_t size, uint64_t iterations, uint64_t *ns_p)
{
	uint64_t begin;

	size = size ? size : 1;
	memset(rank->out_buffer, PERF_WORD_PING, size);
	rank->in_buffer[0] = PERF_WORD_PING;
	if (perf_barrier(rank) < 0)
		return -1;
	begin = perf_now_ns();
	for (uint64_t i = 0; i < iterations; i++) {
		if (rank->rank == 1 && ping_recv(rank, size) < 0)
			return -1;
		if (send_all(rank->out, rank->out_buffer, size) < 0)
			return network_lost(rank);
		if (rank->rank == 0 && ping_recv(rank, size) < 0)
			return -1;
	}
	*ns_p = perf_now_ns() - begin;
	return 0;
}

/* One line, without its end, all of which has to come within so long. Returns 0, or -1. */
static int line_read(int fd, char *line, uint64_t timeout_ns)
{
	uint64_t end = perf_now_ns() + timeout_ns;

	for (size_t length = 0; length < LINE_MAX_BYTES; length++) {
		struct pollfd waiting = { .fd = fd, .events = POLLIN };
		uint64_t now = perf_now_ns();

		if (now >= end || poll(&waiting, 1, (int)((end - now) / 1000000) + 1) <= 0 ||
		    recv(fd, line + length, 1, 0) != 1)
			return -1;
		if (line[length] == '\n') {
			line[length] = '\0';
			return 0;
		}
	}
	errno = EMSGSIZE;
	return -1;
}

/* Of one call that sends or receives. */
static void timeout_set(int fd, uint64_t ns)
{
	struct timeval time = { .tv_sec = (time_t)(ns / 1000000000u), .tv_usec = (suseconds_t)(ns / 1000 % 1000000) };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static void delay_off(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* The other end's address as text, without the v4-mapped form's front. */
static void name_of(const struct sockaddr_storage *address, socklen_t length, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN + 16];

	if (getnameinfo((const struct sockaddr *)address, length, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
		snprintf(host, sizeof host, "unknown");
	snprintf(text, size, "%s", strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.') ? host + 7 : host);
}

/* The network's go first among the options: what a user says wins. */
static void network_add(struct perf_plan *plan)
{
	size_t count = 0;

	while (plan->network && count < PERF_NETWORK_OPTIONS && plan->network->options[count])
		count++;
	memmove(plan->options + count, plan->options, plan->option_count * sizeof *plan->options);
	for (size_t i = 0; i < count; i++)
		plan->options[i] = plan->network->options[i];
	plan->option_count += count;
}

/* The job key goes last among the options, where it wins. */
static int key_add(struct perf_plan *plan, uint64_t key)
{
	static char option[32];

	snprintf(option, sizeof option, "job_key=%" PRIu64, key);
	plan->options[plan->option_count] = option;
	return 0;
}

/* Whether the other end is on this host too, as where a listener is tried at home: it has the same address then. */
static bool other_is_here(int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;
	char own[64], theirs[64];

	if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		return false;
	name_of(&address, length, own, sizeof own);
	length = sizeof address;
	if (getpeername(fd, (struct sockaddr *)&address, &length) < 0)
		return false;
	name_of(&address, length, theirs, sizeof theirs);
	return strcmp(own, theirs) == 0;
}

static int rank_begin(struct perf_plan *plan, int number, int fd, const char *other)
{
	static struct perf_shared shared;
	static struct perf_rank rank;

	rank.plan = plan;
	rank.shared = &shared;
	rank.rank = number;
	rank.one_core = plan->cores[0] == plan->cores[1] && other_is_here(fd);
	rank.in = rank.out = fd;
	rank.other = other;
	timeout_set(fd, plan->patience_ns);
	if (perf_pin(&rank, plan->cores[number]) < 0)
		return -1;
	return perf_rank_run(&rank);
}

/* ---- The listener ---------------------------------------------------------------------------- */

/* "thole-perf 1 key=N name=value ..." into the plan. Returns NULL, or why not. */
static const char *plan_take(struct perf_plan *plan, char *line, uint64_t *key_p)
{
	char *rest = line + strlen(greeting);

	if (strncmp(line, greeting, strlen(greeting)) != 0 || (*rest && *rest != ' '))
		return "this is a listener of thole-perf 1, and the client is not";
	for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');

		if (!value)
			return "the plan has a word without a value";
		*value++ = '\0';
		if (strcmp(word, "key") == 0)
			*key_p = strtoull(value, NULL, 10);
		else if (perf_plan_set(plan, word, value) < 0)
			return "the plan has a setting that this version does not know";
	}
	if (plan->size_max > plan->size_limit)
		return "a message size is over this listener's --size-limit";
	if (plan->apis & PERF_API_MX && !plan->mx_library)
		return "this listener has no libmyriexpress.so";
	return NULL;
}

static int session(struct perf_plan *plan, int fd, const char *from)
{
	char line[LINE_MAX_BYTES], answer[LINE_MAX_BYTES], name[256] = "";
	const char *refused;
	uint64_t key = 0;

	timeout_set(fd, (uint64_t)HELLO_SECONDS * 1000000000u);
	delay_off(fd);
	if (line_read(fd, line, (uint64_t)HELLO_SECONDS * 1000000000u) < 0)
		return -1; /* a port scan, perhaps */
	refused = plan_take(plan, line, &key);
	gethostname(name, sizeof name - 1);
	snprintf(answer, sizeof answer, refused ? "no %s\n" : "ok %s %s\n", refused ? refused : thole_version(), name);
	if (send_all(fd, answer, strlen(answer)) < 0)
		return -1;
	if (refused)
		return network_trouble("%s was refused: %s", from, refused);
	network_add(plan);
	key_add(plan, key);
	return rank_begin(plan, 1, fd, from);
}

static int listen_at(struct perf_plan *plan)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found, *each;
	int fd = -1, error, off = 0, on = 1;
	char port[8];

	snprintf(port, sizeof port, "%u", plan->port);
	error = getaddrinfo(plan->bind ? plan->bind : "::", port, &hints, &found);
	if (error) {
		error = errno;
		found = NULL;
		if (plan->bind)
			return network_trouble("--bind %s is no address of this host; `ip address` lists them",
					       plan->bind);
	}
	for (each = found; each; each = each->ai_next) {
		fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (each->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
		if (bind(fd, each->ai_addr, each->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
			break;
		error = errno;
		close(fd);
		fd = -1;
	}
	if (found)
		freeaddrinfo(found);
	if (fd < 0 && !plan->bind && error != EADDRINUSE && error != EACCES) {
		plan->bind = "0.0.0.0"; /* a host without IPv6 */
		return listen_at(plan);
	}
	if (fd < 0 && error == EADDRNOTAVAIL)
		return network_trouble("--bind %s is no address of this host; `ip address` lists them", plan->bind);
	if (fd < 0)
		return network_trouble("port %u cannot be listened at: %s; is another listener running? "
				       "choose another --port", plan->port, strerror(error));
	return fd;
}

static unsigned port_of(int fd)
{
	struct sockaddr_storage own;
	socklen_t length = sizeof own;

	if (getsockname(fd, (struct sockaddr *)&own, &length) < 0)
		return 0;
	return ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
					       : ((struct sockaddr_in *)&own)->sin_port);
}

struct sessions {
	struct {
		pid_t pid;
		char from[64];
	} all[SESSIONS_MAX];
	unsigned count;
	int last; /* exit status of the one that ended last */
};

static void sessions_reap(struct sessions *sessions, bool wait)
{
	int status;
	pid_t pid;

	while (sessions->count && (pid = waitpid(-1, &status, wait ? 0 : WNOHANG)) > 0) {
		for (unsigned i = 0; i < sessions->count; i++) {
			if (sessions->all[i].pid != pid)
				continue;
			sessions->last = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
			printf("{\"type\": \"end\", \"from\": \"%s\", \"status\": %d}\n", sessions->all[i].from,
			       sessions->last);
			fflush(stdout);
			sessions->all[i] = sessions->all[--sessions->count];
			break;
		}
	}
}

static void session_start(struct perf_plan *plan, struct sessions *sessions, int fd, const char *from, int listener)
{
	pid_t parent = getpid(), pid;

	pid = fork();
	if (pid < 0) {
		network_trouble("fork: %s", strerror(errno));
		return;
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		close(listener);
		_exit(session(plan, fd, from) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	printf("{\"type\": \"session\", \"from\": \"%s\"}\n", from);
	fflush(stdout);
	sessions->all[sessions->count].pid = pid;
	snprintf(sessions->all[sessions->count].from, sizeof sessions->all[0].from, "%s", from);
	sessions->count++;
}

int perf_listen(struct perf_plan *plan)
{
	struct sessions sessions = { .count = 0 };
	int listener = listen_at(plan);

	if (listener < 0)
		return EXIT_FAILURE;
	printf("{\"type\": \"listening\", \"version\": \"%s\", \"port\": %u}\n", thole_version(), port_of(listener));
	fflush(stdout);
	for (;;) {
		struct pollfd waiting[2] = {
			{ .fd = sessions.count < SESSIONS_MAX ? listener : -1, .events = POLLIN },
			{ .fd = STDOUT_FILENO }, /* an error there: whoever started this listener has gone */
		};
		struct sockaddr_storage address;
		socklen_t length = sizeof address;
		char from[64];
		int fd;

		sessions_reap(&sessions, false);
		if (poll(waiting, 2, REAP_MS) > 0 && waiting[1].revents & POLLERR)
			return EXIT_FAILURE;
		if (!(waiting[0].revents & POLLIN))
			continue;
		fd = accept4(listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		name_of(&address, length, from, sizeof from);
		session_start(plan, &sessions, fd, from, listener);
		close(fd);
		if (plan->once) {
			close(listener);
			sessions_reap(&sessions, true);
			return sessions.last;
		}
	}
}

/* ---- The client ------------------------------------------------------------------------------ */

/* Connect within the plan's time. Returns a socket, or -1 with errno. */
static int connect_to(const struct addrinfo *where, uint64_t timeout_ns)
{
	int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	struct pollfd waiting = { .fd = fd, .events = POLLOUT };
	socklen_t length = sizeof error;

	if (fd < 0)
		return -1;
	if (connect(fd, where->ai_addr, where->ai_addrlen) < 0) {
		error = errno;
		if (error == EINPROGRESS) {
			error = poll(&waiting, 1, (int)(timeout_ns / 1000000)) > 0 ? 0 : ETIMEDOUT;
			if (!error)
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
		}
	}
	if (!error) {
		int on = 0;

		if (ioctl(fd, FIONBIO, &on) == 0)
			return fd;
		error = errno;
	}
	close(fd);
	errno = error;
	return -1;
}

static int connect_complain(const struct perf_plan *plan, int error)
{
	switch (error) {
	case ECONNREFUSED:
		return network_trouble("nobody listens on %s, port %u; start `thole perf --listen` there", plan->host,
				       plan->port);
	case ETIMEDOUT:
		return network_trouble("%s does not answer: it is down, or a firewall drops TCP port %u", plan->host,
				       plan->port);
	default:
		return network_trouble("%s cannot be reached: %s", plan->host, strerror(error));
	}
}

static int network_dial(const struct perf_plan *plan, char *address, size_t size)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	struct sockaddr_storage peer;
	socklen_t length = sizeof peer;
	int fd = -1, error;
	char port[8];

	snprintf(port, sizeof port, "%u", plan->port);
	error = getaddrinfo(plan->host, port, &hints, &found);
	if (error)
		return network_trouble("the name %s is not known: %s; give an address instead", plan->host,
				       gai_strerror(error));
	for (struct addrinfo *each = found; each && fd < 0; each = each->ai_next)
		fd = connect_to(each, plan->connect_ns);
	error = errno;
	freeaddrinfo(found);
	if (fd < 0)
		return connect_complain(plan, error);
	delay_off(fd);
	snprintf(address, size, "unknown");
	if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0)
		name_of(&peer, length, address, size);
	return fd;
}

static size_t plan_write(const struct perf_plan *plan, uint64_t key, char *line)
{
	static const char *const tests[] = { "bare", "latency", "bandwidth", "rate" };
	static const char *const apis[PERF_APIS] = { "thole", "mx" };
	size_t at = 0;

/* What does not fit is cut off, and the listener misses the end of the line. */
#define ADD(...) at += (size_t)snprintf(line + at, at < LINE_MAX_BYTES ? LINE_MAX_BYTES - at : 0, __VA_ARGS__)
	ADD("%s key=%" PRIu64 " rounds=%u window=%u sample-ms=%" PRIu64 " patience-ms=%" PRIu64, greeting, key,
	    plan->rounds, plan->window, plan->sample_ns / 1000000, plan->patience_ns / 1000000);
	if (plan->iterations)
		ADD(" iterations=%" PRIu64, plan->iterations);
	if (plan->write)
		ADD(" write=1");
	ADD(" tests=");
	for (unsigned i = 0, some = 0; i < sizeof tests / sizeof tests[0]; i++)
		if (plan->tests & 1u << i)
			ADD("%s%s", some++ ? "," : "", tests[i]);
	/* Only where it is not what a listener does by itself: older ones do not know it. */
	for (unsigned i = 0, some = 0; plan->apis != PERF_API_THOLE && i < PERF_APIS; i++)
		if (plan->apis & 1u << i)
			ADD("%s%s", some++ ? "," : " apis=", apis[i]);
	if (plan->network)
		ADD(" network=%s", plan->network->name);
	for (size_t i = 0; i < plan->size_count; i++)
		ADD("%s%" PRIu64, i ? "," : " sizes=", plan->sizes[i]);
	ADD("\n");
#undef ADD
	return at < LINE_MAX_BYTES ? at : LINE_MAX_BYTES;
}

/* A word of the listener's answer, as it may stand in JSON. */
static void word_copy(char *to, size_t size, const char *from)
{
	size_t length = 0;

	for (; *from > ' ' && length < size - 1; from++)
		if (*from != '"' && *from != '\\' && *from <= '~')
			to[length++] = *from;
	to[length] = '\0';
}

int perf_connect(struct perf_plan *plan)
{
	char line[LINE_MAX_BYTES + 1], address[64], version[32], name[256];
	const char *second;
	uint64_t key = 0;
	int fd;

	if (getrandom(&key, sizeof key, 0) != sizeof key) {
		network_trouble("no random number for a job key: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	fd = network_dial(plan, address, sizeof address);
	if (fd < 0)
		return EXIT_FAILURE;
	timeout_set(fd, plan->connect_ns);
	if (send_all(fd, line, plan_write(plan, key | 1, line)) < 0 || line_read(fd, line, plan->connect_ns) < 0 ||
	    (strncmp(line, "ok ", 3) != 0 && strncmp(line, "no ", 3) != 0)) {
		network_trouble("%s does not answer as `thole perf --listen` does, on port %u", plan->host, plan->port);
		return EXIT_FAILURE;
	}
	if (strncmp(line, "ok ", 3) != 0) {
		text_clean(line);
		network_trouble("%s refuses: %.200s", plan->host, line + 3);
		return EXIT_FAILURE;
	}
	second = strchr(line + 3, ' ');
	word_copy(version, sizeof version, line + 3);
	word_copy(name, sizeof name, second ? second + 1 : "");
	printf("{\"type\": \"host\", \"version\": \"%s\", \"cores\": [%d, %d], \"address\": \"%s\", "
	       "\"peer_version\": \"%s\", \"peer_name\": \"%s\"}\n",
	       thole_version(), plan->cores[0], plan->cores[1], address, version, name);
	fflush(stdout);
	network_add(plan);
	key_add(plan, key | 1);
	return rank_begin(plan, 0, fd, plan->host) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
