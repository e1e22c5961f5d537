# SPDX-License-Identifier: BSD-3-Clause
"""Text as roff, in which manual pages are written."""

from __future__ import annotations

import re
from collections.abc import Iterable


def esc(text: str) -> str:
    """Text for roff, in which hyphens stay hyphens that can be typed."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return "\\&" + text if text.startswith((".", "'")) else text


def bold(text: str) -> str:
    return f"\\fB{esc(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{esc(text)}\\fR"


def page(name: str, section: int, version: str, summary: str) -> list[str]:
    return [
        f'.TH {name.upper()} {section} "" "Thole {version}" "Thole"',
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{esc(name)} \\- {esc(summary)}",
    ]


def tagged(tag: str, *paragraphs: str) -> list[str]:
    lines = [".TP", tag]
    for number, paragraph in enumerate(paragraphs):
        lines += ([".IP"] if number else []) + [paragraph]
    return lines


def code(lines: Iterable[str]) -> list[str]:
    return [".PP", ".nf", ".RS 4", *(esc(line) for line in lines), ".RE", ".fi"]


def sentence(text: str) -> str:
    """A line of help as a sentence."""
    text = " ".join(text.split()).replace("/~/", "~/")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def prose(comment: list[str]) -> list[str]:
    """A comment's paragraphs, lists and tables."""
    lines = [".PP"]
    for text in comment:
        if not text:
            lines.append(".PP")
        elif text.startswith(" - "):
            lines += [".IP \\(bu 2", esc(text[3:])]
        elif text.startswith("   "):
            lines.append(esc(text.strip()))  # goes on with an entry
        elif match := re.fullmatch(r"  (\S+)  +(.*)", text):
            lines += [".TP 12", bold(match[1]), esc(match[2])]
        elif text.startswith("Errors: "):
            lines += [".PP", esc(text)]
        else:
            lines.append(esc(text))
    return lines
