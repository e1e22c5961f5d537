/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdmacm_fake: a librdmacm that is made up: it counts ids, remembers what it was asked for, and gives the events that a
 * test puts into it. Part of the program that includes it.
 */
#ifndef THOLE_TEST_UNIT_RDMACM_FAKE_H
#define THOLE_TEST_UNIT_RDMACM_FAKE_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/verbs/rdmacm.h"
#include "unit.h"

enum { CM_LIST = 128 };

static struct {
	struct ibv_context *found;     /* the adapter that addresses lead to */
	int ids;                       /* that there are */
	int bind_errors, bind_errno;   /* so many times it fails, with this */
	int resolve_error, route_error, connect_error, accept_error; /* errnos; 0: it succeeds */
	unsigned listens, resolves, routes, connects, accepts, rejects;
	struct sockaddr_in from, to;   /* of the last resolve */
	struct rdma_conn_param param;  /* of the last connect or accept, */
	uint8_t said[256];             /* and its private data */
	struct rdma_cm_id *id;         /* the last one that was made, connected or accepted */
	struct rdma_event_channel channel;
	struct rdma_cm_event events[CM_LIST];
	unsigned first, count, given;  /* events; of which so many are not given back */
} cm;

static struct rdma_event_channel *cm_channel(void)
{
	cm.channel.fd = eventfd(0, EFD_CLOEXEC);
	return &cm.channel;
}

static void cm_channel_end(struct rdma_event_channel *channel)
{
	close(channel->fd);
	channel->fd = -1;
}

static int cm_fails(int error)
{
	errno = error;
	return error ? -1 : 0;
}

static int cm_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		     enum rdma_port_space space)
{
	assert_int_equal(space, RDMA_PS_TCP);
	cm.id = calloc(1, sizeof(*cm.id));
	cm.id->channel = channel;
	cm.id->context = context;
	*id = cm.id;
	cm.ids++;
	return 0;
}

/* Which would wait for events that were not given back. */
static int cm_destroy(struct rdma_cm_id *id)
{
	assert_int_equal(cm.given, 0);
	cm.ids--;
	free(id);
	return 0;
}

static int cm_bind(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	id->verbs = cm.found;
	return cm.bind_errors > 0 ? cm.bind_errors--, cm_fails(cm.bind_errno) : 0;
}

static int cm_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	assert_in_range(backlog, 1, 1024);
	cm.listens++;
	return 0;
}

static __be16 cm_port(struct rdma_cm_id *id)
{
	(void)id;
	return htons(4711);
}

static int cm_resolve(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)ms;
	cm.resolves++;
	memcpy(&cm.from, from, sizeof(cm.from));
	memcpy(&cm.to, to, sizeof(cm.to));
	id->verbs = cm.found;
	return cm_fails(cm.resolve_error);
}

static int cm_route(struct rdma_cm_id *id, int ms)
{
	(void)id, (void)ms;
	cm.routes++;
	return cm_fails(cm.route_error);
}

static void cm_note(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	cm.id = id;
	cm.param = *param;
	memset(cm.said, 0, sizeof(cm.said));
	if (param->private_data_len)
		memcpy(cm.said, param->private_data, param->private_data_len);
}

static int cm_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	cm.connects++;
	cm_note(id, param);
	return cm_fails(cm.connect_error);
}

static int cm_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	cm.accepts++;
	cm_note(id, param);
	return cm_fails(cm.accept_error);
}

static int cm_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	(void)id, (void)data, (void)length;
	cm.rejects++;
	return 0;
}

static int cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	if (cm.first == cm.count)
		return cm_fails(EAGAIN);
	*event = &cm.events[cm.first++];
	cm.given++;
	return 0;
}

static int cm_ack(struct rdma_cm_event *event)
{
	memset(event, 0x55, sizeof(*event)); /* it is the library's again */
	cm.given--;
	return 0;
}

static void cm_say(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	cm.events[cm.count++] = (struct rdma_cm_event){.event = type, .id = id};
}

/* Somebody asks, with these bytes. */
static struct rdma_cm_id *cm_ask(const uint8_t *bytes, uint8_t length)
{
	struct rdma_cm_id *id, *last = cm.id;

	cm_create(&cm.channel, &id, NULL, RDMA_PS_TCP);
	cm.id = last;
	id->verbs = cm.found;
	cm_say(RDMA_CM_EVENT_CONNECT_REQUEST, id);
	cm.events[cm.count - 1].param.conn = (struct rdma_conn_param){
		.private_data = bytes, .private_data_len = length, .responder_resources = 3, .initiator_depth = 200};
	return id;
}

/* By its symbol; NULL: it is not this library's. */
static void *cm_symbol(const char *name)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} symbols[] = {
#define CM(name, function) {"rdma_" #name, (void (*)(void))(function)}
		CM(create_event_channel, cm_channel), CM(destroy_event_channel, cm_channel_end),
		CM(create_id, cm_create), CM(destroy_id, cm_destroy), CM(bind_addr, cm_bind), CM(listen, cm_listen),
		CM(get_src_port, cm_port), CM(resolve_addr, cm_resolve), CM(resolve_route, cm_route),
		CM(connect, cm_connect), CM(accept, cm_accept), CM(reject, cm_reject), CM(get_cm_event, cm_event),
		CM(ack_cm_event, cm_ack),
#undef CM
	};
	void *found = NULL;

	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		if (strcmp(symbols[i].name, name) == 0)
			memcpy(&found, &symbols[i].function, sizeof(found));
	return found;
}

#endif
