# SPDX-License-Identifier: BSD-3-Clause
"""thole.ko for a kernel: its sources, laid together below the build folder as kernel/Kbuild wants, and compiled."""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path

from kernels import ROOT, Kernel, fetch_sparse, locked, run

# The protocol's pure parts that it is compiled of, with their headers.
PURE = (
    "base/counters.h",
    "base/endian.h",
    "base/siphash.[ch]",
    "transport/record.h",
    "transport/datagram/answer.[ch]",
    "transport/datagram/block.[ch]",
    "transport/datagram/guard.[ch]",
    "transport/datagram/link.h",
    "transport/datagram/trip.h",
    "transport/datagram/wire/codec.h",
    "transport/datagram/wire/crc32c.[ch]",
    "transport/datagram/wire/native.c",
    "transport/datagram/wire/packet.h",
)
# What the module has of the library, and of what is made of it: where it lies, and the files.
PARTS = (
    (ROOT / "kernel", ("*.[ch]", "Kbuild", "include/**/*.h")),
    (ROOT / "src", ("memory/*.[ch]", *PURE)),
    (ROOT / "include", ("thole.h",)),
)


def lay(folder: Path, build: Path) -> None:
    """Copy what has changed, so that make compiles no more than that."""
    made = (build / "src", ("transport/datagram/wire/native_fields.h",))
    for source, patterns in (*PARTS, made):
        for path in (path for pattern in patterns for path in source.glob(pattern)):
            copy = folder / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists() or not filecmp.cmp(path, copy, shallow=False):
                shutil.copy(path, copy)


def build_module(kernel: Kernel, build: Path) -> Path:
    """The module, newly compiled where its sources have changed; no warning is allowed, neither gcc's nor sparse's."""
    folder = build / "vm" / "modules" / kernel.release
    strict = ("KCFLAGS=-Werror", "C=1", f"CHECK={fetch_sparse(build)}", "CF=-Wsparse-error")
    without = "CONFIG_DEBUG_INFO_BTF_MODULES="  # types that only the kernel's own build can add to a module
    with locked(folder):
        lay(folder, build)
        run("make", "-s", f"-j{os.cpu_count()}", "-C", str(kernel.headers), f"M={folder}", *strict, without, "modules")
    return folder / "thole.ko"
