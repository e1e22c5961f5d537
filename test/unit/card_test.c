/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints over simulated adapters: what does not grow with peers, what survives a queue, whose memory is used, and
 * that what is chosen without being told is as good as what would have been best. */
#include "carrier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/connection.h"
#include "unit.h"

enum { HOSTS = 40, BYTES = 1 << 20, QUEUES = 4 };

static struct bench {
	struct world world;
	struct network network;
	struct carrier carrier;
	struct process *process[HOSTS];
	uint32_t count;
	uint64_t ended, failed, end_ns;
	uint8_t *from, *to;
} bench;

static bool unwatched; /* the next ones have no monitor, */
static uint32_t bay;   /* and bays of so many bytes; 0: as usual */
static uint32_t few_slots; /* or many, to send from; 0: as usual */
static uint32_t works; /* that a queue takes; 0: as usual */
static bool beside;    /* they have links, too */

static void step(struct process *process)
{
	process->act_ns = UINT64_MAX;
}

static void complete(struct process *process, const struct thole_completion *completion)
{
	bench.ended++;
	bench.failed += completion->status != 0;
	if (completion->operation == THOLE_OP_RECEIVE)
		bench.end_ns = process->nic->nic.calls->now_ns(&process->nic->nic);
	if (completion->context)
		++*(uint32_t *)completion->context;
}

static const struct application application = {.step = step, .complete = complete};

/* Whether all of them have an adapter, of those beside links. */
static bool all_served(uint32_t hosts)
{
	for (uint32_t i = 0; i < hosts; i++)
		if (!carrier_serves(&bench.carrier, i))
			return false;
	return true;
}

static void begin(const char *model, uint32_t hosts, enum choose_way way, uint32_t queues)
{
	struct process_setup setup = {.application = &application, .codec = &codec_native};
	static struct nic_model adapter;

	memset(&bench, 0, sizeof(bench));
	world_init(&bench.world, 1, false);
	network_init(&bench.network, &bench.world, hosts);
	conditions_good(&bench.network.conditions);
	adapter = *nic_model_find(model);
	if (works)
		adapter.limits.works = works;
	carrier_init(&bench.carrier, &bench.network, &adapter);
	bench.carrier.monitor = !unwatched;
	bench.carrier.beside = beside;
	while (beside && !all_served(hosts))
		bench.world.seed++;
	bench.carrier.setup.way = way;
	bench.carrier.setup.queues = queues;
	if (bay) {
		bench.carrier.setup.bay = bay;
		bench.carrier.setup.cap = bay;
		bench.carrier.setup.bays = 2;
	}
	if (few_slots)
		bench.carrier.setup.slots = bench.carrier.setup.small = few_slots;
	assert_int_equal(options_defaults(&setup.options, NULL), 0);
	bench.count = hosts;
	for (uint32_t i = 0; i < hosts; i++)
		bench.process[i] = process_new(&bench.network, &bench.network.hosts[i], i, 0, &setup);
	bench.from = malloc(2 * BYTES);
	bench.to = malloc(2 * BYTES);
}

static void end(void)
{
	for (uint32_t i = 0; i < bench.count; i++)
		process_free(bench.process[i]); /* and its adapter says what is left */
	if (bench.world.failed)
		print_error("%s\n", bench.world.failure);
	assert_false(bench.world.failed);
	assert_int_equal(bench.failed, 0);
	carrier_fini(&bench.carrier);
	network_fini(&bench.network);
	world_fini(&bench.world);
	free(bench.from);
	free(bench.to);
}

static uint64_t counter(uint32_t process, enum counter counter)
{
	return bench.process[process]->endpoint->base.counters[counter];
}

static uint32_t handle_of(uint32_t from, uint32_t to)
{
	uint32_t peer;

	assert_int_equal(thole_peer(bench.process[from]->endpoint, &bench.process[to]->address, &peer), 0);
	return peer;
}

static void wake(void)
{
	for (uint32_t i = 0; i < bench.count; i++)
		process_wake(bench.process[i], bench.world.now_ns);
}

/* One message, compared. Returns what it took. */
static uint64_t message(uint32_t from, uint32_t to, uint64_t offset, uint64_t bytes)
{
	uint64_t start_ns, before = bench.ended;

	for (uint32_t i = 0; i < bench.count; i++)
		if (bench.world.now_ns < bench.process[i]->nic->cpu_ns)
			bench.world.now_ns = bench.process[i]->nic->cpu_ns;
	start_ns = bench.world.now_ns;
	for (uint64_t i = 0; i < bytes; i++)
		bench.from[offset + i] = (uint8_t)random_mix(start_ns + i);
	assert_int_equal(thole_recv(bench.process[to]->endpoint, THOLE_ANY, bench.to + offset, bytes, 1, UINT64_MAX, 0,
				    NULL, NULL), 0);
	assert_int_equal(thole_send(bench.process[from]->endpoint, handle_of(from, to), bench.from + offset, bytes, 1,
				    0, 0, NULL, NULL), 0);
	wake();
	world_run(&bench.world, UINT64_MAX);
	assert_int_equal(bench.ended, before + 2);
	assert_memory_equal(bench.from + offset, bench.to + offset, bytes);
	return bench.end_ns - start_ns;
}

/* One that is there after so long, whatever else is still to come. */
static void message_within(uint32_t from, uint32_t to, uint64_t bytes, uint64_t patience_ns)
{
	uint64_t before = bench.ended;

	assert_int_equal(thole_recv(bench.process[to]->endpoint, THOLE_ANY, bench.to, bytes, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	assert_int_equal(thole_send(bench.process[from]->endpoint, handle_of(from, to), bench.from, bytes, 1, 0, 0,
				    NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + patience_ns);
	assert_int_equal(bench.ended, before + 2);
}

/* Many peers, few queues: each is heard, and what is registered stays what it was. */
static void test_many_peers(void **state)
{
	uint64_t registered;

	(void)state;
	begin("ib-ddr", HOSTS, CHOOSE_PIPELINE, QUEUES);
	registered = bench.process[0]->nic->registered;
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 1; i < HOSTS; i++) {
			message(0, i, 0, 100);
			message(i, 0, 0, 100000);
			assert_true(bench.process[0]->nic->queues <= QUEUES);
		}
	assert_int_equal(bench.process[0]->nic->registered, registered);
	assert_true(counter(0, COUNTER_QUEUES_CLOSED) > 2 * (HOSTS - 1) - QUEUES - 1);
	end();
}

/* All to all, and each has a queue for one peer at a time: it carries something before another peer gets its place. */
static void test_crowd(void **state)
{
	enum { CROWD = 6, MESSAGES = 10, LONG = 300000 };
	uint64_t closed = 0, start_ns;

	(void)state;
	begin("ib-ddr", CROWD, CHOOSE_PIPELINE, 1);
	start_ns = bench.world.now_ns;
	for (uint32_t i = 0; i < MESSAGES * CROWD * CROWD; i++) {
		uint32_t from = i / CROWD % CROWD, to = i % CROWD;

		if (from == to)
			continue;
		assert_int_equal(thole_recv(bench.process[to]->endpoint, handle_of(to, from),
					    bench.to, LONG, 1, UINT64_MAX, 0, NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[from]->endpoint, handle_of(from, to), bench.from, LONG, 1, 0,
					    0, NULL, NULL), 0);
	}
	wake();
	world_run(&bench.world, start_ns + 2 * (uint64_t)SECOND);
	for (uint32_t i = 0; i < CROWD; i++)
		closed += counter(i, COUNTER_QUEUES_CLOSED);
	/* a host's line needs 8 ms for what it gets */
	assert_true(bench.end_ns - start_ns < 30 * (uint64_t)MILLISECOND);
	assert_int_equal(bench.ended, 2 * MESSAGES * CROWD * (CROWD - 1));
	assert_true(closed < MESSAGES * CROWD);
	end();
}

/* Whose queue gave way to another peer's before it was connected is asked again: somebody waits to hear that it is
 * connected, though no record does. */
static void test_crowded_out(void **state)
{
	uint32_t connected = 0, first, other;

	(void)state;
	begin("ib-ddr", 3, CHOOSE_PIPELINE, 1);
	first = bench.process[1]->id < bench.process[2]->id ? 1 : 2;
	other = 3 - first; /* by the order of endpoints it is given way to */
	process_compute(bench.process[first], 10 * (uint64_t)MILLISECOND);
	assert_int_equal(thole_connect(bench.process[0]->endpoint, handle_of(0, first), 0, &connected, NULL), 0);
	wake();
	message_within(other, 0, 8, 8 * (uint64_t)MILLISECOND);
	assert_int_equal(connected, 0);
	assert_true(counter(0, COUNTER_QUEUES_CLOSED) > 0);
	world_run(&bench.world, bench.world.now_ns + SECOND);
	assert_int_equal(connected, 1);
	end();
}

static const struct nic_calls *makes;
static int queue_refusal; /* what a queue of the pair of number 1 fails with */

static int queue_new_refused(struct nic *nic, uint32_t number, struct nic_queue **queue_p, struct nic_name *name_p)
{
	return number == 1 ? queue_refusal : makes->queue_new(nic, number, queue_p, name_p);
}

/* A queue is closed for another one where there is no room for that, and for no other failure. */
static void test_queue_refused(void **state)
{
	static const int refusals[] = {THOLE_ERR_SYSTEM, THOLE_ERR_MEMORY};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct nic_calls calls;
		uint64_t before;

		begin("ib-ddr", 3, CHOOSE_PIPELINE, QUEUES);
		message(0, 1, 0, 100);
		makes = bench.process[0]->nic->nic.calls;
		calls = *makes;
		calls.queue_new = queue_new_refused;
		bench.process[0]->nic->nic.calls = &calls;
		queue_refusal = refusals[i];
		before = bench.ended;
		assert_int_equal(thole_recv(bench.process[2]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 2), bench.from, 100, 1, 0, 0,
					    NULL, NULL), 0);
		wake();
		world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
		assert_int_equal(bench.ended, before);
		assert_int_equal(counter(0, COUNTER_QUEUES_CLOSED), i);
		bench.process[0]->nic->nic.calls = makes;
		world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
		assert_int_equal(bench.ended, before + 2);
		end();
	}
}

/* What was handled is told beside what goes the other way, or of several messages at once; where slots to send from are
 * few, at once. And the adapter reports one work in PERIOD. */
static void test_notes(void **state)
{
	enum { MESSAGES = 20, SLOTS = 8, PERIOD = CARD_SILENT + 1 };

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	for (uint32_t turn = 0; turn < 2; turn++) { /* there and back; one way */
		uint64_t before = counter(1, COUNTER_ACKS_SENT);

		for (uint32_t i = 0; i < MESSAGES; i++) {
			message_within(0, 1, 100, 50 * MICROSECOND);
			if (turn == 0)
				message_within(1, 0, 100, 50 * MICROSECOND);
		}
		assert_true(counter(1, COUNTER_ACKS_SENT) - before <= turn * MESSAGES / 10 + 1);
	}
	assert_true(bench.process[0]->nic->silent > MESSAGES);
	world_run(&bench.world, UINT64_MAX);
	end();
	works = 128; /* what port.c gives a queue */
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	works = 0;
	for (uint32_t i = 0; i < 4 * PERIOD; i++)
		message_within(0, 1, 100, i ? 50 * MICROSECOND : MILLISECOND);
	assert_in_range(bench.process[0]->nic->silent, 4 * (PERIOD - 1), 4 * PERIOD - 3); /* and a note that connects */
	world_run(&bench.world, UINT64_MAX);
	end();
	few_slots = SLOTS;
	begin("ib-ddr", HOSTS, CHOOSE_PIPELINE, HOSTS);
	few_slots = 0;
	for (uint32_t i = 1; i < HOSTS; i++)
		message(0, i, 0, 100);
	for (uint32_t i = 1; i < HOSTS; i++)
		message_within(0, i, 100, 50 * MICROSECOND);
	world_run(&bench.world, UINT64_MAX);
	end();
}

/* Who has few peers may send each of them much before it hears of any of it; and who closes hears at once. */
static void test_credit(void **state)
{
	enum { MESSAGES = 100 };
	uint64_t told;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0,
					    NULL, NULL), 0);
	}
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	world_run(&bench.world, bench.world.now_ns + 200 * MICROSECOND);
	assert_int_equal(bench.ended, 2 + 2 * MESSAGES);
	wake();
	world_run(&bench.world, bench.world.now_ns + 20 * MICROSECOND);
	message_within(0, 1, 100, 50 * MICROSECOND);
	told = counter(1, COUNTER_ACKS_SENT);
	assert_int_equal(thole_tend(bench.process[0]->endpoint), 2); /* who only looks asks for nothing */
	assert_int_equal(thole_tend(bench.process[1]->endpoint), 2);
	world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
	assert_int_equal(counter(1, COUNTER_ACKS_SENT), told);
	assert_false(endpoint_drained(bench.process[0]->endpoint));
	endpoint_hasten(bench.process[0]->endpoint);
	world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
	assert_true(endpoint_drained(bench.process[0]->endpoint));
	message_within(0, 1, 100, 50 * MICROSECOND);
	assert_int_equal(thole_tend(bench.process[0]->endpoint), 2);
	pair_break(pair_of(&bench.process[0]->endpoint->peers[handle_of(0, 1)]->base));
	assert_int_equal(thole_tend(bench.process[0]->endpoint), 1); /* it needs another queue */
	wake();
	world_run(&bench.world, UINT64_MAX);
	assert_int_equal(thole_tend(bench.process[0]->endpoint), 0);
	end();
}

/* Who sends by and by and looks at nothing asks for news once when its slots get few, not with each record. */
static void test_asks_once(void **state)
{
	enum { MESSAGES = 60, SLOTS = 64 };
	uint64_t told;

	(void)state;
	few_slots = SLOTS;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	few_slots = 0;
	message(0, 1, 0, 100);
	told = counter(1, COUNTER_ACKS_SENT);
	process_compute(bench.process[0], 1000 * MILLISECOND);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0,
					    NULL, NULL), 0);
		world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
		assert_int_equal(bench.ended, 2 + 2 * (i + 1));
	}
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	assert_int_equal(counter(1, COUNTER_ACKS_SENT) - told, 1);
	world_run(&bench.world, UINT64_MAX);
	end();
}

/* 0 sends so many of such a length to 1, one after the other, and looks at nothing by itself. Returns how many notes
 * that makes. */
static uint64_t notes_of(uint32_t messages, uint32_t length)
{
	uint64_t told = counter(1, COUNTER_ACKS_SENT), ended = bench.ended;

	process_compute(bench.process[0], 1000 * MILLISECOND);
	for (uint32_t i = 0; i < messages; i++) {
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, length, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, length, 1, 0,
					    THOLE_INJECT, NULL, NULL), 0);
		world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
		assert_int_equal(bench.ended, ended + 2 * (i + 1));
	}
	return counter(1, COUNTER_ACKS_SENT) - told;
}

/* Who looks at nothing after what it sends never finds that there is no room: before it comes to that, of whatever room
 * is made, its sends look. It asks for nothing, since notes come by themselves: when three quarters of its share of 192
 * are used; but for slots of long records, of which there are fewer than that. */
static void test_never_looks(void **state)
{
	enum { MESSAGES = 1000, SHARE = 192, NOTE_EACH = 144, LONG = 1000, LONG_EACH = 96, WORKS = 64, FEW = 5 };
	const struct card *card;
	uint64_t notes;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES); /* slots */
	message(0, 1, 0, 100);
	notes = notes_of(MESSAGES, 100);
	assert_in_range(notes, MESSAGES / NOTE_EACH, MESSAGES / NOTE_EACH + 1);
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	world_run(&bench.world, UINT64_MAX);
	notes = notes_of(MESSAGES, LONG);
	assert_in_range(notes, MESSAGES / LONG_EACH, MESSAGES / LONG_EACH + 1);
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	world_run(&bench.world, UINT64_MAX);
	card_of(&bench.process[0]->endpoint->base)->works_most = WORKS; /* works */
	card_of(&bench.process[0]->endpoint->base)->works_few = WORKS / 4 * 3;
	notes_of(MESSAGES, 100);
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	world_run(&bench.world, UINT64_MAX);
	end();
	few_slots = SHARE; /* get few with the record behind the one that has a note come */
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	few_slots = 0;
	message(0, 1, 0, 100);
	notes = notes_of(MESSAGES, 100);
	assert_in_range(notes, MESSAGES / NOTE_EACH, MESSAGES / NOTE_EACH + 1);
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	world_run(&bench.world, UINT64_MAX);
	end();
	begin("ib-ddr", FEW, CHOOSE_PIPELINE, 4 * FEW); /* credit */
	for (uint32_t i = 2; i < FEW; i++)
		message(i, 1, 0, 100);
	message(0, 1, 0, 100);
	message(0, 1, 0, 100);
	card = card_of(&bench.process[1]->endpoint->base);
	assert_int_equal(card->share, card->setup.receives / (2 * (FEW - 1)));
	notes_of(MESSAGES, 100);
	assert_int_equal(counter(0, COUNTER_RING_STALLS), 0);
	world_run(&bench.world, UINT64_MAX);
	end();
}

/* What goes inline, with all that may stand in front of it, is sent from slots of its own, which are not registered. */
static void test_small_slots(void **state)
{
	enum { FRONT = sizeof(struct head_short), LAST = CARD_SMALL + 8 };
	struct card *card;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	world_run(&bench.world, UINT64_MAX);
	card = card_of(&bench.process[0]->endpoint->base);
	assert_in_range(card->nic->limits.inline_max, FRONT + 1, CARD_SMALL - 1);
	for (uint32_t length = 0; length < LAST; length++) {
		uint32_t large = card->large.count, small = card->small.count;
		bool is_small = FRONT + length <= card->nic->limits.inline_max;

		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, length, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, length, 1, 0, 0,
					    NULL, NULL), 0);
		assert_int_equal(small - card->small.count, is_small);
		assert_int_equal(large - card->large.count, !is_small);
		wake();
		world_run(&bench.world, UINT64_MAX);
		assert_memory_equal(bench.from, bench.to, length);
	}
	end();
}

/* What was under way goes on by the next queue, where it was: not from its beginning. */
static void test_next_queue(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		uint64_t before, bytes;

		begin(i ? "iwarp" : "ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
		message(0, 1, 0, BYTES);
		before = bench.ended;
		bytes = bench.carrier.fabric.bytes;
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, BYTES, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, BYTES, 1, 0, 0,
					    NULL, NULL), 0);
		memset(bench.to, 0, BYTES);
		wake();
		while (bench.carrier.fabric.bytes < bytes + BYTES / 2)
			world_run(&bench.world, bench.world.now_ns + MICROSECOND);
		assert_int_equal(bench.ended, before);
		pair_break(pair_of(&bench.process[0]->endpoint->peers[handle_of(0, 1)]->base));
		wake();
		world_run(&bench.world, UINT64_MAX);
		assert_int_equal(bench.ended, before + 2);
		assert_memory_equal(bench.from, bench.to, BYTES);
		assert_true(counter(0, COUNTER_QUEUES_MADE) == 2 && counter(1, COUNTER_QUEUES_MADE) == 2);
		assert_true(bench.carrier.fabric.bytes - bytes < BYTES + BYTES / 3);
		end();
	}
}

/* More windows at once than a queue has room for works: those whose reads found none are read when there is some. */
static void test_many_reads(void **state)
{
	enum { WINDOWS = 600, LENGTH = 16384 };
	uint32_t peer;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	peer = handle_of(0, 1);
	message(0, 1, 0, LENGTH);
	for (int i = 0; i < WINDOWS; i++)
		assert_int_equal(thole_send(bench.process[0]->endpoint, peer, bench.from, LENGTH, 1, 0, 0, NULL, NULL),
				 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND); /* they are told of */
	for (int i = 0; i < WINDOWS; i++)
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, LENGTH, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 1000 * MILLISECOND);
	assert_int_equal(bench.ended, 2 + 2 * WINDOWS);
	assert_int_equal(counter(1, COUNTER_BULK_READ), 1 + WINDOWS);
	assert_memory_equal(bench.from, bench.to, LENGTH);
	end();
}

static const struct nic_calls *usual;
static int refusal; /* of the next send; 0: none */

static int post_or_refuse(struct nic_queue *queue, const struct nic_work *work)
{
	int status = work->operation == NIC_SEND ? refusal : 0;

	refusal = status ? 0 : refusal;
	return status ? status : usual->post(queue, work);
}

static void nobody_woken(void *arg, uint64_t when_ns)
{
	(void)arg, (void)when_ns;
}

/* An adapter that takes no note inline is of no use: each queue would break at the first one. */
static void test_no_inline(void **state)
{
	struct card_setup setup;
	struct sim_nic *nic;

	(void)state;
	begin("ib-ddr", 1, CHOOSE_READ, QUEUES);
	card_setup_default(&setup);
	nic = sim_nic_open(&bench.carrier.fabric, nobody_woken, NULL);
	nic->nic.limits.inline_max = sizeof(struct head) - 1;
	assert_int_equal(card_open(&bench.process[0]->endpoint->base, &nic->nic, &setup, &bench.carrier.calls, NULL),
			 THOLE_ERR_UNSUPPORTED);
	end();
}

/* A read is no longer than the adapter's works may be. */
static void test_short_works(void **state)
{
	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	bench.process[1]->nic->nic.limits.length_max = 100000;
	message(0, 1, 0, BYTES);
	end();
}

/* What the adapter does not take goes later, or by the next queue, and what comes behind it does not overtake it. */
static void test_post_refused(void **state)
{
	static const int refusals[] = {THOLE_ERR_AGAIN, THOLE_ERR_SYSTEM};
	struct nic_calls calls;
	struct nic *nic;

	(void)state;
	for (int i = 0; i < 2; i++) {
		begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
		message(0, 1, 0, 100);
		nic = &bench.process[0]->nic->nic;
		usual = nic->calls;
		calls = *usual;
		calls.post = post_or_refuse;
		nic->calls = &calls;
		refusal = refusals[i];
		message_within(0, 1, 100, 10 * MILLISECOND);
		message_within(0, 1, 100, 10 * MILLISECOND);
		assert_int_equal(refusal, 0);
		assert_int_equal(counter(0, COUNTER_QUEUES_MADE), 1 + i);
		assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 0);
		nic->calls = usual;
		end();
	}
}

static unsigned receives_room = UINT32_MAX; /* that the adapter takes */

static unsigned receives_or_fewer(struct nic *nic, const struct nic_segment *segments, const uint64_t *ids,
				  unsigned count)
{
	unsigned taken = usual->post_receives(nic, segments, ids, count < receives_room ? count : receives_room);

	receives_room -= taken;
	return taken;
}

/* By an adapter that waits for no receive, what all queues that may be there are granted at a time has room, with notes
 * and chunks: however few there are now. */
static void test_strict(void **state)
{
	enum { NOTES = 3 }; /* of a queue, beside those for our records */
	const struct card *card;
	const struct card_setup *setup;

	(void)state;
	begin("iwarp", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	card = pair_of(&bench.process[1]->endpoint->peers[handle_of(1, 0)]->base)->card;
	setup = &card->setup;
	assert_int_equal(card->queue_count, 1);
	assert_true(card->share >= 2);
	assert_int_equal(setup->small, 0); /* each slot would take a receive for its note */
	assert_true(setup->queues * (card->share + NOTES) + setup->slots + setup->bays + card->empty_most <=
		    setup->receives);
	end();
}

/* Receives that the adapter refuses for some time are posted later: none is lost, though nothing comes meanwhile. */
static void test_receives_refused(void **state)
{
	enum { MESSAGES = 1000 };
	const struct card *card;
	struct nic_calls calls;
	struct nic *nic;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	bench.ended = 0;
	card = pair_of(&bench.process[1]->endpoint->peers[handle_of(1, 0)]->base)->card;
	nic = &bench.process[1]->nic->nic;
	usual = nic->calls;
	calls = *usual;
	calls.post_receives = receives_or_fewer;
	nic->calls = &calls;
	for (int i = 0; i < MESSAGES; i++) {
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0,
					    NULL, NULL), 0);
	}
	receives_room = 5;
	wake();
	world_run(&bench.world, bench.world.now_ns + 20 * MILLISECOND);
	assert_int_equal(receives_room, 0);
	assert_true(bench.ended < 2 * MESSAGES); /* there were no more receives than these */
	receives_room = UINT32_MAX;
	world_run(&bench.world, bench.world.now_ns + 20 * MILLISECOND);
	assert_int_equal(bench.ended, 2 * MESSAGES);
	assert_int_equal(bench.process[1]->nic->receive_count + card->empty_count, card->setup.receives);
	nic->calls = usual;
	end();
}

static unsigned posts, posts_room;

static int post_and_count(struct nic_queue *queue, const struct nic_work *work)
{
	if (posts_room == 0)
		return THOLE_ERR_AGAIN;
	posts_room--;
	posts++;
	return usual->post(queue, work);
}

/* What goes again to a new queue goes once, also where that has room for a part at a time. */
static void test_again_in_parts(void **state)
{
	enum { MESSAGES = 20, ROOM = 7 };
	struct nic_calls calls;
	struct pair *pair;
	struct nic *nic;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	for (int i = 0; i < MESSAGES; i++)
		message_within(0, 1, 4000, 50 * MICROSECOND);
	nic = &bench.process[0]->nic->nic;
	usual = nic->calls;
	calls = *usual;
	calls.post = post_and_count;
	nic->calls = &calls;
	pair = pair_of(&bench.process[0]->endpoint->peers[handle_of(0, 1)]->base);
	pair->again = true; /* as if the queue were a new one, and the peer had not told of these */
	posts = 0;
	for (int i = 0; pair->again; i++) {
		assert_true(i < MESSAGES);
		posts_room = ROOM;
		pair->again_at = i == 0 ? 0 : pair->again_at;
		records_again(pair, 1, UINT16_MAX);
	}
	assert_int_equal(posts, MESSAGES);
	nic->calls = usual;
	world_run(&bench.world, UINT64_MAX);
	assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 0);
	message(0, 1, 0, 100);
	end();
}

/* What a message of this length, tag and flags takes on the wire. */
static uint64_t bytes_long(uint32_t length, uint64_t tag, unsigned flags)
{
	uint64_t before = bench.carrier.fabric.bytes, ended = bench.ended;

	for (uint32_t i = 0; i < length; i++)
		bench.from[i] = (uint8_t)random_mix(before + tag + i);
	memset(bench.to, 0, length);
	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, length, tag, UINT64_MAX, 0, NULL,
				    NULL), 0);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, length, tag, 0, flags,
				    NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
	assert_int_equal(bench.ended, ended + 2);
	assert_memory_equal(bench.from, bench.to, length);
	return bench.carrier.fabric.bytes - before;
}

static uint64_t bytes_with(uint64_t tag, unsigned flags)
{
	return bytes_long(100, tag, flags);
}

static uint64_t bytes_of(uint64_t tag)
{
	return bytes_with(tag, 0);
}

/* What is less than a head has the word that goes without a front behind it, by each adapter. */
static void test_tiny_messages(void **state)
{
	enum { WORD = 4, TINY = sizeof(struct head) - WORD };
	static const char *const adapters[] = {"ib-ddr", "iwarp"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct nic_segment segment = {.length = WORD - 1};
		struct nic_work work = {.operation = NIC_SEND, .flags = NIC_POST_INLINE, .count = 1,
					.segments = &segment, .id = work_id(WORK_NOTE, 0)};
		struct pair *pair;

		begin(adapters[i], 2, CHOOSE_PIPELINE, QUEUES);
		message(0, 1, 0, 100);
		assert_int_equal(bytes_long(8, 5, 0), 8 + sizeof(struct head_short));
		for (uint32_t length = 0; length < TINY; length++)
			assert_int_equal(bytes_long(length, 5, 0), length + WORD);
		/* one byte more, and the word is beside it, or the front before it */
		assert_int_equal(bytes_long(TINY, 5, 0), i == 0 ? TINY : TINY + sizeof(struct head_short));
		assert_int_equal(bytes_long(8, 5, 0), 8 + WORD);
		for (int n = 0; n < 300; n++) /* through all that may be granted */
			assert_true(bytes_long(8, 5, 0) <= 8 + WORD + sizeof(struct head));
		assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 0);
		/* less than the word */
		segment.address = bench.from;
		pair = pair_of(&bench.process[0]->endpoint->peers[handle_of(0, 1)]->base);
		assert_int_equal(pair_post(pair, &work), 0);
		wake();
		world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
		assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 1);
		bench.failed = 0;
		end();
	}
}

/* A message like the one before goes without what stands in front of it: not to a new queue, not behind what is no
 * whole message, and not by an adapter without immediate data. */
static void test_like_messages(void **state)
{
	enum { WHOLE = 100 + sizeof(struct head_short) };
	struct pair *pair;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	assert_int_equal(bytes_of(5), WHOLE);
	assert_int_equal(bytes_of(5), 100);
	assert_int_equal(bytes_of(6), WHOLE);
	assert_int_equal(bytes_of(6), 100);
	assert_int_equal(bytes_with(6, THOLE_IMM), WHOLE); /* immediate data of 0 is not none */
	assert_int_equal(bytes_with(6, THOLE_IMM), 100);
	assert_int_equal(bytes_of(6), WHOLE);
	message(0, 1, 0, 100000); /* with tag 1 */
	assert_int_equal(bytes_of(6), WHOLE);
	assert_int_equal(bytes_of(6), 100);
	pair_break(pair_of(&bench.process[0]->endpoint->peers[handle_of(0, 1)]->base));
	message(0, 1, 0, 10); /* by the next queue */
	assert_int_equal(bytes_of(1), 100);
	for (int i = 0; i < 300; i++) /* through all that may be granted */
		assert_true(bytes_of(1) <= 100 + sizeof(struct head));
	pair = pair_of(&bench.process[1]->endpoint->peers[handle_of(1, 0)]->base);
	for (int i = 1; i <= 2; i++) {
		if (i == 1) /* as if the peer had handled what was never sent, */
			pair_of(&bench.process[0]->endpoint->peers[handle_of(0, 1)]->base)->expected += 1000;
		else /* or left out what it has never sent */
			records_anew(pair);
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0, NULL,
					    NULL), 0);
		wake();
		world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
		assert_int_equal(counter(1, COUNTER_BAD_RECORDS), i);
	}
	bench.failed = 0;
	end();
	begin("iwarp", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	assert_int_equal(bytes_of(5), WHOLE);
	assert_int_equal(bytes_of(5), WHOLE);
	end();
}

enum { UNAWAITED = 3000 };

/* A message that nobody awaits. Returns whether it came with its data. */
static bool comes_whole(uint32_t from, uint32_t to)
{
	uint64_t before = counter(to, COUNTER_UNEXPECTED_BYTES);

	assert_int_equal(thole_send(bench.process[from]->endpoint, handle_of(from, to), bench.from, UNAWAITED, 9, 0, 0,
				    NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 50 * MICROSECOND);
	return counter(to, COUNTER_UNEXPECTED_BYTES) > before;
}

/* Who holds more bytes that nobody awaits than he may has the others say no more than that there are some, after their
 * next message, until half of it is free again. It is in each head, and in the front that messages go without. */
static void test_backpressure(void **state)
{
	enum { MOST = 10 * UNAWAITED };

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	bench.process[0]->endpoint->base.options.unexpected_max = MOST;
	message(0, 1, 0, 100);
	message(1, 0, 0, 100);
	for (int i = 0; i <= MOST / UNAWAITED + 1; i++)
		assert_true(comes_whole(1, 0));
	assert_false(comes_whole(1, 0));
	assert_true(comes_whole(0, 1)); /* that is one's own affair */
	for (int i = 0; i < 3; i++)
		bytes_of(5);
	assert_false(comes_whole(1, 0));
	for (int i = 0; i < MOST / UNAWAITED + 4; i++)
		assert_int_equal(thole_recv(bench.process[0]->endpoint, THOLE_ANY, bench.to, UNAWAITED, 9, UINT64_MAX,
					    0, NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND);
	assert_int_equal(counter(0, COUNTER_UNEXPECTED_BYTES), 0);
	comes_whole(1, 0);
	assert_true(comes_whole(1, 0));
	end();
}

/* Two processes with connections beside their adapters, and records of 0 to 1 by the queue. */
static void begin_beside_of(const char *model, enum choose_way way)
{
	beside = true;
	begin(model, 2, way, QUEUES);
	beside = false;
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0, NULL, NULL),
			 0);
	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 10 * MILLISECOND);
	assert_int_equal(counter(0, COUNTER_VERBS_MESSAGES), 0);
	message_within(0, 1, 100, MILLISECOND);
	assert_int_equal(counter(0, COUNTER_VERBS_MESSAGES), 1);
}

static void begin_beside_by(enum choose_way way)
{
	begin_beside_of("ib-ddr", way);
}

static void begin_beside(void)
{
	begin_beside_by(CHOOSE_PIPELINE);
}

static struct pair *pair_between(uint32_t from, uint32_t to)
{
	return pair_of(&bench.process[from]->endpoint->peers[handle_of(from, to)]->base);
}

static struct pair *asking; /* what it sends is refused from the first one on that asks what was handled */
static bool refusing;

static int post_asks_in_vain(struct nic_queue *queue, const struct nic_work *work)
{
	if (work->operation == NIC_SEND && asking->asked == asking->next)
		refusing = true;
	return work->operation == NIC_SEND && refusing ? THOLE_ERR_AGAIN : usual->post(queue, work);
}

/* What the head of a record that finds no room would have said, and asked, is said and asked all the same. */
static void test_refused_owes(void **state)
{
	struct nic_calls calls;
	struct pair *pair;
	struct nic *nic;

	(void)state;
	few_slots = 8;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	few_slots = 0;
	message(0, 1, 0, 100);
	message_within(1, 0, 100, 50 * MICROSECOND);
	pair = pair_between(0, 1);
	nic = &bench.process[0]->nic->nic;
	usual = nic->calls;
	calls = *usual;
	calls.post = post_asks_in_vain;
	nic->calls = &calls;
	asking = pair;
	refusing = true;
	assert_true(pair->owed_ns != UINT64_MAX);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 8, 1, 0,
				    THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	assert_true(pair->owed_ns != UINT64_MAX);
	refusing = false;
	wake();
	world_run(&bench.world, bench.world.now_ns + SECOND);
	assert_int_equal(pair->owed_ns, UINT64_MAX);
	process_compute(bench.process[1], 100 * MILLISECOND);
	for (int i = 0; i < 8 && !refusing; i++)
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 8, 1, 0,
					    THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	assert_true(refusing);
	assert_true(pair->asked <= records_first(pair));
	nic->calls = usual;
	world_run(&bench.world, UINT64_MAX);
	end();
}

/* Who asks for a window by the queue is answered by it alone. Where that breaks before the answer, and its owner's
 * records go by the connection meanwhile, the answer comes by no way: the window is had by the next queue. */
static void test_answer_lost(void **state)
{
	struct thole_endpoint *receiver;
	uint64_t before;

	(void)state;
	unwatched = true; /* so that nothing is lent unasked */
	begin_beside_by(CHOOSE_READ);
	unwatched = false;
	message_within(1, 0, 100, 20 * MILLISECOND);
	receiver = bench.process[1]->endpoint;
	before = bench.ended;
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, BYTES, 1, 0, 0, NULL,
				    NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND); /* the window was told of */
	assert_int_equal(pair_between(1, 0)->way, WAY_QUEUE);
	process_compute(bench.process[0], MILLISECOND);
	assert_int_equal(thole_recv(receiver, THOLE_ANY, bench.to, BYTES, 1, UINT64_MAX, 0, NULL, NULL), 0);
	process_wake(bench.process[1], bench.world.now_ns);
	world_run(&bench.world, bench.world.now_ns + MILLISECOND / 2); /* it is asked for */
	pair_between(0, 1)->way = WAY_NETWORK;                        /* as who was over, and is back there */
	pair_break(pair_between(0, 1));
	wake();
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	assert_int_equal(bench.ended, before + 2);
	assert_memory_equal(bench.from, bench.to, BYTES);
	end();
}

/* The order in which messages came. */
enum { MESSAGES = 256 };
static uint64_t came[MESSAGES], came_count;

static void complete_in_order(struct process *process, const struct thole_completion *completion)
{
	complete(process, completion);
	if (completion->operation == THOLE_OP_RECEIVE && came_count < MESSAGES)
		came[came_count++] = completion->tag;
}

/* What was sent as the way went from the connection to the queue is under way, though its sender looks at nothing any
 * more; and it is there in order. */
static void test_sender_leaves(void **state)
{
	static const struct application ordered = {.step = step, .complete = complete_in_order};
	uint32_t sent = 0, peer;
	struct pair *pair;

	(void)state;
	came_count = 0;
	beside = true;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	beside = false;
	bench.process[1]->application = &ordered;
	peer = handle_of(0, 1);
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 0, 0, 0, NULL, NULL),
				 0);
	do { /* one after the other by the connection, until the queue is there */
		if (came_count == sent)
			assert_int_equal(thole_send(bench.process[0]->endpoint, peer, bench.from, 100, sent++, 0,
						    THOLE_INJECT, NULL, NULL), 0);
		wake();
		world_run(&bench.world, bench.world.now_ns + MICROSECOND);
		pair = pair_of(&bench.process[0]->endpoint->peers[peer]->base);
	} while (sent < MESSAGES - 3 && !(pair && pair->state == PAIR_OPEN && pair->proven));
	assert_false(list_empty(&connection_of(pair->peer)->out.unacked)); /* of the last one */
	bench.network.conditions.latency_ns = 5 * MILLISECOND; /* the last word by the connection comes late */
	assert_int_equal(counter(0, COUNTER_VERBS_MESSAGES), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(thole_send(bench.process[0]->endpoint, peer, bench.from, 100, sent++, 0,
					    THOLE_INJECT, NULL, NULL), 0);
	process_advance(bench.process[0]);
	process_compute(bench.process[0], 1000 * MILLISECOND);
	world_run(&bench.world, bench.world.now_ns + MILLISECOND);
	assert_int_equal(came_count, sent - 3); /* which are there, and wait for it */
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	assert_int_equal(came_count, sent);
	for (uint32_t i = 0; i < sent; i++)
		assert_int_equal(came[i], i);
	assert_int_equal(counter(0, COUNTER_VERBS_MESSAGES), 3);
	end();
}

/* Who sends by the queue hears nothing by the connection, nor does who gets by it: as long as it is that queue. */
static void test_by_queue(void **state)
{
	(void)state;
	begin_beside();
	assert_int_equal(bench.process[0]->endpoint->base.queues, 1);
	assert_int_equal(bench.process[1]->endpoint->base.queues, 1);
	pair_break(pair_of(&bench.process[1]->endpoint->peers[handle_of(1, 0)]->base));
	wake();
	world_run(&bench.world, bench.world.now_ns + 10 * MILLISECOND);
	assert_int_equal(bench.process[1]->endpoint->base.queues, 0);
	message_within(0, 1, 100, 10 * MILLISECOND);
	assert_int_equal(bench.process[1]->endpoint->base.queues, 1);
	end();
}

/* Who waits for what a peer has got by the queue hears of its death by the connection. */
static void test_death(void **state)
{
	uint64_t before;

	(void)state;
	begin_beside();
	world_run(&bench.world, bench.world.now_ns + 60 * (uint64_t)SECOND); /* nobody looks at the connection now */
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, THOLE_SYNC,
				    NULL, NULL), 0);
	assert_int_equal(counter(0, COUNTER_VERBS_MESSAGES), 2);
	wake();
	world_run(&bench.world, bench.world.now_ns + SECOND);
	before = bench.ended;
	process_crash(bench.process[1]);
	world_run(&bench.world, bench.world.now_ns + 30 * (uint64_t)SECOND);
	assert_int_equal(bench.ended, before + 1);
	assert_int_equal(bench.failed, 1);
	assert_int_equal(bench.process[0]->endpoint->base.queues, 0);
	bench.failed = 0;
	end();
}

/* Where the ends of a queue see each other's, that of who closes has not failed, though his word of it comes later;
 * that of who lives has. */
static void test_end_seen(void **state)
{
	struct transport_peer *peer;

	(void)state;
	begin_beside_of("iwarp", CHOOSE_PIPELINE);
	message_within(1, 0, 100, 20 * MILLISECOND);
	pair_break(pair_between(1, 0));
	wake();
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	message_within(0, 1, 100, 100 * MILLISECOND);
	assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN), 1);
	peer = pair_between(0, 1)->peer;
	world_run(&bench.world, bench.world.now_ns + SECOND); /* it is told that it was handled */
	bench.network.conditions.latency_ns = 5 * MILLISECOND;
	process_close(bench.process[1]);
	for (int i = 0; i < 20; i++) {
		process_wake(bench.process[0], bench.world.now_ns);
		world_run(&bench.world, bench.world.now_ns + MILLISECOND / 10);
	}
	assert_null(pair_of(peer)->queue); /* it is seen */
	assert_false(peer->gone);
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	assert_true(peer->gone);
	assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN), 1);
	end();
}

/* Who has asked has it open as soon as the adapters are connected. That the other end gives up waiting, who has heard
 * nothing by it, breaks none. */
static void test_given_up(void **state)
{
	uint32_t asker = 2;

	(void)state;
	beside = true;
	begin("iwarp", 2, CHOOSE_PIPELINE, QUEUES);
	beside = false;
	(void)handle_of(1, 0);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0, NULL, NULL),
			 0);
	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	for (int i = 0; i < 10000 && asker == 2; i++) {
		wake();
		world_run(&bench.world, bench.world.now_ns + MICROSECOND / 4);
		for (uint32_t j = 0; j < 2; j++)
			if (pair_between(j, 1 - j) && pair_between(j, 1 - j)->state == PAIR_OPEN)
				asker = j;
	}
	assert_in_range(asker, 0, 1);
	assert_false(pair_between(asker, 1 - asker)->proven);
	assert_int_equal(pair_between(1 - asker, asker)->state, PAIR_ASKING);
	pair_give_up(pair_between(1 - asker, asker));
	wake();
	world_run(&bench.world, bench.world.now_ns + SECOND);
	message(0, 1, 0, 100);
	wake();
	world_run(&bench.world, bench.world.now_ns + SECOND);
	message(0, 1, 0, 100);
	message(1, 0, 0, 100);
	assert_true(pair_between(asker, 1 - asker)->proven);
	assert_true(counter(asker, COUNTER_QUEUES_MADE) > 1);
	assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN) + counter(1, COUNTER_QUEUES_BROKEN), 0);
	end();
}

/* Whose queue was connected to a peer's that then says nothing, and is given up, has nothing to do in each turn. */
static void test_never_opened(void **state)
{
	struct pair *pair = NULL;
	uint32_t caller = 2;

	(void)state;
	beside = true;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	beside = false;
	(void)handle_of(1, 0);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, THOLE_INJECT,
				    NULL, NULL), 0);
	for (int i = 0; i < 10000 && caller == 2; i++) {
		wake();
		world_run(&bench.world, bench.world.now_ns + MICROSECOND / 4);
		for (uint32_t j = 0; j < 2; j++) {
			pair = pair_between(j, 1 - j);
			if (pair && pair->state == PAIR_ASKING && pair->connected)
				caller = j;
		}
	}
	assert_in_range(caller, 0, 1);
	pair = pair_between(caller, 1 - caller);
	process_compute(bench.process[1 - caller], 1000 * MILLISECOND);
	pair_give_up(pair);
	for (int i = 0; i < 1000 && pair->queue; i++) {
		process_wake(bench.process[caller], bench.world.now_ns);
		world_run(&bench.world, bench.world.now_ns + MICROSECOND);
	}
	assert_int_equal(pair->state, PAIR_IDLE);
	process_wake(bench.process[caller], bench.world.now_ns);
	world_run(&bench.world, bench.world.now_ns + MICROSECOND);
	assert_false(pair_is_busy(pair));
	assert_true(card_delivers(pair->card));
	end();
}

/* Each way ends well though one work in ten breaks its queue, with immediate data and without. */
static void test_queues_break(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		begin(i & 1 ? "iwarp" : "ib-ddr", 2, i & 2 ? CHOOSE_READ : CHOOSE_PIPELINE, QUEUES);
		bench.carrier.fabric.faults.error = 100000;
		for (int j = 0; j < 40; j++)
			message(j & 1, !(j & 1), 0, j % 3 ? BYTES : 1000);
		assert_true(counter(0, COUNTER_QUEUES_BROKEN) > 0);
		assert_true(counter(0, COUNTER_QUEUES_MADE) > 1);
		assert_int_equal(counter(0, COUNTER_BAD_RECORDS) + counter(1, COUNTER_BAD_RECORDS), 0);
		end();
	}
}

/* A message that is whole and has no more to say than its tag: of what comes nothing else is taken for one. */
static void test_short_records(void **state)
{
	const struct {
		uint16_t flags, head, record;
		bool good;
	} cases[] = {{HEAD_RECORD | HEAD_SHORT, 8, 0, true},
		     {HEAD_RECORD | HEAD_SHORT, 0, 0, true},
		     {HEAD_RECORD | HEAD_SHORT | HEAD_SOON, RECORD_INLINE_MAX, 0, true},
		     {HEAD_RECORD | HEAD_SHORT | RECORD_IMM << HEAD_RECORD_FLAGS, RECORD_INLINE_MAX + 1, 0, true},
		     {HEAD_RECORD | HEAD_SHORT | RECORD_MORE << HEAD_RECORD_FLAGS, 8, 0, false},
		     {HEAD_RECORD | HEAD_SHORT | RECORD_SYNC << HEAD_RECORD_FLAGS, RECORD_INLINE_MAX + 1, 0, false},
		     {HEAD_RECORD | HEAD_SHORT | RECORD_WINDOW << HEAD_RECORD_FLAGS, 8, 0, false},
		     {HEAD_RECORD | RECORD_IMM << HEAD_RECORD_FLAGS, 8, RECORD_EXTERNAL, false},
		     {HEAD_SHORT, 8, 0, false},
		     {HEAD_RECORD | HEAD_SHORT | HEAD_LENT, 8, 0, false},
		     {HEAD_RECORD, 8, 8, false}};
	_Alignas(64) uint8_t bytes[256] = {0};
	uint64_t bad = 0, good = 0, before;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, 8);
	before = counter(1, COUNTER_UNEXPECTED);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct pair *pair = pair_of(&bench.process[1]->endpoint->peers[handle_of(1, 0)]->base);
		struct head head = {.number = (uint32_t)pair->expected, .flags = cases[i].flags,
				    .length = cases[i].head};
		struct record record = {.kind = RECORD_EAGER, .length = cases[i].record, .tag = 77};
		bool brief = head.flags & HEAD_SHORT;

		memcpy(bytes, &head, sizeof(head));
		memcpy(bytes + sizeof(head), brief ? (void *)&record.tag : &record, brief ? 16 : sizeof(record));
		records_arrived(pair, bytes, (uint32_t)sizeof(head) + (brief ? 16 : 64) +
						     (head.flags & HEAD_LENT ? 16 : 0) + head.length);
		bad += !cases[i].good;
		good += cases[i].good;
		assert_int_equal(counter(1, COUNTER_BAD_RECORDS), bad);
		assert_int_equal(counter(1, COUNTER_UNEXPECTED), before + good);
	}
	end();
}

/* Who has lost a peer says so to it: that it is gone, not that it has closed. */
static void test_lost(void **state)
{
	struct thole_endpoint *endpoint;
	struct transport_peer *peer;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	endpoint = bench.process[1]->endpoint;
	endpoint->base.up->lost(&endpoint->peers[handle_of(1, 0)]->base, THOLE_ERR_MEMORY);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 8, 1, 0, 0, NULL, NULL),
			 0);
	wake();
	world_run(&bench.world, UINT64_MAX);
	peer = &bench.process[0]->endpoint->peers[handle_of(0, 1)]->base;
	assert_true(peer->gone && peer->gone_status == THOLE_ERR_PEER);
	bench.failed = 0;
	end();
}

/* Whose receives are shorter than the records that it would get has no queue: the other way is left to it. */
static void test_short_receives(void **state)
{
	struct hello hello = {.share = 16, .bays = 4, .bay = PLAN_BLOCK, .name.length = 8};
	uint8_t bytes[HELLO_MAX];
	struct transport_peer *peer;
	uint64_t bad;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	peer = &bench.process[0]->endpoint->peers[handle_of(0, 1)]->base;
	bad = counter(0, COUNTER_BAD_RECORDS);
	hello.frame_max = card_of(peer->owner)->setup.slot - CARD_FRONT;
	pair_heard(peer, bytes, hello_encode(&hello, bytes));
	assert_true(counter(0, COUNTER_BAD_RECORDS) == bad);
	hello.frame_max--;
	pair_heard(peer, bytes, hello_encode(&hello, bytes));
	assert_true(counter(0, COUNTER_BAD_RECORDS) == bad + 1);
	end();
}

/* Messages from one to another, one after the other. */
struct flow {
	uint32_t from, to;
	uint32_t begun, sent, ended;
};

enum { SHARERS = 6, FLOWS = 2 * SHARERS, FLOW_MESSAGES = 12, FLOW_BYTES = 65536 };

static void flow_next(struct flow *flow, uint32_t number)
{
	uint8_t *from = bench.from + number * FLOW_BYTES, *to = bench.to + number * FLOW_BYTES;
	struct thole_endpoint *sender = bench.process[flow->from]->endpoint;
	struct thole_endpoint *receiver = bench.process[flow->to]->endpoint;

	if (flow->begun > flow->ended || flow->begun > flow->sent)
		return;
	if (flow->begun > 0)
		assert_memory_equal(from, to, FLOW_BYTES);
	if (flow->begun++ == FLOW_MESSAGES)
		return;
	for (uint64_t i = 0; i < FLOW_BYTES; i++)
		from[i] = (uint8_t)random_mix(i << 32 | number << 16 | flow->begun);
	assert_int_equal(thole_recv(receiver, handle_of(flow->to, flow->from), to, FLOW_BYTES, 1, UINT64_MAX, 0,
				    &flow->ended, NULL), 0);
	assert_int_equal(thole_send(sender, handle_of(flow->from, flow->to), from, FLOW_BYTES, 1, 0, 0, &flow->sent,
				    NULL), 0);
}

/* Whether of flows of one kind, which come in turn, none has got less than half of what another has. */
static bool flows_are_even(const struct flow *flows, uint32_t count, uint32_t kinds)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = i % kinds; j < count; j += kinds)
			if (flows[i].ended > 2 * flows[j].ended + 2)
				return false;
	return true;
}

/* All at once, with bays for one transfer at a time. The second message of each comes when all are connected. */
static void flows_share(const char *model, struct flow *flows, uint32_t count, uint32_t kinds)
{
	uint32_t least = 0;
	uint64_t start_ns;

	bay = 16384;
	begin(model, SHARERS, CHOOSE_PIPELINE, QUEUES + SHARERS);
	bay = 0;
	start_ns = bench.world.now_ns;
	while (least < FLOW_MESSAGES) {
		for (uint32_t i = 0; i < count; i++)
			if (flows[i].begun == 0 || least > 0)
				flow_next(&flows[i], i);
		wake();
		world_run(&bench.world, bench.world.now_ns + 5 * MICROSECOND);
		least = flows[0].ended;
		for (uint32_t i = 1; i < count; i++)
			least = flows[i].ended < least ? flows[i].ended : least;
		assert_true(flows_are_even(flows, count, kinds));
		assert_true(bench.world.now_ns < start_ns + SECOND);
	}
	for (uint32_t i = 0; i < count; i++)
		flow_next(&flows[i], i);
	world_run(&bench.world, UINT64_MAX);
	end();
}

/* Several peers and both directions share the bays of a card. */
static void test_bays_are_shared(void **state)
{
	static const char *const models[] = {"ib-ddr", "100g", "iwarp"};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct flow in[SHARERS - 1] = {{0}}, out[SHARERS - 1] = {{0}}, both[FLOWS] = {{0}}, ring[FLOWS] = {{0}};

		for (uint32_t j = 1; j < SHARERS; j++) {
			in[j - 1] = both[2 * j - 2] = (struct flow){.from = j};
			out[j - 1] = both[2 * j - 1] = (struct flow){.to = j};
		}
		for (uint32_t j = 0; j < SHARERS; j++) {
			ring[2 * j] = (struct flow){.from = j, .to = (j + 1) % SHARERS};
			ring[2 * j + 1] = (struct flow){.from = (j + 1) % SHARERS, .to = j};
		}
		flows_share(models[i], in, SHARERS - 1, 1);
		flows_share(models[i], out, SHARERS - 1, 1);
		flows_share(models[i], both, FLOWS - 2, 2); /* each peer has bays of its own to land in */
		flows_share(models[i], ring, FLOWS, 1);
	}
}

/* One more from another process to the first, if few of its own are under way. */
static void flow_on(struct flow *flow, uint64_t bytes)
{
	enum { AT_ONCE = 3 };

	if (flow->begun - flow->ended >= AT_ONCE)
		return;
	flow->begun++;
	assert_int_equal(thole_recv(bench.process[0]->endpoint, handle_of(0, flow->from), bench.to, bytes, 1,
				    UINT64_MAX, 0, &flow->ended, NULL), 0);
	assert_int_equal(thole_send(bench.process[flow->from]->endpoint, handle_of(flow->from, 0), bench.from, bytes, 1,
				    0, 0, NULL, NULL), 0);
}

/* A transfer that waits for several bays gets them, though those that one bay is enough for keep coming. */
static void test_long_among_short(void **state)
{
	enum { LONG = 65536, SHORT = 9000, TURNS = 10, PATIENCE = 100 };
	struct flow flows[SHARERS] = {{0}};
	uint32_t turns = 0;

	(void)state;
	bay = 16384;
	begin("ib-ddr", SHARERS, CHOOSE_PIPELINE, QUEUES + SHARERS);
	bay = 0;
	for (uint32_t i = 1; i < SHARERS; i++) {
		flows[i].from = i;
		message(i, 0, 0, SHORT);
	}
	while (flows[1].ended == 0) {
		for (uint32_t i = 2; i < SHARERS; i++)
			flow_on(&flows[i], SHORT);
		if (turns++ == TURNS)
			flow_on(&flows[1], LONG);
		wake();
		world_run(&bench.world, bench.world.now_ns + 2 * MICROSECOND);
		assert_true(turns < PATIENCE);
	}
	world_run(&bench.world, UINT64_MAX);
	end();
}

/* What was freed and mapped anew is never used by its old registration, on either side. */
static void test_memory_changes(void **state)
{
	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, BYTES);
	message(0, 1, 0, BYTES);
	assert_true(counter(0, COUNTER_REGISTER_HITS) == 1 && counter(1, COUNTER_REGISTER_HITS) == 1);
	for (int side = 0; side < 2; side++) {
		sim_nic_unmap(bench.process[side]->nic, (side ? bench.to : bench.from) + 4096, 1);
		message(0, 1, 0, BYTES); /* the adapter says so where it is used */
		assert_int_equal(counter((uint32_t)side, COUNTER_REGISTERED), 2);
	}
	end();
	/* Without a monitor nothing is kept. */
	unwatched = true;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	unwatched = false;
	for (int i = 0; i < 3; i++) {
		uint64_t registered = bench.process[0]->nic->registered;

		message(0, 1, 0, BYTES);
		assert_int_equal(bench.process[0]->nic->registered, registered);
		sim_nic_unmap(bench.process[0]->nic, bench.from, BYTES);
		sim_nic_unmap(bench.process[1]->nic, bench.to, BYTES);
	}
	end();
}

/* An adapter that follows the mapping of memory needs no monitor: what is registered stays so, whatever happens to its
 * memory; also where puts and gets reach it. */
static void test_paging(void **state)
{
	uint64_t known_ns, faults;

	(void)state;
	unwatched = true;
	begin("odp", 2, CHOOSE_READ, QUEUES);
	unwatched = false;
	message(0, 1, 0, BYTES);
	known_ns = message(0, 1, 0, BYTES);
	assert_true(counter(0, COUNTER_REGISTER_HITS) == 1 && counter(1, COUNTER_REGISTER_HITS) == 1);
	faults = bench.process[0]->nic->faults + bench.process[1]->nic->faults;
	assert_int_equal(message(0, 1, 0, BYTES), known_ns);
	assert_int_equal(bench.process[0]->nic->faults + bench.process[1]->nic->faults, faults);
	for (int side = 0; side < 2; side++) {
		sim_nic_unmap(bench.process[side]->nic, side ? bench.to : bench.from, BYTES);
		assert_true(message(0, 1, 0, BYTES) > known_ns);
		assert_int_equal(message(0, 1, 0, BYTES), known_ns);
	}
	assert_int_equal(bench.process[0]->nic->faults + bench.process[1]->nic->faults, faults + 2);
	assert_int_equal(counter(0, COUNTER_REGISTERED), 1);
	assert_int_equal(counter(1, COUNTER_REGISTERED), 1);
	end();
}

enum { REGION_KEY = 9, REGION_BYTES = 32768 };

/* A put or get by process 0 of a region of process 1, compared; patience_ns 0: however long it takes. Whether it
 * succeeded. */
static bool access_region(bool put, uint64_t offset, uint64_t bytes, uint64_t patience_ns)
{
	struct iovec segment = {bench.from, bytes};
	uint64_t before = bench.ended, failed = bench.failed;
	uint8_t *there = bench.to + offset;

	for (uint32_t i = 0; i < 2; i++)
		if (bench.world.now_ns < bench.process[i]->nic->cpu_ns)
			bench.world.now_ns = bench.process[i]->nic->cpu_ns;
	for (uint64_t i = 0; i < bytes; i++)
		(put ? bench.from : there)[i] = (uint8_t)random_mix(bench.world.now_ns + i);
	assert_int_equal((put ? thole_put(bench.process[0]->endpoint, handle_of(0, 1), &segment, 1, REGION_KEY, offset,
					  0, 0, NULL, NULL)
			      : thole_get(bench.process[0]->endpoint, handle_of(0, 1), &segment, 1, REGION_KEY, offset,
					  0, NULL, NULL)), 0);
	process_wake(bench.process[0], bench.world.now_ns);
	process_wake(bench.process[1], bench.world.now_ns);
	world_run(&bench.world, patience_ns ? bench.world.now_ns + patience_ns : UINT64_MAX);
	assert_int_equal(bench.ended, before + 1);
	if (bench.failed == failed)
		assert_memory_equal(bench.from, there, bytes);
	return bench.failed == failed;
}

/* From the second on, a put or get needs nothing of the target's process; not after what has changed, though. */
static void test_access(void **state)
{
	struct thole_region *region;
	uint64_t before;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_LEARN, QUEUES);
	assert_int_equal(thole_expose(bench.process[1]->endpoint, bench.to, REGION_BYTES,
				      THOLE_ACCESS_PUT | THOLE_ACCESS_GET, REGION_KEY, NULL, &region), 0);
	message(0, 1, REGION_BYTES, 8);
	message(1, 0, REGION_BYTES, 8);
	for (uint32_t round = 1; round < 3; round++) {
		access_region(true, 0, 100, 0);
		process_compute(bench.process[1], SECOND);
		assert_true(access_region(true, 5, 3001, MILLISECOND));
		assert_true(access_region(false, 777, REGION_BYTES - 777, MILLISECOND));
		assert_int_equal(counter(0, COUNTER_VERBS_PUTS), round);
		assert_int_equal(counter(0, COUNTER_VERBS_GETS), round);
		assert_int_equal(counter(1, COUNTER_REGISTERED), round);
		sim_nic_unmap(bench.process[1]->nic, bench.to + 4096, 1);
		wake();
		world_run(&bench.world, UINT64_MAX);
	}
	access_region(true, 0, 100, 0);
	assert_false(access_region(true, REGION_BYTES - 50, 100, 0));
	assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN), 0); /* the adapter was not asked */
	bench.carrier.fabric.faults.error = 200000;
	for (uint64_t i = 0; i < 60; i++)
		assert_true(access_region(i & 1, 64 * i, 1 + 200 * i, 0));
	assert_true(counter(0, COUNTER_VERBS_PUTS) > 2 && counter(0, COUNTER_QUEUES_BROKEN) > 0);
	bench.carrier.fabric.faults.error = 0;
	access_region(true, 0, 100, 0); /* there may be no queue, */
	access_region(true, 0, 100, 0); /* and then the region has to be asked for */
	before = counter(0, COUNTER_VERBS_PUTS);
	assert_true(access_region(true, 0, 100, 0));
	assert_int_equal(counter(0, COUNTER_VERBS_PUTS), before + 1);
	thole_unexpose(bench.process[1]->endpoint, region);
	assert_false(access_region(true, 0, 100, 0));
	assert_false(access_region(false, 0, 100, 0));
	bench.failed = 0;
	end();
}

/* Where no memory can be registered, the pipeline carries everything. */
static void test_refused(void **state)
{
	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	bench.carrier.fabric.faults.refuse = 1000000;
	message(0, 1, 0, BYTES);
	assert_int_equal(counter(1, COUNTER_BULK_PIPELINE), 1);
	assert_true(counter(0, COUNTER_REGISTER_REFUSED) + counter(1, COUNTER_REGISTER_REFUSED) > 0);
	end();
}

/* The last of so many messages. */
static uint64_t last_ns(const char *model, enum choose_way way, bool reuse, uint64_t bytes, int messages)
{
	uint64_t ns = 0;

	unwatched = nic_model_find(model)->limits.can & NIC_CAN_PAGE_FAULT; /* the adapter alone */
	begin(model, 2, way, QUEUES);
	unwatched = false;
	for (int i = 0; i < messages; i++)
		ns = message(0, 1, reuse ? 0 : (uint64_t)i * 4096, bytes);
	end();
	return ns;
}

/* The superpipeline at first touch beside a read of registered memory, and beside registering for each message. */
static void test_superpipeline(void **state)
{
	(void)state;
	for (uint64_t bytes = 16384; bytes <= BYTES; bytes *= 2) {
		uint64_t raw_ns = last_ns("ib-ddr", CHOOSE_READ, true, bytes, 4);
		uint64_t super_ns = last_ns("ib-ddr", CHOOSE_PIPELINE, false, bytes, 4);

		assert_true(super_ns * 100 < raw_ns * (bytes < 65536 ? 115 : 105));
		if (bytes == 65536)
			assert_true(last_ns("ib-ddr", CHOOSE_READ, false, bytes, 4) > 2 * super_ns);
	}
}

/* Adapters of which one writes in order and the other does not: blocks have flags, or not, as the sender's does, and
 * its first chunk is laid out so before anybody asks for it. */
static void test_mixed_order(void **state)
{
	(void)state;
	for (uint32_t plain = 0; plain < 2; plain++) {
		begin("ib-ddr", 3, CHOOSE_PIPELINE, QUEUES);
		bench.process[plain]->nic->nic.limits.can &= ~(uint32_t)NIC_ORDERED;
		for (uint32_t turn = 0; turn < 4; turn++) {
			for (uint64_t bytes = 16384; bytes <= BYTES; bytes *= 2) {
				message(0, 1, 0, bytes);
				message(1, 2, 0, bytes);
				message(0, 2, 0, bytes);
				message(2, 0, 0, bytes);
			}
		}
		end();
	}
}

/* Numbers of transfers come again when there are no more: what the one that had it before has left in the bays is not
 * taken for its own. */
static void test_numbers_again(void **state)
{
	enum { FEW = 100000 }; /* bytes, of no more chunks than a transfer has bays */
	struct card *card;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, FEW);
	assert_in_range(counter(0, COUNTER_BULK_CHUNKS), 2, 4);
	card = card_of(&bench.process[1]->endpoint->base);
	assert_int_equal(card->next_id, 2);
	card->next_id = UINT32_MAX;
	while (card->next_id != 1)
		message(0, 1, 0, 9000);
	message(0, 1, 0, FEW);
	end();
}

/* What a sender without flags has written where flags are is not taken for one. */
static void test_like_flags(void **state)
{
	enum { BYTES_PLAIN = 1 << 17 };
	uint64_t flag;

	(void)state;
	begin("ib-ddr", 3, CHOOSE_PIPELINE, QUEUES);
	bench.process[0]->nic->nic.limits.can &= ~(uint32_t)NIC_ORDERED;
	message(0, 1, 0, BYTES_PLAIN);
	message(2, 1, 0, BYTES_PLAIN);
	flag = (uint64_t)(pair_between(1, 0)->card->next_id + 1) << 32 | 1;
	for (uint64_t at = 0; at < BYTES_PLAIN; at += sizeof(flag))
		memcpy(bench.from + at, &flag, sizeof(flag));
	message_within(0, 1, BYTES_PLAIN, 10 * MILLISECOND);
	message(2, 1, 0, BYTES_PLAIN);
	end();
}

/* Without a cap: as many chunks as equation 7 says, and the time of equation 9 behind a rendezvous. */
static void test_equations(void **state)
{
	const struct nic_model *model = nic_model_find("ib-ddr");
	uint32_t chunks[64];

	(void)state;
	for (uint64_t bytes = 65536; bytes <= BYTES; bytes *= 2) {
		double copy = 1e6 / (double)nic_model_copy_ns(model, 1000000, bytes) * 1000, wire = model->rate, q, n;
		uint64_t ns = 0;

		bay = 2 * BYTES;
		begin(model->name, 2, CHOOSE_PIPELINE, QUEUES);
		bay = 0;
		bench.carrier.fabric.chunks = chunks;
		bench.carrier.fabric.chunk_room = 64;
		for (int i = 0; i < 4; i++) {
			bench.carrier.fabric.chunk_count = 0;
			ns = message(0, 1, 0, bytes);
		}
		q = floor(copy / wire * PLAN_ONE) / PLAN_ONE;
		n = log(1 + (double)bytes / chunks[0] * (q - 1)) / log(q);
		assert_int_equal(bench.carrier.fabric.chunk_count, (uint32_t)ceil(n));
		assert_true(fabs((double)ns / (PLAN_BLOCK / copy * 1e3 + n * (double)model->gap_ns +
					       3 * (double)model->latency_ns + (double)bytes / wire * 1e3) - 1) < 0.05);
		end();
	}
}

/* After 20 messages; of what is registered before, with page faults, and copied. */
static void test_choice(void **state)
{
	static const char *const models[] = {"100g", "odp"};

	(void)state;
	for (uint64_t bytes = 8192; bytes <= BYTES; bytes *= 2)
		for (int i = 0; i < 4; i++) {
			const char *model = models[i / 2];
			bool reuse = i & 1;
			uint64_t read_ns = last_ns(model, CHOOSE_READ, reuse, bytes, 4);
			uint64_t pipeline_ns = last_ns(model, CHOOSE_PIPELINE, reuse, bytes, 4);
			uint64_t best_ns = read_ns < pipeline_ns ? read_ns : pipeline_ns;

			assert_true(last_ns(model, CHOOSE_LEARN, reuse, bytes, 21) * 100 <= best_ns * 105);
		}
}

/* ---- A hostile peer: 0 ---------------------------------------------------------------------------- */

static void begin_message(uint32_t from, uint32_t to, uint64_t bytes, uint64_t run_ns)
{
	assert_int_equal(thole_send(bench.process[from]->endpoint, handle_of(from, to), bench.from, bytes, 1, 0, 0,
				    NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + run_ns);
}

/* The victim's message that has begun comes whole, whatever was said of it. */
static void message_arrives(void)
{
	assert_int_equal(thole_recv(bench.process[0]->endpoint, THOLE_ANY, bench.to, BYTES, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	wake();
	world_run(&bench.world, UINT64_MAX);
	assert_memory_equal(bench.from, bench.to, BYTES);
}

/* As an adapter's whose own key or port fails it. */
static unsigned poll_reads_fail(struct nic *nic, struct nic_completion *completions, unsigned max)
{
	unsigned count = usual->poll(nic, completions, max);

	for (unsigned i = 0; i < count; i++)
		if (completions[i].operation == NIC_READ && !completions[i].status)
			completions[i].status = THOLE_ERR_SYSTEM;
	return count;
}

static int post_no_reads(struct nic_queue *queue, const struct nic_work *work)
{
	return work->operation == NIC_READ ? THOLE_ERR_SYSTEM : usual->post(queue, work);
}

/* A window that the peer's adapter does not let be read, as that is not lent any more, is had another way: also where
 * nothing says that the read was refused. */
static void test_read_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct list_node *node;
		struct nic_calls calls;
		uint64_t made;

		begin(i == 1 ? "iwarp" : "ib-ddr", 2, CHOOSE_READ, QUEUES);
		message(1, 0, 0, 100);
		begin_message(1, 0, BYTES, MILLISECOND);
		node = list_first(&pair_between(0, 1)->offers);
		assert_non_null(node);
		usual = bench.process[0]->nic->nic.calls;
		calls = *usual;
		if (i < 2)
			container_of(node, struct verbs_offer, node)->there.key += 1000;
		else if (i == 2)
			calls.poll = poll_reads_fail;
		else
			calls.post = post_no_reads;
		bench.process[0]->nic->nic.calls = &calls;
		made = counter(0, COUNTER_QUEUES_MADE);
		assert_int_equal(thole_recv(bench.process[0]->endpoint, THOLE_ANY, bench.to, BYTES, 1, UINT64_MAX, 0,
					    NULL, NULL), 0);
		wake();
		world_run(&bench.world, bench.world.now_ns + SECOND);
		assert_int_equal(counter(0, COUNTER_QUEUES_MADE), made + 1);
		assert_int_equal(counter(0, COUNTER_BULK_PIPELINE), 1);
		assert_memory_equal(bench.from, bench.to, BYTES);
		bench.process[0]->nic->nic.calls = usual;
		end();
	}
}

static void hostile_says(const struct record *record)
{
	assert_true(records_say(pair_between(0, 1), record));
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND);
}

/* The victim's first window that the hostile one was told of. */
static uint64_t window_told(void)
{
	struct list_node *node = list_first(&pair_between(0, 1)->offers);

	assert_non_null(node);
	return container_of(node, struct verbs_offer, node)->window;
}

static struct record hostile_pull(uint64_t window, uint32_t id, uint64_t bays)
{
	struct plan plan = {.first = 8192, .cap = 8192, .growth = PLAN_ONE};

	return (struct record){.kind = VERBS_PULL, .length = RECORD_EXTERNAL, .tag = window,
			       .imm = id | (uint64_t)pair_between(0, 1)->round << 32,
			       .arg = {0, plan_pack(&plan), BYTES, bays}};
}

/* Chunks that are to land in no bay, and room for some of them. */
static void test_no_bays(void **state)
{
	struct record record;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, 100);
	begin_message(1, 0, BYTES, MILLISECOND);
	/* One that has bytes of its own behind it is none of these. */
	record = hostile_pull(window_told(), 7, UINT64_MAX);
	record.length = 0;
	hostile_says(&record);
	assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 1);
	record.length = RECORD_EXTERNAL;
	hostile_says(&record);
	assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 1);
	record = (struct record){.kind = VERBS_LANDED, .length = RECORD_EXTERNAL, .imm = 7, .arg = {4}};
	hostile_says(&record);
	assert_true(list_empty(&pair_between(1, 0)->serves));
	message_arrives();
	end();
}

/* What a pull asks for is within the window, and chunks fit bays, also where ours are the longer ones: else what lies
 * behind the window would be sent, or written behind a bay. */
static void test_pulled_beyond(void **state)
{
	static const struct {
		uint64_t from, to;
		uint32_t chunk;
		bool served;
	} cases[] = {
		{0, BYTES, 8192, true},
		{0, BYTES + 1, 8192, false},
		{0, UINT64_MAX, 8192, false},
		{BYTES, BYTES, 8192, false},
		{BYTES + 1, BYTES, 8192, false},
		{BYTES - 1, BYTES, 8192, true},
		{0, BYTES, 16384, true},
		{0, BYTES, 16384 + 64, false},
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const struct verbs_serve *serve;
		struct record record;
		struct plan plan;

		begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
		message(0, 1, 0, 100);
		begin_message(1, 0, BYTES, MILLISECOND);
		plan = (struct plan){.first = cases[i / 2].chunk, .cap = cases[i / 2].chunk, .growth = PLAN_ONE};
		if (i % 2) /* the one's bays are shorter, or the other's */
			pair_between(1, 0)->theirs.bay = 16384;
		else
			pair_between(1, 0)->card->setup.bay = 16384;
		record = hostile_pull(window_told(), 7, UINT64_MAX << 8);
		record.arg[0] = cases[i / 2].from;
		record.arg[1] = plan_pack(&plan);
		record.arg[2] = cases[i / 2].to;
		pair_between(1, 0)->works = UINT16_MAX; /* nothing of it goes yet */
		hostile_says(&record);
		serve = pool_at(&pair_between(1, 0)->card->serves, 0);
		assert_int_equal(pair_between(1, 0)->card->serves.live, cases[i / 2].served);
		if (cases[i / 2].served)
			assert_true(serve->length == BYTES && serve->walk.at == cases[i / 2].from);
		pair_between(1, 0)->works = 0;
		message_arrives();
		end();
	}
}

/* Who asks for chunks without flags gets no first chunk that was laid out for some: not the bytes that the bay had
 * before, which may be another peer's. */
static void test_pulled_plain(void **state)
{
	const struct card *hostile;
	struct record record;
	struct plan plan;
	const struct bay *early;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	for (uint64_t i = 0; i < BYTES; i++)
		bench.from[i] = (uint8_t)random_mix(i);
	begin_message(1, 0, BYTES, MILLISECOND);
	hostile = pair_between(0, 1)->card;
	early = container_of(list_first(&pair_between(1, 0)->card->early), struct bay, node);
	plan = (struct plan){.first = early->length, .cap = early->length, .growth = PLAN_ONE};
	record = hostile_pull(early->window, 7, UINT64_MAX << 8);
	record.arg[1] = plan_pack(&plan);
	hostile_says(&record);
	assert_memory_equal(hostile->landing, bench.from, plan.first);
	end();
}

/* One window is pulled more often than others have transfers: they have theirs all the same. */
static void test_pulled_often(void **state)
{
	struct record record;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, 100);
	begin_message(1, 0, BYTES, MILLISECOND);
	for (uint32_t i = 0; i < 100; i++) {
		record = hostile_pull(window_told(), 7 + i, UINT64_MAX << 8);
		hostile_says(&record);
	}
	assert_in_range(pair_between(1, 0)->card->serves.live, 0, 1);
	message_arrives();
	end();
}

/* One window is asked for more often than there are places for windows that are lent: others are lent theirs. */
static void test_asked_often(void **state)
{
	struct record record;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, 100);
	begin_message(1, 0, BYTES, MILLISECOND);
	record = (struct record){.kind = VERBS_ASK, .length = RECORD_EXTERNAL, .tag = window_told()};
	for (record.imm = 1; record.imm <= 100; record.imm++)
		hostile_says(&record);
	assert_in_range(pair_between(1, 0)->card->lends.live, 0, 1);
	message_arrives();
	end();
}

/* "There is no such window" of a transfer that has begun: the adapter is at its memory, or it waits in a row. */
static void test_failed_amid(void **state)
{
	enum { FETCHES = 12 };
	struct pair *pair;

	(void)state;
	for (int way = 0; way < 2; way++) {
		uint64_t ended;

		begin("ib-ddr", 3, way ? CHOOSE_READ : CHOOSE_PIPELINE, QUEUES);
		message(0, 1, 0, 100);
		message(2, 1, 0, 100);
		ended = bench.ended;
		for (uint32_t i = 0; i < FETCHES; i++) {
			uint32_t from = i % 2 * 2;

			assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, BYTES, 1,
						    UINT64_MAX, 0, NULL, NULL), 0);
			assert_int_equal(thole_send(bench.process[from]->endpoint, handle_of(from, 1), bench.from,
						    BYTES, 1, 0, 0, NULL, NULL), 0);
		}
		wake();
		pair = pair_between(1, 0);
		while (list_empty(&pair->fetches))
			world_run(&bench.world, bench.world.now_ns + MICROSECOND);
		world_run(&bench.world, bench.world.now_ns + 100 * MICROSECOND);
		for (uint32_t id = 1; id < 2 * FETCHES; id++)
			assert_true(records_say(pair_between(0, 1),
						&(struct record){.kind = VERBS_FAILED, .length = RECORD_EXTERNAL,
								 .imm = id}));
		wake();
		world_run(&bench.world, bench.world.now_ns + 1000 * MILLISECOND);
		assert_int_equal(bench.ended, ended + 2 * FETCHES);
		assert_true(counter(1, COUNTER_BAD_RECORDS) > 0);
		assert_memory_equal(bench.from, bench.to, BYTES);
		bench.failed = 0; /* those of its own that it says have failed, did */
		end();
	}
}

/* Records that wait keep receives that all peers share: no more than were granted. */
static void test_held_off(void **state)
{
	const struct record record = {.kind = RECORD_EAGER, .length = 0};
	struct pair *pair;
	uint32_t count = 0;

	(void)state;
	few_slots = 256;
	begin("ib-ddr", 3, CHOOSE_READ, QUEUES);
	few_slots = 0;
	message(2, 1, 0, 100);
	message(0, 1, 0, 100);
	pair = pair_between(1, 0);
	pair->behind = true;
	pair_between(0, 1)->granted += 1000;
	for (uint32_t i = 0; i < 240; i++) {
		assert_true(records_say(pair_between(0, 1), &record));
		wake();
		world_run(&bench.world, bench.world.now_ns + 10 * MICROSECOND);
	}
	for (uint32_t receive = pair->held; receive; receive = pair->card->held[receive - 1])
		count++;
	assert_in_range(count, 1, pair->card->setup.receives / 2);
	assert_true(counter(1, COUNTER_BAD_RECORDS) > 0);
	records_follow(pair);
	assert_int_equal(counter(1, COUNTER_UNEXPECTED), count);
	message_within(2, 1, 100, 10 * MILLISECOND);
	end();
}

/* As long as some wait for their peer's word, the network by which it comes does not rest. */
static void test_held_looks(void **state)
{
	const struct record record = {.kind = RECORD_EAGER, .length = 0};
	struct transport_owner *owner;
	struct pair *pair;

	(void)state;
	begin_beside();
	owner = &bench.process[1]->endpoint->base;
	pair = pair_between(1, 0);
	transport_rest(owner, TRANSPORT_DATAGRAM);
	assert_false(owner->word_awaited);
	pair->behind = true;
	assert_true(records_say(pair_between(0, 1), &record));
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND / 2);
	assert_int_equal(pair->held_count, 1);
	assert_true(owner->word_awaited && transport_is_polled(owner, TRANSPORT_DATAGRAM));
	records_follow(pair);
	assert_false(owner->word_awaited);
	end();
}

/* So many that wait, of messages without bytes. */
static void held_from(uint32_t from, uint32_t count)
{
	const struct record record = {.kind = RECORD_EAGER, .length = 0};

	pair_between(1, from)->behind = true;
	for (uint32_t i = 0; i < count; i++)
		assert_true(records_say(pair_between(from, 1), &record));
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND / 2);
}

/* Those that were granted all receives between them, and whose records wait, do not keep others out; and nothing is
 * lost by that. */
static void test_held_by_all(void **state)
{
	enum { FIRST = 190, SECOND_ONE = 62 };

	(void)state;
	few_slots = 256;
	begin("ib-ddr", 4, CHOOSE_READ, QUEUES);
	few_slots = 0;
	message(0, 1, 0, 100); /* alone: three quarters */
	message(2, 1, 0, 100);
	message(3, 1, 0, 100);
	held_from(2, SECOND_ONE);
	held_from(0, FIRST);
	for (int i = 0; i < 20; i++)
		message_within(3, 1, 100, 10 * MILLISECOND);
	records_follow(pair_between(1, 0));
	records_follow(pair_between(1, 2));
	world_run(&bench.world, UINT64_MAX);
	assert_int_equal(counter(1, COUNTER_UNEXPECTED), FIRST + SECOND_ONE);
	end();
}

/* One alone may have as many wait as it was granted, but not for long: its queue breaks, and they come again. */
static void test_held_long(void **state)
{
	enum { COUNT = 190 };
	uint64_t made;

	(void)state;
	few_slots = 256;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	few_slots = 0;
	message(0, 1, 0, 100);
	made = counter(1, COUNTER_QUEUES_MADE);
	held_from(0, COUNT);
	world_run(&bench.world, bench.world.now_ns + 200 * MILLISECOND);
	assert_int_equal(counter(1, COUNTER_QUEUES_MADE), made);
	world_run(&bench.world, bench.world.now_ns + 150 * MILLISECOND);
	assert_int_equal(counter(1, COUNTER_QUEUES_MADE), made + 1);
	assert_int_equal(counter(1, COUNTER_QUEUES_CLOSED), 1);
	world_run(&bench.world, bench.world.now_ns + 650 * MILLISECOND);
	assert_in_range(counter(1, COUNTER_QUEUES_MADE) - made, 2, 4);
	records_follow(pair_between(1, 0));
	world_run(&bench.world, UINT64_MAX);
	assert_int_equal(counter(1, COUNTER_UNEXPECTED), COUNT);
	assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN) + counter(1, COUNTER_QUEUES_BROKEN), 0);
	end();
}

/* Who computes finds the word that is waited for once he looks, and no sooner: that time is nobody's fault. */
static void test_held_while_computing(void **state)
{
	uint64_t closed;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, 100);
	closed = counter(1, COUNTER_QUEUES_CLOSED);
	held_from(0, 1);
	assert_int_equal(pair_between(1, 0)->held_count, 1);
	process_compute(bench.process[1], 400 * MILLISECOND);
	world_run(&bench.world, bench.world.now_ns + 401 * MILLISECOND);
	assert_int_equal(counter(1, COUNTER_QUEUES_CLOSED), closed);
	records_follow(pair_between(1, 0));
	world_run(&bench.world, UINT64_MAX);
	assert_int_equal(counter(1, COUNTER_UNEXPECTED), 1);
	assert_int_equal(counter(1, COUNTER_QUEUES_CLOSED), closed);
	end();
}

/* So it is with a queue that is to be had, whose peer has answered meanwhile. */
static void test_apart_while_computing(void **state)
{
	uint64_t before;
	struct pair *pair;

	(void)state;
	begin_beside();
	pair = pair_between(0, 1);
	before = bench.ended;
	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	process_compute(bench.process[1], 50 * MILLISECOND);
	pair_break(pair);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0, NULL, NULL),
			 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 45 * MILLISECOND);
	assert_true(pair->way == WAY_QUEUE && pair->state == PAIR_ASKING && pair->apart_ns > 0);
	process_compute(bench.process[0], 400 * MILLISECOND);
	world_run(&bench.world, bench.world.now_ns + 410 * MILLISECOND);
	assert_int_equal(counter(0, COUNTER_VERBS_OVER), 0);
	assert_true(pair->way == WAY_QUEUE && pair->state == PAIR_OPEN);
	assert_int_equal(bench.ended, before + 2);
	end();
}

/* A peer that closes has sent more than is taken from an adapter at a time: it is here, and comes first. */
static void test_closed_behind_many(void **state)
{
	enum { COUNT = 190 };
	uint64_t before;

	(void)state;
	few_slots = 256;
	begin_beside();
	few_slots = 0;
	before = bench.ended;
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(thole_recv(bench.process[1]->endpoint, handle_of(1, 0), bench.to, 100, 1, UINT64_MAX,
					    0, NULL, NULL), 0);
	process_compute(bench.process[1], 10 * MILLISECOND);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0,
					    THOLE_QUIET, NULL, NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 5 * MILLISECOND);
	process_close(bench.process[0]);
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	assert_int_equal(bench.ended, before + COUNT);
	assert_int_equal(bench.failed, 0);
	assert_int_equal(counter(1, COUNTER_PEERS_GONE), 1);
	end();
}

/* What a peer writes into a receive of the victim's, of so many bytes, after one record: whether it is a bad record. */
static bool is_bad(const struct head *head, const struct record *record, uint32_t length)
{
	static _Alignas(64) uint8_t bytes[4096];
	struct pair *pair;
	struct head whole = *head;
	uint64_t bad;

	begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
	message(0, 1, 0, 100);
	pair = pair_between(1, 0);
	whole.number += (uint32_t)pair->expected;
	whole.handled += (uint32_t)pair->next;
	whole.granted = (uint32_t)pair->granted;
	memcpy(bytes, &whole, sizeof(whole));
	memcpy(bytes + sizeof(whole), record, sizeof(*record));
	assert_true(records_arrived(pair, bytes, length));
	bad = counter(1, COUNTER_BAD_RECORDS);
	end();
	return bad > 0;
}

/* Nothing that a head or a record says is believed which cannot be. */
static void test_bad_heads(void **state)
{
	enum { WHOLE = sizeof(struct head) + sizeof(struct record) };
	const struct record small = {.kind = RECORD_EAGER, .length = 1}, *record = &small;
	const struct record external = {.kind = RECORD_EAGER, .length = RECORD_EXTERNAL};
	const struct record longer = {.kind = RECORD_EAGER, .length = RECORD_INLINE_MAX + 1};
	const struct head good = {.flags = HEAD_RECORD};
	struct head head;

	(void)state;
	assert_false(is_bad(&good, record, WHOLE));
	assert_true(is_bad(&good, record, WHOLE + 1));
	assert_true(is_bad(&good, record, WHOLE - 1));
	assert_true(is_bad(&good, record, sizeof(head) - 1));
	assert_true(is_bad(&good, &longer, WHOLE));
	head = good;
	head.length = 100;
	assert_false(is_bad(&head, &external, WHOLE + 100));
	assert_true(is_bad(&head, &external, WHOLE + 99));
	assert_true(is_bad(&head, record, WHOLE + 100)); /* two payloads */
	head = good;
	head.handled = 1; /* what was not sent */
	assert_true(is_bad(&head, record, WHOLE));
	head = good;
	head.number = 1;  /* what comes behind the next one */
	assert_true(is_bad(&head, record, WHOLE));
	head.number = UINT32_MAX; /* it was here: so it may come again */
	assert_false(is_bad(&head, record, WHOLE));
}

/* Without its front a record is like the one before, if there was one by this queue. */
static void test_no_front(void **state)
{
	static _Alignas(64) uint8_t bytes[4096];
	struct pair *pair;

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint32_t handled = 0;

		begin("ib-ddr", 2, CHOOSE_READ, QUEUES);
		message(0, 1, 0, 100);
		pair = pair_between(1, 0);
		handled = (uint32_t)pair->next & UINT16_MAX;
		assert_true(pair->front_in.head.flags != 0);
		if (i == 1)
			pair->front_in.head.flags = 0;
		(void)records_front(pair, bytes, 10, handled + (i == 2));
		assert_int_equal(counter(1, COUNTER_BAD_RECORDS) > 0, i > 0);
		end();
	}
}

/* A piece of a record that comes again, as the connection brings it. */
static void hostile_repeats(uint32_t at, uint32_t whole, uint32_t length)
{
	enum { WORD_RECORD = 3 };
	static const uint8_t bytes[384];
	const struct record record = {.kind = RECORD_CARD, .tag = WORD_RECORD, .imm = (uint64_t)at << 32 | whole};
	struct iovec part = {(void *)(uintptr_t)bytes, length};
	const struct vector payload = {&part, 1, length};

	assert_int_equal(datagram_transport.push(pair_between(0, 1)->peer, &record, &payload, 0, length), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 10 * MILLISECOND);
}

/* One that gets longer while it comes is not put behind the end of its memory. */
static void test_repeated_longer(void **state)
{
	struct pair *pair;

	(void)state;
	begin_beside();
	pair = pair_between(1, 0);
	hostile_repeats(0, 20, 10);
	assert_int_equal(pair->gathered_to, 10);
	hostile_repeats(10, 400, 384);
	assert_int_equal(pair->gathered_to, 10);
	assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 1);
	hostile_repeats(10, 20, 10);
	assert_null(pair->gathered);
	message_within(0, 1, 100, 10 * MILLISECOND);
	end();
}

/* Words come by the connection alone: records in words in records would go as deep as the peer likes. */
static void test_word_by_queue(void **state)
{
	enum { WORD_OVER = 1 };

	(void)state;
	begin_beside();
	message_within(1, 0, 100, 20 * MILLISECOND);
	hostile_says(&(struct record){.kind = RECORD_CARD, .tag = WORD_OVER});
	assert_int_equal(counter(1, COUNTER_BAD_RECORDS), 1);
	assert_int_equal(counter(1, COUNTER_VERBS_OVER), 0);
	message_within(0, 1, 100, 10 * MILLISECOND);
	end();
}

/* Whose messages go by the connection says some things by the peer's queue all the same. When the peer goes over before
 * it has said that it has one, nothing is left of that: no queue is asked for again and again, and closing waits for
 * nothing. */
static void test_over_beside(void **state)
{
	const struct record record = {.kind = VERBS_REGION_END, .length = RECORD_EXTERNAL, .tag = 1};
	uint64_t made;

	(void)state;
	begin_beside();
	assert_int_equal(pair_between(1, 0)->way, WAY_NETWORK);
	assert_true(records_say(pair_between(1, 0), &record));
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND);
	sim_nic_port(bench.process[0]->nic, false);
	wake();
	world_run(&bench.world, bench.world.now_ns + SECOND);
	made = counter(1, COUNTER_QUEUES_MADE);
	wake();
	world_run(&bench.world, bench.world.now_ns + 10 * (uint64_t)SECOND);
	assert_int_equal(counter(1, COUNTER_QUEUES_MADE), made);
	assert_true(card_drained(pair_between(1, 0)->card));
	message_within(1, 0, 100, 10 * MILLISECOND);
	sim_nic_port(bench.process[0]->nic, true);
	for (int i = 0; i < 3; i++) {
		message_within(0, 1, 100, 100 * MILLISECOND);
		message_within(1, 0, 100, 100 * MILLISECOND);
	}
	assert_true(counter(0, COUNTER_VERBS_MESSAGES) > 1 && counter(1, COUNTER_VERBS_MESSAGES) > 0);
	end();
}

/* What a peer has lent ends as it goes over, also for who has no queue that it needs: his next one reads none of it. */
static void test_over_lent(void **state)
{
	uint64_t before;

	(void)state;
	begin_beside_by(CHOOSE_READ);
	card_of(&bench.process[0]->endpoint->base)->cache.idle_max = 0; /* nothing is registered that is not lent */
	begin_message(0, 1, BYTES, MILLISECOND);
	assert_int_equal(pair_between(1, 0)->way, WAY_NETWORK);
	assert_false(list_empty(&pair_between(1, 0)->offers));
	sim_nic_port(bench.process[0]->nic, false);
	wake();
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	sim_nic_port(bench.process[0]->nic, true);
	wake();
	world_run(&bench.world, bench.world.now_ns + SECOND);
	for (int i = 0; i < 3; i++)
		message_within(1, 0, 100, 100 * MILLISECOND);
	assert_int_equal(pair_between(1, 0)->way, WAY_QUEUE);
	before = bench.ended;
	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, BYTES, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	wake();
	world_run(&bench.world, bench.world.now_ns + 100 * MILLISECOND);
	assert_int_equal(bench.ended, before + 2);
	assert_memory_equal(bench.from, bench.to, BYTES);
	assert_int_equal(counter(1, COUNTER_QUEUES_BROKEN), 0);
	end();
}

/* A path that loses what is long, as where a switch has a smaller MTU than the adapters were told: each queue breaks by
 * it, once the adapter has tried for as long as it does. */
enum { NARROW = 1500, NARROW_GIVES_UP = 540 * MILLISECOND, NARROWED = 64 };
static const uint64_t narrow_mark = UINT64_C(1) << 40; /* of works' ids */

static const struct nic_calls *wide;
static struct nic_completion narrowed[NARROWED];
static unsigned narrowed_count;
static uint64_t narrowed_ns; /* since when they are under way */

static int post_narrow(struct nic_queue *queue, const struct nic_work *work)
{
	struct nic_work lost = *work;

	if (work->operation <= NIC_WRITE && work->count == 1 && work->segments->length > NARROW) {
		lost.operation = NIC_WRITE;
		lost.flags = 0;
		lost.count = 0;
		lost.id |= narrow_mark;
	}
	return wide->post(queue, &lost);
}

static unsigned poll_narrow(struct nic *nic, struct nic_completion *completions, unsigned max)
{
	unsigned count = wide->poll(nic, completions, max), kept = 0;

	for (unsigned i = 0; i < count; i++) {
		if (completions[i].operation != NIC_WRITE || !(completions[i].id & narrow_mark)) {
			completions[kept++] = completions[i];
			continue;
		}
		assert_true(narrowed_count < NARROWED);
		completions[i].id &= ~narrow_mark;
		completions[i].status = THOLE_ERR_PEER;
		narrowed[narrowed_count++] = completions[i];
		narrowed_ns = bench.world.now_ns;
	}
	while (narrowed_count > 0 && kept < max && bench.world.now_ns - narrowed_ns > NARROW_GIVES_UP)
		completions[kept++] = narrowed[--narrowed_count];
	return kept;
}

/* One long message, in any time. */
static void message_narrow(uint32_t bytes)
{
	uint64_t before = bench.ended;

	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, bytes, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, bytes, 1, 0, 0, NULL,
				    NULL), 0);
	for (int i = 0; i < 10000 && bench.ended != before + 2; i++) {
		wake();
		world_run(&bench.world, bench.world.now_ns + 2 * MILLISECOND);
	}
	assert_int_equal(bench.ended, before + 2);
}

/* Short ones, until all go by a queue again. */
static void by_queue_again(void)
{
	for (uint32_t from = 0; from < 2; from++) {
		for (int i = 0; i < 1000 && pair_between(from, 1 - from)->way != WAY_QUEUE; i++)
			message_within(from, 1 - from, 100, 100 * MILLISECOND);
		assert_int_equal(pair_between(from, 1 - from)->way, WAY_QUEUE);
	}
}

/* A queue that opens each time and breaks each time by the same record, or while the same is fetched of us, is given up
 * for the connection; and tried ever less. */
static void test_breaks_again(void **state)
{
	struct nic_calls calls;
	uint64_t gap_ns = 0;

	(void)state;
	begin_beside();
	message_within(1, 0, 100, 20 * MILLISECOND);
	wide = bench.process[0]->nic->nic.calls;
	calls = *wide;
	calls.post = post_narrow;
	calls.poll = poll_narrow;
	bench.process[0]->nic->nic.calls = &calls;
	narrowed_count = 0;
	for (uint32_t i = 1; i <= 4; i++) { /* the last one is fetched */
		message_narrow(i < 4 ? 4 * NARROW : BYTES);
		assert_int_equal(counter(0, COUNTER_VERBS_OVER), i);
		assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN), 3 * i);
		assert_true(pair_between(0, 1)->gap_try_ns > gap_ns);
		gap_ns = pair_between(0, 1)->gap_try_ns;
		by_queue_again();
	}
	bench.process[0]->nic->nic.calls = wide;
	message_narrow(4 * NARROW);
	assert_int_equal(counter(0, COUNTER_VERBS_OVER), 4);
	end();
}

static int post_short_alone(struct nic_queue *queue, const struct nic_work *work)
{
	bool is_long = work->operation <= NIC_WRITE && work->count == 1 && work->segments->length > NARROW;

	return is_long ? THOLE_ERR_SYSTEM : wide->post(queue, work);
}

/* So is one by which the adapter refuses the same record each time, also before the peer has said anything by it. */
static void test_refused_again(void **state)
{
	static const char *const models[] = {"ib-ddr", "iwarp"};
	struct nic_calls calls;

	(void)state;
	for (int k = 0; k < 2; k++) {
		begin_beside_of(models[k], CHOOSE_PIPELINE);
		message_within(1, 0, 100, 20 * MILLISECOND);
		wide = bench.process[0]->nic->nic.calls;
		calls = *wide;
		calls.post = post_short_alone;
		bench.process[0]->nic->nic.calls = &calls;
		for (uint32_t i = 1; i <= 3; i++) {
			message_narrow(4 * NARROW);
			assert_int_equal(counter(0, COUNTER_VERBS_OVER), i);
			assert_int_equal(counter(0, COUNTER_QUEUES_BROKEN), 3 * i);
			by_queue_again();
		}
		bench.process[0]->nic->nic.calls = wide;
		end();
	}
}

/* Those that break while something is done by each are made anew, also by whom only something comes. */
static void test_breaks_often(void **state)
{
	(void)state;
	begin_beside();
	message_within(1, 0, 100, 20 * MILLISECOND);
	for (uint32_t i = 0; i < 20; i++) {
		struct pair *pair = pair_between(i / 10, 1 - i / 10);

		pair_fails(pair);
		for (int k = 0; k < 10; k++) {
			wake();
			world_run(&bench.world, bench.world.now_ns + MILLISECOND);
		}
		message_within(0, 1, 100, 20 * MILLISECOND);
	}
	assert_int_equal(counter(0, COUNTER_VERBS_OVER) + counter(1, COUNTER_VERBS_OVER), 0);
	end();
}

static unsigned roused;
static uint64_t rouse_ns; /* the earliest */

static void rouse(struct transport_owner *owner, uint64_t when_ns)
{
	(void)owner;
	roused++;
	rouse_ns = when_ns < rouse_ns ? when_ns : rouse_ns;
}

static void rouse_begin(struct transport_owner *owner)
{
	owner->rouse = rouse;
	owner->asleep_until_ns = UINT64_MAX;
	roused = 0;
	rouse_ns = UINT64_MAX;
}

/* Who sleeps beside another thread's call is roused for what that begins: at once where a pair is to be looked at, in
 * time where its queue is to be tried later. What the own progress finds rouses nobody. */
static void test_rouses(void **state)
{
	struct transport_owner *owner;
	struct pair *pair;

	(void)state;
	begin("ib-ddr", 2, CHOOSE_PIPELINE, QUEUES);
	message(0, 1, 0, 100);
	message(1, 0, 0, 100);
	owner = &bench.process[0]->endpoint->base;
	pair = pair_between(0, 1);
	rouse_begin(owner);
	assert_int_equal(thole_recv(bench.process[1]->endpoint, THOLE_ANY, bench.to, 100, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	assert_int_equal(thole_send(bench.process[0]->endpoint, handle_of(0, 1), bench.from, 100, 1, 0, 0, NULL, NULL),
			 0);
	assert_int_equal(roused, 1);
	assert_int_equal(rouse_ns, pair->alive_ns + CARD_PROBE_TOLD);
	assert_int_equal(thole_recv(bench.process[0]->endpoint, THOLE_ANY, bench.to, BYTES, 1, UINT64_MAX, 0, NULL,
				    NULL), 0);
	roused = 0;
	begin_message(1, 0, BYTES, SECOND);
	assert_int_equal(counter(0, COUNTER_BULK_PIPELINE), 1);
	assert_int_equal(roused, 0);
	owner->asleep_until_ns = 0;
	pair_break(pair);
	wake();
	world_run(&bench.world, bench.world.now_ns + MILLISECOND);
	assert_int_equal(pair->state, PAIR_IDLE);
	rouse_begin(owner);
	pair_want(pair);
	assert_int_equal(rouse_ns, 0);
	owner->asleep_until_ns = 0;
	world_run(&bench.world, UINT64_MAX);
	end();
}

static int connect_refused(struct nic_queue *queue, const struct nic_name *peer)
{
	(void)queue, (void)peer;
	return THOLE_ERR_ADDRESS;
}

/* Who is asked by adapters that his own does not reach makes no queue after the other for them, by turns neither. */
static void test_unreachable(void **state)
{
	struct nic_calls calls;

	(void)state;
	for (uint32_t hosts = 2; hosts <= 4; hosts++) {
		beside = true;
		begin("ib-ddr", hosts, CHOOSE_PIPELINE, QUEUES);
		beside = false;
		calls = *bench.process[1]->nic->nic.calls;
		calls.queue_connect = connect_refused;
		bench.process[1]->nic->nic.calls = &calls;
		for (int i = 0; i < 20; i++)
			for (uint32_t from = 0; from < hosts; from++)
				if (from != 1)
					message_within(from, 1, 100, 50 * MILLISECOND);
		assert_in_range(counter(1, COUNTER_QUEUES_MADE), 1, 40 * (hosts - 1));
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_peers),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_crowded_out),
		cmocka_unit_test(test_queue_refused),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_asks_once),
		cmocka_unit_test(test_never_looks),
		cmocka_unit_test(test_small_slots),
		cmocka_unit_test(test_next_queue),
		cmocka_unit_test(test_many_reads),
		cmocka_unit_test(test_no_inline),
		cmocka_unit_test(test_short_works),
		cmocka_unit_test(test_post_refused),
		cmocka_unit_test(test_refused_owes),
		cmocka_unit_test(test_like_messages),
		cmocka_unit_test(test_tiny_messages),
		cmocka_unit_test(test_backpressure),
		cmocka_unit_test(test_receives_refused),
		cmocka_unit_test(test_strict),
		cmocka_unit_test(test_again_in_parts),
		cmocka_unit_test(test_answer_lost),
		cmocka_unit_test(test_sender_leaves),
		cmocka_unit_test(test_by_queue),
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_end_seen),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_never_opened),
		cmocka_unit_test(test_queues_break),
		cmocka_unit_test(test_short_records),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_short_receives),
		cmocka_unit_test(test_bays_are_shared),
		cmocka_unit_test(test_long_among_short),
		cmocka_unit_test(test_memory_changes),
		cmocka_unit_test(test_paging),
		cmocka_unit_test(test_access),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_superpipeline),
		cmocka_unit_test(test_mixed_order),
		cmocka_unit_test(test_like_flags),
		cmocka_unit_test(test_numbers_again),
		cmocka_unit_test(test_equations),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_read_refused),
		cmocka_unit_test(test_no_bays),
		cmocka_unit_test(test_pulled_beyond),
		cmocka_unit_test(test_pulled_plain),
		cmocka_unit_test(test_pulled_often),
		cmocka_unit_test(test_asked_often),
		cmocka_unit_test(test_failed_amid),
		cmocka_unit_test(test_held_off),
		cmocka_unit_test(test_held_looks),
		cmocka_unit_test(test_held_by_all),
		cmocka_unit_test(test_held_long),
		cmocka_unit_test(test_held_while_computing),
		cmocka_unit_test(test_apart_while_computing),
		cmocka_unit_test(test_closed_behind_many),
		cmocka_unit_test(test_bad_heads),
		cmocka_unit_test(test_no_front),
		cmocka_unit_test(test_repeated_longer),
		cmocka_unit_test(test_word_by_queue),
		cmocka_unit_test(test_over_beside),
		cmocka_unit_test(test_over_lent),
		cmocka_unit_test(test_breaks_again),
		cmocka_unit_test(test_refused_again),
		cmocka_unit_test(test_breaks_often),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_rouses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
