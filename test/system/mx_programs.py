# SPDX-License-Identifier: BSD-3-Clause
"""The MX programs (mx_*.c) that run anywhere, with their arguments: what test_mx.py and guests run."""

from __future__ import annotations

# A receiver and a sender.
PAIRS: dict[str, tuple[str, ...]] = {
    "pingpong": ("-M", "-L", "2000000"),
    "stream": ("-M",),
    "cancel": (),
    "truncate": (),
    "vectors": (),
    "unexpected": (),
    "wait-any": (),
    "connect": (),
}
ALONE = ("endpoints", "wakeup", "contexts", "misc")
# With less to send: where frames are lost, and on slow machines.
SHORTER = {**PAIRS, "pingpong": ("-M", "-L", "300000"), "stream": ("-M", "-n", "160")}
