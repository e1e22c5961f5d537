# SPDX-License-Identifier: BSD-3-Clause
"""What is installed: the wheel in several Pythons, a prefix and its end, bash completion.

The wheel is built once for all tests here, in <build>/wheel-build, which a second run finds warm.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from conftest import FULL, IN_FULL, ROOT, clean_environment, locked
from test_tool import script, snapshot
from thole import cli

COMMANDS = list(next(action for action in cli.parser()._actions if action.choices).choices or ())
PAGES = {f"man1/thole-{command}.1" for command in COMMANDS} | {
    "man1/thole.1",
    "man7/thole-options.7",
    "man7/thole-counters.7",
}


HELLO = {
    "thole": """
#include <stdio.h>
#include <thole.h>
int main(void) { return puts(thole_strerror(0)) < 0; }
""",
    "myriexpress": """
#include <stdio.h>
#include <myriexpress.h>
int main(void) { return puts(mx_strerror(MX_SUCCESS)) < 0; }
""",
}


def ran(*words: str | Path, **how: object) -> str:
    done = subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **how,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


# ---- The wheel -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel(build: Path, request: pytest.FixtureRequest, common: Path) -> Path:
    if not FULL:
        pytest.skip(IN_FULL)
    venvs = build / "venv"
    if not (venvs / "wheel" / "thole-packages").exists():
        if request.config.getoption("--require"):
            pytest.fail(
                "the environment that makes wheels is required: tools/venvs.sh build/venv wheel"
            )
        pytest.skip("there is no environment that makes wheels: tools/venvs.sh build/venv wheel")
    out = common / "wheels"  # "wheel" is the name of a lock
    with locked(common / "wheel.lock"):
        if not list(out.glob("*.whl")):
            ran(ROOT / "tools" / "wheel.sh", venvs, build / "wheel-build", out)
    return next(out.glob("*.whl"))


def test_wheel__is_for_all_pythons_and_glibc_2_34(wheel: Path, build: Path) -> None:
    tag = f"manylinux_2_34_{platform.machine()}"
    assert wheel.name.split("-")[2:] == ["py3", "none", f"{tag}.whl"]
    # Its names alone are no proof: what says it is what looked into each file.
    auditwheel = build / "venv" / "wheel" / "bin" / "auditwheel"
    path = f"{auditwheel.parent}:{os.environ['PATH']}"
    said = " ".join(ran(auditwheel, "show", wheel, env={**os.environ, "PATH": path}).split())
    found = re.search(r'consistent with the following platform tag: "manylinux_2_(\d+)_', said)
    assert found and int(found[1]) <= 34, said


def test_wheel__has_all_that_a_user_needs(wheel: Path, build: Path) -> None:
    names = {
        name.partition("/share/")[2]
        for name in zipfile.ZipFile(wheel).namelist()
        if "/share/" in name
    }
    assert {f"man/{page}" for page in PAGES} <= names
    assert {"thole/wireshark/thole.lua", "bash-completion/completions/thole"} <= names
    # The driver's sources, for `thole driver install`.
    inside = {name.removeprefix("thole/driver/") for name in names if name.startswith("thole/driver/")}
    driver = {name for name in inside if name and not name.endswith("/")}
    built = build / "kernel/driver"
    assert driver == {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    whole = [name for name in zipfile.ZipFile(wheel).namelist() if "/share/thole/driver/" not in name]
    ours = any(name.endswith("/thole/ucx/libucp.so.0") for name in whole)
    assert ours is (build / "ucx" / "libucp.so.0").exists()
    assert not [name for name in whole if name.endswith((".h", ".a", ".pc", ".3"))], (
        "that is for `make install`"
    )
    python = ROOT / "python"
    sources = {str(path.relative_to(python)) for path in python.glob("thole*/**/*.py")}
    assert {re.sub(r".*\.data/\w+/", "", name) for name in whole if name.endswith(".py")} == sources


def pythons() -> list[tuple[tuple[int, ...], Path]]:
    """The Pythons of this machine that the wheel is for, by version."""
    names = [*(f"python3.{minor}" for minor in range(9, 30)), "python3"]
    places = [Path(path) for name in names if (path := shutil.which(name))]
    places += [Path("/usr/bin/python3"), *Path.home().glob(".pyenv/versions/3.*/bin/python3")]
    ask = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    found = {}
    for place in places:
        done = subprocess.run([place, "-c", ask], capture_output=True, text=True, check=False)
        version = tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()
        if version >= (3, 9):
            found.setdefault(version, place)
    return sorted(found.items())


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_wheel__in_a_python(wheel: Path, which: str, tmp_path: Path) -> None:
    known = pythons()
    if len(known) < 2 and which == "newest":
        pytest.skip("there is one version of Python alone")
    _, python = known[0 if which == "oldest" else -1]
    home = tmp_path / "environment"
    ran(python, "-m", "venv", home)  # with a pip that knows this version of Python
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # matplotlib, which it needs for pictures alone, takes longer than all the rest.
    ran(*pip, "install", "--no-compile", "--no-deps", wheel)
    ran(*pip, "install", "--no-compile", "rich>=12")
    without = tmp_path / "without"  # rdma-core: no system's libibverbs is found behind this file
    without.mkdir()
    (without / "libibverbs.so.1").touch()
    path = f"{home / 'bin'}:{os.environ['PATH']}"
    env = clean_environment(PYTHONPATH="", PATH=path, LD_LIBRARY_PATH=str(without))
    thole = home / "bin" / "thole"
    assert ran(thole, "--version", env=env).startswith("thole ")
    info = json.loads(ran(thole, "info", "--json", "transports", "options", env=env))
    for part in ("library", "provider", "perf", "mx"):
        assert info["thole"][part].startswith(f"{home}/"), info["thole"]
    assert info["transports"][0]["available"]
    adapters = json.loads(ran(thole, "info", "--json", "adapters", env=env))["adapters"]
    assert not adapters["ports"] and "libibverbs" in adapters["why"], adapters
    words = ("perf", "--json", "--latency", "--sizes", "8", "--rounds", "1", "--sample-ms", "1")
    assert json.loads(ran(thole, *words, env=env))["latency"][0]["best_us"] > 0
    assert json.loads(ran(thole, "mx-info", "--json", "--wait", "0", env=env))["boards"]
    code = "from thole.base import paths; print(paths.dissector())"
    lua = ran(home / "bin" / "python", "-c", code, env=env, cwd=tmp_path).strip()
    assert lua == str(home / "share" / "thole" / "wireshark" / "thole.lua")
    code = "from thole.frames import fields, packets; print(packets.NATIVE.name, fields.path('mxoe'))"
    words = ran(home / "bin" / "python", "-c", code, env=env, cwd=tmp_path).split()
    assert words[0] == "native" and words[1].startswith(f"{home}/")
    for page in PAGES:
        assert (home / "share" / "man" / page).read_text().startswith(".TH THOLE")


# ---- A build folder, and a prefix -----------------------------------------------------------------


def meson_below(build: Path) -> dict[str, str]:
    """The environment that has the meson of the build."""
    folders = f"{build / 'venv' / 'tool' / 'bin'}:{Path(sys.executable).parent}"
    env = {**os.environ, "PATH": f"{folders}:{os.environ['PATH']}"}
    if shutil.which("meson", path=env["PATH"]) is None:
        pytest.skip("meson is not in PATH")
    return env


@pytest.mark.apart("meson")
def test_uninstall__nothing_is_left(build: Path, tmp_path: Path) -> None:
    env = meson_below(build)
    prefix = Path(next(row["value"] for row in options_of(build, env) if row["name"] == "prefix"))
    below = tmp_path / prefix.relative_to("/")
    for folder in ("bin", "lib", "share/man/man1"):
        (below / folder).mkdir(parents=True)
    (below / "share" / "man" / "man1" / "other.1").write_text("somebody else's")
    before = snapshot(tmp_path)
    for _ in range(2):  # the second finds all there
        ran("meson", "install", "-C", build, "--no-rebuild", "--destdir", tmp_path, env=env)
    script = next(below.rglob("bin/thole"))
    assert os.access(script, os.X_OK)
    done = subprocess.run(
        [script, "--version"], env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("thole ") or "rich is missing" in done.stderr, done
    described = {path.name for path in next(below.rglob("thole/frames/fields.py")).parent.glob("*.fields")}
    assert described == {"native.fields", "mxoe.fields"}
    names = {str(path.relative_to(below)) for path in below.rglob("*")}
    assert {f"share/man/{page}" for page in PAGES} <= names
    assert {"share/thole/wireshark/thole.lua", "share/bash-completion/completions/thole"} <= names
    said = ran(ROOT / "tools" / "uninstall.py", build, "", tmp_path, env=env)
    assert "removed" in said
    left = {
        name
        for name in snapshot(tmp_path).keys() - before.keys()
        if "thole" in name or "mx" in name
    }
    assert not left
    assert {name: row for name, row in snapshot(tmp_path).items() if name in before} == before


def toy_of(folder: Path) -> None:
    """A project of one file, with what the Makefile asks of one; prefixes are below it."""
    (folder / "tools").mkdir()
    (folder / "tools" / "uninstall.py").symlink_to(ROOT / "tools" / "uninstall.py")
    (folder / "tools" / "packages.sh").write_text("#!/bin/sh\n")
    (folder / "tools" / "packages.sh").chmod(0o755)
    (folder / "meson_options.txt").write_text("option('tests', type: 'boolean')\n")
    (folder / "meson.build").write_text("project('toy')\ninstall_data('meson.build', install_dir: 'share/thole')\n")


def test_uninstall__of_two_prefixes_the_one_that_is_named(build: Path, tmp_path: Path) -> None:
    """By make, whatever prefix was installed last."""
    meson_below(build)
    toy_of(tmp_path)
    env = clean_environment(XDG_STATE_HOME=str(tmp_path))
    make = ("make", "-f", ROOT / "Makefile", "-C", tmp_path, f"TOOL={Path(sys.executable).parent}")
    first, second = (tmp_path / name for name in ("first", "second"))
    for prefix in (first, second):
        ran(*make, "install", f"PREFIX={prefix}", env=env)
    (tmp_path / "meson.build").write_text("project('toy')\n")  # a later version, which was not installed
    for prefix, left in ((first, [second]), (second, [])):
        said = ran(*make, "uninstall", f"PREFIX={prefix}", env=env)
        assert f"removed 1 files below {prefix}" in said
        assert [path for path in (first, second) if (path / "share" / "thole" / "meson.build").exists()] == left
        assert not list(prefix.rglob("*"))


def test_install__tells_the_loader(build: Path, tmp_path: Path) -> None:
    """Whose cache has the libraries of /usr/local on Debian; of a package it is the package manager's to tell it."""
    meson_below(build)
    toy_of(tmp_path)
    told = tmp_path / "told"
    fake = tmp_path / "bin" / "ldconfig"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho told >>{told}\nexit 1\n")  # as it fails for who is not root
    fake.chmod(0o755)
    env = clean_environment(XDG_STATE_HOME=str(tmp_path), PATH=f"{fake.parent}:{os.environ['PATH']}")
    make = ("make", "-f", ROOT / "Makefile", "-C", tmp_path, f"TOOL={Path(sys.executable).parent}")
    for what in ("install", "uninstall"):
        ran(*make, what, f"PREFIX={tmp_path}/to", f"DESTDIR={tmp_path}/stage", env=env)
        assert not told.exists()
    for number, what in enumerate(("install", "uninstall"), 1):
        ran(*make, what, f"PREFIX={tmp_path}/to", env=env)
        assert told.read_text() == "told\n" * number


def test_install__where_debian_looks_for_libraries(build: Path, tmp_path: Path) -> None:
    """Also where nobody tells Meson: dpkg-architecture comes with the tools that make packages."""
    meson_below(build)
    if not Path("/etc/debian_version").exists():
        pytest.skip("this is not Debian")
    toy_of(tmp_path)
    recipe = "project('toy')\ninstall_data('meson.build', install_dir: get_option('libdir'))\n"
    (tmp_path / "meson.build").write_text(recipe)
    fake = tmp_path / "bin" / "dpkg-architecture"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 127\n")
    fake.chmod(0o755)
    env = clean_environment(XDG_STATE_HOME=str(tmp_path), PATH=f"{fake.parent}:{os.environ['PATH']}")
    make = ("make", "-f", ROOT / "Makefile", "-C", tmp_path, f"TOOL={Path(sys.executable).parent}")
    ran(*make, "install", f"PREFIX={tmp_path}/to", env=env)
    assert (tmp_path / "to" / "lib" / sysconfig.get_config_var("MULTIARCH") / "meson.build").exists()
    ran(*make, "install", f"PREFIX={tmp_path}/to", "LIBDIR=library", env=env)
    assert (tmp_path / "to" / "library" / "meson.build").exists()


def test_make__a_build_folder_of_another_user(build: Path, tmp_path: Path) -> None:
    """As `sudo make install` leaves one."""
    meson_below(build)
    toy_of(tmp_path)
    drop: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        drop = ["setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override"]
    make = (*drop, "make", "-f", ROOT / "Makefile", "-C", tmp_path, f"TOOL={Path(sys.executable).parent}")
    (tmp_path / "build" / "release").mkdir(parents=True)
    for folder, what in (("build/release", "install"), ("build", "build")):
        (tmp_path / folder).chmod(0o500)
        done = subprocess.run([*make, what], env=clean_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stdout
        assert done.stderr.startswith(f"thole: {folder} is another user's, as after sudo"), done.stderr
        assert f"sudo rm -r {folder}" in done.stderr
        (tmp_path / folder).chmod(0o700)


def test_uninstall__not_what_is_below_another_prefix(build: Path, tmp_path: Path) -> None:
    """Meson says by its options which prefix is next, and by its list of files where they went before."""
    env = meson_below(build) | {"XDG_STATE_HOME": str(tmp_path)}
    toy_of(tmp_path)
    ran("meson", "setup", tmp_path / "build", tmp_path, f"-Dprefix={tmp_path}/first", env=env)
    ran("meson", "install", "-C", tmp_path / "build", env=env)
    ran("meson", "configure", tmp_path / "build", f"-Dprefix={tmp_path}/second", env=env)
    done = subprocess.run(
        [ROOT / "tools" / "uninstall.py", tmp_path / "build"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stdout
    assert f"{tmp_path}/first/share/thole/meson.build is not below {tmp_path}/second" in done.stderr
    assert (tmp_path / "first" / "share" / "thole" / "meson.build").exists()


@pytest.mark.parametrize("name", ["thole", "myriexpress"])
def test_build_folder__serves_programs(build: Path, tmp_path: Path, name: str) -> None:
    """By pkg-config, with the headers of the interface, and none of the library's own beside them."""
    for program in ("pkg-config", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    source = tmp_path / "hello.c"
    source.write_text(HELLO[name])
    env = clean_environment(PKG_CONFIG_PATH=str(build / "meson-uninstalled"))
    words = ran("pkg-config", "--cflags", "--libs", name, env=env).split()
    ran("cc", "-Wall", "-Werror", "-o", tmp_path / "hello", source, *words)
    folders = [Path(word[2:]) for word in words if word.startswith("-L")]
    env = clean_environment(LD_LIBRARY_PATH=":".join(map(str, folders)))
    assert ran(tmp_path / "hello", env=env) == "success\n"
    strangers = ("ring.h", "protocol.h")
    found = [word for word in words if word.startswith("-I") for each in strangers if (Path(word[2:]) / each).exists()]
    assert not found, found


def options_of(build: Path, env: dict[str, str]) -> list[dict[str, str]]:
    return list(json.loads(ran("meson", "introspect", build, "--buildoptions", env=env)))


@pytest.mark.apart("meson")
def test_make__names_with_blanks(build: Path) -> None:
    said = ran("make", "-n", "-C", ROOT, "install", "uninstall", f"BUILD={build}", "PREFIX=/a b", "DESTDIR=c d")
    words = shlex.split(said.replace("\\\n", " "))
    assert words.count("-Dprefix=/a b") == 2
    for pair in (("--destdir", f"{ROOT}/c d"), (str(build / "release"), "/a b"), ("/a b", f"{ROOT}/c d")):
        assert pair in zip(words, words[1:])


def test_make__a_build_folder_with_blanks(tmp_path: Path) -> None:
    """It would be two, of which `make clean` removes both."""
    make = ("make", "-n", "-f", ROOT / "Makefile", "-C", tmp_path, "clean")
    assert 'rm -rf "a"' in ran(*make, "BUILD=a")
    for name in ("a b", ""):
        done = subprocess.run([*make, f"BUILD={name}"], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "name a folder without blanks" in done.stderr, done.stdout + done.stderr


def test_driver_tree__names_with_blanks(tmp_path: Path, build: Path) -> None:
    """ninja reads what the sources were made of."""
    words = [ROOT / "tools/driver_tree.py", tmp_path / "a b", "--made", build / "src", "--depfile", tmp_path / "needs"]
    ran(sys.executable, *words)
    assert (tmp_path / "needs").read_text().startswith(f"{tmp_path}/a\\ b: ")


@pytest.mark.apart("meson")
def test_tool_of_a_build_tree__in_a_folder_of_any_name(tmp_path: Path) -> None:
    """Of the source, of the build, and of Python; as python/meson.build makes it."""
    folder = tmp_path / "o'brien's \"x\""
    folder.mkdir()
    text = (ROOT / "python/meson.build").read_text()
    made = re.search(r"^configure_file\(\n  input: 'thole-build.in'.*?\n  }\)\n", text, re.DOTALL | re.MULTILINE)
    assert made is not None
    (folder / "meson.build").write_text(f"project('toy')\npython = import('python').find_installation()\n{made[0]}")
    shutil.copy(ROOT / "python/thole-build.in", folder)
    (folder / "thole").symlink_to(ROOT / "python/thole")
    (folder / "python").symlink_to(sys.executable)
    env = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    command = [folder / "python", "-m", "mesonbuild.mesonmain", "setup", folder / "build", folder]
    subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    tool = folder / "build/thole"
    assert str(folder / "python").replace("'", "'\"'\"'") in tool.read_text()
    assert "usage: thole" in subprocess.run([tool, "--help"], env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", ["test", "test-all"])
def test_make__only_says_what_it_would_test(tmp_path: Path, kind: str) -> None:
    toy_of(tmp_path)
    for name in ("meson", "python"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch ran\n")
        (tmp_path / name).chmod(0o755)
    said = ran("make", "-n", "-f", ROOT / "Makefile", "-C", tmp_path, kind, "AT_ONCE=1", f"TOOL={tmp_path}")
    assert "failed.py" in said
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("setup", [[], ["--setup", "all"]])
def test_failed__says_what_failed_last(build: Path, tmp_path: Path, setup: list[str]) -> None:
    """Meson writes about each setup, but the default one, into a log of its own."""
    env = meson_below(build)
    (tmp_path / "meson.build").write_text(
        "project('toy')\ntest('broken', find_program('sh'), args: ['-c', 'test -e mended || { echo why; exit 3; }'])\n"
        "add_test_setup('default', is_default: true)\nadd_test_setup('all')\n"
    )
    ran("meson", "setup", tmp_path / "build", tmp_path, env=env)
    once, again = (["meson", "test", "-C", tmp_path / "build", *words] for words in ([], ["--setup", "all"]))
    if not setup:
        once, again = again, once
    (tmp_path / "build" / "mended").touch()
    ran(*once, env=env)
    (tmp_path / "build" / "mended").unlink()
    assert subprocess.run(again, env=env, capture_output=True, check=False).returncode == 1
    said = ran(sys.executable, ROOT / "test" / "failed.py", "--build", tmp_path / "build")
    assert re.fullmatch(r"FAIL toy:broken, \S+ s, exit status 3\n    why\n", said), said


@pytest.mark.parametrize(
    ("words", "said"), [("'-m32'", "a compiler for 64 bits"), ("'-I', '@DIRNAME@'", "needs glibc (2.34 or later)")]
)
def test_setup__what_is_not_supported_is_said_first(build: Path, tmp_path: Path, words: str, said: str) -> None:
    """And not by a compiler in the middle of a file."""
    env = meson_below(build)
    (tmp_path / "features.h").touch()  # as musl's, it says nothing of glibc
    machine = "system = 'linux'\ncpu_family = 'x86'\ncpu = 'i686'\nendian = 'little'\n"
    binaries = f"c = ['cc', {words}]\n".replace("@DIRNAME@", str(tmp_path))
    cross = tmp_path / "cross"
    cross.write_text(f"[binaries]\n{binaries}[properties]\nneeds_exe_wrapper = true\n[host_machine]\n{machine}")
    done = subprocess.run(
        ["meson", "setup", tmp_path / "build", ROOT, "--cross-file", cross],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and said in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("triple", "debian"), [("aarch64-linux-gnu", "arm64"), ("s390x-linux-gnu", "s390x")])
def test_build__for_another_processor(build: Path, tmp_path: Path, triple: str, debian: str) -> None:
    """All but tests and UCX's interface, with headers of this system that are the same on all; s390x is big-endian."""
    if not FULL:
        pytest.skip(IN_FULL)
    if not shutil.which(f"{triple}-gcc"):
        pytest.skip(f"{triple}-gcc is missing: apt-get install gcc-{triple} libc6-dev-{debian}-cross")
    env = meson_below(build) | {"PKG_CONFIG_LIBDIR": str(tmp_path)}
    include, cpu = tmp_path / "include", triple.split("-")[0]
    include.mkdir()
    for folder in ("rdma", "infiniband"):
        (include / folder).symlink_to(Path("/usr/include") / folder)
    (tmp_path / "libfabric.pc").write_text(f"Name: libfabric\nDescription: x\nVersion: 1\nCflags: -I{include}\n")
    (tmp_path / "cross").write_text(
        f"[binaries]\nc = '{triple}-gcc'\nar = '{triple}-gcc-ar'\npkg-config = 'pkg-config'\n"
        f"[built-in options]\nc_args = ['-I{include}', '-Werror=implicit-function-declaration']\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{cpu}'\ncpu = '{cpu}'\n"
        f"endian = '{'big' if cpu == 's390x' else 'little'}'\n"
    )
    words = ("-Dtests=false", "-Ducx=disabled", "-Dverbs=enabled")
    ran("meson", "setup", tmp_path / "build", ROOT, "--cross-file", tmp_path / "cross", *words, env=env)
    ran("meson", "compile", "-C", tmp_path / "build", env=env)
    assert (tmp_path / "build" / "provider" / "libthole-fi.so").exists()


def test_uninstall__not_while_mpis_use_it(build: Path, tmp_path: Path) -> None:
    env = meson_below(build)
    prefix = next(row["value"] for row in options_of(build, env) if row["name"] == "prefix")
    state = tmp_path / "thole" / "setup.json"
    state.parent.mkdir()
    state.write_text(
        json.dumps({"changes": [{"kind": "link", "path": "/x", "target": f"{prefix}/lib/thole/y"}]})
    )
    done = subprocess.run(
        [ROOT / "tools" / "uninstall.py", build],
        env={**env, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "setup --undo" in done.stderr


def test_uninstall__not_while_the_driver_is_there(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of root, that is: nobody else has installed it."""
    monkeypatch.setenv("PATH", meson_below(build)["PATH"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    toy_of(tmp_path)
    ran("meson", "setup", tmp_path / "build", tmp_path, f"-Dprefix={tmp_path}/to")
    ran("meson", "install", "-C", tmp_path / "build")
    made = importlib.util.spec_from_file_location("uninstall", ROOT / "tools" / "uninstall.py")
    assert made is not None and made.loader is not None
    uninstall = importlib.util.module_from_spec(made)
    made.loader.exec_module(uninstall)
    monkeypatch.setattr(uninstall, "DRIVER", tmp_path / "meson.build")
    monkeypatch.setattr(sys, "argv", ["uninstall.py", str(tmp_path / "build")])
    another = str(script(tmp_path / "thole", "true").parent)
    path = os.environ["PATH"]
    if there := shutil.which("thole", path=path):
        pytest.skip(f"a Thole is installed here ({there}), which could remove the driver, too")
    for user, found, status in ((0, path, 2), (0, f"{path}:{another}", 0), (0, path, 2), (1000, path, 0)):
        ran("meson", "install", "-C", tmp_path / "build")
        monkeypatch.setenv("PATH", found)
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert uninstall.main() == status
        assert ("thole driver remove" in capsys.readouterr().err) == (status == 2)
        assert (tmp_path / "to" / "share" / "thole" / "meson.build").exists() == (status == 2)


# ---- bash completion -------------------------------------------------------------------------------


def completed(build: Path, *lines: str, cwd: Path = ROOT) -> list[list[str]]:
    """What bash offers behind each line. The file is read inside a function, as the package bash-completion does."""
    code = 'load() { source "$1"; }; load "$1"; shift\n'
    code += 'for COMP_LINE; do COMP_POINT=${#COMP_LINE}; COMPREPLY=(); _thole; echo "${COMPREPLY[*]}"; done'
    script = build / "docs" / "thole"
    said = ran("bash", "--norc", "-c", code, "bash", script, *lines, cwd=cwd)
    return [line.split() for line in said.split("\n")[:-1]]


def test_completion__every_command_and_argument(build: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    parsers = next(action for action in cli.parser()._actions if action.choices).choices
    assert isinstance(parsers, dict)
    offered = completed(build, "thole ", *(f"thole {command} -" for command in parsers))
    assert set(COMMANDS) <= set(offered[0])
    for words, parser in zip(offered[1:], parsers.values()):
        known = {
            name for action in parser._actions for name in action.option_strings if name != "-h"
        }
        assert set(words) == known


def test_completion__values(build: Path, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.png").touch()
    (tmp_path / "a:b.png").touch()
    for line, words in (
        ("thole r", ["run"]),
        ("thole info h", ["host"]),
        ("thole run --mpi i", ["impi"]),
        ("thole run --mpi=i", ["impi"]),
        ("thole run --option eager", ["eager_max="]),
        ("thole run --option bulk=", ["auto", "ring", "one-copy", "cooperative", "direct"]),
        ("thole run --explain --option shm=o", ["on", "off"]),
        ("thole run --option=shm=o", ["on", "off"]),
        ("thole run --option=eager", ["eager_max="]),
        ("thole perf --plot=a:", ["b.png"]),
        ("thole trace -i l", ["lo"]),
        ("thole perf --plot ", ["a:b.png", "file.png", "folder"]),
        ("thole info --venvs ", ["folder"]),
        ("thole perf --rounds ", []),
        ("thole run --link udp mpiexec fi", ["file.png"]),
        ("thole run mpiexec --mpi ", ["a:b.png", "file.png", "folder"]),
    ):
        assert sorted(completed(build, line, cwd=tmp_path)[0]) == sorted(words), line


def test_completion__names_are_not_run(build: Path, tmp_path: Path) -> None:
    """Whoever may name network interfaces, as in a container, is not whoever presses the key."""
    name, apart = "a$(>b)", ("unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-n", "-m")
    code = 'mount -t sysfs none /sys && ip link add "$1" type veth && shift && exec "$@"'
    if subprocess.run([*apart, "sh", "-c", code, "sh", name, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("network interfaces cannot be made here")
    asked = 'source "$0"; _thole_of_kind interface a; _thole_of_kind interface "a$"; _thole_of_kind interface x; true'
    words = [*apart, "sh", "-c", code, "sh", name, "bash", "--norc", "-c", asked, build / "docs" / "thole"]
    assert ran(*words, cwd=tmp_path).split("\n") == [name, name, ""]
    assert not list(tmp_path.iterdir())


# ---- The environments that build and test ----------------------------------------------------------

ANY_PYTHON = """#!/bin/sh
case $* in
*"-m venv"*) for place; do :; done; mkdir -p "$place/bin"; cp "$0" "$place/bin/python" ;;
*) [ -e "$ONLINE" ] ;;
esac
"""


def test_environments__stay_until_there_are_new_ones(tmp_path: Path) -> None:
    python, online, names = tmp_path / "python", tmp_path / "online", ("tool", "papers")
    python.write_text(ANY_PYTHON)
    python.chmod(0o755)
    words = [ROOT / "tools" / "venvs.sh", tmp_path / "venv", *names]
    env = clean_environment(PYTHON=str(python), ONLINE=str(online))
    online.touch()
    ran(*words, env=env)
    places = [tmp_path / "venv" / name for name in names]
    wanted = [(place / "thole-packages").read_text() for place in places]
    for place in reversed(places):  # that of the tool is made first, and without it no other one
        (place / "thole-packages").write_text("older ones\n")
        (place / "kept").touch()
        online.unlink()
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and f"{place.name} could not be made" in done.stderr, done
        assert (place / "thole-packages").read_text() == "older ones\n" and (place / "kept").exists()
        online.touch()
        ran(*words, env=env)
        assert not (place / "kept").exists()
    assert [(place / "thole-packages").read_text() for place in places] == wanted
    assert not list(tmp_path.rglob("before/*"))
