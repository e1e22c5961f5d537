/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/context.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

enum { CONTEXT_TELL = 3 }; /* of a context's descriptors, behind fd: that fd tells of */

/* ---- Memory --------------------------------------------------------------------------------------------- */

static int memory_error(const struct context *context, size_t length)
{
	const char *device = context->port.device;
	struct rlimit limit = {0};

	if (errno == EFAULT || errno == EINVAL)
		return error_set(THOLE_ERR_ARGUMENT, "%zu bytes cannot be registered with the adapter %s: %m", length,
				 device);
	if (errno != ENOMEM)
		return error_set(THOLE_ERR_SYSTEM, "the adapter %s does not register %zu bytes: %m", device, length);
	getrlimit(RLIMIT_MEMLOCK, &limit);
	return error_set(THOLE_ERR_MEMORY,
			 "the adapter %s has no room for %zu bytes more, or they pass the limit of locked memory, "
			 "%llu bytes: raise it (ulimit -l unlimited; for services LimitMEMLOCK=infinity)",
			 device, length, (unsigned long long)limit.rlim_cur);
}

int context_register(struct context *context, void *base, size_t length, unsigned access, struct nic_memory *memory_p)
{
	static const struct {
		unsigned ours;
		int theirs;
	} rights[] = {{NIC_ACCESS_WRITE, IBV_ACCESS_LOCAL_WRITE},
		      {NIC_ACCESS_PEER_READ, IBV_ACCESS_REMOTE_READ},
		      {NIC_ACCESS_PEER_WRITE, IBV_ACCESS_REMOTE_WRITE},
		      {NIC_ACCESS_PEER_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC},
		      {NIC_ACCESS_PAGED, IBV_ACCESS_ON_DEMAND}};
	struct ibv_mr *region;
	int theirs = 0;

	for (size_t i = 0; i < sizeof(rights) / sizeof(*rights); i++)
		if (access & rights[i].ours)
			theirs |= rights[i].theirs;
	if (context->port.kind == PORT_IWARP && access & NIC_ACCESS_WRITE)
		theirs |= IBV_ACCESS_REMOTE_WRITE; /* what a read brings is, for such adapters, written by the peer */
	region = context->verbs->reg_mr(context->domain, base, length, theirs);
	if (!region)
		return memory_error(context, length);
	*memory_p = (struct nic_memory){region, (uintptr_t)base, length, region->lkey, region->rkey};
	return 0;
}

void context_deregister(struct context *context, struct nic_memory *memory)
{
	(void)context->verbs->dereg_mr(memory->handle);
	memory->handle = NULL;
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

int context_refused(const struct context *context)
{
	int error = errno == ENOMEM ? THOLE_ERR_MEMORY
		    : errno == EACCES || errno == EPERM ? THOLE_ERR_ACCESS
							: THOLE_ERR_SYSTEM;

	return error_set(error, "the adapter %s cannot be used: %m%s", context->port.device,
			 error == THOLE_ERR_MEMORY ? "; it may be the limit of locked memory (ulimit -l)" : "");
}

static struct ibv_context *device_of_name(const struct ibverbs *verbs, const char *name)
{
	struct ibv_device **devices = verbs->get_device_list(NULL);
	struct ibv_context *device = NULL;

	errno = ENODEV;
	for (int i = 0; devices && devices[i] && !device; i++)
		if (strcmp(verbs->get_device_name(devices[i]), name) == 0)
			device = verbs->open_device(devices[i]);
	if (devices) {
		int reason = errno;

		verbs->free_device_list(devices);
		errno = reason;
	}
	return device;
}

/* What tells of completions and events, as one descriptor. */
static int context_watch(struct context *context)
{
	int fds[CONTEXT_TELL] = {context->channel->fd, context->device->async_fd,
				 context->iwarp ? iwarp_fd(context->iwarp) : -1};

	context->fd = limits_own(epoll_create1(EPOLL_CLOEXEC));
	if (context->fd < 0)
		return -1;
	for (int i = 0; i < CONTEXT_TELL; i++) {
		struct epoll_event event = {.events = EPOLLIN};

		context->fds[1 + i] = fds[i];
		if (fds[i] < 0)
			continue;
		if (fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK) != 0 ||
		    epoll_ctl(context->fd, EPOLL_CTL_ADD, fds[i], &event) != 0)
			return -1;
	}
	context->fds[0] = context->fd;
	context->fds[1 + CONTEXT_TELL] = context->device->cmd_fd;
	forked_add(&context->forked, context->fds, CONTEXT_FDS);
	return 0;
}

void context_unwatch(struct context *context)
{
	for (int i = 1; i <= CONTEXT_TELL; i++)
		if (context->fds[i] >= 0)
			(void)epoll_ctl(context->fd, EPOLL_CTL_DEL, context->fds[i], NULL);
}

static int context_queues(struct context *context)
{
	const struct ibverbs *verbs = context->verbs;
	const struct nic_limits *limits = &context->port.limits;
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = limits->receives, .max_sge = 1}};
	int entries = (int)(limits->receives + limits->queues * limits->works);

	context->domain = verbs->alloc_pd(context->device);
	context->channel = verbs->create_comp_channel(context->device);
	if (!context->domain || !context->channel)
		return -1;
	context->completions = verbs->create_cq(context->device, entries, NULL, context->channel, 0);
	context->receives = verbs->create_srq(context->domain, &shared);
	return context->completions && context->receives ? context_watch(context) : -1;
}

static int context_iwarp(struct context *context)
{
	const struct port *port = &context->port;
	struct iwarp_setup setup = {.device = port->device, .reads = (uint8_t)port->limits.reads,
				    .peer_reads = port->reads};

	memcpy(setup.address, port->gid, sizeof(setup.address));
	return iwarp_open(&setup, &context->iwarp);
}

int context_open(struct context *context, const struct port *port)
{
	int error = 0;

	*context = (struct context){.verbs = ibverbs_load(), .port = *port, .fd = -1};
	memcpy(context->asked, port->gid, sizeof(context->asked));
	if (!context->verbs)
		return THOLE_ERR_UNSUPPORTED;
	if (port->kind == PORT_IWARP)
		error = context_iwarp(context);
	if (error)
		return error;
	context->device = device_of_name(context->verbs, port->device);
	return context->device && context_queues(context) == 0 ? 0 : context_refused(context);
}

void context_close(struct context *context)
{
	const struct ibverbs *verbs = context->verbs;

	forked_remove(&context->forked);
	iwarp_close(context->iwarp);
	if (context->receives)
		verbs->destroy_srq(context->receives);
	if (context->completions)
		verbs->destroy_cq(context->completions);
	if (context->channel)
		verbs->destroy_comp_channel(context->channel);
	if (context->domain)
		verbs->dealloc_pd(context->domain);
	if (context->device)
		verbs->close_device(context->device);
	if (context->fd >= 0)
		close(context->fd);
}

bool context_renew(struct context *context)
{
	if (!port_renew(context->verbs, context->device, context->asked, &context->port))
		return false;
	if (context->iwarp)
		(void)iwarp_move(context->iwarp, context->port.gid); /* else there are no new queues */
	return true;
}
