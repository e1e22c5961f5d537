# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that several commands have."""

from __future__ import annotations

import argparse

from thole.base import bounds
from thole.mx.hosts import HELLO_S, WAIT_S


def add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        type=bounds.seconds("--wait", 0, bounds.WAIT_S_MAX),
        default=WAIT_S,
        metavar="SECONDS",
        help=f"how long other hosts may take to say which MX boards they have (default {WAIT_S:g}; with frames of MXoE "
        f"at least {HELLO_S:g}, unless it is 0)",
    )
