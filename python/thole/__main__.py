# SPDX-License-Identifier: BSD-3-Clause
"""`python -m thole` is the same as `thole`."""

from thole.cli import main

raise SystemExit(main())
