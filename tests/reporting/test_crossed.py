"""Variance components and intervals of crossed runs, against loops over means, textbook formulas and simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from co2l.reporting.crossed import components, crossed, crossed_interval, rectangle

Values = NDArray[np.float64]


def two_way(y: Values) -> list[float]:
    """Rows, columns and rest, by the textbook's sums of squares in plain loops."""
    a, b = y.shape
    grand = sum(float(v) for v in y.flat) / (a * b)
    rows = [sum(float(y[i, j]) for j in range(b)) / b for i in range(a)]
    columns = [sum(float(y[i, j]) for i in range(a)) / a for j in range(b)]
    of_rows = b * sum((mean - grand) ** 2 for mean in rows) / (a - 1)
    of_columns = a * sum((mean - grand) ** 2 for mean in columns) / (b - 1)
    left = sum((y[i, j] - rows[i] - columns[j] + grand) ** 2 for i in range(a) for j in range(b))
    rest = float(left) / ((a - 1) * (b - 1))
    return [(of_rows - rest) / b, (of_columns - rest) / a, rest]


def test_two_factors_are_those_of_the_textbook() -> None:
    y = np.array([[80.0, 82.0, 75.0], [84.0, 85.0, 83.0], [79.0, 84.0, 70.0], [77.0, 81.0, 72.0]])
    found = components(y, ["seed", "order"])
    assert [each.name for each in found] == ["seed", "order", "rest"]
    expected = two_way(y)
    assert [each.variance for each in found] == pytest.approx(expected)
    assert min(expected) > 0
    assert [each.share for each in found] == pytest.approx([each / sum(expected) for each in expected])
    assert [each.std for each in found] == pytest.approx([math.sqrt(each) for each in expected])


def cell_mean(y: Values, **fixed: int) -> float:
    """The mean of the runs at these levels, by a loop over all of them."""
    names = ("a", "b", "c")
    kept = [
        float(y[at])
        for at in itertools.product(*map(range, y.shape))
        if all(at[names.index(name)] == level for name, level in fixed.items())
    ]
    return sum(kept) / len(kept)


def test_three_factors_are_those_of_expected_mean_squares_written_out() -> None:
    """Each effect by its own loop over means, and the seven equations of the random model solved by hand."""
    y = np.random.default_rng(7).normal(80, 5, (3, 4, 2))
    y += np.array([0.0, 9.0, 4.0])[:, None, None] + np.array([0.0, 3.0, -5.0, 2.0])[None, :, None]
    n = {"a": 3, "b": 4, "c": 2}
    grand = cell_mean(y)
    square: dict[str, float] = {}
    for one in n:
        effects = [cell_mean(y, **{one: i}) - grand for i in range(n[one])]
        square[one] = 24 / n[one] * sum(e * e for e in effects) / (n[one] - 1)
    for one, two in ("ab", "ac", "bc"):
        effects = [
            cell_mean(y, **{one: i, two: j}) - cell_mean(y, **{one: i}) - cell_mean(y, **{two: j}) + grand
            for i, j in itertools.product(range(n[one]), range(n[two]))
        ]
        square[one + two] = 24 / (n[one] * n[two]) * sum(e * e for e in effects) / ((n[one] - 1) * (n[two] - 1))
    total = sum((float(v) - grand) ** 2 for v in y.flat)
    freedom = {"a": 2, "b": 3, "c": 1, "ab": 6, "ac": 2, "bc": 3}
    square["abc"] = (total - sum(square[name] * freedom[name] for name in freedom)) / 6
    expected = {
        "a": (square["a"] - square["ab"] - square["ac"] + square["abc"]) / 8,
        "b": (square["b"] - square["ab"] - square["bc"] + square["abc"]) / 6,
        "c": (square["c"] - square["ac"] - square["bc"] + square["abc"]) / 12,
        "a × b": (square["ab"] - square["abc"]) / 2,
        "a × c": (square["ac"] - square["abc"]) / 4,
        "b × c": (square["bc"] - square["abc"]) / 3,
        "rest": square["abc"],
    }
    found = {each.name: each.variance for each in components(y, ["a", "b", "c"])}
    assert list(found) == list(expected)
    assert found == pytest.approx(expected)


def test_simulated_variances_are_found_again_on_average() -> None:
    """The estimates are unbiased: over 600 designs with known variances their means are those."""
    rng = np.random.default_rng(11)
    a, b, c, ab, rest = 3.0, 2.0, 1.0, 0.8, 0.5  # standard deviations; a × c and b × c have none
    shape = (4, 3, 5)
    sums = np.zeros(7)
    designs = 600
    for _ in range(designs):
        y = rng.normal(0, a, (4, 1, 1)) + rng.normal(0, b, (1, 3, 1)) + rng.normal(0, c, (1, 1, 5))
        y = y + rng.normal(0, ab, (4, 3, 1)) + rng.normal(0, rest, shape)
        sums += [each.variance for each in components(y, ["a", "b", "c"])]
    known = np.array([a**2, b**2, c**2, ab**2, 0.0, 0.0, rest**2])
    names = [each.name for each in components(y, ["a", "b", "c"])]
    assert names == ["a", "b", "c", "a × b", "a × c", "b × c", "rest"]
    # the standard error of a mean of 600 estimates of 9 with two degrees of freedom or more is below 0.4
    assert sums / designs == pytest.approx(known, abs=1.0)
    assert (sums / designs)[3:] == pytest.approx(known[3:], abs=0.08)


def test_a_negative_estimate_has_no_share_and_a_single_level_no_row() -> None:
    y = np.array([[1.0, 2.0], [2.0, 1.0]])  # rows and columns have equal means: all is interaction
    seed, order, rest = components(y, ["seed", "order"])
    assert seed.variance == order.variance == pytest.approx(-0.5)
    assert (seed.std, seed.share, order.share, rest.share) == (0.0, 0.0, 0.0, 1.0)
    (only,) = components(np.array([[3.0], [5.0], [7.0]]), ["seed", "order"])
    assert (only.name, only.share) == ("seed", 1.0)
    assert only.variance == pytest.approx(4.0)
    assert components(np.array([[3.0]]), ["seed", "order"]) == []
    assert [each.share for each in components(np.ones((2, 2)), ["seed", "order"])] == [0.0, 0.0, 0.0]


def test_over_one_order_or_one_seed_the_interval_is_the_usual_one() -> None:
    values = [80.0, 83.0, 79.0, 86.0]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    column = np.array(values)[:, None]
    assert crossed_interval(column) == crossed_interval(column.T) == pytest.approx((high - low) / 2)
    assert crossed_interval(np.array([[80.0]])) is None


def test_the_interval_by_hand() -> None:
    # seeds' means 2 and 4: variance 2, over 2 seeds 1; orders' means 2, 3, 4: variance 1, over 3 orders 1/3
    y = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    freedom = (4 / 3) ** 2 / (1 / 1 + (1 / 3) ** 2 / 2)
    assert crossed_interval(y) == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(4 / 3))
    assert crossed_interval(np.ones((2, 3))) == 0.0


@pytest.mark.parametrize(("seed", "order", "rest"), [(0, 0, 1), (1, 1, 1), (0, 3, 1)])
def test_the_interval_covers_what_it_promises(seed: float, order: float, rest: float) -> None:
    """Of 1,000 simulated tables of 5 seeds and 3 orders; as if all runs were independent, far fewer."""
    rng = np.random.default_rng(3)
    covered = independent = 0
    for _ in range(1000):
        y = rng.normal(0, seed, (5, 1)) + rng.normal(0, order, (1, 3)) + rng.normal(0, rest, (5, 3))
        half = crossed_interval(y)
        assert half is not None
        covered += abs(y.mean()) <= half
        independent += abs(y.mean()) <= 2.145 * y.std(ddof=1) / math.sqrt(15)  # t of 14 degrees of freedom
    assert covered / 1000 > 0.92  # 0.95, less what Satterthwaite's approximation and 1,000 draws may miss
    if seed or order:
        assert independent / 1000 < 0.8


def test_the_largest_full_rectangle() -> None:
    assert rectangle([(0, 0), (1, 0), (0, 1), (1, 1)]) == ((0, 1), (0, 1))
    # seed 2 lacks order 1: three seeds on order 0, or two on both
    assert rectangle([(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]) == ((0, 1), (0, 1))
    # two seeds on one order are as many runs as one seed on two; the seeds are preferred
    assert rectangle([(0, 0), (1, 0), (0, 1)]) == ((0, 1), (0,))
    assert rectangle([(4, "fixed")]) == ((4,), ("fixed",))
    many = [(seed, order) for seed in range(3) for order in range(20) if (seed, order) != (2, 7)]
    assert rectangle(many) == ((0, 1, 2), tuple(order for order in range(20) if order != 7))


def test_runs_outside_the_rectangle_are_counted_and_not_averaged() -> None:
    runs: dict[tuple[int, int | str], float] = {(0, 0): 1.0, (1, 0): 3.0, (0, 1): 5.0, (1, 1): 7.0, (2, 0): 100.0}
    found = crossed(runs)
    assert (found.mean, found.seeds, found.orders, found.left_out) == (4.0, (0, 1), (0, 1), 1)
    assert found.half is not None
    assert found.interval == (4.0 - found.half, 4.0 + found.half)
    assert found.sign == 0  # ± 4.5 t: wide
    assert crossed({(0, 0): 1.0}).sign == 0
    assert crossed({(0, 0): 1.0, (1, 0): 1.0}).sign == 1
    assert crossed({(0, 0): -1.0, (1, 0): -1.1}).sign == -1
