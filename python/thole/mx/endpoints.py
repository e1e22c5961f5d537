# SPDX-License-Identifier: BSD-3-Clause
"""Endpoints of MX that are in use on this host: their Unix sockets say which they are, each is asked for its status."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from thole.base import native
from thole.base.trouble import Trouble
from thole.mx.notices import HEAD, STATUS, STATUS_ANSWER, Fields, arriving, notice

STATUS_S = 0.2  # for a process to answer; one that does not is stopped, or hangs


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
    counters: dict[str, int] | None = field(default_factory=dict)  # None: of another build, which has others

    @property
    def socket_name(self) -> str:
        return f"\0thole/mx/{self.nic_id:012x}/{self.number}"

    def take(self, data: bytes, token: int, names: list[str]) -> None:
        """ValueError: it is not this endpoint's answer."""
        fields = Fields(data, STATUS_ANSWER)
        head = (fields.number(8), fields.number(8), fields.number(4))
        if head != (token, self.nic_id, self.number):
            raise ValueError("the answer of another endpoint")
        session, pid, command = fields.number(4), fields.number(4), fields.text()
        address, dropped = fields.text(), fields.number(4)
        values = [fields.number(8) for _ in range(fields.number(2))]
        fields.end()
        self.session, self.pid, self.command = session, pid, command
        self.address, self.dropped = address, dropped
        self.counters = dict(zip(names, values)) if len(values) == len(names) else None
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
        for data, _ in arriving([own], time.monotonic() + STATUS_S):
            token = int.from_bytes(data[HEAD.size : HEAD.size + 8], "big")
            if token in waiting:
                with contextlib.suppress(ValueError):
                    waiting[token].take(data, token, names)
                    del waiting[token]
            if not waiting:
                break
    return found
