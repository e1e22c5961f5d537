#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The driver's sources, laid together as kernel/Kbuild wants: driver_tree.py TO --made BUILD/src [--depfile FILE]

Owns which files these are. Guests' modules, `meson install`, `thole driver install` and the package thole-dkms all have
theirs from here. What has changed is copied, and what is no more goes, so that make compiles no more than it must.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The protocol's pure parts that it is compiled of, with their headers.
PURE = (
    "base/counters.h",
    "base/endian.h",
    "base/siphash.[ch]",
    "base/siphash_lanes.h",
    "transport/record.h",
    "transport/datagram/answer.[ch]",
    "transport/datagram/block.[ch]",
    "transport/datagram/guard.[ch]",
    "transport/datagram/link.h",
    "transport/datagram/trip.h",
    "transport/datagram/wire/codec.h",
    "transport/datagram/wire/crc32c.[ch]",
    "transport/datagram/wire/mxoe.c",
    "transport/datagram/wire/native.c",
    "transport/datagram/wire/packet.h",
)
# What the module has of the library: where it lies, and the files. What is made of others is below --made.
PARTS = (
    (ROOT / "kernel", ("*.[ch]", "Kbuild", "include/**/*.h")),
    (ROOT / "kernel/host", ("*",)),
    (ROOT / "src", ("memory/area.[ch]", "memory/region.[ch]", *PURE)),
    (ROOT / "include", ("thole.h",)),
    (ROOT, ("LICENSE",)),
)
MADE = ("transport/datagram/wire/mxoe_fields.h", "transport/datagram/wire/native_fields.h")
# Left where they are: what make has made, and the lock of who makes it (test/vm/kernels.py).
COMPILED = ("lock", "*.cmd", "*.o", "*.ko", "*.mod", "*.mod.c", "modules.order", "Module.symvers")


def sources(made: Path) -> Iterator[tuple[Path, Path]]:
    """Each file, and its place in the tree."""
    for folder, patterns in (*PARTS, (made, MADE)):
        for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
            yield path, path.relative_to(folder)


def version() -> str:
    match = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())
    assert match, "meson.build has no version"
    return match[1]


def lay(folder: Path, made: Path) -> list[Path]:
    """Returns what it was made of."""
    used, places = [], set()
    for path, place in sources(made):
        used.append(path)
        places.add(place)
        copy = folder / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        if place.name == "dkms.conf":
            copy.write_text(path.read_text().replace("@VERSION@", version()))
        elif not copy.exists() or not filecmp.cmp(path, copy, shallow=False):
            shutil.copy(path, copy)
    for old in [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder) not in places]:
        if not any(old.match(pattern) for pattern in COMPILED):
            old.unlink()
    return used


def for_make(name: str) -> str:
    """As one word of a file of dependencies."""
    return re.sub(r"([ #])", r"\\\1", name).replace("$", "$$")


def main() -> int:
    parser = argparse.ArgumentParser(description="lay the driver's sources together")
    parser.add_argument("to", type=Path, help="the folder that they go to")
    parser.add_argument("--made", type=Path, required=True, help="src of the build folder")
    parser.add_argument("--depfile", type=Path, help="what it was made of, for ninja")
    options = parser.parse_args()
    used = lay(options.to, options.made)
    os.utime(options.to)
    if options.depfile:
        # Folders too: so a new file is noticed.
        needed = sorted({str(path) for path in used} | {str(path.parent) for path in used if ROOT in path.parents})
        options.depfile.write_text(f"{for_make(str(options.to))}: {' '.join(map(for_make, needed))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
