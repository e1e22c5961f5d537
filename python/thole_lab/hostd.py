# SPDX-License-Identifier: BSD-3-Clause
"""What runs inside a host that testbed.py makes: its first process, and the agent that asks it to start others.

    hostd.py keep SOCKET [lifeline]     process 1 of a host: starts what it is asked to, ends with its standard input
    hostd.py agent FOLDER [options] HOST COMMAND...      as `ssh` would: a shell's command line, no environment
    hostd.py start FOLDER [--cpus LIST] HOST COMMAND...  one program, with the caller's environment and folder

Owns the protocol between the two: one connection a command, with a line of JSON that carries the caller's standard
descriptors. Nothing outside of Python's library is used, so that it starts fast; a host's processes end with it,
because it is process 1 of their PID namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import selectors
import shlex
import signal
import socket
import struct
import sys
import time
from typing import Any

GRACE_S = 3.0  # from asking a command to end, whose caller has gone, to killing it
LINE_MAX = 16 << 20
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Options of ssh that are followed by a word.
WITH_WORD = frozenset("-" + letter for letter in "BbcDEeFIiJLlmOopQRSWw")


# ---- A connection's lines --------------------------------------------------------------------------


def line_of(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Lines:
    """Whole lines out of a stream socket, and the descriptors that came with them."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rest = b""
        self.descriptors: list[int] = []

    def read(self) -> list[dict[str, Any]] | None:
        """What has come by now; None at the end of the connection."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.connection, 1 << 16, 3)
        except (ConnectionError, OSError):
            return None
        self.descriptors += descriptors
        self.rest += data
        if not data or len(self.rest) > LINE_MAX:
            return None
        *lines, self.rest = self.rest.split(b"\n")
        return [json.loads(line) for line in lines]


# ---- Frames lost on arrival ------------------------------------------------------------------------


class Loss:
    """A share of the frames that come in at an interface is dropped by a program in the kernel.

    It is an XDP program in the driver: the other end of a veth then hands over single frames, and not the 64 KiB that
    segmentation offload would, so that what is lost is what a wire would lose. It goes away with its descriptor.
    """

    SYSCALL = 321 if os.uname().machine == "x86_64" else 280
    PROG_LOAD, LINK_CREATE = 5, 28
    TYPE_XDP, ATTACH_XDP, HAS_FRAGS, DRIVER = 6, 37, 32, 4

    def __init__(self, interface: str, permille: float) -> None:
        program = self._load(int(permille / 1000 * 0x100000000))
        try:
            index = socket.if_nametoindex(interface)
            self.link = self._call(
                self.LINK_CREATE, struct.pack("IIII", program, index, self.ATTACH_XDP, self.DRIVER)
            )
        finally:
            os.close(program)

    def _load(self, below: int) -> int:
        """Draw a number, drop the frame if it is smaller than that."""

        def code(opcode: int, registers: int, offset: int, value: int) -> bytes:
            return struct.pack("<BBhi", opcode, registers, offset, value)

        random = code(0x85, 0, 0, 7)  # call bpf_get_prandom_u32
        limit = struct.pack("<BBhI", 0x18, 1, 0, min(below, 0xFFFFFFFF)) + code(0, 0, 0, 0)
        smaller = code(0xAD, 0x10, 2, 0)  # if r0 < r1 skip two
        keep = code(0xB7, 0, 0, 2) + code(0x95, 0, 0, 0)
        drop = code(0xB7, 0, 0, 1) + code(0x95, 0, 0, 0)
        program = random + limit + smaller + keep + drop
        instructions = ctypes.create_string_buffer(program, len(program))
        license_name = ctypes.create_string_buffer(b"Dual BSD/GPL")
        return self._call(
            self.PROG_LOAD,
            struct.pack(
                "IIQQIIQII16s",
                self.TYPE_XDP,
                len(program) // 8,
                ctypes.addressof(instructions),
                ctypes.addressof(license_name),
                0,
                0,
                0,
                0,
                self.HAS_FRAGS,
                b"loss",
            ),
        )

    def _call(self, command: int, attributes: bytes) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(attributes, 128)
        done = libc.syscall(self.SYSCALL, command, buffer, 128)
        if done < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return int(done)

    def end(self) -> None:
        os.close(self.link)


# ---- Process 1 -------------------------------------------------------------------------------------


class Caller:
    """A connection, and the process that it asked for."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lines = Lines(connection)
        self.pid = 0
        self.kill_at = 0.0

    def signal(self, number: int) -> None:
        if self.pid:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    def tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall(line_of(message))


class Keeper:
    def __init__(self, path: str, lifeline: bool) -> None:
        self.selector = selectors.DefaultSelector()
        self.losses: dict[str, Loss] = {}
        self.cpus: list[int] = []
        self.callers: list[Caller] = []
        self.doomed: list[Caller] = []
        wake, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path + ".new")
        self.listener.listen(64)
        os.rename(path + ".new", path)  # who sees the name can connect
        self.selector.register(wake, selectors.EVENT_READ, None)
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        if lifeline:
            self.selector.register(0, selectors.EVENT_READ, None)

    def run(self) -> None:
        while True:
            timeout = 0.2 if self.doomed else None
            for key, _ in self.selector.select(timeout):
                if key.data is not None:
                    self.hear(key.data)
                elif key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    caller = Caller(connection)
                    self.callers.append(caller)
                    self.selector.register(connection, selectors.EVENT_READ, caller)
                elif key.fd == 0:
                    if not os.read(0, 1):
                        return
                else:
                    os.read(key.fd, 4096)
            self.reap()

    def reap(self) -> None:
        """All that have ended, orphans too; and those who do not end when they should."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                break
            for caller in self.callers:
                if caller.pid == pid:
                    caller.pid = 0
                    caller.tell({"status": os.waitstatus_to_exitcode(status)})
            self.doomed = [caller for caller in self.doomed if caller.pid != pid]
        for caller in self.doomed:
            if time.monotonic() > caller.kill_at:
                caller.signal(signal.SIGKILL)

    def hear(self, caller: Caller) -> None:
        messages = caller.lines.read()
        if messages is None:
            self.selector.unregister(caller.connection)
            caller.connection.close()
            self.callers.remove(caller)
            if caller.pid:
                caller.signal(signal.SIGTERM)
                caller.kill_at = time.monotonic() + GRACE_S
                self.doomed.append(caller)
            return
        for message in messages:
            if "signal" in message:
                caller.signal(int(message["signal"]))
            elif "command" in message:
                self.start(caller, message)
            else:
                caller.tell(self.answer(message))

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        if "times" in message:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return {"seconds": used.ru_utime + used.ru_stime}
        if "clear" in message:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all of this PID namespace but us
            return {}
        if "end" in message:
            sys.exit(0)
        if "cpus" in message:
            self.cpus = message["cpus"]
            return {}
        if "loss" in message:
            interface = str(message["loss"])
            if interface in self.losses:
                self.losses.pop(interface).end()
            try:
                if message["permille"] is not None:
                    self.losses[interface] = Loss(interface, float(message["permille"]))
            except OSError as error:
                return {"error": error.strerror}
            return {}
        return {"error": "not understood"}

    def start(self, caller: Caller, message: dict[str, Any]) -> None:
        descriptors = caller.lines.descriptors
        caller.pid = os.fork()
        if caller.pid == 0:
            self.become(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        caller.lines.descriptors = []
        caller.tell({"pid": caller.pid})

    def become(self, message: dict[str, Any], descriptors: list[int]) -> None:
        command = message["command"]
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Python ignores these two for itself.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.setsid()
            # They may be among the numbers 0 to 2 themselves.
            spare = [os.dup(descriptor) for descriptor in descriptors]
            spare = [os.dup(descriptor) if descriptor < 3 else descriptor for descriptor in spare]
            for number, descriptor in enumerate(spare):
                os.dup2(descriptor, number)
            os.closerange(3, 1 << 10)
            cpus = message.get("cpus") or self.cpus
            if cpus:
                os.sched_setaffinity(0, cpus)
            os.chdir(message.get("folder") or "/")
            os.execvpe(command[0], command, {**os.environ, **(message.get("environment") or {})})
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)


# ---- The agent -------------------------------------------------------------------------------------


def call(path: str, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> socket.socket:
    """Connect, and hand over a request."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    line = line_of(message)
    sent = socket.send_fds(connection, [line[:1024]], list(descriptors)) if descriptors else 0
    connection.sendall(line[sent:])
    return connection


def ask(path: str, message: dict[str, Any]) -> dict[str, Any]:
    """One question and its answer."""
    with call(path, message) as connection:
        lines = Lines(connection)
        while True:
            answers = lines.read()
            if answers is None:
                return {"error": "the host has gone"}
            if answers:
                return answers[0]


def wait(connection: socket.socket) -> int:
    """Pass signals on until the command has ended; its exit status."""
    lines = Lines(connection)
    for number in FORWARDED:
        signal.signal(number, lambda n, _: connection.sendall(line_of({"signal": int(n)})))
    while True:
        answers = lines.read()
        if answers is None:
            return 255
        for answer in answers:
            if "status" in answer:
                status = int(answer["status"])
                return status if status >= 0 else 128 - status


def agent(folder: str, words: list[str]) -> int:
    """Options of ssh are skipped; what follows the host's name is a line for the shell."""
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in WITH_WORD else words[1:]
    if len(words) < 2:
        print("thole agent: no host, or no command", file=sys.stderr)
        return 255
    name = words[0].rpartition("@")[2]
    return begin(folder, name, {"command": ["/bin/sh", "-c", " ".join(words[1:])]})


def start(folder: str, words: list[str]) -> int:
    # Temporary files are each host's own, as its keeper knows.
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    try:
        message: dict[str, Any] = {"environment": environment, "folder": os.getcwd()}
    except OSError:
        print("thole agent: the working folder is gone", file=sys.stderr)
        return 255
    if words[0] == "--cpus":
        message["cpus"] = [int(cpu) for cpu in words[1].split(",")]
        words = words[2:]
    message["command"] = words[1:]
    return begin(folder, words[0], message)


def begin(folder: str, name: str, message: dict[str, Any]) -> int:
    try:
        connection = call(os.path.join(folder, name), message, (0, 1, 2))
    except OSError as error:
        known = error.errno not in (errno.ENOENT, errno.ECONNREFUSED)
        reason = error.strerror if known else "there is no such host"
        print(f"thole agent: {shlex.quote(name)}: {reason}", file=sys.stderr)
        return 255
    return wait(connection)


def main() -> int:
    role, *words = sys.argv[1:]
    if role == "keep":
        Keeper(words[0], "lifeline" in words[1:]).run()
        return 0
    return {"agent": agent, "start": start}[role](words[0], words[1:])


if __name__ == "__main__":
    sys.exit(main())
