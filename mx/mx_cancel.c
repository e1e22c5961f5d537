/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_cancel - what a program does with a request other than wait for it: cancel, forget, time-outs,
 * mx_ibuffered, mx_context. */
#include "mx_ending.h"
#include "mx_error.h"
#include "mx_progress.h"
#include "mx_request.h"

mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request, uint32_t milli_seconds)
{
	mx_return_t code = MX_SUCCESS;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_set_request_timeout without an endpoint");
	lock_take(&endpoint->lock);
	if (request)
		code = mxi_request_limit(endpoint, request, milli_seconds);
	else
		endpoint->timeout_ms = milli_seconds;
	lock_leave(&endpoint->lock);
	return code ? mxi_error(mxi_endpoint_handler(endpoint), code,
				"mx_set_request_timeout: no memory for another deadline")
		    : MX_SUCCESS;
}

mx_return_t mx_cancel(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_cancel", request);

	if (code)
		return code;
	*result = 0;
	lock_take(&endpoint->lock);
	mxi_progress_run(endpoint);
	if ((*request)->kind == MXI_SEND) {
		code = MX_CANCEL_NOT_SUPPORTED;
	} else if ((*request)->state == MXI_PENDING && mxi_ending_withdraw(endpoint, *request)) {
		mxi_request_leave(endpoint, *request);
		*request = NULL;
		*result = 1;
	}
	lock_leave(&endpoint->lock);
	return code ? mxi_error(mxi_endpoint_handler(endpoint), code,
				"mx_cancel of a send: only receives and connects can be canceled")
		    : MX_SUCCESS;
}

mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_forget", request);

	if (code)
		return code;
	lock_take(&endpoint->lock);
	mxi_request_leave(endpoint, *request);
	lock_leave(&endpoint->lock);
	*request = NULL;
	return MX_SUCCESS;
}

/* A send is buffered when its memory is the program's again: a short one at once, a longer one when
 * it is complete. */
mx_return_t mx_ibuffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_ibuffered", request);

	if (code)
		return code;
	*result = 0;
	lock_take(&endpoint->lock);
	mxi_progress_run(endpoint);
	if ((*request)->kind == MXI_SEND)
		*result = (*request)->buffered || (*request)->state == MXI_DONE;
	else
		code = MX_BAD_REQUEST;
	lock_leave(&endpoint->lock);
	return code ? mxi_error(mxi_endpoint_handler(endpoint), code, "mx_ibuffered: only sends are buffered")
		    : MX_SUCCESS;
}

mx_return_t mx_context(mx_request_t *request, void **context)
{
	if (!request || !*request)
		return mxi_error(NULL, MX_BAD_REQUEST, "mx_context without a request");
	*context = (*request)->status.context;
	return MX_SUCCESS;
}

/* MX has declared these and never had them. */

mx_return_t mx_buffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout, uint32_t *result)
{
	(void)request, (void)timeout, (void)result;
	return mxi_error(mxi_endpoint_handler(endpoint), MX_FAILURE,
			 "mx_buffered does not exist in MX either: use mx_ibuffered or mx_wait");
}

mx_return_t mx_iput(mx_endpoint_t endpoint, void *local_addr, uint32_t length, mx_endpoint_addr_t dest_endpoint,
		    uint64_t remote_addr, void *context, mx_request_t *request)
{
	(void)local_addr, (void)length, (void)dest_endpoint, (void)remote_addr, (void)context, (void)request;
	return mxi_error(mxi_endpoint_handler(endpoint), MX_FAILURE,
			 "mx_iput does not exist in MX either: send a message");
}

mx_return_t mx_iget(mx_endpoint_t endpoint, void *local_addr, uint32_t length, mx_endpoint_addr_t dest_endpoint,
		    uint64_t remote_addr, void *context, mx_request_t *request)
{
	(void)local_addr, (void)length, (void)dest_endpoint, (void)remote_addr, (void)context, (void)request;
	return mxi_error(mxi_endpoint_handler(endpoint), MX_FAILURE,
			 "mx_iget does not exist in MX either: send a message");
}
