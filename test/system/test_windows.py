# SPDX-License-Identifier: BSD-3-Clause
"""Windows of unmodified MPIs inside a node: their accesses need no process at the target that calls its MPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from conform import LOG, counters
from conftest import InstalledMpi
from thole_lab import process

TIMEOUT_S = 60.0

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
