"""How the results of a search are shown: the accuracy matrix of a cell, and the outcome of a study.

Nothing here uses pyplot's global state, so that any thread may draw.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from co2l.learning.metrics import Matrix

CELL_INCHES = 0.62
SCENARIOS = {"class_il": "Class-IL", "task_il": "Task-IL", "domain_il": "Domain-IL"}


def accuracy_matrix(matrix: Mapping[str, Matrix]) -> Figure:
    """A heat map per scenario: the accuracy in percent on each task (column) after learning each task (row)."""
    tasks = max((len(rows) for rows in matrix.values()), default=1)
    cell = CELL_INCHES if tasks <= 10 else 0.45  # many small cells before a poster
    side = max(cell * tasks, 2.0)
    panel = side + 0.9
    figure = Figure(figsize=(panel * max(len(matrix), 1), panel), dpi=100)
    # one plane in inches for all panels, with words for ticks: axes of their own would take twice the time to draw
    plane = figure.add_axes((0, 0, 1, 1), xlim=(0, figure.get_figwidth()), ylim=(panel, 0))
    plane.set_axis_off()
    for n, (scenario, rows) in enumerate(matrix.items()):
        left, top, size = n * panel + 0.65, 0.4, side / tasks
        values = [[*row, *[math.nan] * (tasks - len(row))] for row in rows]  # tasks to come have no accuracy yet
        edges = [left + size * t for t in range(tasks + 1)], [top + size * t for t in range(len(rows) + 1)]
        plane.pcolormesh(*edges, values, vmin=0, vmax=100, cmap="viridis")  # not imshow: sharp at any size

        def write(x: float, y: float, text: str, size: int = 8, **how: Any) -> None:
            plane.text(x, y, text, fontsize=size, **{"ha": "center", "va": "center", **how})

        middle = [size * (t + 0.5) for t in range(tasks)]
        for i, row in enumerate(rows):
            for j, accuracy in enumerate(row):
                colour = "black" if accuracy > 60 else "white"  # viridis is dark below
                write(left + middle[j], top + middle[i], f"{accuracy:.1f}", color=colour)
            write(left - 0.12, top + middle[i], str(i + 1))
        bottom = top + size * len(rows)
        for j in range(tasks):
            write(left + middle[j], bottom + 0.12, str(j + 1))
        mean = f", {sum(rows[-1]) / len(rows[-1]):.1f} on average" if rows else ""
        write(left + side / 2, top - 0.15, f"{SCENARIOS.get(scenario, scenario)} accuracy (%){mean}", 9)
        write(left + side / 2, bottom + 0.32, "on task")
        write(left - 0.35, (top + bottom) / 2, "after task", rotation=90)
    return figure


def png(figure: Figure) -> bytes:
    """The figure as the bytes of an image file."""
    if not isinstance(figure.canvas, FigureCanvasAgg):
        FigureCanvasAgg(figure)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


def outcome(
    space: Mapping[str, Any],
    table: Sequence[Mapping[str, Any]],
    *,
    selected: Sequence[Mapping[str, Any]] | None = None,
    tested: Sequence[Mapping[str, Any]] | None = None,
    figures: Mapping[str, Figure] | None = None,
) -> dict[str, bytes]:
    """What a study leaves behind, by file name: a search what it selected, an evaluation what it tested."""
    return {
        "space.yaml": _yaml(dict(space)),
        **({} if selected is None else {"selected.yaml": _yaml([dict(each) for each in selected])}),
        **({} if tested is None else {"tested.csv": _csv(tested)}),
        "cells.csv": _csv(table),
        **{f"figures/{name}.png": png(figure) for name, figure in (figures or {}).items()},
    }


def _csv(table: Sequence[Mapping[str, Any]]) -> bytes:
    rows = io.StringIO()
    writer = csv.DictWriter(rows, list({name: None for row in table for name in row}), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return rows.getvalue().encode()


def _yaml(content: object) -> bytes:
    return bytes(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, encoding="utf-8"))
