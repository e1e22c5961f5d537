# SPDX-License-Identifier: BSD-3-Clause
"""Puts into and gets from windows that MPI_Win_allocate made, often enough for them to be found mapped."""

from __future__ import annotations

import numpy
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
LENGTH = 1 << 20
PIECE = 4096

window = MPI.Win.Allocate(LENGTH, 1, comm=WORLD)
memory = numpy.frombuffer(window.tomemory(), "B")
memory[:] = 0
WORLD.Barrier()
window.Lock_all()
put, got = numpy.arange(PIECE, dtype="B") + numpy.uint8(RANK), numpy.zeros(PIECE, "B")
for offset in range(0, LENGTH, PIECE):
    window.Put(put, 1 - RANK, offset)
    window.Flush(1 - RANK)
    window.Get(got, 1 - RANK, offset)
    window.Flush(1 - RANK)
    assert (got == put).all()
WORLD.Barrier()
window.Sync()
assert (memory.reshape(-1, PIECE) == numpy.arange(PIECE, dtype="B") + numpy.uint8(1 - RANK)).all()
window.Unlock_all()
window.Free()
print("copied")
