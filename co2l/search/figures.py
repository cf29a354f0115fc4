"""How the results of a search are shown: the accuracy matrix of a cell, and the outcome of a study.

Nothing here uses pyplot's global state, so that any thread may draw.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
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
    figure = Figure(figsize=((side + 0.9) * max(len(matrix), 1), side + 0.9), dpi=100)
    panels = figure.subplots(1, max(len(matrix), 1), squeeze=False)[0]
    for panel, (scenario, rows) in zip(panels, matrix.items(), strict=False):
        values = [[*row, *[math.nan] * (tasks - len(row))] for row in rows]  # tasks to come have no accuracy yet
        edges = [[t - 0.5 for t in range(n + 1)] for n in (tasks, len(rows))]
        panel.pcolormesh(*edges, values, vmin=0, vmax=100, cmap="viridis")  # not imshow: sharp at any size
        panel.set(aspect="equal", ylim=(len(rows) - 0.5, -0.5))
        panel.grid(visible=False)
        for i, row in enumerate(rows):
            for j, accuracy in enumerate(row):
                colour = "black" if accuracy > 60 else "white"  # viridis is dark below
                panel.text(j, i, f"{accuracy:.1f}", ha="center", va="center", color=colour, fontsize=8)
        mean = f", {sum(rows[-1]) / len(rows[-1]):.1f} on average" if rows else ""
        panel.set_title(f"{SCENARIOS.get(scenario, scenario)} accuracy (%){mean}", fontsize=9)
        numbers = [str(t + 1) for t in range(tasks)]
        panel.set_xticks(range(tasks), numbers, fontsize=8)
        panel.set_yticks(range(len(rows)), numbers[: len(rows)], fontsize=8)
        panel.set_xlabel("on task", fontsize=8)
        panel.set_ylabel("after task", fontsize=8)
        panel.tick_params(length=0)
    figure.subplots_adjust(
        left=0.62 / figure.get_figwidth(),
        right=1 - 0.2 / figure.get_figwidth(),
        bottom=0.5 / figure.get_figheight(),
        top=1 - 0.35 / figure.get_figheight(),
        wspace=0.75 / side,
    )
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


def note(found: Sequence[Mapping[str, Any]], what: str = "selected") -> str:
    """What was found as a Markdown table, a column each, short enough for a tag."""
    if not found:
        return f"Nothing was {what}." if what == "selected" else f"No {what} yet."
    columns = [dict(_scalars(each)) for each in found]
    names = list({name: None for column in columns for name in column})
    lines = [["", *[f"{what} {i + 1}" for i in range(len(columns))]], ["---"] * (len(columns) + 1)]
    lines += [[name, *[_text(column.get(name, "")) for column in columns]] for name in names]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)[:3400]


def _scalars(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _scalars(value)
        elif isinstance(value, str | int | float):
            yield name, value


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _yaml(content: object) -> bytes:
    return bytes(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, encoding="utf-8"))
