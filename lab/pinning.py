# SPDX-License-Identifier: BSD-3-Clause
"""Decoupled pinning, simulated (sim/pinning_curves.c): a network's bandwidth by when pages are pinned; with the costs
of the paper's processors, and of this machine's."""

from __future__ import annotations

from typing import Any

from claims import Claim, Curve, Picture, Section
from machines import PINNING
from measure import Bed

KIB, MIB = 1024, 1024 * 1024
FAST, SLOW, BUSY, HERE = "Xeon E5460", "Opteron 265", "busy", "this machine"
LINE_100 = "fast line"
LOADS = {"": "loads", ", on 100 Gbit/s": "loads, fast line"}
FRAME = 4096
WAYS = ("before", "kept", "overlapped", "cached")


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


class Found:
    """What the simulator prints of some processors; fast and slow: those that the paper's sentences are of."""

    def __init__(self, found: dict[str, Any], fast: str, slow: str) -> None:
        self.loads = {name: points for name, points in found.items() if name in LOADS.values()}
        self.curves = {name: Curves(ways) for name, ways in found.items() if name not in self.loads}
        self.fast, self.slow, self.busy = (self.curves[name] for name in (fast, slow, BUSY))

    def missed(self, load: int, line: str) -> float:
        """The share of all frames that find no page, of 1 MiB where a processor pins so many times slower; what is sent
        again may find none again."""
        return next(misses for times, _, misses in self.loads[line] if times == load) / (MIB / FRAME)

    def stands(self, line: str) -> float:
        """By how many times slower it may pin, of those that were tried, and 1 MiB takes less than twice as long."""
        first = self.loads[line][0][1]
        return float(max(times for times, ns, _ in self.loads[line] if ns < 2 * first))


def simulate(bed: Bed, *costs: str) -> Found:
    """Of the paper's processors; with costs, of this machine alone."""
    names = (HERE, HERE) if costs else (FAST, SLOW)
    return Found(bed.simulate("thole-sim-pinning", *costs), *names)


# What is claimed: where, what, unit, the paper's value, why ours differ.
Row = tuple[str, str, str, "float | None", str]
ROWS: tuple[Row, ...] = (
    ("figure 6", f"lost by pinning before, {FAST}, 16 MB", "", 0.05,
     "both sides' pinning is in the way here, and the receiver's unpinning"),
    ("figure 6", f"lost by pinning before, {SLOW}, 16 MB", "", 0.20, "`up to 20% on slower machines`; as above"),
    ("figure 7", f"gained by overlapping, {FAST}, 1 MB", "", 0.05, "this machine pins a page in less time"),
    ("figure 7", f"gained by a cache, {FAST}, 1 MB", "", 0.05, "as above"),
    ("section 4.2", f"gained by overlapping, {SLOW}, 16 MB", "", 0.18,
     "`up to 18%`; pinning on their slowest costs more than that by table 1"),
    ("section 4.3", f"frames that found no page, {FAST}, 16 MB", "", 1e-4, "`less than 1 packet out of 10000`"),
    ("section 4.3", "overlapped on a busy processor, 64 KB", "MiB/s", 50,
     "they waited 1 s for what no later frame shows to be lost, we for measured trips"),
    ("section 4.3", "the same, a few pages pinned before anything is sent", "MiB/s", 50,
     "the paper's advice: it wins where processors are busy, and loses a little where they are not"),
    ("section 4.3", "times slower that a processor may pin, for half the speed, 1 MB", "times", None,
     "not in the paper; of powers of 2"),
    ("section 4.3", "frames that find no page where it is 32 times slower, of all, 1 MB", "", None, "as above"),
    ("figure 6", "on 100 Gbit/s: lost by pinning before, 16 MB", "", None,
     "not in the paper: a line ten times as fast, and the same trip"),
    ("figure 7", "on 100 Gbit/s: gained by overlapping, 16 MB", "", None, "as above"),
    ("section 4.3", "on 100 Gbit/s: times slower that a processor may pin, for half the speed, 1 MB", "times", None,
     "as above"),
)  # fmt: skip


def _values(found: Found) -> list[float]:
    """In the order of ROWS."""
    fast, slow, busy, line = found.fast, found.slow, found.busy, found.curves[LINE_100]
    return [
        fast.lost(16 * MIB),
        slow.lost(16 * MIB),
        fast.gained("overlapped", MIB),
        fast.gained("cached", MIB),
        slow.gained("overlapped", 16 * MIB),
        fast.missed["overlapped"][16 * MIB] / (16 * MIB / FRAME),
        busy.rate["overlapped"][64 * KIB],
        busy.rate["overlapped, a few pages first"][64 * KIB],
        found.stands("loads"),
        found.missed(32, "loads"),
        line.lost(16 * MIB),
        line.gained("overlapped", 16 * MIB),
        found.stands("loads, fast line"),
    ]


def _claims(found: Found, here: Found | None) -> list[Claim]:
    own: list[float | None] = [*_values(here)] if here else [None] * len(ROWS)
    made = [
        Claim(where, what, unit, theirs, modelled, value, why)
        for (where, what, unit, theirs, why), modelled, value in zip(ROWS, _values(found), own)
    ]
    for size in (64 * KIB, MIB, 16 * MIB):
        for way in WAYS:
            name = f"{size // MIB} MB" if size >= MIB else f"{size // KIB} KB"
            made.append(
                Claim("figures 6, 7", f"pins {way}, {name}", "MiB/s", None, found.fast.rate[way][size],
                      here.fast.rate[way][size] if here else None, f"a curve there, of {FAST}")
            )  # fmt: skip
    return made


def section(bed: Bed) -> Section:
    made = Section(
        "decoupled-pinning-open-mx",
        "Decoupling memory pinning from the application with overlapped on-demand pinning and MMU notifiers",
        "A large message by request and pull between two hosts in virtual time, with the regions and the bookkeeping "
        "that library and driver have, frames of 4 KiB on a line of 10 Gbit/s, and the costs of table 1; this machine: "
        "what pinning costs was measured here, line and trip (15 us) are the paper's, and it is one processor, "
        "whichever a row names. `busy`: a processor that pins 60 times slower.",
    )
    found, costs = simulate(bed), bed.costs(made)
    here = simulate(bed, *costs.words()) if costs else None
    own = costs.pinning() if costs else None
    for processor, (pinning, stated) in PINNING.items():
        made.claims.append(
            Claim("table 1", f"pinning's rate, {processor}", "GB/s", stated / 1e9, pinning.rate() / 1e9,
                  own.rate() / 1e9 if own else None,
                  "4 KiB by the table's time a page; the table rounds; beside it this machine's own")
        )  # fmt: skip
    base = PINNING[FAST][0].base
    made.claims.append(
        Claim("table 1", f"a region, {FAST}", "us", base * 1e6, base * 1e6, own.base * 1e6 if own else None,
              "here two system calls, and a buffer's entry")
    )  # fmt: skip
    made.claims += _claims(found, here)
    pictured = {FAST: found.fast, SLOW: found.slow, BUSY: found.busy}
    if here:
        pictured |= {HERE: here.fast, f"{HERE}, busy": here.busy, f"{HERE}, 100 Gbit/s": here.curves[LINE_100]}
    for name, curves in pictured.items():
        file = name.split()[-1] if name in found.curves else name.replace(" ", "-").replace(",", "").replace("/", "")
        made.pictures.append(
            Picture(f"pinning-{file}", f"{name}: throughput by when pages are pinned", "MiB/s",
                    tuple(Curve(way, tuple(rates.items())) for way, rates in curves.rate.items())))  # fmt: skip
    overlapped = {way: counts for way, counts in found.busy.missed.items() if any(counts.values())}
    made.pictures.append(
        Picture("pinning-misses", f"{BUSY}: frames that found no page, of all", "",
                tuple(Curve(way, tuple((size, count * FRAME / size) for size, count in counts.items()))
                      for way, counts in overlapped.items())))  # fmt: skip
    made.pictures.append(_loads(found, here))
    return made


def _loads(found: Found, here: Found | None) -> Picture:
    curves = [
        Curve(f"{name}{title}", tuple((times, each.missed(times, line)) for times, _, _ in each.loads[line]))
        for name, each in ((FAST, found), (HERE, here)) if each
        for title, line in LOADS.items()
    ]  # fmt: skip
    return Picture("pinning-loads", "1 MB, overlapped: frames that found no page, of all", "", tuple(curves),
                   along="times slower that the processor pins")  # fmt: skip
