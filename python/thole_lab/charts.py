# SPDX-License-Identifier: BSD-3-Clause
"""What mpi4py's benchmarks said, side by side: as tables, in a sentence, as JSON and as a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table
from thole.base import output, pictures
from thole.base.text import size_text, time_text

from thole_lab.benches import PINGPONGS, WAYS, Bench, Results
from thole_lab.venvs import Environment


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
    table.title = f"{where}: microseconds one way, best of rounds; x: times as fast over Thole"
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


def _speed(ratio: float, other: str) -> str:
    """How fast it is over Thole, for a reader: never a number below 1 that is called faster."""
    times = f"{max(ratio, 1 / ratio):.2f}"
    if times == "1.00":
        return "as fast over Thole" + (f" as {other}" if other else "")
    word = "faster" if ratio > 1 else "slower"
    return f"{times} times {word} over Thole" + (f" than {other}" if other else "")


def summary(
    results: Results, environments: dict[str, Environment], place: str
) -> list[str]:
    lines = []
    bench = PINGPONGS[place]
    other = "" if place == "node" else "over its TCP"
    for name, environment in environments.items():
        ratios = [results.ratio(name, bench, size) for size in results.sizes(bench)]
        known = [ratio for ratio in ratios if ratio is not None]
        if known:
            mean = statistics.geometric_mean(known)
            ahead = sum(ratio >= 1.0 for ratio in known)
            lines.append(
                f"{environment.mpi.label}: {_speed(mean, other)} (geometric mean), "
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
    figure, axes = pictures.grid(len(where), (13, 5.2 * len(where)))
    for (place, name), (left, right) in zip(where.items(), axes):
        _draw(results, environments, place, left, right)
        left.set(title=f"{name}: latency, one way", yscale="log", xlabel="message", ylabel="us")
        right.set(title=f"{name}: ping-pong bandwidth", xlabel="message", ylabel="GB/s")
    figure.suptitle(
        "mpi4py's ping-pong between two ranks (lower left and higher right are better)"
    )
    pictures.write(path, figure, axes, legend="small")
