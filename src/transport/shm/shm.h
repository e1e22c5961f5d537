/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm: the transport between processes of one host and one user.
 *
 * Each direction of a pair has a segment of its own, made by its producer when it first sends, and a socket
 * over which the consumer got it (connect.c). Both are unnamed, so that nothing is left behind whatever ends
 * a process. A segment is a ring of records, a small and a large area for payloads, and offers of
 * shared work (bulk.h). Each word in it has one writer, but for offers' claims and the wake word.
 *
 * Whatever the other side can write is read once and checked; the producer's book-keeping of slots and
 * areas is private. A broken peer can lose its own messages only.
 */
#ifndef THOLE_TRANSPORT_SHM_SHM_H
#define THOLE_TRANSPORT_SHM_SHM_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/forked.h"
#include "base/hash_table.h"
#include "base/list.h"
#include "base/pool.h"
#include "memory/cache.h"
#include "memory/driver.h"
#include "transport/grants.h"
#include "transport/shm/passage.h"
#include "transport/shm/takes.h"
#include "transport/transport.h"

enum {
	SEGMENT_VERSION = 15,    /* of what both sides of a segment do, too */
	RING_SLOTS = 128,         /* an 8 KiB ring, 64 messages of two slots: memory grows with the number of pairs */
	RING_RESERVE = 8,         /* slots that bulk data leaves to other records */
	RING_BURST = 32,          /* records handled before another ring is polled */
	RINGS_ROW = 8,            /* rings of several that are polled in a row, until there is something */
	SPAN_HEAD = 8,            /* bytes of a second slot before payload: its stamp */
	SPAN_MAX = RECORD_INLINE_MAX + (int)sizeof(struct record) - SPAN_HEAD, /* payload of a record in two slots */
	/* messages whose lines are moved towards the one who waits for them; the pieces of longer ones lose by it */
	DEMOTE_MAX = 4096,
	AHEAD = 4,                /* slots ahead of which lines are moved to where they will be needed, */
	ASK_MAX = 128,            /* and payloads of a stream that are not longer */
	EARLY_MAX = 512,          /* payloads of a dialogue whose lines are asked for before their receive is known */
	/* times that small payloads found no place, after which the large area is theirs too */
	SMALL_STALLS = 64,
	/* Up to this an eager message in a dialogue is one piece: a second costs more than the copies would overlap. */
	PIECE_WHOLE = 12 * 1024,
	/* Pieces of a longer one. The first one is small enough for the receiver to begin soon. It has more to do for
	 * each than the sender and falls behind, so it waits for none that is that much longer than the one before; and
	 * fewer cost less. */
	PIECE_OVERLAP = 8 * 1024, /* of two, which have to be alike, */
	PIECE_FIRST = 12 * 1024,  /* and of more; */
	PIECE_MORE = 4 * 1024,    /* each one after it is so much longer, */
	PIECE_MOST = 24 * 1024,   /* up to this */
	/* or more, in a stream, where the copies of several messages overlap, and of messages that cross, which are
	 * copied out when both are there */
	PIECE_STREAM = 32 * 1024,
	ASKED = 16,               /* accesses that the other side was asked to make, at a time */
	OFFERS = 16,              /* transfers that one direction's two ends can share at a time */
	SEGMENT_BASE = 4 * 4096,  /* bytes of a segment that small messages touch */
	SMALL_PAYLOAD_MAX = 1024, /* longer payloads have the large area made */
	SHORT_END = 1024,         /* of a message whose payload is copied like any other memory (ring_copy) */
	WALKS_MAX = 32,           /* peers with an AREA_WALK, which has 2 MiB */
	TURN_LONG = 8,            /* so many messages without one the other way are a stream from the first on */
	CROSSED_STAYS = 4,        /* long messages for which those that cross are taken to go on */
	AREA_REUSE = 64 * 1024,   /* bytes of an area after which to check whether it has drained */
	PUBLISH_SLOTS = RING_SLOTS / 4, /* consumed slots of which the producer is told at the latest, */
	PUBLISH_BYTES = 16 * 1024,      /* and consumed payload, */
	PUBLISH_BYTES_LENT = 4 * AREA_REUSE, /* or more than this while answers borrow, if the ring is not smaller */
	LEND_TRIES = 8,           /* messages that are held for answers to borrow after one could have */
	PUBLISH_POLLS = 8,        /* polls of an empty ring before it is told of anything: an answer may borrow; */
	PUBLISH_POLLS_AMID = 1024, /* in the middle of a message: longer than its next piece takes, cores apart */
	FORESEEN_VOTE = 512,      /* answers between two votes how far their reader is: */
	FAR_NS = 70,              /* who stores to a line that it polls waits longer for that; */
	FAR_VOTES = 2,            /* as the last votes said, or more of them */
	FAR_VOTES_MAX = 3,
	PULLS_MAX = 4,            /* ring fetches from one peer under way: hides the round trip */
	SEGMENTS_A_CALL = 64,     /* segments of one process_vm call; bounds the stack */
	GREETINGS_MAX = 64,       /* connections that have not said who they are yet */
};

/* How messages of one sender come: each after an answer, or one after the other, or at the same time as one the other
 * way, or both of these. */
enum pace { PACE_DIALOGUE, PACE_STREAM, PACE_CROSSED, PACE_STREAM_CROSSED, PACES };

static inline bool pace_streams(enum pace pace)
{
	return pace == PACE_STREAM || pace == PACE_STREAM_CROSSED;
}

static inline bool pace_crosses(enum pace pace)
{
	return pace == PACE_CROSSED || pace == PACE_STREAM_CROSSED;
}

#define SEGMENT_MAGIC 0x74686f6c65733031u /* "tholes01" */

/* Two processes' shares of one transfer: blocks claimed from the front by the receiver, from the back by the
 * sender. Made by the receiver, in the segment that it consumes. */
struct offer {
	uint64_t claim;  /* packed: see bulk.h; both sides compare-and-swap it */
	uint32_t done;   /* blocks the sender has copied; it writes this */
	uint32_t failed; /* the sender was refused and has stopped; it writes this */
	uint8_t unused[48];
};

/* By which those who help with offers, or put, go into the receiver's memory (door.c): one call writes a number to
 * the way in, then data, then the same number to the way out, which is the same place of the next page. */
struct door {
	uint64_t ways[OFFERS + 1]; /* the last is that of accesses to regions */
};

enum { DOOR_ACCESS = OFFERS };

/* What who is in a region does there (access.c). */
enum accessing { ACCESSING_NONE, ACCESSING_PUT, ACCESSING_GET };

struct segment {
	/* Written before the segment is handed over. */
	uint64_t magic;
	uint32_t version;
	uint32_t fenced;          /* the producer is among the processes that a sleeper's membarrier fences */
	/* Written as its endpoint closes. */
	uint32_t producer_closed;
	/* Written when its windows become its user's memory again: what is read from then on is anything. */
	uint32_t withdrawn;
	uint32_t first;           /* slot of the first record; written before the segment is handed over */
	uint32_t accessing;       /* enum accessing: the producer is in a region of the consumer's, or about to be */
	uint32_t unused0[8];
	/* The consumer's line. */
	uint64_t consumed; /* slots it is through with, memory and all */
	uint64_t handled;  /* slots whose records it has handled; the memory of some may be lent to its answers */
	uint64_t unused1[6];
	/* Rarely written, so that the producer reads it for nothing after each record. */
	uint32_t wake;             /* the consumer sleeps, or is about to; the producer clears it as it wakes it */
	/* Classes of lengths of which the consumer wants RTS; of those that begin with one anyway and cross, that it
	 * will copy them. */
	uint32_t rendezvous_classes[PACES];
	uint32_t learnt_classes; /* of dialogues: those of which it knows which way is faster */
	uint32_t accepted;       /* the consumer has the segment, and cookie and its address hold */
	uint32_t core;           /* one more than the core on which the consumer was last seen waiting */
	uint32_t consumer_closed; /* its endpoint closes in good order */
	uint64_t cookie_address; /* in the consumer's memory: reading `cookie` there proves the right to */
	uint64_t cookie;
	/* how often regions were withdrawn that the producer could reach: what it knows of others does not hold then */
	uint64_t withdrawals;
	uint64_t unused3[8];     /* the slots begin a pair of lines */

	struct record slots[RING_SLOTS];
	struct offer offers[OFFERS];
	uint64_t asked[ASKED]; /* accesses that the consumer is to make: their numbers, and who makes them (access.c) */
	char small[]; /* to SEGMENT_BASE; the large area follows it */
};

_Static_assert(sizeof(struct offer) == 64, "offers do not share lines");
_Static_assert(offsetof(struct segment, slots) % 128 == 0,
	       "even slots begin pairs of lines, which are fetched together");
_Static_assert(offsetof(struct segment, small) + SMALL_PAYLOAD_MAX < SEGMENT_BASE, "the small area is of use");

/* Memory for payloads, given out in the order of slots and free again in that order. */
struct area {
	char *base;
	uint32_t size; /* 0: not there */
	uint32_t head; /* where the next payload goes */
	uint32_t tail; /* where the oldest live one starts */
	uint32_t live; /* payloads in it */
};

/* AREA_BULK is for pieces of bulk; AREA_LENT is the peer's, while it lends that; AREA_WALK is for streams that walk
 * (passage.h). */
enum { AREA_SMALL, AREA_LARGE, AREA_BULK, AREA_WALK, AREA_LENT, AREAS };

struct placement {
	uint32_t end;   /* in the area */
	uint32_t area;  /* one more than AREA_*; 0: there is no payload in one */
};

/* The producer's private state. */
struct ring_out {
	struct segment *segment;
	uint64_t produced;  /* slots */
	uint64_t consumed;  /* of those, known to be consumed, */
	uint64_t reclaimed; /* and of these, whose memory has been taken back */
	uint64_t size;      /* of the mapping */
	bool refused[AREAS];
	uint32_t bounded[AREAS]; /* by the bound alone, amid this one of shm->releases; 0: not by that */
	uint8_t far;        /* votes that a line which its consumer polls takes long to come here, */
	uint16_t foreseen;  /* and answers since the last one */
	int fd;             /* the memfd, until all of it is allocated or will not be, */
	struct forked forked; /* which no child keeps */
	uint32_t small_stalls;
	uint64_t lent_until; /* slots from which on no payload lies in memory lent by the other direction */
	uint32_t bulk;       /* AREA_*, of the pieces that are pushed now */
	bool bulk_own;       /* AREA_BULK was last written here, so the peer has its lines */
	bool bulk_lent;      /* the peer writes there now */
	struct passage passages[PASSAGE_CLASSES]; /* of streams of payloads that AREA_LARGE could hold */
	struct area areas[AREAS];
	uint32_t outside;    /* payloads in areas */
	struct placement placed[RING_SLOTS]; /* of each slot; those that are free have none */
};

/* The consumer's. */
struct ring_in {
	struct segment *segment;
	uint64_t next;      /* slot */
	uint64_t handled;   /* slots whose payload is not needed any more: next, but while one is handled */
	uint64_t published; /* what segment->consumed says */
	uint64_t credited;  /* what the producer was told by any way */
	uint64_t bytes;     /* of payload in slots handled and not credited */
	uint32_t polls;     /* at the empty ring, in a row */
	uint32_t tries;     /* how often memory is still held for answers; 0: this is a stream */
	bool borrowed;      /* the answer that is being sent lies here */
	bool unanswered;    /* payload was handled since one was last sent */
	bool alone;         /* the long message that was last begun is not in a stream */
	bool ended;         /* a message is here with which the poll ends */
	uint64_t tag, left; /* of the long message that was last begun, and how many bytes of it are to come */
	bool held;          /* what is not published yet, beyond PUBLISH_POLLS */
	uint32_t run_start; /* consecutive payloads of slots handled and not credited: memory that */
	uint32_t run_end;   /* answers may borrow */
	uint64_t size;
	uint64_t half;      /* bytes of the producer's AREA_LARGE, and where */
	bool fenced;        /* as the producer said in the segment */
	bool owing;         /* in shm->owing */
	struct list_node node;
	struct transport_peer *peer;
};

/* A ring that is polled. Where there are several, a poll looks at what is here and at the slot, and at nothing else. */
struct ring_watch {
	const uint16_t *stamp; /* of its next slot, */
	uint64_t expected;     /* when a record is there */
	struct ring_in *ring;
};

/* In record.place: in the segment of the other direction; to be kept out of the reader's cache. */
enum { PLACE_LENT = (int)(1u << 31), PLACE_ONCE = 1 << 30 };

static inline uint32_t place_at(uint32_t place)
{
	return place & ~((uint32_t)PLACE_LENT | (uint32_t)PLACE_ONCE);
}

/* What an epoll event is about. */
enum watch_kind { WATCH_LISTENER, WATCH_GREETING, WATCH_IN, WATCH_OUT, WATCH_PROCESS };

struct watch {
	struct watcher watcher;
	uint8_t kind;
	int fd;
	struct forked forked;  /* a child that had these would keep up what its parent, when it ends, does not */
	struct transport_peer *peer;
	struct list_node node; /* a greeting's */
	pid_t pid;
	uint64_t since_ns;
};

enum one_copy { ONE_COPY_UNKNOWN, ONE_COPY_YES, ONE_COPY_NO };

/* An eager message that counts for choosing. */
struct eager_sample {
	uint64_t start_ns;            /* 0: it is not timed */
	uint32_t length, piece, left; /* length 0: none */
	enum pace pace;
};

enum {
	VIEWS = 16,         /* by the driver, of a peer's memory, and by a peer of this process's */
	LENDINGS_SEEN = 64, /* buffers of which is known that they were used */
};

/* What an endpoint lends by the driver. */
struct lendings {
	struct cache cache;
	void *memory;          /* the cache's; NULL: nothing is lent */
	struct list_node all;
	uint64_t serial;       /* of the last one */
	uint64_t seen[LENDINGS_SEEN];
};

/* A view of a peer's memory. */
struct view {
	struct driver_view shown;
	uint64_t base; /* in the peer */
	bool write;
};

struct views {
	uint64_t told[VIEWS];  /* serials of what the peer was told, in a ring */
	uint32_t next;
	struct view views[VIEWS];
};

/* The transport's part of a peer. */
/* A long message that was sent, all of it or what is out of it. */
struct sent_long {
	uint64_t end;    /* the slot behind it */
	uint64_t window; /* what it was sent for to be fetched, */
	bool asked;      /* if it was */
	bool taken;      /* and it is fetched */
};

enum { UNHEARD_ARENA = 1, UNHEARD_LIFE = 2 };

struct shm_peer {
	struct ring_out out;
	struct ring_in in;
	struct watch watch_in, watch_out, watch_process;
	pid_t pid;
	uint8_t one_copy;         /* enum one_copy: may this process read and write the peer's memory? */
	bool connected;           /* out may be used */
	bool connecting;          /* its listener was full, or the greeting did not go or was not read: try again; */
	bool wanting;             /* something was wanting here meanwhile, and it was said */
	uint8_t asked_times;      /* so often was asked whether anybody answers for it, while something was wanting, */
	uint64_t ask_ns;          /* and from then on it may be again */
	uint8_t anew;             /* so often another connection was made because the peer had let go of one */
	bool ending;              /* no more will be written: lost when `in` is drained */
	bool dead;                /* disconnected: its memory goes at the next maintenance */
	bool beside;              /* its process has, or had, other endpoints that have connected to us */
	uint64_t cookie_address, cookie; /* from its greeting */
	struct list_node copies;  /* bulk: what this process fetches from the peer by itself, in order, */
	struct list_node pulls;   /* and what by the ring, */
	struct list_node serves;  /* and what it was asked to push or help with */
	struct transport_peer *peer;
	struct list_node node;    /* in shm->links */
	struct list_node active;  /* in shm->active while one of these is not empty, or there are accesses */
	uint32_t pulling;         /* pulls that the peer was asked for */
	uint64_t lease, lease_end; /* while out.bulk_lent: to which fetch, and the offset at which it is over */
	struct eager_sample sample;
	uint32_t led_wants[PACES], led_learnt; /* of who leads: what it wanted when it was last told what we want */
	bool streaming;           /* nothing was received since the last message to it, or it is as if: pace_streams */
	bool turns_long;          /* TURN_LONG or more messages to it were in a row the last time, */
	bool turns_several;       /* or more than one */
	uint32_t turn, turn_before; /* and so many since one was received, and then */
	bool in_pieces;           /* a message to it is not out to its end, */
	uint64_t sent;            /* but so many bytes of it; else 0 */
	struct sent_long longs[2]; /* the last long message to it, and the one before that */
	uint8_t crossed;          /* so many of its next long messages are taken to cross ours, since one did, */
	uint8_t crossed_several;  /* or several of ours: both sides stream */
	struct door *door;        /* the peer's into this process's memory; NULL: there was no offer yet */
	uint64_t shut_ns;         /* since when it lets nobody in; 0: it does */
	uint8_t shut_times;       /* so often it was shut */
	bool ended;               /* its process has, or where it has no id here, its connection */
	bool foreign;             /* it has another version of Thole, and has not let us in */
	uint32_t offers_used;     /* a bit an offer, of in.segment */
	uint32_t offer_sequence;
	uint64_t told;            /* number of the arena of this process that the peer was told of; 0: none */
	bool life_told;           /* the peer has this process's page, or does not need it */
	uint8_t unheard;          /* what the peer told in vain, UNHEARD_*: it is to be asked to tell again */
	const struct life_page *life_page; /* the peer's, */
	const uint32_t *life;     /* and its word there, by which it is known to go on; NULL: there is none */
	struct attachment *attachments; /* arenas of the peer, ATTACHMENTS of them; NULL: none yet */
	struct views *views;      /* what else of it is mapped; NULL: nothing yet */
	struct grants grants;     /* regions of the peer's that are known */
	struct access_row *row;   /* accesses to them that are made next, in one call; NULL: there was none yet */
	struct list_node accessing; /* in shm->accessing while there are any */
	uint32_t accesses;        /* that were begun and have not ended */
	struct transport_access *asked[ASKED]; /* those that the peer was asked to make, by their numbers */
	uint32_t asked_count;
	uint32_t asked_turns;     /* so often was looked since one of them was begun or made */
	uint64_t asked_number;    /* of the last one, */
	uint64_t asked_end;       /* and the slot behind its record */
	bool absent;              /* the peer has not come to one: it is asked again when it has handled that record */
	uint64_t access_calls;    /* as copy_write counts them */
	bool let_in;              /* the way in for accesses is open, or was */
	bool reaches;             /* the peer knows regions of ours, */
	uint64_t leave_ns;        /* and since then it should be out of all; 0: it need not */
};

enum { COST_CLASSES = 48 };

/* What messages of a class of lengths were seen to take. */
struct cost {
	uint64_t mean_ns;
	uint64_t beside_ns; /* the other way's mean when this one was last known */
	uint32_t samples;
};

enum cost_way { COST_RING, COST_COPY, COST_WAYS };

struct costs {
	struct cost ways[COST_WAYS];
	uint32_t choices;
	uint32_t waited;     /* of them since the last trial */
	uint32_t plain;      /* so many of the next that come by the ring say nothing, and are in all numbers already */
	uint32_t row;        /* messages that came by one way one after the other, up to the last, */
	enum cost_way last;  /* by this one */
	uint32_t run;        /* where they cross, so many of them took */
	uint64_t run_ns;     /* so long */
	uint32_t trial;      /* messages that are still to take the slower way, */
	enum cost_way tried; /* this one, to see whether it still is */
};

enum bulk_method { BULK_RING, BULK_COOPERATIVE, BULK_ONE_COPY, BULK_DIRECT };


struct shm {
	struct transport_owner *owner;
	struct ring_watch *in;    /* rings to poll; one alone is by itself, only several are by stamp and expected */
	uint32_t in_count, in_capacity;
	uint32_t last, turn;      /* of several rings, which had something last, and which is looked at next */
	struct list_node owing;   /* those of several that have something to tell their producer */
	uint32_t walks;           /* peers that have an AREA_WALK */
	uint64_t area_bytes;      /* of all areas but the small ones, */
	uint32_t releases;        /* and so many times it became less */
	uint64_t memory;          /* the host's; asked for at opening: it takes much of a stack */
	bool membarrier;          /* sleeping can rely on it */
	/* by which peers see that they may read this process, and that it still is this one (door.c) */
	uint64_t *cookie;
	struct watch listener;
	uid_t opened_by; /* the effective user then */
	int spare_fd; /* for a connection that there is no descriptor for */
	struct lendings lendings; /* memory of this process that peers map by the driver */
	struct list_node greetings;
	uint32_t greeting_count;
	struct list_node links;   /* all peers that were met, and have not ended and been left */
	struct list_node active;  /* peers with bulk work, or accesses */
	struct pool fetches, serves;
	struct list_node accessing; /* peers with accesses to be made, */
	struct list_node accessed;  /* and accesses that were made */
	struct list_node exports;   /* regions of ours that a peer knows, */
	struct hash_table exports_by_key;
	struct pool grants, export_pool;
	uint32_t connecting, ending, dead; /* peers in these states */
	uint64_t held_ns;         /* until then no greeting goes, */
	uint32_t held_times;      /* after so many in a row that were refused */
	uint32_t rendezvous_classes[PACES]; /* as learnt, */
	uint32_t learnt_classes;            /* those of dialogues */
	uint64_t placed_ns;                 /* when the last message that was timed was in its place, whoever sent */
	uint32_t sends;                     /* it, and long ones that were sent since */
	struct takes takes;
	struct costs costs[PACES][COST_CLASSES];
	/* of those longer than eager_max that could be copied from mapped memory: COST_COPY is that */
	struct costs direct_costs[PACES][COST_CLASSES];
};

/* By a record's flags. */
static inline enum pace pace_of(uint8_t flags)
{
	return (enum pace)((flags & RECORD_PACE) / RECORD_STREAM);
}

static inline uint8_t pace_flags(enum pace pace)
{
	return (uint8_t)(pace * RECORD_STREAM);
}

_Static_assert(PACE_CROSSED * RECORD_STREAM == RECORD_CROSSED && PACES * RECORD_STREAM - RECORD_STREAM == RECORD_PACE,
	       "a pace is two of a record's flags");

static inline struct shm *shm_of(struct transport_owner *owner)
{
	return owner->state[TRANSPORT_SHM];
}

/* NULL: it was not met yet, or is gone, and nothing of it is left. */
static inline struct shm_peer *shm_link(struct transport_peer *peer)
{
	return peer->link;
}

/* Whether something is fetched from the peer. */
static inline bool shm_fetches(const struct shm_peer *link)
{
	return !list_empty(&link->copies) || !list_empty(&link->pulls);
}

/* The transport's part of a peer, made if there is none; NULL without memory. */
struct shm_peer *shm_peer_get(struct transport_peer *peer);
/* How a peer that writes no more has ended: it has closed its endpoint (CLOSED), or died (PEER), or is of another
 * version (PROTOCOL). */
int shm_end_status(const struct shm_peer *link);
/* The ring in shm->in[i] has moved on, or is new among several. */
void shm_watch(struct shm *shm, uint32_t i);

/* segment.c */
/* Whether this process may have no memory for segments, now or later: a filter refuses it. errno says how. */
bool segment_is_forbidden(void);
int segment_create(struct transport_owner *owner, struct ring_out *ring, int *fd_p);
bool segment_is_safe(int fd);
int segment_accept(struct ring_in *ring, int fd);
void segment_release_out(struct transport_owner *owner, struct ring_out *ring);
void segment_release_in(struct ring_in *ring);
/* Say to the consumer that the windows it was told of through this ring are no more. */
void segment_withdraw(struct ring_out *ring);
/* Give the ring AREA_LARGE, AREA_BULK or AREA_WALK, if it can have it, and all of the endpoint's may have so much. */
void segment_enlarge(struct transport_owner *owner, struct ring_out *ring, uint32_t which);

/* choose.c */
/* direct: the sender's memory is mapped here. */
enum bulk_method choose_fetch(struct transport_peer *peer, uint64_t length, enum pace pace, bool direct);
void choose_fetched(struct transport_peer *peer, enum bulk_method method, uint64_t length, enum pace pace, bool direct,
		    uint64_t start_ns);
void choose_eager_begin(struct transport_peer *peer, const struct record *record, uint32_t length, bool late);
void choose_eager_piece(struct transport_peer *peer, uint32_t length);
/* Whether a fetch is to be timed from its beginning on. */
bool choose_fetch_is_due(struct transport_peer *peer, enum bulk_method method, uint64_t length, enum pace pace,
			 bool direct);
/* Write the rendezvous classes of a sender, or of each, where it reads them. */
void choose_tell(struct transport_peer *peer);
void choose_tell_all(struct transport_owner *owner);

/* place.c */
bool ring_has_room(struct ring_out *ring, uint32_t reserve);
/* Room for so many slots, asking the consumer if need be. */
bool ring_make_room(struct ring_out *ring, uint32_t slots);
/* A record whose payload lies in an area, into its slot: where the payload is now; NULL if there is no room for it. */
const char *ring_fill_outside(struct transport_peer *peer, const struct record *record, const struct vector *payload,
			      uint64_t offset, uint32_t length);
/* A place for the payload of a short message, and where that is in the segment. NULL: ring_push finds one, or makes
 * room. */
char *ring_place_short(struct shm_peer *link, uint32_t length, uint32_t *at_p);
/* Lend AREA_BULK to the peer, where its lines are: the place in the segment, and the size. False: rather not. */
bool ring_lend(struct ring_out *ring, uint32_t *place_p, uint32_t *size_p);
/* Take what the peer lends; false: pieces of the last time are still there. */
bool ring_lease(struct shm_peer *link, uint32_t place, uint32_t size);
/* Pieces of bulk that are pushed from now on go to what is leased, or into this side's segment. */
void ring_bulk(struct transport_peer *peer, bool leased);
uint32_t ring_piece_max(struct ring_out *ring);
/* Of a dialogue: whether there is room for a message's pieces. */
bool ring_fits(struct transport_peer *peer, uint64_t length);

/* The consumer says that it is through with this many slots. Their memory is taken back when it is needed. */
static inline void ring_heard(struct ring_out *ring, uint64_t consumed)
{
	if (consumed - ring->consumed > ring->produced - ring->consumed)
		return; /* no correct consumer says that: it stalls itself */
	ring->consumed = consumed;
}

/* Copy a record into its slot: its head, and so many words of its payload or arguments. By words, as they were written:
 * a wider load would have to wait until those stores are out of the processor's store buffer, and so are all before
 * them, to lines that the reader still has. */
static inline void slot_fill(struct record *slot, const struct record *record, uint16_t length, uint32_t words)
{
	typedef uint64_t __attribute__((may_alias)) word;
	const word *from = (const word *)(const void *)record->payload;
	word *to = (word *)(void *)slot->payload;

	slot->kind = load_relaxed(&record->kind);
	slot->flags = load_relaxed(&record->flags);
	slot->length = length;
	slot->tag = load_relaxed(&record->tag);
	slot->imm = load_relaxed(&record->imm);
	for (uint32_t i = 0; i < words; i++)
		to[i] = load_relaxed(&from[i]);
}

/* ring.c */
int ring_push(struct transport_peer *peer, const struct record *record, const struct vector *payload, uint64_t offset,
	      uint32_t length);
int ring_push_short(struct transport_peer *peer, uint8_t flags, uint64_t tag, uint64_t imm, const void *buffer,
		    uint32_t length);
/* Handle what is there: a record at least, at most RING_BURST. */
int ring_take(struct ring_in *ring);
uint8_t ring_voted(uint8_t far, uint64_t away_ns, uint64_t here_ns);
/* At a poll that found nothing, where the producer is to be told of something yet. */
void ring_publish_late(struct ring_in *ring);

static inline uint16_t ring_stamp(uint64_t slot)
{
	return (uint16_t)(slot / RING_SLOTS + 1); /* differs from the lap before, which is all that can be there */
}

static inline struct record *ring_slot(struct segment *segment, uint64_t slot)
{
	return &segment->slots[slot % RING_SLOTS];
}

/* How many slots a record takes, by its length word. */
static inline uint32_t ring_slots(uint32_t length)
{
	return 1 + (uint32_t)(length > RECORD_INLINE_MAX && length <= SPAN_MAX);
}

static inline bool ring_ready(const struct ring_in *ring)
{
	/* Pairs with the release of the stamp in ring_push. */
	return load_acquire(&ring_slot(ring->segment, ring->next)->stamp) == ring_stamp(ring->next);
}

/* Most polls find nothing: those call nothing. */
static inline int ring_poll(struct ring_in *ring)
{
	if (ring_ready(ring))
		return ring_take(ring);
	prefetch_read(ring_slot(ring->segment, ring->next + 1)); /* the next record may need it */
	if (ring->published != ring->handled)
		ring_publish_late(ring);
	return 0;
}

/* connect.c */
/* The name of an endpoint's listener. */
socklen_t connect_name(uint64_t endpoint, struct sockaddr_un *name);
int connect_open(struct transport_owner *owner);
void connect_close(struct transport_owner *owner);
/* Take all connections that wait at the listener, and all greetings that are here. Not while rings are polled. */
void connect_accept_all(struct transport_owner *owner, uint64_t now_ns);
int connect_peer(struct transport_peer *peer);
void connect_retry(struct transport_owner *owner, uint64_t now_ns);
void connect_expire(struct transport_owner *owner, uint64_t now_ns);
void connect_release(struct transport_peer *peer);
void connect_wake(struct transport_peer *peer);
/* The peer writes no more: it is lost when its ring is empty. */
void connect_ending(struct transport_peer *peer);
/* Whether a call that a thread of the peer's has begun may still be under way. */
bool connect_lives(struct transport_peer *peer);

/* door.c */
/* A page of zeros that no other address space has, nor anything at its address; NULL without memory. */
void *door_page(void);
void door_page_free(void *page);
/* Whether it lets in. One that was shut does again, if whoever stood before it has gone: the peer puts into no region,
 * and all offers to it have ended. */
bool door_lets_in(struct shm_peer *link);
/* Where the sender of offer number index (or DOOR_ACCESS) goes in: an address of this process; 0 without memory, or
 * while it is shut. */
uint64_t door_open(struct shm_peer *link, int index);
/* Where it goes out again, by the address of its way in. */
uint64_t door_way_out(uint64_t way_in);
/* Nobody gets in. Whoever is inside stays. */
void door_shut(struct shm_peer *link, uint64_t now_ns);
/* The same, without opening it anew. */
uint64_t door_way_in(const struct shm_peer *link, int index);
/* Whether the sender is inside. */
bool door_is_passed(const struct shm_peer *link, int index);
/* Whether it is shut, and nobody is inside any more. */
bool door_is_left(const struct shm_peer *link, int index, uint64_t now_ns);
void door_close(struct shm_peer *link);

/* life.c */
/* Give the peer this process's page, if it has not got it. */
void life_tell(struct transport_peer *peer);
/* A message has come from the peer, with a descriptor or -1; whether it told of its page. */
bool life_arrived(struct transport_peer *peer, const void *message, size_t size, int fd);
void life_release(struct shm_peer *link);
/* Whether the peer's process had until now what memory it had when it told; false where that is not known. */
bool life_goes_on(const struct shm_peer *link);

/* copy.c: process_vm_readv and process_vm_writev */
struct copy_part {
	void *here;
	uint64_t there, length;
};

/* Copy several parts, SEGMENTS_A_CALL at most, in one call. How many bytes of them, in their order; 0 also where it is
 * not the process any more that it was. */
uint64_t copy_read_several(const struct shm_peer *link, const struct copy_part *parts, size_t count);
/* Copy length bytes at offset of the remote vector to the same offset of the local one. 0 or an errno, ESTALE: it is
 * not the process any more that it was; *done_p bytes were copied. */
int copy_read(const struct shm_peer *link, const struct vector *local, const struct vector *remote, uint64_t offset,
	      uint64_t length, uint64_t *done_p);
/* The other way, through the door (the peer's way in). *calls_p counts calls. EFAULT: the door may be shut. */
int copy_write(const struct shm_peer *link, uint64_t door, uint64_t *calls_p, const struct vector *local,
	       const struct vector *remote, uint64_t offset, uint64_t length);
/* Whether it is the process that it was: 0, ESTALE, or as the kernel says. */
int copy_known(const struct shm_peer *link);
/* Whether there is memory at all of this process, be it of a kind that the kernel does not copy. */
bool copy_is_mapped(const struct vector *vector, uint64_t offset, uint64_t length);
int copy_from(pid_t pid, void *to, uint64_t address, size_t length);
/* Whether this process may reach into the peer: found out once, and again after nothing. */
bool copy_allowed(struct transport_peer *peer);
/* The kernel has refused a copy after all: there will be no more, and its sender need not send RTS for one. */
void copy_refused(struct transport_peer *peer);

/* attach.c: memory of peers that this process has mapped */
/* Where it is here; NULL: it is not mapped, or not any more. Valid until the next call that makes progress. */
void *attach_find(struct transport_peer *peer, uint64_t address, uint64_t length, bool write);
/* After it was read or written where attach_find had it: whether that was the peer's memory all the time. */
bool attach_is_current(struct transport_peer *peer, uint64_t address, uint64_t length, bool write, const void *place);
/* Tell the peer where it finds this memory, to read or to write it, if that can be and it was not told. */
void attach_tell(struct transport_peer *peer, const struct vector *vector, bool write);
/* Whatever the peer was told by its socket did not arrive. */
void attach_forget_told(struct shm_peer *link);
/* What has come by the peer's socket; closes fd, which is -1 where none came. */
void attach_arrived(struct transport_peer *peer, const void *message, size_t size, int fd);
/* Unmap what the peer does not use any more, and ask it for what there was no room for. */
void attach_review(struct shm_peer *link);
void attach_release(struct shm_peer *link);

/* lend.c: any other memory, by the driver */
void lend_open(struct transport_owner *owner);
/* All that is lent is taken back. */
void lend_close(struct shm *shm);
/* Lend a buffer to a peer for the next time, if it is used for the second time. */
void lend_tell(struct transport_peer *peer, const struct vector *vector, bool write);
/* A message of the peer's that came without a descriptor: perhaps it lends. */
void lend_arrived(struct transport_peer *peer, const void *message, size_t size);
/* Nobody reaches this memory by a view any more. */
void lend_withdraw(struct transport_owner *owner, const struct vector *vector);
/* Where memory of the peer's is here; NULL: nowhere. */
void *lend_find(struct views *views, uint64_t address, uint64_t length, bool write);
/* Unmap what is lent no more. */
void lend_review(struct views *views);
void lend_release(struct views *views);

/* shared.c: a peer's memory that this process's program has mapped, too */

/* Map once more, for ourselves, what this process and another have both mapped of a file in memory, where that one has
 * it at [address, address + length); `write`: to be written, too. Whether it was to be had. It takes some 100 us. */
bool shared_map(pid_t pid, uint64_t address, uint64_t length, bool write, struct grant_mapping *mapping_p);

/* connect.c's for both: a message, with a descriptor or -1. Whether it was sent. */
bool connect_send(int socket, const void *message, size_t size, int fd);

/* fetch.c */
void fetch_window(struct transport_fetch *job);

/* access.c: puts and gets without the target's process */
void shm_access_open(struct shm *shm);
void shm_access_close(struct shm *shm);
bool shm_access_begin(struct transport_access *access);
/* What was known of regions of the peer's, if any of them has ended. */
void shm_access_review(struct transport_peer *peer);
/* A record of the kinds RECORD_ACCESS, RECORD_ACCESSED, RECORD_REGION and RECORD_REGION_IS. */
void shm_access_arrived(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length);
/* Make what was begun, and tell what was made. Returns how much. */
int shm_access_progress(struct transport_owner *owner);
/* Who waits is about to sleep: what peers were asked for is made here at the next call. */
void shm_access_hasten(struct shm *shm);
/* A region of ours is no more: nobody is in it when this returns. */
void shm_access_region_end(struct transport_owner *owner, uint64_t key);
/* The endpoint closes: what was begun is made, and nobody reaches any region of ours. */
void shm_access_withdraw(struct transport_owner *owner);
/* Whether the peer, which is gone, is out of all regions of ours. */
bool shm_access_is_left(struct shm_peer *link, uint64_t now_ns);
/* Whether the peer is in some region of ours to write. */
bool shm_access_writes(const struct shm_peer *link);
/* The peer is gone. */
void shm_access_lost(struct transport_peer *peer);

/* bulk.c */
int bulk_open(struct transport_owner *owner);
void bulk_close(struct transport_owner *owner);
void bulk_arrived(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length);
int bulk_progress(struct transport_owner *owner);
void bulk_maintain(struct transport_owner *owner, uint64_t now_ns);
/* The peer is gone: what is fetched from it ends as soon as it is out of its memory. */
void bulk_lost(struct transport_peer *peer);
/* The endpoint closes. Waits until no peer writes into memory that is fetched into. */
void bulk_withdraw(struct transport_owner *owner);

#endif
