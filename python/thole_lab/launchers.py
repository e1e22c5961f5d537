# SPDX-License-Identifier: BSD-3-Clause
"""How each MPI's launcher is told where the ranks of a comparison, a benchmark or a test are to run.

A row of LAUNCHERS by the name of the MPI's family; what an MPI needs to use Thole is in thole.mpi.families. Nothing
outside of the table knows one launcher from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thole.mpi.families import Mpi


@dataclass(frozen=True)
class Launcher:
    """One row. {cores}, {agent}, {names} and the like are filled in."""

    across: tuple[str, ...]  # arguments for ranks in blocks on hosts that an agent reaches (testbed.py)
    tcp: tuple[tuple[str, str], ...]  # what makes it use TCP, as it ships it, between all ranks
    pinned: tuple[str, ...] = ()  # arguments for ranks on cores of their own
    oversubscribed: tuple[str, ...] = ()  # arguments for any number of ranks on any number of cores
    shared: tuple[str, ...] = ()  # arguments for both, where it can be told which core each rank has
    environment: tuple[tuple[str, str], ...] = ()  # what it wants before it starts anything as root


HYDRA_AGENT = (
    "-launcher",
    "ssh",
    "-launcher-exec",
    "{agent}",
    "-hosts",
    "{names}",
    "-ppn",
    "{each}",
)
HYDRA_ACROSS = ("-localhost", "{first}", *HYDRA_AGENT)
OPENMPI_BLOCKS = ("--host", "{slots}", "--map-by", "slot", "--bind-to", "none")
OPENMPI_ACROSS = (
    *("--prtemca", "plm_ssh_agent", "{agent}", "--prtemca", "prte_if_include", "{interface}"),
    *OPENMPI_BLOCKS,
)
OPENMPI4_ACROSS = (
    *("--mca", "plm_rsh_agent", "{agent}", "--mca", "oob_tcp_if_include", "{interface}"),
    *OPENMPI_BLOCKS,
)
OPENMPI_TCP = (
    ("OMPI_MCA_pml", "ob1"),
    ("OMPI_MCA_btl", "self,tcp"),
    ("OMPI_MCA_btl_tcp_if_include", "{interface}"),
)
FABRIC_TCP = (("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "{interface}"))
OPENMPI_PINNED = ("--map-by", "core", "--bind-to", "core")
OPENMPI_OVERSUBSCRIBED = ("--map-by", ":OVERSUBSCRIBE", "--bind-to", "none")
OPENMPI_ENVIRONMENT = (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))

LAUNCHERS = {
    "mpich": Launcher(
        across=HYDRA_ACROSS,
        tcp=(("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1"), *FABRIC_TCP),
        pinned=("-bind-to", "user:{cores}"),
        shared=("-bind-to", "user:{cores}"),
    ),
    "openmpi": Launcher(
        across=OPENMPI_ACROSS,
        tcp=OPENMPI_TCP,
        pinned=OPENMPI_PINNED,
        oversubscribed=OPENMPI_OVERSUBSCRIBED,
        environment=OPENMPI_ENVIRONMENT,
    ),
    "openmpi4": Launcher(
        across=OPENMPI4_ACROSS,
        tcp=OPENMPI_TCP,
        pinned=OPENMPI_PINNED,
        oversubscribed=OPENMPI_OVERSUBSCRIBED,
        environment=OPENMPI_ENVIRONMENT,
    ),
    "impi": Launcher(
        across=("-iface", "{interface}", *HYDRA_AGENT, "-genv", "I_MPI_PIN", "0"),
        tcp=(("I_MPI_FABRICS", "ofi"), ("I_MPI_OFI_PROVIDER", "tcp"), *FABRIC_TCP),
        shared=("-genv", "I_MPI_PIN_PROCESSOR_LIST", "{cores}"),
    ),
}


def launcher_of(mpi: Mpi) -> Launcher:
    return LAUNCHERS[mpi.family.name]


def inside(mpi: Mpi, cores: Sequence[int], ranks: int) -> list[str]:
    """Arguments for ranks on these cores, one each where there are enough; no core: wherever they like."""
    row = launcher_of(mpi)
    words = row.pinned if ranks <= len(cores) else row.oversubscribed
    return [word.format(cores=",".join(map(str, cores[:ranks]))) for word in words]


def on_cores(mpi: Mpi, cores: Sequence[int], ranks: int) -> list[str]:
    """The same, but where the launcher can be told so, ranks that share cores have each its own in turn."""
    listed = ",".join(str(cores[rank % len(cores)]) for rank in range(ranks))
    words = [word.format(cores=listed) for word in launcher_of(mpi).shared]
    return words or inside(mpi, cores, ranks)


def across(mpi: Mpi, names: Sequence[str], agent: str, interface: str, ranks: int) -> list[str]:
    """The launcher's command line, to be run on the first of these hosts, for ranks in blocks on all of them."""
    each = -(-ranks // len(names))
    places = {
        "agent": agent,
        "first": names[0],
        "names": ",".join(names),
        "slots": ",".join(f"{name}:{each}" for name in names),
        "each": str(each),
        "interface": interface,
    }
    return [str(mpi.launcher), "-n", str(ranks), *(word.format(**places) for word in launcher_of(mpi).across)]


def over_tcp(mpi: Mpi, interface: str) -> dict[str, str]:
    """What sends all messages of an MPI over its own TCP, by this interface."""
    return {name: value.format(interface=interface) for name, value in launcher_of(mpi).tcp}
