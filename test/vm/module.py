# SPDX-License-Identifier: BSD-3-Clause
"""thole.ko for a kernel: its sources, laid together below the build folder (tools/driver_tree.py), and compiled."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from kernels import ROOT, Kernel, Missing, fetch_sparse, locked, run

sys.path.insert(0, str(ROOT / "tools"))
import driver_tree  # noqa: E402


@functools.lru_cache
def build_module(kernel: Kernel, build: Path) -> Path:
    """The module, newly compiled where its sources have changed; no warning is allowed, neither gcc's nor sparse's.
    Looked at once a process: make takes a second to find that nothing has."""
    if not kernel.headers.exists():
        raise Missing(f"no module can be made for {kernel.release}, which is here without headers")
    folder = build / "vm" / "modules" / kernel.release
    strict = ("KCFLAGS=-Werror", "C=1", f"CHECK={fetch_sparse(build)}", "CF=-Wsparse-error")
    without = "CONFIG_DEBUG_INFO_BTF_MODULES="  # types that only the kernel's own build can add to a module
    with locked(folder):
        driver_tree.lay(folder, build / "src")
        place = ("-C", str(kernel.headers), f"M={folder}")
        run("make", "-s", f"-j{os.cpu_count()}", *place, *strict, without, "modules")
    return folder / "thole.ko"
