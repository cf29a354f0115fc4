"""Small spaces for tests, results as their trials would bring them, and a record that is filled with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space, parse
from co2l.search.space.trial import Trial

AXES: dict[str, Any] = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}
EPOCHS = {"E_0": 20, "E_t": 10}


def space_of(axes: Mapping[str, Any] | None = None, benchmark: str = "seq_digits", **keys: Any) -> Space:
    """A space of these axes with 20 epochs for task 1 and 10 for each later one; `keys` as in its file."""
    axes = AXES if axes is None else axes
    settings = {name: value for name, value in EPOCHS.items() if name not in axes}
    return parse({"benchmark": benchmark, "settings": settings, "axes": dict(axes), **keys}, "space.yaml")


def result(score: float) -> dict[str, Any]:
    """In the form of `Result.as_dict()`, as far as a search reads it; Class-IL is one below, Task-IL one above."""
    matrix = {"class_il": [[score]], "task_il": [[score]]}
    average, probes = {"class_il": score - 1, "task_il": score + 1}, {"final": "paper", "matrix": "fast"}
    return {"score": score, "average": average, "matrix": matrix, "probes": probes}


def finish(record: StudyRecord, trial: Trial, score: float = 50.0, cost: Cost = Cost()) -> None:  # noqa: B008 (frozen)
    """The trial runs, and has its result."""
    record.begin(trial)
    record.finish(trial, result(score), cost)
