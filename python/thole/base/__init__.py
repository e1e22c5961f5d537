# SPDX-License-Identifier: BSD-3-Clause
"""What all else stands on: errors, places, numbers and files that a user names, the library's tables, this machine.

Knows no MPI, no MX and no command.
"""
