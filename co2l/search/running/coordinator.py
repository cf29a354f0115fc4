"""A search as it happens: gives trials out, takes their reports, and alone writes to the record and to tracking.

It knows no engine. An engine asks `next`, calls `begun` when an attempt has its slot, and hands every report to
`received` and every end to `ended`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from co2l.errors import OutsideError, headline
from co2l.learning.progress import Position
from co2l.search.algorithms.early_stopping import Decision, EarlyStopper, early_stopper
from co2l.search.algorithms.registry import algorithm_of
from co2l.search.algorithms.thaw import Thaw
from co2l.search.record.entries import Cost, Entry, Status, of_seeds
from co2l.search.record.study import LOST, StudyRecord
from co2l.search.running.failures import FailureLog
from co2l.search.running.queue import Signal, TrialQueue
from co2l.search.running.race_queue import RaceQueue, ledger_of, race_of
from co2l.search.running.reports import Fault, Report, course_name
from co2l.search.running.thaw_queue import ThawQueue
from co2l.search.space.budget import Budget
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

FAULTS = 3  # of the world around the trials, in a row and without a newly stored stage, until the search stops


@dataclass(frozen=True)
class Running:
    """A trial that has a slot, and where it is."""

    trial: Trial
    part_done: float  # of its epochs
    position: Position | None  # None until it reports, and in a search that is only simulated


class Watcher(Protocol):
    """Shows how the search goes."""

    def doing(self, what: str, *, checking: bool = False) -> None:
        """What happens while no trial runs; an error may end it while it is `checking`."""

    def changed(self, running: Sequence[Running], entries: Mapping[str, Entry]) -> None:
        """Trials began or reported."""

    def failed(self, trial: Trial, reason: str, log: Path | None, *, again: bool) -> None:
        """An attempt failed; its words are in `log`, and perhaps the trial is tried again."""


class TrialTracker(Protocol):
    """Where the runs of trials are tracked."""

    def begin(self, trial: Trial) -> None: ...

    def report(self, trial_key: str, report: Report) -> None: ...

    def end(self, trial_key: str, status: Status, report: Report | None = None, reason: str = "") -> None: ...


@dataclass
class Attempt:
    """One attempt at a trial."""

    trial: Trial
    began: float | None = None  # Tune asks for a trial before there is a slot for it
    last: Report | None = None
    position: Position | None = None
    decision: Decision = "continue"  # after its last task
    failed: str = ""  # the reason, if it gives one itself
    fault: Fault = "own"  # and whose that is
    stored: int = 0  # epochs trained up to the last stage that it stored

    @property
    def part_done(self) -> float:
        if self.position is not None:
            return self.position.part_done
        return self.last.epoch / sum(self.trial.config.epochs) if self.last else 0.0


class Coordinator:
    def __init__(
        self,
        space: Space,
        record: StudyRecord,
        tracker: TrialTracker,
        watcher: Watcher | None,
        *,
        reuse: bool,
        seed: int,
        failures: FailureLog | None = None,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.space, self.record, self.tracker, self.watcher = space, record, tracker, watcher
        race = space.selection.race
        self.ledger = ledger_of(space, reuse=reuse)
        self._budget, self._spent = budget or Budget(), record.cost()
        self._allow()
        self.queue: TrialQueue | ThawQueue | RaceQueue
        self.stopper: EarlyStopper
        if isinstance(algorithm_of(space), Thaw):
            self.queue = self.stopper = ThawQueue(space, record, self.ledger, reuse=reuse, seed=seed)
        else:
            self.queue = TrialQueue(space, record, self.ledger, reuse=reuse, seed=seed)
            self.stopper = early_stopper(space, of_seeds(record.entries.values(), space.seeds))
        if race is not None:
            begin = partial(race_of, space, record, self.ledger, reuse=reuse)
            self.queue = self.stopper = RaceQueue(self.queue, self.stopper, begin)
        self.attempts: dict[str, Attempt] = {}
        self.trouble = ""  # why the search cannot go on, if the world around it does not let it
        self._faults, self._failures, self._clock = 0, failures, clock

    @property
    def running(self) -> int:
        """How many attempts have a slot."""
        return sum(attempt.began is not None for attempt in self.attempts.values())

    @property
    def waiting(self) -> int:
        """How many attempts have a trial but no slot yet."""
        return len(self.attempts) - self.running

    def next(self, attempt_id: str) -> Trial | Signal:
        """The trial for this attempt to run."""
        trial = self.queue.next()
        if isinstance(trial, Trial):
            self.attempts[attempt_id] = Attempt(trial)
        return trial

    def begun(self, attempt_id: str) -> None:
        """The attempt has its slot, and its trial runs from now on."""
        attempt = self.attempts[attempt_id]
        self._begin(attempt.trial)
        attempt.began = self._clock()  # what it costs to write this down is not the trial's cost
        self._changed()

    def _allow(self) -> None:
        """What hours and money pay for is known better after every attempt."""
        spent, gpus = self._spent, self.space.resources.gpus
        self.ledger.allow(self._budget.in_epochs(spent.epochs_trained, spent.hours, gpus))

    def _begin(self, trial: Trial) -> None:
        self.record.begin(trial)
        self.tracker.begin(trial)

    def received(
        self,
        attempt_id: str,
        reports: Iterable[Report],
        failed: str = "",
        fault: Fault = "own",
        *,
        position: Position | None = None,
    ) -> bool:
        """Reports of an attempt, where it is, and perhaps why it fails and by whose fault.

        The answer is whether it has to stop now.
        """
        attempt = self.attempts.get(attempt_id)
        if attempt is None:
            return True
        saved = False
        for report in reports:
            self._report(attempt, report)
            saved |= report.kind == "saved"
        if saved:
            self.record.note_cost(attempt.trial, self._cost(attempt))
        attempt.failed, attempt.fault, attempt.position = failed, fault, position
        self._changed()
        return attempt.decision != "continue"

    def _report(self, attempt: Attempt, report: Report) -> None:
        attempt.last = report
        if report.kind != "done":  # the last one goes with the end of the trial
            self.tracker.report(attempt.trial.key, report)
        if report.kind not in ("task", "done"):
            return
        self.ledger.finish(attempt.trial, report.task)
        if report.kind == "done":
            return
        if report.epochs_trained > attempt.stored:
            attempt.stored, self._faults = report.epochs_trained, 0
        self.queue.stage_ready(attempt.trial, report.task)
        score = report.metrics.get(course_name(self.space.objective, attempt.trial.config))
        finished_tasks = report.task + 1
        if score is not None and finished_tasks < report.tasks:
            self.record.rung(attempt.trial, finished_tasks, score)
            if attempt.decision == "continue":
                attempt.decision = self.stopper.decide(attempt.trial, finished_tasks, score)

    def ended(self, attempt_id: str, *, died: bool) -> None:
        """The attempt is over; `died` if its process is gone."""
        attempt = self.attempts.pop(attempt_id, None)
        if attempt is None:
            return
        try:
            self._end(attempt, died=died)
        except BaseException:  # it could not be written down: the next driver finds it running, and tries it again
            self.queue.take_back(attempt.trial)
            raise

    def _end(self, attempt: Attempt, *, died: bool) -> None:
        trial, last = attempt.trial, attempt.last
        if attempt.began is None:
            if not died:
                self.queue.try_again(trial)
                return
            self._begin(trial)  # it was lost on the way to its slot
        cost = self._cost(attempt)
        self._spent += cost
        self._allow()
        if attempt.failed and attempt.fault in ("outside", "unfit"):
            self._interrupt(attempt, attempt.failed, cost)
            self._faults += FAULTS if attempt.fault == "unfit" else 1
            self.trouble = self.trouble or (_stops(attempt) if self._faults >= FAULTS else "")
        elif died or (attempt.failed and attempt.fault == "lost"):
            reason = f"{LOST} ({attempt.failed})" if attempt.failed else LOST
            self._retry(attempt, reason, self.record.lose(trial, last.epoch if last else 0, cost, reason))
        elif attempt.failed:
            final = attempt.fault == "hopeless"
            self._retry(attempt, attempt.failed, self.record.fail(trial, attempt.failed, cost, final=final))
        elif last is not None and last.result is not None:
            # tracking first: once the record says that a trial is done, nothing looks at it again
            self.tracker.end(trial.key, "done", last)
            self.record.finish(trial, last.result, cost)
            self.queue.finished(trial)
        elif attempt.decision == "pause":
            self.tracker.end(trial.key, "paused", last)
            self.record.pause(trial, cost)
            self.queue.gave_up(trial)
        elif attempt.decision == "stop":
            self.tracker.end(trial.key, "pruned", last)
            self.record.prune(trial, cost)
            self.queue.gave_up(trial)
        else:
            self._interrupt(attempt, "the search was stopped", cost)

    def _interrupt(self, attempt: Attempt, reason: str, cost: Cost) -> None:
        """The trial is pending again, and this does not count as a failure."""
        self.tracker.end(attempt.trial.key, "pending", attempt.last, reason)
        self.record.interrupt(attempt.trial, cost)
        self.queue.try_again(attempt.trial)

    def _retry(self, attempt: Attempt, reason: str, again: bool) -> None:
        self.tracker.end(attempt.trial.key, "pending" if again else "failed", attempt.last, reason)
        (self.queue.try_again if again else self.queue.gave_up)(attempt.trial)
        log = self._failures.write(attempt.trial, reason) if self._failures else None
        if self.watcher is not None:
            self.watcher.failed(attempt.trial, reason, log, again=again)

    def _cost(self, attempt: Attempt) -> Cost:
        trained, reused = (attempt.last.epochs_trained, attempt.last.epochs_reused) if attempt.last else (0, 0)
        return Cost(trained, reused, 0.0 if attempt.began is None else self._clock() - attempt.began)

    def stop(self) -> None:
        """The search is over, and with it whatever still runs."""
        with contextlib.ExitStack() as all_of_them:  # even if one cannot be written down
            for attempt_id in list(self.attempts):
                all_of_them.callback(self.ended, attempt_id, died=False)
        self._changed()

    def _changed(self) -> None:
        """Called at an attempt's begin and reports, not at its end: the next begins at once, and no slot is free."""
        if self.watcher is None:
            return
        running = [each for each in self.attempts.values() if each.began is not None]
        shown = [Running(each.trial, each.part_done, each.position) for each in running]
        self.watcher.changed(shown, self.record.entries)


def _stops(attempt: Attempt) -> str:
    """Why the search does, in one line."""
    if attempt.fault == "unfit":
        what, fix = headline(attempt.failed), "install the same co2l, with the same plug-ins, on every node"
        return str(OutsideError(f"a worker cannot run its trial ({what})", fix=fix))
    return attempt.failed
