# SPDX-License-Identifier: BSD-3-Clause
"""What this machine costs, as bench/machine_costs.c measures it: read, kept as a file, told to the simulator (costs.h),
and to the equations. The same costs make the same figures, whenever."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thole.base.trouble import Trouble

from models import PAGE, Machine, Pinning

NUMBERS = (
    ("pin_ns", "pin a region, by registering a buffer with io_uring", "ns"),
    ("pin_page_ns", "each page of it", "ns"),
    ("unpin_ns", "unpin it", "ns"),
    ("unpin_page_ns", "each page of it", "ns"),
    ("call_ns", "a system call", "ns"),
    ("wake_ns", "a datagram of 64 bytes over lo to a process that sleeps on the other core", "ns"),
    ("move", "process_vm_writev of 4 MiB in one piece", "MB/s"),
    ("block_ns", "more for each piece of a page, where pages lie anywhere at the other side", "ns"),
    ("scattered_ns", "more, where they do so at this one, too", "ns"),
    ("unaligned_ns", "more, where pieces end 8 bytes from a page's end at one side", "ns"),
)
NEVER_FREE = ("pin_page_ns", "move")  # what others are divided by


@dataclass(frozen=True)
class Costs:
    """By the names of NUMBERS; copy: (bytes, MB/s) a level, the last of 0 bytes: all that is longer."""

    numbers: dict[str, float]
    copy: tuple[tuple[int, float], ...]

    @classmethod
    def read(cls, found: dict[str, Any]) -> Costs:
        try:
            numbers = {name: float(found[name]) for name, _, _ in NUMBERS}
            copy = tuple((int(size), float(rate)) for size, rate in found["copy"])
        except (KeyError, TypeError, ValueError) as trouble:
            raise Trouble(f"a machine's costs lack something: {trouble}") from trouble
        wrong = [name for name, value in numbers.items() if value < 0 or (value == 0 and name in NEVER_FREE)]
        if wrong:
            raise Trouble(f"{wrong[0]} of a machine's costs is {numbers[wrong[0]]:g}")
        if not copy or copy[-1][0] != 0 or min(rate for _, rate in copy) <= 0:
            raise Trouble("a machine's costs have no rate of long copies, or one that is none")
        return cls(numbers, copy)

    @classmethod
    def load(cls, path: Path) -> Costs:
        try:
            return cls.read(json.loads(path.read_text()))
        except (OSError, ValueError) as trouble:
            raise Trouble(f"{path}: {trouble}") from trouble

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({**self.numbers, "copy": self.copy}, indent=1) + "\n")

    def words(self) -> list[str]:
        """For a program of the simulator."""
        words = []
        for name, value in self.numbers.items():
            page = name.endswith("page_ns")
            words.append(f"{name.removesuffix('_ns')}={round(value * 1000 if page else value)}")
        words += [f"copy={size}:{round(rate)}" for size, rate in self.copy]
        return ["--costs", ",".join(words)]

    def machine(self, network: Machine) -> Machine:
        """This one, on the network of another."""
        return dataclasses.replace(
            network,
            name=f"this machine, on the network of {network.name}",
            levels=tuple((size or float("inf"), rate * 1e6) for size, rate in self.copy),
            registration=self.numbers["pin_ns"] / 1e9,
            registration_rate=PAGE / self.numbers["pin_page_ns"] * 1e9,
        )

    def pinning(self) -> Pinning:
        base, page = (self.numbers[f"pin{name}"] + self.numbers[f"unpin{name}"] for name in ("_ns", "_page_ns"))
        return Pinning(base / 1e9, page / 1e9)

    def rows(self) -> list[list[str]]:
        """A table's, with its head."""
        made = [["what this machine costs", "measured", "unit"]]
        for name, what, unit in NUMBERS:
            value = self.numbers[name]
            made.append([what, f"{value:.4g}" if value < 1000 else f"{value:,.0f}", unit])
        for size, rate in self.copy:
            what = f"copies up to {size >> 10} KiB" if size else "copies of what no cache holds"
            made.append([what, f"{rate:,.0f}", "MB/s"])
        return made
