# SPDX-License-Identifier: BSD-3-Clause
"""What `thole run` sets, in which words of the command line, and what it warns of: all is decided, nothing is run."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from thole.base import host, native, paths
from thole.base.trouble import Trouble
from thole.mpi import interface, launch, starters
from thole.mpi.families import OPENMPI_FORWARD, Mpi, agrees, family_named, family_names
from thole.mpi.identify import identify, require_fabric
from thole.mpi.launch import launcher_in
from thole.mpi.program import PYTHON, identify_program, is_linked, unfit

PRELOAD = "LD_PRELOAD"
LIBRARIES = "LD_LIBRARY_PATH"
LISTS = {"FI_PROVIDER_PATH": ":", PRELOAD: ":", LIBRARIES: ":", OPENMPI_FORWARD: ";"}  # variables that hold a list

JOB_KEY = "THOLE_JOB_KEY"
WORK_FOLDERS = ("wdir", "wd", "workdir", "path")  # arguments that say where programs are

# Variables of the user that are handed on with those that are set here; UCX's, too, where its other libraries are used.
HANDED_ON = ("THOLE_", "FI_")


@dataclass(frozen=True)
class Variable:
    """One variable as it will be, what the user had, and why it is set."""

    name: str
    value: str
    reason: str
    before: str | None
    kept: bool = False  # the user's value stays, by --keep
    secret: bool = False  # not to be shown
    ours: str = ""  # of a list, what stands in front of the user's

    @property
    def contradicted(self) -> bool:
        return self.before not in (None, self.value) and self.name not in LISTS


@dataclass
class Plan:
    """What `thole run` is about to do."""

    mpi: Mpi
    command: list[str]
    hosts: launch.Hosts
    provider: Path
    ucx: str = ""  # folders, with ":" between them, with our library for UCX, where messages go through that
    variables: list[Variable] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # for who asks (--explain)

    def environment(self) -> dict[str, str]:
        return {variable.name: variable.value for variable in self.variables}

    def chosen(self, option: str) -> str:
        """What the user wants of an option of Thole's, for this run or by its variable; else nothing."""
        name = f"THOLE_{option}"
        return self.environment().get(name) or os.environ.get(name, "")


def plan(
    command: list[str],
    mpi_name: str | None = None,
    options: list[str] | None = None,
    keep: bool = False,
    shared_heap: bool = False,
    through: str = "auto",
) -> Plan:
    """Decide everything, run nothing. Raises Trouble where Thole cannot be used."""
    if not command:
        raise Trouble("there is no command to run", "for example: thole run mpiexec -n 4 ./app")
    mpi = _mpi_of(command, mpi_name)
    require_fabric(mpi)
    provider = paths.find(paths.PROVIDER)
    way = mpi.launch
    result = Plan(mpi, list(command), launch.find(way, command), provider)
    if cleaner := launch.cleaner_in(command):
        result.warnings.append(
            f"{cleaner} gives the launcher an environment of its own, so that messages may not go over Thole; put "
            f"`thole run` behind {cleaner} and its arguments"
        )
    chosen = native.check_options(options or [], _of_fabric())
    result.ucx = interface.ucx_path(interface.choose(mpi, through, command, dict(chosen)))
    if complaint := native.options_complaint():
        result.warnings.append(complaint)
    fabric = str(mpi.fabric or "")
    wanted = {name for name, _ in chosen}.union(row.name for row in native.options() if row.origin != "default")
    users = {f"THOLE_{name.upper()}" for name in wanted}  # by --option, variables or files
    for setting in mpi.settings:
        if setting.name in users:
            continue
        if setting.name == mpi.family.launch.export_list or ("{fabric}" in setting.value and not fabric):
            continue
        folders = {"provider_dir": _provider_path(provider), "ucx_dir": result.ucx}
        value = setting.value.format(**folders, fabric=fabric)
        _add(result, setting.name, value, setting.reason, keep, setting.kept.format(what=setting.what))
    for name, value in chosen:
        _add(result, f"THOLE_{name.upper()}", value, "--option", keep=False)
    if shared_heap:
        reason = "large allocations are memory that ranks of a host map (--shared-heap)"
        _add(result, PRELOAD, str(paths.find(paths.HEAP)), reason, keep)
    _add_key(result)
    _add_for_capable(result)
    _hand_on(result)
    _judge_programs(result)
    _judge_arguments(result)
    _judge_settings_of_ucx(result)
    _judge_interface(result, os.environ.get("FI_THOLE_INTERFACE") or result.chosen("INTERFACE"))
    return result


def _of_fabric() -> list[str]:
    """Options that are set in libfabric's way; names that are none are libfabric's to judge."""
    variables = {f"FI_THOLE_{option.name.upper()}": option.name for option in native.options()}
    return [f"{name}={os.environ[key]}" for key, name in variables.items() if os.environ.get(key)]


def _provider_path(provider: Path) -> str:
    """The provider's folder here, and where it is below THOLE_PREFIX on hosts that have it there."""
    folders = [provider.parent]
    prefix = os.environ.get("THOLE_PREFIX")
    if prefix:
        folders += paths.provider_folders(Path(prefix))
    return ":".join(map(str, dict.fromkeys(folders)))


def _add_key(result: Plan) -> None:
    """A key for this job, unless the user has one: connections of others over the network are refused."""
    if JOB_KEY in result.environment():
        return
    kept = os.environ.get(JOB_KEY)
    value = kept or str(secrets.randbits(64) or 1)
    reason = "yours" if kept else "made for each run"
    reason = f"what ranks must know to connect over the network ({reason})"
    result.variables.append(Variable(JOB_KEY, value, reason, kept, secret=True))


def _add_for_capable(result: Plan) -> None:
    """A program with file capabilities (setcap) reads no variables of Thole's, but libfabric reads its own."""
    capable = interface.capable_in(result.command)
    if capable is None:
        return
    reason = f"the same for {capable}, which has file capabilities and reads no other"
    for variable in list(result.variables):
        if variable.name.startswith("THOLE_"):
            name = f"FI_{variable.name}"
            before = os.environ.get(name)
            result.variables.append(
                Variable(name, variable.value, reason, before, secret=variable.secret)
            )


def _hand_on(result: Plan) -> None:
    """Where a launcher hands on only what it is told: tell it, in the one way that it allows."""
    way = result.mpi.launch
    if way.export_list:
        _hand_on_by_list(result)
    if way.exports:
        _hand_on_by_argument(result)
    if any(name in way.rules for _, name, _ in launch.arguments(way, result.command)):
        words = [way.rule.format(name=name) for name in _names(result)]
        for place in reversed(launch.programs(way, result.command)):
            result.command[place:place] = words


def _names(result: Plan) -> list[str]:
    """All variables that ranks must have."""
    theirs = [name for name in sorted(os.environ) if name.startswith(_handed_on(result))]
    return list(dict.fromkeys([*result.environment(), *theirs]))


def _handed_on(result: Plan) -> tuple[str, ...]:
    return (*HANDED_ON, interface.OF_UCX) if result.ucx else HANDED_ON


def _hand_on_by_list(result: Plan) -> None:
    """Open MPI: by a variable, which excludes the argument."""
    way = result.mpi.launch
    set_here = {PRELOAD, LIBRARIES} & result.environment().keys()
    names = [name for name in _names(result) if name.startswith(_handed_on(result)) or name in set_here]
    theirs = [
        _ours_in_front(result, word)
        for word in list(launch.words(way, result.command))
        if word.name and f"-{word.name}" == way.export
    ]
    if not theirs:
        setting = next(row for row in result.mpi.settings if row.name == way.export_list)
        _add(result, setting.name, ";".join(names), setting.reason, keep=False)
        return
    place = launch.first_argument(way, result.command)
    result.command[place:place] = [
        word for name in names if name not in theirs for word in (way.export, name)
    ]


def _ours_in_front(result: Plan, word: launch.Word) -> str:
    """The name in an argument NAME=VALUE that hands a variable on, where it goes before what is set here: a list of the
    user's stays, behind ours; of another value that Thole cannot do with it is warned."""
    name, given, value = word.value.partition("=")
    wanted = next((variable for variable in result.variables if variable.name == name), None)
    if given and wanted is not None and name in LISTS:
        text = result.command[word.at]
        result.command[word.at] = text[: len(text) - len(value)] + _in_front(wanted.ours, value, LISTS[name])
    elif given and wanted is not None and not wanted.secret and not agrees(name, value, wanted.value):
        result.warnings.append(
            f"-{word.name} {word.value} goes before {name}={wanted.value}: messages will not go over Thole; "
            "leave it out"
        )
    return name


def _hand_on_by_argument(result: Plan) -> None:
    """srun: all variables, unless an argument or a variable in its place lists them. NONE is a list without any."""
    way = result.mpi.launch
    names = _names(result)
    told = [word for word in launch.words(way, result.command) if word.name in way.exports]
    for word in told:
        text = result.command[word.at]
        start = text[: len(text) - len(word.value)]
        result.command[word.at] = start + launch.widened(word.value, names)
    theirs = os.environ.get(way.exports_by)
    if theirs is not None and not told and launch.widened(theirs, names) != theirs:
        reason = f"hands these variables to ranks (yours: {theirs})"
        result.variables.append(Variable(way.exports_by, launch.widened(theirs, names), reason, None))


def _mpi_of(command: list[str], mpi_name: str | None) -> Mpi:
    launcher = launcher_in(command)
    started = launch.starter_in(command)
    if launcher is None and mpi_name is None:
        _refuse_others(command)
    path = shutil.which(launcher or command[0])
    if path is None:
        raise Trouble(f"{launcher or command[0]} is not found or not executable", "give its full path")
    if started is not None:
        return _mpi_of_program(command, mpi_name, started, Path(path))
    if mpi_name is None:
        return identify(_known(launcher, command))
    with contextlib.suppress(Trouble):
        found = identify(launcher) if launcher else None
        if found is not None and found.family.name == mpi_name:
            return found
    return _by_name(mpi_name, Path(path))


def _known(launcher: str | None, command: list[str]) -> str:
    if launcher is not None:
        return launcher
    path = Path(shutil.which(command[0]) or command[0])
    if is_linked(path) or PYTHON.fullmatch(path.name):
        raise Trouble(
            f"{command[0]} is a program, and no MPI launcher",
            f"put the launcher in front: thole run mpiexec -n 2 {command[0]} ...",
        )
    raise Trouble(
        f"{command[0]} is not an MPI launcher that Thole knows (mpiexec, mpirun, srun, prterun, orterun, ...)",
        f"name the MPI that it starts: thole run --mpi {{{','.join(family_names())}}} {command[0]} ...",
    )


def _by_name(mpi_name: str, path: Path) -> Mpi:
    why = [f"--mpi {mpi_name} says so; nothing was checked"]
    return Mpi(family_named(mpi_name), "(by --mpi)", path, why=why)


def _mpi_of_program(
    command: list[str], mpi_name: str | None, started: starters.Starter, path: Path
) -> Mpi:
    """Of a launcher that starts the ranks of any MPI."""
    place = next(iter(launch.programs(started.launch, command)), len(command))
    program = command[place:]
    if program and Path(program[0]).name not in launch.WRAPPERS:
        program = program[:1]
    try:
        mpi = identify_program(program, path)
    except Trouble:
        if mpi_name is None:
            raise
        mpi = _by_name(mpi_name, path)
    if mpi_name not in (None, mpi.family.name):
        mpi = _by_name(str(mpi_name), path)
    mpi.why.insert(0, f"{started.title} starts ranks of any MPI; the program tells which")
    mpi.starter = started.launch
    return mpi


def _refuse_others(command: list[str]) -> None:
    """Raise Trouble for what is known to start no ranks."""
    for word in command[:1] + [word for word in command[1:] if command[0] in launch.WRAPPERS]:
        reason = starters.outside(word)
        if reason is not None:
            raise Trouble(f"{Path(word).name} {reason[0]}; it starts no ranks", reason[1])


def _add(result: Plan, name: str, value: str, reason: str, keep: bool, kept: str = "") -> None:
    before = os.environ.get(name)
    if before is not None and agrees(name, before, value):
        value = before
    separator, ours = LISTS.get(name), value
    if before and separator:
        value = _in_front(ours, before, separator)
    if keep and before is not None and before != value and not separator:
        kept = interface.by_libfabric(result.mpi, name, before) or kept
        result.warnings.append(
            f"{name}={before} is kept (--keep), Thole needs {value}: {kept}"
        )
        result.variables.append(Variable(name, before, reason, before, kept=True))
        return
    variable = Variable(name, value, reason, before, ours=ours)
    if variable.contradicted:
        result.warnings.append(
            f"{name} was {before!r}, is {value!r} for this run (--keep leaves yours)"
        )
    result.variables.append(variable)


def _in_front(ours: str, theirs: str, separator: str) -> str:
    """A list of the user's stays, behind what Thole needs."""
    have = ours.split(separator)
    return separator.join(have + [part for part in theirs.split(separator) if part and part not in have])


def _judge_programs(result: Plan) -> None:
    """Warn of programs that the launcher will not find, or that are another MPI's. Elsewhere they may be others."""
    way = result.mpi.launch
    moved = any(name in WORK_FOLDERS for _, name, _ in launch.arguments(way, result.command))
    if result.mpi.starter or result.hosts.several or moved:
        return
    words = [result.command[place] for place in launch.programs(way, result.command)]
    result.warnings += filter(None, (unfit(word, result.mpi) for word in dict.fromkeys(words)))


def _judge_arguments(result: Plan) -> None:
    """Warn of launcher arguments, which go before the environment, that say otherwise."""
    wanted = result.environment()
    way = result.mpi.launch
    _judge_pmi(result)
    for _, name, value in launch.arguments(way, result.command):
        if name in way.withheld and not set(wanted) <= set(value.split(",")):
            result.warnings.append(
                f"the argument -{name} keeps variables from the ranks, so that their messages will not go over "
                f"Thole; leave it out, or name these too: {','.join(wanted)}"
            )
        follows = dict(way.beyond).get(name)
        if follows and value.lower() not in interface.OFF:
            result.warnings.append(f"--{name} {value}: {follows}")
    for name in way.withheld_by:
        if os.environ.get(name, "all") != "all":
            result.warnings.append(
                f"{name}={os.environ[name]} keeps variables from the ranks, so that their messages may not go "
                "over Thole; unset it"
            )
    # What is needed, where the user's own value has that among more.
    wanted.update(
        {row.name: row.value for row in result.mpi.settings if row.name.startswith("OMPI_")}
    )
    what = {row.name: row.what for row in result.mpi.settings}
    for index, argument, name in launch.arguments(way, result.command):
        if argument not in way.pairs or index + 2 >= len(result.command):
            continue
        word, value = result.command[index], result.command[index + 2]
        variable = f"OMPI_MCA_{name}" if argument in ("mca", "gmca") else name
        if (
            variable in wanted
            and variable not in LISTS
            and not agrees(variable, value, wanted[variable])
        ):
            other = interface.by_libfabric(result.mpi, variable, value)
            result.warnings.append(
                f"{word} {name} {value} goes before --through {result.mpi.through}: {other}"
                if other
                else f"the argument {word} {name} {value} goes before {variable}={wanted[variable]}: "
                f"{what.get(variable, 'messages')} will not go over Thole; leave it out"
            )


def _judge_pmi(result: Plan) -> None:
    """Warn where a foreign launcher is told to let ranks find each other in a way that their MPI does not know."""
    way = result.mpi.launch
    told = [value for _, name, value in launch.arguments(way, result.command) if name in way.pmi]
    source = f"--{way.pmi[0]}" if told else way.pmi_by
    value = told[-1] if told else os.environ.get(way.pmi_by or "", "")
    if value and value != "list" and not value.startswith(result.mpi.family.pmi):
        known = " or ".join(f"{name}*" for name in result.mpi.family.pmi)
        result.warnings.append(
            f"{source}={value} tells ranks of {result.mpi.family.title} nothing of each other, so that each may be "
            f"alone; they want {known}"
        )


def _judge_settings_of_ucx(result: Plan) -> None:
    """Those of the user's that mean nothing to Thole. Warn of one that was to say by which network messages go."""
    theirs = interface.settings_ignored()
    if not result.ucx or not theirs:
        return
    result.notes.append(f"Thole reads none of {', '.join(theirs)}; `thole info options` has what it reads")
    devices = os.environ.get("UCX_NET_DEVICES", "all")
    if devices != "all" and result.hosts.several and not result.chosen("INTERFACE"):
        result.warnings.append(f"UCX_NET_DEVICES={devices} chooses no interface for Thole; --interface does")


def _judge_interface(result: Plan, name: str) -> None:
    """Warn of a network interface that is not here: ranks of this host alone need none, and so say nothing."""
    if not name or result.hosts.several or (result.mpi.starter and not result.hosts.names) or host.has_interface(name):
        return
    result.warnings.append(
        f"this host has no network interface {name} (it has {', '.join(host.interfaces())}): its ranks do without one "
        "among themselves, and with another host they do not start; name one of these, or leave it out"
    )
