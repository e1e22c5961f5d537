/* SPDX-License-Identifier: BSD-3-Clause */
/* The libFuzzer side of any target; build with clang -fsanitize=fuzzer,address. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_run(data, size);
	return 0;
}
