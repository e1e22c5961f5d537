# SPDX-License-Identifier: BSD-3-Clause
"""The numbers that Thole is to reach, each checked against what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from host import NEAR_NS
from ours import Perf
from peers import NETWORK_PEERS, PEERS, Peer
from results import Condition, Results, size_text

POLL_US = 0.1  # a poll that finds nothing may take so much longer than the MPI's own
UPDATES = 0.9  # of the updates a second of the MPI's own
BESIDE = 1.3  # times as long as alone, beside silent peers
RATE_TESTS = ("bandwidth", "gups")
LEVEL = 1.03  # bests of repeated runs differ by this much on a quiet machine
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Comparison:
    """Ours against theirs at one size, by the best samples. Over 1 means: short of the target."""

    size: int
    ours: float
    ours_name: str
    theirs: float
    theirs_name: str
    ratio: float  # ours to theirs
    goal: float  # what the ratio is to be: of a time at most, of a rate at least
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
    excess = factor / ratio if test in RATE_TESTS and ratio else ratio / factor
    return Comparison(size, left[1], left[0], right[1], right[0], ratio, factor, excess)


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


# Ours to the best of all others, by size: a time at most, a rate at least. Two numbers: with the cores near, and apart.
Factors = dict[int, "float | tuple[float, float]"]
SMALL = {64: 0.9, 512: 0.9, 4 * KIB: 0.9}
NODE_PINGPONG: Factors = {
    **{8: 1.0, **SMALL, 16 * KIB: 0.95, 64 * KIB: 0.9, 256 * KIB: 0.9},
    **{MIB: (0.9, 0.6), 4 * MIB: 0.65},
}
# Where both buffers are in it.
NODE_HEAP: Factors = {MIB: (0.75, 0.4), 4 * MIB: 0.35}
NODE_WINDOW: Factors = {
    **{8: 1.0, 64: 1.05, 512: 1.05, 4 * KIB: 1.05, 16 * KIB: 1.05, 64 * KIB: 1.05, 256 * KIB: 1.05},
    **{MIB: 1.1, 4 * MIB: (1.1, 1.5)},
}
EXCHANGE: Factors = {8: 1.0, 4 * KIB: 1.0, 16 * KIB: 1.0, 64 * KIB: 1.0, 256 * KIB: 1.0, MIB: 1.0}
HOSTS_PINGPONG: Factors = {
    **{8: 0.45, 64: 0.5, 512: 0.5, 4 * KIB: 0.75, 16 * KIB: 0.75, 64 * KIB: 0.7, 256 * KIB: 0.75},
    **{MIB: 0.6, 4 * MIB: 0.3},
}
UDP_PINGPONG: Factors = {
    **{8: 0.75, 64: 0.8, 512: 0.8, 4 * KIB: 0.8, 16 * KIB: 0.8, 64 * KIB: 0.7, 256 * KIB: 0.75},
    **{MIB: 0.6, 4 * MIB: 0.3},
}
HOSTS_WINDOW: Factors = {
    **{8: 1.5, 64: 1.5, 512: 1.5, 4 * KIB: 1.5, 16 * KIB: 1.3, 64 * KIB: 1.3, 256 * KIB: 1.1},
    **{MIB: 1.6, 4 * MIB: 4.0},
}


@dataclass(frozen=True)
class Row:
    """A row of the targets: one test over all its sizes."""

    title: str
    test: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    factors: Factors

    @property
    def unit(self) -> str:
        return "GB/s" if self.test in RATE_TESTS else "us"

    def found(self, results: Results, near: bool) -> list[Comparison]:
        made = []
        for size, factor in self.factors.items():
            goal = factor if isinstance(factor, float) else factor[0 if near else 1]
            made.append(_compare(results, self.test, size, list(self.ours), list(self.theirs), goal))
        return [comparison for comparison in made if comparison is not None]

    def checks(self, results: Results, near: bool) -> list[Check]:
        limit = "at least" if self.test in RATE_TESTS else "at most"
        made = [
            _check(f"{self.title}, {size_text(one.size)}: {limit} {one.goal:g} of the best", self.unit, [one])
            for one in self.found(results, near)
        ]
        return made or [Check(self.title, "not measured")]


def _names(
    table: tuple[Peer, ...], thole: bool, links: tuple[str, ...] = (), *, heap: bool = False
) -> tuple[str, ...]:
    wanted = (peer for peer in table if peer.thole == thole and peer.heap == heap)
    return tuple(peer.name for peer in wanted if not links or peer.link in links)


_OURS, _THEIRS, _HEAP = _names(PEERS, True), _names(PEERS, False), _names(PEERS, True, heap=True)
_TCP = _names(NETWORK_PEERS, False)
_HPCC = ("thole-openmpi4", "thole-openmpi4-ucx")
NODE_ROWS = (
    Row("ping-pong", "latency", _OURS, _THEIRS, NODE_PINGPONG),
    Row("ping-pong, written", "touched", _OURS, _THEIRS, NODE_PINGPONG),
    Row("ping-pong, written, shared heap", "touched", _HEAP, _THEIRS, NODE_HEAP),
    Row("both at once", "exchange", _OURS, _THEIRS, EXCHANGE),
    Row("four each way at once", "several", _OURS, _THEIRS, EXCHANGE),
    Row("window", "bandwidth", _OURS, _THEIRS, NODE_WINDOW),
    Row("4 ranks on 2 cores, allreduce", "allreduce", _OURS, _THEIRS, {8: 1.0}),
    Row("4 ranks on 2 cores, two pairs", "pairwise", _OURS, _THEIRS, {8: 1.0}),
    Row("4 ranks on 2 busy cores, allreduce", "busy allreduce", _OURS, _THEIRS, {8: 1.0}),
    Row("4 ranks on 2 busy cores, two pairs", "busy pairwise", _OURS, _THEIRS, {8: 1.0}),
    Row("hpcc, ping-pong", "hpcc ping-pong", _HPCC, ("openmpi4",), {8: 1.0}),
    Row("hpcc, ring", "hpcc ring", _HPCC, ("openmpi4",), {8: 1.0}),
)
HOSTS_ROWS = (
    Row("ping-pong, raw and UDP", "latency", _names(NETWORK_PEERS, True, ("both",)), _TCP, HOSTS_PINGPONG),
    Row("ping-pong, raw and UDP, written", "touched", _names(NETWORK_PEERS, True, ("both",)), _TCP, HOSTS_PINGPONG),
    Row("ping-pong, UDP alone", "latency", _names(NETWORK_PEERS, True, ("udp",)), _TCP, UDP_PINGPONG),
    Row("ping-pong, UDP alone, written", "touched", _names(NETWORK_PEERS, True, ("udp",)), _TCP, UDP_PINGPONG),
    Row("both at once", "exchange", _names(NETWORK_PEERS, True), _TCP, EXCHANGE),
    Row("window", "bandwidth", _names(NETWORK_PEERS, True), _TCP, HOSTS_WINDOW),
)


def is_near(condition: Condition) -> bool:
    return condition.known and condition.high_ns < NEAR_NS


def _polls(results: Results, ours: str, theirs: str, tests: tuple[str, ...]) -> list[Check]:
    """What polls that find nothing cost beyond those of the MPI as shipped."""
    checks = []
    for test in tests:
        found = [_compare(results, test, size, [ours], [theirs], 1.0) for size in results.sizes(test)]
        allowed = [
            replace(one, excess=one.ours / (one.theirs + POLL_US)) if one else None for one in found
        ]
        target = f"{test} that finds nothing: {ours} at most {POLL_US} us above {theirs}"
        checks.append(_check(target, "us", allowed))
    return checks


def _defaults(results: Results, table: tuple[Peer, ...]) -> list[Check]:
    """Under each MPI at least what it does as it ships, at every size."""
    checks = []
    for peer in (peer for peer in table if peer.default):
        ours = [other.name for other in table if other.thole and not other.heap and other.mpi == peer.mpi]
        for test in ("latency", "touched", "exchange", "bandwidth"):
            found = [_compare(results, test, size, ours, [peer.name], 1.0) for size in results.sizes(test)]
            unit = "GB/s" if test in RATE_TESTS else "us"
            checks.append(_check(f"{test}: Thole at least as good as {peer.name}", unit, found))
    return checks


def check(results: Results, condition: Condition) -> list[Check]:
    checks = [one for row in NODE_ROWS for one in row.checks(results, is_near(condition))]
    checks += _defaults(results, PEERS)
    for peer in (peer for peer in PEERS if peer.default):
        ours = next(other.name for other in PEERS if other.thole and other.mpi == peer.mpi)
        checks += _polls(results, ours, peer.name, ("test", "testany", "iprobe"))
        found = [_compare(results, "waitany", size, [ours], [peer.name], 1.0) for size in results.sizes("waitany")]
        checks.append(_check(f"waitany: {ours} at least as fast as {peer.name}", "us", found))
    updates = [
        _compare(results, "gups", size, ["thole-openmpi4"], ["openmpi4"], UPDATES) for size in results.sizes("gups")
    ]
    checks.append(_check(f"MPIRandomAccess of hpcc: at least {UPDATES} of openmpi4", "GUPs", updates))
    return checks


def check_network(results: Results, condition: Condition) -> list[Check]:
    """Between two hosts: Thole over a link, or over the better one, against all that goes over TCP."""
    ours, theirs = list(_names(NETWORK_PEERS, True)), list(_TCP)
    checks = [one for row in HOSTS_ROWS for one in row.checks(results, is_near(condition))]
    checks += _defaults(results, NETWORK_PEERS)
    for peer in (peer for peer in NETWORK_PEERS if peer.default):
        for one in (one.name for one in NETWORK_PEERS if one.thole and one.mpi == peer.mpi):
            checks += _polls(results, one, peer.name, ("test",))
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
    ours, theirs = list(_names(NETWORK_PEERS, True)), list(_TCP)
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
        return Comparison(size, with_loss[1], with_loss[0], without[1], "without loss", ratio, 0.5, 0.5 / ratio)

    ours, theirs = list(_names(NETWORK_PEERS, True)), list(_TCP)
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


def check_perf(perf: Perf | None) -> list[Check]:
    target = "thole perf at 8: within 1.6 of a bare cache line's ping-pong"
    if not perf:
        return [Check(target, "not measured")]
    summary = f"{perf.latency_us:.3f} us against {perf.floor_us:.3f}, ratio {perf.ratio:.2f}"
    if perf.ratio > 1.6:
        summary += f"; missed by {(perf.ratio / 1.6 - 1) * 100:.0f}%"
    return [Check(target, "met" if perf.ratio <= 1.6 else "missed", summary)]


def check_memory(memory: dict[str, int] | None) -> list[Check]:
    target = "memory: 63 peers take less than 2 MiB more than one"
    if not memory:
        return [Check(target, "not measured")]
    growth = memory["rss_growth"]
    summary = (
        f"resident {growth / MIB:.2f} MiB (private {memory['private_growth'] / MIB:.2f}, shared "
        f"{memory['shared_growth'] / MIB:.2f}), proportional {memory['pss_growth'] / MIB:.2f} MiB"
    )
    if growth >= 2 * MIB:
        summary += f"; missed by {(growth / 2 / MIB - 1) * 100:.0f}%"
    return [Check(target, "met" if growth < 2 * MIB else "missed", summary)]


def check_crowd(crowd: list[dict[str, object]] | None) -> list[Check]:
    """8 bytes beside peers that are connected and say nothing, by the medians."""
    checks = []
    for row in crowd or []:
        alone, beside = float(str(row["alone_us"])), float(str(row["beside_us"]))
        where = f"8 to a {row['partner']} peer, beside {row['peers']} silent {row['crowd']} ones"
        summary = f"{beside:.3g} us against {alone:.3g}, ratio {beside / alone:.2f}"
        state = "met" if beside <= BESIDE * alone * LEVEL else "missed"
        checks.append(Check(f"{where}: at most {BESIDE} of alone", state, summary))
    return checks or [Check(f"8 beside silent peers: at most {BESIDE} of alone", "not measured")]


@dataclass(frozen=True)
class DriverRow:
    """What a program of the part "driver" measures under a name, and what it is to be at most: a number, or what was
    measured under another name."""

    name: str
    title: str
    goal: float | str | None = None
    unit: str = "instructions"

    def limit(self, found: dict[str, float]) -> float | None:
        return found.get(self.goal) if isinstance(self.goal, str) else self.goal


DRIVER_ROWS = (
    DriverRow("pin", "pin a page, in chunks"),
    DriverRow("unpin", "unpin a page"),
    DriverRow("page", "pin and unpin a page, in chunks", 420),
    DriverRow("first_overlapped", "first data of 8 MiB, pinned while they move"),
    DriverRow("first_before", "first data of 8 MiB, pinned before"),
    DriverRow("first_share", "the former by the latter", 0.1, ""),
    DriverRow("cached", "a cached region, of a transfer", 300),
    DriverRow("view_make", "make a view of 8 MiB"),
    DriverRow("view_first", "the first touch of a view"),
    DriverRow("view_page", "a page of a view, all touched in order for the first time"),
    DriverRow("view_mapped", "a page of a view, touched again"),
    DriverRow("view_end", "the end of a view of 8 MiB"),
    DriverRow("small_driver", "40 bytes by the driver, both ends", 3700),
    DriverRow("small_raw", "40 bytes by packet sockets"),
    DriverRow("small_udp", "40 bytes by UDP"),
    DriverRow("nobody", "a frame for nobody", 200),
    DriverRow("bulk_driver_1500", "a byte of bulk at MTU 1500 by the driver, with tags, both ends", 0.85),
    DriverRow("bulk_driver_plain_1500", "the same without tags", 0.85),
    DriverRow("bulk_driver_mxoe", "a byte of MXoE's bulk by the driver, a packet a frame of 4 KiB, both ends"),
    DriverRow("bulk_udp_1500", "the same by UDP with segmentation, copied in and out by programs"),
    DriverRow("bulk_link_udp_1500", "the same by the link udp, without tags and books"),
    DriverRow("bulk_link_raw_1500", "the same by the link raw, without tags and books"),
    DriverRow("message_driver", "a byte of 16 MiB messages at MTU 1500 by the driver, with tags", "message_udp"),
    DriverRow("message_driver_plain", "the same without tags", "message_udp_plain"),
    DriverRow("message_udp", "a byte of 16 MiB messages at MTU 1500 by the link udp, with tags"),
    DriverRow("message_udp_plain", "the same without tags"),
)


def check_driver(found: dict[str, float]) -> list[Check]:
    checks = []
    for row in (row for row in DRIVER_ROWS if row.goal is not None):
        limit, value = row.limit(found), found.get(row.name)
        goal = row.goal if limit is None else f"{limit:.4g}"
        target = f"{row.title}: at most {goal} {row.unit}".rstrip()
        if value is None or limit is None:
            checks.append(Check(target, "not measured"))
        else:
            checks.append(Check(target, "met" if value <= limit else "missed", f"{value:.4g} {row.unit}".rstrip()))
    return checks


def check_adapters(found: dict[str, float]) -> list[Check]:
    """Instructions of a guest, a message of 8 bytes: at most as many as over UCX."""
    target = "8 B over soft-RoCE: at most 1.0 of UCX's instructions"
    ours, theirs = found.get("thole_8"), found.get("ucx_8")
    if not ours or not theirs:
        return [Check(target, "not measured")]
    return [Check(target, "met" if ours <= theirs else "missed", f"{ours:.0f} against {theirs:.0f}, {ours / theirs:.3f}")]
