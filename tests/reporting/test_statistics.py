"""Statistics against hand-worked examples and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from co2l.errors import Co2lError
from co2l.reporting.statistics import Components, bootstrap, components, paired, remark, sign_flip, summarise

SAMPLE = [61.2, 64.9, 58.3, 66.0, 63.1, 60.7, 65.2, 59.9, 62.4, 63.8]


def test_mean_and_sample_standard_deviation() -> None:
    summary = summarise([2.0, 4.0, 9.0])  # mean 5; squares 9 + 1 + 16 = 26, divided by two
    assert (summary.n, summary.mean) == (3, 5.0)
    assert summary.std == pytest.approx(math.sqrt(13))


def test_one_value_has_no_spread() -> None:
    summary = summarise([7.0])
    assert (summary.mean, summary.std, summary.interval) == (7.0, None, None)
    with pytest.raises(ValueError, match="nothing"):
        summarise([])


def test_the_bootstrap_agrees_with_scipy() -> None:
    low, high = bootstrap(SAMPLE)
    theirs = stats.bootstrap(
        (SAMPLE,), np.mean, n_resamples=100_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert low == pytest.approx(theirs.low, abs=0.08)
    assert high == pytest.approx(theirs.high, abs=0.08)


def test_the_bootstrap_of_two_values_is_known() -> None:
    assert bootstrap([1.0, 3.0]) == (1.0, 3.0)  # a quarter of all resamples is (1, 1), a quarter (3, 3)


def test_the_bootstrap_is_repeatable_whatever_the_order() -> None:
    assert bootstrap(SAMPLE) == bootstrap(SAMPLE[::-1])


def test_sign_flips_by_hand() -> None:
    # sums of the eight flips of (1, 2, 4): ±7, ±5, ±3, ±1; only ±7 is as far as 7
    assert sign_flip(np.array([1.0, 2.0, 4.0])) == 2 / 8
    # of (1, 2, -4) the sum is -1, and all eight are at least as far
    assert sign_flip(np.array([1.0, 2.0, -4.0])) == 1.0


def test_sign_flips_agree_with_scipy() -> None:
    differences = np.array([1.3, -0.4, 2.2, 0.9, -1.1, 3.0, 0.2])
    theirs = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(differences) == pytest.approx(theirs.pvalue)


def test_many_pairs_are_flipped_at_random() -> None:
    rng = np.random.default_rng(5)
    differences = rng.normal(0.4, 1.0, 30)
    assert sign_flip(differences) == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.02)
    assert paired(dict(enumerate(differences)), dict.fromkeys(range(30), 0.0)).p_least == 1 / 10_001


def test_pairs_are_the_common_seeds() -> None:
    a = {0: 60.0, 1: 64.0, 2: 61.0, 5: 99.0}
    b = {0: 58.0, 1: 60.0, 2: 60.0, 7: 1.0}
    result = paired(a, b)
    theirs = stats.ttest_rel([60.0, 64.0, 61.0], [58.0, 60.0, 60.0])
    assert result.seeds == (0, 1, 2)
    assert result.difference.mean == pytest.approx(7 / 3)
    assert (result.t, result.p_t) == (pytest.approx(theirs.statistic), pytest.approx(theirs.pvalue))
    assert (result.p_flip, result.p_least) == (0.25, 0.25)


def test_pairs_without_a_t_test() -> None:
    one = paired({3: 1.0}, {3: 0.0})
    assert (one.t, one.p_flip, one.p_least) == (None, 1.0, 1.0)
    alike = paired({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.0})  # no spread: t would be infinite
    assert (alike.t, alike.p_t) == (None, None)


def test_without_a_common_seed_there_is_no_test() -> None:
    with pytest.raises(Co2lError, match="no seed in common"):
        paired({0: 1.0}, {1: 1.0})


def test_few_seeds_are_remarked_on() -> None:
    assert "one seed" in remark(1)
    assert "few seeds (3, the paper has 10)" in remark(3)
    assert remark(10) == ""


def test_components_of_balanced_groups_against_the_table_of_an_analysis_of_variance() -> None:
    groups = [[80.0, 82.0, 84.0], [70.0, 74.0, 72.0], [75.0, 71.0, 73.0]]
    values = np.array(groups)
    between = 3 * ((values.mean(1) - values.mean()) ** 2).sum() / 2  # mean squares, of 2 and of 6 degrees of freedom
    within = ((values - values.mean(1, keepdims=True)) ** 2).sum() / 6
    found = components(groups)
    assert found.mean == pytest.approx(values.mean())
    assert found.within == pytest.approx(math.sqrt(within))
    assert found.between == pytest.approx(math.sqrt((between - within) / 3))
    assert between / within == pytest.approx(stats.f_oneway(*groups).statistic)


def test_components_of_little() -> None:
    assert components([[1.0, 3.0], [2.0, 2.0]]) == Components(2.0, pytest.approx(1.0), 0.0)  # the seeds explain it all
    assert components([[80.0], [90.0]]) == Components(85.0, None, pytest.approx(math.sqrt(50)))
    assert components([[80.0, 82.0]]) == Components(81.0, None, None)
