"""Early stopping at task boundaries: asynchronous successive halving over the number of finished tasks.

A configuration continues or stops as a whole: the first of its trials to reach a rung decides for those with other
seeds, or other values of the axes that the selection averages over, since a configuration that lacks a trial cannot be
selected. Scores are compared after the same number of tasks, and for the same values of the axes that the selection
names: a smaller buffer scores lower, and is selected for nevertheless. A trial continues if fewer than `min_trials`
have reached this rung, or if it is among the best share `survivors` of those that have. So the first always does, and
there is something to select.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from co2l.search.record.entries import Entry
from co2l.search.space.document import EarlyStop, Value
from co2l.search.space.space import Configuration, Space
from co2l.search.space.trial import Trial


class Rungs:
    """The decisions of one search; those that an earlier driver took are read from the record's entries."""

    def __init__(self, space: Space, rules: EarlyStop, entries: Iterable[Entry]) -> None:
        self._space, self._rules = space, rules
        self._scores: dict[object, list[float]] = defaultdict(list)  # per rung and group, ascending
        self._reached: set[tuple[str, int]] = set()  # which trial has a score at which rung
        self._stops: dict[tuple[Configuration, int], bool] = {}
        for entry in entries:
            for finished_tasks, score in entry.rungs.items():
                stopped = entry.status == "pruned" and finished_tasks == max(entry.rungs)
                self._add(entry.key, entry.values, finished_tasks, score)
                name = space.configuration(entry.values), finished_tasks
                if stopped or name not in self._stops:
                    self._stops[name] = stopped

    def decide(self, trial: Trial, finished_tasks: int, score: float) -> Literal["continue", "stop"]:
        if finished_tasks not in self._rules.rungs:
            return "continue"
        self._add(trial.key, trial.values, finished_tasks, score)
        name = self._space.configuration(trial.values), finished_tasks
        if name not in self._stops:
            scores = self._scores[self._compared(trial.values, finished_tasks)]
            better = len(scores) - bisect.bisect_right(scores, score)
            survivors = max(1, int(self._rules.survivors * len(scores) + 1e-9))
            self._stops[name] = len(scores) >= self._rules.min_trials and better >= survivors
        return "stop" if self._stops[name] else "continue"

    def _add(self, trial: str, values: Mapping[str, Value], finished_tasks: int, score: float) -> None:
        if (trial, finished_tasks) not in self._reached:
            self._reached.add((trial, finished_tasks))
            bisect.insort(self._scores[self._compared(values, finished_tasks)], score)

    def _compared(self, values: Mapping[str, Value], finished_tasks: int) -> object:
        selection = self._space.selection
        return finished_tasks, tuple(values[name] for name in (*selection.per, *selection.mean_over))
