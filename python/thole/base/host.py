# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel tells about this machine: cores and how they share, memory, limits."""

from __future__ import annotations

import os
import platform
import resource
from dataclasses import dataclass
from pathlib import Path

CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Core:
    """One logical processor that this process may use."""

    number: int
    package: int
    core: int  # logical processors with the same package and core are threads of one core
    cache: str  # the processors that share its last-level cache
    node: int  # NUMA


def read(path: Path, fallback: str = "") -> str:
    """A small file of the kernel's, or the fallback where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return fallback


def _number(text: str, fallback: int) -> int:
    try:
        return int(text)
    except ValueError:
        return fallback


def cores() -> list[Core]:
    found = []
    for number in sorted(os.sched_getaffinity(0)):
        base = CPU / f"cpu{number}"
        caches = sorted(
            (base / "cache").glob("index*"), key=lambda index: read(index / "level", "0")
        )
        nodes = [path.name.removeprefix("node") for path in base.glob("node[0-9]*")]
        found.append(
            Core(
                number,
                _number(read(base / "topology/physical_package_id"), 0),
                _number(read(base / "topology/core_id"), number),
                read(caches[-1] / "shared_cpu_list") if caches else "",
                int(nodes[0]) if nodes else 0,
            )
        )
    return found


def pair(available: list[Core]) -> tuple[int, int]:
    """Two cores to measure between: different ones, that share a cache where possible."""
    first = available[0]
    others = [
        core for core in available[1:] if (core.package, core.core) != (first.package, first.core)
    ]
    near = [core for core in others if core.cache == first.cache]
    for candidates in (near, others, available[1:]):
        if candidates:
            return first.number, candidates[0].number
    return first.number, first.number


def processor() -> str:
    for line in read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def shm_bytes() -> int | None:
    """The size of /dev/shm, None if there is none. Thole does not use it; other transports do."""
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return None
    return status.f_blocks * status.f_frsize


def locked_bytes() -> int | None:
    """How much memory this process may pin; None without a limit."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def describe() -> dict[str, object]:
    available = cores()
    return {
        "name": platform.node(),
        "system": _os_name(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": processor(),
        "processors_online": os.cpu_count(),
        "processors_allowed": [core.number for core in available],
        "cores_allowed": len({(core.package, core.core) for core in available}),
        "numa_nodes": len({core.node for core in available}),
        "memory_bytes": memory_bytes(),
        "shm_bytes": shm_bytes(),
        "locked_bytes_max": locked_bytes(),
    }


def _os_name() -> str:
    for line in read(Path("/etc/os-release")).splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()
