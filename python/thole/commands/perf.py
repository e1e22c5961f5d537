# SPDX-License-Identifier: BSD-3-Clause
"""`thole perf`: latency and bandwidth between two processes, beside what the machine itself can do.

The two are on this host, or on two: one listens, the other names it. Beside them stands the bare cache line, or TCP,
and with --mx the same messages through MX, sample by sample.
thole-perf, a C program, does the timing and prints samples; here they become best and median, a table,
JSON or a picture. Best and median are over rounds: machines are shared, so one number says little.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from thole.base import bounds, output, paths, pictures
from thole.base.text import size_parse, size_text
from thole.base.trouble import Trouble
from thole.commands.arguments import add_listener, add_option, check_listener
from thole.perf.display import picture, show, show_networks
from thole.perf.program import core_words, given_options, listen, measure, measure_networks
from thole.perf.results import NETWORKS, PORT, SIZES, TESTS


def _tests(arguments: argparse.Namespace) -> list[str]:
    chosen = [test for test in ("latency", "bandwidth", "rate") if getattr(arguments, test)]
    if arguments.bare:
        return ["bare"]
    return ["bare", *chosen] if chosen else list(TESTS)


def _add_buffers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write", action="store_true", help="write the buffer before each send of the latency test"
    )
    parser.add_argument(
        "--shared", action="store_true", help="buffers that the other process can map (thole_alloc)"
    )


def _add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="HOST", help="measure with the listener on this host, by name or address"
    )
    parser.add_argument(
        "--networks",
        metavar="NAME,...",
        help=f"with --host: by each of these ({', '.join(NETWORKS)}), by turns, in one table",
    )


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
    _add_host(parser)
    parser.add_argument(
        "--sizes", default=SIZES, help=f"message sizes in bytes, separated by commas, with k, m or g (default {SIZES})"
    )
    parser.add_argument(
        "--latency", action="store_true", help="only latency (default: all tests); may be combined with the next two"
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
        "--iterations", metavar="N", help="of one sample (default: as many as take --sample-ms)"
    )
    parser.add_argument(
        "--sample-ms", default="20", metavar="MS", help="how many milliseconds one sample takes (default 20)"
    )
    parser.add_argument(
        "--window", metavar="N", help="sends under way at once in the bandwidth test (default 64)"
    )
    parser.add_argument(
        "--cores", metavar="A,B", help="where the two processes run (default: chosen)"
    )
    _add_buffers(parser)
    parser.add_argument(
        "--mx",
        action="store_true",
        help="send the same messages through MX too (mx_isend, mx_irecv, mx_test), by turns with Thole's own calls",
    )
    add_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="write a picture (.png, .svg, .pdf)"
    )
    parser.set_defaults(function=main)


def words_of(arguments: argparse.Namespace) -> list[str]:
    for text in arguments.sizes.split(","):
        size_parse(text)
    words = ["--sizes", arguments.sizes, "--tests", ",".join(_tests(arguments))]
    words += ["--rounds", str(arguments.rounds), "--sample-ms", arguments.sample_ms]
    words += core_words(arguments.cores)
    for name in ("iterations", "window"):
        if getattr(arguments, name) is not None:
            words += [f"--{name}", getattr(arguments, name)]
    if arguments.write:
        words.append("--write")
    if arguments.shared:
        words.append("--shared")
    if arguments.mx:
        words += ["--apis", "thole,mx", "--mx-library", str(paths.find(paths.MX))]
    words += given_options(arguments)
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
    each += len(sizes) * ("bare" in tests)
    return each * int(arguments.rounds) * max(len(_networks(arguments)), 1)


def _networks(arguments: argparse.Namespace) -> list[str]:
    names = arguments.networks.split(",") if arguments.networks is not None else []
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        raise Trouble(f"--networks: there is no '{unknown[0]}'", f"it is of {', '.join(NETWORKS)}")
    if names and arguments.host is None:
        raise Trouble("--networks compares ways to another host", "name it with --host")
    if names and (arguments.mx or arguments.plot):
        raise Trouble("--networks excludes --mx and --plot", "run them by themselves")
    return list(dict.fromkeys(names))


def main(arguments: argparse.Namespace) -> int:
    if arguments.listen:
        if arguments.host is not None:
            raise Trouble("--listen and --host exclude each other", "listen on the other host")
        return listen(arguments)
    check_listener(arguments)
    if arguments.host is None and arguments.port != PORT:
        raise Trouble("--port is of a listener", "name its host with --host, or listen with --listen")
    networks = _networks(arguments)
    words = words_of(arguments)
    if arguments.plot:
        pictures.check(arguments.plot)
    with output.progress(steps_of(arguments)) as step:

        def each(line: dict[str, Any]) -> None:
            if line["type"] == "sample":
                step(f"{line['test']} {size_text(line['size'])}")

        if networks:
            by_network = measure_networks(words, networks, arguments.rounds, each)
        else:
            measured = measure(words, each)
    if networks:
        if arguments.json:
            print(json.dumps({"networks": {name: one.as_json() for name, one in by_network.items()}}, indent=2))
        else:
            show_networks(by_network, output.console(120))
        return 0
    if arguments.json:
        print(json.dumps(measured.as_json(), indent=2))
    else:
        show(measured, output.console(120))
    if arguments.plot:
        picture(measured, arguments.plot)
        print(f"wrote {arguments.plot}", file=sys.stderr)
    return 0
