/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/* The C library's name for what the kernel has too, so that the pure parts are compiled as they are. */
#ifndef THOLE_KERNEL_STDINT_H
#define THOLE_KERNEL_STDINT_H

#include <linux/limits.h>
#include <linux/types.h>

#define UINT8_MAX  U8_MAX
#define UINT16_MAX U16_MAX
#define UINT32_MAX U32_MAX
#define UINT32_C(number) number##U
#define UINT64_MAX U64_MAX
#define UINT64_C(number) number##ULL

#endif
