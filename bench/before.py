# SPDX-License-Identifier: BSD-3-Clause
"""Several builds of Thole in one run (--against): how many times longer each thing takes now than over the others.

The builds' starts alternate, and the last of a round is the first in the next. A change is more than noise only
where the best sample and the median both say so, and where the middle halves of the samples do not overlap.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass

from results import CPU, RATES, Results, Series, size_text
from targets import LEVEL


@dataclass(frozen=True)
class Change:
    """What one peer takes now, as a multiple of what it took over another build; of a rate the other way round.
    Over 1 is slower."""

    peer: str  # over the other build
    test: str
    size: int
    best: float
    median: float
    apart: bool  # the middle halves of the samples do not overlap

    @property
    def slower(self) -> bool:
        return self.apart and min(self.best, self.median) > LEVEL

    @property
    def faster(self) -> bool:
        return self.apart and max(self.best, self.median) < 1 / LEVEL

    def record(self) -> dict[str, object]:
        return {**asdict(self), "slower": self.slower, "faster": self.faster}


def _apart(left: Series, right: Series) -> bool:
    if min(len(left.samples), len(right.samples)) < 2:
        return False
    halves = [statistics.quantiles(series.samples, n=4) for series in (left, right)]
    return halves[0][2] < halves[1][0] or halves[1][2] < halves[0][0]


def changes(results: Results) -> list[Change]:
    found = []
    for (other, test, size), then in results.series.items():
        now = results.get(other.partition("@")[0], test, size)
        if "@" not in other or now is None or test in CPU:  # CPU seconds per GB say the same as GB/s: ranks spin
            continue
        best, median = now.best / then.best, now.median / then.median
        if now.unit in RATES:
            best, median = 1 / best, 1 / median
        found.append(Change(other, test, size, best, median, _apart(now, then)))
    return found


def sizes(found: list[Change]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((change.test, change.size) for change in found))


def rows(found: list[Change]) -> list[list[str]]:
    """A row for each test and size: a cell for each peer, and whether any got slower or faster."""
    peers = list(dict.fromkeys(change.peer for change in found))
    known = {(change.test, change.size, change.peer): change for change in found}
    made = []
    for test, size in sizes(found):
        there = [known.get((test, size, peer)) for peer in peers]
        cells = [f"{one.median:.2f} ({one.best:.2f})" if one else "-" for one in there]
        means = [statistics.geometric_mean([getattr(one, kind) for one in there if one]) for kind in ("median", "best")]
        said = [word for word in ("slower", "faster") if any(one and getattr(one, word) for one in there)]
        made.append([f"{test} {size_text(size)}", *cells, f"{means[0]:.2f} ({means[1]:.2f})", ", ".join(said)])
    return made


def columns(found: list[Change]) -> list[str]:
    return ["", *dict.fromkeys(change.peer for change in found), "mean", "more than noise"]


def sentence(found: list[Change]) -> str:
    slower = [
        f"{one.peer} {one.test} {size_text(one.size)} by {(one.median - 1) * 100:.0f}%"
        for one in found
        if one.slower
    ]
    return "Slower by more than noise: " + ("; ".join(slower) if slower else "nothing")
