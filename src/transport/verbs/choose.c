/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/choose.h"

#include "base/random.h"

enum {
	CHOOSE_LATENCY_NS = 2000,
	CHOOSE_RATE = 3000,        /* bytes in a microsecond */
	CHOOSE_COPY_RATE = 10000,
	CHOOSE_CHUNK_NS = 400,     /* posting, completion and credit */
	CHOOSE_REGISTER_NS = 20000,
	CHOOSE_REGISTER_MIB_NS = 60000,
	CHOOSE_WEIGHT = 8,         /* a sample is one part in so many */
	CHOOSE_TRY = 64,           /* one choice in so many takes the other way, where that is not far off */
	CHOOSE_USES = 128,         /* of a registration that is kept, before anything is known */
	CHOOSE_GROWTH = PLAN_ONE + PLAN_ONE / 4, /* least: to get from the first chunk to the cap */
	CHOOSE_SAMPLES = 2,        /* of a way, before it is judged */
	CHOOSE_RECENT = 1024,      /* registrations after which the older count half */
};

static uint32_t class_of(uint64_t length)
{
	uint32_t class = length > 1 ? 64u - (uint32_t)__builtin_clzll(length - 1) : 0;

	return class < CHOOSE_CLASSES ? class : CHOOSE_CLASSES - 1;
}

void choose_init(struct choose *choose, uint64_t latency_ns, uint32_t rate)
{
	*choose = (struct choose){
		.latency_ns = latency_ns ? latency_ns : CHOOSE_LATENCY_NS,
		.rate = rate ? rate : CHOOSE_RATE,
		.chunk_ns = CHOOSE_CHUNK_NS,
		.register_ns = CHOOSE_REGISTER_NS,
		.register_mib_ns = CHOOSE_REGISTER_MIB_NS,
	};
}

static void mean_add(struct choose_mean *mean, uint64_t ns)
{
	uint64_t weight = mean->samples < CHOOSE_WEIGHT - 1 ? mean->samples + 1 : CHOOSE_WEIGHT;

	mean->ns = mean->ns - mean->ns / weight + ns / weight;
	mean->samples++;
}

/* ---- What is measured ----------------------------------------------------------------------------- */

void choose_copied(struct choose *choose, uint64_t bytes, uint64_t whole, uint64_t ns)
{
	uint32_t *rate = &choose->copy_rate[class_of(whole)], now;

	if (bytes < PLAN_UNIT || ns == 0)
		return;
	now = bytes * 1000 / ns < UINT32_MAX ? (uint32_t)(bytes * 1000 / ns) : UINT32_MAX;
	*rate = *rate ? *rate - *rate / CHOOSE_WEIGHT + now / CHOOSE_WEIGHT : now;
}

void choose_registered(struct choose *choose, uint64_t bytes, uint64_t ns)
{
	uint64_t length_ns = (bytes >> 10) * choose->register_mib_ns >> 10;

	/* What is long says what length costs, what is short the rest. */
	if (bytes >= 1 << 20 && ns > choose->register_ns)
		choose->register_mib_ns = (choose->register_mib_ns + (ns - choose->register_ns) / (bytes >> 20)) / 2;
	else if (ns > length_ns)
		choose->register_ns = (choose->register_ns + ns - length_ns) / 2;
	choose->entered++;
	if (choose->entered >= CHOOSE_RECENT) {
		choose->entered /= 2;
		choose->found /= 2;
	}
}

uint32_t choose_copy_rate(const struct choose *choose, uint64_t whole)
{
	uint32_t class = class_of(whole);

	for (uint32_t distance = 0; distance < CHOOSE_CLASSES; distance++) {
		if (distance <= class && choose->copy_rate[class - distance])
			return choose->copy_rate[class - distance];
		if (class + distance < CHOOSE_CLASSES && choose->copy_rate[class + distance])
			return choose->copy_rate[class + distance];
	}
	return CHOOSE_COPY_RATE;
}

/* ---- Ways ----------------------------------------------------------------------------------------- */

static uint64_t wire_ns(const struct choose *choose, uint64_t length)
{
	return length * 1000 / choose->rate;
}

static uint64_t register_ns(const struct choose *choose, uint64_t length)
{
	return choose->register_ns + (length >> 10) * choose->register_mib_ns / 1024;
}

/* Before it was measured. */
static uint64_t model_ns(const struct choose *choose, enum choose_way way, uint64_t length, bool found)
{
	uint64_t copy_ns = length * 1000 / choose_copy_rate(choose, length), ns = wire_ns(choose, length);
	uint64_t trip_ns = 2 * choose->latency_ns;

	if (way == CHOOSE_READ)
		return trip_ns + ns + (found ? 0 : trip_ns + register_ns(choose, length));
	return trip_ns + (copy_ns > ns ? copy_ns : ns) + 4 * choose->chunk_ns;
}

static const struct choose_mean *mean_of(const struct choose *choose, enum choose_way way, uint32_t class, bool found)
{
	return way == CHOOSE_READ ? &choose->read[found ? CHOOSE_BOTH : CHOOSE_NONE][class] : &choose->pipeline[class];
}

static uint64_t expect_ns(const struct choose *choose, enum choose_way way, uint64_t length, bool found)
{
	uint32_t class = class_of(length);
	const struct choose_mean *mean = mean_of(choose, way, class, found);

	/* Lengths of a class differ: means are of the longest of it. */
	return mean->samples ? (uint64_t)((double)mean->ns * (double)length / (double)(UINT64_C(1) << class))
			     : model_ns(choose, way, length, found);
}

enum choose_way choose_way(struct choose *choose, uint64_t length, bool can_read, bool found)
{
	uint32_t class = class_of(length);
	uint64_t read_ns, pipeline_ns;
	enum choose_way best, other;
	bool close;

	if (!can_read)
		return CHOOSE_PIPELINE;
	read_ns = expect_ns(choose, CHOOSE_READ, length, found);
	pipeline_ns = expect_ns(choose, CHOOSE_PIPELINE, length, found);
	best = read_ns <= pipeline_ns ? CHOOSE_READ : CHOOSE_PIPELINE;
	other = best == CHOOSE_READ ? CHOOSE_PIPELINE : CHOOSE_READ;
	close = read_ns < 2 * pipeline_ns && pipeline_ns < 2 * read_ns;
	choose->choices[class]++;
	if (close && mean_of(choose, best, class, found)->samples >= CHOOSE_SAMPLES &&
	    (mean_of(choose, other, class, found)->samples < CHOOSE_SAMPLES ||
	     choose->choices[class] % CHOOSE_TRY == 0))
		return other;
	return best;
}

void choose_measured(struct choose *choose, enum choose_way way, bool found, uint64_t length, uint64_t ns)
{
	uint32_t class = class_of(length);

	ns = (uint64_t)((double)ns * (double)(UINT64_C(1) << class) / (double)(length ? length : 1));
	mean_add(way == CHOOSE_READ ? &choose->read[found ? CHOOSE_BOTH : CHOOSE_NONE][class]
				    : &choose->pipeline[class], ns);
}

bool choose_keep(struct choose *choose, uint64_t address, uint64_t length)
{
	uint64_t hash = random_mix(address + random_mix(length)) | 1, *seen = &choose->seen[hash % CHOOSE_SEEN];
	uint64_t pipeline_ns = expect_ns(choose, CHOOSE_PIPELINE, length, false);
	uint64_t read_ns = expect_ns(choose, CHOOSE_READ, length, true);
	uint64_t uses = ((uint64_t)choose->found + CHOOSE_USES) / (choose->entered + 1);
	bool again = *seen == hash;

	*seen = hash;
	return again && pipeline_ns > read_ns && (pipeline_ns - read_ns) * uses > register_ns(choose, length);
}

/* ---- Plans ---------------------------------------------------------------------------------------- */

static uint64_t root(uint64_t square)
{
	uint64_t low = 0, high = UINT64_C(1) << 31;

	while (low < high) {
		uint64_t middle = (low + high + 1) / 2;

		if (middle * middle <= square)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

void choose_plan(const struct choose *choose, uint64_t length, bool flags, uint32_t longest, struct plan *plan_p)
{
	uint64_t copy_rate = choose_copy_rate(choose, length), first = copy_rate * 2 * choose->latency_ns / 1000;
	uint64_t growth = copy_rate * PLAN_ONE / choose->rate, cap = longest;

	/* Without flags the last chunk is copied when all of it is here: chunks are as long as that and the cost of
	 * their number make best (equation 3). */
	if (!flags) {
		cap = root(length * choose->chunk_ns / 2000 * copy_rate);
		if (first > cap)
			first = cap;
	}
	if (growth < CHOOSE_GROWTH)
		growth = CHOOSE_GROWTH;
	if (growth > PLAN_GROWTH_MAX)
		growth = PLAN_GROWTH_MAX;
	first = first / PLAN_UNIT * PLAN_UNIT;
	cap = (cap + PLAN_UNIT - 1) / PLAN_UNIT * PLAN_UNIT;
	if (first < PLAN_UNIT)
		first = PLAN_UNIT;
	if (cap > longest)
		cap = longest;
	*plan_p = (struct plan){
		.first = (uint32_t)(first < cap ? first : cap),
		.cap = (uint32_t)cap,
		.growth = (uint32_t)growth,
		.flags = flags,
	};
}
