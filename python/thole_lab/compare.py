# SPDX-License-Identifier: BSD-3-Clause
"""`thole compare`: mpi4py's own benchmarks, over what each MPI ships with and over Thole, side by side.

Inside this machine, and between two hosts: network namespaces (testbed.py), or ranks that reach each other by the
loopback interface alone where those cannot be made. There it is each MPI's TCP that Thole is compared with. The
programs are mpi4py's and the MPIs are as packaged; only environment variables differ. Runs are interleaved in rounds
and the best of the rounds counts, since machines are shared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from thole.base import bounds, native, output, paths
from thole.base.text import size_text, time_text
from thole.base.trouble import Trouble
from thole.commands.arguments import add_option
from thole.mpi.families import family_names
from thole.mpi.plan import plan

from thole_lab import process
from thole_lab.testbed import Loopback, Testbed, missing_right
from thole_lab.venvs import Environment, find, over_tcp

WAYS = ("own", "thole")
PLACES = ("node", "network")
HOSTS = ("auto", "namespaces", "loopback", "none")
RUN_SECONDS_MAX = 40.0
SIZE_MAX = 1 << 30  # bytes of a message: larger ones do not end in that time

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
        """How many times faster over Thole."""
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


def _cell(value: float | None) -> str:
    return time_text(value) if value is not None else "-"


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    color = "green" if value >= 1.0 else "red" if value < 0.95 else "yellow"
    return f"[{color}]{value:.2f}[/]"


def table_of(
    results: Results,
    environments: dict[str, Environment],
    chosen: Iterable[Bench],
    place: str,
    where: str,
) -> Table:
    table = output.table()
    table.title = f"{where}: microseconds one way, best of rounds; x: times faster over Thole"
    table.add_column("", no_wrap=True)
    for environment in environments.values():
        own = environment.mpi.version + (", TCP" if place == "network" else "")
        title = f"{environment.mpi.family.title}\n{own}"
        table.add_column(title, justify="right", no_wrap=True)
        table.add_column("over\nThole", justify="right", no_wrap=True)
        table.add_column("\nx", justify="right", no_wrap=True, style="bold")
    for bench in chosen:
        if bench.place != place:
            continue
        sizes = results.sizes(bench.name)
        by_size = bench.name in PINGPONGS.values()
        if by_size:
            sizes = [size for size in sizes if int(math.log2(size)) % 2 == 0 or size == sizes[-1]]
        for size in sizes:
            row = [size_text(size) if by_size else bench.title]
            for name in environments:
                row += [_cell(results.best(name, way, bench.name, size)) for way in WAYS]
                row.append(_ratio(results.ratio(name, bench.name, size)))
            table.add_row(*row)
    return table


def summary(
    results: Results, environments: dict[str, Environment], place: str
) -> list[str]:
    lines = []
    bench = PINGPONGS[place]
    than = "" if place == "node" else " than over its TCP"
    for name, environment in environments.items():
        ratios = [results.ratio(name, bench, size) for size in results.sizes(bench)]
        known = [ratio for ratio in ratios if ratio is not None]
        if known:
            mean = statistics.geometric_mean(known)
            ahead = sum(ratio >= 1.0 for ratio in known)
            lines.append(
                f"{environment.mpi.label}: {mean:.2f} times faster over Thole{than} (geometric mean), "
                f"ahead at {ahead} of {len(known)} sizes"
            )
    return lines


def as_json(results: Results, environments: dict[str, Environment]) -> dict[str, Any]:
    rows = []
    for (name, way, bench, size), samples in sorted(results.samples.items()):
        rows.append(
            {
                "mpi": name,
                "version": environments[name].mpi.version,
                "way": way,
                "bench": bench,
                "place": "network" if bench.startswith("hosts-") else "node",
                "size": size,
                "best_us": min(samples),
                "median_us": statistics.median(samples),
                "rounds": len(samples),
            }
        )
    return {"results": rows, "failures": results.failures}


def _draw(
    results: Results, environments: dict[str, Environment], place: str, left: Any, right: Any
) -> None:
    bench = PINGPONGS[place]
    own = "as shipped" if place == "node" else "over TCP"
    sizes = results.sizes(bench)
    for index, (name, environment) in enumerate(environments.items()):
        for way, style in (("own", "--"), ("thole", "-")):
            points = [(size, results.best(name, way, bench, size)) for size in sizes]
            known = [(size, value) for size, value in points if value is not None]
            if not known:
                continue
            label = f"{environment.mpi.label} {'over Thole' if way == 'thole' else own}"
            how = {"color": f"C{index}", "label": label, "marker": ".", "linestyle": style}
            left.plot([size for size, _ in known], [value for _, value in known], **how)
            right.plot(
                [size for size, _ in known], [size / value / 1000 for size, value in known], **how
            )


def picture(
    results: Results, environments: dict[str, Environment], where: dict[str, str], path: Path
) -> None:
    """Latency and bandwidth against message size, a row for each place: solid over Thole, dashed without."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    rows = len(where)
    figure, grid = pyplot.subplots(
        rows, 2, figsize=(13, 5.2 * rows), constrained_layout=True, squeeze=False
    )
    for (place, name), (left, right) in zip(where.items(), grid):
        _draw(results, environments, place, left, right)
        left.set(title=f"{name}: latency, one way", yscale="log", xlabel="message", ylabel="us")
        right.set(title=f"{name}: ping-pong bandwidth", xlabel="message", ylabel="GB/s")
    for axes in grid.flat:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_text(size)))
        axes.grid(visible=True, alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    figure.suptitle(
        "mpi4py's ping-pong between two ranks (lower left and higher right are better)"
    )
    output.write_picture(path, figure)
    pyplot.close(figure)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="MPI programs over what their MPI ships with and over Thole",
        description="Run mpi4py's own benchmarks with 2 ranks (and a ring of 4), once over what each MPI "
        "ships with and once over Thole, interleaved, and show both side by side; then the same between two hosts "
        "made of network namespaces, where it is each MPI's TCP that Thole stands beside.",
    )
    parser.add_argument(
        "--venvs",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of virtual environments with MPIs and mpi4py (default: build/venv)",
    )
    parser.add_argument(
        "--mpi",
        action="append",
        default=[],
        choices=family_names(),
        help="only this MPI; may be repeated",
    )
    parser.add_argument(
        "--rounds",
        type=bounds.whole("--rounds", 1, bounds.ROUNDS_MAX),
        default=5,
        help="how often everything is run (default 5)",
    )
    parser.add_argument(
        "--seconds",
        type=bounds.seconds("--seconds", 0),
        default=120.0,
        help="begin no round that would end later (default 120)",
    )
    parser.add_argument(
        "--size-max",
        type=bounds.whole("--size-max", 1, SIZE_MAX),
        default=4 << 20,
        help="largest message in bytes (default 4194304)",
    )
    add_option(parser)
    parser.add_argument(
        "--hosts",
        choices=HOSTS,
        default="auto",
        help="what stands for two hosts: network namespaces, the loopback interface where these cannot be made "
        "(auto), or no such part",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also write a picture")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    tree = paths.build_tree()
    native.check_options(arguments.option)
    if arguments.json:
        output.check_file(arguments.json)
    if arguments.plot:
        output.check_picture(arguments.plot)
    named = [paths.environments(folder, "--venvs") for folder in arguments.venvs]
    folders = named or ([tree / "venv"] if tree else [])
    environments = find(folders)
    if arguments.mpi:
        environments = {
            name: found for name, found in environments.items() if name in arguments.mpi
        }
    if not environments:
        raise Trouble(
            "no MPI with mpi4py was found",
            "run `make venvs`, or name a folder of environments with --venvs",
        )
    paths.find(paths.PROVIDER)
    reason = missing_right() if arguments.hosts in ("auto", "namespaces") else ""
    if reason and arguments.hosts == "namespaces":
        raise Trouble(f"no hosts can be made: {reason}", "use --hosts loopback")
    where = {"node": "on one host"}
    if arguments.hosts != "none":
        loopback = arguments.hosts == "loopback" or reason
        where["network"] = "through the loopback interface" if loopback else "between two hosts"
    chosen = [bench for bench in benches(arguments.size_max) if bench.place in where]
    steps = arguments.rounds * len(chosen) * len(environments) * len(WAYS)
    with contextlib.ExitStack() as stack, output.progress(steps, lines=True) as step:
        hosts: Testbed | Loopback | None = None
        if "network" in where:
            hosts = Loopback() if loopback else stack.enter_context(Testbed())
            hosts.pin(sorted(os.sched_getaffinity(0))[:2])
        results = measure(
            environments, chosen, arguments.rounds, arguments.option, step, arguments.seconds, hosts
        )
    console = output.console(150)
    for place, name in where.items():
        console.print(table_of(results, environments, chosen, place, name), highlight=False)
        for line in summary(results, environments, place):
            console.print(line, highlight=False)
        console.print()
    if reason:
        console.print(f"no hosts of their own could be made: {reason}", highlight=False)
    for failure in results.failures:
        console.print(f"[red]failed[/] {failure}", highlight=False, soft_wrap=True)
    if arguments.json:
        numbers = {"places": where, **as_json(results, environments)}
        output.write_text(arguments.json, json.dumps(numbers, indent=1) + "\n")
    if arguments.plot:
        picture(results, environments, where, arguments.plot)
        console.print(f"picture: {arguments.plot}", highlight=False, soft_wrap=True)
    # What an MPI cannot do by itself is worth a line, but no failure of ours.
    return 1 if any(" over Thole, " in failure for failure in results.failures) else 0
