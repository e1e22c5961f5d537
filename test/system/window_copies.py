# SPDX-License-Identifier: BSD-3-Clause
"""Puts into and gets from a window that MPI_Win_allocate made, often enough for it to be found mapped: BYTES of it."""

from __future__ import annotations

import sys

import numpy
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
LENGTH = int(sys.argv[1])
PIECE = 4096
TIMES = 256  # that many accesses at least

window = MPI.Win.Allocate(LENGTH, 1, comm=WORLD)
memory = numpy.frombuffer(window.tomemory(), "B")
memory[:] = 0
WORLD.Barrier()
window.Lock_all()
put, got = numpy.arange(PIECE, dtype="B") + numpy.uint8(RANK), numpy.zeros(PIECE, "B")
for offset in [*range(0, LENGTH, PIECE)] * (TIMES * PIECE // LENGTH):
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
