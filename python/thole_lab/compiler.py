# SPDX-License-Identifier: BSD-3-Clause
"""Compiling C programs, with an MPI or without: those of the benchmark and of the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from thole.base.trouble import Trouble
from thole.mpi.families import Mpi


def compile_c(
    compiler: Sequence[str], flags: Sequence[str], sources: Sequence[Path], program: Path, libraries: Sequence[str] = ()
) -> None:
    line = [*compiler, *flags, *map(str, sources), "-o", str(program), *libraries]
    program.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Trouble(f"{line[0]} cannot be run: {error.strerror}", "install a C compiler") from None
    if done.returncode != 0:
        raise Trouble(f"{' '.join(line)}\n{done.stderr[-2000:]}", "see the messages above")


def compile_mpi(
    mpi: Mpi, lender: Mpi | None, flags: Sequence[str], sources: Sequence[Path], program: Path
) -> None:
    """With the MPI's own compiler. Intel's runtime has none: MPICH's mpi.h is of the same binary interface."""
    wrapper = mpi.launcher.with_name(mpi.launcher.name.replace("mpiexec", "mpicc"))
    if wrapper.exists():
        compile_c([str(wrapper)], flags, sources, program, ["-lpthread"])
        return
    if lender is None or mpi.library is None:
        raise Trouble(f"{mpi.label} has no mpicc, and there is no MPICH to lend its mpi.h", "install MPICH")
    include = lender.launcher.parent.parent / "include"
    libraries = [str(mpi.library), f"-Wl,-rpath,{mpi.library.parent}", "-lpthread"]
    compile_c(["cc", f"-I{include}"], flags, sources, program, libraries)
