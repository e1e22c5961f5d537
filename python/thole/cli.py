# SPDX-License-Identifier: BSD-3-Clause
"""The command line: one subcommand a module, one line and exit code 2 for what a user can mend."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import shlex
import signal
import sys

from thole import __version__
from thole.base.streams import streams
from thole.base.trouble import Trouble

# In the order of the help. Nothing else here knows the laboratory, whose one is left out where that is not installed.
COMMANDS = (
    "thole.commands.run",
    "thole.commands.info",
    "thole.commands.perf",
    "thole.commands.peers",
    "thole.commands.mx_info",
    "thole.commands.trace",
    "thole_lab.compare",
    "thole.commands.setup",
    "thole.commands.driver",
    "thole.commands.tune",
)

# What writing to the standard output may come to; nothing else fails so without a file's name.
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _named(words: list[str]) -> tuple[str, ...]:
    """Modules of the commands that these words may mean: of one that is named first it alone, which starts sooner."""
    return tuple(name for name in COMMANDS if words and _command_of(name) == words[0] and _is_here(name)) or COMMANDS


def _is_here(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _command_of(module: str) -> str:
    return module.rpartition(".")[2].replace("_", "-")


def parser(modules: tuple[str, ...] = COMMANDS) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="thole", description="Message passing between processes of ordinary Linux machines."
    )
    top.add_argument("--version", action="version", version=f"thole {__version__}")
    commands = top.add_subparsers(metavar="command", required=True)
    for name in modules:
        if _is_here(name):
            importlib.import_module(name).add_parser(commands)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return top


def main(words: list[str] | None = None) -> int:
    """Run a command. What it printed has left this process when this returns."""
    _have_children()
    with streams():
        try:
            status = _status(words)
            sys.stdout.flush()
            return status
        except BrokenPipeError:
            # Who read a capture, which goes past the streams (`thole trace -w - | head`), has gone: that ended it.
            return 0
        except OSError as error:
            return _complain(_of_files(error))


def _of_files(error: OSError) -> str:
    """What is said of a file that could not be had, or of the standard output; others are raised."""
    if error.filename is None and _without_folder():
        return "the working folder is gone; cd to one that is there"
    if error.filename is None and error.errno not in OUTPUT_ERRORS:
        raise error
    _drop_output()
    return f"{error.filename or 'the output cannot be written'}: {error.strerror}"


def _status(words: list[str] | None) -> int:
    try:
        return _command(words)
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in ("rich", "matplotlib"):
            raise
        name = error.name.split(".")[0]
        # An environment that is active may be another Python's than what this file's first line names.
        remedy = f"{shlex.quote(sys.executable)} -m pip install {name}, or (the system's) apt install python3-{name}"
        return _complain(f"the Python package {name} is missing for {sys.executable}; {remedy}")
    except Trouble as trouble:
        return _complain(str(trouble))
    except KeyboardInterrupt:
        return _complain("interrupted", 130)


def _command(words: list[str] | None) -> int:
    words = sys.argv[1:] if words is None else words
    known = parser(_named(words))
    if not words:
        known.print_help(sys.stderr)
        return 2
    try:
        arguments, rest = known.parse_known_args(words)
        if rest:
            arguments.parser.error(f"unrecognized arguments: {' '.join(rest)}")  # with the command's usage
    except SystemExit as end:
        # argparse has said all: help, the version, or what it does not understand.
        return int(end.code or 0)
    return int(arguments.function(arguments))


def _complain(text: str, status: int = 2) -> int:
    print(f"thole: {text}", file=sys.stderr)
    return status


def _have_children() -> None:
    """Who started us may ignore the ends of children: the kernel then keeps no exit status, and all seem to be 0."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _without_folder() -> bool:
    """Whether the folder that we were started in was removed: no relative path has a meaning then."""
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _drop_output() -> None:
    """Lose what is left in it, so that Python does not complain of it at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
