"""Which trial of a thawing search goes on now, and whether a running one makes room for it after a task.

It has the interfaces of `TrialQueue` and of an early stopper, but lets trials pause and stops none. What it answers
depends on the record, the seed and what runs alone: a search that was killed continues as if it had not been.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from co2l.search.algorithms.early_stopping import Decision
from co2l.search.algorithms.gaussian_process import Growing, Indices, Numbers
from co2l.search.algorithms.thaw import Promises
from co2l.search.running.ledger import Ledger
from co2l.search.running.queue import FINISHED, WAIT, Recorded, Signal
from co2l.search.space.plan import listed_trials
from co2l.search.space.space import Configuration, Space
from co2l.search.space.trial import Segment, Trial


class ThawQueue:
    def __init__(self, space: Space, record: Recorded, ledger: Ledger, *, reuse: bool = True, seed: int = 0) -> None:
        self._space, self._record, self._ledger, self._reuse = space, record, ledger, reuse
        grouped: dict[Configuration, list[Trial]] = defaultdict(list)
        for trial in listed_trials(space):
            grouped[space.configuration(trial.values)].append(trial)
        self._trials = list(grouped.values())
        self._where = {trial.key: (i, j) for i, each in enumerate(self._trials) for j, trial in enumerate(each)}
        self._sharing: dict[Segment, set[int]] = defaultdict(set)  # stages -> points that have them
        self._depth: dict[str, int] = {}  # tasks whose scores are known
        self._known = Growing()
        self._named: dict[Hashable, tuple[int, int]] = {}  # of shared stages, the first trial that has them
        self._shared_rows: set[Hashable] = set()
        self._issued: dict[str, Trial] = {}
        self._target: dict[str, int] = {}  # of those: after how many tasks it is decided anew
        self._open = np.ones(len(self._trials), dtype=np.bool_)  # points that lack a result and have not failed
        self._retried = np.zeros(len(self._trials), dtype=np.bool_)  # of which an attempt failed
        self._done: dict[int, float] = {}  # points, and the mean of their scores
        self._answered: tuple[object, Trial | None] = (None, None)  # what the last answer depended on, and it
        self._ahead = np.zeros(len(self._trials), dtype=np.int64)  # epochs until all trials of a point are finished
        for each in self._trials:
            for trial in each:
                for segment in trial.chain:
                    self._sharing[segment].add(self._where[trial.key][0])
                    self._named.setdefault(self._name(trial, segment), self._where[trial.key])
                ledger.read(trial, record.entries)
        for i, each in enumerate(self._trials):
            for trial in each:
                self._read(trial)
            self._settle(i)
        listed = {configuration: i for i, configuration in enumerate(grouped)}
        starting = [listed[space.configuration(point)] for point in space.starting_points]
        self._first: Indices = np.array(starting, dtype=np.int64)
        prefixes = [tuple(trial.chain[0] for trial in each) for each in self._trials]
        epochs: Numbers = np.array([[trial.config.epochs for trial in each] for each in self._trials], dtype=np.float64)
        self._promises = Promises(space, list(grouped), prefixes, epochs.mean(1).cumsum(1), seed)

    def _read(self, trial: Trial) -> None:
        if (entry := self._record.entries.get(trial.key)) is None:
            return
        for finished_tasks, score in sorted(entry.rungs.items()):
            self._learn(trial, finished_tasks, score)
        if entry.score is not None:
            self._learn(trial, len(trial.config.epochs), entry.score)

    def _learn(self, trial: Trial, finished_tasks: int, score: float) -> None:
        self._depth[trial.key] = max(finished_tasks, self._depth.get(trial.key, 0))
        where, segment = self._where[trial.key], trial.ending(finished_tasks - 1)
        if segment not in (None, trial.chain[-1]):  # those that share it have one score
            name = self._name(trial, segment)
            if name in self._shared_rows:
                return
            self._shared_rows.add(name)
            where = self._named[name]  # whoever trained it
        self._known.append(*where, len(trial.config.epochs) - finished_tasks, score)

    def _name(self, trial: Trial, segment: Segment) -> Hashable:
        return (segment, *(trial.values[axis] for axis in self._space.selection.per))

    def _settle(self, point: int) -> None:
        """Take down how a point stands."""
        trials = self._trials[point]
        states = [self._record.status(trial) for trial in trials]
        entries = [self._record.entries.get(trial.key) for trial in trials]
        self._ahead[point] = sum(self._ledger.ahead(trial) for trial in trials)
        self._retried[point] = any(entry is not None and (entry.failures or entry.processes_lost) for entry in entries)
        if "failed" in states:
            self._open[point] = False
        elif all(state == "done" for state in states):
            self._open[point] = False
            self._done[point] = math.fsum(entry.score or 0.0 for entry in entries if entry) / len(entries)

    @property
    def issued(self) -> int:
        """How many trials `next` gave out that have not come back."""
        return len(self._issued)

    @property
    def unfinished(self) -> int:
        """Trials that have not ended and that the budget lets go on."""
        able = {*self._able().tolist(), *self._running()}
        return sum(self._record.status(trial) != "done" for point in able for trial in self._trials[point])

    def next(self) -> Trial | Signal:
        """A trial to start or to continue now."""
        trial = self._best()
        if trial is None:
            return WAIT if self._issued else FINISHED
        self._issued[trial.key] = trial
        ready = 1 if self._ledger.finished(trial, 0) else 0
        self._target[trial.key] = max(ready, self._depth.get(trial.key, 0)) + 1
        return trial

    def decide(self, trial: Trial, finished_tasks: int, score: float) -> Decision:
        """Whether the trial goes on after these tasks, or pauses as another promises more."""
        if finished_tasks > self._depth.get(trial.key, 0):
            self._learn(trial, finished_tasks, score)
            self._settle(self._where[trial.key][0])
        if finished_tasks < self._target[trial.key]:
            return "continue"  # it was stored
        del self._issued[trial.key]
        try:
            goes_on = self._best() is trial
        finally:
            self._issued[trial.key] = trial
        self._target[trial.key] = finished_tasks + 1
        return "continue" if goes_on else "pause"

    def stage_ready(self, trial: Trial, task: int) -> None:
        """The trial's stage of this task (0-based) is stored now."""
        if (segment := trial.ending(task)) not in (None, trial.chain[-1]):
            for point in self._sharing[segment]:
                self._settle(point)

    def finished(self, trial: Trial) -> None:
        """The trial is done."""
        score = self._record.entries[trial.key].score
        assert score is not None
        self._learn(trial, len(trial.config.epochs), score)
        self._leave(trial)

    def gave_up(self, trial: Trial) -> None:
        """The trial ended without a result, for good, or pauses."""
        self._leave(trial)

    def try_again(self, trial: Trial) -> None:
        """The trial is pending again."""
        self._leave(trial)

    def take_back(self, trial: Trial) -> None:
        """The trial is pending again, unless it came back already."""
        if trial.key in self._issued:
            self._leave(trial)

    def _leave(self, trial: Trial) -> None:
        del self._issued[trial.key], self._target[trial.key]
        self._settle(self._where[trial.key][0])

    def _running(self) -> set[int]:
        return {self._where[key][0] for key in self._issued}

    def _best(self) -> Trial | None:
        """Asked after a task and then for the slot that became free, where nothing has changed."""
        left = int(self._open.sum()), int(self._retried.sum())
        now = len(self._known), self._ledger.left, frozenset(self._issued), left
        if self._answered[0] != now:
            self._answered = now, self._promising()
        return self._answered[1]

    def _promising(self) -> Trial | None:
        able, busy, running = self._able(), self._busy(), sorted(self._running())
        first = able[np.isin(able, self._first)]
        for points in (first, able[~self._retried[able]], able[self._retried[able]]):
            ranked = self._promises.ranked(
                points,
                self._ahead[points],
                self._known.scores(),
                self._done,
                running,
                self._ledger.budget,
                self._ledger.share_left,
            )
            for point in ranked:
                if (trial := self._of_point(point, busy)) is not None:
                    return trial
        return next((trial for point in running if (trial := self._of_point(point, busy)) is not None), None)

    def _able(self) -> Indices:
        """Points that do not run and can be finished within what is left."""
        running: Indices = np.array(sorted(self._running()), dtype=np.int64)
        able = self._open & (self._ahead <= self._ledger.left - self._ahead[running].sum())
        able[running] = False
        return np.flatnonzero(able)

    def _busy(self) -> set[Segment]:
        """The stages in the making, which no second trial may train."""
        if not self._reuse:
            return set()
        return {segment for trial in self._issued.values() for segment in trial.chain if self._makes(trial, segment)}

    def _makes(self, trial: Trial, segment: Segment) -> bool:
        return segment is trial.chain[-1] or not self._ledger.finished(trial, segment.stages[-1])

    def _of_point(self, point: int, busy: set[Segment]) -> Trial | None:
        """The trial of a point that goes on: the furthest of those whose stages no other trains."""
        able = [
            trial
            for trial in self._trials[point]
            if trial.key not in self._issued and busy.isdisjoint(trial.chain) and self._record.status(trial) != "done"
        ]
        return max(able, key=lambda trial: self._depth.get(trial.key, 0), default=None)
