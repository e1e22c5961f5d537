# SPDX-License-Identifier: BSD-3-Clause
"""mpi_conform as tests run it, on this machine or in guests: sources, groups, what an MPI cannot do by itself, what its
output says."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = sorted(Path(__file__).resolve().parent.glob("mpi_*.c"))
COMPILED = ("-std=gnu11", "-O2", "-g")

# All groups that run when none is named.
GROUPS = (
    "modes order wildcards probe cancel truncation types collectives nonblocking-collectives onesided threads"
).split()

# Open MPI 4.1 sends a persistent buffered send's first bytes again, and its osc/rdma crashes in a
# compare-and-swap on a rank's own window, or on one that it allocated. So it does without Thole.
CONFORM_FLAGS = {"openmpi4": ("--stale-bsend", "--swap-fails")}

# Between hosts, Open MPI up to 4.1.4 takes an exclusive lock in osc/rdma's dynamic windows, and then the same one
# shared: its release 4.1.5 mended that (open-mpi/ompi, pull request 10518).
NETWORK_FLAGS = {"openmpi4": ("--dynamic-hangs",)}

# What makes endpoints tell their counters when they close, by whichever interface they were opened.
LOG = {"FI_LOG_LEVEL": "info", "FI_LOG_PROV": "thole", "UCX_LOG_LEVEL": "info"}


def network_flags(name: str) -> tuple[str, ...]:
    """What an MPI's ranks on several hosts leave out."""
    return CONFORM_FLAGS.get(name, ()) + NETWORK_FLAGS.get(name, ())


def counters(text: str) -> dict[str, int]:
    """Thole's counters over all ranks, as the logs of libfabric and of UCX have them."""
    sums: dict[str, int] = {}
    for name, value in re.findall(r"\bcounter (\w+) (\d+)", text):
        sums[name] = sums.get(name, 0) + int(value)
    return sums


def assert_conformed(said: str, groups: list[str] = GROUPS) -> None:
    """Each group made checks, and all came to the end. What ranks say may stand before and behind it in a line."""
    for group in groups:
        assert re.search(rf"{group} ok [1-9]\d*", said), f"{group}\n{said}"
    assert "conform ok" in said, said
