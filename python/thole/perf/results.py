# SPDX-License-Identifier: BSD-3-Clause
"""What thole-perf said: samples, which become best and median over rounds, and JSON.

Machines are shared, so one number says little. How it looks to people is display.py's.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from thole.base import host

SIZES = "0,1,8,64,256,512,1k,4k,8k,16k,32k,64k,128k,256k,512k,1m,2m,4m"
TESTS = ("bare", "latency", "bandwidth", "rate")
NETWORKS = ("verbs", "udp")  # as thole-perf has them
PORT = 7471  # of a listener, as thole-perf has it
WRONG_ARGUMENTS = 2  # thole-perf's exit status


@dataclass
class Series:
    """The samples of one test at one size, one a round: microseconds, or bytes or messages a second."""

    samples: list[float] = field(default_factory=list)
    more_is_better: bool = False

    @property
    def best(self) -> float:
        return max(self.samples) if self.more_is_better else min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def more_than(self, other: Series) -> float:
        """The median of the rounds' differences: what disturbs a round disturbs both."""
        return statistics.median(a - b for a, b in zip(self.samples, other.samples))

    def times(self, other: Series) -> float:
        """The same as a ratio."""
        return statistics.median(a / b for a, b in zip(self.samples, other.samples))


@dataclass(frozen=True)
class Way:
    """How one side reached the other, as it says at the end. Empty words: not over the network."""

    transport: str
    records: str
    bulk: str
    rtt_ns: int
    frames_sent: int
    retransmitted: int
    frame_max: int

    @property
    def loss(self) -> float | None:
        """Of the frames sent, the part that was sent again; None where there were none."""
        return self.retransmitted / self.frames_sent if self.frames_sent else None


@dataclass
class Measured:
    """Everything that one run of thole-perf said."""

    version: str = ""
    cores: list[int] = field(default_factory=list)
    other: dict[str, str] = field(default_factory=dict)  # the listener's address, name and version
    ways: dict[str, Way] = field(default_factory=dict)  # by side: "here", "there"
    series: dict[tuple[str, int], Series] = field(default_factory=dict)
    mx: dict[tuple[str, int], Series] = field(default_factory=dict)  # through MX, beside those
    messages: dict[int, Series] = field(default_factory=dict)  # of the bandwidth test, a second
    counters: dict[str, int] = field(default_factory=dict)
    ratios: dict[int, list[float]] = field(default_factory=dict)  # latency to the floor beside it
    _beside: float | None = None  # the latest sample of the floor

    def sizes(self, test: str) -> list[int]:
        return [size for name, size in self.series if name == test]

    def of(self, test: str, size: int) -> Series | None:
        return self.series.get((test, size))

    @property
    def floor(self) -> Series | None:
        """Of one host: the bare cache line."""
        return self.series.get(("bare", 8))

    def times_floor(self, size: int) -> float | None:
        """Latency as a multiple of the floor, or of TCP, measured just before it: the median of the rounds."""
        return statistics.median(self.ratios[size]) if size in self.ratios else None

    def take(self, line: dict[str, Any]) -> None:
        kind = line.pop("type")
        if kind == "host":
            self.version, self.cores = line["version"], line["cores"]
            if "address" in line:
                self.other = {
                    "address": line["address"],
                    "name": line["peer_name"],
                    "version": line["peer_version"],
                }
        elif kind == "way":
            side = line.pop("side")
            self.ways[side] = Way(**line)
        elif kind == "counters":
            self.counters = line
        elif kind == "sample":
            self._take_sample(line)

    def _take_sample(self, line: dict[str, Any]) -> None:
        test, size, ns = line["test"], line["size"], max(line["ns"], 1)
        moved = line["iterations"] * line["window"] / (ns / 1e9)  # messages a second
        mx = line.get("api") == "mx"
        series = (self.mx if mx else self.series).setdefault(
            (test, size), Series(more_is_better=test in ("bandwidth", "rate"))
        )
        if test in ("bare", "tcp", "latency"):
            us = ns / line["iterations"] / 2 / 1000
            series.samples.append(us)
            if test != "latency":
                self._beside = us
            elif self._beside and not mx:
                self.ratios.setdefault(size, []).append(us / self._beside)
        elif test == "bandwidth":
            series.samples.append(moved * size)
            if not mx:
                self.messages.setdefault(size, Series(more_is_better=True)).samples.append(moved)
        else:
            series.samples.append(moved)

    def _mx_json(self) -> dict[str, Any]:
        """What MX makes of the same: its own numbers, and how they compare."""
        result: dict[str, Any] = {"latency": [], "bandwidth": []}
        for (test, size), series in self.mx.items():
            own = self.series[test, size]
            if test == "latency":
                row: dict[str, float] = {"size": size, "best_us": series.best}
                row["median_us"] = series.median
                row["more_ns"] = series.more_than(own) * 1000
                row["best_more_ns"] = (series.best - own.best) * 1000
                result[test].append(row)
                continue
            unit = "bytes" if test == "bandwidth" else "messages"
            row = {"size": size, f"best_{unit}_per_s": series.best}
            row[f"median_{unit}_per_s"] = series.median
            row["times_thole"] = series.times(own)
            if test == "rate":
                result[test] = row
            else:
                result[test].append(row)
        return result

    def as_json(self) -> dict[str, Any]:
        floor = self.floor
        result: dict[str, Any] = {
            "version": self.version,
            "cores": self.cores,
            "host": host.describe(),
        }
        if self.other:
            result["other"] = self.other
        if self.ways:
            result["ways"] = {
                side: {**vars(way), "loss": way.loss} for side, way in self.ways.items()
            }
        if floor:
            result["bare"] = {"best_us": floor.best, "median_us": floor.median}
        if self.other:
            result["tcp"] = [
                {"size": size, "best_us": series.best, "median_us": series.median}
                for (test, size), series in self.series.items()
                if test == "tcp"
            ]
        result["latency"] = []
        for size in self.sizes("latency"):
            series = self.series["latency", size]
            row: dict[str, float | None] = {"size": size, "best_us": series.best, "median_us": series.median}
            if size in self.ratios:
                row[f"times_{'tcp' if self.other else 'floor'}"] = self.times_floor(size)
            result["latency"].append(row)
        result["bandwidth"] = [
            {
                "size": size,
                "best_bytes_per_s": self.series["bandwidth", size].best,
                "median_bytes_per_s": self.series["bandwidth", size].median,
                "best_messages_per_s": self.messages[size].best,
            }
            for size in self.sizes("bandwidth")
        ]
        for size in self.sizes("rate"):
            series = self.series["rate", size]
            result["rate"] = {
                "size": size,
                "best_messages_per_s": series.best,
                "median_messages_per_s": series.median,
            }
        if self.mx:
            result["mx"] = self._mx_json()
        result["counters"] = self.counters
        return result
