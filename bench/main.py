# SPDX-License-Identifier: BSD-3-Clause
"""The whole run: which parts and peers are wanted, one after the other, and the report."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import sys

from rich.console import Console
from thole.base import paths
from thole.base.trouble import Trouble
from thole_lab.process import interrupted_by_signals
from thole_lab.testbed import missing_right

import adapters
import driver
import host
import hpcc
import instructions
import network
import record
import report
from comparison import SECRETS, Bench, Compared, compile_programs, measure_node, parse, unavailable
from peers import NETWORK_PEERS, PEERS, Peer, select
from plans import TESTS

COUNTED = {part.name: part for part in (driver.PART, adapters.PART)}


def tables(part: str) -> list[tuple[Peer, ...]]:
    return [
        table for name, table in (("node", PEERS), ("network", NETWORK_PEERS)) if part in (name, "all")
    ]


def choose(options: object, table: tuple[Peer, ...]) -> list[Peer]:
    """Of names that are only in the other part's table nothing is left here."""
    names = getattr(options, "peers", None)
    if not names:
        return list(table)
    chosen: list[Peer] = []
    for name in names.split(","):
        with contextlib.suppress(ValueError):
            chosen += [peer for peer in select(name, table) if peer not in chosen]
    return chosen


def show_list(bench: Bench, console: Console, part: str) -> None:
    for table in tables(part):
        console.print(report.NODE if table is PEERS else report.HOSTS, style="bold")
        for peer in table:
            reason = unavailable(peer, bench.found, bench.programs) or "ready"
            console.print(f"  {peer.name:22} {peer.title:40} {reason}", markup=False)
    if part != "node":
        console.print(missing_right() or "Two hosts can be made here.", markup=False)
        for number, setting in enumerate(network.SETTINGS):
            console.print(f"  setting {number}: {setting.title}", markup=False)


def check_names(options: argparse.Namespace) -> None:
    """Names that nothing has, before anything is measured."""
    counted = COUNTED.get(options.part)
    known = list(counted.names) if counted else [*TESTS, hpcc.TEST, "perf", "memory", "crowd"]
    for name in options.only.split(",") if options.only else []:
        if name not in known:
            raise Trouble(f"--only {name}: there are {', '.join(known)}")
    network.chosen_settings(options)
    try:
        select(options.peers, tuple(peer for table in tables(options.part) for peer in table))
    except ValueError as error:
        raise Trouble(str(error)) from None


def compare(options: argparse.Namespace, console: Console, name: str) -> int:
    """The parts that are timed; the exit status."""
    bench, count = Bench(options, console), len(os.sched_getaffinity(0))
    facts = host.facts()
    os.sched_setaffinity(0, bench.cpus)
    bench.programs = compile_programs(bench.found, options.build, bench.results.failures)
    if options.list:
        show_list(bench, console, options.part)
        return 0
    facts |= {"machine": host.machine_line(bench.tool("floor"), bench.cpus, count)}
    facts |= {"commit": host.commit(options.build), "options": host.options(SECRETS)}
    console.print(facts["machine"], markup=False)
    facts |= {mpi.family.name: mpi.label for mpi in bench.found.values()}
    compared = Compared(options, console)
    if options.part != "network":
        measure_node(bench, choose(options, PEERS), compared)
    if options.part != "node" and not compared.interrupted:
        network.measure(bench, choose(options, NETWORK_PEERS), compared)
    for part in compared.parts:
        part.show(console)
    facts["starts_repeated"] = compared.repeated
    extra = {"commands": compared.commands, **compared.extra}
    files = report.write(options.results, name, facts, compared.parts, extra)
    console.print(f"Written: {files[0]} and {files[1]}", markup=False)
    if compared.interrupted:
        return 130
    if options.record:
        for changed in record.take([files[1]]):
            console.print(f"Written: {changed}", markup=False)
    return 1 if any(one.failures for one in (bench.results, *(part.results for part in compared.parts))) else 0


def main() -> int:
    with interrupted_by_signals():
        return _main(Console() if sys.stdout.isatty() else Console(width=160))


def _main(console: Console) -> int:
    try:
        options = parse()
        paths.use_build(str(options.build))
        check_names(options)
        name = options.name or datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        counted = COUNTED.get(options.part)
        if counted is None:
            return compare(options, console, name)
        if options.list:
            console.print(f"{counted.title}: {', '.join(counted.names)}", markup=False)
            return 0
        facts = host.facts() | {"commit": host.commit(options.build)}
        return instructions.run(counted, options, console, name, facts)
    except Trouble as trouble:
        console.print(str(trouble), markup=False)
        return 2
    except KeyboardInterrupt:
        return 130
