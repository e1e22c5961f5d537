# SPDX-License-Identifier: BSD-3-Clause
"""The tool as shells, batch scripts and terminals start it: signals, streams, encodings, and words before the launcher.

What `thole run` starts behaves as it does without: the same signals, outputs and arguments, byte by byte.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import InstalledMpi, Tool, clean_environment
from test_tool import ALL_BUT_ONE, refused, script
from test_tool_troubles import HYDRA
from thole.base import host
from thole.mpi import families, launch
from thole.mpi.check import wrap

IGNORED = 'grep SigIgn: /proc/self/status; printf "%s\\n" "$@"'
LIMIT_S = 600
QUICK = ("--rounds", "1", "--sample-ms", "1")
# Much on the standard error, and a status of its own.
NOISE = "i=0; while test $i -lt 3000; do printf '%0100d\\n' $i >&2; i=$((i + 1)); done; exit 7"
LOUD = f"last=; for word; do last=$word; done\ntest \"$last\" = loud && {{ {NOISE}; }}"


@pytest.fixture
def hydra(tmp_path: Path) -> Path:
    """What says that it is MPICH's launcher, and else which signals it ignores, and its arguments."""
    folder = tmp_path / "with a space"
    return script(folder / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\n{LOUD}\n{IGNORED}')


def started(
    thole: Tool, *words: bytes | str | Path, before: str = '"$@"', **env: str
) -> subprocess.CompletedProcess[bytes]:
    """By a shell, that may do something to its outputs; what was said as it is."""
    command = ["sh", "-c", before, "sh", *thole.command, *words]
    return subprocess.run(
        command,
        env=clean_environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


# ---- Signals and streams ---------------------------------------------------------------------------


def test_run__ignores_no_signal_for_what_it_starts(thole: Tool, hydra: Path) -> None:
    """Python ignores SIGPIPE; a program in `thole run mpiexec ... | head` would write on for ever."""
    ignored = int(started(thole, "run", hydra, "x").stdout.split()[1], 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not ignored >> (number - 1) & 1
    kept = started(thole, "run", hydra, "x", before="trap '' HUP; exec \"$@\"")
    assert int(kept.stdout.split()[1], 16) >> (signal.SIGHUP - 1) & 1, "nohup's stays"


def test_thole__started_by_who_ignores_the_ends_of_children(thole: Tool, hydra: Path) -> None:
    """The kernel then keeps no exit status, and Python takes each for 0."""
    ignores = "import os, sys; from signal import *; signal(SIGCHLD, SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    deaf = f"exec '{sys.executable}' -c '{ignores}' \"$@\""
    assert started(thole, "run", "--check", hydra, "./app", "loud", before=deaf).returncode == 7, "the launcher's"
    assert started(thole, "perf", "--window", "0", before=deaf).returncode == 2


def test_check__goes_on_where_nobody_reads(thole: Tool, hydra: Path) -> None:
    """Else the launcher would wait for ever, for somebody to read what its ranks have to say."""
    for before in ('"$@" 2>&1 | head -n 1', '"$@" 2>&-', '"$@" 2>&- <&- >&-', '"$@" 2>/dev/full'):
        done = started(thole, "run", "--check", hydra, "./app", "loud", before=before)
        assert b"Traceback" not in done.stdout + done.stderr
        assert done.returncode == (0 if "|" in before else 7), "the launcher's"


def test_run__closed_outputs_stay_closed(thole: Tool, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    shows = f'for i in 0 2; do test -e /proc/$$/fd/$i && echo $i; done >{seen}'
    loose = script(tmp_path / "mpiexec", f'test "$1" = --version && {{ {HYDRA}; exit; }}\n{shows}')
    started(thole, "run", loose, "x", before='"$@" <&- 2>&-')
    assert seen.read_text() == ""


def test_thole__as_python_developers_have_it(thole: Tool, hydra: Path) -> None:
    """With all of Python's own warnings, as PYTHONDEVMODE and PYTHONWARNINGS switch on, it says no more."""
    for words in (("run", "--check", hydra, "./app"), ("perf", "--json", "--latency", "--sizes", "8", *QUICK)):
        done = started(thole, *words, PYTHONDEVMODE="1", PYTHONWARNINGS="error")
        assert b"Warning" not in done.stderr and b"Traceback" not in done.stderr, done.stderr.decode()


def test_thole__says_which_python_misses_a_package(thole: Tool, tmp_path: Path) -> None:
    """It may be another one than that of the user's environment, whose pip puts packages where they are not seen."""
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError('no rich', name='rich')\n")
    done = started(thole, "info", PYTHONPATH=str(tmp_path))
    python = thole.command[0]
    said = f"the Python package rich is missing for {python}; {python} -m pip install rich, or"
    assert done.returncode == 2 and said in done.stderr.decode(), done.stderr.decode()


# ---- Encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8:strict", "latin-1", "ascii"])
def test_run__arguments_in_any_encoding(thole: Tool, hydra: Path, encoding: str) -> None:
    word = b"caf\xe9 \xc5\x82 a"
    assert started(thole, "run", hydra, "./app", word).stdout.split(b"\n")[2] == word
    done = started(thole, "run", "--explain", hydra, word, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")


def test_explain__command_can_be_given_to_a_shell(thole: Tool, hydra: Path) -> None:
    done = started(thole, "run", "--explain", hydra, "./app", "two words", "$HOME")
    line = done.stdout.decode().splitlines()[-1]
    assert line.startswith("would run: ")
    shown = subprocess.run(["sh", "-c", line.removeprefix("would run: ")], capture_output=True, text=True, check=False)
    assert shown.stdout.splitlines()[1:] == ["./app", "two words", "$HOME"]


def test_peers__file_in_any_encoding(thole: Tool, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"127.0.0.1:1 # caf\xe9\ncaf\xe9\n")
    done = started(thole, "peers", "--file", hosts, "--timeout", "0.2")
    assert done.returncode == 1 and b"Traceback" not in done.stderr, done.stderr


def test_tables__lose_nothing_in_a_narrow_terminal(thole: Tool) -> None:
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 24, 40, 0, 0))
    with os.fdopen(own, "rb", buffering=0) as screen, os.fdopen(its, "wb") as terminal:
        command = [*thole.command, "peers", "127.0.0.1:1", "--timeout", "0.2"]
        done = subprocess.run(command, env=clean_environment(), stdout=terminal, timeout=LIMIT_S, check=False)
        shown = screen.read(65536).decode()
    assert done.returncode == 1
    assert "127.0.0.1" in re.sub(r"\x1b\[[\d;]*m|\s", "", shown) and "…" not in shown, shown


# ---- Words before the launcher, and its arguments --------------------------------------------------


def test_run__behind_what_hands_on_the_environment(thole: Tool, hydra: Path) -> None:
    for words in (["nohup"], ["setsid", "-w"], ["chrt", "-o", "0"], ["prlimit", "--core=0"]):
        done = started(thole, "run", "--explain", *words, hydra, "true")
        assert done.returncode == 0 and b"note:" not in done.stdout, done.stderr


def test_run__behind_what_is_not_there(thole: Tool, hydra: Path) -> None:
    """It was said that its first line, or its loader, were missing."""
    done = thole("run", "/nowhere/numactl", "-N0", hydra, "true")
    refused(done, "/nowhere/numactl is not found or not executable", "give its full path")


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ("sudo", True),
        ("sudo -E", False),
        ("sudo -nE", False),
        ("sudo --preserve-env=FI_PROVIDER", False),
        ("nice -n 1 sudo -u somebody", True),
        ("doas -n", True),
        ("env -i A=1", True),
        ("env A=1", False),
        ("systemd-run --pty", True),
        ("setpriv --reset-env", True),
        ("setpriv --nnp", False),
        ("systemd-run --scope", False),
    ],
)
def test_run__behind_what_takes_the_environment_away(hydra: Path, words: str, warned: bool) -> None:
    command = [*words.split(), str(hydra), "-i", "./app"]
    assert (launch.cleaner_in(command) is not None) == warned


def test_run__says_where_it_belongs(thole: Tool) -> None:
    for word, remedy in (("ssh", "ssh HOST thole run"), ("apptainer", "the container")):
        refused(thole("run", word, "x", "mpiexec", "./app"), f"{word} starts", remedy)
    refused(thole("run", "thole", "run", "mpiexec", "./app"), "thole is what is running", "name it once")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("openmpi4", "--leave-session-attached -np 2"),
        ("openmpi4", "--leave-session-attached"),
        ("openmpi", "--stop-on-exec --map-by core"),
        ("openmpi", "-n 2 --display-comm"),
        ("openmpi", "-n 2 --display-topo host1"),
        ("openmpi", "--a-flag-of-tomorrow -np 2"),
        ("openmpi", "--omca btl_base_verbose 1"),
        ("openmpi", "-gomca btl_base_verbose 1"),
        ("mpich", "-pmi-port -n 2 -genv OMP_NUM_THREADS -1"),
        ("mpich", "-genv OMP_NUM_THREADS=2 -n 2 -env NAME=a=b"),
        ("impi", "-silent-abort -rr -n 2"),
    ],
)
def test_launch__program_is_found_behind_the_launchers_arguments(
    hydra: Path, build: Path, name: str, arguments: str
) -> None:
    command = [str(hydra), *arguments.split(), "./app", "-x"]
    words = wrap(families.family_named(name).launch, command, [], "", "token")
    assert words[words.index("--") + 1] == "./app"
    assert words[: words.index("token") - 1] == command[:-2]


# Of each launcher, what its table of arguments has and its help may not say.
FLAGS = {
    "mpich": "enable-auto-cleanup dac enable-hostname-propagation report-bindings debug prepend-rank",
    "impi": "enable-auto-cleanup dac trace trace-imbalance trace_imbalance trace-pt2pt trace-collectives check-mpi "
    "check tv v6 debug gdb-ia idb pmi-aggregate pmi-noaggregate prefork",
    "openmpi": "no-aggregate-help soft parseable parsable report-bindings system-server",
    "openmpi4": "display-topo dvm tv",
}


@pytest.mark.parametrize("name", FLAGS)
def test_launch__flags_take_no_program(hydra: Path, name: str) -> None:
    for flag in FLAGS[name].split():
        assert launch.programs(families.family_named(name).launch, [str(hydra), f"-{flag}", "./app"]) == [2], flag


@pytest.mark.parametrize("words", ["bash -x job", "nice bash -x job", "make -f job"])
def test_run__arguments_of_what_runs_a_script_are_not_the_launchers(thole: Tool, tmp_path: Path, words: str) -> None:
    """-x is Open MPI's to hand variables on, and the script needs not be executable."""
    (tmp_path / "job").write_text("all:\n\t@true\n" if "make" in words else "mpiexec -n 2 ./app\n")
    done = thole("run", "--explain", "--mpi", "openmpi", *words.split(), cwd=tmp_path)
    assert f"would run: {words}\n" in done.stdout
    assert "note:" not in done.stdout


# What a rank of `filed` says: its provider, what is handed on, its arguments. MPICH's mpiexec may end by SIGPIPE where
# programs end at once, without Thole, too.
SHOWN = 'echo "$FI_PROVIDER,$HANDED,$*"; sleep 0.3'


@pytest.fixture
def filed(tmp_path: Path, mpi: InstalledMpi) -> list[str]:
    """The argument of a launcher, and its file of two programs; the first has a variable of its own."""
    way = mpi.mpi.family.launch
    program = script(tmp_path / "program", SHOWN)
    own = f"{way.export} HANDED=1" if way.export else "-env HANDED 1"
    file = tmp_path / "programs"
    quoted = '"a  b" c"d' if way.quotes else 'a b c"d'
    file.write_text(f"{own} -n 1 {program} first\n\n-n 1   {program} second {quoted}\n")
    return [f"-{'-' * bool(way.export)}{way.programs[0]}", str(file)]


def test_run__programs_of_a_file(mpi: InstalledMpi, thole: Tool, filed: list[str]) -> None:
    """They are seen like those of a command line; of what stays in the file Open MPI 4.1 wants no second way."""
    done = thole("run", mpi.launcher, *filed, env=mpi.environment())
    rows = sorted(line.split(",") for line in done.stdout.splitlines())
    assert done.returncode == 0, done
    second = 'second a  b c"d' if mpi.mpi.family.launch.quotes else 'second a b c"d'
    assert sorted(row[2] for row in rows) == ["first", second], done
    assert {row[0] for row in rows} == {"thole"}
    assert ["thole", "1", "first"] in rows  # Open MPI 5 gives the first program's to all
    done = thole("run", "--check", mpi.launcher, *filed, env=mpi.environment())
    assert "ran without Thole: " in done.stderr
    assert "first" in done.stdout and second in done.stdout
    if mpi.name == "openmpi4":  # which has no word for -n beside a file of programs; others judge it otherwise
        done = thole("run", mpi.launcher, "-n", "1", *filed, env=mpi.environment())
        assert "thole,1,first" in done.stdout


@pytest.mark.parametrize("by", ["parameters", "tune"])
def test_run__variables_that_files_hand_on(mpi: InstalledMpi, thole: Tool, tmp_path: Path, by: str) -> None:
    """Those that Thole hands on come beside them, not in their place."""
    if not mpi.mpi.family.launch.export_list:
        pytest.skip("this launcher hands on everything")
    if by == "tune" and mpi.name == "openmpi":
        pytest.skip("Open MPI 5 takes no such parameter in a file of arguments")
    home = tmp_path / "home"
    parameters, tune = home / ".openmpi" / "mca-params.conf", tmp_path / "tune"
    parameters.parent.mkdir(parents=True)
    parameters.write_text(f"mca_base_env_list = HANDED=before\nmca_base_env_list = HANDED={by};HOME \n")
    tune.write_text('-mca mca_base_env_list "HANDED=tune;HOME"\n# -mca mca_base_env_list HANDED=not\n')
    words = ["--tune", str(tune)] if by == "tune" else []
    program = script(tmp_path / "program", SHOWN)
    done = thole("run", mpi.launcher, *words, "-n", "1", program, "x", env=mpi.environment(HOME=str(home)))
    assert done.stdout == f"thole,{by},x\n", done


@pytest.mark.parametrize("by", ["variable", "parameters", "argument"])
def test_run__lists_that_hand_on_what_thole_sets(mpi: InstalledMpi, thole: Tool, tmp_path: Path, by: str) -> None:
    """Nothing comes twice, which Open MPI 5 refuses; what Thole needs does, but for arguments, of which it is said."""
    if not mpi.mpi.family.launch.export_list:
        pytest.skip("this launcher hands on everything")
    names = "HANDED=1;FI_PROVIDER=tcp;THOLE_SPIN=3us;FI_PROVIDER_PATH=/nowhere"
    env = {"HOME": str(tmp_path), "THOLE_SPIN": "5us"}
    words = ["--mca", "mca_base_env_list", names] if by == "argument" else []
    if by == "variable":
        env["OMPI_MCA_mca_base_env_list"] = names
    if by == "parameters":
        (tmp_path / ".openmpi").mkdir()
        (tmp_path / ".openmpi" / "mca-params.conf").write_text(f"mca_base_env_list = {names}\n")
    program = script(tmp_path / "program", 'echo "$FI_PROVIDER,$HANDED,$THOLE_SPIN,$FI_PROVIDER_PATH"')
    done = thole("run", mpi.launcher, *words, "-n", "1", program, env=mpi.environment(**env))
    provider, *others, path = done.stdout.strip().split(",")
    assert (provider, others) == ("tcp" if by == "argument" else "thole", ["1", "3us"]), done
    assert path.startswith("/") and path.endswith(":/nowhere")
    said = "FI_PROVIDER=tcp goes before FI_PROVIDER=thole" if by == "argument" else "is FI_PROVIDER=thole for this run"
    assert said in done.stderr


def test_run__a_file_of_arguments_that_hands_on(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    if not mpi.mpi.family.launch.parameters:
        pytest.skip("this launcher has no such file")
    tune = tmp_path / "tune"
    tune.write_text("-x HANDED=1\n")
    program = script(tmp_path / "program", SHOWN)
    done = thole("run", mpi.launcher, "--tune", tune, "-n", "1", program, "x", env=mpi.environment())
    assert done.stdout == "thole,1,x\n", done


# ---- Files -----------------------------------------------------------------------------------------


def test_files__relative_folders_of_the_environment_are_ignored(thole: Tool, tmp_path: Path) -> None:
    """The library does so, as the XDG specification has it: what was written there would be read by nobody."""
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state"}
    assert f"{tmp_path}/.config/thole/options" in thole("tune", "--reset", env=env, cwd=tmp_path).stdout
    done = thole("setup", "--undo", "--root", tmp_path, env=env, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_files__options_file_of_the_environment(thole: Tool, tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("spin = 7us\n")
    env = {"THOLE_OPTIONS_FILE": str(file)}
    assert f"options file: {file} (read)" in thole("info", "options", env=env).stdout
    assert str(file) in thole("tune", "--reset", env=env).stdout


def test_tune__a_link_stays_one_with_its_mode(thole: Tool, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles"
    begin, end = "# >>> written by thole tune; thole tune --reset takes it out", "# <<< thole tune"
    kept.write_text(f"spin = 7us\n{begin}\nbulk = ring\n{end}\n")
    kept.chmod(0o600)
    if os.geteuid() == 0:  # as by sudo
        os.chown(kept, 54321, 54322)
    owner = kept.stat().st_uid, kept.stat().st_gid
    link = tmp_path / "thole" / "options"
    link.parent.mkdir()
    link.symlink_to(kept)
    done = thole("tune", "--reset", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert link.is_symlink() and kept.read_text() == "spin = 7us\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (kept.stat().st_uid, kept.stat().st_gid) == owner


def test_tune__measures_with_the_options_given(thole: Tool, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), **ALL_BUT_ONE}
    done = thole("tune", "--dry-run", "--option", "eager_max=32k", env=env)
    assert done.returncode == 0, done.stderr
    assert "eager_max: set by --option" in done.stdout
    refused(thole("tune", "--dry-run", "--option", "eager_max=banana", env=env), "eager_max", "banana")


def test_run__library_that_is_empty(thole: Tool, tmp_path: Path) -> None:
    hydra = script(tmp_path / "bin" / "mpiexec", HYDRA)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so.12").touch()
    refused(thole("run", hydra, "x"), "without libfabric")


def test_perf__says_which_signal_ended_it(thole: Tool, build: Path) -> None:
    script_text = "import sys; from thole.perf import program; from thole.base import paths\n"
    script_text += f"paths.use_build({str(build)!r}); paths.find = lambda name: sys.argv[1]; program.measure([])"
    killed = script(Path(os.environ["XDG_CONFIG_HOME"]) / "killed", "printf '{\"type\":'; kill -9 $$")
    done = subprocess.run(
        [thole.command[0], "-c", script_text, killed],
        env=clean_environment(PYTHONPATH=str(Path(launch.__file__).resolve().parents[2])),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ended by SIGKILL" in done.stderr, done.stderr


# ---- Containers ------------------------------------------------------------------------------------


def test_host__two_cores_that_share_a_cache() -> None:
    def core(number: int, core: int, cache: str) -> host.Core:
        return host.Core(number, 0, core, cache, 0)

    first, twin, far, near = core(0, 0, "0,1,3"), core(1, 0, "0,1,3"), core(2, 1, "2"), core(3, 2, "0,1,3")
    assert host.pair([first, twin, far, near]) == (0, 3)
    assert host.pair([first, twin, far]) == (0, 2)
    assert host.pair([first, twin]) == (0, 1)
    assert host.pair([first]) == (0, 0)


def test_host__limits_of_control_groups(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")

    write("memory.max", "max")
    write("job/memory.max", "4096")
    write("job/step/memory.max", "8192")
    write("job/cpu.max", "150000 100000")
    write("job/step/cpu.max", "max 100000")
    second = "0::/job/step\n"
    assert (host.group_processors(second, tmp_path), host.group_memory_bytes(second, tmp_path)) == (1.5, 4096)
    write("memory/docker/memory.limit_in_bytes", "1024")
    write("memory/memory.limit_in_bytes", "9223372036854771712")
    write("cpu,cpuacct/docker/cpu.cfs_quota_us", "-1")
    write("cpu,cpuacct/docker/cpu.cfs_period_us", "100000")
    first = "4:memory:/docker\n2:cpu,cpuacct:/docker\n1:name=systemd:/\n"
    assert (host.group_processors(first, tmp_path), host.group_memory_bytes(first, tmp_path)) == (None, 1024)
    assert (host.group_processors("0::/\n", tmp_path), host.group_memory_bytes("", tmp_path)) == (None, None)
