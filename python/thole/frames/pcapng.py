# SPDX-License-Identifier: BSD-3-Clause
"""Writing pcapng, the few blocks of it that a capture needs. What is in a packet is others' to know."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from typing import BinaryIO

from thole.base import native


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
