/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_sleep.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mx_handler.h"

enum {
	MS = 1000000,         /* ns */
	SLICE_MS = 100,       /* longest sleep: what no descriptor shows is found after it */
	HANDLER_SLICE_MS = 1, /* the same while another thread's handler stops all progress, */
	UNWOKEN_SLICE_MS = 1, /* and where the program has closed what would wake it */
};

static void mxi_sleep_followers_wake(struct mx_endpoint *endpoint, int count)
{
	if (endpoint->followers > 0)
		syscall(SYS_futex, &endpoint->events, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void mxi_sleep_wake(struct mx_endpoint *endpoint)
{
	if (endpoint->leader_sleeps && !endpoint->leader_woken)
		wake_raise(&endpoint->wake);
	endpoint->leader_woken = true;
	mxi_sleep_followers_wake(endpoint, INT_MAX);
}

/* As the one that attends to the descriptors. */
static void mxi_sleep_leader_sleep(struct mx_endpoint *endpoint, int longest_ms)
{
	struct pollfd fds[] = {{.fd = -1, .events = POLLIN}, {.events = POLLIN}};
	bool paused = endpoint->in_handler || endpoint->disabled;

	if (!paused && ((endpoint->screening && mxi_handler_run(endpoint)) || thole_arm(endpoint->thole) != 0))
		return;
	fds[1].fd = thole_fd(endpoint->thole);
	if (wake_is_whole(&endpoint->wake))
		fds[0].fd = endpoint->wake.event;
	else if (longest_ms > UNWOKEN_SLICE_MS)
		longest_ms = UNWOKEN_SLICE_MS;
	endpoint->leader_sleeps = true;
	endpoint->leader_woken = false;
	lock_leave(&endpoint->lock);
	poll(fds, paused ? 1 : 2, longest_ms);
	lock_take(&endpoint->lock);
	endpoint->leader_sleeps = false;
	wake_drop(&endpoint->wake);
}

/* Until something has happened since the caller looked, with the lock held from then on. */
static void mxi_sleep_follower_sleep(struct mx_endpoint *endpoint, int longest_ms)
{
	struct timespec longest = {.tv_sec = longest_ms / 1000, .tv_nsec = longest_ms % 1000 * (long)MS};
	uint32_t events = endpoint->events;

	endpoint->followers++;
	lock_leave(&endpoint->lock);
	syscall(SYS_futex, &endpoint->events, FUTEX_WAIT_PRIVATE, events, &longest, NULL, 0);
	lock_take(&endpoint->lock);
	endpoint->followers--;
}

void mxi_sleep(struct mx_endpoint *endpoint, uint64_t now_ns, uint64_t deadline_ns)
{
	const struct heap_node *first = heap_first(&endpoint->timed);
	int longest_ms = endpoint->in_handler || endpoint->disabled ? HANDLER_SLICE_MS : SLICE_MS;

	if (first && first->key < deadline_ns)
		deadline_ns = first->key;
	if (deadline_ns <= now_ns)
		return;
	if (deadline_ns - now_ns < (uint64_t)longest_ms * MS)
		longest_ms = (int)((deadline_ns - now_ns + MS - 1) / MS);
	if (endpoint->leader_sleeps)
		mxi_sleep_follower_sleep(endpoint, longest_ms);
	else
		mxi_sleep_leader_sleep(endpoint, longest_ms);
}

void mxi_sleep_leave(struct mx_endpoint *endpoint)
{
	if (!endpoint->leader_sleeps) {
		endpoint->events++;
		mxi_sleep_followers_wake(endpoint, 1);
	}
}
