# SPDX-License-Identifier: BSD-3-Clause
"""The report as files: Markdown, the same as HTML, and its pictures."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from thole.base import pictures
from thole.base.trouble import Trouble

import claims
from claims import Picture, Section
from costs import Costs

COLUMNS = 120  # of prose, as in all documents
TITLE = "Five papers, measured again"
STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;font-size:14px}td,th{border-bottom:1px solid #ccc;"
    "padding:.2em .6em;text-align:left}"
    "img{max-width:100%}"
)


def _table(lines: Iterable[list[str]]) -> Iterator[str]:
    head, *rest = lines
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for line in rest:
        yield "| " + " | ".join(line) + " |"


def markdown(facts: Sequence[str], costs: Costs | None, sections: Sequence[Section], folder: str | None) -> str:
    """costs: by which what was simulated has a value of this machine. folder: of the pictures, seen from the document;
    None: without them."""
    lines = [f"# {TITLE}", ""]
    lines += [f"- {fact}" for fact in facts]
    if costs:
        lines += ["", *_table(costs.rows())]
    for section in sections:
        text = textwrap.wrap(section.text, COLUMNS, break_long_words=False, break_on_hyphens=False)
        lines += ["", f"## {section.title}", "", *text, "", *_table(claims.rows(section))]
        lines += ["", *(f"Missing: {reason}." for reason in section.missing)] if section.missing else []
        if folder is not None:
            lines += [f"\n![{picture.title}]({folder}{picture.name}.svg)" for picture in section.pictures]
    return "\n".join(lines) + "\n"


def draw(picture: Picture, path: Path) -> None:
    figure, axes = pictures.grid(1, (7.0, 4.0), columns=1)
    axis = axes[0][0]
    for curve in picture.curves:
        if curve.points:
            axis.plot(*zip(*curve.points), marker="o", markersize=3, label=curve.label,
                      linestyle="none" if curve.theirs else "-")  # fmt: skip
    axis.set_title(picture.title)
    axis.set_xlabel(picture.along)
    axis.set_ylabel(picture.down)
    if picture.logarithmic:
        axis.set_yscale("log")
    pictures.write(path, figure, axes)


def check(folder: Path) -> None:
    """Whether it could be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Trouble(f"{folder}: {error.strerror}", "name a folder to write to with --out") from None
    if importlib.util.find_spec("markdown") is None:
        raise Trouble("Python's package markdown is not installed", "make papers installs it")


def write(folder: Path, facts: Sequence[str], costs: Costs | None, sections: Sequence[Section]) -> list[Path]:
    """Everything into a folder; what a reader opens comes first."""
    from markdown import markdown as html_of

    check(folder)
    if costs:
        costs.save(folder / "costs.json")
    for section in sections:
        for picture in section.pictures:
            draw(picture, folder / f"{picture.name}.svg")
    text = markdown(facts, costs, sections, "")
    plain, page = folder / "report.md", folder / "report.html"
    plain.write_text(text)
    body = html_of(text, extensions=["tables"])
    page.write_text(f"<!doctype html><meta charset=utf-8><title>{TITLE}</title><style>{STYLE}</style>{body}\n")
    return [page, plain]

