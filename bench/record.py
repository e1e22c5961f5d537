#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Takes results of the benchmark into the documents: a file in docs/performance, and the tables made from it.

    record.py RESULTS.json...    what was measured in pieces becomes one: their samples are put together

What is there of the same machine and day gives way where the new results have all of its rows, as where a piece is new.
The rows and what is wanted of each are those of targets.py.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))


from thole.base.trouble import Trouble  # noqa: E402  (the path comes first)

import documents  # noqa: E402
import targets  # noqa: E402
from host import moment  # noqa: E402
from peers import NETWORK_PEERS, PEERS  # noqa: E402
from results import Condition, Results, Series  # noqa: E402

PARTS = (("Inside a node", targets.NODE_ROWS), ("Between two hosts, MTU 1500", targets.HOSTS_ROWS))


def merged(given: list[dict[str, object]], title: str) -> Results:
    """All samples of the parts of this title."""
    made = Results()
    for document in given:
        for part in document["parts"]:
            for record in part["results"] if part["title"] == title else []:
                key = (record["peer"], record["test"], record["size"])
                series = made.series.setdefault(key, Series(record["unit"]))
                series.samples += record["samples"]
                series.floors_ns += record["floors_ns"]
    return made


def name_of(peer: str, facts: dict[str, object]) -> str:
    """The MPI with its version, and the transport where it is not Thole, or its interface where that is UCX's."""
    one = next(one for one in PEERS + NETWORK_PEERS if one.name == peer)
    version = re.match(r".*? (?:[1-4]\.)?\d+", str(facts[one.mpi]))
    title = version[0] if version else str(facts[one.mpi])
    if one.thole:
        return title + (" by ucx" if one.through == "ucx" else "")
    return f"{title}, {one.transport}"


def rows(
    results: Results, condition: Condition, table: tuple[targets.Row, ...], facts: dict[str, object]
) -> list[dict[str, object]]:
    return [
        {
            "what": row.title,
            "size": one.size,
            "unit": row.unit,
            "other": one.theirs,
            "other_name": name_of(one.theirs_name, facts),
            "ours": one.ours,
            "ours_name": name_of(one.ours_name, facts),
            "goal": one.goal,
        }
        for row in table
        for one in row.found(results.under(condition), targets.is_near(condition))
    ]


def part(
    results: Results, title: str, table: tuple[targets.Row, ...], facts: dict[str, object]
) -> list[dict[str, object]]:
    """What was measured in each state of the machine, the cores near first."""
    made = [
        {"title": title, "condition": str(condition), "rows": rows(results, condition, table, facts)}
        for condition in sorted(results.conditions(), key=lambda condition: condition.low_ns)
    ]
    return [one for one in made if one["rows"]]


def failed(given: list[dict[str, object]]) -> list[str]:
    """What did not run to its end, of the parts that tables are made of."""
    titles = [title for title, _ in PARTS]
    parts = [part for document in given for part in document["parts"] if part["title"] in titles]
    return sorted({name for part in parts for name in part["failures"]})


def summary(given: list[dict[str, object]]) -> dict[str, object]:
    processors = dict.fromkeys(str(document["host"]["cpu"]) for document in given)
    if len(processors) > 1:
        raise Trouble(f"these are of different machines: {', '.join(processors)}", "record each by itself")
    commits = dict.fromkeys(str(document["host"]["commit"]) for document in given)
    facts: dict[str, object] = {}
    for document in given:
        facts |= document["host"]
    crowds = [document["crowd"] for document in given if document.get("crowd")]
    began = sorted(str(document["host"]["began"]).split() for document in given)
    measured = {one["peer"] for document in given for part in document["parts"] for one in part["results"]}
    mpis = {one.mpi for one in PEERS + NETWORK_PEERS if one.name in measured}
    return {
        "date": began[-1][0],
        "time": began[-1][1],
        "since": began[0][0],
        "commit": ", ".join(commits),
        "machine": facts["machine"],
        "mpis": [str(facts[one.mpi]) for one in PEERS if one.default and one.mpi in mpis],
        "failed": failed(given),
        "parts": [one for title, table in PARTS for one in part(merged(given, title), title, table, facts)],
        "crowd": crowds[-1] if crowds else [],
    }


def read(path: Path) -> dict[str, object]:
    """Results. Those of benches that did not say when they began are as old as their file."""
    document: dict[str, object] = json.loads(path.read_text())
    written = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc)
    document["host"].setdefault("began", moment(written))
    return document


def named(made: dict[str, object]) -> list[str]:
    """The rows of a file, in whatever state of the machine."""
    rows = [(part["title"], row) for part in made["parts"] for row in documents.rows(part)]
    found = [f"{title}, {row.what}, {documents.size_text(row.size)}" for title, row in rows]
    return found + (["silent peers"] if made["crowd"] else [])


def keep(path: Path, made: dict[str, object]) -> None:
    """Refuse to take the place of what has more."""
    there = named(json.loads(path.read_text())) if path.exists() else []
    lost = [name for name in there if name not in named(made)]
    if lost:
        raise Trouble(
            f"{path} is there, and has what these results have not: {lost[0]}",
            "give record.py the results of all pieces together, or remove that file",
        )


def take(paths: list[Path]) -> list[Path]:
    """The files that were written."""
    made = summary([read(path) for path in paths])
    slug = re.sub(r"[^a-z0-9]+", "-", str(made["machine"]).partition(";")[0].lower()).strip("-")
    documents.FOLDER.mkdir(exist_ok=True)
    path = documents.FOLDER / f"{made['date']}-{slug}.json"
    keep(path, made)
    path.write_text(json.dumps(made, indent=1) + "\n")
    documents.write()
    return [path, documents.PERFORMANCE, documents.README]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        for changed in take([Path(word) for word in sys.argv[1:]]):
            print(changed)
    except (OSError, ValueError, KeyError, Trouble) as trouble:
        print(f"record.py: {trouble!r}" if isinstance(trouble, KeyError) else f"record.py: {trouble}", file=sys.stderr)
        sys.exit(2)
