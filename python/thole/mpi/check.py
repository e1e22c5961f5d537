# SPDX-License-Identifier: BSD-3-Clause
"""`thole run --check`: did every rank use Thole, and how much went which way?

Each rank's program is started by thole-rank, which says so in lines on its standard error. Launchers carry these from
all hosts, with no file system, port or daemon of ours; here they are taken out of what else arrives there, added up,
and judged. A rank without Thole is an error, and so is one of which nothing is heard.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

from thole.base import paths
from thole.base.text import size_text
from thole.base.trouble import Trouble, not_run
from thole.mpi import launch
from thole.mpi.launchers import Launch
from thole.mpi.witness import Witness

EXPECTED = {"FI_PROVIDER": "=thole"}  # whose value must be this; of others it is enough that they are there
EXPECTED_OF = ("THOLE_", "FI_PROVIDER")
# What launchers put before a rank's line, perhaps several.
LABEL = re.compile(rb"(?:\d+: |\[[^\]\n]*\](?:<\w+>)?:? ?|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d : )+$")
REPORT_MAX = 4096  # bytes; thole-rank's are shorter
LAST_WORDS_S = 5.0  # for what is under way when the launcher has ended
LOOK_S = 1.0  # between looks whether a rank was refused
REFUSED_S = 4.0  # for the launcher to end by itself, which takes Open MPI's 2 s; others may wait for the rank for ever
KILLED_S = 10.0  # for the launcher to end when it was asked to
NAMED_MAX = 8  # ranks that a sentence names
TROUBLES_MAX = 4  # what failed in ranks, in sentences; the first of each
USED = ("began", "ended")  # states of ranks that have an endpoint
FAILED = 1  # exit status where the launcher's own is 0
HANDED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
FROM_KERNEL = 128  # si_code of signals by a terminal, which the launcher has got by itself, and of our own timer's
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


FAILURES = {  # states, in words
    "refused": "could not start, since",
    "without": "ran without Thole:",
    "started": "ended before having an endpoint of Thole's",
}

# ---- What is started -------------------------------------------------------------------------------


def wrap(way: Launch, command: list[str], names: list[str], ucx: str, token: str) -> list[str]:
    """The command line with thole-rank before each program. Raises Trouble where it cannot be told where that is. ucx:
    folders with our library for UCX, where messages are to go through that."""
    places = launch.programs(way, command)
    if not places and launch.launcher_in(command) is None:
        raise Trouble(
            f"{command[0]} starts a launcher where --check does not see it",
            "put `thole run --check` before the launcher in there, or go without --check",
        )
    if not places:
        raise Trouble(
            f"no program is seen in `{shlex.join(command)}`, to be checked",
            "name one; where one is named, put the values of the launcher's arguments behind a =, or go without --check",
        )
    if listed := next((name for _, name, _ in launch.arguments(way, command) if name in way.listed), ""):
        raise Trouble(
            f"with --{listed} the programs are in the file {command[places[0]]}, where --check cannot look after them",
            "go without --check, or start one script that becomes the program of its rank (SLURM_PROCID)",
        )
    sought = next((command[place] for place in places if not command[place].startswith("/")), "")
    there = next((name for _, name, _ in launch.arguments(way, command) if name in launch.PATHS), "")
    if sought and there:
        remedy = f"give {sought} with its folder instead, or go without --check"
        raise Trouble(f"where the launcher's argument -{there} says there is {sought}, and no {paths.RANK}", remedy)
    expected = [name + EXPECTED.get(name, "") for name in names if name.startswith(EXPECTED_OF)]
    words = [str(paths.find(paths.RANK)), token, *([f"--ucx={ucx}"] if ucx else []), *expected, "--"]
    result = list(command)
    for place in reversed(places):
        result[place:place] = words
    return result


# ---- What ranks say --------------------------------------------------------------------------------


@dataclass
class Rank:
    """What is known of one rank: the last that it said."""

    name: str
    host: str
    state: str
    why: str
    counters: dict[str, int]
    size: int  # of the job, as its launcher told it; 0: it did not


def parse(text: str) -> Rank:
    """From what stands between "[thole TOKEN " and "]" with the line's end."""
    words, _, why = text.partition(" why=")
    values = dict(re.findall(r"(\w+)=(\S*)", words))
    counters = {name: int(value) for name, value in values.items() if value.isdecimal()}
    name = values.get("rank", "")
    return Rank(name, values.get("host", ""), values.get("state", ""), why, counters, counters.get("of", 0))


@dataclass
class Filter:
    """Standard error of a launch without the lines of thole-rank, which are kept."""

    token: str
    out: Callable[[bytes], object]
    ranks: list[Rank] = field(default_factory=list)
    _held: bytes = b""

    def feed(self, data: bytes) -> None:
        mark = b"[thole " + self.token.encode() + b" "
        self._held += data
        while True:
            before, found, rest = self._held.partition(mark)
            end = rest.find(b"]\n")
            if not found or (end < 0 and len(rest) < REPORT_MAX):
                break
            if end < 0:  # no report after all
                self.out(before + found)
                self._held = rest
                continue
            self.out(LABEL.sub(b"", before))
            self.ranks.append(parse(rest[:end].decode(errors="replace")))
            self._held = rest[end + 2 :]
        kept = len(found + rest) if found else _begun(before, mark)
        self.out(self._held[: len(self._held) - kept])
        self._held = self._held[len(self._held) - kept :]

    def close(self) -> None:
        self.out(self._held)
        self._held = b""


def _begun(data: bytes, mark: bytes) -> int:
    """How many bytes at the end may be the mark's first."""
    return next((size for size in range(min(len(mark) - 1, len(data)), 0, -1) if mark.startswith(data[-size:])), 0)


# ---- What is made of it ----------------------------------------------------------------------------


@dataclass
class Verdict:
    """The ranks of a launch, each by its last word, and what is wrong."""

    ranks: list[Rank]
    failures: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def judge(said: list[Rank], status: int = 0) -> Verdict:
    """status: the launcher's; negative: the signal that ended it."""
    last = _last(said)
    result = Verdict(last)
    if not last:
        kept = "the launcher started none, or keeps their standard error (an argument such as -e FILE)"
        why = f"the launcher was ended by {_signal_name(-status)}" if status < 0 else kept
        result.failures.append(f"no rank was heard of: {why}")
        return result
    for state, words in FAILURES.items():
        for why, ranks in _by_reason(last, state):
            result.failures.append(f"{_name(ranks)} {words} {why}".rstrip())
    size = max(rank.size for rank in last)
    known = {rank.name for rank in last}
    unheard = [str(number) for number in range(size) if str(number) not in known]
    if unheard and len(last) < size:
        result.failures.append(f"nothing was heard of {_ranks(unheard)}")
    result.lines = [*_totals(last), *_troubles(last)]
    return result


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):  # those for real-time have none
        return signal.Signals(number).name
    return f"signal {number}"


def _last(said: list[Rank]) -> list[Rank]:
    """The last word of each rank. Those without a number are told apart by the end that each has."""
    numbered = {rank.name: rank for rank in said if rank.name}
    others = [rank for rank in said if not rank.name and rank.state not in ("started", "began")]
    return sorted(numbered.values(), key=lambda rank: (len(rank.name), rank.name)) + others


def _by_reason(ranks: list[Rank], state: str) -> Iterator[tuple[str, list[Rank]]]:
    reasons: dict[str, list[Rank]] = {}
    for rank in ranks:
        if rank.state == state:
            reasons.setdefault(rank.why, []).append(rank)
    yield from reasons.items()


def _ranks(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"rank{'s' * (len(names) > 1)} {', '.join(names[:NAMED_MAX])}{more}"


def _name(ranks: list[Rank]) -> str:
    hosts = ", ".join(dict.fromkeys(rank.host for rank in ranks))
    names = [rank.name for rank in ranks if rank.name]
    return f"{_ranks(names) if names else 'a program'} on {hosts}"


def _totals(ranks: list[Rank]) -> Iterator[str]:
    used = [rank for rank in ranks if rank.state in USED]
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    many = "all of" if len(used) == len(ranks) else f"{len(used)} of"
    where = f"{len(hosts)} hosts ({', '.join(hosts[:NAMED_MAX])})" if len(hosts) > 1 else hosts[0]
    yield f"{many} {len(ranks)} ranks on {where} used Thole"

    def total(name: str) -> int:
        return sum(rank.counters.get(name, 0) for rank in used)

    for title, name in (("shared memory", "shm"), ("remote DMA", "verbs"), ("network", "network")):
        if not total(f"{name}_messages"):
            continue
        frames = total("frames_sent") if name == "network" else 0
        more = f", {frames} frames, {total('frames_raw') + total('frames_driver')} of them raw" if frames else ""
        if name == "verbs" and total("verbs_over"):
            more = f", {total('verbs_over')} times over to the network"
        yield f"  {title}: {total(f'{name}_messages')} messages, {size_text(total(f'{name}_bytes'))}{more}"
    silent = [rank.name for rank in used if rank.state == "began"]
    if silent:
        yield f"  {_ranks(silent)} ended before it could be said how much they sent"
    elif used and not sum(total(f"{name}_messages") for name in ("shm", "verbs", "network")):
        yield "  they sent nothing"


def _troubles(ranks: list[Rank]) -> Iterator[str]:
    """What failed in ranks that used Thole, in its own words: an MPI says but a number of it, or less."""
    told: dict[str, list[Rank]] = {}
    for rank in ranks:
        if rank.state in USED and rank.why:
            told.setdefault(rank.why, []).append(rank)
    for why, same in list(told.items())[:TROUBLES_MAX]:
        yield f"  {_name(same)}: {why}"


# ---- Running it ------------------------------------------------------------------------------------


def _pass_on(source: IO[bytes], sieve: Filter) -> None:
    with source:
        while data := os.read(source.fileno(), 65536):
            sieve.feed(data)
        sieve.close()


def _write(data: bytes) -> None:
    """To whoever reads our standard error. Where nobody does, ranks are still heard, and the launcher never waits."""
    with contextlib.suppress(OSError):
        while data:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:  # a terminal that some program has made one that does not wait
                select.select([], [2], [])


def say(sentence: str) -> None:
    """One of ours, likewise: a launcher is started, and its status ours, whoever reads."""
    _write(f"thole: {sentence}\n".encode(errors="backslashreplace"))


def _wait(process: subprocess.Popen[bytes], sieve: Filter, witness: Witness, alarm: float) -> int:
    """Until the launcher has ended; signals that it has not got by itself are handed on. A refused rank ends it, and
    the alarm that was to come to this process at a time, if any (0: none)."""
    refused = asked = 0.0  # since when
    while process.poll() is None:
        now = time.monotonic()
        if alarm and now > alarm:
            alarm = 0.0
            process.send_signal(signal.SIGALRM)
        if not refused and any(rank.state == "refused" for rank in list(sieve.ranks)):
            refused = now
        if asked and now > asked + KILLED_S:
            process.kill()
        elif not asked and refused and now > refused + REFUSED_S:
            asked = now
            process.terminate()
        info = signal.sigwaitinfo((*HANDED_ON, signal.SIGCHLD))
        if info.si_signo == signal.SIGCHLD or info.si_code == FROM_KERNEL:
            continue
        if not witness.has_seen(info.si_signo):
            process.send_signal(info.si_signo)
    return process.returncode


def _beginner(mask: set[int | signal.Signals]) -> Callable[[], None]:
    """What the launcher does before it is one: it gets all signals, and one when this process is killed; without --check
    it would be the one that is."""
    prctl, ours = ctypes.CDLL(None).prctl, os.getpid()

    def begin() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if os.getppid() != ours:  # killed already
            signal.raise_signal(signal.SIGTERM)

    return begin


@contextlib.contextmanager
def _signals_held() -> Iterator[tuple[set[int | signal.Signals], float]]:
    """Those that are handed on, and a child's end, wait to be asked for; gives the mask of before, which comes back,
    and when an alarm was to come that whoever started this process has set (0: none).

    A timer's come between them, for a look: sigtimedwait makes a signal up if this process is stopped, and goes on
    after its time.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*HANDED_ON, signal.SIGCHLD))
    left, _ = signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield before, left and time.monotonic() + left
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.sigtimedwait({signal.SIGALRM}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(way: Launch, command: list[str], names: list[str], ucx: str = "") -> int:
    """Run a launch and judge it; the exit status is the launcher's, unless that is 0 and a rank was without Thole."""
    sieve = Filter(secrets.token_hex(6), _write)
    words = wrap(way, command, names, ucx, sieve.token)
    with _signals_held() as (mask, alarm), contextlib.closing(Witness()) as witness:
        begun = _beginner(mask)
        try:
            process = subprocess.Popen(words, stderr=subprocess.PIPE, preexec_fn=begun, close_fds=False)
        except OSError as error:
            raise not_run(words[0], error, "check the command") from None
        assert process.stderr is not None
        reader = threading.Thread(target=_pass_on, args=(process.stderr, sieve), daemon=True)
        try:
            reader.start()
        except RuntimeError:
            process.terminate()
            process.wait()
            raise not_run("a thread of --check", OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "") from None
        status = _wait(process, sieve, witness, alarm)
        reader.join(LAST_WORDS_S)
    verdict = judge(list(sieve.ranks), status)
    for line in verdict.lines + verdict.failures:
        say(line)
    if status < 0:
        return 128 - status
    return status or (FAILED if verdict.failures else 0)
