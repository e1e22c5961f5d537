# SPDX-License-Identifier: BSD-3-Clause
"""`thole perf`: latency and bandwidth between two processes, beside what the machine itself can do.

The two are on this host, or on two: one listens, the other names it. Beside them stands the bare cache line, or TCP,
and with --mx the same messages through MX, sample by sample.
thole-perf, a C program, does the timing and prints samples; here they become best and median, a table,
JSON or a picture. Best and median are over rounds: machines are shared, so one number says little.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from thole import bounds, host, native, output, paths
from thole.trouble import Trouble

SIZES = "0,1,8,64,256,512,1k,4k,8k,16k,32k,64k,128k,256k,512k,1m,2m,4m"
TESTS = ("bare", "latency", "bandwidth", "rate")
PORT = 7471  # of a listener, as thole-perf has it
WRONG_ARGUMENTS = 2  # thole-perf's exit status


@dataclass
class Series:
    """The samples of one test at one size, one a round: microseconds, or bytes or messages a second."""

    samples: list[float] = field(default_factory=list)
    more_is_better: bool = False

    @property
    def best(self) -> float:
        return max(self.samples) if self.more_is_better else min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def more_than(self, other: Series) -> float:
        """The median of the rounds' differences: what disturbs a round disturbs both."""
        return statistics.median(a - b for a, b in zip(self.samples, other.samples))

    def times(self, other: Series) -> float:
        """The same as a ratio."""
        return statistics.median(a / b for a, b in zip(self.samples, other.samples))


@dataclass(frozen=True)
class Way:
    """How one side reached the other, as it says at the end. Empty words: not over the network."""

    transport: str
    records: str
    bulk: str
    rtt_ns: int
    frames_sent: int
    retransmitted: int
    frame_max: int

    @property
    def loss(self) -> float | None:
        """Of the frames sent, the part that was sent again; None where there were none."""
        return self.retransmitted / self.frames_sent if self.frames_sent else None


@dataclass
class Measured:
    """Everything that one run of thole-perf said."""

    version: str = ""
    cores: list[int] = field(default_factory=list)
    other: dict[str, str] = field(default_factory=dict)  # the listener's address, name and version
    ways: dict[str, Way] = field(default_factory=dict)  # by side: "here", "there"
    series: dict[tuple[str, int], Series] = field(default_factory=dict)
    mx: dict[tuple[str, int], Series] = field(default_factory=dict)  # through MX, beside those
    messages: dict[int, Series] = field(default_factory=dict)  # of the bandwidth test, a second
    counters: dict[str, int] = field(default_factory=dict)
    ratios: dict[int, list[float]] = field(default_factory=dict)  # latency to the floor beside it
    _beside: float | None = None  # the latest sample of the floor

    def sizes(self, test: str) -> list[int]:
        return [size for name, size in self.series if name == test]

    def of(self, test: str, size: int) -> Series | None:
        return self.series.get((test, size))

    @property
    def floor(self) -> Series | None:
        """Of one host: the bare cache line."""
        return self.series.get(("bare", 8))

    def times_floor(self, size: int) -> float | None:
        """Latency as a multiple of the floor, or of TCP, measured just before it: the median of the rounds."""
        return statistics.median(self.ratios[size]) if size in self.ratios else None

    def take(self, line: dict[str, Any]) -> None:
        kind = line.pop("type")
        if kind == "host":
            self.version, self.cores = line["version"], line["cores"]
            if "address" in line:
                self.other = {
                    "address": line["address"],
                    "name": line["peer_name"],
                    "version": line["peer_version"],
                }
        elif kind == "way":
            side = line.pop("side")
            self.ways[side] = Way(**line)
        elif kind == "counters":
            self.counters = line
        elif kind == "sample":
            self._take_sample(line)

    def _take_sample(self, line: dict[str, Any]) -> None:
        test, size, ns = line["test"], line["size"], max(line["ns"], 1)
        moved = line["iterations"] * line["window"] / (ns / 1e9)  # messages a second
        mx = line.get("api") == "mx"
        series = (self.mx if mx else self.series).setdefault(
            (test, size), Series(more_is_better=test in ("bandwidth", "rate"))
        )
        if test in ("bare", "tcp", "latency"):
            us = ns / line["iterations"] / 2 / 1000
            series.samples.append(us)
            if test != "latency":
                self._beside = us
            elif self._beside and not mx:
                self.ratios.setdefault(size, []).append(us / self._beside)
        elif test == "bandwidth":
            series.samples.append(moved * size)
            if not mx:
                self.messages.setdefault(size, Series(more_is_better=True)).samples.append(moved)
        else:
            series.samples.append(moved)

    def _mx_json(self) -> dict[str, Any]:
        """What MX makes of the same: its own numbers, and how they compare."""
        result: dict[str, Any] = {"latency": [], "bandwidth": []}
        for (test, size), series in self.mx.items():
            own = self.series[test, size]
            if test == "latency":
                row: dict[str, float] = {"size": size, "best_us": series.best}
                row["median_us"] = series.median
                row["more_ns"] = series.more_than(own) * 1000
                row["best_more_ns"] = (series.best - own.best) * 1000
                result[test].append(row)
                continue
            unit = "bytes" if test == "bandwidth" else "messages"
            row = {"size": size, f"best_{unit}_per_s": series.best}
            row[f"median_{unit}_per_s"] = series.median
            row["times_thole"] = series.times(own)
            if test == "rate":
                result[test] = row
            else:
                result[test].append(row)
        return result

    def as_json(self) -> dict[str, Any]:
        floor = self.floor
        result: dict[str, Any] = {
            "version": self.version,
            "cores": self.cores,
            "host": host.describe(),
        }
        if self.other:
            result["other"] = self.other
        if self.ways:
            result["ways"] = {
                side: {**vars(way), "loss": way.loss} for side, way in self.ways.items()
            }
        if floor:
            result["bare"] = {"best_us": floor.best, "median_us": floor.median}
        if self.other:
            result["tcp"] = [
                {"size": size, "best_us": series.best, "median_us": series.median}
                for (test, size), series in self.series.items()
                if test == "tcp"
            ]
        result["latency"] = []
        for size in self.sizes("latency"):
            series = self.series["latency", size]
            row = {"size": size, "best_us": series.best, "median_us": series.median}
            if size in self.ratios:
                row[f"times_{'tcp' if self.other else 'floor'}"] = self.times_floor(size)
            result["latency"].append(row)
        result["bandwidth"] = [
            {
                "size": size,
                "best_bytes_per_s": self.series["bandwidth", size].best,
                "median_bytes_per_s": self.series["bandwidth", size].median,
                "best_messages_per_s": self.messages[size].best,
            }
            for size in self.sizes("bandwidth")
        ]
        for size in self.sizes("rate"):
            series = self.series["rate", size]
            result["rate"] = {
                "size": size,
                "best_messages_per_s": series.best,
                "median_messages_per_s": series.median,
            }
        if self.mx:
            result["mx"] = self._mx_json()
        result["counters"] = self.counters
        return result


def measure(
    words: list[str], each: Callable[[dict[str, Any]], None] = lambda line: None
) -> Measured:
    """Run thole-perf with these arguments; each() sees every line as it comes."""
    program = paths.find(paths.PERF)
    result = Measured()
    process = subprocess.Popen(
        [str(program), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        for text in process.stdout:
            line = json.loads(text)
            each(line)
            result.take(dict(line))
        # Only now: thole-perf writes a line or two to stderr, which never fills the pipe.
        complaint = process.stderr.read().strip()
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if process.returncode != 0:
        first = (
            complaint.splitlines()[0].removeprefix("thole-perf: ")
            if complaint
            else f"exit {process.returncode}"
        )
        if process.returncode == WRONG_ARGUMENTS or "--host" in words:
            raise Trouble(first)  # it says what to do about it
        raise Trouble(
            f"thole-perf failed: {first}", "see `thole info` for what this machine permits"
        )
    return result


def size_parse(text: str) -> int:
    digits, unit = text.strip().lower().removesuffix("ib"), 1
    if digits and digits[-1] in "kmg":
        unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[digits[-1]]
        digits = digits[:-1]
    if not digits.isdigit():
        raise Trouble(
            f"--sizes: {text!r} is not a size", "write bytes, or with k, m or g: 8, 64k, 1m"
        )
    return int(digits) * unit


def size_text(size: float) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size:.0f} B"


def time_text(us: float) -> str:
    return f"{us:.3f}" if us < 10 else f"{us:.2f}" if us < 100 else f"{us:.1f}"


def _core_words(chosen: str | None) -> list[str]:
    if chosen is not None:
        return ["--cores", chosen]
    first, second = host.pair(host.cores())
    return ["--cores", f"{first},{second}"]


def _tests(arguments: argparse.Namespace) -> list[str]:
    chosen = [test for test in ("latency", "bandwidth", "rate") if getattr(arguments, test)]
    if arguments.bare:
        return ["bare"]
    return ["bare", *chosen] if chosen else list(TESTS)


def table_of(measured: Measured) -> Table:
    floor = measured.floor
    table = Table(box=None, pad_edge=False)
    table.add_column("size", justify="right", no_wrap=True)
    latency = measured.sizes("latency")
    bandwidth = measured.sizes("bandwidth")
    tcp = measured.sizes("tcp")
    mx = bool(measured.mx)
    if latency:
        for title in ("latency, us", "median"):
            table.add_column(title, justify="right", no_wrap=True)
        for title in ("MX, us", "median", "MX more, ns") if mx else ():
            table.add_column(title, justify="right", no_wrap=True)
        if floor:
            table.add_column("x floor", justify="right", no_wrap=True)
    if tcp:
        table.add_column("TCP, us", justify="right", no_wrap=True)
        if latency:
            table.add_column("x TCP", justify="right", no_wrap=True)
    if bandwidth:
        for title in ("bandwidth, GB/s", "median", "messages/s"):
            table.add_column(title, justify="right", no_wrap=True)
        if mx:
            table.add_column("MX, GB/s", justify="right", no_wrap=True)
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


def picture(measured: Measured, path: Path) -> None:
    """Latency and bandwidth against size. The suffix of the path says which kind of picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), constrained_layout=True)
    sizes = [size for size in measured.sizes("latency") if size > 0]
    if sizes:
        left.plot(
            sizes, [measured.series["latency", size].best for size in sizes], "o-", label="best"
        )
        left.plot(
            sizes,
            [measured.series["latency", size].median for size in sizes],
            ".--",
            label="median",
        )
    if measured.floor:
        left.axhline(measured.floor.best, color="grey", linestyle=":", label="bare cache line")
    sizes = [size for size in measured.sizes("tcp") if size > 0]
    if sizes:
        values = [measured.series["tcp", size].best for size in sizes]
        left.plot(sizes, values, "x:", color="grey", label="TCP, best")
    left.set(yscale="log", title="latency, one way", xlabel="message", ylabel="us")
    sizes = measured.sizes("bandwidth")
    if sizes:
        right.plot(
            sizes,
            [measured.series["bandwidth", size].best / 1e9 for size in sizes],
            "o-",
            label="best",
        )
        right.plot(
            sizes,
            [measured.series["bandwidth", size].median / 1e9 for size in sizes],
            ".--",
            label="median",
        )
    right.set(title="bandwidth, a window of sends", xlabel="message", ylabel="GB/s")
    for axes, wanted, scale in ((left, "latency", 1.0), (right, "bandwidth", 1e9)):
        sizes = [size for test, size in measured.mx if test == wanted and size > 0]
        values = [measured.mx[wanted, size].best / scale for size in sizes]
        if sizes:
            axes.plot(sizes, values, "^-", label="MX, best")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_text(size)))
        axes.grid(visible=True, alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    output.write_picture(path, figure)
    pyplot.close(figure)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "perf",
        help="latency and bandwidth between two processes, without MPI",
        description="Measure latency, bandwidth and message rate between two pinned processes. On one host, beside "
        "them, the bare cache-line ping-pong, below which nothing can go on this machine. Between two hosts, with "
        "--listen on one and --host on the other, a ping-pong over TCP instead.",
        epilog="example, between hosts a and b: on b: thole perf --listen; on a: thole perf --host b",
    )
    add_listener(parser)
    parser.add_argument(
        "--host", metavar="HOST", help="measure with the listener on this host, by name or address"
    )
    parser.add_argument(
        "--sizes", default=SIZES, help="message sizes, separated by commas, with k, m or g"
    )
    parser.add_argument(
        "--latency", action="store_true", help="only latency; may be combined with the next two"
    )
    parser.add_argument(
        "--bandwidth", action="store_true", help="a window of sends under way at once"
    )
    parser.add_argument("--rate", action="store_true", help="messages a second at 8 bytes")
    parser.add_argument(
        "--bare", action="store_true", help="only the bare cache-line (or TCP) ping-pong"
    )
    parser.add_argument(
        "--rounds",
        type=bounds.whole("--rounds", 1, bounds.ROUNDS_MAX),
        default=5,
        help="go through everything so many times (default 5)",
    )
    parser.add_argument(
        "--iterations", help="of one sample (default: as many as take --sample-ms)"
    )
    parser.add_argument(
        "--sample-ms", default="20", help="how long one sample takes (default 20)"
    )
    parser.add_argument(
        "--window", help="sends under way at once in the bandwidth test (default 64)"
    )
    parser.add_argument(
        "--cores", metavar="A,B", help="where the two processes run (default: chosen)"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the buffer before each send of the latency test"
    )
    parser.add_argument(
        "--mx",
        action="store_true",
        help="send the same messages through MX too (mx_isend, mx_irecv, mx_test), by turns with Thole's own calls",
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="one of Thole's options"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="write a picture (.png, .svg, .pdf)"
    )
    parser.set_defaults(function=main)


def add_listener(parser: argparse.ArgumentParser) -> None:
    """The arguments of a listener, which `thole perf` and `thole peers` share."""
    parser.add_argument(
        "--listen",
        action="store_true",
        help="wait for clients on other hosts, until interrupted. Anybody who can reach the port may measure: "
        "let only hosts that you trust reach it",
    )
    parser.add_argument(
        "--port",
        type=bounds.whole("--port", 0, bounds.PORT_MAX),
        default=PORT,
        help=f"TCP port of the listener (default {PORT}; 0, listening: any that is free)",
    )
    parser.add_argument("--bind", metavar="ADDRESS", help="listen at this address only")
    parser.add_argument(
        "--once", action="store_true", help="listen for one client, and end as it did"
    )


def listen(arguments: argparse.Namespace) -> int:
    """Become a listener; returns when it ends."""
    words = ["--listen", "--port", str(arguments.port), *option_words(arguments)]
    words += _core_words(getattr(arguments, "cores", None))
    words += ["--bind", arguments.bind] if arguments.bind else []
    words += ["--once"] if arguments.once else []
    with contextlib.suppress(Trouble):  # clients that want MX are told that it is missing
        words += ["--mx-library", str(paths.find(paths.MX))]
    process = subprocess.Popen(
        [str(paths.find(paths.PERF)), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        for text in process.stdout:
            if text.startswith("{"):
                print(_said(json.loads(text)), flush=True)
            else:
                text = text.removeprefix("thole-perf: ").rstrip()
                print(f"thole: {text}", file=sys.stderr, flush=True)
        return 2 if process.wait() else 0
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _said(line: dict[str, Any]) -> str:
    if line["type"] == "listening":
        return f"Thole {line['version']} listens on TCP port {line['port']}; interrupt to end"
    if line["type"] == "session":
        return f"{line['from']}: begins"
    return f"{line['from']}: " + ("done" if line["status"] == 0 else "failed")


def option_words(arguments: argparse.Namespace) -> list[str]:
    pairs = native.check_options(arguments.option)
    return [word for name, value in pairs for word in ("--option", f"{name}={value}")]


def words_of(arguments: argparse.Namespace) -> list[str]:
    for text in arguments.sizes.split(","):
        size_parse(text)
    words = ["--sizes", arguments.sizes, "--tests", ",".join(_tests(arguments))]
    words += ["--rounds", str(arguments.rounds), "--sample-ms", arguments.sample_ms]
    words += _core_words(arguments.cores)
    for name in ("iterations", "window"):
        if getattr(arguments, name) is not None:
            words += [f"--{name}", getattr(arguments, name)]
    if arguments.write:
        words.append("--write")
    if arguments.mx:
        words += ["--apis", "thole,mx", "--mx-library", str(paths.find(paths.MX))]
    words += option_words(arguments)
    if arguments.host is not None:
        words += ["--host", arguments.host, "--port", str(arguments.port)]
    return words


def steps_of(arguments: argparse.Namespace) -> int:
    """How many samples there will be."""
    tests = _tests(arguments)
    sizes = [size_parse(text) for text in arguments.sizes.split(",")]
    each = ("rate" in tests) + len(sizes) * ("latency" in tests)
    each += sum(size > 0 for size in sizes) * ("bandwidth" in tests)
    each *= 2 if arguments.mx else 1
    return (each + len(sizes) * ("bare" in tests)) * arguments.rounds


def main(arguments: argparse.Namespace) -> int:
    if arguments.listen:
        if arguments.host is not None:
            raise Trouble("--listen and --host exclude each other", "listen on the other host")
        return listen(arguments)
    words = words_of(arguments)
    if arguments.plot:
        output.check_picture(arguments.plot)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=output.progress_console(),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task("measuring", total=steps_of(arguments))

        def each(line: dict[str, Any]) -> None:
            if line["type"] == "sample":
                progress.update(
                    task, advance=1, description=f"{line['test']} {size_text(line['size'])}"
                )

        measured = measure(words, each)
    if arguments.json:
        print(json.dumps(measured.as_json(), indent=2))
    else:
        show(measured, output.console(120))
    if arguments.plot:
        picture(measured, arguments.plot)
        print(f"wrote {arguments.plot}", file=sys.stderr)
    return 0
