# SPDX-License-Identifier: BSD-3-Clause
"""`thole trace`: Thole's own frames as they pass an interface, line by line or as a pcapng file.

The kernel's filter picks them: Ethernet frames of our types, and UDP datagrams that begin as native frames
do. What the kernel's offloads join (up to 64 KiB in one) is taken apart again, so that each frame counts as one.
Fields are named as in src/transport/datagram/wire/packet.h; tools/wireshark/thole.lua shows all of them.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import ipaddress
import select
import signal
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from thole import bounds, native, paths
from thole.trouble import Trouble

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
RECEIVE_BYTES = 64 << 20  # of the socket's buffer: bulk comes in bursts
FRAME_BYTES = 1 << 17  # more than the kernel joins
IDLE_S = 0.2  # how often a quiet capture looks at the clock

# linux/if_packet.h, linux/if_arp.h, asm/socket.h: what Python's socket module has no names for
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING, ETH_P_ALL = 263, 6, 4, 3
ARPHRD_ETHER, ARPHRD_LOOPBACK = 1, 772


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


# ---- pcapng ----------------------------------------------------------------------------------------


class Pcapng:
    """The few blocks of the format that a capture needs: section, interfaces, packets, statistics."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.interfaces: dict[str, int] = {}
        own = f"thole {native.version()}".encode()
        self._block(0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1), [(4, own)])

    def _block(self, kind: int, body: bytes, options: Iterable[tuple[int, bytes]] = ()) -> None:
        for code, value in options:
            body += struct.pack("=HH", code, len(value)) + value + bytes(-len(value) % 4)
        body += bytes(4) if options else b""
        length = len(body) + 12
        self.file.write(struct.pack("=II", kind, length) + body + struct.pack("=I", length))

    def _interface(self, name: str) -> int:
        if name not in self.interfaces:
            self.interfaces[name] = len(self.interfaces)
            # Ethernet, whole frames; the name, and times in nanoseconds
            self._block(1, struct.pack("=HHI", 1, 0, 0), [(2, name.encode()), (9, bytes([9]))])
        return self.interfaces[name]

    def packet(self, name: str, when_ns: int, data: bytes, outgoing: bool, keep: int) -> None:
        kept = data[:keep] if keep else data
        head = struct.pack(
            "=IIIII",
            self._interface(name),
            when_ns >> 32,
            when_ns & 0xFFFFFFFF,
            len(kept),
            len(data),
        )
        direction = struct.pack("=I", 2 if outgoing else 1)
        self._block(6, head + kept + bytes(-len(kept) % 4), [(2, direction)])

    def finish(self, dropped: int) -> None:
        """How many packets the kernel had no room for; the one number is of all interfaces."""
        now = time.time_ns()
        for index in list(self.interfaces.values())[:1]:
            head = struct.pack("=III", index, now >> 32, now & 0xFFFFFFFF)
            self._block(5, head, [(5, struct.pack("=Q", dropped))])
        self.file.flush()


# ---- Capturing -------------------------------------------------------------------------------------


def open_socket(interface: str | None, program: bytes) -> socket.socket:
    everything = socket.htons(ETH_P_ALL)
    try:
        # With an interface nothing arrives before it is bound; without, what comes before the filter is judged again.
        capture = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, 0 if interface is not None else everything
        )
    except PermissionError:
        raise Trouble(
            "a capture needs the capability CAP_NET_RAW", "run it with sudo: sudo thole trace"
        ) from None
    except OSError as error:
        raise Trouble(f"no packet socket: {error.strerror}", "see `thole info`") from None
    room = ctypes.create_string_buffer(program)
    capture.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_FILTER,
        struct.pack("HP", len(program) // 8, ctypes.addressof(room)),
    )
    try:
        capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
    except OSError:  # without CAP_NET_ADMIN: what net.core.rmem_max allows
        capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    capture.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    capture.settimeout(IDLE_S)
    if interface is not None:
        try:
            capture.bind((interface, ETH_P_ALL))
        except OSError as error:
            capture.close()
            raise Trouble(
                f"interface {interface} cannot be used: {error.strerror}",
                f"use one of {', '.join(name for _, name in socket.if_nameindex())}",
            ) from None
    return capture


@dataclass(frozen=True)
class Seen:
    """What one receive brought, and when and where."""

    data: bytes
    when_ns: int
    interface: str
    outgoing: bool


def receive(capture: socket.socket) -> Seen | None:
    """The next packet; None after a while without one, or for what is to be passed over."""
    try:
        data, about, _, where = capture.recvmsg(FRAME_BYTES, socket.CMSG_SPACE(16))
    except (socket.timeout, BlockingIOError, InterruptedError):
        return None
    except OSError as error:
        if error.errno == errno.ENETDOWN:  # one interface; others are there, and it may come again
            return None
        raise
    name, _, direction, hardware, _ = where
    if hardware not in (ARPHRD_ETHER, ARPHRD_LOOPBACK):
        return None
    if hardware == ARPHRD_LOOPBACK and direction == PACKET_OUTGOING:
        return None  # comes in again in a moment
    when = time.time_ns()
    for level, kind, value in about:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("=qq", value[:16])
            when = seconds * 10**9 + nanoseconds
    return Seen(data, when, name, direction == PACKET_OUTGOING)


def dropped_by_kernel(capture: socket.socket) -> int:
    _, dropped = struct.unpack("=II", capture.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return int(dropped)


def ethertypes() -> list[int]:
    """Of native frames, by the option and by default, and of mxoe."""
    chosen = [int(row.value, 0) for row in native.options() if row.name == "ethertype"]
    return list(dict.fromkeys([*chosen, ETHERTYPE_NATIVE, ETHERTYPE_MXOE]))


# ---- Command ---------------------------------------------------------------------------------------


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "trace",
        help="Thole's own frames as they pass",
        description="Capture Thole's frames, native and mxoe, over UDP and raw Ethernet, until interrupted: a line "
        "each, or a pcapng file that Wireshark and tshark read. Needs CAP_NET_RAW (sudo). What ranks of one host say "
        "to each other is not seen: it goes through shared memory.",
        epilog="example: sudo thole trace -i eth0 -w job.pcapng --seconds 10; "
        "at its end it says how tshark reads the file",
    )
    parser.add_argument("-i", "--interface", metavar="NAME", help="only this one (default: all)")
    parser.add_argument(
        "-w",
        "--write",
        metavar="FILE",
        help="write pcapng instead of lines; - is the standard output",
    )
    parser.add_argument(
        "--seconds",
        type=bounds.seconds("--seconds", 0, above=True),
        metavar="N",
        help="end after so many seconds",
    )
    parser.add_argument(
        "--count", type=bounds.whole("--count", 1), metavar="N", help="end after so many frames"
    )
    parser.add_argument(
        "--port",
        type=bounds.whole("--port", 1, bounds.PORT_MAX),
        action="append",
        default=[],
        metavar="N",
        help="of UDP, only what goes to or comes from this port; may be repeated",
    )
    parser.add_argument(
        "--keep",
        type=bounds.whole("--keep", 0),
        default=0,
        metavar="BYTES",
        help="write only the first bytes of each frame (default: all)",
    )
    parser.set_defaults(function=main)


def _check(arguments: argparse.Namespace) -> None:
    if len(arguments.port) > PORTS_MAX:
        raise Trouble("there are too many --port", f"repeat it at most {PORTS_MAX} times")


def _open_file(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdout.buffer
    try:
        return Path(name).open("wb")
    except OSError as error:
        raise Trouble(f"{name} cannot be written: {error.strerror}", "choose another") from None


class Ended:
    """Set by an interrupt, so that nothing is lost that was taken from the socket just then."""

    def __init__(self) -> None:
        self.by_signal = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.by_signal = True


def main(arguments: argparse.Namespace) -> int:
    _check(arguments)
    types = ethertypes()
    capture = open_socket(arguments.interface, filter_program(types, arguments.port))
    writer = Pcapng(_open_file(arguments.write)) if arguments.write else None
    ended = Ended()
    sink = Sink(writer, types, arguments.keep, arguments.count)
    where = arguments.interface or "all interfaces"
    print(f"thole: capturing on {where}; interrupt to end", file=sys.stderr, flush=True)
    try:
        dropped = _capture(capture, sink, arguments.seconds, ended)
    except OSError as error:
        if arguments.write in (None, "-"):
            raise
        raise Trouble(f"{arguments.write} cannot be written: {error.strerror}") from None
    count = sink.count
    kinds = ", ".join(f"{name} {number}" for name, number in count.most_common())
    print(f"thole: {sum(count.values())} frames" + (f": {kinds}" if kinds else ""), file=sys.stderr)
    if dropped:
        print(
            f"thole: {dropped} packets came faster than they could be taken and are missing; "
            "--port, or -w with --keep 128, keeps up longer",
            file=sys.stderr,
        )
    lua = paths.dissector()
    if writer and lua and arguments.write != "-":
        words = f"tshark -X lua_script:{lua} -r {arguments.write}"
        print(f"thole: to read it: {words}", file=sys.stderr)
    return 0


@dataclass
class Sink:
    """Where frames go, and how many have gone there."""

    writer: Pcapng | None
    types: list[int]
    keep: int
    limit: int | None
    count: Counter[str] = field(default_factory=Counter)
    lines: Lines = field(default_factory=Lines)
    first_ns: int = 0

    @property
    def full(self) -> bool:
        return self.limit is not None and sum(self.count.values()) >= self.limit

    def take(self, seen: Seen) -> None:
        for packet in packets(seen.data, self.types):
            if self.full:
                return
            name = packet.type if packet.codec == "native" else f"mxoe {packet.type}"
            self.count[name] += 1
            self.first_ns = self.first_ns or seen.when_ns
            if self.writer:
                self.writer.packet(
                    seen.interface, seen.when_ns, packet.data, seen.outgoing, self.keep
                )
            else:
                since = (seen.when_ns - self.first_ns) / 1e9
                way = "out" if seen.outgoing else "in"
                print(f"{since:.6f} {seen.interface} {way} {self.lines.line(packet)}")

    def flush(self) -> None:
        if self.writer:
            self.writer.file.flush()
        else:
            sys.stdout.flush()


def _capture(capture: socket.socket, sink: Sink, seconds: float | None, ended: Ended) -> int:
    """Until the end; returns how many packets the kernel had no room for."""
    try:
        _run(capture, sink, seconds, ended)
    finally:
        dropped = dropped_by_kernel(capture)
        capture.close()
        if sink.writer:
            sink.writer.finish(dropped)
    if sink.writer and sink.writer.file is not sys.stdout.buffer:
        sink.writer.file.close()
    return dropped


def _run(capture: socket.socket, sink: Sink, seconds: float | None, ended: Ended) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    while not (sink.full or ended.by_signal or (end is not None and time.monotonic() > end)):
        seen = receive(capture)
        if seen is None:
            sink.flush()
        else:
            sink.take(seen)
    # What had come by now belongs to the capture, though it was not looked at yet.
    now_ns = time.time_ns()
    capture.settimeout(0)
    while not sink.full and select.select([capture], [], [], 0)[0]:
        seen = receive(capture)
        if seen is not None and seen.when_ns > now_ns:
            return
        if seen is not None:
            sink.take(seen)
