# SPDX-License-Identifier: BSD-3-Clause
"""Launchers and other commands: starting them, waiting with a limit, and the end of everything that they started.

What a command says goes into files, so that it never waits for a reader, and whoever outlives it holds nobody up.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

GRACE_S = 10.0  # from asking a launcher to end to killing it
POLL_S = 0.02
PR_SET_PDEATHSIG = 1


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
        reason = f"no end after {self.seconds:.0f} s" if self.status is None else f"exit status {self.status}"
        lines = [line for line in (self.errors or self.output).splitlines() if line.strip()]
        return "\n".join([reason, *lines[-8:]])


@dataclass
class Job:
    """A command that runs in a session of its own."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]

    def said(self) -> tuple[str, str]:
        """So far. The job writes where its files' positions are, so they are left alone."""
        files = (self.out.fileno(), self.err.fileno())
        out, err = (os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace") for file in files)
        return out, err

    def running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """End it with all that it started. Launchers put ranks into groups and sessions of their own."""
        with told_later(), contextlib.ExitStack() as stack:
            below = held(descendants(self.process.pid), stack)
            self.process.terminate()  # a launcher that is asked takes its ranks along
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=GRACE_S)
            if self.running():
                below += held(descendants(self.process.pid), stack)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for tell in below:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    tell(signal.SIGKILL)
        self.process.wait()

    def wait(self, limit_s: float) -> bool:
        """Until it has ended; False where it had to be ended, because time was up."""
        try:
            self.process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.end()
            return False
        except BaseException:
            self.end()
            raise
        return True


def start(command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> Job:
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - as long as the job
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
        preexec_fn=_beginner(),
    )
    return Job(process, out, err)


def _beginner() -> Callable[[], None]:
    """In a session of its own it gets no signal of a terminal's: it is asked to end when we are killed.

    The kernel asks it when the thread that started it ends, so that must be one that lives as long as the job.
    """
    prctl, ours = ctypes.CDLL(None).prctl, os.getpid()

    def begin() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != ours:  # killed already
            signal.raise_signal(signal.SIGTERM)

    return begin


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Who is told to end, or loses its terminal, ends as by ^C: with its jobs. What is ignored (nohup) stays so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in (number for number, handler in before.items() if handler is not signal.SIG_IGN):
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def told_later() -> Iterator[None]:
    """Signals that ask us to end are heard afterwards. None interrupts a thread that is not the main one."""
    came: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def run(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float, folder: Path | None = None
) -> Outcome:
    """Run a command to its end, or to the limit's."""
    started = time.monotonic()
    try:
        job = start(command, environment, folder)
    except OSError as error:
        return Outcome(127, "", str(error), 0.0)
    in_time = job.wait(limit_s)
    return Outcome(job.process.returncode if in_time else None, *job.said(), time.monotonic() - started)


def descendants(pid: int) -> list[int]:
    """The processes below one, as of now."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [*children.get(pid, [])]
    for one in found:
        found += children.get(one, [])
    return found


def held(pids: Iterable[int], stack: contextlib.ExitStack) -> list[Callable[[int], None]]:
    """What sends these processes a signal, for as long as the stack: a number may soon be another's.

    By numbers all the same where there is nothing better: a Python that knew no such calls, or who forbids them.
    """
    found: list[Callable[[int], None]] = []
    for pid in pids:
        try:
            file = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        except (AttributeError, OSError):
            found.append(functools.partial(os.kill, pid))
        else:
            stack.callback(os.close, file)
            found.append(functools.partial(signal.pidfd_send_signal, file))
    return found


def wait_until(holds: Callable[[], bool], limit_s: float) -> bool:
    """Look again and again; whether it came to hold in time."""
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def reap(process: subprocess.Popen[bytes], limit_s: float = GRACE_S) -> None:
    """What was asked to end, or has lost what it lives by: wait for it, or kill it."""
    try:
        process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
