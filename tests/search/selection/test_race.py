"""A race's decisions, against scipy's tests and intervals and against counting."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from scipy import stats
from spaces import space_of

from co2l.search.record.entries import Entry
from co2l.search.selection.race import Runner, affordable, clearly_worse, finalists, raced, staying
from co2l.search.selection.rule import select, told_apart
from co2l.search.space.space import Space


def runner(name: float, *scores: float) -> Runner:
    return Runner((("eta", name),), dict(enumerate(scores)))


def test_who_is_clearly_worse_is_so_by_a_paired_one_sided_t_test() -> None:
    rng, seen = random.Random(0), set()
    for _ in range(300):
        n = rng.randint(2, 6)
        level = [rng.gauss(0, 5) for _ in range(n)]  # what a seed does to both
        best = [each + rng.gauss(1, 1) for each in level]
        other = [each + rng.gauss(0, 1) for each in level]
        wanted = stats.ttest_rel(best, other, alternative="greater").pvalue < 0.05
        seen.add(wanted)
        assert clearly_worse(runner(2, *other), runner(1, *best)) == wanted
    assert seen == {True, False}


def test_one_seed_tells_nothing_and_equal_leads_tell_all() -> None:
    assert not clearly_worse(runner(2, 10), runner(1, 90))
    assert clearly_worse(runner(2, 10, 20), runner(1, 11, 21))
    assert not clearly_worse(runner(2, 11, 21), runner(1, 11, 21))
    assert not clearly_worse(runner(2, 50, 20, 20), runner(1, 60, 20.1, 20.2))
    others = Runner((("eta", 2),), {0: 10, 7: 10})  # only the seed 0 in common
    assert not clearly_worse(others, runner(1, 90, 90))


def test_the_best_come_first_and_of_equal_ones_the_first_given() -> None:
    runners = [runner(1, 50, 60), runner(2, 70, 40), runner(3, 65, 66), runner(4, 10, 10.5)]
    assert [each.configuration[0][1] for each in staying(runners)] == [3, 1, 2]


@pytest.mark.parametrize("heats", [1, 2, 4])
def test_as_many_begin_as_can_run_all_heats(heats: int) -> None:
    """Each heat has half as many, but at least two; one costs 50 epochs, 30 of which some share."""
    costs = [0, 50, 70, 120, 140, 190, 210, 260, 280]

    def whole(n: int) -> float:
        sizes = [n]
        for _ in range(heats - 1):
            sizes.append(max(2, math.ceil(sizes[-1] / 2)))
        return sum(costs[size] for size in sizes)

    for epochs in range(0, 700, 7):
        fitting = [n for n in range(2, 9) if whole(n) <= epochs]
        expected = max(fitting, default=2 if epochs >= 70 else 0)
        assert affordable(costs, heats, epochs) == expected, epochs


def test_those_of_the_last_heat_that_two_have_finished_are_compared() -> None:
    three, two, one = runner(1, 1, 2, 3), runner(2, 4, 5), runner(3, 9)
    assert finalists([one], [0]) == ([one], (0,))
    assert finalists([one, two], [0]) == ([one, two], (0,))
    assert finalists([one, two, three], [0]) == ([two, three], (0, 1))
    assert finalists([one, three, three], [0]) == ([three, three], (0, 1, 2))


def test_the_interval_is_students() -> None:
    best, other = runner(1, 90.0, 92.0, 97.0), runner(2, 80, 81, 86.5)
    found = raced(best, [best, other, runner(3, 99)], (0, 1, 2), [0])
    mean, error = 93.0, stats.sem([90, 92, 97])
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 2, loc=mean, scale=error))
    assert (found.runners, found.alike) == (2, ())


SCORES = {  # eta -> by seed; the best with the space's seed alone is 0.02, by the mean of the last heat 0.05
    0.01: [60.0, 90.0],
    0.02: [80.0, 50.0, 52.0],
    0.05: [70.0, 66.0, 62.0],
    0.1: [75.0, 60.0],
}


def entries(space: Space, scores: dict[float, list[float]] = SCORES, statuses: Any = None) -> Sequence[Entry]:
    found = []
    for eta, listed in scores.items():
        for seed, score in enumerate(listed):
            (trial,) = space.trials_of({"eta": eta}, [seed])
            status = (statuses or {}).get((eta, seed), "done")
            found.append(Entry(trial.key, trial.values, seed, status, score if status == "done" else None))
    return found


@pytest.mark.parametrize("race", [{"seeds": 3}, None])
def test_the_best_mean_of_the_last_heat_is_selected(race: Any) -> None:
    """Even when the space names no race any more: what it tried is known."""
    space = space_of({"eta": list(SCORES)}, selection={"race": race})
    (chosen,) = select(space, entries(space)).selected
    assert (chosen.values, chosen.score, chosen.seeds, len(chosen.trials)) == ({"eta": 0.05}, 66.0, (0, 1, 2), 3)
    margin = chosen.margin
    assert (margin.candidates, margin.second, margin.std) == (4, {"eta": 0.02}, 4.0)
    assert margin.lead == pytest.approx(66 - 182 / 3)
    assert margin.race is not None
    assert (margin.race.runners, list(margin.race.alike)) == (4, [{"eta": 0.01}, {"eta": 0.02}, {"eta": 0.1}])
    plain = chosen.as_dict(space)
    assert plain["seeds"] == plain["margin"]["race"]["seeds"] == [0, 1, 2]
    assert plain["margin"]["race"]["interval"] == pytest.approx(stats.t.interval(0.95, 2, 66.0, 4 / math.sqrt(3)))
    assert told_apart([chosen]) == [
        "raced 4 configurations; not distinguishable from the selected one: eta=0.01; eta=0.02; eta=0.1"
    ]


def test_a_configuration_whose_trial_failed_in_the_race_is_left_out() -> None:
    space = space_of({"eta": list(SCORES)}, selection={"race": {"seeds": 3}})
    choice = select(space, entries(space, statuses={(0.05, 2): "failed"}))
    assert choice.selected[0].values["eta"] == 0.01  # of the heat before, as only one finished the last
    assert choice.left_out == ("eta=0.05: failed in the race with seed 2 (no reason given)",)


def test_a_heat_that_has_only_begun_changes_nothing() -> None:
    space = space_of({"eta": list(SCORES)}, selection={"race": {"seeds": 3}})
    begun = entries(space, statuses={(0.05, 2): "running"})
    (chosen,) = select(space, begun).selected
    assert (chosen.values["eta"], chosen.seeds) == (0.01, (0, 1))
