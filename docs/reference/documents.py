# SPDX-License-Identifier: BSD-3-Clause
"""Whether documents name only what there is, and whether all that there is has help and a line in a document."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from reference.code import ROOT, Tables, arguments_of, commands_of, tool_parser
from reference.header import read_header

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/GUIDE.md",
    "docs/ARCHITECTURE.md",
    "docs/GLOSSARY.md",
    "docs/FILES.md",
    "docs/MESSAGES.md",
    "docs/SHM.md",
    "docs/PROGRESS.md",
    "docs/PROVIDER.md",
    "docs/UCX.md",
    "docs/TESTING.md",
    "docs/DECISIONS.md",
    "docs/PROTOCOL.md",
    "docs/SECURITY.md",
    "docs/MX.md",
    "docs/DRIVER.md",
    "docs/RDMA.md",
    "docs/PERFORMANCE.md",
    "CHANGELOG.md",
    "SECURITY.md",
)


def example(path: Path) -> str:
    blocks = re.findall(r"^```c\n(.*?)^```$", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    programs = [block for block in blocks if "int main(" in block]
    if len(programs) != 1:
        raise SystemExit(f"{path}: there are {len(programs)} complete C programs, not one")
    return programs[0]


# Names in documents that are not ours to define.
FOREIGN = re.compile(
    r"(fi|ucp|dlopen|process_vm|pidfd|memfd|clock|epoll|sched|prctl|MPI|FI|UCX|OMPI|MPIR|I_MPI|PR|F_SEAL|SO|SCM)_\w*"
)

SOURCES = ("src", "include", "front", "provider", "ucx", "mx", "kernel", "python", "bench", "sim", "tools", "test", "docs")
SOURCES += (".ci",)
ENDINGS = (".c", ".h", ".py", ".sh", ".build", ".md", ".map", ".in", ".txt", ".toml")


def missing_help(tables: Tables) -> Iterator[str]:
    for option in tables.options:
        if len(option.help.split()) < 3:
            yield f"the option {option.name} has no help"
    for name, text in tables.counters:
        if len(text.split()) < 2:
            yield f"the counter {name} has no help"
    for name, line, parser in commands_of(tool_parser()):
        if not line or not parser.description:
            yield f"thole {name} has no help"
        for action in arguments_of(parser):
            if not action.help:
                yield f"thole {name}: {'/'.join(action.option_strings) or action.dest} has no help"
    described = False
    for item in read_header():
        # Declarations that follow directly share the comment above them.
        described = bool(item.comment) if item.comment or item.title else described
        declarations = re.sub(r"/\*.*?\*/", "", "\n".join(item.code), flags=re.DOTALL)
        for name in re.findall(r"\b(thole_\w+)\(", declarations):
            if not described:
                yield f"thole.h: {name}() has no comment"


def source_words() -> set[str]:
    words: set[str] = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in ENDINGS and path.suffix != ".md":
                words.update(re.findall(r"\w+", path.read_text(errors="replace")))
    for name in ("Makefile", "meson.build", "meson_options.txt"):
        words.update(re.findall(r"\w+", (ROOT / name).read_text()))
    return words


def spans(path: Path) -> Iterator[str]:
    """What a document sets as code within a line."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"`([^`\n]+)`", text)


def wrong_names(document: Path, words: set[str]) -> Iterator[str]:
    for span in spans(document):
        name = span.removesuffix("()")
        if re.fullmatch(r"[A-Za-z]\w*_\w+", name) and not FOREIGN.fullmatch(name):
            known = name in words or name.removeprefix("THOLE_").lower() in words
            if not known:
                yield f"{document.name}: `{span}` is nowhere in the sources"
        elif _is_path(name) and not (ROOT / name).exists():
            yield f"{document.name}: there is no {span}"


def _is_path(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?", name) is not None and name.split("/")[0] in SOURCES


def broken_links(document: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
        if "://" not in target and not (document.parent / target).exists():
            yield f"{document.name}: the link to {target} leads nowhere"


def command_lines(document: Path) -> Iterator[list[str]]:
    """The words behind `thole` wherever a document shows that command, be it in a line or in one of its own."""
    lines = re.findall(r"^    (?:sudo )?thole .*$", document.read_text(), flags=re.MULTILINE)
    for line in [*lines, *spans(document)]:
        words = line.partition("#")[0].replace("`", " ").split()
        words = words[1:] if words[:1] == ["sudo"] else words
        if len(words) > 1 and words[0] == "thole":
            yield words[1:]


def wrong_commands(document: Path, known: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Commands of the tool and their arguments are those that it has."""
    for name, *words in command_lines(document):
        if name not in known:
            if not name.startswith("-"):
                yield f"{document.name}: there is no thole {name}"
            continue
        actions = {text: action for action in known[name]._actions for text in action.option_strings}
        while words:
            word = words.pop(0).partition("=")[0].rstrip(";,")
            if name == "run" and not word.startswith("-"):
                break  # the launcher's, and the program's
            if word.startswith("-") and word not in actions:
                yield f"{document.name}: thole {name} has no {word}"
            elif word in actions and actions[word].nargs != 0 and words:
                words.pop(0)
            elif name == "info" and word not in ("...", *info_sections()):
                yield f"{document.name}: thole info has no section {word}"


def info_sections() -> tuple[str, ...]:
    from thole.commands import info

    return tuple(info.SECTIONS)


def references() -> str:
    """All documents in docs/ in one."""
    return "\n".join((ROOT / name).read_text() for name in DOCUMENTS if name.startswith("docs/"))


def unnamed_files() -> Iterator[str]:
    """Every source file has its line in a document."""
    text = references()
    for folder in ("src", "front", "provider", "ucx", "mx", "kernel"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            if not re.search(rf"[`/]{re.escape(path.name)}`", text):
                yield f"no document, such as FILES.md, says what {path.relative_to(ROOT)} is"


def wrong_changes(tables: Tables) -> Iterator[str]:
    """The newest entry of the changes is of the version that this is."""
    found = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    if found is None or found[1] != tables.version:
        yield f"CHANGELOG.md does not begin with version {tables.version}"
    for name in ("meson.build", "pyproject.toml"):
        text = (ROOT / name).read_text().replace('version = "', "version: '").replace('"', "'")
        if f"version: '{tables.version}'" not in text:
            yield f"{name} is not of version {tables.version}"


def wrong_index() -> Iterator[str]:
    """What DECISIONS.md says of where to look is there: words that a paragraph begins with in bold."""
    text = (ROOT / "docs/DECISIONS.md").read_text()
    titles = [title.replace("\n", " ") for title in re.findall(r"^\*\*(.+?)\*\*", text, flags=re.DOTALL | re.MULTILINE)]
    for words in (words for row in rows(section(text, "Where to look")) for words in re.findall(r'"(.+?)"', row[1])):
        if not any(title.startswith(words) for title in titles):
            yield f'DECISIONS.md: no paragraph begins with "{words}"'


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|-"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
