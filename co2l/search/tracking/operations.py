"""What the spool holds: the operations on a trial's run as plain data, as reports or the record give them."""

from __future__ import annotations

import math
import numbers
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from co2l.learning.methods import METHODS
from co2l.learning.metrics import course, reported
from co2l.learning.path import of_task
from co2l.search.record.entries import ENDED, Entry, Status
from co2l.search.running.reports import Report, course_name
from co2l.search.space.document import VARIANT
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial
from co2l.search.tracking.pages import run_name

Operation = dict[str, Any]
Point = tuple[str, float, int, int]  # metric, value, step, and when in milliseconds

METRICS = re.compile(r"lr|(loss|system)/.+|(val|test)(_\w+)?/.+")  # what is tracked of a report's metrics


def now() -> int:
    return int(time.time() * 1000)


def begin(space: Space, trial: Trial, at: int | None = None) -> Operation:
    config = trial.config.as_dict()
    split = {f"split.{name}": value for name, value in config.pop("split").items()}
    variant = {VARIANT: trial.values[VARIANT]} if VARIANT in trial.values else {}
    by_task = {name: value for name, value in trial.values.items() if of_task(name)[1] is not None}
    params = {**config.pop("settings"), **by_task, **config, **split, **variant}
    shortened = {key: str(value)[:6000] for key, value in params.items()}
    time = now() if at is None else at
    return {"kind": "begin", "time": time, "trial": trial.key, "name": run_name(space, trial), "params": shortened}


def report(trial: str, reported: Report) -> Operation:
    return {"kind": "report", "time": now(), "trial": trial, "points": points(reported)}


def end(trial: str, status: Status, last: Report | None = None, reason: str = "") -> Operation:
    tags = {} if last is None else _epochs(last.epochs_trained, last.epochs_reused)
    at, result = ([], None) if last is None else (points(last), last.result)
    return _end(trial, status, at, result, reason, tags)


def _epochs(trained: int, reused: int) -> dict[str, str]:
    return {"co2l.epochs_trained": str(trained), "co2l.epochs_reused": str(reused)}


def _end(
    trial: str,
    status: Status,
    points: Iterable[Point],
    result: Mapping[str, Any] | None,
    reason: str,
    tags: Mapping[str, str],
) -> Operation:
    described = {"co2l.status": status, **({"co2l.reason": reason[:2000]} if reason else {}), **tags}
    told = {"status": status, "tags": described, "points": list(points), "result": result}
    return {"kind": "end", "time": now(), "trial": trial, **told}


def points(reported: Report) -> list[Point]:
    """The metrics we track; MLflow cannot store infinity."""
    at = now()
    wanted = {name: value for name, value in reported.metrics.items() if METRICS.fullmatch(name)}
    return [(name, rounded(name, value), reported.epoch, at) for name, value in wanted.items() if _is_finite(value)]


def rounded(name: str, value: float) -> float:
    """As people read it in the UI, which shows every digit: percentages to 0.01, other numbers to four digits.

    The exact numbers are in the files: `accuracy_matrix.json` and `trials.csv`.
    """
    percent = re.search(r"(^|/)(val|test)(_\w+)?/", name)
    return round(float(value), 2) if percent else float(f"{value:.4g}")


def _is_finite(value: object) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)


def missing(space: Space, recorded: Iterable[Entry], tracked: Mapping[str, str]) -> Iterator[Operation]:
    """What brings the runs in line with the record, where `tracked` says how the trials' runs have ended so far."""
    ended = {entry.key: entry for entry in recorded if entry.status in ENDED}
    for key, status in tracked.items():
        if status == "running" and key not in ended:
            yield end(key, "pending")
    for key, entry in ended.items():
        if tracked.get(key) != entry.status:
            trial = space.trial(entry.values, entry.seed)
            yield begin(space, trial, now() - int(1000 * entry.cost.seconds))
            tags = _epochs(entry.cost.epochs_trained, entry.cost.epochs_reused)
            yield _end(key, entry.status, _recorded_points(space, trial, entry), entry.result, entry.reason, tags)


def _recorded_points(space: Space, trial: Trial, entry: Entry) -> Iterator[Point]:
    """What the record knows of a trial's metrics: accuracies after each task, or scores at rungs; no losses."""
    at = now()
    steps = list(accumulate(trial.config.epochs))
    for step, metrics in _recorded_metrics(space, trial, entry, steps):
        yield from ((name, rounded(name, value), step, at) for name, value in metrics.items())


def _recorded_metrics(
    space: Space, trial: Trial, entry: Entry, steps: Sequence[int]
) -> Iterator[tuple[int, dict[str, float]]]:
    if entry.result is None:
        name = course_name(space.objective, trial.config)
        yield from ((steps[task - 1], {name: value}) for task, value in sorted(entry.rungs.items()))
        return
    matrix, split = entry.result["matrix"], space.split.evaluation_split
    probe = METHODS[trial.config.method].matrix_probe(trial.config.settings)
    rows = [dict(zip(matrix, row, strict=True)) for row in zip(*matrix.values(), strict=True)]
    for t in range(len(rows) if probe else 0):
        yield steps[t], course(rows[: t + 1], split, str(probe))
    final = {**reported(entry.result), "score": entry.result["score"]}
    yield steps[-1], {f"{split}/{name}": value for name, value in final.items()}
