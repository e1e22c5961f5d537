/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile: a peer that is correct until it is connected, and then writes whatever it likes wherever it can.
 *
 * Owns one run: three endpoints in one process - the victim, an honest peer and the hostile one - and a program of
 * steps, taken from the input bytes. The hostile peer writes raw bytes and made-up records into both shared
 * segments (slots, offers, areas, head words), bytes into its sockets, greets the victim with malformed greetings and
 * descriptors, and hands it pages by which it is to be known to live (life.c) that are none, or whose words change,
 * also while its memory is read. Meanwhile the victim has operations with both under way. Whatever happens: no crash,
 * progress comes back, what the honest peer sends arrives unaltered, no byte changes around buffers and regions, only
 * a page that nobody can cut short is looked at, and no descriptor or mapping is left.
 *
 * The victim writes into memory of a hostile *process* where that asks for it (process_vm_writev). Here the process
 * is its own, so the replaced function lets only the hostile peer's memory be written.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "message/state.h"
#include "transport/shm/shm.h"

enum {
	BUFFERS = 6,          /* the victim's receives from the hostile peer */
	BUFFER = 5000,
	REGION = 4096,
	GUARD = 256,
	SANDBOX = 1 << 16,    /* the hostile peer's own memory */
	PENDING = 12,
	SOCKETS = 8,
	DESCRIPTORS = 3,      /* of one message */
	PAGES = 4,            /* of life.c, of which the hostile peer has kept a mapping */
	PAGE = 4096,
	LATE = 64,            /* bytes of the input, for what comes late */
	STEPS_MAX = 160,
	KEY = 42,
	GUARD_BYTE = 0x6b,
};

/* What connect.c sends; this is what any process can write down. */
struct greeting {
	uint64_t magic;
	uint32_t version;
	uint32_t unused;
	struct thole_address from;
	uint64_t to;
	uint64_t cookie_address;
	uint64_t cookie;
};

#define GREETING_MAGIC 0x74686f6c65686931u

/* And what life.c sends, with the descriptor of a page that begins with where its word is. */
#define LIFE_MAGIC UINT64_C(0x74686f6c656c6631)
#define LIFE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

struct input {
	const uint8_t *at;
	size_t left;
};

/* Memory with guards at both sides. */
struct guarded {
	uint8_t *memory;
	size_t length;
};

/* One of life.c's, that is as good as one of a correct peer, but for its words. */
struct page {
	uint64_t *words;
	bool announced;
};

struct stage {
	struct thole_endpoint *victim, *honest, *hostile;
	uint32_t victim_to_hostile, victim_to_honest, honest_to_victim, hostile_to_victim;
	struct guarded buffers[BUFFERS], region, window, honest_to;
	struct thole_request *pending[PENDING];
	uint64_t honest_sequence;
	int sockets[SOCKETS];
	int socket_count;
	struct page pages[PAGES];
	int page_count;
	uint8_t flicker[2]; /* what the words of pages are while memory is read, and then; 0: as they were */
};

static struct stage *flickering;

static uint8_t sandbox[SANDBOX] __attribute__((aligned(64)));

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	for (unsigned long i = 0; i < remote_count; i++) {
		uintptr_t at = (uintptr_t)remote[i].iov_base - (uintptr_t)sandbox;

		if (at > SANDBOX || remote[i].iov_len > SANDBOX - at) {
			errno = EFAULT;
			return -1;
		}
	}
	return __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

/* In all words of a page: its thread lives, or has ended, or there is none, or anything. At times also another place
 * where the word is said to be. */
static void page_say(uint64_t *words, uint8_t what)
{
	const uint32_t says[] = {1, 1 | FUTEX_OWNER_DIED, FUTEX_WAITERS, what * 0x01010101u};

	for (size_t i = 1; i < PAGE / sizeof(*words); i++)
		words[i] = (uint64_t)says[what % 4] << 32 | says[what % 4];
	if (what >= 192)
		words[0] = what * (uint64_t)what;
}

static void pages_flicker(int when)
{
	for (int i = 0; flickering && flickering->flicker[when] && i < flickering->page_count; i++)
		page_say(flickering->pages[i].words, flickering->flicker[when]);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	ssize_t size;

	pages_flicker(0);
	size = __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
	pages_flicker(1);
	return size;
}

/* ---- Input ----------------------------------------------------------------------------------------- */

static uint8_t take(struct input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->at++;
}

static uint64_t take_word(struct input *input)
{
	uint64_t word = 0;

	for (int i = 0; i < 8; i++)
		word = word << 8 | take(input);
	return word;
}

/* A number that is somewhere a border, near one, or anything. */
static uint64_t take_value(struct stage *stage, struct input *input)
{
	const struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	static const uint64_t borders[] = {
		0, 1, 2, 8, 40, 41, 63, 64, 192, 1024, 4096, 5000, 8192, SEGMENT_BASE, 65536, 1 << 20, (1 << 20) + 1,
		UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 40, (UINT64_C(1) << 40) + 1, UINT64_C(1) << 48,
		UINT64_C(1) << 63, UINT64_MAX,
	};
	uint8_t kind = take(input);

	switch (kind % 8) {
	case 0:
	case 1:
		return borders[take(input) % (sizeof(borders) / sizeof(borders[0]))];
	case 2:
		return borders[take(input) % (sizeof(borders) / sizeof(borders[0]))] - 1;
	case 3: { /* an operation of the victim's */
		uint32_t index = take(input);
		const struct thole_request *request = pool_at(&stage->victim->requests, index % 64);

		return request && request->endpoint ? request_id(request) : index; /* some were never used */
	}
	case 4: /* memory that is there */
		return (uintptr_t)sandbox + take(input) * 64u;
	case 5: /* lengths and counts of windows */
		return (uint64_t)(take(input) % 4) << WINDOW_COUNT_SHIFT | (uint64_t)take(input) << (take(input) % 20);
	case 6:
		return link->out.size - take(input);
	default:
		return take_word(input);
	}
}

/* ---- Guards ---------------------------------------------------------------------------------------- */

static void guarded_make(struct guarded *guarded, size_t length)
{
	guarded->memory = malloc(length + 2 * GUARD);
	MUST(guarded->memory);
	guarded->length = length;
	memset(guarded->memory, GUARD_BYTE, length + 2 * GUARD);
}

static uint8_t *guarded_bytes(const struct guarded *guarded)
{
	return guarded->memory + GUARD;
}

static void guarded_end(struct guarded *guarded)
{
	for (size_t i = 0; i < GUARD; i++)
		MUST(guarded->memory[i] == GUARD_BYTE && guarded->memory[GUARD + guarded->length + i] == GUARD_BYTE);
	free(guarded->memory);
}

/* ---- The hostile peer's steps ---------------------------------------------------------------------- */

/* Raw bytes anywhere in a segment. */
static void step_scribble(struct stage *stage, struct input *input, bool out)
{
	struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	uint8_t *segment = (uint8_t *)(out ? (void *)link->out.segment : (void *)link->in.segment);
	uint64_t size = out ? link->out.size : link->in.size;
	/* The head and the slots more often than the areas. */
	uint64_t range = take(input) % 4 ? SEGMENT_BASE : size, at = take_word(input) % range;
	unsigned count = 1 + take(input) % 16;

	if (!segment)
		return;
	for (unsigned i = 0; i < count && at + i < size; i++)
		segment[at + i] = take(input);
}

/* The slot that was written is whole. If its length says so the next one is a part of it, whatever is in there. */
static void publish(struct ring_out *ring)
{
	struct record *slot = ring_slot(ring->segment, ring->produced);

	store_release(&slot->stamp, ring_stamp(ring->produced));
	ring->produced += ring_slots(slot->length);
}

/* A record that looks like one, in the slot that the victim looks at next. */
static void step_record(struct stage *stage, struct input *input)
{
	struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	struct ring_out *ring = &link->out;
	struct record *slot;
	static const uint16_t lengths[] = {0,
					   1,
					   8,
					   40,
					   SPAN_MAX,
					   SPAN_MAX + 1,
					   RECORD_EXTERNAL,
					   RECORD_EXTERNAL,
					   RECORD_EXTERNAL,
					   RECORD_EXTERNAL};

	if (!ring->segment)
		return;
	slot = &ring->segment->slots[ring->produced % RING_SLOTS];
	slot->credit = (uint16_t)(take(input) % 4 ? link->in.next : take_word(input));
	slot->kind = take(input) % 8 ? (uint8_t)(take(input) % 5 == 0 ? RECORD_BULK + take(input) % 4
								     : take(input) % (RECORD_MESSAGE_KINDS + 1))
				     : take(input);
	slot->flags = take(input) & 127;
	slot->length = lengths[take(input) % 10];
	slot->tag = take(input) % 4 ? take(input) % 8 : take_value(stage, input);
	if (slot->kind == RECORD_PUT || slot->kind == RECORD_GET || slot->kind == RECORD_ATOMIC)
		slot->tag = take(input) % 8 ? KEY : slot->tag;
	if (slot->kind == RECORD_FINISH || slot->kind >= RECORD_BULK || slot->kind == RECORD_REPLY)
		slot->tag = take_value(stage, input);
	slot->imm = slot->kind == RECORD_ATOMIC
			    ? (uint64_t)(take(input) % 24) | (uint64_t)(take(input) % 20) << 8 |
				      (uint64_t)(take(input) & 1) << 16 | (uint64_t)take(input) << 32
			    : take_value(stage, input);
	if (slot->length == RECORD_EXTERNAL || take(input) % 2) {
		static const uint32_t places[] = {0,
						  64,
						  offsetof(struct segment, small),
						  SEGMENT_BASE - 64,
						  SEGMENT_BASE,
						  SEGMENT_BASE + 4096,
						  UINT32_MAX - 63,
						  0x7fffffc0};

		slot->place = take(input) % 4 ? places[take(input) % 8] : (uint32_t)take_value(stage, input);
		if (take(input) % 4 == 0) /* in the victim's own segment */
			slot->place |= (uint32_t)PLACE_LENT;
		slot->bytes = take(input) % 4 ? take(input) * 8u : (uint32_t)take_value(stage, input);
		if (take(input) % 8 == 0) /* an end that wraps around */
			slot->bytes = 0u - (slot->place & 0x7fffffffu) + take(input) * 8u;
		for (int i = 0; i < RECORD_ARGS; i++)
			slot->arg[i] = take_value(stage, input);
		if (take(input) % 4 == 0) /* whole, as far as it says */
			slot->arg[0] = slot->bytes;
	}
	publish(ring);
}

static void forge(struct stage *stage, const struct record *record)
{
	struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	struct ring_out *ring = &link->out;
	struct record *slot;

	if (!ring->segment)
		return;
	slot = &ring->segment->slots[ring->produced % RING_SLOTS];
	*slot = *record;
	slot->credit = (uint16_t)link->in.next;
	publish(ring);
}

/* The victim posts a receive for what comes next. */
static void step_post(struct stage *stage, struct input *input, uint64_t tag, uint32_t length)
{
	uint8_t *buffer = guarded_bytes(&stage->buffers[take(input) % BUFFERS]);
	size_t size = take(input) % 2 || length > BUFFER ? BUFFER : length;

	for (int i = 0; i < PENDING; i++) {
		if (stage->pending[i])
			continue;
		if (thole_recv(stage->victim, stage->victim_to_hostile, buffer, size, tag, ~UINT64_C(0), 0, NULL,
			       &stage->pending[i]) != 0)
			stage->pending[i] = NULL;
		return;
	}
}

/* More, or less, than was said: pieces of one message, or data of one fetch. */
static void step_lengths(struct stage *stage, struct input *input)
{
	uint32_t total = take(input) * 40u, first = total ? (uint32_t)take_word(input) % total : 0;
	struct record record = {.kind = RECORD_EAGER, .flags = RECORD_MORE, .length = RECORD_EXTERNAL,
				.place = SEGMENT_BASE, .bytes = first, .tag = take(input) % 8};
	struct record piece = {.kind = RECORD_PIECE, .length = RECORD_EXTERNAL, .place = SEGMENT_BASE};
	bool bulk = take(input) % 2;

	record.arg[0] = total;
	if (take(input) % 4 == 0)
		record.flags |= RECORD_SYNC;
	if (bulk) {
		record.kind = RECORD_RTS;
		record.flags = 0;
		record.bytes = 0;
		window_store(
			&(struct window){.length = total, .count = 1, .address = (uintptr_t)sandbox, .id = take(input)},
			&record);
		piece.kind = RECORD_BULK_DATA;
		piece.tag = (uint64_t)(1 + take(input) % 4) << 32 | take(input) % 2;
	}
	if (take(input) % 2)
		step_post(stage, input, record.tag, total / 2);
	forge(stage, &record);
	for (int i = take(input) % 4; i >= 0; i--)
		thole_progress(stage->victim);
	for (int i = take(input) % 6; i >= 0; i--) {
		piece.bytes = take(input) % 3 ? take(input) * 32u : total - first;
		forge(stage, &piece);
		piece.imm += take(input) % 4 ? piece.bytes : take(input);
	}
}

static void step_words(struct stage *stage, struct input *input)
{
	struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	struct segment *in = link->in.segment, *out = link->out.segment;
	struct offer *offer = NULL;

	if (!in || !out)
		return;
	switch (take(input) % 8) {
	case 0:
		in->consumed = take(input) % 2 ? in->consumed + take(input) : take_value(stage, input);
		break;
	case 1:
		in->wake = take(input);
		break;
	case 2:
		in->rendezvous_classes[take(input) % PACES] = (uint32_t)take_word(input);
		break;
	case 3:
		in->cookie_address = take_value(stage, input);
		in->accepted = take(input);
		break;
	case 4:
	case 5:
		offer = &in->offers[take(input) % OFFERS];
		break;
	default:
		offer = &out->offers[take(input) % OFFERS];
	}
	if (!offer)
		return;
	switch (take(input) % 4) {
	case 0:
		offer->done = (uint32_t)take_value(stage, input);
		break;
	case 1:
		offer->failed = take(input) % 2;
		break;
	case 2: /* one claim, as of a correct peer or nearly */
		offer->claim += take(input) % 2 ? UINT64_C(1) << 20 : 1;
		break;
	default:
		offer->claim = take_word(input);
	}
}

/* ---- Strangers at the door ------------------------------------------------------------------------- */

static int stranger_file(struct input *input)
{
	static const uint64_t sizes[] = {0,
					 4096,
					 SEGMENT_BASE,
					 SEGMENT_BASE + 4096,
					 SEGMENT_BASE + 65536,
					 SEGMENT_BASE + (16u << 20),
					 SEGMENT_BASE + (16u << 20) + 4096,
					 UINT64_C(1) << 40};
	uint8_t kind = take(input) % 8;
	struct segment *segment;
	int pipes[2], fd;

	if (kind == 0) {
		MUST(pipe2(pipes, O_CLOEXEC) == 0);
		close(pipes[1]);
		return pipes[0];
	}
	if (kind == 1)
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0);
	if (ftruncate(fd, (off_t)sizes[take(input) % 8]) == 0 && take(input) % 4) {
		segment = mmap(NULL, SEGMENT_BASE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (segment != MAP_FAILED) {
			struct stat status;

			if (fstat(fd, &status) == 0 && status.st_size >= SEGMENT_BASE && take(input) % 4) {
				segment->magic = SEGMENT_MAGIC;
				segment->version = SEGMENT_VERSION;
				for (int i = 0; i < 8; i++)
					((uint8_t *)segment)[take(input) * 16u] ^= (uint8_t)(take(input) % 3);
			}
			munmap(segment, SEGMENT_BASE);
		}
	}
	if (kind > 2)
		fcntl(fd, F_ADD_SEALS,
		      kind == 3   ? F_SEAL_SHRINK
		      : kind == 4 ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE
				  : F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return fd;
}

/* One that is connected to the victim, and has not greeted; -1: it is not. */
static int stranger_socket(struct stage *stage)
{
	struct sockaddr_un name;
	socklen_t length = connect_name(stage->victim->base.parts.endpoint, &name);
	int fd;

	if (stage->socket_count == SOCKETS)
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	MUST(fd >= 0);
	stage->sockets[stage->socket_count++] = fd;
	return connect(fd, (struct sockaddr *)&name, length) == 0 ? fd : -1;
}

/* Send bytes with up to DESCRIPTORS files, which stay open here. */
static void send_files(int socket, void *bytes, size_t length, const int *files, int count)
{
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec data = {bytes, length};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	if (count > 0) {
		struct cmsghdr *header = &control.align;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(header), files, (size_t)count * sizeof(int));
	}
	(void)!sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void step_stranger(struct stage *stage, struct input *input)
{
	struct greeting greeting = {
		.magic = GREETING_MAGIC, .version = SEGMENT_VERSION, .to = stage->victim->base.parts.endpoint};
	struct address_parts parts = stage->victim->base.parts;
	int fd = stranger_socket(stage), files[DESCRIPTORS], count = take(input) % (DESCRIPTORS + 1);
	size_t length = sizeof(greeting);

	if (fd < 0)
		return;
	parts.endpoint = take_word(input);
	switch (take(input) % 5) {
	case 0:
		thole_endpoint_address(stage->honest, &greeting.from);
		break;
	case 1:
		thole_endpoint_address(stage->hostile, &greeting.from);
		break;
	case 2:
		thole_endpoint_address(stage->victim, &greeting.from);
		break;
	default:
		address_format(&parts, &greeting.from);
	}
	for (int i = take(input) % 4; i > 0; i--)
		((uint8_t *)&greeting)[take(input) % sizeof(greeting)] = take(input);
	if (take(input) % 8 == 0)
		length = take(input) % sizeof(greeting);
	for (int i = 0; i < count; i++)
		files[i] = stranger_file(input);
	send_files(fd, &greeting, length, files, count);
	for (int i = 0; i < count; i++)
		close(files[i]);
	if (take(input) % 2) {
		close(fd);
		stage->socket_count--;
	}
}

/* Bytes on a socket that the victim reads. */
static void step_socket(struct stage *stage, struct input *input)
{
	const struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	int fd = take(input) % 2 && stage->socket_count ? stage->sockets[take(input) % stage->socket_count]
		 : take(input) % 2			? link->watch_in.fd
							: link->watch_out.fd;
	uint8_t bytes[100];
	size_t length = take(input) % 2 ? 1 : take(input) % sizeof(bytes);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = take(input);
	if (length == 0 && take(input) % 8) /* an empty packet reads like the end: rarely */
		length = 1;
	if (fd >= 0)
		for (int i = take(input) % 100; i >= 0; i--)
			(void)!send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- Whether it lives ------------------------------------------------------------------------------ */

/* A page in a file of a disk, which knows of no seals. */
static int plain_file(uint64_t word_at)
{
	char name[] = "/tmp/thole-hostile-XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC);

	MUST(fd >= 0 && unlink(name) == 0 && ftruncate(fd, PAGE) == 0);
	MUST(pwrite(fd, &word_at, sizeof(word_at), 0) == sizeof(word_at));
	return fd;
}

/* A file that is announced as a page: mostly a memfd that is one, or nearly. *page_p: it is one, which is kept. */
static int page_file(struct stage *stage, struct input *input, struct page **page_p)
{
	static const uint64_t sizes[] = {0, 8, PAGE - 1, PAGE + 1, 2 * PAGE, UINT64_C(1) << 40};
	static const int seals[] = {0, LIFE_SEALS & ~F_SEAL_SHRINK, LIFE_SEALS & ~F_SEAL_GROW,
				    LIFE_SEALS & ~F_SEAL_FUTURE_WRITE, LIFE_SEALS & ~F_SEAL_SEAL,
				    F_SEAL_SHRINK | F_SEAL_GROW};
	static const uint64_t places[] = {0, 8, 10, PAGE - 4, PAGE - 2, PAGE, PAGE + 8, UINT64_MAX - 3, UINT64_MAX};
	uint8_t kind = take(input) % 8;
	struct page page;
	int fd;

	*page_p = NULL;
	if (kind == 0 || stage->page_count == PAGES)
		return take(input) % 2 ? stranger_file(input) : plain_file(8);
	fd = memfd_create("hostile page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0 && ftruncate(fd, (off_t)(kind == 1 ? sizes[take(input) % 6] : PAGE)) == 0);
	page.words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(page.words != MAP_FAILED);
	if (kind != 1 && take(input) % 4) { /* else it is a hole */
		page_say(page.words, take(input) % 128);
		page.words[0] = take(input) % 2 ? 8 : places[take(input) % 9];
	}
	MUST(fcntl(fd, F_ADD_SEALS, kind == 2 ? seals[take(input) % 6] : LIFE_SEALS) == 0);
	if (kind <= 2) { /* the victim must not look at what is cut short later, or gets holes */
		munmap(page.words, PAGE);
		return fd;
	}
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) != 0);
	MUST(madvise(page.words, PAGE, MADV_REMOVE) != 0);
	page.announced = false;
	stage->pages[stage->page_count] = page;
	*page_p = &stage->pages[stage->page_count++];
	return fd;
}

/* What the victim looks at is a page that was announced as it should be, and its word lies in it. */
static void pages_check(struct stage *stage)
{
	const struct shm_peer *link = shm_link(&stage->victim->peers[stage->victim_to_hostile]->base);
	const volatile uint64_t *words;
	bool known = false;
	uintptr_t at;

	if (!link || !link->life)
		return;
	words = (const volatile uint64_t *)link->life_page;
	at = (uintptr_t)link->life - (uintptr_t)words;
	MUST(at <= PAGE - sizeof(uint32_t) && at % sizeof(uint32_t) == 0);
	for (int i = 0; i < stage->page_count; i++) {
		uint64_t *last = &stage->pages[i].words[PAGE / sizeof(uint64_t) - 1], before = *last;

		*last = ~before;
		known |= stage->pages[i].announced && words[PAGE / sizeof(uint64_t) - 1] == ~before;
		*last = before;
	}
	MUST(known);
}

static void step_announce(struct stage *stage, struct input *input, int socket)
{
	/* Mostly one descriptor, and the announcement's bytes. */
	static const size_t lengths[] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1, 7, 9, 24};
	uint64_t bytes[3] = {LIFE_MAGIC, take_word(input), 0};
	size_t length = lengths[take(input) % 16];
	int files[DESCRIPTORS], count = take(input) % 4 ? 1 : take(input) % (DESCRIPTORS + 1);
	struct page *pages[DESCRIPTORS] = {NULL};

	if (take(input) % 16 == 0)
		bytes[0] ^= UINT64_C(1) << take(input) % 64;
	for (int i = 0; i < count; i++)
		files[i] = page_file(stage, input, &pages[i]);
	if (count == 1 && pages[0])
		pages[0]->announced = length == sizeof(bytes[0]) && bytes[0] == LIFE_MAGIC;
	for (int i = take(input) % 4 ? 0 : take(input) % 64; i >= 0; i--) /* again and again */
		send_files(socket, bytes, length, files, count);
	for (int i = take(input) % 16; i >= 0; i--)
		thole_progress(stage->victim);
	for (int i = 0; i < count; i++) {
		if (!pages[i])
			(void)!ftruncate(files[i], 0); /* what is not sealed */
		close(files[i]);
	}
	pages_check(stage);
}

/* On a connection, on any that a stranger has, or in place of a greeting. */
static void step_life(struct stage *stage, struct input *input)
{
	const struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);
	uint8_t where = take(input) % 16;
	int socket = where < 10 ? link->watch_out.fd
		     : where < 13 ? link->watch_in.fd
		     : where < 15 && stage->socket_count ? stage->sockets[take(input) % stage->socket_count]
							 : stranger_socket(stage);

	if (socket >= 0)
		step_announce(stage, input, socket);
}

static void step_pages(struct stage *stage, struct input *input)
{
	stage->flicker[0] = take(input) % 2 ? take(input) : 0;
	stage->flicker[1] = take(input) % 2 ? take(input) : 0;
	if (stage->page_count)
		page_say(stage->pages[take(input) % stage->page_count].words, take(input));
	pages_check(stage);
}

/* The hostile peer has closed its endpoint, and a child of it that has its socket goes on. */
static void step_late(struct stage *stage, struct input *input)
{
	int socket = dup(shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base)->watch_out.fd);

	thole_endpoint_close(stage->hostile);
	stage->hostile = NULL;
	if (socket < 0)
		return;
	step_announce(stage, input, socket);
	for (int i = 0; i < 100; i++)
		thole_progress(stage->victim);
	step_announce(stage, input, socket);
	close(socket);
}

/* ---- The victim's own life ------------------------------------------------------------------------- */

static void victim_collect(struct stage *stage)
{
	struct thole_completion completions[16];

	for (int i = 0; i < PENDING; i++)
		if (stage->pending[i] && thole_test(stage->victim, stage->pending[i], NULL))
			stage->pending[i] = NULL;
	while (thole_poll(stage->victim, completions, 16) == 16)
		;
}

static void step_victim(struct stage *stage, struct input *input)
{
	struct thole_request **request_p = NULL;
	uint32_t peer = stage->victim_to_hostile;
	uint8_t *buffer = guarded_bytes(&stage->buffers[take(input) % BUFFERS]);
	struct iovec segments[3] = {{buffer, 1000}, {buffer + 1000, 1500}, {buffer + 2500, 2500}};
	struct iovec window[2] = {{guarded_bytes(&stage->window), 100000},
				  {guarded_bytes(&stage->window) + 100000, 100000}};
	size_t size = take(input) % 2 ? take(input) : BUFFER;
	struct thole_completion completion;
	int error = 0;

	for (int i = 0; i < PENDING && !request_p; i++)
		if (!stage->pending[i])
			request_p = &stage->pending[i];
	if (!request_p)
		return;
	switch (take(input) % 12) {
	case 0:
	case 1:
		error = thole_recv(stage->victim, peer, buffer, size, take(input) % 8,
				   take(input) % 2 ? ~UINT64_C(0) : 0, 0, NULL, request_p);
		break;
	case 2:
		error = thole_recvv(stage->victim, peer, segments, 3, take(input) % 8, take(input) % 2 ? 7 : 0,
				    take(input) % 2 ? THOLE_PLAIN : 0, NULL, request_p);
		break;
	case 3:
		request_p = NULL;
		error = thole_recv(stage->victim, peer, buffer, BUFFER, take(input) % 8, 0, THOLE_MULTI, NULL, NULL);
		break;
	case 4:
		error = thole_send(stage->victim, peer, buffer, size, 1, 0, take(input) % 2 ? THOLE_SYNC : 0, NULL,
				   request_p);
		break;
	case 5:
		error = thole_send(stage->victim, peer, guarded_bytes(&stage->window), 200000, 2, 0, 0, NULL,
				   request_p);
		break;
	case 6:
		error = thole_sendv(stage->victim, peer, window, 2, 2, 0, 0, NULL, request_p);
		break;
	case 7:
		error = thole_put(stage->victim, peer, window, 2, KEY, 0, 0, 0, NULL, request_p);
		break;
	case 8:
		error = thole_get(stage->victim, peer, segments, take(input) % 2 ? 1 : 3, KEY, 0, 0, NULL, request_p);
		break;
	case 9: {
		uint64_t one = 1;

		error = thole_atomic(stage->victim, peer,
				     &(struct thole_atomic){.op = THOLE_SUM,
							    .type = THOLE_UINT64,
							    .count = 1,
							    .operand = &one,
							    .result = buffer,
							    .key = KEY},
				     0, NULL, request_p);
		break;
	}
	case 10: {
		struct thole_message *found;

		request_p = NULL;
		if (thole_message_probe(stage->victim, peer, 0, 0, 0, &completion, &found)) {
			struct thole_request *request;

			MUST(thole_message_recv(stage->victim, found, segments, 3, 0, NULL, &request) == 0);
			for (int i = 0; i < PENDING && request; i++) {
				if (!stage->pending[i]) {
					stage->pending[i] = request;
					request = NULL;
				}
			}
		}
		break;
	}
	default:
		request_p = NULL;
		if (!thole_probe(stage->victim, peer, 0, 0, THOLE_DISCARD, &completion) && stage->pending[0])
			thole_cancel(stage->victim, stage->pending[0]);
	}
	if (error && request_p)
		*request_p = NULL;
}

/* What the honest peer sends arrives, whole and in order, though the hostile one does what it does. */
static void step_honest(struct stage *stage, struct input *input)
{
	static const size_t lengths[] = {0, 8, 100, 4000, 70000, 200000};
	size_t length = lengths[take(input) % 6];
	uint8_t *from = malloc(length + 1), *to = guarded_bytes(&stage->honest_to);
	struct thole_request *send, *receive;
	struct thole_completion completion = {0};
	bool sent = false, received = false;

	MUST(from);
	for (size_t i = 0; i < length; i++)
		from[i] = (uint8_t)(stage->honest_sequence * 7 + i * 13);
	memset(to, 0, length);
	MUST(thole_recv(stage->victim, stage->victim_to_honest, to, length, 3, ~UINT64_C(0), 0, NULL, &receive) == 0);
	MUST(thole_send(stage->honest, stage->honest_to_victim, from, length, 3, stage->honest_sequence, THOLE_IMM,
			NULL, &send) == 0);
	for (int i = 0; i < 2000000 && !(sent && received); i++) {
		sent = sent || thole_test(stage->honest, send, NULL);
		received = received || thole_test(stage->victim, receive, &completion);
	}
	MUST(sent && received);
	MUST(completion.status == 0 && completion.length == length && completion.imm == stage->honest_sequence);
	MUST(memcmp(from, to, length) == 0);
	stage->honest_sequence++;
	free(from);
}

/* ---- A run ----------------------------------------------------------------------------------------- */

static struct thole_endpoint *stage_endpoint(const char *bulk)
{
	const char *const options[] = {bulk,
				       "bulk_ring=64k",
				       "look_again=0",
				       "close_timeout=1ms",
				       "unexpected_max=256k",
				       "cooperative_block=4k",
				       NULL};
	struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;

	MUST(thole_endpoint_open(&attr, &endpoint) == 0);
	return endpoint;
}

static uint32_t stage_peer(struct thole_endpoint *of, struct thole_endpoint *to)
{
	struct thole_address address;
	uint32_t peer;

	thole_endpoint_address(to, &address);
	MUST(thole_peer(of, &address, &peer) == 0);
	return peer;
}

/* One message each way, so that both segments are there. */
static void stage_connect(struct thole_endpoint *a, uint32_t a_to_b, struct thole_endpoint *b, uint32_t b_to_a)
{
	struct thole_request *there, *back;
	char byte = 1, got[2];
	bool done[2] = {false, false};

	MUST(thole_recv(b, b_to_a, &got[0], 1, 0, 0, 0, NULL, &there) == 0);
	MUST(thole_recv(a, a_to_b, &got[1], 1, 0, 0, 0, NULL, &back) == 0);
	MUST(thole_send(a, a_to_b, &byte, 1, 0, 0, THOLE_QUIET, NULL, NULL) == 0);
	MUST(thole_send(b, b_to_a, &byte, 1, 0, 0, THOLE_QUIET, NULL, NULL) == 0);
	while (!done[0] || !done[1]) {
		done[0] = done[0] || thole_test(b, there, NULL);
		done[1] = done[1] || thole_test(a, back, NULL);
	}
}

/* What else a greeting can say, which comes after the victim has looked for the cookie elsewhere. */
static void stage_cookie(struct stage *stage, struct input *input)
{
	struct transport_peer *peer = &stage->victim->peers[stage->victim_to_hostile]->base;
	uint8_t what = take(input);

	copy_allowed(peer);
	shm_link(peer)->cookie_address = what % 2 ? 0 : take_value(stage, input);
	shm_link(peer)->cookie = what % 3 ? 0 : take_word(input);
}

static void stage_open(struct stage *stage, struct input *input)
{
	static const char *const bulks[] = {"bulk=auto", "bulk=ring", "bulk=one-copy", "bulk=cooperative",
					    "bulk=direct"};
	const char *bulk = bulks[take(input) % 5];
	struct thole_region *region;

	memset(stage, 0, sizeof(*stage));
	stage->victim = stage_endpoint(bulk);
	stage->honest = stage_endpoint(bulk);
	stage->hostile = stage_endpoint("bulk=ring");
	stage->victim_to_honest = stage_peer(stage->victim, stage->honest);
	stage->victim_to_hostile = stage_peer(stage->victim, stage->hostile);
	stage->honest_to_victim = stage_peer(stage->honest, stage->victim);
	stage->hostile_to_victim = stage_peer(stage->hostile, stage->victim);
	stage_connect(stage->honest, stage->honest_to_victim, stage->victim, stage->victim_to_honest);
	stage_connect(stage->hostile, stage->hostile_to_victim, stage->victim, stage->victim_to_hostile);
	for (int i = 0; i < BUFFERS; i++)
		guarded_make(&stage->buffers[i], BUFFER);
	guarded_make(&stage->region, REGION);
	guarded_make(&stage->window, 200000);
	guarded_make(&stage->honest_to, 200000);
	MUST(thole_expose(stage->victim, guarded_bytes(&stage->region), REGION,
			  THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY, NULL, &region) == 0);
	if (take(input) % 8 == 0)
		stage_cookie(stage, input);
	flickering = stage;
}

static void stage_close(struct stage *stage)
{
	thole_endpoint_close(stage->victim);
	if (stage->hostile)
		thole_endpoint_close(stage->hostile);
	thole_endpoint_close(stage->honest);
	for (int i = 0; i < stage->socket_count; i++)
		close(stage->sockets[i]);
	for (int i = 0; i < BUFFERS; i++)
		guarded_end(&stage->buffers[i]);
	guarded_end(&stage->region);
	guarded_end(&stage->window);
	guarded_end(&stage->honest_to);
	flickering = NULL;
	for (int i = 0; i < stage->page_count; i++)
		munmap(stage->pages[i].words, PAGE);
}

/* How many pages of the hostile peer's are mapped. */
static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	MUST(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "memfd:hostile") || strstr(line, "thole-hostile");
	fclose(maps);
	return count;
}

/* But the one by which a process's end is known, which stays until then (life.c). */
static int descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++) {
		char path[32], name[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		count += readlink(path, name, sizeof(name) - 1) > 0 && !strstr(name, "memfd:thole life");
	}
	return count;
}

void fuzz_run(const uint8_t *data, size_t size)
{
	size_t last = size % 4 == 0 && size > LATE ? LATE : 0;
	struct input input = {data, size - last}, late = {data + size - last, last};
	int before = descriptors();
	struct stage stage;

	stage_open(&stage, &input);
	for (int steps = 0; input.left > 0 && steps < STEPS_MAX; steps++) {
		switch (take(&input) % 18) {
		case 0:
			step_lengths(&stage, &input);
			break;
		case 1:
			step_scribble(&stage, &input, true);
			break;
		case 2:
			step_scribble(&stage, &input, false);
			break;
		case 3:
		case 4:
		case 5:
		case 6:
			step_record(&stage, &input);
			break;
		case 7:
			step_words(&stage, &input);
			break;
		case 8:
			step_stranger(&stage, &input);
			break;
		case 9:
			step_socket(&stage, &input);
			break;
		case 10:
			for (int i = take(&input) % 64; i >= 0; i--)
				thole_progress(stage.hostile);
			break;
		case 11:
			step_honest(&stage, &input);
			break;
		case 12:
		case 13:
			step_victim(&stage, &input);
			break;
		case 14:
			step_life(&stage, &input);
			break;
		case 15:
			step_pages(&stage, &input);
			break;
		default:
			for (int i = take(&input) % 64; i >= 0; i--)
				thole_progress(stage.victim);
			victim_collect(&stage);
		}
	}
	for (int i = 0; i < 100; i++)
		thole_progress(stage.victim);
	step_honest(&stage, &input);
	pages_check(&stage);
	if (last)
		step_late(&stage, &late);
	stage_close(&stage);
	MUST(descriptors() == before && mappings() == 0);
}
