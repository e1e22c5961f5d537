/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover: what moves bulk of a link by itself, while the program computes: a driver in the kernel (mover_driver.c), the
 * simulator's. It takes the frames of DATA and PULLs that are for what it was handed; all others arrive at the link as
 * ever, and each native PULL too for what else it says. The engine decides what is handed over, and takes it back
 * (handover.c): it can do all of it itself.
 *
 * Calls return 0 or a negative errno: -ENODEV if the mover is gone, else this one thing is not for it.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_MOVER_H
#define THOLE_TRANSPORT_DATAGRAM_MOVER_H

#include "base/vector.h"
#include "transport/datagram/guard.h"
#include "transport/datagram/link.h"

/* What engine and mover both know of a connection. */
struct mover_way {
	/* of the frame that was sent last (guard.h): whoever sends the next n adds n in one step */
	uint64_t counter;
	/* the engine's: what PULLs carry for the peer's records */
	uint32_t ack;
	uint16_t credit;
	uint16_t host_index; /* mxoe, the engine's: by which the peer's host knows ours */
	uint64_t heard; /* the mover's: frames of DATA that came for it */
	uint64_t epoch; /* the engine's: of the newest frame from the peer (guard.h) */
};

/* A peer, as the handshake has named both sides. */
struct mover_peer {
	uint64_t session, peer_session;
	uint32_t index, peer_index;     /* mxoe: peer_index is the number of its endpoint, */
	uint8_t number;                 /* and this is ours */
	const struct path *records, *bulk;
	const struct guard *guard;      /* NULL: frames have no tags; else in the mode GUARD_HEADS */
	uint32_t frame_max;             /* bytes of a frame to it */
	uint64_t credit;                /* bytes that may be asked for and not here, of all peers */
};

/* From the front of a peer's window to the front of this memory, which stays until it is over. */
struct mover_fetch {
	const struct vector *into;
	uint64_t window, transfer;      /* as PULLs name them */
	uint64_t length;
	uint64_t id;                    /* by which its end is reported */
	uint32_t connection;
	uint32_t frame;                 /* bytes of payload a frame */
};

struct mover_reports {
	/* A fetch is over, with 0 or a negative errno. */
	void (*fetched)(struct engine *engine, uint64_t id, int status);
	/* A window cannot be read any more, of the connection with this index of ours: it is to be withdrawn. */
	void (*lost)(struct engine *engine, uint32_t index, uint64_t window);
};

struct mover_calls {
	/* The ways stay mapped until the mover is closed. */
	int (*connect)(struct mover *mover, const struct mover_peer *peer, uint32_t *id_p, struct mover_way **way_p);
	/* Afterwards nothing of it is read, written or sent, and no end of its fetches is reported. */
	void (*disconnect)(struct mover *mover, uint32_t connection);
	/* The peer may fetch this memory by this name, until it is withdrawn. */
	int (*offer)(struct mover *mover, uint32_t connection, uint64_t window, const struct vector *memory);
	void (*withdraw)(struct mover *mover, uint32_t connection, uint64_t window);
	/* Begin to fetch; poll reports its end. */
	int (*fetch)(struct mover *mover, const struct mover_fetch *fetch);
	/* Afterwards nothing more is written. Its end may be reported yet, if it was before this. */
	void (*cancel)(struct mover *mover, uint32_t connection, uint64_t transfer);
	/* Report what has happened. Cheap: no system call while nothing has. Returns how much. */
	unsigned (*poll)(struct mover *mover, const struct mover_reports *reports, struct engine *engine);
};

struct mover {
	const struct mover_calls *calls;
	uint64_t least; /* bytes of a window: fewer cost more to hand over than that saves */
	/* PULLs that it answers do not arrive at the link: those that do are the engine's. It refuses those that only
	 * ask whether the endpoint is there (MXOE_WINDOW_NONE) */
	bool keeps;
};

#endif
