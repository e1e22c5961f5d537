# SPDX-License-Identifier: BSD-3-Clause
"""What `thole run` sets, in which words of the command line, and what it warns of: all is decided, nothing is run."""

from __future__ import annotations

import bisect
import contextlib
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from thole.base import native, paths
from thole.base.trouble import Trouble
from thole.mpi import interface, judge, launch, starters, told
from thole.mpi.families import UNDER_MEMCHECK, Mpi, Setting, agrees, family_named, family_names
from thole.mpi.identify import executable, identify
from thole.mpi.judge import JOB_KEY, LIBRARIES, LISTS, PRELOAD, SECRETS
from thole.mpi.launch import launcher_in
from thole.mpi.program import PYTHON, identify_program, is_linked, uses_windows

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
    ours: str = ""  # of a list, what stands in front of the user's

    @property
    def secret(self) -> bool:
        return self.name in SECRETS

    @property
    def shown(self) -> str:
        return _shown(self.name, self.value)

    @property
    def contradicted(self) -> bool:
        return self.before not in (None, self.value) and self.name not in LISTS


@dataclass
class Plan:
    """What `thole run` is about to do."""

    mpi: Mpi
    command: list[str]
    hosts: launch.Hosts
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
    command = told.expanded(mpi.launch, command)
    result = Plan(mpi, list(command), launch.find(mpi.launch, command))
    if cleaner := launch.cleaner_in(command):
        result.warnings.append(
            f"{cleaner} gives the launcher an environment of its own, so that messages may not go over Thole; put "
            f"`thole run` behind {cleaner} and its arguments"
        )
    of_fabric = interface.options_of_fabric()
    chosen = native.check_options(options or [], [f"{name}={value}" for name, value in of_fabric.items()])
    result.ucx = interface.ucx_path(interface.choose(mpi, through, command, {**of_fabric, **dict(chosen)}))
    if complaint := native.options_complaint():
        result.warnings.append(complaint)
    wanted = {name for name, _ in chosen}.union(row.name for row in native.options() if row.origin != "default")
    users = {f"THOLE_{name.upper()}" for name in wanted.union(of_fabric)}  # by --option, variables or files
    idle = any(setting.spared for setting in mpi.settings) and _uses_no_windows(result)
    checked = [UNDER_MEMCHECK] if launch.under_memcheck(mpi.launch, command) else []
    for setting in (*mpi.settings, *checked):
        value, reason = _value(result, setting), setting.reason
        if setting.spared and idle and not agrees(setting.name, os.environ.get(setting.name, ""), value):
            value, reason = setting.spared, f"no {setting.what} are seen in the program: {value} would only take time"
        if value and setting.name not in users and setting.name != mpi.family.launch.export_list:
            _add(result, setting.name, value, reason, keep, setting.kept.format(what=setting.what))
    _add_options(result, dict(chosen), of_fabric, keep)
    if shared_heap and (why := judge.without_heap(mpi, result.command)):
        result.warnings.append(why)
    elif shared_heap:
        reason = "large allocations are memory that ranks of a host map (--shared-heap)"
        _add(result, PRELOAD, paths.preloadable(paths.HEAP), reason, keep)
    _add_key(result)
    _add_for_capable(result)
    _hand_on(result)
    _judge(result)
    return result


def _judge(result: Plan) -> None:
    mpi, hosts = result.mpi, result.hosts
    chosen = result.chosen("INTERFACE")
    ignored = interface.settings_ignored() if result.ucx else []
    if ignored:
        result.notes.append(f"Thole reads none of {', '.join(ignored)}; `thole info options` has what it reads")
    result.warnings += [
        *judge.programs(mpi, result.command, hosts),
        *judge.arguments(mpi, result.command, result.environment()),
        *judge.shared_memory(mpi, result.command, hosts),
        *judge.limits(mpi, result.command, hosts),
        *judge.preloaded(mpi, result.command, result.environment()),
        *judge.devices_of_ucx(ignored, hosts, chosen),
        *judge.network_interface(mpi, hosts, os.environ.get("FI_THOLE_INTERFACE") or chosen),
    ]


def _uses_no_windows(result: Plan) -> bool:
    """Whether all programs are machine code that is seen, and name no window. What they load later is not known."""
    words = [result.command[place] for place in launch.programs(result.mpi.launch, result.command)]
    found = [Path(path) for path in map(shutil.which, words) if path]
    return len(found) == len(words) > 0 and not any(not is_linked(path) or uses_windows(path) for path in found)


def _value(result: Plan, setting: Setting) -> str:
    """What is to be set; nothing: leave it."""
    if setting.unless and (result.hosts.several or any(name.startswith(setting.unless) for name in os.environ)):
        return ""
    places = {
        "provider_dir": _provider_path() if "{provider_dir}" in setting.value else "",
        "ucx_dir": result.ucx,
        "fabric": str(result.mpi.fabric or ""),
        "tuning": str(result.mpi.tuning or ""),
    }
    return setting.value.format(**places)


def _add_options(result: Plan, chosen: dict[str, str], of_fabric: dict[str, str], keep: bool) -> None:
    """What the user wants of Thole's options, by --option or in libfabric's way: that is read through libfabric alone,
    where it goes before all else."""
    for name, value in of_fabric.items():
        variable = f"THOLE_{name.upper()}"
        if name in chosen:
            _add(result, f"FI_{variable}", chosen[name], "--option", keep=False)
        elif result.ucx:
            unread = f"FI_{variable} is not read through UCX"
            _add(result, variable, value, f"yours: {unread}", keep, unread)
    for name, value in chosen.items():
        _add(result, f"THOLE_{name.upper()}", value, "--option", keep=False)


def _provider_path() -> str:
    """The provider's folder here, and where it is below THOLE_PREFIX on hosts that have it there."""
    folders = [paths.find(paths.PROVIDER).parent]
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
    result.variables.append(Variable(JOB_KEY, value, reason, kept))


def _add_for_capable(result: Plan) -> None:
    """A program with file capabilities (setcap) reads no variables of Thole's, but libfabric reads its own."""
    capable = interface.capable_in(result.mpi, result.command)
    if capable is None:
        return
    reason = f"the same for {capable}, which has file capabilities and reads no other"
    for variable in list(result.variables):
        if variable.name.startswith("THOLE_"):
            name = f"FI_{variable.name}"
            before = os.environ.get(name)
            if name not in result.environment():
                result.variables.append(Variable(name, variable.value, reason, before))


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
    """Open MPI: by a variable, which excludes the argument; that is of one program alone."""
    way = result.mpi.launch
    set_here = {PRELOAD, LIBRARIES} & result.environment().keys()
    names = [name for name in _names(result) if name.startswith(_handed_on(result)) or name in set_here]
    _into_argument(result, names)
    first = launch.first_argument(way, result.command)
    places = [first] + [place + 1 for place, word in enumerate(result.command) if word == ":" and place >= first]
    theirs: list[set[str]] = [set() for _ in places]  # of each program; its arguments begin there
    for word in list(launch.words(way, result.command)):
        if f"-{word.name}" == way.export:
            theirs[bisect.bisect(places, word.index) - 1].add(_ours_in_front(result, word))
    if not any(theirs) and not told.exports(way, result.command):
        _hand_on_by_variable(result, names)
        return
    for place, own in reversed(list(zip(places, theirs))):
        result.command[place:place] = [word for name in names if name not in own for word in (way.export, name)]


def _hand_on_by_variable(result: Plan, names: list[str]) -> None:
    """The user's list stays, behind ours, but for values that Thole cannot do with; none comes twice, which Open MPI 5
    refuses where only one of both has a value."""
    setting = next(row for row in result.mpi.settings if row.name == result.mpi.launch.export_list)
    separator, before = LISTS[setting.name], os.environ.get(setting.name)
    given = told.handed_on(result.mpi, result.command) if before is None else before
    theirs = {word.partition("=")[0]: _merged(result, word) for word in given.split(separator) if word}
    for name in list(theirs):
        if wanted := _contradicted(result, theirs[name]):
            result.warnings.append(f"{theirs.pop(name)} in {setting.name} is {name}={wanted} for this run")
    value = separator.join([*(name for name in names if name not in theirs), *theirs.values()])
    result.variables.append(Variable(setting.name, value, setting.reason, before, ours=separator.join(names)))


def _into_argument(result: Plan, names: list[str]) -> None:
    """Where the list is an argument (--mca mca_base_env_list NAMES), which goes before the variable: into that."""
    way = result.mpi.launch
    separator = LISTS[way.export_list]
    for index, name, value in list(launch.arguments(way, result.command)):
        if name in way.pairs and f"OMPI_MCA_{value}" == way.export_list and index + 2 < len(result.command):
            theirs = [_merged(result, word) for word in result.command[index + 2].split(separator) if word]
            for word in theirs:
                _warn_of_value(result, f"{result.command[index]} {value} {word}", word)
            known = {word.partition("=")[0] for word in theirs}
            result.command[index + 2] = separator.join(theirs + [word for word in names if word not in known])


def _ours_in_front(result: Plan, word: launch.Word) -> str:
    """The name in an argument NAME=VALUE that hands a variable on, where it goes before what is set here."""
    text = result.command[word.at]
    result.command[word.at] = text[: len(text) - len(word.value)] + _merged(result, word.value)
    _warn_of_value(result, f"-{word.name} {word.value}", word.value)
    return word.value.partition("=")[0]


def _set_here(result: Plan, name: str) -> Variable | None:
    return next((variable for variable in result.variables if variable.name == name), None)


def _merged(result: Plan, given: str) -> str:
    """NAME=VALUE of the user's: a list stays, behind what is set here; all else as it is."""
    name, sign, value = given.partition("=")
    wanted = _set_here(result, name)
    if not sign or wanted is None or name not in LISTS:
        return given
    return f"{name}={_in_front(wanted.ours, value, LISTS[name])}"


def _contradicted(result: Plan, given: str) -> str:
    """Of NAME=VALUE of the user's that Thole cannot do with, the value that is set here; else nothing."""
    name, sign, value = given.partition("=")
    wanted = _set_here(result, name)
    if not sign or wanted is None or wanted.secret or name in LISTS or agrees(name, value, wanted.value):
        return ""
    return wanted.value


def _warn_of_value(result: Plan, argument: str, given: str) -> None:
    if wanted := _contradicted(result, given):
        name = given.partition("=")[0]
        follows = judge.consequence(result.mpi, name)
        result.warnings.append(f"{argument} goes before {name}={wanted}{follows}; leave it out")


def _hand_on_by_argument(result: Plan) -> None:
    """srun: all variables, unless an argument or a variable in its place lists them. NONE is a list without any."""
    way = result.mpi.launch
    names = _names(result)
    given = [word for word in launch.words(way, result.command) if word.name in way.exports]
    for word in given:
        text = result.command[word.at]
        start = text[: len(text) - len(word.value)]
        result.command[word.at] = start + launch.widened(word.value, names)
    theirs = os.environ.get(way.exports_by)
    if theirs is not None and not given and launch.widened(theirs, names) != theirs:
        reason = f"hands these variables to ranks (yours: {theirs})"
        result.variables.append(Variable(way.exports_by, launch.widened(theirs, names), reason, None))


def _mpi_of(command: list[str], mpi_name: str | None) -> Mpi:
    launcher = launcher_in(command)
    started = launch.starter_in(command)
    if launcher is None and mpi_name is None:
        _refuse_others(command)
    executable(command[0])  # behind which the launcher may stand
    path = executable(launcher or command[0])
    if started is not None:
        return _mpi_of_program(command, mpi_name, started, path)
    if mpi_name is None:
        return identify(_known(launcher, command))
    with contextlib.suppress(Trouble):
        found = identify(launcher) if launcher else None
        if found is not None and found.family.name == mpi_name:
            return found
    return _by_name(mpi_name, path)


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


def _mpi_of_program(command: list[str], mpi_name: str | None, started: starters.Starter, path: Path) -> Mpi:
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


def _shown(name: str, value: str) -> str:
    return "(hidden)" if name in SECRETS else value


def _add(result: Plan, name: str, value: str, reason: str, keep: bool, kept: str = "") -> None:
    before = os.environ.get(name)
    if before is not None and agrees(name, before, value):
        value = before
    separator, ours = LISTS.get(name), value
    if before and separator:
        value = _in_front(ours, before, separator)
    if keep and before is not None and before != value and not separator:
        kept = interface.by_libfabric(result.mpi, name, before) or kept
        was, now = _shown(name, before), _shown(name, value)
        result.warnings.append(f"{name}={was} is kept (--keep), Thole needs {now}: {kept}")
        result.variables.append(Variable(name, before, reason, before, kept=True))
        return
    variable = Variable(name, value, reason, before, ours=ours)
    if variable.contradicted:
        was, now = _shown(name, before or ""), _shown(name, value)
        result.warnings.append(f"{name} was {was!r}, is {now!r} for this run (--keep leaves yours)")
    result.variables.append(variable)


def _in_front(ours: str, theirs: str, separator: str) -> str:
    """A list of the user's stays, behind what Thole needs."""
    have = ours.split(separator)
    return separator.join(have + [part for part in theirs.split(separator) if part and part not in have])
