/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route: the ways to a peer, one by each link of the engine: which are known, which work, and which one is used for
 * what. See route.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_ROUTE_H
#define THOLE_TRANSPORT_DATAGRAM_ROUTE_H

#include "transport/datagram/engine.h"

enum route_limits {
	PROBE_NS = 3000000,        /* between tries of a further link */
	PROBES_MAX = 10,           /* tries of a further link, each after twice the time: a second and a half */
	/* before a link is tried again that lost what another carried, and between two rounds of tries */
	FALL_BACK_NS = 2000000000,
	LINK_LOSSES = 8,           /* times in a row that a link has to lose frames to be left */
	/* numbers of CONNECTs by a link: as many as fit beside the link's in `connect.attempt` */
	ROUTE_NUMBERS = 64,
	/* the last ones, whose answers count: as many as are sent before the first one is answered late, or together */
	ROUTE_NUMBERS_OUT = 16,
};

/* How one link reaches the peer. There is one for each link of each peer, so it is small. */
struct route {
	struct path records, bulk;
	struct connection *next; /* in the engine's bucket for this path */
	uint64_t try_ns;         /* when a CONNECT goes by it next; 0: no more */
	uint64_t lost_ns;        /* when it was last found to have lost a frame, */
	uint32_t lost_in_row : 4; /* and how often in a row: it arrived only when another link repeated it */
	uint32_t tries : 4;      /* CONNECTs since it was known, or left */
	uint32_t asked : 6;      /* the number of the last CONNECT by it, of ROUTE_NUMBERS, */
	uint32_t counting : 5;   /* how many of the last ones' answers count: none of before it was left, or narrower */
	uint32_t newest : 6;     /* the number of the newest CONNECT of the peer's */
	bool known : 1;          /* the paths are filled in */
	bool heard : 1;          /* a CONNECT or an ACCEPT has come by it */
	bool left : 1;           /* it worked, and then lost what another carried */
	bool later : 1;          /* a whole round of tries was in vain: the next one waits until something goes on */
	bool narrow : 1;         /* frames had to get shorter, and the peer may not know yet: CONNECTs say so */
	uint16_t frame_max;      /* bytes, as the peer has seen them arrive; 0: not known to work */
	uint16_t frame_in;       /* bytes of the longest that was seen to arrive, or that the peer sends now */
};

_Static_assert(ENGINE_FRAME_MAX <= UINT16_MAX, "routes know how long frames may be");
_Static_assert((int)LINK_LOSSES < 16 && (int)PROBES_MAX < 16, "they are counted");
_Static_assert(ROUTE_NUMBERS * (int)ENGINE_LINKS_MAX == 256, "both are in a byte");
_Static_assert(ROUTE_NUMBERS <= 1 << 6 && ROUTE_NUMBERS_OUT < 1 << 5, "they are counted");

/* What they are used for, worked out anew when one begins or ceases to work. */
struct routes {
	/* links; LINK_CONNECT: the first that was known, which is used as long as none is known to work */
	uint8_t use[LINK_USES];
	uint8_t heard;           /* the link that brought the last frame */
	uint8_t working;         /* links that do */
	bool aside;              /* bulk goes by another link than it would if none had been left */
	uint32_t frame;          /* bytes of the longest frame that all of those carry */
};

/* No path is known yet. */
void route_begin(struct connection *connection);
/* A link reaches it so. */
void route_reach(struct connection *connection, unsigned link, const struct path *path);
/* A CONNECT has come by a link as a frame of so many bytes: such may be asked for or, if it says so, only shorter
 * ones. */
void route_arrive(struct connection *connection, unsigned link, const struct packet_connect *connect, size_t length);
/* A CONNECT or ACCEPT has come by a link. */
void route_hear(struct connection *connection, unsigned link, const struct packet_connect *connect);
/* The next CONNECT by a link has this for its number, which the answer repeats. */
uint8_t route_ask(struct connection *connection, unsigned link);
/* Whether such a number is one of the last that went by this link, since it was left. Until one has been
 * answered it is any that went by it. */
bool route_asked(const struct connection *connection, unsigned link, uint8_t number);
/* An ACCEPT says that a frame of so many bytes has arrived by it: it works. */
void route_work(struct connection *connection, unsigned link, uint32_t seen);
/* Frames of more bytes do not pass any more. The peer is told, which asks for DATA of no more then; and told again if
 * it asks for longer ones all the same (bulk). */
void route_shrink(struct connection *connection, unsigned link, uint32_t frame_max, bool bulk);
/* A link loses what others carry: do without it where another one works, and try it again later. */
void route_leave(struct connection *connection, unsigned link);
/* What a link should have carried has arrived, but not before another repeated it. */
void route_lose(struct connection *connection, unsigned link);
/* Send a CONNECT by this link, or by all that are not waiting for an answer, if there is reason to. */
void route_try(struct connection *connection, unsigned link);
void route_try_all(struct connection *connection);
/* Send the CONNECTs that are due; when one is next, UINT64_MAX: never. After a round of
 * tries in vain a link is left alone until the connection is called for something else. */
uint64_t route_expire(struct connection *connection);
void route_end(struct connection *connection);
/* Another link that works and carries frames of so many bytes, a different one each turn; `usual` if there is none. */
uint8_t route_other(const struct connection *connection, uint8_t usual, unsigned turn, uint32_t length);
/* By which link DATA goes to a peer: that by which its PULL came, if that says that the usual one does not bring it
 * any more. */
uint8_t route_serve(const struct connection *connection, bool aside);

#endif
