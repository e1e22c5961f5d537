/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect: from a NIC id, an endpoint id and a key to an endpoint address.
 *
 * The directory finds endpoints of this host, and those of other hosts whose frames are Thole's own. With MXoE a place on
 * another host is found by its name alone, and its own library, whatever it is, judges the key.
 */
#include "internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "library.h"
#include "nic.h"

enum { MS = 1000000 }; /* ns */
#define ANSWER_NS UINT64_C(10000000000) /* how long an endpoint that does not answer is asked at most */

/* ---- Starting -------------------------------------------------------------------------------------------------- */

static void connect_done(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code, struct mxi_peer *peer)
{
	request->peer = peer;
	if (code == MX_STATUS_SUCCESS && !peer)
		code = MX_STATUS_NO_RESOURCES;
	mxi_request_finish(endpoint, request, code);
}

/* Ask the directory. */
static void connect_ask(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id, uint32_t endpoint_id,
			uint32_t key, uint32_t timeout_ms)
{
	struct mxi_query *query = calloc(1, sizeof(*query));
	uint64_t longest_ns = timeout_ms ? (uint64_t)timeout_ms * MS : ANSWER_NS;

	if (!query) {
		connect_done(endpoint, request, MX_STATUS_NO_RESOURCES, NULL);
		return;
	}
	*query = (struct mxi_query){
		.from = &endpoint->entry,
		.nic_id = nic_id,
		.endpoint_id = endpoint_id,
		.key = key,
		.deadline_ns = clock_now_ns() + (longest_ns < ANSWER_NS ? longest_ns : ANSWER_NS),
	};
	request->query = query;
	request->busy = true;
	list_push_back(&endpoint->connecting, &request->done);
	mxi_directory_ask(query);
	mxi_connect_answers(endpoint);
}

/* Let Thole do it. */
static void connect_directly(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id, uint32_t endpoint_id,
			     uint32_t key)
{
	struct thole_address address;
	struct mxi_peer *peer = NULL;
	uint8_t mac[MXI_NIC_BYTES];
	uint32_t handle;
	int error;

	mxi_nic_to_mac(nic_id, mac);
	thole_mxoe_address(mac, (uint8_t)endpoint_id, &address);
	error = thole_peer(endpoint->thole, &address, &handle);
	if (!error)
		peer = mxi_peer_add(endpoint, handle, nic_id, endpoint_id, 0);
	if (!peer) {
		connect_done(endpoint, request, error ? mxi_status_of(error) : MX_STATUS_NO_RESOURCES, NULL);
		return;
	}
	if (peer->connected && peer->key != key) { /* Thole would not ask again */
		connect_done(endpoint, request, MX_STATUS_BAD_KEY, peer);
		return;
	}
	peer->key = key;
	request->peer = peer;
	request->busy = true;
	error = thole_connect(endpoint->thole, handle, key, request, NULL);
	if (error) {
		request->busy = false;
		connect_done(endpoint, request, mxi_status_of(error), peer);
	}
}

static void connect_start(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id, uint32_t endpoint_id,
			  uint32_t key, uint32_t timeout_ms)
{
	struct mxi_board board;

	if (endpoint_id > MXI_ENDPOINT_ID_MAX)
		connect_done(endpoint, request, MX_STATUS_BAD_ENDPOINT, NULL);
	else if (nic_id == endpoint->entry.nic_id && endpoint_id == endpoint->entry.endpoint_id)
		connect_done(endpoint, request, MX_STATUS_SUCCESS, endpoint->self);
	else if (endpoint->mxoe && !mxi_board_find(nic_id, &board))
		connect_directly(endpoint, request, nic_id, endpoint_id, key);
	else
		connect_ask(endpoint, request, nic_id, endpoint_id, key, timeout_ms);
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

/* The directory has nothing more to do with it. */
static void query_end(union mx_request *request)
{
	free(request->query);
	request->query = NULL;
	request->busy = false;
	list_unlink(&request->done);
}

static void connect_answered(struct mx_endpoint *endpoint, union mx_request *request)
{
	struct mxi_query query = *request->query;
	struct mxi_peer *peer = NULL;
	uint32_t handle;

	query_end(request);
	if (query.status == MX_STATUS_SUCCESS) {
		int error = thole_peer(endpoint->thole, &query.address, &handle);

		if (error)
			query.status = mxi_status_of(error);
		else
			peer = mxi_peer_add(endpoint, handle, query.nic_id, query.endpoint_id, query.session);
	}
	connect_done(endpoint, request, query.status, peer);
}

void mxi_connect_answers(struct mx_endpoint *endpoint)
{
	struct list_node *node = list_first(&endpoint->connecting);

	endpoint->answers = load_acquire(&endpoint->entry.answers); /* partner: the directory's thread */
	while (node) {
		union mx_request *request = container_of(node, union mx_request, done);

		node = list_next(&endpoint->connecting, node);
		if (load_acquire(&request->query->done)) /* partner: the directory's thread, after the results */
			connect_answered(endpoint, request);
	}
}

bool mxi_connect_cancel(struct mx_endpoint *endpoint, union mx_request *request)
{
	(void)endpoint;
	if (!mxi_directory_cancel(request->query))
		return false;
	query_end(request);
	return true;
}

void mxi_connect_completed(struct mx_endpoint *endpoint, union mx_request *request, int status)
{
	if (status == 0)
		request->peer->connected = true;
	connect_done(endpoint, request, mxi_status_of(status), request->peer);
}

/* ---- The interface ----------------------------------------------------------------------------------------------- */

/* A synchronous connect has no request that could say how it ended. */
static mx_return_t connect_code(mx_status_code_t status)
{
	switch (status) {
	case MX_STATUS_SUCCESS:
		return MX_SUCCESS;
	case MX_STATUS_BAD_KEY:
		return MX_BAD_CONNECTION_KEY;
	case MX_STATUS_BAD_ENDPOINT:
		return MX_BAD_ENDPOINT_ID;
	case MX_STATUS_ENDPOINT_CLOSED:
		return MX_CONNECTION_FAILED;
	case MX_STATUS_ENDPOINT_UNKNOWN:
		return MX_NIC_NOT_FOUND;
	case MX_STATUS_NO_RESOURCES:
		return MX_NO_RESOURCES;
	default:
		return MX_TIMEOUT;
	}
}

static bool connect_is_done(struct mx_endpoint *endpoint, void *arg)
{
	(void)endpoint;
	return ((union mx_request *)arg)->state == MXI_DONE;
}

mx_return_t mx_connect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key, uint32_t timeout,
		       mx_endpoint_addr_t *addr)
{
	mx_status_t status = {.code = MX_STATUS_TIMEOUT};
	union mx_request *request;
	mx_return_t code;
	bool inside;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_connect without an endpoint");
	lock_take(&endpoint->lock);
	inside = mxi_is_handler(endpoint);
	request = inside ? NULL : mxi_request_new(endpoint, MXI_CONNECT, 0, NULL);
	if (request) {
		connect_start(endpoint, request, nic_id, endpoint_id, key, timeout);
		if (!mxi_wait(endpoint, connect_is_done, request, timeout) && request->query &&
		    !mxi_connect_cancel(endpoint, request))
			mxi_connect_answers(endpoint); /* just now */
		if (request->state == MXI_DONE)
			mxi_request_take(endpoint, request, &status);
		else
			mxi_request_leave(endpoint, request);
	}
	lock_leave(&endpoint->lock);
	code = request ? connect_code(status.code) : inside ? MX_CLOSE_IN_HANDLER : MX_NO_RESOURCES;
	if (code)
		return mxi_error(endpoint, code, "mx_connect to endpoint %u of %012llx", endpoint_id, (unsigned long long)nic_id);
	*addr = status.source;
	return MX_SUCCESS;
}

mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key, uint64_t match_info,
			void *context, mx_request_t *request_p)
{
	union mx_request *request;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_iconnect without an endpoint");
	lock_take(&endpoint->lock);
	request = mxi_request_new(endpoint, MXI_CONNECT, match_info, context);
	if (request) {
		if (request_p)
			*request_p = request;
		connect_start(endpoint, request, nic_id, endpoint_id, key, endpoint->timeout_ms);
		if (!request_p)
			mxi_request_leave(endpoint, request);
		else if (endpoint->timeout_ms)
			mxi_request_limit(endpoint, request, endpoint->timeout_ms);
	}
	lock_leave(&endpoint->lock);
	return request ? MX_SUCCESS : mxi_error(endpoint, MX_NO_RESOURCES, "mx_iconnect: no memory for another request");
}

/* Messages of it that nobody has received are dropped, what is under way to it ends. Thole keeps its connection, and a peer that
 * is connected to again, or speaks again, is a new one. */
mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t addr)
{
	struct thole_completion message;
	struct mxi_peer *peer;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_disconnect without an endpoint");
	lock_take(&endpoint->lock);
	mxi_progress(endpoint);
	peer = mxi_peer_of(endpoint, addr);
	if (peer) {
		mxi_request_end_of(endpoint, peer);
		while (thole_probe(endpoint->thole, peer->handle, 0, 0, THOLE_DISCARD, &message) == 1)
			;
		peer->disconnected = peer != endpoint->self;
	}
	lock_leave(&endpoint->lock);
	return peer ? MX_SUCCESS : mxi_error(endpoint, MX_BAD_ENDPOINT, "mx_disconnect of a peer that is not connected");
}
