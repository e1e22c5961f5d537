#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make code of the descriptions of packets (src/transport/datagram/wire/*.fields).

    fields.py header FIELDS               C: offsets, lengths, and what stores and loads the fields, for the codec
    fields.py dissector LUA FIELDS...     LUA with the tables of the codecs in the place of its line @tables@

On standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from thole.frames.fields import Codec, Field, Packet, Term, Wrong, load  # noqa: E402

# ---- C --------------------------------------------------------------------------------------------


def header(codec: Codec, source: str) -> Iterator[str]:
    yield "/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */"
    yield f"/* Made of {source} by tools/fields.py. */"
    guard = f"THOLE_TRANSPORT_DATAGRAM_WIRE_{codec.name.upper()}_FIELDS_H"
    yield from (f"#ifndef {guard}", f"#define {guard}", "")
    for packet in codec.packets:
        yield from _constants(packet)
        yield from _values(packet)
    for packet in codec.packets:
        yield from _functions(codec, packet)
    yield "#endif"


def _constants(packet: Packet) -> Iterator[str]:
    yield f"/* {', '.join(packet.names)}: {packet.about} */"
    yield "enum {"
    for one in packet.own:
        if one.name and not one.follows:
            kind = one.kind + (f"*{one.count}" if one.count > 1 else "")
            yield f"\t{packet.constant(one)} = {one.at}, /* {kind} */"
    yield f"\t{packet.name}_LENGTH = {packet.end},"
    if packet.longest > packet.end:
        yield f"\t{packet.name}_LENGTH_MAX = {packet.longest},"
    for one in packet.own:
        if one.bits:
            yield f"\t{packet.constant(one).removesuffix('_AT')}_BITS = {sum(one.flags()):#x},"
        if one.is_always:
            yield f"\t{packet.constant(one).removesuffix('_AT')}_IS = {one.always},"
    yield from ("};", "")


def _values(packet: Packet) -> Iterator[str]:
    for one in packet.own:
        for names in (*one.values, *one.bits):
            if names.defined:
                pairs = (f"{names.constant(number)} = {number}" for number in names.of)
                yield from (f"enum {{ {', '.join(pairs)} }};", "")
            elif names.prefix:
                for number in names.of:
                    yield f'_Static_assert({names.constant(number)} == {number}, "as {one.name} has it");'
                yield ""


class _Way:
    """What differs between storing and loading."""

    def __init__(self, codec: Codec, packet: Packet, stores: bool) -> None:
        self.codec, self.packet, self.stores = codec, packet, stores
        self.first = "head" if codec.moved else "body"

    def place(self, one: Field) -> str:
        """Where a field is: what has no fixed offset is where we have got to."""
        if one.follows:
            return "at"
        moved = self.codec.moved and one.at >= self.codec.moved
        return f"{'rest' if moved else self.first} + {self.packet.constant(one)}"

    def constant(self, one: Field) -> str:
        """Where it is, of a field that may be a part's."""
        owner = next(packet for packet in self.codec.packets if any(own is one for own in packet.own))
        return owner.constant(one)

    def base(self, one: Field) -> str:
        return self.place(one).split()[0]

    def copy(self, one: Field, following: Field | None) -> Iterator[str]:
        """The lines for one field; a number of 56 bits has one of 40 behind it, and both are one place."""
        member, at = f"packet->{one.member}", self.place(one)
        if one.kind.endswith("56"):
            if following is None or not following.kind.endswith("40") or following.at != one.end:
                raise Wrong(f"{self.packet.name}: 40 bits have to be behind the 56 of {one.name}")
            other = f"packet->{following.member}"
            arguments = (at, member, other) if self.stores else (at, f"&{member}", f"&{other}")
            yield f"place_{'store' if self.stores else 'load'}({', '.join(arguments)});"
        elif one.count > 1:
            yield f"for (int i = 0; i < {one.count}; i++)"
            yield "\t" + self.number(one, f"{member}[i]", f"{at} + {one.width} * i")
        elif not one.is_number:
            pair = (at, member) if self.stores else (member, at)
            yield f'_Static_assert(sizeof({member}) == {one.size}, "{one.name}");'
            yield f"memcpy({pair[0]}, {pair[1]}, {one.size});"
        else:
            yield self.number(one, member, at)

    def number(self, one: Field, member: str, at: str) -> str:
        bits = 8 * one.width
        member, _, shift = member.partition("@")
        where = f"*({at})" if " " in at else f"*{at}"
        if " + " in at and at.count("+") == 1:
            where = f"{at.split(' + ')[0]}[{at.split(' + ')[1]}]"
        if self.stores:
            value = f"({member} >> {shift})" if shift and shift != "0" else member
            value = value if bits == 64 else f"(uint{bits}_t){value}"
            return f"{where} = {value};" if bits == 8 else f"store_be{bits}({at}, {value});"
        return f"{member} = {where if bits == 8 else f'load_be{bits}({at})'};"

    def gather(self, member: str) -> str:
        """Load a member whose bits are in several fields."""
        bits = []
        for one in self.packet.own:
            name, _, shift = one.member.partition("@")
            if name == member and shift:
                text = f"{self.first}[{self.packet.constant(one)}]"
                text = text if one.width == 1 else f"load_be{8 * one.width}({self.place(one)})"
                bits.append(f"(uint64_t){text} << {shift}" if shift != "0" else text)
        return f"packet->{member} = {' | '.join(bits)};"

    def condition(self, one: Field) -> str:
        """In C, of what is in the frame."""
        clauses = [" || ".join(map(self.term, terms)) for terms in one.condition]
        return " && ".join(f"({text})" if "||" in text and len(clauses) > 1 else text for text in clauses)

    def term(self, term: Term) -> str:
        of = self.packet.field(term.name)
        known = [names for names in (*of.values, *of.bits) if names.prefix and term.value in names.of]
        value = known[0].constant(term.value) if known else term.value
        operator = "==" if term.operator == "=" else term.operator
        return f"{_local(term.name)} {operator} {value}"

    def locals(self) -> str:
        """What conditions ask for, once it is there."""
        asked = dict.fromkeys(
            term.name for one in self.packet.own if one.follows for terms in one.condition for term in terms
        )
        of = (f"{_local(name)} = {self.first}[{self.constant(self.packet.field(name))}]" for name in asked)
        return f"const uint8_t {', '.join(of)};"


def _local(name: str) -> str:
    return name.split(".")[-1]


def _functions(codec: Codec, packet: Packet) -> Iterator[str]:
    """NAME_store, NAME_load and, where that is not always the same, NAME_length."""
    for stores in (True, False):
        way = _Way(codec, packet, stores)
        lines, bases = _body(way)
        if not lines:
            continue
        kind = "uint8_t *" if stores else "const uint8_t *"
        pointers = [f"{kind}{name}" for name in (way.first, "rest") if name in bases]
        first = "const struct packet *packet" if stores else "struct packet *packet"
        name = f"{packet.name.lower()}_{'store' if stores else 'load'}"
        kind = "size_t" if lines[-1].startswith("return") else "void"
        yield f"static inline {kind} {name}({', '.join([first, *pointers])})"
        yield from ("{", *(f"\t{line}".rstrip() for line in lines), "}", "")
    optional = [one for one in packet.own if one.condition and one.follows]
    if optional:
        way = _Way(codec, packet, False)
        yield f"static inline size_t {packet.name.lower()}_length(const uint8_t *{way.first})"
        terms = [f"{one.size} * !!({way.condition(one)})" for one in optional]
        total = " + ".join([f"{packet.name}_LENGTH", *terms])
        yield from ("{", f"\t{way.locals()}", "", f"\treturn (size_t)({total});", "}", "")


def _body(way: _Way) -> tuple[list[str], set[str]]:
    fixed, variable, bases = [], [], set()
    own = way.packet.own
    for one, following in zip(own, [*own[1:], None]):
        constant = one.is_always
        if one.member == "-" or one.kind.endswith("40") or (not way.stores and (constant or one.member == "0")):
            continue
        if one.member == "0":
            if one.end > way.codec.cleared:
                fixed.append(f"memset({way.place(one)}, 0, {one.size});")
                bases.add(way.base(one))
        elif constant:
            at = way.packet.constant(one)
            fixed.append(f"{way.first}[{at}] = {at.removesuffix('_AT')}_IS;")
            bases.add(way.first)
        elif "@" in one.member and not way.stores:
            fixed += [way.gather(one.member[:-2])] if one.member.endswith("@0") else []
            bases.add(way.first)
        elif one.follows:
            lines = [*way.copy(one, following), f"at += {one.size};"]
            variable += [f"if ({way.condition(one)}) {{", *(f"\t{line}" for line in lines), "}"]
            bases |= {way.first, "rest"}
        else:
            fixed += way.copy(one, following)
            bases.add(way.base(one))
    if variable:
        if way.stores:
            variable.append("return (size_t)(at - rest);")
        else:
            variable.pop(-2)  # nobody asks where the last one ends
        start = "rest" if way.codec.moved else way.first
        at = f"{'' if way.stores else 'const '}uint8_t *at = {start} + {way.packet.name}_LENGTH;"
        return [*fixed, "", way.locals(), at, "", *variable], bases
    return fixed, bases


# ---- Lua ------------------------------------------------------------------------------------------


def dissector(text: str, codecs: list[Codec]) -> str:
    lines = [line for codec in codecs for line in _lua(codec)]
    return text.replace("-- @tables@\n", "\n".join(lines) + "\n")


def _lua(codec: Codec) -> Iterator[str]:
    yield f"local {codec.name.upper()} = {{ moved = {codec.moved or 'nil'},"
    yield "    fields = {"
    fields = codec.fields()
    for one in fields.values():
        yield f"        {_lua_field(one)},"
        for name, text in _lua_parts(one).items():
            if name not in fields:
                yield f"        {text},"
                fields = {**fields, name: one}
    yield "    },"
    for packet in codec.packets:
        for name in packet.names:
            yield f"    {name} = {{ length = {packet.end},"
            yield from (f"        {_lua_row(packet, one)}," for one in packet.fields if one.name)
            yield "    },"
    yield from ("}", "")


def _title(name: str) -> str:
    return name.replace(".", " ").replace("_", " ").capitalize()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lua_type(one: Field) -> tuple[str, str]:
    """Type and base of a field of Wireshark's."""
    if one.kind in ("mac", "text"):
        return "ETHER" if one.kind == "mac" else "STRING", "base.NONE"
    if not one.is_number:
        return "BYTES", "base.NONE"
    width = next(size for size in (1, 2, 4, 8) if size >= one.width)
    return f"UINT{8 * width}", "base.HEX" if one.kind[0] == "x" else "base.DEC"


def _lua_field(one: Field) -> str:
    kind, base = _lua_type(one)
    names = ", ".join(f"[{number}] = {_quoted(name)}" for number, name in one.names().items())
    values = f"{{ {names} }}" if names else "nil"
    names = f"{_quoted(one.name)}, {_quoted(_title(one.name))}"
    about = _quoted(one.meaning.replace("`", ""))
    return f"{{ {names}, ftypes.{kind}, {base}, {values}, nil, {about} }}"


def _lua_parts(one: Field) -> dict[str, str]:
    """Fields that are a part of this one, by name."""
    parts = {}
    for number, name in one.flags().items():
        whole = f"{one.name}.{name}"
        title = _quoted(name.capitalize())
        parts[whole] = f"{{ {_quoted(whole)}, {title}, ftypes.BOOLEAN, {8 * one.width}, nil, {number:#x} }}"
    for part in one.parts:
        kind = part.kind or f"u{8 * one.width}"
        base = "base.HEX" if kind[0] == "x" else "base.DEC"
        mask = f"{part.mask:#x}" if part.mask else "nil"
        title = _quoted(_title(part.name))
        parts[part.name] = f"{{ {_quoted(part.name)}, {title}, ftypes.UINT{kind[1:]}, {base}, nil, {mask} }}"
    for number in range(one.count if one.count > 1 else 0):
        name = f"{one.name}{number}"
        kind = f"ftypes.UINT{8 * one.width}, base.{'HEX' if one.kind[0] == 'x' else 'DEC'}"
        parts[name] = f"{{ {_quoted(name)}, {_quoted(_title(name))}, {kind} }}"
    return parts


def _lua_row(packet: Packet, one: Field) -> str:
    """Name, offset (nil: behind the rest), size, what it always is, parts, condition."""
    subs = [(f"{one.name}.{name}", 0, one.width) for name in one.flags().values()]
    subs += [(part.name, part.at, int(part.kind[1:]) // 8 if part.kind else one.width) for part in one.parts]
    subs += [(f"{one.name}{i}", one.width * i, one.width) for i in range(one.count if one.count > 1 else 0)]
    parts = ", ".join(f"{{ {_quoted(name)}, {at}, {size} }}" for name, at, size in subs)
    row = f"{_quoted(one.name)}, at = {'nil' if one.follows else one.at}, size = {one.size}"
    row += f", is = {one.always}" if one.is_always else ""
    row += f", parts = {{ {parts} }}" if parts else ""
    if one.condition:
        row += f", when = function(value) return {_lua_condition(one)} end"
    return f"{{ {row} }}"


def _lua_condition(one: Field) -> str:
    def term(name: str, operator: str, value: int) -> str:
        if operator == "&":
            return f"bit.band(value({_quoted(name)}), {value}) ~= 0"
        return f"value({_quoted(name)}) {'~=' if operator == '!=' else '=='} {value}"

    clauses = (" or ".join(term(one.name, one.operator, one.value) for one in terms) for terms in one.condition)
    return " and ".join(f"({clause})" for clause in clauses)


def main() -> int:
    what, *words = sys.argv[1:] or [""]
    try:
        if what == "header" and len(words) == 1:
            print("\n".join(header(load(Path(words[0])), Path(words[0]).name)))
            return 0
        if what == "dissector" and len(words) > 1:
            print(dissector(Path(words[0]).read_text(), [load(Path(word)) for word in words[1:]]), end="")
            return 0
    except Wrong as error:
        print(f"fields.py: {error}", file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
