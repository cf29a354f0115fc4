"""How results are shown in MLflow: the accuracy matrix of a trial, and the files of a study.

Nothing here uses pyplot's global state, so any thread may draw.
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

from co2l.learning.metrics import Matrix, scenario_title

SQUARE_INCHES = 0.62


def accuracy_matrix(matrix: Mapping[str, Matrix], probe: str) -> Figure:
    """A heat map per scenario: the accuracy in percent on each task (column) after learning each task (row).

    `probe` says who measured it: the result after the last task may come from another.
    """
    tasks = max((len(rows) for rows in matrix.values()), default=1)
    square = SQUARE_INCHES if tasks <= 10 else 0.45  # many small squares rather than a poster
    side = max(square * tasks, 2.0)
    panel = side + 1.05
    figure = Figure(figsize=(panel * max(len(matrix), 1), panel), dpi=100)
    # one plane in inches for all panels, with text for ticks: separate axes would take twice as long to draw
    plane = figure.add_axes((0, 0, 1, 1), xlim=(0, figure.get_figwidth()), ylim=(panel, 0))
    plane.set_axis_off()
    for n, (scenario, rows) in enumerate(matrix.items()):
        left, top, size = n * panel + 0.65, 0.55, side / tasks
        values = [[*row, *[math.nan] * (tasks - len(row))] for row in rows]  # future tasks have no accuracy yet
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
        write(left + side / 2, top - 0.3, f"{scenario_title(scenario)} accuracy (%)", 9)
        mean = f"; {sum(rows[-1]) / len(rows[-1]):.1f} on average" if rows else ""
        write(left + side / 2, top - 0.12, f"{probe}{mean}", 8)
        write(left + side / 2, bottom + 0.32, "on task")
        write(left - 0.35, (top + bottom) / 2, "after task", rotation=90)
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG file's bytes."""
    if not isinstance(figure.canvas, FigureCanvasAgg):
        FigureCanvasAgg(figure)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


def study_files(
    space: Mapping[str, Any],
    table: Sequence[Mapping[str, Any]],
    *,
    selected: Sequence[Mapping[str, Any]] | None = None,
    tested: Sequence[Mapping[str, Any]] | None = None,
    figures: Mapping[str, Figure] | None = None,
) -> dict[str, bytes]:
    """The files a study leaves behind, by name: what a search selected, or what an evaluation tested."""
    return {
        "space.yaml": _yaml(dict(space)),
        **({} if selected is None else {"selected.yaml": _yaml([dict(each) for each in selected])}),
        **({} if tested is None else {"tested.csv": _csv(tested)}),
        "trials.csv": _csv(table),
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
