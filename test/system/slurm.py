# SPDX-License-Identifier: BSD-3-Clause
"""A private Slurm over the hosts of a testbed: Debian's daemons, with their own folder, key and address space.

munged and slurmctld run in the first host, a slurmd in each. Nothing of the machine's own Slurm is read or written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from thole_lab.process import reap, wait_until
from thole_lab.testbed import Made, Testbed

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
START_S = 60.0  # for daemons to find each other, even on a busy machine
CORES = 4  # that each host is said to have

CONFIG = """\
ClusterName=thole
SlurmctldHost={names[0]}({addresses[0]})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing_program() -> str:
    """The first program of Slurm's that is not here, or nothing."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return next((name for name in PROGRAMS if shutil.which(name, path=path) is None), "")


class Slurm(Made):
    """Made by `with`; ends its daemons by their processes."""

    def __init__(self, hosts: Testbed) -> None:
        self.hosts = hosts
        self.folder = Path()
        self.daemons: list[subprocess.Popen[bytes]] = []

    def make(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="thole-slurm-"))
        self._configure()
        self._start_all()

    def close(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            reap(daemon)
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What commands of Slurm need to know this one."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def _configure(self) -> None:
        self.folder.chmod(0o755)  # munged refuses a socket that others cannot reach
        for name in ("state", *(f"spool.{host}" for host in self.hosts.names)):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        text = CONFIG.format(folder=self.folder, names=self.hosts.names, addresses=self.hosts.addresses)
        for name, address in zip(self.hosts.names, self.hosts.addresses):
            text += f"NodeName={name} NodeAddr={address} CPUs={CORES}\n"
        (self.folder / "slurm.conf").write_text(text)
        # In these hosts no control groups are mounted, and only this folder of theirs is not shared.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.hosts.folder}/tmp\n")

    def _start_all(self) -> None:
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid"}
        files |= {"log-file": "munge.log", "seed-file": "munge.seed"}
        words = [f"--{name}={self.folder / file}" for name, file in files.items()]
        self._start(0, "munged", "--foreground", "--force", *words)
        self._await("munged", (self.folder / "munge.socket").exists)
        self._start(0, "slurmctld", "-D")
        for host in range(len(self.hosts.names)):
            self._start(host, "slurmd", "-D")
        self._await("slurmd", self._ready)

    def _start(self, host: int, *words: str) -> None:
        path = shutil.which(words[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        with (self.folder / f"{words[0]}.{host}.log").open("wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    self.hosts.command(host, str(path), *words[1:]),
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _ready(self) -> bool:
        done = self.run("sinfo", "--noheader", "--format=%T %D")
        return done.stdout.split() == ["idle", str(len(self.hosts.names))]

    def _await(self, name: str, condition: Callable[[], bool]) -> None:
        def ended() -> bool:
            return any(daemon.poll() is not None for daemon in self.daemons)

        if not wait_until(lambda: condition() or ended(), START_S) or ended():
            logs = [path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log"))]
            raise RuntimeError(f"{name} does not start:\n" + "\n".join(logs))

    def run(
        self, *words: str | os.PathLike[str], env: dict[str, str] | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """A command in the first host, that knows this Slurm."""
        return subprocess.run(
            self.hosts.command(0, *words),
            env={**(os.environ if env is None else env), **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
