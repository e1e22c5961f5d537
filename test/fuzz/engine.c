/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: hostile frames into live endpoints.
 *
 * Owns one run: a simulated network (sim/) with three processes - the victim, an honest one and a hostile one - and a
 * program of steps taken from the input bytes. The hostile one knows the job key and is connected, so it knows its
 * session with the victim; it writes whatever frames it likes: any bytes, packets of any type with fields that are
 * nearly right, frames that it sent before and changed. Frames also come from strangers, and in the honest one's name,
 * without its session. Meanwhile the victim has operations with both under way.
 *
 * Whatever happens: no crash and no end without progress; what the victim and the honest one say to each other arrives
 * once, unaltered and in order (the simulator's checkers); no byte around the victim's buffers and regions changes;
 * nothing is allocated for strangers; memory for what nobody wants is bounded; and in the end nothing is left over.
 * With mxoe nothing tells a host from one that uses its MAC, so there the hostile one keeps to its own.
 */
#include "fuzz.h"

#include <string.h>

#include "../../sim/traffic.h"
#include "base/counters.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/mac.h"

enum {
	VICTIM, HONEST, HOSTILE, PROCESSES,
	GUARD = 64,
	GUARD_BYTE = 0x6b,
	BUFFER = 70000,
	PLACES = 8,                 /* of operations between the victim and the hostile one */
	STEPS_MAX = 200,
	EVENTS_MAX = 2000000,
	KEY_OPEN = 77,
	UNEXPECTED_MAX = 1 << 16,
	/* what may come until the bound is heard of: a window of frames, each a first piece */
	UNEXPECTED_MORE = 4 << 20,
};

/* Memory of the victim that the hostile one has to do with. */
struct place {
	uint8_t *bytes;             /* GUARD, BUFFER, GUARD */
	bool busy;
};

struct run {
	struct world world;
	struct network network;
	struct traffic traffic;
	struct process_setup setup;
	const uint8_t *at;
	size_t left;
	struct place places[PLACES];
	struct thole_region *region;
	struct process *processes[PROCESSES];
	struct thole_message *handed; /* that the victim is looking at; NULL: none */
	bool handed_honest;           /* it is of the honest one, who wants it received */
	uint8_t last[ENGINE_FRAME_MAX]; /* the frame that was written last */
	size_t last_length;
};

static struct run *current;

/* ---- Input ---------------------------------------------------------------------------------------------- */

static uint64_t take(struct run *run, unsigned bytes)
{
	uint64_t value = 0;

	for (; bytes > 0 && run->left > 0; bytes--, run->left--)
		value = value << 8 | *run->at++;
	return value;
}

/* A number that is nearly right, or not at all. */
static uint64_t near(struct run *run, uint64_t right)
{
	uint64_t how = take(run, 1);

	if (how < 128)
		return right;
	if (how < 200)
		return right + how % 16 - 8;
	return how < 230 ? take(run, 2) : how < 245 ? UINT64_MAX - take(run, 1) : take(run, 8);
}

/* ---- The victim's memory ---------------------------------------------------------------------------------- */

static uint8_t *place_memory(struct place *place)
{
	return place->bytes + GUARD;
}

static void place_check(const struct place *place)
{
	for (int i = 0; i < GUARD; i++)
		MUST(place->bytes[i] == GUARD_BYTE && place->bytes[GUARD + BUFFER + i] == GUARD_BYTE);
}

static void places_init(struct run *run)
{
	for (int i = 0; i < PLACES; i++) {
		run->places[i].bytes = malloc(BUFFER + 2 * GUARD);
		MUST(run->places[i].bytes);
		memset(run->places[i].bytes, GUARD_BYTE, BUFFER + 2 * GUARD);
	}
}

static bool place_is(const void *context)
{
	const struct place *place = context;

	return !context || (place >= current->places && place < current->places + PLACES);
}

/* Completions of the victim: those of its operations with the hostile one may be anything, once. */
static void victim_complete(struct process *process, const struct thole_completion *completion)
{
	struct place *place = completion->context;

	if (process->hostile || (place_is(place) && completion->operation >= THOLE_OP_REMOTE_PUT))
		return;
	if (!place_is(place)) {
		traffic_application.complete(process, completion);
		return;
	}
	MUST(place && place->busy);
	MUST(completion->operation != THOLE_OP_RECEIVE || completion->length <= BUFFER);
	place->busy = false;
}

static void victim_step(struct process *process)
{
	process->act_ns = UINT64_MAX;
	MUST(process->endpoint->base.counters[COUNTER_UNEXPECTED_BYTES] <= UNEXPECTED_MAX + UNEXPECTED_MORE);
}

static const struct application victim_application = {victim_step, victim_complete};

static uint32_t peer_handle(struct process *process, const struct process *other)
{
	uint32_t peer = 0;

	MUST(thole_peer(process->endpoint, &other->address, &peer) == 0);
	return peer;
}

/* The victim begins something with the hostile one. */
static void victim_begin(struct run *run)
{
	struct process *victim = run->processes[VICTIM];
	struct place *place = &run->places[take(run, 1) % PLACES];
	uint32_t peer = peer_handle(victim, run->processes[HOSTILE]);
	uint64_t how = take(run, 1), length = take(run, 1) % 2 ? take(run, 1) : take(run, 3) % (BUFFER + 1);
	struct iovec part = {place_memory(place), length};
	int error;

	if (place->busy)
		return;
	process_advance(victim);
	place->busy = true;
	if (how % 8 < 4)
		error = thole_recv(victim->endpoint, peer, part.iov_base, length, how / 8 % 4, 3,
				   how & 128 ? (unsigned)THOLE_PLAIN : 0, place, NULL);
	else if (how % 8 < 6)
		error = thole_send(victim->endpoint, peer, part.iov_base, length, how / 8 % 4, 9,
				   how & 64    ? (unsigned)THOLE_ARRIVED
				   : how & 128 ? (unsigned)THOLE_SYNC
					       : 0,
				   place, NULL);
	else if (how % 8 == 6)
		error = thole_get(victim->endpoint, peer, &part, 1, KEY_OPEN, 0, 0, place, NULL);
	else
		error = thole_put(victim->endpoint, peer, &part, 1, KEY_OPEN, 0, 0, 0, place, NULL);
	if (error)
		place->busy = false;
	process_wake(victim, run->world.now_ns);
}

/* What becomes of the message that the victim looks at: it may only throw away the hostile one's. */
static void victim_decide(struct run *run, bool drop)
{
	struct thole_endpoint *endpoint = run->processes[VICTIM]->endpoint;

	if (run->handed && drop && !run->handed_honest)
		thole_message_drop(endpoint, run->handed);
	else if (run->handed)
		thole_message_keep(endpoint, run->handed);
	run->handed = NULL;
}

/* All of the bytes that are shown are there. */
static void poll_at(const struct thole_completion *found, const uint8_t *data)
{
	static volatile uint8_t sum;

	for (uint64_t i = 0; data && i < found->message_length; i++)
		sum = (uint8_t)(sum + data[i]);
}

/* The victim looks at messages before they are unexpected, keeps one in hand for some steps, or looks no more. */
static void victim_screen(struct run *run)
{
	struct process *victim = run->processes[VICTIM];
	uint64_t how = take(run, 1);
	struct thole_completion found;
	const void *data;

	process_advance(victim);
	victim_decide(run, how & 1);
	thole_screen(victim->endpoint, how % 8 != 0);
	for (uint64_t left = how / 8 % 8; left > 0; left--) {
		victim_decide(run, how & 2);
		if (!thole_screen_next(victim->endpoint, &found, &data, &run->handed)) {
			run->handed = NULL;
			break;
		}
		run->handed_honest = found.peer == peer_handle(victim, run->processes[HONEST]);
		poll_at(&found, data);
	}
	process_wake(victim, run->world.now_ns);
}

/* The hostile one does something that is right, so that the victim has something of its to be spoilt. */
static void hostile_behave(struct run *run)
{
	static uint8_t bytes[BUFFER];
	struct process *hostile = run->processes[HOSTILE];
	uint32_t peer = peer_handle(hostile, run->processes[VICTIM]);
	uint64_t how = take(run, 1), length = take(run, 3) % (BUFFER + 1);
	struct iovec part = {bytes, length};

	process_advance(hostile);
	if (how % 4 < 2)
		(void)thole_send(hostile->endpoint, peer, bytes, length, how / 4 % 4, 0, 0, NULL, NULL);
	else if (how % 4 == 2)
		(void)thole_put(hostile->endpoint, peer, &part, 1, KEY_OPEN, 0, 0, 0, NULL, NULL);
	else
		(void)thole_get(hostile->endpoint, peer, &part, 1, KEY_OPEN, 0, 0, NULL, NULL);
	process_wake(hostile, run->world.now_ns);
}

/* ---- Frames --------------------------------------------------------------------------------------------- */

static struct connection *connection_to(struct run *run, int from, int to)
{
	struct peer *peer = endpoint_peer(run->processes[from]->endpoint,
					  peer_handle(run->processes[from], run->processes[to]));

	return peer->base.link;
}

static void write_frame(struct run *run, const uint8_t *frame, size_t length)
{
	struct path source = run->processes[HOSTILE]->wires[0].link.own;
	uint64_t who = take(run, 1);

	if (who > 245 && run->setup.codec->indexed)
		source = run->processes[HONEST]->wires[0].link.own;
	else if (who > 240)
		source.bytes[run->setup.codec->indexed ? 17 : 5] += 77;
	memmove(run->last, frame, length);
	run->last_length = length;
	network_inject(&run->network, run->processes[VICTIM], WIRE_UDP, who & 1, &source, run->last, length);
}

static void fill_record(struct run *run, struct packet *packet, const struct connection *connection)
{
	struct record *record = &packet->message.record;
	uint8_t kinds = (uint8_t)take(run, 1);

	packet->sequence = (uint32_t)near(run, connection->out.next + kinds / 16 % 3);
	record->kind = (uint8_t)(RECORD_EAGER + kinds % 8);
	record->flags = (uint8_t)take(run, 1);
	record->length = kinds & 128 ? RECORD_EXTERNAL : 0;
	record->tag =
		near(run, record->kind >= RECORD_PUT && record->kind != RECORD_REPLY ? KEY_OPEN : take(run, 1) % 4);
	record->imm = near(run, 0);
	for (int i = 0; i < RECORD_ARGS; i++)
		record->arg[i] =
			near(run, i == 0 ? take(run, 2) | (uint64_t)1 << WINDOW_COUNT_SHIFT : take(run, 1) % 4);
	if (record->kind == RECORD_FINISH || record->kind == RECORD_REPLY)
		record->tag = near(run, take(run, 1) % 8 | take(run, 1) % 4 << 32);
	packet->length = (uint32_t)(take(run, 1) % 4 ? take(run, 1) : take(run, 2) % 1400);
}

static void fill_connect(struct run *run, struct packet *packet, const struct connection *connection)
{
	const struct address_parts *from = &run->processes[take(run, 1) < 200 ? HOSTILE : HONEST]->endpoint->base.parts;
	struct packet_connect *connect = &packet->connect;

	connect->host = near(run, from->host);
	connect->endpoint = near(run, from->endpoint);
	memcpy(connect->network, from->network, sizeof(connect->network));
	connect->network[take(run, 1) % 20] ^= (uint8_t)(take(run, 1) & take(run, 1));
	connect->target = near(run, run->processes[VICTIM]->endpoint->base.parts.endpoint);
	connect->session = near(run, connection->session);
	connect->index = (uint32_t)near(run, connection->index);
	connect->next = (uint32_t)near(run, connection->in.next);
	connect->seen = (uint16_t)near(run, 1472);
	connect->size = (uint16_t)near(run, 1472);
	connect->bulk_port = (uint16_t)near(run, run->processes[HOSTILE]->wires[0].link.bulk_port);
	connect->ethertype = (uint16_t)near(run, 0);
	connect->attempt = (uint8_t)take(run, 1);
	connect->status = (uint8_t)near(run, 0);
	connect->proof = near(run, 0);
}

static void fill_pull(struct run *run, struct packet *packet)
{
	packet->pull.window = near(run, take(run, 1) % 8 | take(run, 1) % 4 << 32);
	packet->pull.transfer = near(run, take(run, 1) % 8);
	packet->pull.offset = near(run, take(run, 1) * 1440);
	packet->pull.length = (uint32_t)near(run, take(run, 2));
	packet->pull.frame = (uint32_t)near(run, 1440);
	packet->pull.wanted = near(run, 0);
}

/* What only mxoe has. */
static void fill_numbers(struct run *run, struct packet *packet, const struct connection *connection)
{
	static const uint8_t types[] = {PACKET_QUERY, PACKET_REPLY, PACKET_HELLO};
	uint64_t how = take(run, 1);

	packet->from = (uint32_t)near(run, HOSTILE);
	packet->to = (uint32_t)near(run, VICTIM);
	packet->peer_index = (uint16_t)near(run, connection->names.host_index);
	packet->generation = (uint8_t)take(run, 1);
	packet->sequence |= connection->out.epoch;
	if (packet->type == PACKET_RECORD) {
		packet->message.medium = how & 1;
		packet->message.fragment = (uint8_t)near(run, how / 2 % 4);
		packet->message.fragment_log = (uint8_t)near(run, 12);
		packet->message.total = near(run, how & 64 ? packet->length : take(run, 2));
	} else if (packet->type == PACKET_PULL) {
		packet->pull.window = near(run, take(run, 1) % 4 | take(run, 1) % 4 << 8);
		packet->pull.transfer = near(run, take(run, 1) << 32 | (UINT32_C(0x21071980) ^ HOSTILE));
		packet->pull.total = near(run, packet->pull.offset + packet->pull.length);
		packet->pull.frame_index = (uint32_t)near(run, how % 8);
		packet->pull.frame_offset = (uint32_t)near(run, 0);
	} else if (packet->type == PACKET_DATA) {
		packet->data.transfer = near(run, (take(run, 1) % 4 | (1 + take(run, 1) % 4) << 20) << 32 |
							  (UINT32_C(0x21071980) ^ VICTIM));
		packet->data.frame = (uint8_t)near(run, how % 8);
	} else if (packet->type == PACKET_CONNECT || packet->type == PACKET_ACCEPT) {
		packet->connect.echo = near(run, connection->peer_session);
	} else if (packet->type == PACKET_ACK) {
		packet->acked.number = (uint32_t)near(run, how);
		packet->acked.send = (uint32_t)near(run, packet->ack);
		packet->acked.session = near(run, connection->peer_session);
	} else if (packet->type == PACKET_NACK && how < 200) {
		packet->nack.driver = how & 1;
		packet->nack.transfer = near(run, (take(run, 1) % 4 | (1 + take(run, 1) % 4) << 20) << 32 |
							  (UINT32_C(0x21071980) ^ VICTIM));
	} else if (how > 200) {
		packet->type = types[how % 3];
		memset(&packet->host, 0, sizeof(packet->host));
		packet->host.index = (uint32_t)near(run, 1);
		packet->host.magic = (uint32_t)take(run, 4);
		packet->host.name_length = (uint8_t)(take(run, 1) % PACKET_NAME_MAX);
		packet->length = 0;
	}
}

/* A packet of the hostile one's connection, with fields that may be wrong. */
static void write_packet(struct run *run)
{
	static const uint8_t types[] = {PACKET_CONNECT, PACKET_ACCEPT, PACKET_RECORD, PACKET_RECORD, PACKET_RECORD,
					PACKET_ACK, PACKET_PULL, PACKET_PULL, PACKET_DATA, PACKET_DATA, PACKET_NACK,
					PACKET_CLOSE};
	static const uint8_t payload[ENGINE_FRAME_MAX];
	const struct connection *connection = connection_to(run, HOSTILE, VICTIM);
	struct packet packet = {.type = types[take(run, 1) % sizeof(types)]};
	uint8_t frame[PACKET_HEAD_MAX + 2048];
	size_t length;

	if (!connection)
		return;
	if (packet.type == PACKET_CLOSE && take(run, 1) < 250)
		packet.type = PACKET_ACK;
	packet.flags = (uint8_t)(take(run, 1) & (PACKET_BACKPRESSURE | PACKET_ANSWER));
	packet.to = (uint32_t)near(run, connection->peer_index);
	packet.session = near(run, connection->peer_session);
	packet.ack = (uint32_t)near(run, connection->in.next);
	packet.credit = (uint16_t)near(run, 64);
	packet.payload = payload;
	if (packet.type == PACKET_RECORD) {
		fill_record(run, &packet, connection);
	} else if (packet.type == PACKET_CONNECT || packet.type == PACKET_ACCEPT) {
		fill_connect(run, &packet, connection);
	} else if (packet.type == PACKET_PULL) {
		fill_pull(run, &packet);
	} else if (packet.type == PACKET_DATA) {
		packet.data.transfer = near(run, take(run, 1) % 4 | take(run, 1) % 4 << 20);
		packet.data.offset = near(run, take(run, 1) % 50 * 1440);
		packet.length = (uint32_t)(take(run, 1) % 4 ? 1440 : take(run, 2) % 1440);
	} else if (packet.type == PACKET_ACK) {
		packet.sequence = (uint32_t)near(run, connection->out.next);
		packet.acked.held = near(run, 0);
	} else if (packet.type == PACKET_NACK) {
		packet.nack.reason = (uint8_t)(1 + take(run, 1) % 4);
		packet.nack.refused = near(run, connection->session);
		packet.nack.transfer = near(run, 0);
	}
	if (!run->setup.codec->indexed)
		fill_numbers(run, &packet, connection);
	if (connection->guard && packet.type > PACKET_ACCEPT && take(run, 1) < 250)
		packet.flags |= (uint8_t)guard_flags(connection->guard, packet.type, packet.length);
	length = run->setup.codec->encode(&packet, frame);
	if (length == 0)
		return;
	memcpy(frame + length, payload, packet.length);
	length += packet.length;
	if (packet_guard_bytes(packet.flags))
		guard_stamp(connection->guard, run->setup.codec,
			    &(struct frame_out){.head = frame, .head_length = (uint32_t)length}, 1);
	write_frame(run, frame, length > take(run, 1) / 250 * 7 ? length - take(run, 1) / 254 * 7 : length);
}

static void write_bytes(struct run *run)
{
	uint8_t frame[2048];
	size_t length = take(run, 1) % 4 ? take(run, 1) : take(run, 2) % sizeof(frame);

	for (size_t i = 0; i < length; i++)
		frame[i] = (uint8_t)take(run, 1);
	write_frame(run, frame, length);
}

/* The last frame again, changed in some places. */
static void write_again(struct run *run)
{
	for (uint64_t n = take(run, 1) % 4; n > 0 && run->last_length > 0; n--)
		run->last[take(run, 2) % run->last_length] ^= (uint8_t)take(run, 1);
	write_frame(run, run->last, run->last_length);
}

/* ---- The run -------------------------------------------------------------------------------------------- */

/* Two that are honest go on as if nothing were. */
static void honest_talk(struct run *run)
{
	struct process *a = run->processes[take(run, 1) % 2 ? VICTIM : HONEST];
	struct process *b = a == run->processes[VICTIM] ? run->processes[HONEST] : run->processes[VICTIM];
	uint64_t length = take(run, 1) % 4 ? take(run, 2) % 3000 : take(run, 3) % 100000;
	uint32_t tag = (uint32_t)(take(run, 1) % 4);

	if (take(run, 1) % 2) {
		traffic_receive(b, a, length, tag, 0xff, 0);
		traffic_send(a, b, length, tag, 0);
	} else {
		traffic_send(a, b, length, tag, 0);
		traffic_receive(b, a, length, tag, 0xff, 0);
	}
}

static void run_time(struct run *run)
{
	world_run(&run->world, run->world.now_ns + take(run, 2) * 10);
}

static void step(struct run *run)
{
	static void (*const steps[])(struct run *run) = {
		write_packet, write_packet,  write_packet, write_packet,   write_packet,
		write_bytes,  write_again,   run_time,     run_time,       victim_begin,
		victim_begin, victim_screen, honest_talk,  hostile_behave, hostile_behave,
	};

	steps[take(run, 1) % (sizeof(steps) / sizeof(steps[0]))](run);
	if (run->processes[HOSTILE]->endpoint && take(run, 1) % 2)
		run_time(run);
}

static void start(struct run *run)
{
	static const struct codec *const codecs[] = {&codec_native, &codec_native, &codec_mxoe, &codec_mxoe_jumbo};
	uint64_t options = take(run, 1);

	world_init(&run->world, take(run, 2), false);
	run->world.events_max = EVENTS_MAX;
	network_init(&run->network, &run->world, PROCESSES);
	run->network.conditions = (struct conditions){.latency_ns = 5000, .rate = 1250000, .send_room = 1 << 20,
						      .port_room = 1 << 20, .receive_room = 1 << 20, .frame_max = 1472,
						      .route_max = 1472};
	traffic_init(&run->traffic, &run->network);
	run->setup = (struct process_setup){.application = &victim_application, .codec = codecs[options / 4 % 4]};
	if (!run->setup.codec->indexed) {
		run->network.numbered = true;
		run->network.conditions.frame_max = run->network.conditions.route_max = 9000;
	}
	MUST(options_defaults(&run->setup.options, NULL) == 0);
	run->setup.options.unexpected_max = UNEXPECTED_MAX;
	run->setup.options.checksum = options & 1 && run->setup.codec->indexed;
	run->setup.options.job_key = options & 2 ? 12345 : 0;
	run->setup.options.integrity = options & 16 && mac_libcrypto() ? OPTION_INTEGRITY_FULL : OPTION_INTEGRITY_AUTO;
	for (int i = 0; i < PROCESSES; i++)
		run->processes[i] = traffic_start(&run->traffic, &run->network.hosts[i], &run->setup);
	run->processes[HOSTILE]->hostile = true;
	run->processes[VICTIM]->slandered = true;
	places_init(run);
	MUST(thole_expose(run->processes[VICTIM]->endpoint, place_memory(&run->places[0]), BUFFER,
			  THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY_OPEN, NULL,
			  &run->region) == 0);
	/* All know each other. */
	hostile_behave(run);
	traffic_receive(run->processes[HONEST], run->processes[VICTIM], 10, 0, 0xff, 0);
	traffic_send(run->processes[VICTIM], run->processes[HONEST], 10, 0, 0);
	world_run(&run->world, run->world.now_ns + MILLISECOND);
}

/* Whatever is here of the hostile one goes. */
static void victim_forget(struct run *run)
{
	struct process *victim = run->processes[VICTIM];

	for (uint32_t peer = 0; peer < victim->endpoint->peer_count; peer++) {
		struct thole_completion found;

		if (peer == peer_handle(victim, run->processes[HONEST]))
			continue;
		for (unsigned flags = 0; flags <= THOLE_PLAIN; flags += THOLE_PLAIN)
			while (thole_probe(victim->endpoint, peer, 0, 0, flags | THOLE_DISCARD, &found) == 1)
				;
	}
	for (int i = 0; i < PLACES; i++)
		if (run->places[i].busy)
			thole_cancel_context(victim->endpoint, &run->places[i]);
}

static void finish(struct run *run)
{
	struct process *hostile = run->processes[HOSTILE];
	uint64_t end_ns;

	hostile->host->down = true;
	if (hostile->endpoint)
		process_crash(hostile);
	end_ns = run->world.now_ns + 60 * (uint64_t)SECOND;
	world_run(&run->world, end_ns);
	victim_decide(run, false);
	thole_screen(run->processes[VICTIM]->endpoint, 0);
	victim_forget(run);
	world_run(&run->world, run->world.now_ns + MILLISECOND);
	for (int i = 0; i < PLACES; i++)
		MUST(!run->places[i].busy);
	run->traffic.processes[VICTIM]->application = run->traffic.processes[HONEST]->application =
		&traffic_application;
	if (!run->world.failed)
		traffic_settle(&run->traffic, 60 * (uint64_t)SECOND);
}

void fuzz_run(const uint8_t *data, size_t size)
{
	struct run *run = sim_alloc(sizeof(*run));

	current = run;
	run->at = data;
	run->left = size;
	start(run);
	for (int i = 0; i < STEPS_MAX && run->left > 0 && !run->world.failed; i++)
		step(run);
	finish(run);
	if (run->world.failed)
		fprintf(stderr, "%s\n", run->world.failure);
	MUST(!run->world.failed);
	for (int i = 0; i < PLACES; i++)
		place_check(&run->places[i]);
	/* One peer each: nothing was made of strangers' words. */
	traffic_fini(&run->traffic);
	network_fini(&run->network);
	world_fini(&run->world);
	for (int i = 0; i < PLACES; i++)
		free(run->places[i].bytes);
	free(run);
}
