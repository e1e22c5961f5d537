# SPDX-License-Identifier: BSD-3-Clause
"""What a message costs both ends together, in instructions: a ping-pong in one guest, or between two, whose clocks go
by the instruction (test/vm, bench/pair_costs.c). Time says nothing there, and what is waited for is not counted."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thole.base.trouble import Trouble

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "test" / "vm"))
import guest as guests  # noqa: E402  (the path comes first)
import kernels  # noqa: E402

BUSY = re.compile(r"^busy (\d+)$", flags=re.MULTILINE)
MOVED = 2 << 20  # bytes each way and time, or
ROUNDS = 50  # messages, if these are fewer bytes


@dataclass(frozen=True)
class Way:
    """A ping-pong's: TCP without options stands for a socket."""

    name: str  # "thole" or "tcp"
    options: tuple[str, ...] = ()

    def line(self, build: Path, host: str, size: int) -> str:
        count = max(2, min(ROUNDS, MOVED // size))
        return " ".join([f"{build}/bench/thole-pair-costs {host} {self.name} {size} {count}", *self.options])


TCP = Way("tcp")
Counts = dict[tuple[Way, int], float]


def _jobs(build: Path, lines: Sequence[tuple[Way, int]], mtu: int, folder: Path) -> list[guests.Job]:
    """The two ends of all."""
    head = f"ip link set eth0 mtu {mtu}\nset -e\n"
    ends = ("listen", "g1")
    return [
        guests.Job(head + "\n".join(way.line(build, end, size) for way, size in lines), folder / end, counted=True)
        for end in ends
    ]


def _run(bed: guests.Bed, build: Path, lines: Sequence[tuple[Way, int]], mtu: int, folder: Path) -> list[guests.Result]:
    if mtu:
        return list(guests.run_pair(bed, *_jobs(build, lines, mtu, folder)))
    both = [
        f"{way.line(build, 'listen', size)} &\n{way.line(build, '127.0.0.1', size)} >/dev/null; wait $!"
        for way, size in lines
    ]
    return [guests.run(bed, guests.Job("set -e\n" + "\n".join(both), folder / "one", counted=True))]


def count(build: Path, ways: Sequence[Way], sizes: Sequence[int], mtu: int) -> Counts:
    """mtu 0: inside one guest; else between two."""
    lines = [(way, size) for way in ways for size in sizes]
    try:
        guests.need_qemu()
        kernel, tool = kernels.fetch(build)[-1], kernels.fetch_busybox(build)
        with tempfile.TemporaryDirectory(prefix="thole-papers-") as place:
            folder = Path(place)
            results = _run(guests.make_bed(kernel, tool, folder), build.resolve(), lines, mtu, folder)
    except (kernels.Missing, guests.Panic, guests.Lost) as trouble:
        raise Trouble(f"no guests that count instructions: {trouble}") from trouble
    found = [BUSY.findall(result.output) for result in results]
    if any(result.status for result in results) or any(len(each) != len(lines) for each in found):
        raise Trouble(f"thole-pair-costs in guests: {results[0].output[-500:]}{results[-1].output[-500:]}")
    return {line: float(sum(int(each[number]) for each in found)) for number, line in enumerate(lines)}
