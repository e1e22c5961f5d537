#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What of Meson's tests failed, with the last lines that each printed: after hours of other output, the end of a log.

    failed.py [--build DIR]       a paragraph a test; the exit status says nothing

Owns nothing: reads what Meson wrote about its last run, which has a log named after its setup, unless that is the
default one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

GOOD = ("OK", "SKIP", "EXPECTEDFAIL")
LINES = 12  # of a test's output


def paragraph(test: dict) -> str:
    said = (test.get("stdout", "") + test.get("stderr", "")).rstrip().splitlines()
    told = "".join(f"\n    {line}" for line in said[-LINES:])
    return f"{test['result']} {test['name']}, {test['duration']:.1f} s, exit status {test['returncode']}{told}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What of Meson's tests failed.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    logs = sorted((parser.parse_args().build / "meson-logs").glob("testlog*.json"), key=lambda log: log.stat().st_mtime)
    for test in [json.loads(line) for log in logs[-1:] for line in log.read_text().splitlines()]:
        if test["result"] not in GOOD:
            print(paragraph(test))


if __name__ == "__main__":
    main()
