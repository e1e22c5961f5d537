# SPDX-License-Identifier: BSD-3-Clause
"""Writing pcapng, the few blocks of it that a capture needs. What is in a packet is others' to know.

Blocks are written whole, several at once. A file that has no room for more of them ends with a whole one.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import struct
import time
from collections.abc import Iterable

from thole.base import native

ROOM = 1 << 16  # bytes of blocks that wait to be written together


class Pcapng:
    """The few blocks of the format that a capture needs: section, interfaces, packets, statistics."""

    def __init__(self, file: io.RawIOBase) -> None:
        self.file = file
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0
        self.interfaces: dict[str, int] = {}
        own = f"thole {native.version()}".encode()
        self._block(0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1), [(4, own)])

    def _block(self, kind: int, body: bytes, options: Iterable[tuple[int, bytes]] = ()) -> None:
        for code, value in options:
            body += struct.pack("=HH", code, len(value)) + value + bytes(-len(value) % 4)
        body += bytes(4) if options else b""
        length = len(body) + 12
        self.waiting.append(struct.pack("=II", kind, length) + body + struct.pack("=I", length))
        self.waiting_bytes += length
        if self.waiting_bytes >= ROOM:
            self.flush()

    def flush(self) -> None:
        """Write what waits. What cannot be written is lost."""
        blocks, self.waiting, self.waiting_bytes = self.waiting, [], 0
        data, done = b"".join(blocks), 0
        try:
            while done < len(data):
                written = self.file.write(data[done:])
                if written is None:  # somebody has made it a pipe that does not wait
                    select.select([], [self.file], [])
                done += written or 0
        except OSError:
            self._cut(blocks, done)
            raise

    def _cut(self, blocks: list[bytes], done: int) -> None:
        """Take the begun block away again, so many bytes of these being written; from a pipe nothing can be taken."""
        while blocks and done >= len(blocks[0]):
            done -= len(blocks.pop(0))
        with contextlib.suppress(OSError):
            self.file.truncate(self.file.seek(-done, os.SEEK_CUR))

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
        self.flush()
