"""What score each configuration will end with: a Gaussian process over its settings and the tasks that it finished.

The covariance of two scores is a product over axes plus a sum over them, so that an effect of one axis is learned from
few trials; a deviation that belongs to the configuration; and a level of each task, which is common to all. Longer
training is expected to help. Scores stay alike over tasks. The lengths on the axes are not fitted: a fixed set of them
is weighted by the likelihood, which takes no optimiser and no luck. Accuracies near 100% are spread out first, as what
counts there is the error that is left.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]
LENGTH, SPREAD = 0.7, 0.7  # of the lengths, in widths of an axis: their median, and how far the set goes, logarithmic
SETS, LIKELIEST = 24, 6  # how many there are, and how many of them predict
ADDED = 0.5  # share of the sum over axes; the rest is the product
OWN = (0.05, 0.15, 0.3)  # share of a configuration's own deviation
ALIKE = (1.5, 4.0)  # tasks over which scores stay alike
LEVEL, LEVEL_ALIKE = 25.0, 8.0  # variance of a task's level, and the tasks over which it stays alike
NOISE = 0.05
HELP, HELP_SPREAD = 1.0, 0.7  # of twice the epochs, in standard deviations of a task's scores, and how sure that is
SMALL = 256  # points for which it is computed once how alike they are
MOST = 256  # scores that it learns from: it costs their cube


@dataclass(frozen=True)
class Scores:
    """Scores after tasks, one per row."""

    of: Indices  # configuration
    part: Indices  # which of its trials
    ahead: Indices  # tasks that were not finished
    score: Numbers  # in percent

    def __len__(self) -> int:
        return len(self.score)

    def some(self) -> Scores:
        """All of them, or the deepest and best and some of the others."""
        if len(self) <= MOST:
            return self
        order = np.lexsort((-self.score, self.ahead))
        kept = 3 * MOST // 4
        others = order[kept:][np.linspace(0, len(order) - kept - 1, MOST - kept).astype(int)]
        chosen = np.concatenate([order[:kept], others])
        return Scores(self.of[chosen], self.part[chosen], self.ahead[chosen], self.score[chosen])


class Growing:
    """Scores to which others are added."""

    def __init__(self) -> None:
        self._rows: Numbers = np.empty((64, 4))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, of: int, part: int, ahead: int, score: float) -> None:
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = of, part, ahead, score
        self._count += 1

    def scores(self) -> Scores:
        """In an order that does not depend on when they were added, nor does rounding."""
        rows = self._rows[: self._count]
        of, part, ahead, score = rows[np.lexsort(rows.T[:3])].T
        return Scores(of.astype(np.int64), part.astype(np.int64), ahead.astype(np.int64), score)


class ScoreModel:
    """`points` holds a row per configuration, and in it the index of its value on every axis."""

    def __init__(
        self, points: Indices, distances: Sequence[Numbers], groups: Indices, parts: int, epochs: Numbers
    ) -> None:
        """`distances` are squared, between any two values of an axis; configurations of a group have one level.

        `epochs` are those that a configuration has trained after each task.
        """
        self._points, self._groups, self._parts = points, groups, parts
        self._longer: Numbers = np.log2(epochs) - np.log2(epochs).mean(0)
        rng = random.Random(0)
        sets = [[LENGTH * math.exp(rng.gauss(0, SPREAD) if i else 0.0) for _ in distances] for i in range(SETS)]
        self._tables: list[Numbers] = [
            np.exp(-0.5 * each / np.array([lengths[d] for lengths in sets])[:, None, None] ** 2)
            for d, each in enumerate(distances)
        ]
        self._own: Numbers = np.resize(OWN, SETS)[:, None, None]
        self._alike: Numbers = np.resize(ALIKE, SETS)[:, None, None]
        every = np.arange(len(points))
        self._whole = self._settings(every, every, slice(None)) if len(points) <= SMALL else None

    def predict(self, known: Scores, asked: Indices, running: Indices) -> tuple[Numbers, Numbers]:
        """Mean and standard deviation of the final scores of `asked`, on a scale of its own.

        Those of `running` count as known at their predicted means: these do not change, but less is uncertain.
        """
        seen = known.some()
        error = -np.log(102.0 - np.clip(seen.score, 0.0, 100.0))
        y: Numbers = (error - error.mean()) / _within_tasks(error, seen.ahead) - HELP * self._length(seen)
        among = self._covariance(seen, seen, slice(None))
        among[:, range(len(y)), range(len(y))] += NOISE
        lower: NDArray[Any] = np.linalg.cholesky(among)
        solved: NDArray[Any] = np.linalg.solve(lower, np.broadcast_to(y[:, None], (SETS, len(y), 1)))[:, :, 0]
        likelihood = -0.5 * (solved**2).sum(1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
        likely = np.argsort(-likelihood, kind="stable")[:LIKELIEST]
        means, variances = self._final(
            seen, lower[likely], solved[likely], likely, np.concatenate([asked, running]), len(asked)
        )
        weights = np.exp(likelihood[likely] - likelihood[likely[0]])
        weights /= weights.sum()
        mean = weights @ means
        variance = weights @ (variances + means**2) - mean**2
        return mean + HELP * self._longer[asked, -1], np.sqrt(np.maximum(variance, 1e-9))

    def _final(
        self, seen: Scores, lower: Numbers, solved: Numbers, likely: Indices, every: Indices, asked: int
    ) -> tuple[Numbers, Numbers]:
        """Means and variances of final scores; all but the first `asked` count as known."""
        none = np.zeros(len(every), dtype=np.int64)
        # an asked configuration is the mean of its trials
        final = [Scores(every, np.full(len(every), part), none, np.zeros(len(every))) for part in range(self._parts)]
        across = np.mean([self._covariance(each, seen, likely) for each in final], axis=0)
        explained = np.linalg.solve(lower, across.transpose(0, 2, 1))
        mean = (explained * solved[:, :, None]).sum(1)
        variance = self._alone(every, likely) - (explained**2).sum(1)
        if len(every) > asked:
            others = [_cut(each, slice(asked, None)) for each in final]
            pairs = list(itertools.product(final, others))
            shared = np.mean([self._covariance(*pair, likely) for pair in pairs], axis=0)
            shared = shared - explained.transpose(0, 2, 1) @ explained[:, :, asked:]
            believed = shared[:, asked:] + NOISE * np.eye(len(every) - asked)
            shared = shared[:, :asked]
            gained = np.linalg.solve(believed, shared.transpose(0, 2, 1))
            variance[:, :asked] -= (shared.transpose(0, 2, 1) * gained).sum(1)
        return mean[:, :asked], np.maximum(variance[:, :asked], 1e-9)

    def _alone(self, every: Indices, sets: Indices | slice) -> Numbers:
        """The variance of a final score before anything is known."""
        share = 0.5 + 0.5 / self._parts
        own = self._own[sets][:, :, 0]
        variance: Numbers = 1 - own + own * share + LEVEL * share + (HELP_SPREAD * self._longer[every, -1]) ** 2
        return variance

    def _length(self, scores: Scores) -> Numbers:
        """How long their configurations had trained, in doublings of the mean."""
        trained: Numbers = self._longer[scores.of, self._longer.shape[1] - 1 - scores.ahead]
        return trained

    def _covariance(self, rows: Scores, columns: Scores, sets: Indices | slice) -> Numbers:
        one_part = rows.part[:, None] == columns.part[None, :]
        half: Numbers = 0.5 + 0.5 * one_part  # trials of one configuration are half alike
        own = (rows.of[:, None] == columns.of[None, :]) * half
        apart = np.abs(rows.ahead[:, None] - columns.ahead[None, :])
        one_level = one_part & (self._groups[rows.of][:, None] == self._groups[columns.of][None, :])
        level: Numbers = LEVEL * np.exp(-apart / LEVEL_ALIKE) * (0.5 + 0.5 * one_level)
        level += HELP_SPREAD**2 * self._length(rows)[:, None] * self._length(columns)[None, :]
        shares = self._own[sets]
        settings = self._between(rows.of, columns.of, sets)
        settings *= 1 - shares
        settings += shares * own
        by_alike = np.stack([np.exp(-apart / each) for each in ALIKE])
        which = np.resize(range(len(ALIKE)), SETS)[sets]
        settings *= by_alike[which]
        settings += level
        return settings

    def _between(self, rows: Indices, columns: Indices, sets: Indices | slice) -> Numbers:
        """How alike the settings of configurations are, for each set of lengths."""
        if self._whole is not None:
            whole: Numbers = self._whole[sets][:, rows[:, None], columns[None, :]]
            return whole
        return self._settings(rows, columns, sets)

    def _settings(self, rows: Indices, columns: Indices, sets: Indices | slice) -> Numbers:
        added: Numbers = np.zeros(())
        together: Numbers = np.ones(())
        for d, table in enumerate(self._tables):
            a, b = self._points[rows, d], self._points[columns, d]
            of_axis = table[sets][:, a[:, None], b[None, :]]
            added = added + of_axis / len(self._tables)
            together = together * of_axis
        return ADDED * added + (1 - ADDED) * together


def _cut(scores: Scores, rows: slice) -> Scores:
    return Scores(scores.of[rows], scores.part[rows], scores.ahead[rows], scores.score[rows])


def _within_tasks(y: Numbers, ahead: Indices) -> float:
    """The standard deviation around the mean of each task."""
    means = {n: y[ahead == n].mean() for n in np.unique(ahead)}
    return max(float(np.std(y - np.array([means[n] for n in ahead]))), 1e-6)
