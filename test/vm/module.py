# SPDX-License-Identifier: BSD-3-Clause
"""thole.ko for a kernel: its sources, laid together below the build folder (tools/driver_tree.py), and compiled; for a
later kernel with its own compiler, in its own root, which takes root's rights or a user namespace."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels import ROOT, Kernel, Missing, fetch_sparse, locked, run

sys.path.insert(0, str(ROOT / "tools"))
import driver_tree  # noqa: E402


def make_in_root(kernel: Kernel, folder: Path, words: Sequence[str]) -> None:
    """Mounts are seen by this command alone."""
    here = shlex.quote(str(kernel.root))
    place = ("-C", f"/usr/src/linux-headers-{kernel.release}", "M=/module")
    build = ("/usr/bin/env", "-i", "PATH=/usr/bin", "make", "-s", f"-j{os.cpu_count()}", *place, *words)
    line = f"mount --bind {shlex.quote(str(folder))} {here}/module && exec chroot {here} {shlex.join(build)}"
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    run("unshare", *user, "--mount", "--pid", "--fork", f"--mount-proc={kernel.root}/proc", "sh", "-c", line)


@functools.lru_cache
def build_module(kernel: Kernel, build: Path) -> Path:
    """The module, newly compiled where its sources have changed; no warning is allowed, neither gcc's nor sparse's (but
    for a later kernel, whose headers this sparse does not know).
    Looked at once a process: make takes a second to find that nothing has."""
    if not kernel.headers.exists():
        raise Missing(f"no module can be made for {kernel.release}, which is here without headers")
    folder = build / "vm" / "modules" / kernel.release
    strict = ("KCFLAGS=-Werror",)
    sparse = ("C=1", f"CHECK={fetch_sparse(build)}", "CF=-Wsparse-error")
    without = "CONFIG_DEBUG_INFO_BTF_MODULES="  # types that only the kernel's own build can add to a module
    with locked(folder):
        driver_tree.lay(folder, build / "src")
        if kernel.is_root:
            make_in_root(kernel, folder, (*strict, without, "modules"))
        else:
            place = ("-C", str(kernel.headers), f"M={folder}")
            run("make", "-s", f"-j{os.cpu_count()}", *place, *strict, *sparse, without, "modules")
    return folder / "thole.ko"
