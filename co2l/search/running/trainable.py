"""One trial on a worker: opens the deepest stored state of its chain, trains on, reports each epoch and task.

About every half second it also says where it is, for people to see.

It holds no credentials. In a search it never sees test data: the stream of a search has no test split at all.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from co2l.loading import loading

with loading():
    import torch
    from ray import tune

from co2l.data.streams import Split
from co2l.errors import headline
from co2l.imports import Import, use
from co2l.learning.config import RunConfig
from co2l.learning.device import choose_device
from co2l.learning.events import EpochDone, Evaluating, Event, RunDone, StateSaved, TaskDone
from co2l.learning.methods import METHODS, configure
from co2l.learning.metrics import Row, averages, course
from co2l.learning.progress import Meter
from co2l.learning.run import run
from co2l.learning.store import Store
from co2l.plugins import Plugin, require, require_same
from co2l.search.running.faults import Room, fault_of, poisons
from co2l.search.running.leaving import busy, idle, leaving, wait_for_the_end
from co2l.search.running.load import Load
from co2l.search.running.reports import Kind, Report

TOGETHER_SECONDS = 0.5  # reports of short epochs travel together: each trip through Tune costs milliseconds
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assignment:
    """All that a worker needs to know of a trial."""

    trial: str
    config: Mapping[str, Any]  # benchmark, method, seed, settings
    split: Mapping[str, Any]
    store: str
    data: str
    device: str
    retained: tuple[str, ...]  # keys of the stages that other trials will need
    threads: int  # the same for all: the bits depend on it
    save_every: float
    exports: str = ""  # the store for classifier and features, if they are wanted
    gpus: float = 0.0  # that it may use; a share below 1 is one of memory too
    plugins: tuple[Mapping[str, str], ...] = ()  # whose source must be the same there
    imports: tuple[Mapping[str, Any], ...] = ()  # source that is not installed anywhere

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class TrialTrainable(tune.Trainable):
    """Runs the assignment in its config, step by step. An error of the trial itself is a result, not a crash."""

    def setup(self, config: dict[str, Any]) -> None:
        gc.freeze()  # modules stay: without them a collection after a trial takes 10 µs instead of 100 ms
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self._begin(new_config)
        return True

    def _begin(self, given: dict[str, Any]) -> None:
        busy()
        self.room = Room(given.get("device", "cpu"), given.get("gpus", 0.0))
        self.poisoned = self.configured = False
        try:
            assignment = Assignment(**given)
            torch.set_num_threads(assignment.threads)
            config = configured(assignment)
            self.room = replace(self.room, config=config)
            self.reporter, self.load = Reporter(config), Load()
            self.meter = Meter(self.reporter.epochs)
            self.events = self.learn(assignment, config)
            self.configured = True
        except Exception as error:  # reported by the first step: a process that ends here would leave no reason
            self.events = _failing(error)

    def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
        """What happens in the trial; benchmarks of the service replace it with events that train nothing."""
        return events_of(assignment, config)

    def step(self) -> dict[str, Any]:
        if self.poisoned:  # the reason was told; reused, this process would fail trial after trial
            end_process()
        if leaving():  # what was learned up to here has been reported
            self.cleanup()
            wait_for_the_end()
        reports: list[dict[str, Any]] = []
        began = time.monotonic()
        try:
            for event in self.events:
                self.meter.see(event)
                report = self.reporter.report(event)
                if report is not None:
                    reports.append(report.to_dict())
                if isinstance(event, RunDone):
                    idle()
                    return {"reports": self._loaded(reports), "done": True}
                if isinstance(event, TaskDone) and event.task == self.reporter.tasks - 1:
                    continue  # nothing is decided after the last task, and the result follows at once
                # an evaluation may take minutes: what was learned, and that it begins, is reported first
                now = isinstance(event, TaskDone | Evaluating) or leaving()
                if now or time.monotonic() - began > TOGETHER_SECONDS:
                    break
        except Exception as error:
            words, fault = fault_of(error, self.room)
            if fault == "own" and not self.configured:
                fault = "unfit"  # the driver could configure it: this worker has other code
            self.poisoned = fault == "lost"
            idle()
            return {"reports": reports, "done": not self.poisoned, "failed": words, "fault": fault}
        position = self.meter.position()
        return {"reports": self._loaded(reports), "done": False, "position": position.as_dict() if position else None}

    def _loaded(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With the machine's load in the last of them."""
        if reports:
            reports[-1]["metrics"] |= self.load.read()
        return reports

    def cleanup(self) -> None:
        """Save the state if the trial is left halfway, and free what it held."""
        if self.poisoned:
            end_process()
        try:
            self.events.close()
        except Exception as error:  # the trial is over: it must not fail the next one on this process
            _log.warning("a trial's last state was not saved: %s", headline(error))
            if poisons(error):
                end_process()
        idle()
        del self.events
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def configured(assignment: Assignment) -> RunConfig:
    """The trial's configuration, with plug-ins of the same source as where the search runs."""
    use(Import(**each) for each in assignment.imports)
    wanted = [Plugin(**each) for each in assignment.plugins]
    require(wanted)
    config = configure(**assignment.config, split=Split(**assignment.split))
    require_same(wanted, config.plugins)
    return config


def end_process() -> NoReturn:
    """At once: an accelerator in trouble may not even let Python end."""
    os._exit(1)


def _limit_memory(gpus: float) -> None:
    """Take no more of the card than the trial's share, so that one too large fails alone and not its neighbours."""
    if gpus and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(min(gpus, 1.0))


def _failing(error: Exception) -> Generator[Event, None, None]:
    raise error
    yield  # a generator that never comes to its first event


def events_of(assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
    """The trial's run; opening its data is part of it, so that a failure there counts as the trial's."""
    tasks = config.open_stream(Path(assignment.data))
    device = choose_device(assignment.device)  # before anything else uses it
    _limit_memory(assignment.gpus)
    yield from run(
        config,
        tasks,
        Store(assignment.store),
        device=device,
        save_every=assignment.save_every,
        retain=frozenset(assignment.retained).__contains__,
        exports=Store(assignment.exports) if assignment.exports else None,
    )


class Reporter:
    """Turns a run's events into reports, and counts epochs: trained here, or reused from the store.

    What the matrix probe measures after every task and what the final probe measures after the last one have
    different names.
    """

    def __init__(self, config: RunConfig) -> None:
        self.epochs = config.epochs
        self.tasks = len(self.epochs)
        self.trained = self.reused = 0
        self.evaluation_split = config.split.evaluation_split
        self.matrix_probe = METHODS[config.method].matrix_probe(config.settings)
        self.rows: list[Row] = []

    def report(self, event: Event) -> Report | None:
        if isinstance(event, EpochDone):
            self.trained += 1
            losses = {f"loss/{name}": value for name, value in event.losses.items()}
            return self._report("epoch", event.task, event.epoch, {**losses, "lr": event.lr})
        if isinstance(event, StateSaved):
            return self._report("saved", event.task, event.epoch, {})
        if isinstance(event, TaskDone):
            self.reused += self.epochs[event.task] - event.epochs_trained
            dead = {} if event.dead is None else {"dead_features": event.dead}
            return self._report("task", event.task, self.epochs[event.task], {**self._course(event.row), **dead})
        if isinstance(event, RunDone):
            final = averages(event.result.final, self.evaluation_split)
            return self._report("done", self.tasks - 1, self.epochs[-1], final, event.result.as_dict())
        return None

    def _course(self, row: Row | None) -> dict[str, float]:
        """Accuracies and forgetting after a task, by the matrix probe."""
        if row is None or self.matrix_probe is None:
            return {}
        self.rows.append(row)
        return course(self.rows, self.evaluation_split, self.matrix_probe)

    def _report(
        self,
        kind: Kind,
        task: int,
        epoch: int,
        metrics: dict[str, float],
        result: dict[str, Any] | None = None,
    ) -> Report:
        step = sum(self.epochs[:task]) + epoch
        return Report(kind, task, self.tasks, step, metrics, self.trained, self.reused, result)
