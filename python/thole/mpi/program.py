# SPDX-License-Identifier: BSD-3-Clause
"""Which MPI a program uses, by the libraries that it loads: for launchers that belong to no MPI.

A program of machine code says so in its needed libraries, as the dynamic linker finds them here and now; a Python
program by the MPI that its mpi4py loads. What the library itself gives for its version decides.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Container, Sequence
from pathlib import Path

from thole.base import paths
from thole.base.trouble import Trouble
from thole.mpi.families import FAMILIES, Mpi, family_names, numbers
from thole.mpi.identify import asked_python, find_fabric, holds, linked

LIBRARY = re.compile(r"lib(mpi|mpich|mpi_mt|mpifort|mpicxx|mpi_cxx|mpi_mpifh|mpi_usempi\w*)\.so(\.\d+)*")
LIBRARY_OF_C = re.compile(r"lib(mpi|mpich)\.so(\.\d+)*")
LIBRARY_OF_SHMEM = re.compile(r"liboshmem\.so(\.\d+)*")
# Run-time libraries of sanitizers that allocate all of a program's memory.
SANITIZER = re.compile(r"lib(hwasan|[alt]san)\.so(\.\d+)*|libclang_rt\.(hwasan|[alt]san)[-\w]*\.so")
SESSIONS = (b"MPI_Session_init", b"mpi_session_init")  # in C and in Fortran
IMRECV = (b"MPI_Imrecv", b"mpi_imrecv")
# What makes windows, as symbols, by their beginning. Open MPI 4.1 puts other calls of theirs, in C++, into each program.
WINDOWS = {
    start: tuple(
        start + f"{made}{end}\0".encode()
        for made in ("create", "create_dynamic", "allocate", "allocate_shared")
        for end in ends
    )
    for start, ends in {b"MPI_Win_": ("", "_c"), b"mpi_win_": ("_", "__", "_cptr_", "_f08_")}.items()
}
CONTEXTS_OF_UCX = (b"ucp_init_version",)  # what UCX's header makes of ucp_init
PYTHON = re.compile(r"python[\d.]*")
ASK_S = 30.0  # for a Python to load NumPy and an MPI from a busy file server

# Prints the version of an MPI's library, which may be asked before anything is started.
ASK_LIBRARY = """
import ctypes
text, length = ctypes.create_string_buffer(16384), ctypes.c_int()
ctypes.CDLL(sys.argv[1]).MPI_Get_library_version(text, ctypes.byref(length))
print(text.value.decode(errors="replace"))
"""

# Prints the file of the MPI that mpi4py has loaded.
ASK_PYTHON = """
import mpi4py, re
mpi4py.rc.initialize = False
from mpi4py import MPI
found = re.findall(rb"^(?:\\S+ +){5}(/.*/libmpi[.\\w]*)$", open("/proc/self/maps", "rb").read(), re.MULTILINE)
sys.stdout.buffer.write(b"\\n".join(sorted(set(found))))
"""


def identify_program(words: Sequence[str], launcher: Path) -> Mpi:
    """The MPI of the program that a launcher is given with its arguments. Raises Trouble with the remedy."""
    name = words[0] if words else "no program"
    for word in words:
        path = shutil.which(word)
        library = library_of(Path(path)) if path else None
        if path and library:
            return _of_library(library, launcher, f"{path} loads {library}")
    raise Trouble(
        f"cannot tell which MPI {name} uses, and {launcher.name} starts those of any",
        f"name it: thole run --mpi {{{','.join(family_names())}}} {launcher.name} ...",
    )


def library_of(program: Path) -> Path | None:
    """The MPI library that a program would load, or None where it is not seen to load any."""
    try:
        with program.open("rb") as file:
            start = file.read(256)
    except OSError:
        return None
    if start.startswith(b"#!"):
        return _of_script(start.partition(b"\n")[0].decode(errors="replace")[2:])
    if PYTHON.fullmatch(program.resolve().name):
        return _of_python(str(program))
    return _library_linked(program)


def _library_linked(program: Path) -> Path | None:
    return next((path for name, path in linked(program).items() if LIBRARY_OF_C.fullmatch(name)), None)


def _of_script(line: str) -> Path | None:
    """By a script's first line: Python is asked, others cannot be."""
    for word in line.split():
        path = shutil.which(word) if PYTHON.fullmatch(Path(word).name) else None
        if path:
            return _of_python(path)
    return None


def unfit(word: str, mpi: Mpi) -> str:
    """Why a program cannot run over Thole as a launcher starts it; nothing where that is not seen. Python is not asked:
    it takes a while, and mpi4py says such a thing itself."""
    path = shutil.which(word) or shutil.which(os.path.join(".", word))
    if path is None:
        return f"{word} is not found or not executable here"
    library = _library_linked(Path(path))
    if library is None or mpi.library is None or library.resolve() == mpi.library.resolve():
        return ""
    try:
        other = _of_library(library, mpi.launcher, "")
    except Trouble:
        return ""
    if other.family.name == mpi.family.name:
        return ""
    return (
        f"{word} loads {other.label} ({library}), and {mpi.launcher} belongs to {mpi.label}: each rank may be alone, "
        f"or not go over Thole; start it with the mpiexec of {other.label}"
    )


def is_linked(program: Path) -> bool:
    """Whether a program is machine code that loads an MPI by itself, or by a library of its own."""
    return any(LIBRARY.fullmatch(name) for name in linked(program))


def uses_sessions(program: Path) -> bool:
    """Whether a program of machine code, or a library of its that is no MPI's, calls for a session, as far as it names
    the call."""
    return _names(program, SESSIONS)


def uses_imrecv(program: Path) -> bool:
    """The same of MPI_Imrecv."""
    return _names(program, IMRECV)


def uses_windows(program: Path) -> bool:
    """The same of windows, and so of one-sided operations. Files may be long: few are read for more than a beginning."""
    return any(
        holds(path, start) and any(holds(path, name) for name in names)
        for path in _files(program)
        for start, names in WINDOWS.items()
    )


def uses_shmem(program: Path) -> bool:
    """Whether a program of machine code loads Open MPI's OpenSHMEM."""
    return any(LIBRARY_OF_SHMEM.fullmatch(name) for name in linked(program))


def uses_ucx(program: Path, mpi: Mpi) -> bool:
    """Whether a program of machine code, or a library of its that the MPI does not load, makes contexts of UCX's."""
    return _names(program, CONTEXTS_OF_UCX, {paths.UCX, *(linked(mpi.library) if mpi.library else ())})


def sanitizer_of(program: Path) -> str:
    """The library by which a sanitizer watches a program's memory; nothing where it is in the program, or there is
    none."""
    return next((name for name in linked(program) if SANITIZER.fullmatch(name)), "")


def _files(program: Path, apart: Container[str] = ()) -> list[Path]:
    """A program and its libraries, but for an MPI's and those that are `apart`."""
    loaded = linked(program).items()
    return [program, *(path for name, path in loaded if not LIBRARY.fullmatch(name) and name not in apart)]


def _names(program: Path, calls: Sequence[bytes], apart: Container[str] = ()) -> bool:
    return any(holds(path, name) for path in _files(program, apart) for name in calls)


@functools.lru_cache
def _of_python(python: str) -> Path | None:
    said = asked_python(python, ASK_PYTHON, limit_s=ASK_S)
    return Path(said.split("\n")[0]) if said.startswith("/") else None


def _of_library(library: Path, launcher: Path, why: str) -> Mpi:
    said = asked_python(sys.executable, ASK_LIBRARY, str(library), limit_s=ASK_S)
    for family in FAMILIES:
        match = re.search(family.says, said)
        if match is None or not family.first <= numbers(match[1]) < family.last:
            continue
        says = " ".join(match[0].split())
        mpi = Mpi(family, match[1], launcher, library, why=[why, f"{library.name} says {says!r}"])
        find_fabric(mpi)
        return mpi
    says = " ".join(said.split())[:80]
    raise Trouble(
        f"{why}, an MPI that Thole has no settings for ({says or 'it does not tell its version'})",
        f"use --mpi with one of {', '.join(family_names())} to try its settings",
    )
