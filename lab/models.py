# SPDX-License-Identifier: BSD-3-Clause
"""Cost models of the papers, as equations: seconds, bytes, bytes a second.

    Machine       what a machine costs: copies, registration, a network in the manner of LogP
    pipeline*, superpipeline*   equations 1 to 9 of the superpipeline paper (sections 3 and 4), by their numbers
    Pinning       what a page costs, and what a transfer costs by when its pages are pinned (decoupled pinning, 4)
    connect*, pieces            page lists and control blocks of an SCI adapter (sections III and IV)

Owns no measured value: machines.py has those of the papers, measure.py this machine's. Pure, so that a test compares
each closed form with the sum that it stands for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PAGE = 4096


# ---- Machines ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """levels: (size of the cache or infinity, bytes a second that a copy of data of at most that size reaches)."""

    name: str
    levels: tuple[tuple[float, float], ...]
    net_latency: float
    net_rate: float
    gap: float
    overhead: float
    registration: float  # fixed
    registration_rate: float

    def copy_rate(self, length: float) -> float:
        """Of a copy within a message of this length: the whole message decides which cache it is in."""
        return next(rate for size, rate in self.levels if length <= size)

    def copy(self, length: float, whole: float | None = None) -> float:
        return length / self.copy_rate(length if whole is None else whole)

    def wire(self, length: float) -> float:
        """From the post of one write to its arrival."""
        return self.net_latency + length / self.net_rate

    def register(self, length: float) -> float:
        return self.registration + length / self.registration_rate


def naive_registration(machine: Machine, length: float) -> float:
    """Both sides register, at the same time, then one write (section 2)."""
    return machine.register(length) + machine.wire(length)


def naive_copy(machine: Machine, length: float) -> float:
    """A copy, a write, a copy, one after the other (section 2)."""
    return 2 * machine.copy(length) + machine.wire(length)


# ---- The pipeline and the superpipeline -------------------------------------------------------------


def pipeline(machine: Machine, length: float, chunk: float) -> float:
    """Equation 1: the first chunk's copy, a gap a chunk, the wire, the last chunk's copy."""
    return 2 * machine.copy(chunk, length) + length / chunk * machine.gap + machine.wire(length)


def pipeline_slope(machine: Machine, length: float, chunk: float) -> float:
    """Equation 2: by how much equation 1 changes with the chunk."""
    return 2 / machine.copy_rate(length) - length / chunk**2 * machine.gap


def pipeline_best_chunk(machine: Machine, length: float) -> float:
    """Equation 3: where equation 2 is 0."""
    return math.sqrt(length * machine.gap * machine.copy_rate(length) / 2)


def next_chunk(machine: Machine, length: float, chunk: float) -> float:
    """Equation 4: what can be copied while the chunk before is on the wire."""
    return (chunk / machine.net_rate + machine.gap - machine.overhead) * machine.copy_rate(length)


def growth(machine: Machine, length: float) -> float:
    """q of equation 5, in which gap and overhead are left out."""
    return machine.copy_rate(length) / machine.net_rate


def first_chunk(machine: Machine, length: float) -> float:
    """What can be copied during the rendezvous' trip (section 4)."""
    return machine.copy_rate(length) * 2 * machine.net_latency


def chunk_number(first: float, q: float, number: int) -> float:
    """Equation 5."""
    return first * q**number


def chunks_length(first: float, q: float, count: int) -> float:
    """Equation 6: bytes of the first chunks."""
    return first * count if q == 1 else first * (1 - q**count) / (1 - q)


def chunk_count(length: float, first: float, q: float) -> float:
    """Equation 7, not rounded: chunks that a message takes."""
    return length / first if q == 1 else math.log(1 + length / first * (q - 1), q)


def chunk_list(length: int, first: int, q: float, limit: int | None = None) -> list[int]:
    """Sizes of the chunks as they are sent: whole bytes, none above the limit, the last one what is left."""
    sizes: list[int] = []
    chunk: float = first
    while length > 0:
        size = min(length, int(chunk) if limit is None else min(int(chunk), limit))
        sizes.append(size)
        length -= size
        chunk *= q
    return sizes


def superpipeline(machine: Machine, length: float, first: float, q: float) -> float:
    """Equation 8: the first chunk's copy, a gap a chunk, the wire, the last chunk's copy."""
    count = chunk_count(length, first, q)
    last = length - chunks_length(first, q, math.ceil(count) - 1)
    copies = machine.copy(min(first, length), length) + machine.copy(last, length)
    return copies + count * machine.gap + machine.wire(length)


def superpipeline_blocks(machine: Machine, length: float, first: float, q: float, block: float) -> float:
    """Equation 9: the first copy is hidden by the rendezvous, of the last chunk one block is left to copy."""
    copies = machine.copy(min(block, length), length)
    return copies + chunk_count(length, first, q) * machine.gap + machine.wire(length)


# ---- Pinning ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pinning:
    """What pinning and unpinning costs: a base for each region, and for each page (table 1 of decoupled pinning)."""

    base: float
    page: float

    def cost(self, length: float) -> float:
        return self.base + math.ceil(length / PAGE) * self.page

    def rate(self) -> float:
        """Bytes a second of large regions."""
        return PAGE / self.page

    def left_of(self, net_rate: float) -> float:
        """The share of a network's rate that is left where one side pins before a transfer begins."""
        return 1 / (1 + net_rate / self.rate())


# ---- SCI --------------------------------------------------------------------------------------------

ACK1_ADDRESSES = 4
ACKI_ADDRESSES = 8


def pages(length: int, offset: int = 0) -> int:
    """Pages that a segment lies in which begins so many bytes behind a page's start."""
    return -(-(offset % PAGE + length) // PAGE)


def connect_messages(length: int, offset: int = 0) -> int:
    """ACKI messages: page addresses that ACK1 has no room for, eight each (section III-C)."""
    return max(0, -(-(pages(length, offset) - ACK1_ADDRESSES) // ACKI_ADDRESSES))


def control_blocks(length: int, local: int = 0, remote: int = 0) -> list[int]:
    """Bytes of each DMA control block: one ends wherever a page ends, here or there (sections III-C and IV)."""
    blocks: list[int] = []
    at = 0
    while at < length:
        size = min(PAGE - (local + at) % PAGE, PAGE - (remote + at) % PAGE, length - at)
        blocks.append(size)
        at += size
    return blocks
