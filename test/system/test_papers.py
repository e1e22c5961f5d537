# SPDX-License-Identifier: BSD-3-Clause
"""lab/: each equation beside what it stands for, counted or added up step by step; and the report as files."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FULL, IN_FULL, ROOT

sys.path.insert(0, str(ROOT / "lab"))
import costs  # noqa: E402  (the path comes first)
import machines  # noqa: E402
import models  # noqa: E402

MACHINE = machines.GRAPHENE
COSTS = costs.Costs.load(ROOT / "test" / "data" / "machine_costs.json")
LENGTHS = [65536 << power for power in range(11)]


def stepped(chunks: list[int], length: int) -> float:
    """Seconds of a message that is copied and sent chunk by chunk, and copied out behind the last one: each copy begins
    when the one before has ended, each write when it is copied and the wire is free."""
    copied = wire = 0.0
    for chunk in chunks:
        copied += MACHINE.copy(chunk, length)
        wire = max(wire + MACHINE.gap, copied) + chunk / MACHINE.net_rate
    return wire + MACHINE.net_latency + MACHINE.copy(chunks[-1], length)


@pytest.mark.parametrize("length", LENGTHS)
def test_pipeline(length: int) -> None:
    """Equation 1 within a gap of the steps, and least at equation 3."""
    for count in (1, 2, 16, 256):
        chunk = length // count
        assert models.pipeline(MACHINE, length, chunk) == pytest.approx(
            stepped([chunk] * count, length), abs=1.01 * MACHINE.gap
        )
    best = models.pipeline_best_chunk(MACHINE, length)
    assert models.pipeline_slope(MACHINE, length, best) == pytest.approx(0, abs=1e-15)
    least = models.pipeline(MACHINE, length, best)
    assert least < models.pipeline(MACHINE, length, best * 1.1)
    assert least < models.pipeline(MACHINE, length, best / 1.1)


@pytest.mark.parametrize("length", LENGTHS)
def test_superpipeline(length: int) -> None:
    """Equations 4 to 8 beside the list of chunks, which is exact: the count, the sum, the time within 5%."""
    first, q = models.first_chunk(MACHINE, length), models.growth(MACHINE, length)
    chunks = models.chunk_list(length, int(first), q)
    assert sum(chunks) == length
    count = models.chunk_count(length, int(first), q)
    assert math.ceil(count - 1e-3) == len(chunks)
    whole = len(chunks) - 1
    assert models.chunks_length(first, q, whole) == pytest.approx(
        sum(models.chunk_number(first, q, number) for number in range(whole))
    )
    whole_chunk = models.superpipeline(MACHINE, length, first, q)
    assert whole_chunk == pytest.approx(stepped(chunks, length), rel=0.05)
    assert models.superpipeline_blocks(MACHINE, length, first, q, 4096) < whole_chunk
    # The difference between gap and overhead is all that equation 5 leaves out of equation 4.
    left_out = (MACHINE.gap - MACHINE.overhead) * MACHINE.copy_rate(length)
    assert models.next_chunk(MACHINE, length, first) == pytest.approx(first * q + left_out)


def test_chunks_are_capped() -> None:
    assert models.chunk_list(100, 10, 2, 25) == [10, 20, 25, 25, 20]


def test_sci() -> None:
    """Table I's messages, and its times as the paper's line has them; control blocks end at each page's end of either
    side, and nowhere else."""
    for length, seconds, messages in machines.SCI_TABLE:
        assert models.connect_messages(length) == messages
        assert machines.SCI_CONNECTING.time(messages) == pytest.approx(seconds, rel=0.05)
    assert models.connect_messages(16384, 8) == 1
    for local, remote in ((0, 0), (8, 0), (2048, 0), (100, 4000)):
        blocks = models.control_blocks(65536, local, remote)
        ends = {sum(blocks[: number + 1]) for number in range(len(blocks))}
        pages = {at for at in range(1, 65536) if (local + at) % 4096 == 0 or (remote + at) % 4096 == 0}
        assert ends == pages | {65536}
        assert len(blocks) <= (65536 // 4096 + 1) * 2


def test_sci_simulated(build: Path) -> None:
    """The paper's figures within a tenth, its counts of messages exactly, and what is new is better."""
    import measure
    import sci

    made = sci.section(measure.Bed(build, measure.Effort(1, 1), costs=COSTS))
    for claim in made.claims:
        assert claim.modelled is not None
        if "not in the paper" in claim.why or "huge" in claim.what:
            assert claim.modelled > (1.2 if "lists of 512" in claim.what else 1.4) * claim.theirs, claim
        elif claim.unit == "messages":
            assert claim.modelled == claim.theirs, claim
        elif "time to connect" in claim.what:
            assert claim.modelled == pytest.approx(claim.theirs, rel=0.015), claim
        else:
            assert claim.modelled == pytest.approx(claim.theirs, rel=0.16 if claim.where == "figure 3" else 0.1), claim


def test_superpipeline_simulated(build: Path) -> None:
    """The paper's claims over simulated adapters of its machine, and its equations beside them."""
    import measure
    import superpipeline as made

    one = made.simulate(measure.Bed(build, measure.Effort(1, 1)), made.DDR)[made.DDR]
    assert one.over("super", "raw", 16 * made.KIB) <= 1.15
    sizes = [size for size in one.chunks if size >= 64 * made.KIB]
    assert max(sizes) == 64 * made.MIB
    for size in sizes:
        assert one.over("super", "raw", size) <= 1.05
        assert one.over("super", "reuse", size) <= 1.03
        assert one.seconds["uncapped"][size] == pytest.approx(one.equation(size), rel=0.05)
        assert len(one.chunks[size]) == one.counted(size)
    assert one.over("register", "super", 64 * made.KIB) >= 2


def test_pinning_simulated(build: Path) -> None:
    """Kept and cached pins are best and lose no frame; overlapping hides most; each order is the paper's."""
    import measure
    import pinning

    bed = measure.Bed(build, measure.Effort(1, 1))
    found = pinning.simulate(bed)
    for name, curves in found.curves.items():
        line = 11200e6 if "fast line" in name else 1120e6
        for size in curves.rate["kept"]:
            assert curves.missed["kept"][size] == curves.missed["before"][size] == 0
            assert curves.rate["cached"][size] == pytest.approx(curves.rate["kept"][size], rel=0.01)
            assert curves.rate["kept"][size] < line / 2**20
            if "busy" not in name:
                assert curves.rate["before"][size] < curves.rate["overlapped"][size] < curves.rate["kept"][size]
                assert curves.missed["overlapped"][size] <= 2
    fast, slow, busy = found.fast, found.slow, found.busy
    assert 0.04 < fast.lost(16 << 20) < 0.10 < slow.lost(16 << 20) < 0.30
    assert fast.lost(16 << 20) > 1 - fast.rate["overlapped"][16 << 20] / fast.rate["kept"][16 << 20]
    assert busy.missed["overlapped"][1 << 20] > 50
    assert busy.rate["overlapped, a few pages first"][65536] > 2 * busy.rate["overlapped"][65536]
    # A faster line leaves less time to pin.
    assert found.stands("loads") > found.stands("loads, fast line") > 1
    assert found.curves["fast line"].lost(16 << 20) > 3 * fast.lost(16 << 20)


LONG = pytest.mark.skipif(not FULL, reason=IN_FULL)


@pytest.mark.parametrize("name", ["pinning", "sci", pytest.param("superpipeline", marks=LONG)])
def test_costs__every_figure(build: Path, name: str) -> None:
    """What is simulated has a value with this machine's costs in each row, and a reason why they differ; the same costs
    make the same."""
    import measure

    section = importlib.import_module(name).section
    bed = measure.Bed(build, measure.Effort(1, 1), costs=COSTS)
    made = section(bed)
    for claim in made.claims:
        assert claim.modelled is not None and claim.here is not None and claim.why, claim
    assert made.missing == [] and section(bed).claims == made.claims


@LONG
def test_costs__other_machine(build: Path) -> None:
    """Half the time a page is twice the rate of table 1, and less is lost; whose copies are slower is behind more."""
    import measure
    import pinning
    import superpipeline

    bed = measure.Bed(build, measure.Effort(1, 1))
    pages = {name: COSTS.numbers[name] / 2 for name in ("pin_page_ns", "unpin_page_ns")}
    better = costs.Costs({**COSTS.numbers, **pages}, COSTS.copy)
    assert better.pinning().rate() == pytest.approx(2 * COSTS.pinning().rate())
    own, other = (pinning.simulate(bed, *each.words()).fast.lost(16 << 20) for each in (COSTS, better))
    assert own == pytest.approx(2 * other, rel=0.1)
    slow = costs.Costs(COSTS.numbers, tuple((size, rate / 8) for size, rate in COSTS.copy))
    name, size = superpipeline.CARD, superpipeline.MIB
    own, other = (superpipeline.simulate(bed, *each.words(), name)[name].over("super", "raw", size)
                  for each in (COSTS, slow))  # fmt: skip
    assert other > 1.5 * own


def test_costs__measured(build: Path, tmp_path: Path) -> None:
    """Each cost is a number, and what is kept in a file is what was measured."""
    done = subprocess.run([build / "bench/thole-machine-costs", "5"], capture_output=True, text=True, check=False)
    if done.returncode and "io_uring" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    found = costs.Costs.read(json.loads(done.stdout))
    more = ("block_ns", "scattered_ns", "unaligned_ns")  # beside something else, and may be nothing
    assert all(value > 0 or name in more for name, value in found.numbers.items()), found
    assert len(found.copy) == 4 and found.copy[-1][0] == 0 and min(rate for _, rate in found.copy) > 0
    found.save(tmp_path / "costs.json")
    assert costs.Costs.load(tmp_path / "costs.json") == found
    assert len(found.rows()) == 1 + len(found.numbers) + 4


def test_costs__nonsense(build: Path) -> None:
    for words in ("pin", "pin=", "pin=x", "nothing=1", "pin=1,", "copy=1", "copy=1:0", "pin=1 ", f"pin={1 << 64}"):
        command = [build / "sim/thole-sim-sci", "--costs", words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and words in done.stderr, words


def test_pinning() -> None:
    for each, stated in machines.PINNING.values():
        assert each.rate() == pytest.approx(stated, rel=0.05)
        assert each.cost(10 * 4096) == pytest.approx(each.base + 10 * each.page)
        assert each.left_of(each.rate()) == pytest.approx(0.5)


def test_report(build: Path, tmp_path: Path) -> None:
    """Every paper that is asked for has a section, every picture is there, and what the papers say is said."""
    python = build / "venv" / "papers" / "bin" / "python"
    if not python.exists():
        pytest.skip("the report's environment is not there: make papers makes it")
    words = ["--build", build, "--out", tmp_path, "--only", "pinning,sci"]
    words += ["--costs", ROOT / "test" / "data" / "machine_costs.json"]
    done = subprocess.run([python, ROOT / "lab" / "run.py", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text, page = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert text.count("\n## ") == 2 and page.count("<h2>") == 2
    assert "| table I | ACKI messages, 256 KB | messages | 8 | 8 | 8 |" in text
    assert "| pin a region, by registering a buffer with io_uring | 400 | ns |" in text
    assert page.count("<table>") == 3
    for name in ("sci-connect", "sci-setting-up", "pinning-busy", "pinning-loads"):
        assert f"({name}.svg)" in text and "<svg" in (tmp_path / f"{name}.svg").read_text()
    refused = subprocess.run(
        [python, ROOT / "lab" / "run.py", "--only", "nonsense"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2 and "no paper named nonsense" in refused.stderr
