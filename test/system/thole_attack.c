/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_attack: what another user of the host does to a job, and what comes of a rank that is killed.
 *
 *   thole_attack CASE [SECONDS]      without an argument: prints the cases, one a line
 *
 * All is in a network namespace of its own, so every socket there is the job's or the attacker's. Status 77: no right
 * to make one, or to be another user. Nothing here depends on how long something takes, but for how long an attack
 * goes on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "ranks.h"

enum { LIMIT_S = 100, STRANGER = 65534, PORTS_MAX = 64, TRIES_MIN = 1000, ROUTE_PORT = 9 };
enum { WORD_ENOUGH, WORD_OVER, WORD_LEFT, WORD_STOLEN, WORD_TRIES, WORD_COMPUTING, WORD_PID, WORD_REFUSED };

static unsigned seconds = 3;

static uint64_t word(int index)
{
	return __atomic_load_n(&ranks_shared->words[index], __ATOMIC_ACQUIRE);
}

static void word_add(int index, uint64_t more)
{
	__atomic_add_fetch(&ranks_shared->words[index], more, __ATOMIC_ACQ_REL);
}

static void own_network(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
		printf("skipped: needs the right to make a network namespace, and to be another user\n");
		exit(RANKS_SKIP);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0);
	close(fd);
}

static void become_stranger(void)
{
	CHECK(setgid(STRANGER) == 0 && setuid(STRANGER) == 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* new credentials have cleared it */
}

static struct thole_endpoint *endpoint_open(const char *option)
{
	const char *const options[] = {"shm=off", option, NULL};
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;

	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	return endpoint;
}

/* ---- A user who wants the job's ports ----------------------------------------------------------------------- */

/* The UDP ports of others, as everybody can read them. But those of sockets that only ask for a route
 * (interface_route), by which nothing comes, and which are anybody's when these are closed again: they have no address
 * where there is no route, or are connected. */
static unsigned ports_of_others(uint16_t *ports)
{
	FILE *file = fopen("/proc/self/net/udp", "re");
	unsigned count = 0, address, port, to, uid;
	char line[256];

	CHECK(file);
	while (count < PORTS_MAX && fgets(line, sizeof(line), file))
		if (sscanf(line, " %*u: %x:%x %*x:%x %*x %*x:%*x %*x:%*x %*x %u", &address, &port, &to, &uid) == 4 &&
		    address != INADDR_ANY && to != ROUTE_PORT && uid != STRANGER)
			ports[count++] = (uint16_t)port;
	fclose(file);
	return count;
}

/* A socket that tries to share a port: by SO_REUSEADDR, by SO_REUSEPORT, by both, by none. */
static int greedy_socket(unsigned how)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	CHECK(fd >= 0);
	if (how & 1)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (how & 2)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	return fd;
}

static struct sockaddr_in place(in_addr_t address, uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
}

/* Spins on binding the job's ports. */
static void thief(void)
{
	enum { WAYS = 4, TURNS = 1024 };
	uint16_t ports[PORTS_MAX];
	int fds[WAYS];

	become_stranger();
	for (unsigned how = 0; how < WAYS; how++)
		fds[how] = greedy_socket(how);
	for (uint64_t turn = 0; !word(WORD_OVER); turn++) {
		unsigned count = ports_of_others(ports);

		for (unsigned i = 0; i < TURNS * count && !word(WORD_OVER); i++) {
			unsigned how = i / count % WAYS;
			struct sockaddr_in name = place(turn % 2 ? INADDR_ANY : INADDR_LOOPBACK, ports[i % count]);

			word_add(WORD_TRIES, 1);
			if (bind(fds[how], (struct sockaddr *)&name, sizeof(name)) != 0)
				continue;
			word_add(WORD_STOLEN, 1);
			close(fds[how]);
			fds[how] = greedy_socket(how);
		}
	}
	word_add(WORD_LEFT, 1);
}

/* Sends to the job's ports. */
static void flooder(void)
{
	uint16_t ports[PORTS_MAX];
	unsigned count = 0;
	char bytes[64] = {3, 1, 0};
	int fd;

	become_stranger();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	for (uint64_t turn = 0; !word(WORD_OVER); turn++) {
		if (turn % 1024 == 0)
			count = ports_of_others(ports);
		for (unsigned i = 0; i < count; i++) {
			struct sockaddr_in to = place(INADDR_LOOPBACK, ports[i]);

			sendto(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
		}
	}
	word_add(WORD_LEFT, 1);
}

static void exchange(struct thole_endpoint *endpoint, uint32_t peer, int other, uint64_t turn, size_t length)
{
	struct thole_request *send, *receive;
	uint64_t id = turn << 8;
	uint8_t *out = malloc(length), *in = calloc(1, length);

	CHECK(out && in);
	ranks_fill(id | (unsigned)ranks_self, 0, out, length);
	CHECK_EQUAL(thole_recv(endpoint, peer, in, length, 1, ~UINT64_C(0), 0, NULL, &receive), 0);
	CHECK_EQUAL(thole_send(endpoint, peer, out, length, 1, 0, 0, NULL, &send), 0);
	CHECK_EQUAL(ranks_finish(endpoint, receive), 0);
	CHECK_EQUAL(ranks_finish(endpoint, send), 0);
	CHECK_EQUAL(ranks_compare(id | (unsigned)other, 0, in, length), length);
	free(out);
	free(in);
}

/* All talk to each other in turns, each to one at a time, so that lanes come and go; until the thief has tried
 * often. */
static void talker(int self)
{
	static const size_t lengths[] = {8, 8, 8, 3000, 8, 8, 8, 100000};
	struct thole_endpoint *endpoint = endpoint_open("link=udp");
	uint64_t end_ns = ranks_now_ns() + seconds * UINT64_C(1000000000);
	uint32_t peers[RANKS_MAX];

	ranks_meet(endpoint, peers);
	for (uint64_t round = 0; !word(WORD_ENOUGH); round++) {
		for (int step = 1; step < ranks_count; step++) { /* self ^ step: everybody has one, and it has him */
			int other = self ^ step;

			for (uint64_t i = 0; i < 40; i++)
				exchange(endpoint, peers[other], other, round * 40 + i, lengths[i % 8]);
		}
		ranks_barrier(endpoint);
		if (self == 0 && ranks_now_ns() >= end_ns && word(WORD_TRIES) > TRIES_MIN)
			word_add(WORD_ENOUGH, 1);
		ranks_barrier(endpoint);
	}
	CHECK_EQUAL(ranks_counter(endpoint, "peers_gone"), 0);
	if (self == 0)
		word_add(WORD_OVER, 1);
	while (word(WORD_LEFT) < 2) /* what is closed is anybody's */
		thole_progress(endpoint);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static pid_t stranger_fork(void (*body)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	body();
	_exit(0);
}

static int steal(void)
{
	enum { TALKERS = 4 };
	pid_t pids[TALKERS], strangers[2];
	int failed;

	ranks_start(pids, TALKERS, LIMIT_S + seconds, talker);
	strangers[0] = stranger_fork(thief);
	strangers[1] = stranger_fork(flooder);
	failed = ranks_wait(pids, TALKERS, 0);
	word_add(WORD_OVER, 1); /* if they have failed */
	for (int i = 0; i < 2; i++)
		waitpid(strangers[i], NULL, 0); /* unless ranks_wait has met it */
	printf("%llu tries, %llu ports taken\n", (unsigned long long)word(WORD_TRIES),
	       (unsigned long long)word(WORD_STOLEN));
	CHECK_EQUAL(word(WORD_STOLEN), 0);
	return failed;
}

/* ---- A user who sends descriptors that wait in close ---------------------------------------------------------- */

enum { NAMES_MAX = 8, NAME_MAX_BYTES = 64, LINGER_S = 3600 };

/* Names of the job's listeners inside the host, as everybody can read them. */
static unsigned names_of_others(char names[NAMES_MAX][NAME_MAX_BYTES])
{
	FILE *file = fopen("/proc/self/net/unix", "re");
	char line[512];
	unsigned count = 0;

	CHECK(file);
	while (count < NAMES_MAX && fgets(line, sizeof(line), file))
		if (strstr(line, "@thole/") && sscanf(strstr(line, "@thole/") + 1, "%60s", names[count]) == 1)
			count++;
	fclose(file);
	return count;
}

/* A TCP connection to itself that takes no more bytes: its last close waits for it. */
static int lingering(int listener)
{
	static const char bytes[1 << 16];
	struct linger linger = {1, LINGER_S};
	struct sockaddr_in name;
	socklen_t size = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && getsockname(listener, (struct sockaddr *)&name, &size) == 0);
	CHECK_EQUAL(connect(fd, (struct sockaddr *)&name, size), 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	CHECK_EQUAL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

static bool descriptor_send(int socket, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec data = {"x", 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};

	control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					 .cmsg_len = CMSG_LEN(sizeof(int))};
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	word_add(WORD_TRIES, 1);
	return true;
}

static void charger(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	become_stranger();
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0 && listen(listener, 4096) == 0);
	while (!word(WORD_OVER)) {
		char names[NAMES_MAX][NAME_MAX_BYTES];
		unsigned count = names_of_others(names);

		for (unsigned i = 0; i < count && !word(WORD_OVER); i++) {
			struct sockaddr_un name = {.sun_family = AF_UNIX};
			size_t length = strlen(names[i]);
			int out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
			int fd = lingering(listener);

			memcpy(name.sun_path + 1, names[i], length);
			if (connect(out, (struct sockaddr *)&name,
				    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) != 0 ||
			    !descriptor_send(out, fd)) /* it is nowhere else */
				setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
			close(out);
			close(fd);
		}
	}
}

/* Until each rank has refused a descriptor; else it ends at LIMIT_S. */
static void charged_body(int self)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_endpoint_attr attr = {.options = options};
	uint64_t end_ns = ranks_now_ns() + seconds * UINT64_C(1000000000);
	struct thole_endpoint *endpoint;
	uint32_t peers[RANKS_MAX];
	bool refused = false;

	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	ranks_meet(endpoint, peers);
	for (uint64_t turn = 0; !word(WORD_ENOUGH); turn++) {
		exchange(endpoint, peers[!self], !self, turn, turn % 64 ? 8 : 100000);
		if (turn % 1024 == 0) {
			if (!refused && ranks_counter(endpoint, "refused") > 0) {
				refused = true;
				word_add(WORD_REFUSED, 1);
			}
			ranks_barrier(endpoint);
			if (self == 0 && ranks_now_ns() >= end_ns && word(WORD_REFUSED) == 2)
				word_add(WORD_ENOUGH, 1);
			ranks_barrier(endpoint);
		}
	}
	CHECK_EQUAL(ranks_counter(endpoint, "peers_gone"), 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint); /* the stranger goes on */
}

static int charge(void)
{
	pid_t pids[2], stranger;
	int failed;

	ranks_start(pids, 2, LIMIT_S + seconds, charged_body);
	stranger = stranger_fork(charger);
	failed = ranks_wait(pids, 2, 0);
	word_add(WORD_OVER, 1);
	kill(stranger, SIGKILL);
	waitpid(stranger, NULL, 0);
	printf("%llu descriptors sent\n", (unsigned long long)word(WORD_TRIES));
	CHECK(word(WORD_TRIES) > 0);
	return failed;
}

/* ---- Whether a process lives ---------------------------------------------------------------------------------- */

static void nap(unsigned ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

/* Waits for a message of rank 1, and then for an answer. Returns how that ended. */
static int await_rank(const char *option, uint32_t *peers, struct thole_endpoint **endpoint_p)
{
	const char *const options[] = {"shm=off", "link=udp", option, NULL};
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_request *request;
	static char byte;

	CHECK_EQUAL(thole_endpoint_open(&attr, endpoint_p), 0);
	ranks_meet(*endpoint_p, peers);
	exchange(*endpoint_p, peers[1], 1, 0, 8);
	CHECK_EQUAL(thole_recv(*endpoint_p, peers[1], &byte, 1, 7, ~UINT64_C(0), 0, NULL, &request), 0);
	word_add(WORD_COMPUTING, 1);
	return ranks_finish(*endpoint_p, request);
}

static struct thole_endpoint *be_awaited(uint32_t *peers)
{
	struct thole_endpoint *endpoint = endpoint_open("link=udp");

	ranks_meet(endpoint, peers);
	exchange(endpoint, peers[0], 0, 0, 8);
	ranks_shared->words[WORD_PID] = (uint64_t)getpid();
	while (!word(WORD_COMPUTING)) /* and with that the last acknowledgement is out */
		thole_progress(endpoint);
	return endpoint;
}

static void answer_at_last(struct thole_endpoint *endpoint, const uint32_t *peers)
{
	struct thole_request *request;
	char byte = 1;

	CHECK_EQUAL(thole_send(endpoint, peers[0], &byte, 1, 7, 0, 0, NULL, &request), 0);
	CHECK_EQUAL(ranks_finish(endpoint, request), 0);
}

/* ---- A computing rank, whose ports a stranger fills ------------------------------------------------------------- */

enum {
	HELD = 5000,    /* connections to each listener */
	HELD_LEAST_S = 11, /* longer than a host's word is taken for the process's: twenty times peer_timeout */
	PORTS_TCP = 4,
};

static void held_body(int self)
{
	struct thole_endpoint *endpoint;
	uint32_t peers[RANKS_MAX];
	int descriptors;

	if (self == 0) {
		CHECK_EQUAL(await_rank("peer_timeout=500ms", peers, &endpoint), 0);
		CHECK(ranks_counter(endpoint, "peers_asked_after") > 0);
		CHECK_EQUAL(ranks_counter(endpoint, "peers_gone"), 0);
	} else {
		endpoint = be_awaited(peers);
		descriptors = ranks_descriptors();
		while (!word(WORD_ENOUGH)) {
			nap(1);
			CHECK(ranks_descriptors() <= descriptors + 1); /* one that is being let go */
		}
		answer_at_last(endpoint, peers);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static unsigned tcp_ports(uint16_t *ports)
{
	FILE *file = fopen("/proc/self/net/tcp", "re");
	unsigned count = 0, port, state;
	char line[256];

	CHECK(file);
	while (count < PORTS_TCP && fgets(line, sizeof(line), file))
		if (sscanf(line, " %*u: %*x:%x %*x:%*x %x", &port, &state) == 2 && state == 10)
			ports[count++] = (uint16_t)port;
	fclose(file);
	return count;
}

/* Opens connections to all who listen, and holds them; and sends to all UDP ports. */
static void holder(void)
{
	struct rlimit limit = {2 * HELD + 100, 2 * HELD + 100};
	uint16_t ports[PORTS_MAX], listeners[PORTS_TCP];
	uint64_t end_ns;
	unsigned count;
	int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char bytes[64] = {3, 1, 0};

	CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
	become_stranger();
	while (!word(WORD_COMPUTING))
		nap(1);
	count = tcp_ports(listeners);
	CHECK_EQUAL(count, 2);
	for (unsigned i = 0; i < HELD * count; i++) {
		struct sockaddr_in to = place(INADDR_LOOPBACK, listeners[i % count]);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		CHECK(fd >= 0);
		connect(fd, (struct sockaddr *)&to, sizeof(to));
	}
	end_ns = ranks_now_ns() + seconds * UINT64_C(1000000000);
	count = ports_of_others(ports);
	while (ranks_now_ns() < end_ns)
		for (unsigned i = 0; i < count; i++) {
			struct sockaddr_in to = place(INADDR_LOOPBACK, ports[i]);

			sendto(datagrams, bytes, 24 + 40 * (i & 1), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
		}
	word_add(WORD_ENOUGH, 1);
}

static int hold(void)
{
	pid_t pids[2], stranger;
	int failed;

	seconds = seconds > HELD_LEAST_S ? seconds : HELD_LEAST_S;
	ranks_start(pids, 2, LIMIT_S + seconds, held_body);
	stranger = stranger_fork(holder);
	failed = ranks_wait(pids, 2, 0);
	kill(stranger, SIGKILL);
	waitpid(stranger, NULL, 0);
	return failed;
}

/* ---- A rank that is killed, and its children live -------------------------------------------------------------- */

static bool by_clone; /* the bare system call, which no handler hears of */

static void orphan_body(int self)
{
	struct thole_endpoint *endpoint;
	uint32_t peers[RANKS_MAX];
	pid_t child;

	if (self == 0) {
		CHECK_EQUAL(await_rank(by_clone ? "peer_timeout=200ms" : "peer_timeout=30s", peers, &endpoint),
			    THOLE_ERR_PEER);
		thole_endpoint_close(endpoint);
		return;
	}
	endpoint = be_awaited(peers);
	child = by_clone ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, 0);
		word_add(WORD_PID, 1);
		while (!word(WORD_OVER))
			nap(10);
		_exit(0);
	}
	while (word(WORD_PID) == (uint64_t)getpid())
		nap(1);
	kill(getpid(), SIGKILL);
}

static int orphan_run(void)
{
	pid_t pids[2];
	int failed;

	ranks_start(pids, 2, 60, orphan_body);
	failed = ranks_wait(pids, 2, 2);
	word_add(WORD_OVER, 1);
	return failed;
}

static int orphan(void)
{
	return orphan_run();
}

static int orphan_of_clone(void)
{
	by_clone = true;
	return orphan_run();
}

/* ---- A rank that is stopped for many times peer_timeout, and goes on ------------------------------------------- */

static void stopped_body(int self)
{
	struct thole_endpoint *endpoint;
	uint32_t peers[RANKS_MAX];

	if (self == 0) {
		CHECK_EQUAL(await_rank("peer_timeout=500ms", peers, &endpoint), 0);
	} else {
		endpoint = be_awaited(peers);
		kill(getpid(), SIGSTOP);
		answer_at_last(endpoint, peers);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static int stopped(void)
{
	pid_t pids[2];
	int status;

	ranks_start(pids, 2, LIMIT_S, stopped_body);
	CHECK(waitpid(pids[1], &status, WUNTRACED) == pids[1] && WIFSTOPPED(status));
	nap(1000 * seconds);
	kill(pids[1], SIGCONT);
	return ranks_wait(pids, 2, 0);
}

/* ------------------------------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{"steal", steal},
	{"hold", hold},
	{"charge", charge},
	{"orphan", orphan},
	{"orphan-of-clone", orphan_of_clone},
	{"stopped", stopped},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 2) {
			puts(cases[i].name);
		} else if (strcmp(argv[1], cases[i].name) == 0) {
			seconds = argc > 2 ? (unsigned)atoi(argv[2]) : seconds;
			own_network();
			return cases[i].run() != 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
