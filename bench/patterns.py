# SPDX-License-Identifier: BSD-3-Clause
"""What mpi_patterns.py measures beside ping-pongs and streams: the names of its tests, and what they are.

Pure, and without any MPI: both the programs that are started and the report read it.
"""

from __future__ import annotations

TITLES = {
    "incast": "Eight messages from each other rank to one that takes them from any source, and an answer to each, us",
    "halo": "Two messages to and two from each of two neighbours, all posted before one is waited for, us",
    "strided": "Columns of a matrix exchanged (MPI_Sendrecv of a vector of 512 pieces), us; the size is the data's",
    "flood": "200 messages sent before the first one is received, and an answer, us",
    "probed": "A message of unknown length there and back (MPI_Probe), us",
    "pickled": "A Python object with a list and an array there and back, us",
    "bcast": "MPI_Bcast, us",
    "allgather": "MPI_Allgather, us; the size is each rank's",
    "alltoall": "MPI_Alltoall, us; the size is what each sends to each",
    "allreduce of numbers": "MPI_Allreduce of doubles, us",
    "put": "Sixteen MPI_Put and a flush, us",
    "get": "Sixteen MPI_Get and a flush, us",
    "fetch": "MPI_Fetch_and_op and a flush, us",
}
ALONE = "patterns"  # the name for --only: two ranks, and
CROWDED = "crowded patterns"  # four on two cores
WIDE = "wide patterns"  # as many as there are cores, up to sixteen
CROWDED_RANKS = 4
WIDE_RANKS = 16
MORE = {CROWDED: f"{CROWDED_RANKS} ranks on 2 cores", WIDE: f"A core for each rank, up to {WIDE_RANKS}"}


def named(test: str, of: str) -> str:
    """What a test is called where ranks share cores, or where there are many."""
    return test if of == ALONE else f"{of.removesuffix(ALONE)}{test}"


def titles() -> dict[str, str]:
    """Of all tests, in each way that they are measured."""
    more = {named(test, of): f"{where}: {title}" for of, where in MORE.items() for test, title in TITLES.items()}
    return TITLES | more
