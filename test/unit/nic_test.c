/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated adapters keep what nic.h promises, and take the time that their model says. */
#include "nic.h"

#include <string.h>

#include "thole.h"
#include "unit.h"

enum { BYTES = 1 << 16 };

static struct two {
	struct world world;
	struct fabric fabric;
	struct sim_nic *sim[2];
	struct nic *nic[2];
	struct nic_queue *queue[2];
	struct nic_name name[2];
	struct nic_memory memory[2];
	_Alignas(8) uint8_t bytes[2][BYTES];
} two;

static void nobody(void *arg, uint64_t when_ns)
{
	(void)arg, (void)when_ns;
}

static void connect_both(void)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(two.nic[i]->calls->queue_new(two.nic[i], 7, &two.queue[i], &two.name[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(two.nic[i]->calls->queue_connect(two.queue[i], &two.name[!i]), 0);
}

static int begin(void **state)
{
	unsigned access = NIC_ACCESS_WRITE | NIC_ACCESS_PEER_READ | NIC_ACCESS_PEER_WRITE | NIC_ACCESS_PEER_ATOMIC;

	(void)state;
	memset(&two, 0, sizeof(two));
	world_init(&two.world, 1, false);
	fabric_init(&two.fabric, &two.world, nic_model_find("ib-ddr"));
	for (int i = 0; i < 2; i++) {
		two.sim[i] = sim_nic_open(&two.fabric, nobody, NULL);
		two.nic[i] = &two.sim[i]->nic;
		assert_int_equal(two.nic[i]->calls->register_memory(two.nic[i], two.bytes[i], BYTES, access,
								    &two.memory[i]), 0);
	}
	connect_both();
	world_run(&two.world, two.sim[0]->cpu_ns);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		sim_nic_crash(two.sim[i]);
	fabric_fini(&two.fabric);
	assert_false(two.world.failed);
	world_fini(&two.world);
	return 0;
}

/* The next completion of one side, whenever it comes. */
static struct nic_completion wait_for(int side)
{
	struct nic_completion completion = {.operation = 255};

	world_run(&two.world, two.world.now_ns + 100 * MILLISECOND);
	assert_int_equal(two.nic[side]->calls->poll(two.nic[side], &completion, 1), 1);
	assert_int_equal(completion.queue, 7);
	return completion;
}

static int post(int side, uint8_t operation, uint8_t flags, uint32_t from, uint32_t to, uint32_t length)
{
	struct nic_segment segment = {two.bytes[side] + from, length, two.memory[side].local_key};
	struct nic_work work = {.operation = operation, .flags = flags, .imm = 99, .count = 1, .segments = &segment,
				.remote_key = two.memory[!side].peer_key,
				.remote_address = (uintptr_t)two.bytes[!side] + to, .operand = 5, .id = 42};

	return two.nic[side]->calls->post(two.queue[side], &work);
}

static void receive(int side, uint32_t at, uint32_t length)
{
	struct nic_segment segment = {two.bytes[side] + at, length, two.memory[side].local_key};
	uint64_t id = 17;

	assert_int_equal(two.nic[side]->calls->post_receives(two.nic[side], &segment, &id, 1), 1);
}

static void test_send(void **state)
{
	struct nic_completion completion;

	(void)state;
	memcpy(two.bytes[0], "hello", 5);
	receive(1, 100, 50);
	assert_int_equal(post(0, NIC_SEND, NIC_POST_INLINE, 0, 0, 5), 0);
	memcpy(two.bytes[0], "later", 5); /* inline: it is gone already */
	completion = wait_for(1);
	assert_int_equal(completion.operation, NIC_RECEIVE);
	assert_int_equal(completion.id, 17);
	assert_int_equal(completion.length, 5);
	assert_memory_equal(two.bytes[1] + 100, "hello", 5);
	completion = wait_for(0);
	assert_int_equal(completion.operation, NIC_SEND);
	assert_int_equal(completion.id, 42);
	assert_int_equal(completion.status, 0);
}

/* A message that finds no receive waits for one. */
static void test_no_receive(void **state)
{
	struct nic_completion completion;

	(void)state;
	assert_int_equal(post(0, NIC_SEND, 0, 0, 0, 5), 0);
	world_run(&two.world, two.world.now_ns + MILLISECOND);
	assert_int_equal(two.nic[1]->calls->poll(two.nic[1], &completion, 1), 0);
	receive(1, 0, 50);
	assert_int_equal(wait_for(1).operation, NIC_RECEIVE);
}

/* A write's time is latency, gap and bytes; its bytes come in order, and its immediate data last. */
static void test_write(void **state)
{
	uint64_t start_ns = two.sim[0]->cpu_ns, wire_ns = nic_model_wire_ns(two.fabric.model, BYTES);
	uint64_t end_ns = start_ns + two.fabric.model->overhead_ns + two.fabric.model->gap_ns +
			  two.fabric.model->latency_ns + wire_ns;

	(void)state;
	memset(two.bytes[0], 3, BYTES);
	receive(1, 0, 0);
	assert_int_equal(post(0, NIC_WRITE, NIC_POST_IMM, 0, 0, BYTES), 0);
	world_run(&two.world, end_ns - wire_ns / 2);
	assert_int_equal(two.bytes[1][BYTES / 4], 3);
	assert_int_equal(two.bytes[1][BYTES - 1], 0);
	assert_true(sim_nic_due(two.sim[1]) == UINT64_MAX);
	world_run(&two.world, end_ns);
	assert_int_equal(two.bytes[1][BYTES - 1], 3);
	assert_true(sim_nic_due(two.sim[1]) == end_ns);
	assert_int_equal(wait_for(1).imm, 99);
}

static void test_read_and_atomics(void **state)
{
	uint64_t before;

	(void)state;
	memset(two.bytes[1], 8, 64);
	assert_int_equal(post(0, NIC_READ, 0, 128, 0, 64), 0);
	assert_int_equal(wait_for(0).operation, NIC_READ);
	assert_memory_equal(two.bytes[0] + 128, two.bytes[1], 64);
	memset(two.bytes[1], 0, 8);
	assert_int_equal(post(0, NIC_FETCH_ADD, 0, 0, 0, 8), 0);
	assert_int_equal(post(0, NIC_FETCH_ADD, 0, 8, 0, 8), 0);
	wait_for(0);
	wait_for(0);
	memcpy(&before, two.bytes[0] + 8, 8);
	assert_int_equal(before, 5);
	assert_int_equal(post(0, NIC_COMPARE_SWAP, 0, 16, 0, 8), 0); /* with 0, which it is not any more */
	wait_for(0);
	memcpy(&before, two.bytes[1], 8);
	assert_int_equal(before, 10);
}

/* What a peer's memory does not permit breaks the queue, and what follows is cancelled. */
static void test_refused(void **state)
{
	(void)state;
	assert_int_equal(post(0, NIC_WRITE, 0, 0, BYTES - 4, 8), 0);
	assert_int_equal(post(0, NIC_WRITE, 0, 0, 0, 8), 0);
	assert_int_equal(wait_for(0).status, THOLE_ERR_ACCESS);
	assert_int_equal(wait_for(0).status, THOLE_ERR_CANCELED);
	assert_int_equal(post(0, NIC_WRITE, 0, 0, 0, 8), THOLE_ERR_PEER);
}

/* A queue that stops says so last, and its peer finds nobody. */
static void test_stop(void **state)
{
	(void)state;
	assert_int_equal(post(1, NIC_WRITE, 0, 0, 0, 8), 0);
	two.nic[1]->calls->queue_stop(two.queue[1]);
	assert_int_equal(wait_for(1).status, THOLE_ERR_CANCELED);
	assert_int_equal(wait_for(1).operation, NIC_STOPPED);
	two.nic[1]->calls->queue_free(two.queue[1]);
	assert_int_equal(post(0, NIC_WRITE, 0, 0, 0, 8), 0);
	assert_int_equal(wait_for(0).status, THOLE_ERR_PEER);
}

static void test_faults(void **state)
{
	struct nic_memory memory;

	(void)state;
	two.fabric.faults.error = 1000000;
	assert_int_equal(post(0, NIC_WRITE, 0, 0, 0, 8), 0);
	assert_int_equal(wait_for(0).status, THOLE_ERR_PEER);
	two.fabric.faults.refuse = 1000000;
	assert_int_equal(two.nic[0]->calls->register_memory(two.nic[0], two.bytes[0], 8, 0, &memory),
			 THOLE_ERR_MEMORY);
	two.fabric.faults.refuse = 0;
	two.nic[0]->limits.registered_max = BYTES + 7;
	assert_int_equal(two.nic[0]->calls->register_memory(two.nic[0], two.bytes[0], 8, 0, &memory),
			 THOLE_ERR_MEMORY);
	sim_nic_port(two.sim[0], false);
	assert_int_equal(two.nic[0]->calls->event(two.nic[0]), NIC_EVENT_DOWN);
	assert_int_equal(two.nic[0]->calls->event(two.nic[0]), NIC_EVENT_NONE);
}

/* Registering costs what the paper says, and each model copies slower what is in a slower memory. */
static void test_models(void **state)
{
	const struct nic_model *model = nic_model_find("ib-ddr");

	(void)state;
	assert_null(nic_model_find("nothing"));
	assert_int_equal(nic_model_register_ns(model, 4096), 68200);
	assert_int_equal(nic_model_register_ns(model, 1 << 20), 68000 + 256 * 200);
	for (model = nic_models; model->name; model++)
		for (uint64_t whole = 1024; whole < 1u << 28; whole *= 2)
			assert_true(nic_model_copy_ns(model, 1024, 2 * whole) >= nic_model_copy_ns(model, 1024, whole));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_send, begin, end),
		cmocka_unit_test_setup_teardown(test_no_receive, begin, end),
		cmocka_unit_test_setup_teardown(test_write, begin, end),
		cmocka_unit_test_setup_teardown(test_read_and_atomics, begin, end),
		cmocka_unit_test_setup_teardown(test_refused, begin, end),
		cmocka_unit_test_setup_teardown(test_stop, begin, end),
		cmocka_unit_test_setup_teardown(test_faults, begin, end),
		cmocka_unit_test(test_models),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
