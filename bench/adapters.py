# SPDX-License-Identifier: BSD-3-Clause
"""What a message costs over adapters, in instructions of a whole guest: MPICH over Thole beside MPICH over UCX, both by
soft-RoCE. The guest's clock goes by the instruction, so that each run says the same.

Owns what runs in the guests (mpi_turns.c), and the table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from thole_lab import venvs
from thole_lab.compiler import compile_mpi

import report
import targets
from comparison import ROOT

sys.path.insert(0, str(ROOT / "test" / "vm"))
import guest as guests  # noqa: E402
import kernels  # noqa: E402
from driver import ROW  # noqa: E402

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


def measure(options: argparse.Namespace, console: Console) -> tuple[str, dict[str, float]]:
    """Of the newest kernel; what fails is said, and its rows are not measured."""
    guests.need_qemu()
    build = options.build.resolve()
    found = venvs.find(options.venvs or [build / "venv"])
    if "mpich" not in found:
        raise kernels.Missing("there is no MPICH")
    mpi = found["mpich"].mpi
    program = build / "bench/mpich/mpi_turns"
    compile_mpi(mpi, None, FLAGS, [ROOT / "bench/mpi_turns.c"], program)
    kernel = kernels.fetch(build)[-1]
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="thole-bench-") as folder:
        bed = guests.make_bed(kernel, kernels.fetch_busybox(build), Path(folder), guests.CARDS["rxe"])
        for name in SETTINGS:
            job = guests.Job(command(name, mpi.launcher, program, build), Path(folder) / name, counted=True)
            try:
                result = guests.run(bed, job)
            except (guests.Panic, guests.Lost) as trouble:
                console.print(f"{name}: {trouble}", markup=False)
                continue
            if result.status:
                console.print(f"{name} failed in the guest: {result.output.strip()[-500:]}", markup=False)
            values |= {row: float(value) for row, value in ROW.findall(result.output)}
    return kernel.release, values


def table_of(values: dict[str, float]) -> report.Table:
    rows = []
    for size in (TURNS, *SIZES):
        ours, theirs = values.get(f"{OURS}_{size}"), values.get(f"{THEIRS}_{size}")
        ratio = f"{ours / theirs:.3f}" if ours and theirs else "-"
        rows.append([size, *(f"{value:.0f}" if value else "-" for value in (ours, theirs)), ratio])
    return report.Table("Adapters", ["bytes", "Thole", "UCX's rc_verbs", "ratio"], rows)


def main(options: argparse.Namespace, console: Console, name: str, facts: dict[str, object]) -> int:
    try:
        release, values = measure(options, console)
    except kernels.Missing as trouble:
        console.print(str(trouble), markup=False)
        return 2
    table = table_of(values)
    console.print(f"A message over soft-RoCE, Linux {release}: instructions of a guest", markup=False)
    table.show(console)
    checks = [check.record() for check in targets.check_adapters(values)]
    extra = {"adapters": {"kernel": release, "rows": values, "targets": checks}}
    files = report.write(options.results, name, facts, [], extra, [table])
    console.print(f"Written: {files[0]} and {files[1]}", markup=False)
    return 0
