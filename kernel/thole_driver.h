/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * thole_driver: what /dev/thole takes and shows.
 *
 * A descriptor belongs to the process that opened it: the memory that it declares is that process's, and to all others,
 * children of fork and successors by exec too, the calls and mmap answer EPERM. Closing it forgets all.
 */
#ifndef THOLE_DRIVER_H
#define THOLE_DRIVER_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum thole_driver_limits {
	THOLE_DRIVER_VERSION = 5,      /* of this file; another one is another interface */
	THOLE_DRIVER_REGIONS = 4096,   /* of one descriptor; ids are 1 to THOLE_DRIVER_REGIONS - 1 */
	THOLE_DRIVER_SEGMENTS = 256,   /* of one region */
	THOLE_DRIVER_PAGES = 1 << 22,  /* of one region */
	THOLE_DRIVER_EVENTS = 1024,    /* places in the ring of a descriptor */
	THOLE_DRIVER_EVENT_DATA = 48,  /* bytes of an event's data */
	THOLE_DRIVER_FRAMES_IN = 512,  /* places for frames of an endpoint that is bound to an interface */
	THOLE_DRIVER_FRAMES_OUT = 64,
	THOLE_DRIVER_SOCKETS = 8,      /* of one descriptor */
	THOLE_DRIVER_CONNECTIONS = 1024, /* of one descriptor; ids are 1 to THOLE_DRIVER_CONNECTIONS - 1 */
	THOLE_DRIVER_WINDOWS = 4096,   /* of one descriptor, */
	THOLE_DRIVER_FETCHES = 1024    /* and fetches that are not over, or whose end waits for room among events */
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

/* Let other processes of this user map a region of one segment, to whom the process tells number and key: for reading,
 * and if it was declared with THOLE_DRIVER_WRITE for writing. They see whole pages, whatever is mapped at these
 * addresses at the time. Pins nothing. Ends when it is withdrawn or the region is forgotten. EEXIST: it is offered. */
struct thole_driver_offer {
	__u32 id;
	__u32 number; /* the answer, */
	__u64 key[2]; /* and this */
};

/* What was offered, as a descriptor to be mapped: whole, from 0 on, MAP_SHARED. The mapping has struct
 * thole_driver_view in front. It stays when the descriptor is closed; it is in no child, and is unmapped whole. Only
 * the process that attached may map it. EACCES: there is no such offer, or not to this user, or not for writing. */
struct thole_driver_attach {
	__u32 number;
	__u32 flags; /* THOLE_DRIVER_WRITE */
	__u64 key[2];
	__u64 length; /* the answers: bytes of the region, */
	__u64 offset; /* where the first of them is in the mapping, */
	__s32 fd;
	__u32 reserved; /* 0 */
};

/* What is in front of a view of another process's region. Accesses to memory that the owner has not got, or offers no
 * more, cause no signal: they reach a page of the view's own, and then `lost` is 1, for good. */
struct thole_driver_view {
	__u32 ended; /* the offer was withdrawn */
	__u32 lost;  /* some access has not reached the owner's memory */
};

#define THOLE_DRIVER_DECLARE _IOWR(0xE7, 1, struct thole_driver_declare)
#define THOLE_DRIVER_FORGET  _IO(0xE7, 2) /* the argument is the id */
#define THOLE_DRIVER_PIN     _IOWR(0xE7, 3, struct thole_driver_pin)
#define THOLE_DRIVER_COPY    _IOW(0xE7, 4, struct thole_driver_copy)
#define THOLE_DRIVER_ROOM    _IO(0xE7, 5) /* events have been read: those that wait for room may come */
#define THOLE_DRIVER_OFFER   _IOWR(0xE7, 48, struct thole_driver_offer)
#define THOLE_DRIVER_WITHDRAW _IO(0xE7, 49) /* the argument is the id */
#define THOLE_DRIVER_ATTACH  _IOWR(0xE7, 50, struct thole_driver_attach)

/* Bind this descriptor's endpoint to an interface, in the network namespace of the caller: from then on it gets small
 * frames of an EtherType that are to its number there, and may send some from it. Needs no privilege. One at a time.
 * EPROTONOSUPPORT: not an EtherType of ours. ENODEV: no such interface. EADDRNOTAVAIL: one without Ethernet.
 * EADDRINUSE: another endpoint has the number there. EBUSY: this one is bound already. */
struct thole_driver_bind {
	__u32 interface; /* its index */
	__u16 ethertype; /* one of enum thole_driver_ethertype */
	__u16 reserved;  /* 0 */
	__u32 endpoint;  /* its number, by which frames name it */
	/* Answers: of what THOLE_DRIVER_AT_ETHER shows, which is in this order: struct thole_driver_ether, up to
	 * THOLE_DRIVER_FRAMES_AT; places for frames in; places for frames out. */
	__u32 place;     /* bytes of each */
	__u32 places_in;
	__u32 places_out;
	__u64 bytes;     /* of all */
};

enum thole_driver_ethertype {
	THOLE_DRIVER_ETHERTYPE = 0x88b5,     /* native: frames have the numbers of both endpoints in front */
	THOLE_DRIVER_ETHERTYPE_MXOE = 0x86df /* numbers are below 256, and where MXoE has them */
};

#define THOLE_DRIVER_BIND    _IOWR(0xE7, 32, struct thole_driver_bind)
#define THOLE_DRIVER_UNBIND  _IO(0xE7, 33)
/* Send frames from places, as first | count << 16. Answers how many have left; for the next one there is no room now.
 * Those that cannot be sent at all have left too, and are counted. ENODEV: the interface has gone. */
#define THOLE_DRIVER_SEND    _IO(0xE7, 34)

/* ---- Bulk (docs/PROTOCOL.md): PULLs of an endpoint's windows are answered, and its fetches' DATA is put in place,
 * while the program computes. Of native frames over IPv4, with short tags or none, by the program's sockets: whatever
 * is not for the driver, and each PULL for what else it says, goes on to these. Of MXoE's frames, by the interface that
 * the endpoint is bound to: what is not for the driver goes on to the places there. ---- */

/* What frames of a connection are. All of a descriptor's connections have the same. */
enum thole_driver_codec {
	THOLE_DRIVER_CODEC_NATIVE,
	THOLE_DRIVER_CODEC_MXOE, /* as MX has them */
	THOLE_DRIVER_CODEC_MXOE_JUMBO,
	THOLE_DRIVER_CODECS
};

/* A UDP socket of the process's own, bound to a port. Closing it, or the descriptor, gives it back. EBUSY: somebody has
 * it already. EPERM: it was made by another user. */
struct thole_driver_socket {
	__s32 fd;
	__u32 channel; /* 0: of records, where PULLs come to; 1: of bulk, where DATA does */
};

/* A peer, as both sides' handshake has named it. EEXIST: there is one of this index; MXoE: of this address and number.
 * EBUSY: there are some of another codec. MXoE: sessions have 32 bits, the indices are the endpoints' numbers, ports
 * and what is about tags is 0. ENXIO: the descriptor is not bound under this number. */
struct thole_driver_connection {
	__u64 session; /* ours, in frames to us */
	__u64 peer_session;
	__u32 index; /* ours */
	__u32 peer_index;
	__u8 address[16]; /* IPv4, mapped into IPv6. MXoE: the MAC, then zeros */
	__u16 records_port;
	__u16 bulk_port;
	__u32 frame_max; /* bytes of a frame to it */
	__u32 mode;      /* 0: frames have no tags, 1: they have short ones */
	__u32 credit;    /* bytes of what is asked for and not here, of all peers of the descriptor; 0: as it is */
	__u64 out_secret[2]; /* that keys are made of: of frames to it, */
	__u64 in_secret[2];  /* and from it */
	__u64 counter;       /* of the frame that was sent to it last */
	__u32 id;            /* the answer */
	__u32 codec;         /* enum thole_driver_codec */
};

/* The peer may fetch a part of a region by a name. EEXIST: it may fetch another by this one. MXoE: who asks for 0xffff
 * is told that there is no such window. */
struct thole_driver_window {
	__u64 window; /* the name in PULLs */
	__u64 offset; /* in the region */
	__u64 length;
	__u32 connection;
	__u32 region;
};

/* Fetch a part of a window of the peer's into a region. The end is an event, THOLE_DRIVER_EVENT_FETCHED. */
struct thole_driver_fetch {
	__u64 window;
	__u64 transfer; /* our name for it, of 56 bits, which never comes again. MXoE: handle and magic */
	__u64 offset;   /* in the window */
	__u64 length;   /* not 0 */
	__u64 region_offset;
	__u64 cookie;   /* comes back in the event */
	__u32 connection;
	__u32 region;
	__u32 frame;    /* bytes of payload of a frame; MXoE: as many as the codec has */
	__u32 reserved; /* 0 */
};

/* A window or a fetch of a connection. */
struct thole_driver_name {
	__u64 name;
	__u32 connection;
	__u32 reserved; /* 0 */
};

#define THOLE_DRIVER_SOCKET         _IOW(0xE7, 16, struct thole_driver_socket)
#define THOLE_DRIVER_SOCKET_BACK    _IO(0xE7, 17) /* the argument is the file descriptor */
#define THOLE_DRIVER_CONNECTION     _IOWR(0xE7, 18, struct thole_driver_connection)
#define THOLE_DRIVER_CONNECTION_END _IO(0xE7, 19) /* the argument is the id; fetches end without an event */
#define THOLE_DRIVER_WINDOW         _IOW(0xE7, 20, struct thole_driver_window)
#define THOLE_DRIVER_WINDOW_END     _IOW(0xE7, 21, struct thole_driver_name)
#define THOLE_DRIVER_FETCH          _IOW(0xE7, 22, struct thole_driver_fetch)
#define THOLE_DRIVER_FETCH_END      _IOW(0xE7, 23, struct thole_driver_name) /* without an event; ENOENT: it is over */

/* What driver and program both know of a connection. */
struct thole_driver_way {
	/* Of the frame that was sent last: whoever sends the next n adds n in one step. */
	__u64 counter;
	/* The program's: what PULLs carry for the peer's records. */
	__u32 ack;
	__u16 credit;
	__u16 host_index; /* MXoE: by which the peer's host knows ours */
	/* The driver's: frames that came for it. */
	__u64 heard;
	/* The program's: the upper half of the newest counter of frames from the peer, by which their keys turn. */
	__u64 epoch;
};

/* What a descriptor shows by mmap, each from its offset. Written by the kernel alone but where it says so. */
enum thole_driver_offset {
	THOLE_DRIVER_AT_SHARED = 0,           /* struct thole_driver_shared; cannot be mapped to be written */
	THOLE_DRIVER_AT_EVENTS = 0x1000000,   /* struct thole_driver_events; the first mmap begins it */
	THOLE_DRIVER_AT_ETHER = 0x2000000,    /* struct thole_driver_ether and frames, once it is bound */
	/* struct thole_driver_way[THOLE_DRIVER_CONNECTIONS], by id; written by both sides */
	THOLE_DRIVER_AT_WAYS = 0x3000000
};

/* Kinds of events. */
enum thole_driver_kind {
	/* What THOLE_DRIVER_BACKGROUND asked for has ended. cookie: the region's id; data: struct
	 * thole_driver_pinned */
	THOLE_DRIVER_EVENT_PINNED = 1,
	/* The interface that an endpoint was bound to has gone, or left the namespace. cookie: its index; no data */
	THOLE_DRIVER_EVENT_UNBOUND = 2,
	/* A fetch is over. cookie: its own; data: struct thole_driver_fetched */
	THOLE_DRIVER_EVENT_FETCHED = 16,
	/* A window cannot be read any more, and is forgotten. cookie: its name; data: struct thole_driver_lost. May be
	 * untold. */
	THOLE_DRIVER_EVENT_LOST = 17
};

struct thole_driver_fetched {
	__s32 status; /* 0, or why it could not be pinned: EFAULT, ENOMEM, EAGAIN, ENOENT (forgotten), negative */
	__u32 connection;
	__u64 transfer;
};

struct thole_driver_lost {
	__s32 status;
	__u32 connection;
};

struct thole_driver_pinned {
	__s32 status;     /* 0: what was asked for was pinned; or a negative errno */
	__u32 generation; /* of the region: an id may be another region's since */
	__u64 pinned;     /* pages, from the front, that are now: what was pinned may have gone since */
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

/* Where in it places for frames begin. */
#define THOLE_DRIVER_FRAMES_AT 4096

/* A frame. One that has come is there when the stamp is its number, counted from 1; it is in place number - 1 modulo
 * places_in. */
struct thole_driver_frame {
	__u32 stamp;    /* written last, with release; of frames out: nothing */
	__u16 length;   /* of data */
	__u8 path[10];  /* MAC of the other side; native: number of the other endpoint, big-endian */
	__u8 data[];
};

struct thole_driver_ether {
	__u32 read;      /* the program's: how many frames it has read, with release */
	__u32 reserved[15];
	__u32 frame_max; /* bytes of data that the interface and places take now */
	__u32 unbound;   /* 1: the interface has gone; nothing comes any more */
	__u32 overflows; /* frames that found no room */
	__u32 too_long;  /* frames that did not fit the interface */
	__u32 lost;      /* others that could not be sent: the interface is down, or they were not the endpoint's */
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
	__u64 sent;          /* frames of DATA */
	__u64 sent_bytes;    /* their payload */
	__u64 received;      /* frames of DATA that were put in place */
	__u64 received_bytes;
	__u64 packets;       /* packets with frames of DATA, as the kernel handed them over: many frames each */
	__u64 asked;         /* PULLs sent, */
	__u64 asked_again;   /* those of them that asked once more */
	__u64 overlap_miss;  /* frames that came for pages which were not there: they come again */
	__u64 duplicate;     /* frames that were here already */
	__u64 malformed;     /* frames of the peers' that were asked for by nobody, or of windows that are not there */
	__u64 forged;        /* frames with a wrong tag, or one that was there */
	__u64 full;          /* PULLs that found too many waiting, packets that found no memory or way */
	/* By id, how often what is known of a region's memory has become wrong: its pins went, or it was forgotten. */
	__u32 generations[THOLE_DRIVER_REGIONS];
};

#endif
