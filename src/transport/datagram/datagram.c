/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/datagram.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/mac.h"

enum {
	/* fruitless polls of a link that costs a system call, after which it is polled seldom, */
	RECENT_POLLS = 64,
	IDLE_POLLS = 16,        /* once in so many, where memory is polled in between, */
	ALONE_POLLS = 4,        /* or nothing is: a poll in vain that does not look is short */
	QUIET_POLLS = 4096,     /* after which a network beside rings rests: some 100 us */
	QUIET_QUEUE_POLLS = 16, /* and one beside adapters, */
	QUIET_NEVER = INT32_MAX, /* and one by itself: no more are counted */
	CLOCK_POLLS = 16,       /* fruitless polls between two readings of the clock */
	BUSY_SLEEP_NS = 100000, /* longest sleep while a link has no room, which wakes nobody when it has */
	WATCH_TURNS = 4,        /* checks in one peer_timeout of the peers that receives wait for */
	NETWORK_POLLS = 16,     /* polls of rings that take as long as one of the network */
};

static void datagram_time(struct datagram *datagram)
{
	datagram->engine.now_ns = datagram->owner->simulated ? datagram->owner->now_ns : clock_now_ns();
}

/* From the kernel. It is never out of it: small requests are always served. */
static void datagram_random(void *arg, void *bytes, size_t length)
{
	(void)arg;
	while (getrandom(bytes, length, 0) != (ssize_t)length)
		;
}

/* ---- Opening -------------------------------------------------------------------------------------- */

/* Something has come or gone: more may come. */
static void datagram_stir(struct datagram *datagram)
{
	datagram->quiet = 0;
	transport_set_polled(datagram->owner, TRANSPORT_DATAGRAM, true);
}

/* Anything at a link: it is polled in the next progress call, and as there may be more, in those after it. */
static void datagram_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	(void)now_ns;
	(void)owner;
	container_of(watcher, struct datagram, watcher)->fruitless = 0;
	datagram_stir(container_of(watcher, struct datagram, watcher));
}

/* Without connections nobody polls the links, so they have to make their descriptors readable; unless there is
 * something already. */
static void datagram_rest(struct datagram *datagram)
{
	struct engine *engine = &datagram->engine;
	/* some have to say now and then that they are here */
	bool something = engine->naming->deadline(engine) != UINT64_MAX;

	for (unsigned i = 0; i < engine->link_count && !something; i++)
		something |= engine->links[i]->calls->ready(engine->links[i]);
	transport_set_polled(datagram->owner, TRANSPORT_DATAGRAM, something);
}

static struct datagram *datagram_new(struct transport_owner *owner, const struct codec *codec)
{
	struct datagram *datagram = calloc(1, sizeof(*datagram));

	if (!datagram)
		return NULL;
	if (engine_init(&datagram->engine, owner, codec) != 0) {
		free(datagram);
		return NULL;
	}
	datagram->owner = owner;
	datagram->watcher.ready = datagram_ready;
	datagram->number_fd = -1;
	datagram->engine.random = datagram_random;
	datagram->engine.mac = mac_libcrypto;
	owner->state[TRANSPORT_DATAGRAM] = datagram;
	datagram_time(datagram);
	return datagram;
}

static void datagram_close(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);

	engine_fini(&datagram->engine);
	datagram_links_close(datagram);
	free(datagram);
	owner->state[TRANSPORT_DATAGRAM] = NULL;
	transport_set_polled(owner, TRANSPORT_DATAGRAM, false);
}

/* Whether frames may be as short as they are to be. mxoe has lengths of its own (mxoe_fits). */
static int datagram_mtu(const struct options *options)
{
	if (options->codec != OPTION_CODEC_NATIVE || options->mtu == 0 || options->mtu >= ENGINE_FRAME_MIN)
		return 0;
	return error_set(THOLE_ERR_ARGUMENT,
			 "frames have up to %u bytes on any path, and the option mtu says %u: set it to that or more, "
			 "or to 0",
			 (unsigned)ENGINE_FRAME_MIN, (unsigned)options->mtu);
}

/* Whether the integrity that is asked for can be had. */
static int datagram_integrity(const struct options *options)
{
	bool full = options->integrity == OPTION_INTEGRITY_FULL;
	const char *asked = full ? "full" : "head";

	if (options->integrity == OPTION_INTEGRITY_AUTO || options->integrity == OPTION_INTEGRITY_OFF)
		return 0;
	if (options->codec != OPTION_CODEC_NATIVE)
		return error_set(THOLE_ERR_ARGUMENT,
				 "frames of the codec mxoe have no place for a tag, so the option integrity cannot "
				 "be %s: set it to off, or the codec to native",
				 asked);
	if (options->job_key == 0)
		return error_set(THOLE_ERR_ARGUMENT,
				 "the option integrity=%s needs a key that all of the job know: start it by "
				 "thole run, which makes one, or set the option job_key",
				 asked);
	if (full && !mac_libcrypto())
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "the option integrity=full needs OpenSSL's libcrypto.so.3 (%s): install it "
				 "(Debian: libssl3; Fedora: openssl-libs), or set it to head",
				 mac_trouble());
	return 0;
}

static int datagram_wanted(const struct options *options, enum transport_need *need_p)
{
	bool native = options->codec == OPTION_CODEC_NATIVE;

	if (!native && options->network == OPTION_NETWORK_OFF)
		return error_set(THOLE_ERR_ARGUMENT,
				 "the option codec says what frames on the network look like, and the option "
				 "network is off: set codec to native, or network to auto");
	*need_p = options->network == OPTION_NETWORK_OFF ? TRANSPORT_UNWANTED
		  : options->network == OPTION_NETWORK_ON || !native ? TRANSPORT_REQUIRED
								     : TRANSPORT_WELCOME;
	return 0;
}

/* mxoe shows its key to everybody, and its peers expect none unless told: the user's own is not for that. */
static int datagram_read_key(struct options *options)
{
	return options->codec == OPTION_CODEC_NATIVE ? options_key(options) : 0;
}

static int datagram_open(struct transport_owner *owner)
{
	static const struct codec *const codecs[] = {
		[OPTION_CODEC_NATIVE] = &codec_native,
		[OPTION_CODEC_MXOE] = &codec_mxoe,
		[OPTION_CODEC_MXOE_JUMBO] = &codec_mxoe_jumbo,
	};
	struct datagram *datagram;
	int error = datagram_read_key(&owner->options);

	if (!error)
		error = datagram_integrity(&owner->options);
	if (!error)
		error = datagram_mtu(&owner->options);
	if (error)
		return error;
	datagram = datagram_new(owner, codecs[owner->options.codec]);
	if (!datagram)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint's network");
	error = datagram_links_open(datagram);
	if (error) {
		datagram_close(owner);
		memset(owner->parts.network, 0, sizeof(owner->parts.network));
		return error;
	}
	datagram_rest(datagram);
	return 0;
}

int datagram_attach(struct transport_owner *owner, const struct codec *codec, struct link *const *links, unsigned count,
		    void (*random)(void *arg, void *bytes, size_t length), void *random_arg)
{
	struct datagram *datagram = datagram_new(owner, codec);

	if (!datagram)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint's network");
	datagram->engine.random = random;
	datagram->engine.random_arg = random_arg;
	for (unsigned i = 0; i < count; i++) {
		links[i]->engine = &datagram->engine;
		links[i]->counters = owner->counters;
		engine_add_link(&datagram->engine, links[i]);
	}
	transport_set_polled(owner, TRANSPORT_DATAGRAM, true);
	return 0;
}

/* ---- Records and bulk: the engine's ----------------------------------------------------------------- */

/* Whether an address has a network part that this endpoint's links can reach. */
static bool datagram_reaches(const struct transport_owner *owner, const struct address_parts *parts)
{
	return parts->network[0] != ADDRESS_NONE && parts->network[0] == owner->parts.network[0];
}

static struct engine *engine_of(const struct transport_peer *peer)
{
	return &datagram_of(peer->owner)->engine;
}

static int datagram_connect(struct transport_peer *peer)
{
	struct datagram *datagram = datagram_of(peer->owner);
	int error;

	datagram_links_later(datagram);
	datagram_time(datagram);
	error = handshake_connect(&datagram->engine, peer);
	if (!error)
		transport_set_polled(peer->owner, TRANSPORT_DATAGRAM, true);
	return error;
}

static bool datagram_connected(struct transport_peer *peer)
{
	return handshake_connected(peer);
}

static bool datagram_watched(struct transport_peer *peer)
{
	const struct connection *connection = connection_of(peer);

	return connection && connection->state != CONNECTION_NEW;
}

static int datagram_key(struct transport_peer *peer, uint64_t key)
{
	datagram_time(datagram_of(peer->owner));
	return engine_of(peer)->naming->rekey(engine_of(peer), peer, key);
}

static int datagram_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
			 uint64_t offset, uint32_t length)
{
	return transmit_push(engine_of(peer), peer, record, payload, offset, length);
}

static uint32_t datagram_piece_max(struct transport_peer *peer, uint64_t left)
{
	return engine_piece_max(engine_of(peer), peer, left);
}

static uint32_t datagram_record_max(struct transport_peer *peer)
{
	return engine_record_max(peer);
}

static uint64_t datagram_eager_max(struct transport_peer *peer)
{
	return engine_eager_max(engine_of(peer), peer);
}

static void datagram_limits(struct transport_peer *peer, struct transport_limits *limits_p)
{
	const struct codec *codec = engine_of(peer)->codec;

	limits_p->messages_only = codec->messages_only;
	if (codec->length_max < limits_p->length_max)
		limits_p->length_max = codec->length_max;
}

static void datagram_disconnect(struct transport_peer *peer)
{
	connection_disconnect(engine_of(peer), peer);
}

static void datagram_backpressure(struct transport_owner *owner)
{
	engine_backpressure(&datagram_of(owner)->engine);
}

static void datagram_fetch(struct transport_fetch *fetch)
{
	pull_fetch(engine_of(fetch->peer), fetch);
}

/* Whichever way the word of that has come: a mover has it no longer. */
static void datagram_window_end(struct transport_peer *peer, uint64_t id)
{
	struct connection *connection = connection_of(peer);

	if (connection && connection->handover)
		handover_withdraw(connection, id);
}

/* What peers that are named by numbers know this endpoint by. */
static void datagram_info_own(const struct transport_owner *owner, struct thole_peer_info *info_p)
{
	info_p->session = datagram_of(owner)->engine.session;
}

static void datagram_info(struct transport_peer *peer, struct thole_peer_info *info_p)
{
	const struct connection *connection = connection_of(peer);
	struct engine *engine = engine_of(peer);

	if (!connection || connection->state == CONNECTION_NEW)
		return;
	info_p->frames_sent = connection->out.frames_sent;
	info_p->retransmitted = connection->out.frames_resent;
	info_p->rtt_ns = connection->out.trip.smoothed_ns;
	info_p->session = engine->session ? (uint32_t)connection->peer_session : 0;
	if (connection->state == CONNECTION_CONNECTING) {
		info_p->state = "connecting";
		return;
	}
	info_p->state = "connected";
	info_p->records = engine->links[connection->routes.use[LINK_RECORDS]]->calls->name;
	info_p->bulk = engine->links[connection->routes.use[LINK_BULK]]->calls->name;
	info_p->frame_max = connection->routes.frame;
}

/* ---- Running ---------------------------------------------------------------------------------------- */

/* To poll a link that is not cheap costs a system call. It is polled each time while something comes there or is to
 * come, and else more often where there is nothing else to poll: no peers in shared memory, no link in memory. */
static bool datagram_is_due(const struct datagram *datagram)
{
	const struct engine *engine = &datagram->engine;
	bool alone = datagram->owner->locals == 0 && engine->link_count == 1;
	uint32_t seldom = alone ? ALONE_POLLS : IDLE_POLLS; /* powers of two */

	return datagram->owner->resting || datagram->owner->word_awaited || engine->blocks.outstanding > 0 ||
	       datagram->fruitless < RECENT_POLLS || (datagram->polls & (seldom - 1)) == 0;
}

static bool datagram_looks(const struct datagram *datagram, const struct link *link, bool due)
{
	if (!link->calls->cheap)
		return due;
	return !link->calls->waiting || link->calls->waiting(link) || datagram->polls % IDLE_POLLS == 0;
}

static unsigned datagram_receive(struct datagram *datagram, struct link *link)
{
	unsigned n;

	datagram_time(datagram);
	trip_look(&link->away, datagram->engine.now_ns);
	datagram->engine.away = &link->away;
	n = link->calls->receive(link, ENGINE_RECEIVE_BUDGET);
	datagram->engine.away = NULL;
	trip_looked(&link->away, n);
	if (!link->calls->cheap)
		datagram->fruitless = n ? 0 : datagram->fruitless + 1;
	return n;
}

static uint64_t datagram_watch_turn(const struct datagram *datagram)
{
	return datagram->owner->options.peer_timeout / WATCH_TURNS + 1;
}

/* When to check the peers that only receives wait for; UINT64_MAX: there are none. */
static uint64_t datagram_watch_ns(const struct datagram *datagram)
{
	const struct transport_owner *owner = datagram->owner;

	return datagram->engine.open > 0 && owner->up->receiving(owner) ? datagram->watch_ns : UINT64_MAX;
}

/* How often a network that brought nothing is polled before it rests. Beside rings it is polled seldom then: what comes
 * by them would wait for each vain look. So is one whose peers all go by adapters, sooner: by it come words now and
 * then. */
static uint32_t datagram_rests_after(const struct transport_owner *owner, const struct engine *engine)
{
	if (owner->queues > 0 && owner->queues >= engine->open)
		return QUIET_QUEUE_POLLS;
	return owner->locals > 0 ? QUIET_POLLS : QUIET_NEVER;
}

static void datagram_quieten(struct datagram *datagram)
{
	const struct engine *engine = &datagram->engine;
	const struct transport_owner *owner = datagram->owner;

	datagram->quiet += datagram->quiet < QUIET_NEVER - 1;
	if (datagram->quiet >= datagram_rests_after(owner, engine) && !owner->simulated &&
	    !owner->word_awaited && engine->blocks.outstanding == 0 && !engine_busy(engine))
		transport_rest(datagram->owner, TRANSPORT_DATAGRAM);
}

static int datagram_progress(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;
	bool due = datagram_is_due(datagram), looked = false;
	unsigned n = 0;

	datagram_links_later(datagram);
	engine_hurry(engine);
	for (unsigned i = 0; i < engine->link_count; i++) {
		if (datagram_looks(datagram, engine->links[i], due)) {
			n += datagram_receive(datagram, engine->links[i]);
			looked = true;
		}
	}
	n += handover_poll(engine);
	if (datagram->polls++ % CLOCK_POLLS == 0 && !looked) {
		datagram_time(datagram);
		looked = true;
	}
	if (n > 0)
		datagram_stir(datagram);
	else
		datagram_quieten(datagram);
	if (!looked && n == 0) /* no time has passed */
		return 0;
	if (datagram->watch_ns <= engine->now_ns) {
		silence_receives(engine);
		datagram->watch_ns = engine->now_ns + datagram_watch_turn(datagram);
	}
	if (engine_deadline(engine) <= engine->now_ns)
		n += engine_expire(engine);
	return (int)n;
}

static int datagram_transmit(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;
	unsigned sent = 0;

	if (engine_busy(engine) || !list_empty(&engine->blocks.fetching)) {
		datagram_stir(datagram);
		datagram_time(datagram);
		sent = engine_transmit(engine);
	}
	if (!owner->simulated && engine->open == 0 && transport_is_polled(owner, TRANSPORT_DATAGRAM))
		datagram_rest(datagram);
	return (int)sent;
}

static bool datagram_drained(const struct transport_owner *owner)
{
	return engine_drained(&datagram_of(owner)->engine);
}

static bool datagram_moves_alone(const struct transport_owner *owner)
{
	return handover_moves(&datagram_of(owner)->engine);
}

static void datagram_watch(struct transport_peer *peer)
{
	struct connection *connection = connection_of(peer);

	if (connection && connection->state == CONNECTION_OPEN && connection->silence.checked_ns == 0)
		connection_wake(connection, connection->engine->now_ns); /* silence_check sees what is pending */
}

static void datagram_notify_close(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);

	datagram_time(datagram);
	handshake_close(&datagram->engine);
}

/* What arrives makes a descriptor readable in any case; the engine's timers do not. */
static uint64_t datagram_arm(struct transport_owner *owner)
{
	struct datagram *datagram = datagram_of(owner);
	struct engine *engine = &datagram->engine;
	uint64_t deadline_ns = engine_deadline(engine), watch_ns = datagram_watch_ns(datagram), longest = UINT64_MAX;

	datagram_time(datagram);
	if (watch_ns < deadline_ns)
		deadline_ns = watch_ns;
	if (deadline_ns != UINT64_MAX)
		longest = deadline_ns > engine->now_ns ? deadline_ns - engine->now_ns : 0;
	if (longest > BUSY_SLEEP_NS && engine_busy(engine))
		longest = BUSY_SLEEP_NS;
	for (unsigned i = 0; i < engine->link_count; i++)
		if (engine->links[i]->calls->ready(engine->links[i]))
			return 0;
	return longest;
}

static uint64_t datagram_deadline(const struct transport_owner *owner)
{
	const struct engine *engine = &datagram_of(owner)->engine;
	uint64_t deadline_ns = engine_deadline(engine), retry_ns = owner->now_ns + BUSY_SLEEP_NS;
	uint64_t watch_ns = datagram_watch_ns(datagram_of(owner));

	if (watch_ns < deadline_ns)
		deadline_ns = watch_ns;
	return engine_busy(engine) && retry_ns < deadline_ns ? retry_ns : deadline_ns;
}

const struct transport datagram_transport = {
	.name = "network",
	.carried = COUNTER_NETWORK_MESSAGES,
	.option = "network",
	.weight = NETWORK_POLLS,
	.wanted = datagram_wanted,
	.open = datagram_open,
	.close = datagram_close,
	.drained = datagram_drained,
	.moves_alone = datagram_moves_alone,
	.watch = datagram_watch,
	.notify_close = datagram_notify_close,
	.info_own = datagram_info_own,
	.watched = datagram_watched,
	.reaches = datagram_reaches,
	.connect = datagram_connect,
	.push = datagram_push,
	.piece_max = datagram_piece_max,
	.record_max = datagram_record_max,
	.connected = datagram_connected,
	.key = datagram_key,
	.transmit = datagram_transmit,
	.eager_max = datagram_eager_max,
	.limits = datagram_limits,
	.info = datagram_info,
	.disconnect = datagram_disconnect,
	.backpressure = datagram_backpressure,
	.fetch = datagram_fetch,
	.window_end = datagram_window_end,
	.progress = datagram_progress,
	.deadline = datagram_deadline,
	.arm = datagram_arm,
};
