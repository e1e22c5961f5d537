/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_progress.h"

#include <sched.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "mx_connecting.h"
#include "mx_ending.h"
#include "mx_error.h"
#include "mx_handler.h"
#include "mx_sleep.h"

enum { SEVERAL_LOOKS = 1 << 16 }; /* some milliseconds, as long as one that sleeps may take */

/* thole_progress may look again, yield and sleep, with the lock held all the time: only for who is alone with the
 * endpoint. Others are known by having waited for that, or by sleeping on Thole's descriptor, whose wake-up another
 * sleep would take away; after many looks without them one is alone again. */
static int mxi_progress_look(struct mx_endpoint *endpoint)
{
	bool several = endpoint->several > 0 || endpoint->leader_sleeps;
	int n = several ? thole_poll(endpoint->thole, NULL, 0) : thole_progress(endpoint->thole);

	if (__builtin_expect(endpoint->leader_sleeps || load_relaxed(&endpoint->lock.waiting) > 0, 0))
		endpoint->several = SEVERAL_LOOKS;
	else if (several)
		endpoint->several--;
	return n;
}

void mxi_progress_run(struct mx_endpoint *endpoint)
{
	int n;

	endpoint->polls++;
	if (__builtin_expect(endpoint->in_handler || endpoint->disabled, 0))
		return;
	n = mxi_progress_look(endpoint);
	if (__builtin_expect(endpoint->screening, 0))
		mxi_handler_run(endpoint);
	if (__builtin_expect(load_relaxed(&endpoint->entry.answers) != endpoint->answers, 0))
		mxi_connecting_answers(endpoint);
	if (__builtin_expect(heap_first(&endpoint->timed) != NULL, 0))
		mxi_ending_expire(endpoint, clock_now_ns());
	if (n > 0)
		mxi_sleep_event(endpoint); /* perhaps what another thread probes for */
}

void mxi_progress_beside(struct mx_endpoint *endpoint)
{
	if (endpoint->in_handler || endpoint->disabled)
		return;
	thole_poll(endpoint->thole, NULL, 0);
	mxi_sleep_event(endpoint);
}

mx_return_t mx_progress(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_progress without an endpoint");
	lock_take(&endpoint->lock);
	mxi_progress_run(endpoint);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_disable_progression(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_disable_progression without an endpoint");
	lock_take(&endpoint->lock);
	while (endpoint->in_handler && !mxi_handler_inside(endpoint)) {
		lock_leave(&endpoint->lock);
		sched_yield();
		lock_take(&endpoint->lock);
	}
	endpoint->disabled = true;
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_reenable_progression(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_reenable_progression without an endpoint");
	lock_take(&endpoint->lock);
	endpoint->disabled = false;
	mxi_progress_run(endpoint);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}
