"""The figures of a search, each from plain numbers: what mattered, how it went, and which values led where.

The report draws importance and history with the same functions, so both show the same numbers. Nothing here uses
pyplot's global state.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib import colormaps
from matplotlib.figure import Figure

from co2l.search.record.entries import Entry
from co2l.search.record.importance import described
from co2l.search.space.document import Range, Value
from co2l.search.space.naming import short
from co2l.search.space.space import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILION, SKY = "#0072b2", "#d55e00", "#56b4e9"  # of Okabe and Ito: the colour-blind can distinguish them
DPI = 110


def search_figures(
    space: Space, entries: Iterable[Entry], shares: Mapping[str, float], selected: Collection[str]
) -> dict[str, Figure]:
    """By name, without those for which there are too few results; `selected` holds keys of trials."""
    known = list(entries)
    finished = [entry for entry in known if entry.score is not None]
    if len(finished) < 2:
        return {}
    figures = {"importance": importance(shares, described(space))} if shares else {}
    figures["history"] = history(known, space.objective)
    if whole := [entry for entry in finished if space.is_whole(entry.values)]:
        figures["parallel_coordinate"] = parallel_coordinate(space, whole, selected)
    return figures


def importance(shares: Mapping[str, float], label: str) -> Figure:
    """A bar per axis; `label` says what the numbers are."""
    ordered = sorted(shares.items(), key=lambda item: item[1])
    figure = Figure(figsize=(6.2, 0.9 + 0.36 * len(ordered)), layout="constrained", dpi=DPI)
    panel = figure.subplots()
    drawn: Any = panel.barh([name for name, _ in ordered], [share for _, share in ordered], color=BLUE, height=0.62)
    panel.bar_label(drawn, fmt="%.2f", padding=4)
    panel.set_xlim(0, max(1e-9, max(shares.values())) * 1.15)
    panel.set_xlabel(label)
    panel.grid(visible=False)
    return figure


def history(entries: Sequence[Entry], objective: str) -> Figure:
    """The score of each trial in the order they began, and the best so far.

    A trial that was stopped early has none: its cross is what the matrix probe measured at its rung, and says so.
    """
    figure = Figure(figsize=(7.4, 3.3), layout="constrained", dpi=DPI)
    panel = figure.subplots()
    done = [(i + 1, entry.score) for i, entry in enumerate(entries) if entry.score is not None]
    if done:
        x, y = zip(*done, strict=True)
        panel.scatter(x, y, s=22, color=SKY, label="finished", zorder=3)
        panel.step(x, list(itertools.accumulate(y, max)), where="post", color=BLUE, label="best so far")
    at_rung = [(i + 1, max(entry.rungs.items())[1]) for i, entry in enumerate(entries) if _was_stopped(entry)]
    if at_rung:
        x, y = zip(*at_rung, strict=True)
        panel.scatter(x, y, s=22, marker="x", color=VERMILION, label="stopped early: by the matrix probe, at its rung")
    panel.set_xlabel("trial, in the order they began")
    panel.set_ylabel(f"{objective} (%)")
    panel.legend()
    return figure


def _was_stopped(entry: Entry) -> bool:
    return entry.status in ("pruned", "paused") and bool(entry.rungs)


def parallel_coordinate(space: Space, finished: Sequence[Entry], selected: Collection[str]) -> Figure:
    """A line per trial through its values to its score; the brighter, the better; those selected are marked."""
    figure = Figure(figsize=(max(7.4, 1.5 * (len(space.axes) + 1)), 4.4), layout="constrained", dpi=DPI)
    panel = figure.subplots()
    scores = [entry.score or 0.0 for entry in finished]
    low, high = min(scores), max(scores)
    ranks = {entry.key: i / max(1, len(finished) - 1) for i, entry in enumerate(sorted(finished, key=_score))}
    for entry in sorted(finished, key=lambda entry: (entry.key in selected, _score(entry))):  # the best on top
        spread = (ranks[entry.key] - 0.5) * 0.06  # else lines through the same values would hide each other
        heights = [_height(space, name, entry.values[name]) + spread for name in space.axes]
        heights.append((_score(entry) - low) / ((high - low) or 1.0))
        chosen = entry.key in selected
        colour = VERMILION if chosen else colormaps["viridis"](0.05 + 0.85 * heights[-1])
        panel.plot(range(len(heights)), heights, color=colour, linewidth=2.6 if chosen else 1.2, alpha=0.9)
        if chosen:
            panel.annotate(f"★ {_score(entry):.2f}", (len(heights) - 1, heights[-1]), (10, 0),
                           textcoords="offset points", va="center", color=VERMILION, annotation_clip=False,
                           fontfamily="DejaVu Sans")  # fmt: skip
    for x, name in enumerate(space.axes):
        _scale(panel, x, [(_height(space, name, value), short(value)) for value in _ticks(space, name)])
    _scale(panel, len(space.axes), [(0.0, f"{low:.2f}"), (1.0, f"{high:.2f}")])
    panel.set_xticks(range(len(space.axes) + 1), [*space.axes, f"{space.objective} (%)"])
    panel.set(xlim=(-0.35, len(space.axes) + 0.55), ylim=(-0.08, 1.08), yticks=[])
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
    panel.grid(visible=False)
    return figure


def _score(entry: Entry) -> float:
    return entry.score or 0.0


def _scale(panel: Axes, x: float, ticks: Iterable[tuple[float, str]]) -> None:
    panel.axvline(x, color="#8a93a0", linewidth=0.8, zorder=0)
    for height, text in ticks:
        panel.annotate(text, (x, height), (-6, 0), textcoords="offset points", ha="right", va="center", fontsize=9,
                       bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8})  # fmt: skip


def _ticks(space: Space, name: str) -> Sequence[Value]:
    axis = space.axes[name]
    return (axis.low, axis.high) if isinstance(axis, Range) else axis


def _height(space: Space, name: str, value: Value) -> float:
    """Where a value is on its axis, from 0 to 1: listed values at equal distances, as they may be words."""
    axis = space.axes[name]
    if not isinstance(axis, Range):
        return axis.index(value) / (len(axis) - 1) if len(axis) > 1 else 0.5
    scale = math.log if axis.log else float
    low, high, at = scale(float(axis.low)), scale(float(axis.high)), scale(float(value))
    return (at - low) / ((high - low) or 1.0)
