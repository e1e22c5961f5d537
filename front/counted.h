/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counted.h - what went through an endpoint, for the log that its program's user knows: libfabric's, or UCX's.
 */
#ifndef FRONT_COUNTED_H
#define FRONT_COUNTED_H

#include <stdint.h>

#include "thole.h"

/* Each counter of an open endpoint that is not 0, in the words of its line. Tests read these lines. */
void counted_tell(struct thole_endpoint *endpoint, void (*say)(const char *line));

#endif /* FRONT_COUNTED_H */
