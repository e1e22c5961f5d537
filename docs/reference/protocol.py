# SPDX-License-Identifier: BSD-3-Clause
"""Whether PROTOCOL.md and SHM.md have the offsets, bounds and times of the code; and their tables of fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from reference.code import DATAGRAM, ROOT, Tables, without_comments
from reference.documents import references, rows, section

if TYPE_CHECKING:
    from thole.frames.fields import Field, Packet

PROTOCOL = ROOT / "docs" / "PROTOCOL.md"

# Whose constants have a row each in the tables of PROTOCOL.md, with their value.
BOUNDS = {
    "engine.h": ("engine_limits",),
    "route.h": ("route_limits",),
    "handshake.h": ("handshake_limits",),
    "sequence.h": ("",),
    "transmit.h": ("transmit_limits",),
    "trip.h": ("trip_limits",),
    "arrival.h": ("arrival_limits",),
    "pull.h": ("pull_limits",),
    "serve.h": ("serve_limits",),
    "scatter.c": ("",),
    "silence.h": ("silence_limits",),
    "naming.h": ("",),
    "liveness.h": ("liveness_limits",),
    "responder.h": ("responder_limits",),
    "guard.h": ("guard_limits",),
}

CODECS = ("native", "mxoe", "mxoe_jumbo")
SCALES = {"": 1, "ns": 1, "us": 1000, "ms": 1000000, "s": 1000000000}


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


def columns(packet: Packet) -> list[list[str]]:
    """Rows of a table for people: offset, size, name, who sets it, meaning. Zeros are not worth one."""
    rows = []
    behind: int | None = packet.end  # of what is always there
    for one in packet.own:
        if one.name:
            at = behind if one.follows else one.at
            shown = "next" if at is None else str(at)
            rows.append([shown, str(one.size or "rest"), one.name, one.by, _meaning(one)])
        if one.follows:
            behind = None
    if packet.whole and (not rows or rows[-1][1] != "rest"):
        rows.append([str(packet.end), "", "end", "", ""])
    return rows


def _meaning(one: Field) -> str:
    """With the names of values behind the name of their enum."""
    names = one.names() or one.flags()
    form = "{} {}" if one.names() else "0x{:x} {}"
    listed = ", ".join(form.format(number, name) for number, name in names.items())
    enum, point, rest = re.findall(r"^(`enum \w+`)?(;? ?)(.*)$", one.meaning)[0]
    if not enum:
        return ": ".join(text for text in (one.meaning, listed) if text)
    return f"{enum}: {listed}{point}{rest}"


TABLE = re.compile(r"<!-- (\w+)\.fields: ([\w ]+) -->\n\n(?:\|.*\n)+")


def field_tables(text: str) -> str:
    """PROTOCOL.md with the tables of fields as the codecs' descriptions have them."""
    from thole.frames import fields as wire

    def table(found: re.Match[str]) -> str:
        codec = wire.load(wire.path(found[1]))
        own = [row for name in found[2].split() for row in columns(codec.packet(name))]
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
    ends = {f"{one.name}_LENGTH": one.end for one in packets}
    return ends | {f"{one.name}_LENGTH_MAX": one.longest for one in packets}


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
        source = without_comments(path.read_text())
        (body,) = re.findall(rf"^struct {name} \{{(.*?)^\}};", source, re.DOTALL | re.MULTILINE)
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
