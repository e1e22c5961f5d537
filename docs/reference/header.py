# SPDX-License-Identifier: BSD-3-Clause
"""thole.h in pieces: comments, and the declarations under them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from reference.code import ROOT


@dataclass
class Item:
    """A comment of thole.h and the declarations under it; a section has a title instead."""

    comment: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    title: str = ""


API = "THOLE_API "


def read_header() -> list[Item]:
    """thole.h in pieces, in its order. Guards and the like are left out."""
    lines = (ROOT / "include" / "thole.h").read_text().splitlines()
    items: list[Item] = []
    index = 0
    depth = 0
    skipping = False
    while index < len(lines):
        line = lines[index]
        index += 1
        title = re.fullmatch(r"/\* -+ (.+?) -+ \*/", line)
        if title:
            items.append(Item(title=title[1]))
        elif depth == 0 and line.startswith("/*"):
            comment = [line]
            while "*/" not in comment[-1]:
                comment.append(lines[index])
                index += 1
            items.append(Item(comment=_uncomment(comment)))
        elif line.startswith("#"):
            skipping = _skips(line, skipping)
            if line.startswith("#define THOLE_") and not line.startswith(
                ("#define THOLE_API", "#define THOLE_H")
            ):
                _code_to(items, line)
        elif not skipping and (depth or line.strip()):
            _code_to(items, line)
            depth += line.count("{") - line.count("}")
        elif not line.strip() and items and items[-1].code:
            items.append(Item())
    kept = [item for item in items if item.title or item.code or item.comment]
    return [item for item in kept if not any("SPDX" in text for text in item.comment)]


def _skips(line: str, skipping: bool) -> bool:
    """Inside #ifdef __cplusplus and its like nothing is for readers."""
    if line.startswith("#ifdef __cplusplus"):
        return True
    return False if line.startswith("#endif") else skipping


def _code_to(items: list[Item], line: str) -> None:
    if not items or items[-1].title:
        items.append(Item())
    line = line.expandtabs(8)
    text = "".join(items[-1].code)
    if line.startswith(API) or text.count("(") > text.count(")"):
        line = line[len(API) :]  # and what is aligned to its parenthesis
    items[-1].code.append(line)


def _uncomment(lines: list[str]) -> list[str]:
    text = "\n".join(lines).removeprefix("/*").strip("\n ")
    text = text.removesuffix("*/").rstrip()
    return [re.sub(r"^ ?\* ?", "", line).rstrip() for line in text.splitlines()]
