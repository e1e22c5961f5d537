# SPDX-License-Identifier: BSD-3-Clause
"""What a launcher is told in files: programs with their arguments, and variables to hand on.

A file of programs is put into the command line in its place, where that means the same; so all that is known of command
lines holds for it. Files that cannot be read are the launcher's to report.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from thole.mpi import launch
from thole.mpi.families import Mpi
from thole.mpi.launchers import Launch


def expanded(way: Launch, command: list[str]) -> list[str]:
    """The command line, with the programs of a file in place of its name: a line is what stands between two ":"."""
    named = _named(way, command, way.programs)
    beside = {word.name for word in launch.words(way, command)} - set(way.programs)
    if len(named) != 1 or "" in beside or beside.intersection(way.per_program):
        return command
    lines = [line for line in map(str.split, _lines(way, named[0].value)) if line]
    if not lines:
        return command
    words: list[str] = []
    for line in lines:
        words += [*([":"] if words and words[-1] != ":" else []), *line]
    return [*command[: named[0].index], *command[named[0].at + 1 :], *words]


def exports(way: Launch, command: list[str]) -> bool:
    """Whether such a file, or one of parameters, has the argument that hands variables on."""
    named = _named(way, command, way.programs + way.parameters)
    return any(way.export in line.split() for word in named for line in _lines(way, word.value))


def handed_on(mpi: Mpi, command: list[str]) -> str:
    """The list of variables to hand on that files give: those in the command line, or the MPI's own, by their rank."""
    way = mpi.launch
    name = way.export_list.removeprefix("OMPI_MCA_")
    for word in _named(way, command, way.parameters):
        if given := _first(rf"(?:^|\s)--?g?mca\s+{name}\s+(\S+)", _text(word.value)):
            return given
    for path in reversed(mpi.config_files):
        if given := _first(rf"^[ \t]*{name}[ \t]*=[ \t]*(.*\S)", _text(str(path))):
            return given
    return ""


def _named(way: Launch, command: list[str], names: tuple[str, ...]) -> list[launch.Word]:
    return [word for word in launch.words(way, command) if word.name in names and word.value]


def _lines(way: Launch, path: str) -> list[str]:
    return [re.sub(way.comment, "", line) for line in _text(path).splitlines()]


def _text(path: str) -> str:
    """As the file system's names are read, so that what is no UTF-8 stays as it is; a pipe can be read only once."""
    try:
        return os.fsdecode(Path(path).read_bytes()) if os.path.isfile(path) else ""
    except OSError:
        return ""


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text, flags=re.MULTILINE)
    return match[1] if match else ""
