# SPDX-License-Identifier: BSD-3-Clause
"""SCI: arbitrary memory for its adapters, simulated (sim/sci.c): connecting, transfers, what setting up costs; with the
paper's adapters, and where this machine's kernel does what they did."""

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
    made = Section(
        "sci-arbitrary-memory",
        "Using arbitrary memory regions for SCI communication",
        "Two hosts with simulated adapters: page lists really go by messages, transfers by control blocks "
        "between pages that lie anywhere. The costs of a block, a message, a page are the paper's, by the sentences "
        "that `sim/sci.c` names; all else follows. Of table I the paper gives a regression: 380 us, and 110 a message, "
        "which misses its times by up to 5%. But the last message of each row has four addresses, the others eight, "
        "and addresses are put into a list one by one: with a time a message and a time an address none is missed by "
        "more than 1.5%. What is left then has no cause in the paper. "
        "This machine has no such adapter: in its place the kernel moves bytes by process_vm_writev, whose list has an "
        "entry where theirs has a control block; a message is a datagram that wakes who gets it, connecting a system "
        "call beside, making ready a page is pinning it. All of these were measured here.",
    )
    found, costs = bed.simulate("thole-sim-sci"), bed.costs(made)
    here = bed.simulate("thole-sim-sci", *costs.words()) if costs else None
    made.claims = [*_connecting(found["table"], here["table"] if here else None), *_claims(found, here)]
    groups = ("segments", "alignments", "setting up")
    figures = dict(zip(groups, ("figure 4", "figure 5", "figure 7, and what today's answers make of it")))
    for group in groups:
        curves = tuple(_curve(label, _rates(points)) for label, points in found[group].items())
        made.pictures.append(Picture(f"sci-{group.replace(' ', '-')}", figures[group], "MB/s", curves))
    if here:
        curves = tuple(_curve(label, _rates(points)) for group in groups for label, points in here[group].items())
        made.pictures.append(Picture("sci-here", "this machine: figures 4, 5 and 7", "MB/s", curves))
    line = tuple((length, SCI_CONNECTING.time(models.connect_messages(length)) * 1e6) for length, *_ in SCI_TABLE)
    made.pictures.append(
        Picture("sci-connect", "table I", "us", (
            Curve("table I", tuple((length, seconds * 1e6) for length, seconds, _ in SCI_TABLE), theirs=True),
            Curve("simulated", tuple((length, ns / 1e3) for length, ns, _ in found["table"][: len(SCI_TABLE)])),
            Curve("380 us + 110 us a message, as the paper has it", line),
        ), along="segment size", logarithmic=True))  # fmt: skip
    return made


def _connecting(table: list[list[int]], here: list[list[int]] | None) -> list[Claim]:
    made = []
    why = "a constant, a time a message, a time an address: least squares; here a wake-up a message"
    for number, ((length, seconds, messages), (_, ns, counted)) in enumerate(zip(SCI_TABLE, table)):
        name = f"{length // KIB} KB"
        _, own_ns, own_counted = here[number] if here else (0, None, None)
        made.append(Claim("table I", f"ACKI messages, {name}", "messages", messages, counted, own_counted,
                          "how many addresses a message has room for, whatever the machine"))  # fmt: skip
        made.append(Claim("table I", f"time to connect, {name}", "us", seconds * 1e6, ns / 1e3,
                          own_ns / 1e3 if own_ns else None, why))  # fmt: skip
    made.append(Claim("section IV", "time to connect, 16 MB", "us", 57e3, table[-1][1] / 1e3,
                      here[-1][1] / 1e3 if here else None, "as above, `to 57 ms for 16 MB`"))  # fmt: skip
    return made


LATER = "not in the paper: what it names as future work"
# Where, what, unit, the paper's value, why ours differ; a value that is None: what is compared with is ours.
ROWS: tuple[tuple[str, str, str, float | None, str], ...] = (
    ("figure 3", "bandwidth lost to pages in any place", "", 0.20,
     "`less than 20 percent`; a list's entry here, whose page the kernel looks up by itself"),
    ("figure 4", "regular to regular", "MB/s", 249, "the PCI bus there, a copy by the kernel here"),
    ("figure 4", "regular to user", "MB/s", 212, "a block a page: of a faster copy it takes a larger share"),
    ("figure 4", "user to regular, user to user", "MB/s", 207, "the order of this side's pages does not matter here"),
    ("figure 5", "half a page of offset", "MB/s", 180, "two blocks a page"),
    ("figure 5", "8 bytes of offset", "MB/s", 100,
     "two blocks a page, neither aligned to a line; one cost stands for this and for the next row; what "
     "a piece of 8 bytes costs more here, too"),
    ("section III-B", "8 bytes of offset, into a regular segment", "MB/s", 134, "as above"),
    ("figure 6", "a single page made ready", "us", 15.5,
     "of the 15.5 the page itself is 2.1; nothing but the page is made ready here"),
    ("figure 7", "lost to making ready, medium", "MB/s", 60,
     "`about 60 MB/s for medium size`: 8 KB here; of this machine's rate it is a larger share"),
    ("figure 7", "lost to making ready, large", "MB/s", 20,
     "of a rate that is far higher here, about as large a share"),
    ("figure 7", "with connecting, large", "MB/s", 110,
     "a message costs a wake-up, which has not become as much faster"),
    ("section IV", "the same buffers ten times, by a cache, 256 KB", "MB/s", None, LATER),
    ("section III-C", "lists of 512 addresses a message, 4 MB", "MB/s", None,
     f"{LATER}; each address takes its time all the same"),
    ("section III-A", "huge pages and lists of runs, 4 MB", "MB/s", None,
     "in 2001 `more than 99 percent of the pages are non-continuous`; huge pages are"),
)  # fmt: skip


def _values(found: dict[str, Any]) -> list[float]:
    """In the order of ROWS."""
    segments, alignments, steps = ({label: _rates(points) for label, points in found[group].items()}
                                   for group in ("segments", "alignments", "setting up"))  # fmt: skip
    large, medium = 4 * MIB, 8 * KIB
    free, registered, connected = (steps[name] for name in FIGURE_7)
    ready = {name: dict(found["setting up"][name])[4 * KIB] for name in FIGURE_7[:2]}
    return [
        1 - segments["user to regular"][large] / segments["regular to regular"][large],
        segments["regular to regular"][16 * MIB],
        segments["regular to user"][large],
        segments["user to user"][large],
        alignments["2048 to 0"][large],
        alignments["8 to 0"][large],
        alignments["8 to regular"][large],
        (ready[FIGURE_7[1]] - ready[FIGURE_7[0]]) / 1e3,
        free[medium] - registered[medium],
        free[large] - registered[large],
        connected[large],
        steps["cached, used ten times"][256 * KIB],
        steps["lists of 512 addresses"][large],
        steps["huge pages, lists of runs"][large],
    ]


FIGURE_7 = ("transfer", "register, transfer", "register, connect, transfer")
UNCACHED = (256 * KIB, 4 * MIB, 4 * MIB)  # of the last rows: what was future work, beside the same without


def _claims(found: dict[str, Any], here: dict[str, Any] | None) -> list[Claim]:
    own: list[float | None] = [*_values(here)] if here else [None] * len(ROWS)
    connected = _rates(found["setting up"][FIGURE_7[2]])
    stated = [row[3] for row in ROWS[: -len(UNCACHED)]] + [connected[size] for size in UNCACHED]
    return [
        Claim(where, what, unit, theirs, modelled, value, why)
        for (where, what, unit, _, why), theirs, modelled, value in zip(ROWS, stated, _values(found), own)
    ]
