"""How often 95% intervals of runs over seeds × orders hold the mean: ours beside two that take runs as independent.

    python benchmarks/crossed_intervals.py

Ours (`co2l.reporting.crossed`) is for new seeds and new orders. *Seeds* is the t interval over the seeds' means, *runs*
that over all runs. Accuracies are normal, with the standard deviations that a row names; 10,000 tables for each.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from co2l.reporting.crossed import crossed_interval

TABLES = 10_000
SIZES = ((5, 3), (5, 2), (10, 5))
DEVIATIONS = ((0, 0, 1), (1, 1, 1), (3, 0, 1), (0, 3, 1), (1, 3, 1))  # of seeds, of orders, of what is left


def covered(values: NDArray[np.float64]) -> tuple[bool, bool, bool]:
    """Whether each interval of the mean holds the true one, 0."""
    mean = abs(float(values.mean()))
    ours = crossed_interval(values)
    assert ours is not None
    return mean <= ours, mean <= _independent(values.mean(axis=1)), mean <= _independent(values.ravel())


def _independent(values: NDArray[np.float64]) -> float:
    n = len(values)
    return float(stats.t.ppf(0.975, n - 1)) * float(values.std(ddof=1)) / math.sqrt(n)


def main() -> None:
    rng = np.random.default_rng(0)
    print("seeds  orders  σ of seeds, orders, rest    ours  seeds  runs")
    for seeds, orders in SIZES:
        for by_seed, by_order, rest in DEVIATIONS:
            hits = np.zeros(3)
            for _ in range(TABLES):
                table = rng.normal(0, by_seed, (seeds, 1)) + rng.normal(0, by_order, (1, orders))
                hits += covered(table + rng.normal(0, rest, (seeds, orders)))
            shares = "  ".join(f"{share:5.1%}" for share in hits / TABLES)
            print(f"{seeds:5}  {orders:6}  {by_seed:10}, {by_order:6}, {rest:4}   {shares}")


if __name__ == "__main__":
    main()
