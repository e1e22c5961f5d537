/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the links cost by themselves: two processes on cores of their own, in namespaces joined by a veth pair, with a
 * stand-in for the engine that only counts. Not a test. Prints one line: best and median.
 *
 *     thole-link-bench [key=value ...]
 *     link=udp|raw|driver  mtu=1500  mode=latency|stream|cost|bulk  size=8 (latency, cost)
 *     frames=44 (of a block)  blocks=8 (asked for
 *     at a time) heads=1 (between the payloads; 0: none, as if frames were contiguous)  total=16 (MiB)  rounds=100
 *     cores=0,1
 *
 * Cost: one process has both ends, sends a frame and takes it, for guests whose clock counts instructions; prints the
 * instructions of one, which a loop of known length tells of the time. Bulk: the same of a byte of a stream's blocks.
 *
 * Stream: the receiver asks for blocks, a small frame each, and the sender answers with frames that have a head of 32
 * bytes in front of the payload, which comes from and goes to a buffer of 16 MiB.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "link_pair.h"

#include "memory/driver.h"
#include "transport/datagram/scatter.h"
#include "transport/datagram/links.h"

enum { BUFFER = 16 << 20, FRAMES_MAX = 64, HEAD = 32, ROUNDS_MAX = 200, TURNS = 400 };

static struct {
	int raw, driver, mtu, stream, cost, bulk, size, frames, blocks, heads, total, rounds, core[2];
} how = {.mtu = 1500, .size = 8, .frames = 44, .blocks = 8, .heads = 1, .total = 16, .rounds = 100, .core = {0, 1}};

static struct shared {
	struct path own[2], bulk[2];
	uint32_t ready;
	double seconds[ROUNDS_MAX], cpu[ROUNDS_MAX][2];
} *shared;

static unsigned me;
static struct transport_owner owner = {.options = {.net_hold = 1 << 20}}; /* as it comes */
static struct engine engine = {.owner = &owner};
static struct driver drivers[2];
static uint64_t counters[COUNTER_COUNT];
static struct link *bench_link, *links[2];
static uint8_t *buffer;
static uint32_t payload;          /* bytes of a frame */
/* frames in, next one, out of place; blocks asked for, requests in */
static uint64_t arrived, expected, repaired, asked, asks;
static unsigned pings;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint8_t *place(uint64_t frame)
{
	return buffer + frame % (BUFFER / payload) * payload;
}

/* ---- In the engine's place ------------------------------------------------------------------------- */

bool engine_frame(struct engine *e, struct link *link, const struct path *from, const uint8_t *frame, size_t length)
{
	uint64_t number;

	(void)e, (void)link, (void)from;
	if (!how.stream) {
		pings++;
		return true;
	}
	if (me == 0) {
		asks++;
		return true;
	}
	memcpy(&number, frame, sizeof(number));
	memcpy(place(number), frame + HEAD, length - HEAD);
	repaired += number != expected;
	expected = number + 1;
	arrived++;
	return true;
}

bool engine_frames(struct engine *e, struct link *link, const struct path *from, const uint8_t *frames, size_t length,
		   size_t segment)
{
	bool known = false;

	for (size_t at = 0; at < length; at += segment)
		known |= engine_frame(e, link, from, frames + at, length - at < segment ? length - at : segment);
	return known;
}

void scatter_foresee(struct engine *e, struct scatter *scatter)
{
	(void)e;
	scatter->frames = (unsigned)how.frames;
	scatter->count = 0;
	for (unsigned i = 0; i < scatter->frames; i++) {
		if (how.heads)
			scatter->iov[scatter->count++] = (struct iovec){scatter->heads[i], HEAD};
		scatter->iov[scatter->count++] = (struct iovec){place(expected + i), payload};
	}
	scatter->iov[scatter->count++] = (struct iovec){scatter->spill, SCATTER_SPILL};
}

void scatter_took(struct scatter *scatter, size_t bytes, uint64_t ns)
{
	(void)scatter;
	(void)bytes;
	(void)ns;
}

unsigned scatter_arrived(struct engine *e, struct link *link, const struct path *from, struct scatter *scatter,
			 size_t bytes, size_t segment)
{
	unsigned frames = (unsigned)((bytes + segment - 1) / segment);

	(void)e, (void)link, (void)from;
	scatter->known = true;
	for (unsigned i = 0; i < frames && how.heads; i++) {
		uint64_t number;

		memcpy(&number, scatter->heads[i], sizeof(number));
		repaired += number != expected + i;
	}
	expected += frames;
	arrived += frames;
	return frames;
}

void engine_refused(struct engine *e, struct link *link, const struct path *to)
{
	(void)e, (void)link, (void)to;
}

void engine_shrink(struct engine *e, struct link *link, const struct path *to, uint32_t frame_max)
{
	(void)e, (void)link, (void)to, (void)frame_max;
}

/* ---- Both sides ------------------------------------------------------------------------------------ */

static void barrier(void)
{
	uint32_t target = (__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST) + 1) / 2 * 2;

	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) < target)
		sched_yield();
}

static void must_send(const struct frame_out *frames, unsigned count)
{
	while (count > 0) {
		unsigned taken = bench_link->calls->send(bench_link, frames, count);

		frames += taken;
		count -= taken;
	}
}

static void latency(unsigned turns)
{
	uint8_t bytes[ENGINE_FRAME_MAX] = {0};
	struct frame_out frame = {.to = &shared->own[!me], .head = bytes, .head_length = (uint32_t)how.size};

	for (unsigned i = 0; i < turns; i++) {
		unsigned before = pings;

		if (me == 0)
			must_send(&frame, 1);
		while (pings == before)
			bench_link->calls->receive(bench_link, 64);
		if (me == 1)
			must_send(&frame, 1);
	}
}

/* The next block, from the frame of this number on. */
static void answer(uint64_t number)
{
	static uint64_t heads[FRAMES_MAX][HEAD / 8];
	struct frame_out frames[FRAMES_MAX];
	struct iovec bodies[FRAMES_MAX];

	for (unsigned i = 0; i < (unsigned)how.frames; i++, number++) {
		heads[i][0] = number;
		bodies[i] = (struct iovec){place(number), payload};
		frames[i] = (struct frame_out){.to = how.raw ? &shared->own[1] : &shared->bulk[1],
					       .head = (uint8_t *)heads[i],
					       .head_length = how.heads ? HEAD : 0,
					       .body = &bodies[i],
					       .body_length = payload,
					       .body_count = 1,
					       .channel = CHANNEL_BULK};
		if (!how.heads)
			frames[i].head = bodies[i].iov_base, frames[i].head_length = payload, frames[i].body_count = 0,
			frames[i].body_length = 0;
	}
	must_send(frames, (unsigned)how.frames);
}

static void serve(uint64_t blocks)
{
	uint64_t served = 0;

	asks = 0;
	while (served < blocks) {
		bench_link->calls->receive(bench_link, 64);
		for (; served < asks; served++)
			answer(served * (uint64_t)how.frames);
	}
}

static void fetch(uint64_t blocks)
{
	uint8_t request[64] = {0};
	struct frame_out frame = {.to = &shared->own[0], .head = request, .head_length = sizeof(request)};
	uint64_t done = 0;

	arrived = expected = asked = 0;
	while (done < blocks) {
		while (asked < blocks && asked < done + (uint64_t)how.blocks) {
			must_send(&frame, 1);
			asked++;
		}
		engine.blocks.outstanding = 1;
		bench_link->calls->receive(bench_link, 64);
		done = arrived / (uint64_t)how.frames;
	}
}

static struct link *open_end(void)
{
	struct interface interface;
	int error;

	pair_enter(me);
	error = interface_choose(pair_devices[me], &interface);
	if (!error && how.raw)
		error = link_raw_open(&engine, &interface, LINK_RAW_ETHERTYPE, 7 + me, counters, &bench_link);
	else if (!error && how.driver)
		error = driver_open(&drivers[me]);
	else if (!error)
		error = link_udp_open(&engine, &interface, 1, counters, &bench_link);
	if (!error && how.driver)
		error = link_ether_open(&engine, &drivers[me], &interface, LINK_RAW_ETHERTYPE, 7 + me, counters,
					&bench_link);
	if (error) {
		fprintf(stderr, "%s\n", thole_detail());
		exit(1);
	}
	return bench_link;
}

static void say_paths(void)
{
	shared->own[me] = shared->bulk[me] = bench_link->own;
	shared->bulk[me].bytes[16] = (uint8_t)(bench_link->bulk_port >> 8);
	shared->bulk[me].bytes[17] = (uint8_t)bench_link->bulk_port;
}

/* Two instructions a turn. */
static double loop_ns(void)
{
	uint64_t turns = 5000000;
	double start = now();

#if defined(__x86_64__)
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns));
#else
	while (turns--)
		__asm__ volatile("");
#endif
	return (now() - start) / 1e7 * 1e9;
}

/* To send a frame, and where somebody takes it, to take it, at best. */
static double cost_of(const struct frame_out *frame, bool taken)
{
	double best = 0;

	for (int round = 0; round < how.rounds; round++) {
		double start = now(), one;

		for (int i = 0; i < TURNS; i++) {
			unsigned before = pings;

			links[0]->calls->send(links[0], frame, 1);
			while (taken && pings == before)
				links[1]->calls->receive(links[1], 64);
		}
		one = (now() - start) / TURNS;
		best = best == 0 || one < best ? one : best;
	}
	return best * 1e9;
}

static void cost(void)
{
	uint8_t bytes[ENGINE_FRAME_MAX] = {0};
	struct frame_out frame = {.head = bytes, .head_length = (uint32_t)how.size};
	struct path nobody;
	double port, none;

	payload = 1024;
	buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (me = 0; me < 2; me++)
		links[me] = open_end();
	frame.to = &links[1]->own;
	pair_enter(0);
	printf("row small_%s %.0f\n", links[0]->calls->name, cost_of(&frame, true) / loop_ns());
	if (!how.driver)
		return;
	/* Of a frame that is nobody's, with a port at the interface and without. */
	nobody = links[1]->own;
	nobody.bytes[9] ^= 64;
	frame.to = &nobody;
	port = cost_of(&frame, false);
	links[1]->calls->close(links[1]);
	none = cost_of(&frame, false);
	printf("row nobody %.0f\n", (port - none) / loop_ns());
}

static void turn_to(unsigned which)
{
	me = which;
	bench_link = links[which];
}

/* Blocks, each asked for, sent and taken before the next: what a byte costs at best. */
static double bulk_of(uint64_t blocks)
{
	uint8_t request[64] = {0};
	struct frame_out ask = {.to = &shared->own[0], .head = request, .head_length = sizeof(request)};
	double start = now();

	asks = arrived = expected = 0;
	for (uint64_t block = 0; block < blocks; block++) {
		turn_to(1);
		must_send(&ask, 1);
		turn_to(0);
		while (asks <= block)
			bench_link->calls->receive(bench_link, 64);
		answer(block * (uint64_t)how.frames);
		turn_to(1);
		while (arrived < (block + 1) * (uint64_t)how.frames) {
			engine.blocks.outstanding = 1;
			bench_link->calls->receive(bench_link, 64);
		}
	}
	return (now() - start) / (double)(blocks * (uint64_t)how.frames * payload) * 1e9;
}

static void bulk(void)
{
	double best = 0, one;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(buffer, 1, BUFFER);
	for (me = 0; me < 2; me++) {
		links[me] = open_end();
		say_paths();
	}
	pair_enter(0);
	payload = links[0]->calls->frame_max(links[0], &shared->own[1]) - HEAD;
	for (int round = 0; round < how.rounds; round++) {
		one = bulk_of(((uint64_t)how.total << 20) / ((uint64_t)how.frames * payload));
		best = best == 0 || one < best ? one : best;
	}
	printf("row bulk_link_%s_%d %.4f\n", links[0]->calls->name, how.mtu, best / loop_ns());
}

static void side(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)how.core[me], &set);
	sched_setaffinity(0, sizeof(set), &set);
	bench_link = open_end();
	say_paths();
	barrier();
	payload = bench_link->calls->frame_max(bench_link, &shared->own[!me]) - (how.heads ? HEAD : 0);
	buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(buffer, (int)me, BUFFER);
	for (int round = 0; round < how.rounds; round++) {
		uint64_t blocks = ((uint64_t)how.total << 20) / ((uint64_t)how.frames * payload);
		double start, used;

		barrier();
		start = now();
		used = cpu();
		if (!how.stream)
			latency(TURNS);
		else if (me == 0)
			serve(blocks);
		else
			fetch(blocks);
		shared->seconds[round] = now() - start;
		shared->cpu[round][me] = cpu() - used;
		barrier();
	}
	if (counters[COUNTER_LINK_LOST] + counters[COUNTER_LINK_OVERFLOWS] + counters[COUNTER_LINK_SEPARATED] +
		    repaired >
	    0)
		printf("side %u: lost %ju overflows %ju separated %ju out of place %ju\n", me,
		       (uintmax_t)counters[COUNTER_LINK_LOST], (uintmax_t)counters[COUNTER_LINK_OVERFLOWS],
		       (uintmax_t)counters[COUNTER_LINK_SEPARATED], (uintmax_t)repaired);
	bench_link->calls->close(bench_link);
	exit(0);
}

static void parse(const char *text)
{
	static const struct { const char *name; int *value; } numbers[] = {
		{"mtu=", &how.mtu}, {"size=", &how.size}, {"frames=", &how.frames}, {"blocks=", &how.blocks},
		{"heads=", &how.heads}, {"total=", &how.total}, {"rounds=", &how.rounds},
	};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strncmp(text, numbers[i].name, strlen(numbers[i].name)) == 0) {
			*numbers[i].value = atoi(text + strlen(numbers[i].name));
			return;
		}
	if (sscanf(text, "cores=%d,%d", &how.core[0], &how.core[1]) == 2)
		return;
	if (strncmp(text, "link=", 5) == 0) {
		how.raw = strcmp(text + 5, "raw") == 0;
		how.driver = strcmp(text + 5, "driver") == 0;
	} else if (strcmp(text, "mode=cost") == 0) {
		how.cost = 1;
	} else if (strcmp(text, "mode=bulk") == 0) {
		how.bulk = how.stream = 1;
	} else if (strcmp(text, "mode=stream") == 0 || strcmp(text, "mode=latency") == 0) {
		how.stream = text[5] == 's';
	} else {
		exit(fprintf(stderr, "unknown: %s\n", text) > 0 ? 2 : 1);
	}
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* The machine may have other things to do: the best and the median. */
static void print_result(void)
{
	double gigabytes = how.total * 1.048576e-3, cpus[2] = {1e9, 1e9};

	for (int i = 0; i < how.rounds; i++)
		for (unsigned j = 0; j < 2; j++)
			cpus[j] = shared->cpu[i][j] < cpus[j] ? shared->cpu[i][j] : cpus[j];
	qsort(shared->seconds, (size_t)how.rounds, sizeof(double), compare);
	if (how.stream)
		printf("best %.2f median %.2f GB/s, cpu at best %.3f + %.3f s/GB\n", gigabytes / shared->seconds[0],
		       gigabytes / shared->seconds[how.rounds / 2], cpus[0] / gigabytes, cpus[1] / gigabytes);
	else
		printf("best %.2f median %.2f us one way\n", shared->seconds[0] / TURNS / 2 * 1e6,
		       shared->seconds[how.rounds / 2] / TURNS / 2 * 1e6);
}

int main(int count, char **arguments)
{
	pid_t children[2];
	int failed = 0, status;

	for (int i = 1; i < count; i++)
		parse(arguments[i]);
	if (how.rounds < 1 || how.rounds > ROUNDS_MAX || how.frames > FRAMES_MAX)
		return 2;
	pair_make((unsigned)how.mtu);
	if (how.cost || how.bulk) {
		if (how.cost)
			cost();
		else
			bulk();
		return 0;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (me = 0; me < 2; me++) {
		children[me] = fork();
		if (children[me] == 0)
			side();
	}
	for (unsigned i = 0; i < 2; i++)
		failed |= waitpid(children[i], &status, 0) < 0 || status != 0;
	if (!failed)
		print_result();
	return failed;
}
