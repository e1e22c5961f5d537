/* SPDX-License-Identifier: BSD-3-Clause */
/* The libFuzzer target over hostile.c; build with clang -fsanitize=fuzzer,address. */
#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	hostile_run(data, size);
	return 0;
}
