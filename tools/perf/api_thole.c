/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api_thole.c - messages through thole.h. A small send is given away, a larger one has a request that is waited for.
 */
#include "perf.h"

enum {
	INJECT_BYTES_MAX = 256, /* a blocking send of no more copies instead of waiting */
	PROBE_NS = 200000000,   /* between two looks at whether the other rank has given up */
};

struct ticket {
	struct thole_request *request;
};

/* ticket NULL: nothing to wait for. */
static int loop_send_start(struct perf_rank *rank, uint64_t size, uint64_t tag, struct ticket *ticket)
{
	struct thole_request **request_p = ticket ? &ticket->request : NULL;
	unsigned flags = request_p ? 0 : THOLE_INJECT | THOLE_QUIET;

	for (uint64_t begin = 0;;) {
		int error = thole_send(rank->endpoint, rank->peer, rank->out_buffer, size, tag, 0, flags, NULL,
				       request_p);

		if (error != THOLE_ERR_AGAIN)
			return error < 0 ? perf_complain(rank, "thole_send", size, error) : 0;
		/* The bound on sends under way is reached, which is no error as long as it moves. */
		if (begin == 0)
			begin = perf_now_ns();
		else if (perf_now_ns() - begin > perf_patience(rank))
			return perf_complain(rank, "thole_send", size, THOLE_ERR_TIMEOUT);
		thole_progress(rank->endpoint);
	}
}

static int loop_recv_start(struct perf_rank *rank, uint64_t size, uint64_t tag, struct ticket *ticket)
{
	int error = thole_recv(rank->endpoint, rank->peer, rank->in_buffer, size, tag, UINT64_MAX, 0, NULL,
			       &ticket->request);

	return error < 0 ? perf_complain(rank, "thole_recv", size, error) : 0;
}

static int loop_finish(struct perf_rank *rank, struct ticket *ticket, const char *what, uint64_t size)
{
	struct thole_completion completion;
	uint64_t end = perf_now_ns() + perf_patience(rank);
	int error;

	do {
		error = thole_wait(rank->endpoint, ticket->request, PROBE_NS, &completion);
		if (error == THOLE_ERR_TIMEOUT && rank->other && perf_left(rank))
			return -1;
	} while (error == THOLE_ERR_TIMEOUT && perf_now_ns() < end);
	if (error < 0)
		return perf_complain(rank, what, size, error);
	if (completion.status < 0)
		return perf_complain(rank, what, size, completion.status);
	if (completion.length != size)
		return perf_complain(rank, what, size, THOLE_ERR_TRUNCATED);
	return 0;
}

static int loop_send_whole(struct perf_rank *rank, uint64_t size, uint64_t tag)
{
	struct ticket ticket;

	/* As a program would: what is small is given away, with nothing to wait for. */
	if (size <= INJECT_BYTES_MAX)
		return loop_send_start(rank, size, tag, NULL);
	return loop_send_start(rank, size, tag, &ticket) < 0 ? -1 : loop_finish(rank, &ticket, "a send", size);
}

#include "loops.h"

static int api_thole_open(struct perf_rank *rank)
{
	const struct perf_plan *plan = rank->plan;
	struct thole_endpoint_attr attr = { .threads = THOLE_THREAD_SINGLE, .options = plan->options };
	struct thole_address mine, theirs;
	int error = thole_endpoint_open(&attr, &rank->endpoint);

	if (error < 0)
		return perf_complain(rank, "thole_endpoint_open, for messages", plan->size_max, error);
	thole_endpoint_address(rank->endpoint, &mine);
	error = perf_swap(rank, &mine, &theirs, sizeof mine) < 0 ? THOLE_ERR_PEER : 0;
	if (!error)
		error = thole_peer(rank->endpoint, &theirs, &rank->peer);
	return error < 0 ? perf_complain(rank, "the swap of addresses, for messages", plan->size_max, error) : 0;
}

static void api_thole_close(struct perf_rank *rank)
{
	thole_endpoint_close(rank->endpoint);
	rank->endpoint = NULL;
}

static void api_thole_progress(const struct perf_rank *rank)
{
	thole_progress(rank->endpoint);
}

const struct perf_api perf_api_thole = {
	.name = "thole",
	.open = api_thole_open,
	.close = api_thole_close,
	.progress = api_thole_progress,
	.verify = loop_verify,
	.latency = loop_latency,
	.bandwidth = loop_bandwidth,
};
