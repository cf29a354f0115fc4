"""What a search takes from an earlier study: worked out by hand, remembered, and of little cost if it misleads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spaces import AXES, finish, space_of

from co2l.errors import Co2lError
from co2l.search.algorithms.earlier import POINTS, points, taken
from co2l.search.record.earlier import Earlier
from co2l.search.record.reader import StoredStudy, StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.record.upkeep import delete
from co2l.search.running.simulation import Simulated, Simulation
from co2l.search.space.evaluation import of_space
from co2l.search.space.space import Space

HERE: dict[str, Any] = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2, 0.5], "kappa_star": [0.01, 0.05]}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def study(space: Space, scores: dict[tuple[Any, ...], float], url: str, name: str = "before") -> StoredStudy:
    """A study whose points have these scores."""
    record = StudyRecord.open(url, name, space)
    for values, score in scores.items():
        for trial in space.trials_of(dict(zip(space.drawn_axes, values, strict=True))):
            finish(record, trial, score)
    return StudyReader(url).study(name)


def test_the_best_come_first_each_at_the_nearest_point(url: str) -> None:
    """0.03 is nearer to 0.02 than to 0.05 by its ratio; kappa* was fixed there; two of them meet in one point."""
    axes = {"eta": [0.001, 0.03, 1.0], "kappa": [0.1, 0.4]}
    before = space_of(axes, benchmark="r_digits", settings={"E_0": 20, "kappa_star": 0.05})
    scores = {(0.03, 0.4): 90.0, (1.0, 0.1): 80.0, (0.03, 0.1): 85.0, (0.001, 0.4): 10.0, (0.001, 0.1): 20.0}
    found = points(space_of(HERE), study(before, scores, url))
    assert found == [
        {"eta": 0.02, "kappa": 0.5, "kappa_star": 0.05},
        {"eta": 0.02, "kappa": 0.1, "kappa_star": 0.05},
        {"eta": 0.05, "kappa": 0.1, "kappa_star": 0.05},
    ]
    narrow = {"eta": [0.02, 0.05], "kappa": [0.2], "kappa_star": [0.01, 0.05, 0.1]}
    assert points(space_of(narrow), StudyReader(url).study("before")) == [
        {"eta": 0.02, "kappa": 0.2, "kappa_star": 0.05},
        {"eta": 0.05, "kappa": 0.2, "kappa_star": 0.05},
    ]


def test_ranges_words_and_what_is_not_known_there(url: str) -> None:
    """A value outside of a range becomes its end; a word that is not here leaves its point out."""
    axes = {"eta": [0.001, 0.3], "distillation": ["ird", "none"]}
    stored = study(space_of(axes), {(0.3, "none"): 90.0, (0.3, "ird"): 80.0, (0.001, "ird"): 70.0}, url)
    here = {"eta": {"low": 0.01, "high": 0.1, "log": True}, "distillation": ["ird"], "E_t": [2, 9, 4]}
    found = points(space_of(here, algorithm="random", samples=5), stored)
    assert found == [
        {"eta": 0.1, "distillation": "ird", "E_t": 9},  # the epochs were 10 there
        {"eta": 0.01, "distillation": "ird", "E_t": 9},
    ]
    of_er = space_of({"eta": [0.1]}, method="er", settings={})
    other = study(space_of({"eta": [0.1, 0.2]}), {(0.1,): 1.0}, url, "other")
    assert points(of_er, other) == [{"eta": 0.1}]
    back = study(of_er, {(0.1,): 1.0}, url, "er")
    assert points(space_of(HERE), back) == [{"eta": 0.05, "kappa": 0.2, "kappa_star": 0.01}]  # the middle ones


def test_scores_are_compared_within_the_values_that_were_selected_for(url: str) -> None:
    """A larger buffer raised every score; here every value of it gets the points."""
    before = space_of(AXES, selection={"per": ["buffer_size"]})
    scores = {(0.01, 0.1, 50): 50.0, (0.02, 0.1, 50): 40.0, (0.01, 0.2, 100): 90.0, (0.05, 0.2, 100): 92.0}
    found = points(space_of(AXES, selection={"per": ["buffer_size"]}), study(before, scores, url))
    assert found == [{"eta": 0.01, "kappa": 0.1}, {"eta": 0.05, "kappa": 0.2}, {"eta": 0.01, "kappa": 0.2}]
    assert POINTS == 3


def full(url: str, name: str = "before", **keys: Any) -> StoredStudy:
    space = space_of(HERE, **keys)
    record = StudyRecord.open(url, name, space)
    for number, trial in enumerate(space.trials()):
        finish(record, trial, 50.0 + 7 * number % 18)
    return StudyReader(url).study(name)


def begun(space: Space, url: str, earlier: str | None = "before", name: str = "s") -> StudyRecord:
    """As a search begins or continues with it."""
    given = taken(space, url, name, earlier) if earlier else None
    return StudyRecord.open(url, name, space, earlier=given)


def searched(record: StudyRecord, until: float = float("inf")) -> Simulated:
    assert record.earlier is not None
    return Simulation(record.earlier.leading(record.space), record, workers=1).run(until)


ALGORITHMS = {"random": 8, "qmc": 8, "tpe": 8, "grid": None, "auto": None}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_killed_search_goes_on_with_them_even_if_the_earlier_study_is_gone(algorithm: str, url: str) -> None:
    best = points(space_of(HERE), full(url))
    given = space_of(HERE, algorithm=algorithm, **({"samples": 8} if ALGORITHMS[algorithm] else {}))
    undisturbed = begun(given, url)
    order = list({trial.key: dict(trial.values) for trial in searched(undisturbed).order}.values())
    assert sorted(map(str, order[:3])) == sorted(map(str, best))
    for until in (30.0, 100.0):  # in the first point, and in a later one
        searched(begun(given, url, name="killed"), until)
    delete(url, "before")
    record = begun(given, url, name="killed")
    searched(record)
    assert set(record.entries) == set(undisturbed.entries)
    again = StudyRecord.open(url, "killed", given)  # without the flag
    assert again.earlier == undisturbed.earlier == Earlier("before", tuple(best))


def test_with_two_values_to_select_for_both_begin_with_them(url: str) -> None:
    full(url)
    record = begun(space_of({**HERE, "buffer_size": [50, 100]}, selection={"per": ["buffer_size"]}), url)
    order = searched(record, 200.0).order
    assert {trial.values["buffer_size"] for trial in order[:6]} == {50, 100}
    assert len({tuple(trial.values[name] for name in HERE) for trial in order[:6]}) == 3


def refusal(space: Space, url: str, earlier: str, name: str = "s") -> str:
    with pytest.raises(Co2lError) as error:
        begun(space, url, earlier, name)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_begun_with_is_one_line_and_writes_nothing(url: str) -> None:
    space = space_of(HERE)
    full(url)
    assert "cannot begin with itself" in refusal(space, url, "s")
    assert "unknown study 'befor'; did you mean 'before'?" in refusal(space, url, "befor")
    StudyRecord.open(url, "t", of_space(space, 2))
    assert "test accuracies guide no search" in refusal(space, url, "t")
    assert "study 'before' varied none of tau" in refusal(space_of({"tau": [0.1, 0.2]}), url, "before")
    StudyRecord.open(url, "empty", space)
    assert "no finished configuration" in refusal(space, url, "empty")
    greedy = space_of({"eta": [0.01], "kappa": [0.1, 0.2]}, selection={"protocol": "greedy"})
    assert "a greedy search" in refusal(greedy, url, "before")
    assert StudyReader(url).names() == ["before", "empty", "t"]


def test_nothing_is_taken_later_than_at_the_start(url: str) -> None:
    space = space_of(HERE)
    full(url)
    full(url, "another")
    finish(StudyRecord.open(url, "s", space), next(space.trials()))
    assert "was begun without an earlier one" in refusal(space, url, "before")
    assert begun(space, url, name="new").earlier is not None
    assert "was begun with points of 'before'" in refusal(space, url, "another", "new")
    fresh = taken(space, url, "new", "another", fresh=True)
    assert StudyRecord.open(url, "new", space, fresh=True, earlier=fresh).earlier == fresh
    assert fresh.study == "another"


def test_a_misleading_study_costs_its_points_and_no_more(url: str) -> None:
    """Whatever they score, all other points come in the order in which they would have come without."""
    full(url)
    for algorithm in ("random", "qmc"):
        space = space_of(HERE, algorithm=algorithm, samples=11)
        led = {trial.key: None for trial in searched(begun(space, url, name=algorithm)).order}
        alone = StudyRecord.open(None, "s", space_of(HERE, algorithm=algorithm, samples=8))
        plain = {trial.key: None for trial in Simulation(alone.space, alone, workers=1).run().order}
        assert set(plain) <= set(led)
