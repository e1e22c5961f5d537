# SPDX-License-Identifier: BSD-3-Clause
"""The standard output and the standard error, as commands have them: a reader who has gone ends no command.

What was to be read is lost then, and the command goes on: it keeps what it has measured, finishes what it has begun,
and has the status that it has otherwise. Only what goes on for ever has to ask whether anybody reads.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class _Lossy(io.FileIO):
    """An output, of which something may be lost. losses: the errors that say so; others are raised."""

    def __init__(self, number: int, losses: type[OSError]) -> None:
        super().__init__(number, "w", closefd=False)
        self.losses = losses
        self.lost = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except self.losses:
            self.lost = True
            return len(data)


def _lossy(stream: TextIO, losses: type[OSError]) -> TextIO:
    """What its encoding lacks is written in ASCII. One that is no file stays as it is."""
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream.buffer, io.BytesIO):
        return stream
    buffer = io.BufferedWriter(_Lossy(stream.fileno(), losses))
    lines = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=lines)


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Who closes an output (>&-) wants none of it. A full disk is an error, but not for the standard error, which could
    not say it."""
    while (above := os.open(os.devnull, os.O_RDWR)) <= 2:  # else a pipe might become one; what is started inherits none
        pass
    os.close(above)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the process
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _lossy(sys.stdout, BrokenPipeError), _lossy(sys.stderr, OSError)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unread() -> bool:
    """Whether the reader of the standard output has gone, as the last that was written there has shown."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, _Lossy) and raw.lost
