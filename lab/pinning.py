# SPDX-License-Identifier: BSD-3-Clause
"""Decoupled pinning: what pinning costs, and what is left of a network's bandwidth."""

from __future__ import annotations

from claims import Claim, Section
from machines import PINNING
from measure import Bed

NET_RATE = 1.1e9  # bytes a second that its figures reach at most, by Myri-10G


def section(bed: Bed) -> Section:
    del bed  # nothing is run
    made = Section(
        "decoupled-pinning-open-mx",
        "Decoupling memory pinning from the application with overlapped on-demand pinning and MMU notifiers",
        "Table 1's costs, and what they leave of 10G Ethernet where each transfer is pinned before it begins.",
    )
    for processor, (costs, stated) in PINNING.items():
        made.claims.append(Claim("table 1", f"pinning's rate, {processor}", "GB/s", stated / 1e9, costs.rate() / 1e9,
                                 why="4 KiB by the table's time a page; the table rounds"))  # fmt: skip
    for processor, theirs in (("Xeon E5460", 0.05), ("Opteron 265", 0.20)):
        made.claims.append(
            Claim("4.1", f"bandwidth lost to pinning before, {processor}", "", theirs,
                  1 - PINNING[processor][0].left_of(NET_RATE),
                  why="one side's pinning is in the way: the other's is hidden behind the request"))  # fmt: skip
    return made
