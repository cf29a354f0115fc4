"""What Optuna's samplers suggest: better points with time, the same ones again from the same record."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from spaces import finish, space_of

from co2l.errors import Co2lError
from co2l.search.algorithms.registry import ALGORITHMS, algorithm_of, optuna_sampler
from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space


def hilly_space(algorithm: Any = "tpe") -> Space:
    axes = {"eta": [0.001 * 2**i for i in range(8)], "kappa": [0.1 * i for i in range(1, 9)], "buffer_size": [50, 100]}
    return space_of(axes, algorithm=algorithm, samples=30, selection={"per": ["buffer_size"]})


def suggest(record: StudyRecord, seed: int) -> Iterator[Any]:
    return iter(algorithm_of(record.space).suggest(record.entries.values(), (), seed))


def finish_point(record: StudyRecord, point: dict[str, Any], score: float) -> None:
    for trial in record.space.trials_of(point):
        finish(record, trial, score)


def hill(point: dict[str, Any]) -> float:
    """Best at the sixth eta and the third kappa; a larger buffer adds more than both."""
    eta = [0.001 * 2**i for i in range(8)].index(point["eta"])
    return 50 - 3 * abs(eta - 5) - 30 * abs(point["kappa"] - 0.3) + point["buffer_size"]


def climb(space: Space, seed: int, points: int = 30) -> list[dict[str, Any]]:
    record = StudyRecord.open(None, "s", space)
    drawn: list[dict[str, Any]] = []
    while len(drawn) < points:
        point = next(p for p in suggest(record, seed) if p not in drawn)
        drawn.append(point)
        finish_point(record, point, hill(point))
    return drawn


def test_tpe_climbs_for_every_group() -> None:
    drawn = climb(hilly_space(), seed=1)
    assert sum(point["buffer_size"] == 50 for point in drawn) == 15  # or the larger buffer would take all
    for size in (50, 100):
        scores = [hill(point) - size for point in drawn if point["buffer_size"] == size]
        assert max(scores) >= 47  # chance reaches this at 5 of 64 points
        assert sum(scores[8:]) / len(scores[8:]) > sum(scores[:4]) / 4


def test_a_gaussian_process_climbs() -> None:
    drawn = climb(hilly_space({"name": "gp", "n_startup_trials": 4}), seed=1, points=12)
    assert max(hill(point) - point["buffer_size"] for point in drawn) >= 47


@pytest.mark.skipif(importlib.util.find_spec("cmaes") is None, reason="the optional package cmaes is not installed")
def test_cma_es_adapts_although_each_suggestion_starts_afresh() -> None:
    """Its state is rebuilt by replaying the search: the mean of what it draws moves to the peak."""
    axes = {name: {"low": 0.001, "high": 1.0} for name in ("eta", "kappa", "tau")}
    space = space_of(axes, algorithm={"name": "cmaes", "popsize": 6}, samples=48)
    record = StudyRecord.open(None, "s", space)
    distances = []
    for _ in range(48):
        point = next(suggest(record, seed=2))
        distances.append(sum(abs(point[name] - 0.8) for name in axes))
        finish_point(record, point, 90 - 30 * distances[-1])
    assert sum(distances[-12:]) < 0.5 * sum(distances[:12])


@pytest.mark.parametrize("algorithm", ["tpe", "nsgaii"])
def test_suggestions_depend_on_the_record_and_the_seed_alone(algorithm: str) -> None:
    space = hilly_space(algorithm)
    suggested = []
    for seed in (3, 3, 4):
        record = StudyRecord.open(None, "s", space)
        for i in range(14):
            point = {"eta": 0.001 * 2 ** (i % 8), "kappa": 0.1 * (1 + i % 7), "buffer_size": 50}
            finish_point(record, point, hill(point))
        suggested.append([[next(suggest(record, seed)) for _ in range(2)], [next(suggest(record, seed + 10))]])
    assert suggested[0] == suggested[1]
    assert suggested[0][0][0] == suggested[0][0][1]
    assert suggested[0] != suggested[2]


def test_tpe_draws_ranges_and_words_and_learns_from_what_was_stopped() -> None:
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "E_t": {"low": 2, "high": 9}, "supcon": ["asymmetric"]}
    space = space_of(axes, algorithm="tpe", samples=20, early_stop={"rungs": [1]})
    record = StudyRecord.open(None, "s", space)
    for i in range(20):
        point = next(suggest(record, seed=0))
        assert 0.001 <= point["eta"] <= 0.1
        assert point["E_t"] in range(2, 10)
        (trial,) = space.trials_of(point)
        if i % 3 == 1:
            finish(record, trial, 100 * point["eta"])
            continue
        record.begin(trial)
        if i % 3 == 0:
            record.rung(trial, 1, 100 * point["eta"])
            record.prune(trial, Cost())
        elif i == 2:
            record.interrupt(trial, Cost())
    assert len({entry.values["eta"] for entry in record.entries.values()}) == 20


def test_a_quasi_random_sequence_covers_every_group_alike() -> None:
    """The first eight points of Sobol's sequence hit each eighth of an axis once; here they do for each buffer size."""
    axes = {"eta": {"low": 0.0001, "high": 0.8001}, "buffer_size": [50, 100]}
    space = space_of(axes, algorithm={"name": "qmc", "scramble": True}, samples=16, selection={"per": ["buffer_size"]})
    points = iter(algorithm_of(space).suggest((), (), 7))
    drawn = [next(points) for _ in range(16)]
    for size in (50, 100):
        eighths = [int((float(point["eta"]) - 0.0001) / 0.1) for point in drawn if point["buffer_size"] == size]
        assert sorted(eighths) == list(range(8))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ("tpee", ["unknown algorithm 'tpee'", "did you mean 'tpe'?"]),
        ({"name": "gp", "n_startup": 8}, ["unknown option 'n_startup'", "did you mean 'n_startup_trials'?"]),
        ({"name": "gp", "n_startup_trials": "many"}, ["n_startup_trials is 'many'", "a whole number"]),
        ({"name": "gp", "n_startup_trials": True}, ["n_startup_trials is True", "a whole number"]),
        ({"name": "qmc", "qmc_type": "sobel"}, ["qmc_type"]),
        ({"name": "random", "n": 1}, ["'random' takes no options", "remove n"]),
        ({"options": 1}, ["the key 'algorithm.name' is missing"]),
        (3, ["algorithm", "a name, as tpe"]),
    ],
)
def test_wrong_names_and_options_are_one_line(algorithm: Any, said: list[str]) -> None:
    with pytest.raises(Co2lError) as error:
        space_of(algorithm=algorithm, samples=5)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith("space.yaml")
    for part in said:
        assert part in line


def test_a_missing_package_is_one_line_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "future", optuna_sampler("TPESampler", "no_such_package"))
    with pytest.raises(Co2lError, match=r"'future' needs the package no_such_package.*pip install no_such_package"):
        space_of(algorithm="future", samples=5)


def test_options_reach_the_sampler() -> None:
    """With as many points at random as samples, the model of `tpe` is never asked: both draw the same."""
    early = climb(hilly_space({"name": "tpe", "n_startup_trials": 2}), seed=5, points=12)
    late = climb(hilly_space({"name": "tpe", "n_startup_trials": 40}), seed=5, points=12)
    assert early[:2] == late[:2]
    assert early != late
