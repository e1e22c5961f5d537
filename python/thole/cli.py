# SPDX-License-Identifier: BSD-3-Clause
"""The command line: one subcommand a module, one line and exit code 2 for what a user can mend."""

from __future__ import annotations

import argparse
import os
import sys

from thole import __version__
from thole.trouble import Trouble


def parser() -> argparse.ArgumentParser:
    from thole import compare, info, mx_info, peers, perf, run, setup, trace, tune

    top = argparse.ArgumentParser(
        prog="thole", description="Message passing between processes of ordinary Linux machines."
    )
    top.add_argument("--version", action="version", version=f"thole {__version__}")
    commands = top.add_subparsers(metavar="command", required=True)
    for module in (run, info, perf, peers, mx_info, trace, compare, setup, tune):
        module.add_parser(commands)
    return top


def main(words: list[str] | None = None) -> int:
    try:
        arguments = parser().parse_args(words)
        return int(arguments.function(arguments))
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in ("rich", "matplotlib"):
            raise
        name = error.name.split(".")[0]
        print(
            f"thole: the Python package {name} is missing; pip install {name}, or apt install python3-{name}",
            file=sys.stderr,
        )
    except Trouble as trouble:
        print(f"thole: {trouble}", file=sys.stderr)
    except KeyboardInterrupt:
        print("thole: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`thole info | head`): not worth a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 2
