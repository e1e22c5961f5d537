#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the reference from what the code itself says, and check that the documents agree with the code.

    generate.py commands               the names of the tool's commands
    generate.py man PAGE TABLES        a manual page on standard output: thole.1, thole-COMMAND.1, thole.3,
                                       thole-options.7 or thole-counters.7
    generate.py completion TABLES      bash completion
    generate.py example FILE           the C program in a Markdown file
    generate.py protocol               the tables of fields in PROTOCOL.md, anew
    generate.py check TABLES           everything has help, and documents name only what exists

TABLES is the output of tables.c. Nothing but Python's own library is needed, so a build on a bare
machine has manual pages too.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
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
    "docs/TESTING.md",
    "docs/DECISIONS.md",
    "docs/PROTOCOL.md",
    "docs/SECURITY.md",
    "docs/MX.md",
    "docs/PERFORMANCE.md",
    "CHANGELOG.md",
    "SECURITY.md",
)

# ---- What the code says ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    name: str
    kind: str
    default: str
    choices: str
    min: int
    max: int
    running: bool  # may change while an endpoint is open
    help: str


@dataclass
class Tables:
    options: list[Option] = field(default_factory=list)
    counters: list[tuple[str, str]] = field(default_factory=list)
    members: dict[str, dict[str, int]] = field(default_factory=dict)  # of structures in shared memory: offsets
    version: str = ""


def read_tables(path: Path) -> Tables:
    tables = Tables()
    for line in path.read_text().splitlines():
        kind, *row = line.split("\t")
        if kind == "option":
            name, what, default, choices, low, high, running, text = row
            tables.options.append(
                Option(name, what, default, choices, int(low), int(high), running == "yes", text)
            )
        elif kind == "counter":
            tables.counters.append((row[0], row[1]))
        elif kind == "member":
            tables.members.setdefault(row[0], {})[row[1]] = int(row[2])
        elif kind == "version":
            tables.version = row[0]
    return tables


class _Absent(ModuleType):
    """Stands for a package that the tool only needs when it runs."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _AbsentFinder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.split(".")[0] in ("rich", "matplotlib", "numpy"):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def tool_parser() -> argparse.ArgumentParser:
    """The parser of the command line, without what its modules need to run."""
    os.environ["COLUMNS"] = "100"
    os.environ["HOME"] = "/~"  # what is said of the user's files is said of everybody's
    os.environ.pop("XDG_CONFIG_HOME", None)
    os.environ.pop("XDG_STATE_HOME", None)
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _AbsentFinder())  # type: ignore[arg-type]
    sys.path.insert(0, str(ROOT / "python"))
    from thole import cli

    return cli.parser()


def commands_of(top: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, line of help and parser of each subcommand."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, parser in action.choices.items():
                yield name, lines.get(name, ""), parser


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]


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


# ---- Manual pages ---------------------------------------------------------------------------------


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


TOOL_FILES = {
    "~/.config/thole/options": "Options of this user; see thole\\-options(7). thole tune writes here.",
    "/etc/thole/options": "Options of all users.",
    "~/.config/thole/job_key": "The job key of this user, which programs use that thole run does not start. It is made "
    "when it is needed first, and not taken where others can read or write it. Hosts that do not share the home need a "
    "copy.",
    "~/.config/thole/hosts, /etc/thole/hosts": "Hosts that thole peers asks, one a line, as HOST or HOST:PORT; the "
    "first file that exists.",
    "/etc/thole/mx-hosts": "Boards of other hosts, for programs of MX: lines \"MAC IP NAME\"; option mx_hosts.",
    "~/.local/state/thole/setup.json": "What thole setup changed; thole setup \\-\\-undo needs it.",
}

TOOL_EXAMPLES = (
    "thole run mpiexec -n 4 ./app",
    "thole run --explain mpiexec -n 4 ./app",
    "thole run --check mpiexec -n 4 ./app",
    "thole run --option bulk=ring mpiexec -n 4 ./app",
    "thole run --link udp mpiexec -hosts a,b -n 8 ./app",
    "thole info",
    "thole perf --plot perf.png",
    "thole perf --host b                    # on b: thole perf --listen",
    "thole peers b c                        # on b and c: thole peers --listen",
    "sudo thole trace -i eth0 -w job.pcapng",
)


def man_tool(tables: Tables) -> list[str]:
    top = tool_parser()
    rows = list(commands_of(top))
    lines = page(
        "thole", 1, tables.version, "message passing between processes of ordinary Linux machines"
    )
    lines += [".SH SYNOPSIS"]
    for name, _, parser in rows:
        lines += [".br", _synopsis(name, parser)]
    lines += [".SH DESCRIPTION", esc(top.description or "")]
    lines += [
        "MPI programs use Thole without being changed or compiled again: it is a provider of libfabric, which",
        "MPICH, Open MPI and Intel MPI can load.",
        ".SH COMMANDS",
    ]
    for name, line, _ in rows:
        lines += tagged(bold(f"thole {name}"), esc(sentence(line)) + f" See thole\\-{esc(name)}(1).")
    lines += [".SH EXIT STATUS"]
    lines += tagged(bold("0"), "Success.")
    lines += tagged(
        bold("1"),
        "thole compare: a program failed over Thole. thole peers: a host was not reached. thole run "
        "\\-\\-check: a rank ran without Thole, or nothing was heard of it.",
    )
    lines += tagged(
        bold("2"), "A wrong command line, or trouble that the message says how to mend."
    )
    lines += tagged(bold("130"), "Interrupted.")
    lines += [
        ".PP",
        "thole run becomes the command that it is given, so its status is that command's. With \\-\\-check it",
        "waits for the command; its status is that command's too, but for the 1 above where the command's own is 0.",
    ]
    lines += [".SH FILES"]
    for name, text in TOOL_FILES.items():
        lines += tagged(italic(name), text)
    lines += [".SH EXAMPLES", *code(TOOL_EXAMPLES)]
    lines += [
        ".SH SEE ALSO",
        ", ".join(f"thole\\-{esc(name)}(1)" for name, _, _ in rows) + ",",
        "thole\\-options(7), thole\\-counters(7), thole(3), fabric(7), mpiexec(1)",
    ]
    return lines


def man_command(name: str, tables: Tables) -> list[str]:
    line, parser = next(
        (line, parser) for found, line, parser in commands_of(tool_parser()) if found == name
    )
    lines = page(f"thole-{name}", 1, tables.version, line)
    lines += [".SH SYNOPSIS", _synopsis(name, parser)]
    lines += [".SH DESCRIPTION", esc(sentence(parser.description or line)), ".SH ARGUMENTS"]
    for action in arguments_of(parser):
        lines += tagged(_invocation(action), esc(sentence(_help_of(parser, action))))
    if parser.epilog:
        lines += [".SH EXAMPLE", esc(parser.epilog.partition(": ")[2])]
    return [*lines, ".SH SEE ALSO", "thole(1), thole\\-options(7)"]


# ---- Completion -----------------------------------------------------------------------------------

# What stands for the value of an argument, by the word that the help has for it, where no choices say it.
VALUES = {
    "FILE": "file",
    "PATH": "file",
    "DIR": "folder",
    "HOST": "host",
    "NAME=VALUE": "option",
    "command ...": "command",
}


def kind_of(action: argparse.Action) -> str:
    """What may be completed for an argument's value; "any" for numbers and the like, "" for none."""
    if action.nargs == 0:
        return ""
    choices = action.choices or re.findall(r"\w+", (action.help or "").partition("of ")[2].partition(" (")[0])
    if action.choices or action.metavar == "section":
        return "choice:" + ",".join(map(str, choices or ()))
    if "--interface" in action.option_strings:
        return "interface"
    return VALUES.get(str(action.metavar or action.dest.upper()), "any")


def completion(tables: Tables) -> str:
    rows = list(commands_of(tool_parser()))
    lines = []
    for name, _, parser in rows:
        words = ["--help="]
        for action in arguments_of(parser):
            words += [f"{option}={kind_of(action)}" for option in action.option_strings or [""]]
        lines.append(f'\t[{name}]="{" ".join(words)}"')
    values = [
        f"{option.name}={choice}"
        for option in tables.options
        for choice in {"bool": "on,off", "key": "file,none"}.get(option.kind, option.choices).split(",")
        if choice
    ]
    text = (ROOT / "docs" / "completion.bash").read_text()
    for place, what in (
        ("arguments", "\n".join(lines)),
        ("names", " ".join(option.name for option in tables.options)),
        ("values", " ".join(values)),
        ("commands", " ".join(name for name, _, _ in rows)),
    ):
        text = text.replace(f"@{place}@", what)
    return text


def _synopsis(name: str, parser: argparse.ArgumentParser) -> str:
    usage = (
        " ".join(parser.format_usage().split())
        .removeprefix("usage: ")
        .removeprefix(f"thole {name}")
    )
    return f"{bold('thole ' + name)}{esc(usage.replace(' [-h]', '', 1))}"


def _invocation(action: argparse.Action) -> str:
    value = action.metavar or (None if action.nargs == 0 else action.dest.upper())
    if action.choices and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return italic(str(value))
    names = ", ".join(bold(name) for name in action.option_strings)
    return names + (f" {italic(str(value))}" if value and action.nargs != 0 else "")


def _help_of(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.help and "%" in action.help:
        return parser._get_formatter()._expand_help(action)
    return action.help or ""


UNITS = {
    "bytes": ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")),
    "ns": ((10**9, "s"), (10**6, "ms"), (10**3, "us")),
}


def amount(value: int, kind: str) -> str:
    for size, name in UNITS.get(kind, ()):
        if value and value % size == 0:
            return f"{value // size}{name}"
    return str(value)


def allowed(option: Option) -> str:
    if option.kind == "bool":
        return "on or off"
    if option.kind == "choice":
        return "one of " + option.choices.replace(",", ", ")
    if option.kind == "text":
        return "a text"
    if option.kind == "key":
        return (
            "a number of 64 bits, decimal or hexadecimal (0x...), which is never shown; file: that of "
            "~/.config/thole/job_key; or none"
        )
    what = {"bytes": "a size", "ns": "a time", "count": "a number"}[option.kind]
    return f"{what} from {amount(option.min, option.kind)} to {amount(option.max, option.kind)}"


def man_options(tables: Tables) -> list[str]:
    lines = page("thole-options", 7, tables.version, "options of Thole, and where they come from")
    lines += [
        ".SH DESCRIPTION",
        "Every endpoint has a value of each option below. The sources, later ones winning:",
    ]
    for number, text in enumerate(
        (
            "the default;",
            "/etc/thole/options;",
            "$XDG_CONFIG_HOME/thole/options, or ~/.config/thole/options;",
            "for local_ranks: MPI_LOCALNRANKS, OMPI_COMM_WORLD_LOCAL_SIZE or PMI_LOCAL_SIZE, as launchers set them;",
            "the environment: THOLE_EAGER_MAX for eager_max, and so on;",
            "the strings given to thole_endpoint_open(), or under libfabric FI_THOLE_EAGER_MAX, and so on;",
            "thole_option_set(), for those that may change while an endpoint is open.",
        ),
        1,
    ):
        lines += [f'.IP "{number}." 4', esc(text)]
    lines += [
        ".PP",
        esc(
            "THOLE_OPTIONS_FILE names one file that is read instead of the two; set to nothing, none is read."
        ),
        esc(
            'A file has lines "name = value"; what follows # is a comment. Sizes take the suffixes k, m and g'
        ),
        esc(
            "(powers of 1024), times ns, us, ms and s. A name that the table has not is skipped; a bad value makes"
        ),
        esc(
            "opening an endpoint fail. Programs that run with more rights than their user read no environment."
        ),
        ".PP",
        esc("thole info options shows the values that hold now, and where each comes from."),
        ".SH OPTIONS",
    ]
    for option in tables.options:
        facts = f"{sentence(allowed(option))} Default {option.default}."
        if not option.running:
            facts += " Only before an endpoint is opened."
        lines += tagged(bold(option.name), esc(sentence(option.help)), esc(facts))
    lines += [".SH SEE ALSO", "thole(1), thole(3), thole\\-counters(7)"]
    return lines


def man_counters(tables: Tables) -> list[str]:
    lines = page("thole-counters", 7, tables.version, "what an endpoint of Thole counts")
    lines += [
        ".SH DESCRIPTION",
        esc(
            "thole_counters() reads the counters of an endpoint; thole_counter_info() names them. They only grow,"
        ),
        esc(
            "but for those whose line says how much there is now. thole info counters lists them too."
        ),
        ".SH COUNTERS",
    ]
    for name, text in tables.counters:
        lines += tagged(bold(name), esc(sentence(text)))
    lines += [".SH SEE ALSO", "thole(1), thole(3), thole\\-options(7)"]
    return lines


def man_library(tables: Tables) -> list[str]:
    lines = page("thole", 3, tables.version, "C interface of Thole")
    lines += [".SH LIBRARY", "libthole (\\-lthole); pkg\\-config \\-\\-cflags \\-\\-libs thole"]
    lines += [".SH SYNOPSIS", ".nf", bold("#include <thole.h>"), ".fi"]
    first = True
    for item in read_header():
        if item.title:
            lines += [f'.SH "{esc(item.title.upper())}"']
        elif first and item.comment:
            first = False
            lines += [".SH DESCRIPTION", *prose(item.comment)]
        else:
            if item.code:
                lines += code(item.code)
            if item.comment:
                lines += [".RS 4", *prose(item.comment), ".RE"]
    lines += [".SH SEE ALSO", "thole(1), thole\\-options(7), thole\\-counters(7)"]
    return lines


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


# ---- The example of the guide  --------------------------------------------------------------------


def example(path: Path) -> str:
    blocks = re.findall(r"^```c\n(.*?)^```$", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    programs = [block for block in blocks if "int main(" in block]
    if len(programs) != 1:
        raise SystemExit(f"{path}: there are {len(programs)} complete C programs, not one")
    return programs[0]


# ---- Checking -------------------------------------------------------------------------------------

# Names in documents that are not ours to define.
FOREIGN = re.compile(
    r"(fi|dlopen|process_vm|pidfd|memfd|clock|epoll|sched|prctl|MPI|FI|UCX|OMPI|MPIR|I_MPI|PR|F_SEAL|SO|SCM)_\w*"
)
SOURCES = ("src", "include", "provider", "mx", "python", "bench", "sim", "tools", "test", "docs", ".ci")
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
    for folder in ("src", "provider", "mx"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            if not re.search(rf"[`/]{re.escape(path.name)}`", text):
                yield f"no document, such as FILES.md, says what {path.relative_to(ROOT)} is"


WIDTH_MAX = 120  # columns of a line, tabs to the next eighth; .clang-format and pyproject.toml say the same


def wrong_lines() -> Iterator[str]:
    for folder in ("src", "include", "provider", "mx", "sim", "tools", "test", "bench", "docs"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().split("\n"), 1):
                if len(line.expandtabs(8)) > WIDTH_MAX:
                    yield f"{path.relative_to(ROOT)}:{number} has more than {WIDTH_MAX} columns"
                if re.match(r"\t* {8}| +\t", line):
                    yield f"{path.relative_to(ROOT)}:{number} is not indented by tabs and less than 8 spaces"


PARAMETERS_MAX = 8
PUBLIC = r"thole_\w+|mx_\w+"


def parameters(text: str) -> int:
    """How many a list has; those of functions that are pointed to are not its own."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text.count(",") + 1


def long_signatures() -> Iterator[str]:
    """Only what others dictate takes many parameters: public functions, and those in libfabric's tables."""
    for folder in ("src", "sim", "provider", "mx"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            text = without_comments(path.read_text())
            tables = set(re.findall(r"^\t\.\w+ = (\w+),$", text, flags=re.MULTILINE)) if folder == "provider" else set()
            for name, words in re.findall(r"^\w[^;={}()]*?\b(\w+)\(([^;{}]*?)\)\n\{", text, flags=re.MULTILINE):
                if parameters(words) > PARAMETERS_MAX and name not in tables and not re.fullmatch(PUBLIC, name):
                    yield f"{path.relative_to(ROOT)}: {name}() has {parameters(words)} parameters: it wants a struct"


def wrong_includes() -> Iterator[str]:
    """What is written on thole.h includes that, its own files in their table's order, and what src/base has for all."""
    text = references()
    sentence = re.search(r"What `provider/` and `mx/` may use is(.*?)\. What else", text, flags=re.DOTALL)
    shared = {f"base/{name}" for name in re.findall(r"`(\w+\.h)`", sentence[1] if sentence else "")}
    for folder in ("provider", "mx"):
        table = text.partition(f"| file in `{folder}/` | owns |\n|---|---|\n")[2].partition("\n\n")[0]
        lines = enumerate(table.split("\n"))
        rows = {name: number for number, line in lines for name in re.findall(r"`([\w./]+)`", line)}
        for path in sorted((ROOT / folder).glob("*.[ch]")):
            for header in re.findall(r'^#include "(.*)"', path.read_text(), flags=re.MULTILINE):
                if (ROOT / folder / header).exists():
                    if rows.get(header, 0) < rows.get(path.name, 0):
                        yield f"{folder}/{path.name} includes {header}, which stands above it in its table"
                elif header not in shared | {"thole.h"} and not (ROOT / folder / "include" / header).exists():
                    yield f"{folder}/{path.name} includes {header}, which FILES.md does not give to it"


def defined(path: Path) -> Iterator[str]:
    """The functions that a file of C defines."""
    text = re.sub(r"__attribute__\(\(.*?\)\)\)?\s", "", without_comments(path.read_text()))
    yield from re.findall(r"^\w[^;={}()]*?\b(\w+)\([^;{}]*?\)\n\{", text, flags=re.MULTILINE)


def wrong_functions() -> Iterator[str]:
    """What provider/ and mx/ define begins with its file's name, but for the calls of MX, and the door."""
    for folder, prefix, public in (("provider", "prov_", "fi_prov_ini"), ("mx", "mxi_", r"mx_\w+|mx__\w+")):
        for path in sorted((ROOT / folder).glob("*.[ch]")):
            own = prefix + path.stem.partition("_")[2]
            for name in defined(path):
                if name != own and not name.startswith(f"{own}_") and not re.fullmatch(public, name):
                    yield f"{folder}/{path.name} defines {name}(), which does not begin with {own}_"


# What each of several files defines for a header that they include, so that nothing stands between it and them.
TEMPLATES = r"main|loop_\w+"


def twice_defined() -> Iterator[str]:
    """No two files define functions of one name, static or not: a name alone says which one is meant."""
    homes: dict[str, str] = {}
    for folder in ("src", "sim", "provider", "mx", "tools"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            for name in sorted(set(defined(path))):
                home = homes.setdefault(name, str(path.relative_to(ROOT)))
                if home != str(path.relative_to(ROOT)) and not re.fullmatch(TEMPLATES, name):
                    yield f"{path.relative_to(ROOT)} defines {name}(), as {home} does"


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


def wrong_changes(tables: Tables) -> Iterator[str]:
    """The newest entry of the changes is of the version that this is."""
    found = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    if found is None or found[1] != tables.version:
        yield f"CHANGELOG.md does not begin with version {tables.version}"
    for name in ("meson.build", "pyproject.toml"):
        text = (ROOT / name).read_text().replace('version = "', "version: '").replace('"', "'")
        if f"version: '{tables.version}'" not in text:
            yield f"{name} is not of version {tables.version}"


# ---- The protocol ---------------------------------------------------------------------------------

DATAGRAM = ROOT / "src" / "transport" / "datagram"
PROTOCOL = ROOT / "docs" / "PROTOCOL.md"

# Whose constants have a row each in the tables of PROTOCOL.md, with their value.
BOUNDS = {
    "engine.h": ("engine_limits",),
    "route.h": ("route_limits",),
    "handshake.h": ("handshake_limits",),
    "sequence.h": ("",),
    "transmit.h": ("transmit_limits",),
    "arrival.h": ("arrival_limits",),
    "pull.h": ("pull_limits",),
    "serve.h": ("serve_limits",),
    "scatter.c": ("",),
    "burst.h": ("",),
    "silence.h": ("silence_limits",),
    "naming.h": ("",),
    "liveness.h": ("liveness_limits",),
    "responder.h": ("responder_limits",),
    "guard.h": ("guard_limits",),
}
CODECS = ("native", "mxoe", "mxoe_jumbo")
SCALES = {"": 1, "ns": 1, "us": 1000, "ms": 1000000, "s": 1000000000}


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def constants(path: Path, known: dict[str, int]) -> dict[str, dict[str, int]]:
    """A source file's enumerators by the names of their enums ("": without one); `known` learns them."""
    enums: dict[str, dict[str, int]] = {}
    for name, body in re.findall(
        r"\benum\s*(\w*)\s*\{(.*?)\}", without_comments(path.read_text()), re.DOTALL
    ):
        members = enums.setdefault(name, {})
        following = 0
        for entry in filter(None, map(str.strip, body.split(","))):
            member, _, value = map(str.strip, entry.partition("="))
            following = value_of(value, known) if value else following
            known[member] = members[member] = following
            following += 1
    return enums


def value_of(expression: str, known: dict[str, int]) -> int:
    """A constant of C, made of numbers, of constants that are known, and of operators that Python shares."""
    literal = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", expression)
    named = re.sub(r"\b[A-Za-z_]\w*\b", lambda word: str(known.get(word[0], word[0])), literal)
    return int(eval(named, {"__builtins__": {}, "true": 1, "false": 0}))


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|-"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def quantity(cell: str) -> int | None:
    match = re.fullmatch(r"(\d+) ?(ns|us|ms|s|)", cell)
    return int(match[1]) * SCALES[match[2]] if match else {"true": 1, "false": 0}.get(cell)


def wrong_bounds(text: str) -> Iterator[str]:
    """Each bound and each time of the engine has a row: name, value, meaning."""
    said = {row[0].strip("`"): row[1] for row in rows(text) if len(row) == 3}
    known: dict[str, int] = {}
    constants(DATAGRAM / "wire" / "packet.h", known)  # which others are made of
    for name, enums in BOUNDS.items():
        found = constants(DATAGRAM / name, known)
        for enum in enums:
            for constant, value in found[enum].items():
                if constant not in said:
                    yield f"PROTOCOL.md: {constant} of {name} has no row"
                elif quantity(said[constant]) != value:
                    yield f"PROTOCOL.md: {constant} is {value}, not {said[constant]}"


TABLE = re.compile(r"<!-- (\w+)\.fields: ([\w ]+) -->\n\n(?:\|.*\n)+")


def field_tables(text: str) -> str:
    """PROTOCOL.md with the tables of fields as the codecs' descriptions have them."""
    from thole.frames import fields as wire

    def table(found: re.Match[str]) -> str:
        codec = wire.load(wire.path(found[1]))
        own = [row for name in found[2].split() for row in wire.columns(codec.packet(name))]
        head = ["offset", "size", "field", "set by", "meaning"]
        lines = [head, ["---"] * len(head), *own]
        cells = ("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)
        return f"<!-- {found[1]}.fields: {found[2]} -->\n\n" + "\n".join(cells).replace("|  |", "| |") + "\n"

    return TABLE.sub(table, text)


def wrong_fields(text: str) -> Iterator[str]:
    """Each packet of a codec has its place, with a row for each field."""
    from thole.frames import fields as wire

    if text != field_tables(text):
        yield "PROTOCOL.md: a table of fields differs from the codec's description: run docs/generate.py protocol"
    shown = {(codec, name) for codec, names in TABLE.findall(text) for name in names.split()}
    for codec in ("native", "mxoe"):
        for packet in wire.load(wire.path(codec)).packets:
            if packet.own and (codec, packet.name) not in shown:
                yield f"PROTOCOL.md: there is no table of {packet.name} of {codec}.fields"


def head_lengths(codec: str) -> dict[str, int]:
    """The constants for lengths that are made of a codec's description."""
    from thole.frames import fields as wire

    if not wire.path(codec).is_file():
        return {}
    packets = wire.load(wire.path(codec)).packets
    return {f"{one.name}_LENGTH": one.end for one in packets} | {f"{one.name}_LENGTH_MAX": one.longest for one in packets}


def length_max() -> int:
    text = without_comments((ROOT / "include" / "thole.h").read_text())
    defined = re.findall(r"#define THOLE_LENGTH_MAX (.*)", text)
    return value_of(defined[0].replace("(uint64_t)", ""), {})


def codec_values() -> dict[str, dict[str, int]]:
    """What the codecs' descriptors say; a field that is not named there is 0."""
    header = without_comments((DATAGRAM / "wire" / "codec.h").read_text())
    (body,) = re.findall(r"struct codec \{(.*?)\n\};", header, re.DOTALL)
    fields = [
        name.strip()
        for names in re.findall(r"\b(?:uint\d+_t|bool) ([\w, ]+);", body)
        for name in names.split(",")
    ]
    values: dict[str, dict[str, int]] = {}
    for path in sorted((DATAGRAM / "wire").glob("*.c")):
        source = without_comments(path.read_text()).replace("\\\n", " ")
        known = {"UINT32_MAX": 2**32 - 1, "THOLE_LENGTH_MAX": length_max()}
        for file in (ROOT / "src" / "transport" / "record.h", DATAGRAM / "wire" / "packet.h", path):
            constants(file, known)
        known.update(head_lengths(path.stem))
        macros = dict(re.findall(r"#define ([A-Z_]+) +(.*)", source))
        for name, text in re.findall(
            r"const struct codec codec_(\w+) = \{(.*?)\n\};", source, re.DOTALL
        ):
            for macro, expansion in macros.items():
                text = text.replace(macro, expansion)
            given = dict(re.findall(r"\.(\w+) = ([^,]+)", text))
            values[name] = {
                field: value_of(given[field], known) if field in given else 0 for field in fields
            }
    return values


def wrong_codecs(text: str) -> Iterator[str]:
    """Each number of a codec's descriptor has a row, with a column for each codec."""
    said = {row[0].strip("`"): row[1:4] for row in rows(section(text, "What a codec decides"))}
    values = codec_values()
    for at, codec in enumerate(CODECS):
        for name, value in values[codec].items():
            if name not in said:
                yield f"PROTOCOL.md: the codecs' {name} has no row"
            elif quantity(said[name][at]) != value:
                yield f"PROTOCOL.md: {name} of the codec {codec} is {value}, not {said[name][at]}"


# Structures in shared memory, and the section whose first table has their members.
SHARED = {
    "record": (ROOT / "src" / "transport" / "record.h", "The record"),
    "segment": (ROOT / "src" / "transport" / "shm" / "shm.h", "The segment"),
}


def wrong_layouts(tables: Tables) -> Iterator[str]:
    """Each member lies where the document has it: in the row of its offset, or in the last one before it."""
    text = references()
    for name, (path, title) in SHARED.items():
        members = tables.members.get(name, {})
        (body,) = re.findall(rf"^struct {name} \{{(.*?)^\}};", without_comments(path.read_text()), re.DOTALL | re.MULTILINE)
        for member in re.findall(r"(\w+)(?:\[\w*\])?;", body):
            if member not in members and not member.startswith("unused"):
                yield f"tables.c does not have {member} of struct {name}"
        found = [(int(row[0]), row[1]) for row in rows(section(text, title)) if row[0].isdigit()]
        offsets = sorted({at for at, _ in found})
        for member, offset in members.items():
            begin = max((at for at in offsets if at <= offset), default=None)
            if not any(at == begin and re.search(rf"\b{member}\b", words) for at, words in found):
                yield f"{title}: {member} is at {offset}"


def wrong_protocol() -> Iterator[str]:
    text = PROTOCOL.read_text()
    yield from wrong_bounds(text)
    yield from wrong_fields(text)
    yield from wrong_codecs(text)


def check(tables: Tables) -> int:
    wrong = list(missing_help(tables))
    words = source_words() | {option.name for option in tables.options}
    commands = {name: parser for name, _, parser in commands_of(tool_parser())}
    for name in DOCUMENTS:
        document = ROOT / name
        wrong += [*wrong_names(document, words), *broken_links(document), *wrong_commands(document, commands)]
    wrong += [*unnamed_files(), *wrong_lines(), *long_signatures(), *wrong_includes(), *wrong_functions()]
    wrong += [*wrong_externals(), *twice_defined(), *wrong_protocol(), *wrong_layouts(tables), *wrong_changes(tables)]
    for line in wrong:
        print(line, file=sys.stderr)
    looked = f"{len(tables.options)} options, {len(tables.counters)} counters, {len(DOCUMENTS)} documents"
    print(f"{looked}: {len(wrong)} wrong")
    return 1 if wrong or not tables.options or not tables.counters else 0


PAGES = {
    "thole.1": man_tool,
    "thole.3": man_library,
    "thole-options.7": man_options,
    "thole-counters.7": man_counters,
}


def main() -> int:
    what, *words = sys.argv[1:] or [""]
    if what == "commands" and not words:
        print("\n".join(name for name, _, _ in commands_of(tool_parser())))
        return 0
    if what == "man" and len(words) == 2:
        tables = read_tables(Path(words[1]))
        make = PAGES.get(words[0]) or functools.partial(man_command, words[0][len("thole-") : -len(".1")])
        print("\n".join(make(tables)))
        return 0
    if what == "completion" and len(words) == 1:
        print(completion(read_tables(Path(words[0]))), end="")
        return 0
    if what == "example" and len(words) == 1:
        print(example(Path(words[0])), end="")
        return 0
    if what == "protocol" and not words:
        sys.path.insert(0, str(ROOT / "python"))
        PROTOCOL.write_text(field_tables(PROTOCOL.read_text()))
        return 0
    if what == "check" and len(words) == 1:
        return check(read_tables(Path(words[0])))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
