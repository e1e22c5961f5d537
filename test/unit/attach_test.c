/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of peers that is mapped: which sides copy without the kernel, what a fork in the middle does, that nobody
 * writes after the end, and what is no arena.
 *
 * process_vm_readv and process_vm_writev are counted, and refused where a test says so. Each look-up of a place to
 * write to can be made to stop the process: it is between its claim of a block and the copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "descriptors.h"
#include "pair.h"
#include "process_vm.h"

void *__real_attach_find(struct transport_peer *peer, uint64_t address, uint64_t length, bool write);
void *__wrap_attach_find(struct transport_peer *peer, uint64_t address, uint64_t length, bool write);
void __real_vector_read_segments(const struct vector *vector, uint64_t offset, void *to, size_t length);
void __wrap_vector_read_segments(const struct vector *vector, uint64_t offset, void *to, size_t length);

enum { LENGTH = 1 << 20, ID = 7 };

static struct {
	bool refused;
	int reads, writes; /* of data */
	void (*writing)(void); /* once, where a place to write a block to has been found */
	void (*putting)(void); /* once, where a put of several segments is about to be copied, */
	void (*getting)(void); /* or a get */
} kernel;

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	kernel.reads += local[local_count - 1].iov_len > sizeof(uint64_t); /* not a word alone */
	errno = EPERM;
	return kernel.refused ? -1 : __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	kernel.writes += local_count > 1; /* between two words */
	errno = EPERM;
	return kernel.refused ? -1 : __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

void *__wrap_attach_find(struct transport_peer *peer, uint64_t address, uint64_t length, bool write)
{
	void *place = __real_attach_find(peer, address, length, write);
	void (*happens)(void) = place && write && length < LENGTH ? kernel.writing : NULL;

	if (happens) {
		kernel.writing = NULL;
		happens();
	}
	return place;
}

void __wrap_vector_read_segments(const struct vector *vector, uint64_t offset, void *to, size_t length)
{
	void (*happens)(void) = kernel.putting;

	kernel.putting = NULL;
	if (happens)
		happens();
	__real_vector_read_segments(vector, offset, to, length);
}

void __real_vector_write_segments(const struct vector *vector, uint64_t offset, const void *from, size_t length);
void __wrap_vector_write_segments(const struct vector *vector, uint64_t offset, const void *from, size_t length);

void __wrap_vector_write_segments(const struct vector *vector, uint64_t offset, const void *from, size_t length)
{
	void (*happens)(void) = kernel.getting;

	kernel.getting = NULL;
	if (happens)
		happens();
	__real_vector_write_segments(vector, offset, from, length);
}

static int kernel_open(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	return 0;
}

static uint8_t *buffer(bool shared)
{
	void *memory;

	assert_int_equal(thole_alloc(LENGTH, &memory), 0);
	if (!shared) {
		thole_free(memory);
		memory = malloc(LENGTH);
		assert_non_null(memory);
	}
	memset(memory, 0, LENGTH);
	return memory;
}

static void fill(uint8_t *bytes, uint64_t id)
{
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = pair_byte(id, i);
}

/* A message from a to b; both take turns as `order` says: a bit a turn. */
static void transfer(struct pair *pair, uint64_t id, uint8_t *from, uint8_t *to, uint32_t order)
{
	struct thole_request *send, *receive;

	fill(from, id);
	memset(to, 0, LENGTH);
	assert_int_equal(thole_recv(pair->b, pair->b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_take_turns(pair, receive, order), 0);
	pair_check(id, to, LENGTH);
	assert_int_equal(pair_finish(pair, pair->a, send, NULL), 0);
}

/* Until each has been told of what the other has, and has looked. */
static void meet(struct pair *pair, uint8_t *from, uint8_t *to, int arenas)
{
	for (int i = 0; i < 200; i++) {
		transfer(pair, (uint64_t)i, from, to, 0xaaaaaaaa);
		pair_idle(pair); /* idle ones look at sockets */
		if (pair_counter(pair->a, "attached") + pair_counter(pair->b, "attached") >= (uint64_t)arenas)
			return;
	}
	fail_msg("a peer was not told");
}

static const char *const direct_options[] = {"bulk=direct", "cooperative_block=64k", "look_again=0", "network=off",
					     "close_timeout=1ms", NULL};

static void direct__who_needs_the_kernel(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		bool shared_from = i & 1, shared_to = i & 2;
		uint8_t *from = buffer(shared_from), *to = buffer(shared_to);
		struct pair pair;

		pair_open(&pair, direct_options);
		transfer(&pair, ID, from, to, 0xaaaaaaaa);
		meet(&pair, from, to, shared_from + shared_to);
		kernel_open(NULL);
		for (uint64_t k = 0; k < 4; k++)
			transfer(&pair, k, from, to, k % 2 ? 0xaaaaaaaa : 0x77777777);
		assert_int_equal(kernel.reads > 0, !shared_from);
		assert_int_equal(kernel.writes > 0, !shared_to);
		assert_int_equal(pair_counter(pair.b, "bulk_direct") > 0, shared_from);
		assert_int_equal(pair_counter(pair.a, "bulk_blocks_direct") > 0, shared_to);
		assert_int_equal(pair_counter(pair.a, "attach_refused") + pair_counter(pair.b, "attach_refused"), 0);
		pair_close(&pair);
		if (shared_from)
			thole_free(from);
		else
			free(from);
		if (shared_to)
			thole_free(to);
		else
			free(to);
	}
}

/* Where the kernel lets nobody reach into others, memory that is handed over needs no leave. */
static void direct__where_the_kernel_refuses(void **state)
{
	uint8_t *from = buffer(true), *to = buffer(true);
	struct pair pair;

	(void)state;
	kernel.refused = true;
	pair_open(&pair, direct_options);
	meet(&pair, from, to, 2);
	for (uint64_t k = 0; k < 4; k++)
		transfer(&pair, k, from, to, 0xaaaaaaaa);
	assert_true(pair_counter(pair.b, "bulk_direct") >= 4);
	assert_true(pair_counter(pair.a, "bulk_blocks_direct") > 0);
	pair_close(&pair);
	thole_free(from);
	thole_free(to);
}

/* What a program maps where an arena may still grow to is none of it: not for who has mapped the arena either. */
static void direct__not_behind_the_end(void **state)
{
	uint8_t *from = buffer(true), *to = buffer(true), *others[2];
	struct arena_place place;
	struct pair pair;

	(void)state;
	assert_true(arena_find(from, LENGTH, &place));
	for (uint64_t i = 0; i < 2; i++) {
		others[i] = mmap((void *)(uintptr_t)(place.base + (1 + i) * place.size / 4), LENGTH,
				 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		assert_ptr_not_equal(others[i], MAP_FAILED);
	}
	pair_open(&pair, direct_options);
	meet(&pair, from, to, 2);
	for (uint64_t k = 0; k < 4; k++)
		transfer(&pair, k, k & 1 ? others[0] : from, k & 2 ? others[1] : to, k % 2 ? 0xaaaaaaaa : 0x77777777);
	pair_close(&pair);
	for (int i = 0; i < 2; i++)
		munmap(others[i], LENGTH);
	thole_free(from);
	thole_free(to);
}

/* Short messages, of which nothing needs to be told. */
static void connect_both(struct pair *pair)
{
	struct thole_request *send, *receive;
	char byte = 1, got = 0;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, &got, 1, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, &byte, 1, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(pair, pair->b, receive, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, send, NULL), 0);
	assert_int_equal(thole_recv(pair->a, pair->a_to_b, &got, 1, 1, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->b, pair->b_to_a, &byte, 1, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(pair, pair->a, receive, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->b, send, NULL), 0);
}

/* A peer that has no descriptor left when it is told is told again once it has some. */
static void direct__after_a_want_of_descriptors(void **state)
{
	uint8_t *from = buffer(true), *to = buffer(false);
	struct rlimit before, none;
	struct shm_peer *link;
	struct pair pair;

	(void)state;
	pair_open(&pair, direct_options);
	connect_both(&pair);
	link = shm_link(&endpoint_peer(pair.b, pair.b_to_a)->base);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (uint64_t k = 0; k < 4; k++) {
		transfer(&pair, k, from, to, 0xaaaaaaaa);
		pair_idle(&pair);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(pair_counter(pair.b, "attached"), 0);
	assert_int_equal(pair_counter(pair.b, "attach_refused"), 1);
	assert_null(link->life);
	meet(&pair, from, to, 1);
	assert_int_equal(pair_counter(pair.b, "attach_refused"), 1);
	assert_non_null(link->life);
	pair_close(&pair);
	thole_free(from);
	free(to);
}

/* What a program has mapped over a part of a block is what a message has and gets; the next block there is direct. */
static void direct__not_of_what_is_altered(void **state)
{
	uint8_t *from = buffer(true), *to = buffer(true), *of[2] = {from, to};
	const size_t page = (size_t)getpagesize();
	struct pair pair;

	(void)state;
	pair_open(&pair, direct_options);
	meet(&pair, from, to, 2);
	for (int i = 0; i < 2; i++) {
		arena_alter(of[i] + 2 * page, page);
		assert_ptr_equal(mmap(of[i] + 2 * page, page, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), of[i] + 2 * page);
	}
	kernel_open(NULL);
	for (uint64_t k = 0; k < 4; k++)
		transfer(&pair, k, from, to, k % 2 ? 0xaaaaaaaa : 0x77777777);
	assert_true(kernel.reads > 0 && kernel.writes > 0);
	thole_free(from);
	thole_free(to);
	from = buffer(true);
	to = buffer(true);
	kernel_open(NULL);
	for (uint64_t k = 0; k < 4; k++)
		transfer(&pair, k, from, to, k % 2 ? 0xaaaaaaaa : 0x77777777);
	assert_true(kernel.reads == 0 && kernel.writes == 0);
	pair_close(&pair);
	thole_free(from);
	thole_free(to);
}

/* A file that the program has in place of the arena's is no peer's to see. */
static void direct__not_of_another_file(void **state)
{
	uint8_t *from = buffer(true), *to = buffer(false);
	int own, copy, other = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct arena_place place;
	struct pair pair;

	(void)state;
	assert_true(arena_find(from, LENGTH, &place));
	own = place.file.fd;
	copy = dup(own);
	pair_open(&pair, direct_options);
	assert_int_equal(dup3(other, own, O_CLOEXEC), own);
	for (uint64_t k = 0; k < 10; k++) {
		transfer(&pair, k, from, to, 0xaaaaaaaa);
		pair_idle(&pair);
	}
	assert_int_equal(pair_counter(pair.b, "attached") + pair_counter(pair.b, "attach_refused"), 0);
	assert_int_equal(dup3(copy, own, O_CLOEXEC), own);
	meet(&pair, from, to, 1);
	pair_close(&pair);
	close(copy);
	close(other);
	thole_free(from);
	free(to);
}

static void direct__only_if_wanted(void **state)
{
	static const char *const unwanted[] = {"bulk=ring", "bulk=cooperative", "one_copy=off"};

	(void)state;
	for (int i = 0; i < 3; i++) {
		const char *const options[] = {unwanted[i], "network=off", NULL};
		uint8_t *from = buffer(true), *to = buffer(true);
		struct pair pair;

		pair_open(&pair, options);
		for (uint64_t k = 0; k < 10; k++) {
			transfer(&pair, k, from, to, 0xaaaaaaaa);
			pair_idle(&pair);
		}
		assert_int_equal(pair_counter(pair.b, "bulk_direct"), 0);
		if (i == 2) /* nobody is even told where memory is */
			assert_int_equal(pair_counter(pair.a, "attached") + pair_counter(pair.b, "attached"), 0);
		pair_close(&pair);
		thole_free(from);
		thole_free(to);
	}
}

/* Memory that is freed and had again is what it is now. */
static void freed__and_had_again(void **state)
{
	uint8_t *from = buffer(true), *to = buffer(true);
	struct pair pair;

	(void)state;
	pair_open(&pair, direct_options);
	meet(&pair, from, to, 2);
	for (uint64_t k = 0; k < 20; k++) {
		uint8_t *other = buffer(true);

		thole_free(from);
		from = k % 2 ? buffer(true) : other;
		transfer(&pair, k, from, to, 0x77777777);
		if (k % 2)
			thole_free(other);
	}
	assert_true(pair_counter(pair.b, "bulk_direct") >= 20);
	pair_close(&pair);
	thole_free(from);
	thole_free(to);
}

static void fork_here(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Both fork after each number of turns: of a message that is under way, and of the next, no byte is lost. */
static void fork__in_the_middle(void **state)
{
	int direct = 0;

	(void)state;
	for (int turns = 0; turns < 18; turns++) {
		uint8_t *from = buffer(true), *to = buffer(true);
		struct thole_request *send, *receive;
		struct pair pair;

		pair_open(&pair, direct_options);
		meet(&pair, from, to, 2);
		fill(from, ID);
		memset(to, 0, LENGTH);
		thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, 0, 0, NULL, &receive);
		thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send);
		if (turns % 3 == 0)
			kernel.writing = fork_here;
		for (int i = 0; i < turns; i++)
			thole_progress(i % 2 ? pair.a : pair.b);
		if (turns % 3)
			fork_here();
		direct += pair_counter(pair.a, "bulk_blocks_direct") > 0;
		assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
		pair_check(ID, to, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
		transfer(&pair, ID + 1, from, to, 0xaaaaaaaa);
		pair_close(&pair);
		thole_free(from);
		thole_free(to);
	}
	assert_true(direct > 0);
}

static uint8_t *exposed;

static void fork_and_write(void)
{
	fork_here();
	memset(exposed, 1, LENGTH); /* these pages are the process's own now */
}

static struct thole_request *put_injected(struct pair *pair, uint8_t *bytes, size_t length, uint64_t key)
{
	struct iovec segment = {bytes, length};
	struct thole_request *request;

	assert_int_equal(
		thole_put(pair->a, pair->a_to_b, &segment, 1, key, 0, 0, THOLE_INJECT, NULL, &request), 0);
	return request;
}

static struct pair exposing;
static struct thole_region *exposed_region;

static void unexpose_and_write(void)
{
	thole_unexpose(exposing.b, exposed_region);
	memset(exposed, 1, LENGTH);
}

/* Its process is stopped for so long that it is not waited for. */
enum { EXPOSED_ACCESS = 20000, EXPOSED_KEY = 5 };

static void expose_attached(uint8_t *bytes)
{
	exposed = buffer(true);
	pair_open(&exposing, direct_options);
	assert_int_equal(thole_expose(exposing.b, exposed, LENGTH, THOLE_ACCESS_PUT | THOLE_ACCESS_GET, EXPOSED_KEY,
				      NULL, &exposed_region),
			 0);
	for (int i = 0; i < 200 && pair_counter(exposing.a, "attached") == 0; i++) {
		struct thole_request *request = put_injected(&exposing, bytes, EXPOSED_ACCESS, EXPOSED_KEY);

		assert_int_equal(pair_finish(&exposing, exposing.a, request, NULL), 0);
		pair_idle(&exposing);
	}
	assert_int_equal(pair_counter(exposing.a, "attached"), 1);
}

static void unexpose__in_the_middle_of_a_put(void **state)
{
	enum { PUT = EXPOSED_ACCESS, KEY = EXPOSED_KEY };
	uint8_t bytes[PUT] = {0};
	const struct iovec segments[] = {{bytes, PUT / 2}, {bytes + PUT / 2, PUT / 2}};
	struct thole_request *request;

	(void)state;
	expose_attached(bytes);
	memset(bytes, 2, PUT);
	kernel.putting = unexpose_and_write;
	assert_int_equal(thole_put(exposing.a, exposing.a_to_b, segments, 2, KEY, 0, 0, 0, NULL, &request), 0);
	assert_null(kernel.putting);
	assert_int_equal(pair_finish(&exposing, exposing.a, request, NULL), THOLE_ERR_KEY);
	for (int i = 0; i < LENGTH; i++)
		assert_int_equal(exposed[i], 1);
	pair_close(&exposing);
	thole_free(exposed);
}

/* What was read may be what its owner wrote there since, for itself. */
static void unexpose__in_the_middle_of_a_get(void **state)
{
	uint8_t bytes[EXPOSED_ACCESS] = {0};
	const struct iovec segments[] = {{bytes, EXPOSED_ACCESS / 2},
					 {bytes + EXPOSED_ACCESS / 2, EXPOSED_ACCESS / 2}};
	struct thole_request *request;

	(void)state;
	expose_attached(bytes);
	kernel.getting = unexpose_and_write;
	assert_int_equal(thole_get(exposing.a, exposing.a_to_b, segments, 2, EXPOSED_KEY, 0, 0, NULL, &request), 0);
	assert_null(kernel.getting);
	assert_int_equal(pair_finish(&exposing, exposing.a, request, NULL), THOLE_ERR_KEY);
	pair_close(&exposing);
	thole_free(exposed);
}

/* A put whose memory is the caller's again is made once more, if a fork took its target's arena away meanwhile. */
static void fork__in_the_middle_of_a_put(void **state)
{
	enum { PUT = 20000, KEY = 5 };
	uint8_t bytes[PUT] = {0};
	struct thole_request *request;
	struct thole_region *region;
	struct pair pair;

	(void)state;
	exposed = buffer(true);
	pair_open(&pair, direct_options);
	assert_int_equal(thole_expose(pair.b, exposed, LENGTH, THOLE_ACCESS_PUT, KEY, NULL, &region), 0);
	for (int i = 0; i < 200 && pair_counter(pair.a, "attached") == 0; i++) {
		assert_int_equal(pair_finish(&pair, pair.a, put_injected(&pair, bytes, PUT, KEY), NULL), 0);
		pair_idle(&pair);
	}
	assert_int_equal(pair_counter(pair.a, "attached"), 1);
	memset(bytes, 2, PUT);
	kernel.writing = fork_and_write;
	request = put_injected(&pair, bytes, PUT, KEY);
	memset(bytes, 3, PUT);
	assert_null(kernel.writing);
	assert_int_equal(pair_finish(&pair, pair.a, request, NULL), 0);
	for (int i = 0; i < PUT; i++)
		assert_int_equal(exposed[i], 2);
	assert_int_equal(exposed[PUT], 1);
	pair_close(&pair);
	thole_free(exposed);
}

/* ---- A process of its own -------------------------------------------------------------------------- */

static struct {
	int to_child[2], to_parent[2];
	pid_t child;
} other;

static void other_meet(int in, int out, struct thole_endpoint **endpoint_p, uint32_t *peer_p)
{
	struct thole_address own, theirs;

	*endpoint_p = pair_endpoint(NULL, NULL, direct_options);
	thole_endpoint_address(*endpoint_p, &own);
	assert_int_equal(write(out, &own, sizeof(own)), sizeof(own));
	assert_int_equal(read(in, &theirs, sizeof(theirs)), sizeof(theirs));
	assert_int_equal(thole_peer(*endpoint_p, &theirs, peer_p), 0);
}

static void stop_here(void)
{
	raise(SIGSTOP);
}

/* Sends until it writes directly, and stops where it is about to. */
static void stopping_child(void)
{
	uint8_t *from = buffer(false);
	struct thole_endpoint *endpoint;
	struct pollfd end;
	uint32_t peer;

	fill(from, ID);
	other_meet(other.to_child[0], other.to_parent[1], &endpoint, &peer);
	kernel.writing = stop_here;
	end = (struct pollfd){.fd = other.to_child[0], .events = POLLIN};
	while (kernel.writing) {
		struct thole_request *send;

		thole_send(endpoint, peer, from, LENGTH, 1, 0, 0, NULL, &send);
		while (!thole_test(endpoint, send, NULL) && poll(&end, 1, 0) == 0)
			;
	}
	assert_int_equal(write(other.to_parent[1], "", 1), 1);
	while (poll(&end, 1, 0) == 0)
		thole_progress(endpoint);
	_exit(0);
}

static void stopped__writes_nothing_after_the_end(void **state)
{
	uint8_t *to = buffer(true), *seen = buffer(false);
	struct thole_endpoint *endpoint;
	struct thole_request *receive = NULL;
	uint32_t peer;
	int status = 0;
	char byte;

	(void)state;
	thole_free(to); /* the arena is the parent's alone, and so is the block */
	assert_int_equal(pipe(other.to_child) | pipe(other.to_parent), 0);
	other.child = fork();
	if (other.child == 0) {
		close(other.to_child[1]);
		stopping_child();
	}
	close(other.to_child[0]);
	to = buffer(true);
	other_meet(other.to_parent[0], other.to_child[1], &endpoint, &peer);
	while (waitpid(other.child, &status, WUNTRACED | WNOHANG) == 0) {
		if (!receive) {
			memset(to, 0, LENGTH); /* what comes is always the same */
			thole_recv(endpoint, peer, to, LENGTH, 1, 0, 0, NULL, &receive);
		}
		if (thole_test(endpoint, receive, NULL))
			receive = NULL;
		usleep(500);
	}
	assert_true(WIFSTOPPED(status));
	assert_non_null(receive);
	thole_endpoint_close(endpoint);
	memcpy(seen, to, LENGTH);
	kill(other.child, SIGCONT);
	assert_int_equal(read(other.to_parent[0], &byte, 1), 1);
	assert_memory_equal(seen, to, LENGTH);
	close(other.to_child[1]);
	assert_int_equal(child_status(other.child), 0);
	thole_free(to);
	free(seen);
}

/* ---- What is no arena ------------------------------------------------------------------------------ */

struct words {
	uint64_t magic, base, size;
};

static int memfd(uint64_t size, int seals, uint64_t magic)
{
	struct arena_header header = {.magic = magic, .version = ARENA_VERSION, .end = UINT64_MAX};
	int fd = memfd_create("test", MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void announcement__that_is_none(void **state)
{
	static const uint64_t magic = UINT64_C(0x74686f6c65617431);
	static const uint64_t size = 1 << 30, base = UINT64_C(1) << ARENA_PLACE_BITS;
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	uint8_t *from = buffer(false), *to = buffer(false);
	struct transport_peer *peer;
	struct pair pair;
	int before;

	(void)state;
	pair_open(&pair, direct_options);
	transfer(&pair, ID, from, to, 0xaaaaaaaa);
	peer = &endpoint_peer(pair.b, pair.b_to_a)->base;
	before = descriptors_open();
	attach_arrived(peer, &(struct words){magic, base, size}, 24, memfd(size, seals, 1));
	attach_arrived(peer, &(struct words){magic, base, size}, 24, memfd(size, 0, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){magic, base, size}, 24, memfd(size, F_SEAL_GROW, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){magic, base, size}, 24, memfd(size * 2, seals, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){magic, UINT64_MAX - 1, size}, 24, memfd(size, seals, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){magic, base, 4096}, 24, memfd(4096, seals, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){1, base, size}, 24, memfd(size, seals, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){magic, base, size}, 1, memfd(size, seals, ARENA_MAGIC));
	attach_arrived(peer, &(struct words){magic, base, size}, 24, open("/dev/zero", O_RDWR));
	assert_int_equal(pair_counter(pair.b, "attach_refused"), 9);
	assert_int_equal(pair_counter(pair.b, "attached"), 0);
	for (int i = 0; i < 20; i++) /* more than are kept */
		attach_arrived(peer, &(struct words){magic, base + (uint64_t)i * size, size}, 24,
			       memfd(size, seals, ARENA_MAGIC));
	assert_int_equal(pair_counter(pair.b, "attached"), 20);
	assert_int_equal(descriptors_open(), before);
	/* The header is none of the memory, nor is what lies behind the end, and what is there can be read. */
	assert_null(attach_find(peer, base + 19 * size, 10, false));
	assert_null(attach_find(peer, base + 20 * size - 5, 10, false));
	assert_null(attach_find(peer, base, 10, false));
	assert_int_equal(*(uint8_t *)attach_find(peer, base + 20 * size - 5, 5, false), 0);
	assert_non_null(attach_find(peer, base + 19 * size + ARENA_GRANULE, 10, true));
	pair_close(&pair);
	free(from);
	free(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(direct__who_needs_the_kernel, kernel_open),
		cmocka_unit_test_setup(direct__where_the_kernel_refuses, kernel_open),
		cmocka_unit_test_setup(direct__not_behind_the_end, kernel_open),
		cmocka_unit_test_setup(direct__after_a_want_of_descriptors, kernel_open),
		cmocka_unit_test_setup(direct__not_of_what_is_altered, kernel_open),
		cmocka_unit_test_setup(direct__not_of_another_file, kernel_open),
		cmocka_unit_test_setup(direct__only_if_wanted, kernel_open),
		cmocka_unit_test_setup(freed__and_had_again, kernel_open),
		cmocka_unit_test_setup(fork__in_the_middle, kernel_open),
		cmocka_unit_test_setup(unexpose__in_the_middle_of_a_put, kernel_open),
		cmocka_unit_test_setup(unexpose__in_the_middle_of_a_get, kernel_open),
		cmocka_unit_test_setup(fork__in_the_middle_of_a_put, kernel_open),
		cmocka_unit_test_setup(stopped__writes_nothing_after_the_end, kernel_open),
		cmocka_unit_test_setup(announcement__that_is_none, kernel_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
