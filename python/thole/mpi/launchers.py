# SPDX-License-Identifier: BSD-3-Clause
"""How each MPI's own launcher is told hosts, variables and programs: its arguments, and what they mean.

Launchers that belong to no MPI, such as srun, are in starters.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Launch:
    """How a launcher is told which hosts to use, and how ranks on other hosts get variables."""

    lists: tuple[str, ...]  # arguments, without their hyphens, whose value is a list of hosts
    files: tuple[str, ...]  # arguments whose value is a file of hosts
    variables: tuple[str, ...]  # environment variables that name such a file
    pairs: tuple[str, ...]  # arguments that are followed by two words
    flags: tuple[str, ...]  # arguments that are followed by none; all others by one
    forwards: str  # how variables reach ranks on other hosts
    own: str  # what of the launcher's goes between hosts by itself
    withheld: tuple[str, ...] = ()  # arguments that keep variables from ranks
    excluded: tuple[str, ...] = ()  # arguments whose value lists variables that they keep from ranks
    withheld_by: tuple[str, ...] = ()  # variables that do so unless they are "all"
    export: str = ""  # argument that hands a variable on; it excludes the list below
    export_list: str = ""  # variable with a list of those that are handed on
    exports: tuple[str, ...] = ()  # arguments whose value lists all variables that are handed on
    exports_by: str = ""  # the variable that stands for them
    rules: tuple[str, ...] = ()  # arguments that take variables away, in their order
    rule: str = ""  # argument that brings {name} back after them
    letters: str = ""  # arguments of one letter that take a value, where all are read as getopt does
    counts: tuple[str, ...] = ()  # arguments whose value is a number of hosts
    beyond: tuple[tuple[str, str], ...] = ()  # arguments that ask for what there is not over Thole, and what follows
    pmi: tuple[str, ...] = ()  # arguments that choose how ranks find each other
    pmi_by: str = ""  # the variable that stands for them
    subcommand: bool = False  # the launcher's first word says what it is to do
    programs: tuple[str, ...] = ()  # arguments whose value is a file of programs with their arguments, one a line
    listed: tuple[str, ...] = ()  # arguments beside which the program is such a file, in a form of the launcher's own
    comment: str = ""  # regular expression: what such a line may have that is nothing
    quotes: bool = False  # '"' around words with blanks are known there
    per_program: tuple[str, ...] = ()  # arguments of one program: what they mean beside such a file is not what it says
    parameters: tuple[str, ...] = ()  # arguments whose value is a file of other arguments


HYDRA_LAUNCH = Launch(
    lists=("hosts", "host", "hostlist", "machine", "machines", "machinelist"),
    files=("f", "hostfile", "machinefile"),
    variables=("HYDRA_HOST_FILE",),
    pairs=("genv", "env"),
    flags=tuple(
        "genvnone genvall envnone envall l prepend-rank v verbose debug info profile enable-x disable-x "
        "disable-auto-cleanup enable-auto-cleanup dac disable-hostname-propagation enable-hostname-propagation "
        "hybrid-hosts skip-launch-node prot pmi-port report-bindings print-all-exitcodes print-rank-map h help V "
        "version".split()
    ),
    forwards="Hydra hands the whole environment to all ranks",
    own="Hydra's connections between hosts (to choose their interface: -iface NAME)",
    withheld=("genvnone", "genvlist", "envnone", "envlist"),
    withheld_by=("HYDRA_ENV",),
    programs=("configfile",),
    comment=r"^\s*#.*",
    per_program=("n", "np", "env", "envlist", "envnone", "envall"),
)

INTEL_LAUNCH = replace(
    HYDRA_LAUNCH,
    lists=("hosts", "host", "hostlist", "machines", "machinelist", "hosts-group"),
    files=("f", "hostfile", "machinefile", "machine"),
    flags=HYDRA_LAUNCH.flags
    + tuple(
        "aps mps gdb gdb-ia idb tv v6 rr nolocal silent-abort prepend-timestamp ordered-output cleanup noconf ilp64 "
        "trace trace-imbalance trace_imbalance trace-pt2pt trace-collectives check check-mpi check_mpi prefork "
        "pmi-aggregate pmi-noaggregate".split()
    ),
    variables=("I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"),
    excluded=("genvexcl", "envexcl"),
    withheld_by=("I_MPI_HYDRA_ENV", "HYDRA_ENV"),
    quotes=True,
)

OPENMPI_FORWARD = "OMPI_MCA_mca_base_env_list"
OPENMPI_PARAMETERS = ("mca", "gmca", "omca", "gomca")  # arguments that set what OMPI_MCA_* does, too
OPENMPI_FT = (
    "Open MPI's fault tolerance works with its own pml/ob1 alone; over Thole, as over UCX and libfabric otherwise, "
    "ranks that go on after another's death crash or hang"
)

OPENMPI_LAUNCH = Launch(
    lists=("host", "H"),
    files=("hostfile", "machinefile", "default-hostfile"),
    variables=(
        "PRTE_MCA_prte_default_hostfile",
        "OMPI_MCA_orte_default_hostfile",
    ),
    pairs=(*OPENMPI_PARAMETERS, "prtemca", "pmixmca", "gpmixmca"),
    flags=tuple(
        "oversubscribe nooversubscribe nolocal bynode byslot bycore bysocket v verbose q quiet V version tag-output "
        "timestamp-output xml merge-stderr-to-stdout display-map display-allocation display-devel-map "
        "display-devel-allocation display-diffable-map report-bindings allow-run-as-root "
        "use-hwthread-cpus bind-to-core bind-to-socket bind-to-none do-not-launch do-not-resolve novm pernode "
        "continuous enable-recovery disable-recovery debug tv d debug-devel debug-daemons debug-daemons-file "
        "enable-instant-on-support get-stack-traces hetero-nodes index-argv-by-rank leave-session-attached "
        "no-app-prefix no-ready-msg noprefix output-proctable s preload-binary report-child-jobs-separately "
        "report-state-on-timeout set-cwd-to-session-dir set-sid show-progress stop-in-app stop-in-init stop-on-exec "
        "use-regexp display-comm display-comm-finalize fwd-environment fwd-mpirun-port p parseable parsable soft "
        "system-server system-server-first system-server-only do-not-connect no-aggregate-help".split()
    ),
    forwards="those in OMPI_MCA_mca_base_env_list are handed to all ranks",
    own="Open MPI's own connections between hosts (to choose their interface: "
    "--prtemca prte_if_include NAME; 4.1: --mca oob_tcp_if_include NAME)",
    export="-x",
    export_list=OPENMPI_FORWARD,
    beyond=(("with-ft", OPENMPI_FT),),
    programs=("app",),
    comment=r"(#|//).*",
    per_program=tuple(
        "x n np c N npernode host H hostfile machinefile wdir wd path prefix preload-binary preload-files s "
        "set-cwd-to-session-dir".split()
    ),
    parameters=("tune",),
)

# 4.1, where two arguments have no value that have one in 5.
OPENMPI4_LAUNCH = replace(OPENMPI_LAUNCH, flags=(*OPENMPI_LAUNCH.flags, "display-topo", "dvm"))
