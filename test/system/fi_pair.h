/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_pair.h - two processes with one libfabric endpoint each, for tests of the provider.
 *
 * Owns the set-up through libfabric's public interface, the exchange of addresses and a barrier
 * over a socket pair, and the checks. A failed check ends both processes with status 1. Rank 0 is
 * the parent.
 */
#ifndef FI_PAIR_H
#define FI_PAIR_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define CHECK(condition) ((condition) ? (void)0 : pair_fail(__FILE__, __LINE__, #condition))
#define CHECK_EQUAL(left, right)                                                                   \
	pair_check_equal((long long)(left), (long long)(right), __FILE__, __LINE__, #left, #right)

enum { NAME_BYTES = 48, REGION_BYTES = 1 << 20, REGION_KEY = 0x7001 };

static int pair_rank;
static int pair_socket;
static pid_t pair_process; /* the other one */

__attribute__((noreturn)) static void pair_fail(const char *file, int line, const char *text)
{
	fprintf(stderr, "%s:%d: rank %d: %s\n", file, line, pair_rank, text);
	kill(pair_process, SIGKILL);
	exit(1);
}

static void pair_check_equal(long long left, long long right, const char *file, int line,
			     const char *left_text, const char *right_text)
{
	char text[300];

	if (left == right)
		return;
	snprintf(text, sizeof text, "%s is %lld, not %s = %lld", left_text, left, right_text,
		 right);
	pair_fail(file, line, text);
}

/* What a test may want otherwise. */
struct pair_attr {
	enum fi_threading threading;
	enum fi_progress progress;
	enum fi_wait_obj wait_obj;
	uint64_t caps;     /* beyond messages, tags, access and atomics */
	uint64_t without;  /* and without these of them */
	uint64_t cq_flags; /* FI_SELECTIVE_COMPLETION */
	uint64_t tx_flags, rx_flags;
	bool counters; /* bind one counter for each kind */
};

struct pair {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *sent, *received, *accessed, *written;
	struct fid_ep *ep;
	struct fid_mr *mr;
	fi_addr_t self, other;
	unsigned char *region; /* REGION_BYTES, exposed under REGION_KEY */
};

static void pair_exchange(const void *mine, void *theirs, size_t size)
{
	CHECK(send(pair_socket, mine, size, 0) == (ssize_t)size);
	CHECK(recv(pair_socket, theirs, size, MSG_WAITALL) == (ssize_t)size);
}

/* Wait for the other; meanwhile its operations on our memory need our progress. */
static void pair_barrier(struct pair *pair)
{
	struct pollfd poller = {.fd = pair_socket, .events = POLLIN};
	char mark = 'b';

	CHECK(send(pair_socket, &mark, 1, 0) == 1);
	while (poll(&poller, 1, 0) == 0)
		fi_cq_read(pair->cq, NULL, 0);
	CHECK(recv(pair_socket, &mark, 1, 0) == 1 && mark == 'b');
}

static struct fi_info *pair_info(const struct pair_attr *attr)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	CHECK(hints);
	hints->caps =
		FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE | attr->caps;
	hints->caps &= ~attr->without;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = attr->threading ? attr->threading : FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = attr->progress;
	hints->domain_attr->mr_mode = 0;
	hints->tx_attr->op_flags = attr->tx_flags;
	hints->rx_attr->op_flags = attr->rx_flags;
	hints->fabric_attr->prov_name = strdup("thole");
	CHECK_EQUAL(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
	CHECK(info && !info->next);
	fi_freeinfo(hints);
	return info;
}

static struct fid_cntr *pair_counter(struct pair *pair, uint64_t flags)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *counter;

	CHECK_EQUAL(fi_cntr_open(pair->domain, &attr, &counter, NULL), 0);
	CHECK_EQUAL(fi_ep_bind(pair->ep, &counter->fid, flags), 0);
	return counter;
}

static void pair_addresses(struct pair *pair)
{
	char mine[NAME_BYTES], theirs[NAME_BYTES];
	size_t length = sizeof mine;

	CHECK_EQUAL(fi_getname(&pair->ep->fid, mine, &length), 0);
	CHECK_EQUAL(length, NAME_BYTES);
	pair_exchange(mine, theirs, sizeof mine);
	CHECK_EQUAL(fi_av_insert(pair->av, theirs, 1, &pair->other, 0, NULL), 1);
	CHECK_EQUAL(fi_av_insert(pair->av, mine, 1, &pair->self, 0, NULL), 1);
	CHECK(pair->other != pair->self);
}

static void pair_open(struct pair *pair, const struct pair_attr *attr)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = attr->wait_obj};

	memset(pair, 0, sizeof *pair);
	pair->info = pair_info(attr);
	CHECK_EQUAL(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL), 0);
	CHECK_EQUAL(fi_domain(pair->fabric, pair->info, &pair->domain, NULL), 0);
	CHECK_EQUAL(fi_av_open(pair->domain, &av_attr, &pair->av, NULL), 0);
	CHECK_EQUAL(fi_cq_open(pair->domain, &cq_attr, &pair->cq, NULL), 0);
	CHECK_EQUAL(fi_endpoint(pair->domain, pair->info, &pair->ep, NULL), 0);
	CHECK_EQUAL(fi_ep_bind(pair->ep, &pair->av->fid, 0), 0);
	CHECK_EQUAL(fi_ep_bind(pair->ep, &pair->cq->fid, FI_TRANSMIT | FI_RECV | attr->cq_flags),
		    0);
	if (attr->counters) {
		pair->sent = pair_counter(pair, FI_SEND);
		pair->received = pair_counter(pair, FI_RECV);
		pair->accessed = pair_counter(pair, FI_READ | FI_WRITE);
		if (attr->caps & FI_RMA_EVENT)
			pair->written = pair_counter(pair, FI_REMOTE_WRITE);
	}
	CHECK_EQUAL(fi_enable(pair->ep), 0);
	pair->region = calloc(1, REGION_BYTES);
	CHECK(pair->region);
	CHECK_EQUAL(fi_mr_reg(pair->domain, pair->region, REGION_BYTES,
			      FI_REMOTE_READ | FI_REMOTE_WRITE, 0, REGION_KEY, 0, &pair->mr, NULL),
		    0);
	pair_addresses(pair);
	pair_barrier(pair);
}

static void pair_shut(struct pair *pair)
{
	struct fid *fids[] = {pair->mr ? &pair->mr->fid : NULL,
			      pair->ep ? &pair->ep->fid : NULL,
			      pair->sent ? &pair->sent->fid : NULL,
			      pair->received ? &pair->received->fid : NULL,
			      pair->accessed ? &pair->accessed->fid : NULL,
			      pair->written ? &pair->written->fid : NULL,
			      &pair->cq->fid,
			      &pair->av->fid,
			      &pair->domain->fid,
			      &pair->fabric->fid};

	pair_barrier(pair);
	for (size_t i = 0; i < sizeof fids / sizeof fids[0]; i++)
		if (fids[i])
			CHECK_EQUAL(fi_close(fids[i]), 0);
	fi_freeinfo(pair->info);
	free(pair->region);
}

/* The next entry of the queue, which must be of an operation with this context. */
static struct fi_cq_tagged_entry pair_take(struct pair *pair, const void *context)
{
	struct fi_cq_tagged_entry entry;
	ssize_t count;

	do
		count = fi_cq_read(pair->cq, &entry, 1);
	while (count == -FI_EAGAIN);
	CHECK_EQUAL(count, 1);
	CHECK(entry.op_context == context);
	return entry;
}

static struct fi_cq_err_entry pair_take_error(struct pair *pair, const void *context)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_tagged_entry entry;
	ssize_t count;

	do
		count = fi_cq_read(pair->cq, &entry, 1);
	while (count == -FI_EAGAIN);
	CHECK_EQUAL(count, -FI_EAVAIL);
	CHECK_EQUAL(fi_cq_readerr(pair->cq, &error, 0), 1);
	CHECK(error.op_context == context);
	return error;
}

/* Nothing is in the queue, nor comes of some progress. */
static void pair_expect_nothing(struct pair *pair)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 100; i++)
		CHECK_EQUAL(fi_cq_read(pair->cq, &entry, 1), -FI_EAGAIN);
}

#endif /* FI_PAIR_H */
