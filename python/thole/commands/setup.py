# SPDX-License-Identifier: BSD-3-Clause
"""`thole setup`: make MPIs use Thole without any environment variable, and undo it exactly.

Three things per MPI: a link to the provider in the folder that its libfabric searches, a line in that
libfabric's configuration file, and a block in the MPI's own. All that is done is written to a state
file before it is done; no file is changed without a backup in there, and a file that somebody else
changed since loses only our block when it is undone.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from thole.base import output, paths
from thole.base.blocks import Block, replace
from thole.base.trouble import Trouble
from thole.mpi.families import Mpi
from thole.mpi.identify import has_ucx_alone, identify, installed, require_fabric

KNOWN = "give the launcher (mpiexec) of an MPI that Thole has settings for: thole setup --mpi PATH"
OURS = Block("# >>> written by thole setup; thole setup --undo takes it out", "# <<< thole setup")


@dataclass
class Change:
    """One thing that setup did, with what undo needs."""

    kind: str  # "folder", "link" or "file"
    path: str
    target: str = ""  # of a link
    before: str | None = None  # a file's former bytes, base64; None if there was none
    mode: int = 0o644
    written: str = ""  # sha256 of what we wrote


@dataclass
class Setup:
    """What is to be done, what cannot be done, and the changes made so far."""

    root: Path  # everything is done below here; / except for packaging and tests
    dry: bool
    changes: list[Change] = field(default_factory=list)
    lines: list[tuple[str, str, str]] = field(default_factory=list)  # MPI, what, path

    @property
    def state(self) -> Path:
        return self.place(paths.state_file())

    def place(self, path: Path) -> Path:
        return path if self.root == Path("/") else self.root / path.relative_to("/")


def load(root: Path) -> Setup:
    setup = Setup(root, dry=False)
    try:
        rows = json.loads(setup.state.read_text())["changes"]
        setup.changes = [Change(**row) for row in rows]
    except FileNotFoundError:
        pass  # setup has not run, or all is undone
    except OSError as error:
        raise Trouble(
            f"{setup.state} cannot be read: {error.strerror}", "run as the user who ran setup"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise Trouble(
            f"{setup.state} is damaged", "undo by hand what it lists, then remove it"
        ) from None
    return setup


def save(setup: Setup) -> None:
    if not setup.changes:
        setup.state.unlink(missing_ok=True)
        return
    setup.state.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {"version": 1, "changes": [asdict(change) for change in setup.changes]}, indent=1
    )
    replace(setup.state, text.encode(), 0o600)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ---- What a libfabric was built to look for -------------------------------------------------------


def provider_folder(fabric: Path) -> Path | None:
    """The folder of providers compiled into a libfabric."""
    match = re.search(rb"\x00(/[\x21-\x7e]+/libfabric)\x00", fabric.read_bytes())
    return Path(match[1].decode()) if match else None


def fabric_config(fabric: Path) -> Path | None:
    """The configuration file compiled into a libfabric; older ones have none."""
    match = re.search(rb"\x00(/[\x21-\x7e]+/libfabric\.conf)\x00", fabric.read_bytes())
    return Path(match[1].decode()) if match else None


# ---- Doing ----------------------------------------------------------------------------------------


def _folders(setup: Setup, folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not os.path.exists(parent)]
    for path in reversed(missing):
        setup.changes.append(Change("folder", str(path)))
        save(setup)
        path.mkdir(exist_ok=True)  # saving the state may have made it, below --root


def link(setup: Setup, mpi: Mpi, provider: Path, folder: Path) -> None:
    path = setup.place(folder / provider.name)
    if os.path.islink(path) and Path(os.readlink(path)) == provider:
        setup.lines.append((mpi.label, "the provider is linked already", str(path)))
        return
    known = next((change for change in setup.changes if change.path == str(path)), None)
    ours = known is not None and os.path.islink(path) and os.readlink(path) == known.target
    if os.path.lexists(path) and not ours:
        setup.lines.append(
            (
                mpi.label,
                "left alone: a file of this name is there that setup did not write",
                str(path),
            )
        )
        return
    if not output.writable(path):
        raise Trouble(f"{path} cannot be written", f"{paths.by_root('setup')}, or use `thole run`")
    setup.lines.append((mpi.label, f"link to {provider}", str(path)))
    if setup.dry:
        return
    _folders(setup, path.parent)
    if ours:  # to an older build
        os.unlink(path)
    if known is None:
        known = Change("link", str(path))
        setup.changes.append(known)
    known.target = str(provider)
    save(setup)
    os.symlink(provider, path)


def block(setup: Setup, mpi: Mpi, file: Path, lines: tuple[str, ...]) -> None:
    """Put our block at the end of a configuration file, where it goes before what stands above."""
    path = setup.place(file)
    path = path.resolve() if os.path.islink(path) else path
    before = path.read_bytes() if os.path.exists(path) else None
    mode = path.stat().st_mode & 0o7777 if before is not None else 0o644
    content = OURS.put_in(before or b"", lines)
    if content == before:
        setup.lines.append((mpi.label, "is set already", str(path)))
        return
    if not output.writable(path):
        raise Trouble(f"{path} cannot be written", f"{paths.by_root('setup')}, or use `thole run`")
    setup.lines.append((mpi.label, "set " + "; ".join(lines), str(path)))
    if setup.dry:
        return
    _folders(setup, path.parent)
    known = next((change for change in setup.changes if change.path == str(path)), None)
    if known is None:
        kept = None if before is None else base64.b64encode(before).decode()
        known = Change("file", str(path), before=kept, mode=mode)
        setup.changes.append(known)
    elif before is None or _digest(before) != known.written:  # somebody changed it since: undo leaves that
        rest = OURS.taken_from(before or b"")
        keeps = rest.strip() or (before is not None and known.before is not None)
        known.before = base64.b64encode(rest).decode() if keeps else None
        known.mode = mode
    known.written = _digest(content)
    save(setup)
    replace(path, content, mode)


def fabric_of(mpi: Mpi) -> Path:
    """The libfabric that is to find the provider. Raises Trouble for an MPI that nobody can set up."""
    if has_ucx_alone(mpi):
        raise Trouble(
            f"{mpi.label} reaches Thole through UCX's interface, which no file of its own can say", "use `thole run`"
        )
    require_fabric(mpi)
    if mpi.fabric is None:
        raise Trouble(f"the libfabric of {mpi.label} was not found", "use `thole run`")
    if mpi.family.links and provider_folder(mpi.fabric) is None:
        raise Trouble(f"{mpi.fabric} has no folder of providers compiled in", "use `thole run`")
    return mpi.fabric


def install(setup: Setup, mpi: Mpi, fabric: Path, provider: Path) -> None:
    folder = provider_folder(fabric) if mpi.family.links else None
    if folder is not None:
        link(setup, mpi, provider, folder)
        config = fabric_config(fabric)
        if config is not None:
            block(setup, mpi, config, ("FI_PROVIDER=thole",))
    own = next((path for path in mpi.config_files if output.writable(setup.place(path))), None)
    if own is not None:
        values = {row.name: row.value for row in mpi.settings_through("libfabric")}
        values.update(fabric=str(fabric), provider_dir=str(provider.parent))
        block(setup, mpi, own, tuple(line.format(**values) for line in mpi.family.config_lines))
        if mpi.family.config_note:
            setup.lines.append((mpi.label, f"note: {mpi.family.config_note}", str(own)))
        return
    names = [
        f"{setting.name}={setting.value}"
        for setting in mpi.settings_through("libfabric")
        if "{" not in setting.value
    ]
    names = [name for name in names if not name.startswith("FI_")]
    if not mpi.config_files:
        since = ".".join(map(str, mpi.family.config_since))
        reason = f"{mpi.label} reads no configuration file ({mpi.family.title} does from {since})"
    else:
        reason = f"{mpi.config_files[0]} cannot be written by this user"
    setup.lines.append(
        (mpi.label, f"still needs `thole run`, or {' '.join(names)}: {reason}", "environment")
    )


def install_all(setup: Setup, named: list[str]) -> bool:
    """Whether all went well. An MPI that nobody can set up is no failure where others are found beside it."""
    provider = paths.find(paths.PROVIDER).resolve()
    mpis = [identify(path, KNOWN) for path in named] or installed()
    if not mpis:
        raise Trouble(
            "no MPI was found in PATH, /usr/bin or this virtual environment",
            "name one with --mpi PATH",
        )
    done = failed = 0
    for mpi in mpis:
        fabric = None
        try:
            fabric = fabric_of(mpi)
            install(setup, mpi, fabric, provider)
            done += 1
        except (Trouble, OSError) as trouble:
            failed += bool(named) or fabric is not None or isinstance(trouble, OSError)
            setup.lines.append((mpi.label, f"not done: {trouble}", ""))
    return done > 0 and failed == 0


# ---- Undoing --------------------------------------------------------------------------------------


def undo(setup: Setup) -> None:
    if not setup.changes:
        setup.lines.append(("", "nothing to undo", str(setup.state)))
        return
    for change in reversed(list(setup.changes)):
        path = Path(change.path)
        said = _undo_one(change, path, setup.dry)
        setup.lines.append(("", said, change.path))
        if not setup.dry:
            setup.changes.remove(change)
            save(setup)
    if not setup.dry:
        with contextlib.suppress(OSError):  # not empty, if something of it could not be undone
            setup.state.parent.rmdir()


def _undo_one(change: Change, path: Path, dry: bool) -> str:
    if change.kind == "link":
        if not os.path.islink(path) or os.readlink(path) != change.target:
            return "left alone: it is no longer our link"
        if not dry:
            path.unlink()
        return "link removed"
    if change.kind == "folder":
        if not os.path.isdir(path):
            return "folder is gone already"
        try:
            if not dry:
                path.rmdir()
        except OSError:
            return "folder stays: something else is in it"
        return "folder removed"
    if not os.path.exists(path):
        return "file is gone already"
    content = path.read_bytes()
    before = None if change.before is None else base64.b64decode(change.before)
    if _digest(content) != change.written:
        rest = OURS.taken_from(content)
        if not dry:
            if rest.strip() or before is not None:
                replace(path, rest)
            else:
                path.unlink()
        return "our block removed; other changes since were kept"
    if not dry:
        if before is None:
            path.unlink()
        else:
            replace(path, before, change.mode)
    return "file removed" if before is None else "former content restored"


# ---- Command --------------------------------------------------------------------------------------


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "setup",
        help="make MPIs use Thole without `thole run`",
        description="Install the provider for the MPIs of this machine, so that no environment variable is needed. "
        "All changes are recorded; --undo restores what was there.",
    )
    parser.add_argument("--undo", action="store_true", help="take back everything that setup did")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, do nothing"
    )
    parser.add_argument(
        "--mpi",
        action="append",
        default=[],
        metavar="PATH",
        help="an MPI's launcher (default: all MPIs found)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="do it below DIR, for packages and trials",
    )
    parser.set_defaults(function=main)


def main(arguments: argparse.Namespace) -> int:
    if not os.path.isdir(arguments.root):
        raise Trouble(f"{arguments.root} is not a folder", "create it, or leave --root out")
    setup = load(arguments.root.resolve())
    setup.dry = arguments.dry_run
    well = True
    if arguments.undo:
        if arguments.mpi:
            raise Trouble("--undo takes back what was done for all MPIs", "leave out --mpi")
        undo(setup)
    else:
        well = install_all(setup, arguments.mpi)
    table = output.table("", "", "")
    table.show_header = False
    for row in setup.lines:
        table.add_row(*row)
    console = output.console(200, markup=False)
    if setup.dry:
        console.print("would be done:")
    console.print(table, highlight=False)
    return 0 if well else 2
