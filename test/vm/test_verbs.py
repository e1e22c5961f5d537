# SPDX-License-Identifier: BSD-3-Clause
"""Remote DMA over soft-RoCE in guests: what the kernel and rdma-core give, and what Thole makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import guest as guests
import pytest

Run = Callable[..., guests.Result]


def program(build: Path, name: str) -> Path:
    path = build / "test/vm" / name
    if not path.exists():
        pytest.skip(f"{name} needs libibverbs-dev: `tools/packages.sh vm` installs it")
    return path


def test_bed(cards_guest: Run, build: Path) -> None:
    """Two adapters at the ends of one wire move bytes by each kind of work, without anything of Thole's."""
    moved = "cat /sys/class/net/va/statistics/[rt]x_bytes >/out/bytes"
    result = cards_guest(f"{program(build, 'thole-verbs-pair')} rxe_va rxe_vb && {moved}")
    assert result.output == "moved\n"
    received, sent = (int(line) for line in (result.out / "bytes").read_text().split())
    assert sent > 40000 and received > 20000  # over the wire: sent and written; read


def test_nic(cards_guest: Run, build: Path) -> None:
    """What nic.h promises of an adapter, of a real one: works, completions, sleeping, breaking and stopping."""
    assert cards_guest(f"{program(build, 'thole-nic-pair')} rxe_va rxe_vb").output == "well\n"
