# SPDX-License-Identifier: BSD-3-Clause
"""What a machine's copies make: bytes a second by length, from the innermost cache to memory."""

from __future__ import annotations

import ctypes
import mmap
import time

KIB, MIB = 1024, 1024 * 1024
LENGTHS = (16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB)  # both buffers: first, second, third level, memory
SAMPLES = 5
SAMPLE_BYTES = 64 * MIB  # at least, so that the clock and the call do not count


def _sample(to: int, source: int, length: int) -> float:
    times = max(1, SAMPLE_BYTES // length)
    move = ctypes.memmove
    begin = time.perf_counter()
    for _ in range(times):
        move(to, source, length)
    return times * length / (time.perf_counter() - begin)


def copy_rates() -> dict[int, float]:
    """The best of some samples; the first touch of both buffers does not count."""
    longest = max(LENGTHS)
    with mmap.mmap(-1, 2 * longest) as memory:
        base = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(base)
        ctypes.memset(start, 1, 2 * longest)
        rates = {
            length: max(_sample(start + longest, start, length) for _ in range(SAMPLES)) for length in LENGTHS
        }
        del base  # else the memory cannot be unmapped
    return rates
