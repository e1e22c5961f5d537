# SPDX-License-Identifier: BSD-3-Clause
"""What `thole tune` keeps: values that are clearly faster, as blocks of the user's file of options.

The rest of that file stays as it is. Which values are tried is the business of tune.py and tune_host.py.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path

from thole.base.blocks import Block, replace
from thole.base.trouble import Trouble
from thole.perf.results import Measured

OURS = Block("# >>> written by thole tune; thole tune --reset takes it out", "# <<< thole tune")
HOSTS = Block("# >>> written by thole tune HOST; thole tune --reset takes it out", "# <<< thole tune HOST")
GAIN_MIN = 1.04  # a value must be so many times faster than the default to replace it


def judge(runs: list[Measured]) -> dict[tuple[str, int], float]:
    """Of several runs the best latency (us) and the best time a byte of the windowed test, by size."""
    costs: dict[tuple[str, int], float] = {}
    for run in runs:
        for (test, size), series in run.series.items():
            cost = series.best if test == "latency" else 1e9 / series.best
            key = (test, size)
            costs[key] = min(cost, costs.get(key, cost))
    return costs


def speed(costs: dict[tuple[str, int], float], base: dict[tuple[str, int], float]) -> float:
    """How many times faster than the base, over all tests and sizes alike."""
    return statistics.geometric_mean([base[key] / costs[key] for key in base])


# ---- The options file ------------------------------------------------------------------------------


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Trouble(f"{path} cannot be read: {error.strerror}", "it has to be a file that you may read") from None


def names_in(block: Block, content: bytes) -> set[str]:
    """The options that stand in a block of the file."""
    return set(re.findall(r"^(\w+)\s*=", block.within(content), flags=re.MULTILINE))


def write(path: Path, content: bytes) -> None:
    """Replace the file as a whole, or remove it where nothing is left."""
    if not content:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, content)


def keep(arguments: argparse.Namespace, path: Path, block: Block, lines: list[str]) -> None:
    """Write a block of the options file, as it is after the measurement, or say what it would be."""
    if arguments.dry_run:
        print(f"would write to {path}:\n{block.of(lines)}" if not arguments.json else "", end="")
    else:
        write(path, block.put_in(read(path), lines))
        print(f"wrote {path}", file=sys.stderr)
