/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * typical: how long something takes that is measured now and then, between other programs' turns. Pure.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_TYPICAL_H
#define THOLE_TRANSPORT_DATAGRAM_TYPICAL_H

#include <stdint.h>

/* Another sample, in whatever unit. Less is believed soon; for more, something else may have come between. 0: nothing
 * was measured yet. */
static inline void typical_learn(uint32_t *typical, uint64_t sample)
{
	uint64_t most = 2 * (uint64_t)*typical;

	if (sample > UINT32_MAX / 4)
		sample = UINT32_MAX / 4;
	if (*typical == 0 || sample < *typical)
		*typical = (uint32_t)((*typical ? *typical : sample) / 2 + sample / 2);
	else
		*typical += ((uint32_t)(sample < most ? sample : most) - *typical) / 8;
}

#endif
