/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_conditions: what is not the ordinary case, one case a run.
 *
 *   thole_conditions CASE      without an argument: prints the cases, one a line
 *
 * Namespaces, users, ranks that compute, sleepers, very many messages, very long ones. Status 77: the host
 * does not permit what the case needs. Nothing here depends on how long something takes: a rank that must not
 * call Thole for a while waits for a word in shared memory, not for a time.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "ranks.h"

enum { LIMIT_S = 100, KEY = 9 };

static void nap_us(unsigned us)
{
	struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

	nanosleep(&time, NULL);
}

static uint64_t word(int index)
{
	return __atomic_load_n(&ranks_shared->words[index], __ATOMIC_ACQUIRE);
}

static void word_set(int index, uint64_t value)
{
	__atomic_store_n(&ranks_shared->words[index], value, __ATOMIC_RELEASE);
}

/* Compute: no call of Thole until the word is set. */
static void compute_until(int index)
{
	volatile double x = 1;

	while (!word(index)) {
		for (int i = 0; i < 1000; i++)
			x = x * 1.0000001;
		sched_yield(); /* two cores may be all there are */
	}
}

static struct thole_endpoint *endpoint_open(const char *option, const char *option2, enum thole_threads threads)
{
	const char *const options[] = {option, option ? option2 : NULL, NULL};
	struct thole_endpoint_attr attr = {.options = options, .threads = threads};
	struct thole_endpoint *endpoint;

	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	return endpoint;
}

static void send_filled(struct thole_endpoint *endpoint, uint32_t peer, uint64_t id, size_t length, uint64_t tag,
			unsigned flags)
{
	struct thole_request *request;
	uint8_t *bytes = malloc(length + 1);

	ranks_fill(id, 0, bytes, length);
	CHECK_EQUAL(thole_send(endpoint, peer, bytes, length, tag, 0, flags, NULL, &request), 0);
	CHECK_EQUAL(ranks_finish(endpoint, request), 0);
	free(bytes);
}

static void receive_checked(struct thole_endpoint *endpoint, uint32_t peer, uint64_t id, size_t length, uint64_t tag)
{
	struct thole_request *request;
	uint8_t *bytes = calloc(1, length + 1);

	CHECK_EQUAL(thole_recv(endpoint, peer, bytes, length, tag, ~UINT64_C(0), 0, NULL, &request), 0);
	CHECK_EQUAL(ranks_finish(endpoint, request), 0);
	CHECK_EQUAL(ranks_compare(id, 0, bytes, length), length);
	free(bytes);
}

static void exchange(struct thole_endpoint *endpoint, uint32_t peer, int self, int other, uint64_t id, size_t length)
{
	struct thole_request *send, *receive;
	uint8_t *out = malloc(length + 1), *in = calloc(1, length + 1);

	ranks_fill(id + (uint64_t)self, 0, out, length);
	CHECK_EQUAL(thole_recv(endpoint, peer, in, length, 1, ~UINT64_C(0), 0, NULL, &receive), 0);
	CHECK_EQUAL(thole_send(endpoint, peer, out, length, 1, 0, 0, NULL, &send), 0);
	CHECK_EQUAL(ranks_finish(endpoint, receive), 0);
	CHECK_EQUAL(ranks_finish(endpoint, send), 0);
	CHECK_EQUAL(ranks_compare(id + (uint64_t)other, 0, in, length), length);
	free(out);
	free(in);
}

static void exchanges(struct thole_endpoint *endpoint, uint32_t peer, int self, int other)
{
	static const size_t lengths[] = {0, 8, 41, 1000, 5000, 70000, 1000000};

	for (uint64_t i = 0; i < 70; i++)
		exchange(endpoint, peer, self, other, i << 8, lengths[i % 7]);
}

/* ---- Namespaces and users -------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Into a user namespace of its own, and perhaps others that need one; as the same user. Exits with RANKS_SKIP if it
 * may not. */
static void enter_namespaces(int flags)
{
	unsigned uid = geteuid(), gid = getegid();
	char line[64];

	if (unshare(CLONE_NEWUSER | flags) != 0)
		_exit(RANKS_SKIP);
	write_file("/proc/self/setgroups", "deny");
	snprintf(line, sizeof(line), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", line);
	snprintf(line, sizeof(line), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", line);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* new credentials have cleared it */
}

static void meet_and_exchange(int self)
{
	struct thole_endpoint *endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	uint32_t peers[2];

	ranks_meet(endpoint, peers);
	exchanges(endpoint, peers[1 - self], self, 1 - self);
	CHECK_EQUAL(ranks_counter(endpoint, "peers_gone"), 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static void user_namespace(int self)
{
	if (self == 1)
		enter_namespaces(0);
	meet_and_exchange(self);
}

/* Each sees the other as process 0 or not at all, and cannot reach its memory. */
static void pid_namespace(int self)
{
	int status;
	pid_t child;

	if (self == 0) {
		meet_and_exchange(self);
		return;
	}
	enter_namespaces(CLONE_NEWPID);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(LIMIT_S);
		meet_and_exchange(self);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
}

static void network_namespace(int self)
{
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	uint32_t peers[2];
	char byte = 1;

	if (self == 1)
		enter_namespaces(CLONE_NEWNET);
	endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	CHECK_EQUAL(thole_send(endpoint, peers[1 - self], &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_ADDRESS);
	CHECK(strstr(thole_detail(), "namespace") != NULL);
	/* Itself it reaches. */
	CHECK_EQUAL(thole_send(endpoint, peers[self], &byte, 1, 0, 0, 0, NULL, &request), 0);
	CHECK_EQUAL(ranks_finish(endpoint, request), 0);
	CHECK_EQUAL(thole_recv(endpoint, peers[self], &byte, 1, 0, 0, 0, NULL, &request), 0);
	CHECK_EQUAL(ranks_finish(endpoint, request), 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

static void other_user(int self)
{
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	uint32_t peers[3];
	char byte = 1;
	int error;

	if (geteuid() != 0)
		_exit(RANKS_SKIP);
	if (self == 1) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	if (self < 2) {
		error = thole_send(endpoint, peers[1 - self], &byte, 1, 0, 0, 0, NULL, &request);
		CHECK_EQUAL(error, THOLE_ERR_PEER);
		CHECK(strstr(thole_detail(), "another user") != NULL);
		CHECK_EQUAL(thole_recv(endpoint, peers[1 - self], &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_PEER);
		/* The other's attempt was counted here. */
		while (ranks_counter(endpoint, "refused") == 0)
			thole_progress(endpoint);
		CHECK_EQUAL(ranks_counter(endpoint, "accepts"), 0);
	}
	ranks_barrier(endpoint);
	if (self != 1) /* and those of one user go on */
		exchanges(endpoint, peers[2 - self], self, 2 - self);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* Into a user namespace without a number for anybody: there all users are called the same. */
static void enter_unmapped(unsigned uid)
{
	if (geteuid() != 0)
		_exit(RANKS_SKIP);
	CHECK(setgid(uid) == 0 && setuid(uid) == 0);
	if (unshare(CLONE_NEWUSER) != 0)
		_exit(RANKS_SKIP);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Each in a namespace of its own, ranks 0 and 2 of one user, who find each other, and rank 1 of another. */
static void unmapped_users(int self)
{
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	uint32_t peers[3];
	char byte = 1;

	enter_unmapped(self == 1 ? 1001 : 1002);
	endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	if (self < 2) {
		CHECK_EQUAL(thole_send(endpoint, peers[1 - self], &byte, 1, 0, 0, 0, NULL, &request), THOLE_ERR_PEER);
		CHECK(strstr(thole_detail(), "another user, or to this one") != NULL);
		while (ranks_counter(endpoint, "refused") == 0)
			thole_progress(endpoint);
		CHECK_EQUAL(ranks_counter(endpoint, "accepts"), 0);
	}
	ranks_barrier(endpoint);
	if (self != 1)
		exchanges(endpoint, peers[2 - self], self, 2 - self);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* Both become another user between opening and connecting. */
static void changed_user(int self)
{
	struct thole_endpoint *endpoint;
	uint32_t peers[2];

	if (geteuid() != 0)
		_exit(RANKS_SKIP);
	endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ranks_barrier(endpoint);
	exchanges(endpoint, peers[1 - self], self, 1 - self);
	CHECK_EQUAL(ranks_counter(endpoint, "refused"), 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* ---- A rank that computes -------------------------------------------------------------------------- */

static bool one_copy_permitted(void)
{
	struct thole_capability capability;
	bool permitted = true;

	for (unsigned i = 0; thole_capability(i, &capability) == 0; i++)
		if (strstr(capability.name, "process_vm"))
			permitted = permitted && capability.available;
	return permitted;
}

/* Rank 2 computes: the others' traffic goes on, and what they sent to it waits. */
static void computing(int self)
{
	struct thole_endpoint *endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	uint32_t peers[3];
	uint8_t *large = malloc(3000000), small[3000];

	ranks_meet(endpoint, peers);
	if (self == 2) {
		compute_until(0);
		for (int from = 0; from < 2; from++) {
			receive_checked(endpoint, peers[from], 77, 3000000, 5);
			receive_checked(endpoint, peers[from], 78, 3000, 6);
		}
	} else {
		struct thole_request *requests[2];

		ranks_fill(77, 0, large, 3000000);
		CHECK_EQUAL(thole_send(endpoint, peers[2], large, 3000000, 5, 0, 0, NULL, &requests[0]), 0);
		ranks_fill(78, 0, small, sizeof(small));
		CHECK_EQUAL(thole_send(endpoint, peers[2], small, sizeof(small), 6, 0, 0, NULL, &requests[1]), 0);
		exchanges(endpoint, peers[1 - self], self, 1 - self);
		CHECK_EQUAL(thole_test(endpoint, requests[0], NULL), 0); /* nobody has matched it */
		__atomic_add_fetch(&ranks_shared->words[1], 1, __ATOMIC_ACQ_REL);
		while (word(1) < 2)
			thole_progress(endpoint);
		word_set(0, 1);
		CHECK_EQUAL(ranks_finish(endpoint, requests[0]), 0);
		CHECK_EQUAL(ranks_finish(endpoint, requests[1]), 0);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
	free(large);
}

/* The sender of a large message computes: the receiver fetches it alone, where the kernel permits. */
static void computing_sender(int self)
{
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	uint32_t peers[2];
	uint8_t *large = malloc(3000000);

	if (!one_copy_permitted())
		_exit(RANKS_SKIP);
	endpoint = endpoint_open("bulk=auto", NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	exchange(endpoint, peers[1 - self], self, 1 - self, 3, 100);
	for (int i = 0; i < 12; i++) { /* each way that auto tries */
		ranks_barrier(endpoint);
		word_set(0, 0);
		ranks_barrier(endpoint);
		if (self == 0) {
			ranks_fill((uint64_t)i, 0, large, 3000000);
			CHECK_EQUAL(thole_send(endpoint, peers[1], large, 3000000, 5, 0, 0, NULL, &request), 0);
			compute_until(0);
			CHECK_EQUAL(ranks_finish(endpoint, request), 0);
		} else {
			receive_checked(endpoint, peers[0], (uint64_t)i, 3000000, 5);
			word_set(0, 1);
		}
	}
	ranks_barrier(endpoint);
	if (self == 1)
		CHECK(ranks_counter(endpoint, "bulk_taken_over") + ranks_counter(endpoint, "bulk_cooperative") > 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
	free(large);
}

/* With a thread of its own, a computing rank's own messages go on too. */
static void computing_thread(int self)
{
	struct thole_endpoint *endpoint =
		endpoint_open(self == 1 ? "progress_thread=on" : NULL, NULL, THOLE_THREAD_SINGLE);
	static uint8_t exposed[200000];
	struct thole_request *requests[4];
	struct thole_region *region;
	struct iovec segment;
	uint32_t peers[2];
	uint8_t *large = malloc(3000000), *in = calloc(1, 3000000);
	uint64_t one = 1;

	CHECK_EQUAL(thole_expose(endpoint, exposed, sizeof(exposed),
				 THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY, NULL, &region),
		    0);
	ranks_meet(endpoint, peers);
	exchange(endpoint, peers[1 - self], self, 1 - self, 3, 100);
	ranks_fill(9, 0, large, 3000000);
	if (self == 1) {
		CHECK_EQUAL(thole_recv(endpoint, peers[0], in, 3000000, 5, ~UINT64_C(0), 0, NULL, &requests[0]), 0);
		CHECK_EQUAL(thole_send(endpoint, peers[0], large, 3000000, 6, 0, 0, NULL, &requests[1]), 0);
		word_set(1, 1);
		compute_until(0);
		CHECK_EQUAL(thole_wait(endpoint, requests[0], -1, NULL), 0);
		CHECK_EQUAL(thole_wait(endpoint, requests[1], -1, NULL), 0);
		CHECK_EQUAL(ranks_compare(9, 0, in, 3000000), 3000000);
		CHECK_EQUAL(ranks_compare(9, 8, exposed + 8, sizeof(exposed) - 8), sizeof(exposed) - 8);
	} else {
		while (!word(1))
			thole_progress(endpoint);
		segment = (struct iovec){large, sizeof(exposed)};
		CHECK_EQUAL(thole_send(endpoint, peers[1], large, 3000000, 5, 0, THOLE_SYNC, NULL, &requests[0]), 0);
		CHECK_EQUAL(ranks_finish(endpoint, requests[0]), 0);
		CHECK_EQUAL(thole_recv(endpoint, peers[1], in, 3000000, 6, ~UINT64_C(0), 0, NULL, &requests[0]), 0);
		CHECK_EQUAL(ranks_finish(endpoint, requests[0]), 0);
		CHECK_EQUAL(ranks_compare(9, 0, in, 3000000), 3000000);
		CHECK_EQUAL(thole_put(endpoint, peers[1], &segment, 1, KEY, 0, 0, 0, NULL, &requests[0]), 0);
		CHECK_EQUAL(ranks_finish(endpoint, requests[0]), 0);
		segment.iov_base = in;
		CHECK_EQUAL(thole_get(endpoint, peers[1], &segment, 1, KEY, 0, 0, NULL, &requests[0]), 0);
		CHECK_EQUAL(ranks_finish(endpoint, requests[0]), 0);
		CHECK_EQUAL(ranks_compare(9, 0, in, sizeof(exposed)), sizeof(exposed));
		CHECK_EQUAL(
			thole_atomic(
				endpoint, peers[1],
				&(struct thole_atomic){
					.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1, .operand = &one, .key = KEY},
				0, NULL, &requests[0]),
			0);
		CHECK_EQUAL(ranks_finish(endpoint, requests[0]), 0);
		word_set(0, 1);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
	free(large);
	free(in);
}

/* ---- Sleeping -------------------------------------------------------------------------------------- */

enum { WAKES = 60 };

static void sleeping(int self)
{
	struct thole_endpoint *endpoint = endpoint_open("spin=0", NULL, THOLE_THREAD_SINGLE);
	struct thole_request *request, *requests[3] = {NULL};
	struct thole_completion completion;
	uint64_t random = 5, slept;
	uint32_t peers[2];
	size_t index;
	char byte = 0;

	ranks_meet(endpoint, peers);
	exchange(endpoint, peers[1 - self], self, 1 - self, 3, 100);
	/* Times run out, and leave everything as it was. */
	CHECK_EQUAL(thole_recv(endpoint, peers[1 - self], &byte, 1, 50, ~UINT64_C(0), 0, &byte, &request), 0);
	CHECK_EQUAL(thole_wait(endpoint, request, 0, NULL), THOLE_ERR_TIMEOUT);
	CHECK_EQUAL(thole_wait(endpoint, request, 3000000, NULL), THOLE_ERR_TIMEOUT);
	requests[1] = request;
	CHECK_EQUAL(thole_wait_any(endpoint, requests, 3, 1000000, &index, NULL), THOLE_ERR_TIMEOUT);
	CHECK(requests[1] == request);
	CHECK_EQUAL(thole_wait_any(endpoint, requests, 1, 0, &index, NULL), THOLE_ERR_ARGUMENT);
	slept = ranks_now_ns();
	while (thole_sleep(endpoint, 2000000) != THOLE_ERR_TIMEOUT)
		;
	CHECK(ranks_now_ns() - slept >= 2000000);
	CHECK_EQUAL(thole_peek(endpoint, &request), 0);
	ranks_barrier(endpoint);
	if (self == 0)
		send_filled(endpoint, peers[1], 1, 1, 50, 0);
	else
		send_filled(endpoint, peers[0], 1, 1, 50, 0);
	while (!thole_peek(endpoint, &request))
		;
	CHECK(request == requests[1]);
	CHECK_EQUAL(thole_wait_any(endpoint, requests, 3, -1, &index, &completion), 0);
	CHECK_EQUAL(index, 1);
	CHECK(completion.context == &byte && requests[1] == NULL);
	CHECK_EQUAL(thole_peek(endpoint, &request), 0);
	/* A sleeper is woken by each kind of record. */
	for (uint64_t i = 0; i < WAKES; i++) {
		static const size_t lengths[] = {1, 4000, 300000};

		if (self == 0) {
			nap_us(random_below(&random, 4000));
			send_filled(endpoint, peers[1], i, lengths[i % 3], 7, i % 2 ? THOLE_SYNC : 0);
		} else {
			receive_checked(endpoint, peers[0], i, lengths[i % 3], 7);
		}
	}
	ranks_barrier(endpoint);
	if (self == 1)
		CHECK(ranks_counter(endpoint, "sleeps") > 0);
	else
		CHECK(ranks_counter(endpoint, "wakes_sent") > 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* The same through an event loop's poll(2). */
static void event_loop(int self)
{
	struct thole_endpoint *endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	struct pollfd events = {.fd = thole_fd(endpoint), .events = POLLIN};
	static uint8_t bytes[300000];
	uint64_t random = 6, polls = 0;
	uint32_t peers[2];

	CHECK(events.fd >= 0);
	ranks_meet(endpoint, peers);
	for (uint64_t i = 0; i < WAKES; i++) {
		static const size_t lengths[] = {1, 4000, 300000};
		size_t length = lengths[i % 3];
		struct thole_request *request;

		if (self == 0) {
			nap_us(random_below(&random, 4000));
			send_filled(endpoint, peers[1], i, length, 7, 0);
			continue;
		}
		CHECK_EQUAL(thole_recv(endpoint, peers[0], bytes, length, 7, ~UINT64_C(0), 0, NULL, &request), 0);
		while (!thole_test(endpoint, request, NULL)) {
			int armed = thole_arm(endpoint);

			CHECK(armed == 0 || armed == THOLE_ERR_AGAIN);
			if (armed == 0) {
				CHECK(poll(&events, 1, -1) == 1);
				polls++;
			}
			thole_progress(endpoint);
		}
		CHECK_EQUAL(ranks_compare(i, 0, bytes, length), length);
	}
	CHECK(self == 0 || polls > 0);
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* Two threads wait on one endpoint; each has to be woken though the other got the event, or went away. */
static struct thole_endpoint *shared_endpoint;
static uint32_t shared_peer;

enum { WAITERS = 3 };

static void *waiter(void *arg)
{
	uint64_t tag = (uint64_t)(uintptr_t)arg;

	ranks_self = 1;
	for (uint64_t i = 0; i < WAKES; i++)
		receive_checked(shared_endpoint, shared_peer, i, 100, tag);
	return NULL;
}

static void waiting_threads(int self)
{
	struct thole_endpoint *endpoint = endpoint_open("spin=0", NULL, THOLE_THREAD_SAFE);
	pthread_t threads[WAITERS];
	uint64_t random = 7, sent[WAITERS] = {0};
	uint32_t peers[2];

	ranks_meet(endpoint, peers);
	if (self == 0) {
		for (int left = WAITERS * WAKES; left > 0;) {
			uint64_t to = random_below(&random, WAITERS);

			if (sent[to] == WAKES)
				continue;
			if (random_below(&random, 2))
				nap_us(random_below(&random, 3000));
			send_filled(endpoint, peers[1], sent[to]++, 100, to, 0);
			left--;
		}
	} else {
		shared_endpoint = endpoint;
		shared_peer = peers[0];
		for (uintptr_t i = 0; i < WAITERS; i++)
			CHECK_EQUAL(pthread_create(&threads[i], NULL, waiter, (void *)i), 0);
		for (int i = 0; i < WAITERS; i++)
			pthread_join(threads[i], NULL);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* ---- Very many, very long -------------------------------------------------------------------------- */

enum { MANY = 10000 };

static void shuffle(uint32_t *numbers, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		numbers[i] = i;
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t k = random_below(&seed, i + 1), keep = numbers[i];

		numbers[i] = numbers[k];
		numbers[k] = keep;
	}
}

static void many(int self)
{
	struct thole_endpoint *endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	static uint32_t order[MANY];
	static uint64_t got[MANY];
	static struct thole_request *requests[MANY];
	struct thole_completion completion;
	uint32_t peers[2];

	ranks_meet(endpoint, peers);
	shuffle(order, MANY, 11);
	if (self == 0) {
		for (uint64_t i = 0; i < MANY; i++) /* unexpected, then by another order */
			while (thole_send(endpoint, peers[1], &i, 8, i, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL) ==
			       THOLE_ERR_AGAIN)
				thole_progress(endpoint);
		ranks_barrier(endpoint);
		ranks_barrier(endpoint);
		for (uint64_t i = 0; i < MANY; i++) { /* posted, and found by another order */
			uint64_t number = order[i];

			while (thole_send(endpoint, peers[1], &number, 8, number / 2, 0, THOLE_INJECT | THOLE_QUIET,
					  NULL, NULL) == THOLE_ERR_AGAIN)
				thole_progress(endpoint);
		}
	} else {
		ranks_barrier(endpoint);
		while (ranks_counter(endpoint, "unexpected") < MANY)
			thole_progress(endpoint);
		for (uint32_t i = 0; i < MANY; i++) {
			uint64_t value = 0;
			struct thole_request *request;

			CHECK_EQUAL(
				thole_recv(endpoint, THOLE_ANY, &value, 8, order[i], ~UINT64_C(0), 0, NULL, &request),
				0);
			CHECK_EQUAL(thole_test(endpoint, request, &completion), 1); /* it is here already */
			CHECK_EQUAL(value, order[i]);
		}
		for (uint32_t i = 0; i < MANY; i++)
			CHECK_EQUAL(thole_recv(endpoint, peers[0], &got[i], 8, i / 2, ~UINT64_C(0), 0, &got[i],
					       &requests[i]),
				    0);
		ranks_barrier(endpoint);
		for (uint32_t i = 0; i < MANY; i++)
			CHECK_EQUAL(ranks_finish(endpoint, requests[i]), 0);
		/* Of two with one tag, what was sent first is where was posted first. */
		for (uint32_t i = 0; i < MANY; i++) {
			uint32_t tag = order[i] / 2;

			if (got[2 * tag] == order[i] || got[2 * tag] == UINT64_MAX) {
				CHECK(got[2 * tag] == UINT64_MAX ? got[2 * tag + 1] == order[i] : true);
				got[2 * tag] = UINT64_MAX;
			} else {
				CHECK(false && "overtaken");
			}
		}
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* A sender that floods is slowed by backpressure, and the receiver's memory stays bounded. */
static void flood(int self)
{
	enum { MESSAGES = 3000, LENGTH = 4096, HELD_MAX = 256 * 1024, RING = 64 * 1024 };
	struct thole_endpoint *endpoint = endpoint_open("unexpected_max=256k", "bulk_ring=64k", THOLE_THREAD_SINGLE);
	static struct thole_request *requests[MESSAGES];
	static uint8_t bytes[LENGTH];
	uint64_t held, peak = 0;
	uint32_t peers[2];

	ranks_meet(endpoint, peers);
	ranks_fill(21, 0, bytes, LENGTH);
	if (self == 0) {
		for (int i = 0; i < MESSAGES; i++)
			CHECK_EQUAL(thole_send(endpoint, peers[1], bytes, LENGTH, 3, (uint64_t)i, THOLE_IMM, NULL,
					       &requests[i]),
				    0);
		for (int i = 0; i < MESSAGES; i++)
			CHECK_EQUAL(ranks_finish(endpoint, requests[i]), 0);
	} else {
		while (ranks_counter(endpoint, "unexpected") < MESSAGES) {
			thole_progress(endpoint);
			held = ranks_counter(endpoint, "unexpected_bytes");
			peak = held > peak ? held : peak;
		}
		CHECK(peak > HELD_MAX);
		CHECK(peak <= HELD_MAX + LENGTH + RING + 8192);
		CHECK(ranks_counter(endpoint, "unexpected_holds") >= 1);
		for (int i = 0; i < MESSAGES; i++) {
			struct thole_completion completion;
			static uint8_t in[LENGTH];
			struct thole_request *request;

			memset(in, 0, LENGTH);
			CHECK_EQUAL(thole_recv(endpoint, peers[0], in, LENGTH, 3, ~UINT64_C(0), 0, NULL, &request), 0);
			CHECK_EQUAL(thole_wait(endpoint, request, -1, &completion), 0);
			CHECK_EQUAL(completion.imm, i);
			CHECK_EQUAL(ranks_compare(21, 0, in, LENGTH), LENGTH);
		}
		CHECK_EQUAL(ranks_counter(endpoint, "unexpected_bytes"), 0);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

/* Over 4 GiB. The sender's memory is mostly the page of zeros; marks are at odd places. */
static void huge(int self)
{
	const size_t length = ((size_t)5 << 30) + 12345, step = ((size_t)97 << 20) + 13;
	struct thole_endpoint *endpoint;
	struct thole_request *request;
	struct thole_completion completion;
	uint32_t peers[2];
	uint8_t *bytes;

	if (sysconf(_SC_AVPHYS_PAGES) < (long)(length + length / 4) / getpagesize())
		_exit(RANKS_SKIP);
	bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(bytes != MAP_FAILED);
	endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	if (self == 0) {
		for (size_t at = 0; at < length; at += step)
			bytes[at] = (uint8_t)(at / step + 1);
		bytes[length - 1] = 0xfe;
		CHECK_EQUAL(thole_send(endpoint, peers[1], bytes, length, 1, 0, 0, NULL, &request), 0);
		CHECK_EQUAL(ranks_finish(endpoint, request), 0);
	} else {
		CHECK_EQUAL(thole_recv(endpoint, peers[0], bytes, length, 1, ~UINT64_C(0), 0, NULL, &request), 0);
		CHECK_EQUAL(thole_wait(endpoint, request, -1, &completion), 0);
		CHECK_EQUAL(completion.status, 0);
		CHECK_EQUAL(completion.length, length);
		CHECK_EQUAL(completion.message_length, length);
		for (size_t at = 0; at < length - 1; at += step) {
			CHECK_EQUAL(bytes[at], (uint8_t)(at / step + 1));
			CHECK_EQUAL(bytes[at + 1], 0);
			bytes[at] = 0;
		}
		CHECK_EQUAL(bytes[length - 1], 0xfe);
	}
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
	munmap(bytes, length);
}

static void accept_refuse(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_accept4, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

/* Who may take no connections: whoever sends to it is told that it is lost, and does not wait for an answer. */
static void no_accept(int self)
{
	struct thole_endpoint *endpoint;
	struct thole_completion completion;
	struct thole_request *request;
	uint32_t peers[2];
	uint64_t number = 0;

	if (self == 1)
		accept_refuse();
	endpoint = endpoint_open(NULL, NULL, THOLE_THREAD_SINGLE);
	ranks_meet(endpoint, peers);
	if (self == 0) {
		CHECK_EQUAL(thole_recv(endpoint, peers[1], &number, sizeof(number), 1, ~UINT64_C(0), 0, NULL, &request),
			    0);
		CHECK_EQUAL(thole_send(endpoint, peers[1], &number, sizeof(number), 1, 0, THOLE_QUIET, NULL, NULL), 0);
		CHECK_EQUAL(thole_wait(endpoint, request, -1, &completion), 0);
		CHECK_EQUAL(completion.status, THOLE_ERR_PEER);
		word_set(0, 1);
	}
	while (!word(0))
		thole_progress(endpoint);
	thole_endpoint_close(endpoint);
}

static const struct {
	const char *name;
	int ranks;
	ranks_body *body;
} cases[] = {
	{"user-namespace", 2, user_namespace},
	{"pid-namespace", 2, pid_namespace},
	{"network-namespace", 2, network_namespace},
	{"other-user", 3, other_user},
	{"unmapped-users", 3, unmapped_users},
	{"changed-user", 2, changed_user},
	{"computing", 3, computing},
	{"computing-sender", 2, computing_sender},
	{"computing-thread", 2, computing_thread},
	{"sleeping", 2, sleeping},
	{"event-loop", 2, event_loop},
	{"waiting-threads", 2, waiting_threads},
	{"many", 2, many},
	{"flood", 2, flood},
	{"huge", 2, huge},
	{"no-accept", 2, no_accept},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int failures;

		if (argc < 2) {
			puts(cases[i].name);
			continue;
		}
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		failures = ranks_run(cases[i].ranks, LIMIT_S, cases[i].body);
		return failures == RANKS_SKIP ? RANKS_SKIP : failures != 0;
	}
	return argc < 2 ? 0 : 2;
}
