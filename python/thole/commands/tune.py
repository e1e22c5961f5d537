# SPDX-License-Identifier: BSD-3-Clause
"""`thole tune`: find the protocol options that are fastest on this machine and keep them.

With a host it measures what there is to that host, adapters for remote DMA beside UDP, and keeps whether adapters are
used. What the verbs transport learns at run time (rates of copies and of the wire, the trip, chunks, what registering
costs) needs no file; it is only said how this machine stands: copies, registering, and the gap, the time from one small
message to the next where many are under way (LogP's g).

Without: one knob after the other, each candidate measured by thole-perf in interleaved rounds at the sizes that
the knob matters for. A value replaces the default only where it is clearly faster, so that noise does
not tune. What is kept is a block in the user's options file; the rest of that file stays as it is.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thole.base import bounds, host, native, output, paths
from thole.base.blocks import Block, replace
from thole.base.text import option_words, size_text
from thole.base.trouble import Trouble
from thole.commands.arguments import add_option
from thole.perf import machine
from thole.perf.program import core_words, measure, measure_networks
from thole.perf.results import NETWORKS, PORT, Measured

OURS = Block("# >>> written by thole tune; thole tune --reset takes it out", "# <<< thole tune")
HOSTS = Block("# >>> written by thole tune HOST; thole tune --reset takes it out", "# <<< thole tune HOST")
HOST_SIZES = "8,4k,64k,1m"
GAIN_MIN = 1.04  # a value must be so many times faster than the default to replace it


@dataclass(frozen=True)
class Knob:
    """An option, the values to try, and the message sizes that it matters for."""

    name: str
    values: tuple[str, ...]
    sizes: str


KNOBS = (
    Knob("bulk", ("auto", "cooperative", "one-copy", "ring"), "128k,512k,2m"),
    Knob("eager_max", ("8k", "16k", "32k", "64k", "128k"), "8k,16k,32k,64k,128k"),
    Knob("cooperative_block", ("128k", "256k", "512k", "1m"), "512k,1m,4m"),
    Knob("bulk_piece", ("4k", "8k", "16k", "32k", "64k"), "64k,256k,2m"),
    Knob("bulk_ring", ("256k", "512k", "1m", "2m"), "256k,2m"),
)


@dataclass
class Outcome:
    """What trying a knob's values said: times faster than the default, by value."""

    knob: Knob
    default: str
    speeds: dict[str, float]
    chosen: str
    skipped: str = ""

    @property
    def gain(self) -> float:
        return self.speeds.get(self.chosen, 1.0)


def judge(runs: list[Measured]) -> dict[tuple[str, int], float]:
    """Of several runs the best latency (us) and the best time a byte of the windowed test, by size."""
    costs: dict[tuple[str, int], float] = {}
    for run in runs:
        for (test, size), series in run.series.items():
            cost = series.best if test == "latency" else 1e9 / series.best
            key = (test, size)
            costs[key] = min(cost, costs.get(key, cost))
    return costs


def speed(costs: dict[tuple[str, int], float], base: dict[tuple[str, int], float]) -> float:
    """How many times faster than the base, over all tests and sizes alike."""
    return statistics.geometric_mean([base[key] / costs[key] for key in base])


def try_knob(
    knob: Knob,
    default: str,
    fixed: dict[str, str],
    rounds: int,
    sample_ms: int,
    step: Callable[[str], None],
) -> Outcome:
    first, second = host.pair(host.cores())
    words = ["--tests", "latency,bandwidth", "--sizes", knob.sizes, "--rounds", "1", "--write"]
    words += ["--sample-ms", str(sample_ms), "--cores", f"{first},{second}"]

    def compared(values: list[str]) -> dict[str, float]:
        """How many times faster than the default each value is, all measured by turns."""
        runs: dict[str, list[Measured]] = {value: [] for value in values}
        for _ in range(rounds):
            for value in values:
                step(f"{knob.name}={value}")
                options = {**fixed, knob.name: value}
                runs[value].append(measure([*words, *option_words(options)]))
        base = judge(runs[default])
        return {value: speed(judge(runs[value]), base) for value in values}

    speeds = compared(list(dict.fromkeys((default, *knob.values))))
    best = max(speeds, key=lambda value: speeds[value])
    if best != default and speeds[best] >= GAIN_MIN:
        # The winner of many may be the luckiest: it has to win again, against the default alone.
        speeds[best] = min(speeds[best], compared([default, best])[best])
    return Outcome(knob, default, speeds, best if speeds[best] >= GAIN_MIN else default)


def tune(rounds: int, sample_ms: int, step: Callable[[str], None]) -> list[Outcome]:
    known = {option.name: option for option in native.options()}
    ours = str(paths.options_file())
    tuned_before = tuned_names(_read(paths.options_file()))
    outcomes: list[Outcome] = []
    fixed = {knob.name: known[knob.name].default for knob in KNOBS if knob.name in known}
    for knob in KNOBS:
        if knob.name not in known:
            continue
        option = known[knob.name]
        by_tune = knob.name in tuned_before and option.origin in ("file", ours)
        if option.origin != "default" and not by_tune:
            # Set by the user, who knows better.
            fixed[knob.name] = option.value
            outcomes.append(
                Outcome(knob, option.default, {}, option.value, f"set by {option.origin}")
            )
            continue
        outcome = try_knob(knob, option.default, fixed, rounds, sample_ms, step)
        fixed[knob.name] = outcome.chosen
        outcomes.append(outcome)
    return outcomes


# ---- The options file ------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Trouble(f"{path} cannot be read: {error.strerror}", "it has to be a file that you may read") from None


def tuned_names(content: bytes) -> set[str]:
    """The options that stand in our block of the file."""
    return set(re.findall(r"^(\w+)\s*=", OURS.within(content), flags=re.MULTILINE))


def lines_of(outcomes: list[Outcome]) -> list[str]:
    when, where = time.strftime("%Y-%m-%d"), platform.node()
    lines = [f"# {when} on {where}: {host.processor()}, Linux {platform.release()}"]
    for outcome in outcomes:
        if outcome.skipped:
            lines.append(f"# {outcome.knob.name}: {outcome.skipped}")
            continue
        tried = ", ".join(f"{value} {gain:.2f}" for value, gain in outcome.speeds.items())
        lines.append(
            f"# {outcome.knob.name}, times as fast as {outcome.default} at {outcome.knob.sizes}: {tried}"
        )
        if outcome.chosen != outcome.default:
            lines.append(f"{outcome.knob.name} = {outcome.chosen}")
    return lines


def write(path: Path, content: bytes) -> None:
    """Replace the file as a whole, or remove it where nothing is left."""
    if not content:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, content, 0o644)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tune",
        help="find the fastest protocol options of this machine",
        description=f"Measure protocol choices and keep the faster ones in {paths.options_file()}. "
        "Options that you set yourself stay.",
    )
    parser.add_argument(
        "host",
        nargs="?",
        metavar="HOST",
        help="measure to this host instead, where `thole perf --listen` runs, and keep whether adapters for remote DMA "
        "are used",
    )
    parser.add_argument(
        "--port",
        type=bounds.whole("--port", 1, bounds.PORT_MAX),
        default=PORT,
        help=f"of the listener on HOST (default {PORT})",
    )
    add_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="measure and show, write nothing")
    parser.add_argument("--reset", action="store_true", help="take out what tune wrote")
    parser.add_argument(
        "--rounds",
        type=bounds.whole("--rounds", 1, bounds.ROUNDS_MAX),
        default=3,
        help="how often each value is measured (default 3)",
    )
    parser.add_argument(
        "--sample-ms",
        type=bounds.whole("--sample-ms", 1, bounds.SAMPLE_MS_MAX),
        default=10,
        help="how long one sample takes (default 10)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    path = paths.options_file()
    before = _read(path)
    if arguments.reset:
        rest = HOSTS.taken_from(OURS.taken_from(before))
        if rest == before:
            print(f"{path} has nothing that tune wrote")
        elif arguments.dry_run:
            print(f"would take the block of tune out of {path}")
        else:
            write(path, rest)
            print(f"{path}: took out what tune wrote")
        return 0
    if not arguments.dry_run and not output.writable(path):
        raise Trouble(f"{path} cannot be written", "run it as who may, or with --dry-run")
    if arguments.host is not None:
        return tune_host(arguments, path, before)
    total = arguments.rounds * sum(len(knob.values) for knob in KNOBS)
    with output.progress(total) as step:
        outcomes = tune(arguments.rounds, arguments.sample_ms, step)
    show(outcomes, arguments.json)
    keep(arguments, path, before, OURS, lines_of(outcomes))
    return 0


def keep(arguments: argparse.Namespace, path: Path, before: bytes, block: Block, lines: list[str]) -> None:
    """Write a block of the options file, or say what it would be."""
    if arguments.dry_run:
        print(f"would write to {path}:\n{block.of(lines)}" if not arguments.json else "", end="")
    else:
        write(path, block.put_in(before, lines))
        print(f"wrote {path}", file=sys.stderr)


# ---- To a host -------------------------------------------------------------------------------------


@dataclass
class HostOutcome:
    """What networks to a host did, and whether adapters are to be used. default: as it is without the file."""

    found: dict[str, Measured]
    rates: dict[int, float]
    default: str
    chosen: str
    why: str
    by_user: bool = False  # the option is set already: it stays, and nothing is kept of it
    registering: dict[str, dict[int, int]] = field(default_factory=dict)  # ns, by adapter's port and length

    def latency_us(self, name: str) -> float:
        return self.found[name].series["latency", 8].best

    def gap_us(self, name: str) -> float:
        return 8e6 / self.found[name].series["bandwidth", 8].best

    def bytes_per_s(self, name: str) -> float:
        return max(series.best for (test, _), series in self.found[name].series.items() if test == "bandwidth")


def judge_host(found: dict[str, Measured], default: str) -> tuple[str, str]:
    """The value of the option verbs, and why."""
    ways = found["verbs"].ways.values() if "verbs" in found else ()
    if not any("verbs" in (way.records, way.bulk) for way in ways):
        return default, "no adapter carried anything: there is none on both hosts, or they do not reach each other"
    gain = speed(judge([found["verbs"]]), judge([found["udp"]]))
    if gain >= GAIN_MIN:
        return "auto", f"adapters are {gain:.2f} times as fast as UDP"
    if gain <= 1 / GAIN_MIN:
        return "off", f"UDP is {1 / gain:.2f} times as fast as adapters"
    return default, "adapters and UDP are equally fast"


def without_verbs(words: list[str]) -> str:
    """Why adapters cannot be measured; empty: they can."""
    try:
        measure([*words, "--rounds", "1", "--iterations", "1", "--network", "verbs"])
    except Trouble as trouble:
        return f"no adapter carried anything: {trouble}"
    return ""


def registering_lines(outcome: HostOutcome) -> list[str]:
    return [
        f"registering with {name}, us by length: "
        + ", ".join(f"{size_text(length)} {ns / 1e3:.1f}" for length, ns in row.items())
        for name, row in outcome.registering.items()
        if row
    ]


def host_lines(outcome: HostOutcome, host_name: str) -> list[str]:
    lines = [f"# {time.strftime('%Y-%m-%d')} on {platform.node()} to {host_name}: {outcome.why}"]
    for name in outcome.found:
        speed = f"{outcome.bytes_per_s(name) / 1e9:.2f} GB/s"
        lines.append(f"# {name}: {outcome.latency_us(name):.2f} us, gap {outcome.gap_us(name):.2f} us, {speed}")
    lines += [f"# {line}" for line in registering_lines(outcome)]
    if outcome.chosen != outcome.default and not outcome.by_user:
        lines.append(f"verbs = {outcome.chosen}")
    return lines


def tune_host(arguments: argparse.Namespace, path: Path, before: bytes) -> int:
    words = ["--host", arguments.host, "--port", str(arguments.port), "--tests", "latency,bandwidth"]
    words += ["--sizes", HOST_SIZES, "--sample-ms", str(arguments.sample_ms), *core_words(None)]
    words += option_words(dict(native.check_options(arguments.option)))
    missing = without_verbs(words)
    networks = [name for name in NETWORKS if name != "verbs" or not missing]
    steps = arguments.rounds * len(networks) * 2 * len(HOST_SIZES.split(","))
    with output.progress(steps) as step:

        def each(line: dict[str, Any]) -> None:
            if line["type"] == "sample":
                step(f"{line['test']} {size_text(line['size'])}")

        found = measure_networks(words, networks, arguments.rounds, each)
    option = next(option for option in native.options() if option.name == "verbs")
    chosen, why = judge_host(found, option.default)
    outcome = HostOutcome(
        found, machine.copy_rates(), option.default, chosen, missing or why, registering=machine.registering()
    )
    by_tune = "verbs" in re.findall(r"^(\w+)\s*=", HOSTS.within(before), flags=re.MULTILINE)
    if option.origin != "default" and not by_tune:
        outcome.chosen, outcome.why, outcome.by_user = option.value, f"set by {option.origin}", True
    show_host(outcome, arguments.json)
    keep(arguments, path, before, HOSTS, host_lines(outcome, arguments.host))
    return 0


LEARNT = (
    "learnt at run time, and kept nowhere: how long the first chunk of a large message is, how chunks grow and their "
    "cap (by the rates of copies and of the wire, and the trip), what registering memory costs, and which way large "
    "messages go"
)


def show_host(outcome: HostOutcome, as_json: bool) -> None:
    if as_json:
        print(json.dumps({
            "networks": {
                name: {
                    "latency_us": outcome.latency_us(name),
                    "gap_us": outcome.gap_us(name),
                    "bytes_per_s": outcome.bytes_per_s(name),
                }
                for name in outcome.found
            },
            "registering_ns": {
                name: {str(length): ns for length, ns in row.items()} for name, row in outcome.registering.items()
            },
            "copy_bytes_per_s": {str(length): rate for length, rate in outcome.rates.items()},
            "option": "verbs",
            "default": outcome.default,
            "chosen": outcome.chosen,
            "why": outcome.why,
        }, indent=2))  # fmt: skip
        return
    table = output.table("to the host by", "latency, us", "gap, us", "GB/s")
    for name in outcome.found:
        numbers = (outcome.latency_us(name), outcome.gap_us(name), outcome.bytes_per_s(name) / 1e9)
        table.add_row(name, *(f"{number:.2f}" for number in numbers))
    console = output.console(120)
    console.print(table, highlight=False)
    copies = ", ".join(f"{size_text(length)} {rate / 1e9:.1f}" for length, rate in outcome.rates.items())
    console.print(f"copies here, GB/s by length: {copies}", highlight=False)
    for line in registering_lines(outcome):
        console.print(line, highlight=False)
    console.print(f"verbs = {outcome.chosen}: {outcome.why}", highlight=False)
    console.print(LEARNT, highlight=False)


def show(outcomes: list[Outcome], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "option": outcome.knob.name,
                "default": outcome.default,
                "chosen": outcome.chosen,
                "speeds": outcome.speeds,
                "skipped": outcome.skipped,
            }
            for outcome in outcomes
        ]
        print(json.dumps(rows, indent=2))
        return
    table = output.table("option", "default", "chosen", "gain", "tried (times as fast as the default)")
    for outcome in outcomes:
        tried = outcome.skipped or ", ".join(
            f"{value} {gain:.2f}" for value, gain in outcome.speeds.items()
        )
        table.add_row(
            outcome.knob.name, outcome.default, outcome.chosen, f"{outcome.gain:.2f}", tried
        )
    output.console(140).print(table, highlight=False)
