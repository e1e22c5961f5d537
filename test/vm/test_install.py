# SPDX-License-Identifier: BSD-3-Clause
"""`thole driver` with Debian's own dkms, below a folder that stands for a system; what it installs, in a guest; and the
package thole-dkms, looked into, and installed in a guest."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import guest as guests
import kernels
import pytest
from conftest import in_full_only, needed

Run = Callable[..., guests.Result]
Thole = Callable[..., "subprocess.CompletedProcess[str]"]
KMOD = ("real/depmod", "modinfo", "lsmod")


@pytest.fixture
def programs(build: Path, tmp_path: Path, system: Path, pytestconfig: pytest.Config) -> Path:
    """A folder for PATH with dkms, and with kmod's programs; of these depmod knows no other system than ours."""
    folder = tmp_path / "programs"
    (folder / "real").mkdir(parents=True)
    with needed(pytestconfig):
        (folder / "dkms").symlink_to(kernels.fetch_program(build, "dkms", "usr/sbin/dkms"))
        for name in KMOD:
            (folder / name).symlink_to(kernels.fetch_program(build, "kmod", "bin/kmod"))
    (folder / "depmod").write_text(f'#!/bin/sh\nexec {folder}/real/depmod -b {system} "$@"\n')
    (folder / "depmod").chmod(0o755)
    return folder


@pytest.fixture
def system(kernel: kernels.Kernel, tmp_path: Path) -> Path:
    """A folder with this kernel's headers where DKMS looks for them."""
    root = tmp_path / "system"
    modules = root / "lib/modules" / kernel.release
    modules.mkdir(parents=True)
    (modules / "build").symlink_to(kernel.headers)
    return root


@pytest.fixture
def thole(build: Path, programs: Path, kernel: kernels.Kernel, system: Path) -> Thole:
    def run(action: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [build / "python/thole", "driver", action, "--root", system, "--kernel", kernel.release, *words]
        path = f"{programs}:{os.environ['PATH']}"
        return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)

    return run


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.quick_on("6.12")
def test_driver(kernel: kernels.Kernel, build: Path, system: Path, thole: Thole, guest: Run) -> None:
    """Compiled by DKMS of the sources alone; the kernel takes it; removed, nothing is left but what was edited."""
    if os.geteuid() != 0:
        pytest.skip("dkms is root's")
    rules = system / "etc/udev/rules.d/60-thole.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text("edited\n")
    done = thole("install")
    assert done.returncode == 0, done.stderr + done.stdout
    (found,) = system.glob(f"lib/modules/{kernel.release}/updates/dkms/thole.ko*")
    assert rules.read_text() == "edited\n"
    assert f"{kernel.release}, x86_64: installed" in thole("status").stdout
    out = system.parent / "out"  # what the guest sees of it
    out.mkdir()
    (out / "thole.ko").write_bytes(guests.module_text(found))
    tool = kernels.fetch_busybox(build)
    result = guest(
        f"set -e; {tool} insmod /out/thole.ko mode=0600; stat -c %a /dev/thole; "
        f"cat /sys/module/thole/version; {build}/python/thole driver status; {tool} rmmod thole"
    )
    lines = result.output.splitlines()
    assert lines[:2] == ["600", "0.1.0"]
    assert "/dev/thole can be used" in result.output
    done = thole("remove")
    assert done.returncode == 0 and "60-thole.rules was edited" in done.stdout, done.stderr + done.stdout
    assert {path for path in files(system) if "thole" in path} == {str(rules.relative_to(system))}


@in_full_only
def test_versions(kernel: kernels.Kernel, build: Path, system: Path, programs: Path, thole: Thole) -> None:
    """What is installed takes the place of other versions, for each kernel that had one, and none is left to DKMS
    without its sources."""
    if os.geteuid() != 0:
        pytest.skip("dkms is root's")

    def dkms(action: str, *words: str) -> str:
        trees = ["--dkmstree", system / "var/lib/dkms", "--sourcetree", system / "usr/src"]
        command = ["dkms", action, *words, *trees, "--installtree", system / "lib/modules"]
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert all(line.startswith("readelf: Warning") for line in done.stderr.splitlines()), done.stderr
        return done.stdout

    def make(version: str) -> None:
        conf = Path(shutil.copytree(build / "kernel/driver", system / f"usr/src/thole-{version}")) / "dkms.conf"
        conf.write_text(conf.read_text().replace('"0.1.0"', f'"{version}"'))
        dkms("add", f"thole/{version}")

    (system / "var/lib/dkms").mkdir(parents=True)
    make("0.0.1")
    make("99.0")
    other = f"{kernel.release}-other"
    folder = system / "lib/modules" / other
    folder.mkdir()
    (folder / "build").symlink_to(kernel.headers)
    dkms("install", "thole/0.0.1", "-k", other, "--kernelsourcedir", str(kernel.headers))
    for _ in range(2):  # with another version's there, and with the same one's
        done = thole("install")
        assert done.returncode == 0, done.stderr + done.stdout
        lines = dkms("status").splitlines()
        assert len(lines) == 2 and all(line.startswith("thole/0.1.0,") and "installed" in line for line in lines)
        for release in (kernel.release, other):
            assert list(system.glob(f"lib/modules/{release}/updates/dkms/thole.ko*"))
    (folder / "build").unlink()
    done = thole("install")
    told = f"kernel {other} has no module of thole 0.1.0: dkms build failed"
    assert done.returncode == 0 and told in done.stdout, done.stdout
    make("0.0.1")
    done = thole("remove")
    assert done.returncode == 0, done.stderr + done.stdout
    assert dkms("status") == "" and not {path for path in files(system) if "thole" in path}


def test_refused(system: Path, kernel: kernels.Kernel, thole: Thole) -> None:
    """Without headers: what is missing, and how to get it."""
    (system / "lib/modules" / kernel.release / "build").unlink()
    done = thole("install")
    assert done.returncode == 2
    assert f"apt install linux-headers-{kernel.release}" in done.stderr
    assert files(system) == set()


def make_package(build: Path, folder: Path) -> Path:
    words = [kernels.ROOT / "tools/driver_package.sh", build / "kernel/driver", folder]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def test_package(build: Path, tmp_path: Path) -> None:
    """thole-dkms: the sources that DKMS takes, the administrator's files as such, scripts that a shell takes."""
    tree = build / "kernel/driver"
    package = make_package(build, tmp_path)
    assert package.name == "thole-dkms_0.1.0_all.deb"
    control = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
    assert "Package: thole-dkms\n" in control and "Depends: dkms" in control
    subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "in"], check=True)
    inside = tmp_path / "in"
    sources = inside / "usr/src/thole-0.1.0"
    assert files(sources) == files(tree)
    compiled = [path for path in sources.rglob("*.[ch]") if path.is_file()]
    assert compiled and not [path for path in compiled if "GPL-2.0" not in path.read_text().partition("\n")[0]]
    assert all((sources / name).read_bytes() == (tree / name).read_bytes() for name in files(tree))
    for path in (inside / "DEBIAN/conffiles").read_text().split():
        assert (inside / path.lstrip("/")).exists()
    listing = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    assert all(line.split()[1] == "root/root" for line in listing.splitlines())
    for script in ("postinst", "prerm"):
        subprocess.run(["sh", "-n", inside / "DEBIAN" / script], check=True)
    assert "dkms remove -m thole -v 0.1.0 --all" in (inside / "DEBIAN/prerm").read_text()


# {0}: the kernel's release, {1}: its headers. What dpkg, DKMS and kmod do is done to the guest's layer over our root.
INSTALLED = """set -e; export DEBIAN_FRONTEND=noninteractive
mkdir -p /lib/modules/{0}; ln -s {1} /lib/modules/{0}/build; touch /lib/modules/{0}/modules.order
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
dpkg -i /out/needs/*.deb
dpkg -i /out/thole-dkms_*.deb
echo "made: $(dkms status) $(modinfo -n thole)"
[ -c /dev/thole ]; cat /sys/module/thole/version; {2}/python/thole driver status
dpkg --remove thole-dkms
[ ! -e /dev/thole ]; [ ! -e /sys/module/thole ]; [ -z "$(dkms status)" ]; [ -e /etc/modprobe.d/thole.conf ]
dpkg --purge thole-dkms
echo left: $(find /lib/modules /etc/modprobe.d /etc/udev /usr/lib/modules-load.d /usr/src /var/lib/dkms -name '*thole*')
"""


@in_full_only
def test_package__installed(
    kernel: kernels.Kernel, build: Path, tmp_path: Path, guest: Run, pytestconfig: pytest.Config
) -> None:
    """dpkg installs it: DKMS makes the module for the kernel that runs, and it is loaded. Removed, it is neither there
    nor loaded; purged, nothing is left. The emulated processor compiles for some minutes."""
    if kernel.is_root:
        pytest.skip("this machine's compiler, which the guest has, makes no module for that kernel")
    out = tmp_path / "out"
    (out / "needs").mkdir(parents=True)
    with needed(pytestconfig):
        needs = kernels.fetch_archives(build, "kmod", "dkms")
    for file in needs:
        shutil.copy(file, out / "needs")
    make_package(build, out)
    command = INSTALLED.format(kernel.release, kernel.headers, build)
    said = guest(command, cpus=2, memory_mib=2048, limit_s=1800.0).output
    assert f"made: thole/0.1.0, {kernel.release}, x86_64: installed /lib/modules/{kernel.release}/updates/dkms" in said
    assert "\n0.1.0\n" in said and "/dev/thole can be used" in said, said
    assert "\nleft:\n" in said, said
