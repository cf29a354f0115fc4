"""What people see of a study in the MLflow UI: the names of its runs, a note, and its trials as a table.

A note is written where nobody knows yet where the runs are. So its links name a cell (`run:KEY`), a file of the study
(`file:figures/history.png`) or the table of its trials (`table:`), and `resolved` puts the addresses in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from co2l.data.benchmarks import BENCHMARKS
from co2l.search.document import VARIANT, Value
from co2l.search.evaluation import OverSeeds
from co2l.search.selection import Selected
from co2l.search.space import Cell, Space

SYMBOLS = {
    **{"eta": "η", "tau": "τ", "kappa": "κ", "kappa_star": "κ*"},
    **{"E_0": "E₀", "E_t": "E", "batch_size": "b", "buffer_size": "M"},
}
ROWS = 20  # of at most 200 characters each, in a tag that holds 5000
FIGURES = ("importance", "history", "parallel_coordinate")  # the telling ones first
TRAINING = "workflowType=machine_learning"  # without it the UI opens its pages for language models
NAME, CREATED, DURATION = "attributes.`Run Name`", "runDateAndNestInfo", "duration"  # as the UI names columns


def named(values: Mapping[str, Value]) -> str:
    """A configuration in the paper's letters, as `η=0.5 κ=0.2 M=200`."""
    return " ".join(
        str(value) if name == VARIANT else f"{SYMBOLS.get(name, name)}={_short(value)}"
        for name, value in values.items()
    )


def run_name(space: Space, cell: Cell) -> str:
    """The seed is part of it unless there is no other; an evaluation may get more of them."""
    alone = len(space.seeds) == 1 and space.split.kind == "search" and cell.values
    return named(cell.values) if alone else f"{named(cell.values)} seed {cell.seed}".strip()


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def search_note(space: Space, selected: Sequence[Selected], figures: Iterable[str]) -> str:
    """What was searched, what was selected with links to its trials, and the figures."""
    rows = [
        [f"[{_plain(named(each.values))}](run:{each.cells[0]})", f"{each.score:.2f}", *map(_short, each.group.values())]
        for each in selected
    ]
    heads = ["selected", space.objective, *(selected[0].group if selected else ())]
    tried = ", ".join(f"`{name}`" for name in space.axes)
    share = f"{space.validation.fraction:.0%} of the training data"
    about = f"**{space.method}** on **{space.benchmark}**: {space.algorithm} over {tried}, chosen on {share}."
    drawn = [name for name in FIGURES if name in set(figures)]
    return _note(
        _table(heads, rows) if rows else "Nothing was selected.",
        f"[All trials by {space.objective}](table:)",
        f"{about} Files: `selected.yaml`, `cells.csv`, `figures/`.",
        *[f"![{name}](file:figures/{name}.png)" for name in drawn],
    )


def evaluation_note(space: Space, rows: Sequence[OverSeeds]) -> str:
    """Test accuracy, a row for every configuration."""
    scenarios = list(rows[0].accuracies) if rows else []
    lines = [[_plain(row.name), str(len(row.seeds)), *map(row.shown, scenarios)] for row in rows]
    return _note(
        _table(["test accuracy (%)", "seeds", *scenarios], lines) if rows else "No test accuracy yet.",
        "[All seeds](table:)",
        f"**{space.method}** on **{space.benchmark}**, trained on all training data. Files: `tested.csv`, `cells.csv`.",
    )


def _plain(text: str) -> str:
    """Without what ends a link or a cell of a table."""
    return re.sub(r"[|\[\]\n]", " ", text)[:80]


def _note(*parts: str) -> str:
    return "\n\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows[:ROWS]]
    more = f"\n\nand {len(rows) - ROWS} more." if len(rows) > ROWS else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def resolved(note: str, run_of: Callable[[str], str | None], *, experiment: str, study: str, table: str) -> str:
    """The note with addresses of the UI in its links; `run_of` knows the run of a cell, `study` is the study's run."""

    def address(link: re.Match[str]) -> str:
        text, kind, name = link.groups()
        if kind == "run":
            run = run_of(name)
            return f"[{text}]({run_address(experiment, run)})" if run else text
        return f"[{text}]({table if kind == 'table' else f'get-artifact?path={name}&run_uuid={study}'})"

    return re.sub(r"\[([^]]*)\]\((run|file|table):([^)]*)\)", address, note)


def run_address(experiment: str, run: str) -> str:
    return f"#/experiments/{experiment}/runs/{run}?{TRAINING}"


def table_address(experiment: str, study: str) -> str:
    return f"#/experiments/{experiment}/runs?viewStateShareKey={_view(study)}&{TRAINING}"


def _view(study: str) -> str:
    return f"co2l-{study[:8]}"


def view_tag(space: Space, name: str, study: str, at: int) -> tuple[str, str]:
    """The tag by which the UI offers a view: the children of the run `study` by score, with what matters first."""
    judge, by = ("val", space.objective) if space.split.kind == "search" else ("test", "test/score")
    scenarios = {"class": ("class_il", "task_il"), "domain": ("domain_il",)}[BENCHMARKS[space.benchmark].scenario]
    metrics = list(dict.fromkeys([by, f"{judge}/score", *(f"{judge}/{name}" for name in scenarios)]))
    columns = [
        *(f"metrics.`{name}`" for name in metrics),
        *(f"params.`{name}`" for name in space.axes),
        f"tags.`{'co2l.selected' if judge == 'val' else 'co2l.status'}`",
    ]
    state: dict[str, Any] = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{study}'",
        "orderByKey": f"metrics.`{by}`",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": [NAME, *columns, CREATED, DURATION],
        "columnWidths": {NAME: 300, **dict.fromkeys(columns, 95)},
    }
    view = {"name": f"{name}: by {by}", "createdAt": at, "state": json.dumps(state)}
    return f"mlflow.sharedViewState.{_view(study)}", json.dumps(view)
