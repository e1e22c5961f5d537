# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path

from thole.base import bounds
from thole.base.trouble import Trouble
from thole.mx.hosts import HELLO_S, WAIT_S
from thole.perf.results import PORT


def add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        type=bounds.seconds("--wait", 0, bounds.WAIT_S_MAX),
        default=WAIT_S,
        metavar="SECONDS",
        help=f"how long other hosts may take to say which MX boards they have (default {WAIT_S:g}; with frames of MXoE "
        f"at least {HELLO_S:g}, unless it is 0)",
    )


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


def check_listener(arguments: argparse.Namespace) -> None:
    """Arguments of a listener, where none is wanted."""
    for name in ("bind", "once"):
        if getattr(arguments, name) and not arguments.listen:
            raise Trouble(f"--{name} is of a listener", "give it with --listen")


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="one of Thole's options"
    )


def add_venvs(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--venvs", type=Path, action="append", default=[], metavar="DIR", help=text)
