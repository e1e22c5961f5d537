# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified MPIs over Thole between hosts, over each of its links: conformance, proof of the way, and trouble on it.

The hosts are those of thole_lab.testbed: network namespaces with host names, processes and shared memory of their own.
Launchers reach them by an agent that passes no environment on, as ssh does. MPI_TESTS=full in the environment runs
mpi4py's whole suite.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conform import LOG, assert_conformed, counters, network_flags
from conftest import ROOT, SUITE_MPIS, Compile, InstalledMpi
from jobs import (
    FULL,
    HERE,
    SELECTION,
    finish,
    known_failures,
    launch,
    results_in,
    start,
)
from thole.base.trouble import Trouble
from thole_lab.process import Job, descendants, wait_until
from thole_lab.testbed import Testbed, missing_right

LINKS = ("udp", "raw", "both")
WAIT_S = 120.0  # for what takes a second on an idle machine


# Each MPI, and each link; `make test-all` runs every MPI over every link.
each_once = pytest.mark.over("mpich-both", "openmpi-udp", "openmpi4-raw", "impi-both")


@pytest.fixture(params=LINKS)
def link(request: pytest.FixtureRequest, mpi: InstalledMpi) -> str:
    return str(request.param)


# ---- The hosts themselves --------------------------------------------------------------------------


def test_hosts__are_told_apart_and_reach_each_other(four: Testbed) -> None:
    names = [four.output(number, "cat", "/proc/sys/kernel/hostname").strip() for number in range(4)]
    assert names == four.names
    script = "import socket, sys; s = socket.create_server(('', 7), backlog=4); sys.stdin.read()"
    server = subprocess.Popen(four.command(3, "python3", "-c", script), stdin=subprocess.PIPE)
    try:
        ask = f"import socket; socket.create_connection(('{four.names[3]}', 7))"
        client = four.command(1, "python3", "-c", ask)
        wait_for(lambda: subprocess.run(client, stderr=subprocess.DEVNULL, check=False).returncode == 0)
    finally:
        server.communicate()


def test_hosts__agent_is_a_shell_without_our_environment(two: Testbed) -> None:
    script = ["echo $SECRET-$0;", "cat /proc/sys/kernel/hostname;", "exit 7"]
    line = [str(two.agent), "-x", "-o", "Any=thing", "user@host2", *script]
    done = subprocess.run(line, env={**os.environ, "SECRET": "x"}, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert done.stdout.splitlines()[1] == "host2"
    assert done.stdout.startswith("-")
    assert subprocess.run([str(two.agent), "host3", "true"], capture_output=True, check=False).returncode == 255


def test_hosts__a_command_ends_with_its_caller(two: Testbed) -> None:

    def sleeps() -> bool:
        return "sleep" in two.output(1, "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null; true")

    process = subprocess.Popen(two.command(1, "sh", "-c", "trap '' HUP; exec sleep 1000"))
    wait_for(sleeps)
    process.kill()
    process.wait()
    wait_for(lambda: not sleeps())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_hosts__nothing_is_left_by_their_maker(number: signal.Signals, tmp_path: Path) -> None:
    reason = missing_right()
    if reason:
        pytest.skip(f"no hosts can be made: {reason}")
    code = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.path.insert(0, {str(HERE.parent.parent / 'python')!r})\nfrom thole_lab.testbed import Testbed\n"
        "import subprocess, time\nwith Testbed() as hosts:\n"
        "    subprocess.Popen(hosts.command(0, 'sleep', '1000'))\n    print('made', flush=True)\n    time.sleep(1000)\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    python = os.path.realpath(f"/proc/{os.getpid()}/exe")
    maker = subprocess.Popen(
        [python, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert maker.stdout is not None
    assert maker.stdout.readline() == "made\n"
    below = descendants(maker.pid)
    assert len(below) >= 6  # switch and two hosts, each unshare and a keeper
    maker.send_signal(number)
    maker.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_hosts__an_interface_comes_back_as_it_was(two: Testbed) -> None:
    """A launcher's connection by IPv6 would never go on without its address, and the job would not end."""

    def state() -> list[str]:
        said = two.output(1, "sh", "-c", "ip -o address show dev v0; ip -o neighbour show nud permanent; ip -o route")
        return sorted(line.partition(" valid_lft")[0] for line in said.splitlines() if " fe80::" not in line)

    before = state()
    two.set_link(1, up=False)
    assert state() != before
    two.set_link(1, up=True)
    assert state() == before


def test_hosts__lose_frames_when_told(two: Testbed) -> None:
    receive = (  # with room for all, however late it gets a core
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)\ns.bind(('', 9))\ns.settimeout(60)\n"  # SO_RCVBUFFORCE
        "print('ready', flush=True)\nn = 0\nwhile s.recv(2000) != b'end': n += 1\nprint(n)\n"
    )
    send = (
        "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for i in range(1000):\n    s.sendto(b'x' * 1000, ('host1', 9))\n    time.sleep(0.0005 * (i % 10 == 0))\n"
        "for i in range(20): s.sendto(b'end', ('host1', 9))\n"
    )

    def arrived() -> int:
        receiver = subprocess.Popen(two.command(0, "python3", "-c", receive), stdout=subprocess.PIPE, text=True)
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        two.output(1, "python3", "-c", send)
        return int(receiver.communicate()[0])

    with lossy(two, 300):
        assert 500 < arrived() < 900
    assert arrived() == 1000


# ---- Helpers ---------------------------------------------------------------------------------------


def wait_for(holds: Callable[[], bool], job: Job | None = None) -> None:
    if not wait_until(holds, WAIT_S):
        pytest.fail("\n".join(["it never came", *(text[-3000:] for text in (job.said() if job else ()))]))


@contextlib.contextmanager
def lossy(hosts: Testbed, permille: float) -> Iterator[None]:
    try:
        hosts.set_loss(permille)
    except Trouble as trouble:
        pytest.skip(str(trouble))
    try:
        yield
    finally:
        hosts.set_loss(None)


@dataclass(frozen=True)
class Wire:
    """What a host has sent up to now: packets of each kind and bytes in all. Segmented packets count once."""

    udp: int
    tcp: int
    other: int  # neither IP nor ARP: raw frames
    bytes: int

    def since(self, before: Wire) -> Wire:
        return Wire(*(getattr(self, name) - getattr(before, name) for name in ("udp", "tcp", "other", "bytes")))


def wire(hosts: Testbed, number: int = 0) -> Wire:
    said = hosts.output(number, "cat", "/proc/net/snmp", "/proc/net/snmp6")
    tables: dict[str, dict[str, str]] = {}
    for names, values in re.findall(r"^(\w+: [A-Z].*)\n(\w+: [-\d].*)$", said, re.M):
        tables[names.split(":")[0]] = dict(zip(names.split()[1:], values.split()[1:]))
    sent6 = re.search(r"^Ip6OutRequests\s+(\d+)", said, re.M)
    ip = int(tables["Ip"]["OutRequests"]) + (int(sent6[1]) if sent6 else 0)
    traffic = hosts.traffic(number)
    udp, tcp = int(tables["Udp"]["OutDatagrams"]), int(tables["Tcp"]["OutSegs"])
    return Wire(udp, tcp, traffic["tx_packets"] - ip, traffic["tx_bytes"])


# ---- Conformance -----------------------------------------------------------------------------------


def conformed(mpi: InstalledMpi, program: Path, hosts: Testbed, link: str, ranks: int) -> None:
    flags = network_flags(mpi.name) + (("--small",) if ranks > 2 else ())
    done = launch(mpi, ranks, program, *flags, timeout=900, hosts=hosts, options=options(link, ranks))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_conformed(done.stdout)


@each_once
def test_conform(mpi: InstalledMpi, conform: Compile, two: Testbed, link: str) -> None:
    conformed(mpi, conform(mpi), two, link, 2)


def options(link: str, ranks: int) -> dict[str, str]:
    """Ranks on hosts of their own do not know that they share cores here: they are told to give them to each other."""
    shared = ranks > len(os.sched_getaffinity(0))
    return {"link": link} | ({"yield": "always"} if shared else {})


# Four ranks on this machine's cores, of which no two know of each other, take turns by the scheduler's clock.


@pytest.mark.alone
@pytest.mark.over("mpich", "openmpi")
def test_conform__two_ranks_a_host(mpi: InstalledMpi, conform: Compile, two: Testbed) -> None:
    conformed(mpi, conform(mpi), two, "auto", 4)


@pytest.mark.alone
@pytest.mark.over("mpich")
def test_conform__four_hosts(mpi: InstalledMpi, conform: Compile, four: Testbed) -> None:
    conformed(mpi, conform(mpi), four, "auto", 4)


@pytest.mark.over("mpich-udp", "mpich-raw")
@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_conform__jumbo_frames(mpi: InstalledMpi, conform: Compile, two: Testbed, link: str) -> None:
    two.set_mtu(9000)
    try:
        conformed(mpi, conform(mpi), two, link, 2)
    finally:
        two.set_mtu(1500)


# ---- Proof of the way ------------------------------------------------------------------------------


@each_once
@pytest.mark.parametrize("what", ["messages", "collectives", "accesses"])
def test_all_goes_over_the_link(mpi: InstalledMpi, conform: Compile, two: Testbed, link: str, what: str) -> None:
    """Thole carried what the program did, and the network saw it in frames of this link."""
    before = wire(two)
    done = launch(
        mpi.by("libfabric"),
        2,
        conform(mpi),
        "--count",
        what,
        timeout=300,
        env=LOG,
        hosts=two,
        options=options(link, 2),
    )
    sent = wire(two).since(before)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^counted (\d+) operations, (\d+) large bytes$", done.stdout, re.M)
    assert said is not None, done.stdout
    operations, large = int(said[1]), int(said[2])
    seen = counters(done.stdout + done.stderr)
    carried = sum(
        seen.get(name, 0) for name in ("sent_eager", "sent_rendezvous", "puts", "gets", "atomics")
    )
    assert operations > 0
    assert carried >= operations, seen
    assert seen.get("bulk_bytes", 0) >= large, seen
    assert seen.get("frames_sent", 0) >= operations, seen
    assert all(seen.get(f"bulk_{way}", 0) == 0 for way in ("ring", "one_copy", "cooperative")), seen
    if large:
        assert seen.get("bulk_network", 0) > 0, seen
    # Half of the operations are of the other host; and what the launcher says goes over TCP.
    if link == "udp":
        assert sent.udp > 0 and sent.other < operations / 10, sent
    elif link == "raw":
        assert sent.other > operations / 4 and sent.udp < operations / 10, sent
    else:  # long records go by UDP too
        assert sent.other > 0 and sent.udp > 0, sent


def test_as_shipped_it_goes_over_tcp(mpi: InstalledMpi, conform: Compile, two: Testbed) -> None:
    """The proof above can fail: without Thole there is nothing to be counted, and the frames are others."""
    before = wire(two)
    done = launch(
        mpi, 2, conform(mpi), "--count", "messages", timeout=300, env=LOG, hosts=two, over_thole=False
    )
    sent = wire(two).since(before)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^counted (\d+) operations, (\d+) large bytes$", done.stdout, re.M)
    assert said is not None, done.stdout
    assert counters(done.stdout + done.stderr) == {}
    assert sent.tcp > int(said[1]) / 4, sent
    assert sent.bytes > int(said[2]) / 4, sent
    assert sent.other < int(said[1]) / 10, sent


def test_shared_memory_inside_and_network_between(mpi: InstalledMpi, conform: Compile, two: Testbed) -> None:
    """Four ranks on two hosts: each pair goes its own way, with no setting."""
    done = launch(
        mpi.by("libfabric"), 4, conform(mpi), "--count", "collectives", timeout=300, env=LOG, hosts=two
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = counters(done.stdout + done.stderr)
    assert seen.get("frames_sent", 0) > 0 and seen.get("bulk_network", 0) > 0, seen
    assert sum(seen.get(f"bulk_{way}", 0) for way in ("ring", "one_copy", "cooperative")) > 0, seen


# ---- mpi4py's own suite ----------------------------------------------------------------------------


def suite_passes(
    mpi: InstalledMpi, suite: Path, folder: Path, hosts: Testbed, ranks: int, link: str
) -> None:
    # Opening a file of all ranks never ends with Open MPI between these hosts, over tcp neither.
    select = ["-e", "test_io"] if FULL else ["-i", SELECTION]
    # Scripts that a rank writes for those that it spawns are read on the other hosts, too.
    scripts = folder / "scripts"
    scripts.mkdir()
    shared = ["env", f"PYTHONPATH={suite}", f"TMPDIR={scripts}"]
    command = [*shared, mpi.python, HERE / "mpi4py_suite.py", suite, folder, *select]
    done = launch(
        mpi,
        ranks,
        *command,
        timeout=3600 if FULL else 1500,
        # A host has a slot for each rank; Open MPI's launcher starts no more there unless it is told so.
        env={"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"},
        cwd=suite.parent,
        hosts=hosts,
        # On a busy machine some of these tests compute for longer than a raw link, which cannot ask, waits else.
        options={**options(link, ranks), "peer_timeout": "60s"},
    )
    results = results_in(folder, ranks)
    unexpected = {
        name: why for name, why in results.failed.items() if name not in known_failures(mpi.name)
    }
    assert not unexpected
    assert not results.last, done.stderr[-3000:]
    assert results.passed >= ranks * (1300 if FULL else 300)
    assert done.returncode == 0 or results.failed, done.stderr[-3000:]


@pytest.mark.over()
@pytest.mark.parametrize("mpi", SUITE_MPIS, indirect=True)
def test_mpi4py_suite(mpi: InstalledMpi, suite: Path, tmp_path: Path, two: Testbed, link: str) -> None:
    suite_passes(mpi, suite, tmp_path, two, 2, link)


@pytest.mark.alone
@pytest.mark.over()
@pytest.mark.parametrize("mpi", SUITE_MPIS, indirect=True)
def test_mpi4py_suite__four_hosts(
    mpi: InstalledMpi, suite: Path, tmp_path: Path, four: Testbed
) -> None:
    suite_passes(mpi, suite, tmp_path, four, 4, "auto")


# ---- Trouble on the way ----------------------------------------------------------------------------

# A ring of exchanges, each checked, until the file "stop" appears. Rank 0 writes down how many there were. A rank whose
# MPI reports an error leaves at once: to finalize would be to wait for the others. What a rank says in standard error
# goes to a file: a launcher that ends a job may lose what it has not read yet.
TRAFFIC = """
import os, sys
import numpy
from mpi4py import MPI
folder, world = sys.argv[1], MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
with open(f"{folder}/pid{rank}", "w") as file:
    file.write(str(os.getpid()))
os.dup2(os.open(f"{folder}/stderr{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)

def exchange(count):
    for words in (1, 1000, 50000):
        mine = numpy.arange(words, dtype="u8") + (rank + count * 1000)
        theirs = numpy.zeros(words, dtype="u8")
        world.Sendrecv(mine, (rank + 1) % ranks, 0, theirs, (rank - 1) % ranks, 0)
        expected = numpy.arange(words, dtype="u8") + ((rank - 1) % ranks + count * 1000)
        assert (theirs == expected).all(), (rank, count, words)

count = 0
try:
    while not world.bcast(os.path.exists(f"{folder}/stop"), root=0):
        exchange(count)
        count += 1
        if rank == 0:
            with open(f"{folder}/count.new", "w") as file:
                file.write(str(count))
            os.rename(f"{folder}/count.new", f"{folder}/count")
except MPI.Exception as error:
    with open(f"{folder}/error{rank}", "w") as file:
        file.write(str(error))
    os._exit(9)
if rank == 0:
    print("exchanged", count)
"""


class Traffic:
    """A job that exchanges messages for as long as it is let."""

    def __init__(
        self, mpi: InstalledMpi, folder: Path, hosts: Testbed, ranks: int, options: dict[str, str]
    ) -> None:
        self.folder = folder
        self.hosts = hosts
        program = folder / "traffic.py"
        program.write_text(TRAFFIC)
        command = [mpi.python, program, folder]
        self.job = start(mpi, ranks, *command, hosts=hosts, options=options, env=LOG)

    def count(self) -> int:
        path = self.folder / "count"
        return int(path.read_text()) if path.exists() else 0

    def wait_for_more(self, more: int = 5) -> None:
        wanted = self.count() + more
        wait_for(lambda: self.count() >= wanted or not self.job.running())
        if not self.job.running():
            out, err = self.job.said()
            pytest.fail(f"ended by itself\n{out[-3000:]}\n{err[-3000:]}\n{self.ranks_said()[-3000:]}")

    def ranks_said(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("stderr[0-9]*")))

    def stop(self) -> dict[str, int]:
        """All were right to the end; Thole's counters."""
        (self.folder / "stop").touch()
        done = finish(self.job, WAIT_S, self.hosts)
        said = done.stdout + done.stderr + self.ranks_said()
        assert done.returncode == 0, said
        assert re.search(r"^exchanged [1-9]\d*$", done.stdout, re.M)
        return counters(said)


@pytest.mark.over("mpich-raw", "openmpi-udp")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"], indirect=True)
def test_interface_down_and_up(mpi: InstalledMpi, two: Testbed, tmp_path: Path, link: str) -> None:
    traffic = Traffic(mpi, tmp_path, two, 2, {"link": link, "peer_timeout": "60s"})
    traffic.wait_for_more()
    for number in (1, 0):
        two.set_link(number, up=False)
        time.sleep(1.0)  # the outage itself: until time-outs no longer double (RESEND_MAX_NS), and nothing can be seen
        two.set_link(number, up=True)
        traffic.wait_for_more()
    seen = traffic.stop()
    again = seen.get("frames_retransmitted", 0) + seen.get("pulls_again", 0)
    assert again > 0, seen


@pytest.mark.over("mpich-both", "openmpi-both")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"], indirect=True)
def test_frames_are_lost(mpi: InstalledMpi, two: Testbed, tmp_path: Path, link: str) -> None:
    """One frame in twenty, in the kernel: both ways, records and bulk."""
    with lossy(two, 50):
        traffic = Traffic(mpi, tmp_path, two, 2, {"link": link})
        traffic.wait_for_more(50)
        seen = traffic.stop()
    assert seen.get("frames_retransmitted", 0) > 0, seen
    assert seen.get("pulls_again", 0) > 0, seen
    assert seen.get("peers_gone", 0) == 0 or seen.get("peers_silent", 0) == 0, seen


@each_once
@pytest.mark.parametrize("permille", [0, 50])
def test_what_was_sent_arrives(mpi: InstalledMpi, two: Testbed, tmp_path: Path, link: str, permille: int) -> None:
    with lossy(two, permille) if permille else contextlib.nullcontext():
        line = [mpi.python, HERE / "mpi_leaving.py", tmp_path]
        done = launch(mpi, 2, *line, timeout=WAIT_S, hosts=two, options={"link": link})
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^arrived [1-9]\d*$", done.stdout, re.M), done.stdout


@each_once
def test_what_is_put_arrives_without_its_target(mpi: InstalledMpi, two: Testbed, link: str) -> None:
    line = [mpi.python, HERE / "mpi_silent.py"]
    done = launch(mpi, 2, *line, timeout=WAIT_S, hosts=two, options={"link": link})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "put 2\n" in done.stdout, done.stdout


@pytest.mark.over("mpich-udp")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"], indirect=True)
def test_conform__under_loss(mpi: InstalledMpi, conform: Compile, two: Testbed, link: str) -> None:
    with lossy(two, 10):
        conformed(mpi, conform(mpi), two, link, 2)


def ranks_of(folder: Path, hosts: Testbed, number: int) -> list[int]:
    """Process numbers, as host `number` knows them, of the ranks that run there."""
    script = "for p in /proc/[0-9]*; do echo $p $(tr '\\0' ' ' <$p/cmdline); done 2>/dev/null; true"
    running = hosts.output(number, "sh", "-c", script).splitlines()
    # Not a launcher, whose number may be that of a rank on the other host.
    rank = re.compile(rf"/proc/(\d+) \S+ \S*traffic\.py {re.escape(str(folder))} ?$")
    pids = [found[1] for found in map(rank.match, running) if found]
    written = {path.read_text() for path in folder.glob("pid[0-9]*")}
    return [int(pid) for pid in pids if pid in written]


@each_once
def test_a_rank_is_killed(mpi: InstalledMpi, two: Testbed, tmp_path: Path, link: str) -> None:
    """The job ends, with a failure, and takes nothing with it: the next one runs."""
    traffic = Traffic(mpi, tmp_path, two, 4, {"link": link})
    traffic.wait_for_more()
    victims = ranks_of(tmp_path, two, 1)
    assert victims
    two.output(1, "sh", "-c", f"kill -9 {victims[0]}")
    # Open MPI's launcher does not always come to its own end after this, over TCP neither.
    wait_for(lambda: not traffic.job.running() or not (ranks_of(tmp_path, two, 0) + ranks_of(tmp_path, two, 1)))
    traffic.job.end()
    assert traffic.job.process.returncode != 0
    two.clear()
    again = tmp_path / "again"
    again.mkdir()
    after = Traffic(mpi, again, two, 4, {"link": link})
    after.wait_for_more()
    after.stop()


def gives_up(traffic: Traffic, hosts: Testbed) -> None:
    """The rank of host 0 ends, whatever its launcher does."""
    wait_for(lambda: not ranks_of(traffic.folder, hosts, 0))
    traffic.job.end()  # Open MPI 5's was seen to end with 0 after it had lost a host


def reported(traffic: Traffic) -> str:
    """What rank 0's MPI said of its end: the error that its program caught, or the one that MPICH ended it for.

    After that one MPICH lets the program run on until its launcher kills it, so there may be a file with nothing in it.
    """
    caught = traffic.folder / "error0"
    if caught.exists() and (text := caught.read_text()):
        return text
    fatal = re.search(r"Abort\(\d+\) on node 0.*?OFI poll failed[^\n]*", traffic.ranks_said(), re.S)
    return fatal[0] if fatal else ""


@pytest.mark.over("mpich-both")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"], indirect=True)
def test_a_host_falls_silent(mpi: InstalledMpi, two: Testbed, tmp_path: Path, link: str) -> None:
    """Nobody answers any more: what waits for that host ends with an error. Where MPICH waits for single messages,
    not in a collective operation, it takes a provider's error for fatal and ends the program itself."""
    traffic = Traffic(mpi, tmp_path, two, 2, {"link": link, "peer_timeout": "2s"})
    traffic.wait_for_more()
    two.set_link(1, up=False)
    try:
        wait_for(lambda: reported(traffic) != "", traffic.job)
        gives_up(traffic, two)
    finally:
        two.set_link(1, up=True)
    assert mpi.name != "mpich" or "nic=thole: Connection reset by peer" in reported(traffic), reported(traffic)


def test_a_host_dies(mpi: InstalledMpi, tmp_path: Path) -> None:
    """With all in it, and the wire too: our own interface is gone. Launchers may notice first, and end the job."""
    reason = missing_right()
    if reason:
        pytest.skip(f"no hosts can be made: {reason}")
    with Testbed() as hosts:
        traffic = Traffic(mpi, tmp_path, hosts, 2, {"peer_timeout": "2s"})
        traffic.wait_for_more()
        hosts.end(1)
        gives_up(traffic, hosts)


# ---- The tool --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mpi", "hosts"),
    [("openmpi", "namespaces"), *([("mpich", "loopback"), ("mpich", "namespaces")] if FULL else [])],
    indirect=["mpi"],
)
def test_compare__between_hosts(
    mpi: InstalledMpi, hosts: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reason = missing_right()
    if reason and hosts == "namespaces":
        pytest.skip(f"no hosts can be made: {reason}")
    folders = request.config.getoption("--venvs") or [str(ROOT / "build" / "venv")]
    words = [word for folder in folders for word in ("--venvs", folder)]
    words += ["--mpi", mpi.name, "--rounds", "1", "--size-max", "1024", "--hosts", hosts]
    numbers = tmp_path / "numbers.json"
    done = mpi.tool("compare", *words, "--json", numbers, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(numbers.read_text())
    rows = [row for row in said["results"] if row["place"] == "network"]
    assert {row["way"] for row in rows} == {"own", "thole"}, said["failures"]
    assert said["places"]["network"] in done.stdout
    assert re.search(r"(times (faster|slower) over Thole than|as fast over Thole as) over its TCP", done.stdout)
