# SPDX-License-Identifier: BSD-3-Clause
"""What generate.py is made of: a module for each thing that it makes or checks."""
