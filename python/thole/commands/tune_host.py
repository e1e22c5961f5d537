# SPDX-License-Identifier: BSD-3-Clause
"""`thole tune HOST`: whether adapters for remote DMA are faster than UDP to a host, where `thole perf --listen` runs.

What the verbs transport learns at run time (rates of copies and of the wire, the trip, chunks, what registering
costs) needs no file; it is only said how this machine stands: copies, registering, and the gap, the time from one small
message to the next where many are under way (LogP's g).
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thole.base import native, output
from thole.base.text import option_words, size_text
from thole.base.trouble import Trouble
from thole.commands.tuned import GAIN_MIN, HOSTS, judge, keep, names_in, speed
from thole.perf import machine
from thole.perf.program import core_words, measure, measure_networks
from thole.perf.results import NETWORKS, Measured

HOST_SIZES = "8,4k,64k,1m"


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
    by_tune = "verbs" in names_in(HOSTS, before) and option.origin in ("file", str(path))
    if option.origin != "default" and not by_tune:
        outcome.chosen, outcome.why, outcome.by_user = option.value, f"set by {option.origin}", True
    show_host(outcome, arguments.json)
    keep(arguments, path, HOSTS, host_lines(outcome, arguments.host))
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
