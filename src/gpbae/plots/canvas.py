"""Colours, style, and a figure of one's own: nothing here or above touches matplotlib's global state."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by colour-blind readers too.
BLACK, BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#000000", "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE)
GREY = "#6b7280"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 130,
    "savefig.facecolor": "white",
}


def canvas(rows: int, columns: int, size: tuple[float, float], **kwargs) -> "tuple[Figure, np.ndarray]":
    """A figure of its own, drawn by Agg wherever it is saved, and its (rows, columns) of axes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=STYLE["savefig.dpi"])
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)
