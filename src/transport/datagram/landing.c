/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * landing: where the next frames of bulk belong, so that the kernel's copy is the only one; and what is done where they did not
 * come as foreseen. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/connection.h"
#include "transport/datagram/landing.h"

enum { LANDING_FEW = 8 }; /* packets in a row with less than half of the frames that were foreseen */

int landing_init(struct engine *engine)
{
	engine->landing_version = 1; /* a new landing has 0 */
	engine->repair = malloc(LANDING_SPILL);
	return engine->repair ? 0 : THOLE_ERR_MEMORY;
}

void landing_fini(struct engine *engine)
{
	free(engine->repair);
}

/* The memory of a frame, where it is one piece. */
static void *landing_place(const struct block *block, uint32_t index, uint32_t length)
{
	const struct vector *vector = block->fetch->job->vector;
	uint64_t offset = block->offset + (uint64_t)index * block->fetch->frame, covered;
	struct iovec place[2];

	if (vector->count == 1)
		return (char *)vector->segments->iov_base + offset;
	return vector_slice(vector, offset, length, place, 2, &covered) == 1 && covered == length ? place[0].iov_base : NULL;
}

/* How many frames are foreseen. */
static unsigned landing_most(const struct landing *landing)
{
	return landing->most ? landing->most : LANDING_FRAMES;
}

/* Add the missing frames of a block. False: nothing can follow them in the same batch. */
static bool landing_add(struct landing *landing, struct block *block)
{
	uint32_t frame = block->fetch->frame, head = connection_data_head(block->fetch->connection);

	if (landing->frames == 0)
		landing->frame = head + frame;
	else if (landing->frame != head + frame)
		return false;
	for (uint64_t missing = block->missing; missing; missing &= missing - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(missing), at = index * frame;
		uint32_t length = block->length - at < frame ? block->length - at : frame;
		void *place;

		if (landing->frames == landing_most(landing))
			return false;
		place = landing_place(block, index, length);
		if (!place)
			return false;
		landing->where[landing->frames] = block;
		landing->frame_index[landing->frames] = (uint8_t)index;
		landing->iov[landing->count++] = (struct iovec){landing->heads[landing->frames++], head};
		landing->iov[landing->count++] = (struct iovec){place, length};
		if (length < frame)
			return false; /* the kernel puts nothing behind a short frame */
	}
	return true;
}

void landing_foresee(struct engine *engine, struct landing *landing)
{
	const struct options *options = &engine->owner->options;
	struct list_node *node = list_first(&engine->blocks);

	if (landing->version == engine->landing_version)
		return; /* nothing has changed since it was filled, and came to nothing */
	landing->version = engine->landing_version;
	landing->count = landing->frames = 0;
	/* Where the codec says how long frames are, the first of a window may be shorter. A checksum is over what is not looked at
	 * otherwise; losses are injected frame by frame. */
	if (engine->codec->data == 0 && !options->checksum && !options->inject_loss)
		while (node && landing_add(landing, container_of(node, struct block, node)))
			node = list_next(&engine->blocks, node);
	landing->iov[landing->count++] = (struct iovec){landing->spill, sizeof(landing->spill)};
}

/* Where the kernel hands over frames singly, to foresee many each time costs more than to copy the first of a long row. */
static void landing_learn(struct landing *landing, unsigned frames)
{
	unsigned most = landing_most(landing);

	landing->few = 2 * frames < most ? landing->few + 1 : 0;
	if (frames < most && landing->few < LANDING_FEW)
		return;
	most = 2 * frames;
	landing->few = 0;
	landing->most = (uint8_t)(most < LANDING_FRAMES ? most : LANDING_FRAMES);
}

/* Is the frame that came into a slot the one that was foreseen there? Its tag is looked at with those of all others. */
static bool landing_hit(struct engine *engine, const struct landing *landing, unsigned slot, uint32_t length,
			struct guard_frame *frame_p)
{
	const struct block *block = landing->where[slot];
	struct connection *connection = block->fetch->connection;
	const struct iovec *parts = &landing->iov[2 * slot];
	struct packet packet;

	if (length != parts[0].iov_len + parts[1].iov_len || engine->codec->decode(&packet, landing->heads[slot], length) != 0)
		return false;
	*frame_p = guard_frame(&packet, parts, 2);
	return packet.type == PACKET_DATA && packet.to == connection->index && packet.session == connection->session &&
	       packet.data.transfer == pull_id(engine, block->fetch) &&
	       packet.data.offset == block->offset + (uint64_t)landing->frame_index[slot] * block->fetch->frame &&
	       connection == ((const struct block *)landing->where[0])->fetch->connection;
}

/* Whether it came from where the peer sends DATA from. */
static bool landing_known(const struct block *block, const struct link *link, const struct path *from)
{
	return memcmp(&block->fetch->connection->route[link->index].bulk, from, sizeof(*from)) == 0;
}

/* All as foreseen: only the books are to be kept. No counter of theirs is taken again. */
static bool landing_all_hit(struct engine *engine, const struct landing *landing, size_t bytes, size_t segment)
{
	struct guard_frame frames[LANDING_FRAMES];
	struct connection *connection;
	unsigned slot = 0;

	if (landing->frames == 0 || bytes == 0 || (bytes > segment && segment != landing->frame))
		return false;
	for (size_t at = 0; at < bytes; at += landing->frame, slot++) {
		size_t length = bytes - at < landing->frame ? bytes - at : landing->frame;

		if (slot == landing->frames || !landing_hit(engine, landing, slot, (uint32_t)length, &frames[slot]))
			return false;
	}
	connection = ((const struct block *)landing->where[0])->fetch->connection;
	if (connection_judge(connection, frames, slot) != GUARD_FINE)
		return false;
	if (connection->guard)
		guard_seen(connection->guard, frames, slot);
	return true;
}

unsigned landing_arrived(struct engine *engine, struct link *link, const struct path *from, struct landing *landing,
			 size_t bytes, size_t segment)
{
	struct vector all = {landing->iov, landing->count, 0};
	unsigned frames = 0;

	if (segment == 0)
		segment = bytes;
	landing->known = false;
	if (landing_all_hit(engine, landing, bytes, segment)) {
		uint32_t deaths = engine->deaths;

		/* A connection that ends takes its blocks with it. */
		for (size_t at = 0; at < bytes && engine->deaths == deaths; at += landing->frame, frames++) {
			struct block *block = landing->where[frames];

			block->fetch->connection->silence.heard_ns = engine->now_ns;
			landing->known |= landing_known(block, link, from);
			pull_received(block, landing->frame_index[frames]);
		}
		engine->owner->counters[COUNTER_FRAMES_RECEIVED] += frames;
		landing_learn(landing, frames);
		return frames;
	}
	for (unsigned i = 0; i < landing->count; i++)
		all.length += landing->iov[i].iov_len;
	if (bytes > all.length || bytes > LANDING_SPILL)
		return 0;
	vector_read(&all, 0, engine->repair, bytes); /* before any of it is overwritten */
	for (size_t at = 0; at < bytes; at += segment, frames++) {
		engine_count(engine, COUNTER_BULK_REPAIRS);
		landing->known |= engine_frame(engine, link, from, engine->repair + at,
					       bytes - at < segment ? bytes - at : segment);
	}
	landing_learn(landing, frames);
	return frames;
}
