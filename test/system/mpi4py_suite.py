# SPDX-License-Identifier: BSD-3-Clause
"""One rank of mpi4py's own test suite, with a record that a test can read.

Started by the launcher on every rank: mpi4py_suite.py TEST_DIR RECORD_DIR [options of the suite's main.py].
The suite decides what runs and how; this only adds a listener. RECORD_DIR/RANK gets a line as each test
starts and one as it ends, so that what a rank was doing is known even if it never comes back.
Spawned children have a world of their own and write nothing.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import unittest
from pathlib import Path
from typing import Any, TextIO


class Record(unittest.TextTestResult):
    """Writes "start|ok|skip|fail TEST" and, indented, the reason."""

    out: TextIO

    def _line(self, word: str, test: unittest.TestCase, reason: str = "") -> None:
        self.out.write(f"{word} {test.id()}\n")
        self.out.writelines(f"\t{line}\n" for line in reason.splitlines())
        self.out.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._line("start", test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._line("ok", test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._line("skip", test, reason)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._line("fail", test, "".join(traceback.format_exception(*err)))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._line("fail", test, "".join(traceback.format_exception(*err)))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._line("fail", test, "".join(traceback.format_exception(*err)))

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self._line("ok", test)


class Runner(unittest.TextTestRunner):
    folder = Path()

    def __init__(self, **how: Any) -> None:
        super().__init__(**{**how, "resultclass": Record})

    def run(self, test: unittest.TestSuite) -> unittest.TestResult:
        world = importlib.import_module("mpi4py.MPI").COMM_WORLD
        with (self.folder / str(world.Get_rank())).open("w", encoding="utf-8") as out:
            Record.out = out
            result = super().run(test)
            out.write("end\n")
        return result


if __name__ == "__main__":
    tests, records, *words = sys.argv[1:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, tests)
    program = importlib.import_module("main").TestProgram
    Runner.folder = Path(records)
    sys.argv = [str(Path(tests) / "main.py"), *words]
    program(module=None, argv=list(sys.argv), testRunner=Runner)
