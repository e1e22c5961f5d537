# SPDX-License-Identifier: BSD-3-Clause
"""MPICH-PM/CLUMP: one copy inside a node, eager and get; measured on this machine."""

from __future__ import annotations

from claims import Claim, Curve, Picture, Section
from counted import Way
from measure import Bed, Measured, crossing

SIZES = "8,256,1k,4k,16k,64k,256k,1m"
EAGER = ("bulk=ring", "eager_max=1m")
GET = ("bulk=one-copy", "eager_max=0")
NET_EAGER = ("net_eager_max=1m",)
NET_RENDEZVOUS = ("net_eager_max=0",)
COUNTED = (65536, 1 << 20)  # bytes
MB = 1e6

# Table 4 of the paper: microseconds, MB/s, bytes.
THEIRS = {
    "eager": (8.62, 48.03, 300),
    "get": (9.98, 100.02, 2500),
    "net eager": (11.08, 54.92, 200),
    "net rendezvous": (12.75, 97.73, 21000),
}


def _rates(label: str, measured: Measured) -> Curve:
    return Curve(label, tuple((size, rate / MB) for size, rate in measured.rate))


def _counted(bed: Bed, made: Section) -> None:
    """The same by instructions, which guests count."""
    ways = (
        ("in a guest", "eager's instructions over get's", Way("thole", EAGER), Way("thole", GET), 0,
         "get", "eager", "the kernel looks up each of the sender's pages for the one copy, and two copies are few "
                         "instructions of 32 bytes: what get saves is time on a bus, which is not counted there"),
        ("between guests", "eager's instructions over rendezvous's", Way("thole", NET_EAGER),
         Way("thole", NET_RENDEZVOUS), 1500, "net rendezvous", "net eager",
         "frames of 1500 bytes through the kernel are nearly all of either; a request is one more"),
    )  # fmt: skip
    for where, what, first, second, mtu, one, other, why in ways:
        found = bed.count(made, (first, second), COUNTED, mtu)
        made.claims += [
            Claim("table 4", f"{where}, {size >> 10} KiB, {what}", "", THEIRS[one][1] / THEIRS[other][1],
                  here=found[first, size] / found[second, size], why=why)
            for size in COUNTED if found
        ]  # fmt: skip


def section(bed: Bed) -> Section:
    eager, get, today = bed.node(SIZES, EAGER, GET, ())
    net_eager, rendezvous = bed.between(SIZES, 1500, NET_EAGER, NET_RENDEZVOUS)
    made = Section(
        "mpich-pm-clump",
        "MPICH-PM/CLUMP: an MPI library for clusters of SMPs",
        "Eager is the ring (`bulk=ring`, two copies), get is process_vm_readv (`bulk=one-copy`), by `thole perf` on "
        "two cores, and between two network namespaces joined by a veth, by turns; instructions of both ends by "
        "guests whose clock goes by them, in one and between two.",
    )
    ratio, net_ratio = get.peak() / eager.peak(), rendezvous.peak() / net_eager.peak()
    theirs, net_theirs = THEIRS["get"][1] / THEIRS["eager"][1], THEIRS["net rendezvous"][1] / THEIRS["net eager"][1]
    made.claims = [
        Claim("table 4", "in a node, 8 bytes, eager", "us", THEIRS["eager"][0], here=eager.at(8) * 1e6,
              why="a store to a shared cache line; theirs took system calls and a memory bus of 1997"),
        Claim("table 4", "in a node, 8 bytes, get", "us", THEIRS["get"][0], here=get.at(8) * 1e6,
              why="a message that fits its record needs no fetch here, whatever the way of bulk"),
        Claim("table 4", "in a node, get over eager, most bytes a second", "", theirs, here=ratio,
              why="their two copies shared one bus; here both cores copy at once within shared caches, and a system "
                  "call a fetch is what one copy costs"),
        Claim("5.1", "get is best from (bytes)", "B", 4000, here=crossing(eager.rate, get.rate),
              why="see the row above; `-`: at no measured size"),
        Claim("table 4", "in a node, today's choice over eager, most bytes a second", "", theirs,
              here=today.peak() / eager.peak(), why="Thole learns among ring, one copy and both sides copying half"),
        Claim("table 4", "between hosts, 8 bytes, eager", "us", THEIRS["net eager"][0], here=net_eager.at(8) * 1e6,
              why="a veth, not a Myrinet with its own processor"),
        Claim("table 4", "between hosts, rendezvous over eager, most bytes a second", "", net_theirs, here=net_ratio,
              why="the receive scatter list lands frames of a fetch in their place, sparing a copy as theirs does"),
        Claim("5.1", "rendezvous is best from (bytes)", "B", 30000, here=crossing(net_eager.rate, rendezvous.rate),
              why="where the copy costs more than the request's trip"),
    ]  # fmt: skip
    _counted(bed, made)
    made.pictures = [
        Picture("clump-node", "In a node", "MB/s",
                (_rates("eager", eager), _rates("get", get), _rates("today", today)), logarithmic=True),
        Picture("clump-hosts", "Between hosts", "MB/s",
                (_rates("eager", net_eager), _rates("rendezvous", rendezvous)), logarithmic=True),
    ]  # fmt: skip
    return made
