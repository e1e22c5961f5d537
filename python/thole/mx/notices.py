# SPDX-License-Identifier: BSD-3-Clause
"""The datagrams of mx/mx_notice.h: their head, their fields, and waiting for them."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

HEAD = struct.Struct("!IBBH")
MAGIC, VERSION = 0x544D5844, 1
BYTES_MAX = 2560  # of a datagram
LATE_MAX = 1024  # datagrams of a socket that are taken when the time is over
FIND, HERE, STATUS, STATUS_ANSWER = 1, 2, 5, 6


def notice(kind: int, body: bytes) -> bytes:
    return HEAD.pack(MAGIC, VERSION, kind, HEAD.size + len(body)) + body


def question_to_all(attempt: int) -> bytes:
    """FIND, of nobody in particular, for nobody in particular."""
    return notice(FIND, struct.pack("!QBQBB", 0, 0, 0, 0, attempt))


class Fields:
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
    fields = Fields(data, HERE)
    nic_id, name = fields.number(8), fields.text()
    fields.end()
    if not 0 < nic_id < 1 << 48 or not name:
        raise ValueError("a board without a name or a NIC id")
    return nic_id, name


def arriving(sockets: list[socket.socket], end: float) -> Iterator[tuple[bytes, Any]]:
    """Datagrams and where they are from, until the time has come, and what is here then: who had no core meanwhile may
    have his answers."""
    late = 0
    while sockets and late < LATE_MAX:
        left = max(end - time.monotonic(), 0.0)
        late += left == 0
        ready = select.select(sockets, [], [], left)[0]
        if not ready and left == 0:
            return
        for one in ready:
            with contextlib.suppress(OSError):  # of a question that met nobody
                yield one.recvfrom(BYTES_MAX)
