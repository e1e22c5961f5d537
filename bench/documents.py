#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of measurements in PERFORMANCE.md and README.md, made from docs/performance/*.json.

    documents.py check    do the documents say what the files say?
    documents.py write    bring them up to date

A file is what one machine did at one time (record.py makes it). PERFORMANCE.md has a block for each, between two
comments; what is written around it, such as why something is slower, stays. README.md has some rows of the newest, by
the day and the time of day that are in them.
Needs nothing but Python's own library.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "performance"
PERFORMANCE = ROOT / "docs" / "PERFORMANCE.md"
README = ROOT / "README.md"
NEWEST = "the newest of docs/performance"
END = "<!-- end of the table -->"
RATES = ("GB/s", "GUPs")
WRITTEN = 16384  # README.md shows rows of written buffers from this size on
LEVEL = 1.03  # times as long is still as fast

# What README.md shows: how a row begins there, and the row's name and sizes.
SHOWN = (
    ("inside a node", "ping-pong", (8, 512, 65536, 1 << 20, 4 << 20)),
    ("between hosts, raw and UDP", "ping-pong, raw and UDP", (8, 4096, 65536, 1 << 20, 4 << 20)),
    ("between hosts, UDP alone", "ping-pong, UDP alone", (8,)),
)


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Row:
    """Ours against the best of all others, at one size."""

    what: str
    size: int
    unit: str
    other: float
    other_name: str
    ours: float
    ours_name: str
    goal: float  # what ours is to be to the others': of a time at most, of a rate at least

    @property
    def faster(self) -> float:
        return self.ours / self.other if self.unit in RATES else self.other / self.ours

    @property
    def wanted(self) -> float:
        return self.goal if self.unit in RATES else 1 / self.goal

    def cells(self) -> list[str]:
        unit = f" {self.unit}" if self.unit in RATES else ""
        mark = "**" if self.faster * LEVEL < 1 else ""
        return [
            f"{number(self.other)}{unit} ({self.other_name})",
            f"{number(self.ours)}{unit} ({self.ours_name})",
            f"{mark}{self.faster:.2f}{mark}",
        ]


def size_text(size: int) -> str:
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def moment(path: Path) -> tuple[str, str, str]:
    data = json.loads(path.read_text())
    return data["date"], data["time"], path.name


def files() -> list[Path]:
    """The newest first."""
    return sorted(FOLDER.glob("*.json"), key=moment, reverse=True)


def rows(part: dict[str, object]) -> list[Row]:
    given = part["rows"]
    assert isinstance(given, list)
    return [Row(**row) for row in given]


def table(columns: list[str], lines: list[list[str]]) -> list[str]:
    bar = "|".join("---" for _ in columns)
    return [f"| {' | '.join(columns)} |", f"|{bar}|", *(f"| {' | '.join(line)} |" for line in lines)]


def part_text(part: dict[str, object]) -> list[str]:
    found = rows(part)
    lines = [[f"{row.what}, {size_text(row.size)}", *row.cells(), f"{row.wanted:.2f}"] for row in found]
    slower = [f"{row.what}, {size_text(row.size)} ({row.faster:.2f})" for row in found if row.faster * LEVEL < 1]
    met = sum(row.faster * LEVEL >= row.wanted for row in found)
    return [
        f"{part['title']}, while {part['condition']} one way:",
        "",
        *table(["", "best other", "best over Thole", "times faster", "wanted"], lines),
        "",
        *wrapped(f"{met} of {len(found)} as wanted. Slower over Thole: {'; '.join(slower) if slower else 'nothing'}."),
        "",
    ]


def title(data: dict[str, object]) -> str:
    """The machine and the day."""
    return f"{str(data['machine']).partition(';')[0]}, {data['date']}"


def block(path: Path) -> str:
    data = json.loads(path.read_text())
    mpis, since = ", ".join(data["mpis"]), data.get("since", data["date"])
    when = f"on {data['date']}" if since == data["date"] else f"from {since} to {data['date']}"
    said = f"Measured {when} (commit {data['commit']}): {data['machine']}. {mpis}."
    if data.get("failed"):
        said += f" Not run to their end: {', '.join(data['failed'])}."
    text = [*wrapped(said), ""]
    for part in data["parts"]:
        text += part_text(part)
    if data["crowd"]:
        text += ["8 bytes beside peers that are connected and say nothing, medians, us one way:", ""]
        lines = [
            [f"a {one['partner']} peer, beside {one['peers']} {one['crowd']} ones"]
            + [f"{one['alone_us']:.3g}", f"{one['beside_us']:.3g}", f"{one['beside_us'] / one['alone_us']:.2f}"]
            for one in data["crowd"]
        ]
        text += [*table(["", "alone", "beside them", "times as long"], lines), ""]
    return "\n".join(text)


def readme_block() -> str:
    """Each part of the newest file that has it; the first state of the machine counts, with the cores near."""
    lines: list[list[str]] = []
    machines: dict[str, list[str]] = {}  # by where the ranks are
    for begin, what, sizes in SHOWN:
        for path in files():
            data = json.loads(path.read_text())
            found = [row for part in data["parts"] for row in rows(part)]
            named = (what, f"{what}, written")
            chosen = {row.size: row for row in reversed(found) if row.what == named[row.size >= WRITTEN]}
            lines += [[f"{begin}, {size_text(size)}", *chosen[size].cells()] for size in sizes if size in chosen]
            if chosen:
                machines.setdefault(begin.partition(",")[0], []).append(title(data))
                break
    said = "; ".join(f"{where}: {' and '.join(dict.fromkeys(names))}" for where, names in machines.items())
    heading = [*wrapped(f"{said[:1].upper()}{said[1:]}."), ""]
    return "\n".join([*heading, *table(["", "best other", "best over Thole", "times faster"], lines), ""])


def mark(name: str) -> str:
    return f"<!-- {name}, by bench/documents.py -->"


def with_block(text: str, name: str, made: str) -> str | None:
    """The text with what stands between the marks made anew; None where it has no such marks."""
    pattern = re.escape(mark(name)) + ".*?" + re.escape(END)
    if not re.search(pattern, text, flags=re.DOTALL):
        return None
    return re.sub(pattern, lambda _: f"{mark(name)}\n{made}{END}", text, count=1, flags=re.DOTALL)


def performance() -> str:
    """PERFORMANCE.md as it should be: a file that has no block yet gets one, in a section before all that have one."""
    text = PERFORMANCE.read_text()
    for path in reversed(files()):
        made = with_block(text, path.name, block(path))
        if made is None:
            at = text.rindex("\n## ", 0, text.index(END))
            section = f"\n## {title(json.loads(path.read_text()))}\n\n{mark(path.name)}\n{block(path)}{END}\n"
            made = text[:at] + section + text[at:]
        text = made
    return text


def readme() -> str:
    return with_block(README.read_text(), NEWEST, readme_block()) or README.read_text()


def write() -> None:
    PERFORMANCE.write_text(performance())
    README.write_text(readme())


def main() -> int:
    if sys.argv[1:] == ["write"]:
        write()
        return 0
    if sys.argv[1:] == ["check"]:
        wanted = {PERFORMANCE: performance(), README: readme()}
        wrong = [path.name for path, text in wanted.items() if path.read_text() != text]
        blocks = re.findall(r"<!-- (\S+\.json), by", PERFORMANCE.read_text())
        lost = sorted(set(blocks) - {path.name for path in files()})
        for name in wrong:
            print(f"{name} does not say what docs/performance says: bench/documents.py write", file=sys.stderr)
        for name in lost:
            print(f"PERFORMANCE.md has a table of {name}, which does not exist", file=sys.stderr)
        return 1 if wrong or lost or not files() or NEWEST not in README.read_text() else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
