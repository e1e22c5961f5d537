/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sci: two hosts with PCI-SCI adapters, and the driver that exports any user memory, in virtual time.
 * (Seifert, Worringer, Rehm: Using Arbitrary Memory Regions for SCI Communication.)
 *
 * Owns the hosts' physical memory, which of it is whose, page tables, locks (memory/area.h), page lists on their way,
 * the translation table, and the time. Bytes are really moved, page by page, so a wrong list is seen in the data.
 *
 * An adapter reaches physical addresses only. A segment of the driver's is one physical piece; a user's is whatever
 * pages its process has. Connecting to it brings its page list over: ACK1 with four addresses, ACKIs with eight each.
 * A transfer by DMA takes a control block for each piece that is physically contiguous on both sides. By load and
 * store it goes through a window, whose parts are entries of the address translation table.
 */
#ifndef THOLE_SIM_SCI_H
#define THOLE_SIM_SCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dice.h"
#include "memory/area.h"

enum sci_limits {
	SCI_PAGE = 4096,
	SCI_MESSAGE = 64,        /* bytes of a mailbox message */
	SCI_ACK1_ADDRESSES = 4,
	SCI_ACKI_ADDRESSES = 8,  /* of 20 bits each: 20 bytes */
	SCI_ADDRESS_BITS = 20,
	SCI_LINE = 128,          /* both addresses of a block are best aligned to this */
	SCI_MINIMUM = 8,         /* to this they must be */
};

/* Nanoseconds; rate: bytes in a microsecond. */
struct sci_model {
	uint32_t pages;          /* of a host's memory */
	uint32_t run;            /* pages that a process gets in one piece: 1, or those of a huge page */
	uint32_t rate;
	uint64_t block_ns;       /* a control block */
	uint64_t scattered_ns;   /* more, where this side's pages do not lie behind each other */
	uint64_t unaligned_ns;   /* more, where an address is not aligned to a line */
	uint64_t prepare_ns, prepare_page_ns; /* lock a segment, and find out its pages */
	uint64_t connect_ns;     /* all but the messages */
	uint64_t message_ns;     /* each interrupts the processor of who gets it, */
	uint64_t address_ns;     /* who puts each address of it into its own list */
	uint32_t list_addresses; /* of each message behind the first; 0: SCI_ACKI_ADDRESSES */
	bool list_runs;          /* an address stands for a run of pages, with its length */
	uint32_t table_entries;  /* of the address translation table */
	uint32_t table_granule;  /* bytes of an entry */
};

/* The paper's: PCI-64/66 adapters, Pentium III at 800 MHz. */
extern const struct sci_model sci_paper;

struct sci_segment {
	uint32_t *pages;         /* physical numbers, in order */
	uint32_t count;
	uint32_t offset;         /* of its first byte within the first page */
	uint64_t length;
	uint64_t first;          /* virtual number of the first page */
	bool user;
	bool prepared;           /* its pages are locked, and known to the driver */
};

/* Who has connected knows this of a segment. */
struct sci_remote {
	uint32_t *pages;
	uint32_t count;
	uint32_t offset;
	uint64_t length;
	bool user;
	bool mapped;             /* it is in the window */
	uint32_t *entries;       /* of the table, for each page; of a mapped one */
};

struct sci_host {
	uint8_t *memory;
	uint8_t *taken;          /* a page */
	struct area_table locks; /* of its process, by virtual pages */
	uint64_t next_virtual;
	uint64_t *table;         /* SCI pages of the other host that the window shows, + 1; 0: free */
	uint32_t *table_users;
};

struct sci {
	struct sci_model model;
	struct sci_host hosts[2];
	struct dice dice;
	uint64_t now_ns;
	uint64_t messages;       /* ACKIs, all in all */
	uint64_t blocks;         /* control blocks */
};

void sci_init(struct sci *sci, const struct sci_model *model, uint64_t seed);
void sci_fini(struct sci *sci);

/* Memory of a host. user: a process's, of any pages; else the driver's, in one piece. False: there is no such
 * memory. */
bool sci_segment_new(struct sci *sci, unsigned host, bool user, uint32_t offset, uint64_t length,
		     struct sci_segment *segment);
/* It is not prepared. */
void sci_segment_free(struct sci *sci, unsigned host, struct sci_segment *segment);
/* What its process sees. */
void sci_read(const struct sci *sci, unsigned host, const struct sci_segment *segment, uint64_t at, uint8_t *bytes,
	      uint64_t length);
void sci_write(struct sci *sci, unsigned host, const struct sci_segment *segment, uint64_t at, const uint8_t *bytes,
	       uint64_t length);

/* Lock a user's segment, or not any more; the driver's are always there. */
void sci_prepare(struct sci *sci, unsigned host, struct sci_segment *segment);
void sci_release(struct sci *sci, unsigned host, struct sci_segment *segment);

/* Connect from host 1 - owner to a prepared segment: the page list comes over by messages. */
void sci_connect(struct sci *sci, unsigned owner, const struct sci_segment *segment, struct sci_remote *remote);
void sci_disconnect(struct sci *sci, unsigned owner, struct sci_remote *remote);
/* Up to eight addresses of 20 bits as they are in a message. */
void sci_pack(const uint32_t *addresses, uint32_t count, uint8_t bytes[SCI_ACKI_ADDRESSES * SCI_ADDRESS_BITS / 8]);
void sci_unpack(const uint8_t *bytes, uint32_t count, uint32_t *addresses);

/* Write by DMA from a prepared segment of host 1 - owner into one of owner's. Returns how many control blocks it took;
 * 0, and nothing is moved: beyond an end, or not aligned to SCI_MINIMUM. */
uint32_t sci_dma(struct sci *sci, unsigned owner, const struct sci_segment *local, uint64_t local_at,
		 const struct sci_remote *remote, uint64_t remote_at, uint64_t length);

/* Show a remote segment in the window of host 1 - owner. False, and nothing is mapped: the table is full. */
bool sci_map(struct sci *sci, unsigned owner, struct sci_remote *remote);
void sci_unmap(struct sci *sci, unsigned owner, struct sci_remote *remote);
/* Through the window; within the segment. False: beyond its end, or not mapped. */
bool sci_store(struct sci *sci, unsigned owner, const struct sci_remote *remote, uint64_t at, const uint8_t *bytes,
	       uint64_t length);
bool sci_load(struct sci *sci, unsigned owner, const struct sci_remote *remote, uint64_t at, uint8_t *bytes,
	      uint64_t length);

#endif
