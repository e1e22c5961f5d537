# SPDX-License-Identifier: BSD-3-Clause
"""Launchers that belong to no MPI: those of resource managers.

One is a row of STARTERS. It starts the ranks of any MPI, so which that is has to be told by the program (program.py);
what the launcher does with variables, hosts and arguments is told by its row. OUTSIDE has the commands that people
may take for launchers, and what to do instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from thole.mpi.launchers import Launch


@dataclass(frozen=True)
class Starter:
    """One launcher: its names, the words that make it one, and how it is told things."""

    title: str
    names: str  # regular expression
    launch: Launch
    words: tuple[str, ...] = ()  # what may come first; none: anything


SLURM_FLAGS = (
    "bcast compress consolidate-segments contiguous debugger-test disable-status exact exclusive external-launcher "
    "help hold immediate interactive kill-on-bad-exit label multi-prog nice no-allocate no-kill oom-kill-step "
    "overcommit overlap oversubscribe preserve-env propagate pty quiet quit-on-interrupt reboot resv-ports send-libs "
    "share spread-job spread-segments stepmgr test-only unbuffered usage use-min-nodes verbose version x11"
)

SLURM = Launch(
    lists=("w", "nodelist"),
    files=("F", "nodefile"),
    variables=("SLURM_HOSTFILE",),
    pairs=(),
    flags=tuple(SLURM_FLAGS.split()),
    letters="ABbCcDdeFGiJLMmNnopqrSTtWwx",
    counts=("N", "nodes"),
    forwards="srun hands the whole environment to all ranks, or what --export and SLURM_EXPORT_ENV name",
    own="what Slurm sends between hosts",
    exports=("export",),
    exports_by="SLURM_EXPORT_ENV",
    listed=("multi-prog",),
    pmi=("mpi",),
    pmi_by="SLURM_MPI_TYPE",
)

FLUX_FLAGS = "dry-run debug debug-emulate exclusive help label-io unbuffered verbose wait watch quiet progress jps"

FLUX = Launch(
    lists=(),
    files=(),
    variables=(),
    pairs=(),
    flags=tuple(FLUX_FLAGS.split()),
    letters="BcgNnoqSt",
    counts=("N", "nodes"),
    forwards="Flux hands the whole environment to all ranks, but for what --env and --env-remove take away",
    own="what Flux sends between hosts",
    rules=("env", "env-remove", "env-file"),
    rule="--env={name}",
    subcommand=True,
)

JSRUN = Launch(
    lists=(),
    files=(),
    variables=(),
    pairs=(),
    flags=("immediate", "help", "version"),
    letters="abcdDeEfFghkKlLmMnoprtUX",
    forwards="jsrun hands the whole environment to all ranks",
    own="what LSF sends between hosts",
)

STARTERS = (
    Starter("Slurm", r"srun", SLURM),
    Starter("Flux", r"flux", FLUX, words=("run", "submit")),
    Starter("LSF's jsrun", r"jsrun", JSRUN),
)

INSIDE = "put `thole run` inside: before the srun or mpiexec of the script or command that it starts"
SINGLE = "use the MPI's own mpiexec, which finds the hosts of the batch system by itself"

# Commands that start no ranks themselves: by their names, why, and the remedy.
OUTSIDE = {
    r"sbatch|qsub|bsub": ("submits a script", INSIDE),
    r"salloc": ("starts a command on this host alone", "for example: salloc -N 2 thole run srun ./app"),
    r"flux": ("with this word starts no ranks", "for example: thole run flux run -n 4 ./app"),
    r"ssh|rsh|pdsh|clush": ("starts a command on another host", "put it inside: ssh HOST thole run mpiexec ..."),
    r"docker|podman|apptainer|singularity|enroot|ch-run": (
        "starts a command in a container",
        "install Thole in there, and put `thole run` before the mpiexec that the container starts",
    ),
    r"thole": ("is what is running", "name it once: thole run mpiexec ..."),
    r"blaunch|lsrun|pbsdsh|pbs_tmrsh": ("starts single processes that know nothing of each other", SINGLE),
}


def starter(word: str, following: str = "") -> Starter | None:
    """The launcher that a word of a command line names; following is the word after it."""
    for row in STARTERS:
        if re.fullmatch(row.names, Path(word).name) and (not row.words or following in row.words):
            return row
    return None


def outside(word: str) -> tuple[str, str] | None:
    """Why a command is no launcher, and what to do; None for one that is not known."""
    for names, reason in OUTSIDE.items():
        if re.fullmatch(names, Path(word).name):
            return reason
    return None
