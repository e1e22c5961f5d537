# SPDX-License-Identifier: BSD-3-Clause
"""Decoupled pinning, simulated (sim/pinning_curves.c): a network's bandwidth by when pages are pinned."""

from __future__ import annotations

from claims import Claim, Curve, Picture, Section
from machines import PINNING
from measure import Bed

MIB = 1024 * 1024
FAST, SLOW, BUSY = "Xeon E5460", "Opteron 265", "busy"
FRAME = 4096


class Curves:
    """Of one processor: MiB/s, and frames that found no page, by bytes, for each way."""

    def __init__(self, found: dict[str, list[list[int]]]) -> None:
        self.rate = {way: {size: size / ns * 1e9 / MIB for size, ns, _ in points} for way, points in found.items()}
        self.missed = {way: {size: misses for size, _, misses in points} for way, points in found.items()}

    def gained(self, way: str, size: int) -> float:
        """By which share it is faster than pinning before."""
        return self.rate[way][size] / self.rate["before"][size] - 1

    def lost(self, size: int) -> float:
        return 1 - self.rate["before"][size] / self.rate["kept"][size]


def section(bed: Bed) -> Section:
    found = {name: Curves(ways) for name, ways in bed.simulate("thole-sim-pinning").items()}
    fast, slow, busy = found[FAST], found[SLOW], found[BUSY]
    made = Section(
        "decoupled-pinning-open-mx",
        "Decoupling memory pinning from the application with overlapped on-demand pinning and MMU notifiers",
        "A large message by request and pull between two hosts in virtual time, with the regions and the bookkeeping "
        "that library and driver have, frames of 4 KiB on a line of 10 Gbit/s, and the costs of table 1. `busy`: a "
        "processor that pins 60 times slower.",
    )
    for processor, (costs, stated) in PINNING.items():
        made.claims.append(Claim("table 1", f"pinning's rate, {processor}", "GB/s", stated / 1e9, costs.rate() / 1e9,
                                 why="4 KiB by the table's time a page; the table rounds"))  # fmt: skip
    made.claims += [
        Claim("figure 6", f"lost by pinning before, {FAST}, 16 MB", "", 0.05, fast.lost(16 * MIB),
              why="both sides' pinning is in the way here, and the receiver's unpinning"),
        Claim("figure 6", f"lost by pinning before, {SLOW}, 16 MB", "", 0.20, slow.lost(16 * MIB),
              why="`up to 20% on slower machines`; as above"),
        Claim("figure 7", f"gained by overlapping, {FAST}, 1 MB", "", 0.05, fast.gained("overlapped", MIB)),
        Claim("figure 7", f"gained by a cache, {FAST}, 1 MB", "", 0.05, fast.gained("cached", MIB)),
        Claim("section 4.2", f"gained by overlapping, {SLOW}, 16 MB", "", 0.18, slow.gained("overlapped", 16 * MIB),
              why="`up to 18%`; pinning on their slowest costs more than that by table 1"),
        Claim("section 4.3", f"frames that found no page, {FAST}, 16 MB", "", 1e-4,
              fast.missed["overlapped"][16 * MIB] / (16 * MIB / FRAME), why="`less than 1 packet out of 10000`"),
        Claim("section 4.3", "overlapped on a busy processor, 64 KB", "MiB/s", 50, busy.rate["overlapped"][65536],
              why="they waited 1 s for what no later frame shows to be lost, we for measured trips"),
        Claim("section 4.3", "the same, a few pages pinned before anything is sent", "MiB/s", 50,
              busy.rate["overlapped, a few pages first"][65536],
              why="the paper's advice: it wins where processors are busy, and loses a little where they are not"),
    ]  # fmt: skip
    for name, curves in ((FAST, fast), (SLOW, slow), (BUSY, busy)):
        made.pictures.append(
            Picture(f"pinning-{name.split()[-1]}", f"{name}: throughput by when pages are pinned", "MiB/s",
                    tuple(Curve(way, tuple(rates.items())) for way, rates in curves.rate.items())))  # fmt: skip
    overlapped = {way: counts for way, counts in busy.missed.items() if any(counts.values())}
    made.pictures.append(
        Picture("pinning-misses", f"{BUSY}: frames that found no page, of all", "",
                tuple(Curve(way, tuple((size, count * FRAME / size) for size, count in counts.items()))
                      for way, counts in overlapped.items())))  # fmt: skip
    return made
