# SPDX-License-Identifier: BSD-3-Clause
"""The comparison as a reader gets it: tables, for the terminal and in Markdown, and one JSON file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

import before
import patterns
from results import Condition, Results, size_text
from targets import DRIVER_ROWS, Check

NODE = "Inside a node"
HOSTS = "Between two hosts"

WIDE_TITLES = {
    "wide allreduce": "Allreduce, us, a core for each rank",
    "wide pairwise": "All in pairs at a time, us one way, a core for each rank, until all have ended",
}

NODE_TITLES = {
    "latency": "Latency, us one way, 2 ranks; the send buffer is not written again",
    "touched": "The same where both ranks write the buffer before each send (the writing not counted)",
    "exchange": "Both ranks send and receive at once (MPI_Sendrecv), us for both",
    "several": "Four messages each way at once, of which all are posted before one is waited for, us for all",
    "bandwidth": "Windowed bandwidth, GB/s",
    "allreduce": "Allreduce of 8 bytes, us, 4 ranks on 2 cores",
    "busy allreduce": "Allreduce of 8 bytes, us, 4 ranks on 2 cores, beside 2 programs that compute",
    "busy pairwise": "Two pairs at a time, 8 bytes, us one way, 4 ranks on 2 cores, beside 2 programs that compute",
    "test": "An MPI_Test that finds nothing, us; the size is the work between two, ns",
    "testany": "An MPI_Testany of 8 that finds nothing, us; the size is the work between two, ns",
    "iprobe": "An MPI_Iprobe that finds nothing, us; the size is the work between two, ns",
    "waitany": "Messages taken by MPI_Waitany, us each; the size is the work after each on both sides, ns",
    "gups": "HPC Challenge's MPIRandomAccess, GUPs, 2 ranks; the size is the table's, words",
    "hpcc ping-pong": "HPC Challenge's ping-pong, us, 2 ranks",
    "hpcc ring": "HPC Challenge's randomly ordered ring, us, 2 ranks",
    "pairwise": "Two pairs at a time, 8 bytes, us one way, 4 ranks on 2 cores, until both have ended",
    **WIDE_TITLES,
    **patterns.titles(),
}

NETWORK_TITLES = {
    "latency": "Latency, us one way, 2 ranks; the send buffer is not written again",
    "touched": "The same where both ranks write the buffer before each send (the writing not counted)",
    "exchange": "Both ranks send and receive at once (MPI_Sendrecv), us for both",
    "bandwidth": "Windowed bandwidth, GB/s",
    "test": "An MPI_Test that finds nothing, us; the size is the work between two, ns",
    "cpu_send": "CPU seconds of the sender for each GB of it",
    "cpu_recv": "CPU seconds of the receiver for each GB of it",
    "allreduce": "Allreduce of 8 bytes, us, 4 ranks on one core of each host",
    **WIDE_TITLES,
    **patterns.titles(),
}


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", "| " + " | ".join(self.columns) + " |"]
        lines.append("|" + "---|" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def show(self, console: Console) -> None:
        table = RichTable(title=escape(self.title), title_justify="left", box=box.SIMPLE)
        for number, column in enumerate(self.columns):
            justify = "left" if number == 0 else "right"
            table.add_column(column, justify=justify, no_wrap=number == 0, overflow="fold")
        for row in self.rows:
            table.add_row(*[escape(cell) for cell in row])
        console.print(table)


def _number(value: float) -> str:
    if value < 0.1:
        return f"{value:.3f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _cell(results: Results, peer: str, test: str, size: int) -> str:
    series = results.get(peer, test, size)
    return f"{_number(series.median)} ({_number(series.best)})" if series else "-"


def tables(results: Results, titles: dict[str, str]) -> list[Table]:
    """One table a test; cells are median (best) over all rounds."""
    made: list[Table] = []
    for test, title in titles.items():
        sizes = results.sizes(test)
        if not sizes:
            continue
        rows = [
            [peer, *[_cell(results, peer, test, size) for size in sizes]]
            for peer in results.peers(test)
        ]
        made.append(Table(f"{title}; median (best)", ["peer", *map(size_text, sizes)], rows))
    return made


def target_table(checks: list[Check]) -> Table:
    rows = [[check.target, check.state, check.summary] for check in checks if check.summary]
    rest = [check.target for check in checks if not check.summary]
    if rest:
        rows.append(["not measured:", "", "; ".join(rest)])
    return Table("Targets", ["target", "", "measured"], rows)


def driver_table(found: dict[str, float]) -> Table:
    """Every row that there is, measured or not."""
    made = []
    for row in DRIVER_ROWS:
        value, limit = found.get(row.name), row.limit(found)
        goal = "" if limit is None else f"{limit:.4g}"
        state = "-" if value is None else "" if limit is None else "met" if value <= limit else "missed"
        made.append([row.title, "-" if value is None else f"{value:.4g}", row.unit, goal, state])
    return Table("The driver", ["what", "measured", "", "at most", ""], made)


@dataclass(frozen=True)
class Section:
    """What was measured under one condition of the machine."""

    condition: Condition
    results: Results
    checks: list[Check]
    titles: dict[str, str]

    @property
    def title(self) -> str:
        way = " one way" if self.condition.known else ""
        return f"While {self.condition}{way} ({self.results.count()} samples)"

    def tables(self) -> list[Table]:
        found = before.changes(self.results)
        first = [target_table(self.checks)] if self.checks else []
        if found:
            title = f"As a multiple of what it was over other builds; median (best). {before.sentence(found)}"
            first.append(Table(title, before.columns(found), before.rows(found)))
        return [*first, *tables(self.results, self.titles)]


@dataclass(frozen=True)
class Part:
    """One set-up of the machine: inside a node, or a kind of network."""

    title: str
    results: Results
    sections: list[Section]

    def show(self, console: Console) -> None:
        console.rule(escape(self.title), align="left", characters="=")
        for section in self.sections:
            console.rule(section.title, align="left")
            for table in reversed(section.tables()):
                table.show(console)
        console.print(failure_text(self.results), markup=False)

    def markdown(self) -> list[str]:
        text = [f"# {self.title}\n"]
        for section in self.sections:
            text.append(f"# {section.title}\n")
            text += [table.markdown() for table in section.tables()]
        if self.results.failures or self.results.missing:
            text += ["## Failures\n", failure_text(self.results)]
        return text

    def record(self) -> dict[str, object]:
        conditions = [
            {
                "low_ns": section.condition.low_ns,
                "high_ns": section.condition.high_ns,
                "samples": section.results.count(),
                "targets": [check.record() for check in section.checks],
                "changes": [change.record() for change in before.changes(section.results)],
            }
            for section in self.sections
        ]
        return {
            "title": self.title,
            "failures": self.results.failures,
            "missing": self.results.missing,
            "conditions": conditions,
            "results": self.results.records(),
        }


def failure_text(results: Results) -> str:
    parts = []
    for said, reasons in (("did not run to its end", results.failures), ("was left out", results.missing)):
        for name, reason in reasons.items():
            quoted = "\n".join(f"    {line}" for line in reason.splitlines())
            parts.append(f"{name} {said}:\n\n{quoted}\n")
    return "\n".join(parts)


def _facts(facts: dict[str, object]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items()) + "\n"


def write(
    folder: Path,
    name: str,
    facts: dict[str, object],
    parts: list[Part],
    extra: dict[str, object],
    more: Sequence[Table] = (),
) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    text = ["# Side by side\n", _facts(facts)]
    for part in parts:
        text += part.markdown()
    text += [table.markdown() for table in more]
    markdown, data = folder / f"{name}.md", folder / f"{name}.json"
    markdown.write_text("\n".join(text))
    document = {"host": facts, "parts": [part.record() for part in parts], **extra}
    data.write_text(json.dumps(document, indent=1) + "\n")
    return markdown, data
