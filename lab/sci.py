# SPDX-License-Identifier: BSD-3-Clause
"""SCI: arbitrary memory for its adapters: page lists, and control blocks a transfer."""

from __future__ import annotations

import models
from claims import Claim, Curve, Picture, Section
from machines import SCI_CONNECTING, SCI_TABLE

KIB = 1024


def connect_time(length: int) -> float:
    return SCI_CONNECTING.fixed + models.connect_messages(length) * SCI_CONNECTING.message


def section() -> Section:
    made = Section(
        "sci-arbitrary-memory",
        "Using arbitrary memory regions for SCI communication",
        "Page lists by the sizes of ACK1 and ACKI, times by the paper's own regression, control blocks by where pages "
        "end on either side.",
    )
    for length, seconds, messages in SCI_TABLE:
        name = f"{length // KIB} KB"
        counted = models.connect_messages(length)
        made.claims.append(Claim("table I", f"ACKI messages, {name}", "messages", messages, counted))
        made.claims.append(Claim("table I", f"time to connect, {name}", "us", seconds * 1e6, connect_time(length) * 1e6,
                                 why="the regression's line, not the point"))  # fmt: skip
    made.claims.append(
        Claim("section III-C", "control blocks of 64 KB, at most", "blocks", (64 // 4 + 1) * 2,
              len(models.control_blocks(64 * KIB, 8, 16)),
              why="the paper's bound; blocks counted for offsets of 8 and 16 bytes"))  # fmt: skip
    made.pictures = [
        Picture("sci-connect", "Connecting a segment", "us", (
            Curve("table I", tuple((length, seconds * 1e6) for length, seconds, _ in SCI_TABLE), theirs=True),
            Curve("380 us + 110 us a message", tuple((length, connect_time(length) * 1e6) for length, *_ in SCI_TABLE)),
        ), along="segment size", logarithmic=True)
    ]  # fmt: skip
    return made
