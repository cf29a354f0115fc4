"""The paper's rule: the configuration with the highest validation accuracy, in the mean over its cells.

`per` chooses for each value of its axes, `mean_over` chooses one configuration for all values of its axes, both over
all seeds. A configuration of which a cell is missing cannot be chosen, and is named in `left_out`.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from co2l.search.document import Range, Value
from co2l.search.reports import Configuration, Entry, Status, configuration
from co2l.search.space import Space


@dataclass(frozen=True)
class Outcome:
    """How all cells of one configuration ended."""

    configuration: Configuration
    status: Status  # done only if every cell is; failed or pruned if one is
    score: float  # mean over its cells: of their results if done, at the rung if pruned, else 0
    tasks: int  # after how many tasks it was stopped, if it was
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Selected:
    """A configuration that can be run: one of those chosen."""

    group: Mapping[str, Value]  # the values of the axes under `per` or `mean_over` that it is for
    score: float  # what it was chosen by: with `mean_over`, the mean over all values of those axes
    values: Mapping[str, Value]  # of all axes
    settings: Mapping[str, Any]  # complete, defaults included
    cells: tuple[str, ...]  # the keys of its cells, one for every seed

    def as_dict(self, space: Space) -> dict[str, Any]:
        return {
            "benchmark": space.benchmark,
            "method": space.method,
            "settings": dict(self.settings),
            "score": self.score,
            "group": dict(self.group),
            "seeds": list(space.seeds),
            "cells": list(self.cells),
        }


@dataclass(frozen=True)
class Choice:
    selected: tuple[Selected, ...]
    left_out: tuple[str, ...]  # a line for each configuration that was begun but lacks a result
    missing: tuple[str, ...]  # a line for each value of `per` for which nothing could be chosen


def outcomes(space: Space, entries: Iterable[Entry]) -> list[Outcome]:
    """The configurations of which a cell was begun, in that order."""
    by_configuration: dict[Configuration, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_configuration[configuration(space, entry.values)].append(entry)
    return [_outcome(space, name, tuple(group)) for name, group in by_configuration.items()]


def _outcome(space: Space, name: Configuration, entries: tuple[Entry, ...]) -> Outcome:
    if any(entry.status == "failed" for entry in entries):
        return Outcome(name, "failed", 0.0, 0, entries)
    if stopped := [max(entry.rungs, default=0) for entry in entries if entry.status == "pruned"]:
        scores = [entry.rungs[min(stopped)] for entry in entries if min(stopped) in entry.rungs]
        return Outcome(name, "pruned", _mean(scores), min(stopped), entries)
    scores = [entry.score for entry in entries if entry.score is not None]
    if len(scores) == len(space.seeds) * math.prod(len(axis) for axis in lists(space, space.selection.mean_over)):
        return Outcome(name, "done", _mean(scores), 0, entries)
    return Outcome(name, "running", 0.0, 0, entries)


def group(space: Space, chosen: Configuration) -> tuple[Value, ...]:
    """The values of the axes that the selection chooses per."""
    return tuple(dict(chosen)[name] for name in space.selection.per)


def relative(space: Space, known: Iterable[Outcome]) -> dict[Configuration, float]:
    """How far each score is above the mean of those of the same group that ended alike."""
    alike: dict[object, list[Outcome]] = defaultdict(list)
    for outcome in known:
        alike[group(space, outcome.configuration), outcome.status, outcome.tasks].append(outcome)
    means = {name: _mean([outcome.score for outcome in several]) for name, several in alike.items()}
    return {each.configuration: each.score - means[name] for name, several in alike.items() for each in several}


def lists(space: Space, names: Iterable[str]) -> list[tuple[Value, ...]]:
    """The values of axes that the selection goes over."""
    axes = [space.axes[name] for name in names]
    return [axis for axis in axes if not isinstance(axis, Range)]  # all of them: checked when the space was read


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores) if scores else 0.0  # exact, whatever the order of the cells


def select(space: Space, entries: Iterable[Entry]) -> Choice:
    """The best of what the record holds. Of equal ones the earlier on the axes wins, whatever ended first."""
    per = space.selection.per
    candidates: dict[tuple[Value, ...], list[Outcome]] = defaultdict(list)
    left_out: list[str] = []
    for outcome in outcomes(space, entries):
        if outcome.status == "done":
            candidates[group(space, outcome.configuration)].append(outcome)
        else:
            left_out.append(_why(space, outcome))
    selected: list[Selected] = []
    missing: list[str] = []
    for values in itertools.product(*lists(space, per)):
        if best := candidates.get(values):
            selected += _runnable(space, min(best, key=lambda each: (-each.score, _place(space, each.configuration))))
        else:
            named = _named(zip(per, values, strict=True))
            missing.append(f"{named + ': ' if named else ''}no configuration has all of its cells finished")
    return Choice(tuple(selected), tuple(left_out), tuple(missing))


def _runnable(space: Space, best: Outcome) -> Iterable[Selected]:
    """One for every value of the axes that were averaged over; they share the rest."""
    names = space.selection.mean_over
    chosen = dict(best.configuration)
    for values in itertools.product(*lists(space, names)):
        point = {name: {**chosen, **dict(zip(names, values, strict=True))}[name] for name in space.axes}
        cells = [space.cell(point, seed) for seed in space.seeds]
        yield Selected(
            group={name: point[name] for name in (*space.selection.per, *names)},
            score=best.score,
            values=point,
            settings=cells[0].config.settings.model_dump(mode="json"),
            cells=tuple(cell.key for cell in cells),
        )


def _place(space: Space, chosen: Configuration) -> tuple[Any, ...]:
    """Where a configuration is on the axes: in a list by position, in a range by value."""
    axes = space.axes
    places: list[Any] = []
    for name, value in chosen:
        axis = axes[name]
        places.append(value if isinstance(axis, Range) else axis.index(value))
    return tuple(places)


def _why(space: Space, outcome: Outcome) -> str:
    named = _named(outcome.configuration)
    done = sum(entry.status == "done" for entry in outcome.entries)
    cells = len(space.seeds) * math.prod(len(axis) for axis in lists(space, space.selection.mean_over))
    failed = next((entry.reason for entry in outcome.entries if entry.status == "failed"), "")
    if failed:
        return f"{named}: {done} of {cells} cells finished, one failed ({failed.strip().splitlines()[-1]})"
    if outcome.status == "pruned":
        return f"{named}: stopped after {outcome.tasks} tasks"
    return f"{named}: {done} of {cells} cells finished"


def _named(values: Iterable[tuple[str, Value]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values)


def write(path: Path, space: Space, choice: Choice) -> None:
    """The selected configurations as YAML, a list; each entry is what `co2l.evaluate` needs to run it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump([each.as_dict(space) for each in choice.selected], sort_keys=False, allow_unicode=True)
    whole = path.with_name(f".{path.name}.new")
    whole.write_text(text, encoding="utf-8")
    whole.replace(path)  # a reader sees the old file or the new one
