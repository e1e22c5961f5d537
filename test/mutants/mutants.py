#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the tests notice small faults? mutants.py --build BUILD [NAME...]

Each fault of faults.py is put by itself into a copy of the sources, and what `make check` runs, but the documents, runs
until a test fails: first the one that is named after the file, then the others, the quickest first. A fault that none
of them notices survives, and wants a test.

Owns the copies (BUILD/mutants/N), one for each processor, which are kept, so that each fault compiles only what it
touches, and builds no test before it is its turn. Never touches the checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))
from faults import FAULTS, TOP, Fault, misplaced  # noqa: E402

SUITES = {"unit", "check"}
SHARED = {"mx_headers", "mx_symbols", "thole_header", "thole_symbols"}  # look at shared libraries, which no fault of ours changes
# A test that takes this much longer than without a fault hangs, which is noticed too; other tests run beside it.
LIMIT_S, LIMIT_FACTOR = 20.0, 10.0


class Check(NamedTuple):
    """A test of meson's."""

    name: str
    command: list[str]
    env: dict[str, str]
    folder: Path
    targets: list[str]

    def passes(self, limit_s: float | None = None) -> bool:
        return run(self.command, limit_s, env={**os.environ, **self.env}, cwd=self.folder)


class Verdict(NamedTuple):
    fault: Fault
    noticed_by: str  # the test that failed; "" if none did
    seconds: float


class Copy(NamedTuple):
    tree: Path
    build: Path
    checks: list[Check]

    def compile(self, targets: list[str]) -> bool:
        return run(["ninja", "-C", str(self.build), "-j", "1", *targets])


class Trouble(Exception):
    """What keeps the faults from being tried."""


def run(command: list[str], limit_s: float | None = None, **how: object) -> bool:
    """Whether it succeeded in time; everything it started is gone afterwards. It does not outlive us either: a fault may
    make it poll for ever."""
    null = subprocess.DEVNULL
    with subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
        **how,  # type: ignore[call-overload]
    ) as process:
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


# ---- Copies ----------------------------------------------------------------------------------------


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


def make_copy(place: Path) -> Copy:
    tree, build = place / "tree", place / "build"
    copy_sources(tree)
    if not (build / "build.ninja").exists() and not run(
        ["meson", "setup", str(build), str(tree), "-Dtests=true", "-Ddebug=false"]
    ):
        raise Trouble(f"meson setup failed in {build}: run it by hand to see why")
    if not run(["ninja", "-C", str(build), "build.ninja"]):  # meson.build may have changed
        raise Trouble(f"meson cannot configure {build}: run it by hand to see why")
    return Copy(tree, build, checks_of(build))


def introspect(build: Path, what: str) -> list[dict]:
    done = subprocess.run(
        ["meson", "introspect", f"--{what}", str(build)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def checks_of(build: Path) -> list[Check]:
    files = {
        target["id"]: str(Path(target["filename"][0]).relative_to(build)) for target in introspect(build, "targets")
    }
    config = {"XDG_CONFIG_HOME": str(build / "config")}  # where endpoints make the user's job key
    return [
        Check(test["name"], test["cmd"], {**test["env"], **config}, build, [files[name] for name in test["depends"]])
        for test in introspect(build, "tests")
        if {suite.partition(":")[2] for suite in test["suite"]} & SUITES and test["name"] not in SHARED
    ]


def limits(copy: Copy) -> dict[str, float]:
    """How long each test may take, by what it takes without a fault."""
    if not copy.compile(sorted({target for check in copy.checks for target in check.targets})):
        raise Trouble(f"the sources without a fault do not build in {copy.build}")
    found = {}
    for check in copy.checks:
        began = time.monotonic()
        if not check.passes():
            raise Trouble(f"{check.name} fails without a fault: {' '.join(check.command)}")
        found[check.name] = LIMIT_S + LIMIT_FACTOR * (time.monotonic() - began)
    return found


# ---- Faults ----------------------------------------------------------------------------------------


def in_turn(fault: Fault, checks: list[Check], limit_s: dict[str, float]) -> list[Check]:
    stem = Path(fault.file).stem
    return sorted(checks, key=lambda check: (check.name != stem, limit_s[check.name]))


@contextlib.contextmanager
def put_in(fault: Fault, copy: Copy) -> Iterator[None]:
    path = copy.tree / fault.file
    text = path.read_text()
    path.write_text(text.replace(fault.old, fault.new))
    try:
        yield
    finally:
        path.write_text(text)


def notice(fault: Fault, copy: Copy, limit_s: dict[str, float]) -> str:
    """The test that notices a fault, or nothing."""
    with put_in(fault, copy):
        for check in in_turn(fault, copy.checks, limit_s):
            if not copy.compile(check.targets):
                raise Trouble(f"{fault.name}: does not compile")
            if not check.passes(limit_s[check.name]):
                return check.name
    return ""


def try_all(faults: list[Fault], copies: list[Copy], console: Console) -> list[Verdict]:
    """Each copy takes one fault after the other."""
    limit_s = limits(copies[0])
    free: queue.Queue[Copy] = queue.Queue()
    for copy in copies:
        free.put(copy)

    def try_one(fault: Fault) -> Verdict:
        copy = free.get()
        began = time.monotonic()
        try:
            verdict = Verdict(fault, notice(fault, copy, limit_s), time.monotonic() - began)
        finally:
            free.put(copy)
        console.print(f"{fault.name}: {verdict.noticed_by or '[red]nothing notices it[/]'}")
        return verdict

    with ThreadPoolExecutor(len(copies)) as pool:
        waiting = [pool.submit(try_one, fault) for fault in faults]
        try:
            for _ in track(as_completed(waiting), "faults", total=len(waiting), console=console):
                pass
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


# ---- The command -----------------------------------------------------------------------------------


def show(console: Console, verdicts: list[Verdict]) -> None:
    table = Table("fault", "file", "noticed by", "seconds")
    for verdict in verdicts:
        by = verdict.noticed_by or "[red]nothing[/]"
        table.add_row(verdict.fault.name, verdict.fault.file, by, f"{verdict.seconds:.0f}")
    console.print(table)


def write(path: Path, verdicts: list[Verdict]) -> None:
    rows = [
        {"fault": verdict.fault.name, "file": verdict.fault.file, "noticed_by": verdict.noticed_by}
        for verdict in verdicts
    ]
    path.write_text(json.dumps(rows, indent=1))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=TOP / "build", help="where the copies are made (%(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="faults tried at a time (%(default)s)"
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
        for complaint in misplaced(faults):
            raise Trouble(complaint)
        place = args.build.resolve() / "mutants"
        jobs = max(1, min(args.jobs, len(faults)))
        verdicts = try_all(faults, [make_copy(place / str(number)) for number in range(jobs)], console)
    except Trouble as trouble:
        console.print(f"mutants: {trouble}", style="red")
        return 2
    show(console, verdicts)
    survivors = [verdict for verdict in verdicts if not verdict.noticed_by]
    console.print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} faults are noticed")
    if args.json:
        write(args.json, verdicts)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
