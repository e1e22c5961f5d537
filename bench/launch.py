# SPDX-License-Identifier: BSD-3-Clause
"""How the benchmark is compiled with an MPI that thole.mpi found, and started with its launcher."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from thole.base.trouble import Trouble
from thole.mpi.families import Mpi
from thole.mpi.identify import identify

FLAGS = ["-O3", "-g", "-std=gnu11", "-D_GNU_SOURCE"]


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


def command(mpi: Mpi, cpus: list[int], ranks: int, arguments: list[str]) -> list[str]:
    """The launcher's command line up to the program: one rank a core, or as many as must share."""
    listed = ",".join(str(cpus[rank % len(cpus)]) for rank in range(ranks))
    head = [str(mpi.launcher)]
    if mpi.family.name == "mpich":
        head += ["-n", str(ranks), "-bind-to", f"user:{listed}"]
    elif mpi.family.name == "impi":
        head += ["-n", str(ranks), "-genv", "I_MPI_PIN_PROCESSOR_LIST", listed]
    else:
        if os.geteuid() == 0:
            head.append("--allow-run-as-root")
        chosen = mpi.family.pinned if ranks <= len(cpus) else mpi.family.crowded
        head += ["-n", str(ranks), *chosen]
    return head + arguments


def compile_mpi(mpi: Mpi, source: Path, program: Path, found: dict[str, Mpi]) -> None:
    """With the MPI's own compiler. Intel's runtime has none: MPICH's mpi.h is of the same binary interface."""
    folder = mpi.launcher.parent
    if mpi.family.name != "impi":
        name = (
            "mpicc"
            if mpi.launcher.name == "mpiexec"
            else mpi.launcher.name.replace("mpiexec", "mpicc")
        )
        compile_c([str(folder / name)], source, program)
        return
    lender = found.get("mpich")
    if lender is None or mpi.library is None:
        raise Trouble(
            "Intel MPI's runtime has no mpi.h, and there is no MPICH to lend it", "install MPICH"
        )
    include = lender.launcher.parent.parent / "include"
    compile_c(
        ["cc", f"-I{include}"],
        source,
        program,
        [str(mpi.library), f"-Wl,-rpath,{mpi.library.parent}"],
    )


def compile_c(
    compiler: list[str], source: Path, program: Path, libraries: list[str] | None = None
) -> None:
    line = [*compiler, *FLAGS, str(source), "-o", str(program), *(libraries or [])]
    program.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Trouble(
            f"{line[0]} cannot be run: {error.strerror}", "install a C compiler"
        ) from None
    if done.returncode != 0:
        raise Trouble(f"{' '.join(line)}\n{done.stderr[-2000:]}", "see the messages above")
