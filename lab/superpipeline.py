# SPDX-License-Identifier: BSD-3-Clause
"""The superpipeline: its equations with its own machine."""

from __future__ import annotations

from collections.abc import Callable

import models
from claims import Claim, Curve, Picture, Section
from machines import GRAPHENE
from measure import Bed

KIB = 1024
BLOCK = 4 * KIB
SIZES = [2**power for power in range(13, 25)]
Model = Callable[[float], float]


def _ways() -> dict[str, Model]:
    """Seconds of a message by each way."""
    machine = GRAPHENE

    def grown(length: float) -> float:
        first, q = models.first_chunk(machine, length), models.growth(machine, length)
        return models.superpipeline_blocks(machine, length, first, q, BLOCK)

    return {
        "raw write": machine.wire,
        "registered each time": lambda length: models.naive_registration(machine, length),
        "copied whole": lambda length: models.naive_copy(machine, length),
        "pipeline, best chunk": lambda length: models.pipeline(
            machine, length, min(length, models.pipeline_best_chunk(machine, length))
        ),
        "superpipeline": grown,
    }


def section(bed: Bed) -> Section:
    del bed  # nothing is run
    machine, ways = GRAPHENE, _ways()
    raw, registered, grown = ways["raw write"], ways["registered each time"], ways["superpipeline"]
    made = Section(
        "superpipeline-infiniband",
        "A high-performance superpipeline protocol for InfiniBand",
        f"The paper's equations with the costs of {machine.name}.",
    )
    large = 2.0**34

    def lost(way: Model, length: float) -> float:
        return way(length) / raw(length) - 1

    first, q = models.first_chunk(machine, large), models.growth(machine, large)
    made.claims = [
        Claim("section 2", "bandwidth lost to registering, 64 KB", "", 0.60, 1 - raw(64e3) / registered(64e3),
              why="the sentence says `roughly`, of a curve with both sides' registrations at once"),
        Claim("section 2", "registering each time, of the network's bandwidth, very long messages", "", 0.91,
              raw(large) / registered(large)),
        Claim("section 4", "first chunk", "KB", 8, first / 1000,
              why="the paper: 8 to 16; with the rate of copies in memory, in a cache it is larger"),
        Claim("section 4", "growth q that is hardwired", "", 1.5, q,
              why="q of the equation, by the same rate of copies"),
        Claim("figure 6", "superpipeline over raw write, 16 KB", "", 0.15, lost(grown, 16e3),
              why="with copies at the rate of memory; 16 KB lie in a cache"),
        Claim("figure 6", "superpipeline over raw write, 64 KB", "", 0.05, lost(grown, 64e3), why="as above"),
        Claim("figure 6", "superpipeline over raw write, 1 MB", "", 0.05, lost(grown, 1e6),
              why="`less than 5%` from 64 KB on"),
    ]  # fmt: skip
    curves = [Curve(label, tuple((size, size / way(size) / 1e6) for size in SIZES)) for label, way in ways.items()]
    made.pictures = [Picture("superpipeline-models", "By the equations", "MB/s", tuple(curves))]
    return made
