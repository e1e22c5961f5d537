# SPDX-License-Identifier: BSD-3-Clause
"""Rules for sources and documents that no compiler knows: width of lines, names, parameters, includes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from reference.code import DATAGRAM, ROOT, without_comments
from reference.documents import references

WIDTH_MAX = 120  # columns of a line, tabs to the next eighth; .clang-format and pyproject.toml say the same


def wrong_lines() -> Iterator[str]:
    for folder in ("src", "include", "front", "provider", "ucx", "mx", "kernel", "sim", "tools", "test", "bench", "docs"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().split("\n"), 1):
                if len(line.expandtabs(8)) > WIDTH_MAX:
                    yield f"{path.relative_to(ROOT)}:{number} has more than {WIDTH_MAX} columns"
                if re.match(r"\t* {8}| +\t", line):
                    yield f"{path.relative_to(ROOT)}:{number} is not indented by tabs and less than 8 spaces"


def wide_lines() -> Iterator[str]:
    """Of documents, but for the rows of tables, which cannot be broken; of meson's files and of scripts."""
    folders = ("src", "front", "provider", "ucx", "mx", "heap", "kernel", "sim", "tools", "python", "test", "bench", "docs")
    scripts = [path for folder in folders for end in ("meson.build", "*.sh") for path in (ROOT / folder).rglob(end)]
    documents = [path for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md")]
    for path in sorted([*documents, *scripts, ROOT / "meson.build", ROOT / "meson_options.txt"]):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if len(line.expandtabs(8)) > WIDTH_MAX and not line.startswith("|"):
                yield f"{path.relative_to(ROOT)}:{number} has more than {WIDTH_MAX} columns"


PARAMETERS_MAX = 8
PUBLIC = r"thole_\w+|mx_\w+"


def parameters(text: str) -> int:
    """How many a list has; those of functions that are pointed to are not its own."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text.count(",") + 1


def long_signatures() -> Iterator[str]:
    """Only what others dictate takes many parameters: public functions, and those in libfabric's tables."""
    for folder in ("src", "sim", "front", "provider", "ucx", "mx", "kernel"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            text = without_comments(path.read_text())
            tables = set(re.findall(r"^\t\.\w+ = (\w+),$", text, flags=re.MULTILINE)) if folder == "provider" else set()
            for name, words in re.findall(r"^\w[^;={}()]*?\b(\w+)\(([^;{}]*?)\)\n\{", text, flags=re.MULTILINE):
                if parameters(words) > PARAMETERS_MAX and name not in tables and not re.fullmatch(PUBLIC, name):
                    yield f"{path.relative_to(ROOT)}: {name}() has {parameters(words)} parameters: it wants a struct"


def wrong_includes() -> Iterator[str]:
    """What is written on thole.h includes that, its own files in their table's order, and what src/base has for all."""
    text = references()
    sentence = re.search(r"What `front/`, `provider/`, `ucx/` and `mx/` may use is(.*?)\. What else", text, flags=re.DOTALL)
    shared = {f"base/{name}" for name in re.findall(r"`(\w+\.h)`", sentence[1] if sentence else "")}
    for folder in ("front", "provider", "ucx", "mx"):
        table = text.partition(f"| file in `{folder}/` | owns |\n|---|---|\n")[2].partition("\n\n")[0]
        lines = enumerate(table.split("\n"))
        rows = {name: number for number, line in lines for name in re.findall(r"`([\w./]+)`", line)}
        for path in sorted((ROOT / folder).glob("*.[ch]")):
            for header in re.findall(r'^#include "(.*)"', path.read_text(), flags=re.MULTILINE):
                if (ROOT / folder / header).exists():
                    if rows.get(header, 0) < rows.get(path.name, 0):
                        yield f"{folder}/{path.name} includes {header}, which stands above it in its table"
                elif header.startswith("front/"):
                    continue  # what layers.py lets it have
                elif header not in shared | {"thole.h"} and not (ROOT / folder / "include" / header).exists():
                    yield f"{folder}/{path.name} includes {header}, which FILES.md does not give to it"


def defined(path: Path) -> Iterator[str]:
    """The functions that a file of C defines."""
    text = re.sub(r"__attribute__\(\(.*?\)\)\)?\s", "", without_comments(path.read_text()))
    yield from re.findall(r"^\w[^;={}()]*?\b(\w+)\([^;{}]*?\)\n\{", text, flags=re.MULTILINE)


# Folders, what names of files and of functions begin with, and what others call ours.
FRONTS = (
    ("front", "", "", "(?!)"),
    ("provider", "prov_", "prov_", "fi_prov_ini"),
    ("ucx", "", "", r"ucp_\w+"),
    ("mx", "mx_", "mxi_", r"mx_\w+|mx__\w+"),
)


def wrong_functions() -> Iterator[str]:
    """What these folders define begins with its file's name, but for the calls of MX, and the door."""
    for folder, start, prefix, public in FRONTS:
        for path in sorted((ROOT / folder).glob("*.[ch]")):
            own = prefix + path.stem.removeprefix(start)
            for name in defined(path):
                if name != own and not name.startswith(f"{own}_") and not re.fullmatch(public, name):
                    yield f"{folder}/{path.name} defines {name}(), which does not begin with {own}_"


# What each of several files defines for a header that they include, so that nothing stands between it and them.
TEMPLATES = r"main|loop_\w+"


def twice_defined() -> Iterator[str]:
    """No two files define functions of one name, static or not: a name alone says which one is meant."""
    homes: dict[str, str] = {}
    for folder in ("src", "sim", "front", "provider", "ucx", "mx", "kernel", "tools"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            for name in sorted(set(defined(path))):
                home = homes.setdefault(name, str(path.relative_to(ROOT)))
                if home != str(path.relative_to(ROOT)) and not re.fullmatch(TEMPLATES, name):
                    yield f"{path.relative_to(ROOT)} defines {name}(), as {home} does"


def wrong_heads() -> Iterator[str]:
    """A head comment that begins with a name begins with the file's own."""
    for folder in ("src", "sim", "front", "provider", "ucx", "mx", "kernel", "tools", "include"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            head = re.match(r"/\* SPDX[^\n]*\n/\*(?:\n \*)? (\w+)(?:\.[ch])?(?: -|:) ", path.read_text())
            if head and head[1] != path.stem:
                yield f"{path.relative_to(ROOT)} calls itself {head[1]} in its first comment"


# What is of a file by another name: its family's, or that of a layer above which it stands in for.
EXTERNALS = {
    "link_udp.c": r"udp_\w+",
    "udp_receive.c": r"udp_\w+",
    "hosts.c": "thole_mxoe_hosts",
    "datagram.c": "endpoint_deadline",
}


def wrong_externals() -> Iterator[str]:
    """What a file of the transport between hosts defines for others begins with the file's name."""
    for path in sorted(DATAGRAM.rglob("*.c")):
        right = rf"{path.stem}|{path.stem}_\w+|{EXTERNALS.get(path.name, '(?!)')}"
        text = without_comments(path.read_text())
        for kind, name in re.findall(r"^(\w[^;={}()]*?)\b(\w+)\([^;]*?\)\n\{", text, flags=re.MULTILINE):
            if not kind.startswith("static") and not re.fullmatch(right, name):
                yield f"{path.name} defines {name}(), which does not begin with {path.stem}_"
