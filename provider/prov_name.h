/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_name.h - an endpoint's name, which is its Thole address, and the connections that a datagram
 * endpoint does not make.
 */
#ifndef PROV_NAME_H
#define PROV_NAME_H

#include "prov_compat.h"

extern struct fi_ops_cm prov_name_ops;

#endif /* PROV_NAME_H */
