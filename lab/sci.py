# SPDX-License-Identifier: BSD-3-Clause
"""SCI: arbitrary memory for its adapters, simulated (sim/sci.c): connecting, transfers, what setting up costs."""

from __future__ import annotations

from typing import Any

import models
from claims import Claim, Curve, Picture, Section
from machines import SCI_CONNECTING, SCI_TABLE
from measure import Bed

KIB, MIB = 1024, 1024 * 1024
MB = 1e6
Points = dict[int, float]


def _rates(points: list[list[int]]) -> Points:
    """MB/s by bytes."""
    return {length: length / ns * 1e9 / MB for length, ns in points}


def _curve(label: str, rates: Points) -> Curve:
    return Curve(label, tuple(rates.items()))


def section(bed: Bed) -> Section:
    found = bed.simulate("thole-sim-sci")
    made = Section(
        "sci-arbitrary-memory",
        "Using arbitrary memory regions for SCI communication",
        "Two hosts with simulated adapters: page lists really go by messages, transfers by control blocks "
        "between pages that lie anywhere. The costs of a block, a message, a page are the paper's, by the sentences "
        "that `sim/sci.c` names; all else follows. Table I's times have no such costs: the second page takes nothing, "
        "the third and fourth 10 us, and the first message 85, later ones 116, 107 and 117 us; the paper "
        "gives its regression and no other cause, so that is kept, and times are within 5% of the table, not its.",
    )
    made.claims = [*_connecting(found["table"]), *_transfers(found)]
    groups = ("segments", "alignments", "setting up")
    figures = dict(zip(groups, ("figure 4", "figure 5", "figure 7, and what today's answers make of it")))
    for group in groups:
        curves = tuple(_curve(label, _rates(points)) for label, points in found[group].items())
        made.pictures.append(Picture(f"sci-{group.replace(' ', '-')}", figures[group], "MB/s", curves))
    line = tuple((length, SCI_CONNECTING.time(models.connect_messages(length)) * 1e6) for length, *_ in SCI_TABLE)
    made.pictures.append(
        Picture("sci-connect", "table I", "us", (
            Curve("table I", tuple((length, seconds * 1e6) for length, seconds, _ in SCI_TABLE), theirs=True),
            Curve("simulated", tuple((length, ns / 1e3) for length, ns, _ in found["table"])),
            Curve("380 us + 110 us a message", line),
        ), along="segment size", logarithmic=True))  # fmt: skip
    return made


def _connecting(table: list[list[int]]) -> list[Claim]:
    made = []
    for (length, seconds, messages), (_, ns, counted) in zip(SCI_TABLE, table):
        name = f"{length // KIB} KB"
        made.append(Claim("table I", f"ACKI messages, {name}", "messages", messages, counted))
        made.append(Claim("table I", f"time to connect, {name}", "us", seconds * 1e6, ns / 1e3,
                          why="a constant and a time a message, as the paper's line; its points scatter"))  # fmt: skip
    return made


def _transfers(found: dict[str, Any]) -> list[Claim]:
    segments, alignments, steps = ({label: _rates(points) for label, points in found[group].items()}
                                   for group in ("segments", "alignments", "setting up"))  # fmt: skip
    large, medium = 4 * MIB, 8 * KIB
    free = steps["transfer"]
    registered, connected = steps["register, transfer"], steps["register, connect, transfer"]
    later = "not in the paper: what it names as future work"
    return [
        Claim("figure 3", "bandwidth lost to pages in any place", "", 0.20,
              1 - segments["user to regular"][large] / segments["regular to regular"][large],
              why="`less than 20 percent`"),
        Claim("figure 4", "regular to regular", "MB/s", 249, segments["regular to regular"][16 * MIB]),
        Claim("figure 4", "regular to user", "MB/s", 212, segments["regular to user"][large]),
        Claim("figure 4", "user to regular, user to user", "MB/s", 207, segments["user to user"][large]),
        Claim("figure 5", "half a page of offset", "MB/s", 180, alignments["2048 to 0"][large],
              why="two blocks a page"),
        Claim("figure 5", "8 bytes of offset", "MB/s", 100, alignments["8 to 0"][large],
              why="two blocks a page, neither aligned to a line; one cost stands for this and for the next row"),
        Claim("section III-B", "8 bytes of offset, into a regular segment", "MB/s", 134,
              alignments["8 to regular"][large]),
        Claim("figure 7", "lost to making ready, medium", "MB/s", 60, free[medium] - registered[medium],
              why="`about 60 MB/s for medium size`: 8 KB here"),
        Claim("figure 7", "lost to making ready, large", "MB/s", 20, free[large] - registered[large]),
        Claim("figure 7", "with connecting, large", "MB/s", 110, connected[large]),
        Claim("section IV", "the same buffers ten times, by a cache, 256 KB", "MB/s", connected[256 * KIB],
              steps["cached, used ten times"][256 * KIB], why=later),
        Claim("section III-C", "lists of 512 addresses a message, 4 MB", "MB/s", connected[large],
              steps["lists of 512 addresses"][large], why=later),
        Claim("section III-A", "huge pages and lists of runs, 4 MB", "MB/s", connected[large],
              steps["huge pages, lists of runs"][large],
              why="in 2001 `more than 99 percent of the pages are non-continuous`; huge pages are"),
    ]  # fmt: skip
