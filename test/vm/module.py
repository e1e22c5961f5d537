# SPDX-License-Identifier: BSD-3-Clause
"""Modules for a kernel, compiled below the build folder: thole.ko, whose sources are laid together there
(tools/driver_tree.py), and siw.ko, the kernel's own iWARP, which Debian leaves out. For a later kernel thole.ko is made
with its own compiler, in its own root, which takes root's rights or a user namespace."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels import ROOT, Kernel, Missing, fetch_source, fetch_sparse, locked, run

sys.path.insert(0, str(ROOT / "tools"))
import driver_tree  # noqa: E402

WITHOUT = "CONFIG_DEBUG_INFO_BTF_MODULES="  # types that only the kernel's own build can add to a module


def make_in_root(kernel: Kernel, folder: Path, words: Sequence[str]) -> None:
    """Mounts are seen by this command alone."""
    here = shlex.quote(str(kernel.root))
    place = ("-C", f"/usr/src/linux-headers-{kernel.release}", "M=/module")
    build = ("/usr/bin/env", "-i", "PATH=/usr/bin", "make", "-s", f"-j{os.cpu_count()}", *place, *words)
    line = f"mount --bind {shlex.quote(str(folder))} {here}/module && exec chroot {here} {shlex.join(build)}"
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    run("unshare", *user, "--mount", "--pid", "--fork", f"--mount-proc={kernel.root}/proc", "sh", "-c", line)


def need_headers(kernel: Kernel) -> None:
    if not kernel.headers.exists():
        raise Missing(f"no module can be made for {kernel.release}, which is here without headers")


@functools.lru_cache
def build_siw(kernel: Kernel, build: Path) -> Path:
    need_headers(kernel)
    source = fetch_source(kernel, build, "drivers/infiniband/sw/siw")
    folder = build / "vm" / "modules" / f"siw-{kernel.release}"
    with locked(folder.parent):
        if not (folder / "siw.ko").exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            place = ("-C", str(kernel.headers), f"M={folder}")
            run("make", "-s", f"-j{os.cpu_count()}", *place, "CONFIG_RDMA_SIW=m", WITHOUT, "modules")
    return folder / "siw.ko"


@functools.lru_cache
def build_module(kernel: Kernel, build: Path) -> Path:
    """The module, newly compiled where its sources have changed; no warning is allowed, neither gcc's nor sparse's (but
    for a later kernel, whose headers this sparse does not know).
    Looked at once a process: make takes a second to find that nothing has."""
    need_headers(kernel)
    folder = build / "vm" / "modules" / kernel.release
    strict = ("KCFLAGS=-Werror",)
    sparse = ("C=1", f"CHECK={fetch_sparse(build)}", "CF=-Wsparse-error") if not kernel.is_realtime else ()
    with locked(folder):
        driver_tree.lay(folder, build / "src")
        if kernel.is_root:
            make_in_root(kernel, folder, (*strict, WITHOUT, "modules"))
        else:
            place = ("-C", str(kernel.headers), f"M={folder}")
            run("make", "-s", f"-j{os.cpu_count()}", *place, *strict, *sparse, WITHOUT, "modules")
    return folder / "thole.ko"


def unload(tool: str) -> str:
    """A shell's lines by which the module goes, which fail where a use is left. What a process had open may go a little
    later than that: where it ended, a worker of the module may just have had its memory in hand."""
    tries = f"for i in $(seq 100); do ! {tool} rmmod thole 2>/dev/null || break; sleep 0.1; done"
    return f"{tries}; [ ! -e /sys/module/thole ]"
