# SPDX-License-Identifier: BSD-3-Clause
"""What the code says of itself: the library's tables, as tables.c prints them, and the parser of the tool."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Option:
    name: str
    kind: str
    default: str
    choices: str
    min: int
    max: int
    running: bool  # may change while an endpoint is open
    help: str


@dataclass
class Tables:
    options: list[Option] = field(default_factory=list)
    counters: list[tuple[str, str]] = field(default_factory=list)
    members: dict[str, dict[str, int]] = field(default_factory=dict)  # of structures in shared memory: offsets
    version: str = ""


def read_tables(path: Path) -> Tables:
    tables = Tables()
    for line in path.read_text().splitlines():
        kind, *row = line.split("\t")
        if kind == "option":
            name, what, default, choices, low, high, running, text = row
            tables.options.append(
                Option(name, what, default, choices, int(low), int(high), running == "yes", text)
            )
        elif kind == "counter":
            tables.counters.append((row[0], row[1]))
        elif kind == "member":
            tables.members.setdefault(row[0], {})[row[1]] = int(row[2])
        elif kind == "version":
            tables.version = row[0]
    return tables


class _Absent(ModuleType):
    """Stands for a package that the tool only needs when it runs."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _AbsentFinder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.split(".")[0] in ("rich", "matplotlib", "numpy"):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def tool_parser() -> argparse.ArgumentParser:
    """The parser of the command line, without what its modules need to run."""
    os.environ["COLUMNS"] = "100"
    os.environ["HOME"] = "/~"  # what is said of the user's files is said of everybody's
    os.environ["NO_COLOR"] = "1"  # argparse of Python 3.14 has colours
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "THOLE_OPTIONS_FILE", "FORCE_COLOR", "PYTHON_COLORS"):
        os.environ.pop(name, None)
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _AbsentFinder())  # type: ignore[arg-type]
    sys.path.insert(0, str(ROOT / "python"))
    from thole import cli

    return cli.parser()


def commands_of(top: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, line of help and parser of each subcommand."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, parser in action.choices.items():
                yield name, lines.get(name, ""), parser


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]


DATAGRAM = ROOT / "src" / "transport" / "datagram"


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
