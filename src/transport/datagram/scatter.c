/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter: where the next frames of bulk belong, so that the kernel's copy is the only one; and what is done where
 * they did not come as foreseen. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/connection.h"
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
static void *scatter_place(const struct block *block, uint32_t index, uint32_t length)
{
	const struct vector *vector = pull_fetch_of(block)->job->vector;
	uint64_t offset = block->offset + (uint64_t)index * block->fetch->frame, covered;
	struct iovec place[2];

	if (vector->count == 1)
		return (char *)vector->segments->iov_base + offset;
	return vector_slice(vector, offset, length, place, 2, &covered) == 1 && covered == length ? place[0].iov_base
												  : NULL;
}

/* How many frames are foreseen. */
static unsigned scatter_most(const struct scatter *scatter)
{
	return scatter->most ? scatter->most : SCATTER_FRAMES;
}

/* Add the missing frames of a block. False: nothing can follow them in the same batch. */
static bool scatter_add(struct scatter *scatter, struct block *block)
{
	uint32_t frame = block->fetch->frame, head = block->fetch->head;

	if (scatter->frames == 0)
		scatter->frame = head + frame;
	else if (scatter->frame != head + frame)
		return false;
	for (uint64_t missing = block->missing; missing; missing &= missing - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(missing), at = index * frame;
		uint32_t length = block->length - at < frame ? block->length - at : frame;
		void *place;

		if (scatter->frames == scatter_most(scatter))
			return false;
		place = scatter_place(block, index, length);
		if (!place)
			return false;
		scatter->where[scatter->frames] = block;
		scatter->frame_index[scatter->frames] = (uint8_t)index;
		scatter->iov[scatter->count++] = (struct iovec){scatter->heads[scatter->frames++], head};
		scatter->iov[scatter->count++] = (struct iovec){place, length};
		if (length < frame)
			return false; /* the kernel puts nothing behind a short frame */
	}
	return true;
}

void scatter_foresee(struct engine *engine, struct scatter *scatter)
{
	const struct options *options = &engine->owner->options;
	struct list_node *node = list_first(&engine->blocks.list);

	if (scatter->version == engine->blocks.version)
		return; /* nothing has changed since it was filled, and came to nothing */
	scatter->version = engine->blocks.version;
	scatter->count = scatter->frames = 0;
	/* Where the codec says how long frames are, the first of a window may be shorter. A checksum is over what is
	 * not read otherwise; losses are injected frame by frame. */
	if (engine->codec->data == 0 && !options->checksum && !options->inject_loss)
		while (node && scatter_add(scatter, container_of(node, struct block, node)))
			node = list_next(&engine->blocks.list, node);
	scatter->iov[scatter->count++] = (struct iovec){scatter->spill, sizeof(scatter->spill)};
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

/* Is the frame that came into a slot the one that was foreseen there? Its tag is checked with those of all others. */
static bool scatter_hit(struct engine *engine, const struct scatter *scatter, unsigned slot, uint32_t length,
			struct guard_frame *frame_p)
{
	const struct block *block = scatter->where[slot];
	struct connection *connection = pull_fetch_of(block)->connection;
	const struct iovec *parts = &scatter->iov[2 * slot];
	struct packet packet;

	if (length != parts[0].iov_len + parts[1].iov_len ||
	    engine->codec->decode(&packet, scatter->heads[slot], length) != 0)
		return false;
	*frame_p = guard_frame(&packet, parts, 2);
	return packet.type == PACKET_DATA && packet.to == connection->index && packet.session == connection->session &&
	       packet.data.transfer == pull_id(engine, pull_fetch_of(block)) &&
	       packet.data.offset == block->offset + (uint64_t)scatter->frame_index[slot] * block->fetch->frame &&
	       connection == pull_fetch_of(scatter->where[0])->connection;
}

/* Whether it came from where the peer sends DATA from. */
static bool scatter_known(const struct block *block, const struct link *link, const struct path *from)
{
	return memcmp(&pull_fetch_of(block)->connection->route[link->index].bulk, from, sizeof(*from)) == 0;
}

/* All as foreseen: only the books are to be kept. No counter of theirs is taken again. */
static bool scatter_all_hit(struct engine *engine, const struct scatter *scatter, size_t bytes, size_t segment)
{
	struct guard_frame frames[SCATTER_FRAMES];
	struct connection *connection;
	unsigned slot = 0;

	if (scatter->frames == 0 || bytes == 0 || (bytes > segment && segment != scatter->frame))
		return false;
	for (size_t at = 0; at < bytes; at += scatter->frame, slot++) {
		size_t length = bytes - at < scatter->frame ? bytes - at : scatter->frame;

		if (slot == scatter->frames || !scatter_hit(engine, scatter, slot, (uint32_t)length, &frames[slot]))
			return false;
	}
	connection = pull_fetch_of(scatter->where[0])->connection;
	if (connection_judge(connection, frames, slot) != GUARD_FINE)
		return false;
	if (connection->guard)
		guard_seen(connection->guard, frames, slot);
	return true;
}

unsigned scatter_arrived(struct engine *engine, struct link *link, const struct path *from, struct scatter *scatter,
			 size_t bytes, size_t segment)
{
	struct vector all = {scatter->iov, scatter->count, 0};
	unsigned frames = 0;

	if (segment == 0)
		segment = bytes;
	scatter->known = false;
	if (scatter_all_hit(engine, scatter, bytes, segment)) {
		uint32_t deaths = engine->deaths;

		/* A connection that ends takes its blocks with it. */
		for (size_t at = 0; at < bytes && engine->deaths == deaths; at += scatter->frame, frames++) {
			struct block *block = scatter->where[frames];

			pull_fetch_of(block)->connection->silence.heard_ns = engine->now_ns;
			scatter->known |= scatter_known(block, link, from);
			pull_received(block, scatter->frame_index[frames]);
		}
		engine->owner->counters[COUNTER_FRAMES_RECEIVED] += frames;
		scatter_learn(scatter, frames);
		return frames;
	}
	for (unsigned i = 0; i < scatter->count; i++)
		all.length += scatter->iov[i].iov_len;
	if (bytes > all.length || bytes > SCATTER_SPILL)
		return 0;
	vector_read(&all, 0, engine->repair, bytes); /* before any of it is overwritten */
	for (size_t at = 0; at < bytes; at += segment, frames++) {
		engine_count(engine, COUNTER_BULK_REPAIRS);
		scatter->known |= engine_frame(engine, link, from, engine->repair + at,
					       bytes - at < segment ? bytes - at : segment);
	}
	scatter_learn(scatter, frames);
	return frames;
}
