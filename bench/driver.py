# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel driver costs, in instructions of a guest.

Owns which programs run. What each row is, and what it is to reach, is a row of targets.DRIVER_ROWS. Both together are
the table.
"""

from __future__ import annotations

import argparse

import report
import targets
from instructions import Part, Program, kernels

import module  # after instructions, which knows where it is

SMALL = "for l in udp raw driver; do {build}/test/system/thole-link-bench link=$l mode=cost size=40 rounds=20; done"
BULK = "b={build}/test/vm/thole-driver-bulk; $b 1500 cost && $b -1500 cost && $b 1500 cost_udp"
PULL = "{build}/test/vm/thole-driver-pull cost"
LINKS = "for l in udp raw; do {build}/test/system/thole-link-bench link=$l mode=bulk total=2 rounds=3; done"
# Two ranks to each other, as whole messages of 16 MiB: the engine's work, and that of programs, is in these.
MESSAGES = """ip link set lo mtu 1500 up
one() {{ {build}/test/vm/thole-driver-overlap --row $1 --drivers $2 --option job_key=$3 --option interface=lo; }}
one message_driver 2 4711; one message_udp 0 4711; one message_driver_plain 2 none; one message_udp_plain 0 none"""
# Commands for a guest where the driver is loaded; {build} is the build folder.
PROGRAMS = {
    "costs": "ulimit -l unlimited; {build}/bench/thole-driver-costs",
    "small": SMALL,
    "bulk": BULK,
    "mxoe": PULL,
    "links": LINKS,
    "messages": MESSAGES,
}


def programs(options: argparse.Namespace, kernel: kernels.Kernel) -> list[Program]:
    build = options.build.resolve()
    load = f"{kernels.fetch_busybox(build)} insmod {module.build_module(kernel, build)}; "
    return [Program(name, load + command.format(build=build)) for name, command in PROGRAMS.items()]


PART = Part("driver", "The driver", programs, report.driver_table, targets.check_driver, PROGRAMS)
