# SPDX-License-Identifier: BSD-3-Clause
"""The core under conditions that a program cannot make for itself: other mounts and namespaces around it.

The programs are those of this folder's meson.build, which runs them in ordinary conditions; here the stress test, which
checks every byte, runs where /dev/shm is tiny, read-only or missing, and where the whole job is in a user
namespace. What is left behind is looked for from outside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 200.0
# Whatever differs in such places shows when endpoints meet and memory comes: in the first round, which has all kinds of
# operations. meson's tests have more of them.
STRESS = ["--rounds", "1", "--ranks", "3"]
BULKS = ["bulk=auto", "bulk=ring;one_copy=off"]


def program(build: Path, name: str) -> str:
    path = build / "test" / "system" / name
    if not path.exists():
        pytest.fail(f"{path} is missing: build with -Dtests=true")
    return str(path)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def succeed(*command: str) -> str:
    done = run(*command)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def namespaces(*flags: str) -> list[str]:
    """unshare with these flags, with a user namespace where that is needed; skips where it is not permitted."""
    command = ["unshare", *flags] if os.geteuid() == 0 else ["unshare", "-Ur", *flags]
    if run(*command, "true").returncode != 0:
        pytest.skip(f"{' '.join(command)} is not permitted here")
    return command


MOUNTS = {
    "1 MiB": "mount -t tmpfs -o size=1m none /dev/shm",
    "full": "mount -t tmpfs -o size=64k none /dev/shm && head -c 1m /dev/zero > /dev/shm/full 2>/dev/null || true",
    "read-only": "mount -t tmpfs -o ro none /dev/shm",
    "missing": "mount -t tmpfs none /dev && ! test -e /dev/shm",
}


@pytest.mark.parametrize("bulk", BULKS)
@pytest.mark.parametrize("mounts", MOUNTS.values(), ids=MOUNTS.keys())
def test_shm_folder_is_not_needed(build: Path, mounts: str, bulk: str) -> None:
    stress = program(build, "thole-stress")
    script = f'set -e; {mounts}; exec "$0" "$@"'
    out = succeed(*namespaces("-m"), "sh", "-c", script, stress, *STRESS, "--options", bulk)
    assert "1 rounds" in out


@pytest.mark.parametrize("bulk", BULKS)
def test_whole_job_in_a_user_namespace(build: Path, bulk: str) -> None:
    if run("unshare", "-Ur", "true").returncode != 0:
        pytest.skip("user namespaces are not permitted here")
    succeed("unshare", "-Ur", program(build, "thole-stress"), *STRESS, "--options", bulk)


def test_whole_job_in_namespaces_of_all_kinds(build: Path) -> None:
    """As in a container without privileges: own processes, network, mounts, hostname."""
    command = namespaces("-m", "-n", "-p", "-i", "-u", "--fork")
    succeed(*command, program(build, "thole-stress"), *STRESS)


def test_kills_leave_nothing(build: Path, own_shm: list[str]) -> None:
    """In a network namespace of its own, so that every socket there is ours."""
    command = [*namespaces("-n"), program(build, "thole-kill"), "--kills", "20"]
    script = (
        "import subprocess, sys, pathlib\n"
        "status = subprocess.run(sys.argv[1:]).returncode\n"
        "left = [l for l in pathlib.Path('/proc/net/unix').read_text().splitlines() if '@thole/' in l]\n"
        "print(left)\n"
        "sys.exit(status or bool(left))\n"
    )
    place = command.index(program(build, "thole-kill"))
    succeed(*own_shm, *command[:place], sys.executable, "-c", script, *command[place:])


def test_nothing_is_printed_or_left_by_a_run(build: Path, own_shm: list[str], tmp_path: Path) -> None:
    stress = program(build, "thole-stress")
    done = subprocess.run(
        [*own_shm, stress, "--rounds", "2", "--seed", "5"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [tmp_path / ".config" / "thole" / "job_key"]
