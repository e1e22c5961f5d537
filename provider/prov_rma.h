/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_rma.h - reads from and writes to peers' regions, addressed by offset from a region's start.
 *
 * One function for each direction; libfabric's table only puts parameters in order. An end is
 * reported when the data is in the peer's memory, which is the strongest that libfabric knows
 * (FI_DELIVERY_COMPLETE), so every weaker request is met.
 */
#ifndef PROV_RMA_H
#define PROV_RMA_H

#include "prov_compat.h"

extern struct fi_ops_rma prov_rma_ops;

#endif /* PROV_RMA_H */
