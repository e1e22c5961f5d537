# SPDX-License-Identifier: BSD-3-Clause
"""The tool in trouble: folders that cannot be read, outputs that cannot be written, numbers that mean nothing.

Whatever happens, a user gets one sentence that names the thing, before anything is started or measured, and exit
status 2; never a traceback.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from conftest import ROOT, Compile, InstalledMpi, Tool, clean_environment
from test_tool import refused, script
from thole import cli
from thole.base import blocks, host, paths
from thole.base import output as outputs
from thole.base.trouble import Trouble
from thole.commands import driver, peers, setup, tuned
from thole.frames import packets
from thole.mpi import families
from thole.mpi import program as programs
from thole.mpi.families import Mpi
from thole.mpi.identify import identify
from thole_lab import compare, process

Here = Callable[..., "subprocess.CompletedProcess[str]"]
HYDRA = "printf 'HYDRA build details:\\n    Version:     4.1\\n'"


@pytest.fixture
def here(build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """The command in this very process, where a test asks for many sentences."""
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        status = cli.main([*map(str, words)])
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, status, said.out, said.err)

    return run


@pytest.fixture
def hydra(tmp_path: Path) -> Path:
    """What says that it is MPICH's launcher, and otherwise says that it ran."""
    return script(
        tmp_path / "hydra" / "mpiexec", f'test "$1" = --version && {HYDRA} || echo RAN "$@"'
    )


def test_thole__without_a_command(here: Here) -> None:
    """All commands, where errors go, as the status is one's."""
    done, wanted = here(), here("--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert (wanted.returncode, wanted.stdout) == (0, done.stderr)
    assert done.stderr.startswith("usage: thole ")


# ---- What cannot be read ---------------------------------------------------------------------------


def common(thole: Tool, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """As somebody without the rights of root, for whom modes of files mean nothing."""
    drop: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        rights = "-dac_override,-dac_read_search"
        drop = ["setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}"]
    return subprocess.run(
        [*drop, *thole.command, *map(str, words)],
        env=clean_environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be looked into, with folders that look as everywhere else."""
    folder = tmp_path / "locked"
    for name in ("bin", "thole", "environment/bin"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("info",),
        ("mx-info", "--wait", "0"),
        ("peers", "--wait", "0"),
        ("setup",),
        ("tune", "--reset"),
    ],
)
def test_locked__folders_of_the_environment(
    thole: Tool, locked: Path, words: tuple[str, ...]
) -> None:
    env = {
        "PATH": f"{locked / 'bin'}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(locked / "environment"),
    }
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        env[name] = str(locked)
    done = common(thole, *words, **env)
    if words[0] in ("info", "mx-info"):
        assert done.returncode == 0, done.stderr
    else:  # what it needs itself is there
        refused(done, *([] if words[0] == "peers" else [str(locked)]))


def test_locked__info_and_setup_find_the_others(
    mpis: dict[str, InstalledMpi], thole: Tool, locked: Path, tmp_path: Path
) -> None:
    """A folder of PATH that cannot be read has nothing to say against the ones behind it."""
    if not mpis:
        pytest.skip("no MPI is installed")
    mpi = next(iter(mpis.values()))
    env = {
        "PATH": f"{locked / 'bin'}:{mpi.launcher.parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path),
    }
    done = common(thole, "info", "mpi", "--json", **env)
    assert done.returncode == 0, done.stderr
    assert mpi.name in {row["name"] for row in json.loads(done.stdout)["mpi"]}
    done = common(thole, "setup", "--dry-run", **env)
    assert mpi.mpi.label in done.stdout


def test_locked__run_in_a_path_and_a_prefix(thole: Tool, locked: Path, hydra: Path) -> None:
    path = f"{locked / 'bin'}:{hydra.parent}:{os.environ['PATH']}"
    done = common(thole, "run", "mpiexec", "x", PATH=path, THOLE_PREFIX=str(locked))
    assert done.stdout == "RAN x\n", done.stderr


def test_locked__what_the_user_names(thole: Tool, locked: Path, tmp_path: Path) -> None:
    for words in (
        ("info", "mpi", "--venvs", locked),
        ("compare", "--venvs", locked),
        ("setup", "--root", locked / "bin"),
        ("setup", "--mpi", locked / "bin" / "mpiexec"),
        ("peers", "--file", locked / "hosts"),
        ("run", locked / "bin" / "mpiexec", "x"),
        ("perf", "--plot", locked / "perf.png"),
        ("compare", "--venvs", ROOT, "--json", locked / "numbers.json"),
    ):
        refused(common(thole, *words, XDG_STATE_HOME=str(tmp_path)), str(locked))


def test_info__folder_of_environments_that_is_missing(thole: Tool, tmp_path: Path) -> None:
    refused(thole("info", "--venvs", tmp_path / "absent"), "--venvs", str(tmp_path / "absent"))
    refused(thole("compare", "--venvs", tmp_path / "absent"), "--venvs", str(tmp_path / "absent"))
    assert thole("info", "mpi", "--venvs", tmp_path).returncode == 0, "an empty one is none of that"


def test_home__of_a_user_without_one(thole: Tool) -> None:
    """A container's user may have neither HOME nor an entry in the file of users."""
    if os.geteuid() != 0:
        pytest.skip("another user cannot be had")
    code = "import os, sys; sys.path.insert(0, sys.argv[1]); from thole import cli; cli.parser()\n"
    code += "os.setuid(54321); del os.environ['HOME']; cli.parser()"
    done = subprocess.run(
        [sys.executable, "-c", code, ROOT / "python"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words", [("setup", "--root", "."), ("driver", "--root", ".", "status")], ids=" ".join
)
def test_folder__that_is_gone(thole: Tool, words: tuple[str, ...], tmp_path: Path) -> None:
    """Which others removed while a shell is in it: what needs none does its work."""
    begin = Tool(("sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", *thole.command))
    refused(begin(*words, cwd=tmp_path), "folder is gone", "cd")
    assert begin("info", "options", cwd=tmp_path).returncode == 0


# ---- What cannot be written ------------------------------------------------------------------------

# A line of output at least, of each command; trace needs a right that is not everybody's.
TALKING = (
    ("info",),
    ("info", "--json"),
    ("info", "counters", "options"),
    ("perf", "--sizes", "8", "--rounds", "1", "--sample-ms", "1"),
    ("perf", "--json", "--sizes", "8", "--rounds", "1", "--sample-ms", "1"),
    ("perf", "--listen", "--port", "0"),
    ("peers", "127.0.0.1:1", "--timeout", "0.1"),
    ("peers", "127.0.0.1:1", "--timeout", "0.1", "--json"),
    ("mx-info", "--wait", "0"),
    ("mx-info", "--wait", "0", "--json"),
    ("setup", "--undo", "--dry-run"),
    ("tune", "--reset"),
    ("run", "--explain", "mpiexec", "x"),
    ("--version",),
    ("--help",),
    ("perf", "--help"),
)


def output(
    thole: Tool,
    words: Sequence[str],
    out: int,
    hydra: Path,
    tmp_path: Path,
    error: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    path = f"{hydra.parent}:{os.environ['PATH']}"
    env = {"PATH": path, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    return subprocess.run(
        [*thole.command, *words],
        env=clean_environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=error,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("words", TALKING, ids=" ".join)
def test_output__full_is_said(
    thole: Tool, words: tuple[str, ...], hydra: Path, tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        done = output(thole, words, full.fileno(), hydra, tmp_path)
    assert done.stderr.splitlines() == [
        "thole: the output cannot be written: No space left on device"
    ]
    assert done.returncode == 2


@pytest.mark.parametrize("words", TALKING, ids=" ".join)
def test_output__nobody_reads(
    thole: Tool, words: tuple[str, ...], hydra: Path, tmp_path: Path
) -> None:
    with nobody() as pipe:
        done = output(thole, words, pipe, hydra, tmp_path)
    not_reached = words[0] == "peers"
    assert (done.returncode, done.stderr) == (int(not_reached), "")


@contextlib.contextmanager
def nobody() -> Iterator[int]:
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


def test_output__neither_is_the_complaint_read(thole: Tool, hydra: Path, tmp_path: Path) -> None:
    with nobody() as pipe:
        for words in (("info", "weather"), ("run", "-n", "2", "mpiexec"), ("run", "--link", "x"), ("weather",), ()):
            done = output(thole, words, pipe, hydra, tmp_path, pipe)
            assert done.returncode == 2, words


def test_setup__fails_though_nobody_reads_of_it(thole: Tool, hydra: Path, tmp_path: Path) -> None:
    """The launcher's MPI has no libfabric, so that it cannot be set up."""
    with nobody() as pipe:
        words = ("setup", "--root", str(tmp_path), "--mpi", str(hydra))
        assert output(thole, words, pipe, hydra, tmp_path, pipe).returncode == 2


def test_tune__keeps_what_it_found_though_nobody_reads_it(thole: Tool, hydra: Path, tmp_path: Path) -> None:
    with nobody() as pipe:
        done = output(thole, ("tune", "--rounds", "1", "--sample-ms", "1"), pipe, hydra, tmp_path)
    assert done.returncode == 0, done
    assert "# eager_max, times as fast as" in (tmp_path / "thole" / "options").read_text()


def test_progress__goes_on_where_nobody_reads() -> None:
    """Its lines come between steps of what is measured, and may be written to a file at the end."""
    code = """
from thole.base import output
from thole.base.streams import streams
with streams(), output.progress(2, lines=True) as step:
    step("one")
    step("two")
raise SystemExit(7)
"""
    with nobody() as pipe:
        env = clean_environment(PYTHONPATH=str(ROOT / "python"))
        done = subprocess.run([sys.executable, "-c", code], stderr=pipe, env=env, timeout=60, check=False)
    assert done.returncode == 7


def test_output__closed(thole: Tool, hydra: Path, tmp_path: Path) -> None:
    for words in (
        ("info",),
        ("run", "--explain", "mpiexec", "x"),
        ("info", "weather"),
        ("--version",),
    ):
        command = ["sh", "-c", '"$@" >&-', "sh", *thole.command, *words]
        done = output(Tool(tuple(command)), (), subprocess.DEVNULL, hydra, tmp_path)
        assert "Traceback" not in done.stderr
        assert done.returncode == (2 if "weather" in words else 0), done.stderr


def test_trace__a_full_disk(thole: Tool) -> None:
    """Begun and ended by a datagram to nobody, which looks as if it were ours."""
    code = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    frame = bytes([4, packets.NATIVE_VERSION, 40, 0]) + bytes(36)
    code += f"while True: s.sendto({frame!r}, ('127.0.0.1', 9)) ; import time; time.sleep(0.01)"
    for words in (("-w", "/dev/full"), ("-w", "-"), ()):
        sender = subprocess.Popen([sys.executable, "-c", code])
        try:
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [*thole.command, "trace", "-i", "lo", "--count", "50", *words],
                    env=clean_environment(),
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=300,
                    check=False,
                )
        finally:
            sender.kill()
            sender.wait()
        if "CAP_NET_RAW" in done.stderr:
            pytest.skip("a capture needs CAP_NET_RAW")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        what = words[1] if words[1:] == ("/dev/full",) else "the output"
        assert (
            done.stderr.splitlines()[-1]
            == f"thole: {what} cannot be written: No space left on device"
        )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent/picture.png", ("cannot be written", "No such file")),
        ("folder.png", ("cannot be written", "Is a directory")),
        ("picture.tiff.no", (".png",)),
        ("picture", (".png",)),
    ],
)
def test_plot__refused_before_anything_is_measured(
    here: Here, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "folder.png").mkdir()
    # These would take minutes.
    refused(here("perf", "--rounds", "10000", "--plot", tmp_path / name), name, *words)
    refused(here("compare", "--plot", tmp_path / name), name, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"], (
        "a look leaves nothing behind"
    )


def test_json__refused_before_anything_is_measured(here: Here, tmp_path: Path) -> None:
    name = tmp_path / "absent" / "numbers.json"
    refused(here("compare", "--json", name), str(name), "cannot be written")


def test_plot__a_look_leaves_a_file_as_it_is(tmp_path: Path) -> None:
    from thole.base import pictures

    kept = tmp_path / "kept.png"
    kept.write_text("kept")
    pictures.check(kept)
    assert kept.read_text() == "kept"
    pictures.check(tmp_path / "new.png")
    assert not (tmp_path / "new.png").exists(), "nor does it make one"


def test_tune__refused_before_anything_is_measured(thole: Tool, locked: Path) -> None:
    locked.chmod(0o500)
    done = common(thole, "tune", "--rounds", "10000", XDG_CONFIG_HOME=str(locked / "absent"))
    refused(done, str(locked / "absent" / "thole" / "options"), "cannot be written")


# ---- Numbers and other values ----------------------------------------------------------------------

NUMBERS = [
    (("perf", "--rounds"), "0 -1 1.5 many 100000", "from 1 to 10000"),
    (("perf", "--iterations"), "0 -5 x", "from 1 to 1000000"),
    (("perf", "--sample-ms"), "0 -1 x 100000000", "from 1 to 60000"),
    (("perf", "--window"), "0 -1 x 5000", "from 1 to 1024"),
    (("perf", "--sizes"), "99999999g 5g 8,99999999999999999999999", "4g at most"),
    (("perf", "--sizes"), "8,huge , 8,,9 -1", "not a size"),
    (("perf", "--cores"), "0 0,1,2 0, ,1 a,b -1,0 0;1", "A,B"),
    (("perf", "--cores"), "0,100000", "A,B"),
    (("perf", "--cores"), "0,1023", "core 1023"),
    (("perf", "--cores"), "0,8191", "core 8191"),
    (("perf", "--cores"), "0,8192", "A,B"),
    (("perf", "--port"), "-1 65536 x", "from 0 to 65535"),
    (("perf", "--listen", "--port"), "-1 65536 x", "from 0 to 65535"),
    (("perf", "--listen", "--cores"), "0 a,b", "A,B"),
    (("peers", "a", "--port"), "-1 65536 x", "from 0 to 65535"),
    (("peers", "a", "--timeout"), "0 -1 nan inf x", "from 0.1 to 3600"),
    (("peers", "--wait"), "-1 nan inf x 4000", "from 0 to 3600"),
    (("mx-info", "--wait"), "-1 nan inf x 4000", "from 0 to 3600"),
    (("trace", "--seconds"), "0 -1 nan x", "more than 0"),
    (("trace", "--count"), "0 -1 1.5 x", "from 1"),
    (("trace", "--keep"), "-1 x", "from 0"),
    (("trace", "--port"), "0 65536 x", "from 1 to 65535"),
    (("compare", "--rounds"), "0 -1 x", "from 1 to 10000"),
    (("compare", "--seconds"), "-1 nan x", "from 0"),
    (("compare", "--size-max"), "0 -1 x", "from 1"),
    (("tune", "--rounds"), "0 -1 x", "from 1 to 10000"),
    (("tune", "--sample-ms"), "0 -1 x 100000000", "from 1 to 60000"),
    (("tune", "--port"), "0 65536 x", "from 1 to 65535"),
]


@pytest.mark.parametrize(("words", "values", "allowed"), NUMBERS)
def test_number__refused_with_what_is_allowed(
    here: Here, words: tuple[str, ...], values: str, allowed: str
) -> None:
    for value in values.split():
        done = here(*words[:-1], f"{words[-1]}={value}")
        refused(done, words[-1], allowed)
        if "," not in value:
            assert repr(value) in done.stderr


def test_number__every_one_is_in_the_list_above() -> None:
    """Whatever argument takes a number has its bounds tried: a new one is added there."""
    tried = {(words[0], words[-1]) for words, _, _ in NUMBERS}
    commands = next(action for action in cli.parser()._actions if action.choices)
    for command, parser in commands.choices.items():  # type: ignore[union-attr]
        for action in parser._actions:
            if action.type is not None and action.type is not Path:
                assert (command, action.option_strings[-1]) in tried


WRONG_OPTIONS = [
    ("eager_max=banana", ("eager_max", "banana", "a size", "to 1m")),
    ("eager_max=2g", ("eager_max", "2g", "to 1m")),
    ("spin=5 apples", ("spin", "a time")),
    ("shm=perhaps", ("shm", "on or off")),
    ("job_key=secret", ("job_key", "64 bits")),
    (f"interface={'x' * 300}", ("interface", "255 bytes")),
    ("codec=morse", ("codec", "native,mxoe")),
]


@pytest.mark.parametrize(("option", "words"), WRONG_OPTIONS, ids=lambda row: str(row)[:20])
def test_option__refused_before_anything_is_started(
    thole: Tool, here: Here, tmp_path: Path, option: str, words: tuple[str, ...]
) -> None:
    mark = tmp_path / "ran"
    starting = script(
        tmp_path / "mark" / "mpiexec", f'test "$1" = --version && {HYDRA} || touch {mark}'
    )
    refused(thole("run", "--option", option, starting, "x"), *words)
    assert not mark.exists()
    for command in (("perf",), ("perf", "--listen"), ("peers", "127.0.0.1"), ("compare",)):
        refused(here(*command, "--option", option), *words)


def test_arguments__that_would_do_nothing(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THOLE_OPTIONS_FILE", str(tmp_path / "options"))
    monkeypatch.setattr("thole.commands.tune.measure", None)  # nothing is measured
    refused(here("tune", "--port", "5"), "--port is of a listener", "thole tune HOST")
    refused(here("perf", "--port", "5"), "--port is of a listener", "--host")
    refused(here("trace", "--keep", "64"), "--keep is of a file", "-w")


def test_run__the_last_value_of_an_option_counts(here: Here, hydra: Path) -> None:
    """Also by what is short for --option."""
    short, long = ("--link", "udp"), ("--option", "link=raw")
    for words, value in (((*short, *long), "raw"), ((*long, *short), "udp")):
        done = here("run", "--explain", *words, hydra, "true")
        assert re.search(rf"THOLE_LINK +{value} ", done.stdout), done
    done = here("run", "--explain", "--interface", "lo", *short, hydra, "true")
    assert re.search(r"THOLE_INTERFACE +lo ", done.stdout) and re.search(r"THOLE_LINK +udp ", done.stdout), done


def test_option__of_no_name_is_told_without_its_value(thole: Tool, hydra: Path) -> None:
    """It may be a misspelt key's."""
    done = thole("run", "--option", "job_kye=0x4711beef", hydra, "x")
    refused(done, '"job_kye" names no option')
    assert "4711" not in done.stdout + done.stderr


def test_tune__where_no_file_is_read(thole: Tool) -> None:
    """What it would write, nobody reads."""
    for words in (("--dry-run", "--rounds", "10000"), ("--reset",)):
        refused(thole("tune", *words, env={"THOLE_OPTIONS_FILE": ""}), "THOLE_OPTIONS_FILE is set to nothing")
    done = thole("info", "options", env={"THOLE_OPTIONS_FILE": ""})
    assert "options file: none" in done.stdout, done.stderr


def test_setup__of_what_is_no_mpi_names_its_own_argument(thole: Tool) -> None:
    done = thole("setup", "--dry-run", "--mpi", "/bin/true")
    refused(done, "cannot tell which MPI", "thole setup --mpi PATH")
    assert "thole run" not in done.stderr


def test_setup__of_all_does_what_can_be_done(
    here: Here, mpis: dict[str, InstalledMpi], hydra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An MPI without libfabric is there to stay, as Debian's MPICH is."""
    able = next((one.mpi for one in mpis.values() if one.mpi.family.links), None)
    if able is None:
        pytest.skip("there is no MPI whose libfabric has a folder of providers")
    other = identify(str(hydra))
    for found, words, status in (([other, able], (), 0), ([other], (), 2), ([able], ("--mpi", hydra), 2)):
        monkeypatch.setattr(setup, "installed", lambda found=found: found)
        done = here("setup", "--dry-run", "--root", tmp_path, *words)
        assert (done.returncode, done.stdout.count("not done:")) == (status, int(other in found or bool(words))), done
    monkeypatch.setattr(setup, "installed", lambda: [able])
    monkeypatch.setattr(outputs, "writable", lambda _: False)
    assert here("setup", "--dry-run", "--root", tmp_path).returncode == 2, "what can be set up, and fails"


def test_option__of_the_environment_and_the_file_too(
    thole: Tool, hydra: Path, tmp_path: Path
) -> None:
    """A rank would read them and say no more than "Invalid argument"."""
    refused(
        thole("run", hydra, "x", env={"THOLE_SPIN": "banana"}), "THOLE_SPIN", "banana", "a time"
    )
    refused(thole("run", hydra, "x", env={"FI_THOLE_SPIN": "banana"}), "spin", "banana", "a time")
    options = tmp_path / "options"
    options.write_text("spin = banana\n")
    refused(
        thole("run", hydra, "x", env={"THOLE_OPTIONS_FILE": str(options)}),
        str(options),
        "line 1",
        "a time",
    )
    done = thole(
        "run", hydra, "x", env={"THOLE_NO_SUCH": "1", "THOLE_SPIN": "7us", "THOLE_PREFIX": "/opt"}
    )
    assert done.stdout == "RAN x\n", done.stderr


# ---- Warnings that are none ------------------------------------------------------------------------


def explained(here: Here, *words: str | Path) -> str:
    done = here("run", "--explain", *words)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.fixture
def openmpi(tmp_path: Path) -> Path:
    return script(tmp_path / "openmpi" / "mpiexec", "echo 'mpirun (Open MPI) 5.0.11'")


def test_run__arguments_that_agree_with_thole(
    here: Here, openmpi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("osc", "rdma"),
        ("osc", "rdma,pt2pt"),
        ("osc", "^ucx,portals4"),
        ("pml", "cm"),
        ("btl", "ofi,self"),
    ):
        assert "note:" not in explained(here, openmpi, "--mca", name, value, "true")
        monkeypatch.setenv(f"OMPI_MCA_{name}", value)
        kept = explained(here, openmpi, "true")
        assert "note:" not in kept
        row = next(line for line in kept.splitlines() if line.startswith(f"OMPI_MCA_{name} "))
        assert row.split()[1] == value, "what agrees is left as it is"


def test_run__arguments_that_contradict_thole(here: Here, openmpi: Path, hydra: Path) -> None:
    for name, value in (
        ("osc", "ucx"),
        ("osc", "^rdma"),
        ("pml", "ob1"),
        ("pml", "^cm"),
        ("btl", "self,vader"),
    ):
        for argument in ("--mca", "--omca", "-gomca"):
            assert "will not go over Thole" in explained(here, openmpi, argument, name, value, "./app")
    assert "will not go over Thole" in explained(here, hydra, "-genv", "FI_PROVIDER=tcp", "-n", "2", "true")
    said = explained(here, hydra, "-genv", "FI_PROVIDER_PATH", "/x", "-n", "2", "true")
    assert "the argument -genv FI_PROVIDER_PATH /x goes before FI_PROVIDER_PATH=" in said
    assert "messages will not go over Thole; put " in said


def test_run__open_mpi_that_opens_no_btls_without_ob1(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 5.0.9, as in Debian 13, it makes no windows then. ob1 may be chosen from, but not be all there is."""
    for version, through, pml in (
        ("5.0.7", "libfabric", "^ucx"),
        ("5.0.8", "libfabric", "^ucx"),
        ("5.0.9", "libfabric", "cm"),
        ("4.1.4", "libfabric", "cm"),
    ):
        mpiexec = script(tmp_path / version / "mpiexec", f"echo 'mpirun (Open MPI) {version}'")
        said = explained(here, "--through", through, mpiexec, "-n", "2", "true")
        row = next(line for line in said.splitlines() if line.startswith("OMPI_MCA_pml "))
        assert row.split()[1] == pml, version
        for ours in ("cm", pml):
            assert "note:" not in explained(here, mpiexec, "--mca", "pml", ours, "true")
        for theirs in ("ob1", "^cm"):
            assert "will not go over Thole" in explained(here, mpiexec, "--mca", "pml", theirs, "true")
            monkeypatch.setenv("OMPI_MCA_pml", theirs)
            assert f"OMPI_MCA_pml was '{theirs}', is '{pml}'" in explained(here, mpiexec, "true")
            monkeypatch.delenv("OMPI_MCA_pml")


def test_run__arguments_that_set_what_is_the_users(here: Here, openmpi: Path, hydra: Path) -> None:
    """The key of a job, which is a secret, and what is Thole's own and for speed alone."""
    for name, value in (("THOLE_JOB_KEY", "7"), ("THOLE_MPI_YIELD", "keep"), ("MPIR_CVAR_CH4_IOV_DENSITY_MIN", "1")):
        assert "note:" not in explained(here, hydra, "-genv", name, value, "-n", "2", "true")
    said = explained(here, "--option", "link=udp", hydra, "-genv", "THOLE_LINK", "raw", "-n", "2", "true")
    assert "note: the argument -genv THOLE_LINK raw goes before THOLE_LINK=udp; leave it out" in said
    said = explained(here, "--option", "link=udp", openmpi, "-x", "THOLE_LINK=raw", "-n", "2", "true")
    assert "note: -x THOLE_LINK=raw goes before THOLE_LINK=udp; leave it out" in said


def test_run__arguments_that_preload(here: Here, openmpi: Path, hydra: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "preloadable", lambda name: f"/ours/{name}")
    for value in (f"/ours/{paths.HEAP}:libm.so.6", f"/ours/{paths.HEAP} libm.so.6"):
        assert "note:" not in explained(here, "--shared-heap", hydra, "-genv", "LD_PRELOAD", value, "-n", "2", "true")
    said = explained(here, "--shared-heap", hydra, "-genv", "LD_PRELOAD", "libm.so.6", "-n", "2", "true")
    assert f"there is no shared heap; put /ours/{paths.HEAP} in front of it" in said
    for words in (
        (hydra, "-genv", "LD_PRELOAD", "/lib/libasan.so.8", "-n", "2", "true"),
        (hydra, "-n", "1", "true", ":", "-env", "LD_PRELOAD=libm.so.6 libasan.so.8", "-n", "1", "true"),
        (openmpi, "-x", "LD_PRELOAD=libasan.so.8", "-n", "2", "true"),
    ):
        said = explained(here, "--shared-heap", *words)
        assert "note: --shared-heap is left out: libasan.so.8 of LD_PRELOAD is to allocate all memory" in said
        assert "/ours/" not in said


def test_run__arguments_of_the_program_are_its_own(here: Here, openmpi: Path, hydra: Path) -> None:
    assert "note:" not in explained(here, openmpi, "-n", "2", "true", "--mca", "pml", "ob1")
    assert "note:" not in explained(here, hydra, "-n", "2", "true", "-genv", "FI_PROVIDER", "tcp")
    assert "note:" in explained(
        here, openmpi, "-n", "1", "./app", ":", "--mca", "pml", "ob1", "./app"
    )


def test_run__valgrinds_memcheck(here: Here, openmpi: Path, hydra: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the half of a message that its sender has copied for uninitialised."""
    script(hydra.parent / "valgrind", "true")
    monkeypatch.setenv("PATH", str(hydra.parent), prepend=":")
    by_itself = re.compile(r"^THOLE_BULK +one-copy +memcheck ", re.MULTILINE)
    for launcher in (openmpi, hydra):
        for words in ("valgrind", "valgrind -q --tool=memcheck", "env A=b nice valgrind", "true : -n 1 valgrind"):
            assert by_itself.search(explained(here, launcher, "-n", "1", *words.split(), "/bin/true")), words
        for words in ("", "nice", "valgrind --tool=callgrind", "/bin/true valgrind"):
            assert "THOLE_BULK" not in explained(here, launcher, "-n", "1", *words.split(), "/bin/true"), words
    checked = (hydra, "-n", "1", "valgrind", "/bin/true")
    assert not by_itself.search(explained(here, "--option", "bulk=ring", *checked))
    assert "note:" not in explained(here, hydra, "-genv", "THOLE_BULK", "ring", *checked[1:])
    monkeypatch.setenv("THOLE_BULK", "auto")
    assert "THOLE_BULK" not in explained(here, *checked)


# ---- Programs that are not what they seem ----------------------------------------------------------


def test_run__a_program_that_is_not_there(here: Here, openmpi: Path, hydra: Path, tmp_path: Path) -> None:
    said = "note: ./nothing is not found or not executable here"
    for launcher in (openmpi, hydra):
        assert said in explained(here, launcher, "-n", "2", "./nothing")
        assert "note:" not in explained(here, launcher, "-n", "2", "true")
    assert "note:" not in explained(here, hydra, "-genv", "NAME=VALUE", "-n", "2", "true")
    assert said in explained(here, hydra, "-n", "1", "true", ":", "-n", "1", "./nothing")
    # It may be there where it is to run.
    for words in (("-wdir", str(tmp_path)), ("-hosts", "alpha,beta")):
        assert said not in explained(here, hydra, *words, "-n", "2", "./nothing")
    for word in ("-wdir", "-gwdir", "-path", "-gpath"):
        assert said not in explained(here, "--mpi", "impi", hydra, word, tmp_path, "-n", "2", "./nothing")


def test_run__a_program_of_another_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same family, another installation's is as good."""
    ours, theirs = tmp_path / "ours.so", tmp_path / "theirs.so"
    app = script(tmp_path / "app", "true")
    found = {
        name: Mpi(families.family_named(name), "5.0", tmp_path / "mpiexec", ours) for name in ("mpich", "openmpi")
    }
    monkeypatch.setattr(programs, "_library_linked", lambda path: theirs)
    for name, said in (("mpich", ""), ("openmpi", f"{app} loads Open MPI 5.0 ({theirs}), and")):
        monkeypatch.setattr(programs, "_of_library", lambda *_, name=name: found[name])
        assert programs.unfit(str(app), found["mpich"]).startswith(said)
        assert bool(programs.unfit(str(app), found["mpich"])) is bool(said)


def test_run__a_network_interface_that_is_not_there(
    here: Here, openmpi: Path, hydra: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks of one host would do without, and say nothing. On others it may be there, and endpoints say where not."""
    absent = ("nosuch0", "192.0.2.77", "2001:db8::77")
    words = ("-n", "2", "true")
    for launcher in (openmpi, hydra):
        for name in absent:
            told = explained(here, "--interface", name, launcher, *words)
            assert f"note: this host has no network interface {name} (it has " in told and "lo" in told
        for name in ("lo", "127.0.0.1"):
            assert "note:" not in explained(here, "--interface", name, launcher, *words)
    assert "note:" not in explained(here, "--interface", "nosuch0", hydra, "-hosts", "alpha,beta", *words)
    for variable in ("THOLE_INTERFACE", "FI_THOLE_INTERFACE"):
        monkeypatch.setenv(variable, "nosuch0")
        assert "no network interface nosuch0" in explained(here, hydra, *words)
        monkeypatch.delenv(variable)


def test_run__too_little_of_dev_shm_for_the_mpi(
    here: Here, openmpi: Path, hydra: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPICH's own files lie there; its ranks say no more than "Bus error", or "Out of memory" where there is none."""
    words = ("-n", "2", "true", ":", "-n", "3", "true")
    for free, said in ((None, "its ranks will not start"), (4 << 20, "some 5 MiB, and 4 MiB are free"), (5 << 20, "")):
        monkeypatch.setattr(host, "shm_free", lambda free=free: free)
        told = explained(here, hydra, *words)
        assert said in told and ("note:" in told) is bool(said)
        assert "note:" not in explained(here, openmpi, *words)
        assert "note:" not in explained(here, hydra, "-hosts", "alpha,beta", *words)


def test_run__limits_that_are_too_low(thole: Tool, openmpi: Path, hydra: Path) -> None:
    """Ranks have them from here, and say "Input/output error" or "File size limit exceeded"."""
    words, elsewhere = ("-n", "2", "true", ":", "-n", "2", "true"), ("-hosts", "alpha,beta")
    for limit, said in (
        ("-n 51", "note: each of 4 ranks opens some 52 files and connections, and 51 are permitted"),
        ("-n 52", ""),
        ("-Sn 40", ""),
        ("-f 4095", "note: files may have 3.999 MiB, shared memory too"),
        ("-f 4096", ""),
    ):
        low = Tool(("bash", "-c", f'ulimit {limit} && exec "$@"', "bash", *thole.command))
        for launcher in (openmpi, hydra):
            told = low("run", "--explain", launcher, *words).stdout
            assert said in told and ("note:" in told) is bool(said), told
        assert "note:" not in low("run", "--explain", hydra, *elsewhere, *words).stdout


@pytest.mark.parametrize("options", ["ro", "size=1m,mode=1777"])
def test_run__sees_what_dev_shm_has(thole: Tool, hydra: Path, options: str) -> None:
    mounted = f'mount -t tmpfs -o {options} none /dev/shm && exec "$0" "$@"'
    apart = ("unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-m", "sh", "-c", mounted)
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    done = Tool((*apart, *thole.command))("run", "--explain", hydra, "-n", "2", "true")
    assert done.returncode == 0 and "note: MPICH makes files in /dev/shm" in done.stdout, done.stdout + done.stderr


def test_run__without_a_provider(
    here: Here, build: Path, hydra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As built where libfabric's headers are missing: `make build` again would change nothing."""
    for name in ("src", "build.ninja"):
        (tmp_path / name).symlink_to(build / name)
    monkeypatch.setattr(paths, "_build", tmp_path)
    refused(here("run", hydra, "-n", "2", "true"), "the headers of libfabric (libfabric-dev) are missing", "--reconfigure")


def test_run__installed_without_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever installs it: without the headers it would be the same again."""
    monkeypatch.setattr(paths, "_build", None)
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "lib" / "thole")
    monkeypatch.setattr(paths.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(Trouble) as said:
        paths.find(paths.PROVIDER)
    assert said.value.remedy == "install libfabric-dev or your distribution's like, then Thole again"
    with pytest.raises(Trouble) as said:
        paths.find(paths.PERF)
    assert said.value.remedy == "install Thole again"


def test_run__no_more_processes(here: Here, hydra: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named is the limit, and not the file that would be started."""

    def refuse(*words: object, **how: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    said = ("cannot be run: Resource temporarily unavailable", "ulimit -u", "pids.max")
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", refuse)
        refused(here("run", hydra, "-n", "2", "true"), *said)
    assert here("run", "--explain", hydra, "-n", "2", "true").returncode == 0
    monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't")))
    refused(here("run", "--check", hydra, "-n", "2", "true"), *said)


def test_run__a_program_in_place_of_the_launcher(thole: Tool, mpis: dict[str, InstalledMpi], conform: Compile) -> None:
    for mpi in mpis.values():
        for program in (conform(mpi), mpi.python):
            remedy = f"put the launcher in front: thole run mpiexec -n 2 {program} ..."
            refused(thole("run", program, "x", env=mpi.environment()), "is a program, and no MPI launcher", remedy)


def test_run__a_program_of_another_mpi(thole: Tool, mpis: dict[str, InstalledMpi], conform: Compile) -> None:
    """Its ranks are each alone, or go another way."""
    for mpi in mpis.values():
        for other in mpis.values():
            done = thole("run", "--explain", mpi.launcher, "-n", "2", conform(other), env=mpi.environment())
            told = f"note: {conform(other)} loads {other.mpi.label} (" in done.stdout
            assert told is (other is not mpi), done.stdout + done.stderr


def test_driver__finds_roots_commands_beyond_path(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`su` and cron leave /usr/sbin out: nothing would be loaded or unloaded, and nothing said of it."""
    assert {"/usr/sbin", "/sbin"} <= set(driver.SBIN)
    monkeypatch.setattr(driver, "SBIN", (str(tmp_path / "sbin"),))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    script(tmp_path / "sbin/modprobe", "echo in use >&2; exit 1")
    script(tmp_path / "sbin/dkms", "command -v modprobe")
    assert driver.system("modprobe", "-r", "thole") == "in use"
    assert driver.system("none-of-this-name") == ""
    assert dict(driver.status_rows(driver.Place(tmp_path, "")))["dkms"] == str(tmp_path / "sbin/modprobe")


@pytest.mark.parametrize("action", ["install", "remove"])
def test_driver__names_the_command_that_sudo_finds(
    here: Here, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """Who was to remove it, and followed what was said, installed it."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for tool, named in (("/usr/bin/thole", "thole"), ("/home/a b/bin/thole", "'/home/a b/bin/thole'")):
        monkeypatch.setattr(sys, "argv", [tool, "driver", action])
        refused(here("driver", action), f"only root installs or removes a kernel module; sudo {named} driver {action}")


def test_driver__one_that_stays_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """modprobe is content with the module that is loaded, whatever was installed: that it stays is told."""
    monkeypatch.setattr(driver, "SBIN", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(driver, "loaded", lambda: "0.0.9")
    script(tmp_path / "modprobe", 'test "$1" != -r || { echo Module thole is in use >&2; exit 1; }')
    with pytest.raises(Trouble, match="stays until its programs end, or a reboot: Module thole is in use"):
        driver.load()
    monkeypatch.setattr(driver, "MODULE", tmp_path)
    (tmp_path / "srcversion").write_text("5A1D\n")
    script(tmp_path / "modinfo", 'test "$*" = "-F srcversion thole" && echo 6B2E')
    with pytest.raises(Trouble, match="stays until its programs end"):
        driver.load()
    script(tmp_path / "modinfo", 'test "$*" = "-F srcversion thole" && echo 5A1D')
    driver.load()  # the one that was installed
    script(tmp_path / "modinfo", "exit 1")
    (tmp_path / "srcversion").write_text("")
    with pytest.raises(Trouble, match="stays until its programs end"):
        driver.load()
    script(tmp_path / "modprobe", "")
    driver.load()


def place_of(folder: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> driver.Place:
    """A system whose DKMS notes what it is asked for, and fails at what is refused; kernel `other` has a module."""
    monkeypatch.setattr(driver, "SBIN", ())
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    script(
        folder / "dkms",
        f"""echo "$*" >>{folder}/asked
        test "$1" != status || echo "thole/0.0.9, other, x86_64: installed"
        case "$*" in {refused}) exit 1 ;; esac""",
    )
    place = driver.Place(folder / "root", "mine")
    place.sources = folder / "sources"
    place.sources.mkdir()
    (place.sources / "dkms.conf").write_text('PACKAGE_VERSION="0.1.0"\n')
    for name, _ in driver.FILES:
        (place.sources / name).touch()
    place.headers("mine").mkdir(parents=True)
    place.copy("0.0.9").mkdir(parents=True)
    return place


@pytest.mark.parametrize("refused", ['"build thole/0.1.0 -k mine "*', '"install thole/0.1.0 -k mine "*', "add*"])
def test_driver__that_fails_leaves_other_kernels_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused: str
) -> None:
    """They may have had this very version, which DKMS has forgotten by then."""
    place = place_of(tmp_path, monkeypatch, refused)
    with pytest.raises(Trouble, match="dkms (add|build|install) failed"):
        driver.install(place)
    assert capsys.readouterr().out == "thole 0.1.0 is installed for kernel other\n"
    asked = (tmp_path / "asked").read_text()
    assert "install thole/0.1.0 -k other " in asked and "remove thole/0.0.9 " not in asked


def test_driver__older_ones_go_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until there is a newer one a kernel has its module, and who gets none is named."""
    place = place_of(tmp_path, monkeypatch, '"build thole/0.1.0 -k other "*')
    assert driver.install(place) == 0
    said = capsys.readouterr().out
    assert "thole 0.1.0 is installed for kernel mine\n" in said
    assert "kernel other has no module of thole 0.1.0: dkms build failed" in said
    asked = (tmp_path / "asked").read_text()
    assert -1 < asked.find("build thole/0.1.0 -k other ") < asked.find("remove thole/0.0.9 ")


def test_driver__kernels_of_dkms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As DKMS before and since 3.0 names them; a weak module is another kernel's."""
    monkeypatch.setattr(driver, "SBIN", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    lines = "thole/0.1.0, 6.1.0-18-amd64, x86_64: installed", "thole, 0.0.9, 5.4.0-1-generic, x86_64: installed"
    lines += "thole/0.1.0, 6.1.0-18-amd64, x86_64: installed (original_module exists)", "thole/0.0.8: added"
    lines += "thole/0.1.0, 4.18.0-1, x86_64: installed-weak from 4.18.0-2", "thole/0.1.0, 6.9.0, x86_64: built"
    script(tmp_path / "dkms", "\n".join(f"echo '{line}'" for line in lines))
    assert driver.Place(tmp_path, "").kernels() == ["6.1.0-18-amd64", "5.4.0-1-generic"]


# A job of two processes, the lower one in a session of its own.
JOB = "echo $$; setsid sh -c 'echo $$; exec sleep 1000.5' & wait"
RUNS = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup, or a script's &, has them ignored
for number in signal.SIGTERM, signal.SIGHUP:
    signal.signal(number, signal.SIG_DFL)
from thole_lab import process
process.GRACE_S = 0.2
with process.interrupted_by_signals():
    job = process.start(["sh", "-c", {JOB!r}], os.environ)
    while job.said()[0].count("\\n") < 2:
        pass
    wait = job.process.wait
    job.process.wait = lambda timeout=None: (print(job.said()[0], flush=True), wait(timeout=timeout))[1]
    job.wait(100)
"""


def is_running(pid: int) -> bool:
    """Not if it only waits for its parent to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_jobs__end_with_who_is_told_to(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    ) as runs:
        assert runs.stdout is not None
        below = [int(runs.stdout.readline()) for _ in range(2)]
        assert all(map(is_running, below))
        runs.send_signal(number)
        runs.wait(timeout=60)
    assert process.wait_until(lambda: not any(map(is_running, below)), 60)


def test_jobs__are_asked_to_end_when_we_are_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNS],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    ) as runs:
        assert runs.stdout is not None
        above, below = (int(runs.stdout.readline()) for _ in range(2))
        runs.kill()
    try:
        assert process.wait_until(lambda: not is_running(above), 60)
    finally:
        os.kill(below, signal.SIGKILL)  # a launcher would


def test_jobs__no_number_is_taken_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was below a job may have ended meanwhile, and another process have its number."""
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    job = process.start(["sh", "-c", f"trap '' TERM; {JOB}; wait"], os.environ)
    assert process.wait_until(lambda: job.said()[0].count("\n") == 2, 60)
    below = [int(line) for line in job.said()[0].splitlines()]
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: kill(pid, number if pid == job.process.pid else 0))
    job.end()
    assert process.wait_until(lambda: not any(map(is_running, below)), 60)


@pytest.mark.parametrize("why", ["of an older libc", "of an older kernel", "refused"])
def test_jobs__end_where_processes_have_numbers_only(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.EPERM if why == "refused" else errno.ENOSYS, "pidfd_open")

    monkeypatch.setattr(process, "GRACE_S", 0.2)
    if why == "of an older libc":
        monkeypatch.delattr(os, "pidfd_open")
    else:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    job = process.start(["sh", "-c", JOB], os.environ)
    assert process.wait_until(lambda: job.said()[0].count("\n") == 2, 60)
    below = [int(line) for line in job.said()[0].splitlines()]
    job.end()
    assert process.wait_until(lambda: not any(map(is_running, below)), 60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_jobs__end_although_we_are_told_twice(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """The second time while the launcher has its time to end: what it leaves would run on. It is not lost either."""
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    job = process.start(["sh", "-c", JOB], os.environ)
    assert process.wait_until(lambda: job.said()[0].count("\n") == 2, 60)
    below = [int(line) for line in job.said()[0].splitlines()]
    wait, before = job.process.wait, signal.getsignal(number)

    def told_again(timeout: float | None = None) -> int:
        if timeout is not None:
            signal.raise_signal(number)
        return wait(timeout)

    monkeypatch.setattr(job.process, "wait", told_again)
    try:
        signal.signal(number, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            job.end()
        assert process.wait_until(lambda: not any(map(is_running, below)), 5)
        assert signal.getsignal(number) is signal.default_int_handler
        signal.signal(number, signal.SIG_IGN)
        job.end()
    finally:
        signal.signal(number, before)


def test_compare__where_it_may_find_environments(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a build tree `make venvs` changes nothing by itself."""
    monkeypatch.setattr(compare, "find", lambda _: {})
    refused(here("compare"), "no MPI with mpi4py was found; run `make venvs`, or name")
    monkeypatch.setattr(paths, "build_tree", lambda: None)
    refused(here("compare"), "no MPI with mpi4py was found; `make venvs` in a clone", "name that with --venvs")


def test_compare__is_interrupted_by_a_hangup(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "measure", lambda *words: signal.raise_signal(signal.SIGHUP))
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert here("compare", "--hosts", "none").returncode == 130
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_peers__measured_at_once_have_a_core_each(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, seen = threading.Barrier(2, timeout=60), []

    def measure(words: list[str]) -> None:
        seen.append(words[words.index("--cores") + 1].split(",")[0])
        meeting.wait()
        raise Trouble("nobody is there")

    found = [host.Core(number, 0, core, "", 0) for number, core in ((3, 0), (4, 0), (5, 1))]
    monkeypatch.setattr(peers, "cores", lambda: found)
    monkeypatch.setattr(peers, "measure", measure)
    assert here("peers", "a", "b").returncode == 1
    assert sorted(seen) == ["3", "5"]


def test_files__one_that_cannot_be_replaced_leaves_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "options"
    path.write_text("before")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        blocks.replace(path, b"after")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("options", "before")]


def test_files__a_full_disk_is_said_of_the_file(thole: Tool, tmp_path: Path) -> None:
    path = tmp_path / "thole" / "options"
    path.parent.mkdir()
    path.write_text(f"eager_max = 8k\n{tuned.OURS.of(['bulk_ring = 1m'])}")
    full = Tool(("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *thole.command))
    refused(full("tune", "--reset", env={"XDG_CONFIG_HOME": str(tmp_path)}), f"{path}: File too large")
    assert [one.name for one in path.parent.iterdir()] == ["options"]
