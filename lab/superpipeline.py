# SPDX-License-Identifier: BSD-3-Clause
"""The superpipeline, over simulated adapters (sim/nic.c), and its equations with the same machines; and with this one's
costs in their places, on the same networks."""

from __future__ import annotations

from typing import Any

import models
from claims import Claim, Curve, Picture, Section
from costs import Costs
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


def simulate(bed: Bed, *words: str) -> dict[str, Simulated]:
    return {found["name"]: Simulated(found) for found in bed.simulate("thole-sim-nic", *words)}


def _pictures(found: dict[str, Simulated], ending: str, title: str) -> list[Picture]:
    made = []
    for name, one in found.items():
        curves = tuple(
            Curve(way_title, tuple((size, size / seconds / 1e6) for size, seconds in one.seconds[way].items()))
            for way, way_title in WAYS.items()
        )
        made.append(Picture(f"superpipeline-{name}{ending}", f"{name}{title}: by each way", "MB/s", curves))
    return made


def section(bed: Bed) -> Section:
    found = simulate(bed, *MODELS)
    made = Section(
        "superpipeline-infiniband",
        "A high-performance superpipeline protocol for InfiniBand",
        "The transport's own code between two hosts with simulated adapters, each message behind a rendezvous: "
        + "; ".join(f"`{name}`: {one.about}" for name, one in found.items())
        + ". Raw is a read of memory that both sides had registered before. This machine: its copies and what the "
        "kernel takes to pin and list pages were measured here; adapter and network are the model's, so what an "
        "adapter of its own would take to learn the pages is not in it.",
    )
    costs = bed.costs(made)
    words = costs.words() if costs else []
    here = simulate(bed, *words, *MODELS) if costs else None
    made.claims = [
        *_claims(EQUATIONS, _equations(GRAPHENE), _equations(costs.machine(GRAPHENE)) if costs else None),
        *_claims(PAPER, _paper(found[DDR]), _paper(here[DDR]) if here else None),
        *_claims(TODAY, _today(found[CARD]), _today(here[CARD]) if here else None),
        *_learnt(bed, costs),
    ]
    made.pictures = _pictures(found, "", "") + (_pictures(here, "-here", ", this machine") if here else [])
    one = found[DDR]
    sizes = [size for size in one.chunks if size >= 64 * KIB]
    made.pictures.append(
        Picture("superpipeline-equation", "Equation 9 beside the simulation", "time over equation 9", (
            Curve("simulated", tuple((size, one.seconds["uncapped"][size] / one.equation(size)) for size in sizes)),
        )))  # fmt: skip
    return made


# Where, what, unit, the paper's value, why ours differ; values in the same order come from the function below each.
Row = tuple[str, str, str, "float | None", str]


def _claims(rows: tuple[Row, ...], modelled: list[float], here: list[float] | None) -> list[Claim]:
    own: list[float | None] = [*here] if here else [None] * len(rows)
    return [
        Claim(where, what, unit, theirs, value, own_value, why)
        for (where, what, unit, theirs, why), value, own_value in zip(rows, modelled, own)
    ]


EQUATIONS: tuple[Row, ...] = (
    ("section 2", "bandwidth lost to registering, 64 KB", "", 0.60,
     "the sentence says `roughly`, of a curve with both sides' registrations at once; here pinning alone"),
    ("section 2", "registering each time, of the network's bandwidth, very long messages", "", 0.91,
     "20 GB/s of registered pages there; here as the kernel pins"),
    ("section 4", "first chunk", "KB", 8,
     "the paper: 8 to 16; with the rate of copies in memory, in a cache it is larger; this machine copies faster"),
    ("section 4", "growth q that is hardwired", "", 1.5, "q of the equation, by the same rate of copies"),
)  # fmt: skip


def _equations(machine: Machine) -> list[float]:
    large = 2.0**34
    raw, registered = machine.wire, models.naive_registration
    return [
        1 - raw(64e3) / registered(machine, 64e3),
        raw(large) / registered(machine, large),
        models.first_chunk(machine, large) / 1000,
        models.growth(machine, large),
    ]


PAPER: tuple[Row, ...] = (
    ("figure 6", "superpipeline behind raw, 16 KB", "", 0.15,
     "its test had no rendezvous to hide the first copy behind"),
    ("figure 6", "superpipeline behind raw, 64 KB", "", 0.05, "as above"),
    ("figure 6", "superpipeline behind raw, 1 MB", "", 0.05, "`less than 5%` from 64 KB on"),
    ("figure 2", "bandwidth lost to registering, 64 KB", "", 0.60,
     "a fixed cost of 68 us there, mostly the adapter's; of the kernel's alone here, and a trip that tells the key"),
    ("figure 2", "copied whole, of raw's bandwidth, 64 MB", "", 0.57, "the paper's figure is of one copy"),
    ("figure 7", "reused memory: superpipeline behind the cache, 1 MB", "", 0.03, "`very similar`; NAS: 3% slower"),
    ("equation 9", "simulated over the equation, 64 KB", "", 1, "posts and polls, which the equation leaves out"),
    ("equation 9", "simulated over the equation, 64 MB", "", 1, "as above"),
    ("equation 7", "chunks of 64 MB", "chunks", 28,
     "theirs by the equation; where copies are faster, chunks grow faster"),
)  # fmt: skip


def _paper(one: Simulated) -> list[float]:
    return [
        one.over("super", "raw", 16 * KIB) - 1,
        one.over("super", "raw", 64 * KIB) - 1,
        one.over("super", "raw", MIB) - 1,
        1 - 1 / one.over("register", "raw", 64 * KIB),
        1 / one.over("copy", "raw", 64 * MIB),
        one.over("super", "reuse", MIB) - 1,
        one.seconds["uncapped"][64 * KIB] / one.equation(64 * KIB),
        one.seconds["uncapped"][64 * MIB] / one.equation(64 * MIB),
        len(one.chunks[64 * MIB]),
    ]


# The paper's idea on a card of today.
TODAY: tuple[Row, ...] = (
    ("figure 6", "on 100 Gbit/s: superpipeline behind raw, 64 KB", "", 0.05,
     "the model's core copies no faster than such a card sends: q is below 1; this one does"),
    ("figure 2", "on 100 Gbit/s: registering each time over the superpipeline, 1 MB", "", 1,
     "16 us a registration there, as UCX assumes of cards; here the kernel's part"),
)  # fmt: skip


def _today(card: Simulated) -> list[float]:
    return [card.over("super", "raw", 64 * KIB) - 1, card.over("register", "super", MIB)]


HINTS_WHY = "after 20 messages; the adapter says the truth, nothing, 4 times too little or too much"


def _learnt(bed: Bed, costs: Costs | None) -> list[Claim]:
    """The paper's future work: the parameters are learnt at run time, whatever the adapter says of itself."""
    found = bed.simulate("thole-sim-nic", "--caps", *MODELS)
    here = bed.simulate("thole-sim-nic", *costs.words(), "--caps", *MODELS) if costs else [None] * len(found)
    claims = []
    for one, own in zip(found, here):
        rows: tuple[Row, ...] = (
            ("section 7", f"{one['name']}: learnt cap over the best fixed one, 8 KB to 64 MB", "", 1, HINTS_WHY),
            ("section 7", f"{one['name']}: learnt cap, 64 KB", "KiB", None,
             "its longest chunk; the paper has none: `we will study adaptive strategies`"),
            ("section 7", f"{one['name']}: learnt cap, 1 MB", "KiB", None, "as above"),
        )  # fmt: skip
        claims += _claims(rows, _caps(one["messages"]), _caps(own["messages"]) if own else None)
    return claims


def _caps(rows: list[dict[str, int]]) -> list[float]:
    behind = [max(row[case] for case in HINTS) / min(row[cap] for cap in row if cap.isdigit()) for row in rows]
    longest = {row["bytes"]: row["unhinted_chunk"] for row in rows}
    return [max(behind), longest[64 * KIB] / KIB, longest[MIB] / KIB]
