/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.c - Thole's errors in libfabric's words. One table; nothing else translates.
 */
#include "provider.h"

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
};

int prov_error(int status)
{
	if (status >= 0)
		return 0;
	if (status <= -THOLE_ERR_COUNT)
		return FI_EOTHER;
	return errors[-status];
}
