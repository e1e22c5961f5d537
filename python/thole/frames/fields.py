# SPDX-License-Identifier: BSD-3-Clause
"""Packets as src/transport/datagram/wire/*.fields describe them, each field in one line.

Reads a description, refuses one that is not whole, and takes frames apart by it. Nothing but Python's own library
is needed: the build makes code of the descriptions with this.

    codec NAME FILTER [cleared N] [moved N]
        FILTER begins the names of fields in Wireshark. An encoder has cleared the first N bytes. What is at `moved`
        or behind it lies further behind in a frame with counter and tag.
    part NAME END: about
        Fields that several packets have.
    packet NAME[/NAME] LENGTH [PART ...]: about
        The parts' fields and its own, of which one that lies where a part's does takes its place. LENGTH is that of
        what it always has, and each byte of that is in one field.
      AT TYPE NAME MEMBER SET-BY MEANING
        A field. Columns are two spaces apart, or more. AT is an offset, or + for what is behind all others.
      . AT TYPE NAME
        A part of the field above, or some bits of it, with a mask for TYPE.
      = PREFIX: N NAME, ...
        Names of the values of the field above. PREFIX and a name, in upper case, are a constant of C, which has to
        have this value; with =+ it is defined. Without a prefix C has none.
      & PREFIX: N NAME, ...
        The same of bits.
      if FIELD OP VALUE [or ...], ...
        The field above is there only then. OP is =, != or &, VALUE a name. What commas separate has to hold, all.

Types: u8 to u64 are big-endian numbers, x8 to x64 such as people read in hexadecimal digits; bytesN, mac, and rest
or text, which are as long as what is left; TYPE*N are N in a row. MEMBER is that of `struct packet`: store and load
are made for it. With @N it is the bits of it from N on. =N: always so, and its meaning begins with that; load does not
look at it. -: the codec has a hand in it. A field called 0 is 0, and so is one that has 0 for a member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

OPERATORS = ("!=", "=", "&")


class Wrong(Exception):
    """A description that says nothing sensible, with the line that does."""


@dataclass(frozen=True)
class Names:
    """Names of values or bits, and how C has them."""

    prefix: str
    defined: bool  # by what is made of this; else C has it already
    of: dict[int, str]

    def constant(self, number: int) -> str:
        return self.prefix + self.of[number].upper().replace(" ", "_")


@dataclass(frozen=True)
class Part:
    """A part of a field: of its bytes, or of its bits."""

    at: int
    kind: str
    mask: int
    name: str


@dataclass(frozen=True)
class Term:
    name: str
    operator: str
    value: int

    def holds(self, value: int) -> bool:
        if self.operator == "&":
            return bool(value & self.value)
        return (value == self.value) == (self.operator == "=")


Condition = tuple[tuple[Term, ...], ...]  # all of them, and any term of each


@dataclass(frozen=True)
class Field:
    at: int  # of one that follows the rest: where that ends, as if nothing else followed
    follows: bool
    kind: str
    count: int
    name: str  # "": zeros
    member: str
    by: str
    meaning: str
    line: str
    values: tuple[Names, ...] = ()
    bits: tuple[Names, ...] = ()
    parts: tuple[Part, ...] = ()
    condition: Condition = ()

    @cached_property
    def width(self) -> int:
        """Bytes of one; 0: as many as there are."""
        if not self.kind[-1].isdigit():
            return 6 if self.kind == "mac" else 0
        number = int(re.sub(r"\D+", "", self.kind))
        return number if self.kind.startswith("bytes") else number // 8

    @cached_property
    def size(self) -> int:
        return self.width * self.count

    @cached_property
    def end(self) -> int:
        return self.at + self.size

    @cached_property
    def is_always(self) -> bool:
        """Whether it is the same in every packet."""
        return self.member.startswith("=")

    @cached_property
    def always(self) -> int:
        """What it is then."""
        return int(self.member[1:], 0)

    @cached_property
    def is_number(self) -> bool:
        return self.kind[0] in "ux" and self.count == 1

    def names(self) -> dict[int, str]:
        return {number: name for names in self.values for number, name in names.of.items()}

    def flags(self) -> dict[int, str]:
        return {number: name for names in self.bits for number, name in names.of.items()}


@dataclass
class Packet:
    """A packet, or a part of several."""

    names: tuple[str, ...]
    about: str
    end: int
    whole: bool
    own: list[Field] = field(default_factory=list)
    inherited: list[Field] = field(default_factory=list)
    steps: list[Field] = field(default_factory=list)  # in which a frame is read: what others ask for first

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def longest(self) -> int:
        """Its length with all that is not always there, but without payload."""
        return self.end + sum(one.size for one in self.own if one.follows)

    @property
    def fields(self) -> list[Field]:
        """All, in the order of their offsets."""
        own = [one for one in self.own if not one.follows]
        kept = [one for one in self.inherited if not any(_overlap(one, other) for other in own)]
        fixed = sorted([*(one for one in kept if not one.follows), *own], key=lambda one: one.at)
        return [*fixed, *(one for one in (*kept, *self.own) if one.follows)]

    def field(self, name: str) -> Field:
        """By its name, or the end of it."""
        for one in self.steps or self.fields:
            if one.name == name or one.name.endswith("." + name):
                return one
        raise Wrong(f"{self.name} has no field {name}")

    def constant(self, one: Field) -> str:
        """Of its offset. What a name has in common with the packet's is not said twice, if it is clear without it."""
        short = one.name.removeprefix(f"{self.name.split('_')[0].lower()}.")
        clear = short not in (other.name for other in self.own if other is not one)
        return f"{self.name}_{short if clear else one.name}_AT".upper().replace(".", "_")

    def read(self, frame: bytes) -> dict[str, Any]:
        """The fields of a frame without counter and tag, by name: numbers and bytes. What is not there is left out."""
        found: dict[str, Any] = {}
        behind = self.end
        for one in self.steps:
            if one.condition and not holds(one.condition, found):
                continue
            at = behind if one.follows else one.at
            end = at + one.size if one.size else max(at, len(frame))
            behind = end if one.follows else behind
            if end <= len(frame):
                raw = frame[at:end]
                found[one.name] = int.from_bytes(raw, "big") if one.is_number else raw
        return found


def holds(condition: Condition, found: dict[str, Any]) -> bool:
    return all(
        any(term.holds(number) for term in terms if isinstance(number := found.get(term.name, 0), int))
        for terms in condition
    )


@dataclass
class Codec:
    name: str
    filter: str
    cleared: int = 0
    moved: int = 0
    packets: list[Packet] = field(default_factory=list)

    def packet(self, name: str) -> Packet:
        for packet in self.packets:
            if name in packet.names:
                return packet
        raise Wrong(f"{self.name} has no packet {name}")

    @property
    def whole(self) -> Iterator[Packet]:
        return (packet for packet in self.packets if packet.whole)

    @property
    def type(self) -> Field:
        return next(one for packet in self.packets for one in packet.own if one.name == "type")

    def fields(self) -> dict[str, Field]:
        """One of each name, the widest."""
        found: dict[str, Field] = {}
        for packet in self.packets:
            for one in packet.own:
                if one.name and (one.name not in found or found[one.name].size < one.size):
                    found[one.name] = one
        return found


# ---- A description --------------------------------------------------------------------------------


def _overlap(one: Field, other: Field) -> bool:
    return one.at < other.end and other.at < one.end


def load(path: Path) -> Codec:
    codec: Codec | None = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].rstrip() if line.startswith("#") else line.rstrip()
        if not words:
            continue
        try:
            if codec is None:
                codec = _codec(words)
            else:
                _line(codec, words)
        except (Wrong, ValueError, TypeError, IndexError) as error:
            raise Wrong(f"{path.name}:{number}: {error}: {line.strip()}") from None
    if codec is None:
        raise Wrong(f"{path.name}: there is no codec in it")
    for packet in codec.packets:
        try:
            _check(packet)
            named = (one for one in packet.fields if one.name)
            packet.steps = sorted(named, key=lambda one: bool(one.condition or one.follows))
        except Wrong as error:
            raise Wrong(f"{path.name}: {packet.name}: {error}") from None
    return codec


def _codec(line: str) -> Codec:
    word, name, prefix, *rest = line.split()
    if word != "codec":
        raise Wrong("a description begins with its codec")
    limits = {key: int(value) for key, value in zip(rest[::2], rest[1::2])}
    return Codec(name, prefix, limits.get("cleared", 0), limits.get("moved", 0))


def _line(codec: Codec, line: str) -> None:
    begin = line.split()[0]
    if begin in ("part", "packet"):
        codec.packets.append(_packet(codec, line))
        return
    packet = codec.packets[-1]
    if begin in ("=", "=+", "&", "&+", ".", "if"):
        packet.own[-1] = _detail(packet, packet.own[-1], begin, line.strip()[len(begin) :])
    else:
        packet.own.append(_field(packet, line))


def _packet(codec: Codec, line: str) -> Packet:
    head, _, about = line.partition(":")
    kind, names, end, *parts = head.split()
    packet = Packet(tuple(names.split("/")), about.strip(), int(end), kind == "packet")
    for name in packet.names:
        if any(name in other.names for other in codec.packets):
            raise Wrong(f"there are two called {name}")
    for part in parts:
        packet.inherited += codec.packet(part).fields
    return packet


def _field(packet: Packet, line: str) -> Field:
    at, kind, name, *rest = re.split(r" {2,}", line.strip())
    kind, _, count = kind.partition("*")
    if not re.fullmatch(r"[ux](8|16|32|40|56|64)|bytes\d+|mac|rest|text", kind) or len(rest) > 3:
        raise Wrong("that is no field: offset, type, name, member, who sets it, meaning")
    member, by, meaning = (*rest, "", "", "")[:3]
    named = "" if name == "0" else name
    follows = at == "+"
    where = packet.end if follows else int(at)
    return Field(where, follows, kind, int(count or 1), named, member or "0", by, meaning, line)


def _detail(packet: Packet, above: Field, begin: str, text: str) -> Field:
    if begin == "if":
        return replace(above, condition=_condition(packet, text))
    if begin == ".":
        at, kind, name = text.split()
        mask = int(kind, 0) if kind.startswith("0x") else 0
        return replace(above, parts=(*above.parts, Part(int(at), "" if mask else kind, mask, name)))
    prefix, _, list_ = text.partition(":")
    pairs = [one.strip().partition(" ") for one in list_.split(",")]
    if len({int(number) for number, _, _ in pairs}) < len(pairs):
        raise Wrong("two names for one value")
    names = Names(prefix.strip(), begin.endswith("+"), {int(number): name for number, _, name in pairs})
    if begin[0] == "=":
        return replace(above, values=(*above.values, names))
    return replace(above, bits=(*above.bits, names))


def _condition(packet: Packet, text: str) -> Condition:
    return tuple(
        tuple(_term(packet, *term.split()) for term in terms.split(" or ")) for terms in text.split(",")
    )


def _term(packet: Packet, name: str, operator: str, value: str) -> Term:
    if operator not in OPERATORS:
        raise Wrong(f"no operator: {operator}")
    if value.isdigit():
        return Term(name, operator, int(value))
    of = packet.field(name)
    known = of.flags() if operator == "&" else of.names()
    numbers = [number for number, called in known.items() if called == value]
    if not numbers:
        raise Wrong(f"{name} has no {value}")
    return Term(name, operator, numbers[0])


# ---- Is it whole? ---------------------------------------------------------------------------------


def _check(packet: Packet) -> None:
    own = [one for one in packet.own if not one.follows]
    for one, other in zip(own, own[1:]):
        same = (one.at, one.end) == (other.at, other.end)
        if one.condition and other.condition and same:
            continue  # either of them
        if other.at < one.end:
            raise Wrong(f"two fields overlap: {one.line.strip()} and {other.line.strip()}")
    for one in packet.fields:
        _check_field(packet, one)
    names = [one.name for one in packet.fields if one.name]
    for name in names:
        if names.count(name) > 1:
            raise Wrong(f"two fields are called {name}")
    if not packet.whole:
        return
    at, before = 0, None
    for one in (one for one in packet.fields if not one.follows):
        if before and one.condition and before.condition and one.at == before.at:
            continue  # the same place, said otherwise
        if one.at != at:
            raise Wrong(f"its fields end at {at}, and the next begins at {one.at}: {one.line.strip()}")
        at, before = one.end, one
    if at != packet.end:
        raise Wrong(f"its fields end at {at}, and it has {packet.end} bytes")


def _check_field(packet: Packet, one: Field) -> None:
    if not one.follows and one.end > packet.end:
        raise Wrong(f"it has {packet.end} bytes, so none for: {one.line.strip()}")
    for name in (term.name for terms in one.condition for term in terms):
        packet.field(name)
    if one.is_always and re.split(r"\W", one.meaning)[0] != one.member[1:]:
        raise Wrong(f"it is always {one.member[1:]}, and its meaning says something else: {one.line.strip()}")
    limit = 1 << 8 * one.width
    numbers = [number for names in (*one.values, *one.bits) for number in names.of]
    if len(set(numbers)) != len(numbers) or any(not 0 <= number < limit for number in numbers):
        raise Wrong(f"two values are the same, or do not fit: {one.line.strip()}")
    if any(number & (number - 1) for names in one.bits for number in names.of):
        raise Wrong(f"a flag is one bit: {one.line.strip()}")
    for part in one.parts:
        size = 0 if part.mask else int(part.kind[1:]) // 8
        if part.mask >= limit or part.at + size > one.width:
            raise Wrong(f"{part.name} is no part of {one.line.strip()}")


# ---- Where they are -------------------------------------------------------------------------------


def path(codec: str) -> Path:
    """A codec's description: beside this file where it is installed, else in the source tree."""
    here = Path(__file__).resolve().parent
    beside = here / f"{codec}.fields"
    return beside if beside.is_file() else here.parents[2] / "src" / "transport" / "datagram" / "wire" / beside.name
