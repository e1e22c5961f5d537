# SPDX-License-Identifier: BSD-3-Clause
"""The command line tool of Thole; cli.py lists its commands."""

__version__ = "0.1.0"
