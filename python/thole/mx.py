# SPDX-License-Identifier: BSD-3-Clause
"""What there is of MX here and around: boards, endpoints in use, boards of other hosts.

Boards are what libmyriexpress.so says (ctypes). Endpoints in use have Unix sockets with names that say which they are;
each is asked for its status there. Other hosts' boards are in the file of hosts, and answer a question to all by
multicast if some endpoint is open on them; or, where the option codec says so, by frames of MXoE. Changes nothing, and
opens no endpoint. The datagrams are those of
mx/notice.h, the file's lines those of mx/names.h. Printing is left to others.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ipaddress
import os
import re
import secrets
import select
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thole import bounds, native, paths
from thole.trouble import Trouble

API = 0x301  # of the headers
WAIT_S = 0.5  # for other hosts to answer
HELLO_S = 1.3  # longer than a host that speaks MXoE is silent
STATUS_S = 0.2  # for a process of this host to answer; one that does not is stopped, or hangs
PAUSE_S = 0.1  # until the question to all is repeated; doubled each time
NAME_MAX = 80  # bytes of a board's name with its NUL: MX_MAX_HOSTNAME_LEN
TEXT_MAX = 128  # of what mx_get_info says: MX_MAX_STR_LEN
BYTES_MAX = 2560  # of a datagram

# ---- NIC ids ---------------------------------------------------------------------------------------


def nic_text(nic_id: int) -> str:
    """As a MAC: 02:83:00:00:00:01."""
    return ":".join(f"{byte:02x}" for byte in nic_id.to_bytes(6, "big"))


def nic_parse(text: str) -> int | None:
    """02:83:00:00:00:01, 0x028300000001 or 028300000001; None: it is none of them."""
    match = re.fullmatch(r"(0[xX])?((?:[0-9a-fA-F]{2}:?){5}[0-9a-fA-F]{2})", text)
    return int(match[2].replace(":", ""), 16) if match else None


# ---- Boards of this host ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Board:
    number: int
    interface: str
    nic_id: int
    name: str
    mtu: int  # 0: the interface has just gone
    address: str  # IP by which other hosts ask for its endpoints; "": they cannot
    up: bool

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "nic_id": nic_text(self.nic_id)}


class Library:
    """libmyriexpress.so, initialised while the `with` lasts."""

    NIC_COUNT, PRODUCT_CODE, PART_NUMBER = 1, 8, 9

    def __init__(self) -> None:
        self.path = paths.find(paths.MX)
        try:
            self._lib = ctypes.CDLL(str(self.path))
            self._lib.mx_strerror.restype = ctypes.c_char_p
            self._lib.mx_set_error_handler.restype = ctypes.c_void_p
            # Else a failing call would end the tool.
            returning = ctypes.c_void_p.in_dll(self._lib, "MX_ERRORS_RETURN")
            self._lib.mx_set_error_handler(returning)
            self._check(self._lib.mx__init_api(API), "mx_init")
        except (OSError, AttributeError, ValueError) as error:
            raise Trouble(
                f"{self.path} cannot be used: {error}", "rebuild or reinstall Thole"
            ) from None

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self._lib.mx_finalize()

    def _check(self, code: int, call: str) -> None:
        if code != 0:
            raise Trouble(f"{call}: {self._lib.mx_strerror(code).decode()}")

    def _info(self, key: int, answer: Any, board: int) -> None:
        number = ctypes.c_uint32(board)
        sizes = [ctypes.c_uint32(ctypes.sizeof(value)) for value in (number, answer)]
        code = self._lib.mx_get_info(
            None, key, ctypes.byref(number), sizes[0], ctypes.byref(answer), sizes[1]
        )
        self._check(code, f"mx_get_info({key})")

    def _text(self, key: int, board: int = 0) -> str:
        answer = ctypes.create_string_buffer(TEXT_MAX)
        self._info(key, answer, board)
        return answer.value.decode(errors="replace")

    @property
    def version(self) -> str:
        return self._text(self.PRODUCT_CODE)

    def boards(self) -> list[Board]:
        count = ctypes.c_uint32()
        self._info(self.NIC_COUNT, count, 0)
        return [self._board(number) for number in range(count.value)]

    def _board(self, number: int) -> Board:
        nic_id = ctypes.c_uint64()
        name = ctypes.create_string_buffer(NAME_MAX)
        code = self._lib.mx_board_number_to_nic_id(ctypes.c_uint32(number), ctypes.byref(nic_id))
        self._check(code, f"mx_board_number_to_nic_id({number})")
        self._check(self._lib.mx_nic_id_to_hostname(nic_id, name), "mx_nic_id_to_hostname")
        interface = self._text(self.PART_NUMBER, number)
        found = next((row for row in native.interfaces() if row.name == interface), None)
        address = found.address if found and found.mac else ""  # nobody else reaches a loopback's
        return Board(
            number=number,
            interface=interface,
            nic_id=nic_id.value,
            name=name.value.decode(errors="replace"),
            mtu=found.mtu if found else 0,
            address=address,
            up=bool(found and found.up),
        )


# ---- Datagrams -------------------------------------------------------------------------------------

HEAD = struct.Struct("!IBBH")
MAGIC, VERSION = 0x544D5844, 1
FIND, HERE, STATUS, STATUS_ANSWER = 1, 2, 5, 6


def notice(kind: int, body: bytes) -> bytes:
    return HEAD.pack(MAGIC, VERSION, kind, HEAD.size + len(body)) + body


def question_to_all(attempt: int) -> bytes:
    """FIND, of nobody in particular, for nobody in particular."""
    return notice(FIND, struct.pack("!QBQBB", 0, 0, 0, 0, attempt))


class _Fields:
    """Reads a datagram from its front. ValueError: it is not what it should be."""

    def __init__(self, data: bytes, kind: int) -> None:
        if len(data) < HEAD.size or HEAD.unpack_from(data) != (MAGIC, VERSION, kind, len(data)):
            raise ValueError("another kind of datagram")
        self._data = data[HEAD.size :]

    def take(self, count: int) -> bytes:
        if count > len(self._data):
            raise ValueError("the datagram is too short")
        front, self._data = self._data[:count], self._data[count:]
        return front

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        """What others have written, made fit for a terminal."""
        text = self.take(self.number(1)).decode(errors="replace")
        return "".join(c if c.isprintable() else "?" for c in text)

    def end(self) -> None:
        if self._data:
            raise ValueError("the datagram is too long")


def here_parse(data: bytes) -> tuple[int, str]:
    """Whose board it is: NIC id and name. ValueError: it is no HERE."""
    fields = _Fields(data, HERE)
    nic_id, name = fields.number(8), fields.text()
    fields.end()
    if not 0 < nic_id < 1 << 48 or not name:
        raise ValueError("a board without a name or a NIC id")
    return nic_id, name


# ---- Endpoints in use ------------------------------------------------------------------------------


@dataclass
class Endpoint:
    """An endpoint that some process of this host has open. Without an answer its place is all that is known."""

    nic_id: int
    number: int
    answered: bool = False
    session: int = 0
    pid: int = 0
    command: str = ""
    address: str = ""  # Thole's
    dropped: int = 0  # datagrams that its process could not understand
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def socket_name(self) -> str:
        return f"\0thole/mx/{self.nic_id:012x}/{self.number}"

    def take(self, data: bytes, token: int, names: list[str]) -> None:
        """ValueError: it is not this endpoint's answer."""
        fields = _Fields(data, STATUS_ANSWER)
        head = (fields.number(8), fields.number(8), fields.number(4))
        if head != (token, self.nic_id, self.number):
            raise ValueError("the answer of another endpoint")
        session, pid, command = fields.number(4), fields.number(4), fields.text()
        address, dropped = fields.text(), fields.number(4)
        values = [fields.number(8) for _ in range(fields.number(2))]
        fields.end()
        self.session, self.pid, self.command = session, pid, command
        self.address, self.dropped = address, dropped
        self.counters = dict(zip(names, values))
        self.answered = True


def endpoints() -> list[Endpoint]:
    """Those of this network namespace, by NIC id and number, each asked for its status."""
    pattern = re.compile(r" @thole/mx/([0-9a-f]{12})/(\d{1,3})$")
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError as error:
        raise Trouble(f"/proc/net/unix cannot be read: {error.strerror}") from None
    places = {(int(match[1], 16), int(match[2])) for match in map(pattern.search, lines) if match}
    found = [Endpoint(nic_id, number) for nic_id, number in sorted(places)]
    return _ask_status(found)


def _ask_status(found: list[Endpoint]) -> list[Endpoint]:
    """Those that are still there, with what they say of themselves."""
    names = [counter.name for counter in native.counters()]
    waiting: dict[int, Endpoint] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as own:
        own.bind(f"\0thole/mx-ask/{os.getpid()}/{secrets.token_hex(8)}")
        for endpoint in list(found):
            token = secrets.randbits(64)
            try:
                own.sendto(notice(STATUS, struct.pack("!Q", token)), endpoint.socket_name)
                waiting[token] = endpoint
            except ConnectionRefusedError:
                found.remove(endpoint)  # closed since we saw it
            except OSError:
                pass  # its process does not fetch what it is sent
        for data, _ in _arriving([own], time.monotonic() + STATUS_S):
            token = int.from_bytes(data[HEAD.size : HEAD.size + 8], "big")
            if token in waiting:
                with contextlib.suppress(ValueError):
                    waiting[token].take(data, token, names)
                    del waiting[token]
            if not waiting:
                break
    return found


def _arriving(sockets: list[socket.socket], end: float) -> Iterator[tuple[bytes, Any]]:
    """Datagrams and where they are from, until the time has come."""
    while sockets:
        left = end - time.monotonic()
        if left <= 0:
            return
        for ready in select.select(sockets, [], [], left)[0]:
            with contextlib.suppress(OSError):  # of a question that met nobody
                yield ready.recvfrom(BYTES_MAX)


# ---- Boards of other hosts -------------------------------------------------------------------------


@dataclass
class Peer:
    nic_id: int
    name: str
    address: str  # IP; "": frames of MXoE only
    known: list[str]  # from "file", "network" or both

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "nic_id": nic_text(self.nic_id)}


@dataclass(frozen=True)
class Settings:
    """The options that say how other hosts are found."""

    hosts: str
    port: int
    group: str  # "": nobody is asked over UDP
    mxoe: bool = False  # by frames of MXoE
    interface: str = ""  # the option; "": all

    @classmethod
    def load(cls) -> Settings:
        values = {option.name: option.value for option in native.options()}
        mxoe = values["codec"] != "native" and values["network"] != "off"
        if mxoe:  # their frames find peers by themselves
            return cls(values["mx_hosts"], int(values["mx_port"]), "", True, values["interface"])
        asks = values["codec"] == "native" and values["network"] != "off"
        group = values["mx_group"] if asks and values["mx_group"] != "off" else ""
        with contextlib.suppress(ValueError):
            if group and ipaddress.IPv4Address(group).is_multicast:
                return cls(values["mx_hosts"], int(values["mx_port"]), group)
        if group:
            raise Trouble(
                f"option mx_group: {group!r} is no IPv4 multicast address",
                "use one from 224.0.0.0 to 239.255.255.255, or off",
            )
        return cls(values["mx_hosts"], int(values["mx_port"]), "")


@dataclass
class Known:
    """Boards of other hosts, in the order of their names, and what was wrong with the file of hosts."""

    peers: list[Peer]
    troubles: list[str]


def known(wait_s: float) -> Known:
    """Read the file and ask the network, and listen as long as said."""
    settings = Settings.load()
    own = {nic_parse(row.mac) for row in native.interfaces() if row.mac}
    found, troubles = hosts_in(settings.hosts)
    heard = (
        _heard_by_frames(settings, wait_s, troubles)
        if settings.mxoe
        else _heard(settings, wait_s)
    )
    for nic_id, name, address in heard:
        peer = found.setdefault(nic_id, Peer(nic_id, name, address, []))
        if "network" not in peer.known:
            peer.known.append("network")
    peers = [peer for peer in found.values() if peer.nic_id not in own]
    return Known(sorted(peers, key=lambda peer: _name_key(peer.name)), troubles)


def _name_key(name: str) -> list[Any]:
    """Numbers in names by their value: host2 before host10."""
    return [int(part) if part.isdigit() else part.lower() for part in re.split(r"(\d+)", name)]


def hosts_in(path: str) -> tuple[dict[int, Peer], list[str]]:
    """The boards in a file of hosts, by NIC id, and its wrong lines. It need not exist."""
    found: dict[int, Peer] = {}
    troubles: list[str] = []
    if not path:
        return found, troubles
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return found, troubles
    except OSError as error:
        return found, [f"{path} cannot be read: {error.strerror}"]
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            peer = _peer_of(words)
            found.setdefault(peer.nic_id, peer)
        except ValueError as error:
            troubles.append(f"{path}, line {number}: {error}")
    return found, troubles


def _peer_of(words: list[str]) -> Peer:
    if len(words) != 3:
        raise ValueError("three words are wanted: MAC, IP address or -, name")
    nic_id, address, name = nic_parse(words[0]), words[1], words[2]
    if not nic_id:
        raise ValueError(f"{words[0]!r} is no MAC, as 02:83:00:00:00:01 is")
    address = "" if address == "-" else str(ipaddress.ip_address(address))
    match = re.fullmatch(r"([!-~]+?)(:\d+)?", name)
    if not match or match[1].endswith(":") or len(match[1] + (match[2] or ":0")) >= NAME_MAX:
        raise ValueError(f"{name!r} is no name of a board, as host1:0 is")
    return Peer(nic_id, match[1] + (match[2] or ":0"), address, ["file"])


def _heard(settings: Settings, wait_s: float) -> list[tuple[int, str, str]]:
    """NIC id, name and address of the boards that say they are there."""
    found = []
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in _askers(settings)]
        end = time.monotonic() + wait_s
        pause, attempt = PAUSE_S, 0
        while sockets and (left := end - time.monotonic()) > 0:
            for one in sockets:
                with contextlib.suppress(OSError):  # a network that is down
                    one.sendto(question_to_all(min(attempt, 255)), (settings.group, settings.port))
            for data, where in _arriving(sockets, time.monotonic() + min(pause, left)):
                with contextlib.suppress(ValueError):
                    found.append((*here_parse(data), where[0]))
            pause, attempt = 2 * pause, attempt + 1
    return found


def _heard_by_frames(
    settings: Settings, wait_s: float, troubles: list[str]
) -> list[tuple[int, str, str]]:
    """The same of hosts that speak MXoE, which say once a second that they are there. Their boards have no address."""
    found = []
    try:
        for host in mxoe_hosts("", max(wait_s, HELLO_S) if wait_s else 0, settings.interface):
            found.append((nic_parse(host.mac) or 0, host.name, ""))
    except Trouble as trouble:
        troubles.append(f"no host is asked by frames of MXoE: {trouble.what}")
    return found


def mxoe_interfaces(interface: str) -> list[str]:
    """Where frames of MXoE may go: the interface of this name or address, or all that are up. Never none."""
    rows = [row for row in native.interfaces() if row.mac and row.up]
    return [interface] if interface else [row.name for row in rows] or [""]


def mxoe_hosts(wanted: str, wait_s: float, interface: str = "") -> list[native.MxoeHost]:
    """Those who answer on one of the interfaces, all asked at once: all, or the one of this MAC or name."""
    places = mxoe_interfaces(interface)
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        answers = pool.map(lambda place: native.mxoe_hosts(place, wanted, wait_s), places)
        return list({host.mac: host for answer in answers for host in answer}.values())


def _askers(settings: Settings) -> Iterator[socket.socket]:
    """A socket on each interface from which the group can be asked."""
    indexes = {name: index for index, name in socket.if_nameindex()}
    for row in native.interfaces():
        if not settings.group or not row.mac or not row.up or row.name not in indexes:
            continue
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            way = struct.pack("@4s4si", bytes(4), bytes(4), indexes[row.name])
            one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, way)
            one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
            one.bind((row.address, 0))
        except OSError:
            one.close()  # it has no IPv4 address
            continue
        yield one


def add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        type=bounds.seconds("--wait", 0, bounds.WAIT_S_MAX),
        default=WAIT_S,
        metavar="SECONDS",
        help=f"how long other hosts may take to say which MX boards they have (default {WAIT_S:g}; with frames of MXoE "
        f"at least {HELLO_S:g}, unless it is 0)",
    )
