# SPDX-License-Identifier: BSD-3-Clause
"""The stacks that are compared, as tables: each MPI's own ways through a node, or between hosts, and Thole under each.

A peer's mpi is the name of a family in thole.mpi, which also knows what each MPI needs to use Thole.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field, replace
from pathlib import Path

from thole.base import paths
from thole.mpi.families import Mpi, family_named


@dataclass(frozen=True)
class Peer:
    """One row. {fabric} in a value is the MPI's libfabric, {fabric_dir} its folder, {interface} that to other hosts."""

    name: str
    mpi: str
    transport: str
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    default: bool = False  # what a user of this MPI gets without asking
    options: tuple[str, ...] = ()  # of Thole
    provider: Path | None = None  # folder of that of another build of Thole
    heap: bool = False  # its buffers are in the shared heap: measured where these are large
    through: str = "libfabric"  # the MPI's interface to Thole: each is measured by itself

    @property
    def thole(self) -> bool:
        return self.name.startswith("thole-")

    @property
    def title(self) -> str:
        return f"{family_named(self.mpi).title}, {self.transport}"

    @property
    def link(self) -> str:
        """How Thole goes between hosts: udp, raw or both."""
        return dict(option.split("=", 1) for option in self.options).get("link", "")

    def settings(self, mpi: Mpi, interface: str = "") -> dict[str, str]:
        """The environment of a peer; for Thole it is what `thole run` says."""
        folder = mpi.fabric.parent if mpi.fabric else ""
        names = {"fabric": mpi.fabric or "", "fabric_dir": folder, "interface": interface}
        return {name: value.format(**names) for name, value in self.environment.items()}

    def libraries(self) -> dict[str, Path]:
        """Those that are another build's of Thole, by the variable that leads to them."""
        if not self.provider:
            return {}
        found = {"FI_PROVIDER_PATH": self.provider / paths.PROVIDER}
        if self.through == "ucx":
            found["LD_LIBRARY_PATH"] = self.provider.parent / "ucx" / paths.UCX
        if self.heap:
            found["LD_PRELOAD"] = self.provider.parent / "heap" / paths.HEAP
        return found

    def provided(self) -> dict[str, str]:
        """What takes the place of what `thole run` says."""
        return {name: str(path if name == "LD_PRELOAD" else path.parent) for name, path in self.libraries().items()}

    def over(self, build: Path) -> Peer:
        """The same over another build of Thole, which its name says."""
        return replace(self, name=f"{self.name}@{build_label(build)}", provider=build.resolve() / "provider")


def build_label(build: Path) -> str:
    """What another build of Thole is called."""
    folder = build.resolve()
    return folder.parent.name if folder.name == "build" else folder.name


_UCX = ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any")
_VADER = ("--mca", "pml", "ob1", "--mca", "btl", "self,vader")
_MPICH_UCX = {"MPIR_CVAR_CH4_NETMOD": "ucx", "MPIR_CVAR_NOLOCAL": "1"}
_MPICH_SHM = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "shm"}
_INTEL_SHM = {
    "I_MPI_FABRICS": "ofi",
    "I_MPI_OFI_LIBRARY": "{fabric}",
    "FI_PROVIDER": "shm",
    "FI_PROVIDER_PATH": "{fabric_dir}",
}

PEERS = (
    Peer("mpich", "mpich", "own shm", default=True),
    Peer("mpich-nocma", "mpich", "own shm without CMA", {"MPIR_CVAR_CH4_CMA_ENABLE": "0"}),
    Peer("mpich-ucx", "mpich", "UCX", _MPICH_UCX),
    Peer("mpich-ofi-shm", "mpich", "libfabric shm", _MPICH_SHM),
    Peer("openmpi5", "openmpi", "ob1/sm", default=True),
    Peer("openmpi5-nocma", "openmpi", "ob1/sm without CMA", {}, ("--mca", "smsc", "^cma")),
    Peer("openmpi5-ucx", "openmpi", "UCX", {}, _UCX),
    Peer("openmpi4", "openmpi4", "vader", {}, _VADER, True),
    Peer("intel", "impi", "shm", {"I_MPI_FABRICS": "shm"}, default=True),
    Peer("intel-ofi-shm", "impi", "libfabric shm", _INTEL_SHM),
    Peer("thole-mpich", "mpich", "Thole"),
    Peer("thole-openmpi5", "openmpi", "Thole"),
    Peer("thole-openmpi4", "openmpi4", "Thole"),
    Peer("thole-intel", "impi", "Thole"),
    Peer("thole-openmpi5-ucx", "openmpi", "Thole through UCX's interface", through="ucx"),
    Peer("thole-openmpi4-ucx", "openmpi4", "Thole through UCX's interface", through="ucx"),
    Peer("thole-mpich-heap", "mpich", "Thole, shared heap", heap=True),
    Peer("thole-openmpi5-heap", "openmpi", "Thole, shared heap", heap=True),
    Peer("thole-intel-heap", "impi", "Thole, shared heap", heap=True),
)

_MPICH_TCP = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
_UCX_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "{interface}"}
_MPICH_UCX_TCP = {"MPIR_CVAR_CH4_NETMOD": "ucx", **_UCX_TCP}
_OB1_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "{interface}")
_OFI_TCP = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "tcp")
_OPENMPI_OFI_TCP = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "{interface}"}
_INTEL_TCP = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}


def _handed(names: dict[str, str]) -> tuple[str, ...]:
    """Open MPI's ranks on other hosts get the variables that it is told of."""
    return tuple(word for name in names for word in ("-x", name))


def _thole(mpi: str, short: str, through: str = "libfabric") -> tuple[Peer, ...]:
    way = " through UCX's interface" if through == "ucx" else ""
    return tuple(
        Peer(f"thole-{short}-{link}", mpi, f"Thole{way}, {title}", options=(f"link={link}",), through=through)
        for link, title in (("udp", "UDP"), ("raw", "raw"), ("both", "raw and UDP"))
    )


# Between two hosts, one rank or more on each. Those of MPIs that ship no TCP of their own are libfabric's or UCX's.
NETWORK_PEERS = (
    Peer("mpich-tcp", "mpich", "libfabric tcp", _MPICH_TCP, default=True),
    Peer("mpich-ucx-tcp", "mpich", "UCX tcp", _MPICH_UCX_TCP),
    Peer("openmpi5-tcp", "openmpi", "btl/tcp", {}, _OB1_TCP, True),
    Peer(
        "openmpi5-ofi-tcp",
        "openmpi",
        "mtl/ofi tcp",
        _OPENMPI_OFI_TCP,
        (*_handed(_OPENMPI_OFI_TCP), *_OFI_TCP),
    ),
    Peer("openmpi5-ucx-tcp", "openmpi", "UCX tcp", _UCX_TCP, (*_handed(_UCX_TCP), *_UCX)),
    Peer("openmpi4-tcp", "openmpi4", "btl/tcp", {}, _OB1_TCP, True),
    Peer("intel-tcp", "impi", "libfabric tcp", _INTEL_TCP, default=True),
    *_thole("mpich", "mpich"),
    *_thole("openmpi", "openmpi5"),
    *_thole("openmpi4", "openmpi4"),
    *_thole("impi", "intel"),
    *_thole("openmpi", "openmpi5-ucx", "ucx"),
)


def select(names: str | None, table: tuple[Peer, ...] = PEERS) -> list[Peer]:
    """The peers named, between commas; * in a name stands for anything."""
    if not names:
        return list(table)
    chosen: list[Peer] = []
    for name in names.split(","):
        matching = [peer for peer in table if fnmatch.fnmatchcase(peer.name, name)]
        if not matching:
            known = ", ".join(peer.name for peer in table)
            raise ValueError(f"no peer is called {name}; there are {known}")
        chosen += [peer for peer in matching if peer not in chosen]
    return chosen
