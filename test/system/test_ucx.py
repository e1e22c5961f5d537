# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI over Thole through UCX's interface (`thole run --through ucx`), inside a node and between hosts.

What programs rely on call by call is in ucx_semantics.c.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conform import CONFORM_FLAGS, LOG, assert_conformed, counters, network_flags
from conftest import Compile, InstalledMpi, Tool
from jobs import HERE, launch
from thole.base import paths
from thole.mpi import interface
from thole_lab.compiler import compile_mpi
from thole_lab.testbed import Testbed

pytestmark = pytest.mark.about("openmpi", "openmpi4")  # the others reach UCX by no library of Thole's
UCX_IS_SET = re.compile(r"^\s*LD_LIBRARY_PATH +\S+/ucx\b", re.MULTILINE)
NEEDS = re.compile(r" (ucp_\w+)$", re.MULTILINE)


# Starts itself again, without the variable by which Thole's library for UCX is found.
ANEW = """
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
	int one = 1, sum;

	if (getenv("LD_LIBRARY_PATH") && unsetenv("LD_LIBRARY_PATH") == 0)
		return execv("/proc/self/exe", words);
	MPI_Init(&count, &words);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return MPI_Finalize() || sum != 2;
}
"""


FAULTS = """
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
static void fault(int number) { (void)number; }
int main(int argc, char **argv)
{
	const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	struct sigaction now, ours = {.sa_handler = fault};
	int kept = 0;

	for (int i = 0; i < 4; i++)
		sigaction(numbers[i], &ours, NULL);
	MPI_Init(&argc, &argv);
	for (int i = 0; i < 4; i++)
		kept += sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == fault;
	MPI_Finalize();
	puts(kept == 4 ? "kept" : "lost");
	return 0;
}
"""

# Leaves while a message of its own waits for a receive that does not come.
UNRECEIVED = """
#include <mpi.h>
static char bytes[1 << 20];
int main(int count, char **words)
{
	int rank, one = 1, sum;
	MPI_Request request;

	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Isend(bytes, sizeof bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
	}
	return MPI_Finalize();
}
"""


# Each puts one more than its number at the other of two.
PUTS = """
#include <shmem.h>
#include <stdio.h>
static long got;
int main(void)
{
	shmem_init();
	shmem_barrier_all();
	shmem_long_p(&got, shmem_my_pe() + 1, !shmem_my_pe());
	shmem_barrier_all();
	printf("got %ld at %d\\n", got, shmem_my_pe());
	shmem_finalize();
	return 0;
}
"""


# As Open MPI 4.1 puts them into each program in C++.
BINDINGS = """
#include <mpi.h>

int main(int argc, char **argv)
{
	MPI_Win window = MPI_WIN_NULL;

	MPI_Init(&argc, &argv);
	if (argc > 1000) {
		MPI_Win_fence(0, window);
		MPI_Win_create_keyval(NULL, NULL, NULL, NULL);
		MPI_Win_create_errhandler(NULL, NULL);
	}
	return MPI_Finalize();
}
"""

# Windows come and go, several at a time, so that new ones lie where others were; rank 0 writes into its own.
WINDOWS = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
enum { BYTES = 2896, WINDOWS = 8, ROUNDS = 40 };
int main(int count, char **words)
{
	static char bytes[BYTES];
	char *base[WINDOWS], got;
	MPI_Comm comm[WINDOWS];
	MPI_Win window[WINDOWS];
	int there[WINDOWS] = {0}, rank, wrong = 0;
	unsigned seed = 7;

	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int round = 0; round < ROUNDS; round++) {
		int k = (int)(((seed = seed * 1103515245u + 12345u) >> 16) % WINDOWS);

		if (there[k]) {
			MPI_Win_unlock_all(window[k]);
			MPI_Win_free(&window[k]);
			MPI_Comm_free(&comm[k]);
		}
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[k]);
		MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm[k], &base[k], &window[k]);
		MPI_Win_lock_all(MPI_MODE_NOCHECK, window[k]);
		there[k] = 1;
		for (int j = 0; j < WINDOWS; j++) {
			if (!there[j])
				continue;
			memset(bytes, 1 + (round + j) % 100, BYTES);
			if (rank == 0) {
				MPI_Accumulate(bytes, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, MPI_REPLACE, window[j]);
				MPI_Win_flush(0, window[j]);
				wrong += memcmp(base[j], bytes, BYTES) != 0;
			}
			MPI_Barrier(MPI_COMM_WORLD);
			MPI_Get_accumulate(NULL, 0, MPI_BYTE, &got, 1, MPI_BYTE, 0, 8, 1, MPI_BYTE, MPI_NO_OP, window[j]);
			MPI_Win_flush(0, window[j]);
			wrong += got != bytes[8];
			MPI_Barrier(MPI_COMM_WORLD);
		}
	}
	for (int k = 0; k < WINDOWS; k++) {
		if (!there[k])
			continue;
		MPI_Win_unlock_all(window[k]);
		MPI_Win_free(&window[k]);
	}
	printf("wrong: %d\\n", wrong);
	return MPI_Finalize() || wrong;
}
"""


@pytest.fixture(autouse=True)
def library(build: Path) -> Path:
    place = build / "ucx" / paths.UCX
    if not place.exists():
        pytest.skip("the front end for UCX is not built: it needs UCX's headers (libucx-dev)")
    return place


@pytest.mark.over("openmpi4-2", "openmpi-4")
@pytest.mark.parametrize("ranks", [2, 4])
def test_conform(mpi: InstalledMpi, conform: Compile, ranks: int) -> None:
    flags = CONFORM_FLAGS.get(mpi.name, ())
    done = launch(mpi.by("ucx"), ranks, conform(mpi), *flags, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_conformed(done.stdout)


def test_conform__two_hosts(mpi: InstalledMpi, conform: Compile, two: Testbed) -> None:
    groups = ["modes", "order", "probe", "types", "onesided"]
    done = launch(mpi.by("ucx"), 2, conform(mpi), *network_flags(mpi.name), *groups, timeout=300, hosts=two)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_conformed(done.stdout, groups)


def test_windows__cost_nothing_where_none_is_named(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    """Open MPI's btl/ofi sleeps for a second when it is closed. Calls that need a window make none."""
    programs = {}
    for name, text in {"idle": UNRECEIVED, "bound": BINDINGS, "busy": WINDOWS}.items():
        source, programs[name] = tmp_path / f"{name}.c", tmp_path / name
        source.write_text(text)
        compile_mpi(mpi.mpi, None, (), [source], programs[name])

    def btl(*words: object, **env: str) -> str:
        done = thole("run", "--explain", *map(str, mpi.command(2, *words)), env=mpi.environment(**env))
        found = re.search(r"^\s*OMPI_MCA_btl +(\S+) ", done.stdout, re.M)
        assert done.returncode == 0 and found, done.stdout + done.stderr
        return found[1]

    assert btl(programs["idle"]) == btl(programs["bound"]) == "self"
    assert btl(programs["busy"]) == btl(mpi.python, "-c", "pass") == btl("sh", programs["idle"]) == "self,ofi"
    assert btl(programs["idle"], OMPI_MCA_btl="self,ofi") == "self,ofi"
    assert btl(programs["busy"], OMPI_MCA_btl="self") == "self"
    done = mpi.run(2, programs["idle"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_windows__where_others_were(mpi: InstalledMpi, two: Testbed, tmp_path: Path) -> None:
    """As NWChem has them, which computed something else."""
    source, program = tmp_path / "windows.c", tmp_path / "windows"
    source.write_text(WINDOWS)
    compile_mpi(mpi.mpi, None, (), [source], program)
    done = launch(mpi.by("ucx"), 3, program, timeout=120, hosts=two)
    assert done.returncode == 0 and done.stdout.count("wrong: 0") == 3, done.stdout + done.stderr


def test_what_was_sent_arrives(mpi: InstalledMpi, tmp_path: Path) -> None:
    done = launch(mpi.by("ucx"), 2, mpi.python, HERE / "mpi_leaving.py", tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^arrived [1-9]\d*$", done.stdout, re.M), done.stdout


def test_signals__are_the_programs(mpi: InstalledMpi, tmp_path: Path) -> None:
    """UCX's own library, of which Open MPI takes parts, would have those that come of a program's faults."""
    source, program = tmp_path / "faults.c", tmp_path / "faults"
    source.write_text(FAULTS)
    compile_mpi(mpi.mpi, None, (), [source], program)
    done = launch(mpi.by("ucx"), 2, program, timeout=120)
    assert done.returncode == 0 and done.stdout.count("kept") == 2, done.stdout + done.stderr


def test_unreceived__is_left(mpi: InstalledMpi, tmp_path: Path) -> None:
    """As by libfabric, and over UCX's own library."""
    source, program = tmp_path / "unreceived.c", tmp_path / "unreceived"
    source.write_text(UNRECEIVED)
    compile_mpi(mpi.mpi, None, (), [source], program)
    done = launch(mpi.by("ucx"), 2, program, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_spawn(mpi: InstalledMpi, conform: Compile) -> None:
    done = launch(mpi.by("ucx"), 2, conform(mpi), "spawn", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^spawn ok [1-9]\d*$", done.stdout, re.M), done.stdout


def test_check__counts_what_went_through_it(mpi: InstalledMpi, conform: Compile, thole: Tool) -> None:
    command = mpi.command(2, conform(mpi), "--count", "messages")
    done = thole("run", "--through", "ucx", "--check", *command, env=mpi.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^counted (\d+) operations", done.stdout, re.M)
    carried = re.search(r"shared memory: (\d+) messages", done.stderr)
    assert said is not None and carried is not None, done.stdout + done.stderr
    assert int(carried[1]) >= int(said[1]) > 0


def test_log__has_the_counters(mpi: InstalledMpi, conform: Compile) -> None:
    """In UCX's log, as with libfabric in libfabric's."""
    done = launch(mpi.by("ucx"), 2, conform(mpi), "--count", "messages", timeout=120, env=LOG)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^counted (\d+) operations", done.stdout, re.M)
    told = [line for line in (done.stdout + done.stderr).splitlines() if "UCX" in line and "counter" in line]
    assert said is not None and counters("\n".join(told))["shm_messages"] >= int(said[1]) > 0


def test_log__why_there_is_no_endpoint(mpi: InstalledMpi, conform: Compile) -> None:
    done = launch(
        mpi.by("ucx"), 2, conform(mpi), "modes", timeout=120, options={"network": "on", "interface": "nosuch0"}
    )
    assert done.returncode != 0
    assert re.search(r"UCX +WARN +no endpoint: .*nosuch0", done.stdout + done.stderr), done.stdout + done.stderr


def took_another(build: Path) -> str:
    loaded = r"it loaded /\S+/libucp\S+, UCX's own library, where Thole's was to be"
    return rf"{loaded}; .* has to leave {build}/ucx in front, or use --through libfabric"


def test_another_ucx__is_refused(mpi: InstalledMpi, conform: Compile, thole: Tool, tmp_path: Path, build: Path) -> None:
    """Where something puts UCX's own library first, the program does not run without Thole unnoticed."""
    start = tmp_path / "start"
    start.write_text('#!/bin/sh\nunset LD_LIBRARY_PATH\nexec "$@"\n')
    start.chmod(0o700)
    command = mpi.command(2, start, conform(mpi), "modes")
    done = thole("run", "--through", "ucx", "--check", *command, env=mpi.environment())
    assert done.returncode != 0
    assert "modes ok" not in done.stdout
    if mpi.name == "openmpi":  # 4.1 has opened an endpoint for one-sided operations by then, and leaves UCX at once
        assert re.search(rf"^thole: ranks? [01, ]+ on \S+ ran without Thole: {took_another(build)}$", done.stderr, re.M)


def test_default__another_ucx(mpi: InstalledMpi, thole: Tool, build: Path, tmp_path: Path) -> None:
    """Ranks that find UCX's own library first, after all, send over Thole by libfabric."""
    source, program = tmp_path / "anew.c", tmp_path / "anew"
    source.write_text(ANEW)
    compile_mpi(mpi.mpi, None, (), [source], program)
    done = thole("run", "--check", *mpi.command(2, program), env=mpi.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "transport 'thole' is not available" in done.stdout + done.stderr
    assert "all of 2 ranks" in done.stderr
    if mpi.name == "openmpi":
        assert re.search(rf"^thole:   ranks 0, 1 on \S+: {took_another(build)}$", done.stderr, re.M), done.stderr


def test_arguments__that_hand_a_variable_on(mpi: InstalledMpi, conform: Compile, thole: Tool, build: Path) -> None:
    """A list of the user's stays, behind ours; of another value is warned."""
    words = ("-x", "LD_LIBRARY_PATH=/usr/lib:/opt/lib", "-x", "FI_PROVIDER=tcp")
    done = thole("run", "--explain", *mpi.command(2, *words, conform(mpi)), env=mpi.environment())
    assert f" -x LD_LIBRARY_PATH={build}/ucx:/usr/lib:/opt/lib " in done.stdout
    assert "note: -x FI_PROVIDER=tcp goes before FI_PROVIDER=thole: messages will not go over Thole" in done.stdout
    flags = CONFORM_FLAGS.get(mpi.name, ())
    command = mpi.command(2, *words[:2], conform(mpi), *flags, "modes")
    done = thole("run", "--through", "ucx", "--check", *command, env=mpi.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of 2 ranks" in done.stderr


def test_default__as_the_program_allows(
    mpi: InstalledMpi, conform: Compile, thole: Tool, tmp_path: Path
) -> None:
    sessions = tmp_path / "sessions"
    sessions.write_bytes(conform(mpi).read_bytes() + b"\0MPI_Session_init\0")
    contexts = tmp_path / "contexts"
    contexts.write_bytes(conform(mpi).read_bytes() + b"\0ucp_init_version\0")
    start = tmp_path / "start"
    start.write_text('#!/bin/sh\nexec "$@"\n')
    for program in (sessions, contexts, start):
        program.chmod(0o700)

    def explained(*words: str | Path) -> str:
        done = thole("run", "--explain", *words, env=mpi.environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert UCX_IS_SET.search(explained(*mpi.command(2, conform(mpi))))
    for program, why in (
        (sessions, "uses MPI's sessions"),
        (contexts, "calls UCX by itself"),
        (start, "is no program of machine code"),
        (mpi.python, "is no program of machine code"),
        (tmp_path / "missing", "is no program of machine code"),
    ):
        said = explained(*mpi.command(2, program, conform(mpi)))
        assert not UCX_IS_SET.search(said)
        assert f"its messages go through libfabric, since {program} {why}" in said
    said = explained(*mpi.command(2, conform(mpi), ":", sessions))
    assert "uses MPI's sessions" in said
    said = explained("--option", "progress_thread=on", *mpi.command(2, conform(mpi)))
    assert "since the option progress_thread has no effect" in said
    assert not UCX_IS_SET.search(said)
    assert not UCX_IS_SET.search(explained("--through", "libfabric", *mpi.command(2, conform(mpi))))
    assert UCX_IS_SET.search(explained("--through", "ucx", *mpi.command(2, sessions)))


@pytest.mark.over("openmpi")
@pytest.mark.parametrize(("version", "through"), [("5.0.7", "libfabric"), ("5.0.9", "libfabric"), ("5.0.10", "auto")])
def test_default__imrecv(mpi: InstalledMpi, conform: Compile, version: str, through: str) -> None:
    """MPI_Waitall, and its like, looked for the communicator of MPI_Imrecv's requests, which pml/ucx had not set."""
    of_version = replace(mpi.mpi, version=version, why=[])
    interface.choose(of_version, "auto", [str(word) for word in mpi.command(2, conform(mpi))], {})
    assert of_version.through == through
    assert any("uses MPI_Imrecv" in why for why in of_version.why) is (through == "libfabric")


@pytest.mark.over("openmpi4")
def test_default__openshmem(mpi: InstalledMpi, thole: Tool, tmp_path: Path) -> None:
    """Its puts need more of UCX than messages, so that it starts with UCX's own library alone."""
    compiler, launcher = (shutil.which(name, path="/usr/bin:/bin") for name in ("oshcc", "oshrun"))
    if compiler is None or launcher is None:
        pytest.skip("Open MPI's OpenSHMEM is not installed")
    source, program = tmp_path / "puts.c", tmp_path / "puts"
    source.write_text(PUTS)
    subprocess.run([compiler, source, "-o", program], check=True, timeout=60)
    words = [launcher, "-np", "2", program]
    done = thole("run", "--explain", *words, env=mpi.environment())
    assert f"since {program} uses OpenSHMEM" in done.stdout, done.stdout + done.stderr
    done = thole("run", *words, env=mpi.environment(), timeout=300)
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("got"))
    assert said == ["got 1 at 1", "got 2 at 0"], done.stdout + done.stderr


def test_default__where_path_is_the_folder_of_the_mpi_alone(mpi: InstalledMpi, conform: Compile, thole: Tool) -> None:
    """As under cron, or from a module: all else that is asked is found all the same."""
    env = {**mpi.environment(), "PATH": str(mpi.launcher.parent)}
    done = thole("run", "--explain", *mpi.command(2, conform(mpi)), env=env)
    assert UCX_IS_SET.search(done.stdout), done.stdout + done.stderr


def test_default__several_hosts(mpi: InstalledMpi, conform: Compile, thole: Tool, library: Path) -> None:
    """All hosts need the library, since Open MPI wants all ranks to go the same way."""
    command = [mpi.launcher, "--host", "alpha,beta", "-n", "2", conform(mpi)]
    done = thole("run", "--explain", *command, env=mpi.environment())
    assert f"and {library}; where one has not, use --through libfabric" in done.stdout
    done = thole("run", "--through", "libfabric", "--explain", *command, env=mpi.environment())
    assert paths.UCX not in done.stdout


@pytest.mark.over("openmpi")
@pytest.mark.parametrize(("pml", "judged"), [("cm", False), ("ucx", False), ("ob1", True)])
def test_default__pml_of_the_users(
    mpi: InstalledMpi, conform: Compile, thole: Tool, pml: str, judged: bool
) -> None:
    done = thole("run", "--explain", *mpi.command(2, "--mca", "pml", pml, conform(mpi)), env=mpi.environment())
    assert (f"the argument --mca pml {pml} goes before" in done.stdout) is judged
    done = thole("run", "--explain", *mpi.command(2, conform(mpi)), env=mpi.environment(OMPI_MCA_pml=pml))
    assert ("OMPI_MCA_pml was" in done.stdout) is judged


def test_insisting__beside_a_word_for_libfabric(mpi: InstalledMpi, conform: Compile, thole: Tool) -> None:
    """Messages go over Thole all the same, and one sentence says by which interface."""
    said = "messages go over Thole by libfabric"
    words = ["run", "--explain", "--through", "ucx"]
    done = thole(*words, *mpi.command(2, "--mca", "pml", "cm", conform(mpi)), env=mpi.environment())
    note = f"the argument --mca pml cm goes before --through ucx: {said}"
    assert re.findall(r"^note: (.*)", done.stdout, re.M) == [note]
    done = thole(*words, "--keep", *mpi.command(2, conform(mpi)), env=mpi.environment(OMPI_MCA_pml="cm"))
    assert re.findall(r"^note: (.*)", done.stdout, re.M) == [
        f"OMPI_MCA_pml=cm is kept (--keep), Thole needs ucx: {said}"
    ]
    done = thole(*words, *mpi.command(2, "--mca", "pml", "ob1", conform(mpi)), env=mpi.environment())
    assert "messages will not go over Thole" in done.stdout


@pytest.mark.over("openmpi")
def test_fault_tolerance__is_beyond(mpi: InstalledMpi, conform: Compile, thole: Tool) -> None:
    for way, value, told in (("ucx", "ulfm", True), ("libfabric", "mpi", True), ("ucx", "no", False)):
        command = mpi.command(2, "--with-ft", value, conform(mpi))
        done = thole("run", "--explain", "--through", way, *command, env=mpi.environment())
        assert (f"note: --with-ft {value}: Open MPI's fault tolerance" in done.stdout) is told, done.stdout


@pytest.mark.over("openmpi4")
def test_settings_of_ucxs(mpi: InstalledMpi, conform: Compile, thole: Tool) -> None:
    """Thole reads none, and hands them on to UCX's other libraries; what a user may miss is said."""
    theirs = {"UCX_TLS": "rc,self", "UCX_NET_DEVICES": "eth7", "UCX_RNDV_THRESH": "8k", "UCX_LOG_LEVEL": "info"}
    command = mpi.command(2, conform(mpi), *CONFORM_FLAGS.get(mpi.name, ()), "modes")
    done = thole("run", "--check", "--keep", *command, env=mpi.environment(**theirs))
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("thole: ")]
    assert said[0] == (
        "thole: UCX_TLS=rc,self is kept (--keep), Thole needs thole: it reads neither, but ranks that find UCX's own "
        "library would send by that, unseen"
    )
    assert said[1].startswith("thole: all of 2 ranks on ")

    def explained(*words: str | Path) -> str:
        return thole("run", "--explain", *words, env=mpi.environment(**theirs)).stdout

    note = "note: Thole reads none of UCX_NET_DEVICES, UCX_RNDV_THRESH; `thole info options` has what it reads"
    said = explained(*mpi.command(2, conform(mpi)))
    assert note in said and "--interface" not in said
    assert ";UCX_LOG_LEVEL;" in re.sub(r"\s+", "", said)
    several = [mpi.launcher, "--host", "alpha,beta", "-n", "2", conform(mpi)]
    assert "note: UCX_NET_DEVICES=eth7 chooses no interface for Thole; --interface does" in explained(*several)
    assert "UCX_NET" not in explained("--interface", "eth7", *several).replace(note, "").partition("note:")[2]
    assert "Thole reads none" not in explained("--through", "libfabric", *several)


@pytest.mark.over("openmpi4")
def test_options__in_libfabrics_way(mpi: InstalledMpi, conform: Compile, thole: Tool) -> None:
    """Ranks read none of these through UCX: they are told in the other way, unless --option says more."""
    theirs = {"FI_THOLE_INTEGRITY": "full", "FI_THOLE_SPIN": "7us", "FI_THOLE_JOB_KEY": "4711", "THOLE_SPIN": "8us"}
    command = mpi.command(2, conform(mpi))

    def explained(*words: str, **more: str) -> tuple[dict[str, str], str]:
        done = thole("run", "--explain", *words, *command, env=mpi.environment(**theirs, **more))
        assert done.returncode == 0, done.stderr
        rows = (line.split() for line in done.stdout.splitlines())
        assert "4711" not in done.stdout and "4712" not in done.stdout, "a key is nobody's to see"
        return {row[0]: row[1] for row in rows if len(row) > 1 and "THOLE_" in row[0]}, done.stdout

    rows, said = explained()
    assert rows["THOLE_INTEGRITY"] == "full" and rows["THOLE_SPIN"] == "7us" and rows["THOLE_JOB_KEY"] == "(hidden)"
    assert "FI_THOLE_INTEGRITY is not read through UCX" in said and "THOLE_SPIN was '8us', is '7us'" in said
    rows, said = explained("--keep")
    assert rows["THOLE_SPIN"] == "8us" and "THOLE_SPIN=8us is kept" in said
    rows, _ = explained("--option", "spin=9us", "--option", "job_key=4712")
    assert rows["THOLE_SPIN"] == rows["FI_THOLE_SPIN"] == "9us", "by each interface"
    rows, _ = explained("--through", "libfabric")
    assert "THOLE_INTEGRITY" not in rows and "THOLE_SPIN" not in rows, "read as it is"
    _, said = explained(FI_THOLE_PROGRESS_THREAD="on")
    assert "since the option progress_thread has no effect" in said


@pytest.mark.about("impi")
def test_others__are_told(mpi: InstalledMpi, thole: Tool) -> None:
    done = thole("run", "--through", "ucx", mpi.launcher, "-n", "1", "true", env=mpi.environment())
    assert done.returncode != 0
    assert "has no way to Thole through UCX; go without --through ucx" in done.stderr


def test_every_name__that_open_mpi_needs_is_there(mpi: InstalledMpi, library: Path) -> None:
    if shutil.which("nm") is None or mpi.mpi.library is None:
        pytest.skip("nm is not installed, or the library was not found")
    folder = mpi.mpi.library.parent
    names_of_files = ("libmpi*.so*", "libmca*.so*", "libopen*.so*", "liboshmem*.so*", "openmpi/**/*ucx*.so")
    files = {path.resolve() for name in names_of_files for path in folder.glob(name)}
    needed = {name for path in files if path.is_file() for name in names(path, "--undefined-only")}
    assert needed
    assert needed <= names(library, "--defined-only")


def names(path: Path, which: str) -> set[str]:
    done = subprocess.run(["nm", "-D", which, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return set(NEEDS.findall(done.stdout))


def test_ucx__endpoints_of_both_interfaces_know_of_each_other(build: Path) -> None:
    """Each has a copy of the library. Who waits at one of several does not sleep for long: another may be needed."""
    library = build / "ucx/libucp.so.0"
    if not library.exists():
        pytest.skip("it was built without UCX's header")
    ucx, fabric = ctypes.CDLL(str(library)), ctypes.CDLL(str(build / "provider/libthole-fi.so"))
    counts = [ctypes.c_uint32.in_dll(each, "thole_endpoints_used") for each in (ucx, fabric)]
    counts[0].value = 5
    assert counts[1].value == 5
