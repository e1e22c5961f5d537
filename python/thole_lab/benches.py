# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own benchmarks: how each is started over each way and place, what it prints, and all of them in rounds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from thole.base.trouble import Trouble
from thole.mpi.plan import plan

from thole_lab import process
from thole_lab.launchers import over_tcp
from thole_lab.testbed import Loopback, Testbed
from thole_lab.venvs import Environment

WAYS = ("own", "thole")
RUN_SECONDS_MAX = 40.0

PINGPONGS = {"node": "pingpong", "network": "hosts-pingpong"}
PINGPONG_LINE = re.compile(r"^\s*(\d+)\s+[\d.]+ \| ([\d.e+-]+) ")
RING_LINE = re.compile(r"time for (\d+) loops = ([\d.e+-]+) seconds \((\d+) processes")


def _pingpong(text: str) -> dict[int, float]:
    """Microseconds one way by size."""
    return {int(m[1]): float(m[2]) * 1e6 for m in map(PINGPONG_LINE.match, text.splitlines()) if m}


def _ring(text: str) -> dict[int, float]:
    """Microseconds a hop, under the size of 1 byte."""
    match = RING_LINE.search(text)
    return {1: float(match[2]) / int(match[1]) / int(match[3]) * 1e6} if match else {}


@dataclass(frozen=True)
class Bench:
    """One of mpi4py's benchmarks with its arguments."""

    name: str
    title: str
    ranks: int
    words: tuple[str, ...]
    read: Callable[[str], dict[int, float]]
    place: str = "node"

    @property
    def own(self) -> str:
        """What it is called without Thole."""
        return "as shipped" if self.place == "node" else "over TCP"

    def way(self, way: str) -> str:
        return "over Thole" if way == "thole" else self.own


def benches(size_max: int) -> tuple[Bench, ...]:
    loops = "-l 3000 -s 300 --loop-large 200 --loop-huge 20 --skip-huge 3".split()
    # Between hosts a message takes longer, and the whole is to take no more time.
    fewer = "-l 1000 -s 200 --loop-large 100 --loop-huge 10 --skip-huge 3".split()
    return (
        Bench(
            "pingpong",
            "ping-pong",
            2,
            ("pingpong", "-n", str(size_max), *loops),
            _pingpong,
        ),
        Bench(
            "pickle",
            "objects, 1 KiB",
            2,
            ("pingpong", "-p", "-m", "1024", "-n", "1024", "-l", "3000"),
            _pingpong,
        ),
        Bench(
            "ring",
            "ring of 4, a hop",
            4,
            ("ringtest", "-n", "1", "-l", "500", "-s", "50"),
            _ring,
        ),
        Bench(
            "hosts-pingpong",
            "ping-pong between hosts",
            2,
            ("pingpong", "-n", str(size_max), *fewer),
            _pingpong,
            "network",
        ),
        Bench(
            "hosts-pickle",
            "objects, 1 KiB, between hosts",
            2,
            ("pingpong", "-p", "-m", "1024", "-n", "1024", "-l", "1000"),
            _pingpong,
            "network",
        ),
    )


@dataclass
class Results:
    """Samples by MPI, way ("own" or "thole"), benchmark and size; and what failed, with the reason."""

    samples: dict[tuple[str, str, str, int], list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def best(self, mpi: str, way: str, bench: str, size: int) -> float | None:
        found = self.samples.get((mpi, way, bench, size))
        return min(found) if found else None

    def ratio(self, mpi: str, bench: str, size: int) -> float | None:
        """How many times as fast over Thole: below 1 is slower."""
        own, ours = self.best(mpi, "own", bench, size), self.best(mpi, "thole", bench, size)
        return own / ours if own and ours else None

    def sizes(self, bench: str) -> list[int]:
        return sorted({size for _, _, name, size in self.samples if name == bench})


def line_of(
    environment: Environment,
    bench: Bench,
    way: str,
    options: list[str],
    hosts: Testbed | Loopback | None,
) -> tuple[list[str], dict[str, str]]:
    """The command of one run, and its environment."""
    program: tuple[str | Path, ...] = (environment.python, "-m", "mpi4py.bench", *bench.words)
    variables = environment.environment()
    if bench.place == "node" or hosts is None:
        command = environment.command(bench.ranks, *program, pinned=bench.ranks == 2)
    else:
        command = hosts.launch(environment.mpi, bench.ranks, *program)
    if way == "thole":
        # The very variables that `thole run` would set, without starting the tool each time.
        more = hosts.options if bench.place == "network" and hosts else ()
        planned = plan(command, options=[*more, *options])
        command = planned.command
        variables.update(planned.environment())
    elif bench.place == "network" and hosts:
        variables.update(over_tcp(environment.mpi, hosts.interface))
    if bench.place == "network" and hosts:
        command = hosts.command(0, *command)
    return command, variables


def run_one(
    environment: Environment,
    bench: Bench,
    way: str,
    options: list[str],
    hosts: Testbed | Loopback | None = None,
) -> dict[int, float]:
    """Run one benchmark once. Raises Trouble with the first line of what it complained of."""
    command, variables = line_of(environment, bench, way, options, hosts)
    done = process.run(command, variables, RUN_SECONDS_MAX)
    if done.status is None:
        raise Trouble(f"did not end within {RUN_SECONDS_MAX:.0f} s")
    found = bench.read(done.output)
    if done.status != 0 or not found:
        lines = [line.strip() for line in (done.errors + done.output).splitlines() if line.strip(" -=*")]
        raise Trouble(f"exit status {done.status}: {lines[0] if lines else 'no output'}")
    return found


def measure(
    environments: dict[str, Environment],
    chosen: Iterable[Bench],
    rounds: int,
    options: list[str],
    step: Callable[[str], None],
    seconds: float,
    hosts: Testbed | Loopback | None = None,
) -> Results:
    """Go through everything in rounds; after `seconds` no further round begins."""
    results = Results()
    broken: set[tuple[str, str, str]] = set()
    begin = time.monotonic()
    for number in range(rounds):
        if number > 0 and (time.monotonic() - begin) * (number + 1) / number > seconds:
            break
        for bench in chosen:
            for name, environment in environments.items():
                for way in WAYS if number % 2 == 0 else reversed(WAYS):
                    step(f"{environment.mpi.label} {bench.way(way)}: {bench.title}")
                    if (name, way, bench.name) in broken:
                        continue
                    try:
                        found = run_one(environment, bench, way, options, hosts)
                    except Trouble as trouble:
                        broken.add((name, way, bench.name))
                        results.failures.append(
                            f"{environment.mpi.label} {bench.way(way)}, {bench.title}: {trouble}"
                        )
                        if bench.place == "network" and hosts:
                            hosts.clear()
                        continue
                    for size, value in found.items():
                        results.samples.setdefault((name, way, bench.name, size), []).append(value)
    return results
