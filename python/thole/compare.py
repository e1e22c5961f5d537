# SPDX-License-Identifier: BSD-3-Clause
"""`thole compare`: mpi4py's own benchmarks, over what each MPI ships with and over Thole, side by side.

The programs are mpi4py's and the MPIs are as packaged; only environment variables differ. Runs are
interleaved in rounds and the best of the rounds counts, since machines are shared.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from thole import paths, run, venvs
from thole.mpi import family_names
from thole.perf import size_text, time_text
from thole.trouble import Trouble

WAYS = ("own", "thole")
RUN_SECONDS_MAX = 40.0

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


def benches(size_max: int) -> tuple[Bench, ...]:
    loops = "-l 3000 -s 300 --loop-large 200 --loop-huge 20 --skip-huge 3".split()
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


def run_one(
    environment: venvs.Environment, bench: Bench, way: str, options: list[str]
) -> dict[int, float]:
    """Run one benchmark once. Raises Trouble with the first line of what it complained of."""
    program = (environment.python, "-m", "mpi4py.bench", *bench.words)
    command = environment.command(bench.ranks, *program, pinned=bench.ranks == 2)
    variables = environment.environment()
    if way == "thole":
        # The very variables that `thole run` would set, without starting the tool each time.
        variables.update(run.plan(command, options=options).environment())
    process = subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        out, err = process.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise Trouble(f"did not end within {RUN_SECONDS_MAX:.0f} s") from None
    except BaseException:
        process.terminate()
        process.wait()
        raise
    found = bench.read(out)
    if process.returncode != 0 or not found:
        lines = [line.strip() for line in (err + out).splitlines() if line.strip(" -=*")]
        raise Trouble(f"exit status {process.returncode}: {lines[0] if lines else 'no output'}")
    return found


def measure(
    environments: dict[str, venvs.Environment],
    chosen: Iterable[Bench],
    rounds: int,
    options: list[str],
    step: Callable[[str], None],
    seconds: float,
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
                    step(
                        f"{environment.mpi.label} {'over Thole' if way == 'thole' else 'as shipped'}: {bench.title}"
                    )
                    if (name, way, bench.name) in broken:
                        continue
                    try:
                        found = run_one(environment, bench, way, options)
                    except Trouble as trouble:
                        broken.add((name, way, bench.name))
                        where = "over Thole" if way == "thole" else "as shipped"
                        results.failures.append(
                            f"{environment.mpi.label} {where}, {bench.title}: {trouble}"
                        )
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
    results: Results, environments: dict[str, venvs.Environment], chosen: Iterable[Bench]
) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        title="microseconds one way, best of rounds; x: times faster over Thole",
    )
    table.add_column("", no_wrap=True)
    for environment in environments.values():
        title = f"{environment.mpi.family.title}\n{environment.mpi.version}"
        table.add_column(title, justify="right", no_wrap=True)
        table.add_column("over\nThole", justify="right", no_wrap=True)
        table.add_column("\nx", justify="right", no_wrap=True, style="bold")
    for bench in chosen:
        sizes = results.sizes(bench.name)
        if bench.name == "pingpong":
            sizes = [size for size in sizes if int(math.log2(size)) % 2 == 0 or size == sizes[-1]]
        for size in sizes:
            row = [size_text(size) if bench.name == "pingpong" else bench.title]
            for name in environments:
                row += [_cell(results.best(name, way, bench.name, size)) for way in WAYS]
                row.append(_ratio(results.ratio(name, bench.name, size)))
            table.add_row(*row)
    return table


def summary(results: Results, environments: dict[str, venvs.Environment]) -> list[str]:
    lines = []
    for name, environment in environments.items():
        ratios = [results.ratio(name, "pingpong", size) for size in results.sizes("pingpong")]
        known = [ratio for ratio in ratios if ratio is not None]
        if known:
            mean = statistics.geometric_mean(known)
            ahead = sum(ratio >= 1.0 for ratio in known)
            lines.append(
                f"{environment.mpi.label}: {mean:.2f} times faster over Thole (geometric mean), "
                f"ahead at {ahead} of {len(known)} sizes"
            )
    return lines


def as_json(results: Results, environments: dict[str, venvs.Environment]) -> dict[str, Any]:
    rows = []
    for (name, way, bench, size), samples in sorted(results.samples.items()):
        rows.append(
            {
                "mpi": name,
                "version": environments[name].mpi.version,
                "way": way,
                "bench": bench,
                "size": size,
                "best_us": min(samples),
                "median_us": statistics.median(samples),
                "rounds": len(samples),
            }
        )
    return {"results": rows, "failures": results.failures}


def picture(results: Results, environments: dict[str, venvs.Environment], path: Path) -> None:
    """Latency and bandwidth against message size: solid over Thole, dashed as shipped."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5.2), constrained_layout=True)
    sizes = results.sizes("pingpong")
    for index, (name, environment) in enumerate(environments.items()):
        for way, style in (("own", "--"), ("thole", "-")):
            points = [(size, results.best(name, way, "pingpong", size)) for size in sizes]
            known = [(size, value) for size, value in points if value is not None]
            if not known:
                continue
            label = f"{environment.mpi.label} {'over Thole' if way == 'thole' else 'as shipped'}"
            how = {"color": f"C{index}", "label": label, "marker": ".", "linestyle": style}
            left.plot([size for size, _ in known], [value for _, value in known], **how)
            right.plot(
                [size for size, _ in known], [size / value / 1000 for size, value in known], **how
            )
    left.set(title="latency, one way", yscale="log", xlabel="message", ylabel="us")
    right.set(title="ping-pong bandwidth", xlabel="message", ylabel="GB/s")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_text(size)))
        axes.grid(visible=True, alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    figure.suptitle(
        "mpi4py's ping-pong between two ranks of one machine (lower left and higher right are better)"
    )
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise Trouble(f"{path} cannot be written: {error}", "choose another file") from None
    pyplot.close(figure)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="MPI programs over what their MPI ships with and over Thole",
        description="Run mpi4py's own benchmarks with 2 ranks (and a ring of 4), once over what each MPI "
        "ships with and once over Thole, interleaved, and show both side by side.",
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
        "--rounds", type=int, default=5, help="how often everything is run (default 5)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="begin no round that would end later (default 120)",
    )
    parser.add_argument(
        "--size-max", type=int, default=4 << 20, help="largest message in bytes (default 4194304)"
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="one of Thole's options"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also write a picture")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    tree = paths.build_tree()
    folders = arguments.venvs or ([tree / "venv"] if tree else [])
    environments = venvs.find(folders)
    if arguments.mpi:
        environments = {
            name: found for name, found in environments.items() if name in arguments.mpi
        }
    if not environments:
        raise Trouble(
            "no MPI with mpi4py was found",
            "run `make venvs`, or name a folder of environments with --venvs",
        )
    if arguments.rounds < 1:
        raise Trouble(f"--rounds {arguments.rounds} is not a number of rounds", "use 1 or more")
    paths.find(paths.PROVIDER)
    chosen = benches(arguments.size_max)
    steps = arguments.rounds * len(chosen) * len(environments) * len(WAYS)
    err = Console(stderr=True)
    begin = time.monotonic()
    with Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task("", total=steps, completed=-1)

        def step(text: str) -> None:
            progress.update(task, advance=1, description=text)
            if not err.is_terminal:
                print(f"[{time.monotonic() - begin:5.1f} s] {text}", file=sys.stderr, flush=True)

        results = measure(
            environments, chosen, arguments.rounds, arguments.option, step, arguments.seconds
        )
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table_of(results, environments, chosen), highlight=False)
    for line in summary(results, environments):
        console.print(line, highlight=False)
    for failure in results.failures:
        console.print(f"[red]failed[/] {failure}", highlight=False, soft_wrap=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(results, environments), indent=1) + "\n")
    if arguments.plot:
        picture(results, environments, arguments.plot)
        console.print(f"picture: {arguments.plot}", highlight=False, soft_wrap=True)
    # What an MPI cannot do by itself is worth a line, but no failure of ours.
    return 1 if any(" over Thole, " in failure for failure in results.failures) else 0
