# SPDX-License-Identifier: BSD-3-Clause
"""What thole-perf measures between two processes: running it, its results, showing them."""
