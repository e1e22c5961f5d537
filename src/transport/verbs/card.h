/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * card: one endpoint's adapter for remote DMA, and the pairs over it: what there is of each peer. Pure, over struct
 * nic: it makes no system call and reads no clock but the adapter's.
 *
 * card.c       opening, registered memory, completions, timers
 * pair.c       the queue to one peer: how it begins, breaks, is closed for others, and is made anew
 * records.c    records: numbers, slots, credit
 * bulk.c       windows that are fetched, and lent; which way each takes
 * pipeline.c   bulk by copies through registered memory, while the wire is busy (the superpipeline)
 * choose.c     what ways were seen to take
 * access.c     puts and gets without the target's process
 *
 * Registered memory is of the card, in four arenas of fixed size: slots that long records are sent from, slots that all
 * arrive in (the shared receive queue), bays that chunks are sent from (staging) and bays that they arrive in
 * (landing). Slots for records that go inline need not be registered. So memory does not grow with the number of peers.
 * Nor do queues: where there is no room for another one, the least recently used is closed, and made anew when it is
 * needed.
 *
 * A record has a number, and its slot is kept until the peer has said that it has handled it. When a queue fails, a
 * new one is made, and what the peer has not handled goes again.
 */
#ifndef THOLE_TRANSPORT_VERBS_CARD_H
#define THOLE_TRANSPORT_VERBS_CARD_H

#include "base/error.h"
#include "base/list.h"
#include "base/pool.h"
#include "memory/cache.h"
#include "transport/grants.h"
#include "transport/transport.h"
#include "transport/verbs/choose.h"
#include "transport/verbs/hello.h"
#include "transport/verbs/plan.h"

enum card_limits {
	CARD_COMPLETIONS = 16,      /* polled at once */
	CARD_BUDGET = 64,           /* of a progress call */
	CARD_SMALL = 256,           /* bytes of a slot for what goes inline */
	CARD_FRONT = 64,            /* bytes of a receive's slot in front of what comes: for a head that was left out */
	CARD_CLOCK_POLLS = 16,      /* of a card with nothing to do, between two looks at the clock */
	CARD_BAYS_MAX = 8,          /* that a transfer lands in */
	CARD_BAYS_LEAST = 2,
	CARD_EARLY_MAX = 4,         /* first chunks that are copied before they are asked for */
	CARD_TRANSFERS = 1 << 16,
	CARD_LENT_MAX = 1 << 10,    /* windows that peers may read now */
	CARD_READ = 16 << 20,       /* bytes of a read, at most */
	CARD_HOLD_LOOKS = 4,        /* at records that are held for their peer's word by the connection */
	CARD_SILENT = 31,           /* works of a queue one after the other whose end is not reported */
};

/* Nanoseconds. */
enum card_times {
	CARD_HELLO_LEAST = 200000,  /* until a hello is said again, doubling */
	CARD_HELLO_MOST = 50000000,
	CARD_OWED = 100000000,      /* longest that a peer is not told what was handled */
	CARD_PROBE = 20000000,      /* a queue by which nothing comes that is waited for is tried after it, */
	CARD_PROBE_TOLD = 250000000, /* and where only that is waited for that records were handled */
	CARD_CROWDED = 1000000,     /* a queue is waited for so long, until one that is in use is closed, */
	CARD_HELD = 4000000,        /* which was open for so long: else none of them gets anything done */
	CARD_UNREACHED = 50000000,  /* a queue that could not be connected to the peer's is made anew after it */
	CARD_REFUSED = 1000000,     /* receives that the adapter has refused are posted again after it */
	CARD_HOLDS = 75000000,      /* between two of CARD_HOLD_LOOKS */
	CARD_ENDED = 10000000,      /* what a peer that ends has sent is waited for so long */
};

struct card_setup {
	uint32_t slots;             /* that records are sent from */
	uint32_t receives;          /* that they arrive in */
	uint32_t slot;              /* bytes of each */
	uint32_t small;             /* slots of CARD_SMALL bytes for what goes inline, which are not registered */
	uint32_t bay;               /* bytes */
	uint32_t bays;              /* of staging and of landing each */
	uint32_t queues;            /* at most; no more than the adapter has */
	uint32_t registrations;     /* kept for the next use */
	/* For comparisons. 0: as it is learnt. */
	uint32_t first, cap;        /* bytes of chunks */
	uint32_t growth;            /* PLAN_ONE: none */
	enum choose_way way;
};

/* How hellos get to peers, and whether memory still is what it was. */
struct card;
struct pair;

struct card_carrier {
	/* May be lost, doubled, and overtaken by others. */
	void (*say)(void *arg, struct transport_peer *peer, const uint8_t *bytes, uint32_t length);
	/* A word that changes when the mapping of this memory does; NULL: nobody watches it. */
	const uint32_t *(*watch)(void *arg, uint64_t address, uint64_t length, uint64_t *id_p);
	void (*unwatch)(void *arg, uint64_t id);
	/* What has happened to the adapter; NULL: nobody wants to know. */
	void (*event)(void *arg, struct card *card, enum nic_event event);
	/* A pair's queue has stopped. Returns whether it is to have none until it is wanted. NULL: it is not. */
	bool (*stopped)(void *arg, struct pair *pair);
};

/* Before each record, in its slot and on the wire. */
struct head {
	uint32_t number;            /* low half; of a note, which is no record: of the next one */
	uint32_t handled;           /* records of the other direction up to this one were */
	uint32_t granted;           /* and up to this one may be sent */
	uint16_t flags;             /* enum head_flags; of HEAD_SHORT with the record's, from HEAD_RECORD_FLAGS on */
	uint16_t length;            /* of the payload */
};

/* With HEAD_SHORT all that stands in front of the payload. The head's last bytes are where a record has its own. */
struct head_short {
	struct head head;
	uint64_t tag, imm;
};

/* A message that is as the one before it on its queue, but for its number and its payload, goes without all that: with
 * a word that has the rest, behind the payload where both are less than a head, else as immediate data. */
enum head_word {
	WORD_GRANTED = 16,          /* from this bit on what may be sent beyond what was handled; below it that */
	WORD_GRANTED_MAX = 0x7fff,
	WORD_SOON = 31,             /* the bit of HEAD_SOON */
};

enum head_flags {
	HEAD_RECORD = 1 << 0,
	HEAD_LENT = 1 << 1,         /* a struct lent_there follows the record */
	HEAD_CHUNK = 1 << 2,        /* of a note: a chunk was written before it */
	HEAD_SOON = 1 << 3,         /* say at once what was handled */
	HEAD_SHORT = 1 << 4,        /* a struct head_short: the record is a whole message, and has no more to say */
	HEAD_BACKPRESSURE = 1 << 5, /* send an RTS instead of data from now on; without it: no longer */
	HEAD_RECORD_FLAGS = 8,
};

/* A window of a peer that may be read. */
struct lent_there {
	uint64_t address;
	uint32_t key;
	uint32_t zero;
};

/* Records of the transport's own. */
enum verbs_record {
	/* send me window tag, as transfer imm: arg 0: from this offset on; arg 1: struct plan; arg 2: bytes in all;
	 * arg 3: bays, a byte each, from the lowest on; 0xff: no more */
	VERBS_PULL = RECORD_BULK + 16,
	VERBS_LANDED,   /* arg 0: so many chunks of transfer imm are out of their bays */
	VERBS_ASK,      /* lend me window tag, for transfer imm */
	VERBS_LENT,     /* transfer imm: arg 0: address, arg 1: key; both 0: no */
	VERBS_FAILED,   /* transfer imm: there is no such window */
	VERBS_REGION,   /* let me reach your region tag */
	VERBS_REGION_IS, /* it is at arg 0, arg 1 bytes, key arg 2, and arg 3 (enum thole_access) is allowed; 0s: no */
	VERBS_REGION_END, /* and is no more */
};

/* Slots for what goes inline, or for what does not. */
struct slots {
	struct list_node free;
	uint32_t count;             /* of the free ones */
	uint32_t few;               /* fewer are few */
};

struct send_slot {
	struct list_node node;      /* of the free ones, or of its pair's, in order */
	struct slots *slots;        /* whose it is */
	uint8_t *bytes;
	uint32_t length;            /* head and all */
	uint32_t index;
	uint64_t number;
	bool flying;                /* the adapter has not let go of it */
	bool handled;               /* its peer has it, and it is free once it does not fly */
};

/* A bay of staging: a chunk, from its copy until the adapter lets go of it. */
struct bay {
	struct list_node node;      /* of the free ones, or of the early ones */
	uint8_t *bytes;
	uint32_t index;
	bool flying;
	/* Of an early one: what it holds. */
	struct pair *pair;
	uint64_t window;
	uint32_t length;
	uint64_t told_ns, filled_ns; /* when the peer was told of the window, and when it was copied */
};

enum pair_state {
	PAIR_IDLE,      /* no queue, and nobody wants one */
	PAIR_WAITING,   /* wants one, and has none: there is no room, or the old one has not stopped */
	PAIR_ASKING,    /* has one, and the peer has not said that it knows it */
	PAIR_OPEN,
	PAIR_STOPPING,
};

/* Where records go (verbs.c). */
enum pair_way { WAY_NETWORK, WAY_QUEUE, WAY_OVER };

struct pair {
	struct transport_peer *peer;
	struct card *card;
	uint32_t number;            /* of its queues, for completions: index in card->pairs */
	uint8_t state;              /* enum pair_state */
	bool connected;             /* queue_connect was called, */
	bool tied;                /* and it may be posted to */
	bool wanted;                /* a queue, when the one that stops has */
	bool refused;               /* the adapter did not connect the last one to the peer's */
	bool again;                 /* what was sent has to go again */
	uint64_t again_at;          /* from this number on: what is below was posted to the queue that is there */
	bool dead;                  /* disconnected; its memory goes when its queue has stopped */
	bool told;                  /* the upcall connected was made */
	bool failed;                /* a queue has, and nothing says yet whether the peer lives */
	uint32_t fails;             /* so many in a row have, */
	uint64_t fails_at;          /* at each of which so much was done (pair_fails) */
	bool ending;                /* the peer's endpoint closes, with ended_at records sent */
	struct nic_queue *queue;    /* NULL: none */
	struct nic_name name;       /* its */
	struct hello theirs;        /* the newest */
	uint32_t round;             /* queues so far */
	uint64_t say_ns, gap_ns;    /* when to say hello again */
	uint64_t since_ns;          /* of WAITING, or of ending */
	uint64_t open_ns;           /* of OPEN */
	uint64_t ended_at;
	uint32_t works;             /* posted, and not known to have ended; */
	uint32_t silent;            /* the last so many of them are silent */
	uint64_t alive_ns;          /* when the queue was last seen to be one, or tried */
	struct list_node node;      /* in card->pairs_list: least recently used first */
	struct list_node due;       /* in card->due, while there is something to do in each turn */

	/* Which way (verbs.c). */
	uint8_t way;                /* enum pair_way */
	bool proven;                /* something of the peer's has come by this queue, */
	bool heard;                 /* and a record */
	bool behind;                /* the peer's records by it wait for those that went by the connection: */
	uint32_t held, held_last;   /* receives, by index, one more; 0: none */
	uint32_t held_count;        /* of them, */
	uint64_t held_end_ns;       /* the next look at them; 0: the clock was not read since the first one came */
	uint8_t held_looks;         /* since that */
	uint64_t held_next;         /* the number behind the last of them */
	bool counted;               /* in owner->queues */
	bool over_told;             /* the peer knows that we go over */
	uint32_t over_at;           /* bytes of the first record that is not handled that went again */
	uint8_t *gathered;          /* a record of the peer's that comes again in pieces; NULL: none */
	uint32_t gathered_to;       /* as far as it is here, */
	uint32_t gathered_whole;    /* of so many bytes */
	uint8_t hello[HELLO_MAX];   /* that could not be said, of so many bytes */
	uint8_t unsaid;
	uint64_t apart_ns;          /* so long, by looks, there is no queue that is needed; 0: there is */
	uint64_t try_ns, gap_try_ns; /* when a queue is tried again */

	/* Records out. */
	uint64_t next;              /* number */
	uint64_t like_out;          /* of the record that may go without a front */
	struct head_short front_out; /* the one before it has */
	uint64_t granted;
	uint64_t few_at;            /* from this number on little of that is left */
	uint64_t asked;             /* the peer was asked to say at once that those before this one were handled */
	bool rts_only;              /* the peer has backpressure */
	struct list_node sent;      /* slots that are not handled, in order */
	/* and in. */
	struct head_short front_in; /* that the last message by this queue had; no flags: none had */
	uint64_t expected;
	uint32_t told_share;        /* the peer was told that it may send so many more than were handled then; */
	uint64_t tell_at;           /* when so many are handled, it is told at once */
	uint64_t promised;          /* the first one that it was never told it may send */
	uint64_t owed_ns;           /* when it is to be told of the rest; UINT64_MAX: there is none */

	/* Bulk. */
	struct list_node fetches;   /* in order of their pulls */
	struct list_node serves;    /* in order of their pulls */
	struct list_node lends;     /* of ours */
	struct list_node offers;    /* of theirs */
	uint64_t landed;            /* chunks that were consumed, since the queue was made, */
	uint64_t arrived;           /* and that the adapter or a note has reported */
	uint32_t blind;             /* bays of transfers that nothing has come of yet */
	struct grants grants;       /* regions of the peer's that are known */
	struct list_node accesses;  /* puts and gets under way */
	bool starved;               /* there was no bay of staging for its next chunk */
	bool unread;                /* the queue had no room for a fetch's read */
	uint64_t early;             /* a window whose first chunk is to be copied; 0: none */
	uint32_t early_length;      /* of that chunk */
	uint64_t told_ns;           /* when the peer was told of it */
};

struct verbs_fetch {
	struct list_node node;
	struct list_node hungry;    /* of the card's, while it waits for bays */
	struct transport_fetch *job;
	struct pair *pair;
	uint32_t id;                /* its number, ours; unique */
	uint8_t state;              /* enum fetch_state */
	enum choose_way way;
	bool reused;                /* choose_begin's: both sides had it registered */
	uint64_t length, at;        /* bytes; at: they are in their place */
	uint64_t start_ns;
	/* READ */
	struct lent_there there;
	struct cache_entry *here;   /* NULL: not registered */
	uint32_t reads;             /* bytes of the read that has not ended; 0: there is none */
	/* PIPELINE */
	uint32_t blind;             /* of its pair's */
	bool pulled;                /* it lands, in its turn */
	bool owing;                 /* the peer is to be told how many chunks are consumed */
	struct plan_walk walk;      /* of the chunk that lands next */
	uint64_t chunk_at;          /* bytes of it that were consumed */
	uint32_t chunks;            /* consumed */
	uint32_t cap;               /* number of its cap, for choose_cap_measured; CHOOSE_CAPS: it was not chosen */
	uint64_t first_ns, first_at; /* when so many bytes were here, to see the wire's rate by the rest */
	uint32_t bays[CARD_BAYS_MAX], bay_count;
};

struct verbs_serve {
	struct list_node node;
	struct pair *pair;
	uint64_t window;
	uint32_t id;                /* the peer's */
	uint64_t length;
	struct plan_walk walk;      /* of the next chunk */
	uint32_t chunks;            /* sent */
	uint32_t allowed;           /* chunks that have room at the peer */
	uint8_t bays[CARD_BAYS_MAX], bay_count;
};

/* A window of ours that the peer may read. */
struct verbs_lend {
	struct list_node node;
	uint64_t window;
	struct cache_entry *entry;
};

/* A window of the peer's that we may. */
struct verbs_offer {
	struct list_node node;
	uint64_t window;
	struct lent_there there;
};

/* A region of ours that peers reach. */
struct verbs_export {
	struct list_node node;
	uint64_t key;
	struct nic_memory memory;
	const uint32_t *word;       /* the monitor's, */
	uint32_t generation;        /* and what it was before */
	uint64_t watch;
};

struct verbs_access {
	struct list_node node;
	struct pair *pair;
	struct transport_access *job;
	uint32_t bay, length;
};

struct card {
	struct transport_owner *owner;
	struct nic *nic;
	struct card_setup setup;
	const struct card_carrier *carrier;
	void *carrier_arg;
	uint64_t now_ns;            /* the owner's clock, when it was last read: */
	uint32_t polls;             /* so many polls ago */
	uint8_t *memory;            /* the four arenas */
	uint8_t *landing;
	struct nic_memory registered;         /* all but the landing, */
	struct nic_memory registered_landing; /* which peers write to */
	struct send_slot *slots;
	struct bay *bays;           /* of staging */
	uint32_t works_most;        /* of a queue that are for records and notes */
	uint32_t works_few;         /* with so many posted there is little room */
	uint32_t silent_most;       /* works of a queue one after the other whose end is not reported */
	uint32_t beside;            /* of setup.receives so many are not granted as records */
	uint64_t *empty;            /* receives that are to be posted: */
	uint32_t empty_count;       /* so many of them, */
	uint32_t empty_most;        /* with as many as these at once */
	uint32_t held_count;        /* receives that pairs hold, of all */
	uint32_t *held;             /* by index of a receive that waits: that of the one behind it, one more; 0: none */
	struct slots large, small;
	uint8_t *small_memory;
	uint32_t small_most;        /* bytes of a record that has a small slot; 0: none has */
	struct list_node free_bays, early;
	uint32_t early_count;
	uint8_t *landing_used;      /* a byte a bay */
	uint32_t landing_free;
	struct pair **pairs;        /* by number; NULL: none */
	uint32_t pair_count, pair_room;
	struct list_node list;      /* of all, least recently used first */
	struct list_node due;
	uint64_t timer_ns;          /* no pair that is not due has something to do before; UINT64_MAX: none has */
	uint32_t queue_count;
	uint32_t share;             /* records that a peer may send now beyond what was handled */
	uint32_t next_id;           /* of fetches; not 0 */
	struct pool fetches, serves, lends, offers;
	struct list_node hungry;    /* fetches that wait for bays */
	struct pool grants, accesses, export_pool;
	struct list_node exports;
	void *cache_memory;
	struct cache cache;
	struct choose choose;
	bool gone;                  /* the device is */
	bool closing;               /* nothing is told to anybody any more */
	bool turns;                 /* card_progress runs: what it begins rouses nobody */
	bool down;                  /* the port is (verbs.c) */
	bool told;                  /* there may be events of the adapter */
	uint64_t look_ns;           /* when pairs are looked at (verbs.c) */
	struct watcher watcher;     /* of the adapter's descriptor (verbs.c) */
};

static inline struct card *card_of(const struct transport_owner *owner)
{
	return owner->state[TRANSPORT_VERBS];
}

static inline struct pair *pair_of(const struct transport_peer *peer)
{
	return peer->pair;
}

/* ---- card.c --------------------------------------------------------------------------------------- */

void card_setup_default(struct card_setup *setup);
/* The adapter is the card's from now on, also where this fails. Errors: MEMORY. */
int card_open(struct transport_owner *owner, struct nic *nic, const struct card_setup *setup,
	      const struct card_carrier *carrier, void *carrier_arg);
/* Waits until the adapter has let go of everything, but of a simulated one: that is said to have crashed. */
void card_close(struct card *card);
/* There are so many queues now. */
void card_count_queues(struct card *card, uint32_t queues);
/* Whether registrations may outlast a transfer: somebody watches memory, or the adapter follows its mapping. */
static inline bool card_keeps(const struct card *card)
{
	return card->carrier->watch || card->nic->limits.can & NIC_CAN_PAGE_FAULT;
}
/* A word that changes when a registration of this memory is of no use any more; NULL: nobody says so. Adds to the
 * access that it is to be registered with. */
const uint32_t *card_watch(struct card *card, uint64_t address, uint64_t length, unsigned *access, uint64_t *id_p);
void card_unwatch(struct card *card, uint64_t id);
int card_progress(struct card *card);
/* What was pushed is out; continue bulk. Returns how much was done. */
int card_transmit(struct card *card);
uint64_t card_deadline(const struct card *card);
/* Whether all that was sent was handled, and said to be. */
bool card_drained(const struct card *card);
/* Whether the adapter sees to that. */
bool card_delivers(const struct card *card);
/* See to it that it soon is. */
void card_hasten(struct card *card);
/* A receive was dealt with, and may be filled again. */
void card_receive(struct card *card, uint32_t index);
/* Where it is. */
static inline uint8_t *card_received_at(const struct card *card, uint32_t index)
{
	return card->memory + (uint64_t)(card->setup.slots + index) * card->setup.slot;
}
/* Have a pair looked at in each turn, from now on until nothing is left to be done but at a time. */
void card_attend(struct pair *pair);
/* Have all pairs looked at for what is due at this time. */
static inline void card_wake(struct card *card, uint64_t when_ns)
{
	if (when_ns >= card->timer_ns)
		return;
	card->timer_ns = when_ns;
	if (!card->turns)
		transport_rouse(card->owner, when_ns);
}
/* What works are for, in their ids: a kind in the upper byte, then how many silent ones it ends (pair_post), and an
 * index. */
enum { WORK_SLOT, WORK_BAY, WORK_READ, WORK_NOTE, WORK_PROBE, WORK_PUT, WORK_ACCESS };
enum { WORK_SILENT_SHIFT = 48, WORK_SILENT = 0xff };

static inline uint64_t work_id(uint64_t kind, uint64_t index)
{
	return kind << 56 | index;
}

/* Copy as vector_read and vector_write do, and let a simulated adapter know. */
void card_copy_out(struct card *card, const struct vector *vector, uint64_t offset, void *to, size_t length,
		   uint64_t whole);
void card_copy_in(struct card *card, const struct vector *vector, uint64_t offset, const void *from, size_t length,
		  uint64_t whole);

/* ---- pair.c --------------------------------------------------------------------------------------- */

/* The peer's, made if there is none; NULL without memory. */
struct pair *pair_get(struct transport_peer *peer);
/* Its queue is needed: begin to make it, if there is none. */
void pair_want(struct pair *pair);
/* A hello of the peer's has come. */
void pair_heard(struct transport_peer *peer, const uint8_t *bytes, uint32_t length);
/* Something was wrong with the queue: it is stopped, and made anew if it is needed. */
void pair_break(struct pair *pair);
/* Its peer lives: a queue that has failed was broken. */
void pair_count_broken(struct pair *pair);
/* Its queue has failed, by a completion or by what was to be posted: stop it. */
void pair_fails(struct pair *pair);
/* It is of no use: stopped, and not made anew until it is wanted again. */
void pair_give_up(struct pair *pair);
void pair_stopped(struct pair *pair);
/* Whether its records go by the queue, or the peer's do, has changed perhaps. */
void pair_count(struct pair *pair);
/* Something of this peer's has come by the queue, or it is known to be the mate of ours: */
void pair_proved(struct pair *pair); /* it has not been open before; */
static inline void pair_alive(struct pair *pair)
{
	struct card *card = pair->card;

	if (card->list.prev != &pair->node) {
		list_remove(&pair->node);
		list_push_back(&card->list, &pair->node);
	}
	pair->alive_ns = card->now_ns;
	pair->tied = true;
	if (__builtin_expect(pair->state == PAIR_ASKING, 0))
		pair_proved(pair);
}
/* The adapter has connected it (NIC_LATE), and we are to speak first. */
void pair_tied(struct pair *pair);
/* Whether a queue is needed. */
bool pair_is_needed(const struct pair *pair);
/* What is due by card->now_ns. */
void pair_turn(struct pair *pair);
/* Whether something is to be looked at in each turn. */
bool pair_is_busy(const struct pair *pair);
uint64_t pair_deadline(const struct pair *pair);
/* Its endpoint closes: tell the peer. */
void pair_end(struct pair *pair);
/* Forget it; its memory goes when it may. */
void pair_disconnect(struct pair *pair);
void pair_free(struct pair *pair);
/* Post, and count; a silent work now and then loudly. Errors as nic->calls->post; where it breaks, the pair is told
 * later. */
static inline int pair_post(struct pair *pair, struct nic_work *work)
{
	bool silent = work->flags & NIC_POST_SILENT && pair->silent < pair->card->silent_most;
	int status;

	if (!silent) {
		work->flags &= (uint8_t)~NIC_POST_SILENT;
		work->id |= (uint64_t)pair->silent << WORK_SILENT_SHIFT;
	}
	status = pair->card->nic->calls->post(pair->queue, work);
	if (status == THOLE_ERR_SYSTEM) /* nothing else says so, and what comes behind may not overtake it */
		pair_fails(pair);
	if (status)
		return status;
	pair->works++;
	pair->silent = silent ? pair->silent + 1 : 0;
	return 0;
}
/* For one more work that is a record or a note: the rest is for bulk. */
static inline bool pair_has_room(const struct pair *pair)
{
	return pair->works < pair->card->works_most;
}
/* A work of this id has ended, and with it the silent ones before. */
void pair_work_ended(struct pair *pair, uint64_t id);

/* ---- records.c ------------------------------------------------------------------------------------ */

int records_push(struct pair *pair, const struct record *record, const struct vector *payload, uint64_t offset,
		 uint32_t length);
/* A record of the transport's own, before whatever waits in the backlog. False: there is no room now. */
bool records_say(struct pair *pair, const struct record *record);
uint32_t records_piece_max(const struct card *card);
/* The peer is being told that it may send so many more than were handled. */
uint32_t records_promise(struct pair *pair);
/* Bytes that a receive was filled with, which are aligned and the caller's; what they are altered to is of no use to
 * him. False: they wait for others, and are to be held. */
bool records_arrived(struct pair *pair, uint8_t *bytes, uint32_t length);
/* The same of a payload that has come without its front, which has room at `bytes`, before it. */
bool records_front(struct pair *pair, uint8_t *bytes, uint32_t payload, uint32_t word);
/* A queue is new: what goes and comes by it is like nothing before. */
void records_anew(struct pair *pair);
void records_hold(struct pair *pair, uint32_t receive);
/* When they have been held for so long that they go, to come again; UINT64_MAX: never. */
uint64_t records_hold_ns(const struct pair *pair);
void records_hold_turn(struct pair *pair);
/* All that the peer sent by the connection is here: those that are held follow. */
void records_follow(struct pair *pair);
/* Those that are held come again, by the next queue or by the connection. */
void records_forget(struct pair *pair);
/* The peer takes records from this number on. */
void records_again(struct pair *pair, uint64_t expected, uint32_t share);
void records_ended(struct card *card, uint32_t slot);
/* The same of a record that was sent again by another way. */
void records_repeated(struct pair *pair, uint8_t *bytes, uint32_t length);
/* Tell the peer what was handled, if there is something to tell. */
void records_tell(struct pair *pair);
/* The first record that is not known to be handled; the next one, if there is none. */
uint64_t records_first(const struct pair *pair);
/* Whether there is nothing to tell, and nothing to be told of. */
bool records_drained(const struct pair *pair);
/* Either is done at once. */
void records_hasten(struct pair *pair);
/* Whether we have backpressure has changed: the peer's next record is answered at once. */
void records_press(struct pair *pair);
/* Tell it that a chunk was written, where writes have no immediate data. There is room for a work. */
void records_tell_chunk(struct pair *pair);
void records_release(struct pair *pair);
/* Records of ours up to this one were handled. */
void records_handled(struct pair *pair, uint64_t handled);

/* ---- bulk.c --------------------------------------------------------------------------------------- */

int bulk_verbs_open(struct card *card);
void bulk_verbs_close(struct card *card);
void bulk_verbs_fetch(struct transport_fetch *job);
/* A window is about to be told of: what the peer is told beside. Returns whether lent_p was filled in. */
bool bulk_verbs_offer(struct pair *pair, struct record *record, struct lent_there *lent_p);
/* The peer has told of a window, and of how it may be had. */
void bulk_verbs_offered(struct pair *pair, uint64_t window, const struct lent_there *there);
/* The peer needs the window of ours no more, */
void bulk_verbs_window_end(struct pair *pair, uint64_t window);
/* and we that of the peer's. */
void bulk_verbs_offer_end(struct pair *pair, uint64_t window);
/* The peer lends nothing any more. */
void bulk_verbs_offers_end(struct pair *pair);
void bulk_verbs_record(struct pair *pair, const struct record *record);
void bulk_verbs_read_ended(struct card *card, uint32_t fetch, int status);
/* Continue what can be; returns whether something was done. */
bool bulk_verbs_turn(struct pair *pair);
bool bulk_verbs_busy(const struct pair *pair);
/* The next fetch that has not ended, which is somebody else's from now on; NULL: none. No queue may be there. */
struct transport_fetch *bulk_verbs_take(struct pair *pair);
/* The queue has stopped: nothing is under way any more. */
void bulk_verbs_broken(struct pair *pair);
/* It is there again, or has room again. */
void bulk_verbs_again(struct pair *pair);
void bulk_verbs_lost(struct pair *pair);
void bulk_verbs_end(struct verbs_fetch *fetch, int status);
void bulk_verbs_feed(struct card *card);

/* ---- access.c ------------------------------------------------------------------------------------- */

void access_open(struct card *card);
/* No queue is there any more. */
void access_close(struct card *card);
/* False: it goes by records. */
bool access_begin(struct pair *pair, struct transport_access *job);
void access_record(struct pair *pair, const struct record *record);
void access_ended(struct card *card, uint32_t access, int status);
/* The queue has stopped: what was under way is done by records. */
void access_broken(struct pair *pair);
/* Regions whose mapping has changed are not reached any more; */
void access_turn(struct card *card);
/* nor one that is not exposed any more. */
void access_region_end(struct card *card, uint64_t key);

/* ---- pipeline.c ----------------------------------------------------------------------------------- */

/* A fetch's, which no flag in the landing has. */
uint32_t pipeline_number(struct card *card);
/* What to begin with, by what was measured. */
void pipeline_plan(const struct pair *pair, uint64_t length, struct plan *plan_p);
/* The window's first chunk is copied before it is asked for. */
void pipeline_early(struct pair *pair);
/* Bays for it, and the pull. THOLE_ERR_MEMORY: there are too few bays now; THOLE_ERR_AGAIN: no room to ask, or
 * its peer has not begun with what it was asked for. */
int pipeline_pull(struct verbs_fetch *fetch);
/* It is asked for. */
void pipeline_pulled(const struct pair *pair, uint64_t window);
bool pipeline_serve(struct verbs_serve *serve);
/* Bytes up to `at` are here, and nothing was said of the wire's rate yet. */
void pipeline_first(struct verbs_fetch *fetch, uint64_t at);
/* Copy what is there of the transfer that lands. Returns whether something was. */
bool pipeline_land(struct pair *pair);
void pipeline_free_bays(struct verbs_fetch *fetch);
void pipeline_bay_ended(struct card *card, uint32_t bay);
/* First chunks of a pair's windows, or of one of them, are not needed any more. */
void pipeline_early_drop(struct card *card, const struct pair *pair, uint64_t window, bool all);

#endif
