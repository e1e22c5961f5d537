# SPDX-License-Identifier: BSD-3-Clause
"""Open-MX: MX's messages over any Ethernet, against TCP; measured between two network namespaces."""

from __future__ import annotations

from claims import Claim, Curve, Picture, Section
from counted import TCP, Way
from measure import Bed, Measured

SIZES = "8,4k,64k,256k,1m,4m"
MB = 1e6
MXOE, NATIVE, BOTH = ("codec=mxoe",), ("link=raw",), ()


def _pingpong(label: str, measured: Measured) -> Curve:
    return Curve(label, tuple((size, size / seconds / MB) for size, seconds in measured.latency))


def _best(measured: Measured) -> float:
    return max(size / seconds for size, seconds in measured.latency)


def _counted(bed: Bed, made: Section) -> None:
    """The same by instructions, which guests count."""
    mxoe, own, today, small, long = Way("thole", MXOE), Way("thole", NATIVE), Way("thole"), 8, 1 << 20
    found = bed.count(made, (mxoe, own, today, TCP), (small, long), 9000)
    if not found:
        return
    made.claims.append(
        Claim("figure 5", "between guests, 8 bytes, MXoE frames over TCP's instructions", "", 11.8 / 12.1,
              here=found[mxoe, small] / found[TCP, small],
              why="both sleep while they wait, so each frame is an interrupt, as theirs, and a program that wakes")
    )  # fmt: skip
    made.claims += [
        Claim("figure 5", f"between guests, 1 MiB, TCP's instructions over {name}'s", "", 700 / 500,
              here=found[TCP, long] / found[way, long], why=why)
        for way, name, why in (
            (mxoe, "MXoE", "a frame of it has 4 KiB, TCP's have 9000 bytes; the program takes part in each"),
            (own, "own frames", "the program takes part in each frame, and each has a keyed tag"),
            (today, "today", ""),
        )
    ]  # fmt: skip


def section(bed: Bed) -> Section:
    mxoe, own, today, tcp = bed.between(SIZES, 9000, MXOE, NATIVE, BOTH, None)
    narrow, narrow_tcp = bed.between(SIZES, 1500, BOTH, None)
    made = Section(
        "open-mx-design",
        "Design and implementation of Open-MX",
        "Ping-pong by `thole perf` between two network namespaces joined by a veth, as between two of their hosts: "
        "MXoE's frames and our own by raw sockets, today's choice (raw frames for records, UDP for bulk), and TCP, "
        "by turns. And by the instructions of both ends, between two guests whose clocks go by them.",
    )
    made.claims = [
        Claim("figure 5", "8 bytes, MXoE frames over TCP's time", "", 11.8 / 12.1, here=mxoe.at(8) / tcp.at(8),
              why="their driver was interrupted for each frame; here the receiver polls a mapped ring"),
        Claim("figure 5", "8 bytes, today's over TCP's time", "", 11.8 / 12.1, here=today.at(8) / tcp.at(8)),
        Claim("figure 5", "most bytes a second over TCP's, own frames", "", 700 / 500, here=_best(own) / _best(tcp),
              why="a system call for each frame, where TCP hands 64 KiB to the kernel at a time; theirs sent from the "
                  "kernel to a card that cut nothing for TCP"),
        Claim("figure 5", "most bytes a second over TCP's, today's", "", 700 / 500, here=_best(today) / _best(tcp),
              why="UDP with segmentation offload both ways, and one copy a side"),
        Claim("figure 4", "the same at MTU 1500", "", 1.2, here=_best(narrow) / _best(narrow_tcp),
              why="theirs by a gigabit wire, which both nearly filled; a veth has no wire to fill"),
        Claim("6", "MXoE frames over own frames, most bytes a second", "", 400 / 700, here=_best(mxoe) / _best(own),
              why="MXoE carries 4 KiB in a frame of 9000 bytes"),
    ]  # fmt: skip
    _counted(bed, made)
    jumbo = {"MXoE frames": mxoe, "own frames": own, "today": today, "TCP": tcp}
    curves = tuple(_pingpong(label, measured) for label, measured in jumbo.items())
    made.pictures = [
        Picture("openmx-9000", "MTU 9000", "MB/s", curves),
        Picture("openmx-1500", "MTU 1500", "MB/s", (_pingpong("today", narrow), _pingpong("TCP", narrow_tcp))),
    ]
    return made
