#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what holds for Python here: who imports whom, that a module says what it owns, that nothing is too long.

    rules.py        prints what is wrong, a line each

LAYERS is the order: a module imports from its own layer or from those below. So the product (thole) does not know the
laboratory (thole_lab). Inside a layer packages do not know each other, and there is no circle of modules anywhere; an
import inside a function counts like any other, and so does a module that stands by its name in a table.

Whatever is Python in FOLDERS says in its first lines what it is, has functions that fit a screen and hints for all of
their arguments; modules are short, too, but for tests.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent

LAYERS = (
    ("thole.__init__", "thole.base"),
    ("thole.mpi", "thole.mx", "thole.perf", "thole.frames"),
    ("thole.commands",),
    ("thole.cli", "thole.__main__"),
)
LABORATORY = "thole_lab"
ABOVE = LAYERS[-1]  # the laboratory, too
FOLDERS = ("python", "bench", "docs", "test", "tools")
MODULE_MAX = 420  # lines
FUNCTION_MAX = 60
ARGUMENTS_MAX = 8
TABLE = "COMMANDS"  # of thole.cli: the one place that has modules by their names


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def modules() -> dict[str, ast.Module]:
    """Every module by its full name; packages end in __init__."""
    found = {}
    for package in ("thole", LABORATORY):
        for path in sorted((HERE / package).rglob("*.py")):
            name = ".".join(path.relative_to(HERE).with_suffix("").parts)
            found[name] = ast.parse(path.read_text(), str(path))
    return found


def imports(tree: ast.Module, known: dict[str, ast.Module]) -> Iterator[str]:
    """The modules of ours that a module names in its imports, wherever they stand."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else str(node.module) for name in names]
        for name in names:
            if name in known:
                yield name
            elif f"{name}.__init__" in known:
                yield f"{name}.__init__"


def in_table(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == TABLE for target in node.targets):
            yield from ast.literal_eval(node.value)


def place(name: str) -> tuple[int, str]:
    """The layer of a module of the product, and its package there."""
    for number, packages in enumerate(LAYERS):
        for package in packages:
            if within(name, package):
                return number, package
    return -1, name


def wrong_imports(graph: dict[str, set[str]]) -> Iterator[str]:
    for name, used in graph.items():
        for other in sorted(used):
            if within(name, LABORATORY):
                if any(within(other, package) for package in ABOVE):
                    yield f"{name} imports {other}: the command line is above the laboratory, too"
            elif within(other, LABORATORY):
                yield f"{name} imports {other}: the product does not know the laboratory"
            elif place(other)[0] > place(name)[0]:
                yield f"{name} imports {other}, which is a layer above it"
            elif place(other)[0] == place(name)[0] and place(other) != place(name) and place(name)[0] < 3:
                yield f"{name} imports {other}, a package of the same layer"


def circles(graph: dict[str, set[str]]) -> Iterator[str]:
    """What is left when modules that import nothing of the rest, or that none of the rest imports, are taken away."""
    left = dict(graph)
    while True:
        used = set().union(*left.values()) if left else set()
        free = [name for name, uses in left.items() if not uses & left.keys() or name not in used]
        if not free:
            break
        for name in free:
            del left[name]
    if left:
        yield f"a circle of imports: {', '.join(sorted(left))}"


def wrong() -> Iterator[str]:
    known = modules()
    graph = {name: set(imports(tree, known)) for name, tree in known.items()}
    yield from wrong_imports(graph)
    named = set(in_table(known["thole.cli"]))
    graph["thole.cli"] |= named
    yield from circles(graph)
    for name in known:
        if not within(name, LABORATORY) and place(name)[0] < 0:
            yield f"{name} is in no layer"
    for name in sorted(named - known.keys()):
        yield f"thole.cli: there is no {name}"
    commands = {name for name in known if is_command(known[name])}
    for name in sorted(commands - named):
        yield f"{name} is a command that thole.cli does not have"


Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def wrong_functions(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        where = f"{path}:{node.lineno}: {node.name}"
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_MAX:
            yield f"{where} has {lines} lines, more than the {FUNCTION_MAX} of a screen"
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        own = [argument for argument in given if argument.arg not in ("self", "cls")]
        if len(own) > ARGUMENTS_MAX:
            yield f"{where} has {len(own)} arguments, more than {ARGUMENTS_MAX}"
        if node.returns is None or any(argument.annotation is None for argument in own):
            yield f"{where} has no type hints"


def wrong_modules() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((HERE.parent / folder).rglob("*.py")):
            name, text = str(path.relative_to(HERE.parent)), path.read_text()
            tree = ast.parse(text, name)
            yield from wrong_functions(name, tree)
            if not ast.get_docstring(tree):
                yield f"{name} does not say what it owns"
            lines = text.count("\n")
            if lines > MODULE_MAX and folder != "test":
                yield f"{name} has {lines} lines, more than {MODULE_MAX}: it owns too much"


def is_command(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "add_parser" for node in tree.body)


def main() -> int:
    lines = [*wrong(), *wrong_modules()]
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{len(modules())} modules: {len(lines)} wrong")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
