"""One style for all figures, with colours that the colour-blind can distinguish, and how a figure becomes a file.

Text and axes use one ink, which takes on the page's text colour, so a figure reads well in light and dark mode.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")

INK = "#1f2431"
GREY = "#8a93a0"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6a3f", "#882255")  # Okabe and Ito
CLASSES = (  # Tol's muted colours, for up to ten classes
    *("#332288", "#88ccee", "#44aa99", "#117733", "#999933"),
    *("#ddcc77", "#cc6677", "#882255", "#aa4499", "#dddddd"),
)
MARKERS = "osD^vPX*"
STYLE: Any = {  # of matplotlib's own type, which has no name
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.dpi": 150,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw in our style: matplotlib reads it while drawing."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def pdf(figure: Figure, title: str, command: str) -> bytes:
    """The figure as PDF with fonts that a publisher accepts; its properties say what made it."""
    from matplotlib import rc_context

    written = io.BytesIO()
    about = {"Title": title, "Subject": command, "CreationDate": None, "Creator": None, "Producer": None}
    with rc_context({"pdf.fonttype": 42}):
        figure.savefig(written, format="pdf", metadata=about)
    return written.getvalue()


def svg(figure: Figure, name: str, *, inline: bool = False) -> str:
    """The figure as SVG with real text; `inline` as part of an HTML page, where names must be unique."""
    from matplotlib import rc_context

    written = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(written, format="svg", transparent=inline, metadata={"Date": None, "Creator": None})
    if not inline:
        return written.getvalue()
    drawn = written.getvalue()
    drawn = drawn[drawn.index("<svg ") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'\bid="', f'id="{name}-', drawn)
    drawn = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", drawn)
    return drawn.replace(INK, "currentColor")
