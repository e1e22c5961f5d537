# SPDX-License-Identifier: BSD-3-Clause
"""The `thole` command as a user meets it: what it says, what it sets, what it writes and takes back."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT, InstalledMpi, Tool, clean_environment
from jobs import in_full_only
from thole import cli
from thole.base import paths
from thole.commands.tune import KNOBS, try_knob
from thole.mpi import families as mpi_table
from thole_lab.benches import PINGPONGS, WAYS, Results
from thole_lab.charts import summary
from thole_lab.process import descendants, wait_until

# Prints, for each rank, the shared mappings that it has after a message to every other rank.
MAPPINGS = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.alltoall([comm.rank] * comm.size)
seen = {line.split(None, 5)[5].split()[0] for line in open("/proc/self/maps")
        if "s" in line.split()[1] and len(line.split()) > 5}
print("MAPPED", *sorted(seen), flush=True)
"""


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The tool said in one line what is wrong and what to do, and ended with 2."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("thole: ")
    for word in words:
        assert word in lines[0]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# ---- thole run -------------------------------------------------------------------------------------


def test_explain__each_mpi(mpi: InstalledMpi, thole: Tool, build: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    done = thole("run", "--explain", mpi.launcher, "-n", "1", "touch", mark)
    assert done.returncode == 0, done.stderr
    assert mpi.mpi.label in done.stdout
    assert str(mpi.launcher) in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for setting in mpi.mpi.family.settings:
        value = setting.value.format(provider_dir=build / "provider", fabric=mpi.mpi.fabric, tuning=mpi.mpi.tuning)
        assert value.split(";")[0] in rows[setting.name]
    assert not mark.exists()


@pytest.mark.about("impi")
def test_explain__tuning_inside_a_node(mpi: InstalledMpi, thole: Tool) -> None:
    """Intel MPI's own, where all ranks are on this host and the user has none."""
    assert mpi.mpi.tuning is not None and mpi.mpi.tuning.is_file()
    for words, env, expected in (
        ((), {}, True),
        (("-hosts", "a,b"), {}, False),
        ((), {"I_MPI_TUNING_BIN": "/mine"}, False),
        ((), {"I_MPI_TUNING_MODE": "auto"}, False),
    ):
        done = thole("run", "--explain", mpi.launcher, *words, "-n", "2", "true", env=env)
        assert done.returncode == 0, done.stderr
        assert (str(mpi.mpi.tuning) in done.stdout) == expected
        assert "/mine" not in done.stdout + done.stderr
    done = thole("run", "--explain", mpi.launcher, "-genv", "I_MPI_TUNING_BIN", "/mine", "-n", "2", "true")
    assert "I_MPI_TUNING_BIN /mine goes before" not in done.stdout + done.stderr


def test_run__all_traffic_is_on_thole(mpi: InstalledMpi) -> None:
    foreign = ("mpich_shar", "sm_segment", "vader_segment", "ucx_shm")
    done = mpi.run_python(2, MAPPINGS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("MAPPED") == 2
    assert done.stdout.count("memfd:thole") >= 2
    assert not any(name in done.stdout for name in foreign)


def test_run__as_shipped_has_no_thole(mpi: InstalledMpi) -> None:
    done = mpi.run_python(2, MAPPINGS, over_thole=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("MAPPED") == 2
    assert "memfd:thole" not in done.stdout


def test_run__exit_status_is_the_programs(mpi: InstalledMpi) -> None:
    assert mpi.run(1, "sh", "-c", "exit 3").returncode == 3


def test_run__option_reaches_ranks(mpi: InstalledMpi) -> None:
    done = mpi.run(2, "sh", "-c", "echo got=$THOLE_EAGER_MAX", options={"eager_max": "12k"})
    assert done.stdout.count("got=12k") == 2


def test_run__launcher_by_symlink_path_and_wrapper(
    mpi: InstalledMpi, thole: Tool, tmp_path: Path
) -> None:
    link = tmp_path / "bin" / "mpiexec"
    link.parent.mkdir()
    link.symlink_to(mpi.launcher)
    path = f"{link.parent}:{os.environ['PATH']}"
    for words in (
        [str(link), "-n", "1", "true"],
        ["mpiexec", "-n", "1", "true"],
        ["env", "A=1", "timeout", "60", "mpiexec", "-n", "1", "true"],
    ):
        done = thole("run", "--explain", *words, env={"PATH": path})
        assert done.returncode == 0, done.stderr
        assert mpi.mpi.label in done.stdout


def test_run__prterun_says_nothing_but_its_neighbour_does(
    mpis: dict[str, InstalledMpi], thole: Tool
) -> None:
    if "openmpi" not in mpis:
        pytest.skip("openmpi is not installed")
    prterun = mpis["openmpi"].launcher.parent / "prterun"
    done = thole("run", "--explain", prterun, "-n", "1", "true")
    assert done.returncode == 0, done.stderr
    assert "Open MPI 5" in done.stdout


def test_run__unknown_launcher(thole: Tool, tmp_path: Path) -> None:
    srun = script(tmp_path / "srun", "echo slurm 23.1")
    refused(thole("run", srun, "-n", "2", "./app"), "srun", "--mpi", "mpich")
    silent = script(tmp_path / "mpiexec", "echo something else")
    refused(thole("run", silent, "-n", "2", "./app"), "something else", "--mpi")
    refused(thole("run", "no-such-launcher", "./app"), "no-such-launcher", "not found")
    refused(thole("run"), "no command")


def test_run__a_launcher_that_cannot_be_run(thole: Tool, tmp_path: Path) -> None:
    """A shell runs a script without a first line of that kind; the kernel does not."""
    launcher = script(tmp_path / "mpiexec", "true")
    for text, said in (("true\n", "needs a first line"), ("#!/nowhere/sh\n", "what its first line names")):
        launcher.write_text(text)
        for words in ([], ["--mpi", "mpich"], ["--check", "--mpi", "mpich"]):
            refused(thole("run", *words, launcher, "-n", "2", "true"), f"{launcher} cannot be run", said)


def test_run__unknown_launcher_named_by_the_user(thole: Tool, build: Path, tmp_path: Path) -> None:
    srun = script(tmp_path / "srun", 'echo "$FI_PROVIDER $MPIR_CVAR_NOLOCAL $FI_PROVIDER_PATH"')
    done = thole("run", "--mpi", "mpich", srun)
    assert done.stdout.split() == ["thole", "1", str(build / "provider")]


def test_run__mpi_without_libfabric(thole: Tool, tmp_path: Path) -> None:
    hydra = script(
        tmp_path / "bin" / "mpiexec", "printf 'HYDRA build details:\\n    Version:     4.0.2\\n'"
    )
    source = tmp_path / "empty.c"
    source.write_text("int MPI_Init_is_not_here;\n")
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libmpi.so.12"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    refused(thole("run", hydra, "-n", "2", "x"), "MPICH 4.0.2", "without libfabric", "pip install")
    done = thole("setup", "--dry-run", "--mpi", hydra)
    assert done.returncode == 2
    assert "without libfabric" in done.stdout


def test_run__mpi_of_which_ldd_says_nothing(thole: Tool, mpis: dict[str, InstalledMpi], tmp_path: Path) -> None:
    """It may have libfabric all the same. ldd is sought beyond PATH, which may be the MPI's folder alone."""
    for mpi in mpis.values():
        words = ("run", "--explain", mpi.launcher, "-n", "2", "/usr/bin/true")
        alone = thole(*words, env={"PATH": str(mpi.launcher.parent)})
        assert alone.returncode == 0 and " uses " in alone.stdout or " loads " in alone.stdout, alone
        failing = script(tmp_path / "ldd", "exit 1").parent
        done = thole(*words, env={"PATH": f"{failing}:{os.environ['PATH']}"})
        assert done.returncode == 0, done.stderr
        assert " loads " in done.stdout or "its libfabric was not checked" in done.stdout, done.stdout


def test_info__runs_nothing_of_the_folder_it_is_asked_in(thole: Tool, mpi: InstalledMpi, tmp_path: Path) -> None:
    """That may be /tmp, and the user root."""
    for name in ("ctypes", "mmap", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    done = thole("info", "mpi", "--json", "--venvs", mpi.launcher.parent.parent.parent, cwd=tmp_path)
    assert done.returncode == 0 and '"libfabric_version": "' in done.stdout, done
    assert not (tmp_path / "ran").exists()


def test_run__version_that_is_too_old(thole: Tool, tmp_path: Path) -> None:
    hydra = script(
        tmp_path / "bin" / "mpiexec", "printf 'HYDRA build details:\\n    Version:     3.1\\n'"
    )
    refused(thole("run", hydra, "-n", "2", "x"), "MPICH 3.1", "--mpi")


def test_run__library_is_missing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "python" / "thole", tmp_path / "thole")
    hydra = script(
        tmp_path / "bin" / "mpiexec", "printf 'HYDRA build details:\\n    Version:     4.1\\n'"
    )
    done = subprocess.run(
        [sys.executable, "-m", "thole", "run", hydra, "-n", "2", "x"],
        env=clean_environment(PYTHONPATH=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    refused(done, "libthole.so", "not installed", "install Thole again")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("no_such=1", ("no_such", "thole info options")),
        ("bulk=nonsense", ("bulk", "one-copy")),
        ("eager_max", ("name=value",)),
    ],
)
def test_run__wrong_option(
    thole: Tool, tmp_path: Path, option: str, words: tuple[str, ...]
) -> None:
    hydra = script(
        tmp_path / "bin" / "mpiexec", "printf 'HYDRA build details:\\n    Version:     4.1\\n'"
    )
    refused(thole("run", "--option", option, hydra, "true"), *words)


def test_run__settings_of_the_user_that_contradict(
    thole: Tool, tmp_path: Path, build: Path
) -> None:
    hydra = script(
        tmp_path / "bin" / "mpiexec",
        'test "$1" = --version && printf "HYDRA build details:\\n    Version:     4.1\\n" ||\n'
        'echo "$FI_PROVIDER $FI_PROVIDER_PATH"',
    )
    user = {"FI_PROVIDER": "tcp", "FI_PROVIDER_PATH": "/somewhere"}
    done = thole("run", hydra, "x", env=user)
    assert done.stdout.split() == ["thole", f"{build / 'provider'}:/somewhere"]
    assert "FI_PROVIDER was 'tcp'" in done.stderr
    done = thole("run", "--keep", hydra, "x", env=user)
    assert done.stdout.split()[0] == "tcp"
    assert "is kept" in done.stderr
    done = thole("run", "--explain", hydra, "-genv", "FI_PROVIDER", "tcp", "./app")
    assert "messages will not go over Thole" in done.stdout


def test_run_open_mpi_without_one_sided_operations(thole: Tool, tmp_path: Path) -> None:
    # Without btl/ofi messages still go over Thole; with another component beside it one-sided operations may not.
    launcher = script(tmp_path / "bin" / "mpiexec", 'echo "mpiexec (Open MPI) 5.0.1"')
    for value, warned in (("self", False), ("self,tcp", True)):
        done = thole("run", "--explain", launcher, "--mca", "btl", value, "-n", "2", "./app")
        assert ("one-sided operations will not go over Thole" in done.stdout) == warned, done.stdout


# ---- thole setup -----------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file, link and folder below, with its mode and content."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        content: bytes | str = os.readlink(path) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def config_below(root: Path, mpi: InstalledMpi) -> Path:
    return root / mpi.mpi.config_files[0].relative_to("/")


def setup_root(tmp_path: Path, mpi: InstalledMpi) -> Path:
    """A folder that stands for /, with a state folder and a configuration file of the user's."""
    root = tmp_path / "root"
    (root / Path.home().relative_to("/") / ".local" / "state").mkdir(parents=True)
    config = config_below(root, mpi)
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("# mine\nsomething = else")  # without a newline at the end
    config.chmod(0o640)
    return root


HOME_STATE = {"XDG_STATE_HOME": str(Path.home() / ".local" / "state")}


def test_setup__undo_restores_exactly(
    mpi: InstalledMpi, thole: Tool, build: Path, tmp_path: Path
) -> None:
    root = setup_root(tmp_path, mpi)
    before = snapshot(root)
    words = ("setup", "--mpi", mpi.launcher, "--root", root)
    done = thole(*words, env=HOME_STATE)
    assert done.returncode == 0, done
    config = config_below(root, mpi)
    text = config.read_text()
    assert text.startswith("# mine\nsomething = else\n")
    for line in mpi.mpi.family.config_lines:
        assert line.split("{")[0] in text
    assert "{" not in text
    links = [path for path in root.rglob("libthole-fi.so") if path.is_symlink()]
    assert len(links) == (1 if mpi.mpi.family.links else 0)
    for link in links:
        assert Path(os.readlink(link)) == (build / "provider" / "libthole-fi.so").resolve()
    once = snapshot(root)
    assert thole(*words, env=HOME_STATE).returncode == 0
    assert snapshot(root) == once
    assert thole("setup", "--undo", "--root", root, env=HOME_STATE).returncode == 0
    assert snapshot(root) == before


def test_setup__undo_keeps_what_the_user_changed_since(
    mpi: InstalledMpi, thole: Tool, tmp_path: Path
) -> None:
    root = setup_root(tmp_path, mpi)
    assert thole("setup", "--mpi", mpi.launcher, "--root", root, env=HOME_STATE).returncode == 0
    config = config_below(root, mpi)
    config.write_text(config.read_text() + "added = later\n")
    assert thole("setup", "--undo", "--root", root, env=HOME_STATE).returncode == 0
    assert config.read_text() == "# mine\nsomething = else\nadded = later\n"


def test_setup__undo_keeps_what_the_user_changed_between_two_setups(
    mpi: InstalledMpi, thole: Tool, tmp_path: Path
) -> None:
    root = setup_root(tmp_path, mpi)
    words = ("setup", "--mpi", mpi.launcher, "--root", root)
    assert thole(*words, env=HOME_STATE).returncode == 0
    config = config_below(root, mpi)
    config.write_text(config.read_text() + "added = later\n")
    assert thole(*words, env=HOME_STATE).returncode == 0
    assert thole("setup", "--undo", "--root", root, env=HOME_STATE).returncode == 0
    assert config.read_text() == "# mine\nsomething = else\nadded = later\n"


def test_setup__undo_leaves_a_file_that_was_there_before(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    """Empty, if its user has taken out all else; and what it said before is not for others to read."""
    root = setup_root(tmp_path, mpi)
    assert thole("setup", "--mpi", mpi.launcher, "--root", root, env=HOME_STATE).returncode == 0
    (state,) = root.rglob("setup.json")
    assert state.stat().st_mode & 0o777 == 0o600
    config = config_below(root, mpi)
    config.write_text(config.read_text().removeprefix("# mine\nsomething = else\n"))
    assert thole("setup", "--undo", "--root", root, env=HOME_STATE).returncode == 0
    assert config.read_text() == ""


def test_setup__a_file_in_place_of_the_link_is_left_alone(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    if not mpi.mpi.family.links:
        pytest.skip("this MPI gets no link")
    root = setup_root(tmp_path, mpi)
    words = ("setup", "--mpi", mpi.launcher, "--root", root)
    assert thole(*words, env=HOME_STATE).returncode == 0
    link = next(root.rglob("libthole-fi.so"))
    link.unlink()
    link.write_text("theirs")  # as `make install` into this prefix does
    assert "left alone" in thole(*words, env=HOME_STATE).stdout
    assert link.read_text() == "theirs"


def test_setup__a_file_of_somebody_else_is_left_alone(
    mpi: InstalledMpi, thole: Tool, tmp_path: Path
) -> None:
    if not mpi.mpi.family.links:
        pytest.skip("this MPI gets no link")
    root = setup_root(tmp_path, mpi)
    assert thole("setup", "--mpi", mpi.launcher, "--root", root, env=HOME_STATE).returncode == 0
    link = next(root.rglob("libthole-fi.so"))
    assert thole("setup", "--undo", "--root", root, env=HOME_STATE).returncode == 0
    link.parent.mkdir(parents=True)
    link.write_text("theirs")
    done = thole("setup", "--mpi", mpi.launcher, "--root", root, env=HOME_STATE)
    assert "left alone" in done.stdout
    assert link.read_text() == "theirs"
    assert thole("setup", "--undo", "--root", root, env=HOME_STATE).returncode == 0
    assert link.read_text() == "theirs"


def test_setup__dry_run_writes_nothing(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    root = setup_root(tmp_path, mpi)
    before = snapshot(root)
    words = ("setup", "--dry-run", "--mpi", mpi.launcher, "--root", root)
    done = thole(*words, env=HOME_STATE)
    assert done.returncode == 0
    assert "would be done" in done.stdout
    assert snapshot(root) == before


def test_setup__nothing_to_undo(thole: Tool, tmp_path: Path) -> None:
    done = thole("setup", "--undo", "--root", tmp_path, env=HOME_STATE)
    assert done.returncode == 0
    assert "nothing to undo" in done.stdout
    refused(thole("setup", "--root", tmp_path / "absent"), "absent")


def test_setup__undo_is_for_all(thole: Tool, tmp_path: Path) -> None:
    refused(thole("setup", "--undo", "--mpi", "x", "--root", tmp_path), "--undo", "--mpi")


def test_tool__what_no_command_knows(thole: Tool) -> None:
    """The command's own usage says what there is."""
    for command in ("perf", "trace"):
        done = thole(command, "--nonsense")
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith(f"usage: thole {command} ")
        assert done.stderr.endswith(f"thole {command}: error: unrecognized arguments: --nonsense\n")


def test_setup__damaged_state(thole: Tool, tmp_path: Path) -> None:
    state = tmp_path / HOME_STATE["XDG_STATE_HOME"].lstrip("/") / "thole" / "setup.json"
    state.parent.mkdir(parents=True)
    state.write_text('{"changes": [{"kind": 1')
    refused(thole("setup", "--undo", "--root", tmp_path, env=HOME_STATE), "damaged", str(state))


# ---- thole info ------------------------------------------------------------------------------------


def test_info__json(
    thole: Tool, mpis: dict[str, InstalledMpi], request: pytest.FixtureRequest
) -> None:
    folders = request.config.getoption("--venvs") or [str(ROOT / "build" / "venv")]
    words = [word for folder in folders for word in ("--venvs", folder)]
    done = thole("info", "--json", *words)
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    sections = {"host", "transports", "interfaces", "adapters", "options", "counters", "mpi"}
    assert set(info) == {"thole", *sections}
    assert Path(info["thole"]["library"]).is_file()
    assert Path(info["thole"]["provider"]).is_file()
    assert info["host"]["processors_allowed"] == sorted(os.sched_getaffinity(0))
    capabilities = {row["name"]: row for row in info["host"]["capabilities"]}
    assert "process_vm_readv" in capabilities
    for row in capabilities.values():
        assert row["use"]
        assert bool(row["why"]) != row["available"], "a reason is given just where it is not there"
    options = {row["name"]: row for row in info["options"]}
    assert options["eager_max"]["variable"] == "THOLE_EAGER_MAX"
    assert options["eager_max"]["origin"] == "default"
    assert all(row["help"] for row in [*info["options"], *info["counters"]])
    assert [row["name"] for row in info["transports"]] == ["shm", "network"]
    assert info["transports"][0]["available"]
    for row in info["transports"]:
        assert bool(row["address"]) == row["available"] != bool(row["why"])
    interfaces = {row["name"]: row for row in info["interfaces"]}
    assert set(interfaces) == {name for _, name in socket.if_nameindex()}
    assert sum(row["chosen"] for row in interfaces.values()) <= 1
    for row in interfaces.values():
        assert set(row["links"]) <= {"udp", "raw", "driver"}
        assert row["links"] or not row["chosen"]
    assert {row["name"] for row in info["mpi"]} >= set(mpis)


@pytest.mark.parametrize("lacks", ["head", "symbol"])
def test_info__libibverbs_of_no_use(thole: Tool, tmp_path: Path, lacks: str) -> None:
    """A libibverbs that cannot be loaded, or is too old: one sentence says so, and all else is as without."""
    library = tmp_path / "libibverbs.so.1"
    library.touch()
    if lacks == "symbol":
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler")
        code = "void **ibv_get_device_list(int *n) { return (void *)0 + (*n = 0); }"
        words = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(words, input=code, text=True, check=True)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    found = json.loads(thole("info", "--json", "adapters", "transports", env=env).stdout)
    assert not found["adapters"]["ports"] and found["transports"][0]["available"]
    why = found["adapters"]["why"]
    if "was built without" in why:
        pytest.skip(why)
    assert "version 32" in why and ("ibv_" if lacks == "symbol" else str(library)) in why
    table = thole("info", "adapters", env=env)
    assert table.returncode == 0 and why in table.stdout


def test_info__tables_have_every_row(thole: Tool) -> None:
    info = json.loads(thole("info", "--json", "options", "counters").stdout)
    tables = thole("info", "options", "counters")
    assert tables.returncode == 0
    for row in [*info["options"], *info["counters"]]:
        assert row["name"] in tables.stdout


def test_info__what_is_missing_and_how_to_allow_it(thole: Tool) -> None:
    """Without the right to send raw frames, the line that gives it is there, once and whole."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    rights = ["--inh-caps=-net_raw", "--bounding-set=-net_raw"]
    words = ["setpriv", *rights] if os.geteuid() == 0 else []

    def info(*more: str) -> str:
        command = [*words, *thole.command, "info", "interfaces", *more]
        done = subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    rows = json.loads(info("--json"))["interfaces"]
    assert not any("raw" in row["links"] for row in rows)
    if not any(row["mac"] and row["up"] for row in rows):
        pytest.skip("no interface carries Ethernet")
    assert info().count("setcap cap_net_raw+ep") == 1


def test_info__an_option_that_is_none(thole: Tool, tmp_path: Path) -> None:
    """Where the library skips a name, which may be of another version, the tool says so; its own are no such."""
    env = {"THOLE_EAGRE_MAX": "8k", "THOLE_PREFIX": str(tmp_path)}
    assert 'skipped "THOLE_EAGRE_MAX"' in thole("info", "options", env=env).stdout
    done = thole("run", "--mpi", "mpich", script(tmp_path / "srun", "true"), env=env)
    assert 'thole: environment: skipped "THOLE_EAGRE_MAX"' in done.stderr
    assert "skipped" not in thole("info", "options", env={"THOLE_PREFIX": str(tmp_path)}).stdout
    options = tmp_path / "thole" / "options"
    options.parent.mkdir()
    options.write_text("eager_max 8k\n")
    done = thole("info", "options", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert f'{options}, line 1: "eager_max 8k"' in done.stdout


def test_info__option_from_the_environment(thole: Tool) -> None:
    info = json.loads(thole("info", "--json", "options", env={"THOLE_EAGER_MAX": "8k"}).stdout)
    row = next(row for row in info["options"] if row["name"] == "eager_max")
    assert (row["value"], row["origin"]) == ("8k", "environment")


def test_info__unknown_section(thole: Tool) -> None:
    refused(thole("info", "weather"), "weather", "options")


# ---- thole perf ------------------------------------------------------------------------------------

QUICK = ("--rounds", "2", "--sample-ms", "1")


def test_perf__json(thole: Tool) -> None:
    done = thole("perf", "--json", "--sizes", "0,8,64k,1m", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["size"] for row in found["latency"]] == [0, 8, 65536, 1 << 20]
    assert [row["size"] for row in found["bandwidth"]] == [8, 65536, 1 << 20]
    assert 0 < found["bare"]["best_us"] <= found["bare"]["median_us"]
    for row in found["latency"]:
        assert 0 < row["best_us"] <= row["median_us"]
        assert row["times_floor"] > 0
    for row in found["bandwidth"]:
        assert row["best_bytes_per_s"] >= row["median_bytes_per_s"] > 0
    assert found["rate"]["best_messages_per_s"] > 0
    known = {
        row["name"] for row in json.loads(thole("info", "--json", "counters").stdout)["counters"]
    }
    assert set(found["counters"]) == known


def test_perf__chosen_tests_only(thole: Tool) -> None:
    found = json.loads(thole("perf", "--json", "--latency", "--sizes", "8", *QUICK).stdout)
    assert found["latency"]
    assert not found["bandwidth"]
    assert "rate" not in found
    found = json.loads(thole("perf", "--json", "--bare", *QUICK).stdout)
    assert found["bare"]["best_us"] > 0
    assert not found["latency"]
    assert not found["bandwidth"]


@pytest.mark.parametrize("bulk", ["ring", "one-copy", "cooperative"])
def test_perf__every_bulk_protocol_delivers(thole: Tool, bulk: str) -> None:
    # thole-perf compares every byte of what it verifies and ends with an error otherwise.
    words = ("--sizes", "40000,65537,1m,3000001", "--write", "--option", f"bulk={bulk}", *QUICK)
    done = thole("perf", *words)
    assert done.returncode == 0, done.stderr


def test_perf__both_processes_on_one_core(thole: Tool) -> None:
    core = min(os.sched_getaffinity(0))
    words = ("--sizes", "8,64k", "--cores", f"{core},{core}", *QUICK)
    assert thole("perf", *words).returncode == 0


def test_perf__picture(thole: Tool, tmp_path: Path) -> None:
    picture = tmp_path / "perf.png"
    done = thole("perf", "--sizes", "8,1k,64k", "--plot", picture, *QUICK)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_perf__wrong_arguments(thole: Tool) -> None:
    refused(thole("perf", "--sizes", "8,huge"), "huge")
    refused(thole("perf", "--option", "no_such=1"), "no_such")
    refused(thole("perf", "--option", "eager_max=many"), "eager_max")
    refused(thole("perf", "--cores", "0,100000", *QUICK), "cores")


def test_perf__a_killed_rank_ends_the_run(build: Path) -> None:
    program = build / "tools" / "perf" / "thole-perf"
    process = subprocess.Popen(
        [program, "--sizes", "8", "--tests", "latency", "--rounds", "10000", "--sample-ms", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()  # a sample: both ranks are at work
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(int(children[1]), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    for child in children:
        assert not Path(f"/proc/{child}").exists()


# ---- thole tune ------------------------------------------------------------------------------------

TUNE = ("--rounds", "1", "--sample-ms", "1")
# What the user has set is not measured: with these, one option is left.
ALL_BUT_ONE = {f"THOLE_{knob.name.upper()}": knob.values[-1] for knob in KNOBS if knob.name != "eager_max"}


def test_tune__dry_run_writes_nothing(thole: Tool, tmp_path: Path) -> None:
    done = thole("tune", "--dry-run", *TUNE, env={"XDG_CONFIG_HOME": str(tmp_path), **ALL_BUT_ONE})
    assert done.returncode == 0, done.stderr
    assert "eager_max" in done.stdout
    assert "would write" in done.stdout
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {"job_key"}


def test_tune__writes_what_the_library_reads_and_resets(thole: Tool, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    options = tmp_path / "thole" / "options"
    options.parent.mkdir()
    own = "# mine\nbulk_piece = 4k\nspin = 40us\n"
    options.write_text(own)
    done = thole("tune", "--json", *TUNE, env=env)
    assert done.returncode == 0, done.stderr
    chosen = {row["option"]: row for row in json.loads(done.stdout)}
    assert chosen["bulk_piece"]["chosen"] == "4k"
    assert chosen["bulk_piece"]["skipped"], "what the user set is not measured"
    assert options.read_text().startswith(own)
    info = json.loads(thole("info", "--json", "options", env=env).stdout)
    values = {row["name"]: row["value"] for row in info["options"]}
    assert values["spin"] == "40us"
    for name, row in chosen.items():
        assert values[name] == row["chosen"]
    assert thole("tune", "--reset", env=env).returncode == 0
    assert options.read_text() == own


def test_tune__keeps_what_the_user_wrote_while_it_measured(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = tmp_path / "options"
    options.write_text("spin = 40us\n")
    monkeypatch.setenv("THOLE_OPTIONS_FILE", str(options))
    monkeypatch.setattr(paths, "_build", build)

    def measured(*_: object) -> list[object]:
        options.write_text(options.read_text() + "bulk_piece = 4k\n")
        return []

    monkeypatch.setattr("thole.commands.tune.tune", measured)
    assert cli.main(["tune", *TUNE]) == 0
    assert options.read_text().startswith("spin = 40us\nbulk_piece = 4k\n# >>> written by thole tune")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({"8k": [10], "16k": [2, 10], "32k": [5, 5], "64k": [6, 6], "128k": [10]}, "32k"),  # 16k was but lucky
        ({"8k": [10], "16k": [2, 8], "32k": [5, 5], "64k": [10], "128k": [10]}, "32k"),  # and is still faster
        ({"8k": [10], "16k": [2, 10], "32k": [5, 10], "64k": [9.9], "128k": [10]}, "8k"),
    ],
)
def test_tune__the_best_that_wins_twice(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, list[float]], chosen: str
) -> None:
    """times: a value's latency when all are measured, and when it is measured against the default alone."""
    left = {value: list(row) for value, row in times.items()}

    def measured(words: list[str]) -> SimpleNamespace:
        value = next(word for word in words if word.startswith("eager_max=")).partition("=")[2]
        latency = left[value].pop(0) if len(left[value]) > 1 else left[value][0]
        return SimpleNamespace(series={("latency", 8): SimpleNamespace(best=latency)})

    monkeypatch.setattr("thole.commands.tune.measure", measured)
    knob = next(knob for knob in KNOBS if knob.name == "eager_max")
    assert try_knob(knob, "8k", {}, 1, 1, lambda _: None).chosen == chosen


def test_tune__reset_leaves_no_empty_file(thole: Tool, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), **ALL_BUT_ONE}
    assert thole("tune", *TUNE, env=env).returncode == 0
    assert (tmp_path / "thole" / "options").exists()
    assert thole("tune", "--reset", env=env).returncode == 0
    assert not (tmp_path / "thole" / "options").exists()


# ---- thole compare ---------------------------------------------------------------------------------


def test_compare__says_slower_where_it_is() -> None:
    mpi = SimpleNamespace(label="An MPI")

    def said(own_us: float, thole_us: float, place: str) -> str:
        found = Results({("mpi", way, PINGPONGS[place], 8): [us] for way, us in zip(WAYS, (own_us, thole_us))})
        (line,) = summary(found, {"mpi": SimpleNamespace(mpi=mpi)}, place)
        return line.partition(" (")[0]

    assert said(1.64, 1.0, "node") == "An MPI: 1.64 times faster over Thole"
    assert said(1.0, 1.64, "node") == "An MPI: 1.64 times slower over Thole"
    assert said(1.001, 1.0, "node") == said(1.0, 1.001, "node") == "An MPI: as fast over Thole"
    assert said(1.0, 2.0, "network") == "An MPI: 2.00 times slower over Thole than over its TCP"
    assert said(1.0, 1.0, "network") == "An MPI: as fast over Thole as over its TCP"


def test_compare__both_ways_side_by_side(
    mpi: InstalledMpi, thole: Tool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if mpi.name != "impi":
        in_full_only()  # test_network.py compares the others
    folders = request.config.getoption("--venvs") or [str(ROOT / "build" / "venv")]
    words = [word for folder in folders for word in ("--venvs", folder)]
    numbers, picture = tmp_path / "numbers.json", tmp_path / "picture.png"
    # What it does between hosts is in test_network.py.
    words += ["--mpi", mpi.name, "--rounds", "1", "--size-max", "1024", "--hosts", "none"]
    done = thole("compare", *words, "--json", numbers, "--plot", picture)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"(times (faster|slower)|as fast) over Thole \(geometric mean\)", done.stdout)
    rows = json.loads(numbers.read_text())["results"]
    pingpong = {(row["way"], row["size"]) for row in rows if row["bench"] == "pingpong"}
    sizes = [1 << shift for shift in range(11)]
    assert pingpong == {(way, size) for way in ("own", "thole") for size in sizes}
    assert all(row["best_us"] > 0 for row in rows)
    assert picture.read_bytes().startswith(b"\x89PNG")


# ---- Installation ----------------------------------------------------------------------------------


def test_install__tool_finds_its_parts_below_any_prefix(build: Path, tmp_path: Path) -> None:
    meson = shutil.which("meson", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if meson is None:
        pytest.skip("meson is not in PATH")
    subprocess.run(
        [meson, "install", "-C", build, "--no-rebuild", "--destdir", tmp_path],
        check=True,
        capture_output=True,
    )
    script_path = next(tmp_path.rglob("bin/thole"))
    done = subprocess.run(
        [sys.executable, script_path, "info", "--json", "transports"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    info = json.loads(done.stdout)
    for part in ("library", "provider", "perf", "mx"):
        assert str(tmp_path) in info["thole"][part]
    assert info["transports"][0]["available"]
    assert next(tmp_path.rglob("thole.pc")).read_text().count("-lthole") == 1
    assert next(tmp_path.rglob("thole.h")).is_file()
    assert next(tmp_path.rglob("share/thole/wireshark/thole.lua")).is_file()
    assert next(tmp_path.rglob("myriexpress.h")).is_file()
    done = subprocess.run(
        [sys.executable, script_path, "mx-info", "--json", "--wait", "0"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path) in json.loads(done.stdout)["mx"]["library"]


# ---- All commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["run", "info", "perf", "peers", "mx-info", "trace", "compare", "setup", "tune"]
)
def test_help__each_command(thole: Tool, command: str) -> None:
    done = thole(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: thole {command}")


def names_below(pid: int) -> list[str]:
    """Of the programs that run there."""
    return [Path(f"/proc/{child}/comm").read_text().strip() for child in descendants(pid)]


def test_interrupt__no_traceback(thole: Tool) -> None:
    process = subprocess.Popen(
        [*thole.command, "perf", "--sizes", "8", "--rounds", "10000", "--sample-ms", "100"],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts tests in the background has interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert wait_until(lambda: "thole-perf" in names_below(process.pid), 60), "nothing was started"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err


def test_families__values_of_earlier_versions() -> None:
    """Each stands for a value that the newest has, and an MPI of no known version has it, too."""
    for family in mpi_table.FAMILIES:
        for (name, value), earlier in family.earlier.items():
            found = False
            for interface in mpi_table.INTERFACES:
                mpis = (mpi_table.Mpi(family, version, Path()) for version in ("5.0.8", "(by --mpi)", "5.0.11"))
                old, unknown, new = ({row.name: row.value for row in mpi.settings_through(interface)} for mpi in mpis)
                assert unknown == old
                found = found or (new[name] == value and old[name] == earlier)
            assert found


def test_families__every_row_is_complete() -> None:
    names = mpi_table.family_names()
    assert len(set(names)) == len(names)
    for family in mpi_table.FAMILIES:
        for interface in mpi_table.INTERFACES if family.ucx_settings else ("libfabric",):
            settings = family.settings_through(interface)
            variables = [setting.name for setting in settings]
            assert len(set(variables)) == len(variables)
            if interface == "libfabric" or family.ucx_first:
                assert {"FI_PROVIDER", "FI_PROVIDER_PATH"} <= set(variables)
            assert ("LD_LIBRARY_PATH" in variables) is (interface != "libfabric")
            assert all(setting.reason for setting in settings)
        assert family.without
        assert family.first < family.last


def test_without_the_laboratory() -> None:
    """The product alone has all of its commands but the one that needs hosts and MPIs to compare."""
    without = "import sys; sys.modules['thole_lab'] = None; from thole import cli; "
    code = without + "cli.parser().print_help(); cli.main(['compare'])"
    env = clean_environment(PYTHONPATH=str(ROOT / "python"))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " run " in done.stdout and " tune " in done.stdout
    assert re.search(r"invalid choice: 'compare' \(choose from .*\btune\b", done.stderr), done.stderr
    assert " compare " not in done.stdout
