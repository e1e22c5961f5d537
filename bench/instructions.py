# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the benchmark that count instructions, in guests whose clock goes by the instruction: each run says the same.

Owns how a part's programs run, each in a guest of its own, and what becomes of the lines "row NAME VALUE" that they
print. Which programs these are is a part's own (driver.py, adapters.py); what a row is to reach is in targets.py.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from thole.base.trouble import Trouble

import report
import targets
from comparison import ROOT

sys.path.insert(0, str(ROOT / "test" / "vm"))
import guest as guests  # noqa: E402
import kernels  # noqa: E402

ROW = re.compile(r"^row (\w+) ([\d.]+)$", flags=re.MULTILINE)
Rows = dict[str, float]


@dataclass(frozen=True)
class Program:
    """Lines for a guest's shell. One processor."""

    name: str
    command: str


@dataclass(frozen=True)
class Part:
    name: str  # in the file of results
    title: str
    programs: Callable[[argparse.Namespace, kernels.Kernel], list[Program]]  # may raise kernels.Missing
    table: Callable[[Rows], report.Table]
    check: Callable[[Rows], list[targets.Check]]
    names: Iterable[str]  # of its programs
    modules: Iterable[str] = ()  # of the kernel, beside those that all guests have


def run_program(program: Program, bed: guests.Bed) -> Rows:
    with tempfile.TemporaryDirectory(prefix="thole-bench-") as out:
        result = guests.run(bed, guests.Job(program.command, Path(out), counted=True))
    if result.status:
        raise kernels.Missing(f"it failed in the guest: {result.output.strip()[-500:]}")
    return {name: float(value) for name, value in ROW.findall(result.output)}


def measure(part: Part, options: argparse.Namespace, console: Console) -> tuple[str, Rows, bool]:
    """All programs with the newest kernel; what fails is said, and its rows are not measured. Whether all went well."""
    guests.need_qemu()
    kernel = kernels.fetch(options.build)[-1]
    found: Rows = {}
    well = True
    with tempfile.TemporaryDirectory(prefix="thole-bed-") as folder:
        bed = guests.make_bed(kernel, kernels.fetch_busybox(options.build), Path(folder), part.modules)
        for program in part.programs(options, kernel):
            if options.only and program.name not in options.only.split(","):
                continue
            try:
                found |= run_program(program, bed)
            except (kernels.Missing, guests.Panic, guests.Lost) as trouble:
                console.print(f"{program.name}: {trouble}", markup=False)
                well = False
    return kernel.release, found, well


def run(part: Part, options: argparse.Namespace, console: Console, name: str, facts: dict[str, object]) -> int:
    """Measure a part, show it and write it down; the exit status."""
    try:
        release, found, well = measure(part, options, console)
    except (kernels.Missing, Trouble) as trouble:
        console.print(str(trouble), markup=False)
        return 2
    table = part.table(found)
    console.print(f"{part.title}, Linux {release}: instructions", markup=False)
    table.show(console)
    checks = [check.record() for check in part.check(found)]
    extra = {part.name: {"kernel": release, "rows": found, "targets": checks}}
    files = report.write(options.results, name, facts, [], extra, [table])
    console.print(f"Written: {files[0]} and {files[1]}", markup=False)
    return 0 if well else 1
