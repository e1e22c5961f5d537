# SPDX-License-Identifier: BSD-3-Clause
"""`thole run`: start an unmodified MPI program so that its messages go over Thole.

The command alone: mpi/plan.py decides what is set, mpi/check.py judges what ranks did.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

from thole.base import paths
from thole.base.trouble import not_run
from thole.mpi import check
from thole.mpi.families import INTERFACES, family_names
from thole.mpi.plan import Plan, plan

if TYPE_CHECKING:
    from rich.console import Console


def explain(result: Plan, console: Console) -> None:
    from thole.base import output  # here alone: it takes as long to import as all else that starts a job

    mpi = result.mpi
    console.print(f"{mpi.label}  {mpi.launcher}", style="bold", highlight=False, soft_wrap=True)
    for reason in mpi.why:
        console.print(f"  because {reason}", highlight=False, soft_wrap=True)
    table = output.table()
    table.add_column("variable", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("why")
    for variable in result.variables:
        table.add_row(variable.name, variable.shown, variable.reason + (" (kept)" if variable.kept else ""))
    console.print(table)
    for line in _about_hosts(result):
        console.print(line, highlight=False, soft_wrap=True)
    for note in mpi.family.notes:
        console.print(f"stays as it is: {note.what} {note.why}", highlight=False, soft_wrap=True)
    for warning in result.warnings + result.notes:
        console.print(f"note: {warning}", highlight=False, soft_wrap=True)
    console.print("would run: " + shlex.join(result.command), highlight=False, soft_wrap=True)


def _about_hosts(result: Plan) -> list[str]:
    """What is said of a launch over several hosts."""
    found = result.hosts
    way = result.mpi.launch
    if not found.several and not (result.mpi.starter and not found.names):
        return ["hosts: this one" + (f" ({found.source})" if found.source else "")]
    first = next(iter(found.elsewhere), "HOST")
    named = ", ".join(found.names) or f"{found.count or 'as many'} as the launcher chooses"
    files = [(paths.UCX, result.ucx.split(":"))] if result.ucx else []
    if provider_path := result.environment().get("FI_PROVIDER_PATH"):
        files.insert(0, (paths.PROVIDER, provider_path.split(":")))
    name, path = files[0]
    files_there = [f"{folder}/{name}" for folder in path]
    look = f"ls -l {' '.join(files_there)}"
    if len(path) > 1:  # it complains of those that are not there
        look = shlex.quote(f"{look} 2>/dev/null")
    lines = [
        f"hosts: {named}" + (f" ({found.source})" if found.source else ""),
        "  ranks of one host talk through shared memory, others over Ethernet; Thole chooses for each pair",
        f"  every host must have {' or '.join(files_there)}",
        f"    to see whether it does: ssh {first} {look}",
    ]
    for name, folders in files[1:]:
        where = " or ".join(f"{folder}/{name}" for folder in folders)
        lines.append(f"  and {where}; where one has not, use --through libfabric")
    if len(path) == 1:
        lines.append(
            "    where Thole is installed elsewhere on other hosts, set THOLE_PREFIX to its prefix there"
        )
    handed = way.forwards
    if way.export in result.command:
        handed = f"by {way.export} NAME, since the command line uses it"
    lines.append(f"  variables: {handed}")
    lines.append(f"  stays as it is: {way.own}")
    return lines


class _Short(argparse.Action):
    """Short for --option NAME=, in one row with that: of several values of an option the last one counts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        namespace.option = [*namespace.option, f"{self.dest}={values}"]


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set one of Thole's options (see thole info options); may be repeated",
    )
    parser.add_argument(
        "--link",
        action=_Short,
        choices=("auto", "udp", "raw", "both", "driver"),
        help="how frames go between hosts; raw frames need CAP_NET_RAW or the driver (short for --option link=)",
    )
    parser.add_argument(
        "--interface",
        action=_Short,
        metavar="NAME",
        help="the network interface between hosts, by name or address (short for --option interface=)",
    )


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run an MPI program over Thole",
        description="Start an MPI launcher with what its MPI needs to send everything over Thole, "
        "between processes of one node too. The program needs no change. With several hosts, each needs Thole "
        "at the same path, or below the folder that the variable THOLE_PREFIX names.",
        epilog="example: thole run --option eager_max=16k mpiexec -hosts a,b -n 8 ./app",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show the MPI found and what would be set; run nothing",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="say at the end how many messages and bytes went which way; a rank without Thole is an error",
    )
    _add_options(parser)
    parser.add_argument(
        "--shared-heap",
        action="store_true",
        help="large allocations of ranks come from memory that ranks of one host map, so that large messages move "
        "without system calls (LD_PRELOAD; see the option shared_heap_min)",
    )
    parser.add_argument(
        "--through",
        choices=INTERFACES,
        default=INTERFACES[0],
        help="the interface by which the MPI's messages reach Thole; with UCX's small messages are faster. auto: UCX's "
        "for compiled programs without sessions, where an Open MPI was built with UCX and would take Thole's library, "
        "and for MPICH without libfabric, else libfabric; ucx: that, or an error (default: %(default)s)",
    )
    parser.add_argument(
        "--mpi", choices=family_names(), help="the MPI, where the launcher does not tell"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave variables alone that are already set otherwise"
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="command ...", help="the launcher and the rest"
    )
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    result = plan(command, arguments.mpi, arguments.option, arguments.keep, arguments.shared_heap, arguments.through)
    if arguments.explain:
        from thole.base import output

        explain(result, output.console(160, markup=False))
        return 0
    for warning in result.warnings:
        check.say(warning)
    os.environ.update(result.environment())
    if arguments.check:
        return check.run(result.mpi.launch, result.command, list(result.environment()), result.ucx)
    sys.stdout.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # that Python ignores, and what it becomes would, too
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], result.command)
    except OSError as error:
        raise not_run(command[0], error, "check the command") from None
