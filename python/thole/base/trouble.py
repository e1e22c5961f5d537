# SPDX-License-Identifier: BSD-3-Clause
"""The one exception that ends the tool: what is wrong with which thing, and the remedy."""

from __future__ import annotations

import errno


class Trouble(Exception):
    """Something that the user can do something about; printed as one line, exit code 2."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


REMEDIES = {
    errno.EAGAIN: "there are as many processes as are permitted (ulimit -u, or pids.max of the control group)",
    errno.ENOENT: "what its first line names, or its loader, is missing",
    errno.ENOEXEC: "a script needs a first line that names what runs it, as #!/bin/sh does",
}


def not_run(what: str, error: OSError, remedy: str) -> Trouble:
    """What a program is, which was found, that could not be started."""
    return Trouble(f"{what} cannot be run: {error.strerror}", REMEDIES.get(error.errno or 0, remedy))
