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
from thole.mpi.launchers import OPENMPI_PARAMETERS, Launch


def expanded(way: Launch, command: list[str]) -> list[str]:
    """The command line, with the programs of a file in place of its name: a line is what stands between two ":"."""
    named = _named(way, command, way.programs)
    beside = {word.name for word in launch.words(way, command)} - set(way.programs)
    if len(named) != 1 or "" in beside or beside.intersection(way.per_program):
        return command
    lines = [words for line in _lines(way, named[0].value) if (words := _words(way, line))]
    if not lines:
        return command
    told: list[str] = []
    for line in lines:
        told += [*([":"] if told and told[-1] != ":" else []), *line]
    return [*command[: named[0].index], *command[named[0].at + 1 :], *told]


def exports(way: Launch, command: list[str]) -> bool:
    """Whether such a file, or one of parameters, has the argument that hands variables on."""
    named = _named(way, command, way.programs + way.parameters)
    return any(way.export in line.split() for word in named for line in _lines(way, word.value))


def handed_on(mpi: Mpi, command: list[str]) -> str:
    """The list of variables to hand on that files give: those in the command line, or the MPI's own, by their rank. Of
    several in a file the last one counts; where it is an argument's value it may stand in quotes."""
    way = mpi.launch
    name = way.export_list.removeprefix("OMPI_MCA_")
    names = "|".join(OPENMPI_PARAMETERS)
    argument = rf"(?:^|\s)--?(?:{names})\s+{name}\s+(?P<quote>['\"]?)(?P<list>\S+?)(?P=quote)(?=\s|$)"
    row = rf"^[ \t]*{name}[ \t]*=[ \t]*(?P<list>.*\S)"
    for word in _named(way, command, way.parameters):
        lines = "\n".join(_lines(way, word.value))
        if given := _last(argument, lines) or _last(row, lines):
            return given
    for path in reversed(mpi.config_files):
        if given := _last(row, _text(str(path))):
            return given
    return ""


def _named(way: Launch, command: list[str], names: tuple[str, ...]) -> list[launch.Word]:
    return [word for word in launch.words(way, command) if word.name in names and word.value]


def _lines(way: Launch, path: str) -> list[str]:
    return [re.sub(way.comment, "", line) for line in _text(path).splitlines()]


def _words(way: Launch, line: str) -> list[str]:
    """As the launcher cuts a line: at blanks, but for those between quotes that begin a word, where it knows them."""
    if not way.quotes:
        return line.split()
    found = re.findall(r'"([^"]*)"(\S*)|(\S+)', line)
    return [word for word in map("".join, found) if word]


def _text(path: str) -> str:
    """As the file system's names are read, so that what is no UTF-8 stays as it is; a pipe can be read only once."""
    try:
        return os.fsdecode(Path(path).read_bytes()) if os.path.isfile(path) else ""
    except OSError:
        return ""


def _last(pattern: str, text: str) -> str:
    found = [match["list"] for match in re.finditer(pattern, text, flags=re.MULTILINE)]
    return found[-1] if found else ""
