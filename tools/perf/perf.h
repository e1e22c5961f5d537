/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h - what the parts of thole-perf share: the plan, the memory that both ranks see, one rank.
 *
 * thole-perf measures latency and bandwidth between two processes without MPI. On one host it measures beside them
 * the bare cache-line ping-pong, below which nothing can go on that machine; between two hosts (one listens,
 * the other names it) a ping-pong over TCP, which is what others would use. It prints one JSON object a line:
 * a sample for each test, size and round. Judging samples (best, median, tables) is left to `thole perf`.
 *
 * Messages go through thole.h, or through MX, or both by turns in one run, so that the two can be compared.
 *
 * main.c       arguments, and two ranks on this host
 * rank.c       what a rank goes through: tests, sizes, rounds
 * measure.c    what all that is timed has in common
 * loops.h      the loops that carry messages
 * api_thole.c  these loops through thole.h         api_mx.c  and through MX
 * network.c    two hosts: the listener, the client, and the TCP connection that ranks agree by
 */
#ifndef THOLE_PERF_H
#define THOLE_PERF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "thole.h"

enum {
	PERF_SIZES_MAX = 64,    /* sizes of one run */
	PERF_OPTIONS_MAX = 64,  /* --option arguments, and the job key */
	PERF_NETWORK_OPTIONS = 3, /* of a network, at most */
	PERF_ITERATIONS_MAX = 1000000,
	PERF_CORES_MAX = 8192,  /* numbers of cores that the kernel can have at most, and asks room for */
	PERF_PORT = 7471,       /* of the TCP connection between two hosts, unless --port says otherwise */
	PERF_WINDOW_MAX = 1024, /* sends under way at once in the bandwidth test */
	PERF_LINE = 128,        /* bytes that two cores never share by accident: two lines, for the
				   prefetcher that fetches them in pairs */
};

enum perf_test {
	PERF_BARE = 1 << 0,      /* the cache-line ping-pong, without Thole; between hosts: TCP */
	PERF_LATENCY = 1 << 1,   /* ping-pong; half of the round trip */
	PERF_BANDWIDTH = 1 << 2, /* a window of sends, then one answer */
	PERF_RATE = 1 << 3,      /* the same with 8 bytes: messages a second */
};

/* The programming interfaces that messages can go through. */
enum perf_api_bit {
	PERF_API_THOLE = 1 << 0,
	PERF_API_MX = 1 << 1,
	PERF_APIS = 2, /* how many */
};

/* A network by its name, and the options that make endpoints use it and nothing else. */
struct perf_network {
	const char *name;
	const char *options[PERF_NETWORK_OPTIONS]; /* as many as there are before NULL */
};

struct perf_plan {
	uint64_t sizes[PERF_SIZES_MAX]; /* bytes */
	size_t size_count;
	uint64_t size_max;
	unsigned tests;         /* enum perf_test */
	unsigned apis;          /* enum perf_api_bit */
	unsigned rounds;        /* all tests and sizes are gone through so many times */
	unsigned window;        /* sends under way at once */
	uint64_t sample_ns;     /* how long one sample should take, at least one iteration */
	uint64_t iterations;    /* of one sample; 0: as many as sample_ns allows */
	uint64_t patience_ns;   /* a wait that takes longer is an error */
	int cores[2];           /* where the ranks run */
	bool shared;            /* buffers are of thole_alloc */
	bool write;             /* write the whole buffer before each send of the ping-pong */
	/* Between hosts */
	const char *host;       /* where the listener is; NULL: no other host */
	const char *bind;       /* listener: the address to listen at; NULL: all */
	bool listen;            /* wait for clients instead of measuring */
	bool once;              /* listener: end with the first client */
	unsigned port;
	uint64_t connect_ns;    /* client: how long the listener may take to answer */
	uint64_t size_limit;    /* listener: the largest message that a client may ask for */
	const struct perf_network *network; /* NULL: as the options say */
	/* For thole_endpoint_attr; there is room for the network's. */
	const char *options[PERF_OPTIONS_MAX + PERF_NETWORK_OPTIONS + 1];
	size_t option_count;
	const char *mx_library; /* path of libmyriexpress.so; NULL: there is none */
};

/* Memory that both ranks map. Each line of the bare test is written by one rank only. */
struct perf_shared {
	_Alignas(PERF_LINE) _Atomic uint64_t ping;         /* written by rank 0 */
	_Alignas(PERF_LINE) _Atomic uint64_t pong;         /* written by rank 1 */
	_Alignas(PERF_LINE) _Atomic uint64_t arrived[2];   /* the barrier: how often each rank came to it */
	_Alignas(PERF_LINE) _Atomic uint64_t agreed;       /* what rank 0 has decided */
	_Atomic int failed;                                /* a rank has given up: the other must not wait */
};

struct perf_rank;

/* One interface for messages, for a rank whose buffers are there. All that return int return 0, or -1 after a
 * message. */
struct perf_api {
	const char *name;
	int (*open)(struct perf_rank *rank); /* and find the other rank */
	void (*close)(struct perf_rank *rank); /* also what open has left half done */
	void (*progress)(const struct perf_rank *rank);
	/* Exchange messages of this size in both directions and compare every byte. */
	int (*verify)(struct perf_rank *rank, uint64_t size);
	/* Each sets *ns_p to a sample's whole duration, for so many iterations. */
	int (*latency)(struct perf_rank *rank, uint64_t size, uint64_t iterations, uint64_t *ns_p);
	int (*bandwidth)(struct perf_rank *rank, uint64_t size, unsigned window, uint64_t iterations, uint64_t *ns_p);
};

extern const struct perf_api perf_api_thole; /* api_thole.c */
extern const struct perf_api perf_api_mx;    /* api_mx.c */

struct perf_rank {
	const struct perf_plan *plan;
	struct perf_shared *shared;
	const struct perf_api *apis[PERF_APIS]; /* those that are open */
	unsigned api_count;
	struct thole_endpoint *endpoint; /* of perf_api_thole; NULL: not open */
	uint32_t peer;
	int rank;
	bool one_core; /* both ranks on one core of one host: whoever waits must yield */
	bool meeting;  /* between hosts: nothing has crossed by Thole yet */
	int in, out;   /* to the other rank: pipes, or the TCP connection twice */
	const char *other; /* the host of the other rank, as it is known here; NULL: this one */
	unsigned char *out_buffer; /* what is sent: size_max bytes of this rank's pattern */
	unsigned char *in_buffer;  /* what arrives */
};

static inline uint64_t perf_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* How long a wait for a message may take: whether Thole reaches another host at all shows as soon as that host has
 * answered by TCP. */
static inline uint64_t perf_patience(const struct perf_rank *rank)
{
	return rank->meeting ? rank->plan->connect_ns : rank->plan->patience_ns;
}

/* ---- rank.c ------------------------------------------------------------------------------------- */

/* Go through a whole plan. Returns 0, or -1 after a message. */
int perf_rank_run(struct perf_rank *rank);
/* Run on this core only. Returns 0, or -1 after a message. */
int perf_pin(const struct perf_rank *rank, int core);
/* Give the other rank so many bytes, and take as many from it. Returns 0, or -1. */
int perf_swap(struct perf_rank *rank, const void *mine, void *theirs, size_t length);

/* ---- main.c ------------------------------------------------------------------------------------- */

/* Take over one setting of a plan by its name. Returns 0, or -1 after a message: no such name, or a bad value. */
int perf_plan_set(struct perf_plan *plan, const char *name, const char *value);

/* ---- measure.c ---------------------------------------------------------------------------------- */

/* Meet the other rank. Returns 0, or -1 where it has given up. */
int perf_barrier(struct perf_rank *rank);

/* Make rank 0's value both ranks'. Returns 0, or -1 where the other has given up. */
int perf_agree(struct perf_rank *rank, uint64_t *value_p);

/* One step of waiting for the other rank outside Thole. Returns -1 where it has given up. */
int perf_relax(const struct perf_rank *rank, uint64_t *spins);

/* Progress of all that is open. */
void perf_progress(const struct perf_rank *rank);

/* The word to and fro; sets *ns_p to a sample's whole duration. Returns 0, or -1 after a message. */
int perf_bare(struct perf_rank *rank, uint64_t iterations, uint64_t *ns_p);

/* What out_buffer is to have, and in_buffer from the other rank. Check returns 0, or -1 after a message. */
void perf_pattern_fill(struct perf_rank *rank, uint64_t size, unsigned salt);
int perf_pattern_check(struct perf_rank *rank, uint64_t size, unsigned salt);

/* Say what went wrong, on standard error and to the other host; always -1. */
int perf_complain(const struct perf_rank *rank, const char *what, uint64_t size, int error);
int perf_complain_text(const struct perf_rank *rank, const char *what, uint64_t size, const char *why);

/* ---- network.c ---------------------------------------------------------------------------------- */

/* The bytes that a message over the control connection begins with. */
enum perf_word {
	PERF_WORD_ADDRESS = 'a',
	PERF_WORD_BARRIER = 'b',
	PERF_WORD_ERROR = 'e',  /* the sender has given up; a text follows up to the end */
	PERF_WORD_INFO = 'i',
	PERF_WORD_NUMBER = 'n',
	PERF_WORD_PING = 't',
};

/* One message to the other host's rank, or the next one from it, which must be of this kind and length. Waiting makes
 * progress. Return 0, or -1 after a message. */
int perf_tell(const struct perf_rank *rank, enum perf_word word, const void *bytes, size_t length);
int perf_hear(const struct perf_rank *rank, enum perf_word word, void *bytes, size_t length);

/* Whether the other host's rank has given up or gone; says so. */
bool perf_left(const struct perf_rank *rank);

/* So many bytes, at least one, to and fro over the control connection. */
int perf_tcp(struct perf_rank *rank, uint64_t size, uint64_t iterations, uint64_t *ns_p);

/* The two sides of a measurement between hosts. Return an exit status. */
int perf_listen(struct perf_plan *plan);
int perf_connect(struct perf_plan *plan);

#endif
