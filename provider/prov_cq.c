/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_cq.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "front/yield.h"
#include "prov_core.h"
#include "prov_error.h"
#include "prov_stub.h"

enum {
	QUEUE_MIN = 256, /* entries of a queue before it grows */
	SPIN_NS = 50000, /* before sleeping; about what waking up costs */
};

static struct prov_cq *prov_cq_of(struct fid_cq *fid)
{
	return container_of(fid, struct prov_cq, fid);
}

int prov_cq_grow(struct prov_cq *cq)
{
	size_t size = cq->mask + 1;
	struct prov_cq_slot *slots = memalign(64, 2 * size * sizeof *slots);

	if (!slots) {
		PROV_WARN(FI_LOG_CQ, "no memory for a queue of %zu entries: a completion is lost", 2 * size);
		cq->overrun = true;
		return -FI_ENOMEM;
	}
	for (size_t i = cq->head; i != cq->tail; i++)
		slots[i & (2 * size - 1)] = cq->slots[i & cq->mask];
	free(cq->slots);
	cq->slots = slots;
	cq->mask = 2 * size - 1;
	return 0;
}

void prov_cq_push_error(struct prov_cq *cq, const struct fi_cq_err_entry *error)
{
	struct prov_cq_slot *slot = prov_cq_slot(cq);
	struct fi_cq_err_entry *copy = cq->spare ? cq->spare : malloc(sizeof *copy);

	cq->room = 0; /* what follows waits behind it */
	cq->spare = NULL;
	if (!slot || !copy) {
		cq->overrun = true;
		free(copy);
		return;
	}
	*copy = *error;
	slot->error = copy;
	slot->source = FI_ADDR_NOTAVAIL;
	prov_cq_count(&cq->tail);
	prov_watch_note(&cq->watch);
}

/* By words, as they were written: a wider load would have to wait until those stores are out of the processor's store
 * buffer. */
static inline void prov_cq_words_copy(uint64_t *to, const uint64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = load_relaxed(&from[i]);
}

static inline void prov_cq_entry_copy(void *to, const struct fi_cq_tagged_entry *from, size_t size)
{
	if (__builtin_expect(size == sizeof *from, 1))
		prov_cq_words_copy(to, (const void *)from, sizeof *from / sizeof(uint64_t));
	else
		prov_cq_words_copy(to, (const void *)from, size / sizeof(uint64_t));
}

/* Take up to count entries, with the lock. */
static ssize_t prov_cq_take(struct prov_cq *cq, char *to, size_t count, fi_addr_t *sources)
{
	size_t taken = 0;

	while (taken < count && cq->head != cq->tail) {
		struct prov_cq_slot *slot = &cq->slots[cq->head & cq->mask];

		if (__builtin_expect(slot->error != NULL, 0))
			break;
		prov_cq_entry_copy(to, &slot->entry, cq->entry_size);
		to += cq->entry_size;
		if (sources)
			sources[taken] = slot->source;
		taken++;
		prov_cq_count(&cq->head);
	}
	if (taken > 0)
		return (ssize_t)taken;
	if (cq->head != cq->tail)
		return cq->slots[cq->head & cq->mask].error ? -FI_EAVAIL : 0;
	return __builtin_expect(cq->overrun, 0) ? -FI_EOVERRUN : -FI_EAGAIN;
}

/* Many callers read until there is nothing more. The read that ends such a round is no waiting,
 * which thole_progress would take it for and look several times; thole_poll looks once. Where
 * something was posted since, it is a new round's first read. Returns how many entries are in the reader's memory. */
static inline size_t prov_cq_progress(struct prov_cq *cq, void *to, size_t count, fi_addr_t *sources)
{
	cq->to = to;
	cq->sources = sources;
	cq->room = cq->entry_size == sizeof *cq->to ? count : 0;
	if (cq->draining && !cq->domain->posted)
		prov_watch_poll(&cq->watch);
	else
		prov_watch_progress(&cq->watch);
	cq->room = 0;
	return (size_t)(cq->to - (struct fi_cq_tagged_entry *)to);
}

static ssize_t prov_cq_readfrom(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources)
{
	struct prov_cq *cq = prov_cq_of(fid);
	ssize_t taken = 0;

	yield_look();
	if (!prov_cq_empty(cq))
		prov_domain_lock(cq->domain);
	else if (!prov_domain_poll(cq->domain))
		return -FI_EAGAIN; /* somebody else is making the progress that we would */
	prov_domain_polled(cq->domain);
	if (cq->head == cq->tail || !count)
		taken = (ssize_t)prov_cq_progress(cq, buffer, count, sources);
	if (taken == 0)
		taken = prov_cq_take(cq, buffer, count, sources);
	cq->draining = taken > 0;
	cq->domain->posted = false;
	prov_domain_unlock(cq->domain);
	if (taken > 0)
		yield_finds();
	return taken;
}

static ssize_t prov_cq_read(struct fid_cq *fid, void *buffer, size_t count)
{
	return prov_cq_readfrom(fid, buffer, count, NULL);
}

/* The caller's structure may be shorter than ours, and its err_data and src_addr stay as it set
 * them: there is no such data. */
static ssize_t prov_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct prov_cq *cq = prov_cq_of(fid);
	ssize_t count = -FI_EAGAIN;

	(void)flags;
	prov_domain_lock(cq->domain);
	if (cq->head != cq->tail && cq->slots[cq->head & cq->mask].error) {
		struct prov_cq_slot *slot = &cq->slots[cq->head & cq->mask];

		prov_cq_count(&cq->head);
		memcpy(entry, slot->error, offsetof(struct fi_cq_err_entry, err_data));
		if (FI_VERSION_LT(cq->domain->api_version, FI_VERSION(1, 5)))
			entry->err_data = NULL;
		entry->err_data_size = 0;
		free(cq->spare);
		cq->spare = slot->error;
		slot->error = NULL;
		count = 1;
	}
	prov_domain_unlock(cq->domain);
	return count;
}

static bool prov_cq_signaled(struct prov_cq *cq)
{
	bool signaled;

	prov_domain_lock(cq->domain);
	signaled = cq->watch.signaled;
	cq->watch.signaled = false;
	prov_domain_unlock(cq->domain);
	return signaled;
}

/* 0: the descriptor may be polled. A signal is still to be told by whoever asks. */
static int prov_cq_arm(struct prov_cq *cq)
{
	int error;

	prov_domain_lock(cq->domain);
	error = cq->head != cq->tail ? -FI_EAGAIN : prov_watch_arm(&cq->watch);
	prov_domain_unlock(cq->domain);
	return error;
}

static int prov_cq_sleep(struct prov_cq *cq, int timeout_ms, int cancellable)
{
	int error = prov_cq_arm(cq);

	if (error)
		return error == -FI_EAGAIN ? 0 : error;
	return prov_watch_sleep(&cq->watch, timeout_ms, cancellable);
}

static ssize_t prov_cq_wait(struct prov_cq *cq, void *buffer, size_t count, fi_addr_t *sources, int timeout,
			    int cancellable)
{
	uint64_t start = clock_now_ns();
	uint64_t limit = timeout < 0 ? UINT64_MAX : (uint64_t)timeout * 1000000;

	for (;;) {
		ssize_t taken = prov_cq_readfrom(&cq->fid, buffer, count, sources);
		uint64_t spent = clock_now_ns() - start;
		int left = timeout < 0 ? -1 : (int)((limit - spent) / 1000000) + 1;
		int error;

		if (taken != -FI_EAGAIN)
			return taken;
		if (prov_cq_signaled(cq) || spent >= limit)
			return -FI_EAGAIN;
		thread_test(cancellable);
		if (spent < SPIN_NS || cq->wait_obj == FI_WAIT_YIELD)
			continue;
		error = prov_cq_sleep(cq, left, cancellable);
		if (error)
			return error;
	}
}

static ssize_t prov_cq_sreadfrom(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources,
				 const void *condition, int timeout)
{
	struct prov_cq *cq = prov_cq_of(fid);
	int cancellable;
	ssize_t taken;

	(void)condition; /* a threshold is only a hint */
	if (cq->wait_obj == FI_WAIT_NONE)
		return -FI_EOPNOTSUPP;
	cancellable = thread_keep();
	taken = prov_cq_wait(cq, buffer, count, sources, timeout, cancellable);
	thread_release(cancellable);
	return taken;
}

static ssize_t prov_cq_sread(struct fid_cq *fid, void *buffer, size_t count, const void *condition, int timeout)
{
	return prov_cq_sreadfrom(fid, buffer, count, NULL, condition, timeout);
}

static int prov_cq_signal(struct fid_cq *fid)
{
	struct prov_cq *cq = prov_cq_of(fid);

	prov_domain_lock(cq->domain);
	cq->watch.signaled = true;
	prov_watch_wake(&cq->watch);
	prov_domain_unlock(cq->domain);
	return 0;
}

static const char *prov_cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buffer, size_t length)
{
	(void)fid, (void)data;
	return prov_error_text(prov_errno, buffer, length);
}

/* Who sleeps by itself makes no call that would take the signal, so this one does. */
int prov_cq_trywait(struct prov_cq *cq)
{
	int error = prov_cq_signaled(cq) ? -FI_EAGAIN : prov_cq_arm(cq);

	if (error)
		return error;
	prov_domain_lock(cq->domain);
	error = prov_watch_slice(&cq->watch);
	prov_domain_unlock(cq->domain);
	return error;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = prov_cq_read,
	.readfrom = prov_cq_readfrom,
	.readerr = prov_cq_readerr,
	.sread = prov_cq_sread,
	.sreadfrom = prov_cq_sreadfrom,
	.signal = prov_cq_signal,
	.strerror = prov_cq_strerror,
};

static int prov_cq_close(struct fid *fid)
{
	struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);

	if (cq->users)
		return -FI_EBUSY;
	for (; cq->head != cq->tail; cq->head++)
		free(cq->slots[cq->head & cq->mask].error);
	prov_watch_close(&cq->watch);
	prov_domain_leave(cq->domain);
	free(cq->spare);
	free(cq->slots);
	free(cq);
	return 0;
}

static int prov_cq_control(struct fid *fid, int command, void *arg)
{
	struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);

	return prov_watch_control(&cq->watch, cq->wait_obj, command, arg);
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_cq_close,
	.bind = prov_stub_bind,
	.control = prov_cq_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

static size_t prov_cq_format_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_UNSPEC:
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	default:
		return 0;
	}
}

static int prov_cq_set_up(struct prov_cq *cq, struct fi_cq_attr *attr)
{
	int error;

	cq->wait_obj = attr->wait_obj;
	cq->entry_size = prov_cq_format_size(attr->format);
	if (!cq->entry_size)
		return -FI_ENOSYS;
	cq->mask = QUEUE_MIN - 1;
	cq->slots = memalign(64, QUEUE_MIN * sizeof *cq->slots);
	if (!cq->slots)
		return -FI_ENOMEM;
	error = prov_watch_open(&cq->watch, cq->domain, attr->wait_obj);
	if (!error && attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_TAGGED;
	return error;
}

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context)
{
	struct prov_cq *cq = calloc(1, sizeof *cq);
	int error;

	if (!cq)
		return -FI_ENOMEM;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	cq->domain = container_of(domain, struct prov_domain, fid);
	error = prov_cq_set_up(cq, attr);
	if (error) {
		free(cq->slots);
		free(cq);
		return error;
	}
	prov_domain_enter(cq->domain);
	*cq_p = &cq->fid;
	return 0;
}
