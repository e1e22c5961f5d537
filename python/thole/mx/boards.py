# SPDX-License-Identifier: BSD-3-Clause
"""The MX boards of this host, as libmyriexpress.so says (ctypes), and how NIC ids are written."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from thole.base import native, paths
from thole.base.trouble import Trouble

API = 0x301  # of the headers
NAME_MAX = 80  # bytes of a board's name with its NUL: MX_MAX_HOSTNAME_LEN
TEXT_MAX = 128  # of what mx_get_info says: MX_MAX_STR_LEN

# ---- NIC ids ---------------------------------------------------------------------------------------


def nic_text(nic_id: int) -> str:
    """As a MAC: 02:83:00:00:00:01."""
    return ":".join(f"{byte:02x}" for byte in nic_id.to_bytes(6, "big"))


def nic_parse(text: str) -> int | None:
    """02:83:00:00:00:01, 0x028300000001 or 028300000001; None: it is none of them."""
    match = re.fullmatch(r"(0[xX])?((?:[0-9a-fA-F]{2}:?){5}[0-9a-fA-F]{2})", text)
    return int(match[2].replace(":", ""), 16) if match else None


# ---- Boards of this host ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Board:
    number: int
    interface: str
    nic_id: int
    name: str
    mtu: int  # 0: the interface has just gone
    address: str  # IP by which other hosts ask for its endpoints; "": they cannot
    up: bool

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "nic_id": nic_text(self.nic_id)}


class Library:
    """libmyriexpress.so, initialised while the `with` lasts."""

    NIC_COUNT, PRODUCT_CODE, PART_NUMBER = 1, 8, 9

    def __init__(self) -> None:
        self.path = paths.find(paths.MX)
        try:
            self._lib = ctypes.CDLL(str(self.path))
            self._lib.mx_strerror.restype = ctypes.c_char_p
            self._lib.mx_set_error_handler.restype = ctypes.c_void_p
            # Else a failing call would end the tool.
            returning = ctypes.c_void_p.in_dll(self._lib, "MX_ERRORS_RETURN")
            self._lib.mx_set_error_handler(returning)
            self._check(self._lib.mx__init_api(API), "mx_init")
        except (OSError, AttributeError, ValueError) as error:
            raise Trouble(
                f"{self.path} cannot be used: {error}", "rebuild or reinstall Thole"
            ) from None

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self._lib.mx_finalize()

    def _check(self, code: int, call: str) -> None:
        if code != 0:
            raise Trouble(f"{call}: {self._lib.mx_strerror(code).decode()}")

    def _info(self, key: int, answer: Any, board: int) -> None:
        number = ctypes.c_uint32(board)
        sizes = [ctypes.c_uint32(ctypes.sizeof(value)) for value in (number, answer)]
        code = self._lib.mx_get_info(
            None, key, ctypes.byref(number), sizes[0], ctypes.byref(answer), sizes[1]
        )
        self._check(code, f"mx_get_info({key})")

    def _text(self, key: int, board: int = 0) -> str:
        answer = ctypes.create_string_buffer(TEXT_MAX)
        self._info(key, answer, board)
        return answer.value.decode(errors="replace")

    @property
    def version(self) -> str:
        return self._text(self.PRODUCT_CODE)

    def boards(self) -> list[Board]:
        count = ctypes.c_uint32()
        self._info(self.NIC_COUNT, count, 0)
        return [self._board(number) for number in range(count.value)]

    def _board(self, number: int) -> Board:
        nic_id = ctypes.c_uint64()
        name = ctypes.create_string_buffer(NAME_MAX)
        code = self._lib.mx_board_number_to_nic_id(ctypes.c_uint32(number), ctypes.byref(nic_id))
        self._check(code, f"mx_board_number_to_nic_id({number})")
        self._check(self._lib.mx_nic_id_to_hostname(nic_id, name), "mx_nic_id_to_hostname")
        interface = self._text(self.PART_NUMBER, number)
        found = next((row for row in native.interfaces() if row.name == interface), None)
        address = found.address if found and found.mac else ""  # nobody else reaches a loopback's
        return Board(
            number=number,
            interface=interface,
            nic_id=nic_id.value,
            name=name.value.decode(errors="replace"),
            mtu=found.mtu if found else 0,
            address=address,
            up=bool(found and found.up),
        )
