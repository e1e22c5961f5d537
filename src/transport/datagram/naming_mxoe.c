/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * naming_mxoe: endpoints are named by the MAC of an interface and a number, as MX and Open-MX do: who a frame is of
 * and for, what a connect says, windows with short ids, what hosts say of themselves, refusals. Pure.
 *
 * All processes at one interface see the same frames. Each takes those for its own number. To what is asked of the host
 * itself all of them give the same answer.
 *
 * A sequence number has 14 bits, and above them two bits of an epoch, which the receiver chooses. A receiver that gave
 * up on a peer and meets it again chooses another epoch, so that no frame of before is taken for a new one.
 *
 * A process that was killed at this interface and number before us had windows and pulls too, and hosts may still refer
 * to them. So our ids begin anywhere, and nothing that a host says of another session begins one of ours.
 *
 * Invariants: one session for all peers; a window's short id is taken as long as its request is there; nothing is kept
 * of hosts, so any index in the head of a frame is right, and all hosts are given the same.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/sequence.h"

enum {
	WINDOWS = 256,            /* short ids: what fits a byte */
	/* handles below are connections, those of fetches are above: their generation is not 0 */
	HANDLE_PLAIN = 1 << 20,
};

/* All of MX agrees on it. */
#define MAGIC_PULL UINT32_C(0x21071980)

/* A request whose memory a peer may fetch. */
struct short_window {
	struct connection *connection; /* NULL: not used yet */
	uint64_t request;
	uint8_t sequence;              /* tells it from the one before */
};

struct mxoe {
	struct short_window windows[WINDOWS];
	uint32_t next_window;
	uint32_t handles;              /* the handles of our pulls are ids with these bits turned */
	uint8_t connects;              /* connects so far, of all peers */
	uint32_t serial;
	uint64_t hello_ns;             /* when to say that we are here; UINT64_MAX: there is no link yet */
	bool (*is_open)(void *arg, uint8_t number);
	void *arg;
	uint8_t name_length;
	char name[PACKET_NAME_MAX];
};

static uint8_t mxoe_own(const struct engine *engine)
{
	return engine->owner->parts.network[4];
}

/* ---- Beginning ------------------------------------------------------------------------------------------- */

static int mxoe_init(struct engine *engine)
{
	engine->mxoe = calloc(1, sizeof(*engine->mxoe));
	if (!engine->mxoe)
		return THOLE_ERR_MEMORY;
	engine->mxoe->hello_ns = UINT64_MAX;
	return 0;
}

static void mxoe_fini(struct engine *engine)
{
	free(engine->mxoe);
	engine->mxoe = NULL;
}

void naming_mxoe_name(struct engine *engine, uint8_t number, const char *host, uint32_t serial,
		      bool (*is_open)(void *arg, uint8_t number), void *arg)
{
	struct mxoe *mxoe = engine->mxoe;
	size_t length = strlen(host);

	engine->owner->parts.network[4] = number;
	mxoe->serial = serial;
	mxoe->is_open = is_open;
	mxoe->arg = arg;
	length = length < PACKET_NAME_MAX - 1 ? length : PACKET_NAME_MAX - 1;
	memcpy(mxoe->name, host, length);
	mxoe->name[length] = '\0';
	mxoe->name_length = (uint8_t)(length + 1); /* with the NUL: hosts write one over the last byte */
}

static void mxoe_start(struct engine *engine)
{
	struct mxoe *mxoe = engine->mxoe;
	uint8_t sequences[WINDOWS];

	while (engine->session == 0)
		engine->random(engine->random_arg, &engine->session, sizeof(engine->session));
	engine->random(engine->random_arg, &mxoe->next_window, sizeof(mxoe->next_window));
	engine->random(engine->random_arg, &mxoe->handles, sizeof(mxoe->handles));
	engine->random(engine->random_arg, sequences, sizeof(sequences));
	for (unsigned i = 0; i < WINDOWS; i++)
		mxoe->windows[i].sequence = sequences[i];
	mxoe->hello_ns = engine->now_ns;
}

/* Each connect has a connect sequence of its own, so a late answer to another is not taken for its answer. */
static uint8_t mxoe_connect_sequence(struct engine *engine)
{
	return engine->mxoe->connects++;
}

/* ---- What hosts say --------------------------------------------------------------------------------------- */

static uint64_t mxoe_deadline(const struct engine *engine)
{
	return engine->mxoe->hello_ns;
}

/* Hosts listen to those only who are on a list of theirs, or who have said that they are there. */
static void mxoe_expire(struct engine *engine)
{
	static const struct path everybody = {.bytes = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
	struct mxoe *mxoe = engine->mxoe;
	struct packet packet = {.type = PACKET_HELLO, .host.serial = mxoe->serial};

	if (mxoe->hello_ns > engine->now_ns)
		return;
	for (int i = 0; i < 6; i++)
		packet.host.mac = packet.host.mac << 8 | engine->links[0]->own.bytes[i];
	mxoe->hello_ns = engine->now_ns + HELLO_NS;
	burst_post(engine, 0, &everybody, &packet, 0);
}

/* Ask a host for its name, and with that tell it which index we have given it. */
static void mxoe_query(struct engine *engine, uint8_t link, const struct path *to)
{
	struct packet packet = {.type = PACKET_QUERY, .host = {.index = MXOE_HOST_INDEX, .magic = MXOE_QUERY_MAGIC}};

	burst_post(engine, link, to, &packet, 0);
}

static void mxoe_query_arrived(struct engine *engine, const struct link *link, const struct path *from,
			       const struct packet *asked)
{
	const struct mxoe *mxoe = engine->mxoe;
	struct packet packet = {.type = PACKET_REPLY, .host = {.index = MXOE_HOST_INDEX, .magic = asked->host.magic}};

	packet.host.name_length = mxoe->name_length;
	memcpy(packet.host.name, mxoe->name, mxoe->name_length);
	burst_post(engine, (uint8_t)link->index, from, &packet, 0);
}

/* By which its host knows ours, from now on. */
static void mxoe_index(struct connection *connection, uint32_t index)
{
	connection->names.host_index = (uint16_t)index;
	if (connection->handover)
		arrival_tell(connection);
}

/* A host says which index it has given us. */
static void mxoe_index_arrived(struct engine *engine, const struct link *link, const struct path *from, uint32_t index)
{
	struct connection *connection = connection_by_path(engine, link, from);

	for (; connection; connection = connection_next_by_path(connection, link, from))
		mxoe_index(connection, index);
}

/* ---- Who it is -------------------------------------------------------------------------------------------- */

/* The connection, alive or else the latest, with an endpoint of a host. For each frame: so no more of them are there
 * than one that lives and the one before it (mxoe_begin). */
static struct connection *mxoe_find(struct engine *engine, const struct link *link, const struct path *from,
				    uint32_t number)
{
	struct connection *connection = connection_by_path(engine, link, from), *found = NULL;

	for (; connection; connection = connection_next_by_path(connection, link, from)) {
		if (connection->peer_index != number)
			continue;
		if (connection->state != CONNECTION_DEAD)
			return connection;
		if (!found)
			found = connection;
	}
	return found;
}

/* Hosts have endpoints that end and begin again for years. */
static void mxoe_hide_before(struct connection *latest, const struct link *link, const struct path *path)
{
	struct connection *connection = connection_next_by_path(latest, link, path), *next;

	for (; connection; connection = next) {
		next = connection_next_by_path(connection, link, path);
		if (connection->peer_index == latest->peer_index)
			connection_hide(connection, link);
	}
}

/* Frames for a former connection with the same endpoint must not be taken for this one's. */
static void mxoe_begin(struct connection *connection)
{
	struct engine *engine = connection->engine;
	const struct address_parts *parts = &connection->peer->parts;
	struct connection *former;
	struct path path = {{0}};

	connection->session = engine->session;
	connection->names.number = mxoe_own(engine);
	connection->names.key = (uint32_t)engine->key;
	connection->names.connect_sequence = mxoe_connect_sequence(engine);
	connection->peer_index = parts->network[4];
	memcpy(path.bytes, parts->network + 8, 6);
	former = mxoe_find(engine, engine->links[0], &path, connection->peer_index);
	if (former)
		mxoe_hide_before(former, engine->links[0], &path);
	if (!former || !former->peer_session)
		return;
	connection->names.former_session = (uint32_t)former->peer_session;
	connection->in.epoch = (former->in.epoch + (1u << engine->codec->sequence_bits)) & 0xffff;
	connection->names.host_index = former->names.host_index;
	if (former->handshake.answered)
		connection->names.key = former->names.key;
}

/* Whether the endpoint that we know by this name has ended, or has given up on us and begins again. Either way it gets
 * nothing any more of what it has missed, so both are the same to us. */
static bool mxoe_is_new(const struct connection *connection, const struct packet_connect *connect)
{
	uint32_t epoch = connect->next ^ sequence_narrow(connection->engine->codec, connect->next);

	return connection->peer_session && (connection->peer_session != connect->session ||
					    (connection->out.credit > 0 && connection->out.epoch != epoch));
}

/* The endpoint that had this name before is lost. */
static struct transport_peer *mxoe_caller(struct engine *engine, const struct link *link, const struct path *from,
				const struct packet *packet)
{
	struct connection *connection = mxoe_find(engine, link, from, packet->from);
	struct address_parts parts;
	struct thole_address address;
	struct transport_peer *peer;

	if (connection && connection->state != CONNECTION_DEAD && mxoe_is_new(connection, &packet->connect))
		connection_lost(connection, THOLE_ERR_PEER);
	address_mxoe(from->bytes, (uint8_t)packet->from, &parts);
	address_format(&parts, &address);
	if (engine->owner->up->peer(engine->owner, &address, &peer) != 0)
		return NULL;
	return connection_may_be(peer) ? peer : NULL;
}

static bool mxoe_knows(const struct engine *engine, const struct packet *packet)
{
	return packet->connect.proof == (packet->type == PACKET_CONNECT ? (uint32_t)engine->key : 0);
}

/* The key is shown as it is: it keeps strangers apart and no spies out. */
static void mxoe_connect(struct connection *connection, struct link *link, struct packet *packet, uint32_t size)
{
	struct engine *engine = connection->engine;
	const struct path *to = &connection->route[link->index].records;

	(void)size; /* the codec's */
	packet->connect.index = MXOE_HOST_INDEX;
	packet->connect.attempt = connection->names.connect_sequence;
	packet->connect.proof = connection->names.key;
	mxoe_query(engine, (uint8_t)link->index, to);
	burst_post(engine, (uint8_t)link->index, to, packet, 0);
}

/* The sequence number for the answer to a peer that has not shown the key: it learns nothing new by that. */
static uint32_t mxoe_next(struct engine *engine, const struct link *link, const struct path *from,
			  const struct packet *asked)
{
	const struct connection *connection = mxoe_find(engine, link, from, asked->from);

	if (!connection || connection->state == CONNECTION_DEAD || connection->peer_session != asked->connect.session)
		return SEQUENCE_FIRST;
	return handshake_next(connection);
}

static void mxoe_accept(struct engine *engine, struct link *link, const struct path *to, struct packet *packet,
			const struct packet *asked)
{
	if (packet->connect.status != CONNECT_OK && packet->connect.status != CONNECT_BAD_KEY)
		return; /* MX has no such word */
	packet->to = asked->from;
	packet->from = mxoe_own(engine);
	packet->peer_index = (uint16_t)asked->connect.index;
	packet->connect.index = MXOE_HOST_INDEX;
	packet->connect.session = engine->session;
	packet->connect.echo = asked->connect.session;
	if (packet->connect.status != CONNECT_OK)
		packet->connect.next = mxoe_next(engine, link, to, asked);
	burst_post(engine, (uint8_t)link->index, to, packet, 0);
}

static struct connection *mxoe_called(struct engine *engine, const struct link *link, const struct path *from,
				      const struct packet *packet)
{
	struct connection *connection = mxoe_find(engine, link, from, packet->from);

	return connection && packet->connect.echo == connection->session ? connection : NULL;
}

/* A path is a name, and frames have no tags. */
static int mxoe_admit(struct connection *connection, const struct link *link, const struct path *from,
		      const struct packet *packet)
{
	(void)connection;
	(void)link;
	(void)from;
	(void)packet;
	return 0;
}

static bool mxoe_learn(struct connection *connection, const struct link *link, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;

	(void)link;
	mxoe_index(connection, connect->index);
	if (!connection->peer_session && connection->state == CONNECTION_NEW &&
	    connection->names.former_session != connect->session)
		connection->in.epoch = 0; /* it knows of none before */
	if (connection->peer_session && connection->peer_session != connect->session)
		return false;
	connection->peer_session = connect->session;
	/* Anything but the beginning of a CONNECT may be of another session or epoch: hosts say the right one when
	 * they answer ours. */
	if (connection->out.credit == 0 && (packet->type == PACKET_ACCEPT || connect->next == SEQUENCE_FIRST))
		transmit_start(connection, connect->next);
	connection_open(connection);
	if (packet->type == PACKET_ACCEPT && !connection->handshake.answered)
		connection->in.ack_now = false; /* nothing is due of what came before */
	return true;
}

/* Keys are checked in each direction by itself, so the layer above is not told yet. A mover can say that we are there
 * whatever this program does. */
static void mxoe_opened(struct connection *connection)
{
	handover_opened(connection);
}

/* Our key is not what the peer wants to hear. If it has itself connected to us, it takes our frames all the same. */
static void mxoe_refused(struct connection *connection, const struct packet_connect *connect)
{
	if (connection->handshake.answered || connect->attempt != connection->names.connect_sequence)
		return; /* it was another key */
	if (!connection->peer_session) {
		connection_lost(connection, THOLE_ERR_ACCESS);
		return;
	}
	connection->handshake.connect_ns = 0;
	if (connection->out.credit == 0)
		transmit_start(connection, connect->next);
	connection_open(connection);
	connection_dirty(connection);
	connection->peer->owner->up->connected(connection->peer, THOLE_ERR_ACCESS);
}

static int mxoe_rekey(struct engine *engine, struct transport_peer *peer, uint64_t key)
{
	struct connection *connection = connection_get(engine, peer);
	bool asked;

	if (!connection)
		return error_set(THOLE_ERR_MEMORY, "no memory for another connection beside %u",
				 engine->connections.live);
	asked = connection->handshake.connect_ns && connection->names.key == (uint32_t)key;
	if (connection->handshake.answered || asked)
		return 0;
	connection->names.key = (uint32_t)key;
	if (connection->state == CONNECTION_NEW)
		return 0; /* handshake_connect asks */
	connection->names.connect_sequence = mxoe_connect_sequence(engine);
	connection->handshake.attempt = 0;
	handshake_ask(connection);
	return 0;
}

/* ---- Windows ---------------------------------------------------------------------------------------------- */

static bool mxoe_window_is_free(const struct short_window *window)
{
	return !window->connection ||
	       !window->connection->peer->owner->up->id_used(window->connection->peer, window->request);
}

static bool mxoe_window(struct connection *connection, uint64_t *id_p)
{
	struct mxoe *mxoe = connection->engine->mxoe;

	for (int i = 0; i < WINDOWS; i++) {
		uint32_t at = mxoe->next_window++ % WINDOWS;
		struct short_window *window = &mxoe->windows[at];

		if (!mxoe_window_is_free(window))
			continue;
		window->connection = connection;
		window->request = *id_p;
		window->sequence++;
		if ((at | (uint32_t)window->sequence << 8) == MXOE_WINDOW_NONE)
			window->sequence++;
		/* from the start of the memory on: an offset of 0 above */
		*id_p = at | (uint32_t)window->sequence << 8;
		return true;
	}
	return false;
}

static void mxoe_window_back(struct connection *connection, uint64_t id)
{
	connection->engine->mxoe->windows[id % WINDOWS].connection = NULL;
}

/* The request behind one of our windows, for whom it was opened; UINT64_MAX: it is not there. */
static uint64_t mxoe_request(const struct connection *connection, uint64_t id)
{
	const struct short_window *window = &connection->engine->mxoe->windows[id % WINDOWS];

	return window->connection == connection && id >> 8 == window->sequence ? window->request : UINT64_MAX;
}

static void mxoe_finish(const struct connection *connection, struct record *record, uint64_t bytes)
{
	record->tag = mxoe_request(connection, record->tag);
	record->imm = finish_pack(0, bytes);
}

/* ---- Pulls ------------------------------------------------------------------------------------------------ */

/* Handle and magic come back with the data. The magic says whose pull it is by its lowest byte; what a transfer's id
 * has above the handle's 32 bits changes the others. */
static uint64_t mxoe_transfer(const struct engine *engine, uint64_t id)
{
	return (id ^ engine->mxoe->handles) << 32 | (MAGIC_PULL ^ mxoe_own(engine) ^ (uint32_t)(id >> 32 << 8));
}

/* False: of another process here, or of nobody. */
static bool mxoe_handle_unpack(const struct engine *engine, uint64_t transfer, uint64_t *id_p)
{
	uint32_t above = (uint32_t)transfer ^ MAGIC_PULL ^ mxoe_own(engine);

	*id_p = (uint64_t)(above >> 8) << 32 | ((transfer >> 32) ^ engine->mxoe->handles);
	return (above & 0xff) == 0;
}

static void mxoe_pull(struct connection *connection, struct packet *packet)
{
	packet->pull.transfer = mxoe_transfer(connection->engine, packet->pull.transfer);
	packet_pull_place(&packet->pull);
}

/* Nothing else is answered for a program that computes: a host with MX refuses a window that is not there whatever its
 * programs do, and says what has become of the endpoint. */
static void mxoe_ask(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct packet packet;

	if (!connection->peer_session)
		return;
	connection_packet(connection, &packet, PACKET_PULL);
	packet.pull = (struct packet_pull){
		.window = MXOE_WINDOW_NONE,
		.transfer = mxoe_transfer(engine, connection->index),
		.total = 1,
		.length = 1,
	};
	burst_post(engine, connection->routes.use[LINK_RECORDS],
		   &connection->route[connection->routes.use[LINK_RECORDS]].records, &packet, 0);
}

/* Whose pull it is; *id_p: the fetch's id, or 0 if it was only asked whether somebody is there. NULL: none of this
 * process's. */
static struct connection *mxoe_handle_connection(struct engine *engine, const struct link *link,
						 const struct path *from, uint64_t transfer, uint64_t *id_p)
{
	struct connection *connection;
	uint64_t id;

	if (!mxoe_handle_unpack(engine, transfer, &id))
		return NULL;
	*id_p = id < HANDLE_PLAIN ? 0 : id;
	connection = id < HANDLE_PLAIN ? connection_by_index(engine, (uint32_t)id, engine->session)
				       : pull_connection(engine, id);
	return connection && connection->state == CONNECTION_OPEN &&
			       memcmp(&connection->route[link->index].records, from, sizeof(*from)) == 0
		       ? connection
		       : NULL;
}

static void mxoe_data_arrived(struct engine *engine, const struct link *link, const struct path *from,
			      struct packet *packet, const uint8_t *frame, size_t length)
{
	uint64_t id;
	struct connection *connection = mxoe_handle_connection(engine, link, from, packet->data.transfer, &id);

	if (!connection) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE); /* of a pull that has ended, or another process's */
		return;
	}
	packet->data.transfer = id;
	engine_packet(connection, packet, frame, length);
}

/* ---- Refusals --------------------------------------------------------------------------------------------- */

static void mxoe_refuse(struct engine *engine, const struct link *link, const struct path *to,
			const struct packet *refused, enum nack_reason reason)
{
	struct packet packet = {.type = PACKET_NACK,
				.to = refused->from,
				.from = refused->to,
				.peer_index = MXOE_INDEX_ANY,
				.sequence = refused->sequence};

	packet.nack.reason = (uint8_t)reason;
	packet.nack.index = MXOE_INDEX_ANY;
	packet.nack.driver = refused->type == PACKET_PULL;
	packet.nack.transfer = packet.nack.driver ? refused->pull.transfer : 0;
	engine_count(engine, COUNTER_NACKS_SENT);
	burst_post(engine, (uint8_t)link->index, to, &packet, 0);
}

static void mxoe_refuse_window(struct connection *connection, const struct packet *pull)
{
	uint8_t link = connection->routes.use[LINK_RECORDS];

	mxoe_refuse(connection->engine, connection->engine->links[link], &connection->route[link].records, pull,
		    NACK_BAD_WINDOW);
}

static void mxoe_stranger(struct engine *engine, const struct link *link, const struct path *from,
			  const struct packet *packet, enum nack_reason reason)
{
	engine_count(engine, COUNTER_DROPPED_SESSION);
	if (packet->type != PACKET_RECORD && packet->type != PACKET_PULL && packet->type != PACKET_CONNECT)
		return;
	if (engine->nack_ns && engine->now_ns - engine->nack_ns < NACK_NS)
		return;
	engine->nack_ns = engine->now_ns;
	mxoe_refuse(engine, link, from, packet, reason);
}

static void mxoe_nack_arrived(struct engine *engine, const struct link *link, const struct path *from,
			      const struct packet *packet)
{
	struct connection *connection;
	uint64_t id = 0;

	engine_count(engine, COUNTER_NACKS_RECEIVED);
	if (packet->nack.driver) {
		connection = mxoe_handle_connection(engine, link, from, packet->nack.transfer, &id);
		if (!connection)
			return;
		connection->silence.heard_ns = engine->now_ns;
		connection->silence.answered = true;
		if (packet->nack.reason != NACK_BAD_WINDOW)
			connection_lost(connection, THOLE_ERR_PEER);
		else if (id)
			pull_nacked(connection, id);
		return;
	}
	connection = mxoe_find(engine, link, from, packet->from);
	if (!connection || connection->state == CONNECTION_DEAD || packet->nack.reason == NACK_BAD_WINDOW)
		return;
	/* It has to be about something that was sent and not taken: a CONNECT or a record. */
	if ((connection->handshake.connect_ns && !connection->handshake.answered && packet->sequence == 0) ||
	    transmit_is_out(connection, packet->sequence))
		connection_lost(connection, THOLE_ERR_PEER);
}

/* ---- Any frame -------------------------------------------------------------------------------------------- */

/* Acknowledgements of another epoch are of another time, and PULLs carry none. */
static void mxoe_acknowledged(const struct connection *connection, struct packet *packet)
{
	const struct codec *codec = connection->engine->codec;

	if ((packet->ack ^ sequence_narrow(codec, packet->ack)) != connection->out.epoch ||
	    connection->out.credit == 0 || packet->type == PACKET_PULL)
		packet->ack = sequence_narrow(codec, connection->out.next + 1); /* too high, so it is ignored */
}

/* No host can be asked for RTS only (codec->backpressure), so a message that is too much is not taken, and comes
 * again. */
static bool mxoe_unwanted(const struct connection *connection, const struct packet *packet)
{
	const struct engine *engine = connection->engine;
	const struct transport_owner *owner = engine->owner;
	uint32_t ahead = packet->sequence - connection->in.next, sequences = 1u << engine->codec->sequence_bits;

	return owner->backpressure && packet->type == PACKET_RECORD && packet->message.record.kind == RECORD_EAGER &&
	       ahead % sequences < sequences / 2 &&
	       !owner->up->expected(connection->peer, packet->message.record.tag);
}

/* A frame of an endpoint to this one. */
static void mxoe_packet(struct engine *engine, const struct link *link, const struct path *from, struct packet *packet,
			const uint8_t *frame, size_t length)
{
	struct connection *connection;

	if (packet->session != engine->session) {
		mxoe_stranger(engine, link, from, packet, NACK_BAD_SESSION);
		return;
	}
	connection = mxoe_find(engine, link, from, packet->from);
	if (!connection || connection->state != CONNECTION_OPEN) {
		if (connection && connection->state == CONNECTION_DEAD)
			mxoe_stranger(engine, link, from, packet, NACK_CLOSED);
		else
			engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	if (packet->type == PACKET_RECORD &&
	    (packet->sequence ^ sequence_narrow(engine->codec, packet->sequence)) != connection->in.epoch) {
		engine_count(engine, COUNTER_DROPPED_SESSION); /* for a connection that we have given up */
		return;
	}
	if (packet->type == PACKET_PULL) {
		packet->pull.window = mxoe_request(connection, packet->pull.window);
		packet->pull.frame = engine->codec->data;
	}
	mxoe_acknowledged(connection, packet);
	if (__builtin_expect(mxoe_unwanted(connection, packet), 0)) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		connection->silence.heard_ns = engine->now_ns;
		transmit_acked(connection, packet);
		return;
	}
	engine_packet(connection, packet, frame, length);
}

static bool mxoe_frame(struct engine *engine, struct link *link, const struct path *from, struct packet *packet,
		       const uint8_t *frame, size_t length)
{
	bool elsewhere = packet->to != mxoe_own(engine);

	switch (packet->type) {
	case PACKET_QUERY:
		mxoe_index_arrived(engine, link, from, packet->host.index);
		mxoe_query_arrived(engine, link, from, packet);
		return false;
	case PACKET_REPLY:
		mxoe_index_arrived(engine, link, from, packet->host.index);
		return false;
	case PACKET_HELLO:
		return false;
	case PACKET_DATA: /* names nobody but by what the pull has said */
		mxoe_data_arrived(engine, link, from, packet, frame, length);
		return false;
	default:
		break;
	}
	if (elsewhere) {
		if (engine->mxoe->is_open && !engine->mxoe->is_open(engine->mxoe->arg, (uint8_t)packet->to))
			mxoe_stranger(engine, link, from, packet, NACK_CLOSED);
		return false;
	}
	if (packet->type == PACKET_CONNECT)
		handshake_connect_arrived(engine, link, from, packet, length);
	else if (packet->type == PACKET_ACCEPT)
		handshake_accept_arrived(engine, link, from, packet);
	else if (packet->type == PACKET_NACK)
		mxoe_nack_arrived(engine, link, from, packet);
	else
		mxoe_packet(engine, link, from, packet, frame, length);
	return false;
}

/* Its peer has the other mode of MXoE. Short messages come through, and all else would be lost without a word. */
static void mxoe_foreign(struct engine *engine, const struct link *link, const struct path *from,
			 const struct packet *packet, size_t length)
{
	struct connection *connection = mxoe_find(engine, link, from, packet->from);

	(void)length;
	if (packet->to != mxoe_own(engine) || packet->session != engine->session || !connection)
		return;
	if (connection->state == CONNECTION_OPEN)
		connection_failed(connection,
				  error_set(THOLE_ERR_UNSUPPORTED,
					    "%s has the other mode of MXoE, and this endpoint the option codec=%s: one "
					    "of mxoe and mxoe-jumbo has to be that of all hosts of a network",
					    connection->peer->address.text, engine->codec->name));
	if (connection->state == CONNECTION_DEAD)
		mxoe_stranger(engine, link, from, packet, NACK_CLOSED);
}

const struct naming naming_mxoe = {
	.init = mxoe_init,
	.fini = mxoe_fini,
	.start = mxoe_start,
	.deadline = mxoe_deadline,
	.expire = mxoe_expire,
	.frame = mxoe_frame,
	.foreign = mxoe_foreign,
	.begin = mxoe_begin,
	.opened = mxoe_opened,
	.ask = mxoe_ask,
	.connect = mxoe_connect,
	.accept = mxoe_accept,
	.knows = mxoe_knows,
	.caller = mxoe_caller,
	.called = mxoe_called,
	.admit = mxoe_admit,
	.learn = mxoe_learn,
	.refused = mxoe_refused,
	.rekey = mxoe_rekey,
	.refuse = mxoe_refuse,
	.refuse_window = mxoe_refuse_window,
	.window = mxoe_window,
	.request = mxoe_request,
	.window_back = mxoe_window_back,
	.finish = mxoe_finish,
	.transfer = mxoe_transfer,
	.pull = mxoe_pull,
};
