# SPDX-License-Identifier: BSD-3-Clause
"""MX programs (mx_*.c): within a host, with nothing but a loopback interface, and between hosts over each wire.

Programs of a pair are started as MX programs ever were: the receiver, and when it has said where it is ("ready"), the
sender with `-d`. They check themselves; what is checked here is that both came to their end, and which frames were on
the wire.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from conftest import clean_environment, namespace
from jobs import in_full_only
from mx_programs import ALONE, PAIRS, SHORTER
from test_network import wire
from thole_lab.testbed import Testbed

TIMEOUT_S = 150.0  # beyond that at which programs give up by themselves
LOSS = {"THOLE_LINK": "udp", "THOLE_INJECT_LOSS": "20"}  # of a thousand
LOSSY = ("pingpong", "stream", "unexpected", "connect")
SENDERS = 4
USUAL = ("pingpong", "connect", "unexpected", "endpoints")  # what `make test` runs over every kind of wire


def unless_usual(name: str) -> None:
    """A wire is as good as another for most programs: all of them run over UDP and over MXoE."""
    if name not in USUAL:
        in_full_only()


# ---- Where programs run ----------------------------------------------------------------------------


@dataclass
class Place:
    """Where the receiver (side 0) and senders (side 1) run, and how."""

    command: Callable[[int, Sequence[str]], list[str]]
    env: dict[str, str] = field(default_factory=dict)
    there: str = ""  # the receiver's name; empty: it is found by the NIC id that it says


@dataclass
class Program:
    """One that runs. What it says on standard error goes into a file, so that it never waits for a reader."""

    name: str
    process: subprocess.Popen[str]
    err: IO[bytes]

    def said(self) -> str:
        self.err.seek(0)
        text = self.err.read().decode(errors="replace")
        return f"{' '.join(map(str, self.process.args))}: {self.process.poll()} {text}"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass
class Bench:
    """The programs of a build, and those that a test has started."""

    build: Path
    running: list[Program] = field(default_factory=list)

    def start(self, place: Place, side: int, name: str, *words: str) -> Program:
        path = self.build / "test" / "system" / f"mx-{name}"
        if not path.exists():
            pytest.skip("the MX library was not built")
        err = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the program
        process = subprocess.Popen(
            place.command(side, [str(path), *words]),
            env=clean_environment(**place.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
        self.running.append(Program(f"mx-{name}", process, err))
        return self.running[-1]

    def fail(self, what: str) -> None:
        """With what all of them say: the one that was noticed first may only have lost its peer."""
        pytest.fail("\n".join([what, *(program.said() for program in self.running)]))

    def await_ready(self, program: Program) -> tuple[str, str]:
        """Where it can be found: its NIC id and endpoint."""
        assert program.process.stdout is not None
        words = program.process.stdout.readline().split()
        if words[:1] != ["ready"]:
            program.process.wait()
            self.fail(f"{program.name} was never ready")
        return words[1], words[2]

    def finish(self, program: Program) -> None:
        try:
            out, _ = program.process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.fail(f"{program.name} did not end")
        if program.process.returncode != 0:
            self.fail(f"{program.name} failed")
        assert out.splitlines()[-1:] == [f"ok {program.name.replace('-', '_')}"]

    def alone(self, place: Place, name: str, *words: str) -> None:
        self.finish(self.start(place, 0, name, *words))

    def pair(self, place: Place, name: str, *words: str) -> None:
        receiver = self.start(place, 0, name, *words)
        nic_id, endpoint = self.await_ready(receiver)
        there = ("-d", place.there or nic_id, "-r", endpoint)
        self.finish(self.start(place, 1, name, *there, *words))
        self.finish(receiver)

    def many(self, place: Place, sides: Sequence[int]) -> None:
        words = ("-p", str(len(sides)))
        receiver = self.start(place, 0, "many", *words)
        nic_id, endpoint = self.await_ready(receiver)
        there = ("-d", place.there or nic_id, "-r", endpoint)
        for index, side in enumerate(sides):
            self.start(place, side, "many", *there, *words, "-i", str(index))
        for program in self.running:
            self.finish(program)


@pytest.fixture
def bench(build: Path) -> Iterator[Bench]:
    bench = Bench(build)
    yield bench
    for program in bench.running:
        if program.process.poll() is None:
            program.end()
        program.err.close()


@pytest.fixture
def here(own_shm: list[str]) -> Place:
    return Place(lambda side, words: [*own_shm, *words])


@pytest.fixture
def loopback() -> Iterator[Place]:
    """A network of its own, that has no interface but the loopback."""
    with namespace("--net", "ip link set lo up") as keeper:
        if keeper is None:
            pytest.skip("a network of its own for two programs needs CAP_SYS_ADMIN and nsenter")
        enter = ["nsenter", f"--net=/proc/{keeper}/ns/net"]
        yield Place(lambda side, words: [*enter, *words])


@pytest.fixture
def folder() -> Iterator[Path]:
    """For hosts files. Options have short values, and pytest's own folders long names."""
    with tempfile.TemporaryDirectory(prefix="mx-") as name:
        yield Path(name)


@contextlib.contextmanager
def large_frames(hosts: Testbed) -> Iterator[None]:
    """Of which MXoE's need some."""
    hosts.set_mtu(9000)
    try:
        yield
    finally:
        hosts.set_mtu(1500)


def between(hosts: Testbed, env: dict[str, str], there: str = "") -> Place:
    return Place(lambda side, words: hosts.command(side, *words), env, there)


def by_mxoe(hosts: Testbed, codec: str, folder: Path) -> Place:
    names = folder / "hosts"
    lines = [f"{mac} - {name}:0\n" for mac, name in zip(hosts.macs, hosts.names)]
    names.write_text("# hosts by MXoE\n" + "".join(lines))
    env = {"THOLE_CODEC": codec, "THOLE_MX_HOSTS": str(names)}
    return between(hosts, env, f"{hosts.names[0]}:0")


# ---- Within a host ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
def test_pair__here(bench: Bench, here: Place, name: str) -> None:
    bench.pair(here, name, *PAIRS[name])


@pytest.mark.parametrize("name", ALONE)
def test_alone__here(bench: Bench, here: Place, name: str) -> None:
    bench.alone(here, name)


def test_many__here(bench: Bench, here: Place) -> None:
    bench.many(here, [0] * SENDERS)


@pytest.mark.parametrize("name", PAIRS)
def test_pair__loopback_only(bench: Bench, loopback: Place, name: str) -> None:
    unless_usual(name)
    bench.pair(loopback, name, *PAIRS[name])


@pytest.mark.parametrize("name", ALONE)
def test_alone__loopback_only(bench: Bench, loopback: Place, name: str) -> None:
    unless_usual(name)
    bench.alone(loopback, name)


# ---- Between hosts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
def test_pair__udp(bench: Bench, two: Testbed, name: str) -> None:
    before = wire(two, 1)
    bench.pair(between(two, {"THOLE_LINK": "udp"}), name, *PAIRS[name])
    sent = wire(two, 1).since(before)
    assert sent.udp > 10 * sent.other, sent


@pytest.mark.parametrize("name", PAIRS)
def test_pair__as_it_comes(bench: Bench, two: Testbed, name: str) -> None:
    """With no setting: the receiver's name is asked for by multicast, small messages are raw frames."""
    unless_usual(name)
    before = wire(two, 1)
    bench.pair(between(two, {}, f"{two.names[0]}:0"), name, *PAIRS[name])
    sent = wire(two, 1).since(before)
    assert sent.other > 20, sent


@pytest.mark.parametrize("name", PAIRS)
def test_pair__by_hosts_file(bench: Bench, two: Testbed, name: str, folder: Path) -> None:
    """Where multicast does not reach, names and addresses are in the file."""
    unless_usual(name)
    names = folder / "hosts"
    rows = zip(two.macs, two.addresses, two.names)
    names.write_text("".join(f"{mac} {address} {name}:0\n" for mac, address, name in rows))
    env = {"THOLE_MX_HOSTS": str(names), "THOLE_MX_GROUP": "off"}
    bench.pair(between(two, env, two.names[0]), name, *PAIRS[name])


@pytest.mark.parametrize("codec", ["mxoe", "mxoe-jumbo"])
@pytest.mark.parametrize("name", PAIRS)
def test_pair__mxoe(bench: Bench, two: Testbed, name: str, codec: str, folder: Path) -> None:
    if codec == "mxoe":
        unless_usual(name)
    with large_frames(two):
        before = wire(two, 1)
        bench.pair(by_mxoe(two, codec, folder), name, *PAIRS[name])
        sent = wire(two, 1).since(before)
    assert sent.other > 20 and sent.udp < sent.other / 10, sent


def test_pair__mxoe_by_name(bench: Bench, two: Testbed) -> None:
    """No file says who is called what: hosts that speak MXoE say it themselves."""
    with large_frames(two):
        env = {"THOLE_CODEC": "mxoe", "THOLE_MX_HOSTS": ""}
        bench.pair(between(two, env, f"{two.names[0]}:0"), "pingpong", *PAIRS["pingpong"])


@pytest.mark.parametrize("codec", ["mxoe", "mxoe-jumbo"])
@pytest.mark.parametrize("name", ALONE)
def test_alone__mxoe(bench: Bench, two: Testbed, name: str, codec: str, folder: Path) -> None:
    if codec == "mxoe":
        unless_usual(name)
    with large_frames(two):
        bench.alone(by_mxoe(two, codec, folder), name)


@pytest.mark.parametrize("name", LOSSY)
def test_pair__lossy(bench: Bench, two: Testbed, name: str) -> None:
    bench.pair(between(two, LOSS), name, *SHORTER[name])


def test_many__of_both_hosts(bench: Bench, two: Testbed) -> None:
    bench.many(between(two, {}), [0, 1] * (SENDERS // 2))


def test_many__mxoe(bench: Bench, two: Testbed, folder: Path) -> None:
    with large_frames(two):
        bench.many(by_mxoe(two, "mxoe-jumbo", folder), [0, 1] * (SENDERS // 2))
