# SPDX-License-Identifier: BSD-3-Clause
"""The one exception that ends the tool: what is wrong with which thing, and the remedy."""


class Trouble(Exception):
    """Something that the user can do something about; printed as one line, exit code 2."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy
