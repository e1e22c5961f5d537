/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/atomic.h"

static mx_return_t mxi_error_fatal(char *str, mx_return_t ret)
{
	fprintf(stderr, "MX: %s: %s\n", str, mx_strerror(ret));
	exit(EXIT_FAILURE);
}

static mx_return_t mxi_error_return(char *str, mx_return_t ret)
{
	(void)str;
	return ret;
}

const mx_error_handler_t MX_ERRORS_ARE_FATAL = mxi_error_fatal;
const mx_error_handler_t MX_ERRORS_RETURN = mxi_error_return;

static mx_error_handler_t process_handler = mxi_error_fatal;

mx_error_handler_t mx_set_error_handler(mx_error_handler_t handler)
{
	/* Partner: mxi_error, which sees what the program prepared for its handler. */
	return swap_acquire_release(&process_handler, handler ? handler : mxi_error_fatal);
}

mx_return_t mxi_error(mx_error_handler_t handler, mx_return_t code, const char *format, ...)
{
	char sentence[MXI_SENTENCE_MAX];
	va_list arguments;

	if (code == MX_SUCCESS)
		return code;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	if (!handler)
		handler = load_acquire(&process_handler); /* partner: mx_set_error_handler */
	return handler(sentence, code);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *const return_phrases[] = {
	[MX_SUCCESS] = "success",
	[MX_BAD_BAD_BAD] = "an error that should not be possible",
	[MX_FAILURE] = "failure",
	[MX_ALREADY_INITIALIZED] = "MX is initialised already",
	[MX_NOT_INITIALIZED] = "MX is not initialised",
	[MX_NO_DEV] = "no device",
	[MX_NO_DRIVER] = "no driver",
	[MX_NO_PERM] = "not permitted",
	[MX_BOARD_UNKNOWN] = "no such board",
	[MX_BAD_ENDPOINT] = "not an open endpoint",
	[MX_BAD_SEG_LIST] = "the list of segments is missing",
	[MX_BAD_SEG_MEM] = "a segment is not memory of this process",
	[MX_BAD_SEG_CNT] = "too many segments",
	[MX_BAD_REQUEST] = "not a request that this can be done with",
	[MX_BAD_MATCH_MASK] = "match information and mask do not go together",
	[MX_NO_RESOURCES] = "out of resources",
	[MX_BAD_ADDR_LIST] = "the list of addresses is missing",
	[MX_BAD_ADDR_COUNT] = "the list of addresses is empty",
	[MX_BAD_ROOT] = "the root is not in the list of addresses",
	[MX_NOT_COMPLETED] = "not complete yet",
	[MX_BUSY] = "in use",
	[MX_BAD_INFO_KEY] = "no such information",
	[MX_BAD_INFO_VAL] = "a pointer or value for the information is bad",
	[MX_BAD_NIC] = "not a NIC id",
	[MX_BAD_PARAM_LIST] = "the list of parameters is missing",
	[MX_BAD_PARAM_NAME] = "no such parameter",
	[MX_BAD_PARAM_VAL] = "a parameter's value is not allowed",
	[MX_BAD_HOSTNAME_ARGS] = "a host's name or the place for it is missing",
	[MX_HOST_NOT_FOUND] = "no such host",
	[MX_REQUEST_PENDING] = "not buffered yet",
	[MX_TIMEOUT] = "out of time",
	[MX_NO_MATCH] = "no message matches",
	[MX_BAD_ENDPOINT_ID] = "no such endpoint id",
	[MX_CONNECTION_FAILED] = "nobody has the endpoint open",
	[MX_BAD_CONNECTION_KEY] = "the endpoint has another key",
	[MX_BAD_INFO_LENGTH] = "the buffer for the information is too small",
	[MX_NIC_NOT_FOUND] = "no host with this NIC id is known",
	[MX_BAD_KERNEL_VERSION] = "the driver has another version",
	[MX_BAD_LIB_VERSION] = "program and library are of different versions of MX",
	[MX_NIC_DEAD] = "the board has failed",
	[MX_CANCEL_NOT_SUPPORTED] = "this kind of request cannot be canceled",
	[MX_CLOSE_IN_HANDLER] = "not allowed in a handler of unexpected messages",
	[MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK] = "the mask has a part of the context id",
	[MX_NOT_SUPPORTED_WITH_CONTEXT_ID] = "not possible on an endpoint with context ids",
};

static const char *const status_phrases[] = {
	[MX_STATUS_SUCCESS] = "success",
	[MX_STATUS_PENDING] = "not complete yet",
	[MX_STATUS_BUFFERED] = "buffered, not complete yet",
	[MX_STATUS_REJECTED] = "the operation failed",
	[MX_STATUS_TIMEOUT] = "out of time",
	[MX_STATUS_TRUNCATED] = "the message was longer than the buffer",
	[MX_STATUS_CANCELLED] = "canceled",
	[MX_STATUS_ENDPOINT_UNKNOWN] = "no host with this NIC id is known",
	[MX_STATUS_ENDPOINT_CLOSED] = "the peer's endpoint is closed",
	[MX_STATUS_ENDPOINT_UNREACHABLE] = "the peer's host is silent",
	[MX_STATUS_BAD_SESSION] = "the peer's endpoint was closed and opened again",
	[MX_STATUS_BAD_KEY] = "the endpoint has another key",
	[MX_STATUS_BAD_ENDPOINT] = "no such endpoint id",
	[MX_STATUS_BAD_RDMAWIN] = "the message was withdrawn while it was fetched",
	[MX_STATUS_ABORTED] = "the peer gave up",
	[MX_STATUS_EVENTQ_FULL] = "the queue of events is full",
	[MX_STATUS_NO_RESOURCES] = "out of resources",
};

const char *mx_strerror(mx_return_t return_code)
{
	size_t code = (size_t)return_code;

	return code < sizeof(return_phrases) / sizeof(*return_phrases) ? return_phrases[code] : "unknown return code";
}

const char *mx_strstatus(mx_status_code_t status)
{
	size_t code = (size_t)status;

	return code < sizeof(status_phrases) / sizeof(*status_phrases) ? status_phrases[code] : "unknown status";
}
