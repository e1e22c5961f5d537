# SPDX-License-Identifier: BSD-3-Clause
"""`thole run`: start an unmodified MPI program so that its messages go over Thole."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from thole import native, paths
from thole.mpi import Mpi, family_named, family_names, identify, launcher_in, require_fabric
from thole.trouble import Trouble

LISTS = {"FI_PROVIDER_PATH": ":", "OMPI_MCA_mca_base_env_list": ";"}  # variables that hold a list


@dataclass(frozen=True)
class Variable:
    """One variable as it will be, what the user had, and why it is set."""

    name: str
    value: str
    reason: str
    before: str | None
    kept: bool = False  # the user's value stays, by --keep

    @property
    def contradicted(self) -> bool:
        return self.before not in (None, self.value) and self.name not in LISTS


@dataclass
class Plan:
    """What `thole run` is about to do."""

    mpi: Mpi
    command: list[str]
    variables: list[Variable] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        return {variable.name: variable.value for variable in self.variables}


def plan(
    command: list[str],
    mpi_name: str | None = None,
    options: list[str] | None = None,
    keep: bool = False,
) -> Plan:
    """Decide everything, run nothing. Raises Trouble where Thole cannot be used."""
    if not command:
        raise Trouble("there is no command to run", "for example: thole run mpiexec -n 4 ./app")
    mpi = _mpi_of(command, mpi_name)
    require_fabric(mpi)
    provider = paths.find(paths.PROVIDER)
    result = Plan(mpi, command)
    chosen = [native.check_option(option) for option in options or []]
    for setting in mpi.family.settings:
        fabric = str(mpi.fabric or "")
        if "{fabric}" in setting.value and not fabric:
            continue
        value = setting.value.format(provider_dir=provider.parent, fabric=fabric)
        if setting.name == "OMPI_MCA_mca_base_env_list":
            value = ";".join([value] + [f"THOLE_{name.upper()}" for name in _option_names(chosen)])
        _add(result, setting.name, value, setting.reason, keep)
    for name, value in chosen:
        _add(result, f"THOLE_{name.upper()}", value, "--option", keep=False)
    _judge_arguments(result)
    return result


def _option_names(chosen: list[tuple[str, str]]) -> list[str]:
    names = [name for name, _ in chosen]
    names += [name[6:].lower() for name in sorted(os.environ) if name.startswith("THOLE_")]
    return list(dict.fromkeys(names))


def _mpi_of(command: list[str], mpi_name: str | None) -> Mpi:
    launcher = launcher_in(command)
    if mpi_name is not None:
        family = family_named(mpi_name)
        if launcher is not None:
            try:
                found = identify(launcher)
            except Trouble:
                found = None
            if found is not None and found.family is family:
                return found
        path = shutil.which(command[0])
        if path is None:
            raise Trouble(f"{command[0]} is not found or not executable", "give its full path")
        return Mpi(
            family, "(by --mpi)", Path(path), why=[f"--mpi {mpi_name} says so; nothing was checked"]
        )
    if launcher is None:
        if shutil.which(command[0]) is None:
            raise Trouble(f"{command[0]} is not found or not executable", "give its full path")
        raise Trouble(
            f"{command[0]} is not an MPI launcher that Thole knows (mpiexec, mpirun, prterun, orterun, ...)",
            f"name the MPI that it starts: thole run --mpi {{{','.join(family_names())}}} {command[0]} ...",
        )
    return identify(launcher)


def _add(result: Plan, name: str, value: str, reason: str, keep: bool) -> None:
    before = os.environ.get(name)
    separator = LISTS.get(name)
    if before and separator:
        # A list of the user's stays, behind what Thole needs.
        have = value.split(separator)
        value = separator.join(
            have + [part for part in before.split(separator) if part and part not in have]
        )
    if keep and before is not None and before != value and not separator:
        result.warnings.append(
            f"{name}={before} is kept (--keep), Thole needs {value}: messages may go another way"
        )
        result.variables.append(Variable(name, before, reason, before, kept=True))
        return
    variable = Variable(name, value, reason, before)
    if variable.contradicted:
        result.warnings.append(
            f"{name} was {before!r}, is {value!r} for this run (--keep leaves yours)"
        )
    result.variables.append(variable)


def _judge_arguments(result: Plan) -> None:
    """Warn of launcher arguments, which go before the environment, that say otherwise."""
    wanted = result.environment()
    words = result.command
    for index, word in enumerate(words[:-2]):
        name, value = words[index + 1], words[index + 2]
        if word in ("--mca", "-mca", "--gmca", "-gmca"):
            variable = f"OMPI_MCA_{name}"
        elif word in ("-genv", "-env", "--genv", "--env"):
            variable = name
        else:
            continue
        if variable in wanted and wanted[variable] != value and variable not in LISTS:
            result.warnings.append(
                f"the argument {word} {name} {value} goes before {variable}={wanted[variable]}: "
                "messages will not go over Thole; leave it out"
            )


def explain(result: Plan, console: Console) -> None:
    mpi = result.mpi
    console.print(f"{mpi.label}  {mpi.launcher}", style="bold", highlight=False, soft_wrap=True)
    for reason in mpi.why:
        console.print(f"  because {reason}", highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, title=None, show_edge=False)
    table.add_column("variable", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("why")
    for variable in result.variables:
        table.add_row(
            variable.name, variable.value, variable.reason + (" (kept)" if variable.kept else "")
        )
    console.print(table)
    for note in mpi.family.notes:
        console.print(f"stays as it is: {note.what} {note.why}", highlight=False, soft_wrap=True)
    for warning in result.warnings:
        console.print(f"note: {warning}", highlight=False, soft_wrap=True)
    console.print("would run: " + " ".join(result.command), highlight=False, soft_wrap=True)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run an MPI program over Thole",
        description="Start an MPI launcher with what its MPI needs to send everything over Thole, "
        "between processes of one node too. The program needs no change.",
        epilog="example: thole run --option eager_max=16k mpiexec -n 4 ./app",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show the MPI found and what would be set; run nothing",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set one of Thole's options (see thole info options); may be repeated",
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
    result = plan(command, arguments.mpi, arguments.option, arguments.keep)
    if arguments.explain:
        explain(result, Console(width=None if sys.stdout.isatty() else 160, markup=False))
        return 0
    for warning in result.warnings:
        print(f"thole: {warning}", file=sys.stderr)
    os.environ.update(result.environment())
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise Trouble(
            f"{command[0]} cannot be run: {error.strerror}", "check the command"
        ) from None
