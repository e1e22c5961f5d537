# SPDX-License-Identifier: BSD-3-Clause
"""An mpi4py program that measures what applications do beside ping-pongs, in lines as mpi_bench prints them.

Rank 0 prints; a sample is the slowest rank's mean time. Needs nothing of Thole, so that it runs over any transport.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

import numpy
from mpi4py import MPI

import patterns

KIB, MIB = 1 << 10, 1 << 20
WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
NEXT, PREVIOUS = (RANK + 1) % RANKS, (RANK - 1) % RANKS
COLUMN = 512  # pieces of a strided message
Step = Callable[[], object]


def array(size: int) -> numpy.ndarray:
    """One that was written: what never was is one page of the kernel's, which is read from the nearest cache."""
    return numpy.ones(size, "b")


def incast(size: int) -> Step:
    buffer = array(size)

    def step() -> None:
        if RANK == 0:
            for _ in range(8 * (RANKS - 1)):
                WORLD.Recv(buffer, MPI.ANY_SOURCE)
            for rank in range(1, RANKS):
                WORLD.Send(buffer[:1], rank)
        else:
            for _ in range(8):
                WORLD.Send(buffer, 0)
            WORLD.Recv(buffer, 0)

    return step


def halo(size: int) -> Step:
    buffers = [array(size) for _ in range(8)]
    ways = [(NEXT, PREVIOUS, 1), (PREVIOUS, NEXT, 2), (NEXT, PREVIOUS, 3), (PREVIOUS, NEXT, 4)]

    def step() -> None:
        requests = [WORLD.Irecv(buffers[tag - 1], source, tag) for _, source, tag in ways]
        requests += [WORLD.Isend(buffers[tag + 3], target, tag) for target, _, tag in ways]
        MPI.Request.Waitall(requests)

    return step


def strided(size: int) -> Step:
    width = size // 8 // COLUMN
    vector = MPI.DOUBLE.Create_vector(COLUMN, width, COLUMN).Commit()
    out, into = numpy.ones((COLUMN, COLUMN)), numpy.ones((COLUMN, COLUMN))
    return lambda: WORLD.Sendrecv([out, 1, vector], NEXT, 0, [into, 1, vector], PREVIOUS, 0)


def flood(size: int) -> Step:
    buffer = array(size)

    def step() -> None:
        if RANK == 0:
            MPI.Request.Waitall([WORLD.Isend(buffer, 1) for _ in range(200)])
            WORLD.Recv(buffer[:1], 1)
        elif RANK == 1:
            for _ in range(200):
                WORLD.Recv(buffer, 0)
            WORLD.Send(buffer[:1], 0)

    return step


def probed(size: int) -> Step:
    buffer = array(size)

    def step() -> None:
        if RANK == 0:
            WORLD.Send(buffer, 1)
            WORLD.Recv(buffer, 1)
        elif RANK == 1:
            status = MPI.Status()
            WORLD.Probe(0, MPI.ANY_TAG, status)
            taken = array(status.Get_count())
            WORLD.Recv(taken, 0, status.Get_tag())
            WORLD.Send(taken, 0)

    return step


def pickled(size: int) -> Step:
    thing = {"list": list(range(100)), "array": array(size)}

    def step() -> None:
        if RANK == 0:
            WORLD.send(thing, 1)
            WORLD.recv(source=1)
        elif RANK == 1:
            WORLD.send(WORLD.recv(source=0), 0)

    return step


def bcast(size: int) -> Step:
    buffer = array(size)
    return lambda: WORLD.Bcast(buffer, 0)


def allgather(size: int) -> Step:
    out, into = array(size), array(size * RANKS)
    return lambda: WORLD.Allgather(out, into)


def alltoall(size: int) -> Step:
    out, into = array(size * RANKS), array(size * RANKS)
    return lambda: WORLD.Alltoall(out, into)


def allreduce(size: int) -> Step:
    out, into = numpy.ones(size // 8), numpy.ones(size // 8)
    return lambda: WORLD.Allreduce(out, into)


class Window:
    """One that all of these tests use, for all their time."""

    def __init__(self) -> None:
        self.window = MPI.Win.Allocate(MIB, 1, comm=WORLD)
        self.window.Lock_all()

    def close(self) -> None:
        self.window.Unlock_all()
        self.window.Free()

    def put(self, size: int) -> Step:
        buffer = array(size)

        def step() -> None:
            for _ in range(16):
                self.window.Put(buffer, NEXT)
            self.window.Flush(NEXT)

        return step

    def get(self, size: int) -> Step:
        buffer = array(size)

        def step() -> None:
            for _ in range(16):
                self.window.Get(buffer, NEXT)
            self.window.Flush(NEXT)

        return step

    def fetch(self, size: int) -> Step:
        one, result = numpy.ones(size // 8, "l"), numpy.zeros(size // 8, "l")

        def step() -> None:
            self.window.Fetch_and_op(one, result, NEXT)
            self.window.Flush(NEXT)

        return step


def steps(window: Window) -> Iterator[tuple[str, int, Step]]:
    """All that is measured, each made as its turn comes."""
    made: dict[str, tuple[Callable[[int], Step], tuple[int, ...]]] = {
        "incast": (incast, (8, 4 * KIB, 64 * KIB, MIB)),
        "halo": (halo, (64, 4 * KIB, 32 * KIB, 256 * KIB, MIB)),
        "strided": (strided, (4 * KIB, 32 * KIB, 256 * KIB)),
        "flood": (flood, (64, 8 * KIB, 256 * KIB)),
        "probed": (probed, (8, 16 * KIB, MIB)),
        "pickled": (pickled, (40000,)),
        "bcast": (bcast, (8, 16 * KIB, 64 * KIB, 256 * KIB, MIB)),
        "allgather": (allgather, (8, 16 * KIB, 64 * KIB, 256 * KIB, MIB)),
        "alltoall": (alltoall, (8, 16 * KIB, 64 * KIB, 256 * KIB, MIB)),
        "allreduce of numbers": (allreduce, (8, 16 * KIB, 64 * KIB, 256 * KIB, MIB)),
        "put": (window.put, (8, 4 * KIB, 64 * KIB)),
        "get": (window.get, (8, 4 * KIB, 64 * KIB)),
        "fetch": (window.fetch, (8,)),
    }
    for test in patterns.TITLES:
        make, sizes = made[test]
        for size in sizes:
            yield test, size, make(size)


def sample(step: Step, times: int) -> float:
    """Microseconds of one."""
    WORLD.Barrier()
    start = MPI.Wtime()
    for _ in range(times):
        step()
    return WORLD.allreduce((MPI.Wtime() - start) / times, MPI.MAX) * 1e6


def measure(step: Step, rounds: int, round_ms: int) -> tuple[int, list[float]]:
    """How many make a sample, and all samples."""
    sample(step, 3)
    times = max(3, min(10000, int(round_ms * 1000 / sample(step, 3))))
    return times, [sample(step, times) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="samples of each test (default 7)")
    parser.add_argument("--round-ms", type=int, default=10, help="ms that one takes (default 10)")
    parser.add_argument("--of", default=patterns.ALONE, choices=(patterns.ALONE, *patterns.MORE), help="what it is called")
    options = parser.parse_args()
    window = Window()
    for test, size, step in steps(window):
        times, samples = measure(step, options.rounds, options.round_ms)
        line = {"test": patterns.named(test, options.of), "size": size, "unit": "us", "iterations": times, "samples": samples}
        if RANK == 0:
            print(json.dumps(line), flush=True)
    window.close()


if __name__ == "__main__":
    main()
