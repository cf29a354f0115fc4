"""How long a search will take, before it starts: hours and money, from the time of one training step.

Where that time comes from is a `Timing`: `measured` times a few steps on this machine, `co2l.search.space.forecast`
computes it for a card that is not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from co2l.data.randomness import generator_for
from co2l.data.streams import TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS
from co2l.learning.methods.base import Method
from co2l.search.space.plan import planned_trials, work_of
from co2l.search.space.space import Space
from co2l.search.space.trial import Segment

FEW, STEPS, PATIENCE = 8, 3, 1.0  # examples of a first try; timed steps; seconds that one of them may take
LEFT_OUT = (
    "evaluation, loading and starting workers are left out, later tasks are taken to be like the second, and parallel "
    "trials not to slow each other"
)


@dataclass(frozen=True)
class Timed:
    """The steps of trials that differ in nothing that changes the work of a step."""

    settings: dict[str, Any]
    batch: int  # examples of a timed step: fewer than batch_size if those would take too long
    first: float  # seconds per example in task 1
    later: float  # seconds per example in later tasks
    sizes: tuple[int, int]  # examples of the first and the second task
    replays: bool  # whether an epoch goes over the buffer too


@dataclass(frozen=True)
class Estimate:
    trial_hours: float  # of one trial after the other, each stage trained once, and of a race
    trial_hours_naive: float
    parallel: int
    price: float | None  # of an hour of the machines that run so many trials at once
    timed: tuple[Timed, ...]

    @property
    def hours(self) -> float:
        return self.trial_hours / self.parallel

    @property
    def money(self) -> float | None:
        return None if self.price is None else self.hours * self.price

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hours": self.hours, "money": self.money, "left_out": LEFT_OUT}


Timing = Callable[[RunConfig, dict[str, Any]], Timed]  # given a trial and those of its settings that change its work


def estimate(
    space: Space,
    timing: Timing,
    *,
    parallel: int = 1,
    price: float | None = None,
    progress: Callable[[int, int, dict[str, Any]], None] = lambda *_: None,
) -> Estimate:
    """Hours, and money if a price is given; `progress` hears which kind of trial is timed next, out of how many."""
    trials = list(planned_trials(space))
    kinds = {_kind(space, config): config for trial in trials for config in _by_task(trial.config)}
    timed: dict[object, Timed] = {}
    for number, (kind, config) in enumerate(kinds.items(), 1):
        progress(number, len(kinds), dict(kind))
        timed[kind] = timing(config, dict(kind))
    made: dict[Segment, float] = {}
    naive = 0.0
    for trial in trials:
        seconds = _seconds(trial.config, [timed[_kind(space, config)] for config in _by_task(trial.config)])
        naive += sum(seconds)
        made |= {segment: sum(seconds[t] for t in segment.stages) for segment in trial.chain}
    with_race = 1 + (space.selection.race.share if space.selection.race else 0)
    return Estimate(with_race * sum(made.values()) / 3600, naive / 3600, parallel, price, tuple(timed.values()))


def _by_task(config: RunConfig) -> list[RunConfig]:
    """The run with the settings of each task, or once if they are the same."""
    return [config.throughout(t) for t in range(len(config.epochs) if config.path else 1)]


def _kind(space: Space, config: RunConfig) -> tuple[tuple[str, Any], ...]:
    return tuple(work_of(space, config).items())


def measured(*, data: Path, device: torch.device) -> Timing:
    """Time a few steps on this machine."""
    return lambda config, work: _time(config, config.open_stream(data), device, work)


def _seconds(config: RunConfig, timed: Sequence[Timed]) -> list[float]:
    """The training time of each stage, from the steps of each or of all."""
    epochs, found = config.epochs, []
    for t in range(len(epochs)):
        step = timed[min(t, len(timed) - 1)]
        n_first, n_later = step.sizes
        room = getattr(config.settings_of(t), "buffer_size", 0) if step.replays else 0
        if METHODS[config.method].jointly:
            room = "unlimited"
        seen = n_first + (t - 1) * n_later
        drawn = n_later + (seen if isinstance(room, str) else min(room, seen))
        found.append(epochs[t] * (n_first * step.first if t == 0 else drawn * step.later))
    return found


def _time(config: RunConfig, tasks: TaskStream, device: torch.device, work: dict[str, Any]) -> Timed:
    method = METHODS[config.method](config.settings, tasks.benchmark, config.seed, device)
    one = tasks.train(0).to(device)
    two = tasks.train(1).to(device) if len(tasks) > 1 else one  # it may learn no other
    method.begin_task(0, one)
    _, first = _seconds_per_example(method, 0, config.seed, device)
    method.end_task(0, one)
    method.begin_task(1, two)
    drawn = sum(len(batch) for batch in method.draw(1))
    batch, later = _seconds_per_example(method, 1, config.seed, device)
    named = {"batch_size": config.settings.batch_size, **work}
    return Timed(named, batch, first, later, (len(one), len(two)), drawn > len(two))


def _seconds_per_example(method: Method, t: int, seed: int, device: torch.device) -> tuple[int, float]:
    """The examples of the timed steps, and their seconds. A step that would take too long is cut short."""
    batches = method.draw(1)
    lr = method.schedule(t).lr(1, 0, len(batches))

    def step(n: int) -> float:
        started = time.perf_counter()
        losses = method.step(batches[0][:n], lr, generator_for(seed, "plan", t, device=device))
        for loss in losses.values():
            float(loss)  # waits for the device
        return time.perf_counter() - started

    few = min(FEW, len(batches[0]))
    step(few)  # the first one also builds and warms up
    n = min(len(batches[0]), max(few, round(few * PATIENCE / min(step(few), step(few)))))
    return n, sum(step(n) for _ in range(STEPS)) / STEPS / n
