/* SPDX-License-Identifier: BSD-3-Clause */
/* frames: frames in words, for the trace. */
#ifndef THOLE_SIM_FRAMES_H
#define THOLE_SIM_FRAMES_H

#include "transport/datagram/wire/codec.h"

enum { FRAME_TEXT_MAX = 256 };

void frame_text(const struct codec *codec, const uint8_t *frame, size_t length, char text[FRAME_TEXT_MAX]);

#endif
