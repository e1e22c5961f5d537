# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of numbers against message sizes. matplotlib is loaded by whoever wants one, and by nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thole.base import output
from thole.base.text import size_text
from thole.base.trouble import Trouble


def _without_display() -> None:
    import matplotlib

    matplotlib.use("Agg")


def check(path: Path) -> None:
    """output.check_file for a picture, whose suffix says which kind it is to be."""
    _without_display()
    from matplotlib.backend_bases import FigureCanvasBase

    if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise Trouble(f"{path} does not say what kind of picture it is", "end it in .png, .svg or .pdf")
    output.check_file(path)


def grid(rows: int, size: tuple[float, float], columns: int = 2) -> tuple[Any, Any]:
    """A figure, and its axes in rows."""
    _without_display()
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, constrained_layout=True, squeeze=False)
    return figure, axes


def write(path: Path, figure: Any, axes: Any, legend: str = "medium") -> None:
    """With message sizes along all axes."""
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    for one in axes.flat:
        one.set_xscale("log", base=2)
        one.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_text(size)))
        one.grid(visible=True, alpha=0.3)
        if one.get_legend_handles_labels()[0]:
            one.legend(fontsize=legend)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise output.refusal(path, error) from None
    pyplot.close(figure)
