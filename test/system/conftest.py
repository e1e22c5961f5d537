# SPDX-License-Identifier: BSD-3-Clause
"""What every system test shares: the build, the tool, and the MPIs that are installed.

    thole       the tool: thole("info", "--json") runs it and returns the finished process
    build       the build directory, a Path
    mpi         each MPI in turn (a test with this argument runs once for each)
    mpis        all of them
    conform     conform(mpi) is mpi_conform, compiled for it
    suite       the folder of mpi4py's own tests
    two, four   hosts of their own (thole_lab.testbed) for one test after the other; skips where none can be made

An MPI that is missing skips its tests, unless --require says that it must be there (`make test`).

With -n N (pytest-xdist) so many workers run tests side by side; each has hosts and a user's folder of its own. Tests
that are marked `alone` come after all others and have the machine to themselves: those with ranks that spin, and those
that look at what all processes share. What is dear and can be shared is made by the first who wants it, below `common`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conform import COMPILED, SOURCES

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

from thole.base import paths  # noqa: E402
from thole.base.text import option_words  # noqa: E402
from thole.mpi import families as mpi_table  # noqa: E402
from thole_lab import process, venvs  # noqa: E402
from thole_lab.compiler import compile_mpi  # noqa: E402
from thole_lab.testbed import Testbed, missing_right  # noqa: E402
from thole_lab.venvs import clean_environment  # noqa: E402

# Endpoints make the user's job key where they find none: here, and not in the user's own folder.
CONFIG_HOME = tempfile.TemporaryDirectory(prefix="thole-test-config-")
os.environ["XDG_CONFIG_HOME"] = CONFIG_HOME.name
# A line that a rank prints reaches the launcher by one write, else those of several ranks mix.
os.environ.pop("PYTHONUNBUFFERED", None)

TIMEOUT_S = 600.0  # of what hangs: much of it takes 30 s, and others may have most of the machine
HERE = Path(__file__).resolve().parent
SUITE_MPIS = ("mpich", "openmpi")  # whose Pythons mpi4py's suite is run with


FULL = os.environ.get("MPI_TESTS") == "full"
IN_FULL = "to save time: MPI_TESTS=full in the environment runs this"
RANKS_BESIDE = 2  # more ranks than these slow each other and all others down
# Tests with one of these take longest.
LONG = ("suite", "conform", "wheel")
# Tests with one of these would wait for each other, or meet on this host's own network.
APART = {"library": "boards", "wheel": "wheel"}
# Tests with one of these look at what all processes of this machine share.
LOOKS_AROUND = ("own_shm",)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: has the machine to itself")
    config.addinivalue_line("markers", "over(*names): the pairs that run; MPI_TESTS=full runs all")
    config.addinivalue_line("markers", "about(*mpis): what it says holds of these alone; it never runs with others")
    config.addinivalue_line("markers", "apart(name): does not run beside another of this name")


def parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def fixtures_of(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def is_alone(item: pytest.Item) -> bool:
    many = int(str(parameters(item).get("ranks", 0))) > RANKS_BESIDE
    return many or item.get_closest_marker("alone") is not None or bool(fixtures_of(item).intersection(LOOKS_AROUND))


def apart_from(item: pytest.Item) -> str:
    marker = item.get_closest_marker("apart")
    names = [APART[name] for name in fixtures_of(item).intersection(APART)]
    return marker.args[0] if marker else next(iter(names), "")


def is_left_out(item: pytest.Item) -> bool:
    """By its marker `over`, which names pairs so that each MPI and each link, or number of ranks, is among them."""
    chosen = item.get_closest_marker("over")
    values = parameters(item)
    name = "-".join(str(values[key]) for key in ("mpi", "link", "ranks") if key in values)
    return chosen is not None and name not in chosen.args and not FULL


def is_about_others(item: pytest.Item) -> bool:
    about = item.get_closest_marker("about")
    mpi = parameters(item).get("mpi")
    return about is not None and mpi is not None and mpi not in about.args


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long ones first, so that nobody waits for one in the end; those that would wait for each other far apart; alone
    ones last."""
    parts: dict[tuple[int, str], list[pytest.Item]] = {}
    for item in items:
        if is_about_others(item):
            item.add_marker(pytest.mark.skip(reason="it is about other MPIs"))
        elif is_left_out(item):
            item.add_marker(pytest.mark.skip(reason=IN_FULL))
        phase = 2 if is_alone(item) else 0 if fixtures_of(item).intersection(LONG) else 1
        parts.setdefault((phase, apart_from(item)), []).append(item)
    places = {
        item: (phase, index / len(part)) for (phase, _), part in parts.items() for index, item in enumerate(part)
    }
    items.sort(key=places.__getitem__)


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

    def on(self, hosts: Testbed, host: int) -> Tool:
        """The same in a host."""
        return Tool(tuple(hosts.command(host, *self.command)))


@dataclass(frozen=True)
class InstalledMpi(venvs.Environment):
    """An MPI with a Python that has mpi4py for it; .name is mpich, openmpi, openmpi4 or impi."""

    tool: Tool
    through: str = ""  # the interface that jobs ask for; "": none

    @property
    def launcher(self) -> Path:
        return self.mpi.launcher

    def by(self, interface: str) -> InstalledMpi:
        """The same, whose jobs ask for an interface to Thole."""
        return dataclasses.replace(self, through=interface)

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
            command = [*self.tool.command, "run", *option_words(options or {}), *command]
        done = process.run(command, self.environment(**(env or {})), timeout, cwd)
        if done.status is None:
            raise subprocess.TimeoutExpired(command, timeout, done.output, done.errors)
        return subprocess.CompletedProcess(command, done.status, done.output, done.errors)

    def run_python(self, ranks: int, code: str, **how: object) -> subprocess.CompletedProcess[str]:
        """Run Python code with mpi4py on each rank."""
        return self.run(ranks, self.python, "-c", code, **how)  # type: ignore[arg-type]


@contextlib.contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Against other workers."""
    with path.open("a") as file:
        fcntl.flock(file, how)
        yield


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(autouse=True)
def machine(request: pytest.FixtureRequest, common: Path) -> Iterator[None]:
    """Shared with tests of other workers, or not."""
    name = apart_from(request.node)
    with contextlib.ExitStack() as stack:
        if name:
            stack.enter_context(locked(common / f"{name}.apart"))
        stack.enter_context(locked(common / "machine.lock", fcntl.LOCK_EX if is_alone(request.node) else fcntl.LOCK_SH))
        yield


@pytest.fixture(autouse=True)
def signals_held() -> Iterator[None]:
    """What a test leaves blocked, all programs that are started later in this worker would never hear."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert signal.pthread_sigmask(signal.SIG_SETMASK, before) == before


@pytest.fixture(scope="session")
def build(request: pytest.FixtureRequest) -> Path:
    directory = Path(request.config.getoption("--build")).resolve()
    paths.use_build(str(directory))
    return directory


@pytest.fixture(scope="session")
def thole(build: Path) -> Tool:
    start = f"import sys; sys.path = [{str(ROOT / 'python')!r}, *filter(None, sys.path)]; "  # not the working folder
    start += "from thole.base import paths; "
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


@contextlib.contextmanager
def namespace(flag: str, script: str) -> Iterator[int | None]:
    """A process that keeps a namespace of its own, in which the script was run; None where that may not be."""
    if shutil.which("nsenter") is None:
        yield None
        return
    keeper = subprocess.Popen(
        ["unshare", flag, "sh", "-c", f"{script} && echo made && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert keeper.stdout is not None
        yield keeper.pid if keeper.stdout.readline() == "made\n" else None
    finally:
        keeper.communicate()  # it ends with its standard input


@pytest.fixture
def own_shm() -> Iterator[list[str]]:
    """What is put before a program so that it has a /dev/shm of its own; the test fails if it leaves a file there. Who
    may not make one has the machine's, in which other jobs' files count, too."""
    with namespace("--mount", "mount -t tmpfs -o mode=1777 none /dev/shm") as keeper:
        words = [] if keeper is None else ["nsenter", f"--mount=/proc/{keeper}/ns/mnt", "--wd=."]
        folder = Path("/dev/shm") if keeper is None else Path(f"/proc/{keeper}/root/dev/shm")
        before = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        yield words
        after = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        assert after <= before, f"left behind in /dev/shm: {sorted(after - before)}"


# ---- Programs --------------------------------------------------------------------------------------

Compile = Callable[[InstalledMpi], Path]


@pytest.fixture(scope="session")
def conform(mpis: dict[str, InstalledMpi], common: Path) -> Compile:
    """mpi_conform, compiled for an MPI when it is first wanted."""

    def compile_for(mpi: InstalledMpi) -> Path:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler")
        lender = mpis["mpich"].mpi if "mpich" in mpis else None
        if mpi.name == "impi" and lender is None:
            pytest.skip(f"{mpi.name} has no compiler wrapper, and there is no MPICH to lend its header")
        program = common / f"conform-{mpi.name}"
        with locked(program.with_suffix(".lock")):
            if not program.exists():
                made = program.with_suffix(".new")
                compile_mpi(mpi.mpi, lender, COMPILED, SOURCES, made)
                made.rename(program)
        return program

    return compile_for


def fetch_suite(folder: Path, version: str, *, required: bool) -> None:
    words = "-m pip --quiet download --no-deps --no-binary mpi4py --dest".split()
    done = subprocess.run(
        [sys.executable, *words, folder, f"mpi4py=={version}"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    archives = list(folder.glob(f"mpi4py-{version}.tar.gz"))
    if not archives and required:
        pytest.fail(f"mpi4py's source distribution is required: {done.stderr[-1000:]}")
    if not archives:
        pytest.skip(f"mpi4py's source distribution cannot be downloaded: {done.stderr[-300:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder)  # noqa: S202 - what pip has checked


@pytest.fixture(scope="session")
def suite(build: Path, mpis: dict[str, InstalledMpi], request: pytest.FixtureRequest) -> Path:
    """The test folder of mpi4py's source distribution, of the version that the MPIs' Pythons have."""
    users = [mpis[name] for name in SUITE_MPIS if name in mpis]
    if not users:
        pytest.skip(f"none of {', '.join(SUITE_MPIS)} is installed")
    ask = "import mpi4py; print(mpi4py.__version__)"
    version = subprocess.run(
        [users[0].python, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = build / "mpi4py-source"
    tests = folder / f"mpi4py-{version}" / "test"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not (tests / "main.py").exists():
            fetch_suite(folder, version, required=bool(request.config.getoption("--require")))
    return tests


# ---- Hosts -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def testbeds() -> Iterator[Callable[[int], Testbed]]:
    """Hosts by their number, made when they are first wanted; they last as long as the session."""
    made: dict[int, Testbed] = {}

    def make(count: int) -> Testbed:
        reason = missing_right()
        if reason:
            pytest.skip(f"no hosts can be made: {reason}")
        if count not in made:
            made[count] = Testbed(count).__enter__()
        return made[count]

    yield make
    for hosts in made.values():
        hosts.close()


def _in_turn(hosts: Testbed) -> Iterator[Testbed]:
    yield hosts
    hosts.clear()


@pytest.fixture
def two(testbeds: Callable[[int], Testbed]) -> Iterator[Testbed]:
    yield from _in_turn(testbeds(2))


@pytest.fixture
def four(testbeds: Callable[[int], Testbed]) -> Iterator[Testbed]:
    yield from _in_turn(testbeds(4))
