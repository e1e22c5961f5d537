# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified MPIs over Thole: conformance byte by byte, proof that the bytes take that way, mpi4py's own suite.

MPI_TESTS=full in the environment (`make test-all`) runs each MPI with each number of ranks, and mpi4py's whole suite
with each, instead of a selection of both.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conform import CONFORM_FLAGS, LOG, assert_conformed, counters
from conftest import SUITE_MPIS, Compile, InstalledMpi
from jobs import (
    FULL,
    HERE,
    SELECTION,
    SELECTION_MANY,
    known_failures,
    launch,
    results_in,
)
from thole_lab.compiler import compile_mpi

HUGE_BYTES = 12 << 30  # two buffers of over 4 GiB each, and what else runs

# ---- Conformance -----------------------------------------------------------------------------------


@pytest.mark.over("mpich-1", "mpich-2", "openmpi-4", "openmpi4-4", "impi-4", "mpich-16")
@pytest.mark.parametrize("ranks", [1, 2, 4, 16])
def test_conform(mpi: InstalledMpi, conform: Compile, ranks: int) -> None:
    flags = CONFORM_FLAGS.get(mpi.name, ()) + (("--small",) if ranks > 4 else ())
    done = launch(mpi, ranks, conform(mpi), *flags, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_conformed(done.stdout)


def test_spawn(mpi: InstalledMpi, conform: Compile) -> None:
    done = launch(mpi, 2, conform(mpi), "spawn", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^spawn ok [1-9]\d*$", done.stdout, re.M), done.stdout


@pytest.mark.over("mpich", "openmpi", "openmpi4", "impi")
def test_what_was_sent_arrives(mpi: InstalledMpi, tmp_path: Path) -> None:
    done = launch(mpi, 2, mpi.python, HERE / "mpi_leaving.py", tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^arrived [1-9]\d*$", done.stdout, re.M), done.stdout


@pytest.mark.over("mpich", "openmpi", "openmpi4", "impi")
def test_what_is_put_arrives_without_its_target(mpi: InstalledMpi) -> None:
    done = launch(mpi, 2, mpi.python, HERE / "mpi_silent.py", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "put 2\n" in done.stdout, done.stdout


@pytest.mark.about("mpich")
@pytest.mark.parametrize("interface", ["libfabric", "ucx"])
def test_yields__only_where_others_want_the_core(mpi: InstalledMpi, tmp_path: Path, interface: str) -> None:
    """MPICH calls sched_yield after each look. With `thole run` these calls are Thole's to make, by either interface."""
    program = tmp_path / "yields"
    compile_mpi(mpi.mpi, None, (), [HERE / "yields_of_mpi.c"], program)
    for options, at_work in (({}, "thole"), ({"mpi_yield": "keep"}, "mpi")):
        done = launch(mpi.by(interface), 2, program, options=options, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        calls = dict(re.findall(r"(mpi|thole) (\d+)", done.stdout))
        assert int(calls.pop(at_work)) > 0, done.stdout
        assert at_work == "mpi" or set(calls.values()) == {"0"}, done.stdout


@pytest.mark.over("mpich-2", "openmpi-2", "openmpi4-2", "impi-2", "openmpi-3")
@pytest.mark.parametrize("ranks", [2, 3])
def test_sends_before_it_receives(mpi: InstalledMpi, ranks: int) -> None:
    """Up to the option eager_max, which is less where there are more ranks than cores. MPICH does not ask Thole to send
    to oneself."""
    sizes = ["3000", "9000", "20000", "65536", *(["250000"] if ranks == 2 else [])]
    whom = "others" if mpi.name == "mpich" else "self"
    done = launch(mpi, ranks, mpi.python, HERE / "mpi_sends_first.py", whom, *sizes, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["received", str(len(sizes))], done.stdout


@pytest.mark.alone
@pytest.mark.over("mpich")
def test_huge__over_4_gib(mpi: InstalledMpi, conform: Compile) -> None:
    available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    if available is None or int(available[1]) << 10 < HUGE_BYTES:
        pytest.skip("there are less than 12 GiB of memory")
    done = launch(mpi, 2, conform(mpi), "huge", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^huge ok [1-9]\d*$", done.stdout, re.M), done.stdout


# ---- Proof of the way ------------------------------------------------------------------------------

@pytest.mark.parametrize("what", ["messages", "collectives", "accesses"])
def test_all_goes_over_thole(mpi: InstalledMpi, conform: Compile, what: str) -> None:
    """Thole carried at least as many operations, and bytes of large ones, as the program did."""
    done = launch(mpi.by("libfabric"), 2, conform(mpi), "--count", what, timeout=300, env=LOG)
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


@pytest.mark.about("mpich", "impi")
@pytest.mark.parametrize("length", [4096, 1 << 20])
def test_windows__are_copied_into(mpi: InstalledMpi, length: int) -> None:
    """Both sides have mapped what MPI_Win_allocate gives: with Intel MPI by itself, with MPICH by the arena of each."""
    for options, mapped in (({}, True), ({"mpi_memory": "keep"}, mpi.name == "impi")):
        done = launch(mpi, 2, mpi.python, HERE / "window_copies.py", str(length), options=options, env=LOG, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("copied") == 2, done.stdout
        seen = counters(done.stdout + done.stderr)
        assert (seen.get("attached", 0) >= 2) == mapped, seen


def test_as_shipped_nothing_goes_over_thole(mpi: InstalledMpi, conform: Compile) -> None:
    """The proof above can fail: without Thole there is nothing to be counted."""
    done = launch(mpi, 2, conform(mpi), "--count", "messages", timeout=300, env=LOG, over_thole=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^counted \d+ operations", done.stdout, re.M)
    assert counters(done.stdout + done.stderr) == {}


# ---- mpi4py's own suite ----------------------------------------------------------------------------


@pytest.mark.over("openmpi-2", "mpich-5")
@pytest.mark.parametrize("mpi", SUITE_MPIS, indirect=True)
@pytest.mark.parametrize("ranks", [1, 2, 4, 5])
def test_mpi4py_suite(mpi: InstalledMpi, suite: Path, tmp_path: Path, ranks: int) -> None:
    select = [] if FULL else ["-i", SELECTION if ranks <= 2 else SELECTION_MANY]
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
    assert results.passed >= ranks * (300 if select else 1500)
    assert done.returncode == 0 or results.failed, done.stderr[-3000:]
