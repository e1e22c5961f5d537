# SPDX-License-Identifier: BSD-3-Clause
"""Thole and its peers side by side on this machine: inside a node, and (network.py) between two hosts.

Each round starts every peer once, one after the other, so that a slow minute of the machine hits all of
them alike; results are medians and bests over all rounds. Nothing but the peer runs meanwhile: progress is
drawn between two runs and never during one. A virtual machine's cores may move closer or apart while it runs:
bench/floor.c looks before and after each start, and only what was measured in the same condition is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from thole.base import bounds, paths
from thole.base.output import progress
from thole.base.trouble import Trouble
from thole.mpi.families import Mpi
from thole.mpi.identify import require_fabric, require_ucx
from thole.mpi.plan import plan as thole_plan
from thole_lab.compiler import compile_c, compile_mpi
from thole_lab.launchers import launcher_of
from thole_lab.process import Outcome, run
from thole_lab.venvs import OTHERS, without

import host
import hpcc
import launch
import ours
import report
import targets
from peers import Peer, build_label
from plans import TESTS, Plan, plans
from results import SPREAD, Condition, Results

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PARTS = ("node", "network", "driver", "adapters", "all")  # all: what is timed; two are counted
TRIES = 3  # of a start, where the machine changed during it, or others used it
QUIET = 0.1  # share of the machine that others may use
SECRETS = ("THOLE_JOB_KEY",)
INNER_MAX = 1000  # as mpi_bench has it
SIZES = r"\d+[kKmM]?(,\d+[kKmM]?)*"
LIMIT_S = 120.0
# Arguments that say nothing in a part.
COUNTED_IGNORES = ("peers", "settings", "sizes", "rounds", "inner", "quick", "against", "record")
IGNORED = {"node": ("settings",), "driver": COUNTED_IGNORES, "adapters": COUNTED_IGNORES}
# Arguments of less than a whole run, or of more than its tables have.
NARROWING = ("peers", "only", "settings", "sizes", "quick", "against")
FLAGS = ("-O3", "-g", "-std=gnu11", "-D_GNU_SOURCE")
Result = TypeVar("Result")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--part", choices=PARTS, default="all", help="what to measure (default all)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where Thole is built")
    parser.add_argument(
        "--venvs", type=Path, action="append", help="folder of MPI environments, or one"
    )
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where results go")
    parser.add_argument("--name", default="", help="file name of the results, without its ending")
    parser.add_argument("--peers", help="names between commas, * in them for anything")
    parser.add_argument("--only", help=f"of {', '.join(TESTS)}, {hpcc.TEST}, perf, memory, crowd; between commas")
    parser.add_argument(
        "--settings", help="of the network: numbers between commas, as --list shows them"
    )
    parser.add_argument("--sizes", help="of the two-rank tests, such as 8,4k,1m")
    parser.add_argument(
        "--rounds", type=bounds.whole("--rounds", 1, bounds.ROUNDS_MAX), help="starts of each peer (default 3)"
    )
    parser.add_argument(
        "--inner",
        type=bounds.whole("--inner", 1, INNER_MAX),
        help="rounds within one start (default 25, or 7 with 4 ranks)",
    )
    parser.add_argument("--quick", action="store_true", help="one round, fewer sizes")
    parser.add_argument(
        "--settle", type=bounds.seconds("--settle", 0), default=3.0, help="s to wait for a quiet machine (default 3)"
    )
    parser.add_argument(
        "--against", type=Path, action="append", default=[], help="another build of Thole, to be compared with this one"
    )
    parser.add_argument("--record", action="store_true", help="bring the tables of the documents up to date")
    parser.add_argument("--lock", type=Path, help="file to hold locked while measuring")
    parser.add_argument("--list", action="store_true", help="name the peers and end")
    options = parser.parse_args()
    refuse(options)
    return options


def refuse(options: argparse.Namespace) -> None:
    """What cannot be meant, before anything is measured. What belongs to one part alone is said there."""
    if not (options.build / "build.ninja").is_file():
        raise Trouble(f"--build {options.build}: Thole is not built there", "run `make build`")
    for folder in options.venvs or []:
        paths.environments(folder, "--venvs")
    for build in options.against:
        if not (build / "provider" / paths.PROVIDER).is_file():
            raise Trouble(f"--against {build}: there is no {paths.PROVIDER}", "name a folder where Thole is built")
    labels = [build_label(build) for build in options.against]
    for label in labels:
        if labels.count(label) > 1:
            raise Trouble(f"two builds to compare with are called {label}", "give one of their folders another name")
    if options.sizes and not re.fullmatch(SIZES, options.sizes):
        raise Trouble(f"--sizes {options.sizes} are no sizes", "give them as 8,4k,1m")
    if options.name != Path(options.name).name:
        raise Trouble(f"--name {options.name} is no name of a file", "--results has the folder")
    ignored = [name for name in IGNORED.get(options.part, ()) if getattr(options, name)]
    if ignored:
        raise Trouble(f"the part {options.part} makes no use of --{ignored[0]}", "leave it out")
    narrowing = [name for name in NARROWING if getattr(options, name)] + ["part"] * (options.part != "all")
    if options.record and narrowing:
        raise Trouble(
            f"--record is for a whole run, without --{narrowing[0]}",
            "hand the results of all pieces to bench/record.py together",
        )
    try:
        options.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Trouble(f"--results {options.results}: {error.strerror}", "name a folder to write to") from None


@contextlib.contextmanager
def locked(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compile_programs(
    found: dict[str, Mpi], build: Path, failures: dict[str, str]
) -> dict[str, Path]:
    programs: dict[str, Path] = {}
    compile_c(["cc"], FLAGS, [HERE / "floor.c"], build / "bench" / "floor")
    for name, mpi in found.items():
        program = build / "bench" / name / "mpi_bench"
        try:
            compile_mpi(mpi, found.get("mpich"), FLAGS, [HERE / "mpi_bench.c"], program)
            programs[name] = program
        except Trouble as trouble:
            failures[mpi.label] = str(trouble)
    return programs


def unavailable(peer: Peer, found: dict[str, Mpi], programs: dict[str, Path]) -> str:
    """Why this peer cannot run here, or empty."""
    if peer.mpi not in found:
        return "this MPI is not installed"
    if peer.mpi not in programs:
        return "the benchmark could not be compiled with this MPI"
    if peer.thole:
        try:
            require_fabric(found[peer.mpi])
            paths.find(paths.PROVIDER)
            if peer.through == "ucx":
                require_ucx(found[peer.mpi])
        except Trouble as trouble:
            return str(trouble)
    lacking = [path for path in peer.libraries().values() if not path.is_file()]
    return f"there is no {lacking[0]}" if lacking else ""


def with_others(chosen: list[Peer], builds: list[Path]) -> list[Peer]:
    """Each peer over Thole, and beside it the same over other builds."""
    return [one for peer in chosen for one in (peer, *(peer.over(build) for build in builds if peer.thole))]


def environment() -> dict[str, str]:
    """The caller's, without settings of the stacks compared; Thole's own options stay."""
    return without(OTHERS)


class Bench:
    """Starts peers inside this node, and gathers what they printed."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console
        self.results = Results()
        self.every = host.cpus()
        self.cpus = self.every[:2]
        self.places = options.venvs or [options.build / "venv", Path(sys.prefix)]
        self.found = launch.find(self.places)
        self.programs: dict[str, Path] = {}
        self.commands: dict[str, str] = {}
        self.repeated = 0

    def program(self, peer: Peer, plan: Plan) -> list[str]:
        if plan.patterned:
            words = [str(launch.python(self.found[peer.mpi], self.places)), str(HERE / "mpi_patterns.py")]
            words += ["--of", plan.tests[0]]
        else:
            words = [str(self.programs[peer.mpi]), "--tests", ",".join(plan.tests), "--sizes", plan.sizes]
        words += ["--rounds", str(self.options.inner or plan.rounds)]
        return [*words, "--round-ms", str(plan.round_ms)]

    def place(self, plan: Plan) -> list[int]:
        """Where a start's ranks are to run: what is started from now on may run there only."""
        cpus = self.every if plan.wide else self.cpus
        os.sched_setaffinity(0, cpus)
        return cpus

    def line(self, peer: Peer, plan: Plan) -> tuple[list[str], dict[str, str]]:
        """The command of a start, and the variables that it needs."""
        command, settings = self.launcher(peer, plan.ranks, self.place(plan))
        return command + self.program(peer, plan), settings

    def once(self, command: list[str], settings: dict[str, str]) -> Outcome:
        return run(command, environment() | settings, LIMIT_S)

    def elsewhere(self) -> float:
        """CPU seconds of what runs for us and is not below us."""
        return 0.0

    def start(self, peer: Peer, plan: Plan) -> None:
        try:
            command, settings = self.line(peer, plan)
        except Trouble as trouble:
            self.results.failures[plan.label(peer)] = str(trouble)
            return
        shown = [f"{name}={value}" for name, value in settings.items() if name not in SECRETS]
        self.commands.setdefault(peer.name, " ".join([*shown, *command]))
        for attempt in range(TRIES):
            with locked(self.options.lock):
                host.settle(self.options.settle)
                before, watch = self.floor(), host.Watch(self.elsewhere)
                outcome = self.once(host.busy(command, plan.computing), settings)
                others, after = watch.share(), self.floor()
            same = max(before, after) <= SPREAD * min(before, after)
            if outcome.failure or (same and others < QUIET):
                break
            if attempt + 1 < TRIES:
                self.repeated += 1
        self.results.add(peer.name, outcome.output, after)
        if outcome.failure:
            self.results.failures[plan.label(peer)] = outcome.failure

    def part(
        self,
        title: str,
        titles: dict[str, str],
        check: Callable[[Results, Condition], list[targets.Check]],
    ) -> report.Part:
        """All that was measured, and what is to be said of it."""
        sections = []
        for condition in self.results.conditions():
            under = self.results.under(condition)
            checks = [] if self.options.against else check(under, condition)
            sections.append(report.Section(condition, under, checks, titles))
        return report.Part(title, self.results, sections)

    def attempt(self, name: str, measure: Callable[[], Result | None]) -> Result | None:
        try:
            return measure()
        except Trouble as trouble:
            self.results.failures[name] = str(trouble)
            return None

    def tool(self, name: str) -> Path:
        return self.options.build / "bench" / name

    def floor(self) -> float:
        """Nanoseconds of a cache line from core to core, just now; 0: not known, as where there is one core."""
        if len(self.cpus) < 2:
            return 0.0
        command = [str(self.tool("floor")), *map(str, self.cpus)]
        outcome = run(command, dict(os.environ), 10.0)
        return 0.0 if outcome.failure else float(outcome.output)

    def launcher(self, peer: Peer, ranks: int, cpus: list[int]) -> tuple[list[str], dict[str, str]]:
        """The command up to the program, and the variables that it needs."""
        mpi = self.found[peer.mpi]
        command = launch.command(mpi, cpus, ranks, list(peer.arguments))
        ours = thole_plan(command, shared_heap=peer.heap, through=peer.through).environment() if peer.thole else {}
        return command, dict(launcher_of(mpi).environment) | (ours or peer.settings(mpi)) | peer.provided()

    def measure_hpcc(self, chosen: list[Peer], rounds: int) -> None:
        """As often as the others are started, each peer after the other."""
        peers = [peer for peer in chosen if peer.mpi == hpcc.MPI]
        reason = hpcc.missing()
        if reason and peers:
            self.results.missing[hpcc.TEST] = reason
            return
        for _ in range(rounds):
            for peer in peers:
                command, settings = self.launcher(peer, hpcc.RANKS, self.cpus)
                with locked(self.options.lock):
                    host.settle(self.options.settle)
                    lines, failure = hpcc.once(command, environment() | settings)
                    self.results.add(peer.name, lines, self.floor())
                if failure:
                    self.results.failures[f"{peer.name} {hpcc.TEST}"] = failure

    def measure(self, chosen: list[Peer], todo: list[Plan], rounds: int) -> None:
        starts = [(plan, [peer for peer in chosen if plan.suits(peer)]) for plan in todo]
        with progress(rounds * sum(len(peers) for _, peers in starts), self.console, still=True) as step:
            for number in range(rounds):
                for plan, peers in starts:
                    for peer in peers if number % 2 == 0 else reversed(peers):
                        step(f"{number + 1}/{rounds} {plan.tests[0]} {peer.name}")
                        if plan.label(peer) not in self.results.failures:  # the peer's other tests go on
                            self.start(peer, plan)
        if self.cpus:  # what follows is for pairs
            os.sched_setaffinity(0, self.cpus)


class Compared:
    """What a whole run has gathered for its report."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console
        self.parts: list[report.Part] = []
        self.extra: dict[str, object] = {}
        self.commands: dict[str, str] = {}
        self.repeated = 0
        self.interrupted = False  # nothing more is to be measured

    def take(self, bench: Bench, part: report.Part) -> None:
        self.parts.append(part)
        self.commands |= bench.commands
        self.repeated += bench.repeated

    def wanted(self, test: str) -> bool:
        return not self.options.only or test in self.options.only.split(",")


def rounds(options: argparse.Namespace) -> int:
    return options.rounds or (1 if options.quick else 3)


def ready(bench: Bench, chosen: list[Peer]) -> list[Peer]:
    """Those that can run here; why the others cannot is kept with the results."""
    reasons = {peer.name: unavailable(peer, bench.found, bench.programs) for peer in chosen}
    bench.results.missing |= {name: reason for name, reason in reasons.items() if reason}
    return [peer for peer in chosen if not reasons[peer.name]]


def measure_node(bench: Bench, chosen: list[Peer], compared: Compared) -> None:
    perf = memory = crowd = None
    try:
        able = ready(bench, with_others(chosen, bench.options.against))
        bench.measure(able, plans(bench.options, len(bench.every)), rounds(bench.options))
        if compared.wanted(hpcc.TEST):
            bench.measure_hpcc(able, rounds(bench.options))
        with locked(bench.options.lock):
            if compared.wanted("perf"):
                perf = bench.attempt("thole-perf", lambda: ours.perf(bench.cpus))
            if compared.wanted("memory"):
                memory = bench.attempt("thole-memory", lambda: ours.memory(bench.options.build))
            if compared.wanted("crowd"):
                crowd = bench.attempt("thole-crowd", lambda: ours.crowd(bench.options.build, bench.cpus))
    except KeyboardInterrupt:  # what has been measured by then is still reported
        compared.interrupted = True
    compared.extra |= {"perf": perf and asdict(perf), "memory": memory, "crowd": crowd}
    own = [*targets.check_perf(perf), *targets.check_memory(memory), *targets.check_crowd(crowd)]
    part = bench.part(report.NODE, report.NODE_TITLES, targets.check)
    if part.sections and not bench.options.against:
        part.sections[0].checks.extend(own)  # they look at the machine's state by themselves
    compared.take(bench, part)
