"""Thaw: trials pause after any task and go on later; each step goes to what promises most for the epochs it takes.

A few configurations, drawn at random, are trained to their end. From then on a model predicts what every other one will
end with (`gaussian_process`), and the expected improvement over the best is divided by the square root of the epochs
until the end, where stored stages cost nothing; the less is left of the budget, the less the epochs count. What runs
counts at its predicted value. Nothing is ever discarded: given the whole budget, thaw trains the grid.
docs/choosing-an-algorithm.md says how the constants were chosen.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from co2l.search.algorithms.gaussian_process import Indices, Numbers, ScoreModel, Scores
from co2l.search.algorithms.grid import Grid
from co2l.search.algorithms.random_search import RandomSearch
from co2l.search.record.entries import Entry
from co2l.search.space.document import Value
from co2l.search.space.space import Configuration, Space

FIRST = 4  # configurations that are trained to their end before the model is asked
FEW = 8  # of the longest trials: if the budget pays for fewer, it begins with the longest, as a random search does
COST_POWER = 0.5  # at 1 it would only ever take cheap steps
CANDIDATES = 512  # that the model is asked about: those that began, and others at random
RIVALS = 32  # of the best finished ones, which candidates have to beat


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


class Promises:
    """Which points promise most; a function of the arguments and the seed alone."""

    def __init__(
        self,
        space: Space,
        points: Sequence[Configuration],
        prefixes: Sequence[Hashable],
        epochs: Numbers,
        seed: int,
    ) -> None:
        """`prefixes` tell which points share their first stages; `epochs` are those trained after each task."""
        self._seed = seed
        names = space.drawn_axes
        lists = dict(zip(names, space.lists(names), strict=True))
        rows = [[lists[name].index(value) for name, value in point] for point in points]
        per = [tuple(value for name, value in point if name in space.selection.per) for point in points]
        numbers = {group: i for i, group in enumerate(dict.fromkeys(per))}
        self._groups: Indices = np.array([numbers[group] for group in per])
        index: Indices = np.array(rows, dtype=np.int64).reshape(len(points), len(names))
        distances = [_distances(lists[name]) for name in names]
        self._model = ScoreModel(index, distances, self._groups, space.trials_per_point, epochs)
        self._epochs: Numbers = epochs[:, -1]
        self._of_each = math.ceil(FIRST / len(numbers))
        drawn = _drawn_at_random(space, points, seed)
        self._drawn = self._order(drawn, prefixes, index)
        self._longest = self._order(sorted(drawn, key=lambda i: -self._epochs[i]), prefixes, None)

    def _order(
        self, drawn: list[int], prefixes: Sequence[Hashable], index: Indices | None
    ) -> tuple[Indices, NDArray[np.bool_]]:
        """The rank of each point, those with new first stages before others; and whether a search begins with it.

        With `index`, those to begin with have as many different values on each axis as there can be.
        """
        leading = {prefixes[i]: i for i in reversed(drawn)}
        order = sorted(drawn, key=lambda i: leading[prefixes[i]] != i)
        first = np.zeros(len(order), dtype=np.bool_)
        for group in range(int(self._groups.max()) + 1):
            mine: Indices = np.array([i for i in order if self._groups[i] == group], dtype=np.int64)
            for _ in range(min(self._of_each, len(mine))):
                shared: Numbers = np.zeros(len(mine))
                if index is not None:
                    shared = np.sum(index[mine][:, None] == index[mine[first[mine]]][None], axis=(1, 2), dtype=float)
                first[mine[np.argmin(np.where(first[mine], np.inf, shared))]] = True
        return np.argsort(np.array(order, dtype=np.int64)), first

    def ranked(
        self,
        points: Indices,
        ahead: Indices,
        known: Scores,
        done: Mapping[int, float],
        running: Sequence[int],
        budget: float,
        share_left: float,
    ) -> Iterator[int]:
        """The `points`, the most promising first, if they still take so many epochs until they are finished.

        `done` are points with their scores; `share_left` is that of the `budget`, in epochs.
        """
        rank, first = self._longest if budget < FEW * float(self._epochs.max()) else self._drawn
        counts = np.bincount(self._groups[[*done, *running]], minlength=int(self._groups.max()) + 1)
        groups = self._groups[points]
        order = np.lexsort((rank[points], ~first[points], groups, counts[groups]))
        points, ahead = points[order], ahead[order]
        enough = len(known) >= 2 and len(points) and counts[groups].min() >= self._of_each
        if enough and not first[points[0]]:
            of_group = self._groups[points] == self._groups[points[0]]
            asked = np.lexsort((~np.isin(points, known.of), ~of_group))[: min(CANDIDATES, int(of_group.sum()))]
            value = self._values(points[asked], ahead[asked], known, done, running, share_left)
            likely = asked[np.argsort(-value, kind="stable")]
            points = np.concatenate([points[likely], np.delete(points, asked)])
        yield from points.tolist()

    def _values(
        self,
        points: Indices,
        ahead: Indices,
        known: Scores,
        done: Mapping[int, float],
        running: Sequence[int],
        share_left: float,
    ) -> Numbers:
        """The logarithm of the improvement that each point promises for its epochs."""
        group = self._groups[points[0]]
        finished = sorted((each for each in done if self._groups[each] == group), key=lambda each: (-done[each], each))
        rivals = [*finished[:RIVALS], *(each for each in running if self._groups[each] == group)]
        asked = np.concatenate([points, np.array(rivals, dtype=np.int64)])
        mean, deviation = self._model.predict(known, asked, np.array(running, dtype=np.int64))
        mine, theirs = mean[: len(points)], mean[len(points) :]
        goal = float(theirs.max()) if len(theirs) else float(mine.max())
        improvement = _log_improvement(mine - goal, deviation[: len(points)])
        value: Numbers = improvement - COST_POWER * share_left * np.log(1.0 + ahead)
        return value


def _drawn_at_random(space: Space, points: Sequence[Configuration], seed: int) -> list[int]:
    """All points in random order, which begins as a random search with this seed does."""
    numbers = {point: i for i, point in enumerate(points)}
    draws = itertools.islice(RandomSearch(space).suggest((), (), seed), len(points))
    drawn = dict.fromkeys(numbers[space.configuration(point)] for point in draws)
    others = [i for i in range(len(points)) if i not in drawn]
    random.Random(f"{seed}/others").shuffle(others)
    return [*drawn, *others]


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
