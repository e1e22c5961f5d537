# SPDX-License-Identifier: BSD-3-Clause
"""MX boards of other hosts.

They are in the file of hosts, and answer a question to all by multicast if some endpoint is open on them; or, where the
option codec says so, by frames of MXoE. The file's lines are those of mx/mx_known.h.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thole.base import native
from thole.base.trouble import Trouble
from thole.mx.boards import NAME_MAX, nic_parse, nic_text
from thole.mx.notices import arriving, here_parse, question_to_all

WAIT_S = 0.5  # for other hosts to answer
HELLO_S = 1.3  # longer than a host that speaks MXoE is silent
PAUSE_S = 0.1  # until the question to all is repeated; doubled each time


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


def find_peers(wait_s: float) -> Known:
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
    return [int(part) if part.isdecimal() else part.lower() for part in re.split(r"(\d+)", name)]


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
            for data, where in arriving(sockets, time.monotonic() + min(pause, left)):
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
