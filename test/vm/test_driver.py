# SPDX-License-Identifier: BSD-3-Clause
"""thole.ko in a guest: each event that takes pins away, load and unload, calls at random, other users and namespaces.

After each test the kernel log is clean (the fixture `guest` asserts that), and the module can be unloaded, so nothing
of it is held any more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import guest as guests
import kernels
import module
import pytest
from conftest import FULL, assert_well, in_full_only, make_bed, needed

Run = Callable[..., guests.Result]
LIMIT_S = 1200.0 if FULL else guests.LIMIT_S
CASES = (
    "munmap munmap_part mremap dontneed tagged mprotect split collapse hole truncate writeback fork shared exec exit "
    "kill userfault stuck stuck_call locked locked_killed swap shrink vector overlapping background changing chased "
    "charged limit order arguments many watch"
).split()
REALTIME = "munmap mremap fork shared exec exit kill background limit order".split()  # there are no huge pages
VIEWS = (
    "plain odd untouched reading munmap again mremap dontneed tagged mprotect huge file fork fork_peer exit kill exec "
    "kill_peer swap userfault stuck beside withdraw keys users limit mapping chain many"
).split()
BULK = (
    "both epochs plain_serve plain_fetch renamed shared cut down gone vanish lost killed sockets icmp hostile mixed "
    "refused steered filtered scattered marked counted held stuck collected locked reused"
).split()
AMID = "dontneed swap munmap mremap truncate exit exec kill".split()
RING = "told failed full room forgotten sleep nonsense mapping".split()

PULL = "fetch jumbo lost vanish strange serve serve_jumbo refused gone closed killed asked arguments".split()

FRAMES = "lengths bursts full sleep binding stranger arguments child thread mxoe".split()
INTERFACES = "down shrunk removed moved elsewhere killed nonsense".split()
AS_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
VETH = "ip link add va mtu {0} type veth peer name vb mtu {0}; ip link set va up; ip link set vb up"


@pytest.fixture
def driver(kernel: kernels.Kernel, build: Path, guest: Run) -> Run:
    """driver("command") with the module loaded before and unloaded afterwards, which fails where a use is left; in a
    kernel that checks the use of memory."""
    try:
        file = module.build_module(kernel, build)
        tool = kernels.fetch_busybox(build)
    except kernels.Missing as trouble:
        pytest.fail(str(trouble))

    def run(command: str, words: str = "", **wishes: Any) -> guests.Result:
        line = f"set -e; k='{tool}'; m={file}\n$k insmod $m\n{command}\n{module.unload('$k')}\n{guests.CHECK}"
        return guest(line, limit_s=LIMIT_S, words=f"{guests.CHECKING} {words}", **wishes)

    return run


@pytest.fixture
def drive(tmp_path: Path) -> tuple[str, ...]:
    """A disk to swap to, /dev/vda in the guest."""
    disk = tmp_path / "swap"
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkswap", disk], check=True, capture_output=True)
    return ("-drive", f"file={disk},if=none,id=swap,format=raw", "-device", "virtio-blk-pci,drive=swap")


@pytest.mark.later_kernel
def test_events(driver: Run, build: Path, drive: tuple[str, ...]) -> None:
    """Each with its data checked, and no page pinned afterwards. Then what thole.h says of memory."""
    program = f"{build}/test/vm/thole-driver"
    result = driver(f"swapon /dev/vda; {program}-events; {program}-memory", devices=drive)
    said = [line for line in result.output.splitlines() if not line.startswith("tagged: skipped, ")]
    assert " ".join(said).split() == [*CASES, "well"]


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
def test_views(driver: Run, build: Path, drive: tuple[str, ...]) -> None:
    """The same of views in another process and in the owner, each end of either, who may attach, and the mapping. Then
    two processes with each other's memory, which changes all the time. The module stays as long as a view is mapped."""
    program = f"{build}/test/vm/thole-driver-attach"
    hold = f"coproc {program} --hold; read -r -u ${{COPROC[0]}} said; [ $said = held ]; held=$COPROC_PID\n"
    hold += "if $k rmmod thole; then exit 1; fi; kill -9 $held; wait $held || true"
    result = driver(f"swapon /dev/vda; {program}; {program} --race 3 0\n{hold}", devices=drive, cpus=2)
    assert [line for line in result.output.split() if line in VIEWS] == VIEWS


@pytest.mark.quick_on("6.1")
def test_lent(driver: Run, build: Path) -> None:
    """Large messages of buffers that are remapped, given back and forked in between, by views of both sides: few and
    many, learnt, and where process_vm is refused. `make test-all` has more of them, ranks that are killed, and the
    library's stress test."""
    program = f"{build}/test/system/thole-views"
    rounds = "1 2 3" if FULL else "1"
    command = f"for s in {rounds}; do for c in $({program}); do {program} $c $s {400 if FULL else 60}; done; done"
    if FULL:
        command += f"\n{build}/test/system/thole-kill --kills 10"
        command += f"\n{build}/test/system/thole-stress --seconds 10 --options driver=required"
    driver(command, cpus=2)


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
def test_ring(driver: Run, build: Path) -> None:
    """Events, with two processors."""
    assert driver(f"{build}/test/vm/thole-driver-ring", cpus=2).output.split() == RING


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.1")
def test_ether(driver: Run, build: Path) -> None:
    """Frames of our own: by a user without rights, and as root what happens to interfaces; the pair goes at last, for
    which nothing may hold it."""
    program = f"{build}/test/vm/thole-driver-ether"
    command = f"{VETH.format(1500)}\nchmod o+rx /\n{AS_NOBODY} {program}\n{program} {' '.join(INTERFACES)}"
    assert driver(f"{command}\nip link del va", cpus=2).output.split() == FRAMES + INTERFACES


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
def test_links(driver: Run, build: Path) -> None:
    """The link by itself, between two namespaces; endpoints that use it beside UDP, which stops amid messages;
    and endpoints that speak MXoE by it."""
    system = build / "test/system"
    cases = ("", "-alarm", "-full", "-down", "-peer-down", "-shrink") if FULL else ("", "-full", "-down")
    links = " ".join(f"driver{case}" for case in cases)
    mxoe = "numbers restart killed neighbours hosts keys" if FULL else "restart"
    driver(
        f"for case in {links}; do {system}/thole-links $case; done\n"
        f"{system}/thole-ways blackhole driver\n"
        f"for case in {mxoe}; do {system}/thole-mxoe $case mxoe link=driver; done",
        cpus=2,
    )


@in_full_only
def test_networks(driver: Run, build: Path) -> None:
    """The library's stress and kill tests, each rank in a network of its own: all frames by the driver, large messages
    too."""
    system = build / "test/system"
    kill = f"{system}/thole-kill --kills 6"
    driver(
        f". {guests.HERE}/networks.sh\n"
        f"{system}/thole-stress --seconds 5 --ranks 4 --hosts 4 --options 'link=driver;interface=v0'\n"
        f"{system}/thole-stress --seconds 5 --ranks 4 --hosts 4 --options 'driver=required;interface=v0'\n"
        f"THOLE_LINK=driver {kill}\nTHOLE_DRIVER=required {kill}",
        cpus=2,
        memory_mib=1024,
    )


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.1")
def test_load(driver: Run, build: Path) -> None:
    """Again and again, each time used, and left to the end of a process that has pages pinned."""
    once = f"{module.unload('$k')}; $k insmod $m; {build}/test/vm/thole-driver-events exit >/out/said"
    driver(f"for i in $(seq {100 if FULL else 10}); do {once}; done")


# Its own socket is a tunnel's (UDP_ENCAP, L2TP), so that the kernel has its code for these in place all the time: where
# that is patched while another processor runs it, QEMU 7.2 may die of a breakpoint that has gone already.
STRANGER = """
import os, random, socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.IPPROTO_UDP, 100, 3)
print("there", flush=True)
while True:
    for line in open("/proc/net/udp").readlines()[1:]:
        port = int(line.split()[1].split(":")[1], 16)
        if port:  # and not one that is being closed
            own.sendto(bytes([random.randrange(20), 2]) + os.urandom(random.randrange(1400)), ("127.0.0.1", port))
"""


@in_full_only
@pytest.mark.parametrize("part", range(4))
def test_unload(driver: Run, build: Path, part: int) -> None:
    """A hundred times after ranks with large messages, one of them killed, while a stranger sends to each port there
    is; ranks whose sockets the driver never had go on all the time. In four guests, so that what QEMU does to one
    costs a fourth."""
    kill = f"THOLE_SHM=off {build}/test/system/thole-kill --kills"
    once = f"{kill} 1 >/out/said; {module.unload('$k')}; $k insmod $m"
    driver(
        f"cat >/out/stranger <<'END'{STRANGER}END\n{sys.executable} /out/stranger >/out/there & stranger=$!\n"
        f"until [ -s /out/there ]; do sleep 0.1; done\n"
        f"(for i in $(seq 2); do THOLE_DRIVER=off {kill} 10 >/out/others; done) & others=$!\n"
        f"for i in $(seq 25); do {once}; done\nkill $stranger; wait $others",
        cpus=2,
    )


# Sockets become tunnels (UDP_ENCAP, L2TP) and none again, over and over, while the driver has them and gives them back.
# Then an ICMP message comes to each.
TUNNELS = """
import fcntl, os, signal, socket, struct, sys
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
for own in sockets:
    own.bind(("127.0.0.1", 0))
driver = os.open("/dev/thole", os.O_RDWR)
child = os.fork()
while child == 0:
    for own in sockets:
        for kind in (0, 3):
            own.setsockopt(socket.IPPROTO_UDP, 100, kind)
for own in sockets:
    taken = False
    while not taken:
        try:
            taken = fcntl.ioctl(driver, 0x4008E710, struct.pack("iI", own.fileno(), 0)) is not None
        except OSError:
            pass
    fcntl.ioctl(driver, 0xE711, own.fileno())
os.kill(child, signal.SIGKILL)
os.close(driver)
print("left", flush=True)
sys.stdin.readline()
for own in sockets:
    own.setsockopt(socket.IPPROTO_UDP, 100, 3)
    own.sendto(b"", ("127.0.0.1", 9))
"""


@pytest.mark.quick_on("6.12")
def test_tunnels(driver: Run) -> None:
    """Sockets that have left the driver know nothing of the module, which is unloaded, whatever the program does with
    them meanwhile."""
    driver(
        f"cat >/out/tunnels <<'END'{TUNNELS}END\nip link set lo up\n"
        f"coproc {sys.executable} /out/tunnels; read -r -u ${{COPROC[0]}} said; [ $said = left ]\n"
        f"$k rmmod thole; echo >&${{COPROC[1]}}; wait $COPROC_PID; $k insmod $m",
        cpus=2,
    )


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
def test_bulk(driver: Run, build: Path) -> None:
    """Frames with tags; then long ones without. `make test-all` has more of these, and memory that goes amid a
    transfer. Whoever is woken runs at once, also amid another one's call, so that what calls leave open is found."""
    program = f"{build}/test/vm/thole-driver-bulk"
    more = f"{program} 1500 amid munmap; {program} -9000 both cut" if FULL else f"{program} -9000 cut"
    more += " scattered"
    said = driver(f"{program} 1500; {more}", words="preempt=full", cpus=2).output.split()
    assert said == [*BULK, *(["fetch_munmap", "serve_munmap", "both"] if FULL else []), "cut", "scattered"]


@in_full_only
def test_amid(driver: Run, build: Path, drive: tuple[str, ...]) -> None:
    """What happens to memory and processes on either side when half of a transfer is there: data is right or the end
    is told, nothing stays pinned and no packet under way."""
    said = driver(f"swapon /dev/vda; {build}/test/vm/thole-driver-bulk 1500 amid", devices=drive, cpus=2).output.split()
    assert said == [f"{side}_{what}" for what in AMID for side in ("fetch", "serve")]


@pytest.mark.quick_on("6.12")
@pytest.mark.parametrize("seed", range(2 if FULL else 1))
def test_fuzz(driver: Run, build: Path, seed: int) -> None:
    calls = 100000 if FULL else 4000
    driver(f"{VETH.format(9000)}\n{build}/test/vm/thole-driver-fuzz {seed} {calls}\nip link del va", cpus=2)


@pytest.mark.skipif("THOLE_VM_KERNEL" not in os.environ, reason="Debian's kernels refuse no memory")
def test_faults(driver: Run, build: Path) -> None:
    """Each piece of memory that a call or the module's beginning asks for is refused, one by one, and each copy to and
    from the program. Then frames for which there is no memory where they are made are frames that were lost."""
    program = f"{build}/test/vm/thole-driver"
    said = driver(
        f"{VETH.format(1500)}\nip link add vc mtu 9000 type veth peer name vd mtu 9000\n"
        f"for what in memory copies; do {program}-faults $what; done\n"
        f"$k rmmod thole; {program}-faults load $m; $k insmod $m\n"
        f"{program}-faults short; {program}-bulk 1500 both lost; {program}-pull fetch jumbo serve\n"
        "ip link del va; ip link del vc",
        cpus=2,
    ).output
    refused = dict(line.split() for line in said.splitlines() if line.count(" ") == 1)
    assert all(int(refused[what]) > 0 for what in ("open", "declare", "offer", "attach", "socket", "load")), said


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
def test_overlap(driver: Run, build: Path) -> None:
    """Messages are there when both ranks have computed without a call, and nothing stays: with options as they come.
    Then for a user whose limit has no room for both ways at once, so that pins give way amid messages. At last the
    interface has IPv6 alone, which the driver leaves to the program."""
    ways = ("", "--thread", "--thread --option job_key=4711", "--option pin=before", "--drivers 1 --thread")
    ways = (*ways, "--drivers 1 --covered --option job_key=4711")
    program = f"{build}/test/vm/thole-driver-overlap --bytes 4194304 --option interface=lo"
    runs = "\n".join(f"{program} {way}" for way in ways)
    runs += f"\n(ulimit -l 6144; {AS_NOBODY} {program} --drivers 1 --option job_key=4711)"
    runs += f"\nip addr del 127.0.0.1/8 dev lo\n{program} --none"
    assert driver(f"chmod o+rx /; ip link set lo up\n{runs}", cpus=2).output.count("there after") == 2 * len(ways) + 4


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
def test_pull(driver: Run, build: Path) -> None:
    """MXoE's frames beside a host that has no driver: byte for byte what it takes; amid losses, junk, and ends."""
    assert driver(f"{build}/test/vm/thole-driver-pull", cpus=2).output.split() == PULL


@pytest.mark.quick_on("6.1")
def test_pulled(driver: Run, build: Path) -> None:
    """The same by MXoE, between two networks: with the driver at both ranks, and at one beside one without; both modes.
    Then messages of all lengths. `make test-all` has more of each."""
    ways = ["mxoe --thread --drivers 1", "mxoe-jumbo --thread"]
    ways += ["mxoe", "mxoe --thread", "mxoe-jumbo", "mxoe --option pin=before"] if FULL else []
    program = f"{build}/test/vm/thole-driver-overlap --bytes 4194304"
    runs = "\n".join(f"{program} --codec {way}" for way in ways)
    runs += "".join(f"\n{build}/test/system/thole-mxoe messages {codec}" for codec in ("mxoe", "mxoe-jumbo") if FULL)
    said = driver(f"MTU=9000; . {guests.HERE}/networks.sh\n{runs}", cpus=2, memory_mib=1024).output
    assert said.count("there after") == 2 * len(ways)


@pytest.mark.quick_on("6.1")
def test_killed(driver: Run, build: Path) -> None:
    """Ranks killed amid large messages between hosts: the survivors hear of it, and lose nothing. `make test-all` has
    more of them, the stress test on two hosts and with losses, and ways that end."""
    system = build / "test/system"
    command = f"THOLE_SHM=off {system}/thole-kill --kills {40 if FULL else 3}"
    if FULL:
        stress = f"{system}/thole-stress --seconds 5"
        command += f"\n{stress} --ranks 4 --hosts 2\n{stress} --ranks 3 --hosts 3 --options inject_loss=50"
        command += f"\nfor way in blackhole blackhole-one-way no-address; do {system}/thole-ways $way; done"
    driver(command, cpus=2)


@in_full_only
@pytest.mark.parametrize("series", ("6.1", "6.12"))
def test_realtime(series: str, build: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """On Debian's kernels with PREEMPT_RT, where what spins elsewhere may sleep."""
    with needed(pytestconfig):
        (kernel,) = (kernel for kernel in kernels.fetch_realtime(build) if kernel.series == series)
        file, tool = module.build_module(kernel, build), kernels.fetch_busybox(build)
    program = f"{build}/test/vm/thole-driver"
    command = f"{program}-events {' '.join(REALTIME)}; {program}-ring; {program}-bulk 1500 both lost killed"
    line = f"set -e; {tool} insmod {file}; {command}; {module.unload(tool)}"
    job = guests.Job(line, tmp_path / "out", cpus=2, limit_s=LIMIT_S)
    assert_well(guests.run(make_bed(kernel, build, tmp_path), job))


@pytest.mark.quick_on("6.12")
def test_others(driver: Run, build: Path) -> None:
    """A user without rights, and one who is root of a user namespace and has a network of its own: no more than its own
    memory, and within its own limit."""
    program = f"{build}/test/vm/thole-driver-events"
    driver(
        f"chmod o+rx /; ulimit -l 2048\n"
        f"{AS_NOBODY} {program} munmap fork kill arguments\n"
        f"{AS_NOBODY} unshare --user --map-root-user --net {program} munmap fork kill arguments\n"
    )
