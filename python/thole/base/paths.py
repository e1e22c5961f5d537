# SPDX-License-Identifier: BSD-3-Clause
"""Where the things that were built with this package are: the library, the provider, thole-perf.

One function and one order, for a build tree, a pip installation and a `meson install` prefix: the
first directory of `places()` that has the file wins, so a tool never mixes two builds of Thole
unless the nearer one is incomplete.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from pathlib import Path

from thole.base.trouble import Trouble

LIBRARY = "libthole.so"
PROVIDER = "libthole-fi.so"
PERF = "thole-perf"
RANK = "thole-rank"
MX = "libmyriexpress.so"
HEAP = "libthole-heap.so"
UCX = "libucp.so.0"
DISSECTOR = "thole.lua"

# What is not built where headers are missing, which `make build` installs where it can: of what, and their package.
HEADERS = {PROVIDER: ("libfabric", "libfabric-dev"), UCX: ("UCX", "libucx-dev")}

PACKAGE = Path(__file__).resolve().parent.parent  # thole, with this folder in it

_build: Path | None = None


def is_file(path: Path) -> bool:
    """No, where a folder above may not be looked into; Path.is_file() raises PermissionError there, as do its like."""
    return os.path.isfile(path)


def environments(folder: Path, argument: str) -> Path:
    """A folder that the user names because of what is in it."""
    if not os.path.isdir(folder):
        raise Trouble(f"{argument} {folder} is not a folder", "name one that holds environments")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Trouble(f"{argument} {folder} cannot be read", "check its permissions")
    return folder


def home() -> Path:
    """The user's; as containers have it, / of a user who has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def use_build(directory: str) -> None:
    """Look in this build directory first; called by the launcher that meson leaves in it."""
    global _build
    _build = Path(directory).resolve()


def by_root(*words: str) -> str:
    """How this very tool is run with sudo, which looks into folders of the system alone (secure_path)."""
    tool = os.path.abspath(sys.argv[0])
    found = os.path.basename(tool) != "thole" or os.path.dirname(tool) in ("/usr/bin", "/bin")
    return shlex.join(["sudo", "thole" if found else tool, *words])


def build_tree() -> Path | None:
    """The build directory in use, or None if this is an installed package."""
    if _build is not None:
        return _build
    source = PACKAGE.parent.parent
    if is_file(source / "include" / "thole.h") and is_file(source / "meson.build"):
        return source / "build"
    return None


def places() -> list[Path]:
    """The directories to look in, nearest first."""
    found: list[Path] = []
    tree = build_tree()
    if tree is not None:
        found += [tree / "src", tree / "provider", tree / "mx", tree / "heap", tree / "ucx"]
        found += [tree / "tools" / "perf", tree / "tools" / "rank"]
    # A wheel made by meson-python keeps libraries beside the package, or beside it in lib64 where a system has both,
    # and programs with the scripts.
    for folder in (PACKAGE.parent, _twin(PACKAGE.parent)):
        bundled = folder / ".thole.mesonpy.libs"
        found += [bundled, bundled / "thole", bundled / "thole" / "ucx"]
    found.append(Path(sysconfig.get_path("scripts")))
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for prefix in PACKAGE.parents:
        for library in ("lib", f"lib/{multiarch}", "lib64"):
            found += [prefix / library / "libfabric", prefix / library / "thole", prefix / library / "thole" / "ucx"]
            found.append(prefix / library)
        found += [prefix / "bin", prefix / "libexec"]
        if prefix == Path(sys.prefix):
            break
    return list(dict.fromkeys(found))


def _twin(folder: Path) -> Path:
    """PREFIX/lib64/python3.x/site-packages for PREFIX/lib/python3.x/site-packages."""
    head, sign, tail = str(folder).rpartition("/lib/")
    return Path(f"{head}/lib64/{tail}") if sign else folder


def provider_folders(prefix: Path) -> list[Path]:
    """Where the provider is below the prefix of a `meson install`, by the system's habits."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    names = ["lib", *([f"lib/{multiarch}"] if multiarch else []), "lib64"]
    return [prefix / name / "thole" for name in names]


def find(name: str) -> Path:
    """The path of LIBRARY, PROVIDER, PERF, RANK, MX, HEAP or UCX."""
    for place in places():
        if name == UCX and place.name != "ucx":
            continue  # elsewhere this name is UCX's own
        # A wheel has no symbolic links, so there the library has its full version in its name.
        for candidate in (place / name, *sorted(place.glob(f"{name}.*.*"))):
            if is_file(candidate):
                return candidate
    raise _missing(name)


def _missing(name: str) -> Trouble:
    tree = build_tree()
    of, package = HEADERS.get(name, ("", ""))
    if tree is not None and is_file(tree / "build.ninja") and of:
        return Trouble(
            f"{name} is not built in {tree}, as where the headers of {of} ({package}) are missing",
            f"install these, then: meson setup --reconfigure {tree}; ninja -C {tree}",
        )
    if tree is not None:
        return Trouble(f"{name} is not built in {tree}", "run `make build` in the source folder")
    if of:
        return Trouble(
            f"{name} is not installed with {PACKAGE}, as where the headers of {of} were missing when that was built",
            f"install {package} or your distribution's like, then Thole again",
        )
    return Trouble(f"{name} is not installed with {PACKAGE}", "install Thole again")


def preloadable(name: str) -> str:
    """The path of a library for LD_PRELOAD, where names end at blanks and colons."""
    path = str(find(name))
    if " " in path or ":" in path:
        raise Trouble(
            f"ld.so cannot preload {path}, since names in LD_PRELOAD end at blanks and colons",
            "install Thole in a folder without these, or go without --shared-heap",
        )
    return path


def dissector() -> Path | None:
    """The script with which Wireshark knows Thole's frames, or None where it is not installed."""
    tree = build_tree()
    built = [tree / "tools" / DISSECTOR] if tree is not None else []
    shared = [prefix / "share" / "thole" / "wireshark" / DISSECTOR for prefix in PACKAGE.parents]
    return next((path for path in (*built, *shared) if is_file(path)), None)


def driver_tree() -> Path | None:
    """The kernel driver's sources as DKMS takes them, or None where they are not installed."""
    tree = build_tree()
    built = [tree / "kernel" / "driver"] if tree is not None else []
    shared = [prefix / "share" / "thole" / "driver" for prefix in PACKAGE.parents]
    return next((path for path in (*built, *shared) if is_file(path / "dkms.conf")), None)


def _of_user(variable: str, usual: str) -> Path:
    """A folder of the user's. The XDG specification has relative paths ignored."""
    named = os.environ.get(variable, "")
    return (Path(named) if named.startswith("/") else home() / usual) / "thole"


def options_file() -> Path | None:
    """The file of options that every endpoint of this user reads; None: set to nothing, it says that there is none."""
    named = os.environ.get("THOLE_OPTIONS_FILE")
    if named == "":
        return None
    return Path(named) if named else _of_user("XDG_CONFIG_HOME", ".config") / "options"


def hosts_files() -> list[Path]:
    """Where `thole peers` finds hosts, the user's own file first."""
    return [_of_user("XDG_CONFIG_HOME", ".config") / "hosts", Path("/etc/thole/hosts")]


def state_file() -> Path:
    """What `thole setup` changed, so that it can be undone."""
    return _of_user("XDG_STATE_HOME", ".local/state") / "setup.json"
