# SPDX-License-Identifier: BSD-3-Clause
"""MPIs together with a Python that has mpi4py for them: what comparisons and system tests run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from thole.mpi.families import Mpi
from thole.mpi.identify import identify

from thole_lab.launchers import inside, launcher_of

# Variables that would send messages another way, or change what is measured or expected.
OTHERS = ("FI_", "MPIR_CVAR_", "HYDRA_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_", "PMI_", "I_MPI_", "UCX_")
FOREIGN = ("THOLE_", *OTHERS)

SYSTEM_LAUNCHERS = (Path("/usr/bin/mpiexec.openmpi"),)


def without(prefixes: tuple[str, ...]) -> dict[str, str]:
    """This process's environment, but for the variables that begin so."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without what steers an MPI, libfabric or Thole."""
    return {**without(FOREIGN), **more}


@dataclass(frozen=True)
class Environment:
    """An MPI, and a Python whose mpi4py uses it."""

    mpi: Mpi
    python: Path

    @property
    def name(self) -> str:
        return self.mpi.family.name

    def command(
        self, ranks: int, *program: str | os.PathLike[str], pinned: bool = False
    ) -> list[str]:
        """The launcher's command line. Not pinned: any number of ranks on any number of cores."""
        words = inside(self.mpi, sorted(os.sched_getaffinity(0)) if pinned else [], ranks)
        return [str(self.mpi.launcher), "-n", str(ranks), *words, *map(str, program)]

    def environment(self, **more: str) -> dict[str, str]:
        return clean_environment(**{**dict(launcher_of(self.mpi).environment), **more})


def find(folders: Iterable[Path]) -> dict[str, Environment]:
    """Environments by the name of their MPI: virtual environments below the folders, and the system's MPI."""
    homes = sorted(
        python.parent.parent for folder in folders for python in folder.glob("*/bin/python")
    )
    found: dict[str, Environment] = {}
    for home in homes:
        launcher = home / "bin" / "mpiexec"
        if os.path.exists(launcher):
            mpi = identify(str(launcher))
            found.setdefault(mpi.family.name, Environment(mpi, home / "bin" / "python"))
    for launcher in SYSTEM_LAUNCHERS:
        if not os.path.exists(launcher):
            continue
        mpi = identify(str(launcher))
        # mpi4py from the environment that bears the MPI's name, else from an Open MPI 5: the same ABI.
        pythons = [home / "bin" / "python" for home in homes if home.name == mpi.family.name]
        pythons += [found["openmpi"].python] if "openmpi" in found else []
        if pythons:
            found.setdefault(mpi.family.name, Environment(mpi, pythons[0]))
    return found
