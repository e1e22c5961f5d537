# SPDX-License-Identifier: BSD-3-Clause
"""What thole-perf measured, as a table, lines and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from thole.base import output, pictures
from thole.base.text import size_text, time_text
from thole.perf.results import Measured

TIMED = ("latency", "bandwidth")


def table_of(measured: Measured) -> Table:
    floor = measured.floor
    latency = measured.sizes("latency")
    bandwidth = measured.sizes("bandwidth")
    tcp = measured.sizes("tcp")
    mx = bool(measured.mx)
    titles = ["size"]
    if latency:
        titles += ["latency, us", "median"]
        titles += ["MX, us", "median", "MX more, ns"] if mx else []
        titles += ["x floor"] if floor else []
    if tcp:
        titles += ["TCP, us", "x TCP"] if latency else ["TCP, us"]
    if bandwidth:
        titles += ["bandwidth, GB/s", "median", "messages/s"]
        titles += ["MX, GB/s"] if mx else []
    table = output.table(*titles, right=titles)
    for size in sorted({*latency, *bandwidth, *tcp}):
        row = [size_text(size)]
        series = measured.of("latency", size)
        if latency:
            row += [time_text(series.best), time_text(series.median)] if series else ["", ""]
            if mx:
                row += _mx_latency_words(measured, size)
            ratio = measured.times_floor(size)
            if floor:
                row.append(f"{ratio:.1f}" if ratio else "")
        if tcp:
            series = measured.of("tcp", size)
            row.append(time_text(series.best) if series else "")
            if latency:
                row.append(f"{ratio:.2f}" if ratio else "")
        series = measured.of("bandwidth", size)
        if bandwidth:
            row += (
                [f"{series.best / 1e9:.3f}", f"{series.median / 1e9:.3f}"] if series else ["", ""]
            )
            row.append(f"{measured.messages[size].best:,.0f}" if series else "")
            if mx:
                row.append(f"{measured.mx['bandwidth', size].best / 1e9:.3f}" if series else "")
        table.add_row(*row)
    return table


def _mx_latency_words(measured: Measured, size: int) -> list[str]:
    series, own = measured.mx.get(("latency", size)), measured.of("latency", size)
    if not series or not own:
        return ["", "", ""]
    return [
        time_text(series.best),
        time_text(series.median),
        f"{series.more_than(own) * 1000:+.0f}",
    ]


def way_lines(measured: Measured) -> list[str]:
    """Between hosts: how each side reached the other, and what was lost."""
    lines = []
    for side, way in measured.ways.items():
        text = f"{side}: small messages by {way.records or '-'}, large ones by {way.bulk or '-'}"
        if way.transport != "shm":
            text += f"; frames of {way.frame_max} B, round trip {time_text(way.rtt_ns / 1000)} us"
            text += f", {way.retransmitted} of {way.frames_sent} frames sent again"
        lines.append(text)
    if any(way.transport == "shm" for way in measured.ways.values()):
        lines.append(
            "both are processes of one host, so this is shared memory; for the network: --option shm=off"
        )
    return lines


def show(measured: Measured, console: Console) -> None:
    if measured.other:
        name, address = measured.other["name"], measured.other["address"]
        console.print(
            f"Thole {measured.version}, this host and {name} ({address}); best and median of rounds",
            highlight=False,
        )
    else:
        cores = " and ".join(map(str, measured.cores))
        console.print(
            f"Thole {measured.version}, two processes on cores {cores}; best and median of rounds"
        )
    for line in way_lines(measured):
        console.print(line, highlight=False, soft_wrap=True)
    floor = measured.floor
    if floor:
        console.print(
            f"floor (bare cache-line ping-pong, one way): {time_text(floor.best)} us, "
            f"median {time_text(floor.median)}",
            highlight=False,
        )
    if any(measured.sizes(test) for test in ("latency", "bandwidth", "tcp")):
        console.print(table_of(measured))
    for size in measured.sizes("rate"):
        series = measured.series["rate", size]
        console.print(
            f"message rate at {size} B: {series.best / 1e6:.2f} million/s, median {series.median / 1e6:.2f}",
            highlight=False,
        )
        if ("rate", size) in measured.mx:
            through = measured.mx["rate", size]
            console.print(
                f"through MX: {through.best / 1e6:.2f} million/s, median {through.median / 1e6:.2f}, "
                f"{through.times(series):.2f} times as many",
                highlight=False,
            )
    if measured.mx:
        console.print(
            "MX and thole.h by turns; how they compare is the median of the rounds", highlight=False
        )


def show_networks(found: dict[str, Measured], console: Console) -> None:
    """One table: a row for each size and network, and which way messages really went."""
    first = next(iter(found.values()))
    console.print(
        f"Thole {first.version}, this host and {first.other['name']} ({first.other['address']}); best and median of "
        "rounds, the networks by turns",
        highlight=False,
    )
    for name, measured in found.items():
        for line in way_lines(measured):
            console.print(f"{name}, {line}", highlight=False, soft_wrap=True)
    table = output.table("size", "network", "latency, us", "median", "bandwidth, GB/s", "median")
    for size in sorted({size for one in found.values() for test in TIMED for size in one.sizes(test)}):
        for name, measured in found.items():
            row = [size_text(size), name]
            series = measured.of("latency", size)
            row += [time_text(series.best), time_text(series.median)] if series else ["", ""]
            series = measured.of("bandwidth", size)
            row += [f"{series.best / 1e9:.3f}", f"{series.median / 1e9:.3f}"] if series else ["", ""]
            table.add_row(*row)
    console.print(table)
    for name, measured in found.items():
        for size in measured.sizes("rate"):
            rate = measured.series["rate", size]
            console.print(
                f"{name}: message rate at {size} B: {rate.best / 1e6:.2f} million/s, median {rate.median / 1e6:.2f}",
                highlight=False,
            )


def picture(measured: Measured, path: Path) -> None:
    """Latency and bandwidth against size. The suffix of the path says which kind of picture."""
    figure, axes = pictures.grid(1, (11, 4.5))
    left, right = axes[0]

    def draw(axes: Any, test: str, scale: float, styles: dict[str, str]) -> None:
        sizes = [size for size in measured.sizes(test) if size > 0]
        for what, style in styles.items() if sizes else ():
            values = [getattr(measured.series[test, size], what) / scale for size in sizes]
            axes.plot(sizes, values, style, label=what)

    draw(left, "latency", 1.0, {"best": "o-", "median": ".--"})
    if measured.floor:
        left.axhline(measured.floor.best, color="grey", linestyle=":", label="bare cache line")
    sizes = [size for size in measured.sizes("tcp") if size > 0]
    if sizes:
        values = [measured.series["tcp", size].best for size in sizes]
        left.plot(sizes, values, "x:", color="grey", label="TCP, best")
    left.set(yscale="log", title="latency, one way", xlabel="message", ylabel="us")
    draw(right, "bandwidth", 1e9, {"best": "o-", "median": ".--"})
    right.set(title="bandwidth, a window of sends", xlabel="message", ylabel="GB/s")
    for one, test, scale in ((left, "latency", 1.0), (right, "bandwidth", 1e9)):
        sizes = [size for name, size in measured.mx if name == test and size > 0]
        values = [measured.mx[test, size].best / scale for size in sizes]
        if sizes:
            one.plot(sizes, values, "^-", label="MX, best")
    pictures.write(path, figure, axes)
