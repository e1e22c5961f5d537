# SPDX-License-Identifier: BSD-3-Clause
"""Sizes, times and options as people and commands read and write them."""

from __future__ import annotations

from collections.abc import Mapping

from thole.base.trouble import Trouble


def size_parse(text: str) -> int:
    digits, unit = text.strip().lower().removesuffix("ib"), 1
    if digits and digits[-1] in "kmg":
        unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[digits[-1]]
        digits = digits[:-1]
    if not digits.isdecimal():
        raise Trouble(
            f"--sizes: {text!r} is not a size", "write bytes, or with k, m or g: 8, 64k, 1m"
        )
    return int(digits) * unit


def size_text(size: float) -> str:
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size:.0f} B"


def time_text(us: float) -> str:
    return f"{us:.3f}" if us < 10 else f"{us:.2f}" if us < 100 else f"{us:.1f}"


def option_words(options: Mapping[str, str]) -> list[str]:
    """Options of Thole as arguments of `thole` and thole-perf."""
    return [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
