# SPDX-License-Identifier: BSD-3-Clause
"""Running MPI jobs in tests, on this host or over those of a testbed, and reading what they leave behind.

The programs are mpi_conform (conform.py) and mpi4py's own suite (mpi4py_suite.py).
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import FULL, IN_FULL, InstalledMpi
from thole.base.text import option_words
from thole_lab import process
from thole_lab.launchers import over_tcp
from thole_lab.process import Job
from thole_lab.testbed import Testbed

HERE = Path(__file__).resolve().parent


def in_full_only() -> None:
    """What `make test` leaves out, and `make test-all` runs."""
    if not FULL:
        pytest.skip(IN_FULL)


# Of mpi4py's suite: each kind of communication once.
SELECTION = (
    "test_(comm|comm_topo|comm_inter|cco_buf|cco_nb_vec|cco_obj|cco_obj_inter|p2p_buf|p2p_obj_matched|rma|win)[.]py"
)
# With more ranks than cores test_rma takes twice as long as all others. So many ranks have mpi_conform's group
# `onesided`, which does the same; `make test-all` runs this, too.
SELECTION_MANY = SELECTION.replace("rma|", "")


# ---- Running ---------------------------------------------------------------------------------------


def job_line(
    mpi: InstalledMpi,
    ranks: int,
    *program: str | Path,
    over_thole: bool = True,
    hosts: Testbed | None = None,
    options: dict[str, str] | None = None,
) -> list[str]:
    """The command that starts a job; with hosts, from the first of them and in blocks on all."""
    command = hosts.launch(mpi.mpi, ranks, *program) if hosts else mpi.command(ranks, *program)
    if over_thole:
        way = ["--through", mpi.through] if mpi.through else []
        command = [*mpi.tool.command, "run", *way, *option_words(options or {}), *command]
    return hosts.command(0, *command) if hosts else command


def job_environment(
    mpi: InstalledMpi, env: dict[str, str] | None, over_thole: bool, hosts: Testbed | None
) -> dict[str, str]:
    """Between hosts without Thole it is that MPI's TCP."""
    tcp = over_tcp(mpi.mpi, hosts.interface) if hosts and not over_thole else {}
    return mpi.environment(**{**tcp, **(env or {})})


def start(
    mpi: InstalledMpi,
    ranks: int,
    *program: str | Path,
    over_thole: bool = True,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    hosts: Testbed | None = None,
    options: dict[str, str] | None = None,
) -> Job:
    line = job_line(mpi, ranks, *program, over_thole=over_thole, hosts=hosts, options=options)
    return process.start(line, job_environment(mpi, env, over_thole, hosts), cwd)


def finish(
    job: Job, timeout: float, hosts: Testbed | None = None
) -> subprocess.CompletedProcess[str]:
    """Wait for a job's end; the test fails where it does not come."""
    in_time = job.wait(timeout)
    if job.process.returncode != 0 and hosts is not None:
        hosts.clear()
    out, err = job.said()
    if not in_time:
        pytest.fail(f"not done after {timeout:.0f} s: {job.process.args}\n{out[-3000:]}\n{err[-3000:]}")
    return subprocess.CompletedProcess(job.process.args, job.process.returncode, out, err)


def launch(
    mpi: InstalledMpi,
    ranks: int,
    *program: str | Path,
    timeout: float,
    over_thole: bool = True,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    hosts: Testbed | None = None,
    options: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    how = {"over_thole": over_thole, "env": env, "cwd": cwd, "hosts": hosts, "options": options}
    return finish(start(mpi, ranks, *program, **how), timeout, hosts)  # type: ignore[arg-type]


# ---- What jobs leave ----------------------------------------------------------------------------------


@dataclass
class Results:
    """What mpi4py_suite.py wrote down, over all ranks."""

    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)  # of ranks that never came to the end


def results_in(folder: Path, ranks: int) -> Results:
    results = Results()
    for rank in range(ranks):
        path = folder / str(rank)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        name = ""
        for line in lines:
            if line.startswith("\t"):
                if name in results.failed:
                    results.failed[name] += line + "\n"
                continue
            word, _, name = line.partition(" ")
            results.passed += word == "ok"
            if word == "fail":
                results.failed.setdefault(name, "")
        if not lines or lines[-1] != "end":
            results.last.append(f"rank {rank}: {name or 'nothing'}")
    return results


def known_failures(name: str) -> set[str]:
    """The tests that fail under an MPI without Thole too."""
    lines = (HERE / "mpi4py_known.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    return {test for family, test, _ in rows if family == name}
