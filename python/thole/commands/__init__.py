# SPDX-License-Identifier: BSD-3-Clause
"""A module each command of the tool: its arguments, what it does in their order, what it prints."""
