"""What a search will cost, before it starts: distinct stages, epochs with and without reuse, hours and money."""

from __future__ import annotations

import functools
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.randomness import stream
from co2l.data.streams import TaskStream, open_stream
from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS
from co2l.learning.methods.base import Method
from co2l.search.space import Cell, Space


@dataclass(frozen=True)
class Plan:
    cells: int
    first_stages: int  # distinct ones, as the next two
    stages: int
    epochs_naive: int  # every cell trained alone
    epochs_planned: int  # every distinct stage trained once
    exact: bool  # else what a search by chance will be like, or the most that one with early stopping takes
    used_again: tuple[tuple[RunConfig, range], ...] = field(repr=False)  # a cell, and which of its stages

    @property
    def ratio(self) -> float:
        return self.epochs_naive / self.epochs_planned

    @functools.cached_property
    def shared(self) -> frozenset[str]:
        """The keys of the stages that several cells use."""
        return frozenset(config.stage_key(t) for config, stages in self.used_again for t in stages)

    def as_dict(self) -> dict[str, Any]:
        return {
            "cells": self.cells,
            "first_stages": self.first_stages,
            "stages": self.stages,
            "epochs_naive": self.epochs_naive,
            "epochs_planned": self.epochs_planned,
            "ratio": self.ratio,
            "exact": self.exact,
        }


def plan(space: Space) -> Plan:
    """Count without training. A cell's chain parts from another's at the first stage that reads a differing axis.

    All stages after the first read the same settings, so two cells share all of them or none.
    """
    tasks = BENCHMARKS[space.benchmark].tasks
    first: dict[object, tuple[RunConfig, int]] = {}
    later: dict[object, tuple[RunConfig, int]] = {}
    uses: Counter[object] = Counter()
    cells = naive = 0
    for cell in planned_cells(space):
        E_0, E_rest = epochs_of(cell, tasks)
        cells, naive = cells + 1, naive + E_0 + E_rest
        first.setdefault(cell.prefix, (cell.config, E_0))
        later.setdefault(cell.whole, (cell.config, E_rest))
        uses.update([("first", cell.prefix), ("later", cell.whole)])
    again = [(config, range(1)) for name, (config, _) in first.items() if uses["first", name] > 1]
    again += [(config, range(1, tasks)) for name, (config, _) in later.items() if uses["later", name] > 1]
    return Plan(
        cells=cells,
        first_stages=len(first),
        stages=len(first) + len(later) * (tasks - 1),
        epochs_naive=naive,
        epochs_planned=sum(epochs for _, epochs in (*first.values(), *later.values())),
        exact=space.algorithm == "grid" and space.early_stop is None,
        used_again=tuple(again),
    )


def together(spaces: Sequence[Space]) -> Plan:
    """Grids that run one after the other and share a store, where a stage of one may be a stage of another too."""
    uses: Counter[str] = Counter()
    epochs: dict[str, int] = {}
    first: set[str] = set()
    made: dict[str, tuple[RunConfig, int]] = {}
    cells = naive = 0
    for space in spaces:
        tasks = BENCHMARKS[space.benchmark].tasks
        for cell in space.cells():
            keys, of_task = cell.config.stage_keys(tasks), cell.config.settings.epochs_per_task(tasks)
            cells, naive = cells + 1, naive + sum(of_task)
            epochs |= zip(keys, of_task, strict=True)
            first.add(keys[0])
            uses.update(keys)
            for t, key in enumerate(keys):
                made.setdefault(key, (cell.config, t))
    again = [(config, range(t, t + 1)) for key, (config, t) in made.items() if uses[key] > 1]
    return Plan(cells, len(first), len(uses), naive, sum(epochs.values()), exact=True, used_again=tuple(again))


def planned_cells(space: Space) -> Iterator[Cell]:
    """The cells of the search; if it draws them, as many as it will train, drawn at random."""
    if space.algorithm == "grid":
        yield from space.cells()
        return
    assert space.samples is not None  # checked when the space was read
    rng, drawn = random.Random(0), set[tuple[object, ...]]()
    tries = 20 * space.samples  # a cell is trained once: few different ones may be left to draw
    while len(drawn) < space.samples and tries > 0:
        point, tries = space.draw(rng), tries - 1
        if tuple(point.values()) not in drawn:
            drawn.add(tuple(point.values()))
            yield from space.cells_of(point)


def epochs_of(cell: Cell, tasks: int) -> tuple[int, int]:
    """The epochs of task 1, and those of all later tasks together."""
    first, *later = cell.config.settings.epochs_per_task(tasks)
    return first, sum(later)


def order(cells: Iterable[Cell]) -> list[Cell]:
    """One cell of every distinct first stage, then the others: what many wait for is trained first."""
    seen: set[tuple[object, ...]] = set()
    leaders: list[Cell] = []
    others: list[Cell] = []
    for cell in cells:
        (others if cell.prefix in seen else leaders).append(cell)
        seen.add(cell.prefix)
    return leaders + others


FEW, STEPS, PATIENCE = 8, 3, 1.0  # samples of a first try; timed steps; seconds that one of them may take
LEFT_OUT = (
    "training steps on this machine only: evaluation, loading and starting workers are left out, later tasks are "
    "taken to be like the second, and parallel trials not to slow each other"
)


@dataclass(frozen=True)
class Timed:
    """Measured steps of cells that differ in nothing that changes the work of a step."""

    settings: dict[str, Any]
    batch: int  # samples of the timed steps: fewer than batch_size if those would take too long
    first: float  # seconds per sample in task 1
    later: float  # seconds per sample in later tasks
    sizes: tuple[int, int]  # samples of the first and the second task
    replays: bool  # whether an epoch goes over the buffer too


@dataclass(frozen=True)
class Estimate:
    trial_hours: float  # of one trial after the other, each stage trained once
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


def estimate(
    space: Space, *, data: Path, device: torch.device, parallel: int = 1, price: float | None = None
) -> Estimate:
    """Hours, and money if a price is given, from a few steps of training for every distinct batch size."""
    timed: dict[tuple[object, ...], Timed] = {}
    tasks = open_stream(space.benchmark, split=space.split, seed=space.seeds[0], data=data)
    stages: dict[object, float] = {}
    naive = 0.0
    for cell in planned_cells(space):
        varied = {name: getattr(cell.config.settings, name) for name in space.varied}
        work = {name: value for name, value in varied.items() if _changes_work(name, value)}
        if tuple(work.values()) not in timed:
            timed[tuple(work.values())] = _time(cell.config, tasks, device, work)
        first, later = _seconds(cell.config, timed[tuple(work.values())], len(tasks))
        naive += first + later
        stages["first", cell.prefix] = first
        stages["later", cell.whole] = later
    return Estimate(sum(stages.values()) / 3600, naive / 3600, parallel, price, tuple(timed.values()))


def _changes_work(name: str, value: object) -> bool:
    """Rates and temperatures change the result of a step; batches, networks and losses change its duration too."""
    return not isinstance(value, float) and name not in ("E_0", "E_t", "epochs", "buffer_size")


def _seconds(config: RunConfig, timed: Timed, tasks: int) -> tuple[float, float]:
    """The training time of the first stage, and of all later ones together."""
    epochs, (n_first, n_later) = config.settings.epochs_per_task(tasks), timed.sizes
    room = getattr(config.settings, "buffer_size", 0) if timed.replays else 0
    if METHODS[config.method].jointly:
        room = "unlimited"
    drawn = 0
    for t in range(1, tasks):
        seen = n_first + (t - 1) * n_later
        drawn += epochs[t] * (n_later + (seen if isinstance(room, str) else min(room, seen)))
    return epochs[0] * n_first * timed.first, drawn * timed.later


def _time(config: RunConfig, tasks: TaskStream, device: torch.device, work: dict[str, Any]) -> Timed:
    method = METHODS[config.method](config.settings, tasks.benchmark, config.seed, device)
    one, two = tasks.train(0).to(device), tasks.train(1).to(device)
    method.begin_task(0, one)
    _, first = _seconds_per_sample(method, 0, config.seed, device)
    method.end_task(0, one)
    method.begin_task(1, two)
    drawn = sum(len(batch) for batch in method.draw(1))
    batch, later = _seconds_per_sample(method, 1, config.seed, device)
    named = {"batch_size": config.settings.batch_size, **work}
    return Timed(named, batch, first, later, (len(one), len(two)), drawn > len(two))


def _seconds_per_sample(method: Method, t: int, seed: int, device: torch.device) -> tuple[int, float]:
    """The samples of the timed steps, and their seconds. A step that would take too long is cut short."""
    batches = method.draw(1)
    lr = method.schedule(t).lr(1, 0, len(batches))

    def step(n: int) -> float:
        started = time.perf_counter()
        losses = method.step(batches[0][:n], lr, stream(seed, "plan", t, device=device))
        for loss in losses.values():
            float(loss)  # waits for the device
        return time.perf_counter() - started

    few = min(FEW, len(batches[0]))
    step(few)  # the first one also builds and warms up
    n = min(len(batches[0]), max(few, round(few * PATIENCE / min(step(few), step(few)))))
    return n, sum(step(n) for _ in range(STEPS)) / STEPS / n
