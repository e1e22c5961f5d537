# SPDX-License-Identifier: BSD-3-Clause
"""The command line of a launch: its launcher, arguments and programs; which hosts it goes to, as far as that, files and
environment tell.

The hosts found here are shown and warned about; the settings of a run are the same with one host and with many.
How a launcher is told things is a row of its table: an MPI's own in families.py, others in starters.py.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from thole.mpi.launchers import Launch
from thole.mpi.starters import Starter, starter

# What batch systems leave for launchers: variables with a file of hosts, and with a list of them.
BATCH_FILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "COBALT_NODEFILE")
BATCH_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "LSB_HOSTS")

# Programs that run the rest of their command line: a launcher or a program may come after them.
WRAPPERS = frozenset(
    "env timeout taskset numactl nice ionice chrt stdbuf strace ltrace time perf setarch prlimit hwloc-bind nohup "
    "setsid systemd-run sudo doas runuser setpriv valgrind flock unshare ip gdb".split()
)
# Of these, the ones that give it an environment of its own: unless they have such an argument, or if they have.
CLEANS_UNLESS = {"sudo": r"-\w*E\w*|--preserve-env.*", "doas": r"(?!)", "systemd-run": r"--scope"}
CLEANS_IF = {"env": r"-|-\w*i|--ignore-environment", "setpriv": r"--reset-env"}
OTHER_TOOL = re.compile(r"--tool=(?!memcheck$).*")  # of valgrind's
COUNTS = ("n", "np")  # arguments whose value is a number of ranks
PATHS = ("path", "gpath")  # arguments whose value is folders where the launcher looks for programs
# What runs scripts: their arguments are no launcher's, and what they start is not seen.
INTERPRETER = re.compile(r"(ba|da|k|z|c|tc)?sh|g?make|python[\d.]*|perl|ruby")
LAUNCHER = re.compile(r"(mpi(exec|run)|orterun|prterun|prun)([.\-_]\w+)*")


@dataclass
class Hosts:
    """The hosts of a launch, in their order, each once, and who says so."""

    names: list[str] = field(default_factory=list)
    source: str = ""
    count: int = 0  # where only their number is known
    unread: bool = False  # some are told in what can be read but once, which is the launcher's

    @property
    def elsewhere(self) -> list[str]:
        """Those that are not this one, by name."""
        return [name for name in self.names if not _is_own(name)]

    @property
    def several(self) -> bool:
        """Whether ranks run on another host than this, so that messages leave it or files are needed there."""
        return bool(self.elsewhere) or self.count > 1 or self.unread


def _is_own(name: str) -> bool:
    """Batch systems name a host with its domain that calls itself without, and the other way round."""
    name, own = name.lower(), socket.gethostname().lower()
    short = own.partition(".")[0]
    return name in (own, short, "localhost", "127.0.0.1", "::1") or (own == short and name.partition(".")[0] == own)


# ---- The command line ------------------------------------------------------------------------------


def launcher_in(command: list[str]) -> str | None:
    """The word of a command line that starts ranks, or None."""
    if not command:
        return None
    if _launches(command, 0) or _resolves_to_launcher(command[0]):
        return command[0]
    if Path(command[0]).name in WRAPPERS:
        for index, word in enumerate(command):
            if _launches(command, index) and shutil.which(word):
                return word
    return None


def _launches(command: list[str], index: int) -> bool:
    name = Path(command[index]).name
    return LAUNCHER.fullmatch(name) is not None or _starter_at(command, index) is not None


def _resolves_to_launcher(word: str) -> bool:
    path = shutil.which(word)
    return path is not None and LAUNCHER.fullmatch(Path(path).resolve().name) is not None


def _starter_at(command: list[str], index: int) -> Starter | None:
    return starter(command[index], command[index + 1] if index + 1 < len(command) else "")


def starter_in(command: list[str]) -> Starter | None:
    """The launcher of a command line, where it belongs to no MPI."""
    word = launcher_in(command)
    return None if word is None else _starter_at(command, command.index(word))


def cleaner_in(command: list[str]) -> str | None:
    """The word before the launcher that keeps variables from it, or None."""
    launcher = launcher_in(command)
    before = command[: command.index(launcher)] if launcher is not None else []
    for index, word in enumerate(before):
        name, behind = Path(word).name, before[index + 1 :]
        if name in CLEANS_UNLESS and not any(re.fullmatch(CLEANS_UNLESS[name], one) for one in behind):
            return name
        if name in CLEANS_IF and any(re.fullmatch(CLEANS_IF[name], one) for one in behind):
            return name
    return None


@dataclass(frozen=True)
class Word:
    """An argument of a launcher, or (name "") the program that it is to start."""

    index: int  # in the command line
    name: str = ""  # without hyphens
    value: str = ""  # "" if it has none
    at: int = 0  # where the value is: the same word, or the next


def first_argument(launch: Launch, command: list[str]) -> int:
    """Where the launcher's arguments begin: at the end, where a script starts it."""
    launcher = launcher_in(command)
    first = Path(command[0]).name
    if launcher is None and (first in WRAPPERS or INTERPRETER.fullmatch(first)):
        return len(command)
    index = command.index(launcher) + 1 if launcher is not None else 1
    return index + launch.subcommand


def words(launch: Launch, command: list[str]) -> Iterator[Word]:
    """The launcher's arguments, and its programs. After a ":" there is another set of both."""
    index = first_argument(launch, command)
    skipping = False  # over a program's arguments, up to the next ":"
    read = _by_letters if launch.letters else _by_words
    while index < len(command):
        word = command[index]
        if word == ":":
            skipping = False
        elif not skipping and not word.startswith("-"):
            skipping = True
            yield Word(index)
        elif not skipping and word != "--":
            found = read(launch, command, index)
            yield from found
            if found[-1].at > index:
                # Hydra also takes -genv NAME=VALUE for -genv NAME VALUE.
                index = found[-1].at + (found[-1].name in launch.pairs and "=" not in found[-1].value)
        index += 1


def _by_words(launch: Launch, command: list[str], index: int) -> list[Word]:
    """-name value, --name value or --name=value. What looks like the next argument is no value."""
    name, sign, value = command[index].lstrip("-").partition("=")
    following = command[index + 1] if index + 1 < len(command) else ""
    if sign or name in launch.flags or re.match(r"-[-a-zA-Z]", following):
        return [Word(index, name, value, index)]
    return [Word(index, name, following, index + 1)]


def _by_letters(launch: Launch, command: list[str], index: int) -> list[Word]:
    """As getopt has it: --name value or --name=value, -vn4 for -v -n 4."""
    word = command[index]
    if word.startswith("--"):
        return _by_words(launch, command, index)
    found = []
    for place, letter in enumerate(word[1:], 2):
        if letter not in launch.letters:
            found.append(Word(index, letter, "", index))
            continue
        rest = word[place:] or "".join(command[index + 1 : index + 2])
        found.append(Word(index, letter, rest.lstrip("="), index if word[place:] else index + 1))
        break
    return found or [Word(index, "-", "", index)]


def arguments(launch: Launch, command: list[str]) -> Iterator[tuple[int, str, str]]:
    """The launcher's arguments: place in the command line, name without hyphens, value."""
    for word in words(launch, command):
        if word.name:
            yield word.index, word.name, word.value


def programs(launch: Launch, command: list[str]) -> list[int]:
    """Where the programs are in a command line; several with ":" between them."""
    return [word.index for word in words(launch, command) if not word.name]


def started(launch: Launch, command: list[str]) -> Iterator[str]:
    """The programs, and what wrappers among them start: the first word behind that is a program here, and so on. One
    without a "/" may be the wrapper's own (`perf stat ./app`), where one with it follows."""
    for place in programs(launch, command):
        own = list(itertools.takewhile(lambda word: word != ":", command[place:]))
        own = own if Path(own[0]).name in WRAPPERS else own[:1]
        found = [word for word in own if not word.startswith("-") and shutil.which(word)]
        for index, word in enumerate(found):
            yield word
            surely = "/" in word or not any("/" in later for later in found[index + 1 :])
            if surely and Path(word).name not in WRAPPERS:
                break


def under_memcheck(launch: Launch, command: list[str]) -> bool:
    """Whether valgrind starts a program, by its tool for memory: the one that it has unless another is named."""
    wrapped = any(Path(word).name == "valgrind" for word in started(launch, command))
    return wrapped and not any(OTHER_TOOL.fullmatch(word) for word in command)


def ranks(launch: Launch, command: list[str]) -> int:
    """How many are asked for by number, of all programs; 0: none are."""
    return sum(int(value) for _, name, value in arguments(launch, command) if name in COUNTS and value.isdecimal())


def widened(value: str, names: list[str]) -> str:
    """A list of variables as srun understands it, so that names are in it."""
    have = [word for word in value.split(",") if word]
    if "ALL" in (word.upper() for word in have) or not have:
        return value
    have = [] if value.upper() in ("NONE", "NIL") else have
    known = {word.partition("=")[0] for word in have}
    return ",".join(have + [name for name in names if name not in known])


# ---- Hosts -----------------------------------------------------------------------------------------


def find(launch: Launch, command: list[str]) -> Hosts:
    """The hosts of a launch; none if nothing names any, which means this one."""
    result = Hosts()
    for index, name, value in arguments(launch, command):
        if name in launch.lists:
            _take(result, _of_list(value), command[index])
        elif name in launch.files:
            _take_file(result, Path(value), f"{command[index]} {value}")
        elif name in launch.counts:
            result.count = _least(value)
    if not result.source:
        for variable in launch.variables + BATCH_FILES:
            if os.environ.get(variable):
                _take_file(result, Path(os.environ[variable]), variable)
                return result
        for variable in BATCH_LISTS:
            if os.environ.get(variable):
                _take(result, _of_list(os.environ[variable]), variable)
                return result
    return result


def _least(text: str) -> int:
    """2, 2-4, 2-4:2 or 1,2,4: the fewest hosts that are asked for."""
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0


def _take(result: Hosts, names: list[str], source: str) -> None:
    result.names = list(dict.fromkeys(result.names + names))
    result.source = f"{result.source}, {source}" if result.source else source


def _take_file(result: Hosts, path: Path, source: str) -> None:
    piped = os.path.exists(path) and not os.path.isfile(path)  # -f <(COMMAND)
    result.unread |= piped
    _take(result, [] if piped else _of_file(path), source)


def _of_list(text: str) -> list[str]:
    """host, host:4, [2001:db8::1]:4 and Slurm's node[1-3,7], separated by commas or spaces."""
    names = []
    for part in re.findall(r"(?:[^,\s\[]|\[[^\]]*\])+", text):
        names += _ranges(_without_slots(part))
    return [
        name for name in names if not name.startswith("+")
    ]  # Open MPI: +n1, the next of the others


def _without_slots(text: str) -> str:
    address = re.fullmatch(r"\[([0-9a-fA-F:]*:[0-9a-fA-F:.]*(?:%[^\]]*)?)\](:\d+)?", text)
    if address:
        return address[1]
    return text if text.count(":") > 1 else text.partition(":")[0]


RANGE_MAX = 4096  # hosts that one range of a list is written out to


def _ranges(text: str) -> list[str]:
    """node[1-3,7] as node1, node2, node3, node7."""
    match = re.fullmatch(r"([^\[]*)\[([\d,-]+)\](.*)", text)
    if match is None:
        return [text]
    names = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return [text]
        numbers = range(int(first), int(last or first) + 1)[:RANGE_MAX]
        names += [f"{match[1]}{number:0{len(first)}d}{match[3]}" for number in numbers]
    return [name for text in names for name in _ranges(text)]


def _of_file(path: Path) -> list[str]:
    """The first word of each line, without what follows a #. A file that cannot be read is the launcher's to report."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    words = [line.partition("#")[0].split() for line in lines]
    return [_without_slots(row[0]) for row in words if row]
