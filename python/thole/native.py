# SPDX-License-Identifier: BSD-3-Clause
"""libthole.so through ctypes: the tables of options, counters and capabilities, and nothing else."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from thole import paths
from thole.trouble import Trouble


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


@functools.lru_cache
def library() -> ctypes.CDLL:
    path = paths.find(paths.LIBRARY)
    try:
        lib = ctypes.CDLL(str(path))
        lib.thole_version.restype = ctypes.c_char_p
        for name in ("option_info", "counter_info", "capability", "interface_info"):
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
        words = [
            _text(getattr(row, name))
            for name in ("name", "kind", "value", "fallback", "origin", "choices")
        ]
        rows.append(Option(*words, row.min, row.max, _text(row.help)))
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


def try_endpoint(*options: str) -> Opened:
    """Open an endpoint with these options, else defaults, and close it again."""
    lib = library()
    lib.thole_detail.restype = ctypes.c_char_p
    lib.thole_strerror.restype = ctypes.c_char_p
    strings = (ctypes.c_char_p * (len(options) + 1))(*(text.encode() for text in options), None)
    attr = _EndpointAttr(options=ctypes.cast(strings, ctypes.POINTER(ctypes.c_char_p)))
    endpoint = ctypes.c_void_p()
    error = lib.thole_endpoint_open(ctypes.byref(attr), ctypes.byref(endpoint))
    if error != 0:
        return Opened("", _text(lib.thole_detail()) or _text(lib.thole_strerror(error)))
    address = _Address()
    lib.thole_endpoint_address(endpoint, ctypes.byref(address))
    lib.thole_endpoint_close(endpoint)
    return Opened(address.text.decode(), "")


def check_option(text: str) -> tuple[str, str]:
    """Split "name=value" and check the name against the table; the library judges the value."""
    name, sign, value = text.partition("=")
    name = name.strip().removeprefix("THOLE_").lower().replace("-", "_")
    if not sign or not name:
        raise Trouble(f"--option {text!r} is not name=value", "for example --option eager_max=16k")
    known = options()
    for option in known:
        if option.name == name:
            if option.choices and value not in option.choices.split(","):
                raise Trouble(
                    f"option {name} has no choice {value!r}", f"use one of {option.choices}"
                )
            return name, value.strip()
    raise Trouble(f"there is no option {name!r}", "see `thole info options`")
