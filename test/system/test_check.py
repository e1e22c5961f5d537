# SPDX-License-Identifier: BSD-3-Clause
"""`thole run --check`: what it says of ranks that use Thole, that do not, that fail and that are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, InstalledMpi, Tool, clean_environment
from jobs import in_full_only
from test_tool import refused, script
from thole.mpi import check
from thole.mpi.launchers import HYDRA_LAUNCH
from thole_lab.process import descendants, wait_until
from thole_lab.testbed import Testbed

HYDRA = "printf 'HYDRA build details:\\n    Version:     4.1\\n'"
TALK = "from mpi4py import MPI; c = MPI.COMM_WORLD; c.alltoall([bytes(10000)] * c.size)"
WAIT_S = 60.0


def checked(
    mpi: InstalledMpi, thole: Tool, *words: str | Path, ranks: int = 2, before: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    return thole("run", "--check", *before, *mpi.command(ranks, *words), env=mpi.environment(**env))


def one_of(mpi: InstalledMpi, *names: str) -> None:
    if mpi.name not in names:
        in_full_only()


def told(text: str) -> list[str]:
    """What the tool itself said at the end."""
    return [line.removeprefix("thole: ") for line in text.splitlines() if line.startswith("thole: ")]


# ---- What comes with the ranks' standard error -----------------------------------------------------

LINE = b"[thole 7 rank=1 of=2 host=b state=ended endpoints=1 shm_messages=5 shm_bytes=600 why=]\n"


def sifted(*parts: bytes) -> tuple[bytes, list[check.Rank]]:
    out = bytearray()
    sieve = check.Filter("7", out.extend)
    for part in parts:
        sieve.feed(part)
    sieve.close()
    return bytes(out), sieve.ranks


def test_filter__takes_lines_out_wherever_they_are_cut() -> None:
    text = b"one\n" + LINE + b"two" + LINE + b"[thole 8 x]\n1: " + LINE + b"[1,0]<stderr>: " + LINE + b"[th"
    expected = b"one\ntwo[thole 8 x]\n[th"
    for cut in range(len(text)):
        out, ranks = sifted(text[:cut], text[cut:])
        assert len(ranks) == 4, cut
        assert all(rank == ranks[0] for rank in ranks)
        # A label that came alone had to be passed on.
        assert re.sub(rb"1: |\[1,0\]<stderr>: ", b"", out) == expected, cut
    assert sifted(text)[0] == expected
    assert sifted(b"x\n2026-11-27 23:23:49 : " + LINE)[0] == b"x\n", "Intel MPI's -prepend-timestamp"
    both = b"[Fri Nov 27 23:23:49 2026][1,0]<stderr>: "
    assert sifted(b"x\n" + both + LINE)[0] == b"x\n", "Open MPI's --timestamp-output --tag-output"
    assert sifted(*(bytes([byte]) for byte in LINE)) == (b"", [ranks[0]])
    assert (ranks[0].name, ranks[0].host, ranks[0].state, ranks[0].size) == ("1", "b", "ended", 2)
    assert ranks[0].counters["shm_bytes"] == 600


def test_filter__passes_on_at_once_what_is_no_report() -> None:
    out = bytearray()
    sieve = check.Filter("7", out.extend)
    for part in (b"50%", b"\r", b"[t", b"x", b"[thole 7 " + b"x" * 5000):
        sieve.feed(part)
    assert bytes(out).startswith(b"50%\r[tx[thole 7 xxx")
    assert sieve.ranks == []


def test_judge__each_rank_by_its_last_word() -> None:
    def rank(number: int, state: str, why: str = "", **counters: int) -> check.Rank:
        return check.Rank(str(number), f"h{number % 2}", state, why, counters, 6)

    one = rank(0, "ended", network_messages=3, network_bytes=2048, frames_sent=9, frames_raw=4)
    result = check.judge([rank(0, "began"), one, rank(1, "began"), rank(2, "without", "it"), rank(3, "without", "it")])
    assert result.lines == [
        "2 of 4 ranks on 2 hosts (h0, h1) used Thole",
        "  network: 3 messages, 2 KiB, 9 frames, 4 of them raw",
        "  rank 1 ended before it could be said how much they sent",
    ]
    assert result.failures == ["ranks 2, 3 on h0, h1 ran without Thole: it", "nothing was heard of ranks 4, 5"]
    assert "no rank was heard of" in check.judge([]).failures[0]


def test_judge__ranks_in_their_order_and_those_without_a_number() -> None:
    refused_ones = [check.parse(f"rank={name} of=12 host=b state=refused why=x") for name in ("10", "2", "1")]
    assert "ranks 1, 2, 10 on b could not start, since x" in check.judge(refused_ones).failures
    nameless = [check.parse("rank= of=2 host=b state=ended why=")] * 2
    assert check.judge(nameless).failures == [], "who is not numbered is heard of all the same"


def test_judge__what_failed_in_ranks_that_used_it() -> None:
    def rank(number: int, state: str, why: str = "") -> check.Rank:
        return check.Rank(str(number), "a", state, why, {"network_messages": 1}, 7)

    heard = [rank(0, "ended"), rank(1, "began", "no memory"), rank(2, "ended", "no memory"), rank(3, "ended", "full")]
    heard += [rank(number, "ended", f"reason {number}") for number in (4, 5, 6)]
    result = check.judge(heard)
    assert result.lines[2:] == [
        "  rank 1 ended before it could be said how much they sent",
        "  ranks 1, 2 on a: no memory",
        "  rank 3 on a: full",
        "  rank 4 on a: reason 4",
        "  rank 5 on a: reason 5",
    ]
    assert result.failures == []


# ---- Ranks -----------------------------------------------------------------------------------------


def test_check__every_rank_used_thole(mpi: InstalledMpi, thole: Tool) -> None:
    code = TALK + "; import sys; print('out'); print('half', end='', file=sys.stderr)"
    done = checked(mpi, thole, mpi.python, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("out") == 2 and done.stdout.count("\n") == 2
    assert done.stderr.count("half") == 2
    assert "[thole" not in done.stderr
    first, second = told(done.stderr.replace("half", ""))
    assert first.endswith("used Thole") and first.startswith("all of 2 ranks on ")
    sent = re.fullmatch(r"  shared memory: (\d+) messages, ([\d.]+) KiB", second)
    assert sent is not None and int(sent[1]) >= 2 and float(sent[2]) >= 19.5, second


def test_check__a_rank_in_a_container(mpi: InstalledMpi, thole: Tool) -> None:
    """A user namespace of its own, as unprivileged containers have: there /proc says nothing of processes outside."""
    one_of(mpi, "mpich")
    if subprocess.run(["unshare", "-Ur", "true"], check=False).returncode != 0:
        pytest.skip("no user namespaces here")
    done = checked(mpi, thole, "unshare", "-Ur", mpi.python, "-c", TALK)
    assert done.returncode == 0, done.stderr
    assert told(done.stderr)[0].startswith("all of 2 ranks on "), done.stderr


def test_check__exit_status_is_the_programs(mpi: InstalledMpi, thole: Tool) -> None:
    one_of(mpi, "mpich")
    done = checked(mpi, thole, mpi.python, "-c", f"{TALK}; c.Barrier(); MPI.Finalize(); raise SystemExit(7)")
    assert done.returncode == 7, done.stderr
    assert told(done.stderr)[0].startswith("all of 2 ranks on ")


def test_check__a_program_without_mpi_is_an_error(mpi: InstalledMpi, thole: Tool) -> None:
    one_of(mpi, "mpich", "openmpi")
    done = checked(mpi, thole, "sleep", "0.1")
    assert done.returncode == 1
    first, second = told(done.stderr)
    assert first.startswith("0 of 2 ranks on ")
    assert re.fullmatch(r"ranks 0, 1 on \S+ ran without Thole: sleep was not seen to load an MPI", second)


def test_check__a_program_that_is_not_there(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    one_of(mpi, "mpich", "openmpi", "openmpi4")
    script(tmp_path / "orphan", "true").write_text("#!/nowhere/sh\n")
    (tmp_path / "data").write_text("")
    for program, why in (
        ("no-such-program", "no-such-program was not found in its PATH"),
        (tmp_path / "nothing", f"{tmp_path}/nothing was not found"),
        (tmp_path / "orphan", f"{tmp_path}/orphan cannot be run: what its first line names, or its loader, is missing"),
        (tmp_path / "data", f"{tmp_path}/data cannot be run: Permission denied"),
    ):
        done = checked(mpi, thole, program)
        assert done.returncode == 127, done.stderr
        said = rf"^thole: ranks? [01, ]+ on \S+ could not start, since {why}$"
        assert re.search(said, done.stderr, re.M), done.stderr
        assert "was not seen to load" not in done.stderr


def test_check__a_launcher_ends_by_itself(mpis: dict[str, InstalledMpi], thole: Tool, tmp_path: Path) -> None:
    """Open MPI 4.1's takes two seconds for a single rank, and crashes where it is asked meanwhile."""
    if "openmpi4" not in mpis:
        pytest.skip("no Open MPI 4.1")
    done = checked(mpis["openmpi4"], thole, tmp_path / "nothing", ranks=1)
    assert done.returncode == 127, done.stderr


# Until thole-rank, its parent, has looked at what it has loaded: it goes to sleep after each look. One of two may have
# begun before.
LOOKED_AT = """
import os, re, time
def looks():
    return int(re.search(r"\\nvoluntary\\w+:\\s*(\\d+)", open(f"/proc/{os.getppid()}/status").read())[1])
until, limit = looks() + 2, time.monotonic() + 60
while looks() < until and time.monotonic() < limit: time.sleep(.01)
"""


def test_check__another_way_is_an_error(mpi: InstalledMpi, thole: Tool) -> None:
    """Something after `thole run` has changed what it had set."""
    # One that there is: MPI_Init would fail, and the other rank be killed before it was seen what that had loaded.
    local = "vader" if mpi.mpi.family.name == "openmpi4" else "sm"
    other = {"FI_PROVIDER": "tcp", "I_MPI_OFI_PROVIDER": "tcp", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": f"self,{local}"}
    code = f"{TALK}\n{LOOKED_AT}"
    words = ["env", "-u", "OMPI_MCA_mtl", *(f"{name}={value}" for name, value in other.items())]
    done = checked(mpi, thole, *words, mpi.python, "-c", code)
    assert done.returncode != 0, done.stderr
    # Intel MPI has no other provider that it would take, and ends in MPI_Init.
    pattern = r"ran without Thole: it loaded (/\S+, which|Thole's provider, but)|ended before having an endpoint"
    assert re.search(pattern, told(done.stderr)[1]), done.stderr


def test_check__reason_of_an_endpoint_that_does_not_open(mpis: dict[str, InstalledMpi], thole: Tool) -> None:
    for mpi in [mpi for name, mpi in mpis.items() if name == "mpich"]:
        options = ("--option", "network=on", "--interface", "nosuch0")
        done = checked(mpi, thole, mpi.python, "-c", TALK, before=options)
        assert done.returncode != 0
        assert re.search(r"ran without Thole: no endpoint could be opened: .*nosuch0", done.stderr), done.stderr


def test_check__says_why_a_connection_failed(mpi: InstalledMpi, thole: Tool) -> None:
    """MPIs that connect at the first message, and whose ranks may then make no file in memory."""
    if mpi.mpi.family.name not in ("openmpi", "openmpi4"):
        pytest.skip("it connects in MPI_Init")
    code = TALK.replace("; c = ", "; import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (0, 0)); c = ")
    done = checked(mpi, thole, mpi.python, "-c", code)
    assert done.returncode != 0, done.stderr
    lines = told(done.stderr)
    assert lines[0].startswith("all of 2 ranks on "), done.stderr
    assert re.fullmatch(r"  ranks? [01, ]+ on \S+: .*; files may have 0 bytes \(ulimit -f\), shared memory too", lines[-1])


@pytest.mark.parametrize("how", ["c.Abort(9)", "os.kill(os.getpid(), 9)", "os.kill(os.getppid(), 9)"])
def test_check__a_killed_rank_has_used_thole(mpi: InstalledMpi, thole: Tool, how: str) -> None:
    if "Abort" not in how:
        one_of(mpi, "mpich", "openmpi")
    code = f"{TALK}; import os; c.Barrier()\nif c.rank == 0: {how}\nc.recv(source=0)"
    done = checked(mpi, thole, mpi.python, "-c", code)
    assert done.returncode != 0
    assert any(line.startswith("all of 2 ranks on ") for line in told(done.stderr)), done.stderr
    assert "without Thole" not in done.stderr


DAEMON = """import os, time
started = os.getpid()
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
while os.path.exists(f'/proc/{started}'):
    time.sleep(.001)
"""


def test_check__a_rank_that_becomes_a_daemon(mpi: InstalledMpi, thole: Tool) -> None:
    """The process that was started ends before there is an endpoint; its grandchild is the rank."""
    one_of(mpi, "mpich", "openmpi")
    done = checked(mpi, thole, mpi.python, "-c", DAEMON + TALK + "; print('out')")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("out") == 2
    first, second = told(done.stderr)
    assert first.startswith("all of 2 ranks on ")
    assert re.fullmatch(r"  shared memory: \d+ messages, [\d.]+ KiB", second), done.stderr


def test_check__what_a_rank_left_running_is_not_waited_for(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    one_of(mpi, "mpich")
    left = tmp_path / "left"
    sleeper = f"import subprocess as s; n = s.DEVNULL; p = s.Popen(['sleep', '{2 * WAIT_S}'], stdin=n, stdout=n, stderr=n)"
    code = f"{sleeper}; open({str(left)!r}, 'a').write(f'{{p.pid}} '); {TALK}"
    done = checked(mpi, thole, mpi.python, "-c", code)
    for pid in left.read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert told(done.stderr)[0].startswith("all of 2 ranks on ")


def test_check__a_signal_reaches_the_launcher(mpis: dict[str, InstalledMpi], thole: Tool, tmp_path: Path) -> None:
    for mpi in [mpi for name, mpi in mpis.items() if name == "mpich"]:
        mark = tmp_path / "up"
        code = f"{TALK}; open({str(mark)!r}, 'w'); c.Barrier(); c.recv(source=c.rank)"
        line = [*thole.command, "run", "--check", *mpi.command(2, mpi.python, "-c", code)]
        process = subprocess.Popen(line, env=mpi.environment(), stderr=subprocess.PIPE, text=True)
        assert wait_until(mark.exists, WAIT_S)
        below = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode != 0
        assert told(err)[0].startswith("all of 2 ranks on "), err
        for pid in below:
            assert wait_until(lambda path=Path(f"/proc/{pid}"): not path.exists(), WAIT_S), "a rank was left behind"


# A launcher that tells of two signals, and ends at the third with how often the first has come.
COUNTED = """import signal
asked = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, asked)
print('up', flush=True)
count = 0
while (number := signal.sigwait(asked)) != signal.SIGUSR2:
    count += number == signal.SIGUSR1
    print(signal.Signals(number).name, flush=True)
raise SystemExit(count)
"""


@pytest.mark.parametrize("group", [True, False])
def test_check__a_signal_comes_to_the_launcher_once(thole: Tool, tmp_path: Path, *, group: bool) -> None:
    """As a shell's `kill %1` and `timeout` send it, to the launcher, too; or to `thole run` alone."""
    (tmp_path / "counted").write_text(COUNTED)
    launcher = f"exec {sys.executable} {tmp_path / 'counted'}"
    hydra = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\n{launcher}')
    line = [*thole.command, "run", "--check", str(hydra), "-n", "1", "true"]
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        for _ in range(2):
            os.kill(process.pid, signal.SIGSTOP)  # or the two could be one to the launcher
            (os.killpg if group else os.kill)(process.pid, signal.SIGUSR1)
            seen = process.stdout.readline() if group else ""
            os.kill(process.pid, signal.SIGCONT)
            assert (seen or process.stdout.readline()) == "SIGUSR1\n"
            while signals_pending(process.pid):
                time.sleep(0.001)
            os.kill(process.pid, signal.SIGHUP)  # when this has come, the other was dealt with
            assert process.stdout.readline() == "SIGHUP\n"
        os.kill(process.pid, signal.SIGUSR2)
        assert process.wait(timeout=WAIT_S) == 2
    finally:
        process.kill()
        process.communicate()


def test_check__goes_on_when_it_was_stopped(thole: Tool, tmp_path: Path) -> None:
    """By Ctrl-Z, or with its whole job by a batch system: for longer than until its next look."""
    hydra = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\necho up\nread told; exit 3')
    line = [*thole.command, "run", "--check", str(hydra), "-n", "1", "true"]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(2 * check.LOOK_S)
        os.kill(process.pid, signal.SIGCONT)
        try:
            _, err = process.communicate("\n", timeout=WAIT_S)
        finally:
            process.kill()
        assert process.returncode == 3, err


def test_check__an_alarm_that_was_set_before_ends_the_job(thole: Tool, tmp_path: Path) -> None:
    """As `perl -e 'alarm 600; exec @ARGV'` limits a command's time."""
    hydra = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\nexec sleep {WAIT_S:.0f}')
    line = [*thole.command, "run", "--check", str(hydra), "-n", "1", "true"]
    done = subprocess.run(line, capture_output=True, check=False, timeout=WAIT_S, preexec_fn=lambda: signal.alarm(2))
    assert done.returncode == 128 + signal.SIGALRM, done.stderr


def test_check__ends_the_launcher_where_it_is_killed(thole: Tool, tmp_path: Path) -> None:
    """As whoever kills `thole run` otherwise kills the launcher, which it has become."""
    hydra = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\necho $$\nexec sleep 1000')
    line = [*thole.command, "run", "--check", str(hydra), "-n", "2", "true"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    launcher = Path(f"/proc/{int(process.stdout.readline())}")
    process.kill()
    process.wait()
    assert wait_until(lambda: not launcher.exists(), WAIT_S)


def test_check__a_launcher_that_does_not_end_when_asked(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others of a refused rank would wait for it for ever."""
    says = 'echo "[thole $4 rank=0 of=2 host=a state=refused why=]" >&2'
    hydra = script(tmp_path / "mpiexec", f"trap '' TERM\n{says}\nexec sleep {WAIT_S:.0f}")
    for name in ("REFUSED_S", "KILLED_S", "LOOK_S"):
        monkeypatch.setattr(check, name, 0.1)
    assert check.run(HYDRA_LAUNCH, [str(hydra), "-n", "2", "./app"], []) == 128 + signal.SIGKILL


def test_check__a_launcher_is_asked_to_end_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At a second time Open MPI's leaves its ranks behind, or crashes."""
    says = 'echo "[thole $4 rank=0 of=2 host=a state=refused why=]" >&2'
    waits = 'while test -z "$told"; do sleep 0.1; done; sleep 0.5'  # and for a second time
    hydra = script(tmp_path / "mpiexec", f"trap 'echo asked; told=1' TERM\n{says}\n{waits}; exit 127")
    for name in ("REFUSED_S", "LOOK_S"):
        monkeypatch.setattr(check, name, 0.1)
    assert check.run(HYDRA_LAUNCH, [str(hydra), "-n", "2", "./app"], []) == 127
    assert capfd.readouterr().out == "asked\n"


ORPHAN = """
import os
from thole.mpi import check
from thole.mpi.launchers import HYDRA_LAUNCH
begin = check._beginner(set())
if (child := os.fork()) == 0:
    if (launcher := os.fork()) == 0:
        begin()
        os._exit(0)
    os._exit(os.WTERMSIG(os.waitpid(launcher, 0)[1]))
print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
"""


def test_check__a_launcher_that_begins_when_it_is_killed_already() -> None:
    """Whose parent then is another. It asks for a signal at the end of that one, which may be process 1."""
    env = clean_environment(PYTHONPATH=str(ROOT / "python"))
    done = subprocess.run([sys.executable, "-c", ORPHAN], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(int(signal.SIGTERM))], done.stderr


def test_check__no_memory_to_count_in(mpis: dict[str, InstalledMpi], thole: Tool) -> None:
    for mpi in [mpi for name, mpi in mpis.items() if name == "mpich"]:
        line = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *thole.command, "run", "--check"]
        line += map(str, mpi.command(2, mpi.python, "-c", TALK))
        done = subprocess.run(line, env=mpi.environment(), capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode != 0
        assert re.search(
            r"^thole: ranks? [01, ]+ on \S+ could not start, since it has no memory file to count in: File too large; "
            r"files may have 0 bytes \(ulimit -f\), shared memory too$",
            done.stderr,
            re.M,
        ), done.stderr


def test_check__a_launcher_that_a_signal_ended(thole: Tool, tmp_path: Path) -> None:
    hydra = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\nkill -XFSZ $$')
    done = thole("run", "--check", hydra, "-n", "2", "true")
    assert done.returncode == 128 + signal.SIGXFSZ
    assert told(done.stderr) == ["no rank was heard of: the launcher was ended by SIGXFSZ"]


def test_check__no_program_to_put_it_before(thole: Tool, mpis: dict[str, InstalledMpi]) -> None:
    for mpi in [mpi for name, mpi in mpis.items() if name == "mpich"]:
        refused(thole("run", "--check", mpi.launcher, "-n", "2"), "no program is seen", "name one", "--check")


@pytest.mark.parametrize("words", ["bash job.sh", "make -f job.mk all", "python3 job.py", "./job"])
def test_check__a_launcher_that_a_script_starts(thole: Tool, tmp_path: Path, words: str) -> None:
    """thole-rank would be what the script's interpreter is given."""
    script(tmp_path / "job", "mpiexec -n 2 ./app")
    done = thole("run", "--check", "--mpi", "mpich", *words.split(), cwd=tmp_path)
    refused(done, f"{words.split()[0]} starts a launcher", "before the launcher in there")


def test_check__a_folder_that_only_the_launcher_searches(thole: Tool, mpis: dict[str, InstalledMpi]) -> None:
    for name, argument in (("openmpi", "-path"), ("impi", "-path"), ("impi", "-gpath")):
        if name in mpis:
            words = ("run", "--check", mpis[name].launcher, argument, "/opt/app", "-n", "1")
            refused(thole(*words, "app"), f"argument {argument} says", "app", "--check")


# ---- Hosts -----------------------------------------------------------------------------------------


@pytest.fixture
def on_two(two: Testbed, mpis: dict[str, InstalledMpi]) -> Iterator[tuple[Testbed, InstalledMpi]]:
    if "mpich" not in mpis:
        pytest.skip("mpich is not installed")
    yield two, mpis["mpich"]


def across(
    on_two: tuple[Testbed, InstalledMpi], thole: Tool, *before: str, more: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    hosts, mpi = on_two
    command = hosts.launch(mpi.mpi, 4, mpi.python, "-c", TALK)
    command[1:1] = more
    line = hosts.command(0, *thole.command, "run", "--check", *before, *command)
    return subprocess.run(
        line, env=mpi.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


def test_check__between_hosts(on_two: tuple[Testbed, InstalledMpi], thole: Tool) -> None:
    done = across(on_two, thole, "--link", "both")
    assert done.returncode == 0, done.stderr
    first, second, third = told(done.stderr)
    assert first == "all of 4 ranks on 2 hosts (host1, host2) used Thole"
    assert re.fullmatch(r"  shared memory: \d+ messages, [\d.]+ KiB", second)
    sent = re.fullmatch(r"  network: (\d+) messages, ([\d.]+) KiB, (\d+) frames, (\d+) of them raw", third)
    assert sent is not None, third
    assert int(sent[1]) >= 8 and float(sent[2]) >= 78 and 0 < int(sent[4]) <= int(sent[3])


def test_check__variables_that_do_not_arrive(on_two: tuple[Testbed, InstalledMpi], thole: Tool) -> None:
    done = across(on_two, thole, more=("-genvnone",))
    assert done.returncode != 0
    pattern = r"ranks? .* on host.* could not start, since the launcher did not hand it the variable \w+"
    assert any(re.fullmatch(pattern, line) for line in told(done.stderr)), done.stderr


# A program that counts the first real-time signal until the second comes, and ends with the number. It looks when it is
# told to.
COUNTING = """
import signal, sys
both = {signal.SIGRTMIN, signal.SIGRTMIN + 1}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
print("up", flush=True)
sys.stdin.readline()
count = 0
while signal.sigwait(both) == signal.SIGRTMIN:
    count += 1
sys.exit(count)
"""


def signals_pending(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    pending = re.search(r"ShdPnd:\s*([0-9a-f]+)", status)
    return pending is not None and int(pending[1], 16) != 0


@pytest.mark.parametrize("group", [True, False])
def test_rank__a_signal_comes_once(build: Path, *, group: bool) -> None:
    """Launchers that make a group for a rank signal all of it, the program too; others the process that they know."""
    line = [build / "tools" / "rank" / "thole-rank", "T", "--", sys.executable, "-c", COUNTING]
    env = {**os.environ, "FI_PROVIDER_PATH": str(build / "provider")}
    with subprocess.Popen(
        line, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=group
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for number in (signal.SIGRTMIN, signal.SIGRTMIN + 1):  # one after the other: what the first does is done
            (os.killpg if group else os.kill)(process.pid, number)
            while signals_pending(process.pid):
                time.sleep(0.001)
        process.stdin.write("look\n")
        process.stdin.flush()
        assert process.wait(timeout=WAIT_S) == 1


HOLDING = """
import os, sys
report = os.stat(os.environ["THOLE_REPORT"])
sys.exit(report.st_blocks * 512 < report.st_size)
"""


def test_rank__has_all_memory_to_count_in(build: Path) -> None:
    """What there is none for when it is counted in ends the program, by SIGBUS."""
    line = [build / "tools" / "rank" / "thole-rank", "T", "--", sys.executable, "-c", HOLDING]
    env = {**os.environ, "FI_PROVIDER_PATH": str(build / "provider")}
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr


FILLING = """
import os
os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(1))
except BlockingIOError:
    pass
"""


def test_rank__is_heard_behind_much_else(build: Path) -> None:
    """The program has made standard error one that does not wait, and filled it."""
    line = [build / "tools" / "rank" / "thole-rank", "T", "--", sys.executable, "-c", FILLING]
    env = {**os.environ, "FI_PROVIDER_PATH": str(build / "provider")}
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read()  # to the program's end
        while descendants(process.pid):
            time.sleep(0.001)
        assert b"state=without" in process.stderr.read()


# A program whose endpoint does not open, and which goes on.
OPENING = """
import ctypes, sys
endpoint = ctypes.c_void_p()
print(ctypes.CDLL(sys.argv[1]).thole_endpoint_open(bytes(256), ctypes.byref(endpoint)), flush=True)
sys.stdin.readline()
"""


def test_rank__says_at_once_why_there_is_no_endpoint(build: Path) -> None:
    """Launchers kill ranks, and with them those who would say it at their end."""
    words = [sys.executable, "-c", OPENING, str(build / "src" / "libthole.so")]
    env = {**os.environ, "FI_PROVIDER_PATH": str(build / "provider"), "THOLE_SHM": "off", "THOLE_NETWORK": "off"}
    line = [build / "tools" / "rank" / "thole-rank", "T", "--", *words]
    with subprocess.Popen(
        line, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        assert int(process.stdout.readline()) < 0
        assert "state=started" in process.stderr.readline()
        said = process.stderr.readline()
        process.kill()
    assert "state=without why=no endpoint could be opened: " in said and "shm and network are both off" in said


def test_rank__says_what_is_short(build: Path) -> None:
    """One descriptor is left for what it counts in, and none for how the program begins."""
    rank = build / "tools" / "rank" / "thole-rank"
    line = ["sh", "-c", 'ulimit -n 4; exec "$0" T -- true', rank]
    env = {**os.environ, "FI_PROVIDER_PATH": str(build / "provider")}
    done = subprocess.run(line, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert "state=refused why=there is no process for it: Too many open files; " in done.stderr
    assert "(ulimit -Hn)" in done.stderr


def test_rank__does_not_end_before_its_launcher_is_ready(build: Path) -> None:
    """Hydra ends by SIGPIPE where a rank has ended while it starts others, and what that said is lost."""
    rank = build / "tools" / "rank" / "thole-rank"
    for program in ("true", "/nowhere/at/all"):
        start = time.monotonic()
        subprocess.run([rank, "T", "--", program], capture_output=True, check=False)
        assert time.monotonic() >= start + 0.3, program


def test_rank__says_nothing_of_its_own(build: Path) -> None:
    """Input, output and status are the program's, with a signal too; a wrong call is told how."""
    rank = build / "tools" / "rank" / "thole-rank"
    env = {**os.environ, "FI_PROVIDER_PATH": str(build / "provider")}

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([rank, *words], env=env, input="given", capture_output=True, text=True, check=False)

    done = run("T", "--", "sh", "-c", "cat; exit 3")
    assert (done.returncode, done.stdout) == (3, "given")
    assert run("T", "--", "sh", "-c", "kill -USR2 $$").returncode == -signal.SIGUSR2
    done = run("T", "--", "/nowhere/at/all")
    assert done.returncode == 127
    assert "state=refused why=/nowhere/at/all was not found]" in done.stderr
    assert run("T").returncode == run().returncode == 2
