# SPDX-License-Identifier: BSD-3-Clause
"""Which MPI a launcher belongs to, where its library and libfabric are, and which MPIs this machine has.

A launcher is judged by what it prints for --version and by the library beside it, never by its name alone.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from thole.base import paths
from thole.base.trouble import Trouble, not_run
from thole.mpi.families import FAMILIES, Mpi, family_names, numbers


def executable(word: str) -> Path:
    """What a shell would run for this word. Raises Trouble where there is none."""
    path = shutil.which(word)
    if path is None:
        raise Trouble(f"{word} is not found or not executable", "give its full path, or add its folder to PATH")
    return Path(path)


def identify(word: str, remedy: str = "") -> Mpi:
    """What the launcher is. Raises Trouble with the remedy where that cannot be told."""
    launcher = Path(os.path.abspath(executable(word)))
    versions: list[str] = []
    for witness in _witnesses(launcher):
        banner = _banner(witness)
        for family in FAMILIES:
            match = re.search(family.banner, banner)
            if match is None:
                continue
            version = match.group(1)
            versions.append(f"{family.title} {version}")
            if not family.first <= numbers(version) < family.last:
                continue
            mpi = Mpi(family, version, launcher)
            if launcher.resolve() != launcher:
                mpi.why.append(f"{launcher} leads to {launcher.resolve()}")
            said = " ".join(match.group(0).split())
            mpi.why.append(f"`{witness.name} --version` says {said!r}")
            _find_library(mpi)
            return mpi
    if versions:
        raise Trouble(
            f"{launcher} is {versions[0]}, a version that Thole has no settings for",
            remedy or f"use --mpi with one of {', '.join(family_names())} to try its settings",
        )
    said = next(
        (line.strip() for line in _banner(launcher).splitlines() if line.strip(" -")), "nothing"
    )
    raise Trouble(
        f"cannot tell which MPI {launcher} belongs to (--version says {said[:80]!r})",
        remedy or f"name it: thole run --mpi {{{','.join(family_names())}}} {word} ...",
    )


def _witnesses(launcher: Path) -> list[Path]:
    """The launcher, then its neighbours: some launchers (prterun, mpiexec.gforker) don't say what they are."""
    folder = launcher.resolve().parent
    if folder == Path("/usr/bin") or folder == Path("/usr/local/bin"):
        return [launcher]  # neighbours there may belong to another MPI
    neighbours = [folder / name for name in ("mpiexec", "mpirun", "mpiexec.hydra")]
    return [launcher] + [
        path for path in neighbours if path != launcher and os.access(path, os.X_OK)
    ]


@functools.lru_cache
def _banner(launcher: Path) -> str:
    # Intel's mpirun is a script that wants its neighbour mpiexec.hydra in PATH.
    path = os.pathsep.join([str(launcher.parent), *filter(None, [os.environ.get("PATH")])])
    environment = {
        **os.environ,
        "PATH": path,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    try:
        done = subprocess.run(
            [str(launcher), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=20,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Trouble(
            f"`{launcher} --version` did not end within 20 s", "name the MPI with --mpi"
        ) from None
    except OSError as error:
        raise not_run(str(launcher), error, "check the file") from None
    return done.stdout.decode(errors="replace")


def _library_places(prefix: Path) -> Iterable[Path]:
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for name in (f"lib/{multiarch}", "lib", "lib64", "intel64/lib"):
        yield prefix / name


def _find_library(mpi: Mpi) -> None:
    for place in _library_places(mpi.prefix):
        for name in mpi.family.libraries:
            if os.path.exists(place / name):
                mpi.library = place / name
                break
        if mpi.library:
            break
    if mpi.library is None:
        mpi.why.append(
            f"no {mpi.family.libraries[0]} below {mpi.prefix}: its libfabric could not be checked"
        )
        return
    mpi.why.append(f"its library is {mpi.library}")
    find_fabric(mpi)


def _find_tuning(library: Path, name: str) -> Path | None:
    """A file by which an MPI chooses collectives: below the folder that its library's folder lies in, or a release's."""
    folders = [prefix / below for prefix in library.parents[1:3] for below in ("opt/mpi/etc", "etc")]
    return next((folder / name for folder in folders if name and os.path.exists(folder / name)), None)


def find_fabric(mpi: Mpi) -> None:
    """The libfabric that an MPI's library uses, and what else it brings."""
    assert mpi.library is not None
    mpi.tuning = _find_tuning(mpi.library, mpi.family.tuning)
    candidates = [mpi.library]
    candidates += [mpi.library.parent / name for name in mpi.family.components]
    for candidate in candidates:
        mpi.fabric = _linked_fabric(candidate)
        if mpi.fabric:
            mpi.why.append(f"{candidate.name} uses {mpi.fabric}")
            return
    if holds(mpi.library, b"libfabric.so"):
        for name in (
            "libfabric.so.1",
            "../libfabric/lib/libfabric.so.1",
            "../opt/mpi/libfabric/lib/libfabric.so.1",
        ):
            own = mpi.library.parent / name
            if os.path.exists(own):
                mpi.fabric = own.resolve() if ".." in name else own
                mpi.why.append(f"{mpi.library.name} loads {mpi.fabric} at run time")
                return
    if holds(mpi.library, b"fi_getinfo") and holds(
        mpi.library, b"Search for providers in specific path"
    ):
        mpi.fabric = mpi.library
        mpi.why.append(f"{mpi.library.name} has libfabric inside")
        return
    if not _ldd_answers(mpi.library):
        mpi.why.append(f"ldd, which says nothing of {mpi.library}, is missing or fails: its libfabric was not checked")


def said_by(*command: str, limit_s: float = 20, variables: Mapping[str, str] | None = None) -> str:
    """What a command prints that is only asked; nothing where it cannot be run, or does not end in time."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout)


# What lies in the folder that it is asked in is not what it imports: that may be anybody's.
_APART = "import sys\nsys.path = [folder for folder in sys.path if folder]\n"


def asked_python(python: str, code: str, *words: str, limit_s: float = 20) -> str:
    """What a Python prints that runs a few lines; nothing where it fails."""
    return said_by(python, "-c", _APART + code, *words, limit_s=limit_s).strip()


@functools.lru_cache
def _ldd(path: Path, first: Path | None = None) -> str:
    """What it says of a file; nothing where it is not there, or cannot be run."""
    ldd = shutil.which("ldd") or shutil.which("ldd", path="/usr/bin:/bin")  # PATH may be but an MPI's folder
    if ldd is None or not os.path.exists(path):
        return ""
    return said_by(ldd, str(path), variables={"LD_LIBRARY_PATH": str(first)} if first else {})


def _ldd_answers(path: Path) -> bool:
    """Whether it can be asked. Of what is no library, such as an empty file, it says nothing either."""
    return bool(_ldd(path) or _ldd(Path(sys.executable)))


@functools.lru_cache
def linked(path: Path, first: Path | None = None) -> dict[str, Path]:
    """The libraries that the dynamic linker would load with a file: soname to path. `first` is searched before all."""
    said = _ldd(path, first)
    return {
        match[1]: Path(match[2])
        for match in re.finditer(r"^\s*(\S+) => (/.*?)(?: \(0x\w+\))?$", said, flags=re.MULTILINE)
    }


def _linked_fabric(path: Path) -> Path | None:
    for name, place in linked(path).items():
        if name.startswith("libfabric.so"):
            return Path(os.path.normpath(place))
    return None


def holds(path: Path, text: bytes) -> bool:
    """Whether a file has these bytes somewhere."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(text) >= 0
    except (OSError, ValueError):  # it may not be read, or is empty
        return False


def lacks_fabric(mpi: Mpi) -> bool:
    """Whether an MPI is known to have no libfabric."""
    return mpi.library is not None and mpi.fabric is None and _ldd_answers(mpi.library)


def has_ucx_alone(mpi: Mpi) -> bool:
    """Whether an MPI has no libfabric, but UCX, and needs no more than that."""
    if mpi.library is None or not mpi.family.ucx_settings or mpi.family.ucx_first:
        return False
    return lacks_fabric(mpi) and paths.UCX in linked(mpi.library)


def can_use_thole(mpi: Mpi) -> bool:
    return not lacks_fabric(mpi) or has_ucx_alone(mpi)


def require_fabric(mpi: Mpi) -> None:
    """Raise Trouble for an MPI that cannot load a libfabric provider."""
    if lacks_fabric(mpi):
        alone = has_ucx_alone(mpi)
        raise Trouble(
            f"{mpi.label} ({mpi.launcher}) was built without libfabric, so it cannot use Thole"
            + (" through that" if alone else ""),
            "go without --through libfabric" if alone else mpi.family.without,
        )


_WITHOUT_UCX = "go without --through ucx"


def require_ucx(mpi: Mpi) -> Path:
    """The folder with Thole's library for UCX. Raises Trouble where the MPI would not take that in place of UCX's own:
    it was built without UCX, or names the folder of its own for good (RPATH)."""
    if not mpi.family.ucx_settings:
        raise Trouble(f"{mpi.label} has no way to Thole through UCX", _WITHOUT_UCX)
    ours = paths.find(paths.UCX)
    places = [mpi.library] if mpi.library else []
    places += [place.parent / name for place in places for name in mpi.family.ucx_components]
    for place in places:
        taken = linked(place, ours.parent).get(paths.UCX)
        if taken is None:
            continue
        if taken.resolve() != ours.resolve():
            raise Trouble(
                f"{place.name} of {mpi.label} takes {paths.UCX} from {taken.parent}, whatever comes first elsewhere",
                f"{_WITHOUT_UCX}, or build it with RUNPATH in place of RPATH",
            )
        mpi.why.append(f"{place.name} takes UCX's interface from {ours}")
        return ours.parent
    raise Trouble(f"{mpi.label} ({mpi.launcher}) was built without UCX, as far as can be seen", _WITHOUT_UCX)


@functools.lru_cache
def fabric_version(fabric: Path) -> str:
    """The version of a libfabric, asked in a process of its own: it runs constructors."""
    code = (
        "import ctypes\nf=ctypes.CDLL(sys.argv[1]).fi_version\nf.restype=ctypes.c_uint32\n"
        "v=f()\nprint(f'{v>>16}.{v&65535}')"
    )
    return asked_python(sys.executable, code, str(fabric))


def installed(extra: Iterable[Path] = ()) -> list[Mpi]:
    """The MPIs of this machine: in PATH, the alternatives, and virtual environments nearby."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += [Path("/usr/bin"), Path("/usr/lib64/openmpi/bin"), Path("/usr/lib64/mpich/bin")]
    folders += [Path(root) / "bin" for root in (os.environ.get("VIRTUAL_ENV"), sys.prefix) if root]
    folders += sorted(Path("/opt/intel/oneapi/mpi").glob("*/bin"))
    folders += extra
    found: dict[Path, Mpi] = {}
    for folder in dict.fromkeys(folders):
        for name in ("mpiexec", "mpiexec.openmpi", "mpiexec.mpich", "mpiexec.hydra"):
            path = folder / name
            if not (paths.is_file(path) and os.access(path, os.X_OK)):
                continue
            # Of several names for one MPI the first is kept: one line for each library.
            try:
                mpi = identify(str(path))
            except Trouble:
                continue
            found.setdefault(mpi.library or path.resolve(), mpi)
    return list(found.values())
