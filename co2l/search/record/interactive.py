"""Optuna's interactive figures of a search, drawn by plotly, for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import optuna

from co2l.errors import Co2lError, unknown
from co2l.search.record.entries import Entry
from co2l.search.record.storage import optuna_study
from co2l.search.space.space import Space

if TYPE_CHECKING:  # it need not be installed
    from plotly.graph_objects import Figure

FIGURES: Mapping[str, str] = {  # by our names, Optuna's; not its importance, which would be a second number for it
    "history": "plot_optimization_history",
    "parallel": "plot_parallel_coordinate",
    "slice": "plot_slice",
    "contour": "plot_contour",
    "rank": "plot_rank",
}


def interactive(space: Space, entries: Sequence[Entry], name: str) -> Figure:
    """The figure `name` of the trials that are done."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    if not optuna.visualization.is_available():
        raise Co2lError("plotly is not installed", where=f"interactive('{name}')", fix="pip install plotly")
    done = [entry for entry in entries if entry.status == "done" and space.is_whole(entry.values)]
    if not done:
        raise Co2lError("no trial is done yet", where=f"interactive('{name}')", fix="let the search run on")
    draw: Callable[..., Figure] = getattr(optuna.visualization, FIGURES[name])
    return draw(optuna_study(space, done, list(space.axes)), target_name=space.objective)
