# SPDX-License-Identifier: BSD-3-Clause
"""The first rank sends to the last one, which looks only later; then it calls nothing of MPI's until that one has all.

mpi_leaving.py FOLDER. All means: what the sender was told is sent; whether a send waits for its receive is the MPI's
choice. The two tell each other by files.
"""

import json
import os
import sys
import time
from typing import Any

import numpy
from mpi4py import MPI

TURNS = 3  # in the first one nothing was said before
SIZES = [8] * 300 + [2000, 9000, 30000, 60000, 8]

folder, world = sys.argv[1], MPI.COMM_WORLD
rank, last = world.Get_rank(), world.Get_size() - 1


def tell(name: str, what: object) -> None:
    with open(f"{folder}/{name}.new", "w", encoding="utf-8") as file:
        json.dump(what, file)
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


def told(name: str) -> Any:
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.005)
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return json.load(file)


def receive(number: int) -> None:
    received = numpy.zeros(SIZES[number], dtype="u1")
    world.Recv(received, 0, number)
    assert (received == number % 251).all(), number


arrived = 0
for turn in range(TURNS):
    if rank == 0:
        data = [numpy.full(size, number % 251, dtype="u1") for number, size in enumerate(SIZES)]
        requests = [world.Isend(data[number], last, number) for number in range(len(SIZES))]
        sent = [number for number, request in enumerate(requests) if request.Test()]
        tell(f"sent{turn}", sent)
        arrived += told(f"arrived{turn}")
        MPI.Request.Waitall(requests)
    elif rank == last:
        sent = told(f"sent{turn}")
        for number in sent:
            receive(number)
        tell(f"arrived{turn}", len(sent))
        for number in set(range(len(SIZES))) - set(sent):
            receive(number)
world.Barrier()
if rank == 0:
    print("arrived", arrived)
