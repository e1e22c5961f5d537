# SPDX-License-Identifier: BSD-3-Clause
"""What `make bench` starts: the comparison, with the tool's own modules from the source tree."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from main import main  # noqa: E402  (the path comes first)

if __name__ == "__main__":
    sys.exit(main())
