# SPDX-License-Identifier: BSD-3-Clause
"""The stacks that are compared, as a table: each MPI's own ways through a node, and Thole under each MPI.

A peer's mpi is the name of a family in thole.mpi, which also knows what each MPI needs to use Thole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thole.mpi import Mpi, family_named


@dataclass(frozen=True)
class Peer:
    """One row. {fabric} in a value is the MPI's libfabric, {fabric_dir} the directory that it is in."""

    name: str
    mpi: str
    transport: str
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    default: bool = False  # what a user of this MPI gets without asking

    @property
    def thole(self) -> bool:
        return self.name.startswith("thole-")

    @property
    def title(self) -> str:
        return f"{family_named(self.mpi).title}, {self.transport}"

    def settings(self, mpi: Mpi) -> dict[str, str]:
        """The environment of a peer; for Thole it is what `thole run` says."""
        if mpi.fabric is None:
            return self.environment
        names = {"fabric": mpi.fabric, "fabric_dir": mpi.fabric.parent}
        return {name: value.format(**names) for name, value in self.environment.items()}


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
)


def select(names: str | None) -> list[Peer]:
    """The peers named, between commas; a name ending in * stands for all that begin so."""
    if not names:
        return list(PEERS)
    chosen: list[Peer] = []
    for name in names.split(","):
        matching = [
            peer
            for peer in PEERS
            if peer.name == name or (name.endswith("*") and peer.name.startswith(name[:-1]))
        ]
        if not matching:
            known = ", ".join(peer.name for peer in PEERS)
            raise ValueError(f"no peer is called {name}; there are {known}")
        chosen += [peer for peer in matching if peer not in chosen]
    return chosen
