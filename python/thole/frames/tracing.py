# SPDX-License-Identifier: BSD-3-Clause
"""A capture from its begin to its end: each packet taken from the socket, and its frames to where they go.

Which they are is packets.py's to say, and how a file of them looks pcapng.py's.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from thole.base.streams import unread
from thole.frames.capture import Seen, dropped_by_kernel, is_gone, receive
from thole.frames.packets import Lines, packets
from thole.frames.pcapng import Pcapng


class Ended:
    """Set by an interrupt, so that nothing is lost that was taken from the socket just then; or for want of what is
    captured on."""

    def __init__(self) -> None:
        self.by_signal = False
        self.interface_gone = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.by_signal = True


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
        """Whether it takes no more: it has as many as were asked for, or nobody reads them."""
        return unread() or (self.limit is not None and sum(self.count.values()) >= self.limit)

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
            self.writer.flush()
        else:
            sys.stdout.flush()


def until_end(capture: socket.socket, sink: Sink, seconds: float | None, ended: Ended, bound: bool) -> int:
    """Until the end; returns how many packets the kernel had no room for. bound: to one interface."""
    try:
        _run(capture, sink, seconds, ended, bound)
    finally:
        dropped = dropped_by_kernel(capture)
        capture.close()
        if sink.writer:
            sink.writer.finish(dropped)
    if sink.writer:
        sink.writer.file.close()  # where a file system of the network may say what it had no room for
    return dropped


def _run(capture: socket.socket, sink: Sink, seconds: float | None, ended: Ended, bound: bool) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    while not (sink.full or ended.by_signal or ended.interface_gone or (end is not None and time.monotonic() > end)):
        seen = receive(capture)
        if seen is None:
            sink.flush()
            ended.interface_gone = bound and is_gone(capture)
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
