# SPDX-License-Identifier: BSD-3-Clause
"""What `make papers` starts: headline figures of five papers, theirs beside ours, as a report with pictures.

    run.py --build BUILD [--out FOLDER] [--only PAPER,...] [--costs FILE] [--quick] [--record]

What was simulated has values with this machine's costs, too: these are measured, and kept as costs.json beside the
report; --costs takes them from such a file. --record also writes docs/PAPERS.md, the report's tables.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from thole.base import host, paths  # noqa: E402
from thole.base.trouble import Trouble  # noqa: E402

import clump  # noqa: E402  (the path comes first)
import openmx  # noqa: E402
import pinning  # noqa: E402
import report  # noqa: E402
import sci  # noqa: E402
import superpipeline  # noqa: E402
from claims import Section  # noqa: E402
from costs import Costs  # noqa: E402
from measure import Bed, Effort  # noqa: E402

# Those that measure are last: they take the time.
PAPERS: dict[str, Callable[[Bed], Section]] = {
    "pinning": pinning.section,
    "sci": sci.section,
    "superpipeline": superpipeline.section,
    "clump": clump.section,
    "openmx": openmx.section,
}
MEASURED = ("clump", "openmx")
DOCUMENT = ROOT / "docs" / "PAPERS.md"
NEAR_NS = 100.0  # as bench/host.py has it


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the meson build directory")
    parser.add_argument("--out", type=Path, help="where the report goes (BUILD/papers)")
    parser.add_argument("--only", default="", metavar="PAPER,...", help=", ".join(PAPERS))
    parser.add_argument("--costs", type=Path, metavar="FILE", help="this machine's costs, measured before")
    parser.add_argument("--quick", action="store_true", help="measure for a short time, without guests")
    parser.add_argument("--record", action="store_true", help="write docs/PAPERS.md too")
    options = parser.parse_args()
    options.wanted = options.only.split(",") if options.only else list(PAPERS)
    unknown = [name for name in options.wanted if name not in PAPERS]
    if unknown:
        parser.error(f"there is no paper named {unknown[0]}: {', '.join(PAPERS)}")
    if options.record and (options.quick or set(options.wanted) != set(PAPERS)):
        parser.error("--record is for all papers, measured at length: docs/PAPERS.md is of these")
    options.out = options.out or options.build / "papers"
    return options


def nearness(lines: list[float]) -> str:
    """Whether two cores were near each other, as in docs/PERFORMANCE.md; that changes by the minute."""
    words = " and ".join(sorted({"near" if line < NEAR_NS else "apart" for line in lines}, reverse=True))
    said = ", ".join(f"{line:.0f}" for line in lines)
    return f"a cache line one way {said} ns before and after what is measured here ({words})"


def make(bed: Bed, wanted: list[str], lines: list[float]) -> list[Section]:
    """The sections of those that went well; lines: what bed.line() said."""
    sections = []
    for name in wanted:
        try:
            lines += [bed.line()] if name in MEASURED else []
            sections.append(PAPERS[name](bed))
            lines += [bed.line()] if name in MEASURED else []
        except Trouble as trouble:
            print(f"{name}: {trouble}", file=sys.stderr)
    return sections


def prepare(options: argparse.Namespace) -> Costs | None:
    """What the report needs, before it takes its time: this machine's costs, if they are given."""
    known = Costs.load(options.costs) if options.costs else None
    report.check(options.out)
    return known


def main() -> int:
    options = parse()
    paths.use_build(str(options.build))
    effort = Effort(1, 2) if options.quick else Effort(5, 20)
    lines: list[float] = []
    try:
        known = prepare(options)
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 2
    with Bed(options.build.resolve(), effort, guests=not options.quick, costs=known) as bed:
        sections = make(bed, options.wanted, lines)
    facts = [f"{host.processor()}, {len(host.cores())} CPUs, {datetime.date.today():%Y-%m-%d}"]
    facts += [nearness(lines)] if lines else []
    for path in report.write(options.out, facts, bed.known, sections):
        print(f"Written: {path}")
    if len(sections) != len(options.wanted):
        return 1
    if options.record:
        DOCUMENT.write_text(report.markdown(facts, bed.known, sections, None))
        print("Written: docs/PAPERS.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
