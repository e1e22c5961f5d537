/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_pair FROM TO: two adapters of this machine as struct nic, a queue at each, joined to each other; everything that
 * nic.h promises of them. Says what their page faults are like, and "well", or what is not.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "need.h"
#include "thole.h"
#include "transport/verbs/port.h"

enum {
	BYTES = 100000, RECEIVES = 16, SLOT = 2048, PAGED = 6000,
	/* Looks at a queue that stops, STOP_US and more apart, so that an adapter that does not say that it takes no
	 * more receives is waited for by ten of them, and one that does not flush by a hundred. */
	STOP_US = 2000, STOP_LOOKS = 50,
};

struct end {
	struct nic *nic;
	struct nic_queue *queue;
	struct nic_name name;
	struct nic_memory memory, slots;
	uint32_t receives;
	_Alignas(4096) unsigned char bytes[BYTES], slot[RECEIVES][SLOT];
};

static struct end one, two;

static void fill(struct end *end, unsigned seed)
{
	for (unsigned i = 0; i < BYTES; i++)
		end->bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static void end_open(struct end *end, const char *device)
{
	unsigned all = NIC_ACCESS_WRITE | NIC_ACCESS_PEER_READ | NIC_ACCESS_PEER_WRITE | NIC_ACCESS_PEER_ATOMIC;
	struct nic_segment segments[RECEIVES];
	uint64_t ids[RECEIVES];
	struct port port;

	NEED(port_choose(device, NULL, false, &port) == 0);
	NEED(port.active && port.software && port.interface != 0);
	NEED(port.kind == PORT_ROCE2 || (port.kind == PORT_IWARP && !port.orphaned));
	NEED(port_open(&port, &end->nic) == 0);
	NEED(end->nic->limits.mtu >= 1024 && end->nic->limits.inline_max >= 64 && end->nic->limits.reads > 0);
	NEED(end->nic->calls->register_memory(end->nic, end->bytes, BYTES, all, &end->memory) == 0);
	NEED(end->nic->calls->register_memory(end->nic, end->slot, sizeof(end->slot), NIC_ACCESS_WRITE,
					      &end->slots) == 0);
	for (uint32_t i = 0; i < RECEIVES; i++) {
		segments[i] = (struct nic_segment){end->slot[i], SLOT, end->slots.local_key};
		ids[i] = 1000 + i;
	}
	NEED(end->nic->calls->post_receives(end->nic, segments, ids, RECEIVES) == RECEIVES);
}

static void end_begin(struct end *end, uint32_t number)
{
	NEED(end->nic->calls->queue_new(end->nic, number, &end->queue, &end->name) == 0);
}

static struct nic_completion end_await(struct end *end)
{
	struct nic_completion done;

	while (end->nic->calls->poll(end->nic, &done, 1) == 0)
		NEED(end->nic->calls->event(end->nic) == NIC_EVENT_NONE);
	return done;
}

static bool is_late(void)
{
	return one.nic->limits.can & NIC_LATE;
}

static void again(struct end *end, uint64_t id)
{
	struct nic_segment segment = {end->slot[id - 1000], SLOT, end->slots.local_key};

	NEED(end->nic->calls->post_receives(end->nic, &segment, &id, 1) == 1);
}

static int post(struct end *end, struct nic_work work, const void *from, uint32_t length)
{
	struct nic_segment segment = {from, length, end->memory.local_key};

	work.segments = &segment;
	work.count = 1;
	work.remote_address = (uintptr_t)two.bytes;
	work.remote_key = two.memory.peer_key;
	return end->nic->calls->post(end->queue, &work);
}

/* Both are connected. Of adapters that connect later one end is told, and speaks first; until then nobody can. */
static void join(void)
{
	struct end *speaker, *hearer;
	struct nic_completion done;

	NEED(one.nic->calls->queue_connect(one.queue, &two.name) == 0);
	NEED(two.nic->calls->queue_connect(two.queue, &one.name) == 0);
	if (!is_late())
		return;
	NEED(post(&one, (struct nic_work){.operation = NIC_SEND}, one.bytes, 8) == THOLE_ERR_PEER);
	NEED(post(&two, (struct nic_work){.operation = NIC_SEND}, two.bytes, 8) == THOLE_ERR_PEER);
	for (speaker = &one; speaker->nic->calls->poll(speaker->nic, &done, 1) == 0;)
		speaker = speaker == &one ? &two : &one;
	hearer = speaker == &one ? &two : &one;
	NEED(done.operation == NIC_CONNECTED && done.status == 0 && done.queue == (speaker == &one ? 11 : 22));
	NEED(post(hearer, (struct nic_work){.operation = NIC_SEND}, hearer->bytes, 8) == THOLE_ERR_PEER);
	NEED(post(speaker, (struct nic_work){.operation = NIC_SEND, .id = 3}, speaker->bytes, 8) == 0);
	NEED(end_await(speaker).id == 3);
	done = end_await(hearer);
	NEED(done.operation == NIC_RECEIVE && done.length == 8);
	again(hearer, done.id);
}

static void sends(void)
{
	struct nic_completion done;
	unsigned char small[64];

	memset(small, 9, sizeof(small));
	NEED(post(&one, (struct nic_work){.operation = NIC_SEND, .flags = NIC_POST_INLINE, .id = 1}, small, 64) == 0);
	memset(small, 0, sizeof(small)); /* it was copied */
	fill(&one, 1);
	NEED(post(&one, (struct nic_work){.operation = NIC_SEND, .id = 2}, one.bytes, SLOT) == 0);
	for (uint64_t i = 1; i <= 2; i++) {
		done = end_await(&one);
		NEED(done.operation == NIC_SEND && done.id == i && done.status == 0 && done.queue == 11);
		done = end_await(&two);
		NEED(done.operation == NIC_RECEIVE && done.queue == 22 && done.length == (i == 1 ? 64 : SLOT));
		NEED(two.slot[done.id - 1000][5] == (i == 1 ? 9 : one.bytes[5]));
		again(&two, done.id);
	}
}

/* More than the queue holds, most of them silent: those that are not reported are over with a later one. */
static void many(void)
{
	uint32_t works = one.nic->limits.works, sent = 0;
	struct nic_completion done;

	while (post(&one, (struct nic_work){.operation = NIC_WRITE, .flags = NIC_POST_SILENT, .id = 5}, one.bytes,
		    8) == 0)
		NEED(++sent <= works);
	NEED(sent == works);
	for (uint32_t i = 0; i < 3 * works; i++)
		while (post(&one, (struct nic_work){.operation = NIC_WRITE, .flags = NIC_POST_SILENT}, one.bytes,
			    8) != 0)
			NEED(one.nic->calls->poll(one.nic, &done, 1) == 0);
	while (post(&one, (struct nic_work){.operation = NIC_WRITE, .id = 6}, one.bytes, 8) != 0)
		NEED(one.nic->calls->poll(one.nic, &done, 1) == 0);
	done = end_await(&one);
	NEED(done.operation == NIC_WRITE && done.id == 6 && done.status == 0);
}

static void memory(void)
{
	struct nic_work write = {.operation = NIC_WRITE, .imm = 77, .id = 7};
	struct nic_work add = {.operation = NIC_FETCH_ADD, .operand = 5, .id = 9};
	struct nic_work swap = {.operation = NIC_COMPARE_SWAP, .compare = 47, .operand = 3, .id = 10};
	struct nic_completion done;
	uint64_t value = 42;

	fill(&one, 2);
	write.flags = one.nic->limits.can & NIC_CAN_IMM ? NIC_POST_IMM : 0;
	NEED(post(&one, write, one.bytes, BYTES) == 0);
	NEED(end_await(&one).id == 7);
	if (!write.flags) { /* a send behind it says so */
		NEED(post(&one, (struct nic_work){.operation = NIC_SEND, .id = 14}, one.bytes, 8) == 0);
		NEED(end_await(&one).id == 14);
	}
	done = end_await(&two);
	NEED(done.operation == (write.flags ? NIC_RECEIVE_IMM : NIC_RECEIVE) && done.imm == (write.flags ? 77 : 0));
	NEED(memcmp(one.bytes, two.bytes, BYTES) == 0);
	again(&two, done.id);
	fill(&two, 3);
	NEED(post(&one, (struct nic_work){.operation = NIC_READ, .id = 8}, one.bytes, BYTES) == 0);
	done = end_await(&one);
	NEED(done.operation == NIC_READ && done.id == 8 && memcmp(one.bytes, two.bytes, BYTES) == 0);
	if (!(one.nic->limits.can & NIC_CAN_ATOMIC))
		return;
	memcpy(two.bytes, &value, sizeof(value));
	NEED(post(&one, add, one.bytes, 8) == 0 && end_await(&one).id == 9);
	NEED(memcmp(one.bytes, &value, 8) == 0);
	NEED(post(&one, swap, one.bytes, 8) == 0 && end_await(&one).id == 10);
	memcpy(&value, two.bytes, sizeof(value));
	NEED(value == 3);
}

/* What comes wakes who sleeps. */
static void sleeping(void)
{
	struct pollfd wait = {.fd = two.nic->fd, .events = POLLIN};
	struct nic_completion done;

	NEED(two.nic->calls->arm(two.nic) > 0 && poll(&wait, 1, 0) == 0);
	NEED(post(&one, (struct nic_work){.operation = NIC_SEND, .id = 11}, one.bytes, 8) == 0);
	NEED(poll(&wait, 1, 20000) == 1);
	NEED(two.nic->calls->poll(two.nic, &done, 1) == 1);
	again(&two, done.id);
	NEED(end_await(&one).id == 11);
	NEED(two.nic->calls->arm(two.nic) > 0 && poll(&wait, 1, 0) == 0);
}

static void end_stop(struct end *end, uint32_t number)
{
	struct nic_completion done;

	end->nic->calls->queue_stop(end->queue);
	NEED(post(end, (struct nic_work){.operation = NIC_SEND}, end->bytes, 8) == THOLE_ERR_PEER);
	do
		done = end_await(end);
	while (done.operation != NIC_STOPPED);
	NEED(done.queue == number);
	end->nic->calls->queue_free(end->queue);
}

/* Nothing says of a silent work that it was done, and nobody waits for that when its queue stops. An iWARP adapter's
 * waits for its connection. */
static void stopping(void)
{
	struct nic_work silent = {.operation = NIC_SEND, .flags = NIC_POST_INLINE | NIC_POST_SILENT, .id = 15};
	struct nic_completion done = {0};

	end_begin(&one, 11);
	end_begin(&two, 22);
	join();
	NEED(post(&one, silent, one.bytes, 8) == 0);
	done = end_await(&two);
	again(&two, done.id);
	usleep(10 * STOP_US); /* the acknowledgment, without which it would be flushed */
	one.nic->calls->queue_stop(one.queue);
	for (int looks = 0; done.operation != NIC_STOPPED; looks += one.nic->calls->poll(one.nic, &done, 1) == 0) {
		NEED(is_late() || looks < STOP_LOOKS);
		usleep(STOP_US);
	}
	one.nic->calls->queue_free(one.queue);
	end_stop(&two, 22);
}

/* What the peer refuses breaks the queue: one work says why, the others are cancelled; and a queue anew is as good. */
static void breaking(void)
{
	struct nic_segment segment = {one.bytes, 8, one.memory.local_key};
	struct nic_work bad = {.operation = NIC_WRITE, .segments = &segment, .count = 1, .id = 12,
			       .remote_address = (uintptr_t)two.bytes + BYTES - 4, .remote_key = two.memory.peer_key};
	struct nic_completion done;

	NEED(one.nic->calls->post(one.queue, &bad) == 0);
	done = end_await(&one);
	if (is_late() && done.id == 12 && done.status == 0) /* it was sent */
		done = end_await(&one);
	NEED(is_late() ? done.status < 0 : done.id == 12 && done.status == THOLE_ERR_ACCESS);
	NEED(post(&one, (struct nic_work){.operation = NIC_SEND}, one.bytes, 8) == THOLE_ERR_PEER);
	end_stop(&one, 11);
	end_stop(&two, 22);
}

static void limits(void)
{
	struct nic_memory memory;
	struct nic_name foreign = one.name;
	struct nic_queue *queue;

	NEED(one.nic->calls->register_memory(one.nic, NULL, 1 << 20, NIC_ACCESS_WRITE, &memory) ==
	     THOLE_ERR_ARGUMENT);
	foreign.bytes[1] = PORT_INFINIBAND;
	NEED(one.nic->calls->queue_new(one.nic, 33, &queue, &one.name) == 0);
	NEED(one.nic->calls->queue_connect(queue, &foreign) == THOLE_ERR_ADDRESS);
	one.queue = queue;
	end_stop(&one, 33);
}

static void end_close(struct end *end)
{
	end->nic->calls->deregister(end->nic, &end->memory);
	end->nic->calls->deregister(end->nic, &end->slots);
	end->nic->calls->close(end->nic);
}

/* What registering takes: more for more memory. */
static void registering(void)
{
	uint64_t little, much;

	NEED(thole_adapter_registering(0, 4096, &little) == 0 && little > 0);
	NEED(thole_adapter_registering(1, 16 << 20, &much) == 0 && much > little);
	NEED(thole_adapter_registering(0, 0, &little) == THOLE_ERR_ARGUMENT);
	NEED(thole_adapter_registering(99, 4096, &little) == THOLE_ERR_NOT_FOUND);
}

/* Bytes of TO's memory from `at` on are read by page faults of both; whether they are the right ones. */
static bool paged_read(struct nic_memory *from, struct nic_memory *to, uint32_t at)
{
	struct nic_segment segment = {one.bytes + at, PAGED, from->local_key};
	struct nic_work work = {.operation = NIC_READ, .segments = &segment, .count = 1, .id = 13,
				.remote_address = (uintptr_t)two.bytes + at, .remote_key = to->peer_key};
	struct nic_completion done;

	fill(&two, 4);
	fill(&one, 5);
	NEED(one.nic->calls->post(one.queue, &work) == 0);
	done = end_await(&one);
	NEED(done.id == 13 && done.status == 0);
	return memcmp(one.bytes + at, two.bytes + at, PAGED) == 0;
}

/* What of NIC_ACCESS_PAGED holds. */
static void paging(const char *device)
{
	unsigned access = NIC_ACCESS_WRITE | NIC_ACCESS_PEER_READ | NIC_ACCESS_PAGED;
	struct nic_memory from, to;
	struct port port;
	bool begins, within;

	NEED(port_choose(device, NULL, false, &port) == 0);
	if (!port.paging) {
		puts("no page faults");
		return;
	}
	NEED(one.nic->calls->register_memory(one.nic, one.bytes, BYTES, access, &from) == 0);
	NEED(two.nic->calls->register_memory(two.nic, two.bytes, BYTES, access, &to) == 0);
	begins = paged_read(&from, &to, 0);
	within = paged_read(&from, &to, 1000);
	printf("page faults: %s where a page begins, %s within one, used: %s\n", begins ? "right" : "wrong",
	       within ? "right" : "wrong", port.limits.can & NIC_CAN_PAGE_FAULT ? "yes" : "no");
	one.nic->calls->deregister(one.nic, &from);
	two.nic->calls->deregister(two.nic, &to);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		printf("usage: %s FROM TO\n", argv[0]);
		return 2;
	}
	registering();
	end_open(&one, argv[1]);
	end_open(&two, argv[2]);
	for (int round = 0; round < 2; round++) {
		end_begin(&one, 11);
		end_begin(&two, 22);
		join();
		sends();
		many();
		memory();
		sleeping();
		if (round == 0)
			paging(argv[1]);
		breaking();
	}
	stopping();
	limits();
	end_close(&one);
	end_close(&two);
	puts("well");
	return 0;
}
