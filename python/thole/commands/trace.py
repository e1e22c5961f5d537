# SPDX-License-Identifier: BSD-3-Clause
"""`thole trace`: Thole's own frames as they pass an interface, line by line or as a pcapng file.

The command alone: frames/ knows what frames are, how they are captured and how they are written. What reads the
descriptions of packets is imported when a capture begins: no other command fails where they are missing.
"""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from pathlib import Path

from thole.base import bounds, paths
from thole.base.trouble import Trouble
from thole.frames.capture import PORTS_MAX, open_socket
from thole.frames.pcapng import Pcapng


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "trace",
        help="Thole's own frames as they pass",
        description="Capture Thole's frames, native and mxoe, over UDP and raw Ethernet, until interrupted: a line "
        "each, or a pcapng file that Wireshark and tshark read. Needs CAP_NET_RAW (sudo). What ranks of one host say "
        "to each other is not seen: it goes through shared memory.",
        epilog="example: sudo thole trace -i eth0 -w job.pcapng --seconds 10; "
        "at its end it says how tshark reads the file",
    )
    parser.add_argument("-i", "--interface", metavar="NAME", help="only this one (default: all)")
    parser.add_argument(
        "-w",
        "--write",
        metavar="FILE",
        help="write pcapng instead of lines; - is the standard output",
    )
    parser.add_argument(
        "--seconds",
        type=bounds.seconds("--seconds", 0, above=True),
        metavar="N",
        help="end after so many seconds",
    )
    parser.add_argument(
        "--count", type=bounds.whole("--count", 1), metavar="N", help="end after so many frames"
    )
    parser.add_argument(
        "--port",
        type=bounds.whole("--port", 1, bounds.PORT_MAX),
        action="append",
        default=[],
        metavar="N",
        help="of UDP, only what goes to or comes from this port; may be repeated",
    )
    parser.add_argument(
        "--keep",
        type=bounds.whole("--keep", 0),
        default=0,
        metavar="BYTES",
        help="write only the first bytes of each frame (default: all)",
    )
    parser.set_defaults(function=main)


def _check(arguments: argparse.Namespace) -> None:
    if len(arguments.port) > PORTS_MAX:
        raise Trouble("there are too many --port", f"repeat it at most {PORTS_MAX} times")
    if arguments.keep and not arguments.write:
        raise Trouble("--keep is of a file, and lines have all", "name the file with -w")


def _open_file(name: str) -> io.RawIOBase:
    try:
        if name == "-":
            return io.FileIO(sys.stdout.fileno(), "w", closefd=False)
        return Path(name).open("wb", buffering=0)
    except OSError as error:
        raise Trouble(f"{name} cannot be written: {error.strerror}", "choose another") from None


def main(arguments: argparse.Namespace) -> int:
    _check(arguments)
    from thole.frames.packets import ethertypes, filter_program
    from thole.frames.tracing import Ended, Sink, until_end

    types = ethertypes()
    capture = open_socket(arguments.interface, filter_program(types, arguments.port))
    writer = Pcapng(_open_file(arguments.write)) if arguments.write else None
    ended = Ended()
    sink = Sink(writer, types, arguments.keep, arguments.count)
    where = arguments.interface or "all interfaces"
    print(f"thole: capturing on {where}; interrupt to end", file=sys.stderr, flush=True)
    try:
        dropped = until_end(capture, sink, arguments.seconds, ended, arguments.interface is not None)
    except OSError as error:
        if arguments.write in (None, "-"):
            raise
        raise Trouble(f"{arguments.write} cannot be written: {error.strerror}") from None
    count = sink.count
    kinds = ", ".join(f"{name} {number}" for name, number in count.most_common())
    print(f"thole: {sum(count.values())} frames" + (f": {kinds}" if kinds else ""), file=sys.stderr)
    if dropped:
        print(
            f"thole: {dropped} packets came faster than they could be taken and are missing; "
            "--port, or -w with --keep 128, keeps up longer",
            file=sys.stderr,
        )
    lua = paths.dissector()
    if writer and lua and arguments.write != "-":
        words = ["tshark", "-X", f"lua_script:{lua}", "-r", arguments.write]
        print(f"thole: to read it: {shlex.join(words)}", file=sys.stderr)
    if ended.interface_gone:
        raise Trouble(f"interface {where} has gone", "start another capture when it is there again")
    return 0
