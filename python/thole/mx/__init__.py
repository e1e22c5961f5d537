# SPDX-License-Identifier: BSD-3-Clause
"""What there is of MX here and around: boards, endpoints, boards of other hosts. Changes nothing, opens no endpoint."""
