"""One cell on a worker: opens the deepest stored state of its chain, trains on, and reports after every epoch and task.

It holds no credentials. In a search it never sees test data: the stream of a search has no test split at all.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from ray import tune

from co2l.data.benchmarks import benchmark
from co2l.data.streams import Split, open_stream
from co2l.errors import Co2lError
from co2l.learning.config import RunConfig
from co2l.learning.device import choose_device
from co2l.learning.methods import configure
from co2l.learning.metrics import Row, mean, score
from co2l.learning.run import EpochDone, Evaluating, Event, RunDone, TaskDone, run
from co2l.learning.store import Store
from co2l.search.reports import Report

TOGETHER_SECONDS = 0.5  # reports of short epochs travel together: each trip through Tune costs milliseconds


@dataclass(frozen=True)
class Assignment:
    """All that a worker needs to know of a cell."""

    cell: str
    config: Mapping[str, Any]  # benchmark, method, seed, settings
    split: Mapping[str, Any]
    store: str
    data: str
    device: str
    keep: tuple[str, ...]  # keys of the stages that other cells will want
    threads: int  # the same for all: the bits depend on it
    save_every: float
    exports: str = ""  # the store in which classifier and features are left, if they shall be

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class CellTrainable(tune.Trainable):
    """The assignment in its config, learned step by step. An error of the cell's own is a result, not a crash."""

    def setup(self, config: dict[str, Any]) -> None:
        self._begin(Assignment(**config))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self._begin(Assignment(**new_config))
        return True

    def _begin(self, assignment: Assignment) -> None:
        torch.set_num_threads(assignment.threads)
        config = configure(**assignment.config, split=Split(**assignment.split))
        self.reporter = Reporter(config)
        self.events = self.learn(assignment, config)

    def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
        """What happens in the cell; benchmarks of the service put events without learning in its place."""
        return events_of(assignment, config)

    def step(self) -> dict[str, Any]:
        reports: list[dict[str, Any]] = []
        began = time.monotonic()
        try:
            for event in self.events:
                report = self.reporter.report(event)
                if report is not None:
                    reports.append(report.to_dict())
                if isinstance(event, RunDone):
                    return self._last(reports)
                if isinstance(event, TaskDone) and event.task == self.reporter.tasks - 1:
                    continue  # nothing is decided after the last task, and the result follows at once
                long = isinstance(event, Evaluating) and reports  # what was learned is told before it takes its time
                if isinstance(event, TaskDone) or long or time.monotonic() - began > TOGETHER_SECONDS:
                    break
        except Co2lError as error:
            return self._last(reports, failed=str(error))
        except Exception:
            return self._last(reports, failed=traceback.format_exc(limit=-3))
        return {"reports": reports, "done": False}

    def _last(self, reports: list[dict[str, Any]], failed: str = "") -> dict[str, Any]:
        return {"reports": reports, "done": True, "failed": failed}

    def cleanup(self) -> None:
        """Save the state if the cell is left half way, and free what it held."""
        self.events.close()
        del self.events
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def events_of(assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
    """The cell's run; opening its data is part of it, so that a failure there is the cell's."""
    tasks = open_stream(config.benchmark, split=config.split, seed=config.seed, data=Path(assignment.data))
    yield from run(
        config,
        tasks,
        Store(assignment.store),
        device=choose_device(assignment.device),
        save_every=assignment.save_every,
        keep=frozenset(assignment.keep).__contains__,
        exports=Store(assignment.exports) if assignment.exports else None,
    )


class Reporter:
    """Turns a run's events into reports, and counts epochs: trained here, or taken from the store."""

    def __init__(self, config: RunConfig) -> None:
        self.tasks = benchmark(config.benchmark).tasks
        self.epochs = config.settings.epochs_per_task(self.tasks)
        self.trained = self.reused = 0
        self.judge = config.split.judge

    def report(self, event: Event) -> Report | None:
        if isinstance(event, EpochDone):
            self.trained += 1
            losses = {f"loss/{name}": value for name, value in event.losses.items()}
            return self._report("epoch", event.task, event.epoch, {**losses, "lr": event.lr})
        if isinstance(event, TaskDone):
            self.reused += self.epochs[event.task] - event.epochs_trained
            last = event.task == self.tasks - 1  # whose accuracies come with the result, by the final probe
            accuracies = {} if last or event.row is None else named(event.row, self.judge)
            return self._report("task", event.task, self.epochs[event.task], accuracies)
        if isinstance(event, RunDone):
            final = named(event.result.final, self.judge)
            return self._report("done", self.tasks - 1, self.epochs[-1], final, event.result.as_dict())
        return None

    def _report(
        self,
        kind: Literal["epoch", "task", "done"],
        task: int,
        epoch: int,
        metrics: dict[str, float],
        result: dict[str, Any] | None = None,
    ) -> Report:
        step = sum(self.epochs[:task]) + epoch
        return Report(kind, task, self.tasks, step, metrics, self.trained, self.reused, result)


def named(row: Row, judge: str) -> dict[str, float]:
    averages = {f"{judge}/{name}": mean(accuracies) for name, accuracies in row.items()}
    return {**averages, f"{judge}/score": score(row)}
