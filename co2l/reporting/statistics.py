"""What a handful of seeds can show: mean, spread, a bootstrap interval, and a paired test of two configurations.

Standard deviations are sample standard deviations (n − 1). Intervals are percentile bootstrap intervals of the mean;
with few seeds they are too narrow, and `remark` says so wherever one is shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from co2l.errors import Co2lError

RESAMPLES = 10_000
CONFIDENCE = 0.95
ENOUGH = 10  # seeds, as in the paper
EXACT_UP_TO = 16  # pairs: up to here we try all sign flips, 2^16 of them


@dataclass(frozen=True)
class Summary:
    """Accuracies summarised over seeds."""

    n: int
    mean: float
    std: float | None  # None for a single value, like the interval
    interval: tuple[float, float] | None


def summarise(values: Sequence[float]) -> Summary:
    if not values:
        raise ValueError("nothing to summarise")
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) == 1:
        return Summary(1, float(sample[0]), None, None)
    return Summary(len(sample), float(sample.mean()), float(sample.std(ddof=1)), bootstrap(values))


def bootstrap(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of the mean; the order of the values does not matter."""
    sample = np.sort(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng(seed).integers(0, len(sample), (resamples, len(sample)))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(sample[drawn].mean(axis=1), [tail, 100 - tail])
    return float(low), float(high)


@dataclass(frozen=True)
class Components:
    """Where the variance of accuracies in groups comes from, as standard deviations; None where nothing can be said."""

    mean: float  # of the groups' means
    within: float | None  # groups, pooled over them
    between: float | None  # groups, without what the variance within adds to that of their means


def components(groups: Sequence[Sequence[float]]) -> Components:
    """One-way random effects: the variance of means is that between groups plus that within over the group's size."""
    means = [float(np.mean(group)) for group in groups]
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom or len(groups) < 2:
        return Components(float(np.mean(means)), None, float(np.std(means, ddof=1)) if len(groups) > 1 else None)
    within = sum(float(np.var(group)) * len(group) for group in groups) / freedom
    size = len(groups) / sum(1 / len(group) for group in groups)
    between = max(0.0, float(np.var(means, ddof=1)) - within / size)
    return Components(float(np.mean(means)), math.sqrt(within), math.sqrt(between))


def remark(n: int) -> str:
    """A caution about few seeds; empty if there are enough."""
    if n >= ENOUGH:
        return ""
    if n == 1:
        return "one seed: no spread can be given"
    return f"few seeds ({n}, the paper has {ENOUGH}): the interval is too narrow, and small differences mean nothing"


@dataclass(frozen=True)
class Paired:
    """The differences a − b over common seeds."""

    seeds: tuple[int, ...]
    difference: Summary
    p_flip: float  # two-sided, all sign flips of the differences, or as many random ones as RESAMPLES
    p_least: float  # the smallest that so many pairs can give
    t: float | None  # paired t-test; None if there is one pair, or all differences are equal
    p_t: float | None


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Paired:
    """Whether a and b differ by more than seeds do; with the same seed they share data order and initial weights."""
    seeds = tuple(sorted(a.keys() & b.keys()))
    if not seeds:
        raise Co2lError("the two have no seed in common", fix="evaluate both with the same seeds")
    differences = np.array([a[seed] - b[seed] for seed in seeds], dtype=np.float64)
    t = p_t = None
    if len(seeds) > 1 and float(np.ptp(differences)) > 1e-9:
        from scipy import stats  # takes a second to load

        test = stats.ttest_1samp(differences, 0.0)
        t, p_t = float(test.statistic), float(test.pvalue)
    least = 2 / 2 ** len(seeds) if len(seeds) <= EXACT_UP_TO else 1 / (RESAMPLES + 1)
    return Paired(seeds, summarise(differences.tolist()), sign_flip(differences), min(1.0, least), t, p_t)


def sign_flip(differences: NDArray[np.float64], *, seed: int = 0) -> float:
    """The share of sign flips whose mean is at least as far from zero as the observed one."""
    n = len(differences)
    seen = abs(math.fsum(differences)) - 1e-9  # sums that differ only by rounding are equal
    if n <= EXACT_UP_TO:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        return float(np.mean(np.abs(signs @ differences) >= seen))
    signs = np.random.default_rng(seed).choice((1.0, -1.0), (RESAMPLES, n))
    return float((np.sum(np.abs(signs @ differences) >= seen) + 1) / (RESAMPLES + 1))
