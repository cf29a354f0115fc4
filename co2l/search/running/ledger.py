"""How many epochs a search may still train: each stage counts once, when it is finished, however often it was begun.

So what is left depends on the record alone, and a killed search decides as one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from co2l.search.record.choosing import finished_tasks
from co2l.search.record.entries import Entry
from co2l.search.space.trial import Trial


class Ledger:
    """Without `reuse` every trial has its own stages."""

    def __init__(self, *, reuse: bool, held_back: float = 0.0, least: float = 0.0) -> None:
        """`held_back` is a share of the budget, until it is released; of one below `least`, nothing is."""
        self._allowed = self._until = math.inf
        self._held_back, self._least = held_back, least
        self._reuse = reuse
        self._finished: set[Hashable] = set()
        self._spent = 0

    def allow(self, epochs: float | None) -> None:
        """So many in all; None for as many as there are."""
        self._allowed = math.inf if epochs is None else epochs

    def release(self, epochs: float) -> None:
        """From now on what was held back may be spent; without a budget, so many epochs more than until now."""
        self._until = math.inf if self.limited else self._spent + epochs
        self._held_back = 0.0

    @property
    def limited(self) -> bool:
        return self.budget < math.inf

    @property
    def budget(self) -> float:
        held_back = self._held_back if self._allowed >= self._least else 0.0
        return min(self._allowed * (1 - held_back), self._until)

    @property
    def left(self) -> float:
        return self.budget - self._spent

    @property
    def share_left(self) -> float:
        """Of the budget; all of it if there is none."""
        return max(0.0, self.left / self.budget) if self.limited and self.budget else 1.0

    def read(self, trial: Trial, entries: Mapping[str, Entry]) -> None:
        """What earlier drivers finished of the trial."""
        if (entry := entries.get(trial.key)) is not None:
            for task in range(finished_tasks(trial, entry)):
                self.finish(trial, task)

    def finish(self, trial: Trial, task: int) -> None:
        """The trial has finished this task, perhaps as another did before."""
        stage = self._stage(trial, task)
        if stage not in self._finished:
            self._finished.add(stage)
            self._spent += trial.config.epochs[task]

    def finished(self, trial: Trial, task: int) -> bool:
        return self._stage(trial, task) in self._finished

    def ahead(self, trial: Trial) -> int:
        """The epochs that the trial takes until its end."""
        return sum(epochs for task, epochs in enumerate(trial.config.epochs) if not self.finished(trial, task))

    def _stage(self, trial: Trial, task: int) -> Hashable:
        return trial.segment(task) if self._reuse else trial.key, task
