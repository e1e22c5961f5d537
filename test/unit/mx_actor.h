/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_actor - a process of its own that has a directory and does what it is told, for tests between processes and
 * between hosts.
 *
 * It is told and answers by a line each; numbers of NICs are hexadecimal. It ends when its teller does.
 *
 *   set NAME VALUE       an environment variable
 *   board                "NIC ADDRESS NAME" of board 0
 *   claim ID             the mx_return_t; of board 0
 *   open ID KEY          the same, and published; its address is "actor-PID-ID", its session PID
 *   close                withdraw it, ""
 *   ask NIC ID KEY MS    "STATUS SESSION ADDRESS", of the endpoint that is open
 *   who ADDRESS          "NIC ID SESSION", or "-"
 *   known NIC            "ADDRESS NAME HEARD", or "-"
 *   name NAME            "RETURN NIC"
 *   nic NIC              "RETURN NAME"
 */
#ifndef MX_ACTOR_H
#define MX_ACTOR_H

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "mx_directory.h"
#include "mx_known.h"
#include "mx_names.h"
#include "mx_nic.h"

enum { ACTOR_LINE = 512 };

struct actor {
	pid_t pid;
	int fd;
	char answer[ACTOR_LINE];
};

/* Ask, and wait for the answer as an endpoint does: by the count of answers, asleep on wake. The entry has no
 * other query. */
static inline void actor_ask(struct mxi_entry *entry, struct mxi_query *query)
{
	uint32_t answers = load_acquire(&entry->answers); /* partner: the directory */
	uint64_t times;

	query->from = entry;
	mxi_directory_ask(query);
	while (load_acquire(&entry->answers) == answers) { /* partner: the directory */
		struct pollfd look = {.fd = entry->wake->event, .events = POLLIN};

		poll(&look, 1, -1);
		if (read(entry->wake->event, &times, sizeof(times)) != sizeof(times))
			abort();
	}
	if (!load_acquire(&query->done)) /* partner: the directory */
		abort();
}

static inline mx_return_t actor_open(struct mxi_entry *entry, unsigned id, unsigned key)
{
	struct mxi_board board;
	mx_return_t code = mxi_board_get(0, &board);

	if (code == MX_SUCCESS)
		code = mxi_directory_claim(entry, &board, id);
	if (code != MX_SUCCESS)
		return code;
	entry->key = key;
	entry->session = (uint32_t)getpid();
	entry->wake = malloc(sizeof(*entry->wake));
	if (!entry->wake || wake_open(entry->wake) != 0)
		abort();
	snprintf(entry->address.text, sizeof(entry->address.text), "actor-%d-%u", (int)getpid(), id);
	return mxi_directory_publish(entry);
}

static inline void actor_close(struct mxi_entry *entry)
{
	mxi_directory_withdraw(entry);
	if (entry->wake)
		wake_close(entry->wake);
	free(entry->wake);
	entry->wake = NULL;
}

static inline void actor_asked(struct mxi_entry *entry, const char *words, char *answer)
{
	unsigned long long nic, milliseconds;
	struct mxi_query query = {.from = entry};

	if (sscanf(words, "%llx %u %u %llu", &nic, &query.endpoint_id, &query.key, &milliseconds) != 4)
		abort();
	query.nic_id = nic;
	query.deadline_ns = clock_now_ns() + milliseconds * 1000000;
	actor_ask(entry, &query);
	snprintf(answer, ACTOR_LINE, "%d %u %s", (int)query.status, query.session, query.address.text);
}

static inline void actor_who(struct mxi_entry *entry, const char *words, char *answer)
{
	struct thole_address address = {0};
	struct mxi_identity identity;

	snprintf(address.text, sizeof(address.text), "%s", words);
	if (mxi_directory_who(entry, &address, &identity))
		snprintf(answer, ACTOR_LINE, "%012llx %u %u", (unsigned long long)identity.nic_id, identity.endpoint_id,
			 identity.session);
}

static inline void actor_known(const char *words, char *answer)
{
	struct mxi_known known;

	if (mxi_known_find(strtoull(words, NULL, 16), &known))
		snprintf(answer, ACTOR_LINE, "%s %s %d", known.address, known.name, known.heard);
}

static inline void actor_obey(struct mxi_entry *entry, const char *verb, const char *words, char *answer)
{
	char name[MX_MAX_HOSTNAME_LEN] = "", value[ACTOR_LINE];
	struct mxi_board board;
	uint64_t nic = 0;
	unsigned id, key;

	strcpy(answer, "-");
	if (strcmp(verb, "set") == 0 && sscanf(words, "%79s %511s", name, value) == 2) {
		setenv(name, value, 1);
	} else if (strcmp(verb, "board") == 0 && mxi_board_get(0, &board) == MX_SUCCESS) {
		snprintf(answer, ACTOR_LINE, "%012llx %s %s", (unsigned long long)board.nic_id, board.address,
			 board.name);
	} else if (strcmp(verb, "claim") == 0 && mxi_board_get(0, &board) == MX_SUCCESS) {
		snprintf(answer, ACTOR_LINE, "%d",
			 mxi_directory_claim(entry, &board, (uint32_t)strtoul(words, NULL, 10)));
	} else if (strcmp(verb, "open") == 0 && sscanf(words, "%u %u", &id, &key) == 2) {
		snprintf(answer, ACTOR_LINE, "%d", actor_open(entry, id, key));
	} else if (strcmp(verb, "close") == 0) {
		actor_close(entry);
	} else if (strcmp(verb, "ask") == 0) {
		actor_asked(entry, words, answer);
	} else if (strcmp(verb, "who") == 0) {
		actor_who(entry, words, answer);
	} else if (strcmp(verb, "known") == 0) {
		actor_known(words, answer);
	} else if (strcmp(verb, "name") == 0) {
		id = mxi_names_to_nic(words, &nic);
		snprintf(answer, ACTOR_LINE, "%u %012llx", id, (unsigned long long)nic);
	} else if (strcmp(verb, "nic") == 0) {
		id = mxi_names_of_nic(strtoull(words, NULL, 16), name);
		snprintf(answer, ACTOR_LINE, "%u %s", id, name);
	} else {
		abort();
	}
}

static inline void actor_live(int fd)
{
	struct mxi_entry entry = {.wake = NULL};
	char line[ACTOR_LINE], verb[16], answer[ACTOR_LINE];
	ssize_t length;

	while ((length = recv(fd, line, sizeof(line) - 1, 0)) > 0) {
		int words = 0;

		line[length] = '\0';
		if (sscanf(line, "%15s %n", verb, &words) < 1)
			abort();
		actor_obey(&entry, verb, line + words, answer);
		if (send(fd, answer, strlen(answer) + 1, MSG_NOSIGNAL) < 0)
			break;
	}
	exit(0); /* with the entry open: the kernel sees to it */
}

/* Fork one. prepare runs in it first. To be called before this process has threads. */
static inline void actor_start(struct actor *actor, void (*prepare)(unsigned), unsigned arg)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		abort();
	fflush(NULL);
	actor->pid = fork();
	if (actor->pid < 0)
		abort();
	if (actor->pid == 0) {
		close(ends[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare)
			prepare(arg);
		actor_live(ends[1]);
	}
	close(ends[1]);
	actor->fd = ends[0];
}

/* Tell it a line, and return its answer, which is there until the next. */
__attribute__((format(printf, 2, 3))) static inline const char *actor_tell(struct actor *actor, const char *format, ...)
{
	char line[ACTOR_LINE];
	va_list arguments;
	ssize_t length;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (send(actor->fd, line, strlen(line), MSG_NOSIGNAL) < 0 ||
	    (length = recv(actor->fd, actor->answer, sizeof(actor->answer), 0)) <= 0) {
		fprintf(stderr, "the actor ended at \"%s\"\n", line);
		abort();
	}
	return actor->answer;
}

/* Let it end, or kill it where it stands. Returns its status as of waitpid. */
static inline int actor_end(struct actor *actor)
{
	int status = -1;

	shutdown(actor->fd, SHUT_RDWR); /* actors that were forked later have it too */
	close(actor->fd);
	waitpid(actor->pid, &status, 0);
	return status;
}

static inline int actor_kill(struct actor *actor)
{
	kill(actor->pid, SIGKILL);
	return actor_end(actor);
}

#endif /* MX_ACTOR_H */
