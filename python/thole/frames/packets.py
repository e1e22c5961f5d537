# SPDX-License-Identifier: BSD-3-Clause
"""What Thole's own frames are: the filter that picks them, what is in them, a line of text for each.

The kernel's filter picks them: Ethernet frames of our types, and UDP datagrams that begin as native frames
do. What the kernel's offloads join (up to 64 KiB in one) is taken apart again, so that each frame counts as one.
Fields are named as in src/transport/datagram/wire/packet.h; tools/wireshark/thole.lua shows all of them.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from thole.base import native

NATIVE_TYPES = ("", "CONNECT", "ACCEPT", "RECORD", "ACK", "PULL", "DATA", "NACK", "CLOSE")
NATIVE_VERSION = 2
NATIVE_HEAD = 20  # bytes that every native frame begins with
NATIVE_SHORT = 64  # shorter ones say how long they are without padding
NATIVE_FLAGS = 31  # all that there are
NATIVE_FRONT = 32  # bytes in front of counter and tag, where there are any
RECORD_KINDS = {
    1: "EAGER", 2: "PIECE", 3: "ANNOUNCE", 4: "FINISH", 5: "PUT", 6: "GET", 7: "ATOMIC", 8: "REPLY",
}  # fmt: skip
RECORD_ARGS = 0x80  # of a record's flags: four arguments follow
FLAGS = ((1, "checksum"), (2, "hold"), (4, "answer"), (8, "tagged"), (16, "sealed"))
NACK_REASONS = ("", "bad endpoint", "closed", "bad session", "bad window")

MXOE_TYPES = {
    1: "HELLO", 3: "QUERY", 4: "REPLY", 35: "TRUC", 36: "CONNECT", 37: "TINY", 38: "SMALL", 39: "MEDIUM",
    40: "RENDEZVOUS", 41: "PULL", 42: "PULL REPLY", 43: "NOTIFY", 44: "NACK LIBRARY", 45: "NACK DRIVER",
}  # fmt: skip

ETHERTYPE_NATIVE = 0x88B5  # unless the option ethertype says otherwise
ETHERTYPE_MXOE = 0x86DF
ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
ETHERNET_HEAD = 14
UDP_HEAD = 8
PORTS_MAX = 16  # that a filter is made for


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
    program.add(LOAD_BYTE_X, payload + 1)
    program.add(JUMP_EQUAL, NATIVE_VERSION, "", "reject")
    program.add(LOAD_BYTE_X, payload + 2)
    program.add(JUMP_GREATER, NATIVE_SHORT - 1, "reject")
    program.add(LOAD_BYTE_X, payload + 3)
    program.add(JUMP_GREATER, NATIVE_FLAGS, "reject")
    program.add(LOAD_BYTE_X, payload)
    program.add(JUMP_EQUAL, 0, "reject")
    program.add(JUMP_GREATER, len(NATIVE_TYPES) - 1, "reject")
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
        return body[: body[2]] if self.codec == "native" and body[2] else body

    @property
    def type(self) -> str:
        if self.codec == "mxoe":
            number = self.data[self.start + 2]
            return MXOE_TYPES.get(number, f"type {number}")
        return NATIVE_TYPES[self.data[self.start]]


def _is_native(body: bytes) -> bool:
    return (
        len(body) >= NATIVE_HEAD
        and 0 < body[0] < len(NATIVE_TYPES)
        and body[1] == NATIVE_VERSION
        and (body[2] == 0 or NATIVE_HEAD <= body[2] < NATIVE_SHORT)
        and body[2] <= len(body)
        and body[3] <= NATIVE_FLAGS
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
    if len(data) < start + NATIVE_HEAD or data[ETHERNET_HEAD + (9 if four else 6)] != 17:
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
        yield Packet(_apart(data[:start], part, udp, four, number), start, "native", source, target)


def segment_of(body: bytes) -> int:
    """Bytes of each frame but the last, where offload has joined several of one connection.

    They carry the same `to` and session, 64 bits of which are random: where these come again, the next begins.
    """
    same = body[4:16]
    at = body.find(same, NATIVE_HEAD)
    while at >= 0:
        if _is_native(body[at - 4 :]) and body[at - 4] == body[0]:
            return at - 4
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


def _number(body: bytes, at: int, size: int) -> int:
    return int.from_bytes(body[at : at + size], "big")


def _untagged(body: bytes) -> tuple[int, bytes]:
    """The counter of a frame, 0 where there is none, and the frame as it is without counter and tag."""
    guard = 24 if body[3] & 16 else 16 if body[3] & 8 else 0
    if not guard:
        return 0, body
    return _number(body, NATIVE_FRONT, 8), body[:NATIVE_FRONT] + body[NATIVE_FRONT + guard :]


def _native_record(body: bytes) -> str:
    sequence, ack, credit = struct.unpack_from("!IIH", body, 20)
    kind, flags = body[30], body[31]
    text = f"seq {sequence} ack {ack} credit {credit} {RECORD_KINDS.get(kind, f'kind {kind}')}"
    at = 32
    if kind != 2:
        text += f" tag 0x{_number(body, at, 8):x}"
        at += 8 if kind == 1 and not flags & 1 else 16
        at += 32 if flags & RECORD_ARGS else 0
    return f"{text} {max(len(body) - at, 0)} B"


def _native_ack(body: bytes) -> str:
    sequence, ack, credit, _, held = struct.unpack_from("!IIHHQ", body, 20)
    return f"next {sequence} ack {ack} credit {credit}" + (f" held 0x{held:x}" if held else "")


def _native_pull(body: bytes) -> str:
    ack, credit, frame, window = struct.unpack_from("!IHHQ", body, 24)
    transfer, offset = _number(body, 40, 7), _number(body, 47, 5)
    length, wanted = struct.unpack_from("!IQ", body, 52)
    text = f"ack {ack} credit {credit} transfer {transfer} window 0x{window:x} offset {offset} length {length}"
    return f"{text} frames of {frame} B" + (f" wanted 0x{wanted:x}" if wanted else "")


def _native_data(body: bytes) -> str:
    transfer, offset = _number(body, 20, 7), _number(body, 27, 5)
    return f"transfer {transfer} offset {offset} {len(body) - 32} B"


def _native_nack(body: bytes) -> str:
    reason, transfer = body[20], _number(body, 24, 8)
    name = NACK_REASONS[reason] if 0 < reason < len(NACK_REASONS) else f"reason {reason}"
    return f"{name}, transfer {transfer}"


def _native_close(body: bytes) -> str:
    return f"ack {_number(body, 24, 4)}"


def _native_connect(body: bytes) -> str:
    index, session = struct.unpack_from("!IQ", body, 20)
    sequence, seen, size, port, attempt, status = struct.unpack_from("!IHHHBB", body, 84)
    text = f"index {index} session {session:016x} next {sequence} size {size} seen {seen} bulk port {port}"
    mac, ethertype = body[96:102], _number(body, 102, 2)
    raw = f" raw {_mac(mac)} 0x{ethertype:04x}" if ethertype else ""
    return f"{text} attempt {attempt}" + (f" refused {status}" if status else "") + raw


BODIES = {
    "CONNECT": (112, _native_connect),
    "ACCEPT": (112, _native_connect),
    "RECORD": (32, _native_record),
    "ACK": (40, _native_ack),
    "PULL": (64, _native_pull),
    "DATA": (32, _native_data),
    "NACK": (40, _native_nack),
    "CLOSE": (32, _native_close),
}


class Lines:
    """Packets as lines of text; knows the highest sequence number of each connection to see what is sent again."""

    def __init__(self) -> None:
        self.highest: dict[tuple[str, bytes], int] = {}

    def line(self, packet: Packet) -> str:
        body = packet.body
        if packet.codec == "mxoe":
            return f"{packet.source} > {packet.target} mxoe {packet.type} {len(body)} B"
        to, session = struct.unpack_from("!IQ", body, 4)
        words = [f"{packet.source} > {packet.target}", packet.type]
        words.append("to -" if to == 0xFFFFFFFF else f"to {to}")
        words.append(f"session {session:016x}")
        length, describe = BODIES[packet.type]
        counter, body = _untagged(body)
        words += [f"counter {counter}"] if counter else []
        words.append(describe(body) if len(body) >= length else "too short")
        words += [name for bit, name in FLAGS if body[3] & bit]
        if packet.type == "RECORD" and len(body) >= 24 and self._again(packet, body):
            words.append("AGAIN")
        return " ".join(words)

    def _again(self, packet: Packet, body: bytes) -> bool:
        way = (packet.target, bytes(body[4:16]))
        sequence = _number(body, 20, 4)
        highest = self.highest.get(way)
        if highest is None or (sequence - highest) & 0xFFFFFFFF < 1 << 31 and sequence != highest:
            self.highest[way] = sequence
            return False
        return True


def ethertypes() -> list[int]:
    """Of native frames, by the option and by default, and of mxoe."""
    chosen = [int(row.value, 0) for row in native.options() if row.name == "ethertype"]
    return list(dict.fromkeys([*chosen, ETHERTYPE_NATIVE, ETHERTYPE_MXOE]))
