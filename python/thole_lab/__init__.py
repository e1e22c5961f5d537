# SPDX-License-Identifier: BSD-3-Clause
"""The laboratory: MPI jobs on hosts made inside this machine, for `thole compare`, the benchmark and tests.

Uses the product (thole), which knows nothing of it: its command line has `compare` where this package is there.
"""
