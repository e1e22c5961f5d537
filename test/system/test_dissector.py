# SPDX-License-Identifier: BSD-3-Clause
"""The dissector of tools/wireshark, under tshark.

mxoe: the captures of real hosts in test/data, whose frames are cut as by a snap length. Native: frames
that the library's codec writes (thole_frames.c). What is expected is written down here; which frames of
the captures were sent again is worked out from their bytes.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from thole.base import paths
from thole.frames import fields as described
from thole.frames import packets

ROOT = Path(__file__).resolve().parent.parent.parent
EVERY = ROOT / "test" / "data" / "frames" / "every.pcap"
CAPTURES = ROOT / "test" / "data" / "captures"
NAMES = sorted(path.stem for path in CAPTURES.glob("*.pcap"))
TIMEOUT_S = 120.0

MEDIUM, CONNECT, PULL, PULL_REPLY, NOTIFY = 39, 36, 41, 42, 43
MESSAGES = (37, 38, 39, 40)

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")


FLAGS = {"True": "1", "False": "0"}  # as Wireshark 4.4 has them


def tshark(pcap: Path, *words: str) -> str:
    """What tshark says with the dissector loaded; that it loads is checked."""
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{paths.dissector()}", "-r", str(pcap), *words],
        env={"PATH": os.environ["PATH"], "HOME": str(pcap.parent), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Lua" not in done.stderr, done.stderr
    assert "Lua Error" not in done.stdout
    return done.stdout


def numbers(pcap: Path, chosen: str, *words: str) -> list[int]:
    """The frames that a filter chooses."""
    out = tshark(pcap, "-Y", chosen, "-T", "fields", "-e", "frame.number", *words)
    return [int(line) for line in out.split()]


def table(pcap: Path, chosen: str, *names: str) -> list[dict[str, str]]:
    """The values of fields of the frames that a filter chooses, several of one name separated by commas."""
    words = [word for name in names for word in ("-e", name)]
    out = tshark(pcap, "-Y", chosen, "-T", "fields", *words)
    rows = [[FLAGS.get(value, value) for value in line.split("\t")] for line in out.split("\n")[:-1]]
    return [dict(zip(names, row)) for row in rows]


def fields(pcap: Path, frame: int, *names: str) -> dict[str, str]:
    (values,) = table(pcap, f"frame.number == {frame}", *names)
    return values


def expect(pcap: Path, wanted: dict[int, dict[str, str]]) -> None:
    """Fields' values in some frames, of which tshark is asked once; in their names, __ stands for a point."""
    named = {
        frame: {name.replace("__", "."): value for name, value in values.items()} for frame, values in wanted.items()
    }
    names = dict.fromkeys(name for values in named.values() for name in values)
    chosen = "frame.number in {" + ", ".join(str(frame) for frame in named) + "}"
    found = {int(row["frame.number"]): row for row in table(pcap, chosen, "frame.number", *names)}
    assert {frame: {name: found[frame][name] for name in values} for frame, values in named.items()} == named


def frames(pcap: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each frame of a pcap file, as far as they were kept."""
    data = pcap.read_bytes()
    at, number = 24, 1
    while at < len(data):
        kept = struct.unpack_from("<I", data, at + 8)[0]
        yield number, data[at + 16 : at + 16 + kept]
        at, number = at + 16 + kept, number + 1


def check_covered(pcap: Path, protocol: str) -> None:
    """Every byte of a frame that is not zero is shown by a field that is named."""
    there = dict(frames(pcap))
    tree = ElementTree.fromstring(tshark(pcap, "-T", "pdml"))
    checked = 0
    for number, packet in enumerate(tree.iter("packet"), 1):
        shown: set[int] = set()
        start = None
        for proto in packet.iter("proto"):
            if proto.get("name") != protocol:
                continue
            first = int(proto.get("pos", "0"))
            start = first if start is None else min(start, first)
            for field in proto.iter("field"):
                if (field.get("name") or "").startswith(protocol + "."):
                    pos = int(field.get("pos", "0"))
                    shown |= set(range(pos, pos + int(field.get("size", "0"))))
        if start is None or packet.find(f".//field[@name='{protocol}.malformed']") is not None:
            continue
        checked += 1
        frame = there[number]
        missing = [i for i in range(start, len(frame)) if i not in shown and frame[i]]
        assert not missing, f"frame {number}: bytes {missing} have no field"
    assert checked > 0


def write(pcap: Path, there: list[bytes]) -> Path:
    """A capture of these Ethernet frames."""
    heads = (struct.pack("<IIII", number, 0, len(frame), len(frame)) for number, frame in enumerate(there))
    front = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    pcap.write_bytes(front + b"".join(head + frame for head, frame in zip(heads, there)))
    return pcap


def ethernet(kind: int, body: bytes) -> bytes:
    return bytes(6) + bytes.fromhex("020000000001") + struct.pack("!H", kind) + body


# ---- mxoe ---------------------------------------------------------------------------------------


def sent_again(pcap: Path, jumbo: bool) -> set[int]:
    """Frames whose like was there before: by what names a message, a block or a frame of one."""
    seen: set[tuple[object, ...]] = set()
    again = set()
    for number, frame in frames(pcap):
        source, body = frame[6:12], frame[16:]
        kind = body[0]
        key: tuple[object, ...]
        if kind in MESSAGES:
            key = (body[1:3], body[8:10], body[20:24], body[26] if kind == MEDIUM else 0)
        elif kind == NOTIFY:
            key = (body[1:3], body[18:20], body[4:8])
        elif kind == CONNECT:
            key = (body[1:3], body[16:28])
        elif kind == PULL:
            key = (body[24:32], body[40:44]) if jumbo else (body[16:24], body[28:32])
        elif kind == PULL_REPLY:
            key = (frame[:6], body[8:16], body[4:8])
        else:
            continue
        if (kind, source, *key) in seen:
            again.add(number)
        seen.add((kind, source, *key))
    return again


@pytest.mark.parametrize("name", NAMES)
def test_mxoe_every_frame(name: str) -> None:
    """Each is recognised by its type; only the one that no correct peer writes is called so; what was sent again is
    marked, and what is refused."""
    pcap = CAPTURES / f"{name}.pcap"
    marks = ("mxoe.malformed", "_ws.malformed", "mxoe.resent", "mxoe.nack")
    rows = table(pcap, "frame", "frame.number", "mxoe.type", *marks)
    assert [int(row["mxoe.type"]) for row in rows] == [frame[16] for _, frame in frames(pcap)]
    malformed, broken, resent, nacks = ([int(row["frame.number"]) for row in rows if row[mark]] for mark in marks)
    assert {*malformed, *broken} == ({171} if name == "probes-jumbo" else set())
    again = sorted(sent_again(pcap, jumbo="jumbo" in name))
    assert resent == again
    assert numbers(pcap, "mxoe.resent", "-2") == again  # the same when it is all dissected twice
    if name == "lossy-jumbo":
        assert len(again) == 77
    assert nacks == [number for number, frame in frames(pcap) if frame[16] in (44, 45)]


@pytest.mark.parametrize("name", NAMES)
def test_mxoe_every_byte(name: str) -> None:
    check_covered(CAPTURES / f"{name}.pcap", "mxoe")


def test_mxoe_fields() -> None:
    """A frame of each type, against the bytes as read by hand; codec_test.c has the same ones."""
    pcap = CAPTURES / "openmx-mxwire.pcap"
    expect(
        pcap,
        {
            1: dict(mxoe__hello__mac="0x0000525400123401", mxoe__hello__serial="0x232b829e"),
            3: dict(mxoe__host__index="3", mxoe__host__magic="0x13052008"),
            5: dict(mxoe__host__name="omx1:0", mxoe__host__index="2"),
            11: dict(
                mxoe__index="3",
                mxoe__to="9",
                mxoe__from="2",
                mxoe__connect__key="0x0c0ffee5",
            ),
            12: dict(mxoe__nack__reason="2", mxoe__from="9", mxoe__to="2"),
            16: dict(
                mxoe__connect__status="11",
                mxoe__connect__session="0x2f14ab0b",
                mxoe__connect__target="0xe61cf7a1",
            ),
            41: dict(
                mxoe__type="37",
                mxoe__length="32",
                mxoe__checksum="0xffff",
                mxoe__match="0xc0de001400000020",
                mxoe__sequence="0x000a",
                mxoe__ack="0x000c",
            ),
            79: dict(
                mxoe__total="20000",
                mxoe__fragment__number="1",
                mxoe__fragment__length="4096",
                mxoe__fragment__log="12",
            ),
            120: dict(
                mxoe__window__sequence="23",
                mxoe__handle="0x00000023",
                mxoe__magic="0x21071982",
                mxoe__pull__frame="8",
                mxoe__pull__length="1",
                mxoe__total="32769",
            ),
            129: dict(mxoe__data__frame="8", mxoe__data__offset="32768", mxoe__length="1"),
            130: dict(mxoe__type="43", mxoe__sequence__number="32", mxoe__total="32769"),
            132: dict(mxoe__type="40", mxoe__total="65536", mxoe__window__sequence="24"),
            556: dict(mxoe__type="45", mxoe__to="1", mxoe__handle="0x01c00023"),
        },
    )
    assert numbers(pcap, "mxoe.refused") == [16]
    jumbo = CAPTURES / "extra-jumbo.pcap"
    expect(
        jumbo,
        {
            40: dict(mxoe__ack="0x0005", mxoe__truc__number="1", mxoe__truc__send="0x0005"),
        },
    )


def test_mxoe_names(tmp_path: Path) -> None:
    """A host's name ends with its length or a NUL, and may be empty."""
    replies = [bytes([0, 0, 4, len(name)]) + bytes(14) + name for name in (b"abc", b"ab\0c", b"")]
    pcap = write(tmp_path / "names.pcap", [ethernet(0x86DF, reply) for reply in replies])
    lines = tshark(pcap).splitlines()
    assert [line.partition("name=")[2] for line in lines] == ["abc", "ab", ""]
    assert numbers(pcap, "mxoe.malformed || _ws.lua.error") == []


def test_mxoe_mode_is_a_preference() -> None:
    """Told the mode, the dissector does not look for itself: the wrong one shows other numbers."""
    pull = CAPTURES / "openmx-mxwire.pcap"
    words = ["-Y", "frame.number == 120", "-T", "fields", "-e", "mxoe.pull.frame"]
    assert tshark(pull, *words).strip() == "8"
    assert tshark(pull, *words, "-o", "mxoe.mode:mx").strip() == "8"
    assert tshark(pull, *words, "-o", "mxoe.mode:jumbo").strip() != "8"
    pull = CAPTURES / "probes-jumbo.pcap"
    words = ["-Y", "frame.number == 172", "-T", "fields", "-e", "mxoe.pull.length"]
    assert tshark(pull, *words).strip() == "65536"
    assert tshark(pull, *words, "-o", "mxoe.mode:jumbo").strip() == "65536"
    assert tshark(pull, *words, "-o", "mxoe.mode:mx").strip() != "65536"


# ---- Both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "codec"), [("thole", packets.NATIVE), ("mxoe", packets.MXOE)])
def test_every_field(prefix: str, codec: described.Codec) -> None:
    """Each field of the description is shown: all are in these frames (fields.py of the unit tests)."""
    tree = ElementTree.fromstring(tshark(EVERY, "-T", "pdml"))
    names = {field.get("name") or "" for field in tree.iter("field")}
    shown = {name.partition(".")[2] for name in names if name.startswith(f"{prefix}.")}
    assert set(codec.fields()) - shown == set()
    check_covered(EVERY, prefix)


# ---- Native -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frames of every type, over UDP (1 to 13), raw (14 to 17), two that are not ours,
    and two with tags."""
    program = Path(request.config.getoption("--build")) / "test" / "system" / "thole-frames"
    if not program.exists():
        pytest.fail(f"{program} is missing: build with -Dtests=true")
    pcap = tmp_path_factory.mktemp("native") / "native.pcap"
    with pcap.open("wb") as file:
        subprocess.run([str(program)], stdout=file, timeout=TIMEOUT_S, check=True)
    return pcap


def test_native_is_recognised(native: Path) -> None:
    """By its looks over UDP, by EtherType over Ethernet; what is not ours is left alone."""
    assert numbers(native, "thole") == [*range(1, 18), 20, 21]
    assert numbers(native, "thole", "-o", "thole.heuristic:FALSE") == [14, 15, 16, 17]
    ports = ["-o", "thole.heuristic:FALSE", "-o", "thole.ports:40001"]
    assert numbers(native, "thole", *ports) == [*range(1, 12), 14, 15, 16, 17, 20, 21]
    assert numbers(native, "thole", "-o", "thole.ethertype:34998") == [*range(1, 14), 20, 21]
    types = tshark(native, "-Y", "thole", "-T", "fields", "-e", "thole.type").replace(",", "\n")
    assert Counter(types.split()) == Counter("1 2 3 3 3 3 4 5 5 7 8 6 6 6 6 6 6 3 3 3 99 4 3".split())


def test_native_every_byte(native: Path) -> None:
    check_covered(native, "thole")


def test_native_connects(native: Path) -> None:
    expect(
        native,
        {
            1: dict(
                thole__to="4294967295",
                thole__connect__host="0xa1a2a3a4a5a6a7a8",
                thole__connect__endpoint="0xb1b2b3b4b5b6b7b8",
                thole__connect__target="0xc1c2c3c4c5c6c7c8",
                thole__connect__session="0xd1d2d3d4d5d6d7d8",
                thole__connect__proof="0xe1e2e3e4e5e6e7e8",
                thole__connect__index="3",
                thole__connect__next="1000",
                thole__connect__size="1472",
                thole__connect__bulk_port="40002",
                thole__connect__ethertype="0x88b5",
                thole__connect__mac="02:00:00:00:00:01",
                thole__connect__attempt="1",
                thole__connect__network__kind="1",
                thole__connect__network__port="40001",
                thole__connect__network__ipv4="10.0.0.1",
                thole__connect__network__mac="02:00:00:00:00:01",
            ),
            2: dict(thole__connect__seen="1472", thole__connect__status="11"),
        },
    )
    assert numbers(native, "thole.refused") == [2]


def test_native_records(native: Path) -> None:
    expect(
        native,
        {
            3: dict(
                thole__short="45",
                thole__flags__backpressure="1",
                thole__flags__answer="1",
                thole__to="7",
                thole__session="0x1122334455667788",
                thole__sequence="1000",
                thole__ack="2000",
                thole__credit="30",
                thole__record__kind="1",
                thole__record__flags__plain="1",
                thole__record__tag="0x000000000000004d",
                thole__record__imm="",
                thole__payload="48656c6c6f",
            ),
            4: dict(
                thole__record__kind="3",
                thole__record__flags__imm="1",
                thole__record__flags__stream="1",
                thole__record__flags__args="1",
                thole__record__tag="0x000000000000004e",
                thole__record__imm="0x000000000000004f",
                thole__record__arg0="0x0000000000000050",
                thole__record__arg3="0x0000000000000053",
                thole__payload="",
            ),
        },
    )
    assert fields(native, 5, "thole.payload")["thole.payload"].startswith("48656c6c6f00")
    assert len(fields(native, 5, "thole.payload")["thole.payload"]) == 200


def test_native_others(native: Path) -> None:
    expect(
        native,
        {
            7: dict(thole__ack__held="0x0000000000000005", thole__sequence="1000"),
            8: dict(
                thole__pull__window="0x0000000000000077",
                thole__transfer="0x0000000000000099",
                thole__pull__offset="123456789012",
                thole__pull__length="5760",
                thole__pull__frame="1440",
                thole__pull__wanted="0x000000000000000a",
            ),
            10: dict(
                thole__nack__reason="4",
                thole__nack__refused="0xd1d2d3d4d5d6d7d8",
                thole__nack__proof="0xf1f2f3f4f5f6f7f8",
            ),
            11: dict(
                thole__type="8",
                thole__sequence="1000",
                thole__ack="2000",
                thole__credit="30",
            ),
        },
    )
    assert numbers(native, "thole.gap") == [7, 20]
    assert numbers(native, "thole.nack") == [10]


def over_udp(here: int, there: int, *ports: int, frame: bytes) -> bytes:
    """Between the hosts 10.0.0.`here` and 10.0.0.`there`."""
    datagram = struct.pack("!HHHH", *ports, 8 + len(frame), 0) + frame
    addresses = bytes([10, 0, 0, here, 10, 0, 0, there])
    return ethernet(0x800, struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0) + addresses + datagram)


def native_frame(kind: int, session: int, transfer: int, length: int, **fields: int) -> bytes:
    """Of the first pull or its DATA; the other fields are at their offsets, in 8 bytes."""
    frame = bytearray(length)
    frame[:2], frame[8:16] = (kind, packets.NATIVE_VERSION), session.to_bytes(8, "big")
    for name, value in fields.items():
        frame[int(name[3:]) : int(name[3:]) + 8] = value.to_bytes(8, "big")
    at = 40 if kind == 5 else 20
    frame[at : at + 7] = transfer.to_bytes(7, "big")
    return bytes(frame)


def test_native_sent_again__by_two_pairs(tmp_path: Path) -> None:
    """Also where two pairs of ranks of these hosts use a transfer of the same number by turns, for other windows."""
    pulls = [
        over_udp(1, 2, 5000 + rank, 6000 + rank, frame=native_frame(5, rank, 1 << 20, 64, at_32=0xA0 + rank))
        for rank in (1, 2)
    ]
    data = over_udp(2, 1, 6001, 5001, frame=native_frame(6, 5, 1 << 20, 100))
    pcap = write(tmp_path / "again.pcap", [*pulls, data, *pulls, data])
    assert numbers(pcap, "thole.malformed") == []
    assert numbers(pcap, "thole.resent") == [4, 5, 6]
    assert numbers(pcap, "thole.resent", "-2") == [4, 5, 6]


def test_native_tagged(native: Path) -> None:
    """What is behind counter and tag has moved by their length."""
    expect(
        native,
        {
            20: dict(
                thole__flags__tagged="1",
                thole__counter="1",
                thole__ack__held="0x0000000000000009",
                thole__ack="2000",
            ),
            21: dict(
                thole__flags__sealed="1",
                thole__record__tag="0x000000000000004d",
                thole__payload="48656c6c6f",
            ),
        },
    )
    assert len(fields(native, 20, "thole.tag")["thole.tag"]) == 16
    assert len(fields(native, 21, "thole.tag")["thole.tag"]) == 32


def test_native_sent_again(native: Path) -> None:
    """A record with another ack, a pull, and a frame of data that was inside a longer packet."""
    assert numbers(native, "thole.resent") == [6, 9, 13]
    assert numbers(native, "thole.resent", "-2") == [6, 9, 13]


def test_native_packet_of_many_frames(native: Path) -> None:
    """As the sender's host hands it to the kernel, before it is cut up."""
    expect(
        native,
        {
            12: dict(thole__data__offset="0,1440,2880,4320,5760"),
        },
    )
    payloads = fields(native, 12, "thole.payload")["thole.payload"].split(",")
    assert [len(payload) // 2 for payload in payloads] == [1440] * 4 + [7]


def test_native_raw(native: Path) -> None:
    """Padding is not payload, and not part of the checksum."""
    expect(
        native,
        {
            14: dict(thole__short="40", thole__payload="", thole__padding="000000000000"),
            15: dict(thole__payload="6162", thole__padding="00000000"),
        },
    )
    assert numbers(native, "thole.checksum.bad") == [16]
    assert numbers(native, "thole.checksum.bad", "-o", "thole.check:FALSE") == []
    assert numbers(native, "thole.malformed") == [17]
