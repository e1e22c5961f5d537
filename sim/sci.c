/* SPDX-License-Identifier: BSD-3-Clause */
#include "sci.h"

#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Section IV. The line: 249 MB/s in one piece, 212 from the driver's memory into a user's, 5 less from a user's: so
 * 2.87 us a block of 4 KB, and 0.47 more. A user's page that lies 8 bytes off took 134 MB/s (section III-B), and one
 * that is 8 bytes off on one side alone 100, in two blocks: 9.8 us more for each such block is within 5% of both.
 * Making ready 15.5 us for a page; of a large segment it costs a transfer 20 MB/s: 2.1 us a page.
 *
 * A connection is `380 us and 110 for each ACKI`. But the last ACKI of each row of table I has four addresses, the
 * others eight, and addresses are `copied to the data structure` one by one (section III-C): a constant, a time a
 * message and one an address, by least squares of the shares by which they miss the table's times and `57 ms to 16 MB`,
 * miss none by more than 1.3%, and make 110.7 us of an ACKI with eight. The request and ACK1 are messages, too.
 */
const struct sci_model sci_paper = {
	.pages = 65536,
	.run = 1,
	.rate = 249,
	.block_ns = 2870,
	.scattered_ns = 470,
	.unaligned_ns = 9800,
	.prepare_ns = 13400,
	.prepare_page_ns = 2100,
	.connect_ns = 243900,
	.message_ns = 67300,
	.address_ns = 5420,
	.table_entries = 4096,
	.table_granule = SCI_PAGE,
};

/* ---- Hosts ------------------------------------------------------------------------------------------ */

enum { LOCKS_MAX = 65536 };

void sci_init(struct sci *sci, const struct sci_model *model, uint64_t seed)
{
	*sci = (struct sci){.model = *model, .dice = dice_new(seed, 0)};
	for (int i = 0; i < 2; i++) {
		struct sci_host *host = &sci->hosts[i];

		host->memory = sim_alloc((size_t)model->pages * SCI_PAGE);
		host->taken = sim_alloc(model->pages);
		host->table = sim_alloc(model->table_entries * sizeof(*host->table));
		host->table_users = sim_alloc(model->table_entries * sizeof(*host->table_users));
		area_init(&host->locks, sim_alloc(LOCKS_MAX * sizeof(struct area)), LOCKS_MAX);
	}
}

void sci_fini(struct sci *sci)
{
	for (int i = 0; i < 2; i++) {
		struct sci_host *host = &sci->hosts[i];

		free(host->memory);
		free(host->taken);
		free(host->table);
		free(host->table_users);
		free(host->locks.areas);
	}
}

/* The first of so many free pages behind each other, from a page on; UINT32_MAX: there are none. */
static uint32_t host_run(const struct sci *sci, const struct sci_host *host, uint32_t from, uint32_t run)
{
	for (uint32_t tried = 0; tried < sci->model.pages; tried += run) {
		uint32_t first = (from + tried) / run * run % sci->model.pages;

		if (first + run <= sci->model.pages && !memchr(host->taken + first, 1, run))
			return first;
	}
	return UINT32_MAX;
}

static bool segment_fill(struct sci *sci, struct sci_host *host, struct sci_segment *segment)
{
	uint32_t run = segment->user ? sci->model.run : segment->count;

	for (uint32_t filled = 0; filled < segment->count;) {
		uint32_t first = host_run(sci, host, (uint32_t)dice_below(&sci->dice, sci->model.pages), run);

		if (first == UINT32_MAX) {
			segment->count = filled;
			return false;
		}
		for (uint32_t i = 0; i < run && filled < segment->count; i++) {
			host->taken[first + i] = 1;
			segment->pages[filled++] = first + i;
		}
	}
	return true;
}

bool sci_segment_new(struct sci *sci, unsigned host, bool user, uint32_t offset, uint64_t length,
		     struct sci_segment *segment)
{
	struct sci_host *own = &sci->hosts[host];
	uint32_t count = (uint32_t)((offset + length + SCI_PAGE - 1) / SCI_PAGE);

	*segment = (struct sci_segment){.pages = sim_alloc(count * sizeof(uint32_t)), .count = count, .offset = offset,
					.length = length, .first = own->next_virtual, .user = user, .prepared = !user};
	own->next_virtual += count;
	if (segment_fill(sci, own, segment))
		return true;
	segment->prepared = false;
	sci_segment_free(sci, host, segment);
	return false;
}

void sci_segment_free(struct sci *sci, unsigned host, struct sci_segment *segment)
{
	for (uint32_t i = 0; i < segment->count; i++)
		sci->hosts[host].taken[segment->pages[i]] = 0;
	free(segment->pages);
	segment->pages = NULL;
}

/* Bytes from a place on that lie in one page, at most `length`. */
static uint64_t within_page(uint64_t at, uint64_t length)
{
	uint64_t left = SCI_PAGE - at % SCI_PAGE;

	return length < left ? length : left;
}

static uint8_t *host_byte(const struct sci *sci, unsigned host, const uint32_t *pages, uint64_t at)
{
	return sci->hosts[host].memory + (uint64_t)pages[at / SCI_PAGE] * SCI_PAGE + at % SCI_PAGE;
}

void sci_read(const struct sci *sci, unsigned host, const struct sci_segment *segment, uint64_t at, uint8_t *bytes,
	      uint64_t length)
{
	for (uint64_t done = 0, piece; done < length; done += piece) {
		uint64_t from = segment->offset + at + done;

		piece = within_page(from, length - done);
		memcpy(bytes + done, host_byte(sci, host, segment->pages, from), piece);
	}
}

void sci_write(struct sci *sci, unsigned host, const struct sci_segment *segment, uint64_t at, const uint8_t *bytes,
	       uint64_t length)
{
	for (uint64_t done = 0, piece; done < length; done += piece) {
		uint64_t to = segment->offset + at + done;

		piece = within_page(to, length - done);
		memcpy(host_byte(sci, host, segment->pages, to), bytes + done, piece);
	}
}

void sci_prepare(struct sci *sci, unsigned host, struct sci_segment *segment)
{
	if (!segment->user || segment->prepared)
		return;
	if (!area_lock(&sci->hosts[host].locks, segment->first, segment->first + segment->count))
		abort(); /* the simulator's own table is too small */
	sci->now_ns += sci->model.prepare_ns + segment->count * sci->model.prepare_page_ns;
	segment->prepared = true;
}

void sci_release(struct sci *sci, unsigned host, struct sci_segment *segment)
{
	if (!segment->user || !segment->prepared)
		return;
	area_unlock(&sci->hosts[host].locks, segment->first, segment->first + segment->count);
	segment->prepared = false;
}

/* ---- Page lists ------------------------------------------------------------------------------------- */

void sci_pack(const uint32_t *addresses, uint32_t count, uint8_t bytes[SCI_ACKI_ADDRESSES * SCI_ADDRESS_BITS / 8])
{
	memset(bytes, 0, SCI_ACKI_ADDRESSES * SCI_ADDRESS_BITS / 8);
	for (uint32_t bit = 0; bit < count * SCI_ADDRESS_BITS; bit++)
		if (addresses[bit / SCI_ADDRESS_BITS] >> bit % SCI_ADDRESS_BITS & 1)
			bytes[bit / 8] |= (uint8_t)(1u << bit % 8);
}

void sci_unpack(const uint8_t *bytes, uint32_t count, uint32_t *addresses)
{
	memset(addresses, 0, count * sizeof(*addresses));
	for (uint32_t bit = 0; bit < count * SCI_ADDRESS_BITS; bit++)
		addresses[bit / SCI_ADDRESS_BITS] |= (uint32_t)(bytes[bit / 8] >> bit % 8 & 1)
						      << bit % SCI_ADDRESS_BITS;
}

/* Messages behind ACK1 that bring such a list. */
static uint32_t sci_list_messages(const struct sci_model *model, uint32_t addresses)
{
	uint32_t each = model->list_addresses ? model->list_addresses : SCI_ACKI_ADDRESSES;

	return addresses <= SCI_ACK1_ADDRESSES ? 0 : (addresses - SCI_ACK1_ADDRESSES + each - 1) / each;
}

/* How many entries a list has. */
static uint32_t list_entries(const struct sci_model *model, const struct sci_segment *segment)
{
	uint32_t entries = 1;

	if (!segment->user)
		return 0; /* one address and a length, which ACK has room for */
	for (uint32_t i = 1; i < segment->count; i++)
		entries += !model->list_runs || segment->pages[i] != segment->pages[i - 1] + 1;
	return entries;
}

/* Addresses come in messages of eight at most, each packed and unpacked. */
static void list_carry(const struct sci_segment *segment, struct sci_remote *remote)
{
	for (uint32_t i = 0; i < segment->count; i += SCI_ACKI_ADDRESSES) {
		uint32_t left = segment->count - i, count = left < SCI_ACKI_ADDRESSES ? left : SCI_ACKI_ADDRESSES;
		uint8_t bytes[SCI_ACKI_ADDRESSES * SCI_ADDRESS_BITS / 8];

		sci_pack(segment->pages + i, count, bytes);
		sci_unpack(bytes, count, remote->pages + i);
	}
}

void sci_connect(struct sci *sci, unsigned owner, const struct sci_segment *segment, struct sci_remote *remote)
{
	uint32_t entries = list_entries(&sci->model, segment), messages = sci_list_messages(&sci->model, entries);

	(void)owner;
	*remote = (struct sci_remote){.pages = sim_alloc(segment->count * sizeof(uint32_t)), .count = segment->count,
				      .offset = segment->offset, .length = segment->length, .user = segment->user};
	list_carry(segment, remote);
	/* The request, ACK or ACK1, and the rest of the list; one interrupt after the other. */
	sci->now_ns += sci->model.connect_ns + (2 + messages) * sci->model.message_ns;
	sci->now_ns += entries * sci->model.address_ns;
	sci->messages += messages;
}

void sci_disconnect(struct sci *sci, unsigned owner, struct sci_remote *remote)
{
	sci_unmap(sci, owner, remote);
	free(remote->pages);
	remote->pages = NULL;
}

/* ---- DMA -------------------------------------------------------------------------------------------- */

/* Bytes from a place on that lie behind each other in physical memory, at most `length`: to the end of the page for a
 * user's memory, unless the next one is the next. */
static uint64_t contiguous(const uint32_t *pages, bool user, bool runs, uint64_t at, uint64_t length)
{
	uint64_t found = within_page(at, length);

	while (found < length && (!user || (runs && pages[(at + found) / SCI_PAGE] ==
							    pages[(at + found) / SCI_PAGE - 1] + 1)))
		found += within_page(at + found, length - found);
	return found;
}

uint32_t sci_dma(struct sci *sci, unsigned owner, const struct sci_segment *local, uint64_t local_at,
		 const struct sci_remote *remote, uint64_t remote_at, uint64_t length)
{
	const struct sci_model *model = &sci->model;
	uint32_t blocks = 0;

	if (!local->prepared || local_at > local->length || length > local->length - local_at ||
	    remote_at > remote->length || length > remote->length - remote_at ||
	    (local->offset + local_at) % SCI_MINIMUM || (remote->offset + remote_at) % SCI_MINIMUM)
		return 0;
	for (uint64_t done = 0, piece; done < length; done += piece) {
		uint64_t from = local->offset + local_at + done, to = remote->offset + remote_at + done;

		piece = contiguous(local->pages, local->user, model->list_runs, from, length - done);
		piece = contiguous(remote->pages, remote->user, model->list_runs, to, piece);
		for (uint64_t moved = 0, part; moved < piece; moved += part) {
			part = within_page(from + moved, within_page(to + moved, piece - moved));
			memcpy(host_byte(sci, owner, remote->pages, to + moved),
			       host_byte(sci, 1 - owner, local->pages, from + moved), part);
		}
		sci->now_ns += piece * 1000 / model->rate + model->block_ns;
		sci->now_ns += local->user ? model->scattered_ns : 0;
		sci->now_ns += from % SCI_LINE || to % SCI_LINE ? model->unaligned_ns : 0;
		blocks++;
	}
	sci->blocks += blocks;
	return blocks;
}

/* ---- The window ------------------------------------------------------------------------------------- */

/* The entry that shows an SCI page, or a free one; UINT32_MAX: neither. */
static uint32_t table_entry(const struct sci_host *host, const struct sci_model *model, uint64_t sci_page)
{
	uint32_t free_one = UINT32_MAX;

	for (uint32_t i = 0; i < model->table_entries; i++) {
		if (host->table[i] == sci_page + 1)
			return i;
		if (free_one == UINT32_MAX && host->table[i] == 0)
			free_one = i;
	}
	return free_one;
}

static void table_put(struct sci_host *host, uint32_t entry)
{
	if (--host->table_users[entry] == 0)
		host->table[entry] = 0;
}

bool sci_map(struct sci *sci, unsigned owner, struct sci_remote *remote)
{
	struct sci_host *host = &sci->hosts[1 - owner];

	remote->entries = sim_alloc(remote->count * sizeof(*remote->entries));
	for (uint32_t i = 0; i < remote->count; i++) {
		uint64_t sci_page = (uint64_t)remote->pages[i] * SCI_PAGE / sci->model.table_granule;
		uint32_t entry = table_entry(host, &sci->model, sci_page);

		if (entry == UINT32_MAX) {
			while (i-- > 0)
				table_put(host, remote->entries[i]);
			free(remote->entries);
			remote->entries = NULL;
			return false;
		}
		host->table[entry] = sci_page + 1;
		host->table_users[entry]++;
		remote->entries[i] = entry;
	}
	remote->mapped = true;
	return true;
}

void sci_unmap(struct sci *sci, unsigned owner, struct sci_remote *remote)
{
	if (!remote->mapped)
		return;
	for (uint32_t i = 0; i < remote->count; i++)
		table_put(&sci->hosts[1 - owner], remote->entries[i]);
	free(remote->entries);
	remote->entries = NULL;
	remote->mapped = false;
}

/* Where an address of the window comes out: its process's page table names the entry and the place below it. */
static uint8_t *window_byte(const struct sci *sci, unsigned owner, const struct sci_remote *remote, uint64_t at)
{
	const struct sci_host *host = &sci->hosts[1 - owner];
	uint32_t page = (uint32_t)(at / SCI_PAGE);
	uint64_t below = (uint64_t)remote->pages[page] * SCI_PAGE % sci->model.table_granule;
	uint64_t base = (host->table[remote->entries[page]] - 1) * sci->model.table_granule;

	return sci->hosts[owner].memory + base + below + at % SCI_PAGE;
}

static bool window_holds(const struct sci_remote *remote, uint64_t at, uint64_t length)
{
	return remote->mapped && at <= remote->length && length <= remote->length - at;
}

bool sci_store(struct sci *sci, unsigned owner, const struct sci_remote *remote, uint64_t at, const uint8_t *bytes,
	       uint64_t length)
{
	if (!window_holds(remote, at, length))
		return false;
	for (uint64_t i = 0; i < length; i++)
		*window_byte(sci, owner, remote, remote->offset + at + i) = bytes[i];
	return true;
}

bool sci_load(struct sci *sci, unsigned owner, const struct sci_remote *remote, uint64_t at, uint8_t *bytes,
	      uint64_t length)
{
	if (!window_holds(remote, at, length))
		return false;
	for (uint64_t i = 0; i < length; i++)
		bytes[i] = *window_byte(sci, owner, remote, remote->offset + at + i);
	return true;
}
