# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel driver costs, in instructions: guests whose clock goes by the instruction, the same in each run.

Owns which programs run, and in which guest. A program prints lines "row NAME VALUE"; what each is, and what it is to
reach, is a row of targets.DRIVER_ROWS. Both together are the table.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import report
import targets
from comparison import ROOT

sys.path.insert(0, str(ROOT / "test" / "vm"))
import guest as guests  # noqa: E402
import kernels  # noqa: E402
import module  # noqa: E402

ROW = re.compile(r"^row (\w+) ([\d.]+)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A command for a guest where the driver is loaded; {build} is the build folder, {tool} busybox. One processor."""

    name: str
    command: str


SMALL = "for l in udp raw driver; do {build}/test/system/thole-link-bench link=$l mode=cost size=40 rounds=20; done"
BULK = "b={build}/test/vm/thole-driver-bulk; $b 1500 cost && $b -1500 cost && $b 1500 cost_udp"
PULL = "{build}/test/vm/thole-driver-pull cost"
LINKS = "for l in udp raw; do {build}/test/system/thole-link-bench link=$l mode=bulk total=2 rounds=3; done"
# Two ranks to each other, as whole messages of 16 MiB: the engine's work, and that of programs, is in these.
MESSAGES = """ip link set lo mtu 1500 up
one() {{ {build}/test/vm/thole-driver-overlap --row $1 --drivers $2 --option job_key=$3 --option interface=lo; }}
one message_driver 2 4711; one message_udp 0 4711; one message_driver_plain 2 none; one message_udp_plain 0 none"""
PROGRAMS = (
    Program("costs", "ulimit -l unlimited; {build}/bench/thole-driver-costs"),
    Program("small", SMALL),
    Program("bulk", BULK),
    Program("mxoe", PULL),
    Program("links", LINKS),
    Program("messages", MESSAGES),
)


def run_program(program: Program, bed: guests.Bed, build: Path) -> dict[str, float]:
    tool = kernels.fetch_busybox(build)
    file = module.build_module(bed.kernel, build)
    command = f"{tool} insmod {file}; {program.command.format(build=build, tool=tool)}"
    with tempfile.TemporaryDirectory(prefix="thole-bench-") as out:
        result = guests.run(bed, guests.Job(command, Path(out), counted=True))
    if result.status:
        raise kernels.Missing(f"{program.name} failed in the guest: {result.output.strip()[-500:]}")
    return {name: float(value) for name, value in ROW.findall(result.output)}


def measure(options: argparse.Namespace, console: Console) -> tuple[str, dict[str, float]]:
    """All programs with the newest kernel; what fails is said, and its rows are not measured."""
    guests.need_qemu()
    kernel = kernels.fetch(options.build)[-1]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="thole-bed-") as folder:
        bed = guests.make_bed(kernel, kernels.fetch_busybox(options.build), Path(folder))
        for program in PROGRAMS:
            if options.only and program.name not in options.only.split(","):
                continue
            try:
                found |= run_program(program, bed, options.build.resolve())
            except (kernels.Missing, guests.Panic, guests.Lost) as trouble:
                console.print(f"{program.name}: {trouble}", markup=False)
    return kernel.release, found


def main(options: argparse.Namespace, console: Console, name: str, facts: dict[str, object]) -> int:
    try:
        release, found = measure(options, console)
    except kernels.Missing as trouble:
        console.print(str(trouble), markup=False)
        return 2
    table = report.driver_table(found)
    console.print(f"The driver, Linux {release}: instructions", markup=False)
    table.show(console)
    checks = [check.record() for check in targets.check_driver(found)]
    extra = {"driver": {"kernel": release, "rows": found, "targets": checks}}
    files = report.write(options.results, name, facts, [], extra, [table])
    console.print(f"Written: {files[0]} and {files[1]}", markup=False)
    return 0
