#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No include goes up, and none makes a circle; of units (a file and its header) only the engine's do.

    layers.py       prints what is wrong, a line each

BELOW is the picture of ARCHITECTURE.md as data: a folder's files include each other, thole.h, and files of the
folders that are given here, which have to be lower in the table. Which of src/base front ends may use is
checked with the documents.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BELOW = {
    "provider": ("front", "src/base"),
    "ucx": ("front", "src/base"),
    "front": ("src/base",),
    "heap": ("src/base",),
    "mx": ("mx/include/mx_internals", "mx/include", "src/base"),
    "mx/include/mx_internals": ("mx/include",),
    "mx/include": (),
    "src/endpoint": ("src/message", "src/transport/datagram", "src/transport/verbs", "src/memory", "src/base"),
    "src/message": ("src/match", "src/transport", "src/memory", "src/base"),
    "src/match": ("src/base",),
    "src/transport/shm": ("src/transport", "src/memory", "src/base"),
    "src/transport/datagram": ("src/memory", "src/transport/datagram/wire", "src/transport", "src/base"),
    "src/transport/datagram/wire": ("src/transport", "src/base"),
    "src/transport/verbs": ("src/transport", "src/memory", "src/base"),
    "src/transport": ("src/memory", "src/base"),
    "src/memory": ("src/base",),
    "src/base": (),
    "include": (),
}
EVERYWHERE = ("include", "kernel")  # thole.h, and thole_driver.h: what the driver takes and shows
# One machine in several files: connection.h has the parts of a connection, each of the file of its name, and each of
# these files works on connections.
ENGINE = ("engine", "connection", "naming", "handshake", "route", "silence", "transmit", "arrival", "pull", "serve")
ENGINE += ("burst", "scatter", "transmit_frame", "handover")
PATHS = ("src", "include", "kernel", "mx/include", ".")  # where the compiler looks, after the file's own folder


def folder(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix()


def resolve(path: Path, header: str) -> Path:
    """What it includes; of what is made by the build, where it would be."""
    places = [path.parent / header, *(ROOT / place / header for place in PATHS)]
    return next((place for place in places if place.exists()), ROOT / "src" / header)


def includes() -> dict[Path, list[Path]]:
    top = {name.split("/")[0] for name in BELOW}
    files = sorted(path for name in top for path in (ROOT / name).rglob("*.[ch]"))
    pattern = re.compile(r'^\s*#\s*include\s*"(.*)"', flags=re.MULTILINE)
    return {path: [resolve(path, header) for header in pattern.findall(path.read_text())] for path in files}


def wrong_data(graph: dict[Path, list[Path]]) -> Iterator[str]:
    """The data itself: in order, of folders that are there, and no more than is made use of."""
    order = list(BELOW)
    used = {(folder(path), folder(header)) for path, headers in graph.items() for header in headers}
    for upper, lowers in BELOW.items():
        for lower in lowers:
            if lower not in order or order.index(lower) <= order.index(upper):
                yield f"layers.py: {lower} does not stand below {upper}"
            elif (upper, lower) not in used:
                yield f"layers.py: nothing in {upper} includes anything of {lower}"
    for name in sorted({folder(path) for path in graph} - set(order)):
        yield f"layers.py does not know {name}"


def upward(graph: dict[Path, list[Path]]) -> Iterator[str]:
    for path, headers in graph.items():
        own = folder(path)
        for header in headers:
            if folder(header) not in (own, *EVERYWHERE, *BELOW.get(own, ())):
                yield f"{path.relative_to(ROOT)} includes {header.relative_to(ROOT)}, which is not below {own}"


def circles(graph: dict[Path, list[Path]]) -> Iterator[str]:
    """Each circle once, where the search closes it."""
    done: set[Path] = set()
    way: list[Path] = []

    def visit(path: Path) -> Iterator[str]:
        if path in way:
            yield " includes ".join(str(step.relative_to(ROOT)) for step in [*way[way.index(path) :], path])
        elif path not in done:
            way.append(path)
            for header in graph.get(path, ()):
                yield from visit(header)
            way.pop()
            done.add(path)

    for path in graph:
        yield from visit(path)


def units(graph: dict[Path, list[Path]]) -> dict[Path, set[Path]]:
    """A file and its header as one: which of them include which others."""
    above: dict[Path, set[Path]] = {}
    for path, headers in graph.items():
        own = path.with_suffix("")
        above.setdefault(own, set()).update(header.with_suffix("") for header in headers)
        above[own].discard(own)
    return above


def reached(above: dict[Path, set[Path]], unit: Path) -> set[Path]:
    found: set[Path] = set()
    ways = [unit]
    while ways:
        new = above.get(ways.pop(), set()) - found
        found |= new
        ways += new
    return found


def circles_of_units(graph: dict[Path, list[Path]]) -> Iterator[str]:
    above = units(graph)
    reach = {unit: reached(above, unit) for unit in above}
    allowed = {ROOT / "src/transport/datagram" / name for name in ENGINE}
    looping = {unit for unit in above if unit in reach[unit]}
    for unit in sorted(looping - allowed):
        others = sorted(other.name for other in reach[unit] & looping if unit in reach[other] and other != unit)
        yield f"{unit.relative_to(ROOT)} is in a circle with {', '.join(others)}"
    for unit in sorted(allowed - looping):
        yield f"layers.py: {unit.name} is in no circle any more"


def main() -> int:
    graph = includes()
    faults = [*wrong_data(graph), *upward(graph), *circles(graph), *circles_of_units(graph)]
    print("\n".join([*faults, f"{len(graph)} files in {len(BELOW)} folders: {len(faults)} wrong"]))
    return 1 if faults or not graph else 0


if __name__ == "__main__":
    sys.exit(main())
