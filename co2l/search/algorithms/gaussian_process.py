"""What score each configuration will end with: a Gaussian process over its settings and the tasks that it finished.

The covariance of two scores is a product over axes plus a sum over them, so that an effect of one axis is learned from
few trials; a deviation that belongs to the configuration; and a level of each task, which is common to all. Scores stay
alike over tasks. The lengths on the axes are not fitted: a fixed set of them is weighted by the likelihood, which takes
no optimiser and no luck. Accuracies near 100% are spread out first, as what counts there is the error that is left.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]
LENGTH, SPREAD = 2.0, 0.7  # of the lengths, in widths of an axis: their median, and how far the set goes, logarithmic
SETS, LIKELIEST = 64, 8  # how many there are, and how many of them predict
ADDED = 0.5  # share of the sum over axes; the rest is the product
OWN = (0.1, 0.3, 0.5)  # share of a configuration's own deviation
ALIKE = (1.5, 4.0)  # tasks over which scores stay alike
LEVEL, LEVEL_ALIKE = 25.0, 8.0  # variance of a task's level, and the tasks over which it stays alike
NOISE = 0.05
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


class _Lengths:
    """How alike configurations are, if the axes have these lengths."""

    def __init__(self, points: Indices, tables: Sequence[Numbers], own: float, alike: float) -> None:
        """`tables` hold, per axis, the covariance of any two of its values."""
        self.own, self.alike = own, alike
        self._points, self._tables = points, tables
        every = np.arange(len(points))
        self._whole = self._between(every, every) if len(points) <= SMALL else None

    def between(self, rows: Indices, columns: Indices) -> Numbers:
        if self._whole is not None:
            return self._whole[rows[:, None], columns[None, :]]
        return self._between(rows, columns)

    def _between(self, rows: Indices, columns: Indices) -> Numbers:
        a, b = self._points[rows], self._points[columns]
        added, together = np.zeros((len(a), len(b))), np.ones((len(a), len(b)))
        for d, table in enumerate(self._tables):
            of_axis = table[a[:, d][:, None], b[:, d][None, :]]
            added += of_axis / len(self._tables)
            together *= of_axis
        covariance: Numbers = ADDED * added + (1 - ADDED) * together
        return covariance


@dataclass(frozen=True)
class _Fit:
    """What a set of lengths makes of the scores."""

    lengths: _Lengths
    lower: Numbers  # of their covariance, by Cholesky
    solved: Numbers
    likelihood: float  # logarithmic


@dataclass(frozen=True)
class _Related:
    """What any two scores have in common, whatever the lengths."""

    rows: Indices
    columns: Indices
    own: dict[float, Numbers]  # by the share of a configuration's own
    alike: dict[float, Numbers]  # by how far tasks are alike
    level: Numbers

    def covariance(self, lengths: _Lengths) -> Numbers:
        settings = (1 - lengths.own) * lengths.between(self.rows, self.columns) + self.own[lengths.own]
        covariance: Numbers = settings * self.alike[lengths.alike] + self.level
        return covariance


class ScoreModel:
    """`points` holds a row per configuration, and in it the index of its value on every axis."""

    def __init__(self, points: Indices, distances: Sequence[Numbers], groups: Indices, parts: int) -> None:
        """`distances` are squared, between any two values of an axis; configurations of a group have one level."""
        self._groups, self._parts = groups, parts
        rng = random.Random(0)
        self._sets: list[_Lengths] = []
        for i in range(SETS):
            lengths = [LENGTH * math.exp(rng.gauss(0, SPREAD) if i else 0.0) for _ in distances]
            tables = [np.exp(-0.5 * each / length**2) for each, length in zip(distances, lengths, strict=True)]
            self._sets.append(_Lengths(points, tables, OWN[i % len(OWN)], ALIKE[i % len(ALIKE)]))

    def predict(self, known: Scores, asked: Indices, running: Indices) -> tuple[Numbers, Numbers]:
        """Mean and standard deviation of the final scores of `asked`, on a scale of its own.

        Those of `running` count as known at their predicted means: these do not change, but less is uncertain.
        """
        seen = known.some()
        error = -np.log(102.0 - np.clip(seen.score, 0.0, 100.0))
        spread = _within_tasks(error, seen.ahead)
        y = (error - error.mean()) / spread
        every = np.concatenate([asked, running])
        among = self._relate(seen, seen)
        fits = [self._fit(each, among, y) for each in self._sets]
        fits = sorted(fits, key=lambda fit: -fit.likelihood)[:LIKELIEST]
        none = np.zeros(len(every), dtype=np.int64)
        # an asked configuration is the mean of its trials
        final = [Scores(every, np.full(len(every), part), none, np.zeros(len(every))) for part in range(self._parts)]
        across = [self._relate(each, seen) for each in final]
        means, variances = zip(*(self._final(fit, across, final, len(asked)) for fit in fits), strict=True)
        weights = np.exp(np.array([fit.likelihood - fits[0].likelihood for fit in fits]))
        weights /= weights.sum()
        mean = weights @ np.array(means)
        variance = weights @ (np.array(variances) + np.array(means) ** 2) - mean**2
        return mean[: len(asked)], np.sqrt(np.maximum(variance[: len(asked)], 1e-9))

    def _fit(self, lengths: _Lengths, related: _Related, y: Numbers) -> _Fit:
        among = related.covariance(lengths)
        among.flat[:: len(y) + 1] += NOISE
        lower = cholesky(among, lower=True, check_finite=False)
        solved = solve_triangular(lower, y, lower=True, check_finite=False)
        likelihood = -0.5 * float(solved @ solved) - float(np.log(np.diag(lower)).sum())
        return _Fit(lengths, lower, solved, likelihood)

    def _final(self, fit: _Fit, related: list[_Related], final: list[Scores], asked: int) -> tuple[Numbers, Numbers]:
        """Means and variances of final scores; all but the first `asked` count as known."""
        lengths, every = fit.lengths, final[0]
        across: Numbers = np.mean([each.covariance(lengths) for each in related], axis=0)
        explained = solve_triangular(fit.lower, across.T, lower=True, check_finite=False)
        pairs = list(itertools.product(range(self._parts), repeat=2))

        def prior(rows: slice, columns: slice) -> Numbers:
            """Covariance of final scores given what is known."""
            ours = [(_cut(final[a], rows), _cut(final[b], columns)) for a, b in pairs]
            between = [self._relate(*pair).covariance(lengths) for pair in ours]
            left: Numbers = np.mean(between, axis=0) - explained[:, rows].T @ explained[:, columns]
            return left

        alone = self._own_variance(lengths)
        variance = alone - (explained**2).sum(0)
        if len(every) > asked:
            first, others = slice(0, asked), slice(asked, None)
            believed = prior(others, others) + NOISE * np.eye(len(every) - asked)
            shared = prior(first, others)
            gained = cho_solve((cholesky(believed, lower=True), True), shared.T)
            variance[:asked] -= (shared * gained.T).sum(1)
        return explained.T @ fit.solved, np.maximum(variance, 1e-9)

    def _own_variance(self, lengths: _Lengths) -> float:
        """Of a final score before anything is known."""
        share = 0.5 + 0.5 / self._parts
        return 1 - lengths.own + lengths.own * share + LEVEL * share

    def _relate(self, rows: Scores, columns: Scores) -> _Related:
        one_part = rows.part[:, None] == columns.part[None, :]
        half: Numbers = 0.5 + 0.5 * one_part  # trials of one configuration are half alike
        own = (rows.of[:, None] == columns.of[None, :]) * half
        apart = np.abs(rows.ahead[:, None] - columns.ahead[None, :])
        one_level = one_part & (self._groups[rows.of][:, None] == self._groups[columns.of][None, :])
        level: Numbers = LEVEL * np.exp(-apart / LEVEL_ALIKE) * (0.5 + 0.5 * one_level)
        alike = {each: np.exp(-apart / each) for each in ALIKE}
        return _Related(rows.of, columns.of, {each: each * own for each in OWN}, alike, level)


def _cut(scores: Scores, rows: slice) -> Scores:
    return Scores(scores.of[rows], scores.part[rows], scores.ahead[rows], scores.score[rows])


def _within_tasks(y: Numbers, ahead: Indices) -> float:
    """The standard deviation around the mean of each task."""
    means = {n: y[ahead == n].mean() for n in np.unique(ahead)}
    return max(float(np.std(y - np.array([means[n] for n in ahead]))), 1e-6)
