/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_transfer - sends and receives, from posting on. */
#include "mx_error.h"
#include "mx_peer.h"
#include "mx_request.h"

enum {
	/* bytes of a send whose memory is the program's again at once; programs count on a few hundred */
	BUFFERED_MAX = 4096,
};

/* ---- Segments -------------------------------------------------------------------------------- */

/* Whether there may be such a list, and how long all of it is. */
static inline mx_return_t mxi_transfer_segments_check(struct mx_endpoint *endpoint, const mx_segment_t *list,
						      uint32_t count, uint64_t *length_p)
{
	uint64_t length = 0;

	if (__builtin_expect(count > 0 && !list, 0))
		return mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_SEG_LIST, "a list of %u segments at NULL",
				 count);
	if (__builtin_expect(count == 1, 1)) {
		*length_p = list->segment_length;
		return MX_SUCCESS;
	}
	if (count > MX_MAX_SEGMENTS)
		return mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_SEG_CNT, "%u segments: there may be %d", count,
				 MX_MAX_SEGMENTS);
	for (uint32_t i = 0; i < count; i++)
		length += list[i].segment_length;
	if (length > UINT32_MAX)
		return mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_SEG_MEM,
				 "%llu bytes in a message: a length has 32 bits", (unsigned long long)length);
	*length_p = length;
	return MX_SUCCESS;
}

/* As Thole has them; padding behind MX's lengths holds anything. */
static void mxi_transfer_segments_copy(const mx_segment_t *list, uint32_t count, struct iovec *segments)
{
	for (uint32_t i = 0; i < count; i++)
		segments[i] = (struct iovec){list[i].segment_ptr, list[i].segment_length};
}

/* ---- Sending --------------------------------------------------------------------------------- */

static __attribute__((noinline)) int mxi_transfer_send_vector(struct mx_endpoint *endpoint, union mx_request *request,
							      const mx_segment_t *list, uint32_t count, unsigned flags)
{
	struct iovec segments[MX_MAX_SEGMENTS];

	mxi_transfer_segments_copy(list, count, segments);
	return thole_sendv(endpoint->thole, request->peer->handle, segments, count, request->status.match_info, 0,
			   flags, request, NULL);
}

static inline mx_return_t mxi_transfer_send_start(struct mx_endpoint *endpoint, const mx_segment_t *list,
						  uint32_t count, mx_endpoint_addr_t to, uint64_t match_info,
						  void *context, mx_request_t *request_p, unsigned flags)
{
	union mx_request *request;
	struct mxi_peer *peer;
	uint64_t length = 0;
	mx_return_t code;
	int error;

	if (__builtin_expect(!endpoint, 0))
		return mxi_error(NULL, MX_BAD_ENDPOINT, "a send without an endpoint");
	code = mxi_transfer_segments_check(endpoint, list, count, &length);
	if (__builtin_expect(code != MX_SUCCESS, 0))
		return code;
	if (length <= BUFFERED_MAX && !(flags & THOLE_SYNC))
		flags |= THOLE_INJECT;
	lock_take(&endpoint->lock);
	peer = mxi_peer_of(&endpoint->peers, to);
	request = mxi_request_new_limited(endpoint, MXI_SEND, match_info, context, peer, (uint32_t)length, request_p);
	if (__builtin_expect(!request, 0)) {
		lock_leave(&endpoint->lock);
		return mxi_error(mxi_endpoint_handler(endpoint), MX_NO_RESOURCES, "no memory for another request");
	}
	request->buffered = flags & THOLE_INJECT;
	if (request_p)
		*request_p = request;
	else
		request->state = MXI_LEFT;
	if (__builtin_expect(peer != NULL, 1)) {
		request->busy = true;
		if (__builtin_expect(count == 1, 1))
			error = thole_send(endpoint->thole, peer->handle, list->segment_ptr, length, match_info, 0,
					   flags, request, NULL);
		else
			error = mxi_transfer_send_vector(endpoint, request, list, count, flags);
		if (__builtin_expect(error != 0, 0)) {
			request->busy = false;
			mxi_request_finish(endpoint, request, mxi_request_status(error));
		}
	} else {
		mxi_request_finish(endpoint, request, MX_STATUS_BAD_SESSION);
	}
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     mx_endpoint_addr_t dest_endpoint, uint64_t match_info, void *context, mx_request_t *request)
{
	return mxi_transfer_send_start(endpoint, segments_list, segments_count, dest_endpoint, match_info, context,
				       request, 0);
}

mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		      mx_endpoint_addr_t dest_endpoint, uint64_t match_info, void *context, mx_request_t *request)
{
	return mxi_transfer_send_start(endpoint, segments_list, segments_count, dest_endpoint, match_info, context,
				       request, THOLE_SYNC);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static __attribute__((noinline)) int mxi_transfer_receive_vector(struct mx_endpoint *endpoint,
								 union mx_request *request, const mx_segment_t *list,
								 uint32_t count, uint64_t match_mask)
{
	struct iovec segments[MX_MAX_SEGMENTS];

	mxi_transfer_segments_copy(list, count, segments);
	return thole_recvv(endpoint->thole, THOLE_ANY, segments, count, request->status.match_info, match_mask, 0,
			   request, NULL);
}

mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count, uint64_t match_info,
		     uint64_t match_mask, void *context, mx_request_t *request_p)
{
	union mx_request *request;
	uint64_t length = 0;
	mx_return_t code;
	int error = THOLE_ERR_MEMORY;

	code = mxi_request_check_match(endpoint, "mx_irecv", match_info, match_mask);
	if (__builtin_expect(code == MX_SUCCESS, 1))
		code = mxi_transfer_segments_check(endpoint, segments_list, segments_count, &length);
	if (__builtin_expect(code != MX_SUCCESS, 0))
		return code;
	if (__builtin_expect((endpoint->context_mask & ~match_mask) != 0, 0))
		return mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK,
				 "mx_irecv: the match mask %llx leaves out bits of the context id %llx",
				 (unsigned long long)match_mask, (unsigned long long)endpoint->context_mask);
	lock_take(&endpoint->lock);
	request = mxi_request_new(endpoint, MXI_RECEIVE, match_info, context, NULL, 0);
	if (__builtin_expect(request != NULL, 1)) {
		request->busy = true;
		if (request_p)
			*request_p = request; /* another thread may take its end as soon as the lock is free */
		else
			request->state = MXI_LEFT;
		if (__builtin_expect(segments_count == 1, 1))
			error = thole_recv(endpoint->thole, THOLE_ANY, segments_list->segment_ptr, length, match_info,
					   match_mask, 0, request, NULL);
		else
			error = mxi_transfer_receive_vector(endpoint, request, segments_list, segments_count,
							    match_mask);
		if (__builtin_expect(error != 0, 0))
			mxi_request_free(endpoint, request);
	}
	lock_leave(&endpoint->lock);
	if (__builtin_expect(error != 0, 0))
		return mxi_error(mxi_endpoint_handler(endpoint), MX_NO_RESOURCES, "mx_irecv: %s", thole_detail());
	return MX_SUCCESS;
}
