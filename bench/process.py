# SPDX-License-Identifier: BSD-3-Clause
"""One command with a time limit, and the end of everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """How a command ended. status is None where the time limit ended it."""

    status: int | None
    output: str
    errors: str
    seconds: float

    @property
    def failure(self) -> str:
        """Empty if all went well, else the reason and the last lines of what was said."""
        if self.status == 0:
            return ""
        reason = (
            f"no end after {self.seconds:.0f} s"
            if self.status is None
            else f"exit status {self.status}"
        )
        lines = [line for line in (self.errors or self.output).splitlines() if line.strip()]
        return "\n".join([reason, *lines[-8:]])


def run(
    command: list[str], environment: dict[str, str], limit_s: float, folder: Path | None = None
) -> Outcome:
    """Run a command in a session of its own; kill its whole family if it takes too long."""
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Outcome(127, "", str(error), 0.0)
    status: int | None
    try:
        output, errors = process.communicate(timeout=limit_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        output, errors = _rest(process)
        status = None
    except BaseException:
        _end(process)
        raise
    return Outcome(status, output, errors, time.monotonic() - started)


def _rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        return "", "output kept open by a process that could not be ended"


def _end(process: subprocess.Popen[str]) -> None:
    """Launchers put ranks into groups and sessions of their own, so the group is not enough."""
    family = _descendants(process.pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGTERM:
            time.sleep(1.0)
            family += [pid for pid in _descendants(process.pid) if pid not in family]


def _descendants(root: int) -> list[int]:
    """root and all that it started, children before parents' later ones; from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found
