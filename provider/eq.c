/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - event queues: a list of events that insertions into address vectors and users themselves
 * (fi_eq_write) put in.
 *
 * Everything that could be asynchronous is done at once here, so an event queue only ever carries
 * words; it has a lock of its own because it may be shared by domains. An error event stops reads
 * until fi_eq_readerr takes it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "provider.h"

static struct prov_eq *eq_of(struct fid_eq *fid)
{
	return prov_of(fid, struct prov_eq, fid);
}

static void event_raise(struct prov_eq *eq)
{
	uint64_t one = 1;

	if (write(eq->event, &one, sizeof one) < 0)
		return; /* it is full, and so readable already */
}

static void event_drop(struct prov_eq *eq)
{
	uint64_t ignored;

	if (read(eq->event, &ignored, sizeof ignored) < 0)
		return; /* it was not raised */
}

static int eq_append(struct prov_eq *eq, struct prov_eq_event *event)
{
	event->next = NULL;
	pthread_mutex_lock(&eq->lock);
	*eq->tail_p = event;
	eq->tail_p = &event->next;
	event_raise(eq);
	pthread_mutex_unlock(&eq->lock);
	return 0;
}

int prov_eq_post(struct prov_eq *eq, uint32_t number, const void *data, size_t size)
{
	struct prov_eq_event *event = calloc(1, sizeof *event + size);

	if (!event)
		return -FI_ENOMEM;
	event->event = number;
	event->size = size;
	if (size)
		memcpy(event->data, data, size);
	return eq_append(eq, event);
}

int prov_eq_post_error(struct prov_eq *eq, const struct fi_eq_err_entry *error)
{
	struct prov_eq_event *event = calloc(1, sizeof *event);

	if (!event)
		return -FI_ENOMEM;
	event->is_error = true;
	event->error = *error;
	return eq_append(eq, event);
}

static void eq_remove_first(struct prov_eq *eq)
{
	struct prov_eq_event *event = eq->head;

	eq->head = event->next;
	if (!eq->head) {
		eq->tail_p = &eq->head;
		event_drop(eq);
	}
	free(event);
}

static ssize_t eq_take(struct prov_eq *eq, uint32_t *number, void *buffer, size_t length,
		       uint64_t flags)
{
	struct prov_eq_event *event = eq->head;
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
		eq_remove_first(eq);
	return size;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *number, void *buffer, size_t length,
		       uint64_t flags)
{
	struct prov_eq *eq = eq_of(fid);
	ssize_t size;

	pthread_mutex_lock(&eq->lock);
	size = eq_take(eq, number, buffer, length, flags);
	pthread_mutex_unlock(&eq->lock);
	return size;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	struct prov_eq *eq = eq_of(fid);
	ssize_t size = -FI_EAGAIN;

	pthread_mutex_lock(&eq->lock);
	if (eq->head && eq->head->is_error) {
		*entry = eq->head->error;
		size = sizeof *entry;
		if (!(flags & FI_PEEK))
			eq_remove_first(eq);
	}
	pthread_mutex_unlock(&eq->lock);
	return size;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t number, const void *buffer, size_t length,
			uint64_t flags)
{
	int error = prov_eq_post(eq_of(fid), number, buffer, length);

	(void)flags;
	return error ? error : (ssize_t)length;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *number, void *buffer, size_t length,
			int timeout, uint64_t flags)
{
	struct prov_eq *eq = eq_of(fid);
	uint64_t start = prov_clock_ns();

	if (eq->wait_obj == FI_WAIT_NONE)
		return -FI_EOPNOTSUPP;
	for (;;) {
		struct pollfd poller = {.fd = eq->event, .events = POLLIN};
		ssize_t size = eq_read(fid, number, buffer, length, flags);
		int64_t left =
			timeout < 0 ? -1 : timeout - (int64_t)((prov_clock_ns() - start) / 1000000);

		if (size != -FI_EAGAIN)
			return size;
		if (timeout >= 0 && left <= 0)
			return -FI_EAGAIN;
		if (poll(&poller, 1, (int)left) < 0 && errno != EINTR)
			return -errno;
	}
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *data, char *buffer,
			       size_t length)
{
	const char *text = thole_strerror(prov_errno);

	(void)fid, (void)data;
	if (buffer && length)
		snprintf(buffer, length, "%s", text);
	return text;
}

/* 0: its descriptor may be polled; -FI_EAGAIN: there is something already. */
int prov_eq_trywait(struct prov_eq *eq)
{
	bool empty;

	pthread_mutex_lock(&eq->lock);
	empty = !eq->head;
	pthread_mutex_unlock(&eq->lock);
	return empty ? 0 : -FI_EAGAIN;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

static int eq_close(struct fid *fid)
{
	struct prov_eq *eq = prov_of(fid, struct prov_eq, fid.fid);

	if (atomic_load(&eq->users))
		return -FI_EBUSY;
	while (eq->head)
		eq_remove_first(eq);
	close(eq->event);
	pthread_mutex_destroy(&eq->lock);
	atomic_fetch_sub(&eq->fabric->users, 1);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct prov_eq *eq = prov_of(fid, struct prov_eq, fid.fid);

	switch (command) {
	case FI_GETWAIT:
		if (eq->wait_obj != FI_WAIT_FD)
			return -FI_ENODATA;
		*(int *)arg = eq->event;
		return 0;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = eq->wait_obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = prov_stub_bind,
	.control = eq_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p,
		 void *context)
{
	enum fi_wait_obj wait_obj = attr ? attr->wait_obj : FI_WAIT_NONE;
	struct prov_eq *eq;

	if (wait_obj != FI_WAIT_NONE && wait_obj != FI_WAIT_UNSPEC && wait_obj != FI_WAIT_FD &&
	    wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	eq = calloc(1, sizeof *eq);
	if (!eq)
		return -FI_ENOMEM;
	eq->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (eq->event < 0) {
		free(eq);
		return -errno;
	}
	pthread_mutex_init(&eq->lock, NULL);
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	eq->fabric = prov_of(fabric, struct prov_fabric, fid);
	eq->wait_obj = wait_obj;
	eq->tail_p = &eq->head;
	atomic_fetch_add(&eq->fabric->users, 1);
	*eq_p = &eq->fid;
	return 0;
}
