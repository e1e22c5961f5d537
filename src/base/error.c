/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error phrases and each thread's detail; see error.h.
 */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT(value) #value
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

static const char *const phrases[] = {
	[THOLE_OK] = "success",
	[-THOLE_ERR_ARGUMENT] = "invalid argument",
	[-THOLE_ERR_MEMORY] = "out of memory",
	[-THOLE_ERR_AGAIN] = "a bound is reached, try again after progress",
	[-THOLE_ERR_TIMEOUT] = "timed out",
	[-THOLE_ERR_TRUNCATED] = "message longer than the receive buffer",
	[-THOLE_ERR_CANCELED] = "canceled",
	[-THOLE_ERR_PEER] = "the peer is gone",
	[-THOLE_ERR_CLOSED] = "the peer has closed its endpoint",
	[-THOLE_ERR_ADDRESS] = "invalid or unreachable address",
	[-THOLE_ERR_KEY] = "no such region key, or the key is taken",
	[-THOLE_ERR_RANGE] = "access beyond the region",
	[-THOLE_ERR_ACCESS] = "access is refused: not allowed, or another key",
	[-THOLE_ERR_FAULT] = "buffer is not mapped memory",
	[-THOLE_ERR_UNSUPPORTED] = "no such operation for these parameters",
	[-THOLE_ERR_NOT_FOUND] = "not found",
	[-THOLE_ERR_BUSY] = "in use",
	[-THOLE_ERR_SYSTEM] = "system call failed",
	[-THOLE_ERR_PROTOCOL] = "protocol violation or other protocol version",
};
static_assert(sizeof(phrases) / sizeof(phrases[0]) == THOLE_ERR_COUNT, "a phrase for each error");

static _Thread_local char detail[ERROR_DETAIL_MAX];

const char *thole_strerror(int error)
{
	if (error > 0)
		return phrases[0]; /* functions that return a count return it for success */
	if (error <= -THOLE_ERR_COUNT)
		return "unknown error";
	return phrases[-error];
}

const char *thole_detail(void)
{
	return detail;
}

const char *thole_version(void)
{
	return VERSION(THOLE_VERSION_MAJOR, THOLE_VERSION_MINOR, THOLE_VERSION_PATCH);
}

int error_set(int code, const char *format, ...)
{
	int saved = errno;
	char text[ERROR_DETAIL_MAX]; /* arguments may point into the old sentence */
	va_list arguments;

	va_start(arguments, format);
	if (vsnprintf(text, sizeof(text), format, arguments) < 0)
		text[0] = '\0';
	va_end(arguments);
	strcpy(detail, text);
	errno = saved;
	return code;
}

int error_prefix(int code, const char *format, ...)
{
	int saved = errno;
	char text[ERROR_DETAIL_MAX];
	va_list arguments;
	size_t length;

	va_start(arguments, format);
	if (vsnprintf(text, sizeof(text), format, arguments) < 0)
		text[0] = '\0';
	va_end(arguments);
	length = strlen(text);
	memccpy(text + length, detail, '\0', sizeof(text) - length);
	text[sizeof(text) - 1] = '\0';
	strcpy(detail, text);
	errno = saved;
	return code;
}

void error_save(char kept[ERROR_DETAIL_MAX])
{
	strcpy(kept, detail);
}

void error_restore(const char kept[ERROR_DETAIL_MAX])
{
	strcpy(detail, kept);
}
