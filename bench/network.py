# SPDX-License-Identifier: BSD-3-Clause
"""The part between two hosts: network namespaces on one machine, joined by a veth, each with a core of its own.

What peers do there is limited by the kernel's copies and not by a wire: it compares their software. Owns the settings
of the network and which tests run in each; peers.py has the peers, targets.py the numbers to reach.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace

from thole.base.trouble import Trouble
from thole.mpi.plan import plan as thole_plan
from thole_lab.launchers import launcher_of
from thole_lab.process import Outcome, run
from thole_lab.testbed import Testbed

import patterns
import report
import targets
from comparison import Bench, Compared, environment, ready, rounds, with_others
from peers import Peer
from plans import POLLS, QUICK, WIDE, WHOLE, WORK_NS, Plan, wide
from results import Condition, Results

LIMIT_S = 120.0
SHARED_RANKS = 8  # ranks, half of them on each host's one core


@dataclass(frozen=True)
class Setting:
    """A state of the network, and what is measured in it."""

    title: str
    mtu: int = 1500
    permille: float | None = None  # of frames that are lost; None: segmentation offload as the kernel likes
    injected: int = 0  # of 1000 frames that Thole throws away itself
    tests: tuple[str, ...] = (
        *("latency", "touched", "exchange", "bandwidth", "test", "allreduce"),
        *(*WIDE, patterns.ALONE, patterns.WIDE),
    )


LOSSY = ("mpich-tcp", "mpich-ucx-tcp", "openmpi5-tcp", "openmpi5-ofi-tcp", "openmpi5-ucx-tcp", "intel-tcp")
LOSSY_OURS = ("thole-mpich-", "thole-openmpi5-")
PLAIN, JUMBO, FRAMES, LOSS, INJECTED = SETTINGS = (
    Setting("MTU 1500"),
    Setting("MTU 9000", mtu=9000, tests=("latency", "bandwidth")),
    Setting("MTU 1500, frames cross one by one, none lost", permille=0, tests=("bandwidth",)),
    Setting("MTU 1500, frames cross one by one, 1% lost", permille=10, tests=("bandwidth",)),
    Setting("MTU 1500, 1% of frames thrown away by Thole", injected=10, tests=("bandwidth",)),
)


def chosen_settings(options: argparse.Namespace) -> tuple[Setting, ...]:
    if not options.settings:
        return SETTINGS[:1] if options.quick else SETTINGS
    known = {str(number): setting for number, setting in enumerate(SETTINGS)}
    words = options.settings.split(",")
    if any(word not in known for word in words):
        raise Trouble(f"--settings {options.settings}: there are {', '.join(known)}", "see --list")
    return tuple(known[word] for word in words)


def plans(options: argparse.Namespace, setting: Setting, cores: int) -> list[Plan]:
    sizes = QUICK if options.quick else WHOLE
    if setting in (FRAMES, LOSS, INJECTED):
        sizes = {"bandwidth": "64k,1m,4m"}
    wanted = options.only.split(",") if options.only else setting.tests
    made = [
        Plan((test,), 2, options.sizes or sizes[test])
        for test in setting.tests
        if test in sizes and test in wanted
    ]
    if "test" in setting.tests and "test" in wanted:
        made.append(Plan(("test",), 2, WORK_NS))
    # A lost frame may cost TCP 200 ms: rounds that are long enough to have some of these.
    if setting.permille or setting.injected:
        made = [replace(plan, rounds=7, round_ms=100) for plan in made]
    if "allreduce" in setting.tests and "allreduce" in wanted:
        made.append(Plan(("allreduce",), SHARED_RANKS, "8", rounds=7, round_ms=50))
    if patterns.ALONE in setting.tests and patterns.ALONE in wanted and not options.quick:
        made.append(Plan((patterns.ALONE,), 2, "", rounds=7, round_ms=10))
    if setting == PLAIN:
        made += wide(wanted, cores, options)
    return made


def chosen_in(setting: Setting, chosen: list[Peer]) -> list[Peer]:
    if setting.injected:
        chosen = [peer for peer in chosen if peer.thole]
    if setting in (FRAMES, LOSS, INJECTED):
        chosen = [peer for peer in chosen if peer.name in LOSSY or peer.name.startswith(LOSSY_OURS)]
    return chosen


def least_bytes(output: str) -> int:
    """What the first host must have sent at least, if the tests that printed this went over the network."""
    records = [json.loads(line) for line in output.splitlines() if line.startswith('{"test"')]
    carried = [row for row in records if row["test"] not in POLLS]  # their sizes are no bytes
    return sum(row["size"] * row["iterations"] * len(row["samples"]) for row in carried)


class NetworkBench(Bench):
    """Starts peers over two hosts."""

    def __init__(self, node: Bench, hosts: Testbed, setting: Setting) -> None:
        self.options, self.console, self.cpus, self.every = node.options, node.console, node.cpus, node.every
        self.found, self.programs, self.places = node.found, node.programs, node.places
        self.results, self.commands, self.repeated = Results(), {}, 0
        self.hosts = hosts
        self.setting = setting
        # Beside the hosts' names: a page that both see, for the time of a bare cache line.
        self.word = hosts.folder / "word"
        self.word.write_bytes(bytes(4096))

    def place(self, plan: Plan) -> list[int]:
        """One core for each host, or its half of all."""
        each = len(self.every) // 2 if plan.wide else 1
        self.hosts.pin([self.every[:each], self.every[each : 2 * each]])
        return self.every[: 2 * each]

    def line(self, peer: Peer, plan: Plan) -> tuple[list[str], dict[str, str]]:
        self.place(plan)
        mpi = self.found[peer.mpi]
        words = [word.format(interface=self.hosts.interface) for word in peer.arguments]
        words += self.program(peer, plan)
        if not plan.patterned:
            words += ["--word", str(self.word)]
        command = self.hosts.launch(mpi, plan.ranks, *words)
        settings = dict(launcher_of(mpi).environment) | peer.settings(mpi, self.hosts.interface)
        if peer.thole:
            options = [*peer.options]
            if self.setting.injected:
                options.append(f"inject_loss={self.setting.injected}")
            made = thole_plan(command, options=options, through=peer.through)
            command, settings = made.command, settings | made.environment() | peer.provided()
        return command, settings

    def once(self, command: list[str], settings: dict[str, str]) -> Outcome:
        self.word.write_bytes(bytes(4096))
        before = self.hosts.traffic(0)["tx_bytes"]
        line = self.hosts.command(0, *command)
        outcome = run(line, environment() | settings, LIMIT_S)
        crossed = self.hosts.traffic(0)["tx_bytes"] - before
        if outcome.failure:
            self.hosts.clear()
        elif crossed < least_bytes(outcome.output):
            reason = f"only {crossed} bytes crossed the network: the ranks talked another way"
            outcome = replace(outcome, status=1, output="", errors=reason)
        return outcome

    def elsewhere(self) -> float:
        return self.hosts.cpu_seconds()


def measure(node: Bench, chosen: list[Peer], compared: Compared) -> None:
    wanted = chosen_settings(compared.options)
    if compared.options.quick and not compared.options.peers:
        chosen = [peer for peer in chosen if peer.link != "raw"]  # "both" takes raw frames where they are better
    measured: dict[Setting, NetworkBench] = {}
    try:
        with Testbed() as hosts:
            for setting in wanted:
                bench = measured[setting] = NetworkBench(node, hosts, setting)
                try:
                    hosts.set_loss(None)
                    hosts.set_mtu(setting.mtu)
                    if setting.permille is not None:
                        hosts.set_loss(setting.permille)
                except Trouble as trouble:
                    bench.results.failures[setting.title] = str(trouble)
                    continue
                some = ready(bench, with_others(chosen_in(setting, chosen), node.options.against))
                bench.measure(some, plans(node.options, setting, len(node.every)), rounds(node.options))
    except KeyboardInterrupt:  # what has been measured by then is still reported
        compared.interrupted = True
    except Trouble as trouble:
        refused = Results()
        refused.failures["network"] = str(trouble)
        compared.parts.append(report.Part("Between two hosts", refused, []))
    add_parts(measured, compared)


def add_parts(measured: dict[Setting, NetworkBench], compared: Compared) -> None:
    free = measured[FRAMES].results if FRAMES in measured else None
    plain = measured[PLAIN].results if PLAIN in measured else None

    def check(setting: Setting, under: Results, condition: Condition) -> list[targets.Check]:
        if setting == PLAIN:
            return targets.check_network(under, condition)
        if setting == JUMBO:
            return targets.check_streams(under)
        if setting == LOSS:
            return targets.check_loss(under, free and free.under(condition))
        if setting == INJECTED:
            return targets.check_loss(under, plain and plain.under(condition))
        return []

    for setting, bench in measured.items():
        part = bench.part(
            f"{report.HOSTS}, {setting.title}",
            report.NETWORK_TITLES,
            lambda under, condition, setting=setting: check(setting, under, condition),
        )
        compared.take(bench, part)
