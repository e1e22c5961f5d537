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

import functools
import sys
from pathlib import Path

from reference.code import ROOT, Tables, commands_of, read_tables, tool_parser
from reference.completion import completion
from reference.documents import (
    DOCUMENTS,
    broken_links,
    example,
    missing_help,
    source_words,
    unnamed_files,
    wrong_changes,
    wrong_index,
    wrong_commands,
    wrong_names,
)
from reference.man import man_command, man_counters, man_library, man_options, man_tool
from reference.protocol import PROTOCOL, field_tables, wrong_layouts, wrong_protocol
from reference.sources import (
    long_signatures,
    twice_defined,
    wide_lines,
    wrong_externals,
    wrong_functions,
    wrong_heads,
    wrong_includes,
    wrong_lines,
)


def check(tables: Tables) -> int:
    wrong = list(missing_help(tables))
    words = source_words() | {option.name for option in tables.options}
    commands = {name: parser for name, _, parser in commands_of(tool_parser())}
    for name in DOCUMENTS:
        document = ROOT / name
        wrong += [*wrong_names(document, words), *broken_links(document), *wrong_commands(document, commands)]
    wrong += [*unnamed_files(), *wrong_lines(), *wide_lines(), *long_signatures(), *wrong_includes()]
    wrong += [*wrong_functions(), *wrong_externals(), *wrong_heads(), *twice_defined()]
    wrong += [*wrong_protocol(), *wrong_layouts(tables), *wrong_changes(tables), *wrong_index()]
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
