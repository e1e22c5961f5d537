/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection: the structures that the engine's files share, and the functions that they call on each other.
 *
 * Sequence numbers are 32 bits here, whatever the codec has on the wire. A frame's place in the order of a connection is its
 * sequence number and, where a codec's fragments share one, the fragment's number.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_CONNECTION_H
#define THOLE_TRANSPORT_DATAGRAM_CONNECTION_H

#include "transport/datagram/engine.h"

/* Times, in nanoseconds. */
enum engine_times {
	RESEND_LOOK_NS = 300000,       /* well above codec->ack_delay_ns: from then on some frames go again, to hear what has arrived */
	RESEND_MIN_NS = 2000000,       /* and above what a busy scheduler adds: from then on all that is out counts as lost */
	RESEND_MAX_NS = 500000000,     /* the doubling stops */
	CONNECT_RETRY_NS = 20000000,   /* first repetition of a CONNECT; then twice as long each time, up to RESEND_MAX_NS */
	PROBE_NS = 3000000,            /* between tries of a second link */
	REORDER_NS = 500000,           /* a frame that others have overtaken by so much is lost */
	LINK_TRIP_NS = 500000,         /* an answer to a repetition by another link comes sooner */
	FALL_BACK_NS = 2000000000,     /* before a link is tried again that lost what the other carried */
	QUIET_NS = 10000000,           /* a sender that says nothing for so long no longer shares the credit */
	HELLO_NS = 1000000000,         /* mxoe: between two words to all that we are here */
	NACK_NS = 1000000,             /* at most one NACK each so often, whoever asks for it */
	CLOSE_WAIT_NS = 100000000,     /* a CLOSE waits so long for records that it overtook on this host; nobody sends them again */
	CLOSE_LOOK_NS = 1000000,       /* between two looks at whether they are here */
	FATE_NS = 50000000,            /* between two looks at whether a silent peer's process lives */
};

/* A peer whose host has its port while nobody answers there is stopped, or dead with a copy of the socket left: its silence counts
 * so many times less, so that it is waited for about twenty times peer_timeout. The same where nobody could be asked. */
enum { SLOW_SILENCE = 40 };

enum engine_windows {
	WINDOW_FIRST = 64,    /* record frames without acknowledgement, at first */
	SEQUENCE_FIRST = 1,   /* number of the first record of a connection */
	LOSS_FRAMES = 8,      /* by which the window gets narrower for each frame that is lost */
	WINDOW_LEAST = 4,     /* and after losses, in messages of as many fragments as there may be */
	RESEND_BURST = 16,    /* frames that one time-out sends again */
	PROBES_MAX = 10,      /* tries of a second link, each after twice the time: a second and a half */
	LINK_LOSSES = 8,      /* frames in a row that a link has to lose to be left */
	LINK_STARVED = 8,     /* time-outs in a row without DATA of a peer that says other things, before it is asked for by the other link */
	RECORD_SMALL = 96,    /* bytes of a record whose frame is a small one: ENGINE_SMALL_FRAME less the longest head */
	WIDE_FRAMES = 2,      /* a record of more is quicker by the link for bulk, whose frames the kernel takes together */
	SERVES_MAX = 256,     /* pulls of one peer that wait to be served; further ones are lost and asked for again */
	SERVE_TURN = 2,       /* blocks sent for one peer before others get a turn */
	SERVE_BURST = 8,      /* blocks sent before looking at what has arrived */
	FRAME_PIECES = 8,     /* segments of user memory in one frame; a frame of more is put together first */
};

/* A RECORD frame that is kept: by its sender until it is acknowledged, by its receiver until those before it are here. */
struct kept {
	struct list_node node;
	uint64_t sent_ns;
	uint32_t sequence;
	uint16_t length;
	uint8_t fragment;
	uint8_t resends;       /* saturating */
	bool large;            /* which pool it is of */
	bool wide;             /* of a record of several frames, which goes by the link for bulk */
	bool held;             /* the receiver has it, but not those before it */
	bool out;              /* it counts in flight */
	uint8_t bytes[];       /* the frame */
};

/* How one link reaches the peer. */
struct route {
	struct path records, bulk;
	uint32_t frame_max;    /* bytes, as the peer has seen them arrive; 0: not known to work */
	uint32_t frame_in;     /* bytes of the longest that was seen to arrive */
	struct connection *next; /* in the engine's bucket for this path */
	bool known;            /* the paths are filled in */
	bool heard;            /* a CONNECT or an ACCEPT has come by it */
};

struct connection {
	struct engine *engine;
	struct peer *peer;
	struct heap_node timer;
	struct list_node dirty_node, serving_node, fetching_node;

	struct guard *guard;        /* NULL: frames have no tags, or the peer is not known yet */

	/* identity */
	uint64_t session;           /* ours: what frames to us carry */
	uint64_t peer_session;      /* the peer's; 0: not known yet */
	uint32_t index;             /* ours: `to` in frames to us */
	uint32_t peer_index;        /* `to` in frames to it: its connection; mxoe: its endpoint's number */
	uint16_t host_index;        /* mxoe: that its host has given ours */
	uint8_t number;             /* mxoe: of our endpoint */
	struct route route[ENGINE_LINKS_MAX];
	uint8_t state;              /* enum connection_state */
	uint8_t record_link, bulk_link;
	uint8_t heard_link;         /* that brought the last frame */
	uint8_t lost_in_row;        /* frames of record_link that arrived only when the other repeated them */
	uint8_t wide_lost_in_row;   /* the same of wide ones and bulk_link */
	uint8_t attempt;            /* CONNECTs sent, saturating */
	uint8_t wish;               /* mxoe: which connect they are, as their answers repeat it */
	uint8_t probes;             /* of the second link */
	bool answered;              /* an ACCEPT has come */
	bool wanted;                /* this side asked for it */
	bool asking;                /* link->fate is at work */
	bool holding;               /* the peer wants messages announced */
	bool watched;               /* somebody waits for this peer, though nothing is under way */
	uint32_t closing;           /* the peer's CLOSE: sequence behind its last frame */
	uint64_t closing_ns;        /* until when frames before it are waited for; 0: there was none */
	uint64_t connect_ns;        /* when CONNECT is sent again; 0: it is not */

	/* liveness */
	uint64_t heard_ns;          /* when a frame of it last came */
	uint64_t silence_ns;        /* how long it was silent while something was pending and we were looking */
	uint64_t checked_ns;        /* when that was last looked at; 0: nothing is pending */
	uint64_t unfed_ns;          /* how long it said things, but no DATA came that it was asked for, */
	uint64_t untaken_ns;        /* or the oldest frame was not acknowledged */
	uint32_t stalled_at;        /* the oldest frame that was unacknowledged at checked_ns */

	/* records out */
	struct list_node unacked;   /* struct kept, in order */
	struct list_node *unsent;   /* the first of them that is to be sent; the list's head: none */
	uint32_t next_out;          /* sequence of the next new frame */
	uint32_t wide_end;          /* and the one behind the last that is wide */
	uint32_t epoch;             /* mxoe: bits above the sequence numbers that the peer wants to see; */
	uint32_t epoch_in;          /* and that we do */
	uint32_t key;               /* mxoe: that the peer wants to hear */
	uint32_t former_session;    /* mxoe: of the peer at the same place that we have given up; 0: none */
	uint32_t flight;            /* frames sent and not acknowledged */
	uint32_t window;            /* that may be, for congestion's sake */
	uint32_t credit;            /* the peer's word on it */
	uint64_t round_trip_ns, deviation_ns; /* smoothed; 0: not measured */
	uint64_t least_ns;          /* the shortest trip of a frame that was sent once; 0: not measured */
	uint64_t delivered_ns;      /* when the newest frame that the peer is known to have was sent */
	uint64_t gap_ns;            /* when a frame that others have overtaken is lost; 0: none */
	uint32_t held_end;          /* behind the last frame that the peer is known to hold */
	uint64_t resend_ns;         /* when the oldest unacknowledged frame is late; 0: none is out */
	uint8_t backoff;            /* doublings */
	uint64_t frames_sent, frames_resent;

	/* records in */
	struct list_node held;      /* struct kept, in order, ahead of a gap */
	uint32_t held_count;
	uint32_t next_in;
	uint8_t fragment_in;
	uint16_t credit_in;         /* as the peer was told it last */
	uint32_t unreported;        /* frames since our last acknowledgement */
	bool ack_now;
	bool tell_hold;             /* by an ACK: endpoint->holding has changed */
	bool heard_lately;          /* counted in engine->senders */
	uint32_t ack_number;        /* mxoe: of the last acknowledgement by itself */
	uint64_t ack_ns;            /* when an acknowledgement is due; 0: none is */

	/* bulk */
	struct list_node fetches;   /* struct fetch, oldest first: with bytes not yet asked for */
	struct list_node asked;     /* struct fetch: all asked for */
	struct list_node blocks;    /* struct block, in the order they were asked for */
	struct list_node serves;    /* struct serve */
	uint32_t serve_count;
	uint64_t outstanding;       /* bytes asked of this peer and not here */
	uint64_t pull_window;       /* bytes that may be */
	uint64_t pull_trip_ns, pull_deviation_ns; /* from a PULL to its block's end */
	uint64_t pull_least_ns;     /* the shortest time from a PULL to a frame that answers it; 0: there was none */
	uint64_t pull_ns;           /* when nothing has come for too long; 0: no block is out */
	uint32_t pull_order;        /* blocks asked for so far */
	uint8_t pull_backoff;
	uint8_t starved;            /* time-outs without DATA, though the peer says other things */
	uint64_t late_ns;           /* when the last time-out was */
	uint64_t fed_ns;            /* when DATA last came that was asked for */
};

static inline struct connection *connection_of(const struct peer *peer)
{
	return peer->link;
}

/* Bytes of a RECORD's head, at most. */
static inline uint32_t connection_record_head(const struct connection *connection)
{
	return connection->engine->codec->record_head + guard_bytes(connection->guard);
}

/* Bytes of DATA's head. */
static inline uint32_t connection_data_head(const struct connection *connection)
{
	return connection->engine->codec->data_head + guard_bytes(connection->guard);
}

/* Up to half as long again, differently for each connection and each try, so that those who have lost together do not try again
 * together. */
static inline uint64_t connection_spread(const struct connection *connection, uint64_t ns, unsigned tries)
{
	return ns + (ns >> 6) * (connection->session >> (tries & 31) & 31);
}

/* What of a sequence number is on the wire, but for an epoch. */
static inline uint32_t sequence_narrow(const struct codec *codec, uint32_t sequence)
{
	return codec->sequence_bits < 32 ? sequence & ((1u << codec->sequence_bits) - 1) : sequence;
}

static inline void engine_count(struct engine *engine, enum counter counter)
{
	engine->endpoint->counters[counter]++;
}

/* ---- engine.c ------------------------------------------------------------------------------------- */

/* Ask for connection_expire at this time at the latest. */
void connection_wake(struct connection *connection, uint64_t when_ns);
/* It has something to be sent. */
void connection_dirty(struct connection *connection);
/* Fill in who sends to whom. */
void connection_packet(const struct connection *connection, struct packet *packet, enum packet_type type);
/* What is to be thought of a frame, in parts, of a connection's peer. Nothing is remembered of it. */
enum guard_verdict connection_judge(struct connection *connection, const struct packet *packet, const struct iovec *parts,
				    size_t count);
/* Send a packet without payload, padded to `size` bytes if that is more, on a link; engine_flush sends it off. */
void engine_post(struct engine *engine, uint8_t link, const struct path *to, const struct packet *packet, uint32_t size);
/* Put a frame into the burst; true: it is in it, or was taken. guard: makes its tag, or NULL. kept: the owner of a RECORD frame of
 * this connection, or NULL. */
bool burst_add(struct engine *engine, uint8_t link, const struct frame_out *frame, struct guard *guard,
	       struct connection *connection, struct kept *kept);
/* Send the burst off. Returns how many of its last `tail` frames were taken. */
unsigned burst_send(struct engine *engine, unsigned tail);
/* Memory that lasts until the burst is sent: for the next frame's head, its iovecs (FRAME_PIECES), its body. */
uint8_t *burst_head(struct engine *engine);
struct iovec *burst_iov(struct engine *engine);
uint8_t *burst_bounce(struct engine *engine);

/* A frame of an open connection's peer. */
void engine_packet(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length);

/* ---- connection.c --------------------------------------------------------------------------------- */

struct connection *connection_get(struct engine *engine, struct peer *peer);
struct connection *connection_by_index(struct engine *engine, uint32_t index, uint64_t session);
struct connection *connection_by_path(struct engine *engine, const struct link *link, const struct path *path);
struct connection *connection_next_by_path(struct connection *connection, const struct link *link, const struct path *path);
void connect_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet,
		     size_t length);
void accept_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet);
/* A frame with our session: whether there is a peer to have sent it. The first one opens a connection that the peer asked for. */
bool connection_proven(struct connection *connection);
void close_arrived(struct connection *connection, const struct packet *packet);
/* From nobody in particular: one without a tag. */
void nack_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet);
/* Say that what a frame named does not exist here. */
void nack_send(struct engine *engine, struct link *link, const struct path *to, enum nack_reason reason, uint64_t refused);
/* Say that the window of a PULL is not there. */
void nack_peer(struct connection *connection, uint64_t transfer);
/* Handshake, probes of the second link, liveness: what is due; UINT64_MAX or when something will be. */
uint64_t connection_expire(struct connection *connection);
void connection_lost(struct connection *connection, int status);
/* Send records by the link for bulk from now on, and try the other one again later. */
void connection_fall_back(struct connection *connection);
/* The same for bulk, and what else goes by its link: by the other, where that is known to work. */
void connection_aside(struct connection *connection);
/* Try the link for bulk again that was given up long ago. */
void connection_return(struct connection *connection);
/* Whether bulk goes by another link than it should. */
bool connection_is_aside(const struct connection *connection);
/* Bytes of a record frame now. */
uint32_t connection_frame(const struct connection *connection);

/* ---- sequence.c ----------------------------------------------------------------------------------- */

void sequence_init(struct connection *connection);
void sequence_fini(struct connection *connection);
void sequence_arrived(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length);
/* An acknowledgement came, on whatever packet. */
void sequence_acked(struct connection *connection, const struct packet *packet);
/* Fill in what an outgoing packet says of the other direction. */
void sequence_report(struct connection *connection, struct packet *packet);
/* Send what may be sent, and an acknowledgement if one is due. */
void sequence_flush(struct connection *connection);
/* Tell the layer above if there is room that it waits for. */
void sequence_ready(struct connection *connection);
uint64_t sequence_expire(struct connection *connection);
/* Whether a frame with this number, as on the wire, has been sent and not acknowledged. */
bool sequence_is_out(const struct connection *connection, uint32_t wire);
/* The link had no room for it: it is to be sent again, without delay. */
void sequence_unsend(struct connection *connection, struct kept *kept);
/* Smooth a sample of a round trip. */
void round_trip_measure(uint64_t sample_ns, uint64_t *smoothed_ns, uint64_t *deviation_ns);

/* ---- pull.c --------------------------------------------------------------------------------------- */

int pull_init(struct engine *engine);
void pull_fini(struct engine *engine);
void pull_lost(struct connection *connection);
void pull_arrived(struct connection *connection, const struct packet *packet);
void data_arrived(struct connection *connection, const struct packet *packet);
void pull_nacked(struct connection *connection, uint64_t transfer);
/* Whose fetch it is; NULL: there is none. */
struct connection *fetch_connection(struct engine *engine, uint64_t id);
/* Ask for more where there is credit. */
void pull_ask(struct engine *engine);
/* Send what was asked for. */
void pull_serve(struct engine *engine);
uint64_t pull_expire(struct connection *connection);

/* ---- numbers.c ------------------------------------------------------------------------------------ */

int numbers_init(struct engine *engine);
void numbers_fini(struct engine *engine);
/* The first link is there: draw a session, and say that we are here. */
void numbers_start(struct engine *engine);
/* Our session. */
uint32_t numbers_session(const struct engine *engine);
/* The number of a new connect: a late answer to another one is not taken for its own. */
uint8_t numbers_wish(struct engine *engine);
/* A new connection: frames to one before it must not be taken for its own. */
void numbers_begin(struct connection *connection);
/* When to say so again. */
uint64_t numbers_deadline(const struct engine *engine);
void numbers_expire(struct engine *engine);
/* Ask a host for its name, and with that tell it how we number it. */
void numbers_query(struct engine *engine, uint8_t link, const struct path *to);
/* The connection, alive or else the latest, with an endpoint of a host. */
struct connection *numbers_find(struct engine *engine, const struct link *link, const struct path *from, uint32_t number);
/* The same, only while it lives and is the one that sends this CONNECT; NULL: there is none. */
struct connection *numbers_known(struct engine *engine, const struct link *link, const struct path *from,
				 const struct packet *packet);
/* The peer that a CONNECT is of, made if it is the first word of it; who was there before it is lost. */
struct peer *numbers_peer(struct engine *engine, const struct link *link, const struct path *from,
			  const struct packet *packet);
/* Who sends a CONNECT or ACCEPT, who is meant, and in words of the codec. `asked`: what is answered, or NULL. */
void numbers_connect(struct engine *engine, struct packet *packet, const struct packet *asked);
/* Any frame. */
void numbers_frame(struct engine *engine, struct link *link, const struct path *from, struct packet *packet,
		   const uint8_t *frame, size_t length);
/* The request behind one of our windows, for whom it was opened; UINT64_MAX: it is not there. */
uint64_t numbers_request(const struct connection *connection, uint64_t window);
/* A window's short id for a request. False: none is free. */
bool numbers_window(struct connection *connection, uint64_t *id_p);
/* Nobody has heard of it. */
void numbers_window_back(struct connection *connection, uint64_t id);
/* Name a pull and its place as the codec does; `frame`: payload bytes of a frame. */
void numbers_pull(const struct engine *engine, struct packet_pull *pull, uint32_t frame);
/* Say that what a packet names is not there. */
void numbers_nack(struct engine *engine, const struct link *link, const struct path *to, const struct packet *refused,
		  enum nack_reason reason);
/* Have the peer's host say something. */
void numbers_ask(struct connection *connection);

#endif
