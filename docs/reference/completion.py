# SPDX-License-Identifier: BSD-3-Clause
"""bash completion: completion.bash, filled in."""

from __future__ import annotations

import argparse
import re

from reference.code import ROOT, Tables, arguments_of, commands_of, tool_parser

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
