# SPDX-License-Identifier: BSD-3-Clause
"""Numbers on the command line, with the bounds that they have: for argparse's `type`.

What is out of bounds is Trouble that says what is allowed, in the words of thole-perf, before anything is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from thole.base.trouble import Trouble

PORT_MAX = 65535
WAIT_S_MAX = 3600  # that a command waits for other hosts
ROUNDS_MAX = 10000
SAMPLE_MS_MAX = 60000  # as thole-perf has it


def _allowed(low: float, high: float | None) -> str:
    return f"from {low:.15g}" + ("" if high is None else f" to {high:.15g}")


def whole(name: str, low: int, high: int | None = None) -> Callable[[str], int]:
    """A whole number from `low` to `high`; None: as large as one likes."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise Trouble(f"{name} {text!r} is not a whole number {_allowed(low, high)}")
        return value

    return parse


def seconds(
    name: str, low: float, high: float | None = None, above: bool = False
) -> Callable[[str], float]:
    """A time from `low` to `high` (above: more than `low`); without an end it may be infinite."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (low < value if above else low <= value) or not (high is None or value <= high):
            allowed = f"more than {low:g}" if above else _allowed(low, high)
            raise Trouble(f"{name} {text!r} is not a number of seconds {allowed}")
        return value

    return parse
