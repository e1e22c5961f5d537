# SPDX-License-Identifier: BSD-3-Clause
"""What was measured: samples of each peer, test and size, gathered over all rounds."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field


def size_text(size: int) -> str:
    for shift, letter in ((20, "M"), (10, "K")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{letter}"
    return str(size)


@dataclass(frozen=True)
class Condition:
    """A range of cache-line times in which the machine's cores were equally far from each other; 0: not measured."""

    low_ns: float
    high_ns: float

    def __contains__(self, floor_ns: float) -> bool:
        return self.low_ns <= floor_ns <= self.high_ns

    @property
    def known(self) -> bool:
        return self.high_ns > 0

    def __str__(self) -> str:
        if not self.known:
            return "what a cache line takes is not known"
        return f"a cache line takes {self.low_ns:.0f} to {self.high_ns:.0f} ns"


@dataclass
class Series:
    """All samples of one peer at one test and size, each with the cache-line time of its moment."""

    unit: str
    samples: list[float] = field(default_factory=list)
    floors_ns: list[float] = field(default_factory=list)
    fills: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        return max(self.samples) if self.unit in RATES else min(self.samples)


CPU = ("cpu_send", "cpu_recv")  # measured with the bandwidth: each side's seconds of CPU per GB
RATES = ("GB/s", "GUPs")  # units of which more is better
SPREAD = 1.8  # cache-line times of one condition differ by less than this
# Samples in a condition by which a peer's best there is known, of the 25 or more of most tests; where a peer has less
# than twice as many of all, the half of them.
ENOUGH = 10


def _fullest(floors: list[float]) -> Condition:
    """The range of that spread that has the most of these sorted times."""
    best = (0, 0)
    end = 0
    for start in range(len(floors)):
        while end < len(floors) and floors[end] <= floors[start] * SPREAD:
            end += 1
        if end - start > best[1] - best[0]:
            best = (start, end)
    return Condition(floors[best[0]], floors[best[1] - 1])


class Results:
    def __init__(self) -> None:
        self.series: dict[tuple[str, str, int], Series] = {}
        self.failures: dict[str, str] = {}
        self.missing: dict[str, str] = {}  # what cannot be measured here, and why
        self.whole = self  # what this is a part of

    def add(self, peer: str, output: str, floor_ns: float) -> int:
        """Take the JSON lines that mpi_bench printed; other lines are the MPI's own talk."""
        taken = 0
        for line in output.splitlines():
            if not line.startswith('{"test"'):
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            key = (peer, record["test"], record["size"])
            series = self.series.setdefault(key, Series(record["unit"]))
            series.samples += record["samples"]
            series.floors_ns += record.get("floors", [floor_ns] * len(record["samples"]))
            series.fills += record.get("fills", [])
            for side in CPU:
                if side in record:
                    spent = self.series.setdefault((peer, side, record["size"]), Series("s/GB"))
                    spent.samples += record[side]
                    spent.floors_ns += series.floors_ns[-len(record[side]) :]
            taken += 1
        return taken

    def conditions(self) -> list[Condition]:
        """Those met, the most frequent first. Only what was measured under one can be compared."""
        floors = sorted(floor for series in self.series.values() for floor in series.floors_ns)
        rare = len(floors) // 20
        made: list[Condition] = []
        while len(floors) > rare:
            condition = _fullest(floors)
            made.append(condition)
            floors = [floor for floor in floors if floor not in condition]
        return made

    def under(self, condition: Condition) -> Results:
        part = Results()
        part.failures = self.failures
        part.whole = self.whole
        for key, series in self.series.items():
            kept = [number for number, floor in enumerate(series.floors_ns) if floor in condition]
            if kept:
                fills = [series.fills[number] for number in kept] if series.fills else []
                samples = [series.samples[number] for number in kept]
                floors = [series.floors_ns[number] for number in kept]
                part.series[key] = Series(series.unit, samples, floors, fills)
        return part

    def get(self, peer: str, test: str, size: int) -> Series | None:
        return self.series.get((peer, test, size))

    def count(self) -> int:
        return sum(len(series.samples) for series in self.series.values())

    def sizes(self, test: str) -> list[int]:
        return sorted({size for _, name, size in self.series if name == test})

    def peers(self, test: str) -> list[str]:
        return list(dict.fromkeys(peer for peer, name, _ in self.series if name == test))

    def enough(self, peers: list[str], test: str, size: int) -> bool:
        """Whether this part has enough of each of these peers that was measured at all: the best of some of them is
        not the best."""
        every = [(self.get(name, test, size), self.whole.get(name, test, size)) for name in peers]
        return all(
            here is not None and len(here.samples) >= min(ENOUGH, (len(whole.samples) + 1) // 2)
            for here, whole in every
            if whole is not None
        )

    def first(self, peers: list[str], test: str, size: int) -> tuple[str, float] | None:
        """The peer with the best sample of all, and that sample; None where some have too few for that."""
        if not self.enough(peers, test, size):
            return None
        found = [
            (name, series.best, series.unit)
            for name in peers
            if (series := self.get(name, test, size)) is not None
        ]
        if not found:
            return None
        more_is_better = found[0][2] in RATES
        chosen = max(found, key=lambda item: item[1] if more_is_better else -item[1])
        return chosen[0], chosen[1]

    def records(self) -> list[dict[str, object]]:
        return [
            {
                "peer": peer,
                "test": test,
                "size": size,
                "unit": series.unit,
                "median": series.median,
                "best": series.best,
                "samples": series.samples,
                "floors_ns": series.floors_ns,
                **({"fill_us": statistics.median(series.fills)} if series.fills else {}),
            }
            for (peer, test, size), series in self.series.items()
        ]
