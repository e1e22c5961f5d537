# SPDX-License-Identifier: BSD-3-Clause
"""Commands in guests: QEMU without KVM, a kernel of kernels.py, and this machine's root, which guests can read only.

    run        a command in one guest: its exit status, output and kernel log; files that it leaves in /out come back
    run_pair   two commands in two guests, g1 (10.0.0.1) and g2 (10.0.0.2), joined by a network

A guest can fail in two ways that are not the command's: its kernel panics (Panic), or it does not say how the command
ended (Lost). QEMU itself causes either now and then, so such a run is tried once more, with a warning; the second time
it counts. An oops is a panic. Time inside has no meaning: an emulated processor is 2 to 80 times slower.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernels import Kernel, Missing

HERE = Path(__file__).resolve().parent
QEMU = "qemu-system-x86_64"
# What it can, but copies by one instruction, which are emulated byte by byte and count as one instruction, and page
# tables of five levels.
PROCESSOR = "max,-erms,-fsrm,-la57"
MODULES = tuple("virtio_pci virtio_net 9pnet_virtio 9p overlay virtio_rng virtio_blk af_packet veth bridge fuse".split())
# Beside these where guests have adapters that the kernel plays: soft-RoCE, iWARP.
CARDS = {
    "rxe": ("crc32_generic", "ib_uverbs", "rdma_rxe"),
    "siw": ("crc32c_generic", "libcrc32c", "ib_uverbs", "rdma_ucm"),
}
FOLDERS = ("bin", "dev", "proc", "sys", "host", "layer", "root", "modules")
# What stock kernels have to check the use of memory: what lies around objects of slabs and in freed ones, whether freed
# pages are written, and, where a kernel has it, objects whose neighbour pages fault (KFENCE).
CHECKING = "slub_debug=FZP page_poison=on kfence.sample_interval=20"
# Fails where that is not in force, or lockdep, where it is, has given up; else looks at all objects there are, and the
# log says what it finds.
CHECK = """cd /sys/kernel/slab; [ $(cat kmalloc-64/red_zone) = 1 ]; for each in */validate; do echo 1 >$each; done
[ ! -e /proc/lockdep_stats ] || grep -q 'debug_locks: *1$' /proc/lockdep_stats
leaks=/sys/kernel/debug/kmemleak
if mount -t debugfs debug /sys/kernel/debug 2>/dev/null && [ -e $leaks ]; then
	sleep 6; echo scan >$leaks; echo scan >$leaks; while read -r line; do echo "$line" >/dev/kmsg; done <$leaks
fi"""
LIMIT_S = 300.0  # a guest that has not ended then is lost
SLOWER, LARGER = 6, 2  # a kernel with KASAN and lockdep, in time and memory
# What a clean kernel log does not have.
COMPLAINTS = re.compile(
    r"\bBUG\b|WARNING:|pagealloc:|Oops|Call Trace|general protection|refcount_t:|[Bb]ad page|blocked for more"
    r"|unreferenced object|to become free\."
)
# What a kernel with DEBUG_VM says where somebody finds a page that a userfault is to bring, and does not wait for that.
EXPECTED = re.compile(r"FAULT_FLAG_ALLOW_RETRY missing.*?</TASK>", flags=re.DOTALL)


class Panic(Exception):
    """The guest's kernel panicked; has the end of its console."""


class Lost(Exception):
    """The guest ended, or ran out of time, without saying how the command ended."""


@dataclass(frozen=True)
class Bed:
    """What guests are made of, the same for all of one kernel."""

    kernel: Kernel
    initramfs: Path


@dataclass(frozen=True)
class Result:
    status: int
    output: str  # of the command, both streams
    log: str  # the kernel's
    out: Path  # the folder that was /out

    def complaints(self) -> list[str]:
        return [line for line in EXPECTED.sub("", self.log).splitlines() if COMPLAINTS.search(line)]


@dataclass
class Job:
    """A command, and the guest that it wants."""

    command: str
    out: Path
    name: str = "g1"
    cpus: int = 1
    memory_mib: int = 768
    limit_s: float = LIMIT_S
    devices: Sequence[str] = field(default_factory=tuple)  # more arguments for QEMU
    # Time goes by the instruction, 2 ns each, and is the same in each run: for costs. Nothing else has a meaning there.
    counted: bool = False
    words: str = ""  # more of the kernel's command line, such as CHECKING


# ---- The first file system -------------------------------------------------------------------------


def module_text(path: Path) -> bytes:
    """A module as insmod of the guest reads it: not compressed."""
    text = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(text)
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq"], input=text, capture_output=True, check=True).stdout
    return text


def modules_in_order(kernel: Kernel, names: Sequence[str]) -> dict[str, bytes]:
    """What has to be loaded: file names and texts, each after those that it needs."""
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        path = kernel.module(name)
        if path is None:  # built in
            return
        file = path.name.split(".ko")[0].replace("-", "_") + ".ko"
        if file in order:
            return
        text = module_text(path)
        match = re.search(rb"\0depends=([^\0]*)\0", text)
        for other in match[1].decode().split(",") if match and match[1] else []:
            add(other)
        order[file] = text

    for name in names:
        add(name)
    return order


def cpio_entry(number: int, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    """One file in the format `newc`."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + path
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def make_initramfs(kernel: Kernel, busybox: Path, names: Sequence[str], to: Path) -> None:
    modules = modules_in_order(kernel, names)
    entries = [(name, 0o40755, b"") for name in FOLDERS]
    entries += [("init", 0o100755, (HERE / "init").read_bytes()), ("bin/busybox", 0o100755, busybox.read_bytes())]
    entries += [(f"modules/{name}", 0o100644, text) for name, text in modules.items()]
    entries += [("modules/order", 0o100644, "".join(f"{name}\n" for name in modules).encode())]
    parts = [cpio_entry(number, *entry) for number, entry in enumerate(entries, 1)]
    parts += [cpio_entry(len(parts) + 1, "dev/console", 0o20600, device=(5, 1)), cpio_entry(0, "TRAILER!!!", 0)]
    to.write_bytes(b"".join(parts))


def need_qemu() -> None:
    if not shutil.which(QEMU):
        raise Missing(f"{QEMU} is not there: `tools/packages.sh vm` installs it")


def make_bed(kernel: Kernel, busybox: Path, folder: Path, more: Sequence[str] = ()) -> Bed:
    """More: modules beside those that all guests have."""
    initramfs = folder / f"{kernel.release}.cpio"
    make_initramfs(kernel, busybox, (*MODULES, *more), initramfs)
    return Bed(kernel, initramfs)


# ---- Guests -----------------------------------------------------------------------------------------


def clock_khz() -> str:
    """An emulated processor's clock is this machine's. A guest that measures it under load is wrong by factors."""
    match = re.search(r"cpu MHz\s*: ([\d.]+)", Path("/proc/cpuinfo").read_text())
    return f"tsc_early_khz={int(float(match[1]) * 1000)}" if match else ""


def command_line(bed: Bed, job: Job) -> list[str]:
    words = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr tsc=reliable no_timer_check"
    shared = "local,security_model=none"
    counting: tuple[str, ...] = ()
    if job.counted:
        counting = ("-icount", "shift=1,sleep=off", "-rtc", "base=2026-01-01,clock=vm")
    else:
        words += f" {clock_khz()}"
    words += f" {job.words}"
    return [
        *(QEMU, "-M", "pc", "-accel", "tcg", "-cpu", PROCESSOR, "-smp", str(job.cpus)),
        *("-m", str(job.memory_mib * (LARGER if bed.kernel.compiled else 1))),
        *counting,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-fsdev", f"{shared},id=host,path=/,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
        *("-fsdev", f"{shared},id=out,path={job.out}", "-device", "virtio-9p-pci,fsdev=out,mount_tag=out"),
        *("-device", "virtio-rng-pci", *job.devices),
        *("-kernel", str(bed.kernel.image), "-initrd", str(bed.initramfs), "-append", f"{words} guest={job.name}"),
    ]


@dataclass
class Guest:
    """A guest that runs."""

    bed: Bed
    job: Job

    def __post_init__(self) -> None:
        self.job.out.mkdir(parents=True, exist_ok=True)
        for name in ("output", "log"):
            (self.job.out / name).unlink(missing_ok=True)
        (self.job.out / "command").write_text(self.job.command + "\n")
        self.process = subprocess.Popen(
            command_line(self.bed, self.job), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def text(self, name: str) -> str:
        path = self.job.out / name
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self) -> Result:
        late, limit_s = False, self.job.limit_s * (SLOWER if self.bed.kernel.compiled else 1)
        try:
            console_bytes, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            late = True
            self.end()
            console_bytes, _ = self.process.communicate()
        console = console_bytes.decode(errors="replace")
        match = re.search(r"^### exit (\d+)", console, flags=re.MULTILINE)
        if match:
            return Result(int(match[1]), self.text("output"), self.text("log"), self.job.out)
        tail = f"guest {self.job.name}, {self.bed.kernel.release}:\n{self.text('output')[-2000:]}\n{console[-4000:]}"
        if "Kernel panic" in console:
            raise Panic(tail)
        raise Lost((f"not ended after {limit_s:.0f} s: " if late else "ended too early: ") + tail)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()


def attempt(bed: Bed, jobs: Sequence[Job]) -> list[Result]:
    guests: list[Guest] = []
    try:
        guests += (Guest(bed, job) for job in jobs)
        return [guest.wait() for guest in guests]
    finally:
        for guest in guests:
            guest.end()
            guest.process.wait()


def run_all(bed: Bed, jobs: Sequence[Job]) -> list[Result]:
    try:
        return attempt(bed, jobs)
    except (Panic, Lost) as trouble:
        warnings.warn(f"tried once more: {type(trouble).__name__}: {trouble}", stacklevel=3)
        return attempt(bed, jobs)


def run(bed: Bed, job: Job) -> Result:
    (result,) = run_all(bed, [job])
    return result


def run_pair(bed: Bed, first: Job, second: Job) -> tuple[Result, Result]:
    """Both at once; the network is a pair of datagram sockets, a frame a datagram."""
    jobs = (first, second)
    with tempfile.TemporaryDirectory(prefix="thole-vm-") as sockets:
        for own, job in enumerate(jobs, 1):
            job.name = f"g{own}"
            ends = f"local.type=unix,local.path={sockets}/{own},remote.type=unix,remote.path={sockets}/{3 - own}"
            card = f"virtio-net-pci,netdev=net,mac=52:54:00:12:34:0{own},romfile="
            job.devices = (*job.devices, "-netdev", f"dgram,id=net,{ends}", "-device", card)
            names = "echo 10.0.0.1 g1 >>/etc/hosts; echo 10.0.0.2 g2 >>/etc/hosts"
            job.command = f"{names}; ip addr add 10.0.0.{own}/24 dev eth0; ip link set eth0 up\n{job.command}"
        one, two = run_all(bed, jobs)
    return one, two
