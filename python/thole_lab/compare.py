# SPDX-License-Identifier: BSD-3-Clause
"""`thole compare`: mpi4py's own benchmarks, over what each MPI ships with and over Thole, side by side.

Inside this machine, and between two hosts: network namespaces (testbed.py), or ranks that reach each other by the
loopback interface alone where those cannot be made. There it is each MPI's TCP that Thole is compared with. The
programs are mpi4py's and the MPIs are as packaged; only environment variables differ. Runs are interleaved in rounds
and the best of the rounds counts, since machines are shared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from pathlib import Path

from rich.console import Console
from thole.base import bounds, native, output, paths, pictures
from thole.base.trouble import Trouble
from thole.commands.arguments import add_option, add_venvs
from thole.mpi.families import family_names

from thole_lab.benches import WAYS, Results, benches, measure
from thole_lab.charts import as_json, picture, summary, table_of
from thole_lab.process import interrupted_by_signals
from thole_lab.testbed import Loopback, Testbed, missing_right
from thole_lab.venvs import Environment, find

HOSTS = ("auto", "namespaces", "loopback", "none")
SIZE_MAX = 1 << 30  # bytes of a message: larger ones do not end in that time


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="MPI programs over what their MPI ships with and over Thole",
        description="Run mpi4py's own benchmarks with 2 ranks (and a ring of 4), once over what each MPI "
        "ships with and once over Thole, interleaved, and show both side by side; then the same between two hosts "
        "made of network namespaces, where it is each MPI's TCP that Thole stands beside.",
    )
    add_venvs(parser, "a folder of virtual environments with MPIs and mpi4py (default: build/venv)")
    parser.add_argument(
        "--mpi",
        action="append",
        default=[],
        choices=family_names(),
        help="only this MPI; may be repeated",
    )
    parser.add_argument(
        "--rounds",
        type=bounds.whole("--rounds", 1, bounds.ROUNDS_MAX),
        default=5,
        help="how often everything is run (default 5)",
    )
    parser.add_argument(
        "--seconds",
        type=bounds.seconds("--seconds", 0),
        default=120.0,
        help="begin no round that would end later (default 120)",
    )
    parser.add_argument(
        "--size-max",
        type=bounds.whole("--size-max", 1, SIZE_MAX),
        default=4 << 20,
        help="largest message in bytes (default 4194304)",
    )
    add_option(parser)
    parser.add_argument(
        "--hosts",
        choices=HOSTS,
        default="auto",
        help="what stands for two hosts: network namespaces, the loopback interface where these cannot be made "
        "(auto), or no such part",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also write a picture")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    native.check_options(arguments.option)
    if arguments.json:
        output.check_file(arguments.json)
    if arguments.plot:
        pictures.check(arguments.plot)
    environments = _environments(arguments)
    paths.find(paths.PROVIDER)
    reason = missing_right() if arguments.hosts in ("auto", "namespaces") else ""
    if reason and arguments.hosts == "namespaces":
        raise Trouble(f"no hosts can be made: {reason}", "use --hosts loopback")
    where = {"node": "on one host"}
    loopback = arguments.hosts == "loopback" or bool(reason)
    if arguments.hosts != "none":
        where["network"] = "through the loopback interface" if loopback else "between two hosts"
    chosen = [bench for bench in benches(arguments.size_max) if bench.place in where]
    steps = arguments.rounds * len(chosen) * len(environments) * len(WAYS)
    with interrupted_by_signals(), contextlib.ExitStack() as stack, output.progress(steps, lines=True) as step:
        hosts: Testbed | Loopback | None = None
        if "network" in where:
            hosts = Loopback() if loopback else stack.enter_context(Testbed())
            hosts.pin([[cpu] for cpu in sorted(os.sched_getaffinity(0))[:2]])
        results = measure(
            environments, chosen, arguments.rounds, arguments.option, step, arguments.seconds, hosts
        )
    console = output.console(150)
    for place, name in where.items():
        console.print(table_of(results, environments, chosen, place, name), highlight=False)
        for line in summary(results, environments, place):
            console.print(line, highlight=False)
        console.print()
    if reason:
        console.print(f"no hosts of their own could be made: {reason}", highlight=False)
    for failure in results.failures:
        console.print(f"[red]failed[/] {failure}", highlight=False, soft_wrap=True)
    _write(arguments, results, environments, where, console)
    # What an MPI cannot do by itself is worth a line, but no failure of ours.
    return 1 if any(" over Thole, " in failure for failure in results.failures) else 0


def _environments(arguments: argparse.Namespace) -> dict[str, Environment]:
    tree = paths.build_tree()
    named = [paths.environments(folder, "--venvs") for folder in arguments.venvs]
    found = find(named or ([tree / "venv"] if tree else []))
    if arguments.mpi:
        found = {name: environment for name, environment in found.items() if name in arguments.mpi}
    if not found:
        raise Trouble(
            "no MPI with mpi4py was found",
            "run `make venvs`, or name a folder of environments with --venvs"
            if tree
            else "`make venvs` in a clone of Thole makes build/venv there: name that with --venvs",
        )
    return found


def _write(
    arguments: argparse.Namespace,
    results: Results,
    environments: dict[str, Environment],
    where: dict[str, str],
    console: Console,
) -> None:
    if arguments.json:
        numbers = {"places": where, **as_json(results, environments)}
        output.write_text(arguments.json, json.dumps(numbers, indent=1) + "\n")
    if arguments.plot:
        picture(results, environments, where, arguments.plot)
        console.print(f"picture: {arguments.plot}", highlight=False, soft_wrap=True)
