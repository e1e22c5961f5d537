# SPDX-License-Identifier: BSD-3-Clause
"""What a command writes for its user: the standard output, and files that are named on the command line.

A file is tried before work begins, so that nobody measures for minutes and then has no place for the result. A full
disk raises what cli.py knows how to say; of a reader that goes, streams.py takes care.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from thole.base.trouble import Trouble


def console(width: int, markup: bool = True) -> Console:
    """The standard output: as wide as the terminal, or of this width where it is none."""
    return Console(width=None if sys.stdout.isatty() else width, markup=markup)


def progress_console() -> Console:
    """Where bars are drawn while something runs."""
    return Console(stderr=True)


def table(*titles: str, right: Container[str] = ()) -> Table:
    """Columns without lines around them; those in `right` hold numbers."""
    made = Table(box=None, pad_edge=False)
    for title in titles:
        made.add_column(title, overflow="fold", justify="right" if title in right else "left")
    return made


@contextlib.contextmanager
def progress(
    total: int, console: Console | None = None, lines: bool = False, still: bool = False
) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal. What this gives is called with a text as each step begins.

    lines: where there is no terminal, a line each. still: nothing is drawn during a step, which may be a measurement.
    """
    where = console or progress_console()
    begin = time.monotonic()
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, console=where, transient=True, auto_refresh=not still, disable=not where.is_terminal
    ) as bar:
        task = bar.add_task("", total=total, completed=-1)

        def step(text: str) -> None:
            bar.update(task, advance=1, description=text, refresh=still)
            if lines and not where.is_terminal:
                print(f"[{time.monotonic() - begin:5.1f} s] {text}", file=sys.stderr, flush=True)

        yield step


def refusal(path: Path, error: OSError) -> Trouble:
    return Trouble(f"{path} cannot be written: {error.strerror}", "choose another file")


def check_file(path: Path) -> None:
    """Raise Trouble where a file cannot be written. One that is there stays as it is."""
    new = not os.path.lexists(path)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        if new:
            os.unlink(path)
    except OSError as error:
        raise refusal(path, error) from None


def write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise refusal(path, error) from None


def writable(path: Path) -> bool:
    """Whether a file can be created or replaced there, folders included."""
    for folder in path.parents:
        if os.path.isdir(folder):
            return os.access(folder, os.W_OK | os.X_OK)
    return False
