# SPDX-License-Identifier: BSD-3-Clause
"""Which hosts a launch goes to, as far as its command line, files and environment tell.

What is found here is shown and warned about; the settings of a run are the same with one host and with many.
How an MPI names hosts is a row of its family's table (mpi.py).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from thole.mpi import Launch, launcher_in

# What batch systems leave for launchers: variables with a file of hosts, and with a list of them.
BATCH_FILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "COBALT_NODEFILE")
BATCH_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "LSB_HOSTS")


@dataclass
class Hosts:
    """The hosts of a launch, in their order, each once, and who says so."""

    names: list[str] = field(default_factory=list)
    source: str = ""

    @property
    def elsewhere(self) -> list[str]:
        """Those that are not this one, by name."""
        return [name for name in self.names if name not in _own_names()]

    @property
    def several(self) -> bool:
        """Whether ranks run on another host than this, so that messages leave it or files are needed there."""
        return bool(self.elsewhere)


def _own_names() -> set[str]:
    name = socket.gethostname()
    return {name, name.split(".")[0], "localhost", "127.0.0.1", "::1"}


def arguments(launch: Launch, command: list[str]) -> Iterator[tuple[int, str, str]]:
    """The launcher's arguments: place in the command line, name without hyphens, value ("" if it has none).

    Ends at the program. After a ":" there is another set of arguments and another program.
    """
    launcher = launcher_in(command)
    index = command.index(launcher) + 1 if launcher is not None else 1
    skipping = False  # over a program and its arguments, up to the next ":"
    while index < len(command):
        word = command[index]
        if word == ":":
            skipping = False
        elif skipping or not word.startswith("-"):
            skipping = True
        else:
            name, sign, value = word.lstrip("-").partition("=")
            if sign or name in launch.flags:
                yield index, name, value
            else:
                yield index, name, command[index + 1] if index + 1 < len(command) else ""
                index += 2 if name in launch.pairs else 1
        index += 1


def find(launch: Launch, command: list[str]) -> Hosts:
    """The hosts of a launch; none if nothing names any, which means this one."""
    result = Hosts()
    for index, name, value in arguments(launch, command):
        if name in launch.lists:
            _take(result, _of_list(value), command[index])
        elif name in launch.files:
            _take(result, _of_file(Path(value)), f"{command[index]} {value}")
    if not result.source:
        for variable in launch.variables + BATCH_FILES:
            if os.environ.get(variable):
                _take(result, _of_file(Path(os.environ[variable])), variable)
                return result
        for variable in BATCH_LISTS:
            if os.environ.get(variable):
                _take(result, _of_list(os.environ[variable]), variable)
                return result
    return result


def _take(result: Hosts, names: list[str], source: str) -> None:
    result.names = list(dict.fromkeys(result.names + names))
    result.source = f"{result.source}, {source}" if result.source else source


def _of_list(text: str) -> list[str]:
    """host, host:4, [2001:db8::1]:4 and Slurm's node[1-3,7], separated by commas or spaces."""
    names = []
    for part in re.findall(r"(?:[^,\s\[]|\[[^\]]*\])+", text):
        names += _ranges(_without_slots(part))
    return [
        name for name in names if not name.startswith("+")
    ]  # Open MPI: +n1, the next of the others


def _without_slots(text: str) -> str:
    address = re.fullmatch(r"\[([0-9a-fA-F:]*:[0-9a-fA-F:.]*)\](:\d+)?", text)
    if address:
        return address[1]
    return text if text.count(":") > 1 else text.partition(":")[0]


RANGE_MAX = 4096  # hosts that one range of a list is written out to


def _ranges(text: str) -> list[str]:
    """node[1-3,7] as node1, node2, node3, node7."""
    match = re.fullmatch(r"([^\[]*)\[([\d,-]+)\](.*)", text)
    if match is None:
        return [text]
    names = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return [text]
        numbers = range(int(first), int(last or first) + 1)[:RANGE_MAX]
        names += [f"{match[1]}{number:0{len(first)}d}{match[3]}" for number in numbers]
    return [name for text in names for name in _ranges(text)]


def _of_file(path: Path) -> list[str]:
    """The first word of each line, without what follows a #. A file that cannot be read is the launcher's to report."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    words = [line.partition("#")[0].split() for line in lines]
    return [_without_slots(row[0]) for row in words if row]
