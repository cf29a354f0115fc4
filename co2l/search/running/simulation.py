"""A search without training: the real coordinator, queue and record, with a virtual clock and given accuracies.

The accuracies come from a formula, or were recorded on a whole grid. A simulated worker does what a trial does: it
reuses what is stored, trains the stages that are not, and reports after every task. An epoch takes virtual time, and
nothing else does.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from co2l.data.benchmarks import benchmark
from co2l.learning.metrics import scenarios
from co2l.search.record.entries import Status
from co2l.search.record.study import StudyRecord
from co2l.search.running.coordinator import Coordinator, TrialTracker
from co2l.search.running.queue import Signal
from co2l.search.running.reports import Report, course_name
from co2l.search.space.budget import Budget
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


def accuracy(trial: Trial, finished_tasks: int) -> float:
    """In percent: smooth in the logarithm of each setting, lower after every task, and a little different by seed."""
    numbers = {name: float(value) for name, value in trial.values.items() if not isinstance(value, bool | str)}
    bend = sum(math.cos(3 * math.log(1e-6 + abs(number)) + len(name)) for name, number in numbers.items())
    wobble = math.sin(12.9898 * trial.seed + bend) / 10
    return 50 + 40 * math.tanh(bend / (1 + len(numbers))) / math.sqrt(finished_tasks) + wobble


def recorded(
    grid: Space, scores: Sequence[Sequence[float]], seeds: Mapping[int, int] = MappingProxyType({})
) -> Callable[[Trial, int], float]:
    """The accuracies that a grid's trials had after each task, a row for each in the order of `trials`, to replay.

    `seeds` gives, for some of the seeds that are asked for, the recorded ones to take instead.
    """
    known = {(trial.group, trial.seed): row for trial, row in zip(grid.trials(), scores, strict=True)}
    return lambda trial, finished_tasks: known[trial.group, seeds.get(trial.seed, trial.seed)][finished_tasks - 1]


def second_per_epoch(trial: Trial) -> float:  # noqa: ARG001 (others may look at the trial)
    return 1.0


@dataclass
class Simulated:
    """What happened, in virtual seconds."""

    workers: int
    order: list[Trial] = field(default_factory=list)  # as they started, a retried one again
    trained: list[tuple[Hashable, int]] = field(default_factory=list)  # stage and epochs, as often as it was trained
    epochs_reused: int = 0
    ended: float = 0.0
    busy: float = 0.0
    at_once: int = 0  # the most trials that ran at the same time

    @property
    def epochs_trained(self) -> int:
        return sum(epochs for _, epochs in self.trained)

    @property
    def utilisation(self) -> float:
        """The share of the workers' time in which they trained."""
        return self.busy / (self.workers * self.ended) if self.ended else 1.0


class _Nowhere:
    """A tracker that drops everything."""

    def begin(self, trial: Trial) -> None: ...

    def report(self, trial_key: str, report: Report) -> None: ...

    def end(self, trial_key: str, status: Status, report: Report | None = None, reason: str = "") -> None: ...


@dataclass
class _Attempt:
    name: str
    trial: Trial
    task: int = 0
    trained: int = 0
    reused: int = 0


class Simulation:
    """`run` drives a search to its end, or to a virtual time at which the driver is killed."""

    def __init__(
        self,
        space: Space,
        record: StudyRecord,
        *,
        workers: int,
        reuse: bool = True,
        seed: int = 0,
        budget: Budget | None = None,
        accuracy: Callable[[Trial, int], float] = accuracy,
        seconds: Callable[[Trial], float] = second_per_epoch,
        fails: Callable[[Trial, int], str] = lambda _trial, _task: "",
        stored: set[Hashable] | None = None,
        tracker: TrialTracker | None = None,
    ) -> None:
        """`fails` gives a reason if an attempt breaks after this task; `stored` are the stages there already."""
        self.space, self.reuse = space, reuse
        self.now = 0.0
        self.coordinator = Coordinator(
            space, record, tracker or _Nowhere(), None, reuse=reuse, seed=seed, budget=budget, clock=lambda: self.now
        )
        self.accuracy, self.seconds, self.fails = accuracy, seconds, fails
        self.stored: set[Hashable] = set() if stored is None else stored
        self.seen = Simulated(workers)
        self._events: list[tuple[float, int, _Attempt]] = []  # when an attempt comes to the end of its task
        self._count = 0

    def run(self, until: float = math.inf) -> Simulated:
        while True:
            self._fill()
            if not self._events or self._events[0][0] > until:
                return self.seen
            self.now, _, attempt = heapq.heappop(self._events)
            self.seen.ended = self.now
            self._task_done(attempt)

    def _fill(self) -> None:
        """Start trials in all free slots."""
        while self.coordinator.running < self.seen.workers:
            name = f"attempt {len(self.seen.order)}"
            trial = self.coordinator.next(name)
            if isinstance(trial, Signal):
                return
            self.coordinator.begun(name)
            self.seen.order.append(trial)
            self.seen.at_once = max(self.seen.at_once, self.coordinator.running)
            self._train(_Attempt(name, trial))

    def _train(self, attempt: _Attempt) -> None:
        epochs = attempt.trial.config.epochs[attempt.task]
        stage = self._stage(attempt.trial, attempt.task)
        duration = 0.0
        if self.reuse and stage in self.stored:
            attempt.reused += epochs
            self.seen.epochs_reused += epochs
        else:
            attempt.trained += epochs
            self.seen.trained.append((stage, epochs))
            duration = epochs * self.seconds(attempt.trial)
            self.seen.busy += duration
        self._count += 1  # of two ends at the same time the one that began first comes first
        heapq.heappush(self._events, (self.now + duration, self._count, attempt))

    def _stage(self, trial: Trial, task: int) -> Hashable:
        return trial.segment(task), task

    def _task_done(self, attempt: _Attempt) -> None:
        trial, task, tasks = attempt.trial, attempt.task, len(attempt.trial.config.epochs)
        if reason := self.fails(trial, task):
            failing = Report("epoch", task, tasks, 0, {}, attempt.trained, attempt.reused)
            self.coordinator.received(attempt.name, [failing], reason)
            self.coordinator.ended(attempt.name, died=False)
            return
        self.stored.add(self._stage(trial, task))
        last = task == tasks - 1
        name = self.space.objective if last else course_name(self.space.objective, trial.config)
        metrics = {name: self.accuracy(trial, task + 1)}
        result = self._result(trial) if last else None
        kind: Literal["task", "done"] = "done" if last else "task"
        epoch = attempt.trained + attempt.reused
        report = Report(kind, task, tasks, epoch, metrics, attempt.trained, attempt.reused, result)
        if self.coordinator.received(attempt.name, [report]) or last:
            self.coordinator.ended(attempt.name, died=False)
        else:
            attempt.task += 1
            self._train(attempt)

    def _result(self, trial: Trial) -> dict[str, Any]:
        """In the form of `Result.as_dict()`; every task has the same accuracy."""
        tasks = len(trial.config.epochs)
        scores = [self.accuracy(trial, t + 1) for t in range(tasks)]
        names = list(self._scenarios())
        return {
            "score": scores[-1],
            "average": dict.fromkeys(names, scores[-1]),
            "final": {name: [scores[-1]] * tasks for name in names},
            "matrix": {name: [[scores[t]] * (t + 1) for t in range(tasks)] for name in names},
            "forgetting": dict.fromkeys(names, 0.0),
            "backward_transfer": dict.fromkeys(names, 0.0),
            "weights": trial.key,
            "probes": {"final": "simulated", "matrix": "simulated"},
        }

    def _scenarios(self) -> Iterator[str]:
        yield from scenarios(benchmark(self.space.benchmark).scenario)
