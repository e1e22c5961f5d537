# SPDX-License-Identifier: BSD-3-Clause
"""Whole MPIs and programs of MX between two guests: with the driver in both, in one, in none, and over soft-RoCE and
software iWARP; libfabric's own tests over soft-RoCE, too.

mpi_conform checks every byte of every kind of communication; counters say what carried it. `make test` runs one MPI by
the driver and one by remote DMA; `make test-all` the rest, on each kernel.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest as guests
import kernels
import module
import pytest
import test_fabtests as fabtests
from conform import COMPILED, GROUPS, LOG, SOURCES, assert_conformed, counters, network_flags
from conftest import FULL, assert_well, both_adapters, in_full_only
from mx_programs import SHORTER
from pair import AGENT, NOBODY, Pair
from thole.base.text import option_words
from thole_lab import venvs
from thole_lab.compiler import compile_mpi

ADAPTER = "ip link set eth0 mtu 4200; rdma link add {0}0 type {0} netdev eth0\nchmod 666 /dev/infiniband/*\n"
MPIS = ("mpich", "openmpi", "openmpi4", "impi")
LIMIT_S = 1200.0 if FULL else 200.0


@dataclass(frozen=True)
class Loading:
    """What guests do before and after a job so that `where` of them have the driver."""

    both: str
    after: str


NOTHING = Loading("", "")


@dataclass
class Jobs:
    """A pair of guests for one test, and what MPIs run in it."""

    pair: Pair
    found: dict[str, venvs.Environment]
    before: str = ""  # in both guests

    def mpi(self, name: str) -> venvs.Environment:
        if name not in self.found:
            pytest.skip(f"{name} is not installed")
        return self.found[name]

    def program(self, what: str, name: str, sources: list[Path]) -> Path:
        """Compiled where guests see it, which this machine's /tmp is not."""
        program = self.pair.build / "vm/jobs" / f"{what}-{name}"
        lender = self.found["mpich"].mpi if "mpich" in self.found else None
        with kernels.locked(program.parent):
            if not program.exists() or program.stat().st_mtime < max(file.stat().st_mtime for file in sources):
                compile_mpi(self.mpi(name).mpi, lender, COMPILED, sources, program)
        return program

    def conform(self, name: str, *words: str, ranks: int = 2, wrapper: str = "", **options: str) -> str:
        """A line that runs mpi_conform; `wrapper` is a script that sets variables, which each rank runs before."""
        program = [str(self.program("conform", name, SOURCES)), *network_flags(name), *words]
        if wrapper:
            program = ["sh", "-c", f'{wrapper}; exec "$0" "$@"', *program]
        return self.pair.over_thole(self.mpi(name), ranks, *program, **options)

    def run(self, command: str, user: str = "", load: Loading = NOTHING, **wishes: Any) -> guests.Result:
        wishes = {"limit_s": LIMIT_S, "memory_mib": 1024, **wishes}
        one, two = self.pair.run(command, self.before + load.both, load.after, user, **wishes)
        for result in (one, two):
            assert_well(result)
        return one


def make_jobs(bed: guests.Bed, build: Path, folder: Path, before: str = "") -> Jobs:
    return Jobs(Pair(bed, build, folder), venvs.find([build / "venv"]), before)


@pytest.fixture
def jobs(bed: guests.Bed, build: Path, tmp_path: Path) -> Jobs:
    return make_jobs(bed, build, tmp_path)


@pytest.fixture
def card_jobs(cards: guests.Bed, adapter: str, loads: str, build: Path, tmp_path: Path) -> Jobs:
    return make_jobs(cards, build, tmp_path, loads + ADAPTER.format(adapter))


def loading(kernel: kernels.Kernel, build: Path, where: str) -> Loading:
    if where == "none":
        return NOTHING
    try:
        file, tool = module.build_module(kernel, build), kernels.fetch_busybox(build)
    except kernels.Missing as trouble:
        pytest.fail(str(trouble))
    lines = (f"{tool} insmod {file}", module.unload(tool))
    return Loading(*(line if where == "both" else f"if [ $(hostname) = g1 ]; then {line}; fi" for line in lines))


# ---- By the driver -------------------------------------------------------------------------------------


# What the two have in common for small frames, and what each does for large messages. "required" is asked for only
# where the driver is.
WANTED = "if [ -e /dev/thole ]; then export THOLE_DRIVER=required; fi"


@pytest.mark.quick_on("6.12")
def test_driver(jobs: Jobs, kernel: kernels.Kernel, build: Path) -> None:
    """A user without rights, the driver in both guests: it carries all frames."""
    groups = GROUPS if FULL else ["modes", "types", "threads"]
    load = loading(kernel, build, "both")
    said = jobs.run(jobs.conform("mpich", "--small", *groups, link="driver"), NOBODY, load).output
    assert_conformed(said, groups)
    seen = counters(said)
    assert seen["frames_driver"] == seen["frames_sent"] > 500, seen


@in_full_only
@pytest.mark.parametrize("where", ["both", "one", "none"])
@pytest.mark.parametrize("name", MPIS)
def test_driver__bulk(jobs: Jobs, kernel: kernels.Kernel, build: Path, name: str, where: str) -> None:
    """Large messages are the driver's where it is, and whoever has none has as good a peer."""
    line = jobs.conform(name, "--small", wrapper=WANTED, link="udp")
    said = jobs.run(line, NOBODY, loading(kernel, build, where)).output
    assert_conformed(said)
    seen = counters(said)
    assert (seen.get("bulk_handed_over", 0) > 0) == (where != "none"), seen
    assert (seen.get("driver_received", 0) > 0) == (where != "none"), seen


@in_full_only
@pytest.mark.parametrize("link", ["raw", "auto"])
def test_driver__none_of_it(jobs: Jobs, kernel: kernels.Kernel, build: Path, link: str) -> None:
    """As root with packet sockets, beside the driver in one guest: they are the same on the wire."""
    said = jobs.run(jobs.conform("mpich", "--small", link=link), "", loading(kernel, build, "one")).output
    assert_conformed(said)


def overlapped(jobs: Jobs, load: Loading, seconds: int, **options: str) -> tuple[list[int], str]:
    """Pages of 16 MiB that were there when each rank had computed, of 4096; and what was measured."""
    program = jobs.program("overlap", "mpich", [guests.HERE / "mpi_overlap.c"])
    options |= {"link": "udp", "peer_timeout": "60s"}
    line = jobs.pair.over_thole(jobs.mpi("mpich"), 2, program, "16", str(seconds), **options)
    said = jobs.run(line, "", load).output
    return [int(pages) for pages in re.findall(r"^here (\d+) of 4096 pages", said, re.M)], said


@in_full_only
def test_driver__overlap(jobs: Jobs, kernel: kernels.Kernel, build: Path) -> None:
    """Large messages come while both ranks compute without a call of MPI: there is nothing to wait for afterwards.
    Without the driver there is all that goes beyond the first pieces."""
    here, said = overlapped(jobs, loading(kernel, build, "both"), 300, driver="required")
    assert len(here) == 2 and min(here) == 4096, said
    here, said = overlapped(jobs, NOTHING, 3)
    assert len(here) == 2 and max(here) < 4096 // 10, said


@in_full_only
def test_driver__views(bed: guests.Bed, jobs: Jobs, kernel: kernels.Kernel, build: Path, tmp_path: Path) -> None:
    """Ranks of one guest have each other's buffers mapped, for messages that are asked for."""
    mpi = jobs.mpi("mpich")
    program = [str(jobs.program("conform", "mpich", SOURCES)), "--small"]
    settings = [f"{name}={value}" for name, value in LOG.items()]
    options = option_words({"bulk": "direct", "driver": "required", "eager_max": "64k"})
    line = ["env", *settings, *jobs.pair.thole, "run", *options, *mpi.command(2, *program)]
    load = loading(kernel, build, "both")
    command = f"set -e; chmod 1777 /tmp; cd /tmp\n{load.both}\n{shlex.join(line)}\n{load.after}"
    result = guests.run(bed, guests.Job(command, tmp_path / "one", cpus=2, memory_mib=1024, limit_s=LIMIT_S))
    assert_well(result)
    assert_conformed(result.output)
    seen = counters(result.output)
    assert seen["bulk_direct"] > 0, seen


# ---- Programs of MX -------------------------------------------------------------------------------------


def mx_lines(build: Path, settings: str, name: str, words: Sequence[str]) -> str:
    """The receiver in g1 says where it is; then the sender starts in g2."""
    program = f"env {settings} {build}/test/system/mx-{name} -t 900 {' '.join(words)}"
    return (
        f"coproc {program}; pid=$COPROC_PID\nread -r -u ${{COPROC[0]}} ready nic endpoint; [ $ready = ready ]\n"
        f"on g2 {program} -d $nic -r $endpoint\nwait $pid; echo both ended"
    )


@in_full_only
def test_driver__mx(jobs: Jobs, kernel: kernels.Kernel, build: Path) -> None:
    """They speak MXoE as a user without rights. Whoever looks at 5 MB calls nothing meanwhile, and nobody else answers
    for him, as the kernel does for our own protocol: in a slow guest that takes longer than 10 s."""
    settings = "THOLE_CODEC=mxoe THOLE_LINK=driver THOLE_JOB_KEY=4711 THOLE_PEER_TIMEOUT=60s"
    lines = "\n".join(mx_lines(build, settings, name, words) for name, words in SHORTER.items())
    load = loading(kernel, build, "both")
    large = Loading(f"{load.both}\nip link set eth0 mtu 9000", load.after)
    said = jobs.run(lines, NOBODY, large).output
    assert said.count("both ended") == len(SHORTER), said
    for name in SHORTER:
        assert f"ok mx_{name.replace('-', '_')}" in said, said


# ---- By remote DMA --------------------------------------------------------------------------------------


def assert_by_adapters(seen: dict[str, int]) -> None:
    assert seen["verbs_messages"] > 10 * seen.get("network_messages", 0), seen
    assert seen["bulk_read"] + seen["bulk_pipeline"] > 0, seen
    assert seen.get("bulk_network", 0) == seen.get("queues_broken", 0) == seen.get("bad_records", 0) == 0, seen


@pytest.mark.later_kernel
@pytest.mark.quick_on("6.12")
@both_adapters
def test_adapters(card_jobs: Jobs) -> None:
    groups = GROUPS if FULL else ["modes", "types", "threads"]
    said = card_jobs.run(card_jobs.conform("mpich", "--small", *groups, verbs="required")).output
    assert_conformed(said, groups)
    assert_by_adapters(counters(said))


@in_full_only
@both_adapters
@pytest.mark.parametrize("name", MPIS)
def test_adapters__all_groups(card_jobs: Jobs, adapter: str, kernel: kernels.Kernel, name: str) -> None:
    said = card_jobs.run(card_jobs.conform(name, "--small", verbs="auto", verbs_device=f"{adapter}0")).output
    assert_conformed(said)
    assert_by_adapters(counters(said))


@in_full_only
@both_adapters
@pytest.mark.parametrize("name", ["mpich", "openmpi", "impi"])
def test_adapters__mixed(card_jobs: Jobs, adapter: str, name: str) -> None:
    """Two ranks a guest, of which one has no adapter: each pair goes its own way, by which large messages are asked
    for."""
    alone = "if [ ${PMI_RANK-$OMPI_COMM_WORLD_RANK} = 3 ]; then export THOLE_VERBS=off; fi"
    options = {"verbs": "auto", "verbs_device": f"{adapter}0", "yield": "always", "net_eager_alone": "0"}
    said = card_jobs.run(card_jobs.conform(name, "--small", ranks=4, wrapper=alone, **options), cpus=2).output
    assert_conformed(said)
    seen = counters(said)
    assert seen["verbs_messages"] > 100 and seen["network_messages"] > 100 and seen["shm_messages"] > 100, seen
    assert seen["bulk_network"] > 0 and seen["bulk_read"] + seen["bulk_pipeline"] > 0, seen


FABTESTS = fabtests.applicable(fabtests.QUICK)
PARTS = 12  # so that none takes long


@in_full_only
@pytest.mark.skipif(not fabtests.PROGRAMS.name, reason="THOLE_FABTESTS does not name built fabtests")
@pytest.mark.parametrize("part", range(PARTS))
def test_fabtests(card_jobs: Jobs, kernel: kernels.Kernel, build: Path, part: int) -> None:
    """The quick set of libfabric's own tests over the provider, by the adapters."""
    settings = {**LOG, "FI_PROVIDER": "thole", "FI_PROVIDER_PATH": str(build / "provider")}
    options = {"verbs": "required", "verbs_device": "rxe0", "interface": "eth0", "job_key": "none", "yield": "always"}
    settings |= {f"THOLE_{name.upper()}": value for name, value in {**options, "peer_timeout": "60s"}.items()}
    both = "".join(f"export {name}={value}\n" for name, value in settings.items())
    run = f"{guests.HERE}/fabtests.sh 'python3 -S -E {AGENT}' g2 {fabtests.PROGRAMS}"
    lines = "\n".join(f"{run}/{test} -p thole" for test in FABTESTS[part::PARTS])
    said = card_jobs.run(lines, load=Loading(both, ""), memory_mib=3000).output  # some ask for 1 GiB, and touch little
    assert "failed: " not in said, said
    seen = counters(said)
    assert seen["verbs_messages"] > 0 == seen.get("bad_records", 0), seen  # many end before there is a queue
