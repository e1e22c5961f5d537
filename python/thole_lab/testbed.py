# SPDX-License-Identifier: BSD-3-Clause
"""Two or more hosts inside this machine, for comparisons, benchmarks and tests across a network.

A host is a process with namespaces of its own for network, host name, processes, mounts and System V IPC; two are
joined by a veth, more by a bridge. MPIs start their ranks in them through an agent that they take for ssh. Owns how
they are made and joined; hostd.py is what runs inside. Nothing has a name outside of a temporary folder, and all of it
ends with the process that made it, however that ends. Root is not needed where the kernel lets users make user
namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from thole.base.trouble import Trouble
from thole.mpi.families import Mpi

from thole_lab import hostd
from thole_lab.launchers import across, inside
from thole_lab.process import reap, wait_until

HERE = Path(__file__).resolve().parent
INTERFACE = "v0"
HOSTS_MAX = 200  # numbers of one address byte
START_S = 20.0  # for a Python to start, even on a busy machine
NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child")
REMEDY = "run as root, or go without hosts"

# Run by each host's first process before it becomes the keeper. $1 is the folder, $2 the host's name. The root of a user
# namespace may set that by the system call alone.
SETUP = """
set -e
hostname "$2" 2>/dev/null || echo "$2" >/proc/sys/kernel/hostname
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs -o mode=1777 none /dev/shm
mount --bind "$1/names" /etc/hosts
mount -t tmpfs -o mode=1777 none "$1/tmp"
ip link set lo up
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad 2>/dev/null || true
"""

Self = TypeVar("Self", bound="Made")

SWITCH_SETUP = "set -e; mount -t proc none /proc; ip link set lo up"


def _unshare() -> list[str]:
    return ["unshare"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])


def missing_right() -> str:
    """Why hosts cannot be made here, in a sentence that says what would help; empty where they can."""
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("mount", "mount")):
        if shutil.which(program) is None:
            return f"the program {program} is missing (package {package})"
    script = "mount -t proc none /proc && mount -t sysfs none /sys && mount -t tmpfs none /dev/shm && "
    script += "ip link add v0 type veth peer name v1"
    command = [*_unshare(), *NAMESPACES, "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    if done.returncode == 0:
        return ""
    said = next(iter(done.stderr.strip().splitlines()), f"exit status {done.returncode}")
    if "unshare:" in said:
        if os.geteuid() == 0:
            return f"this container may not make namespaces: CAP_SYS_ADMIN is missing ({said})"
        return (
            "making namespaces needs root (CAP_SYS_ADMIN) or user namespaces, which are refused here: "
            f"sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns ({said})"
        )
    if "mount" in said:
        return f"mounting inside a namespace is refused: CAP_SYS_ADMIN, or a container's profile ({said})"
    return f"a pair of veth interfaces is refused: CAP_NET_ADMIN, or a kernel without veth ({said})"


class Loopback:
    """In place of two hosts: halves of a job on this one, that reach each other by the loopback interface."""

    interface = "lo"
    options = ("interface=lo",)

    def __init__(self) -> None:
        self.names = ("one", "two")
        self.cores: list[int] = []

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def pin(self, cpus: Sequence[Sequence[int]]) -> None:
        self.cores = [one for each in cpus for one in each]

    def launch(self, mpi: Mpi, ranks: int, *program: str | os.PathLike[str]) -> list[str]:
        """Each half is told by its environment that it is on a host of its own."""
        command = [str(mpi.launcher), *inside(mpi, self.cores, ranks)]
        for name, each in zip(self.names, (ranks - ranks // 2, ranks // 2)):
            command += [":"] if name != self.names[0] else []
            command += ["-n", str(each), "env", f"THOLE_HOST={name}", *map(str, program)]
        return command

    def command(self, host: int, *words: str | os.PathLike[str]) -> list[str]:
        return [str(word) for word in words]

    def clear(self) -> None:
        """Whoever started a job here ends it himself."""


class Made:
    """Something with processes or files, that is there for a `with`: whole, or not at all."""

    def make(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """What was made so far, if that came to an end in the middle."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        try:
            self.make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Testbed(Made):
    """`count` hosts, made by `with`. Their number in arguments and lists begins with 0."""

    __test__ = False  # no class of tests, whatever its name
    options: tuple[str, ...] = ()  # of Thole, to be set in these hosts

    def __init__(self, count: int = 2, mtu: int = 1500) -> None:
        if not 2 <= count <= HOSTS_MAX:
            raise ValueError(f"{count} hosts")
        self.mtu = mtu
        self.interface = INTERFACE
        self.names = [f"host{number + 1}" for number in range(count)]
        self.addresses = [f"10.83.0.{number + 1}" for number in range(count)]
        self.macs = [f"02:83:00:00:00:{number + 1:02x}" for number in range(count)]
        self.folder = Path()
        self._switch: subprocess.Popen[bytes] | None = None
        self._starters: list[subprocess.Popen[bytes]] = []

    # ---- Making and removing --------------------------------------------------------------------

    def make(self) -> None:
        reason = missing_right()
        if reason:
            raise Trouble(f"no hosts can be made: {reason}", REMEDY)
        self.folder = Path(tempfile.mkdtemp(prefix="thole-hosts-"))
        (self.folder / "tmp").mkdir()
        names = ["127.0.0.1 localhost", "::1 localhost"]
        names += [f"{address} {name}" for address, name in zip(self.addresses, self.names)]
        (self.folder / "names").write_text("\n".join(names) + "\n")
        python = shlex.join([sys.executable, "-S", "-E", str(HERE / "hostd.py"), "agent", str(self.folder)])
        self.agent.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        self.agent.chmod(0o700)

        outer = ["--net", "--mount", "--pid", "--fork", "--kill-child"]
        command = [*_unshare(), *outer, *self._keeper("switch", SWITCH_SETUP, "lifeline")]
        # Its standard input is what it lives by: it ends when we do, even if we are killed.
        with self._log("switch") as log:
            self._switch = subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self._await("switch", self._switch)
        for name in self.names:
            # The process number of `unshare`, as the switch sees it, names the host's network to `ip`.
            script = f'echo $$ >"{self.folder / name}.pid"; exec "$@"'
            words = ["sh", "-c", script, "sh", "unshare", *NAMESPACES, *self._keeper(name, SETUP)]
            with self._log(name) as log:
                self._starters.append(
                    subprocess.Popen(
                        self._start("switch", words),
                        env=self._environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        for name, starter in zip(self.names, self._starters):
            self._await(name, starter)
        self._join([(self.folder / f"{name}.pid").read_text().strip() for name in self.names])

    def _keeper(self, name: str, setup: str, *more: str) -> list[str]:
        python = [sys.executable, "-S", "-E", str(HERE / "hostd.py")]
        script = setup + '\nshift 2; exec "$@"'
        words = [*python, "keep", str(self.folder / name), *more]
        return ["sh", "-c", script, "sh", str(self.folder), name, *words]

    def _environment(self) -> dict[str, str]:
        """What a login on a host has; what a program needs beyond that its launcher must bring there."""
        own = ("HOME", "USER", "LANG", "XDG_CONFIG_HOME")
        kept = {name: os.environ[name] for name in own if name in os.environ}
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "TMPDIR": str(self.folder / "tmp"), "SHELL": "/bin/sh", **kept}

    def _log(self, name: str) -> BinaryIO:
        return (self.folder / f"{name}.log").open("wb")

    def _await(self, name: str, process: subprocess.Popen[bytes]) -> None:
        made = self.folder / name
        wait_until(lambda: made.exists() or process.poll() is not None, START_S)
        if not made.exists():
            said = (self.folder / f"{name}.log").read_text(errors="replace").strip()
            raise Trouble(f"{name} could not be made: {said or 'no reason given'}", REMEDY)

    def _join(self, pids: Sequence[str]) -> None:
        lines = []
        if len(pids) == 2:
            ends = [f"{self.interface} netns {pid}" for pid in pids]
            lines.append(f"ip link add {ends[0]} type veth peer name {ends[1]}")
        else:
            lines += ["ip link add bridge0 type bridge mcast_snooping 0", "ip link set bridge0 up"]
            for number, pid in enumerate(pids):
                lines.append(f"ip link add {self.interface} netns {pid} type veth peer name p{number}")
                lines.append(f"ip link set p{number} master bridge0 mtu {self.mtu} up")
        self._output("switch", "sh", "-ec", "\n".join(lines))
        for number, name in enumerate(self.names):
            device = f"dev {self.interface}"
            lines = [
                f"ip link set {device} address {self.macs[number]} mtu {self.mtu} up",
                f"ip address add {self.addresses[number]}/24 {device}",
                *self._forgotten(number),
            ]
            self._output(name, "sh", "-ec", "\n".join(lines))

    def _forgotten(self, number: int) -> list[str]:
        """What Linux drops when an interface goes down, by which TCP connections of a launcher may stand: addresses of
        IPv6, and neighbours. These are static, so that no question to the network falls into a measurement."""
        six = f"ip address replace fd83::{number + 1:x}/64 dev {self.interface} nodad 2>/dev/null || true"
        return [six] + [
            f"ip neighbour replace {address} lladdr {mac} dev {self.interface} nud permanent"
            for other, (address, mac) in enumerate(zip(self.addresses, self.macs))
            if other != number
        ]

    def close(self) -> None:
        """End all that runs in the hosts, and them."""
        if self._switch is not None:
            assert self._switch.stdin is not None
            self._switch.stdin.close()
            reap(self._switch)
            self._switch = None
        for starter in self._starters:
            reap(starter)
        self._starters = []
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = Path()

    # ---- Use ------------------------------------------------------------------------------------

    @property
    def agent(self) -> Path:
        """The program to be named to an MPI in place of ssh."""
        return self.folder / "agent"

    def _start(self, name: str, words: Sequence[str], cpus: Sequence[int] = ()) -> list[str]:
        chosen = ["--cpus", ",".join(map(str, cpus))] if cpus else []
        python = [sys.executable, "-S", "-E", str(HERE / "hostd.py")]
        return [*python, "start", str(self.folder), *chosen, name, *words]

    def command(
        self, host: int, *words: str | os.PathLike[str], cpus: Sequence[int] = ()
    ) -> list[str]:
        """The command line, for use out here, that runs one in a host with its caller's environment and folder."""
        return self._start(self.names[host], [str(word) for word in words], cpus)

    def _output(self, name: str, *words: str) -> str:
        done = subprocess.run(
            self._start(name, words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        if done.returncode != 0:
            raise Trouble(f"{name}: {' '.join(words)}: {done.stderr.strip()}", REMEDY)
        return done.stdout

    def output(self, host: int, *words: str) -> str:
        """What a short command in a host prints. Raises Trouble where it fails."""
        return self._output(self.names[host], *words)

    def launch(self, mpi: Mpi, ranks: int, *program: str | os.PathLike[str]) -> list[str]:
        """The launcher's command line, to be run in host 0, for ranks in blocks on all hosts."""
        words = across(mpi, self.names, str(self.agent), self.interface, ranks)
        return [*words, *map(str, program)]

    def pin(self, cpus: Sequence[Sequence[int]]) -> None:
        """From now on all that is started in host i runs on these CPUs number i, in turn; none: on all."""
        for number, name in enumerate(self.names):
            self._ask(name, {"cpus": list(cpus[number % len(cpus)]) if cpus else []})

    def set_mtu(self, mtu: int) -> None:
        self.mtu = mtu
        for number in range(len(self.names)):
            self.output(number, "ip", "link", "set", "dev", self.interface, "mtu", str(mtu))
            if len(self.names) > 2:
                self._output("switch", "ip", "link", "set", "dev", f"p{number}", "mtu", str(mtu))

    def set_link(self, host: int, up: bool) -> None:
        self.output(host, "ip", "link", "set", "dev", self.interface, "up" if up else "down")
        if up:
            self.output(host, "sh", "-ec", "\n".join(self._forgotten(host)))

    def set_loss(self, permille: float | None) -> None:
        """Lose so many of a thousand frames at each arrival; 0: none, but split as on a wire; None: as at first."""
        for name in self.names:
            self._ask(name, {"loss": self.interface, "permille": permille})

    def traffic(self, host: int) -> dict[str, int]:
        """rx_bytes, tx_bytes, rx_packets, tx_packets of a host's interface up to now."""
        words = ["ip", "-s", "-j", "link", "show", "dev", self.interface]
        stats = json.loads(self.output(host, *words))[0]["stats64"]
        return {
            f"{way}_{what}": int(stats[way][what])
            for way in ("rx", "tx")
            for what in ("bytes", "packets")
        }

    def cpu_seconds(self) -> float:
        """Of all that has ended in the hosts."""
        return sum(float(str(self._ask(name, {"times": 1})["seconds"])) for name in self.names)

    def clear(self) -> None:
        """Kill all that runs in the hosts."""
        for name in self.names:
            self._ask(name, {"clear": 1})

    def end(self, host: int) -> None:
        """A host dies, with all in it and its interface; the others stay."""
        with contextlib.suppress(Trouble):
            self._ask(self.names[host], {"end": 1})
        self._starters[host].wait(timeout=START_S)

    def _ask(self, name: str, message: dict[str, object]) -> dict[str, object]:
        try:
            answer = hostd.ask(str(self.folder / name), message)
        except OSError as error:
            answer = {"error": error.strerror}
        if "error" in answer:
            raise Trouble(f"{name} cannot: {answer['error']}", REMEDY)
        return answer
