# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel tells about this machine: cores and how they share, memory, limits."""

from __future__ import annotations

import errno
import ipaddress
import os
import platform
import resource
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CPU = Path("/sys/devices/system/cpu")
GROUPS = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 62  # of a control group: what is more is none


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


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def has_interface(wanted: str) -> bool:
    """Whether a network interface has this name or address."""
    try:
        family = {4: socket.AF_INET, 6: socket.AF_INET6}[ipaddress.ip_address(wanted).version]
    except ValueError:
        return wanted in interfaces()
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((wanted, 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True


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


def shm_free() -> int | None:
    """How much of it can still be written by this user; None: nothing can be made there."""
    if not os.access("/dev/shm", os.W_OK | os.X_OK):
        return None
    status = os.statvfs("/dev/shm")
    return status.f_bavail * status.f_frsize


def locked_bytes() -> int | None:
    """How much memory this process may pin; None without a limit."""
    return _limit(resource.RLIMIT_MEMLOCK, 0)


def descriptors() -> int | None:
    """How many a process may have, once it has raised its limit as far as it can; None without a limit."""
    return _limit(resource.RLIMIT_NOFILE, 1)


def file_bytes() -> int | None:
    """How long a file may become, one in memory too; None without a limit."""
    return _limit(resource.RLIMIT_FSIZE, 0)


def _limit(kind: int, which: int) -> int | None:
    """The soft limit (0) or the hard one (1)."""
    limit = resource.getrlimit(kind)[which]
    return None if limit == resource.RLIM_INFINITY else limit


def _group_files(controller: str, files: tuple[str, str], memberships: str, root: Path) -> Iterator[str]:
    """What a file says, of this process's control group and of those above it; files: in version 1 and in 2."""
    for line in memberships.splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base, file = (root / controllers, files[0]) if controllers else (root, files[1])
        group = base / name.lstrip("/")
        for folder in (group, *group.parents):
            if text := read(folder / file):
                yield text
            if folder == base:
                break


def group_memory_bytes(memberships: str | None = None, root: Path = GROUPS) -> int | None:
    """How much memory the control group leaves to this process and those beside it; None without a limit."""
    said = read(Path("/proc/self/cgroup")) if memberships is None else memberships
    files = ("memory.limit_in_bytes", "memory.max")
    limits = [_number(text, NO_LIMIT) for text in _group_files("memory", files, said, root)]
    return min((limit for limit in limits if limit < NO_LIMIT), default=None)


def group_processors(memberships: str | None = None, root: Path = GROUPS) -> float | None:
    """How many processors' time it leaves to them; None without a limit."""
    said = read(Path("/proc/self/cgroup")) if memberships is None else memberships
    quotas = list(_group_files("cpu", ("cpu.cfs_quota_us", "cpu.max"), said, root))
    periods = list(_group_files("cpu", ("cpu.cfs_period_us", "cpu.max"), said, root))
    shares = [_number(quota.split()[0], -1) / int(period.split()[-1]) for quota, period in zip(quotas, periods)]
    return min((share for share in shares if share > 0), default=None)


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
        "group_processors": group_processors(),
        "group_memory_bytes": group_memory_bytes(),
        "shm_bytes": shm_bytes(),
        "locked_bytes_max": locked_bytes(),
    }


def _os_name() -> str:
    for line in read(Path("/etc/os-release")).splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()
