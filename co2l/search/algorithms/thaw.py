"""Thaw: trials pause after any task and go on later; each step goes to what promises most for the epochs it takes.

A few configurations, drawn at random, are trained to their end. From then on a model predicts what every other one will
end with (`gaussian_process`), and the expected improvement over the best is divided by the square root of the epochs
until the end, where stored stages cost nothing; the less is left of the budget, the less the epochs count. What runs
counts at its predicted value. Nothing is ever discarded: given the whole budget, thaw trains the grid. The constants
were chosen on the recorded grids of one seed, seq_digits and seq_cifar10_small.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from co2l.search.algorithms.gaussian_process import Indices, Numbers, ScoreModel, Scores
from co2l.search.algorithms.grid import Grid
from co2l.search.record.entries import Entry
from co2l.search.space.document import Value
from co2l.search.space.space import Configuration, Space

FIRST = 4  # configurations that are trained to their end before the model is asked
COST_POWER = 0.5  # at 1 it would only ever take cheap steps
CANDIDATES = 512  # that the model is asked about: those that began, and others at random


class Thaw:
    """Lists the grid, as an algorithm; which of its trials is next, and for how long, `Promises` says."""

    enumerable = True
    adaptive = True

    def __init__(self, space: Space) -> None:
        self._grid = Grid(space)

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        return self._grid.suggest(entries, tried, seed)


@dataclass(frozen=True)
class Candidate:
    """A configuration that could go on now."""

    point: int
    epochs: int  # that it takes until all its trials are finished


class Promises:
    """Which of the candidates promises most; a function of the arguments and the seed alone."""

    def __init__(self, space: Space, points: Sequence[Configuration], prefixes: Sequence[object], seed: int) -> None:
        """`prefixes` tell which points share their first stages."""
        self._seed = seed
        names = space.drawn_axes
        lists = dict(zip(names, space.lists(names), strict=True))
        rows = [[lists[name].index(value) for name, value in point] for point in points]
        per = [tuple(value for name, value in point if name in space.selection.per) for point in points]
        numbers = {group: i for i, group in enumerate(dict.fromkeys(per))}
        self._groups: Indices = np.array([numbers[group] for group in per])
        index: Indices = np.array(rows, dtype=np.int64).reshape(len(points), len(names))
        distances = [_distances(lists[name]) for name in names]
        self._model = ScoreModel(index, distances, self._groups, space.trials_per_point)
        self._firsts = self._drawn(prefixes, max(1, math.ceil(FIRST / len(numbers))))

    def _drawn(self, prefixes: Sequence[object], of_each: int) -> list[list[int]]:
        """Per group the points at random with which it begins, as far as possible with different first stages."""
        order = list(range(len(self._groups)))
        random.Random(f"{self._seed}/first").shuffle(order)
        leading = {prefixes[i]: i for i in reversed(order)}
        ordered = [i for i in order if leading[prefixes[i]] == i] + [i for i in order if leading[prefixes[i]] != i]
        groups = range(int(self._groups.max()) + 1)
        return [list(itertools.islice((i for i in ordered if self._groups[i] == g), of_each)) for g in groups]

    def best(
        self,
        candidates: Sequence[Candidate],
        known: Scores,
        done: Collection[int],
        running: Collection[int],
        share_left: float,
    ) -> int:
        """The point of one of the `candidates`, of which there is at least one; `share_left` is that of the budget."""
        able = {each.point: each.epochs for each in candidates}
        group = self._turn(able, [*done, *running])
        for point in self._firsts[group]:
            if point in able:
                return point
        points = self._asked([point for point in able if self._groups[point] == group], set(known.of.tolist()))
        if len(known) < 2:
            return points[0]
        ended = [point for point in {*done, *running} if self._groups[point] == group]
        asked: Indices = np.array([*points, *ended], dtype=np.int64)
        mean, deviation = self._model.predict(known, asked, np.array(sorted(running), dtype=np.int64))
        mine, theirs = mean[: len(points)], mean[len(points) :]
        goal = float(theirs.max()) if len(theirs) else float(mine.max())
        epochs: Numbers = np.array([1.0 + able[point] for point in points])
        value = _log_improvement(mine - goal, deviation[: len(points)]) - COST_POWER * share_left * np.log(epochs)
        return points[int(np.argmax(value))]

    def _turn(self, able: Collection[int], begun: Sequence[int]) -> int:
        """The group with the fewest configurations that are finished or run."""
        counts = np.bincount(self._groups[np.array(begun, dtype=np.int64)], minlength=len(self._firsts))
        return int(min({int(self._groups[point]) for point in able}, key=lambda group: (counts[group], group)))

    def _asked(self, points: list[int], begun: Collection[int]) -> list[int]:
        """In random order, so that of equal ones none is preferred; not more than the model can take."""
        random.Random(f"{self._seed}/{len(begun)}").shuffle(points)
        points.sort(key=lambda point: point not in begun)
        return points[:CANDIDATES]


def _distances(values: Sequence[Value]) -> Numbers:
    """Squared, between any two values: numbers by rank in widths of the axis, other values one apart."""
    n = len(values)
    if any(isinstance(value, bool | str) for value in values):
        return 1.0 - np.eye(n)
    ranks = np.argsort(np.argsort(np.array([float(value) for value in values]))) / max(1, n - 1)
    squared: Numbers = (ranks[:, None] - ranks[None, :]) ** 2
    return squared


def _log_improvement(lead: Numbers, deviation: Numbers) -> Numbers:
    """The logarithm of the expected improvement of a normal variable with this lead over the goal."""
    z = lead / deviation
    expected = deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
    logarithm: Numbers = np.log(np.maximum(expected, 1e-200))
    return logarithm
