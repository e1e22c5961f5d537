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
	CHOOSE_TRY = 64,           /* one choice in so many takes the other way, or more where that is far off: */
	CHOOSE_FAR = 64,           /* as many times more as it seems dearer, up to so many */
	CHOOSE_REGISTER_STEP_NS = 1000, /* what registering takes is seen to grow by so much and three times, at most */
	CHOOSE_USES = 128,         /* of a registration that is kept, before anything is known */
	CHOOSE_GROWTH = PLAN_ONE + PLAN_ONE / 4, /* least: to get from the first chunk to the cap */
	CHOOSE_SAMPLES = 2,        /* of a way, before it is judged */
	CHOOSE_RECENT = 1024,      /* registrations after which the older count half */
	CHOOSE_TRIP_MOST_NS = 1000000, /* a peer that answers later than that computes */
	CHOOSE_CAP_MODEL = CHOOSE_CAPS / 2, /* number of the model's cap */
	CHOOSE_CARRIED_LEAST = 1 << 18, /* bytes, to say something of the wire */
};

static uint32_t class_of(uint64_t length)
{
	uint32_t class = length > 1 ? 64u - (uint32_t)__builtin_clzll(length - 1) : 0;

	return class < CHOOSE_CLASSES ? class : CHOOSE_CLASSES - 1;
}

void choose_init(struct choose *choose, uint64_t latency_ns, uint32_t rate)
{
	*choose = (struct choose){
		.trip_ns = 2 * (latency_ns ? latency_ns : CHOOSE_LATENCY_NS),
		.hint_rate = rate,
		.chunk_ns = CHOOSE_CHUNK_NS,
		.register_ns = CHOOSE_REGISTER_NS,
		.register_mib_ns = CHOOSE_REGISTER_MIB_NS,
	};
}

/* Who was stopped or computed meanwhile says little of the way: of the first ones the shorter counts, then what is much
 * longer as twice the mean. */
static void mean_add(struct choose_mean *mean, uint64_t ns)
{
	uint64_t weight = mean->samples < CHOOSE_WEIGHT - 1 ? mean->samples + 1 : CHOOSE_WEIGHT;

	if (mean->samples >= CHOOSE_SAMPLES)
		mean->ns = mean->ns - mean->ns / weight + (ns < 2 * mean->ns ? ns : 2 * mean->ns) / weight;
	else if (mean->samples == 0 || ns < mean->ns)
		mean->ns = ns;
	mean->samples++;
}

/* One choice in so many takes what seems dearer: what that costs is a small part, however much dearer it is. */
static uint32_t choose_every(uint64_t best_ns, uint64_t other_ns)
{
	uint64_t times = other_ns / (best_ns + 1);

	return CHOOSE_TRY * (times < 1 ? 1 : times < CHOOSE_FAR ? (uint32_t)times : CHOOSE_FAR);
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

/* Half way to what was seen; who was stopped meanwhile says little. */
static uint64_t register_mean(uint64_t mean_ns, uint64_t ns)
{
	uint64_t most_ns = 3 * mean_ns + CHOOSE_REGISTER_STEP_NS;

	return (mean_ns + (ns < most_ns ? ns : most_ns)) / 2;
}

void choose_registered(struct choose *choose, uint64_t bytes, uint64_t ns)
{
	uint64_t length_ns = (bytes >> 10) * choose->register_mib_ns >> 10;

	/* What is long says what length costs, what is short the rest. */
	if (bytes >= 1 << 20 && ns > choose->register_ns)
		choose->register_mib_ns =
			register_mean(choose->register_mib_ns, (ns - choose->register_ns) / (bytes >> 20));
	else if (ns > length_ns)
		choose->register_ns = register_mean(choose->register_ns, ns - length_ns);
	choose->entered++;
	if (choose->entered >= CHOOSE_RECENT) {
		choose->entered /= 2;
		choose->found /= 2;
	}
}

/* Peers answer late where they compute, so what is shorter counts more. Where the answer was there when the first chunk
 * was copied, that took too long. */
void choose_trip(struct choose *choose, uint64_t ns, bool busy)
{
	uint64_t trip_ns = choose->trip_ns;
	bool early = choose->trips < 2 * CHOOSE_WEIGHT;

	if (ns < trip_ns)
		trip_ns = busy ? ns : trip_ns - (trip_ns - ns) / 2;
	if (busy)
		trip_ns -= trip_ns / (early ? 4 : 8);
	else if (ns > trip_ns)
		trip_ns += (ns - trip_ns < trip_ns ? ns - trip_ns : trip_ns) / (early ? 4 : 32);
	choose->trip_ns = trip_ns < CHOOSE_TRIP_MOST_NS ? trip_ns : CHOOSE_TRIP_MOST_NS;
	choose->trips++;
}

/* Copies and other traffic can make it less than the wire has, nothing more. */
void choose_carried(struct choose *choose, uint64_t bytes, uint64_t ns)
{
	uint64_t rate = ns ? bytes * 1000 / ns : 0;

	if (bytes < CHOOSE_CARRIED_LEAST || rate == 0 || rate > UINT32_MAX)
		return;
	if (rate > choose->seen_rate)
		choose->seen_rate = (uint32_t)rate;
	else
		choose->seen_rate -= (uint32_t)((choose->seen_rate - rate) / CHOOSE_TRY);
}

uint32_t choose_rate(const struct choose *choose)
{
	uint32_t hint = choose->hint_rate, seen = choose->seen_rate;

	if (seen == 0)
		return hint ? hint : CHOOSE_RATE;
	/* What an adapter says is exact, if it is true. */
	return hint - hint / 6 <= seen && seen <= hint + hint / 6 ? hint : seen;
}

/* Bytes in a microsecond, of something so long. */
static uint32_t choose_copy_rate(const struct choose *choose, uint64_t whole)
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
	return length * 1000 / choose_rate(choose);
}

static uint64_t register_ns(const struct choose *choose, uint64_t length)
{
	return choose->register_ns + (length >> 10) * choose->register_mib_ns / 1024;
}

/* Before it was measured. */
static uint64_t model_ns(const struct choose *choose, enum choose_way way, uint64_t length, bool found)
{
	uint64_t copy_ns = length * 1000 / choose_copy_rate(choose, length), ns = wire_ns(choose, length);
	uint64_t trip_ns = choose->trip_ns;

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
	uint32_t every;
	bool close;

	if (!can_read)
		return CHOOSE_PIPELINE;
	read_ns = expect_ns(choose, CHOOSE_READ, length, found);
	pipeline_ns = expect_ns(choose, CHOOSE_PIPELINE, length, found);
	best = read_ns <= pipeline_ns ? CHOOSE_READ : CHOOSE_PIPELINE;
	other = best == CHOOSE_READ ? CHOOSE_PIPELINE : CHOOSE_READ;
	close = read_ns < 2 * pipeline_ns && pipeline_ns < 2 * read_ns;
	choose->choices[class]++;
	every = best == CHOOSE_READ ? choose_every(read_ns, pipeline_ns) : choose_every(pipeline_ns, read_ns);
	if (mean_of(choose, best, class, found)->samples >= CHOOSE_SAMPLES &&
	    ((close && mean_of(choose, other, class, found)->samples < CHOOSE_SAMPLES) ||
	     choose->choices[class] % every == 0))
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
	uint64_t cost_ns = register_ns(choose, length);
	bool again = *seen == hash;

	*seen = hash;
	if (!again || pipeline_ns <= read_ns)
		return false;
	return (pipeline_ns - read_ns) * uses > cost_ns || ++choose->unkept % choose_every(pipeline_ns, cost_ns) == 0;
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

/* Without flags the last chunk is copied when all of it is here: chunks are as long as that and the cost of their
 * number make best (equation 3). */
static uint32_t plan_cap(const struct choose *choose, uint64_t length, bool flags, uint32_t longest)
{
	uint64_t cap = longest;

	if (!flags)
		cap = root(length * choose->chunk_ns / 2000 * choose_copy_rate(choose, length));
	cap = (cap + PLAN_UNIT - 1) / PLAN_UNIT * PLAN_UNIT;
	return cap < longest ? (uint32_t)cap : longest;
}

void choose_plan(const struct choose *choose, uint64_t length, bool flags, uint32_t longest, struct plan *plan_p)
{
	uint64_t copy_rate = choose_copy_rate(choose, length), first = copy_rate * choose->trip_ns / 1000;
	uint64_t growth = copy_rate * PLAN_ONE / choose_rate(choose);
	uint32_t told = choose->told_cap[class_of(length)];
	uint32_t cap = told ? told : plan_cap(choose, length, flags, longest);

	if (cap > longest) /* it was another peer that told it, whose bays are longer */
		cap = longest;

	if (!flags && first > cap)
		first = cap;
	if (growth < CHOOSE_GROWTH)
		growth = CHOOSE_GROWTH;
	if (growth > PLAN_GROWTH_MAX)
		growth = PLAN_GROWTH_MAX;
	first = first / PLAN_UNIT * PLAN_UNIT;
	if (first < PLAN_UNIT)
		first = PLAN_UNIT;
	*plan_p = (struct plan){
		.first = (uint32_t)(first < longest ? first : longest),
		.cap = cap,
		.growth = (uint32_t)growth,
		.flags = flags,
	};
}

/* ---- Caps ----------------------------------------------------------------------------------------- */

/* In steps of the square root of 2. */
static uint32_t cap_of(const struct plan *model, uint32_t longest, uint32_t number)
{
	uint32_t up = CHOOSE_CAP_MODEL + number; /* steps, from a model of 1 >> CHOOSE_CAP_MODEL on */
	uint64_t cap = (uint64_t)model->cap << up / 2 >> CHOOSE_CAP_MODEL;

	cap = (up % 2 ? cap * 181 / 128 : cap) / PLAN_UNIT * PLAN_UNIT;

	if (cap > longest)
		return longest;
	return cap > PLAN_UNIT ? (uint32_t)cap : PLAN_UNIT;
}

/* The best, or one beside it that was not seen enough, or not for long. */
static uint32_t cap_try(const struct choose *choose, uint32_t class, const struct plan *model, uint32_t longest)
{
	const struct choose_mean *means = choose->caps[class];
	uint32_t best = CHOOSE_CAP_MODEL, turn = choose->pulls[class] / CHOOSE_TRY % 2;

	for (uint32_t i = 0; i < CHOOSE_CAPS; i++)
		if (means[i].samples && means[best].samples && means[i].ns < means[best].ns)
			best = i;
	for (uint32_t side = 0; side < 2 && means[best].samples >= CHOOSE_SAMPLES; side++) {
		uint32_t other = side ? best + 1 : best - 1;

		if (other < CHOOSE_CAPS && cap_of(model, longest, other) != cap_of(model, longest, best) &&
		    (means[other].samples < CHOOSE_SAMPLES ||
		     (choose->pulls[class] % CHOOSE_TRY == 0 && side == turn)))
			return other;
	}
	return best;
}

uint32_t choose_cap(struct choose *choose, uint64_t length, uint32_t longest, struct plan *plan)
{
	uint32_t class = class_of(length), number;
	struct plan model = {.cap = plan_cap(choose, length, plan->flags, longest)};

	choose->pulls[class]++;
	number = cap_try(choose, class, &model, longest);
	plan->cap = cap_of(&model, longest, number);
	return number;
}

/* What was slow by chance counts little. */
void choose_cap_measured(struct choose *choose, uint64_t length, uint32_t cap, uint64_t ns)
{
	uint32_t class = class_of(length);
	struct choose_mean *mean = &choose->caps[class][cap];

	ns = (uint64_t)((double)ns * (double)(UINT64_C(1) << class) / (double)(length ? length : 1));
	if (mean->samples == 0 || ns < mean->ns)
		mean->ns = ns;
	else
		mean->ns += (ns - mean->ns < mean->ns / 4 ? ns - mean->ns : mean->ns / 4) / CHOOSE_WEIGHT;
	mean->samples++;
}

void choose_cap_told(struct choose *choose, uint64_t length, uint32_t cap)
{
	choose->told_cap[class_of(length)] = cap;
}
