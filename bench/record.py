#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Takes results of the benchmark into the documents: a file in docs/performance, and the tables made from it.

    record.py RESULTS.json...    what was measured in pieces becomes one: their samples are put together

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


def summary(given: list[dict[str, object]]) -> dict[str, object]:
    processors = dict.fromkeys(str(document["host"]["cpu"]) for document in given)
    if len(processors) > 1:
        raise Trouble(f"these are of different machines: {', '.join(processors)}", "record each by itself")
    commits = dict.fromkeys(str(document["host"]["commit"]) for document in given)
    facts: dict[str, object] = {}
    for document in given:
        facts |= document["host"]
    crowds = [document["crowd"] for document in given if document.get("crowd")]
    return {
        "date": datetime.date.today().isoformat(),
        "commit": ", ".join(commits),
        "machine": facts["machine"],
        "mpis": [str(facts[one.mpi]) for one in PEERS if one.default and one.mpi in facts],
        "parts": [one for title, table in PARTS for one in part(merged(given, title), title, table, facts)],
        "crowd": crowds[-1] if crowds else [],
    }


def take(paths: list[Path]) -> list[Path]:
    """The files that were written."""
    made = summary([json.loads(path.read_text()) for path in paths])
    slug = re.sub(r"[^a-z0-9]+", "-", str(made["machine"]).partition(";")[0].lower()).strip("-")
    documents.FOLDER.mkdir(exist_ok=True)
    path = documents.FOLDER / f"{made['date']}-{slug}.json"
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
