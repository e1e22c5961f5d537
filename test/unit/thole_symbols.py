# SPDX-License-Identifier: BSD-3-Clause
"""What libthole.so exports, and what all that is installed needs of glibc: thole_symbols.py READELF HEADER LIBRARY...

The first library is libthole.so: it exports the functions of the header, each under a version, and nothing else. What
is built here is to run on systems of glibc 2.34 (RHEL, Rocky and Alma 9), so no file may need a later version of it, nor
calls for aligned memory that other allocators lack. It stays loaded whatever dlclose says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mx_symbols import exported, readelf

GLIBC_MAX = (2, 34)
# A newer glibc's headers put these in the place of strtol and its like for all programs: built there, needed there.
BY_HEADERS = re.compile(r"__isoc23_\w+")


def declared(header: Path) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return set(re.findall(r"^THOLE_API [^;(]*?\b(thole_\w+)\(", text, flags=re.MULTILINE))


def wrong_exports(symbols: str, header: Path) -> list[str]:
    found = exported(symbols, r"THOLE_[\d.]+")
    wanted = declared(header)
    wrong = [f"{name} is in thole.h and not in src/exports.map" for name in sorted(wanted - found.keys())]
    wrong += [f"{name} is exported and not in thole.h" for name in sorted(found.keys() - wanted)]
    for name, version in sorted(found.items()):
        if not re.fullmatch(r"THOLE_\d+\.\d+", version):
            wrong.append(f"{name} has the version {version!r}, not one of Thole's")
    return wrong if wanted else ["thole.h declares nothing"]


def too_new(library: str, symbols: str) -> list[str]:
    """What the dynamic linker of an older system would not find."""
    needed = re.findall(r" UND (\w+)@(GLIBC_[\w.]+)", symbols)
    if not needed:
        return [f"{library}: needs nothing of glibc, so nothing was looked at"]
    wrong = []
    for name, version in sorted(set(needed)):
        numbers = tuple(map(int, re.findall(r"\d+", version)))
        if numbers > GLIBC_MAX and not BY_HEADERS.fullmatch(name):
            what = f"{name} of {version}"
            wrong.append(f"{Path(library).name} needs {what}, which glibc 2.34 has not: call it another way")
    return wrong


def foreign(library: str, symbols: str) -> list[str]:
    """What an allocator that a program is linked to may leave to the C library, whose block then comes to its free:
    Electric Fence ends the program. memalign is the oldest of these, and all have it. The provider hands
    MPICH's own calls on, by the names that it has called (prov_heap.c)."""
    if Path(library).name == "libthole-fi.so":
        return []
    found = re.findall(r" UND (aligned_alloc|posix_memalign|p?valloc)@", symbols)
    return [f"{Path(library).name} needs {name}, which not all allocators have: use memalign" for name in sorted(set(found))]


def unloadable(library: str, dynamic: str) -> list[str]:
    """What dlclose would take from under threads and handlers, and lose memory with."""
    if re.search(r"\bNODELETE\b", dynamic):
        return []
    return [f"{Path(library).name} may be unloaded: link it with -z nodelete"]


def main() -> int:
    program, header, *libraries = sys.argv[1:]
    tables = {library: readelf(program, library, "--dyn-syms") for library in libraries}
    wrong = wrong_exports(tables[libraries[0]], Path(header))
    wrong += unloadable(libraries[0], readelf(program, libraries[0], "--dynamic"))
    for library, symbols in tables.items():
        wrong += too_new(library, symbols) + foreign(library, symbols)
    print("\n".join(wrong) or f"{len(declared(Path(header)))} functions, {len(libraries)} files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
