# SPDX-License-Identifier: BSD-3-Clause
"""The machine that is measured on: facts for the record, which cores to use, how busy it is."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

from thole.base import host as machine


def cpus() -> list[int]:
    """Two CPUs of this process that are not hyper-threads of one core, where there are two."""
    allowed = machine.cores()
    first = {(core.package, core.core): core.number for core in reversed(allowed)}
    chosen = sorted(first.values())
    return (chosen if len(chosen) >= 2 else [core.number for core in allowed])[:2]


def facts() -> dict[str, object]:
    return {
        "cpu": machine.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "huge_pages": machine.read(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "yama": machine.read(Path("/proc/sys/kernel/yama/ptrace_scope")),
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
    }


def _busy() -> tuple[int, int]:
    """Ticks of all CPUs since start: in use (stolen ones included), and in all."""
    ticks = [int(word) for word in machine.read(Path("/proc/stat")).splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


class Watch:
    """How much of the machine others used (or its host took away) while commands of ours ran.

    elsewhere: CPU seconds of what runs for us and is no child of ours.
    """

    def __init__(self, elsewhere: Callable[[], float] = lambda: 0.0) -> None:
        self.elsewhere = elsewhere
        self.start = (*_busy(), self._own())

    def _own(self) -> float:
        """CPU seconds of ours and of all children that have ended."""
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return own + self.elsewhere()

    def share(self) -> float:
        busy_now, total_now = _busy()
        busy, total = busy_now - self.start[0], total_now - self.start[1]
        own = (self._own() - self.start[2]) * os.sysconf("SC_CLK_TCK")
        return max(0.0, busy - own) / max(1, total)


def settle(limit_s: float) -> float:
    """Wait, at most so long, until others use less than a tenth of the machine; returns their share."""
    end = time.monotonic() + limit_s
    while True:
        busy, total = _busy()
        time.sleep(0.2)
        busy_now, total_now = _busy()
        share = (busy_now - busy) / max(1, total_now - total)
        if share < 0.1 or time.monotonic() >= end:
            return share
