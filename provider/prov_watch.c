/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/thread.h"
#include "prov_error.h"

enum { SLICE_MS = 100 }; /* longest sleep: what no descriptor shows is found after it */

static int prov_watch_epoll_add(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST ? -errno : 0;
}

/* Make the descriptors, when somebody wants to sleep for the first time. */
static int prov_watch_descriptors(struct prov_watch *watch)
{
	int error;

	if (wake_is_whole(&watch->wake))
		return 0;
	watch->timer = -1;
	error = wake_open(&watch->wake);
	for (size_t i = 0; i < watch->count && !error; i++)
		error = prov_watch_epoll_add(watch->wake.epoll, thole_fd(watch->endpoints[i]));
	if (error)
		wake_close(&watch->wake);
	return error;
}

int prov_watch_open(struct prov_watch *watch, struct prov_domain *domain, enum fi_wait_obj wait_obj)
{
	int error = 0;

	watch->domain = domain;
	watch->wake = WAKE_NONE;
	watch->timer = -1;
	if (wait_obj == FI_WAIT_FD)
		error = prov_watch_descriptors(watch);
	else if (wait_obj != FI_WAIT_NONE && wait_obj != FI_WAIT_UNSPEC && wait_obj != FI_WAIT_YIELD)
		error = -FI_ENOSYS;
	if (error)
		return error;
	prov_domain_lock(domain);
	list_push_back(&domain->watches, &watch->node);
	prov_domain_unlock(domain);
	return 0;
}

void prov_watch_close(struct prov_watch *watch)
{
	prov_domain_lock(watch->domain);
	list_unlink(&watch->node);
	prov_domain_unlock(watch->domain);
	if (watch->timer >= 0 && wake_is_whole(&watch->wake))
		close(watch->timer);
	wake_close(&watch->wake);
	free(watch->endpoints);
}

int prov_watch_add(struct prov_watch *watch, struct thole_endpoint *endpoint)
{
	struct thole_endpoint **endpoints;
	int error;

	for (size_t i = 0; i < watch->count; i++)
		if (watch->endpoints[i] == endpoint)
			return 0;
	endpoints = realloc(watch->endpoints, (watch->count + 1) * sizeof *endpoints);
	if (!endpoints)
		return -FI_ENOMEM;
	watch->endpoints = endpoints;
	/* Else whoever wants to sleep makes them, with all endpoints. */
	error = wake_is_whole(&watch->wake) ? prov_watch_epoll_add(watch->wake.epoll, thole_fd(endpoint)) : 0;
	if (!error)
		endpoints[watch->count++] = endpoint;
	return error;
}

static void prov_watch_remove(struct prov_watch *watch, struct thole_endpoint *endpoint)
{
	for (size_t i = 0; i < watch->count; i++) {
		if (watch->endpoints[i] != endpoint)
			continue;
		if (wake_is_whole(&watch->wake))
			epoll_ctl(watch->wake.epoll, EPOLL_CTL_DEL, thole_fd(endpoint), NULL);
		watch->endpoints[i] = watch->endpoints[--watch->count];
		return;
	}
}

void prov_watch_forget(struct prov_domain *domain, struct thole_endpoint *endpoint)
{
	for (struct list_node *node = list_first(&domain->watches); node; node = list_next(&domain->watches, node))
		prov_watch_remove(container_of(node, struct prov_watch, node), endpoint);
}

int prov_watch_slice(struct prov_watch *watch)
{
	struct itimerspec when = {.it_value.tv_nsec = SLICE_MS * 1000000L};
	int error = 0;

	if (watch->timer < 0) {
		watch->timer = limits_own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
		if (watch->timer < 0)
			return -errno;
		error = prov_watch_epoll_add(watch->wake.epoll, watch->timer);
	}
	/* Set anew, it is not readable for the time that has passed before. */
	if (!error && timerfd_settime(watch->timer, 0, &when, NULL))
		error = -errno;
	if (error) {
		close(watch->timer);
		watch->timer = -1;
	}
	return error;
}

int prov_watch_arm(struct prov_watch *watch)
{
	uint64_t ignored;
	int error = prov_watch_descriptors(watch);

	if (error)
		return error;
	if (watch->signaled)
		return -FI_EAGAIN;
	wake_drop(&watch->wake);
	/* Else it would be readable for ever. Who still sleeps on the descriptor by itself has another slice. */
	if (watch->timer >= 0 && read(watch->timer, &ignored, sizeof ignored) > 0)
		error = prov_watch_slice(watch);
	watch->armed = true;
	for (size_t i = 0; i < watch->count && !error; i++)
		error = prov_error_result(thole_arm(watch->endpoints[i]));
	return error;
}

int prov_watch_sleep(struct prov_watch *watch, int timeout_ms, int cancellable)
{
	struct epoll_event event;
	int error;

	if (timeout_ms < 0 || timeout_ms > SLICE_MS)
		timeout_ms = SLICE_MS;
	thread_release(cancellable);
	error = epoll_wait(watch->wake.epoll, &event, 1, timeout_ms) < 0 && errno != EINTR ? -errno : 0;
	thread_keep();
	return error;
}

void prov_watch_wake(struct prov_watch *watch)
{
	watch->armed = false;
	wake_raise(&watch->wake);
}

static int prov_watch_descriptor(struct prov_watch *watch, int *fd_p)
{
	int error;

	prov_domain_lock(watch->domain);
	error = prov_watch_descriptors(watch);
	*fd_p = watch->wake.epoll;
	prov_domain_unlock(watch->domain);
	return error;
}

int prov_watch_control(struct prov_watch *watch, enum fi_wait_obj wait_obj, int command, void *arg)
{
	switch (command) {
	case FI_GETWAIT:
		return wait_obj == FI_WAIT_FD ? prov_watch_descriptor(watch, arg) : -FI_ENODATA;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = wait_obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}
