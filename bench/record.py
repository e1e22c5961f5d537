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
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from thole.mpi.families import family_named  # noqa: E402

import documents  # noqa: E402  (the path comes first)
import targets  # noqa: E402
from peers import NETWORK_PEERS, PEERS  # noqa: E402
from results import Condition, Results, Series  # noqa: E402

PARTS = (("Inside a node", targets.NODE_ROWS), ("Between two hosts, MTU 1500", targets.HOSTS_ROWS))
SHARE = 0.2  # of a part's samples: what was met more rarely is left out


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


def name_of(peer: str) -> str:
    one = next(one for one in PEERS + NETWORK_PEERS if one.name == peer)
    return family_named(one.mpi).title if one.thole else one.title


def rows(results: Results, table: tuple[targets.Row, ...], condition: Condition) -> list[dict[str, object]]:
    return [
        {
            "what": row.title,
            "size": one.size,
            "unit": row.unit,
            "other": one.theirs,
            "other_name": name_of(one.theirs_name),
            "ours": one.ours,
            "ours_name": name_of(one.ours_name),
            "goal": one.goal,
        }
        for row in table
        for one in row.found(results, targets.is_near(condition))
    ]


def part(results: Results, title: str, table: tuple[targets.Row, ...]) -> list[dict[str, object]]:
    made = []
    for condition in results.conditions():
        under = results.under(condition)
        found = rows(under, table, condition)
        if found and under.count() >= SHARE * results.count():
            made.append({"title": title, "condition": str(condition), "rows": found})
    return made


def commit() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not known"


def summary(given: list[dict[str, object]]) -> dict[str, object]:
    facts = given[-1]["host"]
    crowds = [document["crowd"] for document in given if document.get("crowd")]
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": facts["machine"],
        "mpis": [str(facts[one.mpi]) for one in PEERS if one.default and one.mpi in facts],
        "parts": [one for title, table in PARTS for one in part(merged(given, title), title, table)],
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
    for changed in take([Path(word) for word in sys.argv[1:]]):
        print(changed)
