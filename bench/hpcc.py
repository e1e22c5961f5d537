# SPDX-License-Identifier: BSD-3-Clause
"""HPC Challenge as Debian ships it for Open MPI 4: MPIRandomAccess, and the latencies of a ping-pong and a ring.

MPIRandomAccess makes mostly polls that find nothing, and small messages. The program runs all of its parts; a small
problem keeps the others short. What it says is turned into the lines that mpi_bench would print, so that it is gathered
and compared like all else.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

from thole_lab.process import run

TEST = "hpcc"  # its name for --only
LATENCIES = {"hpcc ping-pong": "AvgPingPongLatency_usec", "hpcc ring": "RandomlyOrderedRingLatency_usec"}
MPI = "openmpi4"  # what the package is linked with
RANKS = 2
ORDER = 512  # of the matrix; the table of updates has a quarter as many words as this has elements, or more
LIMIT_S = 120.0

# The lines of hpccinf.txt: a number that matters, and the words that HPL's reader skips.
_INPUT = f"""HPLinpack benchmark input file
one line that nobody reads
HPL.out output file name
8 device out
1 number of problem sizes
{ORDER} Ns
1 number of NBs
80 NBs
0 process mapping
1 number of grids
1 Ps
{RANKS} Qs
16.0 threshold
1 number of panel fact
2 PFACTs
1 number of recursive stopping criteria
4 NBMINs
1 number of panels in recursion
2 NDIVs
1 number of recursive panel fact
1 RFACTs
1 number of broadcasts
1 BCASTs
1 number of lookahead depths
1 DEPTHs
2 SWAP
64 swapping threshold
0 L1
0 U
1 Equilibration
8 memory alignment
##### ignored
0 additional problem sizes for PTRANS
1200 values of N
0 additional blocking sizes for PTRANS
40 values of NB
"""


def missing() -> str:
    """Why it cannot run here, or empty."""
    return "" if shutil.which("hpcc") else "hpcc is not installed (Debian's package hpcc)"


def record(said: str) -> str:
    """The lines for what hpccoutf.txt says; empty if it says nothing of these updates."""
    found = dict(re.findall(r"^(\w+)=(\S+)", said, re.MULTILINE))
    if "MPIRandomAccess_GUPs" not in found or "MPIRandomAccess_N" not in found:
        return ""
    taken = [("gups", int(found["MPIRandomAccess_N"]), "GUPs", found["MPIRandomAccess_GUPs"])]
    taken += [(test, 8, "us", found[name]) for test, name in LATENCIES.items() if name in found]
    lines = [
        {"test": test, "size": size, "unit": unit, "samples": [float(value)]} for test, size, unit, value in taken
    ]
    return "\n".join(map(json.dumps, lines))


def once(launcher: list[str], environment: dict[str, str]) -> tuple[str, str]:
    """Run it. The record, and why there is none."""
    with tempfile.TemporaryDirectory(prefix="thole-hpcc-") as name:
        folder = Path(name)
        (folder / "hpccinf.txt").write_text(_INPUT)
        outcome = run([*launcher, "hpcc"], environment, LIMIT_S, folder)
        output = folder / "hpccoutf.txt"
        line = record(output.read_text(errors="replace")) if output.is_file() else ""
    return line, outcome.failure or ("" if line else "hpcc has said nothing of MPIRandomAccess")
