# SPDX-License-Identifier: BSD-3-Clause
"""The machine that is measured on: facts for the record, which cores to use, how busy it is."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from thole.base import host as machine
from thole_lab.process import run


def cpus() -> list[int]:
    """The CPUs of this process, no two of them hyper-threads of one core where it has two cores."""
    allowed = machine.cores()
    first = {(core.package, core.core): core.number for core in reversed(allowed)}
    chosen = sorted(first.values())
    return chosen if len(chosen) >= 2 else [core.number for core in allowed][:2]


LINES = 5  # tries to find out how long one takes: others may use a core
NEAR_NS = 100.0  # a cache line between near cores takes less


def _cpuinfo(name: str) -> str:
    text = machine.read(Path("/proc/cpuinfo"))
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(f"{name}\t")), "?")


def _caches(number: int) -> str:
    """Those of a core that hold data, with whom the last one is shared by."""
    found = []
    for index in sorted((machine.CPU / f"cpu{number}" / "cache").glob("index*")):
        level, kind, size, shared = (
            machine.read(index / name) for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind != "Instruction":
            found.append(f"L{level} {size}" + (f" of CPUs {shared}" if shared != str(number) else ""))
    return ", ".join(found) or "caches not known"


def _measured(command: list[str]) -> list[str]:
    outcome = run(command, dict(os.environ), 20.0)
    return [] if outcome.failure else outcome.output.split()


def machine_line(floor: Path, cores: list[int], count: int) -> str:
    """The machine in one line: what its numbers depend on. count: of CPUs, of which these cores are used."""
    family, model = _cpuinfo("cpu family"), _cpuinfo("model")
    said = [f"{machine.processor()} (family {family}, model {model})"]
    said.append(f"{count} CPUs, {_caches(cores[0])}")
    pair = [str(floor), *map(str, cores)]
    lines = [float(word) for _ in range(LINES) for word in (_measured(pair) if len(cores) == 2 else [])]
    if lines:
        line = min(lines)
        said.append(f"a cache line one way {line:.0f} ns ({'near' if line < NEAR_NS else 'apart'})")
    copied = _measured([*pair, "copy"]) if len(cores) == 2 else []
    if len(copied) == 2:
        said.append(f"process_vm_readv {copied[0]} ns a call, {copied[1]} GB/s at 1 MiB")
    elif copied:
        said.append("process_vm_readv is refused")
    return "; ".join([*said, f"Linux {platform.release()}"])


def commit(build: Path) -> str:
    """Of the sources that a build folder lies in."""
    words = ["git", "-C", str(build), "describe", "--always", "--dirty"]
    return "".join(_measured(words)) or "not known"


def options(secrets: tuple[str, ...]) -> str:
    """Thole's, of whoever measures: all that is started has them."""
    names = sorted(name for name in os.environ if name.startswith("THOLE_") and name not in secrets)
    given = [f"{name}={os.environ[name]}" for name in names]
    return " ".join(given) or "none given"


def moment(when: datetime.datetime) -> str:
    """A day and a minute, in this order."""
    return when.strftime("%Y-%m-%d %H:%M")


def facts() -> dict[str, object]:
    return {
        "began": moment(datetime.datetime.now(datetime.timezone.utc)),
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


# In the session of what they run beside: the kernel may share cores out among sessions first, and then within each.
_BUSY = """
others=
for one in $(seq "$1"); do
    "$2" -c 'while True: pass' & others="$others $!"
done
shift 2
"$@"
code=$?
kill $others
wait
exit $code
"""


def busy(command: list[str], count: int) -> list[str]:
    """The command beside so many programs that compute; what these use counts as its own."""
    return ["sh", "-c", _BUSY, "sh", str(count), sys.executable, *command] if count else command


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
