# SPDX-License-Identifier: BSD-3-Clause
"""`thole mx-info`: boards, peers and endpoints as programs that are written for MX see them."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from thole.base import output
from thole.commands.arguments import add_wait
from thole.mx.boards import API, Board, Library, nic_text
from thole.mx.endpoints import Endpoint, endpoints
from thole.mx.hosts import Known, Peer, find_peers


@dataclass(frozen=True)
class Found:
    version: str
    path: str
    boards: list[Board]
    known: Known
    endpoints: list[Endpoint]

    def board_of(self, endpoint: Endpoint) -> int | None:
        """The board's number; None: its interface is no longer up."""
        return next((row.number for row in self.boards if row.nic_id == endpoint.nic_id), None)


def collect(wait_s: float) -> Found:
    with Library() as library:
        boards = library.boards()
        version = library.version
    return Found(version, str(library.path), boards, find_peers(wait_s), endpoints())


# ---- JSON ------------------------------------------------------------------------------------------


def counters_of(endpoint: Endpoint, all_of_them: bool) -> dict[str, int] | None:
    """None: they have no names here, since the endpoint's process has another build of Thole."""
    if endpoint.counters is None:
        return None
    return {name: value for name, value in endpoint.counters.items() if value or all_of_them}


def endpoint_json(found: Found, endpoint: Endpoint) -> dict[str, Any]:
    row: dict[str, Any] = {
        "board": found.board_of(endpoint),
        "nic_id": nic_text(endpoint.nic_id),
        "endpoint": endpoint.number,
        "answered": endpoint.answered,
    }
    if endpoint.answered:
        for name in ("pid", "command", "session", "address", "dropped"):
            row[name] = getattr(endpoint, name)
    return row


def as_json(found: Found, counters: bool, all_of_them: bool) -> dict[str, Any]:
    rows = [endpoint_json(found, endpoint) for endpoint in found.endpoints]
    for row, endpoint in zip(rows, found.endpoints):
        if counters and endpoint.answered:
            row["counters"] = counters_of(endpoint, all_of_them)
    return {
        "mx": {"api": API, "version": found.version, "library": found.path},
        "boards": [board.as_json() for board in found.boards],
        "peers": [peer.as_json() for peer in found.known.peers],
        "endpoints": rows,
        "troubles": found.known.troubles,
    }


# ---- Tables ----------------------------------------------------------------------------------------


def boards_table(boards: list[Board]) -> Table:
    table = output.table("board", "interface", "NIC id", "name", "address", "MTU", "up", right=("MTU",))
    for board in boards:
        table.add_row(
            str(board.number),
            escape(board.interface),
            nic_text(board.nic_id),
            escape(board.name),
            board.address or "none: this host only",
            str(board.mtu),
            "[green]yes[/]" if board.up else "[red]no[/]",
        )
    return table


def peers_table(peers: list[Peer]) -> Table:
    """Also what `thole peers` shows of MX."""
    table = output.table("MX board", "NIC id", "reached by", "known from")
    for peer in peers:
        table.add_row(
            escape(peer.name),
            nic_text(peer.nic_id),
            escape(peer.address or "MXoE frames"),
            ", ".join(peer.known),
        )
    return table


def endpoints_table(found: Found) -> Table:
    table = output.table("endpoint", "board", "NIC id", "process", "command", right=("endpoint", "process"))
    for endpoint in found.endpoints:
        board = found.board_of(endpoint)
        table.add_row(
            str(endpoint.number),
            "gone" if board is None else str(board),
            nic_text(endpoint.nic_id),
            str(endpoint.pid) if endpoint.answered else "",
            escape(endpoint.command) if endpoint.answered else "[yellow]does not answer[/]",
        )
    return table


def counters_table(endpoint: Endpoint, all_of_them: bool) -> Table | str:
    """Or a sentence."""
    title = f"endpoint {endpoint.number} of {nic_text(endpoint.nic_id)}"
    counters = counters_of(endpoint, all_of_them)
    if counters is None:
        return f"{title}: its process has another build of Thole, whose counters are others"
    table = output.table(title, "count", right=("count",))
    for name, value in counters.items():
        table.add_row(name, str(value))
    return table


def show(found: Found, arguments: argparse.Namespace, console: Console) -> None:
    console.print(f"[bold]MX API {API:#x}[/], {escape(found.version)}", highlight=False)
    console.print(escape(found.path), highlight=False, soft_wrap=True)
    console.print()
    console.print(boards_table(found.boards), highlight=False)
    console.print()
    if found.known.peers:
        console.print(peers_table(found.known.peers), highlight=False)
    else:
        text = "no board of another host is known: one says that it is there while an endpoint of MX is open on it"
        console.print(
            f"{text}, and the file of hosts (option mx_hosts) can name it", soft_wrap=True
        )
    console.print()
    if found.endpoints:
        console.print(endpoints_table(found), highlight=False)
    else:
        console.print("no endpoint is open on this host")
    for endpoint in found.endpoints:
        if arguments.counters and endpoint.answered:
            console.print()
            console.print(counters_table(endpoint, arguments.all), highlight=False)
    for trouble in found.known.troubles:
        console.print(f"\n{escape(trouble)}", highlight=False, soft_wrap=True)


# ---- The command -----------------------------------------------------------------------------------


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "mx-info",
        help="boards, peers and endpoints of programs written for MX",
        description="Show what there is for programs written for MX: this host's boards, the boards of other hosts "
        "that the file of hosts (option mx_hosts) names or that say they are there, and the endpoints that are open on "
        "this host, with their processes.",
    )
    parser.add_argument(
        "--counters",
        action="store_true",
        help="also show the counters of each endpoint that are not 0; `thole info counters` says what they count",
    )
    parser.add_argument("--all", action="store_true", help="with --counters: those that are 0 too")
    add_wait(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    found = collect(arguments.wait)
    if arguments.json:
        print(json.dumps(as_json(found, arguments.counters, arguments.all), indent=2))
    else:
        show(found, arguments, output.console(160))
    return 0
