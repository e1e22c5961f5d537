# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages, of the library's tables, the tool's parser and thole.h."""

from __future__ import annotations

import argparse

from reference.code import Option, Tables, arguments_of, commands_of, tool_parser
from reference.header import read_header
from reference.roff import bold, code, esc, italic, page, prose, sentence, tagged

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
            "for local_ranks: MPI_LOCALNRANKS, OMPI_COMM_WORLD_LOCAL_SIZE, PMI_LOCAL_SIZE or PALS_LOCAL_SIZE, as launchers "
            "set them, or SLURM_STEP_TASKS_PER_NODE with SLURM_NODEID, as srun does;",
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
