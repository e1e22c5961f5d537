#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Take back what `meson install` put somewhere: uninstall.py BUILD [PREFIX [DESTDIR]], with meson in PATH.

The build folder knows what is installed and where, so it need not be the run that installed; below another prefix than
the last one are the same files. Meson's list of them is of when it last made build files, and the prefix of when it was
configured: where these differ, nothing is removed. Folders that are left empty go too, but for those of the system.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SYSTEM = (Path("/usr"), Path("/usr/local"))  # prefixes whose folders are not ours, empty or not
OURS = ("thole", "thole_lab", "mx_internals")
DRIVER = Path("/etc/modules-load.d/thole.conf")  # by `thole driver install`; the package has its own in /usr/lib


def introspect(build: str, what: str) -> object:
    done = subprocess.run(
        ["meson", "introspect", build, f"--{what}"], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def linked_by_setup(prefix: Path) -> bool:
    """Whether `thole setup` has made MPIs of this user's use the provider that is to go."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    from thole.base import paths

    try:
        state = paths.state_file().read_text()
    except OSError:
        return False
    changes = json.loads(state)["changes"]
    return any(str(change["target"]).startswith(f"{prefix}/") for change in changes)


def is_last(prefix: Path) -> bool:
    """Whether no other tool is found that could remove the driver."""
    other = shutil.which("thole")
    return other is None or prefix in Path(other).resolve().parents


def below(path: Path, destdir: str) -> Path:
    return Path(destdir) / path.relative_to("/") if destdir else path


def prune(folder: Path, prefix: Path, systems: bool) -> None:
    """Remove a folder and those above it, up to the prefix, as far as they are empty."""
    while prefix in folder.parents:
        if systems and not any(part in OURS for part in folder.relative_to(prefix).parts):
            return
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def main() -> int:
    build, wanted, destdir = [*sys.argv[1:], "", ""][:3]
    options = {row["name"]: row["value"] for row in introspect(build, "buildoptions")}  # type: ignore[attr-defined]
    last = Path(options["prefix"])
    prefix = Path(wanted or last)
    found = [Path(path) for path in introspect(build, "installed").values()]  # type: ignore[attr-defined]
    for path in found:
        if last not in path.parents:
            print(
                f"{path} is not below {last}; first: meson setup --reconfigure {build} -Dprefix={last}",
                file=sys.stderr,
            )
            return 2
    listed = [prefix / path.relative_to(last) for path in found]
    if not destdir and linked_by_setup(prefix):
        print(
            f"thole setup made MPIs use what is below {prefix}; first: {prefix}/bin/thole setup --undo",
            file=sys.stderr,
        )
        return 2
    if not destdir and os.geteuid() == 0 and DRIVER.exists() and is_last(prefix):  # no other user has installed it
        print(
            f"the kernel driver is installed, and would stay; first: {prefix}/bin/thole driver remove",
            file=sys.stderr,
        )
        return 2
    gone = [path for path in (below(path, destdir) for path in listed) if os.path.lexists(path)]
    for path in gone:
        if path.is_dir() and not path.is_symlink():  # the driver's sources
            shutil.rmtree(path)
            continue
        path.unlink()
        if path.suffix == ".py":
            shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    for folder in sorted({path.parent for path in gone}, reverse=True):
        prune(folder, below(prefix, destdir), prefix in SYSTEM)
    print(f"removed {len(gone)} files below {below(prefix, destdir)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
