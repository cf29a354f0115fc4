"""What you see of a study in the MLflow UI: the names of its runs, a note, and its trials as a table.

A note is written before the runs' addresses are known. So its links name a trial (`run:KEY`), a file of the study
(`file:figures/history.png`), the table of its trials (`table:`) or charts of them (`charts:`), and `resolved` fills in
the addresses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from co2l.data.benchmarks import benchmark
from co2l.learning.metrics import scenario_title, scenarios
from co2l.search.selection.rule import Selected, told_apart
from co2l.search.selection.seeds import SeedSummary
from co2l.search.space.document import Range, Value
from co2l.search.space.naming import named, short, shortened
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

SYMBOLS = {
    **{"eta": "η", "tau": "τ", "kappa": "κ", "kappa_star": "κ*"},
    **{"E_0": "E₀", "E_t": "E", "batch_size": "b", "buffer_size": "M"},
}
ROWS = 16  # of at most 250 characters each, in a tag that holds 5000
FIGURES = ("importance", "history", "parallel_coordinate")  # most useful first
STAR, SELECTED = "★ ", "★"  # before the name of a selected trial, and in the column that says so
TRAINING = "workflowType=machine_learning"  # otherwise the UI opens its pages for language models
BY_NAME = "attributes.`run_name`"  # as the server names it
NAME, CREATED, DURATION = "attributes.`Run Name`", "runDateAndNestInfo", "duration"  # as the UI names columns


def in_symbols(values: Mapping[str, Value]) -> str:
    """A configuration in the paper's letters, such as `η=0.5 κ=0.2 M=200`."""
    return named(shortened(values, SYMBOLS), separator=" ")


def run_name(space: Space, trial: Trial) -> str:
    """The trial's values, and its seed unless it is the only one; an evaluation may get more seeds later."""
    alone = space.seeds == (trial.seed,) and space.split.kind == "search" and trial.values
    return in_symbols(trial.values) if alone else f"{in_symbols(trial.values)} seed {trial.seed}".strip()


def study_params(space: Space, logged: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What a study was asked, as parameters of its run: what each axis tried, and what was fixed.

    A parameter can be written once, so these are of the canonical space alone. What has grown since it was `logged` are
    tags.
    """
    plain = space.canonical()
    of_search = ("algorithm", "objective", "seeds", "early_stop")  # `objective` is also a setting
    about = {"benchmark": plain["benchmark"], "method": space.method_title}
    about |= {f"search.{name}": plain[name] for name in of_search if plain.get(name) is not None}
    axes = {name: _tried(axis) for name, axis in space.axes.items()}
    params = {name: short(value)[:6000] for name, value in {**about, **plain["settings"], **axes}.items()}
    grown = {f"grown.{name}": value for name, value in params.items() if logged.get(name, value) != value}
    return {name: value for name, value in params.items() if name not in logged}, grown


def _tried(axis: tuple[Value, ...] | Range) -> str:
    if isinstance(axis, Range):
        return f"{short(axis.low)} to {short(axis.high)}{', log' if axis.log else ''}"
    return ", ".join(map(short, axis))


def search_note(space: Space, selected: Sequence[Selected], figures: Iterable[str]) -> str:
    """What was selected with links to its trials, how sure that is, what was searched, and the figures."""
    measured = list(selected[0].accuracies) if selected else []
    rows = [
        [
            f"[{_plain(in_symbols(each.values))}](run:{each.trials[0]})",
            *(f"{each.accuracies[name]:.2f}" for name in measured),
            f"{each.score:.2f}{_interval(each)}",
            "–" if each.margin.lead is None else f"+{each.margin.lead:.2f}",
        ]
        for each in selected
    ]
    heads = [f"{STAR}selected", *(f"{scenario_title(name)} (%)" for name in measured), space.objective, "to the second"]
    tried = ", ".join(f"`{name}`" for name in space.axes)
    share = f"{space.validation.fraction:.0%} of the training data"
    seeds = f"{len(space.seeds)} seed{'s' if len(space.seeds) > 1 else ''} each"
    about = f"**{space.method_title}** on **{space.benchmark}**: {space.algorithm} over {tried}, {seeds}."
    by = f" after the last task, by the {selected[0].probe}" if selected else ""
    how = f"Accuracies on {share}{by}."
    drawn = [name for name in FIGURES if name in set(figures)]
    return _note(
        _table(heads, rows) if rows else "Nothing was selected.",
        *([_plain(f"Races: {'. '.join(told_apart(selected))}.", 600)] if told_apart(selected) else []),
        f"[All trials by {space.objective}](table:) · [charts that compare them](charts:)",
        f"{about} {how} Files: `selected.yaml`, `trials.csv`, `figures/`.",
        *[f"![{name}](file:figures/{name}.png)" for name in drawn],
    )


def _interval(selected: Selected) -> str:
    """Of the mean over the seeds of a race."""
    race = selected.margin.race
    return f" ({race.low:.2f} to {race.high:.2f} with 95%, {len(race.seeds)} seeds)" if race else ""


def evaluation_note(space: Space, rows: Sequence[SeedSummary]) -> str:
    """Test accuracy, one row per configuration."""
    columns = list(rows[0].accuracies) if rows else []
    lines = [[_plain(row.name), str(len(row.seeds)), *map(row.shown, columns)] for row in rows]
    heads = ["test accuracy (%)", "seeds", *map(scenario_title, columns)]
    return _note(
        _table(heads, lines) if rows else "No test accuracy yet.",
        "[All seeds](table:)",
        f"**{space.method_title}** on **{space.benchmark}**, trained on the full training set."
        " Files: `tested.csv`, `trials.csv`.",
    )


def model_note(space: Space, name: str) -> str:
    """What the registered model is, and how to use it."""
    of = benchmark(space.benchmark)
    channels, height, width = of.image_shape
    return _note(
        f"**{space.method_title}** on **{space.benchmark}**, trained on the full training set: {of.num_classes} "
        "classes. A version for each tested configuration, from its first seed, whatever its accuracy.",
        f'`mlflow.pytorch.load_model("models:/{name}@selected")` takes raw images, bytes '
        f"[N, {channels}, {height}, {width}], and returns probabilities [N, {of.num_classes}].",
    )


def version_note(space: Space, trial: Trial, tested: SeedSummary) -> str:
    """A version's settings, and the test accuracy of its configuration over all seeds."""
    settings = trial.config.settings.model_dump(mode="json")
    accuracies = ", ".join(f"{scenario_title(name)} {tested.shown(name)}" for name in tested.accuracies)
    seeds = f"{len(tested.seeds)} seed{'s' if len(tested.seeds) > 1 else ''}"
    listed = " ".join(f"`{name}={short(value)}`" for name, value in settings.items())
    return _note(
        f"{accuracies}: test accuracy (%, {tested.probe}) of {_plain(tested.name) or space.method_title} over {seeds}. "
        f"This version is seed {trial.seed}.",
        f"Settings: {listed}",
    )


def _plain(text: str, most: int = 80) -> str:
    """Without the characters that end a link or an item of a table."""
    return re.sub(r"[|\[\]\n]", " ", text)[:most]


def _note(*parts: str) -> str:
    return "\n\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows[:ROWS]]
    more = f"\n\nand {len(rows) - ROWS} more." if len(rows) > ROWS else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def resolved(note: str, run_of: Callable[[str], str | None], *, experiment: str, study: str, table: str) -> str:
    """The note with UI addresses in its links; `run_of` gives the run of a trial, `study` is the study's run."""

    def address(link: re.Match[str]) -> str:
        text, kind, name = link.groups()
        if kind == "run":
            run = run_of(name)
            return f"[{text}]({run_address(experiment, run)})" if run else text
        if kind == "file":
            return f"[{text}](get-artifact?path={name}&run_uuid={study})"
        return f"[{text}]({table}{'&compareRunsMode=CHART' if kind == 'charts' else ''})"

    return re.sub(r"\[([^]]*)\]\((run|file|table|charts):([^)]*)\)", address, note)


def run_address(experiment: str, run: str) -> str:
    return f"#/experiments/{experiment}/runs/{run}?{TRAINING}"


def table_address(experiment: str, study: str) -> str:
    return f"#/experiments/{experiment}/runs?viewStateShareKey={_view(study)}&{TRAINING}"


def _view(study: str) -> str:
    return f"co2l-{study[:8]}"


def view_tag(space: Space, name: str, study: str, at: int) -> tuple[str, str]:
    """The tag that gives the UI a view: the children of the run `study`, most important columns first.

    The trials of a search are ordered by their score; the seeds of an evaluation by name, never by test accuracy.
    """
    searched = space.split.kind == "search"
    split = "val" if searched else "test"
    measured = scenarios(benchmark(space.benchmark).scenario)
    metrics = [f"{split}/score", *(f"{split}/{each}" for each in measured)]
    metrics = list(dict.fromkeys([space.objective, *metrics])) if searched else metrics
    columns = [
        *(["tags.`co2l.selected`"] if searched else []),
        *(f"metrics.`{each}`" for each in metrics),
        *(f"params.`{each}`" for each in space.axes),
        *([] if searched else ["params.`seed`"]),
        "tags.`co2l.status`",
    ]
    state: dict[str, Any] = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{study}'",
        "orderByKey": f"metrics.`{space.objective}`" if searched else BY_NAME,
        "orderByAsc": not searched,
        "selectedColumns": columns,
        "columnOrder": [NAME, *columns, CREATED, DURATION],
        "columnWidths": {NAME: 300, **dict.fromkeys(columns, 95)},
    }
    if searched:
        state |= _charts(space, metrics)
    title = f"{name}: by {space.objective}" if searched else f"{name}: all seeds"
    view = {"name": title, "createdAt": at, "state": json.dumps(state)}
    return f"mlflow.sharedViewState.{_view(study)}", json.dumps(view)


def _charts(space: Space, metrics: Sequence[str]) -> dict[str, Any]:
    """The view's charts, in the UI's own form: what matters before the losses, which come first by name."""
    section = "co2l-what-matters"
    common: dict[str, Any] = {"isGenerated": False, "deleted": False, "metricSectionId": section}
    axes = {"selectedParams": list(space.axes), "selectedMetrics": [space.objective], "showAllRuns": True}
    parallel: dict[str, Any] = {
        "type": "PARALLEL",
        "uuid": "co2l-parallel",
        "displayName": f"{space.objective} by axis",
        **axes,
    }
    bars: list[dict[str, Any]] = [{"type": "BAR", "uuid": f"co2l-{name}", "metricKey": name} for name in metrics]
    return {
        "compareRunSections": [{"uuid": section, "name": "what matters", "display": True, "isReordered": True}],
        "compareRunCharts": [{**each, **common} for each in (parallel, *bars)],
        "isAccordionReordered": True,
    }
