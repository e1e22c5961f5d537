# SPDX-License-Identifier: BSD-3-Clause
"""Thole's own frames: what is in them, capturing them, writing them down."""
