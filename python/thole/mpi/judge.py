# SPDX-License-Identifier: BSD-3-Clause
"""What `thole run` warns of, as sentences: programs, arguments and variables of the user's by which messages would not
go over Thole, or ranks not start. Nothing is changed here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from thole.base import host
from thole.base.text import size_text
from thole.mpi import interface, launch
from thole.mpi.families import UNDER_MEMCHECK, Mpi, agrees
from thole.mpi.launchers import OPENMPI_FORWARD, OPENMPI_PARAMETERS, Launch
from thole.mpi.program import SANITIZER, sanitizer_of, unfit

JOB_KEY = "THOLE_JOB_KEY"
SECRETS = (JOB_KEY, f"FI_{JOB_KEY}")  # whose values are not shown
PRELOAD = "LD_PRELOAD"
LIBRARIES = "LD_LIBRARY_PATH"
LISTS = {"FI_PROVIDER_PATH": ":", PRELOAD: ":", LIBRARIES: ":", OPENMPI_FORWARD: ";"}  # variables that hold a list

# What a rank over any MPI takes to start, and for each other rank of its host; what two have between them.
DESCRIPTORS, DESCRIPTORS_OF_PEER, FILE_BYTES = 40, 4, 4 << 20

WORK_FOLDERS = ("wdir", "gwdir", "wd", "workdir", *launch.PATHS)  # arguments that say where programs are


def programs(mpi: Mpi, command: list[str], hosts: launch.Hosts) -> Iterator[str]:
    """Those that the launcher will not find, or that are another MPI's. Elsewhere they may be others."""
    way = mpi.launch
    moved = any(name in WORK_FOLDERS for _, name, _ in launch.arguments(way, command))
    if mpi.starter or hosts.several or moved:
        return
    words = [command[place] for place in launch.programs(way, command)]
    yield from filter(None, (unfit(word, mpi) for word in dict.fromkeys(words)))


def arguments(mpi: Mpi, command: list[str], wanted: Mapping[str, str]) -> Iterator[str]:
    """Of the launcher's, which go before the environment, those that say otherwise. wanted: the variables of the run."""
    way = mpi.launch
    yield from _pmi(mpi, command)
    for _, name, value in launch.arguments(way, command):
        if name in way.withheld and not set(wanted) <= set(value.split(",")):
            yield (
                f"the argument -{name} keeps variables from the ranks, so that their messages will not go over "
                f"Thole; leave it out, or name these too: {','.join(wanted)}"
            )
        lost = [word for word in value.split(",") if word in wanted] if name in way.excluded else []
        if lost:
            yield (
                f"the argument -{name} keeps {', '.join(lost)} from the ranks, so that their messages may not go over "
                "Thole; leave it out"
            )
        follows = dict(way.beyond).get(name)
        if follows and value.lower() not in interface.OFF:
            yield f"--{name} {value}: {follows}"
    for name in way.withheld_by:
        if os.environ.get(name, "all") != "all":
            yield (
                f"{name}={os.environ[name]} keeps variables from the ranks, so that their messages may not go "
                "over Thole; unset it"
            )
    yield from _values(mpi, command, wanted)


def _values(mpi: Mpi, command: list[str], wanted: Mapping[str, str]) -> Iterator[str]:
    """Arguments that set a variable, or a parameter of Open MPI's."""
    # What is needed, where the user's own value has that among more.
    needed = {**wanted, **{row.name: row.value for row in mpi.settings if row.name.startswith("OMPI_")}}
    for row in (*mpi.settings, UNDER_MEMCHECK):
        if row.unless or row.name.startswith("THOLE_"):  # messages go over Thole without it
            needed.pop(row.name, None)
    for words, name, value in _given(mpi.launch, command):
        if name not in needed or name in SECRETS or agrees(name, value, needed[name]):
            continue
        if name in LISTS:
            yield from _list(mpi, words, name, value, needed[name])
        elif other := interface.by_libfabric(mpi, name, value):
            yield f"{words} goes before --through {mpi.through}: {other}"
        else:
            yield f"{words} goes before {name}={needed[name]}{consequence(mpi, name)}; leave it out"


def consequence(mpi: Mpi, name: str) -> str:
    """What follows, behind a colon, where a variable has another value than Thole needs; nothing of its own options."""
    return next((f": {row.what} will not go over Thole" for row in mpi.settings if row.name == name), "")


def _given(way: Launch, command: list[str]) -> Iterator[tuple[str, str, str]]:
    """Variables that arguments set, or what stands for such an argument: in the user's words, name and value."""
    listed = []
    for index, argument, given in launch.arguments(way, command):
        name, sign, value = given.partition("=")
        if argument in way.exports:
            listed.append(given)
        elif argument in way.pairs and (sign or index + 2 < len(command)):
            word, value = command[index], value if sign else command[index + 2]
            variable = f"OMPI_MCA_{name}" if argument in OPENMPI_PARAMETERS else name
            yield f"the argument {word} {name} {value}", variable, value
    instead = [] if listed else [os.environ.get(way.exports_by, "")]
    for part in ",".join(listed or instead).split(","):
        name, sign, value = part.partition("=")
        if sign:
            argument = f"the argument --{way.exports[0]} {name} {value}"
            yield argument if listed else f"{part} in {way.exports_by}", name, value


def _list(mpi: Mpi, words: str, variable: str, value: str, needed: str) -> Iterator[str]:
    """Of a list Open MPI's are merged; elsewhere an argument's takes the place of all that Thole puts in front."""
    ours, *_ = _parts(variable, needed)
    if mpi.launch.export_list or ours in _parts(variable, value):
        return
    lost = "there is no shared heap" if variable == PRELOAD else "messages will not go over Thole"
    yield f"{words} goes before {variable}={needed}: {lost}; put {ours} in front of it"


def _parts(variable: str, value: str) -> list[str]:
    """Of a list. The loader takes blanks, too, between what it preloads."""
    return (value.replace(" ", ":") if variable == PRELOAD else value).split(LISTS[variable])


def limits(mpi: Mpi, command: list[str], hosts: launch.Hosts) -> Iterator[str]:
    """Those that ranks have from here and that are too low: "Input/output error" is all that most MPIs say then."""
    if hosts.several or (mpi.starter and not hosts.names):
        return
    ranks = max(launch.ranks(mpi.launch, command), 2)
    descriptors, permitted = DESCRIPTORS + DESCRIPTORS_OF_PEER * (ranks - 1), host.descriptors()
    if permitted is not None and permitted < descriptors:
        yield (
            f"each of {ranks} ranks opens some {descriptors} files and connections, and {permitted} are permitted: they "
            f"may end with an input/output error; raise the limit (ulimit -Hn)"
        )
    longest = host.file_bytes()
    if longest is not None and longest < FILE_BYTES:
        yield (
            f"files may have {size_text(longest)}, shared memory too, of which two ranks take some "
            f"{size_text(FILE_BYTES)}: they may end with an input/output error or SIGXFSZ; raise the limit (ulimit -f)"
        )


def preloaded(mpi: Mpi, command: list[str], wanted: Mapping[str, str]) -> Iterator[str]:
    """A program with more rights than its user has takes no library from a folder that a variable names."""
    capable = interface.capable_in(mpi, command) if PRELOAD in wanted else None
    if capable:
        yield f"--shared-heap does nothing for {capable}, which has file capabilities (setcap -r {capable})"


def without_heap(mpi: Mpi, command: list[str]) -> str:
    """Why the shared heap is not preloaded: a sanitizer has to be loaded first, and hears of no memory that another
    library allocates. Nothing where it may be."""
    exported = [value for _, name, value in launch.arguments(mpi.launch, command) if f"-{name}" == mpi.launch.export]
    given = [value for _, name, value in _given(mpi.launch, command) if name == PRELOAD]
    given += [word.partition("=")[2] for word in exported if word.startswith(f"{PRELOAD}=")]
    for name in map(os.path.basename, _parts(PRELOAD, ":".join([os.environ.get(PRELOAD, ""), *given]))):
        if SANITIZER.fullmatch(name):
            return f"--shared-heap is left out: {name} of {PRELOAD} is to allocate all memory"
    for word in launch.started(mpi.launch, command):
        path = shutil.which(word)
        if path and (name := sanitizer_of(Path(path))):
            return f"--shared-heap is left out: {word} loads {name}, which is to allocate all of its memory"
    return ""


def _pmi(mpi: Mpi, command: list[str]) -> Iterator[str]:
    """Where a foreign launcher is told to let ranks find each other in a way that their MPI does not know."""
    way = mpi.launch
    told = [value for _, name, value in launch.arguments(way, command) if name in way.pmi]
    source = f"--{way.pmi[0]}" if told else way.pmi_by
    value = told[-1] if told else os.environ.get(way.pmi_by or "", "")
    if value and value != "list" and not value.startswith(mpi.family.pmi):
        known = " or ".join(f"{name}*" for name in mpi.family.pmi)
        yield (
            f"{source}={value} tells ranks of {mpi.family.title} nothing of each other, so that each may be "
            f"alone; they want {known}"
        )


def devices_of_ucx(theirs: Sequence[str], hosts: launch.Hosts, chosen: str) -> Iterator[str]:
    """A setting of UCX's that was to say by which network messages go. theirs: those that mean nothing to Thole."""
    devices = os.environ.get("UCX_NET_DEVICES", "all")
    if theirs and devices != "all" and hosts.several and not chosen:
        yield f"UCX_NET_DEVICES={devices} chooses no interface for Thole; --interface does"


def network_interface(mpi: Mpi, hosts: launch.Hosts, name: str) -> Iterator[str]:
    """One that is not here: ranks of this host alone need none, and so say nothing."""
    if not name or hosts.several or (mpi.starter and not hosts.names) or host.has_interface(name):
        return
    yield (
        f"this host has no network interface {name} (it has {', '.join(host.interfaces())}): its ranks do without one "
        "among themselves, and with another host they do not start; name one of these, or leave it out"
    )


def shared_memory(mpi: Mpi, command: list[str], hosts: launch.Hosts) -> Iterator[str]:
    """Too little of what the MPI itself wants of /dev/shm, of which its ranks say "Bus error" or "Out of memory"."""
    if not mpi.family.shm or hosts.several or (mpi.starter and not hosts.names):
        return
    needed = mpi.family.shm * max(launch.ranks(mpi.launch, command), 1)
    free = host.shm_free()
    if free is None:
        yield (
            f"{mpi.family.title} makes files in /dev/shm, over Thole too, and nothing can be written there: its ranks "
            "will not start; mount -t tmpfs tmpfs /dev/shm (as root), or let its mode be 1777"
        )
    elif free < needed:
        yield (
            f"{mpi.family.title} makes files in /dev/shm, over Thole too, for these ranks some {size_text(needed)}, and "
            f"{size_text(free)} are free there: they may end with a bus error; remove what lies there, or mount -o "
            "remount,size=50% /dev/shm (as root), or docker run --shm-size 1g"
        )
