# SPDX-License-Identifier: BSD-3-Clause
"""The first rank sends, then calls nothing of MPI's until the last one has received everything and says so by a file.

mpi_leaving.py FOLDER. Whether a send waits for its receive is the MPI's choice; one that does not has to arrive.
"""

import os
import sys
import time

import numpy
from mpi4py import MPI

TURNS = 3  # in the first one nothing was said before
SIZES = [8] * 300 + [2000, 9000, 30000, 60000, 8]

folder, world = sys.argv[1], MPI.COMM_WORLD
rank, last = world.Get_rank(), world.Get_size() - 1
for turn in range(TURNS):
    told = f"{folder}/received{turn}"
    if rank == 0:
        for number, size in enumerate(SIZES):
            world.Send(numpy.full(size, number % 251, dtype="u1"), last, number)
        while not os.path.exists(told):
            time.sleep(0.01)
    elif rank == last:
        for number, size in enumerate(SIZES):
            received = numpy.zeros(size, dtype="u1")
            world.Recv(received, 0, number)
            assert (received == number % 251).all(), (turn, number)
        with open(told, "w"):
            pass
world.Barrier()
if rank == 0:
    print("arrived", TURNS * len(SIZES))
