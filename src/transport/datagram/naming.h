/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * naming: how endpoints, connections and windows are named in frames, and what follows from that: whose a frame is and
 * whom it is for, what a handshake says, how a peer is told that what it named is not here. There are two ways;
 * engine_init takes the codec's. Nothing else of the engine asks which one it is.
 *
 * naming_native.c  each side names the other's connections by an index and a session, and proves that it knows the job
 *                  key
 * naming_mxoe.c    endpoints have a MAC and a number, as MX names them, windows short ids
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_NAMING_H
#define THOLE_TRANSPORT_DATAGRAM_NAMING_H

#include "transport/datagram/engine.h"

enum {
	NACK_NS = 1000000,     /* at most one NACK each so often, whoever asks for it, */
	NACK_LOOK_NS = 1000,   /* and so much later for each connection that has to be looked at for it */
	HELLO_NS = 1000000000, /* mxoe: between two broadcasts that we are here */
};

/* What mxoe keeps of one peer. */
struct names {
	uint32_t key;               /* that the peer wants to hear */
	uint32_t former_session;    /* of the peer at the same place that we have given up; 0: none */
	uint16_t host_index;        /* that its host has given ours */
	uint8_t number;             /* of our endpoint */
	uint8_t connect_sequence;   /* of our last connect, which its answer repeats */
};

struct naming {
	/* Errors: MEMORY. */
	int (*init)(struct engine *engine);
	void (*fini)(struct engine *engine);
	/* A link is there. */
	void (*start)(struct engine *engine);
	/* When expire has something to do next, UINT64_MAX: never. */
	uint64_t (*deadline)(const struct engine *engine);
	void (*expire)(struct engine *engine);
	/* A frame has come (engine_frame). */
	bool (*frame)(struct engine *engine, struct link *link, const struct path *from, struct packet *packet,
		      const uint8_t *frame, size_t length);

	/* One that is foreign to the codec has. */
	void (*foreign)(struct engine *engine, const struct link *link, const struct path *from,
			const struct packet *packet, size_t length);
	/* RECORDs of one connection that have come as one, of `segment` bytes each but the last, at most
	 * ENGINE_TOGETHER of them. Returns whether that is what they are; if not, nothing has happened. *known_p is as
	 * what frame returns, and stays as it is if that is false. NULL: there is no faster way than one by one. */
	bool (*records)(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frames,
			size_t length, size_t segment, bool *known_p);

	/* A new connection gets its session. */
	void (*begin)(struct connection *connection);
	/* It is open: frames may flow. */
	void (*opened)(struct connection *connection);
	/* Send something that the peer, or its host, answers. */
	void (*ask)(struct connection *connection);

	/* Send a CONNECT; packet has what any codec's says. It is `size` bytes long where the codec lets us choose. */
	void (*connect)(struct connection *connection, struct link *link, struct packet *packet, uint32_t size);
	/* The same of an ACCEPT. asked: the CONNECT that it answers. */
	void (*accept)(struct engine *engine, struct link *link, const struct path *to, struct packet *packet,
		       const struct packet *asked);
	/* Whether the sender of a CONNECT or ACCEPT knows the key. */
	bool (*knows)(const struct engine *engine, const struct packet *packet);
	/* The peer that sent a CONNECT, made if it was not known. NULL: it cannot be reached by this transport. */
	struct transport_peer *(*caller)(struct engine *engine, const struct link *link, const struct path *from,
			       const struct packet *packet);
	/* The connection whose CONNECT an ACCEPT answers; NULL: none. */
	struct connection *(*called)(struct engine *engine, const struct link *link, const struct path *from,
				     const struct packet *packet);
	/* Whether a CONNECT or ACCEPT comes from where its sender is, and frames can be made as safe as both want.
	 * Errors: ACCESS (it does not); UNSUPPORTED and MEMORY, with a sentence. */
	int (*admit)(struct connection *connection, const struct link *link, const struct path *from,
		     const struct packet *packet);
	/* Take over what a CONNECT or ACCEPT says. False: it contradicts what we know. */
	bool (*learn)(struct connection *connection, const struct link *link, const struct packet *packet);
	/* An ACCEPT says that we are not welcome. */
	void (*refused)(struct connection *connection, const struct packet_connect *connect);
	/* The key that a peer wants to hear instead of ours; asked anew if it has not taken one. Errors: MEMORY. */
	int (*rekey)(struct engine *engine, struct transport_peer *peer, uint64_t key);

	/* Say that what a frame names is not here. */
	void (*refuse)(struct engine *engine, const struct link *link, const struct path *to,
		       const struct packet *refused, enum nack_reason reason);
	/* Say that the window of a peer's PULL is not. */
	void (*refuse_window)(struct connection *connection, const struct packet *pull);

	/* A request's id becomes its window's. False: there is none now. */
	bool (*window)(struct connection *connection, uint64_t *id_p);
	/* The request behind such an id. */
	uint64_t (*request)(const struct connection *connection, uint64_t id);
	/* Give such an id back, which no peer was told. */
	void (*window_back)(struct connection *connection, uint64_t id);
	/* Fill in what a FINISH of so many bytes is about. */
	void (*finish)(const struct connection *connection, struct record *record, uint64_t bytes);
	/* What PULLs call the fetch of this id. */
	uint64_t (*transfer)(const struct engine *engine, uint64_t id);
	/* Fill in what the codec says in a PULL beside what any does. */
	void (*pull)(struct connection *connection, struct packet *packet);
};

extern const struct naming naming_native, naming_mxoe;

/* mxoe, before the link: our number, what this host is called, a number that changes when it starts again, and whether
 * an endpoint of this number is open on it, in whichever process (NULL: nobody can say; frames for others are dropped
 * then). */
void naming_mxoe_name(struct engine *engine, uint8_t number, const char *host, uint32_t serial,
		      bool (*is_open)(void *arg, uint8_t number), void *arg);

#endif
