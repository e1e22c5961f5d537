# SPDX-License-Identifier: BSD-3-Clause
"""`thole run srun`: what it makes of a command line, and real MPIs under a real Slurm over two hosts.

That a rank used Thole is told by the counters that its endpoint leaves in libfabric's log.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conform import LOG, counters, network_flags
from conftest import FULL, InstalledMpi, Tool
from rich.console import Console
from slurm import Slurm, missing_program
from test_tool import refused, script
from thole.base.trouble import Trouble
from thole.commands import run
from thole.mpi import check, launch, starters
from thole.mpi import plan as plans
from thole.mpi.program import library_of
from thole_lab.process import wait_until
from thole_lab.testbed import Testbed, missing_right
from thole_lab.venvs import FOREIGN

RANKS = 4
PMI = {"mpich": "pmi2", "impi": "pmi2", "openmpi": "pmix", "openmpi4": "pmix"}  # what Debian's Slurm has
SUM = "from mpi4py import MPI; c = MPI.COMM_WORLD; print('SUM', c.size, c.allreduce(c.rank))"
WAIT_S = 120.0  # for a batch job of a few seconds, even on a busy machine


# ---- Command lines ---------------------------------------------------------------------------------


def parsed(*command: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Arguments with their values, and programs."""
    row = launch.starter_in(list(command))
    assert row is not None
    words = list(launch.words(row.launch, list(command)))
    told = [(word.name, word.value) for word in words if word.name]
    return told, [command[word.index] for word in words if not word.name]


def test_words__as_getopt_has_them() -> None:
    arguments = ("-vn4", "-N", "2", "--mpi=pmi2", "--nodelist", "a,b", "--exact", "-lw=c")
    told, programs = parsed("srun", *arguments, "./app", "-n9")
    assert told == [
        ("v", ""), ("n", "4"), ("N", "2"), ("mpi", "pmi2"), ("nodelist", "a,b"), ("exact", ""), ("l", ""), ("w", "c")
    ]  # fmt: skip
    assert programs == ["./app"]


@pytest.mark.parametrize("flag", ["--x11", "--x11=all", "--oom-kill-step", "--oom-kill-step=1", "--test-only"])
def test_words__flags_take_no_program(flag: str) -> None:
    assert parsed("srun", "-n4", flag, "./app")[1] == ["./app"]


def test_words__several_programs() -> None:
    told, programs = parsed("env", "A=b", "/usr/bin/srun", "-n1", "./one", "-n", ":", "-n2", "--", "./two", "x")
    assert told == [("n", "1"), ("n", "2")]
    assert programs == ["./one", "./two"]


@pytest.mark.parametrize(
    ("command", "told", "programs"),
    [
        ("flux run -N2 -n 4 --exclusive -o pmi=pmix ./app -n 3", "N=2 n=4 exclusive= o=pmi=pmix", "./app"),
        ("jsrun -n 2 -a1 --immediate -E A=b ./app", "n=2 a=1 immediate= E=A=b", "./app"),
    ],
)
def test_words__other_starters(command: str, told: str, programs: str) -> None:
    found = parsed(*command.split())
    assert [f"{name}={value}" for name, value in found[0]] == told.split()
    assert found[1] == programs.split()


def starter_folder(tmp_path: Path, *names: str) -> dict[str, str]:
    """An environment in which these launchers show their command line."""
    for name in names:
        script(tmp_path / name, 'echo "GIVEN $*"')
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def given(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0].split()[1:]


def test_run__program_tells_the_mpi(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    env = starter_folder(tmp_path, "srun")
    start = tmp_path / "app.py"
    start.write_text(f"#!{mpi.python}\nfrom mpi4py import MPI\n")
    start.chmod(0o700)
    programs = [mpi.python, start, ["env", "A=b", mpi.python]]
    for program in programs:
        words = program if isinstance(program, list) else [program]
        done = thole("run", "--explain", "srun", "-n", "4", *words, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(mpi.mpi.label), done.stdout
        assert mpi.mpi.library is not None and str(mpi.mpi.fabric) in done.stdout
        for setting in mpi.mpi.family.settings:
            listed = setting.name == mpi.mpi.family.launch.export_list
            assert (setting.name in done.stdout) is not listed


def test_program__library_in_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What mpi4py has loaded is told by its whole path; what lies in the working folder is not asked."""
    library = tmp_path / "a folder \udcff" / "libmpi.so.12"
    (library.parent / "mpi4py").mkdir(parents=True)
    library.write_bytes(b"x")
    (library.parent / "mpi4py/__init__.py").write_text("class rc: pass\n")
    maps = "import mmap, os\nfolder = os.path.dirname(os.path.dirname(__file__))\n"
    maps += "kept = mmap.mmap(os.open(folder + '/libmpi.so.12', os.O_RDONLY), 0, prot=mmap.PROT_READ)\n"
    (library.parent / "mpi4py/MPI.py").write_text(maps)
    python = tmp_path / "python3"
    python.symlink_to(os.path.realpath(sys.executable))
    for name in ("re", "mpi4py"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(library.parent))
    assert library_of(python) == library


def test_run__compiled_program_tells_the_mpi(
    mpi: InstalledMpi, thole: Tool, conform: Callable[[InstalledMpi], Path], tmp_path: Path
) -> None:
    done = thole("run", "--explain", "srun", conform(mpi), env=starter_folder(tmp_path, "srun"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(mpi.mpi.label), done.stdout


def test_run__program_that_does_not_tell(thole: Tool, tmp_path: Path) -> None:
    env = starter_folder(tmp_path, "srun")
    refused(thole("run", "srun", "sh", "-c", "./app", env=env), "cannot tell which MPI sh uses", "--mpi")
    done = thole("run", "--mpi", "mpich", "srun", "-n", "2", "sh", "-c", "./app", env=env)
    assert given(done) == ["-n", "2", "sh", "-c", "./app"]


@pytest.mark.parametrize("word", ["sbatch", "salloc", "qsub", "bsub", "pbsdsh", "blaunch"])
def test_run__what_starts_no_ranks(thole: Tool, word: str, tmp_path: Path) -> None:
    env = starter_folder(tmp_path, word)
    refused(thole("run", word, "./app", env=env), f"{word} ", "it starts no ranks")
    assert starters.outside(f"/opt/bin/{word}") is not None


NAMES = {
    "FI_PROVIDER",
    "FI_PROVIDER_PATH",
    "MPIR_CVAR_NOLOCAL",
    "MPIR_CVAR_CH4_IOV_DENSITY_MIN",
    "MPIR_CVAR_CH4_NETMOD",
    "THOLE_JOB_KEY",
    "THOLE_MPI_MEMORY",
    "THOLE_MPI_YIELD",
}

Planned = Callable[..., plans.Plan]


@pytest.fixture
def planned(build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planned:
    """planned("srun -n2 ./app", NAME=value) is what `thole run --mpi mpich` makes of it."""
    for name in ("srun", "flux"):
        script(tmp_path / name, "exit 9")
    for name in [name for name in os.environ if name.startswith(("SLURM_", *FOREIGN))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def plan(line: str, mpi: str = "mpich", **more: str) -> plans.Plan:
        with monkeypatch.context() as here:
            for name, value in more.items():
                here.setenv(name, value)
            return plans.plan(line.split(), mpi)

    return plan


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("--export=NONE", set()),
        ("--export NONE", set()),
        ("--export=HOME,A=b", {"HOME", "A=b"}),
        ("--export=FI_PROVIDER=tcp", {"FI_PROVIDER=tcp"}),
    ],
)
def test_run__export_is_widened(planned: Planned, words: str, kept: set[str]) -> None:
    made = " ".join(planned(f"srun {words} ./app", THOLE_LINK="udp").command)
    value = re.fullmatch(r"srun --export[= ](\S+) ./app", made)
    assert value is not None, made
    names = {name for name in NAMES | {"THOLE_LINK"} if f"{name}=tcp" not in kept}
    assert set(value[1].split(",")) == names | kept


@pytest.mark.parametrize("words", ["", "--export=ALL ", "--export=ALL,A=b "])
def test_run__export_of_all_is_left_alone(planned: Planned, words: str) -> None:
    result = planned(f"srun {words}./app", SLURM_EXPORT_ENV="ALL")
    assert " ".join(result.command) == f"srun {words}./app"
    assert "SLURM_EXPORT_ENV" not in result.environment()


@pytest.mark.parametrize("value", ["FI_PROVIDER=tcp", "FI_PROVIDER_PATH=/x", "MPIR_CVAR_NOLOCAL=0"])
def test_run__export_of_what_contradicts_thole(planned: Planned, value: str) -> None:
    name, _, theirs = value.partition("=")
    for words in (f"--export=ALL,{value}", f"--export HOME,{value},THOLE_LINK=udp"):
        said = planned(f"srun {words} ./app").warnings
        assert any(line.startswith(f"the argument --export {name} {theirs} goes before {name}=") for line in said), said
    said = planned("srun ./app", SLURM_EXPORT_ENV=f"ALL,{value}").warnings
    assert any(line.startswith(f"{value} in SLURM_EXPORT_ENV goes before {name}=") for line in said), said
    kept = planned("srun --export=ALL,FI_PROVIDER=thole,A=b ./app", SLURM_EXPORT_ENV=value).warnings
    assert not any("goes before" in line for line in kept), kept


def test_run__options_of_the_users_stay(planned: Planned, tmp_path: Path) -> None:
    """What `thole run` would set of Thole's own for an MPI, the user has said otherwise, by a variable or in a file."""
    assert planned("srun ./app").environment()["THOLE_MPI_YIELD"] == "spare"
    assert "THOLE_MPI_YIELD" not in planned("srun ./app", THOLE_MPI_YIELD="keep").environment()
    options = tmp_path / "thole" / "options"
    options.parent.mkdir()
    options.write_text("mpi_yield = keep\n")
    made = planned("srun ./app", XDG_CONFIG_HOME=str(tmp_path)).environment()
    assert "THOLE_MPI_YIELD" not in made
    assert made["THOLE_MPI_MEMORY"] == "shared"


def test_run__export_by_the_environment_is_widened(planned: Planned) -> None:
    for theirs, kept in (("NONE", set()), ("HOME", {"HOME"})):
        made = planned("srun ./app", SLURM_EXPORT_ENV=theirs).environment()["SLURM_EXPORT_ENV"]
        assert set(made.split(",")) == NAMES | kept
    # An argument goes before it.
    result = planned("srun --export=ALL ./app", SLURM_EXPORT_ENV="NONE")
    assert result.command == ["srun", "--export=ALL", "./app"]
    assert "SLURM_EXPORT_ENV" not in result.environment()


def test_run__flux_takes_variables_away(planned: Planned) -> None:
    words = planned("flux run -n2 --env=-* ./app").command
    assert words[:4] == ["flux", "run", "-n2", "--env=-*"]
    assert {word.partition("=")[2] for word in words[4:-1]} == NAMES
    assert planned("flux run ./app").command == ["flux", "run", "./app"]


def test_check__programs_in_a_file(planned: Planned) -> None:
    """thole-rank before the file's name would be what srun reads programs from."""
    command = planned("srun -n2 --multi-prog prog.conf").command
    with pytest.raises(Trouble, match=r"--multi-prog .* prog\.conf") as caught:
        check.wrap(starters.SLURM, command, [], "", "token")
    assert "--check" in caught.value.remedy


def test_run__ways_to_find_each_other(planned: Planned) -> None:
    (said,) = planned("srun --mpi=none ./app").warnings
    assert said.startswith("--mpi=none tells ranks of MPICH nothing of each other")
    (said,) = planned("srun ./app", "openmpi", SLURM_MPI_TYPE="pmi2").warnings
    assert said.startswith("SLURM_MPI_TYPE=pmi2 tells ranks of Open MPI nothing of each other")
    for mpi, words in (("openmpi", "--mpi=pmix_v4 "), ("mpich", "--mpi pmi2 "), ("mpich", "--mpi=list "), ("impi", "")):
        assert planned(f"srun {words}./app", mpi).warnings == []


@pytest.mark.parametrize(
    ("words", "allocated", "expected"),
    [
        ("-w n[1-2],x", "", "n1, n2, x (-w)"),
        ("-wn[1-2]", "", "n1, n2 (-wn[1-2])"),
        ("--nodelist=n7 -N1", "n[1-9]", "n7 (--nodelist=n7)"),
        ("-N 2-4 -n8", "", "2 as the launcher chooses"),
        ("-n8", "", "as many as the launcher chooses"),
        ("-N2", "n[1-2]", "n1, n2 (SLURM_JOB_NODELIST)"),
    ],
)
def test_explain__hosts_of_a_starter(planned: Planned, words: str, allocated: str, expected: str) -> None:
    result = planned(f"srun {words} ./app", SLURM_JOB_NODELIST=allocated)
    text = io.StringIO()
    run.explain(result, Console(file=text, width=200))
    assert f"\nhosts: {expected}\n" in text.getvalue()


# ---- A real Slurm ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """On hosts of its own, which nobody clears."""
    missing = missing_program()
    if missing and request.config.getoption("--require"):
        pytest.fail(f"Slurm is required, and {missing} was not found")
    if missing:
        pytest.skip(f"Slurm is not installed: there is no {missing}")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons want root")
    reason = missing_right()
    if reason:
        pytest.skip(f"no hosts can be made: {reason}")
    with Testbed(2) as hosts, Slurm(hosts) as slurm:
        yield slurm


def over_thole(done: subprocess.CompletedProcess[str], log: str) -> None:
    """Every rank was one of RANKS on two hosts, and sent what it sent over Thole, by the network too."""
    assert done.returncode == 0, done.stderr[-3000:]
    said = re.findall(r"SUM (\d+) (\d+)", done.stdout)
    assert said == [(str(RANKS), str(RANKS * (RANKS - 1) // 2))] * RANKS, done.stdout + done.stderr[-3000:]
    assert len(re.findall(r"counter sent_eager", log)) == RANKS, log[-3000:]
    assert counters(log)["frames_sent"] > 0


def srun(cluster: Slurm, mpi: InstalledMpi, thole: Tool, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = [*thole.command, "run", "srun", "-N2", f"-n{RANKS}", f"--mpi={PMI[mpi.name]}", *words]
    return cluster.run(*line, mpi.python, "-c", SUM, env=mpi.environment(**LOG, **env))


def test_srun__all_traffic_is_on_thole(cluster: Slurm, mpi: InstalledMpi, thole: Tool) -> None:
    done = srun(cluster, mpi, thole)
    over_thole(done, done.stderr)


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_srun__export_none(cluster: Slurm, mpi: InstalledMpi, thole: Tool, by: str) -> None:
    if (mpi.name, by) not in (("mpich", "argument"), ("impi", "environment")):
        pytest.skip("two MPIs, one way each, to save time")
    if by == "argument":
        done = srun(cluster, mpi, thole, "--export=NONE")
    else:
        done = srun(cluster, mpi, thole, SLURM_EXPORT_ENV="NONE")
    over_thole(done, done.stderr)


def test_srun__check(cluster: Slurm, mpis: dict[str, InstalledMpi], thole: Tool) -> None:
    """Slurm puts a label before each line, and has handed on no variable but those that `thole run` named."""
    if "mpich" not in mpis:
        pytest.skip("mpich is not installed")
    mpi = mpis["mpich"]
    line = [*thole.command, "run", "--check", "srun", "-lN2", f"-n{RANKS}", f"--mpi={PMI['mpich']}", "--export=NONE"]
    done = cluster.run(*line, mpi.python, "-c", SUM, env=mpi.environment())
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("srun: ")]
    names = ", ".join(cluster.hosts.names)
    assert lines[0] == f"thole: all of {RANKS} ranks on 2 hosts ({names}) used Thole", done.stderr
    assert re.match(r"thole:   network: \d+ messages", lines[-1])


@pytest.mark.over("openmpi")
@pytest.mark.parametrize(
    ("more", "groups"),
    [
        ((), ("modes", "collectives")),
        *([(("--export=HOME,OPAL_PREFIX,PMIX_PREFIX",), ("modes",))] if FULL else []),
    ],
)
def test_srun__by_ucx(
    cluster: Slurm,
    mpi: InstalledMpi,
    thole: Tool,
    conform: Callable[[InstalledMpi], Path],
    more: tuple[str, ...],
    groups: tuple[str, ...],
) -> None:
    """A compiled program of Open MPI's goes by UCX's interface, as with its own launcher; also where few variables are
    handed on."""
    tool = [*thole.command, "run", "--check", "srun", "-N2", f"-n{RANKS}", f"--mpi={PMI[mpi.name]}", *more]
    words = (conform(mpi), *network_flags(mpi.name), *groups)
    done = cluster.run(*tool, *words, env=mpi.environment(**LOG))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert all(f"{group} ok" in done.stdout for group in groups), done.stdout
    assert re.search(rf"^thole: all of {RANKS} ranks on 2 hosts", done.stderr, re.M), done.stderr[-3000:]
    by_ucx = [line for line in (done.stdout + done.stderr).splitlines() if "UCX " in line]
    assert counters("\n".join(by_ucx))["network_messages"] > 0


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
def test_sbatch__without_the_users_environment(
    cluster: Slurm, mpis: dict[str, InstalledMpi], thole: Tool, launcher: str, tmp_path: Path
) -> None:
    """`sbatch --export=NONE` leaves SLURM_EXPORT_ENV=NONE to the script, which srun obeys."""
    if "mpich" not in mpis:
        pytest.skip("mpich is not installed")
    mpi = mpis["mpich"]
    start = [launcher, f"--mpi={PMI['mpich']}"] if launcher == "srun" else [str(mpi.launcher), "-ppn", "2"]
    line = shlex.join([*thole.command, "run", *start, "-n", str(RANKS), str(mpi.python), "-c", SUM])
    settings = " ".join(f"{name}={value}" for name, value in {**LOG, **cluster.environment}.items())
    end = tmp_path / "end"
    text = f"export {settings}\n{line}\necho $? >{end}.new\nmv {end}.new {end}"
    batch = script(tmp_path / "job", f'test "$SLURM_EXPORT_ENV" = NONE || exit 9\n{text}')
    files = (f"--output={tmp_path}/out", f"--error={tmp_path}/err")
    done = cluster.run("sbatch", "-N2", f"-n{RANKS}", "--export=NONE", *files, batch, env=mpi.environment())
    assert done.returncode == 0, done.stderr
    assert wait_until(end.exists, WAIT_S), (tmp_path / "err").read_text()
    out, err = ((tmp_path / name).read_text() for name in ("out", "err"))
    over_thole(subprocess.CompletedProcess([], int(end.read_text()), out, err), err)
