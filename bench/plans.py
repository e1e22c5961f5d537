# SPDX-License-Identifier: BSD-3-Clause
"""What is measured in starts of peers: the tests by name, their sizes, and what one start runs. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import patterns
from peers import Peer

# Their sizes are nanoseconds of work.
POLLS = ("test", "testany", "iprobe", "waitany")
SHARED = ("allreduce", "pairwise")  # tests where ranks share cores, among themselves
BUSY = ("busy allreduce", "busy pairwise")  # and with programs that compute
WIDE = ("wide allreduce", "wide pairwise")  # with a core for each rank
PATTERNS = (patterns.ALONE, *patterns.MORE)
TESTS = ("latency", "touched", "exchange", "several", "bandwidth", *SHARED, *BUSY, *WIDE, *POLLS, *PATTERNS)
# From 16 KiB on it matters whether a buffer is written before it is sent; programs do that.
QUICK = {
    "latency": "8,64,512,4k",
    "touched": "16k,64k,256k,1m,4m",
    "exchange": "8,4k,16k,64k,256k,1m",
    "several": "8,4k,64k,256k",
    "bandwidth": "8,512,4k,16k,64k,256k,1m,4m",
}
WHOLE = {
    "latency": "0,8,64,512,4k,16k,64k,256k,1m,4m,16m",
    "touched": "8,64,512,4k,16k,64k,256k,1m,4m,16m",
    "exchange": "8,64,512,4k,16k,64k,256k,1m,4m,16m",
    "several": "8,512,4k,16k,64k,256k,1m",
    "bandwidth": "8,64,512,4k,16k,64k,256k,1m,4m,16m",
}
WORK_NS = "0,500"  # between two polls
SHARED_RANKS = 4
COMPUTING = 2  # programs beside them
WIDE_SIZES = {"wide allreduce": "8", "wide pairwise": "8,1k,16k,256k"}


@dataclass(frozen=True)
class Plan:
    """What one start of one peer runs."""

    tests: tuple[str, ...]
    ranks: int
    sizes: str
    # Many short rounds: where others use the machine too, some fall between their slices.
    rounds: int = 25
    round_ms: int = 3
    computing: int = 0  # other programs
    wide: bool = False  # a core for each rank

    def label(self, peer: Peer) -> str:
        """A peer's start of this, by which its failure is known."""
        return f"{peer.name} {','.join(self.tests)}"

    def suits(self, peer: Peer) -> bool:
        if self.patterned:  # they take long, and what is best at each size is the others' matter
            return (peer.thole and not peer.heap) or peer.default
        return not peer.heap or "touched" in self.tests

    @property
    def patterned(self) -> bool:
        return self.tests[0] in PATTERNS


def wide(wanted: Sequence[str], cores: int, options: argparse.Namespace) -> list[Plan]:
    """With as many ranks as there are cores; on two these would be what is measured anyway."""
    ranks = min(cores, patterns.WIDE_RANKS)
    if ranks <= 2:
        return []
    made = [Plan((test,), ranks, WIDE_SIZES[test], rounds=15, wide=True) for test in WIDE if test in wanted]
    if patterns.WIDE in wanted and not options.quick:
        made.append(Plan((patterns.WIDE,), ranks, "", rounds=7, round_ms=10, wide=True))
    return made


def plans(options: argparse.Namespace, cores: int) -> list[Plan]:
    wanted = options.only.split(",") if options.only else list(TESTS)
    sizes = QUICK if options.quick else WHOLE
    made = [Plan((test,), 2, options.sizes or sizes[test]) for test in sizes if test in wanted]
    polls = tuple(test for test in POLLS if test in wanted)
    if polls:
        made.append(Plan(polls, 2, WORK_NS))
    shared = tuple(test for test in SHARED if test in wanted)
    if shared:
        # Ranks that share a core need many slices of the scheduler for one sample.
        made.append(Plan(shared, SHARED_RANKS, "8", rounds=7, round_ms=50))
    busy = tuple(test for test in BUSY if test in wanted)
    if busy:
        made.append(Plan(busy, SHARED_RANKS, "8", rounds=5, round_ms=200, computing=COMPUTING))
    made += [
        Plan((test,), ranks, "", rounds=7, round_ms=10)
        for test, ranks in ((patterns.ALONE, 2), (patterns.CROWDED, patterns.CROWDED_RANKS))
        if test in wanted and not options.quick
    ]
    return made + wide(wanted, cores, options)
