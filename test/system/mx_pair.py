#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run an MX program that takes two: `mx_pair.py PROGRAM [ARGUMENT]...`, a receiver and a sender on this host."""

from __future__ import annotations

import subprocess
import sys


def main(command: list[str]) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        ready = receiver.stdout.readline().split()  # "ready", its NIC id, its endpoint
        if ready[:1] != ["ready"]:
            return receiver.wait() or 1
        status = subprocess.run([*command, "-d", ready[1], "-r", ready[2]], check=False).returncode
        if status != 0:
            receiver.kill()
        return status or receiver.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
