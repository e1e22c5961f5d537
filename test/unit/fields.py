# SPDX-License-Identifier: BSD-3-Clause
"""The descriptions of packets: fields.py NATIVE.fields MXOE.fields GENERATOR EVERY.pcap

Faults that are put into them are refused, by the generator too; every field of each packet is in a frame of EVERY.pcap,
which the codecs wrote (frames-every), and not 0; and `thole trace` shows each field or says that it does not, and takes
what only begins as a frame of ours does.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

native, mxoe, generator, every = map(Path, sys.argv[1:])
sys.path.insert(0, str(generator.parent.parent / "python"))
from thole.frames import fields, packets  # noqa: E402

FAULTS = (
    # file, what is there, what is put there instead
    (native, "  40  x56      transfer ", "  39  x56      transfer "),  # overlaps
    (native, "  40  x56      transfer ", "  40  x64      transfer "),  # too wide
    (native, "  88  u16      connect.seen ", "  88  u8       connect.seen "),  # too narrow, so a gap
    (native, "  88  u16      connect.seen ", "  88  u32      connect.seen "),
    (native, " 104  u8       connect.integrity ", " 104  u8       connect.status "),  # two of one name
    (native, " 106  bytes6   connect.later ", " 106  bytes7   connect.later "),  # behind the end
    (native, "packet ACK 40", "packet ACK 48"),  # longer than its fields
    (native, "32 aside", "33 aside"),  # a flag of two bits
    (native, "32 aside", "16 aside"),  # two flags on one
    (native, "32 aside", "256 aside"),  # too large
    (native, "7 nack, 8 close", "7 nack, 7 close"),
    (native, "if record.kind != eager", "if record.sort != eager"),
    (native, "if record.kind != eager", "if record.kind != lazy"),
    (native, "packet PULL 64 HEAD ACKED", "packet PULL 64 HEAD"),  # a part is missing
    (native, "packet PULL 64 HEAD ACKED", "packet PULL 64 HEAD BACKED"),
    (native, "   1  u8       version            =3 ", "   1  u8       version            =4 "),  # and means another
    (native, "packet CLOSE", "packet DATA"),
    (mxoe, "  24  u32      total ", "  24  u30      total "),  # no such type
    (mxoe, ". 4 x32 magic", ". 5 x32 magic"),  # not in what it is a part of
    (mxoe, "0x3fff", "0x13fff"),
)


FRONT = {"flags", "short", "checksum"}  # of frames that have none, are longer, and are not sealed
MAY_BE_0 = {"MEDIUM_JUMBO": {"fragment.log"}}


def frames(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    at = 24
    while at < len(data):
        kept = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + kept]
        at += 16 + kept


def check_faults() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for source, right, wrong in FAULTS:
            text = source.read_text()
            assert right in text, f"{source.name} has no longer: {right}"
            copy = Path(folder) / source.name
            copy.write_text(text.replace(right, wrong, 1))
            try:
                fields.load(copy)
            except fields.Wrong as error:
                assert copy.name in str(error), error
            else:
                raise AssertionError(f"{source.name} is taken with {wrong} for {right}")
        done = subprocess.run([sys.executable, generator, "header", copy], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and not done.stdout and copy.name in done.stderr, done


def layouts(frame: bytes) -> tuple[fields.Packet, bytes]:
    """The packet that a frame is, and its bytes from where its offsets begin."""
    if frame[12:14] == b"\x86\xdf":
        name = packets.MXOE_TYPES[frame[16]].replace(" ", "_")
        jumbo = {"MEDIUM": frame[16 + 27] == 0, "PULL": frame[16 + 28 : 16 + 31] == b"\x21\x07\x19"}.get(name)
        return packets.MXOE.packet(name + "_JUMBO" if jumbo else name), frame[16:]
    (packet,) = packets.packets(frame, [])
    body = packet.body
    flags = {name for bit, name in packets.FLAGS.items() if body[packets.FLAGS_AT] & bit}
    return packets.layout(body), packets._untagged(body, flags)[1]


def check_every() -> None:
    """Whoever adds a field fills it in thole_frames.c."""
    seen: dict[str, set[str]] = {}
    for frame in frames(every):
        packet, body = layouts(frame)
        found = packet.read(body)
        names = {name for name, value in found.items() if value and any(bytes_of(value))}
        seen.setdefault(packet.name, set()).update(names)
    for codec in (packets.NATIVE, packets.MXOE):
        for packet in codec.whole:
            wanted = {one.name for one in packet.fields if one.name and one.member != "0"}
            missing = wanted - seen.get(packet.name, set()) - MAY_BE_0.get(packet.name, FRONT)
            assert not missing, f"every.pcap has no {packet.name} of {codec.name} with {sorted(missing)}"


def bytes_of(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.to_bytes(8, "big")


def check_shown() -> None:
    common = {one.name for name in ("HEAD",) for one in packets.NATIVE.packet(name).fields}
    for packet in packets.NATIVE.whole:
        said = {place[1] for place in packets.PLACE.finditer(packets.SHOWN[packet.name])}
        said |= set(packets.HIDDEN.get(packet.name, "").split())
        wanted = {one.name for one in packet.fields if one.name} - common
        assert said - common == wanted, f"trace: {packet.name}: {sorted(said ^ wanted)}"


def shown(body: bytes) -> list[str]:
    """What `thole trace` says of the payload of a UDP packet."""
    ip = struct.pack("!BxHHxxBBxx4s4s", 0x45, 28 + len(body), 0, 64, 17, bytes(4), bytes(4))
    frame = bytes(12) + b"\x08\x00" + ip + struct.pack("!HHHxx", 1, 2, 8 + len(body)) + body
    lines = packets.Lines()
    return [f"{packet.type}: {lines.line(packet)}" for packet in packets.packets(frame, [])]


def check_strangers() -> None:
    """Any program's packet may begin so: a capture goes on."""
    front = bytes([packets.NATIVE_VERSION, 0, 0]) + bytes(range(1, 17))  # what is behind the type in each head
    for args in (0x80, 0x81):  # more words than there are
        (said,) = shown(b"\x03" + front + bytes(12) + bytes([0, args]) + bytes(8))
        assert said.endswith("too short"), said
    data = b"\x06" + front + bytes(13)
    assert len(shown(data + bytes(100) + data)) == 2
    for end in (b"\x00" + data[1:], data[:7]):  # behind frames that offload would have joined
        said = shown(data + data + end)
        assert len(said) == 2 and all(line.startswith("DATA") for line in said), said


check_faults()
check_every()
check_shown()
check_strangers()
