# SPDX-License-Identifier: BSD-3-Clause
"""What tests in guests share: kernels, and one guest or two of each.

    bed       what guests of a kernel are made of; a test with this argument runs once for each kernel
    cards     the same, with adapters for remote DMA that the kernel makes of any network interface: `adapter` of them,
              soft-RoCE (rxe), or iWARP (siw) where a test is marked `both_adapters`
    guest     guest("command") runs it in a guest of `bed`, asserts that it ended well, and returns its result

A test that is marked `quick_on` runs on one kernel, that of the named series, but in `make test-all`. One that is
marked `later_kernel` runs there on a kernel of the next Debian, too; any other does only if `--kernel` names that one's
series.

Where there is no QEMU, or no kernel can be fetched, all are skipped with the reason, and fail with `--require`, as `make
test` says. Which kernels there are depends on the distribution; the end of a run names those that could not be had.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import guest as guests
import kernels
import module
import pytest

# The laboratory, which knows MPIs, and mpi_conform.
sys.path[:0] = [str(kernels.ROOT / "python"), str(kernels.ROOT / "test/system")]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("thole")
    group.addoption("--build", default=str(kernels.ROOT / "build"), help="the meson build directory")
    group.addoption("--kernel", default="", help="only this series, such as 6.12")
    group.addoption("--require", action="store_true", help="what cannot be had fails instead of skipping")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[BUILD] = Path(config.getoption("--build")).resolve()
    config.stash[NOT_RUN] = []
    config.addinivalue_line("markers", "later_kernel: in `make test-all` on a kernel of the next Debian, too")
    config.addinivalue_line("markers", "quick_on(series): on other kernels in `make test-all` only")


BUILD = pytest.StashKey[Path]()
NOT_RUN = pytest.StashKey[list[str]]()  # kernels that could not be had, and why
FULL = os.environ.get("MPI_TESTS") == "full"
both_adapters = pytest.mark.parametrize("adapter", list(guests.CARDS))
in_full_only = pytest.mark.skipif(not FULL, reason="make test-all runs it")


@contextlib.contextmanager
def needed(config: pytest.Config) -> Iterator[None]:
    """What is fetched in here, a test cannot do without."""
    try:
        yield
    except kernels.Missing as trouble:
        (pytest.fail if config.getoption("--require") else pytest.skip)(str(trouble))


@functools.lru_cache
def find_kernels(build: Path) -> tuple[list[kernels.Kernel], list[str]] | kernels.Missing:
    """Those that there are, and why others are not. Asked for by each test, but fetched once."""
    try:
        guests.need_qemu()
        return kernels.gather(build)
    except kernels.Missing as trouble:
        return trouble


@functools.lru_cache
def find_later(build: Path) -> kernels.Kernel | kernels.Missing:
    try:
        guests.need_qemu()
        return kernels.fetch_later(build)
    except kernels.Missing as trouble:
        return trouble


def choose_kernels(
    found: Sequence[kernels.Kernel], wanted: str, quick: str, also_later: bool, build: Path
) -> list[Any]:
    """Those that a test runs on, as its parameters; if `quick` is among them it is skipped on the others."""
    skip = pytest.mark.skip(reason="make test-all runs it on this kernel, too")
    enough = [kernel for kernel in found if kernel.series == quick] or found
    chosen = [
        pytest.param(kernel, marks=[] if kernel in enough else skip, id=kernel.series)
        for kernel in found
        if wanted in ("", kernel.series)
    ]
    if chosen if wanted else not also_later:
        return chosen
    later = find_later(build)
    if isinstance(later, kernels.Missing):
        skip = pytest.mark.skip(reason=f"no kernel of {kernels.LATER}: {later}")
        return [*chosen, pytest.param(None, marks=skip, id="later")]
    if wanted not in ("", later.series):
        raise pytest.UsageError(f"--kernel {wanted}: there are {', '.join(k.series for k in (*found, later))}")
    return [*chosen, pytest.param(later, id=later.series)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel" not in metafunc.fixturenames:
        return
    found = find_kernels(metafunc.config.stash[BUILD])
    if isinstance(found, kernels.Missing):
        metafunc.parametrize("kernel", [pytest.param(found, id="none")], scope="session")
        return
    metafunc.config.stash[NOT_RUN] = found[1]
    wanted = metafunc.config.getoption("--kernel")
    quick = metafunc.definition.get_closest_marker("quick_on")
    chosen = choose_kernels(
        found[0],
        wanted,
        quick.args[0] if quick and not FULL and not wanted else "",
        FULL and metafunc.definition.get_closest_marker("later_kernel") is not None,
        metafunc.config.stash[BUILD],
    )
    metafunc.parametrize("kernel", chosen, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    kernel = item.callspec.params.get("kernel") if hasattr(item, "callspec") else None
    with needed(item.config):
        if isinstance(kernel, kernels.Missing):
            raise kernel


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of pytest-xdist's workers tells who prints the summary, and collects no tests."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["not_run"] = session.config.stash[NOT_RUN]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {}).get("not_run", [])  # one that crashed tells nothing
    node.config.stash[NOT_RUN] = told or node.config.stash[NOT_RUN]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for trouble in config.stash[NOT_RUN]:
        terminalreporter.write_line(f"not run on {trouble}")


@pytest.fixture(scope="session")
def build(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.stash[BUILD]


def make_bed(kernel: kernels.Kernel, build: Path, folder: Path, more: Sequence[str] = ()) -> guests.Bed:
    return guests.make_bed(kernel, kernels.fetch_busybox(build), folder, more)


@pytest.fixture(scope="session")
def bed(
    kernel: kernels.Kernel, build: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> guests.Bed:
    with needed(pytestconfig):
        return make_bed(kernel, build, tmp_path_factory.mktemp("initramfs"))


@pytest.fixture
def adapter() -> str:
    return "rxe"


@pytest.fixture(scope="session")
def beds() -> dict[tuple[str, str], guests.Bed]:
    return {}


@pytest.fixture
def cards(
    adapter: str,
    kernel: kernels.Kernel,
    build: Path,
    beds: dict[tuple[str, str], guests.Bed],
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> guests.Bed:
    key = (adapter, kernel.release)
    if key not in beds:
        with needed(pytestconfig):
            beds[key] = make_bed(kernel, build, tmp_path_factory.mktemp("initramfs"), guests.CARDS[adapter])
    return beds[key]


@pytest.fixture
def loads(adapter: str, kernel: kernels.Kernel, build: Path, pytestconfig: pytest.Config) -> str:
    """What a guest of `cards` begins with. Before Linux 6.12 siw has root keep to the limit of locked memory."""
    if adapter != "siw":
        return ""
    with needed(pytestconfig):
        return f"{kernels.fetch_busybox(build)} insmod {module.build_siw(kernel, build)}; ulimit -l unlimited\n"


def assert_well(result: guests.Result) -> None:
    """The command ended well, and the kernel has nothing to complain of."""
    assert result.status == 0, result.output[-4000:]
    assert not result.complaints(), result.log[-6000:]


@pytest.fixture
def guest(bed: guests.Bed, tmp_path: Path) -> Callable[..., guests.Result]:
    def run(command: str, **wishes: Any) -> guests.Result:
        result = guests.run(bed, guests.Job(command, tmp_path / "out", **wishes))
        assert_well(result)
        return result

    return run


@pytest.fixture
def cards_guest(cards: guests.Bed, adapter: str, loads: str, tmp_path: Path) -> Callable[..., guests.Result]:
    """The same in a guest of `cards`, behind wire.sh: adapters rxe_va and rxe_vb at the two ends of a wire."""

    def run(command: str, **wishes: Any) -> guests.Result:
        command = f"{loads}wire_cards={adapter}; . {guests.HERE}/wire.sh\n{command}"
        result = guests.run(cards, guests.Job(command, tmp_path / "out", **wishes))
        assert_well(result)
        return result

    return run
