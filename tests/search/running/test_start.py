"""Points that are known to be good are tried before all others, by every algorithm, and change nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spaces import space_of

from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulated, Simulation
from co2l.search.space.evaluation import of_space
from co2l.search.space.space import Space

AXES: dict[str, Any] = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2, 0.5], "kappa_star": [0.01, 0.05]}
START = [{"eta": 0.05, "kappa": 0.5, "kappa_star": 0.05}, {"eta": 0.02, "kappa": 0.2, "kappa_star": 0.01}]
DRAWN = {"random": 8, "qmc": 8, "tpe": 8, "grid": None, "thaw": None, "auto": None}


def space(algorithm: str, **keys: Any) -> Space:
    samples = {"samples": DRAWN[algorithm]} if DRAWN[algorithm] else {}
    return space_of(AXES, algorithm=algorithm, start=START, **samples, **keys)


def searched(given: Space, record: StudyRecord | None = None, until: float = float("inf")) -> Simulated:
    return Simulation(given, record or StudyRecord.open(None, "s", given), workers=1).run(until)


@pytest.mark.parametrize("algorithm", DRAWN)
def test_they_come_first_and_count(algorithm: str) -> None:
    record = StudyRecord.open(None, "s", given := space(algorithm))
    begun = {trial.key: dict(trial.values) for trial in searched(given, record).order}
    order = list(begun.values())
    assert [point in START for point in order[:2]] == [True, True]
    assert len(order) == len(record.entries) == (DRAWN[algorithm] or 18)
    assert {entry.status for entry in record.entries.values()} == {"done"}


@pytest.mark.parametrize("algorithm", DRAWN)
def test_a_killed_search_continues_as_if_nothing_had_happened(algorithm: str, tmp_path: Path) -> None:
    given = space(algorithm)
    expected = StudyRecord.open(None, "s", given)
    searched(given, expected)
    url = f"sqlite:///{tmp_path}/study.db"
    for until in (30.0, 100.0):  # in the first point, and in a later one
        searched(given, StudyRecord.open(url, "s", given), until)
    record = StudyRecord.open(url, "s", given)
    searched(given, record)
    assert set(record.entries) == set(expected.entries)


def test_with_fewer_samples_than_points_the_first_of_them_are_tried() -> None:
    record = StudyRecord.open(None, "s", given := space_of(AXES, algorithm="tpe", start=START, samples=1))
    searched(given, record)
    assert [dict(entry.values) for entry in record.entries.values()] == START[:1]


def test_an_axis_that_is_left_out_takes_all_its_values() -> None:
    given = space_of(AXES, start=[{"eta": 0.05, "kappa": 0.5}, {"eta": 0.05}])
    points = [tuple(point[name] for name in AXES) for point in given.starting_points]
    assert points[:2] == [(0.05, 0.5, 0.01), (0.05, 0.5, 0.05)]
    assert sorted(points) == sorted((0.05, kappa, star) for kappa in AXES["kappa"] for star in AXES["kappa_star"])


def test_a_value_of_a_range_is_taken_as_its_setting_takes_it() -> None:
    axes = {"eta": {"low": 0.01, "high": 2.0, "log": True}, "E_t": {"low": 2, "high": 9}}
    (point,) = space_of(axes, algorithm="random", samples=3, start=[{"eta": 1, "E_t": 3}]).starting_points
    assert [(value, type(value)) for value in point.values()] == [(1.0, float), (3, int)]


def test_it_is_the_same_study_and_the_same_evaluation() -> None:
    plain, given = space_of(AXES), space("grid")
    assert given.digest == plain.digest
    assert of_space(given, 2).digest == of_space(plain, 2).digest
    only = given.with_settings({"kappa": 0.1})
    assert [point["kappa"] for point in only.starting_points] == [0.1, 0.1]
