#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's kernels for guests: fetched by apt, unpacked below the build folder, never installed.

    kernels.py [--build DIR]      fetches what is missing; prints each kernel that there is

Owns build/vm/: a folder a kernel with its image, modules and headers; a static busybox, and sparse. What is there is
fetched again only when apt knows a newer one; without apt, or without a network, what is there serves. A kernel's
folder counts when its file `whole` is there, which is written last.

Beside these there is a later kernel, of the next Debian's backports. This machine's compiler is not the one that it was
built with, nor do programs of its packages run with this machine's C library: so that one, and what belongs to it, is
there, too, and modules are made in its folder as a root. Its packages are found by an apt of its own, which changes
nothing of the system's.

With THOLE_VM_KERNEL in the environment there is but one: the folder that it names has a kernel's source, compiled there
(docs/DRIVER.md says how, and what for).
"""

from __future__ import annotations

import argparse
import fcntl
import lzma
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# Packages that stand for the newest kernel of a kind; a distribution has some of them.
METAS = ("amd64", "6.12-amd64")
REALTIME = ("rt-amd64", "6.12-rt-amd64")  # the same, PREEMPT_RT
NEEDED = re.compile(r"linux-(image|headers|kbuild|binary|modules)-\d")  # of what they depend on
NEXT, LATER = "trixie", "trixie-backports"
# What makes modules there; what these depend on is found by apt, for a system that has nothing yet.
LATER_TOOLS = "linux-headers-amd64 make gcc-14 binutils bash dash coreutils mawk grep sed findutils diffutils".split()
MERGED = ("bin", "sbin", "lib", "lib64")  # folders that are those of usr, which packages count on


class Missing(Exception):
    """What a guest needs cannot be had here; says what and why."""


@dataclass(frozen=True)
class Kernel:
    release: str  # as `uname -r` says it
    root: Path  # its packages, unpacked; or its source
    compiled: bool = False  # there, with all that guests need built in, and with checks that make it many times slower

    @property
    def series(self) -> str:
        return ".".join(self.release.split(".")[:2])

    @property
    def number(self) -> tuple[int, int]:
        major, minor = self.series.split(".")
        return int(major), int(minor)

    @property
    def is_root(self) -> bool:
        """Its folder is one that modules can be made in, by the compiler that it was built with."""
        return (self.root / "usr/bin/make").exists()

    @property
    def is_realtime(self) -> bool:
        """Its spinlocks are such that may sleep (PREEMPT_RT)."""
        return "-rt-" in self.release

    @property
    def image(self) -> Path:
        return self.root / ("arch/x86/boot/bzImage" if self.compiled else "vmlinux")

    @property
    def headers(self) -> Path:
        return self.root if self.compiled else self.root / "usr/src" / f"linux-headers-{self.release}"

    def module(self, name: str) -> Path | None:
        """The file of a module; None if it is built in."""
        names = (name.replace("-", "_"), name.replace("_", "-"))
        places = [self.root / place for place in ("lib/modules", "usr/lib/modules")]
        found = [path for each in names for place in places for path in place.rglob(f"{each}.ko*")]
        return found[0] if found else None


def run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise Missing(f"{' '.join(command)}: {(done.stderr.strip() or done.stdout.strip())[-4000:]}")
    return done.stdout


def quick_apt(folder: Path) -> tuple[str, ...]:
    """Options for an apt that keeps what it has read of its lists, even where this machine's is told not to: each of
    the calls below would read them anew, for most of a second."""
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(f"-oDir::Cache::{name}={folder}/{name}.bin" for name in ("pkgcache", "srcpkgcache"))


def depends(apt: Sequence[str], *packages: str) -> list[str]:
    """What these depend on of the kernel's packages, without the second of two alternatives."""
    names, chosen = [], False
    for line in run("apt-cache", *apt, "depends", *packages).splitlines():
        match = re.match(r"\s*(\|?)Depends: (\S+)", line)
        if match and not chosen and NEEDED.match(match[2]):
            names.append(match[2])
        chosen = bool(match and match[1])
    return names


def closure(meta: str, apt: Sequence[str]) -> tuple[str, set[str]]:
    """A kernel's release, and the packages that have its image and what modules of ours are built with."""
    (image,) = depends(apt, f"linux-image-{meta}")
    packages, found = {image}, depends(apt, f"linux-headers-{meta}")
    while new := {name for name in found if not name.startswith("linux-image")} - packages:
        packages |= new
        found = depends(apt, *sorted(new))
    return image[len("linux-image-") :], packages


def unpack(packages: set[str], to: Path, apt: Sequence[str], merged: Sequence[str] = ()) -> None:
    """Fetch and unpack in a folder beside it, so that it is there whole or not at all. merged: folders that are to be
    those of usr."""
    new = to.with_name(to.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "archives").mkdir(parents=True)
    for name in merged:
        (new / "usr" / name).mkdir(parents=True)
        (new / name).symlink_to(f"usr/{name}")
    run("apt-get", *apt, "-q", "download", *sorted(packages), cwd=new / "archives")
    for archive in sorted((new / "archives").iterdir()):
        run("dpkg", "-x", str(archive), str(new))
    shutil.rmtree(new / "archives")
    shutil.rmtree(to, ignore_errors=True)
    new.rename(to)


def decompress(image: Path) -> bytes:
    """What a bzImage unpacks, where we know how it is packed; the bzImage itself elsewhere, which boots slower."""
    whole = image.read_bytes()
    setup = ((whole[0x1F1] or 4) + 1) * 512
    offset, length = (int.from_bytes(whole[at : at + 4], "little") for at in (0x248, 0x24C))
    packed = whole[setup + offset : setup + offset + length]
    if packed.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd") and shutil.which("zstd"):
        # The length of what it unpacks follows, which zstd calls an error, but has then unpacked all.
        return subprocess.run(["zstd", "-dcq"], input=packed[:-4], capture_output=True, check=True).stdout
    return whole


def prepare(kernel: Kernel) -> None:
    """What boots, and headers that find each other where they are."""
    images = (f"boot/vmlinuz-{kernel.release}", f"usr/lib/modules/{kernel.release}/vmlinuz")
    kernel.image.write_bytes(decompress(next(kernel.root / path for path in images if (kernel.root / path).exists())))
    makefile = kernel.headers / "Makefile"
    if kernel.is_root:
        (kernel.root / "usr/bin/awk").symlink_to("mawk")
        for name in ("proc", "module"):
            (kernel.root / name).mkdir(exist_ok=True)
    elif makefile.exists():
        makefile.write_text(makefile.read_text().replace("/usr/src/", f"{kernel.root}/usr/src/"))
    (kernel.root / "whole").touch()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Of several that need the same kernel, one fetches it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(folder: Path) -> list[Kernel]:
    found = [Kernel(path.parent.name, path.parent) for path in folder.glob("*/whole")]
    return sorted(found, key=lambda kernel: [int(part) for part in re.findall(r"\d+", kernel.release)])


def fetch_kernel(folder: Path, meta: str, apt: Sequence[str]) -> None:
    release, packages = closure(meta, apt)
    kernel = Kernel(release, folder / release)
    if not (kernel.root / "whole").exists():
        unpack(packages, kernel.root, apt)
        prepare(kernel)


def fetch_realtime(build: Path) -> list[Kernel]:
    """Those of REALTIME; raises Missing where one cannot be had."""
    folder = build.resolve() / "vm" / "realtime"
    with locked(folder):
        for meta in REALTIME:
            fetch_kernel(folder, meta, quick_apt(folder.parent / "apt"))
        return list({kernel.series: kernel for kernel in cached(folder)}.values())


def compiled(root: Path) -> Kernel:
    """One that was not fetched."""
    try:
        return Kernel((root / "include/config/kernel.release").read_text().strip(), root.resolve(), compiled=True)
    except OSError as error:
        raise Missing(f"THOLE_VM_KERNEL: no kernel was compiled there: {error}") from error


def gather(build: Path) -> tuple[list[Kernel], list[str]]:
    """The newest kernel of each series that can be had, and why others cannot; raises Missing if there is none."""
    if "THOLE_VM_KERNEL" in os.environ:
        return [compiled(Path(os.environ["THOLE_VM_KERNEL"]))], []
    folder = build.resolve() / "vm" / "kernels"
    troubles = []
    with locked(folder):
        for meta in METAS:
            try:
                fetch_kernel(folder, meta, quick_apt(folder.parent / "apt"))
            except (Missing, ValueError) as trouble:
                troubles.append(f"linux-image-{meta}: {trouble}")
        newest = {kernel.series: kernel for kernel in cached(folder)}
    if not newest:
        raise Missing("no kernel for a guest: " + "; ".join(troubles))
    return list(newest.values()), troubles


def fetch(build: Path) -> list[Kernel]:
    """Those alone that there are."""
    return gather(build)[0]


def later_apt(folder: Path) -> tuple[str, ...]:
    """Options for an apt that knows the packages of NEXT and LATER alone, from the mirror that this machine's own
    takes, and of none that is installed."""
    mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian")
    if not mirror:
        raise Missing("apt has no package list of Debian's: `apt-get update` fetches them")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    keys = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
    lines = [f"deb [{keys} arch=amd64] {mirror.split()[0]} {suite} main\n" for suite in (NEXT, LATER)]
    (folder / "sources").write_text("".join(lines))
    settings = {
        "Dir::Etc::sourcelist": folder / "sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null",
        "APT::Default-Release": LATER,
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    return tuple(f"-o{name}={value}" for name, value in settings.items())


def fetch_later(build: Path) -> Kernel:
    """The newest kernel of LATER; raises Missing if there is none."""
    folder = build.resolve() / "vm" / "later"
    with locked(folder.parent):
        if not any(kernel.headers.exists() for kernel in cached(folder)):
            apt = later_apt(folder / "apt")
            run("apt-get", *apt, "-q", "update")
            (image,) = depends(apt, f"linux-image-amd64/{LATER}")
            said = run("apt-get", *apt, "-s", "--no-install-recommends", "install", *LATER_TOOLS)
            tools = set(re.findall(r"^Inst (\S+)", said, flags=re.MULTILINE))
            kernel = Kernel(image[len("linux-image-") :], folder / image[len("linux-image-") :])
            unpack({image, *depends(apt, image), *tools}, kernel.root, apt, MERGED)
            prepare(kernel)
        return cached(folder)[-1]


def fetch_source(kernel: Kernel, build: Path, path: str) -> Path:
    """A folder of the kernel's own source: of what Debian leaves out of its kernels."""
    folder = build.resolve() / "vm" / "source" / kernel.release
    if kernel.compiled:
        return kernel.root / path
    with locked(folder.parent):
        if not (folder / path).exists():
            apt = quick_apt(folder.parent.parent / "apt")
            shown = run("apt-cache", *apt, "show", "--no-all-versions", f"linux-headers-{kernel.release}")
            version = re.search(r"^Version: (\S+)", shown, flags=re.MULTILINE)
            if not version:
                raise Missing(f"apt knows nothing of linux-headers-{kernel.release}")
            new = folder.with_name(folder.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            run("apt-get", *apt, "-q", "download", f"linux-source-{kernel.series}={version[1]}", cwd=new)
            unpack = f"dpkg --fsys-tarfile *.deb | tar -xO --wildcards '*.tar.xz'"
            wanted = f"tar -xJ --strip-components=1 --wildcards '*/{path}'"
            run("sh", "-c", f"{unpack} | {wanted} && rm *.deb", cwd=new)
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
    return folder / path


def fetch_program(build: Path, package: str, path: str) -> Path:
    """A program that needs nothing else of its package or of others."""
    folder = build.resolve() / "vm" / package
    with locked(folder.parent):
        if not (folder / path).exists():
            unpack({package}, folder, quick_apt(folder.parent / "apt"))
    return folder / path


def fetch_archives(build: Path, *packages: str) -> list[Path]:
    """These as they are, for the dpkg of a guest."""
    folder = build.resolve() / "vm" / "archives" / "-".join(packages)
    with locked(folder.parent):
        if not folder.exists():
            new = folder.with_name(folder.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            run("apt-get", *quick_apt(build.resolve() / "vm" / "apt"), "-q", "download", *packages, cwd=new)
            new.rename(folder)
    return sorted(folder.glob("*.deb"))


def fetch_busybox(build: Path) -> Path:
    return fetch_program(build, "busybox-static", "bin/busybox")


def fetch_sparse(build: Path) -> Path:
    return fetch_program(build, "sparse", "usr/bin/sparse")


def main() -> int:
    parser = argparse.ArgumentParser(description="fetch Debian's kernels for guests")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    options = parser.parse_args()
    try:
        found, troubles = gather(options.build)
        fetch_busybox(options.build)
        fetch_sparse(options.build)
    except Missing as trouble:
        print(f"thole: {trouble}", file=sys.stderr)
        return 1
    for kernel in found:
        print(kernel.release, kernel.root)
    for trouble in troubles:
        print(f"thole: {trouble}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
