/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter: where the next frames of bulk belong, so that the kernel's copy is the only one; and what is done where
 * they did not come as foreseen. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/connection.h"
#include "transport/datagram/typical.h"
#include "transport/datagram/scatter.h"

enum { SCATTER_FEW = 8 }; /* packets in a row with less than half of the frames that were foreseen */

int scatter_init(struct engine *engine)
{
	engine->repair = malloc(SCATTER_SPILL);
	return engine->repair ? 0 : THOLE_ERR_MEMORY;
}

void scatter_fini(struct engine *engine)
{
	free(engine->repair);
}

/* The memory of a frame, where it is one piece. */
static void *scatter_place(const struct block *block, const struct vector *vector, uint32_t index, uint32_t length)
{
	uint64_t offset = block->offset + (uint64_t)index * block->fetch->frame, covered;
	struct iovec place[2];

	return vector_slice(vector, offset, length, place, 2, &covered) == 1 && covered == length ? place[0].iov_base
												  : NULL;
}

/* How many frames are foreseen. */
static unsigned scatter_most(const struct scatter *scatter)
{
	return scatter->most ? scatter->most : SCATTER_FRAMES;
}

/* Add a frame that is missing, and belongs there. */
static void scatter_slot(struct scatter *scatter, struct block *block, uint32_t index, void *place, uint32_t length)
{
	unsigned slot = scatter->frames++;

	scatter->where[slot] = block;
	scatter->frame_index[slot] = (uint8_t)index;
	scatter->place[slot] = place;
	if (scatter->whole) {
		uint8_t *at = scatter->spill + (size_t)slot * scatter->frame;

		scatter->iov[2 * slot] = (struct iovec){at, block->fetch->head};
		scatter->iov[2 * slot + 1] = (struct iovec){at + block->fetch->head, length};
	} else {
		scatter->iov[2 * slot] = (struct iovec){scatter->heads[slot], block->fetch->head};
		scatter->iov[2 * slot + 1] = (struct iovec){place, length};
	}
}

/* Takes what is behind all that is foreseen. */
static struct iovec scatter_rest(struct scatter *scatter)
{
	size_t used = 0;

	for (unsigned i = 0; scatter->whole && i < scatter->count; i++)
		used += scatter->iov[i].iov_len;
	return (struct iovec){scatter->spill + used, sizeof(scatter->spill) - used};
}

/* Add the missing frames of a block. False: nothing can follow them in the same batch. */
static bool scatter_add(struct scatter *scatter, struct block *block)
{
	const struct vector *vector = pull_fetch_of(block)->job->vector;
	uint32_t frame = block->fetch->frame, head = block->fetch->head;
	unsigned most = scatter_most(scatter);

	if (scatter->frames == 0)
		scatter->frame = head + frame;
	else if (scatter->frame != head + frame)
		return false;
	for (uint64_t missing = block->missing; missing; missing &= missing - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(missing), at = index * frame;
		uint32_t length = block->length - at < frame ? block->length - at : frame;
		void *place;

		if (scatter->frames == most ||
		    (scatter->whole && (scatter->frames + 1u) * scatter->frame > sizeof(scatter->spill)))
			return false;
		place = vector->count == 1 ? (char *)vector->segments->iov_base + block->offset + at
					   : scatter_place(block, vector, index, length);
		if (!place)
			return false;
		scatter_slot(scatter, block, index, place, length);
		if (length < frame)
			return false; /* the kernel puts nothing behind a short frame */
	}
	return true;
}

void scatter_foresee(struct engine *engine, struct scatter *scatter)
{
	struct list_node *node = list_first(&engine->blocks.list);

	if (scatter->version == engine->blocks.version && scatter->filled == scatter->whole)
		return; /* nothing has changed since it was filled, and came to nothing */
	scatter->version = engine->blocks.version;
	scatter->filled = scatter->whole;
	scatter->count = scatter->frames = 0;
	scatter->spares &= !list_empty(&engine->blocks.list);
	/* Where the codec says how long frames are, the first of a window may be shorter. A checksum is over what is
	 * not read otherwise; losses are injected frame by frame. */
	if (engine->codec->data == 0 && !engine->checksums && !engine->owner->options.inject_loss)
		while (node && scatter_add(scatter, container_of(node, struct block, node)))
			node = list_next(&engine->blocks.list, node);
	scatter->count = 2 * scatter->frames;
	scatter->iov[scatter->count] = scatter_rest(scatter);
	scatter->count++;
}

/* Where the kernel hands over frames singly, to foresee many each time costs more than to copy the first of a long
 * row. */
static void scatter_learn(struct scatter *scatter, unsigned frames)
{
	unsigned most = scatter_most(scatter);

	scatter->few = 2 * frames < most ? scatter->few + 1 : 0;
	if (frames < most && scatter->few < SCATTER_FEW)
		return;
	most = 2 * frames;
	scatter->few = 0;
	scatter->most = (uint8_t)(most < SCATTER_FRAMES ? most : SCATTER_FRAMES);
}

/* Begin the next turn: which way is tried, or used. */
static void scatter_turn(struct scatter *scatter)
{
	scatter->turn = (uint8_t)((scatter->turn + 1) % SCATTER_TURNS);
	if (scatter->turn < SCATTER_TRIALS)
		scatter->whole = scatter->turn % 2;
	else
		scatter->whole = scatter->cost[true] < scatter->cost[false];
	scatter->whole |= scatter->spares;
}

void scatter_took(struct scatter *scatter, size_t bytes, uint64_t ns)
{
	scatter->lengthy = bytes >= SCATTER_LONG;
	if (!scatter->lengthy || (ns == 0 && scatter->turn < SCATTER_TRIALS))
		return;
	if (scatter->turn < SCATTER_TRIALS)
		typical_learn(&scatter->cost[scatter->whole], ns * SCATTER_SPILL / bytes);
	scatter_turn(scatter);
}

/* Whether a packet that came into a slot is what was foreseen there. */
static bool scatter_hit(struct engine *engine, const struct scatter *scatter, unsigned slot,
			const struct packet *packet)
{
	const struct block *block = scatter->where[slot];
	const struct connection *connection = pull_fetch_of(block)->connection;

	return packet->type == PACKET_DATA && packet->to == connection->index &&
	       packet->session == connection->session &&
	       packet->data.transfer == pull_id(engine, pull_fetch_of(block)) &&
	       packet->data.offset == block->offset + (uint64_t)scatter->frame_index[slot] * block->fetch->frame &&
	       connection == pull_fetch_of(scatter->where[0])->connection;
}

static const uint8_t *scatter_head(const struct scatter *scatter, unsigned slot)
{
	return scatter->iov[2 * slot].iov_base;
}

static size_t scatter_length(const struct scatter *scatter, unsigned slot)
{
	return scatter->iov[2 * slot].iov_len + scatter->iov[2 * slot + 1].iov_len;
}

/* Whether the frame in a slot is the next of the run that the packet before it is of. */
static bool scatter_follows(const struct engine *engine, const struct scatter *scatter, unsigned slot, uint32_t length,
			    struct packet *packet)
{
	const uint8_t *before = scatter_head(scatter, slot - 1), *head = scatter_head(scatter, slot);
	const struct block *block = scatter->where[slot];
	uint64_t offset = packet->data.offset + block->fetch->frame;
	uint64_t counter = packet->counter + ((packet->flags & PACKET_TAGGED) != 0);

	return block == scatter->where[slot - 1] && scatter->frame_index[slot] == scatter->frame_index[slot - 1] + 1 &&
	       length == scatter_length(scatter, slot) && !(packet->flags & PACKET_SEALED) &&
	       engine->codec->decode_next(packet, before, head, length) &&
	       packet->data.offset == offset && packet->counter == counter;
}

/* How many frames from a slot on, of those that came, are the ones that were foreseen, as a run of one block's: the
 * last that came is so long. 0: the first is not. Their tags are checked with those of all others. */
static unsigned scatter_run(struct engine *engine, const struct scatter *scatter, unsigned slot, unsigned came,
			    uint32_t last, struct guard_frame *run)
{
	uint32_t length = slot + 1 == came ? last : scatter->frame;
	struct packet packet;
	unsigned count = 1;

	if (length != scatter_length(scatter, slot) ||
	    engine->codec->decode(&packet, scatter_head(scatter, slot), length) != 0 ||
	    !scatter_hit(engine, scatter, slot, &packet))
		return 0;
	*run = guard_frame(&packet, &scatter->iov[2 * slot], 2);
	for (; slot + count < came && engine->codec->decode_next; count++) {
		uint32_t next = slot + count + 1 == came ? last : scatter->frame;

		if (!scatter_follows(engine, scatter, slot + count, next, &packet))
			break;
		length = next;
	}
	run->behind = (uint16_t)(count - 1);
	run->last = length;
	run->stride = scatter->whole ? scatter->frame : sizeof(scatter->heads[0]);
	return count;
}

/* Whether it came from where the peer sends DATA from. */
static bool scatter_known(const struct block *block, const struct link *link, const struct path *from)
{
	return memcmp(&pull_fetch_of(block)->connection->route[link->index].bulk, from, sizeof(*from)) == 0;
}

/* All as foreseen, in how many runs: only the books are to be kept. No counter of theirs is taken again. 0: not so. */
static unsigned scatter_all_hit(struct engine *engine, const struct scatter *scatter, size_t bytes, size_t segment,
				struct guard_frame runs[SCATTER_FRAMES])
{
	unsigned came = scatter->frame ? (unsigned)((bytes + scatter->frame - 1) / scatter->frame) : 0, count = 0;
	struct connection *connection;

	if (came == 0 || came > scatter->frames || (bytes > segment && segment != scatter->frame))
		return 0;
	for (unsigned slot = 0; slot < came; slot += runs[count++].behind + 1u)
		if (scatter_run(engine, scatter, slot, came, (uint32_t)(bytes - (came - 1u) * scatter->frame),
				&runs[count]) == 0)
			return 0;
	connection = pull_fetch_of(scatter->where[0])->connection;
	if (connection_judge(connection, runs, count) != GUARD_FINE)
		return 0;
	if (connection->guard)
		guard_seen(connection->guard, runs, count);
	return count;
}

/* What has come belongs where it was foreseen. */
static void scatter_land(const struct scatter *scatter, unsigned slot, unsigned count)
{
	for (; scatter->whole && count > 0; slot++, count--)
		bytes_copy(scatter->place[slot], scatter->iov[2 * slot + 1].iov_base,
			   scatter->iov[2 * slot + 1].iov_len);
}

/* Nothing of what has come was taken: frame by frame. */
static unsigned scatter_each(struct engine *engine, struct link *link, const struct path *from, struct scatter *scatter,
			     size_t bytes, size_t segment)
{
	const uint8_t *all = scatter->whole ? scatter->spill : engine->repair;
	unsigned frames = 0;

	for (size_t at = 0; at < bytes; at += segment, frames++) {
		engine_count(engine, COUNTER_BULK_REPAIRS);
		scatter->known |=
			engine_frame(engine, link, from, all + at, bytes - at < segment ? bytes - at : segment);
	}
	return frames;
}

unsigned scatter_arrived(struct engine *engine, struct link *link, const struct path *from, struct scatter *scatter,
			 size_t bytes, size_t segment)
{
	struct vector all = {scatter->iov, scatter->count, 0};
	struct guard_frame runs[SCATTER_FRAMES];
	unsigned frames = 0, count;

	if (segment == 0)
		segment = bytes;
	scatter->known = false;
	count = scatter_all_hit(engine, scatter, bytes, segment, runs);
	if (count > 0) {
		uint32_t deaths = engine->deaths;

		/* A connection that ends takes its blocks with it. */
		for (unsigned i = 0; i < count && engine->deaths == deaths; frames += runs[i++].behind + 1u) {
			struct block *block = scatter->where[frames];

			pull_fetch_of(block)->connection->silence.heard_ns = engine->now_ns;
			scatter->known |= scatter_known(block, link, from);
			scatter_land(scatter, frames, runs[i].behind + 1u);
			pull_received(block, scatter->frame_index[frames], runs[i].behind + 1u);
		}
		engine->owner->counters[COUNTER_FRAMES_RECEIVED] += frames;
		scatter_learn(scatter, frames);
		return frames;
	}
	for (unsigned i = 0; i < scatter->count; i++)
		all.length += scatter->iov[i].iov_len;
	if (bytes > all.length || bytes > SCATTER_SPILL)
		return 0;
	if (!scatter->whole)
		vector_read(&all, 0, engine->repair, bytes); /* before any of it is overwritten */
	frames = scatter_each(engine, link, from, scatter, bytes, segment);
	scatter_learn(scatter, frames);
	return frames;
}
