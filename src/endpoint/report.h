/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: a file in memory by which one who started a program (thole-rank) sees that it uses Thole, and how much. Each
 * endpoint has a place in it and counts there instead of in its own memory; so what it counted outlives it, however it
 * ends, and costs nothing.
 *
 * The file is made, sealed in its size, and read by the starter; here it is only joined. Whatever is wrong with it, the
 * endpoint counts for itself: nothing fails for a report.
 */
#ifndef THOLE_ENDPOINT_REPORT_H
#define THOLE_ENDPOINT_REPORT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/counters.h"

enum {
	REPORT_PLACES = 256,     /* endpoints of a program that are counted; MPIs open one, or one a thread */
	REPORT_REASON_MAX = 256, /* bytes of a sentence, its NUL included */
	REPORT_MAGIC = 0x74687231
};

struct report {
	uint32_t magic;
	uint32_t counters; /* COUNTER_COUNT of the build that made it; another joins nothing */
	_Atomic uint32_t joined; /* places given away, and more */
	_Atomic uint32_t news;   /* another number after each of what follows; a futex */
	_Atomic uint32_t opened; /* endpoints, counted or not */
	_Atomic uint32_t failed; /* openings that failed; the first writes its sentence, */
	_Atomic uint32_t refused; /* and then this: 1 */
	char reason[REPORT_REASON_MAX];
	_Atomic uint32_t troubles; /* of open endpoints; the first writes its sentence, */
	_Atomic uint32_t troubled; /* and then this: 1 */
	char trouble[REPORT_REASON_MAX];
	uint64_t places[REPORT_PLACES][COUNTER_COUNT];
};

/* Fill in what is not zero in a new one. */
void report_init(struct report *report);

/* Where to count: a place in the file, which *report_p then is, or own. path: "" for none. */
uint64_t *report_join(const char *path, uint64_t *own, struct report **report_p);
void report_leave(struct report *report);

/* The endpoint that joined it is open. */
void report_opened(struct report *report);

/* Something of an open endpoint has failed. */
void report_trouble(struct report *report, const char *sentence);

/* Wait until there is more news than these; report_tell is more, which wakes who waits. */
void report_wait(struct report *report, uint32_t news);
void report_tell(struct report *report);

/* No endpoint could be opened, for this reason. */
void report_failure(const char *path, const char *reason);

#endif
