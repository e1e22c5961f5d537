/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_error.h"

#include <stdio.h>

#include "prov_core.h"
#include "thole.h"

static const int errors[THOLE_ERR_COUNT] = {
	[-THOLE_ERR_ARGUMENT] = FI_EINVAL,
	[-THOLE_ERR_MEMORY] = FI_ENOMEM,
	[-THOLE_ERR_AGAIN] = FI_EAGAIN,
	[-THOLE_ERR_TIMEOUT] = FI_ETIMEDOUT,
	[-THOLE_ERR_TRUNCATED] = FI_ETRUNC,
	[-THOLE_ERR_CANCELED] = FI_ECANCELED,
	[-THOLE_ERR_PEER] = FI_ECONNRESET,
	[-THOLE_ERR_ADDRESS] = FI_EHOSTUNREACH,
	[-THOLE_ERR_KEY] = FI_ENOKEY,
	[-THOLE_ERR_RANGE] = FI_EINVAL,
	[-THOLE_ERR_ACCESS] = FI_EACCES,
	[-THOLE_ERR_FAULT] = FI_EFAULT,
	[-THOLE_ERR_UNSUPPORTED] = FI_EOPNOTSUPP,
	[-THOLE_ERR_NOT_FOUND] = FI_EINVAL,
	[-THOLE_ERR_BUSY] = FI_EBUSY,
	[-THOLE_ERR_SYSTEM] = FI_EIO,
	[-THOLE_ERR_PROTOCOL] = FI_EIO,
	[-THOLE_ERR_CLOSED] = FI_ECONNRESET,
};

int prov_error_of(int status)
{
	if (status >= 0)
		return 0;
	if (status <= -THOLE_ERR_COUNT)
		return FI_EOTHER;
	return errors[-status];
}

int prov_error_failed(int status)
{
	if (status == THOLE_ERR_SYSTEM)
		PROV_WARN(FI_LOG_CORE, "%s", thole_detail());
	return -prov_error_of(status);
}

/* Runtimes that end at different times, such as GASNet's, take FI_ECANCELED
 * for a peer that has closed before them, and anything else for a fault. MPIs, which match by tags,
 * must not get it: they take it for the end of a receive that they have canceled. MPICH's user
 * would be told that the receive succeeded, and whoever waits for another operation's end would
 * wait for ever. */
int prov_error_entry(uint64_t caps, int status)
{
	if (status == THOLE_ERR_CLOSED && !(caps & FI_TAGGED))
		return FI_ECANCELED;
	return prov_error_of(status);
}

const char *prov_error_text(int status, char *buffer, size_t length)
{
	const char *text = thole_strerror(status);

	if (buffer && length)
		snprintf(buffer, length, "%s", text);
	return text;
}
