# SPDX-License-Identifier: BSD-3-Clause
"""What a machine's copies make, in bytes a second by length, from the innermost cache to memory; and what registering
memory with its adapters for remote DMA takes."""

from __future__ import annotations

import ctypes
import mmap
import time

from thole.base import native

KIB, MIB = 1024, 1024 * 1024
LENGTHS = (16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB)  # both buffers: first, second, third level, memory
REGISTERED = (4 * KIB, 64 * KIB, MIB, 16 * MIB)
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


def registering() -> dict[str, dict[int, int]]:
    """Nanoseconds by length, of each adapter's port that is up; lengths that are refused are left out."""
    found, _ = native.adapters()
    taken = {
        adapter.name: {length: native.registering_ns(index, length) for length in REGISTERED}
        for index, adapter in enumerate(found)
        if adapter.up
    }
    return {name: {length: ns for length, ns in row.items() if ns is not None} for name, row in taken.items()}
