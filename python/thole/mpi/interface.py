# SPDX-License-Identifier: BSD-3-Clause
"""By which interface an MPI's messages reach Thole, libfabric's or UCX's, and what goes with UCX's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from thole.base import native, paths
from thole.base.trouble import Trouble
from thole.mpi import launch
from thole.mpi.families import Mpi, agrees, numbers
from thole.mpi.identify import has_ucx_alone, require_fabric, require_ucx
from thole.mpi.program import is_linked, uses_imrecv, uses_sessions, uses_shmem, uses_ucx

OFF = ("off", "no", "false", "0")  # as options say it

OF_UCX = "UCX_"
OF_UCX_READ = ("UCX_TLS", "UCX_LOG_")  # what has a setting of ours, and what chooses its log


def choose(mpi: Mpi, through: str, command: list[str], chosen: dict[str, str]) -> Path | None:
    """Settle by which interface the MPI's messages reach Thole; the folder with our library for UCX, where by that."""
    family = mpi.family
    by_ucx = through == "ucx" or (through == "auto" and (family.ucx_first or has_ucx_alone(mpi)))
    if family.ucx_first or not by_ucx:
        require_fabric(mpi)
    mpi.through = through if by_ucx else "libfabric"
    if not by_ucx:
        return None
    try:
        if through == "auto" and family.ucx_first:
            _judge_programs(mpi, command)
            _judge_options(chosen)
        if capable := capable_in(mpi, command):
            alone = f"take them away (setcap -r {capable}), or use an {family.title} with libfabric"
            raise Trouble(
                f"{capable} has file capabilities, and reads no LD_LIBRARY_PATH by which it would find {paths.UCX}",
                alone if has_ucx_alone(mpi) else "go without --through ucx",
            )
        return require_ucx(mpi)
    except Trouble as trouble:
        if through == "ucx" or not family.ucx_first:
            raise
        mpi.through = "libfabric"
        mpi.why.append(f"its messages go through libfabric, since {trouble.what}")
        return None


def _judge_programs(mpi: Mpi, command: list[str]) -> None:
    """Raise Trouble for programs that may need what Open MPI has with libfabric and not with UCX: to make communicators
    from a session's groups, or to wait for what MPI_Imrecv receives; or more of UCX than messages, which they find
    where UCX's own library is left in its place. What a script or an interpreter will load is not known before."""
    ends_at_imrecv = numbers(mpi.version) < mpi.family.ucx_imrecv
    places = launch.programs(mpi.launch, command)
    if not places:
        raise Trouble("no program is seen in the command line")
    for word in (command[place] for place in places):
        path = shutil.which(word)
        if path is None or not is_linked(Path(path)):
            raise Trouble(f"{word} is no program of machine code that is seen to load an MPI")
        if uses_sessions(Path(path)):
            raise Trouble(f"{word} uses MPI's sessions, which {mpi.family.title} has not with UCX's")
        if ends_at_imrecv and uses_imrecv(Path(path)):
            raise Trouble(f"{word} uses MPI_Imrecv, at whose requests {mpi.label} may end by SIGSEGV with UCX's")
        if uses_shmem(Path(path)):
            raise Trouble(f"{word} uses OpenSHMEM, which needs more of UCX than messages")
        if uses_ucx(Path(path), mpi):
            raise Trouble(f"{word} calls UCX by itself, and may need more of it than messages")


def _judge_options(chosen: dict[str, str]) -> None:
    """Raise Trouble for options that mean nothing with UCX's interface."""
    value = chosen.get("progress_thread")
    if value is None:
        value = next(option.value for option in native.options() if option.name == "progress_thread")
    if value.lower() not in OFF:
        raise Trouble("the option progress_thread has no effect with UCX's")


def options_of_fabric() -> dict[str, str]:
    """Options that are set in libfabric's way; names that are none are libfabric's to judge."""
    variables = {option.name: f"FI_{option.variable}" for option in native.options()}
    return {name: os.environ[key] for name, key in variables.items() if os.environ.get(key)}


def capable_in(mpi: Mpi, command: list[str]) -> str | None:
    """The first program with file capabilities."""
    return next((word for word in launch.started(mpi.launch, command) if _has_capabilities(word)), None)


def _has_capabilities(word: str) -> bool:
    path = shutil.which(word)
    try:
        return path is not None and bool(os.getxattr(path, "security.capability"))
    except OSError:  # it has none, or the file system knows no such thing
        return False


def ucx_path(folder: Path | None) -> str:
    """Our library's folder here, and where it is below THOLE_PREFIX on hosts that have it there."""
    folders = [folder] if folder else []
    prefix = os.environ.get("THOLE_PREFIX")
    if folder and prefix:
        folders += [place / "ucx" for place in paths.provider_folders(Path(prefix))]
    return ":".join(map(str, dict.fromkeys(folders)))


def by_libfabric(mpi: Mpi, name: str, value: str) -> str:
    """What follows where a value of the user's takes messages to Thole by libfabric after all; nothing where not."""
    rows = {row.name: row.value for row in mpi.family.settings}
    insists = mpi.through == "ucx" and name == "OMPI_MCA_pml"
    return "messages go over Thole by libfabric" if insists and agrees(name, value, rows[name]) else ""


def settings_ignored() -> list[str]:
    """Settings of the user's for UCX that mean nothing to Thole."""
    return [name for name in sorted(os.environ) if name.startswith(OF_UCX) and not name.startswith(OF_UCX_READ)]
