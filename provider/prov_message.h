/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_message.h - sending and receiving, plain and tagged.
 *
 * Every call is one of three: a send, a receive, or a look at what has arrived (peek, claim,
 * discard). The functions of libfabric's two tables only put their parameters in order; the
 * compiler makes each of them a path of its own.
 */
#ifndef PROV_MESSAGE_H
#define PROV_MESSAGE_H

#include "prov_compat.h"

extern struct fi_ops_msg prov_message_ops;
extern struct fi_ops_tagged prov_message_tagged_ops;

#endif /* PROV_MESSAGE_H */
