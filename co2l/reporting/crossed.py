"""What crossed seeds and orders can show: where the variance comes from, and an interval of a mean.

Every configuration is run with every seed on every order of classes, once: a crossed design. Its runs are not
independent draws, as runs with the same seed share initial weights and those on the same order share tasks. Ten runs
of two seeds on five orders know less about seeds than ten seeds do.

`components` splits the variance of such runs by the analysis of variance of a random-effects model: mean squares are
set equal to their expectations (Searle, Casella and McCulloch, Variance Components, 1992). Estimates are unbiased, and
may be negative where a component is small; those are shown as 0. The highest interaction is the rest: with one run per
combination it cannot be split further.

`crossed_interval` is a t interval of the mean for new seeds and new orders. Its squared standard error is that of the
seeds' means plus that of the orders' means, with Satterthwaite's degrees of freedom (Biometrics Bulletin, 1946). What
is particular to single runs counts twice, so where neither seeds nor orders matter it is too wide. With 5 seeds and 3
orders it holds the mean in 94% to 99% of simulated tables, with 2 orders in 90% to 99%; where orders matter most, a t
interval over seeds alone does so in 29%, and one over all runs as if they were independent in 54%
(`benchmarks/crossed_intervals.py`). Over one order it is the usual t interval over seeds, and says nothing of others.

Missing runs: both need a full rectangle, so `rectangle` takes the largest one, and the report says what it left out.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from co2l.data.class_order import ClassOrder
from co2l.reporting.statistics import CONFIDENCE

REST = "rest"
EXHAUSTIVE = 12  # orders: up to here every subset of them is tried for the largest rectangle

Run = tuple[int, ClassOrder]  # of a configuration: its seed and its order of classes


@dataclass(frozen=True)
class Component:
    """A part of the variance."""

    name: str  # the factors that it is of, joined by ×; the last one is the rest
    variance: float  # unbiased, so it may be negative
    share: float  # of the sum of all, negative ones counted as 0

    @property
    def std(self) -> float:
        return math.sqrt(max(0.0, self.variance))


def components(values: NDArray[np.float64], factors: Sequence[str]) -> list[Component]:
    """The variance of a full crossed design with an axis per factor; factors of one level are left out."""
    kept = [i for i, levels in enumerate(values.shape) if levels > 1]
    values, factors = values.reshape([values.shape[i] for i in kept]), [factors[i] for i in kept]
    subsets = [subset for size in range(1, len(kept) + 1) for subset in itertools.combinations(range(len(kept)), size)]
    found: dict[tuple[int, ...], float] = {}
    for subset in reversed(subsets):  # from the highest interaction down: each mean square holds those above it
        above = sum(_runs(values, other) * found[other] for other in found if set(subset) < set(other))
        found[subset] = (_mean_square(values, subset) - above) / _runs(values, subset)
    total = math.fsum(max(0.0, variance) for variance in found.values())
    names = {subset: " × ".join(factors[i] for i in subset) for subset in subsets}
    if len(kept) > 1:
        names[subsets[-1]] = REST
    return [
        Component(names[subset], found[subset], max(0.0, found[subset]) / total if total > 0 else 0.0)
        for subset in subsets
    ]


def _mean_square(values: NDArray[np.float64], subset: Sequence[int]) -> float:
    """Of one effect: the squares of what the means over the other axes show beyond the effects within it."""
    effect = np.zeros([n if i in subset else 1 for i, n in enumerate(values.shape)])
    for size in range(len(subset) + 1):
        for within in itertools.combinations(subset, size):
            others = tuple(i for i in range(values.ndim) if i not in within)
            effect = effect + (-1) ** (len(subset) - size) * values.mean(axis=others, keepdims=True)
    freedom = math.prod(values.shape[i] - 1 for i in subset)
    return float(_runs(values, subset) * (effect**2).sum() / freedom)


def _runs(values: NDArray[np.float64], subset: Collection[int]) -> int:
    """How many runs are behind each level of an effect."""
    return math.prod(n for i, n in enumerate(values.shape) if i not in subset)


@dataclass(frozen=True)
class Crossed:
    """The mean of runs over seeds and orders, and how sure it is."""

    mean: float
    half: float | None  # of the 95% interval; None for a single run
    seeds: tuple[int, ...]
    orders: tuple[ClassOrder, ...]
    left_out: int = 0  # runs outside the largest full rectangle

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.half is None else (self.mean - self.half, self.mean + self.half)

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies above or below zero; 0 if it contains zero, or there is none."""
        if self.half is None or abs(self.mean) <= self.half:
            return 0
        return 1 if self.mean > 0 else -1


def crossed(accuracies: Mapping[Run, float]) -> Crossed:
    """Runs by seed and order, over their largest full rectangle."""
    seeds, orders = rectangle(accuracies)
    values = np.array([[accuracies[seed, order] for order in orders] for seed in seeds], dtype=np.float64)
    left_out = len(accuracies) - values.size
    return Crossed(math.fsum(values.flat) / values.size, crossed_interval(values), seeds, orders, left_out)


def rectangle(runs: Iterable[Run]) -> tuple[tuple[int, ...], tuple[ClassOrder, ...]]:
    """The seeds and orders of the largest full rectangle; of equal ones that with the most seeds, then the first."""
    on: dict[ClassOrder, set[int]] = defaultdict(set)
    for seed, order in runs:
        on[order].add(seed)
    best: tuple[tuple[int, ...], tuple[ClassOrder, ...]] = ((), ())
    for orders in _subsets(sorted(on, key=lambda order: (isinstance(order, str), order))):
        seeds = tuple(sorted(set.intersection(*(on[order] for order in orders))))
        if (len(seeds) * len(orders), len(seeds)) > (len(best[0]) * len(best[1]), len(best[0])):
            best = seeds, orders
    return best


def _subsets(orders: Sequence[ClassOrder]) -> Iterator[tuple[ClassOrder, ...]]:
    """Every subset; of many orders each alone, all but one, and all."""
    n = len(orders)
    sizes = range(1, n + 1) if n <= EXHAUSTIVE else (1, n - 1, n)
    return itertools.chain.from_iterable(itertools.combinations(orders, size) for size in sizes)


def crossed_interval(values: NDArray[np.float64]) -> float | None:
    """Half the width of the 95% interval of the mean of seeds (rows) × orders (columns); None for a single run."""
    if values.size == 1:
        return None
    of_means = [values.mean(axis=1 - axis) for axis, levels in enumerate(values.shape) if levels > 1]
    squares = [(float(means.var(ddof=1)) / len(means), len(means) - 1) for means in of_means]
    total = math.fsum(square for square, _ in squares)
    if total == 0:
        return 0.0
    freedom = total**2 / math.fsum(square**2 / each for square, each in squares)
    return _t(freedom) * math.sqrt(total)


def _t(freedom: float) -> float:
    from scipy import stats  # takes a second to load

    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))
