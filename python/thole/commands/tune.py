# SPDX-License-Identifier: BSD-3-Clause
"""`thole tune`: find the protocol options that are fastest on this machine and keep them.

One knob after the other, each candidate measured by thole-perf in interleaved rounds at the sizes that
the knob matters for. A value replaces the default only where it is clearly faster, so that noise does
not tune. With a host it is tune_host.py that measures; tuned.py keeps what is found.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from thole.base import bounds, host, native, output, paths
from thole.base.text import option_words
from thole.base.trouble import Trouble
from thole.commands.arguments import add_option
from thole.commands.tune_host import tune_host
from thole.commands.tuned import GAIN_MIN, HOSTS, OURS, judge, keep, names_in, read, speed, write
from thole.perf.program import measure
from thole.perf.results import PORT, Measured


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
    sure = {default}
    while (best := max(speeds, key=lambda value: speeds[value])) not in sure and speeds[best] >= GAIN_MIN:
        # The winner of many may be the luckiest: it has to win again, against the default alone.
        speeds[best] = min(speeds[best], compared([default, best])[best])
        sure.add(best)
    return Outcome(knob, default, speeds, best if speeds[best] >= GAIN_MIN else default)


def tune(
    rounds: int, sample_ms: int, given: dict[str, str], step: Callable[[str], None]
) -> list[Outcome]:
    """given: options that all is measured with."""
    known = {option.name: option for option in native.options()}
    ours = _file()
    tuned_before = names_in(OURS, read(ours))
    outcomes: list[Outcome] = []
    fixed = {knob.name: known[knob.name].default for knob in KNOBS if knob.name in known} | given
    for knob in KNOBS:
        if knob.name not in known:
            continue
        option = known[knob.name]
        if knob.name in given:
            outcomes.append(Outcome(knob, option.default, {}, given[knob.name], "set by --option"))
            continue
        by_tune = knob.name in tuned_before and option.origin in ("file", str(ours))
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


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tune",
        help="find the fastest protocol options of this machine",
        description=f"Measure protocol choices and keep the faster ones in {paths.options_file() or 'a file'}. "
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
        metavar="MS",
        help="how many milliseconds one sample takes (default 10)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(function=main)


def _file() -> Path:
    path = paths.options_file()
    if path is None:
        what = "THOLE_OPTIONS_FILE is set to nothing, so that no file of options is read"
        raise Trouble(what, "unset it, or set it to a file")
    return path


def main(arguments: argparse.Namespace) -> int:
    path = _file()
    before = read(path)
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
    if arguments.host is None and arguments.port != PORT:
        raise Trouble("--port is of a listener on another host", "name the host: thole tune HOST")
    if not arguments.dry_run and not output.writable(path):
        raise Trouble(f"{path} cannot be written", "run it as who may, or with --dry-run")
    if arguments.host is not None:
        return tune_host(arguments, path, before)
    given = dict(native.check_options(arguments.option))
    total = arguments.rounds * sum(len(knob.values) for knob in KNOBS)
    with output.progress(total) as step:
        outcomes = tune(arguments.rounds, arguments.sample_ms, given, step)
    show(outcomes, arguments.json)
    keep(arguments, path, OURS, lines_of(outcomes))
    return 0


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
