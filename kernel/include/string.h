/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/* As stdint.h beside this file. */
#include <linux/string.h>
