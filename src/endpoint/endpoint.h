/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint: a whole endpoint - what the message layer has of it (message/state.h), and around that what opens and
 * closes it, and lets it progress, wait and sleep. What is around it is used with its lock held, too.
 */
#ifndef THOLE_ENDPOINT_ENDPOINT_H
#define THOLE_ENDPOINT_ENDPOINT_H

#include <pthread.h>

#include "endpoint/cadence.h"
#include "endpoint/contention.h"
#include "endpoint/patience.h"
#include "memory/driver.h"
#include "message/state.h"

struct endpoint {
	struct thole_endpoint core;

	/* progress, and waiting for it (turn.c, wait.c, sleep.c, stand_in.c) */
	uint32_t idle;               /* progress calls in a row that found nothing */
	uint32_t calls;              /* that found something, */
	uint32_t idle_calls;         /* and that did not */
	bool used;                   /* something has come by it: it is one of thole_endpoints_used */
	uint32_t plain;              /* calls of a program's that only count what they do not find (endpoint_plain) */
	/* endpoint_turns when thole_arm said 0: as long as it is that, a loop may sleep; 0: it did not, or others have
	 * looked since, and the loop is roused soon */
	uint32_t armed_at;
	uint64_t armed_starts;       /* endpoint_starts then */
	uint32_t armed_calls;        /* and calls, or when the loop was last roused since others had found something */
	pthread_t armed_by;          /* whose loop it is, which has made no call since: */
	bool armed;                  /* is there one? Only where threads share the endpoint */
	pid_t armed_thread;          /* armed_by, to the kernel */
	uint64_t loops_until_ns;     /* until then several threads' loops may sleep; 0: one, or none */
	bool beside;                 /* the progress thread, or who tends, had a turn since thole_arm was last called */
	uint32_t found_live;         /* requests after the last call, if it found something */
	struct cadence cadence;      /* of idle calls' readings of the clock, and of maintenance */
	struct patience patience;    /* of callers that poll, */
	struct contention contention; /* and whether others want their core */
	uint64_t switches;           /* from a thread to others, when a yield was due last: */
	pthread_t switches_of;       /* from this one */
	int timer_fd;                /* in base.wait_fd, for thole_arm; -1: not needed so far */
	bool roused;                 /* it was set by endpoint_rouse, and not looked at since, */
	uint64_t rouse_ns;           /* for this time; 0: at once, */
	uint64_t roused_ns;          /* which was or is then */
	struct watcher timer;
	uint64_t drain_ns;           /* when endpoint_drain was last called; 0: it is not to be closed, */
	uint64_t drained_ns;         /* and for how long it has waited */
	uint64_t quiet_ns;           /* since when polls have found nothing though senders ask, */
	uint64_t quiet_seen;         /* by what had arrived then, */
	uint32_t quiet_idle;         /* and by how many had found nothing when it was looked at last */
	uint64_t await_ns;           /* when peers that only receives wait for are connected to; 0: nobody looked */
	uint64_t answer_ns;          /* when it is tried again to connect to one of those that are to be answered */
	struct progress_thread *thread;
	uint32_t generation;         /* forks that the process which opened it had come by */

	struct driver driver;        /* what core.base.driver is, where it is there */

	uint64_t own_counters[COUNTER_COUNT];
	/* holds the counters instead, where others read them; NULL: nobody asked for one */
	struct report *report;
};

/* Used ones of this process. MPIs load front ends that each have a copy of this library, as Open MPI UCX's for messages
 * and libfabric's for windows; those whose exports.map names this symbol have one count, the others one each. */
extern uint32_t thole_endpoints_used THOLE_API;

static inline struct endpoint *endpoint_of(const struct thole_endpoint *core)
{
	return container_of(core, struct endpoint, core);
}

/* Progress once, with the lock held; idle progress relaxes (pauses, yields, maintains). */
int endpoint_progress(struct thole_endpoint *endpoint);

/*
 * An endpoint without a system call, a clock or a random number, for the simulator: endpoint_create, then
 * datagram_attach (transport/datagram/datagram.h), then endpoint_advance whenever a frame has arrived for it, its
 * deadline has come, or something was started on it. In between all of thole.h may be called but what waits or sleeps
 * (thole_wait, thole_wait_any, thole_sleep, thole_fd, thole_arm); thole_progress and what tests or probes do their
 * step at the time of the last advance. It ends by thole_endpoint_close, which tells its peers but waits for nothing
 * (wait for endpoint_drained before), or by endpoint_vanish, as a process that is killed. thole_endpoint_open is made
 * of the same.
 */
/* attr->options is not looked at: options are given (options_defaults). salt seeds hashing. parts.network is filled in
 * by the owner. The endpoint is one thread's. Errors: MEMORY. */
int endpoint_create(const struct thole_endpoint_attr *attr, const struct options *options,
		    const struct address_parts *parts, uint64_t salt, struct thole_endpoint **endpoint_p);
/* One step at this time: frames that have arrived are handled, timers run out, what waits is pushed and sent. Returns
 * how many events were handled; a step handles a bounded number, so call again until it returns 0. */
int endpoint_advance(struct thole_endpoint *endpoint, uint64_t now_ns);
/* When it has to be advanced next though nothing arrives; UINT64_MAX: never. */
uint64_t endpoint_deadline(const struct thole_endpoint *endpoint);
/* Whether all that was sent has reached its peers, but those that are gone. */
bool endpoint_drained(const struct thole_endpoint *endpoint);
/* Whether what has not, gets there though this process does nothing, but where something goes wrong. */
bool endpoint_delivers(const struct thole_endpoint *endpoint);
/* Whether something is under way, and large messages move while the program computes if only they are matched. */
bool endpoint_moves_alone(const struct thole_endpoint *endpoint);
/* Somebody waits for that: peers are to say it at once. */
void endpoint_hasten(struct thole_endpoint *endpoint);
/* Before closing peers must get what was reported complete: progress once. Whether they have, or it took too long. A
 * process that was stopped meanwhile, or did something else, let nothing get on, so a pause between two calls is no
 * more than a part of close_timeout. */
enum { DRAIN_PAUSES = 8 };
bool endpoint_drain(struct thole_endpoint *endpoint);
/* Whether this is a child, where an object's destructor drains or closes its parent's: that has none of its shared
 * memory here, and what it was to send its parent does. */
bool endpoint_is_parents(const struct thole_endpoint *endpoint);
/* Free everything, and say nothing to anybody. */
void endpoint_vanish(struct thole_endpoint *endpoint);

/* The progress thread (stand_in.c). Errors: MEMORY, SYSTEM. */
int progress_thread_start(struct thole_endpoint *endpoint);
/* Does nothing where there is none. Without the lock. */
void progress_thread_stop(struct thole_endpoint *endpoint);

#endif
