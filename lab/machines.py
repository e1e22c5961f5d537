# SPDX-License-Identifier: BSD-3-Clause
"""The papers' machines, as far as their texts say what they cost. What is derived from a sentence says which."""

from __future__ import annotations

from dataclasses import dataclass

from models import Machine, Pinning

INFINITE = float("inf")

# Superpipeline, section 2, cluster graphene (ConnectX DDR, Xeon X3440). The network's rate follows from "91% of the
# network bandwidth" for registering, the copy's in memory from "57%" for copying; gap and overhead are "of the order of
# 100 ns", the latency follows from a first chunk of 8 KB at that rate.
_REGISTRATION_RATE = 20e9
_NET_RATE = _REGISTRATION_RATE * (1 / 0.91 - 1)
_COPY_RATE = _NET_RATE * 0.57 / 0.43
GRAPHENE = Machine(
    name="graphene (ConnectX DDR, Xeon X3440)",
    levels=((INFINITE, _COPY_RATE),),
    net_latency=1.5e-6,
    net_rate=_NET_RATE,
    gap=0.2e-6,
    overhead=0.1e-6,
    registration=68e-6,
    registration_rate=_REGISTRATION_RATE,
)

# Decoupled pinning, table 1: seconds a region and a page, pinned and unpinned; bytes a second that the table states.
PINNING = {
    "Opteron 265": (Pinning(4.2e-6, 720e-9), 5.5e9),
    "Opteron 8347": (Pinning(2.2e-6, 330e-9), 12e9),
    "Xeon E5435": (Pinning(2.3e-6, 250e-9), 16e9),
    "Xeon E5460": (Pinning(1.3e-6, 150e-9), 26.5e9),
}


# ---- SCI ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Connecting:
    """Seconds: a constant, and for each ACKI message (section IV's regression). What it leaves out is in sim/sci.c."""

    fixed: float = 380e-6
    message: float = 110e-6

    def time(self, messages: int) -> float:
        return self.fixed + messages * self.message


SCI_CONNECTING = Connecting()
# Table I: bytes of the segment, seconds to connect, ACKI messages.
SCI_TABLE = (
    (4096, 389e-6, 0),
    (8192, 389e-6, 0),
    (16384, 399e-6, 0),
    (32768, 484e-6, 1),
    (65536, 600e-6, 2),
    (131072, 813e-6, 4),
    (262144, 1280e-6, 8),
)
