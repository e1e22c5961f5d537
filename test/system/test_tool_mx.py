# SPDX-License-Identifier: BSD-3-Clause
"""What the tool knows of MX: `thole mx-info`, the MX boards of `thole peers`, and `thole perf --mx`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Tool, clean_environment
from test_tool import refused
from test_tool_network import HERE_HOST, LATE, QUICK, WAIT_S, listening, wait_for
from thole.base import paths
from thole.commands import mx_info
from thole.mx import boards, endpoints, notices
from thole_lab.testbed import Testbed

# Opens endpoint argv[2] with the library argv[1], sends itself a message, says so, and waits to be ended.
HOLDER = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
assert lib.mx__init_api(0x301) == 0
endpoint, sent, received = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
status, done = ctypes.create_string_buffer(64), ctypes.c_uint32()
class Address(ctypes.Structure):
    _fields_ = [("stuff", ctypes.c_uint64 * 2)]
own, match, whole = Address(), ctypes.c_uint64(1), ctypes.c_uint64(-1)
board, number = ctypes.c_uint32(-1), ctypes.c_uint32(int(sys.argv[2]))
assert lib.mx_open_endpoint(board, number, 7, None, 0, ctypes.byref(endpoint)) == 0
assert lib.mx_get_endpoint_addr(endpoint, ctypes.byref(own)) == 0
assert lib.mx_irecv(endpoint, None, 0, match, whole, None, ctypes.byref(received)) == 0
assert lib.mx_isend(endpoint, None, 0, own, match, None, ctypes.byref(sent)) == 0
for request in (sent, received):
    assert lib.mx_wait(endpoint, ctypes.byref(request), 0, status, ctypes.byref(done)) == 0
    assert done.value == 1
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def library(build: Path) -> str:
    return str(paths.find(paths.MX))


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path, since a text among the options has 63 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="thole-") as name:
        yield Path(name)


@contextlib.contextmanager
def holding(
    library: str, number: int, start: Sequence[str] = (), **env: str
) -> Iterator[subprocess.Popen[str]]:
    """A process with this endpoint of MX open."""
    process = subprocess.Popen(
        [*start, sys.executable, "-c", HOLDER, library, str(number)],
        env=clean_environment(**env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        if process.stdout.readline() != "open\n":
            _, complaint = process.communicate()
            pytest.fail(f"endpoint {number} could not be opened: {complaint}")
        yield process
    finally:
        process.kill()
        process.communicate()


def info(thole: Tool, *words: str, **env: str) -> Any:
    done = thole("mx-info", "--json", "--wait", "0", *words, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def endpoint_of(found: Any, number: int) -> Any:
    rows = [row for row in found["endpoints"] if row["endpoint"] == number]
    assert len(rows) == 1, found["endpoints"]
    return rows[0]


# ---- thole mx-info ---------------------------------------------------------------------------------


def test_mx_info__boards_are_the_interfaces(thole: Tool, library: str) -> None:
    found = info(thole)
    assert set(found) == {"mx", "boards", "peers", "endpoints", "troubles"}
    assert found["mx"]["api"] == 0x301
    assert found["mx"]["version"].startswith("Thole ")
    assert found["mx"]["library"] == library
    boards = found["boards"]
    assert [row["number"] for row in boards] == list(range(len(boards)))
    assert [row["name"] for row in boards] == [
        f"{socket.gethostname()}:{row['number']}" for row in boards
    ]
    rows = json.loads(thole("info", "--json", "interfaces").stdout)["interfaces"]
    macs = {row["mac"]: row for row in rows if row["mac"] and row["up"]}
    if not macs:
        assert [row["interface"] for row in boards] == ["lo"]
        return
    assert {row["nic_id"] for row in boards} == set(macs)
    for board in boards:
        row = next(row for row in rows if row["name"] == board["interface"])
        assert (board["nic_id"], board["mtu"], board["address"], board["up"]) == (
            row["mac"],
            row["mtu"],
            row["address"],
            row["up"],
        )


def answered(thole: Tool, number: int, *words: str) -> Any:
    """An endpoint's row once its process has answered in time, which it may miss on a busy machine."""
    rows: list[Any] = []

    def is_answered() -> bool:
        rows.append(endpoint_of(info(thole, *words), number))
        return bool(rows[-1]["answered"])

    wait_for(is_answered)
    return rows[-1]


def test_mx_info__an_endpoint_in_use(thole: Tool, library: str) -> None:
    with holding(library, 201) as process:
        row = answered(thole, 201)
        assert row["board"] == 0
        assert row["nic_id"] == info(thole)["boards"][0]["nic_id"]
        assert row["pid"] == process.pid
        assert row["command"] == Path(sys.executable).name[:15]
        assert row["session"] > 0
        assert row["address"]
        assert row["dropped"] == 0
        assert "counters" not in row
        some = answered(thole, 201, "--counters")["counters"]
        assert some["received"] == 1
        assert all(some.values())
        every = answered(thole, 201, "--counters", "--all")["counters"]
        known = json.loads(thole("info", "--json", "counters").stdout)["counters"]
        assert list(every) == [counter["name"] for counter in known]

        def tables_have_it() -> bool:
            done = thole("mx-info", "--counters", "--wait", "0")
            assert done.returncode == 0, done.stderr
            lines = [line.split() for line in done.stdout.splitlines()]
            row = next(words for words in lines if words[:1] == ["201"])
            return str(process.pid) in row and ["received", "1"] in lines

        wait_for(tables_have_it)
    assert not [row for row in info(thole)["endpoints"] if row["endpoint"] == 201]


def test_mx_info__a_process_that_does_not_answer(thole: Tool, library: str) -> None:
    with holding(library, 202) as process, holding(library, 203) as other:
        process.send_signal(signal.SIGSTOP)
        found = info(thole, "--counters")
        assert endpoint_of(found, 202) == {
            "board": 0,
            "nic_id": found["boards"][0]["nic_id"],
            "endpoint": 202,
            "answered": False,
        }
        assert answered(thole, 203)["pid"] == other.pid
        assert "does not answer" in thole("mx-info", "--wait", "0").stdout


def status_answer(token: int, nic_id: int, number: int, counters: Sequence[int]) -> bytes:
    body = struct.pack("!QQIII", token, nic_id, number, 9, 4711)
    body += b"\x04a\x1b[b" + b"\x02t1" + struct.pack("!IH", 3, len(counters))
    return notices.notice(
        notices.STATUS_ANSWER, body + b"".join(value.to_bytes(8, "big") for value in counters)
    )


FAKE = (0x02FFFFFFFFFE, 300 + os.getpid() % 700)  # other tests run at the same time


def answered_by_fake(thole: Tool, says: Callable[[bytes], bytes]) -> Any:
    """The row of an endpoint whose name is ours, and which answers to a token so."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as fake:
        fake.settimeout(WAIT_S)
        fake.bind(endpoints.Endpoint(*FAKE).socket_name)
        words = [*thole.command, "mx-info", "--json", "--wait", "0", "--counters"]
        process = subprocess.Popen(
            words, env=clean_environment(), stdout=subprocess.PIPE, text=True
        )
        try:
            question, where = fake.recvfrom(notices.BYTES_MAX)
            assert question[: notices.HEAD.size] == notices.notice(notices.STATUS, bytes(8))[: notices.HEAD.size]
            with contextlib.suppress(ConnectionRefusedError):  # it has waited long enough
                fake.sendto(says(question[notices.HEAD.size :]), where)
            out, _ = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 0
    row = endpoint_of(json.loads(out), FAKE[1])
    assert row["board"] is None
    return row


def test_mx_info__answers_that_are_none(thole: Tool) -> None:
    """Whoever has the name may say anything: what is no answer to this question is as good as none."""
    known = json.loads(thole("info", "--json", "counters").stdout)["counters"]
    rest = status_answer(0, *FAKE, [5, *[0] * (len(known) - 1)])[notices.HEAD.size + 8 :]
    good: list[Any] = []

    def is_answered() -> bool:
        row = answered_by_fake(thole, lambda token: notices.notice(notices.STATUS_ANSWER, token + rest))
        good.append(row)
        return bool(row["answered"])

    wait_for(is_answered)
    assert (good[-1]["pid"], good[-1]["command"], good[-1]["dropped"]) == (4711, "a?[b", 3)
    assert list(good[-1]["counters"].values()) == [5]
    for says in (
        lambda token: notices.notice(notices.STATUS_ANSWER, bytes(8) + rest),
        lambda token: notices.notice(notices.STATUS_ANSWER, token + rest[:-1]),
        lambda token: notices.notice(notices.STATUS_ANSWER, token + rest + b"x"),
        lambda token: notices.notice(notices.STATUS_ANSWER, token + bytes(8) + rest[8:]),
        lambda token: notices.notice(notices.HERE, token + rest),
        lambda token: b"",
        lambda token: token,
        lambda token: os.urandom(200),
    ):
        assert answered_by_fake(thole, says)["answered"] is False


@pytest.mark.parametrize("more", (-1, 1))
def test_mx_info__counters_of_another_build(thole: Tool, more: int) -> None:
    """What they are called here says nothing of them."""
    known = json.loads(thole("info", "--json", "counters").stdout)["counters"]
    rest = status_answer(0, *FAKE, [5] * (len(known) + more))[notices.HEAD.size + 8 :]
    rows: list[Any] = []

    def is_answered() -> bool:
        rows.append(answered_by_fake(thole, lambda token: notices.notice(notices.STATUS_ANSWER, token + rest)))
        return bool(rows[-1]["answered"])

    wait_for(is_answered)
    assert rows[-1]["counters"] is None


def test_mx_info__counters_without_names() -> None:
    other = endpoints.Endpoint(*FAKE, answered=True, counters=None)
    assert "another build of Thole" in str(mx_info.counters_table(other, False))
    assert mx_info.counters_of(endpoints.Endpoint(*FAKE), True) == {}


def test_mx_datagrams__boards_that_say_they_are_there() -> None:
    good = struct.pack("!Q", 0x028300000001) + b"\x07host1:0"
    assert notices.here_parse(notices.notice(notices.HERE, good)) == (0x028300000001, "host1:0")
    for bad in (
        good[:-1],
        good + b"x",
        b"",
        bytes(8) + good[8:],
        good[:8] + b"\0",
        b"\xff" + good[1:],
    ):
        with pytest.raises(ValueError):
            notices.here_parse(notices.notice(notices.HERE, bad))
    with pytest.raises(ValueError):
        notices.here_parse(notices.notice(notices.FIND, good))
    with pytest.raises(ValueError):
        notices.here_parse(notices.notice(notices.HERE, good)[:-1])


def test_mx_datagrams__to_who_had_no_core_until_the_end() -> None:
    own, other = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    with own, other:
        own.bind("")  # any name
        for text in (b"one", b"two"):
            other.sendto(text, own.getsockname())
        over = time.monotonic() - 1
        assert [data for data, _ in notices.arriving([own], over)] == [b"one", b"two"]


def test_mx_nic_ids() -> None:
    for text in ("02:83:00:00:00:0a", "0x02830000000A", "02830000000a"):
        assert boards.nic_parse(text) == 0x02830000000A
    for text in ("", "02:83:00:00:00", "02:83:00:00:00:0a:", "0283000000000a", "02:83:00:00:00:0g"):
        assert boards.nic_parse(text) is None
    assert boards.nic_text(0x02830000000A) == "02:83:00:00:00:0a"


# ---- Boards of other hosts -------------------------------------------------------------------------

HOSTS = """
# ours
02:83:00:00:00:0a 10.83.0.10 host10:1   # the second
0x028300000002    fd83::2    host2
028300000003      -          raw:0
02:83:00:00:00    10.83.0.4  host4:0
02:83:00:00:00:05 nowhere    host5:0
02:83:00:00:00:06 10.83.0.6
02:83:00:00:00:02 10.83.0.9  again:0
"""

IN_HOSTS = [
    {
        "nic_id": "02:83:00:00:00:02",
        "name": "host2:0",
        "address": "fd83::2",
        "known": ["file"],
    },
    {
        "nic_id": "02:83:00:00:00:0a",
        "name": "host10:1",
        "address": "10.83.0.10",
        "known": ["file"],
    },
    {"nic_id": "02:83:00:00:00:03", "name": "raw:0", "address": "", "known": ["file"]},
]


def mx_env(hosts: Path) -> dict[str, str]:
    return {"THOLE_MX_HOSTS": str(hosts), "THOLE_MX_GROUP": "off"}


def test_mx_info__peers_from_the_file(thole: Tool, folder: Path) -> None:
    hosts = folder / "mx-hosts"
    own = info(thole)["boards"][0]["nic_id"]
    hosts.write_text(f"{HOSTS}{own} 10.83.0.1 me:0\n")
    found = info(thole, **mx_env(hosts))
    assert found["peers"] == IN_HOSTS
    assert len(found["troubles"]) == 3
    for trouble, words in zip(
        found["troubles"], ("line 6: '02:83:00:00:00'", "line 7: 'nowhere'", "line 8: three words")
    ):
        assert trouble.startswith(f"{hosts}, {words}")
    done = thole("mx-info", "--wait", "0", env=mx_env(hosts))
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "MXoE frames" in rows["raw:0"]
    assert "fd83::2" in rows["host2:0"]
    assert "line 7" in done.stdout
    assert info(thole, **mx_env(folder / "absent"))["peers"] == []


def test_peers__mx_boards_where_no_host_is_named(thole: Tool, folder: Path) -> None:
    hosts = folder / "mx-hosts"
    hosts.write_text(HOSTS)
    env = {**mx_env(hosts), "XDG_CONFIG_HOME": str(folder)}
    if Path("/etc/thole/hosts").exists():
        pytest.skip("/etc/thole/hosts names hosts to ask")
    done = thole("peers", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"hosts": [], "mx": IN_HOSTS}
    done = thole("peers", env=env)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert rows[:4] == ["MX", "host2:0", "host10:1", "raw:0"]
    with listening([*thole.command, "peers", "--listen", "--port", "0"]) as one:
        named = thole("peers", "--json", *LATE, f"127.0.0.1:{one.port}", env=env)
    found = json.loads(named.stdout)
    assert [row["reachable"] for row in found["hosts"]] == [True]
    assert found["mx"] == []


def test_mx__wrong_settings(thole: Tool) -> None:
    for command in ("mx-info", "peers"):
        refused(thole(command, env={"THOLE_MX_GROUP": "10.1.2.3"}), "mx_group", "multicast")
        refused(thole(command, "--wait", "-1"), "--wait")


def test_mx__boards_that_are_heard(two: Testbed, thole: Tool, library: str, folder: Path) -> None:
    """Also where the file has another name for one of them: what it says holds."""
    hosts = folder / "mx-hosts"
    hosts.write_text("02:83:00:00:00:0a 10.83.0.10 host10:1\n")

    def ask(host: int, command: str, wait: str = "3") -> Any:
        done = thole.on(two, host)(
            command, "--json", "--wait", wait, env={"THOLE_MX_HOSTS": str(hosts), "XDG_CONFIG_HOME": str(folder)}
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return found["peers" if command == "mx-info" else "mx"]

    absent = {
        "nic_id": "02:83:00:00:00:0a",
        "name": "host10:1",
        "address": "10.83.0.10",
        "known": ["file"],
    }
    there = {
        "nic_id": two.macs[1],
        "name": f"{two.names[1]}:0",
        "address": two.addresses[1],
        "known": ["network"],
    }
    assert ask(0, "mx-info", "0.5") == [absent], "nobody has an endpoint open, so nobody answers"
    start = two.command(1)
    with holding(library, 1, start), holding(library, 2, start):
        assert ask(0, "mx-info") == [there, absent]
        assert ask(1, "mx-info", "0.5") == [absent], "its own boards are not among others'"
        if not Path("/etc/thole/hosts").exists():
            assert ask(0, "peers") == [there, absent]
        hosts.write_text(f"{two.macs[1]} 10.83.0.77 other\n")
        (both,) = ask(0, "mx-info")
        assert both == {
            "nic_id": two.macs[1],
            "name": "other:0",
            "address": "10.83.0.77",
            "known": ["file", "network"],
        }


def test_mx__boards_that_speak_mxoe(two: Testbed, thole: Tool, library: str, folder: Path) -> None:
    """They have no directory that could be asked, as hosts with Open-MX have none: their frames say who they are."""

    def ask(*words: str, expected: int = 0) -> Any:
        env = {"THOLE_CODEC": "mxoe", "XDG_CONFIG_HOME": str(folder), "THOLE_MX_HOSTS": ""}
        done = thole.on(two, 0)(words[0], "--json", *words[1:], env=env)
        assert done.returncode == expected, done.stderr
        return json.loads(done.stdout)

    there = {"nic_id": two.macs[1], "name": "theother:0", "address": "", "known": ["network"]}
    nobody = "mxoe:02:83:00:00:00:77/0"
    two.set_mtu(9000)
    try:
        with holding(library, 1, two.command(1), THOLE_CODEC="mxoe", THOLE_BOARD_NAME="theother"):
            wait_for(lambda: ask("mx-info")["peers"] == [there])  # it says so once a second
            address = f"mxoe:{two.macs[1]}/1"
            (row,) = ask("peers", "--timeout", "30", address)["hosts"]
            (absent,) = ask("peers", "--timeout", "1", nobody, expected=1)["hosts"]
    finally:
        two.set_mtu(1500)
    assert row["reachable"] and row["name"] == "theother:0" and row["round_trip_us"] > 0
    assert not absent["reachable"] and "nobody answers" in absent["why"]


def test_peers__what_is_no_address_of_mxoe(thole: Tool) -> None:
    for text in ("mxoe:", "mxoe:host/1", "mxoe:02:83:00:00:00:01/256", "mxoe:02:83:00:00:00:01/"):
        refused(thole("peers", text), "MXoE", "mxoe:52:54")


# ---- thole perf --mx -------------------------------------------------------------------------------


def check_compared(found: Any, sizes: Sequence[int]) -> None:
    """MX has numbers of its own for all that Thole's calls have."""
    through = found["mx"]
    assert [row["size"] for row in through["latency"]] == list(sizes)
    assert [row["size"] for row in found["latency"]] == list(sizes)
    for row, own in zip(through["latency"], found["latency"]):
        assert 0 < row["best_us"] <= row["median_us"]
        assert row["best_more_ns"] == pytest.approx((row["best_us"] - own["best_us"]) * 1000)
        assert isinstance(row["more_ns"], float)
    assert [row["size"] for row in through["bandwidth"]] == [size for size in sizes if size]
    for row in through["bandwidth"]:
        assert row["best_bytes_per_s"] >= row["median_bytes_per_s"] > 0
        assert row["times_thole"] > 0
    assert through["rate"]["best_messages_per_s"] > 0
    assert through["rate"]["times_thole"] > 0


def test_perf_mx__beside_each_other(thole: Tool) -> None:
    words = ("perf", "--mx", "--sizes", "0,8,64k,1m", "--rounds", "2", "--sample-ms", "1")
    done = thole(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_compared(found, [0, 8, 65536, 1 << 20])
    assert found["rate"]["best_messages_per_s"] > 0
    assert "mx" not in json.loads(thole("perf", "--json", "--sizes", "8", *QUICK).stdout)
    done = thole(*words)
    assert done.returncode == 0, done.stderr
    assert "MX more, ns" in done.stdout
    assert "MX, GB/s" in done.stdout
    assert "through MX: " in done.stdout


@dataclass(frozen=True)
class Sample:
    api: str
    round: int
    iterations: int


def test_perf_mx__by_turns(build: Path, library: str) -> None:
    """Both have as many messages, and the first place changes with each round."""
    program = build / "tools" / "perf" / "thole-perf"
    words = ["--apis", "thole,mx", "--mx-library", library, "--tests", "latency", "--sizes", "8"]
    done = subprocess.run(
        [program, *words, "--rounds", "4", "--sample-ms", "1"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    samples = [
        Sample(line["api"], line["round"], line["iterations"])
        for line in lines
        if line["type"] == "sample"
    ]
    assert [sample.round for sample in samples] == [0, 0, 1, 1, 2, 2, 3, 3]
    firsts = [sample.api for sample in samples[::2]]
    seconds = [sample.api for sample in samples[1::2]]
    assert set(firsts) == {"thole", "mx"}
    assert firsts[0] != firsts[1] == firsts[3] != firsts[2]
    assert all(first != second for first, second in zip(firsts, seconds))
    for first, second in zip(samples[::2], samples[1::2]):
        assert first.iterations == second.iterations


def test_perf_mx__over_the_network(thole: Tool) -> None:
    """The options reach both: they take the network, though it is one host."""
    with listening(
        [*thole.command, "perf", "--listen", "--port", "0", "--option", "host=there"]
    ) as one:
        words = ("--host", "localhost", "--port", str(one.port), *HERE_HOST)
        done = thole("perf", "--mx", "--json", *words, "--sizes", "8,64k", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_compared(found, [8, 65536])
    assert found["ways"]["here"]["transport"] == "network"


def test_perf_mx__two_hosts(two: Testbed, thole: Tool) -> None:
    with listening(
        two.command(1, *thole.command, "perf", "--listen", "--option", "link=udp")
    ) as one:
        words = ["--host", two.names[1], "--port", str(one.port), "--option", "link=udp"]
        done = thole.on(two, 0)(
            "perf", "--mx", "--json", *words, "--sizes", "8,64k", *QUICK, timeout=300
        )
    assert done.returncode == 0, done.stderr
    check_compared(json.loads(done.stdout), [8, 65536])


def test_perf_mx__without_the_library(thole: Tool, build: Path) -> None:
    program = str(build / "tools" / "perf" / "thole-perf")
    with listening([program, "--listen", "--port", "0"]) as one:
        words = ("--host", "127.0.0.1", "--port", str(one.port), "--sizes", "8", *QUICK)
        refused(thole("perf", "--mx", *words), "this listener has no libmyriexpress.so")
        assert thole("perf", *words).returncode == 0
    for path, says in (
        ("/dev/null", "loading libmyriexpress"),
        (str(paths.find(paths.LIBRARY)), "has no mx__init_api"),
        (None, "needs --mx-library"),
    ):
        words = ["--apis", "mx", *(["--mx-library", path] if path else []), "--sizes", "8"]
        done = subprocess.run(
            [program, *words],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode not in (0, None)
        assert says in done.stderr
