/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * naming_native: names of our own peers. A frame says which connection of its receiver it is for, by index, and has
 * the session that the receiver drew for that; both were told when connecting, with a proof of knowing the job key.
 * Pure.
 *
 * Invariant: nothing is allocated for, or believed of, whoever proves nothing.
 */
#include <string.h>

#include "base/endian.h"
#include "base/siphash.h"
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/mac.h"
#include "transport/datagram/sequence.h"

/* ---- The engine ----------------------------------------------------------------------------------------- */

static int native_init(struct engine *engine)
{
	(void)engine;
	return 0;
}

/* Nothing to do. */
static void native_idle(struct engine *engine)
{
	(void)engine;
}

static uint64_t native_deadline(const struct engine *engine)
{
	(void)engine;
	return UINT64_MAX;
}

/* ---- Connections ---------------------------------------------------------------------------------------- */

static void native_begin(struct connection *connection)
{
	struct engine *engine = connection->engine;

	engine->random(engine->random_arg, &connection->session, sizeof(connection->session));
}

static void native_opened(struct connection *connection)
{
	connection->handshake.connected = true;
	connection->peer->owner->up->connected(connection->peer, 0);
}

/* With PACKET_ANSWER: a host may answer that nobody is there. */
static void native_ask(struct connection *connection)
{
	connection->in.ack_now = connection->in.tell = connection->in.ask = true;
	connection_dirty(connection);
}

/* ---- CONNECT and ACCEPT --------------------------------------------------------------------------------- */

/* Over all that the packet says: who hears it can use it for nothing else. */
static uint64_t native_proof(const struct engine *engine, const struct packet *packet)
{
	struct packet plain = *packet;
	uint8_t text[PACKET_HEAD_MAX];
	size_t length;

	if (engine->key == 0)
		return 0;
	plain.connect.proof = 0; /* nor is a checksum encoded */
	length = engine->codec->encode(&plain, text);
	return siphash((const uint64_t[2]){engine->key, 0}, text, length);
}

static bool native_knows(const struct engine *engine, const struct packet *packet)
{
	return packet->connect.proof == native_proof(engine, packet);
}

/* Say who we are, to a peer or to whom asked. */
static void native_describe(struct engine *engine, struct packet *packet, const struct link *link)
{
	const struct address_parts *parts = &engine->owner->parts;
	struct packet_connect *connect = &packet->connect;

	connect->host = parts->host;
	connect->endpoint = parts->endpoint;
	memcpy(connect->network, parts->network, sizeof(connect->network));
	connect->bulk_port = link->bulk_port;
	connect->integrity = (uint8_t)engine->integrity;
	connect->checksum = engine->owner->options.checksum != 0;
	for (unsigned i = engine->link_count; i-- > 0;) /* of several of a kind, the first */
		engine->links[i]->calls->kind->tell(engine->links[i], connect);
}

static void native_connect(struct connection *connection, struct link *link, struct packet *packet, uint32_t size)
{
	struct engine *engine = connection->engine;

	native_describe(engine, packet, link);
	packet->connect.attempt = route_ask(connection, link->index);
	packet->connect.size = (uint16_t)size;
	packet->connect.proof = native_proof(engine, packet);
	burst_post(engine, (uint8_t)link->index, &connection->route[link->index].records, packet, size);
}

static void native_accept(struct engine *engine, struct link *link, const struct path *to, struct packet *packet,
			  const struct packet *asked)
{
	(void)asked;
	native_describe(engine, packet, link);
	packet->connect.proof = native_proof(engine, packet);
	burst_post(engine, (uint8_t)link->index, to, packet, 0);
}

static struct transport_peer *native_caller(struct engine *engine, const struct link *link, const struct path *from,
				  const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct address_parts parts = {.host = connect->host, .endpoint = connect->endpoint};
	struct thole_address address;
	struct transport_peer *peer;

	(void)link;
	(void)from;
	memcpy(parts.network, connect->network, sizeof(parts.network));
	address_format(&parts, &address);
	if (engine->owner->up->peer(engine->owner, &address, &peer) != 0)
		return NULL;
	return connection_may_be(peer) ? peer : NULL;
}

static struct connection *native_called(struct engine *engine, const struct link *link, const struct path *from,
					const struct packet *packet)
{
	struct connection *connection = connection_by_index(engine, packet->to, packet->session);

	(void)from;
	return connection && packet->connect.endpoint == connection->peer->parts.endpoint &&
			       route_asked(connection, link->index, packet->connect.attempt)
		       ? connection
		       : NULL;
}

/* Does a CONNECT come from where its sender says that it is? The proof covers what it says; a copy of it that somebody
 * else sends must not make him the one who gets the answers. */
static bool native_is_from(const struct connection *connection, const struct packet_connect *connect,
			   const struct link *link, const struct path *from)
{
	struct path path;

	return link->calls->kind->path(link, &connection->peer->parts, connect, &path) &&
	       memcmp(&path, from, sizeof(path)) == 0;
}

/* From here on both sides' frames have tags, as the one wants that wants more. Errors: UNSUPPORTED, MEMORY. */
static int native_guard(struct connection *connection, const struct packet_connect *connect)
{
	struct engine *engine = connection->engine;
	enum guard_mode mode = connect->integrity > engine->integrity ? connect->integrity : engine->integrity;
	struct guard_end own = {engine->owner->parts.host, engine->owner->parts.endpoint, connection->session};
	struct guard_end peer = {connection->peer->parts.host, connection->peer->parts.endpoint, connect->session};
	const struct mac *mac = mode == GUARD_FULL && engine->mac ? engine->mac() : NULL;

	if (engine->key == 0 || mode == GUARD_OFF || connection->peer_session)
		return 0;
	if (mode >= GUARD_MODES)
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "%s asks for tags of a kind that is not known here (%u): all hosts of a job need the "
				 "same Thole",
				 connection->peer->address.text, mode);
	if (mode == GUARD_FULL && !mac)
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "%s has the option integrity=full, which needs OpenSSL's libcrypto.so.3 here, too "
				 "(%s): install it (Debian: libssl3; Fedora: openssl-libs), or set the option to head "
				 "there",
				 connection->peer->address.text, mac_trouble());
	connection->guard = pool_get(&engine->guards);
	if (!connection->guard)
		return error_set(THOLE_ERR_MEMORY, "no memory for the tags of frames to %s",
				 connection->peer->address.text);
	guard_begin(connection->guard, mode, engine->key, &own, &peer, mac);
	return 0;
}

static int native_admit(struct connection *connection, const struct link *link, const struct path *from,
			const struct packet *packet)
{
	if (packet->type == PACKET_CONNECT && !native_is_from(connection, &packet->connect, link, from))
		return THOLE_ERR_ACCESS;
	return native_guard(connection, &packet->connect);
}

/* Take over what the other side says of its links. */
static void native_learn_links(struct connection *connection, const struct packet_connect *connect)
{
	struct engine *engine = connection->engine;

	for (unsigned i = 0; i < engine->link_count; i++) {
		const struct link *other = engine->links[i];
		struct path path;

		if (other->calls->kind->path(other, &connection->peer->parts, connect, &path))
			route_reach(connection, i, &path);
	}
}

static bool native_learn(struct connection *connection, const struct link *link, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct engine *engine = connection->engine;

	(void)link;
	if (connection->peer_session && connection->peer_session != connect->session)
		return false;
	if (packet->type == PACKET_ACCEPT && !connection->handshake.answered)
		connection->in.ack_now = true; /* now it knows that we are where we say */
	if (connection->peer_session)
		return true;
	engine->checksums |= connect->checksum != 0; /* for good: frames that are kept say that they have one */
	connection->peer_session = connect->session;
	connection->peer_index = connect->index;
	if (connection->out.next == SEQUENCE_FIRST)
		connection->out.next = connect->next;
	native_learn_links(connection, connect);
	return true;
}

static void native_refused(struct connection *connection, const struct packet_connect *connect)
{
	const char *peer = connection->peer->address.text;

	if (connection->handshake.answered)
		return; /* somebody else is saying so */
	if (connect->status == CONNECT_NO_GUARD) { /* whatever its own CONNECT has said */
		connection_failed(connection,
				  error_set(THOLE_ERR_UNSUPPORTED,
					    "%s has no OpenSSL's libcrypto.so.3, which the option integrity=full here "
					    "needs there, too: install it there (Debian: libssl3; Fedora: "
					    "openssl-libs), or set the option to head",
					    peer));
	} else if (connection->peer_session) {
		return; /* it has connected to us */
	} else if (connect->status != CONNECT_BAD_KEY && connection->handshake.attempt < CONNECT_BELIEVED) {
		return;
	} else if (connect->status == CONNECT_ELSEWHERE) {
		connection_failed(connection,
				  error_set(THOLE_ERR_ADDRESS,
					    "%s gets what is sent from here from another address than ours, %s: "
					    "addresses must not be translated between hosts (NAT, as of a bridged "
					    "container), and the option interface has to name the one that leads there",
					    peer, connection->peer->owner->address.text));
	} else if (connect->status == CONNECT_NO_ROOM) {
		connection_failed(connection,
				  error_set(THOLE_ERR_MEMORY, "%s has no memory for another connection", peer));
	} else {
		connection_lost(connection, THOLE_ERR_ACCESS);
	}
}

static int native_rekey(struct engine *engine, struct transport_peer *peer, uint64_t key)
{
	(void)engine;
	(void)peer;
	(void)key;
	return 0;
}

/* ---- Refusals ------------------------------------------------------------------------------------------- */

/* Who knows the job key and is at this path has got a frame with this session, and has no such connection. */
static uint64_t native_nack_proof(const struct engine *engine, const struct packet_nack *nack, const struct path *from)
{
	uint8_t text[24 + sizeof(from->bytes)];

	if (engine->key == 0)
		return 0;
	store_be64(text, (uint64_t)PACKET_NACK << 56 | nack->reason);
	store_be64(text + 8, nack->transfer);
	store_be64(text + 16, nack->refused);
	memcpy(text + 24, from->bytes, sizeof(from->bytes));
	return siphash((const uint64_t[2]){engine->key, 0}, text, sizeof(text));
}

static void native_nack(struct engine *engine, const struct link *link, const struct path *to, struct packet *packet)
{
	engine_count(engine, COUNTER_NACKS_SENT);
	burst_post(engine, (uint8_t)link->index, to, packet, 0);
}

/* Anybody can send a CONNECT with a session that he has seen: of one that proves nothing we say nothing that does. */
static void native_refuse(struct engine *engine, const struct link *link, const struct path *to,
			  const struct packet *refused, enum nack_reason reason)
{
	struct packet packet = {.type = PACKET_NACK, .to = PACKET_TO_NONE};

	packet.nack.reason = (uint8_t)reason;
	packet.nack.refused = refused->type == PACKET_CONNECT ? refused->connect.session : refused->session;
	if (refused->type != PACKET_CONNECT || native_knows(engine, refused))
		packet.nack.proof = native_nack_proof(engine, &packet.nack, &link->own);
	native_nack(engine, link, to, &packet);
}

static void native_refuse_window(struct connection *connection, const struct packet *pull)
{
	uint8_t number = connection->routes.use[LINK_RECORDS];
	struct link *link = connection->engine->links[number];
	struct packet packet;

	connection_packet(connection, &packet, PACKET_NACK);
	packet.nack.reason = NACK_BAD_WINDOW;
	packet.nack.refused = connection->peer_session;
	packet.nack.transfer = pull->pull.transfer;
	packet.nack.proof = native_nack_proof(connection->engine, &packet.nack, &link->own);
	native_nack(connection->engine, link, &connection->route[number].records, &packet);
}

/* Whether a NACK refuses something that this connection has sent. The peer's session is in all frames to it but
 * CONNECTs, ours in these and in what the peer sends: who has none of our session has not lost ours. */
static bool native_nack_names(const struct connection *connection, const struct packet_nack *nack)
{
	bool ours = nack->refused == connection->session;
	bool peers = connection->peer_session && nack->refused == connection->peer_session;

	switch (nack->reason) {
	case NACK_BAD_ENDPOINT: /* who has answered is the one that is meant */
		return ours && !(connection->state == CONNECTION_OPEN && connection->handshake.answered);
	case NACK_BAD_SESSION:
		return peers;
	case NACK_CLOSED:
		return ours || peers;
	default: /* of a PULL */
		return ours;
	}
}

/* Whether a NACK is about this connection, and believed: who is asked for a connection may not know the key, and
 * refuses all the same. */
static bool native_nack_counts(const struct connection *connection, const struct packet_nack *nack, bool proven)
{
	if (connection->state == CONNECTION_DEAD || !native_nack_names(connection, nack))
		return false;
	if (proven || (!connection->peer_session && nack->reason != NACK_BAD_WINDOW))
		return true;
	engine_count(connection->engine, COUNTER_DROPPED_STRANGER);
	return false;
}

static void native_nack_arrived(struct engine *engine, struct link *link, const struct path *from,
				const struct packet *packet)
{
	struct connection *connection = connection_by_path(engine, link, from), *next;
	bool proven = packet->nack.proof == native_nack_proof(engine, &packet->nack, from);

	engine_count(engine, COUNTER_NACKS_RECEIVED);
	for (; connection; connection = next) {
		next = connection_next_by_path(connection, link, from);
		if (!native_nack_counts(connection, &packet->nack, proven))
			continue;
		if (packet->nack.reason == NACK_BAD_WINDOW)
			pull_nacked(connection, packet->nack.transfer);
		else
			connection_lost(connection, THOLE_ERR_PEER);
	}
}

/* Whether a session is one of a connection here, under whatever index. */
static bool native_lives(struct engine *engine, uint64_t session)
{
	for (uint32_t i = 0; i < engine->connections.capacity; i++) {
		const struct connection *connection = pool_at(&engine->connections, i);

		if (pool_is_live(&engine->connections, connection) && connection->session == session &&
		    connection->state != CONNECTION_DEAD)
			return true;
	}
	return false;
}

/* A frame for a connection that is not there, or not any more: say so, now and then, and never with more bytes than
 * it had. What is said proves that a session has ended, so it is not said of one that lives, whatever else the frame
 * names: anybody can send it. */
static void native_stranger(struct engine *engine, const struct link *link, const struct path *from,
			    const struct packet *packet, size_t length)
{
	const struct connection *connection = connection_by_index(engine, packet->to, packet->session);

	engine_count(engine, COUNTER_DROPPED_SESSION);
	if (engine->now_ns - engine->nack_ns < NACK_NS + (uint64_t)engine->connections.live * NACK_LOOK_NS)
		return;
	if (packet->type != PACKET_RECORD && packet->type != PACKET_PULL &&
	    !(packet->type == PACKET_ACK && (packet->flags & PACKET_ANSWER)))
		return;
	if (length < engine->codec->nack)
		return;
	engine->nack_ns = engine->now_ns;
	if (!native_lives(engine, packet->session))
		native_refuse(engine, link, from, packet, connection ? NACK_CLOSED : NACK_BAD_SESSION);
}

/* ---- Any frame ------------------------------------------------------------------------------------------ */

/* Whether a frame is the peer's, and new; then it is remembered. */
static bool native_admits(struct connection *connection, const struct packet *packet, const uint8_t *frame,
			  size_t length)
{
	struct engine *engine = connection->engine;
	struct iovec all = {(void *)(uintptr_t)frame, engine->codec->unpadded(frame, length)};
	struct guard_frame judged = guard_frame(packet, &all, 1);
	enum guard_verdict verdict = connection_judge(connection, &judged, 1);

	if (verdict != GUARD_FINE) {
		engine_count(engine, verdict == GUARD_FORGED ? COUNTER_DROPPED_FORGED : COUNTER_DROPPED_REPLAYED);
		return false;
	}
	if (connection->guard)
		guard_seen(connection->guard, &judged, 1);
	return true;
}

/* Whether a frame comes from where its connection's peer sends such frames from. */
static bool native_known(const struct connection *connection, const struct link *link, const struct path *from,
			 const struct packet *packet)
{
	const struct route *route = &connection->route[link->index];
	const struct path *path = packet->type == PACKET_DATA ? &route->bulk : &route->records;

	return memcmp(path, from, sizeof(*path)) == 0;
}

static void native_connect_arrived(struct engine *engine, struct link *link, const struct path *from,
				   const struct packet *packet, size_t length)
{
	/* the proof covers no zeros behind it, and who has seen it may send it again with more */
	if (length > packet->connect.size)
		length = packet->connect.size;
	if (packet->connect.target == engine->owner->parts.endpoint)
		handshake_connect_arrived(engine, link, from, packet, length);
	else
		native_refuse(engine, link, from, packet, NACK_BAD_ENDPOINT);
}

static bool native_frame(struct engine *engine, struct link *link, const struct path *from, struct packet *packet,
			 const uint8_t *frame, size_t length)
{
	struct connection *connection;
	bool known;

	switch (packet->type) {
	case PACKET_CONNECT:
		native_connect_arrived(engine, link, from, packet, length);
		return false;
	case PACKET_ACCEPT:
		handshake_accept_arrived(engine, link, from, packet);
		return false;
	case PACKET_NACK:
		if (packet->flags & (PACKET_TAGGED | PACKET_SEALED))
			break;
		native_nack_arrived(engine, link, from, packet);
		return false;
	default:
		break;
	}
	connection = connection_by_index(engine, packet->to, packet->session);
	if (!connection || connection->state == CONNECTION_DEAD || !connection->peer_session) {
		native_stranger(engine, link, from, packet, length);
		return false;
	}
	if (!native_admits(connection, packet, frame, length) || !handshake_proven(connection))
		return false;
	connection->routes.heard = (uint8_t)link->index;
	known = native_known(connection, link, from, packet);
	engine_packet(connection, packet, frame, length);
	return known;
}

/* RECORD frames that came together, and what is to be judged of each run. */
struct native_runs {
	unsigned count;
	struct arrival_run runs[ENGINE_TOGETHER];
	struct guard_frame judged[ENGINE_TOGETHER];
	struct iovec parts[ENGINE_TOGETHER];
};

/* Whether a frame is a RECORD of the connection that the first one is of, and behind the one before. */
static bool native_follows(const struct native_runs *all, const struct packet *packet)
{
	const struct packet *first = &all->runs[0].packet;
	const struct guard_frame *before = &all->judged[all->count - (all->count > 0)];

	return packet->type == PACKET_RECORD &&
	       (all->count == 0 || (packet->to == first->to && packet->session == first->session &&
				    (!(packet->flags & (PACKET_TAGGED | PACKET_SEALED)) ||
				     packet->counter > before->counter + before->behind)));
}

/* Take the next frame, the first of those that are left, with the pieces that follow it in a run. Returns their bytes;
 * 0: these are not such as may be judged together. */
static size_t native_take(const struct codec *codec, struct native_runs *all, const uint8_t *frame, size_t left,
			  size_t segment)
{
	struct arrival_run *run = &all->runs[all->count];
	size_t length = left < segment ? left : segment, bytes = length;

	if (codec->decode(&run->packet, frame, length) != 0 || !native_follows(all, &run->packet))
		return 0;
	all->parts[all->count] = (struct iovec){(void *)(uintptr_t)frame, codec->unpadded(frame, length)};
	all->judged[all->count] = guard_frame(&run->packet, &all->parts[all->count], 1);
	run->frame = frame;
	run->length = length;
	run->behind = 0;
	run->last = run->packet.length;
	if (codec->run && run->packet.message.record.kind == RECORD_PIECE && run->packet.length > RECORD_INLINE_MAX)
		run->behind = codec->run(frame, length, left, RECORD_INLINE_MAX);
	if (run->behind > 0) {
		size_t last = left - run->behind * length;

		last = last < length ? last : length;
		bytes = run->behind * length + last;
		run->last -= (uint32_t)(length - last);
		all->judged[all->count].behind = (uint16_t)run->behind;
		all->judged[all->count].last = (uint32_t)last;
	}
	all->count++;
	return bytes;
}

/* What costs something in each frame is done once for all of them: tags above all. */
static bool native_records(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frames,
			   size_t length, size_t segment, bool *known_p)
{
	struct connection *connection;
	struct native_runs all;
	const struct packet *first = &all.runs[0].packet;
	size_t taken;

	all.count = 0;
	for (size_t at = 0; at < length; at += taken) {
		taken = native_take(engine->codec, &all, frames + at, length - at, segment);
		if (taken == 0)
			return false;
	}
	connection = connection_by_index(engine, first->to, first->session);
	if (!connection || connection->state != CONNECTION_OPEN ||
	    connection_judge(connection, all.judged, all.count) != GUARD_FINE)
		return false;
	if (connection->guard)
		guard_seen(connection->guard, all.judged, all.count);
	engine->owner->counters[COUNTER_FRAMES_RECEIVED] += (length + segment - 1) / segment;
	connection->routes.heard = (uint8_t)link->index;
	*known_p |= native_known(connection, link, from, first);
	engine_records(connection, all.runs, all.count);
	return true;
}

/* ---- Windows are named by their requests ---------------------------------------------------------------- */

static bool native_window(struct connection *connection, uint64_t *id_p)
{
	(void)connection;
	(void)id_p;
	return true;
}

static void native_window_back(struct connection *connection, uint64_t id)
{
	(void)connection;
	(void)id;
}

static void native_finish(const struct connection *connection, struct record *record, uint64_t bytes)
{
	(void)connection;
	(void)record;
	(void)bytes;
}

static uint64_t native_request(const struct connection *connection, uint64_t id)
{
	(void)connection;
	return id;
}

static uint64_t native_transfer(const struct engine *engine, uint64_t id)
{
	(void)engine;
	return id;
}

static void native_pull(struct connection *connection, struct packet *packet)
{
	arrival_report(connection, packet);
}

const struct naming naming_native = {
	.init = native_init,
	.fini = native_idle,
	.start = native_idle,
	.deadline = native_deadline,
	.expire = native_idle,
	.frame = native_frame,
	.foreign = handshake_foreign,
	.records = native_records,
	.begin = native_begin,
	.opened = native_opened,
	.ask = native_ask,
	.connect = native_connect,
	.accept = native_accept,
	.knows = native_knows,
	.caller = native_caller,
	.called = native_called,
	.admit = native_admit,
	.learn = native_learn,
	.refused = native_refused,
	.rekey = native_rekey,
	.refuse = native_refuse,
	.refuse_window = native_refuse_window,
	.window = native_window,
	.request = native_request,
	.window_back = native_window_back,
	.finish = native_finish,
	.transfer = native_transfer,
	.pull = native_pull,
};
