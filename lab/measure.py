# SPDX-License-Identifier: BSD-3-Clause
"""This machine's numbers, by `thole perf`: two ranks of one host, or one on each of two hosts (network namespaces);
what its processor and kernel cost (costs.py); and what counted.py finds in guests. Ways that are compared are measured
by turns."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from thole.base.trouble import Trouble
from thole_lab import process
from thole_lab.testbed import Testbed
from thole_lab.venvs import clean_environment

from claims import Section
from costs import Costs
from counted import Counts, Way, count

One = TypeVar("One")
LIMIT_S = 180.0
START_S = 20.0


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    sample_ms: int

    def turn(self) -> list[str]:
        """A round of one way."""
        return ["--rounds", "1", "--sample-ms", str(self.sample_ms)]


Options = tuple[str, ...]  # of Thole
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Measured:
    """latency: (bytes, seconds one way); rate: (bytes, bytes a second); best of the rounds."""

    latency: Points
    rate: Points

    def at(self, size: float) -> float:
        return dict(self.latency)[size]

    def peak(self) -> float:
        return max(rate for _, rate in self.rate)


def crossing(low: Points, high: Points) -> float | None:
    """The smallest size from which on the second is never worse; rates."""
    first = dict(low)
    sizes = [size for size, _ in high if size in first]
    better = [size for size in sizes if all(dict(high)[other] >= first[other] for other in sizes if other >= size)]
    return min(better, default=None)


def _read(found: dict[str, Any]) -> Measured:
    latency = tuple((row["size"], row["best_us"] / 1e6) for row in found.get("latency", []))
    rate = tuple((row["size"], row["best_bytes_per_s"]) for row in found.get("bandwidth", []))
    return Measured(latency, rate)


def best(turns: Sequence[Measured]) -> Measured:
    latency = [dict(turn.latency) for turn in turns]
    rate = [dict(turn.rate) for turn in turns]
    return Measured(
        tuple((size, min(turn[size] for turn in latency)) for size in latency[0]),
        tuple((size, max(turn[size] for turn in rate)) for size in rate[0]),
    )


def _run(words: Sequence[str], what: str) -> Any:
    done = process.run(words, clean_environment(), LIMIT_S)
    if done.failure:
        raise Trouble(f"{what}: {done.failure}", "see what `thole perf` says by itself")
    return json.loads(done.output)


class Bed:
    """Where `thole perf` is, and two hosts once they are asked for. Guests take minutes. costs: this machine's, where
    they are known already."""

    def __init__(self, build: Path, effort: Effort, guests: bool = True, costs: Costs | None = None) -> None:
        self.build = build
        self.guests = guests
        self.tool = [sys.executable, str(build / "python" / "thole"), "perf"]
        self.effort = effort
        self.known = costs
        self.hosts: Testbed | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Bed:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def simulate(self, program: str, *words: str) -> Any:
        """What a program of the simulator prints."""
        return _run([str(self.build / "sim" / program), *words], program)

    def costs(self, made: Section) -> Costs | None:
        """This machine's, measured once; None, and the section says why, where that cannot be."""
        try:
            if self.known is None:
                program = self.build / "bench" / "thole-machine-costs"
                self.known = Costs.read(_run([str(program), str(4 * self.effort.rounds)], program.name))
        except Trouble as trouble:
            made.missing.append(f"this machine's costs: {trouble}")
        return self.known

    def count(self, made: Section, ways: Sequence[Way], sizes: Sequence[int], mtu: int) -> Counts:
        """As counted.count; where there are no guests the section says so, and nothing is counted."""
        try:
            if not self.guests:
                raise Trouble("--quick leaves guests out")
            return count(self.build, ways, sizes, mtu)
        except Trouble as trouble:
            made.missing.append(f"what is counted in guests: {trouble}")
            return {}

    def by_turns(self, ways: Sequence[One], once: Callable[[One], Measured]) -> list[Measured]:
        """What disturbs one disturbs the others; who is last in a round is first in the next."""
        found: list[list[Measured]] = [[] for _ in ways]
        for number in range(self.effort.rounds):
            for at in range(len(ways))[:: -1 if number % 2 else 1]:
                found[at].append(once(ways[at]))
        return [best(turns) for turns in found]

    def node(self, sizes: str, *ways: Options) -> list[Measured]:
        """By each of some ways."""
        words = [*self.tool, "--json", "--latency", "--bandwidth", "--sizes", sizes, *self.effort.turn()]
        return self.by_turns(ways, lambda way: _read(_run([*words, *_chosen(way)], "thole perf inside this host")))

    def line(self) -> float:
        """Nanoseconds that a cache line takes from one core to another now: what all that is measured in a node, and
        half of what is between hosts, hangs on."""
        words = [*self.tool, "--json", "--latency", "--sizes", "8", "--rounds", "3", "--sample-ms", "2"]
        return float(_run(words, "thole perf inside this host")["bare"]["best_us"]) * 1e3

    def between(self, sizes: str, mtu: int, *ways: Options | None) -> list[Measured]:
        """By each of some ways; None: TCP in place of Thole."""
        if self.hosts is None:
            self.hosts = self._stack.enter_context(Testbed())
            self.hosts.pin([[cpu] for cpu in sorted(os.sched_getaffinity(0))])
        hosts = self.hosts
        hosts.set_mtu(mtu)

        def once(way: Options | None) -> Measured:
            chosen = _chosen(way or ())
            with listener(hosts, self.tool, chosen) as port:
                words = [*self.tool, "--host", hosts.names[1], "--port", port, "--json", "--sizes", sizes]
                words += ["--bare"] if way is None else ["--latency", "--bandwidth"]
                found = _run(hosts.command(0, *words, *chosen, *self.effort.turn()), "thole perf between two hosts")
            return _bare(found) if way is None else _read(found)

        return self.by_turns(ways, once)


def _chosen(options: Options) -> list[str]:
    return [word for option in options for word in ("--option", option)]


def _bare(found: dict[str, Any]) -> Measured:
    """TCP's ping-pong; its rates are a message of each size, one way and back."""
    latency = tuple((row["size"], row["best_us"] / 1e6) for row in found["tcp"])
    return Measured(latency, ())


@contextlib.contextmanager
def listener(hosts: Testbed, tool: Sequence[str], chosen: Sequence[str]) -> Iterator[str]:
    """`thole perf --listen` in the second host; its port."""
    command = hosts.command(1, *tool, "--listen", "--once", "--port", "0", *chosen)
    job = subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert job.stdout is not None
        said = ""
        for line in job.stdout:
            said += line
            match = re.search(r"port (\d+)", line)
            if match:
                break
        else:
            raise Trouble(f"thole perf --listen: {said.strip()}")
        yield match[1]
    finally:
        job.terminate()
        process.reap(job, START_S)
