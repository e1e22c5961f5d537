# SPDX-License-Identifier: BSD-3-Clause
"""Jobs in two guests: programs that start others on both, by the agent of shell.py, and whole MPIs.

    Pair.run       a command in g1, while g2 does what it is asked to; before it and after it both run what `both` says
    Pair.launch    the command line of an MPI's launcher, for ranks in blocks on both
    Pair.thole     the command `thole` of the build

In a command `on g2 LINE` runs a line of the shell in g2.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest as guests
from conform import LOG
from kernels import ROOT
from thole.base.text import option_words
from thole_lab.launchers import across, launcher_of
from thole_lab.venvs import Environment

AGENT = guests.HERE / "shell.py"
NAMES = ("g1", "g2")
INTERFACE = "eth0"
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all"


@dataclass(frozen=True)
class Pair:
    bed: guests.Bed
    build: Path
    folder: Path  # of this test's

    @property
    def thole(self) -> list[str]:
        start = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); from thole.base import paths; "
        start += f"paths.use_build({str(self.build)!r}); from thole.cli import main; raise SystemExit(main())"
        return [sys.executable, "-c", start]

    def launch(self, mpi: Environment, ranks: int, *program: str | os.PathLike[str]) -> list[str]:
        return [*across(mpi.mpi, NAMES, str(AGENT), INTERFACE, ranks), *map(str, program)]

    def over_thole(self, mpi: Environment, ranks: int, *program: str | os.PathLike[str], **options: str) -> str:
        """The same by `thole run`, as a line for the shell. The provider tells its counters when an endpoint closes."""
        settings = {**LOG, **dict(launcher_of(mpi.mpi).environment)}
        words = ["env", *(f"{name}={value}" for name, value in settings.items())]
        words += [*self.thole, "run", *option_words(options)]
        return shlex.join([*words, *self.launch(mpi, ranks, *program)])

    def run(
        self, command: str, both: str = "", after: str = "", user: str = "", **wishes: Any
    ) -> tuple[guests.Result, guests.Result]:
        """With `user` (NOBODY) all but `both` and `after` is run so."""
        agent = f"python3 -S -E {AGENT}"
        head = f"set -e\nchmod o+rx /\nchmod 1777 /tmp\n{both}\n"
        says = f"set -e\ncd /tmp\non() {{ {agent} \"$@\"; }}\non g2 true\n{command}\n"
        job = f"{user} bash -c {shlex.quote(says)}"
        # However it ends, g2 is told.
        lines = (f"trap '{agent} --end g2' EXIT\n{head}{job}\n{after}", f"{head}{user} {agent} serve\n{after}")
        made = [guests.Job(line, self.folder / name, **wishes) for line, name in zip(lines, NAMES)]
        return guests.run_pair(self.bed, *made)
