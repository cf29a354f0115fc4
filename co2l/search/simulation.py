"""A search without training: a virtual clock behind the same queue, rungs and record, and accuracies that are given.

They come from a formula, or were recorded on a whole grid. A simulated worker does what a trial does: it takes what is
stored, trains the stages that are not, and reports after every task. An epoch takes virtual time, and nothing
else does.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.metrics import scenarios
from co2l.search.queue import CellQueue, Signal
from co2l.search.reports import Report
from co2l.search.rungs import Rungs
from co2l.search.space import Cell, Space
from co2l.search.study import Record


def accuracy(cell: Cell, finished_tasks: int) -> float:
    """In percent: smooth in the logarithm of each setting, lower after every task, and a little different by seed."""
    settings = cell.config.settings.model_dump()
    numbers = {name: float(settings[name]) for name in cell.values if not isinstance(settings[name], bool | str)}
    bend = sum(math.cos(3 * math.log(1e-6 + abs(number)) + len(name)) for name, number in numbers.items())
    wobble = math.sin(12.9898 * cell.seed + bend) / 10
    return 50 + 40 * math.tanh(bend / (1 + len(numbers))) / math.sqrt(finished_tasks) + wobble


def recorded(grid: Space, scores: Sequence[Sequence[float]]) -> Callable[[Cell, int], float]:
    """The accuracies that a grid's cells had after each task, a row for each in the order of `cells`, to replay."""
    known = {(cell.group, cell.seed): row for cell, row in zip(grid.cells(), scores, strict=True)}
    return lambda cell, finished_tasks: known[cell.group, cell.seed][finished_tasks - 1]


def second_per_epoch(cell: Cell) -> float:  # noqa: ARG001 (others may look at the cell)
    return 1.0


@dataclass
class Simulated:
    """What happened, in virtual seconds."""

    workers: int
    order: list[Cell] = field(default_factory=list)  # as they started, a retried one again
    trained: list[tuple[Hashable, int]] = field(default_factory=list)  # stage and epochs, as often as it was trained
    epochs_reused: int = 0
    ended: float = 0.0
    busy: float = 0.0
    at_once: int = 0  # the most cells that ran at the same time

    @property
    def epochs_trained(self) -> int:
        return sum(epochs for _, epochs in self.trained)

    @property
    def utilisation(self) -> float:
        """The share of the workers' time in which they trained."""
        return self.busy / (self.workers * self.ended) if self.ended else 1.0


@dataclass
class _Attempt:
    cell: Cell
    began: float
    task: int = 0
    trained: int = 0
    reused: int = 0


class Simulation:
    """`run` drives a queue to its end, or to a virtual time at which the driver dies."""

    def __init__(
        self,
        space: Space,
        record: Record,
        *,
        workers: int,
        reuse: bool = True,
        seed: int = 0,
        accuracy: Callable[[Cell, int], float] = accuracy,
        seconds: Callable[[Cell], float] = second_per_epoch,
        fails: Callable[[Cell, int], str] = lambda _cell, _task: "",
        stored: set[Hashable] | None = None,
    ) -> None:
        """`fails` gives a reason if an attempt breaks after this task; `stored` are the stages there already."""
        self.space, self.record, self.reuse = space, record, reuse
        self.queue = CellQueue(space, record, reuse=reuse, seed=seed)
        self.rungs = Rungs(space, record)
        self.accuracy, self.seconds, self.fails = accuracy, seconds, fails
        self.stored: set[Hashable] = set() if stored is None else stored
        self.tasks = BENCHMARKS[space.benchmark].tasks
        self.seen = Simulated(workers)
        self._events: list[tuple[float, int, _Attempt]] = []  # when an attempt comes to the end of its task
        self._count = 0

    def run(self, until: float = math.inf) -> Simulated:
        now = 0.0
        while True:
            while self.queue.running < self.seen.workers and not isinstance(cell := self.queue.next(), Signal):
                self.queue.started(cell)
                self.seen.order.append(cell)
                self.seen.at_once = max(self.seen.at_once, self.queue.running)
                self._train(_Attempt(cell, now), now)
            if not self._events or self._events[0][0] > until:
                return self.seen
            now, _, attempt = heapq.heappop(self._events)
            self.seen.ended = now
            self._task_done(attempt, now)

    def _train(self, attempt: _Attempt, now: float) -> None:
        epochs = attempt.cell.config.settings.epochs_per_task(self.tasks)[attempt.task]
        stage = self._stage(attempt.cell, attempt.task)
        duration = 0.0
        if self.reuse and stage in self.stored:
            attempt.reused += epochs
            self.seen.epochs_reused += epochs
        else:
            attempt.trained += epochs
            self.seen.trained.append((stage, epochs))
            duration = epochs * self.seconds(attempt.cell)
            self.seen.busy += duration
        self._count += 1  # of two ends at the same time the one that began first comes first
        heapq.heappush(self._events, (now + duration, self._count, attempt))

    def _stage(self, cell: Cell, task: int) -> Hashable:
        return (cell.prefix, 0) if task == 0 else (cell.whole, task)

    def _task_done(self, attempt: _Attempt, now: float) -> None:
        cell, task, seconds = attempt.cell, attempt.task, now - attempt.began
        if reason := self.fails(cell, task):
            self.queue.failed(cell, reason, attempt.trained, attempt.reused, seconds)
            return
        self.stored.add(self._stage(cell, task))
        if task == 0:
            self.queue.stage_ready(cell)
        score = self.accuracy(cell, task + 1)
        if task == self.tasks - 1:
            self.queue.finished(cell, self._result(cell), attempt.trained, attempt.reused, seconds)
        elif self.rungs.decision(cell, task, score) == "stop":
            metrics: dict[str, float] = {self.space.objective: score}
            report = Report("task", task, self.tasks, 0, metrics, attempt.trained, attempt.reused)
            self.queue.pruned(cell, report, seconds)
        else:
            attempt.task += 1
            self._train(attempt, now)

    def _result(self, cell: Cell) -> dict[str, Any]:
        """In the form of `Result.as_dict()`; every task has the same accuracy."""
        scores = [self.accuracy(cell, t + 1) for t in range(self.tasks)]
        names = list(self._scenarios())
        return {
            "score": scores[-1],
            "average": dict.fromkeys(names, scores[-1]),
            "final": {name: [scores[-1]] * self.tasks for name in names},
            "matrix": {name: [[scores[t]] * (t + 1) for t in range(self.tasks)] for name in names},
            "forgetting": dict.fromkeys(names, 0.0),
            "backward_transfer": dict.fromkeys(names, 0.0),
            "weights": cell.key,
        }

    def _scenarios(self) -> Iterator[str]:
        yield from scenarios(BENCHMARKS[self.space.benchmark].scenario)
