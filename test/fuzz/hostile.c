/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile: a peer that is correct until it is connected, and then writes whatever it likes wherever it can.
 *
 * Owns one run: three endpoints in one process - the victim, an honest peer and the hostile one - and a program of
 * steps, taken from the input bytes. The hostile peer writes raw bytes and made-up records into both shared
 * segments (slots, offers, areas, head words), bytes into its sockets, greets the victim with malformed greetings and
 * descriptors, and hands it pages by which it is to be known to live (life.c) that are none, or whose words change,
 * also while its memory is read. It asks for pieces of windows, and offers memory to be written, as it should or with
 * one thing wrong. Meanwhile the victim has operations with both under way. Whatever happens: no crash,
 * progress comes back, what the honest peer sends arrives unaltered, no byte changes around buffers and regions, only
 * a page that nobody can cut short is looked at, and no descriptor or mapping is left.
 *
 * The victim writes into memory of a hostile *process* where that asks for it (process_vm_writev). Here the process
 * is its own, so the replaced function lets only the hostile peer's memory be written: what lies elsewhere is not
 * there, as it would not be in another process. What is written is of the victim's windows, while they are windows, and
 * where an offer was as it should be, it is the right bytes at their place, and all of them.
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

#include "../unit/descriptors.h"
#include "../unit/mappings.h"
#include "../unit/process_vm.h"
#include "message/message.h"
#include "message/state.h"
#include "transport/shm/bulk.h"
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
	PAGE = 4096,          /* of life.c, whatever the kernel's are */
	PAGE_MAX = 65536,     /* a kernel's */
	LATE = 64,            /* bytes of the input, for what comes late */
	STEPS_MAX = 160,
	LANDINGS = 8,            /* where what the hostile peer lets be written goes, one for each time */
	LANDING = 16384,
	PARTS = 80,           /* of one landing: more than one call takes */
	BLOCKS = 24,
	CALL_SEGMENTS = SEGMENTS_A_CALL + 2,
	FILL = 0x00,          /* of a landing; no byte of the window */
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

/* What the hostile peer lets be written into a landing. */
struct offered {
	bool exact;            /* it was as it should be, and came so */
	const uint8_t *from;   /* the window's memory, in one piece */
	uint64_t door, length;
	size_t count;
	struct iovec parts[PARTS];
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
	struct offered offered[LANDINGS];
	int offered_count;
	bool altered;       /* an offer may have been, before the victim read it: what is written may be anything */
	bool honest_acts;   /* what is called is the honest peer's */
	uint8_t flicker[2]; /* what the words of pages are while memory is read, and then; 0: as they were */
};

static struct stage *current;

/* The hostile peer's memory. Others' ends where it ends. */
static struct {
	uint8_t room[2 * PAGE_MAX]; /* doors at its end */
	struct iovec lists[LANDINGS][PARTS];
	uint8_t landings[LANDINGS][LANDING];
	struct iovec list[PARTS]; /* of what is not as it should be, and may be written */
	uint8_t sandbox[SANDBOX];
} theirs __attribute__((aligned(PAGE_MAX)));

static uint8_t *const sandbox = theirs.sandbox;

/* Two of the kernel's pages, with which its memory begins: ways in, ways out. */
static uint8_t *doors(void)
{
	return theirs.room + sizeof(theirs.room) - 2 * (size_t)getpagesize();
}

/* From there to its end. */
static uint64_t theirs_size(void)
{
	return sizeof(theirs) - (uint64_t)(doors() - (uint8_t *)&theirs);
}

/* ---- What the victim writes ------------------------------------------------------------------------ */

static bool lies_in(const struct iovec *part, const void *memory, uint64_t size)
{
	uint64_t at = (uintptr_t)part->iov_base - (uintptr_t)memory;

	return at <= size && part->iov_len <= size - at;
}

/* Whether a request's memory is a window that its peer was told of. */
static bool is_window(const struct thole_request *request)
{
	return request->state == REQUEST_WAITING &&
	       (request->record.kind == RECORD_RTS || request->record.kind == RECORD_PUT ||
		request->record.kind == RECORD_REPLY);
}

/* The number'th window that the victim has told the hostile peer of, counted around; NULL: there is none. */
static const struct thole_request *window_find(const struct stage *stage, unsigned number)
{
	const struct pool *requests = &stage->victim->requests;
	const struct peer *peer = stage->victim->peers[stage->victim_to_hostile];
	const struct thole_request *found = NULL;

	for (uint32_t i = 0; i < 2 * requests->capacity; i++) {
		const struct thole_request *request = pool_at(requests, i % requests->capacity);

		if (!pool_is_live(requests, request) || request->peer != peer || !is_window(request))
			continue;
		found = request;
		if (number-- == 0)
			break;
	}
	return found;
}

static bool lies_in_a_window(const struct stage *stage, const struct iovec *part)
{
	const struct pool *requests = &stage->victim->requests;

	for (uint32_t i = 0; i < requests->capacity; i++) {
		const struct thole_request *request = pool_at(requests, i);

		if (!pool_is_live(requests, request) || !is_window(request))
			continue;
		MUST(request->peer == stage->victim->peers[stage->victim_to_hostile]); /* the only one that has any */
		for (size_t j = 0; j < request->vector.count; j++)
			if (lies_in(part, request->vector.segments[j].iov_base, request->vector.segments[j].iov_len))
				return true;
	}
	return false;
}

/* Where a byte of a landing belongs in the window. */
static uint64_t offered_offset(const struct offered *offered, const uint8_t *at, size_t length)
{
	const struct iovec part = {(void *)(uintptr_t)at, length};
	uint64_t offset = 0;

	for (size_t i = 0; i < offered->count; i++) {
		if (lies_in(&part, offered->parts[i].iov_base, offered->parts[i].iov_len))
			return offset + (uint64_t)(at - (uint8_t *)offered->parts[i].iov_base);
		offset += offered->parts[i].iov_len;
	}
	MUST(!"a byte of the offer");
	return 0;
}

/* A call for an offer that was as it should be: a number goes through the door and out again, and between them each
 * byte to its place. */
static void offered_check(const struct offered *offered, const struct iovec *local, const struct iovec *remote,
			  unsigned long local_count, unsigned long remote_count)
{
	unsigned long here = 1;
	size_t within = 0;

	MUST(local_count >= 3 && remote_count >= 3);
	MUST(remote[0].iov_len == 8 && local[0].iov_len == 8 && local[local_count - 1].iov_len == 8);
	MUST(remote[remote_count - 1].iov_len == 8);
	MUST((uintptr_t)remote[remote_count - 1].iov_base == offered->door + (uintptr_t)getpagesize());
	MUST(memcmp(local[0].iov_base, local[local_count - 1].iov_base, 8) == 0);
	for (unsigned long there = 1; there < remote_count - 1; there++) {
		for (size_t done = 0, length; done < remote[there].iov_len; done += length) {
			const uint8_t *to = (const uint8_t *)remote[there].iov_base + done;
			const uint8_t *from = (const uint8_t *)local[here].iov_base + within;

			MUST(here < local_count - 1);
			length = remote[there].iov_len - done;
			if (length > local[here].iov_len - within)
				length = local[here].iov_len - within;
			MUST(offered->from + offered_offset(offered, to, length) == from);
			within += length;
			if (within == local[here].iov_len) {
				here++;
				within = 0;
			}
		}
	}
	MUST(here == local_count - 1);
}

/* The honest peer helps the victim to fetch what it sends: into the one place that there is for that. */
static void honest_check(const struct stage *stage, const struct iovec *remote, unsigned long count)
{
	for (unsigned long i = 1; i + 1 < count; i++)
		MUST(lies_in(&remote[i], stage->honest_to.memory + GUARD, stage->honest_to.length));
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	struct iovec there[CALL_SEGMENTS];
	unsigned long count = 0;

	MUST(pid == getpid() && remote_count <= CALL_SEGMENTS);
	if (current->honest_acts) {
		honest_check(current, remote, remote_count);
		return __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
	}
	for (unsigned long i = 0; i < local_count; i++) /* data, or a word at one of both ends */
		MUST(lies_in_a_window(current, &local[i]) ||
		     (local[i].iov_len == 8 && (i == 0 || i == local_count - 1)));
	for (int i = 0; i < current->offered_count; i++)
		if (!current->altered && current->offered[i].exact &&
		    (uintptr_t)remote[0].iov_base == current->offered[i].door)
			offered_check(&current->offered[i], local, remote, local_count, remote_count);
	for (bool whole = true; whole && count < remote_count; count++) {
		uint64_t at = (uintptr_t)remote[count].iov_base - (uintptr_t)doors();

		if (at >= theirs_size())
			break;
		there[count] = remote[count];
		whole = there[count].iov_len <= theirs_size() - at;
		if (!whole)
			there[count].iov_len = theirs_size() - at;
	}
	errno = EFAULT;
	return count == 0 ? -1 : __real_process_vm_writev(pid, local, local_count, there, count, flags);
}

/* ---- What it reads --------------------------------------------------------------------------------- */

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
	for (int i = 0; current && current->flicker[when] && i < current->page_count; i++)
		page_say(current->pages[i].words, current->flicker[when]);
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

/* What the hostile peer has of the victim. Once it takes that for gone there is nothing. */
static struct shm_peer *hostile_link(const struct stage *stage)
{
	static struct shm_peer nothing = {.out.size = SEGMENT_BASE, .in.size = SEGMENT_BASE, .watch_in.fd = -1,
					  .watch_out.fd = -1};
	struct shm_peer *link = shm_link(&stage->hostile->peers[stage->hostile_to_victim]->base);

	return link ? link : &nothing;
}

/* A number that is somewhere a border, near one, or anything. */
static uint64_t take_value(struct stage *stage, struct input *input)
{
	const struct shm_peer *link = hostile_link(stage);
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
	struct shm_peer *link = hostile_link(stage);
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
	struct shm_peer *link = hostile_link(stage);
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
	struct shm_peer *link = hostile_link(stage);
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
	if (take(input) % 4 == 0)
		record.flags |= RECORD_NOTIFY;
	if (bulk) {
		record.kind = RECORD_RTS;
		record.flags = RECORD_UNASKED;
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
	struct shm_peer *link = hostile_link(stage);
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

/* ---- Memory that it lets be written ---------------------------------------------------------------- */

/* What is in a landing is as before, or of the window at its place: this from offset `whole` on. */
static void landing_check(const struct stage *stage, int index, bool untouched, uint64_t whole)
{
	const struct offered *offered = &stage->offered[index];
	const struct iovec from = {(void *)(uintptr_t)offered->from, offered->length};
	bool constant = lies_in(&from, stage->window.memory + GUARD, stage->window.length);
	uint64_t offset = 0;
	uint8_t copy[LANDING];

	if (!offered->exact || stage->altered)
		return;
	memcpy(copy, theirs.landings[index], LANDING);
	for (size_t i = 0; i < offered->count; offset += offered->parts[i++].iov_len) {
		uint8_t *bytes = copy + ((uint8_t *)offered->parts[i].iov_base - theirs.landings[index]);

		for (size_t at = 0; at < offered->parts[i].iov_len; at++) {
			MUST(bytes[at] == FILL ? offset + at < whole || !constant
					       : !untouched && (!constant || bytes[at] == offered->from[offset + at]));
			bytes[at] = FILL;
		}
	}
	for (size_t at = 0; at < LANDING; at++)
		MUST(copy[at] == FILL);
}

/* Up to PARTS parts of so much memory as a landing, with gaps between them, the last one first. */
static void landing_divide(struct stage *stage, struct input *input, bool spoilt, uint64_t length_max)
{
	uint8_t *landing = spoilt ? sandbox : theirs.landings[stage->offered_count];
	struct offered *offered = &stage->offered[stage->offered_count];
	uint64_t left;

	offered->length = 1 + take_word(input) % LANDING / 2;
	if (offered->length > length_max)
		offered->length = length_max;
	offered->count = take(input) % 2 ? 1 : 1 + take(input) % (size_t)(take(input) % 4 ? 6 : PARTS);
	left = offered->length;
	for (size_t i = 0; i < offered->count; i++) {
		uint64_t share = left / (offered->count - i);

		offered->parts[i] = (struct iovec){
			landing + (offered->count - 1 - i) * (LANDING / offered->count), share};
		left -= share;
	}
	memcpy(spoilt ? theirs.list : theirs.lists[stage->offered_count], offered->parts, sizeof(offered->parts));
	memset(theirs.landings[stage->offered_count], FILL, LANDING);
}

/* One of the victim's windows; it sends something long where it has none. */
static const struct thole_request *window_any(struct stage *stage, struct input *input)
{
	const struct thole_request *request = window_find(stage, take(input) % 8);

	for (int i = 0; i < PENDING && !request; i++) {
		if (stage->pending[i])
			continue;
		if (thole_send(stage->victim, stage->victim_to_hostile, guarded_bytes(&stage->window),
			       stage->window.length, 2, 0, 0, NULL, &stage->pending[i]) != 0)
			stage->pending[i] = NULL;
		request = window_find(stage, 0);
		break;
	}
	return request;
}

/* Something of an offer that is otherwise as it should be. */
static void offer_spoil(struct stage *stage, struct input *input, struct record *record, uint8_t what)
{
	if (what == 1)
		record->tag = take_value(stage, input);
	else if (what == 2)
		record->imm = take_value(stage, input);
	else if (what < 7)
		record->arg[what - 3] = take_value(stage, input);
	else
		for (int i = take(input) % 6; i >= 0; i--)
			theirs.list[take(input) % 6] = (struct iovec){
				(void *)(uintptr_t)take_value(stage, input), take_value(stage, input)};
}

/* One offer, and what it is to be served with. */
struct trial {
	const struct thole_request *request;
	struct record record;
	struct offer *offer;
	uint64_t claim;
	uint32_t blocks, front;
	uint8_t spoilt; /* which part of it; 0: none */
	bool shut;      /* the door is */
	bool fair;      /* nothing else keeps the victim from serving it at once */
};

static void offer_make(struct stage *stage, struct input *input, struct trial *trial)
{
	struct shm_peer *link = hostile_link(stage);
	struct offered *offered = &stage->offered[stage->offered_count];
	struct record *record = &trial->record;
	uint8_t slot = take(input) % OFFERS;

	trial->spoilt = take(input) % 4 ? 0 : take(input) % 8;
	trial->shut = take(input) % 16 == 0;
	landing_divide(stage, input, trial->spoilt, trial->request->vector.length);
	offered->door = (uintptr_t)doors() + 8u * (unsigned)stage->offered_count;
	offered->from = trial->request->vector.segments[0].iov_base;
	*record = (struct record){.kind = RECORD_BULK_OFFER, .length = RECORD_EXTERNAL, .place = SEGMENT_BASE};
	record->tag = request_id(trial->request);
	record->imm = slot | (uint64_t)(stage->offered_count + 1) << 8 | (uint64_t)offered->count << 32;
	record->arg[0] = offered->length;
	record->arg[1] = (uintptr_t)(offered->count == 1 ? offered->parts[0].iov_base
				     : trial->spoilt	 ? theirs.list
							 : theirs.lists[stage->offered_count]);
	record->arg[2] = 1 + offered->length / (take(input) % 3 ? 1 + take(input) % BLOCKS : 1);
	record->arg[3] = offered->door;
	trial->blocks = (uint32_t)((offered->length + record->arg[2] - 1) / record->arg[2]);
	trial->front = take(input) % 4 ? 0 : take(input) % (trial->blocks + 1);
	trial->claim = claim_pack(
		(struct claim){.front = trial->front, .sequence = (uint32_t)stage->offered_count + 1});
	trial->offer = &link->in.segment->offers[slot];
	trial->offer->done = trial->offer->failed = 0;
	trial->offer->claim = trial->claim;
	if (trial->spoilt)
		offer_spoil(stage, input, record, trial->spoilt);
}

/* What is as it should be is done, unless the door is shut. */
static void offer_check(const struct stage *stage, const struct trial *trial)
{
	const struct offer *offer = trial->offer;
	bool served = trial->fair && !trial->shut;

	landing_check(stage, stage->offered_count - 1, trial->shut,
		      served ? trial->front * trial->record.arg[2] : UINT64_MAX);
	if (served && !trial->spoilt)
		MUST(offer->done == trial->blocks - trial->front && !offer->failed);
	else if (trial->fair && !trial->spoilt)
		MUST(offer->done == 0 && offer->failed == (trial->front < trial->blocks));
	else if (trial->fair && trial->spoilt == 3 && trial->record.arg[0] > trial->request->vector.length)
		MUST(offer->claim == trial->claim); /* more than there is */
}

/* The victim is to copy blocks of a window into a landing. */
static void step_offer(struct stage *stage, struct input *input)
{
	const struct shm_peer *link = hostile_link(stage);
	struct transport_peer *back = &stage->victim->peers[stage->victim_to_hostile]->base;
	struct trial trial = {.request = stage->offered_count < LANDINGS ? window_any(stage, input) : NULL};
	const size_t page = (size_t)getpagesize();
	bool window;

	if (!trial.request || !link->out.segment || !link->in.segment || !shm_link(back))
		return;
	offer_make(stage, input, &trial);
	for (int i = take(input) % 64; i >= 0; i--)
		thole_progress(stage->victim);
	window = is_window(trial.request) && !vector_has_layout(&trial.request->vector); /* of memory */
	trial.fair = !back->gone && shm_link(back)->connected && list_empty(&shm_link(back)->serves) &&
		     shm_link(back)->in.next == link->out.produced && copy_allowed(back) && window;
	stage->offered[stage->offered_count++].exact = !trial.spoilt && window;
	MUST(mprotect(doors(), page, trial.shut ? PROT_READ : PROT_READ | PROT_WRITE) == 0);
	forge(stage, &trial.record);
	for (int i = trial.fair || take(input) % 2 ? 2 * BLOCKS + 20 : 1; i >= 0; i--)
		thole_progress(stage->victim);
	offer_check(stage, &trial);
	MUST(mprotect(doors(), page, PROT_READ | PROT_WRITE) == 0);
	if (!back->gone && shm_link(back)->in.next != link->out.produced)
		stage->altered = true;
}

/* The victim is to send pieces of a window, into a place of its own or of the peer's. */
static void step_pull(struct stage *stage, struct input *input)
{
	const struct thole_request *request = window_any(stage, input);
	struct record record = {.kind = RECORD_BULK_PULL, .length = RECORD_EXTERNAL, .place = SEGMENT_BASE};
	uint8_t spoilt = take(input) % 4;

	if (!request)
		return;
	record.tag = request_id(request);
	record.imm = take(input);
	record.arg[0] = take_word(input) % request->vector.length;
	record.arg[1] = 1 + take_word(input) % (request->vector.length - record.arg[0]);
	record.arg[2] = 1 + take_word(input) % 65536;
	if (take(input) % 2)
		record.arg[3] = (SEGMENT_BASE + take(input) * UINT64_C(64)) | (take(input) * UINT64_C(256)) << 32;
	if (spoilt == 0)
		record.arg[take(input) % RECORD_ARGS] = take_value(stage, input);
	forge(stage, &record);
	for (int i = take(input) % 64; i >= 0; i--)
		thole_progress(stage->victim);
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
	const struct shm_peer *link = hostile_link(stage);
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
	const struct shm_peer *link = hostile_link(stage);
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
	int socket = dup(hostile_link(stage)->watch_out.fd);

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

enum { LAID_OUT = 150000 };

/* Whatever the hostile peer asks for, and in whatever order: they are the layout's bytes. */
static void laid_out_pack(void *state, uint64_t offset, void *to, size_t length)
{
	MUST(offset < LAID_OUT && length > 0 && length <= LAID_OUT - offset);
	memcpy(to, (const uint8_t *)state + offset, length);
}

static void laid_out_unpack(void *state, uint64_t offset, const void *from, size_t length)
{
	MUST(offset < LAID_OUT && length > 0 && length <= LAID_OUT - offset);
	memcpy((uint8_t *)state + offset, from, length);
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
	unsigned flags;
	int error = 0;
	static uint8_t laid_out[LAID_OUT];
	static const struct thole_layout layout = {laid_out_pack, laid_out_unpack, laid_out, LAID_OUT};

	for (int i = 0; i < PENDING && !request_p; i++)
		if (!stage->pending[i])
			request_p = &stage->pending[i];
	if (!request_p)
		return;
	switch (take(input) % 14) {
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
		flags = (take(input) % 2 ? THOLE_SYNC : 0u) | (take(input) % 2 ? THOLE_ARRIVED : 0u);
		error = thole_send(stage->victim, peer, buffer, size, 1, 0, flags, NULL, request_p);
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
	case 11:
		error = thole_send_layout(stage->victim, peer, &layout, 2, 0, take(input) % 2 ? THOLE_SYNC : 0, NULL,
					  request_p);
		break;
	case 12:
		error = thole_recv_layout(stage->victim, peer, &layout, take(input) % 8, take(input) % 2 ? 7 : 0, 0,
					  NULL, request_p);
		break;
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
		stage->honest_acts = true;
		sent = sent || thole_test(stage->honest, send, NULL);
		stage->honest_acts = false;
		received = received || thole_test(stage->victim, receive, &completion);
	}
	MUST(sent && received);
	MUST(completion.status == 0 && completion.length == length && completion.imm == stage->honest_sequence);
	MUST(memcmp(from, to, length) == 0);
	stage->honest_sequence++;
	free(from);
}

/* ---- A run ----------------------------------------------------------------------------------------- */

static struct thole_endpoint *stage_endpoint(const char *bulk, const char *eager)
{
	const char *const options[] = {bulk,
				       eager,
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
	uint8_t what = take(input);
	const char *bulk = bulks[what % 5], *eager = what / 5 % 4 ? "eager_max=1k" : "eager_max=256k";
	struct thole_region *region;

	memset(stage, 0, sizeof(*stage));
	current = stage;
	stage->victim = stage_endpoint(bulk, eager);
	stage->honest = stage_endpoint(bulk, eager);
	stage->hostile = stage_endpoint("bulk=ring", eager);
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
	for (size_t i = 0; i < stage->window.length; i++)
		guarded_bytes(&stage->window)[i] = (uint8_t)(1 + i % 251);
	guarded_make(&stage->honest_to, 200000);
	MUST(thole_expose(stage->victim, guarded_bytes(&stage->region), REGION,
			  THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY, NULL, &region) == 0);
	if (take(input) % 8 == 0)
		stage_cookie(stage, input);
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
	current = NULL;
	for (int i = 0; i < stage->page_count; i++)
		munmap(stage->pages[i].words, PAGE);
}

/* How many pages of the hostile peer's are mapped. */
static int mappings(void)
{
	return mappings_of("memfd:hostile") + mappings_of("thole-hostile");
}

void fuzz_run(const uint8_t *data, size_t size)
{
	size_t last = size % 4 == 0 && size > LATE ? LATE : 0;
	struct input input = {data, size - last}, late = {data + size - last, last};
	int before = descriptors_open();
	struct stage stage;

	stage_open(&stage, &input);
	for (int steps = 0; input.left > 0 && steps < STEPS_MAX; steps++) {
		switch (take(&input) % 21) {
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
		case 16:
		case 17:
			step_offer(&stage, &input);
			break;
		case 18:
			step_pull(&stage, &input);
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
	for (int i = 0; i < stage.offered_count; i++)
		landing_check(&stage, i, false, UINT64_MAX);
	if (last)
		step_late(&stage, &late);
	stage_close(&stage);
	MUST(descriptors_open() == before && mappings() == 0);
}
