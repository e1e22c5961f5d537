# SPDX-License-Identifier: BSD-3-Clause
"""The numbers that Thole is to reach, each checked against what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from ours import Perf
from peers import NETWORK_PEERS, PEERS
from results import Results, size_text

POLL_US = 0.1  # a poll that finds nothing may take so much longer than the MPI's own
UPDATES = 0.9  # of the updates a second of the MPI's own
LEVEL = 1.03  # bests of repeated runs differ by this much on a quiet machine
MIB = 1 << 20


@dataclass(frozen=True)
class Comparison:
    """Ours against theirs at one size, by the best samples. Over 1 means: short of the target."""

    size: int
    ours: float
    ours_name: str
    theirs: float
    theirs_name: str
    ratio: float  # ours to theirs
    excess: float  # what is missing, as a factor; at most LEVEL is met


@dataclass(frozen=True)
class Check:
    target: str
    state: str  # "met", "missed" or "not measured"
    summary: str = ""
    comparisons: tuple[Comparison, ...] = ()

    def record(self) -> dict[str, object]:
        return asdict(self)


def _compare(
    results: Results, test: str, size: int, ours: list[str], theirs: list[str], factor: float
) -> Comparison | None:
    """factor: ours may be at most (a time) or must be at least (a rate) so many times theirs."""
    left = results.first(ours, test, size)
    right = results.first(theirs, test, size)
    if left is None or right is None:
        return None
    ratio = left[1] / right[1] if right[1] else 1.0
    rate = test in ("bandwidth", "gups")
    excess = factor / ratio if rate and ratio else ratio / factor
    return Comparison(size, left[1], left[0], right[1], right[0], ratio, excess)


def _text(comparison: Comparison, unit: str) -> str:
    at = f"at {size_text(comparison.size)}: "
    return (
        f"{at}{comparison.ours:.3g} {unit} ({comparison.ours_name}) against "
        f"{comparison.theirs:.3g} ({comparison.theirs_name}), ratio {comparison.ratio:.2f}"
    )


def _check(target: str, unit: str, found: list[Comparison | None]) -> Check:
    comparisons = tuple(comparison for comparison in found if comparison is not None)
    if not comparisons:
        return Check(target, "not measured")
    worst = max(comparisons, key=lambda comparison: comparison.excess)
    summary = _text(worst, unit)
    missed = [comparison for comparison in comparisons if comparison.excess > LEVEL]
    if len(comparisons) > 1:
        summary = "worst " + summary
    if missed:
        by = ", ".join(f"{size_text(c.size)} by {(c.excess - 1) * 100:.0f}%" for c in missed)
        summary += f"; missed at {by}"
    return Check(target, "missed" if missed else "met", summary, comparisons)


def _polls(results: Results, ours: str, theirs: str) -> list[Check]:
    """What polls that find nothing, and messages that are polled for, cost beyond those of the MPI as shipped."""
    checks = []
    for test in ("test", "testany", "iprobe"):
        found = [_compare(results, test, size, [ours], [theirs], 1.0) for size in results.sizes(test)]
        allowed = [
            replace(one, excess=one.ours / (one.theirs + POLL_US)) if one else None for one in found
        ]
        target = f"{test} that finds nothing: {ours} at most {POLL_US} us above {theirs}"
        checks.append(_check(target, "us", allowed))
    found = [_compare(results, "waitany", size, [ours], [theirs], 1.0) for size in results.sizes("waitany")]
    checks.append(_check(f"waitany: {ours} at least as fast as {theirs}", "us", found))
    return checks


def check(results: Results, memory: dict[str, int] | None, perf: Perf | None) -> list[Check]:
    thole = [peer.name for peer in PEERS if peer.thole]
    others = [peer.name for peer in PEERS if not peer.thole]
    sizes = results.sizes("latency")
    checks: list[Check] = []

    def compare(
        test: str, size: int, ours: list[str], theirs: list[str], factor: float = 1.0
    ) -> Comparison | None:
        return _compare(results, test, size, ours, theirs, factor)

    for peer in PEERS:
        if not peer.default:
            continue
        ours = [other.name for other in PEERS if other.thole and other.mpi == peer.mpi]
        found = [compare("latency", size, ours, [peer.name]) for size in sizes]
        checks.append(_check(f"latency: {ours[0]} at least as fast as {peer.name}", "us", found))
        checks += _polls(results, ours[0], peer.name)
    found = [
        compare("gups", size, ["thole-openmpi4"], ["openmpi4"], UPDATES) for size in results.sizes("gups")
    ]
    checks.append(_check(f"MPIRandomAccess of hpcc: at least {UPDATES} of openmpi4", "GUPs", found))
    found = [compare("latency", size, thole, others) for size in sizes if size <= 65536]
    checks.append(_check("latency to 64K: level with the best peer", "us", found))
    for size in (MIB, 4 * MIB, 16 * MIB):
        found = [compare("touched", size, thole, others, 0.6)]
        checks.append(
            _check(f"written buffers, {size_text(size)}: at most 0.6 of the best peer", "us", found)
        )
    found = [compare("bandwidth", size, thole, others) for size in results.sizes("bandwidth")]
    checks.append(_check("bandwidth: at least the best peer", "GB/s", found))
    for size in (4 * MIB, 16 * MIB):
        found = [compare("bandwidth", size, thole, ["mpich"], 1.7)]
        checks.append(
            _check(f"bandwidth, {size_text(size)}: at least 1.7 of MPICH's own", "GB/s", found)
        )
    for test in ("allreduce", "pairwise"):
        found = [compare(test, 8, thole, others)]
        checks.append(_check(f"{test}, 4 ranks on 2 cores: at least the best peer", "us", found))
    checks.append(_check_perf(perf))
    checks.append(_check_memory(memory))
    return checks


def check_network(results: Results) -> list[Check]:
    """Between two hosts: Thole over a link, or over the better one, against all that goes over TCP."""
    links = {
        link: [peer.name for peer in NETWORK_PEERS if peer.link == link]
        for link in ("raw", "udp", "both")
    }
    ours = [peer.name for peer in NETWORK_PEERS if peer.thole]
    theirs = [peer.name for peer in NETWORK_PEERS if not peer.thole]
    checks = []
    for size, link, factor in (
        (8, "raw", 0.5),
        (8, "both", 0.5),
        (8, "udp", 0.75),
        (4096, "raw", 0.6),
        (4096, "both", 0.6),
        (4096, "udp", 0.8),
    ):
        found = [_compare(results, "latency", size, links[link], theirs, factor)]
        target = f"latency, {size_text(size)}, {link}: at most {factor} of the best peer"
        checks.append(_check(target, "us", found))
    for size, factor in ((MIB, 0.9), (4 * MIB, 0.6)):
        found = [_compare(results, "latency", size, ours, theirs, factor)]
        target = f"ping-pong, {size_text(size)}: at most {factor} of the best peer"
        checks.append(_check(target, "us", found))
    checks += check_streams(results)
    for test, side in (("cpu_send", "sender"), ("cpu_recv", "receiver")):
        sizes = [size for size in results.sizes(test) if size >= MIB]
        found = [_compare(results, test, size, ours, theirs, 1.0) for size in sizes]
        checks.append(_check(f"CPU seconds per GB, {side}: at most the best peer's", "s", found))
    found = [_compare(results, "allreduce", 8, ours, theirs, 0.7)]
    target = "allreduce, 4 ranks on one core of each host: at most 0.7 of the best peer"
    checks.append(_check(target, "us", found))
    return checks


def check_streams(results: Results) -> list[Check]:
    """What holds with every MTU."""
    ours = [peer.name for peer in NETWORK_PEERS if peer.thole]
    theirs = [peer.name for peer in NETWORK_PEERS if not peer.thole]
    checks = []
    for size, factor in ((MIB, 1.2), (4 * MIB, 2.5), (16 * MIB, 2.5)):
        found = [_compare(results, "bandwidth", size, ours, theirs, factor)]
        target = f"bandwidth, {size_text(size)}: at least {factor} of the best peer"
        checks.append(_check(target, "GB/s", found))
    return checks


def check_loss(results: Results, free: Results | None) -> list[Check]:
    """What is left of the bandwidth under loss; TCP's own share beside it."""

    def kept(names: list[str], size: int) -> Comparison | None:
        with_loss = results.first(names, "bandwidth", size)
        without = free.first(names, "bandwidth", size) if free else None
        if with_loss is None or without is None or not with_loss[1]:
            return None
        ratio = with_loss[1] / without[1]
        return Comparison(size, with_loss[1], with_loss[0], without[1], "without loss", ratio, 0.5 / ratio)

    ours = [peer.name for peer in NETWORK_PEERS if peer.thole]
    theirs = [peer.name for peer in NETWORK_PEERS if not peer.thole]
    checks = []
    for size in (MIB, 4 * MIB):
        target = f"1% loss, {size_text(size)}: at least half of the bandwidth without"
        check = _check(target, "GB/s", [kept(ours, size)])
        tcp = kept(theirs, size)
        if tcp is not None and check.summary:
            beside = f"; over TCP {tcp.ours:.3g} ({tcp.ours_name}) against {tcp.theirs:.3g}, ratio {tcp.ratio:.2f}"
            check = replace(check, summary=check.summary + beside)
        checks.append(check)
    return checks


def _check_perf(perf: Perf | None) -> Check:
    target = "thole perf at 8: within 1.6 of a bare cache line's ping-pong"
    if not perf:
        return Check(target, "not measured")
    summary = f"{perf.latency_us:.3f} us against {perf.floor_us:.3f}, ratio {perf.ratio:.2f}"
    if perf.ratio > 1.6:
        summary += f"; missed by {(perf.ratio / 1.6 - 1) * 100:.0f}%"
    return Check(target, "met" if perf.ratio <= 1.6 else "missed", summary)


def _check_memory(memory: dict[str, int] | None) -> Check:
    target = "memory: 63 peers take less than 2 MiB more than one"
    if not memory:
        return Check(target, "not measured")
    growth = memory["rss_growth"]
    summary = (
        f"resident {growth / MIB:.2f} MiB (private {memory['private_growth'] / MIB:.2f}, shared "
        f"{memory['shared_growth'] / MIB:.2f}), proportional {memory['pss_growth'] / MIB:.2f} MiB"
    )
    if growth >= 2 * MIB:
        summary += f"; missed by {(growth / 2 / MIB - 1) * 100:.0f}%"
    return Check(target, "met" if growth < 2 * MIB else "missed", summary)
