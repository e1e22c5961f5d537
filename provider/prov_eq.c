/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_eq.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "prov_error.h"
#include "prov_stub.h"
#include "thole.h"

struct prov_event {
	struct list_node node; /* of its queue */
	uint32_t event;        /* libfabric's number of its kind */
	bool is_error;         /* it is `error`, else `data` */
	size_t size;           /* of data */
	struct fi_eq_err_entry error;
	unsigned char data[]; /* what fi_eq_read gives */
};

static struct prov_eq *prov_eq_of(struct fid_eq *fid)
{
	return container_of(fid, struct prov_eq, fid);
}

/* NULL: there is none. */
static struct prov_event *prov_eq_first(const struct prov_eq *eq)
{
	struct list_node *first = list_first(&eq->events);

	return first ? container_of(first, struct prov_event, node) : NULL;
}

/* Make the descriptors, or make them anew. With the lock. */
static int prov_eq_descriptors(struct prov_eq *eq)
{
	int error = wake_is_whole(&eq->wake) ? 0 : wake_open(&eq->wake);

	if (!error && !list_empty(&eq->events))
		wake_raise(&eq->wake);
	return error;
}

/* To sleep on. */
static int prov_eq_descriptor(struct prov_eq *eq, int *fd_p)
{
	int error;

	lock_take(&eq->lock);
	error = prov_eq_descriptors(eq);
	*fd_p = eq->wake.event;
	lock_leave(&eq->lock);
	return error;
}

static void prov_eq_append(struct prov_eq *eq, struct prov_event *event)
{
	lock_take(&eq->lock);
	list_push_back(&eq->events, &event->node);
	wake_raise(&eq->wake);
	lock_leave(&eq->lock);
}

struct prov_event *prov_eq_event(size_t size)
{
	struct prov_event *event = calloc(1, sizeof *event + size);

	if (event)
		event->size = size;
	return event;
}

void prov_eq_enter(struct prov_eq *eq, struct prov_event *event, uint32_t number, const void *data)
{
	event->event = number;
	if (event->size)
		memcpy(event->data, data, event->size);
	prov_eq_append(eq, event);
}

int prov_eq_post(struct prov_eq *eq, uint32_t number, const void *data, size_t size)
{
	struct prov_event *event = prov_eq_event(size);

	if (!event)
		return -FI_ENOMEM;
	prov_eq_enter(eq, event, number, data);
	return 0;
}

int prov_eq_post_error(struct prov_eq *eq, const struct fi_eq_err_entry *error)
{
	struct prov_event *event = calloc(1, sizeof *event);

	if (!event)
		return -FI_ENOMEM;
	event->is_error = true;
	event->error = *error;
	prov_eq_append(eq, event);
	return 0;
}

static void prov_eq_free_first(struct prov_eq *eq)
{
	struct prov_event *event = prov_eq_first(eq);

	list_unlink(&event->node);
	free(event);
}

static void prov_eq_remove_first(struct prov_eq *eq)
{
	prov_eq_free_first(eq);
	if (list_empty(&eq->events))
		wake_drop(&eq->wake);
}

static ssize_t prov_eq_take(struct prov_eq *eq, uint32_t *number, void *buffer, size_t length, uint64_t flags)
{
	struct prov_event *event = prov_eq_first(eq);
	ssize_t size;

	if (!event)
		return -FI_EAGAIN;
	if (event->is_error)
		return -FI_EAVAIL;
	if (length < event->size)
		return -FI_ETOOSMALL;
	*number = event->event;
	if (event->size)
		memcpy(buffer, event->data, event->size);
	size = (ssize_t)event->size;
	if (!(flags & FI_PEEK))
		prov_eq_remove_first(eq);
	return size;
}

static ssize_t prov_eq_read(struct fid_eq *fid, uint32_t *number, void *buffer, size_t length, uint64_t flags)
{
	struct prov_eq *eq = prov_eq_of(fid);
	ssize_t size;

	lock_take(&eq->lock);
	size = prov_eq_take(eq, number, buffer, length, flags);
	lock_leave(&eq->lock);
	return size;
}

static ssize_t prov_eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	struct prov_eq *eq = prov_eq_of(fid);
	const struct prov_event *event;
	ssize_t size = -FI_EAGAIN;

	lock_take(&eq->lock);
	event = prov_eq_first(eq);
	if (event && event->is_error) {
		*entry = event->error;
		size = sizeof *entry;
		if (!(flags & FI_PEEK))
			prov_eq_remove_first(eq);
	}
	lock_leave(&eq->lock);
	return size;
}

static ssize_t prov_eq_write(struct fid_eq *fid, uint32_t number, const void *buffer, size_t length, uint64_t flags)
{
	int error = prov_eq_post(prov_eq_of(fid), number, buffer, length);

	(void)flags;
	return error ? error : (ssize_t)length;
}

/* Only asleep is its thread cancelled. 0, or an error. */
static int prov_eq_sleep(struct prov_eq *eq, int timeout, int cancellable)
{
	struct pollfd poller = {.events = POLLIN};
	int error = prov_eq_descriptor(eq, &poller.fd);

	if (error)
		return error;
	thread_release(cancellable);
	error = poll(&poller, 1, timeout) < 0 && errno != EINTR ? -errno : 0;
	thread_keep();
	return error;
}

static ssize_t prov_eq_wait(struct prov_eq *eq, uint32_t *number, void *buffer, size_t length, int timeout,
			    uint64_t flags, int cancellable)
{
	uint64_t start = clock_now_ns();
	int error = 0;

	while (!error) {
		ssize_t size = prov_eq_read(&eq->fid, number, buffer, length, flags);
		int64_t left = timeout < 0 ? -1 : timeout - (int64_t)((clock_now_ns() - start) / 1000000);

		if (size != -FI_EAGAIN)
			return size;
		if (timeout >= 0 && left <= 0)
			return -FI_EAGAIN;
		error = prov_eq_sleep(eq, (int)left, cancellable);
	}
	return error;
}

static ssize_t prov_eq_sread(struct fid_eq *fid, uint32_t *number, void *buffer, size_t length, int timeout,
			     uint64_t flags)
{
	struct prov_eq *eq = prov_eq_of(fid);
	int cancellable;
	ssize_t size;

	if (eq->wait_obj == FI_WAIT_NONE)
		return -FI_EOPNOTSUPP;
	cancellable = thread_keep();
	size = prov_eq_wait(eq, number, buffer, length, timeout, flags, cancellable);
	thread_release(cancellable);
	return size;
}

static const char *prov_eq_strerror(struct fid_eq *fid, int prov_errno, const void *data, char *buffer, size_t length)
{
	(void)fid, (void)data;
	return prov_error_text(prov_errno, buffer, length);
}

int prov_eq_trywait(struct prov_eq *eq)
{
	bool empty;

	lock_take(&eq->lock);
	empty = list_empty(&eq->events);
	lock_leave(&eq->lock);
	return empty ? 0 : -FI_EAGAIN;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = prov_eq_read,
	.readerr = prov_eq_readerr,
	.write = prov_eq_write,
	.sread = prov_eq_sread,
	.strerror = prov_eq_strerror,
};

static int prov_eq_close(struct fid *fid)
{
	struct prov_eq *eq = container_of(fid, struct prov_eq, fid.fid);

	if (prov_users_any(&eq->users))
		return -FI_EBUSY;
	while (!list_empty(&eq->events))
		prov_eq_free_first(eq);
	wake_close(&eq->wake);
	prov_users_drop(eq->fabric);
	free(eq);
	return 0;
}

static int prov_eq_control(struct fid *fid, int command, void *arg)
{
	struct prov_eq *eq = container_of(fid, struct prov_eq, fid.fid);

	switch (command) {
	case FI_GETWAIT:
		return eq->wait_obj == FI_WAIT_FD ? prov_eq_descriptor(eq, arg) : -FI_ENODATA;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = eq->wait_obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_eq_close,
	.bind = prov_stub_bind,
	.control = prov_eq_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

int prov_eq_open(struct prov_users *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context)
{
	enum fi_wait_obj wait_obj = attr ? attr->wait_obj : FI_WAIT_NONE;
	struct prov_eq *eq;
	int error;

	if (wait_obj != FI_WAIT_NONE && wait_obj != FI_WAIT_UNSPEC && wait_obj != FI_WAIT_FD &&
	    wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	eq = calloc(1, sizeof *eq);
	if (!eq)
		return -FI_ENOMEM;
	list_init(&eq->events);
	eq->wake = WAKE_NONE;
	error = prov_eq_descriptors(eq);
	if (error) {
		free(eq);
		return error;
	}
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	eq->fabric = fabric;
	eq->wait_obj = wait_obj;
	prov_users_add(eq->fabric);
	*eq_p = &eq->fid;
	return 0;
}
