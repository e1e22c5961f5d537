# SPDX-License-Identifier: BSD-3-Clause
"""bench/ and lab/ where nothing is timed: arguments that mean nothing are refused before anything is measured, and what
was not measured is not shown as if it were.

Their modules are imported in processes of their own: both have some of the same name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from thole_lab import process, venvs
from thole_lab.compiler import compile_mpi

BENCH, LAB = ROOT / "bench", ROOT / "lab"
RUN = [sys.executable, str(BENCH / "run.py")]
LIMIT_S = 60.0


def run(*words: object, **more: str) -> process.Outcome:
    return process.run([str(word) for word in words], {**os.environ, **more}, LIMIT_S)


def within(folder: Path, code: str) -> str:
    """What Python says that has this folder's modules."""
    done = run(sys.executable, "-c", code, PYTHONPATH=f"{folder}:{ROOT / 'python'}")
    assert done.status == 0, done.failure
    return done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--only latncy", "latncy"),
        ("--part driver --only nonsense", "nonsense"),
        ("--part driver --peers mpich --quick", "--peers"),
        ("--part node --settings 0", "--settings"),
        ("--settings 5", "--settings 5"),
        ("--settings one", "--settings one"),
        ("--sizes 8,4g", "--sizes 8,4g"),
        ("--rounds 0", "--rounds"),
        ("--inner 1001", "--inner"),
        ("--settle -1", "--settle"),
        ("--venvs /nowhere", "/nowhere"),
        ("--build /nowhere", "/nowhere"),
        ("--against /nowhere", "/nowhere"),
        ("--name a/b", "--name a/b"),
        ("--results /proc/nowhere", "/proc/nowhere"),
        ("--list --record --quick", "--quick"),
        ("--list --record --peers mpich", "--peers"),
        ("--list --record --only latency", "--only"),
        ("--list --record --sizes 8", "--sizes"),
        ("--list --record --settings 0", "--settings"),
        ("--list --record --part node", "--part"),
    ],
)
def test_refused(build: Path, words: str, said: str) -> None:
    """At once, in a line."""
    built = [] if "--build" in words else ["--build", build]
    done = run(*RUN, *built, *words.split())
    assert done.status == 2, done.output[-2000:]
    assert said in done.output + done.errors
    assert "Traceback" not in done.errors
    assert not Path("/nowhere").exists()


def test_against__twice(build: Path, tmp_path: Path) -> None:
    """Two builds of one name would be taken for one."""
    builds = [tmp_path / name / "tree" / "build" for name in ("one", "other")]
    for folder in builds:
        (folder / "provider").mkdir(parents=True)
        (folder / "provider" / "libthole-fi.so").touch()
    done = run(*RUN, "--build", build, *(word for folder in builds for word in ("--against", folder)))
    assert done.status == 2 and "tree" in done.output
    done = run(*RUN, "--build", build, "--list", "--record", "--against", builds[0])
    assert done.status == 2 and "without --against" in done.output


def test_against__libraries(tmp_path: Path) -> None:
    """What is measured over another build has each library of that build."""
    code = f"""
import pathlib
from peers import NETWORK_PEERS, PEERS
for peer in PEERS + NETWORK_PEERS:
    if peer.thole:
        other = peer.over(pathlib.Path({str(tmp_path)!r}))
        print(peer.heap, peer.through, *sorted(f"{{name}}={{value}}" for name, value in other.provided().items()))
"""
    found = [f"FI_PROVIDER_PATH={tmp_path}/provider"]
    ucx, heap = f"LD_LIBRARY_PATH={tmp_path}/ucx", f"LD_PRELOAD={tmp_path}/heap/libthole-heap.so"
    assert set(within(BENCH, code).splitlines()) == {
        " ".join(["False", "libfabric", *found]),
        " ".join(["False", "ucx", *found, ucx]),
        " ".join(["True", "libfabric", *found, heap]),
    }


@pytest.mark.parametrize(("part", "names"), [("driver", "costs, small"), ("adapters", "thole, ucx")])
def test_list__counted(build: Path, part: str, names: str) -> None:
    """Parts that are counted are listed as the others are, and no guest is started."""
    done = run(*RUN, "--build", build, "--part", part, "--list")
    assert done.status == 0 and names in done.output, done.output + done.errors


def test_counted__failure(tmp_path: Path) -> None:
    """What fails in a guest is no success of the whole."""
    code = f"""
import argparse, pathlib
import instructions, report
from rich.console import Console
def fails(*_):
    raise instructions.guests.Lost("gone")
instructions.guests.need_qemu = lambda: None
instructions.guests.make_bed = instructions.run_program = fails
instructions.guests.make_bed = lambda *_: None
class Kernel: release = "6"
instructions.kernels.fetch = lambda _: [Kernel]
instructions.kernels.fetch_busybox = lambda _: None
part = instructions.Part("x", "X", lambda *_: [instructions.Program("p", "")],
                         lambda found: report.Table("X", ["a"], []), lambda found: [], ("p",))
options = argparse.Namespace(build=pathlib.Path("."), only=None, results=pathlib.Path({str(tmp_path)!r}))
print("status", instructions.run(part, options, Console(), "n", {{}}))
"""
    assert "status 1" in within(BENCH, code)


def test_floor__unknown() -> None:
    """Samples of a moment whose cache line nobody has measured are beside no others, and say so."""
    code = """
from results import Results
from targets import is_near
results = Results()
results.add("a", '{"test": "t", "size": 8, "unit": "us", "samples": [1, 2]}', 0.0)
results.add("b", '{"test": "t", "size": 8, "unit": "us", "samples": [1, 2]}', 1.0)
for condition in results.conditions():
    print(condition, is_near(condition), results.under(condition).count())
"""
    assert "is not known False 2" in within(BENCH, code)
    code = """
import argparse, pathlib
import comparison
bench = comparison.Bench.__new__(comparison.Bench)
bench.cpus, bench.options = [0, 1], argparse.Namespace(build=pathlib.Path("/nowhere"))
print("floor", bench.floor())
"""
    assert "floor 0.0" in within(BENCH, code)


@pytest.mark.parametrize(
    ("near", "apart", "known"),
    [(25, 0, False), (75, 1, False), (75, 9, False), (75, 10, True), (7, 0, False), (7, 7, True), (2, 1, False)],
)
def test_best__of_all(near: int, apart: int, known: bool) -> None:
    """In a state of the machine in which one of the others was hardly measured nobody knows the best of them: neither
    the report nor the documents have a row."""
    code = f"""
import json
import record, targets
from results import Results
results = Results()
def add(peer, count, floor):
    line = {{"test": "latency", "size": 8, "unit": "us", "samples": [1.0] * count}}
    results.add(peer, json.dumps(line) if count else "", floor)
for floor in (40.0, 200.0):
    for peer in ("thole-mpich", "mpich"):
        add(peer, 75, floor)
add("intel", {near}, 40.0)
add("intel", {apart}, 200.0)
row = targets.Row("x", "latency", ("thole-mpich", "thole-intel"), ("mpich", "intel"), {{8: 1.0}})
facts = {{"mpich": "MPICH 5.0", "impi": "Intel MPI 2021"}}
for condition in sorted(results.conditions(), key=lambda one: one.low_ns):
    checks = row.checks(results.under(condition), True)
    print([check.state for check in checks], len(record.rows(results, condition, (row,), facts)))
"""
    rows = within(BENCH, code).splitlines()
    assert rows == ["['met'] 1", "['met'] 1" if known else "['not measured'] 0"]


def test_network__polls_carry_nothing() -> None:
    """What crossed the network is compared with bytes alone, and not with nanoseconds of work."""
    code = """
import json
import network
def line(test):
    return json.dumps({"test": test, "size": 500, "unit": "us", "iterations": 1000, "samples": [1, 2]})
print(network.least_bytes(line("latency")))
print([test for test in network.POLLS if network.least_bytes(line(test))])
"""
    assert within(BENCH, code).splitlines() == ["1000000", "[]"]


def test_failure__of_one_test() -> None:
    """What fails is not started again in later rounds; the other tests of that peer are."""
    code = """
import argparse
import comparison
from plans import Plan
from rich.console import Console
class Some(comparison.Bench):
    def line(self, peer, plan):
        return [plan.tests[0]], {}
    def floor(self):
        return 40.0
    def once(self, command, settings):
        print("start", *command)
        bad = command == ["test"]
        return comparison.Outcome(1 if bad else 0, "", "bad" if bad else "", 0.0)
bench = Some.__new__(Some)
bench.options = argparse.Namespace(lock=None, settle=0.0)
bench.results, bench.cpus, bench.commands, bench.repeated = comparison.Results(), [], {}, 0
bench.console = Console(quiet=True)
comparison.host.busy = lambda command, computing: command
comparison.QUIET = 1e9
bench.measure([comparison.Peer("mpich", "mpich", "x")], [Plan(("latency",), 2, "8"), Plan(("test",), 2, "0")], 3)
print(sorted(bench.results.failures))
"""
    said = [line for line in within(BENCH, code).splitlines() if line.startswith(("start", "["))]
    assert said.count("start latency") == 3 and said.count("start test") == 1
    assert said[-1] == "['mpich test']"


def test_floor__refused(tmp_path: Path) -> None:
    """Where a processor is not to be had it ends at once, and waits for nobody."""
    program = tmp_path / "floor"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", BENCH / "floor.c", "-o", program], check=True)
    for words in (("0", "100000"), ("100000", "0"), ("0", "100000", "copy"), ("0", "x"), ("-1", "0")):
        began = time.monotonic()
        done = process.run([str(program), *words], dict(os.environ), 20.0)
        assert done.status == 1, words
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(("cores", "ranks"), [(1, 0), (2, 0), (3, 3), (8, 8), (64, 16)])
def test_wide(cores: int, ranks: int) -> None:
    """With a core for each rank, where that is more than two; inside a node and between hosts."""
    code = f"""
import argparse
import network, plans
options = argparse.Namespace(only=None, quick=False, sizes=None)
for made in (plans.plans(options, {cores}), network.plans(options, network.PLAIN, {cores})):
    wide = [plan for plan in made if plan.wide]
    print(len(made) > len(wide) > 0, sorted(set(plan.ranks for plan in wide)), len(set(plan.tests for plan in wide)))
print([plan.wide for plan in network.plans(options, network.JUMBO, {cores})].count(True))
"""
    expected = f"True [{ranks}] 3" if ranks else "False [] 0"
    assert within(BENCH, code).split("\n")[:3] == [expected, expected, "0"]


def test_interrupt() -> None:
    """After an interrupt nothing more is measured, and what there is is reported."""
    code = """
import argparse
import comparison, ours, report
from rich.console import Console
def interrupt(*_):
    raise KeyboardInterrupt
def never(*_):
    raise SystemExit("it went on")
options = argparse.Namespace(against=[], lock=None, only=None, quick=True, rounds=1, build=None, sizes=None)
bench = comparison.Bench.__new__(comparison.Bench)
bench.options, bench.results, bench.found, bench.programs, bench.cpus = options, comparison.Results(), {}, {}, []
bench.every = []
bench.commands, bench.repeated, bench.console = {}, 0, Console()
bench.measure = interrupt
bench.measure_hpcc = ours.perf = ours.memory = ours.crowd = never
compared = comparison.Compared(options, Console())
comparison.measure_node(bench, [], compared)
print("parts", len(compared.parts), "interrupted", compared.interrupted)
"""
    assert "parts 1 interrupted True" in within(BENCH, code)


NODE, HOSTS = "Inside a node", "Between two hosts, MTU 1500"


def results(
    peers: str,
    commit: str = "a1",
    cpu: str = "Zen",
    began: str = "2026-11-29 10:00",
    title: str = NODE,
    failures: dict[str, str] | None = None,
) -> dict[str, object]:
    """What a run writes in which these peers took as long as each other."""
    mpis = {"mpich": "MPICH 5.0", "impi": "Intel", "openmpi": "Open MPI 5"}
    host = {"commit": commit, "cpu": cpu, "kernel": "6", "machine": f"{cpu}; 2 CPUs", "began": began, **mpis}
    series = {"test": "latency", "size": 8, "unit": "us", "samples": [1.0] * 25, "floors_ns": [40.0] * 25}
    rows = [{"peer": peer, **series} for peer in peers.split(",")]
    return {"host": host, "parts": [{"title": title, "failures": failures or {}, "results": rows}]}


def summary(*given: dict[str, object]) -> dict[str, object]:
    code = f"import json, record; print(json.dumps(record.summary({given!r})))"
    made: dict[str, object] = json.loads(within(BENCH, code))
    return made


def test_record__pieces() -> None:
    """Pieces of several commits and days say which, and those MPIs that were measured in one of them; of two machines
    there is no record."""
    made = summary(
        results("mpich,thole-mpich", "a1", began="2026-11-28 23:50"),
        results("intel", "b2", began="2026-11-29 00:10"),
    )
    assert made["commit"] == "a1, b2"
    assert made["mpis"] == ["MPICH 5.0", "Intel"]
    assert (made["since"], made["date"], made["time"]) == ("2026-11-28", "2026-11-29", "00:10")
    code = f"""
import record
try:
    record.summary([{results("mpich")!r}, {results("mpich", cpu="Xeon")!r}])
except record.Trouble as trouble:
    print("refused:", trouble)
"""
    refused = within(BENCH, code)
    assert refused.startswith("refused:") and "Xeon" in refused


def test_record__failures(tmp_path: Path) -> None:
    """What did not run to its end is said beside the tables, of those parts that they have."""
    made = summary(
        results("mpich,thole-mpich", failures={"intel latency": "it hung"}),
        results("mpich-tcp", title="Between two hosts, MTU 9000", failures={"intel-tcp latency": "it hung"}),
    )
    file = tmp_path / "made.json"
    file.write_text(json.dumps(made))
    said = within(BENCH, f"import pathlib, documents; print(documents.block(pathlib.Path({str(file)!r})))")
    assert "Not run to their end: intel latency." in " ".join(said.split())


def test_record__there(tmp_path: Path) -> None:
    """What is there of a machine and a day gives way to what has all of its rows, and to nothing else. The day is that
    of measuring, also of results that do not say it."""
    old = results("mpich,thole-mpich")
    del old["host"]["began"]  # type: ignore[attr-defined]
    hosts = results("mpich-tcp,thole-mpich-both", title=HOSTS)
    pieces = {"node": results("mpich,thole-mpich"), "hosts": hosts, "old": old}
    for name, piece in pieces.items():
        (tmp_path / name).write_text(json.dumps(piece))
    os.utime(tmp_path / "old", (86400.0, 86400.0))
    code = f"""
import json, pathlib
import documents, record
folder = pathlib.Path({str(tmp_path)!r})
documents.FOLDER = folder / "made"
documents.write = lambda: None
for names in (["node"], ["hosts"], ["node", "hosts"], ["node"], ["old"]):
    try:
        made = record.take([folder / name for name in names])[0]
        print(made.name, [part["title"] for part in json.loads(made.read_text())["parts"]])
    except record.Trouble as trouble:
        print("refused:", *[title for title in ({NODE!r}, {HOSTS!r}) if title in str(trouble)])
"""
    assert within(BENCH, code).splitlines() == [
        f"2026-11-29-zen.json {[NODE]}",
        f"refused: {NODE}",
        f"2026-11-29-zen.json {[NODE, HOSTS]}",
        f"refused: {HOSTS}",
        f"1970-01-02-zen.json {[NODE]}",
    ]


def test_documents__newest(tmp_path: Path) -> None:
    """Of two machines of a day the one that was measured later, whatever they are called; README.md names it."""
    for cpu, when in (("model-1", "18:00"), ("model-17", "09:00")):
        made = summary(results("mpich,thole-mpich", cpu=cpu, began=f"2026-11-29 {when}"))
        (tmp_path / f"2026-11-29-{cpu}.json").write_text(json.dumps(made))
    code = f"""
import pathlib
import documents
documents.FOLDER = pathlib.Path({str(tmp_path)!r})
print(documents.readme_block())
"""
    assert within(BENCH, code).splitlines()[0] == "Inside a node: model-1, 2026-11-29."


@pytest.mark.parametrize("failures", [{}, {"mpich latency": "it hung"}])
def test_status(tmp_path: Path, failures: dict[str, str]) -> None:
    """A peer that failed is no success of the whole; one that is not installed does not matter."""
    code = f"""
import argparse, pathlib
import main, report
from rich.console import Console
class Bench:
    def __init__(self, *_):
        self.results, self.cpus, self.found, self.commands, self.repeated = main.network.Results(), [0], {{}}, {{}}, 0
    def tool(self, name):
        return pathlib.Path(name)
def measure(bench, chosen, compared):
    bench.results.failures |= {failures!r}
    bench.results.missing["intel"] = "this MPI is not installed"
    compared.take(bench, report.Part({NODE!r}, bench.results, []))
main.Bench, main.measure_node = Bench, measure
main.host.machine_line = lambda *_: "a machine"
main.compile_programs = lambda *_: {{}}
main.os.sched_setaffinity = lambda *_: None
options = argparse.Namespace(build=pathlib.Path("."), part="node", list=False, record=False, peers=None, only=None,
                             results=pathlib.Path({str(tmp_path)!r}))
print("status", main.compare(options, Console(), "n"))
"""
    assert f"status {len(failures)}" in within(BENCH, code)
    made = json.loads((tmp_path / "n.json").read_text())["parts"][0]
    assert (made["failures"], list(made["missing"])) == (failures, ["intel"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tests latncy", "latncy"),
        ("--tests latency,,touched", "latency,,touched"),
        ("--tests latency --sizes 17592186044416m", "17592186044416m"),
        ("--tests latency --sizes -8", "-8"),
        ("--tests latency --sizes 3g", "3g"),
    ],
)
def test_mpi_bench__refused(build: Path, tmp_path: Path, words: str, said: str) -> None:
    """A test that there is not, and a size that is none, are not passed over."""
    found = venvs.find([build / "venv"]).get("mpich")
    if found is None:
        pytest.skip("mpich is not installed")
    program = tmp_path / "mpi_bench"
    compile_mpi(found.mpi, None, ("-std=gnu11", "-D_GNU_SOURCE"), [BENCH / "mpi_bench.c"], program)
    done = process.run(
        found.command(2, program, "--rounds", "1", *words.split()), found.environment(), LIMIT_S
    )
    assert done.status not in (0, None)
    assert said in done.output + done.errors


def test_pair_costs__refused(build: Path) -> None:
    """A way that there is not is not taken for TCP, and options are not dropped."""
    program = build / "bench" / "thole-pair-costs"
    for words in ("tpc 8 2", "thole 0 2", "thole 8 0", "thole 8x 2", "thole 8 2 " + "shm=off " * 17, "tcp 8 2 shm=off"):
        done = process.run([str(program), "listen", *words.split()], dict(os.environ), 5.0)
        assert done.status == 2, words
        assert "usage" in done.output + done.errors


# ---- lab/ ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--record --only sci", "--record is for all papers"),
        ("--record --quick", "--record is for all papers"),
        ("--out /proc/nowhere --only sci", "/proc/nowhere"),
    ],
)
def test_papers__refused(build: Path, tmp_path: Path, words: str, said: str) -> None:
    """PAPERS.md is of all papers, measured at length. Tests run side by side, so none writes what another reads."""
    document = tmp_path / "PAPERS.md"
    document.write_text("as it was")
    code = f"""
import pathlib, sys
import run
run.DOCUMENT = pathlib.Path({str(document)!r})
sys.argv = ["run.py", "--build", {str(build)!r}, *{words.split()!r}]
sys.exit(int(run.main()))
"""
    done = run(sys.executable, "-c", code, PYTHONPATH=f"{LAB}:{ROOT / 'python'}")
    assert done.status == 2 and said in done.errors and "Traceback" not in done.errors, done.errors
    assert document.read_text() == "as it was"


def test_papers__incomplete(build: Path) -> None:
    """A paper that could not be measured leaves PAPERS.md as it was."""
    code = f"""
import sys
import run, report
def fails(bed):
    raise run.Trouble("no such thing here")
run.PAPERS = dict.fromkeys(run.PAPERS, fails)
report.check, report.write = lambda *_: None, lambda *_: []
run.MEASURED = ()
sys.argv = ["run.py", "--build", {str(build)!r}, "--record"]
class Nothing:
    def write_text(self, text): print("written")
    def __truediv__(self, name): return self
run.DOCUMENT = Nothing()
print("status", int(run.main()))
"""
    said = within(LAB, code)
    assert "status 1" in said and "written" not in said


def test_papers__options() -> None:
    """What is measured has the options that the report names, and not those of who measures."""
    code = """
import measure
from thole_lab import process
def run(words, environment, limit_s):
    print(sorted(name for name in environment if name.startswith("THOLE_")))
    return process.Outcome(0, "{}", "", 0.0)
measure.process.run = run
measure._run(["x"], "x")
"""
    done = run(sys.executable, "-c", code, PYTHONPATH=f"{LAB}:{ROOT / 'python'}", THOLE_BULK="ring")
    assert done.output.strip() == "[]", done.output + done.errors


def test_papers__turns() -> None:
    """Ways that are compared are measured by turns, a round each, inside a node and between hosts; the best counts."""
    code = """
import contextlib, json, pathlib
import clump, measure, openmx
from thole_lab import process
class Hosts:
    names = ["a", "b"]
    def set_mtu(self, mtu): print("mtu", mtu)
    def command(self, host, *words): return list(words)
@contextlib.contextmanager
def listener(hosts, tool, chosen):
    yield "1"
number = 0
def run(words, environment, limit_s):
    global number
    number += 1
    print(words[words.index("--rounds") + 1], *[word for word in words if "=" in word or word == "--bare"])
    sizes = words[words.index("--sizes") + 1].split(",")
    size = lambda word: int(word[:-1]) << {"k": 10, "m": 20}[word[-1]] if word[-1] in "km" else int(word)
    latency = [{"size": size(word), "best_us": 100.0 - number} for word in sizes]
    rate = [{"size": size(word), "best_bytes_per_s": 100.0 - number} for word in sizes]
    return process.Outcome(0, json.dumps({"latency": latency, "bandwidth": rate, "tcp": latency}), "", 0.0)
measure.listener, measure.process.run = listener, run
bed = measure.Bed(pathlib.Path("."), measure.Effort(2, 1), guests=False)
bed.hosts = Hosts()
found = bed.node("8", ("x=1",), ("x=2",))
print([(round(one.at(8) * 1e6), one.peak()) for one in found])
clump.section(bed)
openmx.section(bed)
"""
    said = within(LAB, code).splitlines()
    assert said[:5] == ["1 x=1", "1 x=2", "1 x=2", "1 x=1", "[(96, 99.0), (97, 98.0)]"]
    eager, get, now = "1 bulk=ring eager_max=1m", "1 bulk=one-copy eager_max=0", "1"
    assert said[5:11] == [eager, get, now, now, get, eager]
    net_eager, rendezvous = "1 net_eager_max=1m", "1 net_eager_max=0"
    assert said[11:16] == ["mtu 1500", net_eager, rendezvous, rendezvous, net_eager]
    mxoe, own, tcp = "1 codec=mxoe", "1 link=raw", "1 --bare"
    assert said[16:25] == ["mtu 9000", mxoe, own, now, tcp, tcp, now, own, mxoe]
    assert said[25:] == ["mtu 1500", now, tcp, tcp, now]


@pytest.mark.parametrize(
    "change", [{"copy": [[1024, 5000]]}, {"copy": []}, {"pin_page_ns": 0}, {"call_ns": -1}, {"copy": [[0, 0]]}]
)
def test_costs__impossible(tmp_path: Path, change: dict[str, object]) -> None:
    """What would have divided by nothing, or had no cost for a long copy."""
    known = json.loads((ROOT / "test" / "data" / "machine_costs.json").read_text())
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({**known, **change}))
    code = f"""
import pathlib
from costs import Costs, Trouble
try:
    print(Costs.load(pathlib.Path({str(file)!r})))
except Trouble as trouble:
    print("refused:", trouble)
"""
    assert within(LAB, code).startswith("refused:")
