# SPDX-License-Identifier: BSD-3-Clause
"""MPIs: what each needs, which one a command line belongs to, what a run over Thole sets, and whether ranks used it."""
