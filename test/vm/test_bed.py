# SPDX-License-Identifier: BSD-3-Clause
"""The bed itself: what a guest is, what comes back from it, and that its troubles are told from a command's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import guest as guests
import pytest

pytestmark = pytest.mark.quick_on("6.1")


KERNELS = """
import os, pathlib, types
ROOT = pathlib.Path(__file__).parent
Kernel = LATER = None
class Missing(Exception):
    pass
def gather(build):
    with open(build / "asked", "a") as asked:
        asked.write(os.environ.get("PYTEST_XDIST_WORKER", "alone") + chr(10))
    return [types.SimpleNamespace(series="1.0")], ["linux-image-of-none: not there"]
"""
GUEST = """
CARDS = {}
Result = Bed = Job = None
def need_qemu():
    pass
"""


@pytest.mark.parametrize(
    ("words", "text", "asked"),
    [
        (("-n2",), "def test_it(kernel): pass", {"gw0", "gw1"}),
        (("-n0",), "def test_it(kernel): pass", {"alone"}),
        (("-n0",), "def test_it(): pass", set()),
    ],
)
def test_kernels__looked_for_by_who_runs_tests(
    tmp_path: Path, words: tuple[str, ...], text: str, asked: set[str]
) -> None:
    """And those that could not be had are named at the end of a run, once."""
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    for name, lines in (("kernels", KERNELS), ("guest", GUEST), ("module", ""), ("test_it", text)):
        (tmp_path / f"{name}.py").write_text(lines)
    (tmp_path / "asked").touch()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "MPI_TESTS"))}
    command = [sys.executable, "-m", "pytest", tmp_path, "--rootdir", tmp_path, "--build", tmp_path, "-q", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = (tmp_path / "asked").read_text().split()
    assert (len(told), set(told)) == (len(asked), asked)
    assert done.stdout.count("not run on linux-image-of-none: not there") == bool(asked)


def test_command(bed: guests.Bed, build: Path, guest: Callable[..., guests.Result]) -> None:
    """Status, output, files and kernel log come back; a unit test of ours passes; the host's root stays as it is."""
    unit = build / "test/unit/list_test"
    result = guest(f"uname -r; {unit} >/out/unit 2>&1; touch {build}/touched; echo told >/dev/kmsg")
    assert result.output.splitlines() == [bed.kernel.release]
    assert "PASSED" in (result.out / "unit").read_text()
    assert not (build / "touched").exists()
    assert "told" in result.log


def test_failure(bed: guests.Bed, tmp_path: Path) -> None:
    result = guests.run(bed, guests.Job("echo why >&2; exit 7", tmp_path))
    assert (result.status, result.output) == (7, "why\n")


def test_panic(bed: guests.Bed, tmp_path: Path) -> None:
    """Told from a failure, and tried once more."""
    with pytest.warns(UserWarning, match="tried once more: Panic"), pytest.raises(guests.Panic, match="sysrq"):
        guests.run(bed, guests.Job("echo c >/proc/sysrq-trigger", tmp_path))


def test_pair(bed: guests.Bed, tmp_path: Path) -> None:
    """Each has the other's address by its name, and what one sends reaches the other."""
    listen = "import socket; print(socket.create_server(('g1', 5000)).accept()[0].recv(64).decode())"
    connect = "import socket; socket.create_connection(('g1', 5000), 60).sendall(b'from g2')"
    one, two = guests.run_pair(
        bed,
        guests.Job(f'python3 -c "{listen}"', tmp_path / "g1"),
        guests.Job(f'for i in $(seq 9); do python3 -c "{connect}" && exit 0; sleep 1; done; exit 1', tmp_path / "g2"),
    )
    assert (one.status, one.output) == (0, "from g2\n"), one.output + two.output
    assert two.status == 0, two.output


def test_require(build: Path) -> None:
    """Where no guest can be had tests are skipped, but fail if they are required; both say why."""
    command = [sys.executable, "-m", "pytest", f"{__file__}::test_failure", "--build", build, "-p", "no:cacheprovider"]
    for words, status, said in ((), 0, "1 skipped"), (("--require",), 1, "1 error"):
        done = subprocess.run(
            [*command, "-rfEs", *words],
            env={**os.environ, "PATH": "/nowhere"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status and said in done.stdout, done.stdout + done.stderr
        assert "is not there: `tools/packages.sh vm` installs it" in done.stdout, done.stdout
