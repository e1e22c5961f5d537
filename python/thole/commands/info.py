# SPDX-License-Identifier: BSD-3-Clause
"""`thole info`: this machine as Thole sees it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from thole.base import host, native, output, paths
from thole.base.text import size_text
from thole.base.trouble import Trouble
from thole.commands.arguments import add_venvs
from thole.mpi.identify import can_use_thole, fabric_version, has_ucx_alone, installed

SECTIONS = ("host", "transports", "interfaces", "adapters", "options", "counters", "mpi")


def about_thole() -> dict[str, str]:
    found = {"version": native.version()}
    for what, name in (
        ("library", paths.LIBRARY),
        ("provider", paths.PROVIDER),
        ("perf", paths.PERF),
        ("mx", paths.MX),
    ):
        try:
            found[what] = str(paths.find(name))
        except Trouble as trouble:
            found[what] = f"missing: {trouble.remedy}"
    return found


def about_host() -> dict[str, Any]:
    result: dict[str, Any] = host.describe()
    result["capabilities"] = [vars(capability) for capability in native.capabilities()]
    return result


TRANSPORTS = (
    ("shm", "processes of this host and user", ("network=off",)),
    ("network", "processes of other hosts, over Ethernet", ("shm=off", "network=on")),
)


def about_transports() -> list[dict[str, Any]]:
    """Each transport, and whether an endpoint of it opens here and now."""
    rows = []
    for name, reaches, options in TRANSPORTS:
        opened = native.try_endpoint(*options)
        rows.append(
            {
                "name": name,
                "reaches": reaches,
                "available": opened.error == "",
                "why": opened.error,
                "address": opened.address,
            }
        )
    return rows


def about_adapters() -> dict[str, Any]:
    found, why = native.adapters()
    return {"ports": [vars(row) for row in found], "why": why}


def about_mpis(folders: list[Path]) -> list[dict[str, Any]]:
    rows = []
    for found in installed(folders):
        usable = can_use_thole(found)
        rows.append(
            {
                "name": found.family.name,
                "title": found.label,
                "launcher": str(found.launcher),
                "library": str(found.library or ""),
                "libfabric": str(found.fabric or ""),
                "libfabric_version": fabric_version(found.fabric) if found.fabric else "",
                "usable": usable,
                "through": ("ucx" if has_ucx_alone(found) else "libfabric") if usable else "",
                "remedy": "" if usable else found.family.without,
            }
        )
    return rows


def collect(sections: list[str], folders: list[Path]) -> dict[str, Any]:
    makers: dict[str, Callable[[], Any]] = {
        "host": about_host,
        "transports": about_transports,
        "interfaces": lambda: [vars(row) for row in native.interfaces()],
        "adapters": about_adapters,
        "options": lambda: [{**vars(row), "variable": row.variable} for row in native.options()],
        "counters": lambda: [vars(row) for row in native.counters()],
        "mpi": lambda: about_mpis(folders),
    }
    result: dict[str, Any] = {"thole": about_thole()}
    result.update({section: makers[section]() for section in sections})
    return result


def _yes(flag: bool) -> str:
    return "[green]yes[/]" if flag else "[red]no[/]"


def show_host(row: dict[str, Any]) -> list[Table]:
    table = output.table("", "")
    table.show_header = False
    allowed = row["processors_allowed"]
    threads = f"{row['processors_online']} processors online, {len(allowed)} allowed ({_ranges(allowed)}), "
    threads += f"{row['cores_allowed']} cores, {row['numa_nodes']} NUMA node(s)"
    shm = "missing" if row["shm_bytes"] is None else size_text(row["shm_bytes"])
    locked = "unlimited" if row["locked_bytes_max"] is None else size_text(row["locked_bytes_max"])
    for name, value in (
        ("host", f"{row['name']}: {row['system']}, Linux {row['kernel']} {row['machine']}"),
        ("processor", row["processor"]),
        ("", threads),
        (
            "memory",
            f"{size_text(row['memory_bytes'])}; /dev/shm {shm} (Thole needs none); may pin {locked}",
        ),
        *_group_rows(row),
    ):
        table.add_row(name, escape(value))
    permits = output.table("the kernel permits", "", "what for, or why not")
    for capability in row["capabilities"]:
        text = capability["use"]
        if not capability["available"]:
            text = f"{capability['why']} (for: {text})"
        permits.add_row(escape(capability["name"]), _yes(capability["available"]), escape(text))
    return [table, permits]


def _group_rows(row: dict[str, Any]) -> list[tuple[str, str]]:
    """What a container or a batch system leaves of the machine."""
    share, memory = row["group_processors"], row["group_memory_bytes"]
    limits = [f"the time of {share:g} processors; ranks that wait spin it away"] if share else []
    limits += [size_text(memory)] if memory and memory < row["memory_bytes"] else []
    return [("control group", f"at most {', '.join(reversed(limits))}")] if limits else []


def _ranges(numbers: list[int]) -> str:
    """0,1,2,5 as 0-2,5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def show_transports(rows: list[dict[str, Any]]) -> list[Table]:
    table = output.table("transport", "", "reaches")
    for row in rows:
        table.add_row(
            row["name"],
            _yes(row["available"]),
            escape(row["reaches"] if row["available"] else row["why"]),
        )
    return [table]


def show_interfaces(rows: list[dict[str, Any]]) -> list[Table | Text]:
    table = output.table("interface", "links", "address", "MTU")
    used = [row for row in rows if row["up"] or row["links"]]
    for row in used:
        links = ", ".join(row["links"]) or "none"
        if row["chosen"]:
            links += " (used)"
        table.add_row(escape(row["name"]), links, escape(row["address"]), str(row["mtu"]))
    if not used:
        table.add_row("none is up", "", "", "")
    names: dict[str, list[str]] = {}  # what holds for several is said once
    for row in used:
        for sentence in row["better"]:
            names.setdefault(sentence, []).append(row["name"])
    said = [Text(f"{', '.join(which)}: {sentence}") for sentence, which in names.items()]
    return [table, *said]


def show_adapters(row: dict[str, Any]) -> list[Table | Text]:
    table = output.table("adapter for remote DMA", "", "address", "can", "MTU", "Gbit/s")
    for port in row["ports"]:
        kind = f"{port['kind'] or 'no address'}{', by processors' if port['software'] else ''}"
        kind += "" if port["up"] else ", down"
        rate = f"{port['rate'] / 1000:g}" if port["rate"] else ""
        can = ", ".join(port["can"])
        table.add_row(escape(port["name"]), kind, escape(port["address"]), can, str(port["mtu"]), rate)
    if not row["ports"]:
        table.add_row("none", "", "", "", "", "")
    said = [Text(f"{port['name']}: {line}") for port in row["ports"] for line in port["better"]]
    return [table, *said, *([Text(row["why"])] if row["why"] else [])]


def show_options(rows: list[dict[str, Any]]) -> list[Table]:
    table = output.table("option", "value", "default", "origin", "what it is")
    for row in rows:
        changed = row["value"] != row["default"]
        value = f"[bold]{escape(row['value'])}[/]" if changed else escape(row["value"])
        text = row["help"] + (f" ({row['choices'].replace(',', ', ')})" if row["choices"] else "")
        table.add_row(
            row["name"], value, escape(row["default"]), escape(row["origin"]), escape(text)
        )
    return [table]


def show_counters(rows: list[dict[str, Any]]) -> list[Table]:
    table = output.table("counter", "what it counts")
    for row in rows:
        table.add_row(row["name"], escape(row["help"]))
    return [table]


def show_mpi(rows: list[dict[str, Any]]) -> list[Table]:
    table = output.table("MPI", "usable", "launcher", "libfabric")
    for row in rows:
        text = f"{row['libfabric_version']}  {row['libfabric']}" if row["usable"] else row["remedy"]
        if row["through"] == "ucx":
            text = "none: it goes through UCX's interface"
        table.add_row(row["title"], _yes(row["usable"]), escape(row["launcher"]), escape(text))
    if not rows:
        table.add_row("none found", "", "in PATH, /usr/bin or this virtual environment", "")
    return [table]


SHOW = {
    "host": show_host,
    "transports": show_transports,
    "interfaces": show_interfaces,
    "adapters": show_adapters,
    "options": show_options,
    "counters": show_counters,
    "mpi": show_mpi,
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "info",
        help="this machine as Thole sees it",
        description="Show cores, what the kernel permits, transports, network interfaces with the links that they "
        "give, adapters for remote DMA, what would be faster with each, options with their origin, and MPIs found.",
    )
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help="of " + ", ".join(SECTIONS) + " (default: all but counters)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_venvs(parser, "also look for MPIs in DIR/*/bin")
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    for section in arguments.sections:
        if section not in SECTIONS:
            raise Trouble(f"there is no section {section!r}", f"use one of {', '.join(SECTIONS)}")
    default = (
        SECTIONS if arguments.json else [section for section in SECTIONS if section != "counters"]
    )
    sections = arguments.sections or list(default)
    named = [paths.environments(folder, "--venvs") for folder in arguments.venvs]
    folders = [path for folder in [*named, *_own_venvs()] for path in sorted(folder.glob("*/bin"))]
    found = collect(sections, folders)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    console = output.console(160)
    own = found["thole"]
    console.print(
        f"[bold]Thole {own['version']}[/]  {escape(own['library'])}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"provider  {escape(own['provider'])}", highlight=False, soft_wrap=True)
    for section in sections:
        console.print()
        for part in SHOW[section](found[section]):  # type: ignore[operator]
            console.print(part, highlight=False, soft_wrap=isinstance(part, Text))
    if "options" in sections:
        path = paths.options_file()
        state = "read" if path and os.access(path, os.R_OK) else "none yet; `thole tune` writes it"
        told = f"{path} ({state})" if path else "none (THOLE_OPTIONS_FILE is set to nothing)"
        console.print(f"\noptions file: {told}", highlight=False, soft_wrap=True)
        if complaint := native.options_complaint():
            console.print(complaint, style="red", highlight=False, markup=False, soft_wrap=True)
    return 0


def _own_venvs() -> list[Path]:
    tree = paths.build_tree()
    return [tree / "venv"] if tree else []
