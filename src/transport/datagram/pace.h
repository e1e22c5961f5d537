/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pace: how long something takes that is measured now and then, between other programs' turns. Pure.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_PACE_H
#define THOLE_TRANSPORT_DATAGRAM_PACE_H

#include <stdint.h>

/* Another sample, in whatever unit. Less is believed soon; for more, something else may have come between. 0: nothing
 * was measured yet. */
static inline void pace_measure(uint32_t *pace, uint64_t sample)
{
	uint64_t most = 2 * (uint64_t)*pace;

	if (sample > UINT32_MAX / 4)
		sample = UINT32_MAX / 4;
	if (*pace == 0 || sample < *pace)
		*pace = (uint32_t)((*pace ? *pace : sample) / 2 + sample / 2);
	else
		*pace += ((uint32_t)(sample < most ? sample : most) - *pace) / 8;
}

#endif
