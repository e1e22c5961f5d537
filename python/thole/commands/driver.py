# SPDX-License-Identifier: BSD-3-Clause
"""`thole driver`: install the kernel driver by DKMS, say how it stands, and remove it.

Owns its place in the system: the sources in /usr/src, and three files for the administrator, which say who may open
/dev/thole (udev), the module's parameters (modprobe), and that it is loaded at boot. Files that were edited are never
overwritten or removed. What DKMS does with the sources is DKMS's.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from rich.markup import escape

from thole.base import native, output, paths
from thole.base.trouble import Trouble

NAME = "thole"
DEVICE = Path("/dev/thole")
MODULE = Path("/sys/module/thole")  # there while one is loaded
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # where root's commands are; `su` and cron leave them out of PATH
# The administrator's files: in the sources, and in the system.
FILES = (
    ("60-thole.rules", "etc/udev/rules.d/60-thole.rules"),
    ("thole.modprobe", "etc/modprobe.d/thole.conf"),
    ("thole.modules-load", "etc/modules-load.d/thole.conf"),
)


class Place:
    """Where it is installed: the whole system, or a folder that stands for one."""

    def __init__(self, root: Path, kernel: str) -> None:
        self.root = root
        self.here = root == Path("/")
        self.kernel = kernel or platform.release()
        self.sources = paths.driver_tree()

    def version(self) -> str:
        """Of the sources that are here; "" if there are none."""
        if self.sources is None:
            return ""
        match = re.search(r'PACKAGE_VERSION="(.*)"', (self.sources / "dkms.conf").read_text())
        return match[1] if match else ""

    def headers(self, kernel: str) -> Path:
        return self.root / "lib/modules" / kernel / "build"

    def kernels(self) -> list[str]:
        """Those that have a module of any version by DKMS, which writes thole/0.1.0 or, before 3.0, thole, 0.1.0."""
        said = self.dkms("status", NAME).stdout
        found = re.findall(rf"^{NAME}(?:/|, )[^,]+, ([^,]+), [^,:]+: installed(?!-)", said, flags=re.MULTILINE)
        return list(dict.fromkeys(found))

    def copy(self, version: str) -> Path:
        return self.root / "usr/src" / f"{NAME}-{version}"

    def versions(self) -> set[str]:
        """Whose sources are in the system."""
        return {copy.name[len(NAME) + 1 :] for copy in (self.root / "usr/src").glob(f"{NAME}-[0-9]*")}

    def drop(self, versions: set[str]) -> None:
        """DKMS knows them no more: of one without its sources it would complain with each new kernel."""
        for version in versions:
            self.dkms("remove", f"{NAME}/{version}", "--all")
            shutil.rmtree(self.copy(version), ignore_errors=True)

    def dkms(self, action: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["dkms", action, *words]
        if not self.here:
            command += ["--dkmstree", str(self.root / "var/lib/dkms"), "--sourcetree", str(self.root / "usr/src")]
            command += ["--installtree", str(self.root / "lib/modules")]
        return ran(*command)

    def need_dkms(self, action: str, *words: str) -> None:
        done = self.dkms(action, *words)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Trouble(f"dkms {action} failed: {' '.join(said[-3:])}", self.log())

    def make(self, kernel: str) -> None:
        """The module for a kernel, of the sources that were added."""
        words = (f"{NAME}/{self.version()}", "-k", kernel)
        folder = () if self.here else ("--kernelsourcedir", str(self.headers(kernel)))
        self.need_dkms("build", *words, *folder)
        self.need_dkms("install", *words, *folder, "--force")

    def log(self) -> str:
        log = self.root / "var/lib/dkms" / NAME / self.version() / "build" / "make.log"
        return f"{log} says why" if paths.is_file(log) else "run it by hand to see why"


def require(place: Place, action: str) -> Path:
    """The sources; says what else is missing, and how to get it."""
    if place.sources is None:
        raise Trouble("the driver's sources are not installed with this Thole", "install it again")
    if os.geteuid() != 0:
        raise Trouble("only root installs or removes a kernel module", paths.by_root("driver", action))
    if not found("dkms"):
        raise Trouble("dkms is not installed", "apt install dkms, or your distribution's like")
    return place.sources


def search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def found(command: str) -> bool:
    return shutil.which(command, path=search_path()) is not None


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": search_path()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def loaded() -> str:
    """The version of the module that is loaded; "" if none is."""
    try:
        return (MODULE / "version").read_text().strip()
    except OSError:
        return ""


def is_installed() -> bool:
    """Whether the module that is loaded is the one that modprobe would take."""
    try:
        source = (MODULE / "srcversion").read_text().strip()
        return source != "" and source == ran("modinfo", "-F", "srcversion", NAME).stdout.strip()
    except OSError:
        return False


def system(*command: str) -> str:
    """What it complained of; a command that is not there complains of nothing."""
    if not found(command[0]):
        return ""
    done = ran(*command)
    return (done.stderr.strip() or f"exit status {done.returncode}") if done.returncode else ""


def load() -> None:
    """The one that is installed, in place of one that is loaded; raises Trouble where that is not to be."""
    system("udevadm", "control", "--reload")
    complaint = system("modprobe", "-r", NAME) if loaded() else ""
    if complaint and not is_installed():  # modprobe would take the one that is loaded for this one
        raise Trouble(
            f"the one that is loaded stays until its programs end, or a reboot: {complaint}",
            "end them, and install it again",
        )
    complaint = system("modprobe", NAME)
    if "Key was rejected" in complaint:
        complaint += "; this system loads signed modules only: mokutil --import /var/lib/dkms/mok.pub"
    if complaint:
        raise Trouble(f"it cannot be loaded: {complaint}", "endpoints go on without it until then")


def make_for_others(place: Place, kernels: list[str]) -> None:
    """Theirs was dropped, or is about to be."""
    for kernel in kernels:
        try:
            place.make(kernel)
            print(f"thole {place.version()} is installed for kernel {kernel}")
        except Trouble as trouble:
            print(f"kernel {kernel} has no module of thole {place.version()}: {trouble.what}")


def install(place: Place) -> int:
    sources = require(place, "install")
    headers = place.headers(place.kernel)
    if not headers.exists():
        raise Trouble(
            f"the headers of kernel {place.kernel} are not there ({headers})",
            f"apt install linux-headers-{place.kernel}, or your distribution's like",
        )
    others = [kernel for kernel in place.kernels() if kernel != place.kernel]
    place.drop({place.version()})  # an older state of the same version
    shutil.copytree(sources, place.copy(place.version()))
    for name, path in FILES:
        to = place.root / path
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            shutil.copy(sources / name, to)
    (place.root / "var/lib/dkms").mkdir(parents=True, exist_ok=True)
    try:
        place.need_dkms("add", f"{NAME}/{place.version()}")
        place.make(place.kernel)
        print(f"thole {place.version()} is installed for kernel {place.kernel}")
    finally:  # what was dropped above was theirs, too
        make_for_others(place, others)
    place.drop(place.versions() - {place.version()})  # or a newer one would be what DKMS makes for the next kernel
    if place.here and place.kernel == platform.release():
        load()
    return 0


def remove(place: Place) -> int:
    sources = require(place, "remove")
    if place.here and loaded():
        complaint = system("modprobe", "-r", NAME)
        if complaint:
            raise Trouble(f"the driver cannot be unloaded: {complaint}", "end the programs that use it first")
    place.drop(place.versions() | {place.version()})
    for name, path in FILES:
        file = place.root / path
        if file.exists() and file.read_bytes() == (sources / name).read_bytes():
            file.unlink()
        elif file.exists():
            print(f"{file} was edited, and stays")
    print("the driver is removed")
    return 0


def status_rows(place: Place) -> list[tuple[str, str]]:
    capability = next((row for row in native.capabilities() if row.name == "driver"), None)
    usable = capability is not None and capability.available
    rows = [("device", f"{DEVICE} can be used" if usable else capability.why if capability else "not known")]
    rows += [("loaded", loaded() or "no")]
    known = place.dkms("status", NAME).stdout.strip() if found("dkms") else "dkms is not installed"
    rows += [("dkms", known or "does not know it: thole driver install")]
    rows += [("sources", f"{place.version()}, {place.sources}" if place.sources else "not installed")]
    headers = "there" if place.headers(place.kernel).exists() else f"missing: apt install linux-headers-{place.kernel}"
    rows += [("headers", f"of {place.kernel}: {headers}")]
    rows += [(Path(path).name, str(place.root / path)) for _, path in FILES if (place.root / path).exists()]
    return rows


def status(place: Place) -> int:
    table = output.table("", "")
    table.show_header = False
    for name, text in status_rows(place):
        table.add_row(name, escape(text))
    output.console(160).print(table, highlight=False)
    return 0


ACTIONS = {"install": install, "status": status, "remove": remove}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "driver",
        help="install, look at or remove the kernel driver",
        description="Install the kernel driver by DKMS, which then compiles it for each new kernel; say how it stands; "
        "or remove it. Endpoints use it when they find it; nothing else has to be set, and peers need not have it.",
    )
    parser.add_argument("action", choices=tuple(ACTIONS), help="what to do")
    parser.add_argument("--kernel", default="", metavar="RELEASE", help="for this kernel (default: the running one)")
    parser.add_argument(
        "--root", type=Path, default=Path("/"), metavar="DIR", help="below this folder, and load nothing (for tests)"
    )
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    if not arguments.root.is_dir():
        raise Trouble(f"--root {arguments.root} is not a folder", "name one that stands for a system")
    return ACTIONS[arguments.action](Place(arguments.root.resolve(), arguments.kernel))
