"""What a choice costs, by hand."""

from __future__ import annotations

from sample_protocols import result

from co2l.reporting.protocols import Effort
from co2l.reporting.search_cost import Finished, Lead, at, best_so_far, frontier, leads


def test_the_curve_counts_each_stage_once() -> None:
    trials = [
        Finished({"first": 20, "a": 5}, 80.0),
        Finished({"first": 20, "b": 5}, 70.0),  # 5 more epochs, no better
        Finished({"other": 20, "c": 7}, 85.0),
    ]
    assert best_so_far(trials) == ((25, 80.0), (30, 80.0), (57, 85.0))
    assert best_so_far([]) == ()
    # the first of two seeds, or a failed trial, has no score yet, and costs all the same
    assert best_so_far([Finished({"x": 20}, None), *trials[:1]]) == ((45, 80.0),)


def test_the_best_score_of_a_budget() -> None:
    curve = ((25, 80.0), (30, 80.0), (57, 85.0))
    assert [at(curve, budget) for budget in (24, 25, 56, 57, 900)] == [None, 80.0, 80.0, 85.0, 85.0]


def test_methods_overtake_each_other() -> None:
    er = ((10, 60.0), (20, 70.0), (40, 75.0))
    co2l = ((15, 65.0), (30, 72.0), (90, 90.0))
    # both from 15: Co²L 65 over 60; from 20 ER 70 over 65; from 30 Co²L 72; from 40 ER 75; from 90 Co²L 90
    expected = [Lead(15, "co2l"), Lead(20, "er"), Lead(30, "co2l"), Lead(40, "er"), Lead(90, "co2l")]
    assert leads({"er": er, "co2l": co2l}) == expected
    assert leads({"co2l": co2l, "er": er}) == expected
    assert leads({"a": ((5, 1.0),), "b": ((9, 1.0), (20, 1.0))}) == []
    assert leads({"a": ((5, 2.0),), "b": ((9, 1.0), (20, 2.0))}) == [Lead(9, "a")]  # a tie ends no lead
    assert leads({"a": (), "b": ((9, 1.0),)}) == []


def test_the_frontier_is_what_nothing_cheaper_matches() -> None:
    def of(name: str, score: float, epochs: int) -> object:
        return result(name, "end", score, seeds=[0.0], choosing=Effort(epochs), training=Effort(40))

    given = [of("a", 80, 500), of("b", 70, 600), of("c", 85, 900), of("d", 80, 400), of("e", 60, 100), of("f", 85, 950)]
    found = frontier(given)  # type: ignore[arg-type]
    assert [(each.method, each.total.epochs) for each in found] == [("e", 140), ("d", 440), ("c", 940)]
