/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_error.h"

#include <stdio.h>

#include "thole.h"
#include "ucx_log.h"

enum { LINE_BYTES = 512 };

static const ucs_status_t statuses[THOLE_ERR_COUNT] = {
	[-THOLE_ERR_ARGUMENT] = UCS_ERR_INVALID_PARAM,
	[-THOLE_ERR_MEMORY] = UCS_ERR_NO_MEMORY,
	[-THOLE_ERR_AGAIN] = UCS_ERR_NO_RESOURCE,
	[-THOLE_ERR_TIMEOUT] = UCS_ERR_TIMED_OUT,
	[-THOLE_ERR_TRUNCATED] = UCS_ERR_MESSAGE_TRUNCATED,
	[-THOLE_ERR_CANCELED] = UCS_ERR_CANCELED,
	[-THOLE_ERR_PEER] = UCS_ERR_ENDPOINT_TIMEOUT,
	[-THOLE_ERR_ADDRESS] = UCS_ERR_INVALID_ADDR,
	[-THOLE_ERR_ACCESS] = UCS_ERR_REJECTED,
	[-THOLE_ERR_UNSUPPORTED] = UCS_ERR_UNSUPPORTED,
	[-THOLE_ERR_NOT_FOUND] = UCS_ERR_NO_ELEM,
	[-THOLE_ERR_BUSY] = UCS_ERR_BUSY,
	[-THOLE_ERR_CLOSED] = UCS_ERR_CONNECTION_RESET,
};

ucs_status_t ucx_error_status(int error)
{
	if (error >= 0)
		return UCS_OK;
	if (error <= -THOLE_ERR_COUNT || statuses[-error] == UCS_OK)
		return UCS_ERR_IO_ERROR;
	return statuses[-error];
}

void ucx_error_tell(const char *what, int error)
{
	char line[LINE_BYTES];

	snprintf(line, sizeof line, "%s: %s (%s)", what, thole_detail(), thole_strerror(error));
	ucx_log_warn(line);
}
