/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * thole_driver: what /dev/thole takes and shows.
 *
 * A descriptor belongs to the process that opened it: the memory that it declares is that process's, and to all others,
 * children of fork and successors by exec too, the calls answer EPERM. Closing it forgets all.
 */
#ifndef THOLE_DRIVER_H
#define THOLE_DRIVER_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum thole_driver_limits {
	THOLE_DRIVER_VERSION = 2,      /* of this file; another one is another interface */
	THOLE_DRIVER_REGIONS = 4096,   /* of one descriptor; ids are 1 to THOLE_DRIVER_REGIONS - 1 */
	THOLE_DRIVER_SEGMENTS = 256,   /* of one region */
	THOLE_DRIVER_PAGES = 1 << 22,  /* of one region */
	THOLE_DRIVER_EVENTS = 1024,    /* places in the ring of a descriptor */
	THOLE_DRIVER_EVENT_DATA = 48   /* bytes of an event's data */
};

/* Flags of a region. */
#define THOLE_DRIVER_WRITE 1 /* it may be written to: else its memory may be read-only */
/* Its generation changes with the mapping though nothing of it is pinned here: for memory that a card has pinned. */
#define THOLE_DRIVER_WATCH 2
#define THOLE_DRIVER_KEEP 4 /* it is not unpinned for others, nor when memory is short */

/* Flags of THOLE_DRIVER_PIN. */
/* return at once, and pin while the program goes on; THOLE_DRIVER_EVENT_PINNED says when that has ended */
#define THOLE_DRIVER_BACKGROUND 1

/* Flags of THOLE_DRIVER_COPY. */
#define THOLE_DRIVER_INTO 1 /* into the region; else out of it */

/* States of a region; see memory/region.h. */
enum thole_driver_state {
	THOLE_DRIVER_DECLARED,
	THOLE_DRIVER_PINNING,
	THOLE_DRIVER_PINNED,
	THOLE_DRIVER_INVALID
};

struct thole_driver_segment {
	__u64 address;
	__u64 length; /* bytes, not 0 */
};

/* Make a region of segments. Touches none of their pages, which need not be there. */
struct thole_driver_declare {
	__u64 segments; /* address of struct thole_driver_segment[count] */
	__u32 count;
	__u32 flags;
	__u32 id; /* the answer */
	__u32 reserved; /* 0 */
};

/* Pin what is not pinned yet of the region's first bytes, and say what is. ENOMEM: RLIMIT_MEMLOCK does not allow it,
 * even after unpinning other regions of this descriptor. EFAULT: there is no such memory, or it must not be written.
 * */
struct thole_driver_pin {
	__u32 id;
	__u32 flags;
	__u64 bytes;  /* 0: nothing, only tell */
	__u64 pages;  /* answers: of the region */
	__u64 pinned; /* of those, from the front */
	__u32 state;
	__u32 generation;
};

/* Copy between a region, through its pins, and other memory of the process. */
struct thole_driver_copy {
	__u32 id;
	__u32 flags;
	__u64 offset; /* in the region */
	__u64 length;
	__u64 address;
};

#define THOLE_DRIVER_DECLARE _IOWR(0xE7, 1, struct thole_driver_declare)
#define THOLE_DRIVER_FORGET  _IO(0xE7, 2) /* the argument is the id */
#define THOLE_DRIVER_PIN     _IOWR(0xE7, 3, struct thole_driver_pin)
#define THOLE_DRIVER_COPY    _IOW(0xE7, 4, struct thole_driver_copy)
#define THOLE_DRIVER_ROOM    _IO(0xE7, 5) /* events have been read: those that wait for room may come */

/* What a descriptor shows by mmap, each from its offset. Written by the kernel alone but where it says so. */
enum thole_driver_offset {
	THOLE_DRIVER_AT_SHARED = 0,           /* struct thole_driver_shared; cannot be mapped to be written */
	THOLE_DRIVER_AT_EVENTS = 0x1000000    /* struct thole_driver_events; the first mmap begins it */
};

/* Kinds of events. */
enum thole_driver_kind {
	/* What THOLE_DRIVER_BACKGROUND asked for has ended. cookie: the region's id; data: struct
	 * thole_driver_pinned */
	THOLE_DRIVER_EVENT_PINNED = 1
};

struct thole_driver_pinned {
	__s32 status;     /* 0, or a negative errno */
	__u32 generation; /* of the region: an id may be another region's since */
	__u64 pinned;     /* pages, from the front */
};

/* Event n, counted from 0, is in place n % THOLE_DRIVER_EVENTS, and there when its stamp is n + 1 (32 bits). */
struct thole_driver_event {
	__u32 stamp; /* written last, with release */
	__u16 kind;
	__u16 length; /* of data */
	__u64 cookie; /* what it is of; each kind says */
	__u8 data[THOLE_DRIVER_EVENT_DATA];
};

/* The ring of a descriptor. Becomes readable by poll and epoll where there is an event that has not been read. */
struct thole_driver_events {
	/* The program's: how many events it has read, with release. The kernel overwrites what was read. */
	__u32 read;
	__u32 reserved[15];
	/* Events that found no room and are kept: not 0, then read, and call THOLE_DRIVER_ROOM. */
	__u32 waiting;
	__u32 delayed; /* events that waited, ever */
	__u32 untold;  /* those that found no room and were not kept, as their kinds say */
	__u32 reserved_too[13];
	struct thole_driver_event events[THOLE_DRIVER_EVENTS];
};

/* At THOLE_DRIVER_AT_SHARED. */
struct thole_driver_shared {
	__u32 version;
	__u32 reserved;
	/* Of this descriptor, all the time: */
	__u64 pins;          /* pages pinned */
	__u64 unpins;        /* pages unpinned, for whatever reason */
	__u64 locked;        /* pages that are pinned now, each counted once however many regions it is in */
	__u64 invalidations; /* changes of the mapping that took pins */
	__u64 forks;         /* changes that took none, since pinned pages stay the parent's */
	__u64 late;          /* runs pinned in vain, since the mapping changed meanwhile */
	__u64 yielded;       /* pages unpinned for other regions of the descriptor */
	__u64 reclaimed;     /* pages unpinned for others, when memory was short */
	__u64 refused;       /* runs that RLIMIT_MEMLOCK did not allow */
	/* By id, how often what is known of a region's memory has become wrong: its pins went, or it was forgotten. */
	__u32 generations[THOLE_DRIVER_REGIONS];
};

#endif
