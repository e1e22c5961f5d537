/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * protocol: what the module has of the library's protocol, beside the kernel's own names for other things.
 */
#ifndef THOLE_KERNEL_PROTOCOL_H
#define THOLE_KERNEL_PROTOCOL_H

#include <linux/netdevice.h>
#include <linux/path.h>

#define packet_type thole_packet_type
#define path        thole_path

#include "thole.h"
#include "transport/datagram/answer.h"
#include "transport/datagram/block.h"
#include "transport/datagram/guard.h"
#include "transport/datagram/wire/codec.h"

#undef packet_type
#undef path

#endif
