/* SPDX-License-Identifier: BSD-3-Clause */
#include "exposed.h"

#include <stdlib.h>
#include <string.h>

#include "op.h"

/* ---- Slots ---------------------------------------------------------------------------------------------- */

/* From `at` on; returns the first byte that is not this put's, or its length. */
static uint64_t put_compare(const struct op *put, const uint8_t *bytes, uint64_t at)
{
	for (; at % 8 && at < put->length; at++)
		if (bytes[at] != pattern_byte_at(put->number, at))
			return at;
	return at < put->length ? at + pattern_compare(bytes + at, put->number, at, put->length - at) : at;
}

/* The first byte that is not what it must be, or TRAFFIC_SLOT. */
static uint64_t slot_compare(const uint8_t *bytes, const struct op *put)
{
	static const uint8_t zeros[TRAFFIC_SLOT];
	uint64_t at = 0;

	for (; put; put = put->earlier) {
		if (put->dropped || put->status == THOLE_ERR_CANCELED || put->length <= at)
			continue;
		at = put->status ? put->length : put_compare(put, bytes, at);
		if (at < put->length)
			return at;
	}
	if (memcmp(bytes + at, zeros, TRAFFIC_SLOT - at) == 0)
		return TRAFFIC_SLOT;
	while (bytes[at] == 0)
		at++;
	return at;
}

void exposed_check_slot(const struct process *process, uint32_t by)
{
	const struct player *player = player_of(process);
	const struct op *put = player->slot[by];
	uint64_t at = slot_compare(player->put + (size_t)by * TRAFFIC_SLOT, put);

	if (at < TRAFFIC_SLOT)
		world_fail(process->world, "byte %llu that process %u has for puts of %u, %llu the last, is of none",
			   (unsigned long long)at, process->index, by, put ? (unsigned long long)put->number : 0);
}

/* ---- Atomics -------------------------------------------------------------------------------------------- */

/* Each atomic that succeeded was applied once, and one that failed at most once. */
static void check_sums(const struct process *target)
{
	const struct player *player = player_of(target);
	const struct traffic *traffic = player->traffic;
	uint64_t done[TRAFFIC_CELLS] = {0}, failed[TRAFFIC_CELLS] = {0};

	for (uint64_t i = 1; i < traffic->op_count; i++) {
		const struct op *op = traffic->ops[i];

		if (op->kind != OP_ATOMIC || op->peer != target || op->dropped)
			continue;
		done[op->offset] += op->status == 0;
		failed[op->offset] += op->status && op->status != THOLE_ERR_CANCELED;
	}
	for (uint32_t i = 0; i < TRAFFIC_CELLS; i++)
		if (player->cells[i] < done[i] || player->cells[i] > done[i] + failed[i])
			world_fail(target->world,
				   "cell %u of process %u: %llu atomics succeeded, %llu failed, %llu were applied", i,
				   target->index, (unsigned long long)done[i], (unsigned long long)failed[i],
				   (unsigned long long)player->cells[i]);
}

/* Each fetched value is there once, and each source sees its own in order. */
static void check_fetched(const struct process *target)
{
	const struct player *player = player_of(target);
	const struct traffic *traffic = player->traffic;
	uint8_t *seen = sim_alloc(player->cells[0] + 1);
	uint64_t last[TRAFFIC_CELLS][2] = {{0}};

	for (uint64_t i = 1; i < traffic->op_count; i++) {
		const struct op *op = traffic->ops[i];
		uint64_t *newest;

		if (op->kind != OP_ATOMIC || op->peer != target || op->status)
			continue;
		newest = &last[op->by->index][op->offset != 0];
		if (op->result + 1 <= *newest)
			op_fail(op, "it was applied out of order");
		*newest = op->result + 1;
		if (op->result >= player->cells[op->offset])
			op_fail(op, "it has fetched more than was ever there");
		else if (op->offset == 0 && seen[op->result]++)
			op_fail(op, "two of them have had the same value");
	}
	free(seen);
}

void exposed_check(const struct process *process)
{
	const struct player *player = player_of(process);
	uint64_t same;

	if (!player->put)
		return;
	for (uint32_t i = 0; i < TRAFFIC_PROCESSES_MAX; i++)
		exposed_check_slot(process, i);
	same = pattern_compare(player->get, process->index, 0, TRAFFIC_READ);
	if (same < TRAFFIC_READ)
		world_fail(process->world, "byte %llu of what process %u has for gets was changed",
			   (unsigned long long)same, process->index);
	check_sums(process);
	if (!process->world->failed)
		check_fetched(process);
}
