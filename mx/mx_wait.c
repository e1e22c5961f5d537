/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_wait.h"

#include "base/clock.h"
#include "base/thread.h"
#include "mx_error.h"
#include "mx_progress.h"
#include "mx_sleep.h"

enum {
	MS = 1000000,    /* ns */
	SPIN_NS = 50000, /* before sleeping; about what waking up costs */
};

static bool mxi_wait_turns(struct mx_endpoint *endpoint, mxi_wait_fn *done, void *arg, uint32_t timeout_ms)
{
	uint64_t start_ns = 0, deadline_ns = UINT64_MAX;
	uint32_t wakeups = endpoint->wakeups;

	for (;;) {
		uint32_t events;
		uint64_t now_ns;

		mxi_progress_run(endpoint);
		events = endpoint->events;
		if (done(endpoint, arg)) {
			mxi_sleep_leave(endpoint);
			return true;
		}
		lock_leave(&endpoint->lock); /* let other threads in */
		now_ns = clock_now_ns();
		lock_take(&endpoint->lock);
		if (start_ns == 0) {
			start_ns = now_ns;
			if (timeout_ms != MX_INFINITE)
				deadline_ns = now_ns + (uint64_t)timeout_ms * MS;
		}
		if (now_ns >= deadline_ns || endpoint->wakeups != wakeups) {
			bool late = done(endpoint, arg);

			mxi_sleep_leave(endpoint);
			return late;
		}
		if (now_ns - start_ns >= SPIN_NS && endpoint->events == events)
			mxi_sleep(endpoint, now_ns, deadline_ns);
	}
}

/* No thread is cancelled in it: it would leave the lock behind, or its place at the descriptors. */
bool mxi_wait(struct mx_endpoint *endpoint, mxi_wait_fn *done, void *arg, uint32_t timeout_ms)
{
	int cancellable = thread_keep();
	bool is_done = mxi_wait_turns(endpoint, done, arg, timeout_ms);

	thread_release(cancellable);
	return is_done;
}

mx_return_t mx_wakeup(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_wakeup without an endpoint");
	lock_take(&endpoint->lock);
	endpoint->wakeups++;
	mxi_sleep_event(endpoint);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}
