# SPDX-License-Identifier: BSD-3-Clause
"""`thole run --shared-heap`: unmodified programs whose large messages move between memory that both ranks have mapped.

What the library means for malloc and fork is in heap_malloc.c and heap_new.cpp; here are whole jobs: their messages
take that way and arrive unaltered, and Python and numpy behave as ever.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conform import CONFORM_FLAGS, LOG, counters
from conftest import Compile, InstalledMpi
from thole_lab import process

TIMEOUT_S = 300.0

# Both ways at once, and by turns: then the sender copies half of it.
EXCHANGE = """
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
other = 1 - world.rank
for length in (1 << 17, 1 << 20, 5_000_001):
    out, into = np.empty(length, np.uint8), np.zeros(length, np.uint8)
    pattern = (np.arange(length) * 7 & 255).astype(np.uint8)
    for turn in range(60):
        np.add(pattern, turn + world.rank, out=out)
        world.Sendrecv(out, other, recvbuf=into, source=other)
        assert (into == pattern + np.uint8(turn + other)).all(), (length, turn)
    for turn in range(60):
        np.add(pattern, turn, out=out)
        if turn % 2 == world.rank:
            world.Send(out, other)
        else:
            world.Recv(into, other)
            assert (into == out).all(), (length, turn)
"""

# Both sides of a fork write where the other does not look, while messages go on.
FORKS = """
import os, sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
other = 1 - world.rank
data, into = np.full(1 << 18, 1.0), np.zeros(1 << 18)
for turn in range(20):
    data[:] = turn
    child = os.fork() if turn % 3 == 2 else -1
    if child == 0:
        data[: 1 << 17] = -1
        ok = (data[: 1 << 17] == -1).all() and (data[1 << 17 :] == turn).all()
        os._exit(0 if ok else 1)
    world.Sendrecv(data, other, recvbuf=into, source=other)
    assert (into == turn).all(), turn
    if child > 0:
        data[1 << 17 :] = -2
        assert os.waitpid(child, 0)[1] == 0
        assert (data[: 1 << 17] == turn).all()
    if turn % 5 == 4:
        data, into = np.full(1 << 18, 1.0), np.zeros(1 << 18)
"""

POOL = """
import multiprocessing, subprocess
import numpy as np
from concurrent.futures import ThreadPoolExecutor
table = np.arange(1 << 20)
def part(k):
    table[k] = -1                # its own copy
    return int(table[k + 1 :: 8].sum())
def work(k):
    numbers = np.random.default_rng(k).random((400, 400))
    return float(np.linalg.norm(numbers @ np.linalg.inv(numbers) - np.eye(400))) < 1e-6
if __name__ == "__main__":
    want = [int(np.arange(1 << 20)[k + 1 :: 8].sum()) for k in range(8)]
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(part, range(8)) == want
    assert (table == np.arange(1 << 20)).all()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(16)))
    assert subprocess.run(["true"]).returncode == 0
    text = "x" * 3_000_000
    assert len((text + text).encode()) == 6_000_000 and (text * 3).count("x") == 9_000_000
    grown = bytearray()
    for i in range(200):
        grown += bytes([i]) * 50_000
    assert len(grown) == 10_000_000 and grown[-1] == 199 and grown[0] == 0
"""


ALIGNED = """
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	void *memory;

	for (int i = 0; i < 10; i++) {
		if (posix_memalign(&memory, 64, i % 2 ? 64 : 1 << 21) != 0)
			return 1;
		free(memory);
	}
	puts("aligned ok");
	return 0;
}
"""


def library(build: Path) -> Path:
    path = build / "heap" / "libthole-heap.so"
    if not path.exists():
        pytest.skip("libthole-heap.so is not built for sanitizers")
    return path


def shared(
    mpi: InstalledMpi, *program: str | Path, words: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [*mpi.tool.command, "run", "--shared-heap", *words, *mpi.command(2, *program)]
    done = process.run(command, mpi.environment(**LOG), TIMEOUT_S, None)
    assert done.status == 0, done.output + done.errors
    return subprocess.CompletedProcess(command, done.status, done.output, done.errors)


@pytest.mark.over("openmpi")
def test_messages_of_numpy_need_no_system_call(mpi: InstalledMpi, build: Path) -> None:
    library(build)
    done = shared(mpi, mpi.python, "-c", EXCHANGE, words=("--option", "bulk=direct"))
    seen = counters(done.stdout + done.stderr)
    assert seen["attached"] >= 2
    assert seen["bulk_direct"] > seen.get("bulk_ring", 0) + seen.get("bulk_cooperative", 0)
    assert seen["bulk_blocks_direct"] > 0


@pytest.mark.over("openmpi4")
def test_arrays_of_fortran(mpi: InstalledMpi, build: Path, tmp_path: Path) -> None:
    library(build)
    wrapper = shutil.which("mpif90.openmpi")
    if wrapper is None or shutil.which("gfortran") is None:
        pytest.skip("there is no Fortran for Open MPI 4 (Debian's packages gfortran and libopenmpi-dev)")
    program = tmp_path / "heap_exchange"
    source = Path(__file__).with_name("heap_exchange.f90")
    compile_it = [wrapper, "-O2", "-J", str(tmp_path), "-o", str(program), str(source)]
    done = process.run(compile_it, mpi.environment(), TIMEOUT_S)
    assert done.status == 0, done.errors
    ran = shared(mpi, program, words=("--through", "libfabric", "--option", "bulk=direct"))
    assert ran.stdout.count("exchange ok") == 2
    assert counters(ran.stdout + ran.stderr)["bulk_direct"] > 0


@pytest.mark.over("mpich")
def test_fork_beside_messages(mpi: InstalledMpi, build: Path) -> None:
    library(build)
    done = shared(mpi, mpi.python, "-c", FORKS, words=("--option", "bulk=direct"))
    assert counters(done.stdout + done.stderr)["bulk_direct"] > 0


@pytest.mark.over("mpich", "openmpi4")
def test_conform_under_it(mpi: InstalledMpi, conform: Compile, build: Path) -> None:
    library(build)
    words = ("--option", "shared_heap_min=64k")
    done = shared(mpi, conform(mpi), *CONFORM_FLAGS.get(mpi.name, ()), words=words)
    assert "conform ok" in done.stdout
    assert "VM_UNMAP" not in done.stderr  # Open MPI hears of memory that goes, and does not warn


@pytest.mark.over("mpich")
def test_python_as_ever(mpi: InstalledMpi, build: Path, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    environment = {**os.environ, "LD_PRELOAD": str(library(build)), "THOLE_SHARED_HEAP_MIN": "64k"}
    done = subprocess.run(
        [mpi.python, script], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.over("mpich", "openmpi")
def test_the_variable_reaches_ranks_and_leaves_the_users(mpi: InstalledMpi, build: Path) -> None:
    code = "import os; print('preloaded', os.environ['LD_PRELOAD'])"
    command = [*mpi.tool.command, "run", "--shared-heap", *mpi.command(2, mpi.python, "-c", code)]
    done = process.run(command, mpi.environment(LD_PRELOAD="libm.so.6"), TIMEOUT_S, None)
    assert done.output.count(f"preloaded {library(build)}:libm.so.6") == 2, done.output + done.errors


@pytest.mark.over("mpich", "openmpi4")
@pytest.mark.parametrize("preloaded", [False, True])
def test_a_sanitizer_keeps_the_memory(mpi: InstalledMpi, build: Path, tmp_path: Path, preloaded: bool) -> None:
    """That of gcc hears of half of what is allocated beside another library, and died of that."""
    library(build)
    source, program = tmp_path / "aligned.c", tmp_path / "aligned"
    source.write_text(ALIGNED)
    words = [] if preloaded else ["-fsanitize=leak"]
    built = subprocess.run(["gcc", *words, "-o", program, source], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"gcc has no sanitizer here: {built.stderr}")
    asked = subprocess.run(["gcc", "-print-file-name=liblsan.so"], capture_output=True, text=True, check=True)
    runtime = Path(asked.stdout.strip()).resolve()
    given = {"LD_PRELOAD": str(runtime)} if preloaded else {}
    command = [*mpi.tool.command, "run", "--shared-heap", *mpi.command(2, program)]
    done = process.run(command, mpi.environment(LSAN_OPTIONS="detect_leaks=0", **given), TIMEOUT_S, None)
    assert done.status == 0 and done.output.count("aligned ok") == 2, done.output + done.errors
    named = f"{runtime.name} of LD_PRELOAD is" if preloaded else f"{program} loads liblsan.so.0, which is"
    assert f"--shared-heap is left out: {named}" in done.errors
