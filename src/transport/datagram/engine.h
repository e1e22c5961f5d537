/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: records and bulk over frames that may be lost, doubled, reordered or damaged; sans-I/O. Pure: no system
 * call, no clock, no random number (they are drawn by engine->random, which the owner provides); time comes in as
 * engine->now_ns. Frames come in by engine_frame, go out by link->send, once a burst.
 *
 * connection.h  what there is of one peer; each of its parts is of the file that has its name
 * handshake.c   how a connection begins, and how its peer says that it ends
 * transmit.c    records out, arrival.c records in
 * pull.c        bulk in, by the books of block.c; serve.c bulk out; scatter.c the receive scatter list
 * handover.c    what a link does by itself of pull.c and serve.c (mover.h)
 * silence.c     whether a silent peer lives, and whether one that is heard lets anything get on
 * burst.c       frames to be sent
 * naming.h      how everybody is named: naming_native.c, and naming_mxoe.c, where endpoints have a MAC and a number
 * guard.c       whether a frame is the peer's, unaltered and new
 *
 * Invariants. A frame counts only if its session is the one that we drew for that connection, and, where there is a
 * guard, only if that finds it fine. Nothing is allocated for whoever does not know the job key. Every queue here has a
 * bound: see enum engine_limits.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_ENGINE_H
#define THOLE_TRANSPORT_DATAGRAM_ENGINE_H

#include "base/error.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "transport/datagram/block.h"
#include "transport/datagram/guard.h"
#include "transport/datagram/link.h"
#include "transport/datagram/wire/codec.h"
#include "transport/transport.h"

/* Every bound, with its unit and its reason. */
enum engine_limits {
	ENGINE_LINKS_MAX = 4,              /* raw, UDP, and what comes */
	/* frames handed to a link at once; the kernel's segments of one GSO packet */
	ENGINE_BURST = 64,
	ENGINE_FRAME_MAX = 9216,           /* bytes of a frame: jumbo Ethernet */
	ENGINE_FRAME_MIN = 576 - 28,       /* what every IPv4 path carries, less IP and UDP */
	ENGINE_SMALL_FRAME = 192,          /* transmit frames up to this long are in small buffers */
	ENGINE_RECEIVE_BUDGET = 64,        /* frames taken from a link before something else gets a turn */
	ENGINE_BUCKETS = 1024,             /* hash chains, a link, of connections by path */
	ENGINE_CONNECTIONS_MAX = 1 << 20,
	ENGINE_TRANSFERS_MAX = 1 << 20,
	ENGINE_PIECE_MAX = 65536,          /* bytes of a record's payload that are taken at once */
	ENGINE_TRANSMIT_FRAMES_MAX = 1 << 16, /* of each size, all connections together */
	ENGINE_TOGETHER = 16,              /* frames that are judged at once */
	TRAIN_SIZES = 3,                   /* of memory for frames behind each other */
	ENGINE_REORDER_MAX = 256,          /* frames held ahead of a gap, a connection */
	ENGINE_REORDER_TOTAL = 8192,       /* and of all connections: bounds the memory that peers can make us use */
};

struct arrival_run;
struct burst;
struct connection;
struct transmit_frame;
struct mxoe;
struct naming;

struct engine {
	struct transport_owner *owner;
	const struct codec *codec;
	const struct naming *naming;
	struct link *links[ENGINE_LINKS_MAX];
	unsigned link_count;
	uint8_t order[LINK_USES][ENGINE_LINKS_MAX]; /* indices of links, from the lowest rank on */
	uint8_t order_count[LINK_USES];
	uint64_t now_ns;                /* the owner's clock, set before every call */
	const struct trip_away *away;   /* of the link that is being received from; NULL: none is */
	bool repeated;                  /* the newest frame that a peer has now was sent again: transmit_progress */
	uint64_t key;                   /* the job's; 0: none */
	enum guard_mode integrity;      /* that we ask for; peers may ask for more */
	bool checksums;                 /* frames get one, and are read one by one: we want that, or a peer did */
	const struct mac *(*mac)(void); /* a way to make long tags; NULL: there is none here */
	void (*random)(void *arg, void *bytes, size_t length); /* from the kernel; in the simulator from the seed */
	void *random_arg;
	struct pool connections, guards, fetches, block_pool, serves, small_frames, large_frames;
	struct pool handovers, offer_pool;
	struct pool trains[TRAIN_SIZES];
	struct heap timers;             /* connections by when they want to be called */
	struct list_node dirty;         /* connections with frames to send, */
	struct list_node patient;       /* and with such as may wait for the next poll */
	struct list_node offers;        /* windows that are to be offered to a mover */
	struct list_node serving;       /* connections whose windows are being sent */
	struct blocks blocks;           /* what is asked for, of all fetches */
	struct connection **buckets;    /* connections by path, for each link */
	uint8_t *repair;                /* where a batch is put together that was not the one foreseen */
	uint32_t senders;               /* connections that have sent records lately, for sharing credit */
	uint32_t open;                  /* connections that are OPEN or CONNECTING */
	uint32_t held;                  /* frames held ahead of gaps */
	uint32_t deaths;                /* connections that have ended */
	uint32_t awaited;               /* connections whose silence.awaited is set */
	uint32_t frame_max;             /* bytes of a frame on any link */
	uint64_t nack_ns;               /* when a stranger was last answered */
	uint64_t lots;                  /* state of the generator that injects losses */
	struct burst *burst;
	struct mxoe *mxoe;              /* naming_mxoe.c's; else NULL */
	uint32_t session;               /* mxoe: one for all peers; 0: each connection has its own */
};

/* Set up for an endpoint whose options and address are there; links are added by engine_add_link before the first
 * frame and the first connection, since each connection has room for a route by each of them. Errors: MEMORY. */
int engine_init(struct engine *engine, struct transport_owner *owner, const struct codec *codec);
/* Before its links are closed. */
void engine_fini(struct engine *engine);
void engine_add_link(struct engine *engine, struct link *link);

/* ---- In: from links --------------------------------------------------------------------------- */

/* A frame has arrived at a link (behind its Ethernet or UDP header). Any bytes. Returns whether it was of the peer of
 * an open connection, and came from where that sends from: nobody else's frames may have a say in how a link is
 * used. */
bool engine_frame(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frame,
		  size_t length);

/* The same of frames that have arrived as one, each of `segment` bytes but perhaps the last. */
bool engine_frames(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frames,
		   size_t length, size_t segment);

/* A host answers that nobody is at this path (ICMP port unreachable). What other links have comes first. */
void engine_refused(struct engine *engine, struct link *link, const struct path *to);
/* Frames of this length do not fit the path any more. */
void engine_shrink(struct engine *engine, struct link *link, const struct path *to, uint32_t frame_max);

/* ---- In: from the layers above (transport.h) ---------------------------------------------------- */

uint32_t engine_piece_max(struct engine *engine, const struct transport_peer *peer, uint64_t left);
uint32_t engine_record_max(const struct transport_peer *peer);
uint64_t engine_eager_max(struct engine *engine, const struct transport_peer *peer);
void engine_backpressure(struct engine *engine);

/* ---- Run ------------------------------------------------------------------------------------------ */

/* What may wait for the next poll does not wait any longer. */
void engine_hurry(struct engine *engine);
/* Send what is due: pushed records, blocks asked for, serves. Returns how many frames left. */
unsigned engine_transmit(struct engine *engine);
/* Timers that have run out by now_ns. Returns how many. */
unsigned engine_expire(struct engine *engine);
/* When engine_expire has something to do next, UINT64_MAX: never. */
uint64_t engine_deadline(const struct engine *engine);
/* Whether frames wait to be sent (for which the link had no room). */
bool engine_busy(const struct engine *engine);
/* Whether everything pushed has been acknowledged, but by peers that are gone. */
bool engine_drained(const struct engine *engine);

/* ---- For the engine's files ----------------------------------------------------------------------- */

/* A frame of an open connection's peer. */
void engine_packet(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length);
/* RECORDs of an open connection's peer, which have come together. */
void engine_records(struct connection *connection, const struct arrival_run *runs, unsigned count);

static inline void engine_count(struct engine *engine, enum counter counter)
{
	engine->owner->counters[counter]++;
}

#endif
