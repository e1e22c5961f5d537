# SPDX-License-Identifier: BSD-3-Clause
"""Whether a signal was sent to this process alone, or to all of its group.

Who passes signals on to a child must know: `timeout`, a shell's `kill %1`, batch systems and systemd signal the child
as well, and a second one means something else to many a program. Open MPI's launcher then leaves its ranks behind, or
waits for ever for a lock that it holds itself. Owns a process of the group to which nobody sends a signal by itself.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path

SETTLE_S = 0.05  # for the second of two calls, as `timeout` makes them: to us, then to all
PENDING = re.compile(r"^(?:Shd|Sig)Pnd:\s*([0-9a-f]+)$", re.MULTILINE)


class Witness:
    """To be made, and asked, with the signals blocked: so it gets them, and they wait at it to be looked at."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._begin()

    def _begin(self) -> None:
        none = subprocess.DEVNULL
        with contextlib.suppress(OSError):  # without one, all signals are taken for ours
            # It lives by its standard input, and so ends with us, however we end.
            self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=none, stderr=none)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def has_seen(self, number: int) -> bool:
        """Whether the signal that has just come was sent to all. If so, that counts for this one time."""
        time.sleep(SETTLE_S)
        if self._process is None:
            return False
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return False
        if not any(int(found, 16) >> (number - 1) & 1 for found in PENDING.findall(status)):
            return False
        signal.sigtimedwait({number}, 0)  # to us, and to all: we may have got two
        self.close()
        self._begin()
        return True
