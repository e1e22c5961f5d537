/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_counter.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "prov_stub.h"

enum { SPIN_NS = 50000 }; /* before sleeping; about what waking up costs */

static struct prov_counter *prov_counter_of(struct fid_cntr *fid)
{
	return container_of(fid, struct prov_counter, fid);
}

/* Whoever reads the number, without the lock, sees what the operations have written. */
void prov_counter_add(struct prov_counter *counter, const struct thole_completion *completion)
{
	if (__builtin_expect(completion->status, 0)) /* partners: prov_counter_read, _readerr */
		add_acquire_release(&counter->errors, 1);
	else
		add_acquire_release(&counter->value, counter->bytes ? completion->length : 1);
	prov_watch_note(&counter->watch);
}

static void prov_counter_progress(struct prov_counter *counter)
{
	if (!prov_domain_poll(counter->domain))
		return; /* somebody else is making it */
	prov_domain_polled(counter->domain);
	prov_watch_progress(&counter->watch);
	prov_domain_unlock(counter->domain);
}

static uint64_t prov_counter_read(struct fid_cntr *fid)
{
	struct prov_counter *counter = prov_counter_of(fid);
	uint64_t value;

	prov_counter_progress(counter);
	value = load_acquire(&counter->value); /* partner: prov_counter_add */
	store_relaxed(&counter->value_read, value);
	return value;
}

static uint64_t prov_counter_readerr(struct fid_cntr *fid)
{
	struct prov_counter *counter = prov_counter_of(fid);
	uint64_t errors;

	prov_counter_progress(counter);
	errors = load_acquire(&counter->errors); /* partner: prov_counter_add */
	store_relaxed(&counter->errors_read, errors);
	return errors;
}

static void prov_counter_wake(struct prov_counter *counter)
{
	prov_domain_lock(counter->domain);
	prov_watch_note(&counter->watch);
	prov_domain_unlock(counter->domain);
}

static int prov_counter_addto(struct fid_cntr *fid, uint64_t value)
{
	add_relaxed(&prov_counter_of(fid)->value, value);
	prov_counter_wake(prov_counter_of(fid));
	return 0;
}

static int prov_counter_set(struct fid_cntr *fid, uint64_t value)
{
	store_relaxed(&prov_counter_of(fid)->value, value);
	prov_counter_wake(prov_counter_of(fid));
	return 0;
}

static int prov_counter_adderr(struct fid_cntr *fid, uint64_t value)
{
	add_relaxed(&prov_counter_of(fid)->errors, value);
	prov_counter_wake(prov_counter_of(fid));
	return 0;
}

static int prov_counter_seterr(struct fid_cntr *fid, uint64_t value)
{
	store_relaxed(&prov_counter_of(fid)->errors, value);
	prov_counter_wake(prov_counter_of(fid));
	return 0;
}

static int prov_counter_sleep(struct prov_counter *counter, int timeout_ms, uint64_t seen, uint64_t errors,
			      int cancellable)
{
	int error;

	prov_domain_lock(counter->domain);
	error = prov_watch_arm(&counter->watch);
	if (load_relaxed(&counter->value) != seen || load_relaxed(&counter->errors) != errors)
		error = -FI_EAGAIN;
	prov_domain_unlock(counter->domain);
	if (error)
		return error == -FI_EAGAIN ? 0 : error;
	return prov_watch_sleep(&counter->watch, timeout_ms, cancellable);
}

static int prov_counter_await(struct prov_counter *counter, uint64_t threshold, int timeout, int cancellable)
{
	uint64_t errors = load_relaxed(&counter->errors);
	uint64_t start = clock_now_ns();
	uint64_t limit = timeout < 0 ? UINT64_MAX : (uint64_t)timeout * 1000000;

	for (;;) {
		uint64_t seen = prov_counter_read(&counter->fid);
		uint64_t spent = clock_now_ns() - start;
		int error;

		if (seen >= threshold)
			return 0;
		if (load_relaxed(&counter->errors) != errors)
			return -FI_EAVAIL;
		if (spent >= limit)
			return -FI_ETIMEDOUT;
		thread_test(cancellable);
		if (spent < SPIN_NS || counter->wait_obj == FI_WAIT_YIELD)
			continue;
		error = prov_counter_sleep(counter, timeout < 0 ? -1 : (int)((limit - spent) / 1000000) + 1, seen,
					   errors, cancellable);
		if (error)
			return error;
	}
}

static int prov_counter_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	int cancellable = thread_keep();
	int error = prov_counter_await(prov_counter_of(fid), threshold, timeout, cancellable);

	thread_release(cancellable);
	return error;
}

/* Whether it has counted what the program has not read. Who does not ask for errors is told once of each. */
static bool prov_counter_has_news(struct prov_counter *counter)
{
	uint64_t errors = load_relaxed(&counter->errors);
	bool news = load_relaxed(&counter->value) != load_relaxed(&counter->value_read) ||
		    errors != load_relaxed(&counter->errors_read);

	store_relaxed(&counter->errors_read, errors);
	return news;
}

int prov_counter_trywait(struct prov_counter *counter)
{
	int error;

	prov_domain_lock(counter->domain);
	error = prov_watch_arm(&counter->watch);
	if (!error && prov_counter_has_news(counter))
		error = -FI_EAGAIN;
	if (!error)
		error = prov_watch_slice(&counter->watch);
	prov_domain_unlock(counter->domain);
	return error;
}

static struct fi_ops_cntr counter_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = prov_counter_read,
	.readerr = prov_counter_readerr,
	.add = prov_counter_addto,
	.set = prov_counter_set,
	.wait = prov_counter_wait,
	.adderr = prov_counter_adderr,
	.seterr = prov_counter_seterr,
};

static int prov_counter_close(struct fid *fid)
{
	struct prov_counter *counter = container_of(fid, struct prov_counter, fid.fid);

	if (counter->users)
		return -FI_EBUSY;
	prov_watch_close(&counter->watch);
	prov_domain_leave(counter->domain);
	free(counter);
	return 0;
}

static int prov_counter_control(struct fid *fid, int command, void *arg)
{
	struct prov_counter *counter = container_of(fid, struct prov_counter, fid.fid);

	return prov_watch_control(&counter->watch, counter->wait_obj, command, arg);
}

static struct fi_ops counter_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_counter_close,
	.bind = prov_stub_bind,
	.control = prov_counter_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

int prov_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **counter_p, void *context)
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
	counter->domain = container_of(domain, struct prov_domain, fid);
	counter->wait_obj = attr->wait_obj;
	counter->bytes = (int)attr->events == PROV_CNTR_EVENTS_BYTES;
	error = prov_watch_open(&counter->watch, counter->domain, attr->wait_obj);
	if (error) {
		free(counter);
		return error;
	}
	prov_domain_enter(counter->domain);
	*counter_p = &counter->fid;
	return 0;
}
