/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_kill: ranks are killed at random moments, under traffic of all kinds.
 *
 *   thole_kill [--kills N] [--seed X]
 *
 * Two veterans live through the whole run. For each kill two more ranks start; all exchange messages, puts, gets
 * and atomics with all, until one of the new ones gets SIGKILL, at any moment from before it has an endpoint. Then
 * everything pending between it and the others must end in an error, everything later too, and the others must go on
 * talking; the other new rank then ends by closing. At the end of each turn a veteran has as many descriptors and
 * shared mappings as before it, but for UDP sockets of its own for whom it talks to most, which come and go, and for
 * its ring to the other veteran, whose descriptor is closed once all of its memory is there. At the end of the run
 * there is no process, no socket and no file of ours.
 */
#include <dirent.h>
#include <getopt.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/address.h"
#include "ranks.h"

enum {
	VETERANS = 2, VICTIM = 2, COMPANION = 3, RANKS = 4,
	KEY = 5, REGION = 1 << 20, LENGTH_MAX_SENT = 1 << 20,
	TAG_EXCHANGE = 1, TAG_NOBODY = 2,
	LIMIT_S = 170,
	SETTLED = 60, /* exchanges after which veterans map of each other what they ever will */
	GO_ON = 3, /* exchanges between survivors after each kill */
	LANES = 2, /* sockets of the UDP link for its favourites, at most */
	GROWN = 1, /* descriptors of a veteran that are closed once its ring to the other has its full size */
	TRAFFIC = 24, /* operations that a victim lives through, at most */
};

/* What all know. words[]: see below. */
enum {
	WORD_TURN, WORD_KILLED, WORD_DONE, WORD_FINAL, WORD_TRAFFIC, WORD_PUBLISHED, WORD_OVER = WORD_PUBLISHED + RANKS
};

static uint64_t seed;
static int kills = 200;

static uint64_t word(int index)
{
	return __atomic_load_n(&ranks_shared->words[index], __ATOMIC_ACQUIRE);
}

static void word_set(int index, uint64_t value)
{
	__atomic_store_n(&ranks_shared->words[index], value, __ATOMIC_RELEASE);
}

/* ---- Traffic between two ranks -------------------------------------------------------------------- */

enum { REQUEST_SEND, REQUEST_RECEIVE, REQUEST_REMOTE, REQUESTS };

struct link {
	int rank;
	bool open;                /* it has an address, and is not known to be gone */
	uint32_t peer;
	uint64_t turn;            /* that it belongs to; 0: veterans */
	uint64_t sequence;        /* exchanges done */
	uint64_t remotes;         /* one-sided operations done */
	struct thole_request *requests[REQUESTS];
	bool failed[REQUESTS];
	uint8_t *out, *in, *data;
	uint64_t random;
};

struct rank {
	struct thole_endpoint *endpoint;
	struct link links[RANKS];
	uint8_t *region;
};

static uint64_t message_id(uint64_t turn, int from, int to, uint64_t sequence)
{
	return seed ^ turn * 1000003 ^ (uint64_t)from << 40 ^ (uint64_t)to << 48 ^ sequence << 4;
}

static uint64_t message_length(uint64_t id)
{
	uint64_t random = id;
	uint32_t kind = random_below(&random, 8);

	return kind < 3 ? random_below(&random, 100) : kind < 6 ? random_below(&random, 70000)
							       : random_below(&random, LENGTH_MAX_SENT);
}

/* Whether an error says how the other went: who is killed has closed nothing; who closes is perhaps only seen to be
 * gone. */
static void end_check(const struct link *link, int error)
{
	CHECK(error == THOLE_ERR_PEER || (error == THOLE_ERR_CLOSED && link->rank == COMPANION));
}

/* Whether a status may be: an error only where the other is gone. */
static void status_check(struct link *link, int kind, int status)
{
	if (status == 0)
		return;
	end_check(link, status);
	CHECK(link->rank >= VETERANS);
	link->failed[kind] = true;
	link->open = false;
}

static void exchange_start(struct rank *rank, struct link *link)
{
	uint64_t id = message_id(link->turn, ranks_self, link->rank, link->sequence);
	uint64_t length = message_length(id);
	int error;

	error = thole_recv(rank->endpoint, link->peer, link->in, LENGTH_MAX_SENT, TAG_EXCHANGE, ~UINT64_C(0), 0, link,
			   &link->requests[REQUEST_RECEIVE]);
	if (error)
		link->requests[REQUEST_RECEIVE] = NULL;
	status_check(link, REQUEST_RECEIVE, error);
	ranks_fill(id, 0, link->out, length);
	error = thole_send(rank->endpoint, link->peer, link->out, length, TAG_EXCHANGE, link->sequence,
			   THOLE_IMM | (link->sequence % 4 == 1 ? THOLE_SYNC : 0u), link,
			   &link->requests[REQUEST_SEND]);
	if (error)
		link->requests[REQUEST_SEND] = NULL;
	status_check(link, REQUEST_SEND, error);
}

static void exchange_check(struct link *link, const struct thole_completion *completion)
{
	uint64_t id = message_id(link->turn, link->rank, ranks_self, link->sequence);

	CHECK_EQUAL(completion->imm, link->sequence);
	CHECK_EQUAL(completion->length, message_length(id));
	CHECK_EQUAL(ranks_compare(id, 0, link->in, completion->length), completion->length);
}

static void remote_start(struct rank *rank, struct link *link)
{
	uint64_t length = 1 + message_length(random_next(&link->random)) % (REGION / RANKS - 8);
	uint64_t offset = (uint64_t)ranks_self * (REGION / RANKS);
	struct thole_request **request_p = &link->requests[REQUEST_REMOTE];
	struct iovec segment = {link->data, length};
	uint64_t one = 1;
	int error;

	switch (link->remotes % 3) {
	case 0:
		ranks_fill(link->remotes, 0, link->data, length);
		error = thole_put(rank->endpoint, link->peer, &segment, 1, KEY, offset, 0, 0, link, request_p);
		break;
	case 1:
		error = thole_get(rank->endpoint, link->peer, &segment, 1, KEY, offset, 0, link, request_p);
		break;
	default:
		error = thole_atomic(rank->endpoint, link->peer,
				     &(struct thole_atomic){.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1,
							    .operand = &one, .result = link->data, .key = KEY,
							    .offset = offset},
				     0, link, request_p);
	}
	if (error)
		*request_p = NULL;
	status_check(link, REQUEST_REMOTE, error);
}

static void link_progress(struct rank *rank, struct link *link)
{
	struct thole_completion completion;

	for (int kind = 0; kind < REQUESTS; kind++) {
		if (!link->requests[kind] || !thole_test(rank->endpoint, link->requests[kind], &completion))
			continue;
		link->requests[kind] = NULL;
		CHECK(completion.context == link);
		status_check(link, kind, completion.status);
		if (kind == REQUEST_RECEIVE && completion.status == 0)
			exchange_check(link, &completion);
		if (ranks_self == VICTIM)
			__atomic_add_fetch(&ranks_shared->words[WORD_TRAFFIC], 1, __ATOMIC_ACQ_REL);
		if (kind == REQUEST_REMOTE)
			link->remotes++;
		else if (!link->requests[REQUEST_SEND] && !link->requests[REQUEST_RECEIVE] && link->open)
			link->sequence++;
	}
	if (!link->open)
		return;
	if (!link->requests[REQUEST_SEND] && !link->requests[REQUEST_RECEIVE] &&
	    link->sequence < word(WORD_FINAL))
		exchange_start(rank, link);
	if (link->open && !link->requests[REQUEST_REMOTE] && word(WORD_FINAL) == UINT64_MAX)
		remote_start(rank, link);
}

static bool link_idle(const struct link *link)
{
	return !link->requests[REQUEST_SEND] && !link->requests[REQUEST_RECEIVE] && !link->requests[REQUEST_REMOTE];
}

static void link_open(struct rank *rank, int other, uint64_t turn)
{
	struct link *link = &rank->links[other];

	CHECK_EQUAL(thole_peer(rank->endpoint, &ranks_shared->addresses[other], &link->peer), 0);
	link->rank = other;
	link->turn = turn;
	link->open = true;
	link->sequence = link->remotes = 0;
	link->random = seed + (uint64_t)ranks_self;
	memset(link->failed, 0, sizeof(link->failed));
}

static void rank_open(struct rank *rank, const char *const *options)
{
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_region *region;

	memset(rank, 0, sizeof(*rank));
	CHECK_EQUAL(thole_endpoint_open(&attr, &rank->endpoint), 0);
	rank->region = calloc(1, REGION);
	CHECK_EQUAL(thole_expose(rank->endpoint, rank->region, REGION,
				 THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY, NULL, &region),
		    0);
	for (int i = 0; i < RANKS; i++) {
		CHECK(thole_alloc(LENGTH_MAX_SENT, (void **)&rank->links[i].out) == 0);
		CHECK(thole_alloc(LENGTH_MAX_SENT, (void **)&rank->links[i].in) == 0);
		rank->links[i].data = malloc(REGION);
		CHECK(rank->links[i].out && rank->links[i].in && rank->links[i].data);
	}
	thole_endpoint_address(rank->endpoint, &ranks_shared->addresses[ranks_self]);
}

static void rank_progress(struct rank *rank)
{
	for (int i = 0; i < RANKS; i++)
		link_progress(rank, &rank->links[i]);
}

/* ---- New ranks ------------------------------------------------------------------------------------- */

static void newcomer(int self)
{
	static const char *const variants[][3] = {
		{"bulk=auto", NULL},
		{"bulk=ring", NULL},
		{"bulk=one-copy", NULL},
		{"bulk=cooperative", "cooperative_block=16k", NULL},
		{"bulk=direct", "cooperative_block=16k", NULL},
	};
	uint64_t turn = word(WORD_TURN);
	struct rank rank;

	rank_open(&rank, variants[turn % 5]);
	word_set(WORD_PUBLISHED + self, turn);
	for (int i = 0; i < VETERANS; i++)
		link_open(&rank, i, turn);
	while (word(WORD_OVER) < turn) {
		int other = self == VICTIM ? COMPANION : VICTIM;

		if (!rank.links[other].turn && word(WORD_PUBLISHED + other) == turn)
			link_open(&rank, other, turn);
		rank_progress(&rank);
	}
	thole_endpoint_close(rank.endpoint); /* others learn it by an error */
}

/* ---- Veterans -------------------------------------------------------------------------------------- */

/* Mappings of Thole's files. One that is in pieces, since some of it is registered with an adapter and stays out of
 * children, is one. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long start, end, inode, last_end = 0, last_inode = 0;
	char line[512];
	int count = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (!strstr(line, "memfd:thole"))
			continue;
		CHECK(sscanf(line, "%lx-%lx %*s %*x %*s %lu", &start, &end, &inode) == 3);
		count += start != last_end || inode != last_inode;
		last_end = end;
		last_inode = inode;
	}
	fclose(file);
	return count;
}

/* An endpoint with a thread makes its timer when that is first to be woken at a time, which may be later. */
static int timers(void)
{
	char path[64], what[64];
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, what, sizeof(what) - 1);
		if (length < 0)
			continue;
		what[length] = '\0';
		count += strcmp(what, "anon_inode:[timerfd]") == 0;
	}
	return count;
}

static int udp_sockets(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int protocol = 0;
		socklen_t size = sizeof(protocol);

		count += getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_UDP;
	}
	return count;
}

struct held {
	int sockets; /* of UDP, when it had talked to nobody */
	int others;  /* descriptors, but timers */
	int maps;
};

static int other_descriptors(void)
{
	return ranks_descriptors() - udp_sockets() - timers();
}

static bool held_is(const struct held *before)
{
	int sockets = udp_sockets(), others = other_descriptors();

	return sockets >= before->sockets && sockets <= before->sockets + LANES && others <= before->others &&
	       others >= before->others - GROWN && timers() <= 1 && mappings() == before->maps;
}

/* What a dead peer had is given back; it says what is not. */
static void held_await(struct rank *rank, const struct held *before)
{
	uint64_t patience_ns = ranks_now_ns() + UINT64_C(30000000000);

	while (!held_is(before)) {
		for (int i = 0; i < 100; i++)
			rank_progress(rank);
		if (ranks_now_ns() < patience_ns)
			continue;
		fprintf(stderr, "%d sockets of UDP, not %d to %d; %d other descriptors, not %d to %d; %d timers; "
				"%d mappings, not %d\n",
			udp_sockets(), before->sockets, before->sockets + LANES, other_descriptors(),
			before->others - GROWN, before->others, timers(), mappings(), before->maps);
		CHECK(false);
	}
}

/* Everything later to and from a dead peer ends in an error, too. */
static void dead_check(struct rank *rank, struct link *link)
{
	struct thole_request *request;
	struct thole_completion completion;
	struct iovec segment = {link->out, 100};
	int error;

	for (int kind = 0; kind < 5; kind++) {
		switch (kind) {
		case 0:
			error = thole_send(rank->endpoint, link->peer, link->out, 8, 9, 0, 0, NULL, &request);
			break;
		case 1:
			error = thole_send(rank->endpoint, link->peer, link->out, LENGTH_MAX_SENT, 9, 0, 0, NULL,
					   &request);
			break;
		case 2:
			error = thole_recv(rank->endpoint, link->peer, link->in, 100, 9, ~UINT64_C(0), 0, NULL,
					   &request);
			break;
		case 3:
			error = thole_put(rank->endpoint, link->peer, &segment, 1, KEY, 0, 0, 0, NULL, &request);
			break;
		default:
			error = thole_get(rank->endpoint, link->peer, &segment, 1, KEY, 0, 0, NULL, &request);
		}
		if (error) {
			end_check(link, error);
			continue;
		}
		while (!thole_test(rank->endpoint, request, &completion))
			rank_progress(rank);
		end_check(link, completion.status);
	}
}

static void veteran_turn(struct rank *rank, uint64_t turn, const struct held *before)
{
	struct link *victim = &rank->links[VICTIM], *companion = &rank->links[COMPANION];
	struct link *veteran = &rank->links[1 - ranks_self];
	uint64_t with_veteran, with_companion, death_ns, took_ns;
	bool met = false;

	victim->turn = companion->turn = 0;
	while (word(WORD_KILLED) < turn || !companion->turn) {
		if (!companion->turn && word(WORD_PUBLISHED + COMPANION) == turn)
			link_open(rank, COMPANION, turn);
		if (!victim->turn && word(WORD_PUBLISHED + VICTIM) == turn)
			link_open(rank, VICTIM, turn);
		rank_progress(rank);
	}
	death_ns = ranks_now_ns();
	met = victim->turn == turn;
	if (!met && word(WORD_PUBLISHED + VICTIM) == turn) { /* first words to somebody who is dead */
		link_open(rank, VICTIM, turn);
		met = true;
	}
	while (met && (victim->open || !link_idle(victim)))
		rank_progress(rank);
	took_ns = ranks_now_ns() - death_ns;
	if (took_ns > ranks_shared->words[100 + ranks_self])
		ranks_shared->words[100 + ranks_self] = took_ns;
	if (met)
		dead_check(rank, victim);
	with_veteran = veteran->sequence + GO_ON;
	with_companion = companion->sequence + GO_ON;
	while (veteran->sequence < with_veteran || companion->sequence < with_companion) {
		CHECK(companion->open);
		rank_progress(rank);
	}
	__atomic_add_fetch(&ranks_shared->words[WORD_DONE], 1, __ATOMIC_ACQ_REL);
	while (companion->open || !link_idle(companion)) /* the parent has it close */
		rank_progress(rank);
	held_await(rank, before);
	__atomic_add_fetch(&ranks_shared->words[WORD_DONE], 1, __ATOMIC_ACQ_REL);
}

static void veteran(int self)
{
	const char *const options[] = {self == 1 ? "progress_thread=on" : "progress_thread=off", NULL};
	struct thole_request *never;
	struct rank rank;
	struct held before;
	char byte;

	rank_open(&rank, options);
	before.sockets = udp_sockets();
	CHECK_EQUAL(thole_recv(rank.endpoint, THOLE_ANY, &byte, 1, TAG_NOBODY, ~UINT64_C(0), 0, NULL, &never), 0);
	ranks_barrier_of(rank.endpoint, VETERANS);
	link_open(&rank, 1 - self, 0);
	while (rank.links[1 - self].sequence < SETTLED)
		rank_progress(&rank);
	before.others = other_descriptors();
	before.maps = mappings();
	word_set(WORD_PUBLISHED + self, 1);
	for (uint64_t turn = 1; turn <= (uint64_t)kills; turn++) {
		while (word(WORD_TURN) < turn)
			rank_progress(&rank);
		veteran_turn(&rank, turn, &before);
	}
	/* Until the other has counted its descriptors, too: with nothing to send it would not get back what traffic
	 * opens. */
	while (word(WORD_DONE) < (uint64_t)kills * 4)
		rank_progress(&rank);
	/* Agree on a last exchange: the other is at most one ahead or behind. */
	if (self == 0)
		word_set(WORD_FINAL, rank.links[1].sequence + 2);
	while (word(WORD_FINAL) == UINT64_MAX || rank.links[1 - self].sequence < word(WORD_FINAL) ||
	       !link_idle(&rank.links[1 - self]))
		rank_progress(&rank);
	CHECK_EQUAL(thole_cancel(rank.endpoint, never), 1);
	CHECK_EQUAL(thole_test(rank.endpoint, never, NULL), 1);
	CHECK_EQUAL(ranks_counter(rank.endpoint, "bad_records"), 0);
	CHECK(ranks_counter(rank.endpoint, "peers_gone") >= (uint64_t)kills);
	ranks_barrier_of(rank.endpoint, VETERANS);
	thole_endpoint_close(rank.endpoint);
}

/* ---- The parent ------------------------------------------------------------------------------------ */

static void pause_ns(uint64_t ns)
{
	struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ns};

	nanosleep(&time, NULL);
}

/* Nobody but the one that was killed may have ended. */
static void await(const pid_t *pids, int index, uint64_t value)
{
	int status;

	while (word(index) < value) {
		for (int i = 0; i < RANKS; i++)
			if (pids[i] && waitpid(pids[i], &status, WNOHANG) != 0) {
				fprintf(stderr, "rank %d ended with status %#x in turn %llu\n", i, (unsigned)status,
					(unsigned long long)word(WORD_TURN));
				for (int k = 0; k < RANKS; k++)
					if (k != i && pids[k])
						kill(pids[k], SIGKILL);
				exit(1);
			}
		pause_ns(200000);
	}
}

/* From before it has an endpoint, through its connections, to full traffic: by time, and by what it has done where time
 * means little. */
static void victim_lives(const pid_t *pids, uint64_t *random)
{
	static const uint32_t ns[] = {1000000, 4000000, 30000000};
	uint32_t mood = random_below(random, 4);

	if (mood < 3)
		pause_ns(random_below(random, ns[mood]));
	else
		await(pids, WORD_TRAFFIC, 1 + random_below(random, TRAFFIC));
}

static bool socket_exists(const struct thole_address *address)
{
	struct address_parts parts;
	char name[64], line[512];
	bool found = false;
	FILE *file = fopen("/proc/net/unix", "re");

	CHECK(file);
	CHECK_EQUAL(address_parse(address, &parts), 0);
	snprintf(name, sizeof(name), "@thole/%016llx", (unsigned long long)parts.endpoint);
	while (fgets(line, sizeof(line), file))
		found = found || strstr(line, name);
	fclose(file);
	return found;
}

/* Files of a folder whose names have "thole" in them. */
static int files(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int count = 0;

	while (folder && (entry = readdir(folder)))
		count += strstr(entry->d_name, "thole") != NULL && strstr(entry->d_name, "thole-") == NULL;
	if (folder)
		closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	static const struct option words[] = {{"kills", required_argument, NULL, 'k'},
					      {"seed", required_argument, NULL, 'x'},
					      {NULL, 0, NULL, 0}};
	struct thole_address *seen;
	pid_t pids[RANKS] = {0};
	int option, shm_files = files("/dev/shm"), status;
	uint64_t random;

	seed = ranks_now_ns();
	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1) {
		if (option == 'k')
			kills = (int)ranks_number("--kills", optarg, 1);
		else if (option == 'x')
			seed = ranks_number("--seed", optarg, 0);
		else
			return 2;
	}
	printf("thole_kill --seed %llu --kills %d\n", (unsigned long long)seed, kills);
	fflush(stdout);
	random = seed;
	seen = calloc((size_t)kills * 2 + VETERANS, sizeof(*seen));
	ranks_prepare(RANKS);
	word_set(WORD_FINAL, UINT64_MAX);
	for (int i = 0; i < VETERANS; i++)
		pids[i] = ranks_fork(i, LIMIT_S, veteran);
	for (int i = 0; i < VETERANS; i++)
		await(pids, WORD_PUBLISHED + i, 1);
	for (uint64_t turn = 1; turn <= (uint64_t)kills; turn++) {
		word_set(WORD_TRAFFIC, 0);
		word_set(WORD_TURN, turn);
		for (int i = VETERANS; i < RANKS; i++)
			pids[i] = ranks_fork(i, LIMIT_S, newcomer);
		victim_lives(pids, &random);
		kill(pids[VICTIM], SIGKILL);
		CHECK(waitpid(pids[VICTIM], &status, 0) == pids[VICTIM] && WIFSIGNALED(status));
		pids[VICTIM] = 0;
		word_set(WORD_KILLED, turn);
		await(pids, WORD_DONE, turn * 4 - 2);
		word_set(WORD_OVER, turn);
		CHECK(waitpid(pids[COMPANION], &status, 0) == pids[COMPANION]);
		CHECK_EQUAL(status, 0);
		pids[COMPANION] = 0;
		await(pids, WORD_DONE, turn * 4);
		for (int i = VETERANS; i < RANKS; i++)
			if (word(WORD_PUBLISHED + i) == turn)
				seen[turn * 2 + (uint64_t)(i - VETERANS)] = ranks_shared->addresses[i];
	}
	CHECK_EQUAL(ranks_wait(pids, VETERANS, 0), 0);
	for (int i = 0; i < VETERANS; i++)
		seen[i] = ranks_shared->addresses[i];
	for (int i = 0; i < kills * 2 + VETERANS; i++)
		CHECK(!seen[i].text[0] || !socket_exists(&seen[i]));
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	CHECK_EQUAL(files("/dev/shm"), shm_files);
	printf("longest until a survivor's requests had ended: %.1f ms\n",
	       (double)(ranks_shared->words[100] > ranks_shared->words[101] ? ranks_shared->words[100]
									   : ranks_shared->words[101]) / 1e6);
	free(seen);
	return 0;
}
