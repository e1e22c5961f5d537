#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What launchers of MPIs take for ssh between guests.

    shell.py serve                          runs in a guest, until it is told to end
    shell.py [options] HOST COMMAND...      as `ssh` would: a shell's command line, no environment, its exit status
    shell.py --end HOST                     there is nothing more to do

A connection a command. What the command says comes back in pieces behind their length; after a length of 0 comes its
exit status. Who closes the connection ends the command. Nothing keeps others of the network out: guests have none.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PORT = 5009
WAIT_S = 120.0  # for a guest to start, on a busy machine
WITH_WORD = frozenset("-" + letter for letter in "BbcDEeFIiJLlmOopQRSWw")  # options of ssh that a word follows
LENGTH = struct.Struct("!I")


def end_with(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """The caller sends nothing more, so what can be read is its end."""
    connection.recv(1)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def run(connection: socket.socket, line: str) -> None:
    process = subprocess.Popen(
        ["/bin/sh", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/tmp",
        start_new_session=True,
    )
    threading.Thread(target=end_with, args=(connection, process), daemon=True).start()
    assert process.stdout is not None
    try:
        while piece := os.read(process.stdout.fileno(), 1 << 16):
            connection.sendall(LENGTH.pack(len(piece)) + piece)
        status = process.wait()
        connection.sendall(LENGTH.pack(0) + LENGTH.pack(status if status >= 0 else 128 - status))
    except OSError:
        pass  # nobody waits for it any more


def serve() -> None:
    listener = socket.create_server(("", PORT))
    while True:
        connection, _ = listener.accept()
        line = connection.makefile("rb").readline().decode().rstrip("\n")
        if line == "":
            return
        threading.Thread(target=run, args=(connection, line), daemon=True).start()


def call(host: str, line: str) -> socket.socket:
    last = time.monotonic() + WAIT_S
    while True:
        try:
            connection = socket.create_connection((host, PORT), 10)
            break
        except OSError:
            if time.monotonic() > last:
                raise
            time.sleep(0.2)
    connection.settimeout(None)
    connection.sendall(line.encode() + b"\n")
    return connection


def ask(host: str, line: str) -> int:
    stream = call(host, line).makefile("rb")
    while length := LENGTH.unpack(stream.read(LENGTH.size))[0]:
        sys.stdout.buffer.write(stream.read(length))
        sys.stdout.buffer.flush()
    return int(LENGTH.unpack(stream.read(LENGTH.size))[0])


def main() -> int:
    words = sys.argv[1:]
    if words == ["serve"]:
        serve()
        return 0
    if words[0] == "--end":
        call(words[1], "").close()
        return 0
    while words[0].startswith("-"):
        words = words[2:] if words[0] in WITH_WORD else words[1:]
    return ask(words[0].rpartition("@")[2], " ".join(words[1:]).replace("\n", " "))


if __name__ == "__main__":
    sys.exit(main())
