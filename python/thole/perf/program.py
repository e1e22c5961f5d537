# SPDX-License-Identifier: BSD-3-Clause
"""Running thole-perf, the C program that does the timing: as a client that prints samples, or as a listener."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from thole.base import host, native, paths, text
from thole.base.streams import unread
from thole.base.trouble import Trouble
from thole.perf.results import WRONG_ARGUMENTS, Measured


@contextlib.contextmanager
def _running(words: list[str], errors: int) -> Iterator[subprocess.Popen[str]]:
    """thole-perf with these arguments; it does not outlast the `with`."""
    with subprocess.Popen(
        [str(paths.find(paths.PERF)), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        errors="replace",
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def measure(
    words: list[str], each: Callable[[dict[str, Any]], None] = lambda line: None, into: Measured | None = None
) -> Measured:
    """Run thole-perf with these arguments; each() sees every line as it comes. into: more rounds of an earlier run."""
    result = into or Measured()
    with _running(words, subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        for said in process.stdout:
            if not said.endswith("\n"):  # it was ended in the middle of a line
                break
            line = json.loads(said)
            each(line)
            result.take(dict(line))
        # Only now: thole-perf writes a line or two to stderr, which never fills the pipe.
        complaint = process.stderr.read().strip()
        process.wait()
    if process.returncode != 0:
        first = complaint.partition("\n")[0].removeprefix("thole-perf: ") or _how_it_ended(process.returncode)
        if process.returncode == WRONG_ARGUMENTS or "--host" in words:
            raise Trouble(first)  # it says what to do about it
        raise Trouble(
            f"thole-perf failed: {first}", "see `thole info` for what this machine permits"
        )
    return result


def _how_it_ended(status: int) -> str:
    return f"it was ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def measure_networks(
    words: list[str], networks: list[str], rounds: int, each: Callable[[dict[str, Any]], None] = lambda line: None
) -> dict[str, Measured]:
    """The same by each of some networks, by turns, so that what disturbs one disturbs the others."""
    found = {name: Measured() for name in networks}
    for _ in range(rounds):
        for name in networks:
            measure([*words, "--rounds", "1", "--network", name], each, found[name])
    return found


def core_words(chosen: str | None) -> list[str]:
    if chosen is not None:
        return ["--cores", chosen]
    first, second = host.pair(host.cores())
    return ["--cores", f"{first},{second}"]


def listen(arguments: argparse.Namespace) -> int:
    """Become a listener; returns when it ends, or when nobody reads any more what it says."""
    words = ["--listen", "--port", str(arguments.port), *given_options(arguments)]
    words += core_words(getattr(arguments, "cores", None))
    words += ["--bind", arguments.bind] if arguments.bind else []
    words += ["--once"] if arguments.once else []
    with contextlib.suppress(Trouble):  # clients that want MX are told that it is missing
        words += ["--mx-library", str(paths.find(paths.MX))]
    with _running(words, subprocess.STDOUT) as process:
        assert process.stdout is not None
        for said in process.stdout:
            if said.startswith("{"):
                print(_said(json.loads(said)), flush=True)
            else:
                said = said.removeprefix("thole-perf: ").rstrip()
                print(f"thole: {said}", file=sys.stderr, flush=True)
            if unread():
                return 0
        return 2 if process.wait() else 0


def _said(line: dict[str, Any]) -> str:
    if line["type"] == "listening":
        return f"Thole {line['version']} listens on TCP port {line['port']}; interrupt to end"
    if line["type"] == "session":
        return f"{line['from']}: begins"
    return f"{line['from']}: " + ("done" if line["status"] == 0 else "failed")


def given_options(arguments: argparse.Namespace) -> list[str]:
    """Those that the user gave, judged."""
    return text.option_words(dict(native.check_options(arguments.option)))
