# SPDX-License-Identifier: BSD-3-Clause
"""Every rank sends before it receives, to its neighbours and, where it is told so, to itself. MPI promises nothing to such
programs, but they run with MPIs that take some lengths without a receive, so people have them."""

import sys

import numpy
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
TIMES = 40


def send_first(target: int, source: int, size: int) -> None:
    for time in range(TIMES):
        out = (numpy.arange(size) * 7 + time + WORLD.rank).astype("u1")
        into = numpy.zeros(size, "u1")
        WORLD.Send(out, target, time)
        WORLD.Recv(into, source, time)
        assert (into == (numpy.arange(size) * 7 + time + source).astype("u1")).all(), (size, time)


def main() -> None:
    sizes = [int(word) for word in sys.argv[2:]]
    for size in sizes:
        send_first((WORLD.rank + 1) % WORLD.size, (WORLD.rank - 1) % WORLD.size, size)
        if sys.argv[1] == "self":
            send_first(WORLD.rank, WORLD.rank, size)
    if WORLD.rank == 0:
        print("received", len(sizes))


main()
