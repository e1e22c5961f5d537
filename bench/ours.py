# SPDX-License-Identifier: BSD-3-Clause
"""Thole's own programs that are measured beside the MPIs: thole-perf, the growth of memory, and silent peers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from thole.base import paths
from thole.base.trouble import Trouble
from thole_lab.process import run


def _run(command: list[str]) -> str:
    outcome = run(command, dict(os.environ), 120.0)
    if outcome.failure:
        raise Trouble(f"{' '.join(command)}: {outcome.failure}", "run it by hand")
    return outcome.output


def memory(build: Path) -> dict[str, int] | None:
    """Growth of an endpoint from one peer to 63, in bytes; None where that program is not built."""
    program = build / "bench" / "thole-memory"
    return json.loads(_run([str(program)])) if program.is_file() else None


def crowd(build: Path, cpus: list[int]) -> list[dict[str, object]] | None:
    """What 8 bytes take beside peers that say nothing; None where that program is not built."""
    program = build / "bench" / "thole-crowd"
    if not program.is_file() or len(cpus) < 2:
        return None
    return [json.loads(line) for line in _run([str(program), *map(str, cpus)]).splitlines()]


@dataclass(frozen=True)
class Perf:
    """One way, of the round whose ratio is the median: the machine's cores may move between two rounds."""

    latency_us: float
    floor_us: float

    @property
    def ratio(self) -> float:
        return self.latency_us / self.floor_us


def perf(cpus: list[int]) -> Perf | None:
    """thole-perf at 8 bytes and the bare cache line beside it; None where it is not built."""
    try:
        program = paths.find(paths.PERF)
    except Trouble:
        return None
    arguments = ["--tests", "bare,latency", "--sizes", "8", "--rounds", "15", "--sample-ms", "5"]
    cores = ["--cores", ",".join(map(str, cpus))] if len(cpus) == 2 else []
    taken: dict[str, dict[int, float]] = {"bare": {}, "latency": {}}
    for line in _run([str(program), *arguments, *cores]).splitlines():
        record = json.loads(line)
        if record["type"] == "sample":
            one_way_us = record["ns"] / record["iterations"] / 2000
            taken[record["test"]][record["round"]] = one_way_us
    rounds = taken["bare"].keys() & taken["latency"].keys()
    pairs = [Perf(taken["latency"][number], taken["bare"][number]) for number in rounds]
    pairs.sort(key=lambda pair: pair.ratio)
    return pairs[len(pairs) // 2] if pairs else None
