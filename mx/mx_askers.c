/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_askers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/siphash.h"

enum {
	ASKERS_FIRST = 16, /* rows at first; doubled when they are full */
};
static const uint32_t asker_none = UINT32_MAX;

struct mxi_asker {
	struct thole_address address; /* the key */
	struct mxi_identity identity; /* what was said of it last */
	uint32_t next;                /* of the same hash */
};

void mxi_askers_open(struct mxi_askers *askers)
{
	*askers = (struct mxi_askers){0};
	(void)!getrandom(askers->key, sizeof(askers->key),
	                 GRND_NONBLOCK); /* early after boot there are none, and no attackers */
}

void mxi_askers_close(struct mxi_askers *askers)
{
	free(askers->rows);
	free(askers->heads);
	mxi_askers_open(askers);
}

/* Where the list of rows with this address's hash begins. The room is a power of two. */
static uint32_t *mxi_askers_head_of(const struct mxi_askers *askers,
                                    const struct thole_address *address)
{
	uint64_t hash = siphash(askers->key, address->text, sizeof(address->text));

	return &askers->heads[hash & (askers->room - 1)];
}

static struct mxi_asker *mxi_askers_row_find(const struct mxi_askers *askers,
                                             const struct thole_address *address)
{
	if (askers->room == 0)
		return NULL;
	for (uint32_t i = *mxi_askers_head_of(askers, address); i != asker_none;
	     i = askers->rows[i].next)
		if (memcmp(&askers->rows[i].address, address, sizeof(*address)) == 0)
			return &askers->rows[i];
	return NULL;
}

static void mxi_askers_row_link(struct mxi_askers *askers, uint32_t index)
{
	uint32_t *head = mxi_askers_head_of(askers, &askers->rows[index].address);

	askers->rows[index].next = *head;
	*head = index;
}

static void mxi_askers_row_unlink(struct mxi_askers *askers, uint32_t index)
{
	uint32_t *at = mxi_askers_head_of(askers, &askers->rows[index].address);

	while (*at != index)
		at = &askers->rows[*at].next;
	*at = askers->rows[index].next;
}

static int mxi_askers_grow(struct mxi_askers *askers)
{
	uint32_t room = askers->room ? 2 * askers->room : ASKERS_FIRST;
	uint32_t *heads = malloc(room * sizeof(*heads));
	struct mxi_asker *rows = heads ? realloc(askers->rows, room * sizeof(*rows)) : NULL;

	if (!rows) {
		free(heads);
		return error_set(THOLE_ERR_MEMORY, "no memory for %u peers of an endpoint", room);
	}
	free(askers->heads);
	askers->rows = rows;
	askers->heads = heads;
	askers->room = room;
	for (uint32_t i = 0; i < room; i++)
		heads[i] = asker_none;
	for (uint32_t i = 0; i < askers->count; i++)
		mxi_askers_row_link(askers, i);
	return 0;
}

/* A row that is in no list: one more, or the one that was added first. */
static int mxi_askers_row_take(struct mxi_askers *askers, uint32_t *index_p)
{
	if (askers->count == MXI_ASKERS_MAX) {
		*index_p = askers->oldest++ % MXI_ASKERS_MAX;
		mxi_askers_row_unlink(askers, *index_p);
		return 0;
	}
	if (askers->count == askers->room && mxi_askers_grow(askers) != 0)
		return THOLE_ERR_MEMORY;
	*index_p = askers->count++;
	return 0;
}

int mxi_askers_add(struct mxi_askers *askers, const struct thole_address *address,
                   const struct mxi_identity *identity)
{
	struct mxi_asker *row = mxi_askers_row_find(askers, address);
	uint32_t index;

	if (row) {
		row->identity = *identity;
		return 0;
	}
	if (mxi_askers_row_take(askers, &index) != 0)
		return THOLE_ERR_MEMORY;
	askers->rows[index] = (struct mxi_asker){.address = *address, .identity = *identity};
	mxi_askers_row_link(askers, index);
	return 0;
}

bool mxi_askers_find(const struct mxi_askers *askers, const struct thole_address *address,
                     struct mxi_identity *identity_p)
{
	const struct mxi_asker *row = mxi_askers_row_find(askers, address);

	if (row)
		*identity_p = row->identity;
	return row != NULL;
}
