# SPDX-License-Identifier: BSD-3-Clause
"""A packet socket with a filter in the kernel, and what it receives, with the time and the interface of each packet.

Which packets pass and what is in them is packets.py's to say. Needs CAP_NET_RAW.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import time
from dataclasses import dataclass

from thole.base import paths
from thole.base.trouble import Trouble

RECEIVE_BYTES = 64 << 20  # of the socket's buffer: bulk comes in bursts
FRAME_BYTES = 1 << 17  # more than the kernel joins
PORTS_MAX = 16  # that a filter is made for
IDLE_S = 0.2  # how often a quiet capture looks at the clock

# linux/if_packet.h, linux/if_arp.h, asm/socket.h: what Python's socket module has no names for
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING, ETH_P_ALL = 263, 6, 4, 3
ARPHRD_ETHER, ARPHRD_LOOPBACK = 1, 772


def open_socket(interface: str | None, program: bytes) -> socket.socket:
    everything = socket.htons(ETH_P_ALL)
    try:
        # With an interface nothing arrives before it is bound; without, what comes before the filter is judged again.
        capture = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, 0 if interface is not None else everything
        )
    except PermissionError:
        raise Trouble("a capture needs the capability CAP_NET_RAW", f"run it with {paths.by_root('trace')}") from None
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
        except (OSError, UnicodeError) as error:
            capture.close()
            reason = error.strerror if isinstance(error, OSError) else "its name is no UTF-8"
            raise Trouble(
                f"interface {interface} cannot be used: {reason}",
                f"use one of {', '.join(name for _, name in socket.if_nameindex())}",
            ) from None
    return capture


def _no_name() -> Trouble:
    return Trouble(
        "frames pass an interface whose name is no UTF-8, and Python takes no such name",
        "rename it (ip link set), or choose another with -i",
    )


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
        if error.errno == errno.ENETDOWN:  # an interface that may come up again
            return None
        raise
    except UnicodeDecodeError:  # Python has lost the packet with the name
        raise _no_name() from None
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


def is_gone(capture: socket.socket) -> bool:
    """Whether the interface that it is bound to is no more. Of a later one of that name nothing is heard either."""
    try:
        return not capture.getsockname()[0]
    except UnicodeDecodeError:  # it was renamed
        raise _no_name() from None


def dropped_by_kernel(capture: socket.socket) -> int:
    _, dropped = struct.unpack("=II", capture.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return int(dropped)
