# SPDX-License-Identifier: BSD-3-Clause
"""The tool between hosts: what `thole run` makes of a launch over several, perf and peers with a listener, trace.

Hosts are those of thole_lab.testbed. What needs none of its own uses this one, told apart by the option `host`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT, InstalledMpi, Tool, clean_environment
from test_tool import refused, script
from test_tool_troubles import HYDRA
from thole.base import paths
from thole.base.text import size_parse
from thole.base.trouble import Trouble
from thole.commands import peers, tune
from thole.commands.tune_host import HostOutcome, host_lines, judge_host
from thole.frames import capture, packets
from thole.frames import tracing as tracing_module
from thole.mpi import families as mpi_table
from thole.mpi import launch as launches
from thole.perf.results import Measured, Series, Way
from thole_lab.process import run, wait_until
from thole_lab.testbed import Testbed

WAIT_S = 60.0  # for what takes a moment on an idle machine
QUICK = ("--rounds", "1", "--sample-ms", "1", "--window", "4")


def wait_for(condition: Callable[[], object]) -> None:
    assert wait_until(lambda: bool(condition()), WAIT_S), "did not happen in time"


# ---- thole run over several hosts ------------------------------------------------------------------

SHOW = 'echo "SHOWN $(hostname) $FI_PROVIDER $FI_PROVIDER_PATH $THOLE_JOB_KEY $THOLE_LINK $FI_THOLE_NAME"; sleep 0.3'


def shown(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("SHOWN")]
    return sorted(lines)


def run_on(
    two: Testbed, mpi: InstalledMpi, thole: Tool, words: list[str], **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        two.command(0, *thole.command, "run", *words),
        env=mpi.environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_run__variables_reach_the_other_host(
    two: Testbed, mpi: InstalledMpi, thole: Tool, build: Path
) -> None:
    """The agent passes no environment on, as ssh does not: what a rank has came by the launcher."""
    command = two.launch(mpi.mpi, 2, "sh", "-c", SHOW)
    words = ["--link", "udp", *command]
    rows = shown(run_on(two, mpi, thole, words, FI_THOLE_NAME="mine"))
    assert [row[0] for row in rows] == two.names
    key = rows[0][3]
    assert int(key) > 0
    for row in rows:
        assert row[1:] == ["thole", str(build / "provider"), key, "udp", "mine"]
    again = shown(run_on(two, mpi, thole, words, FI_THOLE_NAME="mine"))
    assert again[0][3] != key, "each run has a key of its own"
    kept = shown(run_on(two, mpi, thole, words, FI_THOLE_NAME="mine", THOLE_JOB_KEY="77"))
    assert [row[3] for row in kept] == ["77", "77"]


def test_run__with_the_launchers_own_way_to_hand_on_variables(
    two: Testbed, mpi: InstalledMpi, thole: Tool
) -> None:
    if not mpi.mpi.family.launch.export:
        pytest.skip("this launcher hands on everything")
    command = two.launch(mpi.mpi, 2, "sh", "-c", SHOW)
    for theirs in (("-x", "FI_THOLE_NAME"), ("--mca", "mca_base_env_list", "FI_THOLE_NAME")):
        words = ["--link", "udp", command[0], *theirs, *command[1:]]
        rows = shown(run_on(two, mpi, thole, words, FI_THOLE_NAME="mine"))
        assert len(rows) == 2
        assert all(row[1] == "thole" and row[4:] == ["udp", "mine"] for row in rows), (theirs, rows)


def test_run__each_program_of_several_is_handed_the_variables(two: Testbed, mpi: InstalledMpi, thole: Tool) -> None:
    """For Open MPI -x is of one program, and the second one is on the other host."""
    if not mpi.mpi.family.launch.export:
        pytest.skip("this launcher hands on everything")
    launcher, *first = two.launch(mpi.mpi, 1, "sh", "-c", SHOW)
    second = ["-n", "1", "--host", f"{two.names[1]}:1", "sh", "-c", SHOW]
    begin = len(first) - 3
    for words in ([*first, ":", *second], [*first[:begin], "--", *first[begin:], ":", *second]):
        done = run_on(two, mpi, thole, ["--link", "udp", launcher, "-x", "HOME", *words])
        rows = shown(done)
        assert [row[0] for row in rows] == two.names
        assert all(row[1] == "thole" and row[4:] == ["udp"] for row in rows), rows
        assert len({row[3] for row in rows}) == 1


def test_explain__several_programs_that_hand_on(thole: Tool, tmp_path: Path) -> None:
    """What is handed on stands in front of each program's arguments, where no word can be mistaken for the program."""
    openmpi = script(tmp_path / "mpiexec", "echo 'mpirun (Open MPI) 5.0.11'")
    needed = {"FI_PROVIDER", "FI_PROVIDER_PATH", "THOLE_JOB_KEY"}
    for given in (
        "-x A -n 1 ./m : -x FI_PROVIDER_PATH -n 1 ./w x : -n 1 ./v",
        "-x A -- ./app",
        "-x A --new-flag ./app in.dat",
        "-x A --new-flag ./app : -x FI_PROVIDER ./w",
    ):
        done = thole("run", "--explain", "--through", "libfabric", openmpi, *given.split())
        (line,) = re.findall(r"^would run: (.*)$", done.stdout, re.M)
        rows = [text.split() for text in line.partition(" ")[2].split(" : ")]
        for had, theirs in zip(rows, map(str.split, given.split(" : "))):
            handed = had[: len(had) - len(theirs)]
            assert had[len(handed) :] == theirs
            assert handed[::2] == ["-x"] * (len(handed) // 2)
            assert {*handed, *theirs} >= needed
            assert len(set(handed[1::2]) - set(theirs)) == len(handed) // 2, "none comes twice"
        assert len(rows) == len(given.split(" : "))


def test_explain__several_hosts(
    mpi: InstalledMpi, thole: Tool, build: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# all of them\nalpha slots=2\n\nbeta:4 # the second\n")
    rows = mpi.mpi.family.launch
    ways = [[f"-{rows.lists[0]}", "alpha:2,beta:4"]]
    ways += [[f"{'-' if len(name) == 1 else '--'}{name}", str(hosts)] for name in rows.files]
    for words in ways:
        done = thole("run", "--explain", mpi.launcher, *words, "-n", "2", "./app", "-hosts", "no")
        assert done.returncode == 0, done.stderr
        assert "hosts: alpha, beta" in done.stdout, words
        assert f"every host must have {build}/provider/libthole-fi.so" in done.stdout
        assert rows.forwards in done.stdout
        assert re.search(r"THOLE_JOB_KEY\s+\(hidden\)", done.stdout)
    env = {rows.variables[0]: str(hosts)}
    done = thole("run", "--explain", mpi.launcher, "-n", "2", "./app", env=env)
    assert f"hosts: alpha, beta ({rows.variables[0]})" in done.stdout
    done = thole("run", "--explain", mpi.launcher, "-n", "2", "./app", "-hosts", "alpha")
    assert "hosts: this one" in done.stdout


def hydra(folder: Path) -> Path:
    text = "printf 'HYDRA build details:\\n    Version:     4.1\\n'"
    return script(folder / "bin" / "mpiexec", text)


def test_explain__prefix_on_other_hosts(thole: Tool, build: Path, tmp_path: Path) -> None:
    words = ("run", "--explain", hydra(tmp_path), "-hosts", "a,b", "-n", "2", "./app")
    done = thole(*words, env={"THOLE_PREFIX": "/opt/thole"})
    flat = "".join(done.stdout.split())
    assert f"{build}/provider:/opt/thole/lib/thole:" in flat
    assert "or /opt/thole/lib/thole/libthole-fi.so" in done.stdout
    look = next(line for line in done.stdout.splitlines() if "to see whether it does: " in line).partition(": ")[2]
    ssh = 'ssh() { shift; sh -c "$*"; }; '  # what it does there
    there = tmp_path / "lib" / "thole" / "libthole-fi.so"
    there.parent.mkdir(parents=True)
    there.touch()
    elsewhere = look.replace(str(build), "/nowhere").replace("/opt/thole", str(tmp_path))
    seen = subprocess.run(["sh", "-c", ssh + elsewhere], capture_output=True, text=True, check=False)
    assert str(there) in seen.stdout and not seen.stderr, "one of them is enough"


@pytest.mark.parametrize("words", [["-genvnone"], ["-genvlist", "PATH"], ["-envlist", "PATH"]])
def test_run__variables_that_the_user_withholds(
    thole: Tool, tmp_path: Path, words: list[str]
) -> None:
    done = thole("run", "--explain", hydra(tmp_path), *words, "-n", "2", "./app")
    assert f"{words[0]} keeps variables from the ranks" in done.stdout
    done = thole("run", "--explain", hydra(tmp_path), "-n", "2", "./app", env={"HYDRA_ENV": "none"})
    assert "HYDRA_ENV=none keeps" in done.stdout
    done = thole("run", "--explain", hydra(tmp_path), "-genvall", "-n", "2", "./app")
    assert "keeps" not in done.stdout


@pytest.mark.parametrize("word", ["-genvexcl", "-envexcl"])
def test_run__variables_that_the_user_excludes(thole: Tool, tmp_path: Path, word: str) -> None:
    """Intel MPI's: a list of what ranks are not to have."""
    launcher = script(tmp_path / "mpiexec", "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 1'")
    done = thole("run", "--explain", "--mpi", "impi", launcher, word, "A,FI_PROVIDER", "-n", "2", "./app")
    assert f"{word} keeps FI_PROVIDER from the ranks" in done.stdout, done.stderr
    done = thole("run", "--explain", "--mpi", "impi", launcher, word, "A,B", "-n", "2", "./app")
    assert done.returncode == 0
    assert "keeps" not in done.stdout


def test_run__a_program_with_file_capabilities(thole: Tool, tmp_path: Path) -> None:
    program = script(tmp_path / "app", "true")
    words = ("run", "--explain", "--option", "link=raw", hydra(tmp_path), "-n", "2", program)
    assert "FI_THOLE" not in thole(*words).stdout
    if shutil.which("setcap") is None or os.geteuid() != 0:
        pytest.skip("capabilities cannot be given to a file here")
    done = subprocess.run(["setcap", "cap_net_raw+ep", program], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this file system holds no capabilities")
    assert "FI_THOLE" not in thole(*words[:-1], "true", program).stdout, "it is but an argument"
    assert "FI_THOLE" in thole(*words[:-1], "env", "A=b", "nice", "-n", "1", program).stdout
    assert "FI_THOLE" not in thole(*words[:-1], "env", "A=b", "/bin/true", program).stdout
    assert "FI_THOLE" not in thole(*words[:-1], "./elsewhere", program).stdout
    for wrapper in ("perf stat", "systemd-run --scope --unit test", "env A=b perf record -o true"):
        assert "FI_THOLE" in thole(*words[:-1], *wrapper.split(), program, "/bin/true").stdout, wrapper
    rows = {line.split()[0]: line for line in thole(*words).stdout.splitlines() if line.strip()}
    assert rows["FI_THOLE_LINK"].split()[1] == rows["THOLE_LINK"].split()[1] == "raw"
    assert rows["FI_THOLE_JOB_KEY"].split()[1] == "(hidden)"
    # The loader takes no library for it from where a variable says.
    useless = f"--shared-heap does nothing for {program}, which has file capabilities (setcap -r {program})"
    assert useless in thole(*words[:2], "--shared-heap", *words[2:]).stdout
    assert "--shared-heap" not in thole(*words).stdout
    assert "does nothing" not in thole(*words[:2], "--shared-heap", *words[2:-1], "/bin/true").stdout


@pytest.mark.parametrize("folder", ["of my own", "a:b"])
def test_paths__a_library_that_cannot_be_preloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    """Names in LD_PRELOAD end there."""
    library = tmp_path / folder / paths.HEAP
    monkeypatch.setattr(paths, "places", lambda: [library.parent])
    library.parent.mkdir()
    library.touch()
    with pytest.raises(Trouble, match=f"cannot preload .*{folder}.*{paths.HEAP}.*without --shared-heap"):
        paths.preloadable(paths.HEAP)
    monkeypatch.setattr(paths, "places", lambda: [tmp_path])
    (tmp_path / paths.HEAP).touch()
    assert paths.preloadable(paths.HEAP) == str(tmp_path / paths.HEAP)


def test_run__wrong_link(thole: Tool, tmp_path: Path) -> None:
    done = thole("run", "--link", "smoke", hydra(tmp_path), "true")
    assert done.returncode == 2
    assert "invalid choice: 'smoke'" in done.stderr


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b:4,c", ["a", "b", "c"]),
        ("node[1-3,07]", ["node1", "node2", "node3", "node07"]),
        ("r[1-2]n[8-9]x,z", ["r1n8x", "r1n9x", "r2n8x", "r2n9x", "z"]),
        ("[2001:db8::1]:4,2001:db8::2", ["2001:db8::1", "2001:db8::2"]),
        ("[fe80::1%eth0]:4,fe80::2%eth0.7", ["fe80::1%eth0", "fe80::2%eth0.7"]),
        ("a a b", ["a", "b"]),
        ("+n0,x", ["x"]),
        ("", []),
    ],
)
def test_hosts__lists(text: str, names: list[str]) -> None:
    launch = mpi_table.HYDRA_LAUNCH
    found = launches.find(launch, ["mpiexec", "-hosts", text, "-n", "1", "x"])
    assert found.names == names
    assert found.source == "-hosts"


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("mpich", ("hosts", "host", "hostlist", "machine", "machines", "machinelist")),
        ("impi", ("hosts", "host", "hostlist", "machines", "machinelist", "hosts-group")),
    ],
)
def test_hosts__by_each_argument_that_lists_them(family: str, names: tuple[str, ...]) -> None:
    for name in names:
        words = ["mpiexec", f"-{name}", "a,n[1-2]", "-n", "1", "x"]
        found = launches.find(mpi_table.family_named(family).launch, words)
        assert found.names == ["a", "n1", "n2"], name


def test_hosts__a_range_that_is_too_long() -> None:
    found = launches.find(mpi_table.HYDRA_LAUNCH, ["mpiexec", "-hosts", "n[1-99999999999]", "x"])
    assert len(found.names) == launches.RANGE_MAX


@pytest.mark.parametrize(
    ("own", "names", "elsewhere"),
    [
        ("n1", ["n1.cluster.example", "N1", "localhost"], []),
        ("n1.cluster.example", ["n1", "n1.cluster.example"], []),
        ("n1.cluster.example", ["n1.other.example"], ["n1.other.example"]),
        ("n1", ["n11.cluster.example", "10.0.0.1"], ["n11.cluster.example", "10.0.0.1"]),
    ],
)
def test_hosts__own_name_with_and_without_its_domain(
    monkeypatch: pytest.MonkeyPatch, own: str, names: list[str], elsewhere: list[str]
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: own)
    assert launches.Hosts(names, "PBS_NODEFILE").elsewhere == elsewhere


def test_numbers__of_other_signs_are_none() -> None:
    with pytest.raises(Trouble, match="is not a size"):
        size_parse("²k")
    assert launches.ranks(mpi_table.HYDRA_LAUNCH, ["mpiexec", "-n", "²", "x", ":", "-n", "3", "y"]) == 3


def test_hosts__of_all_programs_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "mpiexec -host a -n 1 x -host no : -genv A B -l -host=b -n 1 y -f no"
    found = launches.find(mpi_table.HYDRA_LAUNCH, words.split())
    assert found.names == ["a", "b"]
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c[1-2]")
    assert launches.find(mpi_table.HYDRA_LAUNCH, ["mpiexec", "x"]).names == ["c1", "c2"]
    assert launches.find(mpi_table.HYDRA_LAUNCH, words.split()).names == ["a", "b"]


def test_run__leaves_the_launcher_hosts_that_can_be_read_but_once(thole: Tool, tmp_path: Path) -> None:
    """mpiexec -f <(scontrol show hostnames): they would be gone, and all ranks be on this host."""
    hydra = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\ncat "$2"')
    pipe = f"echo a b | {{ exec 3<&0 </dev/null; {shlex.join(thole.command)} run $0 {hydra} -f /dev/fd/3 -n 2 true; }}"

    def said(word: str) -> str:
        line = ["sh", "-c", pipe, word]
        return subprocess.run(line, env=clean_environment(), capture_output=True, text=True, check=False).stdout

    assert said("").split() == said("--check").split() == ["a", "b"]
    assert "hosts: as many as the launcher chooses (-f /dev/fd/3)" in said("--explain")


# ---- A listener ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Listener:
    """`thole-perf --listen`, or the tool's, with the lines that it has printed."""

    process: subprocess.Popen[str]
    port: int

    @property
    def child(self) -> int:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(text.split()[0])

    def computed(self) -> int:
        """Clock ticks that the child has computed for."""
        fields = Path(f"/proc/{self.child}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@contextlib.contextmanager
def listening(command: list[str]) -> Iterator[Listener]:
    process = subprocess.Popen(
        command,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        match = re.search(r"port\"?:? (\d+)", process.stdout.readline())
        assert match, process.stderr and process.stderr.read()
        yield Listener(process, int(match[1]))
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


LATE = ("--timeout", "60")  # who answers may have no core for long
HERE_HOST = ("--option", "host=here")
THERE_HOST = ("--option", "host=there")


@pytest.fixture
def listener(thole: Tool) -> Iterator[Listener]:
    """On this host, and yet told apart from it, so that the network is used."""
    with listening([*thole.command, "perf", "--listen", "--port", "0", *THERE_HOST]) as one:
        yield one


def test_perf_network__every_test_over_the_network(thole: Tool, listener: Listener) -> None:
    words = ("--host", "localhost", "--port", str(listener.port), *HERE_HOST)
    done = thole("perf", "--json", *words, "--sizes", "0,8,64k,1m", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["size"] for row in found["latency"]] == [0, 8, 65536, 1 << 20]
    assert [row["size"] for row in found["bandwidth"]] == [8, 65536, 1 << 20]
    assert all(row["times_tcp"] > 0 for row in found["latency"])
    assert [row["size"] for row in found["tcp"]] == [0, 8, 65536, 1 << 20]
    assert all(0 < row["best_us"] <= row["median_us"] for row in found["tcp"])
    assert "bare" not in found
    assert found["rate"]["best_messages_per_s"] > 0
    assert found["other"]["name"] == socket.gethostname()
    for way in found["ways"].values():
        assert (way["transport"], way["records"], way["bulk"]) == ("network", "udp", "udp")
        assert way["frames_sent"] > way["retransmitted"] >= 0
        assert way["frame_max"] >= 548
        assert way["rtt_ns"] > 0
    done = thole("perf", *words, "--sizes", "8", *QUICK)
    assert "small messages by udp, large ones by udp" in done.stdout
    assert "frames sent again" in done.stdout
    assert "TCP, us" in done.stdout


def test_perf_network__networks_by_turns(thole: Tool, listener: Listener) -> None:
    """Side by side in one run, each with what it went by. Nobody here has an adapter; a listener's own options win."""
    words = ("--host", "localhost", "--port", str(listener.port), *HERE_HOST, "--sizes", "8,64k", *QUICK)
    done = thole("perf", "--networks", "udp,udp", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["networks"]
    assert list(found) == ["udp"]
    assert [row["size"] for row in found["udp"]["latency"]] == [8, 65536]
    assert found["udp"]["ways"]["here"]["bulk"] == "udp"
    done = thole("perf", "--networks", "udp", *words)
    assert "udp, here: small messages by udp, large ones by udp" in done.stdout
    assert len(re.findall(r"^\W*(8 B|8|64 KiB)\W+udp\W", done.stdout, re.MULTILINE)) == 2, done.stdout
    refused(thole("perf", "--networks", "tcp", *words), "there is no 'tcp'", "verbs, udp")
    refused(thole("perf", "--networks", "udp"), "--host")
    refused(thole("perf", "--networks", "udp", "--mx", *words), "--mx")


def test_tune__to_a_host(thole: Tool, listener: Listener, tmp_path: Path) -> None:
    """Where no adapter carries anything, that is what it says, and nothing is set; its block goes by itself."""
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    options = tmp_path / "thole" / "options"
    options.parent.mkdir()
    own = "# mine\nspin = 40us\n"
    options.write_text(own)
    words = ("localhost", "--port", str(listener.port), *HERE_HOST, "--rounds", "1", "--sample-ms", "1")
    done = thole("tune", *words, "--json", env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found["networks"]) == ["udp"]
    assert all(row["latency_us"] > 0 < row["bytes_per_s"] for row in found["networks"].values())
    assert all(row["gap_us"] > 0 for row in found["networks"].values())
    assert all(row for row in found["registering_ns"].values())  # of each adapter, where there are some
    assert all(rate > 1e8 for rate in found["copy_bytes_per_s"].values())
    assert found["chosen"] == found["default"] and "no adapter" in found["why"]
    text = options.read_text()
    assert text.startswith(own) and "thole tune HOST" in text and "\nverbs" not in text
    done = thole("tune", *words, "--dry-run", env=env)
    assert "learnt at run time" in done.stdout and "would write" in done.stdout
    assert thole("tune", "--reset", env=env).returncode == 0
    assert options.read_text() == own


def test_tune__the_luckiest_has_to_win_again(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knob = tune.Knob("bulk", ("auto", "ring"), "8")
    for later, chosen in ((1.0, "auto"), (0.5, "ring")):
        took = {"bulk=auto": [1.0, 1.0], "bulk=ring": [0.5, later]}

        def measured(words: list[str], took: dict[str, list[float]] = took) -> Measured:
            return Measured(series={("latency", 8): Series([took[words[-1]].pop(0)])})

        monkeypatch.setattr(tune, "measure", measured)
        assert tune.try_knob(knob, "auto", {}, 1, 1, lambda text: None).chosen == chosen


def test_tune__what_is_faster() -> None:
    """Adapters are kept where they carry messages faster, and left where they do so slower."""
    way = {"transport": "verbs", "rtt_ns": 1, "frames_sent": 1, "retransmitted": 0, "frame_max": 1}

    def measured(us: float, name: str) -> Measured:
        one = Measured(ways={"here": Way(records=name, bulk=name, **way)})
        one.series["latency", 8] = Series([us])
        return one

    for verbs_us, value in ((1.0, "auto"), (4.0, "off"), (2.0, "as it is")):
        found = {"verbs": measured(verbs_us, "verbs"), "udp": measured(2.0, "udp")}
        assert judge_host(found, "as it is")[0] == value
    assert judge_host({"verbs": measured(1.0, "udp"), "udp": measured(2.0, "udp")}, "as it is")[0] == "as it is"


def test_tune__what_the_user_set_is_not_kept() -> None:
    outcome = HostOutcome({}, {}, "auto", "off", "UDP is twice as fast as adapters")
    assert host_lines(outcome, "b")[1:] == ["verbs = off"]
    assert not host_lines(dataclasses.replace(outcome, why="set by the user", by_user=True), "b")[1:]


def test_tune__says_what_registering_takes() -> None:
    outcome = HostOutcome({}, {}, "auto", "auto", "", registering={"a/1": {4096: 1200, 1 << 20: 45000}, "b/1": {}})
    assert host_lines(outcome, "b")[1:] == ["# registering with a/1, us by length: 4 KiB 1.2, 1 MiB 45.0"]


def test_perf_network__this_very_host_is_shared_memory(thole: Tool) -> None:
    with listening([*thole.command, "perf", "--listen", "--port", "0"]) as one:
        done = thole("perf", "--host", "127.0.0.1", "--port", str(one.port), "--sizes", "8", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "small messages by ring, large ones by memory" in done.stdout
    assert "shm=off" in done.stdout


def test_perf_network__only_tcp(thole: Tool, listener: Listener) -> None:
    words = ("--host", "localhost", "--port", str(listener.port), "--bare", "--sizes", "8,1m")
    found = json.loads(thole("perf", *words, "--json", *QUICK).stdout)
    assert [row["size"] for row in found["tcp"]] == [8, 1 << 20]
    assert not found["latency"]
    assert "1 MiB" in thole("perf", *words, *QUICK).stdout


def test_perf_network__two_hosts(two: Testbed, thole: Tool, tmp_path: Path) -> None:
    picture = tmp_path / "perf.png"
    command = two.command(1, *thole.command, "perf", "--listen", "--option", "link=udp")
    with listening(command) as one:
        words = ["--host", two.names[1], "--port", str(one.port), "--option", "link=udp"]
        words += ["--json", "--plot", str(picture), "--sizes", "8,4k,1m", *QUICK]
        done = thole.on(two, 0)("perf", *words, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["other"]["name"] == two.names[1]
    assert found["other"]["address"] == two.addresses[1]
    assert 1400 <= found["ways"]["here"]["frame_max"] <= 1500
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("apart", [True, False])
def test_perf_network__yields_where_both_share_a_core(
    request: pytest.FixtureRequest, thole: Tool, tmp_path: Path, apart: bool
) -> None:
    """At each look on a host whose one core both ranks share; not where each has a host with one core."""
    counted, said = tmp_path / "yields.so", tmp_path / "yields"
    source = ROOT / "test" / "system" / "yields_of_perf.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", source, "-o", counted], check=True)
    cores = sorted(os.sched_getaffinity(0))
    if apart and len(cores) < 2:
        pytest.skip("two hosts with a core each need two cores")
    words = [[*thole.command, "perf"], ["env", f"LD_PRELOAD={counted}", f"YIELDS={said}", *thole.command, "perf"]]
    if apart:
        two: Testbed = request.getfixturevalue("two")
        there, here = (two.command(host, *words[1 - host], cpus=[cores[-host]]) for host in (1, 0))
        name = two.names[1]
    else:
        there, here = (["taskset", "-c", str(cores[0]), *each] for each in words)
        name = "127.0.0.1"
    with listening([*there, "--listen", "--port", "0"]) as one:
        here += ["--host", name, "--port", str(one.port), "--bare", "--sizes", "8", *QUICK]
        done = run(here, clean_environment(), WAIT_S)
    assert not done.failure
    looks, yields = map(int, said.read_text().split())
    assert looks > 0
    assert 2 * yields < looks if apart else yields >= looks


def test_perf_network__nobody_there(thole: Tool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        refused(
            thole("perf", "--host", "127.0.0.1", "--port", port, *QUICK),
            "nobody listens on 127.0.0.1",
            "thole perf --listen",
        )
        taken.listen()
        # Somebody else's server, that accepts and says nothing.
        done = thole("peers", f"127.0.0.1:{port}", "--timeout", "1")
        assert done.returncode == 1
        assert "does not answer as `thole perf --listen` does" in done.stdout
    refused(thole("perf", "--host", "no-such-host.invalid"), "no-such-host.invalid", "not known")
    refused(thole("perf", "--host", "x", "--port", "70000"), "70000")
    refused(thole("perf", "--host", "x", "--listen"), "exclude")
    refused(thole("perf", "--listen", "--bind", "no-such-host.invalid"), "no-such-host.invalid")
    refused(thole("perf", "--listen", "--bind", "192.0.2.250"), "--bind 192.0.2.250", "ip address")
    refused(thole("perf", "--once"), "--once", "--listen")
    refused(thole("peers", "--bind", "127.0.0.1", "a"), "--bind", "--listen")
    refused(thole("perf", "--listen", "--option", "no_such=1"), "no_such")


def test_perf_network__port_is_taken(thole: Tool, listener: Listener) -> None:
    refused(thole("perf", "--listen", "--port", str(listener.port)), str(listener.port), "--port")


def test_perf_network__udp_does_not_pass(two: Testbed, thole: Tool) -> None:
    """TCP reaches the listener and frames of Thole do not: said as what it is, on both sides, and no hanging."""
    # The handshake names an address that leads back to whoever is told it, and nobody is there.
    wrong = ("--option", "interface=lo")
    command = two.command(1, *thole.command, "perf", "--listen", "--once", *wrong)
    with listening(command) as one:
        words = ["--host", two.names[1], "--port", str(one.port), "--sizes", "8", *QUICK]
        done = thole.on(two, 0)("perf", *words, *wrong, timeout=300)
        one.process.wait(timeout=300)
    refused(done, "TCP passes, but frames of Thole do not")


def test_listener__refuses_what_it_should_and_goes_on(build: Path, thole: Tool) -> None:
    program = str(build / "tools" / "perf" / "thole-perf")
    with listening([program, "--listen", "--port", "0", "--size-limit", "64k"]) as one:
        port = str(one.port)
        words = ("perf", "--host", "localhost", "--port", port, *QUICK)
        refused(thole(*words, "--sizes", "1m"), "--size-limit")
        for line in (
            b"",
            b"GET / HTTP/1.0\r\n\r\n",
            b"thole-perf 1 key=1 sizes=8 cores=0,0\n",
            b"thole-perf 1 sizes=99999999999999999999\n",
            b"thole-perf 1 nonsense\n",
            b"thole-perf 1 option=bulk=ring\n",
            b"x" * 10000,
        ):
            other = socket.create_connection(("localhost", one.port))
            with other, contextlib.suppress(OSError):  # it may be refused before it is all said
                other.sendall(line)
                other.shutdown(socket.SHUT_WR)
                assert not other.recv(1000).startswith(b"ok")
        # One that begins as a client does and leaves.
        with socket.create_connection(("localhost", one.port)) as other:
            other.sendall(b"thole-perf 1 key=1 sizes=8 tests=latency\n")
            assert other.recv(3) == b"ok "
        assert thole(*words, "--sizes", "8").returncode == 0


def test_listener__one_client_ends_badly_and_others_do_not_notice(
    thole: Tool, listener: Listener
) -> None:
    words = ["perf", "--host", "localhost", "--port", str(listener.port), *HERE_HOST]
    bad = subprocess.Popen(
        [*thole.command, *words, "--sizes", "8", "--rounds", "10000", "--sample-ms", "100"],
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    children = Path(f"/proc/{bad.pid}/task/{bad.pid}/children")
    wait_for(lambda: children.read_text().split())
    perf = int(children.read_text().split()[0])
    assert listener.process.stdout is not None
    assert "begins" in listener.process.stdout.readline()
    os.kill(perf, signal.SIGKILL)
    assert bad.wait(timeout=WAIT_S) == 2
    done = thole(*words, "--sizes", "8", *QUICK)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", ["8", "16m"])
def test_perf_network__the_other_side_falls_silent(build: Path, size: str) -> None:
    """In the middle of what goes by TCP, which no timer of Thole's looks at; long messages may not even be sent."""
    program = str(build / "tools" / "perf" / "thole-perf")
    with listening([program, "--listen", "--port", "0"]) as one:
        words = ["--host", "localhost", "--port", str(one.port), "--tests", "bare", "--sizes", size]
        client = subprocess.Popen(
            [program, *words, "--iterations", "1000000", "--rounds", "100", "--patience-ms", "3000"],
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert one.process.stdout is not None
            assert "session" in one.process.stdout.readline()
            before = one.computed()
            wait_for(lambda: one.computed() > before + 10)  # it polls, so it measures
            os.kill(one.child, signal.SIGSTOP)
            _, errors = client.communicate(timeout=WAIT_S)
        finally:
            client.kill()
    assert client.returncode != 0
    assert "is silent" in errors


def test_listener__hears_no_hello_that_takes_for_ever(build: Path) -> None:
    program = str(build / "tools" / "perf" / "thole-perf")
    with listening([program, "--listen", "--port", "0"]) as one, socket.create_connection(
        ("localhost", one.port)
    ) as slow:
        slow.settimeout(0.5)
        said = 0
        with contextlib.suppress(ConnectionError):
            while said < 2 * WAIT_S:
                slow.sendall(b"t")
                said += 1
                with contextlib.suppress(TimeoutError, socket.timeout):
                    if slow.recv(1) == b"":
                        break
    assert said < 2 * WAIT_S


def test_listener__ends_with_the_tool_that_started_it(thole: Tool, listener: Listener) -> None:
    child = listener.child
    listener.process.kill()
    listener.process.wait(timeout=WAIT_S)
    wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_listener__ends_after_one_client(thole: Tool) -> None:
    for size, status in (("8", 0), ("1g", 2)):
        with listening([*thole.command, "peers", "--listen", "--port", "0", "--once"]) as one:
            thole("perf", "--host", "localhost", "--port", str(one.port), "--sizes", size, *QUICK)
            assert one.process.wait(timeout=WAIT_S) == status


# ---- thole peers -----------------------------------------------------------------------------------


def test_peers__who_can_be_reached(thole: Tool, listener: Listener) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        hosts = (f"localhost:{listener.port}", nobody)
        done = thole("peers", *LATE, *hosts, *HERE_HOST)
        assert done.returncode == 1
        assert done.stderr == ""
        rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
        assert re.search(r"udp\s+udp\s+\d+\s+[\d.]+\s+[\d.]+", rows["localhost"])
        assert re.search(r"% \(\d+ of \d+ frames\)", rows["localhost"])
        assert "not reached" in rows["127.0.0.1"]
        assert "nobody listens on 127.0.0.1" in done.stdout
        done = thole("peers", "--json", *LATE, *hosts, *HERE_HOST)
        first, second = json.loads(done.stdout)["hosts"]
    assert first["reachable"] is True
    assert first["ways"]["here"]["records"] == "udp"
    assert first["frames_sent"] > 0
    assert first["latency_us"] > 0
    assert first["bytes_per_s"] > 0
    assert second == {
        "host": "127.0.0.1",
        "port": int(nobody.split(":")[1]),
        "reachable": False,
        "why": second["why"],
    }


def test_peers__hosts_from_a_file(thole: Tool, listener: Listener, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    own = tmp_path / "thole" / "hosts"
    own.parent.mkdir()
    own.write_text(f"# my hosts\nlocalhost:{listener.port}  # this one\n\n")
    done = thole("peers", "--json", *HERE_HOST, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["host"] for row in json.loads(done.stdout)["hosts"]] == ["localhost"]
    other = tmp_path / "others"
    other.write_text("\n# none\n")
    refused(thole("peers", "--file", other, env=env), "names no host")
    refused(thole("peers", "--file", tmp_path / "absent"), "absent", "cannot be read")
    own.unlink()
    if not Path("/etc/thole/hosts").exists():
        refused(thole("peers", env=env), "no host is named", str(own))
    refused(thole("peers", "a:b:c:d:999999999:x", "--timeout", "0"), "--timeout")
    refused(thole("peers", "host:port"), "host:port")
    refused(thole("peers", "--listen", "a"), "takes no hosts")


def test_peers__names() -> None:
    for text, name, port in (
        ("a", "a", 7471),
        ("a:1", "a", 1),
        ("10.0.0.1:2", "10.0.0.1", 2),
        ("fe80::1", "fe80::1", 7471),
        ("[fe80::1]", "fe80::1", 7471),
        ("[fe80::1]:3", "fe80::1", 3),
    ):
        assert peers.host_parse(text, 7471) == peers.Host(name, port)
    for text in ("a:0", "a:b", "a:²", "", ":1", "[]"):
        with pytest.raises(Trouble, match="is not a host"):
            peers.host_parse(text, 7471)


def test_peers__loss_is_seen(two: Testbed, thole: Tool) -> None:
    listener = two.command(1, *thole.command, "peers", "--listen", "--option", "link=udp")
    with contextlib.ExitStack() as stack:
        two.set_loss(100)
        stack.callback(two.set_loss, None)
        one = stack.enter_context(listening(listener))
        words = ["peers", "--json", f"{two.names[1]}:{one.port}", "--timeout", "60"]
        done = thole.on(two, 0)(*words, "--option", "link=udp", timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)["hosts"]
    assert row["retransmitted"] > 0
    assert row["frames_sent"] > row["retransmitted"]


# ---- thole trace -----------------------------------------------------------------------------------

HEAD = struct.Struct("!BBBBIQI")
# Of this run alone: others on this machine may send such frames over its loopback at the same time.
SESSION = int.from_bytes(os.urandom(8), "big") | 1 << 63
MAC = b"\x02" + os.urandom(5)  # likewise, of frames whose line has no session


def head(kind: int, flags: int = 0, short: int = 0) -> bytes:
    return HEAD.pack(kind, packets.NATIVE_VERSION, short, flags, 3, SESSION, 0)


def record(sequence: int, payload: bytes = b"x" * 100) -> bytes:
    return head(3) + struct.pack("!IIHBBQ", sequence, 7, 64, 1, 0, 0x99) + payload


def data(offset: int, payload: bytes) -> bytes:
    return head(6) + (5).to_bytes(7, "big") + offset.to_bytes(5, "big") + payload


FRAME = bytes(12) + b"\x88\xb5" + record(17)


def can_capture() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        return False
    return True


def needs_capture(test: Callable[..., None]) -> Callable[..., None]:
    """One after the other: frames of one test would be seen by the next."""
    right = pytest.mark.skipif(not can_capture(), reason="CAP_NET_RAW is missing")
    return pytest.mark.apart("trace")(right(test))


@contextlib.contextmanager
def tracing(thole: Tool, *words: str | os.PathLike[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*thole.command, "trace", *map(str, words)],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    try:
        assert "capturing on" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    return out, err


def send_samples() -> int:
    """Frames of each kind over the loopback, and what is none; returns the UDP port that they go to."""
    with contextlib.ExitStack() as stack:
        sender, receiver, six, receiver_six = (
            stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            for family in (socket.AF_INET, socket.AF_INET, socket.AF_INET6, socket.AF_INET6)
        )
        receiver.bind(("127.0.0.1", 0))
        receiver_six.bind(("::1", 0))
        to = receiver.getsockname()
        for sequence in (1, 2, 2, 3):
            sender.sendto(record(sequence), to)
        tagged = struct.pack("!IIHHQQQ", 4, 9, 64, 0, 77, 0, 5)  # a counter and a tag before what is held
        sender.sendto(head(4, flags=4 | 8, short=56) + tagged, to)
        sender.sendto(b"not one of ours" * 5, to)
        version = packets.NATIVE_VERSION
        for wrong in (
            [9, version, 0, 0],
            [0, version, 0, 0],
            [3, version - 1, 0, 0],
            [3, version, 64, 0],
            [3, version, 0, 64],
            [3, version, 60, 0],
        ):
            sender.sendto(bytes(wrong) + bytes(40), to)
        joined = b"".join(data(number * 1000, bytes([number]) * 1000) for number in range(10))
        joined = joined[:-500]
        for one, where in ((sender, to), (six, receiver_six.getsockname()[:2])):
            one.setsockopt(socket.IPPROTO_UDP, 103, 1032)  # UDP_SEGMENT
            one.sendto(joined, where)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
            raw.bind(("lo", 0))
            raw.send(FRAME)
            raw.send(bytes(12) + b"\x88\xb5" + head(8, short=32) + bytes(12 + 14))  # padded
            raw.send(bytes(6) + MAC + b"\x86\xdf" + bytes([0, 1, 38]) + bytes(52) + SESSION.to_bytes(8, "big"))
        return int(to[1])


# Those that capture all of the loopback, and miss none of their own: alone, since others may flood it.


@needs_capture
@pytest.mark.alone
def test_trace__lines(thole: Tool) -> None:
    with tracing(thole, "-i", "lo") as process:
        send_samples()
        process.send_signal(signal.SIGINT)
        out, err = ended(process)
    ours = (f"{SESSION:x}", MAC.hex(":"))
    lines = [line for line in out.splitlines() if any(word in line for word in ours)]
    kinds = [re.search(r"\b(RECORD|ACK|DATA|CLOSE|mxoe SMALL)\b", line) for line in lines]
    assert [match and match[1] for match in kinds] == (
        ["RECORD"] * 4 + ["ACK"] + ["DATA"] * 20 + ["RECORD", "CLOSE", "mxoe SMALL"]
    )
    assert [line.endswith("AGAIN") for line in lines[:4]] == [False, False, True, False]
    assert "seq 1 ack 7 credit 64 EAGER tag 0x99 100 B" in lines[0]
    assert "counter 77 next 4 ack 9 credit 64 held 0x5 answer tagged" in lines[4]
    offsets = [int(line.split("offset ")[1].split()[0]) for line in lines[5:15]]
    assert offsets == list(range(0, 10000, 1000))
    assert lines[14].endswith("offset 9000 500 B")
    assert "seq 17" in lines[25]
    assert int(re.search(r"(\d+) frames", err)[1]) >= 28  # others may use this loopback too


def blocks(path: Path) -> list[tuple[int, bytes]]:
    """The blocks of a pcapng file: kind and body; both lengths of each are compared."""
    content = path.read_bytes()
    found, at = [], 0
    while at < len(content):
        kind, length = struct.unpack_from("=II", content, at)
        assert length % 4 == 0
        assert struct.unpack_from("=I", content, at + length - 4)[0] == length
        found.append((kind, content[at + 8 : at + length - 4]))
        at += length
    return found


def captured(path: Path) -> list[bytes]:
    """The packets of a pcapng file."""
    found = blocks(path)
    assert found[0][0] == 0x0A0D0D0A
    assert struct.unpack_from("=I", found[0][1])[0] == 0x1A2B3C4D
    interfaces = 0
    result = []
    for kind, body in found[1:]:
        if kind == 1:
            interfaces += 1
            assert struct.unpack_from("=H", body)[0] == 1, "the link type is Ethernet"
        elif kind == 6:
            interface, _, _, kept, _ = struct.unpack_from("=IIIII", body)
            assert interface < interfaces
            result.append(body[20 : 20 + kept])
    return result


def ip_sum(words: bytes) -> int:
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@needs_capture
@pytest.mark.alone
def test_trace__file(thole: Tool, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with tracing(thole, "-i", "lo", "-w", path) as process:
        send_samples()
        process.send_signal(signal.SIGINT)
        ended(process)
    ours = SESSION.to_bytes(8, "big")
    packets = [packet for packet in captured(path) if ours in packet[:80]]
    assert len(packets) == 28
    payloads = [packet[42:] for packet in packets[:15]]
    assert payloads[:5] == [record(1), record(2), record(2), record(3), payloads[4]]
    assert payloads[5:14] == [data(number * 1000, bytes([number]) * 1000) for number in range(9)]
    assert payloads[14] == data(9000, bytes([9]) * 500)
    assert [packet[62:] for packet in packets[15:25]] == payloads[5:]
    for packet in packets[:15]:
        length, udp = struct.unpack("!H", packet[16:18])[0], struct.unpack("!H", packet[38:40])[0]
        assert length == len(packet) - 14
        assert udp == len(packet) - 34
        assert ip_sum(packet[14:34]) == 0xFFFF
    for packet in packets[15:25]:
        assert struct.unpack("!H", packet[18:20])[0] == len(packet) - 54
    assert packets[25][12:] == b"\x88\xb5" + record(17)
    assert packets[27][12:14] == b"\x86\xdf"


@needs_capture
def test_trace__ends_by_itself(thole: Tool, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with tracing(thole, "-i", "lo", "-w", path, "--count", "12") as process:
        send_samples()
        ended(process)
    assert len(captured(path)) == 12, "joined frames are counted one by one"
    with tracing(thole, "-i", "lo", "--seconds", "0.1") as process:
        ended(process)


@needs_capture
def test_trace__a_file_that_is_full_ends_with_a_whole_block(thole: Tool, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    little = Tool(("sh", "-c", 'ulimit -f 33; exec "$@"', "sh", *thole.command))
    with tracing(little, "-i", "lo", "-w", path) as process:
        while process.poll() is None:
            send_samples()
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2 and f"{path} cannot be written: File too large" in err
    assert captured(path)


@needs_capture
def test_trace__whose_terminal_goes_has_written_all(thole: Tool, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with tracing(thole, "-i", "lo", "-w", path) as process:
        send_samples()
        process.send_signal(signal.SIGHUP)
        _, err = ended(process)
    assert len(captured(path)) == int(re.search(r"(\d+) frames", err)[1]) >= 28
    nohup = Tool(("sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *thole.command))
    with tracing(nohup, "-i", "lo", "-w", path, "--count", "1") as process:
        process.send_signal(signal.SIGHUP)
        send_samples()
        ended(process)
    assert len(captured(path)) == 1


@needs_capture
def test_trace__says_that_its_interface_has_gone(two: Testbed, thole: Tool, tmp_path: Path) -> None:
    """None of that name that comes later is heard. One that is but down may come up again."""
    path = tmp_path / "a trace.pcapng"
    send = "import socket; raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
    send += f"raw.bind(('gone1', 0)); raw.send({FRAME!r})"
    two.output(0, *"ip link add gone0 type veth peer name gone1".split())
    up = "ip link set gone0 up; ip link set gone1 up"
    two.output(0, "sh", "-ec", up)
    with tracing(thole.on(two, 0), "-i", "gone0", "-w", path) as process:
        two.output(0, sys.executable, "-c", send)
        two.output(0, "sh", "-ec", f"ip link set gone0 down; sleep 0.5; {up}")
        two.output(0, sys.executable, "-c", send)
        two.output(0, *"ip link del gone0".split())
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2 and "thole: interface gone0 has gone" in err, err
    assert "2 frames: RECORD 2" in err
    assert len(captured(path)) == 2
    assert f"-r '{path}'" in err, "as a shell takes it"


@needs_capture
def test_trace__says_that_it_cannot_name_an_interface(two: Testbed, thole: Tool, tmp_path: Path) -> None:
    """The kernel takes any bytes for a name, Python's sockets UTF-8 alone."""
    send = "import socket; raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
    send += f"raw.bind(('odd1', 0)); raw.send({FRAME!r})"
    ends = "ip link add odd0 type veth peer name odd1; ip link set odd1 up"
    odd = r"""name=$(printf 'odd\377'); ip link set odd0 down name "$name"; ip link set "$name" up"""
    for words in ((), ("-i", "odd0"), ("-w", tmp_path / "trace.pcapng")):
        two.output(0, "sh", "-ec", ends)
        try:
            with tracing(thole.on(two, 0), *words) as process:
                two.output(0, "sh", "-ec", odd)
                two.output(0, sys.executable, "-c", send)
                _, err = process.communicate(timeout=WAIT_S)
        finally:
            two.output(0, *"ip link del odd1".split())
        assert process.returncode == 2 and "whose name is no UTF-8" in err.splitlines()[-1], err
        assert "Traceback" not in err


@needs_capture
def test_trace__ports_and_first_bytes(thole: Tool, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        with tracing(thole, "-w", path, "--port", str(port), "--keep", "60") as process:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for number in (1, 2):
                    send_samples()
                    sender.sendto(record(number), receiver.getsockname())
            process.send_signal(signal.SIGTERM)
            ended(process)
    kept = [packet for packet in captured(path) if packet[12:14] == b"\x08\x00"]
    assert [packet[42:] for packet in kept] == [record(1)[:18], record(2)[:18]]
    found = blocks(path)
    lengths = [struct.unpack_from("=II", body, 12) for kind, body in found if kind == 6]
    assert (60, 42 + len(record(1))) in lengths, "and how long it was"
    kind, body = found[-1]
    assert (kind, struct.unpack_from("=HHQ", body, 12)) == (5, (5, 8, 0)), "none that the kernel dropped"


def test_trace__ends_though_frames_go_on_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the interrupt is not taken, or a busy interface would never be done with."""
    left = [capture.Seen(b"", 1, "lo", False)] * 3 + [capture.Seen(b"", time.time_ns() + 10**12, "lo", False)]
    monkeypatch.setattr(tracing_module, "receive", lambda _: left.pop(0))
    ended = SimpleNamespace(by_signal=True, interface_gone=False)
    one, other = socket.socketpair()
    with one, other:
        other.send(b"there is something")
        tracing_module._run(one, tracing_module.Sink(None, [], 0, None), None, ended, False)
    assert left == []


@needs_capture
@pytest.mark.alone
def test_trace__what_thole_really_sends(thole: Tool, listener: Listener, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with tracing(thole, "-w", path) as process:
        words = ("--host", "localhost", "--port", str(listener.port), *HERE_HOST)
        words += ("--latency", "--sizes", "8,1m", "--rounds", "1", "--iterations", "3")
        assert thole("perf", *words).returncode == 0
        process.terminate()
        _, err = ended(process)
    kinds = dict(re.findall(r"([A-Z]+) (\d+)", err.partition("frames:")[2]))
    assert {"CONNECT", "ACCEPT", "RECORD", "PULL", "DATA", "CLOSE"} <= set(kinds), err
    types = packets.ethertypes()
    lines = packets.Lines()
    total = 0
    for packet in captured(path):
        found = list(packets.packets(packet, types))
        assert len(found) == 1, "each packet of the file is one frame"
        assert "too short" not in lines.line(found[0])
        total += 1
    assert total == sum(map(int, kinds.values()))
    if shutil.which("tshark"):
        words = shlex.split(re.search(r"to read it: (.+)", err)[1]) + ["-Y", "thole"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == total


def test_trace__wrong_arguments(thole: Tool, tmp_path: Path) -> None:
    refused(thole("trace", "--port", "0"), "--port")
    refused(thole("trace", "--seconds", "-1"), "--seconds")
    refused(thole("trace", "--count", "0"), "--count")
    refused(thole("trace", "--keep", "-1"), "--keep")
    if can_capture():
        for name in ("nosuch0", "\udcff", "x" * 99):
            refused(thole("trace", "-i", name), name.replace("\udcff", "\\udcff"), "lo")
        refused(thole("trace", "-i", "lo", "-w", tmp_path / "no" / "file"), "cannot be written")


def test_trace__without_the_right(thole: Tool) -> None:
    command = [*thole.command, "trace", "--seconds", "1"]
    if can_capture():
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        command = ["setpriv", "--inh-caps=-net_raw", "--bounding-set=-net_raw", *command]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    refused(done, "CAP_NET_RAW", "sudo")
