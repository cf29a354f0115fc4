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

    def __init__(self, *, reuse: bool) -> None:
        self._budget = math.inf
        self._reuse = reuse
        self._finished: set[Hashable] = set()
        self._spent = 0

    def allow(self, epochs: float | None) -> None:
        """So many in all; None for as many as there are."""
        self._budget = math.inf if epochs is None else epochs

    @property
    def limited(self) -> bool:
        return self._budget < math.inf

    @property
    def budget(self) -> float:
        return self._budget

    @property
    def left(self) -> float:
        return self._budget - self._spent

    @property
    def share_left(self) -> float:
        """Of the budget; all of it if there is none."""
        return max(0.0, self.left / self._budget) if self.limited and self._budget else 1.0

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
