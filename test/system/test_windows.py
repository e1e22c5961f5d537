# SPDX-License-Identifier: BSD-3-Clause
"""Windows of unmodified MPIs inside a node: their accesses need no process at the target that calls its MPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from conform import LOG, counters
from conftest import InstalledMpi
from thole_lab import process

TIMEOUT_S = 300.0

# Rank 1 makes no call from the second barrier on until rank 0, whose accesses are complete then, makes a file.
PASSIVE = """
import os, sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
window = MPI.Win.Allocate(1 << 20, 1, comm=world)
memory = np.frombuffer(window, np.uint8)
memory[:] = 5
out, into = np.arange(300_000).astype(np.uint8), np.zeros(300_000, np.uint8)
window.Lock_all()
for turn in range(3):
    world.Barrier()
    if world.rank == 0:
        window.Put(out[:8], 1)
        window.Flush(1)
world.Barrier()
if world.rank == 0:
    for length in (1, 8, 2000, 4096, 300_000):
        for turn in range(20):
            window.Put(out[:length], 1, 8)
            window.Flush(1)
            window.Get(into[:length], 1, 8)
            window.Flush(1)
            assert (into[:length] == out[:length]).all(), length
            into[:length] = 0
    open(sys.argv[1], "w").close()
else:
    while not os.path.exists(sys.argv[1]):
        pass
    assert (memory[8:300_008] == out).all() and memory[300_008] == 5
world.Barrier()
window.Unlock_all()
window.Free()
"""


@pytest.mark.over("mpich", "impi")
def test_target_may_compute(mpi: InstalledMpi, tmp_path: Path) -> None:
    program = (mpi.python, "-c", PASSIVE, str(tmp_path / "done"))
    command = [*mpi.tool.command, "run", *mpi.command(2, *program)]
    done = process.run(command, mpi.environment(**LOG), TIMEOUT_S, None)
    assert done.status == 0, done.output + done.errors
    seen = counters(done.output + done.errors)
    assert seen["shm_puts"] >= 40 and seen["shm_gets"] >= 40


# Each rank's part of a shared window is written and read by the rank before it.
SHARED = """
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
window = MPI.Win.Allocate_shared(16384, 1, comm=world)
memory, _ = window.Shared_query(world.rank)
mine = np.frombuffer(memory, np.uint8)
mine[:] = 255
out, into = np.full(16384, world.rank, np.uint8), np.zeros(16384, np.uint8)
after = (world.rank + 1) % world.size
world.Barrier()
for turn in range(20):
    window.Lock(after, MPI.LOCK_EXCLUSIVE)
    window.Put(out, after)
    window.Unlock(after)
    window.Lock(after, MPI.LOCK_EXCLUSIVE)
    window.Get(into, after)
    window.Unlock(after)
    assert (into == out).all()
world.Barrier()
assert (mine == (world.rank - 1) % world.size).all()
window.Free()
"""


@pytest.mark.about("impi", "openmpi")
def test_puts_into_shared_windows(mpi: InstalledMpi) -> None:
    """Intel MPI with the remedy of docs/GUIDE.md. Under MPICH nobody shares a window (MPIR_CVAR_NOLOCAL)."""
    env = {"MPIR_CVAR_CH4_OFI_ENABLE_RMA": "0"} if mpi.name == "impi" else {}
    done = mpi.run_python(2, SHARED, env=env, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
