# SPDX-License-Identifier: BSD-3-Clause
"""Sandia OpenSHMEM's own tests over the provider.

They are built outside of this project, with the submodule tests-sos: `configure --with-ofi --enable-pmi-simple`,
`make`, and `make check TESTS=`, which builds the programs and starts none. THOLE_SOS names the directory of that
build. Without it the tests are skipped. Ranks are started by MPICH's launcher, and have no other way to each other
than the provider. What is left out, and why, stands in sos.exclude.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conform import LOG, counters
from conftest import InstalledMpi
from jobs import launch

HERE = Path(__file__).parent
NAMED = os.environ.get("THOLE_SOS", "")
PROGRAMS = Path(NAMED) / "modules" / "tests-sos" / "test"
FOLDERS = ("unit", "spec-example", "apps", "shmemx")
WAYS: dict[str, dict[str, str]] = {"shm": {}, "network": {"FI_THOLE_SHM": "off"}}
RANKS = 2
SECONDS = 240  # for one test; a busy machine needs a tenth of it

# Less to do, where the default takes half a minute or more on two cores.
ARGUMENTS = {
    "apps/gups": "-n 2000",
    "apps/mandelbrot": "-w 512 -h 512",
    "unit/bigget": "-l 50",
    "unit/lfinc": "5000",
}

pytestmark = pytest.mark.skipif(not NAMED, reason="THOLE_SOS does not name a built Sandia OpenSHMEM")


def built() -> list[str]:
    """The programs that there are, as FOLDER/PROGRAM."""
    paths = [path for folder in FOLDERS for path in sorted((PROGRAMS / folder).glob("*"))] if NAMED else []
    return [
        f"{path.parent.name}/{path.name}"
        for path in paths
        if not path.suffix and path.is_file() and os.access(path, os.X_OK)
    ]


def excludes() -> list[re.Pattern[str]]:
    """The lines of sos.exclude that are patterns."""
    lines = (HERE / "sos.exclude").read_text().splitlines()
    return [re.compile(line) for line in lines if line.strip() and not line.startswith("#")]


def applicable(tests: list[str]) -> list[str]:
    """Those that no pattern of the exclude file is found in."""
    patterns = excludes()
    return [test for test in tests if not any(pattern.search(test) for pattern in patterns)]


@pytest.fixture
def provider(build: Path) -> dict[str, str]:
    """What makes a program's libfabric load the built provider and no other."""
    directory = build / "provider"
    if not (directory / "libthole-fi.so").exists():
        pytest.skip(f"no libthole-fi.so in {directory}: libfabric's headers were missing")
    return {"FI_PROVIDER_PATH": str(directory), "FI_PROVIDER": "thole", "SHMEM_OFI_PROVIDER": "thole"}


@pytest.fixture
def launcher(mpis: dict[str, InstalledMpi]) -> InstalledMpi:
    """Its ranks speak PMI, which the tests are built with."""
    if "mpich" not in mpis:
        pytest.skip("there is no MPICH, whose launcher starts the ranks")
    return mpis["mpich"]


Run = Callable[[str, str], str]


@pytest.fixture
def run(launcher: InstalledMpi, provider: dict[str, str], tmp_path: Path) -> Run:
    """run(test, way) runs a test, which has to pass, and returns what it said."""

    def once(test: str, way: str) -> str:
        env = {**provider, **WAYS[way]}
        program = [PROGRAMS / test, *ARGUMENTS.get(test, "").split()]
        done = launch(launcher, RANKS, *program, timeout=SECONDS, over_thole=False, env=env, cwd=tmp_path)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"ended with {done.returncode}: {said[-4000:]}"
        return said

    return once


@pytest.mark.parametrize(("way", "counter"), [("shm", "shm_messages"), ("network", "network_messages")])
def test_way(way: str, counter: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are programs in the directory, and Thole carries what they send."""
    monkeypatch.setitem(WAYS, way, {**WAYS[way], **LOG})
    assert counters(run("unit/put1", way)).get(counter, 0) >= RANKS


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("test", applicable(built()))
def test_program(test: str, way: str, run: Run) -> None:
    run(test, way)
