# SPDX-License-Identifier: BSD-3-Clause
"""What a message costs over adapters, in instructions of a whole guest: MPICH over Thole beside MPICH over UCX, both by
soft-RoCE.

Owns what runs in the guests (mpi_turns.c), and the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from thole_lab import venvs
from thole_lab.compiler import compile_mpi

import report
import targets
from comparison import ROOT
from instructions import Part, Program, Rows, guests, kernels

FLAGS = ("-std=gnu11", "-O2", f"-I{ROOT / 'src'}", f"-I{ROOT / 'bench'}")
SIZES = ("8", "4096")
TURNS, OURS, THEIRS = "turns", "thole", "ucx"
BOTH = {"MPIR_CVAR_NOLOCAL": "1"}
# Each rank has an adapter of its own, {adapter}.
SETTINGS = {
    OURS: {
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "thole",
        "FI_PROVIDER_PATH": "{build}/provider",
        "THOLE_SHM": "off",
        "THOLE_INTERFACE": "lo",
        "THOLE_JOB_KEY": "4711",
        "THOLE_VERBS": "required",
        "THOLE_VERBS_DEVICE": "{adapter}",
    },
    THEIRS: {
        "MPIR_CVAR_CH4_NETMOD": "ucx",
        "UCX_TLS": "rc_verbs,ud_verbs,self",
        "UCX_NET_DEVICES": "{adapter}:1",
    },
}


def command(name: str, launcher: Path, program: Path, build: Path) -> str:
    """Lines for a guest's shell."""
    settings = {**BOTH, **SETTINGS[name]}
    words = " ".join(f"{key}={value.format(build=build, adapter='$adapter')}" for key, value in settings.items())
    return f"""set -e
. {guests.HERE}/wire.sh
ulimit -l unlimited
cat >/tmp/rank <<'end'
adapter=rxe_va
[ $PMI_RANK = 0 ] || adapter=rxe_vb
exec env {words} {program} {name} {" ".join(SIZES)}
end
{launcher} -n 2 sh /tmp/rank"""


def programs(options: argparse.Namespace, kernel: kernels.Kernel) -> list[Program]:
    build = options.build.resolve()
    found = venvs.find(options.venvs or [build / "venv"])
    if "mpich" not in found:
        raise kernels.Missing("there is no MPICH")
    mpi = found["mpich"].mpi
    program = build / "bench/mpich/mpi_turns"
    compile_mpi(mpi, None, FLAGS, [ROOT / "bench/mpi_turns.c"], program)
    return [Program(name, command(name, mpi.launcher, program, build)) for name in SETTINGS]


def table_of(values: Rows) -> report.Table:
    rows = []
    for size in (TURNS, *SIZES):
        ours, theirs = values.get(f"{OURS}_{size}"), values.get(f"{THEIRS}_{size}")
        ratio = f"{ours / theirs:.3f}" if ours and theirs else "-"
        rows.append([size, *(f"{value:.0f}" if value else "-" for value in (ours, theirs)), ratio])
    return report.Table("Adapters", ["bytes", "Thole", "UCX's rc_verbs", "ratio"], rows)


PART = Part(
    "adapters", "A message over soft-RoCE", programs, table_of, targets.check_adapters, SETTINGS, guests.CARDS["rxe"]
)
