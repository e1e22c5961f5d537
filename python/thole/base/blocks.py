# SPDX-License-Identifier: BSD-3-Clause
"""A block of our own in a file of the user's, and files that are replaced as a whole.

The rest of such a file stays as it is, byte for byte.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Block:
    """Lines between these two."""

    begin: str
    end: str

    def of(self, lines: Iterable[str]) -> str:
        return "\n".join((self.begin, *lines, self.end)) + "\n"

    def within(self, content: bytes) -> str:
        """The block's lines; empty where there is none."""
        found = re.search(self._pattern, content, flags=re.DOTALL)
        return found[1].decode(errors="replace") if found else ""

    def taken_from(self, content: bytes) -> bytes:
        """What is left without the block."""
        return re.sub(self._pattern, b"", content, flags=re.DOTALL)

    def put_in(self, content: bytes, lines: Iterable[str]) -> bytes:
        """With a block of these lines at the end, in place of one that is there."""
        rest = self.taken_from(content)
        glue = b"" if not rest or rest.endswith(b"\n") else b"\n"
        return rest + glue + self.of(lines).encode()

    @property
    def _pattern(self) -> bytes:
        return re.escape(self.begin.encode()) + rb"\n(.*?)" + re.escape(self.end.encode()) + rb"\n?"


def replace(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file so that it is either the old one or the new one, with the old one's owner, and its mode unless
    another is given. A link stays one."""
    path = path.resolve()
    if mode is None:
        mode = path.stat().st_mode & 0o7777 if os.path.exists(path) else 0o644
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        if os.path.exists(path):
            status = path.stat()
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(temporary, status.st_uid, status.st_gid)
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk has no name, and the other file is not the user's
        raise
