# SPDX-License-Identifier: BSD-3-Clause
"""Of two ranks the second makes no calls while the first one puts into its memory: it looks there until that has come.

Windows of two lengths, as MPIs and Thole have several ways to reach them.
"""

import numpy
from mpi4py import MPI

LENGTHS = (8, 1 << 20)

world = MPI.COMM_WORLD
for length in LENGTHS:
    window = MPI.Win.Allocate(length, 1, comm=world)
    memory = numpy.frombuffer(window.tomemory(), numpy.uint8)
    memory[:] = 0
    window.Lock_all()
    world.Barrier()  # MPICH asks for a lock by messages of its own
    if world.rank == 0:
        for value in range(1, 4):
            window.Put(numpy.full(8, value, numpy.uint8), 1)
            window.Flush(1)
    else:
        while memory[7] != 3:
            pass
    window.Unlock_all()
    world.Barrier()
    del memory
    window.Free()
if world.rank == 0:
    print(f"put {len(LENGTHS)}")
