/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/* As stdint.h. The kernel's struct iovec is of a program's memory; that of the pure parts is of the kernel's own. */
#ifndef THOLE_KERNEL_SYS_UIO_H
#define THOLE_KERNEL_SYS_UIO_H

#include <linux/uio.h>

#define iovec thole_iovec

struct iovec {
	void *iov_base;
	size_t iov_len;
};

#endif
