# SPDX-License-Identifier: BSD-3-Clause
"""MPICH that was built with UCX and without libfabric (`ch4:ucx`), as Debian and Ubuntu have it: it goes over Thole
through UCX's interface, its windows by active messages (ucx_am.c)."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conform import COMPILED, GROUPS, LOG, SOURCES, assert_conformed, counters
from conftest import InstalledMpi, Tool, locked
from jobs import launch
from test_tool import refused, script
from test_ucx import library, names
from thole.base import paths
from thole.base.trouble import Trouble
from thole.mpi.identify import has_ucx_alone, identify, linked
from thole.mpi.plan import plan
from thole_lab.testbed import Testbed

__all__ = ["library"]  # a fixture

LAUNCHER = "mpiexec.mpich"
COMPILER = "mpicc.mpich"


@pytest.fixture(scope="session")
def packaged(request: pytest.FixtureRequest, thole: Tool) -> InstalledMpi:
    """The distribution's."""
    why = f"{LAUNCHER} and {COMPILER} are not installed (Debian: apt install mpich libmpich-dev)"
    if shutil.which(LAUNCHER) and shutil.which(COMPILER):
        try:
            found = identify(LAUNCHER)
            if has_ucx_alone(found):
                return InstalledMpi(found, Path(sys.executable), thole)
            pytest.skip(f"{found.label} of this distribution has libfabric")
        except Trouble as trouble:
            why = str(trouble)
    if request.config.getoption("--require") == "all":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def conformer(packaged: InstalledMpi, common: Path) -> Path:
    program = common / "conform-mpich-ucx"
    with locked(program.with_suffix(".lock")):
        if not program.exists():
            made = program.with_suffix(".new")
            subprocess.run([COMPILER, *COMPILED, *SOURCES, "-o", made, "-lm", "-lpthread"], check=True)
            made.rename(program)
    return program


def test_plan__without_a_provider(
    packaged: InstalledMpi, build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build with UCX's headers alone is enough for it."""
    for name in ("src", "ucx", "build.ninja"):
        (tmp_path / name).symlink_to(build / name)
    monkeypatch.setattr(paths, "_build", tmp_path)
    assert plan([str(packaged.launcher), "-n", "2", "true"]).ucx == str(tmp_path / "ucx")
    with pytest.raises(Trouble):
        paths.find(paths.PROVIDER)


@pytest.mark.parametrize("ranks", [2, 4])
def test_conform(packaged: InstalledMpi, conformer: Path, ranks: int) -> None:
    done = launch(packaged, ranks, conformer, timeout=900, env=LOG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_conformed(done.stdout)
    assert counters(done.stdout + done.stderr)["shm_messages"] > 1000


def test_conform__two_hosts(packaged: InstalledMpi, conformer: Path, two: Testbed) -> None:
    done = launch(packaged, 2, conformer, timeout=300, hosts=two, env=LOG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_conformed(done.stdout, GROUPS)
    assert counters(done.stdout + done.stderr)["network_messages"] > 1000


def test_check__counts_what_went_through_it(packaged: InstalledMpi, conformer: Path, thole: Tool) -> None:
    done = thole("run", "--check", *packaged.command(2, conformer, "--count", "messages"))
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^counted (\d+) operations", done.stdout, re.M)
    carried = re.search(r"shared memory: (\d+) messages", done.stderr)
    assert said is not None and carried is not None, done.stdout + done.stderr
    assert int(carried[1]) >= int(said[1]) > 0


def test_check__a_host_without_the_library(packaged: InstalledMpi, build: Path, thole: Tool) -> None:
    rank = build / "tools/rank/thole-rank"
    done = subprocess.run(
        [rank, "0", "--ucx=/nowhere", "--", "true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "its host has no libucp.so.0 in /nowhere" in done.stdout + done.stderr


def test_explain(packaged: InstalledMpi, thole: Tool) -> None:
    """What it needs, and nothing for libfabric; what every host must have."""
    done = thole("run", "--explain", LAUNCHER, "-hosts", "alpha,beta", "-n", "2", "./app")
    assert done.returncode == 0, done.stderr
    assert re.search(r"MPIR_CVAR_CH4_NETMOD +ucx ", done.stdout), done.stdout
    assert "FI_PROVIDER" not in done.stdout
    assert re.search(r"every host must have \S+/libucp\.so\.0$", done.stdout, re.M), done.stdout


def test_libfabric__there_is_none(packaged: InstalledMpi, thole: Tool) -> None:
    done = thole("run", "--through", "libfabric", LAUNCHER, "-n", "1", "true")
    assert done.returncode != 0
    assert "was built without libfabric, so it cannot use Thole through that; go without --through" in done.stderr


def test_capabilities__of_a_program(packaged: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    """The loader leaves LD_LIBRARY_PATH out for it, and there is no other interface, whatever --through says."""
    program = script(tmp_path / "app", "true")
    words = ("run", "--explain", LAUNCHER, "-n", "1")
    if shutil.which("setcap") is None or subprocess.run(["setcap", "cap_net_raw+ep", program], check=False).returncode:
        pytest.skip("capabilities cannot be given to a file here")
    for through in ((), ("--through", "ucx")):
        said = thole("run", *through, *words[1:], program)
        refused(said, f"{program} has file capabilities", f"(setcap -r {program}), or use an MPICH with libfabric")
        assert "--through" not in said.stderr
    assert thole(*words, "true", program).returncode == 0, "it is but an argument"


def test_setup__says_that_it_cannot(packaged: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    done = thole("setup", "--root", tmp_path, "--mpi", packaged.launcher)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "through UCX's interface" in said and "use `thole run`" in said


def test_info__says_how(packaged: InstalledMpi, thole: Tool) -> None:
    done = thole("info", "mpi")
    assert done.returncode == 0
    assert "none: it goes through UCX's interface" in done.stdout


def test_an_own_ucx_is_not_taken(packaged: InstalledMpi, conformer: Path, tmp_path: Path) -> None:
    """A wrapper that sets LD_LIBRARY_PATH anew: messages do not go over UCX unseen."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {conformer} "$@"\n')
    wrapper.chmod(0o755)
    done = launch(packaged, 2, wrapper, "modes", timeout=60)
    assert done.returncode != 0


def test_every_name__is_there(packaged: InstalledMpi, library: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    assert packaged.mpi.library is not None and "libucp.so.0" in linked(packaged.mpi.library)
    needed = names(packaged.mpi.library, "--undefined-only")
    assert "ucp_am_send_nb" in needed
    assert needed <= names(library, "--defined-only")


def test_run__a_bare_environment(packaged: InstalledMpi, conformer: Path) -> None:
    """Without Thole it runs as ever."""
    done = dataclasses.replace(packaged).run(2, conformer, "modes", over_thole=False)
    assert done.returncode == 0, done.stdout + done.stderr
