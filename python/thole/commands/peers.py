# SPDX-License-Identifier: BSD-3-Clause
"""`thole peers`: which hosts can be reached, by which link, how fast, and with how much loss.

Each host has a listener (`thole peers --listen`, which is that of `thole perf`). Here thole-perf exchanges a few small
messages and a few large ones with each, and says how they went. A host that does not answer has a row too,
that says what is wrong. Where no host is named, the boards of MX on other hosts have a table of their own: what is
known of them, nothing measured.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from thole.base import bounds, native, output, paths
from thole.base.host import cores, pair
from thole.base.text import size_text, time_text
from thole.base.trouble import Trouble
from thole.commands.arguments import add_listener, add_option, add_wait, check_listener
from thole.commands.mx_info import peers_table
from thole.mx.hosts import Known, find_peers, mxoe_hosts
from thole.perf.program import given_options, listen, measure
from thole.perf.results import Measured, Way

AT_ONCE = 4  # hosts that are asked at the same time, each from a core: more would measure each other
SMALL, LARGE = 8, 1 << 20  # bytes of the messages that are exchanged


@dataclass(frozen=True)
class Host:
    """A host to ask, and its listener's port."""

    name: str
    port: int


@dataclass(frozen=True)
class Answer:
    """What is known of a host after asking it. One that is named by an address of MXoE has no listener, but a name."""

    host: Host
    measured: Measured | None = None
    trouble: str = ""
    mxoe: native.MxoeHost | None = None

    @property
    def reached(self) -> bool:
        return bool(self.measured or self.mxoe)

    @property
    def way(self) -> Way | None:
        return self.measured.ways.get("here") if self.measured else None

    @property
    def loss(self) -> tuple[int, int]:
        """Frames sent again, and frames sent, by both sides."""
        ways = self.measured.ways.values() if self.measured else ()
        return sum(way.retransmitted for way in ways), sum(way.frames_sent for way in ways)

    def best(self, test: str, size: int) -> float | None:
        series = self.measured.of(test, size) if self.measured else None
        return series.best if series else None

    def as_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {"host": self.host.name, "port": self.host.port}
        if self.mxoe:
            trip_us = self.mxoe.trip_ns / 1000
            return {**result, "reachable": True, "name": self.mxoe.name, "round_trip_us": trip_us}
        if self.measured is None:
            return {**result, "reachable": False, "why": self.trouble}
        again, sent = self.loss
        return {
            **result,
            "reachable": True,
            "address": self.measured.other.get("address", ""),
            "name": self.measured.other.get("name", ""),
            "version": self.measured.other.get("version", ""),
            "ways": {side: vars(way) for side, way in self.measured.ways.items()},
            "frames_sent": sent,
            "retransmitted": again,
            "latency_us": self.best("latency", SMALL),
            "bytes_per_s": self.best("bandwidth", LARGE),
        }


def mxoe_mac(text: str) -> str:
    """The MAC in mxoe:MAC or mxoe:MAC/NUMBER; "": it is neither."""
    match = re.fullmatch(r"mxoe:([0-9a-f]{2}(?::[0-9a-f]{2}){5})(?:/(\d{1,3}))?", text.lower())
    return match[1] if match and int(match[2] or 0) < 256 else ""


def host_parse(text: str, port: int) -> Host:
    """HOST, HOST:PORT, [ADDRESS]:PORT, an IPv6 address, or one of MXoE."""
    if text.lower().startswith("mxoe:"):
        if not mxoe_mac(text):
            raise Trouble(f"{text!r} is no address of MXoE", "write mxoe:52:54:00:12:34:01/1")
        return Host(text, 0)
    if not text.strip("[]"):
        raise Trouble(f"{text!r} is not a host", "write HOST or HOST:PORT")
    name, sign, digits = text.rpartition(":")
    if not sign or (name.count(":") and not name.startswith("[")):
        return Host(text.strip("[]"), port)
    if text.endswith("]"):
        return Host(text[1:-1], port)
    if not digits.isdecimal() or not 0 < int(digits) < 65536 or not name:
        raise Trouble(f"{text!r} is not a host", "write HOST or HOST:PORT")
    return Host(name.strip("[]"), int(digits))


def hosts_in(path: Path, port: int) -> list[Host]:
    """The first word of each line; what follows a # is a comment."""
    try:
        lines = path.read_text(errors="surrogateescape").splitlines()
    except OSError as error:
        raise Trouble(f"{path} cannot be read: {error.strerror}", "name hosts instead") from None
    words = [line.partition("#")[0].split() for line in lines]
    return [host_parse(row[0], port) for row in words if row]


def choose(arguments: argparse.Namespace) -> list[Host]:
    """The hosts named, else those of the file named, else those of the first file of hosts that exists, if one does."""
    if arguments.hosts:
        return [host_parse(text, arguments.port) for text in arguments.hosts]
    files = [arguments.file] if arguments.file else paths.hosts_files()
    for path in files:
        if arguments.file or os.path.exists(path):
            found = hosts_in(path, arguments.port)
            if found:
                return found
            raise Trouble(f"{path} names no host", "write one a line, as HOST or HOST:PORT")
    return []


def known_to_mx(arguments: argparse.Namespace) -> Known:
    """Who asks for certain hosts has not asked for more."""
    if arguments.hosts or arguments.file:
        return Known([], [])
    return find_peers(arguments.wait)


def ask_mxoe(host: Host, arguments: argparse.Namespace) -> Answer:
    """Its name, and how long that took: whoever has MX or Open-MX answers this, and not `thole perf`."""
    chosen = dict(native.check_options(arguments.option)).get("interface")
    if chosen is None:
        chosen = next(row.value for row in native.options() if row.name == "interface")
    try:
        found = mxoe_hosts(mxoe_mac(host.name), arguments.timeout, chosen)
    except Trouble as trouble:
        return Answer(host, trouble=trouble.what)
    if not found:
        return Answer(host, trouble=f"nobody answers frames of MXoE at {mxoe_mac(host.name)}")
    return Answer(host, mxoe=found[0])


def ask(host: Host, arguments: argparse.Namespace, core: int) -> Answer:
    if mxoe_mac(host.name):
        return ask_mxoe(host, arguments)
    wait_ms = str(round(arguments.timeout * 1000))
    words = ["--host", host.name, "--port", str(host.port), "--connect-ms", wait_ms]
    words += ["--tests", "latency,bandwidth", "--sizes", f"{SMALL},{LARGE}", "--window", "8"]
    words += ["--rounds", "2", "--sample-ms", "50", "--patience-ms", wait_ms]
    words += ["--cores", f"{core},{pair(cores())[1]}"]  # the other is where a listener is by itself
    words += given_options(arguments)
    try:
        return Answer(host, measure(words))
    except Trouble as trouble:
        return Answer(host, trouble=trouble.what)


def ask_all(hosts: list[Host], arguments: argparse.Namespace) -> list[Answer]:
    """Some at once; those that are measured at the same time have a core each."""
    whole = {(core.package, core.core): core.number for core in reversed(cores())}  # of its threads the first
    chosen = sorted(whole.values())[:AT_ONCE]
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in chosen:
        free.put(core)

    def ask_one(host: Host) -> Answer:
        core = free.get()
        try:
            return ask(host, arguments, core)
        finally:
            free.put(core)

    with ThreadPoolExecutor(max_workers=len(chosen)) as pool:
        return list(pool.map(ask_one, hosts))


def table_of(answers: list[Answer]) -> Table:
    numbers = ("frame, B", "round trip, us", f"{size_text(SMALL)} one way, us", "GB/s")
    table = output.table("host", "address", "small by", "large by", *numbers, "loss", right=numbers)
    for answer in answers:
        name = escape(answer.host.name)
        if answer.mxoe:
            trip = time_text(answer.mxoe.trip_ns / 1000)
            table.add_row(name, escape(answer.mxoe.name), "raw", "raw", "-", trip, "-", "-", "-")
            continue
        if answer.measured is None:
            table.add_row(f"[red]{name}[/]", "[red]not reached[/]")
            continue
        way = answer.way or Way("none", "", "", 0, 0, 0, 0)
        again, sent = answer.loss
        latency, bandwidth = answer.best("latency", SMALL), answer.best("bandwidth", LARGE)
        table.add_row(
            name,
            escape(answer.measured.other.get("address", "")),
            way.records or "-",
            way.bulk or "-",
            str(way.frame_max) if way.frame_max else "-",
            time_text(way.rtt_ns / 1000) if way.rtt_ns else "-",
            time_text(latency) if latency else "-",
            f"{bandwidth / 1e9:.2f}" if bandwidth else "-",
            f"{100 * again / sent:.2g}% ({again} of {sent} frames)" if sent else "-",
        )
    return table


def show_mx(known: Known, console: Console) -> None:
    if known.peers:
        console.print(peers_table(known.peers), highlight=False)
    for trouble in known.troubles:
        console.print(escape(trouble), highlight=False, soft_wrap=True)


def show(answers: list[Answer], console: Console) -> None:
    console.print(table_of(answers), highlight=False)
    for answer in answers:
        if not answer.reached:
            named = answer.host.name in answer.trouble
            text = answer.trouble if named else f"{answer.host.name}: {answer.trouble}"
            console.print(escape(text), highlight=False, soft_wrap=True)
    if any(answer.way and answer.way.transport == "shm" for answer in answers):
        console.print(
            "ring and memory: a process of this very host; the network is not used for it"
        )


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    own, everybodys = paths.hosts_files()
    parser = commands.add_parser(
        "peers",
        help="which hosts can be reached, and how well",
        description="Exchange a few messages with the listener of each host (`thole peers --listen` there), and show "
        "by which link they went, the largest frame, the round trip and the loss. Where no host is named, also list "
        "the MX boards of other hosts that their file of hosts (option mx_hosts) names or that say they are there. The "
        "exit status is 1 if a host was not reached.",
        epilog="example, between hosts a, b and c: on b and c: thole peers --listen; on a: thole peers b c",
    )
    parser.add_argument(
        "hosts",
        nargs="*",
        metavar="HOST",
        help=f"host or host:port (default: those in {own}, or {everybodys}); or an address of MXoE, as "
        "mxoe:52:54:00:12:34:01/1, whose host is asked for its name",
    )
    parser.add_argument("--file", type=Path, help="a file with a host in each line")
    add_listener(parser)
    parser.add_argument(
        "--timeout",
        type=bounds.seconds("--timeout", 0.1, bounds.WAIT_S_MAX),
        default=5.0,
        metavar="SECONDS",
        help="how long each step with a host may take (default 5)",
    )
    add_wait(parser)
    add_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    if arguments.listen:
        if arguments.hosts or arguments.file:
            raise Trouble("--listen takes no hosts", "name them where you want the table")
        return listen(arguments)
    check_listener(arguments)
    hosts = choose(arguments)
    given_options(arguments)  # what is wrong with them is said once
    known = known_to_mx(arguments)
    if not hosts and not known.peers and not known.troubles:
        raise Trouble(
            "no host is named, and there is no file of hosts",
            f"run `thole peers HOST ...`, or write one host a line to {paths.hosts_files()[0]}",
        )
    answers = ask_all(hosts, arguments)
    if arguments.json:
        hosts_rows = [answer.as_json() for answer in answers]
        mx_rows = [peer.as_json() for peer in known.peers]
        print(json.dumps({"hosts": hosts_rows, "mx": mx_rows}, indent=2))
        return _status(answers)
    console = output.console(160)
    if answers:
        show(answers, console)
    if answers and known.peers:
        console.print()
    show_mx(known, console)
    return _status(answers)


def _status(answers: list[Answer]) -> int:
    return 0 if all(answer.reached for answer in answers) else 1
