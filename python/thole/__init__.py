# SPDX-License-Identifier: BSD-3-Clause
"""The command line tool of Thole: run, info, perf, compare, setup, tune."""

__version__ = "0.1.0"
