"""A search as it happens: gives cells out, hears their reports, and tells queue, rungs, record, tracking and progress.

It knows no engine. Whoever runs the trials asks `next`, tells when a trial has `begun` in its place, and hands every
message on to `received` and every end to `ended`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from co2l.search.queue import CellQueue, Signal
from co2l.search.reports import Entry, Report
from co2l.search.rungs import Rungs
from co2l.search.space import Cell, Space
from co2l.search.study import Record
from co2l.search.tracking import Tracker


class Watcher(Protocol):
    """Somebody who is shown how the search goes: how many trials run, and how much of their epochs is done."""

    def changed(self, *, running: int, part_done: float, entries: Mapping[str, Entry]) -> None: ...


@dataclass
class Trial:
    """One attempt at a cell."""

    cell: Cell
    began: float | None = None  # Tune asks for a cell before there is a place for it
    last: Report | None = None
    stopped: bool = False  # at a rung
    failed: str = ""  # the reason, if it says one itself

    @property
    def part_done(self) -> float:
        return self.last.epoch / sum(self.cell.config.settings.epochs_per_task(self.last.tasks)) if self.last else 0.0

    def spent(self) -> tuple[int, int, float]:
        trained, reused = (self.last.epochs_trained, self.last.epochs_reused) if self.last else (0, 0)
        return trained, reused, 0.0 if self.began is None else time.monotonic() - self.began


class Conductor:
    def __init__(
        self, space: Space, record: Record, tracker: Tracker, watcher: Watcher, *, reuse: bool, seed: int
    ) -> None:
        self.space, self.record, self.tracker, self.watcher = space, record, tracker, watcher
        self.queue = CellQueue(space, record, reuse=reuse, seed=seed)
        self.rungs = Rungs(space, record)
        self.trials: dict[str, Trial] = {}

    @property
    def running(self) -> int:
        return sum(trial.began is not None for trial in self.trials.values())

    @property
    def waiting(self) -> int:
        """How many trials have a cell and no place yet."""
        return len(self.trials) - self.running

    def next(self, trial_id: str) -> Cell | Signal:
        """The cell that this trial shall run."""
        cell = self.queue.next()
        if isinstance(cell, Cell):
            self.queue.started(cell)
            self.trials[trial_id] = Trial(cell)
        return cell

    def begun(self, trial_id: str) -> None:
        """The trial has its place, and its cell runs from now on."""
        trial = self.trials[trial_id]
        trial.began = time.monotonic()
        self.tracker.begin(trial.cell)
        self._changed()

    def received(self, trial_id: str, message: Mapping[str, Any]) -> bool:
        """A message of a trial: reports, and perhaps why it fails. True if the trial shall stop now."""
        trial = self.trials.get(trial_id)
        if trial is None:
            return True
        for each in message.get("reports", ()):
            self._report(trial, Report.from_dict(each))
        trial.failed = message.get("failed", "")
        self._changed()
        return trial.stopped

    def _report(self, trial: Trial, report: Report) -> None:
        trial.last = report
        if report.kind != "done":  # the last one goes with the end of the cell
            self.tracker.report(trial.cell.key, report)
        if report.kind == "task":
            if report.task == 0:
                self.queue.stage_ready(trial.cell)
            score = report.metrics.get(self.space.objective)
            if score is not None and self.rungs.decision(trial.cell, report.task, score) == "stop":
                trial.stopped = True

    def ended(self, trial_id: str, *, died: bool) -> None:
        """The trial is over; `died` if its process is gone."""
        trial = self.trials.pop(trial_id, None)
        if trial is None:
            return
        cell, last = trial.cell, trial.last
        if trial.began is None:
            if not died:
                self.queue.interrupted(cell)
                return
            self.tracker.begin(cell)  # it was lost on the way to its place
        # tracking first: once the record says that a cell is done, nobody looks at it again
        if trial.failed:
            self.tracker.end(cell.key, "failed", last, trial.failed)
            self.queue.failed(cell, trial.failed, *trial.spent())
        elif died:
            self.tracker.end(cell.key, "failed", last, "its process or machine was lost")
            self.queue.lost(cell, last.epoch if last else 0, *trial.spent())
        elif last is not None and last.result is not None:
            self.tracker.end(cell.key, "finished", last)
            self.queue.finished(cell, last.result, *trial.spent())
        elif trial.stopped and last is not None:
            self.tracker.end(cell.key, "pruned", last)
            self.queue.pruned(cell, last, trial.spent()[2])
        else:
            self.tracker.end(cell.key, "killed", last, "the search was stopped")
            self.queue.interrupted(cell, *trial.spent())

    def stop(self) -> None:
        """The search is over, also for what still runs."""
        for trial_id in list(self.trials):
            self.ended(trial_id, died=False)
        self._changed()

    def _changed(self) -> None:
        """Called at a trial's begin and reports, not at its end: the next begins at once, and no slot is free."""
        parts = [trial.part_done for trial in self.trials.values() if trial.began is not None]
        part_done = statistics.fmean(parts) if parts else 0.0
        self.watcher.changed(running=self.running, part_done=part_done, entries=self.record.entries)
