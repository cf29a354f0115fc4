"""Of very many points a sampler is shown some: always the same ones of the same record, and the best among them."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState
from spaces import space_of

from co2l.search.algorithms.registry import ALGORITHMS, Algorithm, algorithm_of, optuna_sampler
from co2l.search.record.entries import Entry, Status
from co2l.search.space.space import Configuration, Space
from co2l.testing import algorithms as promises

AXES: dict[str, Any] = {"eta": {"low": 0.001, "high": 1.0, "log": True}, "tau": {"low": 0.05, "high": 1.0}}


class Spy(optuna.samplers.RandomSampler):
    """Takes down what it is shown, at every point that it is asked for."""

    shown: list[list[FrozenTrial]] = []  # noqa: RUF012 (emptied by every test)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        Spy.shown.append([each for each in study.get_trials(deepcopy=False) if each.number != trial.number])
        return super().infer_relative_search_space(study, trial)


@pytest.fixture(autouse=True)
def spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna.samplers, "Spy", Spy, raising=False)
    monkeypatch.setitem(ALGORITHMS, "spy", optuna_sampler("Spy"))
    monkeypatch.setitem(ALGORITHMS, "noting_spy", optuna_sampler("Spy", stateful=True))
    Spy.shown.clear()


class Search:
    """A record that grows point by point; what was drawn is in it at once."""

    def __init__(self, space: Space) -> None:
        self.space, self.entries = space, dict[str, Entry]()

    def add(self, point: Any, status: Status, score: float | None = None) -> None:
        for trial in self.space.trials_of(point):
            rungs = {1: score} if status == "pruned" and score is not None else {}
            found = score if status == "done" else None
            self.entries[trial.key] = Entry(trial.key, trial.values, trial.seed, status, found, rungs=rungs)

    def tried(self) -> dict[Configuration, None]:
        return dict.fromkeys(self.space.configuration(each.values) for each in self.entries.values())

    def ask(self, algorithm: Algorithm) -> dict[str, Any]:
        return dict(next(iter(algorithm.suggest(self.entries.values(), self.tried(), 7))))


def filled(algorithm: str, ended: int) -> Search:
    search, rng = Search(space_of(AXES, algorithm=algorithm, samples=20_000)), random.Random(0)
    for number in range(ended):
        status: Status = "pruned" if number % 5 == 4 else "done"
        search.add(search.space.draw(rng), status, rng.gauss(50, 10))
    return search


def etas(trials: Iterable[FrozenTrial], state: TrialState) -> set[float]:
    return {trial.params["eta"] for trial in trials if trial.state == state}


def test_of_1300_points_the_best_and_a_sample_of_the_others_are_shown() -> None:
    search, rng = filled("spy", 1300), random.Random(1)
    for status in ("failed", "failed", "running", "running", "running"):
        search.add(search.space.draw(rng), status)
    search.ask(algorithm_of(search.space))
    ended = [each for each in Spy.shown[0] if each.state.is_finished()]
    assert len(ended) == 1000
    done = [entry for entry in search.entries.values() if entry.status == "done"]
    best = sorted(done, key=lambda entry: -(entry.score or 0.0))[:100]
    assert {entry.values["eta"] for entry in best} <= etas(ended, TrialState.COMPLETE)
    running = {entry.values["eta"] for entry in search.entries.values() if entry.status == "running"}
    assert etas(Spy.shown[0], TrialState.RUNNING) == running
    assert etas(Spy.shown[0], TrialState.FAIL) == set()
    order = {entry.values["eta"]: position for position, entry in enumerate(search.entries.values())}
    positions = [order[each.params["eta"]] for each in ended]
    assert positions == sorted(positions)
    # 260 of 1,300 were stopped: a fair sample of 900 holds 180 of them, give or take 4 standard deviations
    assert 140 <= len(etas(ended, TrialState.PRUNED)) <= 240


def test_one_more_point_changes_little_of_what_is_shown() -> None:
    search, rng = filled("spy", 1300), random.Random(2)
    algorithm, before = algorithm_of(search.space), set[float]()
    for number in range(12):
        search.ask(algorithm)
        now = {trial.params["eta"] for trial in Spy.shown[-1]}
        assert len(now - before) <= (2 if number else 1000)  # the new one, and one for it among the best
        search.add(search.space.draw(rng), "done", rng.gauss(50, 10))
        before = now


def test_up_to_1000_points_all_are_shown() -> None:
    search = filled("spy", 1000)
    search.ask(algorithm_of(search.space))
    assert [trial.params["eta"] for trial in Spy.shown[0]] == [each.values["eta"] for each in search.entries.values()]


def test_what_has_ended_is_replayed_once() -> None:
    """A sampler that leaves notes was taken through the whole search before every suggestion."""
    search = Search(space_of(AXES, algorithm="noting_spy", samples=20_000))
    algorithm = algorithm_of(search.space)
    for number in range(30):
        search.add(search.ask(algorithm), "done", float(number))
    assert len(Spy.shown) == 30 + 29  # each suggestion, and each point once


def test_a_point_that_has_not_ended_is_replayed_with_those_behind_it() -> None:
    search = Search(space_of(AXES, algorithm="noting_spy", samples=20_000))
    algorithm = algorithm_of(search.space)
    for number in range(10):
        search.add(search.ask(algorithm), "running" if number == 6 else "done", float(number))
    Spy.shown.clear()
    search.ask(algorithm)
    assert len(Spy.shown) == 4 + 1  # points 6 to 9, and the suggestion


@pytest.mark.parametrize(
    ("name", "options"),
    [("cmaes", {"popsize": 6}), ("nsgaii", {"population_size": 6})],
)
def test_a_sampler_with_notes_misses_nothing_of_what_it_is_not_shown(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads its last generations and the best: those are shown, so 60 points are as good as all 120."""
    if name == "cmaes" and importlib.util.find_spec("cmaes") is None:
        pytest.skip("the optional package cmaes is not installed")
    sampler = {"cmaes": "CmaEsSampler", "nsgaii": "NSGAIISampler"}[name]
    drawn = []
    for most in (60, 1000):
        monkeypatch.setitem(ALGORITHMS, "short", optuna_sampler(sampler, stateful=True, most=most))
        search = Search(space_of(AXES, algorithm={"name": "short", **options}, samples=200))
        algorithm, points = algorithm_of(search.space), []
        for _ in range(120):
            points.append(search.ask(algorithm))
            search.add(points[-1], "done", 50 - 30 * abs(points[-1]["eta"] - 0.3) - 10 * abs(points[-1]["tau"] - 0.6))
        drawn.append(points)
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "algorithm",
    [{"name": "few_tpe", "n_startup_trials": 2}, {"name": "few_nsgaii", "population_size": 2}],
)
def test_a_search_of_many_points_remembers_nothing_that_matters(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(ALGORITHMS, "few_tpe", optuna_sampler("TPESampler", most=4))
    monkeypatch.setitem(ALGORITHMS, "few_nsgaii", optuna_sampler("NSGAIISampler", stateful=True, most=4))
    promises.remembers_nothing_that_matters(algorithm, tmp_path)
    promises.continues_after_kills_as_if_nothing_had_happened(algorithm, tmp_path)
