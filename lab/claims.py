# SPDX-License-Identifier: BSD-3-Clause
"""What a report is made of: sections, one a paper, of claims and pictures.

A claim is a number that a paper states, beside ours: with the paper's machine as cost model, and on this machine. Where
one of ours does not exist the reason is in `why`. A picture is a few curves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Claim:
    where: str  # in the paper
    what: str
    unit: str  # "" for a ratio
    theirs: float | None  # None: it says nothing
    modelled: float | None = None  # with the paper's machine's costs
    here: float | None = None  # measured on this machine, or with its costs
    why: str = ""  # why they differ


@dataclass(frozen=True)
class Curve:
    label: str
    points: tuple[tuple[float, float], ...]
    theirs: bool = False  # values that the paper states


@dataclass(frozen=True)
class Picture:
    name: str  # of its file
    title: str
    down: str  # what is along y
    curves: tuple[Curve, ...]
    along: str = "message size"
    logarithmic: bool = False  # y


@dataclass
class Section:
    paper: str
    title: str
    text: str  # what is compared, and how
    claims: list[Claim] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what could not be had here, and why


def number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit != "" and value == int(value):
        return f"{value:,.0f}"
    if unit == "" or abs(value) < 10:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def rows(section: Section) -> Iterator[list[str]]:
    """A table's: the head, then a row for each claim."""
    yield ["where", "what", "unit", "paper", "its machine's costs", "this machine", "why they differ"]
    for claim in section.claims:
        numbers = [number(value, claim.unit) for value in (claim.theirs, claim.modelled, claim.here)]
        yield [claim.where, claim.what, claim.unit or "ratio", *numbers, claim.why]
