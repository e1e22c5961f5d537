/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_clients.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/siphash.h"

enum {
	CLIENTS_FIRST = 16, /* rows at first; doubled when they are full */
};
static const uint32_t client_none = UINT32_MAX;

struct mxi_client {
	struct thole_address address; /* the key */
	struct mxi_identity identity; /* what was said of it last */
	uint32_t next;                /* of the same hash */
};

void mxi_clients_open(struct mxi_clients *clients)
{
	*clients = (struct mxi_clients){0};
	(void)!getrandom(clients->key, sizeof(clients->key),
			 GRND_NONBLOCK); /* early after boot there are none, and no attackers */
}

void mxi_clients_close(struct mxi_clients *clients)
{
	free(clients->rows);
	free(clients->heads);
	mxi_clients_open(clients);
}

/* Where the list of rows with this address's hash begins. The room is a power of two. */
static uint32_t *mxi_clients_head_of(const struct mxi_clients *clients, const struct thole_address *address)
{
	uint64_t hash = siphash(clients->key, address->text, sizeof(address->text));

	return &clients->heads[hash & (clients->room - 1)];
}

static struct mxi_client *mxi_clients_row_find(const struct mxi_clients *clients, const struct thole_address *address)
{
	if (clients->room == 0)
		return NULL;
	for (uint32_t i = *mxi_clients_head_of(clients, address); i != client_none; i = clients->rows[i].next)
		if (memcmp(&clients->rows[i].address, address, sizeof(*address)) == 0)
			return &clients->rows[i];
	return NULL;
}

static void mxi_clients_row_link(struct mxi_clients *clients, uint32_t index)
{
	uint32_t *head = mxi_clients_head_of(clients, &clients->rows[index].address);

	clients->rows[index].next = *head;
	*head = index;
}

static void mxi_clients_row_unlink(struct mxi_clients *clients, uint32_t index)
{
	uint32_t *at = mxi_clients_head_of(clients, &clients->rows[index].address);

	while (*at != index)
		at = &clients->rows[*at].next;
	*at = clients->rows[index].next;
}

static int mxi_clients_grow(struct mxi_clients *clients)
{
	uint32_t room = clients->room ? 2 * clients->room : CLIENTS_FIRST;
	uint32_t *heads = malloc(room * sizeof(*heads));
	struct mxi_client *rows = heads ? realloc(clients->rows, room * sizeof(*rows)) : NULL;

	if (!rows) {
		free(heads);
		return error_set(THOLE_ERR_MEMORY, "no memory for %u peers of an endpoint", room);
	}
	free(clients->heads);
	clients->rows = rows;
	clients->heads = heads;
	clients->room = room;
	for (uint32_t i = 0; i < room; i++)
		heads[i] = client_none;
	for (uint32_t i = 0; i < clients->count; i++)
		mxi_clients_row_link(clients, i);
	return 0;
}

/* A row that is in no list: one more, or the one that was added first. */
static int mxi_clients_row_take(struct mxi_clients *clients, uint32_t *index_p)
{
	if (clients->count == MXI_CLIENTS_MAX) {
		*index_p = clients->oldest++ % MXI_CLIENTS_MAX;
		mxi_clients_row_unlink(clients, *index_p);
		return 0;
	}
	if (clients->count == clients->room && mxi_clients_grow(clients) != 0)
		return THOLE_ERR_MEMORY;
	*index_p = clients->count++;
	return 0;
}

int mxi_clients_add(struct mxi_clients *clients, const struct thole_address *address,
		    const struct mxi_identity *identity)
{
	struct mxi_client *row = mxi_clients_row_find(clients, address);
	uint32_t index;

	if (row) {
		row->identity = *identity;
		return 0;
	}
	if (mxi_clients_row_take(clients, &index) != 0)
		return THOLE_ERR_MEMORY;
	clients->rows[index] = (struct mxi_client){.address = *address, .identity = *identity};
	mxi_clients_row_link(clients, index);
	return 0;
}

bool mxi_clients_find(const struct mxi_clients *clients, const struct thole_address *address,
		      struct mxi_identity *identity_p)
{
	const struct mxi_client *row = mxi_clients_row_find(clients, address);

	if (row)
		*identity_p = row->identity;
	return row != NULL;
}
