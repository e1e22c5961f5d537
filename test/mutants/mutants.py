#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the tests notice small faults? mutants.py --build BUILD [NAME...]

Each fault of faults.py is put into a copy of the sources by itself, the copy is built, and the unit tests and some
of the simulator's histories run until one of them fails. A fault that none of them notices survives, and wants a test.

Owns the copy (BUILD/mutants), which is kept, so that each fault recompiles only what it touches. Never touches the
checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))
from faults import FAULTS, Fault  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
LIMIT_S = 300  # of one check: a fault may make it hang, which is noticed too


class Check(NamedTuple):
    name: str
    command: list[str]


class Verdict(NamedTuple):
    fault: Fault
    noticed_by: str  # the check that failed; "" if none did
    seconds: float


class Copy(NamedTuple):
    tree: Path
    build: Path
    targets: list[str]  # what the checks run

    def compile(self) -> bool:
        return run(["ninja", "-C", str(self.build), *self.targets])


class Trouble(Exception):
    """What keeps the faults from being tried."""


def checks(build: Path, seeds: int) -> list[Check]:
    """From the quickest and most telling on."""
    sim = str(build / "sim" / "thole-sim")
    return [
        Check(
            "unit",
            [
                "meson",
                "test",
                "-C",
                str(build),
                "--no-rebuild",
                "--suite",
                "unit",
                "--maxfail",
                "1",
            ],
        ),
        Check("simulator", [sim, "--seeds", str(seeds)]),
        Check("simulator, mxoe", [sim, "--codec", "mxoe", "--seeds", str(seeds // 2)]),
        *(
            Check(f"simulator, {name}", [sim, "--scenario", name, "--seeds", "3"])
            for name in ("loss", "split", "restart")
        ),
    ]


def run(command: list[str], limit_s: float | None = None) -> bool:
    """Whether it succeeded in time; everything it started is gone afterwards."""
    null = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, start_new_session=True
    ) as process:
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def copy_sources(tree: Path) -> None:
    """What git knows of the checkout, as it is in the working tree. Files that have not changed keep their times."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=TOP, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        source, target = TOP / name, tree / name
        if not source.is_file():
            target.unlink(missing_ok=True)
        elif not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def introspect(build: Path, what: str) -> list[dict]:
    done = subprocess.run(
        ["meson", "introspect", f"--{what}", str(build)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def make_tree(place: Path) -> Copy:
    tree, build = place / "tree", place / "build"
    copy_sources(tree)
    if not (build / "build.ninja").exists() and not run(
        ["meson", "setup", str(build), str(tree), "-Dtests=true"]
    ):
        raise Trouble(f"meson setup failed in {build}: run it by hand to see why")
    wanted = {
        name
        for test in introspect(build, "tests")
        if "unit" in test["suite"]
        for name in test["depends"]
    }
    targets = [
        str(Path(target["filename"][0]).relative_to(build))
        for target in introspect(build, "targets")
        if target["id"] in wanted or target["name"] == "thole-sim"
    ]
    copy = Copy(tree, build, targets)
    if not copy.compile():
        raise Trouble(f"the sources without a fault do not build in {build}")
    return copy


def try_fault(fault: Fault, copy: Copy, seeds: int, console: Console) -> Verdict:
    began = time.monotonic()
    verdict = Verdict(fault, notice(fault, copy, seeds), time.monotonic() - began)
    console.print(f"{fault.name}: {verdict.noticed_by or '[red]nothing notices it[/]'}")
    return verdict


def notice(fault: Fault, copy: Copy, seeds: int) -> str:
    """The check that notices a fault, or nothing."""
    path = copy.tree / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        raise Trouble(
            f"{fault.name}: {fault.file} has the text that the fault replaces "
            f"{text.count(fault.old)} times, not once: bring faults.py up to date"
        )
    path.write_text(text.replace(fault.old, fault.new))
    try:
        if not copy.compile():
            raise Trouble(f"{fault.name}: does not compile")
        for check in checks(copy.build, seeds):
            if not run(check.command, LIMIT_S):
                return check.name
        return ""
    finally:
        path.write_text(text)


def show(console: Console, verdicts: list[Verdict]) -> None:
    table = Table("fault", "file", "noticed by", "seconds")
    for verdict in verdicts:
        by = verdict.noticed_by or "[red]nothing[/]"
        table.add_row(verdict.fault.name, verdict.fault.file, by, f"{verdict.seconds:.0f}")
    console.print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--build", type=Path, default=TOP / "build", help="where the copy is made (%(default)s)"
    )
    parser.add_argument(
        "--seeds", type=int, default=150, help="histories of the simulator a fault (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write the verdicts here too")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="faults whose names contain this (default: all)"
    )
    return parser.parse_args()


def main() -> int:
    args = arguments()
    console = Console()
    wanted = args.names or [""]
    faults = [fault for fault in FAULTS if any(name in fault.name for name in wanted)]
    try:
        copy = make_tree(args.build.resolve() / "mutants")
        for check in checks(copy.build, args.seeds):
            if not run(check.command, LIMIT_S):
                raise Trouble(f"{check.name} fails without a fault: {' '.join(check.command)}")
        verdicts = [
            try_fault(fault, copy, args.seeds, console)
            for fault in track(faults, "faults", console=console)
        ]
    except Trouble as trouble:
        console.print(f"mutants: {trouble}", style="red")
        return 2
    show(console, verdicts)
    survivors = [verdict for verdict in verdicts if not verdict.noticed_by]
    console.print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} faults are noticed")
    if args.json:
        args.json.write_text(
            json.dumps(
                [
                    {
                        "fault": verdict.fault.name,
                        "file": verdict.fault.file,
                        "noticed_by": verdict.noticed_by,
                    }
                    for verdict in verdicts
                ],
                indent=1,
            )
        )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
