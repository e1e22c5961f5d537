/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.c - completion counters: how many operations (or bytes) have ended, and how many in
 * error.
 */
#include <stdlib.h>

#include "provider.h"

enum { SPIN_NS = 50000 };

static struct prov_counter *counter_of(struct fid_cntr *fid)
{
	return prov_of(fid, struct prov_counter, fid);
}

void prov_counter_add(struct prov_counter *counter, const struct thole_completion *completion)
{
	if (prov_unlikely(completion->status))
		atomic_fetch_add_explicit(&counter->errors, 1, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&counter->value, counter->bytes ? completion->length : 1,
					  memory_order_relaxed);
	prov_watch_note(&counter->watch);
}

static void counter_progress(struct prov_counter *counter)
{
	if (!prov_domain_trylock(counter->domain))
		return; /* somebody else is making it */
	prov_watch_progress(&counter->watch);
	prov_domain_unlock(counter->domain);
}

static uint64_t counter_read(struct fid_cntr *fid)
{
	struct prov_counter *counter = counter_of(fid);

	counter_progress(counter);
	return atomic_load_explicit(&counter->value, memory_order_acquire);
}

static uint64_t counter_readerr(struct fid_cntr *fid)
{
	struct prov_counter *counter = counter_of(fid);

	counter_progress(counter);
	return atomic_load_explicit(&counter->errors, memory_order_acquire);
}

static void counter_wake(struct prov_counter *counter)
{
	prov_domain_lock(counter->domain);
	prov_watch_note(&counter->watch);
	prov_domain_unlock(counter->domain);
}

static int counter_addto(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&counter_of(fid)->value, value);
	counter_wake(counter_of(fid));
	return 0;
}

static int counter_set(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&counter_of(fid)->value, value);
	counter_wake(counter_of(fid));
	return 0;
}

static int counter_adderr(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&counter_of(fid)->errors, value);
	counter_wake(counter_of(fid));
	return 0;
}

static int counter_seterr(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&counter_of(fid)->errors, value);
	counter_wake(counter_of(fid));
	return 0;
}

static int counter_sleep(struct prov_counter *counter, int timeout_ms, uint64_t seen,
			 uint64_t errors)
{
	int error;

	prov_domain_lock(counter->domain);
	error = prov_watch_arm(&counter->watch);
	if (atomic_load(&counter->value) != seen || atomic_load(&counter->errors) != errors)
		error = -FI_EAGAIN;
	prov_domain_unlock(counter->domain);
	if (error)
		return error == -FI_EAGAIN ? 0 : error;
	return prov_watch_sleep(&counter->watch, timeout_ms);
}

static int counter_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct prov_counter *counter = counter_of(fid);
	uint64_t errors = atomic_load(&counter->errors);
	uint64_t start = prov_clock_ns();
	uint64_t limit = timeout < 0 ? UINT64_MAX : (uint64_t)timeout * 1000000;

	for (;;) {
		uint64_t seen = counter_read(fid);
		uint64_t spent = prov_clock_ns() - start;

		if (seen >= threshold)
			return 0;
		if (atomic_load(&counter->errors) != errors)
			return -FI_EAVAIL;
		if (spent >= limit)
			return -FI_ETIMEDOUT;
		if (spent < SPIN_NS || counter->wait_obj == FI_WAIT_YIELD)
			continue;
		if (counter_sleep(counter, timeout < 0 ? -1 : (int)((limit - spent) / 1000000) + 1,
				  seen, errors))
			return -FI_EIO;
	}
}

static struct fi_ops_cntr counter_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = counter_read,
	.readerr = counter_readerr,
	.add = counter_addto,
	.set = counter_set,
	.wait = counter_wait,
	.adderr = counter_adderr,
	.seterr = counter_seterr,
};

static int counter_close(struct fid *fid)
{
	struct prov_counter *counter = prov_of(fid, struct prov_counter, fid.fid);

	if (counter->users)
		return -FI_EBUSY;
	prov_domain_lock(counter->domain);
	counter->domain->users--;
	prov_domain_unlock(counter->domain);
	prov_watch_close(&counter->watch);
	free(counter);
	return 0;
}

static int counter_control(struct fid *fid, int command, void *arg)
{
	struct prov_counter *counter = prov_of(fid, struct prov_counter, fid.fid);

	return prov_watch_control(&counter->watch, counter->wait_obj, command, arg);
}

static struct fi_ops counter_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = counter_close,
	.bind = prov_stub_bind,
	.control = counter_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

int prov_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
		      struct fid_cntr **counter_p, void *context)
{
	struct prov_counter *counter;
	int error;

	if (attr->flags || (int)attr->events > PROV_CNTR_EVENTS_BYTES)
		return -FI_ENOSYS;
	counter = calloc(1, sizeof *counter);
	if (!counter)
		return -FI_ENOMEM;
	counter->fid.fid.fclass = FI_CLASS_CNTR;
	counter->fid.fid.context = context;
	counter->fid.fid.ops = &counter_fid_ops;
	counter->fid.ops = &counter_ops;
	counter->domain = prov_of(domain, struct prov_domain, fid);
	counter->wait_obj = attr->wait_obj;
	counter->bytes = (int)attr->events == PROV_CNTR_EVENTS_BYTES;
	error = prov_watch_open(&counter->watch, counter->domain, attr->wait_obj);
	if (error) {
		free(counter);
		return error;
	}
	prov_domain_lock(counter->domain);
	counter->domain->users++;
	prov_domain_unlock(counter->domain);
	*counter_p = &counter->fid;
	return 0;
}
