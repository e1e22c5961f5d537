# SPDX-License-Identifier: BSD-3-Clause
"""The superpipeline, over simulated adapters (sim/nic.c), and its equations with the same machines."""

from __future__ import annotations

from typing import Any

import models
from claims import Claim, Curve, Picture, Section
from machines import GRAPHENE
from measure import Bed
from models import Machine

KIB, MIB = 1024, 1024 * 1024
DDR, CARD = "ib-ddr", "100g"
MODELS = (DDR, "ib-qdr", CARD)
HINTS = ("hinted", "unhinted", "slow_hint", "fast_hint")
WAYS = {
    "raw": "raw read",
    "register": "registered each time",
    "copy": "copied whole",
    "super": "superpipeline",
    "first": "chosen, memory of its own each time",
    "reuse": "chosen, the same memory each time",
}


class Simulated:
    """What `thole-sim-nic` prints of one machine: seconds by bytes for each way, and the paper's chunks."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.about: str = found["about"]
        levels = tuple((size or float("inf"), rate * 1e6) for size, rate in found["copy"])
        self.machine = Machine(
            name=found["name"],
            levels=levels,
            net_latency=found["latency_ns"] / 1e9,
            net_rate=found["rate"] * 1e6,
            gap=found["gap_ns"] / 1e9,
            overhead=found["overhead_ns"] / 1e9,
            registration=found["register_ns"] / 1e9,
            registration_rate=models.PAGE / found["register_page_ns"] * 1e9,
        )
        self.block: int = found["block"]
        self.seconds = {
            way: {row["bytes"]: row[way] / 1e9 for row in found["messages"]} for way in (*WAYS, "uncapped", "blind")
        }
        self.chunks: dict[int, list[int]] = {row["bytes"]: row["chunks"] for row in found["messages"]}

    def over(self, way: str, base: str, size: int) -> float:
        return self.seconds[way][size] / self.seconds[base][size]

    def equation(self, size: int) -> float:
        """Equation 9 behind a rendezvous' trip, whose first chunk is the one that was sent."""
        q = models.growth(self.machine, size)
        first = self.chunks[size][0]
        trip = 2 * self.machine.net_latency
        return trip + models.superpipeline_blocks(self.machine, size, first, q, self.block)

    def counted(self, size: int) -> int:
        """Chunks by equation 5, summed up in whole bytes."""
        return len(models.chunk_list(size, self.chunks[size][0], models.growth(self.machine, size)))


def simulate(bed: Bed, *names: str) -> dict[str, Simulated]:
    return {found["name"]: Simulated(found) for found in bed.simulate("thole-sim-nic", *names)}


def section(bed: Bed) -> Section:
    found = simulate(bed, *MODELS)
    made = Section(
        "superpipeline-infiniband",
        "A high-performance superpipeline protocol for InfiniBand",
        "The transport's own code between two hosts with simulated adapters, each message behind a rendezvous: "
        + "; ".join(f"`{name}`: {one.about}" for name, one in found.items())
        + ". Raw is a read of memory that both sides had registered before.",
    )
    made.claims = [*_equations(), *_paper(found[DDR]), *_today(found[CARD]), *_learnt(bed)]
    for name, one in found.items():
        curves = tuple(
            Curve(title, tuple((size, size / seconds / 1e6) for size, seconds in one.seconds[way].items()))
            for way, title in WAYS.items()
        )
        made.pictures.append(Picture(f"superpipeline-{name}", f"{name}: by each way", "MB/s", curves))
    one = found[DDR]
    sizes = [size for size in one.chunks if size >= 64 * KIB]
    made.pictures.append(
        Picture("superpipeline-equation", "Equation 9 beside the simulation", "time over equation 9", (
            Curve("simulated", tuple((size, one.seconds["uncapped"][size] / one.equation(size)) for size in sizes)),
        )))  # fmt: skip
    return made


def _learnt(bed: Bed) -> list[Claim]:
    """The paper's future work: the parameters are learnt at run time, whatever the adapter says of itself."""
    claims = []
    for found in bed.simulate("thole-sim-nic", "--caps", *MODELS):
        rows = found["messages"]
        behind = [max(row[case] for case in HINTS) / min(row[cap] for cap in row if cap.isdigit()) for row in rows]
        longest = {row["bytes"]: row["unhinted_chunk"] for row in rows}
        name = found["name"]
        claims += [
            Claim("section 7", f"{name}: learnt cap over the best fixed one, 8 KB to 64 MB", "", 1, max(behind),
                  why="after 20 messages; the adapter says the truth, nothing, 4 times too little or too much"),
            Claim("section 7", f"{name}: learnt cap, 64 KB", "KiB", None, longest[64 * KIB] / KIB,
                  why="its longest chunk; the paper has none: `we will study adaptive strategies`"),
            Claim("section 7", f"{name}: learnt cap, 1 MB", "KiB", None, longest[MIB] / KIB),
        ]  # fmt: skip
    return claims


def _equations() -> list[Claim]:
    machine, large = GRAPHENE, 2.0**34
    raw, registered = machine.wire, models.naive_registration
    return [
        Claim("section 2", "bandwidth lost to registering, 64 KB", "", 0.60, 1 - raw(64e3) / registered(machine, 64e3),
              why="the sentence says `roughly`, of a curve with both sides' registrations at once"),
        Claim("section 2", "registering each time, of the network's bandwidth, very long messages", "", 0.91,
              raw(large) / registered(machine, large)),
        Claim("section 4", "first chunk", "KB", 8, models.first_chunk(machine, large) / 1000,
              why="the paper: 8 to 16; with the rate of copies in memory, in a cache it is larger"),
        Claim("section 4", "growth q that is hardwired", "", 1.5, models.growth(machine, large),
              why="q of the equation, by the same rate of copies"),
    ]  # fmt: skip


def _paper(one: Simulated) -> list[Claim]:
    return [
        Claim("figure 6", "superpipeline behind raw, 16 KB", "", 0.15, one.over("super", "raw", 16 * KIB) - 1,
              why="its test had no rendezvous to hide the first copy behind"),
        Claim("figure 6", "superpipeline behind raw, 64 KB", "", 0.05, one.over("super", "raw", 64 * KIB) - 1),
        Claim("figure 6", "superpipeline behind raw, 1 MB", "", 0.05, one.over("super", "raw", MIB) - 1,
              why="`less than 5%` from 64 KB on"),
        Claim("figure 2", "bandwidth lost to registering, 64 KB", "", 0.60,
              1 - 1 / one.over("register", "raw", 64 * KIB)),
        Claim("figure 2", "copied whole, of raw's bandwidth, 64 MB", "", 0.57, 1 / one.over("copy", "raw", 64 * MIB),
              why="the paper's figure is of one copy"),
        Claim("figure 7", "reused memory: superpipeline behind the cache, 1 MB", "", 0.03,
              one.over("super", "reuse", MIB) - 1, why="`very similar`; NAS: 3% slower"),
        Claim("equation 9", "simulated over the equation, 64 KB", "", 1,
              one.seconds["uncapped"][64 * KIB] / one.equation(64 * KIB)),
        Claim("equation 9", "simulated over the equation, 64 MB", "", 1,
              one.seconds["uncapped"][64 * MIB] / one.equation(64 * MIB)),
        Claim("equation 7", "chunks of 64 MB", "chunks", one.counted(64 * MIB), len(one.chunks[64 * MIB]),
              why="theirs by the equation"),
    ]  # fmt: skip


def _today(card: Simulated) -> list[Claim]:
    """The paper's idea on a card of today, where copies are slower than the wire."""
    return [
        Claim("figure 6", "on 100 Gbit/s: superpipeline behind raw, 64 KB", "", 0.05,
              card.over("super", "raw", 64 * KIB) - 1,
              why="a core copies no faster than such a card sends: q is below 1"),
        Claim("figure 2", "on 100 Gbit/s: registering each time over the superpipeline, 1 MB", "", 1,
              card.over("register", "super", MIB)),
    ]  # fmt: skip
