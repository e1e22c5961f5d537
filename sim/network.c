/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "mover.h"
#include "process.h"
#include "transport/datagram/scatter.h"

enum {
	FRAME_OVERHEAD = 66,       /* bytes that Ethernet, IP and UDP add to a frame on a line */
	BUFFER_OVERHEAD = 256,     /* bytes that a frame costs a receive buffer beside its own */
	QUESTION_AGAIN_NS = SECOND, /* TCP's first repetition */
	TRUNCATED_OF = 8,          /* one of so many damaged frames is cut short */
	GATHER_MAX = 64,           /* frames that one bulk receive brings */
	GATHER_BYTES = 65000,      /* and of records: no more than a packet of the kernel's has */
	RAW_EXTRA = 4,             /* of a raw path behind the MAC: the endpoint's number */
};

/* A frame under way, and in a receive buffer. */
struct parcel {
	struct event event;
	struct list_node node;
	struct network *network;
	struct host *from, *to;
	struct path source, target;
	uint32_t sender;           /* the process's index */
	uint32_t length;
	uint8_t wire, channel;
	uint8_t bytes[];
};

/* Word that comes back to a sender. */
struct notice {
	struct event event;
	struct list_node node;
	struct process *process;
	struct path path;
	uint32_t frame_max;        /* 0: nobody is there */
	uint8_t wire;
};

/* ---- Paths ---------------------------------------------------------------------------------------------- */

static void put_be32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t get_be32(const uint8_t *from)
{
	return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

/* Host i is 10.x.y.z, and its interface 02:00:0a:x:y:z. */
static uint32_t host_number(uint32_t index)
{
	return 10u << 24 | (index + 1);
}

void network_mac(const struct host *host, uint8_t mac[6])
{
	mac[0] = 2;
	mac[1] = 0;
	put_be32(mac + 2, host_number(host->index));
}

void network_address(const struct host *host, uint16_t port, uint8_t bytes[PACKET_NETWORK])
{
	memset(bytes, 0, PACKET_NETWORK);
	bytes[0] = 1;
	bytes[2] = (uint8_t)(port >> 8);
	bytes[3] = (uint8_t)port;
	put_be32(bytes + 4, host_number(host->index));
	network_mac(host, bytes + 8);
}

static struct path path_udp(const struct host *host, uint16_t port)
{
	struct path path = {.bytes = {[10] = 0xff, [11] = 0xff}};

	put_be32(path.bytes + 12, host_number(host->index));
	path.bytes[16] = (uint8_t)(port >> 8);
	path.bytes[17] = (uint8_t)port;
	return path;
}

static struct path path_raw(const struct host *host, uint64_t endpoint)
{
	struct path path = {.bytes = {2, 0}};

	put_be32(path.bytes + 2, host_number(host->index));
	put_be32(path.bytes + 6, (uint32_t)endpoint);
	return path;
}

static struct host *path_host(struct network *network, unsigned wire, const struct path *path)
{
	uint32_t number = get_be32(path->bytes + (wire != WIRE_RAW && !network->numbered ? 12 : 2));

	return number >> 24 == 10 && (number & 0xffffff) - 1 < network->host_count
		       ? &network->hosts[(number & 0xffffff) - 1]
		       : NULL;
}

/* The link that a path leads to, and which of its sockets; NULL: nobody has it. */
static struct wire *path_wire(struct network *network, unsigned kind, const struct path *path, unsigned *channel_p)
{
	struct host *host = path_host(network, kind, path);
	struct wire *wire;

	if (host && host->process && kind == WIRE_LANE && host->process->wire_count <= WIRE_LANE)
		kind = WIRE_UDP;
	if (!host || !host->process || kind >= host->process->wire_count)
		return NULL;
	wire = &host->process->wires[kind];
	*channel_p = CHANNEL_RECORDS;
	if (memcmp(path, &wire->link.own, sizeof(*path)) == 0)
		return wire;
	*channel_p = CHANNEL_BULK;
	if (kind != WIRE_UDP || network->numbered)
		return NULL;
	return (path->bytes[16] << 8 | path->bytes[17]) == wire->link.bulk_port ? wire : NULL;
}

/* Whether it leads to a socket that nobody reads any more. */
static bool path_is_ghost(const struct host *host, const struct path *path)
{
	return host->ghost && memcmp(path, &host->ghost->wires[WIRE_UDP].link.own, sizeof(*path)) == 0;
}

/* ---- Cuts ----------------------------------------------------------------------------------------------- */

static bool host_side(const struct cut *cut, uint32_t host)
{
	return host < 64 && (cut->side >> host & 1);
}

static bool network_separates(const struct network *network, const struct host *from, const struct host *to)
{
	const struct cut *cut;

	if (from->down || to->down)
		return true;
	if (!network->cutting)
		return false;
	cut = &network->cuts[network->cut_count - 1];
	if (host_side(cut, from->index) == host_side(cut, to->index))
		return false;
	return !cut->one_way || host_side(cut, from->index);
}

static bool network_mutes(const struct network *network, unsigned wire, const struct host *from)
{
	return from->index < 64 && (network->mute[wire] >> from->index & 1);
}

void network_cut(struct network *network, uint64_t side, bool one_way)
{
	struct world *world = network->world;

	network_heal(network);
	network->cuts = sim_grow(network->cuts, (network->cut_count + 1) * sizeof(*network->cuts));
	network->cuts[network->cut_count++] = (struct cut){world->now_ns, UINT64_MAX, side, one_way};
	network->cutting = true;
	world_tell(world, "cut %s: hosts %llx", one_way ? "one way" : "both ways", (unsigned long long)side);
}

void network_heal(struct network *network)
{
	if (!network->cutting)
		return;
	network->cuts[network->cut_count - 1].to_ns = network->world->now_ns;
	network->cutting = false;
	world_tell(network->world, "the cut heals");
}

uint64_t network_longest_cut(const struct network *network, uint32_t a, uint32_t b)
{
	uint64_t longest_ns = 0;

	for (uint32_t i = 0; i < network->cut_count; i++) {
		const struct cut *cut = &network->cuts[i];
		uint64_t to_ns = cut->to_ns == UINT64_MAX ? network->world->now_ns : cut->to_ns;

		if (host_side(cut, a) != host_side(cut, b) && to_ns - cut->from_ns > longest_ns)
			longest_ns = to_ns - cut->from_ns;
	}
	return longest_ns;
}

/* ---- Word that comes back -------------------------------------------------------------------------------- */

static void notice_run(struct world *world, struct event *event)
{
	struct notice *notice = container_of(event, struct notice, event);
	struct process *process = notice->process;
	struct wire *wire = &process->wires[notice->wire];

	if (process->endpoint) {
		struct engine *engine = process_engine(process);

		engine->now_ns = world->now_ns;
		world_mix_word(world, 0x6e6f7469 + notice->frame_max);
		world_tell(world, "%u is told: %s", process->index, notice->frame_max ? "too long" : "nobody is there");
		if (notice->frame_max)
			engine_shrink(engine, &wire->link, &notice->path, notice->frame_max);
		else
			engine_refused(engine, &wire->link, &notice->path);
		process_wake(process, world->now_ns);
	}
	list_remove(&notice->node);
	free(notice);
}

static void notice_send(struct process *process, unsigned wire, const struct path *path, uint32_t frame_max)
{
	struct network *network = process->network;
	struct world *world = network->world;
	struct notice *notice;

	if (dice_chance(&world->network, network->conditions.loss))
		return;
	notice = sim_alloc(sizeof(*notice));
	*notice = (struct notice){.process = process, .path = *path, .frame_max = frame_max, .wire = (uint8_t)wire};
	notice->event.run = notice_run;
	list_push_back(&network->in_flight, &notice->node);
	world_set(world, &notice->event, world->now_ns + network->conditions.latency_ns);
}

/* ---- Arrival -------------------------------------------------------------------------------------------- */

static void parcel_free(struct parcel *parcel)
{
	list_remove(&parcel->node);
	free(parcel);
}

static void parcel_drop(struct parcel *parcel, const char *why)
{
	struct world *world = parcel->network->world;

	if (world->trace) {
		char text[FRAME_TEXT_MAX];

		frame_text(parcel->network->numbered ? &codec_mxoe : &codec_native, parcel->bytes, parcel->length,
			   text);
		world_tell(world, "   lost, from %u: %s: %s", parcel->sender, why, text);
	}
	world_mix_word(world, 0x6c6f7374);
	parcel->network->lost++;
	parcel_free(parcel);
}

static void parcel_arrive(struct world *world, struct event *event)
{
	struct parcel *parcel = container_of(event, struct parcel, event);
	struct network *network = parcel->network;
	struct process *sender = parcel->from->process;
	unsigned channel;
	struct wire *wire;

	if (network_separates(network, parcel->from, parcel->to)) {
		parcel_drop(parcel, "cut off");
		return;
	}
	wire = path_wire(network, parcel->wire, &parcel->target, &channel);
	if (!wire) {
		if (sender && !path_is_ghost(parcel->to, &parcel->target) && sender->index == parcel->sender &&
		    parcel->wire == WIRE_UDP && !network->numbered && network->conditions.refused)
			notice_send(sender, parcel->wire, &parcel->target, 0);
		parcel_drop(parcel, "nobody is there");
		return;
	}
	if (wire->mover && sim_mover_frame(wire->mover, parcel->bytes, parcel->length)) {
		parcel_free(parcel);
		return;
	}
	if (wire->queued[channel] + parcel->length + BUFFER_OVERHEAD > network->conditions.receive_room) {
		network->overrun++;
		parcel_drop(parcel, "its receive buffer is full");
		return;
	}
	if (wire_due(wire) == UINT64_MAX)
		wire_hide(wire, network->conditions.gather_ns);
	wire->queued[channel] += parcel->length + BUFFER_OVERHEAD;
	list_remove(&parcel->node);
	list_push_back(&wire->queue[channel], &parcel->node);
	world_mix_word(world, (uint64_t)wire->process->index << 32 | parcel->length);
	process_wake(wire->process, wire_due(wire));
}

void network_inject(struct network *network, struct process *to, unsigned wire, unsigned channel,
		    const struct path *source, const uint8_t *bytes, size_t length)
{
	struct parcel *parcel = sim_alloc(sizeof(*parcel) + length);

	parcel->event.run = parcel_arrive;
	parcel->network = network;
	parcel->from = parcel->to = to->host;
	parcel->source = *source;
	parcel->target = to->wires[wire].link.own;
	parcel->sender = UINT32_MAX;
	parcel->length = (uint32_t)length;
	parcel->wire = (uint8_t)wire;
	if (channel == CHANNEL_BULK && wire == WIRE_UDP && !network->numbered) {
		parcel->target.bytes[16] = (uint8_t)(to->wires[wire].link.bulk_port >> 8);
		parcel->target.bytes[17] = (uint8_t)to->wires[wire].link.bulk_port;
	}
	if (length)
		memcpy(parcel->bytes, bytes, length);
	list_push_back(&network->in_flight, &parcel->node);
	world_set(network->world, &parcel->event, network->world->now_ns);
}

/* ---- On the way ----------------------------------------------------------------------------------------- */

static void parcel_damage(struct world *world, struct parcel *parcel)
{
	if (dice_below(&world->network, TRUNCATED_OF) == 0) {
		parcel->length = (uint32_t)dice_below(&world->network, parcel->length);
		return;
	}
	for (uint64_t bits = dice_between(&world->network, 1, 12); bits > 0; bits--)
		parcel->bytes[dice_below(&world->network, parcel->length)] ^=
			(uint8_t)(1u << dice_below(&world->network, 8));
}

static struct parcel *parcel_new(const struct parcel *like, uint32_t length)
{
	struct parcel *parcel = sim_grow(NULL, sizeof(*parcel) + length);

	*parcel = *like;
	parcel->event = (struct event){.run = parcel_arrive};
	parcel->length = length;
	list_push_back(&parcel->network->in_flight, &parcel->node);
	return parcel;
}

/* What happens to it, and when it is there. */
static void parcel_carry(struct parcel *parcel, uint64_t leaves_ns)
{
	struct network *network = parcel->network;
	struct world *world = network->world;
	const struct conditions *conditions = &network->conditions;
	struct host *to = parcel->to;
	uint64_t line_ns = ((uint64_t)parcel->length + FRAME_OVERHEAD) * MILLISECOND / conditions->rate;
	uint64_t there_ns = leaves_ns + conditions->latency_ns, start_ns, extra_ns = 0;

	if (network_separates(network, parcel->from, to) || network_mutes(network, parcel->wire, parcel->from)) {
		parcel_drop(parcel, "cut off");
		return;
	}
	if (parcel->from->mute >> parcel->wire & 1) {
		parcel_drop(parcel, "its link is dead this way");
		return;
	}
	if (dice_chance(&world->network, conditions->loss) ||
	    (parcel->wire == WIRE_RAW && dice_chance(&world->network, conditions->raw_loss))) {
		parcel_drop(parcel, "bad luck");
		return;
	}
	if (dice_chance(&world->network, conditions->corrupt))
		parcel_damage(world, parcel);
	start_ns = to->receive_free_ns > there_ns ? to->receive_free_ns : there_ns;
	if ((start_ns - there_ns) * conditions->rate / MILLISECOND > conditions->port_room) {
		network->overrun++;
		parcel_drop(parcel, "the switch is full");
		return;
	}
	to->receive_free_ns = start_ns + line_ns;
	if (conditions->jitter_ns)
		extra_ns = dice_below(&world->network, conditions->jitter_ns);
	if (dice_chance(&world->network, conditions->reorder))
		extra_ns += dice_below(&world->network, conditions->reorder_ns + 1);
	/* What another delay would have made of a frame that jitters is not known here: such frames may overtake. */
	world_set(world, &parcel->event, to->receive_free_ns + extra_ns);
}

static void parcel_send(struct parcel *parcel, uint64_t leaves_ns)
{
	struct network *network = parcel->network;
	struct world *world = network->world;

	network->carried++;
	if (parcel->length > network->conditions.frame_max) {
		if (network->conditions.told)
			notice_send(parcel->from->process, parcel->wire, &parcel->target,
				    network->conditions.frame_max);
		parcel_drop(parcel, "too long for the path");
		return;
	}
	if (!parcel->to) {
		parcel_drop(parcel, "to no host");
		return;
	}
	if (dice_chance(&world->network, network->conditions.duplicate)) {
		struct parcel *copy = parcel_new(parcel, parcel->length);

		memcpy(copy->bytes, parcel->bytes, parcel->length);
		parcel_carry(copy, leaves_ns);
	}
	parcel_carry(parcel, leaves_ns);
}

/* ---- A process's end: the calls of its links ------------------------------------------------------------ */

static struct parcel *parcel_of(struct wire *wire, const struct frame_out *frame)
{
	struct network *network = wire->network;
	struct parcel like = {
		.network = network,
		.from = wire->process->host,
		.to = path_host(network, wire->link.index, frame->to),
		.source = wire->link.own,
		.target = *frame->to,
		.sender = wire->process->index,
		.wire = (uint8_t)wire->link.index,
		.channel = frame->channel,
	};
	struct parcel *parcel = parcel_new(&like, frame->head_length + frame->body_length);
	uint32_t at = frame->head_length;

	memcpy(parcel->bytes, frame->head, frame->head_length);
	for (unsigned i = 0; i < frame->body_count; i++) {
		if (frame->body[i].iov_len > parcel->length - at) {
			world_fail(network->world, "%u sends a frame whose body is longer than it says",
				   wire->process->index);
			return parcel;
		}
		memcpy(parcel->bytes + at, frame->body[i].iov_base, frame->body[i].iov_len);
		at += (uint32_t)frame->body[i].iov_len;
	}
	if (at != parcel->length)
		world_fail(network->world, "%u sends a frame whose body is shorter than it says", wire->process->index);
	return parcel;
}

/* Whatever leaves an endpoint is what a correct peer writes. */
static void parcel_check(struct wire *wire, const struct parcel *parcel)
{
	const struct codec *codec = wire->link.engine->codec;
	struct world *world = wire->network->world;
	struct packet packet;
	bool unset;

	if (codec->decode(&packet, parcel->bytes, parcel->length) != 0)
		world_fail(world, "%u sends %u bytes that do not decode", wire->process->index, parcel->length);
	if (codec->intact && !codec->intact(parcel->bytes, parcel->length, &unset))
		world_fail(world, "%u sends a frame with a wrong checksum", wire->process->index);
	if (parcel->length > wire->network->conditions.route_max)
		world_fail(world, "%u sends a frame of %u bytes, and the route has %u", wire->process->index,
			   parcel->length, wire->network->conditions.route_max);
	if (world->trace) {
		char text[FRAME_TEXT_MAX];

		frame_text(codec, parcel->bytes, parcel->length, text);
		world_tell(world, "%u -> %d %s %s", wire->process->index,
			   parcel->to && parcel->to->process ? (int)parcel->to->process->index : -1,
			   wire->link.calls->name, text);
	}
}

/* The interface's queue: when a frame of this length has left it; 0: there is no room. */
static uint64_t wire_queue(struct wire *wire, uint32_t length)
{
	struct network *network = wire->network;
	struct host *host = wire->process->host;
	uint64_t now_ns = network->world->now_ns, rate = network->conditions.rate;
	uint64_t start_ns = host->send_free_ns > now_ns ? host->send_free_ns : now_ns;

	if ((start_ns - now_ns) * rate / MILLISECOND > network->conditions.send_room)
		return 0;
	host->send_free_ns = start_ns + ((uint64_t)length + FRAME_OVERHEAD) * MILLISECOND / rate;
	return host->send_free_ns;
}

static unsigned wire_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct wire *wire = container_of(link, struct wire, link);
	struct world *world = wire->network->world;
	unsigned most = count;

	if (wire->process->state == PROCESS_CRASHED) {
		world_fail(world, "%u sends frames though it has crashed", wire->process->index);
		return count;
	}
	if (count == 0 || count > ENGINE_BURST)
		world_fail(world, "%u sends a burst of %u frames", wire->process->index, count);
	if (dice_chance(&world->network, wire->network->conditions.refuse))
		most = (unsigned)dice_below(&world->network, count);
	for (unsigned i = 0; i < count; i++) {
		uint64_t leaves_ns = i < most ? wire_queue(wire, frames[i].head_length + frames[i].body_length) : 0;
		struct parcel *parcel;

		if (!leaves_ns) {
			wire->blocked_until_ns = wire->process->host->send_free_ns + 10 * MICROSECOND;
			world_tell(world, "%u is blocked", wire->process->index);
			return i;
		}
		parcel = parcel_of(wire, &frames[i]);
		parcel_check(wire, parcel);
		world_mix_word(world, world->now_ns << 8 | wire->process->index);
		world_mix(world, parcel->bytes, parcel->length);
		parcel_send(parcel, leaves_ns);
	}
	return count;
}

static struct parcel *wire_next(struct wire *wire, unsigned channel)
{
	struct list_node *node = list_first(&wire->queue[channel]);

	return node ? container_of(node, struct parcel, node) : NULL;
}

static void wire_take(struct wire *wire, unsigned channel, struct parcel *parcel)
{
	list_remove(&parcel->node);
	wire->queued[channel] -= parcel->length + BUFFER_OVERHEAD;
	wire->received++;
}

/* As recvmsg with an iovec: the frames' bytes one behind the other. */
static void scatter_fill(struct scatter *scatter, size_t at, const uint8_t *bytes, size_t length)
{
	for (unsigned i = 0; i < scatter->count && length > 0; i++) {
		size_t room = scatter->iov[i].iov_len, part;

		if (at >= room) {
			at -= room;
			continue;
		}
		part = length < room - at ? length : room - at;
		memcpy((char *)scatter->iov[i].iov_base + at, bytes, part);
		bytes += part;
		length -= part;
		at = 0;
	}
}

/* Frames of one sender and one length, the last perhaps shorter, come as one, as with UDP_GRO. */
static unsigned wire_gather(struct wire *wire)
{
	struct scatter *scatter = wire->scatter;
	struct parcel *parcel = wire_next(wire, CHANNEL_BULK);
	uint64_t most = dice_between(&wire->network->world->network, 1, GATHER_MAX);
	struct path source = parcel->source;
	uint32_t segment = parcel->length, length = segment;
	unsigned frames = 0;
	size_t bytes = 0;

	if (!scatter)
		scatter = wire->scatter = sim_alloc(sizeof(*scatter));
	scatter->whole = most % 2;
	scatter_foresee(wire->link.engine, scatter);
	while (parcel && frames < most && length == segment && parcel->length <= segment && parcel->length > 0 &&
	       bytes + parcel->length <= GATHER_BYTES && memcmp(&parcel->source, &source, sizeof(source)) == 0) {
		length = parcel->length;
		scatter_fill(scatter, bytes, parcel->bytes, length);
		bytes += length;
		frames++;
		wire_take(wire, CHANNEL_BULK, parcel);
		parcel_free(parcel);
		parcel = wire_next(wire, CHANNEL_BULK);
	}
	if (scatter_arrived(wire->link.engine, &wire->link, &source, scatter, bytes, segment) != frames)
		world_fail(wire->network->world, "%u counts its frames wrong", wire->process->index);
	return frames;
}

static void wire_hand(struct wire *wire, unsigned channel, struct parcel *parcel)
{
	uint8_t *exact = sim_grow(NULL, parcel->length); /* so that the sanitizer sees what is read beyond it */

	wire_take(wire, channel, parcel);
	memcpy(exact, parcel->bytes, parcel->length);
	engine_frame(wire->link.engine, &wire->link, &parcel->source, exact, parcel->length);
	free(exact);
	parcel_free(parcel);
}

/* Frames of one sender that lie behind each other, of one length but perhaps the last, up to `most` and as many bytes
 * as a packet has: as one. Returns how many. */
static unsigned wire_hand_together(struct wire *wire, uint64_t most, size_t room)
{
	struct parcel *parcel = wire_next(wire, CHANNEL_RECORDS);
	struct path source = parcel->source;
	size_t segment = parcel->length, length = segment, bytes = 0;
	uint8_t *exact = NULL;
	unsigned frames = 0;

	while (parcel && frames < most && length == segment && parcel->length <= segment &&
	       (frames == 0 || (parcel->length > 0 && bytes + parcel->length <= room)) &&
	       memcmp(&parcel->source, &source, sizeof(source)) == 0) {
		length = parcel->length;
		exact = sim_grow(exact, bytes + length);
		memcpy(exact + bytes, parcel->bytes, length);
		bytes += length;
		frames++;
		wire_take(wire, CHANNEL_RECORDS, parcel);
		parcel_free(parcel);
		parcel = wire_next(wire, CHANNEL_RECORDS);
	}
	engine_frames(wire->link.engine, &wire->link, &source, exact, bytes, segment);
	free(exact);
	return frames;
}

/* Records of one sender that lie behind each other come as one packet, as with UDP_GRO: all are handed over before
 * anything is sent. */
static unsigned wire_packet(struct wire *wire)
{
	struct parcel *parcel = wire_next(wire, CHANNEL_RECORDS);
	uint64_t most =
		wire->network->conditions.gather_ns ? dice_between(&wire->network->world->network, 1, GATHER_MAX) : 1;
	struct path source = parcel->source;
	size_t bytes = 0;
	unsigned frames = 0;

	while (parcel && frames < most && bytes + parcel->length <= GATHER_BYTES && wire->process->endpoint &&
	       memcmp(&parcel->source, &source, sizeof(source)) == 0) {
		size_t length = parcel->length;
		unsigned some = wire_hand_together(wire, most - frames, GATHER_BYTES - bytes);

		bytes += some * length; /* about */
		frames += some;
		parcel = wire_next(wire, CHANNEL_RECORDS);
	}
	return frames;
}

static unsigned wire_receive(struct link *link, unsigned budget)
{
	struct wire *wire = container_of(link, struct wire, link);
	struct dice *dice = &wire->network->world->network;
	unsigned n = 0;

	while (n < budget && wire_pending(wire) && wire->process->endpoint) {
		struct parcel *record = wire_next(wire, CHANNEL_RECORDS), *bulk = wire_next(wire, CHANNEL_BULK);

		if (bulk && (!record || dice_below(dice, 2))) {
			if (bulk->length > 0 && dice_below(dice, 8)) {
				n += wire_gather(wire);
				continue;
			}
			wire_hand(wire, CHANNEL_BULK, bulk);
			n++;
		} else {
			n += wire_packet(wire);
		}
	}
	return n;
}

uint64_t wire_due(const struct wire *wire)
{
	if (list_empty(&wire->queue[CHANNEL_RECORDS]) && list_empty(&wire->queue[CHANNEL_BULK]))
		return UINT64_MAX;
	return wire->hidden_until_ns;
}

bool wire_pending(const struct wire *wire)
{
	return wire_due(wire) <= wire->network->world->now_ns;
}

void wire_hide(struct wire *wire, uint64_t ns)
{
	uint64_t until_ns = wire->network->world->now_ns + ns;

	if (until_ns > wire->hidden_until_ns)
		wire->hidden_until_ns = until_ns;
}

static bool wire_ready(struct link *link)
{
	return wire_pending(container_of(link, struct wire, link));
}

static uint32_t wire_frame_max(struct link *link, const struct path *to)
{
	(void)to;
	return container_of(link, struct wire, link)->network->conditions.route_max;
}

/* A thread of the process answers while it computes. */
static enum link_liveness wire_liveness(struct link *link, const struct path *to, uint64_t endpoint)
{
	struct wire *wire = container_of(link, struct wire, link);
	struct network *network = wire->network;
	struct world *world = network->world;
	struct host *host = path_host(network, link->index, to);
	struct question *question = NULL;
	unsigned channel;

	(void)endpoint;
	for (size_t i = 0; i < sizeof(wire->questions) / sizeof(wire->questions[0]); i++)
		if (wire->questions[i].answer_ns &&
		    memcmp(&wire->questions[i].path, to, sizeof(*to)) == 0)
			question = &wire->questions[i];
	if (!question) {
		for (size_t i = 0; i < sizeof(wire->questions) / sizeof(wire->questions[0]) && !question; i++)
			if (!wire->questions[i].answer_ns)
				question = &wire->questions[i];
		if (!question)
			return LINK_UNASKED;
		question->path = *to;
		question->answer_ns =
			world->now_ns + 2 * network->conditions.latency_ns +
			(dice_chance(&world->network, 2 * network->conditions.loss) ? QUESTION_AGAIN_NS : 0);
	}
	if (world->now_ns < question->answer_ns)
		return LINK_UNKNOWN;
	if (!host || network_separates(network, wire->process->host, host) || path_is_ghost(host, to) ||
	    network_separates(network, host, wire->process->host) || network_mutes(network, link->index, host) ||
	    network_mutes(network, link->index, wire->process->host)) {
		question->answer_ns = world->now_ns + QUESTION_AGAIN_NS;
		return LINK_UNKNOWN;
	}
	question->answer_ns = 0;
	world_tell(world, "%u asks after its peer: %s", wire->process->index,
		   path_wire(network, link->index, to, &channel) ? "alive" : "gone");
	return path_wire(network, link->index, to, &channel) ? LINK_ALIVE : LINK_GONE;
}

static void wire_liveness_end(struct link *link, const struct path *to)
{
	struct wire *wire = container_of(link, struct wire, link);

	for (size_t i = 0; i < sizeof(wire->questions) / sizeof(wire->questions[0]); i++)
		if (memcmp(&wire->questions[i].path, to, sizeof(*to)) == 0)
			wire->questions[i].answer_ns = 0;
}

static void wire_close(struct link *link)
{
	struct wire *wire = container_of(link, struct wire, link);

	if (wire->mover)
		sim_mover_close(wire->mover);
	wire->mover = NULL;
	free(wire->scatter);
	wire->scatter = NULL;
	for (unsigned channel = 0; channel < CHANNELS; channel++) {
		struct parcel *parcel;

		while ((parcel = wire_next(wire, channel))) {
			wire_take(wire, channel, parcel);
			parcel_free(parcel);
		}
	}
}

void wire_open(struct wire *wire, struct network *network, struct process *process, unsigned kind, uint16_t port)
{
	static const struct link_calls udp = {
		.name = "udp",
		.kind = &kind_ip,
		.rank = {[LINK_RECORDS] = 20, [LINK_BULK] = 10, [LINK_CONNECT] = 10},
		.send = wire_send,
		.receive = wire_receive,
		.ready = wire_ready,
		.frame_max = wire_frame_max,
		.liveness = wire_liveness,
		.liveness_end = wire_liveness_end,
		.close = wire_close,
	};
	static const struct link_calls raw = {
		.name = "raw",
		.kind = &kind_ethernet,
		.rank = {[LINK_RECORDS] = 10, [LINK_BULK] = 20, [LINK_CONNECT] = 20},
		.send = wire_send,
		.receive = wire_receive,
		.cheap = true,
		.ready = wire_ready,
		.counter = COUNTER_FRAMES_RAW,
		.frame_max = wire_frame_max,
		.close = wire_close,
	};

	static const struct link_calls lane = {
		.name = "lane",
		.kind = &kind_ip,
		.send = wire_send,
		.receive = wire_receive,
		.cheap = true,
		.ready = wire_ready,
		.frame_max = wire_frame_max,
		.close = wire_close,
	};
	static const struct link_calls *const calls[WIRES] = {
		[WIRE_UDP] = &udp, [WIRE_RAW] = &raw, [WIRE_LANE] = &lane};
	/* Before both others for all, for bulk, for records; and behind them. */
	static const uint8_t ranks[WIRE_LANES][LINK_USES] = {{5, 5, 0}, {15, 5, 0}, {5, 15, 0}, {30, 30, 0}};

	*wire = (struct wire){
		.link = {
			.index = kind,
			.own = kind == WIRE_RAW ? path_raw(process->host, process->id) : path_udp(process->host, port),
			.interface = 1,
			.room = network->conditions.receive_room,
			.halves = process->id % 2,
			.fd = {-1, -1},
			.bulk_port = kind == WIRE_UDP ? (uint16_t)(port + 1) : 0,
			.ethertype = kind == WIRE_RAW ? 0x88b5 : 0,
		},
		.calls = *calls[kind],
		.network = network,
		.process = process,
	};
	wire->link.calls = &wire->calls;
	if (kind == WIRE_LANE)
		memcpy(wire->calls.rank, ranks[network->lane % WIRE_LANES], sizeof(wire->calls.rank));
	if (network->numbered) {
		wire->calls = raw;
		wire->link.own = path_raw(process->host, 0);
		wire->link.bulk_port = 0;
		wire->link.ethertype = 0x86df;
	}
	list_init(&wire->queue[CHANNEL_RECORDS]);
	list_init(&wire->queue[CHANNEL_BULK]);
}

void conditions_good(struct conditions *conditions)
{
	*conditions = (struct conditions){
		.latency_ns = 5 * MICROSECOND,
		.rate = 1250000,
		.send_room = 1 << 20,
		.port_room = 1 << 20,
		.receive_room = 4 << 20,
		.frame_max = 1472,
		.route_max = 1472,
		.told = true,
		.refused = true,
	};
}

void network_init(struct network *network, struct world *world, uint32_t hosts)
{
	*network = (struct network){
		.world = world, .host_count = hosts, .hosts = sim_alloc(hosts * sizeof(struct host))};
	for (uint32_t i = 0; i < hosts; i++)
		network->hosts[i].index = i;
	list_init(&network->in_flight);
}

/* A parcel or a notice: both begin alike. */
static void flight_free(struct list_node *node)
{
	list_remove(node);
	free(container_of(node, struct notice, node));
}

_Static_assert(offsetof(struct notice, node) == offsetof(struct parcel, node), "flight_free frees either");

void network_fini(struct network *network)
{
	while (!list_empty(&network->in_flight))
		flight_free(list_first(&network->in_flight));
	free(network->cuts);
	free(network->hosts);
}
