# SPDX-License-Identifier: BSD-3-Clause
"""What Thole's own frames are: the filter that picks them, what is in them, a line of text for each.

The kernel's filter picks them: Ethernet frames of our types, and UDP datagrams that begin as native frames
do. What the kernel's offloads join (up to 64 KiB in one) is taken apart again, so that each frame counts as one.
What is where in a frame is in the codecs' descriptions (fields.py); Wireshark shows all of it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from thole.base import native
from thole.frames import fields

NATIVE = fields.load(fields.path("native"))
MXOE = fields.load(fields.path("mxoe"))
HEAD = NATIVE.packet("HEAD")
TAGGED = NATIVE.packet("TAGGED")
NATIVE_TYPES = {number: name.upper() for number, name in NATIVE.type.names().items()}
NATIVE_VERSION = HEAD.field("version").always
NATIVE_SHORT = 64  # shorter ones say how long they are without padding
FLAGS = HEAD.field("flags").flags()
NATIVE_FLAGS = sum(FLAGS)  # all that there are
MXOE_TYPES = {number: name.upper() for number, name in MXOE.type.names().items()}
TYPE_AT, VERSION_AT, SHORT_AT, FLAGS_AT, TO_AT, SESSION_AT = (
    HEAD.field(name).at for name in ("type", "version", "short", "flags", "to", "session")
)
SESSION_END = HEAD.field("session").end
MXOE_TYPE_AT = MXOE.packet("FRAME").end + MXOE.type.at

ETHERTYPE_NATIVE = 0x88B5  # unless the option ethertype says otherwise
ETHERTYPE_MXOE = 0x86DF
ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
ETHERNET_HEAD = 14
UDP_HEAD = 8


# ---- The kernel's filter: classic BPF --------------------------------------------------------------

LOAD_BYTE, LOAD_HALF, LOAD_BYTE_X, LOAD_HALF_X = 0x30, 0x28, 0x50, 0x48
X_IS, X_IS_IPV4_HEAD = 0x01, 0xB1
JUMP_EQUAL, JUMP_GREATER, JUMP_SET, RETURN = 0x15, 0x25, 0x45, 0x06


@dataclass
class Program:
    """Instructions with named places to jump to; a jump without a name goes on behind it."""

    code: list[tuple[int, int, str, str]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def add(self, code: int, value: int, true: str = "", false: str = "") -> None:
        self.code.append((code, value, true, false))

    def place(self, name: str) -> None:
        self.places[name] = len(self.code)

    def assemble(self) -> bytes:
        def skip(index: int, name: str) -> int:
            return self.places[name] - index - 1 if name else 0

        return b"".join(
            struct.pack("=HBBI", code, skip(index, true), skip(index, false), value)
            for index, (code, value, true, false) in enumerate(self.code)
        )


def filter_program(ethertypes: Iterable[int], ports: Iterable[int]) -> bytes:
    """Accepts whole frames of these types, and UDP (to or from these ports, if any) that begins as native does."""
    program = Program()
    program.add(LOAD_HALF, 12)
    for ethertype in ethertypes:
        program.add(JUMP_EQUAL, ethertype, "accept")
    program.add(JUMP_EQUAL, ETHERTYPE_IPV4, "ipv4")
    program.add(JUMP_EQUAL, ETHERTYPE_IPV6, "", "reject")
    program.add(LOAD_BYTE, ETHERNET_HEAD + 6)
    program.add(JUMP_EQUAL, socket.IPPROTO_UDP, "", "reject")
    program.add(X_IS, 40)
    program.add(JUMP_EQUAL, socket.IPPROTO_UDP, "udp")
    program.place("ipv4")
    program.add(LOAD_BYTE, ETHERNET_HEAD + 9)
    program.add(JUMP_EQUAL, socket.IPPROTO_UDP, "", "reject")
    program.add(LOAD_HALF, ETHERNET_HEAD + 6)
    program.add(JUMP_SET, 0x1FFF, "reject")  # not the first fragment of a packet
    program.add(X_IS_IPV4_HEAD, ETHERNET_HEAD)
    program.place("udp")
    ports = list(ports)
    for place in (0, 2) if ports else ():
        program.add(LOAD_HALF_X, ETHERNET_HEAD + place)
        for port in ports:
            program.add(JUMP_EQUAL, port, "native")
    if ports:
        program.add(RETURN, 0)
    program.place("native")
    payload = ETHERNET_HEAD + UDP_HEAD
    program.add(LOAD_BYTE_X, payload + VERSION_AT)
    program.add(JUMP_EQUAL, NATIVE_VERSION, "", "reject")
    program.add(LOAD_BYTE_X, payload + SHORT_AT)
    program.add(JUMP_GREATER, NATIVE_SHORT - 1, "reject")
    program.add(LOAD_BYTE_X, payload + FLAGS_AT)
    program.add(JUMP_GREATER, NATIVE_FLAGS, "reject")
    program.add(LOAD_BYTE_X, payload + TYPE_AT)
    program.add(JUMP_EQUAL, 0, "reject")
    program.add(JUMP_GREATER, max(NATIVE_TYPES), "reject")
    program.place("accept")
    program.add(RETURN, 0xFFFFFFFF)
    program.place("reject")
    program.add(RETURN, 0)
    return program.assemble()


# ---- What is in a frame ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Packet:
    """A frame of ours: the whole of it from the Ethernet header on, and where in it ours begins."""

    data: bytes
    start: int
    codec: str  # "native" or "mxoe"
    source: str
    target: str

    @property
    def body(self) -> bytes:
        """The frame behind the headers of others, without padding."""
        body = self.data[self.start :]
        return body[: body[SHORT_AT]] if self.codec == "native" and body[SHORT_AT] else body

    @property
    def type(self) -> str:
        if self.codec == "mxoe":
            number = self.data[self.start + MXOE_TYPE_AT]
            return MXOE_TYPES.get(number, f"type {number}")
        return NATIVE_TYPES[self.data[self.start + TYPE_AT]]


def _is_native(body: bytes) -> bool:
    return (
        len(body) >= HEAD.end
        and body[TYPE_AT] in NATIVE_TYPES
        and body[VERSION_AT] == NATIVE_VERSION
        and (body[SHORT_AT] == 0 or HEAD.end <= body[SHORT_AT] < NATIVE_SHORT)
        and body[SHORT_AT] <= len(body)
        and body[FLAGS_AT] <= NATIVE_FLAGS
    )


def _mac(data: bytes) -> str:
    return data.hex(":")


def packets(data: bytes, ethertypes: Iterable[int]) -> Iterator[Packet]:
    """The frames of ours in what the kernel handed over; none if it is something else."""
    if len(data) < ETHERNET_HEAD:
        return
    kind = int.from_bytes(data[12:14], "big")
    if kind in ethertypes:
        ours = kind != ETHERTYPE_MXOE
        body = data[ETHERNET_HEAD:]
        if _is_native(body) if ours else len(body) >= 16:
            codec = "native" if ours else "mxoe"
            yield Packet(data, ETHERNET_HEAD, codec, _mac(data[6:12]), _mac(data[:6]))
    elif kind in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        yield from _of_udp(data, kind == ETHERTYPE_IPV4)


def _of_udp(data: bytes, four: bool) -> Iterator[Packet]:
    udp = ETHERNET_HEAD + ((data[ETHERNET_HEAD] & 15) * 4 if four else 40)
    start = udp + UDP_HEAD
    if len(data) < start + HEAD.end or data[ETHERNET_HEAD + (9 if four else 6)] != 17:
        return
    body = data[start : udp + max(int.from_bytes(data[udp + 4 : udp + 6], "big"), UDP_HEAD)]
    if not _is_native(body):
        return
    place, size = (ETHERNET_HEAD + 12, 4) if four else (ETHERNET_HEAD + 8, 16)
    source, target = (
        f"{ipaddress.ip_address(data[at : at + size])}:{int.from_bytes(data[port : port + 2], 'big')}"
        for at, port in ((place, udp), (place + size, udp + 2))
    )
    segment = segment_of(body)
    if segment == len(body):
        yield Packet(data, start, "native", source, target)
        return
    for number, at in enumerate(range(0, len(body), segment)):
        part = body[at : at + segment]
        if not _is_native(part):
            return  # no peer of ours has sent it
        yield Packet(_apart(data[:start], part, udp, four, number), start, "native", source, target)


def segment_of(body: bytes) -> int:
    """Bytes of each frame but the last, where offload has joined several of one connection.

    They carry the same `to` and session, 64 bits of which are random: where these come again, the next begins.
    """
    same = body[TO_AT:SESSION_END]
    at = body.find(same, HEAD.end)
    while at >= 0:
        if _is_native(body[at - TO_AT :]) and body[at - TO_AT + TYPE_AT] == body[TYPE_AT]:
            return at - TO_AT
        at = body.find(same, at + 1)
    return len(body)


def _apart(head: bytes, part: bytes, udp: int, four: bool, number: int) -> bytes:
    """Headers for one of the joined frames. A checksum of UDP that would have to be computed is left out."""
    out = bytearray(head)
    out[udp + 4 : udp + 8] = (UDP_HEAD + len(part)).to_bytes(2, "big") + b"\0\0"
    if four:
        length = udp - ETHERNET_HEAD + UDP_HEAD + len(part)
        out[16:18] = length.to_bytes(2, "big")
        identity = int.from_bytes(head[18:20], "big") + number
        out[18:20] = (identity & 0xFFFF).to_bytes(2, "big")
        out[24:26] = b"\0\0"
        words = struct.unpack(f"!{(udp - ETHERNET_HEAD) // 2}H", out[ETHERNET_HEAD:udp])
        total = sum(words)
        total = (total & 0xFFFF) + (total >> 16)
        out[24:26] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    else:
        out[18:20] = (UDP_HEAD + len(part)).to_bytes(2, "big")
    return bytes(out) + part


def _untagged(body: bytes, flags: set[str]) -> tuple[int, bytes]:
    """The counter of a frame, 0 where there is none, and the frame as it is without counter and tag."""
    guard = 24 if "sealed" in flags else 16 if "tagged" in flags else 0
    if not guard:
        return 0, body
    front = TAGGED.field("counter").at
    return int.from_bytes(body[front : TAGGED.field("tag").at], "big"), body[:front] + body[front + guard :]


KIND = NATIVE.packet("RECORD").field("record.kind")
PIECE = next(number for number, name in KIND.names().items() if name == "piece")
LAYOUTS = {number: NATIVE.packet(name) for number, name in NATIVE_TYPES.items() if name != "RECORD"}
RECORD_FIRST, RECORD_PIECE = NATIVE.packet("RECORD_FIRST"), NATIVE.packet("RECORD_PIECE")


def layout(body: bytes) -> fields.Packet:
    """Which packet of the description a native frame is."""
    its = LAYOUTS.get(body[TYPE_AT], RECORD_FIRST)
    return RECORD_PIECE if its is RECORD_FIRST and body[KIND.at : KIND.end] == bytes([PIECE]) else its


# Each packet's fields as they are shown, and which are not: who adds one says so here.
SHOWN = {
    "RECORD_FIRST": "seq {sequence} ack {ack} credit {credit} {record.kind} tag 0x{record.tag:x} {payload} B",
    "RECORD_PIECE": "seq {sequence} ack {ack} credit {credit} {record.kind} {payload} B",
    "ACK": "next {sequence} ack {ack} credit {credit}[ held 0x{ack.held:x}]",
    "PULL": "ack {ack} credit {credit} transfer {transfer} window 0x{pull.window:x} offset {pull.offset} "
    "length {pull.length} frames of {pull.frame} B[ wanted 0x{pull.wanted:x}]",
    "DATA": "transfer {transfer} offset {data.offset} {payload} B",
    "NACK": "{nack.reason}, transfer {transfer}",
    "CLOSE": "ack {ack}",
    "CONNECT": "index {connect.index} session {connect.session:016x} next {connect.next} size {connect.size} "
    "seen {connect.seen} bulk port {connect.bulk_port} attempt {connect.attempt}[ refused {connect.status}]"
    "[ raw {connect.mac} 0x{connect.ethertype:04x}]",
}
HIDDEN = {
    "RECORD_FIRST": "record.flags record.imm record.arg",
    "RECORD_PIECE": "record.flags",
    "NACK": "nack.refused nack.proof",
    "CLOSE": "sequence credit",
    "CONNECT": "connect.target connect.proof connect.host connect.endpoint connect.network connect.integrity "
    "connect.checksum connect.later",
}
PLACE = re.compile(r"\{([\w.]+)(:\w+)?\}")


def _describer(packet: fields.Packet) -> Callable[[dict[str, Any]], str]:
    """What makes a packet's fields the text that SHOWN has of them."""
    parts: list[tuple[str, list[tuple[str, Callable[[Any], str]]]]] = []  # a format, and what it is of
    for text in re.split(r"(\[.*?\])", SHOWN[packet.name]):
        ways = [(place[1], _way(packet.field(place[1]), place[2])) for place in PLACE.finditer(text)]
        parts.append((PLACE.sub("%s", text), ways))

    def describe(found: dict[str, Any]) -> str:
        """What is in brackets is there where its last number is not 0."""
        text = ""
        for form, ways in parts:
            if form[:1] != "[":
                text += form % tuple(way(found[name]) for name, way in ways)
            elif found[ways[-1][0]]:
                text += form[1:-1] % tuple(way(found[name]) for name, way in ways)
        return text

    return describe


def _way(one: fields.Field, form: str | None) -> Callable[[Any], str]:
    """A field's value as text."""
    if one.kind == "mac":
        return _mac
    if one.kind == "rest":
        return lambda payload: str(len(payload))
    names = {} if one.name == "connect.status" else one.names()
    if one.name == "record.kind":
        names = {number: name.upper() for number, name in names.items()}
    if names:
        return lambda number: names.get(number, f"{one.name.split('.')[1]} {number}")
    return ("{" + (form or "") + "}").format


DESCRIBERS = {name: _describer(NATIVE.packet(name)) for name in SHOWN}


class Lines:
    """Packets as lines of text; knows the highest sequence number of each connection to see what is sent again."""

    def __init__(self) -> None:
        self.highest: dict[tuple[str, bytes], int] = {}

    def line(self, packet: Packet) -> str:
        body = packet.body
        if packet.codec == "mxoe":
            return f"{packet.source} > {packet.target} mxoe {packet.type} {len(body)} B"
        flags = {name for bit, name in FLAGS.items() if body[FLAGS_AT] & bit}
        counter, body = _untagged(body, flags)
        its = layout(body)
        found = its.read(body)
        words = [f"{packet.source} > {packet.target}", packet.type]
        words.append("to -" if found["to"] == 0xFFFFFFFF else f"to {found['to']}")
        session = found.get("nack.refused", found.get("session"))
        words.append(f"session {session:016x}")
        words += [f"counter {counter}"] if counter else []
        whole = all(one.name in found for one in its.steps if not one.condition)
        words.append(DESCRIBERS[its.name](found) if whole else "too short")
        words += [name for name in FLAGS.values() if name in flags]
        if packet.type == "RECORD" and whole and self._again(packet, body, found["sequence"]):
            words.append("AGAIN")
        return " ".join(words)

    def _again(self, packet: Packet, body: bytes, sequence: int) -> bool:
        way = (packet.target, bytes(body[TO_AT:SESSION_END]))
        highest = self.highest.get(way)
        if highest is None or (sequence - highest) & 0xFFFFFFFF < 1 << 31 and sequence != highest:
            self.highest[way] = sequence
            return False
        return True


def ethertypes() -> list[int]:
    """Of native frames, by the option and by default, and of mxoe."""
    chosen = [int(row.value, 0) for row in native.options() if row.name == "ethertype"]
    return list(dict.fromkeys([*chosen, ETHERTYPE_NATIVE, ETHERTYPE_MXOE]))
