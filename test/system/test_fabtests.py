# SPDX-License-Identifier: BSD-3-Clause
"""libfabric's own tests over the provider.

They are built outside of this project, with the headers of a libfabric 2.x and against any core that loads the
provider; THOLE_FABTESTS names the directory with their programs. Without it the tests are skipped. Addresses are
exchanged out of band (-E), because an endpoint's address is not made of a host and a port.
What is left out, and why, stands in fabtests.exclude.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest
from thole_lab.process import wait_until

HERE = Path(__file__).parent
PROGRAMS = Path(os.environ.get("THOLE_FABTESTS", ""))
SECONDS = 120  # for one test; a busy machine needs a tenth of it

# Started once; they make their endpoints themselves.
ALONE = [
    "fi_getinfo_test -s 127.0.0.1 127.0.0.1",
    "fi_av_test -g 127.0.0.1 -n 1 -s 127.0.0.1 -e rdm",
    "fi_dom_test -n 2",
    "fi_eq_test",
    "fi_cq_test",
    "fi_mr_test",
    "fi_cntr_test",
    "fi_setopt_test",
]

# The quick set's that are started as a server and a client.
QUICK = [
    "fi_av_xfer -e rdm",
    "fi_cm_data",
    "fi_cq_data -e rdm -o senddata",
    "fi_cq_data -e rdm -o writedata",
    "fi_rdm",
    "fi_rdm -U",
    "fi_rdm_rma_event",
    "fi_rdm_rma_trigger",
    "fi_shared_ctx",
    "fi_rdm_tagged_peek",
    "fi_scalable_ep",
    "fi_rdm_shared_av",
    "fi_multi_mr -e rdm -V",
    *[
        f"fi_multi_ep -e rdm -v{shared}{threads}"
        for threads in ("", " --threading completion")
        for shared in ("", " -A", " -Q", " -A -Q")
        if shared or threads
    ],
    "fi_recv_cancel -e rdm -V",
    "fi_unexpected_msg -e rdm -I 10 -v",
    *[f"fi_inject_test{n} -A {a} -v" for n in ("", " -N") for a in ("inject", "inj_complete")],
    *[f"fi_flood -e rdm -v -T 1{u}" for u in ("", " -U")],
    *[f"fi_rdm_multi_client -C 10 -I 5{u}" for u in ("", " -U")],
    *[
        f"fi_rma_bw -e rdm -o {o} -I 5{u}"
        for o in ("write", "read", "writedata")
        for u in ("", " -U")
    ],
    *[f"fi_rdm_atomic -I 5 -o all{u}{v}" for v in ("", " -v") for u in ("", " -U")],
    "fi_rdm_cntr_pingpong -I 5",
    "fi_multi_recv -e rdm -I 5",
    *[
        f"fi_{t} -I 5{v}{u}"
        for t in ("rdm_pingpong", "rdm_tagged_pingpong", "rdm_tagged_bw")
        for v in ("", " -v")
        for u in ("", " -U")
    ],
]

# Those, and some more.
PAIRS = [
    *QUICK,
    "fi_rdm_multi_domain -V",
    "fi_resmgmt_test",
    "fi_rma_pingpong -o write -I 5",
    "fi_rma_pingpong -o writedata -I 5",
    "fi_rma_tx_completion",
    "fi_rdm_bw_mt -n 8",
    "fi_unmap_mem",
]


def excludes() -> list[re.Pattern[str]]:
    """The lines of fabtests.exclude that are patterns."""
    lines = (HERE / "fabtests.exclude").read_text().splitlines()
    return [re.compile(line) for line in lines if line.strip() and not line.startswith("#")]


def applicable(tests: list[str]) -> list[str]:
    """Those that no pattern of the exclude file is found in."""
    patterns = excludes()
    return [test for test in tests if not any(pattern.search(test) for pattern in patterns)]


def environment(provider: Path) -> dict[str, str]:
    """What makes a program's libfabric load the provider and no other."""
    return {**os.environ, "FI_PROVIDER_PATH": str(provider), "FI_PROVIDER": "thole"}


def command(test: str, *more: str) -> list[str]:
    """The program with its directory, for our provider."""
    program, *options = test.split()
    return [str(PROGRAMS / program), *options, "-p", "thole", *more]


def listens(pid: int) -> bool:
    """Whether a process has a socket of TCP that takes connections; one that has ended has none."""
    listening, held = set(), set()
    with contextlib.suppress(OSError):
        for name in ("tcp", "tcp6"):
            rows = map(str.split, Path(f"/proc/{pid}/net/{name}").read_text().splitlines())
            listening |= {f"socket:[{words[9]}]" for words in rows if words[3] == "0A"}
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed since
                held.add(os.readlink(path))
    return bool(held & listening)


@pytest.fixture
def provider(build: Path) -> Path:
    """The directory of the built provider."""
    directory = build / "provider"
    if not (directory / "libthole-fi.so").exists():
        pytest.skip(f"no libthole-fi.so in {directory}: libfabric's headers were missing")
    return directory


pytestmark = pytest.mark.skipif(
    not PROGRAMS.name, reason="THOLE_FABTESTS does not name built fabtests"
)


@pytest.mark.parametrize("test", applicable(ALONE))
def test_alone(test: str, provider: Path) -> None:
    done = subprocess.run(
        command(test),
        env=environment(provider),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("test", applicable(PAIRS))
def test_pair(test: str, provider: Path) -> None:
    server = subprocess.Popen(
        command(test, "-E"),
        env=environment(provider),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # The client does not try twice to find the server's socket.
        wait_until(lambda: listens(server.pid) or server.poll() is not None, SECONDS)
        client = subprocess.run(
            command(test, "-E", "127.0.0.1"),
            env=environment(provider),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert client.returncode == 0, client.stdout[-2000:]
        said, _ = server.communicate(timeout=SECONDS)
        assert server.returncode == 0, said[-2000:]
    finally:
        server.kill()
        server.communicate()
