/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_connecting.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "mx_board.h"
#include "mx_directory.h"
#include "mx_nic.h"

enum { MS = 1000000 }; /* ns */

/* How long an endpoint that does not answer is asked at most. */
static const uint64_t answer_ns = 10000000000;

/* ---- Starting -------------------------------------------------------------------------------- */

static void mxi_connecting_done(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code,
				struct mxi_peer *peer)
{
	request->peer = peer;
	if (code == MX_STATUS_SUCCESS && !peer)
		code = MX_STATUS_NO_RESOURCES;
	mxi_request_finish(endpoint, request, code);
}

/* Ask the directory. */
static void mxi_connecting_ask(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id,
			       uint32_t endpoint_id, uint32_t key, uint32_t timeout_ms)
{
	struct mxi_query *query = calloc(1, sizeof(*query));
	uint64_t longest_ns = timeout_ms ? (uint64_t)timeout_ms * MS : answer_ns;

	if (!query) {
		mxi_connecting_done(endpoint, request, MX_STATUS_NO_RESOURCES, NULL);
		return;
	}
	*query = (struct mxi_query){
		.from = &endpoint->entry,
		.nic_id = nic_id,
		.endpoint_id = endpoint_id,
		.key = key,
		.deadline_ns = clock_now_ns() + (longest_ns < answer_ns ? longest_ns : answer_ns),
	};
	request->query = query;
	request->busy = true;
	list_push_back(&endpoint->connecting, &request->done);
	mxi_directory_ask(query);
	mxi_connecting_answers(endpoint);
}

/* Let Thole do it. */
static void mxi_connecting_directly(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id,
				    uint32_t endpoint_id, uint32_t key)
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
		peer = mxi_peer_add(&endpoint->peers, handle, nic_id, endpoint_id, 0);
	if (!peer) {
		mxi_connecting_done(endpoint, request, error ? mxi_request_status(error) : MX_STATUS_NO_RESOURCES,
				    NULL);
		return;
	}
	if (peer->connected && peer->key != key) { /* Thole would not ask again */
		mxi_connecting_done(endpoint, request, MX_STATUS_BAD_KEY, peer);
		return;
	}
	peer->key = key;
	request->peer = peer;
	request->busy = true;
	error = thole_connect(endpoint->thole, handle, key, request, NULL);
	if (error) {
		request->busy = false;
		mxi_connecting_done(endpoint, request, mxi_request_status(error), peer);
	}
}

void mxi_connecting_start(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id,
			  uint32_t endpoint_id, uint32_t key, uint32_t timeout_ms)
{
	struct mxi_board board;
	mx_return_t ours;

	if (endpoint_id > MXI_ENDPOINT_ID_MAX)
		mxi_connecting_done(endpoint, request, MX_STATUS_BAD_ENDPOINT, NULL);
	else if (nic_id == endpoint->entry.nic_id && endpoint_id == endpoint->entry.endpoint_id)
		mxi_connecting_done(endpoint, request, MX_STATUS_SUCCESS, endpoint->self);
	else if (endpoint->mxoe && (ours = mxi_board_find(nic_id, &board)) == MX_BOARD_UNKNOWN)
		mxi_connecting_directly(endpoint, request, nic_id, endpoint_id, key);
	else if (endpoint->mxoe && ours)
		mxi_connecting_done(endpoint, request, MX_STATUS_NO_RESOURCES, NULL);
	else
		mxi_connecting_ask(endpoint, request, nic_id, endpoint_id, key, timeout_ms);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* The directory has nothing more to do with it. */
static void mxi_connecting_query_end(union mx_request *request)
{
	free(request->query);
	request->query = NULL;
	request->busy = false;
	list_unlink(&request->done);
}

static void mxi_connecting_answered(struct mx_endpoint *endpoint, union mx_request *request)
{
	struct mxi_query query = *request->query;
	struct mxi_peer *peer = NULL;
	uint32_t handle;

	mxi_connecting_query_end(request);
	if (query.status == MX_STATUS_SUCCESS) {
		int error = thole_peer(endpoint->thole, &query.address, &handle);

		if (error)
			query.status = mxi_request_status(error);
		else
			peer = mxi_peer_add(&endpoint->peers, handle, query.nic_id, query.endpoint_id, query.session);
		if (!error && mxi_peer_is_gone(&endpoint->peers, handle))
			query.status = MX_STATUS_ENDPOINT_CLOSED; /* or silent, which mxi_request_take sees */
	}
	mxi_connecting_done(endpoint, request, query.status, peer);
}

void mxi_connecting_answers(struct mx_endpoint *endpoint)
{
	struct list_node *node = list_first(&endpoint->connecting);

	endpoint->answers = load_acquire(&endpoint->entry.answers); /* partner: the directory's thread */
	while (node) {
		union mx_request *request = container_of(node, union mx_request, done);

		node = list_next(&endpoint->connecting, node);
		if (load_acquire(&request->query->done)) /* partner: the directory's thread, after the results */
			mxi_connecting_answered(endpoint, request);
	}
}

bool mxi_connecting_cancel(union mx_request *request)
{
	if (!mxi_directory_cancel(request->query))
		return false;
	mxi_connecting_query_end(request);
	return true;
}

void mxi_connecting_completed(struct mx_endpoint *endpoint, union mx_request *request, int status)
{
	if (status == 0)
		request->peer->connected = true;
	mxi_connecting_done(endpoint, request, mxi_request_status(status), request->peer);
}
