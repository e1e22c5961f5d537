# SPDX-License-Identifier: BSD-3-Clause
"""Which MPIs the benchmark is run with, and how their launchers start it inside this node."""

from __future__ import annotations

from pathlib import Path

from thole.base.trouble import Trouble
from thole.mpi.families import Mpi
from thole.mpi.identify import identify
from thole_lab.launchers import on_cores


def find(places: list[Path]) -> dict[str, Mpi]:
    """The first MPI of each family in these environments, or in those just below, or the system's."""
    prefixes = [
        prefix for place in places if place.is_dir() for prefix in (place, *sorted(place.iterdir()))
    ]
    names = [str(prefix / "bin" / "mpiexec") for prefix in prefixes]
    found: dict[str, Mpi] = {}
    for name in [*names, "mpiexec.openmpi"]:
        try:
            mpi = identify(name)
        except Trouble:
            continue
        found.setdefault(mpi.family.name, mpi)
    return found


def python(mpi: Mpi, places: list[Path]) -> Path:
    """The Python whose mpi4py is this MPI's: that of its environment, or of one that has its family's name."""
    for prefix in (mpi.launcher.parent.parent, *(place / mpi.family.name for place in places)):
        if list(prefix.glob("lib/python3*/site-packages/mpi4py")):
            return prefix / "bin" / "python3"
    raise Trouble(f"{mpi.label}: there is no mpi4py for it", "run `make venvs`, or name its environment by --venvs")


def command(mpi: Mpi, cpus: list[int], ranks: int, arguments: list[str]) -> list[str]:
    """The launcher's command line up to the program: one rank a core, or as many as must share."""
    return [str(mpi.launcher), "-n", str(ranks), *on_cores(mpi, cpus, ranks), *arguments]
