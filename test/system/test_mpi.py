# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified MPIs over Thole: conformance byte by byte, proof that the bytes take that way, mpi4py's own suite.

MPI_TESTS=full in the environment runs mpi4py's whole suite with four and five ranks too, which takes a quarter of an hour on
two cores, instead of a selection of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import InstalledMpi

HERE = Path(__file__).resolve().parent
SOURCES = sorted(HERE.glob("mpi_*.c"))
FULL = os.environ.get("MPI_TESTS") == "full"

# All of mpi_conform's groups that run when none is named.
GROUPS = (
    "modes order wildcards probe cancel truncation types collectives nonblocking-collectives onesided threads"
).split()

# Open MPI 4.1 sends a persistent buffered send's first bytes again, and its osc/rdma crashes in a
# compare-and-swap on a rank's own window, or on one that it allocated. So it does without Thole.
CONFORM_FLAGS = {"openmpi4": ("--stale-bsend", "--swap-fails")}

HUGE_BYTES = 12 << 30  # two buffers of over 4 GiB each, and what else runs

# Of mpi4py's suite with more ranks than two: each kind of communication once.
SELECTION = "test_(comm|comm_topo|comm_inter|cco_buf|cco_nb_vec|cco_obj|cco_obj_inter|p2p_buf|p2p_obj_matched|rma|win)[.]py"
SUITE_MPIS = ("mpich", "openmpi")


# ---- Running ---------------------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    """The processes below one, as of now."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = status.read_text()
            parent = int(text.rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(status.parent.name))
    found: list[int] = []
    ahead = [pid]
    while ahead:
        children = parents.get(ahead.pop(), [])
        found += children
        ahead += children
    return found


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a launcher with its ranks, in groups of their own or not, and return what was said."""
    below = descendants(process.pid)
    process.terminate()  # a launcher that is asked takes its ranks along
    try:
        said = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        said = ("", "")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return said


def launch(
    mpi: InstalledMpi,
    ranks: int,
    *program: str | Path,
    timeout: float,
    over_thole: bool = True,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    command = mpi.command(ranks, *program)
    if over_thole:
        command = [*mpi.tool.command, "run", *command]
    process = subprocess.Popen(
        command,
        env=mpi.environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=cwd,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        out, err = end(process)
        pytest.fail(f"not done after {timeout:.0f} s: {command}\n{out[-3000:]}\n{err[-3000:]}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


Compile = Callable[[InstalledMpi], Path]


@pytest.fixture(scope="session")
def conform(mpis: dict[str, InstalledMpi], tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """mpi_conform, compiled for an MPI when it is first wanted."""
    programs: dict[str, Path] = {}

    def compiler(mpi: InstalledMpi) -> list[str]:
        if mpi.mpicc is not None:
            return [str(mpi.mpicc)]
        # Intel's wheel has a library and no header. Its interface is MPICH's, by an agreement on the ABI.
        if "mpich" not in mpis:
            pytest.skip(f"{mpi.name} has no compiler wrapper, and there is no MPICH to lend its header")
        include = mpis["mpich"].launcher.parent.parent / "include"
        library = mpi.mpi.library
        assert library is not None
        return ["cc", f"-I{include}", str(library), f"-Wl,-rpath,{library.parent}"]

    def compile_for(mpi: InstalledMpi) -> Path:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler")
        if mpi.name not in programs:
            program = tmp_path_factory.mktemp("conform") / mpi.name
            first, *more = compiler(mpi)
            command = [first, "-std=gnu11", "-O2", "-g", "-o", program, *SOURCES, *more, "-lpthread"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            programs[mpi.name] = program
        return programs[mpi.name]

    return compile_for


# ---- Conformance -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 4, 16])
def test_conform(mpi: InstalledMpi, conform: Compile, ranks: int) -> None:
    flags = CONFORM_FLAGS.get(mpi.name, ()) + (("--small",) if ranks > 4 else ())
    done = launch(mpi, ranks, conform(mpi), *flags, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    for group in GROUPS:
        assert re.search(rf"^{group} ok [1-9]\d*$", done.stdout, re.M), f"{group}\n{done.stdout}"
    assert re.search(r"^conform ok$", done.stdout, re.M)


def test_spawn(mpi: InstalledMpi, conform: Compile) -> None:
    done = launch(mpi, 2, conform(mpi), "spawn", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^spawn ok [1-9]\d*$", done.stdout, re.M), done.stdout


def test_huge__over_4_gib(mpi: InstalledMpi, conform: Compile) -> None:
    available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    if available is None or int(available[1]) << 10 < HUGE_BYTES:
        pytest.skip("there are less than 12 GiB of memory")
    done = launch(mpi, 2, conform(mpi), "huge", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^huge ok [1-9]\d*$", done.stdout, re.M), done.stdout


# ---- Proof of the way ------------------------------------------------------------------------------

LOG = {"FI_LOG_LEVEL": "info", "FI_LOG_PROV": "thole"}


def counters(text: str) -> dict[str, int]:
    """Thole's counters over all ranks, as the provider logs them when an endpoint closes."""
    sums: dict[str, int] = {}
    for name, value in re.findall(r"\bcounter (\w+) (\d+)", text):
        sums[name] = sums.get(name, 0) + int(value)
    return sums


@pytest.mark.parametrize("what", ["messages", "collectives", "accesses"])
def test_all_goes_over_thole(mpi: InstalledMpi, conform: Compile, what: str) -> None:
    """Thole carried at least as many operations, and bytes of large ones, as the program did."""
    done = launch(mpi, 2, conform(mpi), "--count", what, timeout=300, env=LOG)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^counted (\d+) operations, (\d+) large bytes$", done.stdout, re.M)
    assert said is not None, done.stdout
    seen = counters(done.stdout + done.stderr)
    carried = sum(
        seen.get(name, 0) for name in ("sent_eager", "sent_rendezvous", "puts", "gets", "atomics")
    )
    assert int(said[1]) > 0
    assert carried >= int(said[1]), seen
    assert seen.get("bulk_bytes", 0) >= int(said[2]), seen
    if what == "accesses":
        assert seen.get("puts", 0) > 0 and seen.get("gets", 0) > 0, seen


def test_as_shipped_nothing_goes_over_thole(mpi: InstalledMpi, conform: Compile) -> None:
    """The proof above can fail: without Thole there is nothing to be counted."""
    done = launch(mpi, 2, conform(mpi), "--count", "messages", timeout=300, env=LOG, over_thole=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^counted \d+ operations", done.stdout, re.M)
    assert counters(done.stdout + done.stderr) == {}


# ---- mpi4py's own suite ----------------------------------------------------------------------------


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


@pytest.fixture(scope="session")
def suite(build: Path, mpis: dict[str, InstalledMpi], request: pytest.FixtureRequest) -> Path:
    """The test folder of mpi4py's source distribution, of the version that the MPIs' Pythons have."""
    users = [mpis[name] for name in SUITE_MPIS if name in mpis]
    if not users:
        pytest.skip(f"none of {', '.join(SUITE_MPIS)} is installed")
    ask = "import mpi4py; print(mpi4py.__version__)"
    version = subprocess.run(
        [users[0].python, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = build / "mpi4py-source"
    tests = folder / f"mpi4py-{version}" / "test"
    if not (tests / "main.py").exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch = "-m pip --quiet download --no-deps --no-binary mpi4py --dest".split()
        done = subprocess.run(
            [sys.executable, *fetch, folder, f"mpi4py=={version}"],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        archives = list(folder.glob(f"mpi4py-{version}.tar.gz"))
        if not archives and request.config.getoption("--require"):
            pytest.fail(f"mpi4py's source distribution is required: {done.stderr[-1000:]}")
        if not archives:
            pytest.skip(f"mpi4py's source distribution cannot be downloaded: {done.stderr[-300:]}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(folder)  # noqa: S202 - what pip has checked
    return tests


@pytest.mark.parametrize("mpi", SUITE_MPIS, indirect=True)
@pytest.mark.parametrize("ranks", [1, 2, 4, 5])
def test_mpi4py_suite(mpi: InstalledMpi, suite: Path, tmp_path: Path, ranks: int) -> None:
    select = [] if FULL or ranks <= 2 else ["-i", SELECTION]
    command = [mpi.python, HERE / "mpi4py_suite.py", suite, tmp_path, *select]
    # Spawned workers look for the tests' modules too.
    env = {"PYTHONPATH": str(suite)}
    done = launch(mpi, ranks, *command, timeout=3600 if FULL else 1500, env=env, cwd=suite.parent)
    results = results_in(tmp_path, ranks)
    unexpected = {
        name: why for name, why in results.failed.items() if name not in known_failures(mpi.name)
    }
    assert not unexpected
    assert not results.last, done.stderr[-3000:]
    assert results.passed >= ranks * (300 if SELECTION in select else 1500)
    assert done.returncode == 0 or results.failed, done.stderr[-3000:]
