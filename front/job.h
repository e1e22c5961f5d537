/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h - what an endpoint was told of the job that its process belongs to.
 */
#ifndef FRONT_JOB_H
#define FRONT_JOB_H

#include <stdbool.h>

#include "base/host.h"
#include "thole.h"

/* Whether the job has more processes on this host than that has cores for, as far as an endpoint was told how many. */
static inline bool job_oversubscribed(struct thole_endpoint *endpoint)
{
	uint64_t ranks;

	return !thole_option_number(endpoint, "local_ranks", &ranks) && host_oversubscribed(ranks);
}

#endif /* FRONT_JOB_H */
