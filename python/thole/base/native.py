# SPDX-License-Identifier: BSD-3-Clause
"""libthole.so through ctypes: its tables of options, counters and the like, and who speaks MXoE."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from thole.base import paths
from thole.base.trouble import Trouble


class _OptionInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("value", ctypes.c_char_p),
        ("fallback", ctypes.c_char_p),
        ("origin", ctypes.c_char_p),
        ("choices", ctypes.c_char_p),
        ("min", ctypes.c_uint64),
        ("max", ctypes.c_uint64),
        ("help", ctypes.c_char_p),
    ]


class _CounterInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("help", ctypes.c_char_p)]


class _Capability(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("available", ctypes.c_int),
        ("use", ctypes.c_char_p),
        ("why", ctypes.c_char_p),
    ]


class _InterfaceInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_char_p),
        ("mac", ctypes.c_char_p),
        ("mtu", ctypes.c_uint32),
        ("up", ctypes.c_int),
        ("chosen", ctypes.c_int),
        ("links", ctypes.c_char_p),
        ("better", ctypes.c_char_p),
    ]


class _AdapterInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("address", ctypes.c_char_p),
        ("can", ctypes.c_char_p),
        ("mtu", ctypes.c_uint32),
        ("rate", ctypes.c_uint32),
        ("up", ctypes.c_int),
        ("software", ctypes.c_int),
        ("better", ctypes.c_char_p),
    ]


@dataclass(frozen=True)
class Option:
    name: str
    kind: str
    value: str
    default: str
    origin: str
    choices: str
    min: int
    max: int
    help: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"THOLE_{self.name.upper()}"


@dataclass(frozen=True)
class Counter:
    name: str
    help: str


@dataclass(frozen=True)
class Capability:
    name: str
    available: bool
    use: str
    why: str


@dataclass(frozen=True)
class Interface:
    """A network interface, the links that it gives to this process, and what would be faster."""

    name: str
    address: str
    mac: str
    mtu: int
    up: bool
    chosen: bool  # unless the option interface says otherwise
    links: list[str]
    better: list[str]


@dataclass(frozen=True)
class Adapter:
    """A port of an adapter for remote DMA, and what would be faster."""

    name: str
    kind: str
    address: str
    can: list[str]
    mtu: int
    rate: int  # Mbit/s; 0: not known
    up: bool
    software: bool
    better: list[str]


@functools.lru_cache
def library() -> ctypes.CDLL:
    path = paths.find(paths.LIBRARY)
    try:
        lib = ctypes.CDLL(str(path))
        lib.thole_version.restype = ctypes.c_char_p
        for name in ("detail", "strerror"):
            getattr(lib, f"thole_{name}").restype = ctypes.c_char_p
        for name in ("option_info", "options_check", "counter_info", "capability", "interface_info", "adapter_info"):
            getattr(lib, f"thole_{name}").restype = ctypes.c_int
    except (OSError, AttributeError) as error:
        raise Trouble(f"{path} cannot be loaded: {error}", "rebuild or reinstall Thole") from None
    return lib


def version() -> str:
    return str(library().thole_version().decode())


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _table(function: Callable[..., int], kind: type[ctypes.Structure]) -> Iterator[Any]:
    # Ends at the first index that the library refuses (THOLE_ERR_NOT_FOUND).
    index = 0
    while True:
        row = kind()
        if function(ctypes.c_uint(index), ctypes.byref(row)) != 0:
            return
        yield row
        index += 1


def options() -> list[Option]:
    rows = []
    for row in _table(library().thole_option_info, _OptionInfo):
        name, kind, value, default, origin, choices, text = (
            _text(getattr(row, name))
            for name in ("name", "kind", "value", "fallback", "origin", "choices", "help")
        )
        rows.append(Option(name, kind, value, default, origin, choices, row.min, row.max, text))
    return rows


def counters() -> list[Counter]:
    return [
        Counter(_text(row.name), _text(row.help))
        for row in _table(library().thole_counter_info, _CounterInfo)
    ]


def capabilities() -> list[Capability]:
    return [
        Capability(_text(row.name), bool(row.available), _text(row.use), _text(row.why))
        for row in _table(library().thole_capability, _Capability)
    ]


def interfaces() -> list[Interface]:
    return [
        Interface(
            _text(row.name),
            _text(row.address),
            _text(row.mac),
            row.mtu,
            bool(row.up),
            bool(row.chosen),
            [link for link in _text(row.links).split(",") if link],
            _text(row.better).splitlines(),
        )
        for row in _table(library().thole_interface_info, _InterfaceInfo)
    ]


ERR_NOT_FOUND = -14


def adapters() -> tuple[list[Adapter], str]:
    """All there are, and why there can be none."""
    row = _AdapterInfo()
    found = []
    while (error := library().thole_adapter_info(len(found), ctypes.byref(row))) == 0:
        found.append(
            Adapter(
                _text(row.name),
                _text(row.kind),
                _text(row.address),
                [word for word in _text(row.can).split(",") if word],
                row.mtu,
                row.rate,
                bool(row.up),
                bool(row.software),
                _text(row.better).splitlines(),
            )
        )
    return found, "" if error == ERR_NOT_FOUND else _text(library().thole_detail())


def registering_ns(index: int, length: int) -> int | None:
    """What it takes to register so many bytes with adapters()[index], and to end that; None: it is refused."""
    taken = ctypes.c_uint64()
    error = library().thole_adapter_registering(index, ctypes.c_size_t(length), ctypes.byref(taken))
    return None if error else taken.value


class _MxoeHost(ctypes.Structure):
    _fields_ = [
        ("mac", ctypes.c_char * 18),
        ("name", ctypes.c_char * 80),
        ("trip_ns", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class MxoeHost:
    """A host that speaks MXoE, with MX, Open-MX or Thole."""

    mac: str
    name: str
    trip_ns: int


MXOE_HOSTS_MAX = 4096


def mxoe_hosts(interface: str, wanted: str, wait_s: float) -> list[MxoeHost]:
    """Those on an interface that answer; or the one of this MAC or name. Trouble: nobody can be asked."""
    lib = library()
    rows = (_MxoeHost * MXOE_HOSTS_MAX)()
    wait_ns = ctypes.c_uint64(round(wait_s * 1e9))
    count = lib.thole_mxoe_hosts(
        interface.encode(), wanted.encode(), wait_ns, rows, ctypes.c_uint(MXOE_HOSTS_MAX)
    )
    if count < 0:
        raise Trouble(_said(count))
    return [
        MxoeHost(_text(row.mac), _text(row.name), row.trip_ns)
        for row in rows[: min(count, MXOE_HOSTS_MAX)]
    ]


class _EndpointAttr(ctypes.Structure):
    _fields_ = [
        ("threads", ctypes.c_int),
        ("options", ctypes.POINTER(ctypes.c_char_p)),
        ("complete", ctypes.c_void_p),
        ("complete_arg", ctypes.c_void_p),
    ]


class _Address(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 56)]


@dataclass(frozen=True)
class Opened:
    address: str
    error: str


def _strings(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    """As C has them: an array that ends with NULL."""
    encoded = [os.fsencode(text) for text in texts]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _said(error: int) -> str:
    """The library's sentence on its last failure."""
    return _text(library().thole_detail()) or _text(library().thole_strerror(error))


def try_endpoint(*options: str) -> Opened:
    """Open an endpoint with these options, else defaults, and close it again."""
    lib = library()
    strings = _strings(options)
    attr = _EndpointAttr(options=ctypes.cast(strings, ctypes.POINTER(ctypes.c_char_p)))
    endpoint = ctypes.c_void_p()
    error = lib.thole_endpoint_open(ctypes.byref(attr), ctypes.byref(endpoint))
    if error != 0:
        return Opened("", _said(error))
    address = _Address()
    lib.thole_endpoint_address(endpoint, ctypes.byref(address))
    lib.thole_endpoint_close(endpoint)
    return Opened(address.text.decode(), "")


def check_options(texts: Iterable[str], more: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Split each "name=value"; the library judges them, with `more` and with what environment and files set."""
    pairs = [_split(text) for text in texts]
    strings = _strings([*more, *(f"{name}={value}" for name, value in pairs)])
    error = library().thole_options_check(strings)
    if error < 0:
        raise Trouble(_said(error))
    return pairs


def options_complaint() -> str:
    """What is wrong with what environment and files set, or which name there is no option and skipped; else ""."""
    error = library().thole_options_check(None)
    return _said(error) if error != 0 else ""


def _split(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    name = name.strip().removeprefix("THOLE_").lower().replace("-", "_")
    if not sign or not name:
        raise Trouble(f"--option {text!r} is not name=value", "for example --option eager_max=16k")
    return name, value.strip()
