"""Ranks and their agreement, against pairs counted by hand and by loops."""

from __future__ import annotations

import itertools

import pytest
import sample_protocols
from sample_protocols import result

from co2l.reporting.protocols import Comparison, ProtocolResult, comparisons
from co2l.reporting.ranking import conclusion, differences, kendall, ranks, reversals, taus


def compared(*results: ProtocolResult) -> Comparison:
    (only,) = comparisons(results)
    return only


def tau_b(one: dict[str, float], other: dict[str, float]) -> float:
    """Concordant less discordant pairs, over the pairs that each ranking does not tie."""
    signs = [
        ((one[a] > one[b]) - (one[a] < one[b]), (other[a] > other[b]) - (other[a] < other[b]))
        for a, b in itertools.combinations(one, 2)
    ]
    both = sum(x * y for x, y in signs)
    untied = sum(x != 0 for x, _ in signs) * sum(y != 0 for _, y in signs)
    return float(both / untied**0.5)


def test_equal_scores_share_a_rank() -> None:
    assert ranks({"a": 3.0, "b": 5.0, "c": 3.0, "d": 1.0}) == {"a": 2, "b": 1, "c": 2, "d": 4}


@pytest.mark.parametrize("order", list(itertools.permutations([1.0, 2.0, 3.0, 4.0])))
def test_kendalls_tau_counts_pairs(order: tuple[float, ...]) -> None:
    one, other = dict(zip("abcd", [1.0, 2.0, 3.0, 4.0], strict=True)), dict(zip("abcd", order, strict=True))
    assert kendall(one, other) == pytest.approx(tau_b(one, other))


def test_kendalls_tau_with_ties_and_over_common_methods() -> None:
    one, other = {"a": 1.0, "b": 2.0, "c": 2.0, "d": 4.0}, {"a": 2.0, "b": 1.0, "c": 3.0, "d": 4.0}
    assert kendall(one, other) == pytest.approx(tau_b(one, other))
    assert kendall({"a": 1, "b": 2, "x": 0}, {"a": 1, "b": 2, "y": 9}) == pytest.approx(1.0)
    assert kendall({"a": 1.0}, {"a": 1.0}) is None
    assert kendall({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}) is None


def test_taus_are_between_every_two_protocols() -> None:
    scores = {"end": (1, 2, 3, 4), "first_k 2": (1, 2, 4, 3), "greedy": (4, 3, 2, 1)}
    found = taus(compared(*(result(m, p, s) for p, of in scores.items() for m, s in zip("abcd", of, strict=True))))
    # (1, 2, 4, 3): one of six pairs is discordant; reversed: all; against that: five of six
    assert found == {
        ("end", "first_k 2"): pytest.approx(4 / 6),
        ("end", "greedy"): pytest.approx(-1.0),
        ("first_k 2", "greedy"): pytest.approx(-4 / 6),
    }


def test_differences_are_paired_by_seed_and_order() -> None:
    """Seeds scatter by 10 points, alike for both methods: only the paired difference is clear."""
    noise = [0.0, 10.0, -10.0, 5.0]
    one, other = result("a", "end", 80.0, seeds=noise), result("b", "end", 78.0, seeds=[x + 0.1 * x for x in noise])
    (only,) = differences(compared(one, other), "end")
    assert (only.better, only.worse) == ("a", "b")
    assert only.over.mean == pytest.approx(2 - 0.1 * 1.25)
    assert only.over.sign == 1
    (swapped,) = differences(compared(result("a", "end", 78.0), result("b", "end", 80.0)), "end")
    assert swapped.better == "b"
    assert swapped.over.mean == pytest.approx(2.0)
    assert one.accuracy().interval is not None
    assert one.accuracy().half == pytest.approx(13.6, abs=0.1)  # 3.182 · 8.54 / 2: wider than the difference by far
    assert one.minus(result("b", "end", 1.0, first_seed=9)) is None


def test_a_reversal_is_certain_if_both_intervals_leave_zero_out() -> None:
    clear = compared(
        *(result(m, p, s) for m, p, s in [("a", "end", 9), ("b", "end", 5), ("a", "greedy", 5), ("b", "greedy", 9)])
    )
    (found,) = reversals(clear)
    assert found.certain
    assert "the protocol decides which is better of a and b" in conclusion(clear)
    away = [result("a", "transfer to b", 5.0, tested_on="b"), result("b", "transfer to b", 9.0, tested_on="b")]
    elsewhere = compared(*clear.under("end").values(), *away)
    assert "the protocol, or the other data that it is tested on, decides which is better" in conclusion(elsewhere)
    noisy = compared(
        *clear.under("end").values(), result("a", "greedy", 5.0), result("b", "greedy", 9.0, seeds=[0, 30, -30])
    )
    (found,) = reversals(noisy)
    assert not found.certain
    said = conclusion(noisy)
    assert "1 pair changes order between two protocols, none with both intervals clear of 0" in said
    assert "may not be concluded that the protocol decides the ranking" in said


def test_the_conclusion_says_how_little_a_few_methods_can_show() -> None:
    same = sample_protocols.grid("abcd", ["end", "first_k 2"], "abcd".index)
    said = conclusion(compared(*same))
    # four methods: six pairs, so τ is one of seven values; 4! orders
    assert said.startswith("With 4 methods τ takes only 7 values (without ties) and is 1 by chance once in 24 times")
    assert "12 of the 12 differences between two methods under one protocol have an interval without 0" in said
    assert said.endswith("what is clear under one is contradicted by none.")
    assert said.count(".") == 1, "one sentence"


def test_the_conclusion_where_nothing_can_be_concluded() -> None:
    one_run = sample_protocols.grid("ab", ["end", "greedy"], "ab".index, seeds=[0.0])
    assert "0 of the 2 differences" in conclusion(compared(*one_run))
    assert "neither ranks nor their agreement may be concluded" in conclusion(compared(*one_run))
    assert "there is no ranking" in conclusion(compared(result("a", "end", 1.0)))
    apart = [result("a", "end", 1.0), result("b", "end", 2.0, first_seed=9)]
    assert "with the same seeds and orders" in conclusion(compared(*apart))
    alone = sample_protocols.grid("ab", ["end"], "ab".index)
    assert "of one protocol no more" in conclusion(compared(*alone))
